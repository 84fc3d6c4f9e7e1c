"""Tests of fit for samples of 10**7 to 10**9 integers, and what `sudare verify` shows about the noise with them.

Three questions about the same counts: chi-square (are probabilities off, all in all?), ratios (does the loss of privacy
between neighbouring outcomes, ln P[k]/P[k+1], differ from the stated one?) and outliers (does an outcome come far too
often or too rarely, however rare it is?). Standard library and NumPy only, because `sudare verify` runs them too.

What they see in n draws, with some 500 bins and a false alarm of 10**-9: a scale off by a share of 17/sqrt(n), which is
0.12 % at n = 2 * 10**8, or a probability d moved between two outcomes of probability p if d > 12 * sqrt(p/n). A tail
beyond what n draws reach is not seen by any sample; the enumeration of the table covers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from sudare.noise.exponential import Scores, exponential, exponential_law, permute_and_flip, permute_and_flip_law
from sudare.noise.gaussian import gaussian_noise, gaussian_probability, gaussian_tail, split_variance
from sudare.noise.geometric import DIGIT_BITS, geometric_noise, geometric_probability, geometric_tail, split_scale
from sudare.noise.machine import Enumeration, table_machine
from sudare.noise.matrix import MatrixNoise, contrast_tail
from sudare.noise.normal import UNIT_LAW, LazyNormals
from sudare.noise.rng import SystemRng
from sudare.schema.arrays import Integers, Reals
from sudare.text import Readable, Text, text

DrawMany = Callable[[int], Integers]

BLOCK = 2**20  # draws that are counted at a time
FEWEST_EXPECTED = 50  # per bin, for the chi-square law to hold
FEWEST_FOR_RATIO = 1000  # per bin, for the log of a quotient to be normal
MOST_BINS = 2**13
FALSE_ALARM = 1e-9  # the chance that a right sampler is called wrong


@dataclass(frozen=True, kw_only=True, slots=True)
class FitResult:
    """How well counts fit probabilities: the chances of a worse fit if the probabilities are right."""

    draws: int
    bins: int
    chi_square_p: float
    ratio_p: float
    outlier_p: float

    @property
    def p_value(self) -> float:
        """The smallest of the three, three times because there are three."""
        return min(1.0, 3 * min(self.chi_square_p, self.ratio_p, self.outlier_p))

    @property
    def is_good(self) -> bool:
        """The counts could well come from this law; wrong once in 10**9 times."""
        return self.p_value >= FALSE_ALARM


def fit(counts: Integers, probabilities: Reals) -> FitResult:
    """Compare counts with the probabilities of the same bins.

    >>> fit(np.array([500, 500]), np.array([0.5, 0.5])).p_value
    1.0
    >>> fit(np.array([600, 400]), np.array([0.5, 0.5])).is_good
    False
    """
    draws = int(counts.sum())
    pooled, expected = _pool(counts, draws * probabilities)
    statistic = float(((pooled - expected) ** 2 / expected).sum())
    return FitResult(
        draws=draws,
        bins=len(pooled),
        chi_square_p=chi_square_tail(statistic, len(pooled) - 1),
        ratio_p=_ratio_p(pooled, expected),
        outlier_p=_outlier_p(counts / draws, probabilities, draws),
    )


def _pool(counts: Integers, expected: Reals) -> tuple[Integers, Reals]:
    """Join neighbouring bins until each expects enough, so that the tails count without being many."""
    starts, load = [0], 0.0
    for place, share in enumerate(expected.tolist()):
        if load >= FEWEST_EXPECTED:
            starts.append(place)
            load = 0.0
        load += share
    if load < FEWEST_EXPECTED and len(starts) > 1:
        starts.pop()
    return np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)


def _ratio_p(counts: Integers, expected: Reals) -> float:
    """Test ln(n_k / n_(k+1)) of all neighbours at once: the largest deviation, by the union bound."""
    is_full = (expected[:-1] >= FEWEST_FOR_RATIO) & (expected[1:] >= FEWEST_FOR_RATIO)
    if not is_full.any():
        return 1.0
    observed = np.maximum(counts, 1)
    deviation = np.log(observed[:-1] / observed[1:]) - np.log(expected[:-1] / expected[1:])
    in_errors = np.abs(deviation) / np.sqrt(1 / expected[:-1] + 1 / expected[1:])
    return min(1.0, int(is_full.sum()) * math.erfc(float(in_errors[is_full].max()) / math.sqrt(2)))


def _outlier_p(shares: Reals, law: Reals, draws: int) -> float:
    """Bound the chance of the strangest single bin, joined or not: Chernoff, P <= exp(-n KL(share || p)) each way."""
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = np.where(shares > 0, shares * np.log(shares / law), 0.0)
        unseen = np.where(shares < 1, (1 - shares) * np.log((1 - shares) / (1 - law)), 0.0)
    return min(1.0, 2 * len(law) * math.exp(-draws * float((seen + unseen).max())))


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Give the chance that a chi-square variable of so many degrees of freedom is at least `statistic`.

    The regularised gamma function Q(freedom/2, statistic/2), by Q(a+1, x) = Q(a, x) + x^a e^-x / Gamma(a+1).

    >>> round(chi_square_tail(3.841, 1), 3)
    0.05
    """
    if statistic <= 0:
        return 1.0
    x = statistic / 2
    a, total = (0.5, math.erfc(math.sqrt(x))) if freedom % 2 else (1.0, math.exp(-x))
    while a < freedom / 2:
        total += math.exp(a * math.log(x) - x - math.lgamma(a + 1))
        a += 1
    return min(1.0, total)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bins:
    """Groups of 2**width_bits integers, numbered low..high by z >> width_bits; the outer two take the tails."""

    low: int
    high: int
    width_bits: int = 0

    @classmethod
    def for_gaussian(cls, variance: Fraction, draws: int) -> Bins:
        """Choose bins for so many draws of discrete Gaussian noise, out to a tail that 50 of them reach."""
        reach = max(1.0, 9 * math.sqrt(variance))
        width_bits = max(0, math.ceil(math.log2(2 * reach / MOST_BINS)))
        high = 1 + (int(reach) >> width_bits)
        while high > 0 and draws * gaussian_tail(high << width_bits, variance) < FEWEST_EXPECTED:
            high -= 1
        return cls(low=-high, high=high, width_bits=width_bits)

    @classmethod
    def for_geometric(cls, scale: Fraction, draws: int) -> Bins:
        """Choose bins for so many draws of two-sided geometric noise, out to a tail that 50 of them reach."""
        reach = max(1.0, float(scale) * math.log(max(draws / FEWEST_EXPECTED, 2)))
        width_bits = max(0, math.ceil(math.log2(2 * reach / MOST_BINS)))
        high = 1 + (int(reach) >> width_bits)
        while high > 0 and draws * geometric_tail(high << width_bits, scale) < FEWEST_EXPECTED:
            high -= 1
        return cls(low=-high, high=high, width_bits=width_bits)

    def count(self, draw: DrawMany, draws: int) -> Integers:
        """Draw in blocks and count."""
        return _count_blocks(draw, draws, self.high - self.low + 1, self._find_bin)

    def _find_bin(self, values: Integers) -> Integers:
        if self.width_bits:
            values = values >> self.width_bits
        return np.clip(values, self.low, self.high) - self.low

    def geometric(self, scale: Fraction) -> Reals:
        """Give the probabilities of the bins under two-sided geometric noise."""
        return self._weigh(partial(geometric_probability, scale=scale), partial(geometric_tail, scale=scale))

    def gaussian(self, variance: Fraction) -> Reals:
        """Give the probabilities of the bins under discrete Gaussian noise."""
        return self._weigh(partial(gaussian_probability, variance=variance), partial(gaussian_tail, variance=variance))

    def weigh(self, tail: Callable[[int], float]) -> Reals:
        """Give the probabilities of the bins under a law that is known by P[Z >= z]."""
        return self._weigh(lambda z: tail(z) - tail(z + 1), tail)

    def _weigh(self, probability: Callable[[int], float], tail: Callable[[int], float]) -> Reals:
        groups = range(self.low, self.high + 1)
        if not self.width_bits:
            law = [probability(z) for z in groups]
        else:
            tails = [tail(group << self.width_bits) for group in range(self.low, self.high + 2)]
            law = [-step for step in np.diff(tails)]
        law[0] = 1 - tail((self.low + 1) << self.width_bits)
        law[-1] = tail(self.high << self.width_bits)
        return np.array(law)


