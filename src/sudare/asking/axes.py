"""The values of an attribute as a statement needs them: points with the share of their cell that they stand for.

A cell that a condition cuts is cut into pieces, and its values are taken as spread evenly over it. A piece that counts
as a whole is one point; where numbers are added, a piece of few values has them all, and a wide one eight points that
give the mean of every polynomial exactly (Gauss and Legendre).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.asking.protocol import Answerer, AttributeCells, AxisWeight
from sudare.asking.syntax import refuse
from sudare.schema.arrays import Codes, Reals
from sudare.text import text

MOST_UNITS = 2**17  # values of an attribute that are looked at one by one
NEXT_TO_NOTHING = 1e-4  # of a cell: a narrower piece stands for the number it begins with
KEPT_ATTRIBUTES = 512  # of opened releases, whose cells are kept as floats from one statement to the next
MOST_WEIGHED = 4096  # weights that a statement keeps
POINT_CELL = Fraction(1, 10**8)  # of all numbers: a narrower cell holds one number, where it begins (the last: ends)
POINTS = 8  # of a wide piece, and values of a piece that are looked at one by one
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(POINTS)


@dataclass(frozen=True, slots=True, eq=False)
class AxisPoints:
    """Points of an attribute: their cell, the share of the cell they stand for, their number (NaN: none)."""

    cells: Codes
    shares: Reals
    values: Reals

    @property
    def size(self) -> int:
        """How many points there are."""
        return int(self.cells.size)

    @property
    def starts(self) -> Codes:
        """Where the points of every cell begin: cells are in order, and each has some."""
        return np.flatnonzero(np.diff(self.cells, prepend=-1)).astype(np.int64)


@dataclass(slots=True)
class AxisDemand:
    """What a statement needs of an attribute: cuts, all values one by one, or points for sums.

    `is_between`: it is compared with a number between the multiples of its step.
    """

    cuts: set[Fraction] = field(default_factory=set)
    is_between: bool = False
    every_value: bool = False
    is_summed: bool = False


class Axes:
    """The points of every attribute of one statement, made once from what all of its parts need."""

    def __init__(self, answerer: Answerer) -> None:
        self.answerer = answerer
        self.demands: dict[int, AxisDemand] = {}
        self._points: dict[int, AxisPoints] = {}
        self._weighed: dict[tuple[int, int], tuple[NDArray[Any], AxisWeight]] = {}
        self.memo: dict[Any, Any] = {}  # weights of expressions, for all groups of a statement
        self.asked: set[frozenset[int]] = set()  # attributes that a sum was asked about together

    def demand(self, attribute: int) -> AxisDemand:
        """What is needed of an attribute so far."""
        return self.demands.setdefault(attribute, AxisDemand())

    def points(self, attribute: int) -> AxisPoints:
        """The points of an attribute; nothing can be demanded of it afterwards."""
        if attribute not in self._points:
            needs = self.demands.get(attribute, AxisDemand())
            name = self.answerer.schema.names[attribute]
            self._points[attribute] = make_points(self.answerer.cells(attribute), needs, name)
        return self._points[attribute]

    def codes(self, attribute: int) -> Codes:
        """The value of the schema that every point belongs to."""
        codes: Codes = self.answerer.cells(attribute).codes[self.points(attribute).cells]
        return codes

    def weigh(self, attribute: int, weights: NDArray[Any]) -> AxisWeight:
        """The mean of weights of points, and of their squares, cell by cell; groups that share weights share them."""
        known = self._weighed.get((attribute, id(weights)))
        if known is None:
            if len(self._weighed) >= MOST_WEIGHED:
                self._weighed.clear()
            known = weights, self._weigh(attribute, np.asarray(weights, dtype=float))  # the array is kept: its id is
            self._weighed[attribute, id(weights)] = known
        return known[1]

    def _weigh(self, attribute: int, weights: Reals) -> AxisWeight:
        points, size = self.points(attribute), self.answerer.cells(attribute).codes.size
        if points.size == size:
            return AxisWeight.exactly(weights)
        mean = np.bincount(points.cells, weights=points.shares * weights, minlength=size).astype(np.float64)
        square = np.bincount(points.cells, weights=points.shares * weights**2, minlength=size).astype(np.float64)
        low, high = (bound.reduceat(weights, points.starts) for bound in (np.minimum, np.maximum))
        return AxisWeight(mean, square, low, high)


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
    else:
        pieces.cut(needs.cuts)
    return _with_rest(cells, pieces.points(is_summed=needs.is_summed))


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
    cell = min(max(bisect_right(cells.edges, value) - 1, 0), cells.counted - 1)
    width = cells.edges[cell + 1] - cells.edges[cell]
    return width if width < (cells.edges[-1] - cells.edges[0]) * POINT_CELL else width / 10**6


@lru_cache(maxsize=KEPT_ATTRIBUTES)
def _mark_edges(cells: AttributeCells) -> tuple[list[Fraction], Reals, Reals]:
    """The edges of cells in multiples of the step, exactly and as floats, and the middles of cells."""
    step = cells.step
    marks = [edge if step is None else Fraction(math.ceil(edge / step)) for edge in cells.edges]
    middles = [float(low + high) / 2 for low, high in zip(cells.edges, cells.edges[1:], strict=False)]
    return marks, np.array([float(mark) for mark in marks]), np.array(middles)


class _Pieces:
    """Pieces of cells [low, high), in multiples of the step where there is one."""

    def __init__(self, cells: AttributeCells) -> None:
        self.step = cells.step
        self.marks, self.edges, self.middles = _mark_edges(cells)
        self.cells = np.arange(len(self.marks) - 1)
        self.lows, self.highs = self.edges[:-1], self.edges[1:]

    def cut(self, cuts: Iterable[Fraction]) -> None:
        inner: dict[int, set[Fraction]] = {}
        for cut in cuts:
            mark = cut if self.step is None else Fraction(math.ceil(cut / self.step))
            cell = bisect_right(self.marks, mark) - 1
            if 0 <= cell < len(self.marks) - 1 and self.marks[cell] != mark:
                inner.setdefault(cell, set()).add(mark)
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
            places = np.where(widths < one_number, np.where(is_end, self.highs, self.lows), places)
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
        """Several points a piece: all its values where they are few, else those of Gauss."""
        size = 1.0 if self.step is None else float(self.step)
        few = (widths <= POINTS) if self.step is not None else np.zeros(widths.size, dtype=bool)
        counts = np.where(few, np.maximum(widths, 1), POINTS).astype(np.int64)
        owner = np.repeat(np.arange(widths.size), counts)
        rank = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
        wide = ~few[owner]
        gauss = np.minimum(rank, POINTS - 1)
        values = np.where(
            wide,
            middles[owner] + _NODES[gauss] * widths[owner] * size / 2,
            np.where(counts[owner] > 1, self._read(self.lows[owner] + rank), middles[owner]),
        )
        weights = np.where(wide, _WEIGHTS[gauss] / 2, 1.0 / counts[owner])
        return self.cells[owner], shares[owner] * weights, values
