"""The leaves of an attribute: the finest parts that a view knows, and what a question weighs them with.

A leaf is a declared value, or a part of a declared bin of numbers or days. Nobody knows where in its leaf a record
lies, unless the schema declares a grain: then numbers are multiples of it. `LeafAxis.weigh` turns a question into the
mean weight of every leaf and the variance of that mean for not knowing: the part of an interval named "inside".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from sudare.asking.cut_bins import ALL_ON_ONE_SIDE, STEP_BEND, WHOLE, find_lumps
from sudare.schema import Attribute, DateBins, NumberBins, Schema
from sudare.schema.arrays import Booleans, Codes, Reals

# (low, high, c0, c1, c2): the weight c0 + c1 x + c2 x^2 of the numbers from low on and below high; None: no end
WeightPiece = tuple[Fraction | None, Fraction | None, float, float, float]

SUPPOSED_SHIFT = 0.25  # of the grain: numbers supposed to be whole may lie anywhere above, half a grain on average
COMMON_SHIFT = 0.1  # of the width of a leaf: how far off the means of all leaves may be together, by rounding
LEAST_HEAP = 0.3  # of a leaf without a grain: what may lie where it is cut, if the question is finer than the numbers
MOST_PLACES = 1000  # that the numbers of a leaf are rounded to
ROUND_PLACES = 2  # that numbers with a grain are supposed to be rounded to in a leaf: its start and its middle
FEW_PLACES = (0.0, 1 / 3, 1 / 2, 2 / 3, 1.0)  # of a leaf, with so few of them that a place has more than LEAST_HEAP
STANDS_OUT = 2.0  # times as dense as both neighbours: from there on a leaf holds a heap
ROUND = 5  # widths of a leaf, of which the start of a leaf is a multiple if it is rounder than others
FEW_HEAPS = 4.0  # that begin as round as chance has it are supposed beside those of an attribute
SHIFT_DEVIATION = 0.2  # of the grain: 95 % reach from whole numbers to numbers spread evenly
MOST_FINE_CELLS = 100_100  # of one attribute: what a source is asked to tell apart
MOST_FINE_CELLS_TOGETHER = 400_000
MOST_FINE_CELLS_OF_REALS = 4_000  # numbers without a grain: engines compare them with every edge
FEWEST_FINE_CELLS = 256  # of one attribute, however many there are


@dataclass(frozen=True, slots=True, eq=False)
class LeafWeights:
    """What a question weighs the leaves of an attribute with.

    `mean`: of the records of a leaf, taken as spread evenly over it. `inside`: the variance of that mean if they lie
    together at one place, as nobody knows where; independent from leaf to leaf. `drift`: a deviation that all share.
    `heaps`: the least share of the records of a leaf that may lie at one place, however dense its neighbours are.
    `ends`: between what weights every leaf has; None: it is not known. `cut`: the leaves whose values weigh 0 or 1, all
    others weighing one of these as a whole; None: not so, or not known.
    """

    mean: Reals
    inside: Reals
    drift: Reals
    heaps: Reals | None = None
    ends: tuple[Reals, Reals] | None = None
    cut: Sequence[int] | None = None

    @classmethod
    def plain(cls, mean: Reals) -> LeafWeights:
        """Weigh whole leaves: nothing inside them matters."""
        none = np.zeros(mean.size)
        return cls(mean, none, none)

    def settle(self, heaped: Reals) -> LeafWeights:
        """Weigh the heaps of leaves, which lie at their start, by what the start weighs, where a leaf is cut there.

        `heaped`: the share of the records of every leaf that are a heap. What is known of the ends does not change.
        """
        if self.heaps is None or self.ends is None:
            return self
        places = [leaf for leaf in np.flatnonzero(self.heaps == 1.0).tolist() if heaped[leaf] > 0]
        if not places:
            return self
        low, high = (end[places] for end in self.ends)
        mean, own = self.mean.copy(), self.mean[places]
        at_start = np.where(own - low < high - own, high, low)  # hardly any of the leaf is on the side of its start
        mean[places] = own + heaped[places] * (at_start - own)
        return replace(self, mean=mean)

    @property
    def is_even(self) -> bool:
        """Tell whether nothing depends on where in its leaf a record lies."""
        return not self.inside.any() and (self.drift is self.inside or not self.drift.any())

    @property
    def is_plain(self) -> bool:
        """Tell whether leaves are taken whole, or not at all."""
        return self.is_even and bool(np.all((self.mean == 0) | (self.mean == 1)))


def judge_inside(weights: Sequence[LeafWeights], records: Reals, lumps: Reals) -> tuple[list[float], ...]:
    """The variance for what lies inside leaves with so many records, (rows, leaves); how far down and up it can lead.

    `lumps`: the share of the records of every leaf that may lie at one place.
    """
    if len(weights) == 1:
        return tuple([number] for number in _judge_one(weights[0], records[0], lumps))
    inside, drift = _stack([one.inside for one in weights]), _stack([one.drift for one in weights])
    if any(one.heaps is not None for one in weights):
        lumps = _stack([lumps if one.heaps is None else np.maximum(one.heaps, lumps) for one in weights])
    together = (lumps * records) ** 2 + np.abs(records)
    variance = (together * inside).sum(axis=1) + (records * drift).sum(axis=1) ** 2
    below, above = np.full(len(weights), math.inf), np.full(len(weights), math.inf)
    known = [row for row, one in enumerate(weights) if one.ends is not None]
    if known:
        ends = [weights[row].ends or () for row in known]
        held = records if len(known) == len(weights) else records[known]
        mean = _stack([weights[row].mean for row in known])
        low, high = (held * (_stack(end) - mean) for end in zip(*ends, strict=True))
        below[known], above[known] = -np.minimum(low, high).sum(axis=1), np.maximum(low, high).sum(axis=1)
    return variance.tolist(), below.tolist(), above.tolist()


def _judge_one(weights: LeafWeights, records: Reals, lumps: Reals) -> tuple[float, float, float]:
    """What `judge_inside` says of one row; a count that cuts few leaves asks about these alone."""
    mean, inside, drift, heaps, ends = weights.mean, weights.inside, weights.drift, weights.heaps, weights.ends
    if weights.cut and ends is not None and heaps is not None:
        places = list(weights.cut)
        mean, inside, drift, heaps = mean[places], inside[places], drift[places], heaps[places]
        records, lumps, ends = records[places], lumps[places], (ends[0][places], ends[1][places])
    held = (lumps if heaps is None else np.maximum(heaps, lumps)) * records
    variance = float((held * held + np.abs(records)) @ inside) + float(records @ drift) ** 2
    if ends is None:
        return variance, math.inf, math.inf
    low, high = records * (ends[0] - mean), records * (ends[1] - mean)
    return variance, -float(np.minimum(low, high).sum()), float(np.maximum(low, high).sum())


def _stack(rows: Sequence[Reals]) -> Reals:
    return rows[0][None] if len(rows) == 1 else np.stack(rows)


class InsideError(NamedTuple):
    """The variance for what lies inside leaves, and how far down and up it can lead at most."""

    variance: float
    below: float
    above: float

    @classmethod
    def join(
        cls, variances: Sequence[float], ends: Sequence[tuple[float, float]], value: float, *, is_count: bool
    ) -> InsideError:
        """What attributes that are cut do together, from what each does to a sum of this value."""
        return cls(_join_variances(variances, value if is_count else 0.0), *_join_ends(ends, value))


def _join_variances(variances: Sequence[float], value: float) -> float:
    """The variance of a count that several attributes cut, of which each alone makes it vary by so much.

    As of a product of independent factors; where a value is 0, or no count, the sum of their variances.
    """
    square = value * value
    if len(variances) < 2 or not square > 0:
        return sum(variances)
    return square * (math.prod(1 + variance / square for variance in variances) - 1)


def _join_ends(ends: Sequence[tuple[float, float]], value: float) -> tuple[float, float]:
    """How far a count can be moved down and up by all attributes together, each of which moves it by so much.

    What one takes away the others cannot, and what one adds they add to; only a sum above 0 can be told that way.
    """
    if not ends:
        return 0.0, 0.0
    if len(ends) == 1:
        return ends[0]
    if not value > 0 or any(down > value * (1 + 1e-9) for down, _ in ends):
        return math.inf, math.inf
    least = value * math.prod(max(0.0, 1 - down / value) for down, _ in ends)
    return value - least, value * (math.prod(1 + up / value for _, up in ends) - 1)


class MeanWeights(Protocol):
    """Weights of leaves given by their mean over each, the mean of their square, and between what they lie."""

    @property
    def mean(self) -> Reals:
        """The mean weight of every leaf."""

    @property
    def square(self) -> Reals:
        """The mean square weight of every leaf."""

    @property
    def low(self) -> Reals | None:
        """The least weight in every leaf; None: nothing is cut."""

    @property
    def high(self) -> Reals | None:
        """The largest weight in every leaf."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LeafAxis:
    """The leaves of one attribute, in the order of their declared codes.

    `lows` and `highs` are the ends [low, high) of the leaves that are numbers or days, which come first. `grain`: what
    numbers are multiples of, None if they lie anywhere. `is_supposed`: the grain was not declared, but all edges are
    whole numbers.
    """

    codes: Codes
    lows: tuple[Fraction, ...] = ()
    highs: tuple[Fraction, ...] = ()
    grain: Fraction | None = None
    is_supposed: bool = False

    @property
    def size(self) -> int:
        """Count the leaves."""
        return int(self.codes.size)

    @property
    def counted(self) -> int:
        """Count the leaves that are numbers or days."""
        return len(self.lows)

    @cached_property
    def starts(self) -> Reals:
        """The lower ends as floats."""
        return np.array([float(low) for low in self.lows])

    @cached_property
    def stops(self) -> Reals:
        """The upper ends as floats."""
        return np.array([float(high) for high in self.highs])

    @cached_property
    def is_number(self) -> Booleans:
        """Which leaves hold numbers or days."""
        return np.arange(self.size) < self.counted

    @cached_property
    def _points(self) -> tuple[Reals, Reals]:
        """The first multiple of the grain in every leaf, and how many there are (at least one)."""
        grain = float(self.grain or 0)
        first = np.ceil(self.starts / grain - 1e-9)
        return first, np.maximum(np.ceil(self.stops / grain - 1e-9) - first, 1.0)

    def select(self, codes: Iterable[int]) -> LeafWeights:
        """Weigh the leaves of some declared codes by 1."""
        wanted = np.fromiter(codes, dtype=np.int64)
        return LeafWeights.plain(np.isin(self.codes, wanted).astype(np.float64))

    def read(self, weights: Reals | LeafWeights | MeanWeights) -> LeafWeights:
        """Weigh leaves as their declared codes are weighed, or by means and mean squares over the leaves.

        Where a condition cuts a leaf its weight has a step, and all records may lie on one side of it.
        """
        if isinstance(weights, LeafWeights):
            return weights
        if isinstance(weights, np.ndarray):
            return LeafWeights.plain(weights[self.codes])
        mean, square = weights.mean, weights.square
        if square is mean and weights.low is not None and weights.high is not None:
            return self._read_count(mean, weights.low, weights.high)
        low, high = (mean if end is None else end for end in (weights.low, weights.high))
        width, above = high - low, mean - low
        variance = np.maximum(square - mean**2, 0.0)
        is_cut = (above > WHOLE * width) & (above < (1 - WHOLE) * width)
        is_step = is_cut & (above * (width - above) - variance < STEP_BEND * width**2)
        inside = np.where(is_step, ALL_ON_ONE_SIDE * width**2, variance)
        is_count = np.array_equal(square, mean)  # the weight of a value is 0 or 1: it has steps, and no slope
        found = self._shift(mean, inside, np.zeros(self.counted) if is_count else self._slopes(mean))
        slopes = np.where(is_step, 0.0, COMMON_SHIFT * np.sqrt(12 * variance))
        heaps = self._find_heaps(is_step, above, width)
        is_known = weights.low is not None and weights.high is not None and (is_count or not self.is_supposed)
        return LeafWeights(found.mean, found.inside, found.drift + slopes, heaps, (low, high) if is_known else None)

    def _find_heaps(self, is_step: Booleans, above: Reals, width: Reals) -> Reals:
        """How much of every cut leaf may lie exactly where it is cut: numbers without a grain are often rounded.

        People ask with numbers that occur, or rounder ones. So if numbers are rounded, where the leaf is cut is one of
        the places that they are rounded to, and there are at least as many in the leaf as the denominator of the share
        that is cut off says: 1 at its end, 10 at three tenths of it.
        """
        heaps = np.zeros(is_step.size)
        for leaf in np.flatnonzero(is_step).tolist():
            heaps[leaf] = self._find_heap(leaf, float(above[leaf] / width[leaf]))
        return heaps

    def _find_heap(self, leaf: int, share: float) -> float:
        """How much of a leaf may lie where a share of it is cut off, if its numbers are rounder than their grain.

        Numbers with a grain are rounded in all leaves alike only if all begin at round ones, such as `[50, 60)`: there
        half of all ratings may be exactly 50, and the neighbours are as dense. Else heaps stand out of their leaves.
        """
        if self.grain is None:
            return _find_heap(share)
        round_step = ROUND * self.grain
        if leaf >= self.counted or self.lows[leaf] % round_step or (self.highs[leaf] - self.lows[leaf]) % round_step:
            return 0.0
        points = int((self.highs[leaf] - self.lows[leaf]) / self.grain)
        taken = round(share * points)
        places = (Fraction(place, points) for place in (taken, taken - 1, points - taken, points - taken - 1))
        return max((1 / place.denominator for place in places if place.denominator <= ROUND_PLACES), default=0.0)

    def _read_count(self, mean: Reals, low: Reals, high: Reals) -> LeafWeights:
        """Weights of 0 and 1, as `read` takes them: only the few leaves that are cut hide anything."""
        cut = [] if high is low else np.flatnonzero(high != low).tolist()
        if not cut:
            return LeafWeights(mean, self._nothing, self._nothing, cut=())
        inside, drift, heaps = np.zeros(self.size), np.zeros(self.size), np.zeros(self.size)
        for leaf in cut:
            above = float(mean[leaf])
            variance = max(above - above**2, 0.0)
            is_step = WHOLE < above < 1 - WHOLE and above * (1 - above) - variance < STEP_BEND
            inside[leaf] = ALL_ON_ONE_SIDE if is_step else variance
            drift[leaf] = 0.0 if is_step else COMMON_SHIFT * math.sqrt(12 * variance)
            heaps[leaf] = self._find_heap(leaf, above) if is_step else 0.0
        return LeafWeights(mean, inside, drift, heaps, (low, high), cut)

    @cached_property
    def _nothing(self) -> Reals:
        return np.zeros(self.size)

    def find_lumps(self, counts: Reals) -> Reals:
        """The share of the records of every leaf that may lie at one place: see `asking.cut_bins`.

        A count that cuts a leaf of numbers without a grain supposes more, since they may be rounded: see `_find_heaps`.
        """
        lumps = np.ones(self.size)
        lumps[: self.counted] = find_lumps(counts[: self.counted], self.stops - self.starts)
        return lumps

    def find_heaped(self, shares: Reals) -> Reals:
        """The share of the records of every leaf that are supposed to lie at its start: numbers are often rounded.

        A leaf without a grain holds a heap as far as it is more than twice as dense as the denser of its neighbours,
        and wholly where they are empty. Heaps at any place begin one leaf in ROUND at a multiple of ROUND times its
        width; if most do, numbers are rounded, and the heap of such a leaf lies at its start.
        """
        heaped, counted = np.zeros(self.size), np.maximum(shares[: self.counted], 0.0)
        if self.grain is not None or self.counted < 2:
            return heaped
        widths = np.maximum(self.stops - self.starts, np.finfo(float).tiny)
        density = counted / widths
        beside = np.maximum(np.append(0.0, density[:-1]), np.append(density[1:], 0.0))
        explained = np.where(density > 0, beside / np.where(density > 0, density, 1.0), 1.0)
        heaps = np.clip(1.0 - STANDS_OUT * explained, 0.0, 1.0)
        steps = self.starts / (ROUND * widths)
        is_round = np.abs(steps - np.rint(steps)) < 1e-6 * np.maximum(1.0, np.abs(steps))
        heaped[: self.counted] = heaps * is_round * _find_rounded(heaps * counted, is_round)
        return heaped

    def _slopes(self, mean: Reals) -> Reals:
        """How steep weights are around every leaf; jumps where a condition ends are none."""
        slopes = np.zeros(self.counted)
        if self.is_supposed and self.counted > 1 and not np.all((mean == 0) | (mean == 1)):
            middle = (self.starts + self.stops) / 2
            steps = np.diff(mean[: self.counted]) / np.diff(middle)
            left, right = np.append(steps[:1], steps), np.append(steps, steps[-1:])
            slopes = np.where(np.abs(left) < np.abs(right), left, right)
        return slopes

    def _shift(self, mean: Reals, inside: Reals, slope: Reals) -> LeafWeights:
        """Allow for numbers that are supposed to be multiples of the grain, and may lie anywhere between."""
        drift, mean = np.zeros(self.size), mean.copy()
        if self.is_supposed and self.grain is not None:
            mean[: self.counted] += SUPPOSED_SHIFT * float(self.grain) * slope
            drift[: self.counted] = SHIFT_DEVIATION * float(self.grain) * slope
        return LeafWeights(mean, inside, drift)

    def weigh(self, pieces: Sequence[WeightPiece]) -> LeafWeights:
        """Weigh numbers by disjoint pieces of a function, and all else by 0.

        A leaf that one piece holds has the variance of the weight over the leaf, all
        its records being at one place of it that may be anywhere; where pieces begin or end inside, the worst case.
        """
        size, counted = self.size, self.counted
        mean, square = np.zeros(size), np.zeros(size)
        least, most, held = np.full(counted, np.inf), np.full(counted, -np.inf), np.zeros(counted)
        slope = np.zeros(counted)
        for low, high, *coefficients in pieces:
            share, low_weight, high_weight, first, second, steep = self._piece(low, high, coefficients)
            mean[:counted] += share * first
            square[:counted] += share * second
            held += share
            is_in = share > 0
            least[is_in] = np.minimum(least, np.minimum(low_weight, high_weight))[is_in]
            most[is_in] = np.maximum(most, np.maximum(low_weight, high_weight))[is_in]
            slope += share * steep
        is_cut = (held > 1e-12) & (held < 1 - 1e-9)
        least, most = np.where(is_cut, np.minimum(least, 0.0), least), np.where(is_cut, np.maximum(most, 0.0), most)
        inside = np.zeros(size)
        width = np.where(held > 0, most - least, 0.0)
        even = np.maximum(square[:counted] - mean[:counted] ** 2, 0.0)
        inside[:counted] = np.where(is_cut, ALL_ON_ONE_SIDE * width**2, even)
        return self._shift(mean, inside, slope)

    def _piece(
        self, low: Fraction | None, high: Fraction | None, coefficients: Sequence[float]
    ) -> tuple[Reals, Reals, Reals, Reals, Reals, Reals]:
        """Of every leaf: the share that lies in a piece, the weights at its ends, its mean, mean square and slope."""
        start = self.starts if low is None else np.maximum(self.starts, float(low))
        stop = self.stops if high is None else np.minimum(self.stops, float(high))
        if self.grain is not None:
            grain = float(self.grain)
            first, points = self._points
            begin = np.maximum(np.ceil(start / grain - 1e-9), first)
            count = np.clip(np.ceil(stop / grain - 1e-9) - begin, 0.0, points)
            share, bottom, top = count / points, begin * grain, (begin + np.maximum(count, 1.0) - 1) * grain
            spread = (np.maximum(count, 1.0) ** 2 - 1) * grain**2 / 12
        else:
            span = self.stops - self.starts
            share = np.clip(stop - start, 0.0, None) / np.where(span > 0, span, 1.0)
            bottom, top = start, np.maximum(stop, start)
            spread = (top - bottom) ** 2 / 12
        constant, linear, quadratic = coefficients
        middle = (bottom + top) / 2
        mean = constant + linear * middle + quadratic * (middle**2 + spread)
        steep = linear + 2 * quadratic * middle
        low_weight, high_weight = (constant + linear * end + quadratic * end**2 for end in (bottom, top))
        return share, low_weight, high_weight, mean, mean**2 + steep**2 * spread, steep


