"""Statements whose parts are known: read and planned once, then asked with other conditions and other values.

A statement is taken apart into its conditions (what AND joins in WHERE) and the rest. Parts have one shape if they
differ in nothing but the texts and numbers written in them. A statement of a known rest whose conditions all have known
shapes is put together from them, without being read again. What depends on values (where bins are cut, and whether one
can be asked for at all) is worked out anew each time, by the same functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, cast

from sudare.asking.axes import Axes, kept_conditions
from sudare.asking.evaluate import attributes_of, demand
from sudare.asking.expressions import read_number
from sudare.asking.functionals import find_boxes
from sudare.asking.grouped import GroupedRecords
from sudare.asking.parser import ParsedStatement
from sudare.asking.protocol import Answerer
from sudare.asking.slots import GroupTable
from sudare.asking.syntax import Expression, Literal, Operation, Query, Select, TableName, fold_width, rebuild
from sudare.schema import Schema
from sudare.schema.arrays import Booleans

MOST_SHAPES = 512  # that are kept
MOST_CONDITIONS = 4096  # with their values, of one template
LONGEST = 4_000  # characters of a statement whose parts are kept
_NUMBER, _STRING, _WHERE = "\0", "\1", "\2"  # what shapes have in the place of values and of all conditions
# values, words and parentheses, and what else these may stand in: as `syntax` cuts a statement into tokens
_PIECES = re.compile(
    r"""(?P<word>[^\W\d]\w*)
      |(?P<string>'[^']*(?:''[^']*)*')
      |(?P<number>(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?(?![\w.]))
      |(?P<sign>[();])
      |--[^\n]*|/\*(?:(?!\*/|/\*).)*\*/|"(?:[^"]|"")[^"]*(?:""[^"]*)*" """,
    re.VERBOSE | re.DOTALL,
)
_AFTER_WHERE = frozenset(["GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH"])
_WHOLE = frozenset(["OR", "CASE"])  # where one stands outside of parentheses, WHERE is one condition

SourceKey = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StatementPart:
    """A part of a statement without its values; these as they are written, and where."""

    shape: str
    written: tuple[str, ...]
    starts: tuple[int, ...]


class _Scan:
    """Walks over a statement: finds its values, and where its conditions begin and end."""

    def __init__(self, statement: str) -> None:
        self.statement = statement
        self.values: list[tuple[int, int]] = []
        self.ends: list[tuple[int, int]] = []  # of conditions: where each stops, and where the next begins
        self.where = self.stop = -1
        self.is_split, self.is_foreign = True, False
        self.depth, self.selects, self.is_between = 0, 0, False
        for match in _PIECES.finditer(statement):
            kind = match.lastgroup
            if kind == "string" or kind == "number":
                self.values.append(match.span())
            elif kind == "word":
                self._word(match.group().upper(), match)
            elif kind == "sign":
                self._sign(match.group(), match.start())

    def _sign(self, sign: str, start: int) -> None:
        if sign == ";":
            self._close(start)
        else:
            self.depth += 1 if sign == "(" else -1
            self.is_foreign |= self.depth < 0

    def _close(self, start: int) -> None:
        if self.where >= 0 and self.stop < 0 and self.depth == 0:
            self.stop = start

    def _word(self, word: str, match: re.Match[str]) -> None:
        if word == "SELECT":
            self.selects += 1
        elif self.depth:
            return
        elif word == "WHERE":
            self.is_foreign |= self.where >= 0
            self.where = match.end()
        elif self.where < 0 or self.stop >= 0:
            return
        elif word == "AND" and not self.is_between:
            self.ends.append(match.span())
        elif word in ("AND", "BETWEEN"):
            self.is_between = word == "BETWEEN"
        elif word in _AFTER_WHERE:
            self._close(match.start())
        elif word in _WHOLE:
            self.is_split = False

    def part(self, start: int, stop: int) -> StatementPart:
        """What stands between two places; values are taken out."""
        return self._cut([(start, stop)], "")

    def rest(self) -> StatementPart:
        """What stands around the conditions."""
        if self.where < 0:
            return self.part(0, len(self.statement))
        return self._cut([(0, self.where), (self.stop, len(self.statement))], _WHERE)

    def _cut(self, ranges: Sequence[tuple[int, int]], between: str) -> StatementPart:
        shapes, written, starts = [], [], []
        for start, stop in ranges:
            pieces, end = [], start
            for low, high in self.values:
                if start <= low < stop:
                    pieces += [self.statement[end:low], _STRING if self.statement[low] == "'" else _NUMBER]
                    written.append(self.statement[low:high])
                    starts.append(low)
                    end = high
            pieces.append(self.statement[end:stop])
            shapes.append("".join(pieces))
        return StatementPart(between.join(shapes).strip(), tuple(written), tuple(starts))


