"""Refusals that say what to write instead: of names that are no column, and of functions that are not known."""

from __future__ import annotations

from collections.abc import Sequence

from sudare.asking.aggregates import AGGREGATES
from sudare.asking.functions import FUNCTIONS
from sudare.asking.syntax import refuse
from sudare.errors import ParameterError
from sudare.schema import Schema, Values
from sudare.schema.raw import list_some
from sudare.text import text

OTHERS = ("IF", "IFF", "GROUPING")  # calls that are neither in FUNCTIONS nor aggregates


def check_function(name: str, columns: Sequence[str]) -> None:
    """Refuse a function that is not known, with the nearest one; a column that is written like a call needs quotes."""
    if name in FUNCTIONS or name in AGGREGATES or name in OTHERS:
        return
    written = [column for column in columns if column.upper().startswith(f"{name}(")]
    if written:
        why = text("if the column is meant, write its name in double quotes: {example}", example=f'"{written[0]}"')
        raise refuse(f"{name}()", why)
    near = _find_near(name, [*sorted(AGGREGATES), *FUNCTIONS])
    if near:
        raise refuse(f"{name}()", text("it is not known here; {near} is", near=f"{near}()"))
    raise refuse(f"{name}()")


def refuse_column(name: str, columns: Sequence[str], schema: Schema | None) -> ParameterError:
    """The refusal of a name that is no column; what may be a value is told to stand in single quotes."""
    known = list_some(list(columns), 20)
    if schema is not None and name in [level for division in schema.areas for level in division.levels]:
        return ParameterError("{name} is a level of areas, and no column of the cells; ask FROM areas", name=name)
    is_value = schema is not None and any(
        isinstance(attribute.domain, Values) and name in attribute.domain.values for attribute in schema.attributes
    )
    if not is_value and _find_near(name, columns):
        return ParameterError("there is no column {name}; there are {known}", name=name, known=known)
    return ParameterError(
        "there is no column {name}; there are {known}. A value stands in single quotes: {example}",
        name=name,
        known=known,
        example="'" + name.replace("'", "''") + "'",
    )


def _find_near(name: str, known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name.casefold(), [one.casefold() for one in known], 1, 0.6)
    return next((one for one in known if near and one.casefold() == near[0]), "")
