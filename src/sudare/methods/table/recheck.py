"""A stored table, recounted: the cells are counts of declared combinations, and sums and maps are sums of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.forms.jsontext import read_json
from sudare.methods.recheck import find_table
from sudare.methods.table.table import COUNT, count_on_map, frames
from sudare.releases import Certificate, Frame
from sudare.releases.claims import CheckedClaim
from sudare.releases.columns import read_codes, read_labels, read_numbers
from sudare.releases.files import read_plain
from sudare.releases.parquet import read_frame
from sudare.schema import MeshCells, Schema
from sudare.schema.arrays import Codes, Integers
from sudare.text import Text, text

GEOJSON, GEOPARQUET = "map.geojson", "map.parquet"


def recheck_sums(certificate: Certificate, directory: Path) -> list[CheckedClaim]:
    """Count the cells again, and compare the sums of every level and the maps with them."""
    table = _count_cells(certificate, directory)
    if isinstance(table, Text):
        return [CheckedClaim(name=text("cells"), passed=False, detail=table)]
    total = text("{cells} cells hold {total} records together", cells=table.nonzero, total=table.total)
    claims = [CheckedClaim(name=text("cells"), passed=True, detail=total)]
    expected = frames(table)
    if "rollups" in expected:
        claims.append(_compare_rollups(read_frame(find_table(certificate, directory, "rollups")), expected["rollups"]))
    if (on_map := count_on_map(table)) is not None:
        claims.append(_compare_maps(on_map, certificate, directory))
    return claims


def _count_cells(certificate: Certificate, directory: Path) -> Counts | Text:
    """Read the cells as counts; say what is wrong with them otherwise."""
    schema = Schema.from_dict(certificate.schema)
    columns = read_frame(find_table(certificate, directory, "cells")).columns
    if set(columns) != {*schema.names, COUNT}:
        raise ReleaseError("the table of cells has other columns than the schema; it is damaged, get it again")
    numbers = read_numbers(columns[COUNT])
    if not (np.isfinite(numbers).all() and (numbers >= 1).all() and (numbers == np.floor(numbers)).all()):
        return text("a count is not a whole number above 0")
    codes = np.column_stack([read_codes(attribute, columns[attribute.name]) for attribute in schema.attributes])
    if schema.impossible and bool(schema.is_impossible(codes).any()):
        return text("a combination that was declared impossible is published")
    table = Counts.from_columns(schema, codes, numbers.astype(np.int64))
    return table if table.nonzero == len(numbers) else text("a cell is listed twice")


def _compare_rollups(found: Frame, expected: Frame) -> CheckedClaim:
    passed = _list_sums(found) == _list_sums(expected)
    detail = (
        text("every sum of a group is the sum of its cells")
        if passed
        else text("a sum of a group is not the sum of its cells")
    )
    return CheckedClaim(name=text("sums of groups"), passed=passed, detail=detail)


def _list_sums(frame: Frame) -> list[tuple[str, ...]]:
    names = ("attribute", "level", "group", COUNT)
    if set(frame.columns) != set(names):
        return [()]
    columns = [read_labels(frame.columns[name]) for name in names]
    return sorted(zip(*(map(str, column.labels[column.codes].tolist()) for column in columns), strict=True))


def _compare_maps(on_map: tuple[MeshCells, Codes, Integers], certificate: Certificate, directory: Path) -> CheckedClaim:
    """Compare the numbers on the maps; pictures are drawn of the same numbers and were not read."""
    cells, codes, people = on_map
    expected = dict(zip(map(str, cells.labels(codes).tolist()), people.tolist(), strict=True))
    passed = {GEOJSON, GEOPARQUET} <= set(certificate.payload) and all(
        found == expected for found in (_read_geojson(directory / GEOJSON), _read_geoparquet(directory / GEOPARQUET))
    )
    detail = (
        text("the numbers on the maps are sums of the cells; the picture was not read")
        if passed
        else text("a number on a map is not the sum of its cells")
    )
    return CheckedClaim(name=text("maps"), passed=passed, detail=detail)


def _read_geojson(file: Path) -> dict[str, int]:
    content = read_json(read_plain(file))
    return {str(feature["properties"]["mesh"]): feature["properties"][COUNT] for feature in content["features"]}


def _read_geoparquet(file: Path) -> dict[str, int]:
    columns = read_frame(file).columns
    labels, counts = read_labels(columns["mesh"]), read_numbers(columns[COUNT])
    codes = labels.labels[labels.codes].tolist()
    return {str(code): int(count) for code, count in zip(codes, counts.tolist(), strict=True)}
