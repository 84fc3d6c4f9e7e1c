"""The published table of a map: whole numbers, not negative, adding up at every level. All of it is post-processing.

The table is made from the top down, so that the bias of "not below 0" never climbs to large squares. In the last
squares a cell is combined with what its surroundings tell (`postprocess.surroundings`). It is nearer to the truth than
the unbiased figures where places are thin, and biased there: both are published.

It is made twice. Least squares adds up the noise of all cells of a square, those that are plainly empty too. Once cells
have been combined with their surroundings, it is known how much of that noise empty cells have, so that the sum of a
square is known better, and so are the squares above (`_learn_from_cells`). Then the squares are shared out again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sudare.methods.table.levels import TreeLayout
from sudare.methods.table.measured import MeasuredTable
from sudare.methods.table.squares import SquareLayout, lay_out
from sudare.methods.table.tree import Visited
from sudare.noise import CountNoise, GaussianNoise, Rng
from sudare.noise.uniform import draw_words
from sudare.postprocess.least_squares import LeastSquares
from sudare.postprocess.linked_squares import LinkedSquares
from sudare.postprocess.shrinkage import estimate_faint_spread, estimate_spread
from sudare.postprocess.surroundings import (
    MapGrid,
    Posterior,
    combine,
    expect_from_neighbours,
    project_in_metric,
    round_rows,
)
from sudare.schema.arrays import Booleans, Codes, Integers, Reals

# A cell that is expected to hold less than so many deviations of noise and people more becomes 0; by class of density.
# A higher bound leaves fewer people where nobody is, and is further off where there are some. People matter where the
# noise is of few people. Chosen on the maps that `squares.py` names, at epsilon 1/10 and 1.
# Twelve classes are the six twice: cells of the first four of thin maps are not measured, and not set to 0.
KEPT_DEVIATIONS = {1: (0.27,), 3: (0.15, 0.27, 0.5), 6: (0.05, 0.065, 0.075, 0.17, 0.27, 0.38)}
KEPT_PEOPLE = {1: (0.0,), 3: (0.0, 0.0, 0.0), 6: (0.0, 0.1, 0.3, 0.5, 1.15, 1.2)}
# Of the people of a row, the part that its kept cells hold at least, whatever the bound: where all cells are thin a
# bound alone would put everybody in the largest. More is nearer, and has more cells without people. The first where
# the noise of a cell is of 50 people or less, the second where it is of 100 or more and no cell can be told from
# another. Chosen, with the people above and `surroundings.MOST_MOVED`, on made-up maps and on places of Europe, US
# postal codes and people of Hungary (`benchmarks.table_real`).
# Less is kept on large maps, whose squares of 4 x 4 cells are kept all, and of other attributes in a cell, which have
# many more cells than people (two made-up maps).
LEAST_HELD, LEAST_HELD_ON_LARGE_MAPS, LEAST_HELD_IN_CELLS = (0.35, 0.7), (0.3, 0.4), 0.35
FEW_PEOPLE, MANY_PEOPLE = 50.0, 100.0
# Classes of density, from the thinnest, whose squares of 4 x 4 cells on a large map are combined with what is around
# them, as cells are (chosen with `squares.LARGE_MAP_THIN`). For larger squares, and dense ones, that does not pay.
COMBINED_CLASSES = 4
# Beside a cell of 20 deviations of noise, a large cell (more than 4) keeps its own figure: what its
# surroundings tell would pull both together. Small ones are combined with it, as everywhere.
GIANT_DEVIATIONS, PLAIN_DEVIATIONS = 20.0, 4.0
# In a row without a cell of 10 deviations, the people of cells that became 0 go to the others in equal parts.
EVEN_DEVIATIONS = 10.0
# The largest squares are pulled to even shares where less than this of the spread between them is of people: on a map
# with fewer people than the noise of one square they would all stand where the noise is largest.
MOSTLY_NOISE = 0.5
AREA_PART = 0.02  # of the expectation of a cell that is spread evenly over its square
LEAST_WEIGHT = 1e-6  # of the variance of the noise, in the metric of a row
# What cells tell of the sum of their square counts as if its variance were twice what it comes out as: cells of a class
# share what was fitted to it, so that their errors are not quite independent. Chosen among 1, 1.5 and 2, as above.
DOUBT = 2.0
# People that stand together in cells that were not measured (thin maps): more leave fewer cells without people, and
# single cells are further off. With 1, 2, 3 there are 0.95, 0.54, 0.38 of the first version's on places of Europe, Asia
# and US postal codes, on which it was chosen; cells are off by 1, 1.04, 1.1 times.
# Where noise is smaller (epsilon 1) groups of 2: with 1, 2, 3 there are 0.72 to 0.84, 0.39, 0.28 to 0.38 on places of
# Asia, Africa and South America, and cells are off by 0.9, 1.0, 1.1 times as far as the first version's.
GROUP, GROUP_OF_POINTS = 3, 2
# On a map with few records squares that were not measured hold groups of 2, too: else they hold one person each, and so
# do cells. With groups of 3 in cells alone there are 0.8 to 1.0 of the first version's cells without people, with these
# 0.4 to 0.5, and the mean is 5 to 7 % further off (chosen with `squares.FEW_SHARE`).
GROUP_IN_SQUARES = 2


def repair(measured: MeasuredTable, *, rng: Rng) -> Integers:
    """Make the published table, by leaf: whole numbers, not negative, every level adding up to the one above.

    The total is the exact one, or its best estimate.
    """
    layout, total = measured.layout, measured.published_total
    if isinstance(layout, TreeLayout):
        visited = Visited(tree=layout.tree, noises=measured.noises if layout.tree.steps else ())
        return visited.share_out(list(measured.noisy) if layout.tree.steps else [], total=total, rng=rng)
    if not isinstance(layout, SquareLayout):
        raise AssertionError("a table is a map, or has the levels of its attributes")
    if not layout.usual_sides or measured.is_thin or isinstance(measured.squares, LinkedSquares):
        return _repair_map(measured, layout, total, rng=rng)
    usual = lay_out(layout.schema, layout.usual_sides)
    leaves = _repair_map(_leave_out_between(measured, layout, usual), usual, total, rng=rng)
    return _renumber(leaves, usual, layout, layout.sides[-1])


def _repair_map(measured: MeasuredTable, layout: SquareLayout, total: int, *, rng: Rng) -> Integers:
    """Share people out from the largest squares to the cells, learn from the cells, and share out once more."""
    squares = measured.squares
    tree = squares.moved if isinstance(squares, LinkedSquares) else squares
    descent, cells = _Descent(measured=measured, layout=layout, rng=rng), layout.sides.index(1)
    top: Integers = np.array([total], dtype=np.int64)
    if not cells:
        return descent.share_out(top, tree, range(len(layout.sizes)))
    above = descent.share_out(top, tree, range(cells))
    guess = _guess_cells(measured, layout, _find_rows(tree, cells, above), above)
    above = descent.share_out(top, _learn_from_cells(tree, cells, guess), range(cells))
    rows = _find_rows(tree, cells, above)
    above = descent.round(rows, _settle_cells(measured, layout, rows, guess))
    return descent.share_out(above, tree, range(cells + 1, len(layout.sizes)))


def _leave_out_between(measured: MeasuredTable, layout: SquareLayout, usual: SquareLayout) -> MeasuredTable:
    """Take the levels of the usual sides alone: on a map that is not thin the others have next to nothing to tell."""
    levels = [layout.sides.index(side) for side in usual.sides]
    rule = measured.rule
    if rule is not None:
        kept = [level - rule.level - 1 for level in levels if level > rule.level]
        noises, classes = (
            tuple(tuple(own[place] for place in kept) for own in given) for given in (rule.noises, rule.few_classes)
        )
        rule = dataclasses.replace(
            rule,
            level=levels.index(rule.level),
            noises=noises,
            faint=(),
            few_noises=tuple(tuple(own[level] for level in levels) for own in rule.few_noises),
            few_classes=classes,
        )
    return MeasuredTable(
        layout=usual,
        noises=tuple(measured.noises[level] for level in levels),
        noisy=tuple(_renumber(measured.noisy[level], layout, usual, layout.sides[level]) for level in levels),
        total=measured.total,
        total_variance=measured.total_variance,
        rule=rule,
        crowded=measured.crowded,
    )


def _renumber(values: Integers, own: SquareLayout, other: SquareLayout, side: int) -> Integers:
    """Put the values of the squares of a side in the order of another layout of the same map."""
    found = np.zeros(other.sizes[other.sides.index(side)], dtype=np.int64)
    found[other.nodes_of_places(side)] = values[own.nodes_of_places(side)]
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """Children of the nodes of a level: their estimates, variances (0: holds nobody), and what they add up to.

    There is a row for every node that holds people; `nodes` are their places among all nodes of the level above.
    """

    level: int
    nodes: Codes
    values: Reals
    weights: Reals
    totals: Reals
    above: int

    def take(self, places: Codes) -> _Rows:
        if len(places) == len(self.totals):
            return self
        return dataclasses.replace(
            self,
            nodes=self.nodes[places],
            values=self.values[places],
            weights=self.weights[places],
            totals=self.totals[places],
        )

    @property
    def children(self) -> Codes:
        """The first child of every node."""
        first: Codes = self.nodes * self.values.shape[1]
        return first

    def consistent(self) -> Reals:
        """Share what is missing to the total by variance: the unbiased estimate given the total."""
        spread = self.weights.sum(axis=1)
        missing = (self.totals - self.values.sum(axis=1)) / np.maximum(spread, 1e-300)
        shifted: Reals = self.values + missing[:, None] * self.weights
        return shifted


def _find_rows(tree: LeastSquares, level: int, above: Integers) -> _Rows:
    """The children of the nodes that hold people, with their estimates before anything is shared out."""
    noisy, variance = (values.reshape(len(above), -1) for values in tree.before_sharing(level))
    nodes = np.flatnonzero(above > 0)
    if len(nodes) < len(above):
        noisy, variance = noisy[nodes], variance[nodes]
    totals = above[nodes].astype(np.float64)
    return _Rows(level=level, nodes=nodes, values=noisy, weights=variance, totals=totals, above=len(above))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Descent:
    """Sharing people out from level to level."""

    measured: MeasuredTable
    layout: SquareLayout
    rng: Rng

    def share_out(self, above: Integers, tree: LeastSquares, levels: Sequence[int]) -> Integers:
        """Share people out among the nodes of some levels, one below the other."""
        for level in levels:
            rows = _find_rows(tree, level, above)
            above = self.round(rows, self._estimate(rows, above))
        return above

    def round(self, rows: _Rows, point: Reals) -> Integers:
        """Round rows to whole numbers that add up; the numbers of all nodes of the level."""
        shared = np.zeros((rows.above, point.shape[1]), dtype=np.int64)
        if rows.nodes.size:
            ties = draw_words(point.size, rng=self.rng).reshape(point.shape) / 2.0**64 + 0.5
            found = round_rows(point, rows.totals, ties, rows.weights > 0)
            faint, group = _find_faint(self.measured, rows), _find_group(self.measured, self.layout, rows.level)
            if faint.size and group > 1:
                is_open = rows.weights[faint] > 0
                found[faint] = _round_to_few(point[faint], rows.totals[faint], ties[faint], is_open, group=group)
            shared[rows.nodes] = found
        return shared.ravel()

    def _estimate(self, rows: _Rows, above: Integers) -> Reals:
        """Estimate squares, or other attributes in a cell, that are not negative and add up."""
        if not rows.nodes.size:
            return rows.values
        if rows.level and not self.layout.sides[rows.level]:
            return self._estimate_in_cells(rows)
        usual = self.layout.usual_sides or self.layout.sides
        is_pulled = self.layout.sides[rows.level] >= usual[0] or self.measured.is_few
        consistent = _pull_to_even(self.layout, rows, is_few=self.measured.is_few) if is_pulled else rows.consistent()
        point = project_in_metric(consistent, rows.weights, rows.totals)
        faint = _find_faint(self.measured, rows)
        if faint.size:
            point[faint] = _expect_by_area(self.layout, rows, above)[faint]
        if self._is_combined(rows.level):
            classes = self.measured.classes_of(rows.level, rows.children)
            thin = np.unique(classes[classes < COMBINED_CLASSES]).tolist()
            expected = (
                _expect_on_map(self.layout, rows, consistent, above, variance=rows.weights) if thin else consistent
            )
            for number in thin:
                chosen, noise = np.flatnonzero(classes == number), self.measured.noises_by_class(rows.level)[number]
                point[chosen] = _settle_squares(rows.take(chosen), consistent[chosen], expected[chosen], noise)
        return point

    def _is_combined(self, level: int) -> bool:
        """Tell whether squares of a level are combined with what is around them where people are few."""
        is_last = self.layout.sides[level] == self.layout.map_sides[-2] if len(self.layout.map_sides) > 1 else False
        is_divided = self.measured.rule is not None and not self.measured.is_few
        return is_divided and self.layout.has_thin_squares and is_last

    def _estimate_in_cells(self, rows: _Rows) -> Reals:
        """Combine other attributes in a cell with how they are divided in the largest square around it."""
        expected = _expect_in_cells(self.measured, self.layout, rows)
        consistent, point = rows.consistent(), np.empty_like(rows.values)
        for number, noise, chosen in _by_class(self.measured, rows):
            part, own = rows.take(chosen), consistent[chosen]
            found = _combine(part, own, expected[chosen], noise.variance, noise)
            means, spreads = (array.reshape(own.shape) for array in (found.mean, found.variance))
            bound = _find_bound(self.measured, rows.level, number)
            kept = _find_kept(part.weights > 0, means, bound, LEAST_HELD_IN_CELLS)
            point[chosen] = _settle_rows(part, own, means, spreads, kept, noise.variance)
        return point


def _pull_to_even(layout: SquareLayout, rows: _Rows, *, is_few: bool) -> Reals:
    """Pull squares to even shares where most of what tells them apart is noise, or records are few; else leave them."""
    consistent, is_open = rows.consistent(), rows.weights > 0
    cells = layout.possible_cells[rows.level].reshape(rows.above, -1)[rows.nodes]
    even = rows.totals[:, None] * cells / np.maximum(cells.sum(axis=1, keepdims=True), 1)
    variance = rows.weights * (1 - rows.weights / np.maximum(rows.weights.sum(axis=1, keepdims=True), 1e-300))
    spread = np.zeros_like(consistent)
    estimate = estimate_faint_spread if is_few else estimate_spread
    spread[is_open] = estimate(even[is_open], (consistent - even)[is_open] ** 2, variance[is_open])
    known = np.divide(spread, spread + variance, out=np.ones_like(spread), where=spread + variance > 0)
    return np.where(is_few | (known < MOSTLY_NOISE), even + known * (consistent - even), consistent)


def _settle_squares(rows: _Rows, consistent: Reals, expected: Reals, noise: CountNoise) -> Reals:
    """Combine small squares of thin places with their expectations; none is set to 0."""
    is_open = rows.weights > 0
    variance = float(rows.weights[is_open].mean())
    found = _combine(rows, consistent, expected, variance, noise)
    mean, spread = found.mean.reshape(consistent.shape), found.variance.reshape(consistent.shape)
    return project_in_metric(mean, np.where(is_open, spread + LEAST_WEIGHT * variance, 0.0), rows.totals)


def _by_class(measured: MeasuredTable, rows: _Rows) -> list[tuple[int, CountNoise, Codes]]:
    """List the classes of density with their noise and their rows."""
    classes, noises = measured.classes_of(rows.level, rows.children), measured.noises_by_class(rows.level)
    found = [(number, noise, np.flatnonzero(classes == number)) for number, noise in enumerate(noises)]
    return [(number, noise, chosen) for number, noise, chosen in found if chosen.size]


# --- cells ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _CellGuess:
    """Cells given their noise and their surroundings, a row for every square: means and variances.

    `sums` and `variances` are what the cells alone tell of the sum of every square.
    """

    means: Reals
    spreads: Reals
    sums: Reals
    variances: Reals


def _guess_cells(measured: MeasuredTable, layout: SquareLayout, rows: _Rows, above: Integers) -> _CellGuess:
    """Combine cells with their surroundings, and find what they tell of the sums of their squares.

    Squares without people have cells of 0, and their sums stay as they were measured (an infinite variance).
    """
    shape = (rows.above, rows.values.shape[1])
    means, spreads = np.zeros(shape), np.zeros(shape)
    sums, variances = np.zeros(rows.above), np.full(rows.above, np.inf)
    if rows.nodes.size:
        noises, classes = measured.noises_by_class(rows.level), measured.classes_of(rows.level, rows.children)
        variance = np.array([noise.variance for noise in noises])[classes][:, None]
        consistent = rows.consistent()
        expected = _expect_on_map(layout, rows, consistent, above, variance=variance)
        faint = _find_faint(measured, rows)
        if faint.size:
            means[rows.nodes[faint]] = _expect_by_area(layout, rows, above)[faint]
            spreads[rows.nodes[faint]] = means[rows.nodes[faint]]
        for number, noise, chosen in _by_class(measured, rows):
            if measured.is_faint(rows.level, number):
                continue
            part, nodes = rows.take(chosen), rows.nodes[chosen]
            known = float(part.weights[part.weights > 0].mean())  # with other attributes in a cell less than its noise
            found = _combine(part, consistent[chosen], expected[chosen], known, noise)
            means[nodes], spreads[nodes] = (array.reshape(part.values.shape) for array in (found.mean, found.variance))
            sums[nodes], variances[nodes] = _tell_sums(part, consistent[chosen], found, known)
    return _CellGuess(means=means, spreads=spreads, sums=sums, variances=variances)


def _combine(rows: _Rows, consistent: Reals, expected: Reals, variance: float, noise: CountNoise) -> Posterior:
    """Combine children with their expectations, where there can be people."""
    is_open = rows.weights > 0
    return combine(
        np.where(is_open, consistent, 0.0).ravel(),
        np.where(is_open, expected, 0.0).ravel(),
        variance=variance,
        is_normal=isinstance(noise, GaussianNoise),
    )


def _tell_sums(rows: _Rows, consistent: Reals, found: Posterior, variance: float) -> tuple[Reals, Reals]:
    """What noisy cells tell of the sum of their square: an estimate and its variance, infinite where it is nothing.

    The sum of the cells has a law before its noisy figures are seen and one after it. Both are taken as normal, and the
    first is divided out of the second: with N(P, p) before and N(M, s) after, the noisy cells tell
    (M/s - P/p) / (1/s - 1/p) with variance 1 / (1/s - 1/p). If all cells were normal with one variance that would be
    their noisy sum. The means were made of figures moved to the total of the square; a mean moves by its variance
    in parts of the noise for each unit of its figure, which is taken back.
    """
    shape, is_open = rows.values.shape, rows.weights > 0
    spread = np.where(is_open, found.variance.reshape(shape), 0.0)
    back = np.minimum(spread / variance, 1.0) * np.where(is_open, consistent - rows.values, 0.0)
    after = np.maximum(spread.sum(axis=1), 1e-9)
    before = np.maximum(found.prior_variance.reshape(shape).sum(axis=1), 1e-9)
    mean, prior = found.mean.reshape(shape).sum(axis=1) - back.sum(axis=1), found.prior_mean.reshape(shape).sum(axis=1)
    precision = 1 / after - 1 / before
    is_told = precision * rows.weights.sum(axis=1) > 1.0  # more than the noisy sum itself
    precision = np.where(is_told, precision, 1.0)
    return (
        np.where(is_told, (mean / after - prior / before) / precision, 0.0),
        np.where(is_told, DOUBT / precision, np.inf),
    )


def _learn_from_cells(tree: LeastSquares, cells: int, guess: _CellGuess) -> LeastSquares:
    """The levels above the cells, the last of them joined with what its cells tell, or with their noisy sum."""
    noisy, variance = (values.reshape(len(guess.sums), -1).sum(axis=1) for values in tree.before_sharing(cells))
    is_told = guess.variances < variance
    below, spread = np.where(is_told, guess.sums, noisy), np.where(is_told, guess.variances, variance)
    own = np.asarray(tree.variances[cells - 1], dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        surer = np.where(own > 0, spread / own, 0.0)  # 0 where nobody can be, or nothing was measured
    joined = (surer * np.where(np.isfinite(own), tree.noisy[cells - 1], 0.0) + below) / (1 + surer)
    return dataclasses.replace(
        tree,
        parents=tree.parents[:cells],
        noisy=[*tree.noisy[: cells - 1], joined],
        variances=[*tree.variances[: cells - 1], spread / (1 + surer)],
    )


def _settle_cells(measured: MeasuredTable, layout: SquareLayout, rows: _Rows, guess: _CellGuess) -> Reals:
    """Make cells of their means: not negative, adding up to their squares, faint ones 0."""
    least_held = LEAST_HELD_ON_LARGE_MAPS if layout.has_thin_squares else LEAST_HELD
    consistent, point = rows.consistent(), np.empty_like(rows.values)
    is_whole = len(rows.nodes) == rows.above
    means, spreads = (each if is_whole else each[rows.nodes] for each in (guess.means, guess.spreads))
    for number, noise, chosen in _by_class(measured, rows):
        if measured.is_faint(rows.level, number):
            point[chosen] = _settle_faint(rows.take(chosen), means[chosen])
            continue
        bound = _find_bound(measured, rows.level, number)
        kept = _find_kept(rows.weights[chosen] > 0, means[chosen], bound, _hold_at_least(least_held, noise))
        point[chosen] = _settle_rows(
            rows.take(chosen), consistent[chosen], means[chosen], spreads[chosen], kept, noise.variance
        )
    return point


def _settle_faint(rows: _Rows, means: Reals) -> Reals:
    """Give cells that were hardly measured their part of what their square holds."""
    whole = np.maximum(means.sum(axis=1), 1e-300)
    return np.where(rows.weights > 0, means * (rows.totals / whole)[:, None], 0.0)


def _find_group(measured: MeasuredTable, layout: SquareLayout, level: int) -> int:
    """How many people stand together in cells that were not measured, or in such squares of a map with few records."""
    if layout.sides[level] > 1:
        return GROUP_IN_SQUARES if measured.is_few else 1
    return GROUP if measured.rule is None or measured.rule.crowded_noise is None else GROUP_OF_POINTS


def _round_to_few(point: Reals, totals: Reals, ties: Reals, is_open: Booleans, *, group: int) -> Integers:
    """Round cells that were not measured to groups of people, so that fewer are published; the rest joins the largest.

    Which cells get a group is drawn, by what they should hold (Efraimidis, Spirakis 2006): the largest of squares would
    lie on a lattice, since the densities between squares fall the same way in neighbouring ones. `ties` are uniform in
    [0.5, 1.5).

    >>> even, ties = np.full((1, 4), 1.75), np.array([[0.6, 0.9, 0.8, 0.7]])
    >>> _round_to_few(even, np.array([7.0]), ties, np.ones((1, 4), dtype=bool), group=3).tolist()
    [[0, 4, 3, 0]]
    """
    groups = np.floor(totals / group)
    wanted = point * (groups / np.maximum(totals, 1.0))[:, None]
    sure = np.floor(wanted + 1e-9)
    drawn = np.maximum(ties - 0.5, 1e-12) ** (1 / np.clip(wanted - sure, 1e-9, 1.0))
    whole = round_rows(sure + 0.999 * drawn, groups, ties, is_open) * group
    largest = np.where(is_open, whole + ties, -1.0).argmax(axis=1)
    whole[np.arange(len(whole)), largest] += (totals - groups * group).astype(np.int64)
    return whole


def _settle_rows(
    rows: _Rows, consistent: Reals, means: Reals, spreads: Reals, is_kept: Booleans, variance: float
) -> Reals:
    """Move rows to their totals: large cells beside a giant keep their figures, cells that are not kept become 0.

    Where no cell stands out, people of the cells that become 0 go to the kept ones in equal parts: that moves them the
    least. Elsewhere cells take what is missing by their variances.
    """
    is_open, deviation = rows.weights > 0, math.sqrt(variance)
    weights = np.where(is_open, spreads + LEAST_WEIGHT * variance, 0.0)
    largest = np.where(is_open, consistent, 0.0).max(axis=1)
    is_plain = is_kept & (largest > GIANT_DEVIATIONS * deviation)[:, None] & (consistent > PLAIN_DEVIATIONS * deviation)
    is_even = largest < EVEN_DEVIATIONS * deviation
    weights = np.where(is_even[:, None] | is_kept, weights, 0.0)
    point = project_in_metric(
        np.where(is_plain, consistent, means), np.where(is_plain, rows.weights, weights), rows.totals
    )
    point *= is_kept
    missing = np.where(is_even, rows.totals - point.sum(axis=1), 0.0) / np.maximum(is_kept.sum(axis=1), 1)
    point += missing[:, None] * is_kept
    return point


# --- which cells become 0 -------------------------------------------------------------------------------------------


def _find_bound(measured: MeasuredTable, level: int, number: int) -> float:
    """What a cell of a class of density should hold to be kept."""
    noises = measured.noises_by_class(level)
    deviation, classes = math.sqrt(noises[number].variance), min(len(noises), 6)
    return KEPT_DEVIATIONS[classes][number % classes] * deviation + KEPT_PEOPLE[classes][number % classes]


def _hold_at_least(least_held: tuple[float, float], noise: CountNoise) -> float:
    """The part of a row that is kept at least: more where the noise of a cell is of many people."""
    few, many = math.log(FEW_PEOPLE), math.log(MANY_PEOPLE)
    along = (0.5 * math.log(max(noise.variance, 1.0)) - few) / (many - few)
    return least_held[0] + (least_held[1] - least_held[0]) * min(max(along, 0.0), 1.0)


def _find_kept(is_open: Booleans, means: Reals, bound: float, least_held: float) -> Booleans:
    """Tell which cells are kept: those that hold the bound, or less, until so large a part of the row is kept.

    >>> every = np.ones((2, 4), dtype=bool)
    >>> _find_kept(every, np.array([[0.0, 1.0, 2.0, 2.5], [0.0, 0.0, 9.0, 1.0]]), 3.0, 0.55).astype(int).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 0]]
    """
    bounds, whole = np.full(len(means), bound), means.sum(axis=1)
    held = np.einsum("ij,ij->i", means, means >= bound)
    thin = np.flatnonzero((held < least_held * whole) | (whole <= 0))
    if thin.size:
        falling = -np.sort(-means[thin], axis=1)
        held = falling.cumsum(axis=1)
        last = (held < least_held * held[:, -1:]).sum(axis=1)
        bounds[thin] = np.minimum(bound, 0.999 * falling[np.arange(thin.size), last])
    kept: Booleans = is_open & (means >= bounds[:, None])
    return kept


# --- expectations ---------------------------------------------------------------------------------------------------


def _find_faint(measured: MeasuredTable, rows: _Rows) -> Codes:
    """List the rows whose children were as good as not measured."""
    noises = measured.noises_by_class(rows.level)
    is_faint = np.array([measured.is_faint(rows.level, number) for number in range(len(noises))])
    return np.flatnonzero(is_faint[measured.classes_of(rows.level, rows.children)])


def _expect_on_map(layout: SquareLayout, rows: _Rows, consistent: Reals, above: Integers, *, variance: Reals) -> Reals:
    """Expect cells, or small squares, from the densities around: between squares, and in two rings of neighbours."""
    is_open, level = rows.weights > 0, rows.level
    leaf = (rows.children[:, None] + np.arange(rows.values.shape[1])).ravel()[is_open.ravel()]
    grid, base = _find_grid(layout, leaf, level), _expect_by_area(layout, rows, above)
    rings = grid.ring_means(consistent[is_open])
    expected = np.zeros_like(base)
    noise = np.broadcast_to(variance, base.shape)[is_open]
    expected[is_open] = expect_from_neighbours(consistent[is_open], base[is_open], rings, variance=noise)
    expected *= (rows.totals / expected.sum(axis=1))[:, None]
    return expected


def _expect_by_area(layout: SquareLayout, rows: _Rows, above: Integers) -> Reals:
    """Expect cells, or small squares, from the densities of the squares above, in lines between their middles."""
    is_open, level = rows.weights > 0, rows.level
    leaf = (rows.children[:, None] + np.arange(rows.values.shape[1])).ravel()[is_open.ravel()]
    grid, side = _find_grid(layout, leaf, level), layout.sides[level]
    even = (rows.totals / np.maximum(layout.possible_cells[level - 1][rows.nodes], 1))[:, None]
    base = np.zeros_like(rows.values)
    if not layout.is_hexagonal:  # the parents of hexagons lie on no rectangle of their own: an even share
        base[is_open] = grid.interpolate(_find_density(layout, level - 1, above), layout.sides[level - 1] // side)
    base = np.where(is_open, base + (1.0 if layout.is_hexagonal else AREA_PART) * even, 0.0)
    if side > 1:  # squares on an edge have fewer cells
        base[is_open] *= layout.possible_cells[level][leaf]
    base *= (rows.totals / base.sum(axis=1))[:, None]
    return base


def _find_density(layout: SquareLayout, level: int, above: Integers) -> Reals:
    """People per possible cell of the squares of a level, on a rectangle; 0 where no cell can be."""
    side, held = layout.sides[level], layout.possible_cells[level]
    height, width = int(layout.rows.max()) + 1, int(layout.columns_east.max()) + 1
    density = np.zeros((-(-height // side), -(-width // side)))
    first = layout.first_places(level)
    density[layout.rows[first] // side, layout.columns_east[first] // side] = (above / np.maximum(held, 1))[held > 0]
    return density


def _find_grid(layout: SquareLayout, nodes: Integers, level: int) -> MapGrid:
    """Place squares or cells of a level of the map on a rectangle of squares of their size."""
    side = layout.sides[level]
    height, width = int(layout.rows.max()) // side + 1, int(layout.columns_east.max()) // side + 1
    places = layout.place_of_leaf if side == 1 else layout.place_of_leaf.reshape(layout.sizes[level], -1).max(axis=1)
    place = places[nodes]
    index = layout.rows[place] // side * width + layout.columns_east[place] // side
    return MapGrid(height=height, width=width, index=index)


def _expect_in_cells(measured: MeasuredTable, layout: SquareLayout, rows: _Rows) -> Reals:
    """Expect combinations of other attributes in a cell as they are in the largest square around it."""
    level, active = rows.level, rows.nodes
    estimates = measured.squares.estimates[level]
    by_square = np.maximum(estimates, 0.0).reshape(layout.sizes[0], -1, rows.values.shape[1])
    mix = by_square.sum(axis=1) + 1e-9
    cells_a_square = layout.sizes[level - 1] // layout.sizes[0]
    is_open: Booleans = rows.weights > 0
    expected = np.where(is_open, mix[active // cells_a_square], 0.0)
    expected *= (rows.totals / expected.sum(axis=1))[:, None]
    return expected
