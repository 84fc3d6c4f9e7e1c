"""Records sampled from a table that was made safe first: by noise (Synth-Lap) or by smoothing (Synth-MD)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from papers.baselines.base import check_choice, check_schema, generator, promise, sampled, smoothed
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng, geometric
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Unit
from sudare.schema.arrays import Reals

NOISES = ("geometric", "laplace")
MD_READINGS = ("once", "redraw", "redraw-sound")
SENSITIVITY = 2  # one replaced record changes two cells by one
LEAST_ALPHA = 1e-300  # a larger alpha is safer, and Dirichlet draws need one above 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SynthLap:
    """Noise in every cell, negative cells cut to 0, n records sampled from the shares.

    q_i = max(v_i + Z_i, 0) / sum_s max(v_s + Z_s, 0),  v* ~ Multinomial(n, q)

    Z is two-sided geometric with a = e^(-epsilon/2), drawn exactly; `noise="laplace"` is the paper's Laplace(2/epsilon)
    in floats, for the reproduction of its tables only: noise in floats promises nothing.

    Guarantee: epsilon-DP for one replaced row: the noise is, and the rest looks at the noisy table and n only.
    Error: cutting lifts the many empty cells, so the shares of the large ones sink (a fat tail); sampling adds a
    variance of n q_i (1 - q_i) that no epsilon removes.
    Source: Terada 2017, equations 14 and 15; Abowd, Vilhuber 2008; Wasserman, Zhou 2010

    >>> SynthLap(epsilon=1).guarantee().epsilon
    Fraction(1, 1)
    """

    epsilon: Fraction | str | int | float
    noise: Literal["geometric", "laplace"] = "geometric"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        check_choice("noise", self.noise, NOISES)

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Noise, cut, sample."""
        self.guarantee(unit=counts.schema.unit, neighbours=neighbours)
        check_schema(counts.schema)
        weights = np.maximum(self._noisy(counts, rng), 0.0)
        return sampled(counts.schema, weights, records=counts.total, rng=rng)

    def _noisy(self, counts: Counts, rng: Rng) -> Reals:
        exact, epsilon = counts.dense(), Fraction(self.epsilon)
        if self.noise == "geometric":
            return geometric(exact, epsilon=epsilon, sensitivity=SENSITIVITY, rng=rng).astype(np.float64)
        return exact + generator(rng).laplace(scale=float(SENSITIVITY / epsilon), size=exact.size)


@dataclass(frozen=True, kw_only=True, slots=True)
class SynthMd:
    """Records sampled from a Dirichlet distribution around the table, smoothed by alpha in every cell.

    once          q ~ Dirichlet(v + alpha), v* ~ Multinomial(n, q),  alpha = n/(e^epsilon - 1)
    redraw        q is drawn anew for every record: v* ~ Multinomial(n, (v + alpha)/(n + p alpha)), the same alpha
    redraw-sound  the same with the alpha that it needs: alpha = 1/(e^(epsilon/n) - 1)

    A Dirichlet-multinomial draw of one record has the mean of the Dirichlet as its law, so redrawing for every record
    is sampling from the mean n times; the paper's n draws of p gamma values each are not needed.

    Guarantee: epsilon-DP for one replaced row for "once" (ln(1 + n/alpha)) and "redraw-sound" (n ln(1 + 1/alpha)), both
    attained. "redraw" has n ln(1 + (e^epsilon - 1)/n): just below e^epsilon - 1 for small epsilon and beyond 10,000
    at the paper's epsilon = 10; see `real_epsilon`. Proof: proofs/baselines.md
    Error: E[v*] = n (v + alpha)/(n + p alpha): even, unless alpha is small against the cells; "once" has nearly twice
    the sampling variance of "redraw".
    Source: Terada 2017, equation 12; Machanavajjhala et al. 2008 (who draw once)

    >>> round(SynthMd(epsilon="0.1").alpha(100))  # section 3.4 of the paper
    951
    """

    epsilon: Fraction | str | int | float
    reading: Literal["once", "redraw", "redraw-sound"] = "once"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        check_choice("reading", self.reading, MD_READINGS)

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise; the paper's redraw has none of its own name."""
        if self.reading == "redraw":
            raise ParameterError("redrawing for every record does not keep epsilon; ask real_epsilon for what it keeps")
        return promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def alpha(self, records: int) -> float:
        """What is added to every cell of a table of n records."""
        epsilon = float(self.epsilon)
        if self.reading == "redraw-sound":
            return smoothing(epsilon / max(records, 1))
        return max(records * smoothing(epsilon), LEAST_ALPHA)

    def real_epsilon(self, records: int) -> float:
        """The largest log ratio between neighbours: all n records fall in a cell that holds one of the truth, or none.

        >>> round(SynthMd(epsilon=10, reading="redraw").real_epsilon(10_000))
        11639
        """
        if self.reading == "once":
            return math.log1p(records / self.alpha(records))
        return records * math.log1p(1 / self.alpha(records))

    def mean_shares(self, counts: Counts) -> Reals:
        """The expected share of every cell, (v + alpha)/(n + p alpha)."""
        return smoothed(counts, self.alpha(counts.total))

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Smooth, draw shares, sample."""
        promise(Fraction(self.epsilon), unit=counts.schema.unit, neighbours=neighbours)
        check_schema(counts.schema)
        if self.reading == "once":
            shares = generator(rng).dirichlet(counts.dense() + self.alpha(counts.total))
        else:
            shares = self.mean_shares(counts)
        return sampled(counts.schema, shares, records=counts.total, rng=rng)


def smoothing(epsilon: float) -> float:
    """Compute 1/(e^epsilon - 1), without overflow and never 0: a larger value is safer.

    >>> smoothing(math.log(2))
    1.0
    """
    return max(math.exp(-epsilon) / -math.expm1(-epsilon), LEAST_ALPHA)


# Records sampled from a histogram that was mixed with an even one (Wasserman, Zhou 2010).


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
