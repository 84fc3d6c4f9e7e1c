"""One yes or no with the probability share * exp(-(beta * distance - shift)), exactly; many of them, fast.

Distances are square roots of rational numbers (a plane) or rational numbers (a road network), so a probability is never
a number that a machine holds. A float decides where it is far enough from the random word; where it is not, integers
that enclose the probability and bits that are drawn as needed decide. Proof: proofs/location-sampling.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms.enclosure import Enclosure, exp_minus
from sudare.mechanisms.rng import Rng
from sudare.mechanisms.uniform import LazyUniform

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WORD_BITS = 64
MARGIN = 2.0**-28  # a float this far from the word decides; the proof bounds the float's error by 2**-30
LARGEST_EXPONENT = 2.0**14  # beyond it the error of a float exponent is not bounded well enough: integers decide


@dataclass(frozen=True, kw_only=True, slots=True)
class Chance:
    """The probability share * exp(-(beta * sqrt(square) - shift)), a number of [0, 1], known exactly.

    `share`, `beta`, `square` and `shift` are rational; shift is at most beta * sqrt(square).

    >>> Chance(share=Fraction(1, 2), beta=Fraction(1), square=Fraction(4), shift=Fraction(1)).bounds(20)
    (192874, 192875)
    """

    share: Fraction
    beta: Fraction
    square: Fraction
    shift: Fraction = Fraction(0)

    def bounds(self, bits: int) -> tuple[int, int]:
        """Enclose 2**bits times the probability by integers; more bits bring them relatively closer."""
        work = bits + 8
        low, high = self._exponents(work + max(0, self.beta.numerator.bit_length()))
        least, most = exp_minus(high, work).low, exp_minus(low, work).high
        chance = Enclosure(least, most, work) * Enclosure.of(self.share, bits=work)
        return chance.low >> 8, -(-chance.high >> 8)

    def _exponents(self, bits: int) -> tuple[Fraction, Fraction]:
        """Catch beta * sqrt(square) - shift between two rational numbers, the lower one at least 0."""
        root = isqrt((self.square.numerator << (2 * bits)) // self.square.denominator)
        low = self.beta * Fraction(root, 1 << bits) - self.shift
        is_square = root * root * self.square.denominator == self.square.numerator << (2 * bits)
        high = low if is_square else self.beta * Fraction(root + 1, 1 << bits) - self.shift
        return max(low, Fraction(0)), max(high, Fraction(0))

    def is_met(self, uniform: LazyUniform) -> bool:
        """Say yes with this probability."""
        return uniform.is_below(self.bounds)


def decide(
    guesses: Floats, exponents: Floats, exact: Callable[[int], Chance], rng: Rng, *, margin: float = MARGIN
) -> NDArray[np.bool_]:
    """Say yes with probability exact(i), for every i at once.

    `guesses` are floats near the probabilities, `exponents` the sizes of the sums that were exponentiated. A 64-bit
    word that lies further than `margin` from the guess is decided; the others keep their word as the first bits of a
    uniform number that is compared exactly. `margin` is an argument so that tests can send every draw the exact way.

    >>> from sudare.mechanisms.rng import SeededRng
    >>> decide(np.array([1.0, 0.0]), np.zeros(2), lambda i: Chance(
    ...     share=Fraction(1 - i), beta=Fraction(1), square=Fraction(0)), SeededRng(1)).tolist()
    [True, False]
    """
    words = rng.words64(len(guesses))
    gaps = guesses - words * 2.0**-WORD_BITS
    met: NDArray[np.bool_] = gaps > margin
    for place in np.flatnonzero(~(np.abs(gaps) > margin) | (exponents > LARGEST_EXPONENT)).tolist():
        uniform = LazyUniform(rng, word=int(words[place]), bits=WORD_BITS)
        met[place] = exact(place).is_met(uniform)
    return met
