"""Objects show themselves in a notebook, in the language of whoever looks, and never with anything unescaped."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import sudare as sd
from sudare.asking.answers import AnswerTable, Estimate
from sudare.noise import SeededRng
from sudare.releases import Coded, Frame
from sudare.sources.base import OUTSIDE, Findings, Misfit
from sudare.testing import Tabled
from sudare.testing.subject import even_table, schema_of
from sudare.text import text, use_language
from sudare.text.cards import MOST_ROWS, card

NASTY = "<script>alert('x')</script> & \"quoted\""


class _Tags(HTMLParser):
    """Every tag is closed in order, and none is a script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.all: set[str] = set()
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.all.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def words(shown: str) -> str:
    """The words of a piece of HTML, after checking that it is well-formed and runs nothing."""
    tags = _Tags(shown)
    assert not tags.open
    assert "script" not in tags.all
    return " ".join(tags.text)


def release() -> sd.Release:
    return sd.Microdata(epsilon=1).publish(Tabled(even_table()), rng=SeededRng(1))


def view() -> sd.OpenedView:
    return sd.open_view(sd.View(epsilon=10).publish(Tabled(even_table()), rng=SeededRng(1)))


def ledger(tmp_path: Path) -> sd.Ledger:
    made = sd.Ledger.create(tmp_path / "people.ledger", epsilon=2)
    sd.Microdata(epsilon="1/2").publish(Tabled(even_table()), ledger=made)
    return made


def test_a_schema_shows_its_attributes_and_whom_it_protects() -> None:
    shown = words(schema_of(8, 3)._repr_html_())

    assert all(part in shown for part in ("a0", "a1", "a row", "24"))


def test_a_release_shows_its_promise_and_tables_and_that_a_seed_protects_nobody() -> None:
    shown = words(release()._repr_html_())

    assert "epsilon" in shown
    assert "records" in shown
    assert "NOT PRIVATE" in shown


def test_a_certificate_is_shown_in_the_language_of_whoever_looks() -> None:
    certificate = release().certificate
    english = words(certificate._repr_html_())
    with use_language("ja"):
        japanese = words(certificate._repr_html_())

    assert "Certificate of a microdata release" in english
    assert "証明書" in japanese


def test_a_ledger_shows_what_was_spent_and_what_is_left(tmp_path: Path) -> None:
    with ledger(tmp_path) as opened:
        shown = words(opened._repr_html_())

    assert "1/2 of 2 spent, 3/2 left" in shown
    assert "noise in every cell" in shown


def test_findings_are_marked_as_for_the_steward_and_escape_values_of_the_table() -> None:
    findings = Findings(problems=(Misfit(attribute="age", problem=OUTSIDE, rows=2, examples=(NASTY,)),))
    shown = words(findings._repr_html_())

    assert "for the steward only" in shown
    assert NASTY in shown


def test_a_source_shows_its_columns_and_no_row(tmp_path: Path) -> None:
    file = tmp_path / "pets.csv"
    file.write_text("pet,owner\nsecretcat,7\nsecretdog,8\n", encoding="utf-8")
    schema = sd.Schema(
        name="pets", attributes=(sd.Attribute(name="pet", domain=sd.Values(("secretcat", "secretdog"))),)
    )
    with sd.open(file, schema) as source:
        shown = words(source._repr_html_())

    assert "owner" in shown
    assert "secret" not in shown


def test_an_estimate_and_a_table_of_answers_show_intervals() -> None:
    opened = view()
    estimate = opened.count(a0="v0")
    answers = opened.sql("SELECT a0, COUNT(*) FROM view GROUP BY a0")

    assert str(estimate) in words(estimate._repr_html_())
    assert "interval of level 0.95" in words(answers._repr_html_())


def test_days_with_their_intervals_stand_in_one_line() -> None:
    first = Estimate(
        value=738611, low=738600, high=738630, level=0.95, noise_deviation=1, model_deviation=0, is_day=True
    )
    unsure = Estimate(
        value=1, low=math.nan, high=math.nan, level=0.95, noise_deviation=1, model_deviation=0, reason=text("too few")
    )
    shown = AnswerTable(("day", "n"), ((first, unsure),), 0.95)._repr_html_()

    assert f"white-space:nowrap'>{first}<" in shown
    assert "no interval: too few" in words(shown)


