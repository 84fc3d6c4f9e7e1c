"""Real numbers caught between two integers, to any precision, by integer arithmetic alone.

An `Enclosure` of b bits says: low <= v * 2**b <= high. Every operation rounds low down and high up, so that the true
value never leaves; asking for more bits narrows it. Nothing here depends on floats, on the machine or on a library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from sudare.errors import ParameterError

FIRST_GUARD_BITS = 16
MOST_GUARD_BITS = 2**24


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A real number v with low <= v * 2**bits <= high.

    >>> third = Enclosure.of(Fraction(1, 3), bits=8)
    >>> third
    Enclosure(low=85, high=86, bits=8)
    >>> 1 - third * third
    Enclosure(low=227, high=228, bits=8)
    """

    low: int
    high: int
    bits: int

    @classmethod
    def of(cls, value: Fraction | int, *, bits: int) -> Enclosure:
        """Enclose a rational number; exactly, if 2**bits times it is an integer."""
        top = value.numerator << bits
        return cls(top // value.denominator, -(-top // value.denominator), bits)

    def __add__(self, other: Enclosure | int) -> Enclosure:
        right = self._same(other)
        return Enclosure(self.low + right.low, self.high + right.high, self.bits)

    __radd__ = __add__

    def __sub__(self, other: Enclosure | int) -> Enclosure:
        right = self._same(other)
        return Enclosure(self.low - right.high, self.high - right.low, self.bits)

    def __rsub__(self, other: int) -> Enclosure:
        return self._same(other) - self

    def __mul__(self, other: Enclosure | int) -> Enclosure:
        right = self._same(other)
        corners = [left * end for left in (self.low, self.high) for end in (right.low, right.high)]
        return Enclosure(min(corners) >> self.bits, -(-max(corners) >> self.bits), self.bits)

    __rmul__ = __mul__

    def __truediv__(self, other: Enclosure | int) -> Enclosure:
        right = self._same(other)
        if right.low <= 0:
            raise ZeroDivisionError("the divisor is not known to be positive; ask for more bits")
        low, high = self.low << self.bits, self.high << self.bits
        least = low // (right.high if low >= 0 else right.low)
        most = -(-high // (right.low if high >= 0 else right.high))
        return Enclosure(least, most, self.bits)

    def __rtruediv__(self, other: int) -> Enclosure:
        return self._same(other) / self

    def __pow__(self, exponent: int) -> Enclosure:
        result, square = self._same(1), self
        while exponent:
            if exponent & 1:
                result = result * square
            square, exponent = square * square, exponent >> 1
        return result

    def _same(self, other: Enclosure | int) -> Enclosure:
        if isinstance(other, int):
            return Enclosure(other << self.bits, other << self.bits, self.bits)
        if other.bits != self.bits:
            raise ValueError("enclosures of different precision do not mix")
        return other


def enclose(evaluate: Callable[[int], Enclosure], bits: int, *, guard: int = FIRST_GUARD_BITS) -> tuple[int, int]:
    """Bound 2**bits * v by integers at most 2 apart, where evaluate(b) encloses v at b bits.

    Works with more bits than asked for until the result is narrow enough, at first with `guard` of them.

    >>> enclose(lambda bits: exp_minus(Fraction(1), bits) ** 2, 32)
    (581260615, 581260616)
    """
    while guard <= MOST_GUARD_BITS:
        try:
            wide = evaluate(bits + guard)
        except ZeroDivisionError:
            wide = None
        if wide is not None and wide.high - wide.low <= 1 << guard:
            return wide.low >> guard, -(-wide.high >> guard)
        guard *= 2
    raise ArithmeticError("the enclosure does not narrow")


def exp_minus(x: Fraction, bits: int) -> Enclosure:
    """Enclose exp(-x), x >= 0, by integers at most 2 apart; exactly for x = 0.

    exp(-x) = exp(-x / 2**r) ** (2**r): the Taylor series of the small argument, then r squarings. A squaring of a value
    below 1 at most doubles the width, which the guard bits pay for.

    >>> exp_minus(Fraction(1), 20)
    Enclosure(low=385749, high=385750, bits=20)
    """
    if x < 0:
        raise ParameterError("x ({x}) must be at least 0", x=x)
    if x == 0:
        return Enclosure(1 << bits, 1 << bits, bits)
    if x >= bits:  # exp(-x) < 2**-x
        return Enclosure(0, 1, bits)
    squarings = (x.numerator // x.denominator).bit_length() + isqrt(bits) // 2 + 2
    guard = squarings + bits.bit_length() + 6
    work = bits + guard
    low, high = _taylor(x / 2**squarings, work)
    for _ in range(squarings):
        low, high = (low * low) >> work, -((-high * high) >> work)
    return Enclosure(low >> guard, min(-(-high >> guard), 1 << bits), bits)


# constants of a law, asked for once per threshold
ratio = functools.lru_cache(maxsize=256)(exp_minus)


def _taylor(x: Fraction, bits: int) -> tuple[int, int]:
    """Bound 2**bits * exp(-x) for 0 < x < 1: the terms alternate and fall, so the rest is less than the last one."""
    low = high = term_low = term_high = 1 << bits
    degree = 0
    while term_high > 1:
        degree += 1
        below = x.denominator * degree
        term_low, term_high = term_low * x.numerator // below, -(-term_high * x.numerator // below)
        if degree % 2:
            low, high = low - term_high, high - term_low
        else:
            low, high = low + term_low, high + term_high
    return low - 1, high + 1
