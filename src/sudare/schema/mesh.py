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
from numpy.typing import ArrayLike

from sudare.errors import ParameterError, SchemaError
from sudare.schema.arrays import Booleans, Codes, Labels, Reals
from sudare.schema.raw import check_codes, list_some, trim

MESH_TEXT = r"[1-9][0-9]{3}([0-7]{2}([0-9]{2}([1-4]([1-4]([1-4])?)?)?)?)?"
"""A code of any level."""

DIGITS = (4, 6, 8, 9, 10, 11)
"""How long the code of level 1, 2, ... 6 is."""

_FANOUT = (64, 100, 4, 4, 4)  # cells of level 2, 3, ... inside one of the level above
MESH_UNITS = (640, 80, 8, 4, 2, 1)  # side of a cell of level 1, ... 6 in sides of the smallest cell
MESH_PER_DEGREE_NORTH, MESH_PER_DEGREE_EAST = 960, 640  # smallest cells: 3.75" to the north, 5.625" to the east
MESH_WEST = 100  # degrees: where the columns of the mesh begin
_CODE = re.compile(MESH_TEXT)


class Bounds(NamedTuple):
    """South-west corners in degrees, and the size of one cell in degrees."""

    south: Reals
    west: Reals
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
            object.__setattr__(self, "area", _check_area(self.area))
        if self.cells is not None:
            object.__setattr__(self, "cells", _check_cells(self.cells, self.level))

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
        codes = check_codes(codes, self.size)
        if self.cells is not None:
            return self.cells[codes]
        first, rest = np.divmod(codes, self._inside)
        numbers = self._first[first]
        for fanout, stride in _list_steps(self.level):
            step, rest = np.divmod(rest, stride)
            numbers = numbers * _SHIFT[fanout] + _split_digits(step, fanout)
        return numbers

    def find(self, numbers: Codes) -> Codes:
        """Find the cells of full JIS codes of this level, given as integers; -1 where the code is not covered."""
        numbers = np.asarray(numbers, dtype=np.int64)
        if self.cells is not None:
            return _find_position(self.cells, numbers)
        first = _find_position(self._first, numbers // 10 ** (DIGITS[self.level - 1] - 4))
        codes, is_valid, rest = np.maximum(first, 0), first >= 0, DIGITS[self.level - 1] - 4
        for fanout, _ in _list_steps(self.level):
            rest -= len(str(_SHIFT[fanout])) - 1
            step = _join_digits(numbers // 10**rest % _SHIFT[fanout], fanout)
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
        return trim(value)

    def encode(self, value: object) -> int | None:
        """Find the cell of a raw code, text or integer, of this level or a finer one; None if it is not covered."""
        text = trim(value)
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
        return MeshCells(level=level, cells=_drop_repeats(self._shorten(self.cells, level)))

    def lift(self, codes: Codes, level: int) -> Codes:
        """Find the cell of `self.coarse(level)` in which each cell lies.

        >>> MeshCells(level=3, area=("5339", "5340")).lift(np.array([3726, 6400]), 1).tolist()
        [0, 1]
        """
        codes = check_codes(codes, self.size)
        if self.cells is None:
            return codes // math.prod(_FANOUT[level - 1 : self.level - 1])
        above = _drop_repeats(self._shorten(self.cells, level))
        lifted: Codes = np.searchsorted(above, self._shorten(self.cells[codes], level)).astype(np.int64)
        return lifted

    def _shorten(self, numbers: Codes, level: int) -> Codes:
        shift: int = 10 ** (DIGITS[self.level - 1] - DIGITS[level - 1])
        return numbers // shift

    def grid(self, codes: Codes) -> tuple[Codes, Codes]:
        """Give the row (northwards) and column (eastwards) of cells, counted in cells from 0 N, 100 E."""
        numbers, rest = self.numbers(codes), DIGITS[self.level - 1] - 4
        rows, columns = np.divmod(numbers // 10**rest, 100)
        for fanout, _ in _list_steps(self.level):
            rest -= len(str(_SHIFT[fanout])) - 1
            side = math.isqrt(fanout)
            north, east = np.divmod(_join_digits(numbers // 10**rest % _SHIFT[fanout], fanout), side)
            rows, columns = rows * side + north, columns * side + east
        return rows, columns

    def bounds(self, codes: Codes) -> Bounds:
        """Give south-west corners and the cell size, in degrees.

        >>> MeshCells(level=1, area=("5339",)).bounds(np.array([0]))
        Bounds(south=array([35.33333333]), west=array([139.]), height=0.6666666666666666, width=1.0)
        """
        rows, columns = self.grid(codes)
        units = MESH_UNITS[self.level - 1]
        return Bounds(
            rows * units / MESH_PER_DEGREE_NORTH,
            MESH_WEST + columns * units / MESH_PER_DEGREE_EAST,
            units / MESH_PER_DEGREE_NORTH,
            units / MESH_PER_DEGREE_EAST,
        )


_SHIFT = {64: 100, 100: 100, 4: 10}  # how far the digits of one step move a code to the left


def _list_steps(level: int) -> Iterable[tuple[int, int]]:
    """List for every level below the first its fan-out and how many of our cells one of its cells holds."""
    used = _FANOUT[: level - 1]
    return [(fanout, math.prod(used[index + 1 :])) for index, fanout in enumerate(used)]


def _split_digits(step: Codes, fanout: int) -> Codes:
    if fanout == 64:
        return step // 8 * 10 + step % 8
    return step + 1 if fanout == 4 else step


def _join_digits(digits: Codes, fanout: int) -> Codes:
    if fanout == 64:
        row, column = np.divmod(digits, 10)
        return np.where((row < 8) & (column < 8), row * 8 + column, -1)
    if fanout == 4:
        return np.where((digits >= 1) & (digits <= 4), digits - 1, -1)
    return digits


def _find_position(ordered: Codes, numbers: Codes) -> Codes:
    if not len(ordered):
        return np.full(numbers.shape, -1, dtype=np.int64)
    position = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    return np.where(ordered[position] == numbers, position, -1)


def _drop_repeats(ordered: Codes) -> Codes:
    """Drop repeats from a sorted array (np.unique would sort or hash again)."""
    is_new = np.ones(len(ordered), dtype=np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


def _check_area(area: Iterable[str]) -> tuple[str, ...]:
    codes = tuple(str(code) for code in area)
    wrong = [code for code in codes if len(code) != 4 or not _CODE.fullmatch(code)]
    if wrong or not codes:
        raise SchemaError(
            "area ({shown}) must list first-level mesh codes of 4 digits, such as 5339", shown=list_some(wrong)
        )
    if len(set(codes)) < len(codes):
        raise SchemaError("area holds a code twice; list every first-level code once")
    return tuple(sorted(codes))


def _check_cells(cells: Codes | Sequence[str], level: int) -> Codes:
    """Check and sort the listed codes; a cell listed twice (two towns share it) is one cell."""
    texts = [] if isinstance(cells, np.ndarray) else [str(cell) for cell in cells]
    wrong = [text for text in texts if not (text.isascii() and text.isdigit() and len(text) < 19)]
    numbers = np.array([int(text) for text in texts] if not wrong else [], dtype=np.int64)
    numbers = _drop_repeats(np.sort(np.asarray(cells, dtype=np.int64) if isinstance(cells, np.ndarray) else numbers))
    wrong = wrong or [str(number) for number in numbers[~_are_codes(numbers, level)].tolist()]
    if wrong or not len(numbers):
        raise SchemaError(
            "cells ({shown}) must list mesh codes of level {level} ({digits} digits each)",
            shown=list_some(wrong),
            level=level,
            digits=DIGITS[level - 1],
        )
    numbers.flags.writeable = False
    return numbers


def _are_codes(numbers: Codes, level: int) -> Booleans:
    """Tell which integers are JIS codes of a level."""
    rest = DIGITS[level - 1] - 4
    first = numbers // 10**rest
    are_valid: Booleans = (first >= 1000) & (first <= 9999)
    for fanout, _ in _list_steps(level):
        rest -= len(str(_SHIFT[fanout])) - 1
        are_valid &= _join_digits(numbers // 10**rest % _SHIFT[fanout], fanout) >= 0
    return are_valid


# --- places on the WGS84 ellipsoid: how long a degree is, where a line leads to, how large a mesh cell is -------------
#
# Without a package: closed formulas, and the series of Vincenty (1975), good to a tenth of a millimetre anywhere.


EQUATOR_RADIUS = 6_378_137.0
FLATTENING = 1 / 298.257223563
POLE_RADIUS = EQUATOR_RADIUS * (1 - FLATTENING)
SERIES_ROUNDS = 20  # of Vincenty's series, which converges by a factor of 300 a round


def measure_degree(latitude: ArrayLike) -> tuple[Reals, Reals]:
    """Give the metres of a degree to the north and of a degree to the east at a latitude.

    >>> [round(float(metres)) for metres in measure_degree(35.681)]
    [110953, 90525]
    """
    sine = np.sin(np.radians(latitude))
    squashed = 1 - FLATTENING * (2 - FLATTENING) * sine**2
    north = EQUATOR_RADIUS * (1 - FLATTENING) ** 2 / squashed**1.5
    east = EQUATOR_RADIUS * np.cos(np.radians(latitude)) / np.sqrt(squashed)
    return np.radians(north), np.radians(east)


def measure_mesh_cell(level: int, latitude: float) -> tuple[float, float]:
    """Give height and width, in metres, of the JIS mesh cell of a level whose centre is at a latitude.

    >>> [round(side, 1) for side in measure_mesh_cell(6, 35.68)]
    [115.6, 141.4]
    """
    if level not in range(1, 7):
        raise SchemaError("level ({level}) must be 1, 2, 3, 4 (1/2), 5 (1/4) or 6 (1/8)", level=level)
    north, east = measure_degree(latitude)
    units = MESH_UNITS[level - 1]
    return float(north) * units / MESH_PER_DEGREE_NORTH, float(east) * units / MESH_PER_DEGREE_EAST


def find_mesh_place(level: int, latitude: float, longitude: float) -> tuple[int, int]:
    """Give the row and column of the mesh cell at a place, counted in cells of the level from 0 N, 100 E.

    >>> find_mesh_place(1, 35.68, 139.76)
    (53, 39)
    >>> find_mesh_place(1, 139.76, 35.68)
    Traceback (most recent call last):
    sudare.errors.SchemaError: a latitude is beyond 90 degrees; are latitude and longitude swapped?
    """
    check_latitude(latitude)
    units = MESH_UNITS[level - 1]
    row = math.floor(latitude * MESH_PER_DEGREE_NORTH / units)
    return row, math.floor((longitude - MESH_WEST) * MESH_PER_DEGREE_EAST / units)


def check_latitude(latitude: float) -> None:
    """Refuse what can only be a longitude.

    >>> check_latitude(35.68)
    """
    if not abs(latitude) <= 90:
        # without the number: it may be where a person is
        raise SchemaError("a latitude is beyond 90 degrees; are latitude and longitude swapped?")


def measure_smallest_cell(level: int, *, south: float, north: float, degrees_wide: float) -> tuple[float, float]:
    """Give the least height and width, in metres, that a mesh cell has on any straight way between two such places.

    Heights grow towards the poles and widths shrink. A geodesic between two places of one latitude bends towards the
    pole, by no more than a great circle does: tan(highest) = tan(latitude) / cos(half the width).

    >>> [round(side, 1) for side in measure_smallest_cell(6, south=35.3333, north=36, degrees_wide=1)]
    [115.6, 140.9]
    """
    far, near = max(abs(south), abs(north)), 0.0 if south < 0 < north else min(abs(south), abs(north))
    bent = math.degrees(math.atan(math.tan(math.radians(far)) / math.cos(math.radians(min(degrees_wide, 170) / 2))))
    return measure_mesh_cell(level, near)[0], measure_mesh_cell(level, bent)[1]


def to_earth_centred(latitude: ArrayLike, longitude: ArrayLike) -> Reals:
    """Give places as metres from the centre of the earth, (..., 3); straight lines between them are chords.

    >>> to_earth_centred(0.0, 90.0).round(3).tolist()
    [0.0, 6378137.0, 0.0]
    """
    north, east = np.radians(latitude), np.radians(longitude)
    oblate = FLATTENING * (2 - FLATTENING)
    radius = EQUATOR_RADIUS / np.sqrt(1 - oblate * np.sin(north) ** 2)
    plane = radius * np.cos(north)
    return np.stack([plane * np.cos(east), plane * np.sin(east), (1 - oblate) * radius * np.sin(north)], axis=-1)


def travel(latitude: ArrayLike, longitude: ArrayLike, azimuth: ArrayLike, metres: ArrayLike) -> tuple[Reals, Reals]:
    """Give the place that is so many metres along the geodesic that leaves at an azimuth (radians from north).

    >>> [round(float(degrees), 6) for degrees in travel(0.0, 0.0, np.pi / 2, 111319.490793)]
    [0.0, 1.0]
    """
    reduced = np.arctan((1 - FLATTENING) * np.tan(np.radians(latitude)))
    sine, cosine = np.sin(reduced), np.cos(reduced)
    across = cosine * np.sin(azimuth)  # of the geodesic where it crosses the equator
    square = 1 - across**2
    start = np.arctan2(np.tan(reduced), np.cos(azimuth))
    arc, middle = _solve_arc(np.asarray(metres, dtype=np.float64), start, square)
    heading = np.cos(azimuth)
    top = sine * np.cos(arc) + cosine * np.sin(arc) * heading
    side = sine * np.sin(arc) - cosine * np.cos(arc) * heading
    to_latitude = np.arctan2(top, (1 - FLATTENING) * np.hypot(across, side))
    turned = np.arctan2(np.sin(arc) * np.sin(azimuth), cosine * np.cos(arc) - sine * np.sin(arc) * heading)
    lag = FLATTENING / 16 * square * (4 + FLATTENING * (4 - 3 * square))
    wave = arc + lag * np.sin(arc) * (middle + lag * np.cos(arc) * (2 * middle**2 - 1))
    east = turned - (1 - lag) * FLATTENING * across * wave
    to_longitude = (np.asarray(longitude) + np.degrees(east) + 180) % 360 - 180
    return np.degrees(to_latitude), to_longitude


def _solve_arc(metres: Reals, start: Reals, square: Reals) -> tuple[Reals, Reals]:
    """Give the angle on the auxiliary sphere, and the cosine of twice the angle of the middle of the way."""
    u = square * (EQUATOR_RADIUS**2 - POLE_RADIUS**2) / POLE_RADIUS**2
    scale = 1 + u / 16384 * (4096 + u * (-768 + u * (320 - 175 * u)))
    wave = u / 1024 * (256 + u * (-128 + u * (74 - 47 * u)))
    straight = metres / (POLE_RADIUS * scale)
    arc = straight
    for _ in range(SERIES_ROUNDS):
        middle = np.cos(2 * start + arc)
        bend = np.cos(arc) * (2 * middle**2 - 1)
        bend = bend - wave / 6 * middle * (4 * np.sin(arc) ** 2 - 3) * (4 * middle**2 - 3)
        arc = straight + wave * np.sin(arc) * (middle + wave / 4 * bend)
    return arc, np.cos(2 * start + arc)
