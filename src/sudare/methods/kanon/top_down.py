"""Local recoding along the hierarchies, from the top down: every class has levels of its own.

All rows begin as one part, every quasi-identifier at its top. A step opens one attribute of a part by one level. The
groups one level down that keep the promise leave the part with the finer label. The rows of the other groups stay
together as the rest, at the old label, and go on with other attributes. A rest that fails by itself takes in the
smallest groups that left, or it waits: when all parts are done, the waiting rows begin again from the top among
themselves, so that rare rows of many parts meet. Which attribute a part opens is decided by the loss that is saved
over the information that is used up.

Every part keeps the promise when it is made and is only ever divided into parts that keep it, and all criteria are
union-closed, so parts with equal labels keep it together. Rows of one combination stay together. Labels of different
classes may overlap ("30-39" and "35"): who looks for a person still finds k rows alike. Proof: proofs/kanon.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from sudare.counts.relabelling import SUPPRESSED
from sudare.methods.kanon.equal_keys import group_keys
from sudare.methods.kanon.label_moves import LabelSpace, move_to_labels, recode_by_nodes
from sudare.methods.kanon.recode import number_classes
from sudare.methods.kanon.value_tree import ClassRule, ValueTree
from sudare.schema.arrays import Booleans, Codes, Reals

# Chosen on Adult (k = 5 and 50) and on made-up tables; benchmarks/kanon_local.py measures others.
WAITING_LOSS = 0.4  # what a row that waits for the next round is taken to lose, in attributes left out
MAX_ROUNDS = 8
MAX_TAKEN_IN = 3  # groups that a failing rest may take in
# The power of the information in the score of a step decides how greedy it is; no power is best for all tables.
REDIVISIONS = ((0.1, 0.5), (0.3, 0.25), (0.1, 0.75))  # share of the classes to divide anew, and the power
EFFORTS = {
    "quick": ((0.25, 0.5), REDIVISIONS[:1]),
    "small": ((0.25, 0.5, 1.0), REDIVISIONS),  # what "quick" does with a small table
    "best": ((0.25, 0.5, 1.0), REDIVISIONS * 8),
}  # powers, then what follows
SMALL_TABLE = 80_000  # codes (combinations times attributes) of a table for which twice the work takes under a second
MAX_LABEL_CODES = {"quick": 250_000, "best": 2_500_000}  # of a table whose labels are all looked at
# moves of a small table: labels it tries to open times its combinations (300 if it has fewer), and how often classes
# are taken apart before
MOVE_WORK = {"quick": 3_000_000, "best": 20_000_000}
MOVE_TURNS = {"quick": 36, "best": 240}
LIFTED_LABELS = (2, 3, 4)  # classes that are put at the top together
REORDER = 0.8  # how far the order of the coarsest classes may differ from turn to turn


@dataclass(frozen=True, kw_only=True, eq=False)
class TopDownParts:
    """The part of every piece, numbered from 0, and the level (pieces, q) of each of its quasi-identifiers.

    The part of a piece that is left out is SUPPRESSED.
    """

    trees: tuple[ValueTree, ...]
    part_of: Codes
    levels: Codes


Effort = Literal["quick", "best"]


def specialise(
    rule: ClassRule,
    *,
    effort: Effort = "quick",
    is_flat: bool = False,
    weights: Sequence[float] | None = None,
    max_left_out: int | None = None,
    is_late: Callable[[], bool] = lambda: False,
) -> TopDownParts:
    """Recode all rows from the top, then divide the coarsest classes anew as long as that saves loss.

    Once `is_late` says so, parts stay as they are: each keeps the promise at any time. With `max_left_out`, parts are
    classes by their labels: those of a small table are made better by moves, and so many rows may be left out.

    The table as one class must keep the promise; then every part does. With `is_flat`, a value stays or is hidden.
    """
    pieces = rule.pieces
    trees = tuple(
        ValueTree.of(
            attribute, pieces.codes[:, axis], is_flat=is_flat, weight=1.0 if weights is None else weights[axis]
        )
        for axis, attribute in enumerate(pieces.attributes[: pieces.quasi])
    )
    columns = [np.searchsorted(tree.values, pieces.codes[:, axis]) for axis, tree in enumerate(trees)]
    weighed = pieces.weights.astype(np.float64)
    table = _Table(rule=rule, trees=trees, columns=tuple(columns), weights=weighed, is_late=is_late)
    space = None
    if max_left_out is not None:
        space = LabelSpace.of(rule, trees, columns, max_left_out=max_left_out, max_codes=MAX_LABEL_CODES[effort])
    is_small = space is not None or pieces.codes.shape[0] * pieces.quasi <= SMALL_TABLE
    powers, redivisions = EFFORTS["small" if is_small and (space is not None or effort == "quick") else effort]
    everything = np.arange(len(pieces.weights))
    starts = [_specialise_in_rounds(table, everything, powers[0])]
    starts += [_specialise_in_rounds(table, everything, power) for power in powers[1:] if not is_late()]
    parts = min(starts, key=lambda parts: _measure_loss(table, parts))
    for turn, (share, power) in enumerate(redivisions):
        if is_late():
            break
        parts = min(parts, _divide_anew(table, parts, share, power, turn), key=lambda some: _measure_loss(table, some))
    left_out = np.zeros(len(everything), dtype=bool)
    if space is not None and not is_late():
        parts, left_out = _move(table, space, parts, effort)
    part_of = np.where(left_out, SUPPRESSED, parts.part)
    part_of[~left_out] = number_classes(part_of[~left_out, None])
    return TopDownParts(trees=trees, part_of=part_of, levels=parts.levels)


def _divide_anew(table: _Table, parts: _Parts, share: float, power: float, turn: int) -> _Parts:
    """Divide the coarsest parts anew, as one."""
    chosen = _coarsest_pieces(table, parts, share, turn)
    divided = _specialise_in_rounds(table, chosen, power)
    part_of, levels = parts.part.copy(), parts.levels.copy()
    part_of[chosen] = divided.part + int(parts.part.max(initial=-1)) + 1
    levels[chosen] = divided.levels
    return _Parts(pieces=parts.pieces, part=part_of, levels=levels)


def _move(table: _Table, space: LabelSpace, parts: _Parts, effort: Effort) -> tuple[_Parts, Booleans]:
    """Make the classes of a small table better by moves from label to label; also tell which pieces are left out.

    Moves begin at the parts and at those of rounds of a global search, then at classes divided anew.
    """
    best, tries = space.find_nodes(parts.levels), _count_tries(space, "quick")
    for start in (best, recode_by_nodes(space, table.is_late)):
        if start is not None:
            moved, made = move_to_labels(space, start, tries // 3, table.is_late)
            best, tries = min(best, moved, key=space.measure_loss), tries - made
    best = _move_again(table, space, best, tries, range(MOVE_TURNS["quick"]))
    if effort == "best":
        turns = range(MOVE_TURNS["quick"], MOVE_TURNS["best"])
        best = _move_again(table, space, best, _count_tries(space, "best"), turns)
    return _parts_of_nodes(space, best), (best == space.out)[space.combination_of]


def _count_tries(space: LabelSpace, effort: Effort) -> int:
    work = MOVE_WORK[effort] / (1 if space.is_k_alone else 4)  # criteria besides k take longer to check
    return int(work / max(300, len(space.rows)))


def _move_again(table: _Table, space: LabelSpace, best: Codes, tries: int, turns: range) -> Codes:
    """Divide the coarsest classes anew, or put some at the top, and make moves from there; the best nodes."""
    for turn in turns:
        if tries <= 0 or table.is_late():
            break
        again = _divide_nodes_anew(table, space, best, turn // 2) if turn % 2 else _lift_labels(space, best, turn // 2)
        if space.satisfied(again):
            moved, made = move_to_labels(space, again, tries, table.is_late)
            best, tries = min(best, moved, key=space.measure_loss), tries - made
    return best


def _divide_nodes_anew(table: _Table, space: LabelSpace, node_of: Codes, turn: int) -> Codes:
    share, power = REDIVISIONS[turn % len(REDIVISIONS)]
    divided = _divide_anew(table, _parts_of_nodes(space, node_of), share, power, turn)
    again = space.find_nodes(divided.levels)
    again[(node_of == space.out) & (again == space.top)] = space.out
    return again


def _lift_labels(space: LabelSpace, node_of: Codes, turn: int) -> Codes:
    """Put the combinations of a few labels at the top, other ones in every turn."""
    label_of = space.labels[node_of, space.everything]
    labels = np.unique(label_of[node_of != space.out])
    chosen = np.argsort(_spread(len(labels), turn), kind="stable")[: LIFTED_LABELS[turn % len(LIFTED_LABELS)]]
    return np.where(np.isin(label_of, labels[chosen]), space.top, node_of)


def _spread(count: int, turn: int) -> Reals:
    """Numbers between 0 and 1, spread evenly, other ones in every turn and the same ones in every run."""
    return np.asarray(np.modf(0.6180339887498949 * (1 + turn) * (1 + np.arange(count)))[0])


def _parts_of_nodes(space: LabelSpace, node_of: Codes) -> _Parts:
    label_of = space.labels[node_of, space.everything][space.combination_of]
    return _Parts(
        pieces=np.arange(len(label_of)),
        part=number_classes(label_of[:, None]),
        levels=space.nodes[node_of][space.combination_of],
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Table:
    """The pieces, and the place of each of their values in its tree."""

    rule: ClassRule
    trees: tuple[ValueTree, ...]
    columns: tuple[Codes, ...]
    weights: Reals
    is_late: Callable[[], bool]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Parts:
    """Some pieces, the part of each, and the levels: of every part while parts are open, then of every piece."""

    pieces: Codes
    part: Codes
    levels: Codes


def _measure_loss(table: _Table, parts: _Parts) -> float:
    """Measure the loss of all pieces, in the order of ARX's Loss."""
    rows = max(1.0, float(table.weights.sum()))
    means = [float((losses * table.weights).sum()) / rows for losses in _losses_of_pieces(table, parts)]
    return float(np.log1p(means).sum())


