"""Where the desk keeps its rows: a file of SQLite in its folder, or a schema of a PostgreSQL database.

Both take the same statements, with a question mark for each value. A piece of work is kept whole or not at all; one
that says `alone` is never done by two at once, whichever thread, process or machine they are on.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sudare.errors import RequestError

if TYPE_CHECKING:
    import psycopg

WAIT_SECONDS = 30
SCHEMA = "sudare_desk"  # of the database; one database holds one desk
LOCK = 0x5D_DE5C  # of PostgreSQL, for work that is done alone

TABLES = """
CREATE TABLE format (version INTEGER NOT NULL);
CREATE TABLE account (
  name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT NOT NULL, state TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE invitation (
  hash TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, ends DOUBLE PRECISION NOT NULL);
CREATE TABLE session (
  hash TEXT PRIMARY KEY, account TEXT NOT NULL, made DOUBLE PRECISION NOT NULL, used DOUBLE PRECISION NOT NULL);
CREATE TABLE failure (subject TEXT NOT NULL, at DOUBLE PRECISION NOT NULL);
CREATE TABLE public_table (name TEXT PRIMARY KEY, requests TEXT NOT NULL, about TEXT NOT NULL);
CREATE TABLE asked (
  account TEXT NOT NULL, name TEXT NOT NULL, day TEXT NOT NULL, form TEXT NOT NULL,
  PRIMARY KEY (account, name, day, form));
CREATE TABLE message (
  seq {number} PRIMARY KEY, name TEXT NOT NULL, request TEXT NOT NULL, at TEXT NOT NULL, actor TEXT NOT NULL,
  words TEXT NOT NULL);
CREATE TABLE task (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, request TEXT NOT NULL, version INTEGER,
  actor TEXT NOT NULL, reason TEXT NOT NULL, state TEXT NOT NULL, told TEXT NOT NULL DEFAULT '',
  made DOUBLE PRECISION NOT NULL);
CREATE TABLE audit (
  seq BIGINT PRIMARY KEY, at TEXT NOT NULL, actor TEXT NOT NULL, kind TEXT NOT NULL, object TEXT NOT NULL,
  before TEXT NOT NULL, hash TEXT NOT NULL);
"""
FILE_TRIGGERS = """
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER audit_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""
SERVER_TRIGGERS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''append only''; END';
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse();
ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_stays;
"""

Row = dict[str, Any]


class Rows(Protocol):
    """One piece of work with the rows of the desk."""

    def list(self, statement: str, *values: object) -> list[Row]:
        """Give all rows that a statement finds."""

    def find(self, statement: str, *values: object) -> Row | None:
        """Give the first row, if there is one."""

    def run(self, statement: str, *values: object) -> None:
        """Change something."""


class DeskDatabase(Protocol):
    """What keeps the rows."""

    def work(self, *, alone: bool = False) -> AbstractContextManager[Rows]:
        """Begin a piece of work; it is kept at the end, and given up by an error."""


class _Asked:
    """Runs statements on a connection; what differs between the two databases is the sign for a value."""

    def __init__(self, connection: Any, sign: str) -> None:
        self._connection = connection
        self._sign = sign

    def _execute(self, statement: str, values: Sequence[object]) -> Any:
        return self._connection.execute(statement.replace("?", self._sign), values)

    def list(self, statement: str, *values: object) -> list[Row]:
        return [dict(row) for row in self._execute(statement, values).fetchall()]

    def find(self, statement: str, *values: object) -> Row | None:
        row = self._execute(statement, values).fetchone()
        return None if row is None else dict(row)

    def run(self, statement: str, *values: object) -> None:
        self._execute(statement, values)


# --- a file -----------------------------------------------------------------------------------------------------------


class FileDatabase:
    """A file of SQLite, readable by its owner only; every thread has a connection of its own."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._open = threading.local()

    @classmethod
    def create(cls, file: Path) -> FileDatabase:
        """Make the file with its tables.

        Error: FileExistsError.
        """
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        store = sqlite3.connect(file)
        store.executescript("PRAGMA journal_mode=WAL;" + TABLES.format(number="INTEGER") + FILE_TRIGGERS)
        store.close()
        return cls(file)

    @contextmanager
    def work(self, *, alone: bool = False) -> Iterator[Rows]:
        """Begin a piece of work; a thread keeps its connection."""
        store: sqlite3.Connection | None = getattr(self._open, "store", None)
        if store is None:
            store = self._open.store = sqlite3.connect(self.file, timeout=WAIT_SECONDS)
            store.row_factory = sqlite3.Row
            store.execute("PRAGMA synchronous=NORMAL")
        with store:
            if alone:
                store.execute("BEGIN IMMEDIATE")
            yield _Asked(store, "?")


# --- a server ---------------------------------------------------------------------------------------------------------


class ServerDatabase:
    """A schema of a PostgreSQL database; every thread has a connection of its own, made anew when it was lost."""

    def __init__(self, address: str) -> None:
        self._opened: list[psycopg.Connection[Any]] = []
        self._open = threading.local()
        self.address = check_address(address)

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter is going down
            for connection in self._opened:
                connection.close()

    @classmethod
    def create(cls, address: str) -> ServerDatabase:
        """Make the schema with its tables, wholly or not at all.

        Error: RequestError if a desk is kept there already, or the server does not answer.
        """
        import psycopg

        database = cls(address)
        with _explained(), database._connect() as connection, connection.transaction():
            try:
                connection.execute(f"CREATE SCHEMA {SCHEMA}")
            except psycopg.errors.DuplicateSchema:
                raise RequestError("the database keeps a desk already; name another database") from None
            connection.execute(TABLES.format(number="BIGINT GENERATED BY DEFAULT AS IDENTITY") + SERVER_TRIGGERS)
        return database

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg
        from psycopg.rows import dict_row

        return psycopg.connect(
            self.address, autocommit=True, row_factory=dict_row, connect_timeout=10,
            options=f"-c search_path={SCHEMA}",
        )  # fmt: skip

    @contextmanager
    def work(self, *, alone: bool = False) -> Iterator[Rows]:
        """Begin a piece of work; a connection that was lost is made anew for the next one."""
        with _explained():
            store: psycopg.Connection[Any] | None = getattr(self._open, "store", None)
            if store is None or store.closed or not _answers(store):
                store = self._open.store = self._connect()
                self._opened = [each for each in self._opened if not each.closed] + [store]
            with store.transaction():
                if alone:
                    store.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                yield _Asked(store, "%s")


def _answers(store: psycopg.Connection[Any]) -> bool:
    """Tell whether a connection that was kept is still good; a server that was started anew has cut it."""
    import psycopg

    with suppress(psycopg.OperationalError):
        store.execute("SELECT 1")
        return True
    return False


@contextmanager
def _explained() -> Iterator[None]:
    """Tell in one line, without the address, that the database failed."""
    import psycopg

    try:
        yield
    except psycopg.OperationalError:
        raise RequestError(
            "the database of the desk does not answer; is the server up, and are name and password right?"
        ) from None
    except psycopg.errors.InsufficientPrivilege:
        raise RequestError("the database does not let this user keep a desk; ask for the right to create") from None
    except psycopg.errors.UndefinedTable:
        raise RequestError("the database keeps no desk; make one with `sudare desk create`") from None


def check_address(address: str) -> str:
    """Check an address; one with a password is refused, since it is kept in the folder of the desk.

    Error: RequestError, without the address.
    """
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise RequestError(
            "PostgreSQL needs the package psycopg; install it with: pip install 'sudare[postgres]'"
        ) from None
    try:
        known = conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        raise RequestError("the address of the store must read postgresql://USER@HOST:PORT/DATABASE") from None
    if known.get("password"):
        raise RequestError(
            "the address of the store is kept in a file, so it must hold no password; put that into PGPASSWORD or"
            " ~/.pgpass"
        )
    return address
