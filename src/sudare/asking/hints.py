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

INSTEAD = {  # functions that people ask for and that are not answered: what answers the same question
    **dict.fromkeys(
        ("REGEXP_MATCHES", "REGEXP_LIKE", "REGEXP_FULL_MATCH", "REGEXP_EXTRACT", "REGEXP_REPLACE", "REGEXP"),
        text("write x LIKE '%a%' OR x LIKE '%b%', STARTS_WITH, CONTAINS or IN"),
    ),
    **dict.fromkeys(("TO_CHAR", "DATE_FORMAT"), text("write STRFTIME(day, '%Y-%m')")),
    **dict.fromkeys(("TIME_BUCKET", "MAKE_DATE", "DATE_FROM_PARTS"), text("write DATE_TRUNC('month', day), or 'week'")),
    **dict.fromkeys(
        ("ARG_MAX", "ARG_MIN", "MAX_BY", "MIN_BY"), text("write ORDER BY the number DESC LIMIT 1, over groups")
    ),
    **dict.fromkeys(
        ("STRING_AGG", "LISTAGG", "GROUP_CONCAT", "LIST", "ARRAY_AGG", "HISTOGRAM"),
        text("an answer has no lists; each value is a row of its own with GROUP BY"),
    ),
    **dict.fromkeys(
        ("ANY_VALUE", "FIRST", "LAST", "ARBITRARY"),
        text("a release has no single records; MIN, MAX and MODE are answered"),
    ),
    **dict.fromkeys(("BOOL_OR", "BOOL_AND", "EVERY"), text("compare COUNT_IF(...) with 0 or with COUNT(*)")),
    **dict.fromkeys(("NOW", "TODAY", "GETDATE"), text("the answer would change from day to day; write the day")),
    **dict.fromkeys(
        ("MAD", "SKEWNESS", "KURTOSIS", "ENTROPY"), text("its interval is not known here; --records answers it without")
    ),
}
OTHERS = ("IF", "IFF", "GROUPING")  # calls that are neither in FUNCTIONS nor aggregates


def check_function(name: str, columns: Sequence[str]) -> None:
    """Refuse a function that is not known, with the nearest one; a column that is written like a call needs quotes."""
    if name in FUNCTIONS or name in AGGREGATES or name in OTHERS:
        return
    written = [column for column in columns if column.upper().startswith(f"{name}(")]
    if written:
        why = text("if the column is meant, write its name in double quotes: {example}", example=f'"{written[0]}"')
        raise refuse(f"{name}()", why)
    if name in INSTEAD:
        raise refuse(f"{name}()", INSTEAD[name])
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
