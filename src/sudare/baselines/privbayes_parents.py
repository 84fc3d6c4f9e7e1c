"""Which sets of parents PrivBayes may choose from, and what each tells about a child."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.schema import Schema

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, order=True)
class Parent:
    """An attribute cut into `cells` runs of values of about equal length; all values if they are as many.

    >>> Parent(0, 2, 5).coarse(np.arange(5)).tolist()
    [0, 0, 0, 1, 1]
    """

    attribute: int
    cells: int
    values: int

    def coarse(self, codes: Numbers) -> Numbers:
        """The run that a value lies in."""
        return codes if self.cells == self.values else codes * self.cells // self.values


def levels(schema: Schema, attribute: int) -> list[Parent]:
    """How an attribute can be seen, finest first: as it is and, if its values are ordered, as 2, 4, 8, ... runs.

    >>> from sudare.schema import Attribute, NumberBins
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 10, 1))
    >>> [parent.cells for parent in levels(Schema(name="s", attributes=(age,)), 0)]
    [10, 8, 4, 2]
    """
    size = schema.sizes[attribute]
    powers = range((size - 1).bit_length() - 1, 0, -1) if schema.attributes[attribute].is_ordered else range(0)
    return [Parent(attribute, size, size), *(Parent(attribute, 1 << power, size) for power in powers)]


def parent_sets(schema: Schema, done: Sequence[int], most: int, degree: int) -> list[tuple[Parent, ...]]:
    """List the maximal sets of at most `degree` attributes of `done`, coarsened or not, of at most `most` cells.

    Maximal: nothing can be added and nothing be made finer. Depends on public facts and earlier choices only.
    """
    seen = [levels(schema, attribute) for attribute in sorted(done)]
    found = list(_maximal(seen, most, degree))
    return found or [()]


def _maximal(seen: list[list[Parent]], most: int, degree: int) -> Iterator[tuple[Parent, ...]]:
    for chosen in _within(seen, most, degree):
        cells = _cells(chosen)
        taken = {parent.attribute: parent for parent in chosen}
        if not any(
            _could_be(parent, taken.get(parent.attribute), cells, most, len(chosen) < degree)
            for options in seen
            for parent in options
        ):
            yield chosen


def _could_be(parent: Parent, taken: Parent | None, cells: int, most: int, is_room: bool) -> bool:
    if taken is None:
        return is_room and parent.values > 1 and cells * parent.cells <= most
    return parent.cells > taken.cells and cells // taken.cells * parent.cells <= most


def _within(seen: list[list[Parent]], most: int, degree: int) -> Iterator[tuple[Parent, ...]]:
    if not seen or degree == 0:
        yield ()
        return
    first, *rest = seen
    yield from _within(rest, most, degree)
    for parent in first:
        if parent.cells <= most and parent.values > 1:
            yield from ((parent, *more) for more in _within(rest, most // parent.cells, degree - 1))


def _cells(parents: tuple[Parent, ...]) -> int:
    cells = 1
    for parent in parents:
        cells *= parent.cells
    return cells


def scores(
    counts: Counts,
    columns: Numbers,
    candidates: Sequence[tuple[int, tuple[Parent, ...]]],
    known: dict[tuple[int, tuple[Parent, ...]], int],
) -> None:
    """Add 2 n R of every new candidate: sum |n C(x, p) - C(x) C(p)|, a whole number, so nothing is rounded."""
    groups: dict[tuple[Parent, ...], list[int]] = {}
    for child, parents in candidates:
        if (child, parents) not in known:
            groups.setdefault(parents, []).append(child)
    for parents, children in groups.items():
        codes, cells = coded(columns, parents)
        for child in children:
            size = counts.schema.sizes[child]
            table = np.bincount(codes * size + columns[:, child], weights=counts.values, minlength=cells * size)
            known[child, parents] = dependence(table.astype(np.int64).reshape(cells, size))


def dependence(table: Numbers) -> int:
    """Sum |n C(x, p) - C(x) C(p)| over a table: 2 n times how many records the product of its margins misplaces.

    >>> dependence(np.array([[1, 0], [0, 1]]))
    4
    """
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    return int(np.abs(int(table.sum()) * table - product).sum())


def coded(columns: Numbers, parents: tuple[Parent, ...]) -> tuple[Numbers, int]:
    """Number the combinations of the parents; with how many there are."""
    codes, cells = np.zeros(len(columns), dtype=np.int64), 1
    for parent in parents:
        codes = codes * parent.cells + parent.coarse(columns[:, parent.attribute])
        cells *= parent.cells
    return codes, cells
