"""Files and directories that appear whole or not at all.

    new_file       a file of a name that is free
    replaced_file  a file that takes the place of its older version
    new_directory  a directory of a name that is free, with everything in it

All three give a temporary name to fill, in a directory beside the target that only this user can enter (scratch.py). At
the end what was written is flushed to the disk and gets its own name in one step. An exception, an interrupt included,
removes it; only a killed process or a power cut leaves it behind, under a name like `UNFINISHED`, and the next one to
write beside it removes that. Whatever the system reports becomes one line about the target.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sudare.errors import ReleaseError, SudareError
from sudare.scratch import UNFINISHED, hold_name, is_unfinished, make_scratch
from sudare.text import describe_refusal

__all__ = [
    "UNFINISHED",
    "cannot_write",
    "check_new_directory",
    "check_new_file",
    "held_file",
    "is_unfinished",
    "new_directory",
    "new_file",
    "removed_on_failure",
    "replace_file",
    "replaced_file",
    "reserved_directory",
    "unfinished_file",
    "write_new_file",
]

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# --- whole files --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def new_file(path: Path, *, error: type[SudareError] = ReleaseError) -> Iterator[Path]:
    """Give a temporary name to fill; at the end it becomes `path`, never over a file that is there.

    Error: `error` in one line if the name is taken or cannot be written; nothing is left then.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_file(Path(folder, "page.html")) as temporary:
    ...         _ = temporary.write_text("<p>")
    ...     os.listdir(folder)
    ['page.html']
    """
    check_new_file(path, error=error)
    try:
        with unfinished_file(path) as temporary:
            yield temporary
    except FileExistsError:
        raise _is_taken(path, error) from None
    except OSError as problem:
        raise cannot_write(path, problem, error=error) from None


@contextlib.contextmanager
def replaced_file(path: Path, *, error: type[SudareError] = ReleaseError) -> Iterator[Path]:
    """Give a temporary name to fill; at the end it takes the place of `path`, so that a reader sees the old or the new.

    Error: `error` in one line if it cannot be written; the old file stays as it was then.
    """
    try:
        with _temporary_name(path) as temporary:
            yield temporary
            _flush(temporary)
            os.replace(temporary, path)
            _flush_directory(path.parent)
    except OSError as problem:
        raise cannot_write(path, problem, error=error) from None


def write_new_file(path: Path, content: str, *, error: type[SudareError] = ReleaseError) -> None:
    """Write a text as UTF-8 to a file of a free name."""
    with new_file(path, error=error) as temporary:
        temporary.write_bytes(content.encode("utf-8"))


def replace_file(path: Path, content: str, *, error: type[SudareError] = ReleaseError) -> None:
    """Write a text as UTF-8 in the place of a file, or to a new one."""
    with replaced_file(path, error=error) as temporary:
        temporary.write_bytes(content.encode("utf-8"))


HELD_SECONDS = 60.0  # how long one waits for another who holds a file


@contextlib.contextmanager
def held_file(path: Path, *, error: type[SudareError] = ReleaseError, seconds: float = HELD_SECONDS) -> Iterator[None]:
    """Let one at a time read a file, decide by it and add to it: others wait, and are refused after a while.

    A file of its own beside it is locked, and removed at the end; the lock goes with the process that holds it.
    """
    try:
        import fcntl
    except ImportError:  # not a POSIX system: nothing to lock with
        yield
        return
    lock, until = path.with_name(f"{path.name}.lock"), time.monotonic() + seconds
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as problem:
            raise cannot_write(lock, problem, error=error) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(lock)):  # else its last holder has removed it
                break
        except OSError:
            if time.monotonic() > until:
                os.close(handle)
                raise error("another run is using {file}; try again when it has ended", file=path) from None
            time.sleep(0.05)
        os.close(handle)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is held: whoever opens it later makes another
        os.close(handle)


def check_new_file(path: Path, *, error: type[SudareError] = ReleaseError) -> None:
    """Refuse a name that is taken, or in a directory that is not there, before any work is done for it."""
    if os.path.lexists(path):
        raise _is_taken(path, error)
    if not path.parent.is_dir():
        raise error("there is no directory {directory}; make it first", directory=path.parent)


def _is_taken(path: Path, error: type[SudareError]) -> SudareError:
    return error("{target} exists; choose another file or remove it", target=path)


# --- whole directories --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Give a temporary directory to fill; at the end it becomes `path`, which must be free.

    Error: ReleaseError in one line if it cannot be written; nothing is left then.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_directory(Path(folder, "release")) as temporary:
    ...         _ = Path(temporary, "table.csv").write_text("a")
    ...     [name for _, _, names in os.walk(folder) for name in names]
    ['table.csv']
    """
    check_new_directory(path)
    try:
        with _temporary_name(path) as temporary:
            temporary.mkdir()
            yield temporary
            for folder, _, names in os.walk(temporary):
                for name in names:
                    _flush(Path(folder, name))
                _flush_directory(Path(folder))
            if os.path.lexists(path):  # a rename would go over an empty directory
                raise _directory_is_taken(path)
            os.rename(temporary, path)
            _flush_directory(path.parent)
    except OSError as problem:
        raise cannot_write(path, problem) from None


