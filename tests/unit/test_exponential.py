"""Choice by score: the exact laws, the promise in exact numbers, and decisions that no float takes part in."""

from __future__ import annotations

import importlib
import itertools
import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.noise import exponential as exponential_function
from sudare.noise.enclosure import exp_minus
from sudare.noise.exponential import (
    _ACCEPT,
    _REJECT,
    LAST_LEVEL,
    _level_candidates,
    bernoulli_exp,
    exponential,
    exponential_law,
    permute_and_flip,
    permute_and_flip_law,
)
from sudare.noise.rng import LazyUniform, Rng, SeededRng
from sudare.noise.selfcheck import FitResult, fit

ONE = Fraction(1)
SCORES: list[int | Fraction] = [0, 1, 5, 3, Fraction(1, 2), 2, 5, -40]
MECHANISMS = [(exponential, exponential_law), (permute_and_flip, permute_and_flip_law)]
both = pytest.mark.parametrize(("choose", "law"), MECHANISMS, ids=["exponential", "permute_and_flip"])


def fit_choices(choices: Sequence[int], law: Sequence[Fraction]) -> FitResult:
    """The same check for the mechanisms and for the mutants."""
    return fit(np.bincount(choices, minlength=len(law)), np.array([float(p) for p in law]))


# --- the laws -------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("monotone", [False, True])
def test_choices_have_the_stated_law_and_not_that_of_twice_the_epsilon(
    choose: Callable[..., int], law: Callable[..., list[Fraction]], monotone: bool
) -> None:
    # 4,000 choices tell epsilon from 1.25 * epsilon at a false alarm of 1e-9
    rng = SeededRng(31)
    scores = SCORES[:7]

    drawn = [choose(scores, epsilon=ONE, sensitivity=1, monotone=monotone, rng=rng) for _ in range(4000)]

    assert fit_choices(drawn, law(scores, epsilon=ONE, sensitivity=1, monotone=monotone)).p_value > 1e-4
    assert not fit_choices(drawn, law(scores, epsilon=2 * ONE, sensitivity=1, monotone=monotone)).is_good
    assert not fit_choices(drawn, law(scores, epsilon=ONE, sensitivity=1, monotone=not monotone)).is_good


def test_the_exponential_law_is_proportional_to_the_exponential_of_half_the_score() -> None:
    found = exponential_law([0, 3, 4], epsilon=Fraction(2), sensitivity=3)

    weights = [math.exp(2 * score / 6) for score in (0, 3, 4)]
    assert [float(p) for p in found] == pytest.approx([weight / sum(weights) for weight in weights])


def test_the_law_of_permute_and_flip_is_the_average_over_all_orders() -> None:
    scores = [0, 2, 3, 1]
    accept = [math.exp(-(3 - score) / 2) for score in scores]
    law = np.zeros(4)
    for order in itertools.permutations(range(4)):
        left = 1.0
        for candidate in order:
            law[candidate] += left * accept[candidate] / 24
            left *= 1 - accept[candidate]

    found = permute_and_flip_law(scores, epsilon=ONE, sensitivity=1)

    assert [float(p) for p in found] == pytest.approx(law.tolist())
    assert sum(found) == pytest.approx(1)


def worst_ratio(law: Callable[..., list[Fraction]], **parameters: object) -> Fraction:
    """The largest P[i]/P'[i] over all pairs of score tables that one unit can turn into each other."""
    worst = Fraction(0)
    moves = (0, 1) if parameters.get("monotone") else (-1, 0, 1)
    for before in itertools.product(range(3), repeat=3):
        first = law(before, **parameters)
        for move in itertools.product(moves, repeat=3):
            second = law([score + step for score, step in zip(before, move, strict=True)], **parameters)
            ratios = (max(p / q, q / p) for p, q in zip(first, second, strict=True))
            worst = max(worst, *ratios)
    return worst


@pytest.mark.parametrize("law", [exponential_law, permute_and_flip_law])
@pytest.mark.parametrize("monotone", [False, True])
def test_no_outcome_changes_by_more_than_the_promise(law: Callable[..., list[Fraction]], monotone: bool) -> None:
    epsilon = Fraction(3, 2)

    found = worst_ratio(law, epsilon=epsilon, sensitivity=1, monotone=monotone)

    assert found <= Fraction(2**200, exp_minus(epsilon, 200).low)


