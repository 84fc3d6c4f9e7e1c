"""Where a person can be: cells with exact distances, and one protocol for all maps.

    Places         what the mechanism needs of a map: how many cells, their labels, exact squared distances
    PlaneGrid      rows x columns of equal cells; a JIS mesh area is one, with the size of its smallest cell
    PointPlaces    cells given by their centres: hexagons, or points on the globe
    ElasticGrid    a plane grid with stricter cells, around which distances are shortened
    RoadGraph      crossings and roads between them, in roads.py

Distances are square roots of integers times a rational unit, so that a device can compare exp(-beta * d) with random
bits exactly; floats appear only where a map is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sudare.errors import ParameterError
from sudare.privacy.exact import Number, exact
from sudare.schema.arrays import Integers, Labels, Reals

MAX_CELLS = 2**26
MIN_METRES, MAX_METRES = Fraction(1, 1000), Fraction(10**6)  # of the side of a cell, or of a road
MILLIMETRE = Fraction(1, 1000)  # in metres


class Places(Protocol):
    """Cells, and a metric between them: d(x, y) = unit_metres * sqrt(squares(x)[y]).

    The square roots must obey the triangle inequality: the promise rests on it (proofs/location.md).
    """

    @property
    def size(self) -> int:
        """Count the cells, which are numbered from 0."""

    @property
    def unit_metres(self) -> Fraction:
        """Give the length of one unit of the root of `squares`, in metres."""

    def squares(self, cell: int) -> Integers:
        """Give the squared distances from a cell to every cell, exact integers in squared units.

        They are 64-bit numbers where every one fits, and Python's integers (an array of objects) where one does not.
        """

    def metres(self, cell: int) -> Reals:
        """Give the distances from a cell to every cell in metres, as floats."""

    def labels(self, cells: Integers) -> Labels:
        """Name cells, for people: a report says the number."""

    def to_dict(self) -> dict[str, Any]:
        """Give the map as JSON-able facts, with `kind`; `read_places` of device_file.py reads it back."""


def distances_from(places: Places, cell: int) -> Reals:
    """Give the distances from a cell to every cell, in metres.

    >>> distances_from(PlaneGrid(rows=1, columns=3, cell_height_metres=100, cell_width_metres=50), 0).tolist()
    [0.0, 50.0, 100.0]
    """
    return places.metres(int(cell))


def _root_metres(places: Places, cell: int) -> Reals:
    """Give the distances of a map whose squares fit 64 bits."""
    metres: Reals = np.sqrt(places.squares(cell).astype(np.float64)) * float(places.unit_metres)
    return metres


MESH_END = 64_000  # rows of the finest level of the JIS mesh, up to 66.67 N; it has fewer columns


@dataclass(frozen=True, kw_only=True, slots=True)
class MeshCorner:
    """Which cell of the JIS mesh (X 0410) is row 0 (the southernmost), column 0 (the westernmost) of a plane grid.

    `row` and `column` count cells of the level from 0 N, 100 E, as `MeshCells.grid` does.

    >>> MeshCorner(level=3, row=4280, column=3120).label(0, 0)
    '53394000'
    """

    level: int
    row: int
    column: int

    def __post_init__(self) -> None:
        numbers = (self.level, self.row, self.column)
        is_sound = all(type(number) is int and 0 <= number <= MESH_END for number in numbers) and 1 <= self.level <= 6
        if not is_sound:
            raise ParameterError(
                "the corner of a mesh must be a level of 1 to 6, with a row and a column between 0 and {most}",
                most=MESH_END,
            )

    def label(self, row: int, column: int) -> str:
        """Give the JIS code of a cell of the grid."""
        return write_mesh_code(self.level, self.row + row, self.column + column)


@dataclass(frozen=True, kw_only=True, slots=True)
class DegreeCorner:
    """Where a plane grid lies: its south-west corner and the size of a cell, in degrees.

    A cell is at least as large on the ground as on the plane (`geo.place_grid` sees to it, metric.py checks it), so
    that a promise per metre of the plane holds per metre of ground.
    """

    south: float
    west: float
    tall: float
    wide: float

    def find(self, latitude: float, longitude: float) -> tuple[int, int]:
        """Give row and column of a place; device.js computes the same floats."""
        return math.floor((latitude - self.south) / self.tall), math.floor((longitude - self.west) / self.wide)

    def to_dict(self) -> dict[str, str]:
        """Give the corner as texts that read back as the same floats."""
        return {name: repr(float(getattr(self, name))) for name in ("south", "west", "tall", "wide")}


def write_mesh_code(level: int, row: int, column: int) -> str:
    """Write the JIS code of a cell, counted in cells of its level from 0 N, 100 E.

    >>> write_mesh_code(1, 53, 39), write_mesh_code(6, 53 * 640 + 639, 39 * 640 + 639)
    ('5339', '53397799444')
    """
    digits = ""
    for side in (2, 2, 2)[: max(0, level - 3)]:
        row, north = divmod(row, side)
        column, east = divmod(column, side)
        digits = f"{2 * north + east + 1}{digits}"
    for side in (10, 8)[3 - min(level, 3) :]:
        row, north = divmod(row, side)
        column, east = divmod(column, side)
        digits = f"{north}{east}{digits}"
    return f"{row:02d}{column:02d}{digits}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaneGrid:
    """Rows and columns of equal cells on a plane; distances are those of the centres.

    Cells are numbered row by row. Sizes are exact. A mesh area is a plane grid too, with the size of its smallest
    cell: real distances are then never shorter than declared ones, and the promise per real metre holds.

    >>> grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> grid.size, grid.unit_metres, int(grid.squares(0)[16])
    (225, Fraction(1, 10), 3338561)
    >>> grid.labels(np.array([16])).tolist()
    ['1,1']
    """

    rows: int
    columns: int
    cell_height_metres: Fraction | str | int | float
    cell_width_metres: Fraction | str | int | float
    corner: MeshCorner | None = None
    degrees: DegreeCorner | None = None

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ParameterError("{name} ({value}) must be a whole number of at least 1", name=name, value=count)
        if self.rows * self.columns > MAX_CELLS:
            raise ParameterError(
                "a map of {cells} cells must have at most {most}; use larger cells or a smaller area",
                cells=self.rows * self.columns,
                most=MAX_CELLS,
            )
        for name in ("cell_height_metres", "cell_width_metres"):
            object.__setattr__(self, name, read_metres(getattr(self, name), name=name))
        if self._height * self.rows >= 2**31 or self._width * self.columns >= 2**31:
            raise ParameterError("the sizes of cells have too many decimals; round them to millimetres")

    @property
    def size(self) -> int:
        """Count the cells."""
        return self.rows * self.columns

    @property
    def shape(self) -> tuple[int, int]:
        """Give rows and columns, the shape of an array of values."""
        return self.rows, self.columns

    @property
    def unit_metres(self) -> Fraction:
        """Find the largest unit in which both sides of a cell are whole."""
        height, width = Fraction(self.cell_height_metres), Fraction(self.cell_width_metres)
        return Fraction(1, math.lcm(height.denominator, width.denominator))

    @property
    def _height(self) -> int:
        return int(Fraction(self.cell_height_metres) / self.unit_metres)

    @property
    def _width(self) -> int:
        return int(Fraction(self.cell_width_metres) / self.unit_metres)

    def squares(self, cell: int) -> Integers:
        """Give the squared distances from a cell to every cell, in squared units."""
        row, column = divmod(int(cell), self.columns)
        return self.offset_squares(np.arange(self.rows) - row, np.arange(self.columns) - column).reshape(-1)

    def metres(self, cell: int) -> Reals:
        """Give the distances from a cell to every cell in metres."""
        return _root_metres(self, cell)

    def offset_squares(self, rows: Integers, columns: Integers) -> Integers:
        """Give the squared distances of every pair of a row offset and a column offset, in squared units."""
        down, right = np.asarray(rows, dtype=np.int64) * self._height, np.asarray(columns, np.int64) * self._width
        squares: Integers = down[:, None] ** 2 + right[None, :] ** 2
        return squares

    def labels(self, cells: Integers) -> Labels:
        """Name cells by `row,column`, or by JIS codes."""
        rows, columns = (part.tolist() for part in np.divmod(np.asarray(cells), self.columns))
        if self.corner is not None:
            labels = [self.corner.label(row, column) for row, column in zip(rows, columns, strict=True)]
        else:
            labels = [f"{row},{column}" for row, column in zip(rows, columns, strict=True)]
        return np.array(labels, dtype=object)

    def to_dict(self) -> dict[str, Any]:
        """Give the grid as JSON-able facts, sizes exact."""
        facts: dict[str, Any] = {
            "kind": "plane",
            "rows": self.rows,
            "columns": self.columns,
            "cell_height_metres": str(self.cell_height_metres),
            "cell_width_metres": str(self.cell_width_metres),
        }
        if self.corner is not None:
            corner = self.corner
            facts["mesh"] = {"level": corner.level, "row": corner.row, "column": corner.column}
        if self.degrees is not None:
            facts["degrees"] = self.degrees.to_dict()
        return facts


def read_metres(value: Number, *, name: str) -> Fraction:
    """Read a length in metres, exactly.

    >>> read_metres("115.6", name="cell_height_metres")
    Fraction(578, 5)
    """
    return exact(value, name=name, low=MIN_METRES, high=MAX_METRES)


def rings(grid: PlaneGrid) -> Iterator[tuple[float, float]]:
    """List rings of lengths (from, up to) in metres, from 0 to the diagonal of the map, each a quarter longer."""
    height, width = float(grid.cell_height_metres), float(grid.cell_width_metres)
    low, high, diagonal = 0.0, 2 * max(height, width), math.hypot(grid.rows * height, grid.columns * width)
    while low < diagonal:
        yield low, high
        low, high = high, 1.25 * high


def ring_offsets(grid: PlaneGrid, low: float, high: float) -> Iterator[tuple[int, int, float]]:
    """List half of the offsets (rows, columns, metres) of a ring, the shortest first; the others are their opposite."""
    tall = min(grid.rows - 1, math.ceil(high / float(grid.cell_height_metres)))
    wide = min(grid.columns - 1, math.ceil(high / float(grid.cell_width_metres)))
    down, right = np.arange(tall + 1), np.arange(-wide, wide + 1)
    metres = np.sqrt(grid.offset_squares(down, right).astype(np.float64)) * float(grid.unit_metres)
    is_in_ring = (metres > low) & (metres <= high) & ((down[:, None] > 0) | (right[None, :] > 0))
    chosen = np.flatnonzero(is_in_ring)
    for index in chosen[np.argsort(metres.flat[chosen], kind="stable")].tolist():
        yield int(down[index // right.size]), int(right[index % right.size]), float(metres.flat[index])


def offsets(grid: PlaneGrid) -> Iterator[tuple[int, int, float]]:
    """List half of all offsets, the shortest first; ring by ring, so that long ones are listed only if needed."""
    for low, high in rings(grid):
        yield from ring_offsets(grid, low, high)


# --- cells given by their centres: hexagons, or mesh cells of a country too long for one cell size --------------------

MAX_SPAN_MILLIMETRES = 10**9  # of one coordinate: the squares of three such differences fit 64 bits
MAX_COORDINATE = 2**52  # of a coordinate in millimetres, so that JavaScript reads the same number


@dataclass(frozen=True, kw_only=True, eq=False)
class PointPlaces:
    """Centres in whole millimetres, in two or three dimensions; distances are straight lines between them.

    Three dimensions are for points on the globe: the chord is a metric and never longer than the path on the ground, so
    a promise per metre of chord holds per metre of ground.

    >>> places = PointPlaces(points=np.array([[0, 0], [3000, 4000]]), names=("a", "b"))
    >>> places.squares(0).tolist(), places.labels(np.array([1])).tolist()
    ([0, 25000000], ['b'])
    """

    points: Integers
    names: tuple[str, ...]
    unit_metres: Fraction = field(default=MILLIMETRE, init=False)

    def __post_init__(self) -> None:
        points = np.asarray(self.points)
        if points.dtype.kind not in "iu" or points.ndim != 2 or points.shape[1] not in (2, 3) or not len(points):
            raise ParameterError("points must be whole millimetres, two or three numbers for each cell")
        spans = [int(axis.max()) - int(axis.min()) for axis in points.T]  # Python's integers: these cannot wrap
        if max(spans) > MAX_SPAN_MILLIMETRES or int(np.abs(points.astype(np.float64)).max()) > MAX_COORDINATE:
            raise ParameterError(
                "the cells lie more than {most} km apart; use a smaller area", most=MAX_SPAN_MILLIMETRES // 10**6
            )
        if len(self.names) != len(points) or len(set(self.names)) < len(points):
            raise ParameterError(
                "every cell needs a name of its own ({cells} cells); rename those that have the same name",
                cells=len(points),
            )
        object.__setattr__(self, "points", points.astype(np.int64))
        object.__setattr__(self, "names", tuple(self.names))

    @property
    def size(self) -> int:
        """Count the cells."""
        return len(self.names)

    def squares(self, cell: int) -> Integers:
        """Give the squared distances in square millimetres."""
        squares: Integers = ((self.points - self.points[cell]) ** 2).sum(axis=1)
        return squares

    def metres(self, cell: int) -> Reals:
        """Give the distances in metres."""
        return _root_metres(self, cell)

    def labels(self, cells: Integers) -> Labels:
        """Give the names."""
        return np.array(self.names, dtype=object)[np.asarray(cells)]

    def to_dict(self) -> dict[str, Any]:
        """Give the points as JSON-able facts."""
        return {"kind": "points", "unit_metres": "1/1000", "points": self.points.tolist(), "names": list(self.names)}


# --- levels: a hospital stricter than a park; the straight distance, shortened around strict cells --------------------
#
# A cell with level s (at most 1) counts every distance from it s times, so that a person there is hidden among cells
# that are 1/s times farther away. A metric needs the triangle inequality, too: if the path by a strict cell is
# shorter, it counts.
#
#     e(x, y) = ceil(min(s_x, s_y) * |x y|)        in units of a thousandth of the grid's
#     d(x, y) = the shortest path from x to y along such steps
#
# Rounding up keeps the triangle inequality where levels are equal; steps through cells no stricter than both ends never
# shorten a path, so only strict cells are visited. Source: after the elastic metrics of Chatzikokolakis, Palamidessi,
# Stronati 2015.

LEVEL_PARTS = 1000  # levels are whole thousandths
MAX_STRICT_CELLS = 1000
MAX_LENGTH_TO_SQUARE = 3_037_000_499  # the square of a larger one does not fit 64 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class ElasticGrid:
    """A plane grid whose cells have levels, in thousandths: 1000 is the plain distance, 250 four times as strict.

    >>> park = PlaneGrid(rows=1, columns=3, cell_height_metres=100, cell_width_metres=100)
    >>> levels = ElasticGrid(grid=park, levels=np.array([1000, 1000, 500]))
    >>> (np.sqrt(levels.squares(0)) * float(levels.unit_metres)).tolist()
    [0.0, 100.0, 100.0]
    """

    grid: PlaneGrid
    levels: Integers
    _paths: list[Integers] = field(default_factory=list, repr=False)  # made when first needed

    def __post_init__(self) -> None:
        levels = np.asarray(self.levels)
        if levels.dtype.kind not in "iu" or levels.shape != (self.grid.size,):
            raise ParameterError("levels must be whole thousandths, one per cell ({cells})", cells=self.grid.size)
        if int(levels.min()) < 1 or int(levels.max()) > LEVEL_PARTS:
            raise ParameterError("levels must be above 0 and at most 1, in thousandths")
        object.__setattr__(self, "levels", levels.astype(np.int64))
        if len(self.strict) > MAX_STRICT_CELLS:
            raise ParameterError(
                "{cells} cells are stricter than the others; at most {most} may be",
                cells=len(self.strict),
                most=MAX_STRICT_CELLS,
            )

    @property
    def size(self) -> int:
        """Count the cells."""
        return self.grid.size

    @property
    def unit_metres(self) -> Fraction:
        """Give a thousandth of the unit of the grid."""
        return self.grid.unit_metres / LEVEL_PARTS

    @property
    def strict(self) -> Integers:
        """Find the cells that are stricter than the most lenient one."""
        return np.flatnonzero(self.levels < self.levels.max())

    def squares(self, cell: int) -> Integers:
        """Give the squared distances, in squared units; Python's integers where one does not fit 64 bits."""
        lengths = self.lengths(cell)
        if int(lengths.max()) >= MAX_LENGTH_TO_SQUARE:
            lengths = lengths.astype(object)
        squares: Integers = lengths * lengths
        return squares

    def lengths(self, cell: int) -> Integers:
        """Give the distances themselves, which are whole units."""
        distances = self._direct_steps(int(cell))
        if len(self.strict):
            to_strict = (distances[self.strict][:, None] + self._strict_paths()).min(axis=0)
            for strict_cell, path in zip(self.strict.tolist(), to_strict.tolist(), strict=True):
                distances = np.minimum(distances, path + self._direct_steps(strict_cell))
        return distances

    def metres(self, cell: int) -> Reals:
        """Give the distances in metres."""
        metres: Reals = self.lengths(cell).astype(np.float64) * float(self.unit_metres)
        return metres

    def labels(self, cells: Integers) -> Labels:
        """Give the labels of the grid."""
        return self.grid.labels(cells)

    def to_dict(self) -> dict[str, Any]:
        """Give grid and levels as JSON-able facts."""
        return {"kind": "elastic", "grid": self.grid.to_dict(), "levels": self.levels.tolist()}

    def _direct_steps(self, cell: int) -> Integers:
        """Find e(x, y) from one cell, exactly: the square root of an integer, rounded up."""
        factor = np.minimum(self.levels, self.levels[cell])
        return round_up_product(factor, self.grid.squares(cell))

    def _strict_paths(self) -> Integers:
        """Find the shortest paths between strict cells, along strict cells."""
        if not self._paths:
            paths = np.array([self._direct_steps(cell)[self.strict] for cell in self.strict.tolist()])
            for middle in range(len(self.strict)):
                paths = np.minimum(paths, paths[:, middle, None] + paths[None, middle, :])
            self._paths.append(paths)
        return self._paths[0]


