"""Area files: a CSV that lists cells with their areas, or polygons in GeoJSON."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sudare.errors import SchemaError
from sudare.forms.textfile import read_bytes
from sudare.schema.areas import NO_AREA, RULES, Areas, build_areas
from sudare.schema.arrays import Reals
from sudare.schema.attribute import Attribute
from sudare.schema.domain import NumberBins
from sudare.schema.mesh import MeshCells
from sudare.schema.raw import list_some
from sudare.text import Text, text

if TYPE_CHECKING:
    from sudare.schema.schema import Schema

SHARE = "share"
POLYGONS = (".geojson", ".json")
MOST_LINES = 20_000_000
NORTHWARD = ("y", "lat", "latitude", "north", "northing", "緯度")  # an attribute so named is the second coordinate
SHARE_PARTS = 10**6  # shares of area are rounded to so many parts
OVERLAP = Fraction(1, 10**4)  # of a cell, by which areas overlap in earnest and not by rounding


def read_areas(
    path: str | Path, schema: Schema, *, rule: str | None = None, levels: Sequence[str] | None = None
) -> Areas:
    """Read an area file for a schema: CSV, or polygons in GeoJSON.

    `rule` says how cells on a border are given to areas (`largest` by default; for polygons `centre`). `levels` names
    the columns or properties that are levels of areas (by default all of them).

    Error: SchemaError, one line with the file, the line and what to do.
    """
    file = Path(path)
    if rule is not None and rule not in RULES:
        raise SchemaError("rule ({rule}) must be {rules}", rule=rule, rules=", ".join(RULES))
    if file.suffix.lower() in POLYGONS:
        return _read_polygons(file, schema, rule or "centre", levels)
    if rule == "centre":
        raise SchemaError("{file}: the rule centre is for polygons; use largest or split", file=file)
    return _read_list(file, schema, rule or "largest", levels)


# --- lists ------------------------------------------------------------------------------------------------------------


def _decode(content: bytes, file: Path) -> str:
    for encoding in ("utf-8-sig", "cp932"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise SchemaError("{file}: is neither UTF-8 nor Shift_JIS; save it as UTF-8", file=file)


def _read_list(file: Path, schema: Schema, rule: str, wanted: Sequence[str] | None) -> Areas:
    """Read a CSV: attributes and levels as header, then values and their areas in each line, perhaps a share."""
    try:
        header, *rows = list(csv.reader(_decode(read_bytes(file), file).splitlines())) or [[]]
    except csv.Error:
        raise SchemaError("{file}: is no CSV file; save it as CSV in UTF-8", file=file) from None
    if not header or header[0] not in schema.names:
        raise SchemaError(
            "{file}: the first column must be named after an attribute ({known})",
            file=file,
            known=", ".join(schema.names),
        )
    keys = [name for place, name in enumerate(header) if set(header[: place + 1]) <= set(schema.names)]
    has_share = header[-1] == SHARE
    listed = header[len(keys) : -1] if has_share else header[len(keys) :]
    if not listed or len(set(header)) < len(header) or not all(header):
        raise SchemaError("{file}: name at least one level of areas, each once", file=file)
    levels = _choose_levels(listed, wanted, file)
    attributes = [schema.attribute(name) for name in keys]
    places = [header.index(level) for level in levels]
    return _gather_rows(attributes, levels, places, rows, file, rule=rule, columns=len(header), has_share=has_share)


def _choose_levels(listed: Sequence[str], wanted: Sequence[str] | None, file: Path) -> list[str]:
    missing = [level for level in wanted or () if level not in listed]
    if missing:
        raise SchemaError(
            "{file}: there is no level {level} of areas; there are {known}",
            file=file,
            level=missing[0],
            known=", ".join(listed),
        )
    return list(wanted or listed)


def _gather_rows(
    attributes: Sequence[Attribute],
    levels: Sequence[str],
    places: Sequence[int],
    rows: Sequence[Sequence[str]],
    file: Path,
    *,
    rule: str,
    columns: int,
    has_share: bool,
) -> Areas:
    units: dict[tuple[str, ...], int] = {}
    shares: dict[tuple[int, int], Fraction] = {}
    listed: set[int] = set()
    for line, row in _check_rows(rows, columns, file):
        share = _read_share(row[-1], file, line) if has_share else Fraction(1)
        unit = units.setdefault(tuple(row[place] for place in places), len(units))
        for cell in _find_cells(attributes, row, file, line):
            if (not has_share and cell in listed) or (cell, unit) in shares:
                raise SchemaError(
                    "{file}, line {line}: a value is listed twice; add a column share, by which one area is chosen",
                    file=file,
                    line=line,
                )
            listed.add(cell)
            shares[cell, unit] = share
    if not units:
        raise SchemaError("{file}: holds no area", file=file)
    try:
        return build_areas(attributes, levels, rule, list(units), shares)
    except SchemaError as error:
        raise SchemaError("{file}: {reason}", file=file, reason=error) from None


def _check_rows(rows: Sequence[Sequence[str]], columns: int, file: Path) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows with the number of their line; empty lines are passed over."""
    for line, row in enumerate(rows, start=2):
        if row and (len(row) != columns or not all(row)):
            raise SchemaError(
                "{file}, line {line}: must have {columns} columns, none of them empty",
                file=file,
                line=line,
                columns=columns,
            )
        if row:
            yield line, row


