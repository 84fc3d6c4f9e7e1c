"""TOML with the place of everything: tomllib gives the values, a walk along the same text the line of every key.

The walk follows the grammar of TOML 1.0 as far as places need it and stops where it cannot go on. For a text that
tomllib takes it comes to the end; for one that tomllib refuses, the place and the manner of the stop tell what the
author meant to write (`sudare.forms.syntax` puts that into words).
"""

from __future__ import annotations

import bisect
import json
import re
import tomllib
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

Trail = tuple[str | int, ...]  # the keys and numbers that lead to a value: ("attribute", 0, "bins", "width")

MOST_PARTS = 40  # of a dotted key; tomllib takes time quadratic in them

_BLANK = re.compile(r"[ \t]*+")
_BLANK_LINES = re.compile(r"(?:[ \t\n]|#[^\n]*+)*+")
_BARE = re.compile(r"[A-Za-z0-9_-]++")
_STRING = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']++|'(?!''))*+'{3,5}"
    r'|(?!""")"(?:[^"\\\n]++|\\[^\n])*+"'
    r"|(?!''')'[^'\n]*+'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9:.Z+-]*|[^\s,\[\]{}#\"']++")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_AT = re.compile(r"\(at line ([0-9]+), column ([0-9]+)\)$")

Cause = Literal[
    "key",
    "equals",
    "value",
    "string",
    "after value",
    "array",
    "inline",
    "header",
    "after header",
    "twice",
    "long key",
    "refused",  # tomllib refuses what the walk passes: an escape, a day that is none, a table opened in two ways
]


class SyntaxStop(Exception):  # noqa: N818  (not an error of the program: where a text ceases to be TOML)
    """Where the walk could not go on, why, and what was open there."""

    def __init__(
        self, cause: Cause, offset: int, *, opened: int | None = None, key: str = "", is_entry: bool = False
    ) -> None:
        super().__init__(cause)
        self.cause: Cause = cause
        self.offset = offset
        self.opened = opened  # where the bracket, the quote or the first of two equal keys stands
        self.key = key
        self.is_entry = is_entry  # of a list


@dataclass
class KeyPlaces:
    """Where the keys, tables and entries of a text stand."""

    text: str
    offsets: dict[Trail, int] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    def line_at(self, offset: int) -> int:
        """Number the line of an offset, from 1."""
        return bisect.bisect_right(self._starts, offset)

    def column_at(self, offset: int) -> int:
        """Number the column of an offset in its line, from 1."""
        return offset - self._starts[self.line_at(offset) - 1] + 1

    def offset_of(self, trail: Trail) -> int:
        """Find where something stands: itself, else the closest thing around it, else the beginning."""
        for length in range(len(trail), 0, -1):
            if trail[:length] in self.offsets:
                return self.offsets[trail[:length]]
        return 0

    def line_of(self, trail: Trail) -> int:
        """Number the line of something.

        >>> places = walk('[recipe]\\nversion = 1\\n[[release]]\\nby = [\\n  "age",\\n  "sex",\\n]\\n')
        >>> [places.line_of(trail) for trail in (("recipe", "version"), ("release", 0), ("release", 0, "by", 1))]
        [2, 3, 6]
        """
        return self.line_at(self.offset_of(trail))


def parse(text: str) -> tuple[dict[str, Any], KeyPlaces]:
    """Give the values of a text, decimals exact, and the place of everything; SyntaxStop where it is not TOML.

    >>> values, places = parse('[grid]\\nrows = 15\\ncell_metres = 0.10\\n')
    >>> values, places.line_of(("grid", "rows"))
    ({'grid': {'rows': 15, 'cell_metres': Decimal('0.10')}}, 2)
    """
    text = text.replace("\r\n", "\n")
    places = KeyPlaces(text)
    walker = _Walker(text, places.offsets)
    stop = None
    try:
        walker.walk()  # first: it is linear in the text, and stops at what would take tomllib for ever
    except SyntaxStop as problem:
        stop = problem
    if stop is not None and stop.cause == "long key":
        raise stop
    try:
        values = tomllib.loads(text, parse_float=_exact_decimal)
    except tomllib.TOMLDecodeError as error:
        is_twice = str(error).startswith(("Cannot", "Duplicate"))
        raise stop or SyntaxStop("twice" if is_twice else "refused", _offset_in(error, text)) from None
    except ValueError:  # a whole number or an exponent of thousands of digits
        raise stop or SyntaxStop("refused", _find_long_number(text)) from None
    return values, places


