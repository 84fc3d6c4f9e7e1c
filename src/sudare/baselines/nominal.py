"""The transforms of Privelet along one axis, in whole numbers, each with the weights of its coefficients.

A transform turns a vector v of whole numbers into coefficients c with weights w such that one record more or less
changes sum |c_i|/w_i by at most `cost`. Then c_i + noise of scale w_i * cost/epsilon is epsilon-DP (add/remove).

    Identity   the values themselves                                    cost 1
    Haar       the sum, and left - right of every node                  cost 1 + k, all weights 1
    Nominal    the sum, and for every node of a hierarchy its share of the sum of its parent, f times:
               f * sum(node) - sum(parent), f the number of siblings     cost 1 + height, weights 2f - 2

The nominal coefficients of Xiao et al. are f times smaller, and so are their weights; whole numbers take exact noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.schema import Attribute
from sudare.schema.radix import Codes

Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]


class Transform(Protocol):
    """Coefficients of one axis, always the first of the array."""

    @property
    def cost(self) -> int:
        """How much one record changes the weighted coefficients."""

    @property
    def weights(self) -> Numbers:
        """The weight of every coefficient; 0 for those that are always 0 and get no noise."""

    def forward(self, values: Numbers) -> Numbers:
        """Compute the coefficients."""

    def inverse(self, coefficients: Reals) -> Reals:
        """Put the values back."""


@dataclass(frozen=True, slots=True)
class Identity:
    """No transform: best for few values."""

    size: int

    @property
    def cost(self) -> int:
        """One cell."""
        return 1

    @property
    def weights(self) -> Numbers:
        """All 1."""
        return np.ones(self.size, dtype=np.int64)

    def forward(self, values: Numbers) -> Numbers:
        """Give the values."""
        return values

    def inverse(self, coefficients: Reals) -> Reals:
        """Give the values back."""
        return coefficients


@dataclass(frozen=True, slots=True)
class Haar:
    """Sums of halves, for ordered values; the axis is filled up to a power of two.

    >>> Haar(3).forward(np.array([5, 1, 2])).tolist()
    [8, 4, 4, 2]
    """

    size: int

    @property
    def levels(self) -> int:
        """How often the axis is halved."""
        return (self.size - 1).bit_length()

    @property
    def cost(self) -> int:
        """The sum and one node a level."""
        return 1 + self.levels

    @property
    def weights(self) -> Numbers:
        """All 1."""
        return np.ones(2**self.levels, dtype=np.int64)

    def forward(self, values: Numbers) -> Numbers:
        """Compute the sum and all differences, from the root down."""
        empty = np.zeros((2**self.levels - self.size, *values.shape[1:]), dtype=np.int64)
        values = np.concatenate([values, empty])
        found: list[Numbers] = []
        while len(values) > 1:
            found.append(values[0::2] - values[1::2])
            values = values[0::2] + values[1::2]
        return np.concatenate([values, *found[::-1]])

    def inverse(self, coefficients: Reals) -> Reals:
        """Halve from the root down."""
        sums = coefficients[:1]
        while len(sums) < len(coefficients):
            differences = coefficients[len(sums) : 2 * len(sums)]
            halves = np.stack([sums + differences, sums - differences], axis=1) / 2
            sums = halves.reshape(2 * len(sums), *sums.shape[1:])
        return sums[: self.size]


@dataclass(frozen=True, slots=True, eq=False)
class Nominal:
    """Sums of the nodes of a hierarchy against those of their parents, for unordered values.

    `parents[l]` maps the nodes of level l to those of level l + 1; the last level is joined by a root.

    >>> pairs = Nominal((np.array([0, 0, 1, 1]),))
    >>> pairs.forward(np.array([5, 1, 0, 2])).tolist(), pairs.weights.tolist(), pairs.cost
    ([8, 4, -4, 4, -4, -2, 2], [1, 2, 2, 2, 2, 2, 2], 3)
    """

    parents: tuple[Codes, ...]
    _chain: tuple[Codes, ...] = field(init=False)

    def __post_init__(self) -> None:
        top = int(self.parents[-1].max()) + 1
        chain = (*self.parents, np.zeros(top, dtype=np.int64)) if top > 1 else self.parents
        object.__setattr__(self, "_chain", chain)

    @classmethod
    def of(cls, attribute: Attribute) -> Nominal:
        """Read the hierarchy of an attribute; without one, all values are siblings."""
        codes = np.arange(attribute.size, dtype=np.int64)
        if attribute.hierarchy is None:
            return cls((np.zeros_like(codes),))
        lifts = [attribute.hierarchy.lift(codes, level) for level in range(attribute.height + 1)]
        return cls(tuple(_parents(low, high) for low, high in pairwise(lifts)))

    @property
    def cost(self) -> int:
        """The sum and one family a level; a family of one child is no news."""
        return 1 + sum(bool((self._siblings(level) > 1).any()) for level in range(len(self._chain)))

    def _siblings(self, level: int) -> Numbers:
        """How many children the parent of every node of a level has."""
        parents = self._chain[level]
        counts: Numbers = np.bincount(parents)[parents]
        return counts

    @property
    def weights(self) -> Numbers:
        """1 for the sum, 2f - 2 for a node with f siblings (itself among them)."""
        levels = [2 * self._siblings(level) - 2 for level in reversed(range(len(self._chain)))]
        return np.concatenate([[1], *levels])

    def forward(self, values: Numbers) -> Numbers:
        """Compute the sum, then f * sum(node) - sum(parent), from the top level down."""
        found: list[Numbers] = []
        for level, parents in enumerate(self._chain):
            above = np.zeros((int(parents.max()) + 1, *values.shape[1:]), dtype=np.int64)
            np.add.at(above, parents, values)
            siblings = self._siblings(level).reshape(-1, *[1] * (values.ndim - 1))
            found.append(siblings * values - above[parents])
            values = above
        return np.concatenate([values, *found[::-1]])

    def inverse(self, coefficients: Reals) -> Reals:
        """Go down: sum(node) = (c + sum(parent))/f, after the noisy c of siblings are made to add up to 0."""
        sums, start = coefficients[:1], 1
        for level in reversed(range(len(self._chain))):
            parents = self._chain[level]
            part = coefficients[start : start + len(parents)]
            start += len(parents)
            siblings = self._siblings(level).reshape(-1, *[1] * (part.ndim - 1))
            excess = np.zeros((len(sums), *part.shape[1:]))
            np.add.at(excess, parents, part)
            sums = (part - excess[parents] / siblings + sums[parents]) / siblings
        return sums


def _parents(low: Codes, high: Codes) -> Codes:
    found = np.zeros(int(low.max()) + 1, dtype=np.int64)
    found[low] = high
    return found
