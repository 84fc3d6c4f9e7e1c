"""How k falls with the number of cells: the paper's power law, k = a x^b + 1, and the node to start from.

Source: Oguri, Sonehara, Matsui, Aghdam 2016, formulas (1) and (2).
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sudare.methods.kanon.check import Checker, NodeCheck, slack
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import Found

MOST_LISTED = 2**16  # nodes: beyond, the nearest one is sought along a path instead of in the list of all


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """k = a x^b + 1 for x cells, fitted to `points` points; `correlation` is that of ln(k - 1) with ln x.

    `spread` is the standard deviation of ln(k - 1) around the line, nan for two points.

    >>> law = power_law([(2, 51), (4, 26), (8, 13.5)])
    >>> round(law.a), round(law.b, 3), round(law.cells_for(11))
    (100, -1.0, 10)
    """

    a: float
    b: float
    correlation: float
    spread: float
    points: int

    def k_at(self, cells: float) -> float:
        """Foretell k."""
        return float(self.a * cells**self.b + 1)

    def cells_for(self, k: float) -> float:
        """Foretell how many cells still reach k; infinity if the law does not fall, or hardly."""
        if self.b >= 0:
            return math.inf
        try:
            return float(((k - 1) / self.a) ** (1 / self.b))
        except OverflowError:
            return math.inf


def power_law(points: Iterable[tuple[int, float]]) -> PowerLaw | None:
    """Fit the line ln(k - 1) = ln a + b ln x by least squares; None without two different x.

    Points with k = 1 are left out: they say that k has reached its floor, not where. The paper prints b as the
    logarithm of a slope of unlogged values; that is no power law, and the fit here is what its figures show.
    """
    used = [(math.log(cells), math.log(k - 1)) for cells, k in points if k > 1]
    if len({x for x, _ in used}) < 2:
        return None
    x, y = np.array(used).T
    away = x - x.mean()
    b = float(np.dot(away, y) / np.dot(away, away))
    a = float(y.mean() - b * x.mean())
    rest = y - a - b * x
    scale = float(np.sqrt(np.dot(away, away) * np.dot(y - y.mean(), y - y.mean())))
    correlation = float(np.dot(away, y - y.mean())) / scale if scale else 0.0
    spread = math.sqrt(float(np.dot(rest, rest)) / (x.size - 2)) if x.size > 2 else math.nan
    return PowerLaw(math.exp(a), b, correlation, spread, int(x.size))


def coarsest(lattice: Lattice, count: int) -> list[Node]:
    """List the nodes of the fewest cells, the coarsest first, without the one that tells nothing apart."""
    found: list[Node] = []
    heap, seen = [(lattice.cells(lattice.heights), lattice.heights)], {lattice.heights}
    while heap and len(found) < count:
        cells, node = heapq.heappop(heap)
        if cells > 1:
            found.append(node)
        for finer in lattice.finer(node):
            if finer not in seen:
                seen.add(finer)
                heapq.heappush(heap, (lattice.cells(finer), finer))
    return found


def nearest(lattice: Lattice, cells: float) -> Node:
    """Find the node whose cell count is nearest; of equals, the one that is finer in the last attribute."""
    if lattice.size <= MOST_LISTED:
        return min(lattice.nodes(), key=lambda node: (abs(lattice.cells(node) - cells), node[::-1]))
    node = lattice.heights
    while True:
        steps = [one for one in lattice.finer(node) if lattice.cells(one) <= cells]
        if not steps:
            return node
        node = min(steps, key=lambda one: (lattice.cells(one), one[::-1]))


# The optimum by branch and bound over boxes of the lattice, with a proven gap at any moment.
#
# A box holds all nodes between a fine corner (`low`) and a coarse one (`high`, always checked). Scores in it are at
# least those of its fine corner with only the rows suppressed that the coarse corner already loses, since every finer
# node loses them too. The box of least bound is opened next, so that this bound holds for the whole lattice:
#
# 1. shrink: a level of one attribute that alone lifts the bound over the best score so far is cut off the coarse
# corner; 2. if the coarse corner moved, check it: if nothing finer can be feasible, the box is empty; 3. else split
# at the level that lifts the bound of the coarse part most, and check the coarse corner of the fine part.
#
# The order of levels and of suppressed rows is all that is used; what a criterion allows to conclude is in
# criteria.py. Nothing grows with the number of nodes: lattices of 1e12 nodes can be searched, as far as the time
# allows.


LARGE = 10**6  # nodes: on such lattices the time may end before the proof, so that a good node at once is worth checks


class Dead:
    """Nodes below which nothing is feasible."""

    def __init__(self, width: int) -> None:
        self._nodes = np.empty((64, width), dtype=np.int64)
        self._count = 0

    def add(self, node: Node) -> None:
        """Add a node that kills all finer ones."""
        if self._count == self._nodes.shape[0]:
            self._nodes = np.concatenate([self._nodes, np.empty_like(self._nodes)])
        self._nodes[self._count] = node
        self._count += 1

    def covers(self, node: Node) -> bool:
        """Tell whether a node is as fine as one of them."""
        return bool((self._nodes[: self._count] >= np.array(node)).all(axis=1).any())


class OpenBoxes:
    """The open boxes of one search."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.lattice: Lattice = checker.problem.lattice
        self.measure = checker.measure
        self.dead = Dead(len(self.lattice.heights))
        self.heap: list[tuple[float, int, Node, Node]] = []
        self._turn = itertools.count()

    @property
    def best(self) -> float:
        """Give the best score so far."""
        return float("inf") if self.checker.best is None else self.checker.best.score

    @property
    def lower_bound(self) -> float:
        """Give the bound that holds for all nodes."""
        return min(self.heap[0][0], self.best) if self.heap else self.best

    def look(self, node: Node) -> NodeCheck:
        """Check a node and learn what it kills."""
        is_new = node not in self.checker.checks
        found = self.checker.check(node)
        if is_new and found.kills:
            self.dead.add(node)
        return found

    def dive(self) -> None:
        """Walk down from the top to a local optimum: a good score to prune by from the start."""
        here: NodeCheck | None = self.look(self.lattice.heights)
        while here is not None and not self.checker.is_late:
            here = self._step(here)

    def _step(self, here: NodeCheck) -> NodeCheck | None:
        """Find the first finer neighbour that is better, the most promising ones first."""
        for node in sorted(self.lattice.finer(here.node), key=self.measure.floor):
            if self._may_win(self.measure.floor(node), node) and not self.checker.is_late:
                found = self.look(node)
                if found.is_feasible and found.score < here.score:
                    return found
        return None

    def _may_win(self, bound: float, node: Node) -> bool:
        """Tell whether a node, or a coarser one, may still go before the best."""
        return self.checker.prefers(bound, node) and not self.dead.covers(node)

    def polish(self) -> None:
        """Move the best node to a better neighbour, one level down, up, or one of each, as long as there is one."""
        here = self.checker.best
        while here is not None and not self.checker.is_late:
            here = self._better(here.node)

    def _better(self, node: Node) -> NodeCheck | None:
        best, finer = self.best, list(self.lattice.finer(node))
        around = {*finer, *self.lattice.coarser(node), *(up for down in finer for up in self.lattice.coarser(down))}
        for one in sorted(around - set(self.checker.checks), key=self.measure.floor):
            if self.measure.floor(one) >= best or self.checker.is_late:
                return None
            if not self.dead.covers(one) and self.look(one).score < best:
                return self.checker.checks[one]
        return None

    def open(self) -> None:
        """Begin with the whole lattice."""
        self.look(self.lattice.heights)
        self._push(self.lattice.bottom, self.lattice.heights)

    def work(self) -> bool:
        """Open boxes until none can hold anything better, or it is late; tell whether the best is proven."""
        while self.heap and self.heap[0][0] <= self.best + slack(self.best):
            if self.checker.is_late:
                return False
            self.checker.tell(self.lower_bound)
            bound, _, low, high = heapq.heappop(self.heap)
            if self.checker.prefers(bound, low) and not self._is_done(bound, low) and not self._shrunk(low, high):
                self._split(low, high)
        return True

    def _is_done(self, bound: float, low: Node) -> bool:
        """Tell whether the fine corner is the best node of its box: nothing fails there, or its score is the bound.

        Where a box can at best equal what was found, the fine corner is looked at first: it is preferred to all others.
        """
        is_tie = self.best < float("inf") and abs(bound - self.best) <= slack(self.best)
        if is_tie and self.look(low).score <= bound + slack(bound):
            return True
        known = self.checker.checks.get(low)
        return known is not None and known.is_whole

    def _shrunk(self, low: Node, high: Node) -> bool:
        out, corner = self.checker.out(high), list(high)
        for axis, level in enumerate(low):
            while corner[axis] > level:
                part = _put(low, axis, corner[axis])
                if self.checker.prefers(self.measure.bound(part, out), part):
                    break
                corner[axis] -= 1
        if tuple(corner) == high:
            return low == high
        self._push(low, tuple(corner))
        return True

    def _split(self, low: Node, high: Node) -> None:
        out = self.checker.out(high)
        cuts = [
            (self.measure.bound(_put(low, axis, level + 1), out), -(level - low[axis]), axis, level)
            for axis in range(len(low))
            for level in range(low[axis], high[axis])
        ]
        _, _, axis, level = max(cuts)
        self._push(_put(low, axis, level + 1), high)
        self._push(low, _put(high, axis, level))

    def _push(self, low: Node, high: Node) -> None:
        """Check the coarse corner, and keep the box if it can hold anything better."""
        if self.dead.covers(high) or self.look(high).kills:
            return
        out = self.checker.out(high)
        if self.measure.bound(self.lattice.bottom, out) > self.best + slack(self.best):
            self.dead.add(high)  # what is lost here is lost in all finer nodes, and costs more than the best does
            return
        bound = self.measure.bound(low, out)
        known = self.checker.checks.get(low)
        if known is not None:
            bound = max(bound, known.rising)
        if self.checker.prefers(bound, low):
            heapq.heappush(self.heap, (bound, next(self._turn), low, high))


