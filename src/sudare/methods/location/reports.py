"""Reports of devices as files: drawn as devices draw them, and counted as a collector does.

A file has the columns `artefact,cell` with one line a report, or one JSON object a line; `artefact` is the short
identity of the device file. Whoever estimates from the counts goes on in estimate_files.py.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sudare.atomic import check_new_file, replace_file, write_new_file
from sudare.errors import ParameterError, SourceError
from sudare.forms.jsontext import read_json
from sudare.forms.textfile import read_bytes, read_records, read_text, split_rows
from sudare.methods.location.device import Device, DeviceCaps, Report, short_identity
from sudare.methods.location.device_file import DeviceFile, open_device_file
from sudare.methods.location.geo import find_cell
from sudare.methods.location.hidden import HiddenMechanism
from sudare.methods.location.sampler import Sampler
from sudare.noise import Rng, SeededRng, system_rng
from sudare.schema.arrays import Integers
from sudare.text import describe_refusal

HEADER = ("artefact", "cell")
SEEDED = "seeded_for_tests"  # the column of reports that were drawn from a seed
MAX_DIGITS = 18  # of a number that fits 64 bits for certain


# --- counting reports -------------------------------------------------------------------------------------------------


def count_reports(path: Path, device_file: DeviceFile) -> Integers:
    """Count the reports of a file by cell; one of another device file, or of a cell never reported, is refused."""
    raw = read_bytes(path, error=SourceError)
    raw = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    name = short_identity(device_file)
    cells = _read_fast(raw, name)
    if cells is None:
        cells = np.array([_read_cell(*report, path, name) for report in _read_lines(raw, path)], dtype=np.int64)
    if not len(cells):
        raise SourceError(
            "{file} contains no report; its first line must be artefact,cell, and each further line is one report",
            file=path,
        )
    _check_cells(cells, device_file, path)
    return np.bincount(cells, minlength=device_file.mechanism.reports)


def _read_fast(raw: bytes, name: str) -> Integers | None:
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
    if np.diff(ends, prepend=-1, append=len(numbers)).max() > MAX_DIGITS:
        return None
    cells = np.fromstring(numbers, dtype=np.int64, sep="\n")
    return cells if len(cells) == lines else None


def _read_lines(raw: bytes, path: Path) -> Iterator[tuple[int, str, str]]:
    """Give line number, identity of the device file and cell of every report, as text."""
    try:
        content = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError("{file} is not UTF-8 text; reports are ASCII", file=path) from None
    lines = content.split("\n")
    if content.lstrip().startswith("{"):
        yield from _read_json(lines, path)
        return
    rows = split_rows(lines, path, error=SourceError)
    head = [name.strip() for name in rows[0]] if rows else []
    if not set(HEADER) <= set(head):
        raise SourceError(
            "{file}: the first line must name the columns artefact and cell, or every line must be JSON", file=path
        )
    at = [head.index(name) for name in HEADER]
    for line, row in enumerate(rows[1:], 2):
        if row:
            identity, cell = (row[index].strip() if index < len(row) else "" for index in at)
            yield line, identity, cell


def _read_json(lines: list[str], path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            facts = read_json(line)
            yield number, str(facts["artefact"]), str(facts["cell"])
        except (ValueError, KeyError, TypeError):
            raise SourceError(
                '{file}, line {line}: not a report; write it like {{"artefact": "...", "cell": 3}}',
                file=path,
                line=number,
            ) from None


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


def _check_cells(cells: Integers, device_file: DeviceFile, path: Path) -> None:
    size = device_file.mechanism.reports
    outside = np.flatnonzero((cells < 0) | (cells >= size))
    if len(outside):
        raise SourceError(
            "{file}: report {number} names a cell outside the map, whose cells are numbered from 0"
            " to {last}; the file is damaged, or of another map",
            file=path,
            number=int(outside[0]) + 1,
            last=size - 1,
        )
    if isinstance(device_file.mechanism, HiddenMechanism):
        return
    impossible = np.flatnonzero(device_file.mechanism.weights[cells] == 0)
    if len(impossible):
        raise SourceError(
            "{file}: report {number} names a cell of weight 0, which this device file never reports;"
            " the file is damaged or forged",
            file=path,
            number=int(impossible[0]) + 1,
        )


# --- drawing reports --------------------------------------------------------------------------------------------------


def draw_report(
    device_file: Path,
    *,
    cell: str | None = None,
    place: tuple[float, float] | None = None,
    state: Path | None = None,
    day: str | None = None,
    seed_for_tests: int | None = None,
    caps: DeviceCaps | None = None,
) -> Report | None:
    """Draw the report of one person; with a state file budgets and earlier answers count.

    None: nothing is to be sent (a silent zone, or a stay that is too short for a place). Without a state file every
    draw is fresh and no budget is kept: for trials only.
    """
    opened = open_device_file(device_file)
    allowed = caps or DeviceCaps()
    allowed.check(opened)
    number = _read_place(opened, cell, place)
    rng, is_seeded = _make_rng(seed_for_tests), seed_for_tests is not None
    if state is None:
        drawn = Sampler(mechanism=opened.mechanism).draw([number], rng=rng)
        return Report(device_file=short_identity(opened), cell=int(drawn[0]), is_seeded=is_seeded)
    with lock_state(state):
        device = Device.start(opened, state=_read_state(state), caps=allowed)
        before, is_drawn = device.state.to_dict(), False
        try:
            report = device.report(number, day=day, rng=rng)
            is_drawn = True
        finally:
            # before the report is shown: a report that is not remembered would cost twice
            if is_drawn or device.state.to_dict() != before:
                replace_file(state, json.dumps(device.state.to_dict()), error=SourceError)
    return report if report is None else replace(report, is_seeded=is_seeded)


@contextlib.contextmanager
def lock_state(state: Path) -> Iterator[None]:
    """Keep other processes from the state file until this one has stored it; the lock ends with the process."""
    try:
        with open(f"{state}.lock", "a+b") as held:
            _lock(held.fileno())
            yield
    except OSError as error:
        raise SourceError(
            "{file} cannot be locked ({reason}); check that you may write beside it",
            file=state,
            reason=describe_refusal(error),
        ) from None


def _lock(file: int) -> None:
    """Wait for the lock of an open file."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(file, fcntl.LOCK_EX)


