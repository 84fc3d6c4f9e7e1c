"""The page of a view: each attribute with its intervals, the tables it holds, pairs of attributes as maps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from sudare.methods.view import OpenedView, open_view
from sudare.methods.view.tables import answer
from sudare.releases import Release
from sudare.report.frames import figures_section, frame_of, label_texts, marginal_section, numbers, texts
from sudare.report.shapes import Listing, Marginal, Picture, Section, TruthComparison, number
from sudare.report.svg import heat
from sudare.text import say

MOST_VALUES = 2000  # attributes of more values are not drawn one by one
MOST_INTERVALS = 200
MOST_PAIRS, MOST_CELLS = 4, 2**20


def view_sections(release: Release, truth: TruthComparison | None) -> Iterator[Section]:
    """What a view tells."""
    view = open_view(release)
    names = [one.name for one in view.schema.attributes if one.size <= MOST_VALUES]
    yield marginal_section((view_marginal(view, name) for name in names), truth)
    if truth is not None:
        yield figures_section(truth)
    yield from _tables(release, view)


def view_facts(release: Release) -> list[tuple[str, str]]:
    """What the top of the page tells of a view."""
    view = open_view(release)
    return [
        (say("records"), number(round(view.stored.total))),
        (say("attributes"), str(len(view.schema.names))),
        (say("cells of the complete table"), f"{view.schema.size:,}" if view.schema.size < 10**12 else
            f"{view.schema.size:.2e}"),
        (say("numbers stored"), number(sum(frame.rows for frame in release.frames.values()))),
    ]  # fmt: skip


def view_marginal(view: OpenedView, name: str) -> Marginal:
    """Read one attribute off a view, each value with its interval."""
    one, place = view.schema.attribute(name), view.schema.position(name)
    low = high = None
    if one.size <= MOST_INTERVALS:
        found = [answer(view.stored.moments([{place: row}])) for row in np.eye(one.size)]
        low, high = (np.array([getattr(each, end) for each in found]) for end in ("low", "high"))
    return Marginal(
        name=name,
        labels=label_texts(one),
        published=view.marginal([name]),
        low=low,
        high=high,
        is_ordered=one.is_ordered,
    )


def _tables(release: Release, view: OpenedView) -> Iterator[Section]:
    """Which attributes the view knows together, and how they go together."""
    if "cliques" in release.frames:
        groups = _cliques(release)
        words = say("The view holds these tables of attributes; others are put together from them.")
        rows = [(str(number_), ", ".join(names)) for number_, names in enumerate(groups, start=1)]
        listing = Listing(title=say("tables of the view"), head=(say("table"), say("attributes")), rows=rows)
        pairs = list(dict.fromkeys(pair for names in groups for pair in itertools.combinations(names, 2)))
    else:
        blocks = frame_of(release, "blocks")
        words = say("The view cuts the whole table into {count} blocks.", count=f"{blocks.rows:,}")
        listing = None
        pairs = list(itertools.combinations(view.schema.names, 2))
    drawn = tuple(_pair(view, *pair) for pair in pairs[: 8 * MOST_PAIRS] if _is_small(view, pair))[:MOST_PAIRS]
    yield Section(
        title=say("What the view holds"), words=(words,), parts=(*drawn, *([listing] if listing is not None else []))
    )


def _cliques(release: Release) -> list[tuple[str, ...]]:
    columns = release.frames["cliques"].columns
    cliques, names = numbers(columns["clique"]).astype(int).tolist(), texts(columns["attribute"]).decode().tolist()
    found: dict[int, list[str]] = {}
    for clique, name in zip(cliques, names, strict=True):
        found.setdefault(clique, []).append(str(name))
    groups = list(dict.fromkeys(tuple(group) for group in found.values()))
    return [one for one in groups if not any(set(one) < set(other) for other in groups)]  # what links them is inside


def _is_small(view: OpenedView, pair: tuple[str, str]) -> bool:
    first, second = (view.schema.attribute(name).size for name in pair)
    return max(first, second) > 2 and first * second <= MOST_CELLS


def _pair(view: OpenedView, first: str, second: str) -> Picture:
    """Two attributes as a map of counts, the one with more values across."""
    across, up = sorted((first, second), key=lambda name: -view.schema.attribute(name).size)
    table = view.marginal([up, across])
    stretch = max(1.0, table.shape[1] / table.shape[0] / 3)
    words = say("across: {across}; up: {up}; records in a cell by colour", across=across, up=up)
    names = label_texts(view.schema.attribute(up)), label_texts(view.schema.attribute(across))
    drawn = heat(table, title=words, stretch=stretch, names=names)
    return Picture(title=f"{up} × {across}", drawing=drawn, words=words)
