"""Build the wheel, then run the demo and the smoke suite from it: on every Python, with old and with new packages.

    python -m tests.matrix [--python 3.11] [--set lowest]

Needs Python 3.11 with pip and a package index, nothing else. Everything is made in `.matrix/`; an environment whose
bounds have not changed is used again. Prints one line for every combination; the exit code is 1 if one failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.matrix.bounds import Bound, declared, lowest, order

ROOT = Path(__file__).resolve().parents[2]
MADE = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13")
# The plain sets hold what `pip install sudare` brings and no more, so that a package which is imported but not declared
# is found. The sets with extras add the frames that `sudare.open` takes and the packages that maps need.
SETS = ("lowest", "newest", "lowest+extras", "newest+extras")
FRAMES = ("pandas", "polars", "pyarrow")
PIP = ("-m", "pip", "-q", "-q", "--disable-pip-version-check", "--no-input")  # errors are shown, warnings are not
PYTEST = "-q -p no:cacheprovider --tb=short -r fEs --junitxml=../smoke.xml"
LINES_SHOWN = 40  # of the log of a combination that failed


class StepError(Exception):
    """A step of a combination that failed; the text says which."""


@dataclass(frozen=True, kw_only=True)
class Combination:
    """One Python with one set of packages, in an environment of its own."""

    python: str  # the program
    release: str  # 3.11.7
    packages: str  # one of SETS

    @property
    def folder(self) -> Path:
        """Where the environment, the log and what the demo makes are."""
        return MADE / f"{'.'.join(self.release.split('.')[:2])}-{self.packages}"

    @property
    def log(self) -> Path:
        """What the programs of this combination said."""
        return self.folder / "log.txt"

    @property
    def has_extras(self) -> bool:
        """Tell whether frames and maps belong to the set."""
        return self.packages.endswith("+extras")

    def program(self, name: str) -> str:
        """A program of the environment."""
        scripts, ending = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
        return str(self.folder / "env" / scripts / f"{name}{ending}")

    def run(self, step: str, *command: str, directory: Path | None = None) -> None:
        """Run a program outside the checkout, what it says at the end of the log.

        Error: StepError if it does not end with 0.
        """
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n--- {step}\n")
            log.flush()
            done = subprocess.run(command, cwd=directory or self.folder, env=environment(), stdout=log,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)  # fmt: skip
        if done.returncode:
            raise StepError(step)


def environment() -> dict[str, str]:
    """The variables of the caller, less those that would let a program see other packages than its own."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PIP_CONSTRAINT", "PYTEST_ADDOPTS")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    shown = {"SUDARE_DEBUG": "1"}  # all data are made up here, so a fault may show where it is
    return kept | shown | {"SUDARE_LANG": "en", "PYTHONUTF8": "1", "PYTHONNOUSERSITE": "1"}


# --- what is there --------------------------------------------------------------------------------------------------


def find_pythons() -> dict[str, tuple[str, str]]:
    """Programs by minor release, 3.12 -> (program, 3.12.1): those of MATRIX_PYTHONS, of PATH, of pyenv, and this one.

    A program that does not start is passed over, as a shim of pyenv for a release that is not chosen.

    Error: StepError if a program that MATRIX_PYTHONS names does not start.
    """
    named = [program for program in os.environ.get("MATRIX_PYTHONS", "").split(os.pathsep) if program]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    others = [f"python{minor}" for minor in PYTHONS] + [sys.executable]
    others += [str(program) for minor in PYTHONS for program in sorted(versions.glob(f"{minor}.*/bin/python"))]
    found: dict[str, tuple[str, str]] = {}
    for name in named + others:
        program = os.path.abspath(shutil.which(name) or name)
        release = ask_release(program)
        if release:
            found.setdefault(".".join(release.split(".")[:2]), (program, release))
        elif name in named:
            raise StepError(f"MATRIX_PYTHONS: {name} does not start, or has no venv and ensurepip")
    return dict(sorted(found.items(), key=lambda item: order(item[0]) or ()))


