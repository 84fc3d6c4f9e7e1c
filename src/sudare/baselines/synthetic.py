"""Records sampled from a table that was made safe first: by noise (Synth-Lap) or by smoothing (Synth-MD)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sudare.baselines.base import check_choice, check_schema, generator, promise, sampled, smoothed
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng, geometric
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Unit

NOISES = ("geometric", "laplace")
MD_READINGS = ("once", "redraw", "redraw-sound")
SENSITIVITY = 2  # one replaced record changes two cells by one
LEAST_ALPHA = 1e-300  # a larger alpha is safer, and Dirichlet draws need one above 0

Reals = NDArray[np.float64]


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
