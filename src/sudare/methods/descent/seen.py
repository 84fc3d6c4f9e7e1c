"""Which children have a value already: exact membership of long keys at the price of one sorted array of words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Marks = NDArray[np.uint64]

ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)


class Seen:
    """A set of keys (rows of int64 words).

    A key's mark is one 64-bit word; keys with different marks differ, and keys with equal marks are compared in full.
    So marks save work and decide nothing.
    """

    def __init__(self, keys: Codes) -> None:
        """Hold keys that are all different."""
        self._keys = keys
        own = marks(keys)
        if bool((own[1:] >= own[:-1]).all()):
            self._order: Codes = np.arange(own.size)
        else:
            self._order = np.argsort(own)
        self._marks: Marks = own[self._order]

    def holds(self, keys: Codes) -> NDArray[np.bool_]:
        """Tell which keys are in the set.

        >>> Seen(np.array([[1, 2], [3, 4]])).holds(np.array([[3, 4], [4, 3]])).tolist()
        [True, False]
        """
        found = np.zeros(keys.shape[0], dtype=bool)
        if not self._marks.size:
            return found
        wanted = marks(keys)
        rising = np.argsort(wanted)  # a sorted search walks the set once, from end to end
        places = np.minimum(np.searchsorted(self._marks, wanted[rising]), self._marks.size - 1)
        hits = np.flatnonzero(self._marks[places] == wanted[rising])
        open_, places = rising[hits], places[hits]
        while open_.size:  # walk on through keys of one mark
            found[open_] |= (self._keys[self._order[places]] == keys[open_]).all(axis=1)
            places = places + 1
            goes_on = ~found[open_] & (places < self._marks.size)
            goes_on[goes_on] = self._marks[places[goes_on]] == wanted[open_[goes_on]]
            open_, places = open_[goes_on], places[goes_on]
        return found


def marks(keys: Codes) -> Marks:
    """One word per key; a single word stands for itself."""
    words = np.ascontiguousarray(keys).view(np.uint64)
    mixed: Marks = words[:, 0].copy()
    for index in range(1, words.shape[1]):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(ODD[index % 4]) + words[:, index]
    return mixed


def first_seen(keys: Codes) -> NDArray[np.bool_]:
    """Tell which keys stand for the first time in the list.

    >>> first_seen(np.array([[1, 2], [3, 4], [1, 2]])).tolist()
    [True, True, False]
    """
    own = marks(keys)
    rising = np.sort(own)
    is_twin = rising[1:] == rising[:-1]
    first = np.ones(keys.shape[0], dtype=bool)
    if is_twin.any():
        some = np.flatnonzero(np.isin(own, rising[1:][is_twin]))
        whole = np.lexsort(keys[some].T[::-1])  # stable: of equal keys the earlier comes first
        ordered = keys[some][whole]
        first[some[whole[1:][(ordered[1:] == ordered[:-1]).all(axis=1)]]] = False
    return first
