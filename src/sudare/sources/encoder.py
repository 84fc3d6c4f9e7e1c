"""The code of one attribute over one column, as SQL: what every kind of attribute is encoded with.

The meaning of a value is `Attribute.encode`. SQL decides where it is sure to agree; the other values are unread: they
are brought once, encoded by that very function, and looked up (`unread.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from sqlglot import exp

from sudare.errors import DomainError
from sudare.schema import Attribute
from sudare.sources.engine import Column, Lookup
from sudare.sources.sql import (
    Branch,
    Expression,
    all_of,
    any_of,
    cast,
    choose,
    is_in,
    is_nan,
    is_null,
    literal,
    raw_column,
)

MOST_LOOKUP_KEYS = 1 << 16  # a larger table costs more than a tree of comparisons
MOST_TREE_LEAVES = 1 << 12  # of a tree of comparisons; a larger one is slow to plan for an engine
MOST_DECIMAL_PLACES = 6  # Python prints decimals with more places as 1E-7, engines as 0.0000001


@dataclass(frozen=True, kw_only=True, slots=True)
class Join:
    """A lookup and what its key is compared with."""

    lookup: Lookup
    key: Expression


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlCode:
    """The code of an attribute in SQL: NULL where a value does not fit.

    `unguarded` is the code where `guard` holds (everywhere if there is none); elsewhere no value fits. Kept apart, the
    guards of all attributes become one condition of the key, which engines check quicker than many.
    `stages` are columns to derive first, each stage from the one before. `reads_nothing`: every value is unread.
    """

    unguarded: Expression
    guard: Expression | None = None
    stages: tuple[Mapping[str, Expression], ...] = ()
    joins: tuple[Join, ...] = ()
    reads_nothing: bool = False

    @property
    def expression(self) -> Expression:
        """The code with its guard; a fresh tree at every call."""
        unguarded = self.unguarded.copy()
        return unguarded if self.guard is None else choose([(self.guard.copy(), unguarded)])

    def mentions(self, lookup: str) -> bool:
        """Tell whether the code takes a value from a lookup."""
        return any(column.table == lookup for column in self.unguarded.find_all(exp.Column))

    def replace_value(self, lookup: str, value: Expression) -> SqlCode:
        """Put a value in place of what a lookup has."""
        unguarded = self.unguarded.transform(
            lambda node: value.copy() if isinstance(node, exp.Column) and node.table == lookup else node
        )
        return replace(self, unguarded=unguarded)


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnEncoder:
    """One attribute over one column. `prefix` keeps the names of different encoders apart."""

    attribute: Attribute
    column: Column
    prefix: str

    def value(self) -> Expression:
        """The raw value."""
        return raw_column(self.column.column_id)

    def derived_column(self, name: str) -> Expression:
        """A column that a stage derives."""
        return raw_column(self.derived_id(name))

    def derived_id(self, name: str) -> str:
        """Name a derived column."""
        return f"{self.prefix}_{name}"

    def lookup_name(self, name: str) -> str:
        """Name a lookup."""
        return f"sudare_{self.prefix}_{name}"

    def lookup_value(self, name: str) -> Expression:
        """The value that a lookup has for the key of a row; NULL if the key is not in it."""
        return exp.column("v", table=self.lookup_name(name))

    @property
    def unread_lookup(self) -> str:
        """Name the lookup of the values that SQL does not read."""
        return self.lookup_name("unread")

    def look_up_unread(self) -> Expression:
        """Stands where SQL does not read a value; see `unread.py`."""
        return self.lookup_value("unread")

    def look_up_always(self) -> SqlCode:
        """Look every value up: right for any column, at a cost for each different value."""
        is_missing = [is_null(self.value())] + ([is_nan(self.value())] if self.column.family == "float" else [])
        code = choose([(any_of(is_missing), literal(self.encode(None)))], self.look_up_unread())
        return SqlCode(unguarded=code, reads_nothing=True)

    def encode(self, value: object) -> int | None:
        """Encode a value in Python; None if it does not fit."""
        try:
            return self.attribute.encode(value)
        except DomainError:
            return None

    def choose_code(self, branches: Sequence[Branch], default: Expression | None = None) -> Expression:
        """Put missing values before the branches, and the code of values outside behind them."""
        default = literal(self.attribute.other_code) if default is None else default
        if not self._needs_missing_branch:
            return choose(branches, default)
        return choose([(any_of(self._missing_conditions()), literal(self.encode(None))), *branches], default)

    def encode_range(self, inside: Branch, *, first: Sequence[Branch] = (), last: Sequence[Branch] = ()) -> SqlCode:
        """Encode values inside the declared range, and others by the branches before and behind."""
        if first or last or self._needs_missing_branch or self.attribute.other_code is not None:
            return SqlCode(unguarded=self.choose_code([*first, inside, *last]))
        return SqlCode(unguarded=inside[1], guard=inside[0])

    def encode_by_lookup(
        self, join: Join, code: Expression, *, first: Sequence[Branch] = (), last: Sequence[Branch] = ()
    ) -> SqlCode:
        """Encode by a lookup, which has nothing for values outside."""
        sql_code = self.encode_range((exp.not_(is_null(code)), code.copy()), first=first, last=last)
        return replace(sql_code, guard=None, joins=(join,))

    @property
    def _needs_missing_branch(self) -> bool:
        """Tell whether missing values need a branch: without a code of their own, NULL fits no branch; NaN might."""
        return self.encode(None) is not None or self.column.family == "float"

    def _missing_conditions(self) -> list[Expression]:
        conditions = [is_null(self.value())]
        if self.column.family == "float":
            conditions.append(is_nan(self.value()))
            conditions += [self.is_double(mark) for mark in self.missing_values if isinstance(mark, float)]
        elif self.missing_values:
            is_text = self.column.family in ("decimal", "wide")
            conditions.append(is_in(cast(self.value(), "VARCHAR") if is_text else self.value(), self.missing_values))
        return conditions

    def is_double(self, number: float) -> Expression:
        """Tell whether a double is this one, by its number: engines print doubles differently. -0.0 is not 0.0."""
        is_equal = exp.EQ(this=self.value(), expression=literal(number))
        if number != 0:
            return is_equal
        has_sign = exp.Like(this=cast(self.value(), "VARCHAR"), expression=literal("-%"))
        return all_of(is_equal, has_sign if math.copysign(1, number) < 0 else exp.not_(has_sign))

    @property
    def missing_values(self) -> list[object]:
        """The marks of missing values that this column can hold, as its values."""
        texts = self.attribute.missing_marks
        if self.column.family == "text":
            return ["", *texts]
        reader = _READERS.get(self.column.family)
        return [] if reader is None else [mark for text in texts if (mark := reader(text)) is not None]

    @property
    def prints_like_python(self) -> bool:
        """Tell whether the engine's text of a value is the one that a schema means."""
        return self.column.family != "decimal" or self.column.scale <= MOST_DECIMAL_PLACES


def read_integer(text: str) -> int | None:
    """Read the text of an integer as engines print it; None if it is none, or longer than 64 bits."""
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None


def _keep_printed(text: str) -> str | None:
    """Keep the text of a number as engines print it."""
    return text if re.fullmatch(r"-?[0-9.]+(e[+-][0-9]+)?|-?inf", text) else None


def read_double(text: str) -> float | None:
    """Read the text of a double as Python prints it; None if it is none, or NaN.

    >>> read_double("1.0"), read_double("1"), read_double("nan")
    (1.0, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if repr(number) == text and number == number else None


def _read_day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if str(day) == text else None


def _read_moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if str(moment) == text and moment.tzinfo is None else None


_READERS: Mapping[str, Callable[[str], object]] = {
    "integer": read_integer,
    "wide": _keep_printed,
    "decimal": _keep_printed,
    "float": read_double,
    "day": _read_day,
    "moment": _read_moment,
}
