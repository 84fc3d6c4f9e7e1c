"""The private cells on their way down: sorted once so that every node of every level is a run of neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.counts.sparse import is_increasing
from sudare.methods.descent.tree import Step, Tree

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    """Cells that hold people, below nodes that are still open.

    `parts[i]` is the first step that separates cell i from the one before it; `owners[i]` the open node it lies in.
    `places[i]` is where the cell stood in the list that was sorted.
    """

    ranks: Codes
    values: Codes
    parts: Codes
    owners: Codes
    places: Codes

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

    def among(self, chosen: NDArray[np.bool_]) -> Cells:
        """Keep the cells of the chosen open nodes, which are numbered anew."""
        numbers = np.where(chosen, np.cumsum(chosen) - 1, -1)
        return self._kept(numbers[self.owners])

    def follow(self, runs: Runs, owners: Codes) -> Cells:
        """Keep the cells whose child was published; `owners` names it for each run, -1 where it was not."""
        lengths = np.diff(runs.starts, append=self.values.size)
        return self._kept(np.repeat(owners, lengths))

    def _kept(self, owners: Codes) -> Cells:
        kept = np.flatnonzero(owners >= 0)
        return Cells(
            ranks=self.ranks[kept],
            values=self.values[kept],
            parts=self.parts[kept],
            owners=owners[kept],
            places=self.places[kept],
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Runs:
    """Children that hold people: their parents' rows, their codes in the changed attributes, their exact sums."""

    starts: Codes
    rows: Codes
    codes: Codes
    sums: Codes


def sort_cells(ranks: Codes, values: Codes, tree: Tree) -> Cells:
    """Bring cells (m, attributes) into the order of the tree: by the codes of the first step, then of the next."""
    places = np.arange(values.size)
    path = np.column_stack([step.lift(ranks) for step in tree.steps])
    if path.shape[0] > 1 and not is_increasing(path):
        places = np.lexsort(path.T[::-1])
        ranks, values, path = ranks[places], values[places], path[places]
    steps = np.repeat(np.arange(len(tree.steps)), [len(step.changed) for step in tree.steps])
    parts = np.zeros(values.size, dtype=np.int64)
    if values.size:
        parts[1:] = steps[np.argmax(path[1:] != path[:-1], axis=1)]
    owners = np.zeros(values.size, dtype=np.int64)
    return Cells(ranks=ranks, values=values, parts=parts, owners=owners, places=places)
