"""How far records, counts and views are from the true table, as plain numbers for the steward's page."""

from __future__ import annotations

import contextlib
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np

from sudare.compare.distances import (
    BLOCKS,
    empty_cell_share,
    ks_distance,
    l2_distance,
    random_ranges,
    region_errors,
    rmse_of_marginals,
    rmse_of_ranges,
)
from sudare.compare.distances import TrueTable as TrueAnswers
from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.methods.table.morton import Order
from sudare.methods.view import OpenedView, open_view
from sudare.methods.view.tables import answer
from sudare.noise import SeededRng
from sudare.releases import Release
from sudare.report.frames import codes_of, frame_of, numbers
from sudare.report.shapes import TruthComparison, number
from sudare.report.tabular import MOST_VALUES
from sudare.schema import Attribute, MeshCells, Schema
from sudare.sources import open as open_source
from sudare.text import say

RANGES = 200  # random ranges over two attributes, the same in every report
MOST_CELLS = 5_000_000  # of all two-way tables together
MOST_INTERVALS = 200  # values of an attribute


def true_counts(release: Release, data: str, schema_file: Path | None, reading: dict[str, Any]) -> Counts:
    """Count the true table over the attributes of the release.

    Without a schema file that of the certificate is taken.
    """
    told = Schema.from_dict(release.certificate.schema)
    schema = told if schema_file is None else Schema.read(schema_file)
    missing = [name for name in told.names if name not in schema.names]
    if missing or any(_differ(told.attribute(name), schema.attribute(name)) for name in told.names):
        raise ReleaseError("the schema file does not declare the attributes of the release as they were published")
    with contextlib.closing(open_source(data, schema, **reading)) as source:
        return source.count(told.names)


def _differ(one: Attribute, other: Attribute) -> bool:
    return (one.domain, one.branches) != (other.domain, other.branches)


def compare_counts(release: Release, data: str, schema_file: Path | None, reading: dict[str, Any]) -> TruthComparison:
    """Hold published records or counts against the truth."""
    true = true_counts(release, data, schema_file, reading)
    published = _published(release, true.schema)
    figures = [
        (say("L2 distance"), number(l2_distance(true, published).value)),
        (say("Kolmogorov-Smirnov distance"), f"{ks_distance(true, published).value:.2%}"),
        (say("published records in cells where nobody is in truth"), f"{empty_cell_share(true, published).value:.2%}"),
        (say("records, true"), number(true.total)),
        (say("records, published"), number(published.total)),
    ]
    blocks = {}
    if release.certificate.method == "table":
        sizes = [block for block in BLOCKS if block <= true.schema.size]
        # the tree measures groups in the order of the codes, the wavelet along the Morton curve
        order: Order = "radix" if release.certificate.parameters.get("method") == "tree" else "morton"
        errors = region_errors(true, published, order=order, blocks=sizes)
        blocks = {block: found.value for block, found in errors.items()}
    return TruthComparison(figures=tuple(figures), true=_marginals(true), blocks=blocks, places=_places(true))


def compare_view(release: Release, data: str, schema_file: Path | None, reading: dict[str, Any]) -> TruthComparison:
    """Hold the answers of a view against the truth: one- and two-way tables, ranges, and what its intervals cover."""
    true = true_counts(release, data, schema_file, reading)
    view, schema = open_view(release), true.schema
    answers = TrueAnswers(true)
    figures = [(say("error of a value of an attribute (RMSE)"), _rmse(answers, view, schema, 1))]
    pairs = [math.prod(sizes) for sizes in itertools.combinations(schema.sizes, 2)]
    if pairs and sum(pairs) <= MOST_CELLS:
        figures.append((say("error of a cell of two attributes (RMSE)"), _rmse(answers, view, schema, 2)))
    ways = min(2, len(schema.names))
    lows, highs = random_ranges(schema, ways, queries=RANGES, rng=SeededRng(1))  # public questions, no noise
    asked = answers.ranges(lows, highs)
    figures += [
        (say("error of random ranges (RMSE)"), number(rmse_of_ranges(asked, view, lows, highs).value)),
        (say("values inside their 95% interval"), _covered_values(answers, view)),
        (say("random ranges inside their 95% interval"), _covered_ranges(asked, view, lows, highs)),
        (say("records, true"), number(true.total)),
        (say("records, published"), number(round(view.stored.total))),
    ]
    return TruthComparison(figures=tuple(figures), true=_marginals(true))


def _rmse(truth: TrueAnswers, view: OpenedView, schema: Schema, ways: int) -> str:
    return number(rmse_of_marginals(truth, view, schema, ways).value)


def _covered_values(truth: TrueAnswers, view: OpenedView) -> str:
    hits = []
    for place, one in enumerate(view.schema.attributes):
        if one.size <= MOST_INTERVALS:
            found = [answer(view.stored.moments([{place: row}])) for row in np.eye(one.size)]
            held = zip(found, truth.marginal([one.name]).tolist(), strict=True)
            hits += [each.low <= true <= each.high for each, true in held]
    return f"{np.mean(hits):.0%}" if hits else "-"


def _covered_ranges(asked: Any, view: OpenedView, lows: Any, highs: Any) -> str:
    hits = []
    for true, low, high in zip(asked.tolist(), lows, highs, strict=True):
        box = {
            place: ((np.arange(size) >= low[place]) & (np.arange(size) <= high[place])).astype(np.float64)
            for place, size in enumerate(view.schema.sizes)
            if low[place] > 0 or high[place] < size - 1
        }
        found = answer(view.stored.moments([box]))
        hits.append(found.low <= true <= found.high)
    return f"{np.mean(hits):.0%}"


def _published(release: Release, schema: Schema) -> Counts:
    """The release as a table of counts."""
    name = "cells" if release.certificate.method == "table" else "records"
    columns = frame_of(release, name).columns
    codes = np.column_stack([codes_of(one, columns[one.name]) for one in schema.attributes])
    weights = numbers(columns["count"]).astype(np.int64) if name == "cells" else None
    return Counts.from_columns(schema, codes, weights)


def _marginals(true: Counts) -> dict[str, Any]:
    return {
        one.name: TrueAnswers(true).marginal([one.name]) for one in true.schema.attributes if one.size <= MOST_VALUES
    }


def _places(true: Counts) -> tuple[Any, Any] | None:
    """The true map, if an attribute is a mesh."""
    for one in true.schema.attributes:
        if isinstance(one.domain, MeshCells):
            found = true.project([one.name])
            return found.codes[:, 0], found.values
    return None
