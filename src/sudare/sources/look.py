"""The first lines of a file as they stand in it: for a steward who must say where the names of the columns are.

Nothing is left out and nothing is read as a table yet. What is shown holds rows, so it stays with the steward.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sudare.errors import SourceError
from sudare.sources.delimited import find_layout
from sudare.sources.excel import open_sheets
from sudare.sources.files import find_encoding, find_files, open_bytes
from sudare.sources.office import find_head, is_blank

SHOWN_LINES = 20
SHOWN_COLUMNS = 40
SHOWN_CHARACTERS = 80  # of one cell
_SAMPLE_CHARACTERS = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstLines:
    """The sheets of a file, the one that is shown, its first lines, and the line that looks like names (from 0)."""

    sheets: tuple[str, ...]
    sheet: str | None
    lines: tuple[tuple[str, ...], ...]
    names_line: int | None


def read_first_lines(data: str, *, sheet: str | None = None, encoding: str | None = None) -> FirstLines | None:
    """Read the beginning of a workbook or a text file; None for a file that names its columns itself.

    Error: SourceError if it cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "members.csv")
    ...     _ = path.write_text("Members\\n\\nage,sex\\n31,F\\n40,M\\n")
    ...     found = read_first_lines(str(path))
    >>> found.names_line, found.lines[2]
    (2, ('age', 'sex'))
    """
    files = find_files(data)
    path = files.paths[0]
    if files.kind == "excel":
        sheets = open_sheets(path)
        chosen = sheet or files.sheet or next((name for name, rows in sheets.items() if rows), next(iter(sheets)))
        if chosen not in sheets:
            names = ", ".join(sheets)
            raise SourceError("{file} has no sheet {sheet}; it has {names}", file=path, sheet=chosen, names=names)
        return _show(tuple(sheets), chosen, sheets[chosen], path)
    if files.kind == "text":
        return _show((), None, _read_text_lines(path, encoding), path)
    return None


def _read_text_lines(path: Path, encoding: str | None) -> list[list[object]]:
    found = find_encoding(path, encoding)
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding=found, errors="replace", newline="") as decoded:
        sample = decoded.read(_SAMPLE_CHARACTERS).removeprefix("\ufeff")
    delimiter = find_layout(sample).delimiter if sample.strip() else ","
    rows: list[list[object]] = []
    with contextlib.suppress(csv.Error):  # a quote that never closes: what came before it is shown
        for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter):
            rows.append(list(row))
            if len(rows) == 200:
                break
    return rows


def _show(sheets: tuple[str, ...], sheet: str | None, rows: Sequence[Sequence[object]], path: Path) -> FirstLines:
    names_line = None
    with contextlib.suppress(SourceError):  # none found: the steward chooses one
        names_line = find_head(rows, file=path).line
    lines = tuple(tuple(_write(cell) for cell in row[:SHOWN_COLUMNS]) for row in rows[:SHOWN_LINES])
    return FirstLines(sheets=sheets, sheet=sheet, lines=lines, names_line=names_line)


def _write(cell: object) -> str:
    """Write a cell as Excel shows it: a whole number without a point."""
    if is_blank(cell):
        return ""
    whole = isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15
    return str(int(cell) if whole else cell)[:SHOWN_CHARACTERS]  # type: ignore[call-overload]
