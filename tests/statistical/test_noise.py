"""Large samples: the noise has its law, a law 2 % off is told apart, and mutants of the sampler are caught.

Every test asks `judge`, the check that `sudare verify` runs: chi-square and ratios over n draws, good if a worse fit
has a chance of at least 1e-9. What it can see, with some 500 bins: a scale off by a share of 17/sqrt(n) (0.12 % at 2e8,
0.4 % at 2e7), or a probability d moved between two outcomes of probability p if d > 12 * sqrt(p/n). Seeds are fixed, so
that a red test is a change of the code; one test reads the system's stream and fails by chance once in 1e9 runs.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sudare.noise.gaussian import VarianceSplit, Words, _bound_sure, gaussian_noise
from sudare.noise.geometric import ScaleSplit, geometric, geometric_noise, split_scale
from sudare.noise.laws import (
    BernoulliExp,
    DigitDifference,
    Law,
    MirroredGaussian,
    OneSidedGeometric,
    TruncatedGeometric,
    TwoSidedGeometric,
)
from sudare.noise.machine import TableMachine, table_machine
from sudare.noise.rng import Rng, SeededRng, SystemRng
from sudare.noise.selfcheck import Bins, Digit, DrawMany, FitResult, chi_square_tail, fit

WRONG = Fraction(102, 100)
TWENTY = Fraction(20)
MANY, SOME = 200_000_000, 20_000_000

Ints = NDArray[np.int64]


def judge(draw: DrawMany, scale: Fraction, draws: int = SOME, *, by: Bins | Digit | None = None) -> FitResult:
    """How well draws fit two-sided geometric noise of a scale."""
    bins = by or Bins.for_geometric(scale, draws)
    return fit(bins.count(draw, draws), bins.geometric(scale))


def noise(scale: Fraction, rng: Rng) -> DrawMany:
    return lambda size: geometric_noise(size, scale=scale, rng=rng)


def bell(variance: Fraction, rng: Rng) -> DrawMany:
    return lambda size: gaussian_noise(size, variance=variance, rng=rng)


# --- the law, and not its neighbour ---------------------------------------------------------------------------------


def test_noise_of_scale_20_has_the_stated_law_and_not_one_a_fiftieth_off() -> None:
    bins = Bins.for_geometric(TWENTY, MANY)

    counts = bins.count(noise(TWENTY, SeededRng(1)), MANY)

    assert fit(counts, bins.geometric(TWENTY)).p_value > 1e-4
    assert not fit(counts, bins.geometric(TWENTY * WRONG)).is_good
    assert not fit(counts, bins.geometric(TWENTY / WRONG)).is_good
    assert not fit(counts, bins.geometric(TWENTY * Fraction(10012, 10000))).is_good  # the least that 2e8 draws see


@pytest.mark.parametrize("scale", ["1/2", "1", "64", "1000/3", "1000000", "1000000000"])
def test_noise_of_every_scale_has_the_stated_law_and_not_one_a_fiftieth_off(scale: str) -> None:
    exact = Fraction(scale)
    bins = Bins.for_geometric(exact, SOME)

    counts = bins.count(noise(exact, SeededRng(2)), SOME)

    assert fit(counts, bins.geometric(exact)).p_value > 1e-4
    assert not fit(counts, bins.geometric(exact * WRONG)).is_good


@pytest.mark.parametrize(("scale", "place"), [("1000/3", 0), ("1000000", 0), ("1000000", 8), ("1000000000", 16)])
def test_every_digit_of_large_noise_has_the_stated_law(scale: str, place: int) -> None:
    found = judge(noise(Fraction(scale), SeededRng(3)), Fraction(scale), by=Digit(place=place))

    assert found.p_value > 1e-4


def test_noise_of_the_systems_own_stream_has_the_stated_law_and_not_one_a_fiftieth_off() -> None:
    bins = Bins.for_geometric(TWENTY, SOME)

    counts = bins.count(noise(TWENTY, SystemRng()), SOME)

    assert fit(counts, bins.geometric(TWENTY)).is_good
    assert not fit(counts, bins.geometric(TWENTY * WRONG)).is_good


@pytest.mark.parametrize(
    "law",
    [
        OneSidedGeometric(scale=Fraction(5)),
        TruncatedGeometric(scale=Fraction(30), size=64),
        DigitDifference(scale=Fraction(30), size=64),
        BernoulliExp(x=Fraction(3, 2)),
    ],
    ids=str,
)
def test_the_other_laws_have_their_probabilities(law: Law) -> None:
    low, high = law.low or 0, law.high or 60
    below = [0, *(law.threshold(k, 64)[0] for k in range(low, high)), 2**64]

    machine, rng = table_machine(law), SeededRng(4)
    counts = Bins(low=low, high=high).count(lambda size: machine.sample(size, rng), SOME)

    assert fit(counts, np.diff(np.array(below, dtype=object)).astype(float) / 2**64).p_value > 1e-4


@pytest.mark.parametrize("variance", ["1/2", "400", "10000", "1000000", "1000000000000"])
def test_gaussian_noise_has_the_stated_law_and_not_one_a_fiftieth_off(variance: str) -> None:
    # 2e7 draws see a deviation .3 % off, beside the fiftieth
    exact = Fraction(variance)
    bins = Bins.for_gaussian(exact, SOME)

    counts = bins.count(bell(exact, SeededRng(9)), SOME)

    assert fit(counts, bins.gaussian(exact)).p_value > 1e-4
    assert not fit(counts, bins.gaussian(exact * WRONG**2)).is_good
    assert not fit(counts, bins.gaussian(exact / WRONG**2)).is_good


def test_the_uniform_digits_of_large_gaussian_noise_are_even() -> None:
    # z mod 256 of a deviation of 1e6: uniform to 1e-100; 2e7 draws see one digit 2 % off
    draw = bell(Fraction(10**12), SeededRng(10))

    counts = np.bincount(draw(SOME) & 255, minlength=256)

    assert fit(counts, np.full(256, 1 / 256)).p_value > 1e-4


def split_by_hand(variance: Fraction, shift: int) -> VarianceSplit:
    """A split with few leading digits, so that the acceptance shapes the law strongly."""
    top = table_machine(MirroredGaussian(variance=variance / 4**shift))
    sure = _bound_sure(variance, shift, len(top.floors) // 2)
    return VarianceSplit(variance=variance, top=top, shift=shift, sure=sure)


def accept_negative_zero(split: VarianceSplit, tops: Ints, lows: Ints, words: Words, rng: Rng) -> NDArray[np.bool_]:
    is_negative = tops < 0
    lows = np.where(is_negative, 2**split.shift - 1 - lows, lows)
    return split._accept(np.where(is_negative, ~tops, tops), lows, words, rng)


@pytest.mark.parametrize("wrong", ["", "always accept", "zero twice", "lost digits"])
def test_a_wrong_split_of_gaussian_noise_is_rejected(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # deviation 100 from leading digits of 3: 2e7 draws of some 1,000 outcomes; -0 adds half to one of them
    exact, rng = Fraction(100**2), SeededRng(11)
    split = split_by_hand(exact, 5)
    if wrong == "always accept":
        monkeypatch.setattr(VarianceSplit, "_accept", lambda self, tops, *_: np.ones(tops.size, dtype=bool))
    if wrong == "zero twice":
        monkeypatch.setattr(VarianceSplit, "_accept_either", accept_negative_zero)

    def draw(size: int) -> Ints:
        values = split.sample(size, rng)
        return values >> 1 << 1 if wrong == "lost digits" else values

    bins = Bins.for_gaussian(exact, SOME)

    assert fit(bins.count(draw, SOME), bins.gaussian(exact)).is_good == (not wrong)


def test_neighbouring_draws_are_independent() -> None:
    # pairs of a coarse outcome (z < -150, up to 149, above) against the product of their frequencies
    drawn = np.digitize(geometric_noise(SOME, scale=Fraction(1000, 3), rng=SeededRng(5)), [-150, 150])
    pairs = np.bincount(3 * drawn[:-1:2] + drawn[1::2], minlength=9).reshape(3, 3)

    assert stats.chi2_contingency(pairs).pvalue > 1e-4


# --- mutants, each rejected by the same check -----------------------------------------------------------------------


def test_a_sensitivity_off_by_one_is_rejected() -> None:
    # sensitivity 50 at epsilon 5/2 is scale 20; a mutant that counts 49 adds noise 2 % too small
    def draw(sensitivity: int) -> DrawMany:
        rng = SeededRng(6)
        return lambda size: geometric(
            np.zeros(size, dtype=np.int64), epsilon=Fraction(5, 2), sensitivity=sensitivity, rng=rng
        )

    right, wrong = judge(draw(50), TWENTY), judge(draw(49), TWENTY)

    assert right.is_good
    assert not wrong.is_good


def without_digit(split: ScaleSplit, missing: int) -> ScaleSplit:
    kept = tuple(digit for i, digit in enumerate(split.digits) if i != missing)
    return ScaleSplit(top=split.top, shift=split.shift, digits=kept)


def sampling(split: ScaleSplit, rng: Rng) -> DrawMany:
    def draw(size: int) -> Ints:
        out = np.empty(size, dtype=np.int64)
        split.sample_into(out, rng)
        return out

    return draw


@pytest.mark.parametrize(("scale", "missing"), [("1000/3", 0), ("1000000", 0), ("1000000", 1)])
def test_a_missing_level_of_the_split_is_rejected(scale: str, missing: int) -> None:
    exact, by = Fraction(scale), Digit(place=8 * missing)
    split = split_scale(exact)

    right = judge(sampling(split, SeededRng(7)), exact, by=by)
    wrong = judge(sampling(without_digit(split, missing), SeededRng(7)), exact, by=by)

    assert right.is_good
    assert not wrong.is_good


def test_a_missing_top_level_is_rejected() -> None:
    exact = Fraction(1000, 3)
    split = split_scale(exact)

    def draw(size: int) -> Ints:
        return sampling(split, SeededRng(size))(size) & (2**split.shift - 1)

    assert not judge(draw, exact, 2_000_000).is_good


def test_one_digit_for_both_signs_is_rejected() -> None:
    # L in place of L1 - L2: right range, wrong law
    exact = Fraction(1000, 3)
    split = split_scale(exact)
    one = table_machine(TruncatedGeometric(scale=exact, size=2**split.shift))
    rng = SeededRng(8)

    found = judge(lambda size: (split.top.sample(size, rng) << split.shift) + one.sample(size, rng), exact)

    assert not found.is_good


def test_minus_zero_counted_beside_zero_is_rejected() -> None:
    # a size and a sign: zero comes as +0 and as -0, twice as often as it should
    sizes, rng = table_machine(OneSidedGeometric(scale=TWENTY)), SeededRng(9)

    def draw(size: int) -> Ints:
        return sizes.sample(size, rng) * (1 - 2 * rng.uniform_below(2, size))

    def draw_again_if_minus_zero(size: int) -> Ints:
        parts: list[Ints] = []
        while (missing := size - sum(map(len, parts))) > 0:
            values, signs = sizes.sample(missing, rng), rng.uniform_below(2, missing)
            parts.append((values * (1 - 2 * signs))[(values > 0) | (signs == 0)])
        return np.concatenate(parts)

    assert judge(draw_again_if_minus_zero, TWENTY).is_good
    assert not judge(draw, TWENTY).is_good


class DropsLongDraws(TableMachine):
    """A mutant with a buffer of 8 words: a draw that needs 3 more than are left in it is dropped and begun anew."""

    def sample_into(self, out: Ints, rng: Rng) -> None:
        super().sample_into(out, rng)
        words = rng.words16(len(out))  # the mutant's own first words, to know which draws are long
        is_long = self.table[words] == self.cut
        is_dropped = is_long & (np.arange(len(out)) % 8 > 4)
        drawn = self.table[words].astype(np.int64)
        drawn[is_long] = self._search(words[is_long], rng)
        out[~is_dropped] = drawn[~is_dropped]


def test_draws_dropped_at_the_end_of_a_buffer_are_rejected() -> None:
    law, rng = TwoSidedGeometric(scale=TWENTY), SeededRng(10)
    right, wrong = TableMachine(law), DropsLongDraws(law)

    assert judge(lambda size: right.sample(size, rng), TWENTY).is_good
    assert not judge(lambda size: wrong.sample(size, rng), TWENTY).is_good


class StopsAtSixteenBits(TableMachine):
    """A mutant that answers a cut cell by the value where the cell begins."""

    def _search(self, words: NDArray[np.uint16], rng: Rng) -> Ints:
        return self.first + np.searchsorted(self.floors >> np.uint64(48), words.astype(np.uint64))


class StopsAtTheNextValue(TableMachine):
    """A mutant that looks at one threshold of a cut cell only: there is no other in the middle, but in the tail."""

    def _search(self, words: NDArray[np.uint16], rng: Rng) -> Ints:
        start = np.searchsorted(self.floors >> np.uint64(48), words.astype(np.uint64))
        return np.minimum(super()._search(words, rng), self.first + start + 1)


def cut_off(draw: DrawMany) -> DrawMany:
    return lambda size: np.clip(draw(size), -200, 200)


def shifted_tail(draw: DrawMany) -> DrawMany:
    """The slip of ceil for floor in the negative branch: values below -100 come out one too high."""

    def slip(size: int) -> Ints:
        drawn = draw(size)
        return drawn + (drawn < -100)

    return slip


@pytest.mark.parametrize("mutant", [StopsAtSixteenBits, StopsAtTheNextValue])
def test_a_tail_that_is_not_refined_is_rejected(mutant: type[TableMachine]) -> None:
    machine, rng = mutant(TwoSidedGeometric(scale=TWENTY)), SeededRng(11)

    found = judge(lambda size: machine.sample(size, rng), TWENTY, 5 * SOME)

    assert not found.is_good


@pytest.mark.parametrize("spoil", [cut_off, shifted_tail])
def test_a_wrong_tail_is_rejected(spoil: Callable[[DrawMany], DrawMany]) -> None:
    right, wrong = noise(TWENTY, SeededRng(12)), spoil(noise(TWENTY, SeededRng(12)))

    assert judge(right, TWENTY).is_good
    assert not judge(wrong, TWENTY).is_good


def test_the_bias_once_found_in_another_librarys_proven_sampler_is_rejected() -> None:
    # OpenDP 0.9.0 to 0.14.1, scale 20: three times the promised loss between outcomes 15 and 16; 4e5 draws show it
    rng = SeededRng(13)

    def draw(size: int) -> Ints:
        drawn = geometric_noise(size, scale=TWENTY, rng=rng)
        moved = (np.abs(drawn) == 16) & (rng.uniform_below(1000, size) < 95)  # 1 - exp(-2/20): the loss is 3/20
        return np.where(moved, np.sign(drawn) * 15, drawn)

    assert not judge(draw, TWENTY, 400_000).is_good


# --- the check itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("freedom", [1, 2, 5, 30, 401, 8000, 65535])
@pytest.mark.parametrize("deviations", [-3, 0, 3, 6, 12])
def test_the_tail_of_chi_square_agrees_with_scipy(freedom: int, deviations: int) -> None:
    statistic = max(0.0, freedom + deviations * (2 * freedom) ** 0.5)

    assert chi_square_tail(statistic, freedom) == pytest.approx(stats.chi2.sf(statistic, freedom), rel=1e-6, abs=1e-290)


@pytest.mark.parametrize("scale", ["1/1000", "1/2", "20", "1000/3", "1000000000"])
def test_the_bins_of_a_scale_hold_all_of_it_and_enough_in_each(scale: str) -> None:
    law = Bins.for_geometric(Fraction(scale), SOME).geometric(Fraction(scale))

    assert law.sum() == pytest.approx(1)
    assert len(law) < 10_000
    assert len(law) == 1 or 50 <= law[-1] * SOME <= 5000


def test_bins_that_expect_too_little_are_joined() -> None:
    counts, law = np.array([3, 10, 40, 900, 47]), np.array([0.003, 0.01, 0.04, 0.9, 0.047])

    found = fit(counts, law)

    assert found.bins == 2
    assert found.p_value == 1


def test_a_rare_outcome_that_comes_often_is_found_though_its_bin_is_joined() -> None:
    found = fit(np.array([3700, 300]), np.array([0.99, 0.01]))

    assert found.bins == 1
    assert not found.is_good


def test_an_impossible_outcome_is_found_when_it_comes_once() -> None:
    assert not fit(np.array([1000, 1]), np.array([1.0, 0.0])).is_good


@pytest.mark.parametrize("scale", ["1/2", "20", "1000000"])
@pytest.mark.parametrize("place", [0, 8, 16])
def test_the_digits_of_a_scale_hold_all_of_it(scale: str, place: int) -> None:
    law = Digit(place=place).geometric(Fraction(scale))

    assert law.sum() == pytest.approx(1)
    assert law.min() >= 0


def test_p_values_of_right_samples_are_spread_evenly() -> None:
    # otherwise a check that always passes would look like a good sampler
    rng = SeededRng(14)

    found = [judge(noise(Fraction(5), rng), Fraction(5), 20_000).chi_square_p for _ in range(300)]

    assert stats.kstest(found, "uniform").pvalue > 1e-4
