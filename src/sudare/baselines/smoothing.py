"""Records sampled from a histogram that was mixed with an even one (Wasserman, Zhou 2010)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.baselines.base import check_schema, promise, sampled, smoothed
from sudare.baselines.synthetic import smoothing
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Unit

Reals = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class WassermanZhou:
    """Mix the shares of the cells with even shares, and sample k records.

    f*_i = (1 - d) v_i/n + d/p,  v* ~ Multinomial(k, f*),  d = p/((e^(epsilon/k) - 1) n + p)

    The paper prints f* = (1 - d) f + d; without the 1/p its own equation 13 does not follow. k is n unless `records`
    is given. With k = n this is `SynthMd(reading="redraw-sound")`: the same law, found twice.

    Guarantee: epsilon-DP for one replaced row, epsilon = k ln((1 - d) p/(n d) + 1), attained.
    Proof: proofs/baselines.md
    Error: E[v*] = k f*; at epsilon = 1/10 with 100 records in 100 cells d is 0.999, so hardly anything is left.
    Source: Terada 2017, equations 13 and 19 (printed without 1/p); Wasserman, Zhou 2010, section 4

    >>> round(WassermanZhou(epsilon="0.1").weight(cells=100, total=100), 3)  # equation 19
    0.999
    """

    epsilon: Fraction | str | int | float
    records: int | None = None  # how many to sample; as many as there are by default

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        if self.records is not None and self.records < 1:
            raise ParameterError("records ({records}) must be at least 1", records=self.records)

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def alpha(self, total: int) -> float:
        """The same mixture as a number added to every cell: f* = (v + alpha)/(n + p alpha)."""
        return smoothing(float(self.epsilon) / max(self._sample(total), 1))

    def weight(self, *, cells: int, total: int) -> float:
        """The weight d of the even table, p alpha/(n + p alpha)."""
        return cells * self.alpha(total) / (total + cells * self.alpha(total))

    def real_epsilon(self, total: int) -> float:
        """The largest log ratio between neighbours: all k records fall in a cell that holds one of the truth, or none.

        >>> round(WassermanZhou(epsilon=2).real_epsilon(50), 9)
        2.0
        """
        return self._sample(total) * math.log1p(1 / self.alpha(total))

    def shares(self, counts: Counts) -> Reals:
        """The mixed shares f* of all cells."""
        return smoothed(counts, self.alpha(counts.total))

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Mix, then sample."""
        self.guarantee(unit=counts.schema.unit, neighbours=neighbours)
        check_schema(counts.schema)
        return sampled(counts.schema, self.shares(counts), records=self._sample(counts.total), rng=rng)

    def _sample(self, total: int) -> int:
        return total if self.records is None else self.records
