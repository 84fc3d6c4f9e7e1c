"""Privelet and Privelet+: noise in wavelet coefficients, put back without any refinement (Xiao, Wang, Gehrke 2010)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sudare.baselines.base import check_choice
from sudare.baselines.nominal import Haar, Identity, Nominal, Transform
from sudare.baselines.plain import changed_cells, clipped, either_promise, guard
from sudare.counts import Counts
from sudare.mechanisms import Rng, geometric_noise
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Attribute, Schema, Unit

Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]

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
            return Identity(attribute.size)
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


def weighted_noise(transforms: list[Transform], scale: Fraction, rng: Rng) -> Numbers:
    """Draw noise for all coefficients: the weight of one is the product of the weights along the axes."""
    weights: Numbers = functools.reduce(np.multiply.outer, [one.weights for one in transforms])
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
