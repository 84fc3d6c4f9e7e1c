"""Every node, one after the other: the yardstick."""

from __future__ import annotations

from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.problem import Found


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
