"""Answers on a map: cells of a mesh where they lie, or two grouped attributes as rows and columns of tiles.

A tile is shaded by the class of its figure and hatched where its range is wider than half of it. The table below has
the same figures in words.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sudare.asking.answers import AnswerTable, Estimate
from sudare.report.maps import measure_aspect
from sudare.schema import Attribute, MeshCells, Schema

CLASSES = 6  # shades, the first for what is not above zero
MOST_TILES = 10_000
LEAST_TILES = 4
WIDTH = 720.0  # units of the picture
TALLEST = 520.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """One cell of the picture."""

    x: float
    y: float
    shade: int
    is_wide: bool
    words: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TileMap:
    """A picture of an answer: its tiles, its legend, and the names of its axes where it is no mesh."""

    name: str
    width: float
    height: float
    side: float
    tall: float
    tiles: Sequence[Tile]
    legend: Sequence[str]
    axes: tuple[str, str] | None


def draw_tiles(answer: AnswerTable, schema: Schema) -> TileMap | None:
    """Draw an answer whose rows have places; None for one that has none, too few or too many."""
    figure = next((place for place in range(len(answer.columns)) if answer.is_estimated(place)), None)
    grouped = [place for place, name in enumerate(answer.columns) if place != figure and name in schema.names]
    if figure is None or not LEAST_TILES <= len(answer.rows) <= MOST_TILES:
        return None
    attributes = [schema.attribute(answer.columns[place]) for place in grouped]
    found = _find_places(answer, grouped, attributes)
    if found is None:
        return None
    columns, rows, ratio = found
    cells = [row[figure] for row in answer.rows]
    estimates = [cell if isinstance(cell, Estimate) else None for cell in cells]
    bounds = _choose_bounds([cell.value for cell in estimates if cell is not None and math.isfinite(cell.value)])
    across, up = int(columns.max()) + 1, int(rows.max()) + 1
    side = min(WIDTH / across, TALLEST / (up * ratio))
    tall = side * ratio
    labels = ["・".join(str(row[place]) for place in grouped) for row in answer.rows]
    tiles = [
        _make_tile(label, cell, bounds, x=column * side, y=(up - 1 - row) * tall)
        for label, cell, column, row in zip(labels, estimates, columns.tolist(), rows.tolist(), strict=True)
        if cell is not None
    ]
    return TileMap(
        name=answer.columns[figure],
        width=round(across * side, 2),
        height=round(up * tall, 2),
        side=round(side, 3),
        tall=round(tall, 3),
        tiles=tiles,
        legend=_write_legend(bounds),
        axes=None if len(grouped) == 1 else (attributes[0].name, attributes[1].name),
    )


def _find_places(
    answer: AnswerTable, grouped: Sequence[int], attributes: Sequence[Attribute]
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """The column and the row of every tile from the south-west corner, and how tall a tile is for its width."""
    if len(grouped) == 1 and isinstance(attributes[0].domain, MeshCells):
        mesh = attributes[0].domain
        labels = [row[grouped[0]] for row in answer.rows]
        if not all(isinstance(label, str) and label.isdecimal() for label in labels):
            return None  # the cell of missing places lies nowhere
        codes = np.array([mesh.code(str(label)) for label in labels], dtype=np.int64)
        rows, columns = mesh.grid(codes)
        return columns - columns.min(), rows - rows.min(), 1 / measure_aspect(mesh)
    if len(grouped) != 2:
        return None
    places = []
    for place, attribute in zip(grouped, attributes, strict=True):
        order = {str(label): number for number, label in enumerate(attribute.labels(np.arange(attribute.size)))}
        found = [order.get(str(row[place])) for row in answer.rows]
        if None in found:
            return None
        numbers = np.array(found, dtype=np.int64)
        places.append(numbers - numbers.min())
    return places[0], places[1], 1.0


def _choose_bounds(values: Sequence[float]) -> list[float]:
    """The lower ends of the classes above zero: round numbers near the quantiles of what is above zero."""
    positive = np.array([value for value in values if value > 0])
    if not len(positive):
        return []
    wanted = np.quantile(positive, np.linspace(0, 1, CLASSES)[:-1])
    return sorted({_round_down(float(value)) for value in wanted})


def _round_down(value: float) -> float:
    """Round to two digits, downwards.

    >>> _round_down(1234.0), _round_down(7.0), _round_down(0.0456)
    (1200.0, 7.0, 0.045)
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / unit * (1 + 1e-12)) * unit:.12g}")


def _make_tile(label: str, cell: Estimate, bounds: Sequence[float], *, x: float, y: float) -> Tile:
    shade = int(np.searchsorted(bounds, cell.value, side="right")) if cell.value > 0 else 0
    is_wide = not cell.has_interval or cell.high - cell.low > abs(cell.value) / 2
    return Tile(x=round(x, 2), y=round(y, 2), shade=shade, is_wide=is_wide, words=f"{label}: {cell}")


def _write_legend(bounds: Sequence[float]) -> list[str]:
    """The words of each shade, from none to the most."""
    shown = [f"{bound:,.12g}" for bound in bounds]
    ends = [
        *(f"{low} – {high}" for low, high in itertools.pairwise(shown)),
        *(f"{low} –" for low in shown[-1:]),
    ]
    return ["≤ 0", *ends] if not bounds or bounds[0] > 0 else ends