def _find_rounded(records: Reals, is_round: Booleans) -> float:
    """How likely the heap of a leaf with a round start lies there, by the records of all heaps of an attribute.

    0 unless at least half of them are rounded, beside FEW_HEAPS that lie anywhere.
    """
    if not records.any():
        return 0.0
    number = float(records.sum() ** 2 / (records @ records))  # of heaps, if all were as large as the largest ones
    share = float(records[is_round].sum() / records.sum())
    share = (number * share + FEW_HEAPS / ROUND) / (number + FEW_HEAPS)
    rounded = max(0.0, (share - 1 / ROUND) / (1 - 1 / ROUND))
    return rounded / (rounded + (1 - rounded) / ROUND) if rounded >= 0.5 else 0.0


def _find_heap(share: float) -> float:
    """How much of a leaf may lie where a share of it is cut off."""
    if all(abs(share - place) > 1 / MOST_PLACES for place in FEW_PLACES):
        return LEAST_HEAP  # the nearest place is one of more than three, which is worked out in vain
    return max(LEAST_HEAP, 1 / Fraction(share).limit_denominator(MOST_PLACES).denominator)


# --- axes of a schema -------------------------------------------------------------------------------------------------


def find_ends(attribute: Attribute) -> tuple[Fraction, ...] | None:
    """Where the bins of a number or date begin, and where the last one ends; days and whole numbers are counted."""
    domain = attribute.domain
    if isinstance(domain, DateBins):
        days = tuple(Fraction(edge.toordinal()) for edge in domain.edges)
        return (*days[:-1], days[-1] + 1)
    if not isinstance(domain, NumberBins):
        return None
    edges, grain = domain.edges, find_grain(attribute)[0]
    if grain is None:
        return edges
    has_none = math.ceil(edges[-2] / grain) * grain >= edges[-1]  # the last edge is the only value of the last bin
    return (*edges[:-1], edges[-1] + grain) if has_none or domain.widest > grain else edges


