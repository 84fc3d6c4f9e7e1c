"""People in nodes that are empty in truth, without a draw at every level.

A node that is empty in truth has D* = Z, so its sum S drifts left or right whole, with equal chances, until a noise
small against S splits it. How many levels that takes, and how it is split then, have laws of their own:

    G(l) = P[left half <= l] = (F(2l - S) + F(2l - S + 1))/2, l < S     F the distribution of Z, halves by fair coins
    P[drifts at least j levels] = (1 - p)^j,  p = G(S-1) - G(0)          p = 0 for a single person
    P[left half <= l | split] = (G(l) - G(0))/p,  0 < l < S

Both are drawn exactly by the table machine, and the bits of the drift are fair. So a node costs its splits, not its
levels, and the law of the table is the one of opening every level. Proof: proofs/wavelet.md
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms import Rng
from sudare.mechanisms.enclosure import Enclosure, enclose
from sudare.mechanisms.laws import Law, TwoSidedGeometric
from sudare.mechanisms.machine import TableMachine
from sudare.methods.table.morton import WORD_BITS, CellOrder

Numbers = NDArray[np.int64]

LARGEST_DRIFT = 32  # larger sums split often, and each sum needs tables of its own
FEWEST_DRIFTS = 4096  # at once: below, opening level by level is cheaper than making the tables
TABLES_KEPT = 3 * LARGEST_DRIFT
ENCLOSURES_KEPT = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Staying:
    """How many levels a sum drifts before it splits, counted up to `most`."""

    scale: Fraction
    people: int
    most: int

    @property
    def low(self) -> int:
        """None: it may split at once."""
        return 0

    @property
    def high(self) -> int:
        """All levels."""
        return self.most

    @property
    def log_ratio(self) -> None:
        """Nothing is promised: this number is a means to draw a table whose law is promised."""

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        """Bound 2**bits * P[X <= k] = 1 - (1 - p)^(k+1) by integers at most 2 apart."""
        return enclose(lambda more: 1 - (1 - _split(self.scale, self.people, more)) ** (k + 1), bits)


@dataclass(frozen=True, kw_only=True, slots=True)
class Splitting:
    """The left half of a sum that splits: 1 to people - 1."""

    scale: Fraction
    people: int

    @property
    def low(self) -> int:
        """One."""
        return 1

    @property
    def high(self) -> int:
        """All but one."""
        return self.people - 1

    @property
    def log_ratio(self) -> None:
        """Nothing is promised: this number is a means to draw a table whose law is promised."""

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        """Bound 2**bits * P[left <= k | split] by integers at most 2 apart."""
        if 2 * k == self.people - 1:  # one half by symmetry; an enclosure of an integer would never decide
            return (1 << bits) // 2, (1 << bits) // 2
        return enclose(lambda more: self._below(k, more), bits)

    def _below(self, k: int, bits: int) -> Enclosure:
        first = _at_most(self.scale, self.people, 0, bits)
        return (_at_most(self.scale, self.people, k, bits) - first) / _split(self.scale, self.people, bits)


@functools.lru_cache(maxsize=ENCLOSURES_KEPT)
def _at_most(scale: Fraction, people: int, left: int, bits: int) -> Enclosure:
    """Enclose G(left)."""
    law = TwoSidedGeometric(scale=scale)
    lows, highs = zip(*(law.threshold(2 * left - people + step, bits) for step in (0, 1)), strict=True)
    return Enclosure(sum(lows) // 2, -(-sum(highs) // 2), bits)


@functools.lru_cache(maxsize=ENCLOSURES_KEPT)
def _split(scale: Fraction, people: int, bits: int) -> Enclosure:
    """Enclose p."""
    return _at_most(scale, people, people - 1, bits) - _at_most(scale, people, 0, bits)


@functools.lru_cache(maxsize=TABLES_KEPT)
def _machine(law: Law) -> TableMachine:
    return TableMachine(law)


@dataclass(kw_only=True)
class Drifts:
    """Sums that drift through empty nodes: which level each splits at next, and those that reached a cell whole."""

    cells: CellOrder
    scale: Fraction
    waiting: dict[int, list[tuple[Numbers, Numbers]]] = field(default_factory=dict)

    def takes(self, sums: Numbers, *, level: int) -> NDArray[np.bool_] | None:
        """Tell which sums of nodes that are empty in truth are worth taking over; None if too few are."""
        small = sums <= LARGEST_DRIFT
        return small if level < self.cells.levels and int(small.sum()) >= FEWEST_DRIFTS else None

    def add(self, sums: Numbers, paths: Numbers, *, level: int, rng: Rng) -> None:
        """Take over nodes of a level; draw how far they drift, and where to."""
        levels = self.cells.levels
        wakes = np.minimum(level + self._stays(sums, rng), levels)
        paths = self._drifted(paths, level, wakes, rng)
        order = np.argsort(wakes.astype(np.uint16), kind="stable")  # short words are sorted digit by digit
        bounds = np.searchsorted(wakes[order], np.arange(level, levels + 2))
        for wake in range(level, levels + 1):
            chosen = order[bounds[wake - level] : bounds[wake - level + 1]]
            if len(chosen):
                self.waiting.setdefault(wake, []).append((sums[chosen], paths[chosen]))

    def split(self, level: int, *, rng: Rng) -> None:
        """Split the sums whose time has come; their parts drift on."""
        arrived = self.waiting.pop(level, [])
        if not arrived:
            return
        sums = np.concatenate([sums for sums, _ in arrived])
        paths = np.concatenate([paths for _, paths in arrived])
        left = self._parts(sums, rng)
        word, shift = self.cells.place(level)
        right_paths = paths.copy()
        right_paths[:, word] |= np.int64(1) << shift
        self.add(np.concatenate([left, sums - left]), np.concatenate([paths, right_paths]), level=level + 1, rng=rng)

    def arrived(self) -> list[tuple[Numbers, Numbers]]:
        """Give the sums that reached a cell, with their paths."""
        return self.waiting.pop(self.cells.levels, [])

    def _stays(self, sums: Numbers, rng: Rng) -> Numbers:
        levels = self.cells.levels
        stays = np.full(len(sums), levels, dtype=np.int64)
        for people, chosen in _groups(sums):
            if people > 1:
                law = Staying(scale=self.scale, people=people, most=levels)
                stays[chosen] = _machine(law).sample(len(chosen), rng)
        return stays

    def _parts(self, sums: Numbers, rng: Rng) -> Numbers:
        left = np.ones(len(sums), dtype=np.int64)
        for people, chosen in _groups(sums):
            if people > 2:
                left[chosen] = _machine(Splitting(scale=self.scale, people=people)).sample(len(chosen), rng)
        return left

    def _drifted(self, paths: Numbers, level: int, wakes: Numbers, rng: Rng) -> Numbers:
        """Fill the levels from here to the waking with fair bits."""
        for word in range(level // WORD_BITS, paths.shape[1]):
            first = max(level - word * WORD_BITS, 0)
            last = np.clip(wakes - word * WORD_BITS, first, WORD_BITS)
            mask = (np.int64(1) << (WORD_BITS - first)) - (np.int64(1) << (WORD_BITS - last))
            bits = rng.words64(len(paths)).view(np.int64)
            paths[:, word] |= bits & mask
        return paths


def _groups(sums: Numbers) -> list[tuple[int, NDArray[np.intp]]]:
    """The places of every size of sum, sizes being small."""
    order = np.argsort(sums.astype(np.uint8), kind="stable")
    sizes = np.bincount(sums, minlength=1)
    ends = np.cumsum(sizes)
    return [(people, order[ends[people] - sizes[people] : ends[people]]) for people in np.flatnonzero(sizes).tolist()]
