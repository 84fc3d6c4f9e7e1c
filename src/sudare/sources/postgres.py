"""PostgreSQL: rows stay on the server and are counted there. The one file of this room that imports psycopg.

One transaction of REPEATABLE READ holds all queries of a source, so all see the same rows, whatever others change
meanwhile. In it a row of a table is known by its place (ctid, with the table where there are several): the server
keeps every version of a row that a snapshot sees, and what would move rows (VACUUM FULL, CLUSTER) waits for our lock.
The rows of a view or a query are copied once into a temporary table. The transaction is never committed: everything
that was made in it, in the schema pg_temp of this session alone, is gone when the source is closed.

A role that may not make temporary tables, or a server that only reads, gets the same counts: lookups and what would be
kept travel with every query. That costs time, and the rows of a view cannot be known again (`InlineTables`).
Dialect, types and refusals stand in `postgres_forms.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
import psycopg.errors
import psycopg.types.datetime
import sqlglot
import sqlglot.errors
from numpy.typing import NDArray
from psycopg import conninfo, sql
from sqlglot import exp

from sudare.errors import ParameterError, SourceError
from sudare.scratch import make_scratch
from sudare.sources.base import Progress
from sudare.sources.dialect import Dialect
from sudare.sources.duckdb import write_parquet
from sudare.sources.engine import NUMBERED_ROWS, ROW, ROWS, Column, Lookup
from sudare.sources.postgres_forms import (
    DIALECT,
    PARQUET_TYPES,
    explain_refusal,
    is_plain_count,
    make_column,
    merge_counts,
    read_binary,
    translate,
)
from sudare.text import Words, describe_refusal

T = TypeVar("T")

# --- where the rows are ---------------------------------------------------------------------------------------------

SCHEMES = ("postgresql://", "postgres://")
_SECONDS_TO_CONNECT = 15


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a table, view or query is. Its text never shows a password."""

    login: Mapping[str, Any]
    table: str | None
    query: str | None

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"

    @property
    def server(self) -> str:
        """The server and the database, as they may be shown."""
        user = f"{self.login['user']}@" if self.login.get("user") else ""
        port = f":{self.login['port']}" if self.login.get("port") else ""
        return f"postgresql://{user}{self.login.get('host', '')}{port}/{self.login.get('dbname', '')}"

    @property
    def shown(self) -> str:
        """The whole address, as it may be shown and used again: without password and other settings."""
        what = {"table": self.table} if self.table is not None else {"query": self.query or ""}
        return f"{self.server}?{urlencode(what, quote_via=quote, safe='.')}"


def read_address(data: str) -> Address:
    """Read postgresql://user@host/database?table=NAME, or with query=SELECT ... in place of the table.

    Other settings of libpq may follow, such as sslmode; a password is better kept in PGPASSWORD or ~/.pgpass.

    >>> read_address("postgresql://me:secret@host/office?table=people")
    <Address postgresql://me@host/office?table=people>
    """
    try:
        parts = urlsplit(data)
        settings = parse_qsl(parts.query, keep_blank_values=True)
        own = {key: value for key, value in settings if key in ("table", "query")}
        rest = urlencode([pair for pair in settings if pair[0] not in own], quote_via=quote)
        login = conninfo.conninfo_to_dict(urlunsplit(parts._replace(query=rest, fragment="")))
    except (ValueError, psycopg.Error):
        # Neither the address nor what the parser says about it is shown: a password may stand in them.
        raise SourceError(
            "the address of the server cannot be read; write it like postgresql://user@host/database?table=people"
        ) from None
    if len(own) != 1 or not all(value.strip() for value in own.values()) or parts.fragment:
        raise SourceError(
            "{server} must be followed by ?table=NAME or ?query=SELECT ..., one of them",
            server=Address(login=login, table=None, query=None).server,
        )
    return Address(login=login, table=own.get("table"), query=own.get("query"))


# --- lookups and kept tables ----------------------------------------------------------------------------------------

