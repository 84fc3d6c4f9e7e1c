"""Recipes: what a file may say, what it will do, and what is told when it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from sudare.demo.data import write_coast
from sudare.errors import BudgetExceeded, LedgerError, ParameterError, RelationMismatch, ReleaseError, SudareError
from sudare.methods.microdata import Microdata
from sudare.methods.registry import find_method
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.privacy import Guarantee, Ledger, Spend
from sudare.recipe.file import read_recipe, recipe_form
from sudare.recipe.ledger import begin, end, find_lost_spends, find_mark
from sudare.recipe.plan import plan_recipe
from sudare.schema import Attribute, Schema, Unit, Values
from tests.recipe_texts import HEAD, RECORDS, SCHEMA

TABLE = '\n[[release]]\nname = "table"\npublish = "table"\nepsilon = 0.5\nby = ["age"]\n'
SEX = Schema(name="s", attributes=(Attribute(name="sex", domain=Values(values=("F", "M"))),))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a small table and its schema."""
    (tmp_path / "members.csv").write_text("item,age\nh1,20\nh2,30\n")
    (tmp_path / "members.toml").write_text(SCHEMA)
    return tmp_path


def written(place: Path, text: str) -> Path:
    file = place / "recipe.toml"
    file.write_text(text, encoding="utf-8")
    return file


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["microdata", "table", "view", "kanon", "location"])
def test_a_release_takes_every_parameter_of_its_method_by_the_same_name(kind: str) -> None:
    variants = recipe_form().table("release").variants

    assert variants is not None
    assert set(find_method(kind).parameters()) <= set(variants.keys[kind])


def test_paths_are_relative_to_the_recipe_and_numbers_exact(place: Path) -> None:
    recipe = read_recipe(written(place, HEAD + RECORDS + TABLE))

    assert recipe.out == place / "releases"
    assert recipe.ledger is not None
    assert recipe.ledger.file == place / "members.ledger"
    assert recipe.releases[0].source == str(place / "members.csv")
    assert Table(**recipe.releases[1].parameters).epsilon == Fraction(1, 2)


def test_a_release_may_have_a_source_of_its_own(place: Path) -> None:
    recipe = read_recipe(written(place, HEAD + RECORDS + 'source = "sums.csv"\ncount = "n"\n' + TABLE))

    assert recipe.releases[0].source == str(place / "sums.csv")
    assert recipe.releases[0].reading == {"count_column": "n"}
    assert recipe.releases[1].reading == {}


@pytest.mark.parametrize("name", ["表" * 66, "r" * 200, "2026 年 11 月"])
def test_a_name_may_have_as_many_letters_as_a_file_system_takes(place: Path, name: str) -> None:
    recipe = read_recipe(written(place, HEAD + RECORDS.replace("records", name)))

    assert recipe.releases[0].name == name


def test_a_register_is_found_beside_the_recipe(place: Path) -> None:
    rows = '\n[[release]]\nname = "rows"\npublish = "kanon"\nk = 2\nregister = "people/*.csv"\n'
    recipe = read_recipe(written(place, HEAD + rows))

    assert recipe.releases[0].extras == {"register": str(place / "people/*.csv")}


def test_a_file_with_a_mark_and_windows_line_ends_is_read(place: Path) -> None:
    file = place / "recipe.toml"
    file.write_bytes(b"\xef\xbb\xbf" + (HEAD + RECORDS).replace("\n", "\r\n").encode())

    assert read_recipe(file).releases[0].name == "records"


