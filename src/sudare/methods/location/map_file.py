"""The map file: which cells there are, where people can be, and what metric holds between them.

    [grid]
    kind = "plane"                  "plane", "graph"; "mesh" and "h3" are read by geo.py
    rows = 15
    columns = 15
    cell_height_metres = 115.6
    cell_width_metres = 141.5
    weights = "land.csv"            optional: row,column,weight in [0,1]; cells not listed have weight 0
    land = "coast.geojson"          optional, instead of weights: polygons, read by geo.py
    levels = "levels.csv"           optional: row,column,level in (0,1]; cells not listed have level 1
    prior = "people.csv"            optional: row,column,people; where people are, for the measures of the certificate
    inputs = "reportable"           or "all": people can also be where nothing is reported

    [grid]
    kind = "graph"
    edges = "roads.csv"             from,to,metres
    weights = "places.csv"          optional: place,weight

Files are relative to the map file. Every unknown key is refused: a misspelt one would change the promise unseen.

What geo.py provides: `read_grid(section, folder) -> (Places, weights or None)` for the kinds "mesh" and "h3" and for
graphs with `file`, and `land_shares(places, section, folder) -> weights` for `land`.
"""

from __future__ import annotations

import csv
import importlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sudare.errors import ParameterError, SchemaError
from sudare.forms.textfile import read_text
from sudare.methods.location.grid import Places, PlaneGrid, metres
from sudare.methods.location.metrics import PARTS, ElasticGrid, RoadGraph
from sudare.privacy.exact import exact
from sudare.schema.arrays import Reals

Inputs = Literal["reportable", "all"]
KINDS = ("plane", "mesh", "h3", "graph")
SHARED = {"kind", "weights", "inputs", "prior"}
PLANE = {"rows", "columns", "cell_height_metres", "cell_width_metres", "land", "levels"}


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Map:
    """What a map file says: places, weights in [0, 1] (None: all 1), where people can be, how many are (None: even)."""

    places: Places
    weights: Reals | None = None
    inputs: Inputs = "reportable"
    prior: Reals | None = None


def read_map(path: str | Path) -> Map:
    """Read a map file; anything unknown, missing or contradictory is refused in one line."""
    file = Path(path)
    section = _section(file)
    places, weights = _places(section, file.parent)
    if "weights" in section:
        if weights is not None:
            raise SchemaError("{file}: give either weights or land, not both", file=file)
        weights = _weights(places, file.parent / str(section["weights"]))
    prior = _people(places, file.parent / str(section["prior"])) if "prior" in section else None
    return Map(places=places, weights=weights, inputs=_inputs(section), prior=prior)


