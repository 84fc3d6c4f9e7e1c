"""The schema file: its form, and how a schema is built from it and from the files it names.

The form says what the keys are and what each takes; `sudare.forms` reads the file by it. What the parts of the schema
find wrong (a width that does not reach, a hierarchy with a hole) is told with the line of the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sudare.errors import SchemaError
from sudare.forms import FileForm, FilledForm, FilledTable, Key, Keys, TableForm, Variants, read_form
from sudare.forms.describe import write_json_schema
from sudare.forms.kinds import (
    AnyText,
    CalendarDay,
    ChoiceOf,
    Either,
    FilePath,
    Flag,
    ListOf,
    PlainNumber,
    WholeNumber,
    find_near,
)
from sudare.forms.textfile import read_lines
from sudare.schema.area_file import read_areas
from sudare.schema.areas import RULES as AREA_RULES
from sudare.schema.attribute import Attribute
from sudare.schema.domain import DateBins, Domain, MeshCells, NumberBins, Values
from sudare.schema.hierarchy import TableHierarchy
from sudare.schema.hierarchy_rules import (
    PREFECTURES,
    all_in_one,
    dates,
    from_csv,
    intervals,
    masking,
    ordered_groups,
    prefecture_regions,
)
from sudare.schema.impossible import Impossible, make_box
from sudare.schema.raw import list_some
from sudare.schema.schema import VERSION, Origin, Schema
from sudare.schema.unit import Unit
from sudare.text import text

# --- the form ---------------------------------------------------------------------------------------------------------

HEAD: Keys = {
    "schema": Key(
        kind=WholeNumber(low=VERSION, high=VERSION, example="1"),
        required=True,
        help=text("version of this format"),
    ),
    "name": Key(kind=AnyText(example='"members"'), help=text("name of the table; without it, that of the file")),
    "inferred": Key(
        kind=Either((Flag(), ChoiceOf(("confirmed",))), example='"confirmed"'),
        default=False,
        help=text('true: read off the data, not for private releases; "confirmed": a steward has checked it'),
    ),
}
UNIT: Keys = {
    "kind": Key(
        kind=ChoiceOf(("row", "person")), default="row", help=text("who is protected: a row, or a person with rows")
    ),
    "column": Key(
        kind=AnyText(example='"customer_id"'), help=text("person: the column that tells persons apart; never published")
    ),
    "max_rows": Key(kind=WholeNumber(low=1), help=text("person: how many rows of one person are counted at most")),
}
NUMBER_BINS = TableForm(
    keys={
        "start": Key(kind=PlainNumber(example="0"), required=True, help=text("where the first bin begins")),
        "stop": Key(kind=PlainNumber(example="100"), required=True, help=text("where the last bin ends")),
        "width": Key(kind=PlainNumber(example="5"), required=True, help=text("how wide every bin is")),
    }
)
DATE_BINS = TableForm(
    keys={
        "start": Key(kind=CalendarDay(example='"2024-01-01"'), required=True, help=text("the first day")),
        "stop": Key(kind=CalendarDay(example='"2024-12-31"'), required=True, help=text("the last day")),
        "width": Key(kind=AnyText(example='"1 month"'), required=True, help=text("how many days, months or years")),
    }
)
ENDS = ("bottom", "top")
RULES = ("intervals", "groups", "dates", "masking", "builtin")
HIERARCHY = TableForm(
    keys={
        "intervals": Key(
            kind=ListOf(PlainNumber(), example="[10, 20]"),
            help=text("of numbers: the width of the intervals of each level"),
        ),
        "bottom": Key(kind=PlainNumber(), help=text("intervals: all numbers below it are one group on every level")),
        "top": Key(kind=PlainNumber(), help=text("intervals: all numbers from it on are one group on every level")),
        "groups": Key(
            kind=ListOf(WholeNumber(), example="[5, 10]"),
            help=text("of ordered values: how many make a group on each level"),
        ),
        "dates": Key(
            kind=ListOf(ChoiceOf(("week", "month", "quarter", "year", "decade")), example='["month", "year"]'),
            help=text("of days: the unit of each level"),
        ),
        "masking": Key(
            kind=ChoiceOf(("left", "right"), example='"right"'),
            help=text("of codes: the side from which characters are hidden"),
        ),
        "characters": Key(
            kind=WholeNumber(low=1, example="2"), help=text("masking: how many characters are hidden on each level")
        ),
        "steps": Key(kind=WholeNumber(low=1, example="3"), help=text("masking: how many levels there are")),
        "builtin": Key(
            kind=ChoiceOf(("jp-prefecture", "star")),
            help=text(
                "a hierarchy that comes with sudare: prefectures and regions of Japan, or star: all values in one"
            ),
        ),
    },
)
KINDS = ("category", "ordered", "number", "date", "mesh")
NAME = Key(kind=AnyText(example='"age"'), required=True, help=text("name of the column"))
SHARED: Keys = {
    "name": NAME,
    "kind": Key(kind=ChoiceOf(KINDS), required=True, help=text("what the column holds")),
    "role": Key(
        kind=ChoiceOf(("quasi", "sensitive", "plain", "identifier")),
        default="plain",
        help=text("quasi: others may know it; sensitive: they must not learn it; identifier: never published"),
    ),
    "missing": Key(
        kind=Either((Flag(), ListOf(AnyText(may_be_empty=True), example='["?", "NA"]'))),
        default=False,
        help=text('true: an empty cell is a value of its own; or the marks of a missing value, like ["?", "NA"]'),
    ),
    "outside": Key(
        kind=ChoiceOf(("refuse", "clamp", "other"), example='"other"'),
        default="refuse",
        help=text("a value that is not declared: refuse the table, take the nearest bin, or count it as (other)"),
    ),
    "from_data": Key(
        kind=Flag(),
        default=False,
        help=text("true: the values or the range were read off the data; the certificate says so"),
    ),
}
TREE = Key(
    kind=(FilePath(example='"file.csv"'), HIERARCHY),
    help=text("coarser levels: a CSV file (value;level1;...;*), or a rule such as { intervals = [10, 20] }"),
)
LISTED: Keys = {
    **SHARED,
    "name": replace(NAME, example='"item"'),
    "values": Key(
        kind=ListOf(AnyText(may_be_empty=True), example='["a", "b"]'),
        in_example=True,
        help=text("the values there are"),
    ),
    "values_file": Key(kind=FilePath(), help=text("instead of values: a text file with one value a line")),
    "hierarchy": TREE,
}
NUMBER: Keys = {
    **SHARED,
    "bins": Key(kind=NUMBER_BINS, help=text("bins of equal width; the last one is closed at stop")),
    "edges": Key(
        kind=ListOf(PlainNumber(), example="[0, 18, 65, 120]"),
        help=text("instead of bins: where every bin starts, then the end"),
    ),
    "format": Key(
        kind=AnyText(example='"1,234円"'),
        help=text("how the number 1234 or 1234.5 is written in the data, if not plainly: 1,234円, ¥1234, 1.234,5"),
    ),
    "grain": Key(
        kind=PlainNumber(example="1"),
        help=text("all numbers are multiples of this: 1 for whole numbers, 1000 for thousands; 0: they lie anywhere"),
    ),
    "hierarchy": TREE,
}
DATE: Keys = {
    **SHARED,
    "name": replace(NAME, example='"admitted"'),
    "bins": Key(kind=DATE_BINS, help=text("bins of equal width, from the first day to the last")),
    "edges": Key(
        kind=ListOf(CalendarDay(), example='["2024-01-01", "2024-04-01", "2024-12-31"]'),
        help=text("instead of bins: the first day of every bin, then the last day"),
    ),
    "format": Key(
        kind=AnyText(example='"%Y年%m月%d日"'),
        help=text("how days are written, if not 2024-01-31 or 2024/1/31; japanese: 令和6年4月1日, R6.4.1, 2024年4月"),
    ),
    "hierarchy": TREE,
}
MESH: Keys = {
    **SHARED,
    "name": replace(NAME, example='"mesh"'),
    "level": Key(
        kind=WholeNumber(low=1, high=6, example="3"),
        required=True,
        help=text("level of the mesh: 1, 2, 3, 4 (1/2), 5 (1/4), 6 (1/8)"),
    ),
    "area": Key(
        kind=ListOf(AnyText(example='"5339"'), example='["5339", "5340"]'),
        help=text("the first-level codes that are covered"),
    ),
    "area_file": Key(
        kind=FilePath(example='"land.txt"'),
        help=text("instead of area: a text file with the cells in which people can be"),
    ),
}
IDENTIFIER: Keys = {
    "name": replace(NAME, example='"customer_id"'),
    "role": Key(
        kind=ChoiceOf(("identifier",)), required=True, help=text("a column that is never published needs no kind")
    ),
}
AREAS: Keys = {
    "file": Key(
        kind=FilePath(example='"municipalities.csv"'),
        required=True,
        help=text("a CSV (cell, area of every level, perhaps its share), or polygons in GeoJSON"),
    ),
    "rule": Key(
        kind=ChoiceOf(AREA_RULES, example='"largest"'),
        help=text(
            "cells on a border: whole to the area with the largest share, to the one with the centre, or split by share"
        ),
    ),
    "levels": Key(
        kind=ListOf(AnyText(), example='["municipality", "prefecture"]'),
        help=text("the columns or properties that are levels of areas (default: all)"),
    ),
}


def _pick_attribute(written: Mapping[str, Any]) -> str:
    if "kind" not in written and written.get("role") == "identifier":
        return "identifier"
    return str(written.get("kind", ""))


FORM = FileForm(
    name="schema",
    help=text("A schema: the public facts about a table"),
    version=("sudare", "schema", VERSION),
    tables=(
        TableForm(name="sudare", required=True, keys=HEAD, help=text("The head of the file")),
        TableForm(name="unit", keys=UNIT, help=text("Who is protected")),
        TableForm(
            name="attribute",
            many=True,
            required=True,
            title="name",
            keys=SHARED,
            variants=Variants(
                by="kind",
                keys={
                    "category": LISTED,
                    "ordered": LISTED,
                    "number": NUMBER,
                    "date": DATE,
                    "mesh": MESH,
                    "identifier": IDENTIFIER,
                },
                pick=_pick_attribute,
            ),
            exactly_one=(("bins", "edges"), ("area", "area_file")),
            unless=("role", "identifier"),
            help=text("One column of the table"),
        ),
        TableForm(
            name="impossible",
            many=True,
            any_key=Key(
                kind=ListOf(AnyText(may_be_empty=True), example='["[0,15)"]'),
                help=text("values that cannot occur together with those of the other keys"),
            ),
            help=text("A combination that cannot occur, such as a married child; public knowledge, never counted"),
        ),
        TableForm(
            name="areas",
            many=True,
            keys=AREAS,
            help=text("Areas that cells lie in, such as municipalities and prefectures; several divisions may overlap"),
        ),
    ),
)


def json_schema() -> dict[str, Any]:
    """Give the JSON schema of the file, for editors.

    >>> sorted(json_schema()["properties"])
    ['areas', 'attribute', 'impossible', 'sudare', 'unit']
    """
    return write_json_schema(FORM)


# --- the schema -------------------------------------------------------------------------------------------------------


def read_schema(path: str | Path) -> Schema:
    """Read a schema file and the files it names, which are sought beside it.

    Error: SchemaError (HierarchyError for a hierarchy), one line with file, line, attribute, key and what to do.
    """
    filled = read_form(path, FORM)
    attributes = _build_attributes(filled)
    head, unit = filled.table("sudare"), _build_unit(filled, attributes)
    inferred = head["inferred"]
    origin: Origin = "confirmed" if inferred == "confirmed" else "inferred" if inferred else "declared"
    identifiers = [table["name"] for table in filled.list_tables("attribute") if table["role"] == "identifier"]
    impossible = _build_impossible(filled, attributes)
    with filled.blame(error=SchemaError):
        schema = Schema(
            name=head["name"] or Path(path).stem,
            unit=unit,
            attributes=tuple(attributes),
            identifiers=tuple(identifiers),
            impossible=impossible,
            origin=origin,
        )
    if impossible:
        with filled.list_tables("impossible")[-1].blame(error=SchemaError):
            _ = schema.possible_size  # refuses combinations that leave nothing
    for table in filled.list_tables("areas"):
        with table.blame("file", error=SchemaError):
            division = read_areas(table.path("file"), schema, rule=table["rule"], levels=table["levels"] or None)
            schema = schema.with_areas(division)
    return schema


def _build_attributes(filled: FilledForm) -> list[Attribute]:
    attributes: list[Attribute] = []
    names: set[str] = set()
    for table in filled.list_tables("attribute"):
        if table["name"] in names:
            table.refuse(text("attribute {name} is declared twice; names must differ", name=table["name"]), "name")
        names.add(table["name"])
        if table["role"] != "identifier":
            with table.blame(error=SchemaError):
                attributes.append(_build_attribute(table))
    if not attributes and filled.table("sudare")["inferred"] is not True:
        problem = text("every attribute is an identifier; nothing is left to publish. Give one of them a kind")
        filled.list_tables("attribute")[0].refuse(problem, "role")
    return attributes


def _build_attribute(table: FilledTable) -> Attribute:
    if table["kind"] in ("category", "ordered"):
        domain, hierarchy = _build_listed(table)
    else:
        domain = _build_mesh(table) if table["kind"] == "mesh" else _build_bins(table)
        hierarchy = None if table["kind"] == "mesh" else _build_hierarchy(table, domain)
    return Attribute(
        name=table["name"],
        domain=domain,
        role=table["role"],
        missing=bool(table["missing"]),
        missing_marks=_read_marks(table),
        outside=table["outside"],
        hierarchy=hierarchy,
        date_format=table["format"] if table["kind"] == "date" else None,
        number_format=table["format"] if table["kind"] == "number" else None,
        from_data=table["from_data"],
        grain=table["grain"] if table["kind"] == "number" else None,
    )


def _read_marks(table: FilledTable) -> tuple[str, ...]:
    if table["missing"] == ():
        raise SchemaError("missing = [] says nothing; write true, false or a list of marks")
    return () if isinstance(table["missing"], bool) else tuple(table["missing"])


def _build_listed(table: FilledTable) -> tuple[Domain, TableHierarchy | None]:
    """Build listed values. Without a list they are the first column of the hierarchy's file, or the prefectures."""
    is_ordered, rule = table["kind"] == "ordered", table["hierarchy"]
    if "values" not in table and "values_file" not in table:
        if isinstance(rule, str):
            with table.blame("hierarchy", error=SchemaError):
                tree = from_csv(table.path("hierarchy"), **_describe_branches(table))
                declared = len(tree.names[0]) - (table["outside"] == "other") - bool(table["missing"])
                return Values(tree.names[0][:declared], is_ordered=is_ordered), tree
        if rule is not None and rule["builtin"] == "jp-prefecture":
            return Values(PREFECTURES, is_ordered=is_ordered), prefecture_regions()
    key = table.require_one("values", "values_file")
    with table.blame(key, error=SchemaError):
        labels = table["values"] if key == "values" else read_lines(table.path("values_file"))
        domain = Values(tuple(labels), is_ordered=is_ordered)
    return domain, _build_hierarchy(table, domain)


