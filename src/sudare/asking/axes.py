"""The values of an attribute as a statement needs them: points with the share of their cell that they stand for.

A cell that a condition cuts is cut into pieces, and its values are taken as spread evenly over it. A piece that counts
as a whole is one point; where numbers are added, a piece of few values has them all, and a wide one eight points, its
ends among them, that give the mean of a polynomial exactly (Lobatto).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.asking.protocol import Answerer, AttributeCells, AxisWeight
from sudare.asking.syntax import Expression, refuse
from sudare.schema.arrays import Booleans, Codes, Reals
from sudare.text import text

MOST_UNITS = 2**17  # values of an attribute that are looked at one by one
NEXT_TO_NOTHING = 1e-4  # of a cell: a narrower piece stands for the number it begins with
KEPT_ATTRIBUTES = 512  # of opened releases, whose cells are kept as floats from one statement to the next
MOST_WEIGHED = 4096  # weights that a statement keeps
MOST_KEPT = 2**21  # numbers of points, masks, sums and conditions, kept from one statement to the next: 16 MB each
POINT_CELL = Fraction(1, 10**8)  # of all numbers: a narrower cell holds one number, where it begins (the last: ends)
POINTS = 8  # of a wide piece, and values of a piece that are looked at one by one
NEXT_TO_END = 1e-9  # of a piece: how far within it the points at its ends lie, so that conditions take them for its own
CROWDED = 1 / 3  # of the squared way to the farthest weight of a cell: as (w/2)^2 / 3 = w^2 / 12 is of a number spread


@dataclass(frozen=True, eq=False)
class AxisPoints:
    """Points of an attribute: their cell, the share of the cell they stand for, their number (NaN: none)."""

    cells: Codes
    shares: Reals
    values: Reals
    cut: tuple[tuple[int, int, int], ...] | None = None  # cells of several points, where these begin and end

    @cached_property
    def size(self) -> int:
        """How many points there are."""
        return int(self.cells.size)

    @cached_property
    def starts(self) -> Codes:
        """Where the points of every cell begin: cells are in order, and each has some."""
        if self.cut is None:
            return np.flatnonzero(np.diff(self.cells, prepend=-1)).astype(np.int64)
        starts = np.arange(self.size - sum(stop - start - 1 for _, start, stop in self.cut))
        for cell, start, stop in self.cut:
            starts[cell + 1 :] += stop - start - 1
        return starts


@dataclass(slots=True)
class AxisDemand:
    """What a statement needs of an attribute: cuts, all values one by one, or points for sums.

    `is_between`: it is compared with a number between the multiples of its step.
    """

    cuts: set[Fraction] = field(default_factory=set)
    is_between: bool = False
    every_value: bool = False
    is_summed: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells demands apart."""
        return frozenset(self.cuts), self.is_between, self.every_value, self.is_summed


class KeptArrays:
    """What was worked out for earlier statements, by what it follows from; all is dropped when it becomes too much."""

    def __init__(self, most: int) -> None:
        self.most, self.size = most, 0
        self.known: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """What is kept under a key; None if nothing is."""
        return self.known.get(key)

    def put(self, key: Any, value: Any, size: int) -> None:
        """Keep something of so many numbers."""
        self.size += size + 64
        if self.size > self.most:
            self.known, self.size = {}, size + 64
        self.known[key] = value


kept_points = KeptArrays(MOST_KEPT)
kept_masks = KeptArrays(MOST_KEPT)
kept_numbers = KeptArrays(MOST_KEPT)
kept_conditions = KeptArrays(MOST_KEPT)


