"""Counts asked for in Python: `age=(20, 39)` is a range with both ends, `sex="F"` a value, a list any of its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

from sudare.asking.answers import LEVEL, Estimate, answer
from sudare.asking.axes import Axes
from sudare.asking.evaluate import demand
from sudare.asking.functionals import Functional, find_boxes
from sudare.asking.protocol import Answerer, note_independence
from sudare.asking.syntax import AttributeColumn, Cast, Expression, Literal, Membership, Operation
from sudare.errors import ParameterError
from sudare.schema import Schema
from sudare.schema.raw import list_some, to_number


def count_where(answerer: Answerer, conditions: Mapping[str, Any], *, level: float = LEVEL) -> Estimate:
    """Count the records that meet all conditions."""
    check_level(level)
    axes = Axes(answerer)
    terms = [read_condition(answerer.schema, name, wanted) for name, wanted in conditions.items()]
    for term in terms:
        demand(term, axes)
    condition = None if not terms else terms[0] if len(terms) == 1 else Operation("AND", tuple(terms))
    found = answer(Functional(axes, find_boxes(condition, axes)).moments, level=level)
    return replace(found, note=note_independence(answerer, axes.asked))


def check_level(level: float) -> None:
    """Refuse a level that no interval has."""
    if not 0.5 <= level < 1:
        raise ParameterError("level ({level}) must be at least 0.5 and below 1", level=level)


def read_condition(schema: Schema, name: str, wanted: Any) -> Expression:
    """Turn what is wanted of an attribute into a condition."""
    if name not in schema.names:
        raise ParameterError(
            "the view has no attribute {name}; it has {known}", name=name, known=list_some(schema.names, 20)
        )
    column = AttributeColumn(schema.position(name))
    if isinstance(wanted, tuple):
        if len(wanted) != 2:
            raise ParameterError("a range of {name} must be two values (low, high)", name=name)
        ends = [
            Operation(sign, (column, _read_value(end, name)))
            for sign, end in zip((">=", "<="), wanted, strict=True)
            if end is not None
        ]
        is_there: Expression = Operation("NOT", (Operation("IS_NULL", (column,)),))
        return Operation("AND", tuple(ends)) if len(ends) > 1 else ends[0] if ends else is_there
    values = list(wanted) if isinstance(wanted, list | set | frozenset) else [wanted]
    if any(value is None for value in values):
        if len(values) > 1:
            raise ParameterError("a list of values must not hold NULL; ask for {name} IS NULL by itself", name=name)
        return Operation("IS_NULL", (column,))
    if not values:
        return Literal("bool", False)
    return Membership(column, tuple(_read_value(value, name) for value in values))


def _read_value(value: Any, name: str) -> Expression:
    if isinstance(value, date):
        return Cast(Literal("text", value.isoformat()), "date")
    if isinstance(value, str):
        return Literal("text", value)
    number = to_number(value)
    if not isinstance(number, Fraction):
        raise ParameterError("{name} is compared with something that is neither a number nor a date", name=name)
    return Literal("integer" if number.denominator == 1 else "decimal", number)
