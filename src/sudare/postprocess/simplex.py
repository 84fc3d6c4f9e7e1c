"""The nearest valid table: non-negative, whole numbers, a given total (Terada 2017, sections 4.2-4.4).

For one table, for many rows of equal length at once, and for many rows of unequal length, whose entries are given flat
with the row that each belongs to. Every row is what `find_nearest_table` makes of it.
"""

from __future__ import annotations

import math

import numpy as np

from sudare.counts.counts import exact_sum
from sudare.errors import ParameterError
from sudare.noise.rng import Rng
from sudare.noise.uniform import draw_order, draw_subset
from sudare.schema.arrays import Integers, Reals


def find_nearest_table(noisy: Integers, *, total: int, rng: Rng) -> Integers:
    """Find the lattice point of {x >= 0, sum x = total} nearest to whole numbers, in integers throughout.

    The nearest real point is (y - t)+ for one t. Whole y share the fraction of y - t, so with T = ceil(t) the floors
    are (y - T)+, and the spare = total - sum (y - T)+ units go to cells of {y >= T}: all choices are equally near,
    and one is drawn at random.

    Error: none added; it is the exact minimiser of the Euclidean distance (separable and convex, so greedy is optimal).
    Source: Terada 2017, 4.3-4.4.

    >>> from sudare.noise import SeededRng
    >>> find_nearest_table(np.array([7, -3, 2, 0]), total=5, rng=SeededRng(1)).tolist()
    [5, 0, 0, 0]
    """
    _check_total(total)
    if noisy.size == 0:
        return _make_empty_table(total)
    threshold = find_threshold(noisy, total)
    table = np.maximum(noisy - threshold, 0)
    spare = total - int(table.sum())
    if spare:
        tied = np.flatnonzero(noisy >= threshold)
        table[tied[draw_subset(tied.size, spare, rng=rng)]] += 1
    return table


