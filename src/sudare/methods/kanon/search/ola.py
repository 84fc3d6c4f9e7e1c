"""Optimal Lattice Anonymization as published: binary search of sub-lattices by height.

Source: El Emam et al. 2009. (The OLA that Oguri et al. 2016 count is a walk from the finest node down the list of cell
counts, without binary search; it is in papers/oguri2016.)
"""

from __future__ import annotations

from collections.abc import Iterator

from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.problem import Found
from sudare.methods.kanon.search.tags import Tags


def ola(checker: Checker) -> Found | None:
    """Find the minimal feasible nodes and take the one of least score."""
    lattice, tags = checker.problem.lattice, Tags(checker, "ola")
    if not tags.is_good(lattice.heights) and checker.checks[lattice.heights].kills:
        return None
    todo, seen = [(lattice.bottom, lattice.heights)], set()
    while todo and not checker.is_late:
        low, high = todo.pop()
        if (low, high) in seen:
            continue
        seen.add((low, high))
        height = sum(high) - sum(low)
        if height <= 1:
            tags.is_good(low)
            continue
        for node in _at_height(low, high, height // 2):
            if checker.is_late:
                break
            todo.append((low, node) if tags.is_good(node) else (node, high))
    return tags.found(is_late=checker.is_late)


def _at_height(low: Node, high: Node, height: int) -> Iterator[Node]:
    """List the nodes between two whose levels add up to `height` more than those of the finer one."""
    spans = [top - bottom for bottom, top in zip(low, high, strict=True)]
    rest = [sum(spans[axis:]) for axis in range(len(spans) + 1)]
    for raised in _spread(spans, rest, height):
        yield tuple(map(int.__add__, low, raised))


def _spread(spans: list[int], rest: list[int], height: int, axis: int = 0) -> Iterator[Node]:
    if axis == len(spans):
        yield ()
        return
    after = rest[axis + 1]
    for raised in range(max(0, height - after), min(spans[axis], height) + 1):
        for others in _spread(spans, rest, height - raised, axis + 1):
            yield (raised, *others)
