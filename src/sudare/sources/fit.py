"""Which rows do not fit: asked of the engine in one pass, answered with numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from sudare.errors import DomainError
from sudare.schema import Attribute, Impossible, MeshCells
from sudare.schema.mesh import DIGITS
from sudare.sources.counted import whole_number
from sudare.sources.sql import Expression, both, in_runs

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
