"""Rows of the contract as tables of a PostgreSQL server, read by a role of no rank."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from threading import Event, Thread
from typing import Any

import sudare as sd
from sudare.schema import Schema
from sudare.sources.base import Source
from sudare.testing.sources import RawColumns
from tests.servers import PostgresServer

TYPES = {str: "text", int: "bigint", float: "double precision", date: "date", Decimal: "numeric(10, 2)"}
STEWARD, READER, SECRET = "steward", "reader", "pass-8675309"
NUMBERS = itertools.count()


def make_roles(server: PostgresServer) -> None:
    """Make a role that may make temporary tables, and one that may only read; neither is a superuser. Once a server."""
    import psycopg

    with psycopg.connect(server.address(), autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (STEWARD,)).fetchone():
            return
    server.execute(
        f"CREATE ROLE {STEWARD} LOGIN PASSWORD '{SECRET}'",
        f"CREATE ROLE {READER} LOGIN PASSWORD '{SECRET}'",
        "REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC",
        f"GRANT TEMPORARY ON DATABASE postgres TO {STEWARD}",
        f"GRANT CREATE ON SCHEMA public TO {STEWARD}",
    )


def put_table(server: PostgresServer, columns: RawColumns) -> str:
    """Make a table of plain values that everybody may read; give its name."""
    import psycopg
    from psycopg import sql

    name = f"rows_{next(NUMBERS)}"
    kinds = {column: {type(value) for value in values if value is not None} for column, values in columns.items()}
    described = [
        sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(TYPES[next(iter(kind), str)]))
        for column, kind in kinds.items()
    ]
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), sql.SQL(", ").join(described)))
        connection.execute(sql.SQL("GRANT SELECT ON {} TO PUBLIC").format(sql.Identifier(name)))
        with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*columns.values(), strict=True):
                copy.write_row(row)
    return name


def opener(server: PostgresServer, role: str) -> Callable[[RawColumns, Schema], Source]:
    """Open the rows of the contract as this role."""

    def open_rows(columns: RawColumns, schema: Schema, **reading: Any) -> Source:
        return sd.open(address(server, role, put_table(server, columns)), schema, **reading)

    return open_rows


def address(server: PostgresServer, role: str, table: str) -> str:
    """Give the address of a table for a role."""
    return server.address(user=role, password=SECRET, table=table)


@contextmanager
def scanning(server: PostgresServer, table: str) -> Iterator[None]:
    """Keep another scan of the table going: it makes the server begin later scans in the middle of the table."""
    import psycopg

    stop = Event()

    def scan() -> None:
        with psycopg.connect(server.address(), autocommit=True) as connection:
            while not stop.is_set():
                connection.execute(f"SELECT COUNT(*) FROM {table}")

    thread = Thread(target=scan)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
