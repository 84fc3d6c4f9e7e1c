"""Noise of cells that nobody stores: how many of N empty cells rise above a level, and how high.

A table of 1e30 cells is nearly empty, and its empty cells get noise like all others. Only those that rise above a
level can be published; they are drawn here without visiting the rest, with exactly the law that visiting them all
would give:

    how many of N independent noise values lie in a stratum (above, at_most], given none lies higher
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
from sudare.noise.counting import LARGEST_LISTED_VARIANCE, CountNoise, GaussianNoise
from sudare.noise.enclosure import Enclosure, enclose
from sudare.noise.gaussian import flip_each
from sudare.noise.geometric import one_sided_noise
from sudare.noise.machine import TableMachine
from sudare.noise.rng import LazyUniform, Rng
from sudare.noise.uniform import draw_below
from sudare.schema.arrays import Booleans, Integers

MEAN_PER_DRAW = 32  # successes a small binomial has in the mean: few thresholds, and few draws
FEW_TRIALS = 1024  # up to here the support ends where the trials do; beyond, the end is never seen
COARSE_BITS = 256  # of the share by which draws are divided; it decides no outcome
EVEN_EXPONENT = 2  # a stratum over which the law falls by at most e^2 is proposed evenly
MOST_TRIES = 2**20  # proposals at a time
LARGEST_ROOT = 2**31 - 1
BATCH = 2**22  # small binomials drawn at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Stratum:
    """Values above `above` and at most `at_most` (None: no end), among values that are at most `at_most`."""

    noise: CountNoise
    above: int
    at_most: int | None = None

    def __post_init__(self) -> None:
        if self.at_most is not None and self.at_most <= self.above:
            raise ParameterError(
                "at_most ({at_most}) must be more than above ({above})", at_most=self.at_most, above=self.above
            )
        if isinstance(self.noise, GaussianNoise) and self.noise.sigma_squared > LARGEST_LISTED_VARIANCE:
            raise ParameterError("Gaussian noise of a deviation beyond 4096 has no strata; use geometric noise")

    def share(self, bits: int) -> Enclosure:
        """Enclose the probability q that a value at most `at_most` lies in the stratum."""
        below = self._at_most(self.above, bits)
        if self.at_most is None:
            return 1 - below
        whole = self._at_most(self.at_most, bits)
        return (whole - below) / whole

    def _at_most(self, k: int, bits: int) -> Enclosure:
        low, high = self.noise.law.threshold(k, bits)
        return Enclosure(low, high, bits)


def count_in_stratum(trials: int, stratum: Stratum, rng: Rng) -> int:
    """Draw how many of `trials` independent values lie in the stratum: binomial(trials, q), exactly.

    >>> from sudare.noise import GeometricNoise, SeededRng
    >>> stratum = Stratum(noise=GeometricNoise(scale=Fraction(2)), above=120)
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

    >>> from sudare.noise import GeometricNoise, SeededRng
    >>> stratum = Stratum(noise=GeometricNoise(scale=Fraction(2)), above=7)
    >>> bool((draw_in_stratum(100, stratum, SeededRng(1)) > 7).all())
    True
    """
    if stratum.above >= -1:
        return stratum.above + 1 + _draw_steps(size, stratum.noise, stratum.above + 1, stratum.at_most, rng)
    if stratum.at_most is None or stratum.at_most > 0:
        raise ParameterError("a stratum from {above} must not cross 0; cut it there", above=stratum.above)
    return stratum.at_most - _draw_steps(size, stratum.noise, -stratum.at_most, -stratum.above - 1, rng)


def draw_at_most(size: int, *, noise: CountNoise, most: int | None, rng: Rng) -> Integers:
    """Draw noise given that it is at most `most` (None: no condition), exactly.

    >>> from sudare.noise import GeometricNoise, SeededRng
    >>> noise = GeometricNoise(scale=Fraction(5))
    >>> bool((draw_at_most(100, noise=noise, most=2, rng=SeededRng(1)) <= 2).all())
    True
    """
    if most is not None and most < 0:
        return most - _draw_steps(size, noise, -most, None, rng)
    values = noise.draw(size, rng=rng)
    while most is not None and (beyond := np.flatnonzero(values > most)).size:
        values[beyond] = noise.draw(beyond.size, rng=rng)
    return values


def _draw_steps(size: int, noise: CountNoise, start: int, last: int | None, rng: Rng) -> Integers:
    """Draw Z - start for noise Z given start <= Z <= last, start >= 0."""
    width = None if last is None else last - start + 1
    if isinstance(noise, GaussianNoise):
        return _draw_bell_steps(size, noise, start, width, rng)
    # from 0 on the law falls by a = exp(-1/scale) a step: steps are one-sided geometric, drawn again beyond the end
    steps = one_sided_noise(size, scale=noise.scale, rng=rng)
    while width is not None and bool((beyond := steps >= width).any()):
        steps[beyond] = one_sided_noise(int(beyond.sum()), scale=noise.scale, rng=rng)
    return steps


def _draw_bell_steps(size: int, noise: GaussianNoise, start: int, width: int | None, rng: Rng) -> Integers:
    """Draw Z - start for a discrete Gaussian Z given start <= Z < start + width, by rejection.

    Proposals are even where the stratum is narrow, geometric of scale sigma^2/start in the tail, else the law itself;
    a proposal g is accepted with what is missing of exp(-((start + g)^2 - start^2) / (2 sigma^2)).
    """
    unit = 1 / (2 * noise.sigma_squared)
    is_narrow = width is not None and width * (2 * start + width) * unit <= EVEN_EXPONENT
    is_tail = start * start >= noise.sigma_squared
    parts: list[Integers] = []
    while (missing := size - sum(part.size for part in parts)) > 0:
        tries = min(MOST_TRIES, 2 * missing + 16)
        if is_narrow and width is not None:
            steps = draw_below(width, tries, rng=rng)
            kept = steps[flip_each(steps * (2 * start + steps), unit, rng)]
        elif is_tail:
            steps = one_sided_noise(tries, scale=noise.sigma_squared / start, rng=rng)
            steps = steps if width is None else steps[steps < width]
            kept = steps[_flip_squares(steps, unit, rng)]
        else:
            steps = noise.draw(tries, rng=rng) - start
            kept = steps[(steps >= 0) & (True if width is None else steps < width)]
        parts.append(kept[:missing])
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _flip_squares(steps: Integers, unit: Fraction, rng: Rng) -> Booleans:
    """Say yes with probability exp(-unit * step^2) for every step, exactly."""
    is_yes = flip_each(np.minimum(steps, LARGEST_ROOT) ** 2, unit, rng)
    for place in np.flatnonzero(steps > LARGEST_ROOT):  # whose squares leave 64 bits
        is_yes[place] = LazyUniform(rng).is_below_exp(int(steps[place]) ** 2 * unit)
    return is_yes


def draw_winners(known: int, unseen: int, winners: int, stratum: Stratum, rng: Rng) -> tuple[Integers, int]:
    """Draw `winners` cells, all equally likely, out of `known` cells and those of `unseen` ones that are in a stratum.

    How many unseen cells are in the stratum is never counted: cells are taken in random order, a known one wins, an
    unseen one wins with the share of the stratum, until all are drawn or no cell is left. Returns the known winners,
    sorted, and the number of the others.

    >>> from sudare.noise import GeometricNoise, SeededRng
    >>> stratum = Stratum(noise=GeometricNoise(scale=Fraction(2)), above=0, at_most=1)
    >>> draw_winners(2, 0, 2, stratum, SeededRng(1))
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
