"""A ledger as a SQLite file: what is in it, how one is made, and how an open one is read and written.

One writer at a time, patient with others, safe across forks. Never read a ledger with plain file calls while it may be
open here: closing such a handle drops the locks that this process holds on the file (POSIX locks belong to the process,
not to the handle), and SQLite keeps its promises by those locks. For the same reason a connection must not cross a
fork: all are closed before it, and opened again on use.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sudare.atomic import is_unfinished, unfinished_file
from sudare.errors import LedgerError
from sudare.privacy.chain import FIRST_FORMAT, FORMAT, Entry, Genesis
from sudare.scratch import remove_abandoned
from sudare.text import describe_refusal

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x53756461  # "Suda" in the header of the file

_CHANGED = " BEGIN SELECT RAISE(ABORT, 'nothing in a ledger is ever changed'); END"


def _describe_tables(entries: str, columns: Mapping[str, str]) -> dict[str, str]:
    """Give the texts of the tables and triggers of a ledger, whose entries stand in the table of that name."""
    return {
        **{table: f"CREATE TABLE {table} ({described})" for table, described in columns.items()},
        "genesis_is_alone": (
            "CREATE TRIGGER genesis_is_alone BEFORE INSERT ON genesis WHEN EXISTS (SELECT 1 FROM genesis)"
            " BEGIN SELECT RAISE(ABORT, 'a ledger is made once'); END"
        ),
        f"{entries}_follow": (  # also stops INSERT OR REPLACE, which deletes without asking the trigger on DELETE
            f"CREATE TRIGGER {entries}_follow BEFORE INSERT ON {entries}"
            f" WHEN NEW.seq IS NOT 1 + coalesce((SELECT max(seq) FROM {entries}), 0)"
            f" BEGIN SELECT RAISE(ABORT, '{entries} are only added at the end'); END"
        ),
        **{
            f"{table}_{verb}": f"CREATE TRIGGER {table}_{verb} BEFORE {verb.upper()} ON {table}{_CHANGED}"
            for table in ("genesis", entries)
            for verb in ("update", "delete")
        },
    }


# SQLite stores these texts as they stand, and a file whose texts differ is not opened. By version of the file.
TABLES_AND_TRIGGERS = {
    FIRST_FORMAT: _describe_tables(
        "spends",
        {
            "genesis": "id TEXT NOT NULL, name TEXT NOT NULL, created TEXT NOT NULL,"
            " budget TEXT NOT NULL, neighbours TEXT NOT NULL, unit TEXT, head TEXT NOT NULL",
            "spends": "seq INTEGER PRIMARY KEY, time TEXT NOT NULL, purpose TEXT NOT NULL,"
            " neighbours TEXT NOT NULL, unit TEXT NOT NULL, epsilon TEXT NOT NULL, cost TEXT NOT NULL,"
            " total TEXT NOT NULL, head TEXT NOT NULL",
        },
    ),
    FORMAT: _describe_tables(
        "entries",
        {
            "genesis": "format INTEGER NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, created TEXT NOT NULL,"
            " currency TEXT NOT NULL, budget TEXT NOT NULL, delta TEXT, neighbours TEXT NOT NULL, unit TEXT,"
            " head TEXT NOT NULL",
            "entries": "seq INTEGER PRIMARY KEY, format INTEGER NOT NULL, time TEXT NOT NULL, salt TEXT NOT NULL,"
            " kind TEXT NOT NULL, release TEXT NOT NULL, about TEXT NOT NULL, neighbours TEXT NOT NULL,"
            " unit TEXT NOT NULL, currency TEXT NOT NULL, promised TEXT NOT NULL, amount TEXT NOT NULL,"
            " cost TEXT NOT NULL, total TEXT NOT NULL, head TEXT NOT NULL",
        },
    ),
}
# How rows are read, by version: those of the first as the second writes them after a migration.
SELECT_GENESIS = {
    FIRST_FORMAT: "SELECT 1, id, name, created, 'epsilon', budget, NULL, neighbours, unit, head FROM genesis LIMIT 2",
    FORMAT: "SELECT * FROM genesis LIMIT 2",
}
SELECT_ENTRIES = {
    FIRST_FORMAT: "SELECT seq, 1, time, '', 'spend', '', purpose, neighbours, unit, 'epsilon', '', epsilon, cost,"
    " total, head FROM spends WHERE seq > ? ORDER BY seq",
    FORMAT: "SELECT * FROM entries WHERE seq > ? ORDER BY seq",
}

LEAST_SEQ = -(2**63)

PRAGMAS = (
    "trusted_schema = OFF",
    "synchronous = FULL",
    "fullfsync = ON",
    "wal_autocheckpoint = 0",  # LedgerFile.merge does it under the lock
)
SIDE_FILES = ("-wal", "-shm", "-journal")

# Result codes of SQLite: sqlite.org/rescode.html
BUSY, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL, NOTADB = 5, 8, 10, 11, 13, 14, 15, 26


def make_file(path: Path, genesis: Genesis) -> None:
    """Make a ledger under a temporary name and give it its own at the end, never over another file."""
    _check_free(path)
    with explain_errors(path):
        try:
            with unfinished_file(path) as temporary:
                _fill(temporary, genesis)
        except FileExistsError:
            _check_free(path)
            raise


def connect(path: Path, *, mode: str) -> sqlite3.Connection:
    """Open a file as SQLite does, with every commit on the disk before it counts."""
    import sqlite3

    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=0,  # SQLite's own waiting is unfair to those who wait longest; LedgerFile waits
        isolation_level=None,  # transactions are begun in words
        check_same_thread=False,  # LedgerFile has a lock
    )
    try:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def check_format(connection: sqlite3.Connection, path: Path) -> int:
    """Refuse every file but a ledger of a version we know, and tell which."""
    ((application,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    if application != APPLICATION_ID:
        raise LedgerError("{where} is not a ledger; make one with: sudare ledger create", where=path)
    if version not in TABLES_AND_TRIGGERS:
        raise LedgerError(
            "{where} is a ledger of version {version}, and this Sudare knows version {known}; use a newer one",
            where=path,
            version=version,
            known=FORMAT,
        )
    if dict(connection.execute("SELECT name, sql FROM sqlite_master")) != TABLES_AND_TRIGGERS[version]:
        raise LedgerError(
            "{where} was altered: its tables and triggers are not those of a ledger; "
            "restore a copy whose head a certificate names",
            where=path,
        )
    if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise LedgerError("{where} cannot be shared by processes here; keep it on a local disk", where=path)
    return int(version)


def identify_file(path: Path) -> tuple[int, int]:
    """Refuse what is no plain file with one name, and tell which file it is."""
    try:
        status = os.stat(path)
        if status.st_nlink > 1:
            _drop_temporary_names(path)
            status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise LedgerError("{where} does not exist; make it with: sudare ledger create", where=path) from None
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError("{where} is not a file; name the file of a ledger", where=path)
    if status.st_nlink > 1:  # each name would have its own log beside it, so each could spend it all
        raise LedgerError(
            "{where} has a second name (a hard link), and spends under it would not be seen; remove one name",
            where=path,
        )
    return status.st_dev, status.st_ino


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system report into one line that says what to do."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from None
    except UnicodeError:  # the text of a damaged file, quoted in what SQLite reports about it
        raise LedgerError("{where} is damaged; restore a copy whose head a certificate names", where=path) from None
    except OSError as error:
        reason = describe_refusal(error)
        raise LedgerError("{where} cannot be used ({reason}); name another file", where=path, reason=reason) from None


def result_code(error: sqlite3.Error) -> int:
    """Give the primary result code; 0 where Python itself raised the error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _explain(path: Path, error: sqlite3.Error) -> LedgerError:
    code = result_code(error)
    if code in (BUSY, PROTOCOL):
        return LedgerError("{where} is locked by another process; try again when it is done", where=path)
    if code == NOTADB:
        return LedgerError("{where} is not a ledger; make one with: sudare ledger create", where=path)
    if code == FULL:
        return LedgerError(
            "{where}: the disk is full, so nothing was written; free some space and try again", where=path
        )
    if code in (READONLY, CANTOPEN):
        return LedgerError(
            "{where} cannot be opened or written; give access to the file and its directory, or copy it elsewhere",
            where=path,
        )
    if code == IOERR:
        return LedgerError(
            "{where} cannot be read or written: the disk reports an error, or is full; see that it has space, and"
            " only where `sudare ledger verify` finds damage restore a copy whose head a certificate names",
            where=path,
        )
    return LedgerError("{where} is damaged; restore a copy whose head a certificate names", where=path)


