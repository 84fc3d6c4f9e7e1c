"""A tree that opens where people are, with noise that does not grow with its depth (Zhang, Xiao, Xie 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from papers.baselines.plain import changed_cells, clipped, either_promise, guard
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng, geometric_noise
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import MeshCells, Schema, Unit
from sudare.schema.arrays import Integers, Reals

MOST_PLACES = 2**24


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivTree:
    """Halve every side of a square (or line) as long as a noisy, lowered count says that people are there.

    b(v) = max(threshold - fall, count(v) - depth(v) * fall); v is opened if b(v) + Z > threshold
    scale of Z = s (2f - 1)/((f - 1) epsilon_tree), fall = ceil(scale * ln f), f children of a node (2 or 4)

    Half of epsilon makes the tree, half measures the counts of its leaves (scale s * 2/epsilon), which are spread
    evenly over their cells. s is 2 for replace-one and 1 for add/remove. A single cell is never opened.

    Guarantee: epsilon-DP. The paper's proof is for Laplace noise; with whole falls and thresholds it holds for
    geometric noise too: proofs/wavelet.md
    Error: no bias between leaves but those of the even spread inside a leaf.
    Source: Zhang, Xiao, Xie, PrivTree: a differentially private algorithm for hierarchical decompositions, 2016

    >>> PrivTree(epsilon=1).fall(4)
    13
    """

    epsilon: Fraction | str | int | float
    threshold: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return either_promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def tree_scale(self, children: int, neighbours: Neighbours | None = None) -> Fraction:
        """Scale of the noise that decides whether a node is opened."""
        return changed_cells(neighbours) * Fraction(2 * children - 1, children - 1) * 2 / Fraction(self.epsilon)

    def fall(self, children: int, neighbours: Neighbours | None = None) -> int:
        """By how much a count is lowered at each level; rounded up, which is safe."""
        return math.ceil(float(self.tree_scale(children, neighbours)) * math.log(children) * (1 + 1e-12))

    def estimate(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Reals:
        """Give all cells, each its part of its leaf."""
        guard(self.guarantee(unit=counts.schema.unit, neighbours=neighbours), counts.schema)
        grid = Square.of(counts)
        values = grid.placed(counts)
        spread = np.zeros(grid.side**grid.dimensions)
        for start, size in self._leaves(values, grid, neighbours, rng):
            noise = geometric_noise(1, scale=2 * changed_cells(neighbours) / Fraction(self.epsilon), rng=rng)
            inside = grid.is_cell[start : start + size]
            shares = max(int(inside.sum()), 1)
            spread[start : start + size] = (int(values[start : start + size].sum()) + int(noise[0])) / shares * inside
        return spread[grid.places]

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Round the estimate and clip it at 0."""
        return clipped(counts.schema, self.estimate(counts, neighbours=neighbours, rng=rng))

    def _leaves(self, values: Integers, grid: Square, neighbours: Neighbours | None, rng: Rng) -> list[tuple[int, int]]:
        """The leaves as runs of the Z-order; nodes without any cell are left out, which is public."""
        children = 2**grid.dimensions
        scale, fall = self.tree_scale(children, neighbours), self.fall(children, neighbours)
        sums, held = (np.concatenate([[0], np.cumsum(one)]) for one in (values, grid.is_cell))
        starts, size, depth = np.zeros(1, dtype=np.int64), len(values), 0
        leaves: list[tuple[int, int]] = []
        while len(starts):
            lowered = np.maximum(self.threshold - fall, sums[starts + size] - sums[starts] - depth * fall)
            opens = lowered + geometric_noise(len(starts), scale=scale, rng=rng) > self.threshold
            opens &= size > 1
            leaves += [(start, size) for start in starts[~opens].tolist()]
            size //= children
            starts = (starts[opens][:, None] + size * np.arange(children if size else 0)).ravel()
            starts = starts[held[starts + size] > held[starts]]
            depth += 1
        return leaves


