"""Enclosures hold the true value, whatever is computed; laws enclose their probabilities, seen from elsewhere.

The reference is the decimal module, whose exp is correctly rounded and shares no code with enclosure.py.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sudare.errors import ParameterError
from sudare.noise.enclosure import Enclosure, enclose, exp_minus
from sudare.noise.laws import (
    BernoulliExp,
    DigitDifference,
    Law,
    OneSidedGeometric,
    TruncatedGeometric,
    TwoSidedGeometric,
)

fractions = st.fractions(min_value=-50, max_value=50, max_denominator=10**6)
positive = st.fractions(min_value=Fraction(1, 1000), max_value=50, max_denominator=10**6)
precisions = st.integers(min_value=1, max_value=300)
scales = st.one_of(
    st.fractions(min_value=Fraction(1, 20), max_value=100, max_denominator=1000),
    st.integers(min_value=1, max_value=10**9).map(Fraction),
)


def exp(x: Fraction, digits: int = 400) -> Fraction:
    """exp(x) to `digits` digits."""
    with localcontext() as context:
        context.prec = digits
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())


def holds(value: Fraction, bounds: tuple[int, int], bits: int) -> bool:
    """Whether low <= value * 2**bits <= high, given a value good to 10**-300."""
    slack = Fraction(2**bits, 10**300)
    return bounds[0] - slack <= value * 2**bits <= bounds[1] + slack


@given(x=st.fractions(min_value=0, max_value=400, max_denominator=10**12), bits=precisions)
def test_the_exponential_is_enclosed_by_integers_at_most_two_apart(x: Fraction, bits: int) -> None:
    found = exp_minus(x, bits)

    assert holds(exp(-x), (found.low, found.high), bits)
    assert 0 <= found.high - found.low <= 2


@given(x=st.fractions(min_value=0, max_value=5, max_denominator=100), bits=st.integers(min_value=1, max_value=64))
def test_more_bits_stay_inside_fewer(x: Fraction, bits: int) -> None:
    wide, narrow = exp_minus(x, bits), exp_minus(x, 1200)

    shift = 1200 - bits
    assert wide.low << shift <= narrow.high
    assert narrow.low <= wide.high << shift


@pytest.mark.parametrize("bits", [1, 2, 3, 10_000])
def test_extreme_precisions_are_enclosed_too(bits: int) -> None:
    with localcontext() as context:
        context.prec = 3100
        truth = Fraction(Decimal(-1).exp())

    found = exp_minus(Fraction(1), bits)

    assert found.low <= truth * 2**bits <= found.high
    assert found.high - found.low <= 2


def test_exp_of_zero_is_exactly_one() -> None:
    assert exp_minus(Fraction(0), 20) == Enclosure(2**20, 2**20, 20)


def test_a_negative_argument_is_refused() -> None:
    with pytest.raises(ParameterError, match="must be at least 0"):
        exp_minus(Fraction(-1), 20)


@given(left=fractions, right=fractions, bits=precisions)
def test_sums_differences_and_products_hold_the_true_value(left: Fraction, right: Fraction, bits: int) -> None:
    a, b = Enclosure.of(left, bits=bits), Enclosure.of(right, bits=bits)

    results = [(a + b, left + right), (a - b, left - right), (a * b, left * right), (3 - a * 2, 3 - left * 2)]

    assert all(found.low <= truth * 2**bits <= found.high for found, truth in results)


@given(left=fractions, right=positive, bits=st.integers(min_value=11, max_value=300))
def test_quotients_hold_the_true_value(left: Fraction, right: Fraction, bits: int) -> None:
    divisor = Enclosure.of(right, bits=bits)
    assume(divisor.low > 0)

    found = Enclosure.of(left, bits=bits) / divisor

    assert found.low <= left / right * 2**bits <= found.high


@given(base=st.fractions(min_value=-2, max_value=2, max_denominator=1000), exponent=st.integers(0, 40), bits=precisions)
def test_powers_hold_the_true_value(base: Fraction, exponent: int, bits: int) -> None:
    found = Enclosure.of(base, bits=bits) ** exponent

    assert found.low <= base**exponent * 2**bits <= found.high


def test_a_divisor_that_may_be_zero_asks_for_more_bits() -> None:
    with pytest.raises(ZeroDivisionError):
        Enclosure.of(1, bits=8) / Enclosure(0, 1, 8)

    assert enclose(lambda bits: 1 / Enclosure.of(Fraction(1, 2**100), bits=bits), 8) == (2**108, 2**108)


def test_precisions_do_not_mix() -> None:
    with pytest.raises(ValueError, match="different precision"):
        Enclosure.of(1, bits=8) + Enclosure.of(1, bits=9)


def test_an_enclosure_that_never_narrows_is_given_up() -> None:
    with pytest.raises(ArithmeticError):
        enclose(lambda bits: Enclosure(0, 2**bits, bits), 8)


# --- laws -----------------------------------------------------------------------------------------------------------


def two_sided(scale: Fraction, k: int) -> Fraction:
    a = exp(-1 / scale)
    return 1 - exp(-(k + 1) / scale) / (1 + a) if k >= 0 else exp(k / scale) / (1 + a)


@given(scale=scales, k=st.integers(-2000, 2000), bits=precisions)
def test_the_two_sided_geometric_encloses_its_law(scale: Fraction, k: int, bits: int) -> None:
    found = TwoSidedGeometric(scale=scale).threshold(k, bits)

    assert holds(two_sided(scale, k), found, bits)
    assert found[1] - found[0] <= 2


@given(scale=scales, k=st.integers(0, 2000), bits=precisions)
def test_the_one_sided_geometric_encloses_its_law(scale: Fraction, k: int, bits: int) -> None:
    found = OneSidedGeometric(scale=scale).threshold(k, bits)

    assert holds(1 - exp(-(k + 1) / scale), found, bits)
    assert found[1] - found[0] <= 2


@given(scale=scales, size=st.integers(2, 256), share=st.floats(0, 1), bits=precisions)
def test_the_truncated_geometric_encloses_its_law(scale: Fraction, size: int, share: float, bits: int) -> None:
    k = int(share * (size - 2))

    found = TruncatedGeometric(scale=scale, size=size).threshold(k, bits)

    truth = (1 - exp(-(k + 1) / scale)) / (1 - exp(-size / scale))
    assert holds(truth, found, bits)
    assert found[1] - found[0] <= 2


def power(scale: Fraction, k: int) -> Decimal:
    """exp(-k/scale)."""
    return (Decimal(-k * scale.denominator) / Decimal(scale.numerator)).exp()


def difference(scale: Fraction, size: int) -> dict[int, Decimal]:
    """The law of L1 - L2, summed term by term: P[L = k] = a^k (1-a)/(1-a^size)."""
    weights = [power(scale, k) for k in range(size)]
    one = [weight / sum(weights) for weight in weights]
    return {d: sum(one[j] * one[j + abs(d)] for j in range(size - abs(d))) for d in range(1 - size, size)}


@given(scale=scales, size=st.integers(2, 12))
def test_a_digit_difference_is_the_difference_of_two_truncated_geometrics(scale: Fraction, size: int) -> None:
    with localcontext() as context:
        context.prec = 100
        law = {d: Fraction(p) for d, p in difference(scale, size).items()}
    machine = DigitDifference(scale=scale, size=size)

    found = {k: machine.threshold(k, 200) for k in range(1 - size, size - 1)}

    slack = Fraction(2**200, 10**95)  # the reference has 100 digits
    for k, (low, high) in found.items():
        assert low - slack <= sum(law[d] for d in law if d <= k) * 2**200 <= high + slack


@given(x=positive, bits=precisions)
def test_the_bernoulli_law_encloses_its_law(x: Fraction, bits: int) -> None:
    found = BernoulliExp(x=x).threshold(0, bits)

    assert holds(1 - exp(-x), found, bits)


@given(scale=st.fractions(min_value=1, max_value=40, max_denominator=20), shift=st.integers(1, 5))
def test_a_split_puts_the_law_together_again(scale: Fraction, shift: int) -> None:
    # P[2^m H + D = z] = sum over d = z (mod 2^m) of P[D = d] P[H = (z-d)/2^m], which must be (1-a)/(1+a) a^|z|
    size = 2**shift
    with localcontext() as context:
        context.prec = 60
        digit, a, b = difference(scale, size), power(scale, 1), power(scale, size)
        errors = []
        for z in range(-3 * size, 3 * size + 1):
            parts = [p * b ** abs((z - d) // size) for d, p in digit.items() if (z - d) % size == 0]
            errors.append((1 - b) / (1 + b) * sum(parts) - (1 - a) / (1 + a) * a ** abs(z))

    assert max(map(abs, errors)) < Decimal(10) ** -55


@pytest.mark.parametrize(
    ("law", "reason"),
    [
        (lambda: TwoSidedGeometric(scale=Fraction(0)), "must be a positive exact fraction"),
        (lambda: TwoSidedGeometric(scale=Fraction(-1)), "must be a positive exact fraction"),
        (lambda: OneSidedGeometric(scale=0.5), "must be a positive exact fraction"),  # type: ignore[arg-type]
        (lambda: TruncatedGeometric(scale=Fraction(1), size=1), "must be at least 2"),
        (lambda: DigitDifference(scale=Fraction(1), size=0), "must be at least 2"),
        (lambda: BernoulliExp(x=Fraction(0)), "must be a positive exact fraction"),
    ],
)
def test_a_law_outside_its_range_is_refused(law: Law, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        law()  # type: ignore[operator]
