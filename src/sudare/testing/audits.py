"""Checks of the promise itself, by auditing a method on neighbouring tables. Every name is the sentence that holds.

How many runs an audit needs depends on the method. So the method with half its noise is tried first, with more and
more runs until the fault is seen, and the method itself with half as many again: that audit would have seen the fault.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.noise import SeededRng
from sudare.privacy import Neighbours
from sudare.testing.subject import MethodOnTrial, Subject, changed, even_table, require, with_fields
from sudare.verify import Audit
from sudare.verify.audit import audit_outputs

CONFIDENCE = 0.999
# Half the noise is seen with the fewest runs here: about 1,000 on 64 cells. At a smaller epsilon all of it looks alike,
# at a larger one the noise is nearly always 0.
AUDITED_EPSILON = Fraction(1)
FIRST_RUNS = 1_000


def an_audit_sees_it_when_the_noise_is_halved(subject: Subject) -> None:
    """The promise is refuted when it is broken: so the audit of the method could see a fault."""
    method = _audited(subject)
    promise = method.guarantee().epsilon
    for relation in subject.relations:
        found = _seen(subject, method, relation)
        require(
            found.exceeds(float(promise)),
            f"half the noise was not seen for {relation} neighbours: epsilon is at least {found.epsilon_low:.3f}, and"
            f" {promise} is promised; the noise is larger than it need be, or more runs are needed",
        )


def an_audit_stays_within_the_promise(subject: Subject) -> None:
    """The lower bound on epsilon, on neighbours of either relation, does not exceed what is promised."""
    method = _audited(subject)
    promise = method.guarantee().epsilon
    for relation in subject.relations:
        runs = min(_more(_seen(subject, method, relation).runs), subject.runs)
        found = audit_method(method, even_table(subject.schema), neighbours=relation, runs=runs)
        require(
            not found.exceeds(float(promise)),
            f"epsilon is at least {found.epsilon_low:.3f} with confidence {found.confidence}, but {promise} is promised"
            f" for {relation} neighbours ({found.event})",
        )


def audit_method(method: MethodOnTrial, table: Counts, *, neighbours: Neighbours, runs: int) -> Audit:
    """Audit a method's draw on a table and a neighbour of it, by its first two cells and its total."""
    return _Pair(method, table, neighbours).audit(runs)


def halve_noise(method: MethodOnTrial) -> MethodOnTrial:
    """Make the method that draws half the noise: twice the epsilon."""
    return with_fields(method, epsilon=2 * method.guarantee().epsilon)


class _Pair:
    """Two neighbouring tables, and what a method drew of each so far."""

    def __init__(self, method: MethodOnTrial, table: Counts, neighbours: Neighbours) -> None:
        self._method, self._neighbours, self._cells = method, neighbours, table.codes[:2]
        first = changed(table, 1)  # one record more in the first cell
        second = changed(table, 0, 1) if neighbours == "replace" else table
        self._tables = [(first, SeededRng(1)), (second, SeededRng(2))]
        self._drawn: list[list[list[int]]] = [[], []]

    def audit(self, runs: int) -> Audit:
        """Audit with so many runs on each table, those of earlier audits among them."""
        for (table, rng), drawn in zip(self._tables, self._drawn, strict=True):
            while len(drawn) < runs:
                made = self._method.draw(table, neighbours=self._neighbours, rng=rng)
                drawn.append([*(_value(made, cell) for cell in self._cells), made.total])
        first, second = (np.array(drawn[:runs], dtype=np.int64) for drawn in self._drawn)
        return audit_outputs(first, second, confidence=CONFIDENCE)


def _seen(subject: Subject, method: MethodOnTrial, relation: Neighbours) -> Audit:
    """Audit the weakened method with more and more runs until the fault is seen; once for a subject."""
    if relation not in subject.weak_audits:
        pair = _Pair(subject.weaken(method), even_table(subject.schema), relation)
        runs, promise = min(FIRST_RUNS, subject.runs), float(method.guarantee().epsilon)
        while not (found := pair.audit(runs)).exceeds(promise) and runs < subject.runs:
            runs = min(_more(runs), subject.runs)
        subject.weak_audits[relation] = found
    return subject.weak_audits[relation]


def _more(runs: int) -> int:
    return runs * 3 // 2


def _audited(subject: Subject) -> MethodOnTrial:
    return with_fields(subject.method, epsilon=AUDITED_EPSILON)


def _value(table: Counts, cell: NDArray[np.int64]) -> int:
    return int(table.values[(table.codes == cell).all(axis=1)].sum())
