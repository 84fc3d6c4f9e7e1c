"""Fair under a population prior: no report lets anybody be more certain of a place than a cap.

Given a hidden report h the posterior of a place x is prior(x) k_h(x) / sum of prior k_h: weights cancel. So a cap on
the greatest posterior is a choice of shapes, and the rest is a linear programme (near.py):

    minimise the expected distance over w >= 0 with s = 1, over the cones whose greatest posterior is at most the cap

Cones of full slope around a busy cell are left out first; flatter ones and plateaus (the largest of the cones of some
neighbours) stand in for them, and the report that says nothing is always there, so that every cap of at least the
greatest prior has a solution. A report that fits a busy place of prior p must fit a share p / cap of all people: near
the greatest prior caps are dear, whatever the shapes. Without a prior mode fair
equalises edges (weights.py); with one it has to hide places that are known to be busy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.base import Progress
from sudare.methods.location.capped_large import (
    MAX_OTHER_CELLS,
    MAX_PLANE_CELLS,
    MOST_OVER_MEDIAN,
    build_large_capped,
    find_weighted_median,
)
from sudare.methods.location.capped_places import build_capped_places
from sudare.methods.location.capped_weights import build_capped_weights
from sudare.methods.location.grid import Places, PlaneGrid
from sudare.methods.location.hidden import FULL_SLOPE, HiddenMechanism, Shape, certify_hidden
from sudare.methods.location.mechanism import Mechanism, equal_weights, quantise_weights
from sudare.methods.location.near import LEAST_PEAK, RESERVE, PointTable
from sudare.methods.location.sharp import round_down
from sudare.schema.arrays import Booleans, Integers, Reals

MAX_CAPPED_CELLS = 260  # where people can be; the programme is dense, larger maps are those of capped_large.py
SLOPES = (100, 70, 50, 35, 20, 10)  # of the cones, in percent of beta
PLATEAUS = (1.2, 1.6, 2.4, 3.6)  # radius, in units of the distance to the nearest cell
PLATEAU_SLOPES = (100, 50)
CAPS = 13  # tried, between the greatest prior and the greatest posterior without a cap
LEAST_WEIGHT = 1e-7  # of the largest: columns below it are left out, and the rest is levelled again
# share of epsilon kept for rounding, and the least that a cone must be somewhere where people can be: a cone far from
# all of them would need a weight so large that the others round to nothing. The first that can be certified is taken.
ROUNDINGS = ((RESERVE, LEAST_PEAK), (RESERVE, 0.5), (Fraction(1, 5_000), 0.5), (Fraction(1, 500), 0.5))


@dataclass(frozen=True, kw_only=True, eq=False)
class CappedLaw:
    """A solution: columns with weights above 0, the greatest posterior, and the expected distance."""

    columns: Integers
    weights: Reals
    cap: float
    over_median: float
    expected_distance: float


@dataclass(eq=False)
class CappedProgramme:
    """All cones of all slopes, with their costs, names and greatest posteriors."""

    table: PointTable
    beta: float
    people: Reals
    inputs: Booleans
    named: Integers
    least_peak: float = LEAST_PEAK
    shapes: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)  # slope and points; none: it says nothing
    lengths: Reals = field(default_factory=lambda: np.zeros((0, 0)))  # from each shape to each cell, times the slope
    kernels: Reals = field(default_factory=lambda: np.zeros((0, 0)))
    costs: Reals = field(default_factory=lambda: np.zeros(0))
    told: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    posteriors: Reals = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        cells = len(self.people)
        shapes = [(0, ()), *self._list_cones(), *self._list_plateaus()]
        lengths = np.array([self._measure(slope, points) for slope, points in shapes])
        kernels = np.exp(-self.beta * lengths)
        peaks = kernels[:, self.inputs].max(axis=1)
        kept = np.flatnonzero(peaks >= self.least_peak)
        self.shapes, self.lengths = [shapes[number] for number in kept.tolist()], lengths[kept]
        self.kernels = kernels[kept] / peaks[kept, None]
        joint = self.people * self.kernels
        to_named = joint @ self.table.metres[:cells][:, self.named]
        self.costs, self.told = to_named.min(axis=1), self.named[to_named.argmin(axis=1)]
        self.posteriors = joint.max(axis=1) / joint.sum(axis=1)

    def _list_cones(self) -> list[tuple[int, tuple[int, ...]]]:
        """Cones of full slope may stand beside the map, flatter ones on its cells."""
        counts = {slope: len(self.table.rows) if slope == FULL_SLOPE else len(self.people) for slope in SLOPES}
        return [(slope, (point,)) for slope in SLOPES for point in range(counts[slope])]

    def _list_plateaus(self) -> list[tuple[int, tuple[int, ...]]]:
        """Give the cells around each cell, within some radii."""
        metres = self.table.metres[: len(self.people)]
        spacing = float(np.where(metres > 0, metres, np.inf).min())
        discs = {
            (cell, *(int(other) for other in np.flatnonzero(metres[cell] <= radius * spacing) if other != cell))
            for radius in PLATEAUS
            for cell in range(len(metres))
        }
        return [(slope, disc) for slope in PLATEAU_SLOPES for disc in sorted(discs) if len(disc) > 1]

    def _measure(self, slope: int, points: tuple[int, ...]) -> Reals:
        if not points:
            return np.zeros(len(self.people))
        lengths: Reals = self.table.metres[list(points)].min(axis=0) * (slope / FULL_SLOPE)
        return lengths

    def solve(self, cap: float) -> CappedLaw | None:
        """Solve the programme for a cap."""
        from scipy.optimize import linprog

        allowed = np.flatnonzero(self.posteriors <= cap * (1 + 1e-9))
        matrix = self.kernels[allowed][:, self.inputs].T
        result = linprog(
            self.costs[allowed], A_eq=matrix, b_eq=np.ones(len(matrix)), bounds=(0, None), method="highs-ds"
        )
        if result.status != 0:
            return None
        kept = allowed[result.x > LEAST_WEIGHT * result.x.max()]
        weights = _level(self.kernels[kept][:, self.inputs].T, result.x[np.isin(allowed, kept)])
        masses = weights * (self.kernels[kept] @ self.people)
        return CappedLaw(
            columns=kept,
            weights=weights,
            cap=float(self.posteriors[kept].max()),
            over_median=float(self.posteriors[kept].max()) / find_weighted_median(self.posteriors[kept], masses),
            expected_distance=float(weights @ self.costs[kept]),
        )


def _level(matrix: Reals, weights: Reals) -> Reals:
    """Bring the sums from the solver's 1e-7 to rounding, if weights stay above 0."""
    level: Reals = np.linalg.lstsq(matrix, np.ones(len(matrix)), rcond=None)[0].astype(np.float64)
    return level if len(level) and level.min() > 0 else weights


