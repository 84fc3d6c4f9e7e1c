"""The wavelet of the paper on tables small enough to visit: algorithm 1, noise everywhere, then refinement."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng, geometric_noise
from sudare.methods.table.haar import check_total, check_wavelet_schema, fair_coins, halve, rows_of, wavelet_scale
from sudare.methods.table.morton import CellOrder, Order
from sudare.privacy import Neighbours

Numbers = NDArray[np.int64]

MOST_HALVINGS = 24  # 2**24 places; beyond, the sparse form is the one to use


def wavelet_dense(
    counts: Counts, *, epsilon: Fraction, neighbours: Neighbours, total: int, order: Order = "morton", rng: Rng
) -> Counts:
    """Publish a table by algorithm 1: the same law as `wavelet`, every coefficient drawn.

    Guarantee, Error: those of `wavelet`. Proof: proofs/wavelet.md
    Source: Terada et al., the paper on large sparse tables, algorithm 1 (its step 2 for level k too)

    >>> from sudare.mechanisms import SeededRng
    >>> from sudare.schema import Attribute, NumberBins, Schema
    >>> cells = Attribute(name="cell", domain=NumberBins.of_width(0, 100, 1))
    >>> counts = Counts.from_columns(Schema(name="line", attributes=(cells,)), [[7]] * 500)
    >>> wavelet_dense(counts, epsilon=Fraction(1), neighbours="replace", total=500, rng=SeededRng(1)).total
    500
    """
    check_wavelet_schema(counts.schema)
    cells = CellOrder(schema=counts.schema, order=order)
    scale = wavelet_scale(cells.levels, epsilon=epsilon, neighbours=neighbours, rows=rows_of(counts.schema))
    return refine(counts, cells, total=total, scale=scale, rng=rng)


def refine(counts: Counts, cells: CellOrder, *, total: int, scale: Fraction, rng: Rng) -> Counts:
    """Transform, add noise to all differences, refine from the root down."""
    if cells.levels > MOST_HALVINGS:
        raise ParameterError(
            "the dense wavelet takes at most {most} halvings, not {levels}; use the sparse one",
            most=MOST_HALVINGS,
            levels=cells.levels,
        )
    every = counts.schema.radix.from_ranks(range(counts.schema.size))
    places = cells.ranks(every)
    is_cell = np.zeros(2**cells.levels, dtype=np.int64)
    is_cell[places] = 1
    noisy = [level + geometric_noise(len(level), scale=scale, rng=rng) for level in transform(_placed(counts, cells))]
    published = _refined(noisy, is_cell, check_total(total), rng)
    values = published[places]
    kept = np.flatnonzero(values)
    return Counts.build(counts.schema, every[kept], values[kept])


def transform(values: Numbers) -> list[Numbers]:
    """Give the differences left - right of all nodes, level by level from the root down.

    >>> [level.tolist() for level in transform(np.array([5, 1, 0, 2]))]
    [[4], [4, -2]]
    """
    differences: list[Numbers] = []
    while len(values) > 1:
        left, right = values[0::2], values[1::2]
        differences.append(left - right)
        values = left + right
    return differences[::-1]


def _placed(counts: Counts, cells: CellOrder) -> Numbers:
    values = np.zeros(2**cells.levels, dtype=np.int64)
    values[cells.ranks(counts.codes)] = counts.values
    return values


def _refined(noisy: list[Numbers], is_cell: Numbers, total: int, rng: Rng) -> Numbers:
    """Top-down refinement: clamp, halve, and give nothing to a half without cells."""
    sums = np.array([total], dtype=np.int64)
    for differences in noisy:
        left = halve(sums, differences, fair_coins(len(sums), rng))
        held = is_cell.reshape(len(sums), 2, -1).sum(axis=2)
        left = np.where(held[:, 1] > 0, left, sums)  # only right halves can be without cells
        sums = np.column_stack([left, sums - left]).ravel()
    return sums
