"""Discrete Gaussian noise for counts, at any exact rational variance: the noise of concentrated differential privacy.

    P[Z = z] = exp(-z^2 / (2 variance)) / sum over all integers j of exp(-j^2 / (2 variance))

Small variances are one table. Of a large one the leading digits are proposed by a table, the others are drawn evenly,
and the proposal is accepted with the probability that makes the law exact:

    Z = sign * (2^m C + L),   (sign, C) from `MirroredGaussian` of variance / 4^m,   L uniform in [0, 2^m),
    accepted with probability exp(-L (2^(m+1) C + L) / (2 variance)), but never as -0.

Nearly all proposals are accepted, and nearly all of these by one 16-bit word. Proof: proofs/gaussian.md
Source: Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, 2020; the rejection: Karney 2016.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.errors import ParameterError
from sudare.noise.enclosure import exp_minus
from sudare.noise.geometric import add_counts, as_counts
from sudare.noise.laws import DiscreteGaussian, MirroredGaussian, require_exact
from sudare.noise.machine import CELL_BITS, CHUNK, TableMachine, table_machine
from sudare.noise.rng import WORD_BITS, LazyUniform, Rng
from sudare.noise.witness import watched
from sudare.schema.arrays import Booleans, Integers

Words = NDArray[np.uint16]
Exponent = Callable[[int], Fraction]  # of the flip at a place, exactly

LARGEST_DIRECT_VARIANCE = 512**2  # beyond it a split is faster than one table with many cut cells
LARGEST_TOP_VARIANCE = 256**2  # of the table of the leading digits
LARGEST_VARIANCE = 2**98  # noise of a larger one could leave 64-bit integers
NONE = np.empty(0, dtype=np.int64)
FINE_BITS = 24  # of the uniform digits: those that bound the chance to accept; the rest is looked at if they do not do


@watched
def add_gaussian(values: ArrayLike, *, variance: Fraction, rng: Rng) -> Integers:
    """Add discrete Gaussian noise to integer counts, independent for every count.

    P[Z = z] proportional to exp(-z^2 / (2 variance))

    Guarantee: rho-zCDP with rho = s^2 / (2 variance) for integer queries of L2 sensitivity s. Proof: proofs/gaussian.md
    Error: unbiased, variance at most `variance` per count, and nearly so from 1 on.
    Source: Canonne, Kamath, Steinke 2020, theorem 4

    >>> from sudare.noise.rng import SeededRng
    >>> add_gaussian([100, 0, 7], variance=Fraction(1, 100), rng=SeededRng(1))
    array([100,   0,   7])
    """
    counts = as_counts(values)
    flat = counts.reshape(-1)
    noisy = split_variance(variance).sample(counts.size, rng)
    for piece in _cut_pieces(counts.size):
        add_counts(flat[piece], noisy[piece])
    return noisy.reshape(counts.shape)


def gaussian_noise(size: int, *, variance: Fraction, rng: Rng) -> Integers:
    """Draw independent discrete Gaussian noise: P[Z = z] proportional to exp(-z^2 / (2 variance)).

    >>> from sudare.noise.rng import SeededRng
    >>> gaussian_noise(4, variance=Fraction(1, 1000), rng=SeededRng(1))
    array([0, 0, 0, 0])
    """
    return split_variance(variance).sample(size, rng)


# --- large variances --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class VarianceSplit:
    """How a variance is drawn: one table (`shift` 0), or leading digits from it and `shift` uniform binary digits.

    `sure` holds a 16-bit bound for every k, with k = 0 in the middle: words below it accept whatever the uniform digits
    are. It is 0 at both ends, for all that lie beyond, and for c = 0, where -0 is refused.
    """

    variance: Fraction
    top: TableMachine
    shift: int
    sure: Words

    def sample(self, size: int, rng: Rng) -> Integers:
        """Draw `size` independent values."""
        drawn = np.empty(size, dtype=np.int64)
        doubtful = [self._propose(drawn, piece, rng) for piece in _cut_pieces(size)]
        if not self.shift or not size:
            return drawn
        places, tops, lows, words = (np.concatenate(parts) for parts in zip(*doubtful, strict=True))
        missing = places[~self._accept_either(tops, lows, words, rng)]
        if missing.size:
            drawn[missing] = self.sample(missing.size, rng)  # anew, leading digits and all
        return drawn

    def _propose(self, drawn: Integers, piece: slice, rng: Rng) -> tuple[Integers, Integers, Integers, Words]:
        """Draw the values of a piece; give places, leading digits, uniform digits and words of those in doubt.

        For k >= 0 the value is 2^m k + L; for k < 0 it is -(2^m (-1 - k) + L), which is 2^m k + L' + 1 with
        L' = 2^m - 1 - L, as uniform as L.
        """
        out = drawn[piece]
        self.top.sample_into(out, rng)
        if not self.shift:
            return NONE, NONE, NONE, np.empty(0, dtype=np.uint16)
        digits = _draw_digits(out.size, self.shift, rng)
        words = rng.words16(out.size)
        is_doubtful = words >= np.take(self.sure, out + self.sure.size // 2, mode="clip")
        places = np.flatnonzero(is_doubtful)
        tops = out[places]
        digits_in_doubt = digits[places]
        digits += out < 0
        np.left_shift(out, self.shift, out=out)
        np.add(out, digits, out=out)
        return places + piece.start, tops, digits_in_doubt, words[places]

    def _accept_either(self, tops: Integers, lows: Integers, words: Words, rng: Rng) -> Booleans:
        """Accept proposals of either sign, but never -0."""
        is_negative = tops < 0
        tops, lows = np.where(is_negative, ~tops, tops), np.where(is_negative, 2**self.shift - 1 - lows, lows)
        _require_room(tops, self.shift)  # all that lie beyond the bounds come here
        is_accepted: Booleans = self._accept(tops, lows, words, rng) & ~(is_negative & (tops == 0) & (lows == 0))
        return is_accepted

    def _accept(self, top: Integers, low: Integers, words: Words, rng: Rng) -> Booleans:
        """Accept with probability exp(-low * (2^(shift+1) * top + low) / (2 variance)); 16 bits are drawn already."""
        cut = max(0, self.shift - FINE_BITS)
        fine, ends = low >> cut, (low >> cut) + (1 if cut else 0)
        whole = top << (self.shift - cut + 1)
        unit = Fraction(4**cut) / (2 * self.variance)

        def exponent(place: int) -> Fraction:
            digits = int(low[place])
            return digits * ((int(top[place]) << (self.shift + 1)) + digits) / (2 * self.variance)

        return _decide_flips(fine * (whole + fine), ends * (whole + ends), unit, exponent, words, rng)


def check_variance(variance: Fraction) -> None:
    """Refuse a variance that is not exact, or whose noise would not fit 64 bits."""
    require_exact("variance", variance)
    if variance > LARGEST_VARIANCE:
        raise ParameterError("the noise has a standard deviation beyond 2**49; raise rho or epsilon")


@functools.lru_cache(maxsize=128, typed=True)
def split_variance(variance: Fraction) -> VarianceSplit:
    """Find how a variance is drawn: by one table up to a deviation of 512, else by a table of 128 to 256 and digits.

    >>> split_variance(Fraction(1_000_000)).shift
    2
    """
    check_variance(variance)
    exact, shift = Fraction(variance), 0
    while exact > LARGEST_DIRECT_VARIANCE and exact > LARGEST_TOP_VARIANCE * 4**shift:
        shift += 1
    if not shift:
        sure = np.zeros(1, dtype=np.uint16)
        return VarianceSplit(variance=exact, top=table_machine(DiscreteGaussian(variance=exact)), shift=0, sure=sure)
    top = table_machine(MirroredGaussian(variance=exact / 4**shift))
    return VarianceSplit(variance=exact, top=top, shift=shift, sure=_bound_sure(exact, shift, len(top.floors) // 2))


def _bound_sure(variance: Fraction, shift: int, size: int) -> Words:
    """Bound 2**16 times the chance to accept from below, by the largest digits, for every k from -size to size - 1."""
    most = 2**shift - 1
    bounds = [
        exp_minus(most * ((c << (shift + 1)) + most) / (2 * variance), 2 * CELL_BITS).low >> CELL_BITS
        for c in range(1, size - 1)
    ]
    capped = [min(bound, 2**CELL_BITS - 1) for bound in bounds]
    return np.array([0, *capped[::-1], 0, 0, *capped, 0], dtype=np.uint16)


def _draw_digits(size: int, bits: int, rng: Rng) -> Integers:
    """Draw numbers uniform in [0, 2**bits)."""
    if bits <= CELL_BITS:
        return (rng.words16(size) >> np.uint16(CELL_BITS - bits)).astype(np.int64)
    return (rng.words64(size) >> np.uint64(WORD_BITS - bits)).astype(np.int64)


def _require_room(top: Integers, shift: int) -> None:
    limit = (2**63 - 1) >> (shift + 1)
    if top.size and int(top.max()) > limit:
        raise ParameterError("noise does not fit 64-bit integers; raise rho or epsilon")


def _cut_pieces(size: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, size, CHUNK))


# --- yes with probability exp(-x), for many x at once -----------------------------------------------------------------

DIGIT_BITS = 11  # of the exponent n: exp(-unit * n) is the product of a bound for each digit
FACTOR_BITS = 31  # of each bound: a product of two fits 62 bits
FLIP_BITS = 2 * FACTOR_BITS
POWER_BITS = 128


def flip_each(numbers: Integers, unit: Fraction, rng: Rng) -> Booleans:
    """Say yes with probability exp(-unit * n) for every n >= 0 of `numbers`, exactly.

    >>> from sudare.noise.rng import SeededRng
    >>> flip_each(np.array([0, 10**6]), Fraction(1), SeededRng(1)).tolist()
    [True, False]
    """
    words = rng.words16(numbers.size)
    return _decide_flips(numbers, numbers, unit, lambda place: int(numbers[place]) * unit, words, rng)


def _decide_flips(
    least: Integers, most: Integers, unit: Fraction, exponent: Exponent, words: Words, rng: Rng
) -> Booleans:
    """Say yes with probability exp(-exponent(place)), which lies between unit * least and unit * most.

    Bounds decide nearly all, in 62 bits of which the first 16 are `words`; exact arithmetic decides the rest.
    """
    if not least.size:
        return np.zeros(0, dtype=bool)
    more = rng.words64(words.size) >> np.uint64(WORD_BITS - FLIP_BITS + CELL_BITS)
    longer = words.astype(np.uint64) << np.uint64(FLIP_BITS - CELL_BITS) | more
    is_yes: Booleans = longer < _bound_exp(most, unit, up=False)
    for place in np.flatnonzero(~is_yes & (longer < _bound_exp(least, unit, up=True))):
        uniform = LazyUniform(rng, word=int(longer[place]), bits=FLIP_BITS)
        is_yes[place] = uniform.is_below_exp(exponent(int(place)))
    return is_yes


def _bound_exp(numbers: Integers, unit: Fraction, *, up: bool) -> NDArray[np.uint64]:
    """Bound 2**62 * exp(-unit * n) from below or from above, digit by digit."""
    places = max(2, -(-int(numbers.max()).bit_length() // DIGIT_BITS))
    mask, carry, one = 2**DIGIT_BITS - 1, np.uint64(up), np.uint64(FACTOR_BITS)
    product = np.full(numbers.size, 2**FACTOR_BITS, dtype=np.uint64)
    for place, factors in enumerate(_bound_digits(unit, places)[up]):
        product = product * factors[(numbers >> (DIGIT_BITS * place)) & mask]
        if place < places - 1:
            product = (product >> one) + carry  # at most 2**31 + 1: no product leaves 63 bits
    return product


@functools.lru_cache(maxsize=64)
def _bound_digits(unit: Fraction, places: int) -> tuple[list[NDArray[np.uint64]], list[NDArray[np.uint64]]]:
    """Bound 2**31 * exp(-unit * 2048**place * k) from below and above, for every place and digit k."""
    bounds = [_bound_powers(unit * 2 ** (DIGIT_BITS * place)) for place in range(places)]
    return [low for low, _ in bounds], [high for _, high in bounds]


def _bound_powers(rate: Fraction) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Bound 2**31 * exp(-rate * k) from below and above, for every digit k."""
    shift = POWER_BITS - FACTOR_BITS
    step = exp_minus(rate, POWER_BITS)
    low = high = 1 << POWER_BITS
    lows, highs = [], []
    for _ in range(2**DIGIT_BITS):
        lows.append(low >> shift)
        highs.append(-(-high >> shift))
        low, high = low * step.low >> POWER_BITS, -(-high * step.high >> POWER_BITS)
    return np.array(lows, dtype=np.uint64), np.array(highs, dtype=np.uint64)


