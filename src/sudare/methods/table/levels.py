"""Which sums of a table are measured, and how its cells are numbered below them.

A map has squares (`squares.py`). Any other table has the levels of its declared hierarchies, all attributes coming down
together (`tree.py`). Both number the cells as leaves of a tree, which is all that least squares needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from typing import Protocol

import numpy as np

from sudare.methods.budget import CountBudget, plan
from sudare.methods.table.squares import SquareLayout, fits_squares, lay_out
from sudare.methods.table.tree import DENSE_CELLS, Visited, level_weights, table_tree
from sudare.methods.tree import Tree
from sudare.noise import CountNoise
from sudare.privacy import DifferentialPrivacy
from sudare.schema import Schema
from sudare.schema.arrays import Booleans, Codes


class LeafLayout(Protocol):
    """The cells of a schema as leaves of a tree."""

    def __hash__(self) -> int:
        """Layouts are told apart by identity."""

    @property
    def schema(self) -> Schema:
        """The table."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Count the nodes of every level, possible or not."""

    @property
    def parents(self) -> tuple[Codes, ...]:
        """The node above each node, by level."""

    @property
    def possible_cells(self) -> tuple[Codes, ...]:
        """Count the possible cells of every node, by level."""

    @property
    def is_possible(self) -> Booleans:
        """Tell which leaves can hold records."""

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """The shares of the levels in pure epsilon."""

    def leaves(self, columns: Codes) -> Codes:
        """Find the leaves of cells (m, attributes)."""

    def columns(self, leaves: Codes) -> Codes:
        """Give the codes of leaves that are cells."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeLayout:
    """The levels of a tree of attributes, all nodes of which are held."""

    tree: Tree

    @property
    def schema(self) -> Schema:
        """The table."""
        return self.tree.schema

    @cached_property
    def visited(self) -> Visited:
        """The tree with its nodes."""
        return Visited(tree=self.tree, noises=())

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Count the nodes of every level below the root; a table of one cell has that one."""
        return tuple(self.tree.size(level) for level in range(min(1, len(self.tree.steps)), len(self.tree.levels)))

    @cached_property
    def parents(self) -> tuple[Codes, ...]:
        """The node above each node, by level."""
        return tuple(self.visited.parents[1:]) or (np.zeros(1, dtype=np.int64),)

    @cached_property
    def possible_cells(self) -> tuple[Codes, ...]:
        """Count the possible cells of every node, by level."""
        return tuple(self.visited.capacities[-len(self.sizes) :])

    @property
    def is_possible(self) -> Booleans:
        """Tell which leaves can hold records."""
        possible: Booleans = self.possible_cells[-1] > 0
        return possible

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """Weigh levels by how much finer they are than the level above."""
        weights = level_weights(self.tree) or [1]
        return tuple(Fraction(weight, sum(weights)) for weight in weights)

    def leaves(self, columns: Codes) -> Codes:
        """Find the leaves of cells."""
        return self.visited.leaf_radix.encode(self.tree.ranks(columns))[:, 0]

    def columns(self, leaves: Codes) -> Codes:
        """Give the codes of leaves."""
        return self.tree.codes(self.visited.leaf_radix.decode(leaves[:, None]))


@lru_cache(maxsize=4)
def find_layout(schema: Schema) -> SquareLayout | TreeLayout | None:
    """Choose the levels of a table; None for one that is too large to visit every cell."""
    if fits_squares(schema, DENSE_CELLS):
        return lay_out(schema)
    return TreeLayout(tree=table_tree(schema)) if schema.size <= DENSE_CELLS else None


def whole_weights(shares: tuple[Fraction, ...]) -> list[int]:
    """Write shares as whole numbers in proportion.

    >>> whole_weights((Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)))
    [1, 1, 2]
    """
    common = lcm(*(share.denominator for share in shares))
    return [int(share * common) for share in shares]


def plan_levels(guarantee: DifferentialPrivacy, shares: tuple[Fraction, ...]) -> CountBudget:
    """Split the promise between the cells and the sums above them; the total takes its part of the cells' where it is
    private.
    """
    weights = whole_weights(shares)
    return plan(guarantee, sums_share=1 - shares[-1], level_weights=weights[:-1] or (1,))


def level_noises_of(shares: tuple[Fraction, ...], budget: CountBudget) -> tuple[CountNoise, ...]:
    """Give the noise of every level, from the largest sums to the cells."""
    if budget.sums_part is None:
        return (budget.cells_noise,)
    sums = budget.sums_part
    upper = budget.guarantee.currency.reshare(whole_weights(shares)[:-1])
    return (*(budget.noise(sums * share) for share in upper), budget.cells_noise)
