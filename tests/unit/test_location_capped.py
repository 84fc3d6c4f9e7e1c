"""Fair under a population prior on maps of hundreds and thousands of cells: a cap on the greatest posterior."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError, ReleaseError
from sudare.methods.location.device_file import DeviceFile
from sudare.methods.location.grid import ElasticGrid, PlaneGrid, PointPlaces
from sudare.methods.location.hidden import HiddenMechanism, certify_hidden, measure_hidden
from sudare.methods.location.kernel import distance_table
from sudare.methods.location.location import Location
from sudare.methods.location.margin import sum_slopes
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.roads import RoadGraph
from sudare.methods.location.tight import certify_epsilon, search_all_pairs
from sudare.schema.arrays import Reals
from tests.unit.test_location_near import file_of
from tests.unit.test_location_trust import PROVE, run_node

GRID = PlaneGrid(rows=16, columns=17, cell_height_metres="115.6", cell_width_metres="141.5")


def make_town(size: int, seed: int) -> Reals:
    """Lognormal cells and three busy ones: a town that nothing was tuned on."""
    numbers = np.random.default_rng(seed)
    people = numbers.lognormal(0, 1, size)
    people[numbers.integers(0, size, 3)] += people.sum() * np.array([0.02, 0.05, 0.1])
    shares: Reals = people / people.sum()
    return shares


def find_worst_slope(law: HiddenMechanism) -> float:
    """Find the largest epsilon per metre from the definition, over all pairs and reports."""
    logs = np.log(np.array([law.report_law(cell) for cell in range(law.places.size)]))
    metres = distance_table(law.places) + np.eye(law.places.size)
    return max(float(((logs[cell] - logs) / metres[cell][:, None]).max()) for cell in range(law.places.size))


def test_fair_under_a_prior_caps_the_greatest_posterior_of_a_larger_map() -> None:
    people = make_town(GRID.size, 71)
    fair = Location(grid=GRID, epsilon_per_metre="0.008", mode="fair", prior=people)
    sharp = Location(grid=GRID, epsilon_per_metre="0.008", mode="sharp", prior=people).preview()

    law = fair.mechanism()
    assert isinstance(law, HiddenMechanism)
    measured = measure_hidden(law, people).measures()
    file = file_of(law, "0.008").to_dict()
    preview = fair.measure(law)

    assert measured["posterior_max"] <= 1.3 * measured["posterior_median"]
    assert measured["posterior_max"] < 0.7 * sharp.figures["posterior_max"]
    assert measured["expected_distance_metres"] < 1.5 * sharp.figures["expected_distance_metres"]
    assert find_worst_slope(law) <= certify_hidden(law) * (1 + 1e-9) <= 0.008 * (1 + 1e-9)
    assert run_node(PROVE, file) == "taken"
    assert DeviceFile.from_dict(json.loads(json.dumps(file))).identity == file["id"]
    assert any("what the cap on posteriors costs" in str(line) for line in preview.lines())


def make_points(count: int, side_metres: int, seed: int) -> PointPlaces:
    """Points all over a square."""
    points = np.random.default_rng(seed).integers(0, 1000 * side_metres, (count, 2))
    return PointPlaces(points=points, names=tuple(map(str, range(count))))


def make_roads(side: int, seed: int) -> RoadGraph:
    """Crossings of a town whose roads have all lengths; one in eight is closed."""
    numbers, edges = np.random.default_rng(seed), []
    for row in range(side):
        for column in range(side):
            here = row * side + column
            if column + 1 < side and (row == 0 or numbers.random() < 0.875):
                edges.append((here, here + 1, int(numbers.integers(60_000, 140_000))))
            if row + 1 < side:
                edges.append((here, here + side, int(numbers.integers(60_000, 140_000))))
    return RoadGraph(names=tuple(map(str, range(side * side))), edges=tuple(edges))


def make_levels(side: int) -> ElasticGrid:
    """A plane with two strict cells."""
    levels = np.full(side * side, 1000)
    levels[[side + 3, side * side // 2]] = 250, 500
    grid = PlaneGrid(rows=side, columns=side, cell_height_metres=100, cell_width_metres=100)
    return ElasticGrid(grid=grid, levels=levels)


OTHER_MAPS = {
    "points": make_points(280, 1_700, 3),
    "roads": make_roads(17, 4),
    "levels": make_levels(17),
}


@pytest.mark.parametrize("kind", OTHER_MAPS)
def test_fair_under_a_prior_caps_posteriors_where_there_are_no_rows_and_columns(kind: str) -> None:
    places = OTHER_MAPS[kind]
    people = make_town(places.size, 91)
    fair = Location(grid=places, epsilon_per_metre="0.01", mode="fair", prior=people)
    sharp = Location(grid=places, epsilon_per_metre="0.01", mode="sharp", prior=people).preview()

    law = fair.mechanism()
    assert isinstance(law, HiddenMechanism)
    measured = measure_hidden(law, people).measures()
    file = file_of(law, "0.01").to_dict()

    assert measured["posterior_max"] <= 1.3 * measured["posterior_median"]
    assert measured["posterior_max"] < 0.7 * sharp.figures["posterior_max"]
    assert find_worst_slope(law) <= certify_hidden(law) * (1 + 1e-9) <= 0.01 * (1 + 1e-9)
    assert run_node(PROVE, file) == "taken"
    assert DeviceFile.from_dict(json.loads(json.dumps(file))).identity == file["id"]


def test_people_elsewhere_are_covered_by_a_cap_on_a_map_of_points() -> None:
    points, is_told = OTHER_MAPS["points"], np.arange(280) % 5 > 0
    fair = Location(grid=points, epsilon_per_metre="0.01", mode="fair", prior=make_town(280, 92),
                    weights=is_told.astype(float), inputs="all")  # fmt: skip

    law = fair.mechanism()

    assert is_told[law.told].all()
    assert find_worst_slope(law) <= certify_hidden(law) * (1 + 1e-9) <= 0.01 * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["points", "roads"])
def test_weights_alone_cap_posteriors_on_maps_that_are_too_large_for_cones(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sudare.methods.location.capped.MAX_OTHER_CELLS", 260)
    monkeypatch.setattr("sudare.methods.location.tight.MAX_CELLS_BY_PAIRS", 1)  # certified as a large map is
    places, numbers = OTHER_MAPS[kind], np.random.default_rng(93)
    people = numbers.lognormal(0, 1, places.size)
    fair = Location(grid=places, epsilon_per_metre="0.02", mode="fair", prior=people)

    law = fair.mechanism()
    assert isinstance(law, Mechanism)
    joint = np.array([law.report_law(cell) for cell in range(places.size)]) * (people / people.sum())[:, None]
    masses = joint.sum(axis=0)
    posteriors = (joint.max(axis=0) / np.where(masses > 0, masses, 1.0))[masses > 0]
    greatest, told = float(posteriors.max()), fair.measure(law)
    is_low = posteriors < greatest / 1.3

    assert masses[masses > 0][is_low].sum() < 0.5
    assert told.figures["posterior_max"] == pytest.approx(greatest, rel=1e-3)
    assert any("what the cap on posteriors costs" in str(line) for line in told.lines())
    assert search_all_pairs(law) <= certify_epsilon(law).epsilon <= 0.02
    assert run_node(PROVE, file_of(law, "0.02").to_dict()) == "taken"

    halved = replace(law, beta_per_metre=2 * law.beta_per_metre, _kernel=[])  # half the noise
    forged = file_of(halved, "0.02").to_dict()

    assert search_all_pairs(halved) > 0.02
    assert run_node(PROVE, forged).startswith("refused: ")
    with pytest.raises(ReleaseError):
        DeviceFile.from_dict(forged)


def test_a_place_with_a_large_part_of_all_people_is_refused_where_weights_alone_would_have_to_hide_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sudare.methods.location.capped.MAX_OTHER_CELLS", 260)
    people = np.full(280, 0.8 / 279)
    people[11] = 0.2

    with pytest.raises(ParameterError, match=r"one place holds 0\.200 of all people by the prior, more than can be"):
        Location(grid=OTHER_MAPS["points"], epsilon_per_metre="0.05", mode="fair", prior=people).mechanism()


def test_a_plane_of_too_many_cells_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = PlaneGrid(rows=201, columns=100, cell_height_metres=100, cell_width_metres=100)
    monkeypatch.setattr(PlaneGrid, "offset_squares", None)  # any distance would fail

    with pytest.raises(ParameterError, match="a plane map of at most 20000 cells, not 20100; use larger"):
        Location(grid=grid, epsilon_per_metre="0.008", mode="fair", prior=make_town(20_100, 6)).preview()


def test_a_place_that_holds_half_of_all_people_is_told_before_publication() -> None:
    people = np.full(GRID.size, 0.5 / (GRID.size - 1))
    people[77] = 0.5

    preview = Location(grid=GRID, epsilon_per_metre="0.01", mode="fair", prior=people).preview()

    assert preview.figures["posterior_max"] <= 1.3 * preview.figures["posterior_median"]
    assert preview.figures["posterior_max"] >= 0.5
    assert any("cannot be below 0.500" in str(warning) for warning in preview.warnings)


def test_sums_of_cones_of_many_slopes_are_those_of_a_table() -> None:
    numbers = np.random.default_rng(3)
    columns = np.column_stack([numbers.integers(0, 3, 60), numbers.integers(-4, 22, 60), numbers.integers(-3, 23, 60)])
    weights, slopes, beta = numbers.uniform(size=60), (100, 30, 0), 0.01
    rows, across = np.divmod(np.arange(GRID.size), GRID.columns)

    metres = np.hypot((columns[:, 1, None] - rows) * 115.6, (columns[:, 2, None] - across) * 141.5)
    table = weights @ np.exp(-beta * np.array(slopes)[columns[:, 0], None] / 100 * metres)

    assert sum_slopes(GRID, beta, slopes, columns, weights) == pytest.approx(table, rel=1e-11)


def test_a_hidden_law_that_is_not_level_is_certified_by_its_steepest_pair() -> None:
    grid = PlaneGrid(rows=9, columns=12, cell_height_metres=100, cell_width_metres=80)
    numbers = np.random.default_rng(8)
    columns = np.column_stack([np.zeros(108), *np.divmod(np.arange(108), 12), numbers.integers(2**38, 2**40, 108)])
    law = HiddenMechanism(
        places=grid,
        beta_per_metre=Fraction(1, 100),
        shapes=(((0, 0, 0),),),
        columns=columns.astype(np.int64),
        told=np.arange(108),
        weights=np.full(108, 2**40),
    )
    spread = float(np.ptp(np.log(law.sums()))) / 80

    assert find_worst_slope(law) <= certify_hidden(law) <= 0.01 + spread
    assert certify_hidden(law) <= find_worst_slope(law) * (1 + 1e-6)


def test_islands_far_from_each_other_keep_their_promise_under_a_cap() -> None:
    grid = PlaneGrid(rows=1, columns=330, cell_height_metres=200, cell_width_metres=200)
    land, people = np.zeros(330), np.zeros(330)
    land[[0, 195, 225, 226, 329]], people[[225, 226, 329]] = 1, (2, 2, 1)
    method = Location(grid=grid, epsilon_per_metre="0.015", mode="fair", weights=land, prior=people)

    law = method.mechanism()

    assert isinstance(law, HiddenMechanism)
    assert certify_hidden(law) <= 0.015
    assert method.preview().tight.epsilon <= 0.015
