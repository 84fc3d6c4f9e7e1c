"""A map proves its metric before anything is promised on it.

The promise rests on the triangle inequality alone: for every report y the law has the slope |d(x, y) - d(x', y)| <=
d(x, x'), so that exp(-beta d) changes by a factor of at most exp(beta d(x, x')). Every kind of map has it by
construction (proofs/location.md). A number that wrapped, a road of a wrong length or a forged file would not; so the
exact integers are compared, for cells spread over the map, and floats are compared with them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from math import isqrt

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.location.grid import DegreeCorner, ElasticGrid, Places, PlaneGrid, distances_from
from sudare.schema.arrays import Integers
from sudare.schema.mesh import MESH_PER_DEGREE_EAST, MESH_PER_DEGREE_NORTH, MESH_UNITS, MESH_WEST, to_earth_centred
from sudare.text import Text, text

CHECKED_CELLS = 24  # spread over the map; every triple of them is compared
MANY_CELLS, FEW_CHECKED = 100_000, 4  # on a map of that many cells, whose rows are long, so many are checked
CLEAR = 1e-9  # of the longest distance: a triple that differs by more is decided by floats
ROUNDING = 2.0**-50  # relative error of a float distance, at most


def check_metric(places: Places) -> None:
    """Refuse a map whose distances are no metric: negative, not symmetric, or against the triangle inequality.

    >>> check_metric(PlaneGrid(rows=40, columns=40, cell_height_metres="462.303", cell_width_metres="561.134"))
    """
    cells = choose_cells(places, CHECKED_CELLS if places.size < MANY_CELLS else FEW_CHECKED)
    rows = [places.squares(cell) for cell in cells.tolist()]
    squares = [[int(row[cell]) for cell in cells.tolist()] for row in rows]
    if min(int(row.min()) for row in rows) < 0 or any(squares[i][i] for i in range(len(cells))):
        raise _no_metric(text("a distance is negative, or a cell has a distance to itself"))
    if any(squares[i][j] != squares[j][i] for i in range(len(cells)) for j in range(i)):
        raise _no_metric(text("the distance there differs from the distance back"))
    _check_floats(places, cells, squares)
    _check_triangles(squares)
    check_ground(places)


ROUNDED_METRES = 0.005  # chords are compared in whole millimetres, as device.js does
CHORD_SHARE = 1e-5  # by which the chord over a mesh cell of 80 km is shorter than the ground


def check_ground(places: Places) -> None:
    """Refuse a grid on the earth whose cells are smaller on the ground than on the plane: less would be promised."""
    grid = places.grid if isinstance(places, ElasticGrid) else places
    at = _find_degrees(grid) if isinstance(grid, PlaneGrid) else None
    if not isinstance(grid, PlaneGrid) or at is None:
        return
    numbers = (at.south, at.west, at.tall, at.wide)
    north = at.south + at.tall * grid.rows
    is_sound = all(math.isfinite(number) for number in numbers) and at.tall > 0 < at.wide and abs(north) < 90
    for latitude in (at.south, north - at.tall) if is_sound else ():
        corner, up, right = to_earth_centred(
            np.array([latitude, latitude + at.tall, latitude]), np.array([at.west, at.west, at.west + at.wide])
        )
        tall, wide = (float(np.linalg.norm(end - corner)) * (1 + CHORD_SHARE) for end in (up, right))
        is_sound = is_sound and tall >= float(grid.cell_height_metres) - ROUNDED_METRES
        is_sound = is_sound and wide >= float(grid.cell_width_metres) - ROUNDED_METRES
    if not is_sound:
        raise ParameterError(
            "the cells of this map are smaller on the ground than it says, so that it would promise less than it says;"
            " get the map again"
        )


def _find_degrees(grid: PlaneGrid) -> DegreeCorner | None:
    """Find where a grid lies on the earth, by its mesh or by its degrees; None if it does not say."""
    corner = grid.corner
    if corner is None:
        return grid.degrees
    if corner.level not in range(1, len(MESH_UNITS) + 1):
        return DegreeCorner(south=math.nan, west=math.nan, tall=math.nan, wide=math.nan)
    units = MESH_UNITS[corner.level - 1]
    tall, wide = units / MESH_PER_DEGREE_NORTH, units / MESH_PER_DEGREE_EAST
    return DegreeCorner(south=corner.row * tall, west=MESH_WEST + corner.column * wide, tall=tall, wide=wide)


def choose_cells(places: Places, most: int) -> Integers:
    """Choose cells all over the map: corners, cells in even steps and, on a map with levels, strict ones."""
    ends = [0, places.size - 1]
    if isinstance(places, PlaneGrid | ElasticGrid):
        columns = places.columns if isinstance(places, PlaneGrid) else places.grid.columns
        ends += [columns - 1, places.size - columns]
    strict: Integers = np.zeros(0, dtype=np.int64)
    if isinstance(places, ElasticGrid):
        strict = places.strict[:: max(1, len(places.strict) // 6)][:8]
    spread = np.linspace(0, places.size - 1, most).astype(np.int64)
    return np.unique(np.concatenate([ends, strict, spread]).astype(np.int64))


def _check_floats(places: Places, cells: Integers, squares: list[list[int]]) -> None:
    """Compare the floats that measures are made of with the exact distances."""
    unit = places.unit_metres
    for cell, row in zip(cells.tolist(), squares, strict=True):
        metres = distances_from(places, cell)
        if not np.isfinite(metres).all() or float(metres.min()) < 0:
            raise _no_metric(text("a distance is not a number"))
        for other, square in zip(cells.tolist(), row, strict=True):
            exact = float(unit * Fraction(isqrt(square << 128), 1 << 64))
            if abs(float(metres[other]) - exact) > ROUNDING * exact:
                raise _no_metric(text("a distance in floats is not the exact one"))


def _check_triangles(squares: list[list[int]]) -> None:
    """Compare every triple: by floats where they are clear, by integers where they are not."""
    roots = np.sqrt(np.array(squares, dtype=object).astype(np.float64))
    excess = roots[:, None, :] - roots[:, :, None] - roots[None, :, :]  # d(i,k) - d(i,j) - d(j,k)
    margin = CLEAR * float(roots.max())
    if bool((excess > margin).any()):
        raise _no_metric(text("a detour is shorter than the way itself"))
    for i, j, k in np.argwhere(np.abs(excess) <= margin).tolist():
        if not is_no_longer(squares[i][k], squares[i][j], squares[j][k]):
            raise _no_metric(text("a detour is shorter than the way itself"))


def is_no_longer(whole: int, first: int, second: int) -> bool:
    """Tell whether sqrt(whole) <= sqrt(first) + sqrt(second), exactly.

    >>> is_no_longer(25, 9, 4), is_no_longer(26, 9, 4)
    (True, False)
    """
    rest = whole - first - second
    return rest <= 0 or rest * rest <= 4 * first * second


def _no_metric(reason: Text) -> ParameterError:
    return ParameterError(
        "the distances of this map are no metric ({reason}), so nothing can be promised on it; use smaller cells or a"
        " smaller area, and please report this map",
        reason=reason,
    )
