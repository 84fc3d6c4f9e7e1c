"""The published table of a map: what cells tell of the sums of their squares, and which cells become 0."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.methods.table import repair as repair_module
from sudare.methods.table.levels import find_layout
from sudare.methods.table.measured import MeasuredTable, measure_levels
from sudare.methods.table.repair import _find_kept, _Rows, _tell_sums, repair
from sudare.methods.table.squares import SquareLayout
from sudare.noise import GeometricNoise, SeededRng
from sudare.postprocess.surroundings import Posterior
from sudare.schema import Attribute, NumberBins, Schema


def measure(table: np.ndarray, seed: int) -> MeasuredTable:
    """Measure squares of 32 and 8 cells and the cells of a map, a sixth, a sixth and two thirds of epsilon 1."""
    named = zip("xy", table.shape, strict=True)
    sides = tuple(Attribute(name=name, domain=NumberBins.of_width(0, size, 1)) for name, size in named)
    kept = np.flatnonzero(table)
    counts = Counts.build(Schema(name="map", attributes=sides), kept[:, None], table.ravel()[kept])
    layout = find_layout(counts.schema)
    assert isinstance(layout, SquareLayout)
    noises = [GeometricNoise(scale=Fraction(scale)) for scale in (12, 12, 3)]
    return measure_levels(counts, layout, noises, total=counts.total, total_variance=0.0, rng=SeededRng(seed))


def square_error(measured: MeasuredTable, table: np.ndarray) -> float:
    """The RMSE of the published squares of 8 x 8 cells."""
    leaves = repair(measured, rng=SeededRng(3))
    places = measured.layout.columns(np.flatnonzero(leaves))
    error = -table.astype(np.float64)
    np.add.at(error, (places[:, 0], places[:, 1]), leaves[leaves > 0])
    height, width = (length // 8 for length in table.shape)
    return float(np.sqrt(np.mean(error.reshape(height, 8, width, 8).sum(axis=(1, 3)) ** 2)))


def test_squares_of_a_map_with_empty_cells_are_nearer_since_noise_of_empty_cells_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(7)
    table = random.poisson(400, (128, 128)) * (random.random((128, 128)) < 0.08)
    measured = measure(table, seed=1)
    nearer = square_error(measured, table)
    monkeypatch.setattr(repair_module, "DOUBT", 1e12)  # nothing is learned from cells

    before = square_error(measured, table)

    assert nearer < 0.75 * before


def test_squares_of_a_full_map_are_no_further_off(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(8)
    table = random.poisson(random.gamma(2.0, 10.0, (128, 128)))
    measured = measure(table, seed=2)
    after = square_error(measured, table)
    monkeypatch.setattr(repair_module, "DOUBT", 1e12)

    before = square_error(measured, table)

    assert after < 1.03 * before


def test_normal_cells_tell_their_noisy_sum_and_its_variance() -> None:
    """The law before, divided out of the law after, leaves what the noise says, whatever total cells were moved to."""
    random, variance, before = np.random.default_rng(9), 50.0, 400.0
    values, prior = random.normal(20, 20, (5, 16)), np.full((5, 16), 20.0)
    totals = values.sum(axis=1) + 37.0
    rows = _Rows(level=1, nodes=np.arange(5), values=values, weights=np.full((5, 16), variance), totals=totals, above=5)
    consistent, pull = rows.consistent(), before / (before + variance)
    found = Posterior(
        mean=(prior + pull * (consistent - prior)).ravel(),
        variance=np.full(80, pull * variance * 0.999),
        prior_mean=prior.ravel(),
        prior_variance=np.full(80, before),
    )

    sums, variances = _tell_sums(rows, consistent, found, variance)

    assert np.allclose(sums, values.sum(axis=1), atol=1.0)
    assert np.allclose(variances, repair_module.DOUBT * 16 * variance, rtol=0.01)


def test_cells_that_tell_nothing_new_leave_the_sum_as_it_was_measured() -> None:
    rows = _Rows(
        level=1,
        nodes=np.arange(1),
        values=np.full((1, 4), 3.0),
        weights=np.full((1, 4), 50.0),
        totals=np.array([12.0]),
        above=1,
    )
    ones = np.ones(4)
    found = Posterior(mean=3 * ones, variance=2 * ones, prior_mean=3 * ones, prior_variance=2 * ones)

    assert np.isinf(_tell_sums(rows, rows.consistent(), found, 50.0)[1]).all()


def test_a_row_of_which_nothing_is_known_keeps_all_its_open_cells() -> None:
    is_open = np.array([[True, True, False]])

    assert _find_kept(is_open, np.zeros((1, 3)), 5.0, 0.5).tolist() == [[True, True, False]]


def test_a_map_of_few_people_does_not_stand_where_the_noise_is_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer people than the noise of one of its largest squares: they are spread evenly, as the total is known."""
    table = (np.random.default_rng(10).random((160, 160)) < 0.002).astype(np.int64)
    measured = measure(table, seed=4)
    nearer = square_error(measured, table)
    monkeypatch.setattr(repair_module, "MOSTLY_NOISE", 0.0)

    before = square_error(measured, table)

    assert nearer < 0.9 * before


def test_a_map_without_anybody_is_published_empty() -> None:
    assert not repair(measure(np.zeros((96, 96), dtype=np.int64), seed=5), rng=SeededRng(6)).any()
