"""Choose one candidate by score: the exponential mechanism and permute-and-flip, without a float probability.

Both accept a candidate that lies x = rate * (best score - score) behind the best with probability exp(-x), and both
decide that by comparing a uniform number, bit by bit as needed, with certified bounds of exp(-x). They differ in how
candidates are proposed: with replacement, or once each. Proof: proofs/exponential.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.noise.enclosure import exp_minus
from sudare.noise.laws import require_exact
from sudare.noise.rng import WORD_BITS, LazyUniform, Rng
from sudare.noise.witness import watched
from sudare.schema.arrays import Integers

Exact = Sequence[int | Fraction] | NDArray[np.signedinteger[Any]]
Scores = Sequence[int | Fraction] | NDArray[Any]

LAST_LEVEL = 63  # exp(-63) * 2**64 < 1: from here on only the words 0 and 1 leave a doubt
LAW_BITS = 256  # of the probabilities that tests and pictures get
_FIRST_BATCH, _LAST_BATCH = 64, 2**16  # proposals at a time, doubled while none is accepted
# x of level l lies in [l, l+1), the last level has no end: a word below ACCEPT[l] is below exp(-x) for certain, a word
# above REJECT[l] is not for certain, and one between them is compared with exp(-x) itself
_BOUNDS = [exp_minus(Fraction(level), WORD_BITS) for level in range(LAST_LEVEL + 1)]
_ACCEPT = np.array([*(bound.low for bound in _BOUNDS[1:]), 0], dtype=np.uint64)
_REJECT = np.array([2**WORD_BITS - 1, *(bound.high for bound in _BOUNDS[1:])], dtype=np.uint64)


@watched
def exponential(
    scores: Scores, *, epsilon: Fraction, sensitivity: int | Fraction, monotone: bool = False, rng: Rng
) -> int:
    """Choose an index with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    `sensitivity`: the most one unit of privacy can change any score. `monotone`: a change of the data moves all
    scores in the same direction (counts under add/remove); then the factor 2 is not needed.

    Guarantee: epsilon-DP. Proof: proofs/exponential.md
    Error: score at least best - 2 * sensitivity / epsilon * (ln n + t), n candidates, except with probability e^-t.
    Source: McSherry, Talwar, Mechanism design via differential privacy, 2007; exact by rejection.

    >>> from sudare.noise.rng import SeededRng
    >>> exponential([0, 1, 90], epsilon=Fraction(1), sensitivity=1, rng=SeededRng(1))
    2
    """
    candidates = _level_candidates(scores, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)
    batch = _FIRST_BATCH
    while True:
        proposals = rng.uniform_below(len(candidates.levels), batch)
        chosen = _find_accepted(candidates, proposals, rng)
        if chosen is not None:
            return chosen
        batch = min(2 * batch, _LAST_BATCH)


@watched
def permute_and_flip(
    scores: Scores, *, epsilon: Fraction, sensitivity: int | Fraction, monotone: bool = False, rng: Rng
) -> int:
    """Choose an index: go through the candidates in random order and take each with probability exp(-x).

    x = epsilon * (best score - score) / (2 * sensitivity), without the 2 if `monotone` (see `exponential`). The same
    law as the largest of scores with exponential noise of scale 2 * sensitivity / epsilon added.

    Guarantee: epsilon-DP. Proof: proofs/exponential.md
    Error: never larger in expectation than that of `exponential`, up to two times smaller.
    Source: McKenna, Sheldon, Permute-and-flip: a new mechanism for differentially private selection, 2020

    >>> from sudare.noise.rng import SeededRng
    >>> permute_and_flip([0, 1, 90], epsilon=Fraction(1), sensitivity=1, rng=SeededRng(1))
    2
    """
    candidates = _level_candidates(scores, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)
    chosen = _find_accepted(candidates, rng.permutation(len(candidates.levels)), rng)
    if chosen is None:
        raise AssertionError("the best candidate is always accepted")
    return chosen


def bernoulli_exp(x: Fraction, rng: Rng) -> bool:
    """Say yes with probability exp(-x), x >= 0, exactly.

    >>> from sudare.noise.rng import SeededRng
    >>> bernoulli_exp(Fraction(0), SeededRng(1))
    True
    """
    return LazyUniform(rng).is_below_exp(x)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidates:
    """The candidates by how far they lie behind the best: levels[i] = min(floor(x_i), 63), behind(i) = x_i exactly."""

    levels: NDArray[np.uint8]
    behind: Callable[[int], Fraction]


def _find_accepted(candidates: _Candidates, order: Integers, rng: Rng) -> int | None:
    """Flip for every candidate in order until one is accepted; bounds decide nearly all, exact arithmetic the rest.

    Flips after the accepted one are drawn and thrown away, which the ones before it cannot know.
    """
    words = rng.words64(len(order))
    levels = candidates.levels[order]
    is_sure = words < _ACCEPT[levels]
    for place in np.flatnonzero(is_sure | (words <= _REJECT[levels])):
        candidate = int(order[place])
        uniform = LazyUniform(rng, word=int(words[place]), bits=WORD_BITS)
        if is_sure[place] or uniform.is_below_exp(candidates.behind(candidate)):
            return candidate
    return None


def exponential_law(
    scores: Scores, *, epsilon: Fraction, sensitivity: int | Fraction, monotone: bool = False
) -> list[Fraction]:
    """Compute the probabilities of `exponential`, within 2**-240, for tests and pictures; never used to draw.

    >>> [round(float(p), 6) for p in exponential_law([0, 2], epsilon=Fraction(1), sensitivity=1)]
    [0.268941, 0.731059]
    """
    candidates = _level_candidates(scores, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)
    weights = [exp_minus(candidates.behind(i), LAW_BITS).low for i in range(len(candidates.levels))]
    return [Fraction(weight, sum(weights)) for weight in weights]


def permute_and_flip_law(
    scores: Scores, *, epsilon: Fraction, sensitivity: int | Fraction, monotone: bool = False
) -> list[Fraction]:
    """Compute the probabilities of `permute_and_flip` for a few candidates, within 2**-240, for tests and pictures.

    P[i] = p_i * integral over t from 0 to 1 of the product over j != i of (1 - t * p_j): at time t of a random order
    every other candidate has been met with probability t.

    >>> [round(float(p), 6) for p in permute_and_flip_law([0, 2], epsilon=Fraction(1), sensitivity=1)]
    [0.18394, 0.81606]
    """
    candidates = _level_candidates(scores, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)
    size = len(candidates.levels)
    accept = [Fraction(exp_minus(candidates.behind(i), LAW_BITS).low, 2**LAW_BITS) for i in range(size)]
    return [accept[i] * _integrate(accept[:i] + accept[i + 1 :]) for i in range(size)]


def _integrate(accept: list[Fraction]) -> Fraction:
    """Integrate the product of (1 - t * p) over t from 0 to 1."""
    product = [Fraction(1)]  # coefficients of 1, t, t^2, ...
    for p in accept:
        product = [a - p * b for a, b in zip([*product, Fraction(0)], [Fraction(0), *product], strict=True)]
    return sum((c / (degree + 1) for degree, c in enumerate(product)), Fraction(0))


def _level_candidates(scores: Scores, *, epsilon: Fraction, sensitivity: int | Fraction, monotone: bool) -> _Candidates:
    require_exact("epsilon", epsilon)
    require_exact("sensitivity", sensitivity)
    rate = Fraction(epsilon) / (sensitivity if monotone else 2 * sensitivity)
    exact = _as_exact(scores)
    units = _as_units(exact)
    return _level_fractions(exact, rate) if units is None else _level_units(*units, rate)


def _level_units(units: Integers, per_score: int, rate: Fraction) -> _Candidates:
    # differences of 64-bit integers always fit 64 bits without a sign; the wrap of the subtraction is meant
    gaps = units.astype(np.uint64)
    gaps = gaps[np.argmax(units)] - gaps
    step = rate / per_score
    starts = [-(-level * step.denominator // step.numerator) for level in range(1, LAST_LEVEL + 1)]
    reachable = np.array([start for start in starts if start < 2**WORD_BITS], dtype=np.uint64)
    levels = np.searchsorted(reachable, gaps, side="right").astype(np.uint8)
    return _Candidates(levels=levels, behind=lambda i: int(gaps[i]) * step)


def _level_fractions(scores: Exact, rate: Fraction) -> _Candidates:
    best = Fraction(max(scores))
    top, bottom = rate.numerator, rate.denominator * best.denominator

    def find_level(score: int | Fraction) -> int:
        # in plain integers, because arithmetic of Fractions reduces at every step
        gap = best.numerator * score.denominator - score.numerator * best.denominator
        return min(gap * top // (bottom * score.denominator), LAST_LEVEL)

    levels = np.fromiter((find_level(score) for score in scores), dtype=np.uint8)
    return _Candidates(levels=levels, behind=lambda i: (best - scores[i]) * rate)


def _as_exact(scores: Scores) -> Exact:
    """Check that there are scores and that all are exact; leave NumPy's integers where 64 bits may wrap."""
    if len(scores) == 0 or (isinstance(scores, np.ndarray) and scores.ndim != 1):
        raise ParameterError("scores must be a list of at least one candidate")
    if isinstance(scores, np.ndarray) and scores.dtype.kind == "i":
        return scores
    plain = scores.tolist() if isinstance(scores, np.ndarray) else scores
    kinds = set(map(type, plain))
    if not all(issubclass(kind, int | np.integer | Fraction) for kind in kinds):
        raise ParameterError("scores must be integers or exact fractions")
    if any(issubclass(kind, np.integer) for kind in kinds):
        return [int(score) if isinstance(score, np.integer) else score for score in plain]
    return plain


def _as_units(scores: Exact) -> tuple[Integers, int] | None:
    """Write scores as 64-bit multiples of one fraction 1/d, returned with d; None where they do not fit."""
    if isinstance(scores, np.ndarray):
        return scores.astype(np.int64), 1
    per_score = 1
    for denominator in {score.denominator for score in scores}:
        per_score = math.lcm(per_score, denominator)
        if per_score >= 2**63:
            return None
    units = (score.numerator * (per_score // score.denominator) for score in scores)
    try:
        return np.fromiter(units, dtype=np.int64), per_score
    except OverflowError:
        return None
