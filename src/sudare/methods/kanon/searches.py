"""What is known of every node of a lattice small enough to keep a mark for each."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

import numpy as np

from sudare.errors import Infeasible, ParameterError
from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.optimal import optimum, predicted
from sudare.methods.kanon.problem import Found, Problem

MOST_NODES = 2**24
UNKNOWN, BAD, GOOD = 0, 1, 2


class Tags:
    """Nodes known to be feasible, not to be, or neither; one check marks all nodes that follow from it."""

    def __init__(self, checker: Checker, method: str) -> None:
        lattice = checker.problem.lattice
        if lattice.size > MOST_NODES:
            raise ParameterError(
                "search {search} keeps a mark for each of {nodes} nodes, at most {most}; use search auto",
                search=method,
                nodes=lattice.size,
                most=MOST_NODES,
            )
        self.checker, self.method = checker, method
        self.marks = np.zeros([height + 1 for height in lattice.heights], dtype=np.int8)

    def is_good(self, node: Node) -> bool:
        """Tell whether a node is feasible, by a check if nothing is known of it."""
        if self.marks[node] == UNKNOWN:
            found = self.checker.check(node)
            self.marks[node] = GOOD if found.is_feasible else BAD
            if found.clears:
                self.marks[tuple(slice(level, None) for level in node)] = GOOD
            if found.kills:
                self.marks[tuple(slice(None, level + 1) for level in node)] = BAD
            self.checker.tell(0.0)
        return bool(self.marks[node] == GOOD)

    def minimal(self) -> Iterator[Node]:
        """List the feasible nodes without a feasible neighbour one level down."""
        good = self.marks == GOOD
        above = np.zeros_like(good)
        for axis in range(good.ndim):
            lower = np.moveaxis(good, axis, 0)
            np.moveaxis(above, axis, 0)[1:] |= lower[:-1]
        yield from (tuple(map(int, node)) for node in np.argwhere(good & ~above))

    def found(self, *, is_late: bool) -> Found | None:
        """Score the minimal nodes and take the best.

        It is the optimum if quality only falls with the levels and feasibility only rises: without suppression.
        """
        checker = self.checker
        for node in [] if is_late else list(self.minimal()):
            checker.check(node)
        if checker.best is None:
            return None
        is_optimal = not is_late and checker.limit == 0 and checker.are_merging
        bound = checker.measure.floor(checker.problem.lattice.bottom)
        return checker.found(checker.best, method=self.method, lower_bound=bound, is_optimal=is_optimal)


# Datafly: the attribute with the most groups climbs until enough rows are safe. Source: Sweeney 2002


def datafly(checker: Checker) -> Found | None:
    """Climb greedily from the finest node to the first feasible one; nothing is proven of it."""
    lattice = checker.problem.lattice
    node = lattice.bottom
    while not (found := checker.check(node)).is_feasible:
        if node == lattice.heights:
            return None
        axis = _widest(checker, node)
        node = (*node[:axis], node[axis] + 1, *node[axis + 1 :])
    bound = checker.measure.floor(lattice.bottom)
    is_optimal = node == lattice.bottom and found.is_whole
    return checker.found(found, method="datafly", lower_bound=bound, is_optimal=is_optimal)


def _widest(checker: Checker, node: Node) -> int:
    """Find the attribute with the most groups that occur, of those that can climb."""
    tuples, heights = checker.problem.tuples, checker.problem.lattice.heights
    occurring = [
        int(np.count_nonzero(np.bincount(tuples.lifted(axis, level)))) if level < heights[axis] else -1
        for axis, level in enumerate(node)
    ]
    return int(np.argmax(occurring))


# Every node, one after the other: the yardstick.


def exhaustive(checker: Checker) -> Found | None:
    """Check all nodes, the finest first, so that the coarser ones roll up; stop early only at the deadline."""
    bound = checker.measure.floor(checker.problem.lattice.bottom)
    is_late = False
    for node in checker.problem.lattice.nodes():
        if is_late := checker.is_late:
            break
        checker.check(node)
        checker.tell(bound)
    if checker.best is None:
        return None
    return checker.found(checker.best, method="exhaustive", lower_bound=bound, is_optimal=not is_late)


# Flash: greedy paths up the lattice, a binary search on each. Source: Kohlmayer et al. 2012


def flash(checker: Checker) -> Found | None:
    """Walk all nodes by height; from each one of which nothing is known, search a path."""
    lattice, tags = checker.problem.lattice, Tags(checker, "flash")
    for node in sorted(lattice.nodes(), key=lambda node: (sum(node), checker.measure.floor(node))):
        heap = [(0.0, node)]
        while heap and not checker.is_late:
            _, start = heapq.heappop(heap)
            if tags.marks[start] == UNKNOWN:
                _search_path(tags, _path(tags, start), heap)
        if checker.is_late:
            break
    return tags.found(is_late=checker.is_late)


def _path(tags: Tags, node: Node) -> list[Node]:
    """Climb to the cheapest neighbour of which nothing is known, as far as there is one."""
    path, floor = [node], tags.checker.measure.floor
    while above := [one for one in tags.checker.problem.lattice.coarser(path[-1]) if tags.marks[one] == UNKNOWN]:
        path.append(min(above, key=floor))
    return path


def _search_path(tags: Tags, path: list[Node], heap: list[tuple[float, Node]]) -> None:
    """Find the first feasible node of a path; neighbours above the failing ones are searched next."""
    low, high = 0, len(path) - 1
    while low <= high:
        middle = (low + high) // 2
        if tags.is_good(path[middle]):
            high = middle - 1
        else:
            for one in tags.checker.problem.lattice.coarser(path[middle]):
                heapq.heappush(heap, (tags.checker.measure.floor(one), one))
            low = middle + 1


# Incognito: what fails on some of the attributes fails on all of them.
#
# Source: LeFevre, DeWitt, Ramakrishnan 2005.
#
# Subsets of one attribute are searched first, then of two, and so on; a combination of levels is looked at only if it
# passed on all smaller subsets. An attribute outside the subset is left out: at its top, or beyond it if the top has
# several groups.


Subset = tuple[int, ...]


def incognito(checker: Checker) -> Found | None:
    """Search all subsets of attributes, the small ones first; the survivors of the whole set are scored."""
    tags = Tags(checker, "incognito")
    passed: dict[Subset, set[Node]] = {(): {()}}
    width = len(checker.problem.lattice.heights)
    for size in range(1, width):
        smaller, passed = passed, {}
        for subset in itertools.combinations(range(width), size):
            passed[subset] = _survivors(checker, subset, smaller)
            if checker.is_late:
                return tags.found(is_late=True)
    for node in sorted(_candidates(checker, tuple(range(width)), passed), key=lambda node: (sum(node), node)):
        if checker.is_late:
            break
        tags.is_good(node)
    return tags.found(is_late=checker.is_late)


def _candidates(checker: Checker, subset: Subset, smaller: dict[Subset, set[Node]]) -> list[Node]:
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


def _survivors(checker: Checker, subset: Subset, smaller: dict[Subset, set[Node]]) -> set[Node]:
    """Find the nodes of a subset that pass, the finest first; what is coarser than one that clears passes with it."""
    passed: set[Node] = set()
    candidates = set(_candidates(checker, subset, smaller))
    heights = [checker.problem.lattice.heights[axis] for axis in subset]
    for node in sorted(candidates, key=lambda node: (sum(node), node)):
        if checker.is_late:
            break
        if node in passed:
            continue
        found = checker.probe(subset, node)
        if not found.kills:
            passed.add(node)
        if found.clears:
            above = (range(level, height + 1) for level, height in zip(node, heights, strict=True))
            passed.update(one for one in itertools.product(*above) if one in candidates)
    return passed


# Optimal Lattice Anonymization as published: binary search of sub-lattices by height.
#
# Source: El Emam et al. 2009. (The OLA that Oguri et al. 2016 count is a walk from the finest node down the list of
# cell counts, without binary search; it is in papers/oguri2016.)


def ola(checker: Checker) -> Found | None:
    """Find the minimal feasible nodes and take the one of least score."""
    lattice, tags = checker.problem.lattice, Tags(checker, "ola")
    if not tags.is_good(lattice.heights) and checker.checks[lattice.heights].kills:
        return None
    todo, seen = [(lattice.bottom, lattice.heights)], set()
    while todo and not checker.is_late:
        low, high = todo.pop()
        if (low, high) in seen:
            continue
        seen.add((low, high))
        height = sum(high) - sum(low)
        if height <= 1:
            tags.is_good(low)
            continue
        for node in _at_height(low, high, height // 2):
            if checker.is_late:
                break
            todo.append((low, node) if tags.is_good(node) else (node, high))
    return tags.found(is_late=checker.is_late)


def _at_height(low: Node, high: Node, height: int) -> Iterator[Node]:
    """List the nodes between two whose levels add up to `height` more than those of the finer one."""
    spans = [top - bottom for bottom, top in zip(low, high, strict=True)]
    rest = [sum(spans[axis:]) for axis in range(len(spans) + 1)]
    for raised in _spread(spans, rest, height):
        yield tuple(map(int.__add__, low, raised))


def _spread(spans: list[int], rest: list[int], height: int, axis: int = 0) -> Iterator[Node]:
    if axis == len(spans):
        yield ()
        return
    after = rest[axis + 1]
    for raised in range(max(0, height - after), min(spans[axis], height) + 1):
        for others in _spread(spans, rest, height - raised, axis + 1):
            yield (raised, *others)


# Why no node keeps the criteria, and what would help: for the steward, in names and levels.


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


def refuse(checker: Checker) -> NoReturn:
    """Tell what blocks."""
    if checker.is_late:
        raise Infeasible("no feasible node was found within the deadline; allow more time, or more suppression")
    for criterion in checker.problem.criteria:
        _refuse_hopeless(checker, criterion.describe())
    promise = ", ".join(criterion.describe() for criterion in checker.problem.criteria)
    several = _several_at_the_top(checker)
    helping = [name for axis, name in several if checker.probe(_others(checker, axis)).is_feasible]
    share = _needed(checker)
    if helping:
        raise Infeasible(
            "no generalisation reaches {promise}: even at the top of every hierarchy {names} keeps rows apart; "
            'end its hierarchy in one group ("*"), leave it out, or allow max_suppressed = {share}',
            promise=promise,
            names=" / ".join(helping),
            share=share,
        )
    raise Infeasible(
        "no generalisation reaches {promise}: {names} keep rows apart even at the top of their hierarchies; "
        'end them in one group ("*"), leave some out, or allow max_suppressed = {share}',
        promise=promise,
        names=", ".join(name for _, name in several) or ", ".join(checker.problem.lattice.names),
        share=share,
    )


def _refuse_hopeless(checker: Checker, promise: str) -> None:
    """The whole table as one class is the coarsest there is: what it does not keep, nothing can."""
    lattice = checker.problem.lattice
    whole = checker.problem.tuples.classes(tuple(height + 1 for height in lattice.heights))
    place = [one.describe() for one in checker.problem.criteria].index(promise)
    if not checker.problem.criteria[place].holds(whole).all():
        raise Infeasible(
            "even the whole table as one class does not keep {promise}; ask for less of it", promise=promise
        )


def _several_at_the_top(checker: Checker) -> list[tuple[int, str]]:
    lattice = checker.problem.lattice
    return [(axis, name) for axis, name in enumerate(lattice.names) if lattice.sizes[axis][-1] > 1]


def _others(checker: Checker, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(len(checker.problem.lattice.heights)) if other != axis)


def _needed(checker: Checker) -> str:
    """Give the share of rows that would have to go at the top, rounded up to a thousandth."""
    top, rows = checker.check(checker.problem.lattice.heights), checker.problem.tuples.rows
    return f"{-(-top.suppressed_rows * 1000 // max(1, rows)) / 1000:.3f}"


# Searches of the lattice: one problem, many ways through it.


SEARCHES: Mapping[str, Callable[[Checker], Found | None]] = {
    "auto": optimum,
    "pak": predicted,
    "ola": ola,
    "incognito": incognito,
    "flash": flash,
    "datafly": datafly,
    "exhaustive": exhaustive,
}


def run(problem: Problem, method: str) -> Found:
    """Search by one method; Infeasible if no node keeps the criteria."""
    check_problem(problem)
    checker = Checker(problem)
    found = SEARCHES[method](checker)
    if found is None:
        refuse(checker)
    return found
