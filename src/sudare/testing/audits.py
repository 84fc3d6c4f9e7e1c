"""Checks of the promise itself: audits on neighbouring tables, recounts of classes, the law of a mechanism.

Every name is the sentence that holds; each check has a twin that must see it when only half of the promise is kept.
How many runs an audit needs depends on the method. So the method with half its noise is tried first, with more and
more runs until the fault is seen, and the method itself with half as many again: that audit would have seen the fault.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.noise import SeededRng
from sudare.privacy import Neighbours
from sudare.privacy.currency import EPSILON
from sudare.privacy.differential import DifferentialPrivacy
from sudare.privacy.promise import ClassGuarantee, MetricGuarantee
from sudare.testing.promise_checks import only_if, spends
from sudare.testing.subject import Subject, changed, even_table, first_cells, require, with_fields
from sudare.verify import Audit
from sudare.verify.audit import audit_outputs
from sudare.verify.promises import ROUNDING, find_worst_loss, recount_classes
from sudare.verify.replay import replay_method

CONFIDENCE = 0.999
# Half the noise is seen with the fewest runs here: up to 1,000 on 64 cells. At a smaller epsilon all of it looks alike,
# at a larger one the noise is nearly always 0.
AUDITED_EPSILON = Fraction(1)
FIRST_RUNS = 500


@only_if(lambda subject: subject.runs > 0, "the audits were left out (runs = 0)")
@only_if(lambda subject: _is_pure(subject), "no event refutes a promise in rho; its noise is watched by the replay")
@only_if(spends, "the promise compares no tables")
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


@only_if(lambda subject: subject.runs > 0, "the audits were left out (runs = 0)")
@only_if(lambda subject: _is_pure(subject), "no event refutes a promise in rho; its noise is watched by the replay")
@only_if(spends, "the promise compares no tables")
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


def _is_pure(subject: Subject) -> bool:
    return subject.currency is EPSILON


def audit_method(method: Any, table: Counts, *, neighbours: Neighbours, runs: int) -> Audit:
    """Audit a method's draw on a table and a neighbour of it, by its first two cells and its total."""
    return _Pair(method, table, neighbours).audit(runs)


def halve(method: Any) -> Any:
    """Make the method that keeps half of its promise: twice the epsilon, or half of k."""
    promise = method.guarantee()
    if isinstance(promise, DifferentialPrivacy):
        return with_fields(method, **{promise.currency.name: 2 * promise.amount})
    if isinstance(promise, ClassGuarantee):
        return with_fields(method, k=promise.k // 2)
    if isinstance(promise, MetricGuarantee):
        return with_fields(method, epsilon_per_metre=2 * promise.epsilon_per_metre)
    raise NotImplementedError("say how half of this promise is kept: check_method(weaken=...)")


class _Pair:
    """Two neighbouring tables, and what a method drew of each so far."""

    def __init__(self, method: Any, table: Counts, neighbours: Neighbours) -> None:
        self._method, self._neighbours, self._table = method, neighbours, table
        first = changed(table, 1)  # one record more in the first cell
        second = changed(table, 0, 1) if neighbours == "replace" else table
        self._tables = [(first, SeededRng(1)), (second, SeededRng(2))]
        self._drawn: list[list[list[float]]] = [[], []]

    def audit(self, runs: int) -> Audit:
        """Audit with so many runs on each table, those of earlier audits among them."""
        for (table, rng), drawn in zip(self._tables, self._drawn, strict=True):
            while len(drawn) < runs:
                made = self._method.draw(table, neighbours=self._neighbours, rng=rng)
                drawn.append(self._method.observe(made, self._table))
        first, second = (np.array(drawn[:runs]).round().astype(np.int64) for drawn in self._drawn)
        return audit_outputs(first, second, confidence=CONFIDENCE)


def _seen(subject: Subject, method: Any, relation: Neighbours) -> Audit:
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


def _audited(subject: Subject) -> Any:
    return with_fields(subject.method, epsilon=AUDITED_EPSILON)


# --- coupled replay ---------------------------------------------------------------------------------------------------

REPLAYED_PAIRS = 6


@only_if(spends, "the promise compares no tables")
def a_replay_on_neighbours_loses_no_more_than_the_promise(subject: Subject) -> None:
    """The exact loss on random neighbours is within the promise, and what follows the noise does not see the table."""
    for result in replay_method(subject.method, schema=subject.schema, pairs=REPLAYED_PAIRS):
        require(
            result.holds,
            f"for {result.neighbours} neighbours: "
            + (str(result.problem) if result.problem else f"the loss is {float(result.worst):.6f} times the promise"),
        )


# --- classes ----------------------------------------------------------------------------------------------------------

AUDITED_K = 6  # half of it is what the thin table holds in every combination of quasi-identifiers


def _promises_classes(subject: Subject) -> bool:
    return isinstance(subject.promise, ClassGuarantee)


@only_if(_promises_classes, "the promise is not about classes")
def every_published_class_holds_k(subject: Subject) -> None:
    """Counted in the published rows: no combination of quasi-identifiers has fewer than k."""
    method = _with_audited_k(subject)
    found = _smallest_class(subject, method)
    require(found >= AUDITED_K, f"a published class has {found} rows, and k = {AUDITED_K} is promised")


@only_if(_promises_classes, "the promise is not about classes")
def a_recount_sees_it_when_k_is_halved(subject: Subject) -> None:
    """The same recount refutes a release that keeps half of k: so it could have seen a fault."""
    found = _smallest_class(subject, subject.weaken(_with_audited_k(subject)))
    require(found < AUDITED_K, f"half of k was not seen: the smallest class has {found} rows")


def _with_audited_k(subject: Subject) -> Any:
    return with_fields(subject.method, k=AUDITED_K)


def _smallest_class(subject: Subject, method: Any) -> int:
    cells = first_cells(subject.schema, most=subject.schema.size)
    thin = Counts.build(subject.schema, cells, np.ones(len(cells), dtype=np.int64))
    return recount_classes(method, thin)[0]


# --- a metric ---------------------------------------------------------------------------------------------------------


def _promises_a_metric(subject: Subject) -> bool:
    return isinstance(subject.promise, MetricGuarantee)


@only_if(_promises_a_metric, "the promise is not about distances")
def no_report_tells_more_than_epsilon_per_metre(subject: Subject) -> None:
    """For every pair of places and every report, from the law in the file that devices read."""
    found, promised = find_worst_loss(subject.method, subject.facts)
    require(found <= promised * (1 + ROUNDING), f"epsilon is {found:.6f} per metre, and {promised:.6f} is promised")


@only_if(_promises_a_metric, "the promise is not about distances")
def the_bound_is_seen_to_break_when_epsilon_is_doubled(subject: Subject) -> None:
    """The same look at the law refutes a mechanism with half the noise: so it could have seen a fault."""
    _, promised = find_worst_loss(subject.method, subject.facts)
    weak = with_fields(subject.weaken(subject.method), slack="noise")  # no noise beyond what is promised
    found, _ = find_worst_loss(weak, subject.facts)
    require(found > promised, f"half the noise was not seen: epsilon is {found:.6f} per metre")
