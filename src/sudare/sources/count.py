"""From rows to counts: the key of a row in SQL, the counted keys as a table, and at most so many rows a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp, parse_one

from sudare.counts import Counts
from sudare.counts.counts import exact_sum
from sudare.schema import Codes, Radix, Schema
from sudare.sources.encode import SqlCode
from sudare.sources.engine import NUMBERED_ROWS, ROW, ROWS, Column, Engine
from sudare.sources.query import DROPPED_ROWS
from sudare.sources.sql import Expression, all_of, choose, literal, pack_words, raw_column


def build_keys(sql_codes: Sequence[SqlCode], radix: Radix) -> list[Expression]:
    """Build the words of the key of a row, NULL where a value does not fit; one guard for each word."""
    keys = pack_words([sql_code.unguarded.copy() for sql_code in sql_codes], radix)
    for index, word in enumerate(radix.words):
        guards = [guard.copy() for at in word if (guard := sql_codes[at].guard) is not None]
        if guards:
            keys[index] = choose([(all_of(*guards), keys[index])])
    return keys


def make_counts(schema: Schema, keys: list[NDArray[Any]], values: Codes) -> Counts:
    """Make a table of counts from keys that all differ, one array a word, in any order. Empties `keys`.

    >>> from sudare.schema import Attribute, Values
    >>> schema = Schema(name="t", attributes=(Attribute(name="a", domain=Values(("x", "y", "z"))),))
    >>> make_counts(schema, [np.array([2, 0])], np.array([5, 1])).dense()
    array([1, 0, 5])
    """
    if len(keys) > 1:
        return Counts.build(schema, np.column_stack(keys), values)
    codes, values = _sort_cells(keys.pop().astype(np.int64), values, schema.size)
    total = exact_sum(values)
    if codes.size and codes[0] >= 0 and codes[-1] < schema.size and total < 2**63 and values.all():
        # sorted, different, inside, above 0: nothing is left to check
        return Counts(schema, codes.reshape(-1, 1), values, total)
    return Counts.build(schema, codes.reshape(-1, 1), values)


def _sort_cells(codes: Codes, values: Codes, size: int) -> tuple[Codes, Codes]:
    """Sort cells with their counts as one number each where that fits: three times as quick as sorting positions.

    >>> [part.tolist() for part in _sort_cells(np.array([7, 2]), np.array([1, 5]), 9)]
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


# --- at most so many rows a person: which rows are dropped ----------------------------------------------------------
#
# The choice is made for each person apart: the rows of a person are put in the order of a keyed hash of their
# identities, under a key of 128 bits that is drawn afresh for every source, and the first `max_rows` of them stay. So
# every set of that many rows is equally likely (as far as SHA-256 under a secret key looks random), whatever the rows
# hold and whoever else is in the table.
#
# Guarantee: adding, removing or replacing one person changes the kept rows by rows of that person only, at most
# `max_rows` of them in each table, because the rows kept of all others can be coupled to be the same: their law does
# not depend on that person. So a query that moves by at most s with one row moves by at most `max_rows` * s with one
# person; a mechanism that is private at that sensitivity for every choice of rows is private over the random choice
# too.


# k-anonymity promises nothing about chance, and two of its releases can be compared only where they hold the same rows.
# Its sources use one key for all (`same_rows`): a method that spends a budget refuses them.
SAME_ROWS_KEY = b"k-anonymous rows"

LISTED_PERSONS = "sudare_listed_persons"
"""The table of the persons (`person`) with more rows (`n`) than the limit, and of the rows of nobody."""


def select_dropped_rows(column: Column, *, max_rows: int, salt: bytes) -> exp.Query:
    """Select the identities of the rows beyond `max_rows` of their person, as column v; after `count_over_limit`.

    Only persons with too many rows are sorted, so the work follows how many those are.
    """
    key = f"SUBSTRING(SHA256(CONCAT('{salt.hex()}:', CAST(n.{ROW} AS VARCHAR))), 1, 16)"
    return _parse_query(f"""
        WITH numbered AS (SELECT {column.column_id} AS person, {ROW} FROM {NUMBERED_ROWS}),
        over_limit AS (SELECT person FROM {LISTED_PERSONS} WHERE n > {max_rows:d}),
        ranked AS (
            SELECT n.{ROW}, ROW_NUMBER() OVER (PARTITION BY n.person ORDER BY {key}, n.{ROW}) AS rank_
            FROM numbered AS n JOIN over_limit ON over_limit.person = n.person
        )
        SELECT {ROW} AS v FROM ranked WHERE rank_ > {max_rows:d}
    """)


