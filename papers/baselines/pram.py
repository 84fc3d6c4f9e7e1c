"""Post-randomisation of every record by itself: keep a value, or draw it anew (Terada 2017, sections 3.2 and 5.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from papers.baselines.base import check_choice, check_schema, promise, tally
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng
from sudare.noise.enclosure import exp_minus
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Schema, Unit
from sudare.schema.arrays import Codes

READINGS = ("text", "print")
WORD_BITS = 64
BOUND_BITS = 256  # of the enclosure of exp(-epsilon) that a retention probability is made of


@dataclass(frozen=True, kw_only=True, slots=True)
class Pram:
    """Retention-replacement: every value of every record is kept with probability rho_j, else drawn uniformly.

    P[x -> y] = prod_j (rho_j [x_j = y_j] + (1 - rho_j)/|A_j|)

    `reading="text"` is what the paper says: rho_j = (e^eps_j - 1)/(|A_j| + e^eps_j - 1), the eps_j adding up to
    epsilon, equal unless `shares` are given. `reading="print"` is what the paper's figures at epsilon = 10 come from:
    rho = (e^epsilon - 1)/(p + e^epsilon - 1) on every attribute, p = |A|. It does not keep epsilon.

    Guarantee: epsilon-DP for one replaced row ("text"): epsilon = sum_j ln((1 + (|A_j|-1) rho_j)/(1 - rho_j)), and it
    is attained. Each rho_j is rounded down to a multiple of 2^-64, which can only lower it. For "print" the same sum is
    sum_j ln(1 + |A_j| (e^epsilon - 1)/p), which may be more or less than epsilon; see `real_epsilon`.
    Proof: proofs/baselines.md
    Error: E[v*] = T'v with T the matrix above: shrunk towards an even table; the variance grows with the cell.
    Source: Terada 2017, equations 11 and 17; Ikarashi et al. 2015; Lin, Wang, Rane 2012

    >>> Pram(epsilon="1/2").guarantee().epsilon
    Fraction(1, 2)
    """

    epsilon: Fraction | str | int | float
    reading: Literal["text", "print"] = "text"
    shares: tuple[Fraction, ...] | None = None  # of epsilon, one per attribute; equal by default

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        check_choice("reading", self.reading, READINGS)
        if self.shares is not None:
            object.__setattr__(self, "shares", _checked(self.shares))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise; the printed reading has none of its own name."""
        if self.reading == "print":
            raise ParameterError("the printed reading does not keep epsilon; ask real_epsilon for what it keeps")
        return promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def retention(self, schema: Schema) -> tuple[Fraction, ...]:
        """The probability of keeping the value of each attribute.

        >>> from sudare.schema import Attribute, Values
        >>> ten = Values(values=tuple("0123456789"))
        >>> pair = Schema(name="3.4", attributes=(Attribute(name="a", domain=ten), Attribute(name="b", domain=ten)))
        >>> [round(float(rho), 3) for rho in Pram(epsilon="0.1").retention(pair)]  # the paper's equation 18
        [0.005, 0.005]
        """
        epsilon = Fraction(self.epsilon)
        if self.reading == "print":
            return (keep_probability(schema.size, epsilon),) * len(schema.sizes)
        shares = self.shares or (Fraction(1, len(schema.sizes)),) * len(schema.sizes)
        if len(shares) != len(schema.sizes):
            raise ParameterError(
                "shares ({shares}) must be one per attribute ({attributes})",
                shares=len(shares),
                attributes=len(schema.sizes),
            )
        return tuple(keep_probability(size, epsilon * share) for size, share in zip(schema.sizes, shares, strict=True))

    def real_epsilon(self, schema: Schema) -> float:
        """The largest log ratio of probabilities between two records: the epsilon that is really kept."""
        found = 0.0
        for size, keep in zip(schema.sizes, self.retention(schema), strict=True):
            ratio = (1 + (size - 1) * keep) / (1 - keep)
            found += math.log(ratio.numerator) - math.log(ratio.denominator) if size > 1 else 0.0
        return found

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Randomise every record, and count the records again."""
        promise(Fraction(self.epsilon), unit=counts.schema.unit, neighbours=neighbours)
        check_schema(counts.schema)
        records = counts.expand()
        for position, keep in enumerate(self.retention(counts.schema)):
            records[:, position] = replaced(records[:, position], counts.schema.sizes[position], keep, rng)
        return tally(counts.schema, records)


def keep_probability(size: int, epsilon: Fraction) -> Fraction:
    """Compute (e^eps - 1)/(size + e^eps - 1), rounded down to a multiple of 2^-64.

    >>> round(float(keep_probability(100, Fraction(1, 30))), 6)  # section 6 of the paper
    0.000339
    """
    rest = Fraction(exp_minus(epsilon, BOUND_BITS).high, 2**BOUND_BITS)  # at least exp(-eps)
    kept = (1 - rest) / (1 - rest + size * rest)
    return Fraction(int(kept * 2**WORD_BITS), 2**WORD_BITS)


def replaced(codes: Codes, size: int, keep: Fraction, rng: Rng) -> Codes:
    """Keep each code with probability `keep` (a multiple of 2^-64, drawn exactly), else draw it uniformly."""
    lost = np.flatnonzero(rng.words64(codes.size) >= np.uint64(int(keep * 2**WORD_BITS)))
    drawn = codes.copy()
    drawn[lost] = rng.uniform_below(size, lost.size)
    return drawn


def _checked(shares: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    exact = tuple(Fraction(share) for share in shares)
    if sum(exact) != 1 or min(exact) <= 0:
        raise ParameterError("shares must be positive fractions that add up to 1")
    return exact
