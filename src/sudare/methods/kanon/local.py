"""Local recoding: rows that would be left out are generalised further, among themselves."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.errors import Infeasible, ParameterError
from sudare.methods.kanon.criteria import Criterion
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import Found, Problem
from sudare.methods.kanon.quality import Quality
from sudare.methods.kanon.recode import ClassCheck, HierarchyCut, Pieces, class_numbers, part_of_table, shares_of
from sudare.schema.arrays import Codes

MOST_ROUNDS = 24
HALF = Fraction(1, 2)  # of the rows of a round may wait for the next one


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Round:
    """Some pieces, generalised to one node: `pieces` by position, and the class of each, numbered from 0."""

    node: Node
    pieces: Codes
    class_of: Codes


def recode_locally(
    pieces: Pieces,
    waiting: Codes,
    *,
    lattice: Lattice,
    criteria: tuple[Criterion, ...],
    quality: Quality,
    holds: ClassCheck,
    find: Callable[[Problem], Found],
    deadline_seconds: float | None = None,
) -> list[Round]:
    """Generalise the waiting pieces in rounds: each finds the best node that lets half of their rows go.

    Rows that wait in the end cannot be published. Every class of a round keeps the criteria by itself, so that it does
    so too where its labels are those of another class.
    """
    shares = shares_of(pieces)
    rounds: list[Round] = []
    for _ in range(MOST_ROUNDS):
        rest = pieces.take(waiting)
        problem = Problem(
            tuples=part_of_table(rest, shares),
            lattice=lattice,
            criteria=criteria,
            quality=quality,
            max_suppressed=HALF,
            deadline_seconds=deadline_seconds,
        )
        try:
            node = find(problem).node
        except Infeasible:
            return rounds
        class_of = class_numbers(node_groups(rest, node))
        is_kept = holds(rest, class_of, int(class_of.max(initial=-1)) + 1)[class_of]
        if not is_kept.any():
            return rounds
        numbers = np.unique(class_of[is_kept], return_inverse=True)[1].reshape(-1)
        rounds.append(Round(node=node, pieces=waiting[is_kept], class_of=numbers))
        waiting = waiting[~is_kept]
        if not waiting.size:
            return rounds
    return rounds


def node_groups(pieces: Pieces, node: Node) -> Codes:
    """Give the groups (pieces, q) of every quasi-identifier at a node."""
    return np.column_stack(
        [
            HierarchyCut.at(attribute, level, pieces.codes[:, axis]).groups(pieces.codes[:, axis])
            for axis, (attribute, level) in enumerate(zip(pieces.attributes[: pieces.quasi], node, strict=True))
        ]
    )


# Value-level recoding: from a node of the lattice down, only the values that need it stay as high as they are.


@dataclass(slots=True, eq=False)
class _State:
    """Where the opening stands: cuts, the class of every piece, and whether its class keeps the promise."""

    pieces: Pieces
    cuts: list[HierarchyCut]
    class_of: Codes
    is_kept: NDArray[np.bool_]
    lost: int
    count: int  # of the classes numbered so far


def open_values(
    pieces: Pieces,
    node: Node,
    holds: ClassCheck,
    *,
    most_lost: int,
    deadline_seconds: float | None = None,
) -> tuple[list[HierarchyCut], Codes, NDArray[np.bool_]]:
    """Let groups of values stand by themselves, those that gain most first, as long as the promise allows it.

    One step takes one child out of its group; the label of the group is left for the values that stay. It is allowed
    if at most `most_lost` rows are then in classes that fail, and the loss does not grow, rows left out counted as
    lost. The node must keep that limit, so the result is at least as fine as the node. A child that may not leave now
    may not leave later: other steps only make classes smaller. Returns the cuts, the class of every piece, and whether
    the class keeps the promise.

    Source: the value generalisation hierarchies (VGH) of Oguri et al. 2016, section 3, figure 4
    """
    state = _begin(pieces, node, holds)
    ends = None if deadline_seconds is None else time.monotonic() + deadline_seconds
    heap = [item for axis in range(pieces.quasi) for item in _candidates(state, axis, np.arange(len(pieces.weights)))]
    heapq.heapify(heap)
    while heap and (ends is None or time.monotonic() < ends):
        _, axis, level, child = heapq.heappop(heap)
        group = _group(state, axis, level, child)
        if _open(state, axis, level, child, group, holds, most_lost):
            leaves = state.cuts[axis].lift(pieces.codes[group, axis], level - 1) == child
            for item in _candidates(state, axis, group[leaves]):
                heapq.heappush(heap, item)
    return state.cuts, state.class_of, state.is_kept


def open_best(
    pieces: Pieces,
    nodes: Iterable[Node],
    holds: ClassCheck,
    *,
    most_lost: int,
    deadline_seconds: float | None = None,
) -> tuple[list[HierarchyCut], Codes, NDArray[np.bool_]]:
    """Open values from several nodes and keep the opening of least loss; the first node must keep the limit."""
    best, least = None, float("inf")
    for node in dict.fromkeys(nodes):
        found = open_values(pieces, node, holds, most_lost=most_lost, deadline_seconds=deadline_seconds)
        cuts, _, is_kept = found
        if best is None or (int(pieces.weights[~is_kept].sum()) <= most_lost and _loss(pieces, cuts, is_kept) < least):
            best, least = found, _loss(pieces, cuts, is_kept)
    if best is None:
        raise ParameterError("values are opened from at least one node")
    return best


def _loss(pieces: Pieces, cuts: list[HierarchyCut], is_kept: NDArray[np.bool_]) -> float:
    total = 0.0
    for axis, cut in enumerate(cuts):
        wide = (cut.spread(pieces.codes[:, axis]) - 1) / max(1, cut.attribute.size - 1)
        lost = np.where(is_kept, wide, 1.0 if cut.attribute.size > 1 else 0.0)
        total += math.log1p(float((lost * pieces.weights).sum()) / max(1, pieces.rows))
    return total


def _begin(pieces: Pieces, node: Node, holds: ClassCheck) -> _State:
    cuts = [
        HierarchyCut.at(attribute, level, pieces.codes[:, axis])
        for axis, (attribute, level) in enumerate(zip(pieces.attributes[: pieces.quasi], node, strict=True))
    ]
    groups = np.column_stack([cut.groups(pieces.codes[:, axis]) for axis, cut in enumerate(cuts)])
    class_of = class_numbers(groups)
    count = int(class_of.max(initial=-1)) + 1
    is_kept = holds(pieces, class_of, count)[class_of]
    return _State(pieces, cuts, class_of, is_kept, int(pieces.weights[~is_kept].sum()), count)


def _candidates(state: _State, axis: int, inside: Codes) -> list[tuple[float, int, int, int]]:
    """The children (groups one level down) of the groups of these pieces, by what their leaving would gain at most."""
    cut, codes = state.cuts[axis], state.pieces.codes[inside, axis]
    levels = cut.level_of(codes)
    found = []
    for level in np.unique(levels[levels > 0]).tolist():
        here = np.flatnonzero(levels == level)
        children, first, number = np.unique(cut.lift(codes[here], level - 1), return_index=True, return_inverse=True)
        rows = np.bincount(number.reshape(-1), weights=state.pieces.weights[inside[here]])
        before = cut.leaves(level)[cut.lift(codes[here[first]], level)]
        gains = rows * (before - cut.leaves(level - 1)[children]) / max(1, cut.attribute.size - 1)
        found += [(-float(gain), axis, level, int(child)) for gain, child in zip(gains, children, strict=True)]
    return found


def _group(state: _State, axis: int, level: int, child: int) -> Codes:
    """The pieces of the group that a child would leave, those of the child too."""
    cut, codes = state.cuts[axis], state.pieces.codes[:, axis]
    at_level = np.flatnonzero(cut.level_of(codes) == level)
    members = cut.lift(codes[at_level], level - 1) == child
    parent = cut.lift(codes[at_level[members][:1]], level)
    found: Codes = at_level[cut.lift(codes[at_level], level) == parent]
    return found


def _open(state: _State, axis: int, level: int, child: int, group: Codes, holds: ClassCheck, most_lost: int) -> bool:
    """Take one child out of its group, if the promise and the limit allow it and nothing is lost by it."""
    cut, pieces = state.cuts[axis], state.pieces.take(group)
    leaves = cut.lift(pieces.codes[:, axis], level - 1) == child
    fine = class_numbers(np.column_stack([state.class_of[group], leaves]))
    is_kept = holds(pieces, fine, int(fine.max()) + 1)[fine]
    lost = state.lost - int(pieces.weights[~state.is_kept[group]].sum()) + int(pieces.weights[~is_kept].sum())
    if lost > most_lost or _cost(state, axis, level, group, leaves, is_kept) > 0:
        return False
    state.cuts[axis] = cut.lowered(child, level)
    state.class_of[group] = state.count + fine
    state.is_kept[group] = is_kept
    state.lost, state.count = lost, state.count + int(fine.max()) + 1
    return True


def _cost(
    state: _State, axis: int, level: int, group: Codes, leaves: NDArray[np.bool_], is_kept: NDArray[np.bool_]
) -> float:
    """How the loss changes, summed over attributes and rows: values that leave gain, rows newly left out lose."""
    cut, pieces = state.cuts[axis], state.pieces
    top = max(1, cut.attribute.size - 1)
    gone, weights = group[leaves & is_kept], pieces.weights[group]
    codes = pieces.codes[gone, axis]
    before, after = (cut.leaves(one)[cut.lift(codes, one)] for one in (level, level - 1))
    gain = float((pieces.weights[gone] * (before - after)).sum()) / top
    newly = state.is_kept[group] & ~is_kept
    if not newly.any():
        return -gain
    whole = np.zeros(int(newly.sum()))
    for other, one in enumerate(state.cuts):
        wide = (one.spread(pieces.codes[group[newly], other]) - 1) / max(1, one.attribute.size - 1)
        whole += 1 - wide
    return float((weights[newly] * whole).sum()) - gain
