"""The page of a location mechanism: maps of what a report tells and how far it is; all of it facts of the map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sudare.methods.location.device_file import load_device_file
from sudare.methods.location.grid import ElasticGrid, PlaneGrid
from sudare.releases import Release
from sudare.releases.certificate import write_chance
from sudare.releases.columns import FrameColumn, find_frame, read_numbers
from sudare.report.shapes import Listing, Marginal, Picture, ReportPage, Section, write_number
from sudare.report.svg import draw_columns, draw_heat_map
from sudare.schema.arrays import Reals
from sudare.text import Text, Words, text

BINS = 24  # of the histogram of a measure over the cells
LARGE_RATIO = 1000  # of the largest to the smallest number: beyond, equal differences of colour would show nothing


def describe_page(release: Release, *, title: Text, directory: Path | None) -> ReportPage:
    """Describe a mechanism cell by cell; maps are drawn if the device file can be read (`directory`)."""
    columns, certificate = find_frame(release, "weights").columns, release.certificate
    reportable = int((read_numbers(columns["weight"]) > 0).sum())
    return ReportPage(
        kind=title,
        facts=[
            (text("promised epsilon per metre"), str(certificate.parameters.get("epsilon_per_metre", ""))),
            (text("cells that can be reported"), write_number(reportable)),
            (text("expected distance"), f"{certificate.measures.get('expected_distance_metres', 0.0):,.0f} m"),
            (text("largest posterior"), f"{certificate.measures.get('posterior_max', 0.0):.1%}"),
            *_describe_months(certificate.measures),
        ],
        sections=_describe_sections(columns, directory),
    )


def _describe_months(measures: Mapping[str, Any]) -> list[tuple[Words, Words]]:
    """Tell the chance that a home is found; a release of the first version did not know it."""
    if "home_found_30_days" not in measures:
        return []
    chances = [write_chance(measures[f"home_found_{days}_days"]) for days in (1, 30, 365)]
    return [(text("home cell found after 1, 30 and 365 days of reports"), " / ".join(chances))]


def _describe_measures() -> dict[str, tuple[Text, Text]]:
    """Title and meaning of each column that is drawn."""
    return {
        "posterior": (
            text("chance that the reported cell is the true one"),
            text("how sure somebody who sees a report can be"),
        ),
        "expected_distance_metres": (
            text("expected distance of a report, in metres"),
            text("how much accuracy a report gives up"),
        ),
        "report_true": (text("chance that the true cell is reported"), text("high where few other cells are near")),
        "weight": (text("weight of a cell"), text("cells of weight 0 are never reported")),
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
        yield Section(title=text("Maps"), words=(text("Cells where nobody can be are left blank."),), parts=tuple(maps))
    yield Section(title=text("How the cells differ"), parts=(*histograms, _summarise(columns)))


def _read_shape(directory: Path | None) -> tuple[tuple[int, int] | None, float]:
    """Rows and columns of the map and the height of a cell over its width; None for a map without a grid."""
    if directory is None:
        return None, 1.0
    places = load_device_file(directory).mechanism.places
    grid = places.grid if isinstance(places, ElasticGrid) else places
    if not isinstance(grid, PlaneGrid):
        return None, 1.0
    return grid.shape, float(grid.cell_height_metres) / float(grid.cell_width_metres)


def _draw_map(title: Text, words: Text, values: Reals, stretch: float) -> Picture:
    """Draw a map; numbers of very different size are coloured by their ratios."""
    known = values[np.isfinite(values)]
    is_log = bool(known.size) and known.min() > 0 and known.max() > LARGE_RATIO * known.min()
    caption = text("{words} (colours by ratio)", words=words) if is_log else words
    draw = partial(draw_heat_map, values, title=title, stretch=stretch, is_log=is_log)
    return Picture(title=title, draw=draw, words=caption)


def _draw_histogram(title: Text, values: Reals) -> Picture:
    """Draw how many cells have a value of each size."""
    counts, edges = np.histogram(values, bins=BINS)
    labels = tuple(write_number(float(edge)) for edge in edges[:-1])
    marginal = Marginal(name=title, labels=labels, published=counts.astype(np.float64), is_ordered=True)
    return Picture(title=title, draw=partial(draw_columns, marginal), words=text("cells by value"))


def _summarise(columns: Mapping[str, FrameColumn]) -> Listing:
    rows: list[tuple[Words, ...]] = []
    for name, (title, _) in _describe_measures().items():
        values = read_numbers(columns[name])
        values = values[np.isfinite(values)]
        figures = (values.min(), np.median(values), values.mean(), values.max())
        rows.append((title, *(write_number(float(figure)) for figure in figures)))
    head = (text("measure"), text("smallest"), text("median"), text("mean"), text("largest"))
    return Listing(title=text("over all cells"), head=head, rows=rows)
