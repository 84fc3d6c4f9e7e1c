"""Mondrian: cut the table in two at a median, again and again, while both halves keep the promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sudare.methods.kanon.recode import Pieces
from sudare.schema import Attribute
from sudare.schema.arrays import Booleans, Codes, Labels
from sudare.schema.domain import binned
from sudare.schema.raw import TOP_LABEL

ClassCheck = Callable[[Pieces, Codes, int], Booleans]
"""Told pieces, the part of each and the number of parts: which parts keep the promise."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Parts:
    """Pieces and the part of each, numbered from 0."""

    pieces: Pieces
    part_of: Codes
    count: int


def partition(
    pieces: Pieces, positions: Codes, holds: ClassCheck, *, relaxed: bool = False, both: bool = True
) -> Parts:
    """Cut all parts of one depth at once, each along its widest attribute that can be cut.

    `positions` (pieces, q) orders the values of each quasi-identifier. The widest is by the span of positions over the
    span in the whole table. A strict cut puts values below the median to the left; where that is not allowed and
    `both`, values up to the median. A relaxed cut makes halves of equal size, so that rows of the median itself go to
    either side. A cut is allowed if both sides keep the promise.

    Error: none; a table that does not keep the promise as a whole stays one part.
    Source: LeFevre, DeWitt, Ramakrishnan 2006
    """
    state = _State(pieces=pieces, positions=positions, part=np.zeros(len(pieces.weights), dtype=np.int64))
    scale = np.maximum(1, np.ptp(positions, axis=0)) if len(positions) else np.ones(positions.shape[1])
    cuts: tuple[_Cut, ...] = (_halves,) if relaxed else (_below, _up_to) if both else (_below,)
    done: list[_State] = []
    while len(state.part):
        state, finished = _deeper(state, scale, cuts, holds)
        done.append(finished)
    return _joined(done)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _State:
    """Pieces of the parts of one depth; `part` is increasing."""

    pieces: Pieces
    positions: Codes
    part: Codes

    def take(self, chosen: NDArray[np.int64] | Booleans, part: Codes, weights: Codes | None = None) -> _State:
        pieces = self.pieces.take(chosen, weights)
        return _State(pieces=pieces, positions=self.positions[chosen], part=part)


def _deeper(
    state: _State, scale: NDArray[np.float64], cuts: tuple[_Cut, ...], holds: ClassCheck
) -> tuple[_State, _State]:
    """Cut every part that can be cut: the halves, and the parts that stay."""
    starts = np.flatnonzero(np.diff(state.part, prepend=-1))
    spans = np.maximum.reduceat(state.positions, starts) - np.minimum.reduceat(state.positions, starts)
    order = np.argsort(-(spans / scale), axis=1, kind="stable")
    open_parts, halves = np.ones(len(starts), dtype=bool), []
    for rank in range(order.shape[1]):
        axis = order[:, rank]
        open_here = open_parts & (spans[np.arange(len(starts)), axis] > 0)
        for cut in cuts:
            tried = np.flatnonzero(open_here[state.part])
            if not tried.size:
                break
            half, allowed = _tried(state, tried, axis, cut, holds)
            halves.append(half)
            open_parts[allowed] = open_here[allowed] = False
    stays = open_parts[state.part]
    finished = state.take(stays, state.part[stays])
    return _renumbered(halves) if halves else state.take(~stays, state.part[~stays]), finished


def _tried(state: _State, tried: Codes, axis: Codes, cut: _Cut, holds: ClassCheck) -> tuple[_State, Codes]:
    """Cut the parts of the pieces `tried`, and keep the cuts that are allowed: their halves, and which parts."""
    part = state.part[tried]
    value = state.positions[tried, axis[part]]
    order = np.argsort(part * (int(value.max()) + 1) + value, kind="stable")
    tried, part, value = tried[order], part[order], value[order]
    weights = state.pieces.weights[tried]
    sorted_parts = _Sorted(part=part, value=value, weights=weights)
    left = cut(sorted_parts)
    sides = np.concatenate([tried[left > 0], tried[left < weights]])
    side_weights = np.concatenate([left[left > 0], (weights - left)[left < weights]])
    side = np.concatenate([2 * part[left > 0], 2 * part[left < weights] + 1])
    order = np.argsort(side, kind="stable")
    half = state.take(sides[order], side[order], side_weights[order])
    return _allowed(half, holds)


