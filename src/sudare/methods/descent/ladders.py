"""The groups of one attribute, from its values up to all of them in one: rungs that can be climbed both ways.

Values are numbered so that every group of every height is a range of neighbours: the children of a node are a range
[first, end), found by arithmetic or by one table, however many values there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.schema import Attribute, Hierarchy, MeshCells, MeshHierarchy

Codes = NDArray[np.int64]

FAN = 16  # neighbouring codes in one group where the schema declares no groups
WIDE = 2 * FAN  # a declared row of neighbours that is longer is opened in two steps


class Rung(Protocol):
    """One step between two heights of a ladder."""

    @property
    def size(self) -> int:
        """Count the nodes above."""

    def parent(self, nodes: Codes) -> Codes:
        """Find the node above each node."""

    def first(self, nodes: Codes) -> Codes:
        """Find the first child of nodes above; that of node j + 1 is the end of the children of node j."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvenRung:
    """Groups of `fan` neighbours (the last may be shorter); the last `alone` nodes are groups of their own.

    >>> rung = EvenRung(children=11, fan=4, alone=1)
    >>> rung.size, rung.parent(np.array([3, 9, 10])).tolist(), rung.first(np.array([0, 2, 3, 4])).tolist()
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
        return np.where(nodes < self._grouped, nodes // self.fan, nodes - self._grouped + self._groups)

    def first(self, nodes: Codes) -> Codes:
        """Find the first child of nodes above."""
        return np.where(
            nodes <= self._groups, np.minimum(nodes * self.fan, self._grouped), nodes - self._groups + self._grouped
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TableRung:
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
class Ladder:
    """All heights of one attribute: 0 are its values, `top` is one node.

    `values[rank]` is the code of the value numbered `rank`; None where ranks are the codes themselves.
    """

    size: int
    rungs: tuple[Rung, ...]
    values: Codes | None = None

    @property
    def top(self) -> int:
        """The height at which all values are one node."""
        return len(self.rungs)

    def nodes(self, height: int) -> int:
        """Count the nodes of a height."""
        return self.size if height == 0 else self.rungs[height - 1].size

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
        for rung in self.rungs[below:height]:
            nodes = rung.parent(nodes)
        return nodes

    def span(self, nodes: Codes, height: int, below: int) -> tuple[Codes, Codes]:
        """Find the children at height `below` of nodes at `height`: the first, and how many."""
        first, end = nodes, nodes + 1
        for rung in reversed(self.rungs[below:height]):
            first, end = rung.first(first), rung.first(end)
        return first, end - first


def ladder(attribute: Attribute) -> Ladder:
    """Build the ladder of an attribute: declared groups, else 16 neighbours at a time if its values are ordered.

    "(other)" and "(missing)" of an attribute without declared groups have no neighbours and stay alone up to the top.

    >>> from sudare.schema import Values
    >>> steps = ladder(Attribute(name="day", domain=Values(values=tuple(map(str, range(366))), is_ordered=True)))
    >>> [steps.nodes(height) for height in range(steps.top + 1)]
    [366, 23, 2, 1]
    """
    if attribute.hierarchy is not None:
        return _declared(attribute, attribute.hierarchy)
    rungs: list[Rung] = []
    if attribute.is_ordered:
        _group_neighbours(rungs, attribute.size, alone=len(attribute.branches))
    return _finish(attribute.size, rungs)


def _declared(attribute: Attribute, hierarchy: Hierarchy) -> Ladder:
    if isinstance(hierarchy, MeshHierarchy) and hierarchy.cells.cells is None:
        return _whole_mesh(hierarchy.cells, len(hierarchy.branches))
    values = np.arange(attribute.size, dtype=np.int64)
    lifted = [hierarchy.lift(values, level) for level in range(1, hierarchy.height + 1)]
    order = np.lexsort((values, *lifted))  # by the topmost group, then the next, ... then the code
    rungs: list[Rung] = []
    finer = values  # the number of each node that the values, in order, lie in; rising
    for groups in lifted:
        is_new = np.concatenate([[True], np.diff(groups[order]) != 0])
        coarser = np.cumsum(is_new) - 1
        starts = np.concatenate([finer[is_new], [finer[-1] + 1]])
        _add_declared(rungs, starts, attribute.is_ordered or isinstance(attribute.domain, MeshCells))
        finer = coarser
    if attribute.is_ordered:
        _group_neighbours(rungs, int(finer[-1]) + 1, alone=0)
    is_sorted = bool((order == values).all())
    return _finish(attribute.size, rungs, None if is_sorted else order.astype(np.int64))


def _add_declared(rungs: list[Rung], starts: Codes, has_neighbours: bool) -> None:
    """Add one declared rung; long rows of neighbours get groups in between."""
    fans = np.diff(starts)
    if has_neighbours and int(fans.max()) > WIDE:
        groups = -(-fans // FAN)
        ends = np.concatenate([[0], np.cumsum(groups)])
        inside = np.arange(int(ends[-1])) - np.repeat(ends[:-1], groups)
        rungs.append(TableRung(starts=np.append(np.repeat(starts[:-1], groups) + inside * FAN, starts[-1])))
        starts = ends
    if starts.size - 1 < int(starts[-1]):  # a level that joins nothing is no step
        rungs.append(TableRung(starts=starts))


def _whole_mesh(cells: MeshCells, alone: int) -> Ladder:
    """Mesh levels by arithmetic; 64 and 100 cells in a row are opened by lines of 8 and 10."""
    rungs: list[Rung] = []
    size = cells.size
    for level in range(cells.level - 1, 0, -1):
        fan = size // cells.coarse(level).size
        for part in (math.isqrt(fan), math.isqrt(fan)) if fan > WIDE else (fan,):
            rungs.append(EvenRung(children=size + alone, fan=part, alone=alone))
            size //= part
    return _finish(cells.size + alone, rungs)


def _group_neighbours(rungs: list[Rung], size: int, *, alone: int) -> None:
    while size - alone > FAN:
        rungs.append(EvenRung(children=size, fan=FAN, alone=alone))
        size = rungs[-1].size


def _finish(size: int, rungs: list[Rung], values: Codes | None = None) -> Ladder:
    last = rungs[-1].size if rungs else size
    if last > 1:
        rungs = [*rungs, EvenRung(children=last, fan=last)]
    return Ladder(size=size, rungs=tuple(rungs), values=values)
