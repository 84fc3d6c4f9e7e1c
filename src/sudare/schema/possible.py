"""How many cells are possible: an exact count of what no box covers, in domains of any size.

Boxes that share no attribute are independent, so each connected family is counted alone. Within a family the
attributes are walked one by one, keeping for every set of boxes that a prefix of codes still lies in (its state) how
many prefixes there are. Codes that the boxes treat alike are taken together; a prefix that fills a box is dropped; a
box that another box of the state covers from here on is left out of it. So the work follows how the boxes overlap,
neither the domain nor 2**boxes. (The problem is #P-hard: hundreds of boxes over arbitrary sets of many attributes can
still be slow.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

Box = Mapping[str, frozenset[int]]


def count_possible(boxes: Sequence[Box], sizes: Mapping[str, int]) -> int:
    """Count the cells that lie in no box; a box maps attributes to the codes it holds.

    >>> count_possible([{"a": frozenset({0}), "b": frozenset({0, 1})}], {"a": 3, "b": 4})
    10
    """
    restricted = {name for box in boxes for name in box}
    free = math.prod(size for name, size in sizes.items() if name not in restricted)
    return free * math.prod(_count_family(family, sizes) for family in _families(boxes))


def _families(boxes: Sequence[Box]) -> list[list[Box]]:
    """Split boxes into families that share no attribute."""
    families: list[tuple[set[str], list[Box]]] = []
    for box in boxes:
        joined, members = set(box), [box]
        for names, others in [family for family in families if family[0] & joined]:
            families.remove((names, others))
            joined |= names
            members += others
        families.append((joined, members))
    return [members for _, members in families]


def _count_family(boxes: Sequence[Box], sizes: Mapping[str, int]) -> int:
    rest = {name for box in boxes for name in box}
    prefixes: dict[int, int] = {(1 << len(boxes)) - 1: 1}
    while rest:
        name = min(rest, key=lambda each: (_open_boxes(boxes, rest - {each}), each))
        rest.remove(name)
        filled = sum(1 << index for index, box in enumerate(boxes) if not rest & box.keys())
        covers = _covers(boxes, rest)
        following: Counter[int] = Counter()
        for mask, codes in _classes(boxes, name, sizes[name]).items():
            for state, count in prefixes.items():
                if not state & mask & filled:
                    following[_reduced(state & mask, covers)] += count * codes
        prefixes = following
    return sum(prefixes.values())


def _open_boxes(boxes: Sequence[Box], rest: set[str]) -> int:
    """Count the boxes of which some attributes have been walked and some not: they are what states differ in."""
    return sum(bool(rest & box.keys()) and not rest >= box.keys() for box in boxes)


def _classes(boxes: Sequence[Box], name: str, size: int) -> Counter[int]:
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


def _covers(boxes: Sequence[Box], rest: set[str]) -> list[int]:
    """For every box, the boxes that cover it on the remaining attributes (of equal ones, the earlier covers)."""
    covers = []
    for index, box in enumerate(boxes):
        covering = [other for other in range(len(boxes)) if other != index and _is_covered(box, boxes[other], rest)]
        kept = [other for other in covering if other < index or not _is_covered(boxes[other], box, rest)]
        covers.append(sum(1 << other for other in kept))
    return covers


def _is_covered(box: Box, other: Box, rest: set[str]) -> bool:
    return all(name in box and box[name] <= other[name] for name in rest & other.keys())


def _reduced(state: int, covers: Sequence[int]) -> int:
    """Leave out of a state the boxes that another box of it covers."""
    reduced, rest = state, state
    while rest:
        lowest = rest & -rest
        rest ^= lowest
        if covers[lowest.bit_length() - 1] & state:
            reduced ^= lowest
    return reduced