def draw_reports(device_file: Path, cells: Path, *, out: Path, seed_for_tests: int | None = None) -> int:
    """Draw one report for every line of a CSV with a column cell, as that many people would, and write them."""
    opened = open_device_file(device_file)
    rows = read_records(cells, error=SourceError)
    if not rows or "cell" not in rows[0]:
        raise SourceError(
            "{file}: the first line must name the column cell; each further line is one person", file=cells
        )
    check_new_file(out, error=SourceError)
    numbers = np.array([_read_place(opened, row["cell"] or "", None) for row in rows])
    drawn = Sampler(mechanism=opened.mechanism).draw(numbers, rng=_make_rng(seed_for_tests))
    _write_reports(out, short_identity(opened), drawn, is_seeded=seed_for_tests is not None)
    return len(drawn)


def _read_place(device_file: DeviceFile, cell: str | None, place: tuple[float, float] | None) -> int:
    """Find a cell by number, by label, or by latitude and longitude."""
    places = device_file.mechanism.places
    if (cell is None) == (place is None):
        raise ParameterError("give either a cell or latitude and longitude")
    if cell is None and place is not None:
        return find_cell(places, *place)
    name = str(cell).strip()
    if _is_number_of_cell(name, places.size):
        return int(name)
    labels: list[str] = places.labels(np.arange(places.size)).tolist()
    if name not in labels:
        raise ParameterError(  # without the cell: it may be where a person is
            "the cell is not on the map; give a number from 0 to {last} or a label", last=places.size - 1
        )
    return labels.index(name)


def _is_number_of_cell(name: str, size: int) -> bool:
    return name.isascii() and name.isdigit() and len(name) < MAX_DIGITS and int(name) < size


def _make_rng(seed_for_tests: int | None) -> Rng:
    return system_rng() if seed_for_tests is None else SeededRng(seed_for_tests)


def _read_state(state: Path) -> dict[str, Any] | None:
    """Read a state file: None if there is none yet, an empty state (which is refused) if it is damaged."""
    if not os.path.lexists(state):
        return None
    try:
        facts = read_json(read_text(state))
    except ValueError:
        facts = None
    return facts if isinstance(facts, dict) else {}


def _write_reports(out: Path, name: str, drawn: Integers, *, is_seeded: bool) -> None:
    """Write one line a report; reports that were drawn from a seed protect nobody, and every line says so."""
    stamp, head = (",1", (*HEADER, SEEDED)) if is_seeded else ("", HEADER)
    lines = "".join(f"{name},{cell}{stamp}\n" for cell in drawn.tolist())
    write_new_file(out, ",".join(head) + "\n" + lines, error=SourceError)
