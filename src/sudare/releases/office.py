"""A release for Excel: one workbook with a sheet for the certificate, or CSV that Excel opens without harm.

The release itself stays what its certificate names; what is written here is a copy for people. Texts are never taken
for formulas: in a workbook they are cells of text, in CSV a value that begins like a formula gets an apostrophe. The
only file that imports XlsxWriter.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sudare.atomic import check_new_file, new_file
from sudare.errors import ReleaseError
from sudare.releases.frame import Coded, Frame
from sudare.releases.release import Release
from sudare.schema.office import read_number_format, write_office_label
from sudare.text import text, use_language

LabelStyle = Literal["plain", "office"]

BINARY = (bytes, bytearray, memoryview)
MOST_ROWS = 1_048_575  # below the line of names, in a sheet of Excel
_MOST_COLUMNS = 16_384
_MOST_CHARACTERS = 32_767  # in a cell
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NOT_IN_NAMES = re.compile(r"[\[\]:*?/\\']")
_CREATED = datetime(2000, 1, 1)  # a workbook says when it was made; the certificate says the day


def export_release(
    release: Release, path: Path, *, labels: LabelStyle = "plain", table: str | None = None
) -> tuple[str, ...]:
    """Write the tables of a release into a new file, .xlsx or .csv; give the names of the tables.

    `labels="office"` writes ranges and days as Japanese offices do (30〜39歳, 令和6年). `table` names one table, which
    CSV needs where there are several.

    Error: ReleaseError if the file exists, a table does not fit a sheet, or the ending is another.
    """
    check_new_file(path, error=ReleaseError)
    frames = dict(release.frames) if table is None else {table: release._table(table)}
    if not frames:
        raise ReleaseError("the release holds no table, so there is nothing to open in Excel; use its files")
    if path.suffix.lower() == ".xlsx":
        for name, frame in frames.items():
            _check_rows(name, frame)
    shown = {name: _relabel(frame, release, labels) for name, frame in frames.items()}
    match path.suffix.lower():
        case ".xlsx":
            _write_book(release, shown, path)
        case ".csv":
            if len(shown) > 1:
                raise ReleaseError("the release holds several tables ({names}); name one, or write .xlsx",
                                   names=", ".join(shown))  # fmt: skip
            _write_csv(next(iter(shown.values())), path)
        case _:
            raise ReleaseError("{file} must end in .xlsx or .csv", file=path)
    return tuple(shown)


def _relabel(frame: Frame, release: Release, labels: LabelStyle) -> dict[str, list[Any]]:
    """Give columns as lists, with the labels that are asked for; outlines of a map are nothing that Excel shows."""
    attributes = {facts["name"]: facts for facts in release.certificate.schema.get("attributes", ())}
    listed = {name: _list_values(name, column, attributes.get(name), labels) for name, column in frame.columns.items()}
    return {name: values for name, values in listed.items() if not any(isinstance(each, BINARY) for each in values[:1])}


def _list_values(
    name: str, column: Coded | NDArray[np.generic], facts: Mapping[str, Any] | None, labels: LabelStyle
) -> list[Any]:
    if not isinstance(column, Coded):
        hidden = np.ma.getmaskarray(column)
        values = np.ma.getdata(column).tolist()
        return [None if missing else value for value, missing in zip(values, hidden, strict=True)]
    texts = column.labels.tolist()
    if facts is None and all(label is None or _NUMBER.fullmatch(label) for label in texts):  # counts of a CSV file
        texts = [None if label is None else float(label) if "." in label else int(label) for label in texts]
    if labels == "office" and facts is not None:
        kind = str(facts["domain"]["kind"])
        suffix = read_number_format(facts["format"]).suffix if kind == "number" and "format" in facts else ""
        texts = [write_office_label(label, kind=kind, name=name, suffix=suffix) for label in texts]
    return [texts[code] for code in column.codes.tolist()]


# --- CSV --------------------------------------------------------------------------------------------------------------


def _write_csv(columns: Mapping[str, list[Any]], path: Path) -> None:
    """Write UTF-8 with a byte order mark, by which Excel knows the encoding, and lines as Windows ends them."""
    with new_file(path, error=ReleaseError) as temporary, temporary.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow([guard_formula(name) for name in columns])
        for row in zip(*columns.values(), strict=True):
            writer.writerow(["" if value is None else guard_formula(value) for value in row])


def guard_formula(value: object) -> object:
    """Put an apostrophe before a text that Excel would take for a formula; numbers stay numbers.

    >>> guard_formula("=1+1"), guard_formula("-5"), guard_formula(-5), guard_formula("[0,5)")
    ("'=1+1", '-5', -5, '[0,5)')
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


