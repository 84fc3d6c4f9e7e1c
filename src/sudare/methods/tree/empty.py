"""The rows of one step, open nodes and their children, and the noise of the children that hold nobody."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts.counts import exact_sum
from sudare.errors import ParameterError
from sudare.methods.tree.levels import LevelStep, join, take
from sudare.methods.tree.possible import KeySet, Possible, find_first
from sudare.noise import CountNoise, Rng
from sudare.noise.uniform import draw_below, draw_below_each, draw_by_weight
from sudare.noise.zeros import Stratum, count_in_stratum, draw_at_most, draw_in_stratum
from sudare.schema.arrays import Codes

WORD_LIMIT = 2**62
NONE = slice(0, 0)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Children:
    """Children of some rows: the row of each, and its codes in the attributes that the step changes."""

    rows: Codes
    codes: Codes

    def take(self, chosen: NDArray[np.generic] | slice) -> Children:
        """Keep some of them."""
        return Children(rows=self.rows[chosen], codes=take(self.codes, chosen))

    def join(self, others: Children) -> Children:
        """These, then the others."""
        return Children(rows=np.concatenate([self.rows, others.rows]), codes=join([self.codes, others.codes]))


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenRows:
    """Open nodes (rows, attributes) of the level above a step; children in `closed` are no longer theirs."""

    step: LevelStep
    nodes: Codes
    possible: Possible | None = None
    closed: Children | None = None

    @property
    def size(self) -> int:
        """Count the rows."""
        return int(self.nodes.shape[0])

    @cached_property
    def spans(self) -> tuple[Codes, Codes]:
        """First child and number of children by changed attribute, (rows, changed) each."""
        return self.step.spans(self.nodes)

    @cached_property
    def slots(self) -> NDArray[Any]:
        """How many children each row has, possible or not; Python integers where 64 bits might not do."""
        return product(self.spans[1])

    @cached_property
    def capacity(self) -> NDArray[Any]:
        """How many children each row has that are possible and not closed, exactly."""
        capacity = self.slots if self.possible is None else self.possible.children(self.step, self.nodes)
        if self.closed is None:
            return capacity
        return capacity - np.bincount(self.closed.rows, minlength=self.size)

    def seen(self, children: Children) -> KeySet:
        """The set of some children and all that are closed."""
        return KeySet(self.keys(children if self.closed is None else children.join(self.closed)))

    def keys(self, children: Children) -> Codes:
        """Give each child a key of one or more words; equal keys mean equal children."""
        words = self.step.radix.encode(children.codes)
        if self.size * self.step.radix.cells < WORD_LIMIT:
            return (children.rows * self.step.radix.cells + words[:, 0])[:, None]
        return np.column_stack([children.rows, words])

    def listed(self, rows: Codes) -> Children:
        """List all possible children of some rows."""
        firsts, widths = take(self.spans[0], rows), take(self.spans[1], rows)
        sizes = widths.prod(axis=1)
        owner = np.repeat(np.arange(rows.size), sizes)
        rest = np.arange(owner.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        codes = np.empty((owner.size, widths.shape[1]), dtype=np.int64, order="F")
        for column in reversed(range(widths.shape[1])):
            rest, codes[:, column] = np.divmod(rest, widths[owner, column])
        codes += take(firsts, owner)
        return self._possible_ones(Children(rows=rows[owner], codes=codes))

    def proposed(self, rows: Codes, size: int, rng: Rng) -> Children:
        """Propose `size` children, uniform over all children of the given rows; fewer are left if some are refused.

        A row comes with probability proportional to the children it has in the attributes whose number of children
        fits a word; a code of the others is drawn from the widest range of any row, and refused beyond the row's own.
        """
        firsts, widths = take(self.spans[0], rows), take(self.spans[1], rows)
        weighed, weights = _weigh(widths)
        owner, rest = draw_by_weight(np.cumsum(weights), size, rng=rng)
        offsets = np.empty((size, widths.shape[1]), dtype=np.int64, order="F")
        for column in range(widths.shape[1]):
            if column in weighed:
                rest, offsets[:, column] = np.divmod(rest, widths[owner, column])
            else:
                offsets[:, column] = draw_below(int(widths[:, column].max()), size, rng=rng)
        fits = np.flatnonzero((offsets < take(widths, owner)).all(axis=1))
        owner, offsets = owner[fits], take(offsets, fits)
        return self._possible_ones(Children(rows=rows[owner], codes=take(firsts, owner) + offsets))

    def drawn(self, rows: Codes, rng: Rng) -> Children:
        """Propose one child for each entry of `rows`, uniform over the children of its row; some may be refused."""
        codes = take(self.spans[0], rows)
        for column, widths in enumerate(self.spans[1].T):
            codes[:, column] += draw_below_each(widths[rows], rng=rng)
        return self._possible_ones(Children(rows=rows, codes=codes))

    def _possible_ones(self, children: Children) -> Children:
        if self.possible is None:
            return children
        nodes = self.step.children(self.nodes, children.rows, children.codes)
        return children.take(~self.possible.is_impossible(nodes, self.step.below))


def product(widths: Codes) -> NDArray[Any]:
    """Multiply along rows, in Python integers where 64 bits might not do."""
    largest = 1
    for width in widths.max(axis=0, initial=1).tolist():
        largest *= width
    fits = largest < WORD_LIMIT
    products: NDArray[Any] = widths.prod(axis=1) if fits else widths.astype(object).prod(axis=1)
    return products


def add_up(numbers: NDArray[Any]) -> int:
    """Add up to a Python integer, exactly."""
    return sum(numbers.tolist()) if numbers.dtype == object else exact_sum(numbers)


def _weigh(widths: Codes) -> tuple[set[int], Codes]:
    """Choose the columns whose product is a row's weight: all that vary and whose weights add up within a word."""
    weighed: set[int] = set()
    most = widths.shape[0]
    weights = np.ones(widths.shape[0], dtype=np.int64)
    for column in range(widths.shape[1]):
        widest = int(widths[:, column].max())
        if widest > int(widths[:, column].min()) and most * widest < WORD_LIMIT:
            weighed.add(column)
            most *= widest
            weights = weights * widths[:, column]
    return weighed, weights


