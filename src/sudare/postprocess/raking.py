"""Fit a table of cells to sums of several divisions at once, by scaling: empty cells stay empty, none becomes negative.

Source: Deming, Stephan 1940 (iterative proportional fitting).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sudare.noise.rng import Rng
from sudare.postprocess.simplex import share_rows
from sudare.schema.arrays import Codes, Integers, Reals

ROUNDS = 12  # of scaling: targets of noisy sums agree only roughly, so more do not help


@dataclass(frozen=True, kw_only=True, eq=False)
class Division:
    """A division of cells into groups, and what the cells of every group should add up to."""

    groups: Codes
    targets: Reals


def rake(cells: Reals, divisions: Sequence[Division], *, spread: Reals) -> Reals:
    """Scale cells until the groups of every division have their sums; those of the first division hold exactly.

    A group that should hold records and holds none gets them as `spread` says, evenly where that says nothing.

    >>> rows, columns = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> targets = [Division(groups=rows, targets=np.array([6.0, 2.0]))]
    >>> rake(np.array([1.0, 2.0, 0.0, 0.0]), targets, spread=np.array([0.0, 0.0, 3.0, 1.0])).round(6).tolist()
    [2.0, 4.0, 1.5, 0.5]
    """
    found = cells.astype(np.float64)
    for division in divisions:
        found = _seed(found, division, spread)
    for _ in range(ROUNDS if len(divisions) > 1 else 1):
        for division in divisions[::-1]:
            found = _scale(found, division)
    return found


def _seed(cells: Reals, division: Division, spread: Reals) -> Reals:
    size = len(division.targets)
    held = np.bincount(division.groups, weights=cells, minlength=size)
    is_bare = ((held <= 0) & (division.targets > 0))[division.groups]
    if not is_bare.any():
        return cells
    weights = np.maximum(spread, 0.0) + 1e-9
    sums = np.bincount(division.groups, weights=weights, minlength=size)
    seeded: Reals = np.where(is_bare, weights * (division.targets / sums)[division.groups], cells)
    return seeded


def _scale(cells: Reals, division: Division) -> Reals:
    held = np.bincount(division.groups, weights=cells, minlength=len(division.targets))
    factor = np.divide(division.targets, held, out=np.zeros_like(held), where=held > 0)
    scaled: Reals = cells * factor[division.groups]
    return scaled


def round_down_a_chain(cells: Reals, chain: Sequence[Codes], totals: Integers, *, rng: Rng) -> Integers:
    """Round cells to whole numbers so that the groups of the first division hold their totals exactly.

    `chain` divides the cells ever finer, the last being the cells themselves; every group is rounded within the one
    above it, so that no sum moves far.

    >>> from sudare.noise import SeededRng
    >>> chain = [np.array([0, 0, 1]), np.arange(3)]
    >>> round_down_a_chain(np.array([1.4, 1.6, 2.2]), chain, np.array([3, 2]), rng=SeededRng(1)).tolist()
    [1, 2, 2]
    """
    above, held = chain[0], totals
    for groups in chain[1:]:
        size = int(groups.max()) + 1
        owner = np.zeros(size, dtype=np.int64)
        owner[groups] = above
        values = np.bincount(groups, weights=cells, minlength=size).astype(np.float64)
        held = share_rows(values, owner, totals=held, rng=rng)
        above = groups
    return held
