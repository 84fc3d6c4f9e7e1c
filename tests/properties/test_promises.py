"""The currencies of differential privacy against arithmetic of high precision: every rounding is to the safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.errors import ParameterError, RelationMismatch
from sudare.privacy import ConcentratedGuarantee, Guarantee, promise_privacy, read_guarantee
from sudare.privacy.conversion import (
    bound_log,
    bound_tanh,
    epsilon_at_delta,
    largest_rho,
    root_down,
    round_down,
    round_up,
)
from sudare.privacy.currency import EPSILON, RHO
from sudare.schema.unit import Unit

rhos = st.builds(lambda digits, place: Fraction(digits) / 10**place, st.integers(1, 999), st.integers(0, 12))
deltas = st.integers(2, 30).map(lambda place: Fraction(1, 10**place))
epsilons = st.builds(lambda digits, place: Fraction(digits) / 10**place, st.integers(1, 999), st.integers(0, 5))
relations = st.sampled_from(["replace", "add-remove"])


def to_real(number):
    return mpmath.mpf(number.numerator) / number.denominator


def true_epsilon(rho, delta):
    """The least epsilon of all orders, at 60 digits: the order solves (a - 1)^2 rho = log(1 / (a delta))."""
    with mpmath.workdps(60):
        rho, delta = to_real(rho), to_real(delta)
        low, high = mpmath.mpf(10) ** -12, 1 / delta - 1
        for _ in range(250):
            middle = mpmath.sqrt(low * high)
            is_above = middle**2 * rho > -mpmath.log((1 + middle) * delta)
            low, high = (low, middle) if is_above else (middle, high)
        order = 1 + low
        return order * rho + mpmath.log(1 - 1 / order) - mpmath.log(order * delta) / (order - 1)


@given(rhos, deltas)
@settings(max_examples=80, deadline=None)
def test_the_epsilon_told_at_a_delta_is_never_below_the_true_one_and_at_most_six_digits_above(rho, delta):
    told, true = epsilon_at_delta(rho, delta), true_epsilon(rho, delta)

    with mpmath.workdps(60):
        assert to_real(told) >= true
        assert to_real(told) <= max(true, 0) * (1 + mpmath.mpf(10) ** -5)


@given(epsilons, deltas)
@settings(max_examples=80, deadline=None)
def test_the_largest_rho_keeps_epsilon_and_one_a_little_larger_does_not(epsilon, delta):
    rho = largest_rho(epsilon, delta)

    with mpmath.workdps(60):
        assert true_epsilon(rho, delta) <= to_real(epsilon)
        assert true_epsilon(rho * Fraction(100_002, 100_000), delta) > to_real(epsilon)


@given(rhos, deltas)
@settings(max_examples=50, deadline=None)
def test_a_rho_that_is_told_as_epsilon_and_read_back_is_not_smaller(rho, delta):
    epsilon = epsilon_at_delta(rho, delta)

    if epsilon:
        assert largest_rho(epsilon, delta) >= round_down(rho)


def test_the_conversion_bounds_what_a_gaussian_really_gives():
    # The exact delta of Gaussian noise (Balle, Wang 2018): no bound from rho may be below it.
    rho, delta = Fraction(1, 50), Fraction(1, 10**6)
    epsilon = float(epsilon_at_delta(rho, delta))
    shift = math.sqrt(2 * float(rho))  # sensitivity over the standard deviation
    tail = lambda x: 0.5 * math.erfc(x / math.sqrt(2))  # noqa: E731
    exact = tail(epsilon / shift - shift / 2) - math.exp(epsilon) * tail(epsilon / shift + shift / 2)

    assert 1e-8 < exact <= float(delta)


@given(st.fractions(min_value=Fraction(1, 10**40), max_value=10**40, max_denominator=10**45).filter(bool))
def test_the_bounds_of_a_logarithm_hold_it_tightly(value):
    low, high = bound_log(value)

    with mpmath.workdps(120):
        true = mpmath.log(to_real(value))
        assert to_real(low) <= true <= to_real(high)
        assert high - low < Fraction(1, 2**230)


@given(st.fractions(min_value=Fraction(1, 10**15), max_value=10**6))
def test_roots_and_rounded_figures_are_on_their_side(number):
    root = root_down(number)

    assert root * root <= number < (root * (1 + Fraction(1, 10**10))) ** 2
    assert round_down(number) <= number <= round_up(number)
    assert round_up(number) - round_down(number) <= number / 10**5


@given(epsilons)
def test_the_epsilon_that_an_amount_buys_costs_no_more_than_the_amount(amount):
    for currency in (EPSILON, RHO):
        assert currency.charge_exponential(currency.exponential_within(amount)) <= amount


def divergence(left, right, order):
    """The Renyi divergence of two laws on the same outcomes."""
    return math.log(sum(p**order * q ** (1 - order) for p, q in zip(left, right, strict=True))) / (order - 1)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-1, 1)), min_size=2, max_size=5), st.floats(0.05, 4))
@settings(max_examples=200)
def test_the_exponential_mechanism_keeps_an_eighth_of_epsilon_squared(scores, epsilon):
    laws = []
    for change in (0, 1):
        weights = [math.exp(epsilon * (score + change * moved) / 2) for score, moved in scores]
        laws.append([weight / sum(weights) for weight in weights])
    rho = float(RHO.charge_exponential(Fraction(epsilon)))

    assert all(divergence(*laws, order) <= rho * order * (1 + 1e-9) + 1e-12 for order in (1.01, 1.5, 2, 4, 16))


def test_the_price_of_the_exponential_mechanism_cannot_be_halved():
    epsilon = 0.1
    law = [1 / (1 + math.exp(-epsilon / 2 * 2)), 1 / (1 + math.exp(epsilon / 2 * 2))]

    assert divergence([0.5, 0.5], law, 1.01) > float(RHO.charge_exponential(Fraction(1, 10))) / 2


def test_permute_and_flip_is_no_exponential_mechanism_and_costs_what_its_epsilon_does():
    # Two equal scores, and two that are 2 sensitivities apart: the second is taken with probability exp(-epsilon) / 2.
    epsilon = Fraction(1, 10)
    seldom = math.exp(-epsilon) / 2
    loss = divergence([0.5, 0.5], [1 - seldom, seldom], 1.01) / 1.01

    assert float(RHO.charge_exponential(epsilon)) < loss <= float(RHO.charge_pure(epsilon))


@given(epsilons, st.integers(1, 9))
def test_a_group_costs_no_more_if_it_is_counted_in_epsilon_before_the_exchange(epsilon, rows):
    after = RHO.group(RHO.charge_pure(epsilon), rows)

    assert RHO.charge_pure(EPSILON.group(epsilon, rows)) <= after * (1 + Fraction(1, 10**7))


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=200))
@settings(max_examples=200, deadline=None)
def test_a_pure_step_is_charged_what_randomised_response_costs_and_hardly_more(epsilon):
    """Never below the relative entropy of randomised response, which no smaller rho covers, and 1e-7 above at most."""
    with mpmath.workdps(120):
        charged = to_real(RHO.charge_pure(epsilon))
        least = to_real(epsilon) * mpmath.tanh(to_real(epsilon) / 2)
        assert least <= charged <= least * (1 + mpmath.mpf(10) ** -7)
        assert charged <= to_real(epsilon) ** 2 / 2 * (1 + mpmath.mpf(10) ** -7)


@given(st.floats(0.01, 30), st.sampled_from([1.0001, 1.1, 1.5, 2, 3, 8, 40]))
@settings(max_examples=200, deadline=None)
def test_the_divergence_of_randomised_response_stays_within_its_charge_at_every_order(epsilon, order):
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-epsilon))
        total = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
        divergence_of_order = mpmath.log(total) / (order - 1)
        assert divergence_of_order <= order * to_real(RHO.charge_pure(Fraction(epsilon)))


@given(st.fractions(min_value=0, max_value=100))
@settings(max_examples=100, deadline=None)
def test_the_hyperbolic_tangent_lies_between_its_bounds(x):
    low, high = bound_tanh(x)
    with mpmath.workdps(120):
        assert to_real(low) <= mpmath.tanh(to_real(x)) <= to_real(high)
        assert high - low < Fraction(1, 2**170)


@given(rhos.filter(lambda rho: rho <= 100), deltas, relations)
@settings(max_examples=50, deadline=None)
def test_a_concentrated_promise_survives_its_certificate(rho, delta, neighbours):
    promise = ConcentratedGuarantee(rho=rho, delta=delta, neighbours=neighbours, unit=Unit())

    assert read_guarantee(promise.to_dict()) == promise


@pytest.mark.parametrize("key", ["rho", "delta", "epsilon_at_delta"])
def test_a_certificate_whose_epsilon_does_not_follow_from_its_rho_is_refused(key):
    facts = ConcentratedGuarantee(rho=Fraction(1, 10), neighbours="replace", unit=Unit()).to_dict()
    facts[key] = str(Fraction(facts[key]) / 2)

    with pytest.raises(ParameterError, match="epsilon_at_delta"):
        read_guarantee(facts)


def test_promises_add_up_in_the_wider_currency_and_relation():
    pure = Guarantee(epsilon=Fraction(1, 2), neighbours="add-remove", unit=Unit())
    concentrated = ConcentratedGuarantee(rho=Fraction(1, 10), neighbours="replace", unit=Unit())
    for total in (pure + concentrated, concentrated + pure):
        rho = Fraction(1, 10) + RHO.charge_pure(Fraction(1))

        assert total == ConcentratedGuarantee(rho=rho, neighbours="replace", unit=Unit())


def test_promises_are_compared_by_what_they_imply():
    pure = Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit())
    wide, tight = (ConcentratedGuarantee(rho=rho, neighbours="replace", unit=Unit()) for rho in ("0.463", "0.462"))

    assert pure.implies(wide)
    assert tight.implies(wide)
    assert not pure.implies(tight)
    assert not wide.implies(pure)


def test_rho_has_no_price_in_pure_epsilon():
    promise = ConcentratedGuarantee(rho=Fraction(1, 10), neighbours="replace", unit=Unit())

    with pytest.raises(RelationMismatch, match="cannot be charged to a ledger in epsilon"):
        promise.cost("replace", EPSILON)


@pytest.mark.parametrize(
    ("given_as", "words"),
    [
        ({}, "one of the three"),
        ({"epsilon": 1, "rho": 1}, "one of the three"),
        ({"delta": "1e-9"}, "one of the three"),
        ({"epsilon": 1, "delta": "0.5"}, r"delta \(0.5\) must be between"),
        ({"rho": 0}, r"rho \(0\) must be between"),
    ],
)
def test_what_is_promised_is_written_in_one_of_three_ways(given_as, words):
    with pytest.raises(ParameterError, match=words):
        promise_privacy(**given_as, neighbours="replace", unit=Unit())