def optimum(checker: Checker, *, seeds: tuple[Node, ...] = (), method: str = "auto") -> Found | None:
    """Find the best node, or the best within the deadline; None if no node was found feasible.

    Nodes to look at first (`seeds`) may shorten the search, and never change its result.
    """
    boxes = OpenBoxes(checker)
    for node in seeds:
        if boxes.look(node).kills:
            boxes.dead.add(node)
    if boxes.look(checker.problem.lattice.bottom).is_whole:
        return _written(checker, method=method, lower_bound=boxes.best, is_optimal=True)
    if not seeds:
        boxes.dive()
    if checker.problem.lattice.size > LARGE:
        boxes.polish()
    boxes.open()
    is_optimal = boxes.work()
    return _written(checker, method=method, lower_bound=boxes.lower_bound, is_optimal=is_optimal)


def _written(checker: Checker, *, method: str, lower_bound: float, is_optimal: bool) -> Found | None:
    if checker.best is None:
        return None
    return checker.found(checker.best, method=method, lower_bound=lower_bound, is_optimal=is_optimal)


def _put(node: Node, axis: int, level: int) -> Node:
    return (*node[:axis], level, *node[axis + 1 :])


# The search from a predicted node: the paper's start, and the proof that nothing better was missed.


SAMPLES = 12  # coarsest nodes measured for the fit


