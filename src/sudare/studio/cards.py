"""A schema as cards: one for every column, edited and confirmed one by one, and written back as a schema file.

The draft that `schema init` writes is read once; its comments become the reasons that a card shows, its open questions
are asked on the page. From then on the cards are the original, and the file is written from them after every change.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from sudare.atomic import replace_file
from sudare.errors import SchemaError
from sudare.forms.kinds import quote
from sudare.schema import Attribute, Schema
from sudare.schema.propose import OpenQuestion, answer_question, find_questions
from sudare.schema.raw import MISSING_LABEL

ROLES = ("quasi", "sensitive", "plain", "identifier")
KINDS = ("category", "ordered", "number", "date", "mesh")
MOST_VALUES_SHOWN = 2_000  # of a list in a form; longer ones stay in their file

_BLOCK = re.compile(r"(?m)^\[\[attribute\]\]$")


@dataclass(kw_only=True)
class ColumnCard:
    """One column: what the file says of it, why it was proposed so, and whether the steward has confirmed it."""

    name: str
    keys: dict[str, Any]
    reasons: list[str] = field(default_factory=list)
    is_confirmed: bool = False

    @property
    def is_read_off(self) -> bool:
        """Tell whether its values or its range were read off the data."""
        return bool(self.keys.get("from_data"))

    @property
    def is_published(self) -> bool:
        """Tell whether the column may be published."""
        return self.keys.get("role") != "identifier"


@dataclass(kw_only=True)
class Cards:
    """A schema in the making. `version` counts changes, so that one window does not overwrite another's."""

    name: str
    unit: dict[str, Any]
    cards: list[ColumnCard]
    impossible: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)
    is_unit_confirmed: bool = False
    version: int = 1

    @property
    def confirmed(self) -> int:
        """How many cards are confirmed, that of the unit among them."""
        return sum(card.is_confirmed for card in self.cards) + self.is_unit_confirmed

    @property
    def is_complete(self) -> bool:
        """Tell whether everything is confirmed."""
        return self.confirmed == len(self.cards) + 1

    def card(self, number: int) -> ColumnCard:
        """Give a card by its place.

        Error: SchemaError if there is none.
        """
        if not 0 <= number < len(self.cards):
            raise SchemaError("there is no column {number}; load the page again", number=number + 1)
        return self.cards[number]

    def to_json(self) -> str:
        """Write for the store."""
        return json.dumps(asdict(self), ensure_ascii=False, default=_write_plain)

    @classmethod
    def from_json(cls, stored: str) -> Cards:
        """Read what `to_json` wrote."""
        facts = json.loads(stored, parse_float=Decimal)
        return cls(**{**facts, "cards": [ColumnCard(**card) for card in facts["cards"]]})

    def to_toml(self) -> str:
        """Write the schema file; it is confirmed when every card is.

        >>> sex = ColumnCard(name="sex", keys={"kind": "category", "values": ["F", "M"]})
        >>> print(Cards(name="people", unit={"kind": "row"}, cards=[sex]).to_toml())
        [sudare]
        schema = 1
        name = "people"
        inferred = true
        <BLANKLINE>
        [unit]
        kind = "row"
        <BLANKLINE>
        [[attribute]]
        name = "sex"
        kind = "category"
        values = ["F", "M"]
        <BLANKLINE>
        """
        head = {"schema": 1, "name": self.name, "inferred": "confirmed" if self.is_complete else True}
        blocks = [("[sudare]", head), ("[unit]", self.unit)]
        blocks += [("[[attribute]]", {"name": card.name, **card.keys}) for card in self.cards]
        blocks += [("[[impossible]]", combination) for combination in self.impossible]
        return "\n".join(
            "\n".join([title, *(f"{_write_key(key)} = {_write_value(value)}" for key, value in keys.items()), ""])
            for title, keys in blocks
        )


