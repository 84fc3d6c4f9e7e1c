"""From raw values to attribute codes, as SQL: one function for each kind of attribute.

The meaning of a value is `Attribute.encode`. SQL decides where it is sure to agree, and that very function encodes the
rest (`unread.py`), so a column has one meaning whatever the engine, its version or its habits of casting. Numbers and
days stand in `encode_bins.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from sudare.schema import DateBins, MeshCells, NumberBins, Values
from sudare.schema.mesh import DIGITS
from sudare.sources.encode_bins import encode_days, encode_numbers
from sudare.sources.encoder import ColumnEncoder, Join, SqlCode, read_double, read_integer
from sudare.sources.engine import Lookup
from sudare.sources.sql import (
    Expression,
    all_of,
    any_of,
    call,
    cast,
    choose,
    is_nan,
    is_null,
    literal,
    matches_pattern,
    read_text,
)

__all__ = ["ColumnEncoder", "Join", "SqlCode", "encode_column"]


def encode_column(encoder: ColumnEncoder) -> SqlCode:
    """Write the code of an attribute over its column as SQL.

    >>> from sudare.schema import Attribute
    >>> from sudare.sources.engine import Column
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))
    >>> column = Column(name="age", column_id="c0", family="integer", type="BIGINT")
    >>> encoder = ColumnEncoder(attribute=age, column=column, prefix="c0")
    >>> encode_column(encoder).expression.sql("duckdb")
    'CASE WHEN r.c0 BETWEEN 0 AND 100 THEN LEAST(CAST(r.c0 AS BIGINT) // 5, 19) END'
    """
    if encoder.column.family == "boolean":
        return _encode_booleans(encoder)
    match encoder.attribute.domain:
        case Values() as values:
            return encode_values(encoder, values)
        case NumberBins() as bins:
            return encode_numbers(encoder, bins)
        case DateBins() as bins:
            return encode_days(encoder, bins)
        case MeshCells() as cells:
            return encode_cells(encoder, cells)
        case _:
            return encoder.look_up_always()


def _encode_booleans(encoder: ColumnEncoder) -> SqlCode:
    """Encode the two values and their absence beforehand, whatever the kind of attribute."""
    missing = is_null(encoder.value()), literal(encoder.encode(None))
    true = encoder.value(), literal(encoder.encode(True))
    return SqlCode(unguarded=choose([missing, true], literal(encoder.encode(False))))


# --- listed values: a lookup by the exact text ----------------------------------------------------------------------


def encode_values(encoder: ColumnEncoder, domain: Values) -> SqlCode:
    """Look each value up in a table of the declared ones. A join beats CASE and ENUM, at any number of values.

    Integers and doubles are found by number, which is quicker; all else by text, exactly as it stands.
    """
    family = encoder.column.family
    if family == "moment" or not encoder.prints_like_python:
        return encoder.look_up_always()
    lookup = _LISTS.get(family, _list_texts)(encoder, domain)
    key = encoder.value() if family in ("text", "integer", "float") else cast(encoder.value(), "VARCHAR")
    code = _mend_zeros(encoder, domain) if family == "float" else encoder.lookup_value("values")
    if encoder.attribute.other_code is not None:
        code = call("COALESCE", code, literal(encoder.attribute.other_code))
    missing_code = encoder.encode(None)
    if missing_code is not None and missing_code != encoder.attribute.other_code:
        is_missing = [is_null(encoder.value())] + ([is_nan(encoder.value())] if family == "float" else [])
        code = choose([(any_of(is_missing), literal(missing_code))], code)
    return SqlCode(unguarded=code, joins=(Join(lookup=lookup, key=key),))


def _code_texts(encoder: ColumnEncoder, domain: Values) -> dict[str, int]:
    """The declared texts, and the texts that mean missing, with their codes."""
    missing_code = encoder.encode(None)
    marks = ("", *encoder.attribute.missing_marks) if missing_code is not None else ()
    return {**dict.fromkeys(marks, missing_code or 0), **{text: code for code, text in enumerate(domain.values)}}


def _list_texts(encoder: ColumnEncoder, domain: Values) -> Lookup:
    codes = _code_texts(encoder, domain)
    keys, values = np.array(list(codes), dtype=np.object_), np.array(list(codes.values()), dtype=np.int64)
    return Lookup(name=encoder.lookup_name("values"), keys=keys, values=values, key_type="text")


def _list_numbers(encoder: ColumnEncoder, domain: Values) -> Lookup:
    codes = _code_texts(encoder, domain)
    pairs = [(number, code) for text, code in codes.items() if (number := read_integer(text)) is not None]
    keys, values = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Lookup(name=encoder.lookup_name("values"), keys=keys, values=values, key_type="integer")


def _list_doubles(encoder: ColumnEncoder, domain: Values) -> Lookup:
    codes = _code_texts(encoder, domain)
    pairs = [(number, code) for text, code in codes.items() if (number := read_double(text))]  # zeros: _mend_zeros
    keys, values = np.array([key for key, _ in pairs]), np.array([code for _, code in pairs], dtype=np.int64)
    return Lookup(name=encoder.lookup_name("values"), keys=keys.astype(float), values=values, key_type="float")


def _mend_zeros(encoder: ColumnEncoder, domain: Values) -> Expression:
    """0.0 and -0.0 are one key and two texts, so they are told apart outside the lookup."""
    codes = _code_texts(encoder, domain)
    zeros = [(encoder.is_double(float(text)), literal(codes[text])) for text in ("0.0", "-0.0") if text in codes]
    return choose(zeros, encoder.lookup_value("values"))


_LISTS: dict[str, Callable[[ColumnEncoder, Values], Lookup]] = {"integer": _list_numbers, "float": _list_doubles}


# --- mesh cells: arithmetic on the digits of JIS codes, never a list of all cells -----------------------------------

_FIRST_LEVEL = "[1-9][0-9]{3}"
_STEP_PATTERNS = ("[0-7]{2}", "[0-9]{2}", "[1-4]", "[1-4]", "[1-4]")  # what each finer level adds to a code
_STEP_CELLS = (64, 100, 4, 4, 4)  # cells that each finer level makes of one
_STEP_DIGITS = (2, 2, 1, 1, 1)


def encode_cells(encoder: ColumnEncoder, cells: MeshCells) -> SqlCode:
    """Find the cell of a code of the attribute's level or a finer one."""
    family, mesh = encoder.column.family, encoder.derived_id("mesh")
    if family == "integer":
        return _look_up_cells(encoder, cells, ({mesh: _read_integer_code(encoder, cells)},))
    if family == "text":
        return _look_up_cells(encoder, cells, ({mesh: _read_text_code(cells, encoder.value)},))
    if family == "wide" or (family == "decimal" and encoder.column.scale == 0):
        as_text = {encoder.derived_id("text"): cast(encoder.value(), "VARCHAR")}
        code = _read_text_code(cells, lambda: encoder.derived_column("text"))
        return _look_up_cells(encoder, cells, (as_text, {mesh: code}))
    return encoder.look_up_always()


