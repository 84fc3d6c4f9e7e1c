"""Identity: noise in every cell, and any count as a sum of noisy cells. A real table if small, else its known error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from papers.baselines.hdmm import Workload
from papers.baselines.plain import PlainNoise, either_promise
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng, geometric_variance
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Schema, Unit
from sudare.schema.arrays import Codes, Reals

MOST_CELLS = 2**24  # of a table that is really drawn


@dataclass(frozen=True, slots=True, eq=False)
class CellTable:
    """An estimate of every cell, as something that answers counts."""

    schema: Schema
    cells: Reals

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, one axis each."""
        places = [self.schema.position(name) for name in names]
        others = tuple(place for place in range(len(self.schema.sizes)) if place not in places)
        kept = sorted(places)
        table: Reals = self.cells.reshape(self.schema.sizes).sum(axis=others)
        return table.transpose([kept.index(place) for place in places])

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes of codes, both ends included."""
        table = self.cells.reshape(self.schema.sizes)
        slices = [
            tuple(slice(least, most + 1) for least, most in zip(low, high, strict=True))
            for low, high in zip(lows.tolist(), highs.tolist(), strict=True)
        ]
        return np.array([float(table[box].sum()) for box in slices])


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Two-sided geometric noise in every cell; a count of many cells adds up their noise.

    mean squared error of a workload = v * tr(W^T W)/(rows of W), v the variance of the noise of a cell

    Guarantee: epsilon-DP; scale 2/epsilon for replace-one, 1/epsilon for add/remove. Proof: proofs/geometric.md
    Error: unbiased; what `expected_rmse` tells, exactly, whatever the data: it needs no table and no dense domain.
    Source: Dwork, McSherry, Nissim, Smith 2006; Ghosh, Roughgarden, Sundararajan 2012 (geometric noise)

    >>> Identity(epsilon=1).guarantee().neighbours
    'replace'
    """

    epsilon: Fraction | str | int | float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return either_promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def table(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> CellTable:
        """Draw the noisy table; negative cells stay, so that sums are unbiased."""
        if counts.schema.size > MOST_CELLS:
            raise ParameterError(
                "Identity draws tables of at most {most} cells, not {cells}; ask expected_rmse",
                most=MOST_CELLS,
                cells=counts.schema.size,
            )
        noisy = PlainNoise(epsilon=self.epsilon).estimate(counts, neighbours=neighbours, rng=rng)
        return CellTable(counts.schema, noisy.astype(np.float64))

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Draw the noisy table with negative cells cut to 0."""
        return PlainNoise(epsilon=self.epsilon).draw(counts, neighbours=neighbours, rng=rng)

    def expected_rmse(self, workload: Workload, *, neighbours: Neighbours | None = None) -> float:
        """Root mean squared error over a workload, in closed form."""
        variance = geometric_variance(PlainNoise(epsilon=self.epsilon).scale(neighbours))
        inside = [float(np.trace(gram)) for gram in workload.grams]
        return math.sqrt(variance * workload.mean_square(inside, [float(size) for size in workload.sizes]))
