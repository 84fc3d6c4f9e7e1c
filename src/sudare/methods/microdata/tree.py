"""The tree over a table: attributes in their order, each opened level by level from its coarsest group."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.methods.budget import CountBudget
from sudare.methods.microdata.projection import possible_cells
from sudare.noise import CountNoise, GaussianNoise, Rng, geometric_variance
from sudare.postprocess import round_by_remainder
from sudare.postprocess.shrinkage import estimate_group_totals, estimate_posterior_means, estimate_spread
from sudare.postprocess.simplex import project_rows
from sudare.schema import Attribute, Schema
from sudare.schema.arrays import Codes, Integers, Reals

TreeNumber = TypeVar("TreeNumber", np.float64, np.int64)

NEIGHBOURS = 10  # an ordered attribute without hierarchy is grouped by tens of neighbouring codes


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Stage:
    """One step down: the children of `parents`, the same within every one of `prefixes` cells of earlier attributes.

    `parents[child]` is the local code of its parent; `is_long` marks a long row without order among its children.
    """

    prefixes: int
    parents: Codes
    is_long: bool

    @property
    def children(self) -> int:
        """Local number of children."""
        return int(self.parents.size)

    @property
    def groups(self) -> int:
        """Local number of parents."""
        return int(self.parents.max()) + 1

    def rows(self) -> list[Codes]:
        """Children by parent, in tables of rows of similar length, padded with -1 (at most to double)."""
        order = np.argsort(self.parents, kind="stable")
        fan = np.bincount(self.parents)
        starts = np.cumsum(fan) - fan
        classes = np.ceil(np.log2(np.maximum(fan, 1))).astype(np.int64)
        return [_padded(order, starts[classes == one], fan[classes == one]) for one in np.unique(classes)]

    def add_up(self, values: NDArray[TreeNumber]) -> NDArray[TreeNumber]:
        """Sum children to their parents: (prefixes, children) -> (prefixes, groups); whole numbers stay whole."""
        order = np.argsort(self.parents, kind="stable")
        starts = np.searchsorted(self.parents[order], np.arange(self.groups))
        sums: NDArray[TreeNumber] = np.add.reduceat(values[:, order], starts, axis=1)
        return sums


LONG_ROW = 48  # children of a group, without order: so many are explained by a prior that is learned from them


def stages(schema: Schema) -> list[Stage]:
    """List the steps from the whole table to its cells.

    >>> from sudare.schema import Unit, Values
    >>> item = Attribute(name="item", domain=Values(values=tuple(map(str, range(100))), is_ordered=True))
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> [stage.children for stage in stages(Schema(name="s", unit=Unit(), attributes=(item, sex)))]
    [10, 100, 2]
    """
    found: list[Stage] = []
    prefixes = 1
    for attribute in schema.attributes:
        for parents in reversed(_climb(attribute)):
            longest = int(np.bincount(parents).max())
            found.append(
                Stage(prefixes=prefixes, parents=parents, is_long=longest >= LONG_ROW and not attribute.is_ordered)
            )
        prefixes *= attribute.size
    return [stage for stage in found if stage.children > stage.groups]


def _climb(attribute: Attribute) -> list[Codes]:
    """Parents of the codes at every level, from the values up to one group."""
    steps = _declared(attribute) if attribute.hierarchy is not None else []
    size = int(steps[-1].max()) + 1 if steps else attribute.size
    while attribute.is_ordered and size > NEIGHBOURS:
        steps.append(np.arange(size, dtype=np.int64) // NEIGHBOURS)
        size = int(steps[-1][-1]) + 1
    if size > 1:
        steps.append(np.zeros(size, dtype=np.int64))
    return steps


def _declared(attribute: Attribute) -> list[Codes]:
    """Local parents along the declared hierarchy; groups are numbered as the hierarchy numbers them."""
    hierarchy = attribute.hierarchy
    if hierarchy is None:
        return []
    values = np.arange(attribute.size, dtype=np.int64)
    levels = [values, *(hierarchy.lift(values, level) for level in range(1, hierarchy.height + 1))]
    return [_parents(finer, coarser) for finer, coarser in itertools.pairwise(levels)]


def _parents(finer: Codes, coarser: Codes) -> Codes:
    parents = np.empty(int(finer.max()) + 1, dtype=np.int64)
    parents[finer] = coarser
    return parents


def _padded(order: Codes, starts: Codes, fan: Codes) -> Codes:
    places = starts[:, None] + np.arange(int(fan.max()))
    inside = np.arange(int(fan.max())) < fan[:, None]
    return np.where(inside, order[np.minimum(places, order.size - 1)], -1)


# Better than the nearest table at the same epsilon: the noisy table is explained from its totals down.
#
# Measured are the paper's noisy cells, and in some shapes of table a few large groups; the rest is post-processing.
# Sums of many cells are known well, single cells badly. So the table is opened from the top: a parent's records are
# shared out evenly, and the noisy children move their share only as far as noise alone would not explain.


MOST_GROUPS = 64  # first groups that are measured themselves
LEAST_MEMBERS = 64  # cells a first group needs for its own measurement to pay
SUMS_SHARE = Fraction(1, 25)  # of epsilon, for the sums of the first groups
LEAST_VARIANCE = geometric_variance(1)  # that of epsilon 2: below, cells are known so well that nothing is taken
MOST_WEIGHED = 2**20  # cells that are weighed one by one for the sums of a long row: some 50 numbers each
MOST_LONG_ROWS = 64  # a long row is explained by a prior of its own; beyond so many rows that costs too much


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCells:
    """The measurements: every possible cell in the order of the codes, the first groups if measured, the total."""

    cells: Integers
    groups: Integers | None
    total: int


def measure_cells(counts: Counts, budget: CountBudget, *, total: int, rng: Rng) -> NoisyCells:
    """Add noise to every possible cell, and to the sums of the first groups where the budget has a part for them.

    Guarantee: DP with `budget.cells_part` + `budget.sums_part`, given a total that is public or already noisy.
    """
    cells, dense = possible_cells(counts.schema), counts.dense()
    noisy = budget.cells_noise.add(dense if cells is None else dense[cells], rng=rng)
    groups = None if budget.sums_noise is None else measure_groups(dense, counts.schema, budget.sums_noise, rng)
    return NoisyCells(cells=noisy, groups=groups, total=total)


def grow(counts: Counts, budget: CountBudget, *, total: int, rng: Rng) -> Counts:
    """Noise in every possible cell, then the tree, then whole numbers.

    Source: the paper's noisy table; shrinkage after Robbins 1956 and Efron, Morris 1973; rows after Hay et al. 2010.
    """
    return grow_measured(counts.schema, measure_cells(counts, budget, total=total, rng=rng), budget, rng=rng)


def grow_measured(schema: Schema, noisy: NoisyCells, budget: CountBudget, *, rng: Rng) -> Counts:
    """Make the table from what was measured: no private number is near."""
    cells, steps = possible_cells(schema), stages(schema)
    groups = None if noisy.groups is None else noisy.groups.astype(np.float64)
    explained = explain(_whole(noisy.cells, cells, schema.size), groups, cells, steps, noisy.total, budget)
    table = round_by_remainder(explained, total=noisy.total, rng=rng)
    kept = np.flatnonzero(table)
    return Counts.build(schema, kept[:, None], table[kept])


def share_of_sums(schema: Schema, noise: CountNoise) -> Fraction:
    """Decide from public facts whether the first groups get a small share of epsilon of their own.

    `noise` is that of a cell if all is spent on cells and a row is replaced.

    A first group's sum is otherwise known only through its many noisy cells. With few groups of many cells the share
    costs cells 4 % more noise and takes up to half the error off sums over long ranges (papers/terada2017).
    """
    if noise.variance < LEAST_VARIANCE or schema.size < 2 * LEAST_MEMBERS:
        return Fraction(0)
    first = stages(schema)[0]
    pays = not first.is_long and first.children <= MOST_GROUPS and schema.size >= LEAST_MEMBERS * first.children
    return SUMS_SHARE * pays


def first_groups(schema: Schema) -> Codes:
    """Tell for every cell, in the order of the codes, which of the first groups it lies in."""
    first = stages(schema)[0]
    owner = np.arange(first.children, dtype=np.int64)
    for stage in stages(schema)[1:]:
        if stage.prefixes == 1:  # a lower level of the same attribute
            owner = owner[stage.parents]
    return np.repeat(owner, schema.size // owner.size)


def measure_groups(exact: Integers, schema: Schema, noise: CountNoise, rng: Rng) -> Integers:
    """Noise in the sums of the first groups, in integers."""
    sums = exact
    for stage in reversed(stages(schema)[1:]):
        sums = stage.add_up(sums.reshape(stage.prefixes, stage.children))
    return noise.add(sums.ravel(), rng=rng)


def explain(
    noisy: Reals, groups: Reals | None, cells: Integers | None, steps: list[Stage], total: int, budget: CountBudget
) -> Reals:
    """Up: add noisy cells to sums. Down: share every parent out among its children, row by row."""
    sums = _climb_levels(noisy, steps)
    room = _climb_levels(_whole(np.ones(noisy.size if cells is None else cells.size), cells, noisy.size), steps)
    noise = [budget.cells_noise.variance * places for places in room]
    if groups is not None and budget.sums_noise is not None:
        own = budget.sums_noise.variance
        sums[1], noise[1] = _combine(sums[1].ravel(), noise[1].ravel(), groups, own)
    density = CellDensity(
        scale=math.sqrt(budget.cells_noise.variance / 2), is_gaussian=isinstance(budget.cells_noise, GaussianNoise)
    )
    estimate = np.array([[float(total)]])
    for position, stage in enumerate(steps):
        below = _cells_below(noisy, cells, steps, position)
        level = _Level(sums[position + 1], noise[position + 1], room[position + 1], room[position], density, below)
        estimate = _open(stage, estimate.reshape(stage.prefixes, -1), level)
    return estimate.ravel()


def _combine(sums: Reals, noise: Reals, groups: Reals, own: float) -> tuple[Reals, Reals]:
    """Two measurements of one number: weighted by the inverse of their variances."""
    weight = noise / (noise + own)
    return sums + weight * (groups - sums), noise * own / (noise + own)


@dataclass(frozen=True, slots=True)
class CellDensity:
    """The noise of a cell, as if it were not whole: Laplace of a scale, or Gaussian of the same deviation."""

    scale: float
    is_gaussian: bool


@dataclass(frozen=True, slots=True)
class _Level:
    """What is known of the children of a step: noisy sums, their variances, and how many possible cells they hold."""

    noisy: Reals
    noise: Reals
    room: Reals
    parent_room: Reals
    density: CellDensity
    cells: Reals | None  # (prefix, child, cell of the child), where they are few enough to be looked at one by one


def _climb_levels(cells: Reals, steps: list[Stage]) -> list[Reals]:
    """Sums at every level, from one number down to the cells; entry i + 1 holds the children of step i."""
    levels = [cells]
    for stage in reversed(steps):
        levels.append(stage.add_up(levels[-1].reshape(stage.prefixes, stage.children)))
    return levels[::-1]


def _open(stage: Stage, parents: Reals, level: _Level) -> Reals:
    """Share parents out: even split, plus the part of each child's surprise that is not noise."""
    shape = (stage.prefixes, stage.children)
    noisy, noise, room = level.noisy.reshape(shape), level.noise.reshape(shape), level.room.reshape(shape)
    share = room / np.maximum(level.parent_room.reshape(stage.prefixes, stage.groups), 1.0)[:, stage.parents]
    if stage.is_long and stage.prefixes * stage.groups <= MOST_LONG_ROWS:
        target = _explain_long(noisy, room, level.density, level.cells, parents)
    else:
        target = _shrink(stage, parents, noisy, noise, share)
    children = np.empty_like(noisy)
    for rows in stage.rows():
        padded = np.where((rows >= 0) & (room[:, rows] > 0), target[:, rows], -np.inf)
        owners = stage.parents[rows[:, 0]]
        flat = project_rows(padded.reshape(-1, rows.shape[1]), parents[:, owners].ravel())
        children[:, rows[rows >= 0]] = flat.reshape(padded.shape)[:, rows >= 0]
    return children


