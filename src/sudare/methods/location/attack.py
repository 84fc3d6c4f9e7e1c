"""What an attacker finds who keeps every report of a device: the home, after a day, a month and a year.

The attacker knows map, law, rule of repeat use, prior and the errors of receivers, links all reports of a device, and
names the cell of the greatest posterior. One report:

    chance = sum over y of max over x of prior(x) P(y|x)          exact

Longer times are simulated: homes after the prior, one fix a day with the errors below, the rule of the device file, and
the attacker's posterior. On a large map he is told that the home lies in a window around it, which only helps him; so
the figures are rather too large than too small. Their standard error is at most 0.02 where answers last on a map of at
most 10,000 places without hidden reports, and at most 0.04 elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.methods.location.device_file import RepeatUse
from sudare.methods.location.grid import ElasticGrid, PlaneGrid, distances_from
from sudare.methods.location.hidden import HiddenMechanism
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.posterior import find_all_norms, find_largest_nearby, share_prior
from sudare.noise.public import Simulation
from sudare.schema.arrays import Integers, Reals

DAYS = (1, 30, 365)
HOMES, MANY_HOMES = 150, 600  # simulated, for each length of time: many where a home takes little time
MANY_HOMES_PLACES = 10_000  # of a map up to which that is so
WINDOW_CELLS = 900  # nearest to the home, among which the attacker looks on a map that has more
FIX_ERRORS = ((0.95, 30.0), (0.05, 150.0))  # share of the fixes, and standard deviation in metres on each axis
SEED = 19450101  # the same map gives the same figures; nothing private is drawn with it


@dataclass(frozen=True, kw_only=True, slots=True)
class HomeFound:
    """The chance that the home cell is named after so many days."""

    days: int
    chance: float


def find_chances(
    mechanism: Mechanism | HiddenMechanism,
    repeat: RepeatUse,
    *,
    prior: Reals | None = None,
    first: float | None = None,
) -> list[HomeFound]:
    """Find the chance that an attacker names the home cell, after 1, 30 and 365 days of one fix a day.

    `first`: that of one report, if it is known already.

    >>> from sudare.methods.location.mechanism import FULL_WEIGHT
    >>> grid = PlaneGrid(rows=9, columns=9, cell_height_metres=115, cell_width_metres=140)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.full(81, FULL_WEIGHT))
    >>> lasting = find_chances(law, RepeatUse(answers="lasting", within_metres=300, life=30))
    >>> daily = find_chances(law, RepeatUse())
    >>> lasting[0].chance == daily[0].chance, lasting[2].chance < 2 * lasting[0].chance < daily[2].chance
    (True, True)
    """
    people = share_prior(mechanism.can_enter, prior)
    attacker = Attacker(mechanism, people)
    chances = [attacker.chance_of_one() if first is None else min(1.0, first)]
    chances += [max(attacker.simulate(repeat, days), chances[0]) for days in DAYS[1:]]
    return [HomeFound(days=days, chance=chance) for days, chance in zip(DAYS, chances, strict=True)]


class Attacker:
    """The posterior of one map and prior."""

    def __init__(self, mechanism: Mechanism | HiddenMechanism, people: Reals) -> None:
        self.mechanism, self.people = mechanism, people
        norms = mechanism.sums() if isinstance(mechanism, HiddenMechanism) else find_all_norms(mechanism)
        self.log_alpha = np.where(mechanism.can_enter, -np.log(norms), -np.inf)
        self._box = (0, 0)
        self.log_prior = np.log(np.maximum(people, np.finfo(float).tiny))

    def chance_of_one(self) -> float:
        """Sum the likeliest place of every report."""
        if isinstance(self.mechanism, HiddenMechanism):
            weight = self.people * np.exp(self.log_alpha)
            return float(
                min(1.0, sum((weight[:, None] * terms).max(axis=0).sum() for _, terms in self.mechanism.blocks()))
            )
        likeliest = find_largest_nearby(self.mechanism, self.people * np.exp(self.log_alpha))
        return float(min(1.0, (self.mechanism.shares * likeliest).sum()))

    def simulate(self, repeat: RepeatUse, days: int) -> float:
        """Simulate homes, fixes, reports and guesses."""
        simulation = Simulation(SEED + days)
        is_quick = isinstance(self.mechanism, Mechanism) and self.people.size <= MANY_HOMES_PLACES
        count = MANY_HOMES if is_quick and repeat.answers == "lasting" else HOMES
        homes = np.repeat(np.arange(self.people.size), simulation.resample(count, self.people, times=1)[0])
        hits = 0
        for home in homes.tolist():
            fixes = self._measure(home, max(days, repeat.dwell), simulation)
            scores, cells = self._score(home, fixes, repeat, simulation)
            hits += int(cells[int(scores.argmax())] == home)
        return hits / count

    def _measure(self, home: int, days: int, simulation: Simulation) -> Integers:
        """Simulate the cell of one fix a day; on maps without rows and columns fixes have no error."""
        grid = _plane_of(self.mechanism)
        if grid is None:
            return np.full(days, home)
        deviations = np.array([deviation for _, deviation in FIX_ERRORS])
        kinds = simulation.choose(days, [share for share, _ in FIX_ERRORS])
        errors = simulation.normal((days, 2)) * deviations[kinds][:, None]
        inside = simulation.uniform(2) - 0.5  # where in its cell the home is
        sides = np.array([float(grid.cell_height_metres), float(grid.cell_width_metres)])
        places = np.rint(np.array(divmod(home, grid.columns)) + inside + errors / sides).astype(np.int64)
        places = np.clip(places, 0, np.array(grid.shape) - 1)
        cells = places[:, 0] * grid.columns + places[:, 1]
        return np.where(self.mechanism.can_enter[cells], cells, home)

    def _score(self, home: int, fixes: Integers, repeat: RepeatUse, simulation: Simulation) -> tuple[Reals, Integers]:
        """Give the log posterior of the cells that the attacker considers."""
        cells = self._window(home)
        scores = self.log_prior[cells].copy()
        if repeat.answers == "daily":
            for cell, times in zip(*np.unique(fixes, return_counts=True), strict=True):
                counts = simulation.resample(int(times), self.mechanism.report_law(int(cell)), times=1)[0]
                for report in np.flatnonzero(counts).tolist():
                    scores += counts[report] * self._log_likelihood(report, cells, FIX_ERRORS)
            return scores, cells
        for number, place in enumerate(self._settle(fixes, repeat)):
            report = int(simulation.resample(1, self.mechanism.report_law(place), times=1)[0].argmax())
            errors = FIX_ERRORS if number == 0 else FIX_ERRORS[1:]  # later places are those of bad fixes
            scores += self._log_likelihood(report, cells, errors)
        return scores, cells

    def _settle(self, fixes: Integers, repeat: RepeatUse) -> list[int]:
        """Run the rule of lasting answers over the fixes: the places that are drawn."""
        within, most = float(Fraction(repeat.within_metres)), repeat.life or len(fixes)
        places: list[int] = []
        waiting: list[int] = []
        reach: list[Reals] = []
        for cell in fixes.tolist():
            if any(row[cell] <= within for row in reach):
                waiting = []
                continue
            if waiting and distances_from(self.mechanism.places, waiting[0])[cell] > within:
                waiting = []
            waiting.append(cell)
            if len(waiting) >= repeat.dwell and len(places) < most:
                places.append(waiting[len(waiting) // 2])
                reach.append(distances_from(self.mechanism.places, places[-1]))
                waiting = []
        return places

    def _log_likelihood(self, report: int, cells: Integers, errors: tuple[tuple[float, float], ...]) -> Reals:
        """Give log P(report | home in cell), the fix being off by an error: the law, blurred."""
        logs = self.mechanism.log_chances(report, cells) + self.log_alpha[cells]
        grid = _plane_of(self.mechanism)
        if grid is None:
            return logs
        from scipy import ndimage

        top = float(logs.max())
        box = np.exp(logs - top).reshape(self._box)
        sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
        total = sum(share for share, _ in errors)
        blurred = sum(
            share / total * ndimage.gaussian_filter(box, [deviation / side for side in sides], mode="nearest")
            for share, deviation in errors
        )
        scores: Reals = np.log(np.maximum(blurred, np.finfo(float).tiny)).reshape(-1) + top
        return scores

    def _window(self, home: int) -> Integers:
        """Give the cells that the attacker considers: all, or a box around the home."""
        grid = _plane_of(self.mechanism)
        if grid is None:
            cells = np.flatnonzero(self.mechanism.can_enter)
            if len(cells) > WINDOW_CELLS:
                near = distances_from(self.mechanism.places, home)[cells]
                cells = np.sort(cells[np.argsort(near, kind="stable")[:WINDOW_CELLS]])
            return cells
        side = int(WINDOW_CELLS**0.5)
        ranges = []
        for place, size in zip(divmod(home, grid.columns), grid.shape, strict=True):
            low = max(0, min(place - side // 2, size - side))
            ranges.append(np.arange(low, min(size, low + side)))
        self._box = (len(ranges[0]), len(ranges[1]))
        return (ranges[0][:, None] * grid.columns + ranges[1][None, :]).reshape(-1)


def _plane_of(mechanism: Mechanism | HiddenMechanism) -> PlaneGrid | None:
    """Give the rows and columns of a map that has them."""
    places = mechanism.places
    grid = places.grid if isinstance(places, ElasticGrid) else places
    return grid if isinstance(grid, PlaneGrid) else None
