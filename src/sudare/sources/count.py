"""From rows to cells: the key of a row in SQL, and the counted keys as a table of counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp, parse_one

from sudare.counts import Counts
from sudare.counts.counts import exact_sum
from sudare.schema import Codes, Radix, Schema
from sudare.sources.encode import SqlCode
from sudare.sources.engine import ROWS, Column, Engine
from sudare.sources.query import ROW, over
from sudare.sources.sql import Expression, both, choose, either, is_null, literal, raw, words


def keys_of(codings: Sequence[SqlCode], radix: Radix) -> list[Expression]:
    """The words of the key of a row, NULL where a value does not fit; one guard for each word."""
    keys = words([coding.inner.copy() for coding in codings], radix)
    for index, word in enumerate(radix.words):
        guards = [guard.copy() for at in word if (guard := codings[at].guard) is not None]
        if guards:
            keys[index] = choose([(both(*guards), keys[index])])
    return keys


def counted(schema: Schema, keys: list[NDArray[Any]], values: Codes) -> Counts:
    """Make a table of counts from keys that all differ, one array a word, in any order. Empties `keys`.

    >>> from sudare.schema import Attribute, Values
    >>> schema = Schema(name="t", attributes=(Attribute(name="a", domain=Values(("x", "y", "z"))),))
    >>> counted(schema, [np.array([2, 0])], np.array([5, 1])).dense()
    array([1, 0, 5])
    """
    if len(keys) > 1:
        return Counts.build(schema, np.column_stack(keys), values)
    codes, values = _sorted(keys.pop().astype(np.int64), values, schema.size)
    total = exact_sum(values)
    if codes.size and codes[0] >= 0 and codes[-1] < schema.size and total < 2**63 and values.all():
        return Counts(
            schema, codes.reshape(-1, 1), values, total
        )  # sorted, different, inside, above 0: no need to build
    return Counts.build(schema, codes.reshape(-1, 1), values)


def _sorted(codes: Codes, values: Codes, size: int) -> tuple[Codes, Codes]:
    """Sort cells with their counts as one number each where that fits: three times as quick as sorting positions.

    >>> [part.tolist() for part in _sorted(np.array([7, 2]), np.array([1, 5]), 9)]
    [[2, 7], [5, 1]]
    """
    bits = int(values.max(initial=0)).bit_length()
    if (size - 1).bit_length() + bits > 63:
        order = np.argsort(codes)
        return codes[order], values[order]
    codes <<= bits
    codes |= values
    codes.sort()
    return codes >> bits, codes & ((1 << bits) - 1)


# At most so many rows a person: which rows are sampled away.
#
# The choice is made for each person apart: the rows of a person are put in the order of a keyed hash of their
# numbers, under a key of 128 bits that is drawn afresh for every source, and the first `max_rows` of them stay. So
# every set of that many rows is equally likely (as far as SHA-256 under a secret key looks random), whatever the rows
# hold and whoever else is in the table.
#
# Guarantee: adding, removing or replacing one person changes the kept rows by rows of that person only, at most
# `max_rows` of them in each table, because the rows kept of all others can be coupled to be the same: their law does
# not depend on that person. So a query that moves by at most s with one row moves by at most `max_rows` * s with one
# person; a mechanism that is private at that sensitivity for every choice of rows is private over the random choice
# too.


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
