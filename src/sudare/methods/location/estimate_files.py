"""An estimate from a file of reports, as files: tables, a map for a geographic system, pictures.

estimate_from_files    reports, device file, regions and prior in; a directory out, whole or not at all
read_regions           which cells make up which region
read_prior             how many people live where
write_estimate         estimate.json, cells.csv, regions.csv, cells.geojson, map.png, map.svg
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sudare.atomic import new_directory
from sudare.errors import SourceError
from sudare.forms.textfile import read_records
from sudare.methods.location.collector import DensityEstimate, estimate_people
from sudare.methods.location.counting import CountedReports, read_reports
from sudare.methods.location.device import short_identity
from sudare.methods.location.device_file import DeviceFile, open_device_file
from sudare.methods.location.geo import outline_cells
from sudare.methods.location.grid import PlaneGrid
from sudare.schema.arrays import Booleans, Integers, Reals
from sudare.text import say


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedEstimate:
    """An estimate that was written, and what was not."""

    out: Path
    estimate: DensityEstimate
    counted: CountedReports
    written: EstimateFiles

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for a program."""
        facts = {"out": str(self.out), "files": list(self.written.files), **self.estimate.to_dict()}
        return facts | describe_senders(self.counted)


def describe_senders(counted: CountedReports) -> dict[str, Any]:
    """Give what is known of senders; None where the reports name none."""
    return {"senders": counted.senders, "repeated_reports": counted.repeated, "overdrawn_senders": counted.overdrawn}


def estimate_from_files(
    reports: Path,
    *,
    device_file: Path,
    out: Path,
    regions: Path | None = None,
    block_side: int | None = None,
    prior: Path | None = None,
    level: str = "0.95",
) -> SavedEstimate:
    """Estimate from a file of reports and write the result to a new directory."""
    opened = open_device_file(device_file)
    chosen = read_regions(regions, opened) if regions is not None else {}
    if block_side is not None:
        chosen = {**chosen, **make_blocks(opened, block_side)}
    counted = read_reports(reports, opened)
    people = read_prior(prior, opened) if prior is not None else None
    estimate = estimate_people(opened, counted.counts, regions=chosen, prior=people, level=level)
    written = write_estimate(estimate, opened, out, counted=counted)
    return SavedEstimate(out=out, estimate=estimate, counted=counted, written=written)


# --- what is read: regions and a prior --------------------------------------------------------------------------------


def read_regions(path: Path, device_file: DeviceFile) -> dict[str, Integers]:
    """Read which cells make up which region: a CSV with the columns region and cell (a number) or label."""
    rows = read_records(path, error=SourceError)
    named = set(rows[0]) if rows else set()
    if "region" not in named or not _names_cells(named):
        raise SourceError(
            "{file}: the first line must name the columns region and cell, or region and label", file=path
        )
    numbers = _find_cells(rows, path, device_file)
    regions: dict[str, list[int]] = {}
    for row, cell in zip(rows, numbers, strict=True):
        regions.setdefault(row["region"], []).append(cell)
    return {name: np.unique(np.array(cells, dtype=np.int64)) for name, cells in regions.items()}


def read_prior(path: Path, device_file: DeviceFile) -> Reals:
    """Read how many people live where: a CSV with the columns people and cell (a number) or label; 0 where unnamed."""
    rows = read_records(path, error=SourceError)
    named = set(rows[0]) if rows else set()
    if "people" not in named or not _names_cells(named):
        raise SourceError(
            "{file}: the first line must name the columns people and cell, or people and label", file=path
        )
    prior = np.zeros(device_file.mechanism.places.size)
    for line, (row, cell) in enumerate(zip(rows, _find_cells(rows, path, device_file), strict=True), 2):
        try:
            prior[cell] += float(row["people"])
        except (TypeError, ValueError):
            raise SourceError("{file}, line {line}: people must be a number", file=path, line=line) from None
    return prior


def _names_cells(columns: set[str]) -> bool:
    """Tell whether columns name a cell: by its number, by its label (a map file says place), or by row and column."""
    return bool(columns & {"cell", "label", "place"}) or {"row", "column"} <= columns


