"""From records to rows of groups: keys of GROUP BY as disjoint classes of points, and aggregates in each of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sudare.asking.aggregates import RecordGroup, aggregate, demand_aggregate, look_up_aggregates
from sudare.asking.answers import answer
from sudare.asking.axes import Axes
from sudare.asking.evaluate import PointGrid, attributes_of, demand, evaluate, is_counted
from sudare.asking.functionals import MaskBox, find_boxes, look_up, meet, split_tensor
from sudare.asking.rows import NULL_CELL, Cell, GroupRow, number_cell
from sudare.asking.syntax import AttributeColumn, Call, Expression, Operation, refuse
from sudare.asking.vectors import Vector
from sudare.errors import ParameterError
from sudare.schema import NumberBins
from sudare.schema.arrays import Booleans
from sudare.text import text

MOST_ROWS = 10_000  # of one answer
ROWS_AT_ONCE = 256  # groups whose sums are asked for together
FEW_GROUPS = 64  # of which most are hardly ever empty


@dataclass(slots=True, eq=False)
class GroupedRecords:
    """SELECT with aggregates over records: rows of keys, then aggregates, then GROUPING() of keys.

    `alone`: conditions on attributes that nothing else of the statement uses, as the points where they are true (None:
    nowhere).
    """

    axes: Axes
    where: tuple[Expression, ...]
    keys: list[Expression] = field(default_factory=list)
    sets: tuple[tuple[int, ...], ...] = ((),)
    aggregates: list[Call] = field(default_factory=list)
    groupings: list[tuple[int, ...]] = field(default_factory=list)
    alone: dict[int, Booleans | None] = field(default_factory=dict)

    def demand_where(self) -> None:
        """Note what the points of attributes must be for the conditions."""
        for condition in self.where:
            demand(condition, self.axes)
            is_joined = isinstance(condition, Operation) and condition.sign == "AND"
            for term in condition.operands if isinstance(condition, Operation) and is_joined else (condition,):
                places = attributes_of(term)
                if len(places) == 1:
                    self.axes.limits.setdefault(places[0], []).append(term)

    def demand_keys(self) -> None:
        """Note what the points of attributes must be for the keys."""
        for key in self.keys:
            if not isinstance(key, AttributeColumn):
                demand(key, self.axes, is_listed=True)

    def demand_aggregates(self) -> None:
        """Note what the points of attributes must be for the aggregates."""
        for call in self.aggregates:
            demand_aggregate(call, self.axes)

    def rows(self, level: float) -> list[GroupRow]:
        """All rows, set of keys by set of keys."""
        condition = None if not self.where else self.where[0] if len(self.where) == 1 else Operation("AND", self.where)
        boxes = find_boxes(condition, self.axes)
        if self.alone:
            known = {place: mask for place, mask in self.alone.items() if mask is not None}
            boxes = [{**known, **box} for box in boxes] if len(known) == len(self.alone) else []
        return [row for keys in self.sets for row in self._rows_of(keys, boxes, level)]

    def _rows_of(self, keys: tuple[int, ...], boxes: list[MaskBox], level: float) -> Iterator[GroupRow]:
        if not keys:
            yield self._row(keys, {}, RecordGroup(self.axes, boxes, level))
            return
        classes = [key_classes([self.keys[key] for key in part], self.axes) for part in self._parts(keys)]
        if math.prod(len(found) for found in classes) > MOST_ROWS:
            raise ParameterError(
                "the answer would have more than {most} rows; group by fewer attributes", most=MOST_ROWS
            )
        order = [key for part in self._parts(keys) for key in part]
        found = list[tuple[dict[int, Cell], RecordGroup]]()
        for chosen in itertools.product(*classes):
            inside = boxes
            for _, masks in chosen:
                inside = meet(inside, masks)
            if not inside:
                continue
            cells = dict(zip(order, (cell for labels, _ in chosen for cell in labels), strict=True))
            found.append((cells, RecordGroup(self.axes, inside, level)))
        for start in range(0, len(found), ROWS_AT_ONCE):
            yield from self._rows_together(keys, found[start : start + ROWS_AT_ONCE])

    def _rows_together(
        self, keys: tuple[int, ...], groups: Sequence[tuple[dict[int, Cell], RecordGroup]]
    ) -> Iterator[GroupRow]:
        """Rows of groups that are asked about at once; those that are surely empty are left out.

        Of few groups counts are asked for with the sums: a view works out both from one table.
        """
        every = [group for _, group in groups]
        is_few = len(groups) <= FEW_GROUPS
        if is_few:
            look_up_aggregates(self.aggregates, every, counts=True)
        else:
            look_up([group.count() for group in every])
        groups = [(cells, group) for cells, group in groups if not group.is_surely_empty()]
        if len(groups) > 1 and not is_few:
            look_up_aggregates(self.aggregates, [group for _, group in groups])
        for cells, group in groups:
            yield self._row(keys, cells, group)

    def _row(self, keys: tuple[int, ...], cells: dict[int, Cell], group: RecordGroup) -> GroupRow:
        labels = [cells.get(key, NULL_CELL) for key in range(len(self.keys))]
        values = [aggregate(call, group) for call in self.aggregates]
        measured = [NULL_CELL if value is None else value for value in values]
        marks = [number_cell(_grouping_mark(asked, keys)) for asked in self.groupings]
        found = group.count().moments if keys else None
        sure = found is None or answer(found, level=group.level).low >= 0.5
        return GroupRow((*labels, *measured, *marks), sure, found is None or found.value >= 0.5)

    def _parts(self, keys: tuple[int, ...]) -> list[list[int]]:
        """Keys that share an attribute belong together."""
        parts: list[tuple[set[int], list[int]]] = []
        for key in keys:
            used, members = set(attributes_of(self.keys[key])), [key]
            rest = []
            for other, found in parts:
                if other & used:
                    used, members = used | other, [*found, *members]
                else:
                    rest.append((other, found))
            parts = [*rest, (used, members)]
        return sorted((sorted(members) for _, members in parts))


def _grouping_mark(asked: tuple[int, ...], keys: tuple[int, ...]) -> int:
    return sum((key not in keys) << place for place, key in enumerate(reversed(asked)))


KeyClass = tuple[list[Cell], list[MaskBox]]


def key_classes(keys: Sequence[Expression], axes: Axes) -> list[KeyClass]:
    """The combinations of values that some keys take, each with the points where they do."""
    memo = ("keys", tuple(keys))
    if memo not in axes.memo:
        axes.memo[memo] = _make_classes(keys, axes)
    found: list[KeyClass] = axes.memo[memo]
    return found


def _make_classes(keys: Sequence[Expression], axes: Axes) -> list[KeyClass]:
    places = tuple(sorted({place for key in keys for place in attributes_of(key)}))
    if not places:
        return [([evaluate(key, None) for key in keys], [{}])]
    is_large = any(axes.points(place).size > MOST_ROWS for place in places)  # then only what WHERE leaves is told apart
    grid = PointGrid(axes, places, is_limited=is_large)
    numbered, labels = [], []
    for key in keys:
        numbers, cells = _number_values(key, grid)
        numbered.append(np.broadcast_to(numbers, grid.shape))
        labels.append(cells)
    joint = np.stack([numbers.reshape(-1) for numbers in numbered])
    unique, inverse = np.unique(joint, axis=1, return_inverse=True)
    if unique.shape[1] > MOST_ROWS:
        raise ParameterError("the answer would have more than {most} rows; group by fewer attributes", most=MOST_ROWS)
    classes, owner = [], inverse.reshape(grid.shape)
    for number in range(unique.shape[1]):
        cells = [labels[key][unique[key, number]] for key in range(len(keys))]
        mask = owner == number
        boxes = [{places[0]: mask}] if len(places) == 1 else _mask_boxes(mask, places)
        classes.append((cells, boxes))
    return classes


def _mask_boxes(mask: Any, places: Sequence[int]) -> list[MaskBox]:
    return [{place: weights != 0 for place, weights in box.items()} for box in split_tensor(mask.astype(float), places)]


def _number_values(key: Expression, grid: PointGrid) -> tuple[Any, list[Cell]]:
    """Number the values of a key, in order, NULL last; and the cell of every number."""
    if isinstance(key, AttributeColumn):
        return _number_codes(key.attribute, grid)
    vector = evaluate(key, grid)
    if vector.kind == "null":
        return np.zeros(vector.null.shape, dtype=np.int64), [NULL_CELL]
    data = np.broadcast_to(vector.data, np.broadcast_shapes(vector.data.shape, vector.null.shape))
    null = np.broadcast_to(vector.null, data.shape)
    values = sorted(set(data[~null].tolist()))
    if len(values) > MOST_ROWS:
        raise refuse(
            text("a key of so many values"),
            text(
                "it takes {number}, and an answer has at most {most} rows; group by ranges, as in"
                " FLOOR(x / 1000) * 1000, or by the column itself for its bins",
                number=len(values),
                most=MOST_ROWS,
            ),
        )
    index = {value: number for number, value in enumerate(values)}
    flat = [
        len(values) if missing else index[value]
        for value, missing in zip(data.reshape(-1).tolist(), null.reshape(-1).tolist(), strict=True)
    ]
    dtype: Any = object if vector.kind == "text" else None
    cells: list[Cell] = [
        Vector(vector.kind, np.array(value, dtype=dtype), np.array(False), is_constant=True) for value in values
    ]
    return np.array(flat).reshape(data.shape), [*cells, NULL_CELL]


def _number_codes(place: int, grid: PointGrid) -> tuple[Any, list[Cell]]:
    """An attribute as a key: its declared values; a bin of one number is that number, others are labels."""
    attribute, codes = grid.axes.answerer.schema.attributes[place], grid.axes.codes(place)
    shape = [-1 if place == other else 1 for other in grid.attributes]
    labels = attribute.labels(np.arange(attribute.size)).tolist()
    cells: list[Cell] = []
    numbers = _single_numbers(place, grid.axes) if is_counted(attribute) else {}
    for code, label in enumerate(labels):
        if label is None:
            cells.append(NULL_CELL)
        elif code in numbers:
            cells.append(number_cell(numbers[code]))
        else:
            data, at = np.array(label, dtype=object), np.array(code)
            cells.append(Vector("text", data, np.array(False), attribute, at, is_constant=True))
    return codes.reshape(shape), cells


def _single_numbers(place: int, axes: Axes) -> dict[int, float]:
    """The numbers of bins that hold one number each; none if a bin holds more."""
    attribute, cells = axes.answerer.schema.attributes[place], axes.answerer.cells(place)
    if cells.step is None or not isinstance(attribute.domain, NumberBins):
        return {}
    found: dict[int, float] = {}
    for cell in range(cells.counted):
        low, high = (math.ceil(edge / cells.step) for edge in cells.edges[cell : cell + 2])
        code = int(cells.codes[cell])
        if high - low != 1 or code in found or cells.step.denominator != 1:
            return {}
        found[code] = float(low * cells.step)
    return found
