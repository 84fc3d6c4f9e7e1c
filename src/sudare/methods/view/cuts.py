"""Scores of every cut of a block, in whole numbers, from prefix sums along each attribute.

AE(B) = sum over cells of |x - S/|B||, the aggregation error of a block. With mean = S/|B| it is 2 * sum over x > mean
of (x - mean); where every filled cell exceeds the mean (mean <= 1, nearly always when the domain is larger than the
table) it is 2S - 2S * nnz/|B|, so prefix sums of (S, nnz) score all cuts of a block in one pass.

One block at a time: what `mondrian_scores` does for a whole level is this, and is tested against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.methods.view.budget import ViewBudget
from sudare.noise import Rng
from sudare.noise.rows import choose_evenly, exponential_rows, permute_and_flip_rows
from sudare.schema.arrays import Booleans, Integers

UNIT = 16
BEYOND_SCORES = 2**62
AE_SENSITIVITY = 2  # of ceil(AE): AE itself changes by at most 2(1 - 1/|B|) < 2 for one record more or less
SPREAD_SENSITIVITY = UNIT  # of floor(16 |S_left - S * f|)


def aggregation_error(values: Integers, cells: int) -> int:
    """ceil(AE) of a block with these counts in its filled cells.

    >>> aggregation_error(np.array([3, 1]), 2), aggregation_error(np.array([3]), 100)
    (2, 6)
    """
    if cells == 1 or not values.size:
        return 0
    total = int(values.sum())
    above = values[values > total // cells]
    return 2 * int(above.sum()) - 2 * above.size * total // cells


@dataclass(frozen=True, slots=True, eq=False)
class BlockCut:
    """All places where a block can be cut: after position `after` of attribute `axis`, counted from its low end."""

    axis: Integers
    after: Integers
    scores: Integers


def places(widths: Integers) -> tuple[Integers, Integers]:
    """Every cut of a box of these widths: (axis, how many positions lie left of it)."""
    cuts = widths - 1
    axis = np.repeat(np.arange(widths.size), cuts)
    starts = np.cumsum(cuts) - cuts
    return axis, np.arange(int(cuts.sum())) - starts[axis] + 1


def is_flat(values: Integers, lows: Integers, highs: Integers, cells: int) -> bool:
    """Tell without scoring that every cut has the score -2S: the smallest side still has more than 2S * nnz cells."""
    return cells // int((highs - lows).max() + 1) > 2 * int(values.sum()) * values.size


def score_cuts(columns: Integers, values: Integers, lows: Integers, highs: Integers, cells: int, how: str) -> BlockCut:
    """Score every cut of a block that holds the given cells: -(AE_left + AE_right), or |S_left - S * f| in 16ths."""
    widths = highs - lows + 1
    axis, left = places(widths)
    sums, filled = _prefixes(columns, values, lows, widths)
    total, stored = int(values.sum()), values.size
    if (
        2 * UNIT * max(1, total) * max(stored, int(widths.max())) >= BEYOND_SCORES
    ):  # products beyond 64 bits: Python's integers
        sums, values = sums.astype(object), values.astype(object)
    if how == "spread":
        return BlockCut(axis, left, np.abs(UNIT * (sums * widths[axis] - total * left)) // widths[axis])
    parts = np.array(
        [cells // int(width) if cells // int(width) < BEYOND_SCORES else BEYOND_SCORES for width in widths]
    )
    rooms = [times(parts[axis], count) for count in (left, widths[axis] - left)]
    errors = [
        _sparse_error(part_sums, many, room)
        for part_sums, many, room in zip((sums, total - sums), (filled, stored - filled), rooms, strict=True)
    ]
    if bool((sums > rooms[0]).any() or (total - sums > rooms[1]).any()):
        errors = _dense_errors(columns, values, lows, widths, rooms)
    return BlockCut(axis, left, -(errors[0] + errors[1]))


def times(parts: Integers, count: Integers) -> Integers:
    """Multiply numbers of cells; 2**62 stands for that and anything beyond.

    AE of a side is then that of a side with 2**62 cells, of the same sensitivity: it holds for any number of cells.
    """
    return np.where(parts >= BEYOND_SCORES // np.maximum(count, 1), BEYOND_SCORES, parts * count)


def shared_out(sums: Integers, many: Integers, room: Integers) -> Integers:
    """floor(2 * sums * many / room), in Python's integers where 64 bits might not hold the product.

    >>> shared_out(np.array([3, 2**50]), np.array([5, 2**40]), np.array([4, 2**60]))
    array([         7, 2147483648])
    """
    if sums.size and 2 * int(sums.max()) * int(many.max()) >= 2 * BEYOND_SCORES:
        errors: Integers = (2 * sums.astype(object) * many // room).astype(np.int64)
        return errors
    return 2 * sums * many // room


def _sparse_error(sums: Integers, filled: Integers, room: Integers) -> Integers:
    return 2 * sums - 2 * sums * filled // room


def _prefixes(columns: Integers, values: Integers, lows: Integers, widths: Integers) -> tuple[Integers, Integers]:
    """Sum and number of filled cells left of every cut."""
    starts = np.cumsum(widths) - widths
    flat = (columns - lows + starts).ravel()
    size = int(widths.sum())
    sums = np.bincount(flat, weights=np.repeat(values, widths.size), minlength=size).astype(np.int64)
    filled = np.bincount(flat, minlength=size)
    ends = np.cumsum(widths) - 1
    keep = np.ones(size, dtype=bool)
    keep[ends] = False
    owner = np.repeat(np.arange(widths.size), widths)[keep]
    whole, many = int(values.sum()), values.size
    return (np.cumsum(sums)[keep] - owner * whole), (np.cumsum(filled)[keep] - owner * many)


def _dense_errors(
    columns: Integers, values: Integers, lows: Integers, widths: Integers, rooms: list[Integers]
) -> list[Integers]:
    """The general form: cells ranked by count, prefix sums along the attribute, then a search for the mean."""
    sizes, rank = np.unique(values, return_inverse=True)
    sides: list[list[Integers]] = [[], []]
    start = 0
    for axis, (low, width) in enumerate(zip(lows, widths, strict=True)):
        cuts = int(width) - 1
        table = np.bincount((columns[:, axis] - low) * sizes.size + rank, minlength=int(width) * sizes.size)
        below = np.cumsum(table.reshape(int(width), sizes.size), axis=0)
        for side, many in enumerate((below[:-1], below[-1] - below[:-1])):
            sides[side].append(_ranked_error(many, sizes, rooms[side][start : start + cuts]))
        start += cuts
    return [np.concatenate(side) for side in sides]


def _ranked_error(many: Integers, sizes: Integers, room: Integers) -> Integers:
    """ceil(AE) of every row: many[row, r] cells hold sizes[r] records."""
    weight = many * sizes
    total = weight.sum(axis=1)
    first = np.searchsorted(sizes, total // np.maximum(room, 1), side="right")  # the first size above the mean
    none = np.zeros((len(many), 1), dtype=np.int64)
    after = np.concatenate([many[:, ::-1].cumsum(axis=1)[:, ::-1], none], axis=1)
    heavy = np.concatenate([weight[:, ::-1].cumsum(axis=1)[:, ::-1], none], axis=1)
    rows = np.arange(len(many))
    errors: Integers = 2 * heavy[rows, first] - 2 * after[rows, first] * total // room
    return errors


# All blocks of one depth, side by side in a few arrays: a level of the tree is tested and cut in one go.
#
# Blocks without records are kept apart, as boxes alone: most blocks are empty, and nothing in them needs looking at.


Codes = NDArray[np.unsignedinteger]  # (stored cells, attributes), as narrow as they fit: what is read stays near


@dataclass(frozen=True, slots=True, eq=False)
class BlockLevel:
    """Row i is the box lows[i]..highs[i], both ends included."""

    lows: Integers
    highs: Integers

    def __len__(self) -> int:
        return len(self.lows)

    @classmethod
    def joined(cls, parts: Sequence[BlockLevel]) -> BlockLevel:
        """All boxes of all parts."""
        return cls(np.concatenate([part.lows for part in parts]), np.concatenate([part.highs for part in parts]))

    def of(self, which: Booleans | slice) -> BlockLevel:
        """Some of them."""
        return BlockLevel(self.lows[which], self.highs[which])

    @property
    def names(self) -> Integers:
        """The corners of every box: what noise is about, whatever the order of the boxes."""
        return np.concatenate([self.lows, self.highs], axis=1)

    def widths(self) -> Integers:
        """How many values of every attribute a box spans."""
        return self.highs - self.lows + 1

    def cells(self) -> Integers:
        """How many cells a box has; 2**62 stands for that and anything beyond."""
        widths = self.widths()
        cells = np.ones(len(self), dtype=np.int64)
        for axis in range(widths.shape[1]):
            cells = times(cells, widths[:, axis])
        return cells

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
        place = choose_evenly(ends[:, -1], names=self.names, rng=rng)
        axis: Integers = (place[:, None] >= ends).sum(axis=1)
        rows = np.arange(len(self))
        return axis, self.lows[rows, axis] + place - ends[rows, axis] + spans[rows, axis]

    def split(self, axis: Integers, border: Integers) -> tuple[BlockLevel, BlockLevel]:
        """The boxes left and right of the cuts."""
        rows, highs, lows = np.arange(len(self)), self.highs.copy(), self.lows.copy()
        highs[rows, axis], lows[rows, axis] = border, border + 1
        return BlockLevel(self.lows, highs), BlockLevel(lows, self.highs)


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """Boxes with records: which stored cells lie in each (box after box), their counts, how many, and the sum."""

    boxes: BlockLevel
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

    def of(self, which: Booleans) -> Filled:
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
        errors = 2 * self.sums - shared_out(self.sums, self.sizes, cells)
        dense = self.sums > cells
        if not bool(dense.any()):
            return errors
        part, room = self.of(dense), cells[dense]
        above = part.values > (part.sums // room)[part.owners]
        heavy = np.add.reduceat(np.where(above, part.values, 0), part.starts)
        many = np.add.reduceat(above, part.starts, dtype=np.int64)
        errors[dense] = 2 * heavy - shared_out(part.sums, many, room)
        return errors

    def is_flat(self, cells: Integers) -> Booleans:
        """Tell without scoring that all cuts have the score -2S: the least side has more than 2S * size cells."""
        slices = cells // self.boxes.widths().max(axis=1)
        is_small: Booleans = self.sizes <= (slices - 1) // (2 * self.sums)
        return is_small

    def split(self, columns: Codes, axis: Integers, border: Integers) -> tuple[Filled, BlockLevel]:
        """Cut every box: the halves with records, and the boxes of those without."""
        starts, owners = self.starts, self.owners
        is_left = columns.reshape(-1)[self.rows * columns.shape[1] + axis[owners]] <= border[owners]
        sizes = np.add.reduceat(is_left, starts, dtype=np.int64)
        sums = np.add.reduceat(np.where(is_left, self.values, 0), starts)
        left, right = self.boxes.split(axis, border)
        is_right = ~is_left
        both = Filled(
            BlockLevel.joined([left, right]),
            np.concatenate([self.rows[is_left], self.rows[is_right]]),
            np.concatenate([self.values[is_left], self.values[is_right]]),
            np.concatenate([sizes, self.sizes - sizes]),
            np.concatenate([sums, self.sums - sums]),
        )
        is_filled = both.sizes > 0
        return both.of(is_filled), both.boxes.of(~is_filled)


def whole(counts: Counts) -> tuple[Filled, BlockLevel, Codes]:
    """The one block of the first level, as one with records or one without, and the codes of the stored cells."""
    tops = np.array([counts.schema.sizes], dtype=np.int64) - 1
    boxes = BlockLevel(np.zeros_like(tops), tops)
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


# Scores of every cut of many blocks at once, and the choice of one for each: `cuts.score_cuts` for a whole level.


BATCH = 2**19  # entries of the arrays of one batch of blocks: they stay in the cache, and memory stays small
MOST_PAIRS_IN_BATCH = 2**14  # pairs of a crowded cut and a stored cell: a block with more is scored alone, by ranks


@dataclass(frozen=True, slots=True)
class CutChoice:
    """How the cut of a block is chosen: by which scores, with what epsilon and sensitivity, by which mechanism.

    Under rho the exponential mechanism, since it costs epsilon^2/8, and permute-and-flip epsilon * tanh(epsilon/2): a
    quarter, where the latter is at most twice as good (proofs/gaussian.md).
    """

    score: str
    epsilon: Fraction
    sensitivity: int
    is_concentrated: bool = False

    @classmethod
    def for_part(cls, part: Fraction, budget: ViewBudget, score: str) -> CutChoice:
        """Find the choice that costs a part of an amount.

        A unit that takes a rows from a block and brings b changes the spread by at most max(a, b), and the errors of
        both sides together by at most 2 (a + b): rows that leave one side and rows that come to the other add up.
        """
        rows, cells = budget.rows, budget.changed_cells
        if score == "spread":
            return cls(
                score,
                budget.currency.exponential_within(part / cells),
                SPREAD_SENSITIVITY * rows,
                budget.is_concentrated,
            )
        epsilon = budget.currency.exponential_within(part)
        return cls(score, epsilon, AE_SENSITIVITY * cells * rows, budget.is_concentrated)


def choose_cuts(filled: Filled, columns: Codes, choice: CutChoice, *, rng: Rng) -> tuple[Integers, Integers]:
    """Choose a cut of every block: its attribute, and the last value on its left."""
    mechanism = exponential_rows if choice.is_concentrated else permute_and_flip_rows
    axes, borders = [], []
    for batch in _batches(filled):
        cuts = score_blocks(batch, columns, choice.score)
        chosen = mechanism(
            cuts.scores,
            sizes=cuts.many,
            epsilon=choice.epsilon,
            sensitivity=choice.sensitivity,
            names=batch.boxes.names,
            rng=rng,
        )
        axis = cuts.axis[chosen]
        axes.append(axis)
        borders.append(batch.boxes.lows[np.arange(len(batch)), axis] + cuts.left[chosen] - 1)
    return np.concatenate(axes), np.concatenate(borders)


def _batches(filled: Filled) -> Iterator[Filled]:
    """Blocks in a row that make arrays of about one size; a large block is a batch of its own."""
    widths = filled.boxes.widths()
    for batch in _pieces(widths.shape[1] * filled.sizes + widths.sum(axis=1)):
        yield filled.between(batch.start, batch.stop)


def _pieces(costs: Integers) -> Iterator[slice]:
    """Cut a list where the costs before it fill another batch."""
    borders = (np.flatnonzero(np.diff(np.cumsum(costs) // BATCH)) + 1).tolist()
    return (slice(first, last) for first, last in pairwise([0, *borders, costs.size]))


@dataclass(frozen=True, slots=True, eq=False)
class BlockCuts:
    """All cuts of many blocks, block after block: attribute, how many of its values lie left, score; how many each."""

    axis: Integers
    left: Integers
    scores: Integers
    many: Integers


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Cuts before they have scores: `pair` = block * attributes + attribute, and what lies left of each cut."""

    pair: Integers
    left: Integers
    widths: Integers
    sums: Integers
    filled: Integers


