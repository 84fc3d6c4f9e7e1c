"""The power law between cells and k, fitted to a history, with an interval that admits what it does not know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sudare.methods.kanon.history import Point
from sudare.methods.kanon.request import Wish

Numbers = NDArray[np.float64]

LEAST_POINTS = 4
ONE_SIDED = 0.95  # each end of the interval is passed in one case of twenty
PENALTY = 1.0  # how strongly the slopes of attributes are held together
ROUNDS = 10
HALF = math.log(0.5)  # where a class of one row, k - 1 = 0, stands on the scale of ln(k - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Law:
    """ln(k - 1) = ln a + sum over attributes of b_i ln(groups of i), slopes b_i held near a common one.

    With equal slopes this is the paper's k = a x^b + 1, x the number of cells. The interval is that of a new point
    under a linear model: residuals as they are when each point is left out in turn, a factor for how far the asked
    grouping is from what was measured, Student's quantile. The slope of an attribute that was never measured is
    taken to be the common one, give or take as much as the residuals.

    Source: Oguri et al. 2016, equation (1), as a regression in logarithms.
    """

    names: tuple[str, ...]
    weights: Numbers  # intercept, common slope, then how each attribute differs
    covariance: Numbers  # (X'X + P)^-1
    deviation: float
    quantile: float
    rows: int

    def predict(self, wish: Wish, *, most: float = math.inf) -> tuple[float, float, float]:
        """Give the predicted k and the ends of the interval.

        Where k can be `most` at best, by a coarser grouping that was measured, and the law says more, the table is
        worse there than the law: the interval is then laid around `most`, which is itself seldom reached.
        """
        x = _features(wish, self.names)
        middle = min(float(x @ self.weights), math.log(max(most - 1, 0.5)))
        new = sum(math.log(one.fineness) ** 2 for name, one in wish.items() if name not in self.names) / PENALTY
        wide = self.quantile * self.deviation * math.sqrt(1 + new + float(x @ self.covariance @ x))
        k, low, high = (_k_at(one, self.rows) for one in (middle, middle - wide, middle + wide))
        return k, math.floor(low), math.ceil(high)  # k is a whole number


def fit(points: Sequence[Point], wishes: Sequence[Wish], *, rows: int) -> Law | None:
    """Fit the law; None if too few points tell of a slope.

    Points with k = 1 say only that k - 1 is below 1: they count, at one half, where the line runs above them, and not
    where it runs below. Everything left out, one cell, holds all rows: this point is always known.
    """
    names = tuple(sorted({name for wish in wishes for name in wish}))
    if sum(point.k > 1 and point.cells > 1 for point in points) < LEAST_POINTS:
        return None
    x = np.array([_features({}, names), *(_features(wish, names) for wish in wishes)])
    y = np.array([_log(rows), *(_log(point.k) for point in points)])
    is_one = np.array([False, *(point.k <= 1 for point in points)])
    penalty = np.diag([1e-9, 1e-9, *([PENALTY] * len(names))])
    used = ~is_one
    for _ in range(ROUNDS):
        inverse = np.linalg.inv(x[used].T @ x[used] + penalty)
        weights = inverse @ x[used].T @ y[used]
        again = ~is_one | (x @ weights > HALF)
        if (again == used).all():
            break
        used = again
    leverage = np.einsum("ij,jk,ik->i", x[used], inverse, x[used])
    residuals = (y[used] - x[used] @ weights) / np.clip(1 - leverage, 0.05, None)
    free = max(1.0, float(used.sum()) - float(leverage.sum()))
    deviation = max(0.05, math.sqrt(float((residuals**2).mean())))
    return Law(
        names=names,
        weights=weights,
        covariance=inverse,
        deviation=deviation,
        quantile=student(ONE_SIDED, free),
        rows=rows,
    )


def _features(wish: Wish, names: tuple[str, ...]) -> Numbers:
    """1, the logarithm of all cells, and that of the groups of each attribute of the history."""
    logs = {name: math.log(one.fineness) for name, one in wish.items()}
    return np.array([1.0, sum(logs.values()), *(logs.get(name, 0.0) for name in names)])


def _log(k: int) -> float:
    return math.log(k - 1) if k > 1 else HALF


def _k_at(height: float, rows: int) -> float:
    return 1.0 + math.exp(min(height, math.log(max(rows, 2))))


def student(share: float, free: float) -> float:
    """Give a quantile of Student's distribution, by its expansion about the normal one.

    >>> round(student(0.9, 10), 2), round(student(0.9, 1000), 2)
    (1.37, 1.28)
    """
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / free + second / free**2 + third / free**3
