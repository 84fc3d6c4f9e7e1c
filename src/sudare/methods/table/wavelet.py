"""People in nodes that are empty in truth, without a draw at every level.

A node that is empty in truth has D* = Z, so its sum S drifts left or right whole, with equal chances, until a noise
small against S splits it. How many levels that takes, and how it is split then, have laws of their own:

    G(l) = P[left half <= l] = (F(2l - S) + F(2l - S + 1))/2, l < S     F the distribution of Z, halves by fair coins
    P[drifts at least j levels] = (1 - p)^j,  p = G(S-1) - G(0)          p = 0 for a single person
    P[left half <= l | split] = (G(l) - G(0))/p,  0 < l < S

Both are drawn exactly by the table machine, and the bits of the drift are fair. So a node costs its splits, not its
levels, and the law of the table is the one of opening every level. Proof: proofs/wavelet.md
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import SchemaError
from sudare.methods.budget import CountBudget
from sudare.methods.table.haar import (
    check_total,
    check_wavelet_schema,
    halve,
    rows_of,
    wavelet_noise,
    wavelet_scale,
)
from sudare.methods.table.morton import WORD_BITS, CellOrder, Order, sorted_paths
from sudare.methods.table.possible_halves import PossibleHalves
from sudare.noise import CountNoise, GeometricNoise, Rng
from sudare.noise.enclosure import Enclosure, enclose
from sudare.noise.laws import Law
from sudare.noise.machine import TableMachine
from sudare.noise.uniform import draw_coins, draw_words
from sudare.privacy import Neighbours
from sudare.schema import Schema
from sudare.schema.arrays import Integers

LARGEST_DRIFT = 32  # larger sums split often, and each sum needs tables of its own
FEWEST_DRIFTS = 4096  # at once: below, opening level by level is cheaper than making the tables
TABLES_KEPT = 3 * LARGEST_DRIFT
ENCLOSURES_KEPT = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Staying:
    """How many levels a sum drifts before it splits, counted up to `most`."""

    noise: CountNoise
    people: int
    most: int

    @property
    def low(self) -> int:
        """None: it may split at once."""
        return 0

    @property
    def high(self) -> int:
        """All levels."""
        return self.most

    @property
    def log_ratio(self) -> None:
        """Nothing is promised: this number is a means to draw a table whose law is promised."""

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        """Bound 2**bits * P[X <= k] = 1 - (1 - p)^(k+1) by integers at most 2 apart."""
        return enclose(lambda more: 1 - (1 - _split(self.noise, self.people, more)) ** (k + 1), bits)


@dataclass(frozen=True, kw_only=True, slots=True)
class Splitting:
    """The left half of a sum that splits: 1 to people - 1."""

    noise: CountNoise
    people: int

    @property
    def low(self) -> int:
        """One."""
        return 1

    @property
    def high(self) -> int:
        """All but one."""
        return self.people - 1

    @property
    def log_ratio(self) -> None:
        """Nothing is promised: this number is a means to draw a table whose law is promised."""

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        """Bound 2**bits * P[left <= k | split] by integers at most 2 apart."""
        if 2 * k == self.people - 1:  # one half by symmetry; an enclosure of an integer would never decide
            return (1 << bits) // 2, (1 << bits) // 2
        return enclose(lambda more: self._below(k, more), bits)

    def _below(self, k: int, bits: int) -> Enclosure:
        first = _at_most(self.noise, self.people, 0, bits)
        return (_at_most(self.noise, self.people, k, bits) - first) / _split(self.noise, self.people, bits)


@functools.lru_cache(maxsize=ENCLOSURES_KEPT)
def _at_most(noise: CountNoise, people: int, left: int, bits: int) -> Enclosure:
    """Enclose G(left)."""
    law = noise.law
    lows, highs = zip(*(law.threshold(2 * left - people + step, bits) for step in (0, 1)), strict=True)
    return Enclosure(sum(lows) // 2, -(-sum(highs) // 2), bits)


@functools.lru_cache(maxsize=ENCLOSURES_KEPT)
def _split(noise: CountNoise, people: int, bits: int) -> Enclosure:
    """Enclose p."""
    return _at_most(noise, people, people - 1, bits) - _at_most(noise, people, 0, bits)


@functools.lru_cache(maxsize=TABLES_KEPT)
def _machine(law: Law) -> TableMachine:
    return TableMachine(law)


@dataclass(kw_only=True)
class Drifts:
    """Sums that drift through empty nodes: which level each splits at next, and those that reached a cell whole."""

    cells: CellOrder
    noise: CountNoise
    waiting: dict[int, list[tuple[Integers, Integers]]] = field(default_factory=dict)

    def takes(self, sums: Integers, *, level: int) -> NDArray[np.bool_] | None:
        """Tell which sums of nodes that are empty in truth are worth taking over; None if too few are."""
        small = sums <= LARGEST_DRIFT
        return small if level < self.cells.levels and int(small.sum()) >= FEWEST_DRIFTS else None

    def add(self, sums: Integers, paths: Integers, *, level: int, rng: Rng) -> None:
        """Take over nodes of a level; draw how far they drift, and where to."""
        levels = self.cells.levels
        wakes = np.minimum(level + self._stays(sums, rng), levels)
        paths = self._drifted(paths, level, wakes, rng)
        order = np.argsort(wakes.astype(np.uint16), kind="stable")  # short words are sorted digit by digit
        bounds = np.searchsorted(wakes[order], np.arange(level, levels + 2))
        for wake in range(level, levels + 1):
            chosen = order[bounds[wake - level] : bounds[wake - level + 1]]
            if len(chosen):
                self.waiting.setdefault(wake, []).append((sums[chosen], paths[chosen]))

    def split(self, level: int, *, rng: Rng) -> None:
        """Split the sums whose time has come; their parts drift on."""
        arrived = self.waiting.pop(level, [])
        if not arrived:
            return
        sums = np.concatenate([sums for sums, _ in arrived])
        paths = np.concatenate([paths for _, paths in arrived])
        left = self._parts(sums, rng)
        word, shift = self.cells.place(level)
        right_paths = paths.copy()
        right_paths[:, word] |= np.int64(1) << shift
        self.add(np.concatenate([left, sums - left]), np.concatenate([paths, right_paths]), level=level + 1, rng=rng)

    def arrived(self) -> list[tuple[Integers, Integers]]:
        """Give the sums that reached a cell, with their paths."""
        return self.waiting.pop(self.cells.levels, [])

    def _stays(self, sums: Integers, rng: Rng) -> Integers:
        levels = self.cells.levels
        stays = np.full(len(sums), levels, dtype=np.int64)
        for people, chosen in _groups(sums):
            if people > 1:
                law = Staying(noise=self.noise, people=people, most=levels)
                stays[chosen] = _machine(law).sample(len(chosen), rng)
        return stays

    def _parts(self, sums: Integers, rng: Rng) -> Integers:
        left = np.ones(len(sums), dtype=np.int64)
        for people, chosen in _groups(sums):
            if people > 2:
                left[chosen] = _machine(Splitting(noise=self.noise, people=people)).sample(len(chosen), rng)
        return left

    def _drifted(self, paths: Integers, level: int, wakes: Integers, rng: Rng) -> Integers:
        """Fill the levels from here to the waking with fair bits."""
        for word in range(level // WORD_BITS, paths.shape[1]):
            first = max(level - word * WORD_BITS, 0)
            last = np.clip(wakes - word * WORD_BITS, first, WORD_BITS)
            mask = (np.int64(1) << (WORD_BITS - first)) - (np.int64(1) << (WORD_BITS - last))
            bits = draw_words(len(paths), rng=rng)
            paths[:, word] |= bits & mask
        return paths


def _groups(sums: Integers) -> list[tuple[int, NDArray[np.intp]]]:
    """The places of every size of sum, sizes being small."""
    order = np.argsort(sums.astype(np.uint8), kind="stable")
    sizes = np.bincount(sums, minlength=1)
    ends = np.cumsum(sizes)
    return [(people, order[ends[people] - sizes[people] : ends[people]]) for people in np.flatnonzero(sizes).tolist()]


# The wavelet of the paper on tables of any size: algorithm 2, noise and refinement at once, from the root down.


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

    >>> from sudare.noise import SeededRng
    >>> from sudare.schema import Attribute, NumberBins, Schema
    >>> cells = Attribute(name="cell", domain=NumberBins.of_width(0, 1024, 1))
    >>> counts = Counts.from_columns(Schema(name="line", attributes=(cells,)), [[7]] * 500)
    >>> wavelet(counts, epsilon=Fraction(1), neighbours="replace", total=500, rng=SeededRng(1)).total
    500
    """
    check_wavelet_schema(counts.schema)
    if order == "radix" and counts.schema.impossible:
        raise SchemaError("halves by radix cannot honour impossible combinations; use the order morton")
    cells = CellOrder(schema=counts.schema, order=order)
    scale = wavelet_scale(cells.levels, epsilon=epsilon, neighbours=neighbours, rows=rows_of(counts.schema))
    return descend(counts, cells, total=total, noise=GeometricNoise(scale=scale), rng=rng)


