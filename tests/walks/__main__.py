"""Walks tables that nobody here made, chosen at random from packages, from `schema init` to a verified release.

    python -m tests.walks FOLDER [--tables 40] [--seed 1] [--cpu 90]

Every file below FOLDER that Sudare can read is a table that may be chosen; archives of files are unpacked first, and
pickles are never opened. No draft is edited: it is confirmed as it stands, checked on its table, published by the
method that `choose` names for a question drawn at random, and verified. A table is

- published: all five steps succeeded;
- refused: `schema init` said in one line why nothing can be made of it (no line of names, nothing to publish, ...);
- failed: anything else. The line says at which step, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import sys
import tarfile
import tempfile
import traceback
import zipfile
from collections import Counter
from pathlib import Path

ENDINGS = (".csv", ".tsv", ".csv.gz", ".xls", ".xlsx", ".parquet", ".feather", ".jsonl")
ARCHIVES = (".tar.gz", ".zip", ".whl")
QUESTIONS = (
    ("--need", "queries", "--truthful", "no"),
    ("--need", "records", "--truthful", "no"),
    ("--need", "counts", "--truthful", "no"),
    ("--need", "records", "--truthful", "yes"),
)
ANSWERED = ("--people-may-repeat", "no", "--collector", "trusted", "--hide-number", "no")
LARGEST_FILE = 30_000_000  # bytes: the walk is about kinds of tables, not about size


class StepFailedError(Exception):
    """A command of the walk did not succeed."""


def unpack_archives(folder: Path, place: Path) -> list[Path]:
    """Unpack archives of files, and those in them; give the folders that hold tables."""
    folders, waiting = [folder], [folder]
    while waiting:
        current = waiting.pop()
        for path in sorted(path for path in current.rglob("*") if path.name.endswith(ARCHIVES)):
            target = place / f"archive-{len(folders)}"
            if path.name.endswith(".tar.gz"):
                with tarfile.open(path) as archive:
                    archive.extractall(target, filter="data")
            else:
                with zipfile.ZipFile(path) as packed:
                    packed.extractall(target)
            folders.append(target)
            waiting.append(target)
    return folders


def find_tables(folders: list[Path]) -> list[tuple[str, Path]]:
    """Find the tables, each under the name that it has in its package; tests of a package are not its tables."""
    found = {}
    for folder in folders:
        for path in folder.rglob("*"):
            name = path.relative_to(folder)
            is_test = any(part in ("tests", "test", "results") or part.startswith(".") for part in name.parts)
            if path.name.endswith(ENDINGS) and not is_test and 0 < path.stat().st_size < LARGEST_FILE:
                found[str(name)] = path
    return sorted(found.items())


def run(*arguments: object) -> str:
    """Run a command; what it prints if it succeeds."""
    from sudare.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    if code != 0:
        step = " ".join(map(str, arguments[:2]))
        raise StepFailedError(f"{step}: {err.getvalue().strip() or out.getvalue()[-300:].strip()}")
    return out.getvalue()


def walk(table: Path, question: tuple[str, ...]) -> str:
    """Walk one table in the working directory; say what came of it."""
    try:
        run("schema", "init", table, "--out", "schema.toml")
    except StepFailedError as refusal:
        line = str(refusal)
        return f"refused  {line}" if line.count("\n") == 0 else f"failed   {line}"
    run("schema", "confirm", "schema.toml", "--yes")
    run("schema", "check", table, "--schema", "schema.toml")
    asked = ("choose", "schema.toml", *question, *ANSWERED, "--rows", "1000", "--data", table)
    advice = json.loads(run(*asked, "--recipe", "recipe.toml", "--json"))
    parameters = advice["recommended"]
    method = parameters.pop("publish")
    lists = [value for value in parameters.values() if isinstance(value, list)]
    if any("," in name or name != name.strip() for names in lists for name in names):  # what no option can name
        run("run", "recipe.toml")
        run("verify", *Path("schema-releases").glob(f"{method}*/"))
        return f"published {method}"
    options = [
        part
        for key, value in parameters.items()
        for part in (f"--{key.replace('_', '-')}", ",".join(value) if isinstance(value, list) else str(value))
    ]
    run("publish", method, table, "--schema", "schema.toml", *options, "--out", "release")
    run("verify", "release")
    return f"published {method}"


def walk_apart(table: Path, question: tuple[str, ...], cpu: int) -> tuple[str, float]:
    """Walk one table in a process of its own, which may use so many CPU seconds; also give how many it used."""
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.chdir(folder)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
            try:
                said = walk(table, question)
            except StepFailedError as failure:
                said = f"failed   {failure}"
            except BaseException:
                said = f"failed   {traceback.format_exc().strip().splitlines()[-1]}"
            os.write(writing, said.encode()[:60_000])
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as result:
            said = result.read().decode(errors="replace")
        _, _, used = os.wait4(child, 0)
    return said or f"failed   used more than {cpu} CPU s", used.ru_utime + used.ru_stime


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", type=int, default=40, help="how many are chosen")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpu", type=int, default=90, help="CPU seconds that a table may take")
    chosen = parser.parse_args(argv)
    rng = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory() as place:
        tables = find_tables(unpack_archives(chosen.folder, Path(place)))
        sample = rng.sample(tables, min(chosen.tables, len(tables)))
        ends: Counter[str] = Counter()
        for name, path in sample:
            said, used = walk_apart(path.resolve(), rng.choice(QUESTIONS), chosen.cpu)
            ends[said.split()[0]] += 1
            print(f"{said.replace(str(path.parent.resolve()) + '/', '')}   {name} ({used:.1f} CPU s)", flush=True)
    told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    print(f"{len(sample)} of {len(tables)} tables walked: {told}")
    return 1 if ends["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
