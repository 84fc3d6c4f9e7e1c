"""Reports of devices as files: `artefact,cell` with one line a report, or one JSON object a line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.atomic import check_new_file, replace_file, write_new_file
from sudare.errors import ParameterError, SourceError
from sudare.forms.textfile import read_text
from sudare.methods.location.collector import Estimate, estimate
from sudare.methods.location.device import Device, Report, short_identity
from sudare.methods.location.device_file import Artefact, load_artefact
from sudare.methods.location.estimate_files import EstimateFiles, blocks, read_prior, read_regions, write_estimate
from sudare.methods.location.geo import cell_at
from sudare.methods.location.sampler import Sampler
from sudare.noise import Rng, SeededRng, system_rng
from sudare.releases.release import CERTIFICATE, verify_files
from sudare.schema.arrays import Integers
from sudare.text import describe_refusal

HEADER = ("artefact", "cell")
MOST_DIGITS = 18  # of a number that fits 64 bits for certain


def count_reports(path: Path, artefact: Artefact) -> Integers:
    """Count the reports of a file by cell; one of another artefact, or of a cell it never reports, is refused."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SourceError(
            "{file} cannot be read ({reason}); check that you may read it", file=path, reason=describe_refusal(error)
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


def _read_plain(raw: bytes, name: str) -> Integers | None:
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


def _check_cells(cells: Integers, artefact: Artefact, path: Path) -> None:
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


# From files to files: draw reports as devices do, and estimate from the reports of many.


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """What is told after an estimate."""

    out: Path
    estimate: Estimate
    written: EstimateFiles

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {"out": str(self.out), "files": list(self.written.files), **self.estimate.to_dict()}


def open_artefact(directory: Path) -> Artefact:
    """Read the artefact of a release, every file checked against the certificate, or a mechanism.json by itself."""
    if (directory / CERTIFICATE).is_file():
        verify_files(directory)
    elif not directory.exists():
        raise SourceError("there is no artefact {place}; give the directory of a location release", place=directory)
    return load_artefact(directory)


def estimate_files(
    reports: Path,
    *,
    artefact: Path,
    out: Path,
    regions: Path | None = None,
    block_side: int | None = None,
    prior: Path | None = None,
    level: str = "0.95",
) -> Estimated:
    """Estimate from a file of reports and write the result to a new directory."""
    opened = open_artefact(artefact)
    chosen = read_regions(regions, opened) if regions is not None else {}
    if block_side is not None:
        chosen = {**chosen, **blocks(opened, block_side)}
    counts = count_reports(reports, opened)
    known = read_prior(prior, opened) if prior is not None else None
    found = estimate(opened, counts, regions=chosen, prior=known, level=level)
    return Estimated(out=out, estimate=found, written=write_estimate(found, opened, out))


def draw_one(
    artefact: Path,
    *,
    cell: str | None = None,
    place: tuple[float, float] | None = None,
    state: Path | None = None,
    day: str | None = None,
    seed_for_tests: int | None = None,
) -> Report:
    """Draw the report of one person; with a state file the budget of the day and earlier answers count."""
    opened = open_artefact(artefact)
    number = _cell(opened, cell, place)
    rng = _randomness(seed_for_tests)
    if state is None:
        drawn = Sampler(mechanism=opened.mechanism).draw([number], rng=rng)
        return Report(artefact=short_identity(opened), cell=int(drawn[0]))
    device = Device.start(opened, state=_stored(state))
    report = device.report(number, day=day, rng=rng)
    # before the report is told: a report without memory would cost twice
    replace_file(state, json.dumps(device.state.to_dict()), error=SourceError)
    return report


def draw_many(artefact: Path, cells: Path, *, out: Path, seed_for_tests: int | None = None) -> int:
    """Draw one report for every line of a CSV with a column cell, as that many people would, and write them."""
    opened = open_artefact(artefact)
    rows = list(csv.DictReader(read_text(cells).splitlines()))
    if not rows or "cell" not in rows[0]:
        raise SourceError("{file}: the first line must name the column cell, and one line a person follow", file=cells)
    check_new_file(out, error=SourceError)
    numbers = np.array([_cell(opened, row["cell"] or "", None) for row in rows])
    drawn = Sampler(mechanism=opened.mechanism).draw(numbers, rng=_randomness(seed_for_tests))
    _write_reports(out, short_identity(opened), drawn)
    return len(drawn)


def _cell(artefact: Artefact, cell: str | None, place: tuple[float, float] | None) -> int:
    """Find a cell by number, by label, or by latitude and longitude."""
    places = artefact.mechanism.places
    if (cell is None) == (place is None):
        raise ParameterError("give either a cell or latitude and longitude")
    if cell is None and place is not None:
        return cell_at(places, *place)
    text = str(cell).strip()
    labels = places.labels(np.arange(places.size)).tolist() if not _is_number(text, places.size) else []
    if text in labels:
        return labels.index(text)
    if not _is_number(text, places.size):
        raise ParameterError(  # without the cell: it may be where a person is
            "the cell is not on the map; give a number from 0 to {last} or a label", last=places.size - 1
        )
    return int(text)


def _is_number(text: str, size: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 18 and int(text) < size


def _randomness(seed_for_tests: int | None) -> Rng:
    return system_rng() if seed_for_tests is None else SeededRng(seed_for_tests)


def _stored(state: Path) -> dict[str, Any] | None:
    if not state.exists():
        return None
    try:
        found = json.loads(read_text(state))
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _write_reports(out: Path, name: str, drawn: NDArray[np.int64]) -> None:
    lines = "".join(f"{name},{cell}\n" for cell in drawn.tolist())
    write_new_file(out, ",".join(HEADER) + "\n" + lines, error=SourceError)