@dataclass(frozen=True, kw_only=True, eq=False)
class Square:
    """The cells of one or two attributes, or of a mesh, in the Z-order of a square (or line) of 2^k places a side."""

    side: int
    dimensions: int
    places: Integers
    is_cell: Integers

    @classmethod
    def of(cls, counts: Counts) -> Square:
        """Find the place of every cell, from public facts."""
        axes = _axes(counts)
        side = 1 << max((int(axis.max()) for axis in axes), default=0).bit_length()
        if side ** len(axes) > MOST_PLACES:
            raise ParameterError("PrivTree takes at most {most} places here", most=MOST_PLACES)
        places = np.zeros(counts.schema.size, dtype=np.int64)
        for bit in range(side.bit_length() - 1):
            for position, axis in enumerate(reversed(axes)):
                places |= (axis >> bit & 1) << (bit * len(axes) + position)
        is_cell = np.zeros(side ** len(axes), dtype=np.int64)
        is_cell[places] = 1
        return cls(side=side, dimensions=len(axes), places=places, is_cell=is_cell)

    def placed(self, counts: Counts) -> Integers:
        """The values in Z-order."""
        values = np.zeros(self.side**self.dimensions, dtype=np.int64)
        values[self.places[counts.codes[:, 0]]] = counts.values
        return values


def _axes(counts: Counts) -> list[Integers]:
    schema = counts.schema
    if len(schema.attributes) > 2:
        raise ParameterError("PrivTree takes one or two attributes, not {count}", count=len(schema.attributes))
    domain = schema.attributes[0].domain
    if len(schema.attributes) == 1 and isinstance(domain, MeshCells) and schema.size == domain.size:
        return [axis - axis.min() for axis in domain.grid(np.arange(domain.size))]
    return list(np.indices(schema.sizes).reshape(len(schema.sizes), -1))


# PrivTree over any number of attributes: boxes are halved, one attribute after another, where people are.


