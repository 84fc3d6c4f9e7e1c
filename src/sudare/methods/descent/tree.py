"""The tree over a table: which attributes are seen how finely at every level, from one node down to the cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.descent.ladders import Ladder, ladder
from sudare.schema import Radix, Schema

Codes = NDArray[np.int64]
Heights = tuple[int, ...]

ALL = slice(None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """From the nodes of one level to those of the next: the attributes at `changed` come down on their ladders."""

    ladders: tuple[Ladder, ...]
    above: Heights
    below: Heights

    @cached_property
    def changed(self) -> tuple[int, ...]:
        """Positions of the attributes that are seen more finely below."""
        pairs = zip(self.above, self.below, strict=True)
        return tuple(position for position, (high, low) in enumerate(pairs) if high > low)

    @cached_property
    def radix(self) -> Radix:
        """Number the codes of the changed attributes below."""
        return Radix(tuple(self.ladders[each].nodes(self.below[each]) for each in self.changed))

    def spans(self, nodes: Codes) -> tuple[Codes, Codes]:
        """For nodes (k, attributes) of the level above: first child and number of children, (k, changed) each."""
        spans = [self.ladders[each].span(nodes[:, each], self.above[each], self.below[each]) for each in self.changed]
        return stack([first for first, _ in spans]), stack([width for _, width in spans])

    def children(self, nodes: Codes, rows: Codes, codes: Codes) -> Codes:
        """Name children as nodes of the level below, from their parents and the codes of the changed attributes."""
        below = take(nodes, rows)
        for place, each in enumerate(self.changed):
            below[:, each] = codes[:, place]
        return below

    def lift(self, ranks: Codes, places: Codes | slice = ALL) -> Codes:
        """The codes of the changed attributes below, for cells given as ranks (m, attributes), or some of them."""
        return stack([self.ladders[each].lift(ranks[:, each][places], self.below[each]) for each in self.changed])

    def digits(self, ranks: Codes) -> list[tuple[Codes, int]]:
        """For each changed attribute: which child of its parent each cell lies in, and a bound of that number."""
        found = []
        for each in self.changed:
            height, below = self.above[each], self.below[each]
            node = self.ladders[each].lift(ranks[:, each], below)
            digit = node - self.ladders[each].span(self.ladders[each].climb(node, below, height), height, below)[0]
            found.append((digit, int(digit.max(initial=0)) + 1))
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Tree:
    """Levels of a table: `levels[0]` has one node, the last has the cells; heights never rise on the way down."""

    schema: Schema
    ladders: tuple[Ladder, ...]
    levels: tuple[Heights, ...]

    def __post_init__(self) -> None:
        tops, cells = tuple(each.top for each in self.ladders), (0,) * len(self.ladders)
        falls = all(_is_finer(low, high) for high, low in itertools.pairwise(self.levels))
        if self.levels[0] != tops or self.levels[-1] != cells or not falls:
            raise ParameterError("the levels of a tree must lead from one node down to the cells")

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps down, one less than levels."""
        return tuple(self.step(level, level + 1) for level in range(len(self.levels) - 1))

    def step(self, above: int, below: int) -> Step:
        """The step from one level to a lower one."""
        return Step(ladders=self.ladders, above=self.levels[above], below=self.levels[below])

    def size(self, level: int) -> int:
        """Count the nodes of a level, possible or not."""
        return math.prod(each.nodes(h) for each, h in zip(self.ladders, self.levels[level], strict=True))

    def ranks(self, columns: Codes) -> Codes:
        """Number the codes of cells (m, attributes) so that nodes are ranges."""
        return _by_column([each.ranks for each in self.ladders], columns)

    def codes(self, ranks: Codes) -> Codes:
        """Turn ranks (m, attributes) back into codes."""
        return _by_column([each.codes for each in self.ladders], ranks)


def stack(columns: Sequence[Codes]) -> Codes:
    """Make a table of columns, each of them in one piece of memory: tables here are read by columns."""
    return np.stack(columns).T


def take(table: Codes, rows: NDArray[Any] | slice) -> Codes:
    """Take rows of a table and keep its columns in one piece."""
    if isinstance(rows, slice):
        return table[rows]
    places = np.flatnonzero(rows) if rows.dtype == bool else rows
    return np.take(table.T, places, axis=1).T


def make_tree(schema: Schema, levels: Sequence[Heights], ladders: Sequence[Ladder] | None = None) -> Tree:
    """Make a tree of the given levels; steps that change nothing are left out.

    >>> from sudare.schema import Attribute, Values
    >>> day = Attribute(name="day", domain=Values(values=tuple(map(str, range(366))), is_ordered=True))
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> tree = make_tree(Schema(name="s", attributes=(day, sex)), [(3, 1), (1, 1), (0, 0)])
    >>> [tree.size(level) for level in range(3)], [step.changed for step in tree.steps]
    ([1, 23, 732], [(0,), (0, 1)])
    """
    kept = tuple(levels[:1]) + tuple(low for high, low in itertools.pairwise(levels) if high != low)
    built = tuple(ladders) if ladders is not None else tuple(map(ladder, schema.attributes))
    return Tree(schema=schema, ladders=built, levels=kept)


def attribute_order(ladders: Sequence[Ladder]) -> list[Heights]:
    """List the levels of the plainest tree: attribute after attribute, each from its top to its values.

    >>> from sudare.methods.descent.ladders import EvenRung
    >>> attribute_order([Ladder(size=2, rungs=(EvenRung(children=2, fan=2),))] * 2)
    [(1, 1), (0, 1), (0, 0)]
    """
    heights = [each.top for each in ladders]
    levels = [tuple(heights)]
    for position, each in enumerate(ladders):
        for height in range(each.top - 1, -1, -1):
            heights[position] = height
            levels.append(tuple(heights))
    return levels


def _is_finer(low: Heights, high: Heights) -> bool:
    return low != high and all(a <= b for a, b in zip(low, high, strict=True))


def _by_column(maps: list, columns: Codes) -> Codes:  # type: ignore[type-arg]
    return stack([each(column) for each, column in zip(maps, columns.T, strict=True)])