def _build_bins(table: FilledTable) -> Domain:
    key = table.require_one("bins", "edges")
    bins: Any = NumberBins if table["kind"] == "number" else DateBins
    if key == "edges":
        with table.blame("edges", error=SchemaError):
            built: Domain = bins(table["edges"])
            return built
    with table["bins"].blame(error=SchemaError):
        equal: Domain = bins.of_width(table["bins"]["start"], table["bins"]["stop"], table["bins"]["width"])
        return equal


def _build_mesh(table: FilledTable) -> Domain:
    key = table.require_one("area", "area_file")
    with table.blame(key, error=SchemaError):
        if key == "area":
            return MeshCells(level=table["level"], area=table["area"])
        cells = [line.strip() for line in read_lines(table.path("area_file")) if line.strip()]
        return MeshCells(level=table["level"], cells=cells)  # type: ignore[arg-type]  # checked and sorted there


def _describe_branches(table: FilledTable) -> dict[str, Any]:
    """Say which branches a hierarchy's file has beside those of the values."""
    other, missing = table["outside"] == "other", bool(table["missing"])
    return {"other": other, "missing": missing, "missing_marks": _read_marks(table)}


def _build_hierarchy(table: FilledTable, domain: Domain) -> TableHierarchy | None:
    """Read or build the hierarchy that the file asks for."""
    rule = table["hierarchy"]
    if rule is None:
        return None
    with table.blame("hierarchy", error=SchemaError):
        if isinstance(rule, str):
            return from_csv(table.path("hierarchy"), domain, **_describe_branches(table))
        return _build_by_rule(rule, domain)


