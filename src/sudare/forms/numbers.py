"""Numbers as people write them, exact and never rounded, and the kinds of them: whole, exact, plain, seconds.

"0.1" means one tenth and "1/2" one half, also when typed in full width (１／２). A float is taken by its shortest text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any

from sudare.forms.kind import Kind, Unfit
from sudare.text import Text, text

# Long enough for every float and every number a person types; short enough that sums of them stay cheap.
MAX_CHARACTERS = 100
MAX_DIGITS = 60
MOST_PLACES = 30  # digits before or behind the point of a plain number; beyond them it is a slip of the pen

_FRACTION = re.compile(r"([+-]?[0-9]+)\s*/\s*([0-9]+)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
# A plain shift of the full-width forms of ASCII, so that "1²" stays no number, as str.isdigit would not have it.
HALF_WIDTH = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}


def parse_exact(value: object) -> Fraction | None:
    """Give the exact number that was written, or None for what is no finite number of a sensible length.

    >>> parse_exact("1/2"), parse_exact(0.1), parse_exact("1e-3"), parse_exact("１／２")
    (Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000), Fraction(1, 2))
    >>> parse_exact("x"), parse_exact("1/0"), parse_exact(True)
    (None, None, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, Fraction):
        return plain(value)
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, float):
        return _parse_text(float.__repr__(value))  # NumPy's own repr is "np.float64(0.1)"
    if isinstance(value, Decimal):
        return _parse_text(str(value))  # Fraction(Decimal("1e999999999")) would fill the memory
    if isinstance(value, str):
        return _parse_text(value)
    return None


def plain(number: Fraction) -> Fraction:
    """Give the fraction with Python's own integers: one made of NumPy's would overflow without a word.

    >>> plain(Fraction(1, 2))
    Fraction(1, 2)
    """
    return Fraction(int(number.numerator), int(number.denominator))


def _parse_text(text: str) -> Fraction | None:
    if len(text) > MAX_CHARACTERS:
        return None
    text = text.translate(HALF_WIDTH).strip()
    if ratio := _FRACTION.fullmatch(text):
        above, below = int(ratio[1]), int(ratio[2])
        return Fraction(above, below) if below else None
    return Fraction(text) if _DECIMAL.fullmatch(text) else None


@dataclass(frozen=True, kw_only=True)
class WholeNumber(Kind):
    """A whole number; both ends of the range belong to it. With `takes_text` it may stand in quotes.

    >>> WholeNumber(low=1).read(5), WholeNumber().parse("７")
    (5, 7)
    """

    low: int | None = None
    high: int | None = None
    takes_text: bool = False
    example: str = "5"

    def read(self, value: Any) -> int:
        """Take what is whole by its type: 5.0 and true are not."""
        if self.takes_text and isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise Unfit(self, value)
        number = int(value.__index__())
        if (self.low is not None and number < self.low) or (self.high is not None and number > self.high):
            raise Unfit(self, value)
        return number

    def parse(self, written: str) -> int:
        """Take decimal digits."""
        number = parse_exact(written)
        if number is None or number.denominator != 1:
            raise Unfit(self, written)
        return self.read(int(number))

    def describe(self) -> Text:
        """Name the range."""
        bounds = {"low": self.low, "high": self.high}
        if self.low is None:
            return text("a whole number") if self.high is None else text("a whole number up to {high}", **bounds)
        if self.high is None:
            return text("a whole number of at least {low}", **bounds)
        return text("a whole number from {low} to {high}", **bounds)

    def json_schema(self) -> dict[str, Any]:
        """Describe it as an integer."""
        limits = {"minimum": self.low, "maximum": self.high}
        return {"type": "integer", **{name: limit for name, limit in limits.items() if limit is not None}}