def _write_plain(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else str(value)


def _write_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quote(key)


def _write_value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quote(value)
        case Mapping():
            inner = ", ".join(f"{_write_key(key)} = {_write_value(part)}" for key, part in value.items())
            return f"{{ {inner} }}"
        case list() | tuple():
            return f"[{', '.join(_write_value(part) for part in value)}]"
        case _:
            return str(value)


# --- from a draft -----------------------------------------------------------------------------------------------------


def read_draft(toml: str) -> Cards:
    """Make cards of a draft, or of any schema file; what a confirmed file declares is confirmed."""
    read = tomllib.loads(toml, parse_float=Decimal)
    names = [attribute["name"] for attribute in read["attribute"]]
    is_confirmed = read["sudare"].get("inferred", False) is not True
    comments = _find_comments(toml)
    cards = []
    for attribute, reasons in zip(read["attribute"], comments, strict=True):
        keys = {key: value for key, value in attribute.items() if key != "name"}
        cards.append(ColumnCard(name=attribute["name"], keys=keys, reasons=reasons, is_confirmed=is_confirmed))
    questions = [
        {"words": question.words, "answer": list(question.answer), "about": _find_subject(toml, question, names)}
        for question in find_questions(toml)
    ]
    head = toml.partition("[sudare]")[0].splitlines()
    return Cards(
        name=read["sudare"].get("name", "table"),
        unit=read.get("unit", {"kind": "row"}),
        cards=cards,
        impossible=read.get("impossible", []),
        notes=[*[line.removeprefix("# ") for line in head if line.startswith("# ")][2:], *_find_left_out(toml)],
        questions=questions,
        is_unit_confirmed=is_confirmed,
    )


def _find_comments(toml: str) -> list[list[str]]:
    """Find the comments right above every attribute: why it was proposed so."""
    lines, found = toml.splitlines(), []
    for at, line in enumerate(lines):
        if line == "[[attribute]]":
            first = at
            while first and lines[first - 1].startswith("# ") and not lines[first - 1].startswith(("# ?", "#   ->")):
                first -= 1
            found.append([line.removeprefix("# ") for line in lines[first:at]])
    return found


def _find_left_out(toml: str) -> list[str]:
    """Find the comments that stand alone below the head: which columns have no card, and why.

    >>> _find_left_out('[sudare]\\n\\n# name is left out\\n\\n# rounded\\n[[attribute]]\\n')
    ['name is left out']
    """
    lines = toml.partition("[sudare]")[2].splitlines()
    alone = (line for before, line, after in zip(lines, lines[1:], lines[2:], strict=False) if not before + after)
    return [line.removeprefix("# ") for line in alone if line.startswith("# ") and not line.startswith("# ?")]


def _find_subject(toml: str, question: OpenQuestion, names: Sequence[str]) -> str:
    """Name the column that a question stands under; "" for the unit and for combinations."""
    if question.answer and question.answer[0].startswith("["):
        return ""
    before = "\n".join(toml.splitlines()[: question.start])
    count = len(_BLOCK.findall(before))
    return names[count - 1] if count else ""


def answer(cards: Cards, number: int, *, yes: bool) -> None:
    """Answer an open question; a yes writes its lines into the schema."""
    if not 0 <= number < len(cards.questions):
        raise SchemaError("there is no such question any more; load the page again")
    question = cards.questions.pop(number)
    cards.version += 1
    if not yes:
        return
    block = _write_around(cards, question)
    asked = find_questions(block)[0]
    answered = tomllib.loads(answer_question(block, asked, question["answer"]), parse_float=Decimal)
    if question["answer"][0].startswith("["):
        cards.impossible += answered["impossible"]
    elif question["about"]:
        card = next(card for card in cards.cards if card.name == question["about"])
        card.keys = {key: value for key, value in answered["attribute"][0].items() if key != "name"}
    else:
        _protect_persons(cards, answered["unit"])


def _write_around(cards: Cards, question: Mapping[str, Any]) -> str:
    """Write the table that a question is about, with the question at its end."""
    lines = ["[unit]", *(f"{key} = {_write_value(value)}" for key, value in cards.unit.items())]
    if question["about"]:
        card = next(card for card in cards.cards if card.name == question["about"])
        lines = ["[[attribute]]", f"name = {quote(card.name)}"]
        lines += [f"{key} = {_write_value(value)}" for key, value in card.keys.items()]
    asked = [f"# ? {question['words']}", *(f"#   -> {line}" for line in question["answer"])]
    return "\n".join([*lines, *asked]) + "\n"


def _protect_persons(cards: Cards, unit: dict[str, Any]) -> None:
    """Protect persons: the column that names them is never published, so it needs no card of its own."""
    cards.unit = unit
    if unit.get("kind") == "person":
        cards.cards = [card for card in cards.cards if card.name != unit.get("column")]


# --- what a form says -------------------------------------------------------------------------------------------------


def change_unit(cards: Cards, form: Mapping[str, str]) -> None:
    """Take over who is protected."""
    if form.get("unit") == "person":
        cap = form.get("max_rows", "")
        if not (cap.isdecimal() and len(cap) < 10 and int(cap) >= 1):
            raise SchemaError("max_rows ({value}) must be a whole number of at least 1", value=cap)
        _protect_persons(cards, {"kind": "person", "column": form.get("column", ""), "max_rows": int(cap)})
    else:
        cards.unit = {"kind": "row"}
    cards.is_unit_confirmed = True
    cards.version += 1


def change_card(card: ColumnCard, form: Mapping[str, str], folder: Path) -> None:
    """Take over what the form of a card says; what it does not show stays."""
    if form.get("role") == "identifier":
        card.keys = {"role": "identifier"}
        return
    kind = form.get("kind", card.keys.get("kind", "category"))
    kept = ("format", "from_data", "level", "area", "area_file")
    keys = {"kind": kind, **{key: card.keys[key] for key in kept if key in card.keys}}
    keys |= _read_domain(kind, card, form)
    if form.get("missing"):
        keys["missing"] = card.keys.get("missing") or True
    if form.get("outside", "refuse") != "refuse":
        keys["outside"] = form["outside"]
    keys["role"] = form.get("role", "plain")
    keys |= _read_hierarchy(card, form, folder)
    card.keys = keys


def _read_domain(kind: str, card: ColumnCard, form: Mapping[str, str]) -> dict[str, Any]:
    if kind in ("category", "ordered"):
        if "values" in form:
            return {"values": [line.strip() for line in form["values"].splitlines() if line.strip()]}
        return {key: card.keys[key] for key in ("values", "values_file") if key in card.keys}
    if kind in ("number", "date") and form.get("edges", "").strip():
        parts = [part.strip() for part in form["edges"].replace("\n", ",").split(",") if part.strip()]
        return {"edges": parts if kind == "date" else [_read_number(part) for part in parts]}
    if kind in ("number", "date") and "start" in form:
        ends = {key: form.get(key, "").strip() for key in ("start", "stop", "width")}
        return {"bins": ends if kind == "date" else {key: _read_number(end) for key, end in ends.items()}}
    return {key: card.keys[key] for key in ("bins", "edges") if key in card.keys}


def _read_number(written: str) -> Decimal | int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}(\.[0-9]{1,12})?", written):
        raise SchemaError("{value} is not a number such as 15 or 2.5", value=written or '""')
    return Decimal(written) if "." in written else int(written)


