"""Listed values in SQL: a lookup by the exact text."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from sqlglot import exp

from sudare.schema import DateBins, MeshCells, NumberBins, Values
from sudare.schema.mesh import DIGITS
from sudare.sources.encode_numbers import code_days, code_numbers
from sudare.sources.encoder import ColumnEncoder, Join, SqlCode
from sudare.sources.engine import Lookup
from sudare.sources.sql import Expression, both, call, cast, choose, either, is_null, literal, matches, try_cast


def code_values(site: ColumnEncoder, domain: Values) -> SqlCode:
    """Find each value in a table of the declared ones. A join beats CASE and ENUM, at any number of values.

    Integers are found by number, which is quicker; all else by text, exactly as it stands.
    """
    family = site.column.family
    if family == "moment" or not site.prints_like_python:
        return site.asked()
    lookup = _by_number(site, domain) if family == "integer" else _by_text(site, domain)
    key = site.value() if family in ("text", "integer") else cast(site.value(), "VARCHAR")
    code: Expression = site.found("values")
    if site.attribute.other_code is not None:
        code = call("COALESCE", code, literal(site.attribute.other_code))
    absent = site.encoded(None)
    if absent is not None and absent != site.attribute.other_code:
        nothing = [is_null(site.value())] + ([call("ISNAN", site.value())] if family == "float" else [])
        code = choose([(either(nothing), literal(absent))], code)
    return SqlCode(inner=code, joins=(Join(lookup=lookup, key=key),))


def _codes(site: ColumnEncoder, domain: Values) -> dict[str, int]:
    """The declared texts, and the texts that mean missing."""
    absent = site.encoded(None)
    marks = ("", *site.attribute.missing_marks) if absent is not None else ()
    return {**dict.fromkeys(marks, absent or 0), **{text: code for code, text in enumerate(domain.values)}}


def _by_text(site: ColumnEncoder, domain: Values) -> Lookup:
    codes = _codes(site, domain)
    keys, values = np.array(list(codes), dtype=np.object_), np.array(list(codes.values()), dtype=np.int64)
    return Lookup(name=site.table("values"), keys=keys, values=values, key="text")


def _by_number(site: ColumnEncoder, domain: Values) -> Lookup:
    pairs = [(int(text), code) for text, code in _codes(site, domain).items() if _is_int64(text)]
    keys, values = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Lookup(name=site.table("values"), keys=keys, values=values, key="integer")


def _is_int64(text: str) -> bool:
    return bool(re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text)) and -(2**63) <= int(text) < 2**63


# Mesh cells in SQL: arithmetic on the digits of JIS codes, never a list of all cells.


_FIRST = "[1-9][0-9]{3}"
_STEPS = ("[0-7]{2}", "[0-9]{2}", "[1-4]", "[1-4]", "[1-4]")
_FANOUT = (64, 100, 4, 4, 4)
_PLACES = (2, 2, 1, 1, 1)  # digits of each step


def code_cells(site: ColumnEncoder, cells: MeshCells) -> SqlCode:
    """Find the cell of a code of the attribute's level or a finer one."""
    family = site.column.family
    if family == "integer":
        return _found(site, cells, ({site.place("mesh"): _from_integer(site, cells)},))
    if family == "text":
        return _found(site, cells, ({site.place("mesh"): _from_text(cells, site.value)},))
    if family == "wide" or (family == "decimal" and site.column.scale == 0):
        written = {site.place("text"): cast(site.value(), "VARCHAR")}
        return _found(site, cells, (written, {site.place("mesh"): _from_text(cells, lambda: site.derived("text"))}))
    return site.asked()


def pattern(level: int) -> str:
    """The form of a code of this level or a finer one.

    >>> pattern(5)
    '[1-9][0-9]{3}[0-7]{2}[0-9]{2}[1-4][1-4]([1-4])?'
    """
    finer = ""
    for step in reversed(_STEPS[level - 1 :]):
        finer = f"({step}{finer})?"
    return _FIRST + "".join(_STEPS[: level - 1]) + finer


def _from_text(cells: MeshCells, text: Callable[[], Expression]) -> Expression:
    head = call("LEFT", text(), literal(DIGITS[cells.level - 1]))
    return choose([(matches(text(), pattern(cells.level)), try_cast(head, "BIGINT"))])


def _from_integer(site: ColumnEncoder, cells: MeshCells) -> Expression:
    """A code of the very level stays a number, which is quick; a finer one is cut as text."""
    length = DIGITS[cells.level - 1]
    own = exp.Between(this=site.value(), low=literal(10 ** (length - 1)), high=literal(10**length - 1))
    text = cast(site.value(), "VARCHAR")
    finer = both(exp.GTE(this=site.value(), expression=literal(10**length)), matches(text, pattern(cells.level)))
    cut = try_cast(call("LEFT", cast(site.value(), "VARCHAR"), literal(length)), "BIGINT")
    return choose([(own, cast(site.value(), "BIGINT")), (finer, cut)])


