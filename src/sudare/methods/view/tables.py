"""What a view answers: a number, an interval and its level, and which part of it is noise and which is the model."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sudare.asking.protocol import Moments
from sudare.methods.view.exam import CLASSES, class_of, scale_moments
from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.leaves import InsideError, LeafAxis, LeafWeights, MeanWeights
from sudare.methods.view.products import Message, weigh_all
from sudare.methods.view.repeated import RepeatedBoxes
from sudare.methods.view.weighted import WeightedRecords
from sudare.schema import Schema
from sudare.schema.arrays import Booleans, Codes, Reals

# attribute -> the weights of its leaves, or a weight for each of its declared codes; attributes not named weigh 1
AxisWeights = Mapping[int, Reals | LeafWeights | MeanWeights]


# A view made of tables: the model's and the product's. Holds public numbers only.


HELD_PAIR_ERROR = (
    0.1  # of tau^2: what a pair that a clique holds may still be off, by its coarse bins and by third attributes
)


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
        return self._all_records if len(boxes) == 1 and not boxes[0] else self._estimate(boxes)

    @cached_property
    def _all_records(self) -> Moments:
        """How many records there are: what most statements ask about too, for a bound."""
        return self._estimate([{}])

    def _estimate(self, boxes: Sequence[AxisWeights]) -> Moments:
        sums = np.zeros(self.factors.versions)
        model, hidden, least, inside, below, above = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        restricted: set[int] = set()
        cells = 0
        for plain in boxes:
            box = {axis: self._prepare(axis, weights) for axis, weights in plain.items()}
            answers, profiles = self._answer_box(box)
            sums = sums + answers
            is_plain = all(one.is_plain for one in box.values())
            least = max(least, self._least_noise(box, float(answers[0]) if is_plain else 0.0))
            hidden = max(hidden, self._faint_in(box) if self.faint else 0.0)
            in_box = self._inside(box, profiles, float(answers[0]))
            inside, below, above = inside + in_box.variance, below + in_box.below, above + in_box.above
            restricted |= {axis for axis, one in box.items() if one.is_restricting}
            cells += sum(one.noisy_cells for one in box.values())
            model += math.sqrt(self.factor * self.doubt({axis: one.doubted for axis, one in box.items()}))
        off = sums[1:] - sums[0]
        noise = float(off @ off) / off.size if off.size else 0.0
        found = Moments(
            value=float(sums[0]),
            noise=max(noise + hidden, least),
            model=model**2,
            inside=inside,
            replicates=self._count_degrees(cells),
            below=below,
            above=above,
        )
        scale = self.scales[class_of(restricted, self.known_pairs, holds_threes=self.holds_threes)]
        return scale_moments(found, scale)

    def _count_degrees(self, cells: int) -> float:
        """How many draws of the normal law tell as much about a variance as the replicates.

        The squares of two-sided geometric noise vary more than those of the normal law, the less the more cells are
        added up: with 1 + 1.5/cells times the variance.
        """
        draws = float(self.factors.versions - 1)
        return draws if self.is_gaussian or not cells else draws / (1 + HEAVY_TAILS / cells)

    def _prepare(self, axis: int, weights: Reals | LeafWeights | MeanWeights) -> PreparedAxis:
        """What follows from the weights of one attribute; kept, since groups share most of their attributes."""
        found = self._prepared.get((axis, id(weights)))
        if found is None:
            self._prepared_leaves[0] += self.axes[axis].size
            if self._prepared_leaves[0] > MOST_PREPARED:
                self._prepared.clear()
                self._prepared_leaves[0] = self.axes[axis].size
            found = self._prepared[axis, id(weights)] = PreparedAxis(self, axis, weights)
        return found

    @cached_property
    def _prepared(self) -> dict[tuple[int, int], PreparedAxis]:
        return {}

    @cached_property
    def _prepared_leaves(self) -> list[int]:
        return [0]

    def _answer_box(self, box: Mapping[int, PreparedAxis]) -> tuple[Reals, dict[int, Reals]]:
        """Count a box in every version; and the records of every bin of an attribute that is uneven inside its leaves.

        The bins of such an attribute are needed for the doubt inside its leaves, and the count is their weighted sum.
        """
        evidence = {axis: one.evidence for axis, one in box.items()}
        uneven = [axis for axis, one in box.items() if not one.is_even]
        shared = self._find_shared(evidence, uneven)
        if not uneven:
            found = self.merged.answer(evidence) if shared is None else weigh_all(*shared, evidence)
            return self._add_records(found, evidence), {}
        first, profiles = uneven[0], dict[int, Reals]()
        for axis in uneven if shared is not None else uneven[:1]:
            others = {other: weights for other, weights in evidence.items() if other != axis}
            profiles[axis] = self.merged.profile(axis, others) if shared is None else weigh_all(*shared, others)
        answers = (profiles[first] * evidence[first]).sum(axis=1)
        return self._add_records(answers, evidence), {axis: lines[0] for axis, lines in profiles.items()}

    def _find_shared(self, evidence: Mapping[int, Reals], uneven: Sequence[int]) -> Message | None:
        """A table that holds what the count of a box shares with others, if there is one."""
        if len(evidence) < 2:
            return None
        attributes = frozenset(evidence)
        if self.merged.has_joint(attributes) or len(attributes) == 2:
            return self.merged.keep_joint(attributes) or self._repeated.find(evidence, set(uneven))
        repeated = self._repeated.find(evidence, set(uneven))  # first: a GROUP BY asks often, and then never again
        return repeated or self.merged.keep_joint(attributes)

    @cached_property
    def _repeated(self) -> RepeatedBoxes:
        return RepeatedBoxes(self.merged)

    def _add_records(self, answers: Reals, evidence: Mapping[int, Reals]) -> Reals:
        return answers if self.records is None else answers + self.records.answer(evidence)

    def _inside(self, box: Mapping[int, PreparedAxis], profiles: Mapping[int, Reals], value: float) -> InsideError:
        """What follows from not knowing where in its leaf a record lies, leaf by leaf, and what all leaves share."""
        variances, ends = list[float](), list[tuple[float, float]]()
        for axis, one in box.items():
            if one.is_even:
                continue
            profile = profiles.get(axis)
            if profile is None:
                others = {other: two.evidence[:1] for other, two in box.items() if other != axis}
                profile = self.first.profile(axis, others)[0]
            records = profile[self.bins[axis]] * self.shares[axis][0]
            weights, lumps = one.weights, self._find_lumps(axis)
            lumps = lumps if weights.heaps is None else np.maximum(weights.heaps, lumps)
            variance = float(((lumps * records) ** 2 + np.abs(records)) @ weights.inside)
            variances.append(variance + float(records @ weights.drift) ** 2)
            ends.append(weights.find_ends(records))
        is_count = len(ends) > 1 and all(one.weights.mean.min() >= 0 for one in box.values())
        return InsideError.join(variances, ends, value, is_count=is_count)

    def _find_lumps(self, axis: int) -> Reals:
        if axis not in self._lumps:
            self._lumps[axis] = self.axes[axis].find_lumps(self.count_leaves(axis))
        return self._lumps[axis]

    @cached_property
    def _lumps(self) -> dict[int, Reals]:
        return {}

    @cached_property
    def known_pairs(self) -> frozenset[tuple[int, int]]:
        """The pairs of attributes that a clique holds."""
        if self.records is not None:
            return frozenset(itertools.combinations(range(len(self.bins)), 2))
        cliques = self.factors.tree.cliques
        return frozenset(pair for clique in cliques for pair in itertools.combinations(clique, 2))

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
        d = len(self._parts)
        return 0 if self.records is not None else (d * d - sum(size * size for size in sizes)) // 2

    def doubt(self, spreads: Mapping[int, AxisSpread]) -> float:
        """The model's variance of a sum of products of weights, one of each attribute; before the exam's scale.

        What one attribute says was measured, so only what attributes do together can be off. Under independence a
        product of weights is made of parts: its mean, what single attributes add, what pairs add, and the rest. The
        part of a pair varies by Var(g) Var(h) times the squared means of the others. By so much, times the records,
        chance alone would move a sum whose margins are known; times tau^2, a pair that was not measured. A measured
        pair is known between coarse bins; within them attributes are supposed to depend on each other as much.
        """
        moving = sorted(axis for axis, one in spreads.items() if one.variance > 0)
        if len(moving) < 2:
            return 0.0
        means = {axis: one.mean**2 for axis, one in spreads.items()}
        rest = math.prod([one.mean**2 + one.variance for one in spreads.values()]) - math.prod(means.values())
        for axis in moving:
            rest -= spreads[axis].variance * math.prod([mean for other, mean in means.items() if other != axis])
        variance, unknown, pairs = 0.0, 0, list(itertools.combinations(moving, 2))
        for ends in pairs:
            others = math.prod([mean for other, mean in means.items() if other not in ends])
            first, second = (spreads[axis] for axis in ends)
            part = others * first.variance * second.variance
            is_known = ends in self.known_pairs
            between = others * first.between * second.between if is_known else 0.0
            within = self._doubt_within(ends) if is_known else self._doubt_pair(1.0)
            variance += between * self._doubt_pair(0.0) + (part - between) * within
            unknown, rest = unknown + (not is_known), rest - part
        return variance + max(0.0, rest) * self._doubt_pair(unknown / len(pairs))

    def _doubt_pair(self, unknown: float) -> float:
        return self.total + self.tau_squared * (HELD_PAIR_ERROR + (1 - HELD_PAIR_ERROR) * unknown)

    def _doubt_within(self, ends: tuple[int, int]) -> float:
        """The doubt about a measured pair within its coarse bins: as correlated as it is between them, on average.

        Chi-square over its degrees of freedom is the mean square of the correlations of all contrasts of two tables.
        """
        if ends not in self._within:
            table = self.first.joint(list(ends))[0]
            if self.records is not None:
                table = np.maximum(table + self.records.only(0).table(list(ends))[0], 0.0)
            expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(float(table.sum()), 1.0)
            is_some = expected > 0
            squares = float(((table - expected)[is_some] ** 2 / expected[is_some]).sum())
            free = max(1, (table.shape[0] - 1) * (table.shape[1] - 1))
            self._within[ends] = self._doubt_pair(0.0) + self.total * squares / free
        return self._within[ends]

    @cached_property
    def _within(self) -> dict[tuple[int, int], float]:
        return {}

    def _least_noise(self, box: Mapping[int, PreparedAxis], held: float) -> float:
        if not box:
            return 0.0
        masses = [one.mass for one in box.values()]
        share = held / max(self.total, 1.0)
        return self._hidden(masses, share) * math.prod([one.mean_square for one in box.values()])

    def _faint_in(self, box: Mapping[int, PreparedAxis]) -> float:
        """What faint leaves hide of the records that a question takes, by all of its attributes together.

        Every attribute weighs by its mean, and by what it hides; where several attributes came out as nearly nothing,
        each may hide some. Of the records that a leaf hides, a question about other attributes too takes its share, and
        chance moves it.
        """
        total, prepared = self.total, list(box.values())
        spreads = [one.spread for one in prepared]
        means = [spread.mean**2 for spread in spreads]
        hidden = [one.faint / max(total, 1.0) ** 2 for one in prepared]
        both = math.prod([mean + part for mean, part in zip(means, hidden, strict=True)]) - math.prod(means)
        if len(prepared) == 1:
            return max(0.0, both) * total**2
        squares, chance = [mean + spread.variance for mean, spread in zip(means, spreads, strict=True)], 0.0
        for place, one in enumerate(prepared):
            mean = math.prod([*means[:place], *means[place + 1 :]])
            square = math.prod([*squares[:place], *squares[place + 1 :]])
            chance += one.faint_roots * max(0.0, square - mean)
        return max(0.0, both) * total**2 + chance

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

    @cached_property
    def faint_roots(self) -> tuple[Reals, ...]:
        """About how many records every faint leaf hides."""
        return tuple(np.sqrt(faint) for faint in self.faint)

    def _hidden(self, masses: Sequence[float], share: float) -> float:
        """The least variance of a count: that of the rarest attribute's values, less where few of them lie in the box.

        The root of how many: where rare values of several attributes go together, more of them do than the model knows.
        """
        if not masses:
            return 0.0
        rarest = min(masses)
        inside = max(math.prod(masses), share) / rarest if rarest > 0 else 1.0
        return self.floor * math.sqrt(min(1.0, inside))

    def _answer_evidence(self, evidence: Mapping[int, Reals]) -> Reals:
        return self._add_records(self.merged.answer(evidence), evidence)

    def weigh_bins(self, attribute: int, weights: Reals) -> Reals:
        """The mean weight of every bin, (versions, bins)."""
        share = self.shares[attribute]
        cells = self._places[attribute]
        versions, width = share.shape[0], self.widths[attribute]
        sums = np.bincount(cells, weights=(share * weights).ravel(), minlength=versions * width)
        evidence: Reals = sums.astype(np.float64, copy=False).reshape(versions, width)
        return evidence

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many coarse bins every attribute has."""
        return tuple(int(bins.max()) + 1 for bins in self.bins)

    @cached_property
    def _places(self) -> list[Codes]:
        """The bin of every leaf in every version, in one line."""
        versions = np.arange(self.factors.versions)[:, None]
        return [(bins + width * versions).ravel() for bins, width in zip(self.bins, self.widths, strict=True)]

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


