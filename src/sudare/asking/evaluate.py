"""Compute expressions over the points of attributes, and find out beforehand where bins must be cut for that."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeGuard

import numpy as np

from sudare.asking import vectors
from sudare.asking.axes import Axes, narrowest_piece
from sudare.asking.functions import FUNCTIONS, call_function, join_texts
from sudare.asking.protocol import AttributeCells
from sudare.asking.syntax import (
    AttributeColumn,
    Call,
    CaseWhen,
    Cast,
    Expression,
    IntervalLiteral,
    Literal,
    Matching,
    Membership,
    Name,
    Operation,
    ScalarQuery,
    Slot,
    Star,
    children,
    refuse,
)
from sudare.asking.vectors import MIRRORED, Vector, as_condition, find_day
from sudare.errors import ParameterError, SchemaError
from sudare.schema import Attribute, DateBins, NumberBins
from sudare.text import text

MOST_POINTS = 2**18  # of one expression over several attributes
MOST_STEPS = 20_000  # of one rounding function over an attribute
EXTREMES = ("GREATEST", "LEAST")
POWERS = ("POW", "POWER")
SINGULAR = ("SQRT", "LN", "LOG", "LOG10", "LOG2", *POWERS)
MOST_LOOKED_AT = 4096  # expressions whose attributes are kept: conditions come back, and are looked at several times
FEW_VALUES = 4096  # an attribute of no more values is looked at value by value


_attributes: dict[
    int, tuple[Expression, tuple[int, ...]]
] = {}  # an expression is kept, so that its identity is its own


def attributes_of(expression: Expression) -> tuple[int, ...]:
    """The attributes that an expression depends on, in the order of the schema."""
    if type(expression) is AttributeColumn:
        return (expression.attribute,)
    if type(expression) is Literal:
        return ()
    known = _attributes.get(id(expression))
    if known is not None:
        return known[1]
    found: set[int] = set()
    stack = [expression]
    while stack:
        node = stack.pop()
        if type(node) is AttributeColumn:
            found.add(node.attribute)
        elif type(node) is not Literal:
            stack.extend(children(node))
    if len(_attributes) >= MOST_LOOKED_AT:
        _attributes.clear()
    places = tuple(sorted(found))
    _attributes[id(expression)] = expression, places
    return places


def walk(expression: Expression) -> Iterator[Expression]:
    """An expression and all that stands inside it."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))


def is_counted(attribute: Attribute) -> bool:
    """Tell whether an attribute holds numbers or days."""
    return isinstance(attribute.domain, NumberBins | DateBins)


# --- values -----------------------------------------------------------------------------------------------------------


class PointGrid:
    """The points of some attributes, one axis each, on which an expression is computed."""

    def __init__(self, axes: Axes, attributes: Sequence[int], *, is_limited: bool = False) -> None:
        """With `is_limited`, points that WHERE leaves out are NULL: no record of the statement lies there."""
        self.axes, self.attributes, self.is_limited = axes, tuple(attributes), is_limited
        self.shape = tuple(axes.points(attribute).size for attribute in attributes)
        if math.prod(self.shape) > MOST_POINTS:
            raise refuse(
                text("an expression over so many values at once"),
                text("it needs more than {most} of them; use fewer attributes together", most=MOST_POINTS),
            )

    def column(self, place: int) -> Vector:
        """An attribute, along its axis."""
        known = self.axes.memo.get(("column", place))
        if known is None:
            known = self.axes.memo["column", place] = self._column(place)
        if self.is_limited and place in self.axes.limits:
            known = self._limit(known, place)
        if len(self.attributes) == 1:
            return known
        shape = [-1 if place == other else 1 for other in self.attributes]
        codes = None if known.codes is None else known.codes.reshape(shape)
        return Vector(known.kind, known.data.reshape(shape), known.null.reshape(shape), known.attribute, codes)

    def _limit(self, known: Vector, place: int) -> Vector:
        grid, null = PointGrid(self.axes, (place,)), known.null
        for condition in self.axes.limits[place]:
            null = null | ~as_condition(evaluate(condition, grid))[0]
        return Vector(known.kind, known.data, null, known.attribute, known.codes)

    def _column(self, place: int) -> Vector:
        attribute, points = self.axes.answerer.schema.attributes[place], self.axes.points(place)
        codes = self.axes.codes(place)
        if is_counted(attribute):
            kind = "date" if isinstance(attribute.domain, DateBins) else self._kind(place)
            return Vector(kind, points.values, np.isnan(points.values), attribute, codes)
        missing = attribute.missing_code
        null = codes == missing if missing is not None else np.zeros(codes.size, dtype=bool)
        return Vector("text", attribute.labels(codes), null, attribute, codes)

    def _kind(self, place: int) -> str:
        step = self.axes.answerer.cells(place).step
        return "integer" if step is not None and step.denominator == 1 else "number"


