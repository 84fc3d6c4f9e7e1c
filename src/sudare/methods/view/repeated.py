"""Boxes that share most of their weights, as those of one GROUP BY do: what they share is added up once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from sudare.methods.view.junction_tree import Clique, Factors, Message
from sudare.schema.arrays import Reals

MOST_CELLS = 2**16  # of a table, all versions
MOST_KEPT_CELLS = 2**21  # of all tables together: 17 MB
TABLES = 3  # that are kept for the same attributes


class RepeatedBoxes:
    """Remembers the weights of the last box of every set of attributes, and tables in which shared ones are added up.

    Weights are the same if they are one array: a view prepares equal ones once.
    """

    def __init__(self, factors: Factors) -> None:
        self.factors = factors
        self.last: dict[frozenset[int], Mapping[int, Reals]] = {}
        self.tables: dict[frozenset[int], list[tuple[Mapping[int, Reals], Message]]] = {}
        self.cells = 0

    def find(self, evidence: Mapping[int, Reals], uneven: Set[int]) -> Message | None:
        """A table of some of the attributes, `uneven` among them, the others weighed; None if it would not pay.

        It pays from the second box on that shares weights with the one before.
        """
        wanted = frozenset(evidence)
        for shared, table in self.tables.get(wanted, ()):
            if all(evidence[axis] is weights for axis, weights in shared.items()) and not uneven & shared.keys():
                return table
        before = self.last.get(wanted)
        if len(self.last) >= MOST_KEPT_CELLS // MOST_CELLS and before is None:
            self.last.clear()
        self.last[wanted] = evidence
        if before is None:
            return None
        same = {axis: weights for axis, weights in evidence.items() if before[axis] is weights and axis not in uneven}
        return self._make(wanted, same) if same else None

    def _make(self, wanted: frozenset[int], shared: Mapping[int, Reals]) -> Message | None:
        free: Clique = tuple(sorted(wanted - shared.keys()))
        cells = self.factors.versions * math.prod(self.factors.width(axis) for axis in free)
        if not free or cells > MOST_CELLS:
            return None
        self.cells += cells
        if self.cells > MOST_KEPT_CELLS:
            self.tables.clear()
            self.cells = cells
        table = self.factors.weigh_others(free, shared), free
        self.tables[wanted] = [(shared, table), *self.tables.get(wanted, ())[: TABLES - 1]]
        return table