def round_up_product(factors: Integers, squares: Integers) -> Integers:
    """Find the smallest integers that reach factor * sqrt(square), exactly: the roots of factor^2 * square, rounded up.

    The products may be far beyond 64 bits (a square of 63 bits, a factor of 10). A float finds the root to within one;
    what decides is the difference root^2 - product, which is below 2**45 there, so that arithmetic modulo 2**64 gives
    it exactly. Squares must be at least 0 and factors at most 1000.

    >>> round_up_product(np.array([1, 1, 1, 1, 1000]), np.array([0, 2, 4, 5, 2**62 + 1])).tolist()
    [0, 2, 2, 3, 2147483648001]
    """
    roots = (factors * np.sqrt(squares.astype(np.float64))).astype(np.int64)
    product = (factors * factors).astype(np.uint64) * squares.astype(np.uint64)  # modulo 2**64, as is the difference

    def excess(candidates: Integers) -> Integers:
        whole = candidates.astype(np.uint64)
        return (whole * whole - product).astype(np.int64)

    roots = np.where(excess(roots) < 0, roots + 1, roots)
    roots = np.where(excess(roots) < 0, roots + 1, roots)
    return np.where((roots > 0) & (excess(np.maximum(roots - 1, 0)) >= 0), roots - 1, roots)