def evaluate(node: Expression, grid: PointGrid | None) -> Vector:
    """Compute an expression; without a grid it must be of constants alone."""
    if isinstance(node, Literal):
        return vectors.constant(node)
    if isinstance(node, AttributeColumn) and grid is not None:
        return grid.column(node.attribute)
    if isinstance(node, Operation):
        return _operate(node, grid)
    if isinstance(node, Membership):
        return vectors.connect(
            "OR", [vectors.compare("=", evaluate(node.operand, grid), evaluate(value, grid)) for value in node.values]
        )
    if isinstance(node, Matching):
        return vectors.match(evaluate(node.operand, grid), evaluate(node.pattern, grid), node)
    if isinstance(node, CaseWhen):
        branches = [(evaluate(condition, grid), evaluate(value, grid)) for condition, value in node.branches]
        return vectors.choose(branches, evaluate(node.other, grid))
    if isinstance(node, Cast):
        return vectors.cast(evaluate(node.operand, grid), node.kind, text("CAST to {kind}", kind=node.kind))
    if isinstance(node, Call):
        return _call(node, grid)
    raise refuse(describe(node))


def describe(node: Expression) -> str:
    """Name a kind of node in a refusal."""
    if isinstance(node, Call):
        return f"{node.name}()"
    if isinstance(node, Name):
        return node.name
    return {Star: "*", ScalarQuery: "(SELECT ...)", IntervalLiteral: "INTERVAL", Slot: "?"}.get(
        type(node), type(node).__name__
    )


def _operate(node: Operation, grid: PointGrid | None) -> Vector:
    sign = node.sign
    if sign in "+-" and any(isinstance(operand, IntervalLiteral) for operand in node.operands):
        left, right = node.operands
        if isinstance(left, IntervalLiteral):
            left, right = (right, left) if sign == "+" else (left, right)
        if not isinstance(right, IntervalLiteral) or isinstance(left, IntervalLiteral):
            raise refuse("INTERVAL")
        return vectors.add_interval(evaluate(left, grid), right, sign)
    return operate(sign, [evaluate(operand, grid) for operand in node.operands])


def operate(sign: str, operands: Sequence[Vector]) -> Vector:
    """Apply an operator to values."""
    if sign in vectors.MIRRORED:
        return vectors.compare(sign, *operands)
    if sign in ("AND", "OR"):
        return vectors.connect(sign, operands)
    if sign == "NOT":
        return vectors.negate(operands[0])
    if sign == "IS_NULL":
        return vectors.is_null(operands[0])
    if sign in ("IS_TRUE", "IS_FALSE"):
        return vectors.is_value(operands[0], sign == "IS_TRUE")
    if sign == "SAME":
        return vectors.same(*operands)
    if sign == "||":
        return join_texts(operands, skips_null=False)
    if sign == "NEG":
        return vectors.arithmetic("-", vectors.constant(Literal("integer", Fraction(0))), operands[0])
    return vectors.arithmetic(sign, *operands)


def _call(node: Call, grid: PointGrid | None) -> Vector:
    if node.window is not None or node.order or node.condition is not None or node.distinct:
        raise refuse(f"{node.name}()")
    if node.name in ("IF", "IFF") and len(node.arguments) == 3:
        condition, chosen, other = node.arguments
        return evaluate(CaseWhen(((condition, chosen),), other), grid)
    return call_function(node.name, [evaluate(argument, grid) for argument in node.arguments])


