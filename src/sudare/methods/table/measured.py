"""The noisy sums of a map, and unbiased figures with exact errors that are made of them.

What is measured (the only step that sees the data): the sum of every square of every level, and every cell.
What follows is post-processing and costs nothing:

    MeasuredTable.squares   least squares over all levels: any region's unbiased figure with its standard error
    repair.py               the published table: whole numbers, not negative, adding up at every level
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sudare.counts import Counts
from sudare.methods.budget import LARGEST_TOTAL
from sudare.methods.table.levels import FEW_CROWDED, DensityRule, LeafLayout
from sudare.methods.table.margins import Margins, find_margin
from sudare.methods.table.squares import SquareLayout
from sudare.noise import CountNoise, GaussianNoise, Rng
from sudare.postprocess.least_squares import LeastSquares
from sudare.schema.arrays import Codes, Integers, Reals

# Standard errors that hold 96 of 100: a little more than is told, since sums of few noises are not quite normal.
NORMAL_FACTOR, LAPLACE_FACTOR = 2.05, 2.28  # of Laplace noise: ln(25) / sqrt(2)


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredTable:
    """The noisy sums of all levels of a layout, as published: `noisy[l]` of the nodes of level l.

    `noises` are those of all levels; below the level of `rule`, where there is one, those of its classes. `crowded` is
    the noisy number of records beyond a few of one cell, where the rule asks for it.
    """

    layout: LeafLayout
    noises: tuple[CountNoise, ...]
    noisy: tuple[Integers, ...]
    total: int
    total_variance: float
    rule: DensityRule | None = None
    crowded: int = 0

    @property
    def published_total(self) -> int:
        """The number of records of the published table: the exact one, or the best estimate of it."""
        estimate = round(self.squares.root.estimate) if self.total_variance else self.total
        return min(max(0, estimate), LARGEST_TOTAL)

    @property
    def public_total(self) -> float:
        """The number of records where everybody knows it, which no figure is told to be above; infinite elsewhere."""
        return float(self.total) if self.total_variance == 0 else np.inf

    def factor_of(self, cells: int) -> float:
        """Standard errors that hold at least 95 of 100 sums over so many cells.

        The noise of many sums is nearly normal; that of a single cell keeps the tails of its own law.
        """
        noise = self.noises[-1] if self.few is None else self.noises_by_class(len(self.noises) - 1)[0]
        heavy = 0.0 if isinstance(noise, GaussianNoise) else LAPLACE_FACTOR - NORMAL_FACTOR
        return NORMAL_FACTOR + heavy / max(1, cells)

    def factor_for(self, leaves: Codes, weights: Reals | None = None) -> float:
        """Standard errors that hold at least 95 of 100 sums of these cells."""
        return self.factor_of(len(leaves))

    @cached_property
    def squares(self) -> LeastSquares:
        """Least squares over all levels; nodes without a possible cell are held at 0."""
        held = enumerate(self.layout.possible_cells)
        return LeastSquares(
            parents=self.layout.parents,
            noisy=[values.astype(np.float64) for values in self.noisy],
            variances=[np.where(cells > 0, self.variances(level), 0.0) for level, cells in held],
            total=float(self.total),
            total_variance=self.total_variance,
        )

    @cached_property
    def classes(self) -> Codes | None:
        """The class of every square of the level that decides on the noise below it."""
        if self.rule is None:
            return None
        noisy, cells = self.noisy[self.rule.level], self.layout.possible_cells[self.rule.level]
        return self.rule.classify(noisy, cells, total=self.total, crowded=self.crowded)

    @property
    def is_thin(self) -> bool:
        """Tell whether the map is so thin that cells are hardly measured."""
        rule, cells = self.rule, self.layout.possible_cells
        return rule is not None and rule.is_thin(self.total, cells[rule.level], self.crowded)

    @property
    def is_few(self) -> bool:
        """Tell whether the map has so few records that only its large squares are measured well."""
        return self.few is not None and self.few != FEW_CROWDED

    @cached_property
    def few(self) -> int | None:
        """The place in the rule of what a map with few records has; None for other maps."""
        rule, cells = self.rule, self.layout.possible_cells
        return None if rule is None else rule.find_few(self.total, cells[rule.level], self.crowded)

    @property
    def has_crowded(self) -> bool:
        """Tell whether the number of crowded records is measured."""
        rule, cells = self.rule, self.layout.possible_cells
        return rule is not None and rule.choose_crowd(self.total, cells[rule.level]) is not None

    def is_faint(self, level: int, number: int) -> bool:
        """Tell whether squares of a level are as good as not measured in a class."""
        if self.rule is not None and self.few is not None and self.is_few:
            return level >= self.rule.few_faint[self.few]
        return self.rule is not None and self.rule.is_faint(level, number)

    def noises_by_class(self, level: int) -> tuple[CountNoise, ...]:
        """The noises of a level, one for every class."""
        if self.rule is None or (self.few is None and level <= self.rule.level):
            return (self.noises[level],)
        if self.few is not None and (self.is_few or level <= self.rule.level):
            return (self.rule.few_noises[self.few][level],)
        classes = self.rule.noises if self.few is None else self.rule.few_classes
        return tuple(noises[level - self.rule.level - 1] for noises in classes)

    def classes_of(self, level: int, nodes: Codes | None = None) -> Codes:
        """The place in `noises_by_class` of every node of a level, or of some of them."""
        if nodes is None:
            nodes = np.arange(self.layout.sizes[level])
        if self.rule is None or level <= self.rule.level or self.is_few or self.classes is None:
            return np.zeros(len(nodes), dtype=np.int64)
        return self.classes[nodes // (self.layout.sizes[level] // self.layout.sizes[self.rule.level])]

    def cell_margins(self, columns: Codes) -> Margins:
        """Give the margins of single cells (m, attributes)."""
        leaves = self.layout.leaves(columns)
        errors = self.squares.standard_errors[-1][leaves]
        estimates, margin = self.squares.estimates[-1][leaves], find_margin(self.factor_of(1), errors)
        return Margins.within(self.public_total, unbiased=estimates, margin=margin)

    def group_margins(self, position: int, lift: Callable[[Codes], Codes]) -> Margins:
        """Give the margins of the groups of an attribute, all other attributes added up; `lift` finds the groups."""
        leaves = np.flatnonzero(self.layout.is_possible)
        groups = lift(self.layout.columns(leaves)[:, position])
        estimates, errors = self.squares.answer_groups(leaves, groups)
        sizes, size = np.unique(np.bincount(groups), return_inverse=True)
        factors = np.array([self.factor_of(int(cells)) for cells in sizes])[size]
        margin = find_margin(factors, errors)
        return Margins.within(self.public_total, unbiased=estimates, margin=margin)

    def variances(self, level: int) -> Reals:
        """The variance of every noisy sum of a level."""
        variances = np.array([noise.variance for noise in self.noises_by_class(level)])
        found: Reals = variances[self.classes_of(level)]
        return found


def measure_levels(
    counts: Counts,
    layout: LeafLayout,
    noises: Sequence[CountNoise],
    *,
    total: int,
    total_variance: float,
    rng: Rng,
    rule: DensityRule | None = None,
) -> MeasuredTable:
    """Add noise to the sums of every level: the only step that sees the data.

    Guarantee: what the noises cost together, if `total` is public or already noisy. A unit changes the sums of a level
    by no more than it changes the cells. Noisy sums of one level, the total and the noisy number of crowded records may
    decide which of several noises of the same cost the sums below get. Proof: proofs/squares.md
    """
    exact = np.zeros(layout.sizes[-1], dtype=np.int64)
    exact[layout.leaves(counts.columns())] = counts.values
    sums = [exact]
    for level in range(len(layout.sizes) - 1, 0, -1):  # floats hold these sums exactly: totals are below 2^52
        added = np.bincount(layout.parents[level], weights=sums[-1], minlength=layout.sizes[level - 1])
        sums.append(added.astype(np.int64))
    noisy: list[Integers] = []
    found = MeasuredTable(
        layout=layout,
        noises=tuple(noises),
        noisy=(),
        total=total,
        total_variance=total_variance,
        rule=rule,
        crowded=_measure_crowded(layout, sums[::-1], rule, total, rng=rng),
    )
    for level, values in enumerate(sums[::-1]):
        classes, measured = found.classes_of(level), np.zeros(values.size, dtype=np.int64)
        for number, noise in enumerate(found.noises_by_class(level)):
            chosen = np.flatnonzero((layout.possible_cells[level] > 0) & (classes == number))
            if chosen.size:
                measured[chosen] = noise.add(values[chosen], rng=rng)
        noisy.append(measured)
        found = dataclasses.replace(found, noisy=tuple(noisy))
    return found


def _measure_crowded(
    layout: LeafLayout, sums: list[Integers], rule: DensityRule | None, total: int, *, rng: Rng
) -> int:
    """Add noise to the number of records beyond the first few of their cell of the map, where a rule asks for it.

    A row changes it by 1 at most, and so does a replaced one: what one cell loses another may get. So a unit of r rows
    changes it by r at most.
    """
    chosen = None if rule is None else rule.choose_crowd(total, layout.possible_cells[rule.level])
    if chosen is None or not isinstance(layout, SquareLayout):
        return 0
    noise, crowd = chosen
    crowded = np.maximum(sums[layout.sides.index(1)] - crowd, 0).sum()
    return int(noise.add(np.array([crowded], dtype=np.int64), rng=rng)[0])
