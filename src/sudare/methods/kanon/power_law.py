"""How k falls with the number of cells: the power law k = a x^b + 1, of one table and of a history of measurements.

    PowerLaw      one slope b for the product x of all groups, fitted to nodes of one lattice: where a search starts
    HistoryLaw    a slope for every attribute, fitted to all that was measured: answers to requests, with an interval

Source: Oguri, Sonehara, Matsui, Aghdam 2016, formulas (1) and (2).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sudare.methods.kanon.history import Measurement
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.request import RequestOption
from sudare.schema.arrays import Reals

# --- one table: the law, the nodes it is fitted to, and the node it points to -----------------------------------------

MAX_LISTED_NODES = 2**16  # in a larger lattice the nearest node is sought along a path, not in the list of all nodes


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """k = a x^b + 1 for x cells, fitted to `points` points; `correlation` is that of ln(k - 1) with ln x.

    `spread` is the standard deviation of ln(k - 1) around the line, nan for two points.

    >>> law = fit_power_law([(2, 51), (4, 26), (8, 13.5)])
    >>> round(law.a), round(law.b, 3), round(law.cells_for(11))
    (100, -1.0, 10)
    """

    a: float
    b: float
    correlation: float
    spread: float
    points: int

    def k_at(self, cells: float) -> float:
        """Predict k for a number of cells."""
        return float(self.a * cells**self.b + 1)

    def cells_for(self, k: float) -> float:
        """Predict how many cells still reach k; infinity if the law does not fall, or hardly."""
        if self.b >= 0:
            return math.inf
        try:
            return float(((k - 1) / self.a) ** (1 / self.b))
        except OverflowError:
            return math.inf


def fit_power_law(points: Iterable[tuple[int, float]]) -> PowerLaw | None:
    """Fit the line ln(k - 1) = ln a + b ln x to points (x, k) by least squares; None without two different x.

    Points with k = 1 are left out: they say that k has reached its smallest value, not where. The paper prints b as the
    logarithm of a slope of unlogged values; that is no power law, and the fit here is what its figures show.
    """
    used = [(math.log(cells), math.log(k - 1)) for cells, k in points if k > 1]
    if len({x for x, _ in used}) < 2:
        return None
    x, y = np.array(used).T
    centred = x - x.mean()
    b = float(np.dot(centred, y) / np.dot(centred, centred))
    a = float(y.mean() - b * x.mean())
    residuals = y - a - b * x
    scale = float(np.sqrt(np.dot(centred, centred) * np.dot(y - y.mean(), y - y.mean())))
    correlation = float(np.dot(centred, y - y.mean())) / scale if scale else 0.0
    spread = math.sqrt(float(np.dot(residuals, residuals)) / (x.size - 2)) if x.size > 2 else math.nan
    return PowerLaw(math.exp(a), b, correlation, spread, int(x.size))


def list_coarsest(lattice: Lattice, count: int) -> list[Node]:
    """List the nodes of the fewest cells, the coarsest first, without the node of a single cell."""
    nodes: list[Node] = []
    heap, seen = [(lattice.cells(lattice.heights), lattice.heights)], {lattice.heights}
    while heap and len(nodes) < count:
        cells, node = heapq.heappop(heap)
        if cells > 1:
            nodes.append(node)
        for finer in lattice.finer(node):
            if finer not in seen:
                seen.add(finer)
                heapq.heappush(heap, (lattice.cells(finer), finer))
    return nodes


def find_nearest(lattice: Lattice, cells: float) -> Node:
    """Find the node whose cell count is nearest; of equals, the one that is finer in the last attribute."""
    if lattice.size <= MAX_LISTED_NODES:
        return min(lattice.nodes(), key=lambda node: (abs(lattice.cells(node) - cells), node[::-1]))
    node = lattice.heights
    while True:
        finer = [candidate for candidate in lattice.finer(node) if lattice.cells(candidate) <= cells]
        if not finer:
            return node
        node = min(finer, key=lambda candidate: (lattice.cells(candidate), candidate[::-1]))


# --- a history of measurements: a law with a slope for every attribute, and an interval ------------------------------

MIN_POINTS = 4  # measurements with k above 1; fewer do not determine a slope
ONE_SIDED_LEVEL = 0.95  # each end of the interval is passed in one case of twenty
SLOPE_PENALTY = 1.0  # ridge weight that holds the slopes of attributes near the common one
MAX_FITS = 10  # rounds of choosing which measurements of k = 1 count
MIN_DEVIATION = 0.05  # of ln(k - 1): an exact fit to few points promises no exact prediction
MIN_FREEDOM = 0.05  # least 1 - leverage that a residual is divided by
LOG_OF_K_1 = math.log(0.5)  # where a class of one row, k - 1 = 0, stands on the scale of ln(k - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class HistoryLaw:
    """ln(k - 1) = ln a + sum over attributes of b_i ln(groups of i), slopes b_i held near a common one.

    With equal slopes this is the paper's k = a x^b + 1, x the number of cells. The interval is that of a new point
    under a linear model: residuals as they are when each point is left out in turn, a factor for how far the requested
    grouping is from what was measured, Student's quantile. The slope of an attribute that was never measured is
    taken to be the common one, give or take as much as the residuals.

    Source: Oguri et al. 2016, equation (1), as a regression in logarithms.
    """

    names: tuple[str, ...]
    weights: Reals  # intercept, common slope, then how each attribute differs
    covariance: Reals  # (X'X + P)^-1
    deviation: float
    quantile: float
    rows: int

    def predict(self, option: RequestOption, *, largest_possible: float = math.inf) -> tuple[float, float, float]:
        """Give the predicted k and the ends of the interval.

        Where k can be `largest_possible` at best, by a coarser grouping that was measured, and the law says more, the
        table is worse there than the law: the interval is then laid around that value, which is itself seldom reached.
        """
        x = _features(option, self.names)
        middle = min(float(x @ self.weights), math.log(max(largest_possible - 1, 0.5)))
        unmeasured = [grouping for name, grouping in option.items() if name not in self.names]
        new = sum(math.log(grouping.fineness) ** 2 for grouping in unmeasured) / SLOPE_PENALTY
        width = self.quantile * self.deviation * math.sqrt(1 + new + float(x @ self.covariance @ x))
        k, low, high = (_k_at(height, self.rows) for height in (middle, middle - width, middle + width))
        return k, math.floor(low), math.ceil(high)  # k is a whole number


def fit_history_law(
    measurements: Sequence[Measurement], options: Sequence[RequestOption], *, rows: int
) -> HistoryLaw | None:
    """Fit the law to measurements and their groupings (`options`); None if too few of them determine a slope.

    Measurements with k = 1 say only that k - 1 is below 1: they count, at one half, where the line runs above them, and
    not where it runs below. Everything left out, one cell, holds all rows: this point is always known.
    """
    names = tuple(sorted({name for option in options for name in option}))
    if sum(measurement.k > 1 and measurement.cells > 1 for measurement in measurements) < MIN_POINTS:
        return None
    x = np.array([_features({}, names), *(_features(option, names) for option in options)])
    y = np.array([_log_of(rows), *(_log_of(measurement.k) for measurement in measurements)])
    is_one = np.array([False, *(measurement.k <= 1 for measurement in measurements)])
    penalty = np.diag([1e-9, 1e-9, *([SLOPE_PENALTY] * len(names))])
    used = ~is_one
    for _ in range(MAX_FITS):
        inverse = np.linalg.inv(x[used].T @ x[used] + penalty)
        weights = inverse @ x[used].T @ y[used]
        used_next = ~is_one | (x @ weights > LOG_OF_K_1)
        if (used_next == used).all():
            break
        used = used_next
    leverage = np.einsum("ij,jk,ik->i", x[used], inverse, x[used])
    residuals = (y[used] - x[used] @ weights) / np.clip(1 - leverage, MIN_FREEDOM, None)
    degrees_of_freedom = max(1.0, float(used.sum()) - float(leverage.sum()))
    return HistoryLaw(
        names=names,
        weights=weights,
        covariance=inverse,
        deviation=max(MIN_DEVIATION, math.sqrt(float((residuals**2).mean()))),
        quantile=student_quantile(ONE_SIDED_LEVEL, degrees_of_freedom),
        rows=rows,
    )


def _features(option: RequestOption, names: tuple[str, ...]) -> Reals:
    """1, the logarithm of all cells, and that of the groups of each attribute of the history."""
    logs = {name: math.log(grouping.fineness) for name, grouping in option.items()}
    return np.array([1.0, sum(logs.values()), *(logs.get(name, 0.0) for name in names)])


def _log_of(k: int) -> float:
    return math.log(k - 1) if k > 1 else LOG_OF_K_1


def _k_at(height: float, rows: int) -> float:
    return 1.0 + math.exp(min(height, math.log(max(rows, 2))))


def student_quantile(share: float, degrees_of_freedom: float) -> float:
    """Give a quantile of Student's distribution, by its expansion about the normal one.

    >>> round(student_quantile(0.9, 10), 2), round(student_quantile(0.9, 1000), 2)
    (1.37, 1.28)
    """
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees_of_freedom + second / degrees_of_freedom**2 + third / degrees_of_freedom**3
