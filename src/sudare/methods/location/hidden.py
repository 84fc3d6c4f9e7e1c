"""The law of hidden reports: weights times the largest of some cones, exact numbers as in mechanism.py.

    P(h|x) = w(h) k_h(x) / s(x),     k_h(x) = max over i of exp(-slope beta (d(x, p_i) + lag_i))

A shape has a slope of at most 1, in percent (mode near: 1; mode fair under a prior: also flatter cones). Points are
cells, or on a plane also places beside the map (row and column); lags are whole units of the map. A device sends the
number of the hidden report; `told` says which cell stands for it, for whoever needs a place. The collector estimates
from hidden reports and loses nothing by the naming.

Guarantee: beta plus the slope of log s, per metre (claim 4 of proofs/location.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.location.grid import Places, PlaneGrid
from sudare.methods.location.kernel import MAX_KEPT_CELLS, distance_table
from sudare.methods.location.margin import MarginSums, find_rectangle, sum_far_cones, sum_slopes
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.nearby import NearbyKernel, find_nearby
from sudare.methods.location.posterior import find_all_norms
from sudare.methods.location.tight import find_slope_on_grid
from sudare.noise.distance import Cone
from sudare.schema.arrays import Booleans, Integers, Reals

Shape = tuple[tuple[int, int, int], ...]  # (row, column, lag), from the place of the column; cells have column 0
BLOCK = 2**21  # numbers in one block of the law
FULL_SLOPE = 100  # percent
MAX_OFFSET, MAX_LAG = 10**9, 10**15  # rows or columns of a point, and units of a lag: beyond lies no map
MAX_BLOCKS = 400  # a law that needs more is too large for this mode, if its cones do not fill a rectangle
MAX_SUMMED = 10**7  # terms of all sums of a law up to which they are added one by one
LEAST_SUM = 1e-3  # of the largest sum: below it a sum by a transform is not exact enough


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenMechanism:
    """A map, beta, shapes and columns (shape, row, column, weight); `weights` marks the cells that can be told.

    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = HiddenMechanism(places=grid, beta_per_metre=Fraction(1, 100), shapes=(((0, 0, 0),),),
    ...     columns=np.array([[0, 0, 0, FULL_WEIGHT], [0, 0, 1, FULL_WEIGHT]]), told=np.array([0, 1]),
    ...     weights=np.array([FULL_WEIGHT, FULL_WEIGHT]))
    >>> law.report_law(0).round(3).tolist()
    [0.731, 0.269]
    """

    places: Places
    beta_per_metre: Fraction
    shapes: tuple[Shape, ...]
    columns: Integers
    told: Integers
    weights: Integers
    inputs: Booleans | None = None
    slopes: tuple[int, ...] = ()  # of the shapes, in percent of beta; by default 100 each
    _sums: list[Reals] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        columns, size = np.asarray(self.columns, dtype=np.int64), self.places.size
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "told", np.asarray(self.told, dtype=np.int64))
        object.__setattr__(self, "weights", np.asarray(self.weights, dtype=np.int64))
        if self.inputs is None:
            object.__setattr__(self, "inputs", self.weights > 0)
        object.__setattr__(self, "slopes", self.slopes or (FULL_SLOPE,) * len(self.shapes))
        is_sound = (
            columns.ndim == 2
            and columns.shape[1:] == (4,)
            and len(columns) == len(self.told)
            and len(columns) > 0
            and self.weights.shape == (size,)
            and bool((columns[:, 0] >= 0).all() and (columns[:, 0] < len(self.shapes)).all())
            and bool((columns[:, 3] > 0).all() and (columns[:, 3] <= FULL_WEIGHT).all())
            and bool((self.told >= 0).all() and (self.told < size).all())
            and len(self.slopes) == len(self.shapes)
            and all(0 <= slope <= FULL_SLOPE for slope in self.slopes)
            and all(
                0 <= lag <= MAX_LAG and max(abs(a), abs(b)) <= MAX_OFFSET
                for shape in self.shapes
                for a, b, lag in shape
            )
            and -MAX_OFFSET <= int(columns[:, 1:3].min()) <= int(columns[:, 1:3].max()) <= MAX_OFFSET
            and self.beta_per_metre > 0
            and self._are_on_the_map()
        )
        if not is_sound:
            raise ParameterError("the hidden reports of a law must have shapes, weights and told cells of this map")
        is_rectangle = (
            isinstance(self.places, PlaneGrid)
            and has_one_cone(self)
            and find_rectangle(self.places, columns[:, 1], columns[:, 2]) is not None
        )
        if size * len(columns) > BLOCK * MAX_BLOCKS and not is_rectangle:
            raise ParameterError("the law has too many hidden reports for its map; take mode sharp")

    def _are_on_the_map(self) -> bool:
        """Points of a map without rows and columns must be its cells."""
        if isinstance(self.places, PlaneGrid):
            return True
        points = [(int(row) + a, int(column) + b) for shape, row, column, _ in self.columns.tolist()
                  for a, b, _ in self.shapes[shape]]  # fmt: skip
        return all(0 <= cell < self.places.size and other == 0 for cell, other in points)

    @property
    def beta(self) -> float:
        """Give beta per metre as a float."""
        return float(self.beta_per_metre)

    @property
    def can_enter(self) -> Booleans:
        """Tell in which cells people can be."""
        if self.inputs is None:
            raise AssertionError  # set on entry
        return self.inputs

    @property
    def reports(self) -> int:
        """Count the hidden reports."""
        return len(self.columns)

    def exponents(self, cells: Integers, columns: Integers) -> Reals:
        """Give the exponents of k, (cells, columns): beta times the shortest way to a point, its lag counted."""
        unit, chosen = float(self.places.unit_metres), self.columns[columns]
        least = np.full((len(cells), len(columns)), np.inf)
        for shape in np.unique(chosen[:, 0]).tolist():
            at = np.flatnonzero(chosen[:, 0] == shape)
            if not self.shapes[shape]:
                least[:, at] = 0.0
            for down, right, lag in self.shapes[shape]:
                metres = self._metres(cells, chosen[at, 1] + down, chosen[at, 2] + right)
                least[:, at] = np.minimum(least[:, at], metres + unit * lag)
            least[:, at] *= self.slopes[shape] / FULL_SLOPE
        return self.beta * least

    def _metres(self, cells: Integers, rows: Integers, columns: Integers) -> Reals:
        grid = self.places
        if not isinstance(grid, PlaneGrid):
            return _measure_between(grid, cells, rows)
        from_rows, from_columns = np.divmod(cells, grid.columns)
        down = (from_rows[:, None] - rows) * float(grid.cell_height_metres)
        metres: Reals = np.hypot(down, (from_columns[:, None] - columns) * float(grid.cell_width_metres))
        return metres

    def blocks(self) -> Iterator[tuple[Integers, Reals]]:
        """Give the hidden reports in blocks with w k at every cell: (cells, block)."""
        cells, side = np.arange(self.places.size), max(1, BLOCK // self.places.size)
        for start in range(0, self.reports, side):
            block = np.arange(start, min(self.reports, start + side))
            yield block, np.exp(-self.exponents(cells, block)) * (self.columns[block, 3] / FULL_WEIGHT)

    def sums(self) -> Reals:
        """Give s at every cell."""
        if not self._sums:
            sums = self._sum_cones()
            if sums is None:
                sums = np.sum([terms.sum(axis=1) for _, terms in self.blocks()], axis=0)
            self._sums.append(sums)
        return self._sums[0]

    def _sum_cones(self) -> Reals | None:
        """Give s of single cones on a large plane map, by a transform where they fill a rectangle; None elsewhere.

        The error of a transform is about 1e-15 of the largest sum; where sums differ much, they are summed directly.
        """
        grid = self.places
        if not isinstance(grid, PlaneGrid) or grid.size * self.reports <= MAX_SUMMED:
            return None
        if not has_one_cone(self):
            return self._sum_slopes(grid)
        rows, columns, weights = self.columns[:, 1], self.columns[:, 2], self.columns[:, 3] / FULL_WEIGHT
        points = find_rectangle(grid, rows, columns)
        if points is None:
            return None
        near, far = slice(None, points.near), slice(points.near, None)
        sums = MarginSums(grid, self.beta, points).to_cells(weights[near])
        sums += sum_far_cones(grid, self.beta, rows[far], columns[far], weights[far])
        return sums if sums.min() > LEAST_SUM * sums.max() else None

    def _sum_slopes(self, grid: PlaneGrid) -> Reals | None:
        """Give s of cones of many slopes, and of the report that says nothing; None for other shapes."""
        if any(shape not in ((), ((0, 0, 0),)) for shape in self.shapes):
            return None
        slopes = tuple(slope if shape else 0 for slope, shape in zip(self.slopes, self.shapes, strict=True))
        sums = sum_slopes(grid, self.beta, slopes, self.columns[:, :3], self.columns[:, 3] / FULL_WEIGHT)
        return sums if sums is not None and sums.min() > LEAST_SUM * sums.max() else None

    def report_law(self, cell: int) -> Reals:
        """Give the law of the hidden report of a person in `cell`."""
        terms = self.terms(cell)
        law: Reals = terms / terms.sum()
        return law

    def terms(self, cell: int) -> Reals:
        """Give w k for every hidden report: the law before it is normed."""
        exponents = self.exponents(np.array([cell]), np.arange(self.reports))[0]
        terms: Reals = self.columns[:, 3] / FULL_WEIGHT * np.exp(-exponents)
        return terms

    def log_chances(self, report: int, cells: Integers) -> Reals:
        """Give log w k of one hidden report from many cells: its law without the norm."""
        exponents = self.exponents(cells, np.array([report]))[:, 0]
        logs: Reals = np.log(self.columns[report, 3] / FULL_WEIGHT) - exponents
        return logs

    def cones(self, cell: int, report: int) -> list[Cone]:
        """Give the cones of a hidden report at a cell, exactly: squared metres and lag in metres, times the slope."""
        shape, row, column, _ = self.columns[report].tolist()
        unit = self.places.unit_metres * Fraction(self.slopes[shape], FULL_SLOPE)
        cones = []
        for down, right, lag in self.shapes[shape]:
            square = self._square(cell, row + down, column + right)
            cones.append(Cone(square=square * unit * unit, lag=lag * unit))
        return cones or [Cone(square=Fraction(0), lag=Fraction(0), is_level=True)]

    def _square(self, cell: int, row: int, column: int) -> int:
        grid = self.places
        if not isinstance(grid, PlaneGrid):
            return int(grid.squares(cell)[row])
        unit = grid.unit_metres
        height, width = (int(Fraction(side) / unit) for side in (grid.cell_height_metres, grid.cell_width_metres))
        here = divmod(cell, grid.columns)
        return ((here[0] - row) * height) ** 2 + ((here[1] - column) * width) ** 2


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class HiddenMeasures:
    """What hidden reports tell: over reports the posteriors, over cells the chance of the true one and the distance."""

    largest_posterior: Reals  # of any place, for each hidden report
    report_mass: Reals  # the share of all reports that each is
    posterior: Reals  # that the told cell is the true one, for each cell; NaN where it is never told
    report_true: Reals
    distance: Reals
    told_mass: Reals
    expected_distance: float

    def find_median(self) -> float:
        """Give the largest posterior that half of all sent reports stay below; rare reports hardly count."""
        order = np.argsort(self.largest_posterior, kind="stable")
        sums = np.cumsum(self.report_mass[order])
        return float(self.largest_posterior[order][int(np.searchsorted(sums, sums[-1] / 2))])

    def measures(self) -> dict[str, float]:
        """Give the figures that a certificate holds."""
        return {
            "posterior_max": float(self.largest_posterior.max()),
            "posterior_median": self.find_median(),
            "posterior_min": float(self.largest_posterior.min()),
            "report_true_max": float(np.nanmax(self.report_true)),
            "report_true_min": float(np.nanmin(self.report_true)),
            "expected_distance_metres": self.expected_distance,
        }


def _measure_between(places: Places, cells: Integers, others: Integers) -> Reals:
    """Give the distances (cells, others) on a map without rows: from the fewer of them, or of a table where it fits."""
    if min(len(cells), len(others)) > MANY_ROWS and places.size <= MAX_KEPT_CELLS:
        return distance_table(places)[np.ix_(cells, others)]
    if len(others) < len(cells):
        return np.array([places.metres(int(cell))[cells] for cell in others.tolist()]).reshape(-1, len(cells)).T
    return np.array([places.metres(int(cell))[others] for cell in cells.tolist()])


MANY_ROWS = 64  # of distances, for which a whole table is made


def measure_hidden(law: HiddenMechanism, people: Reals) -> HiddenMeasures:
    """Measure a law of hidden reports for people spread like this (shares of 1)."""
    return _measure(law, law.told, law.sums(), people)


def measure_told(law: Mechanism, people: Reals) -> HiddenMeasures:
    """Measure a law whose reports are told as other cells."""
    told = np.arange(law.places.size) if law.told is None else law.told
    return _measure(law, told, find_all_norms(law), people)


def _measure(law: HiddenMechanism | Mechanism, names: Integers, sums: Reals, people: Reals) -> HiddenMeasures:
    size, grid = law.places.size, law.places
    have_reports = isinstance(law, HiddenMechanism) or bool((law.weights[law.can_enter] > 0).all())
    if size > MAX_MEASURED_BY_TABLE and isinstance(grid, PlaneGrid) and has_one_cone(law) and have_reports:
        return _measure_by_windows(law, grid, names, sums, people)
    if isinstance(law, Mechanism) and isinstance(law.kernel, NearbyKernel):
        return _measure_nearby(law, names, sums, people)
    largest, sent = np.zeros(law.reports), np.zeros(law.reports)
    mass, own, true, distance = (np.zeros(size) for _ in range(4))
    for block, terms in law.blocks():
        chances = np.where(law.can_enter[:, None], terms / sums[:, None], 0.0)
        joint = people[:, None] * chances
        totals, told = joint.sum(axis=0), names[block]
        sent[block] = totals
        largest[block] = joint.max(axis=0) / np.maximum(totals, np.finfo(float).tiny)
        np.add.at(mass, told, totals)
        np.add.at(own, told, joint[told, np.arange(len(block))])
        np.add.at(true, told, chances[told, np.arange(len(block))])
        cells = np.unique(told)
        metres = _measure_between(grid, cells, np.arange(size)) if not isinstance(grid, PlaneGrid) else None
        for number, cell in enumerate(cells.tolist()):
            away = grid.metres(cell) if metres is None else metres[number]
            distance += chances[:, told == cell].sum(axis=1) * away
    return _collect_measures(law, people, (largest, sent), mass, own, true, distance)


def _measure_nearby(law: Mechanism, names: Integers, sums: Reals, people: Reals) -> HiddenMeasures:
    """Measure the reports of a large map without rows, each by the places within reach of it.

    A place within reach of the report and not of its name counts with the way by the report, which is no shorter.
    """
    pairs, size = find_nearby(law.places, law.beta), law.places.size
    rows, alpha = pairs.full_rows(min(pairs.reach, MEASURED_DECAYS / law.beta)), np.where(law.can_enter, 1 / sums, 0.0)
    largest, sent = np.zeros(size), np.zeros(size)
    mass, own, true, distance = (np.zeros(size) for _ in range(4))
    metres_to = np.full(size, np.inf)
    for report in np.flatnonzero(law.weights).tolist():
        name, here = int(names[report]), slice(rows.indptr[report], rows.indptr[report + 1])
        cells, metres = np.append(rows.indices[here], report), np.append(rows.data[here], 0.0)
        chances = law.shares[report] * np.exp(-law.beta * metres) * alpha[cells]
        joint = chances * people[cells]
        total = float(joint.sum())
        largest[report], sent[report] = joint.max() / max(total, np.finfo(float).tiny), total
        mass[name] += total
        at = np.flatnonzero(cells == name)
        own[name] += joint[at].sum()
        true[name] += chances[at].sum()
        if name != report:
            there = slice(rows.indptr[name], rows.indptr[name + 1])
            metres_to[rows.indices[there]], metres_to[name] = rows.data[there], 0.0
            metres = np.minimum(metres_to[cells], metres + float(metres_to[report]))
            metres_to[rows.indices[there]] = metres_to[name] = np.inf
        distance[cells] += chances * metres
    return _collect_measures(law, people, (largest, sent), mass, own, true, distance)


def _collect_measures(
    law: HiddenMechanism | Mechanism,
    people: Reals,
    posteriors: tuple[Reals, Reals],  # the largest of each report, and how often it is sent
    mass: Reals,
    own: Reals,
    true: Reals,
    distance: Reals,
) -> HiddenMeasures:
    inside, (largest, sent) = law.can_enter, posteriors
    return HiddenMeasures(
        largest_posterior=np.minimum(largest[largest > 0], 1.0),
        report_mass=sent[largest > 0],
        posterior=np.where(mass > 0, own / np.where(mass > 0, mass, 1.0), np.nan),
        report_true=np.where(inside, true, np.nan),
        distance=np.where(inside, distance, np.nan),
        told_mass=mass,
        expected_distance=float((people * distance).sum()),
    )


MAX_MEASURED_BY_TABLE = 1_500  # cells; larger plane maps are measured within windows
WINDOW_DECAYS = 26.0  # beyond so many times 1/beta lies less than 1e-9 of a report
MEASURED_DECAYS = 16.0  # the same on a map without rows: beyond lie 2 in a million of the reports on a plane


def has_one_cone(law: Mechanism | HiddenMechanism) -> bool:
    """Tell whether every report is a single cone."""
    return isinstance(law, Mechanism) or (law.shapes == (((0, 0, 0),),) and law.slopes == (FULL_SLOPE,))


def place_reports(law: Mechanism | HiddenMechanism, grid: PlaneGrid) -> tuple[Integers, Integers]:
    """Give row and column of every report; of hidden ones also beside the map."""
    if isinstance(law, HiddenMechanism):
        return law.columns[:, 1], law.columns[:, 2]
    rows, columns = np.divmod(np.arange(grid.size), grid.columns)
    return rows, columns


def _measure_by_windows(
    law: HiddenMechanism | Mechanism, grid: PlaneGrid, names: Integers, sums: Reals, people: Reals
) -> HiddenMeasures:
    """Measure reports of one cone one after another, each within a window of the map around it."""
    sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
    alpha = np.where(law.can_enter, 1 / sums, 0.0).reshape(grid.shape)
    shares, people_map = alpha * people.reshape(grid.shape), people.reshape(grid.shape)
    weights = law.columns[:, 3] / FULL_WEIGHT if isinstance(law, HiddenMechanism) else law.shares
    rows, columns = place_reports(law, grid)
    reach = [int(np.ceil(WINDOW_DECAYS / (law.beta * side))) for side in sides]
    margin = [max(int(-part.min()), int(part.max()) - size + 1, 0) + size  # longest offsets, down and across
              for part, size in zip((rows, columns), grid.shape, strict=True)]  # fmt: skip
    metres = np.hypot(*np.meshgrid(*(np.arange(-far, far + 1) * side for far, side in zip(margin, sides, strict=True)),
                                   indexing="ij"))  # fmt: skip
    decay = np.exp(-law.beta * metres)
    largest, sent, distance = np.zeros(law.reports), np.zeros(law.reports), np.zeros(grid.shape)
    mass, own, true = (np.zeros(grid.size) for _ in range(3))
    places = zip(rows.tolist(), columns.tolist(), names.tolist(), weights.tolist(), strict=True)
    for report, (row, column, name, weight) in enumerate(places):
        if not weight:
            continue
        window = _cut(row, reach[0], grid.rows), _cut(column, reach[1], grid.columns)
        chances = weight * decay[_shift(window, (row, column), margin)]
        joint, at = chances * shares[window], divmod(name, grid.columns)
        total = float(joint.sum())
        largest[report], sent[report] = joint.max() / max(total, np.finfo(float).tiny), total
        distance[window] += chances * metres[_shift(window, at, margin)]
        chance = weight * decay[at[0] - row + margin[0], at[1] - column + margin[1]] * alpha[at]
        mass[name] += total
        own[name] += chance * people_map[at]
        true[name] += chance
    return _collect_measures(law, people, (largest, sent), mass, own, true, (alpha * distance).reshape(-1))


def _cut(place: int, reach: int, size: int) -> slice:
    """Give the rows or columns of the map within reach of a place, which may be beside it."""
    edge = min(max(place, 0), size - 1)
    return slice(max(edge - reach, 0), min(edge + reach + 1, size))


def _shift(window: tuple[slice, slice], place: tuple[int, int], margin: list[int]) -> tuple[slice, slice]:
    """Give a window as offsets from a place, in a table whose middle is `margin`."""
    first, second = (
        slice(part.start - at + far, part.stop - at + far) for part, at, far in zip(window, place, margin, strict=True)
    )
    return first, second


def certify_hidden(law: HiddenMechanism) -> float:
    """Certify epsilon per metre: beta plus the slope of log s, bounded by its range over the shortest distance.

    Where the range is too large for that, its steepest pair is searched.
    """
    sums = law.sums()[law.can_enter]
    if len(sums) < 2:
        return 0.0
    if not (np.isfinite(sums).all() and sums.min() > 0):
        raise ParameterError("a cell of the map is too far from every hidden report; take mode sharp")
    error, shortest = 2.0**-50 * (law.reports + 50), find_shortest(law.places, law.can_enter)
    steepest: float = law.beta * max(law.slopes[shape] for shape in np.unique(law.columns[:, 0]).tolist()) / FULL_SLOPE
    spread = float(np.log(sums.max()) - np.log(sums.min()))
    if spread / shortest > SMALL_SLOPE * law.beta:
        spread = min(spread, _find_steepest(law) * shortest)
    return float(steepest) + (spread + error) / shortest


SMALL_SLOPE = 1e-4  # of beta: a slope of log s that is not worth a search of all pairs


def _find_steepest(law: HiddenMechanism) -> float:
    """Find the steepest slope of log s per metre, or a bound of it; infinity where a map is too large to search."""
    level = np.where(law.can_enter, np.log(np.where(law.can_enter, law.sums(), 1.0)), np.nan)
    if isinstance(law.places, PlaneGrid):
        return find_slope_on_grid(law.places, level.reshape(law.places.shape))[0]
    if law.places.size > MAX_KEPT_CELLS:
        return np.inf
    inputs = np.flatnonzero(law.can_enter)
    table = distance_table(law.places)
    return find_slope_of_table(table if len(inputs) == len(table) else table[np.ix_(inputs, inputs)], level[inputs])


def find_slope_of_table(metres: Reals, levels: Reals) -> float:
    """Find the steepest slope of levels between any two places of a table of distances.

    >>> find_slope_of_table(np.array([[0.0, 50.0], [50.0, 0.0]]), np.array([1.0, 2.0]))
    0.02
    """
    steepest, side = 0.0, max(1, BLOCK // len(levels))
    for start in range(0, len(levels), side):
        away = metres[start : start + side]
        rises = np.abs(levels[start : start + side, None] - levels)
        np.divide(rises, away, out=rises, where=away > 0)
        steepest = max(steepest, float(rises[away > 0].max(initial=0.0)))
    return steepest


def find_shortest(places: Places, cells: Booleans) -> float:
    """Give the shortest distance of two of these cells, or less."""
    if isinstance(places, PlaneGrid):
        sides = [(places.rows, places.cell_height_metres), (places.columns, places.cell_width_metres)]
        return min(float(side) for count, side in sides if count > 1)
    inputs = np.flatnonzero(cells)
    if len(inputs) > MANY_ROWS and places.size <= MAX_KEPT_CELLS:
        table = distance_table(places)
        return float(table[table > 0].min())
    rows = (places.metres(cell)[inputs] for cell in inputs.tolist())
    return min(float(row[row > 0].min(initial=np.inf)) for row in rows)
