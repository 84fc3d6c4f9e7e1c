"""The private cells on their way down: sorted once so that every node of every level is a run of neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.counts.sparse import is_increasing
from sudare.methods.descent.tree import Step, Tree

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    """Cells that hold people, below nodes that are still open.

    `parts[i]` is the first step that separates cell i from the one before it; `owners[i]` the open node it lies in.
    """

    ranks: Codes
    values: Codes
    parts: Codes
    owners: Codes

    def runs(self, number: int, step: Step) -> Runs:
        """Add up the cells of every child that step `number` opens."""
        starts = np.flatnonzero(self.parts <= number)
        if not starts.size:
            return Runs(starts=starts, rows=starts, codes=np.empty((0, len(step.changed)), np.int64), sums=starts)
        return Runs(
            starts=starts,
            rows=self.owners[starts],
            codes=step.lift(self.ranks[starts]),
            sums=np.add.reduceat(self.values, starts),
        )

    def follow(self, runs: Runs, owners: Codes) -> Cells:
        """Keep the cells whose child was published; `owners` names it for each run, -1 where it was not."""
        lengths = np.diff(runs.starts, append=self.values.size)
        own = np.repeat(owners, lengths)
        kept = own >= 0
        return Cells(ranks=self.ranks[kept], values=self.values[kept], parts=self.parts[kept], owners=own[kept])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Runs:
    """Children that hold people: their parents' rows, their codes in the changed attributes, their exact sums."""

    starts: Codes
    rows: Codes
    codes: Codes
    sums: Codes


def sort_cells(counts: Counts, tree: Tree) -> Cells:
    """Bring cells into the order of the tree: by the codes of the first step, then of the second, and so on."""
    ranks, values = tree.ranks(counts.columns()), np.asarray(counts.values)
    path = np.column_stack([step.lift(ranks) for step in tree.steps])
    if path.shape[0] > 1 and not is_increasing(path):
        order = np.lexsort(path.T[::-1])
        ranks, values, path = ranks[order], values[order], path[order]
    steps = np.repeat(np.arange(len(tree.steps)), [len(step.changed) for step in tree.steps])
    parts = np.zeros(values.size, dtype=np.int64)
    if values.size:
        parts[1:] = steps[np.argmax(path[1:] != path[:-1], axis=1)]
    return Cells(ranks=ranks, values=values, parts=parts, owners=np.zeros(values.size, dtype=np.int64))