# --- where bins are cut -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinearForm:
    """slope * x + shift, x an attribute of numbers or days; without an attribute a constant."""

    attribute: int | None
    slope: Fraction
    shift: Fraction


_ITSELF = LinearForm(None, Fraction(1), Fraction(0))  # a number as it stands


def linear(node: Expression) -> LinearForm | None:
    """Read an expression as a linear one; None if it is another."""
    if isinstance(node, AttributeColumn):
        return LinearForm(node.attribute, Fraction(1), Fraction(0))
    if isinstance(node, Literal):
        return LinearForm(None, Fraction(0), node.value) if isinstance(node.value, Fraction) else None
    if isinstance(node, Cast):
        if node.kind == "date" and isinstance(node.operand, Literal):
            found = find_day(node.operand.value)
            return None if found is None else LinearForm(None, Fraction(0), Fraction(found.toordinal()))
        return linear(node.operand) if node.kind == "number" else None
    if not isinstance(node, Operation) or node.sign not in ("+", "-", "*", "/", "NEG"):
        return None
    parts = [
        LinearForm(None, Fraction(0), Fraction(operand.days))
        if isinstance(operand, IntervalLiteral) and not operand.months
        else linear(operand)
        for operand in node.operands
    ]
    if any(part is None for part in parts):
        return None
    return _combine(node.sign, [part for part in parts if part is not None])


def _combine(sign: str, parts: Sequence[LinearForm]) -> LinearForm | None:
    if sign == "NEG":
        return LinearForm(parts[0].attribute, -parts[0].slope, -parts[0].shift)
    left, right = parts
    both = {part.attribute for part in parts if part.attribute is not None}
    if sign in ("+", "-"):
        if len(both) > 1:
            return None
        turn = 1 if sign == "+" else -1
        slope = left.slope + turn * right.slope
        return LinearForm(next(iter(both), None), slope, left.shift + turn * right.shift)
    if sign == "*" and left.attribute is None:
        left, right = right, left
    if right.attribute is not None or (sign == "/" and right.shift == 0):
        return None
    factor = right.shift if sign == "*" else 1 / right.shift
    return LinearForm(left.attribute, left.slope * factor, left.shift * factor)


def demand(node: Expression, axes: Axes, *, is_summed: bool = False, is_listed: bool = False) -> None:
    """Note where the bins of attributes must be cut so that an expression can be computed point by point.

    `is_listed`: each of its values is told by itself, so that none may stand for others beside it.
    """
    if isinstance(node, AttributeColumn):
        if is_summed:
            axes.demand(node.attribute).is_summed = True
        if is_listed and is_counted(axes.answerer.schema.attributes[node.attribute]):
            axes.demand(node.attribute).every_value = True
    elif isinstance(node, Operation) and node.sign in MIRRORED:
        _demand_comparison(node.sign, node.operands[0], node.operands[1], axes)
    elif isinstance(node, Operation) and node.sign == "SAME":
        _demand_comparison("=", node.operands[0], node.operands[1], axes)
    elif isinstance(node, Membership):
        for value in node.values:
            _demand_comparison("=", node.operand, value, axes)
    elif _is_nullif(node):
        _demand_value(node.arguments[0], node.arguments[1], axes)
        demand(node.arguments[0], axes, is_summed=is_summed, is_listed=is_listed)
    elif isinstance(node, Call) and node.name in EXTREMES and all(linear(one) for one in node.arguments):
        for first, second in itertools.combinations(node.arguments, 2):
            _demand_comparison("<", first, second, axes)  # where another is the largest
        for child in children(node):
            demand(child, axes, is_summed=is_summed, is_listed=is_listed)
    elif _has_steps(node):
        _demand_steps(node, axes)
    elif (singular := _find_singular(node)) is not None:
        _demand_zero(singular, axes, is_root=isinstance(node, Call) and node.name == "SQRT")
        for child in children(node):
            demand(child, axes, is_summed=is_summed, is_listed=is_listed)
    elif is_summed and isinstance(node, Call) and node.name == "ABS" and len(node.arguments) == 1:
        if linear(node.arguments[0]) is not None:
            _demand_comparison("<", node.arguments[0], Literal("number", Fraction(0)), axes)  # where it turns
        demand(node.arguments[0], axes, is_summed=True)
    elif isinstance(node, CaseWhen):
        for condition, value in node.branches:
            demand(condition, axes)
            demand(value, axes, is_summed=is_summed, is_listed=is_listed)
        demand(node.other, axes, is_summed=is_summed, is_listed=is_listed)
    else:
        logical = isinstance(node, Operation) and node.sign in ("AND", "OR", "NOT", "IS_NULL", "IS_TRUE", "IS_FALSE")
        for child in children(node):
            demand(child, axes, is_summed=is_summed and not logical, is_listed=is_listed and not logical)


