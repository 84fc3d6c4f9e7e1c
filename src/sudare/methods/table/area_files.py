"""Areas as files for maps: GeoJSON with a shape for every area, and a picture with figures and margins.

The shape of an area is the union of its mesh cells, drawn as rectangles along rows of cells. Where cells are shared
they belong to the area with the largest share. One picture shows the first level of the first division on the mesh.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sudare.methods.table.area_frames import AREA, AREAS, LEVEL
from sudare.methods.table.linked import LinkedTable
from sudare.methods.table.margins import COUNT, MARGIN, UNBIASED
from sudare.releases import Frame
from sudare.releases.columns import read_labels, read_numbers
from sudare.releases.geo import DECIMALS, find_corners
from sudare.report.error_maps import draw_error_map
from sudare.report.maps import write_map
from sudare.schema import Areas, MeshCells, Schema
from sudare.schema.areas import NO_AREA
from sudare.schema.arrays import Codes
from sudare.text import text, use_language

GEOJSON = "areas.geojson"
PICTURES = {"areas.svg": "en", "areas.ja.svg": "ja"}
MOST_DRAWN = 2**20  # cells of the rectangle around a mesh that are drawn one by one


def area_files(frames: Mapping[str, Frame], measured: object) -> dict[str, Callable[[Path], object]]:
    """Give the writers of the map files of areas on a mesh; none for other areas."""
    if not isinstance(measured, LinkedTable) or AREAS not in frames:
        return {}
    found = find_mesh_areas(measured.facts)
    if not found:
        return {}
    files: dict[str, Callable[[Path], object]] = {GEOJSON: partial(write_areas, frame=frames[AREAS], divisions=found)}
    cells, division = found[0]
    if is_drawn(cells):
        drawn = partial(_write_picture, frame=frames[AREAS], cells=cells, division=division, name=measured.facts.name)
        files |= {name: partial(drawn, language=language) for name, language in PICTURES.items()}
    return files


def is_drawn(cells: MeshCells) -> bool:
    """Tell whether the rectangle around the cells is small enough for a picture: it must not fail after the spend."""
    rows, columns = cells.grid(np.arange(cells.size))
    return int(np.ptp(rows) + 1) * int(np.ptp(columns) + 1) <= MOST_DRAWN


def find_mesh_areas(schema: Schema) -> list[tuple[MeshCells, Areas]]:
    """The divisions of a single mesh."""
    found = []
    for division in schema.areas:
        domain = schema.attribute(division.attributes[0]).domain
        if len(division.attributes) == 1 and isinstance(domain, MeshCells):
            found.append((domain, division))
    return found


def read_figures(frame: Frame) -> dict[tuple[str, str], dict[str, Any]]:
    """The figures of every area, by level and name."""
    labels = [one.labels[one.codes].tolist() for one in (read_labels(frame.columns[name]) for name in (LEVEL, AREA))]
    figures = [read_numbers(frame.columns[name]) for name in (COUNT, UNBIASED, MARGIN)]
    is_whole = bool((figures[0] == np.floor(figures[0])).all())
    counts = figures[0].astype(np.int64) if is_whole else figures[0]
    rows = zip(*labels, counts.tolist(), figures[1].tolist(), figures[2].tolist(), strict=True)
    return {
        (str(level), str(area)): dict(zip((COUNT, UNBIASED, MARGIN), values, strict=True))
        for level, area, *values in rows
    }


def write_areas(path: Path, *, frame: Frame, divisions: list[tuple[MeshCells, Areas]]) -> None:
    """Write every area of a mesh as a feature: its level and name, its figures, its cells as rectangles."""
    figures = read_figures(frame)
    with path.open("w", encoding="utf-8") as file:
        file.write('{"type":"FeatureCollection","features":[\n')
        first = True
        for cells, division in divisions:
            for level in division.levels:
                codes = division.codes[level][: cells.size]
                for number, name in enumerate(division.names[level]):
                    inside = np.flatnonzero(codes == number)
                    if (level, name) not in figures or not len(inside):
                        continue
                    feature = {
                        "type": "Feature",
                        "geometry": {"type": "MultiPolygon", "coordinates": _draw_rows(cells, inside)},
                        "properties": {LEVEL: level, AREA: name, **figures[level, name]},
                    }
                    line = json.dumps(feature, ensure_ascii=False, separators=(",", ":"))
                    file.write(line if first else ",\n" + line)
                    first = False
        file.write("\n]}\n")


def _draw_rows(cells: MeshCells, codes: Codes) -> list[list[list[list[float]]]]:
    """Draw cells as rectangles, those that are neighbours in a row as one."""
    rows, columns = cells.grid(codes)
    order = np.lexsort((columns, rows))
    rows, columns, corners = rows[order], columns[order], find_corners(cells, codes[order]).round(DECIMALS)
    is_next = (np.diff(rows) == 0) & (np.diff(columns) == 1)
    starts, stops = np.append(0, np.flatnonzero(~is_next) + 1), np.append(np.flatnonzero(~is_next), len(rows) - 1)
    shapes = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        west, south, _, _ = corners[start].tolist()
        _, _, east, north = corners[stop].tolist()
        shapes.append([[[west, south], [east, south], [east, north], [west, north], [west, south]]])
    return shapes


def _write_picture(path: Path, *, frame: Frame, cells: MeshCells, division: Areas, name: str, language: str) -> None:
    with use_language(language):
        write_map(path, picture=draw_areas(frame, cells, division, name=name))


def draw_areas(frame: Frame, cells: MeshCells, division: Areas, *, name: str = "") -> str:
    """Draw the areas of the first level with their figures and margins, as SVG."""
    level, figures = division.levels[0], read_figures(frame)
    known = [figures.get((level, area), {}) for area in division.names[level]]
    codes = division.codes[level][: cells.size]
    people = np.array([round(one.get(COUNT, 0)) for one in known], dtype=np.int64)[codes]
    margins = np.array([float(one.get(MARGIN, 0.0)) for one in known])[codes]
    title = text("{name}, areas: {level}", name=name, level=level) if name else text("areas: {level}", level=level)
    names = ["" if area == NO_AREA else area for area in division.names[level]]
    return draw_error_map(cells, np.arange(cells.size), people, margins, title=title, areas=codes, names=names)
