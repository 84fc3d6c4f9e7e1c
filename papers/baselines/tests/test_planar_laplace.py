"""Planar Laplace and k-RR: the error is round at every latitude, and each tells the epsilon it really keeps."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from papers.baselines.krr import RandomisedResponse
from papers.baselines.planar_laplace import PlainGrid, PlanarLaplace
from sudare.errors import ParameterError, SchemaError
from sudare.noise import SeededRng
from sudare.schema.mesh import measure_degree, travel

PAPER = PlainGrid(rows=15, columns=15, height=115.6, width=141.5)


@pytest.mark.parametrize(("place", "latitude"), [("equator", 0.0), ("Tokyo", 35.681), ("Helsinki", 60.17)])
def test_the_error_to_the_north_equals_that_to_the_east(place: str, latitude: float) -> None:
    noise = PlanarLaplace(epsilon_per_metre="0.01")
    north_metres, east_metres = measure_degree(latitude)

    to_latitude, to_longitude = noise.draw(np.full(100_000, latitude), np.full(100_000, 24.9), rng=SeededRng(1))

    north = float(np.sqrt(((to_latitude - latitude) ** 2).mean())) * float(north_metres)
    east = float(np.sqrt(((to_longitude - 24.9) ** 2).mean())) * float(east_metres)
    expected = math.sqrt(3) / 0.01  # E r^2 = 6/epsilon^2, half of it each way
    assert north == pytest.approx(expected, rel=0.01)
    assert east == pytest.approx(expected, rel=0.01)


def test_noise_in_equal_degrees_would_be_twice_too_short_in_helsinki() -> None:
    _, east = measure_degree(60.17)
    north, _ = measure_degree(60.17)

    assert float(east / north) == pytest.approx(0.5, abs=0.01)


def test_a_walk_ends_where_pyproj_says() -> None:
    pyproj = pytest.importorskip("pyproj", reason="the extra [geo] is not installed")
    numbers = np.random.default_rng(2)
    latitude, longitude = numbers.uniform(-89, 89, 500), numbers.uniform(-180, 180, 500)
    azimuth, metres = numbers.uniform(0, 2 * np.pi, 500), numbers.uniform(0, 5e6, 500)

    found = travel(latitude, longitude, azimuth, metres)

    true = pyproj.Geod(ellps="WGS84").fwd(longitude, latitude, np.degrees(azimuth), metres)
    assert float(np.abs(found[0] - true[1]).max()) < 1e-8
    assert float(np.abs((found[1] - true[0] + 180) % 360 - 180).max()) < 1e-7


def test_the_mean_distance_is_two_over_epsilon() -> None:
    _, metres = PlanarLaplace(epsilon_per_metre="0.02").steps(200_000, SeededRng(3))

    assert float(metres.mean()) == pytest.approx(100, rel=0.01)


def test_a_latitude_beyond_90_degrees_is_refused() -> None:
    with pytest.raises(SchemaError, match="swapped"):
        PlanarLaplace(epsilon_per_metre="0.02").draw(139.76, 35.68, rng=SeededRng(1))


def test_remapping_keeps_epsilon_and_redrawing_does_not() -> None:
    kept = PlanarLaplace(epsilon_per_metre="0.02").real_epsilon_per_metre(PAPER)
    redrawn = PlanarLaplace(epsilon_per_metre="0.02", beyond="redraw").real_epsilon_per_metre(PAPER)

    assert kept == 0.02
    assert 0.0215 < redrawn < 0.04


def test_redrawn_reports_stay_on_the_map_and_corners_redraw_most() -> None:
    noise = PlanarLaplace(epsilon_per_metre="0.002", beyond="redraw")
    grid = PlainGrid(rows=3, columns=3, height=500.0, width=500.0)

    chances = noise._chances(grid)
    reports = noise.draw_cells(np.zeros(5_000, dtype=int), grid=grid, rng=SeededRng(4))

    assert set(reports.tolist()) == set(range(9))
    assert chances[4] > chances[1] > chances[0]


def test_the_chance_to_land_on_the_map_is_the_share_of_draws_that_do() -> None:
    noise = PlanarLaplace(epsilon_per_metre="0.005")
    azimuth, metres = noise.steps(400_000, SeededRng(5))
    grid = PlainGrid(rows=4, columns=6, height=115.6, width=141.5)

    chance = noise._chances(grid)[0]  # the south-west corner

    north, east = metres * np.cos(azimuth) / 115.6, metres * np.sin(azimuth) / 141.5
    seen = ((north > -0.5) & (north < 3.5) & (east > -0.5) & (east < 5.5)).mean()
    assert chance == pytest.approx(float(seen), abs=0.003)


def test_a_report_is_never_in_the_sea() -> None:
    weights = np.ones(25)
    weights[12:] = 0
    grid = PlainGrid(rows=5, columns=5, height=100.0, width=100.0, weights=weights)
    for beyond in ("remap", "redraw"):
        noise = PlanarLaplace(epsilon_per_metre="0.01", beyond=beyond)  # type: ignore[arg-type]

        reports = noise.draw_cells(np.full(5_000, 11), grid=grid, rng=SeededRng(6))

        assert reports.max() < 12


def test_the_epsilon_of_redrawing_is_refused_where_it_is_not_computed() -> None:
    grid = PlainGrid(rows=1, columns=2, height=100.0, width=100.0, weights=np.array([1, 0]))

    with pytest.raises(ParameterError, match="of weight above 0"):
        PlanarLaplace(epsilon_per_metre="0.01", beyond="redraw").real_epsilon_per_metre(grid)


def test_the_globe_costs_little_over_a_city_and_is_told() -> None:
    kept, further = PlanarLaplace(epsilon_per_metre="0.001").epsilon_on_globe(within_metres=50_000)

    assert 0 < kept - 0.001 < 1e-8
    assert further < 1e-19


def test_randomised_response_keeps_its_epsilon_and_its_law() -> None:
    method = RandomisedResponse(epsilon=2, cells=10)

    drawn = method.draw(np.full(200_000, 4), rng=SeededRng(7))

    shares = np.bincount(drawn, minlength=10) / len(drawn)
    assert method.real_epsilon() == pytest.approx(2, abs=1e-9)
    assert method.real_epsilon() <= 2
    assert shares[4] == pytest.approx(math.e**2 / (math.e**2 + 9), abs=0.004)


def test_randomised_response_per_metre_pays_for_the_two_nearest_cells() -> None:
    method = RandomisedResponse.for_metres(Fraction(1, 50), nearest_metres=Fraction("115.6"), cells=225)

    assert method.real_epsilon() / 115.6 <= 0.02 + 1e-12
    assert method.keep == pytest.approx(math.exp(2.312) / (math.exp(2.312) + 224), rel=1e-6)


def test_randomised_response_estimates_without_bias() -> None:
    truth = np.repeat([0, 1, 2], [60_000, 30_000, 10_000])
    method = RandomisedResponse(epsilon=1, cells=3)

    shares = method.estimate(method.draw(truth, rng=SeededRng(8)))

    assert shares.tolist() == pytest.approx([0.6, 0.3, 0.1], abs=0.01)


def test_randomised_response_needs_two_cells() -> None:
    with pytest.raises(ParameterError, match="at least 2"):
        RandomisedResponse(epsilon=1, cells=1)