HALVES = 2  # children of a box
MOST_CELLS = 2**24  # of a table that is spread out


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TiledBoxes:
    """Boxes lows[i]..highs[i] (codes, both included) that tile the domain, each with a count."""

    schema: Schema
    lows: Integers
    highs: Integers
    counts: Integers

    def cells(self) -> Reals:
        """Spread every count evenly over its cells; small domains only."""
        if self.schema.size > MOST_CELLS:
            raise ParameterError("boxes are spread over at most {most} cells", most=MOST_CELLS)
        table = np.zeros(self.schema.sizes)
        for low, high, count in zip(self.lows.tolist(), self.highs.tolist(), self.counts.tolist(), strict=True):
            place = tuple(slice(least, most + 1) for least, most in zip(low, high, strict=True))
            table[place] = count / table[place].size
        return table.ravel()


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivTreeBoxes:
    """Halve a box as long as a noisy, lowered count says that people are there; attributes take turns.

    b(v) = max(threshold - fall, count(v) - depth(v) * fall); v is halved if b(v) + Z > threshold
    scale of Z = 3 s * 2/epsilon (fan-out 2), fall = ceil(scale * ln 2); leaves are measured at scale 2 s/epsilon

    The original cuts all d attributes at once (fan-out 2^d), which at 15 attributes opens 32,768 boxes for one yes;
    its section on the fan-out cuts fewer at a time in turn, down to the two used here. An attribute that a box holds
    one value of loses its turn; a box of one cell is never halved. s is 2 for replace-one and 1 for add/remove.

    Guarantee: epsilon-DP, half for the tree and half for the counts; the proof of proofs/wavelet.md needs only that a
    record lies in one child of an opened box and that which children there are is public. Proof: proofs/baselines.md
    Error: that of the even spread inside a box, and the noise of the boxes a count touches.
    Source: Zhang, Xiao, Xie, PrivTree: a differentially private algorithm for hierarchical decompositions, 2016

    >>> PrivTreeBoxes(epsilon=1).fall("add-remove")
    5
    """

    epsilon: Fraction | str | int | float
    threshold: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return self._line().guarantee(unit=unit, neighbours=neighbours)

    def tree_scale(self, neighbours: Neighbours | None = None) -> Fraction:
        """Scale of the noise that decides whether a box is halved."""
        return self._line().tree_scale(HALVES, neighbours)

    def fall(self, neighbours: Neighbours | None = None) -> int:
        """By how much a count is lowered at each level."""
        return self._line().fall(HALVES, neighbours)

    def boxes(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> TiledBoxes:
        """Grow the tree, then measure its leaves."""
        guard(self.guarantee(unit=counts.schema.unit, neighbours=neighbours), counts.schema)
        lows, highs, exact = self._leaves(counts, neighbours, rng)
        scale = 2 * changed_cells(neighbours) / Fraction(self.epsilon)
        noisy = exact + geometric_noise(len(exact), scale=scale, rng=rng)
        return TiledBoxes(schema=counts.schema, lows=lows, highs=highs, counts=noisy)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Spread the boxes, round, clip at 0; small domains only."""
        return clipped(counts.schema, self.boxes(counts, neighbours=neighbours, rng=rng).cells())

    def _line(self) -> PrivTree:
        return PrivTree(epsilon=self.epsilon, threshold=self.threshold)

    def _leaves(self, counts: Counts, neighbours: Neighbours | None, rng: Rng) -> tuple[Integers, Integers, Integers]:
        scale, fall = self.tree_scale(neighbours), self.fall(neighbours)
        level = _Level.first(counts)
        done: list[tuple[Integers, Integers, Integers]] = []
        depth = 0
        while len(level.lows):
            sums = level.sums()
            lowered = np.maximum(self.threshold - fall, sums - depth * fall)
            opens = lowered + geometric_noise(len(sums), scale=scale, rng=rng) > self.threshold
            opens &= (level.highs > level.lows).any(axis=1)
            done.append((level.lows[~opens], level.highs[~opens], sums[~opens]))
            level = level.halved(opens)
            depth += 1
        lows, highs, sums = (np.concatenate(parts) for parts in zip(*done, strict=True))
        return lows, highs, sums


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Level:
    """The boxes of one depth, whose turn it is in each, and the cells with the box they lie in."""

    lows: Integers
    highs: Integers
    turns: Integers
    columns: Integers
    weights: Integers
    boxes: Integers

    @classmethod
    def first(cls, counts: Counts) -> _Level:
        sizes = np.array(counts.schema.sizes, dtype=np.int64)
        return cls(
            lows=np.zeros((1, len(sizes)), dtype=np.int64),
            highs=(sizes - 1)[None, :],
            turns=np.zeros(1, dtype=np.int64),
            columns=counts.columns(),
            weights=counts.values,
            boxes=np.zeros(counts.nonzero, dtype=np.int64),
        )

    def sums(self) -> Integers:
        # sums below 2^53 are exact in the floats of bincount
        return np.bincount(self.boxes, weights=self.weights, minlength=len(self.lows)).astype(np.int64)

    def halved(self, opens: NDArray[np.bool_]) -> _Level:
        """The children of the opened boxes: 2i and 2i + 1 for the i-th of them."""
        lows, highs, turns = self.lows[opens], self.highs[opens], self.turns[opens]
        axes = _whose_turn(highs > lows, turns)
        places = np.arange(len(lows))
        middles = (lows[places, axes] + highs[places, axes]) // 2
        twice = [np.repeat(one, HALVES, axis=0) for one in (lows, highs)]
        twice[1][2 * places, axes] = middles
        twice[0][2 * places + 1, axes] = middles + 1
        kept = opens[self.boxes]
        parent = (np.cumsum(opens) - 1)[self.boxes[kept]]
        columns = self.columns[kept]
        is_right = columns[np.arange(len(columns)), axes[parent]] > middles[parent]
        return _Level(
            lows=twice[0],
            highs=twice[1],
            turns=np.repeat((axes + 1) % lows.shape[1], HALVES),
            columns=columns,
            weights=self.weights[kept],
            boxes=HALVES * parent + is_right,
        )


def _whose_turn(is_wide: NDArray[np.bool_], turns: Integers) -> Integers:
    """The first attribute from the turn on, around the circle, that can be halved."""
    many = is_wide.shape[1]
    waits = (np.arange(many)[None, :] - turns[:, None]) % many
    found: Integers = np.argmin(np.where(is_wide, waits, many), axis=1)
    return found
