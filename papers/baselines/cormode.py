"""Noise in every cell of a sparse table; only what passes a filter or a sample is kept (Cormode et al. 2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from papers.baselines.base import check_choice, generator
from papers.baselines.plain import changed_cells, either_promise, guard
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng, geometric
from sudare.noise.counting import GeometricNoise
from sudare.noise.geometric import geometric_probability, geometric_tail
from sudare.noise.zeros import Stratum, count_in_stratum, draw_in_stratum
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Unit
from sudare.schema.arrays import Integers

KINDS = ("filter", "sample")
MOST_KEPT = 10**8  # cells that nobody lives in; beyond, the threshold is too low for the table


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseFilter:
    """Keep noisy cells of at least `threshold` (filter), or sample them by size (sample).

    filter   y = v + Z is published if y >= threshold
    sample   y > 0 is published as max(y, threshold) with probability min(1, y/threshold): right in the mean for y > 0

    Of the empty cells only those that pass are drawn: their number is binomial, their values follow the tail of Z,
    their places are uniform. The filter draws the number exactly; the sample from NumPy's generator.

    Guarantee: epsilon-DP; scale 2/epsilon for replace-one, 1/epsilon for add/remove; what is kept is post-processing,
    and the way in which empty cells are drawn does not change the law. Proof: proofs/wavelet.md
    Error: cells below the threshold vanish (filter), so sums over regions of small cells are too low.
    Source: Cormode, Procopiuc, Srivastava, Tran, Differentially private summaries for sparse data, 2012

    >>> round(SparseFilter(epsilon=1, threshold=20).pass_share("replace"), 7)
    2.83e-05
    """

    epsilon: Fraction | str | int | float
    threshold: int
    kind: Literal["filter", "sample"] = "filter"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        check_choice("kind", self.kind, KINDS)
        if self.threshold < 1:
            raise ParameterError("threshold ({threshold}) must be at least 1", threshold=self.threshold)

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return either_promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def pass_share(self, neighbours: Neighbours | None = None) -> float:
        """The share of empty cells that are published."""
        scale = float(changed_cells(neighbours) / Fraction(self.epsilon))
        if self.kind == "filter":
            return geometric_tail(self.threshold, scale)
        return float(_sample_law(self.threshold, scale).sum())

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Add noise to the full cells, draw the empty cells that pass, keep what passes."""
        guard(self.guarantee(unit=counts.schema.unit, neighbours=neighbours), counts.schema)
        epsilon, sensitivity = Fraction(self.epsilon), changed_cells(neighbours)
        empty = counts.schema.size - counts.nonzero
        if empty * self.pass_share(neighbours) > MOST_KEPT:
            raise ParameterError(
                "threshold ({threshold}) lets too many empty cells pass; raise it", threshold=self.threshold
            )
        noisy = geometric(counts.values, epsilon=epsilon, sensitivity=sensitivity, rng=rng)
        kept = self._kept(noisy, rng)
        risen = self._risen(empty, sensitivity / epsilon, rng)
        codes = np.concatenate([counts.codes[kept > 0], empty_codes(counts, len(risen), rng)])
        return Counts.build(counts.schema, codes, np.concatenate([kept[kept > 0], risen]))

    def _kept(self, noisy: Integers, rng: Rng) -> Integers:
        if self.kind == "filter":
            return np.where(noisy >= self.threshold, noisy, 0)
        passes = noisy > generator(rng).random(len(noisy)) * self.threshold
        return np.where(passes, np.maximum(noisy, self.threshold), 0)

    def _risen(self, empty: int, scale: Fraction, rng: Rng) -> Integers:
        """The values of the empty cells that pass."""
        if self.kind == "filter":
            stratum = Stratum(noise=GeometricNoise(scale=scale), above=self.threshold - 1)
            return draw_in_stratum(count_in_stratum(empty, stratum, rng), stratum, rng)
        law = _sample_law(self.threshold, float(scale))
        source = generator(rng)
        share = float(law.sum())
        mean = empty * share
        many = int(source.binomial(empty, share)) if empty < 2**62 else int(source.poisson(mean))
        values = 1 + source.choice(len(law), size=many, p=law / share)
        return np.maximum(values, self.threshold).astype(np.int64)


def _sample_law(threshold: int, scale: float) -> NDArray[np.float64]:
    """P[Z = z and z is sampled], z = 1, 2, ... out to a tail of 1e-18."""
    last = threshold + math.ceil(42 * scale) + 1
    values = np.arange(1, last + 1)
    law = np.array([geometric_probability(z, scale) for z in values.tolist()])
    return law * np.minimum(values / threshold, 1.0)


def empty_codes(counts: Counts, size: int, rng: Rng) -> Integers:
    """Draw distinct cells uniformly from those that hold nobody: propose, and refuse what is taken."""
    radix = counts.schema.radix
    if counts.schema.size < 2**22:
        free = np.setdiff1d(np.arange(counts.schema.size), counts.codes[:, 0])
        return np.sort(free[rng.permutation(len(free))[:size]])[:, None]
    taken = {tuple(row) for row in counts.codes.tolist()}
    found: dict[tuple[int, ...], None] = {}
    while len(found) < size:
        columns = np.column_stack([rng.uniform_below(one, size - len(found)) for one in counts.schema.sizes])
        found |= {tuple(row): None for row in radix.encode(columns).tolist() if tuple(row) not in taken}
    return np.array(list(found), dtype=np.int64).reshape(-1, len(radix.words))