def is_capped(places: Places) -> bool:
    """Tell whether a map is small enough for a cap; where it is no plane, pairs within reach are the limit."""
    return places.size <= MAX_PLANE_CELLS or not isinstance(places, PlaneGrid)


def build_capped_mechanism(
    places: Places,
    epsilon: Fraction,
    *,
    people: Reals,
    cells: Booleans,
    inputs: Booleans,
    extra_distance: float,
    progress: Progress | None = None,
) -> Mechanism | HiddenMechanism:
    """Build the law with the smallest greatest posterior whose reports are farther by `extra_distance` at most.

    The greatest posterior is at most 1.3 times the median in any case; where that costs more, it costs more.

    Guarantee: epsilon per metre, certified. Error: the certificate tells the expected distance and the posteriors.
    """
    if int(inputs.sum()) > MAX_CAPPED_CELLS:
        options: Any = {"people": people, "cells": cells, "inputs": inputs, "extra_distance": extra_distance}
        if isinstance(places, PlaneGrid):
            return build_large_capped(places, epsilon, progress=progress, **options)
        if places.size > MAX_OTHER_CELLS:
            return build_capped_weights(places, epsilon, progress=progress, **options)
        return build_capped_places(places, epsilon, progress=progress, **options)
    for reserve, least_peak in ROUNDINGS:
        beta, named = float(epsilon * (1 - reserve)), np.flatnonzero(cells)
        programme = CappedProgramme(
            table=PointTable.of(places, beta),
            beta=beta,
            people=people,
            inputs=inputs,
            named=named,
            least_peak=least_peak,
        )
        law = _round(programme, _choose(programme, extra_distance), round_down(epsilon * (1 - reserve)), cells)
        if certify_hidden(law) <= float(epsilon):
            return law
    raise ParameterError("no law of mode fair could be certified for this map and prior; take mode near")


def _choose(programme: CappedProgramme, extra_distance: float) -> CappedLaw:
    """Try caps from the loosest; take the smallest that is fair and within the price, else the first that is fair."""
    free = programme.solve(1.0)
    if free is None:
        raise ParameterError("the programme of mode fair has no solution for this map; take mode sharp")
    most, fair = free.expected_distance * (1 + extra_distance), None
    law: CappedLaw | None = free
    for cap in np.geomspace(free.cap, programme.people.max(), CAPS).tolist():
        if law is not None and cap < law.cap:  # what keeps a smaller cap is best for a larger one
            law = programme.solve(cap)
        if law is None or (fair is not None and law.expected_distance > most):
            break
        if law.over_median <= MOST_OVER_MEDIAN:
            fair = law
            if law.expected_distance > most:
                break
    if fair is None:
        raise ParameterError(
            "no cap makes the greatest posterior at most {times} times the median on this map; take mode near, or a"
            " smaller epsilon",
            times=MOST_OVER_MEDIAN,
        )
    return fair


def _round(programme: CappedProgramme, law: CappedLaw, beta: Fraction, cells: Booleans) -> HiddenMechanism:
    """Turn a solution into exact numbers: shapes from their first point, weights over 2**40."""
    rows, columns = programme.table.rows, programme.table.columns
    largest = np.exp(-programme.beta * programme.lengths[law.columns][:, programme.inputs].min(axis=1))
    kinds: dict[tuple[int, Shape], int] = {}
    placed = []
    for number, weight in zip(law.columns.tolist(), quantise_weights(law.weights / largest).tolist(), strict=True):
        slope, points = programme.shapes[number]
        at = (int(rows[points[0]]), int(columns[points[0]])) if points else (0, 0)
        shape = tuple((int(rows[point]) - at[0], int(columns[point]) - at[1], 0) for point in points)
        placed.append([kinds.setdefault((slope, shape), len(kinds)), *at, weight])
    return HiddenMechanism(
        places=programme.table.places,
        beta_per_metre=beta,
        shapes=tuple(shape for _, shape in kinds),
        slopes=tuple(slope for slope, _ in kinds),
        columns=np.array(placed),
        told=programme.told[law.columns],
        weights=equal_weights(cells),
        inputs=programme.inputs,
    )
