"""The cells of a rectangle along a Hilbert curve: neighbours on the curve are neighbours in the rectangle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def hilbert_order(rows: int, columns: int) -> Numbers:
    """List the cells (row * columns + column) in the order of the curve through the smallest square of 2^k a side.

    Places of the square outside the rectangle are left out, which is public.

    >>> hilbert_order(2, 2).tolist()
    [0, 1, 3, 2]
    """
    row, column = np.indices((rows, columns)).reshape(2, -1)
    bits = max(rows - 1, columns - 1).bit_length()
    return np.argsort(hilbert_place(row, column, bits), kind="stable")


def hilbert_place(x: Numbers, y: Numbers, bits: int) -> Numbers:
    """The distance along the curve from its start to (x, y), in a square of 2^bits a side.

    >>> hilbert_place(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]), 1).tolist()
    [0, 1, 2, 3]
    """
    x, y = x.copy(), y.copy()
    found = np.zeros_like(x)
    side = 1 << bits
    for power in reversed(range(bits)):
        right, top = (x >> power) & 1, (y >> power) & 1
        found += ((3 * right) ^ top) << (2 * power)
        turned = (top == 0) & (right == 1)
        x, y = np.where(turned, side - 1 - x, x), np.where(turned, side - 1 - y, y)
        swapped = top == 0
        x, y = np.where(swapped, y, x), np.where(swapped, x, y)
    return found