# Noise of the empty children of many rows at once: only those are drawn that can survive the repair of their row.
#
# All rows share one level that is lowered step by step. Above it every child of a row that is still open is known; a
# row is finished as soon as what is known of it exceeds its total above the level, because its threshold then lies
# above every unknown value. Proof: proofs/tree.md


LISTED_CHILDREN = 2**16  # children of all open rows together that are simply listed
TIMES_KNOWN = 4  # also listed: up to so many times the children that are known already
MOST_TOTAL = 2**52  # whole numbers up to here are exact in floats
FIRST_PER_ROW = 0.5  # empty children that a row sees above the first level, in the mean
NO_LIMIT = -(2**62)
MOST_TRIES = 2**22  # proposals at a time
LEVEL_STEP = 0.7  # of the scale, by which the level falls: about twice as many children are seen


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NoisyChildren:
    """Children with their noisy sums."""

    children: Children
    values: Codes

    def take(self, chosen: NDArray[np.generic]) -> NoisyChildren:
        """Keep some of them."""
        return NoisyChildren(children=self.children.take(chosen), values=self.values[chosen])

    def join(self, others: NoisyChildren) -> NoisyChildren:
        """These, then the others."""
        return NoisyChildren(
            children=self.children.join(others.children), values=np.concatenate([self.values, others.values])
        )


def sample_empty(
    rows: OpenRows,
    full: NoisyChildren,
    *,
    totals: Codes,
    limits: Codes,
    noise: CountNoise,
    most: int | None = None,
    whole: NDArray[np.bool_] | None = None,
    rng: Rng,
) -> NoisyChildren:
    """Draw the noise of the empty children that can survive; `full` are the noisy children that hold people.

    `most` is what the noise of the empty children is known to be at most, if anything is known; `whole` marks rows of
    which all children are asked for.

    Values that are at most their row's limit (NO_LIMIT: none) will not be looked at, nor those below the threshold of
    their row.

    Law: as if every empty child had noise, of which those that will be looked at are kept, and some others.
    """
    if totals.size and int(totals.max()) >= MOST_TOTAL:
        raise ParameterError("a table of 2**52 records or more is too large; count in coarser units")
    search = _Search(rows, full, totals, limits, noise, most, rng)
    if whole is not None and whole.any():
        search.list_the_rest(whole)
    while search.open.size:
        if search.is_short():
            search.list_the_rest()
        else:
            search.lower()
    return search.drawn


