"""Least squares over a tree and further sums that cut across it: areas, margins of other tables, exact totals.

The tree gives unbiased estimates x with covariance C (`least_squares.py`). Further sums G of the cells are measured
with noise of variance V (0: the sum is exact). Of everything together the best unbiased figures are

    x + C G' s,   s = S^-1 (y - G x),   S = G C G' + V,      covariance  C - C G' S^-1 G C

C is never written out: C q is what the estimates move by when the noisy cells move by q times their variance, and
q C q' between sparse sums is added up level by level. So all figures follow from the tree with its cells moved, and
they add up as those of a tree do. With few sums S is factored, and every variance is exact; with many the equation is
solved by conjugate gradients, and a variance is bounded by that of the tree alone, or of the tree together with a
measurement of the sum itself: both are variances of unbiased figures, which the best figure cannot exceed.

Proof: proofs/areas.md. Source: Gauss and Markov; Woodbury 1950.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sudare.postprocess.least_squares import Figure, LeastSquares
from sudare.postprocess.threads import on_one_thread
from sudare.schema.arrays import Codes, Reals

MOST_FACTORED = 3000  # sums across the tree up to which S is factored: 72 MB of floats
MOST_PAIRS = 2_000_000  # of sums and questions that are worked out at a time
MOST_WORK = 2e10  # multiplications for the errors of a list of questions; beyond it they are bounded
RESIDUE = 1e-9  # of a variance: what rounding leaves of it where exact sums take all of it
LEAST = 1e-4  # of the least noise: a whole sum that is not exact has at least a fortieth of its variance or so
ROUNDS, NEAR = 500, 1e-10  # of conjugate gradients, and the part of the first residue at which they stop


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkedSquares:
    """A tree with further sums: sum `rows[i]` holds cell `leaves[i]`; `noisy` and `variances` are by sum.

    It answers as `LeastSquares` does.

    >>> tree = LeastSquares(parents=[np.array([0, 0])], noisy=[np.array([4.0, 2.0])],
    ...                     variances=[np.array([1.0, 1.0])], total=10.0, total_variance=0.0)
    >>> linked = LinkedSquares(tree=tree, rows=np.array([0]), leaves=np.array([0]), noisy=np.array([9.0]),
    ...                        variances=np.array([0.0]))
    >>> linked.estimates[0].tolist(), round(linked.answer(np.array([1])).estimate, 6)
    ([9.0, 1.0], 1.0)
    """

    tree: LeastSquares
    rows: Codes
    leaves: Codes
    noisy: Reals
    variances: Reals

    @cached_property
    def sums(self) -> Any:
        """The further sums as a sparse matrix (sums, cells)."""
        size = len(self.tree.parents[-1])
        return _sparse(self.rows, self.leaves, np.ones(len(self.rows)), (len(self.noisy), size))

    @property
    def is_factored(self) -> bool:
        """Tell whether variances are exact: the sums are few enough."""
        return len(self.noisy) <= MOST_FACTORED

    @cached_property
    def _factor(self) -> Any:
        from scipy.linalg import cho_factor

        square = find_covariance(self.tree, self.sums, self.sums) + np.diag(self.variances)
        return cho_factor(square, lower=True, overwrite_a=True)

    @cached_property
    @on_one_thread
    def moved(self) -> LeastSquares:
        """The tree with its cells moved so that its estimates are those of everything together."""
        from scipy.linalg import cho_solve

        missing = self.noisy - self.sums @ self.tree.estimates[-1]
        steps = cho_solve(self._factor, missing) if self.is_factored else self._iterate(missing)
        return self._move(self.sums.T @ steps)

    def _move(self, push: Reals) -> LeastSquares:
        """The tree that the cells push by so much, in parts of their variances."""
        variance = np.asarray(self.tree.variances[-1], dtype=np.float64)
        noisy = [*self.tree.noisy[:-1], self.tree.noisy[-1] + variance * push]
        return dataclasses.replace(self.tree, noisy=noisy)

    def _iterate(self, missing: Reals) -> Reals:
        """Solve S s = missing by conjugate gradients."""
        before, steps = self.tree.estimates[-1], np.zeros(len(missing))
        left = missing.astype(np.float64)
        way, size = left.copy(), float(left @ left)
        stop = NEAR**2 * max(size, 1e-300)
        for _ in range(ROUNDS):
            if size <= stop:
                break
            reach = self.sums @ (self._move(self.sums.T @ way).estimates[-1] - before) + self.variances * way
            step = size / float(way @ reach)
            steps += step * way
            left -= step * reach
            size, old = float(left @ left), size
            way = left + size / old * way
        return steps

    # --- figures --------------------------------------------------------------------------------------------------

    @property
    def estimates(self) -> list[Reals]:
        """The unbiased estimates of all nodes, by level; they add up, agree with exact sums, and may be negative."""
        return self.moved.estimates

    def before_sharing(self, level: int) -> tuple[Reals, Reals]:
        """The estimates of the nodes of a level from their own measurement and those below, and their variances."""
        return self.moved.before_sharing(level)

    @cached_property
    def root(self) -> Figure:
        """The estimate of the total."""
        if self.tree.root.standard_error == 0:
            return self.tree.root
        leaves = np.flatnonzero(np.asarray(self.tree.variances[-1]) > 0)
        return self.answer(leaves)

    @cached_property
    def standard_errors(self) -> list[Reals]:
        """The standard errors of the estimates of cells; those of the levels above are bounds."""
        leaves = np.flatnonzero(np.asarray(self.tree.variances[-1]) > 0)
        cells = np.zeros(len(self.tree.parents[-1]))
        cells[leaves] = self.answer_groups(leaves, np.arange(len(leaves)))[1]
        return [*self.tree.standard_errors[:-1], cells]

    def answer(self, leaves: Codes, weights: Reals | None = None) -> Figure:
        """Estimate the sum over a set of cells, or a sum with weights."""
        estimates, errors = self.answer_groups(leaves, np.zeros(len(leaves), dtype=np.int64), weights)
        return Figure(float(estimates[0]), float(errors[0])) if len(estimates) else Figure(0.0, 0.0)

    @on_one_thread
    def answer_groups(self, leaves: Codes, groups: Codes, weights: Reals | None = None) -> tuple[Reals, Reals]:
        """Estimate the sums over many sets at once, as `LeastSquares.answer_groups` does."""
        if not len(leaves):
            return np.zeros(0), np.zeros(0)
        estimates = self.moved.answer_groups(leaves, groups, weights)[0]
        before = self.tree.answer_groups(leaves, groups, weights)[1] ** 2
        size = len(estimates)
        asked = _sparse(
            groups, leaves, np.ones(len(leaves)) if weights is None else weights, (size, self.sums.shape[1])
        )
        if not self.is_factored or size * float(len(self.noisy)) ** 2 > MOST_WORK:
            return estimates, np.sqrt(np.maximum(self._bound(asked, before), 0.0))
        gained = np.zeros(size)
        chunk = max(1, MOST_PAIRS // max(1, len(self.noisy)))
        for start in range(0, size, chunk):
            gained[start : start + chunk] = self._explain(asked[start : start + chunk])
        left = before - gained
        rounding = RESIDUE * before
        if weights is None or bool((weights == 1).all()):  # thin squares with very large noise leave more
            rounding = np.maximum(rounding, LEAST * self._least_variance)
        return estimates, np.sqrt(np.where(left > rounding, left, 0.0))

    @cached_property
    def _least_variance(self) -> float:
        """The smallest variance of any noisy sum; 0 where all are exact."""
        held = np.concatenate([self.variances, *map(np.asarray, self.tree.variances)])
        return float(held[held > 0].min(initial=np.inf)) if (held > 0).any() else 0.0

    def _explain(self, asked: Any) -> Reals:
        """How much the further sums take from the variances of questions."""
        from scipy.linalg import solve_triangular

        shared = find_covariance(self.tree, self.sums, asked)
        scaled = solve_triangular(self._factor[0], shared, lower=True, overwrite_b=True)
        found: Reals = (scaled**2).sum(axis=0)
        return found

    def is_measured(self, leaves: Codes) -> bool:
        """Tell whether a sum of cells, in ascending order, is one of the further sums."""
        return hash(leaves.astype(np.int64).tobytes()) in self._measured_sums

    @cached_property
    def _measured_sums(self) -> frozenset[int]:
        """The further sums by the hashes of their cells, since the cells of many are many."""
        return frozenset(hash(self.sums.indices[low:high].tobytes()) for _, low, high in _rows_of(self.sums))

    def _bound(self, asked: Any, before: Reals) -> Reals:
        """Bound variances by the tree alone, joined with a sum that was measured as it is asked."""
        bounds = before.copy()
        own = {self.sums.indices[low:high].tobytes(): row for row, low, high in _rows_of(self.sums)}
        for question, low, high in _rows_of(asked):
            row = own.get(asked.indices[low:high].tobytes())
            if row is not None and bool((asked.data[low:high] == 1).all()) and before[question] > 0:
                variance = float(self.variances[row])
                bounds[question] = 1 / (1 / before[question] + 1 / variance) if variance > 0 else 0.0
        return bounds


def _rows_of(matrix: Any) -> list[tuple[int, int, int]]:
    ends = matrix.indptr.tolist()
    return list(zip(range(len(ends) - 1), ends, ends[1:], strict=False))


def _sparse(rows: Codes, columns: Codes, values: Reals, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    matrix = csr_array((values.astype(np.float64), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def find_covariance(tree: LeastSquares, first: Any, second: Any) -> Reals:
    """Give the covariances (m, k) of the estimates of two lists of sums of cells, sparse (m, cells) and (k, cells).

    Level by level from the cells up: with a the weight of a node in a sum, w and SV as in `least_squares.py`,
    Cov = sum a1 a2 w - sum (sum a1 w)(sum a2 w) / SV, then a of the parent is (sum a w) / SV.
    """
    from scipy.sparse import csr_array, diags_array

    spreads, sums = tree.spreads
    found = np.zeros((first.shape[0], second.shape[0]))
    for level in range(len(tree.parents) - 1, -1, -1):
        parents, w, below = tree.parents[level], spreads[level], sums[level]
        lift = csr_array((np.ones(len(parents)), (np.arange(len(parents)), parents)), shape=(len(parents), len(below)))
        weighted = first * w[None, :]
        inverse = np.divide(1.0, below, out=np.zeros_like(below), where=below > 0)
        high, other = weighted @ lift, (second * w[None, :]) @ lift
        found += (weighted @ second.T).toarray()
        found -= ((high @ diags_array(inverse)) @ other.T).toarray()
        first, second = high @ diags_array(inverse), other @ diags_array(inverse)
    known = tree.root.standard_error**2
    if known > 0 and math.isfinite(known):
        found += known * (first.toarray() @ second.toarray().T)
    return found
