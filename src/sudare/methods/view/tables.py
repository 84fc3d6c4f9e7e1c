"""What a view answers: a number, an interval and its level, and which part of it is noise and which is the model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from sudare.asking.protocol import Moments
from sudare.methods.view.exam import CLASSES, class_of, scale_moments
from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.leaves import LeafAxis, LeafWeights, MeanWeights
from sudare.methods.view.residual import WeightedRecords
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Reals

# attribute -> the weights of its leaves, or a weight for each of its declared codes; attributes not named weigh 1
AxisWeights = Mapping[int, Reals | LeafWeights | MeanWeights]


class Stored(Protocol):
    """What any kind of view can do, be it made of tables or of blocks."""

    schema: Schema

    @property
    def axes(self) -> tuple[LeafAxis, ...]:
        """The leaves of every attribute."""

    @property
    def total(self) -> float:
        """How many records it holds."""

    def moments(self, boxes: Sequence[AxisWeights]) -> Moments:
        """Estimate the sum of the weights of all records over disjoint boxes."""

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes of codes, both ends included, without intervals."""

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, one axis each."""


# A view made of tables: the model's and the product's. Holds public numbers only.


HELD_PAIR_ERROR = (
    0.1  # of tau^2: what a pair that a clique holds may still be off, by its coarse bins and by third attributes
)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableView:
    """Cliques over coarse bins, and the share of every leaf within its bin; version 0 is the estimate.

    `tau_squared`: see `uncertainty.model_error`; `scales`: what the exam says intervals must be multiplied by, class by
    class (`factor`: what earlier releases multiply the model's variance by). `floor`: a least variance of a count;
    values that came out as 0 hide noise that the replicates cannot show, and `faint` is what each leaf hides.
    """

    schema: Schema
    axes: tuple[LeafAxis, ...]
    factors: Factors
    bins: tuple[Codes, ...]  # of every leaf
    shares: tuple[Reals, ...]  # (versions, leaves)
    tau_squared: float
    faint: tuple[Reals, ...] = ()
    factor: float = 1.0
    scales: tuple[float, ...] = (1.0,) * len(CLASSES)
    floor: float = 0.0
    records: WeightedRecords | None = None  # where pairs beyond the tree were measured

    @property
    def total(self) -> float:
        """How many records it holds."""
        return float(self.factors.totals[0])

    @cached_property
    def first(self) -> Factors:
        """The estimate without its replicates."""
        return self.factors.only(0)

    def moments(self, boxes: Sequence[AxisWeights]) -> Moments:
        """Estimate a sum over disjoint boxes: noise from the replicates, the model's part in units of Var(f)."""
        sums = np.zeros(self.factors.versions)
        squares, hidden, inside = 0.0, 0.0, 0.0
        restricted: set[int] = set()
        is_sum = False
        for plain in boxes:
            box = {axis: self._prepare(axis, weights) for axis, weights in plain.items()}
            answers = self._answer_evidence({axis: one.evidence for axis, one in box.items()})
            sums = sums + answers
            is_plain = all(one.is_plain for one in box.values())
            squares += float(answers[0]) if is_plain else self._estimate({a: one.squares for a, one in box.items()})
            hidden = max(hidden, self._hidden_in(box, float(answers[0]) if is_plain else 0.0))
            inside += self._inside(box)
            restricted |= {axis for axis, one in box.items() if one.is_restricting}
            is_sum = is_sum or any(one.is_graded for one in box.values())
        noise = float(((sums[1:] - sums[0]) ** 2).mean()) if sums.size > 1 else 0.0
        records = max(self.total, 1.0)
        spread = max(0.0, squares / records - (float(sums[0]) / records) ** 2)
        found = Moments(
            value=float(sums[0]),
            noise=noise + hidden,
            model=self.factor * self.doubt(restricted) * spread,
            inside=inside,
            replicates=self.factors.versions - 1,
        )
        scale = self.scales[class_of(restricted, self.known_pairs, is_sum=is_sum)]
        return scale_moments(found, max(1.0, scale) if is_sum else scale)  # the exam is about counts

    def _prepare(self, axis: int, weights: Reals | LeafWeights | MeanWeights) -> PreparedAxis:
        """What follows from the weights of one attribute; kept, since groups share most of their attributes."""
        found = self._prepared.get((axis, id(weights)))
        if found is None:
            if len(self._prepared) >= MOST_PREPARED:
                self._prepared.clear()
            found = self._prepared[axis, id(weights)] = PreparedAxis(self, axis, weights)
        return found

    @cached_property
    def _prepared(self) -> dict[tuple[int, int], PreparedAxis]:
        return {}

    def _inside(self, box: Mapping[int, PreparedAxis]) -> float:
        """The variance for not knowing where in its leaf a record lies, leaf by leaf, and what all leaves share."""
        variance = 0.0
        for axis, one in box.items():
            if one.is_even:
                continue
            others = {other: two.evidence[:1] for other, two in box.items() if other != axis}
            records = self.first.profile(axis, others)[self.bins[axis]] * self.shares[axis][0]
            weights = one.weights
            variance += float((records**2 + np.abs(records)) @ weights.inside) + float(records @ weights.drift) ** 2
        return variance

    @cached_property
    def known_pairs(self) -> frozenset[tuple[int, int]]:
        """The pairs of attributes that a clique holds."""
        if self.records is not None:
            return frozenset(itertools.combinations(range(len(self.bins)), 2))
        cliques = self.factors.tree.cliques
        return frozenset(pair for clique in cliques for pair in itertools.combinations(clique, 2))

    def doubt(self, attributes: Iterable[int]) -> float:
        """The model's variance of a count of these attributes, in units of p(1-p), before the exam's factor.

        What one attribute says was measured. Of several, records fall by chance, and pairs that no clique holds may
        depend on each other; how much tau^2 tells.
        """
        pairs = list(itertools.combinations(sorted(attributes), 2))
        if not pairs:
            return 0.0
        unknown = sum(pair not in self.known_pairs for pair in pairs) / len(pairs)
        return self.total + self.tau_squared * (HELD_PAIR_ERROR + (1 - HELD_PAIR_ERROR) * unknown)

    def _hidden_in(self, box: Mapping[int, PreparedAxis], held: float) -> float:
        records = max(self.total, 1.0)
        masses = [one.mass for one in box.values()]
        least = (
            self._hidden(masses, held / records) * _multiply(one.mean_square for one in box.values()) if box else 0.0
        )
        return max(least, self._faint_in(box, masses))

    def _faint_in(self, box: Mapping[int, PreparedAxis], masses: Sequence[float]) -> float:
        """What faint leaves hide: those that a question takes, or those it leaves out where that is less."""
        if not self.faint:
            return 0.0
        hidden = 0.0
        for axis, one in box.items():
            others = math.prod(masses) / one.mass if one.mass > 0 else 0.0
            weight = _multiply(two.mean_square for other, two in box.items() if other != axis)
            hidden += one.faint * others * weight  # in the units of the sum, whatever the others weigh
        return hidden

    def count_leaves(self, attribute: int) -> Reals:
        """How many records every leaf of an attribute has."""
        if attribute not in self._leaf_counts:
            bins = self.first.of([attribute])[0, self.bins[attribute]]
            self._leaf_counts[attribute] = bins * self.shares[attribute][0]
        return self._leaf_counts[attribute]

    @cached_property
    def _leaf_counts(self) -> dict[int, Reals]:
        return {}

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
        answers = self.factors.answer(evidence)
        return answers if self.records is None else answers + self.records.answer(evidence)

    def _estimate(self, evidence: Mapping[int, Reals]) -> float:
        """The estimate alone, of evidence of version 0."""
        found = float(self.first.answer(evidence)[0])
        return found if self._first_records is None else found + float(self._first_records.answer(evidence)[0])

    @cached_property
    def _first_records(self) -> WeightedRecords | None:
        return None if self.records is None else self.records.only(0)

    def weigh_bins(self, attribute: int, weights: Reals, *, only_first: bool = False) -> Reals:
        """The mean weight of every bin, (versions, bins)."""
        share = self.shares[attribute]
        if only_first:
            sums = np.bincount(self.bins[attribute], weights=share[0] * weights, minlength=self.widths[attribute])
            return sums.astype(np.float64, copy=False)[None, :]
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

    def range_answers(self, lows: Codes, highs: Codes) -> tuple[Reals, Reals, Reals]:
        """Count boxes of codes with the variances of noise and model."""
        versions = self.range_versions(lows, highs)
        noise = ((versions[:, 1:] - versions[:, :1]) ** 2).mean(axis=1)
        share = np.clip(versions[:, 0] / max(self.total, 1.0), 0.0, 1.0)
        cumulated = [self._cumulate(place) for place in range(lows.shape[1])]
        tops = np.array(self.schema.sizes) - 1
        model = self.factor * share * (1 - share)
        for query, (low, high) in enumerate(zip(lows, highs, strict=True)):
            restricted = np.flatnonzero((low > 0) | (high < tops)).tolist()
            masses = [float(cumulated[axis][high[axis] + 1] - cumulated[axis][low[axis]]) for axis in restricted]
            noise[query] += self._hidden(masses, float(share[query]))
            model[query] *= self.doubt(restricted)
            square = self.scales[class_of(restricted, self.known_pairs)] ** 2
            least = noise[query] * min(1.0, square)
            noise[query], model[query] = least, max(0.0, square * (noise[query] + model[query]) - least)
        return versions[:, 0], noise, model

    def _cumulate(self, attribute: int) -> Reals:
        """What share of the records lies below each declared code of an attribute."""
        counts = np.bincount(self.axes[attribute].codes, self.count_leaves(attribute), self.schema.sizes[attribute])
        cumulated: Reals = np.concatenate([[0.0], np.cumsum(counts)]) / max(self.total, 1.0)
        return cumulated

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


MOST_PREPARED = 128  # weights of attributes that are kept from one box to the next


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
        """Tell whether values weigh differently, as in sums; a count has 0, 1, and a part of a leaf at either end."""
        mean = self.weights.mean
        return int(np.count_nonzero((mean != 0) & (mean != 1))) > 2

    @cached_property
    def evidence(self) -> Reals:
        """The mean weight of every bin in every version."""
        return self.view.weigh_bins(self.axis, self.weights.mean)

    @cached_property
    def squares(self) -> Reals:
        """The mean square weight of every bin, in the estimate alone."""
        if self.is_plain:
            return self.evidence[:1]
        return self.view.weigh_bins(self.axis, self.weights.mean**2 + self.weights.inside, only_first=True)

    @cached_property
    def mass(self) -> float:
        """The share of the records that weigh anything."""
        held = float(self.view.count_leaves(self.axis) @ (self.weights.mean != 0))
        return held / max(self.view.total, 1.0)

    @cached_property
    def mean_square(self) -> float:
        """The mean square weight of the values that weigh anything."""
        weighed = self.weights.mean[self.weights.mean != 0]
        return float((weighed**2).mean()) if weighed.size else 0.0

    @cached_property
    def faint(self) -> float:
        """What the faint leaves that are taken hide, or those left out where that is less."""
        faint, mean = self.view.faint[self.axis], self.weights.mean
        taken = float(faint @ mean**2)
        return min(taken, float(faint @ (mean == 0))) if self.is_plain else taken


def _multiply(numbers: Iterable[float]) -> float:
    return float(math.prod(numbers))
