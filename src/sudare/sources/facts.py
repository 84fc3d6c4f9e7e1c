"""What a column holds, as a draft of a schema needs it. Holds values of the table."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Literal

from sqlglot import exp

from sudare.schema.propose import ColumnFacts
from sudare.schema.raw import NUMBER_TEXT, to_text
from sudare.sources.encode_bins import read_plain_day
from sudare.sources.engine import Column, Engine, Family
from sudare.sources.query import query_rows
from sudare.sources.sql import Expression, all_of, call, choose, is_nan, literal, matches_pattern, raw_column, read_text

ValueType = Literal["text", "integer", "number", "date", "boolean"]

_MOST_VALUES = 1000  # distinct values that are all listed; of more, a sample of as many
_TYPES: dict[Family, ValueType] = {
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
_LEADING_ZERO = "[+-]?0[0-9].*"  # of a code, which stays text


def describe_column(engine: Engine, column: Column) -> ColumnFacts:
    """Describe one column of the data."""
    figures = _measure(engine, column)
    rows, present, distinct = (int(figures[name]) for name in ("rows_", "present", "distinct_"))
    values = _list_values(engine, column) if column.family != "other" else ()
    value_type, low, high = _find_type(column, figures)
    is_listed = distinct <= _MOST_VALUES and column.family != "other"
    return ColumnFacts(
        name=column.name,
        type=value_type,
        distinct=distinct,
        values=values if is_listed else None,
        low=low.date() if isinstance(low, datetime) else low,
        high=high.date() if isinstance(high, datetime) else high,
        has_missing=present < rows,
        rows=rows,
        sample=() if is_listed else values,
    )


def _measure(engine: Engine, column: Column) -> dict[str, Any]:
    """Compute all figures of a column in one pass."""
    value = partial(_null_if_missing, column)
    figures: dict[str, Expression] = {
        "rows_": exp.Count(this=exp.Star()),
        "present": exp.Count(this=value()),
        "distinct_": exp.Count(this=exp.Distinct(expressions=[value()])),
    }
    if column.family == "text":
        for name, reading in _read_texts(column).items():
            figures |= {f"{name}s": exp.Count(this=reading)} | _measure_range(name, reading)
    elif column.family not in ("boolean", "other"):
        figures |= _measure_range("own", value())
    query = query_rows([], [column.column_id]).select(*(figure.as_(name) for name, figure in figures.items()))
    return dict(zip(figures, next(engine.stream(query)), strict=True))


def _null_if_missing(column: Column) -> Expression:
    value = raw_column(column.column_id)
    if column.family == "text":
        return call("NULLIF", value, literal(""))
    if column.family == "float":
        return choose([(exp.not_(is_nan(value)), value.copy())])
    return value


def _read_texts(column: Column) -> dict[str, Expression]:
    """Read a text as each type; NULL where it cannot be."""
    value = partial(raw_column, column.column_id)
    is_number = all_of(matches_pattern(value(), NUMBER_TEXT), exp.not_(matches_pattern(value(), _LEADING_ZERO)))
    return {
        "integer": choose([(matches_pattern(value(), _INTEGER), read_text(value(), "BIGINT"))]),
        "number": choose([(is_number, read_text(value(), "DOUBLE"))]),
        "date": read_plain_day(value),
    }


def _measure_range(name: str, value: Expression) -> dict[str, Expression]:
    return {f"{name}_low": exp.Min(this=value.copy()), f"{name}_high": exp.Max(this=value.copy())}


def _find_type(column: Column, figures: dict[str, Any]) -> tuple[ValueType, Any, Any]:
    """Give the type of a column with its smallest and largest value; of texts, what all of them can be read as."""
    if column.family != "text":
        return _TYPES[column.family], figures.get("own_low"), figures.get("own_high")
    types: tuple[ValueType, ...] = ("integer", "number", "date")
    for value_type in types:
        if figures["present"] and figures[f"{value_type}s"] == figures["present"]:
            return value_type, figures[f"{value_type}_low"], figures[f"{value_type}_high"]
    return "text", None, None


def _list_values(engine: Engine, column: Column) -> tuple[str, ...]:
    value = _null_if_missing(column).as_("value")
    query = query_rows([], [column.column_id]).select(value).distinct().limit(_MOST_VALUES + 1)
    texts = {to_text(value) for (value,) in engine.stream(query) if value is not None}
    return tuple(sorted(texts))
