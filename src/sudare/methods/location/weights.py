"""Fair weights: people at corners and coasts are found out no more often than others.

Minimise   smooth max of the posterior - smooth min of it   over the logarithms of the weights, by L-BFGS. The smooth
maximum is (1/t) log mean exp(t q), and t grows from round to round, so that the last rounds see the true maximum.
Gradients are a few more sums over the map, by FFT. Above a budget of expected distance a penalty grows;
`extra_distance` is the knob between fairness and utility.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sudare.methods.location.grid import Places
from sudare.methods.location.kernel import Kernel, kernel_of
from sudare.methods.location.mechanism import Mechanism, quantised, uniform
from sudare.methods.location.posterior import evaluate
from sudare.methods.location.sharp import calibrated, level_weights, sharp_mechanism
from sudare.schema.arrays import Booleans, Integers, Reals

Progress = Callable[[float], None]

SHARPNESS = (30.0, 100.0, 300.0, 1000.0, 3000.0)  # t times the largest posterior, round by round
MOST_STEPS, LEAST_STEPS = 250, 30  # of one round; large maps start near the end and get fewer
MANY = 10_000
PENALTY = 200.0
EASE = 0.97  # a penalty is not a wall: it begins a little before the budget ends
RANGE = math.log(1000)  # weights stay within a thousandth and a thousand times the median


def fair_weights(
    places: Places,
    beta: Fraction,
    *,
    cells: Booleans,
    extra_distance: float,
    steps: int | None = None,
    progress: Progress | None = None,
) -> Integers:
    """Weights with a small gap between the largest and the smallest posterior.

    The expected distance grows by a share of about `extra_distance` at most, compared with equal weights.

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=5, columns=5, cell_height_metres=100, cell_width_metres=100)
    >>> everywhere = np.ones(25, dtype=bool)
    >>> weights = fair_weights(grid, Fraction(1, 100), cells=everywhere, extra_distance=0.2)
    >>> before = evaluate(Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=uniform(everywhere))).gap
    >>> after = evaluate(Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=weights)).gap
    >>> after < before / 5
    True
    """
    kernel = kernel_of(places, float(beta))
    plain = evaluate(Mechanism(places=places, beta_per_metre=beta, weights=uniform(cells)))
    goal = _Goal(kernel, cells, budget=plain.expected_distance * (1 + EASE * extra_distance))
    logs = _start(goal, kernel, cells)
    most = steps if steps is not None else _steps(int(cells.sum()))
    for turn, sharpness in enumerate(SHARPNESS):
        goal.t = sharpness / float(np.nanmax(plain.posterior))
        logs = _descend(goal.value_and_slope, logs, most)
        if progress is not None:
            progress((turn + 1) / len(SHARPNESS))
    weights = np.zeros(cells.size)
    weights[cells] = np.exp(logs)
    return quantised(weights)


def _steps(cells: int) -> int:
    return max(LEAST_STEPS, min(MOST_STEPS, MOST_STEPS * MANY // cells))


def _start(goal: _Goal, kernel: Kernel, cells: Booleans) -> Reals:
    """Equal weights, or those that make alpha level, whichever is fairer: on coasts the latter are near the end."""
    level = level_weights(kernel, cells)[cells]
    level = np.log(np.maximum(level, 1e-3 * max(float(level.max()), 1e-9)))
    flat = np.zeros_like(level)
    goal.t = 100.0
    return min((flat, level), key=lambda logs: goal.value_and_slope(logs)[0])


def _descend(goal: Callable[[Reals], tuple[float, Reals]], logs: Reals, steps: int) -> Reals:
    from scipy import optimize

    options = {"maxiter": steps, "maxcor": 20}
    logs = np.clip(logs - np.median(logs), -RANGE, RANGE)
    bounds = optimize.Bounds(-RANGE, RANGE)
    found = optimize.minimize(goal, logs, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    answer: Reals = found.x
    return answer


@dataclass(slots=True)
class _Goal:
    """What is minimised, with its gradient by logarithms of weights."""

    kernel: Kernel
    cells: Booleans
    budget: float
    t: float = 100.0

    def value_and_slope(self, logs: Reals) -> tuple[float, Reals]:
        """The smoothed gap and the penalty, and their slope.

        S = E w, alpha = 1/S, T = E alpha, q = alpha/T;  dq/dw by the chain of these, E being symmetric.
        """
        inside = self.cells
        weights = np.zeros(inside.size)
        weights[inside] = np.exp(logs)
        sums, far = self.kernel.smooth_both(weights)
        alpha = np.where(inside, 1 / np.where(inside, np.maximum(sums, weights), 1.0), 0.0)
        seen = np.maximum(self.kernel.smooth(alpha), alpha)
        safe = np.where(inside, seen, 1.0)
        posterior = alpha / safe
        gap, pull = _smooth_gap(posterior[inside], self.t)
        by_posterior = np.zeros(inside.size)
        by_posterior[inside] = pull
        by_alpha = by_posterior / safe - self.kernel.smooth(by_posterior * posterior / safe)
        by_sums = np.where(inside, -alpha * alpha * by_alpha, 0.0)
        distance = alpha * far
        penalty, press = self._penalty(float(distance[inside].mean()))
        press /= float(inside.sum())
        off = self.kernel.smooth_distance(alpha) if press else None
        by_weight = self.kernel.smooth(by_sums - press * alpha * distance)
        if off is not None:
            by_weight += press * off
        return gap + penalty, (weights * by_weight)[inside]

    def _penalty(self, distance: float) -> tuple[float, float]:
        over = max(0.0, distance / self.budget - 1)
        return PENALTY * over * over, 2 * PENALTY * over / self.budget


def _smooth_gap(values: Reals, t: float) -> tuple[float, Reals]:
    """(1/t) (log sum exp(t q) + log sum exp(-t q)) and its gradient."""
    high, low = values.max(), values.min()
    up, down = np.exp(t * (values - high)), np.exp(t * (low - values))
    gap = (high + np.log(up.mean()) / t) - (low - np.log(down.mean()) / t)
    return float(gap), up / up.sum() - down / down.sum()


# From a mode to a mechanism: which weights, and what the slack of the certificate is used for.


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

    def weigh(beta: Fraction) -> Integers:
        if mode == "fair":
            return fair_weights(places, beta, cells=cells, extra_distance=extra_distance, progress=progress)
        return uniform(cells) if mode == "grid" or weights is None else quantised(weights)

    if slack == "epsilon":
        return Mechanism(places=places, beta_per_metre=epsilon / 2, weights=weigh(epsilon / 2), inputs=inputs)
    return _entered(_with_less_noise(places, epsilon, weigh, rounds=ROUNDS if mode == "fair" else 1), inputs, epsilon)


def _with_less_noise(
    places: Places, epsilon: Fraction, weigh: Callable[[Fraction], Integers], *, rounds: int
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
