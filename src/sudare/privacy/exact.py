"""Numbers as the steward wrote them: exact fractions, never rounded floats.

A budget is a sum, and a sum of floats drifts: ten times 0.1 is not 1. So every privacy parameter becomes a
Fraction on entry, and "0.1" means one tenth.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from numbers import Integral

from sudare.errors import ParameterError
from sudare.forms.numbers import MAX_DIGITS, parse_exact, plain

Number = str | int | float | Fraction | Decimal

EPSILON_LOW = Fraction(1, 10**6)
EPSILON_HIGH = Fraction(1000)
RHO_LOW, RHO_HIGH = Fraction(1, 10**16), Fraction(1000)
DELTA_LOW, DELTA_HIGH = Fraction(1, 10**30), Fraction(1, 100)
_FEWEST_ZEROS = 4  # of a power of ten that is written as one
_LARGEST_SHORT = 1000  # a denominator up to which a fraction is easier to read than a decimal
_MOST_SHOWN = 40  # characters of a value that an error shows
_MOST_SHOWN_BITS = 128  # of a number that an error shows in full


def exact(value: Number, *, name: str, low: Fraction, high: Fraction) -> Fraction:
    """Read a parameter as the exact number that was written, and check its range.

    Text is a fraction ("1/2") or a decimal ("0.1", ".5", "1e-3"); a float is taken by its shortest text, so
    that 0.1 is one tenth and not the binary number next to it. Both ends of the range belong to it.

    Error: ParameterError in one line that names the parameter, what was given and the range.

    >>> exact("0.1", name="share", low=Fraction(0), high=Fraction(1))
    Fraction(1, 10)
    >>> exact(0.1, name="share", low=Fraction(0), high=Fraction(1))
    Fraction(1, 10)
    """
    number = parse_exact(value)
    given = {"name": name, "value": _show(value), "low": low, "high": high}
    if number is None:
        raise ParameterError("{name} ({value}) must be a number between {low} and {high}, such as 1/2 or 0.1", **given)
    if not low <= number <= high:
        raise ParameterError("{name} ({value}) must be between {low} and {high}", **given)
    if number.denominator >= 10**MAX_DIGITS:
        raise ParameterError(
            "{name} ({value}) must be a simpler fraction, of at most {digits} digits",
            digits=MAX_DIGITS,
            **given,
        )
    return number


def exact_epsilon(value: Number) -> Fraction:
    """Read an epsilon, between one millionth (noise drowns everything) and 1000 (noise hides nothing).

    >>> exact_epsilon("1/2")
    Fraction(1, 2)
    >>> exact_epsilon(0)
    Traceback (most recent call last):
    sudare.errors.ParameterError: epsilon (0) must be between 1/1000000 and 1000
    """
    return exact(value, name="epsilon", low=EPSILON_LOW, high=EPSILON_HIGH)


def exact_rho(value: Number) -> Fraction:
    """Read a rho, between 10^-16 (noise drowns everything) and 1000 (noise hides nothing).

    >>> exact_rho("0.05")
    Fraction(1, 20)
    """
    return exact(value, name="rho", low=RHO_LOW, high=RHO_HIGH)


def exact_delta(value: Number) -> Fraction:
    """Read a delta, between 10^-30 and 1/100: the chance at which epsilon may fail is never one in a few.

    >>> exact_delta("1e-9") == Fraction(1, 10**9)
    True
    """
    return exact(value, name="delta", low=DELTA_LOW, high=DELTA_HIGH)


def write_exact(number: Fraction) -> str:
    """Write a fraction as people read it and `exact` reads it back: as a short decimal or power of ten if it is one.

    >>> [write_exact(Fraction(1, number)) for number in (2, 3, 10**9)], write_exact(Fraction(14973, 10**6))
    (['1/2', '1/3', '1e-9'], '0.014973')
    """
    zeros = len(str(number.denominator)) - 1
    if number.numerator == 1 and zeros >= _FEWEST_ZEROS and number.denominator == 10**zeros:
        return f"1e-{zeros}"
    if number.denominator <= _LARGEST_SHORT:
        return str(number)
    rest = number.denominator
    places = next((count for count in range(_MOST_SHOWN) if 10**count % rest == 0), None)
    if places is None:
        return str(number)
    whole, part = divmod(number.numerator * (10**places // rest), 10**places)
    return f"{whole}.{part:0{places}d}"


def _show(value: object) -> str:
    """Show a value in at most 40 characters; of a foreign object only its type, it may hold data."""
    if isinstance(value, Fraction | Integral) and not isinstance(value, bool):
        return _show_number(plain(Fraction(value)))
    if not isinstance(value, str | float | Decimal | bool | None):
        return type(value).__name__
    text = value if isinstance(value, str) else str(value)
    start = "".join(letter if letter.isprintable() else "?" for letter in text[:_MOST_SHOWN])
    return start if len(text) <= _MOST_SHOWN else start + "…"


def _show_number(number: Fraction) -> str:
    """Show a number; one of many digits by its size, since Python refuses to print over 4300 of them."""
    above, below = number.numerator.bit_length(), number.denominator.bit_length()
    if max(above, below) <= _MOST_SHOWN_BITS:
        return str(number)
    sign = "-" if number < 0 else ""
    return f"{sign}2^{above}" if below == 1 else f"{sign}2^{above}/2^{below}"
