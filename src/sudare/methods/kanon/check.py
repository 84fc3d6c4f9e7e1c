"""The check of one node: its classes, which of them fail, what that costs, and what follows for other nodes."""

from __future__ import annotations

import bisect
import itertools
import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.methods.kanon.criteria import Closeness, MinimumSize, all_satisfied
from sudare.methods.kanon.lattice import Node, is_finer
from sudare.methods.kanon.problem import CheckedNode, Problem, SearchProgress, SearchResult
from sudare.methods.kanon.quality import QualityMeasure
from sudare.methods.kanon.tuples import Classes, Tuples
from sudare.schema.arrays import Booleans, Codes

PROGRESS_CHECKS = 64  # progress is reported once in so many checks
RECENT_NODES = 8  # nodes whose classes at least stay in memory for the questions that follow a check
RECENT_CLASSES = 2**21  # classes of more nodes that stay, at about 64 bytes each
# Classes of a node are summed up from those of a finer one. The rest changes only the time (benchmarks/kanon.py):
FAR_RATIO = 2  # a finer node with more than so many times the classes is a slow source
FAR_NODES = 3  # after so many nodes with one slow source, a node between them and it is made first


def score_tolerance(score: float) -> float:
    """Tell by how much scores may differ and still count as equal: they are sums of rounded numbers."""
    return 1e-12 * max(1.0, abs(score))


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeCheck:
    """What is known of a node.

    `excludes_finer`: no finer node is feasible either. `implies_coarser`: all coarser nodes are feasible too.
    """

    node: Node
    k: int  # rows in the smallest class
    suppressed_rows: int
    suppresses_none: bool
    is_feasible: bool
    excludes_finer: bool
    implies_coarser: bool
    score: float  # infinity if it is not feasible, or shown to be worse than the best before it
    coarser_bound: float  # no coarser node scores less


@dataclass(frozen=True, slots=True, eq=False)
class JudgedClasses:
    """The classes of a node; which fail a criterion; which lose all their rows at every finer node too (`lost`).

    `lost_rows` are left out at this node and at every finer one: those of lost classes, and of the others so many that
    no part of a class that keeps the criteria could hold them.
    """

    classes: Classes
    failing: Booleans
    lost: Booleans
    lost_rows: int


