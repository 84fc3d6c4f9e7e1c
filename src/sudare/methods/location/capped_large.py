"""Fair under a population prior on large maps: cones of many slopes everywhere, a cap on the posterior, one dual.

As in capped.py a cap on the greatest posterior is a choice of shapes, since weights cancel in it:

    minimise the expected distance over p >= 0 with s = 1, over the cones of all slopes whose greatest posterior is at
    most the cap; p(h) is the share of reports that h has

A table of all shapes would be too large. With a little entropy, tau times sum of p log p, the dual has no constraints:
p(h) = exp((mean of u given h - cost(h)) / tau), one number u for each cell, found by L-BFGS. Sums over cones of one
slope are convolutions on a plane. What the dual leaves is levelled as in margin.py, and the
certificate counts what levelling leaves: a mistake here costs distance and never the promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.methods.base import Progress
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.hidden import FULL_SLOPE, HiddenMechanism, certify_hidden, find_shortest
from sudare.methods.location.mechanism import FULL_WEIGHT, equal_weights, quantise_weights
from sudare.methods.location.names import name_by_shares
from sudare.methods.location.sharp import round_down
from sudare.schema.arrays import Booleans, Integers, Reals

MAX_PLANE_CELLS = 20_000  # of a plane map
MAX_OTHER_CELLS = 5_000  # of a map without rows, by capped_places.py (a table of 200 MB); larger: capped_weights.py
SLOPES = (100, 80, 60, 45, 32, 22, 14, 8, 4)  # of the cones, in percent of beta
MARGIN_CELLS, MARGIN_DECAYS = 4, 2.0  # width of the margin around a plane map: cells at most, and times 1/beta
EVEN_SHARE = 0.5  # of the measure by which cells count in the dual; the rest is the prior
ENTROPIES = (0.3, 0.1, 0.04)  # tau over the expected distance, one after another
DUAL_STEPS = 150  # of L-BFGS for each
REMEMBERED_STEPS = 12
RARE = 1e-5  # share of all reports that are left out while the cap is sought, the rarest ones
THINNED = 3e-3  # the same before a law is written: fewer reports make a smaller file
MAX_NAMES = 64  # cells that are tried as names of cones before the programme is solved
RESERVES = (Fraction(1, 1_000), Fraction(1, 20))  # shares of epsilon that are kept for uneven sums, one after another
LEVEL_ROUNDS, LEVEL_STEPS = 25, 250  # of Newton, and of conjugate gradients in each
BLOCK = 2**22  # numbers in one block of a table
MOST_OVER_MEDIAN = 1.3  # greatest posterior over that of half the reports
MOST_FAIR = 1.28  # the same while the cap is sought: levelling moves it a little
CAP_HALVINGS = 6  # of the range between the greatest prior and the greatest posterior without a cap


class PlaneSums:
    """Convolutions on a plane map with a margin."""

    def __init__(self, grid: PlaneGrid, beta: float) -> None:
        from scipy import fft

        self.grid, self.sides = grid, (float(grid.cell_height_metres), float(grid.cell_width_metres))
        self.margin = [min(int(np.ceil(MARGIN_DECAYS / beta / side)), MARGIN_CELLS) for side in self.sides]
        self.wide = (grid.rows + 2 * self.margin[0], grid.columns + 2 * self.margin[1])
        rows, columns = np.divmod(np.arange(self.wide[0] * self.wide[1]), self.wide[1])
        self.rows, self.columns = rows - self.margin[0], columns - self.margin[1]
        both = zip(self.wide, grid.shape, strict=True)
        self.padded = tuple(fft.next_fast_len(wide + size, real=True) for wide, size in both)
        offsets = [np.where(np.arange(size) <= size // 2, np.arange(size), np.arange(size) - size) * side
                   for size, side in zip(self.padded, self.sides, strict=True)]  # fmt: skip
        metres = np.hypot(offsets[0][:, None], offsets[1])
        kernels = np.array([np.exp(-beta * slope / FULL_SLOPE * metres) for slope in SLOPES])
        self.spectra: Any = fft.rfft2(kernels)
        self.far_spectra: Any = fft.rfft2(kernels * metres)
        self.metres_spectrum: Any = fft.rfft2(metres)
        around = [np.minimum(np.arange(size), size - np.arange(size)) * side
                  for size, side in zip(grid.shape, self.sides, strict=True)]  # fmt: skip
        torus = np.abs(fft.rfft2(np.exp(-beta * np.hypot(around[0][:, None], around[1]))))
        self.inverse = 1 / np.maximum(torus, 1e-9 * torus.max())

    def to_cells(self, values: Reals) -> Reals:
        """Add the products of all slopes before one transform back."""
        from scipy import fft

        spectra = fft.rfft2(values.reshape(-1, *self.wide), self.padded)
        sums = fft.irfft2((spectra * self.spectra).sum(axis=0), self.padded)
        (top, left), (rows, columns) = self.margin, self.grid.shape
        cells: Reals = sums[top : top + rows, left : left + columns].reshape(-1)
        return cells

    def to_points(self, values: Reals) -> Reals:
        """Transform the values once."""
        return self._spread(values, self.spectra)

    def to_costs(self, people: Reals) -> Reals:
        """Sum with d exp(-beta d)."""
        return self._spread(people, self.far_spectra)

    def _spread(self, values: Reals, spectra: Any) -> Reals:
        from scipy import fft

        framed = np.zeros(self.wide)
        (top, left), (rows, columns) = self.margin, self.grid.shape
        framed[top : top + rows, left : left + columns] = values.reshape(self.grid.shape)
        sums = fft.irfft2(fft.rfft2(framed, self.padded) * spectra, self.padded)
        points: Reals = sums[:, : self.wide[0], : self.wide[1]].reshape(len(spectra), -1)
        return points

    def cost_of_all(self, people: Reals) -> Reals:
        """Sum with d alone."""
        (top, left), (rows, columns) = self.margin, self.grid.shape
        sums = self._spread(people, self.metres_spectrum[None])[0].reshape(self.wide)
        costs: Reals = sums[top : top + rows, left : left + columns].reshape(-1)
        return costs

    def condition(self, values: Reals) -> Reals:
        """Take the inverse of the steepest cones on a torus."""
        from scipy import fft

        spectrum = self.inverse * fft.rfft2(values.reshape(self.grid.shape))
        solved: Reals = fft.irfft2(spectrum, self.grid.shape).reshape(-1)
        return solved

    def metres(self, points: Integers) -> Reals:
        """Measure from rows and columns."""
        rows, columns = np.divmod(np.arange(self.grid.size), self.grid.columns)
        down, across = self.rows[points, None] - rows, self.columns[points, None] - columns
        metres: Reals = np.hypot(down * self.sides[0], across * self.sides[1])
        return metres


@dataclass(frozen=True, kw_only=True, eq=False)
class LargeLaw:
    """Weights (slope, point), that of the report that says nothing, and what they are worth, nearly."""

    weights: Reals
    constant: float
    dual: Reals
    cap: float
    over_median: float
    expected_distance: float


@dataclass(eq=False)
class LargeProgramme:
    """Cones of all slopes with their greatest posteriors, costs and shares."""

    sums: PlaneSums
    beta: float
    people: Reals
    inputs: Booleans
    posteriors: Reals = field(init=False)
    likeliest: Integers = field(init=False)
    sent: Reals = field(init=False)
    scales: Reals = field(init=False)
    costs: Reals = field(init=False)  # metres from the best cell, for those who send a cone

    def __post_init__(self) -> None:
        even = self.inputs / self.inputs.sum()
        self.measure = EVEN_SHARE * even + (1 - EVEN_SHARE) * self.people
        self.sent = np.maximum(self.sums.to_points(self.people), 0.0)
        self.scales = np.maximum(self.sums.to_points(self.measure), np.finfo(float).tiny)
        self.posteriors, self.likeliest = self._search_posteriors()
        self.costs = self._cost_names() / self.scales
        self.nothing = float(self.sums.cost_of_all(self.people).min())

    def _search_posteriors(self) -> tuple[Reals, Integers]:
        """Find the greatest posterior of every cone, and whose it is."""
        count, cells = len(self.sums.rows), np.flatnonzero(self.people > 0)
        logs = np.log(self.people[cells])
        largest = np.zeros((len(SLOPES), count))
        likeliest = np.zeros((len(SLOPES), count), dtype=np.int64)
        side = max(1, BLOCK // len(self.people))
        for start in range(0, count, side):
            part = np.arange(start, min(start + side, count))
            metres = self.sums.metres(part)[:, cells]
            for number, slope in enumerate(SLOPES):
                joint = logs - self.beta * slope / FULL_SLOPE * metres
                top = joint.argmax(axis=1)
                likeliest[number, part] = cells[top]
                largest[number, part] = np.exp(joint[np.arange(len(part)), top])
        posteriors = np.minimum(largest / np.maximum(self.sent, largest + np.finfo(float).tiny), 1.0)
        return posteriors, likeliest

    def _cost_names(self) -> Reals:
        """Give the metres of those under a cone from its point or from one of the cells that are often likeliest."""
        costs = self.sums.to_costs(self.people)
        masses = np.bincount(self.likeliest.reshape(-1), self.sent.reshape(-1), minlength=len(self.people))
        for cell in np.argsort(-masses, kind="stable")[:MAX_NAMES].tolist():
            if masses[cell] > 0:
                metres = self.sums.metres(np.array([self._row_of(cell)]))[0]
                costs = np.minimum(costs, self.sums.to_points(self.people * metres))
        return np.maximum(costs, 0.0)

    def _row_of(self, cell: int) -> int:
        row, column = divmod(cell, self.sums.grid.columns)
        return int((row + self.sums.margin[0]) * self.sums.wide[1] + column + self.sums.margin[1])

    def solve(
        self, cap: float, start: LargeLaw | None = None, *, entropies: tuple[float, ...] | None = None
    ) -> LargeLaw:
        """Solve the programme for a cap, nearly: entropy falls in steps."""
        allowed = (self.posteriors <= cap * (1 + 1e-9)) & (self.sent > 0)
        prior_costs = np.where(allowed, self.costs, np.inf)
        scale = start.expected_distance if start is not None else float(self.nothing) / 2
        dual = np.full(len(self.people), 0.0) if start is None else start.dual
        for entropy in entropies or (ENTROPIES if start is None else ENTROPIES[1:]):
            tau = entropy * scale
            dual = self._climb(dual, prior_costs, tau)
            shares, rest = self._shares(dual, prior_costs, tau)
            scale = max(float((shares * np.where(allowed, self.costs, 0.0)).sum()) + rest * self.nothing, 1e-9)
        return self.thin(self._describe(shares / self.scales, rest, dual), RARE)

    def _shares(self, dual: Reals, costs: Reals, tau: float) -> tuple[Reals, float]:
        """Give the shares of reports that a dual stands for, and that of the report that says nothing."""
        even = 1 / costs.shape[1]
        mean = self.sums.to_points(self.measure * dual) / self.scales
        shares = even * np.exp(np.minimum((mean - costs) / tau, 60.0))
        rest = np.exp(min((float(self.measure @ dual) - self.nothing) / tau, 60.0))
        return shares, float(rest)

    def _climb(self, dual: Reals, costs: Reals, tau: float) -> Reals:
        from scipy import optimize

        def descend(scaled: Reals) -> tuple[float, Reals]:
            values = np.zeros(len(self.people))
            values[self.inputs] = scaled * tau
            shares, rest = self._shares(values, costs, tau)
            level = self.sums.to_cells(shares / self.scales) + rest
            gradient = (self.measure * (level - 1))[self.inputs]
            return float(shares.sum() + rest - self.measure @ values / tau), gradient

        # one number for each cell, scaled so that busy and quiet cells move alike
        scale = np.sqrt(self.measure[self.inputs])

        def scaled_descend(moved: Reals) -> tuple[float, Reals]:
            value, gradient = descend(moved / scale)
            return value, gradient / scale

        options = {"maxiter": DUAL_STEPS, "maxcor": REMEMBERED_STEPS}
        start = dual[self.inputs] / tau * scale
        result = optimize.minimize(scaled_descend, start, jac=True, method="L-BFGS-B", options=options)
        values = np.zeros(len(self.people))
        values[self.inputs] = result.x / scale * tau
        return values

    def _describe(self, weights: Reals, constant: float, dual: Reals) -> LargeLaw:
        used = weights > 0
        masses = np.append((weights * self.sent)[used], constant)
        posteriors = np.append(self.posteriors[used], self.people.max())
        greatest = float(posteriors[masses > 0].max())
        costs = float((self.costs * self.scales * weights)[used].sum()) + constant * self.nothing
        return LargeLaw(
            weights=weights,
            constant=constant,
            dual=dual,
            cap=greatest,
            over_median=greatest / find_weighted_median(posteriors[masses > 0], masses[masses > 0]),
            expected_distance=costs / float(masses.sum()),
        )

    def thin(self, law: LargeLaw, share: float) -> LargeLaw:
        """Leave out the rarest reports, together such a share of all."""
        masses = np.append((law.weights * self.scales).reshape(-1), law.constant)
        order = np.argsort(masses, kind="stable")
        left_out = order[np.cumsum(masses[order]) <= share * masses.sum()]
        kept = np.ones(len(masses), dtype=np.bool_)
        kept[left_out] = False
        weights = np.where(kept[:-1].reshape(law.weights.shape), law.weights, 0.0)
        return self._describe(weights, law.constant if kept[-1] else 0.0, law.dual)

    def level(self, law: LargeLaw, allowed: float) -> LargeLaw:
        """Bring the sums to 1 at all inputs, nearly: Newton's steps of the dual, none larger than a factor of e."""
        best, least, current = law, np.inf, law
        for _ in range(LEVEL_ROUNDS):
            residual = self._residual(current)
            uneven = float(np.abs(residual).max())
            if uneven < least:
                best, least = current, uneven
            if uneven <= allowed:
                break
            solved = self._correct(current, residual, max(allowed / 10, uneven / 100))
            powers, power = self.sums.to_points(solved), float(solved.sum())
            longest = max(float(np.abs(powers[current.weights > 0]).max(initial=0.0)), abs(power), 1.0)
            factors = np.exp(np.clip(powers / longest, -1, 1))
            current = replace(
                current,
                weights=np.where(current.weights > 0, current.weights * factors, 0.0),
                constant=current.constant * float(np.exp(power / longest)),
            )
        return self._describe(best.weights, best.constant, best.dual)

    def _residual(self, law: LargeLaw) -> Reals:
        residual: Reals = np.where(self.inputs, 1 - law.constant - self.sums.to_cells(law.weights), 0.0)
        return residual

    def _correct(self, law: LargeLaw, right: Reals, allowed: float) -> Reals:
        """Solve A diag(w) A' u = right at the inputs, by conjugate gradients."""
        solved, residual = np.zeros_like(right), right.copy()
        conditioned = np.where(self.inputs, self.sums.condition(residual), 0.0)
        direction, product = conditioned.copy(), float(residual @ conditioned)
        for _ in range(LEVEL_STEPS):
            if float(np.abs(residual).max()) <= allowed or not product > 0:
                break
            image = self.sums.to_cells(law.weights * self.sums.to_points(direction)) + law.constant * direction.sum()
            image = np.where(self.inputs, image, 0.0)
            step = product / max(float(direction @ image), np.finfo(np.float64).tiny)
            solved, residual = solved + step * direction, residual - step * image
            conditioned = np.where(self.inputs, self.sums.condition(residual), 0.0)
            product, before = float(residual @ conditioned), product
            direction = conditioned + (product / before) * direction
        return solved


