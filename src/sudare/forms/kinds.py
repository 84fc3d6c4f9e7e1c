"""What a key of a file, or a parameter of a method, takes: one kind for each way of writing a value.

Every kind reads a value (from TOML or Python), parses a text (from a command line), describes itself in words of both
languages, shows an example as it is written in TOML, and gives its JSON schema for editors. The kinds know nothing of
files and lines; `Unfit` tells which entry of a list is wrong, and the reader of the file finds where it stands.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sudare.forms.kind import Kind, Unfit, find_near, quote, show
from sudare.forms.numbers import ExactNumber, PlainNumber, Seconds, WholeNumber
from sudare.text import Text, join_items, text

__all__ = [
    "AnyText",
    "CalendarDay",
    "ChoiceOf",
    "Either",
    "ExactNumber",
    "FilePath",
    "Flag",
    "FolderName",
    "Kind",
    "ListOf",
    "NameList",
    "PlainNumber",
    "Seconds",
    "TextLine",
    "TextList",
    "Unfit",
    "WholeNumber",
    "find_near",
    "quote",
    "show",
]

MOST_NAME_BYTES = 200  # of a directory: file systems take 255, and .NAME.begun and NAME.html are longer
_FOLDER = re.compile(r"(?!.*\.html$)[^\s./\\:][^/\\:]*")  # one part of a path: not hidden, no page
_DAY = re.compile(
    r"(?:([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})|([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})|([0-9]{4})([0-9]{2})([0-9]{2}))"
    r"(?:[ T][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?: ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)


# --- words ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Flag(Kind):
    """True or false."""

    example: str = "true"

    def read(self, value: Any) -> bool:
        """Take a truth value, and nothing that merely looks like one."""
        if not isinstance(value, bool):
            raise Unfit(self, value)
        return value

    def parse(self, written: str) -> bool:
        """Take the words of TOML."""
        if written not in ("true", "false"):
            raise Unfit(self, written)
        return written == "true"

    def suggest(self, value: object) -> str | None:
        """Offer the word that was put in quotes or spelt as elsewhere."""
        words = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
        return words.get(value.strip().casefold()) if isinstance(value, str) else None

    def describe(self) -> Text:
        """Name both."""
        return text("true or false, without quotes")

    def json_schema(self) -> dict[str, Any]:
        """Describe it as a boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class ChoiceOf(Kind):
    """One of a few words.

    >>> ChoiceOf(("replace", "add-remove")).suggest("add_remove")
    '"add-remove"'
    """

    choices: tuple[str, ...]
    _: KW_ONLY
    example: str = ""

    def __post_init__(self) -> None:
        if not self.example:
            object.__setattr__(self, "example", quote(self.choices[0]))

    def read(self, value: Any) -> str:
        """Take a word of the list, spelt as there."""
        if not isinstance(value, str) or value not in self.choices:
            raise Unfit(self, value)
        return str(value)

    def suggest(self, value: object) -> str | None:
        """Offer the closest word."""
        near = find_near(value, self.choices) if isinstance(value, str) else None
        return None if near is None else quote(near)

    def describe(self) -> Text:
        """List the words."""
        words = join_items(quote(choice) for choice in self.choices)
        return text("{words}", words=words) if len(self.choices) == 1 else text("one of {words}", words=words)

    def json_schema(self) -> dict[str, Any]:
        """List the words."""
        return {"const": self.choices[0]} if len(self.choices) == 1 else {"enum": list(self.choices)}


@dataclass(frozen=True, kw_only=True)
class AnyText(Kind):
    """A text, whatever it holds; empty only where that means something."""

    may_be_empty: bool = False
    example: str = '"age"'

    def read(self, value: Any) -> str:
        """Take a text."""
        if not isinstance(value, str) or not (value or self.may_be_empty):
            raise Unfit(self, value)
        return value

    def suggest(self, value: object) -> str | None:
        """Offer a number or a word without quotes in quotes."""
        is_short = isinstance(value, bool | int | Decimal | date) and "..." not in show(value)
        return quote(show(value)) if is_short else None

    def describe(self) -> Text:
        """Ask for quotes."""
        return text("a text in quotes") if self.may_be_empty else text("a text in quotes that is not empty")

    def json_schema(self) -> dict[str, Any]:
        """Describe it as a string."""
        return {"type": "string"} if self.may_be_empty else {"type": "string", "minLength": 1}


