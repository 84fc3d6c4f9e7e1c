"""Many small draws at once, every row with a law of its own: for trees, whose nodes each ask for a little.

    permute_and_flip_rows  one candidate out of each of many lists of scores
    exponential_rows       the same by the exponential mechanism, which costs less in rho
    geometric_few          noise of a scale that is not worth a table of its own
    add_geometric_few      a number for each row, with that noise
    add_gaussian_few       the same with discrete Gaussian noise
    exceed_few             tell for each row whether its number exceeds 0 with geometric noise
    exceed_gaussian_few    the same with discrete Gaussian noise
    choose_evenly          one candidate out of each of many lists whose scores are all equal

`names` are what a row is about, one row of whole numbers each (the corners of a block): draws do not depend on them;
a witness finds a row by its name where another table has the rows in another order.

The laws are those of `exponential` and `geometric`. Both stand on bounds of the powers exp(-rate * k) for k = 0, 1,
2, ..., each the one before it times exp(-rate), in integers. Proof: proofs/rows.md
"""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.noise.enclosure import Enclosure, enclose, exp_minus
from sudare.noise.exponential import exponential, permute_and_flip
from sudare.noise.gaussian import gaussian_noise
from sudare.noise.geometric import geometric_noise
from sudare.noise.laws import require_exact
from sudare.noise.rng import LazyUniform, Rng
from sudare.noise.uniform import draw_below_each
from sudare.noise.witness import watched
from sudare.privacy.conversion import bound_log
from sudare.schema.arrays import Booleans, Integers

Words = NDArray[np.uint64]

POWER_BITS = 128  # a power is at most so many units of 2**-128 off per step: far from what 64 bits can see
DIGIT_BITS = 11  # a gap of 22 bits is two digits; exp(-rate * gap) is the product of a bound for each
FACTOR_BITS = 32  # of each bound: their product fits 64 bits
WIDEST_GAP = 2 ** (2 * DIGIT_BITS)  # between the best score of a row and another one
LARGEST_POWERS_SCALE = 256  # 11,000 powers take 6 ms; the tables for a larger scale take 60
MAGNITUDE_BITS = 63  # of a word: the last bit is the sign