@dataclass(frozen=True, kw_only=True, slots=True)
class Digit:
    """The binary digits place..place+7 of z modulo 2**(place+8), which a bin of large noise would blur."""

    place: int

    def count(self, draw: DrawMany, draws: int) -> Integers:
        """Draw in blocks and count."""
        return _count_blocks(draw, draws, 256, lambda values: (values >> self.place) & 255)

    def geometric(self, scale: Fraction) -> Reals:
        """Give the probabilities of the 256 digits under two-sided geometric noise.

        P[z mod M < e] = (1-a^e) * (1+a^(M-e+1)) / ((1+a) * (1-a^M))
        """
        rate, modulus = 1 / float(scale), 2.0 ** (self.place + 8)
        end = np.arange(257) * 2.0**self.place
        top = -np.expm1(-end * rate) * (1 + np.exp(-(modulus - end + 1) * rate))
        return np.diff(top / ((1 + math.exp(-rate)) * -math.expm1(-modulus * rate)))


def _count_blocks(draw: DrawMany, draws: int, bins: int, find_bin: Callable[[Integers], Integers]) -> Integers:
    counts = np.zeros(bins, dtype=np.int64)
    for start in range(0, draws, BLOCK):
        counts += np.bincount(find_bin(draw(min(BLOCK, draws - start))), minlength=bins)
    return counts


