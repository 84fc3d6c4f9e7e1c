"""The optimum by branch and bound over boxes of the lattice, with a proven gap at any moment.

A box holds all nodes between a fine corner (`low`) and a coarse one (`high`, always checked). Scores in it are at
least those of its fine corner with only the rows suppressed that the coarse corner already loses, since every finer
node loses them too. The box of least bound is opened next, so that this bound holds for the whole lattice:

1. shrink: a level of one attribute that alone lifts the bound over the best score so far is cut off the coarse corner;
2. if the coarse corner moved, check it: if nothing finer can be feasible, the box is empty;
3. else split at the level that lifts the bound of the coarse part most, and check the coarse corner of the fine part.

For measures of class sizes both corners of a box are checked, and a box is halved (`_bound_by_corners`).

The order of levels and of suppressed rows is all that is used; what a criterion allows to conclude is in criteria.py.
Memory does not depend on the number of nodes: lattices of 1e12 nodes can be searched, as far as the time allows.

The search "pak" of Oguri et al. 2016 is the same from another start: the node that a power law predicts.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools

import numpy as np

from sudare.methods.kanon.check import NodeCheck, NodeChecker, score_tolerance
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.lattice import Lattice, Node, is_finer
from sudare.methods.kanon.power_law import find_nearest, fit_power_law, list_coarsest
from sudare.methods.kanon.problem import SearchResult

LARGE_LATTICE = 10**6  # nodes: here the deadline may come before the proof, so checks are spent on a good node first
SAMPLED_NODES = 12  # coarsest nodes whose k is measured for the power law


class ExcludedNodes:
    """Nodes below which nothing is feasible."""

    def __init__(self, width: int) -> None:
        self._nodes = np.empty((64, width), dtype=np.int64)
        self._count = 0

    def add(self, node: Node) -> None:
        """Add a node that excludes all finer ones."""
        if self._count == self._nodes.shape[0]:
            self._nodes = np.concatenate([self._nodes, np.empty_like(self._nodes)])
        self._nodes[self._count] = node
        self._count += 1

    def cover(self, node: Node) -> bool:
        """Tell whether a node is as fine as one of them."""
        return bool((self._nodes[: self._count] >= np.array(node)).all(axis=1).any())


class OpenBoxes:
    """The open boxes of one search, the one of least bound first; the whole lattice, or the nodes between two."""

    def __init__(self, checker: NodeChecker, *, low: Node | None = None, high: Node | None = None) -> None:
        self.checker = checker
        self.lattice: Lattice = checker.problem.lattice
        self.low = self.lattice.bottom if low is None else low
        self.high = self.lattice.heights if high is None else high
        self.measure = checker.measure
        self.excluded = ExcludedNodes(len(self.lattice.heights))
        self.heap: list[tuple[float, int, Node, Node]] = []  # bound, number of the box, low, high
        self._numbers = itertools.count()

    @property
    def best_score(self) -> float:
        """The best score so far; infinity before a feasible node is found."""
        return float("inf") if self.checker.best is None else self.checker.best.score

    @property
    def lower_bound(self) -> float:
        """The bound that holds for all nodes."""
        return min(self.heap[0][0], self.best_score) if self.heap else self.best_score

    def check(self, node: Node) -> NodeCheck:
        """Check a node, and note if it excludes all finer ones."""
        is_new = node not in self.checker.checks
        checked = self.checker.check(node)
        if is_new and checked.excludes_finer:
            self.excluded.add(node)
        return checked

    # --- a good node to prune by --------------------------------------------------------------------------------------

    def descend(self) -> None:
        """Walk down from the top to a local optimum: a good score to prune by from the start."""
        current: NodeCheck | None = self.check(self.high)
        while current is not None and not self.checker.is_past_deadline:
            current = self._find_better_below(current)

    def _find_better_below(self, current: NodeCheck) -> NodeCheck | None:
        """Find the first finer neighbour that is better, the most promising ones first."""
        within = (node for node in self.lattice.finer(current.node) if is_finer(self.low, node))
        for node in sorted(within, key=self.measure.lower_bound):
            if self._may_win(self.measure.lower_bound(node), node) and not self.checker.is_past_deadline:
                checked = self.check(node)
                if checked.is_feasible and checked.score < current.score:
                    return checked
        return None

    def _may_win(self, bound: float, node: Node) -> bool:
        """Tell whether a node, or a coarser one, may still be preferred to the best."""
        return self.checker.prefers(bound, node) and not self.excluded.cover(node)

    def improve_best(self) -> None:
        """Move the best node to a better neighbour, one level down, up, or one of each, as long as there is one."""
        current = self.checker.best
        while current is not None and not self.checker.is_past_deadline:
            current = self._find_better_around(current.node)

    def _find_better_around(self, node: Node) -> NodeCheck | None:
        best, finer = self.best_score, list(self.lattice.finer(node))
        exchanged = (up for down in finer for up in self.lattice.coarser(down))
        around = {*finer, *self.lattice.coarser(node), *exchanged}
        for neighbour in sorted(around - set(self.checker.checks), key=self.measure.lower_bound):
            if self.measure.lower_bound(neighbour) >= best or self.checker.is_past_deadline:
                return None
            if not self.excluded.cover(neighbour) and self.check(neighbour).score < best:
                return self.checker.checks[neighbour]
        return None

    # --- the proof ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with all nodes as one box."""
        self.check(self.high)
        self._push(self.low, self.high)

    def run(self) -> bool:
        """Open boxes until none can hold anything better, or time is up; tell whether the best is proven."""
        while self.heap and self.heap[0][0] <= self.best_score + score_tolerance(self.best_score):
            if self.checker.is_past_deadline:
                return False
            self.checker.report_progress(self.lower_bound)
            bound, _, low, high = heapq.heappop(self.heap)
            may_improve = self.checker.prefers(bound, low)
            if may_improve and not self._is_settled(bound, low) and not self._shrink(low, high):
                self._split(low, high)
        return True

    def _is_settled(self, bound: float, low: Node) -> bool:
        """Tell whether the fine corner is the best node of its box: nothing fails there, or its score is the bound.

        Where a box can at best equal what was found, the fine corner is checked first: it is preferred to all others.
        """
        is_tie = self.best_score < float("inf") and abs(bound - self.best_score) <= score_tolerance(self.best_score)
        if is_tie and self.check(low).score <= bound + score_tolerance(bound):
            return True
        known = self.checker.checks.get(low)
        return known is not None and known.suppresses_none

    def _shrink(self, low: Node, high: Node) -> bool:
        """Cut levels off the coarse corner that cannot hold the best; True if the box is replaced or was one node."""
        loss, corner = self.checker.certain_loss(high), list(high)
        for axis, level in enumerate(low):
            while corner[axis] > level:
                part = _with_level(low, axis, corner[axis])
                if self.checker.prefers(self.measure.bound_with_loss(part, loss), part):
                    break
                corner[axis] -= 1
        if tuple(corner) == high:
            return low == high
        self._push(low, tuple(corner))
        return True

    def _split(self, low: Node, high: Node) -> None:
        """Replace a box by two: halved if both corners are checked, else cut where the bound of a part rises most."""
        axis, level = self._find_middle(low, high) if self.measure.counts_classes else self._find_cut(low, high)
        self._push(_with_level(low, axis, level + 1), high)
        self._push(low, _with_level(high, axis, level))

    def _find_middle(self, low: Node, high: Node) -> tuple[int, int]:
        """Find the middle of the attribute with the most levels; of equals, where a level leaves fewest groups."""
        sizes = self.lattice.sizes
        cuts = [
            (
                2 * min(level + 1 - low[axis], high[axis] - level),
                sizes[axis][level] / sizes[axis][level + 1],
                axis,
                level,
            )
            for axis in range(len(low))
            for level in range(low[axis], high[axis])
        ]
        return max(cuts)[2:]

    def _find_cut(self, low: Node, high: Node) -> tuple[int, int]:
        """Find the attribute and level where the bound of the coarse part rises most."""
        loss = self.checker.certain_loss(high)
        cuts = [
            (self.measure.bound_with_loss(_with_level(low, axis, level + 1), loss), -(level - low[axis]), axis, level)
            for axis in range(len(low))
            for level in range(low[axis], high[axis])
        ]
        return max(cuts)[2:]

    def _push(self, low: Node, high: Node) -> None:
        """Check the coarse corner, and keep the box if it can hold anything better."""
        if self.excluded.cover(high) or self.check(high).excludes_finer:
            return
        loss = self.checker.certain_loss(high)
        least = self.measure.bound_with_loss(self.low, loss)
        if least > self.best_score + score_tolerance(self.best_score):
            self.excluded.add(high)  # what is lost here is lost in all finer nodes, and costs more than the best does
            return
        bound = self.measure.bound_with_loss(low, loss)
        if self.measure.counts_classes and self.checker.prefers(bound, low):
            bound = max(bound, self._bound_by_corners(low, high))
        known = self.checker.checks.get(low)
        if known is not None:
            bound = max(bound, known.coarser_bound)
        if self.checker.prefers(bound, low):
            heapq.heappush(self.heap, (bound, next(self._numbers), low, high))

    def _bound_by_corners(self, low: Node, high: Node) -> float:
        """Bound the scores of a box by the classes of its fine corner, and of both corners together."""
        bound = self.check(low).coarser_bound
        if not self.checker.prefers(bound, low):
            return bound
        fine, coarse = self.checker.judge_classes(low).classes, self.checker.judge_classes(high)
        return max(bound, self.measure.box_bound(fine, coarse.classes, coarse.lost))


