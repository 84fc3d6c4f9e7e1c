"""Arrays with NULL, as SQL computes with them: numbers, texts, days and truth values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.asking.syntax import IntervalLiteral, Literal, Matching, refuse
from sudare.errors import ParameterError
from sudare.schema import Attribute
from sudare.schema.arrays import Booleans, Codes
from sudare.schema.domain import Values
from sudare.schema.office import read_japanese_day
from sudare.schema.raw import to_date
from sudare.text import Words, text

NUMBERS = ("integer", "decimal", "number")  # decimal: written with a point; number: a float, as after /
_EPOCH = date(1970, 1, 1).toordinal()
_PARTS = re.compile(r"[0-9０-９]+|元")  # of a day: year, month, day
_NUMBER_LABEL = re.compile(r"-?(0|[1-9][0-9]*)([.][0-9]+)?")  # 012 is a code, not a number


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Values and where they are NULL. `kind`: integer, decimal, number, text, date (as ordinals), bool or null.

    A vector that is an attribute as it stands also has the attribute and its codes.
    """

    kind: str
    data: NDArray[Any]
    null: Booleans
    attribute: Attribute | None = None
    codes: Codes | None = None
    is_constant: bool = False

    @property
    def is_number(self) -> bool:
        """Tell whether it can be computed with."""
        return self.kind in NUMBERS


def constant(literal: Literal) -> Vector:
    """A value that is the same everywhere."""
    value, kind = literal.value, literal.kind
    if isinstance(value, Fraction):
        return Vector(kind, np.array(float(value)), np.array(False), is_constant=True)
    if kind == "null":
        return Vector("null", np.array(0.0), np.array(True), is_constant=True)
    data = np.array(value, dtype=object) if kind == "text" else np.array(value)
    return Vector(kind, data, np.array(False), is_constant=True)


def day(value: date) -> Vector:
    """A day that is the same everywhere."""
    return Vector("date", np.array(float(value.toordinal())), np.array(False), is_constant=True)


def made(kind: str, data: NDArray[Any], null: NDArray[Any], *operands: Vector) -> Vector:
    """A vector that was computed from others."""
    return Vector(kind, data, null, is_constant=all(operand.is_constant for operand in operands))


def arithmetic(sign: str, left: Vector, right: Vector) -> Vector:
    """Add, subtract, multiply, divide; a division by what can be 0 is refused."""
    if left.kind == "date" or right.kind == "date":
        return _shift_days(sign, left, right)
    left, right = read_labels(left), read_labels(right)
    for side in (left, right):
        if not side.is_number and side.kind != "null":
            raise refuse(text("{sign} of something that is no number", sign=sign))
    null = left.null | right.null
    if sign in ("/", "//", "%"):
        if bool(np.any((right.data == 0) & ~right.null)):
            raise refuse(text("a division by what can be 0"), text("write NULLIF(..., 0) around it"))
        divisor = np.where(right.null, 1.0, right.data)
        return _divide(sign, left, divisor, right, null)
    kind = _join_numbers(left.kind, right.kind)
    with np.errstate(all="ignore"):
        data = {"+": np.add, "-": np.subtract, "*": np.multiply}[sign](left.data, right.data)
    return made(kind, data, null, left, right)


def _divide(sign: str, left: Vector, divisor: NDArray[Any], right: Vector, null: Booleans) -> Vector:
    with np.errstate(all="ignore"):
        if sign == "/":
            return made("number", left.data / divisor, null, left, right)
        if {left.kind, right.kind} - {"integer", "null"}:
            raise refuse(text("{sign} of numbers that are not whole", sign=sign), text("use FLOOR(x / y)"))
        data = np.trunc(left.data / divisor) if sign == "//" else np.fmod(left.data, divisor)
    return made("integer", data, null, left, right)


def _join_numbers(first: str, second: str) -> str:
    kinds = {first, second} - {"null"}
    return "number" if "number" in kinds else "decimal" if "decimal" in kinds else "integer"


