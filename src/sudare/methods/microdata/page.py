"""The page of published records, and how far they are from the true table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sudare.compare import counts_of
from sudare.counts import Countable
from sudare.methods.default import compare_counts
from sudare.methods.microdata.expected_error import THIN
from sudare.releases import Release
from sudare.releases.columns import find_frame
from sudare.report.frames import describe_records, describe_schema_size
from sudare.report.shapes import ReportPage, TruthComparison, write_number
from sudare.schema import Schema
from sudare.schema.raw import write_size
from sudare.text import Text, text


def describe_page(release: Release, *, title: Text, truth: TruthComparison | None = None) -> ReportPage:
    """Describe published records: attribute by attribute, and on a map if they have a mesh."""
    schema, records = Schema.from_dict(release.certificate.schema), find_frame(release, "records")
    return ReportPage(
        kind=title,
        facts=[(text("records"), write_number(records.rows)), *describe_schema_size(schema)],
        sections=describe_records(schema, records.columns, None, truth),
        warnings=_warn_of_noise(release.certificate.expected_error, records.rows),
    )


def _warn_of_noise(error: Mapping[str, Any], records: int) -> list[Text]:
    """Say that a page shows noise where there are far more cells than records: its bars look like any others."""
    cells, deviation = error.get("cells", 0), error.get("cell_standard_deviation", 0.0)
    if cells <= THIN * records or deviation < 1:
        return []
    return [
        text(
            "There are {cells} possible cells for {records} records, and a cell is off by {deviation} (standard"
            " deviation): what is shown here is mostly noise. Fewer attributes, coarser bins or a view keep more.",
            cells=write_size(cells),
            records=records,
            deviation=write_number(deviation),
        )
    ]


def compare_release(release: Release, truth: Countable) -> TruthComparison:
    """Compare published records with the true table: for the steward alone."""
    published = counts_of(release, frame="records")
    return compare_counts(truth.count(published.schema.names), published)
