"""The cells of a rectangle along a Hilbert curve: neighbours on the curve are neighbours in the rectangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from papers.baselines.base import check_choice, generator
from papers.baselines.identity import CellTable
from papers.baselines.plain import changed_cells, clipped, either_promise, guard
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng, geometric_noise
from sudare.privacy import Guarantee, Neighbours, exact, exact_epsilon
from sudare.schema import Schema, Unit
from sudare.schema.arrays import Integers


def hilbert_order(rows: int, columns: int) -> Integers:
    """List the cells (row * columns + column) in the order of the curve through the smallest square of 2^k a side.

    Places of the square outside the rectangle are left out, which is public.

    >>> hilbert_order(2, 2).tolist()
    [0, 1, 3, 2]
    """
    row, column = np.indices((rows, columns)).reshape(2, -1)
    bits = max(rows - 1, columns - 1).bit_length()
    return np.argsort(hilbert_place(row, column, bits), kind="stable")


def hilbert_place(x: Integers, y: Integers, bits: int) -> Integers:
    """The distance along the curve from its start to (x, y), in a square of 2^bits a side.

    >>> hilbert_place(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]), 1).tolist()
    [0, 1, 2, 3]
    """
    x, y = x.copy(), y.copy()
    found = np.zeros_like(x)
    side = 1 << bits
    for power in reversed(range(bits)):
        right, top = (x >> power) & 1, (y >> power) & 1
        found += ((3 * right) ^ top) << (2 * power)
        turned = (top == 0) & (right == 1)
        x, y = np.where(turned, side - 1 - x, x), np.where(turned, side - 1 - y, y)
        swapped = top == 0
        x, y = np.where(swapped, y, x), np.where(swapped, x, y)
    return found


# DAWA's partition: cut a line of cells into buckets of like counts, then noise for every bucket (Li et al. 2014).


ORDERS = ("rows", "hilbert")
READINGS = ("sound", "code")
MOST_CELLS = 2**20  # the costs of all intervals are held: about 21 numbers a cell
PENALTY_BITS = 10
LEAST_SHARE = Fraction(1, 100)


@dataclass(frozen=True, kw_only=True, slots=True)
class Dawa:
    """The first stage of DAWA, and a noisy count for every bucket, spread evenly.

    cost(b) = sum over cells of |x - mean of b| + s/epsilon_2 + Z,  buckets of 1, 2, 4, ... cells at any start

    The partition with the least sum of costs is found by dynamic programming. epsilon_1 = share * epsilon pays for it
    (Z two-sided geometric of scale 4 s/epsilon_1), epsilon_2, the rest, for the counts (scale s/epsilon_2). s is 2 for
    replace-one and 1 for add/remove. The second stage of DAWA, a strategy for a workload, is left out, as in the
    comparison of Kato et al.

    `reading="code"` is what the published program of DAWA does: Laplace noise in floats of scale about s *
    2/epsilon_1, none for single cells, and costs below s/epsilon_2 lifted to it. It makes far fewer buckets, and does
    not keep epsilon_1.

    More than one attribute is laid out as a line: in the order of rows (what Kato et al. did), or, for two attributes,
    along a Hilbert curve (what the DAWA paper did). Beyond 2^20 cells it is refused: costs of every interval are
    needed.

    Guarantee: epsilon-DP for "sound". Only the partition comes out of the first stage, and any partition has one
    bucket with the changed cell, so the noise need not grow with the number of intervals. "code" promises nothing.
    Proof: proofs/baselines.md
    Error: deviation inside buckets, and the noise of the buckets that a count touches.
    Source: Li, Hay, Miklau, Wang, A data- and workload-aware algorithm for range queries under differential privacy,
    2014

    >>> Dawa(epsilon=1).cost_scale("add-remove"), Dawa(epsilon=1).count_scale("add-remove")
    (Fraction(16, 1), Fraction(4, 3))
    """

    epsilon: Fraction | str | int | float
    order: Literal["rows", "hilbert"] = "rows"
    reading: Literal["sound", "code"] = "sound"
    share: Fraction | str | int | float = Fraction(1, 4)  # of epsilon, for the partition; the paper's ratio

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        object.__setattr__(self, "share", exact(self.share, name="share", low=LEAST_SHARE, high=1 - LEAST_SHARE))
        check_choice("order", self.order, ORDERS)
        check_choice("reading", self.reading, READINGS)

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened; the published program has none."""
        if self.reading == "code":
            raise ParameterError("the published program of DAWA does not keep epsilon; use the sound reading")
        return either_promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def cost_scale(self, neighbours: Neighbours | None = None) -> Fraction:
        """Scale of the noise of an interval's cost: one record moves two by less than 2 each."""
        return 4 * changed_cells(neighbours) / (Fraction(self.share) * Fraction(self.epsilon))

    def count_scale(self, neighbours: Neighbours | None = None) -> Fraction:
        """Scale of the noise of a bucket's count."""
        return changed_cells(neighbours) / ((1 - Fraction(self.share)) * Fraction(self.epsilon))

    def table(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> CellTable:
        """Partition, measure, spread."""
        promise = either_promise(Fraction(self.epsilon), unit=counts.schema.unit, neighbours=neighbours)
        guard(promise, counts.schema)
        order = _line(counts.schema, self.order)
        values = counts.dense()[order]
        starts = self.partition(values, neighbours=neighbours, rng=rng)
        lengths = np.diff(np.append(starts, len(values)))
        sums = np.add.reduceat(values, starts)
        noisy = sums + geometric_noise(len(starts), scale=self.count_scale(neighbours), rng=rng)
        cells = np.empty(len(values))
        cells[order] = np.repeat(noisy / lengths, lengths)
        return CellTable(counts.schema, cells)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Round the estimate and clip it at 0."""
        return clipped(counts.schema, self.table(counts, neighbours=neighbours, rng=rng).cells)

    def partition(self, values: Integers, *, neighbours: Neighbours | None = None, rng: Rng) -> Integers:
        """Give the first places of the buckets: all that the first stage publishes."""
        lengths = [1 << power for power in range(len(values).bit_length()) if 1 << power <= len(values)]
        if self.reading == "code":
            return cheapest(
                [self._lifted(values, length, neighbours, rng) for length in lengths], len(values), last=True
            )
        bits = max(len(lengths) - 1, PENALTY_BITS)
        return cheapest(
            [self._noisy(values, power, bits, neighbours, rng) for power in range(len(lengths))], len(values)
        )

    def _noisy(self, values: Integers, power: int, bits: int, neighbours: Neighbours | None, rng: Rng) -> list[int]:
        """Costs in whole numbers of 2^-bits, so that sums are exact and no rounding sees a private value."""
        costs = deviations(values, 1 << power) << (bits - power)
        noise = geometric_noise(len(costs), scale=self.cost_scale(neighbours), rng=rng)
        found: list[int] = (costs + (noise << bits) + round(self.count_scale(neighbours) * 2**bits)).tolist()
        return found

    def _lifted(self, values: Integers, length: int, neighbours: Neighbours | None, rng: Rng) -> list[float]:
        """Costs as the published program has them."""
        least = float(self.count_scale(neighbours))
        if length == 1:
            return [least] * len(values)
        costs = deviations(values, length) / length
        scale = (2 - 1 / length - 1 / len(values)) * float(self.cost_scale(neighbours)) / 4
        found: list[float] = (
            least + np.maximum(costs + generator(rng).laplace(scale=scale, size=len(costs)), 0)
        ).tolist()
        return found


def deviations(values: Integers, length: int) -> Integers:
    """Sum |length * x - sum| over the cells of every interval of this length: `length` times the deviation, exactly.

    As much lies above the mean as below. With f = floor(mean), the cells above are those with x >= f + 1, whatever the
    interval, so prefix sums answer all intervals with one f.

    >>> deviations(np.array([3, 3, 0, 1]), 2).tolist()
    [0, 6, 2]
    """
    prefix = np.concatenate([[0], np.cumsum(values)])
    sums = prefix[length:] - prefix[:-length]
    floors = sums // length
    levels = np.unique(floors)
    found: Integers = np.zeros_like(sums)
    if length <= len(levels):  # few cells, many means: cell by cell
        for place in range(length):
            found += np.abs(length * values[place : place + len(sums)] - sums)
        return found
    for level in levels:
        chosen = np.flatnonzero(floors == level)
        above = values > level
        held, many = (np.concatenate([[0], np.cumsum(one)]) for one in (np.where(above, values, 0), above))
        part = length * (held[chosen + length] - held[chosen]) - sums[chosen] * (many[chosen + length] - many[chosen])
        found[chosen] = 2 * part
    return found


def cheapest(costs: Sequence[Sequence[float]], places: int, *, last: bool = False) -> Integers:
    """Find the partition of 0..places-1 into intervals of 1, 2, 4, ... places with the least sum of costs.

    costs[k][i] is that of the interval of 2^k places from i on. Of equal ones the shortest last interval is taken, or,
    with `last`, the longest.

    >>> cheapest([[5, 5, 1], [3, 9]], 3).tolist()
    [0, 2]
    """
    best, chosen = [0.0] * (places + 1), [0] * (places + 1)
    best[0] = 0
    for end in range(1, places + 1):
        least, length = best[end - 1] + costs[0][end - 1], 1
        for power in range(1, end.bit_length()):
            start = end - (1 << power)
            cost = best[start] + costs[power][start]
            if cost < least or (last and cost == least):
                least, length = cost, 1 << power
        best[end], chosen[end] = least, length
    starts, end = [], places
    while end:
        end -= chosen[end]
        starts.append(end)
    return np.array(starts[::-1], dtype=np.int64)


def _line(schema: Schema, order: str) -> Integers:
    """The cells in the order of the line."""
    if schema.size > MOST_CELLS:
        raise ParameterError(
            "DAWA takes tables of at most {most} cells, not {cells}; use fewer attributes or coarser bins",
            most=MOST_CELLS,
            cells=schema.size,
        )
    if order == "rows":
        return np.arange(schema.size)
    if len(schema.sizes) != 2:
        raise ParameterError("a Hilbert curve takes two attributes, not {count}", count=len(schema.sizes))
    return hilbert_order(*schema.sizes)
