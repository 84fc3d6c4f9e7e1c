"""Sums over the records as what a release can estimate: boxes of weights, one weight a point of each attribute.

Conditions become disjoint boxes. A linear combination of sums becomes one sum again, so that its error is worked out as
a whole: that is how ratios, shares and deviations get their intervals.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.asking.axes import Axes, AxisPoints
from sudare.asking.evaluate import PointGrid, attributes_of, evaluate
from sudare.asking.protocol import Moments, ShiftedSum, can_shift, estimate_all, estimate_shifts
from sudare.asking.syntax import AttributeColumn, Expression, Literal, Operation
from sudare.asking.vectors import as_condition
from sudare.errors import ParameterError
from sudare.schema import NumberBins
from sudare.schema.arrays import Booleans, Reals

MaskBox = dict[int, Booleans]
PointBox = Mapping[int, NDArray[Any]]  # attribute -> weights of its points

MOST_BOXES = 512
ROUNDING = 1e-12  # of a weight
RANGE_SIGNS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal}
MOST_CLASSES = 2**16  # of points of several attributes that a combination of sums tells apart


# --- conditions as disjoint boxes -------------------------------------------------------------------------------------


def find_boxes(
    condition: Expression | None, axes: Axes, *, wanted: bool = True, known: Sequence[int] | None = None
) -> list[MaskBox]:
    """The disjoint boxes of points where a condition is true (or false, which NULL is not either).

    `known` are the attributes of the condition, where that was found out before.
    """
    if condition is None:
        return [{}]
    places = attributes_of(condition) if known is None else known
    if len(places) > 1 and isinstance(condition, Operation):
        if condition.sign == "NOT":
            return find_boxes(condition.operands[0], axes, wanted=not wanted)
        if condition.sign in ("AND", "OR"):
            parts = [find_boxes(part, axes, wanted=wanted, known=found) for part, found in _gather(condition)]
            return _join_boxes(parts, all_of=(condition.sign == "AND") == wanted)
    if len(places) == 1 and wanted:
        mask = axes.mask(places[0], condition, lambda points: _find_mask(condition, axes, places, points))
        return [{places[0]: mask}] if mask.any() else []
    found = as_condition(evaluate(condition, PointGrid(axes, places)))[0 if wanted else 1]
    if not places:
        return [{}] if bool(found) else []
    mask = np.broadcast_to(found, tuple(axes.points(place).size for place in places))
    if len(places) == 1:
        return [{places[0]: mask}] if mask.any() else []
    return [{place: weights != 0 for place, weights in box.items()} for box in split_tensor(mask.astype(float), places)]


def _find_mask(condition: Expression, axes: Axes, places: Sequence[int], points: AxisPoints) -> Booleans:
    """Where a condition on one attribute is true, point by point."""
    if isinstance(axes.answerer.schema.attributes[places[0]].domain, NumberBins):
        mask = _mask_range(condition, points.values)
        if mask is not None:
            return mask
    found = as_condition(evaluate(condition, PointGrid(axes, places)))[0]
    return np.broadcast_to(found, (points.size,))


def _mask_range(condition: Expression, values: Reals) -> Booleans | None:
    """Where numbers lie in a range: as `evaluate` finds it, without the steps that a number does not need.

    NaN stands for values that are no number: no comparison is true for them.
    """
    if not isinstance(condition, Operation):
        return None
    if condition.sign == "AND":
        parts = [_mask_range(operand, values) for operand in condition.operands]
        known = [part for part in parts if part is not None]
        return np.logical_and.reduce(known) if len(known) == len(parts) else None
    compare = RANGE_SIGNS.get(condition.sign)
    if compare is None or type(condition.operands[0]) is not AttributeColumn:
        return None
    bound = condition.operands[1]
    if type(bound) is not Literal or not isinstance(bound.value, Fraction):
        return None
    found: Booleans = compare(values, float(bound.value))
    return found


def _gather(condition: Operation) -> list[tuple[Expression, Sequence[int]]]:
    """The operands with their attributes, those on one attribute joined first: they are one mask."""
    alone: dict[int, list[Expression]] = {}
    rest: list[tuple[Expression, Sequence[int]]] = []
    for operand in condition.operands:
        places = attributes_of(operand)
        if len(places) == 1:
            alone.setdefault(places[0], []).append(operand)
        else:
            rest.append((operand, places))
    return [
        *((terms[0] if len(terms) == 1 else Operation(condition.sign, tuple(terms)), (place,))
          for place, terms in alone.items()),
        *rest,
    ]  # fmt: skip


def _join_boxes(parts: Sequence[list[MaskBox]], *, all_of: bool) -> list[MaskBox]:
    boxes = parts[0]
    for part in parts[1:]:
        boxes = meet(boxes, part) if all_of else [*boxes, *_minus(part, boxes)]
        check_boxes(boxes)
    return boxes


def check_boxes(boxes: Sequence[object]) -> None:
    """Refuse a question that falls into too many parts."""
    if len(boxes) > MOST_BOXES:
        raise ParameterError(
            "the condition splits into more than {most} boxes; ask several questions instead", most=MOST_BOXES
        )


def meet(first: Sequence[MaskBox], second: Sequence[MaskBox]) -> list[MaskBox]:
    """What both hold."""
    both = (_both(first_box, second_box) for first_box in first for second_box in second)
    return [box for box in both if box is not None]


def _both(first_box: MaskBox, second_box: MaskBox) -> MaskBox | None:
    box = dict(first_box)
    for attribute, mask in second_box.items():
        if attribute in box:
            mask = box[attribute] & mask
        if not mask.any():
            return None
        box[attribute] = mask
    return box


def _minus(boxes: Sequence[MaskBox], taken: Sequence[MaskBox]) -> list[MaskBox]:
    """What of some boxes no other box holds, again as disjoint boxes."""
    left = list(boxes)
    for hole in taken:
        left = [part for box in left for part in _outside(box, hole)]
        check_boxes(left)
    return left


def _outside(box: MaskBox, hole: MaskBox) -> list[MaskBox]:
    parts, rest = [], box
    for attribute, mask in hole.items():
        outside = _both(rest, {attribute: ~mask})
        if outside is not None:
            parts.append(outside)
        inside = _both(rest, {attribute: mask})
        if inside is None:
            return parts
        rest = inside
    return parts


def split_tensor(tensor: Reals, places: Sequence[int]) -> list[dict[int, Reals]]:
    """Write weights over several attributes as disjoint boxes: one of them keeps its weights, the others are masks."""
    product = _find_product(tensor)
    if product is not None:
        return [dict(zip(places, product, strict=True))]
    lines, classes = [], []
    for axis in range(tensor.ndim):
        moved = np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)
        unique, inverse = np.unique(moved, axis=0, return_inverse=True)
        lines.append(unique.shape[0])
        classes.append(inverse.reshape(-1))
    main = int(np.argmax(lines))
    others = [axis for axis in range(tensor.ndim) if axis != main]
    check_boxes(range(math.prod(lines[axis] for axis in others)))
    boxes = []
    for chosen in np.ndindex(*(lines[axis] for axis in others)):
        index: list[Any] = [slice(None)] * tensor.ndim
        masks = {}
        for axis, number in zip(others, chosen, strict=True):
            mask = classes[axis] == number
            index[axis] = int(np.argmax(mask))
            masks[places[axis]] = mask.astype(float)
        line = tensor[tuple(index)]
        if line.any():
            boxes.append({**masks, places[main]: line})
    return boxes


def _find_product(tensor: Reals) -> list[Reals] | None:
    """Lines, one along each axis, whose product a tensor is; None if it is none."""
    peak = np.unravel_index(int(np.argmax(np.abs(tensor))), tensor.shape)
    top = float(tensor[peak])
    if top == 0.0:
        return None
    lines = [np.moveaxis(tensor, axis, -1)[tuple(np.delete(peak, axis))] for axis in range(tensor.ndim)]
    lines = [lines[0], *(line / top for line in lines[1:])]
    product = functools.reduce(np.multiply.outer, lines)
    is_near = bool(np.all(np.abs(product - tensor) <= ROUNDING * np.abs(tensor)))
    return lines if is_near else None


# --- sums -------------------------------------------------------------------------------------------------------------


class Functional:
    """A sum over the records: of the products of weights in disjoint boxes."""

    __slots__ = ("_moments", "axes", "boxes")

    def __init__(self, axes: Axes, boxes: Sequence[PointBox]) -> None:
        self.axes, self.boxes = axes, tuple(boxes)
        self._moments: Moments | None = None

    @property
    def moments(self) -> Moments:
        """The estimate and its variances, asked for once."""
        if self._moments is None:
            self._moments = ask(self.axes, self.boxes)
        return self._moments

    @property
    def is_known(self) -> bool:
        """Tell whether it was asked for."""
        return self._moments is not None

    def fill(self, moments: Moments) -> None:
        """Keep what a release says of it."""
        self._moments = moments


def ask(axes: Axes, boxes: Sequence[PointBox]) -> Moments:
    """Ask a release for a sum over disjoint boxes."""
    return ask_all(axes, [boxes])[0]


def ask_all(axes: Axes, questions: Sequence[Sequence[PointBox]]) -> list[Moments]:
    """Ask a release for many sums, each over disjoint boxes: a view works out together what they share."""
    if len(questions) > 1:
        weights: dict[int, list[NDArray[Any]]] = {}
        for boxes in questions:
            for box in boxes:
                for place, given in box.items():
                    weights.setdefault(place, []).append(given)
        for place, several in weights.items():
            axes.weigh_all(place, several)
    weighted = [
        [{place: axes.weigh(place, given) for place, given in box.items()} for box in boxes] for boxes in questions
    ]
    axes.asked |= {frozenset().union(*boxes) for boxes in questions if boxes}
    filled = [boxes for boxes in weighted if boxes]
    found = iter(estimate_all(axes.answerer, filled))
    return [next(found) if boxes else Moments(value=0.0, noise=0.0, model=0.0) for boxes in weighted]


def look_up(functionals: Iterable[Functional]) -> None:
    """Ask for several sums at once, those of a release together; each has its moments then."""
    unknown: dict[int, dict[int, Functional]] = {}
    for functional in functionals:
        if not functional.is_known:
            unknown.setdefault(id(functional.axes), {})[id(functional)] = functional
    for several in unknown.values():
        sums = list(several.values())
        for functional, moments in zip(sums, ask_all(sums[0].axes, [one.boxes for one in sums]), strict=True):
            functional.fill(moments)


def find_shift(parts: Mapping[Functional, float]) -> tuple[Functional, int, float, float] | None:
    """Read a combination of two sums as numbers of one attribute times a factor plus a number; None if it is not.

    The sum, the attribute, the factor and the number: both sums are over the same records, one of them counts these.
    """
    if len(parts) != 2:
        return None
    (summed, factor), (counted, addend) = parts.items()
    if len(summed.boxes) != 1 or len(counted.boxes) != 1:
        return None
    if len(summed.boxes[0]) < len(counted.boxes[0]):
        summed, counted, factor, addend = counted, summed, addend, factor
    box, other = summed.boxes[0], counted.boxes[0]
    more = [place for place, weights in box.items() if other.get(place) is not weights]
    if len(more) != 1 or len(box) != len(other) + 1 or box[more[0]].dtype == bool or not factor > 0:
        return None
    return summed, more[0], factor, addend


def ask_shifts(axes: Axes, shifts: Sequence[tuple[Functional, int, float, float]]) -> list[Moments | None]:
    """Ask a release for sums times factors plus numbers, as `find_shift` finds them."""
    if not shifts or not can_shift(type(axes.answerer)):
        return [None] * len(shifts)
    return estimate_shifts(axes.answerer, [
        ShiftedSum({place: axes.weigh(place, own) for place, own in summed.boxes[0].items()}, attribute, factor, addend)
        for summed, attribute, factor, addend in shifts
    ])  # fmt: skip


def tensor_parts(axes: Axes, places: Sequence[int], weights: NDArray[Any]) -> list[PointBox]:
    """Weights over the points of some attributes as disjoint boxes."""
    if not places:
        factor = float(weights)
        return [scale_box(axes, {}, factor)] if factor else []
    tensor = np.broadcast_to(np.asarray(weights, dtype=float), tuple(axes.points(place).size for place in places))
    if len(places) == 1:
        return [{places[0]: tensor}] if tensor.any() else []
    return list(split_tensor(tensor, places))


def times(boxes: Sequence[PointBox], parts: Sequence[PointBox]) -> list[PointBox]:
    """Multiply the weights of two lists of disjoint boxes."""
    found: list[PointBox] = []
    for box in boxes:
        for part in parts:
            product = dict(box)
            for place, weights in part.items():
                product[place] = product[place] * weights if place in product else weights
            if all(weights.any() for weights in product.values()):
                found.append(product)
    check_boxes(found)
    return found


def scale_box(axes: Axes, box: PointBox, factor: float) -> PointBox:
    """A box with every weight times a number."""
    if factor == 1.0:
        return box
    first = next(iter(box), 0)
    weights = box[first] if first in box else np.ones(axes.points(first).size)
    return {**box, first: weights * factor}


def combine(parts: Sequence[tuple[float, Functional]]) -> list[PointBox] | None:
    """A linear combination of sums over one release as one sum over disjoint boxes; None if that is too large."""
    axes = parts[0][1].axes
    terms = _fold([(factor, box) for factor, functional in parts for box in functional.boxes if factor])
    if len(terms) <= 1 or (len(terms) <= 16 and _are_disjoint([box for _, box in terms])):
        return [scale_box(axes, box, factor) for factor, box in terms]
    return _combine_classes(terms, axes)


def _fold(terms: Sequence[tuple[float, PointBox]]) -> list[tuple[float, PointBox]]:
    """Join terms that differ in one attribute only: their weights add up."""
    found: list[tuple[float, PointBox]] = []
    for factor, box in terms:
        for place, (other_factor, other) in enumerate(found):
            if not box and not other:
                found[place] = (factor + other_factor, box)
                break
            axis = _only_difference(box, other)
            if axis is not None:
                line = _add_lines((other_factor, other.get(axis)), (factor, box.get(axis)))
                found[place] = (1.0, {**other, **box, axis: line})
                break
        else:
            found.append((factor, box))
    return found


def _add_lines(first: tuple[float, NDArray[Any] | None], second: tuple[float, NDArray[Any] | None]) -> NDArray[Any]:
    """The weights of an attribute times their factors, added up; None: every point weighs 1."""
    (factor, line), (other_factor, other) = first, second
    if line is not None and other is not None:
        return line * factor + other * other_factor
    if line is None and other is None:
        return np.asarray(factor + other_factor)
    weights, factor, addend = (line, factor, other_factor) if line is not None else (other, other_factor, factor)
    return np.asarray(weights) * factor + addend


def _only_difference(first: PointBox, second: PointBox) -> int | None:
    """The one attribute in which two boxes differ; None if there are more."""
    differing = [
        place
        for place in {*first, *second}
        if place not in first
        or place not in second
        or not (first[place] is second[place] or np.array_equal(first[place], second[place]))
    ]
    if len(differing) > 1:
        return None
    if differing:
        return differing[0]
    return next(iter(first), None)


def _are_disjoint(boxes: Sequence[PointBox]) -> bool:
    for place, box in enumerate(boxes):
        for other in boxes[:place]:
            shared = box.keys() & other.keys()
            if not any(not np.any((box[axis] != 0) & (other[axis] != 0)) for axis in shared):
                return False
    return True


def _combine_classes(terms: Sequence[tuple[float, PointBox]], axes: Axes) -> list[PointBox] | None:
    """Tell apart only the points that some term weighs differently, and add the terms up over these classes."""
    places = sorted({place for _, box in terms for place in box})
    columns, classes, shape = {}, {}, []
    for place in places:
        size = axes.points(place).size
        stacked = np.stack([np.broadcast_to(np.asarray(box.get(place, 1.0), dtype=float), size) for _, box in terms])
        unique, inverse = np.unique(stacked, axis=1, return_inverse=True)
        columns[place], classes[place] = unique, inverse.reshape(-1)
        shape.append(unique.shape[1])
    if math.prod(shape) > MOST_CLASSES:
        return None
    tensor = np.zeros(shape)
    for number, (factor, _) in enumerate(terms):
        product = np.array(factor)
        for axis, place in enumerate(places):
            line = columns[place][number].reshape([-1 if axis == other else 1 for other in range(len(places))])
            product = product * line
        tensor = tensor + product
    try:
        boxes = split_tensor(tensor, places)
    except ParameterError:
        return None
    return [{place: weights[classes[place]] for place, weights in box.items()} for box in boxes]