def find_grain(attribute: Attribute) -> tuple[Fraction | None, bool]:
    """What numbers or days are multiples of, and whether that is only supposed: all edges are whole numbers."""
    domain = attribute.domain
    if isinstance(domain, DateBins):
        return Fraction(1), False
    if attribute.grain is not None or not isinstance(domain, NumberBins):
        return attribute.grain or None, False
    return (Fraction(1), True) if domain.is_whole else (None, False)


def declared_axis(attribute: Attribute) -> LeafAxis:
    """The declared values as leaves."""
    return make_axis(attribute, np.arange(attribute.size, dtype=np.int64), find_ends(attribute) or ())


def make_axis(attribute: Attribute, codes: Codes, ends: Sequence[Fraction]) -> LeafAxis:
    """Leaves with these declared codes, numbers or days first, cut at these ends."""
    grain, is_supposed = find_grain(attribute)
    return LeafAxis(codes=codes, lows=tuple(ends[:-1]), highs=tuple(ends[1:]), grain=grain, is_supposed=is_supposed)


# --- cutting declared bins finer, from public facts -------------------------------------------------------------------


def cut_schema(schema: Schema) -> Schema | None:
    """The schema with numbers and days cut as fine as a source is asked to count; None if nothing can be cut."""
    most = MOST_FINE_CELLS_TOGETHER // len(schema.attributes)
    limit = min(MOST_FINE_CELLS, max(FEWEST_FINE_CELLS, most))
    attributes = tuple(_cut_attribute(attribute, limit) for attribute in schema.attributes)
    if attributes == schema.attributes:
        return None
    return Schema(
        name=schema.name,
        unit=schema.unit,
        attributes=attributes,
        identifiers=schema.identifiers,
        impossible=schema.impossible,
        origin=schema.origin,
    )


