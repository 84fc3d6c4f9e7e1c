"""How much a generalised table has lost: five measures, each with bounds that a search prunes by.

    loss                 share of the domain that a value covers, per attribute, geometric mean (ARX's Loss)
    precision            share of the hierarchy climbed (Sweeney)
    entropy              bits of a value that are gone, as a share of those it had (Gionis, Tassa)
    discernability       rows that a row cannot be told from (Bayardo, Agrawal)
    average class size   rows per class (LeFevre's C_avg times k)

All are least for the best table. A suppressed row counts as if every attribute were left out; in discernability it
cannot be told from any row, in the average class size all suppressed rows are one class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from sudare.methods.kanon.equal_keys import find_leaders
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.tuples import Classes, Tuples
from sudare.schema.arrays import Booleans, Codes, Integers, Reals

QualityName = Literal["loss", "precision", "entropy", "discernability", "average class size"]


class QualityMeasure(Protocol):
    """A quality on the tuples of one table."""

    def score(self, classes: Classes, failing: Booleans) -> float:
        """Measure a node whose failing classes are suppressed."""

    def bound_with_suppressed(self, node: Node, suppressed: int) -> float:
        """Bound the score of a node that suppresses so many rows from below, without adding them up."""

    def lower_bound(self, node: Node) -> float:
        """Bound the scores of a node and of all coarser ones from below, without a check."""

    @property
    def counts_classes(self) -> bool:
        """Tell whether the sizes of classes are all it sees: then both corners of a box are worth a check."""

    def box_bound(self, low: Classes, high: Classes, lost: Booleans) -> float:
        """Bound the scores of the nodes between two, the coarse one known with the classes that finer ones lose."""

    def coarser_bound(self, classes: Classes) -> float:
        """Bound the scores of a checked node and of all coarser ones from below."""

    def certain_loss(self, classes: Classes, lost: Booleans, lost_tuples: Callable[[], Codes]) -> Any:
        """Sum up the rows of lost classes, which every finer node suppresses too, in the form of this measure."""

    def bound_with_loss(self, node: Node, loss: Any) -> float:
        """Bound the scores of the nodes coarser than `node` and finer than the one whose certain loss is `loss`."""


class Quality(Protocol):
    """A measure before it has seen a table."""

    @property
    def name(self) -> str:
        """Name the measure."""

    def prepare(self, tuples: Tuples, lattice: Lattice, *, min_class_size: int = 1) -> QualityMeasure:
        """Prepare it for a table whose published classes have at least `min_class_size` rows."""


@dataclass(frozen=True, eq=False)
class AttributeMeasure:
    """A measure that adds up attribute by attribute.

    `base[a][level]` is the mean over all rows without suppression, `extra[a][level][code]` how much more a row of this
    code loses if it is suppressed, `rows[a][code]` how many rows have the code.
    """

    tuples: Tuples
    base: tuple[list[float], ...]
    extra: tuple[Reals, ...]
    rows: tuple[Reals, ...]
    is_geometric: bool
    weights: tuple[float, ...] | None = None  # how much each attribute matters; None: all alike
    counts_classes: ClassVar[bool] = False

    @cached_property
    def _equal_extra(self) -> list[list[float | None]]:
        """How much more a suppressed row loses, by attribute and level, if that is the same for all codes."""
        return [
            [float(codes[0]) if codes.size and (codes == codes[0]).all() else None for codes in extra]
            for extra in self.extra
        ]

    @cached_property
    def _least_extra(self) -> list[list[float]]:
        """The least that a suppressed row loses more, by attribute and level."""
        return [[float(codes.min(initial=np.inf)) if codes.size else 0.0 for codes in extra] for extra in self.extra]

    @cached_property
    def _starts(self) -> Integers:
        """Where the codes of each attribute begin in one row of all."""
        return np.cumsum([0, *(extra.shape[1] for extra in self.extra)])

    @cached_property
    def _extra_of_all(self) -> list[list[float]]:
        """What is lost more if all rows are suppressed, by attribute and level."""
        return self._add_extra(np.concatenate(self.rows))

    def _add_extra(self, rows: Reals) -> list[list[float]]:
        """Add up what suppressed rows lose more, by attribute and level; `rows` by attribute and code."""
        codes, total = self._starts, max(1, self.tuples.rows)
        parts = zip(self.extra, codes[:-1], codes[1:], strict=True)
        return [((extra * rows[start:stop]).sum(axis=1) / total).tolist() for extra, start, stop in parts]

    def _combine(self, parts: list[float]) -> float:
        if self.weights is not None:
            return self._combine_weighted(parts, self.weights)
        if self.is_geometric:
            return math.exp(sum(map(math.log1p, parts)) / len(parts)) - 1
        return math.fsum(parts) / len(parts)

    def _combine_weighted(self, parts: list[float], weights: tuple[float, ...]) -> float:
        """Take the weighted mean, as `_combine` does with equal weights."""
        whole = math.fsum(weights)
        if self.is_geometric:
            logs = (weight * math.log1p(part) for weight, part in zip(weights, parts, strict=True))
            return math.exp(math.fsum(logs) / whole) - 1
        return math.fsum(weight * part for weight, part in zip(weights, parts, strict=True)) / whole

    def score(self, classes: Classes, failing: Booleans) -> float:
        """Measure a node whose failing classes are suppressed."""
        parts = [base[level] for base, level in zip(self.base, classes.node, strict=True)]
        count = int(np.count_nonzero(failing))
        if count:
            is_rest = 2 * count > classes.count  # the fewer classes are added up; the others are the rest
            lost = self._extra_of(classes, np.flatnonzero(~failing if is_rest else failing))
            if is_rest:
                whole = [all_of[level] for all_of, level in zip(self._extra_of_all, classes.node, strict=True)]
                lost = [max(all_of - kept, 0.0) for all_of, kept in zip(whole, lost, strict=True)]
            parts = list(map(float.__add__, parts, lost))
        return self._combine(parts)

    def _extra_of(self, classes: Classes, chosen: Codes) -> list[float]:
        """Add up what the rows of the chosen classes lose more by attribute, one by one only where they differ."""
        sizes, first = classes.float_sizes.take(chosen), classes.first.take(chosen)
        rows, all_rows, lost = float(np.add.reduce(sizes)), self.tuples.rows, []
        for axis, level in enumerate(classes.node):
            equal = self._equal_extra[axis][level]
            if equal is not None:
                lost.append(equal * rows / all_rows)
                continue
            extra = self.extra[axis][level].take(self.tuples.columns[axis].take(first))
            extra *= sizes
            lost.append(float(np.add.reduce(extra)) / all_rows)  # np.dot would wake threads
        return lost

    def bound_with_suppressed(self, node: Node, suppressed: int) -> float:
        """Bound by the rows that lose least if they are suppressed."""
        share = suppressed / max(1, self.tuples.rows)
        parts = zip(self.base, self._least_extra, node, strict=True)
        return self._combine([base[level] + share * least[level] for base, least, level in parts])

    def lower_bound(self, node: Node) -> float:
        """Bound by the node without suppression: higher levels lose more, suppression loses more."""
        return self._combine([base[level] for base, level in zip(self.base, node, strict=True)])

    def coarser_bound(self, classes: Classes) -> float:
        """Know no more than `bound_with_loss` does without a check."""
        return float("-inf")

    def box_bound(self, low: Classes, high: Classes, lost: Booleans) -> float:
        """Know no more than `bound_with_loss` does."""
        return float("-inf")

    def certain_loss(
        self, classes: Classes, lost: Booleans, lost_tuples: Callable[[], Codes]
    ) -> list[list[float]] | None:
        """Add up what the lost rows lose more, for every attribute and level."""
        if not lost.any():
            return None
        tuples, members, codes = self.tuples, lost_tuples(), self._starts
        is_rest = 2 * members.size > tuples.count  # the fewer tuples are added up; the others are the rest
        if is_rest:
            members = np.delete(np.arange(tuples.count), members)
        weights = tuples.float_weights[members]
        by_attribute = [
            _totals(column[members], weights, size)
            for column, size in zip(tuples.columns, np.diff(codes).tolist(), strict=True)
        ]
        rows = np.concatenate(by_attribute)
        return self._add_extra(np.concatenate(self.rows) - rows if is_rest else rows)

    def bound_with_loss(self, node: Node, loss: list[list[float]] | None) -> float:
        """Bound by the node with the lost rows suppressed and no others."""
        if loss is None:
            return self.lower_bound(node)
        parts = zip(self.base, loss, node, strict=True)
        return self._combine([base[level] + more[level] for base, more, level in parts])


@dataclass(frozen=True, kw_only=True)
class WeightedQuality:
    """A quality that adds up attributes, with a weight for each: the weighted geometric or plain mean."""

    quality: Quality
    weights: tuple[float, ...]

    @property
    def name(self) -> str:
        """Name the measure."""
        return self.quality.name

    def prepare(self, tuples: Tuples, lattice: Lattice, *, min_class_size: int = 1) -> QualityMeasure:
        """Prepare the measure, and weigh its attributes."""
        measure = self.quality.prepare(tuples, lattice, min_class_size=min_class_size)
        return replace(measure, weights=self.weights) if isinstance(measure, AttributeMeasure) else measure


@dataclass(frozen=True, eq=False)
class ClassSizeMeasure:
    """A measure of class sizes alone; a node has at most as many classes as cells, and as tuples."""

    tuples: Tuples
    lattice: Lattice
    min_class_size: int
    is_squared: bool  # discernability; else rows per class
    counts_classes: ClassVar[bool] = True

    def score(self, classes: Classes, failing: Booleans) -> float:
        """Measure a node whose failing classes are suppressed."""
        sizes, kept = classes.sizes.astype(np.float64), ~failing & (classes.sizes > 0)
        suppressed = float(sizes[failing].sum())
        if self.is_squared:
            return float(np.dot(sizes[kept], sizes[kept])) + suppressed * self.tuples.rows
        return self.tuples.rows / max(1, int(kept.sum()) + (suppressed > 0))

    def bound_with_suppressed(self, node: Node, suppressed: int) -> float:
        """Bound by the suppressed rows and the others spread evenly."""
        rows = self.tuples.rows
        return self.bound_with_loss(node, (suppressed, (rows - suppressed) // self.min_class_size))

    def lower_bound(self, node: Node) -> float:
        """Bound by rows spread evenly over all cells."""
        return self.bound_with_loss(node, (0, self.tuples.rows // self.min_class_size))

    def coarser_bound(self, classes: Classes) -> float:
        """Bound by the classes of the node: coarser ones are their unions, and a published one has the least size.

        Discernability: a row counts its class, which has at least as many rows as here and the least size, or all rows
        if it is suppressed. Average: classes too small here can make one of the least size for each so many rows.
        """
        sizes, least = classes.float_sizes, float(self.min_class_size)
        if self.is_squared:
            return float(np.dot(sizes, self._least_counted(sizes)))
        is_large = sizes >= least
        small = float(sizes[~is_large].sum())
        most = int(np.count_nonzero(is_large)) + int(small // least) + 1  # one for the suppressed rows
        return self.tuples.rows / max(1, most)

    def certain_loss(self, classes: Classes, lost: Booleans, lost_tuples: Callable[[], Codes]) -> tuple[int, int]:
        """Count the lost rows, and the classes of the least size that the others can be divided into."""
        kept = classes.float_sizes[~lost]
        return int(classes.sizes[lost].sum()), int((kept // self.min_class_size).sum())

    def bound_with_loss(self, node: Node, loss: tuple[int, int]) -> float:
        """Bound by the lost rows suppressed and the others spread evenly, over no more classes than they can make."""
        rows, (lost, divided) = self.tuples.rows, loss
        cells = max(1, min(self.lattice.cells(node), self.tuples.count))
        if self.is_squared:
            kept = np.array([float(rows - lost)])
            return float(rows) * lost + float(self._spread_evenly(kept, np.array([float(min(cells, divided))]))[0])
        return rows / min(cells, divided + 1)

    def box_bound(self, low: Classes, high: Classes, lost: Booleans) -> float:
        """Bound the scores of the nodes between two, whose classes are unions of those of `low` inside those of `high`.

        Inside a class of `high` that is not lost, every class of `low` of the least size makes at most one class, and
        the smaller ones together at most one for each so many rows. Proof: proofs/kanon.md
        """
        sizes, least, rows = low.float_sizes, self.min_class_size, self.tuples.rows
        is_lost = self._find_lost(low, high, lost)
        if self.is_squared:
            return self._box_bound_squared(low, high, is_lost)
        is_small = sizes < least
        chosen = np.flatnonzero(is_small & ~is_lost)
        leaders = find_leaders(*self.tuples.key(high.node, low.choose(chosen)))
        small = np.bincount(leaders, weights=sizes.take(chosen))
        return rows / (np.count_nonzero(~(is_small | is_lost)) + float((small // least).sum()) + 1)

    def _box_bound_squared(self, low: Classes, high: Classes, is_lost: Booleans) -> float:
        """Bound discernability in a box: by the classes of `low`, and by each class of `high` divided evenly."""
        sizes, chosen, least = low.float_sizes, np.flatnonzero(~is_lost), self.min_class_size
        kept = sizes.take(chosen)
        leaders = find_leaders(*self.tuples.key(high.node, low.choose(chosen)))
        rows = np.asarray(np.bincount(leaders, weights=kept), dtype=np.float64)
        parts = np.minimum(np.bincount(leaders), rows // least)
        fine = np.bincount(leaders, weights=kept * self._least_counted(kept))
        is_kept = rows >= max(1, least)
        bounds = np.maximum(fine, self._spread_evenly(rows, parts))[is_kept]
        lost_rows = float(sizes.sum()) - float(rows[is_kept].sum())
        return float(self.tuples.rows) * lost_rows + float(bounds.sum())

    def _find_lost(self, low: Classes, high: Classes, lost: Booleans) -> Booleans:
        """Find the classes of `low` in classes of `high` that are lost for another reason than their size."""
        others = lost & (high.float_sizes >= self.min_class_size)
        if not others.any():
            return np.zeros(low.count, dtype=bool)
        return high.has_tuples(others).take(low.first)

    def _least_counted(self, sizes: Reals) -> Reals:
        """Give the least that a row of each class counts in discernability: a published class has the least size."""
        return np.maximum(sizes, min(self.min_class_size, self.tuples.rows))

    def _spread_evenly(self, rows: Reals, parts: Reals) -> Reals:
        """Bound the discernability of rows that make at most so many classes.

        Spread evenly they count rows**2 / parts. To suppress some of them saves nothing, unless they make one class of
        more than half the table.
        """
        evenly = rows**2 / np.maximum(parts, 1)
        return np.where((parts >= 2) | (2 * rows <= self.tuples.rows), evenly, rows * self._least_counted(rows * 0))


@dataclass(frozen=True)
class NamedQuality:
    """A quality by its name.

    >>> QUALITIES["loss"].name
    'loss'
    """

    name: str
    make: Callable[[Tuples, Lattice, int], QualityMeasure]

    def prepare(self, tuples: Tuples, lattice: Lattice, *, min_class_size: int = 1) -> QualityMeasure:
        """Prepare it for a table whose published classes have at least `min_class_size` rows."""
        return self.make(tuples, lattice, min_class_size)


# --- the measures ---------------------------------------------------------------------------------------------------

LossPerRow = Callable[[int, int, Codes, Reals], tuple[Reals, float | Reals]]
"""Given attribute, level, the group of every code and the rows of every code: the loss of a row of each code at this
level, and its loss if it is suppressed."""


def _loss(tuples: Tuples, lattice: Lattice, min_class_size: int) -> QualityMeasure:
    """(leaves(value) - 1) / (leaves(domain) - 1)."""

    def share_of_domain(axis: int, level: int, groups: Codes, rows: Reals) -> tuple[Reals, float]:
        return (np.bincount(groups)[groups] - 1) / max(1, groups.size - 1), 1.0 if groups.size > 1 else 0.0

    return _measure_attributes(tuples, lattice, share_of_domain, is_geometric=True)


def _precision(tuples: Tuples, lattice: Lattice, min_class_size: int) -> QualityMeasure:
    def share_of_height(axis: int, level: int, groups: Codes, rows: Reals) -> tuple[Reals, float]:
        height = lattice.heights[axis]
        return np.full(groups.size, level / max(1, height)), 1.0 if height else 0.0

    return _measure_attributes(tuples, lattice, share_of_height, is_geometric=False)


def _entropy(tuples: Tuples, lattice: Lattice, min_class_size: int) -> QualityMeasure:
    def share_of_bits(axis: int, level: int, groups: Codes, rows: Reals) -> tuple[Reals, Reals]:
        total = max(1.0, float(rows.sum()))
        positive_rows = np.maximum(rows, 1e-300)
        entropy = float(np.dot(rows, np.log2(total / positive_rows))) / total
        group_rows = np.bincount(groups, weights=rows)[groups]
        occurs = rows > 0
        lost = np.where(occurs, np.log2(np.maximum(group_rows, 1e-300) / positive_rows), 0.0)
        worst = np.where(occurs, np.log2(total / positive_rows), 0.0)
        return lost / (entropy or 1.0), worst / (entropy or 1.0)

    return _measure_attributes(tuples, lattice, share_of_bits, is_geometric=False)


def _measure_attributes(
    tuples: Tuples, lattice: Lattice, loss_per_row: LossPerRow, *, is_geometric: bool
) -> AttributeMeasure:
    base, extra, rows = [], [], []
    for axis, attribute in enumerate(lattice.attributes):
        codes = np.arange(attribute.size, dtype=np.int64)
        code_rows = _totals(tuples.columns[axis], tuples.float_weights, attribute.size)
        means, more = [], []
        for level in range(attribute.height + 1):
            groups = codes if level == 0 or attribute.hierarchy is None else attribute.hierarchy.lift(codes, level)
            lost, worst = loss_per_row(axis, level, groups, code_rows)
            means.append(float(np.dot(code_rows, lost)) / max(1, tuples.rows))
            more.append(np.maximum(worst - lost, 0.0))
        base.append(np.maximum.accumulate(np.array(means)).tolist())  # rounding must not break the order of the levels
        extra.append(np.array(more))
        rows.append(code_rows)
    return AttributeMeasure(tuples, tuple(base), tuple(extra), tuple(rows), is_geometric)


def _discernability(tuples: Tuples, lattice: Lattice, min_class_size: int) -> QualityMeasure:
    return ClassSizeMeasure(tuples, lattice, min_class_size, is_squared=True)


def _average_class_size(tuples: Tuples, lattice: Lattice, min_class_size: int) -> QualityMeasure:
    return ClassSizeMeasure(tuples, lattice, min_class_size, is_squared=False)


def _totals(codes: Codes, weights: Reals, size: int) -> Reals:
    return np.asarray(np.bincount(codes, weights=weights, minlength=size), dtype=np.float64)


QUALITIES: Mapping[str, Quality] = {
    quality.name: quality
    for quality in (
        NamedQuality("loss", _loss),
        NamedQuality("precision", _precision),
        NamedQuality("entropy", _entropy),
        NamedQuality("discernability", _discernability),
        NamedQuality("average class size", _average_class_size),
    )
}