def _losses_of_pieces(table: _Table, parts: _Parts) -> list[Reals]:
    """Give the loss of every piece in each attribute."""
    return [
        tree.losses[parts.levels[:, axis], column]
        for axis, (tree, column) in enumerate(zip(table.trees, table.columns, strict=True))
    ]


def _coarsest_pieces(table: _Table, parts: _Parts, share: float, turn: int) -> Codes:
    """Find the pieces of the parts that lose most for each row; each turn looks at them in another order."""
    weights = table.weights
    losses = np.sum(_losses_of_pieces(table, parts), axis=0)
    count = int(parts.part.max(initial=-1)) + 1
    rows = np.bincount(parts.part, weights=weights, minlength=count)
    mean = np.bincount(parts.part, weights=losses * weights, minlength=count) / np.maximum(rows, 1)
    order = np.argsort(-mean * (1 - REORDER / 2 + REORDER * _spread(count, turn)), kind="stable")
    is_chosen = np.zeros(count, dtype=bool)
    is_chosen[order[: math.ceil(share * int((rows > 0).sum()))]] = True
    return np.flatnonzero(is_chosen[parts.part])


def _specialise_in_rounds(table: _Table, chosen: Codes, power: float) -> _Parts:
    """Divide pieces from the top; those that wait are divided among themselves, until none wait or none may."""
    finished, offset, waiting = [], 0, chosen
    for turn in range(MAX_ROUNDS):
        waiting_loss = WAITING_LOSS if turn < MAX_ROUNDS - 1 else np.inf
        done, later = _divide(table, waiting, power, waiting_loss)
        if later.size and not _is_one_class(table.rule, later):
            done, later = _divide(table, waiting, power, np.inf, is_bounded=False)  # late, all would stay one part
        finished.append(replace(done, part=done.part + offset))
        offset += int(done.part.max(initial=-1)) + 1
        waiting = later
        if not waiting.size:
            break
    joined = _join(finished)
    order = np.argsort(joined.pieces)  # `chosen` is increasing
    return _Parts(pieces=chosen, part=joined.part[order], levels=joined.levels[order])


