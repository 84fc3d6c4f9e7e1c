"""Noise in every cell, as it is or clipped at 0: what every method for tables must be better than somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from papers.baselines.base import check_schema, check_unit, from_dense
from sudare.counts import Counts
from sudare.noise import Rng, geometric
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Schema, Unit
from sudare.schema.arrays import Integers, Reals


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainNoise:
    """Two-sided geometric noise in every cell of a dense table.

    `estimate` gives the noisy cells, negative ones too: what the papers measure. `draw` clips them at 0: no cell is
    negative any more, but every empty cell is lifted, by about scale/2 in the mean, and so are sums over regions.

    Guarantee: epsilon-DP; scale 2/epsilon for replace-one, 1/epsilon for add/remove. Proof: proofs/geometric.md
    Error: unbiased, variance about 2 scale^2 for a cell and as many times that for a region as it has cells.
    Source: Dwork, McSherry, Nissim, Smith 2006; Ghosh, Roughgarden, Sundararajan 2012

    >>> PlainNoise(epsilon="1/10").scale("replace")
    Fraction(20, 1)
    """

    epsilon: Fraction | str | int | float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return either_promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def scale(self, neighbours: Neighbours | None = None) -> Fraction:
        """Scale of the noise of a cell."""
        return changed_cells(neighbours) / Fraction(self.epsilon)

    def estimate(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Integers:
        """Add noise to all cells; some come out negative."""
        guard(self.guarantee(unit=counts.schema.unit, neighbours=neighbours), counts.schema)
        sensitivity = changed_cells(neighbours)
        return geometric(counts.dense(), epsilon=Fraction(self.epsilon), sensitivity=sensitivity, rng=rng)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Add noise to all cells and clip them at 0."""
        return clipped(counts.schema, self.estimate(counts, neighbours=neighbours, rng=rng))


def either_promise(epsilon: Fraction, *, unit: Unit | None, neighbours: Neighbours | None) -> Guarantee:
    """Promise for either relation: these baselines publish no number of records unasked.

    >>> either_promise(Fraction(1), unit=None, neighbours="add-remove").neighbours
    'add-remove'
    """
    return Guarantee(epsilon=epsilon, neighbours=neighbours or "replace", unit=unit or Unit())


def guard(promise: Guarantee, schema: Schema) -> None:
    """Refuse units and public facts that a baseline would ignore."""
    check_unit(promise.unit)
    check_schema(schema)


def changed_cells(neighbours: Neighbours | None) -> int:
    """The L1 change of the cells between neighbours.

    >>> changed_cells("replace"), changed_cells("add-remove")
    (2, 1)
    """
    return 1 if neighbours == "add-remove" else 2


def clipped(schema: Schema, estimate: Reals | Integers) -> Counts:
    """Make a table of an estimate: rounded to whole numbers, negative cells 0."""
    return from_dense(schema, np.maximum(np.rint(estimate), 0).astype(np.int64).ravel())
