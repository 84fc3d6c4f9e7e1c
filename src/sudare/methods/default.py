"""The page and the comparison with the truth of a method that brings none of its own: what certificate and frames tell.

Any published frame is listed. One that has attributes of the schema as columns, one row a record or with a column
`count`, is also drawn attribute by attribute, and held against the truth in total variation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sudare.compare.distances import TrueTable, empty_cell_share, ks_distance, l2_distance
from sudare.counts import Countable, Counts
from sudare.errors import ReleaseError
from sudare.releases import Frame, Release
from sudare.releases.columns import read_numbers
from sudare.report.frames import MOST_VALUES, describe_figures, describe_marginals, read_marginal
from sudare.report.shapes import Listing, Marginal, ReportPage, Section, TruthComparison, write_number
from sudare.schema import Attribute, MeshCells, Schema
from sudare.schema.arrays import Codes, Integers, Reals
from sudare.text import Text, text

COUNT = "count"
MOST_ROWS = 200  # of a listed frame; the files hold the rest


def default_page(release: Release, *, title: Text, truth: TruthComparison | None = None) -> ReportPage:
    """Describe a release by its frames; with the truth, what is made of it is stamped."""
    facts = [(name, text("{rows} rows", rows=write_number(frame.rows))) for name, frame in release.frames.items()]
    return ReportPage(kind=title, facts=facts, sections=list(_sections(release, truth)))


def _sections(release: Release, truth: TruthComparison | None) -> Iterator[Section]:
    found = published_marginals(release)
    if found:
        yield describe_marginals(found.values(), truth)
    if truth is not None and truth.figures:
        yield describe_figures(truth)
    for name, frame in release.frames.items():
        columns = [[_show(value) for value in column[:MOST_ROWS].tolist()] for column in frame.decode().values()]
        rows = list(zip(*columns, strict=True))
        listing = Listing(title=text("the first rows"), head=tuple(frame.columns), rows=rows, is_folded=True)
        yield Section(title=text("Table {name}", name=name), parts=(listing,))


def published_marginals(release: Release) -> dict[str, Marginal]:
    """Add up what is published by the values of each attribute; nothing for a release without such columns."""
    if not release.certificate.schema:
        return {}
    schema = Schema.from_dict(release.certificate.schema)
    frame = next((one for one in release.frames.values() if _holds_records(one, schema)), None)
    if frame is None:
        return {}
    is_counted = COUNT in frame.columns and COUNT not in schema.names  # else each row is a record
    weights = read_numbers(frame.columns[COUNT]) if is_counted else None
    listed = (attribute for attribute in schema.attributes if attribute.size <= MOST_VALUES)
    return {attribute.name: read_marginal(attribute, frame.columns, weights) for attribute in listed}


def _holds_records(frame: Frame, schema: Schema) -> bool:
    return set(schema.names) <= set(frame.columns)


def _show(value: object) -> str:
    return "" if value is None else str(value)


# --- the truth --------------------------------------------------------------------------------------------------------


def schema_of_release(release: Release, declared: Schema | None) -> Schema:
    """Give the schema with which the true table is read: the steward's, if it declares what was published, or the
    certificate's.

    Error: ReleaseError if the attributes were declared otherwise when the release was made.
    """
    published = Schema.from_dict(release.certificate.schema)
    if declared is None:
        return published
    missing = [name for name in published.names if name not in declared.names]
    if missing or any(_differ(published.attribute(name), declared.attribute(name)) for name in published.names):
        raise ReleaseError("the schema file does not declare the attributes of the release as they were published")
    return declared


def _differ(published: Attribute, declared: Attribute) -> bool:
    return (published.domain, published.branches) != (declared.domain, declared.branches)


def compare_marginals(release: Release, truth: Countable) -> TruthComparison:
    """Hold the published counts of each attribute against the true ones: for the steward alone."""
    published = published_marginals(release)
    true = {name: true_marginal(truth, name) for name in published}
    figures = [
        (text("total variation distance of {name}", name=name), f"{total_variation(true[name], one.published):.2%}")
        for name, one in published.items()
    ]
    return TruthComparison(figures=tuple(figures), true=true)


def compare_counts(true: Counts, published: Counts) -> TruthComparison:
    """Hold a whole published table of counts against the true one: distances, attributes, the map of a mesh."""
    figures = (
        (text("L2 distance"), write_number(l2_distance(true, published).value)),
        (text("Kolmogorov-Smirnov distance"), f"{ks_distance(true, published).value:.2%}"),
        (text("published records in cells that truly hold nobody"), f"{empty_cell_share(true, published).value:.2%}"),
        (text("records, true"), write_number(true.total)),
        (text("records, published"), write_number(published.total)),
    )
    return TruthComparison(figures=figures, true=count_attributes(true), places=count_mesh_cells(true))


def count_attributes(true: Counts) -> dict[str, Reals]:
    """Count the true table by the values of each attribute that is listed on a page."""
    listed = (attribute.name for attribute in true.schema.attributes if attribute.size <= MOST_VALUES)
    return {name: TrueTable(true).marginal([name]) for name in listed}


def count_mesh_cells(true: Counts) -> tuple[Codes, Integers] | None:
    """Count the true table by the cells of its first mesh; None without one."""
    for attribute in true.schema.attributes:
        if isinstance(attribute.domain, MeshCells):
            by_cell = true.project([attribute.name])
            return by_cell.codes[:, 0], by_cell.values
    return None


def true_marginal(truth: Countable, name: str) -> Reals:
    """Count the true table by the values of one attribute."""
    counts = truth.count([name])
    return np.bincount(counts.column(name), weights=counts.values, minlength=counts.schema.size).astype(np.float64)


def total_variation(first: Reals, second: Reals) -> float:
    """Half the sum of the differences of two distributions; 1 where one of them is empty.

    >>> total_variation(np.array([1.0, 1.0]), np.array([3.0, 1.0]))
    0.25
    """
    sums = float(first.sum()), float(np.maximum(second, 0).sum())
    if min(sums) <= 0:
        return float(max(sums) > 0)
    return float(np.abs(first / sums[0] - np.maximum(second, 0) / sums[1]).sum()) / 2
