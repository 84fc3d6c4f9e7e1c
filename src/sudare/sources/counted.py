"""The column of counts of a table that is already aggregated."""

from __future__ import annotations

from sqlglot import exp

from sudare.errors import SourceError
from sudare.sources.engine import Column
from sudare.sources.sql import Expression, both, call, cast, choose, literal, matches, raw, try_cast

_WHOLE = r"\+?[0-9]{1,18}(\.0*)?"


def whole_number(column: Column) -> Expression:
    """The value of the column as a whole number, 0 or more; NULL where it is none.

    >>> whole_number(Column(name="n", place="c1", family="integer", type="BIGINT")).sql("duckdb")
    'CASE WHEN r.c1 >= 0 THEN CAST(r.c1 AS BIGINT) END'
    """
    value = raw(column.place)
    is_positive = exp.GTE(this=value, expression=literal(0))
    match column.family:
        case "integer":
            return choose([(is_positive, cast(value.copy(), "BIGINT"))])
        case "text":
            return choose([(matches(value, _WHOLE), try_cast(value.copy(), "BIGINT"))])
        case "wide":
            return choose([(is_positive, try_cast(value.copy(), "BIGINT"))])
        case "float" | "decimal":
            is_whole = exp.EQ(this=value.copy(), expression=call("FLOOR", value.copy()))
            is_exact = exp.LT(this=value.copy(), expression=literal(2**53))
            return choose([(both(is_positive, is_whole, is_exact), try_cast(value.copy(), "BIGINT"))])
        case _:
            raise SourceError(
                "column {column} has type {type}; a column of counts holds whole numbers",
                column=column.name,
                type=column.type,
            )
