"""A figure that was computed from the truth, and therefore must not leave."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError, ReleaseError
from sudare.noise import Rng
from sudare.noise.uniform import draw_interval, draw_order
from sudare.releases import Release
from sudare.releases.columns import find_frame, read_codes, read_numbers
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Integers, Reals

STAMP = "not for publication"


class Evaluation:
    """One figure of a comparison with the truth: read `value`, show it to the steward, store it nowhere.

    It has no way into a file: no JSON, no pickle, no copy; a writer of releases does not take it.

    >>> Evaluation("L2 distance", 12.5)
    <Evaluation, not for publication: L2 distance 12.5>
    """

    __slots__ = ("name", "value")

    name: str
    value: float

    def __init__(self, name: str, value: float) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "value", value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("an Evaluation is immutable")

    def __repr__(self) -> str:
        return f"<Evaluation, {STAMP}: {self.name} {self.value:.6g}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be stored."""
        raise ReleaseError(
            "an evaluation is computed from the true table and is not for publication; it cannot be stored"
        )


# --- a release as a table of counts -----------------------------------------------------------------------------------


def counts_of(release: Release, *, frame: str = "records") -> Counts:
    """Count what is published over the schema that the certificate carries: records, or cells with their `count`."""
    schema, columns = Schema.from_dict(release.certificate.schema), find_frame(release, frame).columns
    codes = np.column_stack([read_codes(attribute, columns[attribute.name]) for attribute in schema.attributes])
    is_counted = "count" in columns and "count" not in schema.names  # else each row is a record
    weights = read_numbers(columns["count"]).astype(np.int64) if is_counted else None
    return Counts.from_columns(schema, codes, weights)


# How far a release is from the truth, on sparse tables of any number of cells.
#
# Every figure costs what the stored cells cost; the table is never made dense.


def l2_distance(true: Counts, published: Counts) -> Evaluation:
    """Compute the Euclidean distance of two tables over all cells: sqrt(sum (v - v')^2), the sum exact.

    Source: Terada, Yamaguchi, Hongo 2017, section 5.2

    >>> from sudare.schema import Attribute, Schema, Values
    >>> schema = Schema(name="pets", attributes=(Attribute(name="pet", domain=Values(("cat", "dog"))),))
    >>> l2_distance(Counts.build(schema, [0], [3]), Counts.build(schema, [1], [4]))
    <Evaluation, not for publication: L2 distance 5>
    """
    first, second = _align(true, published)
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
    first, second = _align(true, published)
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
    first, second = _align(true, published)
    misplaced = int(second[first == 0].sum())
    return Evaluation("share of records in truly empty cells", misplaced / max(published.total, 1))