def _shift_days(sign: str, left: Vector, right: Vector) -> Vector:
    if left.kind == right.kind == "date" and sign == "-":
        return made("integer", left.data - right.data, left.null | right.null, left, right)
    if sign == "+" and right.kind == "date":
        left, right = right, left
    if sign in "+-" and right.kind == "integer":
        shift = right.data if sign == "+" else -right.data
        return made("date", left.data + shift, left.null | right.null, left, right)
    raise refuse(text("{sign} of a day", sign=sign))


def add_interval(vector: Vector, interval: IntervalLiteral, sign: str) -> Vector:
    """Move days by days, or by months (to the last day of a shorter month)."""
    if vector.kind != "date":
        raise refuse(text("an INTERVAL beside something that is no day"))
    turn = 1 if sign == "+" else -1
    data = vector.data + turn * interval.days
    if interval.months:
        days = to_days(vector)
        months = days.astype("datetime64[M]") + turn * interval.months
        lengths = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
        offset = (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)
        moved = months.astype("datetime64[D]") + np.minimum(offset, lengths - 1)
        data = moved.astype(np.int64) + float(_EPOCH) + turn * interval.days
    return made("date", data, vector.null, vector)


def to_days(vector: Vector) -> NDArray[Any]:
    """Days as NumPy counts them."""
    days: NDArray[Any] = (np.nan_to_num(vector.data) - _EPOCH).astype(np.int64).astype("datetime64[D]")
    return days


# --- comparisons ------------------------------------------------------------------------------------------------------

_COMPARE: dict[str, Callable[..., Any]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}


def compare(sign: str, left: Vector, right: Vector) -> Vector:
    """Compare; labels of an attribute must be declared, and an ordered attribute compares by its declared order."""
    if right.attribute is not None and left.attribute is None:
        left, right, sign = right, left, MIRRORED[sign]
    null = left.null | right.null
    if left.kind == "null" or right.kind == "null":
        return made("bool", np.zeros(null.shape, dtype=bool), np.ones(null.shape, dtype=bool), left, right)
    if left.attribute is not None and right.is_constant and right.kind not in ("date", "bool"):
        by_label = _compare_labels(sign, left, left.attribute, right)
        if by_label is not None:
            return by_label
    left, right = _alike(left, right)
    if left.kind == "text" and sign not in ("=", "<>"):
        _check_order(left, right)
        if left.attribute is not None and right.attribute is not None:
            return made("bool", _COMPARE[sign](left.codes, right.codes), null, left, right)
    return made("bool", np.asarray(_COMPARE[sign](left.data, right.data), dtype=bool), null, left, right)


def _check_order(left: Vector, right: Vector) -> None:
    for side in (left, right):
        if side.attribute is not None and not side.attribute.is_ordered:
            raise ParameterError("{name} has no order; use =, <> or IN", name=side.attribute.name)
    if (left.attribute is None) != (right.attribute is None) or left.attribute != right.attribute:
        raise refuse(text("an order of texts"), text("use =, <> or IN"))


def _compare_labels(sign: str, left: Vector, attribute: Attribute, right: Vector) -> Vector | None:
    """Compare an attribute with a label: a value of a category, or a bin as it is written; None for numbers, days."""
    value = right.data.item()
    is_listed = left.kind == "text"
    if right.kind != "text" and not is_listed:
        return None
    if right.kind == "text" and not is_listed and _is_plain(left.kind, value):
        return None
    codes = attribute.codes(value if isinstance(value, str) else _find_label(attribute, value))
    if sign in ("=", "<>"):
        inside = (left.codes >= codes.start) & (left.codes < codes.stop) if left.codes is not None else False
        return made("bool", np.asarray(inside if sign == "=" else ~np.asarray(inside)), _missing(left), left, right)
    if not attribute.is_ordered:
        raise ParameterError("{name} has no order; use =, <> or IN", name=attribute.name)
    mark = codes.start if sign in ("<", ">=") else codes.stop - 1
    declared = left.codes if left.codes is not None else np.zeros(0, dtype=np.int64)
    is_declared = declared < attribute.domain.size
    return made("bool", _COMPARE[sign](declared, mark) & is_declared, _missing(left) | ~is_declared, left, right)