def find_weighted_median(values: Reals, masses: Reals) -> float:
    """Find the value that half of the masses stay below."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(masses[order])
    return float(values[order][int(np.searchsorted(sums, sums[-1] / 2))])


# --- from a map to a law ----------------------------------------------------------------------------------------------


def build_large_capped(
    places: PlaneGrid,
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
    more. Where no such law can be levelled, the report that says nothing is left, and the certificate tells it.

    Guarantee: epsilon per metre, certified. Error: the certificate tells the expected distance and the posteriors.
    """
    tell = progress or (lambda share: None)
    for number, reserve in enumerate(RESERVES):
        beta = float(epsilon * (1 - reserve))
        sums = PlaneSums(places, beta)
        programme = LargeProgramme(sums=sums, beta=beta, people=people, inputs=inputs)
        allowed = float(epsilon * reserve) * find_shortest(places, inputs) / 4
        for law in _choose(programme, extra_distance, allowed, tell):
            built = _round(programme, places, epsilon, reserve, law, cells)
            if certify_hidden(built) <= float(epsilon):
                return built
        tell((number + 1) / len(RESERVES))
    return _say_nothing(places, epsilon, people=people, cells=cells, inputs=inputs)


def _choose(programme: LargeProgramme, extra_distance: float, allowed: float, tell: Progress) -> Iterator[LargeLaw]:
    """Give the law of the smallest cap that is fair and within the price, else the loosest fair one; then tighter ones.

    Caps are searched by halves: from the loosest, greatest posterior over median falls nearly all the way.
    """
    free = programme.solve(1.0)
    most = free.expected_distance * (1 + extra_distance)
    low, high = float(programme.people.max()), free.cap
    fair, looser = ([free] if free.over_median <= MOST_FAIR else []), free  # a looser law is the better start
    for number in range(CAP_HALVINGS):
        middle = float(np.sqrt(low * high))
        law = programme.solve(middle, looser)
        is_fair = law.over_median <= MOST_FAIR
        fair += [law] if is_fair else []
        if is_fair and law.expected_distance > most:
            low = middle  # dearer than need be: looser
        else:
            high, looser = middle, law
        tell((number + 1) / (CAP_HALVINGS + 2))
    cheap = [law for law in fair if law.expected_distance <= most]
    dear = sorted((law for law in fair if law.expected_distance > most), key=lambda law: -law.cap)
    for law in [*sorted(cheap, key=lambda law: law.cap), *dear]:  # levelling may make one unfair: then the next
        yield from _level_and_thin(programme, law, allowed)
    for law in dear[:2]:
        yield from _level_and_thin(programme, programme.solve(law.cap, free, entropies=ENTROPIES[:2]), allowed)


