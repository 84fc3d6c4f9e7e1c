"""The paper's algorithm 1: lower weights step by step while the objective falls."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.grid import Places
from sudare.methods.location.kernel import DenseKernel
from sudare.methods.location.mechanism import quantise_weights
from sudare.methods.location.posterior import PosteriorModel
from sudare.schema.arrays import Integers, Reals

MOST_CELLS = 2000

Objective = Callable[[Reals], float]
Constraint = Callable[[Reals], bool]
CellOrdering = Callable[[Reals], Reals]


class Reduced(NamedTuple):
    """Weights after the last step, the objective they reach, and how many steps were taken."""

    weights: Integers
    objective: float
    steps: int


def gap(posteriors: Reals) -> float:
    """The paper's f1: the largest posterior minus the smallest.

    >>> round(gap(np.array([0.2, 0.5])), 3)
    0.3
    """
    return float(posteriors.max() - posteriors.min())


def reduce_weights(
    places: Places,
    beta: Fraction,
    *,
    start: Reals | None = None,
    step: float = 0.1,
    tie_tolerance: float = 1e-9,
    posterior_model: PosteriorModel = "uniform",
    objective: Objective = gap,
    constraint: Constraint | None = None,
    order: CellOrdering | None = None,
    least: float = 0.0,
) -> Reduced:
    """Lower weights greedily: the set of cells that is first in `order` goes down by `step` if the objective falls.

    `objective` sees the posteriors of all cells, `constraint` the weights that are tried, `order` ranks cells (by
    default the largest posterior first). Cells whose ranks differ by at most `tie_tolerance` go down together; with 0,
    rounding tears symmetric cells apart and the search stalls. No weight falls below `least`; with 0, as in the paper,
    a cell may end up never reported though people are there.

    Source: Hiraishi and others, algorithm 1.

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=3, columns=3, cell_height_metres=100, cell_width_metres=100)
    >>> reduced = reduce_weights(grid, Fraction(1, 100), least=0.1)
    >>> reduced.steps > 0
    True
    """
    _check(places, step, tie_tolerance)
    if posterior_model not in get_args(PosteriorModel):
        raise ParameterError(f"posterior_model ({posterior_model}) must be uniform or weights")
    weights = np.ones(places.size) if start is None else np.asarray(start, dtype=np.float64).copy()
    cells = weights > 0
    seen = _Posterior(DenseKernel.of(places, float(beta)).decay, cells, posterior_model)
    best, rounds = objective(seen(weights)[cells]), 0
    while True:
        ranks = seen(weights) if order is None else np.asarray(order(weights))
        for tied in tied_sets(np.where(cells, ranks, -np.inf), tie_tolerance):
            tried = weights.copy()
            tried[tied] -= step
            if tried[tied].min() < least - step * 1e-6 or tried.max() < step * 1e-6:
                continue
            tried[tied] = np.maximum(tried[tied], 0.0)
            found = objective(seen(tried)[cells])
            if found < best - 1e-15 and (constraint is None or constraint(tried)):
                weights, best, rounds = tried, found, rounds + 1
                break
        else:
            return Reduced(quantise_weights(np.where(weights < step * 1e-6, 0.0, weights)), best, rounds)


def tied_sets(ranks: Reals, tolerance: float) -> list[Integers]:
    """Cells of equal rank, the highest first.

    >>> [tied.tolist() for tied in tied_sets(np.array([0.1, 0.3, 0.3 + 1e-12]), 1e-9)]
    [[2, 1], [0]]
    """
    order = np.argsort(-ranks, kind="stable")
    falls = np.flatnonzero(np.diff(-ranks[order]) > tolerance) + 1
    return [part for part in np.split(order, falls) if np.isfinite(ranks[part]).all()]


class _Posterior:
    """Posteriors of weights on one dense map."""

    def __init__(self, near: Reals, cells: NDArray[np.bool_], model: PosteriorModel) -> None:
        self.near, self.cells, self.model = near, cells, model

    def __call__(self, weights: Reals) -> Reals:
        alpha = 1.0 / (self.near @ weights)
        weighed = alpha * weights if self.model == "weights" else np.where(self.cells, alpha, 0.0)
        told: Reals = weighed / np.maximum(self.near @ weighed, np.finfo(float).tiny)
        return told


def _check(places: Places, step: float, tie_tolerance: float) -> None:
    if places.size > MOST_CELLS:
        raise ParameterError(
            "algorithm 1 takes maps of at most {most} cells, not {cells}; use mode fair",
            most=MOST_CELLS,
            cells=places.size,
        )
    if not 0 < step <= 1:
        raise ParameterError("step ({step}) must be above 0 and at most 1", step=step)
    if not 0 <= tie_tolerance < 1:
        raise ParameterError("tie_tolerance ({value}) must be at least 0 and below 1", value=tie_tolerance)