def _allowed(half: _State, holds: ClassCheck) -> tuple[_State, Codes]:
    numbers, dense = np.unique(half.part, return_inverse=True)
    kept = numbers[holds(half.pieces, dense.reshape(-1), len(numbers))]
    parents, sides = np.unique(kept // 2, return_counts=True)
    allowed = parents[sides == 2]  # both halves are there, and keep the promise
    chosen = np.isin(half.part // 2, allowed)
    return half.take(chosen, half.part[chosen]), allowed


def _renumbered(halves: list[_State]) -> _State:
    part = np.concatenate([half.part for half in halves])
    order = np.argsort(part, kind="stable")
    first = halves[0].pieces
    pieces = Pieces(
        attributes=first.attributes,
        quasi=first.quasi,
        codes=np.concatenate([half.pieces.codes for half in halves])[order],
        weights=np.concatenate([half.pieces.weights for half in halves])[order],
    )
    positions = np.concatenate([half.positions for half in halves])[order]
    return _State(pieces=pieces, positions=positions, part=np.unique(part[order], return_inverse=True)[1].reshape(-1))


def _joined(done: list[_State]) -> Parts:
    offset, parts = 0, []
    for state in done:
        numbers, dense = np.unique(state.part, return_inverse=True)
        parts.append(dense.reshape(-1) + offset)
        offset += len(numbers)
    first = done[0].pieces
    pieces = Pieces(
        attributes=first.attributes,
        quasi=first.quasi,
        codes=np.concatenate([state.pieces.codes for state in done]),
        weights=np.concatenate([state.pieces.weights for state in done]),
    )
    return Parts(pieces=pieces, part_of=np.concatenate(parts).astype(np.int64), count=offset)


# --- where to cut: how many rows of every piece go to the left ------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Sorted:
    """Pieces sorted by part and value."""

    part: Codes
    value: Codes
    weights: Codes

    def before(self) -> tuple[Codes, Codes]:
        """Count the rows of its part before each piece, and the rows of its part."""
        starts = np.flatnonzero(np.diff(self.part, prepend=-1))
        lengths = np.diff(starts, append=len(self.part))
        total = np.cumsum(self.weights)
        base = np.repeat(total[starts] - self.weights[starts], lengths)
        rows = np.repeat(np.add.reduceat(self.weights, starts), lengths)
        return total - self.weights - base, rows

    def median(self) -> Codes:
        """Give each piece the upper median of its part."""
        before, rows = self.before()
        middle = rows // 2
        is_median = (before <= middle) & (middle < before + self.weights)
        starts = np.flatnonzero(np.diff(self.part, prepend=-1))
        return np.repeat(self.value[is_median], np.diff(starts, append=len(self.part)))


_Cut = Callable[[_Sorted], Codes]


def _below(parts: _Sorted) -> Codes:
    return np.where(parts.value < parts.median(), parts.weights, 0)


def _up_to(parts: _Sorted) -> Codes:
    return np.where(parts.value <= parts.median(), parts.weights, 0)


def _halves(parts: _Sorted) -> Codes:
    before, rows = parts.before()
    left: Codes = np.clip(rows // 2 - before, 0, parts.weights)
    return left


# What the values of a Mondrian class are called: a range, or the groups and values that it spans.


MOST_ORDERED = 1 << 20  # codes whose order along the hierarchy is worked out; beyond, the codes themselves


@dataclass(frozen=True, eq=False)
class Line:
    """The values of an attribute on a line: declared order if it has one, else neighbours in the hierarchy.

    "(other)" and "(missing)" stand behind the declared values of an ordered attribute.

    >>> from sudare.schema import NumberBins
    >>> line = Line(Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), missing=True))
    >>> line.label(2, 4, ()), line.label(2, 2, (10,)), line.label(0, 9, (10,))
    ('[20,50)', '[20,30)|(missing)', '*')
    """

    attribute: Attribute

    @cached_property
    def order(self) -> Codes | None:
        """The codes along the line; None if they stand as they are."""
        attribute = self.attribute
        hierarchy = attribute.hierarchy
        if attribute.is_ordered or hierarchy is None or attribute.size > MOST_ORDERED:
            return None
        codes = np.arange(attribute.size)
        return np.lexsort([codes, *(hierarchy.lift(codes, level) for level in range(1, hierarchy.height + 1))])

    @cached_property
    def _place(self) -> Codes | None:
        if self.order is None:
            return None
        place = np.empty(len(self.order), dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        return place

    @property
    def declared(self) -> int:
        """Count the places that a range may run over; places behind stand by themselves."""
        return self.attribute.domain.size if self.order is None else self.attribute.size

    def places(self, codes: Codes) -> Codes:
        """Find the places of codes."""
        return codes if self._place is None else self._place[codes]

    def spans(self, places: Codes, part_of: Codes, count: int) -> tuple[Labels, Codes]:
        """Label every part by the places it holds, and count the values that the label stands for."""
        low, high = np.full(count, self.attribute.size), np.full(count, -1)
        inside = places < self.declared
        np.minimum.at(low, part_of[inside], places[inside])
        np.maximum.at(high, part_of[inside], places[inside])
        apart: dict[int, set[int]] = {}
        for part, place in np.unique(np.column_stack([part_of[~inside], places[~inside]]), axis=0).tolist():
            apart.setdefault(part, set()).add(place)
        keys = [(int(low[p]), int(high[p]), tuple(sorted(apart.get(p, ())))) for p in range(count)]
        known = {key: self.label(*key) for key in set(keys)}
        labels = np.array([known[key] for key in keys], dtype=np.object_)
        spread = np.maximum(high - low + 1, 0) + np.array([len(key[2]) for key in keys], dtype=np.int64)
        return labels, spread

    def label(self, low: int, high: int, behind: tuple[int, ...]) -> str | None:
        """Name the places from low to high (none if high < low), and those behind; None is a missing value alone."""
        count = max(high - low + 1, 0)
        if count + len(behind) == self.attribute.size and self.attribute.size > 1:
            return TOP_LABEL
        if count + len(behind) == 1:
            return self._one(low if count else behind[0])
        texts = [self._range(low, high)] if count else []
        return "|".join([*texts, *(self._text(place) for place in behind)])

    def _one(self, place: int) -> str | None:
        code = place if self.order is None else int(self.order[place])
        text: str | None = self.attribute.labels(np.array([code]))[0]
        return text

    def _text(self, place: int) -> str:
        return self._one(place) or "(missing)"

    def _range(self, low: int, high: int) -> str:
        if low == high:
            return self._text(low)
        if bins := binned(self.attribute.domain):
            starts = sorted({0, low, *([high + 1] if high + 1 < bins.size else [])})
            merged = bins.merged(starts)
            return str(merged.labels(np.array([starts.index(low)]))[0])
        if self.attribute.is_ordered:
            return f"{self._text(low)}..{self._text(high)}"
        return "|".join(self._groups(low, high))

    def _groups(self, low: int, high: int) -> list[str]:
        """The largest groups of the hierarchy that lie inside the range, and the values that are left."""
        hierarchy, texts, place = self.attribute.hierarchy, [], low
        while place <= high:
            level, end = (0, place) if hierarchy is None else self._widest(place, high)
            if hierarchy is None or level == 0:
                texts.append(self._text(place))
            else:
                node = hierarchy.lift(np.array([place if self.order is None else self.order[place]]), level)
                texts.append(str(hierarchy.labels(node, level)[0]))
            place = end + 1
        return texts

    def _widest(self, place: int, high: int) -> tuple[int, int]:
        """The highest level whose group begins at a place and ends by `high`, and where it ends."""
        found = (0, place)
        for level in range(1, self.attribute.height + 1):
            nodes = self._nodes(level)
            first = int(np.searchsorted(nodes, nodes[place], side="left"))
            last = int(np.searchsorted(nodes, nodes[place], side="right")) - 1
            if first == place and found[1] < last <= high:
                found = (level, last)
        return found

    def _nodes(self, level: int) -> Codes:
        """The groups of a level along the line, numbered in the order they are met."""
        hierarchy, order = self.attribute.hierarchy, self.order
        codes = np.arange(self.attribute.size) if order is None else order
        lifted = codes if hierarchy is None else hierarchy.lift(codes, level)
        return np.cumsum(np.diff(lifted, prepend=lifted[:1]) != 0)
