"""Values as a question writes them, turned into tests on an attribute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from fractions import Fraction

from sudare.errors import ParameterError, SchemaError
from sudare.methods.view.conditions import Interval, Test, ends, is_whole
from sudare.schema import Attribute, DateBins, NumberBins, Schema, Values
from sudare.schema.raw import date_of, number_of

Value = str | int | float | date | Fraction | None


def equal(schema: Schema, attribute: int, values: Sequence[Value]) -> Test:
    """The attribute is one of these values; None is missing."""
    one = schema.attributes[attribute]
    if any(value is None for value in values):
        if len(values) > 1:
            raise ParameterError("a list of values must not hold NULL; ask for {name} IS NULL by itself", name=one.name)
        return Test(attribute=attribute, is_null=True)
    intervals: list[Interval] = []
    codes: set[int] = set()
    for value in values:
        number = _number(one, value)
        if number is None:
            codes.update(one.codes(str(value)))  # SchemaError names what there is
        else:
            intervals.append(_point(one, number))
    return Test(attribute=attribute, intervals=tuple(intervals), codes=frozenset(codes))


def between(
    schema: Schema, attribute: int, low: Value, high: Value, *, above: bool = False, below: bool = False
) -> Test:
    """The attribute lies between two values, both included unless `above` or `below` says otherwise; None: no end."""
    one = schema.attributes[attribute]
    if ends(one) is None:
        return _ordered(one, attribute, low, high, above, below)
    start = None if low is None else _start(one, _needed(one, low), after=above)
    stop = None if high is None else _start(one, _needed(one, high), after=not below)
    return Test(attribute=attribute, intervals=((start, stop),))


def _start(attribute: Attribute, number: Fraction, *, after: bool) -> Fraction:
    """Where values from this one on begin, or those after it."""
    if not is_whole(attribute):
        return number
    return Fraction(math.floor(number) + 1 if after else math.ceil(number))


def _point(attribute: Attribute, number: Fraction) -> Interval:
    edges = ends(attribute)
    if edges is None or not edges[0] <= number < edges[-1] + (0 if is_whole(attribute) else 1):
        raise _unknown(attribute)
    if not is_whole(attribute):
        raise ParameterError(
            "{name} has bins without whole edges; ask for a range with BETWEEN, or for a bin by its label",
            name=attribute.name,
        )
    if number.denominator != 1:
        raise _unknown(attribute)
    return number, number + 1


def _ordered(one: Attribute, attribute: int, low: Value, high: Value, above: bool, below: bool) -> Test:
    if not (isinstance(one.domain, Values) and one.is_ordered):
        raise ParameterError("{name} has no order; use =, <> or IN", name=one.name)
    first = 0 if low is None else one.code(str(low)) + above
    last = one.domain.size - 1 if high is None else one.code(str(high)) - below
    return Test(attribute=attribute, codes=frozenset(range(first, last + 1)))


def _needed(attribute: Attribute, value: Value) -> Fraction:
    number = _number(attribute, value)
    if number is None:
        raise ParameterError("{name} is compared with something that is no number or date", name=attribute.name)
    return number


def _number(attribute: Attribute, value: Value) -> Fraction | None:
    """The value as a number (a date as its day); None for a label."""
    if isinstance(attribute.domain, DateBins):
        day = date_of(value)
        return None if day is None else Fraction(day.toordinal())
    if not isinstance(attribute.domain, NumberBins):
        return None
    number = number_of(value)
    return number if isinstance(number, Fraction) else None


def _unknown(attribute: Attribute) -> SchemaError:
    return SchemaError(
        "attribute {name} has no such value; it has {known}", name=attribute.name, known=attribute.some_labels
    )