def find_optimum(checker: NodeChecker, *, seeds: tuple[Node, ...] = (), algorithm: str = "auto") -> SearchResult | None:
    """Find the best node, or the best within the deadline; None if no node was found feasible.

    Nodes to check first (`seeds`) may shorten the search, and never change its result.
    """
    boxes = OpenBoxes(checker)
    for node in seeds:
        if boxes.check(node).excludes_finer:
            boxes.excluded.add(node)
    if boxes.check(checker.problem.lattice.bottom).suppresses_none:
        return _make_result(checker, algorithm=algorithm, lower_bound=boxes.best_score, is_optimal=True)
    if not seeds:
        boxes.descend()
    if checker.problem.lattice.size > LARGE_LATTICE:
        boxes.improve_best()
    boxes.start()
    is_optimal = boxes.run()
    return _make_result(checker, algorithm=algorithm, lower_bound=boxes.lower_bound, is_optimal=is_optimal)


def find_best_between(checker: NodeChecker, low: Node, high: Node) -> tuple[NodeCheck | None, bool]:
    """Find the best of the nodes between two, and tell whether that is proven (or, without one, that there is none).

    Checks of earlier searches are used again, so the checker must score every feasible node (`is_exact`).
    """
    checker.best = None
    for known in checker.checks.values():
        if known.is_feasible and is_finer(low, known.node) and is_finer(known.node, high):
            checker.best = known if checker.prefers(known.score, known.node) else checker.best
    boxes = OpenBoxes(checker, low=low, high=high)
    if checker.best is None:
        boxes.descend()
    boxes.start()
    is_proven = boxes.run()
    return checker.best, is_proven


