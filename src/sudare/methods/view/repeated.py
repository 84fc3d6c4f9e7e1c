"""Boxes that share most of their weights, as those of one GROUP BY do: what they share is added up once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

import numpy as np

from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.prepared_axis import PreparedAxis
from sudare.methods.view.products import Clique, Message
from sudare.methods.view.weighted import WeightedRecords
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


# --- boxes that are asked at once -------------------------------------------------------------------------------------

MOST_TABLE_CELLS = 2**18  # of a table of what differs from box to box, all versions
WeightsKey = tuple[tuple[int, int], ...]  # attributes, and the identities of their weights
FEWEST_ALIKE = 4  # boxes of the same attributes that are counted together: fewer counts are quicker one by one


class WeighedTables:
    """Tables of some attributes, the others weighed and summed over; kept, and those of fewer attributes from wider.

    `source` is a tree, or records: both are added up alike.
    """

    def __init__(self, source: Factors | WeightedRecords) -> None:
        self.source = source
        self.tables: dict[tuple[Clique, WeightsKey], tuple[Reals, Mapping[int, Reals]]] = {}
        self.lines: dict[WeightsKey, Reals] = {}  # those of one attribute
        self.wider: dict[tuple[Clique, WeightsKey], tuple[Reals, int]] = {}  # of one attribute more, and where it is
        self.cells = 0

    def find(self, free: Clique, shared: Mapping[int, Reals]) -> Reals:
        """The table of some attributes, in the order of the schema."""
        key = (free, _key_of(shared))
        if key in self.tables:
            return self.tables[key][0]
        table = self._make(free, shared, self.wider.get(key))
        self.cells += table.size
        if self.cells > MOST_KEPT_CELLS:
            self.tables.clear()
            self.lines.clear()
            self.wider.clear()
            self.cells = table.size
        self.tables[key] = table, dict(shared)  # kept, so that their identities stay their own
        if len(free) == 1:
            self.lines[key[1]] = table
        for place, axis in enumerate(free if len(free) > 1 else ()):
            self.wider[_without(free, axis), key[1]] = table, 1 + place
        return table

    def _make(self, free: Clique, shared: Mapping[int, Reals], wider: tuple[Reals, int] | None) -> Reals:
        if wider is not None:  # a sum over the same records has left a table of one more attribute
            summed: Reals = wider[0].sum(axis=wider[1])
            return summed
        if isinstance(self.source, Factors) and len(free) == 1:
            return self.source.profile(free[0], shared)
        return self.source.weigh_others(free, shared)


class AlikeBoxes:
    """Counts boxes of the same attributes together: what all of them weigh alike is added up once, to a table.

    Such tables are kept, since counts, sums and means of one GROUP BY weigh most attributes alike. `first` is the
    estimate alone.
    """

    def __init__(self, factors: Factors, first: Factors, records: WeightedRecords | None) -> None:
        self.factors, self.first, self.records = factors, first, records
        self.tree, self.line_of_first = WeighedTables(factors), WeighedTables(first)
        self.changes = None if records is None else WeighedTables(records)

    def count(self, evidence: Mapping[int, Reals]) -> Reals | None:
        """The count of records with these weights, where a sum or mean left a table of one more attribute."""
        line = self.tree.lines.get(_key_of(evidence)) if self.tree.lines else None
        if line is None or self.records is None or self.changes is None:
            return None if line is None else line.sum(axis=1)
        more = self.changes.lines.get(_key_of(evidence))
        if more is None:
            return None
        counted: Reals = line.sum(axis=1) + more.sum(axis=1) + self.records.weigh_left((), evidence)
        return counted

    def answer(self, boxes: Sequence[Mapping[int, PreparedAxis]]) -> tuple[Reals, list[dict[int, Reals]]] | None:
        """Count boxes, (versions, boxes); and the records of every bin of attributes that are uneven inside.

        None if they are few, or a table would be too large.
        """
        if len(boxes[0]) < 2 or (len(boxes) < FEWEST_ALIKE and not any(one.is_graded for one in boxes[0].values())):
            return None
        shared = {axis: one.evidence for axis, one in boxes[0].items()
                  if not one.is_graded and all(box[axis].evidence is one.evidence for box in boxes)}  # fmt: skip
        free = tuple(sorted(boxes[0].keys() - shared.keys()))
        if len(boxes) == 1 and len(free) == 1:
            return self._answer_one(boxes[0][free[0]], free, shared)
        uneven = [axis for axis in boxes[0] if not all(box[axis].is_even for box in boxes)]
        if len(boxes) < FEWEST_ALIKE:  # those of other attributes are quicker found one by one
            uneven = [axis for axis in uneven if free == (axis,)]
        table = self._find(free, shared) if free else None
        lines = {}
        for axis in uneven:
            others = {other: weights for other, weights in shared.items() if other != axis}
            lines[axis] = self._find_first((*_without(free, axis), axis), others)
        if table is None or any(line is None for line in lines.values()):
            return None
        stacked = {axis: np.stack([box[axis].evidence for box in boxes], axis=1) for axis in free}
        answers = _weigh_stacked(table, [stacked[axis] for axis in free])[..., 0]
        profiles = {axis: _weigh_stacked(line, [stacked[other][:1] for other in _without(free, axis)])[0]
                    for axis, line in lines.items() if line is not None}  # fmt: skip
        own = [{axis: rows[place if len(rows) > 1 else 0] for axis, rows in profiles.items()}
               for place in range(len(boxes))]  # fmt: skip
        return answers, own

    def _answer_one(
        self, graded: PreparedAxis, free: Clique, shared: Mapping[int, Reals]
    ) -> tuple[Reals, list[dict[int, Reals]]] | None:
        """What `answer` says of one box with one attribute that is summed."""
        table = self._find(free, shared)
        if table is None:
            return None
        answers = (table * graded.evidence).sum(axis=1, keepdims=True)
        return answers, [{} if graded.is_even else {free[0]: self.tree.find(free, shared)[0]}]

    def _find(self, free: Clique, shared: Mapping[int, Reals]) -> Reals | None:
        """The table of some attributes, the others weighed; None if it would be too large."""
        if self.factors.versions * math.prod(map(self.factors.width, free)) > MOST_TABLE_CELLS:
            return None
        table = self.tree.find(free, shared)
        if self.records is None or self.changes is None:
            return table
        return table + self.changes.find(free, shared) + self.records.weigh_left(free, shared)

    def _find_first(self, free: Clique, shared: Mapping[int, Reals]) -> Reals | None:
        """The table by the estimate alone, without records; its last attribute is the one that is looked at."""
        if math.prod(map(self.factors.width, free)) > MOST_TABLE_CELLS:
            return None
        ranks = tuple(sorted(free))
        if len(free) == 1 or (ranks, _key_of(shared)) in self.tree.tables:
            whole = self.tree.find(ranks, shared)[:1]
        else:
            whole = self.line_of_first.find(ranks, {axis: lines[:1] for axis, lines in shared.items()})
        return whole.transpose([0, *(1 + ranks.index(one) for one in free)])


def _key_of(weights: Mapping[int, Reals]) -> WeightsKey:
    return tuple(sorted([(axis, id(lines)) for axis, lines in weights.items()]))


def _without(attributes: Clique, axis: int) -> Clique:
    return tuple(other for other in attributes if other != axis)


def _weigh_stacked(table: Reals, weights: Sequence[Reals]) -> Reals:
    """Sum over the first attributes of a table, weighed box by box; (versions, boxes, values of the last attribute).

    `weights` are (versions, boxes, values); where all attributes are summed over, the last axis has one entry.
    """
    versions, boxes = table.shape[0], weights[0].shape[1] if weights else 1
    rest = table.reshape(versions, 1, -1)
    for place, line in enumerate(weights):
        size = line.shape[2]
        if place == 0:
            rest = np.matmul(line, rest.reshape(versions, size, -1))
        else:
            rest = np.matmul(line[:, :, None, :], rest.reshape(versions, boxes, size, -1))[:, :, 0]
    return rest