def _build_by_rule(rule: FilledTable, domain: Domain) -> TableHierarchy:
    name = rule.require_one(*RULES)
    if name != "masking" and ("characters" in rule or "steps" in rule):
        extra = "characters" if "characters" in rule else "steps"
        rule.refuse(text("characters and steps go with masking only; take them out"), extra)
    if name != "intervals" and any(end in rule for end in ENDS):
        extra = next(end for end in ENDS if end in rule)
        rule.refuse(text("bottom and top go with intervals only; take them out"), extra)
    with rule.blame(name, error=SchemaError):
        if name == "groups":
            return ordered_groups(domain, rule["groups"])
        if name == "intervals" and isinstance(domain, NumberBins):
            return intervals(domain, rule["intervals"], bottom=rule["bottom"], top=rule["top"])
        if name == "dates" and isinstance(domain, DateBins):
            return dates(domain, rule["dates"])
        if name == "masking" and isinstance(domain, Values):
            return masking(domain, side=rule["masking"], characters=rule["characters"] or 1, steps=rule["steps"])
        if name == "builtin" and rule["builtin"] == "star":
            return all_in_one(domain)
        if name == "builtin" and isinstance(domain, Values):
            return prefecture_regions(domain)
        raise SchemaError(
            "a hierarchy by {rule} does not fit kind {kind}; use another rule, or a CSV file",
            rule=name,
            kind=domain.kind,
        )