# --- what `sudare verify` shows: tables gone through, large samples tested, wrong laws rejected ---------------------

Progress = Callable[[float], None]  # the share of the work that is done

SCALES = tuple(Fraction(scale) for scale in ("1/1000", "1/2", "1", "20", "64", "1000/3", "1000000", "1000000000"))
VARIANCES = tuple(Fraction(variance) for variance in ("1/1000", "1/2", "400", "12345", "1000000", "1e18"))
DRAWS = 50_000_000  # of noise from one table: a scale off by 0.24 % is seen
SPLIT_DRAWS = 20_000_000  # of noise from several tables, and of words
NORMAL_DRAWS = 5_000_000  # of exact normal numbers: a deviation off by 0.6 % is seen
MATRIX_DRAWS = 6_000  # of noise of all pairs: a scale off by a fifth is seen
CHOICE_DRAWS = 20_000  # of each way to choose a candidate
WRONG_SCALE = Fraction(102, 100)  # times the right one: a law the checks must reject, to show that they can fail
WRONG_MATRIX_SCALE = Fraction(6, 5)
EPSILON = Fraction(1)
FITS = "{about}: {draws} draws in {bins} bins, p = {chance} (at least 1e-9 is wanted)"
FITS_NOT = "{about}: {draws} draws in {bins} bins, p = {chance} (less than 1e-9 is wanted)"
SCORES: Scores = (0, 1, 5, 3, Fraction(1, 2), 2)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: what was checked, whether it passed, and what came out."""

    name: Text
    passed: bool
    detail: Text

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values for a program: English templates, and the values of the detail."""
        values = {
            name: value.render("en") if isinstance(value, Readable) else value
            for name, value in self.detail.values.items()
        }
        return {"name": self.name.template, "passed": self.passed, "detail": self.detail.template, "values": values}


