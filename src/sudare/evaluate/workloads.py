"""Workloads of counts, and how far a view is from the truth on them: all marginals, all prefixes, random ranges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.evaluate.evaluation import Evaluation
from sudare.mechanisms import Rng
from sudare.schema import Schema

Reals = NDArray[np.float64]
Codes = NDArray[np.int64]


class Answering(Protocol):
    """What answers counts: a view, or the truth."""

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, one axis each."""

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes: row q holds the least and largest code of every attribute, both included."""


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
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
        found = np.empty(len(lows))
        for query, (low, high) in enumerate(zip(lows, highs, strict=True)):
            inside = np.ones(self.counts.nonzero, dtype=bool)
            for place in np.flatnonzero((low > 0) | (high < tops)):
                inside &= (columns[place] >= low[place]) & (columns[place] <= high[place])
            found[query] = self.counts.values[inside].sum()
        return found


def random_ranges(schema: Schema, dimensions: int, *, queries: int, rng: Rng) -> tuple[Codes, Codes]:
    """Draw ranges over random attributes: a uniform length for each, then a uniform place (as in the paper).

    >>> from sudare.mechanisms import SeededRng
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
        for place in rng.permutation(len(sizes))[:dimensions]:
            length = 1 + rng.below(sizes[place])
            lows[query, place] = rng.below(sizes[place] - length + 1)
            highs[query, place] = lows[query, place] + length - 1
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
