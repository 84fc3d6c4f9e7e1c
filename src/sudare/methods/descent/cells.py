"""The private cells on their way down: sorted once so that every node of every level is a run of neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.methods.descent.tree import Step, Tree, stack
from sudare.schema import Radix

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    """Cells that hold people, below nodes that are still open.

    `ranks` name all cells of the table; `places[i]` says which of them cell i is. `parts[i]` is the first upper step
    that separates cell i from the one before it; `owners[i]` the open node it lies in.
    """

    ranks: Codes
    places: Codes
    values: Codes
    parts: Codes
    owners: Codes

    def runs(self, number: int, step: Step) -> Runs:
        """Add up the cells of every child that upper step `number` opens."""
        starts = np.flatnonzero(self.parts <= number)
        sums = np.add.reduceat(self.values, starts) if starts.size else self.values[:0]
        codes = step.lift(self.ranks, self.places[starts])
        return Runs(starts=starts, rows=self.owners[starts], codes=codes, sums=sums)

    def among(self, chosen: NDArray[np.bool_]) -> Cells:
        """Keep the cells of the chosen open nodes, which are numbered anew."""
        if chosen.all():
            return self
        numbers = np.where(chosen, np.cumsum(chosen) - 1, -1)
        return self._kept(numbers[self.owners])

    def follow(self, runs: Runs, owners: Codes) -> Cells:
        """Keep the cells whose child was published; `owners` names it for each run, -1 where it was not."""
        return self._kept(np.repeat(owners, np.diff(runs.starts, append=self.values.size)))

    def _kept(self, owners: Codes) -> Cells:
        kept = np.flatnonzero(owners >= 0)
        return Cells(
            ranks=self.ranks,
            places=self.places[kept],
            values=self.values[kept],
            parts=self.parts[kept],
            owners=owners[kept],
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Runs:
    """Children that hold people: their parents' rows, their codes in the changed attributes, their exact sums."""

    starts: Codes
    rows: Codes
    codes: Codes
    sums: Codes


def sort_cells(ranks: Codes, values: Codes, tree: Tree) -> Cells:
    """Bring cells (m, attributes) into the order of the tree: by the nodes of the first step, then of the next, ...

    The last step is left out: it opens cells one by one.
    """
    digits = [(number, *pair) for number, step in enumerate(tree.steps[:-1]) for pair in step.digits(ranks)]
    order = _order([digit for _, digit, _ in digits], [bound for _, _, bound in digits], values.size)
    parts = np.full(values.size, len(tree.steps), dtype=np.int64)
    for number, digit, _ in reversed(digits):
        parts[1:][np.diff(digit[order]) != 0] = number
    parts[:1] = 0
    owners = np.zeros(values.size, dtype=np.int64)
    return Cells(ranks=ranks, places=order, values=values[order], parts=parts, owners=owners)


def _order(digits: list[Codes], bounds: list[int], size: int) -> Codes:
    """Sort by the first digit, then the next, ...: packed in as few words as hold them."""
    words = Radix(tuple(bounds)).encode(stack(digits)) if digits else np.zeros((size, 1), dtype=np.int64)
    if words.shape[1] > 1:
        return np.lexsort(words.T[::-1])
    is_sorted = bool((words[1:, 0] >= words[:-1, 0]).all())
    return np.arange(size) if is_sorted else np.argsort(words[:, 0], kind="stable")
