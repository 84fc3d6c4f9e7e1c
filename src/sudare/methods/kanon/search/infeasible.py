"""Why no node keeps the criteria, and what would help: for the steward, in names and levels."""

from __future__ import annotations

from typing import NoReturn

from sudare.errors import Infeasible, ParameterError
from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.problem import Problem


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
