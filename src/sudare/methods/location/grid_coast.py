"""A coast that ships with the project: land shares of a bay, capes and islands, made by a formula. No real place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sudare.methods.location.grid import Numbers

Flags = NDArray[np.bool_]

FINE = 4  # points a side at which a cell is looked at


def coast(rows: int, columns: int) -> Numbers:
    """Share of land of every cell, in sixteenths, rows from the top: sea below, a bay, islands, a river mouth.

    >>> shares = coast(40, 40)
    >>> shares.shape, bool((shares == 0).any()), bool((shares == 1).any()), bool(((shares > 0) & (shares < 1)).any())
    ((40, 40), True, True, True)
    """
    down = (np.arange(rows * FINE) + 0.5)[:, None] / (rows * FINE)
    right = (np.arange(columns * FINE) + 0.5)[None, :] / (columns * FINE)
    is_land = (down < _shore(right)) & ~_bay(down, right) & ~_river(down, right) | _islands(down, right)
    shares: Numbers = is_land.reshape(rows, FINE, columns, FINE).mean(axis=(1, 3))
    return shares


def _shore(right: Numbers) -> Numbers:
    """How far down the land reaches: waves of ever shorter length, as a real coast has them."""
    waves = ((0.10, 1.3, 0.4), (0.05, 3.7, 1.9), (0.025, 8.1, 0.3), (0.012, 17.9, 2.6), (0.006, 39.0, 5.1))
    return np.asarray(0.66 + sum(size * np.sin(2 * np.pi * (often * right + shift)) for size, often, shift in waves))


def _bay(down: Numbers, right: Numbers) -> Flags:
    wobble = 0.02 * np.sin(25 * down) + 0.01 * np.sin(61 * right)
    return np.asarray(((right - 0.62 + wobble) / 0.17) ** 2 + ((down - 0.62) / 0.30) ** 2 < 1)


def _river(down: Numbers, right: Numbers) -> Flags:
    return np.asarray(np.abs(right - 0.22 - 0.05 * np.sin(9 * down)) < 0.004 + 0.010 * down)


def _islands(down: Numbers, right: Numbers) -> Flags:
    spots = ((0.86, 0.22, 0.035), (0.92, 0.30, 0.012), (0.60, 0.61, 0.03), (0.90, 0.83, 0.045), (0.70, 0.67, 0.012))
    return np.asarray(np.any([(down - y) ** 2 + (right - x) ** 2 < size**2 for y, x, size in spots], axis=0))