def _read_hierarchy(card: ColumnCard, form: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Take over a hierarchy that was edited: it is kept as a CSV file beside the schema."""
    edited = form.get("hierarchy_csv", "").strip()
    if not edited or not form.get("hierarchy_edited"):
        return {"hierarchy": card.keys["hierarchy"]} if "hierarchy" in card.keys else {}
    name = re.sub(r"[^\w-]+", "_", card.name).strip("_") or "column"
    file = folder / f"{name}.hierarchy.csv"
    replace_file(file, edited + "\n", error=SchemaError)
    return {"hierarchy": file.name}


# --- the file ---------------------------------------------------------------------------------------------------------


def save_schema(cards: Cards, file: Path) -> Schema:
    """Write the schema file, if it is one: a change that the schema does not allow is refused and changes nothing.

    Error: SchemaError in one line.
    """
    candidate = file.with_name(f".{file.stem}.candidate.toml")
    replace_file(candidate, cards.to_toml(), error=SchemaError)
    try:
        schema = Schema.read(candidate)
    except SchemaError as error:
        reason = str(error).replace(str(candidate), "").lstrip(":, ")
        raise SchemaError("{file}: {reason}", file=file.name, reason=reason) from None
    finally:
        candidate.unlink(missing_ok=True)
    replace_file(file, cards.to_toml(), error=SchemaError)
    return schema


def list_levels(attribute: Attribute) -> list[list[str]]:
    """Write the hierarchy of an attribute as rows: the value, then the group that holds it on every level."""
    codes = np.arange(min(attribute.size, MOST_VALUES_SHOWN))
    columns = [attribute.labels(codes)]
    if (hierarchy := attribute.hierarchy) is not None:
        columns += [hierarchy.labels(hierarchy.lift(codes, level), level) for level in range(1, attribute.height + 1)]
    rows = ([column[at] for column in columns] for at in range(len(codes)))
    return [[MISSING_LABEL if label is None else str(label) for label in row] for row in rows]
