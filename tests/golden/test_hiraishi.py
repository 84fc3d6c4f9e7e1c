"""Figures of Hiraishi and others at epsilon = 0.02, both readings; `python -m papers hiraishi_location` has all."""

from __future__ import annotations

import numpy as np
import pytest
from papers.hiraishi_location.figures_data import EXPECTED, GRID, STEPS, after, before, figures, seen
from papers.hiraishi_location.reproduce import fairness, surprises

from sudare.methods.location import Location
from sudare.methods.location.posterior import measure_mechanism

UNIFORM = {0.1: 0.2628, 0.05: 0.2671, 0.01: 0.2689}
WEIGHTS = {0.1: 0.1853, 0.05: 0.1759, 0.01: 0.1786}


def test_every_printed_figure_comes_out_or_is_explained() -> None:
    assert surprises(figures(share=0.1)) == []


def test_a_beta_a_fiftieth_off_is_seen_in_the_figures() -> None:
    """The three digits of expected.toml tell epsilon = 0.02 from 0.0204."""
    off = seen("0.0204", np.ones(GRID.size))
    expected = EXPECTED["computed"]

    assert abs(off.posterior.min() - expected["posterior_min"]) > 0.001
    assert abs(off.distance.mean() - expected["expected_distance_metres"]) > 1


@pytest.mark.parametrize("step", STEPS)
def test_algorithm_1_ends_at_026_with_the_stated_prior_and_at_018_with_the_weights_as_prior(step: float) -> None:
    assert after("0.02", "uniform", step=step)[1].gap == pytest.approx(UNIFORM[step], abs=5e-5)
    assert after("0.02", "weights", step=step)[1].gap == pytest.approx(WEIGHTS[step], abs=5e-5)


def test_the_corner_moves_away_under_the_second_reading_only() -> None:
    corner = before("0.02").distance[0]

    assert after("0.02", "uniform")[1].distance[0] < corner < after("0.02", "weights")[1].distance[0]


def test_the_library_finds_what_full_matrices_find() -> None:
    plain = before("0.02")
    told = measure_mechanism(Location(grid=GRID, epsilon_per_metre="0.02").mechanism())

    assert told.posterior == pytest.approx(plain.posterior, rel=1e-12)
    assert told.report_true == pytest.approx(plain.report_true, rel=1e-12)
    assert told.distance == pytest.approx(plain.distance, rel=1e-12)


def test_fair_weights_leave_a_hundredth_for_less_than_a_tenth_more_distance() -> None:
    gap, extra = fairness("0.02")

    assert gap <= 0.01
    assert extra <= 0.10
