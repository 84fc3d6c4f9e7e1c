"""Algorithm 1 of the paper, with its parameters."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.unit.location_maps import SMALL

from papers.hiraishi_location.greedy import gap, reduce_weights, tied_sets
from sudare.errors import ParameterError
from sudare.methods.location.grid import PlaneGrid

BETA = Fraction(1, 100)


def test_the_objective_falls_and_is_that_of_the_returned_weights() -> None:
    found = reduce_weights(SMALL, BETA, step=0.1)
    before = reduce_weights(SMALL, BETA, constraint=lambda weights: False)

    assert found.objective < before.objective
    assert before.steps == 0


def test_a_constraint_is_kept() -> None:
    found = reduce_weights(SMALL, BETA, constraint=lambda weights: bool(weights.min() >= 0.5))

    assert found.weights.min() / 2**40 == pytest.approx(0.5, abs=0.01)


def test_another_objective_and_another_order_are_taken() -> None:
    largest = reduce_weights(SMALL, BETA, objective=lambda posteriors: float(posteriors.max()))
    backwards = reduce_weights(SMALL, BETA, order=lambda weights: -np.arange(weights.size, dtype=float))

    assert largest.steps > 0
    assert backwards.weights.tolist() != reduce_weights(SMALL, BETA).weights.tolist()


def test_no_weight_falls_below_the_least() -> None:
    found = reduce_weights(SMALL, BETA, least=0.3)

    assert found.weights.min() / 2**40 > 0.29


def test_without_a_tolerance_symmetric_cells_fall_apart() -> None:
    square = PlaneGrid(rows=7, columns=7, cell_height_metres="115.6", cell_width_metres="141.5")

    assert reduce_weights(square, BETA).objective < reduce_weights(square, BETA, tie_tolerance=0).objective


def test_ties_are_sets_in_falling_order() -> None:
    assert [tied.tolist() for tied in tied_sets(np.array([1.0, 3.0, 3.0, -np.inf]), 0)] == [[1, 2], [0]]
    assert gap(np.array([1.0, 3.0])) == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"step": 0}, "step (0) must be"),
        ({"tie_tolerance": 1}, "tie_tolerance (1) must be"),
        ({"posterior_model": "x"}, "posterior_model (x) must be"),
    ],
)
def test_a_wrong_parameter_is_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(ParameterError) as refused:
        reduce_weights(SMALL, BETA, **options)  # type: ignore[arg-type]

    assert told in str(refused.value)