def _make_result(checker: NodeChecker, *, algorithm: str, lower_bound: float, is_optimal: bool) -> SearchResult | None:
    if checker.best is None:
        return None
    return checker.make_result(checker.best, algorithm=algorithm, lower_bound=lower_bound, is_optimal=is_optimal)


def _with_level(node: Node, axis: int, level: int) -> Node:
    return (*node[:axis], level, *node[axis + 1 :])


# --- the search from a predicted node: the paper's start, and the proof that nothing better was missed --------------


def search_from_prediction(checker: NodeChecker) -> SearchResult | None:
    """Measure k on the coarsest nodes, fit the power law, and start where it predicts k.

    The prediction orders the search and is no stop rule: what is handed back is proven as in "auto".
    """
    lattice = checker.problem.lattice
    sampled = list_coarsest(lattice, SAMPLED_NODES)
    law = fit_power_law([(lattice.cells(node), checker.check(node).k) for node in sampled])
    start = sampled[0] if law is None else find_nearest(lattice, law.cells_for(_required_k(checker)))
    result = find_optimum(checker, seeds=_walk_from(checker, start), algorithm="pak")
    return None if result is None else dataclasses.replace(result, start=start)


def _required_k(checker: NodeChecker) -> int:
    sizes = [criterion.k for criterion in checker.problem.criteria if isinstance(criterion, MinimumSize)]
    return max(sizes, default=2)


def _walk_from(checker: NodeChecker, start: Node) -> tuple[Node, ...]:
    """Walk from the predicted node: finer while that is better, or coarser until something is feasible."""
    lattice, lower_bound = checker.problem.lattice, checker.measure.lower_bound
    current = checker.check(start)
    while not current.is_feasible and current.node != lattice.heights and not checker.is_past_deadline:
        coarser = [checker.check(node) for node in lattice.coarser(current.node)]
        current = min(coarser, key=lambda checked: (not checked.is_feasible, checked.suppressed_rows, checked.score))
    better = current if current.is_feasible else None
    while better is not None and not checker.is_past_deadline:
        current, better = better, None
        for node in sorted(lattice.finer(current.node), key=lower_bound):
            checked = checker.check(node)
            if checked.score < current.score:
                better = checked
                break
    return tuple(checker.checks)
