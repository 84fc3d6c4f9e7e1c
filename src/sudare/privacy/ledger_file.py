"""An open ledger file: one writer at a time, patient with others, safe across forks.

Never read a ledger with plain file calls while it may be open here: closing such a handle drops the locks that
this process holds on the file (POSIX locks belong to the process, not to the handle), and SQLite keeps its
promises by those locks. For the same reason a connection must not cross a fork: all are closed before it, and
opened again on use.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sudare.errors import LedgerError
from sudare.privacy.chain import Entry, Genesis
from sudare.privacy.ledger_format import (
    BUSY,
    PROTOCOL,
    check_format,
    check_place,
    connect,
    explained,
    result_code,
)

if TYPE_CHECKING:
    import sqlite3

Result = TypeVar("Result")

# A spend holds the lock about as long as the disk takes to write; longer pauses would leave the disk idle.
FIRST_PAUSE_SECONDS = 0.0003
LONGEST_PAUSE_SECONDS = 0.002


class LedgerFile:
    """Few questions, one way to write, every error in one line."""

    def __init__(self, path: Path, *, wait_seconds: float) -> None:
        self.path = path  # as it was given, for messages
        self._place = path.absolute()  # as it stays when the process changes its directory
        self._wait_seconds = wait_seconds
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._identity: tuple[int, int] | None = None
        self._closed = False
        with _forking:
            _files.add(self)
        with self._using():
            pass

    def __del__(self) -> None:
        with suppress(Exception):  # half made, or the interpreter is going down
            self.close()

    def genesis(self) -> Genesis:
        """Read what the ledger is."""
        rows = self._ask("SELECT id, name, created, budget, neighbours, unit, head FROM genesis LIMIT 2")
        if len(rows) != 1:
            raise LedgerError("{where} is damaged; restore a copy whose head a certificate names", where=self.path)
        return Genesis(*rows[0])

    def last_two(self) -> list[Entry]:
        """Read the end of the chain, newest first: the last entry and the one it builds on."""
        return [Entry(*row) for row in self._ask("SELECT * FROM spends ORDER BY seq DESC LIMIT 2")]

    def entry(self, seq: int) -> Entry | None:
        """Read one entry."""
        return next((Entry(*row) for row in self._ask("SELECT * FROM spends WHERE seq = ?", seq)), None)

    def entries(self) -> list[Entry]:
        """Read the whole chain as it stood at one moment."""
        return [Entry(*row) for row in self._ask("SELECT * FROM spends ORDER BY seq")]

    def check_pages(self) -> None:
        """Let SQLite check its own pages, and the form of the file once more."""
        with self._using() as connection:
            check_format(connection, self.path)
        if self._ask("PRAGMA integrity_check") != [("ok",)]:
            raise LedgerError("{where} is damaged; restore a copy whose head a certificate names", where=self.path)

    def append(self, entries: list[Entry]) -> None:
        """Add entries at the end; only inside `writing`."""
        with self._using() as connection:
            connection.executemany("INSERT INTO spends VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", entries)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock that lets one process write; at the end all is on the disk, or nothing happened.

        A COMMIT is never tried twice: whoever gets an error draws no noise, whether or not the spend arrived.
        """
        with self._using() as connection:
            try:
                self._patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
                self._check_identity()
                yield
                connection.execute("COMMIT")
            except BaseException:
                with suppress(Exception):
                    connection.execute("ROLLBACK")
                raise

    def merge(self) -> None:
        """Copy what the log holds into the file while nobody can write; what fails here is tried again later.

        SQLite up to 3.51.2 can lose a committed entry when a commit restarts the log in the middle of such a copy
        (sqlite.org/wal.html, "The WAL-Reset Bug"). So SQLite never does it by itself here, and a second
        connection holds the lock for writing meanwhile.
        """
        import sqlite3

        with self._using() as connection, suppress(sqlite3.Error):
            guard = connect(self._place, mode="rw")
            try:
                self._patiently(lambda: guard.execute("BEGIN IMMEDIATE"))
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                guard.close()

    def close(self) -> None:
        """Let go of the file."""
        with self.lock:
            self._closed = True
            self.let_go()

    def let_go(self) -> None:
        """Close the connection; the next question opens another."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process == os.getpid():
            connection.close()
        else:
            _foreign.append(connection)  # its locks are another process's: not even closing it is safe

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self.lock, explained(self.path):
            if self._closed:
                raise LedgerError("{where} is closed; open it again", where=self.path)
            if self._connection is None:
                self._process = os.getpid()
                self._connection = self._patiently(self._open)
            if self._process != os.getpid():  # forked by foreign code that asks no hooks
                raise LedgerError("{where} was opened in another process; open it in this one", where=self.path)
            yield self._connection

    def _open(self) -> sqlite3.Connection:
        self._check_identity()
        connection = connect(self._place, mode="rw")
        try:
            check_format(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_identity(self) -> None:
        found = check_place(self._place)
        self._identity = self._identity or found
        if found != self._identity:
            raise LedgerError("{where} was replaced by another file while open; open it again", where=self.path)

    def _ask(self, question: str, *values: object) -> list[Any]:
        with self._using() as connection:
            return self._patiently(lambda: connection.execute(question, values).fetchall())

    def _patiently(self, work: Callable[[], Result]) -> Result:
        """Try until the lock is free. Each waits a random while, else those who came together collide again."""
        import sqlite3

        deadline, pause = time.monotonic() + self._wait_seconds, FIRST_PAUSE_SECONDS
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if result_code(error) not in (BUSY, PROTOCOL) or time.monotonic() >= deadline:
                    raise
            time.sleep(pause * (0.5 + os.urandom(1)[0] / 256))
            pause = min(1.5 * pause, LONGEST_PAUSE_SECONDS)


_files: weakref.WeakSet[LedgerFile] = weakref.WeakSet()
_forking = threading.RLock()  # held from before a fork to after it, and while a file is added
_held: list[LedgerFile] = []
_foreign: list[sqlite3.Connection] = []


def _before_fork() -> None:
    _forking.acquire()
    _held[:] = list(_files)
    for file in _held:
        file.lock.acquire()
        with suppress(Exception):
            file.let_go()


def _after_fork() -> None:
    for file in _held:
        file.lock.release()
    _held.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
