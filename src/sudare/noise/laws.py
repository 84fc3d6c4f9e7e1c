"""The distributions noise is drawn from, each as certified bounds of its cumulative probabilities.

A law says where it lives (`low`, `high`, None for no end) and encloses P[X <= k] to any precision; the machine needs
no more. A new law is a class here with those three, and a sentence on what `log_ratio` it promises.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from sudare.errors import ParameterError
from sudare.noise.enclosure import Enclosure, enclose, exp_minus, ratio


class Law(Protocol):
    """A distribution on the integers."""

    @property
    def low(self) -> int | None:
        """The least possible value; None if there is none."""

    @property
    def high(self) -> int | None:
        """The largest possible value; None if there is none."""

    @property
    def log_ratio(self) -> Fraction | None:
        """The most by which ln P changes between neighbours k, k + 1; None if nothing is promised."""

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        """Bound 2**bits * P[X <= k], low <= k < high, by integers at most 2 apart that meet if it is an integer.

        P[X <= k] must grow with k and be less than 1 before `high`.
        """


class _Enclosed:
    """What the laws below share: bounds from an enclosure of the cumulative probability."""

    __slots__ = ()

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        """Bound 2**bits * P[X <= k] by integers at most 2 apart."""
        return enclose(lambda more: self._below(k, more), bits)

    def _below(self, k: int, bits: int) -> Enclosure:
        raise NotImplementedError


class _FromZero(_Enclosed):
    """A law on 0, 1, 2, ..."""

    __slots__ = ()

    @property
    def low(self) -> int:
        """Zero."""
        return 0


class _Symmetric(_Enclosed):
    """A law with P[X = -k] = P[X = k], given by its upper tail."""

    __slots__ = ()

    def _below(self, k: int, bits: int) -> Enclosure:
        return self._tail(-k, bits) if k < 0 else 1 - self._tail(k + 1, bits)

    def _tail(self, k: int, bits: int) -> Enclosure:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoSidedGeometric(_Symmetric):
    """P[X = k] = (1-a)/(1+a) * a^|k|, a = exp(-1/scale): the noise of counts.

    P[X >= k] = a^k / (1+a) for k >= 1.  ln P changes by 1/scale from one value to the next.

    >>> TwoSidedGeometric(scale=Fraction(20)).threshold(0, 16)
    (33587, 33588)
    """

    scale: Fraction

    def __post_init__(self) -> None:
        _require_fraction("scale", self.scale)

    @property
    def low(self) -> None:
        """No least value."""

    @property
    def high(self) -> None:
        """No largest value."""

    @property
    def log_ratio(self) -> Fraction:
        """1/scale."""
        return 1 / self.scale

    def _tail(self, k: int, bits: int) -> Enclosure:
        return exp_minus(k / self.scale, bits) / (1 + ratio(1 / self.scale, bits))


@dataclass(frozen=True, kw_only=True, slots=True)
class OneSidedGeometric(_FromZero):
    """P[X = k] = (1-a) * a^k for k >= 0, a = exp(-1/scale): failures before the first success.

    >>> OneSidedGeometric(scale=Fraction(2)).threshold(0, 16)
    (25786, 25787)
    """

    scale: Fraction

    def __post_init__(self) -> None:
        _require_fraction("scale", self.scale)

    @property
    def high(self) -> None:
        """No largest value."""

    @property
    def log_ratio(self) -> Fraction:
        """1/scale, between values of the support."""
        return 1 / self.scale

    def _below(self, k: int, bits: int) -> Enclosure:
        return 1 - exp_minus((k + 1) / self.scale, bits)


@dataclass(frozen=True, kw_only=True, slots=True)
class TruncatedGeometric(_FromZero):
    """P[X = k] = (1-a)/(1-a^size) * a^k for 0 <= k < size, a = exp(-1/scale): a digit of a one-sided geometric.

    >>> TruncatedGeometric(scale=Fraction(2), size=2).threshold(0, 16)
    (40793, 40794)
    """

    scale: Fraction
    size: int

    def __post_init__(self) -> None:
        _require_fraction("scale", self.scale)
        _require_size(self.size)

    @property
    def high(self) -> int:
        """size - 1."""
        return self.size - 1

    @property
    def log_ratio(self) -> Fraction:
        """1/scale, between values of the support."""
        return 1 / self.scale

    def _below(self, k: int, bits: int) -> Enclosure:
        return (1 - exp_minus((k + 1) / self.scale, bits)) / (1 - ratio(self.size / self.scale, bits))


@dataclass(frozen=True, kw_only=True, slots=True)
class DigitDifference(_Symmetric):
    """The difference of two independent truncated geometrics: a digit of a two-sided geometric.

    With N = size and a = exp(-1/scale), for 1 <= k < N:
    P[X >= k] = (a^k - a^N * (1+a) + a^(2N-k+1)) / ((1+a) * (1-a^N)^2)

    >>> DigitDifference(scale=Fraction(2), size=2).threshold(-1, 16)
    (15401, 15402)
    """

    scale: Fraction
    size: int

    def __post_init__(self) -> None:
        _require_fraction("scale", self.scale)
        _require_size(self.size)

    @property
    def low(self) -> int:
        """1 - size."""
        return 1 - self.size

    @property
    def high(self) -> int:
        """size - 1."""
        return self.size - 1

    @property
    def log_ratio(self) -> None:
        """Nothing: P falls faster than a^|k| towards the ends. The sum of all digits has the promised ratio."""

    def _tail(self, k: int, bits: int) -> Enclosure:
        a, end = ratio(1 / self.scale, bits), ratio(self.size / self.scale, bits)
        fold = exp_minus((2 * self.size - k + 1) / self.scale, bits)
        room = 1 - end
        return (exp_minus(k / self.scale, bits) - end * (1 + a) + fold) / ((1 + a) * room * room)


@dataclass(frozen=True, kw_only=True, slots=True)
class BernoulliExp(_FromZero):
    """P[X = 1] = exp(-x), P[X = 0] = 1 - exp(-x), x > 0.

    >>> BernoulliExp(x=Fraction(1)).threshold(0, 16)
    (41426, 41427)
    """

    x: Fraction

    def __post_init__(self) -> None:
        _require_fraction("x", self.x)

    @property
    def high(self) -> int:
        """One."""
        return 1

    @property
    def log_ratio(self) -> None:
        """Nothing."""

    def _below(self, k: int, bits: int) -> Enclosure:
        return 1 - exp_minus(self.x, bits)


@dataclass(frozen=True, kw_only=True, slots=True)
class DiscreteGaussian(_Symmetric):
    """P[X = k] = exp(-k^2 / (2 * variance)) / (sum over all integers of the same): the noise of concentrated privacy.

    ln P falls by (2k + 1) / (2 * variance) from k to k + 1, so no ratio is promised; `log_step` states it.

    >>> DiscreteGaussian(variance=Fraction(1)).threshold(0, 16)
    (45840, 45841)
    """

    variance: Fraction

    def __post_init__(self) -> None:
        _require_fraction("variance", self.variance)

    @property
    def low(self) -> None:
        """No least value."""

    @property
    def high(self) -> None:
        """No largest value."""

    @property
    def log_ratio(self) -> None:
        """Nothing: the ratio of neighbours grows with k."""

    def log_step(self, k: int) -> Fraction:
        """Tell ln P[X = k] - ln P[X = k + 1] exactly."""
        return (2 * k + 1) / (2 * self.variance)

    def _tail(self, k: int, bits: int) -> Enclosure:
        sums = gaussian_sums(self.variance, bits)
        return sums.tail(k) / (2 * sums.tail(0) - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class MirroredGaussian(_Enclosed):
    """P[K = k] proportional to exp(-c^2 / (2 * variance)), c = k for k >= 0 and c = -1 - k for k < 0.

    A sign and a magnitude c in one number: the leading digits of a large discrete Gaussian value are proposed by it.

    >>> MirroredGaussian(variance=Fraction(1)).threshold(-1, 16)
    (32768, 32768)
    """

    variance: Fraction

    def __post_init__(self) -> None:
        _require_fraction("variance", self.variance)

    @property
    def low(self) -> None:
        """No least value."""

    @property
    def high(self) -> None:
        """No largest value."""

    @property
    def log_ratio(self) -> None:
        """Nothing: the ratio of neighbours grows with k."""

    def log_step(self, k: int) -> Fraction:
        """Tell ln P[K = k] - ln P[K = k + 1] exactly."""
        return ((k + 1 if k >= -1 else -2 - k) ** 2 - (k if k >= 0 else -1 - k) ** 2) / (2 * self.variance)

    def _below(self, k: int, bits: int) -> Enclosure:
        if k == -1:  # exactly one half
            return Enclosure.of(Fraction(1, 2), bits=bits)
        sums = gaussian_sums(self.variance, bits)
        tail = sums.tail(-1 - k if k < 0 else k + 1) / (2 * sums.tail(0))
        return tail if k < 0 else 1 - tail


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianSums:
    """Bounds of the sums over j >= k of exp(-j^2 / (2 * variance)), for k = 0, 1, 2, ..., times 2**bits."""

    lows: tuple[int, ...]
    highs: tuple[int, ...]
    bits: int

    def tail(self, k: int) -> Enclosure:
        """Enclose the sum from k on; beyond the list it is less than the last one."""
        if k < len(self.lows):
            return Enclosure(self.lows[k], self.highs[k], self.bits)
        return Enclosure(0, self.highs[-1], self.bits)


EXTRA_BITS = 40  # of the terms: a million of them may each be off by a million units


@functools.lru_cache(maxsize=16)
def gaussian_sums(variance: Fraction, bits: int) -> GaussianSums:
    """Add up exp(-j^2 / (2 * variance)) from the far end, with directed rounding.

    Terms follow from each other: t(j+1) = t(j) r(j), r(j+1) = r(j) q, with t(0) = 1, r(0) = exp(-1/(2 variance)) and
    q = r(0)^2. The list ends at the first J with t(J) at most one unit; from there on ratios are at most r(J) < 1, so
    that the rest is at most t(J) / (1 - r(J)).
    """
    work = bits + EXTRA_BITS
    step = exp_minus(1 / (2 * variance), work)
    square = step * step
    low = high = 1 << work
    ratio_low, ratio_high = step.low, step.high
    lows, highs = [low], [high]
    while high > 1 << EXTRA_BITS:
        low, high = low * ratio_low >> work, -(-high * ratio_high >> work)
        ratio_low, ratio_high = ratio_low * square.low >> work, -(-ratio_high * square.high >> work)
        lows.append(low)
        highs.append(high)
    lows[-1], highs[-1] = low, -(-(high << work) // ((1 << work) - ratio_high))
    for j in range(len(lows) - 2, -1, -1):
        lows[j] += lows[j + 1]
        highs[j] += highs[j + 1]
    return GaussianSums(
        lows=tuple(sum_ >> EXTRA_BITS for sum_ in lows),
        highs=tuple(-(-sum_ >> EXTRA_BITS) for sum_ in highs),
        bits=bits,
    )


def require_exact(name: str, value: int | Fraction) -> None:
    """Refuse a parameter that is not a positive exact number: floats would round what is promised."""
    if not isinstance(value, int | Fraction) or value <= 0:
        raise ParameterError("{name} ({value}) must be a positive exact fraction", name=name, value=value)


def _require_fraction(name: str, value: Fraction) -> None:
    """Refuse integers too: the quotient of two of them would be a float."""
    if not isinstance(value, Fraction) or value <= 0:
        raise ParameterError("{name} ({value}) must be a positive exact fraction", name=name, value=value)


def _require_size(size: int) -> None:
    if size < 2:
        raise ParameterError("size ({size}) must be at least 2", size=size)
