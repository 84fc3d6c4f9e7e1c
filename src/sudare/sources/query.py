"""Queries over the raw rows: derived columns, lookups, and the rows that a person may not keep left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from sqlglot import exp

from sudare.sources.encode import Join, SqlCode
from sudare.sources.engine import ROWS
from sudare.sources.sql import RAW, Expression, is_null, literal, raw

ROW = "sudare_row"
"""The number of a row in the order of the data, the same in every query of a source."""

EXCESS = "sudare_excess"
"""The table of the rows (by `ROW`) that are sampled away."""


def over(
    codings: Sequence[SqlCode], places: Iterable[str], *, is_numbered: bool = False, has_excess: bool = False
) -> exp.Select:
    """A query without its SELECT list: the raw columns `places`, all that the codings need, as alias `r`.

    >>> over([], ["c0"]).select("r.c0").sql("duckdb")
    'SELECT r.c0 FROM (SELECT r.c0 FROM sudare_rows AS r) AS r'
    """
    wanted: list[Expression] = [raw(place) for place in dict.fromkeys(places)] or [literal(1).as_("nothing")]
    if is_numbered or has_excess:
        wanted.append(exp.Window(this=exp.RowNumber()).as_(ROW))
    rows = exp.select(*wanted).from_(_rows())
    for stage in zip_longest(*(coding.stages for coding in codings), fillvalue={}):
        derived = [value.copy().as_(name) for columns in stage for name, value in columns.items()]
        rows = exp.select(exp.Star(), *derived).from_(rows.subquery(RAW))
    query = exp.Select().from_(rows.subquery(RAW))
    for join in (join for coding in codings for join in coding.joins):
        query = query.join(join.lookup.name, on=_is_key(join), join_type="left")
    return _without_excess(query) if has_excess else query


def _rows() -> Expression:
    return exp.alias_(exp.to_table(ROWS), RAW, table=True)


def _is_key(join: Join) -> Expression:
    return exp.EQ(this=exp.column("k", table=join.lookup.name), expression=join.key.copy())


def _without_excess(query: exp.Select) -> exp.Select:
    row = exp.column("v", table=EXCESS)
    return query.join(EXCESS, on=exp.EQ(this=row, expression=raw(ROW)), join_type="left").where(is_null(row.copy()))
