"""How much a generalised table has lost: five measures, each with bounds that a search prunes by.

    loss                 share of the domain that a value covers, per attribute, geometric mean (ARX's Loss)
    precision            share of the hierarchy climbed (Sweeney)
    entropy              bits of a value that are gone, as a share of those it had (Gionis, Tassa)
    discernability       rows that a row cannot be told from (Bayardo, Agrawal)
    average class size   rows per class (LeFevre's C_avg times k)

All are least for the best table. A suppressed row counts as if every attribute were left out; in discernability it is
alike to all rows, in the average class size all suppressed rows are one class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.tuples import Classes, Tuples
from sudare.schema.arrays import Booleans, Reals

QualityName = Literal["loss", "precision", "entropy", "discernability", "average class size"]


class QualityMeasure(Protocol):
    """A quality on the tuples of one table."""

    def score(self, classes: Classes, failing: Booleans) -> float:
        """Measure a node whose failing classes are suppressed."""

    def at_least(self, node: Node, suppressed: int) -> float:
        """Bound the score of a node that suppresses so many rows from below, without adding them up."""

    def floor(self, node: Node) -> float:
        """Bound the scores of a node and of all coarser ones from below, without a check."""

    def rising(self, classes: Classes) -> float:
        """Bound the scores of a checked node and of all coarser ones from below."""

    def out(self, classes: Classes, lost: Booleans) -> Any:
        """Remember the rows of lost classes, which every finer node suppresses too."""

    def bound(self, node: Node, out: Any) -> float:
        """Bound the scores of the nodes coarser than `node` and finer than where `out` was made."""


class Quality(Protocol):
    """A measure before it has seen a table."""

    @property
    def name(self) -> str:
        """Name the measure."""

    def on(self, tuples: Tuples, lattice: Lattice, *, least: int = 1) -> QualityMeasure:
        """Apply it to a table whose published classes have at least `least` rows."""


@dataclass(frozen=True, eq=False)
class AttributeMeasure:
    """A measure that adds up attribute by attribute.

    `base[a][level]` is the mean over all rows without suppression, `gain[a][level][code]` how much a row of this code
    loses more if it is suppressed, `rows[a][code]` how many rows have the code.
    """

    tuples: Tuples
    base: tuple[list[float], ...]
    gain: tuple[Reals, ...]
    rows: tuple[Reals, ...]
    is_geometric: bool

    @cached_property
    def _same(self) -> list[list[float | None]]:
        """What a suppressed row loses more by attribute and level, if that is the same for all codes."""
        return [
            [float(codes[0]) if codes.size and (codes == codes[0]).all() else None for codes in gain]
            for gain in self.gain
        ]

    @cached_property
    def _lightest(self) -> list[list[float]]:
        """The least that a suppressed row loses more, by attribute and level."""
        return [[float(codes.min(initial=np.inf)) if codes.size else 0.0 for codes in gain] for gain in self.gain]

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where the codes of each attribute begin in one row of all."""
        return np.cumsum([0, *(gain.shape[1] for gain in self.gain)])

    @cached_property
    def _whole(self) -> list[list[float]]:
        """What is lost more if all rows are suppressed, by attribute and level."""
        return self._lost(np.concatenate(self.rows))

    def _lost(self, rows: Reals) -> list[list[float]]:
        """Add up gains by attribute and level, over rows by attribute and code."""
        codes, total = self._starts, max(1, self.tuples.rows)
        parts = zip(self.gain, codes[:-1], codes[1:], strict=True)
        return [((gain * rows[start:stop]).sum(axis=1) / total).tolist() for gain, start, stop in parts]

    def _combined(self, parts: list[float]) -> float:
        if self.is_geometric:
            return math.exp(sum(map(math.log1p, parts)) / len(parts)) - 1
        return math.fsum(parts) / len(parts)

    def score(self, classes: Classes, failing: Booleans) -> float:
        """Measure a node whose failing classes are suppressed."""
        parts = [base[level] for base, level in zip(self.base, classes.node, strict=True)]
        count = int(np.count_nonzero(failing))
        if count:
            is_rest = 2 * count > classes.count  # the fewer classes are added up; the others are the rest
            lost = self._gains(classes, np.flatnonzero(~failing if is_rest else failing))
            if is_rest:
                whole = [all_of[level] for all_of, level in zip(self._whole, classes.node, strict=True)]
                lost = [max(all_of - kept, 0.0) for all_of, kept in zip(whole, lost, strict=True)]
            parts = list(map(float.__add__, parts, lost))
        return self._combined(parts)

    def _gains(self, classes: Classes, chosen: NDArray[np.int64]) -> list[float]:
        """Add up what the rows of the chosen classes lose more by attribute, where not all of them lose the same."""
        sizes, first = classes.loads.take(chosen), classes.first.take(chosen)
        rows, all_rows, lost = float(np.add.reduce(sizes)), self.tuples.rows, []
        for axis, level in enumerate(classes.node):
            same = self._same[axis][level]
            if same is not None:
                lost.append(same * rows / all_rows)
                continue
            gains = self.gain[axis][level].take(self.tuples.columns[axis].take(first))
            gains *= sizes
            lost.append(float(np.add.reduce(gains)) / all_rows)  # np.dot would wake threads
        return lost

    def at_least(self, node: Node, suppressed: int) -> float:
        """Bound by the rows that lose least if they are suppressed."""
        share = suppressed / max(1, self.tuples.rows)
        parts = zip(self.base, self._lightest, node, strict=True)
        return self._combined([base[level] + share * light[level] for base, light, level in parts])

    def floor(self, node: Node) -> float:
        """Bound by the node without suppression: higher levels lose more, suppression loses more."""
        return self._combined([base[level] for base, level in zip(self.base, node, strict=True)])

    def rising(self, classes: Classes) -> float:
        """Know no more than `bound` does without a check."""
        return float("-inf")

    def out(self, classes: Classes, lost: Booleans) -> list[list[float]] | None:
        """Add up what the lost rows lose more, for every attribute and level."""
        if not lost.any():
            return None
        tuples, is_lost = self.tuples, classes.covers(lost)
        is_rest = 2 * int(np.count_nonzero(is_lost)) > tuples.count
        members, codes = np.flatnonzero(~is_lost if is_rest else is_lost), self._starts
        weights = tuples.weights[members].astype(np.float64)
        part = [
            _totals(column[members], weights, size)
            for column, size in zip(tuples.columns, np.diff(codes).tolist(), strict=True)
        ]
        rows = np.concatenate(part)
        return self._lost(np.concatenate(self.rows) - rows if is_rest else rows)

    def bound(self, node: Node, out: list[list[float]] | None) -> float:
        """Bound by the node with the lost rows suppressed and no others."""
        if out is None:
            return self.floor(node)
        parts = zip(self.base, out, node, strict=True)
        return self._combined([base[level] + more[level] for base, more, level in parts])


