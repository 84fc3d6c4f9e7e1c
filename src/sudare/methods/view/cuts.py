"""Scores of every cut of a block, in whole numbers, from prefix sums along each attribute.

AE(B) = sum over cells of |x - S/|B||, the aggregation error of a block. With mean = S/|B| it is 2 * sum over x > mean
of (x - mean); where every filled cell exceeds the mean (mean <= 1, nearly always when the domain is larger than the
table) it is 2S - 2S * nnz/|B|, so prefix sums of (S, nnz) score all cuts of a block in one pass.

One block at a time: what `mondrian_scores` does for a whole level is this, and is tested against it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

UNIT = 16
BIG = 2**62
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
class Cut:
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


def score_cuts(columns: Integers, values: Integers, lows: Integers, highs: Integers, cells: int, how: str) -> Cut:
    """Score every cut of a block that holds the given cells: -(AE_left + AE_right), or |S_left - S * f| in 16ths."""
    widths = highs - lows + 1
    axis, left = places(widths)
    sums, filled = _prefixes(columns, values, lows, widths)
    total, stored = int(values.sum()), values.size
    if 2 * UNIT * max(1, total) * max(stored, int(widths.max())) >= BIG:  # products beyond 64 bits: Python's integers
        sums, values = sums.astype(object), values.astype(object)
    if how == "spread":
        return Cut(axis, left, np.abs(UNIT * (sums * widths[axis] - total * left)) // widths[axis])
    parts = np.array([cells // int(width) if cells // int(width) < BIG else BIG for width in widths])
    rooms = [times(parts[axis], count) for count in (left, widths[axis] - left)]
    errors = [
        _sparse_error(each, many, room)
        for each, many, room in zip((sums, total - sums), (filled, stored - filled), rooms, strict=True)
    ]
    if bool((sums > rooms[0]).any() or (total - sums > rooms[1]).any()):
        errors = _dense_errors(columns, values, lows, widths, rooms)
    return Cut(axis, left, -(errors[0] + errors[1]))


def times(parts: Integers, count: Integers) -> Integers:
    """Multiply numbers of cells; 2**62 stands for that and anything beyond.

    AE of a side is then that of a side with 2**62 cells, of the same sensitivity: it holds for any number of cells.
    """
    return np.where(parts >= BIG // np.maximum(count, 1), BIG, parts * count)


def shared_out(sums: Integers, many: Integers, room: Integers) -> Integers:
    """floor(2 * sums * many / room), in Python's integers where 64 bits might not hold the product.

    >>> shared_out(np.array([3, 2**50]), np.array([5, 2**40]), np.array([4, 2**60]))
    array([         7, 2147483648])
    """
    if sums.size and 2 * int(sums.max()) * int(many.max()) >= 2 * BIG:
        found: Integers = (2 * sums.astype(object) * many // room).astype(np.int64)
        return found
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
    found: list[list[Integers]] = [[], []]
    start = 0
    for axis, (low, width) in enumerate(zip(lows, widths, strict=True)):
        cuts = int(width) - 1
        table = np.bincount((columns[:, axis] - low) * sizes.size + rank, minlength=int(width) * sizes.size)
        below = np.cumsum(table.reshape(int(width), sizes.size), axis=0)
        for side, many in enumerate((below[:-1], below[-1] - below[:-1])):
            found[side].append(_ranked_error(many, sizes, rooms[side][start : start + cuts]))
        start += cuts
    return [np.concatenate(side) for side in found]


def _ranked_error(many: Integers, sizes: Integers, room: Integers) -> Integers:
    """ceil(AE) of every row: many[row, r] cells hold sizes[r] records."""
    weight = many * sizes
    total = weight.sum(axis=1)
    first = np.searchsorted(sizes, total // np.maximum(room, 1), side="right")  # the first size above the mean
    none = np.zeros((len(many), 1), dtype=np.int64)
    after = np.concatenate([many[:, ::-1].cumsum(axis=1)[:, ::-1], none], axis=1)
    heavy = np.concatenate([weight[:, ::-1].cumsum(axis=1)[:, ::-1], none], axis=1)
    rows = np.arange(len(many))
    found: Integers = 2 * heavy[rows, first] - 2 * after[rows, first] * total // room
    return found