@pytest.mark.parametrize("law", [exponential_law, permute_and_flip_law])
def test_a_score_that_is_not_monotone_breaks_the_promise_without_the_factor_of_two(
    law: Callable[..., list[Fraction]],
) -> None:
    def mutant(scores: Sequence[int], **parameters: object) -> list[Fraction]:
        return law(scores, **parameters, monotone=True)

    found = worst_ratio(mutant, epsilon=Fraction(3, 2), sensitivity=1)

    assert found > Fraction(2**200, exp_minus(Fraction(3, 2), 200).low)


# --- mutants --------------------------------------------------------------------------------------------------------


def test_dropping_the_flips_that_need_more_bits_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    # the mutant takes a flip that the first word leaves open for a tail, instead of asking for more
    rng, scores = SeededRng(32), [0, 3, 4]
    law = exponential_law(scores, epsilon=ONE, sensitivity=1)

    right = [exponential(scores, epsilon=ONE, sensitivity=1, rng=rng) for _ in range(3000)]
    monkeypatch.setattr(importlib.import_module(exponential.__module__), "_REJECT", np.zeros_like(_REJECT))
    wrong = [exponential(scores, epsilon=ONE, sensitivity=1, rng=rng) for _ in range(3000)]

    assert fit_choices(right, law).is_good
    assert not fit_choices(wrong, law).is_good


@both
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_a_sensitivity_off_by_one_is_rejected(
    choose: Callable[..., int], law: Callable[..., list[Fraction]], sensitivity: int
) -> None:
    rng = SeededRng(33)

    drawn = [choose([0, 2, 5], epsilon=ONE, sensitivity=sensitivity, rng=rng) for _ in range(3000)]

    assert not fit_choices(drawn, law([0, 2, 5], epsilon=ONE, sensitivity=2)).is_good


# --- decisions ------------------------------------------------------------------------------------------------------


def test_bounds_decide_only_what_is_certain() -> None:
    # for x anywhere in a level: below ACCEPT is below exp(-x), above REJECT is not
    for level in range(LAST_LEVEL):
        at_start, at_end = exp_minus(Fraction(level), 128), exp_minus(Fraction(level + 1), 128)

        assert int(_ACCEPT[level]) << 64 <= at_end.low
        assert level == 0 or (int(_REJECT[level]) + 1) << 64 >= at_start.high
    assert int(_ACCEPT[LAST_LEVEL]) == 0
    assert int(_REJECT[0]) == 2**64 - 1


@pytest.mark.parametrize("x", ["0", "1/3", "1", "7/2", "62", "63", "64", "1000"])
def test_levels_are_whole_parts(x: str) -> None:
    exact = Fraction(x)

    by_units = _level_candidates([0, -exact], epsilon=2 * ONE, sensitivity=1, monotone=False)
    by_fractions = _level_candidates(
        [Fraction(0), -exact, Fraction(-1, 2**70)], epsilon=2 * ONE, sensitivity=1, monotone=False
    )

    assert by_units.levels[1] == by_fractions.levels[1] == min(math.floor(exact), 63)
    assert by_units.behind(1) == by_fractions.behind(1) == exact


def test_both_ways_of_lining_up_agree_on_random_scores() -> None:
    numbers = SeededRng(34).uniform_below(10**6, 300) - 5 * 10**5
    scores = [Fraction(int(number), 1000) for number in numbers]
    rate = {"epsilon": Fraction(1, 7), "sensitivity": Fraction(3, 5), "monotone": False}

    units = _level_candidates(scores, **rate)  # type: ignore[arg-type]
    exact = _level_candidates([*scores, Fraction(min(scores)) - Fraction(1, 2**70)], **rate)  # type: ignore[arg-type]

    assert units.levels.tolist() == exact.levels[:-1].tolist()
    assert [units.behind(i) for i in range(300)] == [exact.behind(i) for i in range(300)]


def test_differences_beyond_63_bits_are_exact() -> None:
    candidates = _level_candidates(
        np.array([-(2**63), 2**63 - 1, 0]), epsilon=Fraction(2, 2**60), sensitivity=1, monotone=False
    )

    assert candidates.behind(0) == Fraction(2**64 - 1, 2**60)
    assert candidates.levels.tolist() == [15, 0, 7]


@pytest.mark.parametrize("x", ["1/10", "1", "5/2"])
def test_a_coin_of_exp_minus_x_has_that_probability(x: str) -> None:
    rng, exact = SeededRng(35), Fraction(x)

    heads = sum(bernoulli_exp(exact, rng) for _ in range(5000))

    p = math.exp(-exact)
    assert fit(np.array([heads, 5000 - heads]), np.array([p, 1 - p])).p_value > 1e-4


