"""Groupings near a request: coarser levels, own groups merged or moved to the bounds of a level, fewer attributes.

A step makes one attribute a little coarser. `find_nearest` takes the fewest steps that reach what can be had, so that
nothing is coarser than it must be. Where that is enough, only a part of an attribute is made coarser: the ends of an
order ("single years, with 80 to 99 as one group"), or one group of a level.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from sudare.methods.kanon.request import Grouping, RequestOption, find_names
from sudare.schema.arrays import Codes

MAX_VISITED = 2000  # groupings tried before the search ends
MAX_NEAREST = 3  # nearby groupings that are offered
MAX_MERGED = 12  # own groups of an attribute of which every two neighbours are tried merged
MAX_PARTIAL = 40  # options that are coarser in a part of one attribute, tried before all others


def is_finer_option(option: RequestOption, other: RequestOption) -> bool:
    """Tell whether an option tells at least as much as the other; what is not named is left out."""
    return all(
        grouping.size == 1 or (name in option and option[name].is_finer(grouping)) for name, grouping in other.items()
    )


def find_nearest(
    option: RequestOption, is_feasible: Callable[[RequestOption], bool], *, max_visited: int = MAX_VISITED
) -> list[RequestOption]:
    """Find feasible options: one coarser in a part of an attribute, then those fewest steps away, most cells first.

    None is coarser than another.
    """
    partial = list_partial(option)[: min(MAX_PARTIAL, max_visited // 4)]
    feasible = [near for near in partial if is_feasible(near)][:1]
    for near in _find_fewest_steps(option, is_feasible, feasible, max_visited=max_visited):
        finer = open_again(option, near, is_feasible)
        if not any(is_finer_option(other, finer) for other in feasible):
            feasible = [*(other for other in feasible if not is_finer_option(finer, other)), finer]
    return feasible


def _find_fewest_steps(
    option: RequestOption,
    is_feasible: Callable[[RequestOption], bool],
    known: list[RequestOption],
    *,
    max_visited: int,
) -> list[RequestOption]:
    """Find feasible options by steps of whole attributes, beside known ones that they are not coarser than."""
    heap: list[tuple[int, float, int, RequestOption]] = [(0, 0.0, 0, option)]
    seen, feasible, numbers = {write_key(option)}, list[RequestOption](), itertools.count(1)
    for _ in range(max_visited):
        if not heap or len(feasible) + len(known) >= MAX_NEAREST:
            break
        steps, _, _, tried = heapq.heappop(heap)
        if any(is_finer_option(near, tried) for near in (*known, *feasible)):
            continue  # what is coarser than a feasible option is no nearer
        if steps and is_feasible(tried) and math.prod(grouping.size for grouping in tried.values()) > 1:
            feasible.append(tried)
            continue
        for after in list_steps(tried):
            key = write_key(after)
            if key not in seen:
                seen.add(key)
                heapq.heappush(heap, (steps + 1, -_count_cells(after), next(numbers), after))
    return feasible


def _count_cells(option: RequestOption) -> float:
    return math.prod(float(grouping.size) for grouping in option.values())


# --- coarser only where it helps --------------------------------------------------------------------------------------


def list_partial(option: RequestOption) -> list[RequestOption]:
    """List options that are coarser in a part of one attribute, those of most cells first; by the schema alone."""
    partial = [
        {**option, name: merged}
        for name, grouping in option.items()
        for level in _list_levels(grouping)
        if grouping.groups is None
        for merged in _merge_parts(grouping, level)
    ]
    distinct = {write_key(each): each for each in partial}
    return sorted(distinct.values(), key=lambda each: -_count_cells(each))


def open_again(
    option: RequestOption, near: RequestOption, is_feasible: Callable[[RequestOption], bool]
) -> RequestOption:
    """Make an option as fine as was asked for, but for the ends of an attribute or one group, where that can be had."""
    for name, grouping in option.items():
        offered = near.get(name)
        if offered is None or offered.size <= 1 or grouping.groups is not None or not grouping.is_finer(offered):
            continue
        finer = ({**near, name: merged} for merged in _merge_parts(grouping, offered))
        near = next((each for each in finer if is_feasible(each)), near)
    return near


def _merge_parts(grouping: Grouping, coarse: Grouping) -> list[Grouping]:
    """Merge as in a coarser grouping, but at the ends of an order alone, or in one group alone; the finest first."""
    joined = [group for group in range(coarse.size) if len(set(grouping.group_of[coarse.group_of == group])) > 1]
    attribute = grouping.attribute
    if attribute.is_ordered:
        ends = coarse.group_of[[attribute.domain.size - 1, 0]].tolist()
        choices = [[group for group in chosen if group in joined] for chosen in (ends[:1], ends[1:], ends)]
    else:
        choices = [[group] for group in joined] if len(joined) <= MAX_MERGED else []
    return [_merge_groups(grouping, coarse, set(chosen)) for chosen in choices if 0 < len(set(chosen)) < len(joined)]


def _merge_groups(grouping: Grouping, coarse: Grouping, chosen: set[int]) -> Grouping:
    """Merge the groups inside the chosen coarse ones; every group keeps its name, where it has one of its own."""
    is_merged = np.isin(coarse.group_of, sorted(chosen))
    numbers = _number_in_order(np.where(is_merged, grouping.size + coarse.group_of, grouping.group_of))
    first = np.unique(numbers, return_index=True)[1]
    groups = tuple(tuple(np.flatnonzero(numbers == number).tolist()) for number in range(len(first)))
    labels = np.where(is_merged[first], coarse.labels(first), grouping.labels(first)).tolist()
    return Grouping(grouping.attribute, None, groups, find_names(grouping.attribute, groups, labels))


def list_steps(option: RequestOption) -> Iterator[RequestOption]:
    """List the options that are one step coarser in one attribute."""
    for name, grouping in option.items():
        for coarser in list_coarser(grouping):
            yield {**option, name: coarser}


def list_coarser(grouping: Grouping) -> list[Grouping]:
    """List the groupings of one attribute that are one step coarser; left out is the last step."""
    if grouping.size <= 1:
        return []
    coarser = [level for level in _list_levels(grouping) if grouping.is_finer(level)]
    if grouping.groups is None:
        return coarser[:1] or [Grouping(grouping.attribute, None)]
    steps = [*_move_to_levels(grouping), *(step for step in _merge_neighbours(grouping) if step.size > 1), *coarser]
    distinct = {_number_in_order(step.group_of).tobytes(): step for step in steps}
    return [*distinct.values(), *([Grouping(grouping.attribute, None)] if grouping.size == 2 else [])]


def _list_levels(grouping: Grouping) -> list[Grouping]:
    attribute = grouping.attribute
    levels = [Grouping(attribute, level) for level in range(attribute.height + 1)]
    return [level for level in levels if 1 < level.size < grouping.size]


def _merge_neighbours(grouping: Grouping) -> Iterator[Grouping]:
    """Merge two groups that stand side by side in the order of their first values."""
    groups = sorted(grouping.groups or (), key=lambda members: members[0])
    if len(groups) > MAX_MERGED:  # too many to try one by one: all at once, in pairs
        pairs = [tuple(sorted(itertools.chain(*groups[at : at + 2]))) for at in range(0, len(groups), 2)]
        yield Grouping(grouping.attribute, None, tuple(pairs))
        return
    for at in range(len(groups) - 1):
        merged = tuple(sorted((*groups[at], *groups[at + 1])))
        yield Grouping(grouping.attribute, None, (*groups[:at], merged, *groups[at + 2 :]))


def _move_to_levels(grouping: Grouping) -> Iterator[Grouping]:
    """Move the bounds of own groups to those of a level: every group of the level goes where most of it is."""
    attribute = grouping.attribute
    for level in range(1, attribute.height + 1):
        lifted = Grouping(attribute, level)
        if not 1 < lifted.size < attribute.size or lifted.is_finer(grouping):
            continue  # too coarse or too fine, or the bounds are there already
        overlap = np.zeros((lifted.size, grouping.size), dtype=np.int64)
        np.add.at(overlap, (lifted.group_of, grouping.group_of), 1)
        moved = _number_in_order(overlap.argmax(axis=1)[lifted.group_of])
        if int(moved.max()) > 0:
            members = (np.flatnonzero(moved == group).tolist() for group in range(int(moved.max()) + 1))
            yield Grouping(attribute, None, tuple(tuple(codes) for codes in members))


def _number_in_order(groups: Codes) -> Codes:
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[number.reshape(-1)], dtype=np.int64)


def write_key(option: RequestOption) -> tuple[tuple[str, bytes], ...]:
    """Write what makes two options the same."""
    return tuple(
        (name, _number_in_order(grouping.group_of).tobytes())
        for name, grouping in sorted(option.items())
        if grouping.size > 1
    )


def drop_left_out(option: RequestOption) -> Mapping[str, Grouping]:
    """Give an option without attributes that are left out."""
    return {name: grouping for name, grouping in option.items() if grouping.size > 1}
