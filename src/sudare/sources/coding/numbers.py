"""Binned numbers in SQL, exactly.

Edges are exact decimals and so is the text of a number, but engines are quick with doubles. Rounding to a double
keeps order: if the double of x is below (above) the double of an edge, so is x. Only where the two doubles are equal
may x lie on either side. Two decimals of at most 15 digits with the same double are the same number, so such ties are
settled too; the rest, which are rare, are asked of `Attribute.encode`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from sqlglot import exp

from sudare.schema import NumberBins
from sudare.schema.raw import NUMBER_TEXT, decimal_text
from sudare.sources.coding.site import LARGEST_TREE, LONGEST_LOOKUP, Coding, Join, Site
from sudare.sources.engine import Lookup
from sudare.sources.sql import Branch, Expression, bisect, both, call, cast, choose, is_in, literal, matches, try_cast

DIGITS = 15  # every decimal of this many digits has a double of its own
_LONGEST_TEXT = 400  # as in schema.raw
_EXACT = 2**50  # integers up to here leave a double room for the error of one product
_FEW_BINS = 64  # a tree up to here, arithmetic beyond


def code_numbers(site: Site, bins: NumberBins) -> Coding:
    """Cut numbers of any column into bins."""
    family, cut = site.column.family, Cut(bins)
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
class Cut:
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
    if "/" in decimal_text(edge):
        return False
    digits = Decimal(decimal_text(edge)).normalize().as_tuple().digits
    return len(digits) <= DIGITS and (edge == 0 or Fraction(1, 10**290) < abs(edge) < 10**290)


def _meaning(number: float) -> Fraction:
    return Fraction(repr(number))


def _floor(edge: Fraction) -> float:
    near = float(edge)
    return near if _meaning(near) >= edge else math.nextafter(near, math.inf)


# --- integers: exact arithmetic -----------------------------------------------------------------------------------


def _integers(site: Site, cut: Cut) -> Coding:
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


def _quotient(site: Site, steps: tuple[int, int, int], high: int, size: int) -> Expression:
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


def _positions(site: Site, cut: Cut, low: int, high: int) -> Lookup:
    numbers = np.arange(low, high + 1, dtype=np.int64)
    inner = np.array([math.ceil(edge) for edge in cut.bins.edges[1:-1]], dtype=np.int64)
    return Lookup(
        name=site.table("bins"), keys=numbers, values=np.searchsorted(inner, numbers, side="right"), key="integer"
    )


def _ends(site: Site, value: Callable[[], Expression], low: object, high: object, size: int) -> list[Branch]:
    if site.attribute.outside != "clamp":
        return []
    below = exp.LT(this=value(), expression=literal(low)), literal(0)
    above = exp.GT(this=value(), expression=literal(high)), literal(size - 1)
    return [below, above]


# --- doubles, and decimals and texts through doubles --------------------------------------------------------------


def _doubles(
    site: Site,
    cut: Cut,
    stage: dict[str, Expression],
    number: Callable[[], Expression],
    *,
    first: Sequence[Branch] = (),
    last: Sequence[Branch] = (),
) -> Coding:
    """Cut doubles into bins; `stage` derives the number, `first` and `last` are branches around."""
    low, high = cut.floors[0], cut.top
    inside = both(exp.GTE(this=number(), expression=literal(low)), exp.LTE(this=number(), expression=literal(high)))
    guess = {site.place("guess"): choose([(inside.copy(), _guess(cut, number))])} if cut.is_arithmetic else {}
    found = _corrected(site, cut, number) if guess else bisect(number, cut.floors[1:-1])
    ends = _ends(site, number, low, high, cut.bins.size)
    coding = site.cut((inside, found), first=first, last=[*ends, *last])
    return replace(coding, stages=tuple(each for each in (stage, guess) if each), asks=bool(first or last))


def _decimals(site: Site, cut: Cut) -> Coding:
    """Decimals of few digits are cut as doubles; they tie with an edge only if they are the edge, if that is short."""
    stage = {site.place("number"): cast(site.value(), "DOUBLE")}
    number = partial(site.derived, "number")
    tied = [] if cut.is_short else [(_tie(cut, number), site.ask())]
    return _doubles(site, cut, stage, number, first=tied)


def _texts(site: Site, cut: Cut) -> Coding:
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


def _tie(cut: Cut, number: Callable[[], Expression]) -> Expression:
    """Tell whether a number has the double of an edge; of many edges, whether it is near one."""
    if not cut.is_arithmetic:
        return is_in(number(), [float(edge) for edge in cut.bins.edges])
    place = _place(cut, number)
    return exp.LT(
        this=call("ABS", exp.Sub(this=place.copy(), expression=call("ROUND", place))), expression=literal(1e-6)
    )


def _place(cut: Cut, number: Callable[[], Expression]) -> Expression:
    """(x B - A) / C in doubles."""
    start, below, step = cut.steps or (0, 1, 1)
    moved = exp.Sub(this=exp.Mul(this=number(), expression=literal(float(below))), expression=literal(float(start)))
    return exp.Div(this=exp.paren(moved), expression=literal(float(step)))


def _guess(cut: Cut, number: Callable[[], Expression]) -> Expression:
    return cast(call("FLOOR", _place(cut, number)), "BIGINT")


def _corrected(site: Site, cut: Cut, number: Callable[[], Expression]) -> Expression:
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
