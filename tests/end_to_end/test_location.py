"""A map file becomes a mechanism that devices can read, or one clear line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sudare.demo.data import write_coast
from sudare.methods.location import load_device_file
from sudare.releases import Release
from tests.end_to_end.conftest import Ran
from tests.unit.location_maps import worst_ratio

MAP = """[grid]
kind = "plane"
rows = 15
columns = 15
cell_height_metres = 115.6
cell_width_metres = 141.5
"""


@pytest.fixture
def coast(place: Path) -> Path:
    return write_coast(place, rows=14, columns=14)


@pytest.mark.parametrize("mode", ["grid", "weighted", "fair", "sharp"])
def test_a_published_mechanism_keeps_its_promise_and_never_reports_the_sea(
    mode: str, coast: Path, place: Path, sudare: Callable[..., Ran]
) -> None:
    ran = sudare("publish", "location", str(coast), "--epsilon-per-metre", "0.02", "--mode", mode, "--out", "out")
    made = load_device_file(place / "out")
    cells = Release.load(place / "out").frames["weights"].decode()
    listed = np.loadtxt(place / "land.csv", delimiter=",", skiprows=1)
    land = np.zeros((14, 14), dtype=bool)
    land[listed[:, 0].astype(int), listed[:, 1].astype(int)] = True

    assert ran.code == 0
    assert "devices read mechanism.json" in ran.out
    assert worst_ratio(made.mechanism) <= made.tight_epsilon_per_metre <= 0.02
    assert ((made.mechanism.weights > 0) == land.reshape(-1)).all()
    assert np.asarray(cells["weight"], dtype=float) == pytest.approx(made.mechanism.shares)


def test_the_papers_map_gives_the_papers_figures(place: Path, sudare: Callable[..., Ran]) -> None:
    (place / "map.toml").write_text(MAP, encoding="utf-8")

    ran = sudare("preview", "location", "map.toml", "--epsilon-per-metre", "0.02", "--json")
    told = json.loads(ran.out)

    assert round(told["posterior_max"] - told["posterior_min"], 4) == 0.3003
    assert round(told["tight_epsilon_per_metre"], 5) == 0.01242
    assert round(told["expected_distance_metres"], 1) == 161.1


def test_the_same_map_gives_the_same_law_twice(coast: Path, place: Path, sudare: Callable[..., Ran]) -> None:
    for out in ("one", "two"):
        sudare("publish", "location", str(coast), "--epsilon-per-metre", "1/50", "--mode", "sharp", "--out", out)

    assert load_device_file(place / "one").identity == load_device_file(place / "two").identity


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--epsilon-per-metre", "20"], "epsilon_per_metre (20) must be a number between"),
        (["--epsilon-per-metre", "0.02", "--mode", "weighted"], "mode weighted needs weights"),
        (["--epsilon-per-metre", "0.02", "--reports-per-day", "0"], "reports_per_day (0) must be"),
    ],
)
def test_a_bad_parameter_is_one_line_and_leaves_nothing(
    words: list[str], told: str, place: Path, sudare: Callable[..., Ran]
) -> None:
    (place / "map.toml").write_text(MAP, encoding="utf-8")

    ran = sudare("publish", "location", "map.toml", *words, "--out", "out")

    assert ran.code == 1
    assert told in ran.err
    assert ran.err.count("\n") == 1
    assert not (place / "out").exists()


def test_an_epsilon_meant_per_kilometre_is_warned_of(
    place: Path, sudare: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "map.toml").write_text(MAP, encoding="utf-8")

    english = sudare("preview", "location", "map.toml", "--epsilon-per-metre", "2")
    monkeypatch.setenv("SUDARE_LANG", "ja")
    japanese = sudare("preview", "location", "map.toml", "--epsilon-per-metre", "2")

    assert "warning: at least 100.0% of the reports name the true cell" in english.out
    assert "警告" in japanese.out
