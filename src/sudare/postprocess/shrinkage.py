"""Pulling noisy numbers towards what their neighbours say: empirical Bayes on numbers that are already public."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sudare.schema.arrays import Reals

LEAST_MEAN = 2.0**-10
PSEUDO_COUNT = 20.0  # squares a bin needs to be believed as much as the model fitted to all bins
GRID_STEP = 0.5  # in standard deviations of the noise
NEAR = 24.0  # beyond so many standard deviations a value is not pulled
ROUNDS = 80
FINER = 8  # values are rounded to this part of a grid step
POINTS = 2**13


def spread(mean: Reals, square: Reals, variance: Reals) -> Reals:
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
    model = centre + _curvature(centre, raw, weight) * centre**2
    trust = size / (size + PSEUDO_COUNT)
    return np.maximum(trust * raw + (1 - trust) * model, 0.0)[bins]


def _curvature(centre: Reals, raw: Reals, weight: Reals) -> float:
    """Weighted least squares of raw - centre on centre^2, at least 0."""
    below = float((weight * centre**4).sum())
    return max(float((weight * centre**2 * (raw - centre)).sum()) / below, 0.0) if below > 0 else 0.0


def posterior_mean(noisy: Reals, *, scale: float, terms: int) -> Reals:
    """Give the posterior mean of every value under the prior that best explains all of them (NPMLE by EM on a grid).

    For long rows without order, where a few large values stand among many small ones and one linear factor serves
    neither. A value's noise is the sum of `terms` Laplace values of the scale. Values far above the noise are kept.

    Source: Robbins 1956; Kiefer and Wolfowitz 1956; Jiang and Zhang 2009.

    >>> float(posterior_mean(np.array([0.0] * 50 + [400.0]), scale=1.0, terms=1)[-1])
    400.0
    """
    deviation = scale * np.sqrt(2.0 * terms)
    near = noisy < NEAR * deviation
    if not near.any():
        return noisy
    step = GRID_STEP * deviation
    grid = np.arange(0.0, NEAR * deviation, step)
    cells, places, size = np.unique(
        np.round(noisy[near] / (step / FINER)).astype(np.int64), return_inverse=True, return_counts=True
    )
    likelihood = _density(scale, terms, step / FINER)(cells[:, None] - FINER * np.arange(grid.size))
    prior = np.full(grid.size, 1.0 / grid.size)
    for _ in range(ROUNDS):
        joint = likelihood * prior
        prior = (size[:, None] * joint / joint.sum(axis=1, keepdims=True)).sum(axis=0) / size.sum()
    joint = likelihood * prior
    means = noisy.astype(np.float64)
    means[near] = ((joint @ grid) / joint.sum(axis=1))[places]
    return means


def _density(scale: float, terms: int, step: float) -> Callable[[NDArray[np.int64]], Reals]:
    """The density of a sum of Laplace values at multiples of a step, from its characteristic function."""
    frequency = 2 * np.pi * np.fft.rfftfreq(POINTS, d=step)
    values = np.fft.irfft((1 + (scale * frequency) ** 2) ** -float(terms), n=POINTS)
    floor = float(values.max()) * 1e-12  # beyond what the transform resolves
    known = np.maximum(values[: POINTS // 2], floor)
    return lambda place: known[np.minimum(np.abs(place), POINTS // 2 - 1)]
