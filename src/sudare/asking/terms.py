"""Sums and means of expressions over several columns as sums of products, each factor of columns of its own.

`SUM(price * quantity)` weighs every record by two factors, and `AVG(a - b)` is made of two sums: so no table of all
combinations of values is needed, and an interval is told by the sums that a release knows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.asking.axes import Axes
from sudare.asking.evaluate import PointGrid, attributes_of, evaluate, has_singular, linear
from sudare.asking.functionals import PointBox, tensor_parts, times
from sudare.asking.syntax import Expression, IntervalLiteral, Literal, Operation
from sudare.asking.vectors import read_labels
from sudare.schema.arrays import Booleans, Reals

MOST_TERMS = 8  # of one expression
Factors = tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProductTerm:
    """A constant times a factor for every group of attributes: weights of its points, and between what they lie."""

    constant: float
    weights: tuple[Reals, ...]
    ranges: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class SummedTerms:
    """An expression as a sum of products. `is_there`: where every factor of a group of attributes has a number."""

    groups: tuple[tuple[int, ...], ...]
    is_there: tuple[Reals, ...]
    terms: tuple[ProductTerm, ...]
    is_square: bool = False  # of one expression by itself: never below 0, which its terms do not show

    @property
    def has_all(self) -> bool:
        """Tell whether every point has a number."""
        return all(bool(there.all()) for there in self.is_there)

    @property
    def bounds(self) -> tuple[float, float]:
        """Between what numbers the expression lies."""
        low = high = 0.0
        for term in self.terms:
            ends = [term.constant]
            for own in term.ranges:
                ends = [end * other for end in ends for other in own]
            low, high = low + min(ends), high + max(ends)
        return (max(low, 0.0) if self.is_square else low), high

    def weigh(self, boxes: Sequence[PointBox], weights: Sequence[Reals], axes: Axes) -> list[PointBox]:
        """Boxes in which a record weighs the product of weights, one of each group of attributes."""
        found = list(boxes)
        for places, own in zip(self.groups, weights, strict=True):
            found = times(found, tensor_parts(axes, places, own))
        return found


def split_terms(expression: Expression, axes: Axes) -> SummedTerms | None:
    """Read an expression as a sum of products over groups of attributes; None if all of them belong together."""
    if len(attributes_of(expression)) < 2:
        return None
    products = _expand(expression)
    if products is None:
        return None
    factors = [factor for product in products for factor in product if attributes_of(factor)]
    groups = _gather([attributes_of(factor) for factor in factors])
    if len(groups) < 2:
        return None
    values: dict[Expression, tuple[Reals, Reals]] = {}
    for factor in {*factors}:
        places = next(group for group in groups if set(attributes_of(factor)) <= set(group))
        grid = PointGrid(axes, places, is_limited=has_singular(factor))
        vector = read_labels(evaluate(factor, grid))
        if not vector.is_number and vector.kind != "bool":
            return None
        there = np.broadcast_to(~vector.null, grid.shape)
        numbers = np.nan_to_num(np.broadcast_to(vector.data, grid.shape).astype(float))
        values[factor] = np.where(there, numbers, 0.0), there.astype(float)
    is_there = tuple(_multiply([values[one][1] for one in values if set(attributes_of(one)) <= set(group)])
                     for group in groups)  # fmt: skip
    terms = [_weigh_product(product, groups, is_there, values, axes) for product in products]
    if any(math.isnan(term.constant) for term in terms):
        return None
    is_square = isinstance(expression, Operation) and expression.sign == "*" and len({*expression.operands}) == 1
    return SummedTerms(groups, is_there, tuple(terms), is_square)


def _weigh_product(
    product: Factors,
    groups: Sequence[tuple[int, ...]],
    is_there: Sequence[Reals],
    values: dict[Expression, tuple[Reals, Reals]],
    axes: Axes,
) -> ProductTerm:
    constants = [evaluate(factor, None) for factor in product if not attributes_of(factor)]
    constant = math.prod([float(one.data) if one.is_number and not one.null else math.nan for one in constants])
    weights, ranges = list[Reals](), list[tuple[float, float]]()
    for group, there in zip(groups, is_there, strict=True):
        own = [one for one in product if attributes_of(one) and set(attributes_of(one)) <= set(group)]
        weights.append(_multiply([there, *(values[one][0] for one in own)]))
        whole = own[0] if len(own) == 1 else Literal("number", Fraction(1))
        ranges.append(find_bounds(whole, weights[-1], there == 0, axes))
    return ProductTerm(constant, tuple(weights), tuple(ranges))


def find_bounds(expression: Expression, values: Reals, null: Booleans, axes: Axes) -> tuple[float, float]:
    """Between what numbers an expression lies: ends of its bins, or what its points have."""
    form = linear(expression)
    cells = None if form is None or form.attribute is None else axes.answerer.cells(form.attribute)
    if form is not None and cells is not None and cells.edges:
        low, high = sorted(
            form.slope * end + form.shift for end in (cells.edges[0], cells.edges[-1] - (cells.step or 0))
        )
        return float(low), float(high)
    known = values[~null]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)


def _multiply(weights: Sequence[Reals]) -> Reals:
    product = weights[0]
    for other in weights[1:]:
        product = product * other
    return product


def _expand(node: Expression) -> list[Factors] | None:
    """The products that an expression is the sum of, by multiplying out; None if they are too many."""
    if isinstance(node, IntervalLiteral):
        return None
    if not isinstance(node, Operation) or node.sign not in ("+", "-", "*", "/", "NEG"):
        return [(node,)]
    sides = [_expand(operand) for operand in node.operands]
    known = [side for side in sides if side is not None]
    if len(known) < len(sides):
        return None
    if node.sign == "NEG":
        return _turn(known[0])
    left, right = known
    if node.sign in ("+", "-"):
        found = [*left, *(right if node.sign == "+" else _turn(right))]
    elif node.sign == "*":
        found = [(*one, *two) for one in left for two in right]
    else:
        divided: Expression = Operation("/", (Literal("number", Fraction(1)), node.operands[1]))
        found = [(*one, divided) for one in left]
    return found if len(found) <= MOST_TERMS else None


def _turn(products: Sequence[Factors]) -> list[Factors]:
    return [(Literal("number", Fraction(-1)), *product) for product in products]


def _gather(sets: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Join sets that share a member until none do."""
    groups: list[set[int]] = []
    for one in sets:
        own, rest = set(one), list[set[int]]()
        for group in groups:
            if group & own:
                own |= group
            else:
                rest.append(group)
        groups = [*rest, own]
    return tuple(sorted(tuple(sorted(group)) for group in groups))
