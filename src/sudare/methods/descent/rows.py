"""The rows of one step: open nodes and the children each of them has, listed where few and proposed where many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts.sparse import exact_sum
from sudare.mechanisms import Rng
from sudare.methods.descent.possible import Possible
from sudare.methods.descent.seen import Seen
from sudare.methods.descent.tree import Step, take

Codes = NDArray[np.int64]

WORD = 2**62
LAST = np.uint64(2**64 - 1)
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
        return Children(rows=np.concatenate([self.rows, others.rows]), codes=np.concatenate([self.codes, others.codes]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Open nodes (rows, attributes) of the level above a step; children in `closed` are no longer theirs."""

    step: Step
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
    def room(self) -> NDArray[Any]:
        """How many children each row has that are possible and not closed, exactly."""
        room = self.slots if self.possible is None else self.possible.children(self.step, self.nodes)
        if self.closed is None:
            return room
        return room - np.bincount(self.closed.rows, minlength=self.size)

    def seen(self, children: Children) -> Seen:
        """The set of some children and all that are closed."""
        return Seen(self.keys(children if self.closed is None else children.join(self.closed)))

    def keys(self, children: Children) -> Codes:
        """Give each child a key of one or more words; equal keys mean equal children."""
        words = self.step.radix.encode(children.codes)
        if self.size * self.step.radix.cells < WORD:
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
        ends = np.cumsum(weights)
        slot = rng.uniform_below(int(ends[-1]), size)
        owner = np.searchsorted(ends, slot, side="right")
        rest = slot - (ends - weights)[owner]
        offsets = np.empty((size, widths.shape[1]), dtype=np.int64, order="F")
        for column in range(widths.shape[1]):
            if column in weighed:
                rest, offsets[:, column] = np.divmod(rest, widths[owner, column])
            else:
                offsets[:, column] = rng.uniform_below(int(widths[:, column].max()), size)
        fits = np.flatnonzero((offsets < take(widths, owner)).all(axis=1))
        owner, offsets = owner[fits], take(offsets, fits)
        return self._possible_ones(Children(rows=rows[owner], codes=take(firsts, owner) + offsets))

    def drawn(self, rows: Codes, rng: Rng) -> Children:
        """Propose one child for each entry of `rows`, uniform over the children of its row; some may be refused."""
        codes = take(self.spans[0], rows)
        for column, widths in enumerate(self.spans[1].T):
            codes[:, column] += uniform_below_each(widths[rows], rng)
        return self._possible_ones(Children(rows=rows, codes=codes))

    def _possible_ones(self, children: Children) -> Children:
        if self.possible is None:
            return children
        nodes = self.step.children(self.nodes, children.rows, children.codes)
        return children.take(~self.possible.is_impossible(nodes, self.step.below))


def uniform_below_each(bounds: Codes, rng: Rng) -> Codes:
    """Draw one uniform whole number below each bound, exactly.

    A 64-bit word counts if it is below the largest multiple of its bound, and is then reduced.

    >>> from sudare.mechanisms import SeededRng
    >>> bool((uniform_below_each(np.array([1, 10, 2**62]), SeededRng(1)) < [1, 10, 2**62]).all())
    True
    """
    drawn = np.empty(bounds.size, dtype=np.int64)
    left = np.arange(bounds.size)
    while left.size:
        bound = bounds[left].astype(np.uint64)
        words = rng.words64(left.size)
        counts = words <= LAST - (LAST % bound + np.uint64(1)) % bound
        drawn[left[counts]] = (words % bound)[counts]
        left = left[~counts]
    return drawn


def product(widths: Codes) -> NDArray[Any]:
    """Multiply along rows, in Python integers where 64 bits might not do."""
    largest = 1
    for width in widths.max(axis=0, initial=1).tolist():
        largest *= width
    fits = largest < WORD
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
        if widest > int(widths[:, column].min()) and most * widest < WORD:
            weighed.add(column)
            most *= widest
            weights = weights * widths[:, column]
    return weighed, weights
