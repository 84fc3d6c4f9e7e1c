"""How k falls with the number of cells: the paper's power law, k = a x^b + 1, and the node to start from.

Source: Oguri, Sonehara, Matsui, Aghdam 2016, formulas (1) and (2).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sudare.methods.kanon.lattice import Lattice, Node

MOST_LISTED = 2**16  # nodes: beyond, the nearest one is sought along a path instead of in the list of all


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """k = a x^b + 1 for x cells, fitted to `points` points; `correlation` is that of ln(k - 1) with ln x.

    `spread` is the standard deviation of ln(k - 1) around the line, nan for two points.

    >>> law = power_law([(2, 51), (4, 26), (8, 13.5)])
    >>> round(law.a), round(law.b, 3), round(law.cells_for(11))
    (100, -1.0, 10)
    """

    a: float
    b: float
    correlation: float
    spread: float
    points: int

    def k_at(self, cells: float) -> float:
        """Foretell k."""
        return float(self.a * cells**self.b + 1)

    def cells_for(self, k: float) -> float:
        """Foretell how many cells still reach k; infinity if the law does not fall, or hardly."""
        if self.b >= 0:
            return math.inf
        try:
            return float(((k - 1) / self.a) ** (1 / self.b))
        except OverflowError:
            return math.inf


def power_law(points: Iterable[tuple[int, float]]) -> PowerLaw | None:
    """Fit the line ln(k - 1) = ln a + b ln x by least squares; None without two different x.

    Points with k = 1 are left out: they say that k has reached its floor, not where. The paper prints b as the
    logarithm of a slope of unlogged values; that is no power law, and the fit here is what its figures show.
    """
    used = [(math.log(cells), math.log(k - 1)) for cells, k in points if k > 1]
    if len({x for x, _ in used}) < 2:
        return None
    x, y = np.array(used).T
    away = x - x.mean()
    b = float(np.dot(away, y) / np.dot(away, away))
    a = float(y.mean() - b * x.mean())
    rest = y - a - b * x
    scale = float(np.sqrt(np.dot(away, away) * np.dot(y - y.mean(), y - y.mean())))
    correlation = float(np.dot(away, y - y.mean())) / scale if scale else 0.0
    spread = math.sqrt(float(np.dot(rest, rest)) / (x.size - 2)) if x.size > 2 else math.nan
    return PowerLaw(math.exp(a), b, correlation, spread, int(x.size))


def coarsest(lattice: Lattice, count: int) -> list[Node]:
    """List the nodes of the fewest cells, the coarsest first, without the one that tells nothing apart."""
    found: list[Node] = []
    heap, seen = [(lattice.cells(lattice.heights), lattice.heights)], {lattice.heights}
    while heap and len(found) < count:
        cells, node = heapq.heappop(heap)
        if cells > 1:
            found.append(node)
        for finer in lattice.finer(node):
            if finer not in seen:
                seen.add(finer)
                heapq.heappush(heap, (lattice.cells(finer), finer))
    return found


def nearest(lattice: Lattice, cells: float) -> Node:
    """Find the node whose cell count is nearest; of equals, the one that is finer in the last attribute."""
    if lattice.size <= MOST_LISTED:
        return min(lattice.nodes(), key=lambda node: (abs(lattice.cells(node) - cells), node[::-1]))
    node = lattice.heights
    while True:
        steps = [one for one in lattice.finer(node) if lattice.cells(one) <= cells]
        if not steps:
            return node
        node = min(steps, key=lambda one: (lattice.cells(one), one[::-1]))
