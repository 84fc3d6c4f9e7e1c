"""Large samples of reports, by Python and by device.js: both have the exact law, and not one of an epsilon 5 % off.

Chi-square, ratios and outliers over n draws of a cell (mechanisms/goodness.py), good if a worse fit has a chance of at
least 1e-9. With 300,000 draws on the paper's map they reject a beta 5 % off by p < 1e-40. Python's draws are seeded;
device.js reads the machine's generator and fails by chance once in 1e9 runs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import sudare.methods.location
from sudare.methods.location.device import DeviceState
from sudare.methods.location.device_file import DeviceFile, RepeatUse
from sudare.methods.location.grid import ElasticGrid, Places, PlaneGrid, PointPlaces
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.roads import RoadGraph
from sudare.methods.location.sampler import Sampler
from sudare.noise import SeededRng
from sudare.noise.selfcheck import fit

DEVICE = Path(sudare.methods.location.__file__).with_name("device.js")
SCRIPT = """
import fs from "node:fs";
import { pathToFileURL } from "node:url";
const asked = JSON.parse(fs.readFileSync(0, "utf8"));
const { Sampler, Device } = await import(pathToFileURL(asked.device));
const told = {};
if (asked.draws) {
  const sampler = new Sampler(asked.artefact, asked.margin ? { margin: asked.margin } : {});
  told.counts = new Array(sampler.size).fill(0);
  for (let i = 0; i < asked.draws; i++) told.counts[sampler.draw(asked.cell)]++;
}
if (asked.visits) {
  const device = new Device(asked.artefact, asked.state ?? null);
  told.reports = asked.visits.map(([cell, day]) => device.report(cell, day));
  told.state = device.state;
}
console.log(JSON.stringify(told));
"""
DRAWS = 300_000


def paper() -> Mechanism:
    """The paper's map with uneven weights and a cell of sea."""
    grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    weights = np.random.default_rng(1).integers(1, FULL_WEIGHT, grid.size)
    weights[3] = 0
    return _law(grid, weights)


