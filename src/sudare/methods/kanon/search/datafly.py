"""Datafly: the attribute with the most groups climbs until enough rows are safe.       Source: Sweeney 2002"""

from __future__ import annotations

import numpy as np

from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.problem import Found


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
