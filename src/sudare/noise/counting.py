"""The noise of counts as a value: which law, how wide, how it is added, and how its empty cells are drawn.

A method plans its steps with these, and does not ask which of the two laws it got:

    GeometricNoise(scale)       P[z] ~ exp(-|z| / scale):            the noise of pure epsilon
    GaussianNoise(variance)     P[z] ~ exp(-z^2 / (2 variance)):     the noise of concentrated privacy, mostly

`choose_noise` chooses between them by computation, for a step that may cost an amount of a currency.
Proof: proofs/gaussian.md
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sudare.noise.enclosure import Enclosure, exp_minus
from sudare.noise.gaussian import (
    add_gaussian,
    check_variance,
    gaussian_noise,
    gaussian_probability,
    gaussian_tail,
    gaussian_variance,
)
from sudare.noise.geometric import add_geometric, geometric_noise, geometric_tail, geometric_variance, split_scale
from sudare.noise.laws import DiscreteGaussian, TwoSidedGeometric
from sudare.noise.rng import Rng
from sudare.noise.rows import add_gaussian_few, add_geometric_few, exceed_few, exceed_gaussian_few
from sudare.privacy.currency import Currency
from sudare.schema.arrays import Booleans, Integers, Reals

LARGEST_LISTED_VARIANCE = 4096**2  # beyond it the sums that empty cells need are too long to list
LIMIT_ROUNDS = 60
SMALL_DEVIATION, SMALL_REACH = 4.0, 160  # below, sums over the first integers are listed
LEAST_CHANCE = 1e-300  # of a level that is asked for


@dataclass(frozen=True, kw_only=True, slots=True)
class GeometricNoise:
    """Two-sided geometric noise of one scale.

    >>> GeometricNoise(scale=Fraction(20)).spread
    28.284271247461902
    """

    scale: Fraction

    @property
    def law(self) -> TwoSidedGeometric:
        """The law, as the machine draws it."""
        return TwoSidedGeometric(scale=self.scale)

    @property
    def variance(self) -> float:
        """The variance of the noise of a count."""
        return geometric_variance(self.scale)

    @property
    def spread(self) -> float:
        """The standard deviation, as if the noise were not whole: sqrt(2) * scale."""
        return math.sqrt(2.0) * float(self.scale)

    def check(self) -> None:
        """Refuse noise beyond 64 bits."""
        split_scale(self.scale)

    def add(self, values: ArrayLike, *, rng: Rng) -> Integers:
        """Add the noise to counts."""
        return add_geometric(values, scale=self.scale, rng=rng)

    def draw(self, size: int, *, rng: Rng) -> Integers:
        """Draw the noise of empty cells, or of numbers that are public."""
        return geometric_noise(size, scale=self.scale, rng=rng)

    def add_named(self, values: Integers, *, names: Integers, rng: Rng) -> Integers:
        """Add the noise to a few counts, each known by name."""
        return add_geometric_few(values, scale=self.scale, names=names, rng=rng)

    def exceed_named(self, levels: Integers, *, names: Integers, rng: Rng) -> Booleans:
        """Tell which of a few numbers, each known by name, exceed 0 with the noise."""
        return exceed_few(levels, scale=self.scale, names=names, rng=rng)

    def tail(self, z: int) -> float:
        """Give P[Z >= z]."""
        return geometric_tail(z, self.scale)

    def smooth_tail(self, level: float) -> float:
        """Give P[Z > level] for a level of at least 0 that need not be whole."""
        scale = float(self.scale)
        return math.exp(max(-(level + 1) / scale, -745.0)) / (1 + math.exp(-1 / scale))

    def reach(self, log_odds: float) -> float:
        """Give a level above which noise lies with probability exp(-log_odds) / 2, about."""
        return float(self.scale) * log_odds

    def slope(self, level: float) -> float:
        """Give the steps beyond a level in which the probability falls by e, about."""
        return float(self.scale)

    def mean_excess(self, level: float) -> float:
        """Give E(Z - level)+, as a float."""
        scale = float(self.scale)
        tail = math.exp(max(-(abs(level) + 1) / scale, -745.0)) / -math.expm1(-2 / scale)
        return tail if level >= 0 else tail - level

    def limits(self, heads: Reals) -> Integers:
        """Find the least L with E(Z; Z > L) <= exp(-head), about, for every head.

        With m = L + 1 and a = exp(-1/scale), E(Z; Z >= m) = a^m (m (1-a) + a) / (1-a^2), solved for the nearest m by
        iteration; where one step is more than a factor of e, for the next m above.

        >>> GeometricNoise(scale=Fraction(1, 30)).limits(np.array([41.0])).tolist()  # 1e20 cells, 80 records
        [1]
        """
        scale = float(self.scale)
        a = math.exp(-1 / scale)
        whole = heads - math.log1p(-a * a)
        least = np.ones(heads.size)
        to_whole = np.rint if scale >= 1 else np.ceil
        for _ in range(LIMIT_ROUNDS):
            least = np.maximum(to_whole(scale * (whole + np.log(least * (1 - a) + a))), 1.0)
        return least.astype(np.int64) - 1

    def to_dict(self) -> dict[str, Any]:
        """Give the law as plain values."""
        return {"scale": str(self.scale)}


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianNoise:
    """Discrete Gaussian noise of one nominal variance sigma^2.

    >>> GaussianNoise(sigma_squared=Fraction(400)).spread
    20.0
    """

    sigma_squared: Fraction

    @property
    def scale(self) -> float:
        """The scale of geometric noise of the same deviation: sigma / sqrt(2)."""
        return self.spread / math.sqrt(2)

    @property
    def law(self) -> DiscreteGaussian:
        """The law, as the machine draws it."""
        return DiscreteGaussian(variance=self.sigma_squared)

    @property
    def variance(self) -> float:
        """The variance of the noise of a count."""
        return gaussian_variance(self.sigma_squared)

    @property
    def spread(self) -> float:
        """The standard deviation, as if the noise were not whole: sigma."""
        return math.sqrt(self.sigma_squared)

    def check(self) -> None:
        """Refuse noise beyond 64 bits."""
        check_variance(self.sigma_squared)

    def add(self, values: ArrayLike, *, rng: Rng) -> Integers:
        """Add the noise to counts."""
        return add_gaussian(values, variance=self.sigma_squared, rng=rng)

    def draw(self, size: int, *, rng: Rng) -> Integers:
        """Draw the noise of empty cells, or of numbers that are public."""
        return gaussian_noise(size, variance=self.sigma_squared, rng=rng)

    def add_named(self, values: Integers, *, names: Integers, rng: Rng) -> Integers:
        """Add the noise to a few counts, each known by name."""
        return add_gaussian_few(values, variance=self.sigma_squared, names=names, rng=rng)

    def exceed_named(self, levels: Integers, *, names: Integers, rng: Rng) -> Booleans:
        """Tell which of a few numbers, each known by name, exceed 0 with the noise."""
        return exceed_gaussian_few(levels, variance=self.sigma_squared, names=names, rng=rng)

    def tail(self, z: int) -> float:
        """Give P[Z >= z]."""
        return gaussian_tail(z, self.sigma_squared)

    def smooth_tail(self, level: float) -> float:
        """Give P[Z > level] for a level of at least 0 that need not be whole."""
        if self.spread < SMALL_DEVIATION:
            return gaussian_tail(math.floor(level) + 1, self.sigma_squared)
        return math.erfc((level + 0.5) / self.spread / math.sqrt(2)) / 2

    def reach(self, log_odds: float) -> float:
        """Give a level above which noise lies with probability exp(-log_odds) / 2, about."""
        chance = max(math.exp(max(-log_odds, -745.0)) / 2, LEAST_CHANCE)
        return -self.spread * NormalDist().inv_cdf(chance)

    def slope(self, level: float) -> float:
        """Give the steps beyond a level in which the probability falls by e, about."""
        return float(self.sigma_squared) / max(level, self.spread)

    def mean_excess(self, level: float) -> float:
        """Give E(Z - level)+, as a float."""
        sigma = max(self.spread, 1e-9)
        x = level / sigma
        density = math.exp(max(-x * x / 2, -745.0)) / math.sqrt(2 * math.pi)
        return sigma * density - level * math.erfc(x / math.sqrt(2)) / 2

    def limits(self, heads: Reals) -> Integers:
        """Find the least L with E(Z; Z > L) <= exp(-head), about, for every head.

        E(Z; Z >= m) is listed for small deviations; else it is sigma times the density at (m - 1/2)/sigma.
        """
        sigma = self.spread
        if sigma < SMALL_DEVIATION:
            places = np.arange(1, SMALL_REACH + 1)
            terms = places * np.array([gaussian_probability(int(z), self.sigma_squared) for z in places])
            means = np.cumsum(terms[::-1])[::-1]  # of Z from m on, m = 1, 2, ...
            return np.searchsorted(-means, -np.exp(-np.maximum(heads, -700.0)))
        squares = 2 * (heads + math.log(sigma / math.sqrt(2 * math.pi)))
        return np.ceil(sigma * np.sqrt(np.maximum(squares, 0.0)) - 0.5).clip(0).astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Give the law as plain values."""
        return {"sigma_squared": str(self.sigma_squared)}


