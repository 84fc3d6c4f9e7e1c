"""Mesh cells in SQL: arithmetic on the digits of JIS codes, never a list of all cells."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from sudare.schema import MeshCells
from sudare.schema.mesh import DIGITS
from sudare.sources.coding.site import Coding, Join, Site
from sudare.sources.engine import Lookup
from sudare.sources.sql import Expression, both, call, cast, choose, is_null, literal, matches, try_cast

_FIRST = "[1-9][0-9]{3}"
_STEPS = ("[0-7]{2}", "[0-9]{2}", "[1-4]", "[1-4]", "[1-4]")
_FANOUT = (64, 100, 4, 4, 4)
_PLACES = (2, 2, 1, 1, 1)  # digits of each step


def code_cells(site: Site, cells: MeshCells) -> Coding:
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


def _from_integer(site: Site, cells: MeshCells) -> Expression:
    """A code of the very level stays a number, which is quick; a finer one is cut as text."""
    length = DIGITS[cells.level - 1]
    own = exp.Between(this=site.value(), low=literal(10 ** (length - 1)), high=literal(10**length - 1))
    text = cast(site.value(), "VARCHAR")
    finer = both(exp.GTE(this=site.value(), expression=literal(10**length)), matches(text, pattern(cells.level)))
    cut = try_cast(call("LEFT", cast(site.value(), "VARCHAR"), literal(length)), "BIGINT")
    return choose([(own, cast(site.value(), "BIGINT")), (finer, cut)])


def _found(site: Site, cells: MeshCells, stages: tuple[dict[str, Expression], ...]) -> Coding:
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
    return Coding(inner=site.settled(asked, code), stages=stages, joins=(Join(lookup=lookup, key=key),), asks=is_text)


def _numbered(site: Site, level: int) -> Expression:
    """Number cells in the order of their codes; NULL if a digit is none of its step."""
    code: Expression = site.found("cells")
    rest, conditions = DIGITS[level - 1] - 4, []
    for fanout, places in zip(_FANOUT[: level - 1], _PLACES, strict=False):
        rest -= places
        step, are_valid = _step(site, rest, fanout)
        conditions += are_valid
        code = exp.Add(this=exp.Mul(this=exp.paren(code), expression=literal(fanout)), expression=exp.paren(step))
    return choose([(both(*conditions), code)]) if conditions else code


def _step(site: Site, rest: int, fanout: int) -> tuple[Expression, list[Expression]]:
    """Which cell of the one above, from the digits left of the last `rest`; and when those digits are a step."""
    if fanout == 100:
        return _digits(site, rest, 2), []
    if fanout == 4:
        is_quarter = exp.Between(this=_digits(site, rest, 1), low=literal(1), high=literal(4))
        return exp.Sub(this=_digits(site, rest, 1), expression=literal(1)), [is_quarter]
    north, east = exp.paren(_digits(site, rest + 1, 1)), exp.paren(_digits(site, rest, 1))
    are_eighths: list[Expression] = [exp.LT(this=digit.copy(), expression=literal(8)) for digit in (north, east)]
    return exp.Add(this=exp.Mul(this=north, expression=literal(8)), expression=east), are_eighths


def _digits(site: Site, rest: int, count: int) -> Expression:
    left = exp.paren(_quotient(site.derived("mesh"), rest))
    return exp.Mod(this=left, expression=literal(10**count))


def _quotient(number: Expression, rest: int) -> Expression:
    return exp.IntDiv(this=number, expression=literal(10**rest)) if rest else number
