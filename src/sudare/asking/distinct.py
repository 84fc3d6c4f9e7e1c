"""COUNT(DISTINCT), DISTINCT values and MODE: what values of an expression occur, and which most often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sudare.asking.answers import answer
from sudare.asking.axes import Axes
from sudare.asking.evaluate import PointGrid, attributes_of, evaluate, is_counted, linear
from sudare.asking.functionals import Functional, tensor_parts, times
from sudare.asking.quantities import Quantity
from sudare.asking.syntax import AttributeColumn, Call, Expression, refuse
from sudare.asking.vectors import Vector
from sudare.text import text

if TYPE_CHECKING:
    from sudare.asking.aggregates import RecordGroup

MOST_DISTINCT = 4096


def find_same_values(expression: Expression) -> Expression:
    """The column that has as many values as an expression: x has as many as x * 2 + 1; else the expression itself."""
    form = linear(expression)
    if form is None or form.attribute is None or form.slope == 0:
        return expression
    return AttributeColumn(form.attribute)


def classes_of(expression: Expression, axes: Axes, name: str) -> list[tuple[Any, list[Any], float]]:
    """The values of an expression: each with its boxes and how many values of the data it may stand for."""
    key = ("classes", expression)
    if key not in axes.memo:
        places = attributes_of(expression)
        if isinstance(expression, AttributeColumn) and is_counted(
            axes.answerer.schema.attributes[expression.attribute]
        ):
            axes.memo[key] = _cell_classes(expression.attribute, axes, name)
        else:
            vector = evaluate(expression, PointGrid(axes, places))
            shape = tuple(axes.points(place).size for place in places)
            data, null = np.broadcast_to(vector.data, shape), np.broadcast_to(vector.null, shape)
            values = sorted(set(data[~null].tolist()))
            if len(values) > MOST_DISTINCT:
                raise refuse(f"{name}()", text("it would have more than {most} values", most=MOST_DISTINCT))
            axes.memo[key] = [(value, tensor_parts(axes, places, (data == value) & ~null), 1.0) for value in values]
    found: list[tuple[Any, list[Any], float]] = axes.memo[key]
    return found


def _cell_classes(place: int, axes: Axes, name: str) -> list[tuple[Any, list[Any], float]]:
    cells, points = axes.answerer.cells(place), axes.points(place)
    attribute = axes.answerer.schema.attributes[place]
    if cells.step is None:
        raise refuse(
            f"{name}()", text("values of {name} lie anywhere between the edges of its bins", name=attribute.name)
        )
    found = []
    labels = attribute.labels(cells.codes)
    for cell in range(cells.counted):
        size = (cells.edges[cell + 1] - cells.edges[cell]) / cells.step
        found.append((labels[cell], [{place: (points.cells == cell) * 1.0}], max(1.0, float(math.ceil(size)))))
    return found


def count_distinct(call: Call, expression: Expression, group: RecordGroup) -> Quantity:
    """How many values occur: those that surely do, that are estimated to, and that may.

    Of a cell with several values at least one occurs where there are records, and at most as many as there are records.
    """
    if len(call.arguments) > 1:
        raise refuse(
            text("COUNT of several columns"), text("write SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM view)")
        )
    classes = classes_of(find_same_values(expression), group.axes, call.name)
    level = 1.0 - (1.0 - group.level) / max(1, len(classes))
    low = value = high = 0.0
    for _, parts, size in classes:
        boxes = times(group.boxes, parts)
        if not boxes:
            continue
        found = answer(Functional(group.axes, boxes).moments, level=level)
        values = likely = size if size == 1 else _values_within(boxes, next(iter(parts[0])), size, group.axes)
        if size > 1 and len(boxes) > 1:  # a box that is estimated to be empty brings no values
            filled = [box for box in boxes if Functional(group.axes, [box]).moments.value >= 0.5]
            likely = _values_within(filled or boxes, next(iter(parts[0])), size, group.axes)
        low += found.low >= 0.5
        high += min(values, round(found.high)) if found.high >= 0.5 else 0.0
        value += likely if found.value >= likely / 2 else min(likely, round(found.value))
    value = min(max(round(value), low), high)
    return Quantity(value=float(value), fixed=(low, high))


def _values_within(boxes: Sequence[Any], place: int, size: float, axes: Axes) -> float:
    """How many of the values of a cell lie in some boxes."""
    held = np.zeros(axes.points(place).size, dtype=bool)
    for box in boxes:
        held |= box[place] != 0
    return max(1.0, round(float(axes.points(place).shares[held].sum()) * size))


def find_mode(expression: Expression, group: RecordGroup) -> Vector | None:
    """The value that most records have by the estimates."""
    best, most = None, 0.0
    for value, parts, _ in classes_of(expression, group.axes, "MODE"):
        boxes = times(group.boxes, parts)
        count = Functional(group.axes, boxes).moments.value if boxes else 0.0
        if count > most:
            best, most = value, count
    if best is None:
        return None
    if isinstance(best, str):
        return Vector("text", np.array(best, dtype=object), np.array(False), is_constant=True)
    return Vector("number", np.array(float(best)), np.array(False), is_constant=True)
