"""The page of a published table of counts: attributes, a map, sums over regions and by level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from sudare.methods.table.area_files import draw_areas, find_mesh_areas, is_drawn
from sudare.methods.table.area_frames import AREAS, TABLE
from sudare.methods.table.compare import RegionComparison
from sudare.methods.table.estimates import read_measurements
from sudare.methods.table.expected_error import FEW_KINDS, warn_of_noise
from sudare.methods.table.margins import COUNT, MARGIN, UNBIASED
from sudare.methods.table.measured import MeasuredTable
from sudare.releases import Frame, Release
from sudare.releases.columns import find_frame, read_numbers
from sudare.releases.release import MEASUREMENTS
from sudare.report.frames import describe_records, describe_schema_size
from sudare.report.shapes import Listing, Picture, ReportPage, Section, TruthComparison, write_number
from sudare.report.svg import draw_lines, write_line_legend
from sudare.schema import Schema
from sudare.text import Text, Words, text

MOST_LISTED = 2000  # rows of a table on a page; the files hold all


def describe_page(release: Release, *, title: Text, truth: TruthComparison | None = None) -> ReportPage:
    """Describe published counts; with the truth, what is made of it is stamped."""
    schema, cells = Schema.from_dict(release.certificate.schema), find_frame(release, "cells")
    records = float(read_numbers(cells.columns["count"]).sum())
    return ReportPage(
        kind=title,
        facts=[
            (text("records"), write_number(records)),
            (text("published cells"), write_number(cells.rows)),
            *describe_schema_size(schema),
        ],
        sections=_describe_sections(release, schema, truth),
        warnings=warn_of_noise(release.certificate.expected_error, records),
    )


def _describe_sections(release: Release, schema: Schema, truth: TruthComparison | None) -> Iterator[Section]:
    columns = find_frame(release, "cells").columns
    yield from describe_records(schema, columns, read_numbers(columns["count"]), truth)
    yield from _describe_regions(release, truth)
    if AREAS in release.frames:
        yield _describe_areas(release, schema)
    yield from (_list_figures(name, release.frames[name]) for name in release.frames if name.startswith(TABLE))
    if "rollups" in release.frames:
        yield _list_rollups(release)


def _describe_regions(release: Release, truth: TruthComparison | None) -> Iterator[Section]:
    """Draw the error of sums over so many cells: the expected one, and the one that came out."""
    name, expected = _choose_expected(release)
    blocks = truth.blocks if isinstance(truth, RegionComparison) else {}
    series: dict[Words, list[tuple[float, float]]] = {
        name: [(float(cells), float(error)) for cells, error in expected.items()]
    }
    if blocks:
        series[text("as published")] = [(float(cells), error) for cells, error in blocks.items()]
    if not any(series.values()):
        return
    rows = [
        (name, write_number(cells), write_number(error)) for name, points in series.items() for cells, error in points
    ]
    listing = Listing(
        title=text("numbers of {name}", name=text("error of the sum")),
        head=("", text("cells in the region"), text("error of the sum")),
        rows=rows,
        is_folded=True,
    )
    parts = (Picture(title=text("error of sums over regions"), draw=partial(_draw_series, series)), listing)
    yield Section(title=text("Sums over regions"), parts=parts, is_secret=bool(blocks))


def _choose_expected(release: Release) -> tuple[Text, Mapping[str, float]]:
    """Choose the expected errors that are those of this map: a thin one, or one with few records, has others."""
    told, usual = release.certificate.expected_error, text("expected before post-processing")
    densities = told.get("region_standard_deviation_by_density", {})
    if densities and MEASUREMENTS in release.frames:
        measured = read_measurements(release.certificate, release.frames[MEASUREMENTS])
        if isinstance(measured, MeasuredTable) and measured.few is not None and "few" in densities:
            return usual, densities[FEW_KINDS[measured.few] if "fewest" in densities else "few"]
        if isinstance(measured, MeasuredTable) and measured.is_thin and "thin_map" in densities:
            return text("expected where squares are thinnest"), densities["thin_map"]
    return usual, told.get("region_standard_deviation", {})


def _draw_series(series: Mapping[Words, Sequence[tuple[float, float]]]) -> str:
    drawn = draw_lines(series, across=text("cells in the region"), up=text("error of the sum"))
    return write_line_legend([name for name, points in series.items() if points]) + drawn


def _list_rollups(release: Release) -> Section:
    """List the sums of every declared level, as published."""
    columns = release.frames["rollups"].decode()
    counts = read_numbers(release.frames["rollups"].columns["count"])
    sums = zip(columns["attribute"], columns["level"], columns["group"], counts, strict=True)
    rows = [(str(name), str(level), str(group), write_number(float(count))) for name, level, group, count in sums]
    head = (text("attribute"), text("level"), text("group"), text("published"))
    listing = Listing(title=text("sums of every declared level"), head=head, rows=rows, is_folded=True)
    return Section(title=text("Sums by level"), parts=(listing,))


def _describe_areas(release: Release, schema: Schema) -> Section:
    """Draw the areas of a mesh, and list the figures of all areas."""
    listing = _list_rows(text("figures of all areas"), release.frames[AREAS])
    pictures = [
        Picture(
            title=text("areas and their margins of error"),
            draw=partial(draw_areas, release.frames[AREAS], *found),
            is_wide=True,
        )
        for found in find_mesh_areas(schema)[:1]
        if is_drawn(found[0])
    ]
    return Section(title=text("Areas"), parts=(*pictures, listing))


def _list_figures(name: str, frame: Frame) -> Section:
    """List a further table, as published."""
    names = [column for column in frame.columns if column not in (COUNT, UNBIASED, MARGIN)]
    title = text("Table {name}", name=f"{name}: {' x '.join(names)}")
    return Section(title=title, parts=(_list_rows(text("figures of the table"), frame),))


def _list_rows(title: Text, frame: Frame) -> Listing:
    columns = frame.decode()
    names = [column for column in columns if column not in (COUNT, UNBIASED, MARGIN)]
    labels = [[str(label) for label in columns[name][:MOST_LISTED].tolist()] for name in names]
    numbers = [
        [write_number(float(number)) for number in read_numbers(frame.columns[name])[:MOST_LISTED]]
        for name in (COUNT, UNBIASED, MARGIN)
    ]
    head: tuple[Words, ...] = (*names, text("published"), text("unbiased"), text("margin of error"))
    return Listing(title=title, head=head, rows=list(zip(*labels, *numbers, strict=True)), is_folded=True)
