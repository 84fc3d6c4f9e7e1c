"""Reports of devices as files: `artefact,cell` with one line a report, or one JSON object a line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.errors import SourceError
from sudare.methods.location.artefact import Artefact
from sudare.methods.location.device import short_identity

Ints = NDArray[np.int64]

HEADER = ("artefact", "cell")
MOST_DIGITS = 18  # of a number that fits 64 bits for certain


def count_reports(path: Path, artefact: Artefact) -> Ints:
    """Count the reports of a file by cell; one of another artefact, or of a cell it never reports, is refused."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SourceError(
            "{file} cannot be read ({reason}); check that you may read it", file=path, reason=error.strerror
        ) from None
    raw = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    name = short_identity(artefact)
    cells = _read_plain(raw, name)
    if cells is None:
        cells = np.array([_checked(*one, path, name) for one in _read(raw, path)], dtype=np.int64)
    if not len(cells):
        raise SourceError("{file} holds no report; it needs a line artefact,cell and one line a report", file=path)
    _check_cells(cells, artefact, path)
    return np.bincount(cells, minlength=artefact.mechanism.places.size)


def _read_plain(raw: bytes, name: str) -> Ints | None:
    """Read a file in which every line is as it should be, a million lines in a tenth of a second; None for others."""
    head, _, body = raw.partition(b"\n")
    body = body.rstrip(b"\n")
    start = name.encode() + b","
    if tuple(head.decode("ascii", "replace").split(",")) != HEADER or not body.startswith(start):
        return None
    lines = body.count(b"\n") + 1
    if body.count(b"\n" + start) != lines - 1:
        return None
    numbers = body.replace(start, b"")
    if numbers.translate(None, b"0123456789\n") or b"\n\n" in numbers or numbers.startswith(b"\n"):
        return None
    ends = np.flatnonzero(np.frombuffer(numbers, dtype=np.uint8) == ord("\n"))
    if np.diff(ends, prepend=-1, append=len(numbers)).max() > MOST_DIGITS:
        return None
    cells = np.fromstring(numbers, dtype=np.int64, sep="\n")
    return cells if len(cells) == lines else None


def _read(raw: bytes, path: Path) -> Iterator[tuple[int, str, str]]:
    """Give line number, artefact and cell of every report, as text."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError("{file} is not UTF-8 text; reports are ASCII", file=path) from None
    lines = text.split("\n")
    if text.lstrip().startswith("{"):
        yield from _read_json(lines, path)
        return
    rows = csv.reader(lines)
    head = [one.strip() for one in next(rows, [])]
    if not set(HEADER) <= set(head):
        raise SourceError(
            "{file}: the first line must name the columns artefact and cell, or lines must be JSON", file=path
        )
    places = [head.index(one) for one in HEADER]
    for row in rows:
        if row:
            yield rows.line_num, *(row[place].strip() if place < len(row) else "" for place in places)  # type: ignore[misc]


def _read_json(lines: list[str], path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            facts = json.loads(line)
            yield number, str(facts["artefact"]), str(facts["cell"])
        except (ValueError, KeyError, TypeError):
            raise SourceError(
                '{file}, line {line}: not a report; write it like {{"artefact": "...", "cell": 3}}',
                file=path,
                line=number,
            ) from None


def _checked(line: int, artefact: str, cell: str, path: Path, name: str) -> int:
    if artefact != name:
        raise SourceError(
            "{file}, line {line}: a report of another artefact ({other}); this one is {name}."
            " Estimate reports of each artefact apart",
            file=path,
            line=line,
            other=artefact[:64] if artefact.isascii() and artefact.isalnum() else "?",
            name=name,
        )
    if not (cell.isascii() and cell.isdigit() and len(cell) < MOST_DIGITS):
        raise SourceError("{file}, line {line}: the cell must be a whole number of at least 0", file=path, line=line)
    return int(cell)


def _check_cells(cells: Ints, artefact: Artefact, path: Path) -> None:
    size = artefact.mechanism.places.size
    outside = np.flatnonzero((cells < 0) | (cells >= size))
    if len(outside):
        raise SourceError(
            "{file}: report {number} names a cell outside the map, whose cells are numbered from 0"
            " to {last}; the file is damaged, or of another map",
            file=path,
            number=int(outside[0]) + 1,
            last=size - 1,
        )
    impossible = np.flatnonzero(artefact.mechanism.weights[cells] == 0)
    if len(impossible):
        raise SourceError(
            "{file}: report {number} names a cell of weight 0, which this artefact never reports;"
            " the file is damaged or forged",
            file=path,
            number=int(impossible[0]) + 1,
        )