def take_apart(statement: str) -> tuple[StatementPart, list[StatementPart]] | None:
    """The rest and the conditions of a statement; None if it is long, or more than one SELECT.

    >>> rest, conditions = take_apart("SELECT COUNT(*) FROM view WHERE c1 BETWEEN 2 AND 3 AND b = 'it''s'")
    >>> [condition.written for condition in conditions]
    [('2', '3'), ("'it''s'",)]
    """
    if len(statement) > LONGEST or any(mark in statement for mark in (_NUMBER, _STRING, _WHERE)):
        return None
    scan = _Scan(fold_width(statement))
    if scan.selects != 1 or scan.is_foreign or scan.depth:
        return None
    if scan.where < 0:
        return scan.rest(), []
    if scan.stop < 0:
        scan.stop = len(statement)
    ends = scan.ends if scan.is_split else []
    starts = [scan.where, *(after for _, after in ends)]
    stops = [*(before for before, _ in ends), scan.stop]
    return scan.rest(), [scan.part(start, stop) for start, stop in zip(starts, stops, strict=True)]


# --- what is kept -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ConditionTemplate:
    """A condition whose names are found. `free` are its values that may differ: place, literal, minus before it."""

    condition: Expression
    free: tuple[tuple[int, Literal, bool], ...]

    def put(self, written: Sequence[str]) -> Expression:
        """The condition with other values."""
        if not self.free:
            return self.condition
        values = {id(literal): _read(written[place], is_turned) for place, literal, is_turned in self.free}

        def put(node: Expression) -> Expression:
            return values.get(id(node), node) if type(node) is Literal else rebuild(node, put)

        return put(self.condition)


def _read(written: str, is_turned: bool) -> Literal:
    if written[0] == "'":
        return Literal("text", written[1:-1].replace("''", "'"))
    number = read_number(written)
    if not is_turned or not isinstance(number.value, Fraction):
        return number
    return Literal(number.kind, -number.value)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedCondition:
    """A condition with its values, and the attributes it is on."""

    condition: Expression
    attributes: tuple[int, ...]

    def find_mask(self, axes: Axes, attribute: int) -> Booleans | None:
        """Where it is true, in a statement that asks nothing else of its attribute; None: nowhere."""
        key = (self, axes.answerer.cells(attribute))
        known = kept_conditions.get(key)
        if known is not None:
            points, mask, weight = known
            axes.take(attribute, points, mask, weight)
            return cast(Booleans, mask)
        demand(self.condition, axes)
        boxes = find_boxes(self.condition, axes)
        if not boxes:
            return None
        found, points = boxes[0][attribute], axes.points(attribute)
        kept_conditions.put(key, (points, found, axes.weigh(attribute, found)), 5 * points.size)
        return found


class ConditionPool:
    """Conditions that were met in statements over one table; those with no names of their own share one."""

    def __init__(self) -> None:
        self.fixed: dict[str, tuple[int, ...]] = {}  # shape of a condition -> values that must be the same
        self.conditions: dict[tuple[str, tuple[str, ...]], ConditionTemplate] = {}
        self.made: dict[tuple[str, tuple[str, ...]], PlacedCondition] = {}

    def find(self, part: StatementPart) -> ConditionTemplate | None:
        """The condition of this shape and with these fixed values, if it was met."""
        fixed = self.fixed.get(part.shape)
        if fixed is None:
            return None
        return self.conditions.get((part.shape, tuple([part.written[place] for place in fixed])))

    def put(self, part: StatementPart) -> PlacedCondition | None:
        """The condition with these values, if one of its shape was met; those of earlier statements are kept."""
        made = self.made.get((part.shape, part.written))
        if made is None:
            condition = self.find(part)
            if condition is None:
                return None
            placed = condition.put(part.written)
            made = PlacedCondition(placed, attributes_of(placed))
            if len(self.made) >= MOST_CONDITIONS:
                self.made.clear()
            self.made[part.shape, part.written] = made
        return made

    def keep(self, part: StatementPart, condition: Expression, parsed: ParsedStatement, outside: Set[int]) -> None:
        """Keep a condition for others of its shape; `outside` are literals that stand elsewhere in its statement."""
        inside = set(_find_literals(condition)) - outside
        known = [parsed.literals.get(start) for start in part.starts]
        free = tuple(
            (place, *found) for place, found in enumerate(known) if found is not None and id(found[0]) in inside
        )
        fixed = tuple(sorted(set(range(len(known))) - {place for place, _, _ in free}))
        if len(self.conditions) >= MOST_SHAPES:
            self.conditions.clear()
            self.fixed.clear()
            self.made.clear()
        self.fixed[part.shape] = fixed
        written = tuple(part.written[place] for place in fixed)
        self.conditions[part.shape, written] = ConditionTemplate(condition, free)


