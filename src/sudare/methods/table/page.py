"""The page of a published table of counts: attributes, a map, sums over regions and by level."""

from __future__ import annotations

from collections.abc import Iterator

from sudare.methods.table.compare import RegionComparison
from sudare.releases import Release
from sudare.releases.columns import find_frame, read_numbers
from sudare.report.frames import describe_records, describe_schema_size
from sudare.report.shapes import Listing, Picture, ReportPage, Section, TruthComparison, write_number
from sudare.report.svg import draw_lines, write_line_legend
from sudare.schema import Schema
from sudare.text import Text, say


def describe_page(release: Release, *, title: Text, truth: TruthComparison | None = None) -> ReportPage:
    """Describe published counts; with the truth, what is made of it is stamped."""
    schema, cells = Schema.from_dict(release.certificate.schema), find_frame(release, "cells")
    records = float(read_numbers(cells.columns["count"]).sum())
    return ReportPage(
        kind=title,
        facts=[
            (say("records"), write_number(records)),
            (say("published cells"), write_number(cells.rows)),
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
    series = {say("expected before the repair"): [(float(cells), float(error)) for cells, error in expected.items()]}
    if blocks:
        series[say("found")] = [(float(cells), error) for cells, error in blocks.items()]
    if not any(series.values()):
        return
    drawn = draw_lines(series, across=say("cells in the region"), up=say("error of the sum"))
    drawn = write_line_legend([name for name, points in series.items() if points]) + drawn
    rows = [
        (name, write_number(cells), write_number(error)) for name, points in series.items() for cells, error in points
    ]
    listing = Listing(
        title=say("numbers of {name}", name=say("error of the sum")),
        head=("", say("cells in the region"), say("error of the sum")),
        rows=rows,
        is_folded=True,
    )
    parts = (Picture(title=say("error of sums over regions"), drawing=drawn), listing)
    yield Section(title=say("Sums over regions"), parts=parts, is_secret=bool(blocks))


def _list_rollups(release: Release) -> Section:
    """List the sums of every declared level, as published."""
    columns = release.frames["rollups"].decode()
    counts = read_numbers(release.frames["rollups"].columns["count"])
    sums = zip(columns["attribute"], columns["level"], columns["group"], counts, strict=True)
    rows = [(str(name), str(level), str(group), write_number(float(count))) for name, level, group, count in sums]
    head = (say("attribute"), say("level"), say("group"), say("published"))
    listing = Listing(title=say("sums of every declared level"), head=head, rows=rows, is_folded=True)
    return Section(title=say("Sums by level"), parts=(listing,))