CountNoise = GeometricNoise | GaussianNoise


# --- what a step may cost, and the better noise for it --------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def choose_noise(amount: Fraction, currency: Currency, *, cells: int, rows: int, is_listed: bool = False) -> CountNoise:
    """Choose the noise of a step that may cost `amount`, where a unit changes at most `cells` counts, each by `rows`.

    Pure epsilon: geometric of scale cells * rows / epsilon. rho: of two that keep it the one of less variance, Gaussian
    of variance cells * rows^2 / (2 rho), or geometric at the smallest scale at which `cells` shifts of `rows` cost rho,
    each rows/scale * tanh(rows/(2 scale)). Where the noise of empty cells must be drawn (`is_listed`), a Gaussian whose
    sums are too long to list is not taken.

    Guarantee: the amount in the currency. Proof: proofs/geometric.md, proofs/gaussian.md

    >>> from sudare.privacy.currency import EPSILON, RHO
    >>> choose_noise(Fraction(1, 2), EPSILON, cells=2, rows=1)
    GeometricNoise(scale=Fraction(4, 1))
    >>> choose_noise(Fraction(1, 2), RHO, cells=2, rows=1)
    GaussianNoise(sigma_squared=Fraction(2, 1))
    """
    variance = currency.gaussian_variance(amount, sensitivity_squared=cells * rows**2)
    if variance is None:
        return GeometricNoise(scale=cells * rows / amount)
    bell, tent = GaussianNoise(sigma_squared=variance), GeometricNoise(scale=rows / pure_epsilon_within(amount / cells))
    return _choose(bell, tent, is_listed)


