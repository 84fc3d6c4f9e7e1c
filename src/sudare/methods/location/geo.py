"""Real maps: JIS mesh areas, H3 cells, land shares from polygons, cells as shapes. The door to the packages of [geo].

A mesh map is the plane grid of a rectangle of mesh cells; an H3 map has the centres of its hexagons. A plane grid has
no latitudes: its `land` is in metres from the south-west corner of row 0, column 0, x to the east and y to the north.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sudare.errors import SchemaError
from sudare.forms.jsontext import read_json
from sudare.forms.textfile import check_file, read_bytes
from sudare.methods.location.grid import DegreeCorner, ElasticGrid, MeshCorner, Places, PlaneGrid, PointPlaces
from sudare.methods.location.roads import RoadGraph, read_roads
from sudare.schema.arrays import Integers, Reals
from sudare.schema.mesh import (
    EQUATOR_RADIUS,
    FLATTENING,
    MESH_PER_DEGREE_EAST,
    MESH_PER_DEGREE_NORTH,
    MESH_UNITS,
    MESH_WEST,
    MeshCells,
    check_latitude,
    find_mesh_place,
    measure_smallest_cell,
    to_earth_centred,
)

Bounds = tuple[float, float, float, float]  # west, south, east, north

ALL_LAND = 1 - 1e-12  # a share from here on is all land: the rest is rounding
MAX_HEXAGONS = 100_000  # of a map; those of the sea do not count where land is given
MOST_COORDINATE = 1e9  # degrees or metres; beyond, areas overflow


def read_grid(section: Mapping[str, Any], folder: Path) -> tuple[Places, Reals | None]:
    """Read a map of kind mesh, h3 or graph: its places, and the land share of its cells if `land` is given."""
    kind = str(section["kind"])
    if kind == "graph":
        return read_roads(folder / str(section["file"])), None
    return _read_mesh(section, folder) if kind == "mesh" else _read_hexagons(section, folder)


def read_land_shares(places: Places, section: Mapping[str, Any], folder: Path) -> Reals:
    """Give the share of every cell of a plane grid that polygons cover, by area."""
    if not isinstance(places, PlaneGrid):
        raise SchemaError("land can be used only on a map of rows and columns; give weights for other maps")
    file = folder / str(section["land"])
    if places.corner is not None:
        bounds = mesh_bounds(places)
        return find_land_shares(read_polygons(file, bounds=bounds), bounds, places.shape).reshape(-1)
    width, height = float(places.cell_width_metres), float(places.cell_height_metres)
    plane = (0.0, 0.0, width * places.columns, height * places.rows)
    return find_land_shares(read_polygons(file, bounds=plane, is_degrees=False), plane, places.shape).reshape(-1)


def make_mesh_grid(level: int, *, south_west: tuple[int, int], shape: tuple[int, int]) -> PlaneGrid:
    """Make the plane grid of a rectangle of mesh cells, with the size of its smallest cell, rounded down.

    So a metre of the map is never more than a metre of the ground, and the promise per metre of ground holds.

    >>> grid = make_mesh_grid(3, south_west=(4280, 3120), shape=(80, 80))
    >>> grid.cell_height_metres, grid.cell_width_metres, grid.labels(np.array([0])).tolist()
    (Fraction(462303, 500), Fraction(1122269, 1000), ['53394000'])
    """
    tall, wide = MESH_UNITS[level - 1] / MESH_PER_DEGREE_NORTH, MESH_UNITS[level - 1] / MESH_PER_DEGREE_EAST
    south, north = south_west[0] * tall, (south_west[0] + shape[0]) * tall
    height, width = measure_smallest_cell(level, south=south, north=north, degrees_wide=shape[1] * wide)
    return PlaneGrid(
        rows=shape[0],
        columns=shape[1],
        cell_height_metres=Fraction(math.floor(height * 1000), 1000),
        cell_width_metres=Fraction(math.floor(width * 1000), 1000),
        corner=MeshCorner(level=level, row=south_west[0], column=south_west[1]),
    )


def place_grid(grid: PlaneGrid, *, south: float, west: float) -> PlaneGrid:
    """Give a plane grid its place on the globe: cells of so many degrees that none is smaller than its metres.

    >>> grid = PlaneGrid(rows=50, columns=40, cell_height_metres=100, cell_width_metres=100)
    >>> placed = place_grid(grid, south=35.6, west=139.6)
    >>> find_cell(placed, 35.6001, 139.6001), round(placed.degrees.tall, 6), round(placed.degrees.wide, 6)
    (0, 0.000901, 0.001104)
    """
    check_latitude(south)
    tall, wide = _degrees_of(grid, south, south, 0.0)
    for _ in range(3):  # north and the width follow from the size of cells, and the size of cells from them
        north = south + grid.rows * tall
        if not (abs(north) <= MAX_LATITUDE and abs(south) <= MAX_LATITUDE and abs(west) <= 180):
            raise SchemaError(
                "south_west must be latitude and longitude in degrees, and the map must end before latitude {most}",
                most=MAX_LATITUDE,
            )
        tall, wide = _degrees_of(grid, south, north, grid.columns * wide)
    return replace(grid, degrees=DegreeCorner(south=south, west=west, tall=tall, wide=wide))


MAX_LATITUDE = 85  # of a plane map: nearer to a pole cells of equal degrees are too unlike
ROUNDED_UP = 1 + 1e-9  # degrees of a cell, so that it is never smaller than its metres


def _degrees_of(grid: PlaneGrid, south: float, north: float, degrees_wide: float) -> tuple[float, float]:
    height, width = measure_smallest_cell(6, south=south, north=north, degrees_wide=degrees_wide)
    tall = float(grid.cell_height_metres) / (height * MESH_PER_DEGREE_NORTH) * ROUNDED_UP
    return tall, float(grid.cell_width_metres) / (width * MESH_PER_DEGREE_EAST) * ROUNDED_UP


def mesh_bounds(grid: PlaneGrid) -> Bounds:
    """Give west, south, east and north of a mesh map in degrees."""
    if grid.corner is None:
        raise SchemaError("this map has no latitudes; make a map of kind mesh")
    units = MESH_UNITS[grid.corner.level - 1]
    tall, wide = units / MESH_PER_DEGREE_NORTH, units / MESH_PER_DEGREE_EAST
    west, south = MESH_WEST + grid.corner.column * wide, grid.corner.row * tall
    return west, south, west + grid.columns * wide, south + grid.rows * tall


MAX_METRES_OFF = 20_000  # a place further than that from every point of a map is outside


def find_cell(places: Places, latitude: float, longitude: float) -> int:
    """Find the number of the cell at a place in degrees; device.js has the same.

    On a mesh or a plane with a corner that is the cell around it, on points of the globe (H3) and on roads read from
    lines the nearest one.
    """
    if isinstance(places, ElasticGrid):
        return find_cell(places.grid, latitude, longitude)
    points = _find_positions(places)
    is_finite = math.isfinite(latitude) and math.isfinite(longitude)
    if not is_finite or (points is not None and abs(latitude) > 90):
        raise SchemaError("latitude and longitude must be degrees, the latitude between -90 and 90")
    if points is not None:
        place = np.rint(to_earth_centred(np.array([latitude]), np.array([longitude])) * 1000)
        metres = np.sqrt(((points - place) ** 2).sum(axis=1)) / 1000
        if float(metres.min()) > MAX_METRES_OFF:
            raise SchemaError("the place is outside the map; give a place on it")
        return int(metres.argmin())
    if not isinstance(places, PlaneGrid) or (places.corner is None and places.degrees is None):
        raise SchemaError("this map has no latitudes; give the number of a cell")
    cell = _find_on_mesh(places, latitude, longitude)
    if cell is None and abs(longitude) <= 90 and _find_on_mesh(places, longitude, latitude) is not None:
        raise SchemaError(
            "the place is outside the map, but with latitude and longitude swapped it would be on it; swap them"
        )
    if cell is None:
        raise SchemaError("the place is outside the map; give a place on it")
    return cell


def _find_positions(places: Places) -> Reals | None:
    """Give earth-centred millimetres of every place; None for a map that has no latitudes, or is a mesh."""
    if isinstance(places, PointPlaces):
        return places.points.astype(np.float64) if _is_on_ground(places.points) else None
    if not isinstance(places, RoadGraph):
        return None
    named = [_LAT_LON.fullmatch(name) for name in places.names]
    if not all(named):
        return None
    degrees = np.array([[float(name[1]), float(name[2])] for name in named if name])
    centred: Reals = np.rint(to_earth_centred(degrees[:, 0], degrees[:, 1]) * 1000)
    return centred


OFF_GROUND = 1e-6  # of the squared radius of the earth: about 3 m


def _is_on_ground(points: Integers) -> bool:
    """Tell whether points in millimetres lie on the ellipsoid: those above or below are further apart than people are.

    A forger could lift every other cell by kilometres: all of them would still be the nearest to people there.
    """
    if points.shape[1] != 3:
        return False
    x, y, z = (points / (1000 * EQUATOR_RADIUS)).T
    squares = x * x + y * y + z * z / (1 - FLATTENING) ** 2
    return bool((np.abs(squares - 1) < OFF_GROUND).all())


def _find_on_mesh(grid: PlaneGrid, latitude: float, longitude: float) -> int | None:
    if grid.corner is not None:
        row, column = find_mesh_place(grid.corner.level, latitude, longitude)
        row, column = row - grid.corner.row, column - grid.corner.column
    elif grid.degrees is not None:
        row, column = grid.degrees.find(latitude, longitude)
    else:
        return None
    is_inside = 0 <= row < grid.rows and 0 <= column < grid.columns
    return row * grid.columns + column if is_inside else None


def _read_mesh(section: Mapping[str, Any], folder: Path) -> tuple[Places, Reals | None]:
    level: int = section["level"]
    if "area" in section:
        grid, covered = _cover_areas(level, section["area"])
    else:
        grid, covered = _cover_bounds(level, section["bounds"]), None
    shares = read_land_shares(grid, section, folder) if "land" in section else covered
    return grid, shares if shares is None or covered is None else shares * covered


def _cover_areas(level: int, area: Any) -> tuple[PlaneGrid, Reals | None]:
    """Make the grid of the rectangle around first-level areas, and its weights: 0 where it is filled up."""
    codes = (str(area),) if isinstance(area, str | int) else tuple(str(code) for code in area)
    first = MeshCells(level=1, area=codes)
    rows, columns = first.grid(np.arange(first.size))
    side = MESH_UNITS[0] // MESH_UNITS[level - 1]
    low, high = (int(rows.min()), int(columns.min())), (int(rows.max()), int(columns.max()))
    shape = ((high[0] - low[0] + 1) * side, (high[1] - low[1] + 1) * side)
    grid = make_mesh_grid(level, south_west=(low[0] * side, low[1] * side), shape=shape)
    listed = np.zeros((high[0] - low[0] + 1, high[1] - low[1] + 1))
    listed[rows - low[0], columns - low[1]] = 1.0
    covered = np.repeat(np.repeat(listed, side, axis=0), side, axis=1).reshape(-1)
    return grid, None if listed.all() else covered


def _cover_bounds(level: int, bounds: Sequence[Fraction]) -> PlaneGrid:
    """Make the grid of the mesh cells that touch a rectangle of degrees."""
    south, west, north, east = _check_bounds(bounds)
    low, high = find_mesh_place(level, south, west), find_mesh_place(level, north, east)
    if min(low) < 0:
        raise SchemaError("the mesh begins at 0 N, 100 E; these bounds lie outside")
    return make_mesh_grid(level, south_west=low, shape=(high[0] - low[0] + 1, high[1] - low[1] + 1))


def _check_bounds(bounds: Sequence[Fraction]) -> tuple[float, float, float, float]:
    south, west, north, east = (float(degrees) for degrees in bounds)
    check_latitude(south)
    check_latitude(north)
    if not (south < north and west < east):
        raise SchemaError("bounds must be [south, west, north, east] with south below north and west below east")
    return south, west, north, east


def _read_hexagons(section: Mapping[str, Any], folder: Path) -> tuple[Places, Reals | None]:
    """Read hexagons whose centre lies within the bounds; with `land`, only those that have some.

    Where people can be anywhere (inputs = "all"), hexagons of the sea stay on the map, with weight 0.
    """
    h3, shapely = _require("h3", lambda: importlib.import_module("h3")), _import_shapely()
    south, west, north, east = _check_bounds(section["bounds"])
    area, resolution = shapely.box(west, south, east, north), section["resolution"]
    land = None
    if "land" in section:
        land = shapely.intersection(read_polygons(folder / str(section["land"]), bounds=area.bounds), area)
    is_land_only = land is not None and section.get("inputs") != "all"
    _check_resolution(h3, resolution, land if is_land_only else area)
    cells = sorted(_list_hexagons(h3, land if is_land_only else area, resolution, (west, south, east, north)))
    shares = None
    if land is not None and cells:
        shapes = shapely.polygons([[(x, y) for y, x in h3.cell_to_boundary(cell)] for cell in cells])
        covered = shapely.area(shapely.intersection(shapes, _cut_land(land, shapes))) / shapely.area(shapes)
        shares = np.clip(np.where(covered >= ALL_LAND, 1.0, covered), 0.0, 1.0)
    if shares is not None and is_land_only:
        cells, shares = [cell for cell, share in zip(cells, shares, strict=True) if share > 0], shares[shares > 0]
    if not 1 <= len(cells) <= MAX_HEXAGONS:
        raise SchemaError(
            "there are {cells} H3 cells within the bounds; choose a resolution that gives 1 to {most}",
            cells=len(cells),
            most=MAX_HEXAGONS,
        )
    centres = np.array([h3.cell_to_latlng(cell) for cell in cells])
    points = np.rint(to_earth_centred(centres[:, 0], centres[:, 1]) * 1000).astype(np.int64)
    return PointPlaces(points=points, names=tuple(cells)), shares


def _list_hexagons(h3: Any, area: Any, resolution: int, bounds: Bounds) -> set[str]:
    """List the hexagons that touch an area and whose centre lies within the bounds."""
    west, south, east, north = bounds
    cells: set[str] = set()
    for part in getattr(area, "geoms", [area]):
        if part.area > 0:
            shape = h3.geo_to_h3shape(part)
            cells.update(h3.h3shape_to_cells_experimental(shape, resolution, contain="overlap"))
    centres = {cell: h3.cell_to_latlng(cell) for cell in cells}
    return {cell for cell, (y, x) in centres.items() if south <= y <= north and west <= x <= east}


def _cut_land(land: Any, shapes: Any) -> Any:
    """Give for every shape the polygons of the land that it touches: a coast has many, a hexagon meets few."""
    shapely = _import_shapely()
    parts = np.array([part for part in getattr(land, "geoms", [land]) if part.area > 0], dtype=object)
    if len(parts) == 1:
        shapely.prepare(parts)
        return parts[0]
    touching: list[list[Any]] = [[] for _ in shapes]
    for shape, part in shapely.STRtree(parts).query(shapes, predicate="intersects").T.tolist():
        touching[shape].append(parts[part])
    return np.array([shapely.union_all(found) if found else shapely.Polygon() for found in touching], dtype=object)


MOST_OVER = 1.3  # how many more hexagons than by area are made before they are counted: coasts have many
KILOMETRES_PER_DEGREE = 111.2


def _check_resolution(h3: Any, resolution: int, area: Any) -> None:
    """Refuse a resolution that would make too many cells on this area (degrees), before any is made."""
    _, south, _, north = area.bounds
    square_km = area.area * KILOMETRES_PER_DEGREE**2 * math.cos(math.radians((south + north) / 2))
    expected = square_km / h3.average_hexagon_area(resolution, unit="km^2")
    if expected > MOST_OVER * MAX_HEXAGONS:
        raise SchemaError(
            "resolution {resolution} would make about {cells} H3 cells within the bounds; choose a smaller one that"
            " gives at most {most}",
            resolution=resolution,
            cells=int(expected),
            most=MAX_HEXAGONS,
        )


def read_polygons(file: Path, *, bounds: Bounds, is_degrees: bool = True) -> Any:
    """Read polygons as one shape, in longitude and latitude (or in the metres of a plane)."""
    shapely = _import_shapely()
    is_geojson = file.suffix.lower() in (".geojson", ".json")
    shapes = _read_geojson(file) if is_geojson else _read_layers(file, is_degrees)
    kept = [shape for shape in shapely.make_valid(np.array(shapes, dtype=object)) if shape.area > 0]
    if not kept:
        raise SchemaError("{file} contains no polygon; give the outlines of the land as polygons", file=file)
    land = shapely.union_all(kept)
    west, south, east, north = land.bounds
    if land.intersects(shapely.box(*bounds)):
        return land
    if is_degrees and shapely.box(south, west, north, east).intersects(shapely.box(*bounds)):
        raise SchemaError("{file}: latitude and longitude are swapped; GeoJSON writes longitude first", file=file)
    raise SchemaError("{file}: no polygon touches the map; check their place and their coordinates", file=file)


def _read_geojson(file: Path) -> list[Any]:
    shapely = _require("shapely", lambda: importlib.import_module("shapely"))
    shape = importlib.import_module("shapely.geometry").shape
    try:
        content = read_json(read_bytes(file))
        features = content["features"] if content["type"] == "FeatureCollection" else [content]
        shapes = [shape(feature["geometry"] if feature.get("type") == "Feature" else feature) for feature in features]
        if not all(abs(edge) <= MOST_COORDINATE for one in shapes for edge in one.bounds):
            raise ValueError("out of reach")
        return shapes
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, shapely.errors.ShapelyError):
        raise SchemaError(
            "{file} is not GeoJSON with polygons; save the outlines of the land as polygons in GeoJSON", file=file
        ) from None


def _read_layers(file: Path, is_degrees: bool) -> list[Any]:
    """Read a GeoPackage or a shapefile, brought to longitude and latitude where it says that it is something else."""
    check_file(file)
    pyogrio, shapely = _require("pyogrio", lambda: importlib.import_module("pyogrio")), _import_shapely()
    try:
        facts, _, outlines, _ = pyogrio.raw.read(str(file), columns=[])
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError):
        raise SchemaError("{file} cannot be read; give GeoJSON, a GeoPackage or a shapefile", file=file) from None
    shapes = shapely.from_wkb(outlines)
    if is_degrees and facts["crs"]:
        pyproj = _require("pyproj", lambda: importlib.import_module("pyproj"))
        if not pyproj.CRS(facts["crs"]).is_geographic:
            change = pyproj.Transformer.from_crs(facts["crs"], "EPSG:4326", always_xy=True)
            shapes = shapely.transform(shapes, lambda xy: np.column_stack(change.transform(xy[:, 0], xy[:, 1])))
    return list(shapes)


def find_land_shares(land: Any, bounds: Bounds, shape: tuple[int, int]) -> Reals:
    """Find the share of land of every cell of a grid over bounds, row 0 in the south, by area in the units of the land.

    The map is halved until a part is all land, all sea or one cell: the work follows the length of the coast.
    """
    shapely = _import_shapely()
    west, south, east, north = bounds
    x, y = np.linspace(west, east, shape[1] + 1), np.linspace(south, north, shape[0] + 1)
    shares = np.zeros(shape)
    parts = [(land, 0, shape[0], 0, shape[1])]
    while parts:
        nearby, top, bottom, left, right = parts.pop()
        area = shapely.box(x[left], y[top], x[right], y[bottom])
        covered = shapely.intersection(nearby, area)
        share = covered.area / area.area
        if share >= ALL_LAND:
            shares[top:bottom, left:right] = 1.0
        elif (bottom - top) * (right - left) == 1:
            shares[top, left] = share
        elif share > 0:
            parts += [(covered, *half) for half in _halve(top, bottom, left, right)]
    return shares


def _halve(top: int, bottom: int, left: int, right: int) -> tuple[tuple[int, int, int, int], ...]:
    if bottom - top >= right - left:
        middle = (top + bottom) // 2
        return (top, middle, left, right), (middle, bottom, left, right)
    middle = (left + right) // 2
    return (top, bottom, left, middle), (top, bottom, middle, right)


def _import_shapely() -> Any:
    return _require("shapely", lambda: importlib.import_module("shapely"))


def _require(name: str, load: Callable[[], Any]) -> Any:
    """Import a package of the extra [geo], or say what to install."""
    try:
        return load()
    except ImportError:
        raise SchemaError(
            "this map needs the package {name}; install it with: pip install 'sudare[geo]'", name=name
        ) from None


# --- cells as shapes in longitude and latitude (RFC 7946), for maps in a geographic system ----------------------------

Shape = dict[str, Any]

DECIMALS = 7  # of a degree: a centimetre
_LAT_LON = re.compile(r"(-?[0-9]+\.[0-9]+),(-?[0-9]+\.[0-9]+)")


def outline_cells(places: Places, cells: Integers) -> list[Shape] | None:
    """Give the shape of every cell: squares of the mesh, H3 hexagons, crossings read from lines; None for other maps.

    >>> outline_cells(PlaneGrid(rows=1, columns=1, cell_height_metres=9, cell_width_metres=9), np.array([0])) is None
    True
    """
    if isinstance(places, PlaneGrid) and places.corner is not None:
        return [_outline_square(places, cell) for cell in cells.tolist()]
    names = places.labels(cells).tolist()
    if isinstance(places, PointPlaces) and importlib.util.find_spec("h3") is not None:
        return _outline_hexagons(names)
    points = [_LAT_LON.fullmatch(name) for name in names] if isinstance(places, RoadGraph) else [None]
    if not all(points):
        return None
    return [{"type": "Point", "coordinates": [float(point[2]), float(point[1])]} for point in points if point]


def _outline_square(grid: PlaneGrid, cell: int) -> Shape:
    corner = grid.corner
    if corner is None:
        raise AssertionError("only maps on the mesh have latitudes")
    units = MESH_UNITS[corner.level - 1]
    row, column = divmod(cell, grid.columns)
    south, north = ((corner.row + row + end) * units / MESH_PER_DEGREE_NORTH for end in (0, 1))
    west, east = (MESH_WEST + (corner.column + column + end) * units / MESH_PER_DEGREE_EAST for end in (0, 1))
    return _make_polygon([(west, south), (east, south), (east, north), (west, north)])


def _outline_hexagons(names: list[str]) -> list[Shape] | None:
    h3 = importlib.import_module("h3")
    if not all(h3.is_valid_cell(name) for name in names):
        return None
    return [_make_polygon([(east, north) for north, east in h3.cell_to_boundary(name)]) for name in names]


def _make_polygon(corners: list[tuple[float, float]]) -> Shape:
    ring = [[round(east, DECIMALS), round(north, DECIMALS)] for east, north in (*corners, corners[0])]
    return {"type": "Polygon", "coordinates": [ring]}
