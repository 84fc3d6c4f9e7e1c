"""Which rows do not fit the schema: counted in one pass each.

What refuses a table names attributes and nothing else; what the steward sees (`check_rows`) also holds examples.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sudare.errors import DomainError
from sudare.schema import Attribute, DateBins, Impossible, MeshCells, NumberBins
from sudare.schema.mesh import DIGITS, MESH_TEXT
from sudare.schema.raw import to_date, to_number, to_text, trim, write_decimal
from sudare.sources import base
from sudare.sources.base import Findings, Misfit, read_count
from sudare.sources.count import count_over_limit, find_repeated_identifiers
from sudare.sources.sql import (
    Expression,
    all_of,
    choose,
    in_runs,
    is_multiple,
    is_nan,
    is_null,
    literal,
    raw_column,
    read_text,
)
from sudare.text import Text, text

if TYPE_CHECKING:
    from sudare.sources.table import TableSource


# --- refusing a table -----------------------------------------------------------------------------------------------


def count_misfits(
    source: TableSource, attributes: Sequence[Attribute], *, tag: str = "", all_rows: bool = False
) -> list[int]:
    """Count for each attribute the rows that have no code; `all_rows`: also those beyond the limit of a person."""
    misfits = _count_without_code(source, attributes, tag=tag, all_rows=all_rows)
    unfit = [attribute for attribute, rows in zip(attributes, misfits, strict=True) if rows]
    if unfit and source.look_up_unread(unfit, tag=tag):
        misfits = _count_without_code(source, attributes, tag=tag, all_rows=all_rows)
    if all_rows or source.schema.unit.kind == "row":
        source.note_all_read([attribute for attribute in attributes if attribute not in unfit], tag=tag)
    return misfits


def _count_without_code(source: TableSource, attributes: Sequence[Attribute], *, tag: str, all_rows: bool) -> list[int]:
    sql_codes = [source.encode_attribute(attribute, tag=tag, may_be_unread=True) for attribute in attributes]
    query = source.query(sql_codes, source.column_ids(attributes), all_rows=all_rows)
    return _count_nulls(source, query, [sql_code.expression for sql_code in sql_codes], all_rows=all_rows)


def count_unusable_counts(source: TableSource) -> int:
    """Count the rows whose number in the column of counts cannot be used."""
    if source.count_column is None:
        return 0
    column = source.column(source.count_column)
    return _count_nulls(source, source.query([], [column.column_id]), [read_count(column)])[0]


def _count_nulls(
    source: TableSource, query: exp.Select, values: Sequence[Expression], *, all_rows: bool = False
) -> list[int]:
    present = [exp.Count(this=value).as_(f"a{index}") for index, value in enumerate(values)]
    result = source.engine.arrays(query.select(exp.Count(this=exp.Star()).as_("n"), *present))
    if not all_rows:
        source.check_row_number(int(result["n"][0]))
    return [int(result["n"][0] - result[f"a{index}"][0]) for index in range(len(values))]


def count_impossible_rows(source: TableSource, boxes: Sequence[Impossible], *, all_rows: bool = False) -> list[int]:
    """Count for each impossible combination the rows in it."""
    if not boxes:
        return []
    named = [attribute for attribute in source.schema.attributes if any(attribute.name in box.names for box in boxes)]
    sql_codes = {attribute.name: source.encode_attribute(attribute) for attribute in named}
    query = source.query(list(sql_codes.values()), source.column_ids(named), all_rows=all_rows)
    for index, box in enumerate(boxes):
        inside = all_of(*(in_runs(sql_codes[name].expression, codes) for name, codes in box.values))
        number = exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=inside))
        query = query.select(number.as_(f"b{index}"))
    result = source.engine.arrays(query)
    return [int(result[f"b{index}"][0]) for index in range(len(boxes))]


def refuse_misfits(source: TableSource, attributes: Sequence[Attribute]) -> None:
    """Refuse rows that do not fit, saying no more than the names of attributes.

    Error: DomainError if there are any.
    """
    misfits = count_misfits(source, attributes)
    wrong = [attribute for attribute, rows in zip(attributes, misfits, strict=True) if rows]
    if wrong:
        raise _name_undeclared(wrong)
    if count_unusable_counts(source):
        raise DomainError(
            "column {column} must hold whole numbers, 0 or more, in every row; run `sudare schema check`",
            column=source.count_column,
        )


def _name_undeclared(wrong: Sequence[Attribute]) -> DomainError:
    """Say what is allowed where one line can: a mesh by its level and area."""
    domain = wrong[0].domain
    if len(wrong) == 1 and isinstance(domain, MeshCells):
        return DomainError(
            "{name} must hold mesh codes of level {level} ({digits} digits) or finer, inside the declared area; run"
            " `sudare schema check` to see the values that are not",
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


# --- what a steward wants to know before a table is published: everything that does not fit its schema --------------

_MOST_EXAMPLES = 5  # of each problem
_LONGEST_EXAMPLE = 60  # characters
_STRICT = "_strict"  # the tag of attributes that refuse what lies outside


def check_rows(source: TableSource) -> Findings:
    """Look at every row, also those beyond the limit of a person, and tell what does not fit."""
    unusable = [*_find_unusable_columns(source)]
    wrong = {misfit.attribute for misfit in unusable}
    attributes = [attribute for attribute in source.schema.attributes if attribute.name not in wrong]
    problems = [*unusable, *_find_misfits(source, attributes), *_find_impossible_rows(source, wrong)]
    unit = source.schema.unit.column
    if unit is not None and unit not in wrong:
        problems += _find_unowned_rows(source)
    if source.schema.unit.kind == "row" and source.count_column is None:
        problems += [
            Misfit(attribute=name, problem=base.REPEATS, rows=rows)
            for name, rows in find_repeated_identifiers(source.engine, source.schema.identifiers)
        ]
    if source.count_column is not None and source.count_column not in wrong:
        problems += _find_unusable_counts(source)
    notes = (*source.notes, *_write_notes(source, wrong), *_find_finer_numbers(source, attributes))
    return Findings(problems=tuple(problems), notes=notes)


def _find_unusable_columns(source: TableSource) -> Iterator[Misfit]:
    """Find columns that are not there, or of a type that cannot be read."""
    needed = [*source.schema.names, source.schema.unit.column, source.count_column]
    for name in dict.fromkeys(name for name in needed if name is not None):
        if name not in source.columns:
            yield Misfit(attribute=name, problem=base.NO_COLUMN, rows=0)
        elif source.columns[name].family == "other":
            yield Misfit(attribute=name, problem=base.WRONG_TYPE, rows=0)


def _find_misfits(source: TableSource, attributes: list[Attribute]) -> Iterator[Misfit]:
    """Find values that are not declared, also where the schema says what to do with them (other, clamp)."""
    if not attributes:
        return
    strict = [dataclasses.replace(attribute, outside="refuse", hierarchy=None) for attribute in attributes]
    misfits = count_misfits(source, strict, tag=_STRICT, all_rows=True)
    for attribute, strict_one, rows in zip(attributes, strict, misfits, strict=True):
        if rows:
            yield from _sort_misfits(source, attribute, strict_one)


def _sort_misfits(source: TableSource, attribute: Attribute, strict: Attribute) -> list[Misfit]:
    """Say what is wrong with each distinct value, the commonest first."""
    sql_code = source.encode_attribute(strict, tag=_STRICT)
    value = raw_column(source.column(attribute.name).column_id)
    query = source.query([sql_code], source.column_ids([attribute]), all_rows=True)
    query = query.where(is_null(sql_code.expression))
    query = query.select(value.as_("value"), exp.Count(this=exp.Star()).as_("n")).group_by("value")
    misfits: dict[Text, Misfit] = {}
    for misfit_value, rows in source.engine.stream(query.order_by("n DESC", "value")):
        problem = _name_problem(attribute, misfit_value)
        known = misfits.get(problem, Misfit(attribute=attribute.name, problem=problem, rows=0))
        examples = _add_example(known.examples, misfit_value)
        misfits[problem] = dataclasses.replace(known, rows=known.rows + rows, examples=examples)
    return list(misfits.values())


def _add_example(examples: tuple[str, ...], value: object) -> tuple[str, ...]:
    if value is None or len(examples) == _MOST_EXAMPLES:
        return examples
    shown = to_text(value)
    return (*examples, shown if len(shown) <= _LONGEST_EXAMPLE else shown[: _LONGEST_EXAMPLE - 1] + "…")


def _name_problem(attribute: Attribute, value: object) -> Text:
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
            return to_number(attribute.read_formatted(value)) is not None
        case DateBins() if attribute.ticks is not None and not isinstance(value, date):
            return to_number(value) is not None
        case DateBins():
            return to_date(attribute.read_formatted(value)) is not None
        case MeshCells(level=level):
            code = trim(value)
            return len(code) >= DIGITS[level - 1] and re.fullmatch(MESH_TEXT, code) is not None
        case _:
            return True


def _find_finer_numbers(source: TableSource, attributes: Sequence[Attribute]) -> Iterator[Text]:
    """Tell of rows between the multiples of a declared grain: a view takes it for true that there are none."""
    for attribute in attributes:
        if attribute.grain and (rows := _count_finer(source, attribute, attribute.grain)):
            yield text(
                "{name}: {rows} rows hold no multiple of its grain, {grain}; views would tell false ranges: correct the"
                " grain in the schema, or write 0, which says that numbers lie anywhere",
                name=attribute.name,
                rows=rows,
                grain=write_decimal(attribute.grain),
            )


def _count_finer(source: TableSource, attribute: Attribute, grain: Fraction) -> int:
    column = source.column(attribute.name)
    value = raw_column(column.column_id)
    query = source.query([], [column.column_id], all_rows=True)
    if column.family == "text" and attribute.number_format is not None:
        query = query.select(value.as_("value"), exp.Count(this=exp.Star()).as_("n")).group_by("value")
        counted = source.engine.stream(query)
        read = ((to_number(attribute.read_formatted(raw)), n) for raw, n in counted if not attribute.means_missing(raw))
        return sum(rows for number, rows in read if isinstance(number, Fraction) and (number / grain).denominator > 1)
    number = read_text(value, "DOUBLE") if column.family == "text" else value
    marks = [float(mark) for written in attribute.missing_marks if (mark := to_number(written)) is not None]
    is_there: list[Expression] = [
        exp.not_(is_null(number)),
        *([exp.not_(is_nan(number.copy()))] if column.family == "float" else []),
    ]
    is_there += [exp.NEQ(this=number.copy(), expression=literal(mark)) for mark in marks]
    is_finer = all_of(*is_there, exp.not_(is_multiple(number.copy(), grain)))
    count = exp.Count(this=choose([(is_finer, literal(1))])).as_("n")
    return int(source.engine.arrays(query.select(count))["n"][0])


def _find_impossible_rows(source: TableSource, wrong: set[str]) -> Iterator[Misfit]:
    boxes = [box for box in source.schema.impossible if not wrong & set(box.names)]
    for box, rows in zip(boxes, count_impossible_rows(source, boxes, all_rows=True), strict=True):
        if rows:
            yield Misfit(attribute=", ".join(box.names), problem=base.IMPOSSIBLE, rows=rows)


def _find_unowned_rows(source: TableSource) -> Iterator[Misfit]:
    unit = source.schema.unit
    limit = count_over_limit(source.engine, source.column(unit.column or ""), max_rows=unit.max_rows)
    if limit.unowned:
        yield Misfit(attribute=unit.column or "", problem=base.NO_PERSON, rows=limit.unowned)


def _find_unusable_counts(source: TableSource) -> Iterator[Misfit]:
    rows = count_unusable_counts(source)
    if rows:
        yield Misfit(attribute=source.count_column or "", problem=base.NO_COUNT, rows=rows)


def _write_notes(source: TableSource, wrong: set[str]) -> Iterator[Text]:
    unit = source.schema.unit
    if unit.column is not None and unit.column not in wrong:
        limit = count_over_limit(source.engine, source.column(unit.column), max_rows=unit.max_rows)
        if limit.persons:
            yield text(
                "{persons} persons have more than {limit} rows; {rows} of their rows, chosen at random, would be left"
                " out",
                persons=limit.persons,
                limit=unit.max_rows,
                rows=limit.too_many,
            )
    declared = {*source.schema.names, *source.schema.identifiers, unit.column, source.count_column}
    extra = [name for name in source.columns if name and name not in declared]
    if extra and not declared.isdisjoint(source.columns):  # else the first row may have been taken for the names
        columns = ", ".join(extra)
        yield text("columns that the schema does not declare will not be published: {columns}", columns=columns)
    absent = [name for name in source.schema.identifiers if name not in source.columns]
    if absent:
        yield text("identifiers that are not in the data: {columns}", columns=", ".join(absent))
