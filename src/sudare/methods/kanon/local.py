"""Recoding below the level of a node, in two ways that may follow each other.

Value-level recoding starts from a node of the lattice and refines it: groups of values that can stand by themselves do,
and only the values that need it stay as high as they are. Local recoding takes the rows that would be suppressed and
generalises them further, among themselves.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.errors import Infeasible, ParameterError
from sudare.methods.kanon.criteria import Criterion
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import Problem, SearchResult
from sudare.methods.kanon.quality import Quality
from sudare.methods.kanon.recode import (
    ClassChecker,
    HierarchyCut,
    Pieces,
    make_partial_tuples,
    number_classes,
    sensitive_shares,
)
from sudare.schema.arrays import Booleans, Codes

# --- local recoding: rows that would be suppressed are generalised among themselves -----------------------------------

MAX_ROUNDS = 24  # each round halves the waiting rows at least
MAX_WAITING = Fraction(1, 2)  # share of the rows of a round that may wait for the next one


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LocalRound:
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
    check_classes: ClassChecker,
    search: Callable[[Problem], SearchResult],
    deadline_seconds: float | None = None,
) -> list[LocalRound]:
    """Generalise the waiting pieces in rounds: each finds the best node that lets half of their rows go.

    Rows that wait in the end cannot be published. Every class of a round satisfies the criteria by itself, so that it
    does so too where its labels are those of another class.
    """
    shares = sensitive_shares(pieces)
    rounds: list[LocalRound] = []
    for _ in range(MAX_ROUNDS):
        remaining = pieces.take(waiting)
        problem = Problem(
            tuples=make_partial_tuples(remaining, shares),
            lattice=lattice,
            criteria=criteria,
            quality=quality,
            max_suppressed=MAX_WAITING,
            deadline_seconds=deadline_seconds,
        )
        try:
            node = search(problem).node
        except Infeasible:
            return rounds
        class_of = number_classes(node_groups(remaining, node))
        is_kept = check_classes(remaining, class_of, int(class_of.max(initial=-1)) + 1)[class_of]
        if not is_kept.any():
            return rounds
        numbers = np.unique(class_of[is_kept], return_inverse=True)[1].reshape(-1)
        rounds.append(LocalRound(node=node, pieces=waiting[is_kept], class_of=numbers))
        waiting = waiting[~is_kept]
        if not waiting.size:
            return rounds
    return rounds


def cut_at_node(pieces: Pieces, node: Node) -> list[HierarchyCut]:
    """Put every quasi-identifier at its level of a node."""
    return [
        HierarchyCut.at_level(attribute, level, pieces.codes[:, axis])
        for axis, (attribute, level) in enumerate(zip(pieces.attributes[: pieces.quasi], node, strict=True))
    ]


def node_groups(pieces: Pieces, node: Node) -> Codes:
    """Give the groups (pieces, q) of every quasi-identifier at a node."""
    return np.column_stack([cut.groups(pieces.codes[:, axis]) for axis, cut in enumerate(cut_at_node(pieces, node))])


# --- value-level recoding: from a node of the lattice down ------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Refinement:
    """How far the refinement is: cuts, the class of every piece, and whether its class keeps the promise."""

    pieces: Pieces
    cuts: list[HierarchyCut]
    class_of: Codes
    is_kept: Booleans
    suppressed_rows: int
    class_count: int  # of the classes numbered so far


def refine_values(
    pieces: Pieces,
    node: Node,
    check_classes: ClassChecker,
    *,
    max_suppressed_rows: int,
    deadline_seconds: float | None = None,
) -> tuple[list[HierarchyCut], Codes, Booleans]:
    """Let groups of values stand by themselves, those that gain most first, as long as the promise allows it.

    One step takes one child out of its group; the label of the group is left for the values that stay. It is allowed
    if at most `max_suppressed_rows` are then in classes that fail, and the loss does not grow, suppressed rows counted
    as lost. The node must keep that limit, so the result is at least as fine as the node. A child that may not leave
    now may not leave later: other steps only make classes smaller. Returns the cuts, the class of every piece, and
    whether the class keeps the promise.

    Source: the value generalisation hierarchies (VGH) of Oguri et al. 2016, section 3, figure 4
    """
    state = _start_refinement(pieces, node, check_classes)
    stop = None if deadline_seconds is None else time.monotonic() + deadline_seconds
    everything = np.arange(len(pieces.weights))
    heap = [step for axis in range(pieces.quasi) for step in _list_steps(state, axis, everything)]
    heapq.heapify(heap)
    while heap and (stop is None or time.monotonic() < stop):
        _, axis, level, child = heapq.heappop(heap)
        group = _pieces_of_group(state, axis, level, child)
        if _take_out(state, axis, level, child, group, check_classes, max_suppressed_rows):
            leaves = state.cuts[axis].lift(pieces.codes[group, axis], level - 1) == child
            for step in _list_steps(state, axis, group[leaves]):
                heapq.heappush(heap, step)
    return state.cuts, state.class_of, state.is_kept


def refine_from_best_node(
    pieces: Pieces,
    nodes: Iterable[Node],
    check_classes: ClassChecker,
    *,
    max_suppressed_rows: int,
    deadline_seconds: float | None = None,
) -> tuple[list[HierarchyCut], Codes, Booleans]:
    """Refine from several nodes and keep the result of least loss; the first node must keep the limit."""
    best, least = None, float("inf")
    for node in dict.fromkeys(nodes):
        refined = refine_values(
            pieces,
            node,
            check_classes,
            max_suppressed_rows=max_suppressed_rows,
            deadline_seconds=deadline_seconds,
        )
        cuts, _, is_kept = refined
        is_within = int(pieces.weights[~is_kept].sum()) <= max_suppressed_rows
        if best is None or (is_within and _measure_loss(pieces, cuts, is_kept) < least):
            best, least = refined, _measure_loss(pieces, cuts, is_kept)
    if best is None:
        raise ParameterError("values are refined from at least one node; give one")
    return best


def _measure_loss(pieces: Pieces, cuts: list[HierarchyCut], is_kept: Booleans) -> float:
    total = 0.0
    for axis, cut in enumerate(cuts):
        covered = (cut.label_sizes(pieces.codes[:, axis]) - 1) / max(1, cut.attribute.size - 1)
        lost = np.where(is_kept, covered, 1.0 if cut.attribute.size > 1 else 0.0)
        total += math.log1p(float((lost * pieces.weights).sum()) / max(1, pieces.rows))
    return total


def _start_refinement(pieces: Pieces, node: Node, check_classes: ClassChecker) -> _Refinement:
    class_of = number_classes(node_groups(pieces, node))
    count = int(class_of.max(initial=-1)) + 1
    is_kept = check_classes(pieces, class_of, count)[class_of]
    suppressed_rows = int(pieces.weights[~is_kept].sum())
    return _Refinement(pieces, cut_at_node(pieces, node), class_of, is_kept, suppressed_rows, count)


_Step = tuple[float, int, int, int]
"""A child that may leave its group: minus the most it can gain, attribute, level of the group, number of the child."""


def _list_steps(state: _Refinement, axis: int, among: Codes) -> list[_Step]:
    """List the children (groups one level down) of the groups of these pieces."""
    cut, codes = state.cuts[axis], state.pieces.codes[among, axis]
    levels = cut.level_of(codes)
    steps: list[_Step] = []
    for level in np.unique(levels[levels > 0]).tolist():
        at_level = np.flatnonzero(levels == level)
        children, first, number = np.unique(
            cut.lift(codes[at_level], level - 1), return_index=True, return_inverse=True
        )
        rows = np.bincount(number.reshape(-1), weights=state.pieces.weights[among[at_level]])
        before = cut.group_sizes(level)[cut.lift(codes[at_level[first]], level)]
        gains = rows * (before - cut.group_sizes(level - 1)[children]) / max(1, cut.attribute.size - 1)
        steps += [(-float(gain), axis, level, int(child)) for gain, child in zip(gains, children, strict=True)]
    return steps


def _pieces_of_group(state: _Refinement, axis: int, level: int, child: int) -> Codes:
    """Find the pieces of the group that a child would leave, those of the child too."""
    cut, codes = state.cuts[axis], state.pieces.codes[:, axis]
    at_level = np.flatnonzero(cut.level_of(codes) == level)
    members = cut.lift(codes[at_level], level - 1) == child
    parent = cut.lift(codes[at_level[members][:1]], level)
    group: Codes = at_level[cut.lift(codes[at_level], level) == parent]
    return group


def _take_out(
    state: _Refinement,
    axis: int,
    level: int,
    child: int,
    group: Codes,
    check_classes: ClassChecker,
    max_suppressed_rows: int,
) -> bool:
    """Take one child out of its group, if the promise and the limit allow it and nothing is lost by it."""
    cut, pieces = state.cuts[axis], state.pieces.take(group)
    leaves = cut.lift(pieces.codes[:, axis], level - 1) == child
    fine = number_classes(np.column_stack([state.class_of[group], leaves]))
    is_kept = check_classes(pieces, fine, int(fine.max()) + 1)[fine]
    suppressed_before = int(pieces.weights[~state.is_kept[group]].sum())
    suppressed = state.suppressed_rows - suppressed_before + int(pieces.weights[~is_kept].sum())
    if suppressed > max_suppressed_rows or _change_of_loss(state, axis, level, group, leaves, is_kept) > 0:
        return False
    state.cuts[axis] = cut.lower(child, level)
    state.class_of[group] = state.class_count + fine
    state.is_kept[group] = is_kept
    state.suppressed_rows, state.class_count = suppressed, state.class_count + int(fine.max()) + 1
    return True


def _change_of_loss(
    state: _Refinement, axis: int, level: int, group: Codes, leaves: Booleans, is_kept: Booleans
) -> float:
    """Sum up over attributes and rows how the loss changes: values that leave gain, rows newly suppressed lose."""
    cut, pieces = state.cuts[axis], state.pieces
    top = max(1, cut.attribute.size - 1)
    leaving, weights = group[leaves & is_kept], pieces.weights[group]
    codes = pieces.codes[leaving, axis]
    before, after = (cut.group_sizes(at)[cut.lift(codes, at)] for at in (level, level - 1))
    gain = float((pieces.weights[leaving] * (before - after)).sum()) / top
    newly = state.is_kept[group] & ~is_kept
    if not newly.any():
        return -gain
    lost = np.zeros(int(newly.sum()))
    for other_axis, other in enumerate(state.cuts):
        sizes = other.label_sizes(pieces.codes[group[newly], other_axis])
        lost += 1 - (sizes - 1) / max(1, other.attribute.size - 1)
    return float((weights[newly] * lost).sum()) - gain
