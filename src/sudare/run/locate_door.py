"""From files to files: draw reports as devices do, and estimate from the reports of many."""

from __future__ import annotations

import csv
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError, SourceError
from sudare.mechanisms import Rng, SeededRng, system_rng
from sudare.methods.location.artefact import Artefact, load_artefact
from sudare.methods.location.device import Device, Report, short_identity
from sudare.methods.location.geo import cell_at
from sudare.methods.location.sampler import Sampler
from sudare.releases.release import CERTIFICATE, verify_files
from sudare.run.locate import Estimate, estimate
from sudare.run.locate_files import Written, blocks, read_prior, read_regions, write_estimate
from sudare.run.locate_reports import HEADER, count_reports
from sudare.schema.textfile import read_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimated:
    """What is told after an estimate."""

    out: Path
    estimate: Estimate
    written: Written

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
    _store(state, device.state.to_dict())  # before the report is told: a report without memory would cost twice
    return report


def draw_many(artefact: Path, cells: Path, *, out: Path, seed_for_tests: int | None = None) -> int:
    """Draw one report for every line of a CSV with a column cell, as that many people would, and write them."""
    opened = open_artefact(artefact)
    rows = list(csv.DictReader(read_text(cells).splitlines()))
    if not rows or "cell" not in rows[0]:
        raise SourceError("{file}: the first line must name the column cell, and one line a person follow", file=cells)
    if out.exists():
        raise SourceError("{file} exists; choose another name or remove it", file=out)
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


def _store(state: Path, facts: dict[str, Any]) -> None:
    unfinished = state.parent / f".sudare-{secrets.token_hex(8)}.partial"
    unfinished.write_text(json.dumps(facts), encoding="utf-8")
    os.replace(unfinished, state)


def _write_reports(out: Path, name: str, drawn: NDArray[np.int64]) -> None:
    unfinished = out.parent / f".sudare-{secrets.token_hex(8)}.partial"
    lines = "".join(f"{name},{cell}\n" for cell in drawn.tolist())
    unfinished.write_text(",".join(HEADER) + "\n" + lines, encoding="utf-8")
    os.replace(unfinished, out)
