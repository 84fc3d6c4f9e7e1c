"""Tables of a plan, and the places that keys, aggregates and windows have in their rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sudare.asking.aggregates import is_aggregate
from sudare.asking.axes import Axes
from sudare.asking.evaluate import walk
from sudare.asking.grouped import GroupedRecords
from sudare.asking.syntax import AttributeColumn, Call, Expression, Literal, Ordering, ScalarSlot, Slot, rebuild, refuse
from sudare.errors import ParameterError
from sudare.text import text


@dataclass(slots=True, eq=False)
class RecordTable:
    """People: columns are expressions of attributes, `where` is what they were restricted to."""

    axes: Axes
    columns: dict[str, Expression]
    where: tuple[Expression, ...] = ()


@dataclass(slots=True, eq=False)
class GroupTable:
    """Rows of groups: a select over records, over other groups, or a union of such."""

    columns: list[str]
    source: Any  # GroupedRecords | JoinedGroups | list of GroupTable (a union)
    items: list[Expression] = field(default_factory=list)
    having: Expression | None = None
    qualify: Expression | None = None
    windows: list[Call] = field(default_factory=list)
    order: tuple[Ordering, ...] = ()
    distinct: bool = False
    limit: int | None = None
    offset: int = 0
    unions: tuple[bool, ...] = ()
    scalars: list[GroupTable] = field(default_factory=list)  # queries of one value, put in slots after the row


@dataclass(slots=True, eq=False)
class JoinedGroups:
    """Groups joined to groups: every table with its name, how it is joined, and what is added up over the rows."""

    tables: list[tuple[str, GroupTable]]
    joins: list[tuple[str, Expression | None]]
    where: Expression | None
    keys: list[Expression] = field(default_factory=list)
    sets: tuple[tuple[int, ...], ...] = ()
    aggregates: list[Call] = field(default_factory=list)
    is_aggregated: bool = False


class SlotMaker:
    """Gives keys, aggregates, GROUPING(), windows and queries of one value a place in the row."""

    def __init__(self, keys: list[Expression], source: Any) -> None:
        self.keys, self.source = keys, source
        self.is_plain = isinstance(source, JoinedGroups) and not source.is_aggregated
        self.windows: list[Call] = []
        self.raw_windows: list[Call] = []
        self.scalar_start = self.window_start = 0

    def collect(self, node: Expression) -> None:
        """Note the aggregates and windows of an expression."""
        for part in walk(node):
            if isinstance(part, Call) and part.window is not None:
                if part not in self.raw_windows:
                    self.raw_windows.append(part)
            elif isinstance(part, Call) and part.name == "GROUPING" and isinstance(self.source, GroupedRecords):
                self._grouping(part)
            elif (
                isinstance(part, Call)
                and is_aggregate(part)
                and not self.is_plain
                and part not in self.source.aggregates
            ):
                self.source.aggregates.append(part)

    def _grouping(self, call: Call) -> None:
        if any(argument not in self.keys for argument in call.arguments) or not call.arguments:
            raise refuse("GROUPING()", text("its arguments must stand in GROUP BY"))
        asked = tuple(self.keys.index(argument) for argument in call.arguments)
        if asked not in self.source.groupings:
            self.source.groupings.append(asked)

    def number(self, scalars: int) -> None:
        """Fix the places: keys, aggregates, GROUPING(), queries of one value, windows."""
        if self.is_plain:
            width = sum(len(table.columns) for _, table in self.source.tables)
        else:
            width = len(self.keys) + len(self.source.aggregates) + len(getattr(self.source, "groupings", ()))
        self.scalar_start, self.window_start = width, width + scalars
        self.windows = [Call(w.name, *self._window_parts(w)) for w in self.raw_windows]

    def _window_parts(self, call: Call) -> tuple[Any, ...]:
        placed = rebuild(call, self.place)
        if not isinstance(placed, Call):
            raise AssertionError("a call stays one")
        return placed.arguments, placed.distinct, placed.condition, placed.order, placed.window

    def place_item(self, node: Expression) -> Expression:
        """A column of SELECT with slots in it; a constant may be a key, which is NULL where ROLLUP leaves it out."""
        if isinstance(node, Literal) and node in self.keys:
            return Slot(self.keys.index(node))
        return self.place(node)

    def place(self, node: Expression) -> Expression:
        """The expression with slots in it."""
        if isinstance(node, ScalarSlot):
            return Slot(self.scalar_start + node.number)
        if isinstance(node, Slot) and self.is_plain:
            return node
        if node in self.keys and not isinstance(node, Literal):
            return Slot(self.keys.index(node))
        if isinstance(node, Call) and node.window is not None:
            return Slot(self.window_start + self.raw_windows.index(node))
        if isinstance(node, Call) and not self.is_plain:
            if node.name == "GROUPING":
                asked = tuple(self.keys.index(argument) for argument in node.arguments)
                return Slot(len(self.keys) + len(self.source.aggregates) + self.source.groupings.index(asked))
            if is_aggregate(node):
                return Slot(len(self.keys) + self.source.aggregates.index(node))
        if isinstance(node, AttributeColumn):
            name = self.source.axes.answerer.schema.names[node.attribute]
            raise ParameterError("{name} must stand in GROUP BY to be selected", name=name)
        if isinstance(node, Slot):
            raise ParameterError("a column that is selected beside COUNT, SUM and the like must stand in GROUP BY")
        return rebuild(node, self.place)