class NodeChecker:
    """Checks nodes of one problem, each once, and remembers the best one."""

    def __init__(self, problem: Problem, *, is_exact: bool = False) -> None:
        criteria = problem.criteria
        self.problem = problem
        self.is_exact = is_exact  # score every feasible node, not only those that may be the best so far
        self.max_suppressed_rows = problem.max_suppressed_rows
        self.monotone_criteria = tuple(
            dict.fromkeys(implied for criterion in criteria for implied in criterion.implied)
        )
        self.are_monotone = all(criterion.is_monotone for criterion in criteria)
        self.are_union_closed = all(criterion.is_union_closed for criterion in criteria)
        self.not_suppressible = tuple(criterion for criterion in criteria if not criterion.is_suppressible)
        # values of these are counted by class from the counts of finer classes, as the classes are
        self.summed_values = tuple(
            dict.fromkeys(criterion.attribute for criterion in criteria if isinstance(criterion, Closeness))
        )
        self.checks: dict[Node, NodeCheck] = {}
        self.best: NodeCheck | None = None
        self.trace: list[CheckedNode] = []
        self.cells = 0
        self.count = 0
        self.finer_classes = FinerClasses(problem.lattice.heights)
        self.lost_tuples = LostTuples(problem.tuples, problem.lattice.heights)
        self._recent: dict[Node, JudgedClasses] = {}  # of few nodes: classes take far more memory than verdicts
        self._recent_classes = 0  # how many they have together
        self._certain_losses: dict[Node, Any] = {}
        self._far_nodes: dict[Node, list[Node]] = {}  # by the slow source they were summed up from
        self._stop = None if problem.deadline_seconds is None else time.monotonic() + problem.deadline_seconds

    @cached_property
    def measure(self) -> QualityMeasure:
        """The quality on the tuples of the problem."""
        tuples, lattice = self.problem.tuples, self.problem.lattice
        return self.problem.quality.prepare(tuples, lattice, min_class_size=self.min_class_size)

    @cached_property
    def min_class_size(self) -> int:
        """The rows that every class must have."""
        sizes = [criterion.k for criterion in self.problem.criteria if isinstance(criterion, MinimumSize)]
        return max(sizes, default=1)

    @property
    def is_past_deadline(self) -> bool:
        """Tell whether the deadline has passed."""
        return self._stop is not None and time.monotonic() > self._stop

    def check(self, node: Node) -> NodeCheck:
        """Check a node; a second time costs nothing."""
        known = self.checks.get(node)
        if known is not None:
            return known
        judged = self.judge_classes(node)
        checked = self._judge(judged)
        self._record(checked)
        if self.measure.counts_classes and not checked.excludes_finer:
            self._certain_losses[node] = self._sum_up_loss(judged)
        if checked.excludes_finer and judged.lost_rows < NEAR_LIMIT * self.max_suppressed_rows:
            self.lost_tuples.note(judged)
        return checked

    def judge_classes(self, node: Node) -> JudgedClasses:
        """Group the tuples at a node and find the classes that fail; kept for a while."""
        known = self._recent.get(node)
        if known is None:
            classes = self._make_classes(node)
            failing = ~all_satisfied(self.problem.criteria, classes)
            known = self._recent[node] = self._find_lost(classes, failing)
            self._recent_classes += classes.count
            while self._recent_classes > RECENT_CLASSES and len(self._recent) > RECENT_NODES:
                self._recent_classes -= self._recent.pop(next(iter(self._recent))).classes.count
        return known

    def _find_lost(self, classes: Classes, failing: Booleans) -> JudgedClasses:
        """Find what every finer node loses too: classes that fail a monotone criterion, rows too far for closeness."""
        if self.are_monotone:
            return JudgedClasses(classes, failing, failing, int(np.add.reduce(classes.float_sizes * failing)))
        kept = np.where(all_satisfied(self.monotone_criteria, classes), classes.float_sizes, 0.0)
        for criterion in self.problem.criteria if self.max_suppressed_rows else ():
            if isinstance(criterion, Closeness):
                kept = np.minimum(kept, criterion.most_kept(classes, self.min_class_size, failing))
        lost_rows = int(classes.float_sizes.sum() - kept.sum())
        return JudgedClasses(classes, failing, (kept == 0) & (classes.float_sizes > 0), lost_rows)

    def _make_classes(self, node: Node) -> Classes:
        """Sum up from a finer node; where several nodes were far from theirs, make one between first."""
        tuples, source = self.problem.tuples, self.finer_classes.find(node)
        far = self._far_nodes.setdefault(self._node_of(source), [])
        if len(far) == FAR_NODES:
            between = tuple(map(min, *far, node))
            far.clear()
            if between != self._node_of(source) and self.finer_classes.may_save(between):
                self.finer_classes.keep(tuples.classes(between, source, self.summed_values))
                source = self.finer_classes.find(node)
        classes = tuples.classes(node, source, self.summed_values)
        if (tuples.count if source is None else source.count) > FAR_RATIO * classes.count:
            self._far_nodes.setdefault(self._node_of(source), []).append(node)
        self.finer_classes.keep(classes)
        return classes

    def _node_of(self, source: Classes | None) -> Node:
        return self.problem.lattice.bottom if source is None else source.node

    def probe(self, subset: tuple[int, ...], levels: Node | None = None) -> NodeCheck:
        """Check some of the attributes only, at levels (by default their tops), the others left out; no score."""
        lattice = self.problem.lattice
        chosen = dict(zip(subset, levels or [lattice.heights[axis] for axis in subset], strict=True))
        omitted = [height + (sizes[-1] > 1) for height, sizes in zip(lattice.heights, lattice.sizes, strict=True)]
        node = tuple(chosen.get(axis, level) for axis, level in enumerate(omitted))
        checked = self._judge(self.judge_classes(node), is_scored=False)
        cells = math.prod(lattice.sizes[axis][level] for axis, level in chosen.items())
        self.cells += cells
        self.count += 1
        if is_finer(node, lattice.heights):  # else some attribute is left out that the lattice cannot leave out
            self.trace.append(
                CheckedNode(node, cells, checked.k, checked.suppressed_rows, checked.is_feasible, float("nan"))
            )
        return checked

    def _judge(self, judged: JudgedClasses, *, is_scored: bool = True) -> NodeCheck:
        """Decide what the classes of a node say of it, and of finer and coarser nodes. Proof: proofs/kanon.md"""
        classes, failing = judged.classes, judged.failing
        suppressed = int(np.add.reduce(classes.float_sizes * failing))
        is_incurable = bool(self.not_suppressible) and not all_satisfied(self.not_suppressible, classes).all()
        suppresses_none = not np.count_nonzero(failing)
        is_feasible = suppressed <= self.max_suppressed_rows and not is_incurable
        excludes_finer = judged.lost_rows > self.max_suppressed_rows or (
            is_incurable and all(criterion.is_union_closed for criterion in self.not_suppressible)
        )
        if self.max_suppressed_rows == 0:
            excludes_finer = excludes_finer or (not is_feasible and self.are_union_closed)
        return NodeCheck(
            node=classes.node,
            k=classes.smallest,
            suppressed_rows=suppressed,
            suppresses_none=suppresses_none,
            is_feasible=is_feasible,
            excludes_finer=excludes_finer,
            implies_coarser=is_feasible and (self.are_monotone or (suppresses_none and self.are_union_closed)),
            score=self._score(judged, suppressed) if is_feasible and is_scored else float("inf"),
            coarser_bound=self.measure.coarser_bound(classes) if is_scored else float("-inf"),
        )

    def _score(self, judged: JudgedClasses, suppressed: int) -> float:
        """Score a feasible node; infinity if a bound that costs nothing shows that it is not the best."""
        if self.is_exact or self.best is None:
            return self.measure.score(judged.classes, judged.failing)
        least = self.measure.bound_with_suppressed(judged.classes.node, suppressed)
        is_worse = least > self.best.score + score_tolerance(self.best.score)
        return float("inf") if is_worse else self.measure.score(judged.classes, judged.failing)

    def _record(self, checked: NodeCheck) -> None:
        self.checks[checked.node] = checked
        self.count += 1
        cells = self.problem.lattice.cells(checked.node)
        self.cells += cells
        if checked.is_feasible and (self.best is None or self.prefers(checked.score, checked.node)):
            self.best = checked
        self.trace.append(
            CheckedNode(checked.node, cells, checked.k, checked.suppressed_rows, checked.is_feasible, checked.score)
        )

    def prefers(self, score: float, node: Node) -> bool:
        """Tell whether a node of this score (or a bound of it) goes before the best one.

        Of equal scores the finer node is taken: fewer levels in all, then fewer in the first attributes.
        """
        if self.best is None:
            return True
        if abs(score - self.best.score) > score_tolerance(self.best.score):
            return score < self.best.score
        return (sum(node), node) < (sum(self.best.node), self.best.node)

    def certain_loss(self, node: Node) -> Any:
        """Give the rows that a checked node and all finer ones lose, in the form of the quality measure; kept."""
        if node not in self._certain_losses:
            self._certain_losses[node] = self._sum_up_loss(self.judge_classes(node))
        return self._certain_losses[node]

    def _sum_up_loss(self, judged: JudgedClasses) -> Any:
        classes, lost = judged.classes, judged.lost
        return self.measure.certain_loss(classes, lost, lambda: self.lost_tuples.find(judged))

    def report_progress(self, lower_bound: float) -> None:
        """Report progress once in `PROGRESS_CHECKS` checks."""
        if self.problem.progress is not None and self.count % PROGRESS_CHECKS == 0:
            best = None if self.best is None else self.best.score
            self.problem.progress(SearchProgress(self.count, best, lower_bound))

    def make_result(self, best: NodeCheck, *, algorithm: str, lower_bound: float, is_optimal: bool) -> SearchResult:
        """Make the result of a search that ends with this node."""
        return SearchResult(
            node=best.node,
            score=best.score,
            suppressed_rows=best.suppressed_rows,
            is_optimal=is_optimal,
            lower_bound=best.score if is_optimal else min(lower_bound, best.score),
            checks=self.count,
            cells_checked=self.cells,
            algorithm=algorithm,
            trace=tuple(self.trace),
        )


