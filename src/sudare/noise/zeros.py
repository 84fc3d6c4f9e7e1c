"""Noise of cells that nobody stores: how many of N empty cells rise above a level, and how high.

A table of 1e30 cells is nearly empty, and its empty cells get noise like all others. Only those that rise above a
level can be published; they are drawn here without visiting the rest, with exactly the law that visiting them all
would give:

    how many of N independent two-sided geometric values lie in a stratum (above, at_most], given none lies higher
    the values of those that do

The number is binomial with N up to 1e30 and beyond. It is the sum of many small binomials of one law, each drawn by the
table machine from certified thresholds, so no float decides anything. Proof: proofs/zeros.md
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.errors import ParameterError
from sudare.noise.enclosure import Enclosure, enclose
from sudare.noise.geometric import one_sided_noise
from sudare.noise.laws import TwoSidedGeometric
from sudare.noise.machine import TableMachine
from sudare.noise.rng import Rng
from sudare.schema.arrays import Integers

MEAN_PER_DRAW = 32  # successes a small binomial has in the mean: few thresholds, and few draws
FEW_TRIALS = 1024  # up to here the support ends where the trials do; beyond, the end is never seen
COARSE_BITS = 256  # of the share by which draws are divided; it decides no outcome
BATCH = 2**22  # small binomials drawn at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Stratum:
    """Values above `above` and at most `at_most` (None: no end), among values that are at most `at_most`."""

    scale: Fraction
    above: int
    at_most: int | None = None

    def __post_init__(self) -> None:
        if self.at_most is not None and self.at_most <= self.above:
            raise ParameterError(
                "at_most ({at_most}) must be more than above ({above})", at_most=self.at_most, above=self.above
            )

    def share(self, bits: int) -> Enclosure:
        """Enclose the probability q that a value at most `at_most` lies in the stratum."""
        law = TwoSidedGeometric(scale=self.scale)
        below = _at_most(law, self.above, bits)
        if self.at_most is None:
            return 1 - below
        whole = _at_most(law, self.at_most, bits)
        return (whole - below) / whole


def count_in_stratum(trials: int, stratum: Stratum, rng: Rng) -> int:
    """Draw how many of `trials` independent values lie in the stratum: binomial(trials, q), exactly.

    >>> from sudare.noise.rng import SeededRng
    >>> stratum = Stratum(scale=Fraction(2), above=120)
    >>> 0 < count_in_stratum(10**30, stratum, SeededRng(1)) < 10**9
    True
    """
    if trials == 0:
        return 0
    size = _trials_per_draw(trials, stratum)
    draws, rest = divmod(trials, size)
    machine = TableMachine(StratumCount(trials=size, stratum=stratum))
    successes = sum(int(machine.sample(min(BATCH, draws - start), rng).sum()) for start in range(0, draws, BATCH))
    if rest:
        successes += int(TableMachine(StratumCount(trials=rest, stratum=stratum)).sample(1, rng)[0])
    return successes


def draw_in_stratum(size: int, stratum: Stratum, rng: Rng) -> Integers:
    """Draw `size` independent values of the stratum, which must lie on one side of 0.

    From 0 on the law falls by a = exp(-1/scale) a step, so a value is above + 1 + G with G one-sided geometric, drawn
    again where it would pass at_most; below 0 it is the mirror image, at_most - G.

    >>> from sudare.noise.rng import SeededRng
    >>> bool((draw_in_stratum(100, Stratum(scale=Fraction(2), above=7), SeededRng(1)) > 7).all())
    True
    """
    falls = stratum.above >= -1
    if not falls and (stratum.at_most is None or stratum.at_most > 0):
        raise ParameterError("a stratum from {above} must not cross 0; cut it there", above=stratum.above)
    width = None if stratum.at_most is None else stratum.at_most - stratum.above
    steps = one_sided_noise(size, scale=stratum.scale, rng=rng)
    while width is not None and bool((beyond := steps >= width).any()):
        steps[beyond] = one_sided_noise(int(beyond.sum()), scale=stratum.scale, rng=rng)
    if falls:
        return stratum.above + 1 + steps
    return (stratum.at_most or 0) - steps


def draw_winners(known: int, unseen: int, winners: int, stratum: Stratum, rng: Rng) -> tuple[Integers, int]:
    """Draw `winners` cells, all equally likely, out of `known` cells and those of `unseen` ones that are in a stratum.

    How many unseen cells are in the stratum is never counted: cells are taken in random order, a known one wins, an
    unseen one wins with the share of the stratum, until all are drawn or no cell is left. Returns the known winners,
    sorted, and the number of the others.

    >>> from sudare.noise.rng import SeededRng
    >>> draw_winners(2, 0, 2, Stratum(scale=Fraction(2), above=0, at_most=1), SeededRng(1))
    (array([0, 1]), 0)
    """
    is_in_stratum = TableMachine(StratumCount(trials=1, stratum=stratum))
    seen: set[int] = set()
    won: list[int] = []
    others = 0
    while len(won) + others < winners and len(seen) < known + unseen:
        cell = rng.below(known + unseen)
        if cell in seen:
            continue
        seen.add(cell)
        if cell < known:
            won.append(cell)
        else:
            others += int(is_in_stratum.sample(1, rng)[0])
    return np.array(sorted(won), dtype=np.int64), others


@dataclass(frozen=True, kw_only=True, slots=True)
class StratumCount:
    """The law of the number of successes: binomial(trials, q), q the share of the stratum, enclosed to any precision.

    P[X <= k] = sum over i <= k of C(trials, i) q^i (1-q)^(trials-i)
    """

    trials: int
    stratum: Stratum

    @property
    def low(self) -> int:
        """Zero."""
        return 0

    @property
    def high(self) -> int | None:
        """The number of trials where it is small; else the upper end is left open, since thresholds end before it."""
        return self.trials if self.trials <= FEW_TRIALS else None

    @property
    def log_ratio(self) -> None:
        """Nothing is promised: this number is a means to draw a table whose law is promised."""

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        """Bound 2**bits * P[X <= k] by integers at most 2 apart."""
        if k >= self.trials:
            return 1 << bits, 1 << bits
        # (1-q)^trials loses as many bits as the trials have, and its smallness some more
        guard = self.trials.bit_length() + 3 * MEAN_PER_DRAW
        return enclose(lambda more: _enclose_cumulative(self, more, k), bits, guard=guard)


def _enclose_cumulative(law: StratumCount, bits: int, k: int) -> Enclosure:
    return _cumulative(law, bits, max(2 * MEAN_PER_DRAW, 1 << (k + 1).bit_length()))[k]


@functools.lru_cache(maxsize=64)
def _cumulative(law: StratumCount, bits: int, size: int) -> tuple[Enclosure, ...]:
    """Enclose P[X <= k] for k < size; every term C(n, i) q^i (1-q)^(n-i) follows from the one before."""
    share = law.stratum.share(bits)
    rest = 1 - share
    odds = share / rest
    term = rest**law.trials
    sums = [term]
    for i in range(1, size):
        grown = term * odds * max(law.trials - i + 1, 0)
        term = Enclosure(grown.low // i, -(-grown.high // i), bits)
        sums.append(sums[-1] + term)
    return tuple(sums)


def _trials_per_draw(trials: int, stratum: Stratum) -> int:
    """Take so many that a draw has about MEAN_PER_DRAW successes; any number gives the same law."""
    share = stratum.share(COARSE_BITS)
    return max(1, min(trials, (MEAN_PER_DRAW << COARSE_BITS) // max(share.high, 1)))


def _at_most(law: TwoSidedGeometric, k: int, bits: int) -> Enclosure:
    low, high = law.threshold(k, bits)
    return Enclosure(low, high, bits)
