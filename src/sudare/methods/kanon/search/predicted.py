"""The search from a predicted node: the paper's start, and the proof that nothing better was missed."""

from __future__ import annotations

import dataclasses

from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.optimal import optimum
from sudare.methods.kanon.pak import coarsest, nearest, power_law
from sudare.methods.kanon.problem import Found

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
