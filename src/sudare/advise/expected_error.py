"""The error to expect of a release in one line, from the methods' own previews; and whether it is small enough."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sudare.methods.kanon import KAnonymity
from sudare.methods.location import Location
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.noise import geometric_variance
from sudare.privacy import Guarantee, Neighbours, Promise
from sudare.schema import Schema
from sudare.text import say

SMALL = 0.1  # of what is measured: an error up to here is called small
HALF = 0.5  # of the mean count of a cell: noise beyond that is not small, for records
CROWDED = 10  # cells a record: beyond, what a usual table would come to is not computed, since it is known to be bad
PART = 20  # a region is looked at that is about so small a part of the table


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What to expect: in words, as figures, and whether it is small (None: not known without a number of records)."""

    words: str
    figures: dict[str, Any] = field(default_factory=dict)
    is_small: bool | None = None


def expect(
    method: Microdata | Table | View, schema: Schema, *, rows: int | None = None, neighbours: Neighbours | None = None
) -> Expected:
    """Foresee the error of a release from public facts; `rows` is a public estimate of the number of records.

    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> told = expect(Microdata(epsilon="1/2"), Schema(name="s", attributes=(sex,)), rows=1000)
    >>> told.is_small, told.figures["cell_standard_deviation"]
    (True, 5.64215)
    """
    if isinstance(method, Microdata):
        return _microdata(method, schema, rows, neighbours)
    if isinstance(method, Table):
        return _table(method, schema, rows, neighbours)
    return _view(method, schema, rows, neighbours)


def _microdata(method: Microdata, schema: Schema, rows: int | None, neighbours: Neighbours | None) -> Expected:
    chosen = schema if method.by is None else schema.select(method.by)
    is_crowded = rows is not None and chosen.possible_size > CROWDED * rows
    asked = () if rows is None or is_crowded else (rows,)
    told = method.preview(schema, rows=asked, neighbours=neighbours)
    words = say("a cell is off by {deviation}", deviation=number(told.cell_standard_deviation))
    if rows is None:
        return Expected(words=words, figures=told.to_dict())
    mean = number(rows / told.cells)
    if is_crowded:
        more = say("cells hold {mean} records in the mean, so single cells will be noise", mean=mean)
        return Expected(words=joined(words, more), figures=told.to_dict(), is_small=False)
    is_small = not told.is_bad and told.cell_standard_deviation <= HALF * rows / told.cells
    share = f"{told.outlooks[0].empty_share:.0%}"
    more = say(
        "cells hold {mean} records in the mean; {share} of the records would lie in cells that hold nobody",
        mean=mean,
        share=share,
    )
    return Expected(words=joined(words, more), figures=told.to_dict(), is_small=is_small)


def _table(method: Table, schema: Schema, rows: int | None, neighbours: Neighbours | None) -> Expected:
    """Look at a cell, and at a region of about a twentieth of the table; in a huge one at a part of the tree."""
    told = method.preview(schema, neighbours=neighbours)
    regions = dict(told.regions)
    size = min(regions, key=lambda block: abs(PART * block - told.cells))
    share, deviation = Fraction(size, told.cells), regions[size]
    words = say("a cell is off by {deviation}", deviation=number(regions[1]))
    if told.cells > PART * max(regions) and told.levels:
        nodes, scale = next((one for one in told.levels if one[0] >= PART), told.levels[-1])
        share, deviation = Fraction(1, nodes), math.sqrt(geometric_variance(scale))
        part = say("one of the {parts} parts of a level by {deviation}", parts=nodes, deviation=number(deviation))
        words = joined(words, part)
    elif size > 1:
        region = say("a region of {cells} cells by {deviation}", cells=size, deviation=number(deviation))
        words = joined(words, region)
    if rows is None:
        return Expected(words=words, figures=told.to_dict())
    if method.focus == "cells":
        share, deviation = Fraction(1, told.cells), regions[1]
    mean = float(rows * share)
    more = (
        say("a cell holds {mean} records in the mean", mean=number(mean))
        if share * told.cells == 1
        else say("such a sum holds {mean} records in the mean", mean=number(mean))
    )
    return Expected(words=joined(words, more), figures=told.to_dict(), is_small=deviation <= SMALL * mean)


def _view(method: View, schema: Schema, rows: int | None, neighbours: Neighbours | None) -> Expected:
    chosen = schema if method.by is None else schema.select(method.by)
    told = method.preview(schema, rows=rows, neighbours=neighbours)
    if told.block_standard_deviation is not None:
        words = say("a block is off by {deviation} at the least", deviation=number(told.block_standard_deviation))
        return Expected(words=words, figures=told.to_dict())
    each = {one.name: one.size for one in chosen.attributes}
    name = sorted(each, key=lambda one: (each[one], one))[len(each) // 2]
    deviation = told.value_standard_deviation[name]
    words = say("a value of {name} is off by {deviation}", name=name, deviation=number(deviation))
    if rows is None:
        return Expected(words=words, figures=told.to_dict())
    more = say("its values hold {mean} records in the mean", mean=number(rows / each[name]))
    shares = [told.value_standard_deviation[one] * size / rows for one, size in each.items()] if rows else [1.0]
    pairs = (
        say("pairs of attributes are measured too")
        if told.measures_pairs
        else say("records are too few to measure how attributes depend on each other")
    )
    words = joined(words, more, pairs)
    return Expected(words=words, figures=told.to_dict(), is_small=statistics.median(shares) <= SMALL)


def error_line(method: Any, schema: Schema | None, guarantee: Promise) -> str | None:
    """Tell the expected error of a planned release in a line; None where it takes a search or the data."""
    if schema is None or isinstance(method, KAnonymity | Location) or not isinstance(guarantee, Guarantee):
        return None
    words = expect(method, schema, neighbours=guarantee.neighbours).words
    return say("expected error: {words} (standard deviation)", words=words)


def joined(*parts: str) -> str:
    """Put parts of a line one after the other, with the marks of the reader's language.

    >>> joined("one", "two")
    'one; two'
    """
    line = parts[0]
    for part in parts[1:]:
        line = say("{first}; {second}", first=line, second=part)
    return line


def number(value: float | Fraction) -> str:
    """Three digits, without an exponent where one can do without.

    >>> [number(one) for one in (0.0000123, 0.21, 5.877, 1234.5, 5.67e9)]
    ['0.0000123', '0.21', '5.88', '1,230', '5.67e9']
    """
    short = float(f"{float(value):.3g}")
    if short and not 1e-7 <= abs(short) < 1e9:
        digits, _, power = f"{short:e}".partition("e")
        return f"{float(digits):g}e{int(power)}"
    text = f"{short:,.10f}".rstrip("0").rstrip(".")
    return text
