"""Cells of the Japanese standard grid (JIS X 0410), by arithmetic: no list of all labels is ever made.

A full code is read from the left: 4 digits (first level, 40' x 1 degree), 2 digits 0-7 (second, 5' x 7'30"),
2 digits 0-9 (third, 30" x 45"), then one digit 1-4 each for halves, quarters and eighths (1 SW, 2 SE, 3 NW, 4 NE).

Order: cells are numbered in the order of their codes read as numbers, so the cells inside a coarser cell are
neighbours in the numbering and, over whole first-level areas, the coarser cell is an integer quotient.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError, SchemaError
from sudare.schema.labels import Labels, checked_codes, shown
from sudare.schema.radix import Codes
from sudare.schema.raw import trimmed

MESH_TEXT = r"[1-9][0-9]{3}([0-7]{2}([0-9]{2}([1-4]([1-4]([1-4])?)?)?)?)?"
"""A code of any level."""

DIGITS = (4, 6, 8, 9, 10, 11)
"""How long the code of level 1, 2, ... 6 is."""

_FANOUT = (64, 100, 4, 4, 4)  # cells of level 2, 3, ... inside one of the level above
_UNITS = (640, 80, 8, 4, 2, 1)  # side of a cell in sides of the smallest cell (3.75" north, 5.625" east)
_UNITS_PER_DEGREE_NORTH, _UNITS_PER_DEGREE_EAST, _WEST = 960, 640, 100
_CODE = re.compile(MESH_TEXT)


class Bounds(NamedTuple):
    """South-west corners in degrees, and the size of one cell in degrees."""

    south: NDArray[np.float64]
    west: NDArray[np.float64]
    height: float
    width: float


@dataclass(frozen=True, eq=False)
class MeshCells:
    """The cells of one level: all of some first-level areas, or those in a list of codes, which alone can hold people.

    >>> cells = MeshCells(level=3, area=("5339",))
    >>> cells.size, cells.encode("53394526"), cells.encode(5339452621), cells.encode("533945")
    (6400, 3726, 3726, None)
    >>> cells.labels(np.array([3726])).tolist()
    ['53394526']
    """

    level: int
    area: tuple[str, ...] | None = None
    cells: Codes | None = None
    kind: ClassVar[Literal["mesh"]] = "mesh"
    is_ordered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.level, bool) or self.level not in range(1, 7):
            raise SchemaError("level ({level}) must be 1, 2, 3, 4 (1/2), 5 (1/4) or 6 (1/8)", level=self.level)
        if (self.area is None) == (self.cells is None):
            raise SchemaError("a mesh needs either first-level codes (area) or a list of cells (area_file), not both")
        if self.area is not None:
            object.__setattr__(self, "area", _checked_area(self.area))
        if self.cells is not None:
            object.__setattr__(self, "cells", _checked_cells(self.cells, self.level))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MeshCells):
            return NotImplemented
        return (self.level, self.area, self._listed) == (other.level, other.area, other._listed)

    def __hash__(self) -> int:
        return hash((self.level, self.area, self._listed))

    @property
    def _listed(self) -> bytes | None:
        return None if self.cells is None else self.cells.tobytes()

    @property
    def size(self) -> int:
        """Count the cells."""
        return len(self._first) * self._inside if self.cells is None else len(self.cells)

    @property
    def _inside(self) -> int:
        return math.prod(_FANOUT[: self.level - 1])

    @cached_property
    def _first(self) -> Codes:
        return np.array([int(code) for code in self.area or ()], dtype=np.int64)

    def numbers(self, codes: Codes) -> Codes:
        """Give the full JIS codes as integers."""
        codes = checked_codes(codes, self.size)
        if self.cells is not None:
            return self.cells[codes]
        first, rest = np.divmod(codes, self._inside)
        numbers = self._first[first]
        for fanout, stride in _steps(self.level):
            step, rest = np.divmod(rest, stride)
            numbers = numbers * _SHIFT[fanout] + _digits(step, fanout)
        return numbers

    def find(self, numbers: Codes) -> Codes:
        """Find the cells of full JIS codes of this level, given as integers; -1 where the code is not covered."""
        numbers = np.asarray(numbers, dtype=np.int64)
        if self.cells is not None:
            return _position(self.cells, numbers)
        first = _position(self._first, numbers // 10 ** (DIGITS[self.level - 1] - 4))
        codes, is_valid, rest = np.maximum(first, 0), first >= 0, DIGITS[self.level - 1] - 4
        for fanout, _ in _steps(self.level):
            rest -= len(str(_SHIFT[fanout])) - 1
            step = _undigits(numbers // 10**rest % _SHIFT[fanout], fanout)
            is_valid &= step >= 0
            codes = codes * fanout + np.maximum(step, 0)
        return np.where(is_valid, codes, -1)

    def labels(self, codes: Codes) -> Labels:
        """Write cells as JIS codes."""
        return self.numbers(codes).astype(f"U{DIGITS[self.level - 1]}").astype(np.object_)

    def code(self, label: str) -> int:
        """Find the cell with this code; KeyError if it is not covered."""
        code = self.encode(label) if len(label) == DIGITS[self.level - 1] else None
        if code is None:
            raise KeyError(label)
        return code

    def codes(self, label: str) -> range:
        """Find the cells inside a cell of this or a coarser level; KeyError if there is none.

        >>> len(MeshCells(level=3, area=("5339",)).codes("533945"))
        100
        """
        if len(label) not in DIGITS[: self.level] or not _CODE.fullmatch(label):
            raise KeyError(label)
        level = DIGITS.index(len(label)) + 1
        if self.cells is None:
            inside = math.prod(_FANOUT[level - 1 : self.level - 1])
            first = self.coarse(level).code(label) * inside
            return range(first, first + inside)
        shift = 10 ** (DIGITS[self.level - 1] - len(label))
        low, high = np.searchsorted(self.cells, [int(label) * shift, (int(label) + 1) * shift]).tolist()
        if low == high:
            raise KeyError(label)
        return range(low, high)

    def text(self, value: object) -> str:
        """Write a raw value as the text that is compared with marks of missing values."""
        return trimmed(value)

    def encode(self, value: object) -> int | None:
        """Find the cell of a raw code, text or integer, of this level or a finer one; None if it is not covered."""
        text = trimmed(value)
        length = DIGITS[self.level - 1]
        if len(text) < length or not _CODE.fullmatch(text):
            return None
        code = int(self.find(np.array([int(text[:length])]))[0])
        return code if code >= 0 else None

    def coarse(self, level: int) -> MeshCells:
        """Give the cells of a coarser level that cover these."""
        if not 1 <= level <= self.level:
            raise ParameterError("mesh level ({level}) must be between 1 and {own}", level=level, own=self.level)
        if self.cells is None:
            return MeshCells(level=level, area=self.area)
        return MeshCells(level=level, cells=_distinct(self._cut(self.cells, level)))

    def lift(self, codes: Codes, level: int) -> Codes:
        """Find the cell of `self.coarse(level)` in which each cell lies.

        >>> MeshCells(level=3, area=("5339", "5340")).lift(np.array([3726, 6400]), 1).tolist()
        [0, 1]
        """
        codes = checked_codes(codes, self.size)
        if self.cells is None:
            return codes // math.prod(_FANOUT[level - 1 : self.level - 1])
        above = _distinct(self._cut(self.cells, level))
        lifted: Codes = np.searchsorted(above, self._cut(self.cells[codes], level)).astype(np.int64)
        return lifted

    def _cut(self, numbers: Codes, level: int) -> Codes:
        shift: int = 10 ** (DIGITS[self.level - 1] - DIGITS[level - 1])
        return numbers // shift

    def grid(self, codes: Codes) -> tuple[Codes, Codes]:
        """Give the row (northwards) and column (eastwards) of cells, counted in cells from 0 N, 100 E."""
        numbers, rest = self.numbers(codes), DIGITS[self.level - 1] - 4
        rows, columns = np.divmod(numbers // 10**rest, 100)
        for fanout, _ in _steps(self.level):
            rest -= len(str(_SHIFT[fanout])) - 1
            side = math.isqrt(fanout)
            north, east = np.divmod(_undigits(numbers // 10**rest % _SHIFT[fanout], fanout), side)
            rows, columns = rows * side + north, columns * side + east
        return rows, columns

    def bounds(self, codes: Codes) -> Bounds:
        """Give south-west corners and the cell size, in degrees.

        >>> MeshCells(level=1, area=("5339",)).bounds(np.array([0]))
        Bounds(south=array([35.33333333]), west=array([139.]), height=0.6666666666666666, width=1.0)
        """
        rows, columns = self.grid(codes)
        units = _UNITS[self.level - 1]
        return Bounds(
            rows * units / _UNITS_PER_DEGREE_NORTH,
            _WEST + columns * units / _UNITS_PER_DEGREE_EAST,
            units / _UNITS_PER_DEGREE_NORTH,
            units / _UNITS_PER_DEGREE_EAST,
        )


_SHIFT = {64: 100, 100: 100, 4: 10}  # how far the digits of one step move a code to the left


def _steps(level: int) -> Iterable[tuple[int, int]]:
    """List for every level below the first its fan-out and how many of our cells one of its cells holds."""
    used = _FANOUT[: level - 1]
    return [(fanout, math.prod(used[index + 1 :])) for index, fanout in enumerate(used)]


def _digits(step: Codes, fanout: int) -> Codes:
    if fanout == 64:
        return step // 8 * 10 + step % 8
    return step + 1 if fanout == 4 else step


def _undigits(digits: Codes, fanout: int) -> Codes:
    if fanout == 64:
        row, column = np.divmod(digits, 10)
        return np.where((row < 8) & (column < 8), row * 8 + column, -1)
    if fanout == 4:
        return np.where((digits >= 1) & (digits <= 4), digits - 1, -1)
    return digits


def _position(ordered: Codes, numbers: Codes) -> Codes:
    if not len(ordered):
        return np.full(numbers.shape, -1, dtype=np.int64)
    position = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    return np.where(ordered[position] == numbers, position, -1)


def _distinct(ordered: Codes) -> Codes:
    """Drop repeats from a sorted array (np.unique would sort or hash again)."""
    is_new = np.ones(len(ordered), dtype=np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


def _checked_area(area: Iterable[str]) -> tuple[str, ...]:
    codes = tuple(str(code) for code in area)
    wrong = [code for code in codes if len(code) != 4 or not _CODE.fullmatch(code)]
    if wrong or not codes:
        raise SchemaError(
            "area ({shown}) must list first-level mesh codes of 4 digits, such as 5339", shown=shown(wrong)
        )
    if len(set(codes)) < len(codes):
        raise SchemaError("area holds a code twice; list every first-level code once")
    return tuple(sorted(codes))


def _checked_cells(cells: Codes | Sequence[str], level: int) -> Codes:
    """Check and sort the listed codes; a cell listed twice (two towns share it) is one cell."""
    texts = [] if isinstance(cells, np.ndarray) else [str(cell) for cell in cells]
    wrong = [text for text in texts if not (text.isascii() and text.isdigit() and len(text) < 19)]
    numbers = np.array([int(text) for text in texts] if not wrong else [], dtype=np.int64)
    numbers = _distinct(np.sort(np.asarray(cells, dtype=np.int64) if isinstance(cells, np.ndarray) else numbers))
    wrong = wrong or [str(number) for number in numbers[~_are_codes(numbers, level)].tolist()]
    if wrong or not len(numbers):
        raise SchemaError(
            "cells ({shown}) must list mesh codes of level {level} ({digits} digits each)",
            shown=shown(wrong),
            level=level,
            digits=DIGITS[level - 1],
        )
    numbers.flags.writeable = False
    return numbers


def _are_codes(numbers: Codes, level: int) -> NDArray[np.bool_]:
    """Tell which integers are JIS codes of a level."""
    rest = DIGITS[level - 1] - 4
    first = numbers // 10**rest
    are_valid: NDArray[np.bool_] = (first >= 1000) & (first <= 9999)
    for fanout, _ in _steps(level):
        rest -= len(str(_SHIFT[fanout])) - 1
        are_valid &= _undigits(numbers // 10**rest % _SHIFT[fanout], fanout) >= 0
    return are_valid
