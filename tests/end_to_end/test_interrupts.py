"""Ctrl-C strikes at chosen steps of a command, not at chosen seconds: one line, exit code 1, nothing half-written.

An interrupt while Python itself starts, before the first line of `main`, is Python's own and not tried here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.end_to_end.conftest import Ran
from tests.processes import run, start

# Python runs a module of this name when it starts. It presses Ctrl-C in its own process: when an audited event of a
# name is announced the n-th time, or when a built-in function has returned the n-th time.
STRIKER = """
import _signal, os, sys

kind, name, number = os.environ["STRIKE"].split()
left = int(number)

def strike():
    global left
    left -= 1
    if not left:
        open(os.environ["STRUCK"], "w").close()
        _signal.raise_signal(_signal.SIGINT)

def hear(event, values):
    if event == name or (kind == "loading" and event == "import" and values[0] == name):
        strike()

def follow(frame, event, function):
    if event == "c_return" and function.__name__ == name:
        strike()

if kind == "after":
    sys.setprofile(follow)
else:
    sys.addaudithook(hear)
"""
ENTRIES = {
    "module": [sys.executable, "-m", "sudare"],
    "script": [str(Path(sys.executable).parent / "sudare")],
}
PUBLISH = (
    "publish", "microdata", "members.csv", "--schema", "members.toml", "--epsilon", "1/2",
    "--ledger", "members.ledger", "--out", "release",
)  # fmt: skip
LINE = "sudare: interrupted; no unfinished file was left, and what was spent stays recorded"


@pytest.fixture
def ready(place: Path, sudare: Callable[..., Ran]) -> set[str]:
    """A table, its schema and a ledger; the names of what stands there."""
    sudare("ledger", "create", "members.ledger", "--epsilon", "100")
    (place / "striker").mkdir()
    (place / "striker" / "sitecustomize.py").write_text(STRIKER)
    return {path.name for path in place.iterdir()}


def struck(place: Path, strike: str, entry: str = "module") -> tuple[int, list[str]]:
    """Publish, with an interrupt at a step; the exit code and the lines of standard error."""
    path = os.pathsep.join([str(place / "striker"), *filter(None, [os.environ.get("PYTHONPATH")])])
    given = {**os.environ, "PYTHONPATH": path, "STRIKE": strike, "STRUCK": str(place / "striker" / "struck")}
    done = run([*ENTRIES[entry], *PUBLISH], cwd=place, env=given)

    assert (place / "striker" / "struck").exists(), "the step never came"
    return done.returncode, done.stderr.strip().split("\n")


@pytest.mark.parametrize(
    ("entry", "module"),
    [
        ("module", "sudare.cli.interrupt"),  # the very first of ours: nothing holds the interrupt yet
        ("script", "sudare.cli.interrupt"),
        ("module", "click.core"),
        ("script", "sudare.text"),
        ("module", "numpy._core._multiarray_umath"),  # half loaded, it would abort the process
        ("script", "_duckdb"),
        ("module", "sqlite3"),
    ],
)
def test_an_interrupt_while_modules_load_is_one_line(place: Path, ready: set[str], entry: str, module: str) -> None:
    assert struck(place, f"loading {module} 1", entry) == (1, [LINE])
    assert {path.name for path in place.iterdir()} == ready


@pytest.mark.parametrize(
    "step",
    [
        "after start_new_thread 1",  # a query begins
        "after start_new_thread 5",
        "after acquire 40",  # a query runs, and is waited for
        "event sqlite3.connect 1",
        "after executemany 1",  # the spend is written, not yet committed
    ],
)
def test_an_interrupted_publish_leaves_nothing_but_its_spend(
    place: Path, ready: set[str], sudare: Callable[..., Ran], step: str
) -> None:
    assert struck(place, step) == (1, [LINE])
    assert {path.name for path in place.iterdir()} == ready
    assert sudare("ledger", "verify", "members.ledger").code == 0


CHANGES = ("mkdir", "rmdir", "link", "unlink", "rename", "replace", "fsync")


@contextlib.contextmanager
def pressing_after(number: int) -> Iterator[list[str]]:
    """Press Ctrl-C when the file system was changed the n-th time; the changes that were followed."""
    changes: list[str] = []

    def follow(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_return" and function.__module__ == "posix" and function.__name__ in CHANGES:
            changes.append(function.__name__)
            if len(changes) == number:
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(follow)
    try:
        yield changes
    finally:
        sys.setprofile(None)


def test_an_interrupt_after_any_change_of_the_file_system_leaves_a_whole_release_or_none(
    place: Path, ready: set[str], sudare: Callable[..., Ran]
) -> None:
    for number in itertools.count(1):
        with pressing_after(number) as changes:
            ran = sudare(*PUBLISH)
        if len(changes) < number:
            break
        left = {path.name for path in place.iterdir()} - ready
        is_whole = left == {"release"} and sudare("verify", "release").code == 0

        assert (ran.code, ran.err.strip()) == (1, LINE), changes[-1]
        assert is_whole or not left, changes[-1]
        shutil.rmtree(place / "release", ignore_errors=True)

    assert ran.code == 0
    assert number > 5
    assert sudare("ledger", "verify", "members.ledger").code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_real_signal_from_outside_ends_with_the_line_or_after_the_work(
    place: Path, ready: set[str], number: signal.Signals, code: int
) -> None:
    """`timeout`, systemd and Kubernetes send SIGTERM; the rows that a publish keeps beside its output stayed there."""
    (place / "spill").mkdir()
    publishing = start([*ENTRIES["module"], *PUBLISH, "--spill-directory", "spill"], cwd=place)
    while publishing.poll() is None and not any((place / "spill").iterdir()):  # until the table is being opened
        time.sleep(0.001)
    publishing.send_signal(number)
    _, err = publishing.communicate()
    is_whole = (place / "release" / "certificate.json").exists()

    assert (publishing.returncode, err.strip()) == ((0, "") if is_whole else (code, LINE))
    assert {path.name for path in place.iterdir()} == {*ready, "spill", *(["release"] if is_whole else [])}
    assert list((place / "spill").iterdir()) == []