def _read_share(written: str, file: Path, line: int) -> Fraction:
    try:
        share = Fraction(written) if len(written) <= 40 else Fraction(0)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise SchemaError("{file}, line {line}: share must be a number above 0 and at most 1", file=file, line=line)
    return share


def _find_cells(attributes: Sequence[Attribute], row: Sequence[str], file: Path, line: int) -> list[int]:
    cells = [0]
    for attribute, value in zip(attributes, row, strict=False):
        try:
            found = attribute.codes(value)
        except SchemaError:
            raise SchemaError(
                "{file}, line {line}: {value} is no value of {name}",
                file=file,
                line=line,
                value=value,
                name=attribute.name,
            ) from None
        cells = [cell * attribute.size + code for cell in cells for code in found]
    return cells


# --- polygons ---------------------------------------------------------------------------------------------------------


def _read_polygons(file: Path, schema: Schema, rule: str, wanted: Sequence[str] | None) -> Areas:
    """Find the areas of the cells of a map by polygons in the coordinates of the map: degrees for a mesh."""
    attributes, boxes, cells = _find_boxes(schema, file)
    shapes, rows, crossed = _load_features(file)
    listed = [name for name in rows[0] if all(name in row for row in rows)]
    levels = _choose_levels(listed, wanted, file)
    if not levels:
        raise SchemaError(
            "{file}: its features have no property in common; give each area a name in its properties", file=file
        )
    units: dict[tuple[str, ...], int] = {}
    unit_of = [units.setdefault(tuple(_name(row[level]) for level in levels), len(units)) for row in rows]
    found = _centres_within(shapes, boxes) if rule == "centre" else _shares_within(shapes, boxes)
    shares: dict[tuple[int, int], Fraction] = {}
    for box, shape, share in found:
        key = int(cells[box]), unit_of[shape]
        shares[key] = min(Fraction(1), shares.get(key, Fraction(0)) + share)
    if not shares:
        raise SchemaError(
            "{file}: no cell of the map lies in any of its areas; polygons must be in the coordinates of the map,"
            " longitude before latitude for a mesh",
            file=file,
        )
    notes = (*_tell_crossed(file, crossed, rows, levels), *_tell_overlaps(file, shares, rule))
    if rule == "centre":  # a point on a border is in both: the first counts
        shares = {(cell, unit): Fraction(1) for cell, unit in _first_units(shares).items()}
    return replace(build_areas(attributes, levels, rule, list(units), _at_most_whole(shares)), notes=notes)


def _tell_crossed(
    file: Path, crossed: Sequence[int], rows: Sequence[dict[str, Any]], levels: Sequence[str]
) -> list[Text]:
    """Name the areas whose outlines were mended."""
    if not crossed:
        return []
    names = list_some(["/".join(_name(rows[number][level]) for level in levels) for number in crossed], 5)
    return [
        text(
            "{file}: outlines that cross or touch themselves were mended, so that these areas may hold other cells than"
            " meant: {names}; look at them on a map",
            file=file.name,
            names=names,
        )
    ]


def _tell_overlaps(file: Path, shares: Mapping[tuple[int, int], Fraction], rule: str) -> list[Text]:
    """Count the cells that several areas lay claim to."""
    sums: dict[int, Fraction] = {}
    for (cell, _), share in shares.items():
        sums[cell] = sums.get(cell, Fraction(0)) + share
    cells = sum(claimed > 1 + OVERLAP for claimed in sums.values())
    if not cells:
        return []
    if rule == "centre":
        return [
            text(
                "{file}: the centres of {cells} cells lie in several areas, or on their border; each goes to the first",
                file=file.name,
                cells=cells,
            )
        ]
    return [
        text(
            "{file}: areas overlap in {cells} cells; their shares of such a cell are divided by their sum",
            file=file.name,
            cells=cells,
        )
    ]


