"""The contract of a method holds for every method there is, and rejects methods that are wrong in one way each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import pytest

from sudare.counts import Countable, Counts
from sudare.errors import ParameterError
from sudare.methods.base import Payload, Plan
from sudare.methods.kanon import KAnonymity
from sudare.methods.location import Location
from sudare.methods.microdata import Microdata
from sudare.methods.microdata.microdata import records
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.noise import Rng, system_rng
from sudare.privacy import Guarantee, Ledger, Neighbours, Spend, Unrecorded
from sudare.releases import Frame, Release
from sudare.releases.frame import Coded
from sudare.schema import Attribute, Impossible, NumberBins, Schema, Values
from sudare.testing import METHOD_CHECKS, CheckedSentence, Tabled, check_method
from sudare.testing.subject import Subject, schema_of, with_fields
from sudare.verify.promises import small_map

Purse = Ledger | Unrecorded | None


NO_AUDIT = 0  # the audits are made at one epsilon: once for an algorithm is enough
PAID = 30  # sentences that apply where a promise is paid for and records are published
OF_ROWS = 20
OF_MAPS = 14


def held(checked: list[CheckedSentence]) -> list[str]:
    """The sentences that were checked and hold; all others give a reason."""
    return [each.sentence for each in checked if not each.reason]


def test_every_sentence_of_the_contract_holds_or_gives_a_reason() -> None:
    checked = check_method(Microdata(epsilon=1), runs=NO_AUDIT)

    assert [each.sentence for each in checked] == [check.__name__.replace("_", " ") for check in METHOD_CHECKS]


def test_every_sentence_applies_to_some_method() -> None:
    methods = [Microdata(epsilon=1), KAnonymity(k=4), Location(epsilon_per_metre="0.02")]
    applied = {sentence for method in methods for sentence in held(check_method(method, runs=NO_AUDIT))}
    missing = {check.__name__.replace("_", " ") for check in METHOD_CHECKS} - applied

    assert missing == {"an audit sees it when the noise is halved", "an audit stays within the promise"}


@pytest.mark.parametrize("algorithm", ["tree", "projection"])
def test_microdata_keeps_the_contract(algorithm: Literal["tree", "projection"]) -> None:
    checked = check_method(Microdata(epsilon="1/2", algorithm=algorithm))

    assert len(held(checked)) == PAID


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_microdata_with_a_fixed_relation_keeps_the_contract(neighbours: Neighbours) -> None:
    checked = check_method(Microdata(epsilon=2, neighbours=neighbours), runs=NO_AUDIT)

    assert len(held(checked)) == PAID - 2


def test_microdata_keeps_the_contract_on_a_schema_with_bins_missing_values_and_impossible_cells() -> None:
    age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), missing=True, outside="clamp")
    sex = Attribute(name="性別", domain=Values(("女", "男")), outside="other")
    item = Attribute(name="item", domain=Values(("a", "b", "c")))
    never = Impossible((("age", frozenset({1})), ("item", frozenset({0, 2}))))
    schema = Schema(name="people", attributes=(age, sex, item), impossible=(never,))

    checked = check_method(Microdata(epsilon=1, neighbours="add-remove"), schema)

    assert "an audit stays within the promise" in held(checked)


@pytest.mark.parametrize(("focus", "runs"), [("regions", 8_000), ("cells", NO_AUDIT), ("both", NO_AUDIT)])
def test_the_tree_of_a_table_keeps_the_contract(focus: Literal["regions", "cells", "both"], runs: int) -> None:
    checked = check_method(Table(epsilon=2, focus=focus), runs=runs)

    assert len(held(checked)) == PAID - 1 - (0 if runs else 2)


def test_the_wavelet_of_a_table_keeps_the_contract() -> None:
    """On two cells: with more halvings no pair of neighbours that differs in two sibling cells uses all of epsilon."""
    checked = check_method(Table(epsilon=2, algorithm="wavelet", neighbours="replace"), schema_of(2))

    assert len(held(checked)) == PAID - 1


def test_a_view_keeps_the_contract() -> None:
    """On one attribute: of two neighbours that differ in one of several attributes not all of epsilon is seen."""
    checked = check_method(View(epsilon=2), schema_of(64))

    assert len(held(checked)) == PAID - 1


@pytest.mark.parametrize("algorithm", ["model", "product", "mondrian", "hdpview"])
def test_a_view_of_two_attributes_keeps_the_contract(
    algorithm: Literal["model", "product", "mondrian", "hdpview"],
) -> None:
    """Audits of blocks: tests/statistical/test_view_blocks.py."""
    checked = check_method(View(epsilon=2, algorithm=algorithm), runs=NO_AUDIT)

    assert len(held(checked)) == PAID - 3


@pytest.mark.parametrize(
    ("method", "left_out"),
    [(Microdata(rho="1/8"), 2), (Table(epsilon=1, delta="1e-9"), 3), (View(rho="1/8"), 3)],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_method_in_rho_keeps_the_contract(method: Any, left_out: int) -> None:
    """No event refutes a promise in rho, so its noise is watched by the replay; records are of microdata alone."""
    checked = check_method(method)

    assert len(held(checked)) == PAID - left_out
    reasons = {each.reason for each in checked if each.sentence.startswith("an audit")}
    assert reasons == {"no event refutes a promise in rho; its noise is watched by the replay"}


class WeakInRho(Microdata):
    """Draws half the noise that its rho promises."""

    def make(self, counts: Counts, plan: Plan, *, rng: Rng) -> Payload:
        twice = with_fields(Microdata(rho=2 * plan.promise.amount), neighbours=plan.promise.neighbours)
        return Microdata.make(self, counts, twice.plan(plan.facts, neighbours=plan.promise.neighbours), rng=rng)


def test_half_the_noise_of_a_method_in_rho_is_found() -> None:
    check = next(one for one in METHOD_CHECKS if one.__name__.startswith("a_replay"))

    with pytest.raises(AssertionError, match=r"the loss is 2\.000000 times"):
        check(Subject(method=WeakInRho(rho="1/8"), facts=schema_of(8, 8), runs=0, weaken=with_fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_suppressed": "0.1", "local": True},
        {"recoding": "value"},
        {"recoding": "mondrian"},
        {"criteria": ("t=0.5,a2",)},
    ],
)
def test_k_anonymity_keeps_the_contract(fields: dict[str, Any]) -> None:
    checked = check_method(KAnonymity(k=4, **fields))

    assert len(held(checked)) == OF_ROWS


@pytest.mark.parametrize("mode", ["grid", "weighted", "fair", "sharp"])
def test_a_mechanism_for_devices_keeps_the_contract(mode: Literal["grid", "weighted", "fair", "sharp"]) -> None:
    checked = check_method(Location(epsilon_per_metre="0.02", mode=mode))

    assert len(held(checked)) == OF_MAPS


# --- wrong methods, each of which must be rejected with the sentence that it breaks -------------------------------


class Picky(Microdata):
    """Refuses a table with a heavy cell, before anything is spent: the refusal tells of that cell."""

    def check(self, counts: Counts, plan: Plan) -> None:
        super().check(counts, plan)
        if counts.values.max(initial=0) >= 40:
            raise ParameterError("the table is too uneven; publish a part")


class Overworked(Microdata):
    """Refuses by the number of full cells where the domain is huge, as the first version did."""

    def check(self, counts: Counts, plan: Plan) -> None:
        super().check(counts, plan)
        if counts.schema.size > 10**18 and counts.nonzero > 30:
            raise ParameterError("epsilon is too large for a table that is nearly empty")


class Tongued(Microdata):
    """Refuses every table of a huge domain after the count, in words that tell how many cells are full."""

    def check(self, counts: Counts, plan: Plan) -> None:
        super().check(counts, plan)
        if counts.schema.size > 10**18:
            raise ParameterError("{cells} full cells are too few", cells=counts.nonzero)


class Late(Microdata):
    """Refuses every table of a huge domain, but only after it was counted: the plan should have done it."""

    def check(self, counts: Counts, plan: Plan) -> None:
        super().check(counts, plan)
        if counts.schema.size > 10**18:
            raise ParameterError("the domain is too large")


@pytest.mark.parametrize("wrong", [Picky, Overworked, Tongued, Late])
def test_a_refusal_that_depends_on_the_table_is_found(wrong: type[Microdata]) -> None:
    check = next(one for one in METHOD_CHECKS if one.__name__.startswith("whether_a_release_is_made"))
    subject = Subject(method=wrong(epsilon=1), facts=schema_of(8, 8), runs=0, weaken=with_fields)

    with pytest.raises(AssertionError, match=r"one is published and one refused|refused after the count"):
        check(subject)


@pytest.mark.parametrize("algorithm", ["tree", "projection"])
def test_microdata_refuses_from_public_facts_alone(algorithm: Literal["tree", "projection"]) -> None:
    """The projection of the first version refused some tables of a huge domain by a function of their counts."""
    check = next(one for one in METHOD_CHECKS if one.__name__.startswith("whether_a_release_is_made"))

    check(Subject(method=Microdata(epsilon=1, algorithm=algorithm), facts=schema_of(8, 8), runs=0, weaken=with_fields))


class Thawed(Microdata):
    """Its epsilon can be changed after the promise was read."""

    __setattr__ = object.__setattr__  # type: ignore[assignment]


class Boastful(Microdata):
    """Promises half of what it spends."""

    def guarantee(self, **asked: Any) -> Guarantee:
        promise = super().guarantee(**asked)
        return dataclasses.replace(promise, epsilon=promise.epsilon / 2)


class Lenient(Microdata):
    """Takes any epsilon for 1 that is not one."""

    def __post_init__(self) -> None:
        try:
            super().__post_init__()
        except Exception:
            object.__setattr__(self, "epsilon", Fraction(1))


class Eager(Microdata):
    """Draws before it has paid."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        (rng or system_rng()).bits(1)
        return super().publish(source, ledger=ledger, rng=rng)