@dataclass(frozen=True, kw_only=True)
class TextLine(AnyText):
    """One line of text that can be printed and is not blank."""

    def read(self, value: Any) -> str:
        """Take a text of one line."""
        if not isinstance(value, str) or not value.strip() or not value.replace("\u3000", " ").isprintable():
            raise Unfit(self, value)
        return value

    def describe(self) -> Text:
        """Ask for quotes."""
        return text("one line of text in quotes")


@dataclass(frozen=True, kw_only=True)
class FilePath(TextLine):
    """The name of a file, relative to the file that names it."""

    example: str = '"values.txt"'

    def read(self, value: Any) -> str:
        r"""Take a name without control characters: "C:\temp" holds a tab, as TOML reads it."""
        if not isinstance(value, str) or not value.strip() or any(ord(mark) < 32 for mark in value):
            raise Unfit(self, value)
        return value

    def suggest(self, value: object) -> str | None:
        """Offer nothing: a number is hardly the name of a file."""
        return None

    def describe(self) -> Text:
        """Ask for quotes, and for the one mark between folders that works everywhere."""
        return text("the name of a file in quotes, with / between folders")


@dataclass(frozen=True, kw_only=True)
class FolderName(AnyText):
    """The name of a directory to be made: one part of a path, not hidden."""

    example: str = '"records"'

    def read(self, value: Any) -> str:
        """Take what every file system takes."""
        if not isinstance(value, str) or not _FOLDER.fullmatch(value) or value != value.strip():
            raise Unfit(self, value)
        if not value.isprintable() or len(value.encode(errors="replace")) > MOST_NAME_BYTES:
            raise Unfit(self, value)
        return value

    def describe(self) -> Text:
        """Say what a name of a directory may hold."""
        return text(
            "the name of a directory, at most {most} bytes long, without / \\ : and not beginning with a dot or ending "
            "in .html",
            most=MOST_NAME_BYTES,
        )


@dataclass(frozen=True, kw_only=True)
class CalendarDay(Kind):
    """A day, as a date of TOML or in a text.

    >>> CalendarDay().read("2024/1/5")
    datetime.date(2024, 1, 5)
    """

    example: str = '"2024-01-31"'

    def read(self, value: Any) -> date:
        """Take a date, or a text that writes one with - or / or eight digits."""
        if isinstance(value, datetime):
            return value.date()
        if isinstance(value, date):
            return value
        match = _DAY.fullmatch(value.strip(" \t\r\n\u3000")) if isinstance(value, str) else None
        if match is None:
            raise Unfit(self, value)
        try:
            return date(*(int(part) for part in match.groups() if part is not None))
        except ValueError:
            raise Unfit(self, value) from None

    def describe(self) -> Text:
        """Show one."""
        return text('a day such as "2024-01-31"')

    def json_schema(self) -> dict[str, Any]:
        """Describe it as a date."""
        return {"type": "string", "format": "date"}