@dataclass(frozen=True, slots=True)
class AxisSpread:
    """The mean and the variance of what a question weighs the records with, by one attribute.

    `between`: the part of the variance that lies between coarse bins.
    """

    mean: float
    variance: float
    between: float


# What attributes do together mostly grows along their numbers: a sum sees all of such a trend, a box a part of it.
# By the normal law 1.6 (halves) to 3.5 (quarters) times the variance of a box; 1.8 was chosen by coverage of sums
# on tables of scikit-learn and pydataset (breast_cancer, diabetes, pbc, Mroz, MedExp).
TREND = 1.8
TREND_OF_MEANS = 1.2  # numbers less their mean lie on both sides of 0, and errors cancel in part
# Where pairs beyond a tree were measured, what three attributes do together is most of what is off: chosen on the
# made-up table `dense` of benchmarks/view_truth.py at epsilon 10.
TREND_BEYOND = 2.6
HEAVY_TAILS = 1.5  # (6 - 3)/2: half of how far the fourth moment of Laplace noise lies above that of the normal law
FEW_WEIGHTS = 8  # of leaves: 0 and 1, those of a share of a share, and leaves cut at either end
MOST_LOOKED_AT = 4096  # leaves
MOST_PREPARED = 2**18  # leaves whose weights are kept from one box to the next, with what follows from them


