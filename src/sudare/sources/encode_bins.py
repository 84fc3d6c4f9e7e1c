"""Numbers and days in SQL: the code of a value is its bin, exactly.

Edges of numbers are exact decimals and so is the text of a number, but engines are quick with doubles. Rounding to a
double keeps order: if the double of x is below (above) the double of an edge, so is x. Only where the two doubles are
equal may x lie on either side. Two decimals of at most 15 digits with the same double are the same number, so such ties
are decided too; the rest, which are rare, are unread.

A day is read from the column, then found in a table of days or by one division.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from sqlglot import exp

from sudare.schema import DateBins, NumberBins
from sudare.schema.raw import BLANKS, NUMBER_TEXT, write_decimal
from sudare.sources.encoder import MOST_LOOKUP_KEYS, MOST_TREE_LEAVES, ColumnEncoder, Join, SqlCode
from sudare.sources.engine import Lookup
from sudare.sources.sql import (
    Branch,
    Expression,
    all_of,
    bisect,
    call,
    cast,
    choose,
    is_in,
    is_null,
    literal,
    matches_pattern,
    read_text,
)

EXACT_DIGITS = 15  # every decimal of this many digits has a double of its own
_LONGEST_TEXT = 400  # characters, as in schema.raw
_LARGEST_EXACT = 2**50  # integers up to here leave a double room for the error of one product
_MOST_BINS_BY_TREE = 64  # a tree of comparisons up to here, arithmetic beyond
_MOST_SLIVERS = 3  # edges off the even ones that are compared one by one
_NEAR_AN_EDGE = 1e-6  # of a bin: more than the error of a position in doubles

DerivedValue = Callable[[], Expression]  # a fresh tree at every call: sqlglot trees have one parent


def encode_numbers(encoder: ColumnEncoder, bins: NumberBins) -> SqlCode:
    """Cut numbers of any column into bins."""
    family, edges = encoder.column.family, BinEdges(bins)
    if encoder.attribute.number_format is not None and family == "text":
        return encoder.look_up_always()  # 1.234 may mean 1234, so plain SQL must not read it
    if family == "integer":
        return _encode_integers(encoder, edges)
    if not edges.has_sql or not (encoder.prints_like_python or not encoder.attribute.missing_marks):
        return encoder.look_up_always()
    if family == "float":
        return _encode_doubles(encoder, edges, {}, encoder.value)
    if family == "decimal" and encoder.column.digits <= EXACT_DIGITS:
        return _encode_decimals(encoder, edges)
    if family in ("text", "wide", "decimal"):
        return _encode_texts(encoder, edges)
    return encoder.look_up_always()


@dataclass(frozen=True)
class BinEdges:
    """The edges of bins as the numbers that engines compare with."""

    bins: NumberBins

    @cached_property
    def is_short(self) -> bool:
        """Tell whether every edge has a double of its own among decimals of 15 digits."""
        return all(_is_short(edge) for edge in self.bins.edges)

    @cached_property
    def slivers(self) -> tuple[int, ...]:
        """The places of a few edges without which all bins are equally wide; none if there are no such."""
        edges = self.bins.edges
        if self.bins.uniform is not None or len(edges) < _MOST_BINS_BY_TREE:
            return ()
        width = Counter(high - low for low, high in pairwise(edges)).most_common(1)[0][0]
        off = tuple(place for place, edge in enumerate(edges) if ((edge - edges[0]) / width).denominator > 1)
        is_even = 0 < len(off) <= _MOST_SLIVERS and (edges[-1] - edges[0]) / width == len(edges) - len(off) - 1
        return off if is_even else ()

    @cached_property
    def even(self) -> NumberBins:
        """The bins without slivers."""
        skipped = set(self.slivers)
        return NumberBins(tuple(edge for place, edge in enumerate(self.bins.edges) if place not in skipped))

    @cached_property
    def steps(self) -> tuple[int, int, int] | None:
        """(A, B, C) with edge i = (A + i C) / B in integers, if bins are equally wide but for slivers; else None."""
        if self.even.uniform is None:
            return None
        start, width = self.even.uniform
        below = math.lcm(start.denominator, width.denominator)
        return int(start * below), below, int(width * below)

    @property
    def is_arithmetic(self) -> bool:
        """Tell whether doubles can find the bin by one division, give or take one bin."""
        if self.steps is None or not self.is_short or self.bins.size <= _MOST_BINS_BY_TREE:
            return False
        start, below, step = self.steps
        return max(abs(start), abs(start + self.even.size * step), below) < _LARGEST_EXACT

    @property
    def has_sql(self) -> bool:
        """Tell whether there is SQL of a sensible size for doubles."""
        return self.is_arithmetic or self.bins.size <= MOST_TREE_LEAVES

    @cached_property
    def floors(self) -> list[float]:
        """The least double that means each edge or more, where a double means the decimal that prints it."""
        return [_find_floor(edge) for edge in self.bins.edges]

    @cached_property
    def top(self) -> float:
        """The greatest double that means the last edge or less."""
        last = self.bins.edges[-1]
        near = float(last)
        return near if _read_double(near) <= last else math.nextafter(near, -math.inf)


def _is_short(edge: Fraction) -> bool:
    if "/" in write_decimal(edge):
        return False
    digits = Decimal(write_decimal(edge)).normalize().as_tuple().digits
    return len(digits) <= EXACT_DIGITS and (edge == 0 or Fraction(1, 10**290) < abs(edge) < 10**290)


def _read_double(number: float) -> Fraction:
    return Fraction(repr(number))


def _find_floor(edge: Fraction) -> float:
    near = float(edge)
    return near if _read_double(near) >= edge else math.nextafter(near, math.inf)


# --- integers: exact arithmetic -----------------------------------------------------------------------------------


def _encode_integers(encoder: ColumnEncoder, edges: BinEdges) -> SqlCode:
    size = edges.bins.size
    low, high = math.ceil(edges.bins.edges[0]), math.floor(edges.bins.edges[-1])
    inside = exp.Between(this=encoder.value(), low=literal(low), high=literal(high))
    clamped = _clamp(encoder, encoder.value, low, high, size)
    if edges.steps is not None and _fits_int64(edges.steps, low, high):
        ends = [math.ceil(edges.bins.edges[place]) for place in edges.slivers]
        even = _divide(encoder, edges.steps, high, edges.even.size)
        return encoder.encode_range((inside, _pass_slivers(even, encoder.value, ends)), last=clamped)
    if high - low < MOST_LOOKUP_KEYS:
        join = Join(lookup=_list_bins(encoder, edges, low, high), key=encoder.value())
        return encoder.encode_by_lookup(join, encoder.lookup_value("bins"), last=clamped)
    if size > MOST_TREE_LEAVES:
        return encoder.look_up_always()
    return encoder.encode_range((inside, bisect(encoder.value, _whole_inner_edges(edges))), last=clamped)


def _whole_inner_edges(edges: BinEdges) -> list[int]:
    """The least integer at or above each edge between two bins."""
    return [math.ceil(edge) for edge in edges.bins.edges[1:-1]]


def _fits_int64(steps: tuple[int, int, int], low: int, high: int) -> bool:
    start, below, _ = steps
    return max(abs(low), abs(high)) * below + abs(start) < 2**62


def _divide(encoder: ColumnEncoder, steps: tuple[int, int, int], high: int, size: int) -> Expression:
    """The bin of x is (x B - A) // C; the last edge belongs to the last bin."""
    start, below, step = steps
    number: Expression = cast(encoder.value(), "BIGINT")
    if below != 1:
        number = exp.Mul(this=number, expression=literal(below))
    if start:
        number = exp.paren(exp.Sub(this=number, expression=literal(start)))
    quotient = exp.IntDiv(this=number, expression=literal(step)) if step != 1 else number
    reaches_end = high * below == start + size * step
    return call("LEAST", quotient, literal(size - 1)) if reaches_end else quotient


