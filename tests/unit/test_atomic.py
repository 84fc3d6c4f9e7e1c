"""What is written appears whole or not at all: whatever is raised in between, the directory is as it was."""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path

import pytest

from sudare.atomic import (
    UNFINISHED,
    check_new_directory,
    check_new_file,
    is_unfinished,
    new_directory,
    new_file,
    removed_on_failure,
    replace_file,
    replaced_file,
    unfinished_file,
    write_new_file,
)
from sudare.errors import LedgerError, ReleaseError, SourceError

STOPS = [KeyboardInterrupt, SystemExit, MemoryError, ValueError]


def stopped(write, path: Path, stop: BaseException | type[BaseException]) -> None:
    """Fill a file or a directory, and be stopped before it is done."""
    with write(path) as temporary:
        (temporary / "table.csv" if temporary.is_dir() else temporary).write_text("half")
        if not temporary.is_dir():
            temporary.with_name(temporary.name + "-wal").write_text("a database writes beside its file")
        raise stop


def overtaken(write, path: Path, appear) -> None:
    """Fill a file or a directory while somebody else takes its name."""
    with write(path) as temporary:
        if not temporary.is_dir():
            temporary.write_text("ours")
        appear(path)


def listed(directory: Path) -> dict[str, str]:
    files = [file for file in directory.rglob("*") if file.is_file() and file.name != ".lock"]
    return {str(file.relative_to(directory)): file.read_text() for file in files}


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_new_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    with new_file(tmp_path / "page") as temporary:
        temporary.write_text("half")
        before = listed(tmp_path)

    assert [(is_unfinished(name), text) for name, text in before.items()] == [(True, "half")]
    assert listed(tmp_path) == {"page": "half"}


def test_temporary_names_match_their_pattern(tmp_path: Path) -> None:
    with new_file(tmp_path / "page") as temporary:
        temporary.touch()

        assert list(tmp_path.glob(UNFINISHED)) == [temporary.parent]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("write", [new_file, replaced_file, unfinished_file])
def test_whatever_is_raised_leaves_what_was_there(tmp_path: Path, write, stop) -> None:
    (tmp_path / "other").write_text("mine")
    with pytest.raises(stop):
        stopped(write, tmp_path / "page", stop)

    assert listed(tmp_path) == {"other": "mine"}


def test_a_name_that_is_taken_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("mine")
    with (
        pytest.raises(SourceError, match="page exists; choose another file"),
        new_file(tmp_path / "page", error=SourceError),
    ):
        pytest.fail("the block must not run")

    assert listed(tmp_path) == {"page": "mine"}


def test_a_link_that_leads_nowhere_takes_a_name_too(tmp_path: Path) -> None:
    (tmp_path / "page").symlink_to("nowhere")

    with pytest.raises(ReleaseError, match="exists"):
        check_new_file(tmp_path / "page")


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="exists; choose another file"):
        overtaken(new_file, tmp_path / "page", lambda path: path.write_text("mine"))

    assert listed(tmp_path) == {"page": "mine"}


def test_a_file_system_without_links_gets_its_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    write_new_file(tmp_path / "page", "whole")

    assert listed(tmp_path) == {"page": "whole"}


def test_without_links_a_file_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        target.write_text("mine")
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(ReleaseError, match="exists"):
        write_new_file(tmp_path / "page", "ours")

    assert listed(tmp_path) == {"page": "mine"}


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("old")
    with replaced_file(tmp_path / "state") as temporary:
        temporary.write_text("new")
        during = (tmp_path / "state").read_text()

    assert (during, listed(tmp_path)) == ("old", {"state": "new"})


def test_what_is_written_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    flush, link = os.fsync, os.link
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("flush"), flush(handle)))
    monkeypatch.setattr(os, "link", lambda source, target: (done.append("link"), link(source, target)))
    write_new_file(tmp_path / "page", "whole")

    assert done == ["flush", "link", "flush"]  # the file, its name, the directory that holds the name


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "no space is left"), (errno.EROFS, "cannot be written"), (errno.EDQUOT, "no space is left")],
)
def test_what_the_system_reports_becomes_one_line(tmp_path: Path, number: int, words: str) -> None:
    write = functools.partial(new_file, error=LedgerError)
    with pytest.raises(LedgerError, match=rf"{words}.*nothing was left there$"):
        stopped(write, tmp_path / "page", OSError(number, os.strerror(number)))

    assert listed(tmp_path) == {}


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"there is no directory .*nowhere; make it first"):
        write_new_file(tmp_path / "nowhere" / "page", "text")


def test_text_is_written_as_it_stands(tmp_path: Path) -> None:
    replace_file(tmp_path / "page", "氏名\r\n①\n")

    assert (tmp_path / "page").read_bytes() == "氏名\r\n①\n".encode()


# --- directories ----------------------------------------------------------------------------------------------------


def test_a_directory_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    with new_directory(tmp_path / "release") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "table.csv").write_text("a")

        assert not (tmp_path / "release").exists()

    assert listed(tmp_path) == {"release/inner/table.csv": "a"}


@pytest.mark.parametrize("stop", STOPS)
def test_a_directory_that_fails_is_removed(tmp_path: Path, stop) -> None:
    with pytest.raises(stop):
        stopped(new_directory, tmp_path / "release", stop)

    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="exists; choose another directory"):
        overtaken(new_directory, tmp_path / "release", Path.mkdir)

    assert [file.name for file in tmp_path.iterdir()] == ["release"]


def test_every_file_of_a_directory_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    flush, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append(os.fstat(handle).st_ino), flush(handle)))
    monkeypatch.setattr(os, "rename", lambda source, target: (done.append("rename"), rename(source, target)))
    with new_directory(tmp_path / "release") as temporary:
        for name in ("a", "b"):
            (temporary / name).write_text(name)

    files = {(tmp_path / "release" / name).stat().st_ino for name in ("a", "b")}
    assert files <= set(done[: done.index("rename")])


def test_a_name_that_no_directory_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="cannot be written"):
        check_new_directory(tmp_path / ("x" * 300))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stop", STOPS)
def test_a_directory_filled_under_its_own_name_is_removed_on_failure(tmp_path: Path, stop) -> None:
    with pytest.raises(stop):
        stopped(removed_on_failure, tmp_path / "demo", stop)

    assert not (tmp_path / "demo").exists()


def test_a_directory_that_is_there_is_not_filled_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    with pytest.raises(ReleaseError, match="exists; choose another directory"), removed_on_failure(tmp_path / "demo"):
        pytest.fail("the block must not run")

    assert (tmp_path / "demo").is_dir()
