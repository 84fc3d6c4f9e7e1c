"""One node looked at: its classes, which of them fail, what that costs, and what follows for other nodes."""

from __future__ import annotations

import bisect
import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sudare.methods.kanon.criteria import Criterion, MinimumSize, all_hold
from sudare.methods.kanon.lattice import Node, is_finer
from sudare.methods.kanon.problem import CheckedNode, Found, Problem, SearchProgress
from sudare.methods.kanon.quality import QualityMeasure
from sudare.methods.kanon.tuples import Classes
from sudare.schema.arrays import Booleans

KEPT = 96  # classes of this many nodes are kept to roll up from
KEPT_BYTES = 2**28
LOOKS = 8  # nodes whose classes stay at hand for what is asked right after a check
FAR = 2  # times as many classes: too far to roll up from again and again
MISSES = 3  # nodes so far from their source, after which one is made between them
PROGRESS_CHECKS = 64


def slack(score: float) -> float:
    """Tell by how much scores may differ and still count as equal: they are sums of rounded numbers."""
    return 1e-12 * max(1.0, abs(score))


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeCheck:
    """What is known of a node. `kills`: no finer node is feasible either. `clears`: all coarser ones are."""

    node: Node
    k: int  # rows in the smallest class
    suppressed_rows: int
    is_whole: bool  # nothing is suppressed
    is_feasible: bool
    kills: bool
    clears: bool
    score: float  # infinity if it is not feasible, or shown to be worse than the best before it
    rising: float  # no coarser node scores less


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The classes of a node, those that fail, and those lost: they fail a growing criterion, as all their parts do."""

    classes: Classes
    failing: Booleans
    lost: Booleans


class Checker:
    """Checks nodes of one problem, each once, and remembers the best one."""

    def __init__(self, problem: Problem, *, is_exact: bool = False) -> None:
        self.problem = problem
        self.is_exact = is_exact  # score every feasible node, not only those that may be the best so far
        self.limit = problem.most_suppressed_rows
        self.growing = tuple(dict.fromkeys(each for one in problem.criteria for each in one.implied))
        self.are_growing = all(one.grows for one in problem.criteria)
        self.are_merging = all(one.merges for one in problem.criteria)
        self.stubborn = tuple(one for one in problem.criteria if not one.is_suppressible)
        self.checks: dict[Node, NodeCheck] = {}
        self.best: NodeCheck | None = None
        self.steps: list[CheckedNode] = []
        self.cells = 0
        self.count = 0
        self.sources = Sources(problem.lattice.heights, problem.tuples.count)
        self._looks: dict[Node, Look] = {}  # of the last nodes only: classes take far more memory than verdicts
        self._outs: dict[Node, Any] = {}
        self._far: dict[Node, list[Node]] = {}
        self._stop = None if problem.deadline_seconds is None else time.monotonic() + problem.deadline_seconds

    @cached_property
    def measure(self) -> QualityMeasure:
        """Give the quality on the tuples of the problem."""
        sizes = [one.k for one in self.problem.criteria if isinstance(one, MinimumSize)]
        return self.problem.quality.on(self.problem.tuples, self.problem.lattice, least=max(sizes, default=1))

    @property
    def is_late(self) -> bool:
        """Tell whether the deadline has passed."""
        return self._stop is not None and time.monotonic() > self._stop

    def check(self, node: Node) -> NodeCheck:
        """Look at a node; a second look costs nothing."""
        known = self.checks.get(node)
        if known is not None:
            return known
        found = self._judged(self.look(node))
        self._record(found)
        return found

    def look(self, node: Node) -> Look:
        """Group a node and see which classes fail; kept for a while."""
        known = self._looks.get(node)
        if known is None:
            classes = self._classes(node)
            failing = ~all_hold(self.problem.criteria, classes)
            lost = failing if self.are_growing else ~all_hold(self.growing, classes)
            known = self._looks[node] = Look(classes, failing, lost)
            if len(self._looks) > LOOKS:
                self._looks.pop(next(iter(self._looks)))
        return known

    def _classes(self, node: Node) -> Classes:
        """Roll up from a finer node; where several nodes were far from theirs, make one between first."""
        tuples, source = self.problem.tuples, self.sources.finer(node)
        far = self._far.setdefault(self._place(source), [])
        if len(far) == MISSES:
            between = tuple(map(min, *far, node))
            far.clear()
            if between != self._place(source):
                self.sources.keep(tuples.classes(between, source))
                source = self.sources.finer(node)
        classes = tuples.classes(node, source)
        if (tuples.count if source is None else source.count) > FAR * classes.count:
            self._far.setdefault(self._place(source), []).append(node)
        self.sources.keep(classes)
        return classes

    def _place(self, source: Classes | None) -> Node:
        return self.problem.lattice.bottom if source is None else source.node

    def probe(self, subset: tuple[int, ...], levels: Node | None = None) -> NodeCheck:
        """Look at some of the attributes only, at levels (by default their tops), the others left out; no score."""
        lattice = self.problem.lattice
        chosen = dict(zip(subset, levels or [lattice.heights[axis] for axis in subset], strict=True))
        left_out = [height + (sizes[-1] > 1) for height, sizes in zip(lattice.heights, lattice.sizes, strict=True)]
        node = tuple(chosen.get(axis, level) for axis, level in enumerate(left_out))
        found = self._judged(self.look(node), is_scored=False)
        cells = math.prod(lattice.sizes[axis][level] for axis, level in chosen.items())
        self.cells += cells
        self.count += 1
        if is_finer(node, lattice.heights):  # else some attribute is left out that the lattice cannot leave out
            self.steps.append(CheckedNode(node, cells, found.k, found.suppressed_rows, found.is_feasible, float("nan")))
        return found

    def _judged(self, look: Look, *, is_scored: bool = True) -> NodeCheck:
        classes, failing, lost = look.classes, look.failing, look.lost
        suppressed = int(np.add.reduce(classes.loads * failing))
        lost_rows = suppressed if lost is failing else int(classes.loads[lost].sum())
        is_stuck = bool(self.stubborn) and not all_hold(self.stubborn, classes).all()
        is_whole = not np.count_nonzero(failing)
        is_feasible = suppressed <= self.limit and not is_stuck
        kills = lost_rows > self.limit or (is_stuck and self._merge(self.stubborn))
        if self.limit == 0:
            kills = kills or (not is_feasible and self.are_merging)
        return NodeCheck(
            node=classes.node,
            k=classes.smallest,
            suppressed_rows=suppressed,
            is_whole=is_whole,
            is_feasible=is_feasible,
            kills=kills,
            clears=is_feasible and (self.are_growing or (is_whole and self.are_merging)),
            score=self._score(look, suppressed) if is_feasible and is_scored else float("inf"),
            rising=self.measure.rising(classes) if is_scored else float("-inf"),
        )

    def _score(self, look: Look, suppressed: int) -> float:
        """Score a feasible node; infinity if a bound that costs nothing shows that it is not the best."""
        if self.is_exact or self.best is None:
            return self.measure.score(look.classes, look.failing)
        least = self.measure.at_least(look.classes.node, suppressed)
        is_worse = least > self.best.score + slack(self.best.score)
        return float("inf") if is_worse else self.measure.score(look.classes, look.failing)

    @staticmethod
    def _merge(criteria: tuple[Criterion, ...]) -> bool:
        return all(one.merges for one in criteria)

    def _record(self, found: NodeCheck) -> None:
        self.checks[found.node] = found
        self.count += 1
        cells = self.problem.lattice.cells(found.node)
        self.cells += cells
        if found.is_feasible and (self.best is None or self.prefers(found.score, found.node)):
            self.best = found
        self.steps.append(
            CheckedNode(found.node, cells, found.k, found.suppressed_rows, found.is_feasible, found.score)
        )

    def prefers(self, score: float, node: Node) -> bool:
        """Tell whether a node of this score (or a bound of it) goes before the best one.

        Of equal scores the finer node is taken: fewer levels in all, then fewer in the first attributes.
        """
        if self.best is None:
            return True
        if abs(score - self.best.score) > slack(self.best.score):
            return score < self.best.score
        return (sum(node), node) < (sum(self.best.node), self.best.node)

    def out(self, node: Node) -> Any:
        """Remember the rows that a checked node and all finer ones lose."""
        if node not in self._outs:
            known = self.look(node)
            self._outs[node] = self.measure.out(known.classes, known.lost)
        return self._outs[node]

    def tell(self, lower_bound: float) -> None:
        """Report progress now and then."""
        if self.problem.progress is not None and self.count % PROGRESS_CHECKS == 0:
            best = None if self.best is None else self.best.score
            self.problem.progress(SearchProgress(self.count, best, lower_bound))

    def found(self, best: NodeCheck, *, method: str, lower_bound: float, is_optimal: bool) -> Found:
        """Write the result."""
        return Found(
            node=best.node,
            score=best.score,
            suppressed_rows=best.suppressed_rows,
            is_optimal=is_optimal,
            lower_bound=best.score if is_optimal else min(lower_bound, best.score),
            checks=self.count,
            cells_checked=self.cells,
            method=method,
            trace=tuple(self.steps),
        )


class Sources:
    """The classes of some checked nodes, to roll up from.

    A node is kept as one number, a few bits for each level; the bit above each level shows a borrow when two are
    subtracted, so that one subtraction compares all levels.
    """

    def __init__(self, heights: Node, tuples: int) -> None:
        self._size = min(KEPT, max(4, KEPT_BYTES // (8 * max(1, tuples))))
        self._bits = 2 + max(heights, default=0).bit_length()  # levels may lie one above the top
        self._borrow = sum(1 << (self._bits * axis + self._bits - 1) for axis in range(len(heights)))
        self._kept: list[tuple[int, int, int, Classes]] = []  # count, turn, packed node, classes: the fewest first
        self._turns: dict[int, tuple[int, int, int, Classes]] = {}  # the oldest first

    def _packed(self, node: Node) -> int:
        packed = 0
        for level in reversed(node):
            packed = packed << self._bits | level
        return packed

    def finer(self, node: Node) -> Classes | None:
        """Find the finer node with the fewest classes; None if no kept node is finer."""
        borrow = self._borrow
        marked = self._packed(node) | borrow
        for _, _, packed, classes in self._kept:
            if (marked - packed) & borrow == borrow:
                return classes
        return None

    def keep(self, classes: Classes) -> None:
        """Keep classes in the place of the oldest ones, unless they save nothing."""
        if 6 * classes.count > 5 * classes.tuples.count:
            return
        if len(self._kept) == self._size:
            oldest = self._turns.pop(next(iter(self._turns)))
            del self._kept[bisect.bisect_left(self._kept, oldest[:2], key=_place)]
        turn = 1 + next(reversed(self._turns), 0)
        one = self._turns[turn] = (classes.count, turn, self._packed(classes.node), classes)
        bisect.insort(self._kept, one, key=_place)


def _place(one: tuple[int, int, int, Classes]) -> tuple[int, int]:
    return one[:2]