# --- classes to sum up from -------------------------------------------------------------------------------------------

# More of them save more work, up to what fits into memory: at most so many nodes, and so many classes of all of them,
# at about 48 bytes each.
MAX_KEPT_NODES, MAX_KEPT_CLASSES = 300, 2**24


@dataclass(frozen=True, slots=True, eq=False)
class _KeptClasses:
    """The classes of one node; those of the fewest classes, and of equals the oldest, are found first."""

    count: int
    age: int
    packed_node: int
    classes: Classes

    @property
    def order(self) -> tuple[int, int]:
        return self.count, self.age


class NodePacker:
    """Keeps a node as one number, a few bits for each level, to compare all levels at once.

    The bit above each level shows a borrow when two nodes are subtracted: f is as fine as n if (marked n - f) has all.
    """

    def __init__(self, heights: Node) -> None:
        self._bits = 2 + max(heights, default=0).bit_length()  # levels may lie one above the top
        self.borrow = sum(1 << (self._bits * axis + self._bits - 1) for axis in range(len(heights)))

    def pack(self, node: Node) -> int:
        """Pack a node."""
        packed = 0
        for level in reversed(node):
            packed = packed << self._bits | level
        return packed

    def mark(self, node: Node) -> int:
        """Pack a node that others are subtracted from."""
        return self.pack(node) | self.borrow


