"""What was measured of the private table: noisy numbers and how noisy they are. All of it is public."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms import geometric_variance

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Codes = NDArray[np.int64]

LEAST_VARIANCE = 1e-30  # far below any rounding of the floats that are weighted by it


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OneWay:
    """A noisy histogram of one attribute, value by value; two measurements of it are added up by their precision."""

    values: Reals
    variance: float


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pair:
    """A noisy table of two attributes over their coarse bins; `last` marks extra pairs, or a forest's without any."""

    first: int
    second: int
    values: Reals
    variance: float
    last: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        """The two attributes."""
        return self.first, self.second


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measured:
    """Everything measured so far. A total of variance 0 is public."""

    total: float
    total_variance: float
    ones: tuple[OneWay, ...]
    bins: tuple[Codes, ...] = ()  # the coarse bin of every value, attribute by attribute
    pairs: tuple[Pair, ...] = field(default=())

    @property
    def widths(self) -> tuple[int, ...]:
        """How many coarse bins every attribute has."""
        return tuple(int(bins.max()) + 1 for bins in self.bins)


def noise_variance(epsilon: Fraction) -> float:
    """Variance of a count measured with this epsilon, sensitivity 1.

    It is never quite 0, however large epsilon is: estimates are weighted by its inverse.

    >>> noise_variance(Fraction(1000)) > 0
    True
    """
    return max(geometric_variance(1 / epsilon), LEAST_VARIANCE)


def combine(first: OneWay, second: OneWay) -> OneWay:
    """Two measurements of one histogram, weighted by the inverse of their variances.

    >>> one = OneWay(values=np.array([4.0]), variance=1.0)
    >>> combine(one, OneWay(values=np.array([7.0]), variance=2.0)).values.tolist()
    [5.0]
    """
    weight = second.variance / (first.variance + second.variance)
    return OneWay(
        values=weight * first.values + (1 - weight) * second.values,
        variance=first.variance * second.variance / (first.variance + second.variance),
    )
