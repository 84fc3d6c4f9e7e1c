"""From a map to the people on it: publish the device file, draw reports, estimate; and what is refused on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MAP = """\
[grid]
kind = "mesh"
level = 4
bounds = [35.60, 139.60, 35.70, 139.75]
"""


@pytest.fixture
def released(place: Path, sudare: Callable[..., Any]) -> Path:
    """A released map of 26 x 25 cells, at most two draws a day."""
    (place / "map.toml").write_text(MAP)
    ran = sudare("publish", "location", "map.toml", "--epsilon-per-metre", "0.01", "--reports-per-day", "2",
                 "--out", "released")  # fmt: skip
    assert ran.code == 0, ran.err
    return place / "released"


def drawn(sudare: Callable[..., Any], *words: str) -> Any:
    return sudare("locate", "draw", "--device-file", "released", *words)


def people(place: Path, released: Path) -> None:
    """Most people in the south-west quarter."""
    grid = json.loads((released / "mechanism.json").read_text())["grid"]
    numbers = np.random.default_rng(1)
    cells = numbers.integers(0, grid["rows"] * grid["columns"], 6000)
    cells[:4000] = numbers.integers(0, 12, 4000) * grid["columns"] + numbers.integers(0, 12, 4000)
    (place / "cells.csv").write_text("cell\n" + "\n".join(map(str, cells.tolist())) + "\n")


def refused(ran: Any, *told: str) -> None:
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    for text in told:
        assert text in ran.err


def test_reports_become_people_per_cell_and_block(released: Path, place: Path, sudare: Callable[..., Any]) -> None:
    people(place, released)
    many = drawn(sudare, "--cells", "cells.csv", "--out", "reports.csv")

    ran = sudare("locate", "estimate", "reports.csv", "--artefact", "released", "--blocks", "13", "--out", "estimate")

    told = json.loads((place / "estimate" / "estimate.json").read_text())
    first = next(iter(told["regions"].values()))
    assert many.out == "6000 reports written to reports.csv\n"
    assert ran.code == 0
    assert "6000 reports" in ran.out
    assert told["reports"] == 6000
    assert 4000 < first["people"] < 5200
    assert first["low"] < first["people"] < first["high"]
    assert (place / "estimate" / "cells.geojson").exists()


def test_one_person_is_drawn_once_a_day_and_cell(released: Path, sudare: Callable[..., Any]) -> None:
    where = ("--latitude", "35.65", "--longitude", "139.7", "--state", "state.json", "--day", "2026-11-16")

    first, again = drawn(sudare, *where), drawn(sudare, *where)

    assert first.out == again.out
    assert len(json.loads(first.out)["artefact"]) == 16


def test_a_third_place_on_one_day_gives_no_report(released: Path, sudare: Callable[..., Any]) -> None:
    for cell in ("1", "2"):
        drawn(sudare, "--cell", cell, "--state", "state.json", "--day", "2026-11-16")

    refused(drawn(sudare, "--cell", "3", "--state", "state.json", "--day", "2026-11-16"), "used up")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--latitude", "139.7", "--longitude", "35.65"), "swapped"),
        (("--latitude", "43.06", "--longitude", "141.35"), "outside the map"),
        (("--cell", "999999"), "not on the map"),
        ((), "either a cell or latitude"),
        (("--cell", "1", "--state", "broken.json"), "damaged"),
        (("--cell", "1", "--state", "state.json", "--day", "tomorrow"), "2026-11-16"),
        (("--cells", "map.toml", "--out", "reports.csv"), "column cell"),
    ],
)
def test_a_place_that_cannot_be_reported_is_refused(
    released: Path, place: Path, sudare: Callable[..., Any], words: tuple[str, ...], told: str
) -> None:
    (place / "broken.json").write_text("{")

    refused(drawn(sudare, *words), told)
    assert not (place / "reports.csv").exists()


@pytest.mark.parametrize(
    ("reports", "told"),
    [
        ("", "first line"),
        ("artefact,cell\n", "no report"),
        ("artefact,cell\n0123456789abcdef,3\n", "another device file"),
        ("artefact,cell\n{name},999999\n", "outside the map"),
        ("latitude,longitude\n35.6,139.7\n", "artefact and cell"),
    ],
)
def test_reports_that_do_not_fit_are_refused_and_nothing_is_written(
    released: Path, place: Path, sudare: Callable[..., Any], reports: str, told: str
) -> None:
    name = json.loads((released / "mechanism.json").read_text())["id"][:16]
    (place / "reports.csv").write_text(reports.format(name=name))

    ran = sudare("locate", "estimate", "reports.csv", "--device-file", "released", "--out", "estimate")

    refused(ran, told, "reports.csv")
    assert not (place / "estimate").exists()


def test_a_device_file_that_was_changed_is_refused(released: Path, sudare: Callable[..., Any]) -> None:
    file = released / "mechanism.json"
    file.write_text(file.read_text().replace('"beta_per_metre":"1/200"', '"beta_per_metre":"1/2"'))

    refused(drawn(sudare, "--cell", "1"), "hash differs")


def test_a_device_file_that_is_not_there_is_refused(place: Path, sudare: Callable[..., Any]) -> None:
    refused(drawn(sudare, "--cell", "1"), "no device file")


def test_options_that_belong_together_are_asked_for(place: Path, sudare: Callable[..., Any]) -> None:
    assert drawn(sudare, "--cells", "cells.csv").code == 2
    assert drawn(sudare, "--latitude", "35").code == 2