class FinerClasses:
    """The classes of some checked nodes, to sum up coarser ones from."""

    def __init__(self, heights: Node) -> None:
        self._packer = NodePacker(heights)
        self._kept: list[_KeptClasses] = []  # in their order
        self._by_use: dict[int, _KeptClasses] = {}  # by age, the one that was not used for longest first
        self._classes = 0  # of all that are kept
        self._ages = itertools.count()
        self._useless: list[int] = []

    def find(self, node: Node) -> Classes | None:
        """Find the finer node with the fewest classes; None if no kept node is finer."""
        marked, borrow = self._packer.mark(node), self._packer.borrow
        for kept in self._kept:
            if (marked - kept.packed_node) & borrow == borrow:
                self._by_use[kept.age] = self._by_use.pop(kept.age)
                return kept.classes
        return None

    def may_save(self, node: Node) -> bool:
        """Tell whether a node may have fewer classes than those, coarser or the same, that were found to be useless."""
        packed, borrow = self._packer.pack(node), self._packer.borrow
        return not any((useless - packed) & borrow == borrow for useless in self._useless)

    def keep(self, classes: Classes) -> None:
        """Keep classes in the place of those that were not used for longest, unless they save too little."""
        if 6 * classes.count > 5 * classes.tuples.count:  # nearly as many classes as tuples: little work is saved
            self._useless.append(self._packer.mark(classes.node))
            return
        kept = _KeptClasses(classes.count, next(self._ages), self._packer.pack(classes.node), classes)
        self._by_use[kept.age] = kept
        bisect.insort(self._kept, kept, key=lambda kept: kept.order)
        self._classes += kept.count
        while len(self._kept) > MAX_KEPT_NODES or (self._classes > MAX_KEPT_CLASSES and len(self._kept) > 1):
            unused = self._by_use.pop(next(iter(self._by_use)))
            del self._kept[bisect.bisect_left(self._kept, unused.order, key=lambda kept: kept.order)]
            self._classes -= unused.count


# --- the tuples of lost classes ---------------------------------------------------------------------------------------

NEAR_LIMIT = 2  # nodes that lose less than so many times what may be left out are noted: coarser ones lose a part of it
MAX_LOST_SETS, MAX_LOST_TUPLES = 512, 2**25  # nodes noted, and the tuples of all of them, at 4 bytes each
FEW_LOST = 8  # tuples are looked through at once if they are at most this part of all; else a smaller set is made


@dataclass(frozen=True, slots=True, eq=False)
class _LostSet:
    """What a node loses: one tuple of each lost class, or all their tuples once somebody has looked for them."""

    node: Node
    packed_node: int
    tuples: NDArray[np.int32]
    is_whole: bool


class LostTuples:
    """The tuples that some nodes lose. A coarser node loses a part of them, so that few tuples are looked through."""

    def __init__(self, tuples: Tuples, heights: Node) -> None:
        self._tuples = tuples
        self._packer = NodePacker(heights)
        self._sets: dict[Node, _LostSet] = {}  # the one that was not used for longest first
        self._size = 0

    def note(self, judged: JudgedClasses) -> None:
        """Note a node that loses so much that its tuples are looked for only if a coarser node needs them."""
        self._keep(judged.classes.node, judged.classes.first[judged.lost], is_whole=False)

    def find(self, judged: JudgedClasses) -> Codes:
        """Find the tuples that a node loses."""
        node = judged.classes.node
        members = self._tuples.find_alike(node, judged.classes.first[judged.lost], self._find_pool(node))
        self._keep(node, members, is_whole=True)
        return members

    def _keep(self, node: Node, tuples: Codes, *, is_whole: bool) -> _LostSet:
        known = self._sets.pop(node, None)
        self._size += tuples.size - (0 if known is None else known.tuples.size)
        kept = self._sets[node] = _LostSet(node, self._packer.pack(node), tuples.astype(np.int32), is_whole)
        while len(self._sets) > MAX_LOST_SETS or (self._size > MAX_LOST_TUPLES and len(self._sets) > 1):
            self._size -= self._sets.pop(next(iter(self._sets))).tuples.size
        return kept

    def _find_pool(self, node: Node) -> Codes | None:
        """Find few tuples that are known to hold all that a node loses; None for all tuples."""
        marked, borrow = self._packer.mark(node), self._packer.borrow
        finer = [lost for lost in self._sets.values() if (marked - lost.packed_node) & borrow == borrow]
        pool = min((lost for lost in finer if lost.is_whole), key=lambda lost: lost.tuples.size, default=None)
        if finer and (pool is None or pool.tuples.size * FEW_LOST > self._tuples.count):
            pool = min(finer, key=lambda lost: lost.tuples.size)
            if not pool.is_whole:
                members = self._tuples.find_alike(pool.node, pool.tuples.astype(np.int64))
                pool = self._keep(pool.node, members, is_whole=True)
        if pool is None:
            return None
        self._sets[pool.node] = self._sets.pop(pool.node)
        return pool.tuples.astype(np.int64)
