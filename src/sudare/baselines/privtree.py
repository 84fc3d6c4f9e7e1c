"""A tree that opens where people are, with noise that does not grow with its depth (Zhang, Xiao, Xie 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.baselines.plain import changed_cells, clipped, either_promise, guard
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng, geometric_noise
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import MeshCells, Unit

Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]

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

    def _leaves(self, values: Numbers, grid: Square, neighbours: Neighbours | None, rng: Rng) -> list[tuple[int, int]]:
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
    places: Numbers
    is_cell: Numbers

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

    def placed(self, counts: Counts) -> Numbers:
        """The values in Z-order."""
        values = np.zeros(self.side**self.dimensions, dtype=np.int64)
        values[self.places[counts.codes[:, 0]]] = counts.values
        return values


def _axes(counts: Counts) -> list[Numbers]:
    schema = counts.schema
    if len(schema.attributes) > 2:
        raise ParameterError("PrivTree takes one or two attributes, not {count}", count=len(schema.attributes))
    domain = schema.attributes[0].domain
    if len(schema.attributes) == 1 and isinstance(domain, MeshCells) and schema.size == domain.size:
        return [axis - axis.min() for axis in domain.grid(np.arange(domain.size))]
    return list(np.indices(schema.sizes).reshape(len(schema.sizes), -1))
