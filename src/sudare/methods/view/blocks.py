"""A view made of blocks: boxes that tile the domain, each with a noisy count spread evenly over its cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sudare.asking.protocol import Moments
from sudare.methods.view.leaves import LeafAxis, declared_axis
from sudare.methods.view.tables import AxisWeights
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Reals


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockView:
    """Row i is the box lows[i]..highs[i] (codes, both included), its noisy count and the variance of that noise."""

    schema: Schema
    lows: Codes
    highs: Codes
    counts: Reals
    variances: Reals

    @cached_property
    def axes(self) -> tuple[LeafAxis, ...]:
        """The declared values: blocks cut nothing finer."""
        return tuple(declared_axis(attribute) for attribute in self.schema.attributes)

    @property
    def total(self) -> float:
        """How many records it holds."""
        return max(0.0, float(self.counts.sum()))

    def moments(self, boxes: Sequence[AxisWeights]) -> Moments:
        """Estimate a sum over disjoint boxes.

        Noise: exact, the blocks' noise is independent. Model: where a box cuts a block, all its records might sit on
        either side; as if they sat in one cell drawn evenly, the variance is count^2 Var(f). A sum of weights that are
        not negative is not negative either: an estimate below 0 is taken for 0, and its interval starts from there.
        """
        mean, square, hidden = (np.zeros(self.counts.size) for _ in range(3))
        drift, least = 0.0, 0.0
        for plain in boxes:
            box = {axis: self.axes[axis].read(one) for axis, one in plain.items()}
            means = {axis: one.mean for axis, one in box.items()}
            mean = mean + self._mean(means)
            square = square + self._mean({axis: one**2 for axis, one in means.items()})
            for axis, one in box.items():
                if one.inside.any() or one.drift.any():
                    hidden = hidden + self._mean({**means, axis: one.inside})
                    drift += float(np.maximum(self.counts, 0.0) @ self._mean({**means, axis: one.drift}))
            least = least if all(bool((one >= 0).all()) for one in means.values()) else -math.inf
        cut, records = np.maximum(square - mean**2, 0.0), np.maximum(self.counts, 0.0)
        return Moments(
            value=max(least, float(self.counts @ mean)),
            noise=float(self.variances @ mean**2),
            model=float(records**2 @ cut),
            inside=float(records**2 @ hidden) + drift**2,
        )

    def _mean(self, box: Mapping[int, Reals]) -> Reals:
        """The mean weight of the cells of every block."""
        share = np.ones(self.counts.size)
        for axis, weights in box.items():
            prefix = np.concatenate([[0.0], np.cumsum(weights)])
            low, high = self.lows[:, axis], self.highs[:, axis] + 1
            share *= (prefix[high] - prefix[low]) / (high - low)
        return share

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes of codes, each over the attributes that it restricts only."""
        tops = np.array(self.schema.sizes) - 1
        columns = np.ascontiguousarray(self.lows.T), np.ascontiguousarray(self.highs.T)
        answers = np.empty(len(lows))
        for query, (low, high) in enumerate(zip(lows, highs, strict=True)):
            share = self.counts
            for place in np.flatnonzero((low > 0) | (high < tops)):
                least, most = columns[0][place], columns[1][place]
                overlap = np.minimum(most, high[place]) - np.maximum(least, low[place]) + 1
                share = share * np.maximum(overlap, 0) / (most - least + 1)
            answers[query] = share.sum()
        return answers

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes: differences at the corners of every block, then prefix sums."""
        places = [self.schema.position(name) for name in names]
        sizes = [self.schema.sizes[place] + 1 for place in places]
        cells = np.ones(self.counts.size)
        for place in places:
            cells *= self.highs[:, place] - self.lows[:, place] + 1
        corners = np.zeros(math.prod(sizes))
        for corner in range(2 ** len(places)):
            index, sign = np.zeros(self.counts.size, dtype=np.int64), 1
            for bit, (place, size) in enumerate(zip(places, sizes, strict=True)):
                at_end = corner >> bit & 1
                sign *= -1 if at_end else 1
                index = index * size + (self.highs[:, place] + 1 if at_end else self.lows[:, place])
            corners += np.bincount(index, weights=sign * self.counts / cells, minlength=corners.size)
        table = corners.reshape(sizes)
        for axis in range(len(places)):
            table = table.cumsum(axis=axis)
        return table[tuple(slice(0, -1) for _ in places)]