def _find_cells(rows: list[dict[str, str]], path: Path, device_file: DeviceFile) -> list[int]:
    size = device_file.mechanism.places.size
    known: Mapping[str, int]
    if "cell" in rows[0]:
        keys, known = ["cell"], {str(cell): cell for cell in range(size)}
    else:
        keys = [next(key for key in ("label", "place", "row") if key in rows[0])]
        keys = ["row", "column"] if keys == ["row"] else keys
        labels = device_file.mechanism.places.labels(np.arange(size)).tolist()
        known = {label: cell for cell, label in enumerate(labels)}
    cells = [known.get(",".join((row[key] or "").strip() for key in keys), -1) for row in rows]
    if -1 in cells:
        raise SourceError(
            "{file}, line {line}: this cell is not on the map of the device file; correct the line or take it out",
            file=path,
            line=cells.index(-1) + 2,
        )
    return cells


def make_blocks(device_file: DeviceFile, side: int) -> dict[str, Integers]:
    """Cut a plane grid into blocks of side x side cells, named by the label of their first cell."""
    grid = device_file.mechanism.places
    if not isinstance(grid, PlaneGrid) or not 1 <= side <= max(grid.shape):
        raise SourceError(
            "blocks ({side}) must be a number of cells that fits the map, and the map must have rows and columns",
            side=side,
        )
    rows, columns = np.divmod(np.arange(grid.size), grid.columns)
    block_of = rows // side * (-(-grid.columns // side)) + columns // side
    order = np.argsort(block_of, kind="stable")
    blocks = np.split(order, np.flatnonzero(np.diff(block_of[order])) + 1)
    names = grid.labels(np.array([block[0] for block in blocks])).tolist()
    return dict(zip(names, blocks, strict=True))


# --- what is written --------------------------------------------------------------------------------------------------

FIGURES = ("people", "low", "high")


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateFiles:
    """Which files were made, and whether pictures or shapes could not be."""

    files: tuple[str, ...]
    without_pictures: bool
    without_geojson: bool


def write_estimate(
    estimate: DensityEstimate, device_file: DeviceFile, out: Path, *, counted: CountedReports | None = None
) -> EstimateFiles:
    """Write estimate.json, cells.csv, regions.csv, cells.geojson (maps with latitudes) and map.png, map.svg."""
    facts = {"artefact": short_identity(device_file), **estimate.to_dict()}
    with new_directory(out) as directory:
        _write_files(directory, facts | (describe_senders(counted) if counted else {}), estimate, device_file)
    names = tuple(sorted(file.name for file in out.iterdir()))
    return EstimateFiles(
        files=names, without_pictures="map.png" not in names, without_geojson="cells.geojson" not in names
    )


def _write_files(directory: Path, facts: dict[str, Any], estimate: DensityEstimate, device_file: DeviceFile) -> None:
    content = json.dumps(facts, ensure_ascii=False, indent=2) + "\n"
    (directory / "estimate.json").write_text(content, encoding="utf-8")
    _write_cells(directory / "cells.csv", estimate, device_file)
    if estimate.regions:
        _write_regions(directory / "regions.csv", estimate)
    shapes = make_geojson(estimate, device_file)
    if shapes is not None:
        (directory / "cells.geojson").write_text(json.dumps(shapes), encoding="utf-8")
    grid = device_file.mechanism.places
    if isinstance(grid, PlaneGrid) and has_pictures():
        can_enter = device_file.mechanism.can_enter.reshape(grid.shape)
        draw_map(estimate.cells.people.reshape(grid.shape), can_enter, directory)


def _write_cells(file: Path, estimate: DensityEstimate, device_file: DeviceFile) -> None:
    law = device_file.mechanism
    reports = estimate.reports  # of hidden reports those that are told as the cell
    if law.told is not None:
        reports = np.bincount(law.told, weights=reports, minlength=law.places.size).astype(np.int64)
    cells = np.flatnonzero(law.can_enter | (reports > 0))
    figures = (getattr(estimate.cells, name)[cells].round(3) for name in FIGURES)
    columns = (cells, law.places.labels(cells), reports[cells], *figures)
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("cell", "label", "reports", *FIGURES))
        writer.writerows(zip(*(column.tolist() for column in columns), strict=True))


