"""Checks of the promise itself, by auditing a method on neighbouring tables. Every name is the sentence that holds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.evaluate import Audit, audit
from sudare.mechanisms import SeededRng
from sudare.privacy import Neighbours
from sudare.testing.subject import Method, Subject, require, with_fields
from sudare.testing.tables import changed, even_table

CONFIDENCE = 0.999
# At a smaller epsilon the default runs cannot tell half the noise from all of it; at a larger one both are silent.
AUDITED = (Fraction(1), Fraction(3))


def an_audit_stays_within_the_promise(subject: Subject) -> None:
    """The lower bound on epsilon, on neighbours of either relation, does not exceed what is promised."""
    method = _audited(subject)
    promise = method.guarantee().epsilon
    for relation in subject.relations:
        found = audit_method(method, even_table(subject.schema), neighbours=relation, runs=subject.runs)
        require(
            not found.exceeds(float(promise)),
            f"epsilon is at least {found.epsilon_low:.3f} with confidence {found.confidence}, but {promise} is promised"
            f" for {relation} neighbours ({found.event})",
        )


def an_audit_sees_it_when_the_noise_is_halved(subject: Subject) -> None:
    """The same audit refutes the promise when it is broken: so it could have seen a fault."""
    method = _audited(subject)
    promise = method.guarantee().epsilon
    for relation in subject.relations:
        weak = subject.weaken(method)
        found = audit_method(weak, even_table(subject.schema), neighbours=relation, runs=subject.runs)
        require(
            found.exceeds(float(promise)),
            f"half the noise was not seen for {relation} neighbours: epsilon is at least {found.epsilon_low:.3f}, and"
            f" {promise} is promised; the noise is larger than it need be, or more runs are needed",
        )


def audit_method(method: Method, table: Counts, *, neighbours: Neighbours, runs: int) -> Audit:
    """Audit a method's draw on a table and a neighbour of it, by its first two cells and its total."""
    first = changed(table, 1)  # one record more in the first cell
    second = changed(table, 0, 1) if neighbours == "replace" else table
    return audit(
        _many(method, first, neighbours, seed=1),
        _many(method, second, neighbours, seed=2),
        runs=runs,
        confidence=CONFIDENCE,
    )


def halve_noise(method: Method) -> Method:
    """Make the method that draws half the noise: twice the epsilon."""
    return with_fields(method, epsilon=2 * method.guarantee().epsilon)


def _audited(subject: Subject) -> Method:
    low, high = AUDITED
    return with_fields(subject.method, epsilon=min(max(subject.epsilon, low), high))


def _many(method: Method, table: Counts, neighbours: Neighbours, *, seed: int) -> Callable[[int], NDArray[np.int64]]:
    rng = SeededRng(seed)
    cells = table.codes[:2]

    def run(runs: int) -> NDArray[np.int64]:
        drawn = (method.draw(table, neighbours=neighbours, rng=rng) for _ in range(runs))
        return np.array([[*(_value(one, cell) for cell in cells), one.total] for one in drawn], dtype=np.int64)

    return run


def _value(table: Counts, cell: NDArray[np.int64]) -> int:
    return int(table.values[(table.codes == cell).all(axis=1)].sum())