def roads() -> Mechanism:
    """A made-up town: a ring with a bridge and a dead end."""
    edges = [("a", "b", 120), ("b", "c", 80), ("c", "d", 200), ("d", "a", 90), ("b", "d", 60), ("d", "e", 300)]
    graph = RoadGraph.of_metres([(start, end, Fraction(metres)) for start, end, metres in edges])
    return _law(graph, np.array([FULL_WEIGHT, FULL_WEIGHT // 3, FULL_WEIGHT, FULL_WEIGHT // 2, FULL_WEIGHT]))


def levels() -> Mechanism:
    """A park with a hospital that is four times as strict, and a school in between."""
    grid = PlaneGrid(rows=5, columns=6, cell_height_metres="50.5", cell_width_metres=60)
    strict = np.full(grid.size, 1000)
    strict[[7, 8, 20]] = 250, 250, 600
    return _law(ElasticGrid(grid=grid, levels=strict), np.full(grid.size, FULL_WEIGHT), "1/20")


def points() -> Mechanism:
    """Cells by their centres, in three dimensions."""
    centres = np.random.default_rng(2).integers(0, 400_000, (40, 3))
    return _law(PointPlaces(points=centres, names=tuple(map(str, range(40)))), np.full(40, FULL_WEIGHT))


def _law(places: Places, weights: NDArray[np.int64], beta: str = "1/100") -> Mechanism:
    inputs = np.ones(places.size, dtype=np.bool_)
    return Mechanism(places=places, beta_per_metre=Fraction(beta), weights=weights, inputs=inputs)


def off(mechanism: Mechanism, factor: str) -> Mechanism:
    """The same map with another beta."""
    return Mechanism(
        places=mechanism.places,
        beta_per_metre=mechanism.beta_per_metre * Fraction(factor),
        weights=mechanism.weights,
        inputs=mechanism.inputs,
    )


def by_python(mechanism: Mechanism, cell: int, draws: int) -> NDArray[np.int64]:
    drawn = Sampler(mechanism=mechanism).draw(np.full(draws, cell), rng=SeededRng(11 + cell))
    return np.bincount(drawn, minlength=mechanism.places.size)


def run_node(mechanism: Mechanism, **asked: object) -> dict[str, object]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; device.js is not run")
    file = DeviceFile(
        mechanism=mechanism,
        epsilon_per_metre=2 * mechanism.beta_per_metre,
        tight_epsilon_per_metre=float(2 * mechanism.beta_per_metre),
        repeat=RepeatUse(fresh_reports=2),
    )
    question = json.dumps({"artefact": file.to_dict(), "device": str(DEVICE), **asked})
    command = [node, "--input-type=module", "-e", SCRIPT]
    done = subprocess.run(command, input=question, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


def by_node(mechanism: Mechanism, cell: int, draws: int, margin: float | None = None) -> NDArray[np.int64]:
    return np.array(run_node(mechanism, cell=cell, draws=draws, margin=margin)["counts"], dtype=np.int64)


def p_value(counts: NDArray[np.int64], mechanism: Mechanism, cell: int) -> float:
    can = mechanism.weights > 0
    assert counts[~can].sum() == 0
    return fit(counts[can], mechanism.report_law(cell)[can]).p_value


MAPS = [paper, roads, levels, points]


@pytest.mark.parametrize("make", MAPS)
@pytest.mark.parametrize("cell", [0, 4])
def test_reports_have_the_law_and_not_one_of_an_epsilon_a_twentieth_off(make: type, cell: int) -> None:
    mechanism = make()

    counts = by_python(mechanism, cell, DRAWS)

    assert p_value(counts, mechanism, cell) > 1e-4
    assert p_value(counts, off(mechanism, "1.05"), cell) < 1e-9
    assert p_value(counts, off(mechanism, "0.95"), cell) < 1e-9


@pytest.mark.parametrize("beta", ["1/100000", "1/1000", "1/20"])
def test_reports_have_the_law_where_proposals_are_even_and_where_they_hardly_move(beta: str) -> None:
    grid = PlaneGrid(rows=4, columns=30, cell_height_metres=50, cell_width_metres=40)
    mechanism = _law(grid, np.random.default_rng(3).integers(1, FULL_WEIGHT, grid.size), beta)

    counts = by_python(mechanism, 61, DRAWS)

    assert p_value(counts, mechanism, 61) > 1e-4


@pytest.mark.parametrize("beta", ["1/100000", "1/1000", "1/20"])
def test_device_js_has_the_law_where_proposals_are_even_and_where_they_hardly_move(beta: str) -> None:
    grid = PlaneGrid(rows=4, columns=30, cell_height_metres=50, cell_width_metres=40)
    mechanism = _law(grid, np.random.default_rng(3).integers(1, FULL_WEIGHT, grid.size), beta)

    counts = by_node(mechanism, 61, DRAWS)

    assert p_value(counts, mechanism, 61) > 1e-9


def test_a_sampler_that_forgets_the_weights_is_found() -> None:
    mechanism = paper()
    even = _law(mechanism.places, np.where(mechanism.weights > 0, FULL_WEIGHT, 0))

    counts = by_python(even, 112, 20_000)

    assert p_value(counts, mechanism, 112) < 1e-9


@pytest.mark.parametrize("make", MAPS)
def test_device_js_has_the_law_and_not_one_of_an_epsilon_a_twentieth_off(make: type) -> None:
    mechanism = make()

    counts = by_node(mechanism, 4, DRAWS)

    assert p_value(counts, mechanism, 4) > 1e-9
    assert p_value(counts, off(mechanism, "1.05"), 4) < 1e-9
    assert p_value(counts, off(mechanism, "0.95"), 4) < 1e-9


def test_device_js_has_the_law_where_integers_decide_every_draw() -> None:
    mechanism = paper()

    counts = by_node(mechanism, 112, 4_000, margin=2.0)

    assert p_value(counts, mechanism, 112) > 1e-9
    assert p_value(counts, off(mechanism, "2"), 112) < 1e-9


def test_device_js_and_python_draw_the_same_law() -> None:
    mechanism = paper()

    javascript, python = by_node(mechanism, 112, DRAWS), by_python(mechanism, 112, DRAWS)

    can = mechanism.weights > 0
    assert _two_samples(javascript[can], python[can]) > 1e-9


def _two_samples(one: NDArray[np.int64], two: NDArray[np.int64]) -> float:
    """Chi-square of two samples of one size."""
    from sudare.noise.selfcheck import chi_square_tail

    both = one + two
    used = both >= 20
    return chi_square_tail(float(((one - two)[used] ** 2 / both[used]).sum()), int(used.sum()))


def test_device_js_keeps_answers_and_budget_as_python_does() -> None:
    visits = [[40, "2026-11-16"], [40, "2026-11-16"], [41, "2026-11-16"], [42, "2026-11-16"], [42, "2026-11-17"]]

    told = run_node(paper(), visits=visits)

    reports, state = told["reports"], told["state"]
    assert isinstance(reports, list)
    assert isinstance(state, dict)
    assert reports[0] == reports[1]
    assert [report is None for report in reports] == [False, False, False, True, False]
    assert state["answers"] == [[42, reports[4]["cell"]]]
    assert DeviceState.from_dict(state).to_dict() == state
