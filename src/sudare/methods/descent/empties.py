"""Noise of the empty children of many rows at once: only those are drawn that can survive the repair of their row.

All rows share one level that is lowered step by step. Above it every child of a row that is still open is known; a row
is finished as soon as what is known of it exceeds its total above the level, because its threshold then lies above
every unknown value. Proof: proofs/descent.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.mechanisms import Rng, geometric_noise
from sudare.mechanisms.one_sided import one_sided_noise
from sudare.mechanisms.zeros import Stratum, count_in_stratum, draw_in_stratum
from sudare.methods.descent.rows import NONE, Children, Rows, add_up
from sudare.methods.descent.seen import Seen, first_seen

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]

FEW = 2**16  # children of all open rows together that are simply listed
TIMES_KNOWN = 4  # also listed: up to so many times the children that are known already
MOST_TOTAL = 2**52  # whole numbers up to here are exact in floats
FIRST_PER_ROW = 0.5  # empty children that a row sees above the first level, in the mean
NO_LIMIT = -(2**62)
MOST_TRIES = 2**22  # proposals at a time
STEP = 0.7  # of the scale, by which the level falls: about twice as many children are seen


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measured:
    """Children with their noisy sums."""

    children: Children
    values: Codes

    def take(self, chosen: NDArray[np.generic]) -> Measured:
        """Keep some of them."""
        return Measured(children=self.children.take(chosen), values=self.values[chosen])

    def join(self, others: Measured) -> Measured:
        """These, then the others."""
        return Measured(
            children=self.children.join(others.children), values=np.concatenate([self.values, others.values])
        )


def reveal(
    rows: Rows,
    full: Measured,
    *,
    totals: Codes,
    limits: Codes,
    scale: Fraction,
    most: int | None = None,
    whole: NDArray[np.bool_] | None = None,
    rng: Rng,
) -> Measured:
    """Draw the noise of the empty children that can survive; `full` are the noisy children that hold people.

    `most` is what the noise of the empty children is known to be at most, if anything is known; `whole` marks rows of
    which all children are asked for.

    Values that are at most their row's limit (NO_LIMIT: none) will not be looked at, nor those below the threshold of
    their row.

    Law: as if every empty child had noise, of which those that will be looked at are kept, and some others.
    """
    if totals.size and int(totals.max()) >= MOST_TOTAL:
        raise ParameterError("a table of 2**52 records or more is too large; count in coarser units")
    search = _Search(rows, full, totals, limits, scale, most, rng)
    if whole is not None and whole.any():
        search.list_the_rest(whole)
    while search.open.size:
        if search.is_short():
            search.list_the_rest()
        else:
            search.lower()
    return search.found


class _Search:
    """The state of `reveal`: the level, what is known above it, and the rows still open."""

    def __init__(
        self, rows: Rows, full: Measured, totals: Codes, limits: Codes, scale: Fraction, most: int | None, rng: Rng
    ) -> None:
        self.rows, self.totals, self.limits, self.scale, self.rng = rows, totals, limits, scale, rng
        self.level = most  # what unknown values are at most; None: anything
        self.known = np.bincount(full.children.rows, minlength=rows.size)  # children with a value, by row
        self.masses = _Masses(full, rows.size)
        self.found = Measured(children=full.children.take(NONE), values=full.values[NONE])
        self.taken = rows.seen(full.children)
        self.open: Codes = np.flatnonzero((totals > 0) & self._goes_on(np.arange(rows.size)))

    def is_short(self) -> bool:
        """Tell whether all children of the open rows are few, in themselves or against those already known."""
        slots = add_up(self.rows.slots[self.open])
        return slots <= max(FEW, TIMES_KNOWN * int(self.known[self.open].sum()))

    def list_the_rest(self, chosen: NDArray[np.bool_] | None = None) -> None:
        """Give every child of the open rows (or the chosen of them) a value: at most the level, the rest of the law."""
        is_last = np.ones(self.open.size, dtype=bool) if chosen is None else chosen[self.open]
        listed = self.rows.listed(self.open[is_last])
        keys = self.rows.keys(listed)
        unseen = listed.take(~(self.taken.holds(keys) | self._found_keys().holds(keys)))
        values = draw_at_most(unseen.rows.size, scale=self.scale, most=self.level, rng=self.rng)
        self.found = self.found.join(Measured(children=unseen, values=values))
        self.open = self.open[~is_last]

    def lower(self) -> None:
        """Lower the level by one stratum and see which rows are finished."""
        unseen = add_up(self.rows.room[self.open]) - int(self.known[self.open].sum())
        above = self._next(unseen)
        stratum = Stratum(scale=self.scale, above=above, at_most=self.level)
        values = draw_in_stratum(count_in_stratum(unseen, stratum, self.rng), stratum, self.rng)
        children = self._places(values.size)
        self.found = self.found.join(Measured(children=children, values=values))
        self.known += np.bincount(children.rows, minlength=self.rows.size)
        self.masses.lower(above)
        self.masses.add(children.rows, values)
        self.level = above
        self.open = self.open[self._goes_on(self.open)]

    def _goes_on(self, rows: Codes) -> NDArray[np.bool_]:
        """Tell which rows may still be changed by unknown values, all of which are at most the level."""
        is_below = self.masses.excess[rows] <= self.totals[rows]  # else the threshold is above the level
        goes_on: NDArray[np.bool_] = is_below & (self.rows.room[rows] > self.known[rows])
        return goes_on if self.level is None else goes_on & (self.limits[rows] < self.level)

    def _next(self, unseen: int) -> int:
        """The next level; any choice gives the same law. A stratum does not cross 0, where the law turns."""
        scale, lowest = float(self.scale), int(self.limits[self.open].min())
        if lowest > NO_LIMIT:  # straight to the lowest limit, unless too many would be seen
            step = math.ceil(scale * max(0.0, math.log(unseen) - math.log(2 * max(FEW, self.open.size))))
            lower = max(lowest, step)
            lower = min(lower, self.level - 1) if self.level is not None else lower
        elif self.level is None:
            per_row = max(2.0, unseen / (FIRST_PER_ROW * self.open.size))
            lower = max(-1, math.floor(scale * math.log(per_row / 2)))
        else:
            lower = self.level - max(1, math.ceil(STEP * scale))
        return -1 if lower < -1 and (self.level is None or self.level > -1) else lower

    def _places(self, size: int) -> Children:
        """Draw distinct children, uniform over all that are empty, possible and unknown in the open rows."""
        seen, drawn = self._found_keys(), self.found.children.take(NONE)
        share = add_up(self.rows.slots[self.open]) / max(1, add_up(self.rows.room[self.open]))
        while drawn.rows.size < size:
            wanted = min(MOST_TRIES, math.ceil((size - drawn.rows.size) * share * 1.1) + 16)
            more = self.rows.proposed(self.open, wanted, self.rng)
            keys = self.rows.keys(more)
            drawn = drawn.join(more.take(~(self.taken.holds(keys) | seen.holds(keys))))
            drawn = drawn.take(first_seen(self.rows.keys(drawn)))
        return drawn.take(slice(0, size))

    def _found_keys(self) -> Seen:
        """Keys of the empty children drawn so far in rows that are still open."""
        is_open = np.zeros(self.rows.size, dtype=bool)
        is_open[self.open] = True
        return Seen(self.rows.keys(self.found.children.take(is_open[self.found.children.rows])))


class _Masses:
    """By row: sum of (value - level) over the known values above the level, lowered in one pass over the values.

    In floats, yet exact for the comparison with totals below 2**52: sums of whole numbers below 2**53 are exact, and
    a larger sum stays larger.
    """

    def __init__(self, full: Measured, size: int) -> None:
        order = np.argsort(-full.values, kind="stable")
        self._values, self._rows, self._size = full.values[order], full.children.rows[order], size
        self._next = 0
        self._level: int | None = None
        self._above = np.zeros(size)
        self.excess = np.zeros(size)

    def lower(self, level: int) -> None:
        """Lower the level and take in the full children that now lie above it."""
        if self._level is not None:
            self.excess += self._above * (self._level - level)
        self._level = level
        end = int(np.searchsorted(-self._values, -level))  # values in falling order, those above the level
        self.add(self._rows[self._next : end], self._values[self._next : end])
        self._next = end

    def add(self, rows: Codes, values: Codes) -> None:
        """Take in values above the level."""
        height = values.astype(np.float64) - float(self._level or 0)
        self.excess += np.bincount(rows, weights=height, minlength=self._size)
        self._above += np.bincount(rows, minlength=self._size)


def draw_at_most(size: int, *, scale: Fraction, most: int | None, rng: Rng) -> Codes:
    """Draw two-sided geometric values given that they are at most `most` (None: no condition), exactly.

    >>> from sudare.mechanisms import SeededRng
    >>> bool((draw_at_most(100, scale=Fraction(5), most=2, rng=SeededRng(1)) <= 2).all())
    True
    """
    if most is not None and most < 0:  # below 0 the law falls by one factor a step
        return most - one_sided_noise(size, scale=scale, rng=rng)
    values = geometric_noise(size, scale=scale, rng=rng)
    while most is not None and (beyond := np.flatnonzero(values > most)).size:
        values[beyond] = geometric_noise(beyond.size, scale=scale, rng=rng)
    return values