@watched
def permute_and_flip_rows(
    scores: Integers,
    *,
    sizes: Integers,
    epsilon: Fraction,
    sensitivity: int | Fraction,
    names: Integers | None = None,
    rng: Rng,
) -> Integers:
    """Choose one candidate of every row: the first sizes[0] scores are the first row, and so on. Places in `scores`.

    Every candidate is live with probability exp(-x), x = epsilon * (best of its row - score) / (2 * sensitivity); one
    of the live ones of a row is taken, all alike. That is permute-and-flip: proofs/exponential.md, "the two forms".

    Guarantee: epsilon-DP for each row of scores of that sensitivity. Proof: proofs/rows.md
    Source: McKenna, Sheldon, Permute-and-flip: a new mechanism for differentially private selection, 2020

    >>> from sudare.noise.rng import SeededRng
    >>> scores, sizes = np.array([0, 90, 0, 90, 0]), np.array([2, 3])
    >>> permute_and_flip_rows(scores, sizes=sizes, epsilon=Fraction(1), sensitivity=1, rng=SeededRng(1))
    array([1, 3])
    """
    rate = _check_rate(epsilon, sensitivity)
    if not sizes.size:
        return np.empty(0, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    gaps, is_wide = _find_gaps(scores, sizes, starts)
    is_live = _flip_each(gaps, rate, rng)
    places = np.flatnonzero(is_live)
    live = np.add.reduceat(is_live, starts, dtype=np.int64)
    chosen: Integers = places[np.cumsum(live) - live + draw_below_each(live, rng=rng)]
    for row in np.flatnonzero(is_wide):
        row_scores = scores[starts[row] : starts[row] + sizes[row]]
        chosen[row] = starts[row] + permute_and_flip(row_scores, epsilon=epsilon, sensitivity=sensitivity, rng=rng)
    return chosen


@watched
def exponential_rows(
    scores: Integers,
    *,
    sizes: Integers,
    epsilon: Fraction,
    sensitivity: int | Fraction,
    names: Integers | None = None,
    rng: Rng,
) -> Integers:
    """Choose one candidate of every row with probability proportional to exp(-x). Places in `scores`.

    x = epsilon * (best of its row - score) / (2 * sensitivity). Candidates are proposed, all alike and with
    replacement, and the first that is accepted, with probability exp(-x), is taken. A row gets as many proposals at a
    time as it has candidates: two of three rows are then done at once, since the best is always accepted.

    Guarantee: epsilon-DP and (epsilon^2/8)-zCDP for each row of scores of that sensitivity. Proof: proofs/rows.md
    Source: McSherry, Talwar 2007; Rogers, Steinke 2021 for rho.

    >>> from sudare.noise.rng import SeededRng
    >>> scores, sizes = np.array([0, 90, 0, 90, 0]), np.array([2, 3])
    >>> exponential_rows(scores, sizes=sizes, epsilon=Fraction(1), sensitivity=1, rng=SeededRng(1))
    array([1, 3])
    """
    rate = _check_rate(epsilon, sensitivity)
    if not sizes.size:
        return np.empty(0, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    gaps, is_wide = _find_gaps(scores, sizes, starts)
    chosen = np.empty(sizes.size, dtype=np.int64)
    waiting = np.flatnonzero(~is_wide)
    while waiting.size:
        many = sizes[waiting]
        proposed = np.repeat(starts[waiting], many) + draw_below_each(np.repeat(many, many), rng=rng)
        places = np.flatnonzero(_flip_each(gaps[proposed], rate, rng))
        done, first = np.unique(np.repeat(np.arange(waiting.size), many)[places], return_index=True)
        chosen[waiting[done]] = proposed[places[first]]
        waiting = np.delete(waiting, done)
    for row in np.flatnonzero(is_wide):
        row_scores = scores[starts[row] : starts[row] + sizes[row]]
        chosen[row] = starts[row] + exponential(row_scores, epsilon=epsilon, sensitivity=sensitivity, rng=rng)
    return chosen


def _check_rate(epsilon: Fraction, sensitivity: int | Fraction) -> Fraction:
    require_exact("epsilon", epsilon)
    require_exact("sensitivity", sensitivity)
    return Fraction(epsilon) / (2 * sensitivity)


def _find_gaps(scores: Integers, sizes: Integers, starts: Integers) -> tuple[Integers, Booleans]:
    """How far every score lies behind the best of its row; and the rows with a gap of more than two digits.

    Those, of more than four million records, are chosen one by one, and their gaps stand as the widest here.
    """
    # differences of 64-bit integers always fit 64 bits without a sign; the wrap of the subtraction is meant
    gaps = np.repeat(np.maximum.reduceat(scores, starts), sizes).astype(np.uint64) - scores.astype(np.uint64)
    is_wide: Booleans = np.maximum.reduceat(gaps, starts) >= WIDEST_GAP
    return np.minimum(gaps, WIDEST_GAP - 1).astype(np.int64), is_wide


def _flip_each(gaps: Integers, rate: Fraction, rng: Rng) -> Booleans:
    """Say yes with probability exp(-rate * gap) for every gap; bounds decide nearly all, exact arithmetic the rest."""
    fine, coarse = _bound_digits(rate), _bound_digits(rate * 2**DIGIT_BITS)
    low, high = gaps & (2**DIGIT_BITS - 1), gaps >> DIGIT_BITS
    words = rng.words64(gaps.size)
    is_yes: Booleans = (words < fine[0][low] * coarse[0][high]) | (gaps == 0)  # 2**64, of a gap of 0, wraps
    is_doubtful = ~is_yes & (
        words <= fine[1][low] * coarse[1][high] - np.uint64(1)
    )  # a product of 2**64 wraps to no bound
    for place in np.flatnonzero(is_doubtful):
        uniform = LazyUniform(rng, word=int(words[place]), bits=2 * FACTOR_BITS)
        is_yes[place] = uniform.is_below_exp(int(gaps[place]) * rate)
    return is_yes


@functools.lru_cache(maxsize=16)
def _bound_digits(rate: Fraction) -> tuple[Words, Words]:
    """Bound 2**32 * exp(-rate * k) from below and above, for every digit k."""
    shift = POWER_BITS - FACTOR_BITS
    powers = _bound_powers(rate, 2**DIGIT_BITS)
    lows, highs = [low >> shift for low, _ in powers], [-(-high >> shift) for _, high in powers]
    return np.array(lows, dtype=np.uint64), np.array(highs, dtype=np.uint64)


def _bound_powers(rate: Fraction, size: int) -> list[tuple[int, int]]:
    """Bound 2**128 * exp(-rate * k) for k = 0, 1, 2, ... below `size`."""
    step = exp_minus(rate, POWER_BITS)
    low = high = 1 << POWER_BITS
    bounds = []
    for _ in range(size):
        bounds.append((low, high))
        low, high = low * step.low >> POWER_BITS, -(-high * step.high >> POWER_BITS)
    return bounds


@watched
def choose_evenly(sizes: Integers, *, names: Integers | None = None, rng: Rng) -> Integers:
    """Choose one candidate of every row, all alike: permute-and-flip where all scores are equal. Its place in the row.

    >>> from sudare.noise.rng import SeededRng
    >>> choose_evenly(np.array([1, 1]), rng=SeededRng(1)).tolist()
    [0, 0]
    """
    return draw_below_each(sizes, rng=rng)


@watched
def add_geometric_few(values: Integers, *, scale: Fraction, names: Integers | None = None, rng: Rng) -> Integers:
    """Add independent noise of `geometric_few` to whole numbers.

    Guarantee: (L1 sensitivity / scale)-DP. Proof: proofs/geometric.md

    >>> from sudare.noise.rng import SeededRng
    >>> add_geometric_few(np.array([7, 0]), scale=Fraction(1, 1000), rng=SeededRng(1)).tolist()
    [7, 0]
    """
    return values + geometric_few(values.size, scale=scale, rng=rng)


@watched
def exceed_few(levels: Integers, *, scale: Fraction, names: Integers | None = None, rng: Rng) -> Booleans:
    """Tell for every number whether it exceeds 0 with independent noise of `geometric_few` added.

    Guarantee: (sensitivity / scale)-DP for each number. Proof: proofs/geometric.md

    >>> from sudare.noise.rng import SeededRng
    >>> exceed_few(np.array([7, 0]), scale=Fraction(1, 1000), rng=SeededRng(1)).tolist()
    [True, False]
    """
    exceeds: Booleans = levels + geometric_few(levels.size, scale=scale, rng=rng) > 0
    return exceeds


@watched
def add_gaussian_few(values: Integers, *, variance: Fraction, names: Integers | None = None, rng: Rng) -> Integers:
    """Add independent discrete Gaussian noise to whole numbers.

    Guarantee: rho-zCDP with rho = s^2 / (2 variance) for an L2 sensitivity of s. Proof: proofs/gaussian.md

    >>> from sudare.noise.rng import SeededRng
    >>> add_gaussian_few(np.array([7, 0]), variance=Fraction(1, 1000), rng=SeededRng(1)).tolist()
    [7, 0]
    """
    return values + gaussian_noise(values.size, variance=variance, rng=rng)


@watched
def exceed_gaussian_few(levels: Integers, *, variance: Fraction, names: Integers | None = None, rng: Rng) -> Booleans:
    """Tell for every number whether it exceeds 0 with independent discrete Gaussian noise added.

    Guarantee: rho-zCDP with rho = s^2 / (2 variance) for each number of sensitivity s. Proof: proofs/gaussian.md

    >>> from sudare.noise.rng import SeededRng
    >>> exceed_gaussian_few(np.array([7, 0]), variance=Fraction(1, 1000), rng=SeededRng(1)).tolist()
    [True, False]
    """
    exceeds: Booleans = levels + gaussian_noise(levels.size, variance=variance, rng=rng) > 0
    return exceeds


@functools.lru_cache(maxsize=4096)
def bound_log_exceeding(level: int, scale: Fraction) -> tuple[Fraction, Fraction]:
    """Catch ln((1 + a) P[level + Z > 0]) between two fractions, a = exp(-1/scale); the 1 + a falls out of quotients.

    With P[Z >= k] = a^k/(1 + a) for k >= 1: (level - 1)/scale exactly up to level 0, ln(1 + a - a^level) above.
    P[level + Z <= 0] is P[(1 - level) + Z > 0].

    >>> bound_log_exceeding(-3, Fraction(2))
    (Fraction(-2, 1), Fraction(-2, 1))
    """
    if level <= 0:
        exact = (level - 1) / Fraction(scale)
        return exact, exact
    share = 1 + exp_minus(1 / Fraction(scale), POWER_BITS) - exp_minus(level / Fraction(scale), POWER_BITS)
    low, high = Fraction(share.low, 1 << POWER_BITS), Fraction(share.high, 1 << POWER_BITS)
    return bound_log(low)[0], bound_log(high)[1]


def geometric_few(size: int, *, scale: Fraction, rng: Rng) -> Integers:
    """Draw as `geometric_noise` does, P[Z = z] proportional to exp(-|z|/scale), ready sooner and slower per draw.

    Exact: |Z| is the number of k >= 1 with U < P[|Z| >= k] = 2 a^k / (1 + a), a = exp(-1/scale), found in the floors
    of 2**63 times these numbers; a word that equals a floor is refined. The sign is a bit of its own.

    >>> from sudare.noise.rng import SeededRng
    >>> geometric_few(4, scale=Fraction(1, 1000), rng=SeededRng(1))
    array([0, 0, 0, 0])
    """
    require_exact("scale", scale)
    if scale > LARGEST_POWERS_SCALE:
        return geometric_noise(size, scale=scale, rng=rng)
    floors = _list_floors(Fraction(scale))
    words = rng.words64(size)
    numbers = words >> np.uint64(1)
    places = np.searchsorted(floors, numbers, side="right")
    magnitudes: Integers = (floors.size - places).astype(np.int64)
    for place in np.flatnonzero(floors[np.maximum(places, 1) - 1] == numbers):
        uniform = LazyUniform(rng, word=int(numbers[place]), bits=MAGNITUDE_BITS)
        magnitudes[place] = _refine(int(magnitudes[place]), Fraction(scale), uniform)
    return np.where(words & np.uint64(1), -magnitudes, magnitudes)


def _refine(magnitude: int, scale: Fraction, uniform: LazyUniform) -> int:
    """Climb from a magnitude that is certain as long as U lies below the next threshold."""

    def is_at_least(k: int) -> bool:
        return uniform.is_below(lambda bits: enclose(lambda more: _enclose_tail(k, scale, more), bits))

    while is_at_least(magnitude + 1):
        magnitude += 1
    return magnitude


def _enclose_tail(k: int, scale: Fraction, bits: int) -> Enclosure:
    """Enclose P[|Z| >= k], k >= 1."""
    return 2 * exp_minus(k / scale, bits) / (1 + exp_minus(1 / scale, bits))


@functools.lru_cache(maxsize=128)
def _list_floors(scale: Fraction) -> Words:
    """floor(2**63 * P[|Z| >= k]) from the first that is 0 down to k = 1: an increasing vector."""
    step = exp_minus(1 / scale, POWER_BITS)
    below, above = (1 << POWER_BITS) + step.high, (1 << POWER_BITS) + step.low
    shift = POWER_BITS - MAGNITUDE_BITS - 1  # one less: the 2 of 2 a^k
    low, high = step.low, step.high
    floors: list[int] = []
    while not floors or floors[-1]:
        ends = ((low << POWER_BITS) // below >> shift, (high << POWER_BITS) // above >> shift)
        k = len(floors) + 1
        floors.append(ends[0] if ends[0] == ends[1] else _certify_floor(k, scale))
        low, high = low * step.low >> POWER_BITS, -(-high * step.high >> POWER_BITS)
    return np.array(floors[::-1], dtype=np.uint64)


def _certify_floor(k: int, scale: Fraction) -> int:
    """Find a floor that the bounds of the powers do not agree on, with more bits until they do."""
    guard = POWER_BITS
    while True:
        low, high = enclose(lambda more: _enclose_tail(k, scale, more), MAGNITUDE_BITS + guard)
        if low >> guard == high >> guard:
            return low >> guard
        guard *= 2
