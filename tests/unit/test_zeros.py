"""The number and the values of surviving empty cells, against exact fractions and simple references."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.noise import SeededRng, geometric_noise, geometric_tail
from sudare.noise.counting import GeometricNoise
from sudare.noise.geometric import one_sided_noise
from sudare.noise.machine import TableMachine
from sudare.noise.zeros import Stratum, StratumCount, count_in_stratum, draw_in_stratum, expect_in_stratum

TWO = Fraction(2)


@pytest.mark.parametrize("trials", [1, 2, 7, 40, 3000])
@pytest.mark.parametrize(("above", "at_most"), [(3, None), (-1, None), (2, 5), (-6, -2)])
def test_thresholds_enclose_the_binomial_law(trials: int, above: int, at_most: int | None) -> None:
    """Against the same sum in decimals of 120 digits."""
    law = StratumCount(trials=trials, stratum=Stratum(noise=GeometricNoise(scale=TWO), above=above, at_most=at_most))
    with decimal.localcontext(prec=120):
        share = Decimal(law.stratum.share(400).low) / 2**400
        below = Decimal(0)
        for k in range(min(trials, 30)):
            below += math.comb(trials, k) * share**k * (1 - share) ** (trials - k)
            low, high = law.threshold(k, 64)

            assert low <= below * 2**64 + Decimal("1e-60")
            assert high >= below * 2**64 - Decimal("1e-60")
            assert high - low <= 2


@pytest.mark.parametrize("trials", [1, 5, 900, 10**20])
def test_the_machine_of_the_law_is_certified(trials: int) -> None:
    share = Fraction(32, max(trials, 64))
    level = math.ceil(float(TWO) * math.log(1 / float(share)))
    TableMachine(StratumCount(trials=trials, stratum=Stratum(noise=GeometricNoise(scale=TWO), above=level))).certify()


def test_the_share_of_a_stratum_is_the_tail() -> None:
    assert Stratum(noise=GeometricNoise(scale=TWO), above=6).share(64).low / 2**64 == pytest.approx(
        geometric_tail(7, TWO)
    )
    inner = Stratum(noise=GeometricNoise(scale=TWO), above=2, at_most=5).share(64).low / 2**64
    kept = 1 - geometric_tail(6, TWO)

    assert inner == pytest.approx((geometric_tail(3, TWO) - geometric_tail(6, TWO)) / kept)


@pytest.mark.parametrize("trials", [1000, 10**6, 10**12, 10**18, 10**30])
def test_the_number_has_mean_and_variance_of_the_binomial(trials: int) -> None:
    """150 draws with mean about 500: the mean is known to 0.4 %, the variance to 12 %."""
    level = math.ceil(2 * math.log(trials / 1000)) if trials > 1000 else -1
    stratum = Stratum(noise=GeometricNoise(scale=TWO), above=level)
    share = stratum.share(300).low / 2**300
    rng = SeededRng(5)
    drawn = np.array([count_in_stratum(trials, stratum, rng) for _ in range(150)], dtype=float)
    mean = trials * share

    assert abs(drawn.mean() - mean) < 4 * math.sqrt(mean / 150)
    assert 0.6 < drawn.var() / (mean * (1 - share)) < 1.5


@pytest.mark.parametrize(("above", "at_most"), [(4, None), (4, 9), (-1, 3), (-9, -3), (-5, 0)])
def test_values_have_the_law_of_the_noise_inside_the_stratum(above: int, at_most: int | None) -> None:
    """200,000 values: a share of 10 % is known to 0.07 points, so a step by the wrong factor is seen at once."""
    rng = SeededRng(6)
    drawn = draw_in_stratum(200_000, Stratum(noise=GeometricNoise(scale=TWO), above=above, at_most=at_most), rng)
    noise = geometric_noise(4_000_000, scale=TWO, rng=rng)
    inside = noise[(noise > above) & (noise <= (10**6 if at_most is None else at_most))]
    for value in range(above + 1, (above + 8 if at_most is None else at_most) + 1):
        expected = (inside == value).mean()

        assert abs((drawn == value).mean() - expected) < 5 * math.sqrt(expected / 150_000 + expected / inside.size)
    assert drawn.min() > above


def test_one_sided_noise_has_its_law_at_every_scale() -> None:
    rng = SeededRng(7)
    for scale in (Fraction(1, 3), Fraction(20), Fraction(1000), Fraction(10**6)):
        drawn = one_sided_noise(200_000, scale=scale, rng=rng)
        a = math.exp(-1 / float(scale))

        assert drawn.min() == 0 or scale > 1000
        assert abs(drawn.mean() - a / (1 - a)) < 5 * math.sqrt(a / (1 - a) ** 2 / 200_000) + 1e-9


def test_no_trials_no_survivors() -> None:
    assert count_in_stratum(0, Stratum(noise=GeometricNoise(scale=TWO), above=3), SeededRng(1)) == 0


def test_strata_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ParameterError, match="must be more than"):
        Stratum(noise=GeometricNoise(scale=TWO), above=3, at_most=3)
    with pytest.raises(ParameterError, match="must not cross 0"):
        draw_in_stratum(1, Stratum(noise=GeometricNoise(scale=TWO), above=-4, at_most=3), SeededRng(1))


@pytest.mark.parametrize("power", [18, 67, 229, 290])
def test_a_draw_over_any_number_of_cells_is_one_draw(power: int) -> None:
    """Detects shares worked out to 256 bits: of 10^229 cells each draw took 10^77, and no draw ended."""
    trials = 10**power
    level = math.floor(float(TWO) * math.log(trials)) - 4  # e^2 or so lie above
    stratum = Stratum(noise=GeometricNoise(scale=TWO), above=level)
    draws = [count_in_stratum(trials, stratum, SeededRng(seed)) for seed in range(200)]
    expected = expect_in_stratum(trials, stratum)

    assert 1 < expected < 20
    assert abs(np.mean(draws) - expected) < 4 * math.sqrt(expected / len(draws))