def mesh_pattern(level: int) -> str:
    """The pattern of a code of this level or a finer one.

    >>> mesh_pattern(5)
    '[1-9][0-9]{3}[0-7]{2}[0-9]{2}[1-4][1-4]([1-4])?'
    """
    finer = ""
    for step in reversed(_STEP_PATTERNS[level - 1 :]):
        finer = f"({step}{finer})?"
    return _FIRST_LEVEL + "".join(_STEP_PATTERNS[: level - 1]) + finer


def _read_text_code(cells: MeshCells, text: Callable[[], Expression]) -> Expression:
    """Cut a code to the digits of the attribute's level, as a number; NULL if it is none."""
    head = call("LEFT", text(), literal(DIGITS[cells.level - 1]))
    return choose([(matches_pattern(text(), mesh_pattern(cells.level)), read_text(head, "BIGINT"))])


def _read_integer_code(encoder: ColumnEncoder, cells: MeshCells) -> Expression:
    """Keep a code of the very level as a number, which is quick; cut a finer one as text."""
    digits = DIGITS[cells.level - 1]
    is_own = exp.Between(this=encoder.value(), low=literal(10 ** (digits - 1)), high=literal(10**digits - 1))
    text = cast(encoder.value(), "VARCHAR")
    is_longer = exp.GTE(this=encoder.value(), expression=literal(10**digits))
    is_finer = all_of(is_longer, matches_pattern(text, mesh_pattern(cells.level)))
    head = read_text(call("LEFT", cast(encoder.value(), "VARCHAR"), literal(digits)), "BIGINT")
    return choose([(is_own, cast(encoder.value(), "BIGINT")), (is_finer, head)])