def _list_bins(encoder: ColumnEncoder, edges: BinEdges, low: int, high: int) -> Lookup:
    numbers = np.arange(low, high + 1, dtype=np.int64)
    bins = np.searchsorted(np.array(_whole_inner_edges(edges), dtype=np.int64), numbers, side="right")
    return Lookup(name=encoder.lookup_name("bins"), keys=numbers, values=bins, key_type="integer")


def _clamp(encoder: ColumnEncoder, value: DerivedValue, low: object, high: object, size: int) -> list[Branch]:
    """Put values outside into the bins at the ends, where the attribute says so."""
    if encoder.attribute.outside != "clamp":
        return []
    below = exp.LT(this=value(), expression=literal(low)), literal(0)
    above = exp.GT(this=value(), expression=literal(high)), literal(size - 1)
    return [below, above]


# --- doubles, and decimals and texts through doubles --------------------------------------------------------------


def _encode_doubles(
    encoder: ColumnEncoder,
    edges: BinEdges,
    stage: dict[str, Expression],
    number: DerivedValue,
    *,
    first: Sequence[Branch] = (),
    last: Sequence[Branch] = (),
) -> SqlCode:
    """Cut doubles into bins; `stage` derives the number, `first` and `last` are branches before and behind."""
    low, high = edges.floors[0], edges.top
    inside = all_of(exp.GTE(this=number(), expression=literal(low)), exp.LTE(this=number(), expression=literal(high)))
    stages = [stage] if stage else []
    if edges.is_arithmetic:
        stages.append({encoder.derived_id("guess"): choose([(inside.copy(), _guess_bin(edges, number))])})
        code = _correct_guess(encoder, edges, number)
        code = _pass_slivers(code, number, [edges.floors[place] for place in edges.slivers])
    else:
        code = bisect(number, edges.floors[1:-1])
    clamped = _clamp(encoder, number, low, high, edges.bins.size)
    sql_code = encoder.encode_range((inside, code), first=first, last=[*clamped, *last])
    return replace(sql_code, stages=tuple(stages))


