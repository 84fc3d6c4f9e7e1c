"""Binned numbers in SQL, exactly.

Edges are exact decimals and so is the text of a number, but engines are quick with doubles. Rounding to a double
keeps order: if the double of x is below (above) the double of an edge, so is x. Only where the two doubles are equal
may x lie on either side. Two decimals of at most 15 digits with the same double are the same number, so such ties are
settled too; the rest, which are rare, are asked of `Attribute.encode`.
"""

from __future__ import annotations

import math
import re
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
from sudare.schema.raw import BLANKS, DATE_TEXT, NUMBER_TEXT, write_decimal
from sudare.sources.encoder import LARGEST_TREE, LONGEST_LOOKUP, ColumnEncoder, Join, SqlCode
from sudare.sources.engine import Lookup
from sudare.sources.sql import (
    Branch,
    Expression,
    bisect,
    both,
    call,
    cast,
    choose,
    either,
    is_in,
    is_null,
    literal,
    matches,
    try_cast,
)

DIGITS = 15  # every decimal of this many digits has a double of its own
_LONGEST_TEXT = 400  # as in schema.raw
_EXACT = 2**50  # integers up to here leave a double room for the error of one product
_FEW_BINS = 64  # a tree up to here, arithmetic beyond


def code_numbers(site: ColumnEncoder, bins: NumberBins) -> SqlCode:
    """Cut numbers of any column into bins."""
    family, cut = site.column.family, BinEdges(bins)
    if family == "integer":
        return _integers(site, cut)
    if not cut.is_treatable or not (site.prints_like_python or not site.attribute.missing_marks):
        return site.asked()
    if family == "float":
        return _doubles(site, cut, {}, site.value)
    if family == "decimal" and site.column.digits <= DIGITS:
        return _decimals(site, cut)
    if family in ("text", "wide", "decimal"):
        return _texts(site, cut)
    return site.asked()


@dataclass(frozen=True)
class BinEdges:
    """The edges of bins as the numbers that engines compare with."""

    bins: NumberBins

    @cached_property
    def is_short(self) -> bool:
        """Tell whether every edge has a double of its own among decimals of 15 digits."""
        return all(_is_short(edge) for edge in self.bins.edges)

    @cached_property
    def steps(self) -> tuple[int, int, int] | None:
        """(A, B, C) with edge i = (A + i C) / B in integers, if bins are equally wide; else None."""
        if self.bins.uniform is None:
            return None
        start, width = self.bins.uniform
        below = math.lcm(start.denominator, width.denominator)
        return int(start * below), below, int(width * below)

    @property
    def is_arithmetic(self) -> bool:
        """Tell whether doubles can find the bin by one division, give or take one bin."""
        if self.steps is None or not self.is_short or self.bins.size <= _FEW_BINS:
            return False
        start, below, step = self.steps
        return max(abs(start), abs(start + self.bins.size * step), below) < _EXACT

    @property
    def is_treatable(self) -> bool:
        """Tell whether there is SQL of a sensible size for doubles."""
        return self.is_arithmetic or self.bins.size <= LARGEST_TREE

    @cached_property
    def floors(self) -> list[float]:
        """The least double that means each edge or more, where a double means the decimal that prints it."""
        return [_floor(edge) for edge in self.bins.edges]

    @cached_property
    def top(self) -> float:
        """The greatest double that means the last edge or less."""
        last = self.bins.edges[-1]
        near = float(last)
        return near if _meaning(near) <= last else math.nextafter(near, -math.inf)


def _is_short(edge: Fraction) -> bool:
    if "/" in write_decimal(edge):
        return False
    digits = Decimal(write_decimal(edge)).normalize().as_tuple().digits
    return len(digits) <= DIGITS and (edge == 0 or Fraction(1, 10**290) < abs(edge) < 10**290)


def _meaning(number: float) -> Fraction:
    return Fraction(repr(number))


def _floor(edge: Fraction) -> float:
    near = float(edge)
    return near if _meaning(near) >= edge else math.nextafter(near, math.inf)


# --- integers: exact arithmetic -----------------------------------------------------------------------------------


def _integers(site: ColumnEncoder, cut: BinEdges) -> SqlCode:
    edges, size = cut.bins.edges, cut.bins.size
    low, high = math.ceil(edges[0]), math.floor(edges[-1])
    inside = exp.Between(this=site.value(), low=literal(low), high=literal(high))
    ends = _ends(site, site.value, low, high, size)
    if cut.steps is not None and _fits(cut.steps, low, high):
        return site.cut((inside, _quotient(site, cut.steps, high, size)), last=ends)
    if high - low < LONGEST_LOOKUP:
        join = Join(lookup=_positions(site, cut, low, high), key=site.value())
        return site.looked_up(join, site.found("bins"), last=ends)
    if size > LARGEST_TREE:
        return site.asked()
    return site.cut((inside, bisect(site.value, [math.ceil(edge) for edge in edges[1:-1]])), last=ends)


