"""Least squares over noisy sums of a tree: the best unbiased figure of any set of cells, with its exact variance.

Every node of a tree is measured with noise of known variance. Upwards, a node's own figure and the sum of its children
are one number measured twice:

    w = 1 / (1/variance + 1/SV),   z = w (noisy/variance + SZ/SV),   SV = sum of the children's w, SZ = sum of their z

Given the true sum X of a node, its children are z_c + (w_c/SV)(X - SZ) with covariance diag(w) - w w'/SV. So a set of
cells with weights has, below a node, the answer a X + const with variance s, found from its children:

    a = sum a_c w_c / SV,   const = sum const_c + sum a_c z_c - a SZ,
    s = sum s_c + sum a_c^2 w_c - (sum a_c w_c)^2 / SV

and only nodes that hold cells of the set are looked at. At the root X is known, or has an estimate of its own. The
variance holds for every table: nothing is assumed about the data. Proof: proofs/squares.md
Source: Hay, Rastogi, Miklau, Suciu 2010 (the two passes); the rule for sets follows by conditioning level by level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sudare.errors import ParameterError
from sudare.schema.arrays import Codes, Reals


class Figure(NamedTuple):
    """An unbiased estimate and its standard error."""

    estimate: float
    standard_error: float


@dataclass(frozen=True, kw_only=True, eq=False)
class LeastSquares:
    """Noisy sums of a tree: `parents[l]` is the place in level l - 1 of every node of level l.

    `variances[l]` holds the variance of every noisy sum: infinite where a node was not measured, 0 for a node that can
    hold nobody and counts as 0. The nodes of level 0 add up to `total`, which has noise of `total_variance` (0: exact).

    >>> tree = LeastSquares(parents=[np.array([0, 0])], noisy=[np.array([4.0, 2.0])],
    ...                     variances=[np.array([1.0, 1.0])], total=10.0, total_variance=0.0)
    >>> tree.estimates[0].tolist(), tree.answer(np.array([0]))
    ([6.0, 4.0], Figure(estimate=6.0, standard_error=0.7071067811865476))
    """

    parents: Sequence[Codes]
    noisy: Sequence[Reals]
    variances: Sequence[Reals]
    total: float
    total_variance: float

    def __post_init__(self) -> None:
        if not len(self.parents) == len(self.noisy) == len(self.variances) > 0:
            raise ParameterError("parents, noisy sums and variances must be given for every level")
        if not np.isfinite(self.variances[-1]).all():
            raise ParameterError("the nodes of the last level must all be measured")

    @cached_property
    def _upward(self) -> tuple[list[Reals], list[Reals], list[Reals], list[Reals]]:
        """By level: z and w of its nodes; SZ and SV of its nodes' parents, level 0 having the root above it."""
        z: list[Reals] = [np.asarray(self.noisy[-1], dtype=np.float64)]
        w: list[Reals] = [np.asarray(self.variances[-1], dtype=np.float64)]
        z[0] = np.where(w[0] > 0, z[0], 0.0)
        sums_z: list[Reals] = []
        sums_w: list[Reals] = []
        for level in range(len(self.parents) - 1, -1, -1):
            size = 1 if level == 0 else len(self.parents[level - 1])
            sums_z.append(_add_up(self.parents[level], z[-1], size))
            sums_w.append(_add_up(self.parents[level], w[-1], size))
            if level:
                variance = np.asarray(self.variances[level - 1], dtype=np.float64)
                with np.errstate(divide="ignore", invalid="ignore"):
                    surer = np.where(variance > 0, sums_w[-1] / variance, 0.0)  # 0 where it was not measured
                noisy = np.where(np.isfinite(variance), self.noisy[level - 1], 0.0)
                z.append((surer * noisy + sums_z[-1]) / (1 + surer))
                w.append(sums_w[-1] / (1 + surer))
        return z[::-1], w[::-1], sums_z[::-1], sums_w[::-1]

    @cached_property
    def root(self) -> Figure:
        """The estimate of the total, from its own measurement and from all below."""
        _, _, sums_z, sums_w = self._upward
        below, own = float(sums_w[0][0]), self.total_variance
        if own == 0 or below == 0:
            return Figure(float(self.total), math.sqrt(min(own, below)))
        estimate = (below * self.total + own * float(sums_z[0][0])) / (below + own)
        return Figure(estimate, math.sqrt(below * own / (below + own)))

    @cached_property
    def _downward(self) -> tuple[list[Reals], list[Reals]]:
        z, w, sums_z, sums_w = self._upward
        above, spread = np.array([self.root.estimate]), np.array([self.root.standard_error**2])
        estimates, variances = [], []
        for level, parents in enumerate(self.parents):
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(w[level] > 0, w[level] / sums_w[level][parents], 0.0)
            above = z[level] + share * (above - sums_z[level])[parents]
            spread = w[level] * (1 - share) + share**2 * spread[parents]
            estimates.append(above)
            variances.append(spread)
        return estimates, variances

    @property
    def estimates(self) -> list[Reals]:
        """The unbiased estimates of all nodes, by level; they add up and may be negative."""
        return self._downward[0]

    @cached_property
    def standard_errors(self) -> list[Reals]:
        """The standard errors of `estimates`."""
        return [np.sqrt(np.maximum(variances, 0.0)) for variances in self._downward[1]]

    @property
    def spreads(self) -> tuple[list[Reals], list[Reals]]:
        """By level: w of its nodes, and the sum of w below each node of the level above (the root for level 0)."""
        _, w, _, sums_w = self._upward
        return w, sums_w

    def before_sharing(self, level: int) -> tuple[Reals, Reals]:
        """The estimates of the nodes of a level from their own measurement and those below, and their variances."""
        z, w, _, _ = self._upward
        return z[level], w[level]

    def answer(self, leaves: Codes, weights: Reals | None = None) -> Figure:
        """Estimate the sum over a set of cells, given as places in the last level, or a sum with weights."""
        estimates, errors = self.answer_groups(leaves, np.zeros(len(leaves), dtype=np.int64), weights)
        return Figure(float(estimates[0]), float(errors[0])) if len(estimates) else Figure(0.0, 0.0)

    def answer_groups(self, leaves: Codes, groups: Codes, weights: Reals | None = None) -> tuple[Reals, Reals]:
        """Estimate the sums over many sets at once: `groups[i]` is the set that leaf i belongs to, from 0 on.

        A leaf may belong to several sets and is then listed for each. Gives estimates and standard errors by set.
        """
        if not len(leaves):
            return np.zeros(0), np.zeros(0)
        z, w, sums_z, sums_w = self._upward
        group, node, a = _gather(groups, leaves, np.ones(len(leaves)) if weights is None else weights)
        const, s = np.zeros(len(node)), np.zeros(len(node))
        for level in range(len(self.parents) - 1, -1, -1):
            above = self.parents[level][node]
            own_z, own_w = z[level][node], w[level][node]
            if level and bool(((np.diff(above) < 0) & (np.diff(group) == 0)).any()):
                order = np.lexsort((above, group))  # levels need not be in the order of a tree
                group, above, own_z, own_w = group[order], above[order], own_z[order], own_w[order]
                a, const, s = a[order], const[order], s[order]
            starts = np.flatnonzero(np.concatenate([[True], (np.diff(group) != 0) | (np.diff(above) != 0)]))
            weighted = np.add.reduceat(a * own_w, starts)
            const = np.add.reduceat(const + a * own_z, starts)
            s = np.add.reduceat(s + a * a * own_w, starts)
            group, node = group[starts], above[starts]
            below = sums_w[level][node]
            a = np.divide(weighted, below, out=np.zeros_like(weighted), where=below > 0)
            const -= a * sums_z[level][node]
            s -= a * weighted
        size = int(np.max(groups)) + 1
        estimates, variances = np.zeros(size), np.zeros(size)
        estimates[group] = a * self.root.estimate + const
        variances[group] = s + (a * self.root.standard_error) ** 2
        return estimates, np.sqrt(np.maximum(variances, 0.0))


def _add_up(parents: Codes, values: Reals, size: int) -> Reals:
    added: Reals = np.bincount(parents, weights=values, minlength=size).astype(np.float64, copy=False)
    return added


def _gather(groups: Codes, leaves: Codes, weights: Reals) -> tuple[Codes, Codes, Reals]:
    """Sort by set, then leaf; weights of a leaf that is listed twice in a set are added up."""
    order = np.lexsort((leaves, groups))
    group, node, weight = np.asarray(groups)[order], np.asarray(leaves)[order], np.asarray(weights, float)[order]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(group) != 0) | (np.diff(node) != 0)]))
    return group[starts], node[starts], np.add.reduceat(weight, starts)
