"""How the noisy children of a row become whole numbers that add up to their parent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.counts.counts import exact_sum
from sudare.methods.tree.empty import NO_LIMIT, Children, NoisyChildren, OpenRows, sample_empty
from sudare.methods.tree.possible import KeySet, find_first
from sudare.noise import CountNoise, Rng
from sudare.postprocess.shrinkage import estimate_spread
from sudare.postprocess.simplex import find_nearest_rows, sum_rows
from sudare.schema.arrays import Codes, Reals

NOISE_SHARE = 0.01  # of the records of a row that noise alone may set above the limit, in the mean
MOST_TRIES = 2**22  # proposals at a time
SHORT_ROW = 256  # children of a row that may all be looked at


class RowRule(Protocol):
    """A rule for rows; it sees noisy values, totals and public facts only."""

    def whole(self, rows: OpenRows) -> NDArray[np.bool_]:
        """Rows of which all children must be known, whatever their value."""

    def limits(self, rows: OpenRows, totals: Codes, noise: CountNoise) -> Codes:
        """Up to which value children of a row are all treated alike, whatever their value; NO_LIMIT: none are."""

    def repair(self, rows: OpenRows, noisy: NoisyChildren, limits: Codes, totals: Codes, rng: Rng) -> NoisyChildren:
        """Give published counts: those of `noisy` first, in their order, then any others."""


class ProjectRows:
    """The nearest row: whole numbers, not negative, that add up to the parent. Source: Terada 2017, 4.3-4.4."""

    def whole(self, rows: OpenRows) -> NDArray[np.bool_]:
        """None."""
        return np.zeros(rows.size, dtype=bool)

    def limits(self, rows: OpenRows, totals: Codes, noise: CountNoise) -> Codes:
        """No limits: which children survive depends on their values."""
        return np.full(totals.size, NO_LIMIT, dtype=np.int64)

    def repair(self, rows: OpenRows, noisy: NoisyChildren, limits: Codes, totals: Codes, rng: Rng) -> NoisyChildren:
        """Project every row."""
        values = find_nearest_rows(noisy.values, noisy.children.rows, totals=totals, rng=rng)
        return NoisyChildren(children=noisy.children, values=values)


class ShrinkRows:
    """Short rows are explained before they are projected; long ones are projected as they are.

    A child goes to its share of the parent, as far as noise alone explains how far it lies from it. With m the share
    (by cells) of a child in its parent's records and D its surprise, noisy value less its share of the row's sum:
    m + A/(A + variance) * D, A the spread of children about m beyond the noise, estimated over all rows of
    the step (`postprocess.shrinkage.estimate_spread`). Source: Robbins 1956; Efron, Morris 1973; Hay et al. 2010.
    """

    def __init__(self, cells: Callable[[Children], Reals], noise: CountNoise) -> None:
        """Take a function that counts the cells of children, and the noise."""
        self._cells, self._variance = cells, noise.variance

    def whole(self, rows: OpenRows) -> NDArray[np.bool_]:
        """Rows of which all children are looked at: short ones, as long as they are few."""
        is_short: NDArray[np.bool_] = (rows.slots <= SHORT_ROW).astype(bool)
        sizes = np.where(is_short, rows.slots, 0).astype(np.int64)
        if int(sizes.sum()) <= MOST_TRIES:
            return is_short
        order = np.lexsort(rows.nodes.T)  # by what nodes are: they come in an order that tells which hold people
        fits = np.empty(rows.size, dtype=bool)
        fits[order] = np.cumsum(sizes[order]) <= MOST_TRIES
        return is_short & fits

    def limits(self, rows: OpenRows, totals: Codes, noise: CountNoise) -> Codes:
        """No limits: which children survive depends on their values."""
        return np.full(totals.size, NO_LIMIT, dtype=np.int64)

    def repair(self, rows: OpenRows, noisy: NoisyChildren, limits: Codes, totals: Codes, rng: Rng) -> NoisyChildren:
        """Explain, then project."""
        chosen = np.flatnonzero(self.whole(rows)[noisy.children.rows])
        values = noisy.values.copy()
        if chosen.size:
            some = noisy.children.take(chosen)
            names = rows.step.children(rows.nodes, some.rows, some.codes)
            chosen = chosen[np.lexsort(names.T)]  # sums of floats depend on the order, and theirs on who is there
            values[chosen] = np.rint(self._explain(noisy.take(chosen), totals)).astype(np.int64)
        values = find_nearest_rows(values, noisy.children.rows, totals=totals, rng=rng)
        return NoisyChildren(children=noisy.children, values=values)

    def _explain(self, noisy: NoisyChildren, totals: Codes) -> Reals:
        owner, cells = noisy.children.rows, self._cells(noisy.children)
        share = cells / np.bincount(owner, weights=cells, minlength=totals.size)[owner]
        mean = share * totals[owner]
        sums = np.bincount(owner, weights=noisy.values, minlength=totals.size)
        surprise = noisy.values - share * sums[owner]
        free = np.maximum(1.0 - share, 1e-12)  # an only child has no surprise
        noise = np.full(owner.size, self._variance)
        slack = estimate_spread(mean, surprise**2 / free, noise)
        explained: Reals = mean + slack / (slack + noise) * surprise
        return explained


class SpreadThinly:
    """Children that exceed the noise stay as measured; the rest of the parent is spread evenly and thinly.

    In a row of a million children a hundred records are under the noise. The nearest row would put them, in heaps,
    where the noise is highest, and cut as much off the children that do stand out. Here a child is kept if it is above
    the row's limit; records left over go to the other children, one each, drawn at random (evenly where there are more
    records than children). If the kept ones exceed the parent, they are projected on it. In rows whose mean child is
    above the noise all children are projected.
    """

    def whole(self, rows: OpenRows) -> NDArray[np.bool_]:
        """None."""
        return np.zeros(rows.size, dtype=bool)

    def limits(self, rows: OpenRows, totals: Codes, noise: CountNoise) -> Codes:
        """Give the limits of `thin_limits`."""
        return thin_limits(totals, rows.capacity.astype(np.float64), noise, noise_share=NOISE_SHARE)

    def repair(self, rows: OpenRows, noisy: NoisyChildren, limits: Codes, totals: Codes, rng: Rng) -> NoisyChildren:
        """Keep, project what exceeds, spread what is left."""
        kept = keep(rows, noisy, limits, totals, rng)
        left = totals - _sums(kept.values, kept.children.rows, totals.size)
        return kept.join(spread(rows, kept, left, rng))


def keep(rows: OpenRows, noisy: NoisyChildren, limits: Codes, totals: Codes, rng: Rng) -> NoisyChildren:
    """Set children up to the limit to 0, keep the others; project them where they exceed the total or fill the row."""
    owner = noisy.children.rows
    is_kept = noisy.values > limits[owner]
    values = np.where(is_kept, noisy.values, 0)
    fills = (rows.capacity == np.bincount(owner[is_kept], minlength=totals.size)) | (limits == NO_LIMIT)
    tight = (_sums(values, owner, totals.size) >= totals) | fills
    chosen = np.flatnonzero(is_kept & tight[owner])
    values[chosen] = find_nearest_rows(noisy.values[chosen], owner[chosen], totals=np.where(tight, totals, 0), rng=rng)
    return NoisyChildren(children=noisy.children, values=values)


def spread(rows: OpenRows, kept: NoisyChildren, left: Codes, rng: Rng) -> NoisyChildren:
    """Spread `left` records of each row evenly over its possible children that are not among the kept ones.

    A row with fewer records than free children gives one each to a uniform choice of them.
    """
    taken = kept.take(kept.values > 0)
    free = rows.capacity - np.bincount(taken.children.rows, minlength=left.size)
    is_full = (left > 0) & (2 * left > free)
    seen = rows.seen(taken.children)
    listed = rows.listed(np.flatnonzero(is_full))
    listed = listed.take(~seen.holds(rows.keys(listed)))
    shares = find_nearest_rows(
        np.zeros(listed.rows.size, dtype=np.int64), listed.rows, totals=np.where(is_full, left, 0), rng=rng
    )
    drawn = choose(rows, np.where(is_full, 0, left), seen, rng)
    return NoisyChildren(
        children=listed.join(drawn), values=np.concatenate([shares, np.ones(drawn.rows.size, np.int64)])
    )


def choose(rows: OpenRows, sizes: Codes, seen: KeySet, rng: Rng) -> Children:
    """Choose distinct possible children, as many of each row as `sizes` says, none of `seen`, uniformly.

    Children are proposed row by row, more where many are refused, and the first new ones count.
    """
    drawn = Children(rows=np.empty(0, np.int64), codes=np.empty((0, rows.spans[0].shape[1]), np.int64))
    refused = np.maximum(rows.slots / np.maximum(rows.capacity, 1), 1.0).astype(np.float64)
    while (missing := sizes - np.bincount(drawn.rows, minlength=sizes.size)).any():
        wanted = np.ceil(missing * refused).astype(np.int64)
        tries = wanted if int(wanted.sum()) <= MOST_TRIES else missing
        more = rows.drawn(np.repeat(np.arange(sizes.size), tries), rng)
        drawn = drawn.join(more.take(~seen.holds(rows.keys(more))))
        drawn = drawn.take(find_first(rows.keys(drawn)))
        drawn = drawn.take(_first_of_rows(drawn.rows, sizes))
    return drawn


def _first_of_rows(rows: Codes, sizes: Codes) -> Codes:
    """The places of the first entries of every row, as many as `sizes` says; in the order of the entries."""
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(sizes.size))
    position = np.arange(rows.size) - starts[rows[order]]
    return np.sort(order[position < sizes[rows[order]]])


def thin_limits(totals: Codes, capacity: NDArray[np.float64], noise: CountNoise, *, noise_share: float) -> Codes:
    """Find the limits L of rows of N = room children and x = totals records: N * E(Z; Z > L) = noise_share * x.

    NO_LIMIT where the mean child is above the noise (one standard deviation). Limits are public; floats are good
    enough, since any choice is as private.

    >>> from fractions import Fraction
    >>> from sudare.noise import GeometricNoise
    >>> noise = GeometricNoise(scale=Fraction(20))
    >>> thin_limits(np.array([100, 10**6]), np.array([1e9, 1e3]), noise, noise_share=0.01).tolist()
    [526, -4611686018427387904]
    """
    limits: Codes = noise.limits(np.log(capacity / (noise_share * np.maximum(totals, 1))))
    limits[totals > noise.spread * capacity] = NO_LIMIT
    return limits


def _sums(values: Codes, rows: Codes, size: int) -> Codes:
    order = np.argsort(rows, kind="stable")
    return sum_rows(values[order], rows[order], size=size)


# Cells that exceed the noise of the whole table: they are published as measured, before the tree is opened.


HEAVY_NOISE_SHARE = 0.002  # of all records that noise alone may set above the limit of the table, in the mean


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HeavyCells:
    """All cells that hold people and the empty ones that are heavy.

    `ranks` name them; `values` is what is left of each for the tree; `noisy` is its measured value. `is_out` marks
    those that are heavy, `published` their counts; the others are measured as at most `limit`, and so is every cell
    that is not here. `left` records are left for the tree.
    """

    ranks: Codes
    values: Codes
    noisy: Codes
    is_heavy: NDArray[np.bool_]
    published: Codes
    limit: int | None
    left: int


def find_heavy_cells(
    rows: OpenRows, full: NoisyChildren, values: Codes, *, total: int, noise: CountNoise, rng: Rng
) -> HeavyCells:
    """Find the cells above the limit of the whole table.

    `rows` is the one row of all cells, `full` are its noisy cells that hold people, `values` their exact counts. If the
    heavy cells exceed the total, the nearest table of them is published.
    """
    totals = np.array([total], dtype=np.int64)
    limits = thin_limits(totals, rows.capacity.astype(np.float64), noise, noise_share=HEAVY_NOISE_SHARE)
    if int(limits[0]) == NO_LIMIT:
        return find_no_heavy_cells(rows, full, values, total=total)
    new_empty = sample_empty(rows, full, totals=totals, limits=limits, noise=noise, rng=rng)
    known = full.join(
        new_empty.take(new_empty.values > limits[0])
    )  # what lies below is forgotten, and drawn again if need be
    kept = keep(rows, known, limits, totals, rng)
    is_heavy = known.values > limits[0]
    return HeavyCells(
        ranks=rows.step.children(rows.nodes, known.children.rows, known.children.codes),
        values=np.where(is_heavy, 0, np.concatenate([values, np.zeros(is_heavy.size - values.size, np.int64)])),
        noisy=known.values,
        is_heavy=is_heavy,
        published=kept.values[is_heavy],
        limit=int(limits[0]),
        left=total - exact_sum(kept.values),
    )


def find_no_heavy_cells(rows: OpenRows, full: NoisyChildren, values: Codes, *, total: int) -> HeavyCells:
    """Leave everything to the tree."""
    return HeavyCells(
        ranks=rows.step.children(rows.nodes, full.children.rows, full.children.codes),
        values=values,
        noisy=full.values,
        is_heavy=np.zeros(values.size, dtype=bool),
        published=full.values[:0],
        limit=None,
        left=total,
    )
