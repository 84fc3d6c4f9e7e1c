"""The top-down tree: from one number down to the cells, opening only nodes that are published as more than 0.

The private cells are sorted once, so that every node of every level is a run of neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.tree.empty import Children, NoisyChildren, OpenRows, sample_empty
from sudare.methods.tree.levels import LevelStep, Tree, join, stack, take
from sudare.methods.tree.possible import Possible
from sudare.methods.tree.valid_rows import (
    HeavyCells,
    ProjectRows,
    RowRule,
    ShrinkRows,
    SpreadThinly,
    find_heavy_cells,
    find_no_heavy_cells,
)
from sudare.noise import CountNoise, Rng
from sudare.schema import Radix
from sudare.schema.arrays import Codes, Reals


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OpenCells:
    """Cells that hold people, below nodes that are still open.

    `ranks` name all cells of the table; `places[i]` says which of them cell i is. `parts[i]` is the first upper step
    that separates cell i from the one before it; `owners[i]` the open node it lies in.
    """

    ranks: Codes
    places: Codes
    values: Codes
    parts: Codes
    owners: Codes

    def runs(self, number: int, step: LevelStep) -> ChildRuns:
        """Add up the cells of every child that upper step `number` opens."""
        starts = np.flatnonzero(self.parts <= number)
        sums = np.add.reduceat(self.values, starts) if starts.size else self.values[:0]
        codes = step.lift(self.ranks, self.places[starts])
        return ChildRuns(starts=starts, rows=self.owners[starts], codes=codes, sums=sums)

    def among(self, chosen: NDArray[np.bool_]) -> OpenCells:
        """Keep the cells of the chosen open nodes, which are numbered anew."""
        if chosen.all():
            return self
        numbers = np.where(chosen, np.cumsum(chosen) - 1, -1)
        return self._kept(numbers[self.owners])

    def follow(self, runs: ChildRuns, owners: Codes) -> OpenCells:
        """Keep the cells whose child was published; `owners` names it for each run, -1 where it was not."""
        return self._kept(np.repeat(owners, np.diff(runs.starts, append=self.values.size)))

    def _kept(self, owners: Codes) -> OpenCells:
        kept = np.flatnonzero(owners >= 0)
        return OpenCells(
            ranks=self.ranks,
            places=self.places[kept],
            values=self.values[kept],
            parts=self.parts[kept],
            owners=owners[kept],
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ChildRuns:
    """Children that hold people: their parents' rows, their codes in the changed attributes, their exact sums."""

    starts: Codes
    rows: Codes
    codes: Codes
    sums: Codes


def sort_cells(ranks: Codes, values: Codes, tree: Tree) -> OpenCells:
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
    return OpenCells(ranks=ranks, places=order, values=values[order], parts=parts, owners=owners)


def _order(digits: list[Codes], bounds: list[int], size: int) -> Codes:
    """Sort by the first digit, then the next, ...: packed in as few words as hold them."""
    words = Radix(tuple(bounds)).encode(stack(digits)) if digits else np.zeros((size, 1), dtype=np.int64)
    if words.shape[1] > 1:
        return np.lexsort(words.T[::-1])
    is_sorted = bool((words[1:, 0] >= words[:-1, 0]).all())
    return np.arange(size) if is_sorted else np.argsort(words[:, 0], kind="stable")


