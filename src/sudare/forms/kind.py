"""What all kinds of values share: reading, describing themselves, showing what was written and what was meant."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from sudare.errors import ParameterError
from sudare.text import Text

MOST_SHOWN = 40  # characters of a value that are repeated in a message


class Unfit(Exception):  # noqa: N818  (reads as a fact in `except Unfit`)
    """A value is not of its kind. `kind` and `value` tell of the innermost one, `entry` which entries lead to it."""

    def __init__(self, kind: Kind, value: object, entry: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.kind = kind
        self.value = value
        self.entry = entry


@dataclass(frozen=True, kw_only=True)
class Kind(ABC):
    """The face that all kinds share; `example` is a value as it is written in TOML."""

    example: str = '"..."'

    @abstractmethod
    def read(self, value: Any) -> Any:
        """Give the plain value; Unfit if this is none."""

    @abstractmethod
    def describe(self) -> Text:
        """Say in words what is allowed, to stand behind "must be"."""

    @abstractmethod
    def json_schema(self) -> dict[str, Any]:
        """Describe the values for editors."""

    def parse(self, written: str) -> Any:
        """Read a value from the text of a command line or of a page."""
        return self.read(written)

    def suggest(self, value: object) -> str | None:
        """Offer what was probably meant, as it is written in TOML: here, what stands in needless quotes."""
        try:
            return None if not isinstance(value, str) else show(self.read(self.parse(value)))
        except Unfit:
            return None

    def check(self, name: str, value: Any) -> Any:
        """Read a parameter given in Python; ParameterError with its name and what is allowed.

        >>> from sudare.forms.kinds import WholeNumber
        >>> WholeNumber(low=2).check("k", 1)
        Traceback (most recent call last):
        sudare.errors.ParameterError: k (1) must be a whole number of at least 2
        """
        try:
            return self.read(value)
        except Unfit as unfit:
            shown, allowed = show(unfit.value), unfit.kind.describe()
            raise ParameterError(
                "{name} ({value}) must be {allowed}", name=name, value=shown, allowed=allowed
            ) from None


def show(value: object) -> str:
    r"""Show a value as its author wrote it, cut to a few characters; what cannot be printed is written as \u....

    >>> show("a\tb"), show(True), show(Decimal("1.50")), show([1, 2]), show({"start": 0}), show("x" * 50)
    ('"a\\u0009b"', 'true', '1.50', '[1, 2]', '{...}', '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."')
    """
    if isinstance(value, str):
        start = "".join(mark if mark.isprintable() else _escape(mark) for mark in value[:MOST_SHOWN])
        return f'"{start}{"..." if len(value) > MOST_SHOWN else ""}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{...}" if value else "{}"
    if isinstance(value, list | tuple):
        entries = ", ".join(show(entry) for entry in value[:3])
        return f"[{entries}]" if len(value) <= 3 and len(entries) < MOST_SHOWN else "[...]"
    if isinstance(value, date | time):
        return value.isoformat()
    return _show_number(value)


def _show_number(value: object) -> str:
    if isinstance(value, Decimal) and not value.is_finite():
        return "nan" if value.is_nan() else "-inf" if value < 0 else "inf"
    if isinstance(value, int | Decimal | float | Fraction):
        if isinstance(value, int | Fraction) and max(map(abs, value.as_integer_ratio())) >= 10**MOST_SHOWN:
            return "..."  # Python refuses to print integers of over 4300 digits, and nobody wants to read 50
        digits = str(value)
        return digits if len(digits) <= MOST_SHOWN else f"{digits[:MOST_SHOWN]}..."
    return "..."  # an object of Python may hold data


def quote(words: str) -> str:
    r"""Write a text as TOML does.

    >>> print(quote('a "b"'), quote("C:\\data"))
    "a \"b\"" "C:\\data"
    """
    escaped = words.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(mark if mark.isprintable() else _escape(mark) for mark in escaped) + '"'


def _escape(mark: str) -> str:
    return f"\\u{ord(mark):04x}" if ord(mark) <= 0xFFFF else f"\\U{ord(mark):08x}"


def find_near(written: str, allowed: Iterable[str]) -> str | None:
    """Find what was probably meant: another width, case or hyphen of a name, else the closest spelling.

    >>> find_near("max-rows", ["max_rows"]), find_near("ＫＩＮＤ", ["kind"]), find_near("widht", ["start", "width"])
    ('max_rows', 'kind', 'width')
    >>> find_near("x", ["start", "width"]) is None
    True
    """
    names = {_fold(name): name for name in allowed}
    folded = _fold(written[:100])
    close = [folded] if folded in names else get_close_matches(folded, names, n=1)
    return names[close[0]] if close else None


def _fold(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold().replace("-", "_").replace(" ", "_")
