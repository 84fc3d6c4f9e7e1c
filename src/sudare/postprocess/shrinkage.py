"""Pulling noisy numbers towards what their neighbours say: empirical Bayes on numbers that are already public."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sudare.schema.arrays import Integers, Reals

# --- how far children lie from an even split ------------------------------------------------------------------------

LEAST_MEAN = 2.0**-10  # records: smaller expected children share one bin
PSEUDO_COUNT = 20.0  # squares a bin needs to be believed as much as the model fitted to all bins


def estimate_spread(mean: Reals, square: Reals, variance: Reals) -> Reals:
    """Estimate how far children lie from an even split, A, as a function of the expected child.

    `square` is an unbiased estimate of A + variance per child. It is averaged over children with about the same mean
    (bins of log2); thin bins are pulled to the model A = mean + c * mean^2: a Poisson part and a real one.
    """
    bins = np.floor(np.log2(np.maximum(mean, LEAST_MEAN))).astype(np.int64)
    bins -= bins.min()
    size = np.bincount(bins)
    filled = np.maximum(size, 1)
    centre = np.bincount(bins, mean) / filled
    raw = np.bincount(bins, square - variance) / filled
    noise = np.bincount(bins, variance) / filled
    weight = size / np.maximum((noise + centre) ** 2, LEAST_MEAN**2)
    model = centre + _fit_curvature(centre, raw, weight) * centre**2
    trust = size / (size + PSEUDO_COUNT)
    return np.maximum(trust * raw + (1 - trust) * model, 0.0)[bins]


def _fit_curvature(centre: Reals, raw: Reals, weight: Reals) -> float:
    """Fit raw - centre to c * centre^2 by weighted least squares, c at least 0."""
    below = float((weight * centre**4).sum())
    return max(float((weight * centre**2 * (raw - centre)).sum()) / below, 0.0) if below > 0 else 0.0


# --- the posterior mean of every value ------------------------------------------------------------------------------

GRID_STEP = 0.5  # of the prior, in standard deviations of the noise
LARGEST_SHRUNK = 24.0  # standard deviations of the noise: larger values are kept as they are
EM_ROUNDS = 80
VALUES_PER_STEP = 8  # values are rounded to this part of a grid step
DENSITY_POINTS = 2**13  # at which the density of the noise is tabulated


def estimate_posterior_means(noisy: Reals, *, scale: float, terms: int, is_gaussian: bool = False) -> Reals:
    """Give the posterior mean of every value under the prior that best explains all of them (NPMLE by EM on a grid).

    For long rows without order, where a few large values stand among many small ones and one linear factor serves
    neither. A value's noise is the sum of `terms` Laplace values of the scale, or Gaussian ones of the same deviation.
    Values far above the noise are kept.

    Source: Robbins 1956; Kiefer and Wolfowitz 1956; Jiang and Zhang 2009.

    >>> float(estimate_posterior_means(np.array([0.0] * 50 + [400.0]), scale=1.0, terms=1)[-1])
    400.0
    """
    deviation = scale * np.sqrt(2.0 * terms)
    is_near = noisy < LARGEST_SHRUNK * deviation
    if not is_near.any():
        return noisy
    step = GRID_STEP * deviation
    grid = np.arange(0.0, LARGEST_SHRUNK * deviation, step)
    cells, positions, sizes = np.unique(
        np.round(noisy[is_near] / (step / VALUES_PER_STEP)).astype(np.int64), return_inverse=True, return_counts=True
    )
    likelihood = _tabulate_density(scale, terms, step / VALUES_PER_STEP, is_gaussian=is_gaussian)(
        cells[:, None] - VALUES_PER_STEP * np.arange(grid.size)
    )
    prior = np.full(grid.size, 1.0 / grid.size)
    for _ in range(EM_ROUNDS):
        joint = likelihood * prior
        prior = (sizes[:, None] * joint / joint.sum(axis=1, keepdims=True)).sum(axis=0) / sizes.sum()
    joint = likelihood * prior
    means = noisy.astype(np.float64)
    means[is_near] = ((joint @ grid) / joint.sum(axis=1))[positions]
    return means


def _tabulate_density(scale: float, terms: int, step: float, *, is_gaussian: bool) -> Callable[[Integers], Reals]:
    """Tabulate the density of a sum of noise values at multiples of a step, from its characteristic function."""
    frequency = 2 * np.pi * np.fft.rfftfreq(DENSITY_POINTS, d=step)
    square = (scale * frequency) ** 2
    spectrum = np.exp(-terms * square) if is_gaussian else (1 + square) ** -float(terms)
    values = np.fft.irfft(spectrum, n=DENSITY_POINTS)
    floor = float(values.max()) * 1e-12  # beyond what the transform resolves
    known = np.maximum(values[: DENSITY_POINTS // 2], floor)
    return lambda multiple: known[np.minimum(np.abs(multiple), DENSITY_POINTS // 2 - 1)]