def _side_files(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in SIDE_FILES]


def _drop_temporary_names(path: Path) -> None:
    """Remove the temporary name that is left when the maker of a ledger is killed between its last two steps."""
    remove_abandoned(path.parent)
    with suppress(OSError):  # a version before this one left the file itself
        for other in path.parent.iterdir():
            if is_unfinished(other.name) and os.path.samefile(other, path):
                other.unlink(missing_ok=True)


def _check_free(path: Path) -> None:
    """Refuse a name that is taken, or where SQLite would take the side files of another ledger for its own."""
    # Before the ledger itself: the side files of one that somebody makes at this moment come after it.
    left_over = [side_file for side_file in _side_files(path) if os.path.lexists(side_file)]
    if os.path.lexists(path):
        raise LedgerError("{where} exists already, and a ledger is never overwritten; choose another name", where=path)
    if "\0" in path.name or not path.parent.is_dir():
        raise LedgerError("there is no directory {directory}; make it first", directory=path.parent)
    if left_over:
        raise LedgerError("{where} was left by another ledger; move it away first", where=left_over[0])


def _fill(path: Path, genesis: Genesis) -> None:
    with closing(connect(path, mode="rwc")) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("BEGIN IMMEDIATE")
        _write_tables(connection, genesis)
        connection.execute("COMMIT")
        check_format(connection, path)


