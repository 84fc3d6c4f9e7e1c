"""How the noisy children of a row become whole numbers that add up to their parent."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms import Rng
from sudare.methods.descent.empties import NO_LIMIT, Measured
from sudare.methods.descent.rows import NONE, Rows, add_up
from sudare.methods.descent.seen import Seen, first_seen
from sudare.repair.ragged import nearest_rows, sum_rows

Codes = NDArray[np.int64]

NOISE_SHARE = 0.01  # of the records of a row that noise alone may set above the limit, in the mean
CLEAR = math.sqrt(2.0)  # a mean child above so many scales stands out of the noise (one standard deviation)
ROUNDS = 40


class Repair(Protocol):
    """A rule for rows; it sees noisy values, totals and public facts only."""

    def limits(self, rows: Rows, totals: Codes, scale: Fraction) -> Codes:
        """Below which values children of a row are all treated alike, whatever their value; NO_LIMIT: never."""

    def repair(self, rows: Rows, noisy: Measured, limits: Codes, totals: Codes, rng: Rng) -> Measured:
        """Give published counts: those of `noisy` first, in their order, then any others."""


class Nearest:
    """The nearest row: whole numbers, not negative, that add up to the parent. Source: Terada 2017, 4.3-4.4."""

    def limits(self, rows: Rows, totals: Codes, scale: Fraction) -> Codes:
        """No limits: which children survive depends on their values."""
        return np.full(totals.size, NO_LIMIT, dtype=np.int64)

    def repair(self, rows: Rows, noisy: Measured, limits: Codes, totals: Codes, rng: Rng) -> Measured:
        """Project every row."""
        values = nearest_rows(noisy.values, noisy.children.rows, totals=totals, rng=rng)
        return Measured(children=noisy.children, values=values)


class Thin:
    """Children that stand out of the noise stay as measured; the rest of the parent is spread evenly and thinly.

    In a row of a million children a hundred records are under the noise. The nearest row would put them, in heaps, where
    the noise is highest, and cut as much off the children that do stand out. Here a child is kept if it is above the
    row's limit; records left over go to the other children, one each, drawn at random (evenly where there are more
    records than children). If the kept ones exceed the parent, they are projected on it. In rows whose mean child is
    above the noise all children are projected.

    The limit L of a row of N children and x records at scale b: N * E(Z; Z > L) = NOISE_SHARE * x.
    """

    def limits(self, rows: Rows, totals: Codes, scale: Fraction) -> Codes:
        """Give the limits of `thin_limits`."""
        return thin_limits(totals, rows.room.astype(np.float64), float(scale))

    def repair(self, rows: Rows, noisy: Measured, limits: Codes, totals: Codes, rng: Rng) -> Measured:
        """Keep, project what exceeds, spread what is left."""
        owner = noisy.children.rows
        is_kept = noisy.values > limits[owner]
        values = np.where(is_kept, noisy.values, 0)
        sums = _sums(values, owner, totals.size)
        full = rows.room == np.bincount(owner[is_kept], minlength=totals.size)
        tight = (sums >= totals) | full | (limits == NO_LIMIT)
        chosen = np.flatnonzero(is_kept & tight[owner])
        values[chosen] = nearest_rows(noisy.values[chosen], owner[chosen], totals=np.where(tight, totals, 0), rng=rng)
        kept = Measured(children=noisy.children, values=values)
        left = np.where(tight, 0, totals - sums)
        return kept.join(spread(rows, kept, left, rng))


def thin_limits(totals: Codes, room: NDArray[np.float64], scale: float) -> Codes:
    """Solve N * E(Z; Z > L) = NOISE_SHARE * x for L, by iteration; NO_LIMIT where the mean child is above the noise.

    Limits follow from public numbers; floats are good enough, since any choice is as private.

    >>> thin_limits(np.array([100, 10**6]), np.array([1e9, 1e3]), 20.0).tolist()
    [493, -4611686018427387904]
    """
    heads = np.log(np.maximum(room / (2 * NOISE_SHARE * np.maximum(totals, 1)), 1e-300))
    level = np.full(totals.size, scale)
    for _ in range(ROUNDS):
        level = np.maximum(scale * (heads + np.log(level + scale)), 0.0)
    limits: Codes = np.ceil(level).astype(np.int64)
    limits[totals > CLEAR * scale * room] = NO_LIMIT
    return limits


def spread(rows: Rows, kept: Measured, left: Codes, rng: Rng) -> Measured:
    """Spread `left` records of each row evenly over its possible children that are not among the kept ones.

    A row with fewer records than free children gives one each to a uniform choice of them.
    """
    taken = kept.take(kept.values > 0)
    free = rows.room - np.bincount(taken.children.rows, minlength=left.size)
    is_full = (left > 0) & (2 * left > free)
    seen = Seen(rows.keys(taken.children))
    listed = rows.listed(np.flatnonzero(is_full))
    listed = listed.take(~seen.holds(rows.keys(listed)))
    shares = nearest_rows(
        np.zeros(listed.rows.size, dtype=np.int64), listed.rows, totals=np.where(is_full, left, 0), rng=rng
    )
    drawn = listed.take(NONE)
    missing = np.where(is_full, 0, left)
    while missing.any():
        more = rows.drawn(np.repeat(np.arange(left.size), missing), rng)
        drawn = drawn.join(more.take(~seen.holds(rows.keys(more))))
        drawn = drawn.take(first_seen(rows.keys(drawn)))
        missing = np.where(is_full, 0, left) - np.bincount(drawn.rows, minlength=left.size)
    return Measured(children=listed.join(drawn), values=np.concatenate([shares, np.ones(drawn.rows.size, np.int64)]))


def _sums(values: Codes, rows: Codes, size: int) -> Codes:
    order = np.argsort(rows, kind="stable")
    return sum_rows(values[order], rows[order], size=size)
