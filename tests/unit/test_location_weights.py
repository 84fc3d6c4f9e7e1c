"""The optimisers: gradients, solutions by FFT against matrices, certificates for random maps."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from sudare.demo.data import coast
from sudare.methods.location import Location
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.kernel import make_kernel
from sudare.methods.location.mechanism import equal_weights, quantise_weights
from sudare.methods.location.posterior import measure_mechanism
from sudare.methods.location.sharp import calibrate_beta, solve_level_weights, solve_nearly_level_weights
from sudare.methods.location.tight import certify_epsilon, search_all_pairs
from sudare.methods.location.weights import FairnessObjective, find_fair_weights
from tests.unit.location_maps import mechanism, worst_ratio

GRID = PlaneGrid(rows=24, columns=20, cell_height_metres="115.6", cell_width_metres="141.5")
LAND = coast(24, 20).reshape(-1) > 0


@pytest.mark.parametrize("way", ["fft", "dense"])
@pytest.mark.parametrize("budget", [1e9, 50.0])  # without and with the penalty of distance
def test_the_gradient_of_fairness_is_that_of_finite_differences(way: str, budget: float) -> None:
    goal = FairnessObjective(make_kernel(GRID, 0.01, algorithm=way), LAND, max_distance=budget, t=40.0)  # type: ignore[arg-type]
    logs = 0.3 * np.sin(np.arange(int(LAND.sum())))
    slope = goal.value_and_gradient(logs)[1]
    for cell in (0, 7, len(logs) - 1):
        step = np.zeros_like(logs)
        step[cell] = 1e-5
        difference = (goal.value_and_gradient(logs + step)[0] - goal.value_and_gradient(logs - step)[0]) / 2e-5

        assert slope[cell] == pytest.approx(difference, rel=1e-4, abs=1e-9)


def test_level_weights_by_fft_are_those_of_the_matrix() -> None:
    fast, slow = (solve_level_weights(make_kernel(GRID, 0.01, algorithm=way), LAND) for way in ("fft", "dense"))  # type: ignore[arg-type]

    assert fast == pytest.approx(slow, abs=1e-8)
    assert (fast[~LAND] == 0).all()


def test_level_weights_make_every_row_of_one_norm() -> None:
    kernel = make_kernel(GRID, 0.02, algorithm="fft")

    assert kernel.smooth(solve_level_weights(kernel, LAND))[LAND] == pytest.approx(np.ones(int(LAND.sum())), abs=1e-9)


def test_sums_of_a_long_map_whose_kernel_ends_early_are_those_of_every_pair() -> None:
    grid = PlaneGrid(rows=3, columns=400, cell_height_metres=100, cell_width_metres=100)
    kernel = make_kernel(grid, 0.004, algorithm="fft")
    values = np.random.default_rng(3).random(grid.size)
    dense = make_kernel(grid, 0.004, algorithm="dense")
    both, true = kernel.smooth_both(values), dense.smooth_both(values)

    assert kernel.padded[1] < 2 * grid.columns - 1
    assert np.abs(both[0] - true[0]).max() <= kernel.error_of(values) < 1e-10
    assert np.abs(both[1] - true[1]).max() < 1e-8


def test_many_cells_solved_less_exactly_are_level_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = PlaneGrid(rows=40, columns=40, cell_height_metres=100, cell_width_metres=100)
    exact = Location(grid=grid, epsilon_per_metre="0.004", mode="sharp").preview()
    monkeypatch.setattr("sudare.methods.location.sharp.MANY_CELLS", 1000)

    rough = Location(grid=grid, epsilon_per_metre="0.004", mode="sharp").preview()

    assert rough.tight.epsilon <= 0.004
    assert rough.figures["expected_distance_metres"] == pytest.approx(
        exact.figures["expected_distance_metres"], rel=1e-3
    )


def test_weights_of_small_cells_stay_positive_and_certified_by_fft_too() -> None:
    grid = PlaneGrid(rows=20, columns=20, cell_height_metres=20, cell_width_metres=20)
    cells = np.ones(400, dtype=bool)
    weights = solve_nearly_level_weights(grid, 0.008, cells)
    found = calibrate_beta(grid, Fraction(1, 100), quantise_weights(weights))

    assert solve_level_weights(make_kernel(grid, 0.01), cells).min() < 0 < weights.min()
    assert Fraction(1, 200) < found.beta_per_metre
    assert certify_epsilon(found).epsilon <= 0.01
    assert search_all_pairs(found) <= 0.01


def test_sharp_on_a_coast_needs_its_epsilon_and_no_more() -> None:
    told = Location(grid=GRID, epsilon_per_metre="0.02", mode="sharp", weights=LAND.astype(float)).preview()

    assert 0.02 * (1 - 1e-6) <= told.tight.epsilon <= 0.02
    assert told.tight.is_exact


def test_fair_on_a_coast_brings_the_largest_posterior_near_the_median() -> None:
    before = measure_mechanism(mechanism(GRID, "0.01", equal_weights(LAND)))
    after = measure_mechanism(
        mechanism(GRID, "0.01", find_fair_weights(GRID, Fraction(1, 100), cells=LAND, extra_distance=0.15, steps=100))
    )

    assert np.nanmax(before.posterior) > 2.2 * np.nanmedian(before.posterior)
    assert np.nanmax(after.posterior) < 1.5 * np.nanmedian(after.posterior)


def test_progress_is_told_to_the_end() -> None:
    told: list[float] = []

    Location(grid=PlaneGrid(rows=3, columns=3, cell_height_metres=100, cell_width_metres=100),
             epsilon_per_metre="0.02", mode="fair").mechanism(progress=told.append)  # fmt: skip

    assert told == sorted(told)
    assert told[-1] == 1


@given(
    rows=st.integers(1, 5),
    columns=st.integers(2, 5),
    height=st.integers(1, 400),
    width=st.integers(1, 400),
    beta=st.sampled_from(["0.0001", "0.003", "0.02", "0.3"]),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_any_weights_on_any_grid_need_what_the_certificate_says_and_at_most_twice_beta(
    rows: int, columns: int, height: int, width: int, beta: str, data: st.DataObject
) -> None:
    grid = PlaneGrid(rows=rows, columns=columns, cell_height_metres=height, cell_width_metres=width)
    numbers = st.lists(st.integers(0, 2**40), min_size=grid.size, max_size=grid.size).filter(any)
    made = mechanism(grid, beta, np.array(data.draw(numbers), dtype=np.int64))

    found, worst = certify_epsilon(made), worst_ratio(made)

    assert worst <= found.epsilon * (1 + 1e-9) + 1e-13
    assert found.epsilon <= 2 * made.beta * (1 + 1e-12)
    assert not found.is_exact or found.epsilon == pytest.approx(worst, rel=1e-6, abs=1e-12)


THREADS = """
from fractions import Fraction
import hashlib, numpy as np
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.weights import find_fair_weights
made = []
for rows, columns in ((13, 14), (17, 19)):
    grid = PlaneGrid(rows=rows, columns=columns, cell_height_metres=100, cell_width_metres=90)
    cells = np.ones(grid.size, dtype=bool)
    made.append(find_fair_weights(grid, Fraction(1, 200), cells=cells, extra_distance=0.1, steps=40).tobytes())
