"""The folder a steward works in: tables and their drafts, ledgers, releases, and what is going on.

Each table has a folder of its own in it, which holds its schema, its ledger and its releases, so that everything can
also be done by commands. What the pages need beyond that stands in one small file of SQLite, readable by its owner
only. Passwords of databases are kept in memory and never written.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from sudare.errors import ReleaseError, SchemaError, SourceError, SudareError
from sudare.privacy import Ledger
from sudare.releases import Certificate
from sudare.scratch import ScratchDirectory, make_scratch
from sudare.sources import is_address, name_table
from sudare.studio.cards import Cards

STORE = ".sudare-studio.db"
FORMAT = 1  # of the store
MOST_BYTES = 50_000_000  # of a certificate
MOST_DEEP = 3  # folders below the project in which releases are looked for
TABLES = """
CREATE TABLE IF NOT EXISTS format (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS source (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, folder TEXT NOT NULL, address TEXT NOT NULL, encoding TEXT,
  cards TEXT, version INTEGER NOT NULL DEFAULT 0, answers TEXT NOT NULL DEFAULT '{}');
CREATE TABLE IF NOT EXISTS job (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, source TEXT NOT NULL, fields TEXT NOT NULL, state TEXT NOT NULL,
  step TEXT NOT NULL DEFAULT '', share REAL, pid INTEGER, result TEXT, message TEXT, made REAL NOT NULL,
  spent_before INTEGER);
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class StudioTable:
    """A table that the steward works on: where it is, its folder, its cards."""

    id: str
    name: str
    folder: Path
    address: str
    encoding: str | None
    cards: Cards | None
    answers: dict[str, Any]

    @property
    def schema_file(self) -> Path:
        """Where its schema stands."""
        return self.folder / "schema.toml"

    @property
    def ledger_file(self) -> Path:
        """Where its ledger stands, once there is one."""
        return self.folder / "ledger.db"

    @property
    def shown_address(self) -> str:
        """Name the data without a password, and a file by its name."""
        return hide_password(self.address) if is_address(self.address) else Path(self.address).name


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRelease:
    """A release in the folder of the project."""

    id: str
    directory: Path
    certificate: Certificate

    @property
    def ledger_file(self) -> Path | None:
        """The ledger of its table, if it stands beside it."""
        spent = self.certificate.ledger_head
        beside = sorted({*self.directory.parent.glob("ledger.db"), *self.directory.parent.glob("*.ledger")})
        return next((file for file in beside if spent is not None and _knows(file, spent)), None)


def _knows(file: Path, head: str) -> bool:
    """Tell whether a ledger has a spend with this head."""
    try:
        with Ledger.open(file) as ledger:
            return any(spend.head == head for spend in ledger.entries())
    except SudareError:
        return False


def hide_password(address: str) -> str:
    """Write an address without its password.

    >>> hide_password("postgresql://me:secret@host/office?table=people")
    'postgresql://me@host/office?table=people'
    """
    parts = urlsplit(address)
    if parts.password is None:
        return address
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username}@{host}"))


