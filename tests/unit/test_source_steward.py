"""What the steward is told: what does not fit, and what the columns hold."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import sudare.sources as sources
from sudare.schema import Attribute, DateBins, Impossible, MeshCells, NumberBins, Schema, Values
from sudare.sources import base
from tests.unit.source_tables import PEOPLE, PERSONS, SEX, arrow, one, visited, visits, write_csv

# --- check ----------------------------------------------------------------------------------------------------------


def test_a_table_that_fits_has_no_findings() -> None:
    with sources.open(arrow(), PEOPLE) as source:
        findings = source.check()

    assert findings.fits
    assert findings.problems == ()
    assert findings.notes == ()


def test_everything_that_does_not_fit_is_told_with_counts_and_examples(tmp_path: Path) -> None:
    area = Attribute(name="mesh", domain=MeshCells(level=2, area=("5339",)))
    day = Attribute(name="day", domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"), outside="clamp")
    item = Attribute(name="item", domain=Values(("a",)), outside="other")
    age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10))
    schema = Schema(name="t", attributes=(age, area, day, item, SEX), identifiers=("name", "phone"))
    rows = [
        ("130", "533945", "2024-05-05", "a", "x", "Ann"),
        ("130", "5339", "2030-01-01", "b", "y", "Bob"),
        ("old", "543945", "someday", "b", "z", "Eve"),
        ("", "533945", "2024-05-05", "a", "w", "Joy"),
    ]
    path = write_csv(tmp_path / "a.csv", rows, head=("age", "mesh", "day", "item", "extra", "name"))
    with sources.open(path, schema) as source:
        findings = source.check()
    told = {(one.attribute, one.problem): (one.rows, one.examples) for one in findings.problems}

    assert told == {
        ("sex", base.NO_COLUMN): (0, ()),
        ("age", base.OUTSIDE): (2, ("130",)),
        ("age", base.UNREADABLE): (1, ("old",)),
        ("age", base.MISSING): (1, ()),
        ("mesh", base.UNREADABLE): (1, ("5339",)),
        ("mesh", base.OUTSIDE): (1, ("543945",)),
        ("day", base.CLAMPED): (1, ("2030-01-01",)),
        ("day", base.UNREADABLE): (1, ("someday",)),
        ("item", base.TAKEN_AS_OTHER): (2, ("b",)),
    }
    assert not findings.fits
    assert [note.values for note in findings.notes] == [{"columns": "extra"}, {"columns": "phone"}]
    assert not any(one.examples for one in findings.without_examples().problems)
    assert json.loads(json.dumps(findings.to_dict()))["problems"][0]["attribute"] == "sex"


def test_values_with_a_way_out_are_told_and_still_fit() -> None:
    item = Attribute(name="item", domain=Values(("a",)), outside="other")
    with sources.open(pa.table({"item": ["a", "b", None]}), Schema(name="t", attributes=(item,))) as source:
        findings = source.check()

    assert findings.fits
    assert [(one.problem, one.rows, one.examples) for one in findings.problems] == [(base.TAKEN_AS_OTHER, 2, ("b",))]


def test_at_most_five_examples_are_told_the_commonest_first_and_long_ones_cut() -> None:
    values = ["F", *("common",) * 9, *(f"rare{index}" for index in range(9)), *("x" * 99,) * 5]
    with sources.open(pa.table({"sex": values}), one("sex", "F")) as source:
        problem = source.check().problems[0]

    assert problem.rows == 23
    assert problem.examples == ("common", "x" * 59 + "…", "rare0", "rare1", "rare2")


def test_persons_counts_and_combinations_are_checked(tmp_path: Path) -> None:
    box = Impossible((("half", frozenset({1})), ("place", frozenset({0, 1, 2, 9}))))
    schema = Schema(name="t", unit=visits(2).unit, attributes=visits(2).attributes, impossible=(box,))
    table = visited().append_column("n", pa.array([1.5, *[1.0] * 13]))
    nameless = table.set_column(0, "id", pa.array([None, *PERSONS[1:]]))
    with sources.open(nameless, schema) as source:
        persons = source.check()
    with sources.open(table, Schema(name="t", attributes=schema.attributes), count_column="n") as source:
        counts = source.check()

    assert [(one.attribute, one.problem, one.rows) for one in persons.problems] == [
        ("half, place", base.IMPOSSIBLE, 2),
        ("id", base.NO_PERSON, 1),
    ]
    assert persons.notes[0].values == {"persons": 2, "limit": 2, "rows": 6}
    assert [(one.attribute, one.problem, one.rows) for one in counts.problems] == [("n", base.NO_COUNT, 1)]


def test_columns_that_cannot_be_read_are_told() -> None:
    with sources.open(pa.table({"sex": [[1]]}), one("sex", "F")) as source:
        findings = source.check()

    assert [(one.attribute, one.problem) for one in findings.problems] == [("sex", base.WRONG_TYPE)]


# --- describe -------------------------------------------------------------------------------------------------------


def test_columns_are_described_by_what_they_hold(tmp_path: Path) -> None:
    rows = [
        (f"{row}", f"{row % 7}.5", f"2024/1/{1 + row % 9}", f"0{row % 3}", "x" if row else "", row)
        for row in range(1500)
    ]
    path = write_csv(tmp_path / "a.csv", rows, head=("id", "wage", "day", "code", "word", "n"))
    facts = {one.name: one for one in sources.describe(path)}

    assert (facts["id"].type, facts["id"].low, facts["id"].high, facts["id"].distinct) == ("integer", 0, 1499, 1500)
    assert len(facts["id"].values or ()) == 1500  # a list of values is read from the whole column
    assert len(facts["id"].sample) > 200
    assert (facts["wage"].type, facts["wage"].low, facts["wage"].high) == ("number", 0.5, 6.5)
    assert (facts["day"].type, facts["day"].high) == ("date", datetime.date(2024, 1, 9))
    assert (facts["code"].type, facts["code"].values) == ("text", ("00", "01", "02"))
    assert (facts["word"].values, facts["word"].has_missing, facts["word"].rows) == (("x",), True, 1500)


def test_columns_of_every_type_are_described() -> None:
    table = pa.table(
        {
            "b": [True, None],
            "d": [datetime.date(2024, 1, 1), datetime.date(2023, 1, 1)],
            "t": [datetime.datetime(2024, 1, 1, 5), None],
            "f": [float("nan"), 2.5],
            "m": [Decimal("1.5"), Decimal("2.5")],
            "l": [[1], [2]],
            "none": pa.nulls(2),
        }
    )
    found = {one.name: (one.type, one.low, one.high, one.distinct, one.has_missing) for one in sources.describe(table)}

    assert found == {
        "b": ("boolean", None, None, 1, True),
        "d": ("date", datetime.date(2023, 1, 1), datetime.date(2024, 1, 1), 2, False),
        "t": ("date", datetime.date(2024, 1, 1), datetime.date(2024, 1, 1), 1, True),
        "f": ("number", 2.5, 2.5, 1, True),
        "m": ("number", Decimal("1.5"), Decimal("2.5"), 2, False),
        "l": ("text", None, None, 0, False),
        "none": ("text", None, None, 0, True),
    }
