"""Group equal keys: the innermost work of every check of a node.

A key is a whole number that stands for a combination of codes, below a known bound (`places`). Where the bound is near
the number of keys they are counted in an array with a place for every possible key; beyond, they are sorted.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.schema.arrays import Codes

Positions = NDArray[np.int32] | NDArray[np.int64]

# Limits between counting and sorting. They change the time and the memory, not the result.
DENSE_PLACES_PER_KEY = 4  # keys are counted up to so many places for each key, and sorted beyond
SCRATCH_PLACES = 2**22  # always allowed for leaders: made once and never cleared, so that many cost no more than few
SPARSE_PLACES_PER_KEY, MAX_SPARSE_PLACES = 64, 2**24  # allowed for the leaders of many keys, up to 64 MB


@dataclass(frozen=True, eq=False)
class KeyGroups:
    """Groups of equal keys, numbered in the order of the keys; `first[g]` is the position of one key of group g.

    Either `order` sorts the keys and the groups begin at `starts` of it, or (`order` None) keys were counted and those
    that occur are `starts`, of `places` possible ones.
    """

    first: Codes
    key: Codes
    order: Codes | None
    starts: Codes
    places: int

    @property
    def count(self) -> int:
        """Count the groups."""
        return int(self.first.size)

    @cached_property
    def ids(self) -> Codes:
        """Find the group of every key."""
        if self.order is None:
            rank = np.empty(self.places, dtype=np.int64)
            rank[self.starts] = shared_arange(self.count)
            return rank[self.key]
        ids = np.empty(self.key.size, dtype=np.int64)
        ids[self.order] = np.repeat(shared_arange(self.count), np.diff(self.starts, append=self.key.size))
        return ids

    def totals(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Add up weights by group, whole numbers exactly (below 2**53)."""
        if self.order is None:
            sums = np.bincount(self.key, weights=weights, minlength=self.places)
            return sums[self.starts].astype(weights.dtype)
        return np.add.reduceat(weights[self.order], self.starts) if self.count else self.starts


_ARANGES: dict[type[np.integer[Any]], NDArray[Any]] = {}


def shared_arange(size: int, dtype: type[np.integer[Any]] = np.int64) -> NDArray[Any]:
    """Give 0, 1, ..., size - 1, read-only: made once, since fresh memory costs more than the numbers."""
    known = _ARANGES.get(dtype)
    if known is None or known.size < size:
        known = _ARANGES[dtype] = np.arange(max(1024, 2 * size), dtype=dtype)
        known.flags.writeable = False
    return known[:size]


def group_keys(key: Codes, places: int) -> KeyGroups:
    """Group keys between 0 and `places`.

    >>> groups = group_keys(np.array([5, 2, 5]), 6)
    >>> groups.ids.tolist(), groups.totals(np.array([1, 10, 100])).tolist()
    ([1, 0, 1], [10, 101])
    """
    if places <= DENSE_PLACES_PER_KEY * key.size + 64:
        return _group_by_counting(key, places)
    return _group_by_sorting(key, places)


class Scratch(threading.local):
    """Arrays that are written again and again, for each thread its own: fresh memory costs more than filling it.

    What `array` gives is not cleared, and is valid until the next call with the same name.
    """

    def __init__(self) -> None:
        self._kept: dict[str, NDArray[Any]] = {}

    def array(self, name: str, size: int, dtype: type[np.integer[Any]] = np.int64) -> NDArray[Any]:
        """Give an array of so many whole numbers."""
        known = self._kept.get(name)
        if known is None or known.size < size:
            # large at once: it takes memory only where it is written
            known = self._kept[name] = np.empty(max(size, SCRATCH_PLACES), dtype=dtype)
        return known[:size]


SCRATCH = Scratch()


def lookup_capacity(size: int) -> int:
    """Tell up to how many places the leaders of so many keys are looked up in an array; beyond, keys are sorted."""
    return max(SCRATCH_PLACES, min(SPARSE_PLACES_PER_KEY * size, MAX_SPARSE_PLACES), DENSE_PLACES_PER_KEY * size)


def find_leaders(key: Codes, places: int) -> Positions:
    """Find, for every key, the position of its leader: the same for equal keys, its own for one of them.

    The result is scratch memory: it is valid until the next call. Positions take half a word where they fit, since most
    of the time goes into waiting for memory.

    >>> find_leaders(np.array([5, 2, 5]), 6).tolist()
    [2, 1, 2]
    """
    if places <= lookup_capacity(key.size) and key.size < 2**31:
        last = SCRATCH.array("places", places, np.int32)
        last[key] = shared_arange(key.size, np.int32)  # the last of equal keys stays
        return last.take(key, mode="clip", out=SCRATCH.array("leaders", key.size, np.int32))  # "raise" would copy first
    groups = _group_by_sorting(key, places)
    return groups.first.take(groups.ids)


def list_leaders(leader_of: Positions) -> Codes:
    """List the positions that are their own leaders, one for each different key."""
    return np.flatnonzero(leader_of == shared_arange(leader_of.size, leader_of.dtype.type))


def number_keys(key: Codes, places: int) -> tuple[Codes, Codes]:
    """Number the groups of equal keys without gaps, in any order, and find the position of one key of each.

    >>> number_keys(np.array([5, 2, 5]), 6)
    (array([1, 0, 1]), array([1, 2]))
    """
    leader_of = find_leaders(key, places)
    leaders = list_leaders(leader_of)
    number = SCRATCH.array("numbers", leader_of.size)
    number[leaders] = shared_arange(leaders.size)
    return number.take(leader_of), leaders


def _group_by_counting(key: Codes, places: int) -> KeyGroups:
    occurs = np.zeros(places, dtype=bool)  # a byte a place: far fewer than counts would take
    occurs[key] = True
    starts = np.flatnonzero(occurs)
    position = np.empty(places, dtype=np.int64)
    position[key] = shared_arange(key.size)
    return KeyGroups(position[starts], key, None, starts, places)


def _group_by_sorting(key: Codes, places: int) -> KeyGroups:
    """Sort keys with their positions packed into one word, which NumPy sorts several times faster than by argsort."""
    bits = max(1, int(key.size - 1).bit_length())
    if places < 2 ** (63 - bits):
        packed = np.sort((key << bits) | shared_arange(key.size))
        order, values = packed & ((1 << bits) - 1), packed >> bits
    else:
        order = np.argsort(key, kind="stable")
        values = key[order]
    is_new = np.empty(key.size, dtype=bool)
    is_new[:1] = True
    np.not_equal(values[1:], values[:-1], out=is_new[1:])
    starts = np.flatnonzero(is_new)
    return KeyGroups(order[starts], key, order, starts, places)