def _join(parts: list[_Parts]) -> _Parts:
    return _Parts(
        pieces=np.concatenate([some.pieces for some in parts]),
        part=np.concatenate([some.part for some in parts]),
        levels=np.concatenate([some.levels for some in parts]),
    )


def _is_one_class(rule: ClassRule, chosen: Codes) -> bool:
    rows = np.array([float(rule.pieces.weights[chosen].sum())])
    return bool(rule.satisfied(chosen, np.zeros(len(chosen), dtype=np.int64), rows).all())


# --- one round: all parts take their step at once ---------------------------------------------------------------------


def _divide(
    table: _Table, chosen: Codes, power: float, waiting_loss: float, *, is_bounded: bool = True
) -> tuple[_Parts, Codes]:
    """Divide pieces from the top until no part can be divided: the finished parts, and the pieces that wait."""
    tops = np.array([[tree.height for tree in table.trees]])
    state = _Parts(pieces=chosen, part=np.zeros(len(chosen), dtype=np.int64), levels=tops)
    finished, waiting, offset = [], [chosen[:0]], 0
    while state.pieces.size:
        if is_bounded and table.is_late():
            finished.append(replace(state, part=state.part + offset, levels=state.levels[state.part]))
            break
        best = _choose_steps(table, state, power, waiting_loss)
        stays = best.axis[state.part] < 0
        part, levels = state.part[stays], state.levels[state.part[stays]]
        finished.append(_Parts(pieces=state.pieces[stays], part=part + offset, levels=levels))
        offset += len(state.levels)
        state, waits = _take_steps(state, best, ~stays)
        waiting.append(waits)
    done = _join(finished)
    return replace(done, part=number_classes(done.part[:, None])), np.concatenate(waiting)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Step:
    """The best step of every part: which attribute it opens (-1 none), and whether its rest waits.

    `group` numbers, for every open piece, the group that leaves with it; SUPPRESSED where it stays in the rest.
    """

    axis: Codes
    waits: Booleans
    group: Codes


