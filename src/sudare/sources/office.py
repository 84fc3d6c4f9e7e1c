"""Sheets as offices have them: where the table stands, what its columns are called, which lines are no rows.

Above a table stand titles and notes, its names may fill two lines, below it stand totals and remarks. What is left out
is told with its line, so that no row and no column is lost without a word; where no line looks like names, the sheet
is refused. Whether a line is a row is decided by that line and the names alone, never by other rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import groupby

from sudare.errors import SourceError
from sudare.schema.office import fold
from sudare.text import Text, text

Cells = Sequence[object]
Merged = tuple[int, int, int, int]  # first row, first column, last row, last column, from 0, all included

SUMS = re.compile(
    r"(総?合計|総計|小計|計|平均|合計[0-9]*[名人件]?|grandtotals?|sub-?totals?|totals?|sum|averages?)([:(].*)?",
    re.IGNORECASE,
)
"""The first words of lines that add up others."""

NAMED_SUMS = re.compile(
    r".+(小計|合計|総計|累計|数計|男女計|(地区|[都道府県市区町村年月課係部店])計|\s(sub-?)?totals?)([:(].*)?",
    re.IGNORECASE,
)
"""The first words of lines that add up others and name them (北地区 小計); such a line leaves some column blank."""

_UNIT = re.compile(
    r"[(\[].{1,12}[)\]]|人|円|千円|百万円|%|歳|年|件|kg|cm|km|m|m2|ha|℃|mm|分|時間|世帯|単位.*", re.IGNORECASE
)
_NUMBER = re.compile(r"[¥\\$△▲-]?[0-9][0-9,. /:%年月日-]*[円人%]?")
_SAMPLE_ROWS = 200  # in which the names are sought: titles and notes are shorter
_MOST_LINES_OF_NAMES = 5  # that cells merged downwards may tell
_FILLED = 0.6  # of the columns that a line of names fills, chosen on made-up sheets
_MOST_LINES_TOLD = 20  # lines that one message lists


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """Where the table begins: the names of its columns, the columns themselves, the line of the names, the first row.

    Lines are counted from 0. `names_of_line` are the texts of the line of names, by which a repeated one is known.
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    line: int
    first: int
    names_of_line: tuple[str, ...]


@dataclass(kw_only=True, slots=True)
class LeftOut:
    """Which lines are no rows, by reason; filled while a sheet is read."""

    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, reason: str, line: int) -> None:
        """Note a line, counted from 0."""
        self.lines.setdefault(reason, []).append(line + 1)

    def notes(self, file: object) -> tuple[Text, ...]:
        """Tell the lines that are left out; never what they hold. Blank lines hold nothing."""
        reasons = [(reason, lines) for reason, lines in self.lines.items() if reason != "blank"]
        return tuple(_describe(reason, str(file), _list_runs(lines)) for reason, lines in reasons)


def _describe(reason: str, file: str, lines: str) -> Text:
    match reason:
        case "above":
            return text("{file}: lines above the names of the columns are not read: {lines}", file=file, lines=lines)
        case "units":
            return text("{file}: a line of units below the names is not read: {lines}", file=file, lines=lines)
        case "sum":
            return text("{file}: totals are not read as rows: lines {lines}", file=file, lines=lines)
        case "note":
            return text(
                "{file}: lines with a single text are read as notes, not as rows: {lines}", file=file, lines=lines
            )
        case "again":
            return text("{file}: the names of the columns are repeated, and not read as rows: lines {lines}",
                        file=file, lines=lines)  # fmt: skip
        case "gap":
            return text(
                "{file}: blank lines stand between rows, before lines {lines}; if another table begins there, take"
                " it out",
                file=file,
                lines=lines,
            )
        case "merged":
            return text("{file}: cells merged over several rows were filled with their value: lines {lines}",
                        file=file, lines=lines)  # fmt: skip
        case _:
            return text(
                "{file}: errors of Excel such as #N/A are read as missing: {lines} cells", file=file, lines=lines
            )


def _list_runs(lines: Sequence[int]) -> str:
    """Write lines as runs.

    >>> _list_runs([1, 2, 3, 7])
    '1-3, 7'
    """
    runs = []
    for _, group in groupby(enumerate(sorted(set(lines))), key=lambda pair: pair[1] - pair[0]):
        run = [line for _, line in group]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(runs[:_MOST_LINES_TOLD]) + (", ..." if len(runs) > _MOST_LINES_TOLD else "")


def tidy_name(value: object) -> str:
    """Write the name of a column in one line, without blanks around.

    >>> tidy_name("ID\\n番号　")
    'ID 番号'
    """
    return re.sub(r"\s+", " ", _write(value)).strip()