def _find_label(attribute: Attribute, number: float) -> str:
    """The label that a number is written as; tools write 3 as 3.0, which serves where no other label is 3."""
    label = f"{number:.0f}" if float(number).is_integer() else str(number)
    if not isinstance(attribute.domain, Values):
        return label
    try:
        attribute.domain.code(label)
    except KeyError:
        written = filter(_NUMBER_LABEL.fullmatch, attribute.domain.values)
        alike = [other for other in written if float(other) == number]
        label = alike[0] if len(alike) == 1 else label  # the schema names what there is
    return label


def _missing(vector: Vector) -> Booleans:
    """Where an attribute is missing; a value outside of the declared ones is there, though unknown."""
    if vector.attribute is None or vector.codes is None or vector.attribute.missing_code is None:
        return np.zeros_like(vector.null)
    missing: Booleans = vector.codes == vector.attribute.missing_code
    return missing


def _is_plain(kind: str, value: object) -> bool:
    """Tell whether a text is a number or a day, not the label of a bin."""
    return find_day(value) is not None if kind == "date" else _number(str(value)) is not None


def _number(written: str) -> float | None:
    try:
        return float(Fraction(written.strip()))
    except (ValueError, ZeroDivisionError):
        return None


def _alike(left: Vector, right: Vector) -> tuple[Vector, Vector]:
    """Read a text beside a day or a number as one."""
    if left.kind == "text" and right.kind != "text":
        right, left = _alike(right, left)
        return left, right
    if right.kind == "text" and left.kind == "date" and right.is_constant:
        return left, read_day(right)
    if right.kind == "text" and left.is_number and right.is_constant:
        number = _number(str(right.data.item()))
        if number is None:
            name = left.attribute.name if left.attribute is not None else "+"
            raise ParameterError("{name} is compared with something that is neither a number nor a date", name=name)
        return left, Vector("decimal", np.array(number), right.null, is_constant=True)
    kinds = {"number" if side.is_number else side.kind for side in (left, right)}
    if len(kinds) > 1:
        raise refuse(text("a comparison of {first} with {second}", first=left.kind, second=right.kind))
    return left, right


def find_day(value: object) -> date | None:
    """Read a day, also one with an era or the signs 年, 月, 日; a month or a year is the label of a bin, and no day.

    >>> str(find_day("昭和15年4月1日")), str(find_day("R6.4.1")), find_day("2024-01"), find_day("令和6年")
    ('1940-04-01', '2024-04-01', None, None)
    """
    found = to_date(value)
    if found is None and isinstance(value, str) and len(_PARTS.findall(value)) == 3:
        return read_japanese_day(value)
    return found


def read_day(vector: Vector) -> Vector:
    """Read a text as a day."""
    found = find_day(vector.data.item()) if vector.is_constant and vector.kind == "text" else None
    if found is None:
        raise ParameterError("a day is written like '2024-01-31'; this text is none")
    return day(found)


def is_null(vector: Vector) -> Vector:
    """Tell where a value is missing."""
    if vector.attribute is not None:
        return made("bool", _missing(vector), np.zeros_like(vector.null), vector)
    return made("bool", vector.null.copy(), np.zeros_like(vector.null), vector)


def same(left: Vector, right: Vector) -> Vector:
    """IS NOT DISTINCT FROM: equal, or both NULL."""
    if right.kind == "null":
        return is_null(left)
    if left.kind == "null":
        return is_null(right)
    equal = compare("=", left, right)
    found = np.where(left.null | right.null, left.null & right.null, equal.data & ~equal.null)
    return made("bool", found, np.zeros(found.shape, dtype=bool), left, right)


# --- logic ------------------------------------------------------------------------------------------------------------


