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


# On maps of points the variance of squares around an even share is that of a Poisson number and about once the square
# of the share. Noise tells little of that where people are few, so it is believed as one estimate with this error.
# Chosen with `levels.FEW_BOUNDS`; between 0.5 and 1, with errors of 1 and 2, nothing changes by more than 2 %.
USUAL_CURVATURE, CURVATURE_ERROR, LEAST_CURVATURE = 1.0, 1.0, 0.05
KURTOSIS = 5.0  # of Laplace noise, less 1: the variance of its square in squares of its variance


def estimate_faint_spread(mean: Reals, square: Reals, variance: Reals) -> Reals:
    """Estimate how far children lie from an even split, as `estimate_spread`, where noise hides nearly all of it.

    The model is mean + c * mean^2. c is found by least squares on all children and joined with its usual value, each
    weighed by how well it is known.

    >>> estimate_faint_spread(np.full(16, 20.0), np.full(16, 6e3), np.full(16, 6e3)).round(-1).tolist()[:2]
    [410.0, 410.0]
    """
    weight = 1 / (variance + mean) ** 2
    told = float((weight * mean**4).sum())
    if not told:
        return mean
    curvature = float((weight * mean**2 * (square - variance - mean)).sum()) / told
    surer = told / KURTOSIS * CURVATURE_ERROR**2
    joined = max((surer * curvature + USUAL_CURVATURE) / (surer + 1), LEAST_CURVATURE)
    return mean + joined * mean**2


# --- the posterior mean of every value ------------------------------------------------------------------------------

GRID_STEP = 0.5  # of the prior, in standard deviations of the noise
LARGEST_SHRUNK = 24.0  # standard deviations of the noise: larger values are kept as they are
EM_ROUNDS = 80  # in which the prior is learned
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
    # not `joint @ grid`: a matrix product adds up in an order that depends on the processor and its threads
    means[is_near] = ((joint * grid).sum(axis=1) / joint.sum(axis=1))[positions]
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


# --- the totals of groups of cells, from every cell instead of their sum ----------------------------------------------

TOTAL_STEP = 0.25  # of the grid of totals, in standard deviations of the noise of a sum
LARGEST_GUESSED = 12.0  # standard deviations of the noise of a sum: larger totals are kept as they are
FEW_ROUNDS = 3  # of EM: more make the prior of some hundred groups lumpy (chosen on papers/terada2017, p = 1,000)
STEPS_PER_DEVIATION = 6  # cells are rounded to this part of the deviation of their noise
LEAST_NOISE = 0.05  # variance: below it 19 of 20 cells are exact, and their sums are kept
LEAST_DENSITY = 1e-14  # what the transform resolves
LEAST_WEIGHT = 0.1  # of a cell in its group, as a share of the even one


def estimate_group_totals(cells: Reals, *, variance: float, is_gaussian: bool = False) -> tuple[Reals, Reals]:
    """Estimate the totals of groups (rows) from their noisy cells: under a flat prior, and under a learned one.

    With noise that is not Gaussian the sum of the cells is not all they say of the total: if cells of a group are
    alike, the middle of them has half the variance of their mean. So the likelihood of a total is that of all cells,
    each negative binomial about its share of the total, plus noise. The flat prior gives hardly any bias, the learned
    one (a few rounds of EM) less variance. Totals far above the noise are kept.

    Source: Robbins 1956; the negative binomial as Poisson counts of uneven groups.

    >>> flat, learned = estimate_group_totals(np.array([[3.0, 5.0], [40.0, 44.0]]), variance=2.0)
    >>> round(float(flat[1]))
    84
    """
    deviation = float(np.sqrt(variance))
    sums = cells.sum(axis=1)
    is_near = sums < LARGEST_GUESSED * deviation * np.sqrt(cells.shape[1])
    flat, learned = sums.astype(np.float64), sums.astype(np.float64)
    if variance < LEAST_NOISE or not is_near.any():
        return flat, learned
    grid = np.arange(0.0, LARGEST_GUESSED, TOTAL_STEP) * deviation * np.sqrt(cells.shape[1])
    shares = _share_columns(cells, variance)
    spread = _fit_dispersion(cells, shares, variance)
    likelihood = _weigh_totals(cells[is_near], grid, shares, spread, deviation, is_gaussian=is_gaussian)
    prior = np.full(grid.size, 1.0 / grid.size)
    flat[is_near] = (likelihood * grid).sum(axis=1) / likelihood.sum(axis=1)
    for _ in range(FEW_ROUNDS):
        joint = likelihood * prior
        prior = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    joint = likelihood * prior
    learned[is_near] = (joint * grid).sum(axis=1) / joint.sum(axis=1)
    return flat, learned


