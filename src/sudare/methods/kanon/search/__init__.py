"""Searches of the lattice: one problem, many ways through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.optimal import optimum
from sudare.methods.kanon.problem import Found, Problem
from sudare.methods.kanon.search.datafly import datafly
from sudare.methods.kanon.search.exhaustive import exhaustive
from sudare.methods.kanon.search.flash import flash
from sudare.methods.kanon.search.incognito import incognito
from sudare.methods.kanon.search.infeasible import check_problem, refuse
from sudare.methods.kanon.search.ola import ola
from sudare.methods.kanon.search.predicted import predicted

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