def _write_regions(file: Path, estimate: DensityEstimate) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("region", *FIGURES))
        writer.writerows((name, *(round(figure, 3) for figure in ends)) for name, ends in estimate.regions.items())


def make_geojson(estimate: DensityEstimate, device_file: DeviceFile) -> dict[str, Any] | None:
    """Give the cells as shapes in longitude and latitude, with their figures; None where the map has no latitudes."""
    cells = np.flatnonzero(device_file.mechanism.can_enter)
    shapes = outline_cells(device_file.mechanism.places, cells)
    if shapes is None:
        return None
    labels = device_file.mechanism.places.labels(cells).tolist()
    features = [
        {
            "type": "Feature",
            "geometry": shape,
            "properties": {
                "cell": cell,
                "label": label,
                **{name: round(float(getattr(estimate.cells, name)[cell]), 3) for name in FIGURES},
            },
        }
        for cell, label, shape in zip(cells.tolist(), labels, shapes, strict=True)
    ]
    return {"type": "FeatureCollection", "features": features}


# --- a map of estimated people as PNG and SVG, through the extra [pictures]; without it there is no picture -----------

MAX_SIDE = 150  # cells along a side of the picture; larger maps are drawn in blocks
PIXELS = 480  # of the longer side


def has_pictures() -> bool:
    """Tell whether the extra is installed.

    >>> has_pictures() in (True, False)
    True
    """
    return importlib.util.find_spec("vl_convert") is not None


def draw_map(people: Reals, can_enter: Booleans, directory: Path) -> None:
    """Write map.png and map.svg: people per cell, row 0 at the bottom, cells where nobody can be left blank."""
    vl_convert = importlib.import_module("vl_convert")
    document = json.dumps(_make_document(*_average_blocks(people, can_enter)))
    (directory / "map.png").write_bytes(vl_convert.vegalite_to_png(document, scale=2))
    (directory / "map.svg").write_text(vl_convert.vegalite_to_svg(document), encoding="utf-8")


def _average_blocks(people: Reals, can_enter: Booleans) -> tuple[Reals, Booleans, int]:
    """Average people per cell over blocks, so that a large map stays a small picture; give also the side of a block."""
    side = -(-max(people.shape) // MAX_SIDE)
    if side == 1:
        return people, can_enter, 1
    rows = np.arange(0, people.shape[0], side)
    columns = np.arange(0, people.shape[1], side)
    sums, cells = (
        np.add.reduceat(np.add.reduceat(values, rows, 0), columns, 1) for values in (people, can_enter.astype(int))
    )
    return sums / np.maximum(cells, 1), cells > 0, side


def _make_document(people: Reals, can_enter: Booleans, side: int) -> dict[str, Any]:
    """Make the Vega-Lite document, without Altair, which takes ten seconds to check ten thousand values."""
    rows, columns = people.shape
    values = [
        {
            "x": column * side,
            "x2": (column + 1) * side,
            "y": row * side,
            "y2": (row + 1) * side,
            "people": round(float(people[row, column]), 4),
        }
        for row, column in np.argwhere(can_enter).tolist()
    ]
    pixels_per_cell = PIXELS / max(rows, columns)
    colour = {
        "field": "people",
        "type": "quantitative",
        "title": say("people per cell"),
        "scale": {"scheme": "teals"},
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": values},
        "width": columns * pixels_per_cell,
        "height": rows * pixels_per_cell,
        "background": "#ffffff",
        "mark": {"type": "rect", "strokeWidth": 0.4},
        "encoding": {
            "x": _make_axis("x", say("column"), columns * side),
            "x2": {"field": "x2"},
            "y": _make_axis("y", say("row"), rows * side),
            "y2": {"field": "y2"},
            "fill": colour,
            "stroke": colour,  # without it the seams between cells shine through
        },
        "config": {"view": {"fill": "#f2f2f2", "stroke": None}, "axis": {"grid": False}},
    }


def _make_axis(field: str, title: str, end: int) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"domain": [0, end], "nice": False}}
