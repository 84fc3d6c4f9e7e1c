"""How many people are where, in towns that may be rough: a model of detail that no report can show.

Reports blur. An estimate that is fitted to them alone is smooth, and so would be every town simulated from it: its
intervals miss the busy cells, where most people are. Here the detail is part of the model:

    people(x) ~ Poisson(base(x) exp(u(x))),   u(x) independent, of variance log(1 + roughness)

base        what is surely seen: a few steps of expectation maximisation, averaged over neighbouring cells
roughness   chosen so that the town, simulated with it and estimated alike, departs from its base as much as this one
estimate    the likeliest u, and one more step of expectation maximisation, after which the sums are those of reports
spread      towns drawn from the model around the estimate and estimated again (perturb and solve, conjugate gradients)
intervals   of a cell: what reports say about it (a normal law around what they would say alone) times the law of u.
            The lower end leaves out a share of cells, the upper end a share of people, since a random person is in a
            busy cell more often than a random cell is busy: so intervals hold for cells and for people.
            A town of a few crowded cells is none of the model: where reports say so, the upper end is a cell alone.

Nothing here sees a person: reports are private already. Source: expectation maximisation by Agrawal and Aggarwal 2001;
Gaussian posteriors by perturb and solve, Papandreou and Yuille 2010; the rest is ours, measured in
benchmarks/location_cover.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sudare.methods.location.flow import ReportFlow, Samples
from sudare.noise.public import Simulation
from sudare.schema.arrays import Booleans, Reals

BASE_STEPS = 12  # of expectation maximisation
BASE_WIDTH = 1.0  # cells over which the base is averaged
SPREAD_WIDTH = 0.8  # cells over which variances are averaged: few draws tell little about a single cell
LEAST_BASE = 1e-3  # of the mean: no cell where people can be is known to be empty
ROUND_POWERS = (2.0, 1.8, 1.4, 0.8, 0.5)  # of the ratio that a simulated town shows: first far, then averaging chance
MIN_ROUGHNESS, MAX_ROUGHNESS = 0.02, 6.0  # squared relative spread of a cell around its base
# log roughness of towns before any report is seen: that of made-up towns with lognormal, gamma and Pareto cells
USUAL_ROUGHNESS, USUAL_SPREAD = 3.0, 0.8
ROOM_DEVIATIONS = 0.7  # of log roughness that are added for intervals of cells, where reports tell little about it
TRUST = 0.95  # share of the information that few draws show which is believed: a straight line replaces the model there
LOWER_SHARE, UPPER_SHARE = 1.9, 1.8  # of the tail, below and above: cells are easier to cover than people
BUSY_SHARE, LEAST_TAIL = 0.004, 0.12  # a cell with more of all people has a smaller tail, in proportion, to this share
BUSY_DEVIATIONS = 0.5  # that are added to the people of a cell before it is asked whether it is busy
HELD_OUT = 0.2  # share of the reports that judge whether the town is smooth
SMOOTH_STEPS = (2, 4, 6, 9, 14, 20)  # of expectation maximisation that are tried for a smooth town
# A town of a few crowded cells is none of the model: a step without it then gains more of log chance than this share of
# what reports tell (in cells). Looked for where they tell less than half of all cells; chosen on `third`, 7301:7304
SPIKY_GAIN, VAGUE_SHARE = 0.1, 0.5
ALONE_DEVIATIONS = 2.0  # of reports, that are added to what one cell alone could have sent
DRAWS = 10  # towns drawn around the estimate
FIT_STEPS = 45  # of the optimiser that finds the likeliest u: 120 cover as much on 200 x 200 cells
# u falls off on both sides of its mean like a power of 1 + u^2 / (2 degrees): cells may be empty in a town, and one may
# hold a large part of it. Chosen with UPPER_SHARE on the first two sets of benchmarks/location_unseen, 7101:7104
LOWER_TAIL_DEGREES, UPPER_TAIL_DEGREES = 1.5, 2.0
LAW_OF_U = 3.3  # the integral of that law over u / sigma: half of 3.14 above, half of 3.46 below
EMPTY_CELLS = 0.015  # share of cells that are taken to be empty before any report
POINTS = 80  # where the law of a cell is evaluated
HALF_PERSON = 0.5  # people are whole: what lies within half a person of an end of a law of real numbers is in
SMALL = 1e-9  # people: nothing is divided by less
ROOT_DEGREE = 8
# of sqrt((1 - t) / 2) in Chebyshev's polynomials: its square is off by .003 at most
_ANGLES = np.pi * (np.arange(ROOT_DEGREE + 1) + 0.5) / (ROOT_DEGREE + 1)
_ROOT_TERMS = 2 * np.cos(np.outer(np.arange(ROOT_DEGREE + 1), _ANGLES)) @ np.sin(_ANGLES / 2) / (ROOT_DEGREE + 1)
ROOT_SERIES = (_ROOT_TERMS * np.where(np.arange(ROOT_DEGREE + 1), 1.0, 0.5)).astype(np.float32)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class FittedTown:
    """An estimate with what its intervals are made of; arrays are one number for each cell."""

    people: Reals
    low: Reals
    high: Reals
    modelled: Reals  # people by the model, also where a smoother town is told: sums of regions are made of it
    deviations: Reals  # (draws, cells): towns drawn around the modelled one, minus it
    roughness: float
    expected_reports: Reals  # of every number, under the estimate


def fit_town(
    flow: ReportFlow, reports: Reals, *, cells: Booleans, start: Reals, tail: float, simulation: Simulation
) -> FittedTown:
    """Estimate people in every cell; `tail` is the share of a law beyond each end of an interval."""
    base = find_base(flow, reports, cells, start)
    roughness, room = choose_roughness(flow, reports, base, cells, start, simulation)
    log_ratio, rate = _find_likeliest(flow, reports, base, cells, np.log1p(roughness))
    expected = _at_least(flow.to_reports(rate[None])[0])
    gain = flow.to_cells((reports / expected)[None])[0]
    people = rate * gain
    people *= reports.sum() / max(float(people.sum()), SMALL)
    variance = room * roughness * rate * np.maximum(rate, base)
    draws = _draw_around(flow, rate, variance, expected, simulation)
    slope = np.where(cells, log_ratio / (np.log1p(roughness) * _positive(rate, cells)), 0.0)
    information, centre = _weigh_reports(flow, draws, rate=rate, variance=variance, people=people, base=base,
                                         slope=slope, cells=cells)  # fmt: skip
    smooth = find_smooth_town(flow, reports, cells, start, roughness, simulation)
    law = CellLaw.of(base=_positive(base, cells), roughness=room * roughness, centre=centre, information=information)
    low, high = law.find_ends(_choose_tails(tail, people, draws.spread))
    told = float(np.minimum(draws.pull * (variance + rate), 1.0).sum())
    if is_spiky(flow, reports, people=people, expected=expected, told=told, cells=int(cells.sum())):
        high = np.maximum(high, bound_alone(flow, reports))
    shown = people if smooth is None else smooth
    return FittedTown(
        people=shown,
        low=np.where(cells, np.maximum(np.minimum(low, shown) - HALF_PERSON, 0.0), 0.0),
        high=np.where(cells, np.maximum(high, shown) + HALF_PERSON, 0.0),
        modelled=people,
        deviations=draws.deviations,
        roughness=roughness,
        expected_reports=expected,
    )


# --- what is surely seen --------------------------------------------------------------------------------------------


def maximise_expectation(flow: ReportFlow, reports: Reals, start: Reals, *, steps: int) -> Reals:
    """Run so many steps of expectation maximisation from `start`; the people add up to the reports.

    One step:  n(x) <- n(x) * A'[ reports / (A n) ](x)
    """
    people = start * (reports.sum() / start.sum())
    for _ in range(steps):
        ratio = reports / _at_least(flow.to_reports(people[None])[0])
        people = people * np.maximum(flow.to_cells(ratio[None])[0], 0.0)
    scaled: Reals = people * (reports.sum() / people.sum())
    return scaled


def find_base(flow: ReportFlow, reports: Reals, cells: Booleans, start: Reals) -> Reals:
    """Find a smooth town, or the start (a population prior) times a smooth factor."""
    found = maximise_expectation(flow, reports, start, steps=BASE_STEPS)
    seen, before = (flow.average(values, BASE_WIDTH) for values in (found, start))
    factor = np.where(cells, seen / np.maximum(before, SMALL * float(before.max())), 0.0)
    base = np.where(cells, np.maximum(start * factor, 0.0), 0.0)
    base = np.where(cells, np.maximum(base, LEAST_BASE * float(reports.sum()) / cells.sum()), 0.0)
    scaled: Reals = base * (reports.sum() / base.sum())
    return scaled


def choose_roughness(
    flow: ReportFlow, reports: Reals, base: Reals, cells: Booleans, start: Reals, simulation: Simulation
) -> tuple[float, float]:
    """Choose the roughness with which simulated towns depart from their base as much as this one does from its own.

    Departures have the variance roughness * f, f the share that reports explain of it. Where that is little, the town
    could as well be any other: log roughness then is mostly the usual one. The second number is by how much it may be
    larger.
    """
    roughness, explained = 1.0, 0.0
    for number in range(len(ROUND_POWERS)):
        sigma = np.sqrt(np.log1p(roughness))
        rate = base * np.exp(sigma * simulation.normal(base.shape) - sigma * sigma / 2)
        drawn = simulation.poisson(np.maximum(flow.to_reports(rate[None])[0], 0.0))
        if not drawn.any():
            break
        simulated = drawn * (reports.sum() / drawn.sum())
        own_base = find_base(flow, simulated, cells, start)
        seen = _measure_departure(flow, reports, base, roughness)
        expected = _measure_departure(flow, simulated, own_base, roughness)
        explained = min(expected / (roughness * float(cells.sum())), 1.0)
        ratio = min(max(seen / max(expected, SMALL), 0.25), 4.0)
        roughness *= ratio ** ROUND_POWERS[number]
        roughness = min(max(roughness, MIN_ROUGHNESS), MAX_ROUGHNESS)
    known = USUAL_SPREAD**2 * float(cells.sum()) * explained**2 / 4  # information of reports over that of usual towns
    mixed = (known * np.log(roughness) + np.log(USUAL_ROUGHNESS)) / (known + 1)
    return float(np.exp(mixed)), float(np.exp(ROOM_DEVIATIONS * USUAL_SPREAD / np.sqrt(known + 1)))


def _measure_departure(flow: ReportFlow, reports: Reals, base: Reals, roughness: float) -> float:
    """Sum the squares of how far cells depart from the base, relatively, as far as reports can tell."""
    expected = _at_least(flow.to_reports(base[None])[0])
    solved = _solve(flow, expected, roughness * base * base, (reports - expected)[None], tolerance=2e-2, most=20)
    departures = roughness * base * flow.to_cells(solved)[0]
    return float(np.minimum(departures**2, 9 * (1 + roughness)).sum())  # a single busy cell decides nothing


def find_smooth_town(
    flow: ReportFlow, reports: Reals, cells: Booleans, start: Reals, roughness: float, simulation: Simulation
) -> Reals | None:
    """Give a few steps of expectation maximisation where they foresee held-out reports better than the model does.

    In a town without detail the model fits noise, and the steps, stopped early, do not; in others this gives None.
    """
    held_out = simulation.split(reports.astype(np.int64), share=HELD_OUT, times=1)[0].astype(np.float64)
    seen = reports - held_out
    if not (seen.any() and held_out.any()):
        return None
    base = find_base(flow, seen, cells, start)
    rough = _find_likeliest(flow, seen, base, cells, np.log1p(roughness))[1]
    best, chosen = _foresee(flow, rough, held_out), None
    people, before = start, 0
    for steps in SMOOTH_STEPS:
        people = maximise_expectation(flow, seen, people, steps=steps - before)
        found, before = _foresee(flow, people, held_out), steps
        if found > best:
            best, chosen = found, steps
    return None if chosen is None else maximise_expectation(flow, reports, start, steps=chosen)


def is_spiky(flow: ReportFlow, reports: Reals, *, people: Reals, expected: Reals, told: float, cells: int) -> bool:
    """Tell whether reports speak against the model: `people` are one step away from it, which `expected` is of.

    `told` is how many cells' worth of detail the reports tell.
    """
    after = _at_least(flow.to_reports(people[None])[0])
    gain = float((reports * np.log(after / expected)).sum() - after.sum() + expected.sum())
    return told < VAGUE_SHARE * cells and gain > SPIKY_GAIN * told


def bound_alone(flow: ReportFlow, reports: Reals) -> Reals:
    """Give how many people a cell could hold at most if all reports around it were theirs.

    n people in x send  sum over y of A(y, x) reports(y) = n sum of A(y, x)^2  on average; others only add to it.
    """
    sent = np.maximum(flow.to_cells(reports[None])[0], 0.0)
    chance = np.sqrt(np.maximum(flow.square_to_cells(reports), 0.0))
    most = (sent + ALONE_DEVIATIONS * chance) / np.maximum(flow.square_to_cells(np.ones_like(reports)), SMALL)
    bounded: Reals = np.minimum(most, reports.sum())
    return bounded


def _foresee(flow: ReportFlow, people: Reals, held_out: Reals) -> float:
    """Give the logarithm of the chance of held-out reports."""
    expected = _at_least(flow.to_reports(people[None])[0])
    return float((held_out * np.log(expected / expected.sum())).sum())


# --- the likeliest town, and towns around it --------------------------------------------------------------------------


def _find_likeliest(
    flow: ReportFlow, reports: Reals, base: Reals, cells: Booleans, variance: float
) -> tuple[Reals, Reals]:
    """Find u and base exp(u): minimise sum(A n) - reports log(A n) + u^2 / (2 variance)."""
    from scipy import optimize

    log_base = np.log(_positive(base, cells))
    bends = base**2 * flow.square_to_cells(1 / _at_least(flow.to_reports(base[None])[0]))
    scale = 1 / np.sqrt(1 / variance + np.maximum(bends, 0.0))  # busy cells bend the likelihood most: steps as long

    def value_and_gradient(scaled: Reals) -> tuple[float, Reals]:
        log_ratio = scale * scaled
        rate = np.where(cells, np.exp(np.clip(log_base + log_ratio, -40, 40)), 0.0)
        expected = _at_least(flow.to_reports(rate[None])[0])
        value = expected.sum() - (reports * np.log(expected)).sum() + (log_ratio**2).sum() / (2 * variance)
        slope = rate * flow.to_cells((1 - reports / expected)[None])[0] + log_ratio / variance
        return float(value), scale * slope

    options = {"maxiter": FIT_STEPS, "maxcor": 10, "ftol": 1e-10}
    result = optimize.minimize(value_and_gradient, np.zeros_like(base), jac=True, method="L-BFGS-B", options=options)
    found: Reals = scale * result.x
    return found, np.where(cells, np.exp(log_base + found), 0.0)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class DrawnTowns:
    """Towns drawn around the estimate: how far people deviate, and what reports alone pull at."""

    deviations: Reals  # (draws, cells)
    spread: Reals  # variance of people in a cell, averaged over neighbours
    pull: Reals  # mean square of A' S^-1 (simulated reports), averaged alike
    split: Reals  # variance of people even if all rates were known: who sent a report


def _draw_around(flow: ReportFlow, rate: Reals, variance: Reals, expected: Reals, simulation: Simulation) -> DrawnTowns:
    """Draw rates around the estimate, estimate them from simulated reports, and keep the differences.

    People are known better than rates where reports hardly blur: who sent a report is drawn by its own law, so that
    given the rates a cell has rate * A'(reports / expected) people on average and `split` around it.
    """
    shape = DRAWS, len(rate)
    rates = (simulation.normal(shape) * np.sqrt(variance)).astype(np.float32)
    noise = (simulation.normal((DRAWS, len(expected))) * np.sqrt(expected)).astype(np.float32)
    solved = _solve(flow, expected, variance, flow.to_reports(rates) + noise, tolerance=1e-2, most=45)
    pull = flow.to_cells(solved)
    left = rates - variance.astype(np.float32) * pull
    moved = (left - rate * flow.to_cells(flow.to_reports(left) / expected.astype(np.float32))).astype(np.float64)
    split = np.maximum(rate - rate**2 * flow.square_to_cells(1 / expected), 0.0)
    scale = np.where(rate > 0, rate, 1.0)
    return DrawnTowns(
        deviations=moved + _draw_senders(flow, rate, expected, simulation),
        spread=_average(flow, (moved**2).mean(axis=0) / scale, rate > 0) * scale + split,
        pull=_average(flow, (pull.astype(np.float64) ** 2).mean(axis=0) * scale, rate > 0) / scale,
        split=split,
    )


def _draw_senders(flow: ReportFlow, rate: Reals, expected: Reals, simulation: Simulation) -> Reals:
    """Draw who sent the reports if all rates were known: a person more in one cell is one less in the cells around.

    Their covariance is R - R A' E^-1 A R = sqrt(R) (I - M) sqrt(R), R = diag(rate), E = diag(expected), and M has
    values of [0, 1]: a polynomial in M near to the root of 1 - M is applied to normal numbers.
    """
    roots, inverse = np.sqrt(rate).astype(np.float32), (1 / expected).astype(np.float32)
    drawn = simulation.normal((DRAWS, len(rate))).astype(np.float32)
    later, last = np.zeros_like(drawn), np.zeros_like(drawn)
    for number in range(len(ROOT_SERIES) - 1, -1, -1):  # Clenshaw: T(n+1) = 2 t T(n) - T(n-1), t = 2 M - 1
        mixed = 2 * roots * flow.to_cells(inverse * flow.to_reports(roots * later)) - later
        current = ROOT_SERIES[number] * drawn + (2 if number else 1) * mixed - last
        later, last = current, later
    deviations: Reals = (roots * later).astype(np.float64)
    return deviations


def _solve(flow: ReportFlow, noise: Reals, variance: Reals, right: Samples, *, tolerance: float, most: int) -> Samples:
    """Solve (diag(noise) + A diag(variance) A') x = right for every row, by conjugate gradients in 32-bit floats."""
    inverse = (1 / (noise + np.maximum(flow.square_to_reports(variance), 0.0))).astype(np.float32)
    rough_noise, rough_variance, residual = (values.astype(np.float32) for values in (noise, variance, right))
    solved = np.zeros_like(residual)
    conditioned = inverse * residual
    direction, product = conditioned.copy(), (residual * conditioned).sum(axis=1)
    target = tolerance**2 * product
    for _ in range(most):
        if bool((product <= target).all()):
            break
        image = rough_noise * direction + flow.to_reports(rough_variance * flow.to_cells(direction))
        step = product / np.maximum((direction * image).sum(axis=1), np.finfo(np.float32).tiny)
        solved += step[:, None] * direction
        residual -= step[:, None] * image
        conditioned = inverse * residual
        after = (residual * conditioned).sum(axis=1)
        direction = conditioned + (after / np.maximum(product, np.finfo(np.float32).tiny))[:, None] * direction
        product = after
    return solved


def _weigh_reports(
    flow: ReportFlow,
    draws: DrawnTowns,
    *,
    rate: Reals,
    variance: Reals,
    people: Reals,
    base: Reals,
    slope: Reals,
    cells: Booleans,
) -> tuple[Reals, Reals]:
    """Give what reports alone say about each cell: their information, and around which number of people.

    Of the variance before any report, v, the share f = v * pull is explained by reports and 1 - f = spread / v is left:
    the information is f / (1 - f) / v. Both are estimated apart, so that neither end is drowned by the chance of few
    draws. At the estimate the slope of the law of u balances that of reports.
    """
    before = np.where(cells, variance + rate, 1.0)
    explained = np.minimum(draws.pull * before, 1.0)  # few draws can show more than there is
    information = TRUST * explained / np.maximum(draws.spread, SMALL * before)
    # nobody knows better than who sent each report tells
    information = np.minimum(information, TRUST / np.maximum(draws.split, SMALL * before))
    information = np.where(cells, np.maximum(information, 1e-12), 1.0)
    offset = np.clip(slope / information, -5 * people, 20 * np.maximum(people, base))
    return information, np.where(cells, people + offset, 0.0)


# --- the law of one cell ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class CellLaw:
    """The law of people in each cell on points of its own: (cells, points)."""

    logarithms: Reals
    chances: Reals
    empty: Reals  # the chance that nobody is there

    @classmethod
    def of(cls, *, base: Reals, roughness: float, centre: Reals, information: Reals) -> CellLaw:
        """Multiply the law of u by what reports say, on points between where both are tiny."""
        variance = np.log1p(roughness + 1 / base)
        sigma, middle = np.sqrt(variance), np.log(base) - variance / 2
        width = 7 / np.sqrt(information)
        ends = np.array([
            [middle - 12 * sigma, np.log(np.maximum(centre - width, 1e-12))],
            [middle + 12 * sigma, np.log(np.maximum(centre + width, 1e-9))],
        ])  # fmt: skip
        low, high = ends[0].max(axis=0), ends[1].min(axis=0)
        low, high = np.minimum(low, high), np.maximum(low, high)  # where they do not meet: between them
        logarithms = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, POINTS)
        steps = (logarithms - middle[:, None]) / sigma[:, None]
        degrees = np.where(steps > 0, UPPER_TAIL_DEGREES, LOWER_TAIL_DEGREES)
        before = -degrees * np.log1p(steps**2 / (2 * degrees))
        exponents = before - information[:, None] * (np.exp(logarithms) - centre[:, None]) ** 2 / 2
        top = exponents.max(axis=1, keepdims=True)
        chances = np.exp(exponents - top)
        sums = chances.sum(axis=1, keepdims=True)
        mass = (high - low) / POINTS / (sigma * LAW_OF_U)  # of one point under the law of u, where that is at its top
        others = np.log(sums[:, 0]) + top[:, 0] + np.log(np.maximum(mass, SMALL))
        nobody = np.log(EMPTY_CELLS / (1 - EMPTY_CELLS)) - information * centre**2 / 2
        empty = 1 / (1 + np.exp(np.clip(others - nobody, -700, 700)))
        return cls(logarithms=logarithms, chances=chances / sums, empty=empty)

    def find_ends(self, tail: Reals) -> tuple[Reals, Reals]:
        """Give the number that a share `tail` of cells is below, and the one that such a share of people is above."""
        share = np.maximum(LOWER_SHARE * tail - self.empty, 0.0) / np.maximum(1 - self.empty, SMALL)
        low = np.where(share > 0, np.exp(self._find_quantile(self.chances, share)), 0.0)
        by_people = self.chances * np.exp(self.logarithms - self.logarithms[:, -1:])
        by_people /= np.maximum(by_people.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return np.where(low < 0.5, 0.0, low), np.exp(self._find_quantile(by_people, 1 - UPPER_SHARE * tail))

    def _find_quantile(self, chances: Reals, share: Reals) -> Reals:
        sums = np.cumsum(chances, axis=1) - chances / 2
        place = np.clip((sums < share[:, None]).sum(axis=1), 1, POINTS - 1)
        row = np.arange(len(sums))
        below, above = sums[row, place - 1], sums[row, place]
        part = np.clip((share - below) / np.maximum(above - below, 1e-12), 0, 1)
        start, end = self.logarithms[row, place - 1], self.logarithms[row, place]
        found: Reals = start + part * (end - start)
        return found


def _choose_tails(tail: float, people: Reals, spread: Reals) -> Reals:
    """Give every cell its tail. One cell that holds a tenth of a town is a tenth of its people: it must not be missed.

    So the share of people whose cell is missed varies little from town to town, at the price of wider intervals there.
    Where reports tell little about cells, any of them may be busy.
    """
    shares = (people + BUSY_DEVIATIONS * np.sqrt(spread)) / max(float(people.sum()), SMALL)
    tails: Reals = tail * np.clip(BUSY_SHARE / np.maximum(shares, SMALL), LEAST_TAIL, 1.0)
    return tails


def _positive(values: Reals, cells: Booleans) -> Reals:
    """Give the values with 1 where nobody can be, to divide by and to take logarithms of."""
    return np.where(cells, np.maximum(values, np.finfo(np.float64).tiny), 1.0)


def _average(flow: ReportFlow, values: Reals, cells: Booleans) -> Reals:
    """Average over neighbouring cells where people can be."""
    inside = np.maximum(flow.average(cells.astype(np.float64), SPREAD_WIDTH), SMALL)
    means: Reals = np.maximum(flow.average(np.where(cells, values, 0.0), SPREAD_WIDTH), 0.0) / inside
    return means


def _at_least(expected: Reals) -> Reals:
    """Keep expected numbers of reports away from 0, where the error of a transform could put them."""
    return np.maximum(expected, SMALL)