def choose_by_sensitivity(
    amount: Fraction, currency: Currency, *, absolute: int, squared: int, is_listed: bool = False
) -> CountNoise:
    """Choose the noise of numbers of which a unit changes at most `absolute` in L1 and `squared` in the square of L2.

    >>> from sudare.privacy.currency import RHO
    >>> choose_by_sensitivity(Fraction(1, 2), RHO, absolute=38, squared=40)
    GaussianNoise(sigma_squared=Fraction(40, 1))
    """
    variance = currency.gaussian_variance(amount, sensitivity_squared=squared)
    if variance is None:
        return GeometricNoise(scale=absolute / amount)
    tent = GeometricNoise(scale=absolute / pure_epsilon_within(amount))
    return _choose(GaussianNoise(sigma_squared=variance), tent, is_listed)


def _choose(bell: GaussianNoise, tent: GeometricNoise, is_listed: bool) -> CountNoise:
    if is_listed and bell.sigma_squared > LARGEST_LISTED_VARIANCE:
        return tent
    return bell if bell.variance <= tent.variance else tent


PARTS = 2**16  # an epsilon is found to one in so many parts of itself
COST_BITS = 128


def rho_of_epsilon(epsilon: Fraction, bits: int = COST_BITS) -> Enclosure:
    """Enclose what pure epsilon costs in rho: epsilon * tanh(epsilon/2), at most epsilon^2/2.

    Every pair of neighbouring outputs is a post-processing of randomised response. Proof: proofs/gaussian.md

    >>> float(rho_of_epsilon(Fraction(1)).high / 2**128) < 0.4622
    True
    """
    fall = exp_minus(epsilon, bits)
    return Enclosure.of(epsilon, bits=bits) * ((1 - fall) / (1 + fall))


@functools.lru_cache(maxsize=256)
def pure_epsilon_within(rho: Fraction) -> Fraction:
    """Find the largest epsilon whose cost in rho is at most `rho`, to one part in 65,536 and never too large.

    >>> pure_epsilon_within(Fraction(1, 200))
    Fraction(104901, 1048576)
    """
    unit = Fraction(2) ** (math.frexp(math.sqrt(2 * rho) + float(rho))[1] - 1) / PARTS
    low, high = 0, 4 * PARTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_at_most(rho_of_epsilon(middle * unit), rho) else (low, middle)
    return low * unit


def _is_at_most(cost: Enclosure, rho: Fraction) -> bool:
    return cost.high * rho.denominator <= rho.numerator << cost.bits
