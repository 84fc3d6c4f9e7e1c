"""The page of a view: each attribute with its intervals, the tables it holds, pairs of attributes as maps.

For the steward: how far its answers are from the true table, and how often its intervals hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from sudare.asking.answers import answer
from sudare.compare.distances import TrueTable, random_ranges, rmse_of_marginals, rmse_of_ranges
from sudare.counts import Countable
from sudare.methods.default import count_attributes
from sudare.methods.view.opened import OpenedView, open_view
from sudare.noise import SeededRng
from sudare.releases import Release
from sudare.releases.columns import find_frame, read_labels, read_numbers
from sudare.report.frames import describe_figures, describe_marginals, describe_schema_size, name_values
from sudare.report.shapes import Listing, Marginal, Picture, ReportPage, Section, TruthComparison, write_number
from sudare.report.svg import draw_heat_map
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Reals
from sudare.text import Text, Words, text

MOST_VALUES = 2000  # attributes of more values are not drawn value by value
MOST_INTERVALS = 200  # attributes of more values are drawn without intervals, each of which is computed
MOST_PAIRS, MOST_PAIR_CELLS = 4, 2**20  # maps of two attributes on a page, and cells of one of them
RANGES = 200  # random ranges over two attributes, the same in every comparison
MOST_TWO_WAY_CELLS = 5_000_000  # of all two-way tables together; beyond, they are not compared


def describe_page(release: Release, *, title: Text, truth: TruthComparison | None = None) -> ReportPage:
    """Describe a view; with the truth, what is made of it is stamped."""
    view = open_view(release)
    return ReportPage(
        kind=title,
        facts=[
            (text("records"), write_number(round(view.stored.total))),
            *describe_schema_size(view.schema),
            (text("numbers stored"), write_number(sum(frame.rows for frame in release.frames.values()))),
        ],
        sections=_describe_sections(release, view, truth),
    )


def _describe_sections(release: Release, view: OpenedView, truth: TruthComparison | None) -> Iterator[Section]:
    names = [attribute.name for attribute in view.schema.attributes if attribute.size <= MOST_VALUES]
    yield describe_marginals((read_view_marginal(view, name) for name in names), truth)
    if truth is not None:
        yield describe_figures(truth)
    yield _describe_tables(release, view)


def read_view_marginal(view: OpenedView, name: str) -> Marginal:
    """Read one attribute off a view, each value with its interval."""
    attribute, place = view.schema.attribute(name), view.schema.position(name)
    low = high = None
    if attribute.size <= MOST_INTERVALS:
        estimates = [answer(view.stored.moments([{place: row}])) for row in np.eye(attribute.size)]
        low, high = (np.array([getattr(estimate, end) for estimate in estimates]) for end in ("low", "high"))
    return Marginal(
        name=name,
        labels=name_values(attribute),
        published=view.marginal([name]),
        low=low,
        high=high,
        is_ordered=attribute.is_ordered,
    )


def _describe_tables(release: Release, view: OpenedView) -> Section:
    """Tell which attributes the view knows together, and draw how some pairs of them depend on each other."""
    listing = None
    if "cliques" in release.frames:
        cliques = _read_cliques(release)
        words = text("The view holds these tables of attributes; others are put together from them.")
        rows = [(str(number), ", ".join(names)) for number, names in enumerate(cliques, start=1)]
        listing = Listing(title=text("tables of the view"), head=(text("table"), text("attributes")), rows=rows)
        pairs = list(dict.fromkeys(pair for names in cliques for pair in itertools.combinations(names, 2)))
    else:
        blocks = find_frame(release, "blocks")
        words = text("The view cuts the whole table into {count} blocks.", count=f"{blocks.rows:,}")
        pairs = list(itertools.combinations(view.schema.names, 2))
    drawn = [_draw_pair(view, *pair) for pair in pairs[: 8 * MOST_PAIRS] if _can_be_drawn(view, pair)][:MOST_PAIRS]
    parts: tuple[Picture | Listing, ...] = (*drawn, *([] if listing is None else [listing]))
    return Section(title=text("What the view holds"), words=(words,), parts=parts)


def _read_cliques(release: Release) -> list[tuple[str, ...]]:
    """Read the attributes of each clique; one inside another (a separator) is left out."""
    columns = release.frames["cliques"].columns
    numbers = read_numbers(columns["clique"]).astype(int).tolist()
    members: dict[int, list[str]] = {}
    for number, name in zip(numbers, read_labels(columns["attribute"]).decode().tolist(), strict=True):
        members.setdefault(number, []).append(str(name))
    cliques = list(dict.fromkeys(tuple(names) for names in members.values()))
    return [clique for clique in cliques if not any(set(clique) < set(other) for other in cliques)]


def _can_be_drawn(view: OpenedView, pair: tuple[str, str]) -> bool:
    first, second = (view.schema.attribute(name).size for name in pair)
    return max(first, second) > 2 and first * second <= MOST_PAIR_CELLS


def _draw_pair(view: OpenedView, first: str, second: str) -> Picture:
    """Draw two attributes as a map of counts, the one with more values across."""
    across, up = sorted((first, second), key=lambda name: -view.schema.attribute(name).size)
    table = view.marginal([up, across])
    stretch = max(1.0, table.shape[1] / table.shape[0] / 3)
    words = text("across: {across}; up: {up}; colour: records in a cell", across=across, up=up)
    names = name_values(view.schema.attribute(up)), name_values(view.schema.attribute(across))
    draw = partial(draw_heat_map, table, title=words, stretch=stretch, names=names)
    return Picture(title=f"{up} × {across}", draw=draw, words=words)


# --- beside the truth -------------------------------------------------------------------------------------------------


def compare_release(release: Release, truth: Countable) -> TruthComparison:
    """Compare the answers of a view with the truth: one- and two-way tables, ranges, what its intervals cover."""
    view = open_view(release)
    counts = truth.count(Schema.from_dict(release.certificate.schema).names)
    true, schema = TrueTable(counts), counts.schema
    figures: list[tuple[Words, Words]] = [
        (text("error of a value of an attribute (RMSE)"), _write_rmse(true, view, schema, 1))
    ]
    sizes = [math.prod(pair) for pair in itertools.combinations(schema.sizes, 2)]
    if sizes and sum(sizes) <= MOST_TWO_WAY_CELLS:
        figures.append((text("error of a cell of two attributes (RMSE)"), _write_rmse(true, view, schema, 2)))
    ways = min(2, len(schema.names))
    lows, highs = random_ranges(schema, ways, queries=RANGES, rng=SeededRng(1))  # public questions, no noise
    answers = true.ranges(lows, highs)
    figures += [
        (text("error of random ranges (RMSE)"), write_number(rmse_of_ranges(answers, view, lows, highs).value)),
        (text("share of values inside their 95% interval"), _cover_values(true, view)),
        (text("share of random ranges inside their 95% interval"), _cover_ranges(answers, view, lows, highs)),
        (text("records, true"), write_number(counts.total)),
        (text("records, published"), write_number(round(view.stored.total))),
    ]
    return TruthComparison(figures=tuple(figures), true=count_attributes(counts))


def _write_rmse(true: TrueTable, view: OpenedView, schema: Schema, ways: int) -> str:
    return write_number(rmse_of_marginals(true, view, schema, ways).value)


def _cover_values(true: TrueTable, view: OpenedView) -> str:
    """The share of the values of attributes whose interval holds the true count."""
    hits = []
    for place, attribute in enumerate(view.schema.attributes):
        if attribute.size <= MOST_INTERVALS:
            estimates = [answer(view.stored.moments([{place: row}])) for row in np.eye(attribute.size)]
            counts = true.marginal([attribute.name]).tolist()
            hits += [estimate.low <= count <= estimate.high for estimate, count in zip(estimates, counts, strict=True)]
    return f"{np.mean(hits):.0%}" if hits else "-"


def _cover_ranges(answers: Reals, view: OpenedView, lows: Codes, highs: Codes) -> str:
    """The share of the ranges whose interval holds the true count."""
    hits = []
    for count, low, high in zip(answers.tolist(), lows, highs, strict=True):
        box = {
            place: ((np.arange(size) >= low[place]) & (np.arange(size) <= high[place])).astype(np.float64)
            for place, size in enumerate(view.schema.sizes)
            if low[place] > 0 or high[place] < size - 1
        }
        estimate = answer(view.stored.moments([box]))
        hits.append(estimate.low <= count <= estimate.high)
    return f"{np.mean(hits):.0%}"
