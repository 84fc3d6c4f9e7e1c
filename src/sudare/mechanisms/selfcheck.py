"""What `sudare verify` shows about the noise: tables gone through, large samples tested, wrong laws rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np

from sudare.mechanisms.exponential import Scores, exponential, exponential_law, permute_and_flip, permute_and_flip_law
from sudare.mechanisms.geometric import DIGIT_BITS, geometric_noise, split_scale
from sudare.mechanisms.goodness import Bins, Digit, Fit, Histogram, fit
from sudare.mechanisms.rng import SystemRng

Progress = Callable[[float], None]  # the share of the work that is done

SCALES = tuple(Fraction(scale) for scale in ("1/1000", "1/2", "1", "20", "64", "1000/3", "1000000", "1000000000"))
DRAWS = 50_000_000
SPLIT_DRAWS = 20_000_000
CHOICES = 20_000
WRONG = Fraction(102, 100)  # a law the checks must reject, to show that they can fail
EPSILON = Fraction(1)
FITS = "{about}: {draws} draws in {bins} bins, p = {chance} (at least 1e-9 is wanted)"
FITS_NOT = "{about}: {draws} draws in {bins} bins, p = {chance} (less than 1e-9 is wanted)"
SCORES: Scores = (0, 1, 5, 3, Fraction(1, 2), 2)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing shown or not; `name`, and `detail` with its `values`, are said in the reader's language."""

    name: str
    passed: bool
    detail: str
    values: Mapping[str, object] = field(default_factory=dict)


def check_noise(progress: Progress | None = None) -> list[Check]:
    """Check the noise of this installation, on the system's own stream; some ten seconds.

    Error: a check of a right sampler fails once in 10**9 runs.
    """
    rng = SystemRng()
    steps: list[Callable[[], Iterator[Check]]] = [
        *(partial(_check_table, scale) for scale in SCALES),
        partial(_check_stream, rng),
        partial(_check_draws, Fraction(20), DRAWS, rng),
        partial(_check_draws, Fraction(1000, 3), SPLIT_DRAWS, rng),
        partial(_check_large, Fraction(1_000_000), SPLIT_DRAWS, rng),
        partial(_check_exponential, rng),
        partial(_check_permute_and_flip, rng),
    ]
    checks: list[Check] = []
    for done, step in enumerate(steps, 1):
        checks.extend(step())
        if progress is not None:
            progress(done / len(steps))
    return checks


def _check_table(scale: Fraction) -> Iterator[Check]:
    split = split_scale(scale)
    parts = [machine.certify() for machine in (split.top, *(digit for _, digit in split.digits))]
    problems = [problem for part in parts for problem in part.problems]
    yield Check(
        "the tables of the noise are the stated law",
        not problems,
        "scale {scale}: {problems} contradictions, the first: {first}"
        if problems
        else "scale {scale}: {cells} cells and {thresholds} thresholds agree with the law derived again to 256 bits",
        {
            "scale": str(scale),
            "cells": sum(part.cells for part in parts),
            "thresholds": sum(part.thresholds for part in parts),
            "problems": len(problems),
            "first": next(iter(problems), ""),
        },
    )


def _check_stream(rng: SystemRng) -> Iterator[Check]:
    counts: Histogram = np.bincount(rng.words16(SPLIT_DRAWS), minlength=2**16)
    found = fit(counts, np.full(2**16, 2.0**-16))
    yield Check("the words of the random stream are uniform", found.is_good, FITS, _facts(found, "16-bit"))


def _check_draws(scale: Fraction, draws: int, rng: SystemRng) -> Iterator[Check]:
    bins = Bins.for_geometric(scale, draws)
    counts = bins.count(lambda size: geometric_noise(size, scale=scale, rng=rng), draws)
    right, wrong = fit(counts, bins.geometric(scale)), fit(counts, bins.geometric(scale * WRONG))
    about = f"scale {scale}"
    yield Check("the noise has the stated law", right.is_good, FITS, _facts(right, about))
    name = "the same noise is not taken for one of a scale 2 % larger"
    yield Check(name, not wrong.is_good, FITS_NOT, _facts(wrong, about))


def _check_large(scale: Fraction, draws: int, rng: SystemRng) -> Iterator[Check]:
    yield from _check_draws(scale, draws, rng)
    for place in range(0, split_scale(scale).shift, DIGIT_BITS):
        digit = Digit(place=place)
        counts = digit.count(lambda size: geometric_noise(size, scale=scale, rng=rng), draws)
        found = fit(counts, digit.geometric(scale))
        about = f"scale {scale}, z >> {place} & 255"
        yield Check("every digit of large noise has the stated law", found.is_good, FITS, _facts(found, about))


def _check_exponential(rng: SystemRng) -> Iterator[Check]:
    chosen = [exponential(SCORES, epsilon=EPSILON, sensitivity=1, rng=rng) for _ in range(CHOICES)]
    right = _fit_choices(chosen, exponential_law(SCORES, epsilon=EPSILON, sensitivity=1))
    wrong = _fit_choices(chosen, exponential_law(SCORES, epsilon=2 * EPSILON, sensitivity=1))
    about = f"epsilon {EPSILON}"
    yield Check("the exponential mechanism has the stated law", right.is_good, FITS, _facts(right, about))
    name = "the same choices are not taken for those of twice the epsilon"
    yield Check(name, not wrong.is_good, FITS_NOT, _facts(wrong, about))


def _check_permute_and_flip(rng: SystemRng) -> Iterator[Check]:
    chosen = [permute_and_flip(SCORES, epsilon=EPSILON, sensitivity=1, rng=rng) for _ in range(CHOICES)]
    found = _fit_choices(chosen, permute_and_flip_law(SCORES, epsilon=EPSILON, sensitivity=1))
    yield Check("permute-and-flip has the stated law", found.is_good, FITS, _facts(found, f"epsilon {EPSILON}"))


def _fit_choices(chosen: list[int], law: list[Fraction]) -> Fit:
    return fit(np.bincount(chosen, minlength=len(law)), np.array([float(p) for p in law]))


def _facts(found: Fit, about: str) -> dict[str, object]:
    chance = f"{found.p_value:.2g}" if found.p_value > 1e-99 else "<1e-99"
    return {"about": about, "draws": found.draws, "bins": found.bins, "chance": chance}
