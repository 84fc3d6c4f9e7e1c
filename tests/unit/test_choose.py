"""Choosing: the rules of docs/how-to/choose-a-method.md, one by one, and what is foreseen for each epsilon."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from sudare.advise.answers import Answers, Choice
from sudare.advise.choose import _choose_epsilon, advise, advise_kanon, advise_places, decide, is_crowded, read_facts
from sudare.advise.next_steps import FileNames, list_commands, write_recipe_text
from sudare.demo.data import write_coast
from sudare.errors import ParameterError, SchemaError
from sudare.methods.base import Expected
from sudare.methods.kanon import KAnonymity
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.recipe.file import read_recipe
from sudare.schema import Attribute, Impossible, MeshCells, NumberBins, Schema, Unit, Values
from sudare.schema.hierarchy_rules import intervals
from sudare.testing.subject import schema_of
from sudare.text import text

SEX = Attribute(name="sex", domain=Values(values=("F", "M")))
AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))
ITEM = Attribute(name="item", domain=Values(values=tuple(f"h{k}" for k in range(50))))
SMALL = Schema(name="small", attributes=(SEX, AGE))
MIDDLE = Schema(name="middle", attributes=(SEX, AGE, ITEM))
DIGITS = Values(values=tuple("0123456789"))
WIDE = Schema(name="wide", attributes=tuple(Attribute(name=f"a{k}", domain=DIGITS) for k in range(40)))
MESH = Schema(name="mesh", attributes=(Attribute(name="mesh", domain=MeshCells(level=5, area=("5339",))), SEX, AGE))
IMPOSSIBLE = Schema(
    name="impossible", attributes=(SEX, AGE), impossible=(Impossible(values=(("sex", (0,)), ("age", (0,)))),)
)


def chosen(schema: Schema, need: str, rows: int | None = None, **more: object) -> Choice:
    return advise(schema, Answers(need=need, rows=rows, **more)).choice  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schema", "need", "rows", "publish", "mode"),
    [
        (SMALL, "records", 20_000, "microdata", {"algorithm": "auto"}),
        (SMALL, "records", None, "microdata", {"algorithm": "auto"}),
        (MIDDLE, "records", 2_000, "view", {"algorithm": "model"}),
        (WIDE, "records", 10**6, "view", {"algorithm": "model"}),
        (WIDE, "records", None, "view", {"algorithm": "model"}),
        (SMALL, "counts", 20_000, "table", {"workload": "cells"}),
        (MESH, "counts", 20_000, "table", {"workload": "mix"}),
        (WIDE, "counts", 20_000, "view", {"algorithm": "model"}),
        (MESH, "region-sums", 10**6, "table", {"workload": "mix"}),
        (WIDE, "region-sums", 10**6, "view", {"algorithm": "model"}),
        (MIDDLE, "region-sums", 1000, "view", {"algorithm": "model"}),
        (MIDDLE, "region-sums", 10**6, "table", {"workload": "mix"}),
        (SMALL, "region-sums", 30, "table", {"workload": "mix"}),
        (SMALL, "queries", 20_000, "view", {"algorithm": "model"}),
        (SMALL, "sample", 20_000, "view", {"algorithm": "model"}),
        (IMPOSSIBLE, "queries", 20_000, "table", {"workload": "mix"}),
        (IMPOSSIBLE, "sample", 20_000, "microdata", {"algorithm": "auto"}),
    ],
)
def test_a_need_and_public_facts_decide_the_method(
    schema: Schema, need: str, rows: int | None, publish: str, mode: dict[str, str]
) -> None:
    choice = chosen(schema, need, rows)

    assert choice.publish == publish
    assert mode.items() <= choice.parameters.items()


def test_a_method_that_does_not_take_the_schema_is_named_with_the_reason() -> None:
    notes = advise(IMPOSSIBLE, Answers(need="queries", rows=1000)).notes

    assert any(str(note).startswith("view cannot be used: ") and "impossible" in str(note) for note in notes)


def test_nothing_is_called_few_enough_that_is_too_much() -> None:
    box = Impossible(values=(("sex", (0,)), ("age", (0,))))
    crowded = Schema(name="c", attributes=MIDDLE.attributes, impossible=(box,))
    told = advise(crowded, Answers(need="records", rows=100))

    assert told.choice.publish == "microdata"
    assert not any("few enough" in str(line) for line in told.why)
    assert any("coarser" in str(note) for note in told.notes)


@pytest.mark.parametrize("need", ["records", "counts", "region-sums", "queries", "sample"])
@pytest.mark.parametrize("schema", [SMALL, MIDDLE, MESH, WIDE, IMPOSSIBLE])
def test_advice_has_reasons_losses_a_runner_up_and_an_error_for_every_epsilon(schema: Schema, need: str) -> None:
    told = advise(schema, Answers(need=need, rows=5000, epsilons=("0.1", "1")))  # type: ignore[arg-type]

    assert 2 <= len(told.why) <= 4
    assert told.lost
    assert [value for value, _ in told.expected] == ["1/10", "1"]
    assert all("off by" in str(one.words) for _, one in told.expected)
    assert told.runner_up is None or told.runner_up.words() != told.choice.words()


def test_the_smallest_epsilon_with_a_small_error_is_recommended() -> None:
    few, many = (chosen(SMALL, "records", rows, epsilons=("0.1", "1")) for rows in (1000, 10**6))

    assert few.parameters["epsilon"] == "1"
    assert many.parameters["epsilon"] == "1/10"


def test_more_than_four_is_never_recommended_if_there_is_less() -> None:
    told = advise(SMALL, Answers(need="records", rows=50, epsilons=("0.1", "1", "10")))
    only = advise(SMALL, Answers(need="records", rows=50, epsilons=("10", "20")))

    assert told.choice.parameters["epsilon"] == "1"
    assert any("coarser" in str(note) for note in told.notes)
    assert any("above 4" in str(note) for note in only.notes)


def test_without_a_number_of_records_the_middle_epsilon_is_taken_and_said_so() -> None:
    told = advise(SMALL, Answers(need="counts"))

    assert told.choice.parameters["epsilon"] == "1/2"
    assert any("--rows" in str(note) for note in told.notes)


def test_the_budget_leaves_as_much_for_a_correction() -> None:
    told = advise(SMALL, Answers(need="counts", epsilons=("1/3",)))

    assert told.budget == Fraction(2, 3)


def test_a_hidden_number_of_records_asks_for_add_remove() -> None:
    assert chosen(SMALL, "records", hide_number=True).parameters["neighbours"] == "add-remove"


@pytest.mark.parametrize(
    ("unit", "repeat", "part"),
    [
        (Unit(), True, "a person may have several rows"),
        (Unit(), None, "assumes that nobody has more than one row"),
        (Unit(kind="person", column="id", max_rows=5), None, "noise is about 5 times"),
    ],
)
def test_persons_with_several_rows_are_spoken_of(unit: Unit, repeat: bool | None, part: str) -> None:
    schema = Schema(name="s", attributes=(SEX, AGE), unit=unit)
    told = advise(schema, Answers(need="counts", people_may_repeat=repeat))

    assert any(part in str(line) for line in (*told.warnings, *told.notes))


def test_one_row_a_person_needs_no_word() -> None:
    notes = advise(SMALL, Answers(need="counts", rows=10**6, people_may_repeat=False)).notes

    assert not [note for note in notes if "rho" not in str(note)]


def test_an_inferred_schema_is_to_be_confirmed() -> None:
    notes = advise(Schema(name="s", attributes=(SEX,), origin="inferred"), Answers(need="counts", rows=10)).notes

    assert any("confirmed" in str(note) for note in notes)


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"rows": 0}, "rows"),
        ({"rows": 10**13}, "rows"),
        ({"epsilons": ()}, "epsilons"),
        ({"epsilons": ("1",) * 6}, "epsilons"),
        ({"epsilons": ("1", "abc")}, r"epsilon \(abc\)"),
        ({"epsilons": ("0",)}, r"epsilon \(0\)"),
        ({"epsilons": ("-5",), "truthful": True}, r"epsilon \(-5\)"),
        ({"epsilons": ("11",), "collector": "devices"}, r"epsilon_per_metre \(11\)"),
    ],
)
def test_answers_outside_their_range_are_refused(wrong: dict[str, object], part: str) -> None:
    with pytest.raises(ParameterError, match=part):
        Answers(need="counts", **wrong)  # type: ignore[arg-type]


def test_an_epsilon_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        advise(SMALL, Answers(need="counts", epsilons=("1", "much")))


def test_a_schema_that_nothing_takes_is_refused_with_every_reason() -> None:
    box = Impossible(values=(("a0", (0,)), ("a1", (0,))))
    attributes = tuple(Attribute(name=f"a{k}", domain=DIGITS) for k in range(400))
    huge = Schema(name="h", attributes=attributes, impossible=(box,))

    with pytest.raises(ParameterError, match=r"view cannot be used: .*; table cannot be used: "):
        advise(huge, Answers(need="queries"))


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_smaller_epsilon_never_has_a_smaller_error() -> None:
    figures = [Table(epsilon=epsilon).expect(MESH).figures["region_standard_deviation"]["1"] for epsilon in (0.1, 1)]

    assert figures[0] > figures[1]


def test_cells_are_crowded_beyond_ten_a_record() -> None:
    assert not is_crowded(SMALL, 4)
    assert is_crowded(SMALL, 3)


def test_blocks_tell_their_least_noise_and_no_verdict() -> None:
    told = View(epsilon=1, algorithm="mondrian").expect(SMALL, rows=1000)

    assert "at least" in str(told.words)
    assert told.is_small is None


def test_the_line_of_a_plan_is_left_out_where_it_would_take_work() -> None:
    assert "expected error: a value of" in str(View(epsilon=1).describe_error(SMALL))
    assert KAnonymity(k=5).describe_error(quasi(hierarchy=True)) is None


# --- true rows --------------------------------------------------------------------------------------------------------


def quasi(hierarchy: bool) -> Schema:
    ages = NumberBins.of_width(0, 100, 5)
    age = Attribute(name="age", domain=ages, role="quasi", hierarchy=intervals(ages, [20]) if hierarchy else None)
    disease = Attribute(name="disease", domain=Values(values=("a", "b")), role="sensitive")
    return Schema(name="q", attributes=(age, disease))


@pytest.mark.parametrize(("hierarchy", "recoding"), [(True, "full"), (False, "mondrian")])
def test_true_rows_ask_for_k_anonymity_in_a_recoding_that_the_schema_takes(hierarchy: bool, recoding: str) -> None:
    told = advise_kanon(quasi(hierarchy), Answers(need="records", truthful=True, rows=1000))

    assert told.choice.parameters["recoding"] == recoding
    assert told.budget is None
    assert [value for value, _ in told.expected] == ["5", "10", "20"]
    assert any("known only from the data" in str(note) for note in told.notes)
    assert any("--criteria l=2,disease" in str(note) for note in told.notes)


def test_advice_on_a_name_with_blanks_can_be_pasted() -> None:
    income = Attribute(name="net income", domain=Values(values=("a", "b")), role="sensitive")
    schema = Schema(name="q", attributes=(*quasi(True).attributes, income))
    told = advise_kanon(schema, Answers(need="records", truthful=True, rows=1000))

    assert any("--criteria 'l=2,net income'" in str(note) for note in told.notes)


def test_without_roles_all_but_sensitive_attributes_are_quasi_identifiers() -> None:
    told = advise_kanon(SMALL, Answers(need="records", truthful=True))

    assert told.choice.parameters["quasi"] == ("sex", "age")
    assert told.choice.words() == "kanon, k 5, recoding mondrian, quasi sex,age"
    assert any('role = "quasi"' in str(note) for note in told.notes)


def test_true_rows_are_told_nothing_about_noise() -> None:
    schema = Schema(name="s", attributes=(SEX, AGE), unit=Unit(kind="person", column="id", max_rows=5))

    assert not any("noise" in str(note) for note in advise_kanon(schema, Answers(need="records", truthful=True)).notes)


def test_made_up_records_beside_true_rows_have_an_epsilon_that_is_advised() -> None:
    told = advise_kanon(SMALL, Answers(need="records", truthful=True, epsilons=("0.5", "10", "0.25")))

    assert told.runner_up is not None
    assert told.runner_up.parameters["epsilon"] == "1/2"


def test_only_sensitive_attributes_are_refused() -> None:
    only = Attribute(name="disease", domain=Values(values=("a", "b")), role="sensitive")

    with pytest.raises(ParameterError, match="sensitive"):
        advise_kanon(Schema(name="s", attributes=(only,)), Answers(need="records", truthful=True))


# --- places -----------------------------------------------------------------------------------------------------------


def test_a_map_asks_for_the_smallest_epsilon_whose_reports_are_near(tmp_path: Path) -> None:
    told = advise_places(write_coast(tmp_path, rows=12, columns=12), Answers(need="places"))
    metres = [one.figures["expected_distance_metres"] for _, one in told.expected]

    assert told.choice.parameters["mode"] == "sharp"
    assert metres == sorted(metres, reverse=True)
    assert told.choice.parameters["epsilon_per_metre"] == "1/50"


def test_a_schema_for_places_and_a_map_for_a_table_are_refused(tmp_path: Path) -> None:
    map_file = write_coast(tmp_path, rows=5, columns=5)

    assert read_facts(map_file) is None
    with pytest.raises(ParameterError, match="is a map"):
        decide(None, map_file, Answers(need="records"))
    with pytest.raises(ParameterError, match="need a map file"):
        decide(SMALL, tmp_path / "s.toml", Answers(need="records", collector="devices"))
    (tmp_path / "bad.toml").write_text("[sudare\n")
    with pytest.raises(SchemaError, match="line 1"):
        read_facts(tmp_path / "bad.toml")


# --- what to do next --------------------------------------------------------------------------------------------------


def test_names_with_blanks_are_quoted_for_a_shell_and_for_toml(tmp_path: Path) -> None:
    answers = Answers(need="records", rows=10**5)
    advice = advise(SMALL, answers)
    names = FileNames.of(Path('my "facts".toml'), "microdata", "the data.csv")
    file = tmp_path / "r.toml"
    file.write_text(write_recipe_text(advice, answers, names, folder=Path()), encoding="utf-8")

    assert list_commands(advice, answers, names)[0] == "sudare schema check 'the data.csv' --schema 'my \"facts\".toml'"
    assert read_recipe(file).releases[0].schema_file == tmp_path / 'my "facts".toml'


def test_an_attribute_with_a_comma_goes_into_the_recipe_and_for_a_flag_into_the_schema(tmp_path: Path) -> None:
    comma = Attribute(name="age, in years", domain=NumberBins.of_width(0, 100, 5))
    answers = Answers(need="records", truthful=True)
    advice = advise_kanon(Schema(name="s", attributes=(SEX, comma)), answers)
    names = FileNames.of(Path("s.toml"), "kanon", None)
    file = tmp_path / "r.toml"
    file.write_text(write_recipe_text(advice, answers, names, folder=Path()), encoding="utf-8")
    lines = list_commands(advice, answers, names)

    assert read_recipe(file).releases[0].parameters["quasi"] == ("sex", "age, in years")
    assert lines[1].startswith('# first set role = "quasi" in s.toml for: sex / age, in years')
    assert "--quasi" not in lines[2]


def test_data_that_are_no_file_are_named_as_they_are() -> None:
    answers = Answers(need="records", rows=10**5)
    names = FileNames.of(Path("s.toml"), "microdata", "s3://b/x.parquet")
    text = write_recipe_text(advise(SMALL, answers), answers, names, folder=Path("elsewhere"))

    assert 'source = "s3://b/x.parquet"' in text
    assert 'schema = "../s.toml"' in text


def test_japanese_sentences_are_not_joined_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_LANG", "ja")
    told = [advise(MIDDLE, Answers(need=need, rows=2000)) for need in ("records", "counts", "region-sums")]  # type: ignore[arg-type]
    lines = [str(one.words) for advice in told for _, one in advice.expected]

    assert all("。" in line for line in lines)
    assert not any("です、" in line or "ます、" in line for line in lines)


# --- pure epsilon or rho ----------------------------------------------------------------------------------------------


def test_many_tables_pay_in_rho_and_a_single_table_does_not() -> None:
    many = schema_of(*[5] * 20)
    wide = advise(many, Answers(need="queries", rows=50_000))
    narrow = advise(SMALL, Answers(need="counts", rows=50_000))

    assert any("times less noise" in str(note) and "--delta 1e-9" in str(note) for note in wide.notes)
    assert any("pure epsilon is better" in str(note) for note in narrow.notes)


def test_what_choose_says_of_rho_is_what_previews_tell() -> None:
    """The deviations of the two previews, and the number of releases from which on rho wins."""
    told = advise(SMALL, Answers(need="counts", rows=50_000))
    note = next(note for note in told.notes if "pure epsilon is better" in str(note))
    epsilon = told.choice.parameters["epsilon"]
    pure, rho = (
        Table(epsilon=epsilon, workload="cells", **more).preview(SMALL).regions[0][1]
        for more in ({}, {"delta": "1e-9"})
    )
    releases = int(note.values["releases"])

    def deviation(number: int, currency: str) -> float:
        whole = Table(epsilon=epsilon, **({"delta": "1e-9"} if currency == "rho" else {})).guarantee().amount
        return Table(**{currency: whole / number}, workload="cells").preview(SMALL).regions[0][1]

    assert float(note.values["loss"]) == pytest.approx(rho / pure, rel=0.05)
    assert deviation(releases, "rho") <= deviation(releases, "epsilon")
    assert deviation(releases - 2, "rho") > deviation(releases - 2, "epsilon")


# --- the epsilon at which answers become useful -----------------------------------------------------------------------


def expect_errors(*deviations: float, answer: float) -> tuple[tuple[Fraction, Expected], ...]:
    """The errors of an answer at epsilon 1/10, 1/2 and 1."""
    epsilons = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
    return tuple(
        (epsilon, Expected(words=text("off"), is_small=off <= answer / 10, relative=off / answer))
        for epsilon, off in zip(epsilons, deviations, strict=True)
    )


@pytest.mark.parametrize(
    ("deviations", "chosen"),
    [
        ((192, 46, 23), Fraction(1, 2)),  # the first version named 1/10 here, with answers off by 8 %
        ((40, 8, 4), Fraction(1, 10)),
        ((230, 120, 90), Fraction(1)),  # none is within 5 %: the largest that is compared
        ((900, 500, 400), Fraction(1)),
    ],
)
def test_the_epsilon_named_is_the_smallest_at_which_answers_are_useful(
    deviations: tuple[float, ...], chosen: Fraction
) -> None:
    assert _choose_epsilon(expect_errors(*deviations, answer=2400))[0] == chosen


def test_the_advice_says_how_far_off_the_next_smaller_epsilon_would_be() -> None:
    (note,) = _choose_epsilon(expect_errors(192, 46, 23, answer=2400))[1]

    assert str(note) == (
        "epsilon 1/2: a usual answer is within 3.8% of the truth in 95 of 100 cases; with epsilon 1/10 it would be 16%"
    )