class Axes:
    """The points of every attribute of one statement, made once from what all of its parts need."""

    def __init__(self, answerer: Answerer) -> None:
        self.answerer = answerer
        self.demands: dict[int, AxisDemand] = {}
        self._points: dict[int, AxisPoints] = {}
        self._weighed: dict[tuple[int, int], tuple[NDArray[Any], AxisWeight]] = {}
        self.memo: dict[Any, Any] = {}  # weights of expressions, for all groups of a statement
        self.asked: set[frozenset[int]] = set()  # attributes that a sum was asked about together
        self.limits: dict[int, list[Expression]] = {}  # conditions on one attribute that all records of it meet

    def demand(self, attribute: int) -> AxisDemand:
        """What is needed of an attribute so far."""
        return self.demands.setdefault(attribute, AxisDemand())

    def points(self, attribute: int) -> AxisPoints:
        """The points of an attribute; nothing can be demanded of it afterwards."""
        found = self._points.get(attribute)
        if found is None:
            needs, cells = self.demands.get(attribute, AxisDemand()), self.answerer.cells(attribute)
            key = (cells, needs.key)
            found = kept_points.get(key)
            if found is None:
                found = make_points(cells, needs, self.answerer.schema.attributes[attribute].name)
                kept_points.put(key, found, found.size)
            self._points[attribute] = found
        return found

    def codes(self, attribute: int) -> Codes:
        """The value of the schema that every point belongs to."""
        codes: Codes = self.answerer.cells(attribute).codes[self.points(attribute).cells]
        return codes

    def weigh(self, attribute: int, weights: NDArray[Any]) -> AxisWeight:
        """The mean of weights of points, and of their squares, cell by cell; groups that share weights share them."""
        known = self._weighed.get((attribute, id(weights)))
        if known is None:
            self.weigh_all(attribute, [weights])
            known = self._weighed[attribute, id(weights)]
        return known[1]

    def weigh_all(self, attribute: int, weights: Sequence[NDArray[Any]]) -> None:
        """Work out the means of many weights at once; `weigh` has them then."""
        fresh = {id(one): one for one in weights if (attribute, id(one)) not in self._weighed}
        if len(self._weighed) + len(fresh) > MOST_WEIGHED:
            self._weighed.clear()
            fresh = {id(one): one for one in weights}
        if not fresh:
            return
        points, size = self.points(attribute), self.answerer.cells(attribute).codes.size
        graded = [one for one in fresh.values() if one.dtype != bool and points.size != size]
        for one in fresh.values():
            if one.dtype == bool or points.size == size:
                self._weighed[attribute, id(one)] = one, self._weigh(attribute, one)  # the array is kept: its id is
        for one, found in zip(graded, _weigh_rows(points, graded), strict=True):
            self._weighed[attribute, id(one)] = one, found

    def mask(self, attribute: int, condition: Expression, make: Callable[[AxisPoints], Booleans]) -> Booleans:
        """Where a condition on one attribute is true; kept with what follows from it, for later statements too."""
        points = self.points(attribute)
        known: tuple[Booleans, AxisWeight] | None = kept_masks.get((points, condition))
        if known is None:
            mask = make(points)
            known = mask, self._weigh(attribute, mask)
            kept_masks.put((points, condition), known, 5 * points.size)
        self._weighed[attribute, id(known[0])] = known
        return known[0]

    def take(self, attribute: int, points: AxisPoints, weights: NDArray[Any], weighed: AxisWeight) -> None:
        """Take points, and weights of them, that an earlier statement with the same needs of the attribute had."""
        self._points[attribute] = points
        self.take_weighed(attribute, weights, weighed)

    def take_weighed(self, attribute: int, weights: NDArray[Any], weighed: AxisWeight) -> None:
        """Take what an earlier statement found of weights of the same points."""
        self._weighed[attribute, id(weights)] = weights, weighed

    def _weigh(self, attribute: int, given: NDArray[Any]) -> AxisWeight:
        points, size = self.points(attribute), self.answerer.cells(attribute).codes.size
        weights = np.asarray(given, dtype=float)
        if given.dtype == bool and (points.size == size or points.cut is not None):
            return _weigh_mask(points, weights)
        if points.size == size:
            return AxisWeight.exactly(weights)
        return _weigh_rows(points, [weights])[0]


def _weigh_rows(points: AxisPoints, given: Sequence[NDArray[Any]]) -> list[AxisWeight]:
    """Weights of points that are no points of one cell each, row by row."""
    if not given:
        return []
    weights, starts = np.stack(given).astype(float), points.starts
    weighed = points.shares * weights
    mean, square = (np.add.reduceat(rows, starts, axis=1) for rows in (weighed, weighed * weights))
    low, high = (bound.reduceat(weights, starts, axis=1) for bound in (np.minimum, np.maximum))
    is_even = low == high  # exactly so: shares add up to 1 but for rounding, which would look like a condition
    mean, square = np.where(is_even, low, mean), np.where(is_even, low * low, square)
    square = _allow_for_crowds(mean, square, low, high)
    return [AxisWeight(*rows) for rows in zip(mean, square, low, high, strict=True)]


