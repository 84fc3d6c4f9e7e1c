"""Reports of devices, drawn as devices draw them: one person's, and those of many for a trial (counting.py counts)."""

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
from sudare.forms.textfile import read_records, read_text
from sudare.methods.location.counting import HEADER, MAX_DIGITS
from sudare.methods.location.device import Device, DeviceCaps, Report, short_identity
from sudare.methods.location.device_file import DeviceFile, open_device_file
from sudare.methods.location.geo import find_cell
from sudare.methods.location.sampler import Sampler
from sudare.noise import Rng, SeededRng, system_rng
from sudare.schema.arrays import Integers
from sudare.text import describe_refusal

SEEDED = "seeded_for_tests"  # the column of reports that were drawn from a seed


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
