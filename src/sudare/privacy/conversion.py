"""Concentrated privacy told as epsilon at a delta, and back: bounds that are proven, whatever floats would say.

rho-zCDP implies (epsilon, delta)-DP for every order alpha > 1 with

    epsilon = alpha * rho + log(1 - 1/alpha) + log(1 / (alpha * delta)) / (alpha - 1)

A good order is looked for with decimals; whether it is the best only decides how tight the bound is. The bound itself
is computed with fractions, every logarithm caught between two of them, and rounded to the safe side.

Source: Canonne, Kamath, Steinke 2020, Proposition 12 and Corollary 13. Proof: proofs/concentrated.md
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from math import isqrt

DIGITS = 6  # significant digits of a figure that is rounded to the safe side
RHO_DIGITS = 8  # of a rho: two more, so that it is told as the epsilon that was asked for
_BITS = 256  # of the enclosures: the smallest epsilon that is told is far above 2**-100
_SEARCH = Context(prec=40)
_SEARCH_STEPS = 80  # halvings of the logarithm of alpha - 1: some 20 digits; the bound errs by their square
_LEAST_ORDER = Decimal("1e-9")  # of alpha - 1; reached for a rho at which noise hides nothing


@functools.lru_cache(maxsize=4096)
def epsilon_at_delta(rho: Fraction, delta: Fraction) -> Fraction:
    """Tell the epsilon that rho-zCDP keeps at this delta, rounded up to six digits: never below the true bound.

    Guarantee: rho-zCDP implies (epsilon_at_delta(rho, delta), delta)-DP.

    >>> float(epsilon_at_delta(Fraction(1, 100), Fraction(1, 10**9)))
    0.810175
    """
    order = _best_order(rho, delta)
    bound = order * rho + _log_of_order(order) + _log_over_order(order, delta)
    return round_up(bound) if bound > 0 else Fraction(0)


@functools.lru_cache(maxsize=4096)
def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the largest rho, rounded down to eight digits, whose zCDP keeps (epsilon, delta).

    Guarantee: largest_rho(epsilon, delta)-zCDP implies (epsilon, delta)-DP.

    >>> largest_rho(Fraction(1), Fraction(1, 10**9))
    Fraction(14973057, 1000000000)
    """
    order = _order_for_epsilon(epsilon, delta)
    return round_down((epsilon - _log_of_order(order) - _log_over_order(order, delta)) / order, RHO_DIGITS)


def _log_of_order(order: Fraction) -> Fraction:
    """Bound log(1 - 1/order) from above."""
    return bound_log(1 - 1 / order)[1]


def _log_over_order(order: Fraction, delta: Fraction) -> Fraction:
    """Bound log(1 / (order * delta)) / (order - 1) from above."""
    return bound_log(1 / (order * delta))[1] / (order - 1)


# --- a good order ---------------------------------------------------------------------------------------------------


def _best_order(rho: Fraction, delta: Fraction) -> Fraction:
    """Find about the order with the least epsilon: there (alpha - 1)^2 * rho = log(1 / (alpha * delta)).

    The left side grows with alpha and the right side falls, so there is one such order, below 1 / delta.
    """
    wide = _to_decimal(rho)

    def is_above(beyond: Decimal, log_rest: Decimal) -> bool:
        return _SEARCH.multiply(_SEARCH.multiply(beyond, beyond), wide) > log_rest

    return _bisect(delta, is_above)


