"""Workbooks of Excel (.xlsx, .xlsm, .xls): a sheet is found, its table is written as CSV for the engine.

The only file that imports python-calamine. A workbook is looked at before it is opened: what unpacks to far more than a
sheet can hold, or names a cell far away from all others, would fill the memory.
"""

from __future__ import annotations

import csv
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from sudare.errors import SourceError
from sudare.sources.office import LeftOut, Merged, find_head, is_blank, measure_sample, take_rows
from sudare.text import Text, describe_refusal

EXCEL_ENDINGS = frozenset({".xlsx", ".xlsm", ".xls"})

_MOST_BYTES = 1 << 30  # that the parts of a workbook may unpack to
_MOST_CELLS = 50_000_000  # in the rectangle that holds all cells of a sheet; about 4 GB of memory
_CHUNK = 1 << 20
_COMPOUND = bytes.fromhex("D0CF11E0A1B11AE1")  # how an .xls begins, and an .xlsx with a password
_CELL = re.compile(rb"\br\s*=\s*[\"']([A-Z]{1,3})([0-9]{1,7})[\"']")
_ERROR_CELL = re.compile(rb"<c\b[^>]*\bt\s*=\s*[\"']e[\"']")


def write_sheet(
    path: Path, out: Path, *, sheet: str | None = None, lines: tuple[int, int] | None = None
) -> tuple[Text, ...]:
    """Write the table of a sheet as CSV in UTF-8; give notes on what was left out.

    Without a name, the only sheet that holds anything is read. `lines` are the first and the last line of names.

    Error: SourceError if the workbook cannot be read, has several sheets, or no line looks like names.
    """
    errors = _look_inside(path)
    book = _open_book(path)
    try:
        rows, merged = _read_sheet(book, _choose_sheet(book, path, sheet))
    except Exception as error:  # calamine has errors of its own, and passes on those of Rust
        raise _name_damage(path, error) from None
    first_rows = list(islice(rows, measure_sample(lines)))
    if not any(not is_blank(cell) for row in first_rows for cell in row):
        raise SourceError("{file} is empty; a table needs at least a line with the names of its columns", file=path)
    if sum((bottom - top + 1) * (right - left + 1) for top, left, bottom, right in merged) > _MOST_CELLS:
        raise _name_size(path)
    left_out = LeftOut()
    head = find_head(first_rows, file=path, merged=merged, lines=lines)
    filled = _fill_merged(chain(first_rows, rows), merged, head.first, left_out)
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head.names)
        writer.writerows(take_rows(filled, head, left_out, file=path))
    if errors:
        left_out.lines["error"] = [errors]
    return left_out.notes(path)


def open_sheets(path: Path) -> dict[str, list[list[object]]]:
    """Read every sheet of a workbook as it stands, by name.

    Error: SourceError if the workbook cannot be read.
    """
    _look_inside(path)
    book = _open_book(path)
    try:
        return {name: list(_read_sheet(book, name)[0]) for name in book.sheet_names}
    except Exception as error:
        raise _name_damage(path, error) from None


def _open_book(path: Path) -> Any:
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise SourceError(
            "{file} is a workbook of Excel: install sudare[excel] to read it, or save the sheet as CSV", file=path
        ) from None
    try:
        return CalamineWorkbook.from_path(path)
    except Exception as error:
        raise _name_damage(path, error) from None


def _name_damage(path: Path, error: Exception) -> SourceError:
    if isinstance(error, SourceError):
        return error
    if type(error).__name__ == "PasswordError" or "assword" in str(error):
        return _name_password(path)
    if isinstance(error, OSError):
        return SourceError(
            "{file} cannot be read ({reason}); check that you may read it", file=path, reason=describe_refusal(error)
        )
    return SourceError(
        "{file} is damaged, or is not a workbook of Excel; open it in Excel and save it again", file=path
    )


def _name_password(path: Path) -> SourceError:
    return SourceError("{file} is protected by a password; save it without one, in a place you trust", file=path)


def _choose_sheet(book: Any, path: Path, sheet: str | None) -> str:
    """Find the sheet by its name, or the only one that holds anything."""
    names: list[str] = list(book.sheet_names)
    if sheet is not None:
        if sheet not in names:
            raise SourceError(
                "{file} has no sheet {sheet}; it has {names}", file=path, sheet=sheet, names=", ".join(names)
            )
        return sheet
    heights = {name: book.get_sheet_by_name(name).height for name in names} if len(names) > 1 else {names[0]: 1}
    filled = [name for name in names if heights[name]]
    if len(filled) > 1:
        raise SourceError(
            "{file} has several sheets ({names}); name the one to read, as in {file}#{first}",
            file=path,
            names=", ".join(filled),
            first=max(filled, key=heights.__getitem__),
        )
    return filled[0] if filled else names[0]


