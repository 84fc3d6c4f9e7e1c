"""Discrete Gaussian noise: its tables are the law, in integers; its split is the law; its cost is what is proven."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.noise import GaussianNoise, GeometricNoise, SeededRng, add_gaussian
from sudare.noise.counting import CountNoise, choose_noise, pure_epsilon_within, rho_of_epsilon
from sudare.noise.gaussian import (
    _bound_exp,
    flip_each,
    gaussian_noise,
    gaussian_probability,
    gaussian_tail,
    gaussian_variance,
    split_variance,
)
from sudare.noise.laws import DiscreteGaussian, MirroredGaussian
from sudare.noise.machine import TableMachine, draw_exactly, find_floors
from sudare.noise.rng import LazyUniform
from sudare.noise.zeros import Stratum, count_in_stratum, draw_at_most, draw_in_stratum
from sudare.privacy.currency import RHO


def noise_for_rho(rho: Fraction, *, cells: int, rows: int, is_listed: bool = False) -> CountNoise:
    return choose_noise(rho, RHO, cells=cells, rows=rows, is_listed=is_listed)


VARIANCES = [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(37, 2), Fraction(400), Fraction(150**2)]


def weigh(variance: Fraction, reach: int) -> dict[int, Decimal]:
    """The law by 60 digits of the decimal module, which the enclosures do not use."""
    with localcontext() as context:
        context.prec = 60
        nominal = Decimal(variance.numerator) / Decimal(variance.denominator)
        weights = {k: (-Decimal(k * k) / (2 * nominal)).exp() for k in range(-reach, reach + 1)}
        total = sum(weights.values())
        return {k: weight / total for k, weight in weights.items()}


# --- the tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
@pytest.mark.parametrize("law", [DiscreteGaussian, MirroredGaussian])
def test_every_cell_and_threshold_of_a_table_agrees_with_the_law(law: type, variance: Fraction) -> None:
    shown = TableMachine(law(variance=variance)).certify()

    assert shown.problems == ()
    assert shown.cells == 65_536


def test_a_table_of_a_variance_one_in_a_million_off_is_found() -> None:
    machine = TableMachine(DiscreteGaussian(variance=Fraction(400)))

    machine.law = DiscreteGaussian(variance=400 * Fraction(1_000_001, 1_000_000))

    assert not machine.certify().passed


def test_thresholds_that_agree_with_each_other_but_have_wrong_quotients_are_found() -> None:
    class Flatter(DiscreteGaussian):
        def log_step(self, k: int) -> Fraction:
            return DiscreteGaussian.log_step(self, k) * Fraction(999_999, 1_000_000)

    assert not TableMachine(Flatter(variance=Fraction(9))).certify().passed


@pytest.mark.parametrize("variance", ["1/3", "1", "18.5", "400"])
def test_thresholds_are_those_of_sixty_digits(variance: str) -> None:
    exact, reach = Fraction(variance), 40 * (1 + math.isqrt(int(Fraction(variance))))
    law, below = weigh(exact, reach), Decimal(0)

    with localcontext() as context:
        context.prec = 60
        for k in range(-reach, reach):
            below += law[k]
            low, high = DiscreteGaussian(variance=exact).threshold(k, 100)
            assert low <= below * 2**100 + Decimal("1e-20")
            assert high >= below * 2**100 - Decimal("1e-20")
            assert high - low <= 2


def test_every_integer_can_be_drawn() -> None:
    first, floors = find_floors(DiscreteGaussian(variance=Fraction(4)))

    assert (floors[0], floors[-1]) == (0, 2**64 - 1)
    far = LazyUniform(SeededRng(1), word=2**512 - 1, bits=512)
    assert draw_exactly(DiscreteGaussian(variance=Fraction(4)), far) > first + len(floors)


def test_the_mirrored_law_is_a_sign_and_a_magnitude() -> None:
    law = MirroredGaussian(variance=Fraction(9))

    for k in range(6):
        up = [bound / 2**80 for bound in law.threshold(k, 80)]
        down = [bound / 2**80 for bound in law.threshold(-2 - k, 80)]
        assert up[0] == pytest.approx(1 - down[0], abs=1e-15)


# --- the split of large variances -------------------------------------------------------------------------------------


def test_the_split_is_the_law_by_exact_probabilities() -> None:
    """Sign, leading digits, uniform digits and acceptance multiply to the law, for every value in reach."""
    variance, shift = Fraction(1000), 3
    top = weigh_mirrored(variance / 4**shift, 60)
    law = weigh(variance, 60 * 2**shift)
    found: dict[int, Decimal] = {}
    with localcontext() as context:
        context.prec = 60
        for k, low in itertools.product(range(-60, 60), range(2**shift)):
            c, sign = (k, 1) if k >= 0 else (-1 - k, -1)
            value = sign * ((c << shift) + low)
            if value == 0 and sign < 0:
                continue
            exponent = Fraction(low * ((c << (shift + 1)) + low)) / (2 * variance)
            accept = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
            found[value] = found.get(value, Decimal(0)) + top[k] * accept / 2**shift
        total = sum(found.values())
        for value in range(-400, 401):
            assert abs(found[value] / total / law[value] - 1) < Decimal("1e-40")


def weigh_mirrored(variance: Fraction, reach: int) -> dict[int, Decimal]:
    with localcontext() as context:
        context.prec = 60
        nominal = Decimal(variance.numerator) / Decimal(variance.denominator)
        weights = {k: (-Decimal((k if k >= 0 else -1 - k) ** 2) / (2 * nominal)).exp() for k in range(-reach, reach)}
        total = sum(weights.values())
        return {k: weight / total for k, weight in weights.items()}


def test_words_below_the_sure_bound_are_always_accepted() -> None:
    split = split_variance(Fraction(10**7))
    most, middle = 2**split.shift - 1, split.sure.size // 2

    for k in range(-middle + 1, middle - 1):
        c = k if k >= 0 else -1 - k
        chance = math.exp(-most * ((c << (split.shift + 1)) + most) / 2e7)
        assert int(split.sure[k + middle]) <= chance * 2**16
        assert c == 0 or int(split.sure[k + middle]) >= chance * 2**16 - 2
    assert split.sure[middle] == split.sure[middle - 1] == 0  # where -0 must be told from 0
    assert split.sure[0] == split.sure[-1] == 0


def test_the_split_never_gives_a_negative_zero() -> None:
    """Of the proposals c = 0, L = 0 only the one of sign + is taken, always."""
    split = split_variance(Fraction(10**6))
    tops, lows = np.array([0, -1]), np.array([0, 2**split.shift - 1])  # 0 and -0

    accepted = split._accept_either(tops, lows, np.zeros(2, dtype=np.uint16), SeededRng(1))

    assert accepted.tolist() == [True, False]


@pytest.mark.parametrize("deviation", [513, 3_000, 10**6, 10**9, 2**45])
def test_noise_of_a_large_variance_is_as_wide_as_stated(deviation: int) -> None:
    # 200,000 draws: a deviation 1 % off is seen (the error of a standard deviation is 0.16 %)
    drawn = gaussian_noise(200_000, variance=Fraction(deviation) ** 2, rng=SeededRng(1)).astype(float)

    assert drawn.std() / deviation == pytest.approx(1, abs=0.01)
    assert abs(drawn.mean()) / deviation < 0.01


def test_noise_beyond_64_bits_is_refused_before_it_is_drawn() -> None:
    with pytest.raises(ParameterError, match="raise rho or epsilon"):
        GaussianNoise(sigma_squared=Fraction(2**99)).check()


@pytest.mark.parametrize("variance", [0, -1, 2.5, "1"])
def test_a_variance_that_is_not_exact_or_positive_is_refused(variance: object) -> None:
    with pytest.raises(ParameterError, match="variance"):
        gaussian_noise(1, variance=variance, rng=SeededRng(1))  # type: ignore[arg-type]


def test_counts_near_the_end_of_64_bits_are_refused_rather_than_wrapped() -> None:
    with pytest.raises(ParameterError, match="64-bit"):
        add_gaussian(np.full(1000, 2**63 - 1), variance=Fraction(100), rng=SeededRng(1))


# --- flips ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["1", "1/3", "1/1000000", "1/100000000000"])
def test_the_bounds_of_flips_enclose_the_exponential(unit: str) -> None:
    rate = Fraction(unit)
    numbers = np.array([0, 1, 2, 5, 2047, 2048, 10**6, 10**9, 10**13], dtype=np.int64)
    low, high = _bound_exp(numbers, rate, up=False), _bound_exp(numbers, rate, up=True)

    for n, least, most in zip(numbers.tolist(), low.tolist(), high.tolist(), strict=True):
        exact = Decimal(2**62) * (-Decimal(rate.numerator) * n / Decimal(rate.denominator)).exp()
        assert least <= exact <= most
        assert most - least <= 2**36


def test_flips_come_out_as_often_as_stated() -> None:
    # 400,000 flips: a probability .005 off is seen
    numbers = np.full(400_000, 3_000, dtype=np.int64)

    share = flip_each(numbers, Fraction(1, 4_000), SeededRng(2)).mean()

    assert share == pytest.approx(math.exp(-0.75), abs=0.004)


# --- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", ["1/10", "1/2", "3", "400", "2500", "1000000"])
def test_probabilities_tails_and_variance_are_those_of_the_law(variance: str) -> None:
    nominal = Fraction(variance)
    reach = min(60 + 20 * math.isqrt(int(nominal) + 1), 14_000)
    places = np.arange(-reach, reach + 1, dtype=float)
    weights = np.exp(-(places**2) / (2 * float(nominal)))
    weights /= weights.sum()

    assert gaussian_variance(nominal) == pytest.approx(float((weights * places**2).sum()), rel=1e-9)
    for z in (-3, 0, 1, 2, math.isqrt(int(nominal))):
        assert gaussian_probability(z, nominal) == pytest.approx(float(weights[z + reach]), rel=1e-9)
        assert gaussian_tail(z, nominal) == pytest.approx(float(weights[z + reach :].sum()), rel=1e-7)


# --- what it costs ----------------------------------------------------------------------------------------------------


def renyi(left: dict[int, Decimal], right: dict[int, Decimal], order: float) -> float:
    terms = [order * float(left[k].ln()) + (1 - order) * float(right[k].ln()) for k in left.keys() & right.keys()]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


@pytest.mark.parametrize("variance", ["1/3", "2", "25"])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_a_shift_costs_what_the_proof_says(variance: str, shift: int) -> None:
    """Renyi divergence of every order is at most order * shift^2/(2 variance), and meets it for whole shifts."""
    nominal = Fraction(variance)
    law = weigh(nominal, 60)
    moved = {k + shift: p for k, p in law.items()}
    rho = shift**2 / (2 * float(nominal))

    for order in (1.01, 1.5, 2.0, 5.0):
        loss = renyi(law, moved, order)
        assert loss <= order * rho * (1 + 1e-9)
    assert renyi(law, moved, 2.0) == pytest.approx(2 * rho, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 2.5, 6.0, 20.0])
def test_pure_epsilon_costs_epsilon_tanh_half_epsilon(epsilon: float) -> None:
    """Randomised response is the worst pair: divergences stay below order * rho, and reach it as the order falls."""
    rho = rho_of_epsilon(Fraction(epsilon)).high / 2**128
    half = epsilon / 2

    def loss(order: float) -> float:
        return float(np.logaddexp((order - 0.5) * epsilon, (0.5 - order) * epsilon) - np.logaddexp(half, -half)) / (
            order - 1
        )

    assert rho == pytest.approx(epsilon * math.tanh(half), rel=1e-12)
    assert rho <= epsilon**2 / 2
    for order in (1.001, 1.1, 1.5, 2, 4, 16, 256):
        assert loss(order) <= order * rho * (1 + 1e-9)
    assert loss(1 + 1e-6) == pytest.approx(rho, rel=1e-4)


@pytest.mark.parametrize("rho", ["1/100000000", "1/200", "1/2", "3", "50", "10000"])
def test_an_epsilon_found_for_a_rho_never_costs_more(rho: str) -> None:
    share = Fraction(rho)
    epsilon = pure_epsilon_within(share)

    assert Fraction(rho_of_epsilon(epsilon).high, 2**128) <= share
    assert Fraction(rho_of_epsilon(epsilon * Fraction(10_001, 10_000)).low, 2**128) > share


def test_permute_and_flip_is_not_charged_as_the_exponential_mechanism() -> None:
    """Two equal candidates against one that is 2 behind: the divergence is near epsilon^2/2, four times epsilon^2/8."""
    epsilon = 0.01
    equal, behind = (0.5, 0.5), (1 - math.exp(-epsilon) / 2, math.exp(-epsilon) / 2)
    loss = sum(p * math.log(p / q) for p, q in zip(equal, behind, strict=True))

    assert loss > 3.9 * epsilon**2 / 8
    assert loss <= epsilon**2 / 2


# --- the better of two ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rho", "kind"), [("1/100", GaussianNoise), ("2", GaussianNoise), ("4", GeometricNoise)])
def test_the_noise_of_less_variance_is_chosen(rho: str, kind: type) -> None:
    share = Fraction(rho)
    bell = GaussianNoise(sigma_squared=1 / (2 * share))
    tent = GeometricNoise(scale=1 / pure_epsilon_within(share))

    chosen = noise_for_rho(share, cells=1, rows=1)

    assert isinstance(chosen, kind)
    assert chosen.variance == min(bell.variance, tent.variance)


def test_rows_of_one_person_count_by_their_number_not_its_root() -> None:
    alone, five = noise_for_rho(Fraction(1, 50), cells=1, rows=1), noise_for_rho(Fraction(1, 50), cells=1, rows=5)

    assert isinstance(alone, GaussianNoise)
    assert isinstance(five, GaussianNoise)
    assert five.sigma_squared == 25 * alone.sigma_squared


def test_two_changed_cells_cost_the_root_of_two_not_two() -> None:
    moved = noise_for_rho(Fraction(1, 50), cells=2, rows=1)

    assert moved == GaussianNoise(sigma_squared=Fraction(50))


# --- empty cells ------------------------------------------------------------------------------------------------------

NINE = GaussianNoise(sigma_squared=Fraction(9))


@pytest.mark.parametrize(
    ("above", "at_most"), [(-1, None), (-1, 0), (0, 3), (2, None), (7, None), (7, 9), (20, None), (-8, -2), (-40, -20)]
)
def test_values_of_a_stratum_have_the_conditional_law(above: int, at_most: int | None) -> None:
    # 40,000 draws in bins of at least 50: a probability of .1 moved by .01 is seen
    drawn = draw_in_stratum(40_000, Stratum(noise=NINE, above=above, at_most=at_most), SeededRng(3))

    last = at_most if at_most is not None else max(above + 1, 0) + 18
    chances = np.array([gaussian_probability(k, 9) for k in range(above + 1, last + 1)])
    if at_most is None:
        chances[-1] = gaussian_tail(last, 9)
    assert drawn.min() > above
    assert at_most is None or drawn.max() <= at_most
    counts = np.bincount(np.minimum(drawn, last) - above - 1, minlength=chances.size)
    expected = 40_000 * chances / chances.sum()
    used = expected >= 50
    assert float(((counts - expected)[used] ** 2 / expected[used]).sum()) < used.sum() + 6 * math.sqrt(2 * used.sum())


@pytest.mark.parametrize("most", [-5, -1, 0, 4])
def test_values_that_are_at_most_a_level_have_the_conditional_law(most: int) -> None:
    drawn = draw_at_most(40_000, noise=NINE, most=most, rng=SeededRng(4))
    whole = 1 - gaussian_tail(most + 1, 9)

    assert drawn.max() == most
    for k in (most, most - 1, most - 3):
        share = gaussian_probability(k, 9) / whole
        assert float((drawn == k).mean()) == pytest.approx(share, abs=6 * math.sqrt(share / 40_000))


def test_the_number_of_values_above_a_level_is_binomial() -> None:
    # mean and variance of 400 numbers: a share 3 % off is seen
    stratum, trials = Stratum(noise=NINE, above=11), 10**7
    share = gaussian_tail(12, 9)
    rng = SeededRng(5)
    numbers = np.array([count_in_stratum(trials, stratum, rng) for _ in range(400)], dtype=float)

    deviation = math.sqrt(trials * share)
    assert numbers.mean() == pytest.approx(trials * share, abs=5 * deviation / 20)
    assert numbers.var() == pytest.approx(trials * share, rel=0.4)


def test_a_gaussian_too_wide_to_list_has_no_strata_and_is_not_chosen_for_empty_cells() -> None:
    tiny = Fraction(1, 10**9)

    with pytest.raises(ParameterError, match="geometric"):
        Stratum(noise=GaussianNoise(sigma_squared=Fraction(5000**2)), above=3)
    assert isinstance(noise_for_rho(tiny, cells=1, rows=1), GaussianNoise)
    assert isinstance(noise_for_rho(tiny, cells=1, rows=1, is_listed=True), GeometricNoise)
