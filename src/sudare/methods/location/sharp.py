"""Less noise at the same epsilon: weights under which alpha is the same everywhere.

If E w = 1 at every cell where people can be, log alpha has no slope and the mechanism needs epsilon = beta only, half
of what the triangle inequality alone promises. So beta may be epsilon instead of epsilon/2. E is positive definite on
the plane, so w = E^-1 1 exists; conjugate gradients with FFT find it without a matrix.

When cells are small beside 1/epsilon some of these weights would be negative. Then weights of at least 0 come as near
to it as possible (a quadratic programme), and beta is lowered until the certificate holds; if plain GridE with its
own certificate does better, it is taken. Source: ElSalamouny, Chatzikokolakis, Palamidessi 2014 ("tight constraints").
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.methods.location.grid import Places
from sudare.methods.location.kernel import ConvolutionKernel, DenseKernel, Kernel, kernel_of
from sudare.methods.location.mechanism import Mechanism, quantised, uniform
from sudare.methods.location.posterior import evaluate
from sudare.methods.location.tight import tight_epsilon
from sudare.schema.arrays import Booleans, Reals

STEPS = 400
RESIDUAL = 1e-11
TRIES, ROUNDS = 30, 20
NEAR = Fraction(1, 10**4)  # of epsilon: what may be left when beta is calibrated
GRAIN = 10**15  # beta is a multiple of 1e-15 per metre
LEAST = 2.0**-39  # of the largest: a cell where people can be is always reportable


def sharp_mechanism(places: Places, epsilon: Fraction, *, cells: Booleans) -> Mechanism:
    """Find the mechanism with the least expected distance that we know of at a certified epsilon.

    Guarantee: epsilon per metre, by the certificate of tight.py (checked for the integers that are drawn).

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> found = sharp_mechanism(grid, Fraction(1, 50), cells=np.ones(225, dtype=bool))
    >>> round(evaluate(found).expected_distance, 1), tight_epsilon(found).epsilon <= 0.02
    (46.9, True)
    """
    weights = level_weights(kernel_of(places, float(epsilon)), cells)
    if weights[cells].min() > 0:
        return calibrated(places, epsilon, quantised(weights), start=epsilon)
    plain = calibrated(places, epsilon, uniform(cells))
    found = _nearly_level(places, epsilon, cells, start=plain.beta_per_metre)
    return min((plain, found), key=lambda one: evaluate(one).expected_distance)


def level_weights(kernel: Kernel, cells: Booleans) -> Reals:
    """Solve E w = 1 on the cells, w = 0 elsewhere; some weights may be negative."""
    if isinstance(kernel, DenseKernel):
        weights = np.zeros(cells.size)
        with contextlib.suppress(np.linalg.LinAlgError):  # a metric that is not Euclidean may have no such weights
            weights[cells] = np.linalg.solve(kernel.near[np.ix_(cells, cells)], np.ones(int(cells.sum())))
        return weights
    return _conjugate_gradients(kernel, cells.astype(np.float64))


def calibrated(
    places: Places, epsilon: Fraction, weights: NDArray[np.int64], *, start: Fraction | None = None
) -> Mechanism:
    """Raise beta until these weights need just epsilon: same epsilon, less noise.

    At beta = epsilon/2 any weights hold, by the triangle inequality.
    """
    low, high = epsilon / 2, start if start is not None else epsilon
    tried = Mechanism(places=places, beta_per_metre=high, weights=weights)
    for _ in range(TRIES):
        needed = tight_epsilon(tried).epsilon
        if needed <= float(epsilon):
            low = tried.beta_per_metre
            if needed >= (1 - NEAR) * float(epsilon) or low == high:
                return tried
        else:
            high = tried.beta_per_metre
        tried = Mechanism(
            places=places, beta_per_metre=_next(low, high, tried, needed / float(epsilon)), weights=weights
        )
    return replace(tried, beta_per_metre=low, _kernel=[])


def _next(low: Fraction, high: Fraction, tried: Mechanism, ratio: float) -> Fraction:
    """The beta to try next: as if the need grew like beta, a little on the safe side, but inside what is known."""
    aimed = tried.beta_per_metre / _exact(ratio) * (1 - NEAR / 4 if ratio > 1 + NEAR else 1 - Fraction(1, 10**9))
    if ratio > 1 and ratio - 1 < NEAR:  # the slope is rounding or nearly so: step back by a little more than the excess
        aimed = tried.beta_per_metre * (1 - 2 * _exact(ratio - 1))
    middle = (low + high) / 2
    return max(low, _grained(aimed if low < aimed < high else middle))


def _nearly_level(places: Places, epsilon: Fraction, cells: Booleans, *, start: Fraction) -> Mechanism:
    """Weights of at least 0 for a beta that the certificate allows, found in a few rounds."""
    beta, best = start, None
    for _ in range(4):
        weights = nearly_level_weights(places, float(beta), cells)
        found = calibrated(places, epsilon, quantised(weights))
        if best is not None and found.beta_per_metre <= best.beta_per_metre * Fraction(1001, 1000):
            break
        best, beta = found, found.beta_per_metre
    if best is None:
        raise AssertionError  # the first round always finds one
    return best


def nearly_level_weights(places: Places, beta: float, cells: Booleans) -> Reals:
    """Minimise w'Ew/2 - 1'w over weights of at least 0; no cell is left without a trace of weight.

    Where the answer is above 0, E w = 1 as for level weights. Cells whose weight would be negative are left out and the
    rest is solved anew, until none is negative: a few rounds on large maps.
    """
    kernel, kept = kernel_of(places, beta), cells.copy()
    weights = level_weights(kernel, kept)
    for _ in range(ROUNDS):
        negative = kept & (weights <= 0)
        if not negative.any() or bool(negative[kept].all()):
            break
        kept &= ~negative
        weights = level_weights(kernel, kept)
    weights = np.maximum(weights, 0.0)
    if not weights.any():
        weights = cells.astype(np.float64)
    return np.where(cells, np.maximum(weights, LEAST * weights.max()), 0.0)


def _conjugate_gradients(kernel: Kernel, inside: Reals) -> Reals:
    """Solve on the cells inside, from the solution of a map without edges."""
    improve = _improver(kernel, inside)
    weights = inside / max(1.0, float(kernel.smooth(inside).max()))
    rest = inside * (1.0 - kernel.smooth(weights))
    better = improve(rest)
    direction, product = better.copy(), float(rest @ better)
    target = RESIDUAL * np.sqrt(inside.sum())
    for _ in range(STEPS):
        if np.linalg.norm(rest) <= target:
            break
        image = inside * kernel.smooth(direction)
        step = product / float(direction @ image)
        weights += step * direction
        rest -= step * image
        better = improve(rest)
        product, before = float(rest @ better), product
        direction = better + (product / before) * direction
    return weights


class _improver:  # noqa: N801  (a function with a spectrum)
    """The inverse of E on a torus of the map's size: nearly the inverse inside, and symmetric positive definite."""

    def __init__(self, kernel: Kernel, inside: Reals) -> None:
        from scipy import fft

        if not isinstance(kernel, ConvolutionKernel):
            raise AssertionError  # dense maps are solved directly
        self.shape, self.inside = kernel.shape, inside
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
        back: Reals = fft.irfft2(spectrum, self.shape, workers=-1).reshape(-1)
        return self.inside * back


def _exact(value: float) -> Fraction:
    return Fraction(np.format_float_scientific(value, precision=6))


def _grained(value: Fraction) -> Fraction:
    return Fraction(int(value * GRAIN), GRAIN)