class StatementTemplate:
    """The plan of statements of one rest, without its records, and the conditions that were met in them."""

    def __init__(self, table: GroupTable, name: str, schemas: tuple[Schema, ...], pool: ConditionPool) -> None:
        source: GroupedRecords = table.source
        self.table, self.name, self.pool = replace(table, source=None), name, pool
        self.keys, self.sets = source.keys, source.sets
        self.aggregates, self.groupings = source.aggregates, source.groupings
        self.schemas = schemas  # kept, so that their identities stay their own
        parts = (*source.keys, *source.aggregates)
        self.attributes = frozenset([place for part in parts for place in attributes_of(part)])  # outside of WHERE

    def find_literals(self) -> set[int]:
        """The identities of all literals that stand in it."""
        table = self.table
        return set(_find_literals([
            table.items, table.having, table.qualify, table.windows, table.order, self.keys, self.aggregates,
        ]))  # fmt: skip

    def plan(self, conditions: Sequence[PlacedCondition], axes: Axes) -> GroupTable:
        """The plan of a statement with these conditions."""
        uses = Counter([place for one in conditions for place in one.attributes])
        alone: dict[int, Booleans | None] = {}
        rest: list[Expression] = []
        for one in conditions:
            place = one.attributes[0] if len(one.attributes) == 1 else None
            if place is None or uses[place] > 1 or place in self.attributes:
                rest.append(one.condition)
            else:
                alone[place] = one.find_mask(axes, place)
        where = () if not rest else (rest[0] if len(rest) == 1 else Operation("AND", (*rest,)),)
        source = GroupedRecords(axes, where, self.keys, self.sets, self.aggregates, self.groupings, alone)
        source.demand_where()
        source.demand_keys()
        source.demand_aggregates()
        table = copy(self.table)
        table.source = source
        return table


_templates: dict[tuple[str, tuple[str, ...], SourceKey], StatementTemplate] = {}
_pools: dict[tuple[str, str, SourceKey], ConditionPool] = {}


def plan_prepared(statement: str, releases: Mapping[str, Answerer], axes: Mapping[str, Axes]) -> GroupTable | None:
    """The plan of a statement whose parts are all known; None if one is not."""
    parts = take_apart(statement)
    if parts is None:
        return None
    rest, conditions = parts
    template = _templates.get((rest.shape, rest.written, _identify(releases)))
    if template is None:
        return None
    put = [template.pool.put(condition) for condition in conditions]
    known = [condition for condition in put if condition is not None]
    return template.plan(known, axes[template.name]) if len(known) == len(put) else None


def _identify(releases: Mapping[str, Answerer]) -> SourceKey:
    return tuple((name, id(answerer.schema)) for name, answerer in releases.items())


def keep_prepared(statement: str, parsed: ParsedStatement, table: GroupTable, releases: Mapping[str, Answerer]) -> None:
    """Keep the parts of a statement for others, if it is one over the records of one release."""
    parts, source = take_apart(statement), table.source
    if parts is None or not isinstance(source, GroupedRecords) or table.scalars or len(source.where) > 1:
        return
    rest, conditions = parts
    terms: Sequence[Expression] = source.where
    if len(conditions) > 1 and isinstance(source.where[0], Operation) and source.where[0].sign == "AND":
        terms = source.where[0].operands
    name = next((name for name, answerer in releases.items() if answerer is source.axes.answerer), None)
    if name is None or len(terms) != len(conditions):
        return
    if len(_templates) >= MOST_SHAPES:
        _templates.clear()
        _pools.clear()
    schemas, sources = tuple(answerer.schema for answerer in releases.values()), _identify(releases)
    template = StatementTemplate(table, name.casefold(), schemas, _find_pool(parsed.query, sources))
    template = _templates.setdefault((rest.shape, rest.written, sources), template)
    unknown = [(part, term) for part, term in zip(conditions, terms, strict=True) if template.pool.find(part) is None]
    outside = template.find_literals() | set(_find_literals(table.items)) if unknown else set()
    for part, term in unknown:
        template.pool.keep(part, term, parsed, outside)


def _find_pool(query: Query, sources: SourceKey) -> ConditionPool:
    """Where the conditions of a statement are kept: one that gives names to columns has a pool to itself."""
    select = query.selects[0]
    if not isinstance(select, Select) or not isinstance(select.table, TableName) or select.joins or query.named:
        return ConditionPool()
    if any(item.alias for item in select.items):
        return ConditionPool()
    return _pools.setdefault((select.table.name, select.table.alias, sources), ConditionPool())


def _find_literals(part: Any) -> Iterable[int]:
    """The identities of all literals inside some nodes."""
    if isinstance(part, Literal):
        yield id(part)
    elif isinstance(part, list | tuple):
        for inner in part:
            yield from _find_literals(inner)
    elif is_dataclass(part):
        for column in fields(part):
            yield from _find_literals(getattr(part, column.name))
