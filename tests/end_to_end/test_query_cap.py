"""Answers of `sudare query` under a cap of rows of a person, and from a table, which has no model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.end_to_end.conftest import Ran

SCHEMA = """[sudare]
schema = 1
[unit]
kind = "person"
column = "id"
max_rows = 2
[[attribute]]
name = "shop"
kind = "category"
values = ["a", "b"]
"""


def test_an_answer_says_that_rows_beyond_the_cap_are_in_no_figure(place: Path, sudare: Callable[..., Ran]) -> None:
    table, schema, out = place / "t.csv", place / "s.toml", place / "out"
    table.write_text("id,shop\n" + "".join(f"{row % 40},{'ab'[row % 2]}\n" for row in range(200)), encoding="utf-8")
    schema.write_text(SCHEMA, encoding="utf-8")
    sudare("publish", "table", str(table), "--schema", str(schema), "--epsilon", "1", "--out", str(out))

    told = sudare("query", str(out), "SELECT shop, SUM(count) FROM cells GROUP BY shop").out
    refused = sudare("query", str(out), "SELECT AVG(count) FROM cells").err

    assert "Of the rows of a person at most 2 are counted" in told
    assert "where a condition cuts a cell" in told
    assert "model" not in told
    assert "the column count outside of SUM(count) is not answered" in refused