def _is_nullif(node: Expression) -> TypeGuard[Call]:
    """Tell whether a node is NULLIF of something and a value that is written out."""
    return isinstance(node, Call) and node.name == "NULLIF" and isinstance(node.arguments[-1], Literal)


def _demand_value(node: Expression, value: Expression, axes: Axes) -> None:
    """Make a value a point of its own, where there may be one: what has no grain must not have it."""
    form, mark = linear(node), linear(value)
    if form is not None and mark is not None and form.attribute is not None and form.slope != 0:
        cells, own = axes.answerer.cells(form.attribute), (mark.shift - form.shift) / form.slope
        if cells.step is None and cells.edges and cells.edges[0] <= own <= cells.edges[-1]:
            _demand_comparison("=", node, value, axes)
    for sign in ("<", "<="):
        _demand_comparison(sign, node, value, axes)


def _has_steps(node: Expression) -> bool:
    if isinstance(node, Operation):
        return node.sign in ("//", "%", "||")
    if isinstance(node, Cast):
        return node.kind != "number"
    if isinstance(node, Call) and node.name not in ("IF", "IFF"):
        return not (node.name in FUNCTIONS and FUNCTIONS[node.name].is_smooth)
    return isinstance(node, Matching)


def _find_singular(node: Expression) -> Expression | None:
    """The operand that must not be 0: a divisor, or what a logarithm, root or power is of."""
    if isinstance(node, Operation) and node.sign == "/":
        return node.operands[1]
    if isinstance(node, Call) and node.name in SINGULAR and node.arguments:
        return None if node.name in POWERS and _is_natural(node.arguments[-1]) else node.arguments[0]
    return None


def has_singular(expression: Expression) -> bool:
    """Tell whether something in an expression is not defined for all numbers."""
    return any(
        _find_singular(node) is not None or (isinstance(node, Operation) and node.sign in ("//", "%"))
        for node in walk(expression)
    )


def _is_natural(node: Expression) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, Fraction) and node.value >= 0 and node.value % 1 == 0


def _demand_zero(node: Expression, axes: Axes, *, is_root: bool) -> None:
    """Make 0 a point of its own where an expression can be 0, so that it is seen there; a root may be of 0."""
    form = linear(node.arguments[0] if _is_nullif(node) else node)
    if form is not None and form.attribute is not None and form.slope != 0:
        cells, zero = axes.answerer.cells(form.attribute), -form.shift / form.slope
        if cells.step is not None:
            axes.demand(form.attribute).cuts |= {zero, _after(zero, cells.step)}
        elif is_root and cells.edges and min(form.slope * end + form.shift for end in _ends(cells)) >= 0:
            return
        elif cells.edges and cells.edges[0] <= zero <= cells.edges[-1]:
            _leave_out(zero, form.attribute, axes)
        return
    for place in attributes_of(node):
        if is_counted(axes.answerer.schema.attributes[place]):
            axes.demand(place).every_value = True