def _choose_steps(table: _Table, state: _Parts, power: float, waiting_loss: float) -> _Step:
    """Find the best step of every part."""
    count = len(state.levels)
    best_axis, score, waits = np.full(count, -1), np.full(count, -1.0), np.zeros(count, dtype=bool)
    weights, groups_of_axis = table.weights.take(state.pieces), {}
    for axis in range(len(table.trees)):
        opened = _open(table, state, axis, weights)
        if opened is None:
            continue
        scored = _score(table, state, opened, power, waiting_loss)
        is_better = scored.score > score
        best_axis[is_better], score[is_better] = axis, scored.score[is_better]
        waits[is_better] = scored.waits[is_better]
        groups_of_axis[axis] = opened.group_of, scored.leaves
    group = np.full(len(state.part), SUPPRESSED)
    axis_of_piece = best_axis.take(state.part)
    for axis, (group_of, leaves) in groups_of_axis.items():
        here = np.flatnonzero(axis_of_piece == axis)
        numbers = group_of.take(here)
        # groups of different attributes get different numbers
        group[here] = np.where(leaves.take(numbers), numbers + axis * len(state.pieces), SUPPRESSED)
    return _Step(axis=best_axis, waits=waits, group=group)


def _take_steps(state: _Parts, best: _Step, goes_on: Booleans) -> tuple[_Parts, Codes]:
    """Take the chosen steps: the new parts, and the pieces that wait."""
    pieces, part, group = state.pieces[goes_on], state.part[goes_on], best.group[goes_on]
    waits = best.waits[part] & (group == SUPPRESSED)
    pieces, part, group, waiting = pieces[~waits], part[~waits], group[~waits], pieces[waits]
    # a group belongs to one part and one attribute; the rest of a part is numbered behind all groups
    behind = int(group.max(initial=-1)) + 1
    keys = group_keys(np.where(group == SUPPRESSED, behind + part, group), behind + len(state.levels))
    levels = state.levels[part[keys.first]].copy()
    leaves = np.flatnonzero(group[keys.first] != SUPPRESSED)
    levels[leaves, best.axis[part[keys.first]][leaves]] -= 1
    return _Parts(pieces=pieces, part=keys.ids, levels=levels), waiting


# --- one attribute, opened one level in every part --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _Opened:
    """The groups one level down in all parts at once, by part; `leaves` tells which keep the promise."""

    axis: int
    number: int  # of parts
    group_of: Codes  # the group of every open piece
    part: Codes
    rows: Reals
    saved: Reals  # loss saved if the group leaves
    leaves: Booleans

    def sum_by_part(self, values: Reals) -> Reals:
        """Add up a value of groups by part."""
        return _sum_by(self.part, values, self.number)

    @cached_property
    def rows_of_parts(self) -> Reals:
        """Count the rows of each part."""
        return self.sum_by_part(self.rows)

    @cached_property
    def rest(self) -> Reals:
        """Count the rows of each part that stay."""
        return self.sum_by_part(np.where(self.leaves, 0.0, self.rows))


def _sum_by(ids: Codes, values: Reals, count: int) -> Reals:
    return np.asarray(np.bincount(ids, weights=values, minlength=count), dtype=np.float64)


