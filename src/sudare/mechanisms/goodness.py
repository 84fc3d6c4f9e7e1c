"""Tests of fit for samples of 10**7 to 10**9 integers: does a sampler have the stated law, or one a little off?

Three questions about the same counts: chi-square (are probabilities off, all in all?), ratios (does the loss of privacy
between neighbouring outcomes, ln P[k]/P[k+1], differ from the stated one?) and outliers (does an outcome come far too
often or too rarely, however rare it is?). Standard library and NumPy only, because `sudare verify` runs them too.

What they see in n draws, with some 500 bins and a false alarm of 10**-9: a scale off by a share of 17/sqrt(n), which is
0.12 % at n = 2 * 10**8, or a probability d moved between two outcomes of probability p if d > 12 * sqrt(p/n). A tail
beyond what n draws reach is not seen by any sample; the enumeration of the table covers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms.geometric import geometric_probability, geometric_tail

Draw = Callable[[int], NDArray[np.int64]]
Histogram = NDArray[np.int64]

BLOCK = 2**20  # draws at a time
FEWEST_EXPECTED = 50  # per bin, for the chi-square law to hold
FEWEST_FOR_RATIO = 1000  # per bin, for the log of a quotient to be normal
MOST_BINS = 2**13
FALSE_ALARM = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """How well counts fit probabilities: the chances of a worse fit if the probabilities are right."""

    draws: int
    bins: int
    chi_square_p: float
    ratio_p: float
    outlier_p: float

    @property
    def p_value(self) -> float:
        """The smallest of the three, three times because there are three."""
        return min(1.0, 3 * min(self.chi_square_p, self.ratio_p, self.outlier_p))

    @property
    def is_good(self) -> bool:
        """The counts could well come from this law; wrong once in 10**9 times."""
        return self.p_value >= FALSE_ALARM


def fit(counts: Histogram, probabilities: NDArray[np.float64]) -> Fit:
    """Compare counts with the probabilities of the same bins.

    >>> fit(np.array([500, 500]), np.array([0.5, 0.5])).p_value
    1.0
    >>> fit(np.array([600, 400]), np.array([0.5, 0.5])).is_good
    False
    """
    draws = int(counts.sum())
    pooled, expected = _pool(counts, draws * probabilities)
    statistic = float(((pooled - expected) ** 2 / expected).sum())
    return Fit(
        draws=draws,
        bins=len(pooled),
        chi_square_p=chi_square_tail(statistic, len(pooled) - 1),
        ratio_p=_ratio_p(pooled, expected),
        outlier_p=_outlier_p(counts / draws, probabilities, draws),
    )


def _pool(counts: Histogram, expected: NDArray[np.float64]) -> tuple[Histogram, NDArray[np.float64]]:
    """Join neighbouring bins until each expects enough, so that the tails count without being many."""
    starts, load = [0], 0.0
    for place, share in enumerate(expected.tolist()):
        if load >= FEWEST_EXPECTED:
            starts.append(place)
            load = 0.0
        load += share
    if load < FEWEST_EXPECTED and len(starts) > 1:
        starts.pop()
    return np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)


def _ratio_p(counts: Histogram, expected: NDArray[np.float64]) -> float:
    """Test ln(n_k / n_(k+1)) of all neighbours at once: the largest deviation, by the union bound."""
    is_full = (expected[:-1] >= FEWEST_FOR_RATIO) & (expected[1:] >= FEWEST_FOR_RATIO)
    if not is_full.any():
        return 1.0
    observed = np.maximum(counts, 1)
    excess = np.log(observed[:-1] / observed[1:]) - np.log(expected[:-1] / expected[1:])
    deviation = np.abs(excess) / np.sqrt(1 / expected[:-1] + 1 / expected[1:])
    return min(1.0, int(is_full.sum()) * math.erfc(float(deviation[is_full].max()) / math.sqrt(2)))


def _outlier_p(shares: NDArray[np.float64], law: NDArray[np.float64], draws: int) -> float:
    """Bound the chance of the strangest single bin, joined or not: Chernoff, P <= exp(-n KL(share || p)) each way."""
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = np.where(shares > 0, shares * np.log(shares / law), 0.0)
        unseen = np.where(shares < 1, (1 - shares) * np.log((1 - shares) / (1 - law)), 0.0)
    return min(1.0, 2 * len(law) * math.exp(-draws * float((seen + unseen).max())))


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Give the chance that a chi-square variable of so many degrees of freedom is at least `statistic`.

    The regularised gamma function Q(freedom/2, statistic/2), by Q(a+1, x) = Q(a, x) + x^a e^-x / Gamma(a+1).

    >>> round(chi_square_tail(3.841, 1), 3)
    0.05
    """
    if statistic <= 0:
        return 1.0
    x = statistic / 2
    a, total = (0.5, math.erfc(math.sqrt(x))) if freedom % 2 else (1.0, math.exp(-x))
    while a < freedom / 2:
        total += math.exp(a * math.log(x) - x - math.lgamma(a + 1))
        a += 1
    return min(1.0, total)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bins:
    """Groups of 2**width_bits integers, numbered low..high by z >> width_bits; the outer two take the tails."""

    low: int
    high: int
    width_bits: int = 0

    @classmethod
    def for_geometric(cls, scale: Fraction, draws: int) -> Bins:
        """Choose bins for so many draws of two-sided geometric noise, out to a tail that 50 of them reach."""
        reach = max(1.0, float(scale) * math.log(max(draws / FEWEST_EXPECTED, 2)))
        width_bits = max(0, math.ceil(math.log2(2 * reach / MOST_BINS)))
        high = 1 + (int(reach) >> width_bits)
        while high > 0 and draws * geometric_tail(high << width_bits, scale) < FEWEST_EXPECTED:
            high -= 1
        return cls(low=-high, high=high, width_bits=width_bits)

    def count(self, draw: Draw, draws: int) -> Histogram:
        """Draw in blocks and count."""
        return _count(draw, draws, self.high - self.low + 1, self._place)

    def _place(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.width_bits:
            values = values >> self.width_bits
        return np.clip(values, self.low, self.high) - self.low

    def geometric(self, scale: Fraction) -> NDArray[np.float64]:
        """Give the probabilities of the bins under two-sided geometric noise."""
        groups = range(self.low, self.high + 1)
        if not self.width_bits:
            law = [geometric_probability(z, scale) for z in groups]
        else:
            tails = [geometric_tail(group << self.width_bits, scale) for group in range(self.low, self.high + 2)]
            law = [-step for step in np.diff(tails)]
        law[0] = 1 - geometric_tail((self.low + 1) << self.width_bits, scale)
        law[-1] = geometric_tail(self.high << self.width_bits, scale)
        return np.array(law)


@dataclass(frozen=True, kw_only=True, slots=True)
class Digit:
    """The binary digits place..place+7 of z modulo 2**(place+8), which a bin of large noise would blur."""

    place: int

    def count(self, draw: Draw, draws: int) -> Histogram:
        """Draw in blocks and count."""
        return _count(draw, draws, 256, lambda values: (values >> self.place) & 255)

    def geometric(self, scale: Fraction) -> NDArray[np.float64]:
        """Give the probabilities of the 256 digits under two-sided geometric noise.

        P[z mod M < e] = (1-a^e) * (1+a^(M-e+1)) / ((1+a) * (1-a^M))
        """
        rate, modulus = 1 / float(scale), 2.0 ** (self.place + 8)
        end = np.arange(257) * 2.0**self.place
        top = -np.expm1(-end * rate) * (1 + np.exp(-(modulus - end + 1) * rate))
        return np.diff(top / ((1 + math.exp(-rate)) * -math.expm1(-modulus * rate)))


def _count(draw: Draw, draws: int, bins: int, place: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Histogram:
    counts = np.zeros(bins, dtype=np.int64)
    for start in range(0, draws, BLOCK):
        counts += np.bincount(place(draw(min(BLOCK, draws - start))), minlength=bins)
    return counts