@dataclass(frozen=True, eq=False)
class ClassSizeMeasure:
    """A measure of class sizes alone; a node has at most as many classes as cells, and as tuples."""

    tuples: Tuples
    lattice: Lattice
    least: int
    is_squared: bool  # discernability; else rows per class

    def score(self, classes: Classes, failing: Booleans) -> float:
        """Measure a node whose failing classes are suppressed."""
        sizes, kept = classes.sizes.astype(np.float64), ~failing & (classes.sizes > 0)
        suppressed = float(sizes[failing].sum())
        if self.is_squared:
            return float(np.dot(sizes[kept], sizes[kept])) + suppressed * self.tuples.rows
        return self.tuples.rows / max(1, int(kept.sum()) + (suppressed > 0))

    def at_least(self, node: Node, suppressed: int) -> float:
        """Bound by the suppressed rows and the others spread evenly."""
        return self.bound(node, suppressed)

    def floor(self, node: Node) -> float:
        """Bound by rows spread evenly over all cells."""
        return self.bound(node, 0)

    def rising(self, classes: Classes) -> float:
        """Bound by all classes of the node, kept or not: merging and suppressing only add."""
        return self.score(classes, np.zeros(classes.count, dtype=bool))

    def out(self, classes: Classes, lost: Booleans) -> int:
        """Count the lost rows."""
        return int(classes.sizes[lost].sum())

    def bound(self, node: Node, out: int) -> float:
        """Bound by the lost rows suppressed and the others spread evenly."""
        rows = self.tuples.rows
        most = max(1, min(self.lattice.cells(node), self.tuples.count))
        if self.is_squared:
            return float(rows) * out + float(rows - out) ** 2 / most
        return rows / max(1, min(most, (rows - out) // self.least + 1))


@dataclass(frozen=True)
class Named:
    """A quality by its name.

    >>> QUALITIES["loss"].name
    'loss'
    """

    name: str
    make: Callable[[Tuples, Lattice, int], QualityMeasure]

    def on(self, tuples: Tuples, lattice: Lattice, *, least: int = 1) -> QualityMeasure:
        """Apply it to a table whose published classes have at least `least` rows."""
        return self.make(tuples, lattice, least)


def _loss(tuples: Tuples, lattice: Lattice, least: int) -> QualityMeasure:
    """(leaves(value) - 1) / (leaves(domain) - 1)."""
    return _columns(tuples, lattice, lambda axis, level, ids, hist: _covered(ids, hist), is_geometric=True)


def _covered(ids: NDArray[np.int64], hist: Reals) -> tuple[Reals, float | Reals]:
    return (np.bincount(ids)[ids] - 1) / max(1, ids.size - 1), 1.0 if ids.size > 1 else 0.0


def _precision(tuples: Tuples, lattice: Lattice, least: int) -> QualityMeasure:
    def climbed(axis: int, level: int, ids: NDArray[np.int64], hist: Reals) -> tuple[Reals, float]:
        height = lattice.heights[axis]
        return np.full(ids.size, level / max(1, height)), 1.0 if height else 0.0

    return _columns(tuples, lattice, climbed, is_geometric=False)


def _entropy(tuples: Tuples, lattice: Lattice, least: int) -> QualityMeasure:
    def bits(axis: int, level: int, ids: NDArray[np.int64], hist: Reals) -> tuple[Reals, Reals]:
        rows = max(1.0, float(hist.sum()))
        own = np.maximum(hist, 1e-300)
        whole = float(np.dot(hist, np.log2(rows / own))) / rows
        group = np.bincount(ids, weights=hist)[ids]
        held = hist > 0
        gone = np.where(held, np.log2(np.maximum(group, 1e-300) / own), 0.0)
        worst = np.where(held, np.log2(rows / own), 0.0)
        return gone / (whole or 1.0), worst / (whole or 1.0)

    return _columns(tuples, lattice, bits, is_geometric=False)


def _columns(tuples: Tuples, lattice: Lattice, per_row: Callable[..., Any], *, is_geometric: bool) -> AttributeMeasure:
    base, gain, rows = [], [], []
    for axis, attribute in enumerate(lattice.attributes):
        codes = np.arange(attribute.size, dtype=np.int64)
        hist = _totals(tuples.columns[axis], tuples.loads, attribute.size)
        means, gains = [], []
        for level in range(attribute.height + 1):
            ids = codes if level == 0 or attribute.hierarchy is None else attribute.hierarchy.lift(codes, level)
            lost, worst = per_row(axis, level, ids, hist)
            means.append(float(np.dot(hist, lost)) / max(1, tuples.rows))
            gains.append(np.maximum(worst - lost, 0.0))
        base.append(np.maximum.accumulate(np.array(means)).tolist())  # rounding must not break the order of the levels
        gain.append(np.array(gains))
        rows.append(hist)
    return AttributeMeasure(tuples, tuple(base), tuple(gain), tuple(rows), is_geometric)


def _totals(codes: NDArray[np.int64], weights: NDArray[Any], size: int) -> Reals:
    return np.asarray(np.bincount(codes, weights=weights, minlength=size), dtype=np.float64)


QUALITIES: Mapping[str, Quality] = {
    quality.name: quality
    for quality in (
        Named("loss", _loss),
        Named("precision", _precision),
        Named("entropy", _entropy),
        Named(
            "discernability", lambda tuples, lattice, least: ClassSizeMeasure(tuples, lattice, least, is_squared=True)
        ),
        Named(
            "average class size",
            lambda tuples, lattice, least: ClassSizeMeasure(tuples, lattice, least, is_squared=False),
        ),
    )
}
