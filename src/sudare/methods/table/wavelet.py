"""The wavelet of the paper on tables of any size: algorithm 2, noise and refinement at once, from the root down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.mechanisms import Rng, geometric_noise
from sudare.methods.table.haar import check_total, check_wavelet_schema, fair_coins, halve, rows_of, wavelet_scale
from sudare.methods.table.morton import CellOrder, Order, sorted_paths
from sudare.methods.table.wavelet_drift import Drifts
from sudare.privacy import Neighbours
from sudare.schema import Schema

Numbers = NDArray[np.int64]


def wavelet(
    counts: Counts, *, epsilon: Fraction, neighbours: Neighbours, total: int, order: Order = "morton", rng: Rng
) -> Counts:
    """Publish a table by noisy halvings: whole numbers, never negative, adding up to `total` exactly.

    D* = left - right + Z at every node, P[Z = z] proportional to e^(-|z|/scale), scale = 2k/epsilon (replace-one) or
    k/epsilon (add/remove) for k halvings. The halves of a published sum S are (S + D)/2 and (S - D)/2 with D = D*
    clamped to [-S, S]. A node with S = 0 is never opened, so work and memory follow the published cells.

    `total` is the number of rows where that is public, or what was measured of it with an epsilon of its own.

    Guarantee: epsilon-DP for what is drawn here; a measured total adds its own. Proof: proofs/wavelet.md
    Error: a block of 2^l of 2^k cells has variance (2 scale^2/3)(1 - 4^(l-k)) unless a clamp lowers it; clamping lifts
    empty cells and lowers large ones (`halving_bias`).
    Source: Terada et al., the paper on large sparse tables, algorithm 2 (i - 1 for its i + 1, level k clamped too)

    >>> from sudare.mechanisms import SeededRng
    >>> from sudare.schema import Attribute, NumberBins, Schema
    >>> cells = Attribute(name="cell", domain=NumberBins.of_width(0, 1024, 1))
    >>> counts = Counts.from_columns(Schema(name="line", attributes=(cells,)), [[7]] * 500)
    >>> wavelet(counts, epsilon=Fraction(1), neighbours="replace", total=500, rng=SeededRng(1)).total
    500
    """
    check_wavelet_schema(counts.schema)
    cells = CellOrder(schema=counts.schema, order=order)
    scale = wavelet_scale(cells.levels, epsilon=epsilon, neighbours=neighbours, rows=rows_of(counts.schema))
    return descend(counts, cells, total=total, scale=scale, rng=rng)


def descend(counts: Counts, cells: CellOrder, *, total: int, scale: Fraction, rng: Rng) -> Counts:
    """Halve from the root down with noise of a given scale: the paper's own 2(1 + k)/epsilon, or ours."""
    truth = Truth.of(counts, cells)
    nodes = Nodes.root(cells, cells_stored=counts.nonzero, total=check_total(total))
    return finish(counts.schema, nodes, truth, 0, scale=scale, rng=rng)


def finish(schema: Schema, nodes: Nodes, truth: Truth, first: int, *, scale: Fraction, rng: Rng) -> Counts:
    """Open nodes of level `first` down to the cells, and make the table of what they got."""
    cells = truth.cells
    drifts = Drifts(cells=cells, scale=scale)
    for level in range(first, cells.levels):
        if len(nodes.sums):
            middles, differences = measure(nodes, truth, level, scale=scale, rng=rng)
            opened = split_nodes(nodes, middles, differences, cells, level, rng=rng)
            nodes, truth = _forget_closed(_hand_over(opened, drifts, level + 1, rng=rng), truth)
        drifts.split(level, rng=rng)
    found = [(nodes.sums, nodes.paths), *drifts.arrived()]
    sums, paths = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = sorted_paths(paths) if cells.order == "radix" else None  # then codes are sorted, and need not be merged
    if order is not None:
        sums, paths = sums[order], paths[order]
    return Counts.build(schema, cells.codes(paths), sums)


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The stored cells in the order of their paths, and how many rows lie before each."""

    cells: CellOrder
    paths: Numbers
    values: Numbers
    before: Numbers

    @classmethod
    def of(cls, counts: Counts, cells: CellOrder) -> Truth:
        """Sort the stored cells of a table by their paths."""
        paths, values = cells.paths(counts.codes), counts.values
        order = sorted_paths(paths)
        if order is not None:
            paths, values = paths[order], values[order]
        return cls.in_order(cells, paths, values)

    @classmethod
    def in_order(cls, cells: CellOrder, paths: Numbers, values: Numbers) -> Truth:
        """Hold cells that are sorted already."""
        return cls(cells=cells, paths=paths, values=values, before=np.concatenate([[0], np.cumsum(values)]))

    def middles(self, lows: Numbers, highs: Numbers, level: int) -> Numbers:
        """Find where the right half of each run of stored cells starts: the ones of a bit come after its zeros."""
        ones = np.concatenate([[0], np.cumsum(self.cells.bits(self.paths, level))])
        middles: Numbers = highs - (ones[highs] - ones[lows])
        return middles


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Open nodes of one level in the order of their paths; `lows` and `highs` bound their run of stored cells.

    Bit a of `edges` says that the node ends with the last value of axis a, so that its right half may hold no cell.
    """

    sums: Numbers
    lows: Numbers
    highs: Numbers
    paths: Numbers
    edges: Numbers

    def select(self, chosen: NDArray[np.bool_]) -> Nodes:
        """Keep some nodes."""
        return Nodes(**{name: getattr(self, name)[chosen] for name in ("sums", "lows", "highs", "paths", "edges")})

    @classmethod
    def root(cls, cells: CellOrder, *, cells_stored: int, total: int) -> Nodes:
        """Start with everything in one node, or with none if there is nobody."""
        axes = (1 << min(len(cells.sizes), 62)) - 1
        one = np.ones(1 if total else 0, dtype=np.int64)
        paths = np.zeros((len(one), cells.words), dtype=np.int64)
        return cls(sums=total * one, lows=0 * one, highs=cells_stored * one, paths=paths, edges=axes * one)


