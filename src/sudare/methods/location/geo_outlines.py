"""Cells as shapes in longitude and latitude (RFC 7946), for maps in a geographic system."""

from __future__ import annotations

import importlib
import importlib.util
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.methods.location.graph import RoadGraph
from sudare.methods.location.grid import Places, PlaneGrid
from sudare.methods.location.grid_points import PointPlaces
from sudare.schema.geography import MESH_PER_DEGREE_EAST, MESH_PER_DEGREE_NORTH, MESH_UNITS, MESH_WEST

Shape = dict[str, Any]

DECIMALS = 7  # a centimetre
_PLACE = re.compile(r"(-?[0-9]+\.[0-9]+),(-?[0-9]+\.[0-9]+)")


def outlines(places: Places, cells: NDArray[np.int64]) -> list[Shape] | None:
    """Give the shape of every cell: squares of the mesh, H3 hexagons, crossings read from lines; None for other maps.

    >>> outlines(PlaneGrid(rows=1, columns=1, cell_height_metres=9, cell_width_metres=9), np.array([0])) is None
    True
    """
    if isinstance(places, PlaneGrid) and places.corner is not None:
        return [_square(places, cell) for cell in cells.tolist()]
    names = places.labels(cells).tolist()
    if isinstance(places, PointPlaces) and importlib.util.find_spec("h3") is not None:
        return _hexagons(names)
    found = [_PLACE.fullmatch(name) for name in names] if isinstance(places, RoadGraph) else [None]
    if not all(found):
        return None
    return [{"type": "Point", "coordinates": [float(one[2]), float(one[1])]} for one in found if one]


def _square(grid: PlaneGrid, cell: int) -> Shape:
    corner = grid.corner
    if corner is None:
        raise AssertionError("only maps on the mesh have latitudes")
    units = MESH_UNITS[corner.level - 1]
    row, column = divmod(cell, grid.columns)
    south, north = ((corner.row + row + end) * units / MESH_PER_DEGREE_NORTH for end in (0, 1))
    west, east = (MESH_WEST + (corner.column + column + end) * units / MESH_PER_DEGREE_EAST for end in (0, 1))
    return _polygon([(west, south), (east, south), (east, north), (west, north)])


def _hexagons(names: list[str]) -> list[Shape] | None:
    h3 = importlib.import_module("h3")
    if not all(h3.is_valid_cell(name) for name in names):
        return None
    return [_polygon([(east, north) for north, east in h3.cell_to_boundary(name)]) for name in names]


def _polygon(corners: list[tuple[float, float]]) -> Shape:
    ring = [[round(east, DECIMALS), round(north, DECIMALS)] for east, north in (*corners, corners[0])]
    return {"type": "Polygon", "coordinates": [ring]}
