"""Which children are known and which are possible: sets of long keys, and what impossible combinations leave."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.methods.tree.levels import Heights, LevelStep, Tree, ValueGroups
from sudare.schema import Schema
from sudare.schema.arrays import Codes

Marks = NDArray[np.uint64]

ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)


class KeySet:
    """A set of keys (rows of int64 words).

    A key's mark is one 64-bit word; keys with different marks differ, and keys with equal marks are compared in full.
    So marks save work and decide nothing.
    """

    def __init__(self, keys: Codes) -> None:
        """Hold keys that are all different."""
        self._keys = keys
        own = marks(keys)
        if bool((own[1:] >= own[:-1]).all()):
            self._order: Codes = np.arange(own.size)
        else:
            self._order = np.argsort(own)
        self._marks: Marks = own[self._order]

    def holds(self, keys: Codes) -> NDArray[np.bool_]:
        """Tell which keys are in the set.

        >>> KeySet(np.array([[1, 2], [3, 4]])).holds(np.array([[3, 4], [4, 3]])).tolist()
        [True, False]
        """
        is_held = np.zeros(keys.shape[0], dtype=bool)
        if not self._marks.size:
            return is_held
        wanted = marks(keys)
        rising = np.argsort(wanted)  # a sorted search walks the set once, from end to end
        places = np.minimum(np.searchsorted(self._marks, wanted[rising]), self._marks.size - 1)
        hits = np.flatnonzero(self._marks[places] == wanted[rising])
        open_, places = rising[hits], places[hits]
        while open_.size:  # walk on through keys of one mark
            is_held[open_] |= (self._keys[self._order[places]] == keys[open_]).all(axis=1)
            places = places + 1
            goes_on = ~is_held[open_] & (places < self._marks.size)
            goes_on[goes_on] = self._marks[places[goes_on]] == wanted[open_[goes_on]]
            open_, places = open_[goes_on], places[goes_on]
        return is_held


def marks(keys: Codes) -> Marks:
    """One word per key; a single word stands for itself."""
    words = np.ascontiguousarray(keys).view(np.uint64)
    mixed: Marks = words[:, 0].copy()
    for index in range(1, words.shape[1]):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(ODD[index % 4]) + words[:, index]
    return mixed


def find_first(keys: Codes) -> NDArray[np.bool_]:
    """Tell which keys stand for the first time in the list.

    >>> find_first(np.array([[1, 2], [3, 4], [1, 2]])).tolist()
    [True, True, False]
    """
    own = marks(keys)
    rising = np.sort(own)
    is_twin = rising[1:] == rising[:-1]
    first = np.ones(keys.shape[0], dtype=bool)
    if is_twin.any():
        some = np.flatnonzero(np.isin(own, rising[1:][is_twin]))
        whole = np.lexsort(keys[some].T[::-1])  # stable: of equal keys the earlier comes first
        ordered = keys[some][whole]
        first[some[whole[1:][(ordered[1:] == ordered[:-1]).all(axis=1)]]] = False
    return first


# What the declared impossibilities leave of every node, counted exactly and without visiting cells.
#
# Values of one attribute that the same combinations admit are alike, and so are nodes whose children are alike: each
# kind gets a number. How many possible cells or children a node has depends on the kinds of its attributes alone, so
# it is counted once for every combination of kinds that occurs.


Kinds = tuple[int, ...]

MOST_COMBINATIONS = 2**12


class Possible:
    """The impossible combinations of a schema as a tree sees them."""

    def __init__(self, tree: Tree) -> None:
        names = {name for box in tree.schema.impossible for name in box.names}
        self._tree = tree
        self._restricted = tuple(position for position, name in enumerate(tree.schema.names) if name in names)
        self._kinds = {
            axis: _NodeKinds(_masks(tree.schema, axis), tree.value_groups[axis]) for axis in self._restricted
        }
        self._all = (1 << len(tree.schema.impossible)) - 1
        self._cells: dict[tuple[Heights, Kinds], int] = {}

    def is_impossible(self, nodes: Codes, heights: Heights) -> NDArray[np.bool_]:
        """Tell which nodes (m, attributes) hold no possible cell."""
        found = self._by_kinds(nodes, heights, lambda kinds: int(self._leaves(kinds, heights) == 0))
        return found.astype(bool)

    def children(self, step: LevelStep, nodes: Codes) -> NDArray[Any]:
        """Count the possible children of nodes (k, attributes), exactly."""
        held = self._by_kinds(nodes, step.above, lambda kinds: self._held(kinds, step))
        free = [axis for axis in step.changed if axis not in self._restricted]
        slots = np.ones(nodes.shape[0], dtype=object)
        for axis in free:
            slots = slots * step.value_groups[axis].span(nodes[:, axis], step.above[axis], step.below[axis])[1]
        capacity: NDArray[Any] = held * slots
        return capacity

    def least_share(self, step: LevelStep) -> float:
        """The smallest share of possible ones among the children of any node that has some; 0 if too many to tell."""
        kinds = [self._kinds[axis].used(step.above[axis]) for axis in self._restricted]
        if math.prod(map(len, kinds)) > MOST_COMBINATIONS:
            return 0.0
        shares = [self._held(each, step) / self._slots(each, step) for each in itertools.product(*kinds)]
        return min((share for share in shares if share), default=0.0)

    def _by_kinds(self, nodes: Codes, heights: Heights, count: Callable[[Kinds], int]) -> NDArray[np.object_]:
        """Apply a function of the kinds to nodes, once for each combination of kinds."""
        columns = [self._kinds[axis].of(nodes[:, axis], heights[axis]) for axis in self._restricted]
        code = np.zeros(nodes.shape[0], dtype=np.int64)
        for column in columns:  # renumbered after every attribute, so that codes stay below the number of nodes
            code = np.unique(code * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
        first = np.unique(code, return_index=True)[1]
        counted = np.empty(first.size, dtype=object)
        counted[:] = [count(tuple(int(column[place]) for column in columns)) for place in first]
        return counted[code]

    def _leaves(self, kinds: Kinds, heights: Heights) -> int:
        """Count possible cells over the restricted attributes below a node of these kinds."""
        found = self._cells.get((heights, kinds))
        if found is None:
            parts = [
                self._parts(axis, kind, heights[axis], 0) for axis, kind in zip(self._restricted, kinds, strict=True)
            ]
            found = self._admitted(parts)
            self._cells[heights, kinds] = found
        return found

    def _held(self, kinds: Kinds, step: LevelStep) -> int:
        """Count possible children over the restricted attributes that the step changes."""
        parts = [
            self._parts(axis, kind, step.above[axis], step.below[axis])
            for axis, kind in zip(self._restricted, kinds, strict=True)
        ]
        if not any(step.below):  # children are cells
            return self._admitted(parts)
        return sum(
            math.prod(part[kind] for part, kind in zip(parts, chosen, strict=True))
            for chosen in itertools.product(*parts)
            if self._leaves(chosen, step.below)
        )

    def _slots(self, kinds: Kinds, step: LevelStep) -> int:
        return math.prod(
            sum(self._parts(axis, kind, step.above[axis], step.below[axis]).values())
            for axis, kind in zip(self._restricted, kinds, strict=True)
        )

    def _parts(self, position: int, kind: int, height: int, below: int) -> Mapping[int, int]:
        return self._kinds[position].parts(kind, height, below)

    def _admitted(self, parts: list[Mapping[int, int]]) -> int:
        """Count the combinations of values that no box holds: prefixes by the set of boxes they still lie in."""
        prefixes = Counter({self._all: 1})
        for position, part in zip(self._restricted, parts, strict=True):
            following: Counter[int] = Counter()
            for kind, values in part.items():
                mask = self._kinds[position].masks[kind]
                for state, count in prefixes.items():
                    following[state & mask] += count * values
            prefixes = following
        return prefixes[0]


class _NodeKinds:
    """The kinds of the nodes of one attribute, height by height.

    At height 0 a kind is the set of boxes (`masks`, bits) that admit the value; above, how many children there are of
    which kind (`_made_of`).
    """

    def __init__(self, masks: Mapping[int, int], groups: ValueGroups) -> None:
        self.masks, kinds = _number_masks(masks, groups)
        self._value_groups = groups
        self._memory: dict[tuple[int, int, int], Mapping[int, int]] = {}
        self._by_height = [kinds]
        self._made_of: list[list[Mapping[int, int]]] = [[]]
        for height in range(1, groups.top + 1):
            self._climb(height)

    def _climb(self, height: int) -> None:
        below = self._by_height[-1]
        nodes = np.arange(self._value_groups.nodes(height), dtype=np.int64)
        firsts, widths = self._value_groups.span(nodes, height, height - 1)
        known: dict[tuple[tuple[int, int], ...], int] = {}
        kinds = np.empty(nodes.size, dtype=np.int64)
        for node, (first, width) in enumerate(zip(firsts.tolist(), widths.tolist(), strict=True)):
            made = np.unique(below[first : first + width], return_counts=True)
            kinds[node] = known.setdefault(tuple(zip(made[0].tolist(), made[1].tolist(), strict=True)), len(known))
        self._by_height.append(kinds)
        self._made_of.append([dict(made) for made in known])

    def of(self, nodes: Codes, height: int) -> Codes:
        """Give the kind of nodes of a height."""
        return self._by_height[height][nodes]

    def used(self, height: int) -> list[int]:
        """List the kinds of a height."""
        kinds: list[int] = np.unique(self._by_height[height]).tolist()
        return kinds

    def parts(self, kind: int, height: int, below: int) -> Mapping[int, int]:
        """Count the nodes of height `below` under a node of this kind, by their kinds."""
        if height == below:
            return {kind: 1}
        found = self._memory.get((kind, height, below))
        if found is None:
            gathered: Counter[int] = Counter()
            for child, times in self._made_of[height][kind].items():
                for part, count in self.parts(child, height - 1, below).items():
                    gathered[part] += times * count
            found = self._memory[kind, height, below] = gathered
        return found


def _number_masks(masks: Mapping[int, int], groups: ValueGroups) -> tuple[list[int], Codes]:
    """Number the masks that occur; give the kind of every rank. `masks` names values that differ from masks[-1]."""
    distinct = {masks[-1]: 0}
    kinds = np.zeros(groups.size, dtype=np.int64)
    for code, mask in masks.items():
        if code >= 0:
            kinds[code] = distinct.setdefault(mask, len(distinct))
    return list(distinct), groups.in_order(kinds)


def _masks(schema: Schema, position: int) -> dict[int, int]:
    """For the values of an attribute the boxes that admit them, as bits; under -1 those that admit every value."""
    name = schema.names[position]
    boxes = [dict(box.values) for box in schema.impossible]
    always = sum(1 << index for index, box in enumerate(boxes) if name not in box)
    masks = {-1: always}
    for index, box in enumerate(boxes):
        for code in box.get(name, ()):
            masks[code] = masks.get(code, always) | 1 << index
    return masks