def _fits(steps: tuple[int, int, int], low: int, high: int) -> bool:
    start, below, _ = steps
    return max(abs(low), abs(high)) * below + abs(start) < 2**62


def _quotient(site: ColumnEncoder, steps: tuple[int, int, int], high: int, size: int) -> Expression:
    """The bin of x is (x B - A) // C; the last edge belongs to the last bin."""
    start, below, step = steps
    number: Expression = cast(site.value(), "BIGINT")
    if below != 1:
        number = exp.Mul(this=number, expression=literal(below))
    if start:
        number = exp.paren(exp.Sub(this=number, expression=literal(start)))
    quotient = exp.IntDiv(this=number, expression=literal(step)) if step != 1 else number
    reaches_end = high * below == start + size * step
    return call("LEAST", quotient, literal(size - 1)) if reaches_end else quotient


def _positions(site: ColumnEncoder, cut: BinEdges, low: int, high: int) -> Lookup:
    numbers = np.arange(low, high + 1, dtype=np.int64)
    inner = np.array([math.ceil(edge) for edge in cut.bins.edges[1:-1]], dtype=np.int64)
    return Lookup(
        name=site.table("bins"), keys=numbers, values=np.searchsorted(inner, numbers, side="right"), key="integer"
    )


def _ends(site: ColumnEncoder, value: Callable[[], Expression], low: object, high: object, size: int) -> list[Branch]:
    if site.attribute.outside != "clamp":
        return []
    below = exp.LT(this=value(), expression=literal(low)), literal(0)
    above = exp.GT(this=value(), expression=literal(high)), literal(size - 1)
    return [below, above]


# --- doubles, and decimals and texts through doubles --------------------------------------------------------------


def _doubles(
    site: ColumnEncoder,
    cut: BinEdges,
    stage: dict[str, Expression],
    number: Callable[[], Expression],
    *,
    first: Sequence[Branch] = (),
    last: Sequence[Branch] = (),
) -> SqlCode:
    """Cut doubles into bins; `stage` derives the number, `first` and `last` are branches around."""
    low, high = cut.floors[0], cut.top
    inside = both(exp.GTE(this=number(), expression=literal(low)), exp.LTE(this=number(), expression=literal(high)))
    guess = {site.place("guess"): choose([(inside.copy(), _guess(cut, number))])} if cut.is_arithmetic else {}
    found = _corrected(site, cut, number) if guess else bisect(number, cut.floors[1:-1])
    ends = _ends(site, number, low, high, cut.bins.size)
    coding = site.cut((inside, found), first=first, last=[*ends, *last])
    return replace(coding, stages=tuple(each for each in (stage, guess) if each), asks=bool(first or last))


def _decimals(site: ColumnEncoder, cut: BinEdges) -> SqlCode:
    """Decimals of few digits are cut as doubles; they tie with an edge only if they are the edge, if that is short."""
    stage = {site.place("number"): cast(site.value(), "DOUBLE")}
    number = partial(site.derived, "number")
    tied = [] if cut.is_short else [(_tie(cut, number), site.ask())]
    return _doubles(site, cut, stage, number, first=tied)


def _texts(site: ColumnEncoder, cut: BinEdges) -> SqlCode:
    """Read plain decimal text. Long texts that tie with an edge, and texts between blanks, are asked."""
    is_text = site.column.family == "text"
    written = () if is_text else ({site.place("text"): cast(site.value(), "VARCHAR")},)
    text, number = site.value if is_text else partial(site.derived, "text"), partial(site.derived, "number")
    is_number = both(matches(text(), NUMBER_TEXT), exp.LTE(this=_length(text), expression=literal(_LONGEST_TEXT)))
    stage = {site.place("number"): choose([(is_number, try_cast(text(), "DOUBLE"))])}
    is_long = exp.GT(this=_length(text), expression=literal(DIGITS))
    tied = (both(is_long, _tie(cut, number)) if cut.is_short else _tie(cut, number), site.ask())
    padded = [(site.padded(text), site.ask())] if is_text else []
    coding = _doubles(site, cut, stage, number, first=[tied], last=padded)
    return replace(coding, stages=(*written, *coding.stages))


def _length(text: Callable[[], Expression]) -> Expression:
    return call("LENGTH", text())


