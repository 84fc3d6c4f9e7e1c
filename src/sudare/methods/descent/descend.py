"""The descent: from one number down to the cells, opening only nodes that are published as more than 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng, geometric
from sudare.methods.descent.cells import Runs, sort_cells
from sudare.methods.descent.empties import Measured, reveal
from sudare.methods.descent.possible import Possible
from sudare.methods.descent.repairs import Nearest, Repair, Thin
from sudare.methods.descent.rows import Children, Rows
from sudare.methods.descent.tree import Tree

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Descent:
    """How a table is opened: the tree, the epsilon of every step, and how rows are made valid.

    Rows of all steps but the last are projected (`Nearest`); `thin_cells` says whether the last step spreads what is
    under the noise (`Thin`) or projects as well.
    """

    tree: Tree
    epsilons: tuple[Fraction, ...]
    sensitivity: int
    thin_cells: bool = False

    def __post_init__(self) -> None:
        if len(self.epsilons) != len(self.tree.steps):
            raise ParameterError(
                "epsilons ({given}) must be one for each of {steps} steps",
                given=len(self.epsilons),
                steps=len(self.tree.steps),
            )

    def publish(self, counts: Counts, *, total: int, rng: Rng) -> Counts:
        """Publish a table from the top down: noise on the children's sums, then every row made valid.

        Step i adds two-sided geometric noise of scale sensitivity/epsilons[i] to the sums of all children of open nodes.

        Guarantee: epsilon-DP, epsilon the sum of `epsilons`, if a neighbouring table changes the sums of any one level
        by at most `sensitivity` in L1 and `total` is public or already noisy. Proof: proofs/descent.md
        Error: none in the total; a region is wrong by the noise of the rows that lead to it.
        Source: Hay et al. 2010; Terada, sparse tables, algorithm 2 (nodes at 0 stay closed).
        """
        cells = sort_cells(counts, self.tree)
        possible = Possible(self.tree) if self.tree.schema.impossible else None
        nodes = np.zeros((1 if total else 0, len(self.tree.ladders)), dtype=np.int64)
        totals = np.full(nodes.shape[0], total, dtype=np.int64)
        for number, (step, epsilon) in enumerate(zip(self.tree.steps, self.epsilons, strict=True)):
            runs = cells.runs(number, step)
            rows = Rows(step=step, nodes=nodes, possible=possible)
            noisy = geometric(runs.sums, epsilon=epsilon, sensitivity=self.sensitivity, rng=rng)
            full = Measured(children=Children(rows=runs.rows, codes=runs.codes), values=noisy)
            opened = open_rows(rows, full, totals, self._repair(number), self.sensitivity / epsilon, rng)
            kept = np.flatnonzero(opened.values)
            nodes = step.children(nodes, opened.children.rows[kept], opened.children.codes[kept])
            totals, cells = opened.values[kept], cells.follow(runs, _published(runs, kept))
        return Counts.build(self.tree.schema, self.tree.schema.radix.encode(self.tree.codes(nodes)), totals)

    def _repair(self, number: int) -> Repair:
        return Thin() if self.thin_cells and number == len(self.epsilons) - 1 else Nearest()


def open_rows(rows: Rows, full: Measured, totals: Codes, rule: Repair, scale: Fraction, rng: Rng) -> Measured:
    """Complete the noisy full children by the empty ones that can matter, and make every row valid."""
    limits = rule.limits(rows, totals, scale)
    noisy = full.join(reveal(rows, full, totals=totals, limits=limits, scale=scale, rng=rng))
    return rule.repair(rows, noisy, limits, totals, rng)


def _published(runs: Runs, kept: Codes) -> Codes:
    """The new row of each child that holds people; -1 if it ended at 0."""
    owners = np.full(runs.rows.size, -1, dtype=np.int64)
    full = kept < runs.rows.size
    owners[kept[full]] = np.flatnonzero(full)
    return owners
