"""Checks of what a method promises and spends. Every name is the sentence that must hold."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

from sudare.errors import BudgetExceeded, NotConfirmed, ParameterError, RelationMismatch, SudareError
from sudare.mechanisms import SeededRng
from sudare.privacy import Ledger
from sudare.schema import Schema, Unit
from sudare.testing.subject import (
    Method,
    Subject,
    Touched,
    Untouchable,
    ample,
    require,
    temporary_ledger,
    with_fields,
)
from sudare.testing.tables import Tabled, Unreadable, even_table, schema_of

BAD_EPSILONS: tuple[Any, ...] = (0, -1, "-1/2", "abc", "", "1/0", float("nan"), float("inf"), "1e400", "nan", None)
PERSON = Unit(kind="person", column="person", max_rows=3)


def the_parameters_are_frozen(subject: Subject) -> None:
    """A method is a frozen dataclass: what was promised cannot be changed before it is published."""
    method: Any = subject.method
    require(dataclasses.is_dataclass(method), "the method must be a dataclass of its parameters")
    try:
        method.epsilon = Fraction(1, 3)
    except (dataclasses.FrozenInstanceError, AttributeError):
        return
    raise AssertionError("the dataclass must be frozen: epsilon could be set after the promise was read")


def the_guarantee_is_known_before_any_data(subject: Subject) -> None:
    """Epsilon, neighbours and unit are told from the parameters alone, and said in words."""
    for relation in subject.relations:
        for unit in (Unit(), PERSON):
            found = subject.method.guarantee(unit=unit, neighbours=relation)
            require(found.epsilon == Fraction(subject.method.epsilon), "the guarantee must have the method's epsilon")
            require(found.neighbours == relation, f"the guarantee must be for {relation} neighbours when asked")
            require(found.unit == unit, "the guarantee must be for the unit that was asked for")
            require(str(found.epsilon) in found.statement, "the statement must tell epsilon")
            require(unit.text in found.statement, "the statement must tell the unit")


def the_preview_needs_no_data(subject: Subject) -> None:
    """The expected error follows from the schema, the same every time."""
    found = [subject.method.preview(subject.schema) for _ in range(2)]
    require(found[0] == found[1], "a preview must be the same every time: it follows from public facts")


def the_spends_equal_the_guarantee(subject: Subject) -> None:
    """What the ledger records, the certificate tells, and the method promises is one and the same."""
    for relation in subject.relations:
        promise = subject.method.guarantee(unit=subject.schema.unit, neighbours=relation)
        with temporary_ledger(ample(subject.epsilon), neighbours=relation) as ledger:
            paper = subject.publish(ledger=ledger).certificate
            spent = sum((entry.epsilon for entry in ledger.entries()), Fraction())
            _same(spent, promise.epsilon, "the spends of the ledger must add up to the promise")
            _same(ledger.spent, promise.cost(relation), "the ledger must be charged what the promise costs")
            _same(
                list(paper.spends),
                [entry.to_dict() for entry in ledger.entries()],
                "the certificate must tell the spends of the ledger",
            )
            _same(paper.ledger_head, ledger.head, "the certificate must hold the head of the ledger")
            _same(paper.guarantee, promise.to_dict(), "the certificate must hold the guarantee")
            _same(paper.neighbours, relation, "the certificate must hold the neighbours")


def a_second_release_is_paid_for_too(subject: Subject) -> None:
    """Nothing is free the second time."""
    relation = subject.relations[0]
    with temporary_ledger(ample(subject.epsilon), neighbours=relation) as ledger:
        budget = 2 * subject.epsilon
        if budget <= ledger.budget:
            subject.publish(ledger=ledger)
            subject.publish(ledger=ledger)
            _same(ledger.spent, budget, "two releases must cost twice the promise")


def the_unit_of_the_schema_is_the_unit_of_the_promise(subject: Subject) -> None:
    """A table of people with several rows is published under a promise for people."""
    table = even_table(dataclasses.replace(subject.schema, unit=PERSON))
    with temporary_ledger(ample(subject.epsilon), neighbours=subject.relations[0]) as ledger:
        paper = subject.publish(table, ledger=ledger).certificate
        _same(paper.guarantee["unit"], PERSON.to_dict(), "the promise must be for the unit of the schema")
        _same(ledger.unit, PERSON, "the ledger must protect the unit of the schema")


def a_ledger_without_budget_refuses_before_any_draw(subject: Subject) -> None:
    """No noise is drawn, and nothing is spent, when the budget does not last."""
    for relation in subject.relations:
        with temporary_ledger(subject.epsilon / 2, neighbours=relation) as ledger:
            _refused(subject.method, Tabled(even_table(subject.schema)), ledger, BudgetExceeded)


def a_ledger_of_the_other_relation_is_charged_soundly_or_refused(subject: Subject) -> None:
    """add/remove costs twice under replace-one; replace-one is no promise under add/remove."""
    table = Tabled(even_table(subject.schema))
    method = with_fields(subject.method, neighbours="add-remove")
    if 2 * subject.epsilon <= ample(subject.epsilon):
        with temporary_ledger(ample(subject.epsilon), neighbours="replace") as ledger:
            method.publish(table, ledger=ledger, rng=SeededRng(1))
            _same(ledger.spent, 2 * subject.epsilon, "add/remove must cost twice in a ledger kept for replace-one")
    with temporary_ledger(ample(subject.epsilon), neighbours="add-remove") as ledger:
        _refused(with_fields(subject.method, neighbours="replace"), table, ledger, RelationMismatch)


def a_source_that_cannot_be_read_costs_nothing(subject: Subject) -> None:
    """What can be refused is refused before the spend."""
    with temporary_ledger(ample(subject.epsilon), neighbours=subject.relations[0]) as ledger:
        _refused(subject.method, Unreadable(subject.schema), ledger, SudareError)


def an_inferred_schema_is_refused_before_any_spend(subject: Subject) -> None:
    """A domain read off the data leaks, until a steward has confirmed it."""
    table = even_table(dataclasses.replace(subject.schema, origin="inferred"))
    with temporary_ledger(ample(subject.epsilon), neighbours=subject.relations[0]) as ledger:
        _refused(subject.method, Tabled(table), ledger, NotConfirmed)


def bad_parameters_are_refused(subject: Subject) -> None:
    """Epsilon of 0, below 0, not a number or without end, and relations nobody knows."""
    for epsilon in BAD_EPSILONS:
        _refuses_field(subject.method, "epsilon", epsilon)
    for neighbours in ("both", "", "Replace"):
        _refuses_field(subject.method, "neighbours", neighbours)


def a_huge_sparse_domain_works_or_is_refused_before_any_spend(subject: Subject) -> None:
    """1e21 cells: a release, or one clear line that costs nothing."""
    huge = schema_of(*[1000] * 7)
    with temporary_ledger(ample(subject.epsilon), neighbours=subject.relations[0]) as ledger:
        try:
            release = subject.publish(even_table(huge), ledger=ledger)
        except SudareError as error:
            require("\n" not in str(error) and bool(str(error)), "a refusal must be one clear line")
            _same(ledger.spent, Fraction(), "a refused release must cost nothing")
        else:
            _same(Schema.from_dict(release.certificate.schema), huge, "the certificate must hold the schema")


def _refused(method: Method, source: Any, ledger: Ledger, kind: type[SudareError]) -> None:
    try:
        method.publish(source, ledger=ledger, rng=Untouchable())
    except Touched:
        raise AssertionError("noise was drawn before the release was paid for or refused") from None
    except kind:
        _same(ledger.spent, Fraction(), "a refused release must cost nothing")
        return
    except SudareError as error:
        raise AssertionError(f"the refusal must be {kind.__name__}, not {type(error).__name__}") from None
    raise AssertionError(f"the release must be refused with {kind.__name__}")


def _refuses_field(method: Method, field: str, value: object) -> None:
    try:
        with_fields(method, **{field: value})
    except ParameterError as error:
        line = str(error)
        require(
            field in line and "\n" not in line, f"the refusal of {field} = {value!r} must be one line that names it"
        )
        return
    except Exception as error:
        raise AssertionError(f"{field} = {value!r} must be a ParameterError, not {type(error).__name__}") from None
    raise AssertionError(f"{field} = {value!r} must be refused")


def _same(found: object, expected: object, line: str) -> None:
    require(found == expected, f"{line} (found {found}, expected {expected})")
