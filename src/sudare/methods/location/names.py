"""Names for reports: the cell of least expected distance for those who may have sent a report, free post-processing.

Small maps are searched by a table of distances. On a plane grid the geometric median of those who may have sent a
report is found within a window around it (Weiszfeld's steps), and the best cell beside the median is taken; people
beyond the window are too few to move it. A name is never part of the promise: any choice keeps it.
"""

from __future__ import annotations

import numpy as np

from sudare.methods.location.grid import Places, PlaneGrid
from sudare.methods.location.hidden import HiddenMechanism, has_one_cone, place_reports
from sudare.methods.location.kernel import distance_table
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.nearby import NearbyKernel, find_nearby
from sudare.methods.location.posterior import find_all_norms
from sudare.schema.arrays import Integers, Reals

MAX_NAMED_BY_TABLE = 1_500  # cells up to which names are found by a table of distances
WINDOW_DECAYS = 8.0  # how far people count for a name, in units of 1/beta: beyond are 3 in 1,000
MAX_WINDOW_SIDE = 40  # blocks on a side of a window; larger ones are made of blocks of some cells
WEISZFELD_STEPS, WARM_STEPS = 8, 3  # from the mean, and from the median of the report beside
NEARBY_CANDIDATES = 4  # places that are tried for a name on a large map without rows and columns
CANDIDATES = 12  # cells that are tried for a name on a map without rows and columns


def find_names(law: Mechanism | HiddenMechanism, people: Reals, named: Integers) -> Integers:
    """Find for every report the cell r of `named` that minimises sum over x of people(x) P(y|x) d(x, r), nearly."""
    norms = law.sums() if isinstance(law, HiddenMechanism) else find_all_norms(law)
    return name_by_shares(law, np.where(law.can_enter, people / norms, 0.0), named)


def name_by_shares(law: Mechanism | HiddenMechanism, shares: Reals, named: Integers) -> Integers:
    """Find names where the norms of the law are already part of the shares of people."""
    places = law.places
    if places.size > MAX_NAMED_BY_TABLE and isinstance(places, PlaneGrid) and has_one_cone(law):
        return _NameSearch(law, places, shares, named).find_all()
    if isinstance(law, Mechanism) and isinstance(law.kernel, NearbyKernel):
        return _find_nearby_names(law, shares, named)
    told = np.zeros(law.reports, dtype=np.int64)
    table = distance_table(places)[:, named] if places.size <= MAX_NAMED_BY_TABLE else None
    for block, terms in law.blocks():
        joint = shares[:, None] * terms
        if table is not None:
            told[block] = named[np.argmin(joint.T @ table, axis=1)]
        else:
            told[block] = _choose_heavy(places, joint, named)
    return told