@contextlib.contextmanager
def removed_on_failure(path: Path) -> Iterator[Path]:
    """Make a directory, with its parents, to be filled under its own name; an exception removes it again."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        raise _directory_is_taken(path) from None
    except OSError as problem:
        raise cannot_write(path, problem) from None
    try:
        yield path
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


@contextlib.contextmanager
def reserved_directory(path: Path) -> Iterator[None]:
    """Hold the name of a directory that is to be made, so that nobody else spends for the same one meanwhile.

    The name is free again when the block ends or the process dies.

    Error: ReleaseError in one line if another process holds it, or no such directory can be made.
    """
    if not path.parent.is_dir():
        raise ReleaseError("there is no directory {directory}; make it first", directory=path.parent)
    try:
        holder = hold_name(path)
    except OSError as problem:
        raise cannot_write(path, problem) from None
    if holder is None:
        raise ReleaseError(
            "another command is publishing to {target}; wait until it has ended, or choose another directory",
            target=path,
        )
    with holder:
        check_new_directory(path)
        yield


def check_new_directory(path: Path) -> None:
    """Refuse a name where no directory can be made, before anything is spent for it."""
    try:
        if os.path.lexists(path):
            raise _directory_is_taken(path)
        if not path.parent.is_dir():
            raise ReleaseError("there is no directory {directory}; make it first", directory=path.parent)
        _try_name(path)
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            probe.write(bytes(4096))
            probe.flush()
    except OSError as problem:
        raise cannot_write(path, problem) from None


def _try_name(path: Path) -> None:
    """Make the directory and remove it: the very name must be possible."""
    try:
        path.mkdir()
        path.rmdir()
    except KeyboardInterrupt:  # between the two: the name was free a moment ago
        with contextlib.suppress(OSError):
            path.rmdir()
        raise


def _directory_is_taken(path: Path) -> ReleaseError:
    return ReleaseError("{target} exists; choose another directory or remove it", target=path)


# --- what all of them stand on ------------------------------------------------------------------------------------


@contextlib.contextmanager
def unfinished_file(path: Path) -> Iterator[Path]:
    """Do what `new_file` does, with the errors of the system as they are: FileExistsError for a name that is taken."""
    with _temporary_name(path) as temporary:
        yield temporary
        _flush(temporary)
        _name(temporary, path)
        _flush_directory(path.parent)


def cannot_write(path: Path, problem: OSError, *, error: type[SudareError] = ReleaseError) -> SudareError:
    """Say in one line why a file or directory could not be written."""
    if problem.errno in _NO_SPACE:
        return error("no space is left to write {target}; free some and try again; nothing was left there", target=path)
    reason = describe_refusal(problem)
    return error("{target} cannot be written ({reason}); nothing was left there", target=path, reason=reason)


@contextlib.contextmanager
def _temporary_name(path: Path) -> Iterator[Path]:
    """Give the name of the target in a private directory beside it, which is removed at the end with all in it."""
    with make_scratch(path.parent, "partial") as directory:
        yield directory / path.name


def _name(temporary: Path, path: Path) -> None:
    """Move without overwriting: a link fails where the name is taken, a rename would not."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: hold the name with an empty file, then move over it
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        try:
            os.replace(temporary, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    temporary.unlink(missing_ok=True)


def _flush(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _flush_directory(directory: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a directory be opened; names are then as safe as it gets
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