def as_condition(vector: Vector) -> tuple[Booleans, Booleans]:
    """Where it is true, and where it is false; it is neither where it is NULL."""
    if vector.kind == "null":
        return np.zeros(vector.null.shape, dtype=bool), np.zeros(vector.null.shape, dtype=bool)
    if vector.kind != "bool":
        raise refuse(text("{kind} as a condition", kind=vector.kind))
    data = vector.data.astype(bool)
    return data & ~vector.null, ~data & ~vector.null


def connect(sign: str, operands: Sequence[Vector]) -> Vector:
    """AND and OR of three values."""
    pairs = [as_condition(operand) for operand in operands]
    if sign == "OR":
        pairs = [(is_false, is_true) for is_true, is_false in pairs]
    all_true, any_false = pairs[0]
    for is_true, is_false in pairs[1:]:
        all_true, any_false = all_true & is_true, any_false | is_false
    data = all_true if sign == "AND" else ~all_true & any_false
    return made("bool", data, ~(all_true | any_false), *operands)


def negate(operand: Vector) -> Vector:
    """NOT."""
    is_true, is_false = as_condition(operand)
    return made("bool", is_false, ~(is_true | is_false), operand)


def is_value(operand: Vector, wanted: bool) -> Vector:
    """IS TRUE, IS FALSE."""
    is_true, is_false = as_condition(operand)
    found = is_true if wanted else is_false
    return made("bool", found, np.zeros(found.shape, dtype=bool), operand)


def choose(branches: Sequence[tuple[Vector, Vector]], other: Vector) -> Vector:
    """CASE: the value of the first branch whose condition is true."""
    values = read_labels_beside_numbers([value for _, value in branches] + [other])
    *chosen, other = values
    kind = common_kind(values)
    conditions = [as_condition(condition)[0] for condition, _ in branches]
    shape = np.broadcast_shapes(*(v.null.shape for v in values), *(c.shape for c in conditions))
    data = np.broadcast_to(other.data if other.kind != "null" else _blank(kind), shape)
    null = np.broadcast_to(other.null, shape)
    for condition, value in zip(reversed(conditions), reversed(chosen), strict=True):
        data = np.where(condition, value.data if value.kind != "null" else _blank(kind), data)
        null = np.where(condition, value.null, null)
    parts = [condition for condition, _ in branches]
    return made(kind, data, null, *parts, *values)


def _blank(kind: str) -> NDArray[Any]:
    return np.array("", dtype=object) if kind == "text" else np.array(0.0)


def read_labels_beside_numbers(values: Sequence[Vector]) -> list[Vector]:
    """Read labels as numbers where other values are numbers: CASE WHEN x THEN score ELSE 0 END."""
    has_numbers = any(value.is_number for value in values)
    return [read_labels(value) if has_numbers else value for value in values]


def common_kind(values: Sequence[Vector]) -> str:
    """The kind of values that stand for each other, as in CASE; refused where there is none."""
    kinds = {value.kind for value in values} - {"null"}
    if kinds <= set(NUMBERS):
        return _join_numbers(*([*kinds, "null", "null"][:2])) if len(kinds) < 3 else "number"
    if len(kinds) > 1:
        first, second = sorted(kinds)[:2]
        raise refuse(text("a mixture of {first} and {second}", first=first, second=second))
    return kinds.pop() if kinds else "null"


def match(operand: Vector, pattern: Vector, how: Matching) -> Vector:
    """LIKE: % is any text, _ any sign."""
    if operand.kind == "null" or pattern.kind == "null":
        return made("bool", np.zeros(operand.null.shape, dtype=bool), np.ones(operand.null.shape, dtype=bool), operand)
    if operand.kind != "text" or pattern.kind != "text" or not pattern.is_constant:
        raise refuse("LIKE", text("it needs a text, and a pattern that is written out"))
    parts, written, escaped = [], str(pattern.data.item()), False
    for sign in written:
        if not escaped and how.escape and sign == how.escape:
            escaped = True
            continue
        parts.append(re.escape(sign) if escaped or sign not in "%_" else ".*" if sign == "%" else ".")
        escaped = False
    wanted = re.compile(re.sub(r"(\.\*)+", ".*", "".join(parts)), re.DOTALL | (re.IGNORECASE if how.folded else 0))
    return map_text(lambda value: wanted.fullmatch(value) is not None, operand, kind="bool")


