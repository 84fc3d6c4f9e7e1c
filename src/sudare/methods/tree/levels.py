"""The levels of a tree over a table: the groups of every attribute, and which attributes are seen how finely.

The groups of one attribute lead from its values up to all of them in one, by steps that can be taken both ways.

Values are numbered so that every group of every height is a range of neighbours: the children of a node are a range
[first, end), found by arithmetic or by one table, however many values there are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.schema import Attribute, Hierarchy, MeshCells, MeshHierarchy, Radix, Schema
from sudare.schema.arrays import Codes

GROUP_SIZE = 16  # neighbouring codes in one group where the schema declares no groups
LONGEST_ROW = 2 * GROUP_SIZE  # a declared row of neighbours that is longer is opened in two steps


class GroupStep(Protocol):
    """One step between two heights of a groups of an attribute."""

    @property
    def size(self) -> int:
        """Count the nodes above."""

    def parent(self, nodes: Codes) -> Codes:
        """Find the node above each node."""

    def first(self, nodes: Codes) -> Codes:
        """Find the first child of nodes above; that of node j + 1 is the end of the children of node j."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvenGroups:
    """Groups of `fan` neighbours (the last may be shorter); the last `alone` nodes are groups of their own.

    >>> step = EvenGroups(children=11, fan=4, alone=1)
    >>> step.size, step.parent(np.array([3, 9, 10])).tolist(), step.first(np.array([0, 2, 3, 4])).tolist()
    (4, [0, 2, 3], [0, 8, 10, 11])
    """

    children: int
    fan: int
    alone: int = 0

    @property
    def size(self) -> int:
        """Count the nodes above."""
        return self._groups + self.alone

    @property
    def _grouped(self) -> int:
        return self.children - self.alone

    @property
    def _groups(self) -> int:
        return -(-self._grouped // self.fan)

    def parent(self, nodes: Codes) -> Codes:
        """Find the node above each node."""
        if not self.alone:
            return nodes // self.fan
        return np.where(nodes < self._grouped, nodes // self.fan, nodes - self._grouped + self._groups)

    def first(self, nodes: Codes) -> Codes:
        """Find the first child of nodes above."""
        if not self.alone:
            return np.minimum(nodes * self.fan, self.children)
        return np.where(
            nodes <= self._groups, np.minimum(nodes * self.fan, self._grouped), nodes - self._groups + self._grouped
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ListedGroups:
    """Groups of any sizes: starts[j] is the first child of node j; one more entry marks the end."""

    starts: Codes

    @property
    def size(self) -> int:
        """Count the nodes above."""
        return int(self.starts.size) - 1

    def parent(self, nodes: Codes) -> Codes:
        """Find the node above each node."""
        return np.searchsorted(self.starts, nodes, side="right").astype(np.int64) - 1

    def first(self, nodes: Codes) -> Codes:
        """Find the first child of nodes above."""
        return self.starts[nodes]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ValueGroups:
    """All heights of one attribute: 0 are its values, `top` is one node.

    `values[rank]` is the code of the value numbered `rank`; None where ranks are the codes themselves.
    """

    size: int
    group_steps: tuple[GroupStep, ...]
    values: Codes | None = None

    @property
    def top(self) -> int:
        """The height at which all values are one node."""
        return len(self.group_steps)

    def nodes(self, height: int) -> int:
        """Count the nodes of a height."""
        return self.size if height == 0 else self.group_steps[height - 1].size

    def ranks(self, codes: Codes) -> Codes:
        """Number codes so that groups are ranges."""
        if self.values is None:
            return codes
        ranks = np.empty_like(self.values)
        ranks[self.values] = np.arange(self.size)
        return ranks[codes]

    def codes(self, ranks: Codes) -> Codes:
        """Turn ranks back into codes of the attribute."""
        return ranks if self.values is None else self.values[ranks]

    def in_order(self, by_code: Codes) -> Codes:
        """Bring a table by code into the order of ranks."""
        return by_code if self.values is None else by_code[self.values]

    def lift(self, ranks: Codes, height: int) -> Codes:
        """Find the node of a height above each rank."""
        return self.climb(ranks, 0, height)

    def climb(self, nodes: Codes, below: int, height: int) -> Codes:
        """Find the node of a height above each node of the height `below`."""
        for group_step in self.group_steps[below:height]:
            nodes = group_step.parent(nodes)
        return nodes

    def span(self, nodes: Codes, height: int, below: int) -> tuple[Codes, Codes]:
        """Find the children at height `below` of nodes at `height`: the first, and how many."""
        first, end = nodes, nodes + 1
        for group_step in reversed(self.group_steps[below:height]):
            first, end = group_step.first(first), group_step.first(end)
        return first, end - first


def group_values(attribute: Attribute) -> ValueGroups:
    """Build the groups of an attribute: declared ones, else 16 neighbours at a time if its values are ordered.

    "(other)" and "(missing)" of an attribute without declared groups have no neighbours and stay alone up to the top.

    >>> from sudare.schema import Values
    >>> steps = group_values(Attribute(name="day", domain=Values(values=tuple(map(str, range(366))), is_ordered=True)))
    >>> [steps.nodes(height) for height in range(steps.top + 1)]
    [366, 23, 2, 1]
    """
    if attribute.hierarchy is not None:
        return _declared(attribute, attribute.hierarchy)
    group_steps: list[GroupStep] = []
    if attribute.is_ordered:
        _group_neighbours(group_steps, attribute.size, alone=len(attribute.branches))
    return _finish(attribute.size, group_steps)


def _declared(attribute: Attribute, hierarchy: Hierarchy) -> ValueGroups:
    if isinstance(hierarchy, MeshHierarchy) and hierarchy.cells.cells is None:
        return _whole_mesh(hierarchy.cells, len(hierarchy.branches))
    values = np.arange(attribute.size, dtype=np.int64)
    lifted = [hierarchy.lift(values, level) for level in range(1, hierarchy.height + 1)]
    order = np.lexsort((values, *lifted))  # by the topmost group, then the next, ... then the code
    group_steps: list[GroupStep] = []
    finer = values  # the number of each node that the values, in order, lie in; rising
    for groups in lifted:
        is_new = np.concatenate([[True], np.diff(groups[order]) != 0])
        coarser = np.cumsum(is_new) - 1
        starts = np.concatenate([finer[is_new], [finer[-1] + 1]])
        _add_declared(group_steps, starts, attribute.is_ordered or isinstance(attribute.domain, MeshCells))
        finer = coarser
    if attribute.is_ordered:
        _group_neighbours(group_steps, int(finer[-1]) + 1, alone=0)
    is_sorted = bool((order == values).all())
    return _finish(attribute.size, group_steps, None if is_sorted else order.astype(np.int64))


def _add_declared(group_steps: list[GroupStep], starts: Codes, has_neighbours: bool) -> None:
    """Add one declared step; long rows of neighbours get groups in between."""
    fans = np.diff(starts)
    if has_neighbours and int(fans.max()) > LONGEST_ROW:
        groups = -(-fans // GROUP_SIZE)
        ends = np.concatenate([[0], np.cumsum(groups)])
        inside = np.arange(int(ends[-1])) - np.repeat(ends[:-1], groups)
        group_steps.append(
            ListedGroups(starts=np.append(np.repeat(starts[:-1], groups) + inside * GROUP_SIZE, starts[-1]))
        )
        starts = ends
    if starts.size - 1 < int(starts[-1]):  # a level that joins nothing is no step
        group_steps.append(ListedGroups(starts=starts))


def _whole_mesh(cells: MeshCells, alone: int) -> ValueGroups:
    """Mesh levels by arithmetic; 64 and 100 cells in a row are opened by lines of 8 and 10."""
    group_steps: list[GroupStep] = []
    size = cells.size
    for level in range(cells.level - 1, 0, -1):
        fan = size // cells.coarse(level).size
        for part in (math.isqrt(fan), math.isqrt(fan)) if fan > LONGEST_ROW else (fan,):
            group_steps.append(EvenGroups(children=size + alone, fan=part, alone=alone))
            size //= part
    return _finish(cells.size + alone, group_steps)


def _group_neighbours(group_steps: list[GroupStep], size: int, *, alone: int) -> None:
    while size - alone > GROUP_SIZE:
        group_steps.append(EvenGroups(children=size, fan=GROUP_SIZE, alone=alone))
        size = group_steps[-1].size


def _finish(size: int, group_steps: list[GroupStep], values: Codes | None = None) -> ValueGroups:
    last = group_steps[-1].size if group_steps else size
    if last > 1:
        group_steps = [*group_steps, EvenGroups(children=last, fan=last)]
    return ValueGroups(size=size, group_steps=tuple(group_steps), values=values)


# The tree over a table: which attributes are seen how finely at every level, from one node down to the cells.


Heights = tuple[int, ...]

ALL = slice(None)


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelStep:
    """From the nodes of one level to those of the next: the attributes at `changed` are seen more finely."""

    value_groups: tuple[ValueGroups, ...]
    above: Heights
    below: Heights

    @cached_property
    def changed(self) -> tuple[int, ...]:
        """Positions of the attributes that are seen more finely below."""
        pairs = zip(self.above, self.below, strict=True)
        return tuple(position for position, (high, low) in enumerate(pairs) if high > low)

    @cached_property
    def radix(self) -> Radix:
        """Number the codes of the changed attributes below."""
        return Radix(tuple(self.value_groups[axis].nodes(self.below[axis]) for axis in self.changed))

    def spans(self, nodes: Codes) -> tuple[Codes, Codes]:
        """For nodes (k, attributes) of the level above: first child and number of children, (k, changed) each."""
        spans = [
            self.value_groups[axis].span(nodes[:, axis], self.above[axis], self.below[axis]) for axis in self.changed
        ]
        return stack([first for first, _ in spans]), stack([width for _, width in spans])

    def children(self, nodes: Codes, rows: Codes, codes: Codes) -> Codes:
        """Name children as nodes of the level below, from their parents and the codes of the changed attributes."""
        below = take(nodes, rows)
        for place, axis in enumerate(self.changed):
            below[:, axis] = codes[:, place]
        return below

    def lift(self, ranks: Codes, places: Codes | slice = ALL) -> Codes:
        """The codes of the changed attributes below, for cells given as ranks (m, attributes), or some of them."""
        return stack([self.value_groups[axis].lift(ranks[:, axis][places], self.below[axis]) for axis in self.changed])

    def digits(self, ranks: Codes) -> list[tuple[Codes, int]]:
        """For each changed attribute: which child of its parent each cell lies in, and a bound of that number."""
        digits = []
        for axis in self.changed:
            height, below = self.above[axis], self.below[axis]
            node = self.value_groups[axis].lift(ranks[:, axis], below)
            digit = (
                node
                - self.value_groups[axis].span(self.value_groups[axis].climb(node, below, height), height, below)[0]
            )
            digits.append((digit, int(digit.max(initial=0)) + 1))
        return digits


@dataclass(frozen=True, kw_only=True, eq=False)
class Tree:
    """Levels of a table: `levels[0]` has one node, the last has the cells; heights never rise on the way down."""

    schema: Schema
    value_groups: tuple[ValueGroups, ...]
    levels: tuple[Heights, ...]

    def __post_init__(self) -> None:
        tops, cells = tuple(groups.top for groups in self.value_groups), (0,) * len(self.value_groups)
        falls = all(_is_finer(low, high) for high, low in itertools.pairwise(self.levels))
        if self.levels[0] != tops or self.levels[-1] != cells or not falls:
            raise ParameterError("the levels of a tree must lead from one node down to the cells")

    @cached_property
    def steps(self) -> tuple[LevelStep, ...]:
        """The steps down, one less than levels."""
        return tuple(self.step(level, level + 1) for level in range(len(self.levels) - 1))

    def step(self, above: int, below: int) -> LevelStep:
        """The step from one level to a lower one."""
        return LevelStep(value_groups=self.value_groups, above=self.levels[above], below=self.levels[below])

    def size(self, level: int) -> int:
        """Count the nodes of a level, possible or not."""
        return math.prod(groups.nodes(h) for groups, h in zip(self.value_groups, self.levels[level], strict=True))

    def ranks(self, columns: Codes) -> Codes:
        """Number the codes of cells (m, attributes) so that nodes are ranges."""
        return _by_column([groups.ranks for groups in self.value_groups], columns)

    def codes(self, ranks: Codes) -> Codes:
        """Turn ranks (m, attributes) back into codes."""
        if all(groups.values is None for groups in self.value_groups):  # ranks are the codes
            return ranks
        return _by_column([groups.codes for groups in self.value_groups], ranks)


def stack(columns: Sequence[Codes]) -> Codes:
    """Make a table of columns, each of them in one piece of memory: tables here are read by columns."""
    return np.stack(columns).T


def take(table: Codes, rows: NDArray[Any] | slice) -> Codes:
    """Take rows of a table and keep its columns in one piece."""
    if isinstance(rows, slice):
        return table[rows]
    places = np.flatnonzero(rows) if rows.dtype == bool else rows
    return np.take(table.T, places, axis=1).T


def make_tree(schema: Schema, levels: Sequence[Heights], value_groups: Sequence[ValueGroups] | None = None) -> Tree:
    """Make a tree of the given levels; steps that change nothing are left out.

    >>> from sudare.schema import Attribute, Values
    >>> day = Attribute(name="day", domain=Values(values=tuple(map(str, range(366))), is_ordered=True))
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> tree = make_tree(Schema(name="s", attributes=(day, sex)), [(3, 1), (1, 1), (0, 0)])
    >>> [tree.size(level) for level in range(3)], [step.changed for step in tree.steps]
    ([1, 23, 732], [(0,), (0, 1)])
    """
    kept = tuple(levels[:1]) + tuple(low for high, low in itertools.pairwise(levels) if high != low)
    built = tuple(value_groups) if value_groups is not None else tuple(map(group_values, schema.attributes))
    return Tree(schema=schema, value_groups=built, levels=kept)


def attribute_order(value_groups: Sequence[ValueGroups]) -> list[Heights]:
    """List the levels of the plainest tree: attribute after attribute, each from its top to its values.

    >>> from sudare.methods.tree.levels import EvenGroups
    >>> attribute_order([ValueGroups(size=2, group_steps=(EvenGroups(children=2, fan=2),))] * 2)
    [(1, 1), (0, 1), (0, 0)]
    """
    heights = [groups.top for groups in value_groups]
    levels = [tuple(heights)]
    for position, groups in enumerate(value_groups):
        for height in range(groups.top - 1, -1, -1):
            heights[position] = height
            levels.append(tuple(heights))
    return levels


def _is_finer(low: Heights, high: Heights) -> bool:
    return low != high and all(a <= b for a, b in zip(low, high, strict=True))


def join(tables: Sequence[Codes]) -> Codes:
    """Put tables below each other and keep each column in one piece."""
    return np.concatenate([table.T for table in tables], axis=1).T


def _by_column(conversions: list, columns: Codes) -> Codes:  # type: ignore[type-arg]
    return stack([convert(column) for convert, column in zip(conversions, columns.T, strict=True)])
