"""One node looked at: its classes, which of them fail, what that costs, and what follows for other nodes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sudare.methods.kanon.criteria import Criterion, Mask, MinimumSize, all_hold
from sudare.methods.kanon.lattice import Node, is_finer
from sudare.methods.kanon.problem import Found, Problem, Progress, Step
from sudare.methods.kanon.quality import Measure
from sudare.methods.kanon.tuples import Classes

KEPT = 96  # classes of this many nodes are kept to roll up from
KEPT_BYTES = 2**28
LOOKS = 8  # nodes whose classes stay at hand for what is asked right after a check
MISSES = 4  # nodes without a finer one, after which one is made for them
PROGRESS_CHECKS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What is known of a node. `kills`: no finer node is feasible either. `clears`: all coarser ones are."""

    node: Node
    k: int  # rows in the smallest class
    suppressed_rows: int
    is_whole: bool  # nothing is suppressed
    is_feasible: bool
    kills: bool
    clears: bool
    score: float
    rising: float  # no coarser node scores less


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The classes of a node, those that fail, and those lost: they fail a growing criterion, as all their parts do."""

    classes: Classes
    failing: Mask
    lost: Mask


class Checker:
    """Checks nodes of one problem, each once, and remembers the best one."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.limit = problem.most_suppressed_rows
        self.growing = tuple(dict.fromkeys(each for one in problem.criteria for each in one.implied))
        self.are_growing = all(one.grows for one in problem.criteria)
        self.are_merging = all(one.merges for one in problem.criteria)
        self.stubborn = tuple(one for one in problem.criteria if not one.is_suppressible)
        self.checks: dict[Node, Check] = {}
        self.best: Check | None = None
        self.steps: list[Step] = []
        self.cells = 0
        self.count = 0
        self.sources = Sources(len(problem.lattice.heights), problem.tuples.count)
        self._looks: dict[Node, Look] = {}  # of the last nodes only: classes take far more memory than verdicts
        self._outs: dict[Node, Any] = {}
        self._missed: list[Node] = []
        self._stop = None if problem.deadline_seconds is None else time.monotonic() + problem.deadline_seconds

    @cached_property
    def measure(self) -> Measure:
        """Give the quality on the tuples of the problem."""
        sizes = [one.k for one in self.problem.criteria if isinstance(one, MinimumSize)]
        return self.problem.quality.on(self.problem.tuples, self.problem.lattice, least=max(sizes, default=1))

    @property
    def is_late(self) -> bool:
        """Tell whether the deadline has passed."""
        return self._stop is not None and time.monotonic() > self._stop

    def check(self, node: Node) -> Check:
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
        """Roll up from a finer node; after a few without one, make one that is finer than all of them."""
        tuples, source = self.problem.tuples, self.sources.finer(node)
        if source is None:
            self._missed.append(node)
            if len(self._missed) == MISSES:
                self.sources.keep(tuples.classes(tuple(map(min, *self._missed))))
                self._missed.clear()
                source = self.sources.finer(node)
        classes = tuples.classes(node, source)
        self.sources.keep(classes)
        return classes

    def probe(self, subset: tuple[int, ...], levels: Node | None = None) -> Check:
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
            self.steps.append(Step(node, cells, found.k, found.suppressed_rows, found.is_feasible, float("nan")))
        return found

    def _judged(self, look: Look, *, is_scored: bool = True) -> Check:
        classes, failing, lost = look.classes, look.failing, look.lost
        suppressed = int(classes.sizes[failing].sum())
        lost_rows = suppressed if lost is failing else int(classes.sizes[lost].sum())
        is_stuck = bool(self.stubborn) and not all_hold(self.stubborn, classes).all()
        is_whole = not failing.any()
        is_feasible = suppressed <= self.limit and not is_stuck
        kills = lost_rows > self.limit or (is_stuck and self._merge(self.stubborn))
        if self.limit == 0:
            kills = kills or (not is_feasible and self.are_merging)
        return Check(
            node=classes.node,
            k=classes.smallest,
            suppressed_rows=suppressed,
            is_whole=is_whole,
            is_feasible=is_feasible,
            kills=kills,
            clears=is_feasible and (self.are_growing or (is_whole and self.are_merging)),
            score=self.measure.score(classes, failing) if is_feasible and is_scored else float("inf"),
            rising=self.measure.rising(classes) if is_scored else float("-inf"),
        )

    @staticmethod
    def _merge(criteria: tuple[Criterion, ...]) -> bool:
        return all(one.merges for one in criteria)

    def _record(self, found: Check) -> None:
        self.checks[found.node] = found
        self.count += 1
        cells = self.problem.lattice.cells(found.node)
        self.cells += cells
        if found.is_feasible and (self.best is None or self._rank(found) < self._rank(self.best)):
            self.best = found
        self.steps.append(Step(found.node, cells, found.k, found.suppressed_rows, found.is_feasible, found.score))

    @staticmethod
    def _rank(found: Check) -> tuple[float, int, Node]:
        """Order candidates: the score, then the rows left out, then the node, so that all searches agree."""
        return found.score, found.suppressed_rows, found.node

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
            self.problem.progress(Progress(self.count, best, lower_bound))

    def found(self, best: Check, *, method: str, lower_bound: float, is_optimal: bool) -> Found:
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
    """The classes of some checked nodes, to roll up from."""

    def __init__(self, width: int, tuples: int) -> None:
        self._size = min(KEPT, max(4, KEPT_BYTES // (8 * max(1, tuples))))
        self._nodes = np.full((self._size, width), np.iinfo(np.int64).max, dtype=np.int64)
        self._counts = np.zeros(self._size, dtype=np.int64)
        self._classes: list[Classes | None] = [None] * self._size
        self._next = 0

    def finer(self, node: Node) -> Classes | None:
        """Find the finer node with the fewest classes; None if no kept node is finer."""
        places = np.flatnonzero((self._nodes <= np.array(node)).all(axis=1))
        if not places.size:
            return None
        return self._classes[int(places[np.argmin(self._counts[places])])]

    def keep(self, classes: Classes) -> None:
        """Keep classes in the place of the oldest ones, unless they save nothing."""
        if 2 * classes.count > classes.tuples.count:
            return
        self._nodes[self._next], self._counts[self._next] = classes.node, classes.count
        self._classes[self._next] = classes
        self._next = (self._next + 1) % self._size
