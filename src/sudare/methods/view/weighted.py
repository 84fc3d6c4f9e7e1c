"""What a view with pairs beyond its tree keeps: records drawn from it, and how much raking changed their weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sudare.methods.view.products import sum_out
from sudare.schema.arrays import Codes, Reals, SmallCodes

MOST_JOINT_CELLS = 2**15  # of a table of attributes: beyond, records are weighed one by one
MOST_KEPT_NUMBERS = 2**23  # of all such tables together: 67 MB
FEW_TABLES = 24  # that are made before SciPy is loaded, which makes them in a third of the time and loads in .1 s


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRecords:
    """Records drawn from the forest as coarse bins, with their weights; all of it public.

    `changes`, (versions, records): how much raking to all pairs changed the weight that the forest gives a record.
    `left`, (versions, bins, bins): what the measured table of a pair says beyond that. Questions about further
    attributes take it as independent of those.
    """

    bins: Codes  # (records, attributes)
    weights: Reals
    changes: Reals
    widths: tuple[int, ...]
    left: Mapping[tuple[int, int], Reals] = field(default_factory=dict)
    _tables: dict[tuple[int, ...], Reals] = field(default_factory=dict, repr=False)
    _kept: list[int] = field(default_factory=list, repr=False)  # how many numbers these tables hold

    def only(self, version: int) -> WeightedRecords:
        """One version by itself."""
        left = {ends: table[version : version + 1] for ends, table in self.left.items()}
        return replace(self, changes=self.changes[version : version + 1], left=left, _tables={}, _kept=[])

    def table(self, attributes: Sequence[int]) -> Reals:
        """What the changes and what is left add up to in every cell of some attributes, (versions, bins, bins, ...)."""
        return self._sum_changes(attributes) + self._left_of(tuple(attributes))

    def _sum_changes(self, attributes: Sequence[int]) -> Reals:
        key = tuple(attributes)
        if key not in self._tables:
            table = self._add_up(self._find_cells(key), self._count_cells(key), self._turned)
            self._kept.append(table.size)
            if sum(self._kept) > MOST_KEPT_NUMBERS:
                self._tables.clear()
                self._kept[:] = [table.size]
            self._tables[key] = table.reshape(-1, *(self.widths[attribute] for attribute in key))
        return self._tables[key]

    def _count_cells(self, attributes: Sequence[int]) -> int:
        return math.prod([self.widths[attribute] for attribute in attributes])

    def _find_cells(self, attributes: Sequence[int]) -> SmallCodes:
        """The cell of some attributes that every record lies in."""
        cells = np.zeros(len(self.bins), dtype=np.int32)
        for place, attribute in enumerate(attributes):
            column = self._columns[attribute]
            cells = column if place == 0 else cells * self.widths[attribute] + column
        return cells

    def _add_up(self, cells: SmallCodes, size: int, rows: Reals) -> Reals:
        """Sum (records, versions) over the records of every cell, to (versions, cells)."""
        if len(self._tables) < FEW_TABLES:
            return np.stack([np.bincount(cells, line, size).astype(np.float64) for line in rows.T])
        from scipy.sparse import csc_array

        ones, ends = self._ones
        members = csc_array((ones[: len(cells)], cells, ends[: len(cells) + 1]), shape=(size, len(cells)))
        return np.ascontiguousarray((members @ rows).T)

    @cached_property
    def _ones(self) -> tuple[Reals, SmallCodes]:
        """What a sparse matrix of one cell a record holds, and where its columns end."""
        return np.ones(len(self.bins)), np.arange(len(self.bins) + 1, dtype=np.int32)

    @cached_property
    def _turned(self) -> Reals:
        """The changes, (records, versions): a record's stand together."""
        return np.ascontiguousarray(self.changes.T)

    @cached_property
    def _columns(self) -> SmallCodes:
        """The bins, (attributes, records)."""
        return np.ascontiguousarray(self.bins.T, dtype=np.int32)

    def _left_of(self, key: tuple[int, ...]) -> Reals | float:
        """What is left of all pairs of some attributes, in every cell."""
        total: Reals | float = 0.0
        for first, second in itertools.combinations(sorted(key), 2):
            if (first, second) not in self.left:
                continue
            names = [first, second, *(attribute for attribute in sorted(key) if attribute not in (first, second))]
            table = self.left[first, second]
            for attribute in names[2:]:
                table = table[..., None] * self._shares[attribute]
            total = total + np.transpose(table, (0, *(1 + names.index(attribute) for attribute in key)))
        return total

    @cached_property
    def _shares(self) -> list[Reals]:
        """The share of the records in every bin of every attribute."""
        sums = [np.bincount(self.bins[:, place], self.weights, width) for place, width in enumerate(self.widths)]
        return [one / max(float(one.sum()), 1e-9) for one in sums]

    def answer(self, evidence: Mapping[int, Reals]) -> Reals:
        """What the changes add to a count of the tree, version by version."""
        return self.weigh_others((), evidence) + self.weigh_left((), evidence)

    def weigh_others(self, free: Sequence[int], evidence: Mapping[int, Reals]) -> Reals:
        """What changes add to every cell of some attributes, (versions, bins, ...), the others weighed and summed."""
        attributes = tuple(sorted({*free, *evidence}))
        if not attributes:
            return self._all_changes
        if self._count_cells(attributes) > MOST_JOINT_CELLS:
            return self._weigh_records(free, evidence)
        table = self._sum_changes(attributes)
        for place in range(len(attributes) - 1, -1, -1):
            if attributes[place] not in free:
                table = sum_out(table, 1 + place, evidence[attributes[place]])
        kept = [attribute for attribute in attributes if attribute in free]
        return table if kept == list(free) else table.transpose([0, *(1 + kept.index(one) for one in free)])

    def _find_records(self, evidence: Mapping[int, Reals]) -> Codes:
        """The records that weigh anything in any version."""
        is_asked = np.ones(len(self.bins), dtype=bool)
        for attribute, weights in evidence.items():
            is_some = weights.any(axis=0)
            if not is_some.all():
                is_asked &= is_some.take(self._columns[attribute])
        return np.flatnonzero(is_asked)

    def _weigh_records(self, free: Sequence[int], evidence: Mapping[int, Reals]) -> Reals:
        """What `weigh_others` says, from records one by one: those that weigh nothing are left out at once."""
        own = self._find_records(evidence)
        rows = self._turned.take(own, axis=0)
        for attribute, weights in evidence.items():
            if ((weights != 1) & (weights != 0).any(axis=0)).any():
                rows *= np.ascontiguousarray(weights.T).take(self._columns[attribute].take(own), axis=0)
        if not free:
            summed: Reals = rows.sum(axis=0)
            return summed
        cells = self._find_cells(free).take(own)
        return self._add_up(cells, self._count_cells(free), rows).reshape(-1, *(self.widths[one] for one in free))

    def weigh_left(self, free: Sequence[int], evidence: Mapping[int, Reals]) -> Reals | float:
        """What is left of all pairs of some attributes: independent of the others, of which each has its share."""
        total: Reals | float = 0.0
        attributes = sorted({*free, *evidence})
        for ends in itertools.combinations(attributes, 2):
            if ends not in self.left:
                continue
            table = self.left[ends]
            for place in (1, 0):
                if ends[place] not in free:
                    table = sum_out(table, 1 + place, evidence[ends[place]])
            table = table.reshape(table.shape[0], *(self.widths[one] if one in ends else 1 for one in sorted(free)))
            for other in attributes:
                if other not in ends:
                    table = table * self._share_of(other, free, evidence)
            ranks = sorted(free)
            if ranks != list(free):
                table = table.transpose([0, *(1 + ranks.index(one) for one in free)])
            total = total + table
        return total

    def _share_of(self, other: int, free: Sequence[int], evidence: Mapping[int, Reals]) -> Reals:
        """The share of the records in every bin of an attribute, or of those that are weighed; over sorted `free`."""
        if other in free:
            return self._shares[other].reshape([1, *(-1 if one == other else 1 for one in sorted(free))])
        weighed: Reals = evidence[other] @ self._shares[other]
        return weighed.reshape(-1, *(1 for _ in free))

    @cached_property
    def _all_changes(self) -> Reals:
        summed: Reals = self.changes.sum(axis=1)
        return summed
