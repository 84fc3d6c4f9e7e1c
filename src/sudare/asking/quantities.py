"""Numbers that are computed from estimated sums, and how far they may be off.

A quantity knows its derivative by every sum it is made of. Its error to first order is then the error of one linear
combination of sums, which is asked for as a whole (the delta method). A ratio whose divisor is not sure gets the
interval of Fieller instead, and what is found by inverting counts (quantiles, extremes) brings its own interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sudare.asking.answers import Estimate, answer
from sudare.asking.axes import Axes
from sudare.asking.functionals import Functional, PointBox, ask, ask_all, ask_shifts, combine, find_shift, look_up
from sudare.asking.protocol import Moments
from sudare.asking.syntax import refuse
from sudare.text import Text, text

Parts = Mapping[Functional, float]

UNSURE_DIVISOR = (
    0.02  # (half the width of a divisor's interval / the divisor)^2, beyond which Fieller's interval is used
)

DIVISOR_MAY_BE_0 = text("so few records are counted that the divisor may be 0")


@dataclass(frozen=True, slots=True, eq=False)
class LinearSum:
    """A linear combination of sums."""

    value: float
    parts: Parts


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Quantity:
    """A number, its derivatives by sums, and between what it must lie.

    `ratio` are numerator and denominator where it is a fixed multiple (`scale`) of such a ratio. `fixed` is an interval
    that was found otherwise; the interval of a sum of such and other numbers (`addends`) is the sum of their intervals:
    wider than needed, never too narrow. So is that of `factors`: the sign * or /, and two such numbers. `divisors` are
    what it was divided by: where one may be 0, derivatives say nothing. `reason` says why there is no interval.
    """

    value: float
    parts: Parts = field(default_factory=dict)
    least: float = -math.inf
    most: float = math.inf
    ratio: tuple[LinearSum, LinearSum] | None = None
    scale: float = 1.0
    fixed: tuple[float, float] | None = None
    addends: tuple[Quantity, ...] = ()
    factors: tuple[str, Quantity, Quantity] | None = None
    divisors: tuple[Quantity, ...] = ()
    reason: Text | None = None
    is_day: bool = False
    extreme: tuple[str, tuple[int, ...]] | None = None  # MIN or MAX, and the identities of the numbers it is of

    @property
    def is_exact(self) -> bool:
        """Tell whether it is a plain number."""
        return not self.parts and self.has_derivatives and self.reason is None

    @property
    def has_derivatives(self) -> bool:
        """Tell whether its error follows from those of sums; otherwise its interval was found otherwise."""
        return self.fixed is None and not self.addends and self.factors is None

    @property
    def is_linear(self) -> bool:
        """Tell whether it is a linear combination of sums and of nothing else."""
        return self.ratio is None and self.has_derivatives and self.reason is None


def plain(value: float) -> Quantity:
    """A number that is known."""
    return Quantity(value=value, least=value, most=value)


def total(functional: Functional, *, least: float = 0.0, most: float = math.inf) -> Quantity:
    """A sum over the records."""
    return Quantity(value=functional.moments.value, parts={functional: 1.0}, least=least, most=most)


def find_published(quantity: Quantity) -> float | None:
    """Give the figure of a linear combination of sums that stands in the files; None where there is none."""
    figures = [functional.moments.published for functional in quantity.parts]
    if not quantity.is_linear or not figures or any(figure is None for figure in figures):
        return None
    moved = (
        by * (float(figure or 0.0) - functional.moments.value)
        for (functional, by), figure in zip(quantity.parts.items(), figures, strict=True)
    )
    return quantity.value + sum(moved)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def add(left: Quantity, right: Quantity, turn: float = 1.0) -> Quantity:
    """Add, or with `turn` -1 subtract."""
    if turn < 0 and _is_range(left, right):  # the largest of some numbers is never below the least of them
        difference = add(replace(left, extreme=None), right, turn)
        return replace(difference, least=max(0.0, difference.least))
    if turn < 0:
        right = scale(right, -1.0)
    if right.is_exact and _can_shift(left):
        return _shift(left, right.value)
    if left.is_exact and _can_shift(right):
        return _shift(right, left.value)
    value = left.value + right.value
    bounds = left.least + right.least, left.most + right.most
    if not (left.has_derivatives and right.has_derivatives) and not (left.reason or right.reason):
        return Quantity(value=value, addends=(left, right), least=bounds[0], most=bounds[1])
    return _join(value, left, right, 1.0, 1.0, bounds)


def _can_shift(quantity: Quantity) -> bool:
    return quantity.ratio is None and not quantity.addends and quantity.factors is None


def _is_range(left: Quantity, right: Quantity) -> bool:
    """Tell whether these are MAX and MIN of the same numbers."""
    if left.extreme is None or right.extreme is None:
        return False
    return (left.extreme[0], right.extreme[0]) == ("MAX", "MIN") and left.extreme[1] == right.extreme[1]


def _shift(quantity: Quantity, by: float) -> Quantity:
    fixed = None if quantity.fixed is None else (quantity.fixed[0] + by, quantity.fixed[1] + by)
    ends = quantity.least + by, quantity.most + by
    return replace(quantity, value=quantity.value + by, least=ends[0], most=ends[1], fixed=fixed, extreme=None)


def scale(quantity: Quantity, factor: float) -> Quantity:
    """Multiply by a known number."""
    ends = sorted((_times(quantity.least, factor), _times(quantity.most, factor)))
    fixed = quantity.fixed
    if fixed is not None:
        low, high = sorted((fixed[0] * factor, fixed[1] * factor))
        fixed = low, high
    return replace(
        quantity,
        value=quantity.value * factor,
        parts={functional: part * factor for functional, part in quantity.parts.items()},
        least=ends[0],
        most=ends[1],
        scale=quantity.scale * factor,
        fixed=fixed,
        addends=tuple(scale(addend, factor) for addend in quantity.addends),
        factors=None
        if quantity.factors is None
        else (quantity.factors[0], scale(quantity.factors[1], factor), quantity.factors[2]),
        extreme=None,
    )


def _times(first: float, second: float) -> float:
    return 0.0 if first == 0 or second == 0 else first * second


def multiply(left: Quantity, right: Quantity) -> Quantity:
    """Multiply."""
    if right.is_exact:
        return scale(left, right.value)
    if left.is_exact:
        return scale(right, left.value)
    corners = [_times(a, b) for a in (left.least, left.most) for b in (right.least, right.most)]
    value = left.value * right.value
    if _is_found_otherwise(left, right):
        return Quantity(value=value, factors=("*", left, right), least=min(corners), most=max(corners))
    return _join(value, left, right, right.value, left.value, (min(corners), max(corners)))


def divide(left: Quantity, right: Quantity) -> Quantity | None:
    """Divide; None (NULL) by 0."""
    if right.value == 0:
        return None
    if right.is_exact:
        return scale(left, 1.0 / right.value)
    value = left.value / right.value
    is_positive = left.least >= 0 and right.least >= 0
    bounds = (0.0, math.inf) if is_positive else (-math.inf, math.inf)
    if _is_found_otherwise(left, right):
        return Quantity(value=value, factors=("/", left, right), least=bounds[0], most=bounds[1])
    found = _join(value, left, right, 1.0 / right.value, -value / right.value, bounds)
    if left.is_linear and right.is_linear and left.parts:
        both = LinearSum(left.value, left.parts), LinearSum(right.value, right.parts)
        most = _find_greatest_ratio(left, right) if is_positive else bounds[1]
        return replace(found, ratio=both, scale=1.0, most=most)
    return replace(found, divisors=(*found.divisors, right))


def _is_found_otherwise(left: Quantity, right: Quantity) -> bool:
    """Tell whether an interval of one of both was found otherwise than by derivatives, and both have one."""
    return not (left.has_derivatives and right.has_derivatives) and not (left.reason or right.reason)


def _find_greatest_ratio(left: Quantity, right: Quantity) -> float:
    """What a ratio of counts is at most: 1 for some of the records of another count, or for one term of a sum."""
    if len(left.parts) != 1 or _is_shifted(left) or _is_shifted(right):
        return math.inf
    part, factor = next(iter(left.parts.items()))
    if len(right.parts) == 1:
        whole, other = next(iter(right.parts.items()))
        return factor / other if other > 0 and (part is whole or _is_part_of(part, whole)) else math.inf
    share = right.parts.get(part, 0.0)
    is_sum = share > 0 and all(other >= 0 and _is_count(term) for term, other in right.parts.items())
    return factor / share if is_sum else math.inf


def _is_shifted(quantity: Quantity) -> bool:
    """Tell whether a known number was added to sums."""
    sums = sum(factor * functional.moments.value for functional, factor in quantity.parts.items())
    return abs(quantity.value - sums) > 1e-9 * (1 + abs(sums))


def _is_part_of(part: Functional, whole: Functional) -> bool:
    """Tell whether a count is known to be of some of the records of another: boxes within one larger box."""
    if len(whole.boxes) != 1 or part.axes is not whole.axes:
        return False
    outer = whole.boxes[0]
    is_within = all(place in box and bool((box[place] <= outer[place]).all()) for box in part.boxes for place in outer)
    return is_within and _is_count(part)


def _is_count(part: Functional) -> bool:
    """Tell whether every record weighs from 0 to 1."""
    return all(bool(((weights >= 0) & (weights <= 1)).all()) for box in part.boxes for weights in box.values())


def _join(
    value: float, left: Quantity, right: Quantity, by_left: float, by_right: float,
    bounds: tuple[float, float],
) -> Quantity:  # fmt: skip
    """A number made of two quantities, with its derivatives by both."""
    reason = left.reason or right.reason
    if not (left.has_derivatives and right.has_derivatives):
        reason = reason or text("it is computed from numbers whose intervals are found one by one")
        return Quantity(value=value, reason=reason, least=bounds[0], most=bounds[1])
    parts = {functional: part * by_left for functional, part in left.parts.items()}
    for functional, part in right.parts.items():
        parts[functional] = parts.get(functional, 0.0) + part * by_right
    divisors = (*left.divisors, *right.divisors)
    return Quantity(value=value, parts=parts, least=bounds[0], most=bounds[1], divisors=divisors, reason=reason)


def apply(quantity: Quantity, value: float, slope: float, bounds: tuple[float, float]) -> Quantity:
    """A function of a quantity: its value, its derivative there, and between what it lies (a function that rises)."""
    parts = {functional: part * slope for functional, part in quantity.parts.items()}
    reason = quantity.reason
    if not quantity.has_derivatives:
        reason = reason or text("it is computed from numbers whose intervals are found one by one")
    return Quantity(
        value=value, parts=parts, least=bounds[0], most=bounds[1], divisors=quantity.divisors, reason=reason
    )


# --- intervals --------------------------------------------------------------------------------------------------------


def estimate(quantity: Quantity, level: float) -> Estimate:
    """The number with its interval, or with the reason why there is none."""
    if not math.isfinite(quantity.value):
        raise refuse(text("a number of more than 308 digits"))
    value = min(quantity.most, max(quantity.least, quantity.value))
    if quantity.reason is not None:
        return _without(value, level, quantity.reason, quantity.is_day)
    if any(_may_be_zero(divisor, level) for divisor in quantity.divisors):
        return _without(value, level, DIVISOR_MAY_BE_0)
    if quantity.fixed is not None:
        low = max(quantity.least, min(quantity.fixed[0], value))
        high = min(quantity.most, max(quantity.fixed[1], value))
        return Estimate(
            value=value, low=low, high=high, level=level, noise_deviation=math.nan, model_deviation=math.nan,
            inside_deviation=math.nan, is_day=quantity.is_day,
        )  # fmt: skip
    if quantity.addends:
        return _add_intervals(quantity, value, level)
    if quantity.factors is not None:
        return _multiply_intervals(quantity, value, level)
    moments = moments_of(quantity.parts)
    found = answer(
        moments.scaled(quantity.value, 1.0),
        level=level,
        least=quantity.least,
        most=quantity.most,
    )
    if quantity.ratio is not None:
        return _with_fieller(found, quantity, level)
    return found


def _may_be_zero(divisor: Quantity, level: float) -> bool:
    found = estimate(divisor, level)
    return not found.has_interval or found.low <= 0 <= found.high


def _add_intervals(quantity: Quantity, value: float, level: float) -> Estimate:
    found = [estimate(addend, level) for addend in quantity.addends]
    reasons = [addend.reason for addend in found if addend.reason is not None]
    if reasons:
        return _without(value, level, reasons[0], quantity.is_day)
    ends = sum(addend.low for addend in found), sum(addend.high for addend in found)
    return estimate(Quantity(value=value, fixed=ends, least=quantity.least, most=quantity.most), level)


def _multiply_intervals(quantity: Quantity, value: float, level: float) -> Estimate:
    """The corners of both intervals; to first order both errors go together, which is never too narrow."""
    sign, *numbers = quantity.factors or ("*", quantity, quantity)
    found = [estimate(number, level) for number in numbers]
    reasons = [one.reason for one in found if one.reason is not None]
    left, right = ((one.low, one.high) for one in found)
    if not reasons and sign == "/" and right[0] <= 0 <= right[1]:
        reasons = [DIVISOR_MAY_BE_0]
    if reasons:
        return _without(value, level, reasons[0], quantity.is_day)
    ends = [_times(a, b if sign == "*" else 1 / b) for a in left for b in right]
    fixed = Quantity(value=value, fixed=(min(ends), max(ends)), least=quantity.least, most=quantity.most)
    return estimate(fixed, level)


def _without(value: float, level: float, reason: Text, is_day: bool = False) -> Estimate:
    return Estimate(
        value=value, low=math.nan, high=math.nan, level=level, noise_deviation=math.nan, model_deviation=math.nan,
        inside_deviation=math.nan, reason=reason, is_day=is_day,
    )  # fmt: skip


def look_up_quantities(quantities: Sequence[Quantity], level: float) -> None:
    """Ask for what the intervals of many numbers need, all at once; `estimate` finds it then."""
    linear = [one for one in quantities if one.has_derivatives and one.reason is None]
    look_up([functional for one in linear for functional in one.parts])
    _look_up_combinations([one.parts for one in linear])
    unsure = [one for one in linear if one.ratio is not None and _is_unsure(one.ratio[1], level)]
    _look_up_combinations([side for one in unsure for side in _find_sides(one, _find_centre_variance(one))])


def _look_up_combinations(combinations: Sequence[Parts]) -> None:
    """Ask for linear combinations of sums over one release, those of a release together, and keep what it says."""
    wanted: dict[int, tuple[Axes, list[tuple[Any, Parts]]]] = {}
    for parts in combinations:
        axes = next(iter(parts)).axes if parts else None
        if axes is None or len(parts) < 2 or any(one.axes is not axes for one in parts):
            continue
        key = _key_of([(factor, functional) for functional, factor in parts.items()])
        if key not in axes.memo:
            wanted.setdefault(id(axes), (axes, []))[1].append((key, parts))
    for axes, several in wanted.values():
        rest = _look_up_shifts(axes, several)
        known = [(key, boxes) for key, _ in rest if (boxes := combine(key[1])) is not None]
        found = ask_all(axes, [boxes for _, boxes in known])
        for (key, boxes), moments in zip(known, found, strict=True):
            axes.memo[key] = _take_narrower(key[1], boxes, moments)


def _look_up_shifts(axes: Axes, several: Sequence[tuple[Any, Parts]]) -> list[tuple[Any, Parts]]:
    """Keep what a release can tell of numbers less their mean from their sums; the combinations that are left."""
    shifts = [(one, shift) for one in several if (shift := find_shift(one[1])) is not None]
    told = {id(one): moments for (one, _), moments in
            zip(shifts, ask_shifts(axes, [shift for _, shift in shifts]), strict=True)}  # fmt: skip
    rest = []
    for one in several:
        moments = told.get(id(one))
        if moments is None:
            rest.append(one)
        else:
            axes.memo[one[0]] = moments
    return rest


def _key_of(terms: Sequence[tuple[float, Functional]]) -> Any:
    return "combination", tuple(terms)


def moments_of(parts: Parts) -> Moments:
    """The errors of a linear combination of sums; the noise of different releases is independent."""
    if len(parts) == 1:
        ((functional, factor),) = parts.items()
        found = functional.moments
        return found if factor == 1.0 else found.times(factor)
    releases: dict[int, list[tuple[float, Functional]]] = {}
    for functional, factor in parts.items():
        releases.setdefault(id(functional.axes), []).append((factor, functional))
    found_all = [_moments_in_one(terms) for terms in releases.values()]
    return Moments(
        value=sum(found.value for found in found_all),
        noise=sum(found.noise for found in found_all),
        model=sum(found.model for found in found_all),
        inside=sum(found.inside for found in found_all),
        replicates=_fewest(found_all),
        below=sum(found.below for found in found_all),
        above=sum(found.above for found in found_all),
    )


def _fewest(moments: Sequence[Moments]) -> float | None:
    known = [found.replicates for found in moments if found.replicates is not None]
    return min(known, default=None)


def _moments_in_one(terms: list[tuple[float, Functional]]) -> Moments:
    known: Moments | None = terms[0][1].axes.memo.get(_key_of(terms))
    if known is not None:
        return known
    boxes = combine(terms)
    return _add_apart(terms) if boxes is None else _take_narrower(terms, boxes, ask(terms[0][1].axes, boxes))


def _take_narrower(terms: Sequence[tuple[float, Functional]], boxes: Sequence[PointBox], whole: Moments) -> Moments:
    """The errors of a sum over disjoint boxes, or of its terms one by one where these are fewer and sum up to less.

    The boxes of a combination over several attributes are many, and a model is supposed to err in all of them alike.
    """
    if len(boxes) <= len(terms):
        return whole
    apart = _add_apart(terms)
    return apart if apart.variance < whole.variance else whole


def _add_apart(terms: Sequence[tuple[float, Functional]]) -> Moments:
    """The moments of a linear combination as if all errors of its terms went together, which is never too narrow."""
    every = [(factor, functional.moments) for factor, functional in terms]
    noise, model, inside = (
        sum(abs(factor) * math.sqrt(getattr(moments, name)) for factor, moments in every) ** 2
        for name in ("noise", "model", "inside")
    )
    value = sum(factor * moments.value for factor, moments in every)
    replicates = _fewest([moments for _, moments in every])
    return Moments(value=value, noise=noise, model=model, inside=inside, replicates=replicates)


def _with_fieller(found: Estimate, quantity: Quantity, level: float) -> Estimate:
    """Where the divisor of a ratio is not sure: all r for which numerator - r * denominator may be 0.

    With C = A - r0 B for the estimate r0 and d = r - r0:  d^2 b^2 <= z^2 (V_CC - 2 d V_CB + d^2 V_BB).
    """
    if quantity.ratio is None or not _is_unsure(quantity.ratio[1], level):
        return found
    top, bottom = quantity.ratio
    below = moments_of(bottom.parts)
    r = top.value / bottom.value
    v_cc, v_bb = _find_centre_variance(quantity), below.variance
    weight = _find_side_weight(v_cc, v_bb)
    sides = [moments_of(parts).variance for parts in _find_sides(quantity, v_cc)]
    v_cb = (sides[0] - sides[1]) / (4 * weight)  # both are questions of one kind, so that no scale of a kind stays
    v_cb = max(-1.0, min(1.0, v_cb / math.sqrt(v_cc * v_bb))) * math.sqrt(v_cc * v_bb) if v_cc * v_bb > 0 else 0.0
    z2 = below.reach(level) ** 2 / v_bb if v_bb > 0 else 0.0
    a, b, c = bottom.value**2 - z2 * v_bb, z2 * v_cb, -z2 * v_cc
    low, high = quantity.least, quantity.most
    if a > 0:
        root = math.sqrt(max(b * b - a * c, 0.0))
        ends = sorted(quantity.scale * (r + (-b + turn * root) / a) for turn in (-1.0, 1.0))
        low, high = max(low, ends[0]), min(high, ends[1])
    elif not (math.isfinite(low) and math.isfinite(high)):
        return _without(found.value, level, DIVISOR_MAY_BE_0)
    return replace(found, low=min(low, found.value), high=max(high, found.value))


def _is_unsure(divisor: LinearSum, level: float) -> bool:
    return moments_of(divisor.parts).reach(level) ** 2 > UNSURE_DIVISOR * divisor.value**2


def _find_centre_variance(quantity: Quantity) -> float:
    """The variance of A - r0 B of a ratio: the ratio itself is that, times its scale over B."""
    if quantity.ratio is None or not quantity.scale:
        return 0.0
    return moments_of(quantity.parts).variance * (quantity.ratio[1].value / quantity.scale) ** 2


def _find_sides(quantity: Quantity, of_centre: float) -> list[dict[Functional, float]]:
    """What lies on both sides of A - r0 B: the difference of their variances tells how it goes together with B."""
    if quantity.ratio is None:
        raise AssertionError("a ratio has both of its parts")
    top, bottom = quantity.ratio
    centre = _minus(top.parts, bottom.parts, top.value / bottom.value)
    weight = _find_side_weight(of_centre, moments_of(bottom.parts).variance)
    return [_minus(centre, bottom.parts, turn * weight) for turn in (-1.0, 1.0)]


def _find_side_weight(of_centre: float, of_bottom: float) -> float:
    return math.sqrt(of_centre / of_bottom) if of_centre > 0 and of_bottom > 0 else 1.0


def _minus(first: Parts, second: Parts, factor: float) -> dict[Functional, float]:
    found = dict(first)
    for functional, part in second.items():
        found[functional] = found.get(functional, 0.0) - factor * part
    return found
