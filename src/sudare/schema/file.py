"""From the form of a schema file to the schema: domains, hierarchies and the files they name."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, WithJsonSchema

from sudare.errors import SchemaError
from sudare.forms.textfile import read_bytes, read_lines
from sudare.schema.attribute import Attribute
from sudare.schema.complaints import EXAMPLES, complain, find_fault, place_of, within
from sudare.schema.domain import DateBins, Domain, MeshCells, NumberBins, Values
from sudare.schema.hierarchy import TableHierarchy
from sudare.schema.hierarchy_rules import (
    PREFECTURES,
    dates,
    from_csv,
    intervals,
    masking,
    ordered_groups,
    prefecture_regions,
)
from sudare.schema.impossible import Impossible, box_of
from sudare.schema.raw import date_of
from sudare.schema.schema import VERSION, Origin, Schema
from sudare.schema.unit import Unit

_RULES = ("intervals", "groups", "dates", "masking", "builtin")


def assemble(form: SchemaForm, path: Path) -> Schema:
    """Build the schema; whatever its parts find wrong is said with the file and the place."""
    attributes = []
    for each in form.attribute:
        with within(path, f"[[attribute]] {each.name}"):
            if each.role != "identifier":
                attributes.append(_attribute(each, path.parent))
    with within(path, "[unit]"):
        unit = Unit(kind=form.unit.kind, column=form.unit.column, max_rows=form.unit.max_rows or 1)
    boxes = _boxes(attributes, form.impossible, path)
    inferred = form.sudare.inferred
    origin: Origin = "confirmed" if inferred == "confirmed" else "inferred" if inferred else "declared"
    with within(path):
        schema = Schema(
            name=form.sudare.name or path.stem,
            unit=unit,
            attributes=tuple(attributes),
            identifiers=tuple(each.name for each in form.attribute if each.role == "identifier"),
            impossible=boxes,
            origin=origin,
        )
        if not attributes and origin != "inferred":
            raise SchemaError("every attribute is an identifier; nothing is left to publish. Give one of them a kind")
        _ = schema.possible_size  # refuses combinations that leave nothing
    return schema


def _boxes(
    attributes: Sequence[Attribute], combinations: Sequence[Mapping[str, list[str]]], path: Path
) -> tuple[Impossible, ...]:
    boxes = []
    for index, labels in enumerate(combinations):
        with within(path, place_of({}, "impossible", index)):
            boxes.append(box_of(attributes, labels))
    return tuple(boxes)


def _attribute(form: Any, folder: Path) -> Attribute:
    if form.kind in ("category", "ordered"):
        domain, hierarchy = _listed(form, folder)
    else:
        domain = _mesh(form, folder) if form.kind == "mesh" else _binned(form)
        hierarchy = _hierarchy(getattr(form, "hierarchy", None), domain, form, folder)
    return Attribute(
        name=form.name,
        domain=domain,
        role=form.role,
        missing=bool(form.missing),
        missing_marks=_marks(form),
        outside=form.outside,
        hierarchy=hierarchy,
        date_format=getattr(form, "format", None),
    )


def _marks(form: AttributeForm) -> tuple[str, ...]:
    if form.missing == []:
        raise SchemaError("missing = [] says nothing; write true, false or a list of marks")
    return () if isinstance(form.missing, bool) else tuple(form.missing)


def _one_of(form: Any, *keys: str) -> str:
    """Find which of two keys is given; SchemaError for none or both."""
    given = [key for key in keys if getattr(form, key) is not None]
    if len(given) != 1:
        raise SchemaError(
            "give exactly one of {keys}, like: {example}", keys=", ".join(keys), example=EXAMPLES[keys[0]]
        )
    return given[0]


def _listed(form: ListedForm, folder: Path) -> tuple[Domain, TableHierarchy | None]:
    """Build listed values. Without a list they are the first column of the hierarchy's file, or the prefectures."""
    is_ordered, rule = form.kind == "ordered", form.hierarchy
    if form.values is None and form.values_file is None:
        if isinstance(rule, str):
            tree = from_csv(folder / rule, **_branches(form))
            declared = len(tree.names[0]) - (form.outside == "other") - bool(form.missing)
            return Values(tree.names[0][:declared], is_ordered=is_ordered), tree
        if rule is not None and rule.builtin == "jp-prefecture":
            return Values(PREFECTURES, is_ordered=is_ordered), prefecture_regions()
    key = _one_of(form, "values", "values_file")
    texts = form.values if key == "values" else read_lines(folder / str(form.values_file))
    domain = Values(tuple(texts or ()), is_ordered=is_ordered)
    return domain, _hierarchy(rule, domain, form, folder)


def _binned(form: NumberForm | DateForm) -> Domain:
    bins = form.bins if _one_of(form, "bins", "edges") == "bins" else None
    if form.kind == "number":
        numbers: Any = bins
        return (
            NumberBins.of_width(numbers.start, numbers.stop, numbers.width)
            if bins
            else NumberBins(tuple(form.edges or ()))
        )
    days: Any = bins
    return DateBins.of_width(days.start, days.stop, days.width) if bins else DateBins(tuple(form.edges or ()))


def _mesh(form: MeshForm, folder: Path) -> Domain:
    if _one_of(form, "area", "area_file") == "area":
        return MeshCells(level=form.level, area=tuple(form.area or ()))
    cells = [line.strip() for line in read_lines(folder / str(form.area_file)) if line.strip()]
    return MeshCells(level=form.level, cells=cells)  # type: ignore[arg-type]  # checked and sorted there


def _branches(form: AttributeForm) -> dict[str, Any]:
    return {"other": form.outside == "other", "missing": bool(form.missing), "missing_marks": _marks(form)}


def _hierarchy(
    rule: str | HierarchyForm | None, domain: Domain, form: AttributeForm, folder: Path
) -> TableHierarchy | None:
    """Read or build the hierarchy that the file asks for."""
    if rule is None:
        return None
    if isinstance(rule, str):
        return from_csv(folder / rule, domain, **_branches(form))
    name = _one_of(rule, *_RULES)
    if name != "masking" and (rule.characters is not None or rule.steps is not None):
        raise SchemaError("characters and steps go with masking only; take them out")
    if name == "groups":
        return ordered_groups(domain, rule.groups or ())
    if name == "intervals" and isinstance(domain, NumberBins):
        return intervals(domain, rule.intervals or ())
    if name == "dates" and isinstance(domain, DateBins):
        return dates(domain, rule.dates or ())
    if name == "masking" and isinstance(domain, Values):
        return masking(domain, side=rule.masking or "right", characters=rule.characters or 1, steps=rule.steps)
    if name == "builtin" and isinstance(domain, Values):
        return prefecture_regions(domain)
    raise SchemaError(
        "a hierarchy by {rule} does not fit kind {kind}; use another rule, or a CSV file", rule=name, kind=domain.kind
    )


# The schema file: its form (TOML, checked by pydantic) and how it is read.
#
# pydantic is imported here alone, and this module only when a file is read. Its own texts never reach the reader:
# `sudare.schema.complaints` turns what it finds into one line.


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
ExactNumber = Annotated[Fraction, BeforeValidator(_number), WithJsonSchema({"type": "number"})]
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

    start: ExactNumber
    stop: ExactNumber
    width: ExactNumber


class DateBinsForm(Form):
    """bins of a date; stop is the last day."""

    start: Day
    stop: Day
    width: str


class HierarchyForm(Form):
    """A hierarchy by rule; exactly one of intervals, groups, dates, masking, builtin."""

    intervals: list[ExactNumber] | None = None
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
    edges: list[ExactNumber] | None = None
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