class Cheap(Microdata):
    """Pays half."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        return super().publish(source, ledger=HalfPrice(ledger or Unrecorded()), rng=rng)  # type: ignore[arg-type]


class HalfPrice:
    """A purse that charges half."""

    def __init__(self, purse: Ledger | Unrecorded) -> None:
        self.purse, self.neighbours = purse, purse.neighbours

    def spend(self, parts: Mapping[str, Fraction], *, guarantee: Guarantee) -> Sequence[Spend]:
        halves = {purpose: epsilon / 2 for purpose, epsilon in parts.items()}
        return self.purse.spend(halves, guarantee=dataclasses.replace(guarantee, epsilon=guarantee.epsilon / 2))


class Unpaid(Microdata):
    """Pays nobody."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        purse = Unrecorded(neighbours=ledger.neighbours) if ledger else None
        return super().publish(source, ledger=purse, rng=rng)


class Rowwise(Microdata):
    """Promises for rows what the schema asks for people."""

    def guarantee(self, **asked: Any) -> Guarantee:
        return super().guarantee(**{**asked, "unit": None})


class PaysFirst(Microdata):
    """Pays before it knows whether the table can be read."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        if ledger is not None and ledger.neighbours == "replace" and type(source) is not Tabled:
            promise = self.guarantee(unit=source.schema.unit, neighbours=ledger.neighbours)
            ledger.spend({"noise": promise.epsilon}, guarantee=promise)
        return super().publish(source, ledger=ledger, rng=rng)


class Trusting(Microdata):
    """Publishes over a domain that was read off the data."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        counts = source.count()
        declared = dataclasses.replace(source.schema, origin="declared")
        return super().publish(Tabled(Counts.build(declared, counts.codes, counts.values)), ledger=ledger, rng=rng)


