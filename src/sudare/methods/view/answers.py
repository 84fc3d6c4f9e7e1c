"""What a view answers: a number, an interval and its level, and which part of it is noise and which is the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.schema import Schema

Reals = NDArray[np.float64]
Codes = NDArray[np.int64]
Box = Mapping[int, Reals]  # attribute -> a weight for each of its values; attributes not named weigh 1

LEVEL = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A number with its interval.

    `noise_deviation` is what the privacy noise contributes (its law is known exactly); `model_deviation` is what the
    view cannot tell, estimated from noisy numbers. Both are standard deviations.
    """

    value: float
    low: float
    high: float
    level: float
    noise_deviation: float
    model_deviation: float

    def to_dict(self) -> dict[str, float]:
        """Plain numbers for a program."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, kw_only=True, slots=True)
class Moments:
    """An estimated sum over the records, and the variances of its two errors."""

    value: float
    noise: float
    model: float


class Stored(Protocol):
    """What any kind of view can do, be it made of tables or of blocks."""

    schema: Schema

    @property
    def total(self) -> float:
        """How many records it holds."""

    def moments(self, boxes: Sequence[Box]) -> Moments:
        """Estimate the sum of the weights of all records over disjoint boxes."""

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes of codes, both ends included, without intervals."""

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, one axis each."""


def answer(moments: Moments, *, level: float = LEVEL, least: float = 0.0, most: float = math.inf) -> Answer:
    """An interval around an estimate, cut to what is possible: a count never lies below 0, a mean within its bins.

    >>> answer(Moments(value=100.0, noise=9.0, model=16.0)).high
    109.79981992270027
    """
    reach = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(moments.noise + moments.model)
    return Answer(
        value=min(most, max(least, moments.value)),
        low=min(most, max(least, moments.value - reach)),
        high=min(most, max(least, moments.value + reach)),
        level=level,
        noise_deviation=math.sqrt(moments.noise),
        model_deviation=math.sqrt(moments.model),
    )