def _first_units(shares: dict[tuple[int, int], Fraction]) -> dict[int, int]:
    first: dict[int, int] = {}
    for cell, unit in sorted(shares):
        first.setdefault(cell, unit)
    return first


def _at_most_whole(shares: dict[tuple[int, int], Fraction]) -> dict[tuple[int, int], Fraction]:
    """Divide the shares of a cell by their sum where areas overlap by more than rounding."""
    sums: dict[int, Fraction] = {}
    for (cell, _), share in shares.items():
        sums[cell] = sums.get(cell, Fraction(0)) + share
    return {(cell, unit): share / max(sums[cell], Fraction(1)) for (cell, unit), share in shares.items()}


def _name(value: object) -> str:
    return NO_AREA if value is None or value == "" else str(value)


def _find_boxes(schema: Schema, file: Path) -> tuple[list[Attribute], Reals, list[int]]:
    """The attributes that make the map, the corners of its cells (west, south, east, north), and their numbers."""
    for attribute in schema.attributes:
        if isinstance(attribute.domain, MeshCells):
            codes = np.arange(attribute.domain.size)
            at = attribute.domain.bounds(codes)
            return [attribute], np.column_stack([at.west, at.south, at.west + at.width, at.south + at.height]), [
                int(code) for code in codes
            ]  # fmt: skip
    lines = [one for one in schema.attributes if isinstance(one.domain, NumberBins)]
    if len(lines) != 2:
        raise SchemaError(
            "{file}: polygons need a map: an attribute of kind mesh, or exactly two of kind number", file=file
        )
    across, up = lines[::-1] if lines[0].name.casefold() in NORTHWARD else lines
    edges = [_list_edges(one) for one in (across, up)]
    x, y = (part.ravel() for part in np.indices((len(edges[0]) - 1, len(edges[1]) - 1)))
    boxes = np.column_stack([edges[0][x], edges[1][y], edges[0][x + 1], edges[1][y + 1]])
    return [across, up], boxes, (x * up.size + y).tolist()


def _list_edges(attribute: Attribute) -> Reals:
    edges: tuple[Fraction, ...] = getattr(attribute.domain, "edges", ())
    return np.array([float(edge) for edge in edges])


def _import_shapely() -> Any:
    try:
        return importlib.import_module("shapely")
    except ImportError:
        raise SchemaError("area files with polygons need another package: pip install 'sudare[geo]'") from None


def _load_features(file: Path) -> tuple[list[Any], list[dict[str, Any]], list[int]]:
    """Give the shapes, their properties, and the numbers of those that had to be mended."""
    shapely = _import_shapely()
    shape = importlib.import_module("shapely.geometry").shape
    try:
        content = json.loads(_decode(read_bytes(file), file))
        features = content["features"]
        rows = [dict(feature["properties"] or {}) for feature in features]
        given = [shape(feature["geometry"]) for feature in features]
        crossed = [number for number, one in enumerate(given) if not one.is_valid]
        shapes = [shapely.make_valid(one) for one in given]
    except SchemaError:
        raise
    except Exception:
        raise SchemaError("{file}: is no GeoJSON file with polygons and properties", file=file) from None
    if not shapes:
        raise SchemaError("{file}: holds no area", file=file)
    if any(one.is_empty or one.area == 0 for one in shapes):
        raise SchemaError("{file}: an area has no surface; give polygons", file=file)
    return shapes, rows, crossed


def _centres_within(shapes: list[Any], boxes: Reals) -> list[tuple[int, int, Fraction]]:
    shapely = _import_shapely()
    centres = shapely.points((boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2)
    tree = shapely.STRtree(centres)
    pairs = tree.query(shapes, predicate="intersects")
    return [(int(box), int(shape), Fraction(1)) for shape, box in zip(*pairs.tolist(), strict=True)]


def _shares_within(shapes: list[Any], boxes: Reals) -> list[tuple[int, int, Fraction]]:
    shapely = _import_shapely()
    cells = shapely.box(*boxes.T)
    tree = shapely.STRtree(cells)
    shape, box = tree.query(shapes, predicate="intersects")
    cut = shapely.area(shapely.intersection(cells[box], np.array(shapes, dtype=object)[shape]))
    parts = np.rint(cut / shapely.area(cells[box]) * SHARE_PARTS).astype(np.int64)
    return [
        (int(cell), int(area), Fraction(int(part), SHARE_PARTS))
        for cell, area, part in zip(box, shape, parts, strict=True)
        if part > 0
    ]