class PublishesDraw(Microdata):
    """Publishes what `draw` draws: what is wrong with the one is wrong with the other."""

    def make(self, counts: Counts, plan: Plan, *, rng: Rng) -> Payload:
        relation = plan.promise.neighbours if isinstance(plan.promise, Guarantee) else None
        return Payload(frames={"records": records(self.draw(counts, neighbours=relation, rng=rng), rng=rng)})


class Unseeded(PublishesDraw):
    """Draws from a generator of its own."""

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        return super().draw(counts, neighbours=neighbours, rng=system_rng())


class TwoFaced(Microdata):
    """Publishes another table than the one that is audited."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        (rng or system_rng()).bits(8) if type(ledger) is Unrecorded else None
        return super().publish(source, ledger=ledger, rng=rng)


class Leaky(Microdata):
    """Tells the number of records where it is private."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        release = super().publish(source, ledger=ledger, rng=rng)
        if release.certificate.neighbours == "replace":
            return release
        measures = {"records": f"{source.count().total:,}"}
        return Release(release.frames, dataclasses.replace(release.certificate, measures=measures))


class LeakyError(Microdata):
    """Computes its expected error from the table."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        release = super().publish(source, ledger=ledger, rng=rng)
        expected = {**release.certificate.expected_error, "share": 1 / max(source.count().total, 1)}
        return Release(release.frames, dataclasses.replace(release.certificate, expected_error=expected))


class Sorted(Microdata):
    """Leaves the records in the order of the cells."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        release = super().publish(source, ledger=ledger, rng=rng)
        columns = {name: one for name, one in release.frames["records"].columns.items() if isinstance(one, Coded)}
        rows = sorted(zip(*(one.codes.tolist() for one in columns.values()), strict=True))
        codes = dict(zip(columns, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(columns, ())
        frame = Frame({name: Coded(_int64(codes[name]), one.labels) for name, one in columns.items()})
        return Release({"records": frame}, release.certificate)


def _int64(values: Sequence[int]) -> Any:
    import numpy as np

    return np.array(values, dtype=np.int64)


class Unstamped(Microdata):
    """Calls a seeded release private."""

    def publish(self, source: Countable, *, ledger: Purse = None, rng: Rng | None = None) -> Release:
        release = super().publish(source, ledger=ledger, rng=rng)
        return Release(release.frames, dataclasses.replace(release.certificate, private=True))


class Weak(PublishesDraw):
    """Draws half the noise it promises."""

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        weaker = Microdata(epsilon=2 * self.epsilon, neighbours=self.neighbours)
        return weaker.draw(counts, neighbours=neighbours, rng=rng)


class OpenTotal(PublishesDraw):
    """Right noise in every cell under add/remove, but the number of records is told exactly."""

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        if neighbours != "add-remove":
            return super().draw(counts, neighbours=neighbours, rng=rng)
        return Microdata(epsilon=2 * self.epsilon).draw(counts, neighbours="replace", rng=rng)


class Wasteful(PublishesDraw):
    """Draws four times the noise it needs."""

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        stronger = Microdata(epsilon=Fraction(self.epsilon) / 4, neighbours=self.neighbours)
        return stronger.draw(counts, neighbours=neighbours, rng=rng)


class Costly(KAnonymity):
    """Charges a ledger for k-anonymity."""

    def publish(self, source: Any, *, ledger: Purse = None, rng: Rng | None = None, **extras: Any) -> Release:
        if ledger is not None:
            promise = Microdata(epsilon="1/2").guarantee(neighbours=ledger.neighbours)
            ledger.spend({"rows": promise.epsilon}, guarantee=promise)
        return super().publish(source, ledger=ledger, rng=rng, **extras)


class Careless(KAnonymity):
    """Searches for half of k, and promises all of it."""

    def outcome(self, *given: Any, **named: Any) -> Any:
        return KAnonymity(k=self.k // 2).outcome(*given, **named)


class Overheard(Location):
    """Makes a mechanism with half the noise that it promises."""

    def make(self, counts: None, plan: Plan, *, rng: Rng) -> Payload:
        loud = dataclasses.replace(plan.steps, epsilon_per_metre=2 * Fraction(self.epsilon_per_metre), slack="noise")
        return dataclasses.replace(Location.make(loud, None, Location.plan(loud), rng=rng), plan=plan)


WRONG = [
    (Thawed, "the parameters are frozen"),
    (Boastful, "the guarantee is known before any data"),
    (Rowwise, "the guarantee is known before any data"),
    (Lenient, "bad parameters are refused"),
    (Eager, "a ledger without budget refuses before any draw"),
    (Cheap, "a ledger without budget refuses before any draw"),
    (Unpaid, "a ledger without budget refuses before any draw"),
    (PaysFirst, "a source that cannot be read costs nothing"),
    (Trusting, "an inferred schema is refused before any spend"),
    (Unseeded, "the same seed gives the same release"),
    (TwoFaced, "the release is what draw draws"),
    (Leaky, "the certificate holds no count of the table"),
    (LeakyError, "the certificate is the same for every table"),
    (Sorted, "records are in random order"),
    (Unstamped, "a seeded release is stamped and not saved by accident"),
    (Weak, "an audit stays within the promise"),
    (OpenTotal, "an audit stays within the promise"),
    (Wasteful, "an audit sees it when the noise is halved"),
]


@pytest.mark.parametrize("wrong", [Weak, OpenTotal])
def test_a_replay_finds_what_an_audit_finds_in_few_runs(wrong: type[Microdata]) -> None:
    check = next(one for one in METHOD_CHECKS if one.__name__.startswith("a_replay"))

    with pytest.raises(AssertionError, match=r"the loss is 2\.000000 times|published differently"):
        check(Subject(method=wrong(epsilon=1), facts=schema_of(8, 8), runs=0, weaken=with_fields))


AUDITED = (Weak, OpenTotal, Wasteful)  # for one relation: each takes thousands of runs


WRONG_OTHERS = [
    (Costly(k=4), "a promise without epsilon charges no ledger"),
    (Careless(k=4), "every published class holds k"),
    (Overheard(epsilon_per_metre="0.02"), "what a stored release says is worked out again"),
]


@pytest.mark.parametrize(("wrong", "sentence"), WRONG_OTHERS)
def test_a_wrong_method_of_another_promise_is_rejected_with_the_sentence_it_breaks(wrong: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=f"{type(wrong).__name__}: it does not hold that {sentence}: "):
        check_method(wrong)


def test_the_law_in_a_device_file_is_read_too() -> None:
    check = next(one for one in METHOD_CHECKS if one.__name__.startswith("no_report_tells_more"))
    subject = Subject(method=Overheard(epsilon_per_metre="0.02"), facts=small_map(), runs=0, weaken=with_fields)

    with pytest.raises(AssertionError, match=r"epsilon is 0\.03\d* per metre, and 0\.020000 is promised"):
        check(subject)


@pytest.mark.parametrize(("wrong", "sentence"), WRONG)
def test_a_wrong_method_is_rejected_with_the_sentence_it_breaks(wrong: type[Microdata], sentence: str) -> None:
    method = wrong(epsilon=1, neighbours="add-remove" if wrong in AUDITED else None)
    with pytest.raises(AssertionError, match=f"{wrong.__name__}: it does not hold that {sentence}: "):
        check_method(method, runs=2_000)


def test_a_method_that_spends_less_than_it_promises_is_rejected_even_when_the_budget_lasts() -> None:
    check = next(one for one in METHOD_CHECKS if one.__name__ == "the_spends_equal_the_guarantee")
    subject = Subject(method=Cheap(epsilon=1), facts=schema_of(8, 8), runs=100, weaken=with_fields)

    with pytest.raises(AssertionError, match="must add up to the promise"):
        check(subject)
