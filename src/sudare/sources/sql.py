"""Small pieces of SQL as sqlglot trees, the same for every engine.

Nothing here is pasted from the data: names of columns and tables are Sudare's own, and texts become literals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from sudare.schema import Radix

RAW = "r"
"""The alias of the raw rows, with what is derived from them, in every query."""

if TYPE_CHECKING:
    Expression = exp.Expr  # the root of all trees in newer sqlglot
else:
    Expression = exp.Expression
Branch = tuple[Expression, Expression]
_NEAR_MULTIPLE = 1e-6  # steps of a grain that a double may be off, and of large numbers of steps so many parts:
_DOUBLE_ERROR = 2.0**-50  # four times what the product of two doubles is off


def raw_column(column_id: str) -> exp.Column:
    """Name a column of the raw rows."""
    return exp.column(column_id, table=RAW)


def literal(value: object) -> Expression:
    """Write a Python value as SQL; None is NULL.

    >>> literal(date(2024, 1, 5)).sql("duckdb"), literal("it's").sql("duckdb"), literal(None).sql("duckdb")
    ("CAST('2024-01-05' AS DATE)", "'it''s'", 'NULL')
    """
    if value is None:
        return exp.null()
    if isinstance(value, datetime):
        return cast(exp.Literal.string(str(value)), "TIMESTAMP")
    if isinstance(value, date):
        return cast(exp.Literal.string(value.isoformat()), "DATE")
    if isinstance(value, float):
        return cast(exp.Literal.string(repr(value)), "DOUBLE")
    if isinstance(value, int | Decimal):
        number = exp.Literal.number(format(abs(value), "f" if isinstance(value, Decimal) else "d"))
        return exp.Neg(this=number) if value < 0 else number
    return exp.Literal.string(str(value))


def cast(value: Expression, kind: str) -> Expression:
    """Convert; an error in the engine if it cannot be."""
    return exp.cast(value, kind)


def read_text(text: Expression, kind: Literal["BIGINT", "DOUBLE", "DATE"]) -> Expression:
    """Read a text whose form a pattern has checked; NULL where it is none; see `Dialect.read_text` for the forms."""
    return exp.TryCast(this=text, to=exp.DataType.build(kind))


def narrow(number: Expression) -> Expression:
    """Make a whole number that is not negative one of 64 bits; NULL if it is longer."""
    fits = exp.LTE(this=number, expression=literal(2**63 - 1))
    return choose([(fits, cast(number.copy(), "BIGINT"))])


def is_nan(value: Expression) -> Expression:
    """Tell whether a double is NaN."""
    return exp.IsNan(this=value)


def digest(text: Expression) -> Expression:
    """Hash a text by SHA-256, as something that can be sorted by."""
    return exp.SHA2(this=text, length=literal(256))


def matches_pattern(text: Expression, pattern: str) -> Expression:
    """Tell whether a whole text matches; patterns of `schema.raw` and `schema.mesh` can be used as they stand."""
    return exp.RegexpLike(this=text, expression=exp.Literal.string(f"^({pattern})$"))


def is_null(value: Expression) -> Expression:
    """Tell whether there is no value."""
    return exp.Is(this=value, expression=exp.null())


def is_in(value: Expression, values: Iterable[object]) -> Expression:
    """Tell whether a value is one of a few."""
    return exp.In(this=value, expressions=[literal(listed) for listed in values])


def any_of(conditions: Sequence[Expression]) -> Expression:
    """Join conditions by OR."""
    return exp.or_(*conditions)


def all_of(*conditions: Expression) -> Expression:
    """Join conditions by AND."""
    return exp.and_(*conditions)


def choose(branches: Sequence[Branch], default: Expression | None = None) -> Expression:
    """Give the value of the first condition that holds, else the default (NULL)."""
    if not branches:
        return default or exp.null()
    case = exp.Case()
    for condition, value in branches:
        case = case.when(condition, value)
    return case.else_(default) if default is not None else case


def call(name: str, *arguments: Expression) -> Expression:
    """Call a function by name."""
    return exp.func(name, *arguments)


def is_multiple(value: Expression, grain: Fraction) -> Expression:
    """Tell whether a number is a multiple of the grain, as nearly as doubles can: 24.9 is not quite 249 times 0.1."""
    steps = exp.Mul(this=cast(value, "DOUBLE"), expression=literal(float(1 / grain)))
    distance = call("ABS", exp.Sub(this=steps, expression=call("ROUND", steps.copy())))
    error = exp.Mul(this=call("ABS", steps.copy()), expression=literal(_DOUBLE_ERROR))
    return exp.LTE(this=distance, expression=exp.Add(this=literal(_NEAR_MULTIPLE), expression=error))


def bisect(value: Callable[[], Expression], starts: Sequence[object], first: int = 0) -> Expression:
    """Find the last position whose start is at or below the value: a balanced tree of comparisons.

    `starts` are the inner edges; below the first of them the position is `first`.

    >>> bisect(lambda: raw_column("c0"), [10, 20, 30]).sql("duckdb").count("CASE")
    3
    """
    if not starts:
        return literal(first)
    middle = len(starts) // 2
    below = exp.LT(this=value(), expression=literal(starts[middle]))
    lower = bisect(value, starts[:middle], first)
    return choose([(below, lower)], bisect(value, starts[middle + 1 :], first + middle + 1))


def in_runs(value: Expression, codes: Iterable[int]) -> Expression:
    """Tell whether a code is in a set, written as runs so that large sets stay short.

    >>> in_runs(raw_column("c0"), [1, 2, 3, 7]).sql("duckdb")
    '(r.c0 BETWEEN 1 AND 3 OR r.c0 = 7)'
    """
    runs: list[list[int]] = []
    for code in sorted(codes):
        if runs and code == runs[-1][1] + 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return exp.paren(any_of([_is_in_run(value.copy(), low, high) for low, high in runs]))


def _is_in_run(value: Expression, low: int, high: int) -> Expression:
    if low == high:
        return exp.EQ(this=value, expression=literal(low))
    return exp.Between(this=value, low=literal(low), high=literal(high))


def pack_words(codes: Sequence[Expression], radix: Radix) -> list[Expression]:
    """Pack codes into the words of mixed-radix keys; a word is NULL where one of its codes is.

    A word that fits 32 bits is made so: engines group by it a fifth quicker.

    >>> [word.sql("duckdb") for word in pack_words([raw_column("a"), raw_column("b")], Radix((2, 3)))]
    ['CAST(CAST(r.a AS BIGINT) * 3 + r.b AS INT)']
    """
    return [_pack([codes[at] for at in word], [radix.sizes[at] for at in word]) for word in radix.words]


def _pack(codes: Sequence[Expression], sizes: Sequence[int]) -> Expression:
    if not codes:
        return cast(literal(0), "INT")
    first = cast(codes[0], "BIGINT")
    word = reduce(lambda word, pair: _shift(word, *pair), zip(codes[1:], sizes[1:], strict=True), first)
    return cast(word, "INT") if math.prod(sizes) < 2**31 else word


def _shift(word: Expression, code: Expression, size: int) -> Expression:
    left = exp.Mul(this=exp.paren(word) if isinstance(word, exp.Add) else word, expression=literal(size))
    return exp.Add(this=left, expression=exp.paren(code) if not isinstance(code, exp.Column) else code)