def ask_release(program: str) -> str:
    """The release of a Python that can make environments, or an empty text."""
    words = [program, "-c", "import ensurepip, platform, venv; print(platform.python_version())"]
    try:
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def build_wheel() -> Path:
    """Build the wheel of the checkout.

    Error: StepError, with what the builder said.
    """
    folder = MADE / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    words = [sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise StepError(f"the wheel was not built:\n{done.stdout}{done.stderr}")
    return wheels[0]


# --- one combination ------------------------------------------------------------------------------------------------


def prepare(combination: Combination, wheel: Path, bounds: Sequence[Bound]) -> None:
    """Make the environment if its bounds have changed, bring the newest packages up to date, and put the wheel in."""
    key = json.dumps([combination.release, *sorted({f"{bound.name}{bound.text}" for bound in bounds})])
    known = combination.folder / "made.json"
    is_new = not known.exists() or known.read_text(encoding="utf-8") != key
    if is_new:
        shutil.rmtree(combination.folder, ignore_errors=True)
        combination.folder.mkdir(parents=True)
    combination.log.write_text("", encoding="utf-8")
    if is_new:
        combination.run("make the environment", combination.python, "-m", "venv", "env")
    install = (combination.program("python"), *PIP, "install", "--only-binary", ":all:")
    if combination.packages.startswith("newest"):
        wanted = sorted({f"{bound.name}{bound.text}" for bound in bounds})
        combination.run("newest packages", *install, "--upgrade", "--upgrade-strategy", "eager", "pytest", *wanted)
    elif is_new:
        wanted = sorted({f"{bound.name}=={lowest(bound, available(combination, bound.name))}" for bound in bounds})
        combination.run("lowest packages", *install, "pytest", *wanted)
    combination.run("install the wheel", *install, "--force-reinstall", "--no-deps", str(wheel))
    known.write_text(key, encoding="utf-8")


def available(combination: Combination, name: str) -> list[str]:
    """The versions of a package that have a wheel for this Python and machine: pip lists them when none fits.

    So the lowest version on a Python that came out after it is the first one with a wheel for that Python.
    """
    words = [combination.program("python"), *PIP, "install", "--dry-run", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run([*words, f"{name}<0"], env=environment(), capture_output=True, text=True, check=False)
    found = re.search(r"\(from versions: ([^)]*)\)", done.stderr)
    if found is None:
        raise StepError(f"versions of {name} are not known:\n{done.stderr}")
    return found[1].split(", ")


def try_out(combination: Combination) -> str:
    """Run the demo and the smoke suite, both from the wheel, and tell what passed."""
    folder, python = combination.folder, combination.program("python")
    where = "import pathlib, sys, sudare; sys.exit(not pathlib.Path(sudare.__file__).is_relative_to(sys.prefix))"
    combination.run("sudare is imported from the wheel", python, "-I", "-c", where)
    if not combination.has_extras:
        shutil.rmtree(folder / "demo", ignore_errors=True)
        combination.run("demo", combination.program("sudare"), "demo", "--out", "demo")
    shutil.rmtree(folder / "copy", ignore_errors=True)
    shutil.copytree(ROOT / "tests" / "smoke", folder / "copy" / "smoke", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "copy" / "pytest.ini").write_text(f"[pytest]\naddopts = {PYTEST}\n", encoding="utf-8")
    combination.run("smoke suite", python, "-I", "-m", "pytest", "smoke", directory=folder / "copy")
    suite = ElementTree.parse(folder / "smoke.xml").getroot()[0].attrib
    if combination.has_extras and suite["skipped"] != "0":
        raise StepError("smoke suite: a test was skipped though its package is there")
    demo = "" if combination.has_extras else "demo and "
    return f"{demo}{int(suite['tests']) - int(suite['skipped'])} tests"


def installed(combination: Combination, names: Sequence[str]) -> str:
    """The versions of the packages whose bounds are tested."""
    code = "import importlib.metadata as m, sys; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
    words = [combination.program("python"), "-I", "-c", code, *dict.fromkeys(names)]
    return subprocess.run(words, env=environment(), capture_output=True, text=True, check=True).stdout.strip()


def report(combination: Combination, wheel: Path, bounds: Sequence[Bound]) -> bool:
    """Run one combination and print its line; what it said last as well, if it failed."""
    wanted = [bound for bound in bounds if belongs(bound, combination)]
    versions = ""
    try:
        prepare(combination, wheel, wanted)
        versions = installed(combination, [bound.name for bound in wanted])
        verdict = f"passed: {try_out(combination)}"
    except (StepError, ValueError) as error:
        verdict = f"FAILED: {error}"
    print(f"Python {combination.release}  {combination.packages:<13}  {verdict}  ({versions})", flush=True)
    if verdict.startswith("FAILED") and combination.log.exists():
        lines = combination.log.read_text(encoding="utf-8", errors="replace").splitlines()
        print(*lines[-LINES_SHOWN:], sep="\n", file=sys.stderr, flush=True)
    return verdict.startswith("passed")


def belongs(bound: Bound, combination: Combination) -> bool:
    """Tell whether a package belongs to the set of a combination."""
    return not bound.extra or (combination.has_extras and (bound.extra == "geo" or bound.name in FRAMES))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every combination that is asked for; 0 if all passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description="The wheel on every Python.")
    parser.add_argument("--python", action="append", metavar="3.N", help="only on this Python (may be repeated)")
    parser.add_argument("--set", action="append", choices=SETS, help="only with these packages (may be repeated)")
    chosen = parser.parse_args(arguments)
    try:
        pythons = find_pythons()
        wheel = build_wheel()
        bounds = declared(wheel)
    except (StepError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    for minor in chosen.python or PYTHONS:
        if minor not in pythons:
            print(f"Python {minor}  not found; name a program in MATRIX_PYTHONS to have it tested", flush=True)
    combinations = [
        Combination(python=program, release=release, packages=packages)
        for minor, (program, release) in pythons.items()
        if minor in (chosen.python or pythons)
        for packages in chosen.set or SETS
    ]
    passed = [report(combination, wheel, bounds) for combination in combinations]
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
