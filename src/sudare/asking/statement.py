"""Ask a release one statement of SQL: plan it, work out its groups, and give every number its interval."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

from sudare.asking import quantities
from sudare.asking.answers import LEVEL, AnswerCell, AnswerTable, Estimate
from sudare.asking.axes import Axes
from sudare.asking.conditions import check_level
from sudare.asking.grouped import MOST_ROWS, GroupedRecords
from sudare.asking.parser import parse_statement
from sudare.asking.plan import Planner
from sudare.asking.prepared import keep_prepared, plan_prepared
from sudare.asking.protocol import Answerer, has_model, note_caps, note_independence
from sudare.asking.quantities import Quantity
from sudare.asking.rows import (
    NULL_CELL,
    Cell,
    Decisions,
    GroupRow,
    compute,
    compute_window,
    find_ends,
    holds,
    is_null_cell,
    number_cell,
    pick_rows,
    rank_by_published,
    same_value,
    sort_rows,
    sort_value,
    to_quantity,
)
from sudare.asking.slots import GroupTable, JoinedGroups
from sudare.asking.syntax import Call, Cast, Literal, Query, Star, refuse
from sudare.errors import ParameterError
from sudare.text import Text, text

MOST_PAIRS = 250_000  # of rows that a join of groups looks at
MOST_EARLY = 2  # estimated numbers inside conditions on records; the answer is worked out for both ends of each


def ask_statement(statement: str, releases: Mapping[str, Answerer], *, level: float = LEVEL) -> AnswerTable:
    """Answer one SELECT; every number has an interval, or the reason why it has none."""
    check_level(level)
    first = Session(releases, level)
    known = plan_prepared(statement, releases, first.axes)
    if known is not None:
        return first.show(known)
    parsed = parse_statement(statement)
    query = parsed.query
    table = first.plan(query)
    if not first.early:
        keep_prepared(statement, parsed, table, releases)
    answer = first.show(table)
    if not first.early:
        return answer
    if len(first.early) > MOST_EARLY:
        reason = text("a condition depends on several estimated numbers")
        return _without_intervals(answer, reason)
    choices = [(found.low, found.high) for found in first.early]
    others = [Session(releases, level, given=chosen).answer(query) for chosen in itertools.product(*choices)]
    return _envelope(answer, others)


class Session:
    """One run of one statement. `given` are the values to be taken for estimated numbers inside conditions."""

    def __init__(self, releases: Mapping[str, Answerer], level: float, given: Sequence[float] = ()) -> None:
        self.releases, self.level = releases, level
        made = {id(answerer): Axes(answerer) for answerer in releases.values()}  # one release may have two names
        self.axes = {name.casefold(): made[id(answerer)] for name, answerer in releases.items()}
        self.given, self.early = list(given), list[Estimate]()
        self.decisions = Decisions(level)
        self.spares: dict[
            int, list[GroupRow] | None
        ] = {}  # of tables: rows that conditions may pick too; None: unknown
        self.notes: list[Text] = []

    def answer(self, query: Query) -> AnswerTable:
        """The answer as a table."""
        return self.show(self.plan(query))

    def plan(self, query: Query) -> GroupTable:
        """What is to be worked out."""
        table = Planner(self.axes, self.run_early).query(query, {})
        if not isinstance(table, GroupTable):
            raise refuse(
                text("a list of records"),
                text("a release has no single records; use COUNT, SUM, AVG with GROUP BY, or `sudare sample`"),
            )
        return table

    def show(self, table: GroupTable) -> AnswerTable:
        """Work out the rows of a plan, with their intervals."""
        rows = self.run(table)
        if len(rows) > MOST_ROWS:
            raise ParameterError(
                "the answer would have more than {most} rows; group by fewer attributes", most=MOST_ROWS
            )
        numbers = [cell for row in rows for cell in row.cells if isinstance(cell, Quantity) and len(cell.parts) > 1]
        quantities.look_up_quantities(numbers, self.level)
        shown = tuple(tuple(self._show(cell) for cell in row.cells) for row in rows)
        self.note_suppositions()
        if self.decisions.were_made:
            self.notes.append(
                text("which rows are shown, and in which order, follows the estimates; the true order may differ")
            )
        is_modelled = any(has_model(axes.answerer) for axes in self.axes.values())
        notes = tuple(dict.fromkeys(self.notes))
        return AnswerTable(tuple(table.columns), shown, self.level, notes, has_model=is_modelled)

    def note_suppositions(self) -> None:
        """Say which attributes were supposed to be independent, and of which rows of a person numbers are."""
        known = {id(axes): (name, axes) for name, axes in self.axes.items()}  # by their last name
        for _, axes in known.values():
            note = note_independence(axes.answerer, axes.asked) if axes.asked else None
            self.notes += [] if note is None else [note]
        self.notes += note_caps({name: axes.answerer for name, axes in known.values() if axes.asked or len(known) == 1})

    def _show(self, cell: Cell) -> AnswerCell:
        if isinstance(cell, Quantity):
            if cell.is_exact:
                return int(cell.value) if float(cell.value).is_integer() else cell.value
            return quantities.estimate(cell, self.level)
        if bool(cell.null):
            return None
        value = cell.data.item()
        if cell.kind == "date":
            return date.fromordinal(int(value))
        if cell.kind == "text" or cell.kind == "bool":
            return value  # type: ignore[no-any-return]
        return int(value) if float(value).is_integer() else float(value)

    # --- queries whose result is a constant --------------------

    def run_early(self, query: Query, named: Mapping[str, Query], is_list: bool) -> list[Literal]:
        """Run a query inside a condition on records: its labels, or its one number, become constants."""
        inner = Session(self.releases, self.level)
        table = Planner(inner.axes, inner.run_early).query(query, named)
        if not isinstance(table, GroupTable) or len(table.columns) != 1:
            raise refuse("(SELECT ...)", text("it must give one column of groups, or one number"))
        rows = inner.run(table)
        inner.note_suppositions()
        self.notes += inner.notes
        self.decisions.were_made |= inner.decisions.were_made
        if not is_list and len(rows) != 1:
            raise refuse("(SELECT ...)", text("it must give one column of groups, or one number"))
        return [self._constant(row.cells[0]) for row in rows if not (is_list and is_null_cell(row.cells[0]))]

    def _constant(self, cell: Cell) -> Any:
        if isinstance(cell, Quantity):
            found = quantities.estimate(cell, self.level)
            if not found.has_interval:
                self.early += [found] * (MOST_EARLY + 1)
            else:
                self.early.append(found)
            value = self.given.pop(0) if self.given else found.value
            value = float(f"{value:.12g}")  # the mean of fives is 5, and not 5 less the rounding of floats
            if cell.is_day:
                return Cast(Literal("text", date.fromordinal(round(value)).isoformat()), "date")
            return Literal("number", Fraction(value))
        if bool(cell.null):
            return Literal("null", None)
        value = cell.data.item()
        if cell.kind == "date":
            return Cast(Literal("text", date.fromordinal(int(value)).isoformat()), "date")
        if cell.is_number:
            return Literal(cell.kind, Fraction(value))
        return Literal(cell.kind, value)

    # --- rows --------------------

    def run(self, table: GroupTable) -> list[GroupRow]:
        """The rows of a table of groups."""
        source = table.source
        if isinstance(source, list):
            rows = self._united(source, table.unions)
            self.spares[id(table)] = self._gather_spares(source)
            keys = [[compute(how.key, row.cells, self.decisions) for how in table.order] for row in rows]
            return self._cut(table, rows, keys)
        spare: list[GroupRow] | None = []
        if isinstance(source, GroupedRecords):
            rows = source.rows(self.level)
        else:
            rows, spare = self._joined(source)
        if table.scalars:
            values = [self._scalar(scalar) for scalar in table.scalars]
            rows, spare = ([row.extended(values) for row in some] for some in (rows, spare or ()))
        if table.having is not None:
            rows, spare = self._pick(table.having, rows, spare)
        rows = self._with_windows(table, rows)
        spare = None if table.windows and spare else spare  # windows are over the rows that were picked
        if table.qualify is not None:
            rows, spare = self._pick(table.qualify, rows, spare)
        keys = [[compute(how.key, row.cells, self.decisions) for how in table.order] for row in rows]
        shown = [self._show_row(table, row) for row in rows]
        is_cut = table.limit is not None or table.offset > 0
        self.spares[id(table)] = None if spare is None or (is_cut and spare) else [
            self._show_row(table, row) for row in spare
        ]  # fmt: skip
        if table.distinct:
            shown, keys = _without_repeats(shown, keys)
        return self._cut(table, shown, keys)

    def _show_row(self, table: GroupTable, row: GroupRow) -> GroupRow:
        cells = tuple([compute(item, row.cells, self.decisions) for item in table.items])
        return GroupRow(cells, row.is_sure, row.is_likely, row.is_doubtful)

    def _pick(
        self, condition: Any, rows: list[GroupRow], spare: list[GroupRow] | None
    ) -> tuple[list[GroupRow], list[GroupRow] | None]:
        """The rows for which a condition is true, and those that may be among them; None: these are not known."""
        picked, others = pick_rows(condition, rows, spare or (), self.decisions)
        return picked, None if spare is None else others

    def _cut(self, table: GroupTable, rows: list[GroupRow], keys: list[list[Cell]]) -> list[GroupRow]:
        stop = None if table.limit is None else table.offset + table.limit
        if table.order:
            rows = [rows[place] for place in self._order(table, rows, keys, stop)]
        shown = rows[table.offset : stop]
        if self.decisions.were_made and len(shown) < len(rows):
            self.notes.append(
                text(
                    "{shown} of {rows} rows were picked by their estimates: every interval is made for a row by "
                    "itself, and holds the truth less often for rows picked so",
                    shown=len(shown),
                    rows=len(rows),
                )
            )
        return shown

    def _order(self, table: GroupTable, rows: list[GroupRow], keys: list[list[Cell]], stop: int | None) -> list[int]:
        """The places of rows in their order; some of the largest, by the published counts where noise would lead."""
        places = sort_rows(rows, keys, table.order, self.decisions)
        other = None
        if stop is not None and stop < len(rows):
            other = rank_by_published(keys, table.order, places[table.offset : stop], self.level)
        if other is None:
            return places
        self.notes.append(
            text(
                "some of the largest numbers may be 0, so rows are picked and ordered by the published counts, which"
                " are nearer to the truth there; the numbers shown are the unbiased ones"
            )
        )
        return sort_rows(rows, *other, self.decisions)

    def _united(self, tables: Sequence[GroupTable], unions: Sequence[bool]) -> list[GroupRow]:
        rows = self.run(tables[0])
        for table, keeps_all in zip(tables[1:], unions, strict=False):
            rows = [*rows, *self.run(table)]
            if not keeps_all:
                rows, _ = _without_repeats(rows, [[] for _ in rows])
        return rows

    def _gather_spares(self, tables: Sequence[GroupTable]) -> list[GroupRow] | None:
        spares = [self.spares[id(table)] for table in tables]
        return None if None in spares else [row for spare in spares for row in spare or ()]

    def _scalar(self, table: GroupTable) -> Cell:
        rows = self.run(table)
        if len(rows) > 1:
            raise refuse("(SELECT ...)", text("it must give one column of groups, or one number"))
        return rows[0].cells[0] if rows else NULL_CELL

    def _with_windows(self, table: GroupTable, rows: list[GroupRow]) -> list[GroupRow]:
        for window in table.windows:
            cells = compute_window(window, rows, self._aggregate, self.decisions)
            rows = [row.extended([cell]) for row, cell in zip(rows, cells, strict=True)]
        return rows

    # --- groups of groups --------------------

    def _joined(self, source: JoinedGroups) -> tuple[list[GroupRow], list[GroupRow] | None]:
        """The rows of a join, and those that the true numbers may add."""
        rows = self.run(source.tables[0][1])
        for (_, table), (kind, condition) in zip(source.tables[1:], source.joins, strict=True):
            rows = self._join(rows, self.run(table), len(table.columns), kind, condition)
        spare = self._gather_spares([table for _, table in source.tables])
        spare = None if spare and source.joins else spare  # nobody looked at what these would be joined to
        if source.where is not None:
            rows, spare = self._pick(source.where, rows, spare)
        if not source.is_aggregated:
            return rows, spare
        return [row for keys in source.sets for row in self._grouped(source, keys, rows, spare)], []

    def _join(
        self, left: list[GroupRow], right: list[GroupRow], width: int, kind: str, condition: Any
    ) -> list[GroupRow]:
        if len(left) * len(right) > MOST_PAIRS:
            raise refuse(text("a join of so many groups"))
        found = []
        for row in left:
            pairs = [
                GroupRow((*row.cells, *other.cells), row.is_sure and other.is_sure, row.is_likely and other.is_likely)
                for other in right
            ]
            pairs = [pair for pair in pairs if condition is None or holds(condition, pair.cells, self.decisions)]
            if not pairs and kind == "left":
                pairs = [row.extended([NULL_CELL] * width)]
            found += pairs
        return found

    def _grouped(
        self, source: JoinedGroups, keys: tuple[int, ...], rows: list[GroupRow], spare: list[GroupRow] | None
    ) -> list[GroupRow]:
        groups: dict[Any, list[GroupRow]] = {} if keys else {(): []}
        spares: dict[Any, list[GroupRow]] = {}
        labels: dict[Any, list[Cell]] = {(): []}
        for place, row in enumerate([*rows, *(spare or ())]):
            cells = [compute(source.keys[key], row.cells, self.decisions) for key in keys]
            mark = tuple(same_value(cell) for cell in cells)
            (groups if place < len(rows) else spares).setdefault(mark, []).append(row)
            labels.setdefault(mark, cells)
        found = []
        for mark, members in groups.items():
            given = dict(zip(keys, labels[mark], strict=True))
            key_cells = [given.get(key, NULL_CELL) for key in range(len(source.keys))]
            others = None if spare is None else spares.get(mark, [])
            values = [self._aggregate_picked(call, members, others) for call in source.aggregates]
            is_sure, is_likely = any(row.is_sure for row in members), any(row.is_likely for row in members)
            found.append(GroupRow((*key_cells, *values), is_sure or not keys, is_likely or not keys))
        return found

    def _aggregate_picked(self, call: Call, rows: list[GroupRow], spare: list[GroupRow] | None) -> Cell:
        """Add up the cells of rows that conditions picked: from what is surely among them to all that may be.

        A count, a sum of what is not below 0, the largest and the least go one way with every further row.
        """
        if call.condition is not None:
            rows, spare = self._pick(call.condition, rows, spare)
            call = replace(call, condition=None)
        found = self._aggregate(call, rows)
        sure = [row for row in rows if not row.is_doubtful]
        if (len(sure) == len(rows) and spare == []) or is_null_cell(found):
            return found
        every = [*rows, *(spare or ())]
        is_monotone = call.name in ("COUNT", "MIN", "MAX") or (call.name == "SUM" and self._is_positive(call, every))
        bounds = [self._aggregate(call, some) for some in (sure, every)]
        if spare is not None and is_monotone and not any(is_null_cell(bound) for bound in bounds):
            lows, highs = zip(*(find_ends(bound, self.level) for bound in bounds), strict=True)
            if math.isfinite(min(lows)) and math.isfinite(max(highs)):
                is_day = isinstance(found, Quantity) and found.is_day
                return Quantity(value=to_quantity(found).value, fixed=(min(lows), max(highs)), is_day=is_day)
        return Quantity(
            value=to_quantity(found).value, reason=text("which groups are added up follows their estimates")
        )

    def _is_positive(self, call: Call, rows: Sequence[GroupRow]) -> bool:
        cells = [compute(call.arguments[0], row.cells, self.decisions) for row in rows]
        return all(is_null_cell(cell) or to_quantity(cell).least >= 0 for cell in cells)

    def _aggregate(self, call: Call, rows: Sequence[GroupRow]) -> Cell:
        """Add up the cells of rows of groups."""
        if call.condition is not None:
            rows = [row for row in rows if holds(call.condition, row.cells, self.decisions)]
        if call.order or (call.distinct and call.name != "COUNT"):
            raise refuse(text("{name} over groups", name=f"{call.name}()"))
        if not call.arguments or isinstance(call.arguments[0], Star):
            if call.name != "COUNT":
                raise refuse(f"{call.name}(*)")
            return _count_rows(rows)
        cells = [compute(call.arguments[0], row.cells, self.decisions) for row in rows]
        known = [(row, cell) for row, cell in zip(rows, cells, strict=True) if not is_null_cell(cell)]
        if call.name == "COUNT":
            return _count_distinct(known) if call.distinct else _count_rows([row for row, _ in known])
        if not known:
            return NULL_CELL
        return self._add_up(call.name, [cell for _, cell in known])

    def _add_up(self, name: str, cells: Sequence[Cell]) -> Cell:
        if name in ("SUM", "AVG", "MEAN"):
            summed = to_quantity(cells[0])
            for cell in cells[1:]:
                summed = quantities.add(summed, to_quantity(cell))
            return summed if name == "SUM" else quantities.scale(summed, 1.0 / len(cells))
        if name in ("MIN", "MAX"):
            return self._extreme(name, cells)
        raise refuse(text("{name} over groups", name=f"{name}()"))

    def _extreme(self, name: str, cells: Sequence[Cell]) -> Cell:
        """The largest or least of estimates: true for all of them at once, so each is taken at a higher level."""
        pick = max if name == "MAX" else min
        if not any(isinstance(cell, Quantity) for cell in cells):
            return pick(cells, key=sort_value)
        level = 1.0 - (1.0 - self.level) / len(cells)
        found = [quantities.estimate(to_quantity(cell), level) for cell in cells]
        value = pick(estimate.value for estimate in found)
        reasons = [estimate.reason for estimate in found if estimate.reason is not None]
        if reasons:
            return Quantity(value=value, reason=reasons[0])
        ends = pick(estimate.low for estimate in found), pick(estimate.high for estimate in found)
        is_day, known = any(estimate.is_day for estimate in found), tuple(id(cell) for cell in cells)
        return Quantity(value=value, fixed=ends, is_day=is_day, extreme=(name, known))


def _count_rows(rows: Sequence[GroupRow]) -> Cell:
    """How many groups there are: those that surely are, that are by the estimates, and that may be."""
    if all(row.is_sure for row in rows):
        return number_cell(len(rows))
    ends = float(sum(row.is_sure for row in rows)), float(len(rows))
    return Quantity(value=float(sum(row.is_likely for row in rows)), fixed=ends)


def _count_distinct(known: Sequence[tuple[GroupRow, Cell]]) -> Cell:
    seen: dict[Any, GroupRow] = {}
    for row, cell in known:
        mark = same_value(cell)
        if mark not in seen or row.is_sure:
            seen[mark] = row
    return _count_rows(list(seen.values()))


def _without_repeats(rows: list[GroupRow], keys: list[list[Cell]]) -> tuple[list[GroupRow], list[list[Cell]]]:
    seen, kept = set(), []
    for place, row in enumerate(rows):
        mark = tuple(same_value(cell) for cell in row.cells)
        if mark not in seen:
            seen.add(mark)
            kept.append(place)
    return [rows[place] for place in kept], [keys[place] for place in kept]


# --- conditions that depend on estimated numbers --------------------


def _without_intervals(answer: AnswerTable, reason: Text) -> AnswerTable:
    rows = tuple(tuple(_strip(cell, reason) for cell in row) for row in answer.rows)
    return replace(answer, rows=rows)


def _strip(cell: AnswerCell, reason: Text) -> AnswerCell:
    return replace(cell, low=math.nan, high=math.nan, reason=reason) if isinstance(cell, Estimate) else cell


def _envelope(answer: AnswerTable, others: Sequence[AnswerTable]) -> AnswerTable:
    """Intervals that hold wherever in its interval the estimated number of a condition is."""
    reason = text("a condition depends on an estimated number, and with its ends other rows appear")
    labels = [_labels(row) for row in answer.rows]
    tables = [{_labels(row): row for row in other.rows} for other in others]
    if any(mark not in table for mark in labels for table in tables) or len(set(labels)) < len(labels):
        return _without_intervals(answer, reason)
    rows = []
    for mark, row in zip(labels, answer.rows, strict=True):
        cells = zip(row, *(table[mark] for table in tables), strict=True)
        rows.append(tuple(_widen(cell, more, reason) for cell, *more in cells))
    note = text("the intervals hold for both ends of the estimated number in the condition")
    return replace(answer, rows=tuple(rows), notes=(*answer.notes, note))


def _labels(row: Sequence[AnswerCell]) -> tuple[Any, ...]:
    return tuple("estimate" if isinstance(cell, Estimate) else cell for cell in row)


def _widen(cell: AnswerCell, others: Sequence[AnswerCell], reason: Text) -> AnswerCell:
    if not isinstance(cell, Estimate):
        return cell
    found = [other for other in others if isinstance(other, Estimate)]
    if not cell.has_interval or any(not other.has_interval for other in found):
        return _strip(cell, cell.reason or reason)
    return replace(cell, low=min(cell.low, *(o.low for o in found)), high=max(cell.high, *(o.high for o in found)))
