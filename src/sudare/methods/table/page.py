"""The page of a published table of counts: attributes, a map, sums over regions and by level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from sudare.methods.table.compare import RegionComparison
from sudare.releases import Release
from sudare.releases.columns import find_frame, read_numbers
from sudare.report.frames import describe_records, describe_schema_size
from sudare.report.shapes import Listing, Picture, ReportPage, Section, TruthComparison, write_number
from sudare.report.svg import draw_lines, write_line_legend
from sudare.schema import Schema
from sudare.text import Text, Words, text


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
    )


def _describe_sections(release: Release, schema: Schema, truth: TruthComparison | None) -> Iterator[Section]:
    columns = find_frame(release, "cells").columns
    yield from describe_records(schema, columns, read_numbers(columns["count"]), truth)
    yield from _describe_regions(release, truth)
    if "rollups" in release.frames:
        yield _list_rollups(release)


def _describe_regions(release: Release, truth: TruthComparison | None) -> Iterator[Section]:
    """Draw the error of sums over so many cells: the expected one, and the one that came out."""
    expected = release.certificate.expected_error.get("region_standard_deviation", {})
    blocks = truth.blocks if isinstance(truth, RegionComparison) else {}
    series: dict[Words, list[tuple[float, float]]] = {
        text("expected before post-processing"): [(float(cells), float(error)) for cells, error in expected.items()]
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
