"""The schema as cards: every column is read, corrected and confirmed; what was read off the table is marked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from sudare.errors import SchemaError, SudareError
from sudare.schema import Attribute, Schema
from sudare.schema.impossible import make_box
from sudare.schema.schema import list_claims
from sudare.studio.cards import (
    KINDS,
    MOST_VALUES_SHOWN,
    ROLES,
    Cards,
    answer,
    change_card,
    change_unit,
    list_levels,
    save_schema,
)
from sudare.studio.project import StudioTable
from sudare.studio.typed import read_values
from sudare.studio.web import Visit, go

MOST_BARS = 60  # of the picture of a domain


def show_schema(visit: Visit, *, error: str = "", at: int | None = None, typed: Any = None) -> Response:
    """Show all cards; `at` is the card whose form was refused, with what was typed into it."""
    table = visit.table()
    if table.cards is None:
        return go(f"/t/{table.id}/header")
    schema = _read(table)
    facts = {} if schema is None else {attribute.name: _describe(attribute) for attribute in schema.attributes}
    return visit.show(
        "schema.html",
        table=table,
        step="schema",
        cards=table.cards,
        facts=facts,
        roles=ROLES,
        kinds=KINDS,
        claims=[] if schema is None else [str(claim) for claim in list_claims(schema)],
        error=error,
        at=at,
        typed=typed or {},
        status=400 if error else 200,
    )


def _read(table: StudioTable) -> Schema | None:
    try:
        return Schema.read(table.schema_file)
    except SchemaError:
        return None


def _describe(attribute: Attribute) -> dict[str, Any]:
    """Tell what a card draws: the labels of the domain, and the groups of every level."""
    levels = list_levels(attribute)
    return {
        "size": attribute.size,
        "height": attribute.height,
        "labels": [row[0] for row in levels[:MOST_BARS]],
        "levels": levels if attribute.size <= MOST_VALUES_SHOWN else [],
        "groups": [len({row[level] for row in levels}) for level in range(len(levels[0]) if levels else 0)],
    }


def _change(visit: Visit, work: Callable[[Cards, StudioTable], None], *, at: int | None, anchor: str) -> Response:
    """Change the cards, write the schema, keep both; a refusal changes nothing and shows what was typed."""
    table = visit.table()
    cards = table.cards
    if cards is None:
        return go(f"/t/{table.id}/header")
    before = cards.version
    try:
        sent = visit.form.get("version", "")
        if sent != str(before):
            raise SchemaError("Saved first in another window. Your input is kept; compare and save.")
        work(cards, table)
        cards.version = before + 1
        save_schema(cards, table.schema_file)
        visit.project.save_cards(table.id, cards, before=before)
    except SudareError as error:
        return show_schema(visit, error=str(error), at=at, typed=visit.form)
    return go(f"/t/{table.id}/schema#{anchor}")


def save_card(visit: Visit) -> Response:
    """Save a card; with "confirm" it is confirmed too."""
    number = _read_place(visit)

    def work(cards: Cards, table: StudioTable) -> None:
        card = cards.card(number)
        change_card(card, visit.form, table.folder)
        card.is_confirmed = "confirm" in visit.form

    following = number + 1 if "confirm" in visit.form else number
    return _change(visit, work, at=number, anchor=f"column-{following}")


def save_unit(visit: Visit) -> Response:
    """Save who is protected."""
    return _change(visit, lambda cards, table: change_unit(cards, visit.form), at=-1, anchor="column-0")


def save_answer(visit: Visit) -> Response:
    """Answer an open question."""
    number = _read_place(visit)
    return _change(
        visit, lambda cards, table: answer(cards, number, yes="yes" in visit.form), at=None, anchor="questions"
    )


def add_combination(visit: Visit) -> Response:
    """Take a combination of values that cannot occur, as it was typed."""

    def work(cards: Cards, table: StudioTable) -> None:
        schema = Schema.read(table.schema_file)
        wanted = [(visit.form.get(f"column{which}", ""), visit.form.get(f"values{which}", "")) for which in "12"]
        named = [(name, typed) for name, typed in wanted if name]
        if not named or any(name not in schema.names or not typed.strip() for name, typed in named):
            raise SchemaError("choose a column, better two, and write the values that cannot occur together")
        values = {name: read_values(schema.attribute(name), typed) for name, typed in named}
        make_box(schema.attributes, values)
        cards.impossible.append(values)

    return _change(visit, work, at=-2, anchor="impossible")


def drop_combination(visit: Visit) -> Response:
    """Take back a combination that was said to be impossible."""
    number = _read_place(visit)

    def work(cards: Cards, table: StudioTable) -> None:
        if number < len(cards.impossible):
            del cards.impossible[number]

    return _change(visit, work, at=None, anchor="impossible")


def _read_place(visit: Visit) -> int:
    number = visit.path.get("number", "")
    return int(number) if number.isdecimal() and len(number) < 6 else 10**6


def finish(visit: Visit) -> Response:
    """Go on when everything is confirmed: the table is checked against its schema first."""
    table = visit.table()
    if table.cards is None or not table.cards.is_complete:
        return show_schema(visit, error=str(SchemaError("confirm every card first; those that are left are marked")))
    return go(f"/jobs/{visit.jobs.start('check', table, {})}")


ROUTES = (
    ("/t/{table}/schema", "GET", show_schema),
    ("/t/{table}/schema/unit", "POST", save_unit),
    ("/t/{table}/schema/column/{number}", "POST", save_card),
    ("/t/{table}/schema/question/{number}", "POST", save_answer),
    ("/t/{table}/schema/impossible", "POST", add_combination),
    ("/t/{table}/schema/impossible/{number}", "POST", drop_combination),
    ("/t/{table}/schema/finish", "POST", finish),
)
