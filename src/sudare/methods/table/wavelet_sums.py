"""Sums over large blocks as they were measured, beside the table: without clamps, so without bias.

Clamping lifts empty regions and lowers full ones. The noisy differences of the upper levels also give sums that were
never clamped: U = n at the root, (U + D*)/2 and (U - D*)/2 below. They may be negative and are no whole numbers, but
they are right in the mean. They come from the same draws as the table, so they cost nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng
from sudare.methods.table.haar import check_total, check_wavelet_schema, rows_of, wavelet_scale
from sudare.methods.table.morton import CellOrder, Order
from sudare.methods.table.wavelet import Nodes, Truth, finish, measure, split_nodes
from sudare.privacy import Neighbours

MOST_LEVELS = 20  # every block of a level is visited, empty ones too


@dataclass(frozen=True, kw_only=True)
class BlockSums:
    """All blocks of one level of halvings, in the order of the paths: as published, and without clamps."""

    halvings: int
    published: NDArray[np.int64]
    unclamped: NDArray[np.float64]


def wavelet_with_sums(
    counts: Counts,
    *,
    epsilon: Fraction,
    neighbours: Neighbours,
    total: int,
    levels: int,
    order: Order = "morton",
    rng: Rng,
) -> tuple[Counts, list[BlockSums]]:
    """Publish the table of `wavelet`, and the unclamped sums of the blocks of the first `levels` halvings.

    Guarantee: that of `wavelet`: the sums are functions of the same noisy differences. Proof: proofs/wavelet.md
    Error: unbiased, variance (2 scale^2/3)(1 - 4^(-level)) for a public total.

    >>> from sudare.mechanisms import SeededRng
    >>> from sudare.testing.tables import schema_of
    >>> counts = Counts.build(schema_of(8), [[1]], [90])
    >>> table, sums = wavelet_with_sums(
    ...     counts, epsilon=Fraction(1), neighbours="replace", total=90, levels=2, rng=SeededRng(1)
    ... )
    >>> table.total, [round(float(level.unclamped.sum()), 6) for level in sums]
    (90, [90.0, 90.0])
    """
    check_wavelet_schema(counts.schema)
    cells = CellOrder(schema=counts.schema, order=order)
    if not 0 <= levels <= min(cells.levels, MOST_LEVELS):
        raise ParameterError(
            "levels ({levels}) must be between 0 and {most}", levels=levels, most=min(cells.levels, MOST_LEVELS)
        )
    scale = wavelet_scale(cells.levels, epsilon=epsilon, neighbours=neighbours, rows=rows_of(counts.schema))
    truth, total = Truth.of(counts, cells), check_total(total)
    nodes = Nodes.root(cells, cells_stored=counts.nonzero, total=max(total, 1))
    nodes.sums[:] = total
    raw, holds_cells, found = nodes.sums.astype(np.float64), np.ones(1, dtype=np.bool_), []
    for level in range(levels):
        middles, differences = measure(nodes, truth, level, scale=scale, rng=rng)
        right_holds = holds_cells & ~_has_no_right(nodes, cells, level)
        nodes = split_nodes(nodes, middles, differences, cells, level, rng=rng, keep_empty=True)
        left = np.where(right_holds, (raw + differences) / 2, raw)
        raw = np.column_stack([left, raw - left]).ravel()
        holds_cells = np.column_stack([holds_cells, right_holds]).ravel()
        found.append(BlockSums(halvings=level + 1, published=nodes.sums.copy(), unclamped=raw))
    table = finish(counts.schema, nodes.select(nodes.sums > 0), truth, levels, scale=scale, rng=rng)
    return table, found


def _has_no_right(nodes: Nodes, cells: CellOrder, level: int) -> NDArray[np.bool_]:
    """Tell which nodes that hold a cell hold none in their right half: a public fact."""
    if cells.is_full or cells.last_bit(level):
        return np.zeros(len(nodes.sums), dtype=np.bool_)
    at_edge: NDArray[np.bool_] = (nodes.edges & np.int64(1 << cells.plan[level][0])) != 0
    return at_edge
