"""Reports as near to the truth as the promise allows, for people spread like a prior: hidden reports and their names.

A hidden report h has a weight w(h) and a shape: the largest of some cones, each with a lag,

    P(h|x) = w(h) k(x) / s(x),      k(x) = max over i of exp(-beta (d(x, p_i) + lag_i)),   s(x) = sum of w k over h

A maximum of functions whose logarithm has a slope of at most beta has that slope, too. So the law needs beta plus the
slope of log s, which is nearly 0: the weights solve  minimise c w  over w >= 0 with s = 1, where c(h) is the expected
distance if h is told as the cell that is best for it. Naming is post-processing; the prior changes the distance and
never the promise. New shapes are found by the dual of the programme: from a cone around a cell further cones are joined
while the reduced cost falls. Maps of up to MAX_PROGRAMME_CELLS cells; on larger ones level cones on a wide margin are
named, which costs no programme.

Source: optimal mechanisms by linear programming, Bordenabe, Chatzikokolakis, Palamidessi 2014; cones as columns and
their joining are ours; tests/unit/test_location_near.py compares with the optimum of small maps, and
benchmarks/location_near.py with the other modes and planar Laplace on many maps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.location.grid import Places, PlaneGrid
from sudare.methods.location.hidden import HiddenMechanism, Shape, certify_hidden, measure_hidden, measure_told
from sudare.methods.location.kernel import distance_table
from sudare.methods.location.margin import FAR_DECAYS, lay_points, level_weights
from sudare.methods.location.mechanism import Mechanism, equal_weights, quantise_weights
from sudare.methods.location.names import find_names
from sudare.methods.location.sharp import calibrate_beta, round_down
from sudare.methods.location.tight import certify_epsilon
from sudare.methods.location.weights import build_sharp_for_inputs
from sudare.schema.arrays import Booleans, Integers, Reals

MAX_PROGRAMME_CELLS = 260  # the programme takes seconds in proportion to their cube (PER_PROGRAMME of `effort`)
MAX_ROUNDS = 14  # of solving and pricing
MAX_POINTS = 8  # cones that are joined to one shape
MIN_GAIN = 4e-4  # share of the expected distance below which a round is the last
LAG_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)  # of the distance to the cone that a new one is joined to
APRON_DECAYS = 2.0  # how far outside a plane map cones may stand, in units of 1/epsilon
FAR_DIRECTIONS, FAR_RINGS = 24, (0.8, 1.5, 4.0)  # points further out: on rings, in units of the map's diagonal
RESERVE = Fraction(1, 10**5)  # share of epsilon that is kept for the slope of log s and for rounding
LEAST_PEAK = 1e-4  # of a cone where people can be: one far from all of them would need a weight beyond the others
RESERVES = (Fraction(1, 10**7), RESERVE, Fraction(1, 5_000), Fraction(1, 500))  # the first that can be kept is taken

Points = tuple[tuple[int, int], ...]  # (point, lag in units) of a shape; points are numbered as in `PointTable`


@dataclass(frozen=True, kw_only=True, eq=False)
class PointTable:
    """Where cones may stand: the cells of the map and, on a plane, cells around it; distances to the inputs."""

    places: Places
    rows: Integers
    columns: Integers
    metres: Reals  # (points, cells): from every point to every cell

    @classmethod
    def of(cls, places: Places, epsilon: float) -> PointTable:
        """List the cells of the map first, then those around it."""
        if not isinstance(places, PlaneGrid):
            zero = np.zeros(places.size, dtype=np.int64)
            return cls(places=places, rows=np.arange(places.size), columns=zero, metres=distance_table(places))
        height, width = float(places.cell_height_metres), float(places.cell_width_metres)
        wide = [min(int(np.ceil(APRON_DECAYS / epsilon / side)), 4) for side in (height, width)]
        rows, columns = (
            part.reshape(-1)
            for part in np.meshgrid(
                np.arange(-wide[0], places.rows + wide[0]), np.arange(-wide[1], places.columns + wide[1]), indexing="ij"
            )
        )
        is_inside = (rows >= 0) & (rows < places.rows) & (columns >= 0) & (columns < places.columns)
        order = np.argsort(~is_inside, kind="stable")
        far = _spread_far(places, epsilon, wide)
        rows, columns = np.append(rows[order], far[0]), np.append(columns[order], far[1])
        cells = np.divmod(np.arange(places.size), places.columns)
        metres = np.hypot((rows[:, None] - cells[0]) * height, (columns[:, None] - cells[1]) * width)
        return cls(places=places, rows=rows, columns=columns, metres=metres)

    def between(self, points: Integers, other: int) -> Reals:
        """Give the distances from points to one point."""
        if not isinstance(self.places, PlaneGrid):
            known: Reals = self.metres[other][points]
            return known
        down = (self.rows[points] - self.rows[other]) * float(self.places.cell_height_metres)
        across = (self.columns[points] - self.columns[other]) * float(self.places.cell_width_metres)
        metres: Reals = np.hypot(down, across)
        return metres

    def shape(self, points: Points, beta: float) -> Reals:
        """Give k at every cell: the largest cone."""
        unit = float(self.places.unit_metres)
        numbers, lags = np.array([point for point, _ in points]), np.array([lag for _, lag in points])
        shape: Reals = np.exp(-beta * (self.metres[numbers] + unit * lags[:, None]).min(axis=0))
        return shape


def _spread_far(grid: PlaneGrid, epsilon: float, wide: list[int]) -> tuple[Integers, Integers]:
    """Give rows and columns of points on rings around the map: where epsilon is small, reports are mere directions."""
    sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
    across = float(np.hypot(grid.rows * sides[0], grid.columns * sides[1]))
    middle = (grid.rows - 1) / 2, (grid.columns - 1) / 2
    angles = np.arange(FAR_DIRECTIONS) * 2 * np.pi / FAR_DIRECTIONS
    rings = [[np.rint(middle[axis] + share * across * part / sides[axis]).astype(np.int64) for axis, part in
              ((0, np.sin(angles)), (1, np.cos(angles)))]
             for share in FAR_RINGS if share * across <= FAR_DECAYS / epsilon]  # fmt: skip
    if not rings:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    rows, columns = (np.concatenate(part) for part in zip(*rings, strict=True))
    is_new = (
        (rows < -wide[0]) | (rows >= grid.rows + wide[0]) | (columns < -wide[1]) | (columns >= grid.columns + wide[1])
    )
    return rows[is_new], columns[is_new]


@dataclass(frozen=True, kw_only=True, eq=False)
class NearLaw:
    """The solution of the programme: shapes with weights and the cell that is told for each."""

    table: PointTable
    shapes: list[Points]
    weights: Reals
    told: Integers
    expected_distance: float


@dataclass(eq=False)
class _Programme:
    """Columns so far, and their costs."""

    table: PointTable
    beta: float
    people: Reals
    inputs: Booleans
    named: Integers  # cells that may be told
    shapes: list[Points] = field(default_factory=list)
    kernels: list[Reals] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    known: set[Points] = field(default_factory=set)

    def add(self, points: Points) -> None:
        """Add a column, with the cell of least expected distance as its name."""
        key = tuple(sorted(points))
        if key in self.known:
            return
        self.known.add(key)
        kernel = self.table.shape(points, self.beta) if points else np.ones(len(self.people))
        peak = float(kernel[self.inputs].max())
        if peak < LEAST_PEAK:
            return
        scale = 1 / peak
        costs = (self.people * kernel) @ self._to_named()
        self.shapes.append(points)
        self.kernels.append(kernel * scale)
        self.costs.append(float(costs.min() * scale))
        self.told.append(int(self.named[int(costs.argmin())]))

    def _to_named(self) -> Reals:
        return self.table.metres[: len(self.people)][:, self.named]

    def solve(self) -> tuple[Reals, Reals, float]:
        """Give weights, duals and the expected distance."""
        from scipy.optimize import linprog

        matrix = np.array(self.kernels)[:, self.inputs].T
        result = linprog(self.costs, A_eq=matrix, b_eq=np.ones(len(matrix)), bounds=(0, None), method="highs")
        if result.status != 0:
            raise ParameterError("the programme of mode near has no solution for this map; take mode sharp")
        return result.x, result.eqlin.marginals, float(result.fun)

    def price(self, duals: Reals) -> int:
        """Join cones to shapes of negative reduced cost, from every cell; give how many were added."""
        before = len(self.shapes)
        values = np.zeros(len(self.people))
        values[self.inputs] = duals
        for start in self.named.tolist():
            gains = values - self.people * self.table.metres[start][: len(self.people)]
            points = self._join(start, gains)
            kernel = self.table.shape(points, self.beta)
            if float(gains @ kernel) > 1e-7 * float(np.abs(gains) @ kernel):
                self.add(points)
        return len(self.shapes) - before

    def _join(self, start: int, gains: Reals) -> Points:
        """Join the cone that gains most, until none gains."""
        unit = float(self.table.places.unit_metres)
        points: list[tuple[int, int]] = [(start, 0)]
        lengths = self.table.metres[start].copy()  # from the shape so far to every cell, lags counted
        cells = len(self.people)
        near = np.argsort(self.table.metres[:, start], kind="stable")[: 4 * MAX_POINTS * 4]
        for _ in range(MAX_POINTS - 1):
            base = np.exp(-self.beta * lengths)
            best, choice = 0.0, None
            for share in LAG_SHARES:
                reach = self._reach(near, points)
                lags = np.floor(share * reach / unit)
                joined = np.minimum(lengths, self.table.metres[near] + unit * lags[:, None])
                gain = (np.exp(-self.beta * joined) - base)[:, :cells] @ gains
                top = int(gain.argmax())
                if gain[top] > best + 1e-12 * abs(float(gains @ base)):
                    best, choice = float(gain[top]), (int(near[top]), int(lags[top]))
            if choice is None:
                break
            points.append(choice)
            lengths = np.minimum(lengths, self.table.metres[choice[0]] + unit * choice[1])
        return tuple(points)

    def _reach(self, near: Integers, points: list[tuple[int, int]]) -> Reals:
        """Give the distance of candidate points from the shape so far, lags counted."""
        unit = float(self.table.places.unit_metres)
        reach: Reals = np.min([self.table.between(near, point) + unit * lag for point, lag in points], axis=0)
        return reach


def solve_near(places: Places, epsilon: Fraction, *, people: Reals, inputs: Booleans, named: Booleans) -> NearLaw:
    """Solve the programme for a map: hidden reports, their weights and the cells that stand for them."""
    beta = float(epsilon * (1 - RESERVE))
    table = PointTable.of(places, beta)
    programme = _Programme(table=table, beta=beta, people=people, inputs=inputs, named=np.flatnonzero(named))
    programme.add(())
    for point in range(len(table.rows)):
        programme.add(((point, 0),))
    weights, duals, distance = programme.solve()
    for _ in range(MAX_ROUNDS):
        if not programme.price(duals):
            break
        weights, duals, after = programme.solve()
        is_last, distance = after > (1 - MIN_GAIN) * distance, after
        if is_last:
            break
    kept = np.flatnonzero(weights > 0)
    level = np.linalg.lstsq(np.array(programme.kernels)[kept][:, inputs].T, np.ones(int(inputs.sum())), rcond=None)[0]
    if level.min() > 0:  # the solver's rows are level to 1e-7; these to rounding
        weights[kept] = level
    shapes = [programme.shapes[h] for h in kept.tolist()]
    largest = [table.shape(shape, beta)[inputs].max() if shape else 1.0 for shape in shapes]
    return NearLaw(
        table=table,
        shapes=shapes,
        weights=weights[kept] / np.array(largest),
        told=np.array([programme.told[h] for h in kept.tolist()]),
        expected_distance=distance,
    )


# --- from a map to the nearest law --------------------------------------------------------------------------------


def build_near_mechanism(
    places: Places, epsilon: Fraction, *, people: Reals, cells: Booleans, inputs: Booleans
) -> Mechanism | HiddenMechanism:
    """Build the law of least expected distance that we know of, for people spread like this (shares of 1).

    Compared are sharp and calibrated GridE, each with names for its reports, cones on a map with a wide margin (planar
    Laplace on a grid, level and named) and, on small maps, the programme. Guarantee: epsilon per metre, certified.
    """
    sharp = build_sharp_for_inputs(places, epsilon, cells=cells, inputs=inputs, people=people)
    equal = calibrate_beta(places, epsilon, equal_weights(cells), inputs=inputs)
    named = np.flatnonzero(cells)
    plain = [law for law in (sharp, equal) if is_kept(law, epsilon)]
    kept: list[Mechanism | HiddenMechanism] = [name_reports(law, people, named) for law in plain]
    kept += plain  # names on large maps are nearly best, and must never be worse than none
    candidates: list[HiddenMechanism] = []
    if int(inputs.sum()) <= MAX_PROGRAMME_CELLS:
        solved = solve_near(places, epsilon, people=people, inputs=inputs, named=cells)
        candidates.append(_round_near(solved, epsilon, inputs=inputs, cells=cells))
    if isinstance(places, PlaneGrid) and places.size <= MAX_MARGIN_CELLS:
        candidates += [
            build_wide(places, epsilon, people=people, inputs=inputs, cells=cells, decays=decays)
            for decays in _choose_margins(places, epsilon)
        ]
    kept += [law for law in candidates if is_kept(law, epsilon)]
    if not kept:
        half = Mechanism(places=places, beta_per_metre=epsilon / 2, weights=equal_weights(cells), inputs=inputs)
        return name_reports(half, people, named)
    return min(kept, key=lambda law: find_expected_distance(law, people))


SHORT_DECAYS = 4.0  # a narrower margin, tried as well on a map that is small beside 1/epsilon: cones far out say little


def _choose_margins(grid: PlaneGrid, epsilon: Fraction) -> list[float]:
    sides = float(grid.cell_height_metres) * grid.rows, float(grid.cell_width_metres) * grid.columns
    is_small = float(np.hypot(*sides)) * float(epsilon) < SHORT_DECAYS
    return [FAR_DECAYS, SHORT_DECAYS] if is_small else [FAR_DECAYS]


MAX_MARGIN_CELLS = 40_000  # of a map for which a wide margin is tried
MAX_NEAR_CELLS = 100_000  # of a plane map: reports are named one after another
MAX_NEAR_PAIRS = 120_000_000  # within reach on a map without rows: a few CPU minutes


def is_kept(law: Mechanism | HiddenMechanism, epsilon: Fraction) -> bool:
    """Tell whether a law keeps its promise, by its certificate."""
    needed = certify_hidden(law) if isinstance(law, HiddenMechanism) else certify_epsilon(law).epsilon
    return needed <= float(epsilon)


def _round_near(law: NearLaw, epsilon: Fraction, *, inputs: Booleans, cells: Booleans) -> HiddenMechanism:
    """Turn a solution into exact numbers: shapes from their first point, weights over 2**40."""
    table = law.table
    rows, columns = table.rows, table.columns
    shapes: dict[Shape, int] = {}
    placed = []
    for points, weight in zip(law.shapes, quantise_weights(law.weights).tolist(), strict=True):
        first = points[0][0] if points else 0
        shape = tuple(
            (int(rows[point] - rows[first]), int(columns[point] - columns[first]), lag) for point, lag in points
        )
        number = shapes.setdefault(shape, len(shapes))
        placed.append([number, int(rows[first]) if points else 0, int(columns[first]) if points else 0, weight])
    return HiddenMechanism(
        places=table.places,
        beta_per_metre=round_down(epsilon * (1 - RESERVE)),
        shapes=tuple(shapes),
        columns=np.array(placed),
        told=law.told,
        weights=equal_weights(cells),
        inputs=inputs,
    )


def build_wide(
    places: PlaneGrid,
    epsilon: Fraction,
    *,
    people: Reals,
    inputs: Booleans,
    cells: Booleans,
    decays: float = FAR_DECAYS,
) -> HiddenMechanism:
    """Put level cones on the map and far around it, and name each by the cell that is best for it."""
    for reserve in RESERVES:
        law = _level_wide(places, epsilon, reserve, inputs=inputs, cells=cells, decays=decays)
        if certify_hidden(law) <= float(epsilon):
            break
    return replace(law, told=find_names(law, people, np.flatnonzero(cells)))


def _level_wide(
    places: PlaneGrid, epsilon: Fraction, reserve: Fraction, *, inputs: Booleans, cells: Booleans, decays: float
) -> HiddenMechanism:
    beta = round_down(epsilon * (1 - reserve))
    points = lay_points(places, float(beta), decays=decays)
    level = level_weights(places, float(beta), points, inputs, slope=float(epsilon * reserve) / 3)
    weights = quantise_weights(level)
    zero = np.zeros(len(weights), dtype=np.int64)
    return HiddenMechanism(
        places=places,
        beta_per_metre=beta,
        shapes=(((0, 0, 0),),),
        columns=np.column_stack([zero, points.rows, points.columns, weights]),
        told=zero,
        weights=equal_weights(cells),
        inputs=inputs,
    )


def name_reports(law: Mechanism, people: Reals, named: Integers) -> Mechanism:
    """Name every report by the cell of least expected distance for those who may have sent it: free post-processing."""
    return replace(law, told=find_names(law, people, named), _kernel=law._kernel)


def find_expected_distance(law: Mechanism | HiddenMechanism, people: Reals) -> float:
    """Find the expected distance between a person and the cell that is told, in metres."""
    if isinstance(law, HiddenMechanism):
        return measure_hidden(law, people).expected_distance
    return measure_told(law, people).expected_distance
