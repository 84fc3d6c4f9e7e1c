"""Binned days in SQL: a day is read from the column, then found in a table of days or by one division."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import pairwise

import numpy as np
from sqlglot import exp

from sudare.schema import DateBins
from sudare.schema.raw import BLANKS, DATE_TEXT
from sudare.sources.coding.site import LARGEST_TREE, Coding, Join, Site
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
    is_null,
    literal,
    matches,
    try_cast,
)

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


def code_days(site: Site, bins: DateBins) -> Coding:
    """Cut the days of any column into bins."""
    family = site.column.family
    if family == "day":
        return _binned(site, bins, {}, site.value)
    if family == "moment":
        return _binned(site, bins, {site.place("day"): cast(site.value(), "DATE")}, partial(site.derived, "day"))
    if family == "integer" and site.attribute.date_format is None:
        return _binned(site, bins, {site.place("day"): _from_integer(site)}, partial(site.derived, "day"))
    if family == "text":
        return _texts(site, bins, site.value)
    if family in ("integer", "wide"):
        coding = _texts(site, bins, partial(site.derived, "text"))
        return replace(coding, stages=({site.place("text"): cast(site.value(), "VARCHAR")}, *coding.stages))
    return site.asked()


def _texts(site: Site, bins: DateBins, text: Callable[[], Expression]) -> Coding:
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


def _from_integer(site: Site) -> Expression:
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
    site: Site,
    bins: DateBins,
    stage: dict[str, Expression],
    day: Callable[[], Expression],
    *,
    first: Sequence[Branch] = (),
) -> Coding:
    low, high = bins.edges[0], bins.edges[-1]
    inside = exp.Between(this=day(), low=literal(low), high=literal(high))
    ends = _ends(site, day, low, high, bins.size)
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


def _ends(site: Site, day: Callable[[], Expression], low: date, high: date, size: int) -> list[Branch]:
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


def _calendar(site: Site, bins: DateBins) -> Lookup:
    days = np.arange(np.datetime64(bins.edges[0]), np.datetime64(bins.edges[-1]) + 1)
    starts = np.array(bins.edges[1:-1], dtype="datetime64[D]")
    return Lookup(name=site.table("days"), keys=days, values=np.searchsorted(starts, days, side="right"), key="day")
