"""The promise of the location mechanism, exactly: every pair of places, every report, every mode, metric and weight."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.methods.location import Location
from sudare.methods.location.grid import PlaneGrid, distances_from
from sudare.methods.location.kernel import make_kernel
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism, equal_weights, quantise_weights
from sudare.methods.location.posterior import (
    find_likeliest_place,
    find_posterior,
    find_worst_posterior,
    measure_mechanism,
)
from sudare.methods.location.tight import certify_epsilon, search_all_pairs
from tests.unit.location_maps import LAND, MAPS, PAPER, SMALL, land_of, mechanism, worst_ratio

MODES = ("grid", "weighted", "fair", "sharp")
SLACKS = ("epsilon", "noise")
ROUNDING = 1e-11


# Fair weights are searched for, the longer the smaller epsilon is; the promise does not depend on the weights found.
CASES = [
    case
    for case in itertools.product(MAPS, MODES, SLACKS, ("0.003", "0.02"))
    if case[1] != "fair" or case[3] == "0.02" or case == ("plane", "fair", "epsilon", "0.003")
]


@functools.cache
def made(kind: str, mode: str, slack: str, epsilon: str) -> Mechanism:
    """The mechanism of a small map."""
    places = MAPS[kind]
    facts = {"grid": places, "epsilon_per_metre": epsilon, "mode": mode, "slack": slack}
    return Location(**facts, weights=land_of(places)).mechanism()  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "mode", "slack", "epsilon"), CASES)
def test_every_mode_metric_and_weight_keeps_epsilon_per_metre(kind: str, mode: str, slack: str, epsilon: str) -> None:
    assert worst_ratio(made(kind, mode, slack, epsilon)) <= float(Fraction(epsilon)) + ROUNDING


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", MAPS)
def test_the_ratio_test_fails_when_beta_is_doubled(kind: str, mode: str) -> None:
    mechanism = made(kind, mode, "noise", "0.02")
    doubled = replace(mechanism, beta_per_metre=2 * mechanism.beta_per_metre, _kernel=[])

    assert worst_ratio(doubled) > 0.02 * 1.2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", MAPS)
def test_people_off_the_reportable_cells_are_covered_when_declared(kind: str, mode: str) -> None:
    places = MAPS[kind]
    made = Location(
        grid=places,
        epsilon_per_metre="0.02",
        mode=mode,
        weights=land_of(places),
        inputs="all",  # type: ignore[arg-type]
    ).mechanism()

    assert made.can_enter.all()
    assert worst_ratio(made) <= 0.02 + ROUNDING


@pytest.mark.parametrize("kind", MAPS)
def test_the_metrics_obey_the_triangle_inequality_exactly(kind: str) -> None:
    """d = sqrt(n) with integers n: sqrt(a) <= sqrt(b) + sqrt(c) is checked without floats."""
    places = MAPS[kind]
    squares = np.array([places.squares(cell) for cell in range(places.size)]).astype(object)
    rest = squares[:, None, :] - squares[:, :, None] - squares[None, :, :]  # a - b - c for x, m, y

    assert (squares == squares.T).all()
    assert (np.diag(squares) == 0).all()
    assert ((rest <= 0) | (rest * rest <= 4 * squares[:, :, None] * squares[None, :, :])).all()


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("beta", ["0.002", "0.01", "0.05"])
def test_the_certificate_is_the_largest_ratio_of_all(kind: str, beta: str) -> None:
    places = MAPS[kind]
    made = mechanism(places, beta, quantise_weights(land_of(places)))

    found = certify_epsilon(made)

    assert found.is_exact
    assert worst_ratio(made) <= found.epsilon <= worst_ratio(made) * (1 + 1e-10)
    assert search_all_pairs(made) == pytest.approx(worst_ratio(made), rel=1e-11)


def test_grid_exponential_at_nominal_002_needs_001242_on_the_papers_map() -> None:
    made = mechanism(PAPER, "0.01", equal_weights(np.ones(225, dtype=bool)))

    assert round(certify_epsilon(made).epsilon, 5) == 0.01242


def test_the_certificate_of_a_large_grid_is_that_of_all_pairs() -> None:
    grid = PlaneGrid(rows=23, columns=19, cell_height_metres=100, cell_width_metres=130)
    weights = quantise_weights(np.abs(np.sin(np.arange(grid.size) * 0.7)) + 0.01)
    weights[::17] = 0
    made = mechanism(grid, "0.004", weights)

    assert certify_epsilon(made).epsilon == pytest.approx(search_all_pairs(made), rel=1e-9)


def test_convolution_and_matrix_agree() -> None:
    values = np.abs(np.sin(np.arange(PAPER.size)))
    fast, slow = (make_kernel(PAPER, 0.01, algorithm=way) for way in ("fft", "dense"))  # type: ignore[arg-type]

    assert np.abs(fast.smooth(values) - slow.smooth(values)).max() < 1e-13
    assert np.abs(fast.smooth_distance(values) - slow.smooth_distance(values)).max() < 1e-10
    assert fast.error_of(values) < 1e-11


def test_tiny_weights_far_from_others_are_summed_directly() -> None:
    """An FFT has an absolute error; a lonely island of weight 2**-39 is below it."""
    grid = PlaneGrid(rows=40, columns=40, cell_height_metres=500, cell_width_metres=500)
    weights = np.zeros(grid.size, dtype=np.int64)
    weights[:200], weights[-1] = FULL_WEIGHT, 2
    made = mechanism(grid, "0.02", weights)

    assert measure_mechanism(made).report_true[-1] == pytest.approx(made.report_law(grid.size - 1)[-1], rel=1e-9)


def test_measures_are_those_of_the_rows() -> None:
    made = mechanism(SMALL, "0.01", quantise_weights(LAND))
    inputs = np.flatnonzero(made.can_enter)
    law = np.array([made.report_law(int(cell)) for cell in inputs])
    distance = np.array([distances_from(SMALL, int(cell)) for cell in inputs])

    found = measure_mechanism(made)

    assert found.report_true[inputs] == pytest.approx(law[np.arange(len(inputs)), inputs])
    assert found.distance[inputs] == pytest.approx((law * distance).sum(axis=1))
    assert found.posterior[inputs] == pytest.approx(np.diag(law[:, inputs] / law[:, inputs].sum(axis=0)))
    assert find_posterior(made)[inputs] == pytest.approx(found.posterior[inputs])
    assert found.expected_distance == pytest.approx((law * distance).sum(axis=1).mean())


def test_no_place_is_likelier_than_the_reported_one_unless_it_is_busier() -> None:
    made = mechanism(SMALL, "0.01", quantise_weights(LAND))
    busy = np.ones(SMALL.size)
    busy[9] = 100.0

    assert all(find_likeliest_place(made, cell)[0] == cell for cell in np.flatnonzero(LAND).tolist())
    assert find_likeliest_place(made, 8, prior=busy)[0] == 9


@pytest.mark.parametrize("mode", MODES)
def test_a_cell_of_weight_0_is_never_reported(mode: str) -> None:
    made = Location(grid=SMALL, epsilon_per_metre="0.02", mode=mode, weights=LAND).mechanism()  # type: ignore[arg-type]

    assert (made.weights[LAND == 0] == 0).all()
    assert (made.weights[LAND > 0] > 0).all()


def test_fair_weights_close_the_gap_for_a_tenth_more_distance() -> None:
    everywhere = np.ones(225, dtype=bool)
    before = measure_mechanism(mechanism(PAPER, "0.01", equal_weights(everywhere)))
    after = measure_mechanism(Location(grid=PAPER, epsilon_per_metre="0.02", mode="fair").mechanism())

    assert round(before.gap, 4) == 0.3003
    assert after.gap <= 0.01
    assert after.expected_distance <= 1.10 * before.expected_distance


def test_a_smaller_budget_of_distance_leaves_a_larger_gap() -> None:
    found = [
        measure_mechanism(Location(grid=PAPER, epsilon_per_metre="0.02", mode="fair", extra_distance=extra).mechanism())
        for extra in ("0.02", "0.1")
    ]

    assert found[0].expected_distance < found[1].expected_distance
    assert found[0].gap > found[1].gap


@pytest.mark.parametrize(("epsilon", "most"), [("0.01", 165), ("0.02", 50)])
def test_sharp_weights_reach_the_distance_asked_for_at_a_certified_epsilon(epsilon: str, most: float) -> None:
    told = Location(grid=PAPER, epsilon_per_metre=epsilon, mode="sharp").preview()

    assert told.figures["expected_distance_metres"] <= most
    assert float(Fraction(epsilon)) * (1 - 1e-6) <= told.tight.epsilon <= float(Fraction(epsilon))


def test_where_level_weights_would_be_negative_the_best_that_is_certified_is_taken() -> None:
    told = Location(grid=PAPER, epsilon_per_metre="0.003", mode="sharp").preview()
    plain = Location(grid=PAPER, epsilon_per_metre="0.003", mode="grid", slack="noise").preview()

    assert told.tight.epsilon <= 0.003
    assert told.figures["expected_distance_metres"] <= plain.figures["expected_distance_metres"]


def test_the_same_noise_with_a_smaller_epsilon_is_offered_too() -> None:
    told = Location(grid=PAPER, epsilon_per_metre="0.02", mode="sharp", slack="epsilon").preview()

    assert told.beta_per_metre <= Fraction(1, 100)
    assert told.tight.epsilon <= 0.01


def test_a_place_of_a_stricter_level_counts_every_distance_less() -> None:
    levels = MAPS["elastic"]

    from_hospital, plain = distances_from(levels, 5), distances_from(SMALL, 5)

    assert from_hospital[6] == pytest.approx(141.5 / 4)
    assert (from_hospital <= plain / 4 + 1e-3).all()
    assert distances_from(levels, 4)[6] < distances_from(SMALL, 4)[6]  # the way by the hospital is shorter


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"mode": "round"}, 'mode (round) must be one of "grid", "weighted", "fair", "sharp"'),
        ({"epsilon_per_metre": 0}, "epsilon_per_metre (0) must be a number between"),
        ({"epsilon_per_metre": 20}, "epsilon_per_metre (20) must be a number between"),
        ({"weights": np.zeros(20)}, "all weights are 0"),
        ({"weights": np.full(20, 2.0)}, "between 0 and 1"),
        ({"weights": np.ones(3)}, "one weight for each of the 20 cells"),
        ({"mode": "weighted"}, "mode weighted needs weights"),
        ({"reports_per_day": 0}, "reports_per_day (0) must be"),
        ({"slack": "both"}, 'slack (both) must be one of "epsilon", "noise"'),
        ({"inputs": "sea"}, 'inputs ("sea") must be one of'),
        ({"posterior_model": "flat"}, "posterior_model (flat)"),
        ({"extra_distance": -1}, "extra_distance (-1) must be a number between"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(parameters: dict[str, object], told: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Location(**{"grid": SMALL, "epsilon_per_metre": "0.02", **parameters})  # type: ignore[arg-type]

    assert told in str(refused.value)


def test_an_epsilon_per_kilometre_given_as_per_metre_is_warned_of() -> None:
    sensible = Location(grid=PAPER, epsilon_per_metre="0.02").preview()
    slip = Location(grid=PAPER, epsilon_per_metre=2).preview()
    blur = Location(grid=PAPER, epsilon_per_metre="0.00002").preview()

    assert sensible.warnings == []
    assert "If it was meant per kilometre, give 0.002" in str(slip.warnings[0])
    assert "says almost nothing" in str(blur.warnings[0])


@pytest.mark.parametrize("kind", MAPS)
def test_with_a_population_the_likeliest_place_is_searched_for_around_the_report(kind: str) -> None:
    places = MAPS[kind]
    made = mechanism(places, "0.01", quantise_weights(land_of(places)))
    people = np.arange(places.size) % 7 * 1000.0
    told = np.flatnonzero(made.weights)

    found = find_worst_posterior(made, prior=people)

    assert found[told] == pytest.approx([find_likeliest_place(made, int(cell), prior=people)[1] for cell in told])
