"""The epsilon that a map really needs: the certificate of the mechanism in use.

    log P(y|x) - log P(y|x') = log alpha(x) - log alpha(x') + beta (d(x', y) - d(x, y))

The last term is at most beta d(x, x'), and reaches it at y = x if x itself can be reported. So the smallest epsilon is

    beta + max over x, x' of |log alpha(x) - log alpha(x')| / d(x, x')

exactly where every input can be reported, and an upper bound of it otherwise. It is never above 2 beta: that is
certified for large maps with inputs that cannot be reported; small ones are searched pair by pair. Offsets are visited
from the shortest, in rings; a ring is left out when the largest rise that near is below the best slope.
Proof: proofs/location.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.methods.location.grid import PlaneGrid, metres_from
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.posterior import norms
from sudare.schema.arrays import Reals

MOST_BRUTE = 300
MOST_WORK = 10**9  # pairs looked at before the rest is bounded by the largest rise in a box


@dataclass(frozen=True, kw_only=True, slots=True)
class Tight:
    """The certified epsilon per metre, and whether it is the smallest that holds or a bound above it.

    `epsilon` includes the error of the floats it was computed with, so the true one is never above it.
    """

    epsilon: float
    is_exact: bool


def tight_epsilon(mechanism: Mechanism) -> Tight:
    """Certify a mechanism: the smallest epsilon per metre of its map, rounded up.

    Guarantee: P(y|x) <= exp(epsilon d(x, x')) P(y|x') for all inputs x, x' and all reports y.
    Source: tight constraints of ElSalamouny, Chatzikokolakis, Palamidessi 2014.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> paper = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.full(225, ONE))
    >>> round(tight_epsilon(paper).epsilon, 5)
    0.01242
    """
    can_all_be_told = bool((mechanism.weights[mechanism.can_enter] > 0).all())
    if not can_all_be_told and mechanism.places.size <= MOST_BRUTE:
        return Tight(epsilon=_up(brute_force(mechanism), 1e-12), is_exact=True)
    if mechanism.can_enter.sum() == 1:
        return Tight(epsilon=0.0, is_exact=True)
    proven = Tight(epsilon=float(2 * mechanism.beta_per_metre), is_exact=False)
    if not can_all_be_told:
        return proven
    slope, is_exact, error = steepest(mechanism)
    found = Tight(epsilon=_up(mechanism.beta + slope + error, 1e-14), is_exact=is_exact)
    return found if found.epsilon < proven.epsilon else proven


def steepest(mechanism: Mechanism) -> tuple[float, bool, float]:
    """The steepest slope of log alpha per metre, whether all pairs were looked at, and the error it may have."""
    sums, relative = norms(mechanism)
    level = np.where(mechanism.can_enter, np.log(sums), np.nan)
    grid = mechanism.places
    if isinstance(grid, PlaneGrid):
        shortest = float(min(grid.cell_height_metres, grid.cell_width_metres))
        slope, is_exact = _slope_on_grid(grid, level.reshape(grid.shape))
    else:
        slope, shortest = _slope_by_rows(mechanism, level)
        is_exact = True
    return slope, is_exact, 2.1 * relative / shortest


def brute_force(mechanism: Mechanism) -> float:
    """The same figure from the definition: every pair of inputs, every report. For small maps and for tests."""
    inputs = np.flatnonzero(mechanism.can_enter)
    told = mechanism.weights > 0
    distances = np.array([metres_from(mechanism.places, cell) for cell in inputs.tolist()])
    exponents = -mechanism.beta * distances[:, told] + np.log(mechanism.shares[told])
    top = exponents.max(axis=1, keepdims=True)
    logs = exponents - (top + np.log(np.exp(exponents - top).sum(axis=1, keepdims=True)))
    worst = 0.0
    for one, distance in zip(logs, distances[:, inputs], strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            worst = max(worst, float(np.nanmax((one - logs).max(axis=1) / np.where(distance > 0, distance, np.nan))))
    return worst


def _slope_on_grid(grid: PlaneGrid, level: Reals) -> tuple[float, bool]:
    """Go outwards in rings; one that cannot hold a steeper pair, by the largest rise around each cell, is skipped."""
    spread, best, work, is_exact = float(np.nanmax(level) - np.nanmin(level)), 0.0, 0, True
    for inner, outer in rings(grid):
        if spread <= best * inner:
            break
        bound = _largest_rise(grid, level, outer) / inner if inner > 0 else math.inf
        if bound <= best:
            continue
        if work > MOST_WORK:
            best, is_exact = bound, False
            continue
        for down, right, metres in _ring(grid, inner, outer):
            best = max(best, _largest_step(level, down, right) / metres)
            work += level.size
    return best, is_exact


def _largest_rise(grid: PlaneGrid, level: Reals, metres: float) -> float:
    """The largest rise from a cell to any other in a box that reaches this far: a bound for offsets of the length."""
    from scipy import ndimage

    high = np.where(np.isnan(level), -np.inf, level)
    for axis, side in enumerate((grid.cell_height_metres, grid.cell_width_metres)):
        reach = min(int(metres / float(side)), level.shape[axis])
        high = ndimage.maximum_filter1d(high, 2 * reach + 1, axis=axis, mode="constant", cval=-np.inf)
    return float(np.nanmax(high - level))


def _largest_step(level: Reals, down: int, right: int) -> float:
    """The largest difference between cells this far apart, over all places where both can be entered."""
    rows, columns = level.shape
    upper, lower = level[: rows - down], level[down:]
    if right >= 0:
        steps = np.abs(upper[:, : columns - right] - lower[:, right:])
    else:
        steps = np.abs(upper[:, -right:] - lower[:, : columns + right])
    return float(np.fmax.reduce(steps, axis=None, initial=0.0))


def rings(grid: PlaneGrid) -> Iterator[tuple[float, float]]:
    """Lengths from 0 to the way across the map, growing by a quarter."""
    height, width = float(grid.cell_height_metres), float(grid.cell_width_metres)
    inner, outer, longest = 0.0, 2 * max(height, width), math.hypot(grid.rows * height, grid.columns * width)
    while inner < longest:
        yield inner, outer
        inner, outer = outer, 1.25 * outer


def offsets(grid: PlaneGrid) -> Iterator[tuple[int, int, float]]:
    """Half of all offsets, shortest first, ring by ring so that long ones are not even listed when they cannot win."""
    for inner, outer in rings(grid):
        yield from _ring(grid, inner, outer)


def _ring(grid: PlaneGrid, inner: float, outer: float) -> Iterator[tuple[int, int, float]]:
    tall = min(grid.rows - 1, math.ceil(outer / float(grid.cell_height_metres)))
    wide = min(grid.columns - 1, math.ceil(outer / float(grid.cell_width_metres)))
    down, right = np.arange(tall + 1), np.arange(-wide, wide + 1)
    metres = np.sqrt(grid.offset_squares(down, right).astype(np.float64)) * float(grid.unit_metres)
    is_new = (metres > inner) & (metres <= outer) & ((down[:, None] > 0) | (right[None, :] > 0))
    for index in _sorted(is_new, metres).tolist():
        yield int(down[index // right.size]), int(right[index % right.size]), float(metres.flat[index])


def _sorted(chosen: NDArray[np.bool_], metres: Reals) -> NDArray[np.int64]:
    found = np.flatnonzero(chosen)
    return found[np.argsort(metres.flat[found], kind="stable")]


def _slope_by_rows(mechanism: Mechanism, level: Reals) -> tuple[float, float]:
    best, shortest = 0.0, math.inf
    inside = mechanism.can_enter
    for cell in np.flatnonzero(inside).tolist():
        distance = metres_from(mechanism.places, cell)
        others = inside & (distance > 0)
        best = max(best, float((np.abs(level[others] - level[cell]) / distance[others]).max(initial=0.0)))
        shortest = min(shortest, float(distance[others].min(initial=math.inf)))
    return best, shortest


def _up(value: float, relative: float) -> float:
    """A little more, so that rounding never makes a promise too small."""
    return float(np.nextafter(value * (1 + relative), math.inf))


# The likeliest place around every report, when people are not equally likely everywhere.


def largest_nearby(mechanism: Mechanism, values: Reals) -> Reals:
    """max over x of values(x) exp(-beta d(x, y)), for every reportable cell y.

    On a grid offsets are visited from the shortest, until the largest value of all, that far away, is below what every
    cell already has.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=1, columns=3, cell_height_metres=100, cell_width_metres=100)
    >>> made = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.full(3, ONE))
    >>> largest_nearby(made, np.array([1.0, 0.1, 0.1])).round(3).tolist()
    [1.0, 0.368, 0.135]
    """
    grid = mechanism.places
    if not isinstance(grid, PlaneGrid):
        rows = [values * np.exp(-mechanism.beta * metres_from(grid, cell)) for cell in range(grid.size)]
        return np.array([row.max() for row in rows])
    best, top = values.reshape(grid.shape).copy(), float(values.max())
    source, told = values.reshape(grid.shape), (mechanism.weights > 0).reshape(grid.shape)
    for down, right, metres in offsets(grid):
        fade = math.exp(-mechanism.beta * metres)
        if top * fade <= float(best[told].min()):
            break
        for one, other in _pairs(grid.shape, down, right):
            np.maximum(best[one], source[other] * fade, out=best[one])
    return best.reshape(-1)


def _pairs(shape: tuple[int, int], down: int, right: int) -> list[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Slices of cells this far apart, both ways."""
    rows, columns = shape
    upper, lower = slice(0, rows - down), slice(down, rows)
    left, far = slice(0, columns - abs(right)), slice(abs(right), columns)
    first, second = ((upper, left), (lower, far)) if right >= 0 else ((upper, far), (lower, left))
    return [(first, second), (second, first)]
