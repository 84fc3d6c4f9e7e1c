"""How many people are where, from their reports: what a collector of reports does.

The estimate and its intervals stand in density.py, the sums over the map in flow.py. Here reports are checked, regions
are summed, and reports that no spread of people could have caused are looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.location.density import DRAWS, FittedTown, fit_town, maximise_expectation
from sudare.methods.location.device_file import DeviceFile
from sudare.methods.location.flow import ReportFlow, make_flow
from sudare.methods.location.mechanism import Mechanism
from sudare.noise.public import Simulation
from sudare.postprocess.threads import on_one_thread
from sudare.schema.arrays import Booleans, Integers, Reals

SEED = 20130715  # the same reports give the same estimate; nothing private is drawn with it
# share of a normal law beyond each end, and the two-sided point of Student's t with DRAWS - 1 degrees of freedom
LEVELS = {
    "0.5": (0.25, 0.703),
    "0.8": (0.1, 1.383),
    "0.9": (0.05, 1.833),
    "0.95": (0.025, 2.262),
    "0.99": (0.005, 3.250),
}
BLUR = 2.5  # times what steps without a model change in a region: about the blur that is left at a sharp edge
NARROWEST = 0.5  # people: a region is a whole number of people, and its interval is not told finer than that
FREE_STEPS = 50  # of expectation maximisation without a model
MAX_SUSPECTS = 500  # numbers of reports that are looked at more closely
IMPOSSIBLE_DEVIATIONS, IMPOSSIBLE_EXCESS = 7.0, 30.0  # standard deviations, and reports, beyond what people could cause


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PeopleEstimate:
    """People in each cell or region, and the ends of an interval, all in numbers of people."""

    people: Reals
    low: Reals
    high: Reals


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class DensityEstimate:
    """Where the people are who sent the reports.

    `cells` and `regions` hold the estimate with an interval that contains the true number of them as often as `level`
    says, counted by cells and counted by people; benchmarks/location_cover.py measures it. `roughness` is the squared
    relative spread of cells around their surroundings that the reports show. `impossible` lists reports that came far
    more often than any spread of people explains: they are forged, or were sent again and again.
    """

    reports: Integers
    roughness: float
    level: str
    cells: PeopleEstimate
    regions: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    impossible: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """Count the reports."""
        return int(self.reports.sum())

    @property
    def width(self) -> float:
        """Give the median width of a cell's interval over its estimate, counted by people: above 2 cells are vague."""
        order = np.argsort(width := (self.cells.high - self.cells.low) / np.maximum(self.cells.people, 1.0))
        sums = np.cumsum(self.cells.people[order])
        return float(width[order][int(np.searchsorted(sums, sums[-1] / 2))])

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as JSON-able facts."""
        return {
            "reports": self.total,
            "roughness": round(self.roughness, 4),
            "level": self.level,
            "median_width_of_cells": round(self.width, 3),
            "impossible_reports": list(self.impossible),
            "regions": {
                name: {"people": people, "low": low, "high": high} for name, (people, low, high) in self.regions.items()
            },
        }


@on_one_thread
def estimate_people(
    device_file: DeviceFile,
    reports: Integers,
    *,
    regions: Mapping[str, Integers] | None = None,
    prior: Reals | None = None,
    level: str = "0.95",
) -> DensityEstimate:
    """Estimate how many of the reporting people are in every cell, and in every region (name -> cells).

    `reports` counts the reports of every number: a cell, or a hidden report of mode near. With a population `prior` the
    estimate departs from it as far as reports ask for it.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.device_file import RepeatUse
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import FULL_WEIGHT
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([FULL_WEIGHT, FULL_WEIGHT]))
    >>> made = DeviceFile(mechanism=law, epsilon_per_metre=Fraction(1, 50), tight_epsilon_per_metre=0.02,
    ...     repeat=RepeatUse())
    >>> found = estimate_people(made, np.array([600, 400])).cells
    >>> bool(found.low[0] <= found.people[0] <= found.high[0]), round(float(found.people.sum()))
    (True, 1000)
    """
    if level not in LEVELS:
        raise ParameterError("level ({level}) must be one of {levels}", level=level, levels=", ".join(LEVELS))
    counts = _check_counts(device_file, reports)
    law, (tail, student) = device_file.mechanism, LEVELS[level]
    flow, start = make_flow(law), choose_start(law.can_enter, prior)
    seen = counts.astype(np.float64)
    fitted = fit_town(flow, seen, cells=law.can_enter, start=start, tail=tail, simulation=Simulation(SEED))
    free = maximise_expectation(flow, seen, np.maximum(fitted.modelled, start * 1e-6 * seen.sum()), steps=FREE_STEPS)
    return DensityEstimate(
        reports=counts,
        roughness=fitted.roughness,
        level=level,
        cells=PeopleEstimate(people=fitted.people, low=fitted.low, high=fitted.high),
        regions=_sum_regions(fitted, free, student, regions or {}),
        impossible=find_impossible(flow, seen, free),
    )


def choose_start(can_enter: Booleans, prior: Reals | None) -> Reals:
    """Give shares of people before any report: even over where people can be, or nearly as a prior says."""
    if prior is None:
        even: Reals = can_enter / can_enter.sum()
        return even
    given = np.where(can_enter, np.asarray(prior, dtype=np.float64), 0.0)
    if len(prior) != len(can_enter) or not np.isfinite(given).all() or given.min() < 0 or given.sum() <= 0:
        raise ParameterError(
            "the prior must have one number of at least 0 for each cell, and be above 0 in a cell where people can be"
        )
    # a cell of prior 0 could never be found; a little everywhere lets reports speak against the prior
    mixed: Reals = 0.99 * given / given.sum() + 0.01 * can_enter / can_enter.sum()
    return mixed


def find_impossible(flow: ReportFlow, reports: Reals, people: Reals) -> tuple[int, ...]:
    """Find reports that came far more often than people explain who are spread as the reports like best.

    Neighbouring reports have nearly the same chance from every place, so a single number that comes often by itself was
    forged, or sent many times. A forger who draws by the law, for a place of his choice, cannot be told from a person.
    """
    suspects = _find_excess(reports, flow.to_reports(people[None])[0])[:MAX_SUSPECTS]
    if not len(suspects):
        return ()
    return tuple(suspects[_find_excess(reports[suspects], flow.expect(people, suspects))].tolist())


def _find_excess(reports: Reals, expected: Reals) -> Integers:
    """Find numbers that came far more often than expected, the greatest excess first."""
    excess = reports - np.maximum(expected, 0.0)
    found = np.flatnonzero(
        (excess > IMPOSSIBLE_EXCESS) & (excess > IMPOSSIBLE_DEVIATIONS * np.sqrt(np.maximum(expected, 1.0)))
    )
    return found[np.argsort(-excess[found], kind="stable")]


def _check_counts(device_file: DeviceFile, reports: Integers) -> Integers:
    counts = np.asarray(reports, dtype=np.int64)
    size = device_file.mechanism.reports
    if counts.shape != (size,) or counts.min() < 0:
        raise ParameterError("reports must be counted for each of the {cells} cells of the map", cells=size)
    if not counts.any():
        raise ParameterError("there is no report to estimate from; collect some first")
    if isinstance(device_file.mechanism, Mechanism) and counts[device_file.mechanism.weights == 0].any():
        raise ParameterError(
            "a report names a cell that this device file never reports; the reports are damaged or forged"
        )
    return counts


def _sum_regions(
    fitted: FittedTown, free: Reals, student: float, regions: Mapping[str, Integers]
) -> dict[str, tuple[float, float, float]]:
    """Give people, low and high of every region: towns drawn around the estimate tell how far sums vary.

    Blur that follows the border of a region (a town that ends there) is no chance; what steps without a model change
    tells of it, and has nothing to do with chance: their squares are added.
    """
    sums = {}
    for name, cells in regions.items():
        people = float(free[cells].sum())
        deviations = fitted.deviations[:, cells].sum(axis=1)
        blur = BLUR * abs(people - float(fitted.modelled[cells].sum()))
        half_width = max(float(np.hypot(student * np.sqrt((deviations**2).sum() / DRAWS), blur)), NARROWEST)
        sums[name] = people, max(people - half_width, 0.0), people + half_width
    return sums