# --- lists ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListOf(Kind):
    """A list whose entries are all of one kind.

    >>> ListOf(WholeNumber()).read([1, 2])
    (1, 2)
    """

    kind: Kind
    _: KW_ONLY
    least: int = 0
    most: int | None = None
    example: str = ""

    def __post_init__(self) -> None:
        if not self.example:
            object.__setattr__(self, "example", f"[{self.kind.example}]")

    def read(self, value: Any) -> tuple[Any, ...]:
        """Take a list; the first entry that is wrong is told."""
        if not isinstance(value, list | tuple) or len(value) < self.least:
            raise Unfit(self, value)
        if self.most is not None and len(value) > self.most:
            raise Unfit(self, value)
        return tuple(_read_entry(self.kind, entry, number) for number, entry in enumerate(value))

    def parse(self, written: str) -> tuple[Any, ...]:
        """Take a text with commas."""
        entries = tuple(self.kind.parse(entry.strip()) for entry in written.split(","))
        return self.read(entries)

    def suggest(self, value: object) -> str | None:
        """Offer a lone entry in brackets."""
        try:
            self.read([value])
        except Unfit:
            return None
        return f"[{quote(value) if isinstance(value, str) else show(value)}]"

    def describe(self) -> Text:
        """Say how many of what."""
        counts = {"least": self.least, "entry": self.kind.describe()}
        if self.least and self.least == self.most:
            return text("a list in [ ] of {least} entries, each {entry}", **counts)
        if self.least > 1:
            return text("a list in [ ] of at least {least} entries, each {entry}", **counts)
        if self.least == 1:
            return text("a list in [ ] that is not empty, each entry {entry}", **counts)
        return text("a list in [ ], each entry {entry}", **counts)

    def json_schema(self) -> dict[str, Any]:
        """Describe it as an array."""
        limits = {"minItems": self.least or None, "maxItems": self.most}
        return {
            "type": "array",
            "items": self.kind.json_schema(),
            **{name: limit for name, limit in limits.items() if limit is not None},
        }


@dataclass(frozen=True, kw_only=True)
class TextList(Kind):
    """Texts in a list, or a single one without brackets."""

    example: str = '["l=3,disease"]'

    def read(self, value: Any) -> tuple[str, ...]:
        """Take a list that is not empty, or one text."""
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list | tuple) or not given:
            raise Unfit(self, value)
        if isinstance(value, str):
            return (TextLine(example=self.example).read(value),)
        return tuple(_read_entry(TextLine(), entry, number) for number, entry in enumerate(given))

    def describe(self) -> Text:
        """Ask for quotes."""
        return text("a list of texts in quotes that is not empty")

    def json_schema(self) -> dict[str, Any]:
        """Describe both ways of writing it."""
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


@dataclass(frozen=True, kw_only=True)
class NameList(TextList):
    """Names in a list, or in one text with commas, as on the command line.

    >>> NameList().read("age, sex"), NameList().read(["age"])
    (('age', 'sex'), ('age',))
    """

    example: str = '["age", "sex"]'

    def read(self, value: Any) -> tuple[str, ...]:
        """Take a list that is not empty, or one text, which is cut at its commas."""
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(","))
        return super().read(value)

    def describe(self) -> Text:
        """Ask for quotes."""
        return text("a list of names in quotes that is not empty")


@dataclass(frozen=True)
class Either(Kind):
    """A value of the first of several kinds that takes it.

    >>> Either((Flag(), ListOf(AnyText()))).read(["?"])
    ('?',)
    """

    kinds: tuple[Kind, ...]
    _: KW_ONLY
    example: str = ""

    def __post_init__(self) -> None:
        if not self.example:
            object.__setattr__(self, "example", self.kinds[0].example)

    def read(self, value: Any) -> Any:
        """Take what one of the kinds takes; of their complaints, the one about an entry deep inside is told."""
        complaints = []
        for kind in self.kinds:
            try:
                return kind.read(value)
            except Unfit as unfit:
                complaints.append(unfit)
        deepest = max(complaints, key=lambda unfit: len(unfit.entry))
        raise deepest if deepest.entry else Unfit(self, value)

    def parse(self, written: str) -> Any:
        """Parse as the first kind that takes it."""
        for kind in self.kinds:
            try:
                return kind.parse(written)
            except Unfit:
                continue
        raise Unfit(self, written)

    def suggest(self, value: object) -> str | None:
        """Offer what the first kind with an idea offers."""
        return next((near for kind in self.kinds if (near := kind.suggest(value)) is not None), None)

    def describe(self) -> Text:
        """Name all kinds."""
        words = self.kinds[0].describe()
        for kind in self.kinds[1:]:
            words = text("{first}, or {second}", first=words, second=kind.describe())
        return words

    def json_schema(self) -> dict[str, Any]:
        """Describe all kinds."""
        return {"anyOf": [kind.json_schema() for kind in self.kinds]}


def _read_entry(kind: Kind, entry: Any, number: int) -> Any:
    try:
        return kind.read(entry)
    except Unfit as unfit:
        raise Unfit(unfit.kind, unfit.value, (number, *unfit.entry)) from None
