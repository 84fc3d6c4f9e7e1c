"""The contract of a method holds for every method there is, and rejects methods that are wrong in one way each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import pytest

from sudare.counts import Countable, Counts
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.noise import Rng, system_rng
from sudare.privacy import Guarantee, Ledger, Neighbours, Spend, Unrecorded
from sudare.releases import Frame, Release
from sudare.releases.frame import Coded
from sudare.schema import Attribute, Impossible, NumberBins, Schema, Values
from sudare.testing import METHOD_CHECKS, Tabled, check_method
from sudare.testing.subject import Subject, schema_of, with_fields

Purse = Ledger | Unrecorded | None


NO_AUDIT = 0  # the audits are made at one epsilon: once for an algorithm is enough


@pytest.mark.parametrize("algorithm", ["tree", "projection"])
def test_microdata_keeps_the_contract(algorithm: Literal["tree", "projection"]) -> None:
    held = check_method(Microdata(epsilon="1/2", algorithm=algorithm))

    assert held == [check.__name__.replace("_", " ") for check in METHOD_CHECKS]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_microdata_with_a_fixed_relation_keeps_the_contract(neighbours: Neighbours) -> None:
    held = check_method(Microdata(epsilon=2, neighbours=neighbours), runs=NO_AUDIT)

    assert len(held) == len(METHOD_CHECKS) - 2


def test_microdata_keeps_the_contract_on_a_schema_with_bins_missing_values_and_impossible_cells() -> None:
    age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), missing=True, outside="clamp")
    sex = Attribute(name="性別", domain=Values(("女", "男")), outside="other")
    item = Attribute(name="item", domain=Values(("a", "b", "c")))
    never = Impossible((("age", frozenset({1})), ("item", frozenset({0, 2}))))
    schema = Schema(name="people", attributes=(age, sex, item), impossible=(never,))

    held = check_method(Microdata(epsilon=1, neighbours="add-remove"), schema)

    assert "an audit stays within the promise" in held


@pytest.mark.parametrize(("focus", "runs"), [("regions", 8_000), ("cells", NO_AUDIT), ("both", NO_AUDIT)])
def test_the_tree_of_a_table_keeps_the_contract(focus: Literal["regions", "cells", "both"], runs: int) -> None:
    held = check_method(Table(epsilon=2, focus=focus), runs=runs)

    assert len(held) == len(METHOD_CHECKS) - (0 if runs else 2)


def test_the_wavelet_of_a_table_keeps_the_contract() -> None:
    """On two cells: with more halvings no pair of neighbours that differs in two sibling cells uses all of epsilon."""
    held = check_method(Table(epsilon=2, algorithm="wavelet", neighbours="replace"), schema_of(2))

    assert len(held) == len(METHOD_CHECKS)


# --- wrong methods, each of which must be rejected with the sentence that it breaks -------------------------------


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


class Unseeded(Microdata):
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


class Weak(Microdata):
    """Draws half the noise it promises."""

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        weaker = Microdata(epsilon=2 * self.epsilon, neighbours=self.neighbours)
        return weaker.draw(counts, neighbours=neighbours, rng=rng)


class OpenTotal(Microdata):
    """Right noise in every cell under add/remove, but the number of records is told exactly."""

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        if neighbours != "add-remove":
            return super().draw(counts, neighbours=neighbours, rng=rng)
        return Microdata(epsilon=2 * self.epsilon).draw(counts, neighbours="replace", rng=rng)


class Wasteful(Microdata):
    """Draws four times the noise it needs."""

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        stronger = Microdata(epsilon=Fraction(self.epsilon) / 4, neighbours=self.neighbours)
        return stronger.draw(counts, neighbours=neighbours, rng=rng)


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


@pytest.mark.parametrize(("wrong", "sentence"), WRONG)
def test_a_wrong_method_is_rejected_with_the_sentence_it_breaks(wrong: type[Microdata], sentence: str) -> None:
    with pytest.raises(AssertionError, match=f"{wrong.__name__}: it does not hold that {sentence}: "):
        check_method(wrong(epsilon=1), runs=2_000)


def test_a_method_that_spends_less_than_it_promises_is_rejected_even_when_the_budget_lasts() -> None:
    check = next(one for one in METHOD_CHECKS if one.__name__ == "the_spends_equal_the_guarantee")
    subject = Subject(method=Cheap(epsilon=1), schema=schema_of(8, 8), runs=100, weaken=with_fields)

    with pytest.raises(AssertionError, match="must add up to the promise"):
        check(subject)