class _NameSearch:
    """Medians within windows of blocks, one report after another."""

    def __init__(self, law: Mechanism | HiddenMechanism, grid: PlaneGrid, shares: Reals, named: Integers) -> None:
        self.law, self.grid, self.beta = law, grid, law.beta
        self.sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
        self.reach = [WINDOW_DECAYS / (law.beta * side) for side in self.sides]  # in cells
        self.block = [max(1, int(np.ceil(min(2 * far, size) / MAX_WINDOW_SIDE)))
                      for far, size in zip(self.reach, grid.shape, strict=True)]  # fmt: skip
        self.mass = _sum_blocks(shares.reshape(grid.shape), self.block)
        # where the people of a block are, in metres: its middle
        self.at = [
            (np.arange(count) * block + (block - 1) / 2) * side
            for count, block, side in zip(self.mass.shape, self.block, self.sides, strict=True)
        ]
        self.nearest = self._find_nearest_named(named)
        self.before: tuple[int, int, float, float] | None = None  # row and column of the last report, and its median

    def _find_nearest_named(self, named: Integers) -> Integers:
        """Give for every cell the nearest cell that may be told."""
        from scipy import ndimage

        is_other = np.ones(self.grid.size, dtype=np.bool_)
        is_other[named] = False
        rows, columns = ndimage.distance_transform_edt(
            is_other.reshape(self.grid.shape), sampling=self.sides, return_distances=False, return_indices=True
        )
        nearest: Integers = rows.astype(np.int64) * self.grid.columns + columns
        return nearest

    def find_all(self) -> Integers:
        rows, columns = (part.tolist() for part in place_reports(self.law, self.grid))
        return np.array([self._find(row, column) for row, column in zip(rows, columns, strict=True)], dtype=np.int64)

    def _find(self, row: int, column: int) -> int:
        """Find the name of the report at a row and a column."""
        rows, columns = self._window(0, row), self._window(1, column)
        y, x = self.at[0][rows], self.at[1][columns]
        here = row * self.sides[0], column * self.sides[1]
        away = np.hypot((y - here[0])[:, None], x - here[1])
        weights = self.mass[rows, columns] * np.exp(-self.beta * (away - away.min()))
        total = float(weights.sum())
        if not total > 0:
            return self._name_of(row, column)
        if self.before is not None and self.before[:2] == (row, column - 1):
            middle, steps = self.before[2:], WARM_STEPS
        else:
            middle = float(weights.sum(axis=1) @ y) / total, float(weights.sum(axis=0) @ x) / total
            steps = WEISZFELD_STEPS
        softening = 0.2 * min(self.sides)
        for _ in range(steps):
            pull = weights / (np.hypot((y - middle[0])[:, None], x - middle[1]) + softening)
            force = float(pull.sum())
            middle = float(pull.sum(axis=1) @ y) / force, float(pull.sum(axis=0) @ x) / force
        self.before = row, column, *middle
        return self._choose_beside(middle, weights, y, x)

    def _name_of(self, row: int, column: int) -> int:
        """Give the cell that may be told nearest to a row and a column, which may be beside the map."""
        inside = min(max(row, 0), self.grid.rows - 1), min(max(column, 0), self.grid.columns - 1)
        return int(self.nearest[inside])

    def _window(self, axis: int, place: int) -> slice:
        """Give the blocks within reach of a row or column; at least the nearest ones."""
        size, block, reach = self.mass.shape[axis], self.block[axis], self.reach[axis]
        edge = min(max(place, 0), self.grid.shape[axis] - 1)  # a report beside the map sees the people at its edge
        return slice(max(int((edge - reach) // block), 0), min(int((edge + reach) // block) + 1, size))

    def _choose_beside(self, middle: tuple[float, float], weights: Reals, y: Reals, x: Reals) -> int:
        """Choose the best of the cells around the median that may be told."""
        row, column = (int(np.floor(part / side)) for part, side in zip(middle, self.sides, strict=True))
        candidates = {self._name_of(row + down, column + right) for down in (0, 1) for right in (0, 1)}
        if len(candidates) == 1:
            return candidates.pop()

        def cost(cell: int) -> float:
            at = divmod(cell, self.grid.columns)
            far = np.hypot((y - at[0] * self.sides[0])[:, None], x - at[1] * self.sides[1])
            return float((weights * far).sum())

        return min(sorted(candidates), key=cost)


def _sum_blocks(values: Reals, block: list[int]) -> Reals:
    """Sum over blocks of cells."""
    if block == [1, 1]:
        return values
    for axis in (0, 1):
        values = np.add.reduceat(values, np.arange(0, values.shape[axis], block[axis]), axis=axis)
    return values


def _find_nearby_names(law: Mechanism, shares: Reals, named: Integers) -> Integers:
    """Name the reports of a large map without rows: the best of the heaviest places within reach of each."""
    rows = find_nearby(law.places, law.beta).full_rows(WINDOW_DECAYS / law.beta)
    can_tell = np.zeros(law.places.size, dtype=np.bool_)
    can_tell[named] = True
    told, far = np.arange(law.places.size), WINDOW_DECAYS / law.beta
    metres_to = np.full(law.places.size, far)
    for report in np.flatnonzero(law.weights).tolist():
        cells = np.append(rows.indices[rows.indptr[report] : rows.indptr[report + 1]], report)
        joint = shares[cells] * np.exp(
            -law.beta * np.append(rows.data[rows.indptr[report] : rows.indptr[report + 1]], 0)
        )
        allowed = cells[can_tell[cells]]
        heavy = allowed[np.argsort(-joint[can_tell[cells]], kind="stable")[:NEARBY_CANDIDATES]]
        best, least = report, np.inf
        for cell in {report, *heavy.tolist()} if can_tell[report] else heavy.tolist():
            others = rows.indices[rows.indptr[cell] : rows.indptr[cell + 1]]
            metres_to[others] = rows.data[rows.indptr[cell] : rows.indptr[cell + 1]]
            metres_to[cell] = 0.0
            cost = float(joint @ metres_to[cells])  # people out of reach count as far: rare, and a name is free
            metres_to[others] = metres_to[cell] = far
            if cost < least:
                best, least = int(cell), cost
        told[report] = best
    return told


def _choose_heavy(places: Places, joint: Reals, named: Integers) -> Integers:
    """Find a good cell of every column on a map without rows and columns: the best of the heaviest ones."""
    best = np.empty(joint.shape[1], dtype=np.int64)
    for column in range(joint.shape[1]):
        heavy = named[np.argsort(-joint[named, column], kind="stable")[:CANDIDATES]]
        costs = [float(joint[:, column] @ places.metres(int(cell))) for cell in heavy.tolist()]
        best[column] = heavy[int(np.argmin(costs))]
    return best
