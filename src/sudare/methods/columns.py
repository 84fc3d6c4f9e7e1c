"""Codes of an attribute as a published column: its labels, or values drawn inside its bins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.noise import Rng
from sudare.noise.uniform import draw_inside_bins, draw_whole_inside_bins
from sudare.releases import Coded
from sudare.schema import Attribute, DateBins, NumberBins
from sudare.schema.arrays import Codes

FEW = 2**16


def coded(attribute: Attribute, codes: Codes) -> Coded:
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


def drawn_inside(attribute: Attribute, codes: Codes, *, rng: Rng) -> Coded | NDArray[Any]:
    """Draw a value uniformly inside the bin of each code; other attributes keep their labels.

    Bins with whole edges give whole numbers, days give days. (other) and missing give no value. The draw is public
    randomness: it adds nothing that the bin did not say.

    >>> from sudare.noise import SeededRng
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 20))
    >>> 20 <= int(drawn_inside(age, np.array([1]), rng=SeededRng(1))[0]) < 40
    True
    """
    domain = attribute.domain
    if isinstance(domain, NumberBins):
        values = _numbers(domain.edges, np.minimum(codes, domain.size - 1), rng)
    elif isinstance(domain, DateBins):
        values = _days(domain.edges, np.minimum(codes, domain.size - 1), rng)
    else:
        return coded(attribute, codes)
    outside = codes >= domain.size
    return np.ma.array(values, mask=outside) if bool(outside.any()) else values


def _numbers(edges: Sequence[Fraction], codes: Codes, rng: Rng) -> NDArray[Any]:
    if all(edge.denominator == 1 for edge in edges):
        return draw_whole_inside_bins(np.array([int(edge) for edge in edges]), codes, rng=rng)
    low = np.array([float(edge) for edge in edges])
    return draw_inside_bins(low, codes, rng=rng)


def _days(edges: Sequence[date], codes: Codes, rng: Rng) -> NDArray[Any]:
    days = np.array([edge.toordinal() for edge in edges]) - date(1970, 1, 1).toordinal()
    return draw_whole_inside_bins(days, codes, rng=rng).astype("datetime64[D]")
