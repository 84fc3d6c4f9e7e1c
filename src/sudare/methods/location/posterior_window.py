"""The likeliest place around every report, when people are not equally likely everywhere."""

from __future__ import annotations

import math

import numpy as np

from sudare.methods.location.grid import Numbers, PlaneGrid, metres_from
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.tight import offsets


def largest_nearby(mechanism: Mechanism, values: Numbers) -> Numbers:
    """max over x of values(x) exp(-beta d(x, y)), for every reportable cell y.

    On a grid offsets are visited from the shortest, until the largest value of all, that far away, is below what every
    cell already has.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=1, columns=3, cell_height_metres=100, cell_width_metres=100)
    >>> made = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.full(3, ONE))
    >>> largest_nearby(made, np.array([1.0, 0.1, 0.1])).round(3).tolist()
    [1.0, 0.368, 0.135]
    """
    grid = mechanism.places
    if not isinstance(grid, PlaneGrid):
        rows = [values * np.exp(-mechanism.beta * metres_from(grid, cell)) for cell in range(grid.size)]
        return np.array([row.max() for row in rows])
    best, top = values.reshape(grid.shape).copy(), float(values.max())
    source, told = values.reshape(grid.shape), (mechanism.weights > 0).reshape(grid.shape)
    for down, right, metres in offsets(grid):
        fade = math.exp(-mechanism.beta * metres)
        if top * fade <= float(best[told].min()):
            break
        for one, other in _pairs(grid.shape, down, right):
            np.maximum(best[one], source[other] * fade, out=best[one])
    return best.reshape(-1)


def _pairs(shape: tuple[int, int], down: int, right: int) -> list[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Slices of cells this far apart, both ways."""
    rows, columns = shape
    upper, lower = slice(0, rows - down), slice(down, rows)
    left, far = slice(0, columns - abs(right)), slice(abs(right), columns)
    first, second = ((upper, left), (lower, far)) if right >= 0 else ((upper, far), (lower, left))
    return [(first, second), (second, first)]
