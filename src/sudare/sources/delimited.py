"""Delimited text files: how their lines are cut, where the names of the columns stand, and which lines are no rows.

A file that begins with its names is handed to the engine as it is. One with titles above the names or totals below the
rows is written anew without them, line by line, and what was left out is told.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from sudare.errors import SourceError
from sudare.sources.files import open_bytes
from sudare.sources.office import Head, LeftOut, find_head, is_blank, is_sum, is_word, measure_sample, take_rows
from sudare.text import Text

DELIMITERS = (",", "\t", ";", "|")
SAMPLE_CHARACTERS = 1 << 18  # of the beginning of a file, by which the delimiter is chosen


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How a delimited file is cut: the delimiter, the names in its first line, and whether nothing follows them."""

    delimiter: str
    names: tuple[str, ...]
    is_empty: bool = field(default=False, compare=False)


def read_layout(path: Path, encoding: str, *, original: Path | None = None) -> Layout:
    """Read the first line; the delimiter is the one that cuts the first records most evenly, then most often.

    Errors name `original`, the file that `path` was rewritten from.

    Error: SourceError if the file is empty, has no first line of names, or names a column twice.
    """
    with open_bytes(path) as file:
        codec = "utf-8-sig" if encoding == "utf-8" else encoding
        with io.TextIOWrapper(file, encoding=codec, newline="") as decoded:
            return judge_layout(decoded.read(SAMPLE_CHARACTERS), named=original or path)


def judge_layout(text: str, *, named: object) -> Layout:
    """Find the delimiter and the names in the beginning of a file.

    Error: as `read_layout`.
    """
    if not text.strip():
        raise SourceError(
            "{file} is empty; a table needs at least a first line with the names of its columns", file=named
        )
    layout = find_layout(text)
    if not is_well_quoted(text, layout):
        # An engine that cannot make sense of the first line may take the file for an empty table.
        raise SourceError("the first line of {file} has a quote in the wrong place; correct it", file=named)
    if not any(layout.names):
        raise SourceError("the first line of {file} is blank; it must name the columns", file=named)
    if len(layout.names) == 1 and _count_words(text) > 2:
        raise SourceError("the columns of {file} seem to be separated by several blanks; save it as CSV", file=named)
    layout = replace(layout, names=name_all(layout.names))
    names = [name for name in layout.names if name]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SourceError("{file} has two columns named {name}; rename one", file=named, name=repeated[0])
    return layout


def _count_words(text: str) -> int:
    """Count the words of every line, if all have the same number of them, and one column of words holds numbers."""
    lines = [line.split() for line in _cut_last_line(text).splitlines()[:50] if line.strip()]
    if len({len(words) for words in lines}) != 1:
        return 0
    columns = list(zip(*lines, strict=True))
    has_numbers = any(not any(map(is_word, column[1:])) for column in columns)
    return len(columns) if has_numbers else 0


def name_all(names: tuple[str, ...]) -> tuple[str, ...]:
    """Call a column without a name by its number, so that it can be declared; none is lost.

    >>> name_all(("", "age"))
    ('column 1', 'age')
    """
    numbered = tuple(name if name.strip() else f"column {at}" for at, name in enumerate(names, start=1))
    return numbered if len(set(numbered)) == len(numbered) else names