def _open(table: _Table, state: _Parts, axis: int, weights: Reals) -> _Opened | None:
    """Open one attribute in all parts where it is above its values; None if it is nowhere.

    `weights` are the rows of the open pieces.
    """
    tree, high = table.trees[axis], state.levels[:, axis]
    if not high.any():
        return None
    # (level, value) as one number; a part that is at the values keeps them in one group, which then changes nothing
    entry = (high * len(tree.values)).take(state.part)
    entry += table.columns[axis].take(state.pieces)
    key = state.part * tree.fan
    key += tree.ranks_below.take(entry)
    groups = group_keys(key, len(state.levels) * tree.fan)
    rows = _sum_by(groups.ids, weights, groups.count)
    saved = _sum_by(groups.ids, weights * tree.saved_below.take(entry), groups.count)
    part = state.part[groups.first]
    leaves = table.rule.satisfied(state.pieces, groups.ids, rows) & (high > 0).take(part)
    return _Opened(
        axis=axis, number=len(state.levels), group_of=groups.ids, part=part, rows=rows, saved=saved, leaves=leaves
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scored:
    """What an opened attribute is worth to every part, whether its rest then waits, and which groups leave."""

    score: Reals
    waits: Booleans
    leaves: Booleans


def _score(table: _Table, state: _Parts, opened: _Opened, power: float, waiting_loss: float) -> _Scored:
    """Score an opened attribute: its rest stays as it is, or takes in groups, or waits, whichever is worth more."""
    kept, fails = _mend_rest(table, state, opened)
    leaving = kept.sum_by_part(kept.leaves.astype(np.float64))
    saved = kept.sum_by_part(np.where(kept.leaves, kept.saved, 0.0))
    score = np.full(opened.number, -1.0)
    worthy = np.flatnonzero((leaving > 0) & ~fails & (saved > 0))
    score[worthy] = saved[worthy] / _information(kept)[worthy] ** power
    score[(leaving == 1) & (kept.rest == 0) & ~fails] = np.inf  # all rows get the finer label at no price
    waits = np.zeros(opened.number, dtype=bool)
    was_mended = (fails | (kept.rest != opened.rest)) & (opened.rest < opened.rows_of_parts)
    if waiting_loss < np.inf and was_mended.any():
        gain = opened.sum_by_part(np.where(opened.leaves, opened.saved, 0.0)) - waiting_loss * opened.rest
        worthy = np.flatnonzero(was_mended & (gain > 0))
        worth = gain[worthy] / _information(opened)[worthy] ** power
        waits[worthy] = worth > score[worthy]
        score[worthy] = np.maximum(worth, score[worthy])
    leaves = kept.leaves | (waits.take(opened.part) & opened.leaves)
    return _Scored(score=score, waits=waits, leaves=leaves)


def _mend_rest(table: _Table, state: _Parts, opened: _Opened) -> tuple[_Opened, Booleans]:
    """Let a rest that fails take in the smallest groups that left; tell which parts fail all the same."""
    fails = _rest_fails(table, state, opened, opened.rest > 0)
    if not fails.any():
        return opened, fails
    leaves = opened.leaves.copy()
    for _ in range(MAX_TAKEN_IN):
        candidates = np.flatnonzero(leaves & fails[opened.part])
        if not candidates.size:
            break
        order = candidates[np.lexsort((opened.rows[candidates], opened.part[candidates]))]
        smallest = order[np.diff(opened.part[order], prepend=-1) != 0]
        leaves[smallest] = False
        changed = np.zeros(opened.number, dtype=bool)
        changed[opened.part[smallest]] = True
        mended = replace(opened, leaves=leaves)
        fails = (fails & ~changed) | _rest_fails(table, state, mended, changed)
    return replace(opened, leaves=leaves), fails


def _rest_fails(table: _Table, state: _Parts, opened: _Opened, asked: Booleans) -> Booleans:
    """Tell which of the asked parts have a rest that does not keep the promise by itself."""
    if table.rule.check_classes is None:
        return asked & (opened.rest < table.rule.k)
    fails = np.zeros(opened.number, dtype=bool)
    chosen = np.flatnonzero(asked[state.part] & ~opened.leaves[opened.group_of])
    if not chosen.size:
        return fails
    number = np.cumsum(asked) - 1
    satisfied = table.rule.satisfied(state.pieces[chosen], number[state.part[chosen]], opened.rest[asked])
    fails[asked] = ~satisfied
    return fails


def _information(opened: _Opened) -> Reals:
    """Measure the information, in bits over all rows, that tells which group a row of a part is in."""
    own = np.where(opened.leaves, opened.rows, 0.0)
    bits = _n_log_n(opened.rows_of_parts) - opened.sum_by_part(_n_log_n(own)) - _n_log_n(opened.rest)
    return np.maximum(bits, 1e-9)


def _n_log_n(rows: Reals) -> Reals:
    return rows * np.log2(np.maximum(rows, 1.0))
