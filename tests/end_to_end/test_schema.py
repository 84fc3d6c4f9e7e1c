"""`sudare schema show` tells what a schema declares, in either language, and opens no table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.end_to_end.conftest import SCHEMA, Ran

Sudare = Callable[..., Ran]


def test_a_schema_is_shown_with_its_attributes_unit_and_cells(place: Path, sudare: Sudare) -> None:
    ran = sudare("schema", "show", "members.toml")

    assert ran.code == 0
    assert [line.split()[:3] for line in ran.out.splitlines()[1:3]] == [
        ["item", "3", "unordered"],
        ["age", "5", "ordered"],
    ]
    assert "protected: a row" in ran.out
    assert "cells of the complete table: 15" in ran.out


def test_a_schema_that_was_inferred_is_said_to_be_unconfirmed(place: Path, sudare: Sudare) -> None:
    (place / "draft.toml").write_text(SCHEMA.replace("schema = 1", "schema = 1\ninferred = true"), encoding="utf-8")

    ran = sudare("schema", "show", "draft.toml")

    assert 'write inferred = "confirmed"' in ran.out


def test_a_schema_is_shown_to_programs_as_json(place: Path, sudare: Sudare) -> None:
    ran = sudare("schema", "show", "members.toml", "--json")

    assert [one["name"] for one in json.loads(ran.out)["attributes"]] == ["item", "age"]


def test_a_file_that_is_no_schema_is_refused_in_one_line(place: Path, sudare: Sudare) -> None:
    (place / "broken.toml").write_text("[sudare\n", encoding="utf-8")

    ran = sudare("schema", "show", "broken.toml")

    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "broken.toml" in ran.err


def test_every_mistake_of_a_schema_is_listed_in_the_order_of_the_file(place: Path, sudare: Sudare) -> None:
    (place / "wrong.toml").write_text(SCHEMA.replace("schema = 1", "schema = 1\nnmae = 1").replace("kind =", "knd ="))

    ran = sudare("schema", "show", "wrong.toml")

    assert (ran.code, ran.out) == (1, "")
    assert [line.partition(":")[2].partition(":")[0].strip() for line in ran.err.splitlines()][:1] == [
        "wrong.toml, line 3"
    ]
    assert ran.err.count("did you mean kind?") == SCHEMA.count("kind =")


def test_examples_and_json_schemas_of_all_files_are_printed(place: Path, sudare: Sudare) -> None:
    for form, table in (("schema", "[sudare]"), ("map", "[grid]"), ("recipe", "[recipe]"), ("request", "[request]")):
        example, described = sudare("schema", "example", "--of", form), sudare("schema", "json", "--of", form)

        assert table in example.out.splitlines()
        assert table.strip("[]") in json.loads(described.out)["properties"]