def _look_up_cells(encoder: ColumnEncoder, cells: MeshCells, stages: tuple[dict[str, Expression], ...]) -> SqlCode:
    """Look up the cell, or the cell of the first level and number the finer ones below it."""
    if cells.cells is not None:
        keys, key, code = cells.cells, encoder.derived_column("mesh"), encoder.lookup_value("cells")
    else:
        keys = np.array([int(area) for area in cells.area or ()], dtype=np.int64)
        key = _drop_digits(encoder.derived_column("mesh"), DIGITS[cells.level - 1] - 4)
        code = _number_cells(encoder, cells.level)
    lookup = Lookup(name=encoder.lookup_name("cells"), keys=keys, values=np.arange(len(keys)), key_type="integer")
    if encoder.attribute.other_code is not None:
        code = call("COALESCE", code, literal(encoder.attribute.other_code))
    is_unread = is_null(encoder.derived_column("mesh")), encoder.look_up_unread()
    branches = [is_unread] if encoder.column.family == "text" else []
    return SqlCode(unguarded=encoder.choose_code(branches, code), stages=stages, joins=(Join(lookup=lookup, key=key),))


def _number_cells(encoder: ColumnEncoder, level: int) -> Expression:
    """Number cells in the order of their codes; NULL if a digit is none of its step."""
    code: Expression = encoder.lookup_value("cells")
    rest, conditions = DIGITS[level - 1] - 4, []
    for fanout, digits in zip(_STEP_CELLS[: level - 1], _STEP_DIGITS, strict=False):
        rest -= digits
        step, are_valid = _number_step(encoder, rest, fanout)
        conditions += are_valid
        code = exp.Add(this=exp.Mul(this=exp.paren(code), expression=literal(fanout)), expression=exp.paren(step))
    return choose([(all_of(*conditions), code)]) if conditions else code


def _number_step(encoder: ColumnEncoder, rest: int, fanout: int) -> tuple[Expression, list[Expression]]:
    """Which cell of the one above, from the digits left of the last `rest`; and when those digits are a step."""
    if fanout == 100:
        return _take_digits(encoder, rest, 2), []
    if fanout == 4:
        is_quarter = exp.Between(this=_take_digits(encoder, rest, 1), low=literal(1), high=literal(4))
        return exp.Sub(this=_take_digits(encoder, rest, 1), expression=literal(1)), [is_quarter]
    north, east = exp.paren(_take_digits(encoder, rest + 1, 1)), exp.paren(_take_digits(encoder, rest, 1))
    are_eighths: list[Expression] = [exp.LT(this=digit.copy(), expression=literal(8)) for digit in (north, east)]
    return exp.Add(this=exp.Mul(this=north, expression=literal(8)), expression=east), are_eighths


def _take_digits(encoder: ColumnEncoder, rest: int, count: int) -> Expression:
    left = exp.paren(_drop_digits(encoder.derived_column("mesh"), rest))
    return exp.Mod(this=left, expression=literal(10**count))


def _drop_digits(number: Expression, rest: int) -> Expression:
    return exp.IntDiv(this=number, expression=literal(10**rest)) if rest else number
