"""Less noise at the same epsilon: weights under which alpha is the same everywhere.

If E w = 1 at every cell where people can be, log alpha has no slope and the mechanism needs epsilon = beta only, half
of what the triangle inequality alone promises. So beta may be epsilon instead of epsilon/2. E is positive definite on
the plane, so w = E^-1 1 exists; conjugate gradients with FFT find it without a matrix.

When cells are small beside 1/epsilon some of these weights would be negative. Then weights of at least 0 come as near
to it as possible (a quadratic programme), and beta is lowered until the certificate holds; if GridE with its own
certificate does better, it is taken. Source: ElSalamouny, Chatzikokolakis, Palamidessi 2014 ("tight constraints").
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sudare.methods.location.grid import Places
from sudare.methods.location.kernel import ConvolutionKernel, DenseKernel, Kernel, make_kernel
from sudare.methods.location.mechanism import Mechanism, equal_weights, quantise_weights
from sudare.methods.location.nearby import NearbyKernel
from sudare.methods.location.posterior import measure_mechanism
from sudare.methods.location.tight import certify_epsilon
from sudare.schema.arrays import Booleans, Integers, Reals


def build_sharp_mechanism(places: Places, epsilon: Fraction, *, cells: Booleans) -> Mechanism:
    """Find the mechanism with the least expected distance that we know of at a certified epsilon.

    Guarantee: epsilon per metre, by the certificate of tight.py (checked for the integers that are drawn).

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> sharp = build_sharp_mechanism(grid, Fraction(1, 50), cells=np.ones(225, dtype=bool))
    >>> round(measure_mechanism(sharp).expected_distance, 1), certify_epsilon(sharp).epsilon <= 0.02
    (46.9, True)
    """
    weights = solve_level_weights(make_kernel(places, float(epsilon)), cells)
    if weights[cells].min() > 0:
        return calibrate_beta(places, epsilon, quantise_weights(weights), start=epsilon)
    equal = calibrate_beta(places, epsilon, equal_weights(cells))
    nearly_level = _build_nearly_level(places, epsilon, cells, start=equal.beta_per_metre)
    return min((equal, nearly_level), key=lambda mechanism: measure_mechanism(mechanism).expected_distance)


# --- beta for given weights -------------------------------------------------------------------------------------------

MAX_TRIES = 30  # of beta
CALIBRATED = Fraction(1, 10**4)  # share of epsilon that may be left unused when beta is calibrated
BETA_STEPS = 10**15  # beta is a multiple of 1e-15 per metre


def calibrate_beta(
    places: Places,
    epsilon: Fraction,
    weights: Integers,
    *,
    start: Fraction | None = None,
    inputs: Booleans | None = None,
) -> Mechanism:
    """Raise beta until these weights need just epsilon: same epsilon, less noise.

    At beta = epsilon/2 any weights hold, by the triangle inequality. `inputs`: where people can be, if that is also
    where nothing is reported.
    """
    low, high = epsilon / 2, start if start is not None else epsilon
    tried = Mechanism(places=places, beta_per_metre=high, weights=weights, inputs=inputs)
    for _ in range(MAX_TRIES):
        needed = certify_epsilon(tried).epsilon
        if needed <= float(epsilon):
            low = tried.beta_per_metre
            if needed >= (1 - CALIBRATED) * float(epsilon) or low == high:
                return tried
        else:
            high = tried.beta_per_metre
        beta = _choose_next_beta(low, high, tried, needed / float(epsilon))
        tried = Mechanism(places=places, beta_per_metre=beta, weights=weights, inputs=inputs)
    return replace(tried, beta_per_metre=low, _kernel=[])


def _choose_next_beta(low: Fraction, high: Fraction, tried: Mechanism, ratio: float) -> Fraction:
    """Choose the beta to try next; `ratio` is the epsilon that was needed over the one that is allowed.

    It is chosen as if the need grew like beta, a little on the safe side, between what is known to hold and to fail.
    """
    margin = CALIBRATED / 4 if ratio > 1 + CALIBRATED else Fraction(1, 10**9)
    aimed = tried.beta_per_metre / _to_fraction(ratio) * (1 - margin)
    if ratio > 1 and ratio - 1 < CALIBRATED:  # nearly there, or rounding: step back by a little more than the excess
        aimed = tried.beta_per_metre * (1 - 2 * _to_fraction(ratio - 1))
    middle = (low + high) / 2
    return max(low, round_down(aimed if low < aimed < high else middle))


def _to_fraction(value: float) -> Fraction:
    return Fraction(np.format_float_scientific(value, precision=6))


def round_down(value: Fraction) -> Fraction:
    """Round beta down to a multiple of 1e-15 per metre."""
    return Fraction(int(value * BETA_STEPS), BETA_STEPS)


# --- weights that make alpha level ------------------------------------------------------------------------------------

MAX_LEVEL_ROUNDS = 4  # of weights for a beta and beta for these weights
MAX_REMOVALS = 20  # rounds of leaving out cells whose weight would be negative
MIN_WEIGHT = 2.0**-39  # of the largest weight: a cell where people can be is always reportable
MAX_GRADIENT_STEPS = 400  # of conjugate gradients
MAX_NEARBY_REMOVALS = 5  # of such rounds on a large map without rows and columns
MAX_NEARBY_STEPS = 120  # of conjugate gradients on a large map without rows and columns
MAX_RESIDUAL = 1e-11  # root mean square of E w - 1 at which they stop
# from so many cells on weights that are calibrated anyway are solved to this only, each from those before: at .004 per
# metre and 100 m the certificate of a million cells is the same in 6 digits
MANY_CELLS, MANY_RESIDUAL = 50_000, 1e-7


def solve_level_weights(kernel: Kernel, cells: Booleans, *, start: Reals | None = None) -> Reals:
    """Solve E w = 1 on the cells, w = 0 elsewhere; some weights may be negative.

    `start`: weights that are nearly level, from which many cells are solved, less exactly.
    """
    if isinstance(kernel, DenseKernel):
        weights = np.zeros(cells.size)
        with contextlib.suppress(np.linalg.LinAlgError):  # a metric that is not Euclidean may have no such weights
            weights[cells] = np.linalg.solve(kernel.decay[np.ix_(cells, cells)], np.ones(int(cells.sum())))
        return weights
    steps = MAX_NEARBY_STEPS if isinstance(kernel, NearbyKernel) else MAX_GRADIENT_STEPS
    is_rough = start is not None and len(cells) >= MANY_CELLS
    return _conjugate_gradients(kernel, cells.astype(np.float64), steps, start if is_rough else None)


def _build_nearly_level(places: Places, epsilon: Fraction, cells: Booleans, *, start: Fraction) -> Mechanism:
    """Find weights of at least 0 for a beta that the certificate allows, in a few rounds."""
    beta, best, weights = start, None, None
    is_large = isinstance(make_kernel(places, float(beta)), NearbyKernel)
    for _ in range(1 if is_large else MAX_LEVEL_ROUNDS):
        weights = solve_nearly_level_weights(places, float(beta), cells, start=weights)
        calibrated = calibrate_beta(places, epsilon, quantise_weights(weights))
        if best is not None and calibrated.beta_per_metre <= best.beta_per_metre * Fraction(1001, 1000):
            break
        best, beta = calibrated, calibrated.beta_per_metre
    if best is None:
        raise AssertionError  # the first round always finds one
    return best


def solve_nearly_level_weights(places: Places, beta: float, cells: Booleans, *, start: Reals | None = None) -> Reals:
    """Minimise w'Ew/2 - 1'w over weights of at least 0; no cell is left without a trace of weight.

    Where the answer is above 0, E w = 1 as for level weights. Cells whose weight would be negative are left out and the
    rest is solved anew, until none is negative: a few rounds on large maps.
    """
    kernel, kept = make_kernel(places, beta), cells.copy()
    weights = solve_level_weights(kernel, kept, start=cells.astype(np.float64) if start is None else start)
    for _ in range(MAX_NEARBY_REMOVALS if isinstance(kernel, NearbyKernel) else MAX_REMOVALS):
        negative = kept & (weights <= 0)
        if not negative.any() or bool(negative[kept].all()):
            break
        kept &= ~negative
        weights = solve_level_weights(kernel, kept, start=weights)
    weights = np.maximum(weights, 0.0)
    if not weights.any():
        weights = cells.astype(np.float64)
    return np.where(cells, np.maximum(weights, MIN_WEIGHT * weights.max()), 0.0)


def _conjugate_gradients(kernel: Kernel, cells: Reals, steps: int, start: Reals | None = None) -> Reals:
    """Solve E w = 1 on the cells (1, elsewhere 0), from the solution of a map without edges.

    E of a metric that is not Euclidean may have no solution; the certificate then decides what the weights are worth.
    """
    precondition = _Preconditioner(kernel, cells) if isinstance(kernel, ConvolutionKernel) else cells.__mul__
    even = cells if start is None else cells * np.maximum(start, 0.0)
    weights = even / max(1.0, float(kernel.smooth(even).max()))
    residual = cells * (1.0 - kernel.smooth(weights))
    conditioned = precondition(residual)
    direction, product = conditioned.copy(), float(residual @ conditioned)
    target = (MAX_RESIDUAL if start is None else MANY_RESIDUAL) * np.sqrt(cells.sum())
    for _ in range(steps):
        if np.linalg.norm(residual) <= target:
            break
        image = cells * kernel.smooth(direction)
        if not float(direction @ image) > 0:
            break
        step = product / float(direction @ image)
        weights += step * direction
        residual -= step * image
        conditioned = precondition(residual)
        product, before = float(residual @ conditioned), product
        direction = conditioned + (product / before) * direction
    return weights


class _Preconditioner:
    """The inverse of E on a torus of the map's size: nearly the inverse on the map, and symmetric positive definite."""

    def __init__(self, kernel: Kernel, cells: Reals) -> None:
        from scipy import fft

        if not isinstance(kernel, ConvolutionKernel):
            raise AssertionError  # dense maps are solved directly
        self.shape, self.cells = kernel.shape, cells
        point = np.zeros(kernel.shape[0] * kernel.shape[1])
        middle = (kernel.shape[0] // 2) * kernel.shape[1] + kernel.shape[1] // 2
        point[middle] = 1.0
        around = np.roll(
            kernel.smooth(point).reshape(kernel.shape), (-(kernel.shape[0] // 2), -(kernel.shape[1] // 2)), (0, 1)
        )
        spectrum = np.abs(fft.rfft2(around, workers=-1))
        self.inverse = 1.0 / np.maximum(spectrum, 1e-12 * spectrum.max())

    def __call__(self, values: Reals) -> Reals:
        from scipy import fft

        spectrum = self.inverse * fft.rfft2(values.reshape(self.shape), workers=-1)
        solved: Reals = fft.irfft2(spectrum, self.shape, workers=-1).reshape(-1)
        return self.cells * solved
