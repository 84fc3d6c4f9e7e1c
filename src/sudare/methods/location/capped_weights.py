"""Fair under a population prior on the largest maps without rows and columns: weights alone, at half of epsilon.

    P(y|x) = w(y) exp(-beta d(x, y)) / s(x),   beta = epsilon / 2,   s = E w

keeps epsilon whatever the weights (claim 1 of proofs/location.md), so a device proves such a file at once and a mistake
in the search costs distance and never the promise. The greatest posterior of a report y is

    max over x of prior(x) exp(-beta d) / s(x)   over the sum of the same

in which w(y) cancels: reports that tell too much get no weight, and those that tell nearly as much as the cap allows
get more than those that tell less, so that half of all reports come near the cap. Weights change s, and with it what
reports tell; some rounds bring both together. A last one takes out what is left above 1.3 times the median. Sums go
over pairs of places within reach (nearby.py), and what was found is measured again over all that a certificate counts.
A place with a large part of all people asks for a hole as wide as it takes to hide it among others; capped_places.py,
for smaller maps, has flatter cones for that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.base import Progress
from sudare.methods.location.capped_large import MAX_OTHER_CELLS, MOST_FAIR, MOST_OVER_MEDIAN, find_weighted_median
from sudare.methods.location.grid import Places
from sudare.methods.location.mechanism import Mechanism, quantise_weights
from sudare.methods.location.names import find_names
from sudare.methods.location.nearby import find_nearby, search_nearby
from sudare.methods.location.posterior import find_all_norms, find_largest_nearby
from sudare.schema.arrays import Booleans, Reals

# Chosen on 2,025 crossings at 0.01 and 2,025 hexagons at 0.02 per metre, lognormal people (benchmarks/location_large)
CAPS = (1.8, 1.5, 1.25, 1.05, 0.9)  # times the median without a cap
TILTS = ((8.0, 0.3), (16.0, 0.15))  # by which power reports that tell less have less weight; share of a round
NEAR_CAP = 0.82  # share of the cap from which reports have full weight
ROUNDS, LAST_ROUNDS = 15, 25  # of weights, and of taking out what is left
REACH_DECAYS = 12.0  # of the sums while weights are sought, in units of 1/beta


@dataclass(frozen=True, kw_only=True, eq=False)
class TiltedLaw:
    """Weights, and what they are worth, nearly."""

    weights: Reals
    greatest: float
    over_median: float
    expected_distance: float


class TiltedWeights:
    """Sums over the pairs within reach."""

    def __init__(self, places: Places, beta: float, people: Reals, cells: Booleans) -> None:
        find_nearby(places, beta)  # as far as the certificate needs them: not searched twice
        metres = search_nearby(places, REACH_DECAYS / beta)
        self.people, self.cells = people, cells
        self.has_pairs = np.diff(metres.indptr) > 0
        self.starts = metres.indptr[:-1][self.has_pairs]
        self.metres, self.decay = metres, metres.astype(np.float32)
        np.exp(-beta * metres.data, out=self.decay.data, casting="same_kind")

    def solve(self, cap: float, tilt: float, share: float) -> TiltedLaw | None:
        """Find weights for a cap; None where nothing could be reported."""
        weights, is_open = self.cells.astype(np.float64), self.cells.copy()
        for number in range(ROUNDS):
            posteriors, _ = self.measure(weights)
            is_open &= posteriors <= cap
            wanted = np.minimum(posteriors / (NEAR_CAP * cap), 1.0) ** tilt
            mixed = wanted if number == 0 else np.maximum(weights, 1e-30) ** (1 - share) * wanted**share
            weights = np.where(is_open, mixed, 0.0)
            if not is_open.any():
                return None
        return self.cut(weights)

    def cut(self, weights: Reals) -> TiltedLaw | None:
        """Take out reports that tell more than 1.28 times what half of all reports tell, until there are none."""
        for _ in range(LAST_ROUNDS):
            posteriors, masses = self.measure(weights)
            most = MOST_FAIR * find_weighted_median(posteriors, masses)
            is_over = (weights > 0) & (posteriors > most)
            if not is_over.any():
                return self.describe(weights)
            weights = np.where(is_over, 0.0, weights)
            if not weights.any():
                return None
        return self.describe(weights)

    def measure(self, weights: Reals) -> tuple[Reals, Reals]:
        """Give the greatest posterior of every report, and how often it is sent."""
        shares = self.people / np.maximum(self._smooth(weights), np.finfo(np.float32).tiny)
        totals = self._smooth(shares)
        posteriors = np.minimum(self._find_largest(shares) / np.maximum(totals, np.finfo(float).tiny), 1.0)
        return posteriors, weights * totals

    def describe(self, weights: Reals) -> TiltedLaw:
        """Tell what weights are worth; distances are those of reports before they are named."""
        posteriors, masses = self.measure(weights)
        greatest = float(posteriors[weights > 0].max())
        shares = self.people / np.maximum(self._smooth(weights), np.finfo(np.float32).tiny)
        from scipy.sparse import csr_matrix

        far = csr_matrix((self.metres.data * self.decay.data, self.metres.indices, self.metres.indptr))
        return TiltedLaw(
            weights=weights,
            greatest=greatest,
            over_median=greatest / find_weighted_median(posteriors, masses),
            expected_distance=float(shares @ (far @ weights)),
        )

    def _smooth(self, values: Reals) -> Reals:
        sums: Reals = values + (self.decay @ values.astype(np.float32)).astype(np.float64)
        return sums

    def _find_largest(self, values: Reals) -> Reals:
        largest, rough = values.copy(), values.astype(np.float32)
        around = np.maximum.reduceat(self.decay.data * rough[self.decay.indices], self.starts)
        largest[self.has_pairs] = np.maximum(largest[self.has_pairs], around)
        return largest


def find_spread(law: Mechanism, people: Reals) -> float:
    """Find the greatest posterior over that of half the reports, by all pairs that a certificate counts.

    Weights are sought within a shorter reach, which misses reports from far into a wide hole.
    """
    shares = np.where(law.can_enter, people / find_all_norms(law), 0.0)
    totals = np.maximum(law.kernel.smooth(shares), np.finfo(float).tiny)
    posteriors = find_largest_nearby(law, shares) / totals
    return float(posteriors[law.weights > 0].max()) / find_weighted_median(posteriors, law.shares * totals)


def build_capped_weights(
    places: Places,
    epsilon: Fraction,
    *,
    people: Reals,
    cells: Booleans,
    inputs: Booleans,
    extra_distance: float,
    progress: Progress | None = None,
) -> Mechanism:
    """Build the law with the smallest greatest posterior whose reports are farther by `extra_distance` at most.

    Farther than with equal weights at the same beta. The greatest posterior is at most 1.3 times that of half the
    reports in any case; where that costs more, it costs more.

    Guarantee: epsilon per metre, by claim 1. Error: the certificate tells the expected distance and the posteriors.
    """
    tilted = TiltedWeights(places, float(epsilon / 2), people, cells)
    for law in _choose(tilted, extra_distance, progress or (lambda share: None)):
        weights = quantise_weights(law.weights)
        built = Mechanism(places=places, beta_per_metre=epsilon / 2, weights=weights, inputs=inputs)
        if find_spread(built, people) <= MOST_OVER_MEDIAN:
            del tilted  # the pairs, before those of the names are made
            return replace(built, told=find_names(built, people, np.flatnonzero(cells)), _kernel=built._kernel)
    raise ParameterError(
        "one place holds {share} of all people by the prior, more than can be hidden on a map of {cells} places; use a"
        " smaller area (at most {most} places), or take mode near",
        share=f"{float(people.max()):.3f}",
        cells=places.size,
        most=MAX_OTHER_CELLS,
    )


def _choose(tilted: TiltedWeights, extra_distance: float, tell: Progress) -> list[TiltedLaw]:
    """Try caps from the loosest; put the smallest that is fair and within the price first, then the cheapest."""
    free = tilted.describe(tilted.cells.astype(np.float64))
    fair = [free] if free.over_median <= MOST_FAIR else []
    median, most = free.greatest / free.over_median, free.expected_distance * (1 + extra_distance)
    tries = [(cap, *tilt) for cap in CAPS for tilt in TILTS]
    for number, (cap, tilt, share) in enumerate(tries):
        law = tilted.solve(cap * median, tilt, share)
        if law is not None and law.over_median <= MOST_OVER_MEDIAN * (1 - 1e-3):
            fair.append(law)
        tell((number + 1) / (len(tries) + 2))
    if not fair:
        raise ParameterError(
            "no cap makes the greatest posterior at most {times} times the median on this map; take mode near, or a"
            " smaller epsilon",
            times=MOST_OVER_MEDIAN,
        )
    cheap = sorted((law for law in fair if law.expected_distance <= most), key=lambda law: law.greatest)
    return [*cheap, *sorted((law for law in fair if law not in cheap), key=lambda law: law.expected_distance)]
