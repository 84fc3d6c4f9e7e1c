"""Level cones on a plane map and far around it: planar Laplace on a lattice, as hidden reports.

    s(x) = sum over points p of w(p) exp(-beta d(x, p)) = 1   on the whole map

Points stand on every cell of the map and of a margin, and beyond it in the middle of blocks whose sides grow by 3 with
the distance (to 1/beta at most), until the rest of planar Laplace is too small to matter. A point begins with the area
of its block as weight. Then those of the rectangle are levelled: w <- w (1 + A'u) with A diag(w) A' u = 1 - s, by
conjugate gradients. The residual is smooth, since cells have whole resolution around them, so that factors stay near 1.

Named by the cell that is best for each, such a law is as near as planar Laplace whose unclamped point is named; clamped
planar Laplace knows less than that point, so that it cannot be nearer, however it is renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.methods.location.grid import PlaneGrid
from sudare.schema.arrays import Booleans, Integers, Reals

NEAR_CELLS = 8  # width of the margin in whole resolution
RING_BLOCKS = 4  # blocks of one size from the margin outwards
FAR_DECAYS = 8.0  # times 1/beta: beyond it lie 3 in 1,000 of planar Laplace
NEAR_SHARE = 4  # a margin of at most a fourth of the map is in whole resolution
MAX_FAR_CELLS = 12_000  # of a map that has blocks around it; a larger one has a margin in whole resolution
LARGE_DECAYS = 4.0  # width of that margin, times 1/beta
BLOCK = 2**21  # numbers in one block of the sums of far points
MAX_STEPS, MAX_ROUNDS = 200, 5
LEAST_FACTOR = 0.3  # a weight shrinks at most to this share in a round, so that it stays above 0

Spectrum = NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class MarginPoints:
    """Where cones stand (row, column), the area that each stands for, in cells; the first `near` are a rectangle."""

    rows: Integers
    columns: Integers
    areas: Reals
    near_shape: tuple[int, int]
    near_corner: tuple[int, int]

    @property
    def near(self) -> int:
        """Count the points of the rectangle."""
        return self.near_shape[0] * self.near_shape[1]


def lay_points(grid: PlaneGrid, beta: float, *, decays: float = FAR_DECAYS) -> MarginPoints:
    """Lay points on the map, its margin and the blocks around, as far as so many times 1/beta.

    >>> grid = PlaneGrid(rows=3, columns=3, cell_height_metres=100, cell_width_metres=100)
    >>> points = lay_points(grid, 0.1)
    >>> points.near_shape, len(points.rows)
    ((5, 5), 25)
    """
    sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
    is_large = grid.size > MAX_FAR_CELLS
    need = [int(np.ceil((LARGE_DECAYS if is_large else decays) / beta / side)) for side in sides]
    whole = max(NEAR_CELLS, max(grid.shape) // NEAR_SHARE)
    margin = need if max(need) <= whole else [min(cells, whole if is_large else NEAR_CELLS) for cells in need]
    has_far = not is_large and margin != need
    low, high = [-width for width in margin], [size + width for size, width in zip(grid.shape, margin, strict=True)]
    if has_far:
        low, high = _align(low, high, 3)
    corner, shape = (low[0], low[1]), (high[0] - low[0], high[1] - low[1])
    parts = [np.column_stack([*_rectangle(low, high, 1), np.ones(shape[0] * shape[1])])]
    block = 3
    while has_far and any(-edge < cells for edge, cells in zip(low, need, strict=True)):
        wide = _align([edge - RING_BLOCKS * block for edge in low], [e + RING_BLOCKS * block for e in high], 3 * block)
        rows, columns = _rectangle(*wide, block)
        outside = (rows < low[0]) | (rows >= high[0]) | (columns < low[1]) | (columns >= high[1])
        middle = (block - 1) // 2
        # cones of a block add up to more than one in its middle: by 1 + (beta h)^2 / 24 for a side of h
        area = block * block * (1 + (beta * block) ** 2 * (sides[0] ** 2 + sides[1] ** 2) / 48)
        parts.append(np.column_stack([rows[outside] + middle, columns[outside] + middle, np.full(outside.sum(), area)]))
        (low, high), block = wide, 3 * block if 3 * block * beta * min(sides) <= 1 else block
    points = np.concatenate(parts)
    return MarginPoints(points[:, 0].astype(np.int64), points[:, 1].astype(np.int64), points[:, 2], shape, corner)


def find_rectangle(grid: PlaneGrid, rows: Integers, columns: Integers) -> MarginPoints | None:
    """Find how many of these points, from the first on, fill a rectangle around the map row by row; None: none do.

    >>> grid = PlaneGrid(rows=1, columns=1, cell_height_metres=100, cell_width_metres=100)
    >>> laid = lay_points(grid, 0.001)
    >>> found = find_rectangle(grid, laid.rows, laid.columns)
    >>> found.near_shape == laid.near_shape, found.near == laid.near < len(laid.rows)
    (True, True)
    """
    breaks = np.flatnonzero((np.diff(columns) != 1) | (np.diff(rows) != 0))
    wide = int(breaks[0]) + 1 if len(breaks) else len(rows)
    tall = len(rows) // wide
    listed = np.arange(tall * wide)
    fits = (rows[: len(listed)] == rows[0] + listed // wide) & (columns[: len(listed)] == columns[0] + listed % wide)
    tall = tall if fits.all() else int(np.argmin(fits)) // wide
    low, high = (int(rows[0]), int(columns[0])), (int(rows[0]) + tall, int(columns[0]) + wide)
    if max(low) > 0 or high[0] < grid.rows or high[1] < grid.columns:
        return None
    areas = np.ones(len(rows))
    return MarginPoints(rows, columns, areas, (tall, wide), low)


def _align(low: list[int], high: list[int], block: int) -> tuple[list[int], list[int]]:
    """Widen a rectangle to whole blocks."""
    return [edge // block * block for edge in low], [-(-edge // block) * block for edge in high]


def _rectangle(low: list[int], high: list[int], block: int) -> tuple[Integers, Integers]:
    """Give rows and columns of the corners of blocks."""
    rows, columns = np.meshgrid(*(np.arange(low[axis], high[axis], block) for axis in (0, 1)), indexing="ij")
    return rows.reshape(-1), columns.reshape(-1)


class MarginSums:
    """A w, the sums at the cells of the map, and A'u, for the points of the rectangle, by transforms."""

    def __init__(self, grid: PlaneGrid, beta: float, points: MarginPoints) -> None:
        from scipy import fft

        self.shape, self.near_shape = grid.shape, points.near_shape
        self.at = -points.near_corner[0], -points.near_corner[1]
        sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
        both = zip(points.near_shape, grid.shape, strict=True)
        self.padded = tuple(fft.next_fast_len(wide + size, real=True) for wide, size in both)
        offsets = [np.where(np.arange(size) <= size // 2, np.arange(size), np.arange(size) - size)
                   for size in self.padded]  # fmt: skip
        kernel = np.exp(-beta * np.hypot(offsets[0][:, None] * sides[0], offsets[1] * sides[1]))
        self.spectrum: Spectrum = fft.rfft2(kernel)
        around = [np.minimum(np.arange(size), size - np.arange(size)) * side
                  for size, side in zip(grid.shape, sides, strict=True)]  # fmt: skip
        torus = np.abs(fft.rfft2(np.exp(-beta * np.hypot(around[0][:, None], around[1]))))
        self.inverse = 1 / np.maximum(torus, 1e-9 * torus.max())

    def condition(self, values: Reals) -> Reals:
        """Give the inverse on a torus of the map's size: half way to (A A')^-1, which would blow up rounding."""
        from scipy import fft

        solved: Reals = fft.irfft2(self.inverse * fft.rfft2(values.reshape(self.shape)), self.shape).reshape(-1)
        return solved

    def to_cells(self, weights: Reals) -> Reals:
        """Give A w."""
        (top, left), (rows, columns) = self.at, self.shape
        near = self._smooth(weights.reshape(self.near_shape))[top : top + rows, left : left + columns]
        sums: Reals = near.reshape(-1)
        return sums

    def to_points(self, values: Reals) -> Reals:
        """Give A'u."""
        framed = np.zeros(self.near_shape)
        (top, left), (rows, columns) = self.at, self.shape
        framed[top : top + rows, left : left + columns] = values.reshape(self.shape)
        near: Reals = self._smooth(framed)[: framed.shape[0], : framed.shape[1]].reshape(-1)
        return near

    def _smooth(self, values: Reals) -> Reals:
        from scipy import fft

        smoothed: Reals = fft.irfft2(fft.rfft2(values, self.padded) * self.spectrum, self.padded)
        return smoothed


def sum_far_cones(grid: PlaneGrid, beta: float, rows: Integers, columns: Integers, weights: Reals) -> Reals:
    """Give the sum of weighted cones at every cell of the map, term by term."""
    sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
    cells = np.divmod(np.arange(grid.size), grid.columns)
    sums, count = np.zeros(grid.size), max(1, BLOCK // grid.size)
    for start in range(0, len(rows), count):
        part = slice(start, start + count)
        down, across = rows[part, None] - cells[0], columns[part, None] - cells[1]
        sums += weights[part] @ np.exp(-beta * np.hypot(down * sides[0], across * sides[1]))
    return sums


MAX_APRON = 32  # cells beside the map up to which reports are summed by transforms


def sum_slopes(
    grid: PlaneGrid, beta: float, slopes: tuple[int, ...], columns: Integers, weights: Reals
) -> Reals | None:
    """Give the sum of cones of many slopes (percent of beta) at every cell, a transform each; None if one is far off.

    Columns are (number of the slope, row, column).
    """
    from scipy import fft

    kinds, rows, columns = columns.T
    low = min(0, int(rows.min())), min(0, int(columns.min()))
    high = max(grid.rows, int(rows.max()) + 1), max(grid.columns, int(columns.max()) + 1)
    apron = max(-low[0], -low[1], high[0] - grid.rows, high[1] - grid.columns)
    if apron > MAX_APRON:
        return None
    wide = high[0] - low[0], high[1] - low[1]
    padded = tuple(fft.next_fast_len(2 * size, real=True) for size in wide)
    sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
    offsets = [np.where(np.arange(size) <= size // 2, np.arange(size), np.arange(size) - size) * side
               for size, side in zip(padded, sides, strict=True)]  # fmt: skip
    metres, total = np.hypot(offsets[0][:, None], offsets[1]), None
    for kind, slope in enumerate(slopes):
        at, framed = kinds == kind, np.zeros(wide)
        np.add.at(framed, (rows[at] - low[0], columns[at] - low[1]), weights[at])
        part = fft.rfft2(framed, padded) * fft.rfft2(np.exp(-beta * slope / 100 * metres))
        total = part if total is None else total + part
    sums = fft.irfft2(total, padded)[-low[0] : -low[0] + grid.rows, -low[1] : -low[1] + grid.columns]
    cells: Reals = sums.reshape(-1)
    return cells


def level_weights(grid: PlaneGrid, beta: float, points: MarginPoints, cells: Booleans, *, slope: float) -> Reals:
    """Give weights above 0 with sums of nearly 1 at these cells of the map: log s has at most `slope`, if it succeeds.

    The certificate says whether it did.
    """
    sums, near, far = MarginSums(grid, beta, points), slice(None, points.near), slice(points.near, None)
    weights = points.areas.copy()
    beyond = sum_far_cones(grid, beta, points.rows[far], points.columns[far], weights[far])
    scale = float((sums.to_cells(weights[near]) + beyond)[cells].mean())
    weights, beyond = weights / scale, beyond / scale
    inside = cells.astype(np.float64)
    allowed = slope * min(float(grid.cell_height_metres), float(grid.cell_width_metres))
    least = np.inf
    for _ in range(MAX_ROUNDS):
        residual = inside * (1 - beyond - sums.to_cells(weights[near]))
        uneven = float(np.ptp(residual[cells]))
        if uneven <= allowed or uneven > 0.9 * least:  # level, or no longer getting there
            break
        least = uneven
        factors = 1 + sums.to_points(_solve(sums, weights[near], residual, inside, allowed / 4))
        weights[near] *= np.maximum(factors, LEAST_FACTOR)
    return weights


def _solve(sums: MarginSums, weights: Reals, right: Reals, inside: Reals, allowed: float) -> Reals:
    """Solve A diag(w) A' u = right at the cells inside, by conjugate gradients; the best of its steps."""
    solved, residual = np.zeros_like(right), right.copy()
    conditioned = inside * sums.condition(residual)
    direction, product = conditioned.copy(), float(residual @ conditioned)
    best, least = solved, float(np.ptp(residual))
    for _ in range(MAX_STEPS):
        if least <= allowed:
            break
        image = inside * sums.to_cells(weights * sums.to_points(direction))
        step = product / max(float(direction @ image), np.finfo(np.float64).tiny)
        solved = solved + step * direction
        residual -= step * image
        if float(np.ptp(residual)) < least:
            best, least = solved, float(np.ptp(residual))
        conditioned = inside * sums.condition(residual)
        product, before = float(residual @ conditioned), product
        direction = conditioned + (product / before) * direction
    return best