# --- a workbook -------------------------------------------------------------------------------------------------------


def _write_book(release: Release, tables: Mapping[str, Mapping[str, list[Any]]], path: Path) -> None:
    for name, columns in tables.items():
        _check_size(name, columns)
    try:
        import xlsxwriter
    except ImportError:
        raise ReleaseError("{file} needs sudare[excel]; install it, or write .csv", file=path) from None
    with new_file(path, error=ReleaseError) as temporary:
        book = xlsxwriter.Workbook(str(temporary), {"constant_memory": True, "strings_to_formulas": False,
                                                    "strings_to_urls": False, "strings_to_numbers": False})  # fmt: skip
        book.set_properties({"created": _CREATED})
        bold = book.add_format({"bold": True})
        for name, columns in tables.items():
            sheet = book.add_worksheet(_name_sheet(name))
            sheet.freeze_panes(1, 0)
            for at, column in enumerate(columns):
                sheet.write_string(0, at, column, bold)
            _write_rows(sheet, zip(*columns.values(), strict=True))
        for language, title in (("en", "certificate"), ("ja", "証明書")):
            _write_certificate(book.add_worksheet(title), release, language, bold)
        book.close()


def _check_rows(name: str, frame: Frame) -> None:
    """Refuse a long table before its values are listed, which would take long and much memory."""
    if frame.rows > MOST_ROWS:
        raise ReleaseError(
            "table {name} has {rows} rows, and a sheet of Excel holds {most}; write it as .csv with --table {name}, or"
            " name a shorter table",
            name=name,
            rows=frame.rows,
            most=MOST_ROWS,
        )


def _check_size(name: str, columns: Mapping[str, list[Any]]) -> None:
    longest = max(
        (len(value) for column in columns.values() for value in set(column) if isinstance(value, str)), default=0
    )
    if len(columns) > _MOST_COLUMNS or longest > _MOST_CHARACTERS:
        raise ReleaseError(
            "table {name} has {columns} columns and values of up to {longest} characters; a sheet of Excel holds"
            " {most} columns and {most_characters} characters in a cell; write .csv",
            name=name,
            columns=len(columns),
            longest=longest,
            most=_MOST_COLUMNS,
            most_characters=_MOST_CHARACTERS,
        )


def _name_sheet(name: str) -> str:
    """Cut a name to what Excel takes.

    >>> _name_sheet("cells/2024")
    'cells_2024'
    """
    return _NOT_IN_NAMES.sub("_", name)[:31] or "table"


def _write_rows(sheet: Any, rows: Iterable[tuple[Any, ...]]) -> None:
    for number, row in enumerate(rows, start=1):
        for at, value in enumerate(row):
            if isinstance(value, int | float) and not isinstance(value, bool):
                sheet.write_number(number, at, value)
            elif value is not None:
                sheet.write_string(number, at, str(value))


def _write_certificate(sheet: Any, release: Release, language: str, bold: Any) -> None:
    """Write the certificate as lines of text, headings in bold."""
    with use_language(language):
        note = str(
            text("A copy for reading: the release itself, with its certificate, can be checked by `sudare verify`.")
        )
    sheet.set_column(0, 0, 120)
    lines = [note, "", *release.certificate.words(language).splitlines()]
    for number, line in enumerate(lines):
        plain = line.lstrip("#").strip()
        sheet.write_string(number, 0, plain, bold if line.startswith("#") else None)
