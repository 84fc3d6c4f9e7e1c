"""The epsilon that a map really needs: the certificate of the mechanism in use.

    log P(y|x) - log P(y|x') = log alpha(x) - log alpha(x') + beta (d(x', y) - d(x, y))

The last term is at most beta d(x, x'), and reaches it at y = x if x itself can be reported. So the smallest epsilon is

    beta + max over x, x' of |log alpha(x) - log alpha(x')| / d(x, x')

exactly where every input can be reported, and an upper bound of it otherwise. On a metric it is never above 2 beta; a
figure above that is not hidden behind the theorem but refused, since the distances cannot be a metric then. Small maps
with inputs that cannot be reported are searched pair by pair; on large ones the bound is certified. Offsets are visited
from the shortest, in rings; a ring is skipped if the largest rise within its distance is below the best slope.
Proof: proofs/location.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.location.grid import PlaneGrid, ring_offsets, rings
from sudare.methods.location.kernel import MAX_DENSE_CELLS, distance_table
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.nearby import NearbyKernel, find_nearby, find_reach
from sudare.methods.location.posterior import find_norms
from sudare.methods.location.roads import RoadGraph
from sudare.schema.arrays import Reals

MAX_CELLS_BY_PAIRS = 300  # of a map with inputs that cannot be reported, whose pairs are all searched
MAX_PAIRS = 10**9  # of cells that are compared; the rest is bounded by the largest rise in a rectangle


@dataclass(frozen=True, kw_only=True, slots=True)
class TightEpsilon:
    """The certified epsilon per metre, and whether it is the smallest that holds or a bound above it.

    `epsilon` includes the error of the floats it was computed with, so the true one is never above it. `error` is what
    another computation may differ by: on maps that are summed over pairs within reach, which may reach farther.
    """

    epsilon: float
    is_exact: bool
    error: float = 0.0


def certify_epsilon(mechanism: Mechanism) -> TightEpsilon:
    """Certify a mechanism: the smallest epsilon per metre of its map, rounded up.

    Guarantee: P(y|x) <= exp(epsilon d(x, x')) P(y|x') for all inputs x, x' and all reports y.
    Source: tight constraints of ElSalamouny, Chatzikokolakis, Palamidessi 2014.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.mechanism import FULL_WEIGHT
    >>> grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> paper = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.full(225, FULL_WEIGHT))
    >>> round(certify_epsilon(paper).epsilon, 5)
    0.01242
    """
    are_all_reportable = bool((mechanism.weights[mechanism.can_enter] > 0).all())
    if not are_all_reportable and mechanism.places.size <= MAX_CELLS_BY_PAIRS:
        return TightEpsilon(epsilon=_round_up(search_all_pairs(mechanism), 1e-12), is_exact=True)
    if mechanism.can_enter.sum() == 1:
        return TightEpsilon(epsilon=0.0, is_exact=True)
    proven = TightEpsilon(epsilon=float(2 * mechanism.beta_per_metre), is_exact=False)
    slope, is_exact, error = find_steepest_slope(mechanism)
    is_exact = is_exact and are_all_reportable
    measured = TightEpsilon(
        epsilon=_round_up(mechanism.beta + slope + error, 1e-14),
        is_exact=is_exact,
        error=2 * error if isinstance(mechanism.kernel, NearbyKernel) else 0.0,
    )
    if is_exact and not mechanism.beta + slope - error <= proven.epsilon * (1 + 1e-9):
        raise ParameterError(
            "this map needs epsilon {measured} per metre, more than its distances could ever need if they were a metric"
            " ({proven}); nothing can be promised on it, please report this map",
            measured=measured.epsilon,
            proven=proven.epsilon,
        )
    return measured if measured.epsilon < proven.epsilon else proven


def find_steepest_slope(mechanism: Mechanism) -> tuple[float, bool, float]:
    """Find the steepest slope of log alpha per metre, whether all pairs were compared, and the error it may have."""
    sums, relative = find_norms(mechanism, mechanism.can_enter)
    level = np.where(mechanism.can_enter, np.log(sums), np.nan)
    grid = mechanism.places
    if isinstance(grid, PlaneGrid):
        shortest = float(min(grid.cell_height_metres, grid.cell_width_metres))
        slope, is_exact = find_slope_on_grid(grid, level.reshape(grid.shape))
    else:
        slope, shortest, is_exact = _slope_off_grid(mechanism, level, np.log(sums))
    return slope, is_exact, 2.1 * relative / shortest


def _slope_off_grid(mechanism: Mechanism, level: Reals, levels: Reals) -> tuple[float, float, bool]:
    """Find the slope, the shortest distance, and whether all pairs were compared, on a map without rows."""
    places, are_all_inputs = mechanism.places, bool(mechanism.can_enter.all())
    is_large = places.size > MAX_DENSE_CELLS
    if isinstance(places, RoadGraph) and are_all_inputs:
        shortest = min(length for _, _, length in places.edges) * float(places.unit_metres)
        return places.find_steepest(levels), shortest, True
    if not is_large:
        return *_slope_by_rows(mechanism, level), True
    return _slope_by_pairs(mechanism, level)


def _slope_by_pairs(mechanism: Mechanism, level: Reals) -> tuple[float, float, bool]:
    """Compare the pairs within reach; the others are bounded by the range of the levels over the reach."""
    best, shortest = 0.0, math.inf
    pairs = find_nearby(mechanism.places, mechanism.beta)
    for row, last, starts, others, metres in pairs.chunks():
        rise = np.abs(np.repeat(level[row:last], np.diff(starts)) - level[others])
        is_input = ~np.isnan(rise) & (metres > 0)
        best = max(best, float((rise[is_input] / metres[is_input]).max(initial=0.0)))
        shortest = min(shortest, float(metres[is_input].min(initial=math.inf)))
    # the reach of this beta, not that of the pairs at hand: whoever certifies the law anew finds the same
    beyond = float(np.nanmax(level) - np.nanmin(level)) / find_reach(mechanism.places, mechanism.beta)
    return max(best, beyond), shortest, beyond <= best


def search_all_pairs(mechanism: Mechanism) -> float:
    """Find the same figure from the definition: every pair of inputs, every report. For small maps and for tests."""
    inputs = np.flatnonzero(mechanism.can_enter)
    is_reportable = mechanism.weights > 0
    distances = distance_table(mechanism.places)[inputs]
    exponents = -mechanism.beta * distances[:, is_reportable] + np.log(mechanism.shares[is_reportable])
    top = exponents.max(axis=1, keepdims=True)
    log_laws = exponents - (top + np.log(np.exp(exponents - top).sum(axis=1, keepdims=True)))
    worst = 0.0
    for log_law, distance in zip(log_laws, distances[:, inputs], strict=True):
        ratios = (log_law - log_laws).max(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            worst = max(worst, float(np.nanmax(ratios / np.where(distance > 0, distance, np.nan))))
    return worst


def find_slope_on_grid(grid: PlaneGrid, level: Reals) -> tuple[float, bool]:
    """Search rings outwards; one that cannot hold a steeper pair, by the largest rise around each cell, is skipped."""
    spread, best, pairs, is_exact = float(np.nanmax(level) - np.nanmin(level)), 0.0, 0, True
    for low, high in rings(grid):
        if spread <= best * low:
            break
        bound = _largest_rise(grid, level, high) / low if low > 0 else math.inf
        if bound <= best:
            continue
        if pairs > MAX_PAIRS:
            best, is_exact = bound, False
            continue
        for down, right, metres in ring_offsets(grid, low, high):
            best = max(best, _largest_difference(level, down, right) / metres)
            pairs += level.size
    return best, is_exact


def _largest_rise(grid: PlaneGrid, level: Reals, metres: float) -> float:
    """Find the largest rise from a cell to any other in a rectangle that reaches this far: a bound for such offsets."""
    from scipy import ndimage

    high = np.where(np.isnan(level), -np.inf, level)
    for axis, side in enumerate((grid.cell_height_metres, grid.cell_width_metres)):
        reach = min(int(metres / float(side) * (1 + 1e-9)), level.shape[axis])  # a whole number may fall just below
        high = ndimage.maximum_filter1d(high, 2 * reach + 1, axis=axis, mode="constant", cval=-np.inf)
    return float(np.nanmax(high - level))


def _largest_difference(level: Reals, down: int, right: int) -> float:
    """Find the largest difference between cells an offset apart, where both can be entered."""
    rows, columns = level.shape
    upper, lower = level[: rows - down], level[down:]
    if right >= 0:
        differences = np.abs(upper[:, : columns - right] - lower[:, right:])
    else:
        differences = np.abs(upper[:, -right:] - lower[:, : columns + right])
    return float(np.fmax.reduce(differences, axis=None, initial=0.0))


def _slope_by_rows(mechanism: Mechanism, level: Reals) -> tuple[float, float]:
    """Compare every pair of cells; give also the shortest distance between two."""
    best, shortest = 0.0, math.inf
    inputs = np.flatnonzero(mechanism.can_enter)
    levels, table = level[inputs], distance_table(mechanism.places)
    for place, cell in enumerate(inputs.tolist()):
        distance = table[cell][inputs]
        others = distance > 0
        best = max(best, float((np.abs(levels[others] - levels[place]) / distance[others]).max(initial=0.0)))
        shortest = min(shortest, float(distance[others].min(initial=math.inf)))
    return best, shortest


def _round_up(value: float, relative: float) -> float:
    """Give a little more, so that rounding never makes a promise too small."""
    return float(np.nextafter(value * (1 + relative), math.inf))
