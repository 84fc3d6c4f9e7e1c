"""Many small tables at once: rows of children that must be non-negative and add up to their parent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


def project_rows(rows: Reals, totals: Reals) -> Reals:
    """Find for every row the nearest point of {x >= 0, sum x = total of the row}.

    By sorting: with u the row in falling order, the threshold is that of the largest k with u_k > (sum of the first k
    of u - total)/k. Entries of minus infinity stay 0, so that rows of unequal length can be padded.

    >>> project_rows(np.array([[3.0, 1.0, -5.0]]), np.array([2.0])).tolist()
    [[2.0, 0.0, 0.0]]
    """
    falling = -np.sort(-rows, axis=1)
    known = np.isfinite(falling)
    excess = np.cumsum(np.where(known, falling, 0.0), axis=1) - totals[:, None]
    levels = excess / np.arange(1, rows.shape[1] + 1)
    is_active = known & (falling > levels)
    last = rows.shape[1] - 1 - np.argmax(is_active[:, ::-1], axis=1)
    level = np.take_along_axis(levels, last[:, None], axis=1)
    nearest = np.maximum(rows - level, 0.0)
    nearest[totals <= 0] = 0.0
    return nearest