def score_blocks(blocks: Filled, columns: Codes, how: str) -> BlockCuts:
    """Score every cut of every block: -(AE_left + AE_right), or |S_left - S * f| in 16ths."""
    attributes = columns.shape[1]
    cuts = _places(blocks, columns)
    block, axis = np.divmod(cuts.pair, attributes)
    scores = _spread(blocks, cuts, block) if how == "spread" else _errors(blocks, columns, cuts, block, axis)
    return BlockCuts(axis, cuts.left, scores, (blocks.boxes.highs - blocks.boxes.lows).sum(axis=1))


def _places(blocks: Filled, columns: Codes) -> _Places:
    """Find the sum and the number of stored cells left of every cut, by one histogram over all blocks."""
    attributes = columns.shape[1]
    widths = blocks.boxes.widths().reshape(-1)
    offsets = np.cumsum(widths) - widths
    keys = columns[blocks.rows] + (offsets.reshape(-1, attributes) - blocks.boxes.lows)[blocks.owners]
    size, flat = int(widths.sum()), keys.reshape(-1)
    at = [np.bincount(flat, minlength=size)]
    if int(blocks.values.max()) > 1:  # sums stay below 2**53, where floats are exact
        at.append(np.bincount(flat, weights=np.repeat(blocks.values, attributes), minlength=size).astype(np.int64))
    cuts = widths - 1
    pair = np.repeat(np.arange(widths.size), cuts)
    left = np.arange(pair.size) - (np.cumsum(cuts) - cuts)[pair] + 1
    place = offsets[pair] + left - 1
    # every attribute of a block holds the whole block once: what came before is known without a search
    before = [
        np.cumsum(whole) - whole for whole in (np.repeat(blocks.sizes, attributes), np.repeat(blocks.sums, attributes))
    ]
    filled, sums = (
        np.cumsum(running)[place] - base[pair] for running, base in zip((at[0], at[-1]), before, strict=True)
    )
    return _Places(pair, left, widths[pair], sums, filled)


