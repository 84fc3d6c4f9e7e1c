"""How far a published table is from the true one: cells, attributes, and sums over regions of 1, 4, 16, ... cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sudare.compare.distances import BLOCKS, Evaluation, counts_of, name_block_error
from sudare.counts import Countable, Counts
from sudare.errors import ParameterError
from sudare.methods.default import compare_counts
from sudare.methods.table.morton import WORD_BITS, CellOrder, Order
from sudare.releases import Release
from sudare.report.shapes import TruthComparison
from sudare.schema.arrays import Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionComparison(TruthComparison):
    """A comparison with the truth that also knows the error of sums over so many cells (`blocks`)."""

    blocks: Mapping[int, float] = field(default_factory=dict)


def compare_release(release: Release, truth: Countable) -> RegionComparison:
    """Compare published counts with the true table: for the steward alone."""
    published = counts_of(release, frame="cells")
    true = truth.count(published.schema.names)
    plain = compare_counts(true, published)
    sizes = [block for block in BLOCKS if block <= true.schema.size]
    # the tree measures groups in the order of the codes, the wavelet along the Morton curve
    parameters = release.certificate.parameters
    order: Order = "radix" if parameters.get("algorithm", parameters.get("method")) == "tree" else "morton"
    errors = region_errors(true, published, order=order, blocks=sizes)
    blocks = {block: error.value for block, error in errors.items()}
    return RegionComparison(figures=plain.figures, true=plain.true, places=plain.places, blocks=blocks)


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
        raise ParameterError("both tables must have the same cells; project or coarsen the true table first")
    cells = CellOrder(schema=true.schema, order=order)
    paths = cells.paths(np.concatenate([true.codes, published.codes]))
    errors = np.concatenate([true.values, -published.values])
    return {block: _block_error(cells, paths, errors, block) for block in blocks}


def _block_error(cells: CellOrder, paths: Integers, errors: Integers, block: int) -> Evaluation:
    halvings = _count_halvings(block, cells.levels)
    heads = paths.copy()
    used = cells.levels - halvings  # bits of a path that name its block
    for word in range(cells.words):
        dropped = min(max((word + 1) * WORD_BITS - used, 0), WORD_BITS)
        heads[:, word] >>= dropped
    order = np.lexsort(heads.T[::-1])
    heads, errors = heads[order], errors[order]
    if not len(heads):
        return name_block_error(block, 0.0)
    starts = np.flatnonzero(np.concatenate([[True], (heads[1:] != heads[:-1]).any(axis=1)]))
    sums = np.add.reduceat(errors, starts).astype(np.float64)
    return name_block_error(block, math.sqrt(float(np.dot(sums, sums)) / _count_blocks(cells, halvings)))


def _count_halvings(block: int, levels: int) -> int:
    halvings = block.bit_length() - 1
    if block < 1 or block != 1 << halvings:
        raise ParameterError("a block ({block}) must be a power of two", block=block)
    return min(halvings, levels)


def _count_blocks(cells: CellOrder, halvings: int) -> int:
    """Count the blocks that hold a cell: along every axis as many as its size has, rounded up."""
    halved = [axis for axis, _ in cells.plan[cells.levels - halvings :]]
    return math.prod(-(-size // 2 ** halved.count(axis)) for axis, size in enumerate(cells.sizes))