# --- floats about the law, for previews and tests; no draw uses them --------------------------------------------------

SMOOTH_VARIANCE = 900.0  # from a deviation of 30 on, sums over integers are integrals with one correction, to 1e-8
REACH = 12  # standard deviations: what lies beyond has a mass of 1e-32


def gaussian_variance(variance: Fraction | float) -> float:
    """Give the variance of the noise: that of the name, and less below 1, where nearly all noise is 0.

    >>> round(gaussian_variance(Fraction(20)), 3), round(gaussian_variance(Fraction(1, 4)), 3)
    (20.0, 0.215)
    """
    nominal = float(variance)
    if nominal > REACH:
        return nominal
    squares = np.arange(REACH * (1 + math.isqrt(REACH)) + 1, dtype=np.float64) ** 2
    weights = np.exp(-squares / (2 * nominal))
    return float(2 * (squares * weights).sum() / (2 * weights.sum() - 1))


def gaussian_probability(z: int, variance: Fraction | float) -> float:
    """Give P[Z = z].

    >>> round(gaussian_probability(0, Fraction(1)), 6)
    0.398942
    """
    nominal = float(variance)
    return math.exp(max(-z * z / (2 * nominal), -745.0)) / _normaliser(nominal)


def gaussian_tail(z: int, variance: Fraction | float) -> float:
    """Give P[Z >= z].

    >>> round(gaussian_tail(1, Fraction(1)) + gaussian_tail(0, Fraction(1)), 12)
    1.0
    """
    nominal = float(variance)
    if z <= 0:
        return 1 - gaussian_tail(1 - z, nominal)
    deviation = math.sqrt(nominal)
    if nominal < SMOOTH_VARIANCE:
        places = np.arange(z, z + 2 + REACH * math.ceil(deviation + 1), dtype=np.float64)
        return float(np.exp(-(places**2) / (2 * nominal)).sum()) / _normaliser(nominal)
    start = z - 0.5
    density = math.exp(max(-start * start / (2 * nominal), -745.0)) / (deviation * math.sqrt(2 * math.pi))
    return math.erfc(start / deviation / math.sqrt(2)) / 2 - start / nominal * density / 24


@functools.lru_cache(maxsize=64)
def _normaliser(nominal: float) -> float:
    if nominal > REACH:
        return math.sqrt(2 * math.pi * nominal)  # off by a share of 2 exp(-2 pi^2 nominal), less than 1e-100
    places = np.arange(1, REACH * (1 + math.isqrt(REACH)) + 1, dtype=np.float64)
    return float(1 + 2 * np.exp(-(places**2) / (2 * nominal)).sum())
