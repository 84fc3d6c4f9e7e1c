"""Equal keys together: the inner loop of every check."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sudare.schema.arrays import Codes

DENSE = 4  # keys are counted in place up to this many places per key, and sorted beyond
ROOM = 2**22  # places for the leaders of keys, made once: they are never cleared, so that many cost no more than few
SPARSE, MOST_ROOM = 64, 2**24  # more places for many keys, up to 128 MB


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of equal keys, numbered in the order of the keys; `first[g]` is the place of one key of group g.

    Either `order` sorts the keys and the groups begin at `starts` of it, or (`order` None) keys were counted in place
    and the keys that occur are `starts`, of `places` possible ones.
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
            rank[self.starts] = counting(self.count)
            return rank[self.key]
        ids = np.empty(self.key.size, dtype=np.int64)
        ids[self.order] = np.repeat(counting(self.count), np.diff(self.starts, append=self.key.size))
        return ids

    def totals(self, weights: Codes) -> Codes:
        """Add up weights by group, exactly (below 2**53)."""
        if self.order is None:
            sums = np.bincount(self.key, weights=weights, minlength=self.places)
            return sums[self.starts].astype(np.int64)
        return np.add.reduceat(weights[self.order], self.starts) if self.count else self.starts


_COUNTING = [np.arange(1024)]


def counting(size: int) -> Codes:
    """Give 0, 1, ..., size - 1, read-only: made once, since fresh memory costs more than the numbers."""
    if _COUNTING[0].size < size:
        _COUNTING[0] = np.arange(2 * size)
        _COUNTING[0].flags.writeable = False
    return _COUNTING[0][:size]


def grouped(key: Codes, places: int) -> Groups:
    """Group keys between 0 and `places`.

    >>> groups = grouped(np.array([5, 2, 5]), 6)
    >>> groups.ids.tolist(), groups.totals(np.array([1, 10, 100])).tolist()
    ([1, 0, 1], [10, 101])
    """
    if places <= DENSE * key.size + 64:
        return _counted(key, places)
    return _sorted(key, places)


class Scratch(threading.local):
    """Memory that is written again and again, one for each thread: fresh memory costs more than what is put into it.

    What `of` hands out holds anything, until the next one of the same name is asked for.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Codes] = {}

    def of(self, name: str, size: int) -> Codes:
        """Give room for so many codes."""
        known = self._kept.get(name)
        if known is None or known.size < size:
            known = self._kept[name] = np.empty(max(size, ROOM), dtype=np.int64)  # takes memory only where written
        return known[:size]


SCRATCH = Scratch()


def room(size: int) -> int:
    """Tell among how many places the leaders of so many keys are looked up; beyond, keys are sorted."""
    return max(ROOM, min(SPARSE * size, MOST_ROOM), DENSE * size)


def leaders(key: Codes, places: int) -> Codes:
    """Find, for every key, the place of the one that leads its group: the same for equal keys, itself for one of them.

    What it hands back is scratch: it holds until the next call.

    >>> leaders(np.array([5, 2, 5]), 6).tolist()
    [2, 1, 2]
    """
    if places <= room(key.size):
        last = SCRATCH.of("places", places)
        last[key] = counting(key.size)  # the last of equal keys stays
        return last.take(key, mode="clip", out=SCRATCH.of("leaders", key.size))  # "raise" would copy first
    found = _sorted(key, places)
    return found.first.take(found.ids)


def numbered(key: Codes, places: int) -> tuple[Codes, Codes]:
    """Number the groups of equal keys without gaps, in any order, and find the place of one key of each.

    >>> numbered(np.array([5, 2, 5]), 6)
    (array([1, 0, 1]), array([1, 2]))
    """
    lead = leaders(key, places)
    own = np.flatnonzero(lead == counting(lead.size))
    number = SCRATCH.of("numbers", lead.size)
    number[own] = counting(own.size)
    return number.take(lead), own


def _counted(key: Codes, places: int) -> Groups:
    is_held = np.zeros(places, dtype=bool)  # a byte a place: far fewer than counts would take
    is_held[key] = True
    starts = np.flatnonzero(is_held)
    held = np.empty(places, dtype=np.int64)
    held[key] = counting(key.size)
    return Groups(held[starts], key, None, starts, places)


def _sorted(key: Codes, places: int) -> Groups:
    """Sort keys with their places packed into one word, which NumPy sorts several times faster than by argsort."""
    bits = max(1, int(key.size - 1).bit_length())
    if places < 2 ** (63 - bits):
        packed = np.sort((key << bits) | counting(key.size))
        order, values = packed & ((1 << bits) - 1), packed >> bits
    else:
        order = np.argsort(key, kind="stable")
        values = key[order]
    is_new = np.empty(key.size, dtype=bool)
    is_new[:1] = True
    np.not_equal(values[1:], values[:-1], out=is_new[1:])
    starts = np.flatnonzero(is_new)
    return Groups(order[starts], key, order, starts, places)
