"""Checks of what a method promises and spends. Every name is the sentence that must hold."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sudare.compare import counts_of
from sudare.counts import Counts
from sudare.errors import BudgetExceeded, NotConfirmed, ParameterError, RelationMismatch, ReleaseError, SudareError
from sudare.noise import SeededRng, system_rng
from sudare.privacy import Ledger, Unrecorded
from sudare.releases import Certificate, Release
from sudare.schema import Schema, Unit
from sudare.testing.audits import (
    an_audit_sees_it_when_the_noise_is_halved,
    an_audit_stays_within_the_promise,
    halve_noise,
)
from sudare.testing.subject import (
    MethodOnTrial,
    Subject,
    Tabled,
    Touched,
    Unreadable,
    Untouchable,
    ample,
    changed,
    even_table,
    first_cells,
    require,
    schema_of,
    temporary_ledger,
    with_fields,
)

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
            words = found.describe().render("en")
            require(str(found.epsilon) in words, "the statement must tell epsilon")
            require(unit.describe().render("en") in words, "the statement must tell the unit")


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


def _refused(method: MethodOnTrial, source: Any, ledger: Ledger, kind: type[SudareError]) -> None:
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


def _refuses_field(method: MethodOnTrial, field: str, value: object) -> None:
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


# Checks of what a method releases. Every name is the sentence that must hold.


# Primes of five digits: a count that turns up in a certificate did not get there by chance.
SENTINELS = (10_007, 10_009, 10_037, 10_039, 10_061)
PASSING = ("created", "payload", "ledger_head", "spends")  # differ between any two releases
FORMATS: tuple[Literal["parquet", "csv"], ...] = ("parquet", "csv")


def the_same_seed_gives_the_same_release(subject: Subject) -> None:
    """And another seed another one: all randomness comes from the generator that was handed in."""
    for relation in subject.relations:
        first, again, other = (
            _content(subject.publish(seed=seed, ledger=Unrecorded(neighbours=relation))) for seed in (1, 1, 2)
        )
        require(first == again, f"the same seed must give the same release ({relation})")
        require(first != other, f"another seed must give another release ({relation})")


def the_release_is_what_draw_draws(subject: Subject) -> None:
    """The table that audits look at is the one that is published."""
    for relation in subject.relations:
        table = even_table(subject.schema)
        release = subject.publish(table, ledger=Unrecorded(neighbours=relation))
        drawn = subject.method.draw(table, neighbours=relation, rng=SeededRng(1))
        if "records" in release.frames:
            require(counts_of(release) == drawn, f"publish must release the table that draw draws ({relation})")


def an_empty_table_is_published(subject: Subject) -> None:
    """Nobody in the table is a table like any other."""
    for relation in subject.relations:
        empty = Counts.build(subject.schema, first_cells(subject.schema)[:0], [])
        release = subject.publish(empty, ledger=Unrecorded(neighbours=relation))
        require(isinstance(release, Release), "an empty table must give a release")


def a_table_of_one_cell_is_published(subject: Subject) -> None:
    """So is a domain of a single cell."""
    for relation in subject.relations:
        one = Counts.build(schema_of(1), [0], [7])
        release = subject.publish(one, ledger=Unrecorded(neighbours=relation))
        require(isinstance(release, Release), "a table of one cell must give a release")


def the_certificate_holds_no_count_of_the_table(subject: Subject) -> None:
    """Neither a cell, nor (where it is private) the number of records, is found in any text of the release."""
    for relation in subject.relations:
        table = _marked(subject.schema)
        release = subject.publish(table, ledger=Unrecorded(neighbours=relation))
        secrets = {int(value) for value in table.values} | ({table.total} if relation == "add-remove" else set())
        for text in _texts(release):
            found = secrets & {int(number.replace(",", "")) for number in _NUMBER.findall(text)}
            require(not found, f"a true count of the table is written in the release ({relation})")


def the_certificate_is_the_same_for_every_table(subject: Subject) -> None:
    """It follows from parameters and schema: other data, the same words. Measures of what was drawn may differ."""
    for relation in subject.relations:
        move = (-1, 1) if relation == "replace" else (-1, -1)
        tables = (even_table(subject.schema), changed(even_table(subject.schema), *move), _marked(subject.schema))
        told = [_facts(subject.publish(table, ledger=Unrecorded(neighbours=relation))) for table in tables]
        require(told[0] == told[1] == told[2], f"the certificate depends on the data ({relation})")


def records_are_in_random_order(subject: Subject) -> None:
    """The place of a row tells nothing."""
    table = even_table(subject.schema)
    frame = subject.publish(table).frames.get("records")
    if frame is None or len(table.values) < 2:
        return
    rows = list(zip(*(column.tolist() for column in frame.decode().values()), strict=True))
    grouped = sum(first != second for first, second in itertools.pairwise(rows)) < 2 * len(set(rows))
    require(not grouped, "published records must be shuffled: their order shows how they were made")


def a_seeded_release_is_stamped_and_not_saved_by_accident(subject: Subject) -> None:
    """Repeatable noise protects nobody; the release says so and refuses to be saved unless told to."""
    release = subject.publish()
    require(not release.certificate.private, "a seeded release must be stamped as not private")
    with tempfile.TemporaryDirectory() as place:
        try:
            release.save(Path(place) / "out")
        except ReleaseError:
            require(not any(Path(place).iterdir()), "a refused save must leave nothing")
        else:
            raise AssertionError("a seeded release must not be saved unless even_if_not_private is given")
    private = subject.method.publish(Tabled(even_table(subject.schema)), rng=system_rng())
    require(private.certificate.private, "a release made with secret randomness must be stamped as private")
    default = subject.method.publish(Tabled(even_table(subject.schema)))
    require(default.certificate.private, "without a generator the secret one must be used")


def a_saved_release_loads_as_it_was(subject: Subject) -> None:
    """Tables and certificate survive the files."""
    release = subject.publish()
    for file_format in FORMATS:
        with tempfile.TemporaryDirectory() as place:
            saved = release.save(Path(place) / "out", file_format=file_format, even_if_not_private=True)
            loaded = Release.load(Path(place) / "out")
        as_text = file_format == "csv"  # which does not tell numbers from texts
        same = _tables(loaded, as_text=as_text) == _tables(release, as_text=as_text)
        require(same, f"the tables must survive {file_format}")
        require(loaded.certificate.to_json() == saved.to_json(), f"the certificate must survive {file_format}")


def the_certificate_is_read_strictly(subject: Subject) -> None:
    """It round-trips through JSON, and tells the parameters exactly."""
    paper = subject.publish().certificate
    require(Certificate.from_json(paper.to_json()).to_json() == paper.to_json(), "the certificate must survive JSON")
    require(paper.parameters.get("epsilon") == str(subject.epsilon), "the parameters must tell epsilon exactly")
    require(Schema.from_dict(paper.schema) == subject.schema, "the certificate must hold the schema")
    exact = with_fields(subject.method, epsilon="0.1").guarantee().to_dict()["epsilon"]
    require(exact == "1/10", 'epsilon "0.1" must mean 1/10')


_NUMBER = re.compile(r"(?<![0-9A-Za-z.])[0-9]+(?:,[0-9]{3})*(?![0-9A-Za-z])")


def _marked(schema: Schema) -> Counts:
    """A table whose counts are recognised wherever they turn up."""
    cells = first_cells(schema, most=len(SENTINELS))
    return Counts.build(schema, cells, np.array(SENTINELS[: len(cells)]))


def _texts(release: Release) -> Iterator[str]:
    yield repr(release) if "records" not in release.frames else ""  # the number of published records is public
    yield json.dumps(_without(json.loads(release.certificate.to_json()), ("created",)))
    yield from (dataclasses.replace(release.certificate, created="").words(lang) for lang in ("en", "ja"))


def _facts(release: Release) -> dict[str, Any]:
    told = json.loads(release.certificate.to_json())
    return {**_without(told, (*PASSING, "measures")), "purposes": [one["purpose"] for one in told["spends"]]}


def _content(release: Release) -> tuple[Any, Any]:
    return _tables(release), _without(json.loads(release.certificate.to_json()), PASSING)


def _tables(release: Release, *, as_text: bool = False) -> dict[str, dict[str, list[Any]]]:
    return {
        name: {
            column: [str(value) if as_text else value for value in values.tolist()]
            for column, values in frame.decode().items()
        }
        for name, frame in release.frames.items()
    }


def _without(told: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in keys}


# The contract of a method: what everything that publishes under differential privacy must keep.


__all__ = ["METHOD_CHECKS", "MethodOnTrial", "check_method"]

METHOD_CHECKS: tuple[Callable[[Subject], None], ...] = (
    the_parameters_are_frozen,
    the_guarantee_is_known_before_any_data,
    the_preview_needs_no_data,
    bad_parameters_are_refused,
    a_ledger_without_budget_refuses_before_any_draw,
    the_spends_equal_the_guarantee,
    a_second_release_is_paid_for_too,
    the_unit_of_the_schema_is_the_unit_of_the_promise,
    a_ledger_of_the_other_relation_is_charged_soundly_or_refused,
    a_source_that_cannot_be_read_costs_nothing,
    an_inferred_schema_is_refused_before_any_spend,
    a_huge_sparse_domain_works_or_is_refused_before_any_spend,
    the_same_seed_gives_the_same_release,
    the_release_is_what_draw_draws,
    an_empty_table_is_published,
    a_table_of_one_cell_is_published,
    the_certificate_holds_no_count_of_the_table,
    the_certificate_is_the_same_for_every_table,
    records_are_in_random_order,
    a_seeded_release_is_stamped_and_not_saved_by_accident,
    a_saved_release_loads_as_it_was,
    the_certificate_is_read_strictly,
    an_audit_sees_it_when_the_noise_is_halved,
    an_audit_stays_within_the_promise,
)
AUDITS = METHOD_CHECKS[-2:]
MOST_RUNS = 8_000


def check_method(
    method: MethodOnTrial,
    schema: Schema | None = None,
    *,
    runs: int = MOST_RUNS,
    weaken: Callable[[MethodOnTrial], MethodOnTrial] = halve_noise,
) -> list[str]:
    """Try a method against its contract; return the sentences that hold, or fail with the first that does not.

    `schema` is a small table the method can publish (64 cells of two attributes by default). `runs` is the most
    runs of each audit, on each of two neighbouring tables; 0 leaves the audits out. `weaken` makes a method whose
    noise is halved, which the audit must see. All noise is seeded: a verdict is the same every time.

    Error: AssertionError with the sentence that does not hold and what was found instead.

    >>> from sudare.methods.microdata import Microdata
    >>> check_method(Microdata(epsilon=2), runs=0)[4]
    'a ledger without budget refuses before any draw'
    """
    subject = Subject(method=method, schema=schema or schema_of(8, 8), runs=runs, weaken=weaken)
    return [_checked(check, subject) for check in METHOD_CHECKS if runs or check not in AUDITS]


def _checked(check: Callable[[Subject], None], subject: Subject) -> str:
    sentence = check.__name__.replace("_", " ")
    try:
        check(subject)
    except AssertionError as error:
        raise AssertionError(f"{type(subject.method).__name__}: it does not hold that {sentence}: {error}") from None
    return sentence
