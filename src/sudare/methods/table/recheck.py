"""A stored table, recounted: the cells are counts of declared combinations, and sums and maps are sums of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.forms.jsontext import read_json
from sudare.methods.recheck import find_table
from sudare.methods.table.estimates import read_measurements
from sudare.methods.table.frames import count_on_map, find_map_margins, frames
from sudare.methods.table.large_measured import LargeMeasured
from sudare.methods.table.link_recheck import recheck_linked
from sudare.methods.table.linked import LinkedTable
from sudare.methods.table.margins import COUNT, MARGIN, UNBIASED
from sudare.methods.table.measured import MeasuredTable
from sudare.releases import Certificate, Frame
from sudare.releases.claims import CheckedClaim
from sudare.releases.columns import read_codes, read_labels, read_numbers
from sudare.releases.files import read_plain
from sudare.releases.parquet import read_frame
from sudare.releases.release import MEASUREMENTS
from sudare.schema import MeshCells, Schema
from sudare.schema.arrays import Codes, Integers, Reals
from sudare.text import Text, text

GEOJSON, GEOPARQUET = "map.geojson", "map.parquet"


def recheck_sums(certificate: Certificate, directory: Path) -> list[CheckedClaim]:
    """Count the cells again, and compare the sums of every level and the maps with them."""
    cells = read_frame(find_table(certificate, directory, "cells"))
    table = _count_cells(certificate, cells)
    if isinstance(table, Text):
        return [CheckedClaim(name=text("cells"), passed=False, detail=table)]
    total = text("{cells} cells hold {total} records together", cells=table.nonzero, total=table.total)
    claims = [CheckedClaim(name=text("cells"), passed=True, detail=total)]
    measured = None
    if has_measurements(certificate):
        measured = read_measurements(certificate, read_frame(find_table(certificate, directory, MEASUREMENTS)))
        claims.append(_compare_margins(cells, table, measured))
    expected = frames(table, measured)
    if "rollups" in expected:
        claims.append(_compare_rollups(read_frame(find_table(certificate, directory, "rollups")), expected["rollups"]))
    if (on_map := count_on_map(table)) is not None:
        margins = find_map_margins(table, on_map[1], measured)
        claims.append(_compare_maps(on_map, margins, certificate, directory))
    if isinstance(measured, LinkedTable):
        claims += recheck_linked(certificate, directory, table, measured, expected)
    return claims


def has_measurements(certificate: Certificate) -> bool:
    """Tell whether the noisy sums were published beside the table."""
    return any(name.rpartition(".")[0] == MEASUREMENTS for name in certificate.payload)


def _compare_margins(cells: Frame, table: Counts, measured: MeasuredTable | LargeMeasured) -> CheckedClaim:
    """Compare the total and the margins of cells with what follows from the noisy sums."""
    codes = np.column_stack([read_codes(one, cells.columns[one.name]) for one in table.schema.attributes])
    expected = measured.cell_margins(codes).columns
    is_same = table.total == measured.published_total and all(
        name in cells.columns and np.allclose(read_numbers(cells.columns[name]), values, rtol=1e-6, atol=0.02)
        for name, values in expected.items()
    )
    detail = (
        text("the total, the unbiased figures and the margins follow from the noisy sums")
        if is_same
        else text("the total, an unbiased figure or a margin does not follow from the noisy sums")
    )
    return CheckedClaim(name=text("margins of error"), passed=is_same, detail=detail)


def _count_cells(certificate: Certificate, frame: Frame) -> Counts | Text:
    """Read the cells as counts; say what is wrong with them otherwise."""
    schema = Schema.from_dict(certificate.schema)
    columns = frame.columns
    more = {UNBIASED, MARGIN} if has_measurements(certificate) else set()
    if set(columns) != {*schema.names, COUNT, *more}:
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
    passed = _list_sums(found) == _list_sums(expected) and found.columns.keys() == expected.columns.keys()
    for name in (UNBIASED, MARGIN) if passed and UNBIASED in expected.columns else ():
        first, second = (np.sort(read_numbers(frame.columns[name])) for frame in (found, expected))
        passed &= bool(np.allclose(first, second, rtol=1e-6, atol=0.02))
    detail = (
        text("every sum of a group is the sum of its cells")
        if passed
        else text("a sum of a group is not the sum of its cells")
    )
    return CheckedClaim(name=text("sums of groups"), passed=passed, detail=detail)


def _list_sums(frame: Frame) -> list[tuple[str, ...]]:
    names = ("attribute", "level", "group", COUNT)
    if set(frame.columns) - {UNBIASED, MARGIN} != set(names):
        return [()]
    columns = [read_labels(frame.columns[name]) for name in names]
    return sorted(zip(*(map(str, column.labels[column.codes].tolist()) for column in columns), strict=True))


def _compare_maps(
    on_map: tuple[MeshCells, Codes, Integers], margins: Mapping[str, Reals], certificate: Certificate, directory: Path
) -> CheckedClaim:
    """Compare the numbers on the maps; pictures are drawn of the same numbers and were not read."""
    cells, codes, people = on_map
    columns = {COUNT: people, **margins}
    rows = np.column_stack([column.astype(np.float64) for column in columns.values()])
    expected = dict(zip(map(str, cells.labels(codes).tolist()), rows.tolist(), strict=True))
    passed = {GEOJSON, GEOPARQUET} <= set(certificate.payload) and all(
        _is_same_map(read(directory / file, tuple(columns)), expected)
        for file, read in ((GEOJSON, _read_geojson), (GEOPARQUET, _read_geoparquet))
    )
    detail = (
        text("the numbers on the maps are sums of the cells; the picture was not read")
        if passed
        else text("a number on a map is not the sum of its cells")
    )
    return CheckedClaim(name=text("maps"), passed=passed, detail=detail)


def _is_same_map(found: Mapping[str, Sequence[float]], expected: Mapping[str, Sequence[float]]) -> bool:
    """Tell whether both have the same cells, counts to the digit, and margins but for rounding."""
    if found.keys() != expected.keys():
        return False
    first, second = (
        np.array([rows[cell] for cell in expected]).reshape(len(expected), -1) for rows in (found, expected)
    )
    return np.array_equal(first[:, :1], second[:, :1]) and np.allclose(first, second, rtol=1e-6, atol=0.02)


def _read_geojson(file: Path, names: Sequence[str]) -> dict[str, Sequence[float]]:
    content = read_json(read_plain(file))
    shown = [feature["properties"] for feature in content["features"]]
    return {str(figures["mesh"]): [float(figures[name]) for name in names] for figures in shown}


def _read_geoparquet(file: Path, names: Sequence[str]) -> dict[str, Sequence[float]]:
    columns = read_frame(file).columns
    labels = read_labels(columns["mesh"])
    codes, rows = labels.labels[labels.codes].tolist(), np.column_stack([read_numbers(columns[name]) for name in names])
    return {str(code): figures for code, figures in zip(codes, rows.astype(np.float64).tolist(), strict=True)}
