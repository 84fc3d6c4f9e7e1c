"""COUNT, SUM, AVG, quantiles, deviations, ...: from the records of a group to a quantity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sudare.asking.answers import answer
from sudare.asking.axes import MOST_UNITS, Axes, kept_numbers
from sudare.asking.distinct import count_distinct, find_mode, find_same_values
from sudare.asking.evaluate import PointGrid, attributes_of, demand, evaluate, has_singular, linear
from sudare.asking.functionals import Functional, MaskBox, PointBox, find_boxes, look_up, meet, tensor_parts, times
from sudare.asking.ordered import OrderedValues, order_values
from sudare.asking.protocol import AxisWeight, Moments, find_public_total, has_model
from sudare.asking.quantities import Quantity, add, apply, divide, estimate, multiply, plain, scale, total
from sudare.asking.syntax import AttributeColumn, Call, Expression, Literal, Operation, Star, refuse
from sudare.asking.terms import SummedTerms, find_bounds, split_terms
from sudare.asking.vectors import NUMBERS, Vector, read_labels
from sudare.schema.arrays import Reals
from sudare.text import text

QUANTILES = {
    "MEDIAN",
    "QUANTILE",
    "QUANTILE_CONT",
    "QUANTILE_DISC",
    "APPROX_QUANTILE",
    "PERCENTILE_CONT",
    "PERCENTILE_DISC",
}
SPREADS = {"STDDEV", "STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP"}
PAIRS = {"CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_INTERCEPT"}
AGGREGATES = {
    "COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX", "COUNT_IF", "COUNTIF", "APPROX_COUNT_DISTINCT", "MODE",
    *QUANTILES, *SPREADS, *PAIRS,
}  # fmt: skip


KEPT_SUMS = ("sum", "present")  # whose weights are the same in every statement
ADDED = {"COUNT", "SUM", "AVG", "MEAN", *SPREADS}  # made of counts and sums


def is_aggregate(node: Expression) -> bool:
    """Tell whether a call adds up records."""
    return isinstance(node, Call) and node.window is None and node.name in AGGREGATES


@dataclass(slots=True, eq=False)
class RecordGroup:
    """The records of a group: disjoint boxes of points; sums over them are kept."""

    axes: Axes
    boxes: list[MaskBox]
    level: float
    known: dict[Any, Functional] = field(default_factory=dict)
    number: int = field(default_factory=itertools.count().__next__)  # tells groups apart, also after one is gone
    narrowed: dict[Expression, RecordGroup] = field(default_factory=dict)

    def count(self, condition: Expression | None = None) -> Functional:
        """The number of records for which a condition is true."""
        if condition is None:
            return self._kept("count", lambda: self.boxes)
        return self._kept(("count", condition), lambda: meet(self.boxes, find_boxes(condition, self.axes)))

    def where(self, condition: Expression) -> RecordGroup:
        """The records for which a condition is true."""
        if condition not in self.narrowed:
            boxes = meet(self.boxes, find_boxes(condition, self.axes))
            self.narrowed[condition] = RecordGroup(self.axes, boxes, self.level)
        return self.narrowed[condition]

    def _kept(self, key: Any, make: Callable[[], Sequence[Any]]) -> Functional:
        if key not in self.known:
            self.known[key] = Functional(self.axes, make())
        return self.known[key]

    @property
    def most_records(self) -> float:
        """How many records there may be at all: as many as is public, or the upper end where a model is asked."""
        key, axes = ("most records", self.level), self.axes
        if key not in axes.memo:
            most = find_public_total(axes.answerer)
            if has_model(axes.answerer):
                most = _find_upper_end(axes.answerer.moments([{}]), self.level)
            axes.memo[key] = most
        found: float = axes.memo[key]
        return found

    def is_surely_empty(self) -> bool:
        """Tell whether there is nobody in it for sure: then SQL has no such group."""
        found = self.count().moments
        return found.value < 0.5 and answer(found, level=self.level).high < 0.5


@lru_cache(maxsize=64)
def _find_upper_end(moments: Moments, level: float) -> float:
    return answer(moments, level=level).high


def demand_aggregate(call: Call, axes: Axes) -> None:
    """Note what the points of attributes must be for an aggregate."""
    if call.condition is not None:
        demand(call.condition, axes)
    argument = measured(call)
    if argument is None or isinstance(argument, Star):
        return
    if call.name in ("COUNT", "COUNT_IF", "COUNTIF", "APPROX_COUNT_DISTINCT", "MODE"):
        is_listed = call.distinct or call.name in ("APPROX_COUNT_DISTINCT", "MODE")
        told = find_same_values(argument) if is_listed and call.name != "MODE" else argument
        if not isinstance(told, AttributeColumn):
            demand(argument, axes, is_listed=is_listed)
        return
    is_ordered = call.name in ("MIN", "MAX") or call.name in QUANTILES
    places = attributes_of(argument) if is_ordered else ()
    is_single = isinstance(argument, AttributeColumn) or (len(places) == 1 and linear(argument) is None)
    if is_ordered and is_single and _has_step(places[0], axes):
        axes.demand(places[0]).every_value = True
        return
    for expression in call.arguments if call.name in PAIRS else (argument,):
        demand(expression, axes, is_summed=True)


def _has_step(place: int, axes: Axes) -> bool:
    cells = axes.answerer.cells(place)
    return (
        cells.step is not None and bool(cells.edges) and (cells.edges[-1] - cells.edges[0]) / cells.step <= MOST_UNITS
    )


def measured(call: Call) -> Expression | None:
    """What an aggregate is of: its argument, or the key of WITHIN GROUP."""
    if call.order:
        return call.order[0].key
    return call.arguments[0] if call.arguments else None


def aggregate(call: Call, group: RecordGroup) -> Quantity | Vector | None:
    """The value of an aggregate over the records of a group; None is NULL."""
    if call.condition is not None:
        group = group.where(call.condition)
    argument = measured(call)
    if call.name == "COUNT" and not call.distinct:
        return _count(call, group)
    if argument is None or isinstance(argument, Star):
        raise refuse(f"{call.name}(*)" if argument else f"{call.name}()")
    if call.name in ("COUNT", "APPROX_COUNT_DISTINCT"):
        return count_distinct(call, argument, group)
    if call.distinct and call.name not in ("MIN", "MAX"):
        raise refuse(f"{call.name}(DISTINCT ...)")
    if call.name in ("COUNT_IF", "COUNTIF"):
        return total(group.count(argument), most=group.most_records)
    if call.name in QUANTILES:
        return _quantile(call, argument, group)
    if call.name in ("MIN", "MAX"):
        return _extreme(call.name, argument, group)
    if call.name == "MODE":
        return find_mode(argument, group)
    wanted = 2 if call.name in PAIRS else 1
    if len(call.arguments) != wanted or call.order:
        raise refuse(text("{name} with {count} arguments", name=f"{call.name}()", count=len(call.arguments)))
    if call.name in PAIRS:
        return _pair(call.name, call.arguments[0], call.arguments[1], group)
    return _numbers(call.name, argument, group)


def look_up_aggregates(calls: Sequence[Call], groups: Sequence[RecordGroup], *, counts: bool = False) -> None:
    """Ask for the sums that counts, sums and means of many groups are made of, all at once; with `counts` of all."""
    wanted: list[Functional] = [group.count() for group in groups] if counts else []
    for call in calls:
        for group in groups if call.name in ADDED else ():
            own = group if call.condition is None else group.where(call.condition)
            argument = measured(call)
            if call.name == "COUNT" and (argument is None or isinstance(argument, Star | Literal)):
                wanted.append(own.count())
            elif call.name != "COUNT" and argument is not None and not isinstance(argument, Star) and not call.distinct:
                records, summed = _find_sums(argument, own)
                wanted += [records, *(functional for _, functional in summed)]
    look_up(wanted)


def _find_sums(expression: Expression, group: RecordGroup) -> tuple[Functional, list[tuple[float, Functional]]]:
    """How many records have a number, and sums that, times their factors, add up to that of these numbers."""
    terms = _find_terms(expression, group.axes)
    if terms is None:
        weights = number_weights(expression, group.axes)
        is_all = bool(weights.is_there.all())
        records = group.count() if is_all else _sum_of(group, ("present", expression), weights, weights.is_there)
        return records, [(1.0, _sum_of(group, ("sum", expression), weights, weights.values))]

    def weigh(key: Any, weights: Sequence[Reals]) -> Functional:
        return group._kept((key, expression), lambda: terms.weigh(group.boxes, weights, group.axes))

    records = group.count() if terms.has_all else weigh("present", terms.is_there)
    return records, [(term.constant, weigh(("term", place), term.weights)) for place, term in enumerate(terms.terms)]


def _find_terms(expression: Expression, axes: Axes) -> SummedTerms | None:
    key = ("terms", expression)
    if key not in axes.memo:
        axes.memo[key] = split_terms(expression, axes)
    found: SummedTerms | None = axes.memo[key]
    return found


def _count(call: Call, group: RecordGroup) -> Quantity:
    if not call.arguments or isinstance(call.arguments[0], Star):
        return total(group.count(), most=group.most_records)
    if len(call.arguments) > 1:
        raise refuse(text("COUNT of several columns"))
    argument = call.arguments[0]
    if isinstance(argument, Literal) and argument.kind != "null":
        return total(group.count(), most=group.most_records)
    counted = group.count(Operation("NOT", (Operation("IS_NULL", (argument,)),)))
    return total(counted, most=group.most_records)


# --- sums and what is computed from them ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class NumberWeights:
    """The number of every point of some attributes, whether there is one, and between what numbers lie.

    `kept`: sums of them as boxes, with what follows from the weights of these; later statements take the same.
    """

    places: tuple[int, ...]
    values: Reals
    is_there: Reals
    bounds: tuple[float, float]
    kept: dict[str, tuple[list[PointBox], list[tuple[int, Reals, AxisWeight]]]] = field(default_factory=dict)

    def find_boxes(self, name: str, weights: Reals, axes: Axes) -> list[PointBox]:
        """Weights of points as disjoint boxes; those of a name are the same in every statement."""
        if name in self.kept:
            boxes, weighed = self.kept[name]
            for place, line, weight in weighed:
                axes.take_weighed(place, line, weight)
            return boxes
        boxes = tensor_parts(axes, self.places, weights)
        if name in KEPT_SUMS and len(boxes) == 1:
            lines = [(place, line, axes.weigh(place, line)) for place, line in boxes[0].items()]
            self.kept[name] = boxes, lines
        return boxes


def number_weights(expression: Expression, axes: Axes) -> NumberWeights:
    """Compute an expression that is summed; anything but a number or a truth value is refused."""
    key = ("numbers", expression)
    if key in axes.memo:
        found: NumberWeights = axes.memo[key]
        return found
    places = attributes_of(expression)
    is_limited = has_singular(expression)
    following = (expression, *(axes.points(place) for place in places))  # all that the numbers follow from
    known: NumberWeights | None = None if is_limited else kept_numbers.get(following)
    if known is None:
        vector = read_labels(evaluate(expression, PointGrid(axes, places, is_limited=is_limited)))
        if vector.kind not in (*NUMBERS, "null", "bool"):
            _refuse_kind(expression, vector.kind, axes)
        shape = np.broadcast_shapes(vector.data.shape, vector.null.shape)
        null = np.broadcast_to(vector.null, shape)
        values = np.where(null, 0.0, np.nan_to_num(np.broadcast_to(vector.data, shape).astype(float)))
        bounds = find_bounds(expression, values, null, axes)
        known = NumberWeights(places, values, (~null).astype(float), bounds)
        if not is_limited and places:
            kept_numbers.put(following, known, 8 * values.size)
    axes.memo[key] = known
    return known


def _refuse_kind(expression: Expression, kind: str, axes: Axes) -> None:
    if isinstance(expression, AttributeColumn):
        name = axes.answerer.schema.names[expression.attribute]
        raise refuse(
            text("a sum or mean of {name}", name=name), text("it is not a number; only COUNT can be used with it")
        )
    raise refuse(text("a sum or mean of {kind}", kind=kind))


def _sum_of(group: RecordGroup, key: Any, weights: NumberWeights, values: Reals) -> Functional:
    """The sum of weights over the records of a group."""
    axes = group.axes
    if key not in group.known:
        if key not in axes.memo:
            axes.memo[key] = weights.find_boxes(key[0], values, axes)
        group.known[key] = Functional(axes, times(group.boxes, axes.memo[key]))
    return group.known[key]


def _numbers(name: str, expression: Expression, group: RecordGroup) -> Quantity | None:
    if name in SPREADS:
        return _find_spread(name, expression, group)
    terms = _find_terms(expression, group.axes)
    records, sums = _find_sums(expression, group)
    low, high = number_weights(expression, group.axes).bounds if terms is None else terms.bounds
    if name == "SUM":
        most = group.most_records
        least, greatest = (end * most if end else 0.0 for end in (min(0.0, low), max(0.0, high)))
        summed = _add_terms(sums, least, greatest)
        return None if summed.value == 0 and _is_nobody(records, group.level) else summed
    summed = _add_terms(sums)  # first: what a view works out for it tells the count too
    if records.moments.value <= 0 or _is_nobody(records, group.level):
        return None  # the mean of nobody
    mean = divide(summed, total(records))
    return None if mean is None else _within(mean, low, high)


def _add_terms(sums: Sequence[tuple[float, Functional]], least: float = -math.inf, most: float = math.inf) -> Quantity:
    value = sum(factor * functional.moments.value for factor, functional in sums)
    parts: dict[Functional, float] = {}
    for factor, functional in sums:
        parts[functional] = parts.get(functional, 0.0) + factor
    return Quantity(value=value, parts=parts, least=least, most=most)


def _find_spread(name: str, expression: Expression, group: RecordGroup) -> Quantity | None:
    weights = number_weights(expression, group.axes)
    is_all = bool(weights.is_there.all())
    records = group.count() if is_all else _sum_of(group, ("present", expression), weights, weights.is_there)
    if records.moments.value <= 0 or _is_nobody(records, group.level):
        return None
    mean = _sum_of(group, ("sum", expression), weights, weights.values).moments.value / records.moments.value
    return _spread(name, expression, weights, records, mean, group)


def _is_nobody(records: Functional, level: float) -> bool:
    found = records.moments
    return found.value < 0.5 and answer(found, level=level).high < 0.5


def _within(quantity: Quantity, low: float, high: float) -> Quantity:
    return replace(
        quantity, least=max(quantity.least, low) if low > -math.inf else quantity.least, most=min(quantity.most, high)
    )


def _spread(
    name: str, expression: Expression, weights: NumberWeights, records: Functional, mean: float, group: RecordGroup
) -> Quantity | None:
    """The variance or standard deviation, from sums of (x - m) and its square, m near the mean."""
    gaps = (weights.values - mean) * weights.is_there
    first = _sum_of(group, ("gap", expression, mean), weights, gaps)
    second = _sum_of(group, ("gap^2", expression, mean), weights, gaps**2)
    variance = _variance(total(second), total(first, least=-math.inf), total(records))
    count = records.moments.value
    if not name.endswith("_POP"):
        if count < 2:
            return None
        variance = scale(variance, count / (count - 1))
    half = (weights.bounds[1] - weights.bounds[0]) / 2
    variance = _within(variance, 0.0, half**2 * max(1.0, count / max(count - 1, 1.0)))
    return variance if name.startswith("VAR") else _root(variance, group.level)


def _variance(second: Quantity, first: Quantity, records: Quantity) -> Quantity:
    mean_square, mean = divide(second, records), divide(first, records)
    if mean_square is None or mean is None:
        raise AssertionError("records are above 0")
    return add(mean_square, multiply(mean, mean), -1.0)


def _root(variance: Quantity, level: float) -> Quantity:
    bounds = math.sqrt(max(variance.least, 0.0)), math.sqrt(max(variance.most, 0.0))
    value = math.sqrt(max(variance.value, 0.0))
    found = estimate(variance, level)
    if found.has_interval and found.high - found.low > value**2 / 2:  # the root bends within the interval
        ends = math.sqrt(max(found.low, 0.0)), math.sqrt(max(found.high, 0.0))
        return Quantity(value=value, fixed=ends, least=bounds[0], most=bounds[1])
    return apply(variance, value, 0.5 / value if value > 0 else 0.0, bounds)


def _pair(name: str, first: Expression, second: Expression, group: RecordGroup) -> Quantity | None:
    """Covariance, correlation and regression of the first on the second, as SQL has them (y, x)."""
    numbers = _read_pair(name, first, second, group)
    records = numbers.sum()
    if records.value < (0.5 if name == "COVAR_POP" else 1.5):  # of one record it is 0, and all others are NULL
        return None
    my, mx = (numbers.sum(*sides).value / records.value for sides in ((numbers.ys, None), (None, numbers.xs)))
    gy, gx = (numbers.ys - my) * numbers.y_is_there, (numbers.xs - mx) * numbers.x_is_there
    sums = numbers.sum(gy), numbers.sum(None, gx), numbers.sum(gy, gx), numbers.sum(None, gx**2), numbers.sum(gy**2)
    mean_y, mean_x, product, square_x, square_y = (divide(one, records) for one in sums)
    if not (mean_y and mean_x and product and square_x and square_y):
        return None
    is_flat = _is_rounding(square_x, numbers.xs), _is_rounding(square_y, numbers.ys)
    if (name == "CORR" and any(is_flat)) or (name.startswith("REGR") and is_flat[0]):
        return None
    covariance = add(product, multiply(mean_y, mean_x), -1.0)
    if name == "COVAR_POP":
        return covariance
    if name == "COVAR_SAMP":
        return scale(covariance, records.value / (records.value - 1))
    if name == "CORR":
        return _correlation(covariance, multiply(square_x, square_y))
    slope = divide(covariance, square_x)
    if slope is None or name == "REGR_SLOPE":
        return slope
    # intercept = mean y - slope * mean x; the means are my and mx, plus gaps near 0
    centre = add(add(mean_y, plain(my)), multiply(slope, add(mean_x, plain(mx))), -1.0)
    return centre


@dataclass(frozen=True, slots=True, eq=False)
class NumberPairs:
    """The numbers of two expressions and whether they are there, point by point of the attributes of each.

    Where they share an attribute, both are over the points of all attributes together.
    """

    group: RecordGroup
    y_places: tuple[int, ...]
    x_places: tuple[int, ...]
    ys: Reals
    xs: Reals
    y_is_there: Reals
    x_is_there: Reals

    def sum(self, ys: Reals | None = None, xs: Reals | None = None) -> Quantity:
        """The sum of products of weights, over the records that have both numbers."""
        y_weights, x_weights = self.y_is_there if ys is None else ys, self.x_is_there if xs is None else xs
        axes, boxes = self.group.axes, self.group.boxes
        if self.y_places == self.x_places:
            parts = times(boxes, tensor_parts(axes, self.y_places, y_weights * x_weights))
        else:  # a record weighs the product of both, so no table of all pairs of points is needed
            parts = times(times(boxes, tensor_parts(axes, self.y_places, y_weights)),
                          tensor_parts(axes, self.x_places, x_weights))  # fmt: skip
        return total(Functional(axes, parts), least=-math.inf)


def _read_pair(name: str, first: Expression, second: Expression, group: RecordGroup) -> NumberPairs:
    places = attributes_of(first), attributes_of(second)
    if set(places[0]) & set(places[1]):
        both = tuple(sorted({*places[0], *places[1]}))
        places = both, both
    found = list[tuple[Reals, Reals]]()
    for side, own in zip((first, second), places, strict=True):
        grid = PointGrid(group.axes, own, is_limited=has_singular(side))
        vector = read_labels(evaluate(side, grid))
        if not vector.is_number:
            raise refuse(f"{name}()", text("it needs two numbers"))
        there = np.broadcast_to(~vector.null, grid.shape)
        values = np.nan_to_num(np.broadcast_to(vector.data, grid.shape).astype(float))
        found.append((np.where(there, values, 0.0), there.astype(float)))
    (ys, y_is_there), (xs, x_is_there) = found
    return NumberPairs(group, *places, ys, xs, y_is_there, x_is_there)


def _correlation(covariance: Quantity, spread: Quantity) -> Quantity | None:
    """A covariance over the root of the product of both variances."""
    if spread.value <= 0:
        return None
    root = math.sqrt(spread.value)
    found = divide(covariance, apply(spread, root, 0.5 / root, (0.0, math.inf)))
    return None if found is None else _within(found, -1.0, 1.0)


def _is_rounding(square: Quantity, values: Reals) -> bool:
    """Tell whether a variance is only what floats leave of 0: all records have one value."""
    return square.value <= (1e-12 * float(np.abs(values).max(initial=0.0))) ** 2


# --- what is found by inverting counts --------------------------------------------------------------------------------


def _tail(ordered: OrderedValues, group: RecordGroup, rank: int, share: float) -> Functional:
    """The sum of (1 for values up to this rank, else 0) less a share, over the records that have a value."""
    weights = (ordered.ranks <= rank) * 1.0 - share
    weights[ordered.ranks < 0] = 0.0
    return group._kept(
        ("tail", ordered.place, id(ordered), rank, share),
        lambda: times(group.boxes, [{ordered.place: weights}]) if weights.any() else [],
    )


def _first_rank(size: int, holds: Callable[[int], bool]) -> int:
    """The first rank for which a condition holds; it holds for all after it. The last one if for none."""
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _quantile(call: Call, expression: Expression, group: RecordGroup) -> Quantity | None:
    share = _share_of(call)
    ordered = order_values(expression, group.axes, call.name)
    if call.order and call.order[0].descending:
        share = 1.0 - share
    records = _tail(ordered, group, ordered.size - 1, 0.0)
    if records.moments.value <= 0 or _is_nobody(records, group.level):
        return None

    def gap(rank: int, turn: float) -> float:
        found = _tail(ordered, group, rank, share).moments
        return found.value + turn * (found.reaches(group.level)[turn > 0] if turn else 0.0)

    tiny = 1e-9 * max(records.moments.value, 1.0)
    last = ordered.size - 1
    at = _first_rank(ordered.size, lambda rank: rank == last or gap(rank, 0.0) >= -tiny)
    low = _first_rank(ordered.size, lambda rank: rank == last or gap(rank, 1.0) >= -tiny)
    high = _first_rank(ordered.size, lambda rank: rank == last or gap(rank, -1.0) > tiny)
    before = gap(at - 1, 0.0) if at else -share * records.moments.value
    after = gap(at, 0.0)
    part = min(1.0, max(0.0, -before / (after - before))) if after > before else 0.5
    value = float(ordered.lows[at] + part * (ordered.highs[at] - ordered.lows[at]))
    fixed = float(ordered.lows[low]), float(ordered.highs[high])
    return Quantity(value=value, fixed=fixed, is_day=ordered.is_day)


def _share_of(call: Call) -> float:
    if call.name == "MEDIAN":
        if len(call.arguments) != 1:
            raise refuse("MEDIAN")
        return 0.5
    argument = call.arguments[0] if call.order else (call.arguments[1] if len(call.arguments) == 2 else None)
    if not isinstance(argument, Literal) or not isinstance(argument.value, Fraction) or not 0 <= argument.value <= 1:
        raise refuse(f"{call.name}()", text("it needs one share between 0 and 1, written out"))
    return float(argument.value)


def _extreme(name: str, expression: Expression, group: RecordGroup) -> Quantity | None:
    """The least or largest value: where the count beyond it may be, is, and must be below one record."""
    ordered = order_values(expression, group.axes, name)
    is_max, last = name == "MAX", ordered.size - 1
    records = _tail(ordered, group, last, 0.0)
    if _is_nobody(records, group.level):
        return None

    def beyond(rank: int, end: str) -> float:
        """How many records lie beyond a rank, counted from the side that is asked for."""
        if rank >= last:
            return 0.0
        count = _tail(ordered, group, last - rank - 1, 0.0) if not is_max else _above(ordered, group, rank)
        return float(getattr(answer(count.moments, level=group.level), end))

    def first(end: str) -> int:
        return _first_rank(ordered.size, lambda rank: beyond(rank, end) < 0.5)

    ranks = [first(end) for end in ("low", "value", "high")]
    extreme = (name, (group.number, id(ordered)))
    if is_max:
        low, at, high = ranks
        return Quantity(
            value=float(ordered.highs[at]),
            fixed=(float(ordered.lows[low]), float(ordered.highs[high])),
            is_day=ordered.is_day,
            extreme=extreme,
        )
    high, at, low = (last - rank for rank in ranks)
    return Quantity(
        value=float(ordered.lows[at]),
        fixed=(float(ordered.lows[low]), float(ordered.highs[high])),
        is_day=ordered.is_day,
        extreme=extreme,
    )


def _above(ordered: OrderedValues, group: RecordGroup, rank: int) -> Functional:
    weights = (ordered.ranks > rank) * 1.0
    return group._kept(
        ("above", id(ordered), rank), lambda: times(group.boxes, [{ordered.place: weights}]) if weights.any() else []
    )
