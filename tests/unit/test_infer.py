"""Proposals: sensible guesses, marked as such, that read back."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from sudare.errors import NotConfirmed, SchemaError
from sudare.schema import Schema
from sudare.schema.hierarchy_rules import PREFECTURES
from sudare.schema.propose import ColumnFacts, propose


def guessed(column: ColumnFacts) -> dict[str, Any]:
    found = tomllib.loads(propose([column], "people"))["attribute"][0]
    del found["name"]
    is_read_off = any(key in found for key in ("values", "bins", "edges", "area")) and column.type != "boolean"
    assert found.pop("from_data", False) == is_read_off
    return found


def texts(*values: str, **more: Any) -> ColumnFacts:
    return ColumnFacts("x", "text", len(values), values=values, **more)


# --- guesses ------------------------------------------------------------------------------------------------------


def test_few_texts_are_a_category() -> None:
    assert guessed(texts("M", "F")) == {"kind": "category", "values": ["F", "M"]}


def test_integers_get_round_bins_that_hold_all_that_was_seen() -> None:
    assert guessed(ColumnFacts("age", "integer", 74, low=17, high=90)) == {
        "kind": "number",
        "bins": {"start": 15, "stop": 90, "width": 5},
        "grain": 1,
        "role": "quasi",
        "hierarchy": {"intervals": [10, 20]},
    }


@pytest.mark.parametrize(
    ("low", "high", "bins"),
    [
        (0, 99, {"start": 0, "stop": 100, "width": 10}),
        (3, 8_400_123, {"start": 0, "stop": 8_500_000, "width": 500_000}),
        (-37, 12, {"start": -40, "stop": 15, "width": 5}),
        ("0.013", "0.87", {"start": 0, "stop": 0.9, "width": 0.05}),
        (1234.5, 1234.5, {"start": 1234, "stop": 1235, "width": 1}),
    ],
)
def test_ends_are_rounded_outwards(low: object, high: object, bins: dict[str, float]) -> None:
    assert guessed(ColumnFacts("x", "number", 1000, low=low, high=high))["bins"] == bins


def test_bins_of_single_whole_numbers_keep_the_last_two_apart() -> None:
    found = guessed(ColumnFacts("years", "integer", 16, low=1, high=16))

    assert found["bins"] == {"start": 1, "stop": 17, "width": 1}
    assert guessed(ColumnFacts("x", "integer", 2, low=3, high=4))["bins"] == {"start": 3, "stop": 5, "width": 1}


def test_a_short_run_of_integers_is_a_code() -> None:
    assert guessed(ColumnFacts("grade", "integer", 5, values=("1", "2", "3", "4", "5"), low=1, high=5)) == {
        "kind": "ordered",
        "values": ["1", "2", "3", "4", "5"],
    }


@pytest.mark.parametrize(
    ("low", "high", "bins"),
    [
        (date(2023, 2, 5), date(2024, 2, 11), {"start": "2023-02-01", "stop": "2024-02-29", "width": "1 month"}),
        ("1950-05-05", "2024-01-01", {"start": "1950-01-01", "stop": "2024-12-31", "width": "1 year"}),
    ],
)
def test_days_get_months_or_years_by_their_span(low: object, high: object, bins: dict[str, str]) -> None:
    assert guessed(ColumnFacts("day", "date", 300, low=low, high=high)) == {"kind": "date", "bins": bins}


def test_mesh_codes_are_known_by_their_look() -> None:
    codes = ("53394611", "53394612", "53404001")

    assert guessed(texts(*codes)) == {"kind": "mesh", "level": 3, "area": ["5339", "5340"]}
    assert guessed(ColumnFacts("m", "integer", 3, values=codes, low=53394611, high=53404001))["kind"] == "mesh"
    assert guessed(ColumnFacts("m", "text", 9000, sample=codes, rows=9000))["level"] == 3


def test_a_few_odd_texts_among_mesh_codes_are_other() -> None:
    codes = [f"533900{cell:02d}" for cell in range(60)]

    assert guessed(texts(*codes, "unknown"))["outside"] == "other"


@pytest.mark.parametrize(
    "values", [("1990", "2024"), ("20240105", "20240211"), ("131016", "131024"), ("1000001", "1500001"), ("99", "5339")]
)
def test_years_days_towns_and_postal_codes_are_no_mesh(values: tuple[str, ...]) -> None:
    assert guessed(texts(*values))["kind"] != "mesh"


def test_codes_with_leading_zeros_stay_texts() -> None:
    assert guessed(texts("001", "002", "010")) == {"kind": "category", "values": ["001", "002", "010"]}


def test_numbers_and_days_in_texts_are_seen() -> None:
    assert guessed(texts("20", "31", "64"))["kind"] == "number"
    assert guessed(texts("20.5", "31", "64"))["kind"] == "number"
    assert guessed(texts("2024/1/5", "2024/2/11"))["kind"] == "date"


def test_a_column_unique_by_row_is_an_identifier() -> None:
    assert guessed(ColumnFacts("id", "integer", 1000, low=1, high=1000, rows=1000)) == {"role": "identifier"}
    assert guessed(ColumnFacts("income", "number", 1000, low="0.5", high=1000, rows=1000))["kind"] == "number"


def test_too_many_texts_are_left_out_with_the_reason() -> None:
    many = ColumnFacts("remark", "text", 6000, rows=9000, present=9000, is_unique=False)
    text = propose([texts("a", "b"), many], "people")

    assert "# remark is left out, and will not be published: it has too many different texts to list them" in text
    assert [table["name"] for table in tomllib.loads(text)["attribute"]] == ["x"]


def test_a_column_that_repeats_is_asked_about_as_the_person() -> None:
    text = propose([ColumnFacts("patient", "text", 5000, rows=9000)], "visits")

    assert "# ? Does patient name persons, each with several rows?" in text
    assert '#   -> kind = "person"\n#   -> column = "patient"\n#   -> max_rows = 5\n' in text


def test_a_column_of_nothing_is_an_identifier() -> None:
    assert guessed(ColumnFacts("x", "text", 0, values=(), has_missing=True)) == {"role": "identifier"}


def test_missing_values_and_their_marks_are_declared() -> None:
    assert guessed(texts("a", "b", has_missing=True))["missing"] is True
    assert guessed(texts("a", "?", "b")) == {"kind": "category", "values": ["a", "b"], "missing": ["?"]}
    assert guessed(texts("17", "NA", "45")) == {
        "kind": "number",
        "bins": {"start": 16, "stop": 46, "width": 2},
        "grain": 1,
        "missing": ["NA"],
    }


def test_marks_are_seen_in_a_sample_too() -> None:
    column = ColumnFacts("income", "text", 5000, sample=("170", "?", "4500"), rows=9000)

    bins = {"start": 0, "stop": 4500, "width": 500}

    assert guessed(column) == {"kind": "number", "bins": bins, "grain": 1, "missing": ["?"], "role": "sensitive"}


def test_truth_values_are_a_category() -> None:
    assert guessed(ColumnFacts("x", "boolean", 2)) == {"kind": "category", "values": ["false", "true"]}


def test_prefectures_bring_their_regions_and_all_47_values() -> None:
    assert guessed(texts(*PREFECTURES[:5])) == {"kind": "category", "hierarchy": {"builtin": "jp-prefecture"}}
    assert guessed(texts("東京", "大阪", "京都"))["values"] == ["京都", "大阪", "東京"]


# --- the file -----------------------------------------------------------------------------------------------------

COLUMNS = [
    ColumnFacts("会員番号", "integer", 5000, low=1, high=5000, rows=5000),
    ColumnFacts('na"me\\ \n', "text", 2, values=('say "hi"', "tab\t\x7f"), has_missing=True),
    ColumnFacts("age", "integer", 74, low=17, high=90),
    ColumnFacts("share", "number", 900, low=0.013, high=1e-3 + 0.8),
    ColumnFacts("huge", "number", 900, low=-1e300, high=1e300),
    ColumnFacts("tiny", "number", 900, low=0, high=1e-300),
    ColumnFacts("day", "date", 300, low="2024-01-05", high="2024-12-30"),
    ColumnFacts("mesh", "text", 2, values=("53394611", "53394612")),
    ColumnFacts("flag", "boolean", 2),
]


@pytest.mark.parametrize("columns", [COLUMNS, *([column] for column in COLUMNS)])
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_every_proposal_reads_back_and_is_marked_as_inferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: list[ColumnFacts], lang: str
) -> None:
    monkeypatch.setenv("SUDARE_LANG", lang)
    path = tmp_path / "proposed.toml"
    text = propose(columns, "会員")
    path.write_text(text, encoding="utf-8")
    schema = Schema.read(path)
    undeclared = {column.name for column in columns} - {*schema.names, *schema.identifiers}

    assert undeclared <= {"huge", "tiny"}
    assert all(f"# {name} " in text for name in undeclared)
    assert schema.origin == "inferred"
    with pytest.raises(NotConfirmed):
        schema.require_confirmed()


def test_the_proposal_speaks_the_language_of_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_LANG", "ja")

    assert propose(COLUMNS, "会員").startswith("# データから作った案です。")


def test_nothing_can_be_proposed_without_columns() -> None:
    with pytest.raises(SchemaError, match="no columns"):
        propose([], "people")


def test_whole_numbers_written_as_decimals_have_no_bins_between_them() -> None:
    """Children written as 2.0 had bins of half a child, of which every other one can hold nobody."""
    values = tuple(f"{number}.0" for number in range(7))
    found = guessed(ColumnFacts("babies", "number", 7, low=0, high=6, values=values))

    assert (found["bins"], found["grain"]) == ({"start": 0, "stop": 7, "width": 1}, 1)
