"""The schema file: its form (TOML, checked by pydantic) and how it is read.

pydantic is imported here alone, and this module only when a file is read. Its own texts never reach the reader:
`sudare.schema.complaints` turns what it finds into one line.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    WithJsonSchema,
)

from sudare.errors import SchemaError
from sudare.schema.assemble import assemble
from sudare.schema.complaints import complain, find_fault
from sudare.schema.raw import date_of
from sudare.schema.schema import Schema
from sudare.schema.serial import VERSION
from sudare.schema.textfile import read_bytes

_MOST_PLACES = 30  # before or behind the point; numbers beyond are slips of the pen
_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)")


def _number(value: object) -> Fraction:
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise ValueError
    number = Decimal(value)
    if not number.is_finite() or (number and abs(number.adjusted()) > _MOST_PLACES):
        raise ValueError
    return Fraction(value)


def _day(value: object) -> date:
    day = date_of(value) if isinstance(value, str | date) else None
    if day is None:
        raise ValueError
    return day


Name = Annotated[str, Field(min_length=1)]
Number = Annotated[Fraction, BeforeValidator(_number), WithJsonSchema({"type": "number"})]
Day = Annotated[date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]


class Form(BaseModel):
    """What all tables of the file share: keys that are not known are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)


class Head(Form):
    """[sudare]: the version of the format, the name, and whether the schema was inferred."""

    version: Literal[1] = Field(alias="schema")
    name: Name | None = None
    inferred: bool | Literal["confirmed"] = False


class UnitForm(Form):
    """[unit]: who is protected."""

    kind: Literal["row", "person"] = "row"
    column: Name | None = None
    max_rows: Annotated[int, Field(ge=1)] | None = None


class NumberBinsForm(Form):
    """bins of a number."""

    start: Number
    stop: Number
    width: Number


class DateBinsForm(Form):
    """bins of a date; stop is the last day."""

    start: Day
    stop: Day
    width: str


class HierarchyForm(Form):
    """A hierarchy by rule; exactly one of intervals, groups, dates, masking, builtin."""

    intervals: list[Number] | None = None
    groups: list[int] | None = None
    dates: list[Literal["week", "month", "quarter", "year", "decade"]] | None = None
    masking: Literal["left", "right"] | None = None
    characters: Annotated[int, Field(ge=1)] | None = None
    steps: Annotated[int, Field(ge=1)] | None = None
    builtin: Literal["jp-prefecture"] | None = None


class AttributeForm(Form):
    """What all attributes share."""

    name: Name
    role: Literal["quasi", "sensitive", "plain", "identifier"] = "plain"
    missing: bool | list[str] = False
    outside: Literal["refuse", "clamp", "other"] = "refuse"


class ListedForm(AttributeForm):
    """Values listed one by one."""

    kind: Literal["category", "ordered"]
    values: list[str] | None = None
    values_file: Name | None = None
    hierarchy: Name | HierarchyForm | None = None


class NumberForm(AttributeForm):
    """A number cut into bins."""

    kind: Literal["number"]
    bins: NumberBinsForm | None = None
    edges: list[Number] | None = None
    hierarchy: Name | HierarchyForm | None = None


class DateForm(AttributeForm):
    """A day cut into bins."""

    kind: Literal["date"]
    bins: DateBinsForm | None = None
    edges: list[Day] | None = None
    format: Name | None = None
    hierarchy: Name | HierarchyForm | None = None


class MeshForm(AttributeForm):
    """A cell of the JIS X 0410 grid."""

    kind: Literal["mesh"]
    level: Annotated[int, Field(ge=1, le=6)]
    area: list[str] | None = None
    area_file: Name | None = None


class IdentifierForm(Form):
    """A column that is never published and needs no kind."""

    name: Name
    role: Literal["identifier"]


def _form(attribute: Any) -> Any:
    kind = attribute.get("kind") if isinstance(attribute, Mapping) else getattr(attribute, "kind", None)
    role = attribute.get("role") if isinstance(attribute, Mapping) else getattr(attribute, "role", None)
    if kind is None and role == "identifier":
        return "identifier"
    return "listed" if kind in ("category", "ordered") else kind


AnyAttribute = Annotated[
    Annotated[ListedForm, Tag("listed")]
    | Annotated[NumberForm, Tag("number")]
    | Annotated[DateForm, Tag("date")]
    | Annotated[MeshForm, Tag("mesh")]
    | Annotated[IdentifierForm, Tag("identifier")],
    Discriminator(_form),
]


class SchemaForm(Form):
    """A Sudare schema: the public facts about a table."""

    sudare: Head
    unit: UnitForm = UnitForm()
    attribute: Annotated[list[AnyAttribute], Field(min_length=1)]
    impossible: list[dict[str, list[str]]] = []


def read_schema(path: str | Path) -> Schema:
    """Read a schema file and the files it names, which are sought beside it.

    Error: SchemaError (HierarchyError for a hierarchy), one line with the file, the attribute, the key and what to do.
    """
    path = Path(path)
    table = _table(path)
    _check_version(table, path)
    try:
        form = SchemaForm.model_validate(table)
    except ValidationError as error:
        fault = find_fault(error.errors(include_url=False), file=path, table=table, forms=FORMS)
    else:
        return assemble(form, path)
    complain(fault)


def _table(path: Path) -> dict[str, Any]:
    try:
        text = read_bytes(path).decode("utf-8-sig")
        return tomllib.loads(text.replace("\r\n", "\n"), parse_float=Decimal)
    except UnicodeDecodeError:
        raise SchemaError("{file}: not UTF-8, which TOML asks for; save it as UTF-8", file=path) from None
    except tomllib.TOMLDecodeError as error:
        reason, found = str(error), _LINE.search(str(error))
        line = found.group(1) if found and found.group(1) else text.count("\n") + 1
        raise SchemaError(
            "{file}, line {line}: not valid TOML ({reason}); correct this line",
            file=path,
            line=line,
            reason=_LINE.sub("", reason),
        ) from None


def _check_version(table: Mapping[str, Any], path: Path) -> None:
    """Say of a newer file that it is newer, before its keys look unknown."""
    head = table.get("sudare")
    version = head.get("schema", VERSION) if isinstance(head, Mapping) else VERSION
    if version != VERSION or isinstance(version, bool):
        raise SchemaError(
            "{file}: [sudare] schema ({version}) must be {known}; update sudare or write the file anew",
            file=path,
            version=json.dumps(version, default=str),
            known=VERSION,
        )


FORMS: dict[str, type[BaseModel]] = {
    "sudare": Head,
    "unit": UnitForm,
    "category": ListedForm,
    "ordered": ListedForm,
    "number": NumberForm,
    "date": DateForm,
    "mesh": MeshForm,
    "identifier": IdentifierForm,
    "number.bins": NumberBinsForm,
    "date.bins": DateBinsForm,
    "hierarchy": HierarchyForm,
    "": SchemaForm,
}


def json_schema() -> dict[str, Any]:
    """Give the JSON schema of the file, for editors.

    >>> sorted(json_schema()["properties"])
    ['attribute', 'impossible', 'sudare', 'unit']
    """
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **SchemaForm.model_json_schema(by_alias=True)}
