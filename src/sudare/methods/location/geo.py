"""Road maps from files: GeoJSON lines, GraphML (as OSMnx writes it), OpenStreetMap extracts (.osm.pbf).

Places are the ends and crossings of roads, named by node or by latitude,longitude; a road is as long as its line.
"""

from __future__ import annotations

import importlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from sudare.errors import SchemaError
from sudare.forms.textfile import check_file, read_bytes, read_text
from sudare.methods.location.grid import MeshCorner, Places, PlaneGrid, PointPlaces
from sudare.methods.location.metrics import RoadGraph
from sudare.schema.arrays import Reals
from sudare.schema.mesh import (
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

LonLat = tuple[float, float]  # longitude, latitude
Edge = tuple[str, str, Fraction]

LEAST_MILLIMETRES = 1
LENGTHS = ("length", "metres", "weight")  # names of an edge's length in metres, the first that is there


def read_roads(file: Path) -> RoadGraph:
    """Read a road map; GeoJSON and GraphML must be of one part, of an OpenStreetMap extract the largest is taken."""
    name = file.name.lower()
    if name.endswith((".geojson", ".json")):
        return _graph(list(_between_crossings(_geojson_lines(file))), file)
    if name.endswith(".graphml"):
        return _graph(list(_graphml(file)), file)
    if name.endswith((".osm.pbf", ".osm")):
        return _graph(_largest(list(_between_crossings(_osm_lines(file)))), file)
    raise SchemaError("{file}: roads are read from .geojson, .graphml or .osm.pbf files", file=file)


def _graph(edges: list[Edge], file: Path) -> RoadGraph:
    if not edges:
        raise SchemaError("{file} holds no road; give lines between places", file=file)
    return RoadGraph.of_metres(edges)


def metres_of(points: Iterable[LonLat]) -> Fraction:
    """Give the length of a line in metres, to the millimetre below: the sum of chords, never more than the ground.

    >>> float(metres_of([(139.0, 35.0), (139.0, 35.01)]))
    1109.406
    """
    given = np.array(list(points))
    check_latitude(float(np.abs(given[:, 1]).max()))
    places = to_earth_centred(given[:, 1], given[:, 0])
    millimetres = int(np.sqrt((np.diff(places, axis=0) ** 2).sum(axis=1)).sum() * 1000)
    return Fraction(max(millimetres, LEAST_MILLIMETRES), 1000)


def _between_crossings(lines: Iterable[list[LonLat]]) -> Iterator[Edge]:
    """Cut lines where they end or share a point with another; what lies between is one road."""
    listed = [[(round(x, 7), round(y, 7)) for x, y in line] for line in lines if len(line) > 1]
    met = Counter(point for line in listed for point in line)
    met.update(line[end] for line in listed for end in (0, -1))
    for line in listed:
        cuts = [0, *(place for place in range(1, len(line) - 1) if met[line[place]] > 1), len(line) - 1]
        for start, end in pairwise(cuts):
            if line[start] != line[end]:
                yield _name(line[start]), _name(line[end]), metres_of(line[start : end + 1])


def _name(point: LonLat) -> str:
    return f"{point[1]:.7f},{point[0]:.7f}"


def _geojson_lines(file: Path) -> Iterator[list[LonLat]]:
    try:
        found = json.loads(read_bytes(file))
        parts = found["features"] if found["type"] == "FeatureCollection" else [found]
        shapes = [part["geometry"] if part.get("type") == "Feature" else part for part in parts]
        for shape in shapes:
            lines = {"LineString": [shape["coordinates"]], "MultiLineString": shape["coordinates"]}
            for line in lines.get(shape["type"], []):
                yield [(float(point[0]), float(point[1])) for point in line]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise SchemaError("{file} is not GeoJSON with lines; save the roads so", file=file) from None


def _graphml(file: Path) -> Iterator[Edge]:
    text = read_text(file)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:  # entities could grow without end; GraphML needs none
        raise SchemaError("{file}: a GraphML file with a DOCTYPE is not read; remove it", file=file)
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  (no DOCTYPE, so no entities)
    except ElementTree.ParseError:
        raise SchemaError("{file} is not GraphML; export the roads again", file=file) from None
    names = {key.get("id"): key.get("attr.name", "") for key in root.iter() if _tag(key) == "key"}
    places = {node.get("id"): _data(node, names) for node in root.iter() if _tag(node) == "node"}
    for edge in (one for one in root.iter() if _tag(one) == "edge"):
        start, end = edge.get("source"), edge.get("target")
        if start is None or end is None:
            raise SchemaError("{file}: an edge has no source or no target; export the roads again", file=file)
        if start != end:
            yield start, end, _length(_data(edge, names), places.get(start, {}), places.get(end, {}), file)


def _length(edge: dict[str, str], start: dict[str, str], end: dict[str, str], file: Path) -> Fraction:
    try:
        for name in LENGTHS:
            if name in edge:
                return max(Fraction(edge[name]), Fraction(LEAST_MILLIMETRES, 1000))
        return metres_of([(float(one["x"]), float(one["y"])) for one in (start, end)])
    except (ValueError, KeyError):
        raise SchemaError(
            "{file}: every edge needs a length in metres, or its nodes x and y in degrees", file=file
        ) from None


def _data(element: ElementTree.Element, names: dict[str | None, str]) -> dict[str, str]:
    return {names.get(one.get("key"), ""): (one.text or "").strip() for one in element if _tag(one) == "data"}


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _osm_lines(file: Path) -> Iterator[list[LonLat]]:
    """Ways tagged highway of an OpenStreetMap extract, through the package osmium."""
    check_file(file)
    osmium = _osmium()
    ways = osmium.FileProcessor(str(file)).with_locations().with_filter(osmium.filter.KeyFilter("highway"))
    try:
        for way in ways:
            if way.is_way():
                yield [(node.lon, node.lat) for node in way.nodes if node.location.valid()]
    except RuntimeError:
        raise SchemaError("{file} is not an OpenStreetMap extract; get it again as .osm.pbf", file=file) from None


def _osmium() -> Any:
    try:
        importlib.import_module("osmium.filter")
        return importlib.import_module("osmium")
    except ImportError:
        raise SchemaError(
            "OpenStreetMap extracts need the package osmium; install it, or give the roads as GeoJSON or GraphML"
        ) from None


def _largest(edges: list[Edge]) -> list[Edge]:
    """The roads of the largest connected part: an extract cuts roads at its border, and its pieces are no mistake."""
    part: dict[str, str] = {}

    def top(name: str) -> str:
        while part.setdefault(name, name) != name:
            part[name] = part[part[name]]
            name = part[name]
        return name

    for start, end, _ in edges:
        part[top(start)] = top(end)
    sizes = Counter(top(name) for name in list(part))
    best = sizes.most_common(1)[0][0] if sizes else ""
    return [edge for edge in edges if top(edge[0]) == best]


# Real maps: JIS mesh areas, H3 cells, land shares from polygons, roads. The one door to the packages of [geo].
#
# [grid] kind = "mesh" level = 5 1, 2, 3, 4 (1/2), 5 (1/4), 6 (1/8) area = ["5339"] first-level codes; or bounds =
# [south, west, north, east] in degrees land = "coast.geojson" optional: GeoJSON, GeoPackage or shapefile; the share
# of land is the weight
#
# [grid] kind = "h3" resolution = 8 bounds = [35.6, 139.6, 35.8, 139.9] land = "coast.geojson" optional
#
# [grid] kind = "graph" file = "roads.geojson" or .graphml, .osm.pbf: see geo_roads.py
#
# A plane grid has no latitudes: its `land` is in metres from the south-west corner of row 0, column 0, x to the east
# and y to the north.


Bounds = tuple[float, float, float, float]  # west, south, east, north

WHOLE = 1 - 1e-12  # a share from here on is all land: the rest is rounding
MOST_HEXAGONS = 5_000


def read_grid(section: Mapping[str, Any], folder: Path) -> tuple[Places, Reals | None]:
    """Read a map of kind mesh, h3 or graph: its places, and the land share of its cells if `land` is given."""
    kind = str(section["kind"])
    if kind == "graph":
        return read_roads(folder / str(section["file"])), None
    return _mesh(section, folder) if kind == "mesh" else _hexagons(section, folder)


def land_shares(places: Places, section: Mapping[str, Any], folder: Path) -> Reals:
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
    height, width = measure_smallest_cell(level, south=south, north=north, degrees_wide=shape[1] * wide)
    return PlaneGrid(
        rows=shape[0],
        columns=shape[1],
        cell_height_metres=Fraction(math.floor(height * 1000), 1000),
        cell_width_metres=Fraction(math.floor(width * 1000), 1000),
        corner=MeshCorner(level=level, row=south_west[0], column=south_west[1]),
    )


def mesh_box(grid: PlaneGrid) -> Bounds:
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
    row, column = find_mesh_place(grid.corner.level, latitude, longitude)
    row, column = row - grid.corner.row, column - grid.corner.column
    is_inside = 0 <= row < grid.rows and 0 <= column < grid.columns
    return row * grid.columns + column if is_inside else None


def _mesh(section: Mapping[str, Any], folder: Path) -> tuple[Places, Reals | None]:
    level: int = section["level"]
    grid, covered = _area(level, section["area"]) if "area" in section else (_bounded(level, section["bounds"]), None)
    shares = land_shares(grid, section, folder) if "land" in section else covered
    return grid, shares if shares is None or covered is None else shares * covered


def _area(level: int, area: Any) -> tuple[PlaneGrid, Reals | None]:
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


def _bounded(level: int, bounds: Sequence[Fraction]) -> PlaneGrid:
    """The mesh cells that touch a rectangle of degrees."""
    south, west, north, east = _checked_bounds(bounds)
    low, high = find_mesh_place(level, south, west), find_mesh_place(level, north, east)
    if min(low) < 0:
        raise SchemaError("the mesh begins at 0 N, 100 E; these bounds lie outside")
    return mesh_grid(level, south_west=low, shape=(high[0] - low[0] + 1, high[1] - low[1] + 1))


def _checked_bounds(bounds: Sequence[Fraction]) -> tuple[float, float, float, float]:
    south, west, north, east = (float(degrees) for degrees in bounds)
    check_latitude(south)
    check_latitude(north)
    if not (south < north and west < east):
        raise SchemaError("bounds must be [south, west, north, east] with south below north and west below east")
    return south, west, north, east


def _hexagons(section: Mapping[str, Any], folder: Path) -> tuple[Places, Reals | None]:
    h3, shapely = _installed("h3", lambda: importlib.import_module("h3")), _shapely()
    south, west, north, east = _checked_bounds(section["bounds"])
    ring = ((south, west), (south, east), (north, east), (north, west))
    cells = sorted(h3.polygon_to_cells(h3.LatLngPoly(ring), section["resolution"]))
    if not 1 <= len(cells) <= MOST_HEXAGONS:
        raise SchemaError(
            "the bounds hold {cells} H3 cells; choose a resolution with 1 to {most}",
            cells=len(cells),
            most=MOST_HEXAGONS,
        )
    centres = np.array([h3.cell_to_latlng(cell) for cell in cells])
    points = np.rint(to_earth_centred(centres[:, 0], centres[:, 1]) * 1000).astype(np.int64)
    places = PointPlaces(points=points, names=tuple(cells))
    if "land" not in section:
        return places, None
    land = read_polygons(folder / str(section["land"]), box=(west, south, east, north))
    shapes = shapely.polygons([[(x, y) for y, x in h3.cell_to_boundary(cell)] for cell in cells])
    shares = shapely.area(shapely.intersection(shapes, land)) / shapely.area(shapes)
    return places, np.clip(np.where(shares >= WHOLE, 1.0, shares), 0.0, 1.0)


def read_polygons(file: Path, *, box: Bounds, is_degrees: bool = True) -> Any:
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
    check_file(file)
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


def shares_of(land: Any, box: Bounds, shape: tuple[int, int]) -> Reals:
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
