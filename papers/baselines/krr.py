"""k-ary randomised response: the true cell, or any other with equal chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from papers.baselines.pram import keep_probability, replaced
from sudare.errors import ParameterError
from sudare.noise import Rng
from sudare.privacy.exact import exact_epsilon


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomisedResponse:
    """Report the true one of k cells with probability e^epsilon / (e^epsilon + k - 1), each other one alike.

    It hides a place among all k cells equally, far or near. So `epsilon` is one number for the whole map, and per metre
    it keeps epsilon / (distance of the two nearest cells): `for_metres` chooses it from an epsilon per metre.

    Guarantee: epsilon-LDP, the retention rounded down to a multiple of 2^-64, drawn exactly.
    Source: Kairouz, Oh, Viswanath, Extremal mechanisms for local differential privacy, 2016 (k-RR).

    >>> round(RandomisedResponse(epsilon=1, cells=3).keep, 3)
    0.576
    """

    epsilon: Fraction | str | int | float
    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        if self.cells < 2:
            raise ParameterError("cells ({cells}) must be at least 2", cells=self.cells)

    @classmethod
    def for_metres(cls, epsilon_per_metre: Fraction, *, nearest_metres: Fraction, cells: int) -> RandomisedResponse:
        """Choose the epsilon that keeps an epsilon per metre between the two nearest cells, the hardest pair."""
        return cls(epsilon=epsilon_per_metre * nearest_metres, cells=cells)

    @property
    def keep(self) -> float:
        """The probability that the report is the truth."""
        kept = self._kept
        return float(kept + (1 - kept) / self.cells)

    @property
    def _kept(self) -> Fraction:
        return keep_probability(self.cells, Fraction(self.epsilon))

    def real_epsilon(self) -> float:
        """The largest log-ratio of probabilities between two places: the epsilon that is really kept."""
        kept = self._kept
        return math.log((kept + (1 - kept) / self.cells) / ((1 - kept) / self.cells))

    def draw(self, places: ArrayLike, *, rng: Rng) -> NDArray[np.int64]:
        """Draw one report for every place, an index below `cells`."""
        asked = np.atleast_1d(np.asarray(places, dtype=np.int64))
        return replaced(asked, self.cells, self._kept, rng)

    def estimate(self, reports: NDArray[np.int64]) -> NDArray[np.float64]:
        """Estimate the share of every cell without bias: (share of reports - (1 - kept)/k) / kept."""
        kept = float(self._kept)
        shares = np.bincount(reports, minlength=self.cells) / max(1, len(reports))
        estimated: NDArray[np.float64] = (shares - (1 - kept) / self.cells) / kept
        return estimated
