"""Plant every fault in a copy of the source, run the tests that must see it, and tell those that nobody saw."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.mutants.faults import FAULTS, Fault, planted

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TESTS_FAILED = 1  # the exit code of pytest


@dataclass(frozen=True, kw_only=True)
class Run:
    """How tests ended on a copy of the source."""

    code: int
    failed: tuple[str, ...]
    output: str


def run_tests(tests: list[str], place: Path, *, everything: bool = False) -> Run:
    """Run tests against the source in `place`; to the first failure, or all of them."""
    report = place / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", f"--junitxml={report}", *tests]
    given = {
        **os.environ,
        "PYTHONPATH": str(place / "src"),
        "SUDARE_HYPOTHESIS": "mutants",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        command if everything else [*command, "-x"], cwd=ROOT, env=given, capture_output=True, text=True, check=False
    )
    cases = ElementTree.parse(report).iter("testcase") if report.exists() else ()
    failed = tuple(case.get("name", "") for case in cases if case.find("failure") is not None)
    return Run(code=done.returncode, failed=failed, output=done.stdout + done.stderr)


def copy_source(place: Path) -> Path:
    """Copy the source with its compiled files: only what is planted is compiled again."""
    return shutil.copytree(SOURCE, place / "src")


def try_fault(fault: Fault) -> tuple[bool, str]:
    """Tell whether a fault is seen, and what was seen or why not."""
    with tempfile.TemporaryDirectory() as folder:
        file = copy_source(Path(folder)) / "sudare" / fault.file
        file.write_text(planted(fault, file.read_text(encoding="utf-8")), encoding="utf-8")
        ended = run_tests(list(fault.tests), Path(folder))
    if ended.code == TESTS_FAILED and ended.failed:
        return True, ended.failed[0]
    if ended.code == 0:
        return False, "every test passed"
    return False, f"pytest ended with {ended.code}: {ended.output.strip()[-300:]}"


def check_tests(faults: list[Fault]) -> str:
    """Run all named tests on the source as it is; they must pass, or a failure tells nothing."""
    tests = sorted({test for fault in faults for test in fault.tests})
    with tempfile.TemporaryDirectory() as folder:
        copy_source(Path(folder))
        ended = run_tests(tests, Path(folder), everything=True)
    return "" if ended.code == 0 else ended.output


def main() -> int:
    """Try the faults that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of faults (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    asked = parser.parse_args()
    unknown = set(asked.names) - {fault.name for fault in FAULTS}
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    faults = [fault for fault in FAULTS if not asked.names or fault.name in asked.names]
    print(f"the tests that {len(faults)} faults must not survive, on the source as it is ...", flush=True)
    if failed := check_tests(faults):
        print(failed)
        return 1
    survivors = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for fault, (is_seen, what) in zip(faults, pool.map(try_fault, faults), strict=True):
            survivors += not is_seen
            print(f"{'caught  ' if is_seen else 'SURVIVED'}  {fault.name}: {what}", flush=True)
    print(f"{len(faults) - survivors} of {len(faults)} faults were caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