def _allow_for_crowds(mean: Reals, square: Reals, low: Reals, high: Reals) -> Reals:
    """The mean squares of weights, larger where most of a curved function lies at one end of its cell.

    All values of a cell may be one, where the function is farthest from its mean: the interval reaches it. A straight
    line varies by just that if its values are spread, and weights of 0 and 1 are left to who counts them.
    """
    farthest = np.maximum(mean - low, high - mean)
    is_count = (low == 0) & (high == 1) & (square == mean)
    crowded: Reals = np.where(is_count, square, np.maximum(square, mean * mean + CROWDED * farthest * farthest))
    return crowded


def _weigh_mask(points: AxisPoints, weights: Reals) -> AxisWeight:
    """Weights of 0 and 1, few cells being cut: each weighs what its first point does, but for those."""
    if not points.cut:
        return AxisWeight(weights, weights, weights, weights)
    mean = weights[points.starts]
    low, high = mean.copy(), mean.copy()
    for cell, start, stop in points.cut:
        shares, parts = points.shares[start:stop].tolist(), weights[start:stop].tolist()
        mean[cell] = sum(share * part for share, part in zip(shares, parts, strict=True))
        low[cell], high[cell] = min(parts), max(parts)
    return AxisWeight(mean, mean, low, high)


def make_points(cells: AttributeCells, needs: AxisDemand, name: str) -> AxisPoints:
    """Cut the cells of an attribute as a statement needs them."""
    if not cells.counted or not (needs.every_value or needs.is_summed or needs.cuts):
        return _whole_points(cells)
    if cells.is_supposed and needs.is_between and not needs.every_value:
        cells = replace(cells, step=None)
    pieces = _Pieces(cells)
    if needs.every_value:
        if cells.step is None:
            raise refuse(
                text("this use of {name}", name=name),
                text("its values lie anywhere between the edges of its bins; compare it with numbers instead"),
            )
        pieces.cut_everywhere(name)
    elif needs.is_summed:
        pieces.cut(needs.cuts)
    else:
        return _cut_points(cells, pieces, needs.cuts)
    return _with_rest(cells, pieces.points(is_summed=needs.is_summed))


def _cut_points(cells: AttributeCells, pieces: _Pieces, cuts: Iterable[Fraction]) -> AxisPoints:
    """One point a cell, but for the few cells that are cut: their pieces take the place of it."""
    whole, inner = _whole_points(cells), pieces.find_cuts(cuts)
    if not inner:
        return whole
    owners, shares, values, cut = list[Any](), list[Any](), list[Any](), []
    end, size = 0, 0
    for cell in sorted(inner):
        share, value = pieces.divide(cell, sorted(inner[cell]))
        start = size + cell - end
        cut.append((cell, start, start + len(share)))
        size = start + len(share)
        owners += [whole.cells[end:cell], [cell] * len(share)]
        shares += [whole.shares[end:cell], share]
        values += [whole.values[end:cell], value]
        end = cell + 1
    return AxisPoints(
        np.concatenate([*owners, whole.cells[end:]]),
        np.concatenate([*shares, whole.shares[end:]]),
        np.concatenate([*values, whole.values[end:]]),
        tuple(cut),
    )


@lru_cache(maxsize=KEPT_ATTRIBUTES)
def _whole_points(cells: AttributeCells) -> AxisPoints:
    """One point a cell: what most statements need of most attributes, so it is kept from one to the next."""
    if cells.counted:
        return _with_rest(cells, _Pieces(cells).points(is_summed=False))
    size = cells.codes.size
    return AxisPoints(np.arange(size), np.ones(size), np.full(size, np.nan))


def _with_rest(cells: AttributeCells, found: tuple[Codes, Reals, Reals]) -> AxisPoints:
    """The points of numbers or days, then other and missing values."""
    counted, rest = cells.counted, cells.codes.size - cells.counted
    return AxisPoints(
        np.concatenate([found[0], np.arange(counted, counted + rest)]),
        np.concatenate([found[1], np.ones(rest)]),
        np.concatenate([found[2], np.full(rest, np.nan)]),
    )


