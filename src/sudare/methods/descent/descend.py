"""The descent: from one number down to the cells, opening only nodes that are published as more than 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng, geometric
from sudare.methods.descent.cells import Cells, Runs, sort_cells
from sudare.methods.descent.empties import Measured, reveal
from sudare.methods.descent.possible import Possible
from sudare.methods.descent.repairs import Nearest, Repair, Shrunk, Thin
from sudare.methods.descent.rows import Children, Rows
from sudare.methods.descent.standing import Standing, nothing_stands_out, stand_out
from sudare.methods.descent.tree import Step, Tree, take

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Descent:
    """How a table is opened: the tree, the epsilon of every step, and how rows are made valid.

    The last epsilon is that of the cells, the others those of the upper steps. Rows are projected (`Nearest`), those of
    upper steps after they are explained if `shrink_rows` (`Shrunk`). With `thin_cells` cells that stand out are
    published first and the rest is spread (`Thin`). A node with at most `patience` times the noise scale of its step is
    opened into cells at once: the levels between would tell nothing but noise.
    """

    tree: Tree
    epsilons: tuple[Fraction, ...]
    sensitivity: int
    thin_cells: bool = False
    patience: int = 0
    shrink_rows: bool = False

    def __post_init__(self) -> None:
        if len(self.epsilons) != len(self.tree.steps):
            raise ParameterError(
                "epsilons ({given}) must be one for each of {steps} steps",
                given=len(self.epsilons),
                steps=len(self.tree.steps),
            )

    def publish(self, counts: Counts, *, total: int, rng: Rng) -> Counts:
        """Publish a table from the top down: noise on the children's sums, then every row made valid.

        Step i adds two-sided geometric noise of scale sensitivity/epsilons[i] to the sums of children of open nodes.

        Guarantee: epsilon-DP, epsilon the sum of `epsilons`, if a neighbouring table changes the sums of any one level
        by at most `sensitivity` in L1 and `total` is public or already noisy. Proof: proofs/descent.md
        Error: none in the total; a region is wrong by the noise of the rows that lead to it.
        Source: Hay et al. 2010; Terada, sparse tables, algorithm 2 (nodes at 0 stay closed).
        """
        if not self.tree.steps:  # one cell
            return Counts.build(counts.schema, np.zeros((1, 1), dtype=np.int64), [total])
        standing = self._measure_cells(counts, total, rng)
        parts = [(take(standing.ranks, standing.is_out), standing.published)]
        front = self._top(standing)
        for number in range(self._upper):
            goes_on = front.totals > math.floor(self.patience * self.scale(number))
            parts.append(self._finish(number, front.among(~goes_on), standing, rng))
            front = self._open(number, front.among(goes_on), standing, rng)
        parts.append(self._finish(self._upper, front, standing, rng))
        ranks, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Counts.build(counts.schema, counts.schema.radix.encode(self.tree.codes(ranks)), values)

    def scale(self, number: int) -> Fraction:
        """Scale of the noise of a step."""
        return self.sensitivity / self.epsilons[number]

    @property
    def _upper(self) -> int:
        """Count the steps above the one that opens cells."""
        return len(self.epsilons) - 1

    @cached_property
    def possible(self) -> Possible | None:
        """What the declared impossibilities leave; None if there are none."""
        return Possible(self.tree) if self.tree.schema.impossible else None

    def _rows(self, step: Step, nodes: Codes, closed: Children | None = None) -> Rows:
        return Rows(step=step, nodes=nodes, possible=self.possible, closed=closed)

    def _root(self) -> Codes:
        return np.zeros((1, len(self.tree.ladders)), dtype=np.int64)

    def _measure_cells(self, counts: Counts, total: int, rng: Rng) -> Standing:
        """Noise in all cells, and those that stand out."""
        rows = self._rows(self.tree.step(0, -1), self._root())
        codes = rows.step.lift(self.tree.ranks(counts.columns()))
        noisy = geometric(counts.values, epsilon=self.epsilons[-1], sensitivity=self.sensitivity, rng=rng)
        full = Measured(children=Children(rows=np.zeros(noisy.size, dtype=np.int64), codes=codes), values=noisy)
        if not self.thin_cells:
            return nothing_stands_out(rows, full, counts.values, total=total)
        return stand_out(rows, full, counts.values, total=total, scale=self.scale(-1), rng=rng)

    def _top(self, standing: Standing) -> Front:
        cells = sort_cells(standing.ranks, standing.values, self.tree)
        whole = Front(nodes=self._root(), totals=np.array([standing.left]), cells=cells)
        return whole.among(whole.totals > 0)

    def _open(self, number: int, front: Front, standing: Standing, rng: Rng) -> Front:
        """Open all nodes by one step; a child of which every cell stands out already is closed."""
        step = self.tree.steps[number]
        runs = front.cells.runs(number, step)
        children = Children(rows=runs.rows, codes=runs.codes)
        is_closed = self._are_closed(number, front, runs, standing)
        given = np.flatnonzero(~is_closed)
        noisy = geometric(runs.sums[given], epsilon=self.epsilons[number], sensitivity=self.sensitivity, rng=rng)
        rows = self._rows(step, front.nodes, children.take(is_closed))
        full = Measured(children=children.take(given), values=noisy)
        rule: Repair = Shrunk(self._cells_below(number, front), self.scale(number)) if self.shrink_rows else Nearest()
        opened = open_rows(rows, full, front.totals, rule, self.scale(number), None, rng)
        kept = np.flatnonzero(opened.values)
        owners = np.full(is_closed.size, -1, dtype=np.int64)
        owners[given[kept[kept < given.size]]] = np.flatnonzero(kept < given.size)
        return Front(
            nodes=step.children(front.nodes, opened.children.rows[kept], opened.children.codes[kept]),
            totals=opened.values[kept],
            cells=front.cells.follow(runs, owners),
        )

    def _cells_below(self, number: int, front: Front) -> Callable[[Children], Reals]:
        """Count the possible cells of children that a step opens."""

        def count(children: Children) -> Reals:
            nodes = self.tree.steps[number].children(front.nodes, children.rows, children.codes)
            return self._rows(self.tree.step(number + 1, -1), nodes).room.astype(np.float64)

        return count

    def _are_closed(self, number: int, front: Front, runs: Runs, standing: Standing) -> NDArray[np.bool_]:
        """Tell which children have no cell left that does not stand out."""
        is_closed = np.zeros(runs.rows.size, dtype=bool)
        if not runs.rows.size or not standing.is_out.any():
            return is_closed
        out = np.add.reduceat(standing.is_out[front.cells.places].astype(np.int64), runs.starts)
        some = np.flatnonzero(out)
        nodes = self.tree.steps[number].children(front.nodes, runs.rows[some], runs.codes[some])
        is_closed[some] = self._rows(self.tree.step(number + 1, -1), nodes).room == out[some]
        return is_closed

    def _finish(self, level: int, front: Front, standing: Standing, rng: Rng) -> tuple[Codes, Codes]:
        """Open nodes of a level into cells, whose noise is drawn already; give ranks and counts."""
        if not front.totals.size:
            return front.nodes, front.totals
        step = self.tree.step(level, -1)
        is_out = standing.is_out[front.cells.places]
        children = Children(rows=front.cells.owners, codes=step.lift(front.cells.ranks, front.cells.places))
        rows = self._rows(step, front.nodes, children.take(is_out))
        full = Measured(children=children.take(~is_out), values=standing.noisy[front.cells.places[~is_out]])
        rule: Repair = Thin() if self.thin_cells else Nearest()
        opened = open_rows(rows, full, front.totals, rule, self.scale(-1), standing.limit, rng)
        kept = np.flatnonzero(opened.values)
        cells = step.children(front.nodes, opened.children.rows[kept], opened.children.codes[kept])
        return cells, opened.values[kept]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Front:
    """The open nodes of a level: what they are, how many records each was published with, and the cells below."""

    nodes: Codes
    totals: Codes
    cells: Cells

    def among(self, chosen: NDArray[np.bool_]) -> Front:
        """Keep the chosen nodes."""
        return Front(nodes=take(self.nodes, chosen), totals=self.totals[chosen], cells=self.cells.among(chosen))


def open_rows(
    rows: Rows, full: Measured, totals: Codes, rule: Repair, scale: Fraction, most: int | None, rng: Rng
) -> Measured:
    """Complete the noisy full children by the empty ones that can matter, and make every row valid."""
    limits = rule.limits(rows, totals, scale)
    whole = rule.whole(rows)
    empty = reveal(rows, full, totals=totals, limits=limits, scale=scale, most=most, whole=whole, rng=rng)
    noisy = full.join(empty)
    return rule.repair(rows, noisy, limits, totals, rng)
