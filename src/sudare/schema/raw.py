"""Raw values and labels: what a value of a column means before any domain, and arrays of labels looked up by code."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.errors import ParameterError, SchemaError
from sudare.schema.arrays import Codes, Labels

MOST_BINS = 1_000_000  # labels are kept in memory; a finer axis says nothing about people
OTHER_LABEL = "(other)"
MISSING_LABEL = "(missing)"
TOP_LABEL = "*"


def make_labels(labels: Sequence[str | None]) -> Labels:
    """Put labels into a read-only array.

    >>> make_labels(["a", None]).tolist()
    ['a', None]
    """
    array = np.empty(len(labels), dtype=np.object_)
    array[:] = labels
    array.flags.writeable = False
    return array


def check_codes(codes: Any, size: int) -> Codes:
    """Refuse codes outside 0..size-1: a negative one would quietly count from the end.

    >>> check_codes([0, 2], 3).tolist()
    [0, 2]
    """
    array: Codes = np.asarray(codes, dtype=np.int64)
    if array.size and (array.min() < 0 or array.max() >= size):
        raise ParameterError("codes must be between 0 and {top}", top=size - 1)
    return array


def take_labels(labels: Labels, codes: Codes) -> Labels:
    """Look up the labels of codes."""
    taken: Labels = labels[check_codes(codes, len(labels))]
    return taken


def list_some(values: Sequence[object], most: int = 5) -> str:
    """List a few public values for an error line.

    >>> list_some(["a", "b", "c"], most=2)
    'a, b, ...'
    """
    return ", ".join(str(value) for value in values[:most]) + (", ..." if len(values) > most else "")


# What a raw value of a column means, before any domain: its text, its exact number, its day.
#
# Sources rebuild these rules in SQL; the patterns are written without look-around or back-references so that engines
# with simpler regular expressions can use them as they stand.


NUMBER_TEXT = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)"
"""Plain decimal text. No exponent, no thousands mark, no full-width digit is guessed at."""

DATE_TEXT = (
    r"([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}|[0-9]{8})"
    r"([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?(Z|[+-][0-9]{2}(:?[0-9]{2})?))?)?"
)
"""A day, and perhaps a time of day, which is dropped as it stands (no change of time zone)."""

_NUMBER = re.compile(NUMBER_TEXT)
_DATE = re.compile(DATE_TEXT)
_MOST_COUNTED = 10**15  # cells whose digits are written; nobody reads more
_LONGEST_NUMBER = 400  # characters; longer texts are no measurements
_DIRECTIVES = frozenset("YymdjHMSf%")  # numeric only: names of months depend on the machine's language
BLANKS = " \t\r\n\u3000"


def to_text(value: object) -> str:
    """Write a raw value as the text that a category compares with.

    >>> to_text(7), to_text(True), to_text(date(2024, 1, 5))
    ('7', 'true', '2024-01-05')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def trim(value: object) -> str:
    """Write a raw value as text without surrounding blanks (also the full-width one)."""
    return to_text(value).strip(BLANKS)


def is_null(value: object) -> bool:
    """Tell whether an engine's or frame's value stands for nothing: None, NaN, NaT, NA.

    >>> is_null(None), is_null(float("nan")), is_null("")
    (True, True, False)
    """
    if value is None:
        return True
    try:
        return bool(value != value)  # true of NaN and NaT alone
    except (TypeError, ArithmeticError):
        return True  # pandas' NA and signalling NaN cannot be compared at all


def to_number(value: object) -> Fraction | float | None:
    """Read a raw number exactly; an infinite float stays a float; None if it is no number.

    A float means the shortest decimal that prints it: 0.1 is 1/10.

    >>> to_number(" 0.3 "), to_number(0.1), to_number("1e3"), to_number("１２")
    (Fraction(3, 10), Fraction(1, 10), None, None)
    """
    if isinstance(value, str):
        text = value.strip(BLANKS)
        return Fraction(text) if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or is_null(value):
        return None
    if isinstance(value, float) or (isinstance(value, Decimal) and not value.is_finite()):
        return float(value) if math.isinf(value) else Fraction(repr(float(value)))
    if isinstance(value, Decimal) and abs(value.adjusted()) > _LONGEST_NUMBER:
        return None
    if isinstance(value, int | Decimal | Fraction):
        return Fraction(value)
    return to_number(str(value)) if hasattr(value, "__index__") or hasattr(value, "__float__") else None


def to_date(value: object, date_format: str | None = None) -> date | None:
    """Read a raw day: a date, or text as YYYY-MM-DD, YYYY/M/D, YYYYMMDD or `date_format`; None if it is none.

    >>> to_date("2024/1/5"), to_date("20240105 10:30")
    (datetime.date(2024, 1, 5), datetime.date(2024, 1, 5))
    >>> to_date("2024年1月5日", "%Y年%m月%d日")
    datetime.date(2024, 1, 5)
    """
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = trim(value)
    return _read_plain_date(text) if date_format is None else _read_formatted_date(text, date_format)


def _read_plain_date(text: str) -> date | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    day = match.group(1)
    parts = [day[:4], day[4:6], day[6:]] if day.isdigit() else re.split("[-/]", day)
    return _make_day(*map(int, parts))


def _read_formatted_date(text: str, date_format: str) -> date | None:
    if any(mark.isdecimal() and not mark.isascii() for mark in text):
        return None  # strptime would quietly read full-width digits
    try:
        return datetime.strptime(text, date_format).date()
    except ValueError:
        return None


def _make_day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def check_date_format(date_format: str) -> None:
    """Refuse a format whose meaning depends on the machine, or that does not tell the year.

    >>> check_date_format("%Y年%m月%d日")
    """
    used = re.findall(r"%(.?)", date_format, flags=re.DOTALL)
    unknown = sorted({mark for mark in used if mark not in _DIRECTIVES or not mark})
    if unknown or not {"Y", "y"} & set(used):
        raise SchemaError(
            "format ({format}) must hold %Y (or %y) and may hold only %m %d %j %H %M %S %f besides; "
            "write it like %Y年%m月%d日, or unix-seconds for seconds since 1970",
            format=date_format,
        )


def write_size(count: int) -> str:
    """Write how many cells there are: all digits where people read them, else the power of ten.

    >>> write_size(14168), write_size(10248714640906377548571706240827337557934080000000)
    ('14168', '1.02 × 10^49')
    """
    if count < _MOST_COUNTED:
        return str(count)
    mantissa, _, power = f"{Decimal(count):.2e}".lower().partition("e+")
    return f"{mantissa} × 10^{power}"


def write_decimal(value: Fraction) -> str:
    """Print a fraction exactly: as a decimal where it has one, else as a/b.

    >>> write_decimal(Fraction(-3, 8)), write_decimal(Fraction(5)), write_decimal(Fraction(1, 3))
    ('-0.375', '5', '1/3')
    """
    places, rest = 0, value.denominator
    for prime in (2, 5):
        power = 0
        while rest % prime == 0:
            rest, power = rest // prime, power + 1
        places = max(places, power)
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    if places == 0:
        return str(value.numerator)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"
