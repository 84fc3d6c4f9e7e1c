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
from collections.abc import Iterator
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
from sudare.noise.uniform import draw_below, draw_subset
from sudare.schema.arrays import Booleans, Integers

MEAN_PER_DRAW = 32  # successes a small binomial has in the mean: few thresholds, and few draws
FEW_TRIALS = 1024  # up to here the support ends where the trials do; beyond, the end is never seen
COARSE_BITS = 256  # of the share by which draws are divided; it decides no outcome
EVEN_EXPONENT = 2  # a stratum over which the law falls by at most e^2 is proposed evenly
MOST_TRIES = 2**20  # proposals at a time
LARGEST_ROOT = 2**31 - 1
BATCH = 2**22  # small binomials drawn at a time
LAST_GROUP = 2**62  # of groups that are told apart; nobody draws that many


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


def expect_in_stratum(trials: int, stratum: Stratum) -> float:
    """Tell roughly how many of `trials` values lie in a stratum: for choosing a way, never for drawing.

    >>> from sudare.noise import GeometricNoise
    >>> round(expect_in_stratum(10**6, Stratum(noise=GeometricNoise(scale=Fraction(1)), above=0)))
    268941
    """
    bits = _bits_for(trials)
    return float(Fraction(trials * stratum.share(bits).high, 1 << bits))


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

    How many unseen cells are in the stratum is not counted, and may be astronomic. All cells are thought of in random
    order; a known one wins, an unseen one wins with the share of the stratum, until all are drawn or no cell is left.
    Unseen cells are taken in groups, of which only the number in the stratum is drawn; so the work follows `winners`.
    Returns the known winners, sorted, and the number of the others; fewer than asked for if there are no more.

    >>> from sudare.noise import GeometricNoise, SeededRng
    >>> stratum = Stratum(noise=GeometricNoise(scale=Fraction(2)), above=0, at_most=1)
    >>> draw_winners(2, 0, 2, stratum, SeededRng(1))
    (array([0, 1]), 0)
    """
    places = draw_subset(known + unseen, known, rng=rng) - np.arange(known)  # unseen cells before every known one
    size = _trials_per_draw(unseen, stratum) if unseen else 1
    group_of = np.array([min(int(place) // size, LAST_GROUP) for place in places.tolist()], dtype=np.int64)
    others, start = 0, 0  # winners in the groups before `start`
    for hits in _draw_groups(unseen, size, stratum, rng, winners):
        before = np.searchsorted(group_of, np.arange(start, start + hits.size), side="right")
        so_far = others + np.cumsum(hits) + before
        enough = int(np.searchsorted(so_far, winners))
        if enough < hits.size:
            others += int(hits[:enough].sum())
            group = start + enough
            inside = [int(place) - group * size for place in places[group_of == group].tolist()]
            trials = min(size, unseen - group * size)
            passed = int((group_of < group).sum())
            won, more = _end_in_group(inside, int(hits[enough]), trials, winners - others - passed, rng)
            return _choose_known(known, passed + won, rng), others + more
        others, start = others + int(hits.sum()), start + hits.size
    return _choose_known(known, min(known, winners - others), rng), others


def _draw_groups(unseen: int, size: int, stratum: Stratum, rng: Rng, winners: int) -> Iterator[Integers]:
    """Draw how many cells of each group are in the stratum, a batch of groups at a time; the last group is a rest."""
    groups, rest = divmod(unseen, size)
    machine = TableMachine(StratumCount(trials=size, stratum=stratum)) if groups else None
    batch = min(BATCH, max(64, 2 * winners // MEAN_PER_DRAW))
    start = 0
    while machine is not None and start < groups:
        drawn = min(batch, groups - start)
        yield machine.sample(drawn, rng)
        start += drawn
    if rest:
        yield TableMachine(StratumCount(trials=rest, stratum=stratum)).sample(1, rng)


def _end_in_group(inside: list[int], hits: int, trials: int, winners: int, rng: Rng) -> tuple[int, int]:
    """Take the first winners of a group in its order: `inside` tells how many unseen cells stand before a known one."""
    marks = [(int(place), 1) for place in draw_subset(trials, hits, rng=rng).tolist()]
    first = sorted([*((place, 0) for place in inside), *marks])[:winners]
    others = sum(kind for _, kind in first)
    return len(first) - others, others


def _choose_known(known: int, winners: int, rng: Rng) -> Integers:
    """Choose which known cells came first: in random order any of them are as likely."""
    chosen: Integers = np.asarray(draw_subset(known, winners, rng=rng), dtype=np.int64)
    return chosen


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
    bits = _bits_for(trials)
    return max(1, min(trials, (MEAN_PER_DRAW << bits) // max(stratum.share(bits).high, 1)))


def _bits_for(trials: int) -> int:
    """How fine a share is worked out: one in so many trials must be told from none."""
    return COARSE_BITS + trials.bit_length()