def _level_and_thin(programme: LargeProgramme, law: LargeLaw, allowed: float) -> Iterator[LargeLaw]:
    """Level a law, leave out reports that are hardly ever sent, and level it again; without thinning if that fails."""
    level = programme.level(law, allowed)
    thin = programme.level(programme.thin(level, THINNED), allowed)
    if thin.over_median <= MOST_OVER_MEDIAN:
        yield thin
    if level.over_median <= MOST_OVER_MEDIAN:
        yield level


def _round(
    programme: LargeProgramme, places: PlaneGrid, epsilon: Fraction, reserve: Fraction, law: LargeLaw, cells: Booleans
) -> HiddenMechanism:
    """Turn a solution into exact numbers: weights over 2**40, and names for all reports."""
    built = HiddenMechanism(
        places=places,
        beta_per_metre=round_down(epsilon * (1 - reserve)),
        shapes=(((0, 0, 0),),) * len(SLOPES) + ((),),
        slopes=(*SLOPES, 0),
        columns=_list_columns(programme, law),
        told=np.zeros(int((law.weights > 0).sum()) + (law.constant > 0), dtype=np.int64),
        weights=equal_weights(cells),
        inputs=programme.inputs,
    )
    return replace(built, told=_name(programme, built, np.flatnonzero(cells)), _sums=built._sums)


