"""An estimate as files: tables, a map for a geographic system, pictures. Written whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import SourceError
from sudare.methods.location.artefact import Artefact
from sudare.methods.location.device import short_identity
from sudare.methods.location.geo_outlines import outlines
from sudare.methods.location.grid import PlaneGrid
from sudare.releases.release import check_place
from sudare.run.locate import Estimate
from sudare.run.locate_picture import draw_map, has_pictures
from sudare.schema.textfile import read_text

Ints = NDArray[np.int64]

FIGURES = ("people", "low", "high")


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """Which files were made, and which were not and why (a key that the command line says in words)."""

    files: tuple[str, ...]
    without_pictures: bool
    without_geojson: bool


def write_estimate(found: Estimate, artefact: Artefact, out: Path) -> Written:
    """Write estimate.json, cells.csv, regions.csv, cells.geojson (maps with latitudes) and map.png, map.svg."""
    check_place(out)
    unfinished = out.parent / f".sudare-{secrets.token_hex(8)}.partial"
    unfinished.mkdir()
    try:
        _fill(unfinished, found, artefact)
        os.rename(unfinished, out)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    names = tuple(sorted(file.name for file in out.iterdir()))
    return Written(files=names, without_pictures="map.png" not in names, without_geojson="cells.geojson" not in names)


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


def read_regions(path: Path, artefact: Artefact) -> dict[str, Ints]:
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


def blocks(artefact: Artefact, side: int) -> dict[str, Ints]:
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
