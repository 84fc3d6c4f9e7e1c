"""The nearest valid table: non-negative, whole numbers, a given total (Terada 2017, sections 4.2-4.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sudare.counts.sparse import exact_sum
from sudare.errors import ParameterError
from sudare.mechanisms.rng import Rng

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]


def nearest_table(noisy: Integers, *, total: int, rng: Rng) -> Integers:
    """Find the lattice point of {x >= 0, sum x = total} nearest to whole numbers, in integers throughout.

    The nearest real point is (y - t)+ for one t. Whole y share the fraction of y - t, so with T = ceil(t) the floors
    are (y - T)+, and the spare = total - sum (y - T)+ units go to cells of {y >= T}: all choices are equally near,
    and one is drawn at random.

    Error: none added; it is the exact minimiser of the Euclidean distance (separable and convex, so greedy is optimal).
    Source: Terada 2017, 4.3-4.4.

    >>> from sudare.mechanisms import SeededRng
    >>> nearest_table(np.array([7, -3, 2, 0]), total=5, rng=SeededRng(1)).tolist()
    [5, 0, 0, 0]
    """
    _check_total(total)
    if noisy.size == 0:
        return _nothing(total)
    return raise_spare(noisy, threshold(noisy, total), total=total, rng=rng)


def raise_spare(noisy: Integers, level: int, *, total: int, rng: Rng) -> Integers:
    """Cut at the level found by `threshold`, and give the spare units to cells that reach it, drawn at random."""
    table = np.maximum(noisy - level, 0)
    spare = total - int(table.sum())
    if spare:
        tied = np.flatnonzero(noisy >= level)
        table[tied[rng.subset(tied.size, spare)]] += 1
    return table


def threshold(noisy: Integers, total: int) -> int:
    """The whole T with sum (y-T)+ <= total < sum (y-T)+ + #{y >= T}, by Michelot's batch elimination on integers.

    Each round drops the cells that end at or below 0 and can only raise T, as in the paper's 4.4.

    >>> threshold(np.array([7, -3, 2, 0]), 5)
    2
    """
    active = noisy
    while True:
        excess = exact_sum(active) - total
        level = -(-excess // active.size)  # ceil: floors add up to at most the total
        kept = active[active >= level]
        if kept.size == active.size:
            return level
        active = kept


def nearest_point(point: Reals, *, total: float) -> Reals:
    """Find the real point of {x >= 0, sum x = total} nearest to `point` (the paper's steps 1 and 2).

    >>> nearest_point(np.array([3.0, 1.0, -5.0]), total=2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    active = point
    while True:
        shift = (float(active.sum()) - total) / active.size
        kept = active[active > shift]
        if kept.size == active.size or kept.size == 0:
            return np.maximum(point - shift, 0.0)
        active = kept


def largest_remainder(point: Reals, *, total: int, rng: Rng) -> Integers:
    """Round to whole numbers with the given total: floors, then one more for the largest fractions (step 3).

    Ties are broken at random. The floors must not exceed the total by more than float dust.

    >>> from sudare.mechanisms import SeededRng
    >>> largest_remainder(np.array([1.25, 0.75, 3.0]), total=5, rng=SeededRng(1)).tolist()
    [1, 1, 3]
    """
    _check_total(total)
    floors = np.floor(point).astype(np.int64)
    spare = total - int(floors.sum())
    if not 0 <= spare <= point.size:
        raise ParameterError("the point must add up to the total ({total}); project it first", total=total)
    if spare:
        fractions = point - floors
        least = np.partition(fractions, point.size - spare)[point.size - spare]
        floors[fractions > least] += 1
        tied = np.flatnonzero(fractions == least)
        floors[tied[rng.subset(tied.size, total - int(floors.sum()))]] += 1
    return floors


def _check_total(total: int) -> None:
    if total < 0:
        raise ParameterError("total ({total}) must be at least 0", total=total)


def _nothing(total: int) -> Integers:
    if total:
        raise ParameterError("a table without cells cannot hold {total} records", total=total)
    return np.zeros(0, dtype=np.int64)
