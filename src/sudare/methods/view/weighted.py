"""What a view with pairs beyond its tree keeps: records drawn from it, and how much raking changed their weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sudare.schema.arrays import Codes, Reals

MOST_JOINT_CELLS = 200_000  # of a table of attributes: beyond, records are weighed one by one


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

    def only(self, version: int) -> WeightedRecords:
        """One version by itself."""
        left = {ends: table[version : version + 1] for ends, table in self.left.items()}
        return replace(self, changes=self.changes[version : version + 1], left=left, _tables={})

    def table(self, attributes: Sequence[int]) -> Reals:
        """What the changes and what is left add up to in every cell of some attributes, (versions, bins, bins, ...)."""
        return self._sum_changes(attributes) + self._left_of(tuple(attributes))

    def _sum_changes(self, attributes: Sequence[int]) -> Reals:
        key = tuple(attributes)
        if key not in self._tables:
            cell, size = np.zeros(len(self.bins), dtype=np.int64), 1
            for attribute in key:
                cell = cell * self.widths[attribute] + self.bins[:, attribute]
                size *= self.widths[attribute]
            sums = np.stack([np.bincount(cell, change, size).astype(np.float64) for change in self.changes])
            self._tables[key] = sums.reshape(-1, *(self.widths[attribute] for attribute in key))
        return self._tables[key]

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
        found = self.weigh_others((), evidence)
        if found is not None:
            return found
        product = self.changes.copy()
        for attribute in sorted(evidence):
            product = product * evidence[attribute][:, self.bins[:, attribute]]
        summed: Reals = product.sum(axis=1) + self._weigh_left((), evidence)
        return summed

    def weigh_others(self, free: Sequence[int], evidence: Mapping[int, Reals]) -> Reals | None:
        """What is added to every cell of some attributes, (versions, bins, ...), the others weighed and summed over.

        None if the table of all of them is too large.
        """
        attributes = tuple(sorted({*free, *evidence}))
        if not attributes:
            return self._all_changes
        if math.prod(self.widths[attribute] for attribute in attributes) > MOST_JOINT_CELLS:
            return None
        table = self._sum_changes(attributes)
        for place in range(len(attributes) - 1, -1, -1):
            if attributes[place] not in free:
                table = _sum_over(table, 1 + place, evidence[attributes[place]])
        kept = [attribute for attribute in attributes if attribute in free]
        laid = table if kept == list(free) else table.transpose([0, *(1 + kept.index(one) for one in free)])
        return laid + self._weigh_left(free, evidence)

    def _weigh_left(self, free: Sequence[int], evidence: Mapping[int, Reals]) -> Reals | float:
        """What is left of all pairs of some attributes: independent of the others, of which each has its share."""
        total: Reals | float = 0.0
        attributes = sorted({*free, *evidence})
        for ends in itertools.combinations(attributes, 2):
            if ends not in self.left:
                continue
            table = self.left[ends]
            for place in (1, 0):
                if ends[place] not in free:
                    table = _sum_over(table, 1 + place, evidence[ends[place]])
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


def _sum_over(table: Reals, axis: int, weights: Reals) -> Reals:
    """Weigh one axis of a table, (versions, ...), by (versions, values), and sum over it."""
    shape = table.shape
    flat = table.reshape(shape[0], math.prod(shape[1:axis]), shape[axis], -1)
    summed: Reals = np.matmul(weights[:, None, None, :], flat).reshape(shape[0], *shape[1:axis], *shape[axis + 1 :])
    return summed