def _leave_out(zero: Fraction, place: int, axes: Axes) -> None:
    """Cut where WHERE leaves 0 and what is near it out: finely there, since a logarithm is steep; else refuse."""
    limits = [limit for condition in axes.limits.get(place, ()) for limit in _find_limits(condition, place)]
    above = max((mark - zero for sign, mark in limits if sign in (">", ">=", "=")), default=Fraction(0))
    below = max((zero - mark for sign, mark in limits if sign in ("<", "<=", "=")), default=Fraction(0))
    gap, turn = (above, 1) if above > 0 else (below, -1)
    if gap <= 0:
        raise refuse(
            text("a logarithm, root, power of or division by what can be 0 or less"),
            text(
                "its values lie anywhere; leave out those near 0, as in WHERE x >= 0.1, move them, as in LN(x + 1), or"
                " divide sums: SUM(a) / SUM(b)"
            ),
        )
    low, high = _ends(axes.answerer.cells(place))
    while gap < high - low:
        axes.demand(place).cuts.add(zero + turn * gap)
        gap *= 2


def _find_limits(condition: Expression, place: int) -> Iterator[tuple[str, Fraction]]:
    """Comparisons of an attribute with numbers that a condition joins by AND: their signs and these numbers."""
    if isinstance(condition, Operation) and condition.sign == "AND":
        for operand in condition.operands:
            yield from _find_limits(operand, place)
    elif isinstance(condition, Operation) and condition.sign in MIRRORED:
        left, right = (linear(operand) for operand in condition.operands)
        if left is not None and right is not None and {left.attribute, right.attribute} == {place, None}:
            form, mark, sign = left, right, condition.sign
            if form.attribute is None:
                form, mark, sign = right, left, MIRRORED[sign]
            if form.slope != 0:
                yield (MIRRORED[sign] if form.slope < 0 else sign), (mark.shift - form.shift) / form.slope


def _ends(cells: AttributeCells) -> tuple[Fraction, Fraction]:
    return cells.edges[0], cells.edges[-1]


def _demand_steps(node: Expression, axes: Axes) -> None:
    for place in attributes_of(node):
        if not is_counted(axes.answerer.schema.attributes[place]):
            continue
        steps = _steps_of(node, place, axes)
        if steps is None:
            axes.demand(place).every_value = True
        else:
            axes.demand(place).cuts |= steps
    for child in children(node):
        demand(child, axes)


def _steps_of(node: Expression, place: int, axes: Axes) -> set[Fraction] | None:
    """Where a rounding function of a linear form jumps; None: look at all values."""
    cells = axes.answerer.cells(place)
    low, high = cells.edges[0], cells.edges[-1]
    if cells.step is not None and (high - low) / cells.step <= FEW_VALUES:
        return None
    shape = _rounding(node)
    if shape is None:
        return None
    form, unit, offset = shape
    if form.attribute != place or form.slope == 0:
        return None
    ends = sorted((form.slope * end + form.shift) / unit for end in (low, high))
    first, last = math.floor(ends[0]) - 1, math.ceil(ends[1]) + 1
    if last - first > MOST_STEPS:
        return None
    found = {(unit * (mark + offset) - form.shift) / form.slope for mark in range(first, last + 1)}
    return found if cells.step is None else found | {_after(cut, cells.step) for cut in found}


def _rounding(node: Expression) -> tuple[LinearForm, Fraction, Fraction] | None:
    """The form that is rounded, to multiples of what, and where in between it jumps."""
    zero, half, one = Fraction(0), Fraction(1, 2), Fraction(1)
    if isinstance(node, Cast) and node.kind == "integer":
        form, unit, offset = linear(node.operand), one, half
    elif isinstance(node, Operation) and node.sign == "//":
        form, divisor = linear(node.operands[0]), linear(node.operands[1])
        if divisor is None or divisor.attribute is not None or divisor.shift == 0:
            return None
        unit, offset = abs(divisor.shift), zero
    elif isinstance(node, Call) and node.name in ("FLOOR", "CEIL", "CEILING", "TRUNC") and len(node.arguments) == 1:
        form, unit, offset = linear(node.arguments[0]), one, zero
    elif isinstance(node, Call) and node.name == "ROUND":
        places = linear(node.arguments[1]) if len(node.arguments) == 2 else LinearForm(None, zero, zero)
        if places is None or places.attribute is not None or abs(places.shift) > 15 or places.shift.denominator != 1:
            return None
        form, unit, offset = linear(node.arguments[0]), Fraction(10) ** -int(places.shift), half
    else:
        return None
    return None if form is None else (form, unit, offset)


