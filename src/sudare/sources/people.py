"""At most so many rows a person: which rows are sampled away.

The choice is made for each person apart: the rows of a person are put in the order of a keyed hash of their numbers,
under a key of 128 bits that is drawn afresh for every source, and the first `max_rows` of them stay. So every set of
that many rows is equally likely (as far as SHA-256 under a secret key looks random), whatever the rows hold and whoever
else is in the table.

Guarantee: adding, removing or replacing one person changes the kept rows by rows of that person only, at most
`max_rows` of them in each table, because the rows kept of all others can be coupled to be the same: their law does not
depend on that person. So a query that moves by at most s with one row moves by at most `max_rows` * s with one person;
a mechanism that is private at that sensitivity for every choice of rows is private over the random choice too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from sqlglot import exp, parse_one

from sudare.sources.engine import ROWS, Column, Engine
from sudare.sources.query import ROW, over
from sudare.sources.sql import either, is_null, literal, raw


def nobodies(engine: Engine, column: Column) -> int:
    """Count the rows that do not say whose they are."""
    nobody = [is_null(raw(column.place))]
    if column.family == "text":
        nobody.append(exp.EQ(this=raw(column.place), expression=literal("")))
    query = over([], [column.place]).where(either(nobody)).select(exp.Count(this=exp.Star()).as_("n"))
    return int(engine.arrays(query)["n"][0])


def excess(column: Column, *, max_rows: int, salt: bytes) -> exp.Query:
    """The numbers of the rows beyond `max_rows` of their person, as column v.

    Only persons with too many rows are sorted, so the work follows how many those are.
    """
    key = f"SUBSTRING(SHA256(CONCAT('{salt.hex()}:', n.{ROW})), 1, 16)"
    return _parsed(f"""
        WITH numbered AS ({_numbered(column)}),
        heavy AS (SELECT person FROM numbered GROUP BY person HAVING COUNT(*) > {max_rows:d}),
        ranked AS (
            SELECT n.{ROW}, ROW_NUMBER() OVER (PARTITION BY n.person ORDER BY {key}, n.{ROW}) AS place
            FROM numbered AS n JOIN heavy ON heavy.person = n.person
        )
        SELECT {ROW} AS v FROM ranked WHERE place > {max_rows:d}
    """)


def crowd(column: Column, *, max_rows: int) -> exp.Query:
    """How many persons have too many rows, and how many rows too many: one row, columns persons and beyond."""
    return _parsed(f"""
        WITH numbered AS ({_numbered(column)}),
        heavy AS (SELECT COUNT(*) - {max_rows:d} AS beyond FROM numbered GROUP BY person HAVING COUNT(*) > {max_rows:d})
        SELECT COUNT(*) AS persons, CAST(COALESCE(SUM(beyond), 0) AS BIGINT) AS beyond FROM heavy
    """)


def repeated_identifiers(engine: Engine, identifiers: Sequence[str]) -> list[tuple[str, int]]:
    """Name the identifiers of which a value stands in several rows, with the rows too many; no value is no person."""
    found = []
    for column in engine.columns:
        if column.name in identifiers and column.family != "other":
            query = _parsed(f"""
                WITH heavy AS (
                    SELECT COUNT(*) - 1 AS beyond FROM {ROWS}
                    WHERE {column.place} IS NOT NULL AND CAST({column.place} AS VARCHAR) <> ''
                    GROUP BY {column.place} HAVING COUNT(*) > 1
                )
                SELECT CAST(COALESCE(SUM(beyond), 0) AS BIGINT) AS beyond FROM heavy
            """)
            if rows := int(engine.arrays(query)["beyond"][0]):
                found.append((column.name, rows))
    return found


def _numbered(column: Column) -> str:
    return f"SELECT {column.place} AS person, ROW_NUMBER() OVER () AS {ROW} FROM {ROWS}"


def _parsed(text: str) -> exp.Query:
    """Read a query whose every name and number is Sudare's own."""
    return cast(exp.Query, parse_one(text, dialect="duckdb"))
