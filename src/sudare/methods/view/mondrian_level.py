"""All blocks of one depth, side by side in a few arrays: a level of the tree is tested and cut in one go.

Blocks without records are kept apart, as boxes alone: most blocks are empty, and nothing in them needs looking at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.mechanisms import Rng
from sudare.mechanisms.rows import uniform_each
from sudare.methods.view.cuts import shared_out, times

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.unsignedinteger]  # (stored cells, attributes), as narrow as they fit: what is read stays near


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Row i is the box lows[i]..highs[i], both ends included."""

    lows: Integers
    highs: Integers

    def __len__(self) -> int:
        return len(self.lows)

    @classmethod
    def joined(cls, parts: Sequence[Boxes]) -> Boxes:
        """All boxes of all parts."""
        return cls(np.concatenate([part.lows for part in parts]), np.concatenate([part.highs for part in parts]))

    def of(self, which: Mask | slice) -> Boxes:
        """Some of them."""
        return Boxes(self.lows[which], self.highs[which])

    def widths(self) -> Integers:
        """How many values of every attribute a box spans."""
        return self.highs - self.lows + 1

    def cells(self) -> Integers:
        """How many cells a box has; 2**62 stands for that and anything beyond."""
        widths = self.widths()
        found = np.ones(len(self), dtype=np.int64)
        for axis in range(widths.shape[1]):
            found = times(found, widths[:, axis])
        return found

    def slices(self) -> Integers:
        """How many cells lie at one value of an attribute, (boxes, attributes); the same bound."""
        widths = self.widths()
        before, after = np.ones_like(widths), np.ones_like(widths)
        for axis in range(1, widths.shape[1]):
            before[:, axis] = times(before[:, axis - 1], widths[:, axis - 1])
            after[:, -axis - 1] = times(after[:, -axis], widths[:, -axis])
        return times(before, after)

    def anywhere(self, rng: Rng) -> tuple[Integers, Integers]:
        """Choose a cut of every box, all alike: its attribute, and the last value on its left."""
        spans = self.highs - self.lows
        ends = spans.cumsum(axis=1)
        place = uniform_each(ends[:, -1], rng=rng)
        axis: Integers = (place[:, None] >= ends).sum(axis=1)
        rows = np.arange(len(self))
        return axis, self.lows[rows, axis] + place - ends[rows, axis] + spans[rows, axis]

    def split(self, axis: Integers, border: Integers) -> tuple[Boxes, Boxes]:
        """The boxes left and right of the cuts."""
        rows, highs, lows = np.arange(len(self)), self.highs.copy(), self.lows.copy()
        highs[rows, axis], lows[rows, axis] = border, border + 1
        return Boxes(self.lows, highs), Boxes(lows, self.highs)


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """Boxes with records: which stored cells lie in each (box after box), their counts, how many, and the sum."""

    boxes: Boxes
    rows: Integers
    values: Integers
    sizes: Integers
    sums: Integers

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def starts(self) -> Integers:
        """Where the stored cells of every box begin."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def owners(self) -> Integers:
        """The box of every stored cell."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def of(self, which: Mask) -> Filled:
        """Some of the boxes."""
        if bool(which.all()):
            return self
        kept = np.repeat(which, self.sizes)
        return Filled(self.boxes.of(which), self.rows[kept], self.values[kept], self.sizes[which], self.sums[which])

    def between(self, first: int, last: int) -> Filled:
        """The boxes first, ..., last - 1."""
        start, stop = int(self.sizes[:first].sum()), int(self.sizes[:last].sum())
        boxes, rows = slice(first, last), slice(start, stop)
        return Filled(self.boxes.of(boxes), self.rows[rows], self.values[rows], self.sizes[boxes], self.sums[boxes])

    def errors(self, cells: Integers) -> Integers:
        """ceil(AE) of every box: `cuts.aggregation_error` for all of them."""
        found = 2 * self.sums - shared_out(self.sums, self.sizes, cells)
        dense = self.sums > cells
        if not bool(dense.any()):
            return found
        part, room = self.of(dense), cells[dense]
        above = part.values > (part.sums // room)[part.owners]
        heavy = np.add.reduceat(np.where(above, part.values, 0), part.starts)
        many = np.add.reduceat(above, part.starts, dtype=np.int64)
        found[dense] = 2 * heavy - shared_out(part.sums, many, room)
        return found

    def is_flat(self, cells: Integers) -> Mask:
        """Tell without scoring that all cuts have the score -2S: the least side has more than 2S * size cells."""
        slices = cells // self.boxes.widths().max(axis=1)
        found: Mask = self.sizes <= (slices - 1) // (2 * self.sums)
        return found

    def split(self, columns: Codes, axis: Integers, border: Integers) -> tuple[Filled, Boxes]:
        """Cut every box: the halves with records, and the boxes of those without."""
        starts, owners = self.starts, self.owners
        is_left = columns.reshape(-1)[self.rows * columns.shape[1] + axis[owners]] <= border[owners]
        sizes = np.add.reduceat(is_left, starts, dtype=np.int64)
        sums = np.add.reduceat(np.where(is_left, self.values, 0), starts)
        left, right = self.boxes.split(axis, border)
        is_right = ~is_left
        both = Filled(
            Boxes.joined([left, right]),
            np.concatenate([self.rows[is_left], self.rows[is_right]]),
            np.concatenate([self.values[is_left], self.values[is_right]]),
            np.concatenate([sizes, self.sizes - sizes]),
            np.concatenate([sums, self.sums - sums]),
        )
        is_filled = both.sizes > 0
        return both.of(is_filled), both.boxes.of(~is_filled)


def whole(counts: Counts) -> tuple[Filled, Boxes, Codes]:
    """The one block of the first level, as one with records or one without, and the codes of the stored cells."""
    tops = np.array([counts.schema.sizes], dtype=np.int64) - 1
    boxes = Boxes(np.zeros_like(tops), tops)
    is_filled = np.array([counts.nonzero > 0])
    columns = np.ascontiguousarray(counts.columns(), dtype=np.min_scalar_type(int(tops.max())))
    filled = Filled(
        boxes.of(is_filled),
        np.arange(counts.nonzero),
        counts.values,
        np.array([counts.nonzero])[is_filled],
        np.array([counts.total], dtype=np.int64)[is_filled],
    )
    return filled, boxes.of(~is_filled), columns