WRONG: list[tuple[str, tuple[str, ...]]] = [
    ("[recipe\n", ("line 1, column 1", "on a line of its own: [recipe]")),
    ("version = 1\n", ("line 1", "version is written before the first table; move it under [recipe]")),
    (HEAD, ("[[release]] is missing", 'name = "records", publish = "microdata"')),
    (HEAD + "[release]\n", ("line 10", "write [[release]], in double brackets")),
    (RECORDS, ("line 1", "[recipe] is missing", 'version = 1, out = "releases"')),
    (HEAD.replace("version = 1", "version = 2") + RECORDS, ("line 2", "version (2) must be 1; update sudare")),
    (HEAD.replace('out = "releases"\n', "") + RECORDS, ("line 1", "out is missing", 'out = "releases"')),
    (HEAD.replace("out =", "outt =") + RECORDS, ("line 5", "unknown key outt; did you mean out?")),
    (
        HEAD.replace('budget = "2"', "budget = true") + RECORDS,
        ("line 9", "budget (true)", "between 1/1000000 and 1000"),
    ),
    (HEAD.replace('source = "members.csv"\n', "") + RECORDS, ("line 1", "source is missing")),
    (HEAD + RECORDS.replace('publish = "microdata"\n', ""), ("line 11", "publish is missing", '"microdata", "table"')),
    (HEAD + RECORDS.replace('"microdata"', '"micro"'), ("line 13", 'publish ("micro")', 'did you mean "microdata"?')),
    (HEAD + RECORDS.replace("epsilon", "epsilom"), ("line 14", "unknown key epsilom; did you mean epsilon?")),
    (HEAD + RECORDS.replace('"1/2"', "[1]"), ("line 14", "epsilon ([1])")),
    (HEAD + RECORDS.replace('"records"', '"a/b"'), ("line 12", 'name ("a/b")')),
    (HEAD + RECORDS.replace('"records"', '".hidden"'), ("line 12", 'name (".hidden")')),
    (HEAD + RECORDS.replace('"records"', '"page.html"'), ("line 12", 'name ("page.html")')),
    (HEAD + RECORDS.replace('"records"', '"a\\u200Bb"'), ("line 12", 'name ("a\\u200bb")')),
    (HEAD + RECORDS.replace('"records"', '"a\\nb"'), ("line 12", 'name ("a\\u000ab")')),
    (HEAD + RECORDS.replace('"records"', '"\\u007F"'), ("line 12", "name (")),
    (HEAD + RECORDS.replace('"records"', f'"{"表" * 67}"'), ("line 12", "name (")),
    (HEAD + RECORDS + 'format = "xls"\n', ("line 15", 'format ("xls") must be one of "parquet", "csv"')),
    (HEAD + RECORDS + "report = 1\n", ("line 15", "report (1)", "report = true")),
    (HEAD + RECORDS + 'focus = "cells"\n', ("line 15", 'focus goes with publish = "table" only')),
    (HEAD + RECORDS + 'map = "coast.toml"\n', ("line 15", 'map goes with publish = "location" only')),
    (HEAD + RECORDS + "by = []\n", ("line 15", "by ([])")),
    (HEAD + RECORDS + 'algorithm = "trees"\n', ("line 15", 'algorithm ("trees")', 'did you mean "tree"?')),
    (HEAD + RECORDS + 'algorithm = "tree"\nmethod = "tree"\n', ("line 16", "method is an old name of algorithm")),
    (HEAD + RECORDS + RECORDS.replace("records", "Records"), ("line 17", "two releases are called Records")),
    (HEAD + '[[release]]\nname = "k"\npublish = "kanon"\nk = "5"\n', ("line 13", 'k ("5")', "did you mean 5?")),
    (HEAD + '[[release]]\nname = "m"\npublish = "location"\nmap = "m.toml"\n', ("line 10", "epsilon_per_metre")),
]


@pytest.mark.parametrize(("text", "parts"), WRONG)
def test_a_fault_is_told_in_one_line_with_its_place(place: Path, text: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError) as caught:
        read_recipe(written(place, text))

    told = str(caught.value)
    assert all(part in told for part in parts), told
    assert "\n" not in told


def test_every_complaint_about_a_file_has_its_japanese(place: Path) -> None:
    for text, _ in WRONG[1:]:
        with pytest.raises(ParameterError) as caught:
            read_recipe(written(place, text))
        told = caught.value.render("ja")

        assert "行目" in told
        assert not any(word in told for word in (" is ", " allowed ", " needs ", "cannot", "missing"))


