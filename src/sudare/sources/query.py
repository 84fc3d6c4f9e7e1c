"""Queries over the raw rows: derived columns, lookups, and without the rows beyond the limit of a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from sqlglot import exp

from sudare.sources.encode import Join, SqlCode
from sudare.sources.engine import NUMBERED_ROWS, ROW, ROWS
from sudare.sources.sql import RAW, Expression, is_null, literal, raw_column

DROPPED_ROWS = "sudare_dropped_rows"
"""The table of the rows (by `ROW`) that are dropped because their person has too many."""


def query_rows(
    sql_codes: Sequence[SqlCode],
    column_ids: Iterable[str],
    *,
    is_numbered: bool = False,
    has_dropped_rows: bool = False,
) -> exp.Select:
    """Begin a query, without its SELECT list: these raw columns and all that the codes need, as alias `r`.

    >>> query_rows([], ["c0"]).select("r.c0").sql("duckdb")
    'SELECT r.c0 FROM (SELECT r.c0 FROM sudare_rows AS r) AS r'
    """
    columns: list[Expression] = [raw_column(column_id) for column_id in dict.fromkeys(column_ids)]
    columns = columns or [literal(1).as_("nothing")]
    table = ROWS
    if is_numbered or has_dropped_rows:
        columns.append(raw_column(ROW))
        table = NUMBERED_ROWS
    rows = exp.select(*columns).from_(exp.alias_(exp.to_table(table), RAW, table=True))
    for stage in zip_longest(*(sql_code.stages for sql_code in sql_codes), fillvalue={}):
        derived = [value.copy().as_(name) for derivations in stage for name, value in derivations.items()]
        rows = exp.select(exp.Star(), *derived).from_(rows.subquery(RAW))
    query = exp.Select().from_(rows.subquery(RAW))  # grows in place: a copy for each join would cost their square
    for join in (join for sql_code in sql_codes for join in sql_code.joins):
        query.join(join.lookup.name, on=_is_key(join), join_type="left", copy=False)
    return _without_dropped_rows(query) if has_dropped_rows else query


def _is_key(join: Join) -> Expression:
    return exp.EQ(this=exp.column("k", table=join.lookup.name), expression=join.key.copy())


def _without_dropped_rows(query: exp.Select) -> exp.Select:
    row = exp.column("v", table=DROPPED_ROWS)
    is_dropped = exp.EQ(this=row, expression=raw_column(ROW))
    return query.join(DROPPED_ROWS, on=is_dropped, join_type="left").where(is_null(row.copy()))
