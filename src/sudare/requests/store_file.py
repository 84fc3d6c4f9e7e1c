"""The file of a request store: SQLite, only ever added to, every entry sealed by the hash of all before it.

A commit is on the disk before it counts (rollback journal, synchronous = EXTRA), so that a killed process leaves an
entry whole or not at all. Two stewards write one after the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sudare.atomic import unfinished_file
from sudare.errors import RequestError
from sudare.text import describe_refusal

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x53756472  # "Sudr" in the header of the file
FORMAT = 1
WAIT_SECONDS = 30.0  # for another process that writes
BUSY, FULL, NOTADB = 5, 13, 26  # result codes of SQLite
LONGEST_ENTRY = 4 << 20  # letters of the facts of one entry: a request of very many values

_NEVER = " BEGIN SELECT RAISE(ABORT, 'nothing in a request store is ever changed'); END"
TABLES_AND_TRIGGERS = {
    "genesis": "CREATE TABLE genesis (format INTEGER NOT NULL, created TEXT NOT NULL, facts TEXT NOT NULL,"
    " head TEXT NOT NULL)",
    "events": "CREATE TABLE events (seq INTEGER PRIMARY KEY, time TEXT NOT NULL, request TEXT NOT NULL,"
    " actor TEXT NOT NULL, kind TEXT NOT NULL, facts TEXT NOT NULL, head TEXT NOT NULL)",
    "genesis_is_alone": "CREATE TRIGGER genesis_is_alone BEFORE INSERT ON genesis WHEN EXISTS (SELECT 1 FROM genesis)"
    " BEGIN SELECT RAISE(ABORT, 'a request store is made once'); END",
    "events_follow": "CREATE TRIGGER events_follow BEFORE INSERT ON events"
    " WHEN NEW.seq IS NOT 1 + coalesce((SELECT max(seq) FROM events), 0)"
    " BEGIN SELECT RAISE(ABORT, 'events are only added at the end'); END",
    **{
        f"{table}_{verb}": f"CREATE TRIGGER {table}_{verb} BEFORE {verb.upper()} ON {table}{_NEVER}"
        for table in ("genesis", "events")
        for verb in ("update", "delete")
    },
}


class StoredGenesis(NamedTuple):
    """What the store is for: the facts of its table as JSON."""

    format: int
    created: str
    facts: str
    head: str


class StoredEvent(NamedTuple):
    """One entry: what happened to which request, when and by whom; `facts` is JSON."""

    seq: int
    time: str
    request: str
    actor: str
    kind: str
    facts: str
    head: str


def seal(row: StoredGenesis | StoredEvent, previous: str) -> str:
    """Hash an entry and the hash before it; the last field of the entry, its own hash, is left out."""
    written = json.dumps([previous, *row[:-1]], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(written.encode("utf-8")).hexdigest()


def make_store_file(path: Path, created: str, facts: str) -> None:
    """Make a store under a temporary name and give it its own at the end, never over another file."""
    genesis = StoredGenesis(FORMAT, created, facts, "")
    genesis = genesis._replace(head=seal(genesis, ""))
    if not path.parent.is_dir():
        raise RequestError("there is no directory {directory}; make it first", directory=path.parent)
    with _explain(path):
        try:
            with unfinished_file(path) as temporary, closing(_connect(temporary, "rwc")) as connection:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                connection.execute("BEGIN IMMEDIATE")
                for statement in TABLES_AND_TRIGGERS.values():
                    connection.execute(statement)
                connection.execute("INSERT INTO genesis VALUES (?, ?, ?, ?)", genesis)
                connection.execute("COMMIT")
        except FileExistsError:
            raise RequestError(
                "{where} exists already, and a request store is never overwritten; choose another name", where=path
            ) from None


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    import sqlite3

    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    for pragma in ("trusted_schema = OFF", "synchronous = EXTRA", "fullfsync = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


class StoreFile:
    """An open store: reads all entries, adds one. A connection is opened for each use, so it may cross threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as connection:
            self._check_format(connection)

    @contextmanager
    def _open(self, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        if not self.path.is_file():
            raise RequestError("{where} does not exist; make it with: sudare request create", where=self.path)
        with _explain(self.path), closing(_connect(self.path, mode)) as connection:
            yield connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        ((application,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        if application != APPLICATION_ID:
            raise RequestError("{where} is not a request store; make one with: sudare request create", where=self.path)
        if version != FORMAT:
            raise RequestError(
                "{where} is a request store of version {version}, and this Sudare knows version {known}; use a newer"
                " one",
                where=self.path,
                version=version,
                known=FORMAT,
            )
        if dict(connection.execute("SELECT name, sql FROM sqlite_master")) != TABLES_AND_TRIGGERS:
            raise _altered(self.path)

    def read(self) -> tuple[StoredGenesis, list[StoredEvent]]:
        """Read everything as it stands at one moment, and check the chain."""
        with self._open() as connection:
            connection.execute("BEGIN")
            rows = self._read(connection)
            connection.execute("COMMIT")
        return rows

    def _read(self, connection: sqlite3.Connection) -> tuple[StoredGenesis, list[StoredEvent]]:
        self._check_format(connection)
        geneses = [StoredGenesis(*row) for row in connection.execute("SELECT * FROM genesis")]
        events = [StoredEvent(*row) for row in connection.execute("SELECT * FROM events ORDER BY seq")]
        if len(geneses) != 1:
            raise _altered(self.path)
        previous = ""
        rows: list[StoredGenesis | StoredEvent] = [geneses[0], *events]
        for row in rows:
            if row.head != seal(row, previous):
                raise _altered(self.path)
            previous = row.head
        if [event.seq for event in events] != list(range(1, len(events) + 1)):
            raise _altered(self.path)
        return geneses[0], events

    @contextmanager
    def writing(self) -> Iterator[_Writer]:
        """Hold the lock that lets one process write; at the end all is on the disk, or nothing happened."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                genesis, events = self._read(connection)
                yield _Writer(connection, genesis, events)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


class _Writer:
    """The entries as they stand under the lock, and the way to add one."""

    def __init__(self, connection: sqlite3.Connection, genesis: StoredGenesis, events: list[StoredEvent]) -> None:
        self._connection = connection
        self.genesis = genesis
        self.events = events

    def add(self, *, time: str, request: str, actor: str, kind: str, facts: str) -> StoredEvent:
        """Add an entry behind the last."""
        if len(facts) > LONGEST_ENTRY:
            raise RequestError("the request is too long to be stored; use levels or fewer groups")
        previous = self.events[-1].head if self.events else self.genesis.head
        event = StoredEvent(len(self.events) + 1, time, request, actor, kind, facts, "")
        event = event._replace(head=seal(event, previous))
        self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", event)
        self.events.append(event)
        return event


def _altered(path: Path) -> RequestError:
    return RequestError("{where} was altered: its entries do not fit their chain; restore it from a copy", where=path)


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system report into one line that says what to do."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == BUSY:
            raise RequestError("{where} is locked by another process; try again when it is done", where=path) from None
        if code == NOTADB:
            raise RequestError(
                "{where} is not a request store; make one with: sudare request create", where=path
            ) from None
        if code == FULL:
            raise RequestError(
                "{where}: the disk is full, so nothing was written; free some space and try again", where=path
            ) from None
        raise RequestError("{where} cannot be read or written; restore it from a copy", where=path) from None
    except UnicodeError:
        raise _altered(path) from None
    except OSError as error:
        if isinstance(error, FileExistsError):
            raise
        reason = describe_refusal(error)
        raise RequestError("{where} cannot be used ({reason}); name another file", where=path, reason=reason) from None
