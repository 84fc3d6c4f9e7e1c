"""From a mode to a mechanism: which weights the cells have, and what an epsilon that is not needed is used for.

Modes "grid" and "weighted" take weights as they are, "sharp" finds those with the least noise (sharp.py). "fair" finds
weights under which people at corners and coasts are found out no more often than others:

    minimise   smooth max of the posterior - smooth min of it   over the logarithms of the weights, by L-BFGS

The smooth maximum is (1/t) log mean exp(t q), and t grows from round to round, so that the last rounds see the true
maximum. Gradients are a few more sums over the map, by FFT. Above a budget of expected distance a penalty grows;
`extra_distance` is the knob between fairness and utility.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from sudare.methods.base import Progress
from sudare.methods.location.grid import Places
from sudare.methods.location.kernel import DenseKernel, Kernel, make_kernel
from sudare.methods.location.mechanism import Mechanism, equal_weights, quantise_weights
from sudare.methods.location.names import find_names
from sudare.methods.location.nearby import NearbyKernel
from sudare.methods.location.posterior import measure_mechanism, share_prior
from sudare.methods.location.sharp import CALIBRATED, build_sharp_mechanism, calibrate_beta, solve_level_weights
from sudare.methods.location.tight import certify_epsilon
from sudare.schema.arrays import Booleans, Integers, Reals

Mode = Literal["grid", "weighted", "fair", "sharp", "near"]
Slack = Literal["epsilon", "noise"]

FAIR_ROUNDS = 3  # of fair weights for a beta and beta for these weights


def build_mechanism(
    places: Places,
    epsilon: Fraction,
    *,
    mode: Mode,
    slack: Slack,
    weights: Reals | None,
    inputs: Booleans,
    extra_distance: float,
    progress: Progress | None = None,
) -> Mechanism:
    """Make the mechanism of a mode.

    slack "epsilon": beta = epsilon/2, as in the paper; the certificate shows that less epsilon is needed.
    slack "noise": beta is raised until the certificate says epsilon; reports come nearer to the truth.

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=2, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> options = dict(weights=None, inputs=np.ones(4, dtype=bool), extra_distance=0.1)
    >>> build_mechanism(grid, Fraction(1, 50), mode="grid", slack="epsilon", **options).beta_per_metre
    Fraction(1, 100)
    """
    cells = np.ones(places.size, dtype=np.bool_) if weights is None else np.asarray(weights) > 0
    if mode == "sharp":
        allowed = epsilon if slack == "noise" else epsilon / 2
        return build_sharp_for_inputs(places, allowed, cells=cells, inputs=inputs)

    def find_weights(beta: Fraction) -> Integers:
        if mode == "fair":
            return find_fair_weights(places, beta, cells=cells, extra_distance=extra_distance, progress=progress)
        return equal_weights(cells) if mode == "grid" or weights is None else quantise_weights(weights)

    if slack == "epsilon":
        return Mechanism(places=places, beta_per_metre=epsilon / 2, weights=find_weights(epsilon / 2), inputs=inputs)
    rounds = FAIR_ROUNDS if mode == "fair" else 1
    return declare_inputs(_use_all_epsilon(places, epsilon, find_weights, rounds=rounds), inputs, epsilon)


def _use_all_epsilon(
    places: Places, epsilon: Fraction, find_weights: Callable[[Fraction], Integers], *, rounds: int
) -> Mechanism:
    """Raise beta as far as the certificate allows; weights that depend on beta are found anew for it."""
    beta = epsilon / 2
    for _ in range(rounds):
        calibrated = calibrate_beta(places, epsilon, find_weights(beta))
        beta = calibrated.beta_per_metre
    return calibrated


def declare_inputs(built: Mechanism, inputs: Booleans, epsilon: Fraction) -> Mechanism:
    """Declare where people can be; where that is also off the reportable cells, find the beta that uses all epsilon."""
    if bool((inputs == (built.weights > 0)).all()):
        return built
    return calibrate_beta(built.places, epsilon, built.weights, inputs=inputs)


def build_sharp_for_inputs(
    places: Places, epsilon: Fraction, *, cells: Booleans, inputs: Booleans, people: Reals | None = None
) -> Mechanism:
    """Build mode sharp where people can also be where nothing may be told, such as on the sea.

    Level weights need a report wherever people can be: without, the norm of the law rises towards the sea as fast as
    the law itself falls, and half of epsilon is lost. So the sea has reports, too, that are told as the best cell of
    the land, for people spread evenly if nothing else is given. The law with less noise (the larger beta) is taken.
    """
    sharp = declare_inputs(build_sharp_mechanism(places, epsilon, cells=cells), inputs, epsilon)
    if bool((inputs <= cells).all()):
        return sharp
    spread = share_prior(inputs, None) if people is None else people
    wide = build_sharp_mechanism(places, epsilon, cells=inputs | cells)
    told = find_names(wide, spread, np.flatnonzero(cells))
    told = np.where(cells, np.arange(places.size), told)  # what may be told stands for itself
    hidden = replace(wide, inputs=inputs, told=told, _kernel=wide._kernel)
    is_nearer = hidden.beta_per_metre > sharp.beta_per_metre * (1 + CALIBRATED)
    return hidden if is_nearer and certify_epsilon(hidden).epsilon <= float(epsilon) else sharp


# --- fair weights -----------------------------------------------------------------------------------------------------

SHARPNESS = (30.0, 100.0, 300.0, 1000.0, 3000.0)  # t times the largest posterior, round by round
MAX_STEPS, MIN_STEPS = 250, 30  # of one round; large maps start near the end and get fewer
MANY_CELLS = 10_000  # from here on the steps of a round are fewer, in proportion
MANY_PAIRS = 2_500_000  # the same for pairs within reach on maps without rows: about a CPU minute
PENALTY = 200.0  # of the squared share by which the expected distance is over its budget
BUDGET_SHARE = 0.97  # of the extra distance: a penalty is no wall, so it begins a little before the budget ends
REMEMBERED_STEPS = 10  # by L-BFGS; its matrices are then so small that BLAS uses one thread, whatever the machine has
START_PARTS = 1e9  # the start is rounded to such parts: what solved it rounds by the number of threads
MAX_LOG_WEIGHT = math.log(1000)  # weights stay within a thousandth and a thousand times the median


def find_fair_weights(
    places: Places,
    beta: Fraction,
    *,
    cells: Booleans,
    extra_distance: float,
    steps: int | None = None,
    progress: Progress | None = None,
) -> Integers:
    """Find weights with a small gap between the largest and the smallest posterior.

    The expected distance grows by a share of about `extra_distance` at most, compared with equal weights.

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=5, columns=5, cell_height_metres=100, cell_width_metres=100)
    >>> everywhere, beta = np.ones(25, dtype=bool), Fraction(1, 100)
    >>> fair = find_fair_weights(grid, beta, cells=everywhere, extra_distance=0.2)
    >>> laws = [Mechanism(places=grid, beta_per_metre=beta, weights=w) for w in (equal_weights(everywhere), fair)]
    >>> before, after = (measure_mechanism(law).gap for law in laws)
    >>> after < before / 5
    True
    """
    kernel = make_kernel(places, float(beta))
    kernel = replace(kernel, is_steady=True) if isinstance(kernel, DenseKernel) else kernel
    kernel = kernel.coarsen() if isinstance(kernel, NearbyKernel) else kernel  # any weights keep the promise
    equal = measure_mechanism(Mechanism(places=places, beta_per_metre=beta, weights=equal_weights(cells)))
    if not equal.expected_distance > 0:  # one cell, or every report is the true one: nothing to even out
        return equal_weights(cells)
    objective = FairnessObjective(
        kernel, cells, max_distance=_steady(equal.expected_distance) * (1 + BUDGET_SHARE * extra_distance)
    )
    log_weights = _choose_start(objective, kernel, cells)
    steps_per_round = steps if steps is not None else _count_steps(int(cells.sum()), kernel)
    for number, sharpness in enumerate(SHARPNESS, 1):
        objective.t = sharpness / _steady(float(np.nanmax(equal.posterior)))
        log_weights = _minimise(objective.value_and_gradient, log_weights, steps_per_round)
        if progress is not None:
            progress(number / len(SHARPNESS))
    weights = np.zeros(cells.size)
    weights[cells] = np.exp(log_weights)
    return quantise_weights(weights)


def _steady(value: float) -> float:
    """Round to 9 digits: the last bits of a measure depend on the number of threads."""
    return float(f"{value:.9g}")


def _count_steps(cells: int, kernel: Kernel) -> int:
    pairs = max(1, len(kernel.pairs.others)) if isinstance(kernel, NearbyKernel) else 1
    return max(MIN_STEPS, min(MAX_STEPS, MAX_STEPS * MANY_CELLS // cells, MAX_STEPS * MANY_PAIRS // pairs))


def _choose_start(objective: FairnessObjective, kernel: Kernel, cells: Booleans) -> Reals:
    """Take equal weights or those that make alpha level, whichever are fairer (on coasts often the latter)."""
    level = solve_level_weights(kernel, cells)[cells]
    level = np.log(np.maximum(level, 1e-3 * max(float(level.max()), 1e-9)))
    level = np.rint(level * START_PARTS) / START_PARTS
    equal = np.zeros_like(level)
    objective.t = 100.0
    return min((equal, level), key=lambda log_weights: objective.value_and_gradient(log_weights)[0])


def _minimise(objective: Callable[[Reals], tuple[float, Reals]], log_weights: Reals, steps: int) -> Reals:
    from scipy import optimize

    options = {"maxiter": steps, "maxcor": REMEMBERED_STEPS}
    start = np.clip(log_weights - np.median(log_weights), -MAX_LOG_WEIGHT, MAX_LOG_WEIGHT)
    bounds = optimize.Bounds(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT)
    result = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    minimum: Reals = result.x
    return minimum


@dataclass(slots=True)
class FairnessObjective:
    """What is minimised, with its gradient by logarithms of weights."""

    kernel: Kernel
    cells: Booleans
    max_distance: float  # expected, in metres
    t: float = 100.0

    def value_and_gradient(self, log_weights: Reals) -> tuple[float, Reals]:
        """Give the smoothed gap plus the penalty, and their gradient.

        S = E w, alpha = 1/S, T = E alpha, q = alpha/T;  dq/dw by the chain of these, E being symmetric.
        """
        cells = self.cells
        weights = np.zeros(cells.size)
        weights[cells] = np.exp(log_weights)
        sums, distance_sums = self.kernel.smooth_both(weights)
        alpha = np.where(cells, 1 / np.where(cells, np.maximum(sums, weights), 1.0), 0.0)
        alpha_sums = np.where(cells, np.maximum(self.kernel.smooth(alpha), alpha), 1.0)
        posterior = alpha / alpha_sums
        gap, gap_gradient = _smooth_gap(posterior[cells], self.t)
        by_posterior = np.zeros(cells.size)
        by_posterior[cells] = gap_gradient
        by_alpha = by_posterior / alpha_sums - self.kernel.smooth(by_posterior * posterior / alpha_sums)
        by_sums = np.where(cells, -alpha * alpha * by_alpha, 0.0)
        distance = alpha * distance_sums
        penalty, by_distance = self._penalise(float(distance[cells].mean()))
        by_distance /= float(cells.sum())
        by_weight = self.kernel.smooth(by_sums - by_distance * alpha * distance)
        if by_distance:
            by_weight += by_distance * self.kernel.smooth_distance(alpha)
        return gap + penalty, (weights * by_weight)[cells]

    def _penalise(self, distance: float) -> tuple[float, float]:
        """Give the penalty of an expected distance, and its derivative."""
        excess = max(0.0, distance / self.max_distance - 1)
        return PENALTY * excess * excess, 2 * PENALTY * excess / self.max_distance


def _smooth_gap(values: Reals, t: float) -> tuple[float, Reals]:
    """Give (1/t) (log mean exp(t q) + log mean exp(-t q)) and its gradient."""
    high, low = values.max(), values.min()
    up, down = np.exp(t * (values - high)), np.exp(t * (low - values))
    gap = (high + np.log(up.mean()) / t) - (low - np.log(down.mean()) / t)
    return float(gap), up / up.sum() - down / down.sum()