def draw_wavelet(counts: Counts, budget: CountBudget, *, total: int, rng: Rng) -> Counts:
    """Publish a table as `wavelet` does, with the noise that keeps the part of the cells in the currency in use."""
    check_wavelet_schema(counts.schema)
    cells = CellOrder(schema=counts.schema, order="morton")
    return descend(counts, cells, total=total, noise=wavelet_noise(cells.levels, budget), rng=rng)


def descend(counts: Counts, cells: CellOrder, *, total: int, noise: CountNoise, rng: Rng) -> Counts:
    """Halve from the root down with a given noise: of the paper's own scale 2(1 + k)/epsilon, or ours."""
    truth = StoredCells.of(counts, cells)
    nodes = Nodes.root(cells, cells_stored=counts.nonzero, total=check_total(total))
    return finish(counts.schema, nodes, truth, 0, noise=noise, rng=rng)


def finish(schema: Schema, nodes: Nodes, truth: StoredCells, first: int, *, noise: CountNoise, rng: Rng) -> Counts:
    """Open nodes of level `first` down to the cells, and make the table of what they got."""
    cells = truth.cells
    drifts = Drifts(cells=cells, noise=noise)
    halves = PossibleHalves(cells=cells) if schema.impossible else None
    for level in range(first, cells.levels):
        if len(nodes.sums):
            middles, differences = measure(nodes, truth, level, noise=noise, rng=rng)
            opened = split_nodes(nodes, middles, differences, cells, level, halves, rng=rng)
            nodes, truth = _forget_closed(_hand_over(opened, drifts, level + 1, halves, rng=rng), truth)
        drifts.split(level, rng=rng)
    found = [(nodes.sums, nodes.paths), *drifts.arrived()]
    sums, paths = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = sorted_paths(paths) if cells.order == "radix" else None  # then codes are sorted, and need not be merged
    if order is not None:
        sums, paths = sums[order], paths[order]
    return Counts.build(schema, cells.codes(paths), sums)


