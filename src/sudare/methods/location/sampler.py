"""Draw reports: P(y|x) = alpha(x) w(y) exp(-beta d(x, y)), exactly, from cryptographic randomness, for any map.

sampler_law     one exact yes or no
sampler_plane   plane grids: geometric steps, accepted; no table
sampler_rows    any metric: the row of a cell, made when it is asked for
device          one person's reports: a budget a day, the same answer for the same cell
device.js       the same for a browser or a phone
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from sudare.errors import ParameterError
from sudare.mechanisms.rng import Rng, system_rng
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.sampler_law import MARGIN, Ints
from sudare.methods.location.sampler_plane import PlaneSampler
from sudare.methods.location.sampler_rows import RowSampler


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampler:
    """Draws reports of a mechanism; a cell of weight 0 is never one of them.

    Guarantee: that of the mechanism, for every single report; the law is drawn exactly (proofs/location-sampling.md).
    Several reports of one person add up: see `Device`.

    >>> from sudare.mechanisms import SeededRng
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([ONE, ONE]))
    >>> np.bincount(Sampler(mechanism=law).draw(np.zeros(1000, dtype=int), rng=SeededRng(1))).tolist()
    [728, 272]
    """

    mechanism: Mechanism
    margin: float = MARGIN

    def draw(self, cells: ArrayLike, *, rng: Rng | None = None) -> Ints:
        """Draw one report for every cell, independently."""
        asked = self._checked(cells)
        randomness = rng if rng is not None else system_rng()
        grid = self.mechanism.places
        if isinstance(grid, PlaneGrid):
            return self._plane(grid).draw(asked, randomness, remaining=self._by_rows)
        return self._by_rows(asked, randomness)

    def _plane(self, grid: PlaneGrid) -> PlaneSampler:
        return PlaneSampler(
            rows=grid.rows,
            columns=grid.columns,
            height=Fraction(grid.cell_height_metres),
            width=Fraction(grid.cell_width_metres),
            beta=self.mechanism.beta_per_metre,
            weights=self.mechanism.weights,
            margin=self.margin,
        )

    def _by_rows(self, cells: Ints, rng: Rng) -> Ints:
        out = np.empty(len(cells), dtype=np.int64)
        order = np.argsort(cells, kind="stable")
        cuts = np.flatnonzero(np.diff(cells[order])) + 1
        for places in np.split(order, cuts) if len(order) else []:
            row = RowSampler.of(self.mechanism, int(cells[places[0]]), margin=self.margin)
            out[places] = row.draw(len(places), rng)
        return out

    def _checked(self, cells: ArrayLike) -> Ints:
        asked = np.atleast_1d(np.asarray(cells))
        if asked.dtype.kind not in "iu" or asked.ndim != 1:
            raise ParameterError("cells must be whole numbers, the places of cells on the map")
        size = self.mechanism.places.size
        if len(asked) and (asked.min() < 0 or asked.max() >= size):
            raise ParameterError("a cell is outside the map; its cells are numbered from 0 to {last}", last=size - 1)
        if not self.mechanism.can_enter[asked].all():
            raise ParameterError(
                "a cell is one in which nobody can be on this map; take the nearest cell in which people can be"
            )
        return asked.astype(np.int64)
