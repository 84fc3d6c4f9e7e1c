"""Where a person can be: cells with exact distances. One protocol for plane grids, points, roads and levels.

    Places           what the mechanism asks of a map: how many cells, their labels, exact squared distances
    PlaneGrid        rows x columns of equal cells; a JIS mesh area is one, with the size of its smallest cell

Distances are square roots of integers times a rational unit, so that a device can compare exp(-beta * d) with random
bits exactly; floats appear only where a map is evaluated. Road networks are in graph.py, levels in elastic.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.privacy.exact import Number, exact
from sudare.schema.arrays import Integers, Reals

MOST_CELLS = 2**26
LEAST_METRES, MOST_METRES = Fraction(1, 1000), Fraction(10**6)


class Places(Protocol):
    """Cells, and a metric between them: d(x, y) = unit_metres * sqrt(squares(x)[y]).

    The square roots must obey the triangle inequality: the promise rests on it (proofs/location.md).
    """

    @property
    def size(self) -> int:
        """How many cells there are, numbered from 0."""

    @property
    def unit_metres(self) -> Fraction:
        """What one unit of the root of `squares` is worth, in metres."""

    def squares(self, cell: int) -> Integers:
        """Squared distances from a cell to every cell, exact integers in squared units."""

    def labels(self, cells: Integers) -> NDArray[np.object_]:
        """Names of cells: what a report says."""

    def to_dict(self) -> dict[str, Any]:
        """The map as JSON-able facts, with `kind`; `places_from` of artefact.py reads it back."""


def metres_from(places: Places, cell: int) -> Reals:
    """Distances from a cell to every cell, in metres.

    >>> metres_from(PlaneGrid(rows=1, columns=3, cell_height_metres=100, cell_width_metres=50), 0).tolist()
    [0.0, 50.0, 100.0]
    """
    return np.sqrt(places.squares(cell).astype(np.float64)) * float(places.unit_metres)


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

    def label(self, row: int, column: int) -> str:
        """The JIS code of a cell of the grid."""
        return mesh_code(self.level, self.row + row, self.column + column)


def mesh_code(level: int, row: int, column: int) -> str:
    """Write the JIS code of a cell, counted in cells of its level from 0 N, 100 E.

    >>> mesh_code(1, 53, 39), mesh_code(6, 53 * 640 + 639, 39 * 640 + 639)
    ('5339', '53397799444')
    """
    text = ""
    for side in (2, 2, 2)[: max(0, level - 3)]:
        row, north = divmod(row, side)
        column, east = divmod(column, side)
        text = f"{2 * north + east + 1}{text}"
    for side in (10, 8)[3 - min(level, 3) :]:
        row, north = divmod(row, side)
        column, east = divmod(column, side)
        text = f"{north}{east}{text}"
    return f"{row:02d}{column:02d}{text}"


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

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ParameterError("{name} ({value}) must be a whole number of at least 1", name=name, value=count)
        if self.rows * self.columns > MOST_CELLS:
            raise ParameterError(
                "a map of {cells} cells must have at most {most}; use larger cells or a smaller area",
                cells=self.rows * self.columns,
                most=MOST_CELLS,
            )
        for name in ("cell_height_metres", "cell_width_metres"):
            object.__setattr__(self, name, metres(getattr(self, name), name=name))
        if self._height * self.rows >= 2**31 or self._width * self.columns >= 2**31:
            raise ParameterError("the sizes of cells have too many decimals; round them to millimetres")

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.rows * self.columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, the shape of a map of values."""
        return self.rows, self.columns

    @property
    def unit_metres(self) -> Fraction:
        """The largest unit in which both sides of a cell are whole."""
        height, width = Fraction(self.cell_height_metres), Fraction(self.cell_width_metres)
        return Fraction(1, math.lcm(height.denominator, width.denominator))

    @property
    def _height(self) -> int:
        return int(Fraction(self.cell_height_metres) / self.unit_metres)

    @property
    def _width(self) -> int:
        return int(Fraction(self.cell_width_metres) / self.unit_metres)

    def squares(self, cell: int) -> Integers:
        """Squared distances from a cell to every cell, in squared units."""
        row, column = divmod(int(cell), self.columns)
        return self.offset_squares(np.arange(self.rows) - row, np.arange(self.columns) - column).reshape(-1)

    def offset_squares(self, rows: Integers, columns: Integers) -> Integers:
        """Squared distances of every pair of a row offset and a column offset, in squared units."""
        down, right = np.asarray(rows, dtype=np.int64) * self._height, np.asarray(columns, np.int64) * self._width
        squares: Integers = down[:, None] ** 2 + right[None, :] ** 2
        return squares

    def labels(self, cells: Integers) -> NDArray[np.object_]:
        """`row,column`, or JIS codes."""
        places = zip(*(part.tolist() for part in np.divmod(np.asarray(cells), self.columns)), strict=True)
        if self.corner is not None:
            return np.array([self.corner.label(row, column) for row, column in places], dtype=object)
        return np.array([f"{row},{column}" for row, column in places], dtype=object)

    def to_dict(self) -> dict[str, Any]:
        """The grid as JSON-able facts, sizes exact."""
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
        return facts


def metres(value: Number, *, name: str) -> Fraction:
    """Read a length in metres, exactly.

    >>> metres("115.6", name="cell_height_metres")
    Fraction(578, 5)
    """
    return exact(value, name=name, low=LEAST_METRES, high=MOST_METRES)


# Cells given by their centres: hexagons, or mesh cells of a country too long for one cell size.


MILLIMETRES = Fraction(1, 1000)
FARTHEST = 10**9  # millimetres between two points: squares of three such differences fit 64 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class PointPlaces:
    """Centres in whole millimetres, in two or three dimensions; distances are straight lines between them.

    Three dimensions are for points on the globe: the chord is a metric and never longer than the way on the ground, so
    a promise per metre of chord holds per metre of ground.

    >>> places = PointPlaces(points=np.array([[0, 0], [3000, 4000]]), names=("a", "b"))
    >>> places.squares(0).tolist(), places.labels(np.array([1])).tolist()
    ([0, 25000000], ['b'])
    """

    points: Integers
    names: tuple[str, ...]
    unit_metres: Fraction = field(default=MILLIMETRES, init=False)

    def __post_init__(self) -> None:
        points = np.asarray(self.points)
        if points.dtype.kind not in "iu" or points.ndim != 2 or points.shape[1] not in (2, 3) or not len(points):
            raise ParameterError("points must be whole millimetres, two or three numbers a cell")
        if int((points.max(axis=0) - points.min(axis=0)).max()) > FARTHEST:
            raise ParameterError("the cells lie more than {most} km apart; use a smaller area", most=FARTHEST // 10**6)
        if len(self.names) != len(points) or len(set(self.names)) < len(points):
            raise ParameterError(
                "every cell needs a name of its own ({cells} cells); rename those that are alike", cells=len(points)
            )
        object.__setattr__(self, "points", points.astype(np.int64))
        object.__setattr__(self, "names", tuple(self.names))

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.names)

    def squares(self, cell: int) -> Integers:
        """Squared distances in square millimetres."""
        squares: Integers = ((self.points - self.points[cell]) ** 2).sum(axis=1)
        return squares

    def labels(self, cells: Integers) -> NDArray[np.object_]:
        """The names."""
        return np.array(self.names, dtype=object)[np.asarray(cells)]

    def to_dict(self) -> dict[str, Any]:
        """The points as JSON-able facts."""
        return {"kind": "points", "unit_metres": "1/1000", "points": self.points.tolist(), "names": list(self.names)}