def measure(nodes: Nodes, truth: Truth, level: int, *, scale: Fraction, rng: Rng) -> tuple[Numbers, Numbers]:
    """Give where the right halves of the nodes start among the stored cells, and the noisy differences D*."""
    middles = truth.middles(nodes.lows, nodes.highs, level)
    before = truth.before
    differences = 2 * before[middles] - before[nodes.lows] - before[nodes.highs]
    differences += geometric_noise(len(differences), scale=scale, rng=rng)
    return middles, differences


def split_nodes(
    nodes: Nodes,
    middles: Numbers,
    differences: Numbers,
    cells: CellOrder,
    level: int,
    *,
    rng: Rng,
    keep_empty: bool = False,
) -> Nodes:
    """Replace every node by its halves; those that got nobody are left out, unless all are asked for."""
    left = halve(nodes.sums, differences, fair_coins(len(differences), rng))
    edges = _close_outside(nodes, left, cells, level)
    sums = np.column_stack([left, nodes.sums - left]).ravel()
    kept = np.arange(len(sums)) if keep_empty else np.flatnonzero(sums)
    parents, is_right = kept >> 1, kept & 1
    paths = nodes.paths[parents]
    word, shift = cells.place(level)
    paths[:, word] |= is_right << shift
    return Nodes(
        sums=sums[kept],
        lows=np.where(is_right, middles[parents], nodes.lows[parents]),
        highs=np.where(is_right, nodes.highs[parents], middles[parents]),
        paths=paths,
        edges=edges[parents] if cells.is_full else np.where(is_right, nodes.edges[parents], edges[parents]),
    )


def _hand_over(nodes: Nodes, drifts: Drifts, level: int, *, rng: Rng) -> Nodes:
    """Let small sums drift that lie in nodes empty in truth, all of whose places are cells."""
    free = np.flatnonzero((nodes.lows == nodes.highs) & (drifts.cells.is_full | (nodes.edges == 0)))
    small = drifts.takes(nodes.sums[free], level=level)
    if small is None:
        return nodes
    taken = free[small]
    drifts.add(nodes.sums[taken], nodes.paths[taken], level=level, rng=rng)
    stays = np.ones(len(nodes.sums), dtype=np.bool_)
    stays[taken] = False
    return nodes.select(stays)


def _forget_closed(nodes: Nodes, truth: Truth) -> tuple[Nodes, Truth]:
    """Drop stored cells of closed nodes once they are the most, so that a level costs its open nodes."""
    lengths = nodes.highs - nodes.lows
    if 2 * int(lengths.sum()) > len(truth.values):
        return nodes, truth
    held = np.flatnonzero(lengths)
    marks = np.zeros(len(truth.values) + 1, dtype=np.int64)
    marks[nodes.lows[held]] += 1
    marks[nodes.highs[held]] -= 1  # runs are disjoint and in order: one may start where another ends
    kept = np.cumsum(marks)[:-1] > 0
    highs = np.cumsum(lengths)
    fewer = Truth.in_order(truth.cells, truth.paths[kept], truth.values[kept])
    return replace(nodes, lows=highs - lengths, highs=highs), fewer


def _close_outside(nodes: Nodes, left: Numbers, cells: CellOrder, level: int) -> Numbers:
    """Give everything to the left where the right half holds no cell; return the edges of the left halves."""
    if cells.is_full:
        return nodes.edges
    mark = np.int64(1 << cells.plan[level][0])
    if cells.last_bit(level):
        return nodes.edges & ~mark  # the left half ends before the last value
    at_edge = (nodes.edges & mark) != 0
    left[at_edge] = nodes.sums[at_edge]
    return nodes.edges
