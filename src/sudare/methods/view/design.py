"""How all pairs beyond the forest would be measured: table by table, or all at once as one matrix.

A table of every pair has noise of its own, so that P pairs divide the part by P. Matrix noise (pure epsilon only)
covers all of them together: a record is one vector with a place for every group of every attribute, and what d
attributes of g groups cost grows with d^1.5 g^0.5 instead of d^2 (proofs/matrix.md). Whichever can afford more groups
is taken: both follow from public and released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.methods.view.budget import FEWEST_GROUPS, MOST_CONTRASTS, ViewBudget
from sudare.methods.view.residual import Waves
from sudare.noise.matrix import MatrixNoise
from sudare.schema.arrays import Codes, Reals

MOST_GROUPS = 24  # of the bins of an attribute
GROUPS_PER_ROOT = 0.35  # of the records over the noise of a cell
FEWEST_ATTRIBUTES = 2  # that differ at all


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GroupedMargin:
    """A fitted histogram over coarse bins, and what decides how its bins are grouped."""

    mass: Reals
    is_ordered: bool
    is_last_apart: bool  # the last bin holds records without a value

    def group(self, wanted: int) -> Codes:
        """The group of every bin: neighbours of about equal mass share one.

        Twice as many for values without order, whose neighbours are not alike. A last bin that stands apart shares
        none.
        """
        parts = wanted if self.is_ordered else 2 * wanted
        middle = (np.cumsum(self.mass) - self.mass / 2) / max(float(self.mass.sum()), 1e-9)
        even = np.minimum((parts * middle).astype(np.int64), parts - 1)
        part = np.arange(self.mass.size) if self.mass.size <= parts else even
        part = np.append(part[:-1], parts) if self.is_last_apart else part
        return np.unique(part, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PairDesign:
    """What all remaining pairs would be measured over, with which noise: `matrix` for all at once, None for tables."""

    margins: tuple[GroupedMargin, ...]
    wanted: int  # groups of an attribute with an order
    groups: tuple[Codes, ...]
    deviation: float  # of the noise of a cell
    matrix: MatrixNoise | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many groups every attribute has."""
        return count_groups(self.groups)

    @property
    def starts(self) -> Codes:
        """Where the groups of every attribute begin if those of all stand in one line."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    def multiply(self, records: float) -> Reals:
        """The tables of all pairs if attributes were independent, as one matrix."""
        sums = [np.bincount(group, margin.mass) for group, margin in zip(self.groups, self.margins, strict=True)]
        line = np.concatenate(sums)
        product: Reals = np.outer(line, line) / max(records, 1e-9)
        return product

    def centre_blocks(self, matrix: Reals) -> Reals:
        """What the table of every pair differs from its margins, in sums."""
        sizes = np.array(self.sizes)
        spread = np.repeat(1 / sizes, sizes)
        rows = matrix - np.repeat(np.add.reduceat(matrix, self.starts[:-1], axis=0), sizes, axis=0) * spread[:, None]
        centred: Reals = rows - np.repeat(np.add.reduceat(rows, self.starts[:-1], axis=1), sizes, axis=1) * spread
        return centred

    @property
    def waves(self) -> tuple[Waves, ...]:
        """The contrasts of the groups of every attribute."""
        return tuple(
            Waves.of(size, is_listed=not margin.is_ordered, is_last_apart=margin.is_last_apart)
            for size, margin in zip(self.sizes, self.margins, strict=True)
        )


def design_pairs(
    margins: Sequence[GroupedMargin], part: Fraction, budget: ViewBudget, *, pairs: int, records: float
) -> PairDesign:
    """Choose how so many pairs would be measured with a part: by what affords more groups, or has less noise."""
    tables = design_tables(margins, part, budget, pairs=pairs, records=records)
    matrix = None if budget.is_concentrated else design_matrix(margins, part, records=records)
    is_finer = matrix is not None and (matrix.wanted, -matrix.deviation) > (tables.wanted, -tables.deviation)
    return matrix if matrix is not None and is_finer else tables


def design_tables(
    margins: Sequence[GroupedMargin], part: Fraction, budget: ViewBudget, *, pairs: int, records: float
) -> PairDesign:
    """A table of every pair, over the more groups the more records there are over the noise of a cell."""
    deviation = budget.deviation(part, max(1, pairs))
    wanted = min(MOST_GROUPS, max(FEWEST_GROUPS, afford_groups(records / deviation)))
    groups = tuple(margin.group(wanted) for margin in margins)
    return PairDesign(margins=tuple(margins), wanted=wanted, groups=groups, deviation=deviation)


def design_matrix(margins: Sequence[GroupedMargin], part: Fraction, *, records: float) -> PairDesign | None:
    """All pairs as one matrix: the most groups that its noise affords, since more groups have more noise; or None."""
    for wanted in range(MOST_GROUPS, FEWEST_GROUPS - 1, -1):
        groups = tuple(margin.group(wanted) for margin in margins)
        if sum(size > 1 for size in count_groups(groups)) < FEWEST_ATTRIBUTES:
            return None
        noise = MatrixNoise(sizes=count_groups(groups), epsilon=part)
        deviation = math.sqrt(noise.variance)
        affordable = max(FEWEST_GROUPS, afford_groups(records / deviation))
        if wanted <= affordable and noise.dimension <= MOST_CONTRASTS and noise.can_draw(records):
            return PairDesign(margins=tuple(margins), wanted=wanted, groups=groups, deviation=deviation, matrix=noise)
    return None


def count_groups(groups: Sequence[Codes]) -> tuple[int, ...]:
    """Count the groups of every attribute."""
    return tuple(int(group[-1]) + 1 for group in groups)


def afford_groups(signal: float) -> int:
    """How many groups of an attribute pay, by the records over the noise of a cell.

    >>> afford_groups(150.0), afford_groups(1000.0)
    (4, 11)
    """
    return round(GROUPS_PER_ROOT * math.sqrt(max(signal, 0.0)))
