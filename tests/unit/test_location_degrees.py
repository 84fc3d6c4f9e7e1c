"""Planes with a corner: places in degrees, one cell in Python and JavaScript, and metres that hold on the ground."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare.errors import ParameterError, ReleaseError, SchemaError
from sudare.methods.location import Location
from sudare.methods.location.device_file import DeviceFile, RepeatUse, certify_law, hash_facts
from sudare.methods.location.geo import find_cell, place_grid
from sudare.methods.location.grid import LEVEL_PARTS, ElasticGrid, PlaneGrid
from sudare.methods.location.map_file import read_map
from sudare.methods.location.metric import check_ground
from sudare.schema.mesh import to_earth_centred
from tests.unit.test_location_trust import PROVE, run_node

GRID = PlaneGrid(rows=23, columns=17, cell_height_metres="80.5", cell_width_metres="121")
CORNERS = [(35.61, 139.62), (-33.9, 18.41), (64.1, -21.95), (-0.004, -78.5)]  # four continents, one across the equator


def write_file(grid: PlaneGrid | ElasticGrid) -> dict[str, Any]:
    law = Location(grid=grid, epsilon_per_metre="0.01").mechanism()
    tight = certify_law(law).epsilon
    made = DeviceFile(
        mechanism=law, epsilon_per_metre=Fraction(1, 100), tight_epsilon_per_metre=tight, repeat=RepeatUse()
    )
    return json.loads(json.dumps(made.to_dict()))


@pytest.mark.parametrize(("south", "west"), CORNERS)
def test_a_metre_of_the_plane_is_never_more_than_a_chord_on_the_ground(south: float, west: float) -> None:
    placed = place_grid(GRID, south=south, west=west)
    at = placed.degrees
    assert at is not None
    rows, columns = np.divmod(np.arange(placed.size), placed.columns)
    centres = to_earth_centred(south + (rows + 0.5) * at.tall, west + (columns + 0.5) * at.wide)

    excess = [
        float((placed.metres(cell) - np.linalg.norm(centres - centres[cell], axis=1)).max())
        for cell in range(0, 391, 30)
    ]

    assert max(excess) < 0.001  # a chord of 3 km is shorter than the way on the ground by less than a millimetre
    check_ground(placed)


@pytest.mark.parametrize("kind", ["plane", "elastic"])
def test_python_and_javascript_find_the_same_cell(kind: str) -> None:
    placed: PlaneGrid | ElasticGrid = place_grid(GRID, south=35.61, west=139.62)
    if kind == "elastic":
        placed = ElasticGrid(grid=placed, levels=np.full(GRID.size, LEVEL_PARTS))  # type: ignore[arg-type]
    places = np.random.default_rng(5).uniform([35.609, 139.619], [35.63, 139.645], (300, 2)).tolist()
    script = f"console.log(JSON.stringify({json.dumps(places)}.map(([a, b]) => d.cellAt(file, a, b))));"

    by_javascript = json.loads(run_node(script, write_file(placed)))

    by_python = []
    for latitude, longitude in places:
        try:
            by_python.append(find_cell(placed, latitude, longitude))
        except SchemaError:
            by_python.append(None)
    assert by_javascript == by_python
    assert 20 < by_python.count(None) < 280


def test_cells_that_are_smaller_on_the_ground_than_they_say_are_refused_everywhere() -> None:
    placed = place_grid(GRID, south=35.61, west=139.62)
    file = write_file(placed)
    facts = {name: value for name, value in file.items() if name != "id"}
    facts["grid"] = {**file["grid"], "degrees": {**file["grid"]["degrees"], "wide": repr(placed.degrees.wide / 2)}}  # type: ignore[union-attr]
    forged = {"id": hash_facts(facts)} | facts

    assert DeviceFile.from_dict(file).identity == file["id"]
    assert run_node(PROVE, file) == "taken"
    assert "smaller on the ground" in run_node(PROVE, forged)
    with pytest.raises((ReleaseError, ParameterError), match=r"smaller on the ground|not as Sudare wrote it"):
        DeviceFile.from_dict(forged)
    with pytest.raises(ParameterError, match="smaller on the ground"):
        check_ground(replace(placed, degrees=replace(placed.degrees, tall=float("nan"))))  # type: ignore[type-var]


def test_a_map_file_names_the_corner_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    facts = 'kind = "plane"\nrows = 23\ncolumns = 17\ncell_height_metres = 80.5\ncell_width_metres = 121\n'
    (tmp_path / "map.toml").write_text(f"[grid]\n{facts}south_west = [35.61, 139.62]\n")
    (tmp_path / "wrong.toml").write_text(f"[grid]\n{facts}south_west = [139.62, 35.61]\n")

    assert find_cell(read_map(tmp_path / "map.toml").places, 35.6101, 139.6201) == 0
    with pytest.raises(SchemaError, match=r"latitude"):
        read_map(tmp_path / "wrong.toml")