def test_a_draft_of_a_schema_is_shown_saved_and_confirmed_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "pets.csv"
    file.write_text("pet\ncat\ndog\n" * 5, encoding="utf-8")
    draft = sd.propose_schema(file)

    assert "cat" in words(draft._repr_html_())
    assert sd.Schema.read(draft.save(tmp_path / "draft.toml")).origin == "inferred"
    assert sd.Schema.read(draft.save(tmp_path / "good.toml", confirmed=True)).origin == "confirmed"
    with pytest.raises(sd.SudareError, match="exists"):
        draft.save(tmp_path / "good.toml")


def test_a_long_table_is_cut_and_says_so() -> None:
    shown = words(card("long", rows=[(row,) for row in range(MOST_ROWS + 7)]))

    assert "and 7 more rows" in shown


FRAME = Frame({"sex": Coded(np.array([0, 1, 2]), np.array(["F", NASTY, None], dtype=object)), "n": np.array([1, 2, 3])})


def test_a_published_table_converts_to_pandas_polars_and_arrow_alike() -> None:
    for package in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(package)
    rows = [("F", 1), (NASTY, 2), (None, 3)]
    pandas = FRAME.to_pandas()

    assert list(zip(FRAME.to_polars()["sex"].to_list(), FRAME.to_polars()["n"].to_list(), strict=True)) == rows
    assert [tuple(row.values()) for row in FRAME.to_arrow().to_pylist()] == rows
    assert [(None if value != value else value, n) for value, n in pandas.itertuples(index=False)] == rows
    assert NASTY in words(FRAME._repr_html_())


def test_answers_convert_with_the_ends_of_their_intervals_beside_them() -> None:
    pytest.importorskip("polars")
    answers = view().sql("SELECT a0, COUNT(*) AS n FROM view GROUP BY a0")
    frame = answers.to_polars()

    assert frame.columns == ["a0", "n", "n_low", "n_high"]
    assert (frame["n_low"] <= frame["n"]).all()


def test_sampled_records_have_the_labels_of_the_schema() -> None:
    frame = view().sample(50)

    assert frame.rows == 50
    assert set(frame.decode()["a0"].tolist()) <= set(even_table().schema.attribute("a0").labels(np.arange(8)).tolist())


def test_a_release_with_several_tables_asks_which_one_to_convert() -> None:
    several = sd.Release({"a": FRAME, "b": FRAME}, release().certificate)

    with pytest.raises(sd.SudareError, match="several tables"):
        several.to_pandas()
    with pytest.raises(sd.SudareError, match="has no table c; it has a, b"):
        several.to_pandas("c")


@pytest.mark.parametrize("method", [sd.Microdata(epsilon=1), sd.Table(epsilon=1), sd.View(epsilon=1)])
def test_a_preview_shows_its_lines(method: sd.Method) -> None:
    shown = words(method.preview(schema_of(8, 3), rows=1000)._repr_html_())

    assert "Before anything is spent" in shown
    assert "24" in shown


def test_short_labels_stand_in_one_line_and_long_ones_may_break() -> None:
    shown = card("t", columns=("店舗",), rows=[("新宿店",), ("長い説明" * 20,)])

    assert "white-space:nowrap;font-weight:600'>店舗<" in shown
    assert "white-space:nowrap'>新宿店<" in shown
    assert "background:none'>長い説明" in shown


def test_outside_a_notebook_objects_show_themselves_in_a_few_lines() -> None:
    opened = view()
    answers = repr(opened.sql("SELECT a0, COUNT(*) AS n FROM view GROUP BY a0")).splitlines()

    assert repr(opened) == f"<View of {opened.schema.name}: {', '.join(opened.schema.names)}>"
    assert repr(opened.schema) == f"<Schema {opened.schema.name}: {', '.join(opened.schema.names)}>"
    assert answers[0] == "a0 | n"
    assert all("[" in line and line.startswith("v") for line in answers[1:])
    assert repr(release()).startswith("<Release by microdata (records: ")
