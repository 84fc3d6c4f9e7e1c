"""What the desk keeps: accounts, sessions, public tables, work to be done, and an append-only record of what was done.

The record is a chain of hashes, as a ledger is; triggers forbid to change or remove a line of it. Rows are kept in a
file of the folder, or on a PostgreSQL server that a file of the folder names (`database.py`).
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sudare.atomic import replace_file
from sudare.errors import ParameterError, RequestError
from sudare.studio.desk.database import DeskDatabase, FileDatabase, Row, Rows, ServerDatabase
from sudare.text import Readable, Words, current_language, languages

FORMAT = 1
FILE, ADDRESS = "desk.db", "desk.address"  # in the folder: the rows, or where they are kept
BEGIN = "0" * 64  # the hash before the first line of the record
Role = Literal["user", "steward", "auditor"]
ROLES: tuple[Role, ...] = ("user", "steward", "auditor")


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
    """The rows of a desk, and its folder with the releases and deliveries."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder.resolve()
        self.clock = clock
        self.database = _open_database(self.folder)
        with self.work() as rows:
            found = rows.find("SELECT max(version) AS version FROM format")
        known = None if found is None else found["version"]
        if known != FORMAT:
            raise RequestError("{folder} was written by another version ({version})", folder=folder, version=known)

    @classmethod
    def create(cls, folder: Path, *, address: str | None = None) -> DeskStore:
        """Make the folder of a desk, its rows in a file or in the database of an address; one that is there is refused.

        Error: RequestError.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / FILE).exists() or (folder / ADDRESS).exists():
            raise RequestError("{folder} is the folder of a desk already", folder=folder)
        database: DeskDatabase
        if address is None:
            database = FileDatabase.create(folder / FILE)
        else:
            database = ServerDatabase.create(address)
            replace_file(folder / ADDRESS, address + "\n")
            (folder / ADDRESS).chmod(0o600)
        with database.work() as rows:
            rows.run("INSERT INTO format VALUES (?)", FORMAT)
        return cls(folder)

    def work(self, *, alone: bool = False) -> AbstractContextManager[Rows]:
        """Begin a piece of work with the rows; it is kept whole or not at all."""
        return self.database.work(alone=alone)

    @property
    def today(self) -> str:
        """The day, UTC."""
        return datetime.fromtimestamp(self.clock(), UTC).date().isoformat()

    # --- the record ---------------------------------------------------------------------------------------------------

    def note(self, actor: str, kind: str, what: str = "") -> None:
        """Add a line to the record."""
        with self.work(alone=True) as rows:
            row = rows.find("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
            seq, before = (1, BEGIN) if row is None else (row["seq"] + 1, row["hash"])
            at = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="seconds")
            line = (seq, at, actor, kind, what, before)
            rows.run("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?)", *line, _hash(line))

    def record(self, most: int = 500) -> list[AuditLine]:
        """Give the last lines of the record, the newest first."""
        with self.work() as rows:
            found = rows.list("SELECT * FROM audit ORDER BY seq DESC LIMIT ?", most)
        return [
            AuditLine(
                seq=row["seq"],
                at=row["at"],
                actor=row["actor"],
                kind=row["kind"],
                object=row["object"],
                hash=row["hash"],
            )
            for row in found
        ]

    def verify(self) -> int:
        """Follow the chain of the record, and give its length.

        Error: RequestError that names the first line that does not fit.
        """
        before, count = BEGIN, 0
        with self.work() as rows:
            for row in rows.list("SELECT * FROM audit ORDER BY seq"):
                line = (row["seq"], row["at"], row["actor"], row["kind"], row["object"], row["before"])
                if row["seq"] != count + 1 or row["before"] != before or row["hash"] != _hash(line):
                    raise RequestError("the record of the desk was changed: line {line} does not fit", line=count + 1)
                before, count = row["hash"], count + 1
        return count

    # --- public tables ------------------------------------------------------------------------------------------------

    def add_table(self, name: str, requests: Path, about: str) -> None:
        """Offer a table: the store of its requests, and a line about it."""
        with self.work() as rows:
            rows.run(
                "INSERT INTO public_table VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
                " SET requests = excluded.requests, about = excluded.about",
                name,
                str(requests.resolve()),
                about,
            )

    def tables(self) -> dict[str, tuple[Path, str]]:
        """List the tables on offer: the store of their requests, and what is said about them."""
        with self.work() as rows:
            found = rows.list("SELECT * FROM public_table ORDER BY name")
        return {row["name"]: (Path(row["requests"]), row["about"]) for row in found}

    def count_form(self, account: str, name: str, form: Mapping[str, Any], *, most: int) -> int:
        """Count a form that is judged; the same form is counted once a day. Gives how many were counted today.

        Error: ParameterError beyond `most`.
        """
        key = hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()
        with self.work(alone=True) as rows:
            day = self.today
            asked = rows.list("SELECT form FROM asked WHERE account = ? AND name = ? AND day = ?", account, name, day)
            if any(row["form"] == key for row in asked):
                return len(asked)
            if len(asked) >= most:
                raise ParameterError("{count} answers a day. Send the request and the steward will answer.", count=most)
            rows.run("INSERT INTO asked VALUES (?, ?, ?, ?)", account, name, day, key)
            return len(asked) + 1

    def count_asked(self, name: str) -> dict[str, int]:
        """Count the forms that each data user has had judged, ever."""
        with self.work() as rows:
            found = rows.list(
                "SELECT account, count(DISTINCT form) AS forms FROM asked WHERE name = ?"
                " GROUP BY account ORDER BY account",
                name,
            )
        return {row["account"]: row["forms"] for row in found}

    # --- messages and work --------------------------------------------------------------------------------------------

    def say(self, name: str, request: str, actor: str, words: str) -> None:
        """Add a message to a request."""
        at = self.today
        with self.work() as rows:
            rows.run(
                "INSERT INTO message (name, request, at, actor, words) VALUES (?, ?, ?, ?, ?)",
                name,
                request,
                at,
                actor,
                words,
            )

    def messages(self, name: str, request: str) -> list[Row]:
        """Give the messages of a request, the oldest first."""
        with self.work() as rows:
            return rows.list(
                "SELECT at, actor, words FROM message WHERE name = ? AND request = ? ORDER BY seq", name, request
            )

    def add_task(self, kind: str, name: str, request: str, *, version: int | None, actor: str, reason: str) -> str:
        """Leave a piece of work to the steward's worker."""
        key = secrets.token_urlsafe(9)
        with self.work() as rows:
            rows.run(
                "INSERT INTO task (id, kind, name, request, version, actor, reason, state, made)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?)",
                *(key, kind, name, request, version, actor, reason, self.clock()),
            )
        return key

    def take_task(self, name: str) -> DeskTask | None:
        """Take the oldest piece of work of a table."""
        with self.work(alone=True) as rows:
            row = rows.find("SELECT * FROM task WHERE name = ? AND state = 'waiting' ORDER BY made LIMIT 1", name)
            if row is None:
                return None
            rows.run("UPDATE task SET state = 'running' WHERE id = ?", row["id"])
            return _read_task(row)

    def end_task(self, key: str, state: str, told: Sequence[Words]) -> None:
        """Note how a piece of work ended; `told` is for stewards alone, kept in every language."""
        lines = {
            code: [line.render(code) if isinstance(line, Readable) else line for line in told] for code in languages()
        }
        with self.work() as rows:
            rows.run(
                "UPDATE task SET state = ?, told = ? WHERE id = ?", state, json.dumps(lines, ensure_ascii=False), key
            )

    def tasks(self, name: str, request: str) -> list[DeskTask]:
        """Give the work for a request, the newest first."""
        with self.work() as rows:
            found = rows.list("SELECT * FROM task WHERE name = ? AND request = ? ORDER BY made DESC", name, request)
        return [_read_task(row) for row in found]


def _open_database(folder: Path) -> DeskDatabase:
    """Open the rows of a desk: its file, or the server that its file of an address names.

    Error: RequestError if the folder is no desk's.
    """
    if (folder / FILE).exists():
        return FileDatabase(folder / FILE)
    if (folder / ADDRESS).exists():
        return ServerDatabase((folder / ADDRESS).read_text(encoding="utf-8").strip())
    raise RequestError("{folder} is no folder of a desk; make one with `sudare desk create`", folder=folder)


def _read_task(row: Row) -> DeskTask:
    return DeskTask(**{name: row[name] for name in DeskTask.__dataclass_fields__})


def _hash(line: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps(line, ensure_ascii=False).encode()).hexdigest()
