"""The published table of a release with further tables: whole numbers that follow the sums of areas and margins too.

First the table is made from its levels, as without further tables, of estimates that know all of them. Then its cells
are scaled to the best estimates of the measured sums (`postprocess.raking`), and rounded from the first of these
tables down to the cells, along squares on a map. Exact totals come first, and hold exactly. All figures of all tables
are sums of these cells, so that they agree with each other.
"""

from __future__ import annotations

import numpy as np

from sudare.methods.table.levels import LeafLayout
from sudare.methods.table.linked import NOT_GIVEN, LinkedTable, MeasuredSums
from sudare.methods.table.repair import repair
from sudare.noise import Rng
from sudare.postprocess.raking import Division, rake, round_down_a_chain
from sudare.postprocess.simplex import share_rows
from sudare.postprocess.surroundings import project_in_metric
from sudare.schema.arrays import Codes, Integers


def repair_linked(linked: LinkedTable, *, rng: Rng) -> Integers:
    """Make the published table, by leaf: not negative, adding up, exact totals kept."""
    plain = repair(linked, rng=rng)
    if not linked.sums:
        return plain
    leaves = np.flatnonzero(linked.layout.is_possible)
    ordered = sorted(linked.sums, key=lambda sums: (sums.noise is not None, -sums.spec.share))
    total = int(plain.sum())
    divisions = [_aim(linked, sums, total) for sums in ordered]
    tops = _ancestors(linked.layout, leaves, 0)
    if len(linked.layout.sizes) > 1:
        held = np.bincount(tops, weights=plain[leaves], minlength=linked.layout.sizes[0])
        divisions.append(Division(groups=tops, targets=held.astype(np.float64)))
    estimates = linked.squares.estimates[-1][leaves]
    cells = rake(plain[leaves].astype(np.float64), divisions, spread=estimates)
    whole = _whole_targets(ordered[0], divisions[0], total, rng)
    chain = _build_chain(linked.layout, leaves, divisions[0].groups)
    found = np.zeros(linked.layout.sizes[-1], dtype=np.int64)
    found[leaves] = round_down_a_chain(cells, chain, whole, rng=rng)
    return found


def _aim(linked: LinkedTable, sums: MeasuredSums, total: int) -> Division:
    """What the groups of a table should hold: their best estimates, not negative, adding up to the total."""
    groups = linked.partition(sums.spec)
    estimates, errors = linked.squares.answer_groups(groups.leaves, groups.groups)
    weights = np.maximum(errors**2, 1e-6)
    if sums.noise is None:
        weights = np.where(sums.noisy == NOT_GIVEN, weights, 1e-300)
    near = project_in_metric(estimates[None, :], weights[None, :], np.array([float(total)]))[0]
    if sums.noise is None:
        near = np.where(sums.noisy == NOT_GIVEN, near, sums.noisy)
    return Division(groups=groups.groups, targets=near)


def _whole_targets(sums: MeasuredSums, division: Division, total: int, rng: Rng) -> Integers:
    rows = np.zeros(len(division.targets), dtype=np.int64)
    if sums.noise is not None:
        return share_rows(division.targets, rows, totals=np.array([total]), rng=rng)
    whole = np.where(sums.noisy == NOT_GIVEN, 0, sums.noisy)
    is_open = sums.noisy == NOT_GIVEN
    if is_open.any():
        rest = max(0, total - int(whole.sum()))
        whole[is_open] = share_rows(division.targets[is_open], rows[is_open], totals=np.array([rest]), rng=rng)
    return whole.astype(np.int64)


def _ancestors(layout: LeafLayout, leaves: Codes, level: int) -> Codes:
    node = leaves
    for below in range(len(layout.sizes) - 1, level, -1):
        node = layout.parents[below][node]
    return node


def _build_chain(layout: LeafLayout, leaves: Codes, groups: Codes) -> list[Codes]:
    """Divide the cells by the groups of a table, then by each level within them, then singly."""
    chain = [groups]
    for level in range(len(layout.sizes) - 1):
        pairs = groups * layout.sizes[level] + _ancestors(layout, leaves, level)
        chain.append(np.unique(pairs, return_inverse=True)[1].reshape(-1))
    return [*chain, np.arange(len(leaves))]
