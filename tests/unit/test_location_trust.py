"""Maps prove their metric, and a device file is trusted in nothing: by Python, and by device.js in node.

The forged files are those of a collector who wants to know more than he promises: he changes an entry, or writes the
file anew with an id that fits.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare.methods.location
from sudare.errors import ParameterError, ReleaseError, SchemaError
from sudare.methods.location import Location
from sudare.methods.location.device import Device, DeviceCaps
from sudare.methods.location.device_file import DeviceFile, RepeatUse, hash_facts, make_vectors, recertify
from sudare.methods.location.geo import find_cell, make_mesh_grid
from sudare.methods.location.grid import (
    ElasticGrid,
    MeshCorner,
    Places,
    PlaneGrid,
    PointPlaces,
    distances_from,
    round_up_product,
)
from sudare.methods.location.hidden import HiddenMechanism, certify_hidden
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.metric import check_metric
from sudare.methods.location.roads import RoadGraph
from sudare.methods.location.tight import certify_epsilon
from sudare.schema.mesh import to_earth_centred
from tests.unit.location_maps import MAPS, SMALL, worst_ratio

DEVICE = Path(sudare.methods.location.__file__).with_name("device.js")
PAPER = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")


def elastic(rows: int, height: str, width: str, *, level: int = 250) -> ElasticGrid:
    """A map with one strict cell in the middle."""
    grid = PlaneGrid(rows=rows, columns=rows, cell_height_metres=height, cell_width_metres=width)
    levels = np.full(grid.size, 1000)
    levels[grid.size // 2] = level
    return ElasticGrid(grid=grid, levels=levels)


# --- distances ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [elastic(45, "115.637", "141.506"), elastic(40, "462.303", "561.134")])
def test_the_maps_whose_distances_wrapped_have_the_exact_ones(places: ElasticGrid) -> None:
    row = places.lengths(0)
    plane = places.grid.squares(0)

    direct = [_ceil_root(1_000_000 * int(square)) for square in plane.tolist()]
    middle = places.size // 2
    by_middle = [_ceil_root(250**2 * int(plane[middle])) + _ceil_root(250**2 * int(square))
                 for square in places.grid.squares(middle).tolist()]  # fmt: skip

    assert row.tolist() == [0, *(min(pair) for pair in zip(direct[1:], by_middle[1:], strict=True))]


def _ceil_root(square: int) -> int:
    from math import isqrt

    return isqrt(square) + (isqrt(square) ** 2 < square)


@pytest.mark.parametrize("factor", [1, 7, 999, 1000])
def test_products_beyond_64_bits_are_rounded_up_exactly(factor: int) -> None:
    numbers = np.random.default_rng(factor).integers(0, 2**62, 3000)
    squares = np.concatenate([numbers, (numbers >> 32) ** 2, (numbers >> 32) ** 2 + 1, [0, 1, 2**62, 2**63 - 1]])

    roots = round_up_product(np.full(squares.size, factor), squares)

    assert roots.tolist() == [_ceil_root(factor * factor * square) for square in squares.tolist()]


@pytest.mark.parametrize("mode", ["grid", "sharp"])
def test_a_map_with_a_level_keeps_its_promise_for_every_pair(mode: str) -> None:
    places = elastic(12, "462.303", "561.134")
    law = Location(grid=places, epsilon_per_metre="0.001", mode=mode).mechanism()  # type: ignore[arg-type]

    worst = worst_ratio(law)

    assert worst <= 0.001 * (1 + 1e-9)
    assert certify_epsilon(law).epsilon == pytest.approx(worst, rel=1e-9)


@pytest.mark.parametrize("kind", MAPS)
def test_every_kind_of_map_proves_its_metric(kind: str) -> None:
    check_metric(MAPS[kind])


class Broken(PointPlaces):
    """Points whose distances are not those of any space."""

    def squares(self, cell: int) -> np.ndarray:
        rows = [[0, 1, 100], [1, 0, 1], [100, 1, 0]]
        return np.array(rows[cell])


class Wrapped(PointPlaces):
    """Points whose floats come from squares that wrapped."""

    def metres(self, cell: int) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.sqrt(-self.squares(cell).astype(float))


@pytest.mark.parametrize(("kind", "reason"), [(Broken, "detour"), (Wrapped, "not a number")])
def test_distances_that_are_no_metric_are_refused(kind: type[PointPlaces], reason: str) -> None:
    places = kind(points=np.array([[0, 0], [1000, 0], [2000, 0]]), names=("a", "b", "c"))

    with pytest.raises(ParameterError, match=reason):
        check_metric(places)


def test_the_theorem_does_not_hide_a_broken_metric() -> None:
    places = Broken(points=np.array([[0, 0], [1000, 0], [2000, 0]]), names=("a", "b", "c"))
    law = Mechanism(
        places=places, beta_per_metre=Fraction(1000), weights=np.full(3, FULL_WEIGHT) // np.array([1, 1, 9])
    )

    with pytest.raises(ParameterError, match="more than its distances could ever need"):
        certify_epsilon(law)


def test_points_too_far_apart_for_64_bits_are_refused() -> None:
    far = np.array([[-(2**62), 0], [2**62, 0]])

    with pytest.raises(ParameterError, match="km apart"):
        PointPlaces(points=far, names=("a", "b"))


# --- forged files -------------------------------------------------------------------------------------------------


def file_of(mode: str = "grid") -> dict[str, Any]:
    law = Location(grid=PAPER, epsilon_per_metre="0.02", mode=mode).mechanism()  # type: ignore[arg-type]
    return DeviceFile(
        mechanism=law,
        epsilon_per_metre=Fraction(1, 50),
        tight_epsilon_per_metre=certify_epsilon(law).epsilon,
        repeat=RepeatUse(fresh_reports=2),
    ).to_dict()


def signed_anew(facts: dict[str, Any]) -> dict[str, Any]:
    """What a forger who knows the format writes: vectors and id that fit the changed law."""
    law = Mechanism(
        places=PAPER,
        beta_per_metre=Fraction(facts["beta_per_metre"]),
        weights=np.array(facts["weights"]) if isinstance(facts["weights"], list) else np.full(225, FULL_WEIGHT),
    )
    rest = {name: value for name, value in facts.items() if name != "id"} | {"vectors": make_vectors(law)}
    return {"id": hash_facts(rest)} | rest


def uneven() -> list[int]:
    weights = np.full(225, FULL_WEIGHT)
    weights[::2] = FULL_WEIGHT // 1000
    listed: list[int] = weights.tolist()
    return listed


FORGED: dict[str, Callable[[], dict[str, Any]]] = {
    "beta raised, promise kept": lambda: file_of() | {"beta_per_metre": "10"},
    "beta raised, written anew": lambda: signed_anew(file_of() | {"beta_per_metre": "10"}),
    "beta a little too high, written anew": lambda: signed_anew(file_of() | {"beta_per_metre": "17/1000"}),
    "sharp with other weights": lambda: file_of("sharp") | {"weights": uneven()},
    "sharp with other weights, written anew": lambda: signed_anew(file_of("sharp") | {"weights": uneven()}),
    "epsilon changed": lambda: file_of() | {"epsilon_per_metre": "1/1000"},
    "epsilon changed, written anew": lambda: signed_anew(file_of() | {"epsilon_per_metre": "1/1000"}),
    "certified epsilon too small, written anew": lambda: signed_anew(file_of() | {"tight_epsilon_per_metre": "0.001"}),
    "certified epsilon no number, written anew": lambda: signed_anew(file_of() | {"tight_epsilon_per_metre": "NaN"}),
    "repeat changed": lambda: file_of() | {"repeat": RepeatUse(fresh_reports=10_000).to_dict()},
    "repeat without end, written anew": lambda: signed_anew(
        file_of() | {"repeat": RepeatUse().to_dict() | {"day": 10**6}}
    ),
    "vectors of another law": lambda: _hashed(file_of() | {"vectors": [[0, 1, "1", "5"]]}),
    "an entry more": lambda: file_of() | {"surprise": 1},
}


def _hashed(facts: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in facts.items() if name != "id"}
    return {"id": hash_facts(rest)} | rest


def run_node(script: str, facts: object) -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; device.js is not run")
    head = f'import fs from "node:fs"; import * as d from {json.dumps(DEVICE.as_uri())};'
    head += 'const file = JSON.parse(fs.readFileSync(0, "utf8"));'
    done = subprocess.run(
        [node, "--input-type=module", "-e", head + script], input=json.dumps(facts), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PROVE = 'try { d.proveFile(file); console.log("taken"); } catch (error) { console.log("refused:", error.message); }'


@pytest.mark.parametrize("forgery", FORGED)
def test_python_refuses_a_forged_file(forgery: str) -> None:
    with pytest.raises(ReleaseError):
        DeviceFile.from_dict(FORGED[forgery]())


@pytest.mark.parametrize("forgery", FORGED)
def test_device_js_refuses_a_forged_file(forgery: str) -> None:
    assert run_node(PROVE, FORGED[forgery]()).startswith("refused: ")


@pytest.mark.parametrize("mode", ["grid", "sharp", "fair"])
def test_both_take_the_file_as_it_was_written(mode: str) -> None:
    facts = file_of(mode)

    assert DeviceFile.from_dict(facts).identity == facts["id"]
    assert run_node(PROVE, facts) == "taken"


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("mode", ["grid", "sharp"])
def test_both_compute_the_same_vectors_on_every_metric(kind: str, mode: str) -> None:
    places = MAPS[kind]
    law = Location(grid=places, epsilon_per_metre="0.02", mode=mode).mechanism()  # type: ignore[arg-type]
    facts = DeviceFile(
        mechanism=law,
        epsilon_per_metre=Fraction(1, 50),
        tight_epsilon_per_metre=certify_epsilon(law).epsilon,
        repeat=RepeatUse(),
    ).to_dict()

    assert run_node(PROVE, facts) == "taken"
    assert len(facts["vectors"]) >= 8


def test_the_map_with_a_level_is_the_same_map_in_javascript() -> None:
    places = elastic(40, "462.303", "561.134", level=990)
    law = Mechanism(places=places, beta_per_metre=Fraction(1, 200), weights=np.full(places.size, FULL_WEIGHT))
    facts = DeviceFile(
        mechanism=law, epsilon_per_metre=Fraction(1, 100), tight_epsilon_per_metre=0.01, repeat=RepeatUse()
    ).to_dict()

    assert max(int(vector[2]) for vector in facts["vectors"]) > 2**63
    assert run_node(PROVE, facts) == "taken"


def test_a_file_of_the_first_version_with_a_raised_beta_is_refused_by_both() -> None:
    file = Path(__file__).parent.parent / "golden" / "first_version" / "location" / "mechanism.json"
    first = json.loads(file.read_text())
    assert DeviceFile.from_dict(first).format == 1
    assert "no device file of format 2" in run_node(PROVE, first)  # its id leaves out how often a device may draw
    law = {name: first[name] for name in ("grid", "beta_per_metre", "weight_bits", "weights", "inputs")}
    law["beta_per_metre"] = "10"
    forged = first | law | {"id": hash_facts(law, escaped=True)}

    assert run_node(PROVE, forged).startswith("refused: ")
    with pytest.raises(ReleaseError, match="its law needs"):
        DeviceFile.from_dict(forged)


def test_recertifying_gives_the_figure_of_the_certificate() -> None:
    facts = file_of("sharp")

    assert recertify(DeviceFile.from_dict(facts)).epsilon == pytest.approx(float(facts["tight_epsilon_per_metre"]))


# --- forged maps: a law that needs more than it promises, where a proof could fail to see it ------------------------


def promise_too_little(places: Places, weights: Any, promised: str = "3001/1000000") -> dict[str, Any]:
    """A file that promises hardly more than its beta."""
    law = Mechanism(
        places=places,
        beta_per_metre=Fraction(3, 1000),
        weights=np.array(weights),
        inputs=np.ones(places.size, dtype=np.bool_),
    )
    return DeviceFile(
        mechanism=law,
        epsilon_per_metre=Fraction(promised),
        tight_epsilon_per_metre=float(Fraction(promised)),
        repeat=RepeatUse(),
    ).to_dict()


def with_map(facts: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return _hashed(facts | {"grid": facts["grid"] | changed, "vectors": []})


SQUARE = PlaneGrid(rows=20, columns=20, cell_height_metres=100, cell_width_metres=100)
UNEVEN = np.where(np.arange(400) % 2, FULL_WEIGHT, FULL_WEIGHT // 1000)
POINTS = PointPlaces(points=np.random.default_rng(0).integers(0, 400_000, (400, 2)), names=tuple(map(str, range(400))))
LINE = RoadGraph(names=tuple(map(str, range(400))), edges=tuple((k, k + 1, 100_000) for k in range(399)))


def even_with_mesh(height: int) -> dict[str, Any]:
    corner = MeshCorner(level=6, row=34_000, column=25_000)
    grid = PlaneGrid(rows=20, columns=20, cell_height_metres=height, cell_width_metres=110, corner=corner)
    return promise_too_little(grid, np.full(400, FULL_WEIGHT), "6/1000")


def reports_at_both_ends(promised: str = "3001/1000000") -> dict[str, Any]:
    """Between them the sums are too small for a transform, which gives some below 0; it needs just below twice beta."""
    grid, weights = PlaneGrid(rows=2, columns=400, cell_height_metres=100, cell_width_metres=100), np.zeros((2, 400))
    weights[:, [0, -1]] = FULL_WEIGHT
    return promise_too_little(grid, weights.reshape(-1).astype(np.int64), promised)


def heavy_places_far_away() -> dict[str, Any]:
    """A star: 40,000 heavy places just out of reach of two light ones, who are told apart by them."""
    far, leaves = 12_050_000, 40_000
    edges = ((0, 1, 10_000), *((0, leaf, far) for leaf in range(2, leaves + 2)))
    roads = RoadGraph(names=tuple(map(str, range(leaves + 2))), edges=edges)
    weights = np.full(leaves + 2, FULL_WEIGHT)
    weights[:2] = 1
    return promise_too_little(roads, weights, "536/100000")


def levels_on_a_mesh() -> dict[str, Any]:
    """A mesh with levels: cells of 115 m, told to be ten times as far apart, with an honest mesh inside."""
    honest = even_with_mesh(115)["grid"]
    facts = promise_too_little(ElasticGrid(grid=SQUARE, levels=np.full(400, 1000)), np.full(400, FULL_WEIGHT), "6/1000")
    false = honest | {"kind": "elastic", "cell_height_metres": "1156", "cell_width_metres": "1100", "grid": honest}
    return with_map(facts, grid=false)


def many_cells(claimed: str) -> dict[str, Any]:
    """More cells than are certified again on reading, where 2 beta <= epsilon is the proof."""
    grid = PlaneGrid(rows=150, columns=150, cell_height_metres=100, cell_width_metres=100)
    facts = promise_too_little(grid, np.full(grid.size, FULL_WEIGHT), "6/1000")
    return _hashed(facts | {"tight_epsilon_per_metre": claimed})


def forge_shape(shape: list[Any]) -> dict[str, Any]:
    """Hidden reports of another shape. At half cells a transform would not see them, and their sum is whole."""
    grid = PlaneGrid(rows=4, columns=4, cell_height_metres=100, cell_width_metres=100)
    rows, columns = np.divmod(np.arange(16), 4)
    law = HiddenMechanism(
        places=grid,
        beta_per_metre=Fraction(1, 100),
        shapes=(((0, 0, 0),), ((0, 1, 0),)),
        columns=np.column_stack([np.zeros(16, dtype=np.int64), rows, columns, np.full(16, FULL_WEIGHT)]),
        told=np.arange(16),
        weights=np.full(16, FULL_WEIGHT),
    )
    facts = DeviceFile(
        mechanism=law, epsilon_per_metre=Fraction(1, 50), tight_epsilon_per_metre=0.02, repeat=RepeatUse()
    ).to_dict()
    return _hashed(facts | {"shapes": [shape, [100, [0, 1, 0]]], "vectors": [], "column_vectors": []})


FORGED_MAPS: dict[str, Callable[[], dict[str, Any]]] = {
    "reports at both ends": reports_at_both_ends,
    "heavy places far away": heavy_places_far_away,
    "mesh cells larger than on the ground": lambda: even_with_mesh(1156),
    "cells of negative height": lambda: with_map(promise_too_little(SQUARE, UNEVEN), cell_height_metres="-100"),
    "cells of negative width": lambda: with_map(promise_too_little(SQUARE, UNEVEN), cell_width_metres="100/-1"),
    "rows and columns below 0": lambda: with_map(promise_too_little(SQUARE, UNEVEN), rows=-20, columns=-20),
    "points in a negative unit": lambda: with_map(promise_too_little(POINTS, UNEVEN), unit_metres="-1/1000"),
    "levels above 1": lambda: with_map(
        promise_too_little(ElasticGrid(grid=SQUARE, levels=np.full(400, 1000)), np.full(400, FULL_WEIGHT), "6/1000"),
        levels=[10**6] * 400,
    ),
    "roads of negative length": lambda: with_map(
        promise_too_little(LINE, UNEVEN), edges=[[a, b, -length] for a, b, length in LINE.edges]
    ),
    "a road from nowhere": lambda: with_map(
        promise_too_little(LINE, np.full(400, FULL_WEIGHT), "6/1000"), edges=[*map(list, LINE.edges), [5, "length", 1]]
    ),
    "levels on a mesh of larger cells": levels_on_a_mesh,
    "many cells, a certified epsilon that is no number": lambda: many_cells("nan"),
    "many cells, a certified epsilon below 0": lambda: many_cells("-0.006"),
    "many cells, a certified epsilon above the promise": lambda: many_cells("0.06"),
    "hidden reports at half cells": lambda: forge_shape([100, [0.5, 0.5, 0]]),
    "hidden reports of half a percent": lambda: forge_shape([50.5, [0, 0, 0]]),
    "more cells than any map has": lambda: with_map(
        promise_too_little(SQUARE, np.full(400, FULL_WEIGHT), "6/1000") | {"weights": {"runs": [2**40, FULL_WEIGHT]}},
        rows=2**20,
        columns=2**20,
    ),
    "a run without its weight": lambda: _hashed(
        promise_too_little(SQUARE, np.full(400, FULL_WEIGHT), "6/1000")
        | {"weights": {"runs": [399, FULL_WEIGHT, 1, FULL_WEIGHT, 1]}}
    ),
}


@pytest.mark.parametrize("forgery", [name for name in FORGED_MAPS if name != "heavy places far away"])  # too slow
def test_python_refuses_a_forged_map(forgery: str) -> None:
    with pytest.raises((ReleaseError, ParameterError)):
        DeviceFile.from_dict(FORGED_MAPS[forgery]())


@pytest.mark.parametrize("forgery", FORGED_MAPS)
def test_device_js_refuses_a_forged_map(forgery: str) -> None:
    assert run_node(PROVE, FORGED_MAPS[forgery]()).startswith("refused: ")


def test_device_js_takes_reports_at_both_ends_if_enough_is_promised() -> None:
    assert run_node(PROVE, reports_at_both_ends("599999/100000000")) == "taken"  # Python bounds it by twice beta


def test_both_take_mesh_cells_as_large_as_the_ground() -> None:
    for facts in (even_with_mesh(115), promise_too_little(make_mesh_grid(1, south_west=(53, 39), shape=(3, 3)),
                                                          np.full(9, FULL_WEIGHT), "6/1000")):  # fmt: skip
        assert DeviceFile.from_dict(facts).identity == facts["id"]
        assert run_node(PROVE, facts) == "taken"


def lifted_points() -> dict[str, Any]:
    """Cells of 100 m around Tokyo, every other one 5 km above the ground: each is still the nearest to people there."""
    rows, columns = np.divmod(np.arange(16), 4)
    ground = to_earth_centred(35.6 + rows * 0.0009, 139.7 + columns * 0.0011)
    lifted = ground * np.where((rows + columns) % 2, 1 + 5_000 / 6_371_000, 1.0)[:, None]
    places = PointPlaces(points=np.rint(lifted * 1000).astype(np.int64), names=tuple(map(str, range(16))))
    return promise_too_little(places, np.full(16, FULL_WEIGHT), "6/1000")


def test_points_above_the_ground_have_no_latitudes_in_both() -> None:
    facts = lifted_points()
    on_ground = with_map(facts, points=np.rint(to_earth_centred([35.6] * 16, 139.7 + np.arange(16) / 900) * 1000)
                         .astype(np.int64).tolist())  # fmt: skip
    script = "try { console.log(d.cellAt(file, 35.6, 139.7)); } catch (error) { console.log(error.message); }"

    assert run_node(script, facts) == "this map has no latitudes; give the number of a cell"
    assert run_node(script, on_ground) == "0"
    with pytest.raises(SchemaError, match="no latitudes"):
        find_cell(DeviceFile.from_dict(facts).mechanism.places, 35.6, 139.7)


# --- caps of the app ----------------------------------------------------------------------------------------------


def test_an_app_that_allows_less_epsilon_refuses_the_file() -> None:
    opened = DeviceFile.from_dict(file_of())

    with pytest.raises(ReleaseError, match="this app allows at most 1/100"):
        Device.start(opened, caps=DeviceCaps(epsilon_per_metre="0.01"))


def test_device_js_has_the_same_cap() -> None:
    script = (
        "try { new d.Device(file, null, { caps: { epsilonPerMetre: '0.01' } }); } catch (e) { console.log(e.message); }"
    )

    assert "this app allows at most 0.01" in run_node(script, file_of())


def test_a_forged_budget_is_capped_by_the_app_in_both() -> None:
    generous = _hashed(file_of() | {"repeat": RepeatUse(fresh_reports=10_000).to_dict()})
    device = Device.start(DeviceFile.from_dict(generous), caps=DeviceCaps(reports_per_day=1))
    device.report(0, day="2026-11-16")
    script = """
      const device = new d.Device(file, null, { caps: { reportsPerDay: 1 } });
      console.log(JSON.stringify([device.report(0, "2026-11-16") !== null, device.report(1, "2026-11-16")]));
    """

    with pytest.raises(Exception, match="1 draws of this day are used up"):
        device.report(1, day="2026-11-16")
    assert json.loads(run_node(script, generous)) == [True, None]


def test_a_road_map_is_as_exact_in_both() -> None:
    edges = tuple((k, k + 1, 33_333_333 + k) for k in range(30))
    roads = RoadGraph(names=tuple(f"n{k}" for k in range(31)), edges=edges)

    assert distances_from(roads, 0)[30] == pytest.approx(sum(edge[2] for edge in edges) / 1000)
    assert SMALL.squares(0)[-1] == SMALL.squares(SMALL.size - 1)[0]


def test_device_js_compares_crossings_where_people_can_be_and_no_others() -> None:
    edges = (*((k, k + 1, 80_000 + 1_000 * (k % 7)) for k in range(29)), (3, 20, 400_000))
    roads = RoadGraph(names=tuple(f"n{k}" for k in range(30)), edges=edges)
    open_places = np.array([float(k % 3 != 1) for k in range(30)])
    law = Location(grid=roads, epsilon_per_metre="0.02", mode="sharp", weights=open_places).mechanism()
    claims = {"tight_epsilon_per_metre": certify_epsilon(law).epsilon, "repeat": RepeatUse()}
    written = DeviceFile(mechanism=law, epsilon_per_metre=Fraction(1, 50), **claims).to_dict()  # type: ignore[arg-type]
    too_little = _hashed(written | {"epsilon_per_metre": "19/1000", "tight_epsilon_per_metre": "0.019"})

    assert run_node(PROVE, written) == "taken"
    assert run_node(PROVE, too_little).startswith("refused: ")


def test_both_take_a_map_on_which_one_cell_only_can_be_reported() -> None:
    grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    law = Location(grid=grid, epsilon_per_metre="0.02", mode="fair", weights=np.array([1.0, 0.0])).mechanism()
    facts = DeviceFile(
        mechanism=law, epsilon_per_metre=Fraction(1, 50), tight_epsilon_per_metre=0.0, repeat=RepeatUse()
    ).to_dict()

    assert DeviceFile.from_dict(facts).tight_epsilon_per_metre == 0
    assert run_node(PROVE, facts) == "taken"


def test_device_js_sums_shapes_whose_points_lie_far_apart_as_python_does() -> None:
    grid = PlaneGrid(rows=4, columns=60, cell_height_metres=100, cell_width_metres=100)
    rows, columns = np.divmod(np.arange(grid.size), grid.columns)
    weights = np.random.default_rng(4).integers(2**39, 2**40, grid.size)
    law = HiddenMechanism(
        places=grid,
        beta_per_metre=Fraction(1, 4),  # 60 times 1/beta are less than three cells
        shapes=(((0, 0, 0), (1, -25, 0)),),
        columns=np.column_stack([np.zeros(grid.size, dtype=np.int64), rows, columns, weights]),
        told=np.arange(grid.size),
        weights=np.full(grid.size, FULL_WEIGHT),
    )
    needed = certify_hidden(law)
    claims = {"tight_epsilon_per_metre": 0.251, "repeat": RepeatUse()}
    too_little = DeviceFile(mechanism=law, epsilon_per_metre=Fraction(251, 1000), **claims).to_dict()  # type: ignore[arg-type]

    found = float(run_node(PROVE, too_little).split("needs ")[1].split(")")[0])

    assert needed > 0.251
    assert found == pytest.approx(needed, rel=1e-9)