@pytest.mark.parametrize("promise", ["", 'epsilon = "1/2"\nrho = "1/10"\n', 'delta = "1e-9"\n'])
def test_a_release_that_does_not_say_what_it_promises_in_one_way_is_refused_at_its_line(
    place: Path, promise: str
) -> None:
    with pytest.raises(SudareError, match=r"recipe\.toml, line 11: .*rho") as caught:
        plan_recipe(written(place, HEAD + RECORDS.replace('epsilon = "1/2"\n', promise)))

    assert "\n" not in str(caught.value)


def test_a_recipe_that_is_not_there_or_no_text_is_refused(place: Path) -> None:
    (place / "recipe.toml").write_bytes(b'[recipe]\nout = "\x81"\n')

    with pytest.raises(ParameterError, match="neither UTF-8 nor Shift_JIS"):
        read_recipe(place / "recipe.toml")
    with pytest.raises(SudareError, match="cannot be read"):
        read_recipe(place / "absent.toml")


def test_a_recipe_saved_in_shift_jis_is_read(place: Path) -> None:
    (place / "recipe.toml").write_bytes((HEAD + RECORDS).replace("records", "公開").encode("cp932"))

    assert read_recipe(place / "recipe.toml").releases[0].name == "公開"


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_a_plan_tells_promise_and_cost_and_writes_nothing(place: Path) -> None:
    before = sorted(place.iterdir())
    plan = plan_recipe(written(place, HEAD + RECORDS + TABLE))

    assert [release.cost for release in plan.to_do] == [Fraction(1, 2), Fraction(1, 2)]
    assert plan.needed == 1
    assert plan.ledger is not None
    assert not plan.ledger.exists
    assert sorted(place.iterdir()) == sorted([*before, place / "recipe.toml"])


def test_add_remove_costs_twice_under_a_replace_ledger(place: Path) -> None:
    plan = plan_recipe(written(place, HEAD + RECORDS + 'neighbours = "add-remove"\n'))

    assert plan.needed == 1