def walk(text: str) -> KeyPlaces:
    """Find the place of everything in a text; SyntaxStop where it is not TOML."""
    places = KeyPlaces(text)
    _Walker(text, places.offsets).walk()
    return places


def _exact_decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("an exponent out of reach") from None


def _find_long_number(text: str) -> int:
    match = re.search(r"[0-9_]{1000,}|[eE][+-]?[0-9_]{15,}", text)
    return match.start() if match else 0


def _offset_in(error: tomllib.TOMLDecodeError, text: str) -> int:
    match = _AT.search(str(error))
    if match is None:
        return len(text)
    starts = [0, *(end.end() for end in re.finditer("\n", text))]
    return min(starts[int(match[1]) - 1] + int(match[2]) - 1, len(text))


class _Walker:
    """One pass over a text, noting where keys begin."""

    def __init__(self, text: str, offsets: dict[Trail, int]) -> None:
        self.text = text
        self.offsets = offsets
        self.at = 0
        self.last_value = 0
        self.table: Trail = ()
        self.lengths: dict[Trail, int] = {}  # of arrays of tables
        self.tables: dict[Trail, int] = {}  # tables with a header of their own

    def walk(self) -> None:
        """Walk statement by statement to the end."""
        while self._skip(_BLANK_LINES) < len(self.text):
            if self.text[self.at] == "[":
                self._header()
            else:
                self._pair(self.table)
                self._end_of_line("after value")

    def _skip(self, blanks: re.Pattern[str]) -> int:
        match = blanks.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _end_of_line(self, cause: Cause) -> None:
        self._skip(_BLANK)
        if self._next() not in ("", "\n", "#"):
            raise SyntaxStop(cause, self.at, opened=self.last_value)

    def _header(self) -> None:
        begin = self.at
        is_array = self.text.startswith("[[", begin)
        self.at += 2 if is_array else 1
        self._skip(_BLANK)
        try:
            parts = self._key()
        except SyntaxStop as stop:
            raise stop if stop.cause == "long key" else SyntaxStop("header", stop.offset, opened=begin) from None
        self._skip(_BLANK)
        closing = "]]" if is_array else "]"
        if not self.text.startswith(closing, self.at):
            raise SyntaxStop("header", self.at, opened=begin, key=".".join(parts))
        self.at += len(closing)
        self._end_of_line("after header")
        self.table = self._open(parts, is_array=is_array, begin=begin)

    def _open(self, parts: list[str], *, is_array: bool, begin: int) -> Trail:
        """Enter a table, and note where it begins."""
        trail: Trail = ()
        for part in parts[:-1]:
            trail = (*trail, part)
            self.offsets.setdefault(trail, begin)
            if trail in self.lengths:
                trail = (*trail, self.lengths[trail] - 1)
        trail = (*trail, parts[-1])
        if is_array:
            number = self.lengths[trail] = self.lengths.get(trail, 0) + 1
            self.offsets.setdefault(trail, begin)
            trail = (*trail, number - 1)
        elif trail in self.tables or trail in self.lengths:
            raise SyntaxStop("twice", begin, opened=self.offsets.get(trail), key=".".join(parts))
        self.tables[trail] = begin
        self.offsets.setdefault(trail, begin)
        return trail

    def _pair(self, table: Trail) -> None:
        begin = self.at
        parts = self._key()
        self._skip(_BLANK)
        if self._next() != "=":
            raise SyntaxStop("equals", self.at, opened=begin, key=".".join(parts))
        self.at += 1
        self._skip(_BLANK)
        for length in range(1, len(parts)):
            self.offsets.setdefault((*table, *parts[:length]), begin)
        trail = (*table, *parts)
        if trail in self.offsets:
            raise SyntaxStop("twice", begin, opened=self.offsets[trail], key=".".join(parts))
        self.offsets[trail] = begin
        self._value(trail)

    def _key(self) -> list[str]:
        parts = [self._part()]
        while True:
            after = self._skip(_BLANK)
            if self._next() != ".":
                return parts
            self.at = after + 1
            self._skip(_BLANK)
            parts.append(self._part())
            if len(parts) > MOST_PARTS:
                raise SyntaxStop("long key", self.at)

    def _part(self) -> str:
        if self._next() in ('"', "'"):
            written = self._string()
            return unquote(written)
        match = _BARE.match(self.text, self.at)
        if match is None:
            raise SyntaxStop("key", self.at)
        self.at = match.end()
        return match.group()

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise SyntaxStop("string", self.at, opened=self.at)
        self.at = match.end()
        return match.group()

    def _value(self, trail: Trail) -> None:
        self.last_value = self.at
        mark = self._next()
        if mark == "[":
            self._array(trail)
        elif mark == "{":
            self._inline(trail)
        elif mark in ('"', "'"):
            self._string()
        else:
            match = _SCALAR.match(self.text, self.at)
            if match is None or not is_scalar(match.group()):
                raise SyntaxStop("value", self.at, key=_name(trail), is_entry=isinstance(trail[-1], int))
            self.at = match.end()

    def _array(self, trail: Trail) -> None:
        begin, number = self.at, 0
        self.at += 1
        while self._skip(_BLANK_LINES) < len(self.text) and self._next() != "]":
            self.offsets[*trail, number] = self.at
            self._entry((*trail, number), begin)
            number += 1
            self._skip(_BLANK_LINES)
            if self._next() == ",":
                self.at += 1
            elif self._next() != "]":
                raise SyntaxStop("array", self.at, opened=begin, key=_name(trail))
        if self._next() != "]":
            raise SyntaxStop("array", self.at, opened=begin, key=_name(trail))
        self.at += 1

    def _entry(self, trail: Trail, begin: int) -> None:
        try:
            self._value(trail)
        except SyntaxStop as stop:
            if stop.cause == "value":
                stop.opened = begin  # of the outermost list: it may be what was not closed
            raise

    def _inline(self, trail: Trail) -> None:
        begin = self.at
        self.at += 1
        self._skip(_BLANK)
        if self._next() == "}":
            self.at += 1
            return
        while True:
            self._skip(_BLANK)
            if self._next() in ("", "\n", "}", "#"):  # a comma before the end, or a second line
                raise SyntaxStop("inline", self.at, opened=begin, key=_name(trail))
            self._pair(trail)
            self._skip(_BLANK)
            if self._next() == "}":
                self.at += 1
                return
            if self._next() != ",":
                raise SyntaxStop("inline", self.at, opened=begin, key=_name(trail))
            self.at += 1