def _encode_decimals(encoder: ColumnEncoder, edges: BinEdges) -> SqlCode:
    """Cut decimals of few digits as doubles; they tie with an edge only if they are the edge, if that is short."""
    stage = {encoder.derived_id("number"): cast(encoder.value(), "DOUBLE")}
    number = partial(encoder.derived_column, "number")
    tied = [] if edges.is_short else [(_is_tied(edges, number), encoder.look_up_unread())]
    return _encode_doubles(encoder, edges, stage, number, first=tied)


def _encode_texts(encoder: ColumnEncoder, edges: BinEdges) -> SqlCode:
    """Read plain decimal text. Long texts that tie with an edge and texts of any other form are unread."""
    is_text = encoder.column.family == "text"
    as_text = () if is_text else ({encoder.derived_id("text"): cast(encoder.value(), "VARCHAR")},)
    text: DerivedValue = encoder.value if is_text else partial(encoder.derived_column, "text")
    number = partial(encoder.derived_column, "number")
    is_short = exp.LTE(this=call("LENGTH", text()), expression=literal(_LONGEST_TEXT))
    is_number = all_of(matches_pattern(text(), NUMBER_TEXT), is_short)
    stage = {encoder.derived_id("number"): choose([(is_number, read_text(text(), "DOUBLE"))])}
    is_tied = _is_tied(edges, number)
    if edges.is_short:
        is_tied = all_of(exp.GT(this=call("LENGTH", text()), expression=literal(EXACT_DIGITS)), is_tied)
    tied, other_form = (is_tied, encoder.look_up_unread()), (is_null(number()), encoder.look_up_unread())
    sql_code = _encode_doubles(encoder, edges, stage, number, first=[tied], last=[other_form])
    return replace(sql_code, stages=(*as_text, *sql_code.stages))


def _is_tied(edges: BinEdges, number: DerivedValue) -> Expression:
    """Tell whether a number has the double of an edge; of many edges, whether it is near one."""
    if not edges.is_arithmetic:
        return is_in(number(), [float(edge) for edge in edges.bins.edges])
    position = _find_position(edges, number)
    gap = call("ABS", exp.Sub(this=position.copy(), expression=call("ROUND", position)))
    is_near: Expression = exp.LT(this=gap, expression=literal(_NEAR_AN_EDGE))
    if edges.slivers:
        tied = is_in(number(), [float(edges.bins.edges[place]) for place in edges.slivers])
        is_near = exp.paren(exp.Or(this=is_near, expression=tied))
    return is_near


def _pass_slivers(code: Expression, number: DerivedValue, ends: Sequence[float]) -> Expression:
    """Count the edges off the even ones that a number has passed."""
    for end in ends:
        is_beyond = exp.GTE(this=number(), expression=literal(end))
        code = exp.Add(this=code, expression=choose([(is_beyond, literal(1))], literal(0)))
    return code


def _find_position(edges: BinEdges, number: DerivedValue) -> Expression:
    """Give (x B - A) / C in doubles: the bin, and how far into it."""
    start, below, step = edges.steps or (0, 1, 1)
    moved = exp.Sub(this=exp.Mul(this=number(), expression=literal(float(below))), expression=literal(float(start)))
    return exp.Div(this=exp.paren(moved), expression=literal(float(step)))


def _guess_bin(edges: BinEdges, number: DerivedValue) -> Expression:
    return cast(call("FLOOR", _find_position(edges, number)), "BIGINT")


