"""Temporary files and directories: the one place where they get their names, and where they are cleaned up.

Rows of a table and releases that are half written stand in a directory of their own, beside what is being made or where
the steward said, never anywhere else. Only its owner may enter it (mode 0700). Whoever made it holds a lock on a file
in it; the lock ends with the process, however that ends. So the next run that makes one in the same place knows which
of the others are abandoned (after kill -9, after a power cut), and removes them.

    make_scratch(directory)        a new one; the abandoned ones beside it are removed first
    remove_abandoned(directory)    remove those whose process is dead
    find_place(given, output)      where the steward allows them
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal

try:
    import fcntl
except ImportError:  # a system without these locks: nothing is ever known to be abandoned, and nothing is removed
    fcntl = None  # type: ignore[assignment]

ENVIRONMENT = "SUDARE_SPILL_DIRECTORY"
"""The variable in which a steward names the directory for temporary rows, for all commands."""

UNFINISHED = ".sudare-*.partial"
"""The pattern of the names of what is being written."""

LOCK = ".lock"
_PREFIX = ".sudare-"
_MOST_TRIES = 100

Purpose = Literal["partial", "rows"]


_LIVE: set[ScratchDirectory] = set()  # not removed yet; whatever an interrupt left is removed when the process ends


@atexit.register
def _remove_live() -> None:
    for directory in list(_LIVE):
        directory.remove()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no interrupt come between a directory and the note that it is ours: it is raised at the end of the block.

    Handlers run in the main thread, whichever thread the system gives the signal to; so the handler is replaced, and
    its masks are not used. A signal that ends the process at once leaves a directory that the next run removes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


class ScratchDirectory:
    """A directory for one process, gone at the end of its `with` block or by `remove`."""

    def __init__(self, path: Path, lock: int | None) -> None:
        self.path = path
        self._lock = lock
        self._owner = os.getpid()
        _LIVE.add(self)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the directory and all that is in it; a forked child leaves it to its parent."""
        with _undisturbed():
            _LIVE.discard(self)
            if os.getpid() != self._owner:
                return
            _clear(self.path)
            if self._lock is not None:
                with contextlib.suppress(OSError):
                    os.close(self._lock)
                self._lock = None


def make_scratch(directory: Path, purpose: Purpose = "rows") -> ScratchDirectory:
    """Make a directory that only this user can enter, and remove the abandoned ones beside it.

    Error: OSError, as the system reports it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, make_scratch(Path(folder)) as scratch:
    ...     f"{scratch.stat().st_mode & 0o777:o}", is_unfinished(scratch.name)
    ('700', True)
    """
    remove_abandoned(directory)
    for _ in range(_MOST_TRIES):
        path = directory / f"{_PREFIX}{secrets.token_hex(8)}.{purpose}"
        if (made := _make(path)) is not None:
            return made
    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), str(directory))


def _make(path: Path) -> ScratchDirectory | None:
    """Make a directory and lock it; an interrupt that came meanwhile leaves nothing. None as for `_take`."""
    made = None
    try:
        with _undisturbed():
            os.mkdir(path, 0o700)
            made = _take(path)
    except BaseException:
        if made is not None:
            made.remove()
        raise
    return made


def _take(path: Path) -> ScratchDirectory | None:
    """Lock a new directory; None if another process took it for an abandoned one before the lock was held."""
    try:
        handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    except (FileNotFoundError, FileExistsError):  # the second: of two who hold one name, the other was faster
        return None
    if fcntl is None:
        os.close(handle)
        return ScratchDirectory(path, None)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # who holds it is removing it
        os.close(handle)
        return None
    except OSError:  # a file system without locks: nobody else can take one either, so nobody removes it
        return ScratchDirectory(path, handle)
    if not _is_same(path / LOCK, handle):
        os.close(handle)
        return None
    return ScratchDirectory(path, handle)


def hold_name(path: Path) -> ScratchDirectory | None:
    """Hold the name of an output for this process until it is let go; None if a process that lives holds it.

    Nothing is made under the name itself. A holder that dies, however it dies, lets go.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, hold_name(Path(folder, "release")):
    ...     hold_name(Path(folder, "release")) is None, hold_name(Path(folder, "other")) is None
    (True, False)
    """
    holder = path.parent / f"{_PREFIX}{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}.name"
    for _ in range(_MOST_TRIES):
        remove_abandoned(path.parent)
        try:
            made = _make(holder)
        except FileExistsError:
            return None
        if made is not None:
            return made
    return None


def remove_abandoned(directory: Path) -> list[str]:
    """Remove the temporary directories of dead processes; tell their names. What is in use, or not ours, stays.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, make_scratch(Path(folder)):
    ...     remove_abandoned(Path(folder))
    []
    """
    return [path.name for path in _list_scratch(directory) if _remove_if_abandoned(path)]


def _list_scratch(directory: Path) -> Iterator[Path]:
    """List what could be a temporary directory of ours: a real directory of this user, under such a name."""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if is_unfinished(entry.name) and entry.is_dir(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                            yield Path(entry.path)
    except OSError:
        return


def _remove_if_abandoned(path: Path) -> bool:
    if fcntl is None:
        return False
    try:
        handle = os.open(path / LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:  # made a moment ago and not locked yet, or left so: an empty one is of no use to anybody
        with contextlib.suppress(OSError):
            os.rmdir(path)
            return True
        return False
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return False
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _clear(path)
        return not path.exists()
    except OSError:  # it is locked: its process lives
        return False
    finally:
        os.close(handle)


def _clear(path: Path) -> None:
    """Remove a directory, its lock last: whoever is killed in between leaves one that is known to be abandoned."""
    with contextlib.suppress(OSError):
        for child in path.iterdir():
            if child.name == LOCK:
                continue
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child, ignore_errors=True)
            else:
                child.unlink(missing_ok=True)
        (path / LOCK).unlink(missing_ok=True)
        path.rmdir()


def _is_same(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


def is_unfinished(name: str) -> bool:
    """Tell whether a name is a temporary one, of this version or of one that called ledgers `.sudare-new-...`.

    >>> is_unfinished(".sudare-0123456789abcdef.partial"), is_unfinished("people.ledger")
    (True, False)
    """
    return name.startswith(_PREFIX)


def find_place(given: str | Path | None, output: Path | None = None) -> Path | None:
    """Tell where temporary rows may stand: where the steward said, else beside the output, else here.

    The directory that is given comes first, then that of the environment variable SUDARE_SPILL_DIRECTORY, then the
    one that the output is made in, then the working directory. None if nothing was named and the last is not writable:
    then there are no temporary rows. The temporary directory of the system is never used by itself.
    """
    if given is not None:
        return Path(given)
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    place = Path.cwd() if output is None else output.parent
    return place if os.access(place, os.W_OK | os.X_OK) else None