def check_noise(progress: Progress | None = None) -> list[CheckResult]:
    """Check the noise of this installation, on the system's own stream; some ten seconds.

    Error: a check of a right sampler fails once in 10**9 runs.
    """
    rng = SystemRng()
    steps: list[Callable[[], Iterator[CheckResult]]] = [
        *(partial(_check_table, scale) for scale in SCALES),
        *(partial(_check_gaussian_table, variance) for variance in VARIANCES),
        partial(_check_stream, rng),
        partial(_check_draws, Fraction(20), DRAWS, rng),
        partial(_check_draws, Fraction(1000, 3), SPLIT_DRAWS, rng),
        partial(_check_large, Fraction(1_000_000), SPLIT_DRAWS, rng),
        partial(_check_gaussian_draws, Fraction(400), DRAWS, rng),
        partial(_check_gaussian_draws, Fraction(10**6), SPLIT_DRAWS, rng),
        partial(_check_normal, rng),
        partial(_check_matrix, rng),
        partial(_check_exponential, rng),
        partial(_check_permute_and_flip, rng),
    ]
    checks: list[CheckResult] = []
    for done, step in enumerate(steps, 1):
        checks.extend(step())
        if progress is not None:
            progress(done / len(steps))
    return checks


def _check_table(scale: Fraction) -> Iterator[CheckResult]:
    split = split_scale(scale)
    parts = [machine.certify() for machine in (split.top, *(digit for _, digit in split.digits))]
    yield _report_tables(text("scale {scale}", scale=str(scale)), parts)


def _check_gaussian_table(variance: Fraction) -> Iterator[CheckResult]:
    about = text("Gaussian, variance {variance}", variance=str(variance))
    yield _report_tables(about, [split_variance(variance).top.certify()])


def _report_tables(about: Text, parts: list[Enumeration]) -> CheckResult:
    problems = [problem for part in parts for problem in part.problems]
    name = text("the tables of the noise are the stated law")
    if problems:
        detail = text(
            "{about}: {problems} contradictions, the first: {first}",
            about=about,
            problems=len(problems),
            first=problems[0],
        )
        return CheckResult(name, False, detail)
    detail = text(
        "{about}: {cells} cells and {thresholds} thresholds agree with the law derived again to 256 bits",
        about=about,
        cells=sum(part.cells for part in parts),
        thresholds=sum(part.thresholds for part in parts),
    )
    return CheckResult(name, True, detail)


def _check_stream(rng: SystemRng) -> Iterator[CheckResult]:
    counts: Integers = np.bincount(rng.words16(SPLIT_DRAWS), minlength=2**16)
    result = fit(counts, np.full(2**16, 2.0**-16))
    yield CheckResult(
        text("the words of the random stream are uniform"), result.is_good, _describe_fit(FITS, result, text("16-bit"))
    )


def _check_draws(scale: Fraction, draws: int, rng: SystemRng) -> Iterator[CheckResult]:
    bins = Bins.for_geometric(scale, draws)
    counts = bins.count(lambda size: geometric_noise(size, scale=scale, rng=rng), draws)
    right, wrong = fit(counts, bins.geometric(scale)), fit(counts, bins.geometric(scale * WRONG_SCALE))
    yield from _report_fits(text("scale {scale}", scale=scale), right, wrong)


def _check_gaussian_draws(variance: Fraction, draws: int, rng: SystemRng) -> Iterator[CheckResult]:
    bins = Bins.for_gaussian(variance, draws)
    counts = bins.count(lambda size: gaussian_noise(size, variance=variance, rng=rng), draws)
    right, wrong = fit(counts, bins.gaussian(variance)), fit(counts, bins.gaussian(variance * WRONG_SCALE**2))
    yield from _report_fits(text("Gaussian, variance {variance}", variance=str(variance)), right, wrong)


def _report_fits(about: Text, right: FitResult, wrong: FitResult) -> Iterator[CheckResult]:
    yield CheckResult(text("the noise has the stated law"), right.is_good, _describe_fit(FITS, right, about))
    name = text("the same noise is not taken for one of a scale 2 % larger")
    yield CheckResult(name, not wrong.is_good, _describe_fit(FITS_NOT, wrong, about))


def _check_large(scale: Fraction, draws: int, rng: SystemRng) -> Iterator[CheckResult]:
    yield from _check_draws(scale, draws, rng)
    for place in range(0, split_scale(scale).shift, DIGIT_BITS):
        digit = Digit(place=place)
        counts = digit.count(lambda size: geometric_noise(size, scale=scale, rng=rng), draws)
        result = fit(counts, digit.geometric(scale))
        about = text("scale {scale}, z >> {place} & 255", scale=scale, place=place)
        yield CheckResult(
            text("every digit of large noise has the stated law"), result.is_good, _describe_fit(FITS, result, about)
        )


