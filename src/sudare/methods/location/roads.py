"""Road maps: places are crossings, distance is the shortest path along roads (Takagi's GEM is GridE with this metric).

Roads are read from GeoJSON lines, GraphML (as OSMnx writes it) or OpenStreetMap extracts (.osm.pbf). Places are then
the ends and crossings of roads, named by node or by latitude,longitude; a road is as long as its line.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from sudare.errors import ParameterError, SchemaError
from sudare.forms.jsontext import read_json
from sudare.forms.textfile import check_file, read_bytes, read_text
from sudare.methods.location.grid import MILLIMETRE
from sudare.schema.arrays import Integers, Labels, Reals
from sudare.schema.mesh import check_latitude, to_earth_centred

MAX_PATH_MILLIMETRES = 2 * 10**9  # squares fit 64 bits, sums are exact as floats


@dataclass(frozen=True, kw_only=True, eq=False)
class RoadGraph:
    """Crossings and roads between them, which may be walked both ways; lengths in whole millimetres.

    Shortest paths obey the triangle inequality, so the promise holds as on a plane, per metre of road.
    Source: Takagi, Cao, Asano, Yoshikawa 2019 (Geo-Graph-Indistinguishability).

    >>> roads = RoadGraph(names=("a", "b", "c"), edges=((0, 1, 100_000), (1, 2, 50_000), (0, 2, 400_000)))
    >>> np.sqrt(roads.squares(0)).tolist()
    [0.0, 100000.0, 150000.0]
    """

    names: tuple[str, ...]
    edges: tuple[tuple[int, int, int], ...]
    unit_metres: Fraction = field(default=MILLIMETRE, init=False)
    _matrix: list[Any] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(str(name) for name in self.names))
        edges = tuple((int(start), int(end), int(length)) for start, end, length in self.edges)
        object.__setattr__(self, "edges", edges)
        if not self.names or len(set(self.names)) < len(self.names):
            raise ParameterError(
                "every place of a road map needs a name of its own; rename those that have the same name"
            )
        for start, end, length in self.edges:
            if not (0 <= start < self.size and 0 <= end < self.size):
                raise ParameterError(
                    "a road ends at a place ({place}) that is not on the map; add the place, or take the road out",
                    place=max(start, end),
                )
            if not 0 < length <= MAX_PATH_MILLIMETRES:
                raise ParameterError("the length of a road ({metres} m) must be above 0", metres=Fraction(length, 1000))
        parts = len(self.parts())
        if parts > 1:
            raise ParameterError(
                "the road map falls into {parts} parts without a road between them; publish each part by itself,"
                " or add the missing roads",
                parts=parts,
            )

    @classmethod
    def of_metres(cls, edges: Iterable[tuple[str, str, Fraction]]) -> RoadGraph:
        """Make a graph of named places and lengths in metres, rounded down to millimetres.

        >>> RoadGraph.of_metres([("a", "b", Fraction("12.5"))]).edges
        ((0, 1, 12500),)
        """
        named = list(edges)
        names = dict.fromkeys(name for start, end, _ in named for name in (start, end))
        numbers = {name: number for number, name in enumerate(names)}
        numbered = ((numbers[start], numbers[end], int(metres * 1000)) for start, end, metres in named if start != end)
        return cls(names=tuple(numbers), edges=tuple(numbered))

    @property
    def size(self) -> int:
        """Count the places."""
        return len(self.names)

    def squares(self, cell: int) -> Integers:
        """Give the squared lengths of the shortest paths, in square millimetres."""
        lengths = self.lengths(cell)
        return lengths * lengths

    def lengths(self, cell: int) -> Integers:
        """Give the lengths of the shortest paths, in whole millimetres; sums of floats are exact up to 2**53."""
        return _search_paths(self, int(cell))

    def metres(self, cell: int) -> Reals:
        """Give the lengths of the shortest paths in metres."""
        metres: Reals = self.lengths(cell).astype(np.float64) * float(self.unit_metres)
        return metres

    def parts(self) -> list[Integers]:
        """Find the connected parts, the largest first."""
        from scipy.sparse.csgraph import connected_components

        _, part_of = connected_components(self._lengths(), directed=False)
        parts = [np.flatnonzero(part_of == number) for number in range(int(part_of.max()) + 1)]
        return sorted(parts, key=len, reverse=True)

    def labels(self, cells: Integers) -> Labels:
        """Give the names."""
        return np.array(self.names, dtype=object)[np.asarray(cells)]

    def to_dict(self) -> dict[str, Any]:
        """Give the roads as JSON-able facts."""
        edges = [list(edge) for edge in self.edges]
        return {"kind": "graph", "unit_metres": "1/1000", "names": list(self.names), "edges": edges}

    def both_ways(self) -> Any:
        """Give the sparse matrix of lengths in millimetres, every road both ways."""
        if len(self._matrix) < 2:
            upper = self._lengths()
            self._matrix.append((upper + upper.T).tocsr())
        return self._matrix[1]

    def find_steepest(self, levels: Reals) -> float:
        """Find the steepest slope of levels per metre between any two places.

        A shortest path is made of roads, so that no slope is steeper than along one of them.

        >>> roads = RoadGraph(names=("a", "b", "c"), edges=((0, 1, 100_000), (1, 2, 50_000)))
        >>> roads.find_steepest(np.array([0.0, 1.0, 1.2]))
        0.01
        """
        starts, ends, lengths = np.array(self.edges, dtype=np.int64).reshape(-1, 3).T
        slopes = np.abs(levels[starts] - levels[ends]) / (lengths * float(self.unit_metres))
        return float(slopes.max(initial=0.0))

    def _lengths(self) -> Any:
        """Make the sparse matrix of lengths; of parallel roads the shortest counts."""
        from scipy.sparse import csr_matrix

        if not self._matrix:
            shortest: dict[tuple[int, int], int] = {}
            for start, end, length in self.edges:
                ends = (min(start, end), max(start, end))
                shortest[ends] = min(length, shortest.get(ends, length))
            rows, columns = (np.array([ends[side] for ends in shortest], dtype=np.int64) for side in (0, 1))
            lengths = np.array(list(shortest.values()), dtype=np.float64)
            self._matrix.append(csr_matrix((lengths, (rows, columns)), shape=(self.size, self.size)))
        return self._matrix[0]


KEPT_PATHS = 32  # places whose paths are kept: draws and measures ask for the same ones again


@functools.lru_cache(maxsize=KEPT_PATHS)
def _search_paths(roads: RoadGraph, cell: int) -> Integers:
    from scipy.sparse.csgraph import dijkstra

    lengths: Integers = np.rint(dijkstra(roads.both_ways(), indices=cell)).astype(np.int64)
    if int(lengths.max()) > MAX_PATH_MILLIMETRES:
        raise ParameterError(
            "the road map is more than {most} km across; use a smaller area", most=MAX_PATH_MILLIMETRES // 10**6
        )
    lengths.flags.writeable = False
    return lengths


# --- roads from files -------------------------------------------------------------------------------------------------

LonLat = tuple[float, float]  # longitude, latitude
Edge = tuple[str, str, Fraction]

MIN_ROAD_MILLIMETRES = 1  # shorter roads are taken to be so long
LENGTH_NAMES = ("length", "metres", "weight")  # of an edge's length in metres; the first that is there counts


def read_roads(file: Path) -> RoadGraph:
    """Read a road map; GeoJSON and GraphML must be of one part, of an OpenStreetMap extract the largest is taken."""
    name = file.name.lower()
    if name.endswith((".geojson", ".json")):
        return _make_graph(list(_cut_at_crossings(_read_geojson(file))), file)
    if name.endswith(".graphml"):
        return _make_graph(list(_read_graphml(file)), file)
    if name.endswith((".osm.pbf", ".osm")):
        return _make_graph(_keep_largest_part(list(_cut_at_crossings(_read_osm(file)))), file)
    raise SchemaError("{file}: roads are read from .geojson, .graphml or .osm.pbf files", file=file)


def _make_graph(edges: list[Edge], file: Path) -> RoadGraph:
    if not edges:
        raise SchemaError("{file} contains no road; give lines between places", file=file)
    return RoadGraph.of_metres(edges)


def measure_line(points: Iterable[LonLat]) -> Fraction:
    """Measure a line in metres, rounded down to a millimetre: the sum of chords, never more than on the ground.

    >>> float(measure_line([(139.0, 35.0), (139.0, 35.01)]))
    1109.406
    """
    degrees = np.array(list(points))
    check_latitude(float(np.abs(degrees[:, 1]).max()))
    centred = to_earth_centred(degrees[:, 1], degrees[:, 0])
    millimetres = int(np.sqrt((np.diff(centred, axis=0) ** 2).sum(axis=1)).sum() * 1000)
    return Fraction(max(millimetres, MIN_ROAD_MILLIMETRES), 1000)


def _cut_at_crossings(lines: Iterable[list[LonLat]]) -> Iterator[Edge]:
    """Cut lines where they end or share a point with another; what lies between is one road."""
    rounded = [[(round(x, 7), round(y, 7)) for x, y in line] for line in lines if len(line) > 1]
    uses = Counter(point for line in rounded for point in line)
    uses.update(line[end] for line in rounded for end in (0, -1))
    for line in rounded:
        cuts = [0, *(index for index in range(1, len(line) - 1) if uses[line[index]] > 1), len(line) - 1]
        for start, end in pairwise(cuts):
            if line[start] != line[end]:
                yield _name_point(line[start]), _name_point(line[end]), measure_line(line[start : end + 1])


def _name_point(point: LonLat) -> str:
    return f"{point[1]:.7f},{point[0]:.7f}"


def _read_geojson(file: Path) -> Iterator[list[LonLat]]:
    try:
        content = read_json(read_bytes(file))
        features = content["features"] if content["type"] == "FeatureCollection" else [content]
        for feature in features:
            shape = feature["geometry"] if feature.get("type") == "Feature" else feature
            lines = {"LineString": [shape["coordinates"]], "MultiLineString": shape["coordinates"]}
            for line in lines.get(shape["type"], []):
                yield [(float(point[0]), float(point[1])) for point in line]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise SchemaError("{file} is not GeoJSON with lines; save the roads as lines in GeoJSON", file=file) from None


def _read_graphml(file: Path) -> Iterator[Edge]:
    content = read_text(file)
    if "<!DOCTYPE" in content or "<!ENTITY" in content:  # entities could grow without end; GraphML needs none
        raise SchemaError("{file}: a GraphML file with a DOCTYPE is not read; remove the DOCTYPE", file=file)
    try:
        root = ElementTree.fromstring(content)  # noqa: S314  (no DOCTYPE, so no entities)
    except ElementTree.ParseError:
        raise SchemaError("{file} is not GraphML; export the roads again", file=file) from None
    names = {key.get("id"): key.get("attr.name", "") for key in root.iter() if _tag_of(key) == "key"}
    places = {node.get("id"): _read_data(node, names) for node in root.iter() if _tag_of(node) == "node"}
    for edge in (element for element in root.iter() if _tag_of(element) == "edge"):
        start, end = edge.get("source"), edge.get("target")
        if start is None or end is None:
            raise SchemaError("{file}: an edge has no source or no target; export the roads again", file=file)
        if start != end:
            yield start, end, _read_length(_read_data(edge, names), places.get(start, {}), places.get(end, {}), file)


def _read_length(edge: dict[str, str], start: dict[str, str], end: dict[str, str], file: Path) -> Fraction:
    try:
        for name in LENGTH_NAMES:
            if name in edge:
                return max(Fraction(edge[name]), Fraction(MIN_ROAD_MILLIMETRES, 1000))
        return measure_line([(float(node["x"]), float(node["y"])) for node in (start, end)])
    except (ValueError, KeyError):
        raise SchemaError(
            "{file}: every edge needs a length in metres, or its nodes x and y in degrees", file=file
        ) from None


def _read_data(element: ElementTree.Element, names: dict[str | None, str]) -> dict[str, str]:
    entries = (child for child in element if _tag_of(child) == "data")
    return {names.get(entry.get("key"), ""): (entry.text or "").strip() for entry in entries}


def _tag_of(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _read_osm(file: Path) -> Iterator[list[LonLat]]:
    """Read the ways tagged highway of an OpenStreetMap extract, through the package osmium."""
    check_file(file)
    osmium = _import_osmium()
    ways = osmium.FileProcessor(str(file)).with_locations().with_filter(osmium.filter.KeyFilter("highway"))
    try:
        for way in ways:
            if way.is_way():
                yield [(node.lon, node.lat) for node in way.nodes if node.location.valid()]
    except RuntimeError:
        raise SchemaError("{file} is not an OpenStreetMap extract; get it again as .osm.pbf", file=file) from None


def _import_osmium() -> Any:
    try:
        importlib.import_module("osmium.filter")
        return importlib.import_module("osmium")
    except ImportError:
        raise SchemaError(
            "OpenStreetMap extracts need the package osmium; install it, or give the roads as GeoJSON or GraphML"
        ) from None


def _keep_largest_part(edges: list[Edge]) -> list[Edge]:
    """Keep the largest connected part: an extract cuts roads at its border, so that its pieces are no mistake."""
    parent: dict[str, str] = {}

    def find_root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for start, end, _ in edges:
        parent[find_root(start)] = find_root(end)
    sizes = Counter(find_root(name) for name in list(parent))
    largest = sizes.most_common(1)[0][0] if sizes else ""
    return [edge for edge in edges if find_root(edge[0]) == largest]