class PreparedAxis:
    """The weights of one attribute of a box, and what the errors need of them, each worked out once."""

    def __init__(self, view: TableView, axis: int, given: Reals | LeafWeights | MeanWeights) -> None:
        self.view, self.axis = view, axis
        self.given = given  # kept, so that its identity stays its own
        self.weights = view.axes[axis].read(given)
        mean = self.weights.mean
        self.is_even = not self.weights.inside.any() and not self.weights.drift.any()
        self.is_plain = self.is_even and bool(((mean == 0) | (mean == 1)).all())

    @cached_property
    def is_restricting(self) -> bool:
        """Tell whether some values weigh more than others."""
        return bool(self.weights.mean.min() < self.weights.mean.max())

    @cached_property
    def is_graded(self) -> bool:
        """Tell whether values weigh differently, as in sums; a count or share has few weights, and cut leaves."""
        mean = self.weights.mean
        if self.is_plain or np.count_nonzero((mean != 0) & (mean != 1)) <= FEW_WEIGHTS - 2:
            return False
        return int(np.unique(mean[:MOST_LOOKED_AT]).size) > FEW_WEIGHTS

    @cached_property
    def evidence(self) -> Reals:
        """The mean weight of every bin in every version."""
        return self.view.weigh_bins(self.axis, self.weights.mean)

    @cached_property
    def spread(self) -> AxisSpread:
        """The mean of the weights over the records, and their variance."""
        shares, masses = self.view.share_leaves(self.axis)
        weighed = shares * self.weights.mean
        mean = float(weighed.sum())
        if not self.is_restricting:
            return AxisSpread(mean, 0.0, 0.0)
        sums = np.bincount(self.view.bins[self.axis], weights=weighed, minlength=masses.size)
        between = float((sums**2 / masses).sum()) - mean**2
        variance = max(0.0, float(weighed @ self.weights.mean) - mean**2)
        return AxisSpread(mean, variance, min(variance, max(0.0, between)))

    @property
    def doubted(self) -> AxisSpread:
        """The spread that the model may err by: of numbers that are added up more, as they lie above or around 0."""
        spread = self.spread
        if not self.is_graded:
            return spread
        trend = TREND_OF_MEANS if self.weights.mean.min() < 0 < self.weights.mean.max() else TREND
        trend = trend if self.view.records is None else TREND_BEYOND
        return AxisSpread(spread.mean, trend * spread.variance, trend * spread.between)

    @cached_property
    def noisy_cells(self) -> int:
        """How many leaves a count adds up, or leaves out if these are fewer; all of them in sums."""
        if self.is_graded or not self.is_restricting:
            return self.weights.mean.size if self.is_graded else 0
        above = int(np.count_nonzero(self.weights.mean > (self.weights.mean.min() + self.weights.mean.max()) / 2))
        return max(1, min(above, self.weights.mean.size - above))

    @cached_property
    def farthest(self) -> Reals:
        """The weights; where a count cuts a leaf, that of the records that may all lie where it takes them."""
        mean, ends = self.weights.mean, self.weights.ends
        if ends is None or self.is_graded:
            return mean
        low, high = ends
        return np.where(high == low, mean, np.where(np.abs(high) < np.abs(low), low, high))

    @cached_property
    def mass(self) -> float:
        """The share of the records that weigh anything."""
        if self.is_plain:
            return self.spread.mean
        held = float(self.view.count_leaves(self.axis) @ (self.farthest != 0))
        return held / max(self.view.total, 1.0)

    @cached_property
    def mean_square(self) -> float:
        """The mean square weight of the records that weigh anything; a share is as unsure as the count it is of."""
        if self.is_plain and self.mass > 0:
            return 1.0
        if not self.is_graded or not self.mass > 0:
            return max(float(np.ptp(self.farthest)), float(np.abs(self.farthest).max())) ** 2
        return (self.spread.mean**2 + self.spread.variance) / self.mass

    @cached_property
    def _faint_weights(self) -> Reals:
        """What the records hidden in every faint leaf weigh: less the mean of its group, whose sum is known.

        Where most of the leaves that stand alone are taken, those left out tell as much.
        """
        mean, (alone, is_grouped, own, sizes) = self.farthest, self.view.find_groups(self.axis)
        weights = mean - (self.spread.mean if self.is_graded else 0.0)
        if self.is_plain and self._hide(mean, alone) > self._hide(1.0 - mean, alone):
            weights = mean - 1.0
        if own.size:
            centres = np.bincount(own, mean[is_grouped]) / sizes
            weights[is_grouped] = mean[is_grouped] - centres[own]
        return weights

    def _hide(self, weights: Reals, leaves: Booleans) -> float:
        return float(self.view.faint[self.axis][leaves] @ weights[leaves])

    @cached_property
    def faint(self) -> float:
        """What the noise of faint leaves hides."""
        return float(self.view.faint[self.axis] @ self._faint_weights**2)

    @cached_property
    def faint_roots(self) -> float:
        """About how many records faint leaves hide, times their square weights."""
        return float(self.view.faint_roots[self.axis] @ self._faint_weights**2)
