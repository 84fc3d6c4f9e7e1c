"""The map file: which cells there are, where people can be, and what metric holds between them.

    [grid]
    kind = "plane"                  "plane", "graph"; "mesh" and "h3" are read by geo.py
    rows = 15
    columns = 15
    cell_height_metres = 115.6
    cell_width_metres = 141.5
    south_west = [35.6, 139.6]      optional: latitude and longitude of the corner of row 0, column 0
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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np

from sudare.errors import ParameterError, SchemaError
from sudare.forms import FileForm, FilledTable, Key, Keys, TableForm, Variants, at_line, read_form
from sudare.forms.kinds import AnyText, ChoiceOf, Either, ExactNumber, FilePath, ListOf, WholeNumber
from sudare.forms.textfile import read_rows
from sudare.methods.location.geo import place_grid, read_grid, read_land_shares
from sudare.methods.location.grid import (
    LEVEL_PARTS,
    MAX_METRES,
    MIN_METRES,
    ElasticGrid,
    Places,
    PlaneGrid,
    read_metres,
)
from sudare.methods.location.roads import RoadGraph
from sudare.privacy.exact import exact
from sudare.schema.arrays import Reals
from sudare.text import text

Inputs = Literal["reportable", "all"]
KINDS = ("plane", "mesh", "h3", "graph")
CODE = Either((AnyText(), WholeNumber()), example='"5339"')
SIZE = ExactNumber(low=MIN_METRES, high=MAX_METRES, example="100")

KIND: Keys = {"kind": Key(kind=ChoiceOf(KINDS), required=True, help=text("what the places of the map are"))}
SHARED: Keys = {
    "weights": Key(
        kind=FilePath(example='"weights.csv"'),
        help=text("a CSV file of weights in [0,1]; a cell that is not listed has weight 0 and is never reported"),
    ),
    "prior": Key(
        kind=FilePath(example='"people.csv"'),
        help=text("a CSV file of how many people are where, for the measures of the certificate"),
    ),
    "inputs": Key(
        kind=ChoiceOf(("reportable", "all"), example='"all"'),
        default="reportable",
        help=text("all: people can also be where nothing is reported"),
    ),
}
LAND: Keys = {
    "land": Key(
        kind=FilePath(example='"coast.geojson"'),
        help=text("instead of weights: polygons; the weight of a cell is its share of land"),
    )
}
BOUNDS = Key(
    kind=ListOf(ExactNumber(example="35.6"), least=4, most=4, example="[35.6, 139.6, 35.8, 139.9]"),
    help=text("south, west, north and east of the map, in degrees"),
)
PLANE: Keys = {
    **KIND,
    "rows": Key(kind=WholeNumber(low=1, example="15"), required=True, help=text("how many rows of cells")),
    "columns": Key(kind=WholeNumber(low=1, example="15"), required=True, help=text("how many columns of cells")),
    "cell_height_metres": Key(kind=SIZE, required=True, help=text("height of a cell, in metres")),
    "cell_width_metres": Key(kind=SIZE, required=True, help=text("width of a cell, in metres")),
    "south_west": Key(
        kind=ListOf(ExactNumber(example="35.6"), least=2, most=2, example="[35.6, 139.6]"),
        help=text("latitude and longitude of the south-west corner, so that devices can give places in degrees"),
    ),
    **LAND,
    "levels": Key(
        kind=FilePath(example='"levels.csv"'),
        help=text(
            "a CSV file of levels in (0,1]; distances from a cell of level 1/2 count half, which protects it more"
        ),
    ),
    **SHARED,
}
MESH: Keys = {
    **KIND,
    "level": Key(
        kind=WholeNumber(low=1, high=6, example="5"),
        required=True,
        help=text("level of the mesh: 1, 2, 3, 4 (1/2), 5 (1/4), 6 (1/8)"),
    ),
    "area": Key(
        kind=Either((ListOf(CODE, example='["5339"]'), CODE)), help=text("the first-level codes that are covered")
    ),
    "bounds": BOUNDS,
    **LAND,
    **SHARED,
}
HEXAGONS: Keys = {
    **KIND,
    "resolution": Key(
        kind=WholeNumber(low=0, high=15, takes_text=True, example="8"),
        default=8,
        help=text("resolution of the H3 cells"),
    ),
    "bounds": Key(kind=BOUNDS.kind, required=True, help=BOUNDS.help),
    **LAND,
    **SHARED,
}
GRAPH: Keys = {
    **KIND,
    "edges": Key(kind=FilePath(example='"roads.csv"'), help=text("a CSV file of roads: from,to,metres")),
    "file": Key(
        kind=FilePath(example='"roads.geojson"'), help=text("instead of edges: roads as .geojson, .graphml or .osm.pbf")
    ),
    **SHARED,
}
FORM = FileForm(
    name="map",
    help=text("A map: the places that devices report"),
    tables=(
        TableForm(
            name="grid",
            required=True,
            keys=KIND,
            variants=Variants(by="kind", keys={"plane": PLANE, "mesh": MESH, "h3": HEXAGONS, "graph": GRAPH}),
            exactly_one=(("area", "bounds"), ("edges", "file")),
            at_most_one=(("weights", "land"),),
            help=text("The cells of the map, and the distances between them"),
        ),
    ),
)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Map:
    """What a map file says: places, weights in [0, 1] (None: all 1), where people can be, how many are (None: even)."""

    places: Places
    weights: Reals | None = None
    inputs: Inputs = "reportable"
    prior: Reals | None = None


def read_map(path: str | Path) -> Map:
    """Read a map file; anything unknown, missing or contradictory is refused in one line, with its place."""
    table = read_form(path, FORM).table("grid")
    with table.blame(error=SchemaError):
        places, weights = _read_places(table)
    if "weights" in table:
        if weights is not None:
            table.refuse(text("the first-level codes leave gaps, which have no weight; give land instead"), "weights")
        with table.blame("weights", error=SchemaError):
            weights = _read_weights(places, table.path("weights"))
    if "prior" not in table:
        return Map(places=places, weights=weights, inputs=table["inputs"])
    with table.blame("prior", error=SchemaError):
        return Map(
            places=places, weights=weights, inputs=table["inputs"], prior=_read_people(places, table.path("prior"))
        )


def _read_places(table: FilledTable) -> tuple[Places, Reals | None]:
    if table["kind"] == "plane":
        return _read_plane(table)
    if table["kind"] == "graph" and "edges" in table:
        with table.blame("edges", error=SchemaError):
            return _read_edges(table.path("edges")), None
    section = {name: table[name] for name in table.keys if table[name] is not None}
    with table.blame(*(("file",) if "file" in table else ()), error=SchemaError):
        places, weights = read_grid(section, table.file.parent)
    return places, weights


def _read_plane(table: FilledTable) -> tuple[Places, Reals | None]:
    names = ("rows", "columns", "cell_height_metres", "cell_width_metres")
    grid = PlaneGrid(**{name: table[name] for name in names})
    if "south_west" in table:
        with table.blame("south_west", error=SchemaError):
            south, west = (float(degrees) for degrees in table["south_west"])
            grid = place_grid(grid, south=south, west=west)
    shares = None
    if "land" in table:
        with table.blame("land", error=SchemaError):
            shares = read_land_shares(grid, table.written, table.file.parent)
    if "levels" not in table:
        return grid, shares
    with table.blame("levels", error=SchemaError):
        levels = np.full(grid.size, LEVEL_PARTS, dtype=np.int64)
        for cell, level in _read_cells(
            grid, table.path("levels"), "level", low=Fraction(1, LEVEL_PARTS), high=Fraction(1)
        ):
            levels[cell] = int(level * LEVEL_PARTS)
        return ElasticGrid(grid=grid, levels=levels), shares


def _read_weights(places: Places, file: Path) -> Reals:
    """Read the weights of cells; a cell that is not listed has weight 0."""
    weights = np.zeros(places.size)
    for cell, weight in _read_cells(places, file, "weight", low=Fraction(0), high=Fraction(1)):
        weights[cell] = float(weight)
    if not weights.any():
        raise ParameterError("all weights are 0: no cell could be reported; give one cell a weight above 0")
    return weights


def _read_people(places: Places, file: Path) -> Reals:
    """Read how many people are in each cell; none where the file is silent."""
    people = np.zeros(places.size)
    for cell, count in _read_cells(places, file, "people", low=Fraction(0), high=Fraction(10**12)):
        people[cell] = float(count)
    if not people.any():
        raise ParameterError("prior must be above 0 in at least one cell where people can be")
    return people


def _read_cells(
    places: Places, file: Path, value: str, *, low: Fraction, high: Fraction
) -> Iterator[tuple[int, Fraction]]:
    """Read (cell, number) from every line of a CSV with the columns row,column (or place) and one more."""
    keys = (
        ["row", "column"] if isinstance(places, PlaneGrid | ElasticGrid) and _mesh_corner(places) is None else ["place"]
    )
    numbers = {label: cell for cell, label in enumerate(places.labels(np.arange(places.size)).tolist())}
    seen = set()
    for line, entry in _read_lines(file, [*keys, value]):
        with at_line(file, {"": line}, ""):
            cell = numbers.get(",".join(part.strip() for part in entry[:-1]))
            if cell is None:
                raise SchemaError("no such cell on the map; correct the line or take it out")
            if cell in seen:
                raise SchemaError("this cell stands in an earlier line already; keep one line for it")
            seen.add(cell)
            number = exact(entry[-1], name=value, low=low, high=high)
        yield cell, number


def _mesh_corner(places: PlaneGrid | ElasticGrid) -> object:
    return places.grid.corner if isinstance(places, ElasticGrid) else places.corner


def _read_edges(file: Path) -> RoadGraph:
    roads = []
    for line, (start, end, length) in _read_lines(file, ["from", "to", "metres"]):
        with at_line(file, {"": line}, ""):
            roads.append((start.strip(), end.strip(), read_metres(length, name="metres")))
    return RoadGraph.of_metres(roads)


def _read_lines(file: Path, head: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Read (number, entries) from every line of a CSV file below its first line, which names the columns."""
    rows = iter(read_rows(file))
    if [name.strip() for name in next(rows, [])] != head:
        raise SchemaError("{file} must begin with the line {head}", file=file, head=",".join(head))
    for line, entries in enumerate(rows, start=2):
        with at_line(file, {"": line}, ""):
            if entries and len(entries) != len(head):
                raise SchemaError("{columns} values are needed, one for each name in the first line", columns=len(head))
        if entries:
            yield line, entries