def _build_unit(filled: FilledForm, attributes: Sequence[Attribute]) -> Unit:
    if "unit" not in filled:
        return Unit()
    table = filled.table("unit")
    with table.blame(error=SchemaError):
        unit = Unit(kind=table["kind"], column=table["column"], max_rows=table["max_rows"] or 1)
    if unit.column in [attribute.name for attribute in attributes]:
        problem = text(
            'the column of persons ({column}) must not be published; give it role = "identifier" or leave it out',
            column=unit.column,
        )
        table.refuse(problem, "column")
    return unit


def _build_impossible(filled: FilledForm, attributes: Sequence[Attribute]) -> tuple[Impossible, ...]:
    boxes = []
    for table in filled.list_tables("impossible"):
        check_names(table, [attribute.name for attribute in attributes])
        for name in table:
            with table.blame(name, error=SchemaError):
                make_box(attributes, {name: table[name]})
        with table.blame(error=SchemaError):
            boxes.append(make_box(attributes, table.written))
    return tuple(boxes)


def check_names(table: FilledTable, names: Sequence[str]) -> None:
    """Refuse a table whose keys are names of attributes if there is no such attribute."""
    for name in table:
        if name in names:
            continue
        known = list_some(names, 20)
        if near := find_near(name, [other for other in names if other not in table]):
            table.refuse(
                text(
                    "there is no attribute {name}; did you mean {near}? the schema has {known}",
                    name=name,
                    near=near,
                    known=known,
                ),
                name,
            )
        table.refuse(text("there is no attribute {name}; the schema has {known}", name=name, known=known), name)