_KEY_TYPES = {"text": "text", "integer": "bigint", "wide": "numeric", "decimal": "numeric",
              "float": "double precision", "day": "date", "moment": "timestamp"}  # fmt: skip


def _list_pairs(lookup: Lookup) -> list[tuple[Any, Any]]:
    """Give keys and values as plain Python; texts with the letter NUL, which no table here can hold, are left out."""
    keys = lookup.keys.astype("datetime64[D]").tolist() if lookup.key_type == "day" else lookup.keys.tolist()
    pairs = zip(keys, lookup.values.tolist(), strict=True)
    return [pair for pair in pairs if not any(isinstance(part, str) and "\0" in part for part in pair)]


class Tables(Protocol):
    """Where lookups and kept results stand, and how a query finds them."""

    def keep(self, name: str, query: str) -> None:
        """Store the result of a query."""

    def add(self, lookup: Lookup) -> None:
        """Store a lookup."""

    def complete(self, query: str) -> str:
        """Bring what a query needs before it is run."""


class TemporaryTables:
    """Temporary tables of the session, dropped with its transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def keep(self, name: str, query: str) -> None:
        """Store the result of a query."""
        self._execute(f"DROP TABLE IF EXISTS pg_temp.{name}")
        self._execute(f"CREATE TEMP TABLE {name} ON COMMIT DROP AS {query}")
        self._execute(f"ANALYZE {name}")

    def add(self, lookup: Lookup) -> None:
        """Store a lookup."""
        key, value = _KEY_TYPES[lookup.key_type], "text" if lookup.value_type == "text" else "bigint"
        collation = ' COLLATE "C"' if key == "text" else ""
        self._execute(f"DROP TABLE IF EXISTS pg_temp.{lookup.name}")
        self._execute(f"CREATE TEMP TABLE {lookup.name} (k {key}{collation}, v {value}) ON COMMIT DROP")
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {lookup.name} FROM STDIN") as copy:
            for pair in _list_pairs(lookup):
                copy.write_row(pair)
        self._execute(f"ANALYZE {lookup.name}")

    def complete(self, query: str) -> str:
        """Bring nothing: the tables are there."""
        return query

    def _execute(self, statement: str) -> None:
        self._connection.execute(statement)


class InlineTables:
    """The same without a temporary table: every query carries what it needs as common table expressions."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        self._parts = dict(rows)  # name -> the query that gives it

    def keep(self, name: str, query: str) -> None:
        """Store the query; it is run again wherever it is needed, on the same snapshot."""
        self._parts[name] = query

    def add(self, lookup: Lookup) -> None:
        """Store the keys and values as arrays."""
        key, value = _KEY_TYPES[lookup.key_type], "text" if lookup.value_type == "text" else "bigint"
        pairs = _list_pairs(lookup)
        keys, values = (sql.Literal([pair[side] for pair in pairs]).as_string() for side in (0, 1))
        collation = ' COLLATE "C"' if key == "text" else ""
        arrays = f"unnest(CAST({keys} AS {key}[]), CAST({values} AS {value}[]))"
        self._parts[lookup.name] = f"SELECT k{collation} AS k, v FROM {arrays} AS t(k, v)"

    def complete(self, query: str) -> str:
        """Write the parts that the query names, and those that they name, before it."""
        needed: dict[str, str] = {}
        self._collect(query, needed)
        if not needed:
            return query
        parts = ", ".join(f"{name} AS {_hint(name)} ({part})" for name, part in needed.items())
        return f"WITH {parts}, {query[5:]}" if query.startswith("WITH ") else f"WITH {parts} {query}"

    def _collect(self, query: str, needed: dict[str, str]) -> None:
        for name in sorted(set(re.findall(r"\bsudare_\w+", query)) & set(self._parts) - set(needed)):
            self._collect(self._parts[name], needed)
            needed[name] = self._parts[name]


def _hint(name: str) -> str:
    """Rows are read where they are needed; a lookup is made once."""
    return "NOT MATERIALIZED" if name in (ROWS, NUMBERED_ROWS) else "MATERIALIZED"