def _shrink(stage: Stage, parents: Reals, noisy: Reals, noise: Reals, share: Reals) -> Reals:
    mean = share * parents[:, stage.parents]
    surprise = noisy - share * stage.add_up(noisy)[:, stage.parents]
    free = np.maximum(1.0 - share, 1e-12)  # an only child has no surprise
    is_open = (share > 0) & (share < 1)
    slack = np.zeros_like(mean)
    slack[is_open] = estimate_spread(mean[is_open], (surprise**2 / free)[is_open], noise[is_open])
    return mean + slack / np.maximum(slack + noise, 1e-300) * surprise


def _explain_long(noisy: Reals, room: Reals, density: CellDensity, cells: Reals | None, parents: Reals) -> Reals:
    """Estimate the children of long rows by a prior of their own; from all their cells where these are known."""
    if cells is not None and parents.shape[1] == 1:
        groups = [
            _explain_groups(group, float(total), density) for group, total in zip(cells, parents[:, 0], strict=True)
        ]
        return np.array(groups)
    target = noisy.copy()
    for row, space in zip(target, room, strict=True):
        for size in np.unique(space[space > 0]):
            row[space == size] = estimate_posterior_means(
                row[space == size], scale=density.scale, terms=int(size), is_gaussian=density.is_gaussian
            )
    return target