def _list_columns(programme: LargeProgramme, law: LargeLaw) -> Integers:
    slopes, points = np.nonzero(law.weights)
    placed = [slopes, programme.sums.rows[points], programme.sums.columns[points]]
    weights = law.weights[slopes, points]
    if law.constant > 0:
        placed = [np.append(part, value) for part, value in zip(placed, (len(SLOPES), 0, 0), strict=True)]
        weights = np.append(weights, law.constant)
    return np.column_stack([*placed, quantise_weights(weights)])


def _name(programme: LargeProgramme, built: HiddenMechanism, named: Integers) -> Integers:
    """Name the cones of each slope as those of a law of its own; sums are level, so that they do not matter here."""
    told = np.full(built.reports, named[int(programme.sums.cost_of_all(programme.people)[named].argmin())])
    for number, slope in enumerate(SLOPES):
        at = np.flatnonzero(built.columns[:, 0] == number)
        if len(at):
            columns = built.columns[at] * np.array([0, 1, 1, 1])
            beta = built.beta_per_metre * Fraction(slope, FULL_SLOPE)
            cones = replace(built, beta_per_metre=beta, shapes=(((0, 0, 0),),), slopes=(), columns=columns,
                            told=told[at], _sums=[])  # fmt: skip
            told[at] = name_by_shares(cones, programme.people, named)
    return told


def _say_nothing(
    places: PlaneGrid, epsilon: Fraction, *, people: Reals, cells: Booleans, inputs: Booleans
) -> HiddenMechanism:
    """Give the law of one report that says nothing: all that is left where one place holds nearly all people."""
    sums = PlaneSums(places, float(epsilon))
    named = np.flatnonzero(cells)
    return HiddenMechanism(
        places=places,
        beta_per_metre=round_down(epsilon * (1 - RESERVES[0])),
        shapes=((),),
        slopes=(0,),
        columns=np.array([[0, 0, 0, FULL_WEIGHT]]),
        told=named[[int(sums.cost_of_all(people)[named].argmin())]],
        weights=equal_weights(cells),
        inputs=inputs,
    )