def _spread(blocks: Filled, cuts: _Places, block: Integers) -> Integers:
    total, widths, sums = blocks.sums[block], cuts.widths, cuts.sums
    if UNIT * int(blocks.sums.max()) * int(widths.max(initial=1)) >= BEYOND_SCORES:
        total, sums = total.astype(object), sums.astype(object)
    errors: Integers = (np.abs(UNIT * (sums * widths - total * cuts.left)) // widths).astype(np.int64)
    return errors


def _errors(blocks: Filled, columns: Codes, cuts: _Places, block: Integers, axis: Integers) -> Integers:
    slices = blocks.boxes.slices().reshape(-1)[cuts.pair]
    rooms = np.stack([times(slices, cuts.left), times(slices, cuts.widths - cuts.left)])
    sums = np.stack([cuts.sums, blocks.sums[block] - cuts.sums])
    filled = np.stack([cuts.filled, blocks.sizes[block] - cuts.filled])
    errors = 2 * sums - shared_out(sums, filled, rooms)
    side, place = np.nonzero(sums > rooms)  # a mean above 1: some filled cells may lie below it
    scores: Integers = -errors.sum(axis=0)
    if not place.size:
        return scores
    alone = np.bincount(block[place], weights=blocks.sizes[block[place]], minlength=len(blocks)) > MOST_PAIRS_IN_BATCH
    few = ~alone[block[place]]
    side, place = side[few], place[few]
    for piece in _pieces(blocks.sizes[block[place]]):
        on, at = side[piece], place[piece]
        border = blocks.boxes.lows[block[at], axis[at]] + cuts.left[at]
        crowded = _Crowded(block[at], axis[at], border, on == 1, sums[on, at], rooms[on, at])
        errors[on, at] = _crowded_errors(blocks, columns, crowded)
    scores = -errors.sum(axis=0)
    for index in np.flatnonzero(alone):
        first, last = np.searchsorted(block, [index, index + 1])
        scores[first:last] = _scored_alone(blocks.between(int(index), int(index) + 1), columns)
    return scores


@dataclass(frozen=True, slots=True, eq=False)
class _Crowded:
    """Sides of cuts with more records than cells."""

    block: Integers
    axis: Integers
    border: Integers  # the first value on the right
    is_right: NDArray[np.bool_]
    sums: Integers
    rooms: Integers


def _crowded_errors(blocks: Filled, columns: Codes, sides: _Crowded) -> Integers:
    """ceil(AE) = ceil(2 * sum over x > mean of (x - mean)), cell by cell."""
    sizes = blocks.sizes[sides.block]
    side = np.repeat(np.arange(sizes.size), sizes)
    cell = np.arange(side.size) + (blocks.starts[sides.block] - np.cumsum(sizes) + sizes)[side]
    values = blocks.values[cell]
    code = columns[blocks.rows[cell], sides.axis[side]]
    counts = ((code >= sides.border[side]) == sides.is_right[side]) & (values > (sides.sums // sides.rooms)[side])
    heavy = np.bincount(side[counts], weights=values[counts], minlength=sizes.size).astype(np.int64)
    many = np.bincount(side[counts], minlength=sizes.size)
    return 2 * heavy - shared_out(sides.sums, many, sides.rooms)


def _scored_alone(filled: Filled, columns: Codes) -> Integers:
    """A block with many crowded cuts and many cells: by ranks and prefix sums."""
    codes, box = columns[filled.rows].astype(np.int64), filled.boxes
    return score_cuts(codes, filled.values, box.lows[0], box.highs[0], int(box.cells()[0]), "error").scores