def _write_tables(connection: sqlite3.Connection, genesis: Genesis, entries: Sequence[Entry] = ()) -> None:
    """Make the tables of the version we write and fill them, inside a transaction."""
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    for statement in TABLES_AND_TRIGGERS[FORMAT].values():
        connection.execute(statement)
    connection.execute(f"INSERT INTO genesis VALUES ({_places(genesis)})", genesis)
    _insert(connection, entries)


def _insert(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    connection.executemany(f"INSERT INTO entries VALUES ({_places(Entry._fields)})", entries)


def _places(row: Sequence[object]) -> str:
    return ", ".join("?" * len(row))


# --- an open file ---------------------------------------------------------------------------------------------------

Result = TypeVar("Result")

# A spend holds the lock about as long as the disk takes to write; longer pauses would leave the disk idle.
FIRST_PAUSE_SECONDS = 0.0003
LONGEST_PAUSE_SECONDS = 0.002


class LedgerFile:
    """An open ledger file: few queries, one way to write, every error in one line."""

    def __init__(self, path: Path, *, wait_seconds: float) -> None:
        self.path = path  # as it was given, for messages
        self._absolute = path.absolute()  # as it stays when the process changes its directory
        self._wait_seconds = wait_seconds
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._identity: tuple[int, int] | None = None
        self._closed = False
        with _forking:
            _files.add(self)
        with self._connected():
            pass

    def __del__(self) -> None:
        with suppress(Exception):  # half made, or the interpreter is going down
            self.close()

    @property
    def where(self) -> Path:
        """The file, as messages name it."""
        return self.path

    @property
    def version(self) -> int:
        """The version of the file; a migration by another process is seen."""
        with self._connected() as connection:
            return int(self._patiently(lambda: connection.execute("PRAGMA user_version").fetchone()[0]))

    def genesis(self) -> Genesis:
        """Read what the ledger is."""
        rows = self._query(SELECT_GENESIS[self.version])
        if len(rows) != 1:
            raise LedgerError("{where} is damaged; restore a copy whose head a certificate names", where=self.path)
        return Genesis(*rows[0])

    def entries(self, *, after: int | None = None) -> list[Entry]:
        """Read the chain behind an entry as it stands at one moment; all of it if none is named."""
        least = LEAST_SEQ if after is None else after
        return [Entry(*row) for row in self._query(SELECT_ENTRIES[self.version], least)]

    def look(self, *, after: int | None) -> tuple[object, list[Entry]]:
        """Read the chain behind an entry, and a number that changes whenever tables or triggers are touched.

        Triggers forbid everything but adding entries, and who takes them away changes that number.
        """
        return self._query("PRAGMA schema_version"), self.entries(after=after)

    def check_format(self) -> None:
        """Check the tables and triggers of the file."""
        with self._connected() as connection:
            check_format(connection, self.path)

    def check_pages(self) -> None:
        """Let SQLite check its own pages, and check the format of the file once more."""
        self.check_format()
        if self._query("PRAGMA integrity_check") != [("ok",)]:
            raise LedgerError("{where} is damaged; restore a copy whose head a certificate names", where=self.path)

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end; only inside `writing`."""
        with self._connected() as connection:
            _insert(connection, entries)

    def rewrite(self, genesis: Genesis, entries: Sequence[Entry]) -> None:
        """Write a ledger of the first version as one of ours; only inside `writing`, so wholly or not at all."""
        with self._connected() as connection:
            for table in ("genesis", "spends"):
                connection.execute(f"DROP TABLE {table}")  # with its triggers
            _write_tables(connection, genesis, entries)

    @contextmanager
    def writing(self, *, after: int | None = None) -> Iterator[None]:
        """Hold the lock that lets one process write; at the end all is on the disk, or nothing happened.

        A COMMIT is never tried twice: whoever gets an error draws no noise, whether or not the spend arrived.
        """
        with self._connected() as connection:
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

        with self._connected() as connection, suppress(sqlite3.Error):
            guard = connect(self._absolute, mode="rw")
            try:
                self._patiently(lambda: guard.execute("BEGIN IMMEDIATE"))
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                guard.close()

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self._closed = True
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection; the next query opens another."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process == os.getpid():
            connection.close()
        else:
            _of_other_processes.append(connection)  # its locks are another process's: not even closing it is safe

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with self.lock, explain_errors(self.path):
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
        connection = connect(self._absolute, mode="rw")
        try:
            check_format(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_identity(self) -> None:
        identity = identify_file(self._absolute)
        self._identity = self._identity or identity
        if identity != self._identity:
            raise LedgerError("{where} was replaced by another file while open; open it again", where=self.path)

    def _query(self, statement: str, *values: object) -> list[Any]:
        with self._connected() as connection:
            return self._patiently(lambda: connection.execute(statement, values).fetchall())

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
_locked_for_fork: list[LedgerFile] = []
_of_other_processes: list[sqlite3.Connection] = []


def _before_fork() -> None:
    _forking.acquire()
    _locked_for_fork[:] = list(_files)
    for file in _locked_for_fork:
        file.lock.acquire()
        with suppress(Exception):
            file.disconnect()


def _after_fork() -> None:
    for file in _locked_for_fork:
        file.lock.release()
    _locked_for_fork.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