def _tie(cut: BinEdges, number: Callable[[], Expression]) -> Expression:
    """Tell whether a number has the double of an edge; of many edges, whether it is near one."""
    if not cut.is_arithmetic:
        return is_in(number(), [float(edge) for edge in cut.bins.edges])
    place = _place(cut, number)
    return exp.LT(
        this=call("ABS", exp.Sub(this=place.copy(), expression=call("ROUND", place))), expression=literal(1e-6)
    )


def _place(cut: BinEdges, number: Callable[[], Expression]) -> Expression:
    """(x B - A) / C in doubles."""
    start, below, step = cut.steps or (0, 1, 1)
    moved = exp.Sub(this=exp.Mul(this=number(), expression=literal(float(below))), expression=literal(float(start)))
    return exp.Div(this=exp.paren(moved), expression=literal(float(step)))


def _guess(cut: BinEdges, number: Callable[[], Expression]) -> Expression:
    return cast(call("FLOOR", _place(cut, number)), "BIGINT")


def _corrected(site: ColumnEncoder, cut: BinEdges, number: Callable[[], Expression]) -> Expression:
    """The guess is at most one bin off. (A + i C) / B is rounded once, so it is the double of the edge itself."""
    start, below, step = cut.steps or (0, 1, 1)

    def edge(after: int) -> Expression:
        product = exp.Mul(this=site.derived("guess"), expression=literal(step))
        above = exp.Add(this=product, expression=literal(start + after * step))
        return exp.Div(this=cast(exp.paren(above), "DOUBLE"), expression=literal(float(below)))

    lower = exp.Sub(this=site.derived("guess"), expression=literal(1))
    upper = exp.Add(this=site.derived("guess"), expression=literal(1))
    last = exp.LT(this=site.derived("guess"), expression=literal(cut.bins.size - 1))
    is_more = both(last, exp.GTE(this=number(), expression=edge(1)))
    is_less = exp.LT(this=number(), expression=edge(0))
    found = choose([(is_less, lower), (is_more, upper)], site.derived("guess"))
    return call("LEAST", found, literal(cut.bins.size - 1))


# Binned days in SQL: a day is read from the column, then found in a table of days or by one division.


_LONGEST_CALENDAR = 1 << 18  # days: seven centuries
_PLAIN = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}"
_DIGITS = "[0-9]{8}"
_TIMED = "([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}/[0-9]{2}/[0-9]{2})[ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?"
_FIELDS = {
    "Y": "[0-9]{4}",
    "m": "[0-9]{2}",
    "d": "[0-9]{2}",
    "H": "([01][0-9]|2[0-3])",
    "M": "[0-5][0-9]",
    "S": "[0-5][0-9]",
}
_WIDTHS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}


def code_days(site: ColumnEncoder, bins: DateBins) -> SqlCode:
    """Cut the days of any column into bins."""
    family = site.column.family
    if family == "day":
        return _binned(site, bins, {}, site.value)
    if family == "moment":
        return _binned(site, bins, {site.place("day"): cast(site.value(), "DATE")}, partial(site.derived, "day"))
    if family == "integer" and site.attribute.date_format is None:
        return _binned(site, bins, {site.place("day"): _from_integer(site)}, partial(site.derived, "day"))
    if family == "text":
        return _day_texts(site, bins, site.value)
    if family in ("integer", "wide"):
        coding = _day_texts(site, bins, partial(site.derived, "text"))
        return replace(coding, stages=({site.place("text"): cast(site.value(), "VARCHAR")}, *coding.stages))
    return site.asked()


def _day_texts(site: ColumnEncoder, bins: DateBins, text: Callable[[], Expression]) -> SqlCode:
    """Read the forms that are common in SQL; ask for the others."""
    form = site.attribute.date_format
    if form is None:
        parsed, unread = plain_day(text), either([matches(text(), DATE_TEXT), site.padded(text)])
    else:
        layout = _layout(form)
        if layout is None:
            return site.asked()
        parsed, unread = _laid_out(text, *layout), exp.true()
    is_unread = both(is_null(site.derived("day")), unread)
    stage, day = {site.place("day"): parsed}, partial(site.derived, "day")
    return _binned(site, bins, stage, day, first=[(is_unread, site.ask())])


def plain_day(text: Callable[[], Expression]) -> Expression:
    """Read the common forms of a day without a format; NULL for others."""
    return choose(
        [
            (matches(text(), _PLAIN), try_cast(text(), "DATE")),
            (matches(text(), _DIGITS), _joined(text, (1, 5, 7))),
            (matches(text(), _TIMED), try_cast(call("LEFT", text(), literal(10)), "DATE")),
        ]
    )


