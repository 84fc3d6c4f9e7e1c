"""The searches of the lattice: one problem, several algorithms, and what to say where no node is feasible.

    auto, pak      branch and bound, see optimal.py
    datafly        greedy: a feasible node, nothing proven       Sweeney 2002
    exhaustive     every node: the measure of the others
    flash          greedy paths, a binary search on each         Kohlmayer et al. 2012
    incognito      subsets of attributes first                   LeFevre, DeWitt, Ramakrishnan 2005
    ola            binary search of sub-lattices by height       El Emam et al. 2009

The OLA whose checks Oguri et al. 2016 count is a walk from the finest node down the list of cell counts, without binary
search; it is in papers/oguri2016.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, get_args

import numpy as np

from sudare.errors import Infeasible, ParameterError
from sudare.methods.kanon.check import NodeChecker
from sudare.methods.kanon.criteria import Criterion, MinimumSize
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.optimal import find_optimum, search_from_prediction
from sudare.methods.kanon.problem import Problem, SearchName, SearchResult
from sudare.text import join_items


def search(problem: Problem, algorithm: SearchName = "auto") -> SearchResult:
    """Search the lattice.

    "auto" finds the optimum (or the best within the deadline, with a proven gap), and so does "pak", which starts from
    the node that the paper's power law predicts. "ola", "incognito" and "flash" find it where pruning by the criteria
    is sound, "exhaustive" always. "datafly" is greedy: it finds a feasible node, not always the best.

    Error: Infeasible, which names the attributes that block and what would help.
    """
    if algorithm not in get_args(SearchName):
        raise ParameterError(
            "search ({search}) must be auto, pak, ola, incognito, flash, datafly or exhaustive", search=algorithm
        )
    check_problem(problem)
    checker = NodeChecker(problem)
    result = SEARCHES[algorithm](checker)
    if result is None:
        refuse_infeasible(checker)
    return result


def check_node(problem: Problem, node: Node) -> SearchResult:
    """Take a node that a steward picked, if it keeps the promise; nothing is searched, and nothing proven of others.

    Error: Infeasible if it does not.
    """
    check_problem(problem)
    checker = NodeChecker(problem, is_exact=True)
    checked = checker.check(node)
    if not checked.is_feasible:
        raise Infeasible(
            "the levels that were given do not keep the promise within the allowed suppression; choose coarser ones, or"
            " leave out levels, and the best ones are searched"
        )
    return SearchResult(
        node=node,
        score=checked.score,
        suppressed_rows=checked.suppressed_rows,
        is_optimal=False,
        lower_bound=checker.measure.lower_bound(problem.lattice.bottom),
        checks=1,
        cells_checked=problem.lattice.cells(node),
        algorithm="levels",
        trace=tuple(checker.trace),
    )


def check_problem(problem: Problem) -> None:
    """Refuse what cannot be searched at all."""
    if not 0 <= problem.max_suppressed <= 1:
        raise ParameterError(
            "max_suppressed ({share}) must be between 0 and 1, a share of the rows", share=problem.max_suppressed
        )
    if not problem.criteria:
        raise ParameterError("give at least one criterion, such as k")
    if problem.deadline_seconds is not None and not problem.deadline_seconds > 0:
        raise ParameterError("deadline_seconds ({seconds}) must be above 0", seconds=problem.deadline_seconds)
    for criterion in problem.criteria:
        if isinstance(criterion, MinimumSize) and criterion.k > problem.tuples.rows:
            raise Infeasible(
                "k ({k}) is larger than the table; no generalisation reaches it, choose a smaller k", k=criterion.k
            )


# --- marks: what is known of every node of a lattice small enough to keep a mark for each -----------------------------

MAX_MARKED_NODES = 2**24  # a byte for each
UNKNOWN, INFEASIBLE, FEASIBLE = 0, 1, 2


class NodeMarks:
    """Nodes known to be feasible, not to be, or neither; one check marks all nodes that follow from it."""

    def __init__(self, checker: NodeChecker, algorithm: str) -> None:
        lattice = checker.problem.lattice
        if lattice.size > MAX_MARKED_NODES:
            raise ParameterError(
                "search {search} can mark at most {most} nodes, but there are {nodes}; use search auto",
                search=algorithm,
                nodes=lattice.size,
                most=MAX_MARKED_NODES,
            )
        self.checker, self.algorithm = checker, algorithm
        self.marks = np.zeros([height + 1 for height in lattice.heights], dtype=np.int8)

    def is_feasible(self, node: Node) -> bool:
        """Tell whether a node is feasible, by a check if nothing is known of it."""
        if self.marks[node] == UNKNOWN:
            checked = self.checker.check(node)
            self.marks[node] = FEASIBLE if checked.is_feasible else INFEASIBLE
            if checked.implies_coarser:
                self.marks[tuple(slice(level, None) for level in node)] = FEASIBLE
            if checked.excludes_finer:
                self.marks[tuple(slice(None, level + 1) for level in node)] = INFEASIBLE
            self.checker.report_progress(0.0)
        return bool(self.marks[node] == FEASIBLE)

    def minimal(self) -> Iterator[Node]:
        """List the feasible nodes without a feasible neighbour one level down."""
        feasible = self.marks == FEASIBLE
        above = np.zeros_like(feasible)
        for axis in range(feasible.ndim):
            lower = np.moveaxis(feasible, axis, 0)
            np.moveaxis(above, axis, 0)[1:] |= lower[:-1]
        yield from (tuple(map(int, node)) for node in np.argwhere(feasible & ~above))

    def make_result(self, *, is_late: bool) -> SearchResult | None:
        """Score the minimal nodes and take the best.

        It is the optimum if quality only falls with the levels and feasibility only rises: without suppression.
        """
        checker = self.checker
        for node in [] if is_late else list(self.minimal()):
            checker.check(node)
        if checker.best is None:
            return None
        is_optimal = not is_late and checker.max_suppressed_rows == 0 and checker.are_union_closed
        bound = checker.measure.lower_bound(checker.problem.lattice.bottom)
        return checker.make_result(checker.best, algorithm=self.algorithm, lower_bound=bound, is_optimal=is_optimal)


# --- Datafly: the attribute with the most groups climbs until enough rows are safe ------------------------------------


def datafly(checker: NodeChecker) -> SearchResult | None:
    """Climb greedily from the finest node to the first feasible one; nothing is proven of it."""
    lattice = checker.problem.lattice
    node = lattice.bottom
    while not (checked := checker.check(node)).is_feasible:
        if node == lattice.heights:
            return None
        axis = _find_widest(checker, node)
        node = (*node[:axis], node[axis] + 1, *node[axis + 1 :])
    bound = checker.measure.lower_bound(lattice.bottom)
    is_optimal = node == lattice.bottom and checked.suppresses_none
    return checker.make_result(checked, algorithm="datafly", lower_bound=bound, is_optimal=is_optimal)


def _find_widest(checker: NodeChecker, node: Node) -> int:
    """Find the attribute with the most groups that occur, of those that can climb."""
    tuples, heights = checker.problem.tuples, checker.problem.lattice.heights
    occurring = [
        int(np.count_nonzero(np.bincount(tuples.lift(axis, level)))) if level < heights[axis] else -1
        for axis, level in enumerate(node)
    ]
    return int(np.argmax(occurring))


# --- every node, one after the other ----------------------------------------------------------------------------------


def exhaustive(checker: NodeChecker) -> SearchResult | None:
    """Check all nodes, the finest first, so that the coarser ones are summed up; stop early only at the deadline."""
    bound = checker.measure.lower_bound(checker.problem.lattice.bottom)
    is_late = False
    for node in checker.problem.lattice.nodes():
        if is_late := checker.is_past_deadline:
            break
        checker.check(node)
        checker.report_progress(bound)
    if checker.best is None:
        return None
    return checker.make_result(checker.best, algorithm="exhaustive", lower_bound=bound, is_optimal=not is_late)


# --- Flash: greedy paths up the lattice, a binary search on each ------------------------------------------------------


def flash(checker: NodeChecker) -> SearchResult | None:
    """Walk all nodes by height; from each one of which nothing is known, search a path."""
    lattice, marks = checker.problem.lattice, NodeMarks(checker, "flash")
    for node in sorted(lattice.nodes(), key=lambda node: (sum(node), checker.measure.lower_bound(node))):
        heap = [(0.0, node)]
        while heap and not checker.is_past_deadline:
            _, start = heapq.heappop(heap)
            if marks.marks[start] == UNKNOWN:
                _search_path(marks, _make_path(marks, start), heap)
        if checker.is_past_deadline:
            break
    return marks.make_result(is_late=checker.is_past_deadline)


def _make_path(marks: NodeMarks, node: Node) -> list[Node]:
    """Climb to the cheapest neighbour of which nothing is known, as far as there is one."""
    path, lattice = [node], marks.checker.problem.lattice
    while unknown := [coarser for coarser in lattice.coarser(path[-1]) if marks.marks[coarser] == UNKNOWN]:
        path.append(min(unknown, key=marks.checker.measure.lower_bound))
    return path


def _search_path(marks: NodeMarks, path: list[Node], heap: list[tuple[float, Node]]) -> None:
    """Find the first feasible node of a path; neighbours above the failing ones are searched next."""
    low, high = 0, len(path) - 1
    while low <= high:
        middle = (low + high) // 2
        if marks.is_feasible(path[middle]):
            high = middle - 1
        else:
            for coarser in marks.checker.problem.lattice.coarser(path[middle]):
                heapq.heappush(heap, (marks.checker.measure.lower_bound(coarser), coarser))
            low = middle + 1


# --- Incognito: what fails on some of the attributes fails on all of them ---------------------------------------------
#
# Subsets of one attribute are searched first, then of two, and so on; a combination of levels is checked only if it
# passed on all smaller subsets. An attribute outside the subset is left out: at its top, or beyond it if the top has
# several groups.

Subset = tuple[int, ...]


def incognito(checker: NodeChecker) -> SearchResult | None:
    """Search all subsets of attributes, the small ones first; the survivors of the whole set are scored."""
    marks = NodeMarks(checker, "incognito")
    passed: dict[Subset, set[Node]] = {(): {()}}
    width = len(checker.problem.lattice.heights)
    for size in range(1, width):
        smaller, passed = passed, {}
        for subset in itertools.combinations(range(width), size):
            passed[subset] = _find_passing(checker, subset, smaller)
            if checker.is_past_deadline:
                return marks.make_result(is_late=True)
    for node in sorted(_list_candidates(checker, tuple(range(width)), passed), key=lambda node: (sum(node), node)):
        if checker.is_past_deadline:
            break
        marks.is_feasible(node)
    return marks.make_result(is_late=checker.is_past_deadline)


def _list_candidates(checker: NodeChecker, subset: Subset, smaller: dict[Subset, set[Node]]) -> list[Node]:
    """List the nodes of a subset whose parts all passed."""
    heights = checker.problem.lattice.heights
    if len(subset) == 1:
        return [(level,) for level in range(heights[subset[0]] + 1)]
    head = smaller[subset[:-1]]
    others = [(place, smaller[(*subset[:place], *subset[place + 1 :])]) for place in range(len(subset) - 1)]
    return [
        (*node, level)
        for node in head
        for level in range(heights[subset[-1]] + 1)
        if all((*node[:place], *node[place + 1 :], level) in passed for place, passed in others)
    ]


def _find_passing(checker: NodeChecker, subset: Subset, smaller: dict[Subset, set[Node]]) -> set[Node]:
    """Find the nodes of a subset that pass, the finest first; where one implies the coarser ones, these pass too."""
    passed: set[Node] = set()
    candidates = set(_list_candidates(checker, subset, smaller))
    heights = [checker.problem.lattice.heights[axis] for axis in subset]
    for node in sorted(candidates, key=lambda node: (sum(node), node)):
        if checker.is_past_deadline:
            break
        if node in passed:
            continue
        checked = checker.probe(subset, node)
        if not checked.excludes_finer:
            passed.add(node)
        if checked.implies_coarser:
            levels = (range(level, height + 1) for level, height in zip(node, heights, strict=True))
            passed.update(coarser for coarser in itertools.product(*levels) if coarser in candidates)
    return passed


# --- OLA, Optimal Lattice Anonymization as published: binary search of sub-lattices by height -------------------------


def ola(checker: NodeChecker) -> SearchResult | None:
    """Find the minimal feasible nodes and take the one of least score."""
    lattice, marks = checker.problem.lattice, NodeMarks(checker, "ola")
    if not marks.is_feasible(lattice.heights) and checker.checks[lattice.heights].excludes_finer:
        return None
    todo, seen = [(lattice.bottom, lattice.heights)], set()
    while todo and not checker.is_past_deadline:
        low, high = todo.pop()
        if (low, high) in seen:
            continue
        seen.add((low, high))
        height = sum(high) - sum(low)
        if height <= 1:
            marks.is_feasible(low)
            continue
        for node in _nodes_at_height(low, high, height // 2):
            if checker.is_past_deadline:
                break
            todo.append((low, node) if marks.is_feasible(node) else (node, high))
    return marks.make_result(is_late=checker.is_past_deadline)


def _nodes_at_height(low: Node, high: Node, height: int) -> Iterator[Node]:
    """List the nodes between two whose levels add up to `height` more than those of the finer one."""
    spans = [top - bottom for bottom, top in zip(low, high, strict=True)]
    remaining = [sum(spans[axis:]) for axis in range(len(spans) + 1)]
    for raised in _distribute(spans, remaining, height):
        yield tuple(map(int.__add__, low, raised))


def _distribute(spans: list[int], remaining: list[int], height: int, axis: int = 0) -> Iterator[Node]:
    """List the ways to raise the attributes from `axis` on by `height` levels in all."""
    if axis == len(spans):
        yield ()
        return
    after = remaining[axis + 1]
    for raised in range(max(0, height - after), min(spans[axis], height) + 1):
        for others in _distribute(spans, remaining, height - raised, axis + 1):
            yield (raised, *others)


SEARCHES: Mapping[str, Callable[[NodeChecker], SearchResult | None]] = {
    "auto": find_optimum,
    "pak": search_from_prediction,
    "ola": ola,
    "incognito": incognito,
    "flash": flash,
    "datafly": datafly,
    "exhaustive": exhaustive,
}


# --- no node is feasible: why, and what would help, for the steward, in names and levels ------------------------------


def refuse_infeasible(checker: NodeChecker) -> NoReturn:
    """Raise Infeasible with the attributes that block."""
    if checker.is_past_deadline:
        raise Infeasible(
            "no generalisation that satisfies the criteria was found within the deadline; allow more time, or"
            " a larger max_suppressed"
        )
    criteria = checker.problem.criteria
    for criterion in criteria:
        _refuse_hopeless(checker, criterion)
    promise = join_items(criterion.describe() for criterion in criteria)
    several = _find_several_at_the_top(checker)
    helping = [name for axis, name in several if checker.probe(_other_axes(checker, axis)).is_feasible]
    share = _share_to_suppress(checker)
    if helping:
        raise Infeasible(
            "no generalisation reaches {promise}: even at the top of every hierarchy {names} keeps rows"
            ' apart; end its hierarchy in one group ("*"), leave it out, or allow max_suppressed = {share}',
            promise=promise,
            names=" / ".join(helping),
            share=share,
        )
    raise Infeasible(
        "no generalisation reaches {promise}: {names} keep rows apart even at the top of their hierarchies;"
        ' end them in one group ("*"), leave some out, or allow max_suppressed = {share}',
        promise=promise,
        names=", ".join(name for _, name in several) or ", ".join(checker.problem.lattice.names),
        share=share,
    )


def _refuse_hopeless(checker: NodeChecker, criterion: Criterion) -> None:
    """The whole table as one class is the coarsest there is: what it does not satisfy, nothing can."""
    heights = checker.problem.lattice.heights
    whole = checker.problem.tuples.classes(tuple(height + 1 for height in heights))
    if not criterion.satisfied(whole).all():
        raise Infeasible(
            "even the whole table as one class does not satisfy {promise}; relax this criterion",
            promise=criterion.describe(),
        )


def _find_several_at_the_top(checker: NodeChecker) -> list[tuple[int, str]]:
    lattice = checker.problem.lattice
    return [(axis, name) for axis, name in enumerate(lattice.names) if lattice.sizes[axis][-1] > 1]


def _other_axes(checker: NodeChecker, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(len(checker.problem.lattice.heights)) if other != axis)


def _share_to_suppress(checker: NodeChecker) -> str:
    """Give the share of rows that would have to be suppressed at the top, rounded up to a thousandth."""
    top, rows = checker.check(checker.problem.lattice.heights), checker.problem.tuples.rows
    return f"{-(-top.suppressed_rows * 1000 // max(1, rows)) / 1000:.3f}"
