"""The page of a location mechanism: maps of what a report tells and how far it is; all of it facts of the map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sudare.methods.location import load_artefact
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.metrics import ElasticGrid
from sudare.releases import Release
from sudare.report.frames import frame_of, numbers
from sudare.report.shapes import Listing, Marginal, Picture, Section, number
from sudare.report.svg import columns as draw_columns
from sudare.report.svg import heat
from sudare.schema.arrays import Reals
from sudare.text import say

BINS = 24
RATIO = 1000  # beyond it equal differences of colour would show nothing


def place_sections(release: Release, directory: Path) -> Iterator[Section]:
    """What a mechanism tells, cell by cell."""
    columns = frame_of(release, "weights").columns
    told = [
        (
            "posterior",
            say("chance that the reported cell is the true one"),
            say("how sure one who sees a report can be"),
        ),
        ("expected_distance_metres", say("expected distance of a report, in metres"), say("what a report costs")),
        ("report_true", say("chance that the true cell is reported"), say("high where few other cells are near")),
        ("weight", say("weight of a cell"), say("cells of weight 0 are never reported")),
    ]
    shape, stretch = _shape(directory)
    maps, spreads = [], []
    for name, title, words in told:
        values = numbers(columns[name])
        if name == "weight":
            values = np.where(values > 0, values, np.nan)
        if shape is not None:
            maps.append(_map(title, words, values.reshape(shape), stretch))
        if name != "weight":
            spreads.append(_spread(title, values[np.isfinite(values)]))
    if maps:
        yield Section(title=say("Maps"), words=(say("Cells where nobody can be are left blank."),), parts=tuple(maps))
    yield Section(title=say("How the cells differ"), parts=(*spreads, _summary(columns, told)))


def place_facts(release: Release) -> list[tuple[str, str]]:
    """What the top of the page tells of a mechanism."""
    columns, paper = frame_of(release, "weights").columns, release.certificate
    reportable = int((numbers(columns["weight"]) > 0).sum())
    return [
        (say("promised epsilon per metre"), str(paper.parameters.get("epsilon_per_metre", ""))),
        (say("cells that can be reported"), number(reportable)),
        (say("expected distance"), f"{paper.measures.get('expected_distance_metres', 0.0):,.0f} m"),
        (say("largest posterior"), f"{paper.measures.get('posterior_max', 0.0):.1%}"),
    ]


def _shape(directory: Path) -> tuple[tuple[int, int] | None, float]:
    """Rows and columns of the map and the height of a cell over its width; None for a map without a grid."""
    places = load_artefact(directory).mechanism.places
    grid = places.grid if isinstance(places, ElasticGrid) else places
    if not isinstance(grid, PlaneGrid):
        return None, 1.0
    return grid.shape, float(grid.cell_height_metres) / float(grid.cell_width_metres)


def _map(title: str, words: str, values: Reals, stretch: float) -> Picture:
    """A map; numbers of very different size are coloured by their ratios."""
    found = values[np.isfinite(values)]
    is_log = bool(found.size) and found.min() > 0 and found.max() > RATIO * found.min()
    told = f"{words} ({say('colours by ratio')})" if is_log else words
    return Picture(title=title, drawing=heat(values, title=title, stretch=stretch, is_log=is_log), words=told)


def _spread(title: str, values: Reals) -> Picture:
    """How many cells have a value of each size."""
    counts, edges = np.histogram(values, bins=BINS)
    labels = tuple(number(float(edge)) for edge in edges[:-1])
    found = Marginal(name=title, labels=labels, published=counts.astype(np.float64), is_ordered=True)
    return Picture(title=title, drawing=draw_columns(found), words=say("cells by value"))


def _summary(columns: object, told: list[tuple[str, str, str]]) -> Listing:
    rows = []
    for name, title, _ in told:
        values = numbers(columns[name])  # type: ignore[index]
        values = values[np.isfinite(values)]
        ends = (values.min(), np.median(values), values.mean(), values.max())
        rows.append((title, *(number(float(one)) for one in ends)))
    head = (say("measure"), say("least"), say("median"), say("mean"), say("most"))
    return Listing(title=say("over all cells"), head=head, rows=rows)
