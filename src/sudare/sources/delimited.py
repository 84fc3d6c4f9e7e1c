"""The first line of a delimited text file: what divides its fields, and what its columns are called."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path

from sudare.errors import SourceError
from sudare.sources.text import open_bytes

DELIMITERS = (",", "\t", ";")
_SAMPLE = 1 << 18  # characters
_RECORDS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How a delimited file is cut: the delimiter, and the names in its first line; bare if nothing follows them."""

    delimiter: str
    names: tuple[str, ...]
    is_bare: bool = field(default=False, compare=False)


def layout_of(path: Path, encoding: str, *, called: Path | None = None) -> Layout:
    """Read the first line; the delimiter is the one that cuts the first records most evenly, then most often.

    Error: SourceError if the file is empty, has no first line of names, or names a column twice.
    """
    called = called or path
    with open_bytes(path) as file:
        codec = "utf-8-sig" if encoding == "utf-8" else encoding
        with io.TextIOWrapper(file, encoding=codec, newline="") as decoded:
            text = decoded.read(_SAMPLE)
    if not text.strip():
        raise SourceError(
            "{file} is empty; a table needs at least a first line with the names of its columns", file=called
        )
    layout = best_layout(text)
    if not is_well_quoted(text, layout):
        # An engine that cannot make sense of the first line may take the file for an empty table.
        raise SourceError("the first line of {file} has a quote in the wrong place; correct it", file=called)
    if not any(layout.names):
        raise SourceError("the first line of {file} is blank; it must name the columns", file=called)
    named = [name for name in layout.names if name]
    repeated = sorted({name for name in named if named.count(name) > 1})
    if repeated:
        raise SourceError("{file} has two columns named {name}; rename one", file=called, name=repeated[0])
    return layout


def best_layout(text: str) -> Layout:
    """Try every delimiter on the beginning of a file.

    >>> best_layout("name;price\\ntea;1,5\\n")
    Layout(delimiter=';', names=('name', 'price'), is_bare=False)
    """
    whole = text if len(text) < _SAMPLE else text[: text.rfind("\n") + 1] or text
    tables = {delimiter: _records(whole, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: _evenness(tables[delimiter]))
    first, *rest = tables[best] or [[]]
    return Layout(delimiter=best, names=tuple(first), is_bare=not any(rest))


def is_well_quoted(text: str, layout: Layout) -> bool:
    """Tell whether the quotes of the first record open and close where a field does.

    >>> [is_well_quoted(text, best_layout(text)) for text in ('"a",b', '"a"x,b', '"a,b')]
    [True, False, False]
    """
    try:
        next(csv.reader(io.StringIO(text, newline=""), delimiter=layout.delimiter, strict=True))
    except csv.Error:
        return False
    return True


def _records(text: str, delimiter: str) -> list[list[str]]:
    records = []
    try:
        for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            records.append(record)
            if len(records) == _RECORDS:
                break
    except csv.Error:  # a field without end: the engine will name the line
        pass
    return records


def _evenness(records: list[list[str]]) -> tuple[bool, float, int]:
    if not records:
        return False, 0.0, 0
    width = len(records[0])
    filled = [record for record in records if record]
    even = sum(len(record) == width for record in filled) / max(1, len(filled))
    return width > 1, even, width