def is_blank(value: object) -> bool:
    """Tell whether a cell holds nothing."""
    return value is None or (isinstance(value, str) and not value.strip(" \t\r\n\u3000\xa0"))


def is_word(value: object) -> bool:
    """Tell whether a cell is a word: no number, no day, no number written as text."""
    if isinstance(value, bool | int | float | date | datetime | time):
        return False
    return not _NUMBER.fullmatch(fold(str(value)))


# --- the line of names ------------------------------------------------------------------------------------------------


def find_head(
    rows: Sequence[Cells], *, file: object, merged: Sequence[Merged] = (), lines: tuple[int, int] | None = None
) -> Head:
    """Find the names of the columns in the first rows of a sheet, or take the lines (from 0) that a steward chose.

    Error: SourceError if no line looks like names.

    >>> find_head([["Members"], [], ["age", "sex"], [31, "F"], [40, "M"]], file="members.xlsx").names
    ('age', 'sex')
    """
    sample = [list(row) for row in rows[: measure_sample(lines)]]
    width = max((len(row) for row in sample), default=0)
    sample = [row + [None] * (width - len(row)) for row in sample]
    spread = _spread(sample, merged)
    if lines is not None:
        if not 0 <= lines[0] <= lines[1] < len(rows):
            raise SourceError(
                "line {line} of {file} is not there; name a line of the sheet", line=lines[1] + 1, file=file
            )
        return _name_columns(sample, spread, lines[0], lines[1] + 1)
    table_width = _measure_width(sample)
    for line, row in enumerate(spread):
        if _may_name(row, sample[line + 1 : line + 3], table_width):
            return _name_columns(sample, spread, line, _end_of_names(sample, spread, line, merged))
    raise refuse_head(file)


def measure_sample(lines: tuple[int, int] | None) -> int:
    """Count the first rows of a sheet that `find_head` looks at: more where a steward chose a line further down."""
    return _SAMPLE_ROWS if lines is None else lines[1] + 1 + _SAMPLE_ROWS


def refuse_head(file: object) -> SourceError:
    """Say that no line of names was found."""
    return SourceError(
        "no line of {file} looks like the names of its columns; say which line it is, as in {file}#!3, or write a line"
        " of names above the rows",
        file=file,
    )


def _spread(sample: Sequence[Cells], merged: Sequence[Merged]) -> list[list[object]]:
    """Write the value of a merged cell into every cell that it covers."""
    spread = [list(row) for row in sample]
    for top, left, bottom, right in merged:
        for row in range(top, min(bottom, len(spread) - 1) + 1):
            for column in range(left, min(right, len(spread[row]) - 1) + 1):
                spread[row][column] = spread[top][left]
    return spread


