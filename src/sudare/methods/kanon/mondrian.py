"""Mondrian: cut the table in two at a median, again and again, while both halves keep the promise.

It needs no hierarchy: the values of each attribute stand on a line (`ValueLine`), and a class is labelled by the range
of values it spans, or by the groups and values that make up the range. Source: LeFevre, DeWitt, Ramakrishnan 2006
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sudare.methods.kanon.recode import ClassChecker, Pieces
from sudare.schema import Attribute
from sudare.schema.arrays import Booleans, Codes, Labels, Reals
from sudare.schema.domain import find_bins
from sudare.schema.raw import TOP_LABEL


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MondrianParts:
    """Pieces and the part of each, numbered from 0."""

    pieces: Pieces
    part_of: Codes
    count: int


def partition(
    pieces: Pieces,
    positions: Codes,
    check_classes: ClassChecker,
    *,
    relaxed: bool = False,
    both: bool = True,
    bounds: Sequence[Codes] | None = None,
    is_late: Callable[[], bool] = lambda: False,
) -> MondrianParts:
    """Cut all parts of one depth at once, each along its widest attribute that can be cut.

    `positions` (pieces, q) orders the values of each quasi-identifier. The widest is by the span of positions over the
    span in the whole table. A strict cut puts values below the median to the left; where that is not allowed and
    `both`, values up to the median. A relaxed cut makes halves of equal size, so that rows of the median itself go to
    either side. A cut is allowed if both sides keep the promise. With `bounds`, which tell of every attribute how high
    in its hierarchy the bound before each position stands, a part is cut only between the largest groups that it holds:
    at the bound nearest to the median. Once `is_late` says so, nothing is cut any more.

    Error: none; a table that does not keep the promise as a whole stays one part.
    """
    state = _OpenParts(pieces=pieces, positions=positions, part=np.zeros(len(pieces.weights), dtype=np.int64))
    scale = np.maximum(1, np.ptp(positions, axis=0)) if len(positions) else np.ones(positions.shape[1])
    rules: tuple[_RowsToTheLeft, ...]
    rules = (_take_half,) if relaxed else (_take_below, _take_up_to) if both else (_take_below,)
    rules = rules if bounds is None else (_take_group,)
    finished: list[_OpenParts] = []
    while len(state.part):
        if is_late():
            finished.append(state)
            break
        state, done = _cut_all(state, scale, rules, check_classes, bounds)
        finished.append(done)
    return _join(finished)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _OpenParts:
    """Pieces of the parts of one depth; `part` is increasing."""

    pieces: Pieces
    positions: Codes
    part: Codes

    def take(self, chosen: Codes | Booleans, part: Codes, weights: Codes | None = None) -> _OpenParts:
        pieces = self.pieces.take(chosen, weights)
        return _OpenParts(pieces=pieces, positions=self.positions[chosen], part=part)


def _cut_all(
    state: _OpenParts,
    scale: Reals,
    rules: tuple[_RowsToTheLeft, ...],
    check_classes: ClassChecker,
    bounds: Sequence[Codes] | None,
) -> tuple[_OpenParts, _OpenParts]:
    """Cut every part that can be cut: the halves, and the parts that stay."""
    starts = np.flatnonzero(np.diff(state.part, prepend=-1))
    spans = np.maximum.reduceat(state.positions, starts) - np.minimum.reduceat(state.positions, starts)
    order = np.argsort(-(spans / scale), axis=1, kind="stable")
    is_open, halves = np.ones(len(starts), dtype=bool), []
    for rank in range(order.shape[1]):
        axis = order[:, rank]
        can_be_cut = is_open & (spans[np.arange(len(starts)), axis] > 0)
        for rule in rules:
            chosen = np.flatnonzero(can_be_cut[state.part])
            if not chosen.size:
                break
            half, cut_parts = _cut(state, chosen, axis, rule, check_classes, bounds)
            halves.append(half)
            is_open[cut_parts] = can_be_cut[cut_parts] = False
    stays = is_open[state.part]
    finished = state.take(stays, state.part[stays])
    return _renumber(halves) if halves else state.take(~stays, state.part[~stays]), finished


def _cut(
    state: _OpenParts,
    chosen: Codes,
    axis: Codes,
    rule: _RowsToTheLeft,
    check_classes: ClassChecker,
    bounds: Sequence[Codes] | None,
) -> tuple[_OpenParts, Codes]:
    """Cut the parts of the chosen pieces, and keep the cuts that are allowed: their halves, and which parts."""
    part = state.part[chosen]
    value = state.positions[chosen, axis[part]]
    order = np.argsort(part * (int(value.max()) + 1) + value, kind="stable")
    chosen, part, value = chosen[order], part[order], value[order]
    weights = state.pieces.weights[chosen]
    height = np.zeros_like(value)
    for number, heights in enumerate(bounds or ()):
        is_here = axis[part] == number
        height[is_here] = heights[value[is_here]]
    left = rule(_SortedPieces(part=part, value=value, weights=weights, height=height))
    pieces = np.concatenate([chosen[left > 0], chosen[left < weights]])
    piece_weights = np.concatenate([left[left > 0], (weights - left)[left < weights]])
    side = np.concatenate([2 * part[left > 0], 2 * part[left < weights] + 1])
    order = np.argsort(side, kind="stable")
    half = state.take(pieces[order], side[order], piece_weights[order])
    return _keep_allowed(half, check_classes)


def _keep_allowed(half: _OpenParts, check_classes: ClassChecker) -> tuple[_OpenParts, Codes]:
    numbers, dense = np.unique(half.part, return_inverse=True)
    satisfied = numbers[check_classes(half.pieces, dense.reshape(-1), len(numbers))]
    parents, sides = np.unique(satisfied // 2, return_counts=True)
    allowed = parents[sides == 2]  # both halves are there, and keep the promise
    chosen = np.isin(half.part // 2, allowed)
    return half.take(chosen, half.part[chosen]), allowed


def _renumber(halves: list[_OpenParts]) -> _OpenParts:
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
    numbers = np.unique(part[order], return_inverse=True)[1].reshape(-1)
    return _OpenParts(pieces=pieces, positions=positions, part=numbers)


def _join(finished: list[_OpenParts]) -> MondrianParts:
    offset, parts = 0, []
    for state in finished:
        numbers, dense = np.unique(state.part, return_inverse=True)
        parts.append(dense.reshape(-1) + offset)
        offset += len(numbers)
    first = finished[0].pieces
    pieces = Pieces(
        attributes=first.attributes,
        quasi=first.quasi,
        codes=np.concatenate([state.pieces.codes for state in finished]),
        weights=np.concatenate([state.pieces.weights for state in finished]),
    )
    return MondrianParts(pieces=pieces, part_of=np.concatenate(parts).astype(np.int64), count=offset)


# --- where to cut: how many rows of every piece go to the left --------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _SortedPieces:
    """Pieces sorted by part and value."""

    part: Codes
    value: Codes
    weights: Codes
    height: Codes  # of the bound before the value, in the hierarchy; 0 without one

    def rows_before(self) -> tuple[Codes, Codes]:
        """Count the rows of its part before each piece, and the rows of its part."""
        starts = np.flatnonzero(np.diff(self.part, prepend=-1))
        lengths = np.diff(starts, append=len(self.part))
        total = np.cumsum(self.weights)
        base = np.repeat(total[starts] - self.weights[starts], lengths)
        rows = np.repeat(np.add.reduceat(self.weights, starts), lengths)
        return total - self.weights - base, rows

    def median(self) -> Codes:
        """Give each piece the upper median of its part."""
        before, rows = self.rows_before()
        middle = rows // 2
        is_median = (before <= middle) & (middle < before + self.weights)
        starts = np.flatnonzero(np.diff(self.part, prepend=-1))
        return np.repeat(self.value[is_median], np.diff(starts, append=len(self.part)))


_RowsToTheLeft = Callable[[_SortedPieces], Codes]


def _take_below(pieces: _SortedPieces) -> Codes:
    return np.where(pieces.value < pieces.median(), pieces.weights, 0)


def _take_up_to(pieces: _SortedPieces) -> Codes:
    return np.where(pieces.value <= pieces.median(), pieces.weights, 0)


def _take_half(pieces: _SortedPieces) -> Codes:
    before, rows = pieces.rows_before()
    left: Codes = np.clip(rows // 2 - before, 0, pieces.weights)
    return left


def _take_group(pieces: _SortedPieces) -> Codes:
    """Cut at the highest bound inside the part; of several, at the one nearest to the median."""
    before, rows = pieces.rows_before()
    starts = np.flatnonzero(np.diff(pieces.part, prepend=-1))
    lengths = np.diff(starts, append=len(pieces.part))
    least = np.repeat(pieces.value[starts], lengths)
    first_of_value = np.r_[True, (np.diff(pieces.value) != 0) | (np.diff(pieces.part) != 0)]
    # a bound inside the part is the highest between two values that occur next to each other
    is_inside = first_of_value & (pieces.value > least)
    height = np.where(is_inside, pieces.height, -1)
    highest = np.repeat(np.maximum.reduceat(height, starts), lengths)
    distance = np.where(is_inside & (height == highest), np.abs(2 * before - rows), np.iinfo(np.int64).max)
    nearest = np.repeat(np.minimum.reduceat(distance, starts), lengths)
    is_cut = is_inside & (distance == nearest)
    cut = np.where(is_cut, pieces.value, np.iinfo(np.int64).max)
    return np.where(pieces.value < np.repeat(np.minimum.reduceat(cut, starts), lengths), pieces.weights, 0)


# --- what the values of a class are called: a range, or the groups and values that it spans ---------------------------

MAX_ORDERED_CODES = 1 << 20  # of an attribute, to be ordered along its hierarchy; more stay in the order of the codes


@dataclass(frozen=True, eq=False)
class ValueLine:
    """The values of an attribute on a line: declared order if it has one, else neighbours in the hierarchy.

    "(other)" and "(missing)" stand behind the declared values of an ordered attribute.

    >>> from sudare.schema import NumberBins
    >>> line = ValueLine(Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), missing=True))
    >>> line.label(2, 4, ()), line.label(2, 2, (10,)), line.label(0, 9, (10,))
    ('[20,50)', '[20,30)|(missing)', '*')
    """

    attribute: Attribute

    @cached_property
    def order(self) -> Codes | None:
        """The codes along the line; None if they stand in their own order."""
        attribute = self.attribute
        hierarchy = attribute.hierarchy
        if attribute.is_ordered or hierarchy is None or attribute.size > MAX_ORDERED_CODES:
            return None
        codes = np.arange(attribute.size)
        return np.lexsort([codes, *(hierarchy.lift(codes, level) for level in range(1, hierarchy.height + 1))])

    @cached_property
    def _place_of(self) -> Codes | None:
        if self.order is None:
            return None
        place_of = np.empty(len(self.order), dtype=np.int64)
        place_of[self.order] = np.arange(len(self.order))
        return place_of

    @property
    def range_size(self) -> int:
        """Count the places that a range may run over; places behind stand by themselves."""
        return self.attribute.domain.size if self.order is None else self.attribute.size

    def places(self, codes: Codes) -> Codes:
        """Find the places of codes."""
        return codes if self._place_of is None else self._place_of[codes]

    def label_parts(self, places: Codes, part_of: Codes, count: int) -> tuple[Labels, Codes]:
        """Label every part by the places it holds, and count the values that the label stands for."""
        low, high = np.full(count, self.attribute.size), np.full(count, -1)
        in_range = places < self.range_size
        np.minimum.at(low, part_of[in_range], places[in_range])
        np.maximum.at(high, part_of[in_range], places[in_range])
        behind: dict[int, set[int]] = {}
        for part, place in np.unique(np.column_stack([part_of[~in_range], places[~in_range]]), axis=0).tolist():
            behind.setdefault(part, set()).add(place)
        spans = [(int(low[part]), int(high[part]), tuple(sorted(behind.get(part, ())))) for part in range(count)]
        label_of = {span: self.label(*span) for span in set(spans)}
        labels = np.array([label_of[span] for span in spans], dtype=np.object_)
        sizes = np.maximum(high - low + 1, 0) + np.array([len(span[2]) for span in spans], dtype=np.int64)
        return labels, sizes

    def label_values(self, codes: Sequence[int]) -> str | None:
        """Name exactly these values, as runs along the line; None is a missing value alone.

        >>> from sudare.schema import Values
        >>> line = ValueLine(Attribute(name="school", domain=Values(("none", "high", "junior", "college"))))
        >>> line.label_values([1, 3]), line.label_values([0, 1, 2, 3])
        ('high|college', '*')
        """
        places = sorted(self.places(np.array(codes, dtype=np.int64)).tolist())
        if len(places) == self.attribute.size and len(places) > 1:
            return TOP_LABEL
        if len(places) == 1:
            return self._label_value(places[0])
        runs: list[tuple[int, int]] = []
        for place in places:
            is_next = bool(runs) and runs[-1][1] + 1 == place < self.range_size
            runs[-1:] = [(runs[-1][0], place)] if is_next else [*runs[-1:], (place, place)]
        return "|".join(self.name_range(low, high) for low, high in runs)

    def label(self, low: int, high: int, behind: tuple[int, ...]) -> str | None:
        """Name the places from low to high (none if high < low), and those behind; None is a missing value alone."""
        count = max(high - low + 1, 0)
        if count + len(behind) == self.attribute.size and self.attribute.size > 1:
            return TOP_LABEL
        if count + len(behind) == 1:
            return self._label_value(low if count else behind[0])
        labels = [self.name_range(low, high)] if count else []
        return "|".join([*labels, *(self._name_value(place) for place in behind)])

    def _label_value(self, place: int) -> str | None:
        code = place if self.order is None else int(self.order[place])
        label: str | None = self.attribute.labels(np.array([code]))[0]
        return label

    def _name_value(self, place: int) -> str:
        return self._label_value(place) or "(missing)"

    def name_range(self, low: int, high: int) -> str:
        """Name the places from low to high, even if these are all."""
        if low == high:
            return self._name_value(low)
        if bins := find_bins(self.attribute.domain):
            starts = sorted({0, low, *([high + 1] if high + 1 < bins.size else [])})
            merged = bins.merged(starts)
            return str(merged.labels(np.array([starts.index(low)]))[0])
        if self.attribute.is_ordered:
            return f"{self._name_value(low)}..{self._name_value(high)}"
        return "|".join(self._label_groups(low, high))

    def _label_groups(self, low: int, high: int) -> list[str]:
        """Name the largest groups of the hierarchy that lie inside the range, and the values that are left."""
        hierarchy, labels, place = self.attribute.hierarchy, [], low
        while place <= high:
            level, end = (0, place) if hierarchy is None else self._find_widest_group(place, high)
            if hierarchy is None or level == 0:
                labels.append(self._name_value(place))
            else:
                group = hierarchy.lift(np.array([place if self.order is None else self.order[place]]), level)
                labels.append(str(hierarchy.labels(group, level)[0]))
            place = end + 1
        return labels

    def _find_widest_group(self, place: int, high: int) -> tuple[int, int]:
        """Find the highest level whose group begins at a place and ends by `high`, and where it ends."""
        widest = (0, place)
        for level in range(1, self.attribute.height + 1):
            groups = self._groups_along(level)
            first = int(np.searchsorted(groups, groups[place], side="left"))
            last = int(np.searchsorted(groups, groups[place], side="right")) - 1
            if first == place and widest[1] < last <= high:
                widest = (level, last)
        return widest

    def _groups_along(self, level: int) -> Codes:
        """Give the groups of a level along the line, numbered in the order they are met."""
        hierarchy, order = self.attribute.hierarchy, self.order
        codes = np.arange(self.attribute.size) if order is None else order
        lifted = codes if hierarchy is None else hierarchy.lift(codes, level)
        return np.cumsum(np.diff(lifted, prepend=lifted[:1]) != 0)
