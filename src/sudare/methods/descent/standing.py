"""Cells that stand out of the noise of the whole table: they are published as measured, before the tree is opened."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts.sparse import exact_sum
from sudare.mechanisms import Rng
from sudare.methods.descent.empties import NO_LIMIT, Measured, reveal
from sudare.methods.descent.repairs import keep, thin_limits
from sudare.methods.descent.rows import Rows

Codes = NDArray[np.int64]

NOISE_SHARE = 0.002  # of all records that noise alone may set above the limit of the table, in the mean


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Standing:
    """All cells that hold people and the empty ones that stand out.

    `ranks` name them; `values` is what is left of each for the tree; `noisy` is its measured value. `is_out` marks
    those that stand out, `published` their counts; the others are measured as at most `limit`, and so is every cell
    that is not here. `left` records are left for the tree.
    """

    ranks: Codes
    values: Codes
    noisy: Codes
    is_out: NDArray[np.bool_]
    published: Codes
    limit: int | None
    left: int


def stand_out(rows: Rows, full: Measured, values: Codes, *, total: int, scale: Fraction, rng: Rng) -> Standing:
    """Find the cells above the limit of the whole table.

    `rows` is the one row of all cells, `full` are its noisy cells that hold people, `values` their exact counts. If the
    cells that stand out exceed the total, the nearest table of them is published.
    """
    totals = np.array([total], dtype=np.int64)
    limits = thin_limits(totals, rows.room.astype(np.float64), float(scale), noise_share=NOISE_SHARE)
    if int(limits[0]) == NO_LIMIT:
        return nothing_stands_out(rows, full, values, total=total)
    born = reveal(rows, full, totals=totals, limits=limits, scale=scale, rng=rng)
    known = full.join(born.take(born.values > limits[0]))  # what lies below is forgotten, and drawn again if need be
    kept = keep(rows, known, limits, totals, rng)
    is_out = known.values > limits[0]
    return Standing(
        ranks=rows.step.children(rows.nodes, known.children.rows, known.children.codes),
        values=np.where(is_out, 0, np.concatenate([values, np.zeros(is_out.size - values.size, np.int64)])),
        noisy=known.values,
        is_out=is_out,
        published=kept.values[is_out],
        limit=int(limits[0]),
        left=total - exact_sum(kept.values),
    )


def nothing_stands_out(rows: Rows, full: Measured, values: Codes, *, total: int) -> Standing:
    """Leave everything to the tree."""
    return Standing(
        ranks=rows.step.children(rows.nodes, full.children.rows, full.children.codes),
        values=values,
        noisy=full.values,
        is_out=np.zeros(values.size, dtype=bool),
        published=full.values[:0],
        limit=None,
        left=total,
    )
