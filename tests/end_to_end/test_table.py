"""A table from a file to files: counts that add up at every level, maps of what is published, the steward's map."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sudare as sd
from sudare.demo.data import mesh_census
from sudare.errors import ParameterError
from sudare.methods.table.maps import steward_map
from sudare.report.maps import EMPTY
from tests.end_to_end.conftest import Ran
from tests.unit.test_geo_files import pixels_of

SCHEMA = """
[sudare]
schema = 1
name = "census"

[[attribute]]
name = "mesh"
kind = "mesh"
level = {level}
area = ["5339"]
{more}
[[attribute]]
name = "sex"
kind = "category"
values = ["F", "M"]
"""

PICTURE = "map.svg"


def written(place: Path, *, more: str = "") -> int:
    """Write census.csv, counted by mesh of 1 km and sex, and census.toml; give the number of people."""
    truth = mesh_census(level=3, seed=1, people_per_cell=30)
    labels = truth.schema.attribute("mesh").labels(truth.codes[:, 0])
    rows = [f"{mesh},{'FM'[int(mesh) % 2]},{people}" for mesh, people in zip(labels, truth.values, strict=True)]
    (place / "census.csv").write_text("mesh,sex,people\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (place / "census.toml").write_text(SCHEMA.format(level=3, more=more), encoding="utf-8")
    return truth.total


@pytest.fixture
def publish(sudare: Callable[..., Ran]) -> Callable[..., Ran]:
    def call(*words: str) -> Ran:
        given = ["--count", "people", "--schema", "census.toml", "--epsilon", "1", "--out", "out"]
        return sudare("publish", "table", "census.csv", *given, *words)

    return call


@pytest.mark.parametrize("words", [(), ("--focus", "cells"), ("--method", "wavelet"), ("--format", "csv")])
def test_counts_add_up_at_every_level_of_every_hierarchy(
    words: tuple[str, ...], place: Path, publish: Callable[..., Ran]
) -> None:
    people = written(place)
    ran = publish(*words)
    release = sd.Release.load(place / "out")
    cells, rollups = (release.frames[name].decode() for name in ("cells", "rollups"))
    added: dict[str, int] = {}
    for mesh, count in zip(cells["mesh"], cells["count"], strict=True):
        added[mesh[:6]] = added.get(mesh[:6], 0) + int(count)
    chosen = (rollups["attribute"] == "mesh") & (rollups["level"].astype(int) == 1)
    told = dict(zip(rollups["group"][chosen], rollups["count"][chosen].astype(int), strict=True))

    assert "rows of counts published in out" in ran.out
    assert added == told
    assert sum(added.values()) == people


def test_a_release_with_a_mesh_holds_its_map_and_verifies(
    place: Path, publish: Callable[..., Ran], sudare: Callable[..., Ran]
) -> None:
    written(place)
    publish()
    picture = (place / "out" / PICTURE).read_text(encoding="utf-8")
    features = json.loads((place / "out" / "map.geojson").read_text(encoding="utf-8"))["features"]
    coloured = (pixels_of(picture, 0) != EMPTY).any(axis=2).sum()

    assert sudare("verify", "out").code == 0
    assert PICTURE in json.loads((place / "out" / "certificate.json").read_text())["payload"]
    assert "census, cells of 1 km" in picture
    assert coloured == len(features)


def test_a_table_without_a_mesh_has_no_map(place: Path, publish: Callable[..., Ran]) -> None:
    written(place)
    publish("--by", "sex")

    assert not [file.name for file in (place / "out").iterdir() if file.name.startswith("map")]


def test_people_without_a_place_are_counted_and_not_drawn(place: Path, publish: Callable[..., Ran]) -> None:
    people = written(place, more='missing = ["-"]\noutside = "other"\n')
    with (place / "census.csv").open("a") as file:
        file.write("-,F,100000\n999999,M,50000\n")
    publish()
    cells = sd.Release.load(place / "out").frames["cells"].decode()
    on_map = json.loads((place / "out" / "map.geojson").read_text(encoding="utf-8"))["features"]

    assert cells["count"].sum() == people + 150_000
    assert sum(feature["properties"]["count"] for feature in on_map) < people + 10_000
    assert (place / "out" / PICTURE).exists()


def test_a_map_of_too_many_cells_is_drawn_coarser(
    place: Path, publish: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sudare.methods.table.maps.MOST_PIXELS", 1000)
    written(place)
    publish()
    picture = (place / "out" / PICTURE).read_text(encoding="utf-8")

    assert "census, cells of 10 km" in picture
    assert pixels_of(picture, 0).shape == (8, 8, 3)


def test_the_steward_sees_the_truth_beside_the_release_and_a_stamp(place: Path, publish: Callable[..., Ran]) -> None:
    written(place)
    publish("--format", "csv")
    schema = sd.Schema.read(place / "census.toml")
    with sd.open(place / "census.csv", schema, count_column="people") as source:
        picture = steward_map(place / "out", source)
        true = source.count(["mesh"]).nonzero
    public = (place / "out" / PICTURE).read_text(encoding="utf-8")

    assert "not for publication" in picture
    assert "not for publication" not in public
    assert (pixels_of(picture, 0) != EMPTY).any(axis=2).sum() == true
    assert np.array_equal(*[(pixels_of(each, at) != EMPTY).any(axis=2) for each, at in ((picture, 1), (public, 0))])


def test_the_steward_is_told_when_there_is_nothing_to_draw(place: Path, publish: Callable[..., Ran]) -> None:
    written(place)
    publish("--by", "sex")
    schema = sd.Schema.read(place / "census.toml")

    with (
        sd.open(place / "census.csv", schema, count_column="people") as source,
        pytest.raises(ParameterError, match="no mesh to draw"),
    ):
        steward_map(place / "out", source)


def test_codes_of_all_six_levels_go_in_and_out(place: Path, sudare: Callable[..., Ran]) -> None:
    found = []
    for level, digits in enumerate((4, 6, 8, 9, 10, 11), start=1):
        (place / "c.toml").write_text(SCHEMA.format(level=level, more=""), encoding="utf-8")
        (place / "c.csv").write_text("mesh,sex\n" + f"{'53394526111'[:digits]},F\n" * 500, encoding="utf-8")
        sudare("publish", "table", "c.csv", "--schema", "c.toml", "--epsilon", "1000", "--out", f"out{level}")
        cells = sd.Release.load(place / f"out{level}").frames["cells"].decode()
        found.append((cells["mesh"].tolist(), cells["count"].tolist()))

    assert found == [(["53394526111"[:digits]], [500]) for digits in (4, 6, 8, 9, 10, 11)]
