"""Geometric noise: the exact law of every scale, the promised ratio in integers, and nothing that wraps silently."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.noise import geometric as geometric_function
from sudare.noise.enclosure import exp_minus
from sudare.noise.geometric import (
    LARGEST_SCALE,
    WORD_MAX,
    geometric,
    geometric_noise,
    geometric_probability,
    geometric_tail,
    geometric_variance,
    split_scale,
)
from sudare.noise.laws import TwoSidedGeometric
from sudare.noise.machine import TableMachine
from sudare.noise.rng import Rng, SeededRng, SystemRng

BITS = 256


def mass(law: TwoSidedGeometric, z: int) -> tuple[int, int]:
    """Bounds of 2**256 * P[Z = z]."""
    (low, high), (below_low, below_high) = law.threshold(z, BITS), law.threshold(z - 1, BITS)
    return low - below_high, high - below_low


# --- the law, in integers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["1/3", "1", "20", "1000/17"])
def test_the_table_holds_the_stated_probabilities(scale: str) -> None:
    # enumeration: the 64-bit floors of the machine against (1-a)/(1+a) a^|z| from the decimal module
    exact = Fraction(scale)
    machine = split_scale(exact).top
    with localcontext() as context:
        context.prec = 60
        a = (-Decimal(exact.denominator) / Decimal(exact.numerator)).exp()
        law = [(1 - a) / (1 + a) * a ** abs(machine.first + i) for i in range(len(machine.floors))]

        below = a ** -(machine.first - 1) / (1 + a)  # P[Z < first]
        floors = [int((below + part) * 2**64) for part in accumulate(law)]

    assert floors == [int(floor) for floor in machine.floors]


@pytest.mark.parametrize(("epsilon", "sensitivity"), [("1/10", 2), ("1", 1), ("3", 2), ("1/2", 5)])
def test_one_unit_changes_no_outcome_by_more_than_the_promise(epsilon: str, sensitivity: int) -> None:
    # P[count + Z = y] against P[count' + Z = y] with |count - count'| = sensitivity, for every y, in integers
    law = TwoSidedGeometric(scale=sensitivity / Fraction(epsilon))
    shrink = exp_minus(Fraction(epsilon), BITS).low  # 2**256 * e^-epsilon

    for z in range(-60, 61):
        least, _ = mass(law, z)
        _, most = mass(law, z + sensitivity)

        assert least * shrink <= most * (2**BITS + 2**64)  # beyond the enclosures' own width: 2**-192


def test_the_promise_is_used_up_exactly() -> None:
    law = TwoSidedGeometric(scale=Fraction(20))
    shrink = exp_minus(Fraction(1, 20), BITS).high

    least, most = mass(law, 5)[1], mass(law, 6)[0]

    assert least * shrink >= most * (2**BITS - 2**64)


def test_a_sensitivity_one_too_small_breaks_the_promise() -> None:
    law = TwoSidedGeometric(scale=Fraction(4))  # made for sensitivity 4, used for 5, at epsilon 1
    shrink = exp_minus(Fraction(1), BITS).low

    least, most = mass(law, 0)[0], mass(law, 5)[1]

    assert least * shrink > most * (2**BITS + 2**64)


# --- the split ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "shift", "sizes"),
    [
        ("1/1000", 0, []),
        ("64", 0, []),
        ("65", 3, [8]),
        ("1000/3", 5, [32]),
        ("10000", 10, [256, 4]),
        ("1000000000", 26, [256, 256, 256, 4]),
    ],
)
def test_a_scale_is_split_into_digits_of_at_most_8_bits(scale: str, shift: int, sizes: list[int]) -> None:
    split = split_scale(Fraction(scale))

    assert split.shift == shift
    assert [digit.law.high + 1 for _, digit in split.digits] == sizes  # type: ignore[operator]
    assert [place for place, _ in split.digits] == list(range(0, shift, 8))


@pytest.mark.parametrize("scale", ["1000/3", "1000000", "1000000000", str(LARGEST_SCALE)])
def test_every_digit_has_the_ratio_of_its_place(scale: str) -> None:
    split = split_scale(Fraction(scale))

    assert split.top.law.scale * 2**split.shift == Fraction(scale)  # type: ignore[attr-defined]
    assert all(digit.law.scale * 2**place == Fraction(scale) for place, digit in split.digits)  # type: ignore[attr-defined]


@pytest.mark.parametrize("scale", ["1000/3", "1000000000"])
def test_every_table_of_a_split_is_its_law(scale: str) -> None:
    split = split_scale(Fraction(scale))

    assert all(machine.certify().passed for machine in (split.top, *(digit for _, digit in split.digits)))


def test_a_split_draws_top_and_digits_and_adds_them() -> None:
    split = split_scale(Fraction(10_000))
    first, second = SeededRng(8), SeededRng(8)

    out = np.empty(1000, dtype=np.int64)
    split.sample_into(out, first)
    parts = [split.top.sample(1000, second) << split.shift]
    parts += [digit.sample(1000, second) << place for place, digit in split.digits]

    assert out.tolist() == sum(parts).tolist()


@pytest.mark.parametrize("scale", ["1/1000", "1/2", "20", "1000/3", "1000000", "1000000000", str(LARGEST_SCALE)])
def test_noise_of_every_size_has_the_stated_spread(scale: str) -> None:
    exact = Fraction(scale)

    noise = geometric_noise(200_000, scale=exact, rng=SeededRng(21))

    # the fourth moment is below 6 + 1/variance times the squared variance: 6 deviations of the estimate
    variance = geometric_variance(exact)
    spread = 6 * math.sqrt((5 * variance**2 + variance) / 200_000)
    assert abs(noise.astype(float).var() - variance) <= spread + 1e-12
    assert abs(noise.astype(float).mean()) <= 6 * math.sqrt(variance / 200_000)


def test_noise_does_not_depend_on_where_buffers_end() -> None:
    drawn = [geometric_noise(5000, scale=Fraction(5000), rng=SeededRng(2, buffer_bytes=size)) for size in (3, 4096)]

    assert drawn[0].tolist() == drawn[1].tolist()


# --- adding it ------------------------------------------------------------------------------------------------------


def test_noise_is_added_to_every_count_and_shapes_are_kept() -> None:
    counts = np.arange(6).reshape(2, 3)

    noisy = geometric(counts, epsilon=Fraction(1), sensitivity=2, rng=SeededRng(3))

    noise = geometric_noise(6, scale=Fraction(2), rng=SeededRng(3)).reshape(2, 3)
    assert noisy.dtype == np.int64
    assert noisy.tolist() == (counts + noise).tolist()
    assert counts.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64, np.int64])
def test_integers_of_any_width_are_taken(kind: type[np.integer]) -> None:
    noisy = geometric(np.array([7, 9], dtype=kind), epsilon=Fraction(1000), sensitivity=1, rng=SeededRng(3))

    assert noisy.dtype == np.int64
    assert noisy.tolist() == [7, 9]


@pytest.mark.parametrize("values", [[], np.zeros((0, 4), dtype=np.int64)])
def test_no_counts_give_no_noise(values: list[int]) -> None:
    noisy = geometric(values, epsilon=Fraction(1), sensitivity=1, rng=SeededRng(3))

    assert noisy.size == 0
    assert noisy.dtype == np.int64


def test_a_single_count_may_be_a_scalar() -> None:
    assert geometric(5, epsilon=Fraction(1000), sensitivity=1, rng=SeededRng(3)) == 5


@pytest.mark.parametrize("edge", [WORD_MAX, -WORD_MAX - 1])
def test_a_sum_that_leaves_64_bits_is_refused_and_never_wraps(edge: int) -> None:
    values = np.full(100, edge)

    with pytest.raises(ParameterError, match="does not fit 64-bit") as caught:
        geometric(values, epsilon=Fraction(1, 100), sensitivity=1, rng=SeededRng(3))

    assert str(edge) not in str(caught.value)


def test_large_counts_that_fit_pass() -> None:
    # the extremes alone could overflow together, but no sum does
    values = np.array([WORD_MAX - 10_000, 0, -WORD_MAX + 10_000])

    noisy = geometric(values, epsilon=Fraction(1, 100), sensitivity=1, rng=SeededRng(3))

    assert np.abs(noisy - values).max() < 10_000


def test_noise_that_leaves_64_bits_is_refused() -> None:
    split = split_scale(Fraction(LARGEST_SCALE))

    class Far(TableMachine):
        def sample_into(self, out: np.ndarray, rng: Rng) -> None:
            out[:] = 2 ** (62 - split.shift)

    far = type(split)(top=Far(split.top.law), shift=split.shift, digits=split.digits)

    with pytest.raises(ParameterError, match="noise does not fit"):
        far.sample_into(np.empty(3, dtype=np.int64), SeededRng(1))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.0, 2.0], "must be integers, not float64"),
        ([True], "must be integers, not bool"),
        (["1"], "must be integers, not str"),
        (np.array([2**63], dtype=np.uint64), "must fit 64-bit"),
        ([2**70], "must be integers, not object"),
    ],
)
def test_values_that_are_no_counts_are_refused(values: object, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        geometric(values, epsilon=Fraction(1), sensitivity=1, rng=SeededRng(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1), 0.5, float("nan"), "1"])
def test_an_epsilon_that_is_not_exact_and_positive_is_refused(epsilon: object) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        geometric([1], epsilon=epsilon, sensitivity=1, rng=SeededRng(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("sensitivity", [0, -1, 1.5, Fraction(-1, 2)])
def test_a_sensitivity_that_is_not_exact_and_positive_is_refused(sensitivity: object) -> None:
    with pytest.raises(ParameterError, match="sensitivity"):
        geometric([1], epsilon=Fraction(1), sensitivity=sensitivity, rng=SeededRng(1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scale", "reason"),
    [
        (Fraction(0), "must be a positive exact fraction"),
        (20.0, "must be a positive exact fraction"),
        (Fraction(LARGEST_SCALE + 1), "at most"),
    ],
)
def test_a_scale_outside_its_range_is_refused(scale: object, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        geometric_noise(1, scale=scale, rng=SeededRng(1))  # type: ignore[arg-type]


def test_the_smallest_epsilon_with_a_large_sensitivity_works() -> None:
    noisy = geometric([0] * 1000, epsilon=Fraction(1, 10**6), sensitivity=1000, rng=SeededRng(5))

    assert 10**8 < np.abs(noisy).mean() < 10**10


def test_a_stream_of_zeros_alone_never_ends_in_an_answer() -> None:
    # U = 0 has probability zero and no value of an unbounded law: the machine must go on asking, not make one up
    asked = 0

    def generate(out: memoryview) -> None:
        nonlocal asked
        asked += len(out)
        if asked > 1000:
            raise EOFError
        out[:] = bytes(len(out))

    with pytest.raises(EOFError):
        geometric_noise(1, scale=Fraction(20), rng=Rng(generate, buffer_bytes=1))


# --- what is said about it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["1/3", "2", "20"])
def test_variance_probability_and_tail_agree_with_sums(scale: str) -> None:
    exact = Fraction(scale)
    law = {z: geometric_probability(z, exact) for z in range(-2000, 2001)}

    assert sum(law.values()) == pytest.approx(1)
    assert sum(z * z * p for z, p in law.items()) == pytest.approx(geometric_variance(exact))
    for z in (-40, -1, 0, 1, 2, 40):
        assert geometric_tail(z, exact) == pytest.approx(sum(p for k, p in law.items() if k >= z))


def test_statements_about_extreme_scales_are_finite() -> None:
    tiny, huge = Fraction(1, 1000), Fraction(10**12)

    assert geometric_variance(tiny) == 0
    assert geometric_tail(1, tiny) == 0
    assert geometric_probability(0, tiny) == 1
    assert geometric_variance(huge) == pytest.approx(2e24)
    assert geometric_tail(0, huge) == pytest.approx(0.5)


def test_the_noise_of_the_system_stream_is_fresh() -> None:
    drawn = {tuple(geometric_noise(50, scale=Fraction(100), rng=SystemRng()).tolist()) for _ in range(20)}

    assert len(drawn) == 20


def test_the_room_hands_out_the_function_and_not_the_file() -> None:
    assert geometric_function is geometric