def _after(number: Fraction, step: Fraction) -> Fraction:
    """The first multiple of a step beyond a number."""
    return Fraction(math.floor(number) + 1) if step == 1 else (math.floor(number / step) + 1) * step


def _demand_comparison(sign: str, left: Expression, right: Expression, axes: Axes) -> None:
    if type(left) is AttributeColumn and type(right) is Literal:
        attribute = axes.answerer.schema.attributes[left.attribute]
        if not is_counted(attribute):
            return
        if isinstance(right.value, Fraction):
            _cut_at(sign, _ITSELF, right.value, left.attribute, axes)
            return
    if attributes_of(right) and not attributes_of(left):
        left, right, sign = right, left, MIRRORED[sign]
    form, mark = linear(left), linear(right)
    place = form.attribute if form is not None else None
    if form is not None and place is not None and not attributes_of(right):
        attribute = axes.answerer.schema.attributes[place]
        if not is_counted(attribute):
            return
        if mark is None:
            mark = _read_constant(right, attribute, left)
            if mark is None:
                return
        if form.slope != 0:
            _cut_at(sign, form, mark.shift, place, axes)
        return
    for side in (left, right):
        demand(side, axes)
        for other in attributes_of(side):
            if is_counted(axes.answerer.schema.attributes[other]):
                axes.demand(other).every_value = True


def _read_constant(node: Expression, attribute: Attribute, left: Expression) -> LinearForm | None:
    """A constant that is no plain number: a text that is a day or a number, an expression; None: NULL or a label."""
    value = evaluate(node, None)
    if value.kind == "null":
        return None
    if value.kind == "text":
        if isinstance(attribute.domain, DateBins):
            found = find_day(value.data.item())
            if found is not None:
                return LinearForm(None, Fraction(0), Fraction(found.toordinal()))
        else:
            try:
                return LinearForm(None, Fraction(0), Fraction(str(value.data.item()).strip()))
            except (ValueError, ZeroDivisionError):
                pass
        is_label = isinstance(left, AttributeColumn) and str(value.data.item()).startswith(("[", "("))
        if not is_label and isinstance(attribute.domain, NumberBins):
            raise ParameterError(
                "{name} is compared with something that is neither a number nor a date", name=attribute.name
            )
        return None
    if value.kind == "bool":
        return None
    return LinearForm(None, Fraction(0), Fraction(float(value.data)))


def _cut_at(sign: str, form: LinearForm, mark: Fraction, place: int, axes: Axes) -> None:
    cut, step = (mark if form is _ITSELF else (mark - form.shift) / form.slope), axes.answerer.cells(place).step
    needs = axes.demand(place)
    if sign in ("=", "<>") and step is None:
        raise ParameterError(
            "{name} has no grain, so single numbers of it are not counted; ask for a range, such as BETWEEN 0 AND 0, or"
            " for a bin by its label",
            name=axes.answerer.schema.names[place],
        )
    if sign in ("=", "<>") and step is not None:
        _check_value(cut, place, axes)
    if form.slope < 0:
        sign = MIRRORED[sign]
    cells = axes.answerer.cells(place)
    needs.is_between = needs.is_between or (step is not None and (cut if step == 1 else cut / step).denominator > 1)
    if step is None or cells.is_supposed or sign in ("<", ">=", "=", "<>"):
        needs.cuts.add(cut)
    if (step is None or cells.is_supposed) and sign in ("<=", ">"):  # many records may lie at the end itself
        needs.cuts.add(cut + narrowest_piece(cells, cut))
    if step is not None and sign in ("<=", ">", "=", "<>"):
        needs.cuts.add(_after(cut, step))


def _check_value(value: Fraction, place: int, axes: Axes) -> None:
    """Refuse a number that an attribute cannot have: a question for it is a slip of the pen."""
    attribute, cells = axes.answerer.schema.attributes[place], axes.answerer.cells(place)
    is_multiple = cells.step is not None and (value / cells.step).denominator == 1
    if not (is_multiple and cells.edges[0] <= value < cells.edges[-1]):
        raise SchemaError(
            "attribute {name} has no such value; it has {known}", name=attribute.name, known=attribute.some_labels
        )
