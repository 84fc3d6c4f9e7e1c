"""Many small draws at once: the same exact laws as one by one, and decisions that no float takes part in."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.noise.enclosure import exp_minus
from sudare.noise.exponential import exponential_law, permute_and_flip_law
from sudare.noise.geometric import geometric_probability, geometric_tail
from sudare.noise.laws import TwoSidedGeometric
from sudare.noise.rng import Rng, SeededRng
from sudare.noise.rows import (
    DIGIT_BITS,
    WIDEST_GAP,
    _bound_digits,
    _certify_floor,
    _flip_each,
    _list_floors,
    exponential_rows,
    geometric_few,
    permute_and_flip_rows,
)
from sudare.noise.selfcheck import FitResult, fit

ONE = Fraction(1)
SCORES = np.array([0, 1, 5, 3, 2, 5, -4])
ROWS = 20_000


def spelled(*words: int) -> Rng:
    """A stream that hands out these 64-bit words, then ones."""
    octets = iter(b"".join(word.to_bytes(8, "little") for word in words))

    def generate(out: memoryview) -> None:
        out[:] = bytes(next(octets, 255) for _ in range(len(out)))

    return Rng(generate, buffer_bytes=1)


# --- permute-and-flip -----------------------------------------------------------------------------------------------


def fit_rows(scores: np.ndarray, epsilon: Fraction, *, of: Fraction, seed: int) -> FitResult:
    """Draw many equal rows with one epsilon, and compare them with the law of another."""
    sizes = np.full(ROWS, scores.size)
    chosen = permute_and_flip_rows(
        np.tile(scores, ROWS), sizes=sizes, epsilon=epsilon, sensitivity=1, rng=SeededRng(seed)
    )
    law = permute_and_flip_law(scores, epsilon=of, sensitivity=1)
    return fit(np.bincount(chosen % scores.size, minlength=scores.size), np.array([float(p) for p in law]))


def test_choices_have_the_law_of_permute_and_flip_and_not_that_of_a_tenth_more_epsilon() -> None:
    """20,000 choices out of seven tell epsilon from 1.1 * epsilon at a false alarm of 1e-9."""
    assert fit_rows(SCORES, ONE, of=ONE, seed=2).p_value > 1e-4
    assert not fit_rows(SCORES, Fraction(11, 10), of=ONE, seed=2).is_good


@pytest.mark.parametrize("scores", [SCORES, np.array([0, 3000, 5000, 4999]), np.zeros(3, dtype=np.int64)])
def test_exponential_choices_have_their_law_and_not_that_of_half_as_much_more_epsilon(scores: np.ndarray) -> None:
    """20,000 choices; half as much more epsilon is told from it unless all scores are equal."""
    epsilon = Fraction(1) if scores.max() < 100 else Fraction(1, 1000)
    law = [float(p) for p in exponential_law(scores, epsilon=epsilon, sensitivity=1)]
    found = []
    for given in (epsilon, Fraction(3, 2) * epsilon):
        chosen = exponential_rows(
            np.tile(scores, ROWS), sizes=np.full(ROWS, scores.size), epsilon=given, sensitivity=1, rng=SeededRng(7)
        )
        assert (chosen // scores.size == np.arange(ROWS)).all()
        found.append(fit(np.bincount(chosen % scores.size, minlength=scores.size), np.array(law)))

    assert found[0].p_value > 1e-4
    assert found[1].is_good == (scores.max() == scores.min())


def test_exponential_rows_of_any_size_and_width_are_chosen() -> None:
    sizes = np.array([1, 3, 2, 2, 1])
    scores = np.array([-7, 0, 900, 0, 900, 0, -(2**63), 2**63 - 1, 4])
    none = np.empty(0, dtype=np.int64)

    chosen = exponential_rows(scores, sizes=sizes, epsilon=ONE, sensitivity=1, rng=SeededRng(4))

    assert chosen.tolist() == [0, 2, 4, 7, 8]
    assert exponential_rows(none, sizes=none, epsilon=ONE, sensitivity=1, rng=SeededRng(1)).size == 0


def test_gaps_of_two_digits_have_the_same_law() -> None:
    scores = np.array([0, 3000, 5000, 4999])
    epsilon = Fraction(1, 1000)

    assert fit_rows(scores, epsilon, of=epsilon, seed=3).p_value > 1e-4
    assert not fit_rows(scores, Fraction(13, 10) * epsilon, of=epsilon, seed=3).is_good


def test_every_row_is_chosen_from_its_own_scores() -> None:
    sizes = np.array([1, 3, 2, 4])
    scores = np.array([-7, 0, 900, 0, 900, 0, 0, 0, 0, 900])

    chosen = permute_and_flip_rows(scores, sizes=sizes, epsilon=ONE, sensitivity=1, rng=SeededRng(4))

    assert chosen.tolist() == [0, 2, 4, 9]


def test_rows_wider_than_the_ladders_are_chosen_all_the_same() -> None:
    wide = np.array([0, 2 * WIDEST_GAP])
    scores = np.concatenate([np.tile(wide, 2000), [-(2**63), 2**63 - 1]])
    epsilon = Fraction(1, WIDEST_GAP)
    law = permute_and_flip_law(wide, epsilon=epsilon, sensitivity=1)

    chosen = permute_and_flip_rows(scores, sizes=np.full(2001, 2), epsilon=epsilon, sensitivity=1, rng=SeededRng(5))

    assert fit(np.bincount(chosen[:-1] % 2, minlength=2), np.array([float(p) for p in law])).p_value > 1e-4
    assert chosen[-1] == 4001


def test_nothing_is_chosen_out_of_no_rows() -> None:
    none = np.empty(0, dtype=np.int64)

    assert permute_and_flip_rows(none, sizes=none, epsilon=ONE, sensitivity=1, rng=SeededRng(1)).size == 0


@pytest.mark.parametrize("rate", [Fraction(1, 4000), Fraction(1, 3), Fraction(40), Fraction(1, 10**12)])
def test_factors_enclose_the_exponential_at_every_gap(rate: Fraction) -> None:
    fine, coarse = _bound_digits(rate), _bound_digits(rate * 2**DIGIT_BITS)
    for gap in (1, 2, 3, 100, 2**DIGIT_BITS - 1, 2**DIGIT_BITS, 12_345, 999_999, WIDEST_GAP - 1):
        low, high = gap % 2**DIGIT_BITS, gap >> DIGIT_BITS
        exact = exp_minus(gap * rate, 64)

        assert int(fine[0][low]) * int(coarse[0][high]) <= exact.low + 1
        assert int(fine[1][low]) * int(coarse[1][high]) >= exact.high - 1
        assert int(fine[1][low]) * int(coarse[1][high]) - int(fine[0][low]) * int(coarse[0][high]) < 2**34


@pytest.mark.parametrize("gap", [1, 5000])
def test_a_flip_that_bounds_leave_open_is_decided_by_more_bits(gap: int) -> None:
    rate = Fraction(1, 1000)
    floor = exp_minus(gap * rate, 64).low
    for word, wanted in ((floor - 1, True), (floor + 1, False)):
        assert _flip_each(np.array([gap]), rate, spelled(word)).tolist() == [wanted]
    assert _flip_each(np.array([gap]), rate, spelled(floor, 0)).tolist() == [True]
    assert _flip_each(np.array([gap]), rate, spelled(floor, 2**64 - 1)).tolist() == [False]


def test_the_best_candidate_is_always_live() -> None:
    assert _flip_each(np.array([0, 0]), ONE, spelled(2**64 - 1, 0)).tolist() == [True, True]


# --- noise ----------------------------------------------------------------------------------------------------------


def fit_noise(draw: Callable[[int], np.ndarray], scale: Fraction) -> FitResult:
    drawn = np.clip(draw(400_000), -math.ceil(5 * scale), math.ceil(5 * scale))
    end = math.ceil(5 * scale)
    inner = [geometric_probability(z, scale) for z in range(1 - end, end)]
    tail = geometric_tail(end, scale)
    return fit(np.bincount(drawn + end, minlength=2 * end + 1), np.array([tail, *inner, tail]))


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(107, 10), Fraction(150)])
def test_noise_has_the_stated_law_and_not_one_a_twentieth_off(scale: Fraction) -> None:
    def with_scale(used: Fraction) -> Callable[[int], np.ndarray]:
        return lambda size: geometric_few(size, scale=used, rng=SeededRng(6))

    assert fit_noise(with_scale(scale), scale).p_value > 1e-4
    assert not fit_noise(with_scale(scale * Fraction(21, 20)), scale).is_good


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(10), Fraction(200)])
def test_every_floor_is_that_of_the_law(scale: Fraction) -> None:
    """2**63 * P[|Z| >= k] = 2**64 * P[Z <= -k], which the law itself encloses."""
    floors = _list_floors(scale)[::-1]
    law = TwoSidedGeometric(scale=scale)
    for k in (*range(1, 20), floors.size // 2, floors.size - 1, floors.size):
        if k <= floors.size:
            low, high = law.threshold(-k, 64)

            assert low <= int(floors[k - 1]) <= high
            assert int(floors[k - 1]) == _certify_floor(k, scale)
    assert floors[-1] == 0
    assert (np.diff(floors.astype(np.int64)) <= 0).all()


def test_a_word_that_equals_a_floor_is_refined() -> None:
    scale = Fraction(2)
    floor = int(_list_floors(scale)[-1])  # of 2**63 * P[|Z| >= 1]

    assert abs(geometric_few(1, scale=scale, rng=spelled(2 * floor, 0))[0]) == 1
    assert geometric_few(1, scale=scale, rng=spelled(2 * floor, 2**64 - 1))[0] == 0
    assert geometric_few(1, scale=scale, rng=spelled(2 * floor - 2))[0] == 1
    assert geometric_few(1, scale=scale, rng=spelled(2 * floor - 1))[0] == -1


def test_large_scales_are_drawn_from_tables() -> None:
    drawn = geometric_few(20_000, scale=Fraction(10**6), rng=SeededRng(7))

    assert np.abs(drawn).mean() == pytest.approx(10**6, rel=0.05)


@pytest.mark.parametrize("scale", [0, Fraction(-1), 2.5])
def test_scales_that_are_no_positive_fractions_are_refused(scale: object) -> None:
    with pytest.raises(ParameterError, match="positive exact fraction"):
        geometric_few(1, scale=scale, rng=SeededRng(1))  # type: ignore[arg-type]
