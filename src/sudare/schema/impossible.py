"""Combinations that cannot occur: boxes of codes, counted and coarsened exactly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.errors import SchemaError
from sudare.schema.arrays import Booleans
from sudare.schema.attribute import Attribute
from sudare.schema.raw import list_some

AttributeSizes = Mapping[str, int]
ImpossibleBox = tuple[tuple[str, frozenset[int]], ...]


@dataclass(frozen=True)
class Impossible:
    """A box: the product of sets of codes, one set for each attribute named; attributes not named are free.

    >>> Impossible((("age", frozenset({0, 1})), ("marital", frozenset({2})))).names
    ('age', 'marital')
    """

    values: ImpossibleBox

    def __post_init__(self) -> None:
        pairs = self.values.items() if isinstance(self.values, Mapping) else self.values
        values = tuple(sorted((name, frozenset(int(code) for code in codes)) for name, codes in pairs))
        object.__setattr__(self, "values", values)
        if not values or len(set(self.names)) < len(values):
            raise SchemaError("an impossible combination must name at least one attribute, each once")

    @property
    def names(self) -> tuple[str, ...]:
        """Name the attributes that the box restricts, sorted."""
        return tuple(name for name, _ in self.values)


def make_box(attributes: Iterable[Attribute], labels: Mapping[str, Iterable[str]]) -> Impossible:
    """Make a box from labels; unions of bins such as "[0,15)" and coarser mesh cells are welcome.

    >>> from sudare.schema.domain import NumberBins
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))
    >>> make_box([age], {"age": ["[0,15)"]}).values
    (('age', frozenset({0, 1, 2})),)
    """
    known = {attribute.name: attribute for attribute in attributes}
    for name in labels:
        if name not in known:
            raise SchemaError(
                "there is no attribute {name}; the schema has {known}", name=name, known=list_some([*known], 20)
            )
    return Impossible(tuple((name, _find_codes(known[name], texts)) for name, texts in labels.items()))


def _find_codes(attribute: Attribute, labels: Iterable[str]) -> frozenset[int]:
    codes: set[int] = set()
    for label in labels:
        try:
            codes.update(attribute.codes(label))
        except SchemaError:
            raise SchemaError(
                "{label} is no value of {name}, nor made up of some; it has {known}",
                label=label,
                name=attribute.name,
                known=attribute.some_labels,
            ) from None
    if not codes:
        raise SchemaError("an impossible combination needs at least one value of {name}", name=attribute.name)
    return frozenset(codes)


def find_impossible(boxes: Iterable[Impossible], names: Sequence[str], columns: NDArray[np.integer]) -> Booleans:
    """Tell which rows of codes (m, d) lie in a box."""
    covered = np.zeros(len(columns), dtype=np.bool_)
    for box in boxes:
        inside = np.ones(len(columns), dtype=np.bool_)
        for name, codes in box.values:
            inside &= np.isin(columns[:, names.index(name)], np.fromiter(codes, dtype=np.int64))
        covered |= inside
    return covered


def merge_boxes(boxes: Sequence[Impossible], sizes: AttributeSizes) -> tuple[Impossible, ...]:
    """Join boxes that differ in one attribute only, and free attributes that a box admits wholly.

    So ages 0-4 and ages 5-9, both impossible with "married", become one fact about 0-9 that survives coarsening.

    >>> halves = [Impossible((("a", frozenset({code})), ("b", frozenset({0})))) for code in (0, 1)]
    >>> merge_boxes(halves, {"a": 2, "b": 2})
    (Impossible(values=(('b', frozenset({0})),)),)
    """
    before: list[Impossible] = []
    current = list(dict.fromkeys(boxes))
    while current != before:
        before = current
        for name in sorted({name for box in current for name in box.names}):
            current = _merge_along(name, current, sizes[name])
    return tuple(current)


def _merge_along(name: str, boxes: Sequence[Impossible], size: int) -> list[Impossible]:
    groups: dict[ImpossibleBox, frozenset[int] | None] = {}  # None: the attribute is free
    for box in boxes:
        values = dict(box.values)
        codes = values.pop(name, None)
        rest = tuple(values.items())
        known = groups.get(rest, frozenset())
        joined = None if codes is None or known is None else known | codes
        groups[rest] = None if joined is None or len(joined) == size else joined
        if not rest and groups[rest] is None:
            raise SchemaError("the impossible combinations leave nothing possible; take one out")
    return [Impossible(rest if codes is None else (*rest, (name, codes))) for rest, codes in groups.items()]


def coarsen_boxes(
    boxes: Sequence[Impossible], attributes: Sequence[Attribute], levels: Mapping[str, int]
) -> tuple[Impossible, ...]:
    """Shrink boxes to the whole groups that they cover; a box that covers none is dropped."""
    sizes = {attribute.name: attribute.size for attribute in attributes}
    known = {attribute.name: attribute for attribute in attributes}
    coarse = []
    for box in merge_boxes(boxes, sizes) if any(levels.values()) else boxes:
        values = tuple(
            (name, _find_whole_groups(known[name], codes, levels.get(name, 0))) for name, codes in box.values
        )
        if all(codes for _, codes in values):
            coarse.append(Impossible(values))
    return tuple(coarse)


def _find_whole_groups(attribute: Attribute, codes: frozenset[int], level: int) -> frozenset[int]:
    if level == 0 or attribute.hierarchy is None:
        return codes
    groups = attribute.hierarchy.lift(np.arange(attribute.size), level)
    members = np.bincount(groups)
    held = np.bincount(groups[np.fromiter(codes, dtype=np.int64)], minlength=len(members))
    return frozenset(np.flatnonzero(held == members).tolist())


# How many cells are possible: an exact count of what no box covers, in domains of any size.
#
# Boxes that share no attribute are independent, so each connected family is counted alone. Within a family the
# attributes are walked one by one, keeping for every set of boxes that a prefix of codes still lies in (its state)
# how many prefixes there are. Codes that the boxes treat alike are taken together; a prefix that fills a box is
# dropped; a box that another box of the state covers from here on is left out of it. So the work follows how the
# boxes overlap, neither the domain nor 2**boxes. (The problem is #P-hard: hundreds of boxes over arbitrary sets of
# many attributes can still be slow.)


CodeSets = Mapping[str, frozenset[int]]


def count_possible(boxes: Sequence[CodeSets], sizes: Mapping[str, int]) -> int:
    """Count the cells that lie in no box; a box maps attributes to the codes it holds.

    >>> count_possible([{"a": frozenset({0}), "b": frozenset({0, 1})}], {"a": 3, "b": 4})
    10
    """
    restricted = {name for box in boxes for name in box}
    free = math.prod(size for name, size in sizes.items() if name not in restricted)
    return free * math.prod(_count_family(family, sizes) for family in _split_families(boxes))


def _split_families(boxes: Sequence[CodeSets]) -> list[list[CodeSets]]:
    """Split boxes into families that share no attribute."""
    families: list[tuple[set[str], list[CodeSets]]] = []
    for box in boxes:
        joined, members = set(box), [box]
        for names, others in [family for family in families if family[0] & joined]:
            families.remove((names, others))
            joined |= names
            members += others
        families.append((joined, members))
    return [members for _, members in families]


def _count_family(boxes: Sequence[CodeSets], sizes: Mapping[str, int]) -> int:
    rest = {name for box in boxes for name in box}
    prefixes: dict[int, int] = {(1 << len(boxes)) - 1: 1}
    while rest:
        name = min(rest, key=lambda left: (_count_open(boxes, rest - {left}), left))
        rest.remove(name)
        filled = sum(1 << index for index, box in enumerate(boxes) if not rest & box.keys())
        covers = _find_covers(boxes, rest)
        following: Counter[int] = Counter()
        for mask, codes in _count_classes(boxes, name, sizes[name]).items():
            for state, count in prefixes.items():
                if not state & mask & filled:
                    following[_drop_covered(state & mask, covers)] += count * codes
        prefixes = following
    return sum(prefixes.values())


def _count_open(boxes: Sequence[CodeSets], rest: set[str]) -> int:
    """Count the boxes of which some attributes have been walked and some not: they are what states differ in."""
    return sum(bool(rest & box.keys()) and not rest >= box.keys() for box in boxes)


def _count_classes(boxes: Sequence[CodeSets], name: str, size: int) -> Counter[int]:
    """Count the codes of one attribute by the set of boxes (a bit mask) that admit them."""
    always = sum(1 << index for index, box in enumerate(boxes) if name not in box)
    masks: dict[int, int] = {}
    for index, box in enumerate(boxes):
        for code in box.get(name, ()):
            masks[code] = masks.get(code, always) | 1 << index
    classes = Counter(masks.values())
    if size > len(masks):
        classes[always] += size - len(masks)
    return classes


def _find_covers(boxes: Sequence[CodeSets], rest: set[str]) -> list[int]:
    """For every box, the boxes that cover it on the remaining attributes (of equal ones, the earlier covers)."""
    covers = []
    for index, box in enumerate(boxes):
        covering = [other for other in range(len(boxes)) if other != index and _is_covered(box, boxes[other], rest)]
        kept = [other for other in covering if other < index or not _is_covered(boxes[other], box, rest)]
        covers.append(sum(1 << other for other in kept))
    return covers


def _is_covered(box: CodeSets, other: CodeSets, rest: set[str]) -> bool:
    return all(name in box and box[name] <= other[name] for name in rest & other.keys())


def _drop_covered(state: int, covers: Sequence[int]) -> int:
    """Leave out of a state the boxes that another box of it covers."""
    reduced, rest = state, state
    while rest:
        lowest = rest & -rest
        rest ^= lowest
        if covers[lowest.bit_length() - 1] & state:
            reduced ^= lowest
    return reduced