def _cut_attribute(attribute: Attribute, limit: int) -> Attribute:
    domain = attribute.domain
    fine: NumberBins | DateBins
    if isinstance(domain, NumberBins):
        edges = _cut_numbers(domain, find_grain(attribute)[0], limit)
        fine = NumberBins(edges)
    elif isinstance(domain, DateBins):
        fine = _cut_days(domain, limit)
    else:
        return attribute
    if fine.size <= domain.size:
        return attribute
    return Attribute(
        name=attribute.name,
        domain=fine,
        role=attribute.role,
        missing=attribute.missing,
        missing_marks=attribute.missing_marks,
        outside=attribute.outside,
        date_format=attribute.date_format,
        number_format=attribute.number_format,
        from_data=attribute.from_data,
        grain=attribute.grain,
    )


def _cut_days(domain: DateBins, limit: int) -> DateBins:
    first, last = domain.edges[0].toordinal(), domain.edges[-1].toordinal()
    days = last + 1 - first
    if days > limit or days <= domain.size:
        return domain
    return DateBins((*(date.fromordinal(day) for day in range(first, last + 1)), domain.edges[-1]))


def _cut_numbers(domain: NumberBins, grain: Fraction | None, limit: int) -> tuple[Fraction, ...]:
    """Cut at multiples of a round step, 1, 2 or 5 times a power of ten (of the grain), and at the declared edges."""
    edges = domain.edges
    step, factors = _first_step(domain, grain), (2, Fraction(5, 2), 2)  # 1, 2, 5, 10, ...
    turn, most = 0, limit if grain is not None else min(limit, MOST_FINE_CELLS_OF_REALS)
    while (edges[-1] - edges[0]) / step > max(1, most - domain.size):
        step, turn = step * factors[turn % 3], turn + 1
    first, last = math.ceil(edges[0] / step), math.ceil(edges[-1] / step)
    unit = math.lcm(step.denominator, *(edge.denominator for edge in edges))
    stride, ends = int(step * unit), [int(edge * unit) for edge in edges]
    inner = [place * stride for place in range(first, last) if ends[0] < place * stride < ends[-1]]
    cut = {Fraction(end, unit) for end in (*ends, *inner)}
    return tuple(sorted(cut | (find_heaps(edges, grain) if step != grain else set())))


def find_heaps(edges: Sequence[Fraction], grain: Fraction | None) -> set[Fraction]:
    """The ends of the cells of 0 and, without a grain, of the last edge: many records are often exactly there.

    Without a grain such a cell has next to no width of its own, and holds one number.
    """
    narrow = Fraction(10) ** (math.floor(math.log10(float(edges[-1] - edges[0])) + 1e-9) - 9)
    ends = {edges[-1] - narrow} if grain is None else set()
    if edges[0] <= 0 < edges[-1] - (grain or narrow):
        ends |= {Fraction(0), grain or narrow}
    return ends


def _first_step(domain: NumberBins, grain: Fraction | None) -> Fraction:
    if grain is not None:
        return grain
    narrowest = min(high - low for low, high in zip(domain.edges, domain.edges[1:], strict=False))
    power = math.floor(math.log10(float(narrowest)) + 1e-9) - 3
    return Fraction(10) ** power