print(hashlib.sha256(b"".join(made)).hexdigest())
"""


@pytest.mark.parametrize("slack", ["noise", "epsilon"])
def test_people_where_nothing_is_reported_are_certified_on_a_map_too_large_for_all_pairs(slack: str) -> None:
    grid = PlaneGrid(rows=20, columns=20, cell_height_metres=100, cell_width_metres=100)
    weights = np.ones(400)
    weights[[45, 200, 210, 333]] = 0.0
    # cells far apart have norms of nearly 1: taken as 1 where nothing is reported, those would hide the steepest slope
    made = Location(grid=grid, epsilon_per_metre="0.05", slack=slack, weights=weights, inputs="all").mechanism()  # type: ignore[arg-type]

    assert search_all_pairs(made) <= certify_epsilon(made).epsilon <= 0.05


def test_fair_weights_do_not_depend_on_the_number_of_threads() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", THREADS],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "4")
    }

    assert len(found) == 1


def test_weights_are_searched_on_one_thread_and_others_have_theirs_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for their share of small matrices spin: 10 times the CPU time and more on a busy machine."""

    def count_threads(*places: object, **options: object) -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    monkeypatch.setattr("sudare.methods.location.location.build_mechanism", count_threads)
    with threadpool_limits(limits=2, user_api="blas"):
        during = Location(grid=GRID, epsilon_per_metre="0.01", mode="fair").mechanism()
        after = count_threads()

    assert (during, after) == ({1}, {2})
