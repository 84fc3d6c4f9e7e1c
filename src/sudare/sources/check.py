"""Which rows do not fit: asked of the engine in one pass, answered with numbers only."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from sudare.errors import DomainError
from sudare.schema import Attribute, DateBins, Impossible, MeshCells, NumberBins
from sudare.schema.mesh import DIGITS, MESH_TEXT
from sudare.schema.raw import to_date, to_number, to_text, trim
from sudare.sources import base
from sudare.sources import count as people
from sudare.sources.base import Findings, Misfit, whole_number
from sudare.sources.sql import Expression, both, in_runs, is_null, raw
from sudare.text import Text, text

if TYPE_CHECKING:
    from sudare.sources.table import TableSource


def misfits(source: TableSource, attributes: Sequence[Attribute], *, tag: str = "", every: bool = False) -> list[int]:
    """Count for each attribute the rows that have no code; `every`: also those that are sampled away."""
    codings = [source.coding(attribute, tag=tag) for attribute in attributes]
    query = source.query(codings, source.places(attributes), every=every)
    return _lacking(source, query, [coding.code for coding in codings])


def uncounted(source: TableSource) -> int:
    """Count the rows whose number in the column of counts cannot be used."""
    if source.count_column is None:
        return 0
    column = source.column(source.count_column)
    return _lacking(source, source.query([], [column.place]), [whole_number(column)])[0]


def _lacking(source: TableSource, query: exp.Select, values: Sequence[Expression]) -> list[int]:
    told = [exp.Count(this=value).as_(f"a{index}") for index, value in enumerate(values)]
    found = source.engine.arrays(query.select(exp.Count(this=exp.Star()).as_("n"), *told))
    return [int(found["n"][0] - found[f"a{index}"][0]) for index in range(len(values))]


def impossible_rows(source: TableSource, boxes: Sequence[Impossible], *, every: bool = False) -> list[int]:
    """Count for each impossible combination the rows in it."""
    if not boxes:
        return []
    named = [attribute for attribute in source.schema.attributes if any(attribute.name in box.names for box in boxes)]
    codings = {attribute.name: source.coding(attribute) for attribute in named}
    query = source.query(list(codings.values()), source.places(named), every=every)
    for index, box in enumerate(boxes):
        inside = both(*(in_runs(codings[name].code, codes) for name, codes in box.values))
        number = exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=inside))
        query = query.select(number.as_(f"b{index}"))
    found = source.engine.arrays(query)
    return [int(found[f"b{index}"][0]) for index in range(len(boxes))]


def refuse_misfits(source: TableSource, attributes: Sequence[Attribute]) -> None:
    """Refuse rows that do not fit, saying no more than the names of attributes.

    Error: DomainError if there are any.
    """
    rows = misfits(source, attributes)
    wrong = [attribute for attribute, number in zip(attributes, rows, strict=True) if number]
    if wrong:
        raise _undeclared(wrong)
    if uncounted(source):
        raise DomainError(
            "column {column} must hold whole numbers, 0 or more, in every row; run `sudare schema check`",
            column=source.count_column,
        )


def _undeclared(wrong: Sequence[Attribute]) -> DomainError:
    """Say what is allowed where one line can: a mesh by its level and area."""
    domain = wrong[0].domain
    if len(wrong) == 1 and isinstance(domain, MeshCells):
        return DomainError(
            "{name} must hold mesh codes of level {level} ({digits} digits) or finer, inside the declared area; run"
            " `sudare schema check` to see the others",
            name=wrong[0].name,
            level=domain.level,
            digits=DIGITS[domain.level - 1],
        )
    return DomainError(
        "the data hold values of {names} that the schema does not declare; run `sudare schema check` to see them",
        names=", ".join(attribute.name for attribute in wrong),
    )


def refuse_impossible(box: Impossible) -> None:
    """Refuse rows in a combination that is declared impossible; names attributes only."""
    raise DomainError(
        "the data hold combinations of {names} that are declared impossible; run `sudare schema check` to see how many",
        names=", ".join(box.names),
    )


# What a steward wants to know before a table is published: everything that does not fit its schema.


_EXAMPLES = 5
_LONGEST_EXAMPLE = 60  # characters
_STRICT = "_strict"


def check(source: TableSource) -> Findings:
    """Look at every row, also those that would be sampled away, and tell what does not fit."""
    lacking = [*_unreadable(source)]
    wrong = {problem.attribute for problem in lacking}
    attributes = [attribute for attribute in source.schema.attributes if attribute.name not in wrong]
    problems = [*lacking, *_values(source, attributes), *_combinations(source, wrong)]
    unit = source.schema.unit.column
    if unit is not None and unit not in wrong:
        problems += _nobodies(source)
    if source.schema.unit.kind == "row" and source.count_column is None:
        problems += [
            Misfit(attribute=name, problem=base.REPEATS, rows=rows)
            for name, rows in people.repeated_identifiers(source.engine, source.schema.identifiers)
        ]
    if source.count_column is not None and source.count_column not in wrong:
        problems += _numbers(source)
    return Findings(problems=tuple(problems), notes=tuple(_notes(source, wrong)))


def _unreadable(source: TableSource) -> Iterator[Misfit]:
    """Columns that are not there, or of a type that cannot be read."""
    needed = [*source.schema.names, source.schema.unit.column, source.count_column]
    for name in dict.fromkeys(name for name in needed if name is not None):
        if name not in source.columns:
            yield Misfit(attribute=name, problem=base.NO_COLUMN, rows=0)
        elif source.columns[name].family == "other":
            yield Misfit(attribute=name, problem=base.WRONG_TYPE, rows=0)


def _values(source: TableSource, attributes: list[Attribute]) -> Iterator[Misfit]:
    """Values that are not declared, told also where the schema gives them a way out (other, clamp)."""
    if not attributes:
        return
    strict = [dataclasses.replace(each, outside="refuse", hierarchy=None) for each in attributes]
    numbers = misfits(source, strict, tag=_STRICT, every=True)
    for attribute, narrow, rows in zip(attributes, strict, numbers, strict=True):
        if rows:
            yield from _sorted_out(source, attribute, narrow)


def _sorted_out(source: TableSource, attribute: Attribute, strict: Attribute) -> list[Misfit]:
    """Say what is wrong with each distinct value, the commonest first."""
    coding = source.coding(strict, tag=_STRICT)
    value = raw(source.column(attribute.name).place)
    query = source.query([coding], source.places([attribute]), every=True).where(is_null(coding.code))
    query = query.select(value.as_("value"), exp.Count(this=exp.Star()).as_("n")).group_by("value")
    found: dict[Text, Misfit] = {}
    for one, rows in source.engine.stream(query.order_by("n DESC", "value")):
        problem = _problem(attribute, one)
        known = found.get(problem, Misfit(attribute=attribute.name, problem=problem, rows=0))
        found[problem] = dataclasses.replace(known, rows=known.rows + rows, examples=_with(known.examples, one))
    return list(found.values())


def _with(examples: tuple[str, ...], value: object) -> tuple[str, ...]:
    if value is None or len(examples) == _EXAMPLES:
        return examples
    shown = to_text(value)
    return (*examples, shown if len(shown) <= _LONGEST_EXAMPLE else shown[: _LONGEST_EXAMPLE - 1] + "…")


def _problem(attribute: Attribute, value: object) -> Text:
    try:
        code = attribute.encode(value)
    except DomainError:
        if attribute.means_missing(value):
            return base.MISSING
        return base.OUTSIDE if _is_readable(attribute, value) else base.UNREADABLE
    return base.TAKEN_AS_OTHER if code == attribute.other_code else base.CLAMPED


def _is_readable(attribute: Attribute, value: object) -> bool:
    match attribute.domain:
        case NumberBins():
            return to_number(value) is not None
        case DateBins():
            return to_date(value, attribute.date_format if isinstance(value, str) else None) is not None
        case MeshCells(level=level):
            text = trim(value)
            return len(text) >= DIGITS[level - 1] and re.fullmatch(MESH_TEXT, text) is not None
        case _:
            return True


def _combinations(source: TableSource, wrong: set[str]) -> Iterator[Misfit]:
    boxes = [box for box in source.schema.impossible if not wrong & set(box.names)]
    for box, rows in zip(boxes, impossible_rows(source, boxes, every=True), strict=True):
        if rows:
            yield Misfit(attribute=", ".join(box.names), problem=base.IMPOSSIBLE, rows=rows)


def _nobodies(source: TableSource) -> Iterator[Misfit]:
    name = source.schema.unit.column or ""
    rows = people.nobodies(source.engine, source.column(name))
    if rows:
        yield Misfit(attribute=name, problem=base.NO_PERSON, rows=rows)


def _numbers(source: TableSource) -> Iterator[Misfit]:
    rows = uncounted(source)
    if rows:
        yield Misfit(attribute=source.count_column or "", problem=base.NO_COUNT, rows=rows)


def _notes(source: TableSource, wrong: set[str]) -> Iterator[Text]:
    unit = source.schema.unit
    if unit.column is not None and unit.column not in wrong:
        found = source.engine.arrays(people.crowd(source.column(unit.column), max_rows=unit.max_rows))
        if persons := int(found["persons"][0]):
            beyond = int(found["beyond"][0])
            yield text(
                "{persons} persons have more than {limit} rows; {rows} rows would be sampled away",
                persons=persons,
                limit=unit.max_rows,
                rows=beyond,
            )
    declared = {*source.schema.names, *source.schema.identifiers, unit.column, source.count_column}
    extra = [name for name in source.columns if name and name not in declared]
    if extra:
        columns = ", ".join(extra)
        yield text("columns that the schema does not declare will not be published: {columns}", columns=columns)
    absent = [name for name in source.schema.identifiers if name not in source.columns]
    if absent:
        yield text("identifiers that are not in the data: {columns}", columns=", ".join(absent))