def _found(site: ColumnEncoder, cells: MeshCells, stages: tuple[dict[str, Expression], ...]) -> SqlCode:
    if cells.cells is not None:
        keys, key, code = cells.cells, site.derived("mesh"), site.found("cells")
    else:
        keys = np.array([int(area) for area in cells.area or ()], dtype=np.int64)
        key = _quotient(site.derived("mesh"), DIGITS[cells.level - 1] - 4)
        code = _numbered(site, cells.level)
    lookup = Lookup(name=site.table("cells"), keys=keys, values=np.arange(len(keys)), key="integer")
    if site.attribute.other_code is not None:
        code = call("COALESCE", code, literal(site.attribute.other_code))
    is_text = site.column.family == "text"
    asked = [(both(is_null(site.derived("mesh")), site.padded(site.value)), site.ask())] if is_text else []
    return SqlCode(inner=site.settled(asked, code), stages=stages, joins=(Join(lookup=lookup, key=key),), asks=is_text)


def _numbered(site: ColumnEncoder, level: int) -> Expression:
    """Number cells in the order of their codes; NULL if a digit is none of its step."""
    code: Expression = site.found("cells")
    rest, conditions = DIGITS[level - 1] - 4, []
    for fanout, places in zip(_FANOUT[: level - 1], _PLACES, strict=False):
        rest -= places
        step, are_valid = _step(site, rest, fanout)
        conditions += are_valid
        code = exp.Add(this=exp.Mul(this=exp.paren(code), expression=literal(fanout)), expression=exp.paren(step))
    return choose([(both(*conditions), code)]) if conditions else code


def _step(site: ColumnEncoder, rest: int, fanout: int) -> tuple[Expression, list[Expression]]:
    """Which cell of the one above, from the digits left of the last `rest`; and when those digits are a step."""
    if fanout == 100:
        return _digits(site, rest, 2), []
    if fanout == 4:
        is_quarter = exp.Between(this=_digits(site, rest, 1), low=literal(1), high=literal(4))
        return exp.Sub(this=_digits(site, rest, 1), expression=literal(1)), [is_quarter]
    north, east = exp.paren(_digits(site, rest + 1, 1)), exp.paren(_digits(site, rest, 1))
    are_eighths: list[Expression] = [exp.LT(this=digit.copy(), expression=literal(8)) for digit in (north, east)]
    return exp.Add(this=exp.Mul(this=north, expression=literal(8)), expression=east), are_eighths


def _digits(site: ColumnEncoder, rest: int, count: int) -> Expression:
    left = exp.paren(_quotient(site.derived("mesh"), rest))
    return exp.Mod(this=left, expression=literal(10**count))


def _quotient(number: Expression, rest: int) -> Expression:
    return exp.IntDiv(this=number, expression=literal(10**rest)) if rest else number


# From raw values to attribute codes in SQL, one file for each kind of attribute.
#
# The meaning of a value is `Attribute.encode`. SQL decides where it is sure to agree and asks that very function for
# the rest, so a column has one meaning whatever the engine, its version or its habits of casting.


__all__ = ["ColumnEncoder", "Join", "SqlCode", "code"]


def code(site: ColumnEncoder) -> SqlCode:
    """Write the code of an attribute over its column as SQL.

    >>> from sudare.schema import Attribute
    >>> from sudare.sources.engine import Column
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))
    >>> column = Column(name="age", place="c0", family="integer", type="BIGINT")
    >>> site = ColumnEncoder(attribute=age, column=column, prefix="c0")
    >>> code(site).code.sql("duckdb")
    'CASE WHEN r.c0 BETWEEN 0 AND 100 THEN LEAST(CAST(r.c0 AS BIGINT) // 5, 19) END'
    """
    if site.column.family == "boolean":
        return _booleans(site)
    match site.attribute.domain:
        case Values() as values:
            return code_values(site, values)
        case NumberBins() as bins:
            return code_numbers(site, bins)
        case DateBins() as bins:
            return code_days(site, bins)
        case MeshCells() as cells:
            return code_cells(site, cells)
        case _:
            return site.asked()


def _booleans(site: ColumnEncoder) -> SqlCode:
    """Two values and their absence: whatever the kind, their meaning can be asked beforehand."""
    missing = is_null(site.value()), literal(site.encoded(None))
    true = site.value(), literal(site.encoded(True))
    return SqlCode(inner=choose([missing, true], literal(site.encoded(False))))