# --- the tree -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class TopDownTree:
    """How a table is opened: the tree, the noise of every step, and how rows are made valid.

    The last noise is that of the cells, the others those of the upper steps. Rows are projected (`ProjectRows`),
    those of upper steps after they are explained if `shrink_rows` (`ShrinkRows`). With `thin_cells` heavy cells are
    published first and the rest is spread (`SpreadThinly`). A node with at most `opening_scales` noise scales of its
    step (the deviation over sqrt 2) is opened into cells at once: the levels between would tell nothing but noise.
    """

    tree: Tree
    noises: tuple[CountNoise, ...]
    thin_cells: bool = False
    opening_scales: int = 0
    shrink_rows: bool = False

    def __post_init__(self) -> None:
        if len(self.noises) != len(self.tree.steps):
            raise ParameterError(
                "noises ({given}) must be one for each of the {steps} steps",
                given=len(self.noises),
                steps=len(self.tree.steps),
            )

    def publish(self, counts: Counts, *, total: int, rng: Rng) -> Counts:
        """Publish a table from the top down: noise on the children's sums, then every row made valid.

        Step i adds the noise `noises[i]` to the sums of children of open nodes.

        Guarantee: what the noises of all steps cost together, if `total` is public or already noisy: a neighbouring
        table changes the sums of any one level as it changes the cells. Proof: proofs/tree.md
        Error: none in the total; a region is wrong by the noise of the rows that lead to it.
        Source: Hay et al. 2010; Terada, sparse tables, algorithm 2 (nodes at 0 stay closed).
        """
        if not self.tree.steps:  # one cell
            return Counts.build(counts.schema, np.zeros((1, 1), dtype=np.int64), [total])
        heavy = self._measure_cells(counts, total, rng)
        parts = [(take(heavy.ranks, heavy.is_heavy), heavy.published)]
        front = self._top(heavy)
        for number in range(self._upper):
            goes_on = front.totals > math.floor(self.opening_scales * self.noises[number].scale)
            parts.append(self._finish(number, front.among(~goes_on), heavy, rng))
            front = self._open(number, front.among(goes_on), heavy, rng)
        parts.append(self._finish(self._upper, front, heavy, rng))
        ranks, values = join([found for found, _ in parts]), np.concatenate([published for _, published in parts])
        return Counts.build(counts.schema, counts.schema.radix.encode(self.tree.codes(ranks)), values)

    @property
    def _upper(self) -> int:
        """Count the steps above the one that opens cells."""
        return len(self.noises) - 1

    @cached_property
    def possible(self) -> Possible | None:
        """What the declared impossibilities leave; None if there are none."""
        return Possible(self.tree) if self.tree.schema.impossible else None

    def _rows(self, step: LevelStep, nodes: Codes, closed: Children | None = None) -> OpenRows:
        return OpenRows(step=step, nodes=nodes, possible=self.possible, closed=closed)

    def _root(self) -> Codes:
        return np.zeros((1, len(self.tree.value_groups)), dtype=np.int64)

    def _measure_cells(self, counts: Counts, total: int, rng: Rng) -> HeavyCells:
        """Noise in all cells, and those that are heavy."""
        rows = self._rows(self.tree.step(0, -1), self._root())
        codes = rows.step.lift(self.tree.ranks(counts.columns()))
        noisy = self.noises[-1].add(counts.values, rng=rng)
        full = NoisyChildren(children=Children(rows=np.zeros(noisy.size, dtype=np.int64), codes=codes), values=noisy)
        if not self.thin_cells:
            return find_no_heavy_cells(rows, full, counts.values, total=total)
        return find_heavy_cells(rows, full, counts.values, total=total, noise=self.noises[-1], rng=rng)

    def _top(self, heavy: HeavyCells) -> Front:
        cells = sort_cells(heavy.ranks, heavy.values, self.tree)
        whole = Front(nodes=self._root(), totals=np.array([heavy.left]), cells=cells)
        return whole.among(whole.totals > 0)

    def _open(self, number: int, front: Front, heavy: HeavyCells, rng: Rng) -> Front:
        """Open all nodes by one step; a child of which every cell is heavy already is closed."""
        step = self.tree.steps[number]
        runs = front.cells.runs(number, step)
        children = Children(rows=runs.rows, codes=runs.codes)
        is_closed = self._are_closed(number, front, runs, heavy)
        given = np.flatnonzero(~is_closed)
        noisy = self.noises[number].add(runs.sums[given], rng=rng)
        rows = self._rows(step, front.nodes, children.take(is_closed))
        full = NoisyChildren(children=children.take(given), values=noisy)
        rule: RowRule = (
            ShrinkRows(self._cells_below(number, front), self.noises[number]) if self.shrink_rows else ProjectRows()
        )
        opened = open_rows(rows, full, front.totals, rule, self.noises[number], None, rng)
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
            return self._rows(self.tree.step(number + 1, -1), nodes).capacity.astype(np.float64)

        return count

    def _are_closed(self, number: int, front: Front, runs: ChildRuns, heavy: HeavyCells) -> NDArray[np.bool_]:
        """Tell which children have no cell left that is not heavy."""
        is_closed = np.zeros(runs.rows.size, dtype=bool)
        if not runs.rows.size or not heavy.is_heavy.any():
            return is_closed
        out = np.add.reduceat(heavy.is_heavy[front.cells.places].astype(np.int64), runs.starts)
        some = np.flatnonzero(out)
        nodes = self.tree.steps[number].children(front.nodes, runs.rows[some], runs.codes[some])
        is_closed[some] = self._rows(self.tree.step(number + 1, -1), nodes).capacity == out[some]
        return is_closed

    def _finish(self, level: int, front: Front, heavy: HeavyCells, rng: Rng) -> tuple[Codes, Codes]:
        """Open nodes of a level into cells, whose noise is drawn already; give ranks and counts."""
        if not front.totals.size:
            return front.nodes, front.totals
        step = self.tree.step(level, -1)
        is_heavy = heavy.is_heavy[front.cells.places]
        children = Children(rows=front.cells.owners, codes=step.lift(front.cells.ranks, front.cells.places))
        rows = self._rows(step, front.nodes, children.take(is_heavy))
        full = NoisyChildren(children=children.take(~is_heavy), values=heavy.noisy[front.cells.places[~is_heavy]])
        rule: RowRule = SpreadThinly() if self.thin_cells else ProjectRows()
        opened = open_rows(rows, full, front.totals, rule, self.noises[-1], heavy.limit, rng)
        kept = np.flatnonzero(opened.values)
        cells = step.children(front.nodes, opened.children.rows[kept], opened.children.codes[kept])
        return cells, opened.values[kept]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Front:
    """The open nodes of a level: what they are, how many records each was published with, and the cells below."""

    nodes: Codes
    totals: Codes
    cells: OpenCells

    def among(self, chosen: NDArray[np.bool_]) -> Front:
        """Keep the chosen nodes."""
        return Front(nodes=take(self.nodes, chosen), totals=self.totals[chosen], cells=self.cells.among(chosen))


def open_rows(
    rows: OpenRows, full: NoisyChildren, totals: Codes, rule: RowRule, noise: CountNoise, most: int | None, rng: Rng
) -> NoisyChildren:
    """Complete the noisy full children by the empty ones that can matter, and make every row valid."""
    limits = rule.limits(rows, totals, noise)
    whole = rule.whole(rows)
    empty = sample_empty(rows, full, totals=totals, limits=limits, noise=noise, most=most, whole=whole, rng=rng)
    noisy = full.join(empty)
    return rule.repair(rows, noisy, limits, totals, rng)
