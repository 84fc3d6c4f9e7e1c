"""Groupings near a request: coarser levels, own groups merged or moved to the bounds of a level, fewer attributes.

A step makes one attribute a little coarser. `find_nearest` takes the fewest steps that reach what can be had, so that
nothing is coarser than it must be.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from sudare.methods.kanon.request import Grouping, RequestOption
from sudare.schema.arrays import Codes

MAX_VISITED = 2000  # groupings tried before the search ends
MAX_NEAREST = 3  # nearby groupings that are offered
MAX_MERGED = 12  # own groups of an attribute of which every two neighbours are tried merged


def is_finer_option(option: RequestOption, other: RequestOption) -> bool:
    """Tell whether an option tells at least as much as the other; what is not named is left out."""
    return all(
        grouping.size == 1 or (name in option and option[name].is_finer(grouping)) for name, grouping in other.items()
    )


def find_nearest(
    option: RequestOption, is_feasible: Callable[[RequestOption], bool], *, max_visited: int = MAX_VISITED
) -> list[RequestOption]:
    """Find feasible options fewest steps away, those of most cells first; none is coarser than another."""
    heap: list[tuple[int, float, int, RequestOption]] = [(0, 0.0, 0, option)]
    seen, feasible, numbers = {write_key(option)}, list[RequestOption](), itertools.count(1)
    for _ in range(max_visited):
        if not heap or len(feasible) == MAX_NEAREST:
            break
        steps, _, _, tried = heapq.heappop(heap)
        if any(is_finer_option(near, tried) for near in feasible):
            continue  # what is coarser than a feasible option is no nearer
        if steps and is_feasible(tried) and math.prod(grouping.size for grouping in tried.values()) > 1:
            feasible.append(tried)
            continue
        for after in list_steps(tried):
            key = write_key(after)
            if key not in seen:
                seen.add(key)
                cells = math.prod(float(grouping.size) for grouping in after.values())
                heapq.heappush(heap, (steps + 1, -cells, next(numbers), after))
    return feasible


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