# --- the engine -----------------------------------------------------------------------------------------------------

_ROWS_PER_FETCH = 10_000
_SNAPSHOT = "sudare_snapshot"
_SETTINGS = (
    "SET datestyle = 'ISO, YMD'",
    "SET timezone = 'UTC'",
    "SET extra_float_digits = 1",
    "SET standard_conforming_strings = on",
    "SET idle_in_transaction_session_timeout = 0",
    "SET jit = off",  # the queries are long expressions, which take longer to compile than to run
)
_MEMORY = (
    "SELECT set_config('work_mem', '64MB', false) FROM pg_settings WHERE name = 'work_mem' AND setting::int < 65536"
)
_RIGHTS = (
    "SELECT has_database_privilege(current_database(), 'TEMP') AND NOT pg_is_in_recovery()"
    " AND current_setting('default_transaction_read_only') = 'off'"
)
_RELATION = """
    SELECT n.nspname, c.relname, c.relkind::text, c.relhassubclass, EXISTS (
        WITH RECURSIVE parts AS (
            SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = c.oid
            UNION SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON i.inhparent = p.inhrelid
        )
        SELECT 1 FROM parts JOIN pg_class t ON t.oid = parts.inhrelid WHERE t.relkind = 'f'
    )
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""


_PAGES = "SELECT pg_relation_size(to_regclass(%s)) / current_setting('block_size')::int"
_PAGES_PER_PART = 4096  # 32 megabytes: a part of a second or so
_MOST_PARTS = 20
_ROWS_CLAUSE = re.compile(rf"\b({ROWS}|{NUMBERED_ROWS}) AS r\b")


def _write_ranges(bounds: Sequence[int]) -> list[str]:
    """Write a condition for each range of pages; the first and the last are open, so that no page is left out."""
    lows = ["", *(f"ctid >= '({bound},0)'" for bound in bounds[1:])]
    highs = [*(f"ctid < '({bound},0)'" for bound in bounds[1:]), ""]
    return [f" WHERE {' AND '.join(filter(None, pair))}" for pair in zip(lows, highs, strict=True)]


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """What stands behind FROM, and the identity of a row in it; None if the server keeps none."""

    clause: str
    identity: str | None


class PostgresEngine:
    """A table, view or query on a server. See `engine.Engine` for its verbs."""

    has_named_columns = True
    dialect: Dialect = DIALECT

    def __init__(
        self,
        data: str,
        *,
        progress: Progress | None = None,
        spill_directory: str | Path | None = None,
        **file_options: object,
    ) -> None:
        if given := [name for name, value in file_options.items() if value is not None]:
            raise ParameterError("{name} is for files; leave it out for a table on a server", name=given[0])
        self._address = read_address(data)
        self._progress, self._spill_directory = progress, spill_directory
        self._lock = threading.RLock()
        self._connection = _connect(self._address)
        self._close = weakref.finalize(self, _close_connection, self._connection, os.getpid())
        try:
            self._run(self._begin)
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Take the snapshot, and show its rows under Sudare's own names."""
        connection = self._connection
        for setting in (*_SETTINGS, _MEMORY):
            connection.execute(setting)
        (has_tables,) = _fetch(connection, _RIGHTS)[0]
        connection.isolation_level, connection.read_only = psycopg.IsolationLevel.REPEATABLE_READ, not has_tables
        connection.autocommit = False
        rows = self._find_rows()
        columns = self._describe(rows.clause)
        if has_tables and rows.identity is None:
            connection.execute(f"CREATE TEMP TABLE {_SNAPSHOT} ON COMMIT DROP AS SELECT * FROM {rows.clause}")
            rows = TableRows(clause=f"pg_temp.{_SNAPSHOT}", identity="ctid")
        self._columns = tuple(column for column, _ in columns)
        selected = ", ".join(f"{value} AS {column.column_id}" for column, value in columns)
        views = {ROWS: f"SELECT {selected or '1 AS nothing'} FROM {rows.clause}"}
        if rows.identity is not None:
            views[NUMBERED_ROWS] = f"SELECT {selected or '1 AS nothing'}, {rows.identity} AS {ROW} FROM {rows.clause}"
        self._tables: Tables = TemporaryTables(connection) if has_tables else InlineTables(views)
        self._can_number = rows.identity is not None
        self._views = views
        # only in a table of its own does a range of pages hold every row once
        (self._pages,) = _fetch(connection, _PAGES, (rows.clause,))[0] if rows.identity == "ctid" else (0,)
        for name, view in views.items() if has_tables else ():
            connection.execute(f"CREATE TEMP VIEW {name} AS {view}")

    def _find_rows(self) -> TableRows:
        address = self._address
        if address.table is None:
            return TableRows(clause=f"({_read_query(address)}) AS q", identity=None)
        exact = sql.SQL(".").join(map(sql.Identifier, address.table.split("."))).as_string()
        for name in (exact, address.table):
            if found := _fetch(self._connection, _RELATION, (name,)):
                schema, table, kind, has_parts, has_foreign_parts = found[0]
                clause = sql.Identifier(schema, table).as_string()
                return TableRows(clause=clause, identity=_find_identity(kind, has_parts, has_foreign_parts))
        raise SourceError(
            "there is no table or view {table} in {server}, or you may not see it; check its name and schema",
            table=address.table,
            server=address.server,
        )

    def _describe(self, clause: str) -> list[tuple[Column, str]]:
        """Read the names and types of the columns; no row is read."""
        description = self._connection.execute(f"SELECT * FROM {clause} LIMIT 0").description or []
        names = [column.name for column in description]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise SourceError("{data} has two columns named {name}; rename one", data=self.name, name=repeated[0])
        oids = [column.type_code for column in description]
        query = "SELECT oid, typname::text, typtype::text, format_type(oid, NULL) FROM pg_type WHERE oid = ANY(%s)"
        types = {oid: facts for oid, *facts in _fetch(self._connection, query, (oids,))}
        return [make_column(position, column, *types[column.type_code]) for position, column in enumerate(description)]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data."""
        return self._columns

    @property
    def name(self) -> Words:
        """The name of the data in messages: the address without its password."""
        return self._address.shown

    def arrays(self, query: exp.Query) -> dict[str, NDArray[Any]]:
        """Run a query of whole numbers; they come as binary numbers, which NumPy cuts."""
        rendered = self._render(query)
        parts = self._split(query, rendered)
        names = query.named_selects
        columns = ", ".join(f'CAST(q."{name}" AS bigint)' for name in names)
        results = []
        for done, part in enumerate(parts, start=1):
            copy = f"COPY (SELECT {columns} FROM ({part}) AS q) TO STDOUT (FORMAT binary)"
            results.append(read_binary(self._run(lambda: b"".join(self._copy(copy))), names))  # noqa: B023
            if self._progress is not None:
                self._progress(done / len(parts))
        return results[0] if len(results) == 1 else merge_counts(results)

    def _split(self, query: exp.Query, rendered: str) -> list[str]:
        """Split a count of the rows of a large table into ranges of its pages, if somebody waits to see progress.

        The server tells nothing about how far a query is; a part that is done tells it.
        """
        pages = self._pages if self._progress is not None and is_plain_count(query) else 0
        parts = min(_MOST_PARTS, pages // _PAGES_PER_PART)
        if parts < 2 or len(_ROWS_CLAUSE.findall(rendered)) != 1:
            return [rendered]
        bounds = [pages * part // parts for part in range(parts)]
        return [
            _ROWS_CLAUSE.sub(lambda found: f"({self._views[found[1]]}{condition}) AS r", rendered)  # noqa: B023
            for condition in _write_ranges(bounds)
        ]

    def stream(self, query: exp.Query) -> Iterator[tuple[Any, ...]]:
        """Run a query; rows as Python values, a few at a time. Finish one stream before the next query."""
        rendered = self._render(query)
        with self._connection.cursor(name="sudare_stream") as cursor:
            self._run(lambda: cursor.execute(rendered))
            while rows := self._run(lambda: cursor.fetchmany(_ROWS_PER_FETCH)):
                yield from rows

    def keep(self, name: str, query: exp.Query) -> None:
        """Store the result of a query as a temporary table."""
        rendered = self._render(query, complete=False)
        self._run(lambda: self._tables.keep(name, rendered))

    def add(self, lookup: Lookup) -> None:
        """Store a lookup as a temporary table."""
        self._run(lambda: self._tables.add(lookup))

    def save(self, query: exp.Query, path: Path, *, file_format: Literal["parquet", "csv"]) -> None:
        """Write the result of a query to a file."""
        rendered = self._render(query)
        if file_format == "csv":
            self._save_csv(rendered, path, options="HEADER true")
            return
        described = self._run(lambda: self._connection.execute(f"SELECT * FROM ({rendered}) AS q LIMIT 0").description)
        types = {column.name: PARQUET_TYPES.get(column.type_code, "VARCHAR") for column in described or ()}
        with make_scratch(Path(self._spill_directory or path.parent)) as scratch:
            self._save_csv(rendered, scratch / "rows.csv", options="FORCE_QUOTE *")  # what is not quoted is NULL
            write_parquet(scratch / "rows.csv", types, path)

    def _save_csv(self, rendered: str, path: Path, *, options: str) -> None:
        copy = f"COPY ({rendered}) TO STDOUT (FORMAT csv, {options})"
        try:
            with path.open("wb") as file:
                self._run(lambda: [file.write(block) for block in self._copy(copy)])
        except OSError as error:
            raise SourceError(
                "{file} cannot be written ({reason})", file=path, reason=describe_refusal(error)
            ) from None

    def close(self) -> None:
        """End the transaction; everything that was made in it is gone."""
        self._close()

    # --- running ------------------------------------------------------------------------------------------------

    def _render(self, query: exp.Query, *, complete: bool = True) -> str:
        rendered = DIALECT.render(query)
        if not self._can_number and NUMBERED_ROWS in rendered:
            raise SourceError(
                "the rows of {data} cannot be known again, because it is no table and the role may not make temporary"
                " tables; ask for GRANT TEMPORARY, or name a table",
                data=self.name,
            )
        return self._tables.complete(rendered) if complete else rendered

    def _copy(self, statement: str) -> Iterator[bytes]:
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for block in copy:
                yield bytes(block)

    def _run(self, work: Callable[[], T]) -> T:
        """Do work on the server; psycopg cancels it there when the caller is interrupted. Translate what goes wrong."""
        if not self._close.alive:
            raise SourceError("the source is closed; open it again")
        try:
            with self._lock:
                return work()
        except psycopg.Error as error:
            failure = translate(error, self.name)
        raise failure


def _connect(address: Address) -> psycopg.Connection[Any]:
    settings = {"connect_timeout": _SECONDS_TO_CONNECT, "application_name": "sudare", **address.login}
    try:
        connection = psycopg.connect(**{**settings, "client_encoding": "utf8"}, autocommit=True)
    except (psycopg.Error, UnicodeError) as error:
        failure = SourceError("{data} could not be read: {reason}", data=address.shown, reason=explain_refusal(error))
    else:
        for kind in _DAY_LOADERS:
            connection.adapters.register_loader(*kind)
        return connection
    raise failure


def _close_connection(connection: psycopg.Connection[Any], owner: int) -> None:
    if os.getpid() == owner:  # a forked child has a copy of the handle, not the connection
        connection.close()


def _fetch(connection: psycopg.Connection[Any], query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    return connection.execute(query, values).fetchall()


def _find_identity(kind: str, has_parts: bool, has_foreign_parts: bool) -> str | None:
    """The place of a row in its table; a view and a table on another server have none."""
    if kind not in ("r", "m", "p") or has_foreign_parts:
        return None
    return "CAST(tableoid AS text) || CAST(ctid AS text)" if kind == "p" or has_parts else "ctid"


def _read_query(address: Address) -> str:
    """See that the query is one that only reads.

    Error: SourceError; the parser's words are not shown.
    """
    query = (address.query or "").strip().rstrip(";")
    try:
        statements = sqlglot.parse(query, dialect="postgres")
    except (sqlglot.errors.SqlglotError, RecursionError):
        statements = []
    if len(statements) != 1 or not isinstance(statements[0], exp.Query) or statements[0].args.get("into"):
        raise SourceError(
            "the query for {server} must be one SELECT; if it is one that cannot be understood, make a view of it",
            server=address.server,
        )
    return query


# --- a published table as a new table ---------------------------------------------------------------------------------

_COLUMN_TYPES = {"integer": "bigint", "wide": "numeric", "decimal": "numeric", "boolean": "boolean",
                 "float": "double precision", "day": "date", "moment": "timestamp"}  # fmt: skip


def check_new_table(data: str) -> None:
    """See that the server answers and has no such table yet."""
    address, table = _read_target(data)
    with _writing(address), _connect(address) as connection:
        if _fetch(connection, "SELECT to_regclass(%s)", (table.as_string(),)) != [(None,)]:
            raise _name_taken(address)


def write_tables(
    data: str, tables: Mapping[str, tuple[Sequence[Column], Iterator[tuple[Any, ...]]]], *, comment: str
) -> dict[str, int]:
    """Make new tables of these rows, by what stands behind their name, in one transaction: all of them, or none.

    Error: SourceError if there is such a table, or it may not be made.
    """
    written = {}
    address, _ = _read_target(data)
    with _writing(address), _connect(address) as connection, connection.transaction():
        for suffix, (columns, rows) in tables.items():
            _, table = _read_target(data, suffix)
            described = [
                sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(_COLUMN_TYPES.get(column.family, "text")))
                for column in columns
            ]
            connection.execute(sql.SQL("CREATE TABLE {} ({})").format(table, sql.SQL(", ").join(described)))
            connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table, sql.Literal(comment)))
            with connection.cursor() as cursor, cursor.copy(sql.SQL("COPY {} FROM STDIN").format(table)) as copy:
                number = 0
                for number, row in enumerate(rows, start=1):  # noqa: B007
                    copy.write_row(row)
            written[f"{address.table}{suffix}"] = number
    return written


def _read_target(data: str, suffix: str = "") -> tuple[Address, sql.Composed]:
    address = read_address(data)
    if address.table is None:
        raise SourceError("{server} must be followed by ?table=NAME, the table to make", server=address.server)
    return address, sql.SQL(".").join(map(sql.Identifier, f"{address.table}{suffix}".split(".")))


def _name_taken(address: Address) -> SourceError:
    return SourceError(
        "there is a table {table} in {server} already; name another", table=address.table, server=address.server
    )


@contextlib.contextmanager
def _writing(address: Address) -> Iterator[None]:
    """Translate what goes wrong while something is written."""
    try:
        yield
    except psycopg.errors.DuplicateTable:
        failure = _name_taken(address)
    except psycopg.Error as error:
        failure = translate(error, address.shown, writing=True)
    else:
        return
    raise failure


class _LenientDay(psycopg.types.datetime.DateLoader):
    """Reads days that Python has none of (infinity, before Christ) as their text."""

    def load(self, data: Any) -> Any:
        try:
            return super().load(data)
        except psycopg.DataError:
            return bytes(data).decode()


class _LenientMoment(psycopg.types.datetime.TimestampLoader):
    """Reads moments that Python has none of as their text."""

    def load(self, data: Any) -> Any:
        try:
            return super().load(data)
        except psycopg.DataError:
            return bytes(data).decode()


_DAY_LOADERS: tuple[tuple[str, type[Any]], ...] = (("date", _LenientDay), ("timestamp", _LenientMoment))
