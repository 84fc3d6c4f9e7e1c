"""The tree of a table: which sums are measured on the way from the total to the cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from sudare.counts import Counts
from sudare.methods.budget import CountBudget, plan
from sudare.methods.tree import Possible, TopDownTree, Tree, ValueGroups, group_values, make_tree
from sudare.methods.tree.levels import Heights
from sudare.noise import CountNoise, Rng
from sudare.postprocess.shrinkage import estimate_spread
from sudare.postprocess.simplex import share_rows
from sudare.privacy import DifferentialPrivacy
from sudare.schema import Radix, Schema
from sudare.schema.arrays import Integers, Reals

WIDEST = 256  # children of a node: fewer levels leave more of epsilon to each


def table_tree(schema: Schema) -> Tree:
    """Make the tree of a table: all attributes come down together, declared groups first seen as declared.

    >>> from sudare.schema import Attribute, NumberBins
    >>> x = Attribute(name="x", domain=NumberBins.of_width(0, 1024, 1))
    >>> y = Attribute(name="y", domain=NumberBins.of_width(0, 512, 1))
    >>> tree = table_tree(Schema(name="grid", attributes=(x, y)))
    >>> [tree.size(level) for level in range(len(tree.levels))]
    [1, 8, 2048, 524288]
    """
    value_groups = [group_values(attribute) for attribute in schema.attributes]
    return make_tree(schema, interleave(value_groups), value_groups)


def interleave(value_groups: Sequence[ValueGroups]) -> list[Heights]:
    """List the levels: at every step those attributes come down one step that have most steps left.

    So all arrive at their values together. They come down in one step as long as a node then has at most 256 children;
    those that have to wait come first at the next.
    """
    heights = [groups.top for groups in value_groups]
    levels = [tuple(heights)]
    turn = list(range(len(value_groups)))
    while any(heights):
        moved: list[int] = []
        children, highest = 1.0, max(heights)
        for axis in turn:
            fan = _fan(value_groups[axis], heights[axis])
            if heights[axis] == highest and (not moved or children * fan <= WIDEST):
                children *= fan
                moved.append(axis)
        for axis in moved:
            heights[axis] -= 1
        turn = [axis for axis in turn if axis not in moved] + moved
        levels.append(tuple(heights))
    return levels


def _fan(groups: ValueGroups, height: int) -> float:
    """Children that a node of a height has, in the mean."""
    return groups.nodes(height - 1) / groups.nodes(height) if height else 1.0


# The tree on tables small enough to visit: every node is measured, levels agree before anything is shared out.
#
# Up: a node's own noisy sum and that of its children are one number measured twice, and are combined by the inverse
# of their variances. Down: a parent's records are shared out by cells, and the noisy children move their share as far
# as noise alone would not explain; then the row becomes whole numbers that add up to the parent.


LEAST_FREE = 1e-9  # of a row that an only child leaves to others


@dataclass(frozen=True, kw_only=True, eq=False)
class Visited:
    """A tree of which every node is held: `noises` by level below the root, None where a level is not measured."""

    tree: Tree
    noises: tuple[CountNoise | None, ...]

    def publish(self, counts: Counts, *, total: int, rng: Rng) -> Counts:
        """Measure all levels, agree upwards, share out downwards.

        Guarantee: what the noises of all levels cost together, if `total` is public or already noisy: a neighbouring
        table changes the sums of a level as it changes the cells. Proof: proofs/table.md
        Source: Hay et al. 2010 (up and down); Efron, Morris 1973 (shrinkage); Terada 2017, 4.3-4.4 (rows).
        """
        return self._counts(counts, self.share_out(self.measure(counts, rng=rng), total=total, rng=rng))

    def measure(self, counts: Counts, *, rng: Rng) -> list[Integers | None]:
        """Add noise to the sums of all levels that are measured; a single cell holds the total."""
        sums = self._exact(counts) if self.tree.steps else []
        return [self._measure(level, exact, rng) for level, exact in enumerate(sums, start=1)]

    def share_out(self, noisy: list[Integers | None], *, total: int, rng: Rng) -> Integers:
        """Agree upwards, share out downwards: the published cells, by leaf."""
        agreed, variances = self._agree(noisy)
        published = np.array([total], dtype=np.int64)
        for level, (values, variance) in enumerate(zip(agreed, variances, strict=True), start=1):
            published = self._share(level, published, values, variance, rng)
        return published

    @cached_property
    def capacities(self) -> list[Integers]:
        """Possible cells of every node, by level from the root."""
        schema = self.tree.schema
        codes = self._cells
        capacity = np.ones(schema.size, dtype=np.int64)
        if schema.impossible:
            capacity = (~schema.is_impossible(codes)).astype(np.int64)
        rooms = [capacity]
        for level in range(len(self.tree.levels) - 1, 0, -1):
            rooms.append(np.bincount(self.parents[level], weights=rooms[-1]).astype(np.int64))
        return rooms[::-1]

    @cached_property
    def _cells(self) -> Integers:
        """Codes (cells, attributes) of the cells, in the order of the last level."""
        ranks = self._radix(len(self.tree.levels) - 1).decode(np.arange(self.tree.schema.size)[:, None])
        return self.tree.codes(ranks)

    @property
    def leaf_radix(self) -> Radix:
        """Number the cells of the last level by their ranks."""
        return self._radix(len(self.tree.levels) - 1)

    def _radix(self, level: int) -> Radix:
        heights = zip(self.tree.value_groups, self.tree.levels[level], strict=True)
        return Radix(tuple(groups.nodes(height) for groups, height in heights))

    @cached_property
    def parents(self) -> list[Integers]:
        """Number the node above each node, by level; the root has none."""
        levels = range(1, len(self.tree.levels))
        return [np.zeros(0, dtype=np.int64), *(self._parents(level) for level in levels)]

    def _parents(self, level: int) -> Integers:
        nodes = self._radix(level).decode(np.arange(self.tree.size(level))[:, None])
        heights = zip(self.tree.value_groups, self.tree.levels[level], self.tree.levels[level - 1], strict=True)
        above = [each.climb(nodes[:, place], low, high) for place, (each, low, high) in enumerate(heights)]
        return self._radix(level - 1).encode(np.column_stack(above))[:, 0]

    def _exact(self, counts: Counts) -> list[Integers]:
        """Exact sums of the nodes, by level from the first below the root."""
        ranks = self.tree.ranks(counts.columns())
        cells = self._radix(len(self.tree.levels) - 1).encode(ranks)[:, 0]
        sums = [np.zeros(self.tree.schema.size, dtype=np.int64)]
        sums[0][cells] = counts.values
        for level in range(len(self.tree.levels) - 1, 1, -1):
            # floats hold these sums exactly: totals are below 2^52
            added = np.bincount(self.parents[level], weights=sums[-1], minlength=self.tree.size(level - 1))
            sums.append(added.astype(np.int64))
        return sums[::-1]

    def _measure(self, level: int, exact: Integers, rng: Rng) -> Integers | None:
        noise = self.noises[level - 1]
        return None if noise is None else noise.add(exact, rng=rng)

    def _agree(self, noisy: list[Integers | None]) -> tuple[list[Reals], list[Reals]]:
        """The best estimate of every node from its own measurement and all below it, with its variance."""
        values: list[Reals] = []
        variances: list[Reals] = []
        for level in range(len(noisy), 0, -1):
            own, noise = noisy[level - 1], self.noises[level - 1]
            found = self._from_below(level, values[-1], variances[-1]) if values else None
            if own is not None and noise is not None:
                found = _combine(own.astype(np.float64), noise.variance, found)
            if found is None:
                raise AssertionError("the cells are always measured")
            values.append(found[0])
            variances.append(found[1])
        return values[::-1], variances[::-1]

    def _from_below(self, level: int, values: Reals, variances: Reals) -> tuple[Reals, Reals]:
        """Add up the children that can hold records."""
        parents, is_possible = self.parents[level + 1], self.capacities[level + 1] > 0
        size = self.tree.size(level)
        added: Reals = np.bincount(parents, weights=np.where(is_possible, values, 0.0), minlength=size).astype(
            np.float64
        )
        variance = np.bincount(parents, weights=np.where(is_possible, variances, 0.0), minlength=size)
        return added, variance.astype(np.float64)

    def _share(self, level: int, published: Integers, values: Reals, variances: Reals, rng: Rng) -> Integers:
        """Share every parent out among its possible children."""
        parents, capacity = self.parents[level], self.capacities[level]
        chosen = np.flatnonzero((published[parents] > 0) & (capacity > 0))
        owner = parents[chosen]
        share = capacity[chosen] / self.capacities[level - 1][owner]
        mean = share * published[owner]
        sums = np.bincount(owner, weights=values[chosen], minlength=published.size)
        surprise = values[chosen] - share * sums[owner]
        noise = variances[chosen]
        slack = estimate_spread(mean, surprise**2 / np.maximum(1 - share, LEAST_FREE), noise) if chosen.size else noise
        explained = mean + slack / (slack + noise) * surprise
        table = np.zeros(parents.size, dtype=np.int64)
        table[chosen] = share_rows(explained, owner, totals=published, rng=rng)
        return table

    def _counts(self, counts: Counts, published: Integers) -> Counts:
        kept = np.flatnonzero(published)
        codes = counts.schema.radix.encode(self._cells[kept])
        return Counts.build(counts.schema, codes, published[kept])


def _combine(own: Reals, variance: float, below: tuple[Reals, Reals] | None) -> tuple[Reals, Reals]:
    """Two measurements of one number, weighted by the inverse of their variances."""
    if below is None:
        return own, np.full(own.size, variance)
    values, noise = below
    weight = noise / (noise + variance)
    return values + weight * (own - values), noise * variance / (noise + variance)


# The tree method: noise on sums from the top down, every row made valid, only nodes that hold records opened.


Focus = Literal["cells", "regions", "both"]

DENSE_CELLS = 2**21  # up to here every node is visited: levels agree before they are shared out
OPENING_SCALES = 3  # noise scales that a node of a large table must hold to be opened by one level
LEAST_POSSIBLE = 0.01  # share of possible children in any node of a large table: below, too many proposals are refused
LEAVES = {"cells": Fraction(1), "both": Fraction(1, 2)}  # of epsilon, on the cells of a table that is visited
WIDE_LEAVES = {"cells": Fraction(4, 5), "both": Fraction(1, 2)}  # of a large one: its sums must lead to the cells


def plan_tree(schema: Schema, guarantee: DifferentialPrivacy, focus: Focus) -> CountBudget:
    """Split the promise between sums and cells: by resolution for regions, most on the cells for cells."""
    weights = level_weights(table_tree(schema))
    is_sparse = schema.size > DENSE_CELLS
    if len(weights) < 2:
        return plan(guarantee, is_sparse=is_sparse)
    leaves = WIDE_LEAVES if is_sparse else LEAVES
    sums_share = 1 - leaves.get(focus, Fraction(weights[-1], sum(weights)))
    return plan(guarantee, sums_share=sums_share, level_weights=weights[:-1], is_sparse=is_sparse)


def level_noises(tree: Tree, budget: CountBudget) -> tuple[CountNoise | None, ...]:
    """Give the noise of every level below the root, None where nothing is measured."""
    *upper, _ = level_weights(tree) or [0]
    sums = budget.sums_part
    if sums is None:
        above: list[CountNoise | None] = [None for _ in upper]
    else:
        above = [budget.noise(sums * share) for share in budget.guarantee.currency.reshare(upper)]
    return (*above, *[budget.cells_noise] * bool(tree.steps))


def level_weights(tree: Tree) -> list[int]:
    """Weigh levels by how much finer they are than the level above, in eighths of a bit: each serves so many sizes.

    The total is known, which saves the first level a bit.
    """
    sizes = [tree.size(level) for level in range(len(tree.levels))]
    bits = [8 * (math.log2(below) - math.log2(above)) for above, below in itertools.pairwise(sizes)]
    return [max(1, round(each - 8 * (place == 0))) for place, each in enumerate(bits)]


def grow_table(counts: Counts, budget: CountBudget, *, focus: Focus, total: int, rng: Rng) -> Counts:
    """Publish a table by the tree: whole numbers, not negative, with the given total.

    Guarantee: what the noises of `level_noises` cost together, given a total that is public or already noisy.
    Proof: proofs/table.md
    Error: `preview` tells the noise of cells and regions. Projected rows lift empty cells and lower large ones.
    Source: Hay et al. 2010; Terada, sparse tables, section 4 (nodes at 0 stay closed).
    """
    tree = table_tree(counts.schema)
    noises = level_noises(tree, budget)
    if counts.schema.size <= DENSE_CELLS:
        return Visited(tree=tree, noises=noises).publish(counts, total=total, rng=rng)
    top_down = TopDownTree(
        tree=tree,
        noises=tuple(noise for noise in noises if noise is not None),
        thin_cells=focus != "regions",
        opening_scales=OPENING_SCALES,
    )  # rows are not explained here: in sparse tables that was slower and farther from the truth (benchmarks/table.py)
    return top_down.publish(counts, total=total, rng=rng)


def tree_fits(schema: Schema) -> bool:
    """Tell whether the impossible combinations leave enough of every node of a large table."""
    if not schema.impossible or schema.size <= DENSE_CELLS:
        return True
    tree = table_tree(schema)
    possible = Possible(tree)
    return all(possible.least_share(tree.step(level, -1)) >= LEAST_POSSIBLE for level in range(len(tree.steps)))
