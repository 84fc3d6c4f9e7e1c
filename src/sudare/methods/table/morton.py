"""Mesh cells along a Z-curve, by arithmetic.

`MeshCells` numbers cells in the order of their JIS codes: rows of 8 x 8 second-level cells inside a first-level cell,
rows of 10 x 10 third-level cells inside a second-level cell, then quarters, which are a Z already (SW, SE, NW, NE).
Neighbours in that order may lie 10 cells apart. Here each of the blocks is walked along its own Z instead, and the
first-level cells likewise: runs of 4, 16, 64 ... cells are compact, and every JIS cell of every level is one run.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.schema import Schema
from sudare.schema.arrays import Codes
from sudare.schema.mesh import MeshCells

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


# The order in which halvings meet the cells: every cell has a path of bits from the root, in tables of any size.
#
# radix the rank of the cell in mixed radix, first attribute most significant: halves are runs of that order morton
# the bits of all attributes in turn, the most significant first (Z-order); mesh cells by `z_ranks`
#
# A path is kept in words of 62 bits, the first word most significant, so sorted words are sorted paths. An attribute
# whose size is no power of two leaves places without a cell; a half without any cell is public knowledge and gets
# nobody.


Order = Literal["morton", "radix"]
ORDERS = ("morton", "radix")
Moves = list[tuple[int, int, int]]  # bit, to which number, to which place of it
CHUNK_BITS = 16
WORD_BITS = 62  # of a path in one int64: sums of two words never wrap


@dataclass(frozen=True, kw_only=True)
class CellOrder:
    """Paths of the cells of a schema.

    An axis is a number of which a halving reads one bit: an attribute ("morton") or a word of the code ("radix").

    >>> from sudare.schema import Attribute, NumberBins
    >>> sides = [Attribute(name=name, domain=NumberBins.of_width(0, 4, 1)) for name in ("row", "column")]
    >>> order = CellOrder(schema=Schema(name="square", attributes=tuple(sides)), order="morton")
    >>> order.levels, order.ranks(np.array([[0], [1], [4], [5], [2]])).tolist()
    (4, [0, 1, 2, 3, 4])
    """

    schema: Schema
    order: Order = "morton"

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ParameterError("order ({order}) must be morton or radix", order=self.order)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Count the values of every axis."""
        if self.order == "morton":
            return self.schema.sizes
        sizes = self.schema.sizes
        return tuple(int(np.prod([sizes[p] for p in word], dtype=object)) for word in self.schema.radix.words)

    @cached_property
    def plan(self) -> tuple[tuple[int, int], ...]:
        """List for every level, from the root down, the axis and the bit of it that is read."""
        widths = [(size - 1).bit_length() for size in self.sizes]
        if self.order == "radix":
            return tuple((axis, bit) for axis, width in enumerate(widths) for bit in reversed(range(width)))
        turns = range(max(widths, default=0))
        return tuple((a, width - 1 - turn) for turn in turns for a, width in enumerate(widths) if turn < width)

    @property
    def levels(self) -> int:
        """Count the halvings between the root and a cell."""
        return len(self.plan)

    @property
    def words(self) -> int:
        """Count the words of a path."""
        return max(1, -(-self.levels // WORD_BITS))

    @cached_property
    def is_full(self) -> bool:
        """Tell whether every path is a cell."""
        return all(size & (size - 1) == 0 for size in self.sizes)

    def last_bit(self, level: int) -> bool:
        """Give the bit of the largest value of the axis: where it is 0, the right half at the edge holds no cell."""
        axis, bit = self.plan[level]
        return bool((self.sizes[axis] - 1) >> bit & 1)

    def paths(self, codes: Codes) -> Codes:
        """Write cells (m, words of the code) as paths (m, words of the path)."""
        axes = self._axes(codes)
        if self.order == "morton":
            return sum_of_bits(axes, self._moves_to_paths, self.words)
        paths = np.zeros((len(codes), self.words), dtype=np.int64)
        for start, length in self._runs:
            axis, top = self.plan[start]
            field = axes[axis] >> (top - length + 1) & ((1 << length) - 1)
            word, shift = self.place(start + length - 1)
            paths[:, word] |= field << shift
        return paths

    def codes(self, paths: Codes) -> Codes:
        """Read paths back as cells."""
        if self.order == "morton":
            found = sum_of_bits(list(paths.T), self._moves_to_axes, len(self.sizes))
            columns = [self._unwound(axis, found[:, axis]) for axis in range(len(self.sizes))]
            return self.schema.radix.encode(np.column_stack(columns))
        axes = [np.zeros(len(paths), dtype=np.int64) for _ in self.sizes]
        for start, length in self._runs:
            axis, top = self.plan[start]
            word, shift = self.place(start + length - 1)
            axes[axis] |= (paths[:, word] >> shift & ((1 << length) - 1)) << (top - length + 1)
        return np.column_stack(axes)

    def ranks(self, codes: Codes) -> Codes:
        """Give paths of at most 62 bits as plain numbers."""
        if self.levels > WORD_BITS:
            raise ParameterError("ranks need at most {most} halvings, not {levels}", most=WORD_BITS, levels=self.levels)
        return self.paths(codes)[:, 0] >> (WORD_BITS - self.levels)

    def place(self, level: int) -> tuple[int, int]:
        """Give the word that holds the bit of a level, and its place there."""
        return level // WORD_BITS, WORD_BITS - 1 - level % WORD_BITS

    def bits(self, paths: Codes, level: int) -> Codes:
        """Read which half the paths take at a level."""
        word, shift = self.place(level)
        return paths[:, word] >> shift & 1

    @cached_property
    def _moves_to_paths(self) -> list[Moves]:
        """For every axis, which bit of it goes to which word of the path, and where."""
        moves: list[Moves] = [[] for _ in self.sizes]
        for level, (axis, bit) in enumerate(self.plan):
            word, shift = self.place(level)
            moves[axis].append((bit, word, shift))
        return moves

    @cached_property
    def _moves_to_axes(self) -> list[Moves]:
        """For every word of a path, which bit of it goes to which axis, and where."""
        moves: list[Moves] = [[] for _ in range(self.words)]
        for level, (axis, bit) in enumerate(self.plan):
            word, shift = self.place(level)
            moves[word].append((shift, axis, bit))
        return moves

    @cached_property
    def _runs(self) -> list[tuple[int, int]]:
        """Levels that read neighbouring bits of one axis into one word, so that they move together."""
        runs: list[tuple[int, int]] = []
        for level, (axis, bit) in enumerate(self.plan):
            if runs:
                start, length = runs[-1]
                goes_on = self.plan[level - 1] == (axis, bit + 1) and start // WORD_BITS == level // WORD_BITS
                if goes_on:
                    runs[-1] = start, length + 1
                    continue
            runs.append((level, 1))
        return runs

    def _axes(self, codes: Codes) -> list[Codes]:
        if self.order == "radix":
            return list(np.asarray(codes, dtype=np.int64).T)
        radix = self.schema.radix
        return [self._wound(axis, radix.column(codes, axis)) for axis in range(len(self.sizes))]

    def ranks_of(self, axis: int, column: Codes) -> Codes:
        """Give the places of values of an axis along it: that of a mesh is a Z-curve."""
        return self._wound(axis, column)

    def axis_values(self, paths: Codes) -> Codes:
        """Read the bits of paths back by axis: (paths, axes)."""
        return sum_of_bits(list(paths.T), self._moves_to_axes, len(self.sizes))

    def _wound(self, axis: int, column: Codes) -> Codes:
        domain = self.schema.attributes[axis].domain
        return z_ranks(domain, column) if isinstance(domain, MeshCells) else column

    def _unwound(self, axis: int, ranks: Codes) -> Codes:
        domain = self.schema.attributes[axis].domain
        return z_codes(domain, ranks) if isinstance(domain, MeshCells) else ranks


def sum_of_bits(sources: list[Codes], moves: list[Moves], targets: int) -> Codes:
    """Move bits of several numbers to places of others, 16 bits at a time by tables.

    >>> sum_of_bits([np.array([1, 2, 3])], [[(0, 0, 4), (1, 1, 0)]], 2).tolist()
    [[16, 0], [0, 1], [16, 1]]
    """
    rows = len(sources[0]) if sources else 0
    found = np.zeros((targets, rows), dtype=np.int64)
    for source, own in zip(sources, moves, strict=True):
        for start in range(0, max((bit for bit, _, _ in own), default=-1) + 1, CHUNK_BITS):
            chunk = source >> start & (2**CHUNK_BITS - 1)
            here = [(bit - start, to, shift) for bit, to, shift in own if 0 <= bit - start < CHUNK_BITS]
            for target in sorted({to for _, to, _ in here}):
                found[target] |= _table([(bit, shift) for bit, to, shift in here if to == target])[chunk]
    return np.ascontiguousarray(found.T)


def _table(moves: list[tuple[int, int]]) -> Codes:
    """What every number of at most 16 bits becomes."""
    width = max(bit for bit, _ in moves) + 1
    places = dict(moves)
    table = np.zeros(1, dtype=np.int64)
    for bit in range(width):
        moved = np.int64(1) << places[bit] if bit in places else np.int64(0)
        table = np.concatenate([table, table | moved])
    return np.tile(table, 2 ** (CHUNK_BITS - width)) if width < CHUNK_BITS else table


def sorted_paths(paths: Codes) -> NDArray[np.intp] | None:
    """Find the order that sorts paths; None if they are sorted.

    >>> sorted_paths(np.array([[2], [1]])).tolist()
    [1, 0]
    """
    if len(paths) < 2:
        return None
    if paths.shape[1] == 1:
        only = paths[:, 0]
        return None if bool((only[1:] >= only[:-1]).all()) else np.argsort(only)
    return np.lexsort(paths.T[::-1])
