"""The page of a location mechanism: maps of what a report tells and how far it is; all of it facts of the map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from sudare.methods.location.device_file import load_artefact
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.metrics import ElasticGrid
from sudare.releases import Release
from sudare.releases.columns import FrameColumn, find_frame, read_numbers
from sudare.report.shapes import Listing, Marginal, Picture, ReportPage, Section, write_number
from sudare.report.svg import draw_columns, draw_heat_map
from sudare.schema.arrays import Reals
from sudare.text import Text, say

BINS = 24  # of the histogram of a measure over the cells
LARGE_RATIO = 1000  # of the largest to the smallest number: beyond, equal differences of colour would show nothing


def describe_page(release: Release, *, title: Text, directory: Path | None) -> ReportPage:
    """Describe a mechanism cell by cell; maps are drawn if the device file can be read (`directory`)."""
    columns, certificate = find_frame(release, "weights").columns, release.certificate
    reportable = int((read_numbers(columns["weight"]) > 0).sum())
    return ReportPage(
        kind=title,
        facts=[
            (say("promised epsilon per metre"), str(certificate.parameters.get("epsilon_per_metre", ""))),
            (say("cells that can be reported"), write_number(reportable)),
            (say("expected distance"), f"{certificate.measures.get('expected_distance_metres', 0.0):,.0f} m"),
            (say("largest posterior"), f"{certificate.measures.get('posterior_max', 0.0):.1%}"),
        ],
        sections=_describe_sections(columns, directory),
    )


def _describe_measures() -> dict[str, tuple[str, str]]:
    """Title and meaning of each column that is drawn."""
    return {
        "posterior": (
            say("chance that the reported cell is the true one"),
            say("how sure one who sees a report can be"),
        ),
        "expected_distance_metres": (say("expected distance of a report, in metres"), say("what a report costs")),
        "report_true": (say("chance that the true cell is reported"), say("high where few other cells are near")),
        "weight": (say("weight of a cell"), say("cells of weight 0 are never reported")),
    }


def _describe_sections(columns: Mapping[str, FrameColumn], directory: Path | None) -> Iterator[Section]:
    shape, stretch = _read_shape(directory)
    maps, histograms = [], []
    for name, (title, words) in _describe_measures().items():
        values = read_numbers(columns[name])
        if name == "weight":
            values = np.where(values > 0, values, np.nan)
        if shape is not None:
            maps.append(_draw_map(title, words, values.reshape(shape), stretch))
        if name != "weight":
            histograms.append(_draw_histogram(title, values[np.isfinite(values)]))
    if maps:
        yield Section(title=say("Maps"), words=(say("Cells where nobody can be are left blank."),), parts=tuple(maps))
    yield Section(title=say("How the cells differ"), parts=(*histograms, _summarise(columns)))


def _read_shape(directory: Path | None) -> tuple[tuple[int, int] | None, float]:
    """Rows and columns of the map and the height of a cell over its width; None for a map without a grid."""
    if directory is None:
        return None, 1.0
    places = load_artefact(directory).mechanism.places
    grid = places.grid if isinstance(places, ElasticGrid) else places
    if not isinstance(grid, PlaneGrid):
        return None, 1.0
    return grid.shape, float(grid.cell_height_metres) / float(grid.cell_width_metres)


def _draw_map(title: str, words: str, values: Reals, stretch: float) -> Picture:
    """Draw a map; numbers of very different size are coloured by their ratios."""
    known = values[np.isfinite(values)]
    is_log = bool(known.size) and known.min() > 0 and known.max() > LARGE_RATIO * known.min()
    caption = f"{words} ({say('colours by ratio')})" if is_log else words
    return Picture(
        title=title, drawing=draw_heat_map(values, title=title, stretch=stretch, is_log=is_log), words=caption
    )


def _draw_histogram(title: str, values: Reals) -> Picture:
    """Draw how many cells have a value of each size."""
    counts, edges = np.histogram(values, bins=BINS)
    labels = tuple(write_number(float(edge)) for edge in edges[:-1])
    marginal = Marginal(name=title, labels=labels, published=counts.astype(np.float64), is_ordered=True)
    return Picture(title=title, drawing=draw_columns(marginal), words=say("cells by value"))


def _summarise(columns: Mapping[str, FrameColumn]) -> Listing:
    rows = []
    for name, (title, _) in _describe_measures().items():
        values = read_numbers(columns[name])
        values = values[np.isfinite(values)]
        figures = (values.min(), np.median(values), values.mean(), values.max())
        rows.append((title, *(write_number(float(figure)) for figure in figures)))
    head = (say("measure"), say("least"), say("median"), say("mean"), say("most"))
    return Listing(title=say("over all cells"), head=head, rows=rows)