@dataclass(frozen=True, kw_only=True)
class StoredCells:
    """The stored cells in the order of their paths, and how many rows lie before each."""

    cells: CellOrder
    paths: Integers
    values: Integers
    before: Integers

    @classmethod
    def of(cls, counts: Counts, cells: CellOrder) -> StoredCells:
        """Sort the stored cells of a table by their paths."""
        paths, values = cells.paths(counts.codes), counts.values
        order = sorted_paths(paths)
        if order is not None:
            paths, values = paths[order], values[order]
        return cls.in_order(cells, paths, values)

    @classmethod
    def in_order(cls, cells: CellOrder, paths: Integers, values: Integers) -> StoredCells:
        """Hold cells that are sorted already."""
        return cls(cells=cells, paths=paths, values=values, before=np.concatenate([[0], np.cumsum(values)]))

    def middles(self, lows: Integers, highs: Integers, level: int) -> Integers:
        """Find where the right half of each run of stored cells starts: the ones of a bit come after its zeros."""
        ones = np.concatenate([[0], np.cumsum(self.cells.bits(self.paths, level))])
        middles: Integers = highs - (ones[highs] - ones[lows])
        return middles


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Open nodes of one level in the order of their paths; `lows` and `highs` bound their run of stored cells.

    Bit a of `edges` says that the node ends with the last value of axis a, so that its right half may hold no cell.
    """

    sums: Integers
    lows: Integers
    highs: Integers
    paths: Integers
    edges: Integers

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


def measure(nodes: Nodes, truth: StoredCells, level: int, *, noise: CountNoise, rng: Rng) -> tuple[Integers, Integers]:
    """Give where the right halves of the nodes start among the stored cells, and the noisy differences D*."""
    middles = truth.middles(nodes.lows, nodes.highs, level)
    before = truth.before
    differences = 2 * before[middles] - before[nodes.lows] - before[nodes.highs]
    return middles, noise.add(differences, rng=rng)


def split_nodes(
    nodes: Nodes,
    middles: Integers,
    differences: Integers,
    cells: CellOrder,
    level: int,
    halves: PossibleHalves | None = None,
    *,
    rng: Rng,
    keep_empty: bool = False,
) -> Nodes:
    """Replace every node by its halves; those that got nobody are left out, unless all are asked for."""
    left = halve(nodes.sums, differences, draw_coins(len(differences), rng=rng))
    if halves is not None:
        _close_impossible(nodes, left, halves, level)
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


def _hand_over(nodes: Nodes, drifts: Drifts, level: int, halves: PossibleHalves | None, *, rng: Rng) -> Nodes:
    """Let small sums drift that lie in nodes empty in truth, all of whose places are possible cells."""
    free = np.flatnonzero((nodes.lows == nodes.highs) & (drifts.cells.is_full | (nodes.edges == 0)))
    if halves is not None:
        free = free[halves.are_whole(nodes.paths[free], level)]
    small = drifts.takes(nodes.sums[free], level=level)
    if small is None:
        return nodes
    taken = free[small]
    drifts.add(nodes.sums[taken], nodes.paths[taken], level=level, rng=rng)
    stays = np.ones(len(nodes.sums), dtype=np.bool_)
    stays[taken] = False
    return nodes.select(stays)


def _forget_closed(nodes: Nodes, truth: StoredCells) -> tuple[Nodes, StoredCells]:
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
    fewer = StoredCells.in_order(truth.cells, truth.paths[kept], truth.values[kept])
    return replace(nodes, lows=highs - lengths, highs=highs), fewer


def _close_impossible(nodes: Nodes, left: Integers, halves: PossibleHalves, level: int) -> None:
    """Give everything to one half where the other holds no possible cell: a public rule, as for places without one."""
    word, shift = halves.cells.place(level)
    right_paths = nodes.paths.copy()
    right_paths[:, word] |= np.int64(1) << shift
    left[~halves.hold_possible(nodes.paths, level + 1)] = 0
    closed = ~halves.hold_possible(right_paths, level + 1)
    left[closed] = nodes.sums[closed]


def _close_outside(nodes: Nodes, left: Integers, cells: CellOrder, level: int) -> Integers:
    """Give everything to the left where the right half holds no cell; return the edges of the left halves."""
    if cells.is_full:
        return nodes.edges
    mark = np.int64(1 << cells.plan[level][0])
    if cells.last_bit(level):
        return nodes.edges & ~mark  # the left half ends before the last value
    at_edge = (nodes.edges & mark) != 0
    left[at_edge] = nodes.sums[at_edge]
    return nodes.edges
