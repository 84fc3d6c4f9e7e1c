"""Coarse bins of about equal mass, made of noisy histograms alone: pairs of attributes are measured over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sudare.schema import Attribute

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]


def coarse_bins(mass: Reals, order: Codes, wanted: int) -> Codes:
    """Give every value its bin: neighbours in `order` share one of about total/wanted, a heavy value stands alone.

    >>> coarse_bins(np.array([1.0, 1.0, 6.0, 1.0, 1.0]), np.arange(5), 4).tolist()
    [0, 0, 1, 2, 2]
    """
    if mass.size <= wanted:
        return np.argsort(order, kind="stable").astype(np.int64)
    limit = max(float(mass.sum()), 1e-9) / wanted
    bins = np.empty(mass.size, dtype=np.int64)
    current, filled, is_alone = 0, 0.0, False
    for position, value in enumerate(order):
        heavy = mass[value] >= limit
        opens = position > 0 and (heavy or is_alone or filled + mass[value] / 2 > limit)
        if opens:
            current, filled = current + 1, 0.0
        bins[value] = current
        filled, is_alone = filled + float(mass[value]), bool(heavy)
    return bins


def value_order(attribute: Attribute) -> Codes:
    """The order in which values are put in bins: groups of the hierarchy together, else as declared."""
    codes = np.arange(attribute.size, dtype=np.int64)
    hierarchy = attribute.hierarchy
    if hierarchy is None or attribute.is_ordered:
        return codes
    keys = [hierarchy.lift(codes, level) for level in range(1, hierarchy.height + 1)]
    return np.lexsort((codes, *keys)).astype(np.int64)