def _name(trail: Trail) -> str:
    return next((str(part) for part in reversed(trail) if isinstance(part, str)), "")


_NUMBERS = re.compile(
    r"[+-]?(?:0|[1-9](?:_?[0-9])*)(?:\.[0-9](?:_?[0-9])*)?(?:[eE][+-]?[0-9](?:_?[0-9])*)?"
    r"|0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*|[+-]?(?:inf|nan)|true|false"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
    r"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
)


def is_scalar(text: str) -> bool:
    """Tell whether a word is a number, a date, a time or a truth value of TOML.

    >>> [is_scalar(word) for word in ("1_000", "0.5", "2024-01-31", "true", "True", "05", "1/2", "category")]
    [True, True, True, True, False, False, False, False]
    """
    return _NUMBERS.fullmatch(text) is not None


def write_name(name: str) -> str:
    """Write a key: bare where that is allowed, else in quotes.

    >>> print(write_name("max_rows"), write_name("年齢"))
    max_rows "年齢"
    """
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def unquote(written: str) -> str:
    r"""Read a quoted key.

    >>> unquote('"a\\tb"'), unquote("'a\\tb'"), unquote('"年齢"')
    ('a\tb', 'a\\tb', '年齢')
    """
    inside = written[1:-1]
    return inside if written[0] == "'" else _ESCAPE.sub(_unescape, inside)


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is None:
        return _ESCAPES.get(match[3], match[0])
    return chr(min(int(code, 16), 0x10FFFF))
