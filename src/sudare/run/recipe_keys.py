"""The keys of a recipe file: what each takes, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from sudare.releases.release import FORMATS

Reader = Callable[[Any], Any]
_NAME = re.compile(r"(?!.*\.html$)[^\s./\\:][^/\\:]*")  # one part of a path: not hidden, no page
MOST_BYTES = 200  # of a name: file systems take 255, and .NAME.begun and NAME.html are longer


class Unfit(Exception):  # noqa: N818
    """A value is not of the kind that its key takes."""


def text(value: Any) -> str:
    """One line of text."""
    if not isinstance(value, str) or not value.strip() or not value.replace("\u3000", " ").isprintable():
        raise Unfit
    return value


def number(value: Any) -> str | int | Decimal:
    """A number as it was written: text, whole or with a point, never a rounded float."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise Unfit
    return value


def whole(value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Unfit
    return value


def seconds(value: Any) -> float:
    """A number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Unfit
    return float(value)


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, or one."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not given:
        raise Unfit
    return tuple(text(one) for one in given)


def names(value: Any) -> tuple[str, ...]:
    """A list of names, or a text with commas, as on the command line.

    >>> names("age, sex"), names(["age"])
    (('age', 'sex'), ('age',))
    """
    return tuple(one.strip() for one in value.split(",")) if isinstance(value, str) else texts(value)


def file_name(value: Any) -> str:
    """The name of a directory to make."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or value != value.strip():
        raise Unfit
    if not value.isprintable() or len(value.encode()) > MOST_BYTES:
        raise Unfit
    return value


def file_format(value: Any) -> str:
    """A format that releases are written in."""
    if value not in FORMATS:
        raise Unfit
    return str(value)


Keys = Mapping[str, tuple[Reader, str]]
SOURCE: Keys = {
    "source": (text, 'source = "members.csv"'),
    "schema": (text, 'schema = "members.toml"'),
    "count": (text, 'count = "people"'),
    "encoding": (text, 'encoding = "cp932"'),
    "memory_limit": (text, 'memory_limit = "4GB"'),
    "spill_directory": (text, 'spill_directory = "spill"'),
}
FORMAT: Keys = {"format": (file_format, 'format = "parquet" / format = "csv"')}
HEAD: Keys = {"version": (whole, "version = 1"), **SOURCE, "out": (text, 'out = "releases"'), **FORMAT}
LEDGER: Keys = {
    "file": (text, 'file = "members.ledger"'),
    "budget": (number, 'budget = "2"'),
    "neighbours": (text, 'neighbours = "replace" / neighbours = "add-remove"'),
    "name": (text, 'name = "members"'),
}
RELEASE: Keys = {
    "name": (file_name, 'name = "records"'),
    "publish": (text, 'publish = "microdata"'),
    "report": (flag, "report = true"),
    **FORMAT,
}
EPSILON: Keys = {
    "epsilon": (number, 'epsilon = "1/2"'),
    "neighbours": (text, 'neighbours = "replace" / neighbours = "add-remove"'),
    "method": (text, 'method = "tree"'),
    "by": (names, 'by = ["age", "sex"]'),
}
PARAMETERS: Mapping[str, Keys] = {
    "microdata": {**EPSILON, "values": (text, 'values = "labels" / values = "inside"')},
    "table": {**EPSILON, "focus": (text, 'focus = "regions"')},
    "view": {**EPSILON, "score": (text, 'score = "error"')},
    "kanon": {
        "k": (whole, "k = 5"),
        "search": (text, 'search = "auto"'),
        "max_suppressed": (number, 'max_suppressed = "0.05"'),
        "criteria": (texts, 'criteria = ["l=3,disease"]'),
        "quality": (text, 'quality = "loss"'),
        "recoding": (text, 'recoding = "full"'),
        "mondrian": (text, 'mondrian = "strict"'),
        "local": (flag, "local = true"),
        "quasi": (names, 'quasi = ["age", "sex"]'),
        "by": (names, 'by = ["age", "sex"]'),
        "others": (flag, "others = true"),
        "deadline_seconds": (seconds, "deadline_seconds = 60"),
    },
    "location": {
        "epsilon_per_metre": (number, 'epsilon_per_metre = "0.02"'),
        "mode": (text, 'mode = "sharp"'),
        "slack": (text, 'slack = "noise"'),
        "extra_distance": (number, 'extra_distance = "1/10"'),
        "posterior_model": (text, 'posterior_model = "uniform"'),
        "reports_per_day": (whole, "reports_per_day = 1"),
    },
}
FILES: Mapping[str, Keys] = {
    "kanon": {
        "history": (text, 'history = "members.history"'),
        "request": (text, 'request = "request.toml"'),
        "register": (text, 'register = "people.csv"'),
    },
    "location": {"map": (text, 'map = "coast.toml"')},
}
NEEDED = {"kanon": ("k",), "location": ("map", "epsilon_per_metre")}
READING = {"count": "count_column", "format": "file_format"}  # as the functions behind `publish` call them