def _align(true: Counts, published: Counts) -> tuple[Integers, Integers]:
    """The counts of both tables over the cells that either stores, in flattened order."""
    if (true.schema.names, true.schema.sizes) != (published.schema.names, published.schema.sizes):
        raise ParameterError(
            "the release and the true table must have the same attributes; project or coarsen the true table first"
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


def _sum_of_squares(numbers: Integers) -> int:
    largest = int(np.abs(numbers).max(initial=0))
    if largest**2 * numbers.size < 2**63:
        return int(np.dot(numbers, numbers))
    return sum(int(number) ** 2 for number in numbers)


# How far sums over regions are from the truth: blocks of 1, 4, 16, ... cells along an order of the cells.


BLOCKS = tuple(4**power for power in range(9))
"""1, 4, ..., 65,536 cells."""


def rollup_errors(true: Counts, published: Counts, name: str) -> dict[int, Evaluation]:
    """Compute the root mean square error of the sums over the groups of every level of an attribute's hierarchy.

    Level 0 are the values themselves, all other attributes added up. Groups of nobody count.

    >>> from sudare.schema import Attribute, MeshCells, Schema
    >>> schema = Schema(name="m", attributes=(Attribute(name="mesh", domain=MeshCells(level=2, area=("5339",))),))
    >>> rollup_errors(Counts.build(schema, [0], [8]), Counts.build(schema, [1], [8]), "mesh")[0]
    <Evaluation, not for publication: RMSE of mesh at level 0 1.41421>
    """
    first, second = true.project([name]), published.project([name])
    errors = {}
    for level in range(first.schema.attribute(name).height + 1):
        groups = first.coarsen({name: level})
        distance = l2_distance(groups, second.coarsen({name: level})).value
        errors[level] = Evaluation(f"RMSE of {name} at level {level}", distance / math.sqrt(groups.schema.size))
    return errors


def block_errors(
    true: NDArray[Any], published: NDArray[Any], *, blocks: Sequence[int] = BLOCKS
) -> Mapping[int, Evaluation]:
    """Compute the same for two vectors that are in the wanted order already (Morton, shuffled, ...).

    >>> block_errors(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 6]), blocks=[1, 2])[2]
    <Evaluation, not for publication: RMSE of sums over 2 cells 1.41421>
    """
    errors = np.asarray(published, dtype=np.float64) - np.asarray(true, dtype=np.float64)
    means = {}
    for block in blocks:
        sums = np.add.reduceat(errors, np.arange(0, len(errors), block))
        means[block] = name_block_error(block, math.sqrt(float(np.mean(sums**2))))
    return means


def name_block_error(block: int, value: float) -> Evaluation:
    """Name the error of sums over so many cells."""
    return Evaluation(f"RMSE of sums over {block} cells", value)


# Workloads of counts, and how far a view is from the truth on them: all marginals, all prefixes, random ranges.


class Answering(Protocol):
    """What answers counts: a view, or the truth."""

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, one axis each."""

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes: row q holds the least and largest code of every attribute, both included."""


@dataclass(frozen=True, slots=True, eq=False)
class TrueTable:
    """The private table as something that answers. What it says stays with the steward."""

    counts: Counts

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the true table of some attributes."""
        kept = self.counts.schema.select(names)
        cells = np.zeros(self.counts.nonzero, dtype=np.int64)
        for name in names:
            cells = cells * kept.attribute(name).size + self.counts.column(name)
        table = np.bincount(cells, weights=self.counts.values, minlength=kept.size)
        return table.astype(np.float64).reshape(kept.sizes)

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes, each over the attributes that it restricts only."""
        columns = np.ascontiguousarray(self.counts.columns().T.astype(np.int32))
        tops = np.array(self.counts.schema.sizes) - 1
        totals = np.empty(len(lows))
        for query, (low, high) in enumerate(zip(lows, highs, strict=True)):
            inside = np.ones(self.counts.nonzero, dtype=bool)
            for place in np.flatnonzero((low > 0) | (high < tops)):
                inside &= (columns[place] >= low[place]) & (columns[place] <= high[place])
            totals[query] = self.counts.values[inside].sum()
        return totals


def random_ranges(schema: Schema, dimensions: int, *, queries: int, rng: Rng) -> tuple[Codes, Codes]:
    """Draw ranges over random attributes: a uniform length for each, then a uniform place (as in the paper).

    >>> from sudare.noise import SeededRng
    >>> from sudare.schema import Attribute, Values
    >>> pair = tuple(Attribute(name=name, domain=Values(("0", "1", "2"))) for name in "ab")
    >>> lows, highs = random_ranges(Schema(name="s", attributes=pair), 1, queries=5, rng=SeededRng(1))
    >>> bool((lows <= highs).all()), lows.shape
    (True, (5, 2))
    """
    sizes = schema.sizes
    if not 1 <= dimensions <= len(sizes):
        raise ParameterError("dimensions ({k}) must be between 1 and {d}", k=dimensions, d=len(sizes))
    lows = np.zeros((queries, len(sizes)), dtype=np.int64)
    highs = np.tile(np.array(sizes, dtype=np.int64) - 1, (queries, 1))
    for query in range(queries):
        for place in draw_order(len(sizes), rng=rng)[:dimensions]:
            start, stop = draw_interval(sizes[place], rng=rng)
            lows[query, place], highs[query, place] = start, stop - 1
    return lows, highs


def rmse_of_marginals(truth: Answering, view: Answering, schema: Schema, ways: int) -> Evaluation:
    """Root mean square error over every cell of every table of so many attributes."""
    square, cells = 0.0, 0
    for names in itertools.combinations(schema.names, ways):
        table = truth.marginal(names)
        square += float(((table - view.marginal(names)) ** 2).sum())
        cells += table.size
    return Evaluation(f"RMSE of {ways}-way marginals", math.sqrt(square / cells))


def rmse_of_prefixes(truth: Answering, view: Answering, schema: Schema) -> Evaluation:
    """Root mean square error over every pair of prefixes {a <= x, b <= y} of every two attributes."""
    square, cells = 0.0, 0
    for names in itertools.combinations(schema.names, 2):
        table = truth.marginal(names) - view.marginal(names)
        square += float((table.cumsum(axis=0).cumsum(axis=1) ** 2).sum())
        cells += table.size
    return Evaluation("RMSE of Prefix-2D", math.sqrt(square / cells))


def rmse_of_ranges(true: Reals, view: Answering, lows: Codes, highs: Codes) -> Evaluation:
    """Root mean square error over ranges whose true counts are given."""
    return Evaluation("RMSE of ranges", math.sqrt(float(((true - view.ranges(lows, highs)) ** 2).mean())))
