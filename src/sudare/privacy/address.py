"""Where a ledger stands: a file, or a PostgreSQL server by its address. A password is never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from sudare.errors import LedgerError

DEFAULT_LEDGER = "sudare"  # the schema that a ledger stands in where the address names none

_SERVER = re.compile(r"postgres(?:ql)?:/{1,2}", re.IGNORECASE)  # one slash: what a Path leaves of an address
_LEDGER_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")  # PostgreSQL cuts names at 63 bytes
_SECRET = ("password", "sslpassword", "passfile")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerAddress:
    """The address of a ledger on a server.

    `connection` is what the driver is given, `ledger` the schema of the database that holds the ledger, and `shown`
    what people may see: everything but passwords.
    """

    connection: str = field(repr=False)
    ledger: str
    shown: str


def is_server_address(place: str | Path) -> bool:
    """Tell whether a ledger stands on a PostgreSQL server and not in a file.

    >>> is_server_address("postgresql://office@db.example/census"), is_server_address("people.ledger")
    (True, False)
    """
    return _SERVER.match(str(place)) is not None


def hide_password(place: str | Path) -> str | Path:
    """Give a place as people may see it.

    >>> hide_password("postgresql://office:secret@db.example/census?ledger=people")
    'postgresql://office@db.example/census?ledger=people'
    """
    return read_address(place).shown if is_server_address(place) else place


def read_address(place: str | Path) -> ServerAddress:
    """Read `postgresql://user@host:port/database?ledger=people`; other keys go to the driver, such as sslmode.

    Error: LedgerError in one line, without the address: it may hold a password.

    >>> read_address("postgresql://office:secret@db.example/census?sslmode=require").ledger
    'sudare'
    >>> read_address("postgresql:///census?host=/var/run/postgresql").shown
    'postgresql:///census?host=%2Fvar%2Frun%2Fpostgresql'
    """
    try:
        parts = urlsplit(_SERVER.sub("postgresql://", str(place), count=1))
        queries = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        _ = parts.port
    except ValueError:
        raise name_form() from None
    if set("@:") & set(parts.path) or "@" in parts.query:  # a password whose / or ? is not written as %2F or %3F
        raise name_form()
    user, _, host = parts.netloc.rpartition("@")
    named = [value for key, value in queries if key == "ledger"]
    if len(named) > 1 or not _LEDGER_NAME.fullmatch(named[0] if named else DEFAULT_LEDGER) or parts.fragment:
        raise name_form()
    kept = [(key, value) for key, value in queries if key != "ledger"]
    shown = [(key, value) for key, value in queries if key not in _SECRET]
    login = f"{user.partition(':')[0]}@" if user else ""
    return ServerAddress(
        connection=_write_address(parts.netloc, parts.path, kept),
        ledger=named[0] if named else DEFAULT_LEDGER,
        shown=_write_address(login + host, parts.path, shown),
    )


def _write_address(netloc: str, path: str, keys: list[tuple[str, str]]) -> str:
    query = urlencode(keys, quote_via=quote)  # the driver does not read + as a space
    return f"postgresql://{netloc}{path}" + (f"?{query}" if query else "")


def name_form() -> LedgerError:
    """Say what an address looks like, without the one that was given."""
    return LedgerError(
        "the address of a ledger on a server must be like postgresql://user@host/database?ledger=people; the name of"
        " the ledger is made of small letters, digits and _, at most 48"
    )