def _share_columns(cells: Reals, variance: float) -> Reals:
    """Estimate which share of a group each of its cells has: even, as far as noise explains the columns."""
    groups, columns = cells.shape
    sums = cells.sum(axis=0)
    spread, total = float(sums.var(ddof=1)), max(float(sums.sum()), 1.0)
    trust = max(0.0, 1.0 - groups * variance / spread) if spread > 0 else 0.0
    shares = np.maximum(1.0 / columns + trust * (sums / total - 1.0 / columns), LEAST_WEIGHT / columns)
    return np.asarray(shares / shares.sum())


def _fit_dispersion(cells: Reals, shares: Reals, variance: float) -> float:
    """Fit c of the variance m + c m^2 of a cell with mean m, from squares about the shares of noisy sums."""
    columns = cells.shape[1]
    mean = cells.sum(axis=1)[:, None] * shares
    noise = variance * (1 - 2 * shares + columns * shares**2)
    surplus = float(((cells - mean) ** 2 - noise - np.maximum(mean, 0.0)).sum())
    square = float(((cells.sum(axis=1) ** 2 - columns * variance)[:, None] * shares**2).sum())
    return max(0.0, surplus / square) if square > 0 else 0.0


def _weigh_totals(
    cells: Reals, grid: Reals, shares: Reals, spread: float, deviation: float, *, is_gaussian: bool
) -> Reals:
    """Give the likelihood of every total of the grid for every group, the largest of a group being 1."""
    step = max(1.0, np.floor(deviation / STEPS_PER_DEVIATION))
    reach = max(np.abs(cells).max() + 10 * step, 2 * grid[-1] * shares.max() + 15 * deviation)
    points = 1 << int(np.ceil(np.log2(2 * reach / step)))
    noise = _transform_noise(points, step, deviation, is_gaussian=is_gaussian)
    logs = np.zeros((len(cells), grid.size))
    for share in np.unique(shares):
        known = np.log(np.maximum(_tabulate_cells(grid * share, spread, noise, step), LEAST_DENSITY))
        for column in np.flatnonzero(shares == share):
            logs += known[:, np.rint(cells[:, column] / step).astype(np.int64) % points].T
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def _transform_noise(points: int, step: float, deviation: float, *, is_gaussian: bool) -> Reals:
    """Transform the law of the noise at multiples of a step, wrapped around."""
    distance = np.abs(np.fft.fftfreq(points, d=1.0 / points)) * step / deviation
    if is_gaussian:
        weights = np.exp(-(distance**2) / 2)
    else:  # two-sided geometric: variance 2a/(1-a)^2 of a law a^|z|
        ratio = 1 + 1 / deviation**2 - np.sqrt((1 + 1 / deviation**2) ** 2 - 1)
        weights = np.exp(distance * deviation * np.log(ratio))
    return np.fft.rfft(weights / weights.sum()).real


def _tabulate_cells(means: Reals, spread: float, noise: Reals, step: float) -> Reals:
    """Tabulate the density of a negative binomial cell plus noise, a row for each mean, values wrapped around."""
    points = 2 * (noise.size - 1)
    turn = np.exp(-2j * np.pi * np.fft.rfftfreq(points, d=step)) - 1
    means = means[:, None]
    over = np.maximum(spread * means, 1e-9)  # variance m (1 + over): a Poisson cell has none
    return np.asarray(np.fft.irfft(np.exp(-means / over * np.log1p(-over * turn)) * noise, n=points, axis=1))
