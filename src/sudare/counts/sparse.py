"""Arithmetic on sorted cell codes of one or more int64 words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError

Codes = NDArray[np.int64]


def merge(codes: Codes, values: Codes) -> tuple[Codes, Codes, int]:
    """Sort cells, add up duplicates, drop zeros; return codes, values and the exact total.

    >>> codes, values, total = merge(np.array([[5], [2], [5]]), np.array([1, 4, 2]))
    >>> codes.ravel().tolist(), values.tolist(), total
    ([2, 5], [4, 3], 7)
    """
    total = exact_sum(values)
    if total >= 2**63:
        raise ParameterError("the counts add up to more than {most}; aggregate them first", most=2**63 - 1)
    if codes.shape[0] > 1 and not is_increasing(codes):
        order = np.argsort(codes[:, 0]) if codes.shape[1] == 1 else np.lexsort(codes.T[::-1])  # word 0 counts most
        codes, values = codes[order], values[order]
        starts = np.flatnonzero(np.concatenate(([True], (codes[1:] != codes[:-1]).any(axis=1))))
        codes, values = codes[starts], np.add.reduceat(values, starts)
    if values.size and not values.all():
        codes, values = codes[values != 0], values[values != 0]
    return codes, values, total


def is_increasing(codes: Codes) -> bool:
    """Tell whether rows are already sorted and unique, so that a table from an engine is not sorted twice."""
    undecided = np.ones(codes.shape[0] - 1, dtype=bool)
    for word in codes.T:
        if bool((undecided & (word[1:] < word[:-1])).any()):
            return False
        undecided &= word[1:] == word[:-1]
    return not bool(undecided.any())


def exact_sum(values: Codes) -> int:
    """Add int64 numbers to a Python integer, so that nothing wraps.

    >>> exact_sum(np.array([2**62, 2**62, 2**62]))
    13835058055282163712
    """
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def readonly(array: Codes) -> Codes:
    """A contiguous copy-if-needed that nobody can write to."""
    frozen = np.ascontiguousarray(array, dtype=np.int64)
    if frozen.flags.writeable:
        frozen = frozen.view()
        frozen.flags.writeable = False
    return frozen
