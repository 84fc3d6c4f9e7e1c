"""One attribute over one column: the pieces that its SQL is made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from sqlglot import exp

from sudare.errors import DomainError
from sudare.schema import Attribute
from sudare.schema.raw import BLANKS
from sudare.sources.engine import Column, Lookup
from sudare.sources.sql import Branch, Expression, call, cast, choose, either, holds, is_in, is_null, literal, raw

LONGEST_LOOKUP = 1 << 16  # keys; a larger table costs more than a tree of comparisons
LARGEST_TREE = 1 << 12  # leaves
MOST_SCALE = 6  # Python prints decimals with more places as 1E-7, engines as 0.0000001
_AT_THE_ENDS = f"^[{BLANKS}]|[{BLANKS}]$"


@dataclass(frozen=True, kw_only=True, slots=True)
class Join:
    """A lookup and what its key is compared with."""

    lookup: Lookup
    key: Expression


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlCode:
    """The code of an attribute in SQL: NULL where a value does not fit.

    `inner` is the code where `guard` holds (everywhere if there is none); elsewhere nothing fits. Kept apart, the
    guards of all attributes become one condition of the key, which engines check quicker than many.
    `stages` are columns to derive first, each stage from the one before. `asks` tells that some values are put to the
    Python function of the site.
    """

    inner: Expression
    guard: Expression | None = None
    stages: tuple[Mapping[str, Expression], ...] = ()
    joins: tuple[Join, ...] = ()
    asks: bool = False

    @property
    def code(self) -> Expression:
        """The code, whole; a fresh tree at every call."""
        inner = self.inner.copy()
        return inner if self.guard is None else choose([(self.guard.copy(), inner)])


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnEncoder:
    """One attribute over one column. `prefix` keeps the names of different sites apart."""

    attribute: Attribute
    column: Column
    prefix: str

    def value(self) -> Expression:
        """The raw value."""
        return raw(self.column.place)

    def derived(self, name: str) -> Expression:
        """A column that a stage derives."""
        return raw(self.place(name))

    def place(self, name: str) -> str:
        """What a derived column is called."""
        return f"{self.prefix}_{name}"

    def table(self, name: str) -> str:
        """What a lookup is called."""
        return f"sudare_{self.prefix}_{name}"

    def found(self, name: str) -> Expression:
        """What a lookup gives."""
        return exp.column("v", table=self.table(name))

    @property
    def function(self) -> str:
        """The Python function that knows the meaning of every value of this column."""
        return f"sudare_{self.prefix}"

    def ask(self) -> Expression:
        """Ask that function; for values that are rare."""
        return call(self.function, self.value())

    def asked(self) -> SqlCode:
        """Ask for every value: right for any column, at 0.1 to 3 million rows a second."""
        return SqlCode(inner=self.ask(), asks=True)

    def encoded(self, value: object) -> int | None:
        """The meaning of a value, None if it does not fit."""
        try:
            return self.attribute.encode(value)
        except DomainError:
            return None

    def settled(self, branches: Sequence[Branch], default: Expression | None = None) -> Expression:
        """The code: missing values first, then the branches, then the code of values outside."""
        default = literal(self.attribute.other_code) if default is None else default
        if not self._tells_missing:
            return choose(branches, default)
        return choose([(either(self._missing()), literal(self.encoded(None))), *branches], default)

    def cut(self, inside: Branch, *, first: Sequence[Branch] = (), last: Sequence[Branch] = ()) -> SqlCode:
        """The code of values inside the declared range, and of the others by the branches around."""
        if first or last or self._tells_missing or self.attribute.other_code is not None:
            return SqlCode(inner=self.settled([*first, inside, *last]))
        return SqlCode(inner=inside[1], guard=inside[0])

    def looked_up(
        self, join: Join, found: Expression, *, first: Sequence[Branch] = (), last: Sequence[Branch] = ()
    ) -> SqlCode:
        """The same by a lookup, which finds nothing for values outside."""
        coding = self.cut((exp.not_(is_null(found)), found.copy()), first=first, last=last)
        return replace(coding, guard=None, joins=(join,))

    @property
    def _tells_missing(self) -> bool:
        """Tell whether missing values need a branch: without a code of their own, NULL fits no branch; NaN might."""
        return self.encoded(None) is not None or self.column.family == "float"

    def _missing(self) -> list[Expression]:
        conditions = [is_null(self.value())]
        if self.column.family == "float":
            conditions.append(call("ISNAN", self.value()))
        if self.marks:
            # The texts of these families are compared: -0.0 is another text than 0.0.
            is_text = self.column.family in ("float", "decimal", "wide")
            conditions.append(is_in(cast(self.value(), "VARCHAR") if is_text else self.value(), self.marks))
        return conditions

    @property
    def marks(self) -> list[object]:
        """The marks of missing values that this column can hold, as its values."""
        texts = self.attribute.missing_marks
        if self.column.family == "text":
            return ["", *texts]
        reader = _READERS.get(self.column.family)
        return [] if reader is None else [mark for text in texts if (mark := reader(text)) is not None]

    @property
    def prints_like_python(self) -> bool:
        """Tell whether the engine's text of a value is the one that a schema means."""
        return self.column.family != "decimal" or self.column.scale <= MOST_SCALE

    def padded(self, text: Callable[[], Expression]) -> Expression:
        """Tell whether a text has blanks around it, which its meaning does not have."""
        return holds(text(), _AT_THE_ENDS)


def _integer(text: str) -> int | None:
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None


def _printed(text: str) -> str | None:
    return text if re.fullmatch(r"-?[0-9.]+(e[+-][0-9]+)?|-?inf", text) else None


def _day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if str(day) == text else None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if str(moment) == text and moment.tzinfo is None else None


_READERS: Mapping[str, Callable[[str], object]] = {
    "integer": _integer,
    "wide": _printed,
    "decimal": _printed,
    "float": _printed,
    "day": _day,
    "moment": _moment,
}