def test_a_coin_that_the_first_word_does_not_decide_asks_for_more() -> None:
    floor = exp_minus(ONE, 64).low
    asked = []

    def generate(out: memoryview) -> None:
        asked.append(len(out))
        out[:] = b"\xff" * len(out)

    uniform = LazyUniform(Rng(generate, buffer_bytes=1), word=floor, bits=64)

    assert uniform.is_below_exp(ONE) is False
    assert sum(asked) == 8


def test_extreme_coins() -> None:
    assert all(bernoulli_exp(Fraction(0), SeededRng(seed)) for seed in range(20))
    assert not any(bernoulli_exp(Fraction(10**9), SeededRng(seed)) for seed in range(20))


def test_a_negative_exponent_is_refused() -> None:
    with pytest.raises(ParameterError, match="must be at least 0"):
        bernoulli_exp(Fraction(-1), SeededRng(1))


# --- candidates of all kinds ----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "scores",
    [
        [7],
        [Fraction(1, 3)],
        [10**100, 10**100 - 10**50],
        [Fraction(1, 3**50), Fraction(-1, 7**40), -(10**9)],
        np.array([3, 1], dtype=np.int8),
        np.array([2**63 + 5, 1], dtype=np.uint64),
        np.array([Fraction(9), 2**70 - 2**70], dtype=object),
        [np.int64(5), Fraction(-100)],
        (True, -100),
    ],
    ids=str,
)
def test_scores_may_be_any_exact_numbers(
    choose: Callable[..., int], law: Callable[..., list[Fraction]], scores: Sequence[int]
) -> None:
    drawn = choose(scores, epsilon=Fraction(100), sensitivity=1, rng=SeededRng(36))

    assert 0 <= drawn < len(scores)
    assert law(scores, epsilon=Fraction(100), sensitivity=1)[drawn] > Fraction(1, 10**6)


@both
def test_shifting_all_scores_changes_nothing(choose: Callable[..., int], law: Callable[..., list[Fraction]]) -> None:
    moved = [score + 10**30 for score in SCORES]

    here = [choose(SCORES, epsilon=ONE, sensitivity=2, rng=SeededRng(seed)) for seed in range(100)]
    there = [choose(moved, epsilon=ONE, sensitivity=2, rng=SeededRng(seed)) for seed in range(100)]

    assert here == there
    assert law(SCORES, epsilon=ONE, sensitivity=2) == law(moved, epsilon=ONE, sensitivity=2)


@both
def test_a_million_candidates_with_one_far_ahead_take_less_than_two_seconds(
    choose: Callable[..., int], law: Callable[..., list[Fraction]]
) -> None:
    scores = np.zeros(1_000_000, dtype=np.int64)
    scores[77] = 10**6
    start = time.process_time()

    drawn = choose(scores, epsilon=ONE, sensitivity=1, rng=SeededRng(37))

    assert drawn == 77
    assert time.process_time() - start < 2


@both
def test_equal_candidates_are_chosen_evenly(choose: Callable[..., int], law: object) -> None:
    rng, scores = SeededRng(38), np.zeros(100_000, dtype=np.int64)

    drawn = [choose(scores, epsilon=ONE, sensitivity=1, rng=rng) for _ in range(200)]

    assert len(set(drawn)) > 195
    assert 35_000 < np.mean(drawn) < 65_000


@both
@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ([], "at least one candidate"),
        (np.zeros((2, 2), dtype=np.int64), "at least one candidate"),
        ([1.5, 2.0], "integers or exact fractions"),
        ([1, float("nan")], "integers or exact fractions"),
        (np.array([0.5]), "integers or exact fractions"),
        (["1"], "integers or exact fractions"),
    ],
)
def test_scores_that_are_not_exact_are_refused(
    choose: Callable[..., int], law: object, scores: Sequence[int], reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        choose(scores, epsilon=ONE, sensitivity=1, rng=SeededRng(1))


@both
@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0.5}, {"epsilon": Fraction(0)}, {"sensitivity": 0}, {"sensitivity": 1.0}]
)
def test_parameters_that_are_not_exact_and_positive_are_refused(
    choose: Callable[..., int], law: object, wrong: dict[str, object]
) -> None:
    with pytest.raises(ParameterError, match="must be a positive exact fraction"):
        choose([1, 2], **{"epsilon": ONE, "sensitivity": 1, "rng": SeededRng(1), **wrong})


def test_the_room_hands_out_the_function_and_not_the_file() -> None:
    assert exponential_function is exponential
