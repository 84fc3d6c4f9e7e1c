"""What the desk keeps: accounts, sessions, public tables, work to be done, and an append-only record of what was done.

The record is a chain of hashes, as a ledger is; triggers forbid to change or remove a line of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sudare.errors import ParameterError, RequestError
from sudare.text import Readable, Words, current_language, languages

FORMAT = 1
BEGIN = "0" * 64  # the hash before the first line of the record
Role = Literal["user", "steward", "auditor"]
ROLES: tuple[Role, ...] = ("user", "steward", "auditor")
TABLES = """
CREATE TABLE IF NOT EXISTS format (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS account (
  name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT NOT NULL, state TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS invitation (
  hash TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, ends REAL NOT NULL);
CREATE TABLE IF NOT EXISTS session (
  hash TEXT PRIMARY KEY, account TEXT NOT NULL, made REAL NOT NULL, used REAL NOT NULL);
CREATE TABLE IF NOT EXISTS failure (subject TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS public_table (name TEXT PRIMARY KEY, requests TEXT NOT NULL, about TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS asked (
  account TEXT NOT NULL, name TEXT NOT NULL, day TEXT NOT NULL, form TEXT NOT NULL,
  PRIMARY KEY (account, name, day, form)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS message (
  seq INTEGER PRIMARY KEY, name TEXT NOT NULL, request TEXT NOT NULL, at TEXT NOT NULL, actor TEXT NOT NULL,
  words TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS task (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, request TEXT NOT NULL, version INTEGER,
  actor TEXT NOT NULL, reason TEXT NOT NULL, state TEXT NOT NULL, told TEXT NOT NULL DEFAULT '', made REAL NOT NULL);
CREATE TABLE IF NOT EXISTS audit (
  seq INTEGER PRIMARY KEY, at TEXT NOT NULL, actor TEXT NOT NULL, kind TEXT NOT NULL, object TEXT NOT NULL,
  before TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER IF NOT EXISTS audit_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditLine:
    """One line of the record."""

    seq: int
    at: str
    actor: str
    kind: str
    object: str
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DeskTask:
    """One piece of work for the steward's worker."""

    id: str
    kind: str
    name: str
    request: str
    version: int | None
    actor: str
    reason: str
    state: str
    told: str

    @property
    def lines(self) -> list[str]:
        """What it told, in the language of the reader."""
        kept = json.loads(self.told or "{}")
        return list(kept.get(current_language(), kept.get("en", [])))


class DeskStore:
    """One file of SQLite in the folder of the desk; every thread has a connection of its own."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder.resolve()
        self.file = self.folder / "desk.db"
        self.clock = clock
        self._open = threading.local()
        if not self.file.exists():
            raise RequestError("{folder} is no folder of a desk; make one with `sudare desk create`", folder=folder)
        with self.connect() as store:
            (known,) = store.execute("SELECT max(version) FROM format").fetchone()
        if known != FORMAT:
            raise RequestError("{file} was written by another version ({version})", file=self.file, version=known)

    @classmethod
    def create(cls, folder: Path) -> DeskStore:
        """Make the folder of a desk; one that is there is refused."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "desk.db"
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise RequestError("{folder} is the folder of a desk already", folder=folder) from None
        store = sqlite3.connect(file)
        store.executescript("PRAGMA journal_mode=WAL;" + TABLES)
        store.execute("INSERT INTO format VALUES (?)", (FORMAT,))
        store.commit()
        store.close()
        return cls(folder)

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Open the store for one piece of work; it is kept whole or not at all. A thread keeps its connection."""
        store: sqlite3.Connection | None = getattr(self._open, "store", None)
        if store is None:
            store = self._open.store = sqlite3.connect(self.file, timeout=30)
            store.row_factory = sqlite3.Row
            store.execute("PRAGMA synchronous=NORMAL")
        with store:
            yield store

    @property
    def today(self) -> str:
        """The day, UTC."""
        return datetime.fromtimestamp(self.clock(), UTC).date().isoformat()

    # --- the record ---------------------------------------------------------------------------------------------------

    def note(self, actor: str, kind: str, what: str = "") -> None:
        """Add a line to the record."""
        with self.connect() as store:
            store.execute("BEGIN IMMEDIATE")
            row = store.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
            seq, before = (1, BEGIN) if row is None else (row["seq"] + 1, row["hash"])
            at = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="seconds")
            line = (seq, at, actor, kind, what, before)
            store.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?)", (*line, _hash(line)))

    def record(self, most: int = 500) -> list[AuditLine]:
        """Give the last lines of the record, the newest first."""
        with self.connect() as store:
            rows = store.execute("SELECT * FROM audit ORDER BY seq DESC LIMIT ?", (most,)).fetchall()
        return [
            AuditLine(
                seq=row["seq"],
                at=row["at"],
                actor=row["actor"],
                kind=row["kind"],
                object=row["object"],
                hash=row["hash"],
            )
            for row in rows
        ]

    def verify(self) -> int:
        """Follow the chain of the record, and give its length.

        Error: RequestError that names the first line that does not fit.
        """
        before, count = BEGIN, 0
        with self.connect() as store:
            for row in store.execute("SELECT * FROM audit ORDER BY seq"):
                line = (row["seq"], row["at"], row["actor"], row["kind"], row["object"], row["before"])
                if row["seq"] != count + 1 or row["before"] != before or row["hash"] != _hash(line):
                    raise RequestError("the record of the desk was changed: line {line} does not fit", line=count + 1)
                before, count = row["hash"], count + 1
        return count

    # --- public tables ------------------------------------------------------------------------------------------------

    def add_table(self, name: str, requests: Path, about: str) -> None:
        """Offer a table: the store of its requests, and a line about it."""
        with self.connect() as store:
            store.execute(
                "INSERT OR REPLACE INTO public_table VALUES (?, ?, ?)", (name, str(requests.resolve()), about)
            )

    def tables(self) -> dict[str, tuple[Path, str]]:
        """List the tables on offer: the store of their requests, and what is said about them."""
        with self.connect() as store:
            rows = store.execute("SELECT * FROM public_table ORDER BY name").fetchall()
        return {row["name"]: (Path(row["requests"]), row["about"]) for row in rows}

    def count_form(self, account: str, name: str, form: Mapping[str, Any], *, most: int) -> int:
        """Count a form that is judged; the same form is counted once a day. Gives how many were counted today.

        Error: ParameterError beyond `most`.
        """
        key = hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()
        with self.connect() as store:
            day = self.today
            store.execute("BEGIN IMMEDIATE")
            counted = store.execute(
                "SELECT count(*), max(form = ?) FROM asked WHERE account = ? AND name = ? AND day = ?",
                (key, account, name, day),
            ).fetchone()
            if counted[1]:
                return int(counted[0])
            if counted[0] >= most:
                raise ParameterError("{count} answers a day. Send the request and the steward will answer.", count=most)
            store.execute("INSERT INTO asked VALUES (?, ?, ?, ?)", (account, name, day, key))
            return int(counted[0]) + 1

    def count_asked(self, name: str) -> dict[str, int]:
        """Count the forms that each data user has had judged, ever."""
        with self.connect() as store:
            rows = store.execute(
                "SELECT account, count(DISTINCT form) AS forms FROM asked WHERE name = ?"
                " GROUP BY account ORDER BY account",
                (name,),
            ).fetchall()
        return {row["account"]: row["forms"] for row in rows}

    # --- messages and work --------------------------------------------------------------------------------------------

    def say(self, name: str, request: str, actor: str, words: str) -> None:
        """Add a message to a request."""
        at = self.today
        with self.connect() as store:
            store.execute(
                "INSERT INTO message (name, request, at, actor, words) VALUES (?, ?, ?, ?, ?)",
                (name, request, at, actor, words),
            )

    def messages(self, name: str, request: str) -> list[sqlite3.Row]:
        """Give the messages of a request, the oldest first."""
        with self.connect() as store:
            return store.execute(
                "SELECT at, actor, words FROM message WHERE name = ? AND request = ? ORDER BY seq", (name, request)
            ).fetchall()

    def add_task(self, kind: str, name: str, request: str, *, version: int | None, actor: str, reason: str) -> str:
        """Leave a piece of work to the steward's worker."""
        key = secrets.token_urlsafe(9)
        with self.connect() as store:
            store.execute(
                "INSERT INTO task (id, kind, name, request, version, actor, reason, state, made)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?)",
                (key, kind, name, request, version, actor, reason, self.clock()),
            )
        return key

    def take_task(self, name: str) -> DeskTask | None:
        """Take the oldest piece of work of a table."""
        with self.connect() as store:
            store.execute("BEGIN IMMEDIATE")
            row = store.execute(
                "SELECT * FROM task WHERE name = ? AND state = 'waiting' ORDER BY made LIMIT 1", (name,)
            ).fetchone()
            if row is None:
                return None
            store.execute("UPDATE task SET state = 'running' WHERE id = ?", (row["id"],))
            return _read_task(row)

    def end_task(self, key: str, state: str, told: Sequence[Words]) -> None:
        """Note how a piece of work ended; `told` is for stewards alone, kept in every language."""
        lines = {
            code: [line.render(code) if isinstance(line, Readable) else line for line in told] for code in languages()
        }
        with self.connect() as store:
            store.execute(
                "UPDATE task SET state = ?, told = ? WHERE id = ?", (state, json.dumps(lines, ensure_ascii=False), key)
            )

    def tasks(self, name: str, request: str) -> list[DeskTask]:
        """Give the work for a request, the newest first."""
        with self.connect() as store:
            rows = store.execute(
                "SELECT * FROM task WHERE name = ? AND request = ? ORDER BY made DESC", (name, request)
            ).fetchall()
        return [_read_task(row) for row in rows]


def _read_task(row: sqlite3.Row) -> DeskTask:
    return DeskTask(**{name: row[name] for name in DeskTask.__dataclass_fields__})


def _hash(line: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps(line, ensure_ascii=False).encode()).hexdigest()
