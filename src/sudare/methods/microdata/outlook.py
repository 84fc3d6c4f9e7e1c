"""How far a published table will be from the truth, foreseen for a table of a usual shape.

What the noise does depends on how the records lie in the cells, which is private. So it is foreseen for the shape most
tables of people have: a long tail (Zipf), the k-th fullest possible cell holding n/(k H) records. All numbers here are
floats about public facts; nothing is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

BINS_PER_DECADE = 40
SMALL = 2.0  # scale of noise up to which its steps are summed one by one; beyond it, it is as good as smooth
STEPS = np.arange(-200.0, 201.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What the nearest valid table of a long-tailed table with `rows` records is expected to be like."""

    rows: int
    l2: float
    empty_share: float
    relative_l2: float  # against the length of the true table: from 1/2 on, the table says little

    def to_dict(self) -> dict[str, float]:
        """Plain numbers."""
        shares = {"empty_share": round(self.empty_share, 4), "relative_l2": round(self.relative_l2, 4)}
        return {"rows": self.rows, "l2": round(self.l2, 1), **shares}


def outlook(*, cells: int, scale: float, rows: int) -> Outlook:
    """Foresee L2 distance and the share of records in cells that truly hold nobody.

    The threshold T solves: expected records above T, over full and empty cells, = rows (as in proofs/zeros.md).

    >>> outlook(cells=10**9, scale=20.0, rows=10**6).empty_share > 0.5
    True
    >>> outlook(cells=100, scale=2.0, rows=10**6).empty_share < 0.01
    True
    """
    if rows == 0:
        return Outlook(rows=0, l2=0.0, empty_share=0.0, relative_l2=0.0)
    values, weights = long_tail(cells, rows)
    reach = scale * (math.log(cells) + 10)  # hardly any of so many cells has more noise
    low, high = -reach, float(values.max()) + reach
    for _ in range(80):
        middle = (low + high) / 2
        above, _ = _moments(values, middle, scale)
        low, high = (middle, high) if float(weights @ above) > rows else (low, middle)
    above, square = _moments(values, high, scale)
    empty = float(weights[values == 0] @ above[values == 0])
    l2, length = math.sqrt(float(weights @ square)), math.sqrt(float(weights @ values**2))
    return Outlook(rows=rows, l2=l2, empty_share=min(1.0, empty / rows), relative_l2=l2 / length)


def long_tail(cells: int, rows: int) -> tuple[Reals, Reals]:
    """Values of the cells and how many cells have each: Zipf in logarithmic bins, filled or not by chance.

    >>> values, weights = long_tail(1000, 500)
    >>> round(float(weights.sum())), round(float(values @ weights))
    (1000, 500)
    """
    edges = np.unique(np.floor(np.geomspace(1, float(cells) + 1, 2 + int(BINS_PER_DECADE * math.log10(cells + 1)))))
    size = np.diff(edges) if edges.size > 1 else np.array([float(cells)])
    middle = np.sqrt(edges[:-1] * np.maximum(edges[1:] - 1, edges[:-1])) if edges.size > 1 else np.array([1.0])
    mean = rows * (1 / middle) / float((size / middle).sum())
    full = -np.expm1(-mean)  # records fall as they fall: a cell of this mean is filled with this probability
    values = np.append(mean / full, 0.0)
    weights = np.append(size * full, float((size * (1 - full)).sum()))
    return values, weights


def _moments(values: Reals, level: float, scale: float) -> tuple[Reals, Reals]:
    """What is published of a cell, max(value + noise - level, 0): its mean, and its mean square away from the value."""
    if scale > SMALL:
        return _smooth(values, level, scale)
    chances = np.exp(-np.abs(STEPS) / scale)
    chances /= chances.sum()
    published = np.maximum(values[:, None] + STEPS - level, 0.0)
    return published @ chances, ((published - values[:, None]) ** 2) @ chances


def _smooth(values: Reals, level: float, scale: float) -> tuple[Reals, Reals]:
    """The same under Laplace noise, in closed form: integrals of its density on either side of 0.

    >>> means, squares = _smooth(np.array([0.0, 100.0]), 5.0, 3.0)
    >>> [round(float(one), 3) for one in (*means, *squares)]
    [0.283, 95.0, 1.7, 43.0]
    """
    short = level - values  # what the noise must bring for anything to be published
    tail = np.exp(-np.abs(short) / scale)
    mean = np.where(short >= 0, 0.0, -short) + tail * scale / 2
    beyond = values**2 + tail * scale * (scale - values)
    within = 2 * scale**2 + level**2 - tail * scale * (values + scale)
    return mean, np.where(short >= 0, beyond, within)