@dataclass(frozen=True, kw_only=True)
class ExactNumber(Kind):
    """A number kept as the exact fraction that was written, in a text or as a number of TOML.

    >>> ExactNumber(low=Fraction(0), high=Fraction(1)).read("1/3"), ExactNumber().read(Decimal("0.10"))
    (Fraction(1, 3), Fraction(1, 10))
    """

    low: Fraction | int | None = None
    high: Fraction | int | None = None
    example: str = '"1/2"'

    def read(self, value: Any) -> Fraction:
        """Take a fraction or a decimal in a text, or a number."""
        number = parse_exact(value)
        if number is None or _is_outside(number, self.low, self.high) or number.denominator >= 10**MAX_DIGITS:
            raise Unfit(self, value)
        return number

    def describe(self) -> Text:
        """Name the range, and that fractions are taken."""
        values = {"low": self.low, "high": self.high, "example": self.example.strip('"')}
        if self.low is None:
            return text("a number such as {example}", **values)
        if self.high is None:
            return text("a number of at least {low}, such as {example}", **values)
        return text("a number between {low} and {high}, such as {example}", **values)

    def json_schema(self) -> dict[str, Any]:
        """Describe it as a number or a text."""
        return {"type": ["number", "string"]}


@dataclass(frozen=True, kw_only=True)
class PlainNumber(Kind):
    """A number of TOML, exact: not a text, not infinite, and of a sensible length.

    >>> PlainNumber().read(Decimal("0.1"))
    Fraction(1, 10)
    """

    low: Fraction | int | None = None
    high: Fraction | int | None = None
    example: str = "0.5"

    def read(self, value: Any) -> Fraction:
        """Take a whole or a decimal number."""
        if isinstance(value, bool) or not isinstance(value, int | Decimal | Fraction):
            raise Unfit(self, value)
        if not isinstance(value, Fraction):
            number = Decimal(value)
            if not number.is_finite() or (number and abs(number.adjusted()) > MOST_PLACES):
                raise Unfit(self, value)
        if _is_outside(Fraction(value), self.low, self.high):
            raise Unfit(self, value)
        return Fraction(value)

    def parse(self, written: str) -> Fraction:
        """Take the number that the text writes."""
        number = parse_exact(written)
        if number is None:
            raise Unfit(self, written)
        return self.read(number)

    def describe(self) -> Text:
        """Name the range."""
        bounds = {"low": self.low, "high": self.high}
        if self.low is None:
            return text("a number without quotes, such as 5 or 0.5")
        if self.high is None:
            return text("a number of at least {low}", **bounds)
        return text("a number between {low} and {high}", **bounds)

    def json_schema(self) -> dict[str, Any]:
        """Describe it as a number."""
        limits = {"minimum": self.low, "maximum": self.high}
        return {"type": "number", **{name: _json_number(limit) for name, limit in limits.items() if limit is not None}}


@dataclass(frozen=True, kw_only=True)
class Seconds(Kind):
    """A number of seconds: a time to wait, not a promise, so a float will do."""

    low: int | None = None
    example: str = "60"

    def read(self, value: Any) -> float:
        """Take a whole or a decimal number."""
        number = parse_exact(value) if not isinstance(value, str) else None
        if number is None or _is_outside(number, self.low, 10**9):
            raise Unfit(self, value)
        return float(number)

    def parse(self, written: str) -> float:
        """Take the number that the text writes."""
        number = parse_exact(written)
        if number is None:
            raise Unfit(self, written)
        return self.read(number)

    def describe(self) -> Text:
        """Name the unit."""
        return text("a number of seconds")

    def json_schema(self) -> dict[str, Any]:
        """Describe it as a number."""
        return {"type": "number"} if self.low is None else {"type": "number", "minimum": self.low}


def _is_outside(number: Fraction, low: Fraction | int | None, high: Fraction | int | None) -> bool:
    return (low is not None and number < low) or (high is not None and number > high)


def _json_number(number: Fraction | int) -> int | float:
    return int(number) if Fraction(number).denominator == 1 else float(number)
