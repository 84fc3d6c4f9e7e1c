"""The wavelet in several dimensions at once, for small tables: the standard decomposition.

Every attribute is transformed along its own axis, so a coefficient is a difference of differences, one for each node of
each axis (or the sum over the axis). One row changes (1 + k_1)(1 + k_2)... coefficients by 1.

The paper says that the refinement carries over and not how. Here the sums over the first axis are made first, a table
over the other axes. Then every node of the first axis, from the root down, gives a part of its table to its left half:
the noisy coefficients say which, and that part is again made by its sums first, never less than nothing and never more
than the node has. In one dimension this is the refinement of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.table.haar import check_total, check_wavelet_schema, halve, rows_of, wavelet_scale
from sudare.methods.table.morton import CellOrder, Order
from sudare.methods.table.wavelet import Nodes, StoredCells, finish, measure, split_nodes
from sudare.noise import GeometricNoise, Rng, geometric_noise
from sudare.noise.uniform import draw_coins
from sudare.privacy import Neighbours
from sudare.privacy.differential import check_neighbours
from sudare.schema.arrays import Integers, Reals

MOST_PLACES = 2**22


def standard_sensitivity(sizes: tuple[int, ...], *, neighbours: Neighbours, rows: int = 1) -> int:
    """Bound the L1 change of all coefficients but the total (proofs/wavelet.md).

    >>> standard_sensitivity((4, 8), neighbours="replace")
    22
    """
    check_neighbours(neighbours)
    touched = math.prod(1 + (size - 1).bit_length() for size in sizes) - 1
    return max(1, touched) * rows * (2 if neighbours == "replace" else 1)


def standard_wavelet(counts: Counts, *, epsilon: Fraction, neighbours: Neighbours, total: int, rng: Rng) -> Counts:
    """Publish a small table by the standard decomposition: whole numbers, never negative, adding up to `total`.

    Guarantee: epsilon-DP, with a total that is public or has an epsilon of its own. Proof: proofs/wavelet.md
    Error: noise of scale 2(prod(1 + k_i) - 1)/epsilon (replace-one) in every coefficient.
    Source: Xiao, Wang, Gehrke 2010 (transform); Terada et al. (refinement, in the reading told above)

    >>> from sudare.noise import SeededRng
    >>> from sudare.schema import Attribute, NumberBins, Schema
    >>> sides = [Attribute(name=name, domain=NumberBins.of_width(0, 6, 1)) for name in ("row", "column")]
    >>> counts = Counts.from_columns(Schema(name="square", attributes=tuple(sides)), [[3, 4]] * 500)
    >>> standard_wavelet(counts, epsilon=Fraction(1), neighbours="replace", total=500, rng=SeededRng(1)).total
    500
    """
    check_wavelet_schema(counts.schema)
    sizes = counts.schema.sizes
    shape = tuple(1 << (size - 1).bit_length() for size in sizes)
    if math.prod(shape) > MOST_PLACES:
        raise ParameterError("the standard decomposition takes at most {most} places; use morton", most=MOST_PLACES)
    sensitivity = standard_sensitivity(sizes, neighbours=neighbours, rows=rows_of(counts.schema))
    table = np.zeros(shape, dtype=np.int64)
    table[tuple(slice(size) for size in sizes)] = counts.dense().reshape(sizes)
    for axis in range(len(shape)):
        table = haar(table, axis)
    noisy = (table + geometric_noise(table.size, scale=sensitivity / epsilon, rng=rng).reshape(shape)).astype(
        np.float64
    )
    total = check_total(total)
    noisy[(0,) * len(shape)] = total
    most = np.zeros(shape, dtype=np.int64)
    most[tuple(slice(size) for size in sizes)] = total  # places without a cell hold nobody
    published = _fitted(noisy[None], np.zeros_like(most)[None], most[None], total, rng)[0]
    values = published[tuple(slice(size) for size in sizes)].ravel()
    kept = np.flatnonzero(values)
    return Counts.build(counts.schema, counts.schema.radix.from_ranks(kept.tolist()), values[kept])


def haar(values: Integers, axis: int) -> Integers:
    """Transform along one axis: the sum, then the differences left - right from the root down.

    >>> haar(np.array([5, 1, 0, 2]), 0).tolist()
    [8, 4, 4, -2]
    """
    values = np.moveaxis(values, axis, 0)
    levels = []
    while len(values) > 1:
        left, right = values[0::2], values[1::2]
        levels.append(left - right)
        values = left + right
    return np.moveaxis(np.concatenate([values, *levels[::-1]]), 0, axis)


def _fitted(noisy: Reals, least: Integers, most: Integers, total: int, rng: Rng) -> Integers:
    """Make tables near noisy coefficients, cell by cell between `least` and `most`; the first axis counts the tables.

    The sums over the next axis come first, from their own coefficients; then its nodes are halved from the root down.
    """
    if noisy.ndim == 1:
        return np.clip(_rounded(noisy, rng), least, most)
    leasts, mosts = (_sums_of_nodes(bound, total) for bound in (least, most))
    nodes = _fitted(noisy[:, 0], leasts[0][:, 0], mosts[0][:, 0], total, rng)[:, None]
    for low, high in zip(leasts[1:], mosts[1:], strict=True):
        width = nodes.shape[1]
        known = nodes
        for axis in range(2, nodes.ndim):
            known = haar(known, axis)
        wanted = (known + noisy[:, width : 2 * width]) / 2
        floor = np.maximum(low[:, 0::2], nodes - high[:, 1::2])
        ceiling = np.minimum(high[:, 0::2], nodes - low[:, 1::2])
        flat = (-1, *nodes.shape[2:])
        left = _fitted(wanted.reshape(flat), floor.reshape(flat), ceiling.reshape(flat), total, rng)
        left = left.reshape(nodes.shape)
        nodes = np.stack([left, nodes - left], axis=2).reshape(nodes.shape[0], 2 * width, *nodes.shape[2:])
    return nodes


def _sums_of_nodes(bound: Integers, total: int) -> list[Integers]:
    """Bounds of all nodes of the second array axis, from the root down; a sum beyond the total is no bound."""
    found = [bound]
    while found[-1].shape[1] > 1:
        found.append(np.minimum(found[-1][:, 0::2] + found[-1][:, 1::2], total))
    return found[::-1]


def _rounded(values: Reals, rng: Rng) -> Integers:
    """Round to whole numbers; a fair coin decides exact halves."""
    down = np.floor(values)
    coins = draw_coins(values.size, rng=rng).reshape(values.shape)
    return np.where(values - down == 0.5, down + coins, np.rint(values)).astype(np.int64)


# The wavelet of the paper on tables small enough to visit: algorithm 1, noise everywhere, then refinement.


MOST_HALVINGS = 24  # 2**24 places; beyond, the sparse form is the one to use


def wavelet_dense(
    counts: Counts, *, epsilon: Fraction, neighbours: Neighbours, total: int, order: Order = "morton", rng: Rng
) -> Counts:
    """Publish a table by algorithm 1: the same law as `wavelet`, every coefficient drawn.

    Guarantee, Error: those of `wavelet`. Proof: proofs/wavelet.md
    Source: Terada et al., the paper on large sparse tables, algorithm 1 (its step 2 for level k too)

    >>> from sudare.noise import SeededRng
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


