"""A promise names its epsilon, its unit and its neighbours, and knows what it costs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from sudare.errors import ParameterError, RelationMismatch
from sudare.privacy import Guarantee
from sudare.schema.unit import Unit

PERSON = Unit(kind="person", column="customer_id", max_rows=5)


def promise(epsilon="1/2", neighbours="replace", unit=None):
    return Guarantee(epsilon=Fraction(epsilon), neighbours=neighbours, unit=unit or Unit())


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_promise_costs_its_epsilon_in_its_own_relation(neighbours):
    assert promise(neighbours=neighbours).cost(neighbours) == Fraction(1, 2)


def test_add_remove_costs_twice_under_replace_one():
    assert promise(neighbours="add-remove").cost("replace") == 1


def geometric_ratio(change):
    """The largest log-ratio, in epsilons, of two noisy histograms (scale 1/epsilon) that differ by `change`."""
    outputs = itertools.product(range(-5, 6), repeat=2)
    return max(
        abs(sum(abs(y) for y in output) - sum(abs(y - z) for y, z in zip(output, change, strict=True)))
        for output in outputs
    )


@pytest.mark.parametrize(
    ("change", "kept"),
    [((1, 0), "add-remove"), ((0, -1), "add-remove"), ((1, -1), "replace"), ((-1, 1), "replace")],
)
def test_the_cost_of_a_noisy_histogram_is_neither_more_nor_less(change, kept):
    cost = promise(neighbours="add-remove").cost(kept)

    assert geometric_ratio(change) * Fraction(1, 2) == cost


def test_replace_one_is_refused_under_add_remove():
    with pytest.raises(RelationMismatch, match="promises nothing for add-remove"):
        promise(neighbours="replace").cost("add-remove")


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("unit", [Unit(), PERSON], ids=["row", "person"])
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_words_are_one_line_with_epsilon_and_unit(neighbours, unit, lang):
    words = promise(neighbours=neighbours, unit=unit).describe().render(lang)

    assert "1/2" in words
    assert unit.describe().render(lang) in words
    assert words.isprintable()


def test_the_statement_tells_a_lawyer_what_changes_by_how_much():
    assert promise(unit=PERSON).describe().render("en") == (
        "Differential privacy with epsilon = 1/2 for a person (column customer_id, at most 5 rows): replacing all "
        "rows of any one person by those of any other changes the probability of every possible output by a factor "
        "of at most 1.649 (exp(1/2), rounded up)."
    )


def test_the_four_promises_are_told_apart_in_both_languages():
    told = {
        promise(neighbours=neighbours, unit=unit).describe().render(lang)
        for neighbours in ("replace", "add-remove")
        for unit in (Unit(), PERSON)
        for lang in ("en", "ja")
    }

    assert len(told) == 8


@pytest.mark.parametrize("epsilon", ["1/1000000", "1/1000", "1/10", "1/2", "1", "693147/1000000", "3", "14", "700"])
def test_the_factor_is_rounded_up_and_not_far(epsilon):
    factor = Fraction(promise(epsilon).describe().render("en").split("at most ")[-1].split(" ")[0])
    true = math.exp(Fraction(epsilon))

    assert true * (1 - 1e-12) <= factor <= true + 0.011 * (true - 1)


def test_a_promise_survives_json():
    told = promise(neighbours="add-remove", unit=PERSON)

    assert Guarantee.from_dict(told.to_dict()) == told


def test_the_facts_are_exact_text():
    facts = promise("1/3").to_dict()

    assert (facts["epsilon"], facts["neighbours"], facts["unit"]) == ("1/3", "replace", {"kind": "row"})


@pytest.mark.parametrize(
    "change",
    [
        *({"epsilon": "abc"}, {"epsilon": "0"}, {"epsilon": None}, {"neighbours": "both"}, {"neighbours": None}),
        *({"unit": {"kind": "house"}}, {"unit": {}}, {"unit": "row"}, {"unit": {"kind": "row", "more": 1}}),
        {"more": 1},
    ],
    ids=str,
)
def test_facts_that_are_not_a_promise_are_refused(change):
    with pytest.raises(ParameterError):
        Guarantee.from_dict(promise().to_dict() | change)


def test_facts_with_a_part_missing_are_refused():
    facts = promise().to_dict()
    del facts["unit"]

    with pytest.raises(ParameterError, match="must have epsilon, neighbours, unit"):
        Guarantee.from_dict(facts)


@pytest.mark.parametrize("epsilon", [0, -1, 1001, "abc"])
def test_a_promise_without_a_sound_epsilon_is_refused(epsilon):
    with pytest.raises(ParameterError, match=r"^epsilon \("):
        Guarantee(epsilon=epsilon, neighbours="replace", unit=Unit())


def test_an_unknown_relation_is_refused():
    with pytest.raises(ParameterError, match=r'^neighbours \(both\) must be "replace" or "add-remove"$'):
        promise(neighbours="both")


@pytest.mark.parametrize(
    "facts",
    [
        {"kind": "house"},
        {"kind": "person"},
        {"kind": "person", "column": ""},
        {"kind": "person", "column": "id", "max_rows": 0},
        {"kind": "person", "column": "id", "max_rows": True},
        {"kind": "person", "column": "id", "max_rows": "5"},
        {"kind": "row", "column": "id"},
        {"kind": "row", "max_rows": 2},
    ],
    ids=str,
)
def test_a_unit_that_protects_nobody_in_particular_is_refused(facts):
    with pytest.raises(ParameterError):
        Unit(**facts)


@pytest.mark.parametrize("unit", [Unit(), PERSON, Unit(kind="person", column="id")], ids=["row", "person", "one row"])
def test_a_unit_survives_json(unit):
    assert Unit.from_dict(unit.to_dict()) == unit
