"""Boxes that share most of their weights, as those of one GROUP BY do: what they share is added up once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.products import Clique, Message
from sudare.schema.arrays import Reals

MOST_CELLS = 2**16  # of a table, all versions
MOST_KEPT_CELLS = 2**21  # of all tables together: 17 MB
TABLES = 3  # that are kept for the same attributes
REPEATS = 4  # boxes that share the same weights: then a table of two or more attributes pays; one of one pays at once


class RepeatedBoxes:
    """Remembers the weights of the last box of every set of attributes, and tables in which shared ones are added up.

    Weights are the same if they are one array: a view prepares equal ones once.
    """

    def __init__(self, factors: Factors) -> None:
        self.factors = factors
        self.last: dict[frozenset[int], Mapping[int, Reals]] = {}
        self.shared: dict[frozenset[int], list[tuple[Mapping[int, Reals], int]]] = {}  # and how often
        self.tables: dict[frozenset[int], list[tuple[Mapping[int, Reals], Message]]] = {}
        self.cells = 0

    def find(self, evidence: Mapping[int, Reals], uneven: Set[int]) -> Message | None:
        """A table of some of the attributes, `uneven` among them, the others weighed; None if it would not pay."""
        wanted = frozenset(evidence)
        for shared, table in self.tables.get(wanted, ()):
            if all(evidence[axis] is weights for axis, weights in shared.items()) and not uneven & shared.keys():
                return table
        before = self.last.get(wanted)
        if len(self.last) >= MOST_KEPT_CELLS // MOST_CELLS and before is None:
            self.last.clear()
            self.shared.clear()
        self.last[wanted] = evidence
        if before is None:
            return None
        same = {axis: weights for axis, weights in evidence.items() if before[axis] is weights and axis not in uneven}
        needed = REPEATS if len(wanted) - len(same) > 1 else 1
        return self._make(wanted, same) if same and self._count(wanted, same) >= needed else None

    def _count(self, wanted: frozenset[int], same: Mapping[int, Reals]) -> int:
        """How often boxes have shared just these weights, this one included."""
        others, times = list[tuple[Mapping[int, Reals], int]](), 1
        for shared, count in self.shared.get(wanted, ()):
            if shared.keys() == same.keys() and all(shared[axis] is weights for axis, weights in same.items()):
                times = count + 1
            else:
                others.append((shared, count))
        self.shared[wanted] = [(same, times), *others[: TABLES - 1]]
        return times

    def _make(self, wanted: frozenset[int], shared: Mapping[int, Reals]) -> Message | None:
        free: Clique = tuple(sorted(wanted - shared.keys()))
        cells = self.factors.versions * math.prod(self.factors.width(axis) for axis in free)
        if not free or cells > MOST_CELLS:
            return None
        self.cells += cells
        if self.cells > MOST_KEPT_CELLS:
            self.tables.clear()
            self.cells = cells
        is_line = len(free) == 1
        table = self.factors.profile(free[0], shared) if is_line else self.factors.weigh_others(free, shared)
        self.tables[wanted] = [(shared, (table, free)), *self.tables.get(wanted, ())[: TABLES - 1]]
        return table, free
