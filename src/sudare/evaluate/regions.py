"""How far sums over regions are from the truth: blocks of 1, 4, 16, ... cells along an order of the cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.evaluate.distances import l2_distance
from sudare.evaluate.evaluation import Evaluation
from sudare.methods.table.morton import WORD_BITS, CellOrder, Order

BLOCKS = tuple(4**power for power in range(9))
"""1, 4, ..., 65,536 cells."""


def region_errors(
    true: Counts, published: Counts, *, order: Order = "morton", blocks: Sequence[int] = BLOCKS
) -> dict[int, Evaluation]:
    """Compute the root mean square error of the sums over all blocks of so many cells, on sparse tables of any size.

    A block of 2^l cells is a node l halvings above the cells in the order ("morton" or "radix"); at the edge of the
    domain it holds fewer. Empty blocks count: the mean is over all of them.

    >>> from sudare.schema import Attribute, NumberBins, Schema
    >>> cells = Attribute(name="cell", domain=NumberBins.of_width(0, 4, 1))
    >>> schema = Schema(name="line", attributes=(cells,))
    >>> region_errors(Counts.build(schema, [0], [4]), Counts.build(schema, [1], [4]), blocks=[1, 4])[4]
    <Evaluation, not for publication: RMSE of sums over 4 cells 0>
    """
    if true.schema.sizes != published.schema.sizes:
        raise ParameterError("the two tables must be over the same cells; project or coarsen the truth first")
    cells = CellOrder(schema=true.schema, order=order)
    paths = cells.paths(np.concatenate([true.codes, published.codes]))
    errors = np.concatenate([true.values, -published.values])
    return {block: _error(cells, paths, errors, block) for block in blocks}


def rollup_errors(true: Counts, published: Counts, name: str) -> dict[int, Evaluation]:
    """Compute the root mean square error of the sums over the groups of every level of an attribute's hierarchy.

    Level 0 are the values themselves, all other attributes added up. Groups of nobody count.

    >>> from sudare.schema import Attribute, MeshCells, Schema
    >>> schema = Schema(name="m", attributes=(Attribute(name="mesh", domain=MeshCells(level=2, area=("5339",))),))
    >>> rollup_errors(Counts.build(schema, [0], [8]), Counts.build(schema, [1], [8]), "mesh")[0]
    <Evaluation, not for publication: RMSE of mesh at level 0 1.41421>
    """
    first, second = true.project([name]), published.project([name])
    found = {}
    for level in range(first.schema.attribute(name).height + 1):
        one, other = first.coarsen({name: level}), second.coarsen({name: level})
        distance = l2_distance(one, other).value
        found[level] = Evaluation(f"RMSE of {name} at level {level}", distance / math.sqrt(one.schema.size))
    return found


def block_errors(
    true: NDArray[Any], published: NDArray[Any], *, blocks: Sequence[int] = BLOCKS
) -> Mapping[int, Evaluation]:
    """Compute the same for two vectors that are in the wanted order already (Morton, shuffled, ...).

    >>> block_errors(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 6]), blocks=[1, 2])[2]
    <Evaluation, not for publication: RMSE of sums over 2 cells 1.41421>
    """
    errors = np.asarray(published, dtype=np.float64) - np.asarray(true, dtype=np.float64)
    found = {}
    for block in blocks:
        sums = np.add.reduceat(errors, np.arange(0, len(errors), block))
        found[block] = _named(block, math.sqrt(float(np.mean(sums**2))))
    return found


def _error(cells: CellOrder, paths: NDArray[np.int64], errors: NDArray[np.int64], block: int) -> Evaluation:
    halvings = _halvings(block, cells.levels)
    heads = paths.copy()
    used = cells.levels - halvings  # bits of a path that name its block
    for word in range(cells.words):
        dropped = min(max((word + 1) * WORD_BITS - used, 0), WORD_BITS)
        heads[:, word] >>= dropped
    order = np.lexsort(heads.T[::-1])
    heads, errors = heads[order], errors[order]
    if not len(heads):
        return _named(block, 0.0)
    starts = np.flatnonzero(np.concatenate([[True], (heads[1:] != heads[:-1]).any(axis=1)]))
    sums = np.add.reduceat(errors, starts).astype(np.float64)
    return _named(block, math.sqrt(float(np.dot(sums, sums)) / _count(cells, halvings)))


def _halvings(block: int, levels: int) -> int:
    halvings = block.bit_length() - 1
    if block < 1 or block != 1 << halvings:
        raise ParameterError("a block ({block}) must be a power of two", block=block)
    return min(halvings, levels)


def _count(cells: CellOrder, halvings: int) -> int:
    """Count the blocks that hold a cell: along every axis as many as its size has, rounded up."""
    halved = [axis for axis, _ in cells.plan[cells.levels - halvings :]]
    return math.prod(-(-size // 2 ** halved.count(axis)) for axis, size in enumerate(cells.sizes))


def _named(block: int, value: float) -> Evaluation:
    return Evaluation(f"RMSE of sums over {block} cells", value)