def _measure_width(sample: Sequence[Cells]) -> int:
    """Count the columns: the largest number of filled cells that a tenth of the lines (and two) reach."""
    filled = sorted((sum(not is_blank(cell) for cell in row) for row in sample), reverse=True)
    lines = sum(count > 0 for count in filled)
    return filled[min(max(2, lines // 10), len(filled)) - 1] if filled else 0


def _may_name(row: Cells, below: Sequence[Cells], table_width: int) -> bool:
    """Tell whether a line looks like names: words in most columns, different ones, with rows below."""
    cells = [cell for cell in row if not is_blank(cell)]
    is_title = len(cells) > 1 and len({tidy_name(cell) for cell in cells}) == 1
    is_followed = any(sum(not is_blank(cell) for cell in line) >= table_width / 2 for line in below)
    is_wide = bool(cells) and len(cells) >= _FILLED * table_width
    return is_wide and not is_title and is_followed and all(is_word(cell) for cell in cells)


def _end_of_names(sample: Sequence[Cells], spread: Sequence[Cells], line: int, merged: Sequence[Merged]) -> int:
    """Give the first line below the names: a second line of names belongs to them, a line of units is left out."""
    if line + 2 >= len(sample):
        return line + 1
    deepest = max((bottom for top, _, bottom, _ in merged if top == line), default=line)
    if line < deepest < min(line + _MOST_LINES_OF_NAMES, len(sample) - 1) and _are_words(
        sample[line + 1 : deepest + 1]
    ):
        return deepest + 1
    words = [cell for cell in sample[line + 1] if not is_blank(cell)]
    if not words or not _are_words([words]):
        return line + 1
    is_under_merged = any(top == line and right > left for top, left, _, right in merged)
    fills_holes = any(is_blank(upper) and not is_blank(lower)
                      for upper, lower in zip(spread[line], sample[line + 1], strict=True))  # fmt: skip
    if not is_under_merged and not fills_holes:
        return line + 1
    below = {tidy_name(cell) for row in sample[line + 2 :] for cell in row if not is_blank(cell)}
    return line + 1 if all(tidy_name(word) in below for word in words) else line + 2


def _are_words(lines: Sequence[Cells]) -> bool:
    """Tell whether lines hold words and blanks only."""
    cells = [cell for line in lines for cell in line if not is_blank(cell)]
    return all(isinstance(cell, str) and is_word(cell) for cell in cells)


def _name_columns(sample: Sequence[Cells], spread: Sequence[Cells], line: int, first: int) -> Head:
    """Join the lines of names; a column without a name but with values is called by its number."""
    width = len(sample[line]) if sample else 0
    names: list[str] = []
    for column in range(width):
        parts = [tidy_name(spread[row][column]) for row in range(line, first) if not is_blank(spread[row][column])]
        names.append("_".join(dict.fromkeys(part for part in parts if part)))
    units = first < len(sample) and _are_units(sample[first])
    rest = sample[first + units :]
    columns = [column for column in range(width) if names[column] or any(not is_blank(row[column]) for row in rest)]
    taken: list[str] = []
    for column in columns:
        name, number = names[column] or f"column {column + 1}", 2
        while name in taken:
            name, number = f"{names[column] or f'column {column + 1}'}_{number}", number + 1
        taken.append(name)
    own = tuple(tidy_name(cell) for cell in spread[line] if not is_blank(cell))
    return Head(names=tuple(taken), columns=tuple(columns), line=line, first=first + units, names_of_line=own)


def _are_units(row: Cells) -> bool:
    words = [cell for cell in row if not is_blank(cell)]
    return bool(words) and all(isinstance(word, str) and _UNIT.fullmatch(fold(word)) for word in words)


# --- rows -------------------------------------------------------------------------------------------------------------


def is_sum(first: str, *, is_whole: bool) -> bool:
    """Tell by the first word of a line whether it adds up others; a line without blanks must say nothing else.

    >>> [is_sum(first, is_whole=False) for first in ("合　計", "北地区 小計", "North total", "時計", "計画")]
    [True, True, True, False, False]
    >>> is_sum("北地区 小計", is_whole=True)
    False
    """
    word = fold(first).strip()
    is_plain = SUMS.fullmatch(re.sub(r"\s", "", word)) is not None
    return is_plain or (not is_whole and NAMED_SUMS.fullmatch(word) is not None)


def find_reason(row: Cells, head: Head) -> str | None:
    """Say why a line is no row of the table: "blank", "sum", "note", "again"; None if it is one."""
    cells = [cell for cell in row if not is_blank(cell)]
    if not cells:
        return "blank"
    if isinstance(cells[0], str) and is_sum(cells[0], is_whole=len(cells) >= len(head.columns)):
        return "sum"
    if len(cells) == 1 and len(head.columns) > 2 and isinstance(cells[0], str) and is_word(cells[0]):
        return "note"
    if len(cells) == len(head.names_of_line) and all(
        tidy_name(cell) == name for cell, name in zip(cells, head.names_of_line, strict=True)
    ):
        return "again"
    return None


def take_rows(rows: Iterable[Cells], head: Head, left_out: LeftOut, *, file: object) -> Iterator[list[str]]:
    """Give the rows of the table below the names, as texts; `left_out` collects the lines that are none.

    Error: SourceError if a row has a value in a column that has no name and was empty before.
    """
    known = set(head.columns)
    has_row = is_after_blank = False
    for line, row in enumerate(rows):
        if line < head.first:
            if line < head.line and any(not is_blank(cell) for cell in row):
                left_out.add("above", line)
            elif line > head.line and _are_units(row):
                left_out.add("units", line)
            continue
        reason = find_reason(row, head)
        if reason is not None:
            left_out.add(reason, line)
            is_after_blank |= reason == "blank"
            continue
        if has_row and is_after_blank:
            left_out.add("gap", line)
        has_row, is_after_blank = True, False
        if any(not is_blank(cell) for column, cell in enumerate(row) if column not in known):
            raise SourceError(
                "line {line} of {file} has a value in a column without a name; name the column, or take the value out",
                line=line + 1,
                file=file,
            )
        yield [_write(row[column]) if column < len(row) else "" for column in head.columns]


def _write(value: object) -> str:
    """Write a cell as text: whole numbers without decimals, days and times as ISO 8601."""
    if type(value) is str:  # most cells are: before the slower match
        return value
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return str(value)