def _correct_guess(encoder: ColumnEncoder, edges: BinEdges, number: DerivedValue) -> Expression:
    """Move the guess by a bin where it is off. (A + i C) / B is rounded once: it is the double of the edge itself."""
    start, below, step = edges.steps or (0, 1, 1)

    def find_edge(after: int) -> Expression:
        product = exp.Mul(this=encoder.derived_column("guess"), expression=literal(step))
        above = exp.Add(this=product, expression=literal(start + after * step))
        return exp.Div(this=cast(exp.paren(above), "DOUBLE"), expression=literal(float(below)))

    lower = exp.Sub(this=encoder.derived_column("guess"), expression=literal(1))
    upper = exp.Add(this=encoder.derived_column("guess"), expression=literal(1))
    is_not_last = exp.LT(this=encoder.derived_column("guess"), expression=literal(edges.even.size - 1))
    is_more = all_of(is_not_last, exp.GTE(this=number(), expression=find_edge(1)))
    is_less = exp.LT(this=number(), expression=find_edge(0))
    corrected = choose([(is_less, lower), (is_more, upper)], encoder.derived_column("guess"))
    return call("LEAST", corrected, literal(edges.even.size - 1))


# --- days -----------------------------------------------------------------------------------------------------------

_MOST_LISTED_DAYS = 1 << 18  # seven centuries
_PLAIN_DAY = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}"
_EIGHT_DIGITS = "[0-9]{8}"
_DAY_WITH_TIME = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}/[0-9]{2}/[0-9]{2})"
    r"[ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?(Z|[+-][0-9]{2}(:?[0-9]{2})?))?"
)
_FIELD_PATTERNS = {
    "Y": "[0-9]{4}",
    "m": "[0-9]{2}",
    "d": "[0-9]{2}",
    "H": "([01][0-9]|2[0-3])",
    "M": "[0-5][0-9]",
    "S": "[0-5][0-9]",
}
_FIELD_WIDTHS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}


def encode_days(encoder: ColumnEncoder, bins: DateBins) -> SqlCode:
    """Cut the days of any column into bins."""
    family, day = encoder.column.family, partial(encoder.derived_column, "day")
    if encoder.attribute.ticks is not None and family not in ("day", "moment"):
        return encode_numbers(encoder, encoder.attribute.ticks)
    if family == "day":
        return _encode_binned_days(encoder, bins, {}, encoder.value)
    if family == "moment":
        stage = {encoder.derived_id("day"): cast(encoder.value(), "DATE")}
        return _encode_binned_days(encoder, bins, stage, day)
    if family == "integer" and encoder.attribute.date_format is None:
        stage = {encoder.derived_id("day"): _read_integer_day(encoder)}
        return _encode_binned_days(encoder, bins, stage, day)
    if family == "text":
        return _encode_day_texts(encoder, bins, encoder.value)
    if family in ("integer", "wide"):
        sql_code = _encode_day_texts(encoder, bins, partial(encoder.derived_column, "text"))
        as_text = {encoder.derived_id("text"): cast(encoder.value(), "VARCHAR")}
        return replace(sql_code, stages=(as_text, *sql_code.stages))
    return encoder.look_up_always()


def _encode_day_texts(encoder: ColumnEncoder, bins: DateBins, text: DerivedValue) -> SqlCode:
    """Read the common forms of a day in SQL; texts of other forms are unread."""
    date_format = encoder.attribute.date_format
    if date_format is None:
        parsed = read_plain_day(text)
    else:
        layout = _find_layout(date_format)
        if layout is None:
            return encoder.look_up_always()
        parsed = _read_layout(text, *layout)
    stage, day = {encoder.derived_id("day"): parsed}, partial(encoder.derived_column, "day")
    return _encode_binned_days(encoder, bins, stage, day, first=[(is_null(day()), encoder.look_up_unread())])


def read_plain_day(text: DerivedValue) -> Expression:
    """Read the common forms of a day without a format; NULL for others."""
    return choose(
        [
            (matches_pattern(text(), _PLAIN_DAY), read_text(text(), "DATE")),
            (matches_pattern(text(), _EIGHT_DIGITS), _join_date(text, (1, 5, 7))),
            (matches_pattern(text(), _DAY_WITH_TIME), read_text(call("LEFT", text(), literal(10)), "DATE")),
        ]
    )


def _join_date(text: DerivedValue, starts: tuple[int | None, int | None, int | None]) -> Expression:
    """Put year, month and day together from where they start in a text; without a month or day it is the first."""
    parts = [
        literal("01") if start is None else call("SUBSTRING", text(), literal(start), literal(width))
        for start, width in zip(starts, (4, 2, 2), strict=True)
    ]
    dash = exp.Literal.string("-")
    return read_text(exp.func("CONCAT", parts[0], dash, parts[1], dash.copy(), parts[2]), "DATE")


