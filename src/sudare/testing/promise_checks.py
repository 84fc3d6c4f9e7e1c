"""Checks of what a method promises and spends. Every name is the sentence that must hold."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

from sudare.errors import BudgetExceeded, NotConfirmed, ParameterError, RelationMismatch, SudareError
from sudare.forms.kinds import ChoiceOf, ExactNumber, WholeNumber
from sudare.methods.differential import EpsilonMethod
from sudare.noise import SeededRng
from sudare.privacy import Ledger
from sudare.privacy.differential import DifferentialPrivacy
from sudare.privacy.exact import write_exact
from sudare.releases.certificate import tell_day
from sudare.schema import Schema, Unit
from sudare.testing.subject import (
    Subject,
    Tabled,
    Touched,
    Unreadable,
    Untouchable,
    ample,
    even_table,
    require,
    schema_of,
    temporary_ledger,
    with_fields,
)

Check = Callable[[Subject], None]
AnyCheck = TypeVar("AnyCheck", bound=Check)
Condition = Callable[[Subject], bool]

BAD_NUMBERS: tuple[Any, ...] = (0, -1, "-1/2", "abc", "", "1/0", float("nan"), float("inf"), "1e400", "nan", None)
PERSON = Unit(kind="person", column="person", max_rows=3)
BUDGET = Fraction(1)  # of a ledger that is not to be charged


def only_if(condition: Condition, reason: str) -> Callable[[AnyCheck], AnyCheck]:
    """Mark a check that does not apply to every method; the reason is told where it does not."""

    def mark(check: AnyCheck) -> AnyCheck:
        conditions = (*getattr(check, "conditions", ()), (condition, reason))
        check.conditions = conditions  # type: ignore[attr-defined]
        return check

    return mark


def reason_against(check: Check, subject: Subject) -> str:
    """Tell why a check does not apply to a method; nothing if it does."""
    for condition, reason in getattr(check, "conditions", ()):
        if not condition(subject):
            return str(reason)
    return ""


def spends(subject: Subject) -> bool:
    """Tell whether the promise is paid for from a ledger."""
    return isinstance(subject.method, EpsilonMethod) and isinstance(subject.promise, DifferentialPrivacy)


def takes_a_table(subject: Subject) -> bool:
    """Tell whether a table goes in."""
    return bool(subject.method.takes != "map")


NO_LEDGER = "the promise takes nothing from a ledger"
NO_TABLE = "a map goes in, no table"


# --- for every promise ------------------------------------------------------------------------------------------------


def the_parameters_are_frozen(subject: Subject) -> None:
    """A method is a frozen dataclass: what was promised cannot be changed before it is published."""
    method: Any = subject.method
    require(dataclasses.is_dataclass(method), "the method must be a dataclass of its parameters")
    for name in method.parameters():
        try:
            setattr(method, name, getattr(method, name))
        except (dataclasses.FrozenInstanceError, AttributeError):
            continue
        raise AssertionError(f"the dataclass must be frozen: {name} could be set after the promise was read")


def the_guarantee_is_known_before_any_data(subject: Subject) -> None:
    """It is told from the parameters alone, the same every time, as facts and in words of both languages."""
    found = subject.promise.to_dict()
    require(found == subject.promise.to_dict(), "the guarantee must be the same every time")
    for language in ("en", "ja"):
        require(bool(found["statement"].get(language)), f"the guarantee must be said in words ({language})")
    for name in subject.method.parameters():
        if isinstance(found.get(name), int | str):
            given = getattr(subject.method, name)
            require(given is None or str(given) == str(found[name]), f"the guarantee must tell {name} as it was given")
    if spends(subject):
        _tells_amount_neighbours_and_unit(subject)


def _tells_amount_neighbours_and_unit(subject: Subject) -> None:
    for relation in subject.relations:
        for unit in (Unit(), PERSON):
            found = subject.method.guarantee(unit=unit, neighbours=relation)
            require(found.amount == subject.amount, "the guarantee must have the amount that was given")
            require(found.neighbours == relation, f"the guarantee must be for {relation} neighbours when asked")
            require(found.unit == unit, "the guarantee must be for the unit that was asked for")
            words = found.describe().render("en")
            require(write_exact(found.amount) in words, "the statement must tell the amount")
            require(unit.describe().render("en") in words, "the statement must tell the unit")


def the_preview_needs_no_data(subject: Subject) -> None:
    """The expected error follows from public facts, the same every time, and is told in lines."""
    first, second = (subject.method.preview(subject.facts) for _ in range(2))
    same = subject.method.preview_entries(first) == subject.method.preview_entries(second)
    require(same, "a preview must be the same every time: it follows from public facts")
    require(bool(subject.method.explain(first)), "a preview must be told in lines")


def bad_parameters_are_refused(subject: Subject) -> None:
    """Numbers of 0, below 0, without end or none at all where one is required, and choices that nobody knows."""
    for name, about in subject.method.parameters().items():
        if about.required and isinstance(about.kind, ExactNumber | WholeNumber):
            for value in BAD_NUMBERS:
                _refuses_field(subject.method, name, value)
        if isinstance(about.kind, ChoiceOf):
            for value in ("both ways", "", about.kind.choices[0].upper()):
                _refuses_field(subject.method, name, value)


def _refuses_field(method: Any, field: str, value: object) -> None:
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


# --- where a table goes in --------------------------------------------------------------------------------------------


@only_if(takes_a_table, NO_TABLE)
def the_unit_of_the_schema_is_the_unit_of_the_promise(subject: Subject) -> None:
    """A table of people with several rows is published under a promise for people."""
    table = even_table(dataclasses.replace(subject.schema, unit=PERSON))
    with _ledger(subject) as ledger:
        certificate = subject.publish(table, ledger=ledger).certificate
        _same(certificate.guarantee["unit"], PERSON.to_dict(), "the promise must be for the unit of the schema")
        _same(certificate.unit, PERSON.to_dict(), "the certificate must name the unit of the schema")
        if spends(subject):
            _same(ledger.unit, PERSON, "the ledger must protect the unit of the schema")


@only_if(takes_a_table, NO_TABLE)
def a_source_that_cannot_be_read_costs_nothing(subject: Subject) -> None:
    """What can be refused is refused before the spend."""
    with _ledger(subject) as ledger:
        _refused(subject.method, Unreadable(subject.schema), ledger, SudareError)


@only_if(takes_a_table, NO_TABLE)
def an_inferred_schema_is_refused_before_any_spend(subject: Subject) -> None:
    """A domain read off the data leaks, until a steward has confirmed it."""
    table = even_table(dataclasses.replace(subject.schema, origin="inferred"))
    with _ledger(subject) as ledger, subject.source(table) as source:
        _refused(subject.method, source, ledger, NotConfirmed)


@only_if(takes_a_table, NO_TABLE)
def a_huge_sparse_domain_works_or_is_refused_before_any_spend(subject: Subject) -> None:
    """1e21 cells: a release, or one clear line that costs nothing."""
    huge = schema_of(*[1000] * 7)
    with _ledger(subject) as ledger:
        try:
            release = subject.publish(even_table(huge), ledger=ledger)
        except SudareError as error:
            require("\n" not in str(error) and bool(str(error)), "a refusal must be one clear line")
            _same(ledger.spent, Fraction(), "a refused release must cost nothing")
        else:
            _same(Schema.from_dict(release.certificate.schema), huge, "the certificate must hold the schema")


# --- the ledger -------------------------------------------------------------------------------------------------------


@only_if(spends, NO_LEDGER)
def a_ledger_without_budget_refuses_before_any_draw(subject: Subject) -> None:
    """No noise is drawn, and nothing is spent, when the budget does not last."""
    for relation in subject.relations:
        with temporary_ledger(subject.amount / 2, neighbours=relation, currency=subject.currency) as ledger:
            _refused(subject.method, Tabled(even_table(subject.schema)), ledger, BudgetExceeded)


@only_if(spends, NO_LEDGER)
def the_spends_equal_the_guarantee(subject: Subject) -> None:
    """What the plan says, the ledger records, the certificate tells, and the method promises is one and the same."""
    for relation in subject.relations:
        promise = subject.method.guarantee(unit=subject.schema.unit, neighbours=relation)
        plan = subject.method.plan(subject.schema, neighbours=relation)
        with temporary_ledger(ample(subject.amount), neighbours=relation, currency=subject.currency) as ledger:
            certificate = subject.publish(ledger=ledger).certificate
            entries = ledger.entries()
            spent = {entry.purpose: entry.amount for entry in entries}
            total = sum(spent.values(), Fraction())
            _same(total, promise.amount, "the spends of the ledger must add up to the promise")
            _same(spent, dict(plan.parts), "the spends of the ledger must be those of the plan")
            _same(ledger.spent, promise.cost(relation), "the ledger must be charged what the promise costs")
            told = [tell_day(entry.to_dict()) for entry in entries]  # a time would tell how long it took
            _same(list(certificate.spends), told, "the certificate must tell the spends of the ledger")
            _same(certificate.ledger_head, ledger.head, "the certificate must hold the head of the ledger")
            _same(certificate.guarantee, promise.to_dict(), "the certificate must hold the guarantee")
            _same(certificate.neighbours, relation, "the certificate must hold the neighbours")


@only_if(spends, NO_LEDGER)
def a_second_release_is_paid_for_too(subject: Subject) -> None:
    """Nothing is free the second time."""
    relation = subject.relations[0]
    with temporary_ledger(ample(subject.amount), neighbours=relation, currency=subject.currency) as ledger:
        budget = 2 * subject.amount
        if budget <= ledger.budget:
            subject.publish(ledger=ledger)
            subject.publish(ledger=ledger)
            _same(ledger.spent, budget, "two releases must cost twice the promise")


@only_if(spends, NO_LEDGER)
def a_ledger_of_the_other_relation_is_charged_soundly_or_refused(subject: Subject) -> None:
    """add/remove costs a group of two under replace-one; replace-one is no promise under add/remove."""
    table = Tabled(even_table(subject.schema))
    method = with_fields(subject.method, neighbours="add-remove")
    cost, currency = method.guarantee(neighbours="add-remove").cost("replace"), subject.currency
    if cost <= ample(subject.amount):
        with temporary_ledger(ample(subject.amount), neighbours="replace", currency=currency) as ledger:
            method.publish(table, ledger=ledger, rng=SeededRng(1))
            _same(ledger.spent, cost, "add/remove must cost a group of two in a ledger kept for replace-one")
    with temporary_ledger(ample(subject.amount), neighbours="add-remove", currency=currency) as ledger:
        _refused(with_fields(subject.method, neighbours="replace"), table, ledger, RelationMismatch)


@only_if(lambda subject: not spends(subject), "the promise is paid for")
def a_promise_without_epsilon_charges_no_ledger(subject: Subject) -> None:
    """A ledger that is given is left as it was, and the certificate tells of no spend."""
    with temporary_ledger(BUDGET, neighbours="replace") as ledger:
        certificate = subject.publish(ledger=ledger).certificate
        _same(ledger.entries(), [], "a promise without epsilon must not be charged")
        _same((list(certificate.spends), certificate.ledger_head), ([], None), "the certificate must tell of no spend")


def _ledger(subject: Subject) -> contextlib.AbstractContextManager[Ledger]:
    if not spends(subject):
        return temporary_ledger(BUDGET, neighbours="replace")
    return temporary_ledger(ample(subject.amount), neighbours=subject.relations[0], currency=subject.currency)


def _refused(method: Any, source: Any, ledger: Ledger, kind: type[SudareError]) -> None:
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


def _same(found: object, expected: object, line: str) -> None:
    require(found == expected, f"{line} (found {found}, expected {expected})")