def predicted(checker: Checker) -> Found | None:
    """Measure k on the coarsest nodes, fit the power law, and start where it foretells k.

    The prediction orders the search and is no stop rule: what is handed back is proven as in "auto".
    """
    lattice = checker.problem.lattice
    sampled = coarsest(lattice, SAMPLES)
    points = [(lattice.cells(node), checker.check(node).k) for node in sampled]
    law = power_law(points)
    start = sampled[0] if law is None else nearest(lattice, law.cells_for(_wanted(checker)))
    found = optimum(checker, seeds=_towards(checker, start), method="pak")
    return None if found is None else dataclasses.replace(found, start=start)


def _wanted(checker: Checker) -> int:
    return max((one.k for one in checker.problem.criteria if isinstance(one, MinimumSize)), default=2)


def _towards(checker: Checker, start: Node) -> tuple[Node, ...]:
    """Walk from the predicted node: finer while that is better, or coarser until something is feasible."""
    lattice, floor = checker.problem.lattice, checker.measure.floor
    here = checker.check(start)
    while not here.is_feasible and here.node != lattice.heights and not checker.is_late:
        above = [checker.check(node) for node in lattice.coarser(here.node)]
        here = min(above, key=lambda one: (not one.is_feasible, one.suppressed_rows, one.score))
    better = here if here.is_feasible else None
    while better is not None and not checker.is_late:
        here, better = better, None
        for node in sorted(lattice.finer(here.node), key=floor):
            found = checker.check(node)
            if found.score < here.score:
                better = found
                break
    return tuple(checker.checks)