def transform(values: Integers) -> list[Integers]:
    """Give the differences left - right of all nodes, level by level from the root down.

    >>> [level.tolist() for level in transform(np.array([5, 1, 0, 2]))]
    [[4], [4, -2]]
    """
    differences: list[Integers] = []
    while len(values) > 1:
        left, right = values[0::2], values[1::2]
        differences.append(left - right)
        values = left + right
    return differences[::-1]


def _placed(counts: Counts, cells: CellOrder) -> Integers:
    values = np.zeros(2**cells.levels, dtype=np.int64)
    values[cells.ranks(counts.codes)] = counts.values
    return values


def _refined(noisy: list[Integers], is_cell: Integers, total: int, rng: Rng) -> Integers:
    """Top-down refinement: clamp, halve, and give nothing to a half without cells."""
    sums = np.array([total], dtype=np.int64)
    for differences in noisy:
        left = halve(sums, differences, draw_coins(len(sums), rng=rng))
        held = is_cell.reshape(len(sums), 2, -1).sum(axis=2)
        left = np.where(held[:, 1] > 0, left, sums)  # only right halves can be without cells
        sums = np.column_stack([left, sums - left]).ravel()
    return sums


# Sums over large blocks as they were measured, beside the table: without clamps, so without bias.
#
# Clamping lifts empty regions and lowers full ones. The noisy differences of the upper levels also give sums that
# were never clamped: U = n at the root, (U + D*)/2 and (U - D*)/2 below. They may be negative and are no whole
# numbers, but they are right in the mean. They come from the same draws as the table, so they cost nothing more.


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

    >>> from sudare.noise import SeededRng
    >>> from sudare.testing.subject import schema_of
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
    truth, total = StoredCells.of(counts, cells), check_total(total)
    nodes = Nodes.root(cells, cells_stored=counts.nonzero, total=max(total, 1))
    nodes.sums[:] = total
    raw, holds_cells, found = nodes.sums.astype(np.float64), np.ones(1, dtype=np.bool_), []
    for level in range(levels):
        middles, differences = measure(nodes, truth, level, noise=GeometricNoise(scale=scale), rng=rng)
        right_holds = holds_cells & ~_has_no_right(nodes, cells, level)
        nodes = split_nodes(nodes, middles, differences, cells, level, rng=rng, keep_empty=True)
        left = np.where(right_holds, (raw + differences) / 2, raw)
        raw = np.column_stack([left, raw - left]).ravel()
        holds_cells = np.column_stack([holds_cells, right_holds]).ravel()
        found.append(BlockSums(halvings=level + 1, published=nodes.sums.copy(), unclamped=raw))
    table = finish(
        counts.schema, nodes.select(nodes.sums > 0), truth, levels, noise=GeometricNoise(scale=scale), rng=rng
    )
    return table, found


def _has_no_right(nodes: Nodes, cells: CellOrder, level: int) -> NDArray[np.bool_]:
    """Tell which nodes that hold a cell hold none in their right half: a public fact."""
    if cells.is_full or cells.last_bit(level):
        return np.zeros(len(nodes.sums), dtype=np.bool_)
    at_edge: NDArray[np.bool_] = (nodes.edges & np.int64(1 << cells.plan[level][0])) != 0
    return at_edge
