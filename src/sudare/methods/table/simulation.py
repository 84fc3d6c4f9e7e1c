"""A made-up table of the same shape, published once: how much of what comes out will be noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng, SeededRng
from sudare.methods.descent.seen import Seen
from sudare.schema import Schema

Draw = Callable[[Counts, Rng], Counts]

MOST_ROWS = 10**12
CELLS = 20_000  # filled cells of the made-up table, at most
CENTRES = 50
SPREAD = 64  # a cluster is about so small a part of every attribute


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What came out of one made-up table of `rows` records, clustered and long-tailed."""

    rows: int
    filled_cells: int
    published_cells: int
    noise_cells: int
    noise_records: int
    bias_of_large: float  # mean error of the largest hundredth of the filled cells

    @property
    def noise_share(self) -> float:
        """Share of the published cells that hold nobody in truth."""
        return self.noise_cells / max(1, self.published_cells)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "rows": self.rows,
            "filled_cells": self.filled_cells,
            "published_cells": self.published_cells,
            "noise_cells": self.noise_cells,
            "noise_records": self.noise_records,
            "bias_of_large": round(self.bias_of_large, 1),
        }


def simulate(schema: Schema, rows: int, draw: Draw) -> Trial:
    """Publish a made-up table of so many records; nothing private is in it, and its noise is the same every time."""
    if not 1 <= rows <= MOST_ROWS:
        raise ParameterError("rows ({rows}) must be between 1 and {most}", rows=rows, most=MOST_ROWS)
    rng = SeededRng(1)
    made_up = made_up_table(schema, rows, rng)
    published = draw(made_up, rng)
    is_true = Seen(made_up.codes).holds(published.codes)
    large = np.argsort(-made_up.values)[: max(1, made_up.nonzero // 100)]
    kept = Counts.build(schema, made_up.codes[large], made_up.values[large])
    is_large = Seen(kept.codes).holds(published.codes)
    return Trial(
        rows=rows,
        filled_cells=made_up.nonzero,
        published_cells=published.nonzero,
        noise_cells=int((~is_true).sum()),
        noise_records=int(published.values[~is_true].sum()),
        bias_of_large=(int(published.values[is_large].sum()) - kept.total) / max(1, kept.nonzero),
    )


def made_up_table(schema: Schema, rows: int, rng: Rng) -> Counts:
    """Make a table of clusters whose cells hold 1/1, 1/2, 1/3, ... of the largest.

    >>> from sudare.schema import Attribute, NumberBins
    >>> line = Schema(name="line", attributes=(Attribute(name="x", domain=NumberBins.of_width(0, 1000, 1)),))
    >>> made_up_table(line, 5000, SeededRng(1)).total
    5000
    """
    size = max(1, min(CELLS, rows, schema.possible_size // 3))
    columns = []
    centre = rng.uniform_below(CENTRES, size)
    for each, width in zip(schema.attributes, _widths(schema, size), strict=True):
        around = rng.uniform_below(each.size, CENTRES)
        columns.append((around[centre] + rng.uniform_below(width, size)) % each.size)
    cells = np.column_stack(columns)
    cells = cells[~schema.is_impossible(cells)]
    if not len(cells):  # clusters fell on what cannot occur
        return Counts.build(schema, np.empty((0, len(schema.radix.words))), [])
    weights = 1 / np.arange(1.0, len(cells) + 1)
    values = np.floor(rows * weights / weights.sum()).astype(np.int64)
    values[0] += rows - int(values.sum())
    return Counts.from_columns(schema, cells, values)


def _widths(schema: Schema, size: int) -> list[int]:
    """Values of every attribute that a cluster spans: wider where clusters would have no room for so many cells."""
    spread = SPREAD
    widths = [max(1, each.size // spread) for each in schema.attributes]
    while spread > 1 and CENTRES * math.prod(widths) < 2 * size:
        spread //= 2
        widths = [max(1, each.size // spread) for each in schema.attributes]
    return widths