def _order_for_epsilon(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find about the order that is best for the rho sought: there epsilon = (2 alpha - 1) * rho + log(1 - 1/alpha)."""
    wanted = _to_decimal(epsilon)

    def is_above(beyond: Decimal, log_rest: Decimal) -> bool:
        rho = _SEARCH.divide(log_rest, _SEARCH.multiply(beyond, beyond))
        share = _SEARCH.divide(beyond, _SEARCH.add(beyond, Decimal(1)))
        kept = _SEARCH.add(
            _SEARCH.multiply(_SEARCH.add(_SEARCH.add(beyond, beyond), Decimal(1)), rho), _SEARCH.ln(share)
        )
        return kept < wanted

    return _bisect(delta, is_above)


def _bisect(delta: Fraction, is_above: Callable[[Decimal, Decimal], bool]) -> Fraction:
    """Halve the range of alpha - 1 between almost nothing and 1 / delta, in its logarithm."""
    log_delta = _SEARCH.ln(_to_decimal(delta))
    low, high = _LEAST_ORDER, _to_decimal(1 / delta - 1)
    for _ in range(_SEARCH_STEPS):
        middle = _SEARCH.sqrt(_SEARCH.multiply(low, high))
        log_rest = _SEARCH.minus(_SEARCH.add(log_delta, _SEARCH.ln(_SEARCH.add(middle, Decimal(1)))))
        low, high = (low, middle) if is_above(middle, log_rest) else (middle, high)
    return 1 + Fraction(Context(prec=20).plus(low))


def _to_decimal(number: Fraction) -> Decimal:
    return _SEARCH.divide(Decimal(number.numerator), Decimal(number.denominator))


# --- bounds ---------------------------------------------------------------------------------------------------------


def bound_log(value: Fraction) -> tuple[Fraction, Fraction]:
    """Catch the natural logarithm of a positive fraction between two fractions, by integer arithmetic alone.

    value = m * 2^k with m between 2/3 and 4/3, and log m = 2 artanh((m - 1) / (m + 1)).

    >>> low, high = bound_log(Fraction(10))
    >>> f"{float(low):.15f}", high - low < Fraction(1, 2**200)
    ('2.302585092994046', True)
    """
    twos = value.numerator.bit_length() - value.denominator.bit_length()
    rest = value / Fraction(2) ** twos
    if rest > Fraction(4, 3):
        rest, twos = rest / 2, twos + 1
    if rest < Fraction(2, 3):
        rest, twos = rest * 2, twos - 1
    low, high = _double_artanh((rest - 1) / (rest + 1))
    two_low, two_high = _double_artanh(Fraction(1, 3))
    corners = (twos * two_low, twos * two_high)
    return Fraction(low + min(corners), 1 << _BITS), Fraction(high + max(corners), 1 << _BITS)


def _double_artanh(z: Fraction) -> tuple[int, int]:
    """Bound 2**_BITS * 2 * artanh(z) for |z| <= 1/3: 2 * (z + z^3/3 + z^5/5 + ...).

    Every term is below a ninth of the one before, so that all that is left out is below the last term.
    """
    size, square = abs(z), z * z
    low = (size.numerator << _BITS) // size.denominator
    high, degree = low + 1, 1
    low_sum, high_sum = low, high
    while high > 1:
        degree += 2
        low = low * square.numerator // square.denominator
        high = -(-high * square.numerator // square.denominator)
        low_sum, high_sum = low_sum + low // degree, high_sum + high // degree + 1
    high_sum += 1
    return (2 * low_sum, 2 * high_sum) if z >= 0 else (-2 * high_sum, -2 * low_sum)


TANH_IS_ONE = 64  # from here on tanh is within 2**-180 of 1


def bound_tanh(x: Fraction) -> tuple[Fraction, Fraction]:
    """Catch tanh(x), x >= 0, between two fractions, by Lambert's fraction x / (1 + x^2 / (3 + x^2 / (5 + ...))).

    Every tail t_k = 2k+1 + x^2/t_(k+1) is at least 2k+1, which encloses a far one; from there back to the first the
    bounds are kept by integer arithmetic, rounded down and up.

    >>> low, high = bound_tanh(Fraction(1, 2))
    >>> f"{float(low):.15f}", high - low < Fraction(1, 2**200)
    ('0.462117157260010', True)
    """
    if x >= TANH_IS_ONE:
        return 1 - Fraction(1, 2**180), Fraction(1)
    one = 1 << _BITS
    square = x * x
    square_low = (square.numerator << _BITS) // square.denominator
    terms = 2 * int(x) + 80
    low, high = (2 * terms + 1) * one, (2 * terms + 2) * one + square_low // (2 * terms + 3)
    for k in range(terms - 1, -1, -1):
        odd = (2 * k + 1) * one
        low, high = odd + (square_low << _BITS) // high, odd - (-((square_low + 1) << _BITS) // low)
    return min(x * one / high, Fraction(1)), min(x * one / low, Fraction(1))


def round_up(number: Fraction, digits: int = DIGITS) -> Fraction:
    """Round a positive number up to so many significant digits.

    >>> float(round_up(Fraction(2, 3), 3)), round_up(Fraction(1, 2), 3)
    (0.667, Fraction(1, 2))
    """
    unit = _last_place(number, digits)
    return -(-number // unit) * unit


def round_down(number: Fraction, digits: int = DIGITS) -> Fraction:
    """Round a positive number down to so many significant digits.

    >>> float(round_down(Fraction(2, 3), 3)), round_down(Fraction(1, 2), 3)
    (0.666, Fraction(1, 2))
    """
    unit = _last_place(number, digits)
    return number // unit * unit


def _last_place(number: Fraction, digits: int) -> Fraction:
    """Tell the power of ten at the last of so many significant digits."""
    place = len(str(number.numerator)) - len(str(number.denominator))
    if Fraction(10) ** place > number:
        place -= 1
    return Fraction(10) ** (place - digits + 1)


def root_down(square: Fraction, digits: int = 12) -> Fraction:
    """Take the square root of a fraction: exactly where it is one, else rounded down.

    >>> root_down(Fraction(1, 4)), float(root_down(Fraction(2), 6))
    (Fraction(1, 2), 1.41421)
    """
    above, below = isqrt(square.numerator), isqrt(square.denominator)
    if above * above == square.numerator and below * below == square.denominator:
        return Fraction(above, below)
    wide = 1 << 128
    root = Fraction(isqrt(square.numerator * square.denominator * wide * wide), square.denominator * wide)
    return round_down(root, digits)
