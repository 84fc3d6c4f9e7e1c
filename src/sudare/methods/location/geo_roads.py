"""Road maps from files: GeoJSON lines, GraphML (as OSMnx writes it), OpenStreetMap extracts (.osm.pbf).

Places are the ends and crossings of roads, named by node or by latitude,longitude; a road is as long as its line.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from sudare.errors import SchemaError
from sudare.methods.location.graph import RoadGraph
from sudare.schema.geography import check_latitude, earth_centred
from sudare.schema.textfile import read_bytes, read_text

Point = tuple[float, float]  # longitude, latitude
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


def metres_of(points: Iterable[Point]) -> Fraction:
    """Give the length of a line in metres, to the millimetre below: the sum of chords, never more than the ground.

    >>> float(metres_of([(139.0, 35.0), (139.0, 35.01)]))
    1109.406
    """
    given = np.array(list(points))
    check_latitude(float(np.abs(given[:, 1]).max()))
    places = earth_centred(given[:, 1], given[:, 0])
    millimetres = int(np.sqrt((np.diff(places, axis=0) ** 2).sum(axis=1)).sum() * 1000)
    return Fraction(max(millimetres, LEAST_MILLIMETRES), 1000)


def _between_crossings(lines: Iterable[list[Point]]) -> Iterator[Edge]:
    """Cut lines where they end or share a point with another; what lies between is one road."""
    listed = [[(round(x, 7), round(y, 7)) for x, y in line] for line in lines if len(line) > 1]
    met = Counter(point for line in listed for point in line)
    met.update(line[end] for line in listed for end in (0, -1))
    for line in listed:
        cuts = [0, *(place for place in range(1, len(line) - 1) if met[line[place]] > 1), len(line) - 1]
        for start, end in pairwise(cuts):
            if line[start] != line[end]:
                yield _name(line[start]), _name(line[end]), metres_of(line[start : end + 1])


def _name(point: Point) -> str:
    return f"{point[1]:.7f},{point[0]:.7f}"


def _geojson_lines(file: Path) -> Iterator[list[Point]]:
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


def _osm_lines(file: Path) -> Iterator[list[Point]]:
    """Ways tagged highway of an OpenStreetMap extract, through the package osmium."""
    read_bytes(file)
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
