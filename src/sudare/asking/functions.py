"""The functions of SQL that compute one value from others, and which of them have steps: there bins must be cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.asking.syntax import Literal, refuse
from sudare.asking.vectors import (
    NUMBERS,
    Vector,
    arithmetic,
    common_kind,
    compare,
    constant,
    made,
    map_text,
    read_labels_beside_numbers,
    round_away,
    to_days,
    write_values,
)
from sudare.text import text

Reading = Callable[[Sequence[Vector]], Vector]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """How many arguments a function takes, and what it makes of them; `is_smooth`: no steps inside a bin."""

    least: int
    most: int
    apply: Reading
    is_smooth: bool = False


def call_function(name: str, arguments: Sequence[Vector]) -> Vector:
    """Call a function by its name; one that is not known is refused."""
    function = FUNCTIONS.get(name)
    if function is None:
        raise refuse(f"{name}()")
    if not function.least <= len(arguments) <= function.most:
        raise refuse(text("{name} with {count} arguments", name=f"{name}()", count=len(arguments)))
    return function.apply(arguments)


# --- numbers ----------------------------------------------------------------------------------------------------------


def _smooth(compute: Callable[..., Any], kind: str = "number") -> Reading:
    def apply(arguments: Sequence[Vector]) -> Vector:
        _check_numbers(arguments)
        with np.errstate(all="ignore"):
            data = np.asarray(compute(*(argument.data for argument in arguments)), dtype=float)
        null = arguments[0].null
        for argument in arguments[1:]:
            null = null | argument.null
        if bool(np.any(~np.isfinite(data) & ~null & np.isfinite(_sum(arguments)))):
            raise refuse(
                text("a function of numbers that it is not defined for"), text("move them first, as in LN(x + 1)")
            )
        return made(kind or arguments[0].kind, data, null, *arguments)

    return apply


def _sum(arguments: Sequence[Vector]) -> Any:
    return sum(argument.data for argument in arguments)


def _check_numbers(arguments: Sequence[Vector]) -> None:
    for argument in arguments:
        if not argument.is_number and argument.kind != "null":
            raise refuse(text("a function of numbers with {kind}", kind=argument.kind))


def _round(arguments: Sequence[Vector]) -> Vector:
    _check_numbers(arguments)
    number, places = arguments[0], 0
    if len(arguments) == 2:
        if not arguments[1].is_constant or arguments[1].kind != "integer":
            raise refuse("ROUND", text("the number of decimals must be written out"))
        places = int(arguments[1].data.item())
    scale = 10.0 ** min(max(places, -15), 15)
    return made(number.kind, round_away(number.data * scale) / scale, number.null, *arguments)


def _extreme(pick: Callable[..., Any]) -> Reading:
    def apply(arguments: Sequence[Vector]) -> Vector:
        arguments = read_labels_beside_numbers(arguments)
        kind = common_kind(arguments)
        if kind == "text":
            raise refuse(text("an order of texts"))
        data, null = arguments[0].data, arguments[0].null
        for argument in arguments[1:]:
            both = pick(data, argument.data)
            data = np.where(null, argument.data, np.where(argument.null, data, both))
            null = null & argument.null
        return made(kind, data, null, *arguments)

    return apply


def _coalesce(arguments: Sequence[Vector]) -> Vector:
    arguments = read_labels_beside_numbers(arguments)
    kind = common_kind(arguments)
    data, null = arguments[-1].data, arguments[-1].null
    for argument in reversed(arguments[:-1]):
        data = np.where(argument.null, data, argument.data)
        null = argument.null & null
    return made(kind, data, null, *arguments)


def _nullif(arguments: Sequence[Vector]) -> Vector:
    first, second = read_labels_beside_numbers(arguments)
    equal = compare("=", first, second)
    shape = np.broadcast_shapes(first.null.shape, equal.data.shape)
    null = np.broadcast_to(first.null, shape) | (equal.data & ~equal.null)
    return made(first.kind, np.broadcast_to(first.data, shape), null, first, second)


# --- texts ------------------------------------------------------------------------------------------------------------


def _text(change: Callable[..., Any], kind: str = "text", *, is_measured: bool = False) -> Reading:
    """A function of a text; its other arguments are texts, or numbers if it `is_measured` by them."""

    def apply(arguments: Sequence[Vector]) -> Vector:
        if arguments[0].kind not in ("text", "null"):
            raise refuse(text("a function of texts with {kind}", kind=arguments[0].kind))
        if any(not argument.is_constant for argument in arguments[1:]):
            raise refuse(text("a function of texts whose other arguments are not written out"))
        others = [argument.kind for argument in arguments[1:]]
        if "null" in others:
            return constant(Literal("null", None))
        wrong = [other for other in others if (other in NUMBERS) != is_measured]
        if wrong:
            raise refuse(text("a function of texts with {kind}", kind=wrong[0]))
        return map_text(change, *arguments, kind=kind)

    return apply


def _upper(value: str) -> str:
    """Letter by letter, as DuckDB: a letter that would become two stays one."""
    return "".join("\u1e9e" if sign == "\u00df" else sign.upper() if len(sign.upper()) == 1 else sign for sign in value)


def _lower(value: str) -> str:
    return "".join(sign.lower() if len(sign.lower()) == 1 else sign for sign in value)


def _substring(value: str, start: float, length: float | None = None) -> str:
    begin = int(start) - 1 if start > 0 else len(value) + int(start) if start < 0 else -1
    end = len(value) if length is None else begin + int(length)
    return value[max(begin, 0) : max(end, 0)]


def _left(value: str, length: float) -> str:
    return value[: int(length)] if length >= 0 else value[: max(0, len(value) + int(length))]


def _right(value: str, length: float) -> str:
    size = int(length) if length >= 0 else max(0, len(value) + int(length))
    return value[len(value) - min(size, len(value)) :]


def join_texts(arguments: Sequence[Vector], *, skips_null: bool) -> Vector:
    """CONCAT leaves NULL out, || gives NULL."""
    parts = [argument if argument.kind == "text" else _as_text(argument) for argument in arguments]
    shape = np.broadcast_shapes(*(part.data.shape for part in parts))
    data = np.full(shape, "", dtype=object)
    null = np.zeros(shape, dtype=bool)
    for part in parts:
        data = data + np.where(part.null, "", part.data)
        null = null | part.null
    return made("text", data, np.zeros(shape, dtype=bool) if skips_null else null, *parts)


def _as_text(vector: Vector) -> Vector:
    if vector.kind == "null":
        return Vector("text", np.array("", dtype=object), vector.null, is_constant=True)
    if vector.kind not in ("integer", "date"):
        raise refuse(text("{kind} as a text", kind=vector.kind))
    return made("text", write_values(vector), vector.null, vector)


# --- days -------------------------------------------------------------------------------------------------------------

_TRUNCATED = {"day": "D", "month": "M", "year": "Y"}


def _days_of(vector: Vector) -> NDArray[Any]:
    if vector.kind not in ("date", "null"):
        raise refuse(text("a function of days with {kind}", kind=vector.kind))
    return to_days(vector)


def _from_days(days: NDArray[Any], vector: Vector, kind: str = "date") -> Vector:
    ordinals = days.astype("datetime64[D]").astype(np.int64) + float(date(1970, 1, 1).toordinal())
    return made(kind, ordinals, vector.null, vector)


def _date_part(arguments: Sequence[Vector]) -> Vector:
    part, vector = arguments
    if not part.is_constant or part.kind != "text":
        raise refuse("DATE_PART", text("the part must be written out"))
    name = str(part.data.item()).lower().removesuffix("s")
    if name not in PARTS:
        raise refuse(text("{part} of a day", part=name))
    return part_of_day(name, vector)


def part_of_day(name: str, vector: Vector) -> Vector:
    """The year, month, ... of days."""
    return made("integer", PARTS[name](_days_of(vector)).astype(float), vector.null, vector)


def _year(days: NDArray[Any]) -> NDArray[Any]:
    years: NDArray[Any] = days.astype("datetime64[Y]").astype(np.int64) + 1970
    return years


def _month(days: NDArray[Any]) -> NDArray[Any]:
    months: NDArray[Any] = days.astype("datetime64[M]").astype(np.int64) % 12 + 1
    return months


def _iso_weekday(days: NDArray[Any]) -> NDArray[Any]:
    weekdays: NDArray[Any] = (days.astype(np.int64) + 3) % 7 + 1  # 1970-01-01 was a Thursday
    return weekdays


def _iso_thursday(days: NDArray[Any]) -> NDArray[Any]:
    thursdays: NDArray[Any] = days + (4 - _iso_weekday(days))
    return thursdays


def _iso_week(days: NDArray[Any]) -> NDArray[Any]:
    thursday = _iso_thursday(days)
    weeks: NDArray[Any] = (thursday - thursday.astype("datetime64[Y]").astype("datetime64[D]")).astype(
        np.int64
    ) // 7 + 1
    return weeks


PARTS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "year": _year,
    "quarter": lambda days: (_month(days) - 1) // 3 + 1,
    "month": _month,
    "week": _iso_week,
    "isoyear": lambda days: _year(_iso_thursday(days)),
    "day": lambda days: (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1,
    "doy": lambda days: (days - days.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64) + 1,
    "dow": lambda days: _iso_weekday(days) % 7,
    "isodow": _iso_weekday,
    "decade": lambda days: _year(days) // 10,
    "century": lambda days: (_year(days) - 1) // 100 + 1,
}
PARTS["dayofmonth"], PARTS["dayofyear"] = PARTS["day"], PARTS["doy"]
PARTS["weekday"] = PARTS["dayofweek"] = PARTS["dow"]
PARTS["weekofyear"] = PARTS["week"]


def _date_trunc(arguments: Sequence[Vector]) -> Vector:
    part, vector = arguments
    name = str(part.data.item()).lower() if part.is_constant and part.kind == "text" else ""
    days = _days_of(vector)
    if name in _TRUNCATED:
        return _from_days(days.astype(f"datetime64[{_TRUNCATED[name]}]"), vector)
    if name == "week":
        return _from_days(days - (_iso_weekday(days) - 1), vector)
    if name == "quarter":
        months = days.astype("datetime64[M]")
        return _from_days(months - (_month(days) - 1) % 3, vector)
    raise refuse(text("{part} of a day", part=name or "DATE_TRUNC"))


def _strftime(arguments: Sequence[Vector]) -> Vector:
    vector, form = arguments
    if not form.is_constant or form.kind != "text":
        raise refuse("STRFTIME", text("the form must be written out"))
    pattern, days = str(form.data.item()), _days_of(vector)
    signs = {pattern[place + 1 : place + 2] for place, sign in enumerate(pattern) if sign == "%"}
    if not signs <= set("YmdBbAajy"):
        raise refuse("STRFTIME", text("the form uses more than %Y %m %d %B %b %A %a %j %y"))
    written = np.empty(days.size, dtype=object)
    written[:] = [value.strftime(pattern) for value in days.reshape(-1).astype(object).tolist()]
    return made("text", written.reshape(days.shape), vector.null, vector)


def _named(pattern: str) -> Reading:
    form = Vector("text", np.array(pattern, dtype=object), np.array(False), is_constant=True)
    return lambda arguments: _strftime([arguments[0], form])


def _date_diff(arguments: Sequence[Vector]) -> Vector:
    part, first, second = arguments
    name = str(part.data.item()).lower() if part.is_constant and part.kind == "text" else ""
    units = {"day": "D", "month": "M", "year": "Y"}
    if name not in units:
        raise refuse(text("DATE_DIFF in {part}", part=name))
    unit = f"datetime64[{units[name]}]"
    gap = _days_of(second).astype(unit).astype(np.int64) - _days_of(first).astype(unit).astype(np.int64)
    return made("integer", gap.astype(float), first.null | second.null, first, second)


def _last_day(arguments: Sequence[Vector]) -> Vector:
    months = _days_of(arguments[0]).astype("datetime64[M]")
    return _from_days((months + 1).astype("datetime64[D]") - 1, arguments[0])


def _make_parts() -> dict[str, ScalarFunction]:
    return {
        name.upper(): ScalarFunction(1, 1, lambda arguments, part=name: part_of_day(part, arguments[0]))  # type: ignore[misc]
        for name in PARTS
    }


_ROOT, _LN = _smooth(np.sqrt), _smooth(np.log)
FUNCTIONS: dict[str, ScalarFunction] = {
    "ABS": ScalarFunction(1, 1, _smooth(np.abs, ""), is_smooth=True),
    "SQRT": ScalarFunction(1, 1, _ROOT, is_smooth=True),
    "EXP": ScalarFunction(1, 1, _smooth(np.exp), is_smooth=True),
    "LN": ScalarFunction(1, 1, _LN, is_smooth=True),
    "LOG": ScalarFunction(1, 1, _smooth(np.log10), is_smooth=True),
    "LOG10": ScalarFunction(1, 1, _smooth(np.log10), is_smooth=True),
    "LOG2": ScalarFunction(1, 1, _smooth(np.log2), is_smooth=True),
    **dict.fromkeys(("POW", "POWER"), ScalarFunction(2, 2, _smooth(np.power), is_smooth=True)),
    "SIGN": ScalarFunction(1, 1, _smooth(np.sign, "integer")),
    "FLOOR": ScalarFunction(1, 1, _smooth(np.floor, "")),
    **dict.fromkeys(("CEIL", "CEILING"), ScalarFunction(1, 1, _smooth(np.ceil, ""))),
    "TRUNC": ScalarFunction(1, 1, _smooth(np.trunc, "")),
    "ROUND": ScalarFunction(1, 2, _round),
    "MOD": ScalarFunction(2, 2, lambda arguments: arithmetic("%", *arguments)),
    "GREATEST": ScalarFunction(1, 20, _extreme(np.maximum)),
    "LEAST": ScalarFunction(1, 20, _extreme(np.minimum)),
    **dict.fromkeys(("COALESCE", "IFNULL"), ScalarFunction(1, 20, _coalesce, is_smooth=True)),
    "NULLIF": ScalarFunction(2, 2, _nullif),
    **dict.fromkeys(("UPPER", "UCASE"), ScalarFunction(1, 1, _text(_upper))),
    **dict.fromkeys(("LOWER", "LCASE"), ScalarFunction(1, 1, _text(_lower))),
    **dict.fromkeys(("LENGTH", "LEN", "CHAR_LENGTH"), ScalarFunction(1, 1, _text(len, "integer"))),
    **dict.fromkeys(("SUBSTR", "SUBSTRING"), ScalarFunction(2, 3, _text(_substring, is_measured=True))),
    "LEFT": ScalarFunction(2, 2, _text(_left, is_measured=True)),
    "RIGHT": ScalarFunction(2, 2, _text(_right, is_measured=True)),
    "TRIM": ScalarFunction(1, 1, _text(lambda value: value.strip(" "))),
    "LTRIM": ScalarFunction(1, 1, _text(lambda value: value.lstrip(" "))),
    "RTRIM": ScalarFunction(1, 1, _text(lambda value: value.rstrip(" "))),
    "REPLACE": ScalarFunction(3, 3, _text(lambda value, old, new: value.replace(old, new) if old else value)),
    **dict.fromkeys(("STARTS_WITH", "PREFIX"), ScalarFunction(2, 2, _text(str.startswith, "bool"))),
    **dict.fromkeys(("ENDS_WITH", "SUFFIX"), ScalarFunction(2, 2, _text(str.endswith, "bool"))),
    "CONTAINS": ScalarFunction(2, 2, _text(lambda value, part: part in value, "bool")),
    "CONCAT": ScalarFunction(1, 20, lambda arguments: join_texts(arguments, skips_null=True)),
    "DATE_PART": ScalarFunction(2, 2, _date_part),
    "DATEPART": ScalarFunction(2, 2, _date_part),
    **dict.fromkeys(("DATE_TRUNC", "DATETRUNC"), ScalarFunction(2, 2, _date_trunc)),
    **dict.fromkeys(("DATE_DIFF", "DATEDIFF"), ScalarFunction(3, 3, _date_diff)),
    "STRFTIME": ScalarFunction(2, 2, _strftime),
    "MONTHNAME": ScalarFunction(1, 1, _named("%B")),
    "DAYNAME": ScalarFunction(1, 1, _named("%A")),
    "LAST_DAY": ScalarFunction(1, 1, _last_day),
    **_make_parts(),
}
