"""Real maps: JIS mesh areas, H3 cells, land shares from polygons, roads. The one door to the packages of [geo].

    [grid]
    kind = "mesh"
    level = 5                          1, 2, 3, 4 (1/2), 5 (1/4), 6 (1/8)
    area = ["5339"]                    first-level codes; or bounds = [south, west, north, east] in degrees
    land = "coast.geojson"             optional: GeoJSON, GeoPackage or shapefile; the share of land is the weight

    [grid]
    kind = "h3"
    resolution = 8
    bounds = [35.6, 139.6, 35.8, 139.9]
    land = "coast.geojson"             optional

    [grid]
    kind = "graph"
    file = "roads.geojson"             or .graphml, .osm.pbf: see geo_roads.py

A plane grid has no latitudes: its `land` is in metres from the south-west corner of row 0, column 0, x to the east and
y to the north.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import SchemaError
from sudare.methods.location.geo_roads import read_roads
from sudare.methods.location.grid import MeshCorner, Places, PlaneGrid
from sudare.methods.location.grid_points import PointPlaces
from sudare.schema.geography import (
    MESH_PER_DEGREE_EAST,
    MESH_PER_DEGREE_NORTH,
    MESH_UNITS,
    MESH_WEST,
    check_latitude,
    earth_centred,
    mesh_place,
    smallest_mesh_cell,
)
from sudare.schema.mesh import MeshCells
from sudare.schema.textfile import read_bytes

Numbers = NDArray[np.float64]
Box = tuple[float, float, float, float]  # west, south, east, north

KEYS = {
    "mesh": {"kind", "level", "area", "bounds", "land", "weights", "inputs"},
    "h3": {"kind", "resolution", "bounds", "land", "weights", "inputs"},
    "graph": {"kind", "file", "weights", "inputs"},
}
WHOLE = 1 - 1e-12  # a share from here on is all land: the rest is rounding
MOST_HEXAGONS = 5_000


def read_grid(section: Mapping[str, Any], folder: Path) -> tuple[Places, Numbers | None]:
    """Read a map of kind mesh, h3 or graph: its places, and the land share of its cells if `land` is given."""
    kind = str(section["kind"])
    if odd := sorted(set(section) - KEYS[kind]):
        raise SchemaError(
            "[grid] has unknown keys ({odd}); a map of kind {kind} knows {known}",
            odd=", ".join(odd),
            kind=kind,
            known=", ".join(sorted(KEYS[kind])),
        )
    if kind == "graph":
        return read_roads(folder / str(section["file"])), None
    return _mesh(section, folder) if kind == "mesh" else _hexagons(section, folder)


def land_shares(places: Places, section: Mapping[str, Any], folder: Path) -> Numbers:
    """Give the share of every cell of a plane grid that polygons cover, by area."""
    if not isinstance(places, PlaneGrid):
        raise SchemaError("land is read for maps of rows and columns; give weights for others")
    file = folder / str(section["land"])
    if places.corner is not None:
        box = mesh_box(places)
        return shares_of(read_polygons(file, box=box), box, places.shape).reshape(-1)
    width, height = float(places.cell_width_metres), float(places.cell_height_metres)
    plane = (0.0, 0.0, width * places.columns, height * places.rows)
    return shares_of(read_polygons(file, box=plane, is_degrees=False), plane, places.shape).reshape(-1)


def mesh_grid(level: int, *, south_west: tuple[int, int], shape: tuple[int, int]) -> PlaneGrid:
    """Make the plane grid of a rectangle of mesh cells, with the size of its smallest cell, rounded down.

    So a metre of the map is never more than a metre of the ground, and the promise per metre of ground holds.

    >>> grid = mesh_grid(3, south_west=(4280, 3120), shape=(80, 80))
    >>> grid.cell_height_metres, grid.cell_width_metres, grid.labels(np.array([0])).tolist()
    (Fraction(462303, 500), Fraction(1122269, 1000), ['53394000'])
    """
    tall, wide = MESH_UNITS[level - 1] / MESH_PER_DEGREE_NORTH, MESH_UNITS[level - 1] / MESH_PER_DEGREE_EAST
    south, north = south_west[0] * tall, (south_west[0] + shape[0]) * tall
    height, width = smallest_mesh_cell(level, south=south, north=north, degrees_wide=shape[1] * wide)
    return PlaneGrid(
        rows=shape[0],
        columns=shape[1],
        cell_height_metres=Fraction(math.floor(height * 1000), 1000),
        cell_width_metres=Fraction(math.floor(width * 1000), 1000),
        corner=MeshCorner(level=level, row=south_west[0], column=south_west[1]),
    )


def mesh_box(grid: PlaneGrid) -> Box:
    """Give west, south, east and north of a mesh map in degrees."""
    if grid.corner is None:
        raise SchemaError("this map has no latitudes; make one of kind mesh")
    units = MESH_UNITS[grid.corner.level - 1]
    tall, wide = units / MESH_PER_DEGREE_NORTH, units / MESH_PER_DEGREE_EAST
    west, south = MESH_WEST + grid.corner.column * wide, grid.corner.row * tall
    return west, south, west + grid.columns * wide, south + grid.rows * tall


def cell_at(places: Places, latitude: float, longitude: float) -> int:
    """Give the number of the cell of a mesh map at a place in degrees; device.js has the same."""
    if not isinstance(places, PlaneGrid) or places.corner is None:
        raise SchemaError("this map has no latitudes; give the number of a cell")
    found = _inside(places, latitude, longitude)
    if found is None and abs(longitude) <= 90 and _inside(places, longitude, latitude) is not None:
        raise SchemaError("the place is outside the map, but not with latitude and longitude swapped; swap them")
    if found is None:
        raise SchemaError("the place is outside the map; give one on it")
    return found


def _inside(grid: PlaneGrid, latitude: float, longitude: float) -> int | None:
    if grid.corner is None:
        return None
    row, column = mesh_place(grid.corner.level, latitude, longitude)
    row, column = row - grid.corner.row, column - grid.corner.column
    is_inside = 0 <= row < grid.rows and 0 <= column < grid.columns
    return row * grid.columns + column if is_inside else None


def _mesh(section: Mapping[str, Any], folder: Path) -> tuple[Places, Numbers | None]:
    level: Any = section.get("level")
    if level not in range(1, 7):
        raise SchemaError("level ({level}) must be 1, 2, 3, 4 (1/2), 5 (1/4) or 6 (1/8)", level=level)
    if ("area" in section) == ("bounds" in section):
        raise SchemaError("a mesh map needs either area or bounds, not both; write it like area = ['5339']")
    grid, covered = _area(level, section["area"]) if "area" in section else (_bounded(level, section["bounds"]), None)
    shares = land_shares(grid, section, folder) if "land" in section else covered
    return grid, shares if shares is None or covered is None else shares * covered


def _area(level: int, area: Any) -> tuple[PlaneGrid, Numbers | None]:
    """The rectangle around first-level areas; weight 0 where it is filled up."""
    codes = (str(area),) if isinstance(area, str | int) else tuple(str(code) for code in area)
    first = MeshCells(level=1, area=codes)
    rows, columns = first.grid(np.arange(first.size))
    side = MESH_UNITS[0] // MESH_UNITS[level - 1]
    low, high = (int(rows.min()), int(columns.min())), (int(rows.max()), int(columns.max()))
    shape = ((high[0] - low[0] + 1) * side, (high[1] - low[1] + 1) * side)
    grid = mesh_grid(level, south_west=(low[0] * side, low[1] * side), shape=shape)
    listed = np.zeros((high[0] - low[0] + 1, high[1] - low[1] + 1))
    listed[rows - low[0], columns - low[1]] = 1.0
    covered = np.repeat(np.repeat(listed, side, axis=0), side, axis=1).reshape(-1)
    return grid, None if listed.all() else covered


def _bounded(level: int, bounds: Any) -> PlaneGrid:
    """The mesh cells that touch a rectangle of degrees."""
    south, west, north, east = _checked_bounds(bounds)
    low, high = mesh_place(level, south, west), mesh_place(level, north, east)
    if min(low) < 0:
        raise SchemaError("the mesh begins at 0 N, 100 E; these bounds lie outside")
    return mesh_grid(level, south_west=low, shape=(high[0] - low[0] + 1, high[1] - low[1] + 1))


def _checked_bounds(bounds: Any) -> tuple[float, float, float, float]:
    try:
        south, west, north, east = (float(one) for one in bounds)
        are_numbers = isinstance(bounds, list) and all(map(math.isfinite, (south, west, north, east)))
    except (TypeError, ValueError, OverflowError):
        are_numbers = False
    if not are_numbers:
        raise SchemaError("bounds must be four numbers in degrees: [south, west, north, east]")
    check_latitude(south)
    check_latitude(north)
    if not (south < north and west < east):
        raise SchemaError("bounds must be [south, west, north, east] with south below north and west below east")
    return south, west, north, east


def _hexagons(section: Mapping[str, Any], folder: Path) -> tuple[Places, Numbers | None]:
    h3, shapely = _installed("h3", lambda: importlib.import_module("h3")), _shapely()
    south, west, north, east = _checked_bounds(section.get("bounds"))
    ring = ((south, west), (south, east), (north, east), (north, west))
    cells = sorted(h3.polygon_to_cells(h3.LatLngPoly(ring), int(section.get("resolution", 8))))
    if not 1 <= len(cells) <= MOST_HEXAGONS:
        raise SchemaError(
            "the bounds hold {cells} H3 cells; choose a resolution with 1 to {most}",
            cells=len(cells),
            most=MOST_HEXAGONS,
        )
    centres = np.array([h3.cell_to_latlng(cell) for cell in cells])
    points = np.rint(earth_centred(centres[:, 0], centres[:, 1]) * 1000).astype(np.int64)
    places = PointPlaces(points=points, names=tuple(cells))
    if "land" not in section:
        return places, None
    land = read_polygons(folder / str(section["land"]), box=(west, south, east, north))
    shapes = shapely.polygons([[(x, y) for y, x in h3.cell_to_boundary(cell)] for cell in cells])
    shares = shapely.area(shapely.intersection(shapes, land)) / shapely.area(shapes)
    return places, np.clip(np.where(shares >= WHOLE, 1.0, shares), 0.0, 1.0)


def read_polygons(file: Path, *, box: Box, is_degrees: bool = True) -> Any:
    """Read polygons as one shape, in longitude and latitude (or in the metres of a plane)."""
    shapely = _shapely()
    shapes = _geojson(file) if file.suffix.lower() in (".geojson", ".json") else _layers(file, is_degrees)
    kept = [shape for shape in shapely.make_valid(np.array(shapes, dtype=object)) if shape.area > 0]
    if not kept:
        raise SchemaError("{file} holds no polygon; give the outlines of land as polygons", file=file)
    land = shapely.union_all(kept)
    west, south, east, north = land.bounds
    if land.intersects(shapely.box(*box)):
        return land
    if is_degrees and shapely.box(south, west, north, east).intersects(shapely.box(*box)):
        raise SchemaError("{file}: latitude and longitude are swapped; GeoJSON writes longitude first", file=file)
    raise SchemaError("{file}: no polygon touches the map; check its place and its coordinates", file=file)


def _geojson(file: Path) -> list[Any]:
    shape = _installed("shapely", lambda: importlib.import_module("shapely.geometry")).shape
    try:
        found = json.loads(read_bytes(file))
        parts = found["features"] if found["type"] == "FeatureCollection" else [found]
        return [shape(part["geometry"] if part.get("type") == "Feature" else part) for part in parts]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SchemaError("{file} is not GeoJSON with polygons; save the outlines of land so", file=file) from None


def _layers(file: Path, is_degrees: bool) -> list[Any]:
    """Read a GeoPackage or a shapefile, brought to longitude and latitude where it says that it is something else."""
    read_bytes(file)  # a missing file is told as every other
    pyogrio, shapely = _installed("pyogrio", lambda: importlib.import_module("pyogrio")), _shapely()
    try:
        facts, _, outlines, _ = pyogrio.raw.read(str(file), columns=[])
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError):
        raise SchemaError("{file} cannot be read; give GeoJSON, a GeoPackage or a shapefile", file=file) from None
    shapes = shapely.from_wkb(outlines)
    if is_degrees and facts["crs"]:
        pyproj = _installed("pyproj", lambda: importlib.import_module("pyproj"))
        if not pyproj.CRS(facts["crs"]).is_geographic:
            change = pyproj.Transformer.from_crs(facts["crs"], "EPSG:4326", always_xy=True)
            shapes = shapely.transform(shapes, lambda xy: np.column_stack(change.transform(xy[:, 0], xy[:, 1])))
    return list(shapes)


def shares_of(land: Any, box: Box, shape: tuple[int, int]) -> Numbers:
    """Give the share of land of every cell of a grid over a box, row 0 in the south, by area in the shape's own units.

    The map is halved until a part is all land, all sea or one cell: the work follows the length of the coast.
    """
    shapely = _shapely()
    west, south, east, north = box
    x, y = np.linspace(west, east, shape[1] + 1), np.linspace(south, north, shape[0] + 1)
    shares = np.zeros(shape)
    parts = [(land, 0, shape[0], 0, shape[1])]
    while parts:
        rest, top, bottom, left, right = parts.pop()
        area = shapely.box(x[left], y[top], x[right], y[bottom])
        inside = shapely.intersection(rest, area)
        share = inside.area / area.area
        if share >= WHOLE:
            shares[top:bottom, left:right] = 1.0
        elif (bottom - top) * (right - left) == 1:
            shares[top, left] = share
        elif share > 0:
            parts += [(inside, *half) for half in _halves(top, bottom, left, right)]
    return shares


def _halves(top: int, bottom: int, left: int, right: int) -> tuple[tuple[int, int, int, int], ...]:
    if bottom - top >= right - left:
        middle = (top + bottom) // 2
        return (top, middle, left, right), (middle, bottom, left, right)
    middle = (left + right) // 2
    return (top, bottom, left, middle), (top, bottom, middle, right)


def _shapely() -> Any:
    return _installed("shapely", lambda: importlib.import_module("shapely"))


def _installed(name: str, load: Callable[[], Any]) -> Any:
    """Import a package of the extra [geo], or say what to install."""
    try:
        return load()
    except ImportError:
        raise SchemaError(
            "this map needs the package {name}; install it with: pip install 'sudare[geo]'", name=name
        ) from None
