"""What the surroundings of a cell tell of it: an expectation without its own noise, and the mean given both.

A cell of a map is like its neighbours more often than not. With m the expectation from the surroundings, x/m is taken
as a draw from a mixture of points on a log scale and 0, fitted to the noisy cells themselves, in classes of like m
(empirical Bayes: Robbins 1956). Everything here is made of published numbers.

The mean is moved by at most six deviations from the measurement (limited translation: Efron, Morris 1971), so that a
cell that is unlike all others keeps most of its figure. Noise alone goes so far in one of 10,000 cells. With two
deviations (one of 34) or four (one of 600) its tails were much of the error on real maps where cells hold one or two
people.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.schema.arrays import Booleans, Codes, Integers, Reals

RATIOS: Reals = np.concatenate([[0.0], np.geomspace(0.05, 30, 18)])  # of a cell to its expectation
HALF_STEP = 0.5 * math.log(float(RATIOS[2] / RATIOS[1]))
CLASSES, LEAST_IN_CLASS = 10, 200  # of like expectations, and cells that one needs
ROUNDS = 25  # of expectation and maximisation
MOST_FITTED = 20_000  # cells that the mixture and the weights of neighbours are fitted to
NODES = 5  # expectations of a class at which the mean is worked out; between them it is interpolated
STEPS, REACH = 240, 8.0  # of the noisy figure, and deviations below 0 from which on nothing changes
BLOCK = 2**15  # cells that are worked out at once
MOST_MOVED = 6.0  # deviations
LEAST_BASE = 0.1  # of the share by area that an expectation keeps at least
WEIGHT_CLASSES, LEAST_WEIGHED = 6, 300


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """Means and variances of cells given their noisy figures and their expectations, and before these figures."""

    mean: Reals
    variance: Reals
    prior_mean: Reals
    prior_variance: Reals


def combine(noisy: Reals, expectation: Reals, *, variance: float, is_normal: bool) -> Posterior:
    """Combine noisy cells with their expectations. `is_normal` tells the law of the noise: normal, or Laplace."""
    mean, spread, prior_mean, prior_spread = np.zeros((4, noisy.size))
    active = np.flatnonzero(expectation > 1e-6)
    if active.size:
        y, m = noisy[active], expectation[active]
        edges = _class_edges(m)
        number = np.searchsorted(edges[1:-1], m, side="right")
        members = _list_members(number, len(edges) - 1)
        weights = [_fit_mixture(y[chosen], m[chosen], variance, is_normal) for chosen in members]
        found = _read_means(y, m, number, edges, weights, variance, is_normal)
        mean[active], spread[active] = np.maximum(found.real, 0.0), np.maximum(found.imag, 0.0)
        ratio, ratio_spread = _find_moments(weights)
        prior_mean[active], prior_spread[active] = m * ratio[number], m * m * ratio_spread[number]
    deviation = math.sqrt(variance)
    limit = MOST_MOVED * deviation
    return Posterior(
        mean=np.clip(mean, np.maximum(noisy - limit, 0.0), np.maximum(noisy + limit, 0.0)),
        variance=np.maximum(spread, np.where(noisy > 4 * deviation, 0.25 * variance, 0.0)),
        prior_mean=prior_mean,
        prior_variance=prior_spread,
    )


def _read_means(
    y: Reals, m: Reals, number: Codes, edges: Reals, weights: list[Reals], variance: float, is_normal: bool
) -> NDArray[np.complex128]:
    """Means and variances of cells, as one complex number each, read from tables of their classes."""
    deviation = math.sqrt(variance)
    top = math.asinh(max(float(y.max()) / deviation, 1.0)) * 1.0001
    bottom = -math.asinh(REACH)
    heights = deviation * np.sinh(np.linspace(bottom, top, STEPS))
    tables = _tabulate(edges, heights, weights, variance, is_normal)
    both = tables[0].ravel() + 1j * tables[1].ravel()  # mean and variance in one number are read at once
    found = np.empty(y.size, dtype=np.complex128)
    for start in range(0, y.size, BLOCK):  # in blocks that stay in the cache
        block = slice(start, start + BLOCK)
        level = np.clip((np.arcsinh(y[block] / deviation) - bottom) / (top - bottom) * (STEPS - 1), 0, STEPS - 1.000001)
        found[block] = _interpolate(both, *_split(number[block], m[block], edges), level)
    return found


def _list_members(number: Codes, classes: int) -> list[Codes]:
    """List the cells that the mixture of every class is fitted to: all of it, or some where it is large."""
    ordered = np.argsort(number.astype(np.uint8), kind="stable")  # CLASSES are few: bytes are sorted by counting
    starts = np.searchsorted(number[ordered], np.arange(classes + 1))
    members = [ordered[low:high] for low, high in itertools.pairwise(starts.tolist())]
    return [chosen[:: max(1, chosen.size * classes // MOST_FITTED)] for chosen in members]


def _find_moments(weights: list[Reals]) -> tuple[Reals, Reals]:
    """Mean and variance of the ratio of a cell to its expectation, by class."""
    shares = np.array([each / each.sum() for each in weights])
    mean = (shares * RATIOS).sum(axis=1)
    return mean, (shares * RATIOS**2 * (1 + HALF_STEP**2)).sum(axis=1) - mean**2


def _class_edges(m: Reals) -> Reals:
    classes = max(1, min(CLASSES, m.size // LEAST_IN_CLASS))
    sample = m[:: max(1, m.size // (10 * MOST_FITTED))]
    inner = np.quantile(sample, np.linspace(0, 1, classes + 1)[1:-1])
    return np.concatenate([[float(m.min())], inner, [float(m.max())]])


def _split(number: Codes, m: Reals, edges: Reals) -> tuple[Codes, Reals]:
    """Place expectations between the nodes of their classes: the node below, and the part of the way to the next."""
    low, high = np.log(edges[:-1])[number], np.log(np.maximum(edges[1:], edges[:-1] * 1.0001))[number]
    along = np.clip((np.log(m) - low) / (high - low) * (NODES - 1), 0, NODES - 1.000001)
    node = along.astype(np.int64)
    return number * NODES + node, along - node


def _interpolate(both: NDArray[np.complex128], node: Codes, part: Reals, level: Reals) -> NDArray[np.complex128]:
    """Read a table of classes * NODES by STEPS between its nodes and steps."""
    column = level.astype(np.int64)
    rest = level - column
    place = node * STEPS + column
    mixed = _between(both, place, rest)
    mixed += part * (_between(both, place + STEPS, rest) - mixed)
    return mixed


def _between(both: NDArray[np.complex128], place: Codes, rest: Reals) -> NDArray[np.complex128]:
    low = both[place]
    low += rest * (both[place + 1] - low)
    return low


def _tabulate(
    edges: Reals, heights: Reals, weights: list[Reals], variance: float, is_normal: bool
) -> tuple[Reals, Reals]:
    """Work out means and variances of every class at its nodes (classes * NODES, STEPS)."""
    means, spreads = [], []
    for mixture, (low, high) in zip(weights, itertools.pairwise(edges.tolist()), strict=True):
        nodes = np.exp(np.linspace(math.log(low), math.log(max(high, low * 1.0001)), NODES))
        mean, spread = _average(np.tile(heights, NODES), np.repeat(nodes, STEPS), mixture, variance, is_normal)
        means.append(mean.reshape(NODES, STEPS))
        spreads.append(spread.reshape(NODES, STEPS))
    return np.concatenate(means), np.concatenate(spreads)


def _likelihood(y: Reals, m: Reals, variance: float, is_normal: bool) -> tuple[Reals, Reals, Reals, Reals]:
    """Likelihood of every point of the mixture, scaled; centres, own variances and distances from them."""
    centre = m[:, None] * RATIOS
    own = (HALF_STEP * centre) ** 2
    whole, away = variance + own, y[:, None] - centre
    log = -away * away / (2 * whole)
    if not is_normal:  # Laplace where the noise rules
        log = np.where(own < 0.5 * variance, 0.2257 - np.sqrt(2 * away * away / whole), log)
    log -= 0.5 * np.log(whole)
    return np.exp(log - log.max(axis=1, keepdims=True)), centre, own, away


def _fit_mixture(y: Reals, m: Reals, variance: float, is_normal: bool) -> Reals:
    like, _, _, _ = _likelihood(y, m, variance, is_normal)
    weights = np.full(RATIOS.size, 1 / RATIOS.size)
    for _ in range(ROUNDS if y.size else 0):
        given = 1 / (like @ weights)
        weights = weights * (given @ like) / y.size
    return weights


def _average(y: Reals, m: Reals, weights: Reals, variance: float, is_normal: bool) -> tuple[Reals, Reals]:
    like, centre, own, away = _likelihood(y, m, variance, is_normal)
    share = like * weights
    share /= share.sum(axis=1, keepdims=True)
    pull = own / (own + variance)
    guess = centre + pull * away
    mean: Reals = np.maximum((share * guess).sum(axis=1), 0.0)
    spread: Reals = np.maximum((share * (guess * guess + pull * variance)).sum(axis=1) - mean**2, 0.0)
    return mean, spread


# --- expectations on a map ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class MapGrid:
    """Cells of a map in a rectangle: `index` is the place of every cell in it, row by row."""

    height: int
    width: int
    index: Codes

    def spread(self, values: Reals) -> Reals:
        """Put values of the cells on the rectangle, 0 elsewhere."""
        grid = np.zeros(self.height * self.width)
        grid[self.index] = values
        return grid.reshape(self.height, self.width)

    def ring_means(self, values: Reals) -> tuple[Reals, Reals]:
        """For every cell the mean of the 8 cells around it, and of the 16 around those; NaN where there are none."""
        found = []
        for total, number in zip(_add_rings(self.spread(values)), self._count_rings(), strict=True):
            with np.errstate(invalid="ignore", divide="ignore"):
                found.append((total / np.where(number > 0.5, number, np.nan)).ravel()[self.index])
        return found[0], found[1]

    def _count_rings(self) -> tuple[Reals, Reals]:
        """For every place of the rectangle the cells in the two rings around it."""
        if self.index.size < self.height * self.width:
            return _add_rings(self.spread(np.ones(self.index.size)))
        near, far = (_count_around(self.height, self.width, reach) for reach in (1, 2))
        return near - 1, far - near

    def interpolate(self, density: Reals, side: int) -> Reals:
        """Interpolate between the middles of squares, whose densities are given on their own rectangle."""
        for axis, length in ((0, self.height), (1, self.width)):
            density = np.moveaxis(density, axis, 0)
            at = (np.arange(length) + 0.5) / side - 0.5
            low = np.floor(at).astype(np.int64)
            part = (at - low)[:, None]
            last = len(density) - 1
            density = density[np.clip(low, 0, last)] * (1 - part) + density[np.clip(low + 1, 0, last)] * part
            density = np.moveaxis(density, 0, axis)
        smooth: Reals = density.ravel()[self.index]
        return smooth


def _count_around(height: int, width: int, reach: int) -> Reals:
    """Count the places of a rectangle in the square around each of them, itself among them."""
    sides = []
    for length in (height, width):
        place = np.arange(length)
        sides.append((np.minimum(place + reach, length - 1) - np.maximum(place - reach, 0) + 1).astype(np.float64))
    return np.multiply.outer(sides[0], sides[1])


def _add_rings(grid: Reals) -> tuple[Reals, Reals]:
    """Sums over the 8 cells around every cell, and over the 16 around those."""
    height, width = grid.shape
    edged = np.zeros((height + 4, width + 4))
    edged[2:-2, 2:-2] = grid
    near = edged[:, 1:-3] + edged[:, 2:-2]  # rows of 3, then of 5
    near += edged[:, 3:-1]
    far = near + edged[:, :-4]
    far += edged[:, 4:]
    first = near[1:-3] + near[2:-2]
    first += near[3:-1]
    second = far[:-4] + far[4:]
    for shift in (1, 2, 3):
        second += far[shift : shift + height]
    second -= first
    first -= grid
    return first, second


def expect_from_neighbours(noisy: Reals, base: Reals, rings: tuple[Reals, Reals], *, variance: Reals) -> Reals:
    """Weigh the share by area and the two rings by least squares on the noisy cells, in classes of like share.

    The noise of a cell is no part of its own expectation, so the fit is not drawn to it. `variance` is that of the
    noise of every cell.
    """
    features = (base, *(np.where(np.isnan(ring), base, ring) if np.isnan(ring).any() else ring for ring in rings))
    classes = max(1, min(WEIGHT_CLASSES, base.size // LEAST_WEIGHED))
    step = max(1, base.size // (10 * MOST_FITTED))
    edges = np.quantile(base[::step], np.linspace(0, 1, classes + 1)[1:-1])
    number = np.searchsorted(edges, base, side="right")
    found = np.empty((classes, 3))
    sample = slice(None, None, max(1, base.size // (5 * MOST_FITTED)))
    fitted = np.stack([feature[sample] for feature in features], axis=1)
    for place in range(classes):
        chosen = number[sample] == place
        x, y = fitted[chosen], noisy[sample][chosen]
        scaled = x / (variance[sample][chosen] + base[sample][chosen] ** 2)[:, None]
        gram = scaled.T @ x
        ridge = 1e-9 * max(float(np.trace(gram)), 1e-12) * np.eye(3)
        found[place] = np.maximum(np.linalg.solve(gram + ridge, scaled.T @ y), 0.0) if x.size else (1.0, 0.0, 0.0)
    expected: Reals = np.empty(base.size)
    for start in range(0, base.size, BLOCK):
        block = slice(start, start + BLOCK)
        weights = found.T[:, number[block]]
        least = LEAST_BASE * base[block]
        for weight, feature in zip(weights, features, strict=True):
            weight *= feature[block]
        expected[block] = np.maximum(weights.sum(axis=0), least)
    return expected


# --- rows -----------------------------------------------------------------------------------------------------------


def project_in_metric(rows: Reals, weights: Reals, totals: Reals) -> Reals:
    """Find for every row the nearest point of {x >= 0, sum x = total} in the metric 1/weight; weight 0 stays 0.

    >>> project_in_metric(np.array([[3.0, 1.0, -5.0]]), np.ones((1, 3)), np.array([2.0])).tolist()
    [[2.0, 0.0, 0.0]]
    """
    open_ = weights > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(open_, rows / weights, -np.inf)
    order = np.argsort(-slope, axis=1)
    falling = np.take_along_axis(slope, order, axis=1)
    ranked = np.cumsum(np.take_along_axis(np.where(open_, rows, 0.0), order, axis=1), axis=1)
    heavy = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    cut = (ranked - totals[:, None]) / np.maximum(heavy, 1e-300)
    kept = np.maximum((falling > cut).sum(axis=1), 1)
    threshold = cut[np.arange(len(rows)), kept - 1][:, None]
    return np.where(open_, np.maximum(rows - threshold * weights, 0.0), 0.0)


def round_rows(rows: Reals, totals: Reals, ties: Reals, is_open: Booleans) -> Integers:
    """Round rows that add up to whole totals by largest remainders; `ties` in [0, 1) tell equal ones apart."""
    floors = np.floor(rows + 1e-9)
    spare = np.rint(totals - floors.sum(axis=1))
    fraction = np.where(is_open, rows - floors + 1e-7 * ties, -1.0)
    order = np.argsort(-fraction, axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(rows.shape[1]), rows.shape), axis=1)
    more = rank < spare[:, None]
    whole: Integers = (floors + more).astype(np.int64)
    short = np.flatnonzero(spare > is_open.sum(axis=1)) if spare.size else spare  # float dust of giant rows
    for row in np.concatenate([short, np.flatnonzero(spare < 0)]).astype(np.int64):
        place = int(np.argmax(np.where(is_open[row], rows[row], -1.0)))
        whole[row, place] += int(totals[row]) - int(whole[row].sum())
    return whole