def map_text(change: Callable[..., Any], *operands: Vector, kind: str = "text") -> Vector:
    """Apply a function to texts (and constants beside them), value by value."""
    first = operands[0]
    rest = [operand.data.item() for operand in operands[1:]]
    flat = [change(value, *rest) if isinstance(value, str) else None for value in first.data.reshape(-1).tolist()]
    blank: Any = "" if kind == "text" else 0
    dtype: Any = object if kind == "text" else bool if kind == "bool" else float
    data = np.empty(len(flat), dtype=dtype)
    data[:] = [blank if value is None else value for value in flat]
    null = first.null.copy()
    for operand in operands[1:]:
        null = null | operand.null
    return made(kind, data.reshape(first.data.shape), null, *operands)


def cast(vector: Vector, kind: str, what: Words) -> Vector:
    """Turn a value into another kind, as DuckDB does; what would depend on the form of a number is refused."""
    if vector.kind == kind or vector.kind == "null":
        return vector
    if kind == "number" and (vector.is_number or vector.kind == "bool"):
        return made("number", vector.data.astype(float), vector.null, vector)
    if kind == "integer" and vector.kind == "bool":
        return made("integer", vector.data.astype(float), vector.null, vector)
    if kind == "integer" and vector.is_number:
        rounded = np.rint(vector.data) if vector.kind == "number" else round_away(vector.data)
        return made("integer", rounded, vector.null, vector)
    if kind == "date" and vector.kind == "text":
        return read_day(vector)
    if kind == "text" and vector.kind in ("integer", "date", "bool"):
        return made("text", write_values(vector), vector.null, vector)
    if kind in ("number", "integer") and vector.kind == "text":
        return _read_numbers(vector, kind)
    raise refuse(what)


def read_labels(vector: Vector) -> Vector:
    """The labels of an attribute as numbers where all of them are numbers: a score of 0 to 5 can be added up.

    Anything else stays what it is.
    """
    if vector.kind != "text" or vector.attribute is None:
        return vector
    labels = vector.data[~vector.null].tolist()
    if not labels or not all(_NUMBER_LABEL.fullmatch(label) for label in labels):
        return vector
    return _read_numbers(vector, "number" if any("." in label for label in labels) else "integer")


def _read_numbers(vector: Vector, kind: str) -> Vector:
    numbers = [_number(value) if isinstance(value, str) else 0.0 for value in vector.data.reshape(-1).tolist()]
    null = vector.null.reshape(-1)
    if any(number is None and not is_null for number, is_null in zip(numbers, null.tolist(), strict=True)):
        raise refuse(text("a text as a number"), text("some values are no numbers"))
    data = np.array([number or 0.0 for number in numbers]).reshape(vector.data.shape)
    return made(kind, round_away(data) if kind == "integer" else data, vector.null, vector)


def write_values(vector: Vector) -> NDArray[Any]:
    """Write values as texts."""

    def write(value: Any) -> str:
        if vector.kind == "date":
            return date.fromordinal(int(value)).isoformat()
        return ("true" if value else "false") if vector.kind == "bool" else f"{value:.0f}"

    flat, null = vector.data.reshape(-1).tolist(), np.broadcast_to(vector.null, vector.data.shape).reshape(-1).tolist()
    written = np.empty(len(flat), dtype=object)
    written[:] = ["" if is_null else write(value) for value, is_null in zip(flat, null, strict=True)]
    return written.reshape(vector.data.shape)


def round_away(data: NDArray[Any]) -> NDArray[Any]:
    """Round to whole numbers, halves away from 0."""
    rounded: NDArray[Any] = np.sign(data) * np.floor(np.abs(data) + 0.5)
    return rounded