class ReleaseFolder:
    """The releases in a folder, by ids that a browser may name; a path is never taken from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)

    def releases(self) -> list[StoredRelease]:
        """Find the releases in the folder; what cannot be read is left out here, and told where it is opened."""
        found = []
        for directory in sorted(_walk(self.folder, MOST_DEEP)):
            if (directory / "certificate.json").is_file():
                release = self._open_release(directory)
                if release is not None:
                    found.append(release)
        return found

    def release(self, key: str) -> StoredRelease:
        """Give a release by its id; a path is never taken from the browser.

        Error: SourceError if there is none.
        """
        for release in self.releases():
            if release.id == key:
                return release
        raise SourceError("there is no such release here; choose one of the list")

    def _open_release(self, directory: Path) -> StoredRelease | None:
        key = hashlib.sha256(str(directory.relative_to(self.folder)).encode()).hexdigest()[:16]
        try:
            return StoredRelease(id=key, directory=directory, certificate=_read_certificate(directory))
        except (SudareError, OSError, UnicodeDecodeError):
            return None


class Project(ReleaseFolder):
    """What the pages share. Every call takes a connection of its own, so that threads do not meet."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = self.folder / STORE
        self._passwords: dict[str, str] = {}  # whole addresses by table, in memory only
        self._scratch: ScratchDirectory | None = None
        self._lock = threading.Lock()
        self.file.touch(mode=0o600)
        os.chmod(self.file, 0o600)
        with self.connect() as store:
            store.executescript("PRAGMA journal_mode=WAL;" + TABLES)
            (known,) = store.execute("SELECT max(version) FROM format").fetchone()
            if known is None:
                store.execute("INSERT INTO format VALUES (?)", (FORMAT,))
            elif known != FORMAT:
                raise SchemaError(
                    "{file} was written by another version of the studio ({version}); move it away to begin anew",
                    file=self.file,
                    version=known,
                )

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Open the store for one piece of work; it is kept whole or not at all."""
        store = sqlite3.connect(self.file, timeout=30)
        store.row_factory = sqlite3.Row
        try:
            with store:
                yield store
        finally:
            store.close()

    def close(self) -> None:
        """Remove the files that were dropped on the page."""
        with self._lock:
            if self._scratch is not None:
                self._scratch.remove()
                self._scratch = None

    # --- tables -------------------------------------------------------------------------------------------------------

    def upload_folder(self) -> Path:
        """Where a dropped file is kept while the studio runs; only its owner may enter it."""
        with self._lock:
            if self._scratch is None:
                self._scratch = make_scratch(self.folder, "rows")
            return self._scratch.path

    def add_table(self, address: str, *, encoding: str | None = None) -> str:
        """Take a table in; its folder is made when its schema is."""
        name = re.sub(r"[^\w.-]+", "_", name_table(address.partition("#")[0])).strip("._") or "table"
        key = secrets.token_urlsafe(9)
        shown = hide_password(address) if is_address(address) else address
        if shown != address:
            self._passwords[key] = address
        with self.connect() as store:
            store.execute(
                "INSERT INTO source (id, name, folder, address, encoding) VALUES (?, ?, ?, ?, ?)",
                (key, name, str(self._find_free_folder(name)), shown, encoding),
            )
        return key

    def _find_free_folder(self, name: str) -> Path:
        for number in range(1, 1000):
            folder = self.folder / (name if number == 1 else f"{name}-{number}")
            if not folder.exists():
                return folder
        raise SourceError("there are too many tables named {name} in this folder; rename some", name=name)

    def table(self, key: str) -> StudioTable:
        """Give a table by its id.

        Error: SourceError if there is none.
        """
        with self.connect() as store:
            row = store.execute("SELECT * FROM source WHERE id = ?", (key,)).fetchone()
        if row is None:
            raise SourceError("there is no such table here; choose one")
        return self._read_table(row)

    def tables(self) -> list[StudioTable]:
        """List the tables, the newest first."""
        with self.connect() as store:
            return [self._read_table(row) for row in store.execute("SELECT * FROM source ORDER BY rowid DESC")]

    def _read_table(self, row: sqlite3.Row) -> StudioTable:
        cards = None if row["cards"] is None else Cards.from_json(row["cards"])
        return StudioTable(
            id=row["id"],
            name=row["name"],
            folder=Path(row["folder"]),
            address=self._passwords.get(row["id"], row["address"]),
            encoding=row["encoding"],
            cards=cards,
            answers=json.loads(row["answers"]),
        )

    def set_address(self, key: str, address: str, encoding: str | None) -> None:
        """Say anew where the table stands: another sheet, another line of names; its draft is made anew."""
        with self.connect() as store:
            store.execute(
                "UPDATE source SET address = ?, encoding = ?, cards = NULL, version = version + 1 WHERE id = ?",
                (address, encoding, key),
            )

    def save_cards(self, key: str, cards: Cards, *, before: int | None) -> None:
        """Keep the cards if nobody else changed them since version `before`.

        Error: SchemaError if somebody did.
        """
        with self.connect() as store:
            store.execute("BEGIN IMMEDIATE")
            row = store.execute("SELECT cards FROM source WHERE id = ?", (key,)).fetchone()
            known = None if row is None or row["cards"] is None else json.loads(row["cards"])["version"]
            if before is not None and known != before:
                raise SchemaError("Saved first in another window. Your input is kept; compare and save.")
            store.execute("UPDATE source SET cards = ? WHERE id = ?", (cards.to_json(), key))

    def save_answers(self, key: str, answers: dict[str, Any]) -> None:
        """Keep what the steward chose, so that nothing typed is lost."""
        with self.connect() as store:
            store.execute("UPDATE source SET answers = ? WHERE id = ?", (json.dumps(answers), key))


def _read_certificate(directory: Path) -> Certificate:
    file = directory / "certificate.json"
    if file.stat().st_size > MOST_BYTES:
        raise ReleaseError("{file} is too large for a certificate; the release is damaged", file=file)
    return Certificate.from_json(file.read_text(encoding="utf-8"))


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
            yield entry
            if depth > 1:
                yield from _walk(entry, depth - 1)