def find_layout(text: str) -> Layout:
    """Try every delimiter on the beginning of a file.

    >>> find_layout("name;price\\ntea;1,5\\n")
    Layout(delimiter=';', names=('name', 'price'), is_empty=False)
    """
    whole_lines = _cut_last_line(text)
    tables = {delimiter: _read_records(whole_lines, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: _rate_evenness(tables[delimiter]))
    if not _rate_evenness(tables[best])[0]:
        tables[" "] = _read_records(whole_lines, " ")
        best = " " if _is_cut_by_blanks(tables[" "]) else best
    first, *rest = tables[best] or [[]]
    return Layout(delimiter=best, names=tuple(first), is_empty=not any(rest))


def _is_cut_by_blanks(records: list[list[str]]) -> bool:
    """Tell whether single blanks cut all records alike, with numbers in one column; the first name may be missing."""
    if len(records) < 2 or {len(record) for record in records} != {len(records[0])} or len(records[0]) < 3:
        return False
    first, *rest = records
    has_numbers = any(not any(map(is_word, column)) for column in zip(*rest, strict=True))
    return has_numbers and all(first[1:]) and all(map(all, rest))


def is_well_quoted(text: str, layout: Layout) -> bool:
    """Tell whether the quotes of the first record open and close where a field does.

    >>> [is_well_quoted(text, find_layout(text)) for text in ('"a",b', '"a"x,b', '"a,b')]
    [True, False, False]
    """
    try:
        next(csv.reader(io.StringIO(text, newline=""), delimiter=layout.delimiter, strict=True))
    except csv.Error:
        return False
    return True


def _cut_last_line(text: str) -> str:
    """Leave out the last line of a sample, which may be cut."""
    return text if len(text) < SAMPLE_CHARACTERS else text[: text.rfind("\n") + 1] or text


def _read_records(text: str, delimiter: str, most: int = 50) -> list[list[str]]:
    records = []
    try:
        for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            records.append(record)
            if len(records) == most:
                break
    except csv.Error:  # a field without end: the engine will name the line
        pass
    return records


def _rate_evenness(records: list[list[str]]) -> tuple[bool, float, int]:
    """Rate how evenly a delimiter cuts: by the commonest width, since titles may stand above."""
    widths = Counter(len(record) for record in records if record)
    if not widths:
        return False, 0.0, 0
    width, lines = max(widths.items(), key=lambda pair: (pair[1], pair[0]))
    return width > 1, lines / widths.total(), width


# --- lines above the names and below the rows -------------------------------------------------------------------------

TAIL_BYTES = 1 << 16  # of the end of a file, in which totals are sought
_TAIL_RECORDS = 3


def has_other_lines(path: Path) -> bool:
    """Tell whether a UTF-8 file must be written anew: a title above the names, a total at the end, mixed line ends."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as decoded:
        sample = decoded.read(SAMPLE_CHARACTERS)
    return find_other_lines(sample, lambda: _read_tail(path))


def find_other_lines(sample: str, read_tail: Callable[[], str]) -> bool:
    """Tell whether the beginning and the end of a file hold lines that are no rows, or lines with different ends.

    >>> find_other_lines("a,b\\n1,2\\n", lambda: "3,4\\n合計,6\\n")
    True
    """
    layout = find_layout(sample)
    records = [record for record in _read_records(_cut_last_line(sample), layout.delimiter) if record]
    if not records:
        return False
    width = Counter(len(record) for record in records).most_common(1)[0][0]
    filled = [sum(not is_blank(cell) for cell in record) for record in records]
    usual = Counter(filled[1:] or filled).most_common(1)[0][0]
    if width > 2 and (len(records[0]) < width or filled[0] <= usual / 2):
        return True
    tail = read_tail()
    return _has_both_endings(sample, tail) or _ends_in_sum(tail, layout.delimiter)


def _has_both_endings(*parts: str) -> bool:
    """Tell whether lines end in different ways, line breaks inside quotes aside."""
    bare = [re.sub(r'"(?:[^"]|"")*"', "", part) for part in parts]
    return any("\r\n" in part for part in bare) and any(re.search(r"(?<!\r)\n", part) for part in bare)


def _read_tail(path: Path) -> str:
    """Read the end of a file, from the beginning of a line on; a packed one must be unpacked up to there."""
    tail = b""
    with open_bytes(path) as file:
        if path.suffix.lower() != ".gz":
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        while chunk := file.read(TAIL_BYTES):
            tail = (tail + chunk)[-TAIL_BYTES:]
    return tail.decode("utf-8", "replace").partition("\n")[2]


def _ends_in_sum(tail: str, delimiter: str) -> bool:
    for line in [line for line in tail.splitlines() if line.strip()][-_TAIL_RECORDS:]:
        cells = [cell.strip('"') for cell in line.split(delimiter)]
        filled = [cell for cell in cells if not is_blank(cell)]
        if is_sum(filled[0] if filled else "", is_whole=len(filled) == len(cells)):
            return True
    return False


def rewrite_rows(path: Path, out: Path, *, original: Path, lines: tuple[int, int] | None = None) -> tuple[Text, ...]:
    """Write the names and the rows of a UTF-8 file anew, without titles and totals; tell what was left out.

    Error: SourceError naming the line of a row that has more or fewer fields than there are names.
    """
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as decoded:
        sample = decoded.read(SAMPLE_CHARACTERS)
    delimiter = find_layout(sample).delimiter
    records: list[list[str]] = _read_records(_cut_last_line(sample), delimiter, most=measure_sample(lines))
    head = find_head(records, file=original, lines=lines)
    left_out = LeftOut()
    with out.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(head.names)
        writer.writerows(take_rows(_read_even_records(path, delimiter, head, original), head, left_out, file=original))
    return left_out.notes(original)


def _read_even_records(path: Path, delimiter: str, head: Head, original: Path) -> Iterator[list[str]]:
    """Read all records; a row must have as many fields as the line of names, blank ones at the end aside."""
    width = max(head.columns) + 1
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as decoded:
        reader = csv.reader(decoded, delimiter=delimiter, strict=True)
        try:
            for number, record in enumerate(reader):
                filled = [cell for cell in record if not is_blank(cell)]
                is_short = number >= head.first and 1 < len(record) < width and len(filled) > 1
                if is_short or any(not is_blank(cell) for cell in record[width:] if number >= head.first):
                    raise _name_ragged(original, reader.line_num)
                yield record
        except csv.Error:
            raise _name_ragged(original, reader.line_num) from None


def _name_ragged(file: Path, line: int) -> SourceError:
    return SourceError(
        "line {line} of {file} cannot be split into the columns of the first line; check its delimiters and quotes",
        line=line,
        file=file,
    )
