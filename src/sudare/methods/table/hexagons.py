"""Cells of H3 as a map: a category whose values are all H3 cells of one resolution is opened by their parents.

An H3 index holds its whole path: the base cell, and a digit from 0 to 6 for every resolution. So the parent of a cell
is read off, and so are its coordinates on the grid of its base cell, where the neighbours of a cell are among the
eight around it. No package is needed. Source: the index and the coordinates of H3 (Uber), h3geo.org/docs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sudare.schema import Attribute, Values
from sudare.schema.arrays import Codes

DIGITS = 15  # hexadecimal, of a cell written as text
CELL_MODE, BASE_CELLS, FINEST, UNUSED = 1, 122, 15, 7
STEPS = (4, 2, 0)  # resolutions above the cells that are measured: 2,401 cells, 49 and one
FAN = 49  # cells of two resolutions below
MOST_GRID = 2**24  # places of the rectangle around all cells
# One step down in coordinates (row, column), for odd and even resolutions, and what each digit adds.
ODD, EVEN = ((2, 1), (-1, 3)), ((3, -1), (1, 2))
OFFSETS = np.array([(0, 0), (-1, -1), (0, 1), (-1, 0), (1, 0), (0, -1), (1, 1)], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class HexagonCells:
    """The cells of an attribute: their rows and columns, and their leaves in a tree of parents.

    `tops` counts the nodes of the first of three levels.
    """

    rows: Codes
    columns: Codes
    leaf: Codes
    tops: int


@lru_cache(maxsize=4)
def find_hexagons(attribute: Attribute) -> HexagonCells | None:
    """Read the values of an attribute as cells of H3; None if they are none, or too coarse or too scattered."""
    domain = attribute.domain
    if not isinstance(domain, Values) or attribute.hierarchy is not None:
        return None
    index = read_cells(domain.values)
    if index is None:
        return None
    resolution = int(index[0] >> 52 & 15)
    if resolution < STEPS[0] or len(np.unique(index)) < len(index):
        return None
    top, number = np.unique(_parent_path(index, resolution - STEPS[0]), return_inverse=True)
    leaf = number.astype(np.int64)
    for level in range(resolution - STEPS[0] + 1, resolution + 1):
        leaf = leaf * 7 + _digit(index, level)
    rows, columns = _place_apart(index, resolution)
    branches = np.arange(len(attribute.branches), dtype=np.int64)  # missing and other places stand apart
    if (int(rows.max()) + 4) * (int(columns.max()) + 1) > MOST_GRID:
        return None
    return HexagonCells(
        rows=np.append(rows, np.full(branches.size, int(rows.max()) + 3)),
        columns=np.append(columns, branches % (int(columns.max()) + 1)),
        leaf=np.append(leaf, (top.size + branches) * FAN * FAN),
        tops=top.size + branches.size,
    )


def read_cells(values: tuple[str, ...]) -> Codes | None:
    """Read texts as H3 cells of one resolution; None if any is none.

    >>> read_cells(("8844c0a305fffff",)) is None, read_cells(("Tokyo",)) is None
    (False, True)
    """
    if not values or any(len(value) != DIGITS for value in values):
        return None
    try:
        index = np.array([int(value, 16) for value in values], dtype=np.int64)
    except ValueError:
        return None
    resolution = int(index[0] >> 52 & 15)
    is_cell = (index >> 59 == CELL_MODE) & (index >> 56 & 7 == 0) & (index >> 52 & 15 == resolution)
    is_cell &= index >> 45 & 127 < BASE_CELLS
    for level in range(1, FINEST + 1):
        is_cell &= (_digit(index, level) < UNUSED) if level <= resolution else (_digit(index, level) == UNUSED)
    return index if bool(is_cell.all()) else None


def _digit(index: Codes, level: int) -> Codes:
    return index >> 3 * (FINEST - level) & 7


def _parent_path(index: Codes, level: int) -> Codes:
    """The base cell and the digits down to a resolution."""
    return (index & (1 << 52) - 1) >> 3 * (FINEST - level)


def find_coordinates(index: Codes, resolution: int) -> tuple[Codes, Codes]:
    """Rows and columns on the grid of the base cell; they may be negative."""
    row = column = np.zeros(len(index), dtype=np.int64)
    for level in range(1, resolution + 1):
        (a, b), (c, d) = ODD if level % 2 else EVEN
        offset = OFFSETS[_digit(index, level)]
        row, column = a * row + b * column + offset[:, 0], c * row + d * column + offset[:, 1]
    return row, column


def _place_apart(index: Codes, resolution: int) -> tuple[Codes, Codes]:
    """Rows and columns from 0 on; base cells stand beside each other with a gap."""
    rows, columns = find_coordinates(index, resolution)
    east = 0
    for base in np.unique(index >> 45 & 127):
        own = np.flatnonzero(index >> 45 & 127 == base)
        rows[own] -= rows[own].min()
        columns[own] += east - columns[own].min()
        east = int(columns[own].max()) + 4
    return rows, columns
