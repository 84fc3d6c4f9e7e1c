"""The noisy sums of a map, and what is made of them: unbiased figures with exact errors, and one whole table.

What is measured (the only step that sees the data): the sum of every square of every level, and every cell.
What follows is post-processing and costs nothing:

    MeasuredTable.squares   least squares over all levels: any region's unbiased figure with its standard error
    repair                  the published table: whole numbers, not negative, adding up at every level

The table is made from the top down, so that the bias of "not below 0" never climbs to large squares. In the last
squares a cell is combined with what its surroundings tell (`postprocess.surroundings`). It is nearer to the truth than
the unbiased figures where places are thin, and biased there: both are published.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sudare.counts import Counts
from sudare.methods.budget import LARGEST_TOTAL
from sudare.methods.table.levels import DensityRule, LeafLayout, TreeLayout
from sudare.methods.table.margins import Margins
from sudare.methods.table.squares import SquareLayout
from sudare.methods.table.tree import Visited
from sudare.noise import CountNoise, GaussianNoise, Rng
from sudare.noise.uniform import draw_words
from sudare.postprocess.least_squares import LeastSquares
from sudare.postprocess.surroundings import (
    MapGrid,
    combine,
    expect_from_neighbours,
    project_in_metric,
    round_rows,
)
from sudare.schema.arrays import Booleans, Codes, Integers, Reals

# A cell that is expected to hold less than so many deviations of noise and people more becomes 0; by class of density.
# A higher bound leaves fewer people where nobody is, and is further off where there are some. People matter where the
# noise is of few people. Chosen on the maps that `squares.py` names, at epsilon 1/10 and 1.
KEPT_DEVIATIONS = {1: (0.27,), 3: (0.15, 0.27, 0.5), 6: (0.05, 0.065, 0.075, 0.17, 0.27, 0.38)}
KEPT_PEOPLE = {1: (0.0,), 3: (0.0, 0.0, 0.0), 6: (0.0, 0.1, 0.3, 0.5, 1.15, 1.2)}
# Of the people of a row, the part that its kept cells hold at least, whatever the bound: where all cells are thin a
# bound alone would put everybody in the largest. More is nearer, and has more cells without people. Chosen, with the
# people above and `surroundings.MOST_MOVED`, on made-up maps and on four real ones (`benchmarks.table_real`).
# Less is kept on large maps, whose squares of 4 x 4 cells are kept all, and of other attributes in a cell, which have
# many more cells than people (two made-up maps).
LEAST_HELD, LEAST_HELD_ON_LARGE_MAPS, LEAST_HELD_IN_CELLS = 0.55, 0.4, 0.35
# Classes of density, from the thinnest, whose squares of 4 x 4 cells on a large map are combined with what is around
# them, as cells are (chosen with `squares.LARGE_MAP_THIN`). For larger squares, and dense ones, that does not pay.
COMBINED_CLASSES = 4
# Beside a cell of 20 deviations of noise, a large cell (more than 4) keeps its own figure: what its
# surroundings tell would pull both together. Small ones are combined with it, as everywhere.
GIANT_DEVIATIONS, PLAIN_DEVIATIONS = 20.0, 4.0
AREA_PART = 0.02  # of the expectation of a cell that is spread evenly over its square
# Standard errors that hold 96 of 100: a little more than is told, since sums of few noises are not quite normal.
NORMAL_FACTOR, LAPLACE_FACTOR = 2.05, 2.28  # of Laplace noise: ln(25) / sqrt(2)
LEAST_WEIGHT = 1e-6  # of the variance of the noise, in the metric of a row


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredTable:
    """The noisy sums of all levels of a layout, as published: `noisy[l]` of the nodes of level l.

    `noises` are those of all levels; below the level of `rule`, where there is one, those of its classes.
    """

    layout: LeafLayout
    noises: tuple[CountNoise, ...]
    noisy: tuple[Integers, ...]
    total: int
    total_variance: float
    rule: DensityRule | None = None

    @property
    def published_total(self) -> int:
        """The number of records of the published table: the exact one, or the best estimate of it."""
        estimate = round(self.squares.root.estimate) if self.total_variance else self.total
        return min(max(0, estimate), LARGEST_TOTAL)

    def factor_of(self, cells: int) -> float:
        """Standard errors that hold at least 95 of 100 sums over so many cells.

        The noise of many sums is nearly normal; that of a single cell keeps the tails of its own law.
        """
        heavy = 0.0 if isinstance(self.noises[-1], GaussianNoise) else LAPLACE_FACTOR - NORMAL_FACTOR
        return NORMAL_FACTOR + heavy / max(1, cells)

    @cached_property
    def squares(self) -> LeastSquares:
        """Least squares over all levels; nodes without a possible cell are held at 0."""
        held = enumerate(self.layout.possible_cells)
        return LeastSquares(
            parents=self.layout.parents,
            noisy=[values.astype(np.float64) for values in self.noisy],
            variances=[np.where(cells > 0, self.variances(level), 0.0) for level, cells in held],
            total=float(self.total),
            total_variance=self.total_variance,
        )

    @cached_property
    def classes(self) -> Codes | None:
        """The class of every square of the level that decides on the noise below it."""
        if self.rule is None:
            return None
        return self.rule.classify(self.noisy[self.rule.level], self.layout.possible_cells[self.rule.level])

    def noises_by_class(self, level: int) -> tuple[CountNoise, ...]:
        """The noises of a level, one for every class."""
        if self.rule is None or level <= self.rule.level:
            return (self.noises[level],)
        return tuple(noises[level - self.rule.level - 1] for noises in self.rule.noises)

    def classes_of(self, level: int, nodes: Codes | None = None) -> Codes:
        """The place in `noises_by_class` of every node of a level, or of some of them."""
        if nodes is None:
            nodes = np.arange(self.layout.sizes[level])
        if self.rule is None or level <= self.rule.level or self.classes is None:
            return np.zeros(len(nodes), dtype=np.int64)
        return self.classes[nodes // (self.layout.sizes[level] // self.layout.sizes[self.rule.level])]

    def cell_margins(self, columns: Codes) -> Margins:
        """Give the margins of single cells (m, attributes)."""
        leaves = self.layout.leaves(columns)
        errors = self.squares.standard_errors[-1][leaves]
        return Margins(unbiased=self.squares.estimates[-1][leaves], margin=self.factor_of(1) * errors)

    def group_margins(self, position: int, lift: Callable[[Codes], Codes]) -> Margins:
        """Give the margins of the groups of an attribute, all other attributes added up; `lift` finds the groups."""
        leaves = np.flatnonzero(self.layout.is_possible)
        groups = lift(self.layout.columns(leaves)[:, position])
        estimates, errors = self.squares.answer_groups(leaves, groups)
        held = np.bincount(groups)
        smallest = int(held[held > 0].min())
        return Margins(unbiased=estimates, margin=self.factor_of(smallest) * errors)

    def variances(self, level: int) -> Reals:
        """The variance of every noisy sum of a level."""
        variances = np.array([noise.variance for noise in self.noises_by_class(level)])
        found: Reals = variances[self.classes_of(level)]
        return found


def measure_levels(
    counts: Counts,
    layout: LeafLayout,
    noises: Sequence[CountNoise],
    *,
    total: int,
    total_variance: float,
    rng: Rng,
    rule: DensityRule | None = None,
) -> MeasuredTable:
    """Add noise to the sums of every level: the only step that sees the data.

    Guarantee: what the noises cost together, if `total` is public or already noisy. A unit changes the sums of a level
    by no more than it changes the cells. Noisy sums of one level may decide which of several noises of the same cost
    the sums below get. Proof: proofs/squares.md
    """
    exact = np.zeros(layout.sizes[-1], dtype=np.int64)
    exact[layout.leaves(counts.columns())] = counts.values
    sums = [exact]
    for level in range(len(layout.sizes) - 1, 0, -1):  # floats hold these sums exactly: totals are below 2^52
        added = np.bincount(layout.parents[level], weights=sums[-1], minlength=layout.sizes[level - 1])
        sums.append(added.astype(np.int64))
    noisy: list[Integers] = []
    found = MeasuredTable(
        layout=layout, noises=tuple(noises), noisy=(), total=total, total_variance=total_variance, rule=rule
    )
    for level, values in enumerate(sums[::-1]):
        classes, measured = found.classes_of(level), np.zeros(values.size, dtype=np.int64)
        for number, noise in enumerate(found.noises_by_class(level)):
            chosen = np.flatnonzero((layout.possible_cells[level] > 0) & (classes == number))
            if chosen.size:
                measured[chosen] = noise.add(values[chosen], rng=rng)
        noisy.append(measured)
        found = dataclasses.replace(found, noisy=tuple(noisy))
    return found


# --- the published table --------------------------------------------------------------------------------------------


def repair(measured: MeasuredTable, *, rng: Rng) -> Integers:
    """Make the published table, by leaf: whole numbers, not negative, every level adding up to the one above.

    The total is the exact one, or its best estimate.
    """
    layout, squares = measured.layout, measured.squares
    total = measured.published_total
    if isinstance(layout, TreeLayout):
        visited = Visited(tree=layout.tree, noises=measured.noises if layout.tree.steps else ())
        return visited.share_out(list(measured.noisy) if layout.tree.steps else [], total=total, rng=rng)
    if not isinstance(layout, SquareLayout):
        raise AssertionError("a table is a map, or has the levels of its attributes")
    above: Integers = np.array([total], dtype=np.int64)
    for level, size in enumerate(layout.sizes):
        noisy, variance = squares.before_sharing(level)
        rows = _Rows(
            values=noisy.reshape(len(above), -1),
            weights=variance.reshape(len(above), -1),
            totals=above.astype(np.float64),
        )
        active = np.flatnonzero(above > 0)
        shared = np.zeros((len(above), size // len(above)), dtype=np.int64)
        if active.size:
            chosen = rows.take(active)
            point = _estimate_rows(measured, layout, level, chosen, active, above)
            ties = draw_words(point.size, rng=rng).reshape(point.shape) / 2.0**64 + 0.5
            shared[active] = round_rows(point, chosen.totals, ties, chosen.weights > 0)
        above = shared.ravel()
    return above


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """Children of some nodes, a row for each: their estimates, variances (0: holds nobody), and what they add up to."""

    values: Reals
    weights: Reals
    totals: Reals

    def take(self, places: Integers) -> _Rows:
        if len(places) == len(self.totals):
            return self
        return _Rows(values=self.values[places], weights=self.weights[places], totals=self.totals[places])

    def consistent(self) -> Reals:
        """Share what is missing to the total by variance: the unbiased estimate given the total."""
        spread = self.weights.sum(axis=1)
        missing = (self.totals - self.values.sum(axis=1)) / np.maximum(spread, 1e-300)
        shifted: Reals = self.values + missing[:, None] * self.weights
        return shifted


def _estimate_rows(
    measured: MeasuredTable, layout: SquareLayout, level: int, rows: _Rows, active: Integers, above: Integers
) -> Reals:
    """Estimate children that are not negative and add up: by projection, or combined with their surroundings."""
    consistent = rows.consistent()
    classes = measured.classes_of(level, active * rows.values.shape[1])
    if level == 0 or (0 < layout.sides[level] != 1):
        point = project_in_metric(consistent, rows.weights, rows.totals)
        thin = np.flatnonzero(classes < COMBINED_CLASSES)
        if (
            thin.size
            and measured.rule is not None
            and layout.has_thin_squares
            and layout.sides[level] == layout.map_sides[-2]
        ):
            expected = _expect_on_map(layout, level, rows, consistent, active, above, variance=rows.weights)
            for number in np.unique(classes[thin]).tolist():
                chosen, noise = np.flatnonzero(classes == number), measured.noises_by_class(level)[number]
                point[chosen] = _combine_squares(rows.take(chosen), consistent[chosen], expected[chosen], noise)
        return point
    noises = measured.noises_by_class(level)
    least_held = LEAST_HELD_ON_LARGE_MAPS if layout.has_thin_squares else LEAST_HELD
    if layout.sides[level] == 1:
        variance = np.array([noise.variance for noise in noises])[classes][:, None]
        expected = _expect_on_map(layout, level, rows, consistent, active, above, variance=variance)
    else:
        expected, least_held = _expect_in_cells(measured, layout, level, rows, active), LEAST_HELD_IN_CELLS
    point = np.empty_like(consistent)
    for number, noise in enumerate(noises):
        chosen = np.flatnonzero(classes == number)
        if chosen.size:
            part = rows.take(chosen)
            kept = KEPT_DEVIATIONS[len(noises)][number] * math.sqrt(noise.variance) + KEPT_PEOPLE[len(noises)][number]
            point[chosen] = _combine_rows(part, consistent[chosen], expected[chosen], noise, (kept, least_held))
    return point


def _combine_rows(
    rows: _Rows, consistent: Reals, expected: Reals, noise: CountNoise, kept: tuple[float, float]
) -> Reals:
    """Combine cells with their expectations; small ones become 0 (`_find_bounds`); large ones beside a giant stay."""
    is_open, deviation = rows.weights > 0, math.sqrt(noise.variance)
    found = combine(
        np.where(is_open, consistent, 0.0).ravel(),
        np.where(is_open, expected, 0.0).ravel(),
        variance=noise.variance,
        is_normal=isinstance(noise, GaussianNoise),
    )
    mean, spread = found.mean.reshape(consistent.shape), found.variance.reshape(consistent.shape)
    is_kept = is_open & (mean >= _find_bounds(mean, *kept)[:, None])
    weights = np.where(is_kept, spread + LEAST_WEIGHT * noise.variance, 0.0)
    is_giant = np.where(is_open, consistent, 0.0).max(axis=1) > GIANT_DEVIATIONS * deviation
    is_plain = is_kept & is_giant[:, None] & (consistent > PLAIN_DEVIATIONS * deviation)
    return project_in_metric(
        np.where(is_plain, consistent, mean), np.where(is_plain, rows.weights, weights), rows.totals
    )


def _combine_squares(rows: _Rows, consistent: Reals, expected: Reals, noise: CountNoise) -> Reals:
    """Combine small squares of thin places with their expectations; none is set to 0."""
    is_open = rows.weights > 0
    variance = float(rows.weights[is_open].mean())
    found = combine(
        np.where(is_open, consistent, 0.0).ravel(),
        np.where(is_open, expected, 0.0).ravel(),
        variance=variance,
        is_normal=isinstance(noise, GaussianNoise),
    )
    mean, spread = found.mean.reshape(consistent.shape), found.variance.reshape(consistent.shape)
    return project_in_metric(mean, np.where(is_open, spread + LEAST_WEIGHT * variance, 0.0), rows.totals)


def _find_bounds(mean: Reals, kept: float, least_held: float) -> Reals:
    """Find what a cell of every row must hold to be kept: `kept`, or less, until so large a part of the row is kept.

    >>> _find_bounds(np.array([[0.0, 1.0, 2.0, 2.5], [0.0, 0.0, 9.0, 1.0]]), 3.0, 0.55).round(3).tolist()
    [1.998, 3.0]
    """
    bounds = np.full(len(mean), kept)
    held = np.einsum("ij,ij->i", mean, mean >= kept)
    thin = np.flatnonzero(held < least_held * mean.sum(axis=1))
    if not thin.size:
        return bounds
    falling = -np.sort(-mean[thin], axis=1)
    held = falling.cumsum(axis=1)
    last = (held < least_held * held[:, -1:]).sum(axis=1)
    bounds[thin] = np.minimum(kept, 0.999 * falling[np.arange(thin.size), last])
    return bounds


def _expect_on_map(
    layout: SquareLayout,
    level: int,
    rows: _Rows,
    consistent: Reals,
    active: Integers,
    above: Integers,
    *,
    variance: Reals,
) -> Reals:
    """Expect cells, or small squares, from the densities around: between squares, and in two rings of neighbours."""
    is_open = rows.weights > 0
    held = layout.possible_cells[level - 1]
    leaf = (active[:, None] * rows.values.shape[1] + np.arange(rows.values.shape[1])).ravel()[is_open.ravel()]
    grid, side = map_grid(layout, leaf, level), layout.sides[level]
    even = (rows.totals / np.maximum(held[active], 1))[:, None]
    base = np.zeros_like(consistent)
    if not layout.is_hexagonal:  # the parents of hexagons lie on no rectangle of their own: an even share
        base[is_open] = grid.interpolate(_find_density(layout, level - 1, above), layout.sides[level - 1] // side)
    base = np.where(is_open, base + (1.0 if layout.is_hexagonal else AREA_PART) * even, 0.0)
    if side > 1:  # squares on an edge have fewer cells
        base[is_open] *= layout.possible_cells[level][leaf]
    base *= (rows.totals / base.sum(axis=1))[:, None]
    rings = grid.ring_means(consistent[is_open])
    expected = np.zeros_like(base)
    noise = np.broadcast_to(variance, base.shape)[is_open]
    expected[is_open] = expect_from_neighbours(consistent[is_open], base[is_open], rings, variance=noise)
    expected *= (rows.totals / expected.sum(axis=1))[:, None]
    return expected


def _find_density(layout: SquareLayout, level: int, above: Integers) -> Reals:
    """People per possible cell of the squares of a level, on a rectangle; 0 where no cell can be."""
    side, held = layout.sides[level], layout.possible_cells[level]
    height, width = int(layout.rows.max()) + 1, int(layout.columns_east.max()) + 1
    density = np.zeros((-(-height // side), -(-width // side)))
    first = layout.first_places(level)
    density[layout.rows[first] // side, layout.columns_east[first] // side] = (above / np.maximum(held, 1))[held > 0]
    return density


def map_grid(layout: SquareLayout, nodes: Integers, level: int) -> MapGrid:
    """Place squares or cells of a level of the map on a rectangle of squares of their size."""
    side = layout.sides[level]
    height, width = int(layout.rows.max()) // side + 1, int(layout.columns_east.max()) // side + 1
    places = layout.place_of_leaf if side == 1 else layout.place_of_leaf.reshape(layout.sizes[level], -1).max(axis=1)
    place = places[nodes]
    index = layout.rows[place] // side * width + layout.columns_east[place] // side
    return MapGrid(height=height, width=width, index=index)


def _expect_in_cells(measured: MeasuredTable, layout: SquareLayout, level: int, rows: _Rows, active: Integers) -> Reals:
    """Expect combinations of other attributes in a cell as they are in the largest square around it."""
    estimates = measured.squares.estimates[level]
    by_square = np.maximum(estimates, 0.0).reshape(layout.sizes[0], -1, rows.values.shape[1])
    mix = by_square.sum(axis=1) + 1e-9
    cells_a_square = layout.sizes[level - 1] // layout.sizes[0]
    is_open: Booleans = rows.weights > 0
    expected = np.where(is_open, mix[active // cells_a_square], 0.0)
    expected *= (rows.totals / expected.sum(axis=1))[:, None]
    return expected
