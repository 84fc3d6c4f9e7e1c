"""The values of an expression in order: what MEDIAN, quantiles, MIN and MAX are found in by inverting counts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.asking.axes import Axes
from sudare.asking.evaluate import PointGrid, attributes_of, evaluate, has_singular, is_counted, linear
from sudare.asking.syntax import AttributeColumn, Call, Cast, Expression, Operation, refuse
from sudare.asking.vectors import Vector, read_labels
from sudare.schema.arrays import Booleans, Reals
from sudare.text import text

RISING = ("LN", "LOG", "LOG2", "LOG10", "SQRT", "CBRT", "EXP")  # functions of one number that keep its order


@dataclass(frozen=True, slots=True, eq=False)
class OrderedValues:
    """The values of an expression of one attribute in order: where each begins and ends, and its points."""

    place: int
    lows: Reals
    highs: Reals
    ranks: Any  # of every point; -1 for those without a value
    is_day: bool

    @property
    def size(self) -> int:
        """How many values there are."""
        return int(self.lows.size)


def order_values(expression: Expression, axes: Axes, name: str) -> OrderedValues:
    """Put the values of an expression in order; it must be of one attribute of numbers or days."""
    key = ("ordered", expression)
    if key in axes.memo:
        found: OrderedValues = axes.memo[key]
        return found
    places = attributes_of(expression)
    if len(places) != 1:
        raise refuse(f"{name}()", text("it needs a number or a day of one attribute"))
    place = places[0]
    vector = read_labels(evaluate(expression, PointGrid(axes, places, is_limited=has_singular(expression))))
    if not vector.is_number and vector.kind != "date":
        raise refuse(f"{name}()", text("it needs a number or a day of one attribute"))
    if _is_every_value(place, axes) or not is_counted(axes.answerer.schema.attributes[place]):
        there = ~vector.null
        lows, inverse = np.unique(vector.data[there], return_inverse=True)
        ranks, highs = np.full(vector.data.size, -1), lows
        ranks[there] = inverse.reshape(-1)
    else:
        is_there = np.broadcast_to(~vector.null, axes.points(place).size)
        lows, highs, ranks = _order_pieces(expression, place, axes, name, is_there)
    axes.memo[key] = OrderedValues(place, lows, highs, ranks, vector.kind == "date")
    return order_values(expression, axes, name)


def _is_every_value(place: int, axes: Axes) -> bool:
    needs = axes.demands.get(place)
    return needs is not None and needs.every_value


def _order_pieces(
    expression: Expression, place: int, axes: Axes, name: str, is_there: Booleans
) -> tuple[Reals, Reals, Any]:
    """Where the pieces of an attribute begin and end in a form of it that rises or falls, and the piece of every point.

    Only pieces in which the form has a value count: nobody of the statement has a value in the others.
    """
    trend = find_trend(expression)
    if not trend:
        raise refuse(f"{name}()", text("it needs the attribute itself here, not an expression of it"))
    cells, values = axes.answerer.cells(place), axes.points(place).values
    cuts = sorted({*cells.edges, *(cut for cut in axes.demand(place).cuts if cells.edges[0] < cut < cells.edges[-1])})
    step = cells.step or Fraction(0)
    firsts = [math.ceil(cut / step) * step if step else cut for cut in cuts]  # a piece ends before the next begins
    lasts = [max(first - step, low) for low, first in itertools.pairwise(firsts)]
    pieces = np.searchsorted(np.array([float(first) for first in firsts[1:-1]]), values, side="right")
    is_used = np.bincount(pieces[is_there], minlength=len(lasts)) > 0
    lows, highs = (_compute(expression, ends, is_used, axes) for ends in (firsts[:-1], lasts))
    ranks = np.where(is_there, (np.cumsum(is_used) - 1)[pieces], -1)
    if trend < 0:
        lows, highs = highs[::-1], lows[::-1]
        ranks = np.where(ranks < 0, -1, lows.size - 1 - ranks)
    return lows, highs, ranks


def find_trend(node: Expression) -> int:
    """Tell whether an expression of one attribute rises with it (1), falls (-1), or nothing is known (0)."""
    if isinstance(node, AttributeColumn):
        return 1
    if isinstance(node, Cast):
        return find_trend(node.operand) if node.kind == "number" else 0
    if isinstance(node, Call):
        return find_trend(node.arguments[0]) if node.name in RISING and len(node.arguments) == 1 else 0
    if not isinstance(node, Operation) or node.sign not in ("+", "-", "*", "/", "NEG"):
        return 0
    if node.sign == "NEG":
        return -find_trend(node.operands[0])
    form = linear(node)
    if form is not None:
        return (form.slope > 0) - (form.slope < 0)
    left, right = node.operands
    if not attributes_of(right):
        return find_trend(left) * _find_sign(node.sign, right)
    if not attributes_of(left) and node.sign != "/":
        return find_trend(right) * (-1 if node.sign == "-" else _find_sign(node.sign, left))
    return 0


def _find_sign(sign: str, constant: Expression) -> int:
    """How an operation with a constant turns what rises: adding leaves it, a factor may turn it round."""
    form = linear(constant)
    if sign in ("+", "-"):
        return 1
    return 0 if form is None else (form.shift > 0) - (form.shift < 0)


class _NumberLine(PointGrid):
    """Numbers of one attribute in the place of its points."""

    def __init__(self, axes: Axes, numbers: Reals) -> None:
        self.axes, self.attributes, self.is_limited = axes, (), False
        self.shape, self.numbers = numbers.shape, numbers

    def column(self, place: int) -> Vector:
        """The numbers."""
        return Vector("number", self.numbers, np.zeros(self.shape, dtype=bool))


def _compute(expression: Expression, numbers: Sequence[Fraction], is_used: Booleans, axes: Axes) -> Reals:
    """The values of an expression of one attribute at some numbers of it."""
    used = [number for number, is_one in zip(numbers, is_used, strict=True) if is_one]
    form = linear(expression)
    if form is not None:
        return np.array([float(form.slope * number + form.shift) for number in used])
    values: Reals = evaluate(expression, _NumberLine(axes, np.array([float(one) for one in used]))).data.astype(float)
    return values