def _section(file: Path) -> Mapping[str, Any]:
    try:
        table = tomllib.loads(read_text(file), parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError("{file} is not TOML: {reason}; correct it", file=file, reason=str(error)) from None
    section = table.get("grid")
    if set(table) != {"grid"} or not isinstance(section, dict):
        odd = ", ".join(sorted(set(table) - {"grid"})) or "-"
        raise SchemaError("{file} must have a section [grid] and nothing else (unknown: {odd})", file=file, odd=odd)
    kind = section.get("kind")
    if kind not in KINDS:
        raise SchemaError("{file}: kind ({kind}) must be one of {known}", file=file, kind=kind, known=", ".join(KINDS))
    known = SHARED | {"plane": PLANE, "graph": {"edges"} if "file" not in section else {"file"}}.get(kind, set(section))
    if odd_keys := sorted(set(section) - known):
        raise SchemaError(
            "{file}: [grid] has unknown keys ({odd}); a map of kind {kind} knows {known}",
            file=file,
            odd=", ".join(odd_keys),
            kind=kind,
            known=", ".join(sorted(known)),
        )
    return section


def _places(section: Mapping[str, Any], folder: Path) -> tuple[Places, Reals | None]:
    if section["kind"] == "plane":
        return _plane(section, folder)
    if section["kind"] == "graph" and "file" not in section:
        return _roads(folder / str(_needed(section, "edges"))), None
    places, weights = _geographic().read_grid({k: v for k, v in section.items() if k != "prior"}, folder)
    return places, weights


def _plane(section: Mapping[str, Any], folder: Path) -> tuple[Places, Reals | None]:
    names = ("rows", "columns", "cell_height_metres", "cell_width_metres")
    grid = PlaneGrid(**{name: _needed(section, name) for name in names})
    shares = _geographic().land_shares(grid, section, folder) if "land" in section else None
    if "levels" not in section:
        return grid, shares
    levels = np.full(grid.size, PARTS, dtype=np.int64)
    file = folder / str(section["levels"])
    for cell, level in _cells(grid, file, "level"):
        levels[cell] = int(exact(level, name="level", low=Fraction(1, PARTS), high=Fraction(1)) * PARTS)
    return ElasticGrid(grid=grid, levels=levels), shares


def _geographic() -> Any:
    return importlib.import_module("sudare.methods.location.geo")


def _needed(section: Mapping[str, Any], name: str) -> Any:
    if name not in section:
        raise SchemaError("[grid] of the map must have {name}; add it", name=name)
    return section[name]


def _inputs(section: Mapping[str, Any]) -> Inputs:
    inputs = section.get("inputs", "reportable")
    if inputs == "reportable":
        return "reportable"
    if inputs == "all":
        return "all"
    raise SchemaError("inputs ({inputs}) must be reportable or all", inputs=inputs)


def _weights(places: Places, file: Path) -> Reals:
    """Weights by cell; a cell that is not listed has weight 0."""
    weights = np.zeros(places.size)
    for cell, text in _cells(places, file, "weight"):
        weights[cell] = float(exact(text, name="weight", low=Fraction(0), high=Fraction(1)))
    if not weights.any():
        raise ParameterError("all weights are 0: no cell could be reported; give one cell a weight above 0")
    return weights


def _people(places: Places, file: Path) -> Reals:
    """How many people are in each cell; none where the file is silent."""
    people = np.zeros(places.size)
    for cell, text in _cells(places, file, "people"):
        people[cell] = float(exact(text, name="people", low=Fraction(0), high=Fraction(10**12)))
    if not people.any():
        raise ParameterError("prior must be above 0 for a cell where people can be")
    return people


def _cells(places: Places, file: Path, value: str) -> Iterator[tuple[int, str]]:
    """(cell, text) of every line of a CSV with the columns row,column (or place) and one more."""
    keys = ["row", "column"] if isinstance(places, PlaneGrid | ElasticGrid) and _corner(places) is None else ["place"]
    numbers = {label: cell for cell, label in enumerate(places.labels(np.arange(places.size)).tolist())}
    seen = set()
    for line, entry in _lines(file, [*keys, value]):
        cell = numbers.get(",".join(part.strip() for part in entry[:-1]))
        if cell is None:
            raise SchemaError(
                "{file}, line {line}: no such cell on the map; correct the line or take it out", file=file, line=line
            )
        if cell in seen:
            raise SchemaError(
                "{file}, line {line}: the cell was given before; keep one line for it", file=file, line=line
            )
        seen.add(cell)
        yield cell, entry[-1]


def _corner(places: PlaneGrid | ElasticGrid) -> object:
    return places.grid.corner if isinstance(places, ElasticGrid) else places.corner


def _roads(file: Path) -> RoadGraph:
    found = []
    for line, (start, end, length) in _lines(file, ["from", "to", "metres"]):
        try:
            found.append((start.strip(), end.strip(), metres(length, name="metres")))
        except ParameterError as error:
            raise SchemaError("{file}, line {line}: {reason}", file=file, line=line, reason=str(error)) from None
    return RoadGraph.of_metres(found)


def _lines(file: Path, head: list[str]) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(read_text(file).splitlines())
    if [name.strip() for name in next(rows, [])] != head:
        raise SchemaError("{file} must begin with the line {head}", file=file, head=",".join(head))
    for line, entry in enumerate(rows, start=2):
        if entry and len(entry) != len(head):
            raise SchemaError(
                "{file}, line {line}: {columns} values are needed, one for each name in the first line",
                file=file,
                line=line,
                columns=len(head),
            )
        if entry:
            yield line, entry
