"""Geometric noise for counts, two-sided and one-sided, at any exact rational scale.

Small scales are one table. A large scale is split exactly: a geometric value is a number whose binary digits are
independent, so that, with a = exp(-1/scale),

    X = 2^m * H + sum over digits i of 256^i * D_i

where H is two-sided geometric of ratio a^(2^m) and D_i is the difference of two geometric values of ratio a^(256^i)
truncated to one digit. Every factor is a small table. Proof: proofs/geometric.md
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from sudare.errors import ParameterError
from sudare.noise.laws import (
    DigitDifference,
    OneSidedGeometric,
    TruncatedGeometric,
    TwoSidedGeometric,
    require_exact,
)
from sudare.noise.machine import CHUNK, TableMachine, table_machine
from sudare.noise.rng import Rng
from sudare.noise.witness import watched
from sudare.schema.arrays import Integers

LARGEST_DIRECT_SCALE = 64  # beyond it a split into several tables is faster than one table with many cut cells
LARGEST_TOP_SCALE = 16  # of the table of H
DIGIT_BITS = 8  # of the tables of D
LARGEST_SCALE = 2**50  # noise of a larger scale could leave 64-bit integers
WORD_MAX = 2**63 - 1


@watched
def geometric(values: ArrayLike, *, epsilon: Fraction, sensitivity: int | Fraction, rng: Rng) -> Integers:
    """Add two-sided geometric noise to integer counts.

    P[Z = z] = (1-a)/(1+a) * a^|z|,  a = exp(-epsilon/sensitivity), independent for every count

    Guarantee: epsilon-DP for integer queries of L1 sensitivity at most `sensitivity`. Proof: proofs/geometric.md
    Error: unbiased, variance 2a/(1-a)^2 per count.
    Source: Ghosh, Roughgarden, Sundararajan, Universally utility-maximizing privacy mechanisms, 2012

    >>> from sudare.noise.rng import SeededRng
    >>> geometric([100, 0, 7], epsilon=Fraction(10), sensitivity=1, rng=SeededRng(1))
    array([100,   0,   7])
    """
    require_exact("epsilon", epsilon)
    require_exact("sensitivity", sensitivity)
    return add_geometric(values, scale=Fraction(sensitivity) / epsilon, rng=rng)


@watched
def add_geometric(values: ArrayLike, *, scale: Fraction, rng: Rng) -> Integers:
    """Add two-sided geometric noise of a scale to integer counts: P[Z = z] proportional to exp(-|z|/scale).

    Guarantee: (L1 sensitivity / scale)-DP. Proof: proofs/geometric.md

    >>> from sudare.noise.rng import SeededRng
    >>> add_geometric([100, 0, 7], scale=Fraction(1, 10), rng=SeededRng(1))
    array([100,   0,   7])
    """
    counts = as_counts(values)
    split = split_scale(scale)
    flat, noisy = counts.reshape(-1), np.empty(counts.size, dtype=np.int64)
    for piece in _cut_pieces(counts.size):
        split.sample_into(noisy[piece], rng)
        add_counts(flat[piece], noisy[piece])
    return noisy.reshape(counts.shape)


def geometric_noise(size: int, *, scale: Fraction, rng: Rng) -> Integers:
    """Draw independent two-sided geometric noise: P[Z = z] proportional to exp(-|z|/scale).

    >>> from sudare.noise.rng import SeededRng
    >>> geometric_noise(4, scale=Fraction(1, 1000), rng=SeededRng(1))
    array([0, 0, 0, 0])
    """
    return split_scale(scale).sample(size, rng)


def one_sided_noise(size: int, *, scale: Fraction, rng: Rng) -> Integers:
    """Draw independent values with P[G = k] = (1-a) a^k, k >= 0, a = exp(-1/scale).

    G = 2^m * H + sum of 256^i * D_i: H one-sided geometric of ratio a^(2^m), D_i geometric of ratio a^(256^i) truncated
    to one digit, all independent (the binary digits of a geometric value are).

    >>> from sudare.noise.rng import SeededRng
    >>> bool((one_sided_noise(1000, scale=Fraction(500), rng=SeededRng(1)) >= 0).all())
    True
    """
    return split_one_sided(scale).sample(size, rng)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleSplit:
    """The tables a scale is drawn from: X = 2**shift * top + sum of 2**place * digit."""

    top: TableMachine
    shift: int
    digits: tuple[tuple[int, TableMachine], ...]

    def sample(self, size: int, rng: Rng) -> Integers:
        """Draw `size` independent values."""
        drawn = np.empty(size, dtype=np.int64)
        for piece in _cut_pieces(size):
            self.sample_into(drawn[piece], rng)
        return drawn

    def sample_into(self, out: Integers, rng: Rng) -> None:
        """Overwrite `out` with independent draws."""
        self.top.sample_into(out, rng)
        if self.shift:
            _require_room(out, self.shift)
            np.left_shift(out, self.shift, out=out)
        part = np.empty_like(out)
        for place, digit in self.digits:
            digit.sample_into(part, rng)
            np.left_shift(part, place, out=part)
            np.add(out, part, out=out)


@functools.lru_cache(maxsize=128, typed=True)  # typed: 20.0 must not find what 20 left here
def split_scale(scale: Fraction) -> ScaleSplit:
    """Cut the scale of two-sided noise into tables: one up to 64, else a top of scale at most 16 and digits of 8 bits.

    >>> split_scale(Fraction(1000)).shift
    6
    """
    require_exact("scale", scale)
    if scale > LARGEST_SCALE:
        raise ParameterError("scale ({scale}) must be at most 2**50; raise epsilon", scale=scale)
    return _split(Fraction(scale), top=TwoSidedGeometric, digit=DigitDifference)


@functools.lru_cache(maxsize=128, typed=True)
def split_one_sided(scale: Fraction) -> ScaleSplit:
    """Cut the scale of one-sided noise into tables, as `split_scale` does.

    >>> split_one_sided(Fraction(1000)).shift
    6
    """
    return _split(scale, top=OneSidedGeometric, digit=TruncatedGeometric)


def _split(
    scale: Fraction,
    *,
    top: type[TwoSidedGeometric | OneSidedGeometric],
    digit: type[DigitDifference | TruncatedGeometric],
) -> ScaleSplit:
    shift = 0
    while scale > LARGEST_DIRECT_SCALE and scale > LARGEST_TOP_SCALE * 2**shift:
        shift += 1
    digits = []
    for place in range(0, shift, DIGIT_BITS):
        law = digit(scale=scale / 2**place, size=2 ** min(DIGIT_BITS, shift - place))
        digits.append((place, table_machine(law)))
    return ScaleSplit(top=table_machine(top(scale=scale / 2**shift)), shift=shift, digits=tuple(digits))


def geometric_variance(scale: Fraction | float) -> float:
    """Give the variance of the noise, 2a/(1-a)^2.

    >>> round(geometric_variance(Fraction(20)), 3)
    799.833
    """
    rate = 1 / float(scale)
    return 2 * math.exp(-rate) / math.expm1(-rate) ** 2


def geometric_probability(z: int, scale: Fraction | float) -> float:
    """Give P[Z = z] = (1-a)/(1+a) * a^|z|.

    >>> round(geometric_probability(0, Fraction(20)), 6)
    0.024995
    """
    rate = 1 / float(scale)
    return math.tanh(rate / 2) * math.exp(-abs(z) * rate)


def geometric_tail(z: int, scale: Fraction | float) -> float:
    """Give P[Z >= z]: a^z/(1+a) for z >= 1, else 1 - a^(1-z)/(1+a).

    >>> geometric_tail(1, Fraction(20)) + geometric_tail(0, Fraction(20))
    1.0
    """
    rate = 1 / float(scale)
    if z <= 0:
        return 1 - geometric_tail(1 - z, scale)
    return math.exp(-z * rate) / (1 + math.exp(-rate))


def _cut_pieces(size: int) -> Iterator[slice]:
    """Cut a long vector into pieces that stay in the cache."""
    return (slice(start, start + CHUNK) for start in range(0, size, CHUNK))


def add_counts(counts: Integers, noise: Integers) -> None:
    """Add counts to noise in place, and refuse a sum that 64 bits do not hold."""
    # Python's integers do not wrap: where the sums of the extremes fit, all sums do
    least, most = int(counts.min()) + int(noise.min()), int(counts.max()) + int(noise.max())
    if least < -WORD_MAX - 1 or most > WORD_MAX:
        total = counts + noise
        if np.any(((counts ^ total) & (noise ^ total)) < 0):  # a sum that wrapped has the sign that neither part has
            raise ParameterError("a count with its noise does not fit 64-bit integers; count in coarser units")
    np.add(noise, counts, out=noise)


def as_counts(values: ArrayLike) -> Integers:
    """Read counts as 64-bit integers; refuse what is none or does not fit."""
    counts = np.asarray(values)
    if counts.size and counts.dtype.kind not in "iu":
        raise ParameterError("values must be integers, not {kind}", kind=counts.dtype.name)
    if counts.dtype.kind == "u" and counts.size and int(counts.max()) > WORD_MAX:
        raise ParameterError("values must fit 64-bit integers; count in coarser units")
    return counts.astype(np.int64, copy=False)


def _require_room(top: Integers, shift: int) -> None:
    """Leave one bit for the digits, whose sum is less than 2**shift in size."""
    limit = WORD_MAX >> (shift + 1)
    if top.size and (int(top.max()) > limit or int(top.min()) < -limit):
        raise ParameterError("noise does not fit 64-bit integers; raise epsilon")