def find_threshold(noisy: Integers, total: int) -> int:
    """Find the whole T with sum (y-T)+ <= total < sum (y-T)+ + #{y >= T}, by Michelot's batch elimination on integers.

    Each round drops the cells that end at or below 0 and can only raise T, as in the paper's 4.4.

    >>> find_threshold(np.array([7, -3, 2, 0]), 5)
    2
    """
    active = noisy
    while True:
        surplus = exact_sum(active) - total
        threshold = -(-surplus // active.size)  # ceil: floors add up to at most the total
        kept = active[active >= threshold]
        if kept.size == active.size:
            return threshold
        active = kept


def find_nearest_point(point: Reals, *, total: float) -> Reals:
    """Find the real point of {x >= 0, sum x = total} nearest to `point` (the paper's steps 1 and 2).

    >>> find_nearest_point(np.array([3.0, 1.0, -5.0]), total=2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    active = point
    while True:
        shift = (float(active.sum()) - total) / active.size
        kept = active[active > shift]
        if kept.size == active.size or kept.size == 0:
            return np.maximum(point - shift, 0.0)
        active = kept


def round_by_remainder(point: Reals, *, total: int, rng: Rng) -> Integers:
    """Round to whole numbers with the given total: floors, then one more for the largest fractions (step 3).

    Ties are broken at random. The floors must not exceed the total by more than float dust.

    >>> from sudare.noise import SeededRng
    >>> round_by_remainder(np.array([1.25, 0.75, 3.0]), total=5, rng=SeededRng(1)).tolist()
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
        floors[tied[draw_subset(tied.size, total - int(floors.sum()), rng=rng)]] += 1
    return floors


def _check_total(total: int) -> None:
    if total < 0:
        raise ParameterError("total ({total}) must be at least 0", total=total)


def _make_empty_table(total: int) -> Integers:
    if total:
        raise ParameterError("a table without cells cannot hold {total} records", total=total)
    return np.zeros(0, dtype=np.int64)


# --- many rows of equal length --------------------------------------------------------------------------------------


def project_rows(rows: Reals, totals: Reals) -> Reals:
    """Find for every row the nearest point of {x >= 0, sum x = total of the row}.

    By sorting: with u the row in falling order, the threshold is that of the largest k with u_k > (sum of the first k
    of u - total)/k. Entries of minus infinity stay 0, so that rows of unequal length can be padded.

    >>> project_rows(np.array([[3.0, 1.0, -5.0]]), np.array([2.0])).tolist()
    [[2.0, 0.0, 0.0]]
    """
    falling = -np.sort(-rows, axis=1)
    known = np.isfinite(falling)
    surplus = np.cumsum(np.where(known, falling, 0.0), axis=1) - totals[:, None]
    candidates = surplus / np.arange(1, rows.shape[1] + 1)
    is_active = known & (falling > candidates)
    last = rows.shape[1] - 1 - np.argmax(is_active[:, ::-1], axis=1)
    threshold = np.take_along_axis(candidates, last[:, None], axis=1)
    nearest = np.maximum(rows - threshold, 0.0)
    nearest[totals <= 0] = 0.0
    return nearest


# --- many rows of unequal length: one sort for all of them together -------------------------------------------------

PARTS_OF_A_UNIT = 2**12  # by which shares are told apart before they are rounded
LARGEST_SUM = 2**62  # sums that stay below it cannot wrap


def find_nearest_rows(values: Integers, rows: Integers, *, totals: Integers, rng: Rng) -> Integers:
    """Find for every row the lattice point of {x >= 0, sum x = its total} nearest to its whole numbers.

    `rows` says to which row (an index of `totals`) each value belongs, in any order. Of equally near points one is
    drawn at random, row by row.

    Error: none added; each row is the exact minimiser of the Euclidean distance. Source: Terada 2017, 4.3-4.4.

    >>> from sudare.noise import SeededRng
    >>> values, rows = np.array([7, -3, 9, 2, 0]), np.array([0, 0, 1, 0, 0])
    >>> find_nearest_rows(values, rows, totals=np.array([5, 4]), rng=SeededRng(1)).tolist()
    [5, 0, 4, 0, 0]
    """
    _check_totals(rows, totals)
    if not values.size:
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    ordered, owner = values[order], rows[order]
    thresholds = find_thresholds(ordered, owner, totals=totals)[owner]
    table: Integers = np.maximum(ordered - thresholds, 0)
    spare = totals - sum_rows(table, owner, size=totals.size)
    table[_draw_spare(np.flatnonzero(ordered >= thresholds), owner, spare, rng)] += 1
    nearest = np.empty_like(table)
    nearest[order] = table
    return nearest


def find_thresholds(values: Integers, rows: Integers, *, totals: Integers) -> Integers:
    """Find for every row the whole T with sum (y-T)+ <= total < sum (y-T)+ + #{y >= T}; 0 for a row without entries.

    With u the row in falling order, sum (y-T)+ = max over k of (u_1 + ... + u_k - k T), so T is the least whole number
    that is at least (u_1 + ... + u_k - total) / k for every k.

    >>> find_thresholds(np.array([7, -3, 9, 2, 0]), np.array([0, 0, 1, 0, 0]), totals=np.array([5, 4])).tolist()
    [2, 5]
    """
    thresholds = np.zeros(totals.size, dtype=np.int64)
    if not values.size:
        return thresholds
    order = np.lexsort((-values, rows))
    falling, owner = values[order], rows[order]
    starts, position = _find_runs(owner)
    if _could_wrap(falling, int(position.max()) + 1, totals):
        thresholds[owner[starts]] = [
            find_threshold(part, int(totals[row]))
            for row, part in zip(owner[starts], np.split(falling, starts[1:]), strict=True)
        ]
        return thresholds
    sums = np.cumsum(falling)  # may wrap over all rows together; differences within a row are right all the same
    sums -= np.repeat(sums[starts] - falling[starts], np.diff(starts, append=owner.size))
    thresholds[owner[starts]] = np.maximum.reduceat(-((totals[owner] - sums) // (position + 1)), starts)
    return thresholds


def sum_rows(values: Integers, rows: Integers, *, size: int) -> Integers:
    """Add up the values of each of `size` rows, exactly; rows must come in rising order.

    >>> sum_rows(np.array([1, 2, 4]), np.array([0, 0, 2]), size=3).tolist()
    [3, 0, 4]
    """
    sums = np.zeros(size, dtype=np.int64)
    if values.size:
        starts, _ = _find_runs(rows)
        sums[rows[starts]] = np.add.reduceat(values, starts)
    return sums


def _draw_spare(tied: Integers, owner: Integers, spare: Integers, rng: Rng) -> Integers:
    """Choose of the tied entries of every row as many as it has spare units, all choices equally likely."""
    tied = tied[spare[owner[tied]] > 0]
    shuffled = tied[draw_order(tied.size, rng=rng)]
    shuffled = shuffled[np.argsort(owner[shuffled], kind="stable")]
    if not shuffled.size:
        return shuffled
    return shuffled[_find_runs(owner[shuffled])[1] < spare[owner[shuffled]]]


def _find_runs(rows: Integers) -> tuple[Integers, Integers]:
    """Find where each run of equal rows begins, and the position of every entry in its run."""
    is_start = np.ones(rows.size, dtype=bool)
    is_start[1:] = rows[1:] != rows[:-1]
    starts = np.flatnonzero(is_start)
    return starts, np.arange(rows.size) - np.repeat(starts, np.diff(starts, append=rows.size))


def _could_wrap(values: Integers, longest: int, totals: Integers) -> bool:
    largest = max(abs(int(values.max())), abs(int(values.min())))
    return (largest + 1) * longest + int(totals.max()) >= LARGEST_SUM


def _check_totals(rows: Integers, totals: Integers) -> None:
    if totals.size and int(totals.min()) < 0:
        raise ParameterError("the totals of rows must be at least 0")
    if np.any(totals[np.bincount(rows, minlength=totals.size) == 0]):
        raise ParameterError("a row without cells cannot hold records")


def share_rows(shares: Reals, rows: Integers, *, totals: Integers, rng: Rng) -> Integers:
    """Round real shares to whole numbers: every row becomes the nearest valid row, by largest remainders.

    Each row is projected on {x >= 0, sum x = total} in fixed point (PARTS_OF_A_UNIT), rounded down, and the units that
    are left over go to the largest fractions; equal ones are drawn at random.

    Error: a whole number is within one unit of the projected share.

    >>> from sudare.noise import SeededRng
    >>> shares, rows = np.array([1.25, 0.9, 2.85, -4.0, 7.0]), np.array([0, 0, 0, 1, 1])
    >>> share_rows(shares, rows, totals=np.array([5, 3]), rng=SeededRng(1)).tolist()
    [1, 1, 3, 0, 3]
    """
    largest = math.ceil(max(1.0, float(np.abs(shares).max(initial=0.0)), float(totals.max(initial=0))))
    parts = max(1, min(PARTS_OF_A_UNIT, 2**61 // largest))  # fewer where 64 bits would not hold them
    exact = find_nearest_rows(np.rint(shares * parts).astype(np.int64), rows, totals=totals * parts, rng=rng)
    whole, fraction = np.divmod(exact, parts)
    spare = totals - np.bincount(rows, weights=whole, minlength=totals.size).astype(np.int64)
    order = np.lexsort((draw_order(rows.size, rng=rng), -fraction, rows))
    position = _find_runs(rows[order])[1]
    whole[order[position < spare[rows[order]]]] += 1
    return whole
