"""Map files in, device files out: what is read, what is refused, and that a device reads the law that was certified."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sudare.demo.data import write_coast
from sudare.errors import ReleaseError, SudareError
from sudare.methods.location import DeviceFile, Location, load_device_file
from sudare.methods.location.device_file import RepeatUse, read_places
from sudare.methods.location.grid import MeshCorner, PlaneGrid, write_mesh_code
from sudare.methods.location.map_file import read_map
from sudare.methods.location.mechanism import quantise_weights
from sudare.privacy.promise import MetricGuarantee
from sudare.releases import Release
from sudare.schema.mesh import MeshCells
from tests.unit.location_maps import LAND, MAPS, SMALL, land_of, mechanism

MAP = """[grid]
kind = "plane"
rows = 5
columns = 4
cell_height_metres = 115.6
cell_width_metres = 141.5
"""


def written(folder: Path, text: str = MAP, **files: str) -> Path:
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content, encoding="utf-8")
    (folder / "map.toml").write_text(text, encoding="utf-8")
    return folder / "map.toml"


def device_file(kind: str = "plane") -> DeviceFile:
    places = MAPS[kind]
    return DeviceFile(
        mechanism=mechanism(places, "0.01", quantise_weights(land_of(places))),
        epsilon_per_metre=Fraction(1, 50),
        tight_epsilon_per_metre=0.02,
        repeat=RepeatUse(fresh_reports=3),
    )


@pytest.mark.parametrize("kind", MAPS)
def test_a_device_reads_the_very_law_that_was_written(kind: str, tmp_path: Path) -> None:
    made = device_file(kind)
    made.write(tmp_path / "mechanism.json")

    read = load_device_file(tmp_path)

    assert read.identity == made.identity
    assert read.to_dict() == made.to_dict()
    assert all((read.mechanism.report_law(cell) == made.mechanism.report_law(cell)).all() for cell in (0, 1))


def test_every_number_of_the_law_is_exact_for_javascript() -> None:
    facts = device_file().to_dict()

    assert facts["beta_per_metre"] == "1/100"
    assert facts["grid"]["cell_height_metres"] == "578/5"
    assert all(isinstance(weight, int) and 0 <= weight < 2**53 for weight in facts["weights"])


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("beta_per_metre", "1/50"),
        ("weights", [1] * 20),
        ("weights", [1] * 3),
        ("id", "0" * 64),
        ("format", 1),
        ("format", 3),
        ("tight_epsilon_per_metre", "0.001"),
        ("vectors", []),
        ("weight_bits", 39),
        ("grid", {"kind": "round"}),
        ("epsilon_per_metre", "often"),
        ("repeat", {"period": "hour", "fresh_reports": 1, "memoised": True}),
        ("surprise", 1),
    ],
)
def test_a_device_file_that_was_changed_is_refused(change: str, value: object, tmp_path: Path) -> None:
    file = tmp_path / "mechanism.json"
    file.write_text(json.dumps(device_file().to_dict() | {change: value}), encoding="utf-8")

    with pytest.raises(ReleaseError):
        load_device_file(file)


@pytest.mark.parametrize("text", ["", "[]", "{}", "\x00"])
def test_what_is_no_device_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mechanism.json").write_text(text, encoding="utf-8")

    with pytest.raises(ReleaseError):
        load_device_file(tmp_path)


def test_a_release_holds_device_file_table_and_certified_measures(tmp_path: Path) -> None:
    Location(grid=SMALL, epsilon_per_metre="0.02", mode="weighted", weights=LAND).publish().save(tmp_path / "out")

    read = Release.load(tmp_path / "out")
    measures = read.certificate.measures

    assert read.frames["weights"].rows == SMALL.size
    assert load_device_file(tmp_path / "out").epsilon_per_metre == Fraction(1, 50)
    assert {
        "tight_epsilon_per_metre",
        "posterior_max",
        "posterior_min",
        "report_true_max",
        "report_true_min",
        "expected_distance_metres",
    } <= set(measures)
    assert measures["tight_epsilon_per_metre"] <= 0.02
    assert read.certificate.neighbours == ""
    assert "keeps the promise, certified: 0.0" in read.certificate.words("en")


def test_the_promise_reads_in_both_languages_and_back() -> None:
    promise = MetricGuarantee(epsilon_per_metre=Fraction(1, 50), metric="graph", reports_per_day=2)

    assert MetricGuarantee.from_dict(promise.to_dict()) == promise
    assert "shortest way along the roads" in promise.describe().render("en")
    assert "最短経路" in promise.describe().render("ja")


def test_a_map_with_land_and_levels_is_read(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        MAP + 'weights = "land.csv"\nlevels = "levels.csv"\ninputs = "all"\n',
        land="row,column,weight\n0,0,1\n4,3,0.5\n",
        levels="row,column,level\n0,0,0.25\n",
    )

    found = read_map(file)

    assert found.inputs == "all"
    assert found.weights is not None
    assert found.weights.sum() == 1.5
    assert found.places.to_dict()["levels"][0] == 250


def test_a_population_is_read_and_changes_the_measures_only(tmp_path: Path) -> None:
    file = written(tmp_path, MAP + 'prior = "people.csv"\n', people="row,column,people\n0,0,900\n0,1,30\n4,3,1\n")
    plain = Location(grid=SMALL, epsilon_per_metre="0.02")

    with_people = Location.of_map(file, epsilon_per_metre="0.02")

    assert with_people.preview().figures["posterior_max"] > 0.9 > plain.preview().figures["posterior_max"]
    assert (with_people.mechanism().weights == plain.mechanism().weights).all()


def test_roads_are_read_from_a_table(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '[grid]\nkind = "graph"\nedges = "roads.csv"\nweights = "places.csv"\n',
        roads="from,to,metres\na,b,100\nb,c,50.5\n",
        places="place,weight\na,1\nb,1\n",
    )

    found = read_map(file)

    assert found.places.squares(0).tolist() == [0, 100_000**2, 150_500**2]
    assert found.weights is not None
    assert found.weights.tolist() == [1, 1, 0]


def test_the_coast_that_ships_can_be_read(tmp_path: Path) -> None:
    found = read_map(write_coast(tmp_path, rows=20, columns=20))

    assert found.weights is not None
    assert 0 < (found.weights > 0).sum() < 400


BAD = {
    "unknown key": (
        MAP + "epsilon = 1\n",
        "map.toml, line 7: [grid]: unknown key epsilon; allowed are kind, rows, columns,",
    ),
    "unknown section": (MAP + "[device]\nx = 1\n", "map.toml, line 7: unknown table device; allowed are [grid]"),
    "unknown kind": (
        '[grid]\nkind = "globe"\n',
        'line 2: [grid]: kind ("globe") must be one of "plane", "mesh", "h3", "graph"',
    ),
    "no rows": (MAP.replace("rows = 5\n", ""), "line 1: [grid]: rows is missing; write it like: rows = 15"),
    "rows of text": (
        MAP.replace("rows = 5", 'rows = "five"'),
        'line 3: [grid]: rows ("five") must be a whole number of at least 1',
    ),
    "no size": (
        MAP.replace("115.6", "0"),
        "line 5: [grid]: cell_height_metres (0) must be a number between 1/1000 and 1000000",
    ),
    "not TOML": ("[grid", "line 1, column 1: a table begins with its name in brackets, on a line of its own: [grid]"),
    "inputs": (MAP + 'inputs = "sea"\n', 'line 7: [grid]: inputs ("sea") must be one of "reportable", "all"'),
    "no file": (MAP + 'weights = "none.csv"\n', "none.csv: cannot be read (there is no such file)"),
    "all weights 0": (MAP + 'weights = "zero.csv"\n', "all weights are 0"),
    "weight above 1": (MAP + 'weights = "two.csv"\n', "weight (2) must be between 0 and 1"),
    "no such cell": (MAP + 'weights = "far.csv"\n', "far.csv, line 2: no such cell on the map"),
    "cell twice": (MAP + 'weights = "twice.csv"\n', "twice.csv, line 3: this cell stands in an earlier line"),
    "wrong head": (MAP + 'weights = "head.csv"\n', "must begin with the line row,column,weight"),
    "short line": (MAP + 'weights = "short.csv"\n', "short.csv, line 2: 3 values are needed"),
    "disconnected roads": ('[grid]\nkind = "graph"\nedges = "apart.csv"\n', "falls into 2 parts"),
    "no length": ('[grid]\nkind = "graph"\nedges = "nolength.csv"\n', "nolength.csv, line 2: metres (x) must be"),
}
FILES = {
    "zero": "row,column,weight\n0,0,0\n",
    "two": "row,column,weight\n0,0,2\n",
    "far": "row,column,weight\n9,9,1\n",
    "twice": "row,column,weight\n0,0,1\n0,0,1\n",
    "head": "r,c,w\n0,0,1\n",
    "short": "row,column,weight\n0,1\n",
    "apart": "from,to,metres\na,b,1\nc,d,1\n",
    "nolength": "from,to,metres\na,b,x\n",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_map_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, told = BAD[name]
    file = written(tmp_path, text, **FILES)

    with pytest.raises(SudareError) as refused:
        read_map(file)

    assert told in str(refused.value)
    assert "\n" not in str(refused.value).strip()


@pytest.mark.parametrize("level", range(1, 7))
def test_mesh_codes_of_a_grid_are_those_of_the_standard(level: int) -> None:
    cells = MeshCells(level=level, area=("5339",))
    some = np.unique(np.linspace(0, cells.size - 1, 50).astype(np.int64))

    rows, columns = cells.grid(some)

    codes = [write_mesh_code(level, int(row), int(column)) for row, column in zip(rows, columns, strict=True)]

    assert codes == cells.labels(some).tolist()


def test_a_grid_with_a_corner_reports_mesh_codes() -> None:
    corner = MeshCorner(level=3, row=53 * 80, column=39 * 80)
    grid = PlaneGrid(rows=2, columns=2, cell_height_metres=900, cell_width_metres=1100, corner=corner)

    assert grid.labels(np.arange(4)).tolist() == ["53390000", "53390001", "53390010", "53390011"]
    assert read_places(grid.to_dict()) == grid


def test_people_in_some_cells_that_are_never_reported_are_kept_in_the_device_file(tmp_path: Path) -> None:
    inputs = LAND > 0
    inputs[3] = True
    law = mechanism(SMALL, "0.01", quantise_weights(LAND), inputs=inputs)
    made = DeviceFile(
        mechanism=law,
        epsilon_per_metre=Fraction(1, 50),
        tight_epsilon_per_metre=0.02,
        repeat=RepeatUse(fresh_reports=1),
    )
    made.write(tmp_path / "mechanism.json")

    assert load_device_file(tmp_path).mechanism.can_enter.tolist() == inputs.tolist()
