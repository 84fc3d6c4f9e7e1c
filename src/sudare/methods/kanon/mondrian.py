"""Mondrian: cut the table in two at a median, again and again, while both halves keep the promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.methods.kanon.recode import Pieces

Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]
Holds = Callable[[Pieces, Codes, int], Bools]
"""Told pieces, the part of each and the number of parts: which parts keep the promise."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Parts:
    """Pieces and the part of each, numbered from 0."""

    pieces: Pieces
    part_of: Codes
    count: int


def partition(pieces: Pieces, positions: Codes, holds: Holds, *, relaxed: bool = False, both: bool = True) -> Parts:
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

    def take(self, chosen: NDArray[np.int64] | Bools, part: Codes, weights: Codes | None = None) -> _State:
        pieces = self.pieces.take(chosen, weights)
        return _State(pieces=pieces, positions=self.positions[chosen], part=part)


def _deeper(state: _State, scale: NDArray[np.float64], cuts: tuple[_Cut, ...], holds: Holds) -> tuple[_State, _State]:
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


def _tried(state: _State, tried: Codes, axis: Codes, cut: _Cut, holds: Holds) -> tuple[_State, Codes]:
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


def _allowed(half: _State, holds: Holds) -> tuple[_State, Codes]:
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
