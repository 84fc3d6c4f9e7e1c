"""Reports of many devices, counted as a collector does: a file of any length, read piece by piece.

A file has the columns `artefact,cell` with one line a report, or one JSON object a line; `artefact` is the short
identity of the device file. A third column `sender` may name the device (any text that stays the same): then a report
that a sender sends again counts once, and senders with more different reports than a device may draw are told. Without
it the collector cannot see who sent what, and repeated reports count as so many people.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sudare.errors import SourceError
from sudare.forms.jsontext import read_json
from sudare.forms.textfile import check_file, split_rows
from sudare.methods.location.device import short_identity
from sudare.methods.location.device_file import DeviceFile
from sudare.methods.location.hidden import HiddenMechanism
from sudare.schema.arrays import Integers
from sudare.text import describe_refusal

HEADER = ("artefact", "cell")
SENDER = "sender"
MAX_DIGITS = 18  # of a number that fits 64 bits for certain
PIECE = 2**23  # bytes that are read at a time
BOM = b"\xef\xbb\xbf"
HASH_OF_SENDER = 0x9E3779B97F4A7C15  # an odd factor that spreads the hashes of (sender, report)

Keys = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class CountedReports:
    """Reports by number, and what was seen of their senders."""

    counts: Integers
    repeated: int = 0  # lines that the same sender had sent before
    senders: int | None = None  # how many there are; None: the file does not say
    overdrawn: int = 0  # senders with more different reports than the device file ever allows


def count_reports(path: Path, device_file: DeviceFile) -> Integers:
    """Count the reports of a file by number; one of another device file, or of a cell never reported, is refused."""
    return read_reports(path, device_file).counts


def read_reports(path: Path, device_file: DeviceFile) -> CountedReports:
    """Count the reports of a file; with senders, each report of a sender once."""
    tally = _Tally(path=path, device_file=device_file, name=short_identity(device_file))
    check_file(path, error=SourceError)
    try:
        with path.open("rb") as stream:
            for piece in _read_pieces(stream, path):
                tally.add(piece)
    except OSError as error:
        raise SourceError(
            "{file} cannot be read ({reason}); check that you may read it", file=path, reason=describe_refusal(error)
        ) from None
    return tally.finish()


def _read_pieces(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    """Give whole lines, some megabytes at a time; a line that is longer than that is no report."""
    rest, lines = stream.read(PIECE).removeprefix(BOM), 0
    while rest:
        more = stream.read(PIECE)
        end = rest.rfind(b"\n") + 1 if more else len(rest)
        if end:
            yield rest[:end].replace(b"\r\n", b"\n")
        elif len(rest) > PIECE:
            raise SourceError(
                "{file}, line {line}: longer than {most} bytes; each line must be one report",
                file=path,
                line=lines + 1,
                most=PIECE,
            )
        lines += rest.count(b"\n")
        rest = rest[end:] + more


@dataclass(eq=False, slots=True)
class _Tally:
    """What was counted so far."""

    path: Path
    device_file: DeviceFile
    name: str
    lines: int = 0  # read so far, the first line too
    reports: int = 0
    head: list[str] | None = None  # names of the columns; an empty list: JSON
    counts: Integers | None = None
    keys: list[Keys] = field(default_factory=list)  # (sender, report), hashed
    cells: list[Integers] = field(default_factory=list)  # of the same lines

    def add(self, piece: bytes) -> None:
        """Count the lines of a piece."""
        first = self.head is None
        if first:
            self._read_head(piece)
        body = piece.partition(b"\n")[2] if first and self.head else piece
        cells = read_fast(body, self.name) if tuple(self.head or ()) == HEADER else None
        if cells is None:
            cells, senders = self._read_slowly(body, self.lines + (1 if first and self.head else 0))
            self._note_senders(cells, senders)
        self.lines += piece.count(b"\n")
        self._check_cells(cells)
        self.reports += len(cells)
        found = np.bincount(cells, minlength=self.device_file.mechanism.reports)
        self.counts = found if self.counts is None else self.counts + found

    def finish(self) -> CountedReports:
        """Give the counts; where senders are known, each report of a sender once."""
        if not self.reports or self.counts is None:
            raise SourceError(
                "{file} contains no report; its first line must be artefact,cell, and each further line is one report",
                file=self.path,
            )
        if not self.keys:
            return CountedReports(counts=self.counts)
        keys, cells = np.concatenate(self.keys), np.concatenate(self.cells)
        pairs = keys * np.uint64(HASH_OF_SENDER) + cells.astype(np.uint64)
        _, once = np.unique(pairs, return_index=True)
        drawn = np.unique(keys[once], return_counts=True)[1]
        most = self.device_file.repeat.life
        return CountedReports(
            counts=np.bincount(cells[once], minlength=self.device_file.mechanism.reports),
            repeated=len(cells) - len(once),
            senders=len(drawn),
            overdrawn=0 if most is None else int((drawn > most).sum()),
        )

    def _read_head(self, piece: bytes) -> None:
        start = self._decode(piece).lstrip()
        if start.startswith("{"):
            self.head = []
            return
        rows = split_rows(start.split("\n", 1)[:1], self.path, error=SourceError)
        self.head = [name.strip() for name in rows[0]] if rows else []
        if not set(HEADER) <= set(self.head):
            raise SourceError(
                "{file}: the first line must name the columns artefact and cell, or every line must be JSON",
                file=self.path,
            )

    def _decode(self, piece: bytes) -> str:
        try:
            return piece.decode("utf-8")
        except UnicodeDecodeError:
            raise SourceError("{file} is not UTF-8 text; reports are ASCII", file=self.path) from None

    def _read_slowly(self, body: bytes, before: int) -> tuple[Integers, list[str]]:
        """Read lines one by one, in any order of columns; gives the senders where every line names one."""
        lines = self._decode(body).split("\n")
        rows = self._read_rows(lines, before) if self.head else self._read_json(lines, before)
        cells, senders = [], []
        for line, identity, cell, sender in rows:
            cells.append(_read_cell(line, identity, cell, self.path, self.name))
            senders.append(sender)
        return np.array(cells, dtype=np.int64), senders

    def _read_rows(self, lines: list[str], before: int) -> Iterator[tuple[int, str, str, str]]:
        """Give line number, identity of the device file, cell and sender of every report, as text."""
        head = self.head or []
        at = [head.index(name) if name in head else len(head) for name in (*HEADER, SENDER)]
        for line, row in enumerate(split_rows(lines, self.path, error=SourceError), before + 1):
            if row:
                identity, cell, sender = (row[index].strip() if index < len(row) else "" for index in at)
                yield line, identity, cell, sender

    def _read_json(self, lines: list[str], before: int) -> Iterator[tuple[int, str, str, str]]:
        for number, line in enumerate(lines, before + 1):
            if not line.strip():
                continue
            try:
                facts = read_json(line)
                yield number, str(facts["artefact"]), str(facts["cell"]), str(facts.get(SENDER, ""))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise SourceError(
                    '{file}, line {line}: not a report; write it like {{"artefact": "...", "cell": 3}}',
                    file=self.path,
                    line=number,
                ) from None

    def _note_senders(self, cells: Integers, senders: list[str]) -> None:
        is_named = SENDER in (self.head or []) or (not self.head and any(senders))
        if not is_named:
            return
        if not all(senders) or (self.reports and not self.keys):
            raise SourceError("{file}: some reports name a sender and some do not; name it in all or in none",
                              file=self.path)  # fmt: skip
        self.keys.append(np.array([hash(sender) & 0xFFFFFFFFFFFFFFFF for sender in senders], dtype=np.uint64))
        self.cells.append(cells)

    def _check_cells(self, cells: Integers) -> None:
        law = self.device_file.mechanism
        outside = np.flatnonzero((cells < 0) | (cells >= law.reports))
        if len(outside):
            raise SourceError(
                "{file}: report {number} names a cell outside the map, whose cells are numbered from 0"
                " to {last}; the file is damaged, or of another map",
                file=self.path,
                number=self.reports + int(outside[0]) + 1,
                last=law.reports - 1,
            )
        if isinstance(law, HiddenMechanism):
            return
        impossible = np.flatnonzero(law.weights[cells] == 0)
        if len(impossible):
            raise SourceError(
                "{file}: report {number} names a cell of weight 0, which this device file never reports;"
                " the file is damaged or forged",
                file=self.path,
                number=self.reports + int(impossible[0]) + 1,
            )


def read_fast(body: bytes, name: str) -> Integers | None:
    """Read lines that are all as they should be, a million in a tenth of a second; None for others.

    >>> read_fast(b"ab,3\\nab,5\\n", "ab").tolist(), read_fast(b"ab,x\\n", "ab")
    ([3, 5], None)
    """
    body, start = body.rstrip(b"\n"), name.encode() + b","
    if not body.startswith(start):
        return None
    lines = body.count(b"\n") + 1
    if body.count(b"\n" + start) != lines - 1:
        return None
    numbers = body.replace(start, b"")
    if numbers.translate(None, b"0123456789\n") or b"\n\n" in numbers or numbers.startswith(b"\n"):
        return None
    ends = np.flatnonzero(np.frombuffer(numbers, dtype=np.uint8) == ord("\n"))
    if np.diff(ends, prepend=-1, append=len(numbers)).max() > MAX_DIGITS:
        return None
    cells = np.fromstring(numbers, dtype=np.int64, sep="\n")
    return cells if len(cells) == lines else None


def _read_cell(line: int, identity: str, cell: str, path: Path, name: str) -> int:
    """Read the cell of a report; `name` is the short identity of the device file that is expected."""
    if identity != name:
        raise SourceError(
            "{file}, line {line}: a report drawn with another device file ({other}); this one is {name}."
            " Estimate the reports of each device file separately",
            file=path,
            line=line,
            other=identity[:64] if identity.isascii() and identity.isalnum() else "?",
            name=name,
        )
    if not (cell.isascii() and cell.isdigit() and len(cell) < MAX_DIGITS):
        raise SourceError("{file}, line {line}: the cell must be a whole number of at least 0", file=path, line=line)
    return int(cell)