def _joined(text: Callable[[], Expression], places: tuple[int | None, int | None, int | None]) -> Expression:
    """Put year, month and day together from where they stand; a month or day that is not told is the first."""
    parts = [
        literal("01") if place is None else call("SUBSTRING", text(), literal(place), literal(width))
        for place, width in zip(places, (4, 2, 2), strict=True)
    ]
    dash = exp.Literal.string("-")
    return try_cast(exp.func("CONCAT", parts[0], dash, parts[1], dash.copy(), parts[2]), "DATE")


def _from_integer(site: ColumnEncoder) -> Expression:
    """An integer such as 20240105; others are no days."""
    is_day = exp.Between(this=site.value(), low=literal(10000101), high=literal(99991231))
    return choose([(is_day, _joined(lambda: cast(site.value(), "VARCHAR"), (1, 5, 7)))])


def _layout(form: str) -> tuple[str, dict[str, int]] | None:
    """The pattern of a format with every field at its full width, and where each field begins; None if there is none.

    A text of that full length leaves `strptime` no other way to cut it, so both read the same day.

    >>> _layout("%Y年%m月%d日")
    ('[0-9]{4}年[0-9]{2}月[0-9]{2}日', {'Y': 1, 'm': 6, 'd': 9})
    """
    pieces = re.findall(r"%.|[^%]", form, flags=re.DOTALL)
    used = [piece[1] for piece in pieces if piece.startswith("%") and piece != "%%"]
    is_strange = form != form.strip(BLANKS) or any(mark.isdecimal() and not mark.isascii() for mark in form)
    if is_strange or "Y" not in used or len(set(used)) < len(used) or not set(used) <= set(_FIELDS):
        return None
    pattern, places, at = "", {}, 1
    for piece in pieces:
        if piece.startswith("%") and piece != "%%":
            places[piece[1]] = at
            pattern, at = pattern + _FIELDS[piece[1]], at + _WIDTHS[piece[1]]
        else:
            pattern, at = pattern + re.escape(piece[-1]), at + 1
    return pattern, places


def _laid_out(text: Callable[[], Expression], pattern: str, places: dict[str, int]) -> Expression:
    day = _joined(text, (places.get("Y"), places.get("m"), places.get("d")))
    return choose([(matches(text(), pattern), day)])


def _binned(
    site: ColumnEncoder,
    bins: DateBins,
    stage: dict[str, Expression],
    day: Callable[[], Expression],
    *,
    first: Sequence[Branch] = (),
) -> SqlCode:
    low, high = bins.edges[0], bins.edges[-1]
    inside = exp.Between(this=day(), low=literal(low), high=literal(high))
    ends = _day_ends(site, day, low, high, bins.size)
    width = _width(bins)
    if width is not None:
        days = exp.DateDiff(this=day(), expression=literal(low), unit=exp.var("DAY"))
        found = exp.IntDiv(this=days, expression=literal(width)) if width != 1 else days
        coding = site.cut((inside, found), first=first, last=ends)
    elif (high - low).days < _LONGEST_CALENDAR:
        join = Join(lookup=_calendar(site, bins), key=day())
        coding = site.looked_up(join, site.found("days"), first=first, last=ends)
    elif bins.size <= LARGEST_TREE:
        coding = site.cut((inside, bisect(day, bins.edges[1:-1])), first=first, last=ends)
    else:
        return site.asked()
    return replace(coding, stages=(stage,) if stage else (), asks=bool(first))


def _day_ends(site: ColumnEncoder, day: Callable[[], Expression], low: date, high: date, size: int) -> list[Branch]:
    """Days outside go to the end bins. The year 0000, which engines know and Python does not, is no day."""
    if site.attribute.outside != "clamp":
        return []
    below = both(exp.LT(this=day(), expression=literal(low)), exp.GTE(this=day(), expression=literal(date.min)))
    above = exp.GT(this=day(), expression=literal(high))
    return [(below, literal(0)), (above, literal(size - 1))]


def _width(bins: DateBins) -> int | None:
    """How many days a bin has, if all have the same number (the last may be shorter); else None."""
    bounds = [*(edge.toordinal() for edge in bins.edges[:-1]), bins.edges[-1].toordinal() + 1]
    widths = [high - low for low, high in pairwise(bounds)]
    is_even = all(width == widths[0] for width in widths[:-1]) and widths[-1] <= widths[0]
    return widths[0] if is_even else None


def _calendar(site: ColumnEncoder, bins: DateBins) -> Lookup:
    days = np.arange(np.datetime64(bins.edges[0]), np.datetime64(bins.edges[-1]) + 1)
    starts = np.array(bins.edges[1:-1], dtype="datetime64[D]")
    return Lookup(name=site.table("days"), keys=days, values=np.searchsorted(starts, days, side="right"), key="day")
