"""From a mode to a mechanism: which weights, and what the slack of the certificate is used for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sudare.methods.location.fair import Progress, fair_weights
from sudare.methods.location.grid import Cells, Places
from sudare.methods.location.mechanism import Mechanism, quantised, uniform
from sudare.methods.location.sharp import calibrated, sharp_mechanism

Mode = Literal["grid", "weighted", "fair", "sharp"]
Slack = Literal["epsilon", "noise"]
MODES = ("grid", "weighted", "fair", "sharp")
SLACKS = ("epsilon", "noise")
ROUNDS = 3


def build(
    places: Places,
    epsilon: Fraction,
    *,
    mode: Mode,
    slack: Slack,
    weights: NDArray[np.float64] | None,
    inputs: NDArray[np.bool_],
    extra_distance: float,
    progress: Progress | None = None,
) -> Mechanism:
    """Make the mechanism of a mode.

    slack "epsilon": beta = epsilon/2, as in the paper; the certificate shows that less epsilon is needed.
    slack "noise": beta is raised until the certificate says epsilon; reports come nearer to the truth.

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=2, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> options = dict(weights=None, inputs=np.ones(4, dtype=bool), extra_distance=0.1)
    >>> build(grid, Fraction(1, 50), mode="grid", slack="epsilon", **options).beta_per_metre
    Fraction(1, 100)
    """
    cells = np.ones(places.size, dtype=np.bool_) if weights is None else np.asarray(weights) > 0
    if mode == "sharp":
        made = sharp_mechanism(places, epsilon if slack == "noise" else epsilon / 2, cells=cells)
        return _entered(made, inputs, epsilon)

    def weigh(beta: Fraction) -> Cells:
        if mode == "fair":
            return fair_weights(places, beta, cells=cells, extra_distance=extra_distance, progress=progress)
        return uniform(cells) if mode == "grid" or weights is None else quantised(weights)

    if slack == "epsilon":
        return Mechanism(places=places, beta_per_metre=epsilon / 2, weights=weigh(epsilon / 2), inputs=inputs)
    return _entered(_with_less_noise(places, epsilon, weigh, rounds=ROUNDS if mode == "fair" else 1), inputs, epsilon)


def _with_less_noise(
    places: Places, epsilon: Fraction, weigh: Callable[[Fraction], Cells], *, rounds: int
) -> Mechanism:
    """Raise beta as far as the certificate allows; weights that depend on beta are found anew for it."""
    beta = epsilon / 2
    for _ in range(rounds):
        found = calibrated(places, epsilon, weigh(beta))
        beta = found.beta_per_metre
    return found


def _entered(made: Mechanism, inputs: NDArray[np.bool_], epsilon: Fraction) -> Mechanism:
    """Declare where people can be. Where that is also off the reportable cells, only epsilon/2 is proven for beta."""
    if bool((inputs == (made.weights > 0)).all()):
        return made
    beta = min(made.beta_per_metre, epsilon / 2)
    return replace(made, inputs=inputs, beta_per_metre=beta, _kernel=[])
