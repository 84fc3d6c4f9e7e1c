"""How engines spell what they do not spell alike; everything else in the queries of this room means the same in all.

Queries are built of neutral nodes: IsNan, SHA2 of a text, RegexpLike, TryCast of a text, DateDiff in days, Sum and
IntDiv. A dialect replaces each by what its engine understands. The forms here are portable: they need no function that
only some engines have, and they cannot fail on a row, because an engine that fails may quote the row. So a cast of a
text stands behind a pattern, NaN is found by equality (NaN = NaN in DuckDB, PostgreSQL and Spark), and a day is put
together from whole numbers after a look at the calendar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from sudare.sources.sql import Expression, all_of, any_of, call, cast, choose, is_in, literal

SAFE_TEXT = 300
"""Characters of a plain decimal text that can neither overflow nor vanish as a double: 1e300 and 1e-298 are doubles."""

_DASHED_DAY = "[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}"


class Dialect:
    """The portable spelling; an engine overrides what it can say shorter or must say otherwise.

    `name` is the dialect of sqlglot. `lookup_limit` tells up to how many different texts of a column of numbers, days
    or mesh codes it is cheaper to bring them once and look them up than to read every row in SQL; 0: never.

    >>> from sudare.sources.sql import raw_column
    >>> Dialect("postgres").render(exp.IsNan(this=raw_column("c0")))
    "r.c0 = CAST('NaN' AS DOUBLE PRECISION)"
    """

    def __init__(self, name: str, *, lookup_limit: int = 0) -> None:
        self.name = name
        self.lookup_limit = lookup_limit

    def render(self, tree: Expression) -> str:
        """Write a tree as a text of this dialect; the tree itself stays as it is."""
        root = exp.Paren(this=tree.copy())  # so that the root can be replaced too
        for node in reversed(list(root.walk())):  # children before their parents
            spell = _HOOKS.get(type(node))
            if spell is not None:
                node.replace(spell(self, node))
        return str(root.this.sql(self.name))

    def is_nan(self, value: Expression) -> Expression:
        """Tell whether a double is NaN."""
        return exp.EQ(this=value, expression=cast(exp.Literal.string("NaN"), "DOUBLE"))

    def digest(self, text: Expression) -> Expression:
        """SHA-256 of a text in UTF-8: its hexadecimal text, or bytes that sort alike."""
        return exp.Anonymous(this="SHA256", expressions=[text])

    def matches(self, text: Expression, pattern: str) -> Expression:
        """Tell whether a pattern occurs in a text; `^` and `$` mean the ends of the whole text."""
        return exp.RegexpLike(this=text, expression=exp.Literal.string(pattern))

    def read_text(self, text: Expression, kind: exp.DataType) -> Expression:
        """Read a text that has the form of a whole number, a number or a day; NULL if it cannot be, never an error.

        A whole number has at most 18 digits and perhaps a point with zeros. Numbers of more than SAFE_TEXT characters
        and days of another form than 2024-01-31 or 2024/01/31 may be NULL: they are looked up instead.
        """
        if kind.is_type(exp.DataType.Type.DATE):
            return self._read_day(text)
        if kind.is_type(exp.DataType.Type.BIGINT):
            return cast(cast(text, "DECIMAL(38, 0)"), "BIGINT")
        is_safe = exp.LTE(this=call("LENGTH", text.copy()), expression=literal(SAFE_TEXT))
        return choose([(is_safe, exp.cast(text, kind))])

    def _read_day(self, text: Expression) -> Expression:
        year, month, day = (
            cast(call("SUBSTRING", text.copy(), literal(start), literal(width)), "INT")
            for start, width in ((1, 4), (6, 2), (9, 2))
        )
        is_dashed = self.matches(text.copy(), f"^({_DASHED_DAY})$")
        return choose([(is_dashed, self.make_day(year, month, day))])

    def make_day(self, year: Expression, month: Expression, day: Expression) -> Expression:
        """Put a day together; NULL if the calendar has none such."""
        is_leap = any_of([all_of(_divides(4, year), exp.not_(_divides(100, year))), _divides(400, year)])
        is_february = exp.EQ(this=month.copy(), expression=literal(2))
        february = is_february, choose([(is_leap, literal(29))], literal(28))
        last_day = choose([(is_in(month.copy(), (4, 6, 9, 11)), literal(30)), february], literal(31))
        is_in_calendar = all_of(
            exp.GTE(this=year.copy(), expression=literal(1)),
            exp.Between(this=month.copy(), low=literal(1), high=literal(12)),
            exp.Between(this=day.copy(), low=literal(1), high=last_day),
        )
        return choose([(is_in_calendar, exp.Anonymous(this="MAKE_DATE", expressions=[year, month, day]))])

    def days_between(self, late: Expression, early: Expression) -> Expression:
        """Count the days from one day to a later one."""
        return exp.DateDiff(this=late, expression=early, unit=exp.var("DAY"))

    def total(self, numbers: Expression) -> Expression:
        """Add up whole numbers of 64 bits without overflow."""
        return exp.Sum(this=numbers)

    def divide(self, number: Expression, by: Expression) -> Expression:
        """Divide whole numbers that are not negative, and drop the rest."""
        return exp.IntDiv(this=number, expression=by)


def _divides(divisor: int, number: Expression) -> Expression:
    rest = exp.Mod(this=exp.paren(number.copy()), expression=literal(divisor))
    return exp.EQ(this=rest, expression=literal(0))


def _spell_matches(dialect: Dialect, node: Any) -> Expression:
    return dialect.matches(node.this, node.expression.this)


_HOOKS: dict[type[Expression], Callable[[Dialect, Any], Expression]] = {
    exp.IsNan: lambda dialect, node: dialect.is_nan(node.this),
    exp.SHA2: lambda dialect, node: dialect.digest(node.this),
    exp.RegexpLike: _spell_matches,
    exp.TryCast: lambda dialect, node: dialect.read_text(node.this, node.to),
    exp.DateDiff: lambda dialect, node: dialect.days_between(node.this, node.expression),
    exp.Sum: lambda dialect, node: dialect.total(node.this),
    exp.IntDiv: lambda dialect, node: dialect.divide(node.this, node.expression),
}