def _read_sheet(book: Any, name: str) -> tuple[Iterator[list[object]], list[Merged]]:
    """Give the rows of a sheet one by one, from its first line and column on, and its merged cells."""
    page = book.get_sheet_by_name(name)
    try:
        ranges = page.merged_cell_ranges or []
    except Exception:  # .xls files of old writers may lack them
        ranges = []
    blanks = [""] * (page.start[1] if page.start else 0)  # columns before the first that holds anything
    rows = (blanks + row for row in page.iter_rows()) if blanks else page.iter_rows()
    return iter(rows), [(top, left, bottom, right) for (top, left), (bottom, right) in ranges]


def _fill_merged(
    rows: Iterable[list[object]], merged: Sequence[Merged], first: int, left_out: LeftOut
) -> Iterator[list[object]]:
    """Write the value of a cell merged over several rows into each of them: it belongs to all."""
    begins: dict[int, list[Merged]] = {}
    for cells in merged:
        if first <= cells[0] < cells[2]:
            begins.setdefault(cells[0], []).append(cells)
    active: list[tuple[Merged, object]] = []
    for number, row in enumerate(rows):
        active = [(cells, value) for cells, value in active if cells[2] >= number]
        active += [(cells, row[cells[1]]) for cells in begins.get(number, ())
                   if cells[1] < len(row) and not is_blank(row[cells[1]])]  # fmt: skip
        for (_, left, _, right), value in active:
            row[left : right + 1] = [value] * (min(right, len(row) - 1) + 1 - left)
        if active:
            left_out.add("merged", number)
        yield row


# --- before a workbook is opened --------------------------------------------------------------------------------------


def _look_inside(path: Path) -> int:
    """Refuse what is no workbook, has a password, or would fill the memory; count the cells that hold an error.

    Sizes that a zip archive tells of itself may lie, so every part is unpacked, and thrown away.
    """
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise _name_damage(path, error) from None
    if start == _COMPOUND:
        if path.suffix.lower() != ".xls":
            raise _name_password(path)
        return 0
    try:
        with zipfile.ZipFile(path) as archive:
            return _measure_parts(path, archive)
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError) as error:
        raise _name_damage(path, error) from None


def _measure_parts(path: Path, archive: zipfile.ZipFile) -> int:
    size, errors = 0, 0
    for part in archive.infolist():
        is_sheet = "worksheets/" in part.filename
        rows = columns = 0
        rest = b""
        for chunk in _unpack(path, part):
            size += len(chunk)
            if size > _MOST_BYTES:
                raise _name_size(path)
            if is_sheet:
                text = rest + chunk
                cut = text.rfind(b"<")
                text, rest = (text[:cut], text[cut:]) if cut > 0 and len(text) - cut < _CHUNK else (text, b"")
                for column, row in _CELL.findall(text):
                    columns, rows = max(columns, _number_column(column)), max(rows, int(row))
                errors += len(_ERROR_CELL.findall(text))
        if rows * columns > _MOST_CELLS:
            raise _name_size(path)
    return errors


def _unpack(path: Path, part: zipfile.ZipInfo) -> Iterator[bytes]:
    """Unpack a part whatever size its directory tells; a part that is not deflated has the size that it takes."""
    with path.open("rb") as file:
        file.seek(part.header_offset)
        header = file.read(30)
        if header[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile
        file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
        left = part.compress_size
        unpacker = zlib.decompressobj(-15) if part.compress_type == zipfile.ZIP_DEFLATED else None
        while left > 0 and (packed := file.read(min(_CHUNK, left))):
            left -= len(packed)
            while packed:
                chunk = packed if unpacker is None else unpacker.decompress(packed, _CHUNK)
                packed = b"" if unpacker is None else unpacker.unconsumed_tail
                yield chunk


def _number_column(letters: bytes) -> int:
    """Number a column by its letters.

    >>> _number_column(b"A"), _number_column(b"XFD")
    (1, 16384)
    """
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number


def _name_size(path: Path) -> SourceError:
    return SourceError("{file} unpacks to more than a sheet can hold; save the table as CSV", file=path)
