"""Better than the nearest table at the same epsilon: the noisy table is explained from its totals down.

The paper's one noisy table is all that is published; everything here is post-processing of it. Sums of many cells are
known well, single cells badly. So the table is opened from the top: a parent's records are shared out evenly, and the
noisy children move their share only as far as noise alone would not explain.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.mechanisms import Rng, geometric, geometric_variance
from sudare.methods.microdata.projection import possible_cells
from sudare.methods.microdata.sensitivity import Budget
from sudare.methods.microdata.shape import Stage, stages
from sudare.repair import largest_remainder
from sudare.repair.rows import project_rows
from sudare.repair.shrinkage import posterior_mean, spread

Reals = NDArray[np.float64]
MOST_LONG_ROWS = 64  # a long row is explained by a prior of its own; beyond so many rows that costs too much


def grow(counts: Counts, budget: Budget, *, total: int, rng: Rng) -> Counts:
    """Noise in every possible cell, then the tree, then whole numbers.

    Source: the paper's noisy table; shrinkage after Robbins 1956 and Efron, Morris 1973; rows after Hay et al. 2010.
    """
    cells = possible_cells(counts.schema)
    exact = counts.dense() if cells is None else counts.dense()[cells]
    noisy = geometric(exact, epsilon=budget.cells_epsilon, sensitivity=budget.cells_sensitivity, rng=rng)
    explained = explain(_whole(noisy, cells, counts.schema.size), cells, stages(counts.schema), total, budget)
    table = largest_remainder(explained, total=total, rng=rng)
    kept = np.flatnonzero(table)
    return Counts.build(counts.schema, kept[:, None], table[kept])


def explain(noisy: Reals, cells: NDArray[np.int64] | None, steps: list[Stage], total: int, budget: Budget) -> Reals:
    """Up: add noisy cells to sums. Down: share every parent out among its children, row by row."""
    sums = _climb(noisy, steps)
    room = _climb(_whole(np.ones(noisy.size) if cells is None else np.ones(cells.size), cells, noisy.size), steps)
    variance = geometric_variance(budget.cells_scale)
    estimate = np.array([[float(total)]])
    for stage, child, place, parent in zip(steps, sums[1:], room[1:], room[:-1], strict=True):
        estimate = _open(stage, estimate.reshape(stage.prefixes, -1), child, place, parent, variance)
    return estimate.ravel()


def _climb(cells: Reals, steps: list[Stage]) -> list[Reals]:
    """Sums at every level, from one number down to the cells; entry i + 1 holds the children of step i."""
    levels = [cells]
    for stage in reversed(steps):
        levels.append(stage.add_up(levels[-1].reshape(stage.prefixes, stage.children)))
    return levels[::-1]


def _open(stage: Stage, parents: Reals, noisy: Reals, room: Reals, parent_room: Reals, variance: float) -> Reals:
    """Share parents out: even split, plus the part of each child's surprise that is not noise."""
    noisy = noisy.reshape(stage.prefixes, stage.children)
    room = room.reshape(stage.prefixes, stage.children)
    share = room / np.maximum(parent_room.reshape(stage.prefixes, stage.groups), 1.0)[:, stage.parents]
    if stage.is_long and stage.prefixes * stage.groups <= MOST_LONG_ROWS:
        target = _explain_long(noisy, room, math.sqrt(variance / 2))
    else:
        target = _shrink(stage, parents, noisy, room, share, variance)
    children = np.empty_like(noisy)
    for rows in stage.rows():
        padded = np.where((rows >= 0) & (room[:, rows] > 0), target[:, rows], -np.inf)
        owners = stage.parents[rows[:, 0]]
        flat = project_rows(padded.reshape(-1, rows.shape[1]), parents[:, owners].ravel())
        children[:, rows[rows >= 0]] = flat.reshape(padded.shape)[:, rows >= 0]
    return children


def _shrink(stage: Stage, parents: Reals, noisy: Reals, room: Reals, share: Reals, variance: float) -> Reals:
    mean = share * parents[:, stage.parents]
    surprise = noisy - share * stage.add_up(noisy)[:, stage.parents]
    free = np.maximum(1.0 - share, 1e-12)  # an only child has no surprise
    is_open = (share > 0) & (share < 1)
    noise = variance * room
    slack = np.zeros_like(mean)
    slack[is_open] = spread(mean[is_open], (surprise**2 / free)[is_open], noise[is_open])
    return mean + slack / np.maximum(slack + noise, 1e-300) * surprise


def _explain_long(noisy: Reals, room: Reals, scale: float) -> Reals:
    target = noisy.copy()
    for row, space in zip(target, room, strict=True):
        for size in np.unique(space[space > 0]):
            row[space == size] = posterior_mean(row[space == size], scale=scale, terms=int(size))
    return target


def _whole(values: NDArray[np.generic], cells: NDArray[np.int64] | None, size: int) -> Reals:
    """Cells that cannot hold anybody stand as 0 in the whole table."""
    if cells is None:
        return values.astype(np.float64)
    table = np.zeros(size)
    table[cells] = values
    return table