def narrowest_piece(cells: AttributeCells, value: Fraction) -> Fraction:
    """How wide the piece is that stands for one number among numbers that lie anywhere: next to nothing of its cell.

    A cell that is itself next to nothing holds one number, and the piece is all of it.
    """
    marks, floats, _ = _mark_edges(cells)
    if cells.step is not None:
        cell = bisect_right(cells.edges, value) - 1
    else:
        cell = _find_cell(marks, floats, value)
    return _find_narrowest(cells, min(max(cell, 0), cells.counted - 1))


@lru_cache(maxsize=MOST_WEIGHED)
def _find_narrowest(cells: AttributeCells, cell: int) -> Fraction:
    width = cells.edges[cell + 1] - cells.edges[cell]
    return width if width < (cells.edges[-1] - cells.edges[0]) * POINT_CELL else width / 10**6


def _find_cell(marks: Sequence[Fraction | int], floats: Reals, mark: Fraction | int) -> int:
    """What `bisect_right(marks, mark) - 1` gives: floats find it nearly, exact numbers where they are equal."""
    cell = int(floats.searchsorted(float(mark), side="right")) - 1
    while cell >= 0 and marks[cell] > mark:
        cell -= 1
    while cell + 1 < len(marks) and marks[cell + 1] <= mark:
        cell += 1
    return cell


@lru_cache(maxsize=KEPT_ATTRIBUTES)
def _mark_edges(cells: AttributeCells) -> tuple[list[Fraction | int], Reals, Reals]:
    """The edges of cells in multiples of the step, exactly and as floats, and the middles of cells."""
    step = cells.step
    marks = [edge if step is None else math.ceil(edge / step) for edge in cells.edges]
    middles = [float(low + high) / 2 for low, high in zip(cells.edges, cells.edges[1:], strict=False)]
    return marks, np.array([float(mark) for mark in marks]), np.array(middles)


@lru_cache(maxsize=1)
def _find_lobatto_points() -> tuple[Reals, Reals]:
    """The points of Lobatto from -1 to 1, and their weights: exact for polynomials up to degree 2 POINTS - 3."""
    legendre = np.polynomial.Legendre.basis(POINTS - 1)
    nodes = np.concatenate([[-1.0], np.sort(legendre.deriv().roots().real), [1.0]])
    nodes = (nodes - nodes[::-1]) / 2  # exactly as far on both sides
    return nodes, 2.0 / (POINTS * (POINTS - 1) * legendre(np.abs(nodes)) ** 2)