def number_rows_of_person(column: Column, *, max_rows: int) -> SqlCode:
    """Write how many rows the person of a row keeps, less one, as the code of an attribute.

    >>> column = Column(name="id", column_id="c3", family="text", type="VARCHAR")
    >>> number_rows_of_person(column, max_rows=5).unguarded.sql("duckdb")
    'CASE WHEN r.sudare_rows_of_person > 5 THEN 4 ELSE r.sudare_rows_of_person - 1 END'
    """
    name = "sudare_rows_of_person"
    rows = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[raw_column(column.column_id)])
    number = raw_column(name)
    too_many = exp.GT(this=number.copy(), expression=literal(max_rows))
    less_one = exp.Sub(this=number.copy(), expression=literal(1))
    code = exp.Case(ifs=[exp.If(this=too_many, true=literal(max_rows - 1))], default=less_one)
    return SqlCode(unguarded=code, stages=({name: rows},))


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLimit:
    """What a limit of rows for each person means for a table: all rows, persons above it and their rows above it.

    `unowned` rows do not say whose they are.
    """

    rows: int
    persons: int
    too_many: int
    unowned: int


def count_over_limit(engine: Engine, column: Column, *, max_rows: int) -> RowLimit:
    """Count rows, the persons with more than `max_rows` of them, and the rows that are too many.

    Persons are added up once: those above the limit, and rows of nobody, are kept as a table for `select_dropped_rows`.
    """
    is_unowned = "person IS NULL" + (" OR person = ''" if column.family == "text" else "")
    listed = f"""
        WITH people AS (SELECT {column.column_id} AS person, COUNT(*) AS n FROM {ROWS} GROUP BY {column.column_id})
        SELECT person, n FROM people WHERE n > {max_rows:d} OR {is_unowned}
    """
    engine.keep(LISTED_PERSONS, _parse_query(listed))
    query = _parse_query(f"""
        SELECT (SELECT COUNT(*) FROM {ROWS}) AS all_rows, COUNT(*) FILTER (WHERE n > {max_rows:d}) AS persons,
            CAST(COALESCE(SUM(CASE WHEN n > {max_rows:d} THEN n - {max_rows:d} END), 0) AS BIGINT) AS too_many,
            CAST(COALESCE(SUM(CASE WHEN {is_unowned} THEN n END), 0) AS BIGINT) AS unowned
        FROM {LISTED_PERSONS}
    """)
    result = engine.arrays(query)
    rows, persons, too_many, unowned = (int(result[name][0]) for name in ("all_rows", "persons", "too_many", "unowned"))
    return RowLimit(rows=rows, persons=persons, too_many=too_many, unowned=unowned)


def count_dropped_rows(engine: Engine) -> tuple[int, int]:
    """Count the rows that are dropped, and their different identities (NULL is none)."""
    query = _parse_query(f"SELECT COUNT(*) AS n, COUNT(DISTINCT v) AS different FROM {DROPPED_ROWS}")
    result = engine.arrays(query)
    return int(result["n"][0]), int(result["different"][0])


def find_repeated_identifiers(engine: Engine, identifiers: Sequence[str]) -> list[tuple[str, int]]:
    """Find the identifiers of which a value stands in several rows, with the rows too many; no value is no person."""
    repeated = []
    for column in engine.columns:
        if column.name in identifiers and column.family != "other":
            query = _parse_query(f"""
                WITH repeated AS (
                    SELECT COUNT(*) - 1 AS too_many FROM {ROWS}
                    WHERE {column.column_id} IS NOT NULL AND CAST({column.column_id} AS VARCHAR) <> ''
                    GROUP BY {column.column_id} HAVING COUNT(*) > 1
                )
                SELECT CAST(COALESCE(SUM(too_many), 0) AS BIGINT) AS too_many FROM repeated
            """)
            if rows := int(engine.arrays(query)["too_many"][0]):
                repeated.append((column.name, rows))
    return repeated


def _parse_query(text: str) -> exp.Query:
    """Read a query whose every name and number is Sudare's own."""
    return cast(exp.Query, parse_one(text, dialect="duckdb"))
