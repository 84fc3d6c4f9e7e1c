"""Tables that do not fit: one clear line in both languages, nothing written, nothing spent; small tables do fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sudare.cli import main
from sudare.privacy import Ledger
from sudare.releases import Release

SCHEMA = """
[sudare]
schema = 1
name = "census"

[[attribute]]
name = "mesh"
kind = "mesh"
level = 4
area = ["5339"]

[[attribute]]
name = "sex"
kind = "category"
values = ["F", "M"]
"""
ONE_CELL = '[sudare]\nschema = 1\nname = "one"\n\n[[attribute]]\nname = "sex"\nkind = "category"\nvalues = ["F"]\n'
MESH_LINES = (
    "mesh must hold mesh codes of level 4 (9 digits) or finer, inside the declared area; run `sudare schema check`",
    "mesh には、宣言した範囲内の、レベル 4（9 桁）か、それより細かいメッシュコードだけを入れてください",
)
COUNT_LINES = (
    "column n must hold whole numbers, 0 or more, in every row; run `sudare schema check`",
    "列 n は、すべての行で 0 以上の整数である必要があります",
)
GOOD = "533945261,F,5"


@dataclass(frozen=True)
class Office:
    """A directory with a schema and a ledger, and the command line in it."""

    place: Path
    capture: pytest.CaptureFixture[str]

    def publish(self, rows: str, *words: str) -> tuple[int, str]:
        (self.place / "data.csv").write_text(rows, encoding="utf-8")
        given = ["--schema", "census.toml", "--ledger", "census.ledger", "--epsilon", "1/2", "--out", "out"]
        self.capture.readouterr()
        code = main(["publish", "table", "data.csv", *given, *words])
        return code, self.capture.readouterr().err

    @property
    def spent(self) -> str:
        with Ledger.open(self.place / "census.ledger") as ledger:
            return str(ledger.spent)

    @property
    def files(self) -> set[str]:
        return {file.name for file in self.place.iterdir()}


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Office:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_LANG", "en")
    (tmp_path / "census.toml").write_text(SCHEMA, encoding="utf-8")
    main(["ledger", "create", "census.ledger", "--epsilon", "1"])
    return Office(tmp_path, capfd)


@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize(
    ("wrong", "lines"),
    [
        ("544000001,F,3", MESH_LINES),  # another first-level cell
        ("53394526,F,3", MESH_LINES),  # 1 km where 500 m is declared
        ("5339,F,3", MESH_LINES),
        ("533945265,F,3", MESH_LINES),  # a half is numbered 1 to 4
        ("533989261,F,3", MESH_LINES),  # 10 km cells are numbered 00 to 77
        ("53394526X,F,3", MESH_LINES),
        ("533945261,F,-3", COUNT_LINES),
        ("533945261,F,2.5", COUNT_LINES),
        ("533945261,F,many", COUNT_LINES),
        ("533945261,F,", COUNT_LINES),
        ("533945261,F,1e3", COUNT_LINES),
    ],
)
def test_a_row_that_does_not_fit_is_one_line_and_costs_nothing(
    wrong: str, lines: tuple[str, str], lang: str, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDARE_LANG", lang)
    before = office.files | {"data.csv"}

    code, told = office.publish(f"mesh,sex,n\n{GOOD}\n{wrong}\n", "--count", "n")

    assert code == 1
    assert told.count("\n") == 1
    assert lines[lang == "ja"] in told
    assert office.files == before
    assert office.spent == "0"


def test_the_line_shows_no_value_of_the_table(office: Office) -> None:
    _, told = office.publish(f"mesh,sex,n\n{GOOD}\n544012341,F,987654\n", "--count", "n")

    assert "544012341" not in told
    assert "987654" not in told


def test_two_attributes_that_do_not_fit_are_both_named(office: Office) -> None:
    _, told = office.publish("mesh,sex\n5440,X\n")

    assert "values of mesh, sex that the schema does not declare" in told


@pytest.mark.parametrize(
    ("rows", "words", "line"),
    [
        ("", (), "data.csv is empty"),
        (f"mesh,sex,n\n{GOOD}\n", ("--count", "people"), "there is no column people"),
        ("mesh,sex,n\n533945261,F,4503599627370496\n", ("--count", "n"), "2**52 records or more"),
        (f"mesh,sex,n\n{GOOD}\n", ("--count", "n", "--by", "age"), "age"),
        (f"mesh,sex,n\n{GOOD}\n", ("--count", "n", "--algorithm", "wavelet", "--focus", "cells"), "takes no focus"),
        (f"mesh,sex,n\n{GOOD}\n", ("--count", "n", "--epsilon", "2"), "1"),  # more than the ledger holds
    ],
)
def test_what_cannot_be_published_costs_nothing(rows: str, words: tuple[str, ...], line: str, office: Office) -> None:
    code, told = office.publish(rows, *words)

    assert code == 1
    assert told.count("\n") == 1
    assert line in told
    assert "out" not in office.files
    assert office.spent == "0"


def test_finer_codes_count_for_the_cell_they_lie_in(office: Office) -> None:
    code, _ = office.publish("mesh,sex,n\n53394526113,F,70\n5339452614,F,30\n", "--count", "n", "--epsilon", "1")
    cells = Release.load(office.place / "out").frames["cells"].decode()

    assert code == 0
    assert cells["count"].sum() == 100
    assert {len(mesh) for mesh in cells["mesh"]} == {9}


@pytest.mark.parametrize("method", ["tree", "wavelet"])
def test_an_empty_table_is_published_as_one(method: str, office: Office) -> None:
    """Refusing it would tell that nobody is in it, which add/remove neighbours keep secret."""
    code, _ = office.publish("mesh,sex\n", "--algorithm", method)
    release = Release.load(office.place / "out")

    assert code == 0
    assert release.frames["cells"].rows == 0
    assert json.loads((office.place / "out" / "map.geojson").read_text())["features"] == []
    assert "<svg" in (office.place / "out" / "map.svg").read_text()
    assert office.spent == "1/2"


@pytest.mark.parametrize("method", ["tree", "wavelet"])
def test_a_table_of_one_cell_holds_the_public_total(method: str, office: Office) -> None:
    (office.place / "census.toml").write_text(ONE_CELL, encoding="utf-8")

    code, _ = office.publish("sex\n" + "F\n" * 7, "--algorithm", method)
    cells = Release.load(office.place / "out").frames["cells"].decode()

    assert code == 0
    assert (cells["sex"].tolist(), cells["count"].tolist()) == (["F"], [7])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("level = 4", "level = 7"), "level"),
        (('["5339"]', '["53394"]'), "area"),
        (('["5339"]', '["5339", "5339"]'), "twice"),
        (('area = ["5339"]', 'area_file = "none.txt"'), "none.txt"),
        (('area = ["5339"]', 'area_file = "coarse.txt"'), "level 4 (9 digits"),
    ],
)
def test_a_mesh_that_is_declared_wrong_is_one_line(change: tuple[str, str], line: str, office: Office) -> None:
    (office.place / "coarse.txt").write_text("53394526\n", encoding="utf-8")
    (office.place / "census.toml").write_text(SCHEMA.replace(*change), encoding="utf-8")

    code, told = office.publish(f"mesh,sex,n\n{GOOD}\n", "--count", "n")

    assert code == 1
    assert told.count("\n") == 1
    assert line in told
    assert "out" not in office.files


def test_an_interrupted_map_leaves_nothing_and_says_what_is_spent(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Callable[..., None]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sudare.methods.table.maps.draw_error_map", broken)
    code, told = office.publish(f"mesh,sex,n\n{GOOD}\n", "--count", "n")

    assert code == 1
    assert "epsilon 1/2 was spent before that" in told
    assert "out" not in office.files