class _Search:
    """The state of `sample_empty`: the level, what is known above it, and the rows still open."""

    def __init__(
        self,
        rows: OpenRows,
        full: NoisyChildren,
        totals: Codes,
        limits: Codes,
        noise: CountNoise,
        most: int | None,
        rng: Rng,
    ) -> None:
        self.rows, self.totals, self.limits, self.noise, self.rng = rows, totals, limits, noise, rng
        self.level = most  # what unknown values are at most; None: anything
        self.known = np.bincount(full.children.rows, minlength=rows.size)  # children with a value, by row
        self.masses = _Masses(full, rows.size)
        self.drawn = NoisyChildren(children=full.children.take(NONE), values=full.values[NONE])
        self.taken = rows.seen(full.children)
        self.open: Codes = np.flatnonzero((totals > 0) & self._goes_on(np.arange(rows.size)))

    def is_short(self) -> bool:
        """Tell whether all children of the open rows are few, in themselves or against those already known."""
        slots = add_up(self.rows.slots[self.open])
        return slots <= max(LISTED_CHILDREN, TIMES_KNOWN * int(self.known[self.open].sum()))

    def list_the_rest(self, chosen: NDArray[np.bool_] | None = None) -> None:
        """Give every child of the open rows (or the chosen of them) a value: at most the level, the rest of the law."""
        is_last = np.ones(self.open.size, dtype=bool) if chosen is None else chosen[self.open]
        listed = self.rows.listed(self.open[is_last])
        keys = self.rows.keys(listed)
        unseen = listed.take(~(self.taken.holds(keys) | self._drawn_keys().holds(keys)))
        values = draw_at_most(unseen.rows.size, noise=self.noise, most=self.level, rng=self.rng)
        self.drawn = self.drawn.join(NoisyChildren(children=unseen, values=values))
        self.open = self.open[~is_last]

    def lower(self) -> None:
        """Lower the level by one stratum and see which rows are finished."""
        unseen = add_up(self.rows.capacity[self.open]) - int(self.known[self.open].sum())
        above = self._next(unseen)
        stratum = Stratum(noise=self.noise, above=above, at_most=self.level)
        values = draw_in_stratum(count_in_stratum(unseen, stratum, self.rng), stratum, self.rng)
        children = self._draw_places(values.size)
        self.drawn = self.drawn.join(NoisyChildren(children=children, values=values))
        self.known += np.bincount(children.rows, minlength=self.rows.size)
        self.masses.lower(above)
        self.masses.add(children.rows, values)
        self.level = above
        self.open = self.open[self._goes_on(self.open)]

    def _goes_on(self, rows: Codes) -> NDArray[np.bool_]:
        """Tell which rows may still be changed by unknown values, all of which are at most the level."""
        is_below = self.masses.excess[rows] <= self.totals[rows]  # else the threshold is above the level
        goes_on: NDArray[np.bool_] = is_below & (self.rows.capacity[rows] > self.known[rows])
        return goes_on if self.level is None else goes_on & (self.limits[rows] < self.level)

    def _next(self, unseen: int) -> int:
        """The next level; any choice gives the same law. A stratum does not cross 0, where the law turns."""
        lowest = int(self.limits[self.open].min())
        if lowest > NO_LIMIT:  # straight to the lowest limit, unless too many would be seen
            odds = math.log(unseen) - math.log(2 * max(LISTED_CHILDREN, self.open.size))
            step = math.ceil(self.noise.reach(max(0.0, odds)))
            lower = max(lowest, step)
            lower = min(lower, self.level - 1) if self.level is not None else lower
        elif self.level is None:
            per_row = max(2.0, unseen / (FIRST_PER_ROW * self.open.size))
            lower = max(-1, math.floor(self.noise.reach(math.log(per_row / 2))))
        else:
            lower = self.level - max(1, math.ceil(LEVEL_STEP * self.noise.slope(self.level)))
        return -1 if lower < -1 and (self.level is None or self.level > -1) else lower

    def _draw_places(self, size: int) -> Children:
        """Draw distinct children, uniform over all that are empty, possible and unknown in the open rows."""
        seen, places = self._drawn_keys(), self.drawn.children.take(NONE)
        share = add_up(self.rows.slots[self.open]) / max(1, add_up(self.rows.capacity[self.open]))
        while places.rows.size < size:
            wanted = min(MOST_TRIES, math.ceil((size - places.rows.size) * share * 1.1) + 16)
            more = self.rows.proposed(self.open, wanted, self.rng)
            keys = self.rows.keys(more)
            places = places.join(more.take(~(self.taken.holds(keys) | seen.holds(keys))))
            places = places.take(find_first(self.rows.keys(places)))
        return places.take(slice(0, size))

    def _drawn_keys(self) -> KeySet:
        """Keys of the empty children drawn so far in rows that are still open."""
        is_open = np.zeros(self.rows.size, dtype=bool)
        is_open[self.open] = True
        return KeySet(self.rows.keys(self.drawn.children.take(is_open[self.drawn.children.rows])))


class _Masses:
    """By row: sum of (value - level) over the known values above the level, lowered in one pass over the values.

    In floats, yet exact for the comparison with totals below 2**52: sums of whole numbers below 2**53 are exact, and
    a larger sum stays larger.
    """

    def __init__(self, full: NoisyChildren, size: int) -> None:
        order = np.argsort(-full.values)
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
