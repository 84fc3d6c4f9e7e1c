"""Standard normal numbers, exactly: real numbers of which 64 bits are known, and more where somebody asks.

    X = sign * (c + F),   (sign, c) from `MirroredGaussian` of variance 1,   F uniform in [0, 1),
    accepted with probability exp(-F (2c + F) / 2)

is exp(-(c + F)^2 / 2) by completing the square (Karney 2016, as in gaussian.py, with all digits behind the point). Of F
64 bits are drawn. The proposal is accepted or refused for all values that its other bits can have, so these stay even
and independent, and may be drawn later: the sum of what is known and what is not is a normal number, of no finite
precision. Floats decide only where a margin far beyond their errors is left; all else is decided by enclosures.
Proof: proofs/matrix.md
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.noise.enclosure import exp_minus
from sudare.noise.laws import MirroredGaussian
from sudare.noise.machine import table_machine
from sudare.noise.rng import FIRST_BITS, LazyUniform, Rng
from sudare.schema.arrays import Booleans, Integers, Reals

Words = NDArray[np.uint64]

UNIT_LAW = MirroredGaussian(variance=Fraction(1))
ACCEPT_MARGIN = 2.0**-40  # of a probability: the floats below are off by less than 2**-44
LARGEST_FLOAT_WHOLE = 2**16  # whole parts for which that bound is shown; larger ones have a chance of exp(-2**31)


class LazyNormals:
    """Independent standard normal numbers in a row; `bits` behind the point are known, for every number at least 64.

    >>> from sudare.noise.rng import SeededRng
    >>> normals = LazyNormals(2, SeededRng(1))
    >>> normals.floats().tolist() == [y / 2**129 for y in normals.middles([0, 1], 128)]
    True
    """

    __slots__ = ("_more", "_rng", "_wholes", "_words")

    def __init__(self, size: int, rng: Rng, *, margin: float = ACCEPT_MARGIN) -> None:
        self._rng = rng
        self._wholes: Integers = np.empty(size, dtype=np.int64)  # c with +, -1-c with -
        self._words: Words = np.empty(size, dtype=np.uint64)  # the first 64 bits of F
        self._more: dict[int, LazyUniform] = {}  # F of numbers of which more is known
        missing = np.arange(size)
        while missing.size:
            missing = missing[~self._propose(missing, margin)]

    def _propose(self, places: Integers, margin: float) -> Booleans:
        """Draw numbers anew; tell which of them are accepted."""
        wholes = table_machine(UNIT_LAW).sample(places.size, self._rng)
        words, levels = self._rng.words64(places.size), self._rng.words64(places.size)
        self._wholes[places], self._words[places] = wholes, words
        sizes = _drop_signs(wholes)
        parts = _as_shares(words)
        gaps = np.exp(-parts * (2 * sizes + parts) / 2) - _as_shares(levels)
        is_accepted: Booleans = gaps > 0
        is_clear = (np.abs(gaps) > margin) & (sizes < LARGEST_FLOAT_WHOLE)
        for at in np.flatnonzero(~is_clear):
            digits = LazyUniform(self._rng, word=int(words[at]), bits=FIRST_BITS)
            level = LazyUniform(self._rng, word=int(levels[at]), bits=FIRST_BITS)
            is_accepted[at] = accept_exactly(int(sizes[at]), digits, level)
            if is_accepted[at] and digits.bits > FIRST_BITS:
                self._more[int(places[at])] = digits
        return is_accepted

    def floats(self) -> Reals:
        """Give the nearest floats, about: off by less than 2**-46 below 16. Nothing may rest on their last bits."""
        sizes = _drop_signs(self._wholes) + _as_shares(self._words)
        return np.where(self._wholes < 0, -sizes, sizes)

    def middles(self, places: Any, bits: int) -> NDArray[np.object_]:
        """Give 2**(bits+1) times the middles of what `bits` bits leave open, as integers: off by at most 1.

        Bits that are not known yet are drawn; `bits` is 64 times a power of two.
        """
        known = np.array([self._first_bits(int(place), bits) for place in places], dtype=object)
        wholes = self._wholes[places]
        sizes = (_drop_signs(wholes).astype(object) << (bits + 1)) + 2 * known + 1
        middles: NDArray[np.object_] = np.where(wholes < 0, -sizes, sizes)
        return middles

    def _first_bits(self, place: int, bits: int) -> int:
        word = int(self._words[place])
        if bits == FIRST_BITS:
            return word
        digits = self._more.setdefault(place, LazyUniform(self._rng, word=word, bits=FIRST_BITS))
        digits.refine(bits)
        return digits.word >> (digits.bits - bits)


def accept_exactly(whole: int, digits: LazyUniform, level: LazyUniform) -> bool:
    """Tell whether U < exp(-F (2c + F) / 2), for all values that the unknown bits of F and U can have.

    U is `level`, F is `digits`, and both get more bits until it is the same for all of them.

    >>> from sudare.noise.rng import SeededRng
    >>> accept_exactly(0, LazyUniform(SeededRng(1), word=0, bits=64), LazyUniform(SeededRng(1), word=0, bits=64))
    True
    """
    while True:
        bits = digits.bits
        level.refine(bits)
        if level.word + 1 <= exp_minus(_exponent(whole, digits.word + 1, bits), bits).low:
            return True
        if level.word >= exp_minus(_exponent(whole, digits.word, bits), bits).high:
            return False
        digits.refine(2 * bits)


def _exponent(whole: int, word: int, bits: int) -> Fraction:
    part = Fraction(word, 1 << bits)
    return part * (2 * whole + part) / 2


def _drop_signs(wholes: Integers) -> Integers:
    return np.where(wholes < 0, ~wholes, wholes)


def _as_shares(words: Words) -> Reals:
    return words.astype(np.float64) * 2.0**-FIRST_BITS
