"""What is known of every node of a lattice small enough to keep a mark for each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.problem import Found

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
