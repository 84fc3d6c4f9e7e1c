"""What a view answers: a number, an interval and its level, and which part of it is noise and which is the model."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sudare.asking.protocol import Moments, ShiftedSum
from sudare.methods.view.counted import BoxCounter
from sudare.methods.view.exam import CLASSES, class_of
from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.leaves import LeafAxis, LeafWeights, MeanWeights
from sudare.methods.view.prepared_axis import (
    TREND,
    TREND_BEYOND,
    TREND_OF_MEANS,
    AxisColumns,
    AxisSpread,
    LeafFacts,
    PreparedAxis,
    find_least,
    find_most,
)
from sudare.methods.view.weighted import WeightedRecords
from sudare.schema import Schema
from sudare.schema.arrays import Booleans, Codes, Reals

# attribute -> the weights of its leaves, or a weight for each of its declared codes; attributes not named weigh 1
AxisWeights = Mapping[int, Reals | LeafWeights | MeanWeights]


LEAST_MASS = 1e-300  # a share of the records, to divide by
HEAVY_TAILS = 1.5  # (6 - 3)/2: half of how far the fourth moment of Laplace noise lies above that of the normal law


# A view made of tables: the model's and the product's. Holds public numbers only.


HELD_PAIR_ERROR = 0.1  # of tau^2: what a measured pair may still be off, by its coarse bins and by third attributes


@dataclass(frozen=True, kw_only=True, eq=False)
class TableView:
    """Cliques over coarse bins, and the share of every leaf within its bin; version 0 is the estimate.

    `tau_squared`: see `uncertainty.model_error`; `scales`: what the exam says intervals must be multiplied by, class by
    class (`factor`: what earlier releases multiply the model's variance by). `floor`: a least variance of a count;
    values that came out as 0 hide noise that the replicates cannot show, and `faint` is what each leaf hides, `groups`
    the leaves that share out one known count (-1: alone): what they hide cannot change their sum.
    """

    schema: Schema
    axes: tuple[LeafAxis, ...]
    factors: Factors
    bins: tuple[Codes, ...]  # of every leaf
    shares: tuple[Reals, ...]  # (versions, leaves)
    tau_squared: float
    faint: tuple[Reals, ...] = ()
    groups: tuple[Codes, ...] = ()
    factor: float = 1.0
    scales: tuple[float, ...] = (1.0,) * len(CLASSES)
    floor: float = 0.0
    records: WeightedRecords | None = None  # where pairs beyond the tree were measured
    measured: tuple[tuple[int, int], ...] = ()  # pairs of attributes with a noisy table of their own
    is_gaussian: bool = False  # the law of the noise: normal, or two-sided geometric

    @cached_property
    def total(self) -> float:
        """How many records it holds."""
        return float(self.factors.totals[0])

    @cached_property
    def first(self) -> Factors:
        """The estimate without its replicates."""
        return self.merged.only(0)

    @cached_property
    def merged(self) -> Factors:
        """The model with as few cliques as hold it: questions are answered from these."""
        return self.factors.without_nested()

    def moments(self, boxes: Sequence[AxisWeights]) -> Moments:
        """Estimate a sum over disjoint boxes: noise from the replicates, the model's part as if boxes erred alike."""
        return self._all_records if len(boxes) == 1 and not boxes[0] else self.moments_of_all([boxes])[0]

    @cached_property
    def _all_records(self) -> Moments:
        """How many records there are: what most statements ask about too, for a bound."""
        return self.moments_of_all([[{}]])[0]

    def moments_of_all(self, questions: Sequence[Sequence[AxisWeights]]) -> list[Moments]:
        """Estimate many sums; what boxes of the same attributes share is worked out once."""
        return self._counter.moments_of_all(questions)

    def moments_of_shifts(self, sums: Sequence[ShiftedSum]) -> list[Moments | None]:
        """Estimate sums that follow from others just asked for; see `asking.protocol`."""
        return self._counter.moments_of_shifts(sums)

    @cached_property
    def _counter(self) -> BoxCounter:
        return BoxCounter(self)

    def find_scale(self, restricted: tuple[int, ...]) -> float:
        """What the exam says intervals of sums that restrict these attributes must be multiplied by."""
        scale = self._scales_of.get(restricted)
        if scale is None:
            scale = self.scales[class_of(frozenset(restricted), self.known_pairs, holds_threes=self.holds_threes)]
            self._scales_of[restricted] = scale
        return scale

    @cached_property
    def _scales_of(self) -> dict[tuple[int, ...], float]:
        return {}

    def count_degrees(self, cells: int) -> float:
        """How many draws of the normal law tell as much about a variance as the replicates.

        The squares of two-sided geometric noise vary more than those of the normal law, the less the more cells are
        added up: with 1 + 1.5/cells times the variance.
        """
        draws = float(self.factors.versions - 1)
        return draws if self.is_gaussian or not cells else draws / (1 + HEAVY_TAILS / cells)

    def find_facts(self, axis: int) -> LeafFacts:
        """What is known of the leaves of an attribute."""
        if axis not in self._facts:
            alone, is_grouped, own, sizes = self.find_groups(axis)
            shares, masses = self.share_leaves(axis)
            faint = self.faint[axis] if self.faint else np.zeros(shares.size)
            trends = (TREND, TREND_OF_MEANS) if self.records is None else (TREND_BEYOND, TREND_BEYOND)
            faint_alone = np.where(alone, faint, 0.0)
            heaped = self.axes[axis].find_heaped(shares)
            self._facts[axis] = LeafFacts(
                self.axes[axis], shares, masses, faint, np.sqrt(faint), faint_alone, float(faint_alone.sum()),
                np.flatnonzero(is_grouped), own, sizes, trends, heaped if heaped.any() else None,
            )  # fmt: skip
        return self._facts[axis]

    @cached_property
    def _facts(self) -> dict[int, LeafFacts]:
        return {}

    def find_lumps(self, axis: int) -> Reals:
        """The share of the records of every leaf of an attribute that may lie at one place."""
        if axis not in self._lumps:
            self._lumps[axis] = self.axes[axis].find_lumps(self.count_leaves(axis))
        return self._lumps[axis]

    @cached_property
    def _lumps(self) -> dict[int, Reals]:
        return {}

    @cached_property
    def known_pairs(self) -> frozenset[tuple[int, int]]:
        """The pairs of attributes that were measured; earlier releases do not tell them, and a clique holds these."""
        return frozenset(self.measured) if self.measured else self.held_pairs

    @cached_property
    def held_pairs(self) -> frozenset[tuple[int, int]]:
        """The pairs of attributes that a clique holds: some only because a junction tree needs them there."""
        if self.records is not None:
            return frozenset(itertools.combinations(range(len(self.bins)), 2))
        return frozenset(pair for clique in self.factors.tree.cliques for pair in itertools.combinations(clique, 2))

    @property
    def holds_threes(self) -> bool:
        """Whether three attributes of which each pair is known lie in one clique; pairs beyond the tree lie in none."""
        return self.records is None

    def find_independent(self, attributes: frozenset[int]) -> list[tuple[int, int]]:
        """The pairs of these attributes that no chain of tables links; all pairs were measured if there are records."""
        if self.records is not None:
            return []
        return [(a, b) for a, b in itertools.combinations(sorted(attributes), 2) if self._parts[a] != self._parts[b]]

    @cached_property
    def _parts(self) -> list[int]:
        return self.factors.tree.parts

    @property
    def independent_pairs(self) -> int:
        """How many pairs of attributes are supposed to be independent of each other."""
        sizes = Counter(self._parts).values()
        return 0 if self.records is not None else (len(self._parts) ** 2 - sum(size * size for size in sizes)) // 2

    def doubt(self, spreads: Mapping[int, AxisSpread]) -> tuple[Any, Any]:
        """The model's variance of a sum of products of weights, one of each attribute; before the exam's scale.

        Spreads are numbers, or one number a box each. Beside it: what of it is chance, of which no exam makes less.

        What one attribute says was measured, so only what attributes do together can be off. Under independence a
        product of weights is made of parts: its mean, what single attributes add, what pairs add, and the rest. The
        part of a pair varies by Var(g) Var(h) times the squared means of the others. By so much, times the records,
        chance alone would move a sum whose margins are known; times tau^2, a pair that was not measured. A measured
        pair is known between coarse bins; within them attributes are supposed to depend on each other as much.
        """
        axes = sorted(spreads)
        if len(axes) < 2:
            return 0.0, 0.0
        if all(isinstance(spreads[axis].mean, float) for axis in axes):
            return self._doubt_one(axes, [spreads[axis] for axis in axes])
        means = [spreads[axis].mean ** 2 for axis in axes]
        moves = [spreads[axis].variance > 0 for axis in axes]
        rest = math.prod([mean + spreads[axis].variance for mean, axis in zip(means, axes, strict=True)])
        rest = rest - math.prod(means)
        for place, axis in enumerate(axes):
            rest -= spreads[axis].variance * math.prod([*means[:place], *means[place + 1 :]])
        variance, unknown, pairs, chance = 0.0, 0.0, 0.0, 0.0
        for one, two in itertools.combinations(range(len(axes)), 2):
            both = moves[one] & moves[two]
            if not np.any(both):
                continue
            others = math.prod([*means[:one], *means[one + 1 : two], *means[two + 1 :]])
            ends, first, second = (axes[one], axes[two]), spreads[axes[one]], spreads[axes[two]]
            part = others * first.variance * second.variance
            is_known = ends in self.known_pairs
            between = others * first.between * second.between if is_known else 0.0
            within = self._doubt_within(ends) if is_known else self._doubt_pair(1.0)
            variance += between * self._doubt_pair(0.0) + (part - between) * within
            chance = chance if is_known else chance + part
            unknown, pairs, rest = unknown + (0.0 if is_known else both * 1.0), pairs + both * 1.0, rest - part
        rest = np.maximum(0.0, rest)
        left = rest * self._doubt_pair(unknown / np.maximum(pairs, 1.0))
        return np.where(pairs > 0, variance + left, 0.0), self.total * (chance + rest)

    def _doubt_one(self, axes: Sequence[int], spreads: Sequence[AxisSpread]) -> tuple[float, float]:
        """What `doubt` says of one box. `three`: what three and more attributes do together, added up as it grows."""
        moving = [place for place, spread in enumerate(spreads) if spread.variance > 0]
        none, one, two, three = 1.0, 0.0, 0.0, 0.0
        for mean, spread, _ in spreads:
            square = mean * mean
            three = three * (square + spread) + two * spread
            none, one, two = none * square, one * square + none * spread, two * square + one * spread
        variance, unknown, pairs, chance = 0.0, 0, 0, 0.0
        for first, second in itertools.combinations(moving, 2):
            others = math.prod([row.mean**2 for place, row in enumerate(spreads) if place not in (first, second)])
            ends, left, right = (axes[first], axes[second]), spreads[first], spreads[second]
            part, is_known = others * left.variance * right.variance, ends in self.known_pairs
            between = others * left.between * right.between if is_known else 0.0
            within = self._doubt_within(ends) if is_known else self._doubt_pair(1.0)
            variance += between * self._doubt_pair(0.0) + (part - between) * within
            unknown, pairs, chance = unknown + (not is_known), pairs + 1, chance + (0.0 if is_known else part)
        doubt = variance + three * self._doubt_pair(unknown / pairs) if pairs else 0.0
        return doubt, self.total * (chance + three)

    def _doubt_pair(self, unknown: Any) -> Any:
        return self.total + self.tau_squared * (HELD_PAIR_ERROR + (1 - HELD_PAIR_ERROR) * unknown)

    def _doubt_within(self, ends: tuple[int, int]) -> float:
        """The doubt about a measured pair within its coarse bins: as correlated as it is between them, on average.

        Chi-square over its degrees of freedom is the mean square of the correlations of all contrasts of two tables.
        """
        if ends not in self._within:
            table = self.first.joint(list(ends))[0]
            if self.records is not None:
                table = np.maximum(table + self.records.table(ends)[0], 0.0)
            expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(float(table.sum()), 1.0)
            is_some = expected > 0
            squares = float(((table - expected)[is_some] ** 2 / expected[is_some]).sum())
            free = max(1, (table.shape[0] - 1) * (table.shape[1] - 1))
            self._within[ends] = self._doubt_pair(0.0) + self.total * squares / free
        return self._within[ends]

    @cached_property
    def _within(self) -> dict[tuple[int, int], float]:
        return {}

    def find_least_noise(self, columns: Mapping[int, PreparedAxis | AxisColumns], held: Any) -> Any:
        """The least variance of a count: that of the rarest attribute's values, less where few of them lie in the box.

        The root of how many: where rare values of several attributes go together, more of them do than the model knows.
        """
        if not columns:
            return 0.0
        axes = list(columns.values())
        is_plain = math.prod([one.is_plain for one in axes])
        masses = [one.mass for one in axes]
        rarest, both = functools.reduce(find_least, masses), math.prod(masses)
        inside = find_most(both, is_plain * held / max(self.total, 1.0)) / find_most(rarest, LEAST_MASS)
        is_none = rarest <= 0
        least = self.floor * find_least(1.0, inside + is_none) ** 0.5
        return least * math.prod([one.mean_square for one in axes])

    def find_hidden(self, columns: Mapping[int, PreparedAxis | AxisColumns]) -> Any:
        """What faint leaves hide of the records that a question takes, by all of its attributes together.

        Every attribute weighs by its mean, and by what it hides; where several attributes came out as nearly nothing,
        each may hide some. Of the records that a leaf hides, a question about other attributes too takes its share, and
        chance moves it.
        """
        total, axes = self.total, list(columns.values())
        means = [one.spread.mean**2 for one in axes]
        hidden = [one.faint / max(total, 1.0) ** 2 for one in axes]
        both = math.prod([mean + part for mean, part in zip(means, hidden, strict=True)]) - math.prod(means)
        found = find_most(0.0, both) * total**2
        if len(axes) == 1:
            return found
        squares = [mean + one.spread.variance for mean, one in zip(means, axes, strict=True)]
        for place, one in enumerate(axes):
            mean = math.prod([*means[:place], *means[place + 1 :]])
            square = math.prod([*squares[:place], *squares[place + 1 :]])
            found = found + one.faint_roots * find_most(0.0, square - mean)
        return found

    def count_leaves(self, attribute: int) -> Reals:
        """How many records every leaf of an attribute has."""
        if attribute not in self._leaf_counts:
            bins = self.first.of([attribute])[0, self.bins[attribute]]
            self._leaf_counts[attribute] = bins * self.shares[attribute][0]
        return self._leaf_counts[attribute]

    @cached_property
    def _leaf_counts(self) -> dict[int, Reals]:
        return {}

    def share_leaves(self, attribute: int) -> tuple[Reals, Reals]:
        """The share of the records in every leaf of an attribute, and in every bin (1 where there are none)."""
        if attribute not in self._leaf_shares:
            shares = self.count_leaves(attribute) / max(self.total, 1.0)
            masses = np.bincount(self.bins[attribute], weights=shares, minlength=self.widths[attribute])
            self._leaf_shares[attribute] = shares, np.where(masses > 0, masses, 1.0)
        return self._leaf_shares[attribute]

    @cached_property
    def _leaf_shares(self) -> dict[int, tuple[Reals, Reals]]:
        return {}

    def find_groups(self, attribute: int) -> tuple[Booleans, Booleans, Codes, Codes]:
        """Which leaves stand alone, which share out one known count; the groups of these, and the sizes of all."""
        if attribute not in self._leaf_groups:
            groups = self.groups[attribute] if self.groups else np.full(self.axes[attribute].size, -1)
            alone = groups < 0
            own = groups[~alone]
            self._leaf_groups[attribute] = alone, ~alone, own, np.maximum(np.bincount(own), 1)
        return self._leaf_groups[attribute]

    @cached_property
    def _leaf_groups(self) -> dict[int, tuple[Booleans, Booleans, Codes, Codes]]:
        return {}

    def _answer_evidence(self, evidence: Mapping[int, Reals]) -> Reals:
        answers = self.merged.answer(evidence)
        return answers if self.records is None else answers + self.records.answer(evidence)

    def weigh_rows(self, attribute: int, weights: Reals) -> Reals:
        """The mean weight of every bin, (rows, versions, bins), of weights (rows, leaves)."""
        order, shares, starts = self._bin_order(attribute)
        laid = weights if order is None else weights[:, order]
        evidence: Reals = np.add.reduceat(laid[:, None, :] * shares, starts, axis=2)
        return evidence

    def _bin_order(self, attribute: int) -> tuple[Codes | None, Reals, Codes]:
        """An order of leaves in which those of a bin stand together, their shares, and where bins begin."""
        if attribute not in self._orders:
            bins = self.bins[attribute]
            order = np.argsort(bins, kind="stable").astype(np.int64)
            starts = np.searchsorted(bins[order], np.arange(self.widths[attribute])).astype(np.int64)
            is_sorted = bool((np.diff(order) > 0).all())
            self._orders[attribute] = None if is_sorted else order, self.shares[attribute][:, order], starts
        return self._orders[attribute]

    @cached_property
    def _orders(self) -> dict[int, tuple[Codes | None, Reals, Codes]]:
        return {}

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many coarse bins every attribute has."""
        return tuple(int(bins.max()) + 1 for bins in self.bins)

    def estimate(self) -> TableView:
        """The estimate alone: quicker where no interval is asked for."""
        records = None if self.records is None else self.records.only(0)
        shares = tuple(share[:1] for share in self.shares)
        return replace(self, factors=self.factors.only(0), shares=shares, records=records)

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes of codes without intervals."""
        return self.range_versions(lows, highs)[:, 0]

    def range_versions(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes of codes, (queries, versions): prefix sums of the shares within bins make the evidence."""
        tops = np.array(self.schema.sizes) - 1
        prefix: dict[int, Reals] = {}
        answers = np.empty((len(lows), self.factors.versions))
        for query, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
            restricted = [place for place, top in enumerate(tops) if low[place] > 0 or high[place] < top]
            for place in restricted:
                if place not in prefix:
                    prefix[place] = self._prefixes(place)
            answers[query] = self._answer_evidence(
                {place: prefix[place][high[place] + 1] - prefix[place][low[place]] for place in restricted}
            )
        return answers

    def _prefixes(self, attribute: int) -> Reals:
        """(declared codes + 1, versions, bins): how much of every bin lies below a code."""
        share, codes = self.shares[attribute], self.axes[attribute].codes
        shape = self.schema.sizes[attribute] + 1, share.shape[0], self.widths[attribute]
        below = np.zeros(shape)
        for version in range(share.shape[0]):
            np.add.at(below[:, version], (codes + 1, self.bins[attribute]), share[version])
        summed: Reals = below.cumsum(axis=0)
        return summed

    def range_moments(self, lows: Codes, highs: Codes) -> list[Moments]:
        """Estimate boxes of codes as a question of SQL would be: with the variances of their errors."""
        tops = np.array(self.schema.sizes) - 1
        found = []
        for low, high in zip(lows, highs, strict=True):
            box = {}
            for axis in np.flatnonzero((low > 0) | (high < tops)).tolist():
                codes = self.axes[axis].codes
                box[axis] = LeafWeights.plain(((codes >= low[axis]) & (codes <= high[axis])).astype(np.float64))
            found.append(self.moments([box]))
        return found

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, declared value by declared value."""
        places = [self.schema.position(name) for name in names]
        table = self.first.joint(places)[0]
        if self.records is not None:
            table = np.maximum(table + self.records.only(0).table(places)[0], 0.0)
        for axis, place in enumerate(places):
            members = np.zeros((self.schema.sizes[place], self.widths[place]))
            np.add.at(members, (self.axes[place].codes, self.bins[place]), self.shares[place][0])
            table = np.moveaxis(np.tensordot(members, table, axes=(1, axis)), 0, axis)
        whole: Reals = table
        return whole
