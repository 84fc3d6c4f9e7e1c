"""Codes of an attribute as a published column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sudare.releases import Coded
from sudare.schema import Attribute

FEW = 2**16


def coded(attribute: Attribute, codes: NDArray[np.int64]) -> Coded:
    """Pair codes with the labels they need: all of a small domain, only those present of a large one.

    >>> from sudare.schema import Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> coded(sex, np.array([1, 0])).decode().tolist()
    ['M', 'F']
    """
    if attribute.size <= FEW:
        return Coded(codes, attribute.labels(np.arange(attribute.size)))
    present, places = np.unique(codes, return_inverse=True)
    return Coded(places.astype(np.int64), attribute.labels(present))
