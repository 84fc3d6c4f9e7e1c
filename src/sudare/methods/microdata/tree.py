"""Better than the nearest table at the same epsilon: the noisy table is explained from its totals down.

Measured are the paper's noisy cells, and in some shapes of table a few large groups; the rest is post-processing. Sums
of many cells are known well, single cells badly. So the table is opened from the top: a parent's records are shared out
evenly, and the noisy children move their share only as far as noise alone would not explain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.mechanisms import Rng, geometric, geometric_variance
from sudare.methods.microdata.projection import possible_cells
from sudare.methods.microdata.shape import Stage, stages
from sudare.methods.sensitivity import Budget
from sudare.repair import largest_remainder
from sudare.repair.rows import project_rows
from sudare.repair.shrinkage import posterior_mean, spread
from sudare.schema import Schema

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
MOST_GROUPS = 64  # first groups that are measured themselves
LEAST_MEMBERS = 64  # cells a first group needs for its own measurement to pay
SUMS_SHARE = Fraction(1, 25)  # of epsilon, for the sums of the first groups
LARGEST_EPSILON = 2  # beyond, cells are known so well that nothing should be taken from them
MOST_LONG_ROWS = 64  # a long row is explained by a prior of its own; beyond so many rows that costs too much


def grow(counts: Counts, budget: Budget, *, total: int, rng: Rng) -> Counts:
    """Noise in every possible cell, then the tree, then whole numbers.

    Source: the paper's noisy table; shrinkage after Robbins 1956 and Efron, Morris 1973; rows after Hay et al. 2010.
    """
    cells, steps = possible_cells(counts.schema), stages(counts.schema)
    exact = counts.dense() if cells is None else counts.dense()[cells]
    noisy = geometric(exact, epsilon=budget.cells_epsilon, sensitivity=budget.cells_sensitivity, rng=rng)
    groups = None
    if budget.sums_epsilon is not None:
        groups = _measure_groups(counts.dense(), steps, budget.sums_epsilon, budget.cells_sensitivity, rng)
    explained = explain(_whole(noisy, cells, counts.schema.size), groups, cells, steps, total, budget)
    table = largest_remainder(explained, total=total, rng=rng)
    kept = np.flatnonzero(table)
    return Counts.build(counts.schema, kept[:, None], table[kept])


def share_of_sums(schema: Schema, epsilon: Fraction) -> Fraction:
    """Decide from public facts whether the first groups get a small share of epsilon of their own.

    A first group's sum is otherwise known only through its many noisy cells. With few groups of many cells the share
    costs cells 4 % more noise and takes up to half the error off sums over long ranges (papers/terada2017).
    """
    if epsilon > LARGEST_EPSILON or schema.size < 2 * LEAST_MEMBERS:
        return Fraction(0)
    first = stages(schema)[0]
    pays = not first.is_long and first.children <= MOST_GROUPS and schema.size >= LEAST_MEMBERS * first.children
    return SUMS_SHARE * pays


def _measure_groups(exact: Integers, steps: list[Stage], epsilon: Fraction, sensitivity: int, rng: Rng) -> Reals:
    """Noise in the sums of the first groups, in integers."""
    sums = exact
    for stage in reversed(steps[1:]):
        sums = stage.add_up(sums.reshape(stage.prefixes, stage.children))
    return geometric(sums.ravel(), epsilon=epsilon, sensitivity=sensitivity, rng=rng).astype(np.float64)


def explain(
    noisy: Reals, groups: Reals | None, cells: Integers | None, steps: list[Stage], total: int, budget: Budget
) -> Reals:
    """Up: add noisy cells to sums. Down: share every parent out among its children, row by row."""
    sums = _climb(noisy, steps)
    room = _climb(_whole(np.ones(noisy.size if cells is None else cells.size), cells, noisy.size), steps)
    noise = [geometric_variance(budget.cells_scale) * places for places in room]
    if groups is not None and budget.sums_epsilon is not None:
        own = geometric_variance(budget.cells_sensitivity / budget.sums_epsilon)
        sums[1], noise[1] = _combine(sums[1].ravel(), noise[1].ravel(), groups, own)
    scale = math.sqrt(geometric_variance(budget.cells_scale) / 2)
    estimate = np.array([[float(total)]])
    for position, stage in enumerate(steps):
        level = _Level(sums[position + 1], noise[position + 1], room[position + 1], room[position], scale)
        estimate = _open(stage, estimate.reshape(stage.prefixes, -1), level)
    return estimate.ravel()


def _combine(sums: Reals, noise: Reals, groups: Reals, own: float) -> tuple[Reals, Reals]:
    """Two measurements of one number: weighted by the inverse of their variances."""
    weight = noise / (noise + own)
    return sums + weight * (groups - sums), noise * own / (noise + own)


@dataclass(frozen=True, slots=True)
class _Level:
    """What is known of the children of a step: noisy sums, their variances, and how many possible cells they hold."""

    noisy: Reals
    noise: Reals
    room: Reals
    parent_room: Reals
    scale: float  # of a cell's noise, as if Laplace


def _climb(cells: Reals, steps: list[Stage]) -> list[Reals]:
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
        target = _explain_long(noisy, room, level.scale)
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
    slack[is_open] = spread(mean[is_open], (surprise**2 / free)[is_open], noise[is_open])
    return mean + slack / np.maximum(slack + noise, 1e-300) * surprise


def _explain_long(noisy: Reals, room: Reals, scale: float) -> Reals:
    target = noisy.copy()
    for row, space in zip(target, room, strict=True):
        for size in np.unique(space[space > 0]):
            row[space == size] = posterior_mean(row[space == size], scale=scale, terms=int(size))
    return target


def _whole(values: NDArray[np.generic], cells: Integers | None, size: int) -> Reals:
    """Cells that cannot hold anybody stand as 0 in the whole table."""
    if cells is None:
        return values.astype(np.float64)
    table = np.zeros(size)
    table[cells] = values
    return table
