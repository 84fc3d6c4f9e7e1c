"""Fair under a population prior on maps without rows and columns: one cone for each place, as steep as the cap allows.

Where roads meet, no weights make the sums of steep cones level: a crossing lies under the cones of all its neighbours.
So level sums are not asked for here:

    P(h|x) = w(h) k_h(x) / s(x),  k_h(x) = exp(-slope(h) beta d(x, h))   needs   beta + the slope of log s  per metre

The cap on posteriors, prior(x) k_h(x) / s(x) over its sum, chooses the slope of every cone: the steepest one that keeps
it. Weights come from  w <- w K'(1/s) / K'1, which brings s towards 1 and keeps them above 0 (maximum likelihood of a
mixture). Then beta is lowered until the certificate holds; at epsilon/2 it always does. A mistake here costs distance
and never the promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.base import Progress
from sudare.methods.location.capped_large import CAP_HALVINGS, MOST_FAIR, MOST_OVER_MEDIAN, find_weighted_median
from sudare.methods.location.grid import Places
from sudare.methods.location.hidden import FULL_SLOPE, HiddenMechanism, certify_hidden, find_slope_of_table
from sudare.methods.location.kernel import distance_table
from sudare.methods.location.mechanism import equal_weights, quantise_weights
from sudare.methods.location.sharp import round_down
from sudare.schema.arrays import Booleans, Integers, Reals

Floats = NDArray[np.float32]

SLOPES = (100, 90, 80, 70, 60, 50, 42, 35, 30, 25, 20, 16, 13, 10, 8, 6, 4, 3, 2, 1)  # percent of beta; then 0
FIRST_SHARE = 0.85  # of epsilon that beta is tried with first: about what points and roads reach
SHARE_TRIES = 5  # of beta for one cap
USED = 0.985  # share of epsilon that a law must need for beta to be raised no further
KEPT = 1 - 1e-4  # share of epsilon that a law may need while it is sought: the rest is for rounding
CAPPED = 1.02  # times the cap: a greatest posterior that is near enough to it
STEPS, LAST_STEPS = 40, 200  # of levelling: while the cap is sought, and of the law that is written
SHRINKS = (Fraction(1), Fraction(99, 100), Fraction(9, 10))  # of beta, if rounding broke the certificate
NAMES = 8  # places that are tried for a name: those who most probably sent a report


@dataclass(frozen=True, kw_only=True, eq=False)
class SlopedLaw:
    """A cone for each place: slopes in percent of beta, weights, and what they are worth."""

    beta: float
    slopes: Integers
    weights: Reals
    needed: float  # share of epsilon
    greatest: float
    over_median: float
    expected_distance: float

    @property
    def is_fair(self) -> bool:
        """Tell whether the greatest posterior is near that of half the reports."""
        return self.over_median <= MOST_FAIR


class SlopedCones:
    """The places where people can be, each with a cone."""

    def __init__(self, places: Places, epsilon: float, people: Reals, inputs: Booleans) -> None:
        self.epsilon, self.points = epsilon, np.flatnonzero(inputs)
        table = distance_table(places)
        self.metres = table if bool(inputs.all()) else np.ascontiguousarray(table[np.ix_(self.points, self.points)])
        self.people = people[self.points]

    def solve(self, cap: float, start: SlopedLaw | None = None, *, steps: int = STEPS) -> SlopedLaw:
        """Find slopes and weights for a cap, and the largest beta that epsilon allows, nearly."""
        share, best = (FIRST_SHARE if start is None else start.beta / self.epsilon), None
        weights = None if start is None else start.weights
        sums = np.ones(len(self.points))
        low, high = 0.5, 1.0
        for _ in range(SHARE_TRIES):
            law, sums = self._spread(cap, share * self.epsilon, sums, weights, steps)
            weights = law.weights
            if law.needed <= KEPT:
                low, is_capped = max(low, share), law.greatest <= CAPPED * cap  # slopes are chosen by the sums before
                best = law if best is None or is_capped or law.greatest < best.greatest else best
                if is_capped and law.needed >= USED:
                    break
            else:
                high = min(high, share)
            aimed = share * (1 - 0.9 * (law.needed - 0.995))
            share = aimed if low < aimed < high else (low + high) / 2
        if best is None:
            best, _ = self._spread(cap, 0.5 * KEPT * self.epsilon, sums, weights, steps)
        return best

    def _spread(
        self, cap: float, beta: float, sums: Reals, weights: Reals | None, steps: int
    ) -> tuple[SlopedLaw, Reals]:
        slopes = self._choose_slopes(cap, beta, sums)
        kernel = np.exp(self.metres * (-beta / FULL_SLOPE * slopes)).astype(np.float32)  # (cells, points)
        weights = _level(kernel, weights, steps)
        sums = _multiply(kernel, weights)
        slope = find_slope_of_table(self.metres, np.log(sums))
        return self._measure(beta, slopes, weights, sums, kernel, slope), sums

    def _choose_slopes(self, cap: float, beta: float, sums: Reals) -> Integers:
        """Choose for every place the steepest cone whose greatest posterior is at most the cap; 0 where none is."""
        slopes, open_points = np.zeros(len(self.points)), np.arange(len(self.points))
        shares = self.people / sums
        for slope in SLOPES:
            joint = np.exp(self.metres[open_points] * (-beta * slope / FULL_SLOPE)) * shares
            is_kept = joint.max(axis=1) <= cap * joint.sum(axis=1)
            slopes[open_points[is_kept]] = slope
            open_points = open_points[~is_kept]
            if not len(open_points):
                break
        return slopes.astype(np.int64)

    def _measure(
        self, beta: float, slopes: Integers, weights: Reals, sums: Reals, kernel: Floats, slope: float
    ) -> SlopedLaw:
        joint = kernel * (self.people / sums).astype(np.float32)[:, None]
        totals, likeliest = joint.sum(axis=0).astype(np.float64), joint.argmax(axis=0)
        posteriors = np.minimum(joint.max(axis=0) / totals, 1.0)
        costs = np.minimum((joint * self.metres).sum(axis=0), (joint * self.metres[:, likeliest]).sum(axis=0))
        masses = weights * totals
        greatest = float(posteriors[masses > 0].max())
        return SlopedLaw(
            beta=beta,
            slopes=slopes,
            weights=weights,
            needed=(beta * int(slopes.max()) / FULL_SLOPE + slope) / self.epsilon,
            greatest=greatest,
            over_median=greatest / find_weighted_median(posteriors, masses),
            expected_distance=float(weights @ costs),
        )


def _level(kernel: Floats, weights: Reals | None, steps: int) -> Reals:
    """Bring the sums of the cones towards 1 at every place; weights stay above 0."""
    norms = kernel.sum(axis=0, dtype=np.float64)
    weights = 1 / norms if weights is None else weights
    for _ in range(steps):
        weights = weights * _multiply(kernel.T, 1 / _multiply(kernel, weights)) / norms
    return weights


def _multiply(kernel: Floats, values: Reals) -> Reals:
    """Multiply in 32 bits, which are enough for what is certified afterwards."""
    product: Reals = (kernel @ values.astype(np.float32)).astype(np.float64)
    return product


# --- from a map to a law ----------------------------------------------------------------------------------------------


def build_capped_places(
    places: Places,
    epsilon: Fraction,
    *,
    people: Reals,
    cells: Booleans,
    inputs: Booleans,
    extra_distance: float,
    progress: Progress | None = None,
) -> HiddenMechanism:
    """Build the law with the smallest greatest posterior whose reports are farther by `extra_distance` at most.

    The greatest posterior is at most 1.3 times that of half the reports in any case; where that costs more, it costs
    more, up to cones that say nothing.

    Guarantee: epsilon per metre, certified. Error: the certificate tells the expected distance and the posteriors.
    """
    tell = progress or (lambda share: None)
    cones = SlopedCones(places, float(epsilon), people, inputs)
    for law in _choose(cones, extra_distance, tell):
        last = cones.solve(law.greatest, law, steps=LAST_STEPS)
        for candidate in (last, law):
            built = _round(cones, places, epsilon, candidate, cells, inputs) if _is_fair_enough(candidate) else None
            if built is not None:
                return built
    raise ParameterError(
        "no cap makes the greatest posterior at most {times} times the median on this map; take mode near, or a"
        " smaller epsilon",
        times=MOST_OVER_MEDIAN,
    )


def _is_fair_enough(law: SlopedLaw) -> bool:
    return law.over_median <= MOST_OVER_MEDIAN * (1 - 1e-3)


def _choose(cones: SlopedCones, extra_distance: float, tell: Progress) -> Iterator[SlopedLaw]:
    """Give the law of the smallest cap that is fair and within the price, else the loosest fair one; then others.

    Caps are searched by halves between the greatest prior and the greatest posterior without a cap.
    """
    free = cones.solve(1.0)
    most = free.expected_distance * (1 + extra_distance)
    low, high = float(cones.people.max()), free.greatest
    fair, before = ([free] if free.is_fair else []), free
    for number in range(CAP_HALVINGS):
        middle = float(np.sqrt(low * high))
        law = cones.solve(middle, before)
        fair += [law] if law.is_fair else []
        if law.is_fair and law.expected_distance > most:
            low = middle  # dearer than need be: looser
        else:
            high, before = middle, law
        tell((number + 1) / (CAP_HALVINGS + 2))
    cheap = sorted((law for law in fair if law.expected_distance <= most), key=lambda law: law.greatest)
    yield from [*cheap, *sorted((law for law in fair if law not in cheap), key=lambda law: -law.greatest)]
    yield cones.solve(low, before)


def _round(
    cones: SlopedCones, places: Places, epsilon: Fraction, law: SlopedLaw, cells: Booleans, inputs: Booleans
) -> HiddenMechanism | None:
    """Turn a law into exact numbers, certified; cones that say nothing become one report."""
    kinds = np.unique(law.slopes)[::-1]
    is_level = law.slopes == 0
    at = np.append(np.flatnonzero(~is_level), np.flatnonzero(is_level)[:1])
    weights = law.weights[at].copy()
    if is_level.any():
        weights[-1] = law.weights[is_level].sum()
    numbers = np.searchsorted(-kinds, -law.slopes[at])
    columns = np.column_stack([numbers, cones.points[at], np.zeros(len(at), dtype=np.int64), quantise_weights(weights)])
    for shrink in SHRINKS:
        built = HiddenMechanism(
            places=places,
            beta_per_metre=round_down(Fraction(law.beta) * shrink),
            shapes=(((0, 0, 0),),) * len(kinds),
            slopes=tuple(int(slope) for slope in kinds),
            columns=columns,
            told=_name(cones, law, at, np.flatnonzero(cells)),
            weights=equal_weights(cells),
            inputs=inputs,
        )
        if certify_hidden(built) <= float(epsilon):
            return built
    return None


def _name(cones: SlopedCones, law: SlopedLaw, at: Integers, named: Integers) -> Integers:
    """Name every cone by the best of the places whose people most probably sent it."""
    can_tell = np.isin(cones.points, named)  # people can be wherever something is told
    allowed = np.flatnonzero(can_tell)
    told = np.empty(len(at), dtype=np.int64)
    for number, point in enumerate(at.tolist()):
        joint = cones.people * np.exp(-law.beta * int(law.slopes[point]) / FULL_SLOPE * cones.metres[point])
        heavy = allowed[np.argsort(-joint[allowed], kind="stable")[:NAMES]]
        tried = np.append(heavy, point) if can_tell[point] else heavy
        told[number] = cones.points[tried[int((cones.metres[tried] @ joint).argmin())]]
    return told
