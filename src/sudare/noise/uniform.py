"""Uniform draws, each by the name of what is drawn: numbers, cells, orders, subsets, values inside a bin.

Rooms outside of noise never read the random stream themselves; they call these functions with the `rng` they were
given. All but `draw_inside_bins` are exact: every outcome that the docstring calls equally likely is, because words
that would favour some outcomes are drawn again. Proof: proofs/randomness.md
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.noise.rng import Rng
from sudare.schema.arrays import Codes, Integers, Reals

HASH_KEY_BYTES = 16
PARTS_OF_A_BIN = 2**20  # a bin whose edges are not whole is cut into so many equal parts, and one of them is drawn


def draw_below(bound: int, size: int, *, rng: Rng) -> Integers:
    """Draw `size` independent integers, each uniform over range(bound), bound < 2**63.

    >>> from sudare.noise.rng import SeededRng
    >>> draw_below(1, 3, rng=SeededRng(1))
    array([0, 0, 0])
    """
    return rng.uniform_below(bound, size)


def draw_below_each(bounds: Integers, *, rng: Rng) -> Integers:
    """Draw for every bound an independent integer, uniform over range(bound).

    Exact: a 64-bit word counts if it is below the largest multiple of its bound, and is then reduced.

    >>> from sudare.noise.rng import SeededRng
    >>> draw_below_each(np.array([1, 1, 1]), rng=SeededRng(1))
    array([0, 0, 0])
    """
    if bounds.size and int(bounds.min()) < 1:
        raise ParameterError("bound ({bound}) must be at least 1", bound=int(bounds.min()))
    below = bounds.astype(np.uint64)
    last = ~((~below + np.uint64(1)) % below)  # 2**64 - 1 - (2**64 mod bound)
    drawn = np.empty(bounds.size, dtype=np.int64)
    waiting = np.arange(bounds.size)
    while waiting.size:
        words = rng.words64(waiting.size)
        is_usable = words <= last[waiting]
        ready = waiting[is_usable]
        drawn[ready] = words[is_usable] % below[ready]
        waiting = waiting[~is_usable]
    return drawn


def draw_cells(sizes: Sequence[int], size: int, *, rng: Rng) -> Codes:
    """Draw `size` independent cells, uniform over all combinations of attributes of these sizes: (size, attributes).

    >>> from sudare.noise.rng import SeededRng
    >>> draw_cells((1, 1), 2, rng=SeededRng(1)).tolist()
    [[0, 0], [0, 0]]
    """
    return np.column_stack([rng.uniform_below(values, size) for values in sizes])


def draw_by_weight(ends: Integers, size: int, *, rng: Rng) -> tuple[Integers, Integers]:
    """Draw `size` independent positions, P[i] = weight_i / sum of weights; weights are whole numbers.

    `ends` are the running sums of the weights. The second array tells for every draw a uniform number below the weight
    of its position, independent of everything else.

    >>> from sudare.noise.rng import SeededRng
    >>> positions, offsets = draw_by_weight(np.array([0, 5, 5]), 100, rng=SeededRng(1))
    >>> set(positions.tolist()), set(offsets.tolist())
    ({1}, {0, 1, 2, 3, 4})
    """
    drawn = rng.uniform_below(int(ends[-1]), size)
    positions = np.searchsorted(ends, drawn, side="right")
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])
    return positions, drawn - starts[positions]


def draw_order(size: int, *, rng: Rng) -> Integers:
    """Draw a permutation of range(size), all of them equally likely: to shuffle rows, or to break ties.

    >>> from sudare.noise.rng import SeededRng
    >>> sorted(draw_order(3, rng=SeededRng(1)).tolist())
    [0, 1, 2]
    """
    return rng.permutation(size)


def draw_subset(size: int, members: int, *, rng: Rng) -> NDArray[Any]:
    """Draw `members` different numbers of range(size), sorted; all subsets of that many are equally likely.

    int64, or Python integers where `size` exceeds 2**63.

    >>> from sudare.noise.rng import SeededRng
    >>> draw_subset(3, 3, rng=SeededRng(1)).tolist()
    [0, 1, 2]
    """
    return rng.subset(size, members)


def draw_interval(size: int, *, rng: Rng) -> tuple[int, int]:
    """Draw start and stop of an interval of range(size): a uniform length of 1 to `size`, then a uniform start.

    >>> from sudare.noise.rng import SeededRng
    >>> draw_interval(1, rng=SeededRng(1))
    (0, 1)
    """
    length = 1 + rng.below(size)
    start = rng.below(size - length + 1)
    return start, start + length


def draw_coins(size: int, *, rng: Rng) -> NDArray[np.uint8]:
    """Draw independent fair bits, one in each octet.

    >>> from sudare.noise.rng import SeededRng
    >>> 300 < int(draw_coins(1000, rng=SeededRng(1)).sum()) < 700
    True
    """
    octets = np.empty(-(-size // 8), dtype=np.uint8)
    rng.fill(octets)
    return np.unpackbits(octets)[:size]


def draw_words(size: int, *, rng: Rng) -> Integers:
    """Draw words of 64 independent fair bits each, as signed integers.

    >>> from sudare.noise.rng import SeededRng
    >>> draw_words(2, rng=SeededRng(1)).dtype
    dtype('int64')
    """
    return rng.words64(size).view(np.int64)


def draw_whole_inside_bins(edges: Integers, codes: Codes, *, rng: Rng) -> Integers:
    """Draw a whole number inside the bin of every code: uniform over edge to edge - 1, the last edge included.

    Exact: one draw for each width of bin. The draw adds nothing to what the code tells.

    >>> from sudare.noise.rng import SeededRng
    >>> draw_whole_inside_bins(np.array([0, 1, 2, 2]), np.array([0, 1, 2]), rng=SeededRng(1))
    array([0, 1, 2])
    """
    widths = np.diff(edges)
    widths[-1] += 1
    drawn = np.empty(codes.size, dtype=np.int64)
    for width in np.unique(widths[np.unique(codes)]) if codes.size else ():
        has_width = widths[codes] == width
        drawn[has_width] = edges[codes[has_width]] + rng.uniform_below(int(width), int(has_width.sum()))
    return drawn


def draw_inside_bins(edges: Reals, codes: Codes, *, rng: Rng) -> Reals:
    """Draw a number inside the bin of every code: uniform over the 2**20 equal parts of the bin, in floats.

    >>> from sudare.noise.rng import SeededRng
    >>> bool(0.5 <= draw_inside_bins(np.array([0.0, 0.5, 0.75]), np.array([1]), rng=SeededRng(1))[0] < 0.75)
    True
    """
    shares: Reals = rng.uniform_below(PARTS_OF_A_BIN, codes.size) / PARTS_OF_A_BIN
    return edges[codes] + shares * np.diff(edges)[codes]


def draw_key() -> bytes:
    """Draw a secret key from the operating system, for orders that an engine makes by a keyed hash.

    >>> len(draw_key())
    16
    """
    return os.urandom(HASH_KEY_BYTES)
