"""Answers of `sudare query` under a cap of rows of a person, and from a table, which has no model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sudare.methods.view import open_view
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
    drawn = sudare("query", str(out), "SELECT shop, SUM(count) FROM cells GROUP BY shop", "--chart").out

    assert "Of the rows of a person at most 2 are counted" in told
    assert "at most 2 are counted" in drawn
    assert "where a condition cuts a cell" in told
    assert "model" not in told
    assert "the column count outside of SUM(count) is not answered" in refused


def test_answers_from_python_and_of_two_releases_say_which_rows_of_a_person_they_count(
    place: Path, sudare: Callable[..., Ran]
) -> None:
    table, schema = place / "t.csv", place / "s.toml"
    table.write_text("id,shop\n" + "".join(f"{row % 40},{'ab'[row % 2]}\n" for row in range(200)), encoding="utf-8")
    for rows in (2, 3):
        schema.write_text(SCHEMA.replace("max_rows = 2", f"max_rows = {rows}"), encoding="utf-8")
        sudare(
            "publish", "view", str(table), "--schema", str(schema), "--epsilon", "1", "--out", str(place / str(rows))
        )
    first, second = (str(place / str(rows)) for rows in (2, 3))
    both = "SELECT COUNT(*) - (SELECT COUNT(*) FROM later) FROM view"

    alone = [str(note) for note in open_view(first).sql("SELECT COUNT(*) FROM view").notes]
    told = sudare("query", first, both, "--with", f"later={second}").out
    drawn = sudare("query", first, "SELECT COUNT(*) FROM view", "--records").out

    assert [note[:47] for note in alone] == ["Of the rows of a person at most 2 are counted, c"[:47]]
    assert "view: Of the rows of a person at most 2 are counted" in told
    assert "later: Of the rows of a person at most 3 are counted" in told
    assert "at most 2 are counted" in drawn