def _read_integer_day(encoder: ColumnEncoder) -> Expression:
    """Read an integer such as 20240105; NULL for others."""
    is_day = exp.Between(this=encoder.value(), low=literal(10000101), high=literal(99991231))
    return choose([(is_day, _join_date(lambda: cast(encoder.value(), "VARCHAR"), (1, 5, 7)))])


def _find_layout(date_format: str) -> tuple[str, dict[str, int]] | None:
    """Give the pattern of a format with every field at its full width, and where each field starts; None without one.

    A text of that full length can be cut by `strptime` in one way only, so both read the same day.

    >>> _find_layout("%Y年%m月%d日")
    ('[0-9]{4}年[0-9]{2}月[0-9]{2}日', {'Y': 1, 'm': 6, 'd': 9})
    """
    pieces = re.findall(r"%.|[^%]", date_format, flags=re.DOTALL)
    used = [piece[1] for piece in pieces if piece.startswith("%") and piece != "%%"]
    has_odd_digits = any(letter.isdecimal() and not letter.isascii() for letter in date_format)
    is_strange = has_odd_digits or date_format != date_format.strip(BLANKS)
    if is_strange or "Y" not in used or len(set(used)) < len(used) or not set(used) <= set(_FIELD_PATTERNS):
        return None
    pattern, starts, at = "", {}, 1
    for piece in pieces:
        if piece.startswith("%") and piece != "%%":
            starts[piece[1]] = at
            pattern, at = pattern + _FIELD_PATTERNS[piece[1]], at + _FIELD_WIDTHS[piece[1]]
        else:
            pattern, at = pattern + re.escape(piece[-1]), at + 1
    return pattern, starts


def _read_layout(text: DerivedValue, pattern: str, starts: dict[str, int]) -> Expression:
    day = _join_date(text, (starts.get("Y"), starts.get("m"), starts.get("d")))
    return choose([(matches_pattern(text(), pattern), day)])


def _encode_binned_days(
    encoder: ColumnEncoder,
    bins: DateBins,
    stage: dict[str, Expression],
    day: DerivedValue,
    *,
    first: Sequence[Branch] = (),
) -> SqlCode:
    low, high = bins.edges[0], bins.edges[-1]
    inside = exp.Between(this=day(), low=literal(low), high=literal(high))
    clamped = _clamp_days(encoder, day, low, high, bins.size)
    width = _find_width(bins)
    if width is not None:
        days = exp.DateDiff(this=day(), expression=literal(low), unit=exp.var("DAY"))
        code = exp.IntDiv(this=days, expression=literal(width)) if width != 1 else days
        sql_code = encoder.encode_range((inside, code), first=first, last=clamped)
    elif (high - low).days < _MOST_LISTED_DAYS:
        join = Join(lookup=_list_days(encoder, bins), key=day())
        sql_code = encoder.encode_by_lookup(join, encoder.lookup_value("days"), first=first, last=clamped)
    elif bins.size <= MOST_TREE_LEAVES:
        sql_code = encoder.encode_range((inside, bisect(day, bins.edges[1:-1])), first=first, last=clamped)
    else:
        return encoder.look_up_always()
    return replace(sql_code, stages=(stage,) if stage else ())


def _clamp_days(encoder: ColumnEncoder, day: DerivedValue, low: date, high: date, size: int) -> list[Branch]:
    """Put days outside into the bins at the ends. Years below 1 and above 9999, which engines know, are none."""
    if encoder.attribute.outside != "clamp":
        return []
    below = all_of(exp.LT(this=day(), expression=literal(low)), exp.GTE(this=day(), expression=literal(date.min)))
    above = all_of(exp.GT(this=day(), expression=literal(high)), exp.LTE(this=day(), expression=literal(date.max)))
    return [(below, literal(0)), (above, literal(size - 1))]


def _find_width(bins: DateBins) -> int | None:
    """Count the days of a bin, if all have the same number (the last may be shorter); else None."""
    bounds = [*(edge.toordinal() for edge in bins.edges[:-1]), bins.edges[-1].toordinal() + 1]
    widths = [high - low for low, high in pairwise(bounds)]
    is_even = all(width == widths[0] for width in widths[:-1]) and widths[-1] <= widths[0]
    return widths[0] if is_even else None


def _list_days(encoder: ColumnEncoder, bins: DateBins) -> Lookup:
    days = np.arange(np.datetime64(bins.edges[0]), np.datetime64(bins.edges[-1]) + 1)
    starts = np.array(bins.edges[1:-1], dtype="datetime64[D]")
    return Lookup(
        name=encoder.lookup_name("days"), keys=days, values=np.searchsorted(starts, days, side="right"), key_type="day"
    )
