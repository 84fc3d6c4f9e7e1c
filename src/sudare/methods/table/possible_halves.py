"""Which halves of a node hold a possible cell: what the wavelet asks where combinations are declared impossible.

A node of the Z-order is a product of runs, one for each attribute. Which boxes of impossible cells admit a value is a
bit mask; of a run only the set of its masks matters, and those sets are tabulated once for all runs of all lengths.
A node holds a possible cell if one mask of every attribute can be chosen so that no box admits all of them. Everything
here is public: schema in, public rule out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sudare.errors import SchemaError
from sudare.methods.table.morton import CellOrder
from sudare.schema.arrays import Booleans, Codes, Integers

MOST_BOXES = 62  # they are bits of one word
MOST_RUNS = 2**23  # runs of an attribute that are tabulated: twice its values
MOST_STATES = 2**14  # sets of boxes that are followed for one kind of node


def check_boxes(cells: CellOrder) -> None:
    """Refuse impossible combinations that are more than can be followed through halvings."""
    boxes = cells.schema.impossible
    if len(boxes) > MOST_BOXES:
        raise SchemaError(
            "the wavelet takes at most {most} impossible combinations, not {found}; join some, or use the tree",
            most=MOST_BOXES,
            found=len(boxes),
        )
    for name in {name for box in boxes for name in box.names}:
        if 2 * cells.schema.attribute(name).size > MOST_RUNS:
            raise SchemaError(
                "{name} has too many values for impossible combinations in the wavelet; use the tree", name=name
            )


@dataclass(frozen=True, kw_only=True)
class PossibleHalves:
    """Tells of nodes whether they hold a possible cell, and whether all of their places are possible.

    >>> from sudare.schema import Attribute, Impossible, NumberBins, Schema
    >>> sides = tuple(Attribute(name=name, domain=NumberBins.of_width(0, 4, 1)) for name in ("row", "column"))
    >>> box = Impossible((("row", frozenset({0, 1})), ("column", frozenset({2, 3}))))
    >>> halves = PossibleHalves(cells=CellOrder(schema=Schema(name="s", attributes=sides, impossible=(box,))))
    >>> paths = np.array([[0b00], [0b01], [0b10], [0b11]]) << 60  # quarters of the square
    >>> halves.hold_possible(paths, 2).tolist(), halves.are_whole(paths, 2).tolist()
    ([True, False, True, True], [True, False, True, True])
    """

    cells: CellOrder
    known: dict[tuple[int, ...], bool] = field(default_factory=dict, repr=False)

    @cached_property
    def axes(self) -> tuple[RunMasks, ...]:
        """The attributes that some box names."""
        schema = self.cells.schema
        every = (1 << len(schema.impossible)) - 1
        return tuple(
            RunMasks.tabulate(self.cells, place, every)
            for place, attribute in enumerate(schema.attributes)
            if any(attribute.name in box.names for box in schema.impossible)
        )

    def hold_possible(self, paths: Integers, level: int) -> Booleans:
        """Tell which nodes of a level hold a possible cell, as far as the boxes go."""
        kinds = self._kinds(paths, level)
        if not len(kinds):
            return np.zeros(0, dtype=np.bool_)
        distinct, places = np.unique(kinds, axis=0, return_inverse=True)
        verdicts = np.array([self._holds(tuple(kind)) for kind in distinct.tolist()], dtype=np.bool_)
        return verdicts[places.reshape(-1)]

    def are_whole(self, paths: Integers, level: int) -> Booleans:
        """Tell which nodes of a level touch no box, so that all their cells are possible."""
        kinds = self._kinds(paths, level)
        touched = np.full(len(kinds), -1, dtype=np.int64)
        for axis, column in zip(self.axes, kinds.T, strict=True):
            touched &= axis.unions[column]
        return np.asarray(touched == 0, dtype=np.bool_)

    def _kinds(self, paths: Integers, level: int) -> Codes:
        """Give for every node and restricted attribute the number of its set of masks: (nodes, attributes)."""
        left = [0] * len(self.cells.sizes)
        for axis, _ in self.cells.plan[level:]:
            left[axis] += 1
        values = self.cells.axis_values(paths)
        return np.column_stack(
            [axis.kinds[left[axis.place]][values[:, axis.place] >> left[axis.place]] for axis in self.axes]
        )

    def _holds(self, kind: tuple[int, ...]) -> bool:
        if kind not in self.known:
            states = {(1 << len(self.cells.schema.impossible)) - 1}
            for axis, number in zip(self.axes, kind, strict=True):
                states = _keep_least({state & mask for state in states for mask in axis.sets[number]})
            self.known[kind] = 0 in states
        return self.known[kind]


@dataclass(frozen=True, kw_only=True, eq=False)
class RunMasks:
    """The sets of masks of all runs of one attribute: `kinds[bits][start]` numbers the set of a run of 2**bits."""

    place: int
    kinds: tuple[Codes, ...]
    sets: tuple[frozenset[int], ...]
    unions: NDArray[np.int64]

    @classmethod
    def tabulate(cls, cells: CellOrder, place: int, every: int) -> RunMasks:
        """Number the sets of masks of runs of 1, 2, 4 ... values; a place without a value has the empty set."""
        attribute = cells.schema.attributes[place]
        masks = np.full(attribute.size, every, dtype=np.int64)
        for number, box in enumerate(cells.schema.impossible):
            codes = dict(box.values).get(attribute.name)
            if codes is not None:
                masks &= ~np.int64(1 << number)
                masks[np.fromiter(codes, dtype=np.int64)] |= np.int64(1 << number)
        ranked = np.empty_like(masks)
        ranked[cells.ranks_of(place, np.arange(attribute.size, dtype=np.int64))] = masks
        distinct, kinds = np.unique(ranked, return_inverse=True)
        sets: dict[frozenset[int], int] = {frozenset([mask]): kind for kind, mask in enumerate(distinct.tolist())}
        width = (attribute.size - 1).bit_length()
        padded = np.full(1 << width, sets.setdefault(frozenset(), len(sets)), dtype=np.int64)
        padded[: attribute.size] = kinds.reshape(-1)
        levels = [padded]
        while levels[-1].size > 1:
            levels.append(_join_pairs(levels[-1].reshape(-1, 2), sets))
        unions = np.array([_union(masks) for masks in sets], dtype=np.int64)
        return cls(place=place, kinds=tuple(levels), sets=tuple(sets), unions=unions)


def _join_pairs(pairs: Codes, sets: dict[frozenset[int], int]) -> Codes:
    """Number the unions of neighbouring sets; new ones are added."""
    by_number = list(sets)
    distinct, places = np.unique(pairs, axis=0, return_inverse=True)
    joined = [_keep_all(by_number[left] | by_number[right]) for left, right in distinct.tolist()]
    numbers = np.array([sets.setdefault(masks, len(sets)) for masks in joined], dtype=np.int64)
    return numbers[places.reshape(-1)]


def _keep_all(masks: frozenset[int]) -> frozenset[int]:
    if len(masks) > MOST_STATES:
        raise SchemaError("the impossible combinations are too many to be followed by the wavelet; use the tree")
    return masks


def _keep_least(states: set[int]) -> set[int]:
    """Drop states of which another is a part: whatever frees them frees that one earlier."""
    kept: list[int] = []
    for state in sorted(states, key=lambda bits: bits.bit_count()):
        if not any(state & other == other for other in kept):
            kept.append(state)
        if len(kept) > MOST_STATES:
            raise SchemaError("the impossible combinations are too many to be followed by the wavelet; use the tree")
    return set(kept)


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found
