"""A schema as cards: what is proposed is kept, what is typed is taken over or refused, and the file is always whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import SchemaError
from sudare.schema import Attribute, Schema, Unit, Values
from sudare.sources import propose_schema
from sudare.studio.ask_page import build_statement
from sudare.studio.cards import (
    Cards,
    ColumnCard,
    answer,
    change_card,
    change_unit,
    list_levels,
    read_draft,
    save_schema,
)
from sudare.studio.sizes import find_sizes

TABLE = "id,age,sex,day,fee\n" + "".join(
    f"p{row % 50},{20 + row % 60},{'FM'[row % 2]},2024-{1 + row % 12:02d}-05,{row * 1.5}\n" for row in range(400)
)


@pytest.fixture
def drafted(tmp_path: Path) -> tuple[Cards, Path]:
    """The cards of a table, and where its schema stands."""
    (tmp_path / "people.csv").write_text(TABLE)
    draft = propose_schema(str(tmp_path / "people.csv"), name="people")
    cards = read_draft(draft.toml)
    file = tmp_path / "schema.toml"
    save_schema(cards, file)
    return cards, file


def test_cards_say_what_the_draft_says(drafted: tuple[Cards, Path], tmp_path: Path) -> None:
    cards, file = drafted
    draft = propose_schema(str(tmp_path / "people.csv"), name="people")

    draft.save(tmp_path / "draft.toml")

    assert Schema.read(file).to_dict() == Schema.read(tmp_path / "draft.toml").to_dict()
    assert Cards.from_json(cards.to_json()) == cards


@given(st.text(min_size=1, max_size=20), st.lists(st.text(max_size=9), min_size=1, max_size=4))
def test_any_name_and_value_survives_the_file(name: str, values: list[str]) -> None:
    import tomllib

    card = ColumnCard(name=name, keys={"kind": "category", "values": values, name: {name: 1.5, "b": True}})
    cards = Cards(name="t", unit={"kind": "row"}, cards=[card])

    read = tomllib.loads(cards.to_toml())["attribute"][0]

    if name not in ("name", "kind", "values"):
        assert read == {"name": name, "kind": "category", "values": values, name: {name: 1.5, "b": True}}


def test_the_file_is_confirmed_only_when_every_card_is(drafted: tuple[Cards, Path]) -> None:
    cards, file = drafted
    for card in cards.cards:
        card.is_confirmed = True
    save_schema(cards, file)
    with pytest.raises(SchemaError):
        Schema.read(file).require_confirmed()

    change_unit(cards, {"unit": "row"})
    save_schema(cards, file)

    Schema.read(file).require_confirmed()


def test_what_a_schema_does_not_allow_is_refused_and_changes_nothing(drafted: tuple[Cards, Path]) -> None:
    cards, file = drafted
    before = file.read_bytes()
    age = next(card for card in cards.cards if card.name == "age")

    change_card(age, {"role": "quasi", "kind": "number", "start": "0", "stop": "10", "width": "3"}, file.parent)
    with pytest.raises(SchemaError, match=r"^schema\.toml: "):
        save_schema(cards, file)

    assert file.read_bytes() == before
    assert [each.name for each in file.parent.glob(".*")] == []


@pytest.mark.parametrize("typed", ["", "abc", "1e5", "１０", "inf", "--1", "1" * 30])
def test_what_is_no_number_is_named(drafted: tuple[Cards, Path], typed: str) -> None:
    cards, file = drafted
    age = next(card for card in cards.cards if card.name == "age")

    with pytest.raises(SchemaError, match="is not a number"):
        change_card(age, {"kind": "number", "start": typed, "stop": "100", "width": "5"}, file.parent)


def test_a_question_answered_with_yes_writes_its_lines(drafted: tuple[Cards, Path]) -> None:
    cards, file = drafted
    number = next(at for at, each in enumerate(cards.questions) if 'kind = "person"' in each["answer"])
    count = len(cards.questions)

    answer(cards, number, yes=True)
    schema = save_schema(cards, file)

    assert schema.unit.kind == "person"
    assert "id" not in [card.name for card in cards.cards]
    assert len(cards.questions) == count - 1
    with pytest.raises(SchemaError):
        answer(cards, 99, yes=True)


def test_an_edited_hierarchy_is_kept_as_a_file(drafted: tuple[Cards, Path]) -> None:
    cards, file = drafted
    sex = next(card for card in cards.cards if card.name == "sex")
    form = {"kind": "category", "values": "F\nM\nX", "role": "quasi", "hierarchy_edited": "1"}

    change_card(sex, {**form, "hierarchy_csv": "F;known;*\nM;known;*\nX;unknown;*"}, file.parent)
    schema = save_schema(cards, file)

    assert list_levels(schema.attribute("sex")) == [["F", "known", "*"], ["M", "known", "*"], ["X", "unknown", "*"]]
    change_card(sex, {**form, "hierarchy_csv": "F;known;*\nM;known;*"}, file.parent)
    with pytest.raises(SchemaError):  # X is in no group
        save_schema(cards, file)


@pytest.mark.parametrize("cap", ["", "0", "-1", "x", "9" * 20])
def test_a_cap_that_is_none_is_refused(drafted: tuple[Cards, Path], cap: str) -> None:
    with pytest.raises(SchemaError, match="max_rows"):
        change_unit(drafted[0], {"unit": "person", "column": "id", "max_rows": cap})


def test_a_missing_value_has_a_name_and_its_hierarchy_can_be_edited(drafted: tuple[Cards, Path]) -> None:
    cards, file = drafted
    sex = next(card for card in cards.cards if card.name == "sex")
    form = {"kind": "category", "values": "F\nM", "missing": "1", "role": "quasi", "hierarchy_edited": "1"}

    change_card(sex, {**form, "hierarchy_csv": "F;known;*\nM;known;*\n(missing);unknown;*"}, file.parent)
    attribute = save_schema(cards, file).attribute("sex")
    change_card(sex, {**form, "hierarchy_csv": "\n".join(";".join(row) for row in list_levels(attribute))}, file.parent)
    again = save_schema(cards, file).attribute("sex")

    assert list_levels(again) == list_levels(attribute)
    assert list_levels(again)[-1] == ["(missing)", "unknown", "*"]


def test_a_missing_value_is_asked_as_sql_writes_it(drafted: tuple[Cards, Path]) -> None:
    schema = Schema.read(drafted[1])
    form = {"where1": "sex", "sign1": "=", "value1": "(missing)", "where2": "day", "sign2": "<>", "value2": "(missing)"}

    assert build_statement(schema, form, "t").endswith(' WHERE "sex" IS NULL AND "day" IS NOT NULL')


def test_a_missing_value_has_a_name_beside_the_sizes_of_answers() -> None:
    sex = Attribute(name="sex", domain=Values(("F", "M")), missing=True)
    sizes = find_sizes(Schema(name="t", unit=Unit(), attributes=(sex,)), [], rows=300, share=0.1, wish="")

    assert sizes is not None
    assert [size.label for size in sizes.sizes] == ["F", "M", "(missing)"]


def test_a_column_without_a_card_is_named_with_the_reason(tmp_path: Path) -> None:
    rows = "".join(f"{['Anna', 'Ben', 'Chidi', 'Eva'][row % 4]} Smith,{row % 3}\n" for row in range(300))
    (tmp_path / "people.csv").write_text(f"name,visits\n{rows}")
    cards = read_draft(propose_schema(str(tmp_path / "people.csv"), name="people").toml)

    assert [card.name for card in cards.cards] == ["visits"]
    assert [note[:21] for note in cards.notes] == ["name is left out, and"]
