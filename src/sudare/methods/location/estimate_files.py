"""Cells as shapes in longitude and latitude (RFC 7946), for maps in a geographic system."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.atomic import new_directory
from sudare.errors import SourceError
from sudare.forms.textfile import read_text
from sudare.methods.location.collector import Estimate
from sudare.methods.location.device import short_identity
from sudare.methods.location.device_file import Artefact
from sudare.methods.location.grid import Places, PlaneGrid, PointPlaces
from sudare.methods.location.metrics import RoadGraph
from sudare.schema.arrays import Integers
from sudare.schema.mesh import MESH_PER_DEGREE_EAST, MESH_PER_DEGREE_NORTH, MESH_UNITS, MESH_WEST
from sudare.text import say

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


# A map of estimated people as PNG and SVG, through the extra [pictures]; without it the estimate has no picture.


MOST_SIDE = 150  # cells along a side of the picture; larger maps are drawn in blocks
PIXELS = 480


def has_pictures() -> bool:
    """Tell whether the extra is installed.

    >>> has_pictures() in (True, False)
    True
    """
    return importlib.util.find_spec("vl_convert") is not None


def draw_map(people: NDArray[np.float64], inside: NDArray[np.bool_], place: Path) -> None:
    """Write map.png and map.svg: people per cell, row 0 at the bottom, cells where nobody can be left blank."""
    vl_convert = importlib.import_module("vl_convert")
    drawn = json.dumps(_specification(*_coarse(people, inside)))
    (place / "map.png").write_bytes(vl_convert.vegalite_to_png(drawn, scale=2))
    (place / "map.svg").write_text(vl_convert.vegalite_to_svg(drawn), encoding="utf-8")


def _coarse(
    people: NDArray[np.float64], inside: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """Mean people per cell of blocks, so that a large map stays a small picture."""
    side = -(-max(people.shape) // MOST_SIDE)
    if side == 1:
        return people, inside, 1
    rows = np.arange(0, people.shape[0], side)
    columns = np.arange(0, people.shape[1], side)
    sums, cells = (np.add.reduceat(np.add.reduceat(one, rows, 0), columns, 1) for one in (people, inside.astype(int)))
    return sums / np.maximum(cells, 1), cells > 0, side


def _specification(people: NDArray[np.float64], inside: NDArray[np.bool_], side: int) -> dict[str, Any]:
    """A Vega-Lite document. Written by hand: Altair takes ten seconds to check ten thousand values."""
    rows, columns = people.shape
    values = [
        {
            "x": c * side,
            "x2": (c + 1) * side,
            "y": r * side,
            "y2": (r + 1) * side,
            "people": round(float(people[r, c]), 4),
        }
        for r, c in np.argwhere(inside).tolist()
    ]
    shrink = PIXELS / max(rows, columns)
    colour = {
        "field": "people",
        "type": "quantitative",
        "title": say("people per cell"),
        "scale": {"scheme": "teals"},
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": values},
        "width": columns * shrink,
        "height": rows * shrink,
        "background": "#ffffff",
        "mark": {"type": "rect", "strokeWidth": 0.4},
        "encoding": {
            "x": _axis("x", say("column"), columns * side),
            "x2": {"field": "x2"},
            "y": _axis("y", say("row"), rows * side),
            "y2": {"field": "y2"},
            "fill": colour,
            "stroke": colour,  # without it the seams between cells shine through
        },
        "config": {"view": {"fill": "#f2f2f2", "stroke": None}, "axis": {"grid": False}},
    }


def _axis(field: str, title: str, end: int) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"domain": [0, end], "nice": False}}


# An estimate as files: tables, a map for a geographic system, pictures. Written whole or not at all.


FIGURES = ("people", "low", "high")


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateFiles:
    """Which files were made, and which were not and why (a key that the command line says in words)."""

    files: tuple[str, ...]
    without_pictures: bool
    without_geojson: bool


def write_estimate(found: Estimate, artefact: Artefact, out: Path) -> EstimateFiles:
    """Write estimate.json, cells.csv, regions.csv, cells.geojson (maps with latitudes) and map.png, map.svg."""
    with new_directory(out) as directory:
        _fill(directory, found, artefact)
    names = tuple(sorted(file.name for file in out.iterdir()))
    return EstimateFiles(
        files=names, without_pictures="map.png" not in names, without_geojson="cells.geojson" not in names
    )


def _fill(place: Path, found: Estimate, artefact: Artefact) -> None:
    facts = {"artefact": short_identity(artefact), **found.to_dict()}
    (place / "estimate.json").write_text(json.dumps(facts, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    _write_cells(place / "cells.csv", found, artefact)
    if found.regions:
        _write_regions(place / "regions.csv", found)
    grid = artefact.mechanism.places
    shapes = geojson(found, artefact)
    if shapes is not None:
        (place / "cells.geojson").write_text(json.dumps(shapes), encoding="utf-8")
    if isinstance(grid, PlaneGrid) and has_pictures():
        draw_map(found.cells.people.reshape(grid.shape), artefact.mechanism.can_enter.reshape(grid.shape), place)


def _write_cells(file: Path, found: Estimate, artefact: Artefact) -> None:
    cells = np.flatnonzero(artefact.mechanism.can_enter | (found.reports > 0))
    labels = artefact.mechanism.places.labels(cells)
    columns = (cells, labels, found.reports[cells], *(getattr(found.cells, name)[cells].round(3) for name in FIGURES))
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("cell", "label", "reports", *FIGURES))
        writer.writerows(zip(*(column.tolist() for column in columns), strict=True))


def _write_regions(file: Path, found: Estimate) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("region", *FIGURES))
        writer.writerows((name, *(round(figure, 3) for figure in told)) for name, told in found.regions.items())


def geojson(found: Estimate, artefact: Artefact) -> dict[str, Any] | None:
    """The cells as shapes in longitude and latitude, with their figures; None where the map has no latitudes."""
    cells = np.flatnonzero(artefact.mechanism.can_enter)
    shapes = outlines(artefact.mechanism.places, cells)
    if shapes is None:
        return None
    labels = artefact.mechanism.places.labels(cells).tolist()
    features = [
        {
            "type": "Feature",
            "geometry": shape,
            "properties": {
                "cell": cell,
                "label": label,
                **{name: round(float(getattr(found.cells, name)[cell]), 3) for name in FIGURES},
            },
        }
        for cell, label, shape in zip(cells.tolist(), labels, shapes, strict=True)
    ]
    return {"type": "FeatureCollection", "features": features}


def read_regions(path: Path, artefact: Artefact) -> dict[str, Integers]:
    """Read which cells make up which region: a CSV with the columns region and cell (a number) or label."""
    rows = list(csv.DictReader(read_text(path).splitlines()))
    named = set(rows[0]) if rows else set()
    if "region" not in named or not _names_cells(named):
        raise SourceError(
            "{file}: the first line must name the columns region and cell, or region and label", file=path
        )
    numbers = _numbers(rows, path, artefact)
    regions: dict[str, list[int]] = {}
    for row, cell in zip(rows, numbers, strict=True):
        regions.setdefault(row["region"], []).append(cell)
    return {name: np.unique(np.array(cells, dtype=np.int64)) for name, cells in regions.items()}


def read_prior(path: Path, artefact: Artefact) -> NDArray[np.float64]:
    """Read how many people live where: a CSV with the columns people and cell (a number) or label; 0 where unnamed."""
    rows = list(csv.DictReader(read_text(path).splitlines()))
    named = set(rows[0]) if rows else set()
    if "people" not in named or not _names_cells(named):
        raise SourceError(
            "{file}: the first line must name the columns people and cell, or people and label", file=path
        )
    prior = np.zeros(artefact.mechanism.places.size)
    for line, (row, cell) in enumerate(zip(rows, _numbers(rows, path, artefact), strict=True), 2):
        try:
            prior[cell] += float(row["people"])
        except (TypeError, ValueError):
            raise SourceError("{file}, line {line}: people must be a number", file=path, line=line) from None
    return prior


def _names_cells(columns: set[str]) -> bool:
    """A cell is named by its number, by its label (a map file says place), or by row and column."""
    return bool(columns & {"cell", "label", "place"}) or {"row", "column"} <= columns


def _numbers(rows: list[dict[str, str]], path: Path, artefact: Artefact) -> list[int]:
    size = artefact.mechanism.places.size
    known: Mapping[str, int]
    if "cell" in rows[0]:
        keys, known = ["cell"], {str(cell): cell for cell in range(size)}
    else:
        keys = [next(key for key in ("label", "place", "row") if key in rows[0])]
        keys = ["row", "column"] if keys == ["row"] else keys
        labels = artefact.mechanism.places.labels(np.arange(size)).tolist()
        known = {label: cell for cell, label in enumerate(labels)}
    found = [known.get(",".join((row[key] or "").strip() for key in keys), -1) for row in rows]
    if -1 in found:
        raise SourceError(
            "{file}, line {line}: this cell is not on the map of the artefact; correct the line or take it out",
            file=path,
            line=found.index(-1) + 2,
        )
    return found


def blocks(artefact: Artefact, side: int) -> dict[str, Integers]:
    """Cut a plane grid into blocks of side x side cells, named by the label of their first cell."""
    grid = artefact.mechanism.places
    if not isinstance(grid, PlaneGrid) or not 1 <= side <= max(grid.shape):
        raise SourceError("blocks ({side}) must be a number of cells, on a map of rows and columns", side=side)
    rows, columns = np.divmod(np.arange(grid.size), grid.columns)
    of = rows // side * (-(-grid.columns // side)) + columns // side
    order = np.argsort(of, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(of[order])) + 1)
    names = grid.labels(np.array([group[0] for group in groups])).tolist()
    return dict(zip(names, groups, strict=True))
