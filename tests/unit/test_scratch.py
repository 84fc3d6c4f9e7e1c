"""Temporary rows: readable by their owner only, where the steward allows them, and gone after every kind of end."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sudare as sd
from sudare import scratch
from sudare.errors import ParameterError, SourceError
from sudare.schema import Attribute, Values
from sudare.scratch import LOCK, ScratchDirectory, find_place, hold_name, make_scratch, remove_abandoned
from tests.processes import start

SCHEMA = sd.Schema(name="people", attributes=(Attribute(name="氏名", domain=Values(("髙橋", "佐藤"))),))
TABLE = "氏名\n" + "髙橋\n佐藤\n" * 50

# Each holds temporary rows and says so; then it waits to be killed.
HOLDERS = {
    "a transcoded table": """
import sys, pathlib, sudare as sd
from sudare.schema import Attribute, Values
schema = sd.Schema(name="people", attributes=(Attribute(name="氏名", domain=Values(("髙橋", "佐藤"))),))
source = sd.open("people.csv", schema, encoding="cp932", spill_directory=".")
""",
    "a release half written": """
from pathlib import Path
from sudare.atomic import new_directory
block = new_directory(Path("release"))
(block.__enter__() / "records.csv").write_text("half")
""",
    "a file half written": """
from pathlib import Path
from sudare.atomic import new_file
block = new_file(Path("page.html"))
block.__enter__().write_text("half")
""",
}
WAIT = "\nimport sys\nprint('holding', flush=True)\nsys.stdin.read()\n"


def temporary(place: Path) -> list[Path]:
    return sorted(place.glob(".sudare-*"))


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_kill_9_leaves_is_removed_by_the_next_run_and_not_before(holder: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(TABLE.encode("cp932"))
    process = start([sys.executable, "-c", HOLDERS[holder] + WAIT], cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    held = temporary(tmp_path)
    while_alive = remove_abandoned(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    left = temporary(tmp_path)
    with make_scratch(tmp_path) as own:
        after = temporary(tmp_path)

    assert (len(held), while_alive, left) == (1, [], held)
    assert after == [own]


def test_only_the_owner_can_enter_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with make_scratch(tmp_path) as scratch:
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (scratch, scratch / LOCK)]
    finally:
        os.umask(before)

    assert modes == [0o700, 0o600]
    assert temporary(tmp_path) == []


def test_a_directory_made_by_another_process_a_moment_ago_is_made_again_when_it_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, removed = os.mkdir, []

    def overtake(path: Path, mode: int) -> None:
        real(path, mode)
        if not removed:  # another run tidies up between the directory and its lock
            removed.extend(remove_abandoned(tmp_path))

    monkeypatch.setattr(os, "mkdir", overtake)
    with make_scratch(tmp_path) as scratch:
        names = [path.name for path in temporary(tmp_path)]

    assert len(removed) == 1
    assert names == [scratch.name]


def test_a_removal_that_is_killed_half_way_is_finished_later(tmp_path: Path) -> None:
    made = make_scratch(tmp_path)
    (made.path / "rows").mkdir()
    (made.path / "rows" / "spill").write_text("row")
    assert made._lock is not None
    os.close(made._lock)  # as the system does when the process dies

    assert remove_abandoned(tmp_path) == [made.path.name]
    assert temporary(tmp_path) == []


def test_links_and_strangers_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / LOCK).touch()
    (tmp_path / ".sudare-1.rows").symlink_to(tmp_path / "mine")
    (tmp_path / ".sudare-2.rows").write_text("a file")
    (tmp_path / ".sudare-3.rows").mkdir()
    (tmp_path / ".sudare-3.rows" / "kept").touch()  # without a lock nobody knows whether it is in use

    assert remove_abandoned(tmp_path) == []
    assert (tmp_path / "mine" / LOCK).exists()


def test_rows_stand_where_the_steward_said_or_beside_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out" / "release"
    out.parent.mkdir()
    chosen = [find_place("spill", out), find_place(None, out), find_place(None)]
    monkeypatch.setenv("SUDARE_SPILL_DIRECTORY", "named")

    assert chosen == [Path("spill"), out.parent, tmp_path]
    assert find_place(None, out) == Path("named")
    assert find_place("spill", out) == Path("spill")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table, and no place that can be written to."""
    (tmp_path / "people.csv").write_bytes(TABLE.encode("cp932"))
    (tmp_path / "utf8.csv").write_text(TABLE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    return tmp_path


def test_without_a_place_nothing_is_written(nowhere: Path) -> None:
    with sd.open("utf8.csv", SCHEMA) as source:
        counted = source.count().total
        written = temporary(nowhere)

    assert (counted, written) == (100, [])


def test_without_a_place_a_text_that_must_be_rewritten_is_refused(nowhere: Path) -> None:
    with pytest.raises(SourceError, match=r"people\.csv must be rewritten as UTF-8.*name a spill directory"):
        sd.open("people.csv", SCHEMA)


def test_a_named_place_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_SPILL_DIRECTORY", "nowhere at all")
    with pytest.raises(ParameterError, match=r"spill directory \(nowhere at all\) must be a directory that exists"):
        sd.open("people.csv", SCHEMA)


@pytest.mark.parametrize("make", [make_scratch, lambda place: hold_name(place / "release")])
def test_an_interrupt_at_any_step_leaves_no_directory_behind(
    make: Callable[[Path], ScratchDirectory], tmp_path: Path
) -> None:
    """Ctrl-C after the so-manieth line of this module, for every line that making and removing one takes."""
    steps = 0
    while True:
        place = tmp_path / str(steps)
        place.mkdir()
        is_struck = strike_after(steps, lambda place=place: make(place).remove())
        scratch._remove_live()  # what the end of the process does

        assert list(place.iterdir()) == []
        if not is_struck:
            break
        steps += 1

    assert steps > 20


def strike_after(lines: int, work: Callable[[], object]) -> bool:
    """Press Ctrl-C when so many lines of the module have run; tell whether it came to that."""
    left, struck = lines, False

    def follow(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left, struck
        if frame.f_code.co_filename != scratch.__file__:
            return None
        if event == "line" and not struck:
            left -= 1
            if left < 0:
                struck = True
                signal.raise_signal(signal.SIGINT)
        return follow

    before = sys.gettrace()
    try:
        sys.settrace(follow)
        work()
    except KeyboardInterrupt:
        assert struck
    finally:
        sys.settrace(before)
    return struck