@pytest.mark.parametrize(
    ("text", "kind", "parts"),
    [
        (HEAD + RECORDS.replace("1/2", "0"), ParameterError, ("line 14", "records", 'epsilon ("0")')),
        (HEAD + RECORDS + 'method = "best"\n', ParameterError, ("line 15", 'method ("best")')),
        (HEAD + RECORDS + 'by = "colour"\n', SudareError, ("line 11", "colour")),
        (HEAD + RECORDS.replace("1/2", "3"), BudgetExceeded, ("need epsilon 3", "records 3", "2 of 2 is left")),
        (HEAD + RECORDS.replace("1/2", "3/2") + TABLE.replace("0.5", "1"), BudgetExceeded, ("5/2", "table 1")),
        (HEAD.replace('"2"', '"much"') + RECORDS, ParameterError, ("line 9", "[ledger]", 'budget ("much")')),
        (HEAD + 'neighbours = "all"\n' + RECORDS, ParameterError, ("line 10", 'neighbours ("all")')),
        (HEAD.replace('budget = "2"\n', "") + RECORDS, LedgerError, ("there is no ledger", "ledger create")),
        (HEAD.partition("[ledger]")[0] + RECORDS, LedgerError, ("needs a ledger",)),
        (HEAD.replace("members.csv", "absent.csv") + RECORDS, SudareError, ("line 11", "absent.csv")),
        (HEAD.replace("members.toml", "absent.toml") + RECORDS, SudareError, ("absent.toml",)),
        (HEAD.replace('"releases"', '"no/releases"') + RECORDS, ReleaseError, ("there is no directory",)),
        (HEAD.replace('"releases"', '"members.csv"') + RECORDS, ReleaseError, ("exists",)),
        (HEAD + '[[release]]\nname = "m"\npublish = "location"\nmap = "m.toml"\nepsilon_per_metre = 0.02\n',
         SudareError, ("line 10", "m.toml")),
        (HEAD + '[[release]]\nname = "k"\npublish = "kanon"\nk = 1\n', ParameterError, ("line 13", "k (1)")),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_before_anything_is_made(
    place: Path, text: str, kind: type[SudareError], parts: tuple[str, ...]
) -> None:
    with pytest.raises(kind) as caught:
        plan_recipe(written(place, text))

    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert not (place / "members.ledger").exists()
    assert not (place / "releases").exists()


def test_a_ledger_of_another_budget_relation_or_unit_is_refused(place: Path) -> None:
    file = written(place, HEAD + RECORDS)
    unit = Unit(kind="person", column="id", max_rows=2)
    Ledger.create(place / "members.ledger", epsilon=2, unit=unit).close()
    with pytest.raises(RelationMismatch, match="person"):
        plan_recipe(file)
    written(place, HEAD.replace('"2"', '"3"') + RECORDS)
    with pytest.raises(LedgerError, match="has a budget of epsilon 2, and the recipe says epsilon 3"):
        plan_recipe(file)
    written(place, HEAD + 'neighbours = "add-remove"\n' + RECORDS)

    with pytest.raises(LedgerError, match="kept for neighbours replace"):
        plan_recipe(file)


def test_k_anonymity_beside_other_releases_is_warned_of(place: Path) -> None:
    rows = '\n[[release]]\nname = "rows"\npublish = "kanon"\nk = 2\n'

    assert plan_recipe(written(place, HEAD.partition("[ledger]")[0] + rows)).notes() == []
    assert "does not compose" in str(plan_recipe(written(place, HEAD + RECORDS + rows)).notes()[0])


def test_a_map_needs_no_ledger(place: Path) -> None:
    write_coast(place, rows=6, columns=6)
    text = '[recipe]\nversion = 1\nout = "r"\n[[release]]\nname = "m"\npublish = "location"\n'
    plan = plan_recipe(written(place, text + 'map = "coast.toml"\nepsilon_per_metre = 0.02\n'))

    assert plan.ledger is None
    assert plan.needed == 0


# --- what a method asks for, and what was lost ------------------------------------------------------------------------


@pytest.mark.parametrize("method", [Microdata(epsilon=1), Table(epsilon=1), View(epsilon=1)])
def test_the_plan_of_a_method_tells_all_of_its_spend(method: Microdata | Table | View) -> None:
    plan = method.plan(SEX, neighbours="add-remove")

    assert sum(plan.parts.values()) == Fraction(plan.promise.to_dict()["epsilon"]) == 1
    assert plan.promise.neighbours == "add-remove"


def test_what_was_spent_since_the_beginning_and_is_in_no_certificate_is_lost(tmp_path: Path) -> None:
    parts: Mapping[str, Fraction] = {"noise in every cell": Fraction(1, 2)}
    promise = Guarantee(epsilon=Fraction(1, 2), neighbours="replace", unit=Unit())
    with Ledger.create(tmp_path / "l", epsilon=5) as ledger:
        ledger.spend(parts, guarantee=promise)  # of before
        begin(tmp_path, "records", entries=1)
        ledger.spend({"another purpose": Fraction(1, 2)}, guarantee=promise)
        (mine,) = ledger.spend(parts, guarantee=promise)
        (published,) = ledger.spend(parts, guarantee=promise)
        entries = ledger.entries()
    found = find_lost_spends(tmp_path, "records", parts=parts, entries=entries, published=[str(published.head)])

    assert found == (mine,)
    assert find_lost_spends(tmp_path, "other", parts=parts, entries=entries, published=[]) == ()


def test_a_note_keeps_the_first_beginning_until_the_end(tmp_path: Path) -> None:
    begin(tmp_path, "records", entries=3)
    begin(tmp_path, "records", entries=9)
    spend = Spend(seq=5, time="t", purpose="p", amount=Fraction(1), cost=Fraction(1), head="h")

    assert find_lost_spends(tmp_path, "records", parts={"p": Fraction(1)}, entries=[spend], published=[]) == (spend,)
    end(tmp_path, "records")
    assert not find_mark(tmp_path, "records").exists()


def test_a_ledger_that_went_away_is_not_made_anew_for_what_was_begun(place: Path) -> None:
    (place / "releases").mkdir()
    begin(place / "releases", "records", entries=0)

    with pytest.raises(LedgerError, match="bring it back"):
        plan_recipe(written(place, HEAD + RECORDS))
