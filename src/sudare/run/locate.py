"""Estimate densities and region counts from the reports of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.evaluate.collector import Collector
from sudare.methods.location.artefact import Artefact

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REPLICATES = 12
FOLDS = 3
LONGER = 3  # times the chosen steps for intervals and sums: more noise, less blur; see the measured coverage
BLUR = 2.0  # times the change by the longer steps: about what they leave of the blur of a sharp edge
LEAST_PEOPLE = 1.0  # nobody is found nowhere more surely than to one person
HELD_OUT = 0.2  # share of the reports that judge when to stop
SEED = 20130715  # the same reports give the same estimate; nothing private is drawn with it
# two-sided 50 %, 80 %, 90 %, 95 % and 99 % points of Student's t with REPLICATES - 1 degrees of freedom
STUDENT = {"0.5": 0.697, "0.8": 1.363, "0.9": 1.796, "0.95": 2.201, "0.99": 3.106}


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Interval:
    """People in each cell or region, and the ends of an interval, all in numbers of people."""

    people: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Estimate:
    """Where the people are who sent the reports.

    `cells` holds one figure per cell, from the steps that held-out reports chose. `regions` holds sums of an estimate
    with three times the steps: in sums noise averages out and blur does not. An interval is that longer estimate -+
    (t * standard deviation + |bias|), both from reports simulated under it, widened to hold the figure it belongs to;
    for regions twice the change by the longer steps is added, for the blur that is left at sharp edges. Intervals do
    not see detail that no report could show.
    """

    reports: Ints
    steps: int
    level: str
    cells: Interval
    regions: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many reports there were."""
        return int(self.reports.sum())

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON-able facts."""
        return {
            "reports": self.total,
            "steps": self.steps,
            "level": self.level,
            "regions": {
                name: {"people": people, "low": low, "high": high} for name, (people, low, high) in self.regions.items()
            },
        }


def estimate(
    artefact: Artefact,
    reports: Ints,
    *,
    regions: Mapping[str, Ints] | None = None,
    prior: Floats | None = None,
    level: str = "0.95",
) -> Estimate:
    """Estimate how many of the reporting people are in every cell, and in every region (name -> cells).

    `reports` counts the reports of every cell. The number of steps is chosen by held-out reports, the intervals by 12
    simulated sets of reports.
    """
    if level not in STUDENT:
        raise ParameterError("level ({level}) must be one of {levels}", level=level, levels=", ".join(STUDENT))
    counts = _checked(artefact, reports)
    collector = Collector.of(artefact.mechanism, prior=prior)
    numbers = np.random.default_rng(SEED)
    steps = collector.steps_by(*_folds(counts, numbers))
    total = float(counts.sum())
    found = total * collector.estimate(counts[None], steps=steps)[0]
    longer = collector.estimate(counts[None], steps=LONGER * steps)[0]
    simulated = numbers.multinomial(counts.sum(), collector.law_of_reports(longer), size=REPLICATES)
    again = total * collector.estimate(simulated, steps=LONGER * steps)
    return Estimate(
        reports=counts,
        steps=steps,
        level=level,
        cells=_interval(found, longer * total, again, STUDENT[level]),
        regions=_regions(found, longer * total, again, STUDENT[level], regions or {}),
    )


def _checked(artefact: Artefact, reports: Ints) -> Ints:
    counts = np.asarray(reports, dtype=np.int64)
    size = artefact.mechanism.places.size
    if counts.shape != (size,) or counts.min() < 0:
        raise ParameterError("reports must be counted for each of the {cells} cells of the map", cells=size)
    if not counts.any():
        raise ParameterError("there is no report to estimate from; collect some first")
    if counts[artefact.mechanism.weights == 0].any():
        raise ParameterError("a report names a cell that this artefact never reports; reports are damaged or forged")
    return counts


def _folds(counts: Ints, numbers: np.random.Generator) -> tuple[Ints, Ints]:
    """Split the reports at random, three times; a split that leaves nothing on a side keeps one report there."""
    held_out = numbers.binomial(counts, HELD_OUT, size=(FOLDS, len(counts)))
    busiest = int(np.argmax(counts))
    for fold in held_out:
        if fold.sum() == counts.sum():
            fold[busiest] -= 1
    return counts - held_out, held_out


def _interval(found: Floats, longer: Floats, again: Floats, student: float, blur: float = 0.0) -> Interval:
    spread = np.maximum(again.std(axis=0, ddof=1), LEAST_PEOPLE)
    room = student * spread + np.abs(again.mean(axis=0) - longer) + blur
    low, high = np.maximum(longer - room, 0.0), longer + room
    return Interval(people=found, low=np.minimum(low, found), high=np.maximum(high, found))


def _regions(
    found: Floats, longer: Floats, again: Floats, student: float, regions: Mapping[str, Ints]
) -> dict[str, tuple[float, float, float]]:
    told = {}
    for name, cells in regions.items():
        people = longer[cells].sum(keepdims=True)
        blur = BLUR * abs(float(people[0] - found[cells].sum()))
        one = _interval(people, people, again[:, cells].sum(axis=1, keepdims=True), student, blur)
        told[name] = float(one.people[0]), float(one.low[0]), float(one.high[0])
    return told
