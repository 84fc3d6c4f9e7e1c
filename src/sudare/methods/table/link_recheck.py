"""Areas and further tables of a stored release, worked out again: sums of its cells, margins of its noisy sums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.forms.jsontext import read_json
from sudare.methods.recheck import find_table
from sudare.methods.table.area_files import GEOJSON, find_mesh_areas, read_figures
from sudare.methods.table.area_frames import AREA, AREAS, LEVEL, TABLE, spread_out
from sudare.methods.table.linked import NOT_GIVEN, LinkedTable
from sudare.methods.table.margins import COUNT, MARGIN, UNBIASED
from sudare.releases import Certificate, Frame
from sudare.releases.claims import CheckedClaim
from sudare.releases.columns import read_labels, read_numbers
from sudare.releases.files import read_plain
from sudare.releases.parquet import read_frame
from sudare.text import text


def recheck_linked(
    certificate: Certificate, directory: Path, table: Counts, linked: LinkedTable, expected: Mapping[str, Frame]
) -> list[CheckedClaim]:
    """Compare areas, further tables and exact totals with what follows from cells and noisy sums."""
    claims = []
    for name, frame in expected.items():
        if name == AREAS or name.startswith(TABLE):
            claims.append(_compare_frames(name, read_frame(find_table(certificate, directory, name)), frame))
    if find_mesh_areas(linked.facts):
        claims.append(_compare_shapes(certificate, directory, expected[AREAS]))
    if any(sums.noise is None for sums in linked.sums):
        claims.append(_compare_exact(table, linked))
    return claims


def _list_rows(frame: Frame) -> list[tuple[str, ...]]:
    names = [name for name in frame.columns if name not in (COUNT, UNBIASED, MARGIN)]
    columns = [read_labels(frame.columns[name]) for name in names]
    return list(zip(*(map(str, one.labels[one.codes].tolist()) for one in columns), strict=True))


def _compare_frames(name: str, found: Frame, expected: Frame) -> CheckedClaim:
    is_same = list(found.columns) == list(expected.columns) and _list_rows(found) == _list_rows(expected)
    for column in (COUNT, UNBIASED, MARGIN) if is_same else ():
        first, second = (read_numbers(frame.columns[column]) for frame in (found, expected))
        is_same &= bool(np.allclose(first, second, rtol=1e-6, atol=0.0 if column == COUNT else 0.02))
    detail = (
        text("every figure is the sum of its cells, and its margin follows from the noisy sums")
        if is_same
        else text("a figure is not the sum of its cells, or its margin does not follow from the noisy sums")
    )
    return CheckedClaim(name=text("table {name}", name=name), passed=is_same, detail=detail)


def _compare_shapes(certificate: Certificate, directory: Path, areas: Frame) -> CheckedClaim:
    """Compare the numbers of the areas on the map; the pictures are drawn of the same numbers and were not read."""
    expected = read_figures(areas)
    passed = GEOJSON in certificate.payload
    if passed:
        content = read_json(read_plain(directory / GEOJSON))
        try:
            shown = {
                (feature["properties"][LEVEL], feature["properties"][AREA]): feature["properties"]
                for feature in content["features"]
            }
            passed = all(
                key in expected and np.isclose(figures[name], expected[key][name], rtol=1e-6, atol=0.02)
                for key, figures in shown.items()
                for name in (COUNT, UNBIASED, MARGIN)
            )
        except (KeyError, TypeError, json.JSONDecodeError):
            raise ReleaseError("{file} is damaged; get the release again", file=GEOJSON) from None
    detail = (
        text("the numbers of the areas on the map are those of the table; pictures were not read")
        if passed
        else text("a number of an area on the map is not that of the table")
    )
    return CheckedClaim(name=text("areas on the map"), passed=bool(passed), detail=detail)


def _compare_exact(table: Counts, linked: LinkedTable) -> CheckedClaim:
    """See that the cells add up to the exact totals."""
    published, passed = spread_out(table, linked), True
    for sums in linked.sums:
        if sums.noise is None:
            groups = linked.partition(sums.spec)
            held = np.bincount(groups.groups, weights=published[groups.leaves], minlength=len(groups.keys))
            passed &= bool(((held == sums.noisy) | (sums.noisy == NOT_GIVEN)).all())
    detail = (
        text("the cells add up to the totals that were taken as exact")
        if passed
        else text("the cells do not add up to the totals that were taken as exact")
    )
    return CheckedClaim(name=text("exact totals"), passed=passed, detail=detail)
