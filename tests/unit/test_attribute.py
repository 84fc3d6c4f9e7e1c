"""An attribute: codes for values, other and missing; what a raw value means; how it looks from a level above."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pytest

from sudare.errors import DomainError, HierarchyError, ParameterError, SchemaError
from sudare.schema import Attribute, DateBins, MeshCells, NumberBins, TableHierarchy, Values
from sudare.schema.hierarchy_rules import dates, intervals

AGES = NumberBins.of_width(0, 100, 5)
LETTERS = Values(("a", "b"))


def labels(attribute: Attribute) -> list[str | None]:
    return attribute.labels(np.arange(attribute.size)).tolist()


# --- codes --------------------------------------------------------------------------------------------------------


def test_other_and_missing_come_behind_the_declared_values() -> None:
    attribute = Attribute(name="letter", domain=LETTERS, outside="other", missing=True)

    assert (attribute.size, attribute.other_code, attribute.missing_code) == (4, 2, 3)
    assert labels(attribute) == ["a", "b", "(other)", None]


def test_labels_and_codes_are_inverse() -> None:
    attribute = Attribute(name="age", domain=AGES, outside="other", missing=True)

    assert [attribute.code(label) for label in labels(attribute)] == list(range(attribute.size))
    assert attribute.code("(missing)") == attribute.missing_code


@pytest.mark.parametrize("label", ["c", "(other)", "(missing)", None, ""])
def test_an_unknown_label_is_refused_with_what_is_known(label: str | None) -> None:
    with pytest.raises(SchemaError, match="attribute letter has no such value; it has a, b"):
        Attribute(name="letter", domain=LETTERS).code(label)


# --- the meaning of a raw value -----------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [None, "", "?", "NA", float("nan"), np.nan, Decimal("nan"), np.datetime64("NaT")])
def test_nothing_nan_empty_text_and_the_marks_are_missing(raw: object) -> None:
    attribute = Attribute(name="letter", domain=LETTERS, missing=True, missing_marks=("?", "NA"))

    assert attribute.encode(raw) == attribute.missing_code


def test_the_nothings_of_pandas_are_missing() -> None:
    pandas = pytest.importorskip("pandas")
    day = DateBins.of_width("2024-01-01", "2024-12-31", "1 month")

    for domain in (LETTERS, AGES, day):
        attribute = Attribute(name="x", domain=domain, missing=True)

        assert [attribute.encode(raw) for raw in (pandas.NA, pandas.NaT)] == [attribute.missing_code] * 2


def test_blanks_around_numbers_days_and_meshes_are_trimmed_but_in_categories_they_count() -> None:
    number = Attribute(name="age", domain=AGES, missing=True, missing_marks=("-",))
    letter = Attribute(name="letter", domain=LETTERS, missing=True)

    assert [number.encode(raw) for raw in (" 7 ", "  ", " - ")] == [1, 20, 20]
    with pytest.raises(DomainError):
        letter.encode("  ")


def test_a_mark_may_lie_inside_the_bins_and_then_means_missing() -> None:
    attribute = Attribute(name="age", domain=AGES, missing=True, missing_marks=("99",))

    assert (attribute.encode("99"), attribute.encode(99), attribute.encode("98")) == (20, 20, 19)


@pytest.mark.parametrize("domain", [LETTERS, AGES, MeshCells(level=1, area=("5339",))])
def test_what_is_not_declared_is_refused_and_never_shown(domain: Values | NumberBins | MeshCells) -> None:
    attribute = Attribute(name="column", domain=domain)

    for raw in ("SECRET", None, ""):
        with pytest.raises(DomainError, match="attribute column holds a value") as caught:
            attribute.encode(raw)

        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("raw", [-1, 101, "100.5", 10**9])
def test_a_number_outside_its_bins_is_refused_unless_it_is_declared_to_be_clamped(raw: object) -> None:
    with pytest.raises(DomainError):
        Attribute(name="age", domain=AGES).encode(raw)


def test_what_is_not_declared_is_other_where_that_is_declared() -> None:
    attribute = Attribute(name="letter", domain=LETTERS, outside="other")

    assert [attribute.encode(raw) for raw in ("a", "z", None)] == [0, 2, 2]


def test_numbers_and_days_outside_are_clamped_and_texts_are_refused() -> None:
    age = Attribute(name="age", domain=AGES, outside="clamp")
    day = Attribute(name="day", domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"), outside="clamp")

    assert [age.encode(raw) for raw in (-1, 101, "100")] == [0, 19, 19]
    assert [day.encode(raw) for raw in ("1999-01-01", "2999-01-01")] == [0, 11]
    with pytest.raises(DomainError):
        age.encode("old")


def test_days_are_read_by_the_declared_format_and_no_other() -> None:
    domain = DateBins.of_width("2024-01-01", "2024-12-31", "1 month")
    attribute = Attribute(name="day", domain=domain, date_format="%Y年%m月%d日", outside="other")

    assert [attribute.encode(raw) for raw in ("2024年2月1日", "2024-02-01", "２０２４年2月1日", date(2024, 2, 1))] == [
        1,
        12,
        12,
        1,
    ]
    assert attribute.encode(datetime(2024, 2, 1, 12)) == 1


def test_a_format_with_months_and_two_digit_years_is_read() -> None:
    domain = DateBins.of_width("2024-01-01", "2024-12-31", "1 month")

    assert Attribute(name="month", domain=domain, date_format="%y%m").encode(2403) == 2


# --- contradictions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"name": ""}, "needs a name"),
        ({"role": "identifier"}, "role"),
        ({"outside": "drop"}, "outside"),
        ({"outside": "clamp"}, "needs bins"),
        ({"missing_marks": ("?",)}, "missing = true"),
        ({"missing": True, "missing_marks": ("a",)}, "a is both"),
        ({"domain": Values(("(other)", "b")), "outside": "other"}, "is both"),
        ({"domain": Values(("(missing)",)), "missing": True}, "is both"),
        ({"date_format": "%Y"}, "dates only"),
        ({"domain": DateBins.of_width("2024-01-01", "2024-12-31", "1 year"), "date_format": "%d %B %Y"}, "format"),
        ({"domain": DateBins.of_width("2024-01-01", "2024-12-31", "1 year"), "date_format": "%m-%d"}, "format"),
    ],
)
def test_an_attribute_that_contradicts_itself_is_refused(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        Attribute(**{"name": "letter", "domain": LETTERS, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "paths",
    [
        [("a", "*")],
        [("a", "*"), ("b", "*"), ("c", "*")],
        [("b", "*"), ("a", "*")],
        [("a", "(missing)", "*"), ("b", "x", "*")],
    ],
)
def test_a_hierarchy_of_other_values_is_refused(paths: list[tuple[str, ...]]) -> None:
    with pytest.raises(HierarchyError):
        Attribute(name="letter", domain=LETTERS, missing=True, hierarchy=TableHierarchy.from_paths(paths))


# --- levels -------------------------------------------------------------------------------------------------------


def test_bins_stay_bins_when_they_are_joined() -> None:
    tree = intervals(AGES, [20])
    coarse = Attribute(name="age", domain=AGES, role="quasi", missing=True, outside="clamp", hierarchy=tree).coarsen(1)

    assert coarse.domain == NumberBins.of_width(0, 100, 20)
    assert (coarse.role, coarse.missing_code, coarse.height, coarse.outside) == ("quasi", 5, 1, "clamp")
    assert (coarse.encode("41"), coarse.encode(None)) == (2, 5)


def test_months_stay_dates_with_their_format() -> None:
    days = DateBins.of_width("2024-01-01", "2024-12-31", "1 day")
    day = Attribute(name="day", domain=days, hierarchy=dates(days, ["month", "quarter"]), date_format="%Y.%m.%d")

    assert day.coarsen(1).encode("2024.12.24") == 11
    assert day.coarsen(2).domain == Values(("2024-Q1", "2024-Q2", "2024-Q3", "2024-Q4"), is_ordered=True)


def test_the_top_takes_missing_and_other_in() -> None:
    age = Attribute(name="age", domain=AGES, missing=True, outside="other", hierarchy=intervals(AGES, [20]))
    top = age.coarsen(2)

    assert (labels(top), top.missing, top.outside, top.height) == (["*"], False, "refuse", 0)


def test_lifted_codes_are_the_codes_of_the_coarser_attribute() -> None:
    age = Attribute(name="age", domain=AGES, missing=True, outside="other", hierarchy=intervals(AGES, [10, 50]))

    for level in range(age.height + 1):
        coarse = age.coarsen(level)
        names = age.hierarchy.labels(np.arange(coarse.size), level).tolist() if age.hierarchy else []

        assert [label or "(missing)" for label in labels(coarse)] == names


def test_coarsening_in_two_steps_is_coarsening_once() -> None:
    cells = Attribute(name="mesh", domain=MeshCells(level=4, area=("5339",)), missing=True)
    age = Attribute(name="age", domain=AGES, missing=True, hierarchy=intervals(AGES, [10, 50]))

    assert cells.coarsen(1).coarsen(2) == cells.coarsen(3)
    assert age.coarsen(1).coarsen(1) == age.coarsen(2)
    assert age.coarsen(0) is age


def test_a_mesh_has_its_hierarchy_by_itself() -> None:
    mesh = Attribute(name="mesh", domain=MeshCells(level=3, area=("5339",)), missing=True)

    assert (mesh.height, mesh.coarsen(2).domain) == (3, MeshCells(level=1, area=("5339",)))
    assert labels(mesh.coarsen(2)) == ["5339", None]
    assert labels(mesh.coarsen(3)) == ["*"]


def test_groups_out_of_order_have_no_order() -> None:
    tree = TableHierarchy.from_paths([("a", "x"), ("b", "y"), ("c", "x")])
    attribute = Attribute(name="letter", domain=Values(("a", "b", "c"), is_ordered=True), hierarchy=tree)

    assert (attribute.is_ordered, attribute.coarsen(1).is_ordered) == (True, False)


def test_a_mark_that_is_a_group_above_is_no_mark_there() -> None:
    tree = TableHierarchy.from_paths([("US", "NA", "*"), ("JP", "Asia", "*")])
    country = Attribute(
        name="country", domain=Values(("US", "JP")), missing=True, missing_marks=("NA", "?"), hierarchy=tree
    )

    assert (country.encode("NA"), country.coarsen(1).encode("NA"), country.coarsen(1).encode("?")) == (2, 0, 2)


@pytest.mark.parametrize("level", [-1, 3])
def test_a_level_outside_the_hierarchy_is_refused_with_its_name_and_range(level: int) -> None:
    age = Attribute(name="age", domain=AGES, hierarchy=intervals(AGES, [20]))

    with pytest.raises(ParameterError, match=rf"level \({level}\) of attribute age must be between 0 and 2"):
        age.coarsen(level)


def test_equal_attributes_are_equal_and_hash_alike() -> None:
    one, same = (Attribute(name="age", domain=AGES, hierarchy=intervals(AGES, [20])) for _ in range(2))

    assert (one == same, hash(one) == hash(same)) == (True, True)
