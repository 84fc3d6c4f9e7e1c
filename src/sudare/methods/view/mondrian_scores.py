"""Scores of every cut of many blocks at once, and the choice of one for each: `cuts.score_cuts` for a whole level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms import Rng
from sudare.mechanisms.rows import permute_and_flip_rows
from sudare.methods.view.cuts import AE_SENSITIVITY, BIG, SPREAD_SENSITIVITY, UNIT, score_cuts, shared_out, times
from sudare.methods.view.mondrian_level import Codes, Filled

Integers = NDArray[np.int64]

BATCH = 2**19  # entries of the arrays of one batch of blocks: they stay in the cache, and memory stays small
FEW = 2**14  # pairs of a crowded cut and a stored cell: a block with more is scored alone, by ranks


def choose_cuts(filled: Filled, columns: Codes, how: str, *, epsilon: Fraction, rng: Rng) -> tuple[Integers, Integers]:
    """Choose a cut of every block by permute-and-flip: its attribute, and the last value on its left."""
    sensitivity = SPREAD_SENSITIVITY if how == "spread" else AE_SENSITIVITY
    axes, borders = [], []
    for batch in _batches(filled):
        cuts = score_blocks(batch, columns, how)
        chosen = permute_and_flip_rows(cuts.scores, cuts.many, epsilon=epsilon, sensitivity=sensitivity, rng=rng)
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
    filled, sums = (np.cumsum(found)[place] - base[pair] for found, base in zip((at[0], at[-1]), before, strict=True))
    return _Places(pair, left, widths[pair], sums, filled)


def _spread(blocks: Filled, cuts: _Places, block: Integers) -> Integers:
    total, widths, sums = blocks.sums[block], cuts.widths, cuts.sums
    if UNIT * int(blocks.sums.max()) * int(widths.max(initial=1)) >= BIG:
        total, sums = total.astype(object), sums.astype(object)
    found: Integers = (np.abs(UNIT * (sums * widths - total * cuts.left)) // widths).astype(np.int64)
    return found


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
    alone = np.bincount(block[place], weights=blocks.sizes[block[place]], minlength=len(blocks)) > FEW
    few = ~alone[block[place]]
    side, place = side[few], place[few]
    for piece in _pieces(blocks.sizes[block[place]]):
        on, at = side[piece], place[piece]
        border = blocks.boxes.lows[block[at], axis[at]] + cuts.left[at]
        crowded = _Crowded(block[at], axis[at], border, on == 1, sums[on, at], rooms[on, at])
        errors[on, at] = _crowded_errors(blocks, columns, crowded)
    scores = -errors.sum(axis=0)
    for one in np.flatnonzero(alone):
        first, last = np.searchsorted(block, [one, one + 1])
        scores[first:last] = _scored_alone(blocks.between(int(one), int(one) + 1), columns)
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


def _scored_alone(one: Filled, columns: Codes) -> Integers:
    """A block with many crowded cuts and many cells: by ranks and prefix sums."""
    codes, box = columns[one.rows].astype(np.int64), one.boxes
    return score_cuts(codes, one.values, box.lows[0], box.highs[0], int(box.cells()[0]), "error").scores
