"""What a view with pairs beyond its tree keeps: records drawn from it, and how much raking changed their weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sudare.schema.arrays import Codes, Reals

MOST_JOINT_CELLS = 200_000  # of a table of attributes: beyond, records are weighed one by one


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRecords:
    """Records drawn from the forest as coarse bins, with their weights; all of it public.

    `changes`, (versions, records): how much raking to all pairs changed the weight that the forest gives a record.
    """

    bins: Codes  # (records, attributes)
    weights: Reals
    changes: Reals
    widths: tuple[int, ...]
    _tables: dict[tuple[int, ...], Reals] = field(default_factory=dict, repr=False)

    def only(self, version: int) -> WeightedRecords:
        """One version by itself."""
        return replace(self, changes=self.changes[version : version + 1], _tables={})

    def table(self, attributes: Sequence[int]) -> Reals:
        """What the changes add up to in every cell of some attributes, (versions, bins, bins, ...)."""
        key = tuple(attributes)
        if key not in self._tables:
            cell, size = np.zeros(len(self.bins), dtype=np.int64), 1
            for attribute in key:
                cell = cell * self.widths[attribute] + self.bins[:, attribute]
                size *= self.widths[attribute]
            sums = np.stack([np.bincount(cell, change, size).astype(np.float64) for change in self.changes])
            self._tables[key] = sums.reshape(-1, *(self.widths[attribute] for attribute in key))
        return self._tables[key]

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
        return summed
