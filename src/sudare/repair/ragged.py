"""Many tables of unequal length at once: each becomes the nearest table of whole numbers with its own total.

Entries are given flat, with the row each belongs to. Every row is what `simplex.nearest_table` makes of it; the work is
one sort for all rows together.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.mechanisms.rng import Rng
from sudare.repair.simplex import threshold

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

FINE = 2**12  # parts of a unit that shares are told apart by
SAFE = 2**62  # sums that stay below it cannot wrap


def nearest_rows(values: Integers, rows: Integers, *, totals: Integers, rng: Rng) -> Integers:
    """Find for every row the lattice point of {x >= 0, sum x = its total} nearest to its whole numbers.

    `rows` says to which row (an index of `totals`) each value belongs, in any order. Of equally near points one is
    drawn at random, row by row.

    Error: none added; each row is the exact minimiser of the Euclidean distance. Source: Terada 2017, 4.3-4.4.

    >>> from sudare.mechanisms import SeededRng
    >>> values, rows = np.array([7, -3, 9, 2, 0]), np.array([0, 0, 1, 0, 0])
    >>> nearest_rows(values, rows, totals=np.array([5, 4]), rng=SeededRng(1)).tolist()
    [5, 0, 4, 0, 0]
    """
    _check(rows, totals)
    if not values.size:
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    ordered, owner = values[order], rows[order]
    levels = thresholds(ordered, owner, totals=totals)[owner]
    table: Integers = np.maximum(ordered - levels, 0)
    spare = totals - sum_rows(table, owner, size=totals.size)
    table[_spare_places(np.flatnonzero(ordered >= levels), owner, spare, rng)] += 1
    nearest = np.empty_like(table)
    nearest[order] = table
    return nearest


def thresholds(values: Integers, rows: Integers, *, totals: Integers) -> Integers:
    """For every row the whole T with sum (y-T)+ <= total < sum (y-T)+ + #{y >= T}; 0 for a row without entries.

    With u the row in falling order, sum (y-T)+ = max over k of (u_1 + ... + u_k - k T), so T is the least whole number
    that is at least (u_1 + ... + u_k - total) / k for every k.

    >>> thresholds(np.array([7, -3, 9, 2, 0]), np.array([0, 0, 1, 0, 0]), totals=np.array([5, 4])).tolist()
    [2, 5]
    """
    found = np.zeros(totals.size, dtype=np.int64)
    if not values.size:
        return found
    order = np.lexsort((-values, rows))
    falling, owner = values[order], rows[order]
    starts, position = _starts(owner)
    if _could_wrap(falling, int(position.max()) + 1, totals):
        found[owner[starts]] = [
            threshold(part, int(totals[row]))
            for row, part in zip(owner[starts], np.split(falling, starts[1:]), strict=True)
        ]
        return found
    sums = np.cumsum(falling)  # may wrap over all rows together; differences within a row are right all the same
    sums -= np.repeat(sums[starts] - falling[starts], np.diff(starts, append=owner.size))
    found[owner[starts]] = np.maximum.reduceat(-((totals[owner] - sums) // (position + 1)), starts)
    return found


def sum_rows(values: Integers, rows: Integers, *, size: int) -> Integers:
    """Add up the values of each of `size` rows, exactly; rows must come in rising order.

    >>> sum_rows(np.array([1, 2, 4]), np.array([0, 0, 2]), size=3).tolist()
    [3, 0, 4]
    """
    sums = np.zeros(size, dtype=np.int64)
    if values.size:
        starts, _ = _starts(rows)
        sums[rows[starts]] = np.add.reduceat(values, starts)
    return sums


def _spare_places(tied: Integers, owner: Integers, spare: Integers, rng: Rng) -> Integers:
    """Of the tied places choose in every row as many as it has spare units, all choices equally likely."""
    tied = tied[spare[owner[tied]] > 0]
    shuffled = tied[rng.permutation(tied.size)]
    shuffled = shuffled[np.argsort(owner[shuffled], kind="stable")]
    if not shuffled.size:
        return shuffled
    return shuffled[_starts(owner[shuffled])[1] < spare[owner[shuffled]]]


def _starts(rows: Integers) -> tuple[Integers, Integers]:
    """Where each run of equal rows begins, and the position of every entry in its run."""
    is_start = np.ones(rows.size, dtype=bool)
    is_start[1:] = rows[1:] != rows[:-1]
    starts = np.flatnonzero(is_start)
    return starts, np.arange(rows.size) - np.repeat(starts, np.diff(starts, append=rows.size))


def _could_wrap(values: Integers, longest: int, totals: Integers) -> bool:
    largest = max(abs(int(values.max())), abs(int(values.min())))
    return (largest + 1) * longest + int(totals.max()) >= SAFE


def _check(rows: Integers, totals: Integers) -> None:
    if totals.size and int(totals.min()) < 0:
        raise ParameterError("the totals of rows must be at least 0")
    if np.any(totals[np.bincount(rows, minlength=totals.size) == 0]):
        raise ParameterError("a row without cells cannot hold records")


def share_rows(shares: Reals, rows: Integers, *, totals: Integers, rng: Rng) -> Integers:
    """Round real shares to whole numbers: every row becomes the nearest valid row, by largest remainders.

    Each row is projected on {x >= 0, sum x = total} in fixed point (1/FINE of a unit), rounded down, and the units that
    are left over go to the largest fractions; equal ones are drawn at random.

    Error: a whole number is within one unit of the projected share.

    >>> from sudare.mechanisms import SeededRng
    >>> shares, rows = np.array([1.25, 0.9, 2.85, -4.0, 7.0]), np.array([0, 0, 0, 1, 1])
    >>> share_rows(shares, rows, totals=np.array([5, 3]), rng=SeededRng(1)).tolist()
    [1, 1, 3, 0, 3]
    """
    largest = math.ceil(max(1.0, float(np.abs(shares).max(initial=0.0)), float(totals.max(initial=0))))
    parts = max(1, min(FINE, 2**61 // largest))  # fewer where 64 bits would not hold them
    exact = nearest_rows(np.rint(shares * parts).astype(np.int64), rows, totals=totals * parts, rng=rng)
    whole, fraction = np.divmod(exact, parts)
    spare = totals - np.bincount(rows, weights=whole, minlength=totals.size).astype(np.int64)
    order = np.lexsort((rng.permutation(rows.size), -fraction, rows))
    position = _starts(rows[order])[1]
    whole[order[position < spare[rows[order]]]] += 1
    return whole