class _Pieces:
    """Pieces of cells [low, high), in multiples of the step where there is one."""

    def __init__(self, cells: AttributeCells) -> None:
        self.step = cells.step
        self.marks, self.edges, self.middles = _mark_edges(cells)
        self.cells = np.arange(len(self.marks) - 1)
        self.lows, self.highs = self.edges[:-1], self.edges[1:]

    def find_cuts(self, cuts: Iterable[Fraction]) -> dict[int, set[Fraction | int]]:
        """The cells that cuts lie inside of, with these."""
        inner: dict[int, set[Fraction | int]] = {}
        for cut in cuts:
            mark = cut if self.step is None else math.ceil(cut if self.step == 1 else cut / self.step)
            cell = _find_cell(self.marks, self.edges, mark)
            if 0 <= cell < len(self.marks) - 1 and self.marks[cell] != mark:
                inner.setdefault(cell, set()).add(mark)
        return inner

    def divide(self, cell: int, marks: Sequence[Fraction | int]) -> tuple[list[float], list[float]]:
        """The shares and the middles of the pieces of one cell; as `points` has them, number by number."""
        ends = [float(self.edges[cell]), *map(float, marks), float(self.edges[cell + 1])]
        whole, all_numbers = ends[-1] - ends[0], float(self.edges[-1] - self.edges[0])
        is_end = cell == self.edges.size - 2 and whole < float(POINT_CELL) * all_numbers
        one_number = max(NEXT_TO_NOTHING * whole, float(POINT_CELL) * all_numbers)
        step = Fraction(1) if self.step is None else self.step
        shares, values = [], []
        for low, high in pairwise(ends):
            place = (low + high) / 2 - (0.0 if self.step is None else 0.5)
            if self.step is None and high - low < one_number:
                place = high if is_end else low
            shares.append((high - low) / whole)
            values.append(place * float(step.numerator) / float(step.denominator))
        return shares, values

    def cut(self, cuts: Iterable[Fraction]) -> None:
        inner = self.find_cuts(cuts)
        if not inner:
            return
        added = np.array([float(mark) for cell in sorted(inner) for mark in sorted(inner[cell])])
        owners = np.array([cell for cell in sorted(inner) for _ in inner[cell]])
        lows = np.concatenate([self.lows, added])
        order = np.lexsort((lows, np.concatenate([self.cells, owners])))
        self.cells = np.concatenate([self.cells, owners])[order]
        self.lows = lows[order]
        is_last = np.append(self.cells[1:] != self.cells[:-1], True)
        self.highs = np.where(is_last, self.edges[self.cells + 1], np.append(self.lows[1:], 0.0))

    def cut_everywhere(self, name: str) -> None:
        sizes = (self.highs - self.lows).astype(np.int64)
        if int(sizes.sum()) > MOST_UNITS:
            raise refuse(
                text("this use of {name}", name=name),
                text("it has more than {most} values; compare it with numbers instead", most=MOST_UNITS),
            )
        filled = np.maximum(sizes, 1)
        starts = np.repeat(self.lows, filled)
        offsets = np.arange(filled.sum()) - np.repeat(np.cumsum(filled) - filled, filled)
        self.cells = np.repeat(self.cells, filled)
        self.lows = starts + offsets
        self.highs = np.minimum(self.lows + 1, np.repeat(self.highs, filled))

    def points(self, *, is_summed: bool) -> tuple[Codes, Reals, Reals]:
        widths = self.highs - self.lows
        whole = (self.edges[1:] - self.edges[:-1])[self.cells]
        shares = np.where(whole > 0, widths / np.where(whole > 0, whole, 1.0), 1.0)
        places = (self.lows + self.highs) / 2 - (0.0 if self.step is None else 0.5)
        if self.step is None:
            one_number = np.maximum(NEXT_TO_NOTHING * whole, float(POINT_CELL) * (self.edges[-1] - self.edges[0]))
            is_end = (self.cells == self.cells.max()) & (whole < float(POINT_CELL) * (self.edges[-1] - self.edges[0]))
            is_point = widths < one_number
            places = np.where(is_point, np.where(is_end, self.highs, self.lows), places)
            widths = np.where(is_point, 0.0, widths)  # its points are this one number
        middles = np.where(whole > 0, self._read(places), self.middles[self.cells])
        if not is_summed:
            return self.cells, shares, middles
        return self._spread(widths, shares, middles)

    def _read(self, places: Reals) -> Reals:
        """The numbers at multiples of the step: divided once, so that 39 tenths are the double of 3.9."""
        step = Fraction(1) if self.step is None else self.step
        numbers: Reals = places * float(step.numerator) / float(step.denominator)
        return numbers

    def _spread(self, widths: Reals, shares: Reals, middles: Reals) -> tuple[Codes, Reals, Reals]:
        """Several points a piece: all its values where they are few, else those of Lobatto."""
        size = 1.0 if self.step is None else float(self.step)
        few = (widths <= POINTS) if self.step is not None else np.zeros(widths.size, dtype=bool)
        counts = np.where(few, np.maximum(widths, 1), POINTS).astype(np.int64)
        owner = np.repeat(np.arange(widths.size), counts)
        rank = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
        wide = ~few[owner]
        place = np.minimum(rank, POINTS - 1)
        nodes, node_weights = _find_lobatto_points()
        reach = widths[owner] / 2
        most = reach - (NEXT_TO_END * widths[owner] if self.step is None else 0.5)  # its first and its last value
        values = np.where(
            wide,
            middles[owner] + np.clip(nodes[place] * reach, -most, most) * size,
            np.where(counts[owner] > 1, self._read(self.lows[owner] + rank), middles[owner]),
        )
        weights = np.where(wide, node_weights[place] / 2, 1.0 / counts[owner])
        return self.cells[owner], shares[owner] * weights, values
