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

import functools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from papers.baselines.base import check_choice
from papers.baselines.plain import changed_cells, clipped, either_promise, guard
from sudare.counts import Counts
from sudare.noise import Rng, geometric_noise
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Attribute, Schema, Unit
from sudare.schema.arrays import Codes, Integers, Reals


class Transform(Protocol):
    """Coefficients of one axis, always the first of the array."""

    @property
    def cost(self) -> int:
        """How much one record changes the weighted coefficients."""

    @property
    def weights(self) -> Integers:
        """The weight of every coefficient; 0 for those that are always 0 and get no noise."""

    def forward(self, values: Integers) -> Integers:
        """Compute the coefficients."""

    def inverse(self, coefficients: Reals) -> Reals:
        """Put the values back."""


@dataclass(frozen=True, slots=True)
class NoTransform:
    """No transform: best for few values."""

    size: int

    @property
    def cost(self) -> int:
        """One cell."""
        return 1

    @property
    def weights(self) -> Integers:
        """All 1."""
        return np.ones(self.size, dtype=np.int64)

    def forward(self, values: Integers) -> Integers:
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
    def weights(self) -> Integers:
        """All 1."""
        return np.ones(2**self.levels, dtype=np.int64)

    def forward(self, values: Integers) -> Integers:
        """Compute the sum and all differences, from the root down."""
        empty = np.zeros((2**self.levels - self.size, *values.shape[1:]), dtype=np.int64)
        values = np.concatenate([values, empty])
        found: list[Integers] = []
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

    def _siblings(self, level: int) -> Integers:
        """How many children the parent of every node of a level has."""
        parents = self._chain[level]
        counts: Integers = np.bincount(parents)[parents]
        return counts

    @property
    def weights(self) -> Integers:
        """1 for the sum, 2f - 2 for a node with f siblings (itself among them)."""
        levels = [2 * self._siblings(level) - 2 for level in reversed(range(len(self._chain)))]
        return np.concatenate([[1], *levels])

    def forward(self, values: Integers) -> Integers:
        """Compute the sum, then f * sum(node) - sum(parent), from the top level down."""
        found: list[Integers] = []
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


# Privelet and Privelet+: noise in wavelet coefficients, put back without any refinement (Xiao, Wang, Gehrke 2010).


KINDS = ("privelet", "privelet+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Privelet:
    """Transform every attribute, add noise to the coefficients, transform back.

    Ordered attributes (and meshes, by their codes) take the Haar wavelet, others the nominal one along their hierarchy.
    "privelet+" leaves attributes as they are where that is better: |A| <= P(A)^2 H(A), P the cost of the transform and
    H its error (Haar (2 + k)/2, nominal 4).

    Guarantee: epsilon-DP; noise of scale w * s * prod cost_i/epsilon in a coefficient of weight w, s = 2 for
    replace-one and 1 for add/remove. The sum of the table is measured too: for replace-one that is the paper's
    2(1 + k). Proof: proofs/wavelet.md
    Error: unbiased; one axis of 2^k cells: a block of 2^l has variance (2 scale^2/3)(1 + 2 * 4^(l-k)), so large
    regions are good and single cells are not. Many come out negative; `draw` clips them at 0.
    Source: Xiao, Wang, Gehrke, Differential privacy via wavelet transforms, 2010

    >>> from sudare.schema import NumberBins
    >>> line = Schema(name="line", attributes=(Attribute(name="cell", domain=NumberBins.of_width(0, 16, 1)),))
    >>> Privelet(epsilon="1/10").scale(line)
    Fraction(100, 1)
    """

    epsilon: Fraction | str | int | float
    kind: Literal["privelet", "privelet+"] = "privelet"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        check_choice("kind", self.kind, KINDS)

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return either_promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def transforms(self, schema: Schema) -> list[Transform]:
        """Choose the transform of every attribute, from public facts."""
        return [self._transform(attribute) for attribute in schema.attributes]

    def _transform(self, attribute: Attribute) -> Transform:
        is_line = attribute.is_ordered or attribute.domain.kind == "mesh"
        chosen: Transform = Haar(attribute.size) if is_line else Nominal.of(attribute)
        error = (1 + chosen.cost) / 2 if is_line else 4.0
        if self.kind == "privelet+" and attribute.size <= chosen.cost**2 * error:
            return NoTransform(attribute.size)
        return chosen

    def scale(self, schema: Schema, neighbours: Neighbours | None = None) -> Fraction:
        """Scale of the noise of a coefficient of weight 1."""
        cost = math.prod(one.cost for one in self.transforms(schema))
        return changed_cells(neighbours) * cost / Fraction(self.epsilon)

    def estimate(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Reals:
        """Give all cells, in the order of the table; many are negative."""
        guard(self.guarantee(unit=counts.schema.unit, neighbours=neighbours), counts.schema)
        transforms = self.transforms(counts.schema)
        values = counts.dense().reshape(counts.schema.sizes)
        for axis, one in enumerate(transforms):
            values = np.moveaxis(one.forward(np.moveaxis(values, axis, 0)), 0, axis)
        scale = self.scale(counts.schema, neighbours)
        noisy = (values + weighted_noise(transforms, scale, rng)).astype(np.float64)
        for axis, one in enumerate(transforms):
            noisy = np.moveaxis(one.inverse(np.moveaxis(noisy, axis, 0)), 0, axis)
        return noisy.ravel()

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Round the estimate and clip it at 0."""
        return clipped(counts.schema, self.estimate(counts, neighbours=neighbours, rng=rng))


def weighted_noise(transforms: list[Transform], scale: Fraction, rng: Rng) -> Integers:
    """Draw noise for all coefficients: the weight of one is the product of the weights along the axes."""
    weights: Integers = functools.reduce(np.multiply.outer, [one.weights for one in transforms])
    noise = np.zeros(weights.shape, dtype=np.int64)
    for weight in np.unique(weights[weights > 0]).tolist():
        chosen = weights == weight
        noise[chosen] = geometric_noise(int(chosen.sum()), scale=scale * weight, rng=rng)
    return noise


def block_variance(levels: int, block_levels: int, scale: float) -> float:
    """Give the variance of the sum over 2^l of 2^k cells with Laplace noise: (2 scale^2/3)(1 + 2 * 4^(l-k)).

    The paper's property 4 has it fall with the block; it hardly depends on it.

    >>> round(block_variance(19, 4, 400.0)), round(block_variance(19, 10, 400.0))
    (106667, 106667)
    """
    return 2 * scale**2 / 3 * (1 + 2 * 4.0 ** (block_levels - levels))