def _explain_groups(cells: Reals, total: float, density: CellDensity) -> Reals:
    """Guess the totals of unordered groups: the mean of two guesses whose errors differ.

    The likelihood of all cells has little bias. Where cells are above their noise the nearest table (the paper's) has
    little variance; where they are not, a learned prior has. The mean is nearer than each in L2, and in KS at most as
    far as the paper's, whether or not the groups come in the order of their sizes (papers/terada2017).
    """
    variance = 2 * density.scale**2
    flat, learned = estimate_group_totals(cells, variance=variance, is_gaussian=density.is_gaussian)
    whole = np.array([total])
    if total >= cells.size * math.sqrt(variance):
        other = project_rows(cells.reshape(1, -1), whole).reshape(cells.shape).sum(axis=1)
    else:
        other = project_rows(learned[None, :], whole)[0]
    return np.asarray((project_rows(flat[None, :], whole)[0] + other) / 2)


def _cells_below(noisy: Reals, cells: Integers | None, steps: list[Stage], position: int) -> Reals | None:
    """Arrange noisy cells by the children of a long step; None where these are cells, too many, or some impossible."""
    stage = steps[position]
    children = stage.prefixes * stage.children
    terms = noisy.size // children
    is_value = position + 1 < len(steps) and steps[position + 1].prefixes == children  # not a group of values
    if not stage.is_long or cells is not None or not is_value or terms < 2 or noisy.size > MOST_WEIGHED:
        return None
    return noisy.reshape(stage.prefixes, stage.children, terms)


def _whole(values: NDArray[np.generic], cells: Integers | None, size: int) -> Reals:
    """Cells that cannot hold anybody stand as 0 in the whole table."""
    if cells is None:
        return values.astype(np.float64)
    table = np.zeros(size)
    table[cells] = values
    return table
