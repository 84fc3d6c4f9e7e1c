"""Mesh cells along a Z-curve, by arithmetic.

`MeshCells` numbers cells in the order of their JIS codes: rows of 8 x 8 second-level cells inside a first-level cell,
rows of 10 x 10 third-level cells inside a second-level cell, then quarters, which are a Z already (SW, SE, NW, NE).
Neighbours in that order may lie 10 cells apart. Here each of the blocks is walked along its own Z instead, and the
first-level cells likewise: runs of 4, 16, 64 ... cells are compact, and every JIS cell of every level is one run.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from sudare.schema.mesh import MeshCells
from sudare.schema.radix import Codes

_SIDES = (8, 10, 2, 2, 2)  # cells of level 2, 3, ... along one side of a cell of the level above


def z_ranks(cells: MeshCells, codes: Codes) -> Codes:
    """Find the places of mesh cells on the Z-curve through all covered cells; codes behind the cells stay behind.

    >>> z_ranks(MeshCells(level=2, area=("5339",)), np.array([0, 1, 8, 9, 2])).tolist()
    [0, 1, 2, 3, 4]
    """
    codes = np.asarray(codes, dtype=np.int64)
    places = codes.copy()
    inside = codes < cells.size
    places[inside] = _places(cells, codes[inside])
    return places


def z_codes(cells: MeshCells, ranks: Codes) -> Codes:
    """Find the mesh cells at places of the Z-curve: the inverse of `z_ranks`.

    >>> z_codes(MeshCells(level=2, area=("5339",)), np.array([0, 1, 2, 3, 4])).tolist()
    [0, 1, 8, 9, 2]
    """
    ranks = np.asarray(ranks, dtype=np.int64)
    codes = ranks.copy()
    inside = ranks < cells.size
    codes[inside] = _cells(cells, ranks[inside])
    return codes


def _places(cells: MeshCells, codes: Codes) -> Codes:
    if cells.cells is not None:
        return _listed(cells)[1][codes]
    blocks = _first_blocks(cells)
    return _walk(codes, cells.level, blocks, forwards=True)


def _cells(cells: MeshCells, ranks: Codes) -> Codes:
    if cells.cells is not None:
        return _listed(cells)[0][ranks]
    blocks = np.argsort(_first_blocks(cells))
    return _walk(ranks, cells.level, blocks, forwards=False)


def _walk(codes: Codes, level: int, blocks: Codes, *, forwards: bool) -> Codes:
    """Read a number block by block from the left and renumber every block."""
    sides = _SIDES[: level - 1]
    rest_size = math.prod(side * side for side in sides)
    step, rest = np.divmod(codes, rest_size)
    walked = blocks[step]
    for side in sides:
        rest_size //= side * side
        step, rest = np.divmod(rest, rest_size)
        walked = walked * (side * side) + _block(side, forwards)[step]
    return walked


@functools.cache
def _block(side: int, forwards: bool) -> Codes:
    """The place of every cell of a square block along its Z, rows northwards first; or the cell at every place."""
    rows, columns = np.divmod(np.arange(side * side, dtype=np.int64), side)
    order = np.argsort(interleaved(rows, columns), kind="stable")
    return np.argsort(order) if forwards else order


def _first_blocks(cells: MeshCells) -> Codes:
    """The place of every first-level cell of the area along the Z of all."""
    rows, columns = np.divmod(np.array([int(code) for code in cells.area or ()], dtype=np.int64), 100)
    return np.argsort(np.argsort(interleaved(rows, columns), kind="stable"))


@functools.lru_cache(maxsize=8)
def _listed(cells: MeshCells) -> tuple[Codes, Codes]:
    """For a list of cells: the cell at every place, and the place of every cell. The list is public."""
    every = np.arange(cells.size, dtype=np.int64)
    first = cells.coarse(1)
    whole = MeshCells(level=cells.level, area=tuple(str(code) for code in first.numbers(np.arange(first.size))))
    order = np.argsort(_places(whole, whole.find(cells.numbers(every))), kind="stable")
    places = np.empty_like(order)
    places[order] = every
    return order, places


def interleaved(rows: Codes, columns: Codes) -> Codes:
    """Interleave the bits of two numbers below 2**20, that of the row first.

    >>> interleaved(np.array([1, 2]), np.array([1, 0])).tolist()
    [3, 8]
    """
    found = np.zeros(np.broadcast(rows, columns).shape, dtype=np.int64)
    for bit in range(20):
        found |= (columns >> bit & 1) << 2 * bit | (rows >> bit & 1) << 2 * bit + 1
    return found
