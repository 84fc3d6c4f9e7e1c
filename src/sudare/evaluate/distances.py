"""How far a release is from the truth, on sparse tables of any number of cells.

Every figure costs what the stored cells cost; the table is never made dense.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.evaluate.evaluation import Evaluation

Numbers = NDArray[np.int64]


def l2_distance(true: Counts, published: Counts) -> Evaluation:
    """Compute the Euclidean distance of two tables over all cells: sqrt(sum (v - v')^2), the sum exact.

    Source: Terada, Yamaguchi, Hongo 2017, section 5.2

    >>> from sudare.schema import Attribute, Schema, Values
    >>> schema = Schema(name="pets", attributes=(Attribute(name="pet", domain=Values(("cat", "dog"))),))
    >>> l2_distance(Counts.build(schema, [0], [3]), Counts.build(schema, [1], [4]))
    <Evaluation, not for publication: L2 distance 5>
    """
    first, second = _aligned(true, published)
    return Evaluation("L2 distance", math.sqrt(_sum_of_squares(first - second)))


def ks_distance(true: Counts, published: Counts) -> Evaluation:
    """Compute the Kolmogorov-Smirnov distance: the largest difference of the cumulative shares of records.

    Cells are taken in flattened order, the first attribute slowest. With equal totals n this is
    max |cumulative difference| / n; otherwise each table is taken over its own total.

    Source: Terada, Yamaguchi, Hongo 2017, section 5.2

    >>> from sudare.schema import Attribute, Schema, Values
    >>> schema = Schema(name="pets", attributes=(Attribute(name="pet", domain=Values(("cat", "dog", "fox"))),))
    >>> ks_distance(Counts.build(schema, [0, 2], [3, 1]), Counts.build(schema, [1, 2], [3, 1]))
    <Evaluation, not for publication: KS distance 0.75>
    """
    first, second = _aligned(true, published)
    if true.total == published.total:
        # whole numbers until the one division: the figure of the paper, exactly
        worst = int(np.abs(np.cumsum(first - second)).max(initial=0))
        return Evaluation("KS distance", worst / max(true.total, 1))
    shares = np.cumsum(first) / max(true.total, 1) - np.cumsum(second) / max(published.total, 1)
    return Evaluation("KS distance", float(np.abs(shares).max(initial=0.0)))


def empty_cell_share(true: Counts, published: Counts) -> Evaluation:
    """Compute the share of published records in cells where nobody is in truth.

    >>> from sudare.schema import Attribute, Schema, Values
    >>> schema = Schema(name="pets", attributes=(Attribute(name="pet", domain=Values(("cat", "dog"))),))
    >>> empty_cell_share(Counts.build(schema, [0], [9]), Counts.build(schema, [0, 1], [6, 2]))
    <Evaluation, not for publication: share of records in truly empty cells 0.25>
    """
    first, second = _aligned(true, published)
    misplaced = int(second[first == 0].sum())
    return Evaluation("share of records in truly empty cells", misplaced / max(published.total, 1))


def _aligned(true: Counts, published: Counts) -> tuple[Numbers, Numbers]:
    """The counts of both tables over the cells that either stores, in flattened order."""
    if (true.schema.names, true.schema.sizes) != (published.schema.names, published.schema.sizes):
        raise ParameterError(
            "the release and the truth must be over the same attributes; project or coarsen the truth first"
        )
    codes = np.concatenate([true.codes, published.codes])
    order = np.lexsort(codes.T[::-1])  # word 0 is the most significant: sorted words are flattened order
    changes = (codes[order[1:]] != codes[order[:-1]]).any(axis=1)
    cell = np.empty(len(order), dtype=np.int64)
    cell[order] = np.concatenate([np.zeros(min(len(order), 1), dtype=np.int64), np.cumsum(changes)])
    cells = int(cell.max(initial=-1)) + 1
    first, second = np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    first[cell[: true.nonzero]] = true.values
    second[cell[true.nonzero :]] = published.values
    return first, second


def _sum_of_squares(numbers: Numbers) -> int:
    largest = int(np.abs(numbers).max(initial=0))
    if largest**2 * numbers.size < 2**63:
        return int(np.dot(numbers, numbers))
    return sum(int(number) ** 2 for number in numbers)
