"""The tree method: noise on sums from the top down, every row made valid, only nodes that hold records opened."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Literal

from sudare.counts import Counts
from sudare.mechanisms import Rng
from sudare.methods.descent import Descent, Possible, Tree
from sudare.methods.sensitivity import Budget, plan
from sudare.methods.table.dense import Visited
from sudare.methods.table.levels import table_tree
from sudare.privacy import Guarantee
from sudare.schema import Schema

Focus = Literal["cells", "regions", "both"]

DENSE_CELLS = 2**21  # up to here every node is visited: levels agree before they are shared out
PATIENCE = 3  # noise scales that a node of a large table must hold to be opened by one level
LEAST_POSSIBLE = 0.01  # share of possible children in any node of a large table: below, too many proposals are refused
LEAVES = {"cells": Fraction(1), "both": Fraction(1, 2)}  # of epsilon, on the cells of a table that is visited
WIDE_LEAVES = {"cells": Fraction(4, 5), "both": Fraction(1, 2)}  # of a large one: its sums must lead to the cells


def plan_tree(schema: Schema, guarantee: Guarantee, focus: Focus) -> Budget:
    """Split epsilon between sums and cells: by resolution for regions, most on the cells for cells."""
    weights = _weights(table_tree(schema))
    if len(weights) < 2:
        return plan(guarantee)
    leaves = LEAVES if schema.size <= DENSE_CELLS else WIDE_LEAVES
    return plan(guarantee, sums_share=1 - leaves.get(focus, Fraction(weights[-1], sum(weights))))


def level_epsilons(tree: Tree, budget: Budget) -> tuple[Fraction, ...]:
    """Give the epsilon of every level below the root, 0 where nothing is measured."""
    *upper, _ = _weights(tree) or [0]
    sums = budget.sums_epsilon or Fraction(0)
    above = [sums * Fraction(weight, sum(upper)) for weight in upper]
    return (*above, *[budget.cells_epsilon] * bool(tree.steps))


def _weights(tree: Tree) -> list[int]:
    """Weigh levels by how much finer they are than the level above, in eighths of a bit: each serves so many sizes.

    The total is known, which saves the first level a bit.
    """
    sizes = [tree.size(level) for level in range(len(tree.levels))]
    bits = [8 * (math.log2(below) - math.log2(above)) for above, below in itertools.pairwise(sizes)]
    return [max(1, round(each - 8 * (place == 0))) for place, each in enumerate(bits)]


def grow_table(counts: Counts, budget: Budget, *, focus: Focus, total: int, rng: Rng) -> Counts:
    """Publish a table by the tree: whole numbers, not negative, with the given total.

    Guarantee: DP with the epsilons of `level_epsilons`, given a total that is public or already noisy.
    Proof: proofs/table.md
    Error: `preview` tells the noise of cells and regions. Projected rows lift empty cells and lower large ones.
    Source: Hay et al. 2010; Terada, sparse tables, section 4 (nodes at 0 stay closed).
    """
    tree = table_tree(counts.schema)
    epsilons, sensitivity = level_epsilons(tree, budget), budget.cells_sensitivity
    if counts.schema.size <= DENSE_CELLS:
        return Visited(tree=tree, epsilons=epsilons, sensitivity=sensitivity).publish(counts, total=total, rng=rng)
    descent = Descent(
        tree=tree,
        epsilons=epsilons,
        sensitivity=sensitivity,
        thin_cells=focus != "regions",
        patience=PATIENCE,
    )  # rows are not explained here: in sparse tables that was slower and farther from the truth (benchmarks/table.py)
    return descent.publish(counts, total=total, rng=rng)


def tree_fits(schema: Schema) -> bool:
    """Tell whether the impossible combinations leave enough of every node of a large table."""
    if not schema.impossible or schema.size <= DENSE_CELLS:
        return True
    tree = table_tree(schema)
    possible = Possible(tree)
    return all(possible.least_share(tree.step(level, -1)) >= LEAST_POSSIBLE for level in range(len(tree.steps)))
