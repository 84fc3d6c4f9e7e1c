"""Flash: greedy paths up the lattice, a binary search on each.       Source: Kohlmayer et al. 2012"""

from __future__ import annotations

import heapq

from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.problem import Found
from sudare.methods.kanon.search.tags import UNKNOWN, Tags


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
