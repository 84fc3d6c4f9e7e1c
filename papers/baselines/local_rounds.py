"""Local recoding by rounds of a global search: what ARX calls local recoding, as a peer to measure ours against.

Every round looks for one node of the lattice over the rows that are left, keeps the rows whose classes hold k there,
and goes on with the others. Leaving rows out costs nothing in a round (ARX's gs factor 0), but at least a share of the
whole table must go (1 %), so that the first rounds take the rows that can stay fine. What never fits is left out.
Source: ARX 3.9, ARXResult.optimizeIterativeFast; Prasser, Kohlmayer, Kuhn, The importance of context, 2016
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from sudare.counts import Counts
from sudare.methods.kanon.criteria import Criterion, MinimumSize
from sudare.methods.kanon.recode import Pieces, make_class_checker
from sudare.methods.kanon.value_tree import ValueTree
from sudare.schema.arrays import Codes, Reals

SHARE_A_ROUND = 0.01  # of the rows of the table, at least


def recode_in_rounds(
    counts: Counts,
    quasi: Sequence[str],
    sensitive: Sequence[str] = (),
    *,
    k: int,
    criteria: tuple[Criterion, ...] = (),
    share: float = SHARE_A_ROUND,
) -> tuple[float, int]:
    """Recode a table; its Loss (ARX's, over all rows) and the rows that are left out.

    Criteria besides k are of the sensitive attributes.

    >>> from benchmarks.kanon_tables import made_up
    >>> table = made_up(1, rows=500)
    >>> loss, left_out = recode_in_rounds(table, ["q0", "q2"], k=5)
    >>> 0 < loss < 1, left_out
    (True, 0)
    """
    pieces = Pieces.of(counts, quasi, sensitive)
    trees = [ValueTree.of(one, pieces.codes[:, axis]) for axis, one in enumerate(pieces.attributes[: pieces.quasi])]
    check_classes = make_class_checker((MinimumSize(k=k), *criteria), pieces)
    columns = [np.searchsorted(tree.values, pieces.codes[:, axis]) for axis, tree in enumerate(trees)]
    weights = pieces.weights.astype(np.float64)
    left, lost = np.arange(len(weights)), np.zeros((len(trees), len(weights)))
    least = share * pieces.rows
    while left.size:
        remaining = pieces.take(left)

        def keep(number: Codes, remaining: Pieces = remaining) -> Codes:
            if not criteria:
                return np.bincount(number, weights=remaining.weights)[number] >= k
            return check_classes(remaining, number, int(number.max()) + 1)[number]

        round_ = _Round(trees, [column[left] for column in columns], weights[left], keep, least)
        node, is_kept = round_.search()
        if not is_kept.any():
            lost[:, left] = [[1.0 if tree.attribute.size > 1 else 0.0] for tree in trees]
            break
        for axis, tree in enumerate(trees):
            lost[axis, left[is_kept]] = tree.losses[node[axis], columns[axis][left[is_kept]]]
        left = left[~is_kept]
    means = (lost * weights).sum(axis=1) / max(1, pieces.rows)
    return float(np.exp(np.log1p(means).mean()) - 1), int(weights[left].sum()) if left.size else 0


class _Round:
    """One global search over the rows that are left, best bound first, so that its node is an optimum."""

    def __init__(
        self,
        trees: list[ValueTree],
        columns: list[Codes],
        weights: Reals,
        keep: Callable[[Codes], Codes],
        least: float,
    ) -> None:
        self.trees, self.columns, self.weights, self.keep = trees, columns, weights, keep
        self.least = min(least, float(weights.sum()))
        self.bounds = [
            [self._bound(tree.losses[level][column]) for level in range(tree.height + 1)]
            for tree, column in zip(trees, columns, strict=True)
        ]

    def _bound(self, losses: Reals) -> float:
        """The least that an attribute can lose when `least` rows are kept: those that lose least."""
        order = np.argsort(losses, kind="stable")
        before = np.cumsum(self.weights[order]) - self.weights[order]
        taken = np.clip(self.least - before, 0.0, self.weights[order])
        return float((taken * losses[order]).sum())

    def search(self) -> tuple[tuple[int, ...], Codes]:
        heights = [tree.height for tree in self.trees]
        heap = [
            (sum(np.log1p(self.bounds[axis][level] / self.weights.sum()) for axis, level in enumerate(node)), node)
            for node in itertools.product(*(range(height + 1) for height in heights))
        ]
        heapq.heapify(heap)
        best: tuple[float, tuple[int, ...], Codes] = (np.inf, tuple(heights), np.zeros(len(self.weights), dtype=bool))
        while heap and heap[0][0] < best[0]:
            node = heapq.heappop(heap)[1]
            is_kept = self._keeps(node)
            if float(self.weights[is_kept].sum()) >= self.least - 1e-9 and is_kept.any():
                score = self._score(node, is_kept)
                best = min(best, (score, node, is_kept), key=lambda found: found[0])
        return best[1], best[2]

    def _keeps(self, node: tuple[int, ...]) -> Codes:
        key = np.zeros(len(self.weights), dtype=np.int64)
        for axis, level in enumerate(node):
            groups = self.trees[axis].groups[level]
            key = key * (int(groups.max(initial=0)) + 1) + groups[self.columns[axis]]
            if axis % 3 == 2:
                key = np.unique(key, return_inverse=True)[1].reshape(-1)
        number = np.unique(key, return_inverse=True)[1].reshape(-1)
        return self.keep(number)

    def _score(self, node: tuple[int, ...], is_kept: Codes) -> float:
        rows = float(self.weights.sum())
        return float(
            sum(
                np.log1p(float((tree.losses[level][column] * self.weights * is_kept).sum()) / rows)
                for tree, level, column in zip(self.trees, node, self.columns, strict=True)
            )
        )
