"""What a column holds, as a draft of a schema needs it."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Literal

from sqlglot import exp

from sudare.schema.propose import ColumnFacts
from sudare.schema.raw import NUMBER_TEXT, to_text
from sudare.sources.encode_numbers import plain_day
from sudare.sources.engine import Column, Engine, Family
from sudare.sources.query import over
from sudare.sources.sql import Expression, both, call, choose, literal, matches, raw, try_cast

Type = Literal["text", "integer", "number", "date", "boolean"]

_FEW = 1000  # distinct values that are all told; of more, a sample of as many
_TYPES: dict[Family, Type] = {
    "text": "text",
    "integer": "integer",
    "wide": "integer",
    "decimal": "number",
    "float": "number",
    "boolean": "boolean",
    "day": "date",
    "moment": "date",
    "other": "text",
}
_INTEGER = "-?(0|[1-9][0-9]{0,17})"
_LEADING_ZERO = "[+-]?0[0-9].*"  # tells a code, which stays text


def facts(engine: Engine, column: Column) -> ColumnFacts:
    """Look at one column of the data."""
    told = _told(engine, column)
    rows, present, distinct = (int(told[name]) for name in ("rows_", "present", "distinct_"))
    values = _values(engine, column) if column.family != "other" else ()
    kind, low, high = _typed(column, told)
    is_few = distinct <= _FEW and column.family != "other"
    return ColumnFacts(
        name=column.name,
        type=kind,
        distinct=distinct,
        values=values if is_few else None,
        low=low.date() if isinstance(low, datetime) else low,
        high=high.date() if isinstance(high, datetime) else high,
        has_missing=present < rows,
        rows=rows,
        sample=() if is_few else values,
    )


def _told(engine: Engine, column: Column) -> dict[str, Any]:
    """Ask everything about a column in one pass."""
    value = partial(_present, column)
    asked: dict[str, Expression] = {
        "rows_": exp.Count(this=exp.Star()),
        "present": exp.Count(this=value()),
        "distinct_": exp.Count(this=exp.Distinct(expressions=[value()])),
    }
    if column.family == "text":
        for name, reading in _readings(column).items():
            asked |= {f"{name}s": exp.Count(this=reading)} | _range(name, reading)
    elif column.family not in ("boolean", "other"):
        asked |= _range("own", value())
    query = over([], [column.place]).select(*(each.as_(name) for name, each in asked.items()))
    return dict(zip(asked, next(engine.stream(query)), strict=True))


def _present(column: Column) -> Expression:
    value = raw(column.place)
    if column.family == "text":
        return call("NULLIF", value, literal(""))
    if column.family == "float":
        return choose([(exp.not_(call("ISNAN", value)), value.copy())])
    return value


def _readings(column: Column) -> dict[str, Expression]:
    """What a text can be read as; NULL where it cannot."""
    value = partial(raw, column.place)
    is_number = both(matches(value(), NUMBER_TEXT), exp.not_(matches(value(), _LEADING_ZERO)))
    return {
        "integer": choose([(matches(value(), _INTEGER), try_cast(value(), "BIGINT"))]),
        "number": choose([(is_number, try_cast(value(), "DOUBLE"))]),
        "date": plain_day(value),
    }


def _range(name: str, value: Expression) -> dict[str, Expression]:
    return {f"{name}_low": exp.Min(this=value.copy()), f"{name}_high": exp.Max(this=value.copy())}


def _typed(column: Column, told: dict[str, Any]) -> tuple[Type, Any, Any]:
    """The type of a column with its smallest and largest value; of texts, what all of them can be read as."""
    if column.family != "text":
        return _TYPES[column.family], told.get("own_low"), told.get("own_high")
    kinds: tuple[Type, ...] = ("integer", "number", "date")
    for kind in kinds:
        if told["present"] and told[f"{kind}s"] == told["present"]:
            return kind, told[f"{kind}_low"], told[f"{kind}_high"]
    return "text", None, None


def _values(engine: Engine, column: Column) -> tuple[str, ...]:
    query = over([], [column.place]).select(_present(column).as_("value")).distinct().limit(_FEW + 1)
    texts = {to_text(value) for (value,) in engine.stream(query) if value is not None}
    return tuple(sorted(texts))