def _check_normal(rng: SystemRng) -> Iterator[CheckResult]:
    """Normal numbers in steps of 1/64, which no other noise is made of."""
    yield _report_tables(text("normal numbers"), [table_machine(UNIT_LAW).certify()])
    bins = Bins(low=-256, high=256)
    counts = bins.count(lambda size: np.floor(64 * LazyNormals(size, rng).floats()).astype(np.int64), NORMAL_DRAWS)

    def weigh(deviation: float) -> Reals:
        return bins.weigh(lambda step: math.erfc(step / 64 / deviation / math.sqrt(2)) / 2)

    right, wrong = fit(counts, weigh(1.0)), fit(counts, weigh(float(WRONG_SCALE)))
    yield from _report_fits(text("normal numbers"), right, wrong)


def _check_matrix(rng: SystemRng) -> Iterator[CheckResult]:
    """The one contrast of two attributes of two groups: twice a cell, which is rounded to a grid."""
    noise = MatrixNoise(sizes=(2, 2), epsilon=EPSILON)
    nothing, unit = np.zeros((4, 4), dtype=np.int64), float(noise.unit)
    cells = np.array([noise.add(nothing, rng=rng)[0, 2] for _ in range(MATRIX_DRAWS)])
    bins = Bins(low=-64, high=64, width_bits=1)
    counts = bins.count(lambda _: np.rint(cells / unit).astype(np.int64), MATRIX_DRAWS)

    def weigh(scale: float) -> Reals:
        return bins.weigh(lambda step: contrast_tail((2 * step - 1) * unit / scale, noise.degrees))

    right, wrong = fit(counts, weigh(float(noise.scale))), fit(counts, weigh(float(noise.scale * WRONG_MATRIX_SCALE)))
    about = text("noise of all pairs, epsilon {epsilon}", epsilon=EPSILON)
    yield CheckResult(text("the noise has the stated law"), right.is_good, _describe_fit(FITS, right, about))
    name = text("the same noise is not taken for one of a scale 20 % larger")
    yield CheckResult(name, not wrong.is_good, _describe_fit(FITS_NOT, wrong, about))


def _check_exponential(rng: SystemRng) -> Iterator[CheckResult]:
    chosen = [exponential(SCORES, epsilon=EPSILON, sensitivity=1, rng=rng) for _ in range(CHOICE_DRAWS)]
    right = _fit_choices(chosen, exponential_law(SCORES, epsilon=EPSILON, sensitivity=1))
    wrong = _fit_choices(chosen, exponential_law(SCORES, epsilon=2 * EPSILON, sensitivity=1))
    about = text("epsilon {epsilon}", epsilon=EPSILON)
    yield CheckResult(
        text("the exponential mechanism has the stated law"), right.is_good, _describe_fit(FITS, right, about)
    )
    name = text("the same choices are not taken for those of twice the epsilon")
    yield CheckResult(name, not wrong.is_good, _describe_fit(FITS_NOT, wrong, about))


def _check_permute_and_flip(rng: SystemRng) -> Iterator[CheckResult]:
    chosen = [permute_and_flip(SCORES, epsilon=EPSILON, sensitivity=1, rng=rng) for _ in range(CHOICE_DRAWS)]
    result = _fit_choices(chosen, permute_and_flip_law(SCORES, epsilon=EPSILON, sensitivity=1))
    yield CheckResult(
        text("permute-and-flip has the stated law"),
        result.is_good,
        _describe_fit(FITS, result, text("epsilon {epsilon}", epsilon=EPSILON)),
    )


def _fit_choices(chosen: list[int], law: list[Fraction]) -> FitResult:
    return fit(np.bincount(chosen, minlength=len(law)), np.array([float(p) for p in law]))


def _describe_fit(template: str, result: FitResult, about: Text) -> Text:
    chance = f"{result.p_value:.2g}" if result.p_value > 1e-99 else "<1e-99"
    return text(template, about=about, draws=result.draws, bins=result.bins, chance=chance)
