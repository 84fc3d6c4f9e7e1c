"""One-sided geometric values at any exact rational scale, by the same split into small tables as two-sided noise."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms.geometric import DIGIT_BITS, LARGEST_DIRECT_SCALE, LARGEST_TOP_SCALE, Split
from sudare.mechanisms.laws import OneSidedGeometric, TruncatedGeometric
from sudare.mechanisms.machine import CHUNK, table_machine
from sudare.mechanisms.rng import Rng


def one_sided_noise(size: int, *, scale: Fraction, rng: Rng) -> NDArray[np.int64]:
    """Draw independent values with P[G = k] = (1-a) a^k, k >= 0, a = exp(-1/scale).

    G = 2^m * H + sum of 256^i * D_i: H one-sided geometric of ratio a^(2^m), D_i geometric of ratio a^(256^i) truncated
    to one digit, all independent (the binary digits of a geometric value are).

    >>> from sudare.mechanisms.rng import SeededRng
    >>> bool((one_sided_noise(1000, scale=Fraction(500), rng=SeededRng(1)) >= 0).all())
    True
    """
    split = split_one_sided(scale)
    out = np.empty(size, dtype=np.int64)
    for start in range(0, size, CHUNK):
        split.sample_into(out[start : start + CHUNK], rng)
    return out


@functools.lru_cache(maxsize=128, typed=True)
def split_one_sided(scale: Fraction) -> Split:
    """Cut a scale into tables, as `geometric.split_scale` does.

    >>> split_one_sided(Fraction(1000)).shift
    6
    """
    shift = 0
    while scale > LARGEST_DIRECT_SCALE and scale > LARGEST_TOP_SCALE * 2**shift:
        shift += 1
    digits = []
    for place in range(0, shift, DIGIT_BITS):
        law = TruncatedGeometric(scale=scale / 2**place, size=2 ** min(DIGIT_BITS, shift - place))
        digits.append((place, table_machine(law)))
    return Split(top=table_machine(OneSidedGeometric(scale=scale / 2**shift)), shift=shift, digits=tuple(digits))
