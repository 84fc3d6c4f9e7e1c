"""A random sample, recoded once for all, small cells left out (Li, Qardaji, Su 2012): (epsilon, delta), not epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from papers.baselines.base import Approximate, check_schema, check_unit, generator
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng
from sudare.privacy import Neighbours, exact, exact_epsilon
from sudare.privacy.differential import check_neighbours
from sudare.schema import Unit

DUST = 1e-9  # float rounding is always counted to the unsafe side
LARGEST_EXPONENT = 700.0  # exp of more is no float; a smaller one only makes delta larger

Uncovered = Callable[[int, int, float, float], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledRecoding:
    """Keep every record with probability `rate`, see it at the given levels, and drop cells below k.

    w_c ~ Binomial(v_c, rate) for every cell c of the recoded table;  v*_c = w_c if w_c >= k, else 0

    The levels are chosen without looking at the data: that makes the recoding "strongly safe". Records are lost: about
    1 - rate of them, and every small cell.

    Guarantee: (epsilon, delta)-DP for an added or removed row, for every epsilon >= -ln(1 - rate), with the delta of
    theorem 5, `sampling_delta` (the least that holds is `exact_delta`, tens of times smaller at small epsilon); for a
    replaced row (2 epsilon, (1 + e^epsilon) delta). Never pure: a cell of k records that a neighbour has k - 1 of can
    be published by one and not by the other. Proof: proofs/baselines.md
    Error: E[v*] is about rate * v for cells far above k/rate, 0 for cells below.
    Source: Terada 2017, section 3.1; Li, Qardaji, Su, On sampling, anonymization, and differential privacy, 2012,
    theorem 5

    >>> method = SampledRecoding(epsilon=1, rate="1/10", k=20)
    >>> f"{method.guarantee().delta:.1e}"
    '4.1e-14'
    """

    epsilon: Fraction | str | int | float
    rate: Fraction | str | int | float
    k: int
    levels: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        rate = exact(self.rate, name="rate", low=Fraction(1, 10**6), high=1 - Fraction(1, 10**6))
        object.__setattr__(self, "rate", rate)
        if self.k < 1:
            raise ParameterError("k ({k}) must be at least 1", k=self.k)
        least = -math.log1p(-float(rate))
        if float(self.epsilon) < least:
            raise ParameterError(
                "epsilon ({epsilon}) must be at least {least}, which is -ln(1 - rate); sample fewer records",
                epsilon=self.epsilon,
                least=f"{least:.6f}",
            )

    @property
    def delta(self) -> float:
        """How much of the probability the epsilon does not cover, for an added or removed row."""
        return sampling_delta(k=self.k, rate=float(self.rate), epsilon=float(self.epsilon))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Approximate:
        """Tell the promise: add/remove by default, since the number of records is not kept."""
        relation = neighbours or "add-remove"
        check_neighbours(relation)
        check_unit(unit or Unit())
        epsilon, delta = Fraction(self.epsilon), self.delta
        if relation == "replace":  # one removed, one added
            epsilon, delta = 2 * epsilon, min(1.0, (1 + math.exp(float(epsilon))) * delta)
        return Approximate(epsilon=epsilon, delta=delta, neighbours=relation, unit=unit or Unit())

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Sample, recode, drop; the table is over the recoded attributes."""
        self.guarantee(unit=counts.schema.unit, neighbours=neighbours)
        check_schema(counts.schema)
        coarse = counts.coarsen(self.levels)
        sampled = generator(rng).binomial(coarse.values, float(self.rate))
        kept = sampled >= self.k
        return Counts.build(coarse.schema, coarse.codes[kept], sampled[kept])


def sampling_delta(*, k: int, rate: float, epsilon: float) -> float:
    """Compute the delta of theorem 5 of Li et al.; rounded up.

    delta = max over n >= ceil(k/gamma - 1) of P[Binomial(n, rate) > gamma n],  gamma = (e^epsilon - 1 + rate)/e^epsilon

    >>> f"{sampling_delta(k=5, rate=0.05, epsilon=1.0):.1e}"
    '6.0e-06'
    """
    return _worst(_whole_tail, k=k, rate=rate, epsilon=epsilon)


def exact_delta(*, k: int, rate: float, epsilon: float) -> float:
    """Compute the least delta that holds: of the outputs beyond gamma n only what e^epsilon does not cover counts.

    delta = max over n of sum over j >= k of (f(j; n) - e^epsilon f(j; n-1))+,  f the binomial probability

    >>> f"{exact_delta(k=5, rate=0.05, epsilon=1.0):.1e}"
    '1.1e-06'
    """
    return _worst(_excess, k=k, rate=rate, epsilon=epsilon)


def _worst(uncovered: Uncovered, *, k: int, rate: float, epsilon: float) -> float:
    """Search the worst size n of a cell. All figures are at most exp(-n KL(gamma, rate)), so the search has an end.

    Sizes from k to k/gamma - 1 are not needed for theorem 5, whose tail grows with n up to there, and do no harm.
    """
    gamma = 1 - (1 - rate) * math.exp(-epsilon)
    fall = _divergence(gamma, rate)
    n, best = k, 0.0
    while best < math.exp(-n * fall):
        least = max(k, math.floor(gamma * n - DUST) + 1)
        best = max(best, uncovered(n, least, rate, epsilon))
        n += 1
    return min(1.0, best * (1 + DUST))


def _whole_tail(n: int, least: int, rate: float, epsilon: float) -> float:
    """P[Binomial(n, rate) >= least], every term from its logarithm."""
    return math.fsum(_binomial(n, rate, j) for j in range(least, n + 1))


def _excess(n: int, least: int, rate: float, epsilon: float) -> float:
    """The part of the tail beyond e^epsilon times that of one record less: f(j; n-1)/f(j; n) = (n-j)/(n(1-rate))."""
    cover = math.exp(min(epsilon, LARGEST_EXPONENT)) / (n * (1 - rate))
    terms = (_binomial(n, rate, j) * max(1 - (n - j) * cover, 0.0) for j in range(least, n + 1))
    return math.fsum(terms)


def _binomial(n: int, rate: float, j: int) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1)
    return math.exp(ways + j * math.log(rate) + (n - j) * math.log1p(-rate))


def _divergence(share: float, rate: float) -> float:
    """The Kullback-Leibler divergence of two coins, in nats."""
    rest = (1 - share) * math.log((1 - share) / (1 - rate)) if share < 1 else 0.0
    return share * math.log(share / rate) + rest
