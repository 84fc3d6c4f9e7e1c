"""Draw reports: P(y|x) = alpha(x) w(y) exp(-beta d(x, y)), exactly, from cryptographic randomness, for any map.

On a plane grid a row and a column are proposed apart and no table is kept; by any other metric, and for cells with
little land around them, the row of a cell is made when it is needed. Both samplers stand in `noise.distance`. One
person's reports (a budget a day, the same answer for the same cell): `device.py`, and `device.js` for a browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from sudare.errors import ParameterError
from sudare.methods.location.grid import PlaneGrid, distances_from
from sudare.methods.location.hidden import HiddenMechanism
from sudare.methods.location.mechanism import Mechanism
from sudare.noise.distance import LARGEST_EXPONENT, MARGIN, PlaneSampler, RowSampler
from sudare.noise.rng import Rng, system_rng
from sudare.schema.arrays import Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampler:
    """Draws reports of a mechanism; a cell of weight 0 is never one of them.

    Guarantee: that of the mechanism, for every single report; the law is drawn exactly (proofs/location-sampling.md).
    Several reports of one person add up: see `Device`.

    >>> from sudare.noise import SeededRng
    >>> from sudare.methods.location.mechanism import FULL_WEIGHT
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([FULL_WEIGHT, FULL_WEIGHT]))
    >>> np.bincount(Sampler(mechanism=law).draw(np.zeros(1000, dtype=int), rng=SeededRng(1))).tolist()
    [728, 272]
    """

    mechanism: Mechanism | HiddenMechanism
    margin: float = MARGIN

    def draw(self, cells: ArrayLike, *, rng: Rng | None = None) -> Integers:
        """Draw one report for every cell, independently."""
        numbers = self.check_cells(cells)
        randomness = rng if rng is not None else system_rng()
        grid = self.mechanism.places
        if isinstance(grid, PlaneGrid) and isinstance(self.mechanism, Mechanism):
            return make_plane_sampler(self.mechanism, grid, margin=self.margin).draw(
                numbers, randomness, remaining=self._draw_by_rows
            )
        return self._draw_by_rows(numbers, randomness)

    def _draw_by_rows(self, cells: Integers, rng: Rng) -> Integers:
        reports = np.empty(len(cells), dtype=np.int64)
        order = np.argsort(cells, kind="stable")
        cuts = np.flatnonzero(np.diff(cells[order])) + 1
        for same_cell in np.split(order, cuts) if len(order) else []:
            cell = int(cells[same_cell[0]])
            if isinstance(self.mechanism, HiddenMechanism):
                row = make_hidden_sampler(self.mechanism, cell, margin=self.margin)
            else:
                row = make_row_sampler(self.mechanism, cell, margin=self.margin)
            reports[same_cell] = row.draw(len(same_cell), rng)
        return reports

    def check_cells(self, cells: ArrayLike) -> Integers:
        """Refuse a cell that is not on the map, or in which nobody can be."""
        numbers = np.atleast_1d(np.asarray(cells))
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
            raise ParameterError("cells must be whole numbers: the numbers of cells on the map")
        size = self.mechanism.places.size
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= size):
            raise ParameterError("a cell is outside the map; its cells are numbered from 0 to {last}", last=size - 1)
        if not self.mechanism.can_enter[numbers].all():
            raise ParameterError(
                "there is a cell in which nobody can be on this map; take the nearest cell in which people can be"
            )
        return numbers.astype(np.int64)


def make_plane_sampler(mechanism: Mechanism, grid: PlaneGrid, *, margin: float = MARGIN) -> PlaneSampler:
    """Make the sampler of a plane grid."""
    return PlaneSampler(
        rows=grid.rows,
        columns=grid.columns,
        height=Fraction(grid.cell_height_metres),
        width=Fraction(grid.cell_width_metres),
        beta=mechanism.beta_per_metre,
        weights=mechanism.weights,
        margin=margin,
    )


def make_row_sampler(mechanism: Mechanism, cell: int, *, margin: float = MARGIN) -> RowSampler:
    """Make the sampler of the reports of one cell.

    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> row = make_row_sampler(Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([0, 8])), 0)
    >>> row.reports.tolist()
    [1]
    """
    reports = np.flatnonzero(mechanism.weights)
    exponents = mechanism.beta * distances_from(mechanism.places, cell)[reports]
    if not exponents.min() < LARGEST_EXPONENT:
        raise ParameterError(
            "the nearest cell that can be reported is too far away: {decays} times 1/beta; take a smaller"
            " epsilon, or give nearer cells a weight",
            decays=int(exponents.min()),
        )
    return RowSampler.of(
        reports=reports,
        weights=mechanism.weights[reports],
        squares=mechanism.places.squares(cell)[reports],
        unit=mechanism.places.unit_metres,
        beta=mechanism.beta_per_metre,
        exponents=exponents,
        margin=margin,
    )


def make_hidden_sampler(law: HiddenMechanism, cell: int, *, margin: float = MARGIN) -> RowSampler:
    """Make the sampler of the hidden reports of one cell."""
    reports = np.arange(law.reports)
    return RowSampler.of(
        reports=reports,
        weights=law.columns[:, 3],
        squares=reports,  # not used: cones give the distances
        unit=law.places.unit_metres,
        beta=law.beta_per_metre,
        exponents=law.exponents(np.array([cell]), reports)[0],
        margin=margin,
        cones=lambda report: law.cones(cell, report),
    )
