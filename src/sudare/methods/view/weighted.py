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
        """What the changes add up to in every cell of some attributes, (versions, bins, bins, ...)."""
        key = tuple(attributes)
        if key not in self._tables:
            cell, size = np.zeros(len(self.bins), dtype=np.int64), 1
            for attribute in key:
                cell = cell * self.widths[attribute] + self.bins[:, attribute]
                size *= self.widths[attribute]
            sums = np.stack([np.bincount(cell, change, size).astype(np.float64) for change in self.changes])
            self._tables[key] = sums.reshape(-1, *(self.widths[attribute] for attribute in key)) + self._left_of(key)
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
        summed: Reals = self.changes.sum(axis=1)
        if not evidence:
            return summed
        attributes = sorted(evidence)
        if math.prod(self.widths[attribute] for attribute in attributes) <= MOST_JOINT_CELLS:
            table = self.table(attributes)
            for attribute in reversed(attributes):
                table = np.einsum("v...b,vb->v...", table, evidence[attribute])
            return table
        product = self.changes.copy()
        for attribute in attributes:
            product = product * evidence[attribute][:, self.bins[:, attribute]]
        summed = product.sum(axis=1)
        for first, second in itertools.combinations(attributes, 2):
            if (first, second) in self.left:
                part = np.einsum("vab,va,vb->v", self.left[first, second], evidence[first], evidence[second])
                others = [evidence[one] @ self._shares[one] for one in attributes if one not in (first, second)]
                summed = summed + part * math.prod(others, start=np.ones(len(part)))
        return summed
