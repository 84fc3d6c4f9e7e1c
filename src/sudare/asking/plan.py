"""What the names of a statement mean, and which of its tables are records and which are groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sudare.asking.aggregates import is_aggregate
from sudare.asking.axes import Axes
from sudare.asking.evaluate import walk
from sudare.asking.grouped import GroupedRecords
from sudare.asking.hints import check_function, refuse_column
from sudare.asking.slots import GroupTable, JoinedGroups, RecordTable, SlotMaker
from sudare.asking.syntax import (
    AttributeColumn,
    Call,
    DerivedTable,
    Expression,
    GroupBy,
    Literal,
    Membership,
    Name,
    Operation,
    Ordering,
    Query,
    ScalarQuery,
    ScalarSlot,
    Select,
    SelectItem,
    Slot,
    Star,
    TableJoin,
    TableName,
    rebuild,
    refuse,
)
from sudare.errors import ParameterError
from sudare.schema import Schema
from sudare.schema.raw import list_some
from sudare.text import text

MOST_QUERIES = 50  # SELECTs in one statement


Table = RecordTable | GroupTable
Find = Callable[[Name], Expression]


class Planner:
    """Plans one statement. `base` has the releases by name; `run_early` answers queries whose result is a constant."""

    def __init__(
        self, base: Mapping[str, Axes], run_early: Callable[[Query, Mapping[str, Query], bool], list[Literal]]
    ) -> None:
        self.base, self.run_early = base, run_early
        self.queries = 0

    # --- queries ------------------------------------------------------------------------------------------------------

    def query(self, query: Query, named: Mapping[str, Query]) -> Table:
        """Plan a query; `named` are those of WITH that it may use."""
        scope = dict(named)
        for name, inner in query.named:
            scope[name.casefold()] = inner
        tables = [self._operand(part, scope, query, len(query.selects) == 1) for part in query.selects]
        if len(tables) == 1:
            return self._limited(tables[0], query)
        return self._union(tables, query)

    def _operand(self, part: Select | Query, scope: Mapping[str, Query], query: Query, is_alone: bool) -> Table:
        if isinstance(part, Query):
            return self.query(part, scope)
        self.queries += 1
        if self.queries > MOST_QUERIES:
            raise refuse(text("a statement of so many queries"))
        return SelectPlanner(self, part, scope, query if is_alone else Query(())).table()

    def _limited(self, table: Table, query: Query) -> Table:
        if query.limit is None and not query.offset and not query.order and not query.order_all:
            return table
        if isinstance(table, RecordTable):
            raise refuse(
                text("ORDER BY or LIMIT over records"), text("a release has no single records; group them first")
            )
        if isinstance(query.selects[0], Query):
            table = GroupTable(table.columns, [table])
            self._order_by_position(table, query)
        table.limit, table.offset = query.limit, query.offset
        return table

    def _union(self, tables: Sequence[Table], query: Query) -> GroupTable:
        groups = [table for table in tables if isinstance(table, GroupTable)]
        if len(groups) < len(tables):
            raise refuse(text("UNION of records"), text("group both sides first"))
        if len({len(table.columns) for table in groups}) > 1:
            raise ParameterError("the sides of UNION have different numbers of columns")
        union = GroupTable(groups[0].columns, groups, unions=query.unions)
        self._order_by_position(union, query)
        union.limit, union.offset = query.limit, query.offset
        return union

    def _order_by_position(self, table: GroupTable, query: Query) -> None:
        if query.order_all:
            table.order = _order_all(table.columns, query.order_all)
            return
        found = []
        for how in query.order:
            place = _position(how.key, len(table.columns))
            if place is None and isinstance(how.key, Name):
                place = _find_name(how.key.name, table.columns)
            if place is None:
                raise refuse(text("ORDER BY of an expression after UNION"), text("order by a column of the answer"))
            found.append(Ordering(Slot(place), how.descending, how.nulls_first))
        table.order = tuple(found)

    def table_of(self, table: TableName | DerivedTable, scope: Mapping[str, Query]) -> Table:
        """A table of FROM."""
        if isinstance(table, DerivedTable):
            return self.query(table.query, scope)
        name = table.name.casefold()
        if name in scope:
            inner = {other: query for other, query in scope.items() if other != name}
            return self.query(scope[name], inner)
        if name in self.base:
            axes = self.base[name]
            names = axes.answerer.schema.names
            columns: dict[str, Expression] = {name: AttributeColumn(place) for place, name in enumerate(names)}
            return RecordTable(axes, columns)
        known = list_some([*self.base, *scope], 10)
        raise ParameterError("there is no table {name}; ask FROM {known}", name=table.name, known=known)


def _order_all(columns: Sequence[str], direction: str) -> tuple[Ordering, ...]:
    return tuple(Ordering(Slot(place), direction == "DESC") for place in range(len(columns)))


def _position(key: Expression, size: int) -> int | None:
    """The column that a number in GROUP BY or ORDER BY means."""
    if isinstance(key, Literal) and key.kind == "integer" and isinstance(key.value, Fraction):
        if not 1 <= key.value <= size:
            raise ParameterError("position ({place}) must be between 1 and {size}", place=int(key.value), size=size)
        return int(key.value) - 1
    return None


def _find_name(name: str, names: Sequence[str]) -> int | None:
    if name in names:
        return names.index(name)
    wanted = name.casefold()
    return next((place for place, other in enumerate(names) if other.casefold() == wanted), None)


# --- one SELECT -------------------------------------------------------------------------------------------------------


class SelectPlanner:
    """Plans one SELECT: finds what its names mean, and what is a key, an aggregate or a window."""

    def __init__(self, planner: Planner, select: Select, scope: Mapping[str, Query], query: Query) -> None:
        self.planner, self.select, self.scope, self.query = planner, select, scope, query
        self.scalars: list[GroupTable] = []
        self.known: Sequence[str] = ()  # names of columns, and the schema that they are of: for refusals
        self.schema: Schema | None = None

    def table(self) -> Table:
        """The table that the SELECT gives."""
        first = self.planner.table_of(self.select.table, self.scope)
        if isinstance(first, RecordTable):
            if self.select.joins:
                raise refuse(
                    text("a join of records"),
                    text(
                        "nothing tells which records of two tables belong together; group both by what they share,"
                        " then join the groups"
                    ),
                )
            return self._over_records(first)
        return self._over_groups(first)

    # --- over records -------------------------------------------------------------------------------------------------

    def _over_records(self, table: RecordTable) -> Table:
        alias = self.select.table.alias
        columns = table.columns
        known = list(columns)
        self.known, self.schema = known, table.axes.answerer.schema
        items = _expand(self.select.items, known, [alias])
        aliases = {item.alias.casefold(): item.expression for item in items if item.alias}
        depth = [0]

        def find(name: Name) -> Expression:
            if name.table and name.table.casefold() != alias.casefold():
                raise ParameterError("there is no table {name}; ask FROM {known}", name=name.table, known=alias)
            place = _find_name(name.name, known)
            return self._alias(name, aliases, depth, find) if place is None else columns[known[place]]

        where = table.where
        if self.select.where is not None:
            where = (*where, self._bind(self.select.where, find, is_early=True))
            _refuse_aggregates(where[-1], "WHERE")
        is_grouped = self.select.grouping is not None or self.select.having is not None
        bound = [self._bind_item(item, find) for item in items]
        if not (is_grouped or any(_adds_up(expression) for expression in bound) or self.select.distinct):
            return self._project(table, items, bound, where)
        grouped = GroupedRecords(table.axes, where)
        grouped.demand_where()
        keys, sets = self._keys(items, bound, find)
        if self.select.distinct and not is_grouped and not any(_adds_up(expression) for expression in bound):
            keys, sets = list(dict.fromkeys(bound)), (tuple(range(len(dict.fromkeys(bound)))),)
        grouped.keys, grouped.sets = keys, sets
        for key in keys:
            _refuse_aggregates(key, "GROUP BY")
        grouped.demand_keys()
        result = self._finish(items, bound, find, keys, grouped)
        grouped.demand_aggregates()
        return result

    def _alias(self, name: Name, aliases: Mapping[str, Expression], depth: list[int], find: Find) -> Expression:
        inner = None if name.table else aliases.get(name.name.casefold())
        if inner is None or depth[0] > 20:
            raise refuse_column(name.name, self.known, self.schema)
        depth[0] += 1
        found = self._bind(inner, find, is_early=False)
        depth[0] -= 1
        return found

    def _project(
        self,
        table: RecordTable,
        items: Sequence[SelectItem],
        bound: Sequence[Expression],
        where: tuple[Expression, ...],
    ) -> RecordTable:
        if self.select.qualify is not None or any(_has_window(expression) for expression in bound):
            raise refuse(text("OVER records"), text("a release has no single records; group them first"))
        columns: dict[str, Expression] = {}
        for item, expression in zip(items, bound, strict=True):
            columns[_name_item(item)] = expression
        return RecordTable(table.axes, columns, where)

    def _keys(
        self, items: Sequence[SelectItem], bound: Sequence[Expression], find: Find
    ) -> tuple[list[Expression], tuple[tuple[int, ...], ...]]:
        grouping = self.select.grouping
        if grouping is None:
            return [], ((),)
        if grouping.is_all:
            chosen = [expression for expression in bound if not _adds_up(expression)]
            return chosen, (tuple(range(len(chosen))),)
        return self._listed_keys(grouping, items, bound, find)

    def _listed_keys(
        self, grouping: GroupBy, items: Sequence[SelectItem], bound: Sequence[Expression], find: Find
    ) -> tuple[list[Expression], tuple[tuple[int, ...], ...]]:
        keys: list[Expression] = []
        sets = []
        for listed in grouping.sets:
            places = []
            for key in listed:
                place = _position(key, len(items))
                found = bound[place] if place is not None else self._bind(key, find, is_early=True)
                if found not in keys:
                    keys.append(found)
                if keys.index(found) not in places:
                    places.append(keys.index(found))
            sets.append(tuple(places))
        return keys, tuple(sets)

    # --- what both share --------------------

    def _finish(
        self, items: Sequence[SelectItem], bound: Sequence[Expression], find: Find, keys: list[Expression], source: Any
    ) -> GroupTable:
        """Put slots in the place of keys and aggregates, and plan HAVING, windows and ORDER BY."""
        having = None if self.select.having is None else self._bind(self.select.having, find)
        if having is not None and _has_window(having):
            raise refuse(text("a window in HAVING"), text("write it after QUALIFY"))
        qualify = None if self.select.qualify is None else self._bind(self.select.qualify, find)
        order = self._order(items, bound, find)
        slots = SlotMaker(keys, source)
        table = GroupTable([_name_item(item) for item in items], source, distinct=self.select.distinct)
        parts: list[Expression] = [*bound, *(how.key for how in order)]
        parts += [part for part in (having, qualify) if part is not None]
        for part in parts:
            slots.collect(part)
        slots.number(len(self.scalars))
        table.items = [slots.place_item(expression) for expression in bound]
        table.having = None if having is None else slots.place(having)
        table.qualify = None if qualify is None else slots.place(qualify)
        table.order = tuple(Ordering(slots.place(how.key), how.descending, how.nulls_first) for how in order)
        table.windows, table.scalars = slots.windows, self.scalars
        return table

    def _order(self, items: Sequence[SelectItem], bound: Sequence[Expression], find: Find) -> list[Ordering]:
        if self.query.order_all:
            return [Ordering(expression, self.query.order_all == "DESC") for expression in bound]
        names = [_name_item(item) for item in items]
        found = []
        for how in self.query.order:
            place = _position(how.key, len(items))
            if place is None and isinstance(how.key, Name) and not how.key.table:
                place = _find_name(how.key.name, names)
            key = bound[place] if place is not None else self._bind(how.key, find)
            found.append(Ordering(key, how.descending, how.nulls_first))
        return found

    def _bind_item(self, item: SelectItem, find: Find) -> Expression:
        return self._bind(item.expression, find)

    def _bind(self, node: Expression, find: Find, *, is_early: bool = False) -> Expression:
        """Put what names mean in their place, and queries of one value; in conditions on records they run early."""
        if isinstance(node, Name):
            return find(node)
        if isinstance(node, ScalarQuery):
            return self._scalar(node.query, is_early)
        if isinstance(node, Membership) and node.query is not None:
            values = self.planner.run_early(node.query, self.scope, True)
            operand = self._bind(node.operand, find, is_early=is_early)
            return Membership(operand, tuple(values)) if values else Literal("bool", False)
        if isinstance(node, Call) and node.window is None:
            check_function(node.name, self.known)
            is_early = is_early or is_aggregate(node)
        return rebuild(node, lambda inner: self._bind(inner, find, is_early=is_early))

    def _scalar(self, query: Query, is_early: bool) -> Expression:
        if is_early:
            values = self.planner.run_early(query, self.scope, False)
            return values[0]
        table = self.planner.query(query, self.scope)
        if not isinstance(table, GroupTable) or len(table.columns) != 1:
            raise refuse("(SELECT ...)", text("it must give one number, as with COUNT(*)"))
        self.scalars.append(table)
        return ScalarSlot(len(self.scalars) - 1)

    # --- over groups --------------------------------------------------------------------------------------------------

    def _over_groups(self, first: GroupTable) -> GroupTable:
        tables = [(self.select.table.alias, first)]
        for join in self.select.joins:
            table = self.planner.table_of(join.table, self.scope)
            if not isinstance(table, GroupTable):
                raise refuse(text("a join of records with groups"), text("group the records first"))
            tables.append((join.table.alias, table))
        names = GroupNames(tables, self._hidden(tables))
        self.known = [column for _, column in names.shown]
        items = _expand_groups(self.select.items, names.shown)
        aliases = {item.alias.casefold(): item.expression for item in items if item.alias}
        depth = [0]

        def find(name: Name) -> Expression:
            place = names.find(name)
            if place is not None:
                return Slot(place)
            return self._alias(name, aliases, depth, find)

        joins = [
            (join.kind, self._on(join, tables[: place + 1], tables[place + 1], find))
            for place, join in enumerate(self.select.joins)
        ]
        where = None if self.select.where is None else self._bind(self.select.where, find)
        bound = [self._bind_item(item, find) for item in items]
        source = JoinedGroups(tables, joins, where)
        adds_up = self.select.grouping is not None or any(_adds_up(expression) for expression in bound)
        source.is_aggregated = adds_up or (
            self.select.having is not None and _adds_up(self._bind(self.select.having, find))
        )
        keys: list[Expression] = []
        if source.is_aggregated:
            keys, sets = self._keys(items, bound, find)
            source.keys, source.sets = keys, sets
        return self._finish(items, bound, find, keys, source)

    def _hidden(self, tables: Sequence[tuple[str, GroupTable]]) -> set[int]:
        """The columns of later tables that USING joins: they are shown once."""
        starts, hidden = 0, set()
        for place, (_, table) in enumerate(tables):
            if place:
                using = {name.casefold() for name in self.select.joins[place - 1].using}
                hidden |= {starts + at for at, column in enumerate(table.columns) if column.casefold() in using}
            starts += len(table.columns)
        return hidden

    def _on(
        self, join: TableJoin, before: Sequence[tuple[str, GroupTable]], joined: tuple[str, GroupTable], find: Find
    ) -> Expression | None:
        if join.using:
            pairs = []
            start = sum(len(table.columns) for _, table in before)
            earlier = [column for _, table in before for column in table.columns]
            for name in join.using:
                left, right = _find_name(name, earlier), _find_name(name, joined[1].columns)
                if left is None or right is None:
                    raise ParameterError("{name} of USING must be a column of both tables", name=name)
                pairs.append(Operation("=", (Slot(left), Slot(start + right))))
            return pairs[0] if len(pairs) == 1 else Operation("AND", tuple(pairs))
        return None if join.condition is None else self._bind(join.condition, find)


class GroupNames:
    """The columns of joined tables of groups, by table; some are shown once only."""

    def __init__(self, tables: Sequence[tuple[str, GroupTable]], hidden: set[int]) -> None:
        self.names = [(alias, column) for alias, table in tables for column in table.columns]
        self.tables, self.hidden = [alias for alias, _ in tables], hidden
        self.shown = [pair for place, pair in enumerate(self.names) if place not in hidden]

    def find(self, name: Name) -> int | None:
        """The place of a column; None if there is none."""
        wanted, table = name.name.casefold(), name.table.casefold()
        if table and table not in {alias.casefold() for alias in self.tables}:
            known = list_some(self.tables, 10)
            raise ParameterError("there is no table {name}; ask FROM {known}", name=name.table, known=known)
        found = [
            place
            for place, (alias, column) in enumerate(self.names)
            if column.casefold() == wanted and (alias.casefold() == table if table else place not in self.hidden)
        ]
        if len({self.names[place][0] for place in found}) > 1:
            raise ParameterError("{name} stands in several tables; write table.{name}", name=name.name)
        return found[0] if found else None


def _adds_up(expression: Expression) -> bool:
    """Tell whether an expression adds records up (outside of windows, or inside of one)."""
    return any(is_aggregate(node) for node in walk(expression)) or _has_grouping(expression)


def _has_grouping(expression: Expression) -> bool:
    return any(isinstance(node, Call) and node.name == "GROUPING" for node in walk(expression))


def _has_window(expression: Expression) -> bool:
    return any(isinstance(node, Call) and node.window is not None for node in walk(expression))


def _refuse_aggregates(expression: Expression, where: str) -> None:
    for node in walk(expression):
        if is_aggregate(node) or (isinstance(node, Call) and node.window is not None):
            raise refuse(text("{name} in {where}", name=f"{getattr(node, 'name', '')}()", where=where))


def _expand(items: Sequence[SelectItem], columns: Sequence[str], tables: Sequence[str]) -> list[SelectItem]:
    found = []
    for item in items:
        if isinstance(item.expression, Star):
            if item.expression.table and item.expression.table.casefold() not in {name.casefold() for name in tables}:
                raise ParameterError(
                    "there is no table {name}; ask FROM {known}", name=item.expression.table, known=tables[0]
                )
            found += _list_columns(item.expression, [("", column) for column in columns])
        else:
            found.append(item)
    return found


def _list_columns(star: Star, names: Sequence[tuple[str, str]]) -> list[SelectItem]:
    """The columns that a star stands for: without those it leaves out, and with others in the place of some."""
    left_out = {name.casefold() for name in star.excluded}
    placed = {name.casefold(): expression for name, expression in star.replaced}
    known = {column.casefold() for _, column in names}
    for name in (*star.excluded, *(name for name, _ in star.replaced)):
        if name.casefold() not in known:
            raise refuse_column(name, [column for _, column in names], None)
    return [
        SelectItem(placed.get(column.casefold(), Name(column, table)), "" if table else column, column)
        for table, column in names
        if column.casefold() not in left_out
    ]


def _expand_groups(items: Sequence[SelectItem], names: Sequence[tuple[str, str]]) -> list[SelectItem]:
    found = []
    for item in items:
        if isinstance(item.expression, Star):
            wanted = item.expression.table.casefold()
            shown = [(alias, column) for alias, column in names if not wanted or alias.casefold() == wanted]
            found += _list_columns(item.expression, shown)
        else:
            found.append(item)
    return found


def _name_item(item: SelectItem) -> str:
    """The name of a column: its alias, the column itself, count, sum_age, or the expression as it is written."""
    node = item.expression
    if item.alias:
        return item.alias
    if isinstance(node, Name):
        return node.name
    if (
        isinstance(node, Call)
        and is_aggregate(node)
        and node.condition is None
        and not node.distinct
        and not node.order
    ):
        if not node.arguments or isinstance(node.arguments[0], Star):
            return node.name.lower()
        if len(node.arguments) == 1 and isinstance(node.arguments[0], Name):
            return f"{node.name.lower()}_{node.arguments[0].name}"
    return item.written
