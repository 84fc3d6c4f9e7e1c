"""Noise of all pairs at once: every entry is the rounding of an exact sum, and no float had a say in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.noise import MatrixNoise, SeededRng
from sudare.noise.enclosure import exp_minus
from sudare.noise.matrix import NoisyMatrix, find_unit
from sudare.noise.normal import LazyNormals, accept_exactly
from sudare.noise.rng import LazyUniform, Rng
from sudare.schema.arrays import Integers, Reals

SIZES = [(2, 2), (5, 2), (3, 4, 2), (4, 4, 4, 4, 4), (30, 2)]


def multiply(sizes: tuple[int, ...], records: int, seed: int = 1) -> Integers:
    """The sum of e e^T over random records."""
    random = np.random.default_rng(seed)
    codes = np.column_stack([random.integers(0, size, records) for size in sizes])
    hot = np.zeros((records, sum(sizes)), dtype=np.int64)
    hot[np.arange(records)[:, None], codes + np.cumsum(sizes) - sizes] = 1
    return hot.T @ hot


def centring(sizes: tuple[int, ...]) -> Reals:
    """The matrix that takes the mean out of every block."""
    centre = np.eye(sum(sizes))
    for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
        centre[start : start + size, start : start + size] -= 1 / size
    return centre


def noisy(sizes: tuple[int, ...], *, scale: Fraction = Fraction(3), seed: int = 1, records: int = 500) -> NoisyMatrix:
    return NoisyMatrix(multiply(sizes, records, seed), sizes, scale, SeededRng(seed))


# --- normal numbers ---------------------------------------------------------------------------------------------------


def test_proposals_that_all_go_the_long_way_give_the_same_numbers() -> None:
    fast, slow = LazyNormals(3000, SeededRng(4)), LazyNormals(3000, SeededRng(4), margin=2.0)

    assert fast.middles(range(3000), 64).tolist() == slow.middles(range(3000), 64).tolist()


def test_more_bits_go_on_from_the_first_ones() -> None:
    normals = LazyNormals(50, SeededRng(2))
    first, more = normals.middles(range(50), 64), normals.middles(range(50), 256)
    again = normals.middles(range(50), 128)

    assert all(abs(long - (short << 192)) <= 1 << 192 for short, long in zip(first, more, strict=True))
    assert all(abs(long - (short << 128)) <= 1 << 128 for short, long in zip(again, more, strict=True))
    assert normals.middles(range(50), 256).tolist() == more.tolist()
    assert normals.middles(range(50), 64).tolist() == first.tolist()


def test_the_floats_are_near_the_numbers() -> None:
    normals = LazyNormals(1000, SeededRng(3))

    exact = [middle / 2**65 for middle in normals.middles(range(1000), 64)]

    assert np.abs(normals.floats() - exact).max() < 2.0**-46


@pytest.mark.parametrize("whole", [0, 1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_a_word_that_64_bits_leave_open_is_decided_by_more_of_both_numbers(whole: int, seed: int) -> None:
    """U is put on the edge of the chance to accept; whatever is decided then holds for all bits that follow."""
    word = 2**62 + 12345 * seed
    part = Fraction(word, 2**64)
    edge = exp_minus(part * (2 * whole + part) / 2, 64).low
    digits = LazyUniform(SeededRng(seed), word=word, bits=64)
    level = LazyUniform(SeededRng(seed + 100), word=edge, bits=64)

    is_accepted = accept_exactly(whole, digits, level)

    assert digits.bits >= 128
    ends = [Fraction(digits.word + step, 1 << digits.bits) for step in (0, 1)]
    chances = [exp_minus(end * (2 * whole + end) / 2, 400) for end in ends]
    if is_accepted:
        assert (level.word + 1) << 400 <= chances[1].high << level.bits
    else:
        assert level.word << 400 >= chances[0].low << level.bits


def reading(stream: bytes, *, then: int) -> Rng:
    """A stream of given bytes, then those of a seed."""
    rest, left = SeededRng(then), memoryview(stream)

    def generate(out: memoryview) -> None:
        nonlocal left
        taken = min(len(out), len(left))
        out[:taken] = left[:taken]
        left = left[taken:]
        out[taken:] = rest.bytes(len(out) - taken)

    return Rng(generate, buffer_bytes=1)


def test_bits_that_the_decision_needed_stay_with_the_number() -> None:
    """Drawn again they would no longer be those for which the number was accepted: c = 0, U on the edge."""
    kept = {}
    for seed in range(12):
        word = 2**63 + seed * 10**17
        edge = exp_minus(Fraction(word, 2**64) ** 2 / 2, 64).high - 1
        stream = (2**15 + 100).to_bytes(2, "little") + word.to_bytes(8, "little") + edge.to_bytes(8, "little")
        normals = LazyNormals(1, reading(stream, then=seed))
        if normals._more:
            kept[word] = normals

    assert 0 < len(kept) < 12
    for word, normals in kept.items():
        drawn = normals._more[0].word
        assert drawn >> 64 == word
        assert normals.middles([0], 128)[0] == 2 * drawn + 1


# --- the sum ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_floats_and_whole_numbers_of_four_times_the_bits_round_alike(sizes: tuple[int, ...]) -> None:
    matrix = noisy(sizes)
    rounded = matrix.round()

    for row, column in np.argwhere(matrix.blocks[:, None] < matrix.blocks[None, :]).tolist():
        assert matrix.round_exactly(row, column, bits=256) == rounded[row, column]


def test_a_margin_that_sends_all_entries_the_long_way_changes_nothing() -> None:
    sizes, scale = (3, 4, 2), Fraction(7, 3)
    fast, slow = (
        NoisyMatrix(multiply(sizes, 99), sizes, scale, SeededRng(3), margin=margin).round() for margin in (2**-12, 1.0)
    )

    assert fast.tolist() == slow.tolist()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_an_entry_lies_between_its_bounds_whatever_the_next_bits_are(sizes: tuple[int, ...]) -> None:
    """The bounds of 64 bits hold for all that later bits can be, and are as narrow as these bits allow."""
    matrix = noisy(sizes)
    wide = matrix.enclose(0, sizes[0], 64)
    narrow = matrix.enclose(0, sizes[0], 256)

    assert wide[0] <= narrow[0] < narrow[1] <= wide[1]
    assert 0 < wide[1] - wide[0] < Fraction(1, 2**46)


def test_the_extreme_ends_of_all_unknown_bits_stay_within_the_bounds() -> None:
    """Every normal number is put at either end of what 64 bits leave open: the exact entry stays inside."""
    sizes, scale = (3, 2), Fraction(5)
    matrix = noisy(sizes, scale=scale)
    places = 5 * 2 * matrix.degrees
    middles = np.array(matrix.normals.middles(range(places), 64), dtype=object).reshape(5, -1)
    low, high = matrix.enclose(0, 3, 64)
    for signs in _ends(middles.shape):
        whole = middles + signs
        first, second = 3 * whole[0] - whole[:3].sum(axis=0), 2 * whole[3] - whole[3:].sum(axis=0)
        products = first * second
        noise = Fraction(products[: matrix.degrees].sum() - products[matrix.degrees :].sum(), 2**130)
        entry = (int(matrix.centred[0, 3]) + scale * noise) / (6 * matrix.unit)
        assert low <= entry <= high


def _ends(shape: tuple[int, ...]) -> Iterator[Integers]:
    random = np.random.default_rng(1)
    for _ in range(200):
        yield np.where(random.random(shape) < 0.5, -1, 1).astype(object)


@pytest.mark.parametrize("seed", range(4))
def test_an_entry_that_64_bits_cannot_round_asks_for_more(seed: int) -> None:
    """On a grid finer than what 64 bits tell: the first bits leave several grid points open."""
    matrix = noisy((2, 3), seed=seed)
    matrix.unit = Fraction(1, 2**70)
    low, high = matrix.enclose(1, 4, 64)

    rounded = matrix.round_exactly(1, 4)

    assert math.floor(low + Fraction(1, 2)) < math.floor(high + Fraction(1, 2))
    assert matrix.normals._more
    assert rounded == matrix.round_exactly(1, 4, bits=256)
    assert low - 1 <= rounded <= high + 1


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_sum_is_that_of_floats_worked_out_another_way(sizes: tuple[int, ...]) -> None:
    scale, products = Fraction(9, 4), multiply(sizes, 1000)
    matrix = NoisyMatrix(products, sizes, scale, SeededRng(8))
    normals = matrix.normals.floats().reshape(sum(sizes), 2, matrix.degrees)
    wishart = [normals[:, part] @ normals[:, part].T for part in (0, 1)]
    centre = centring(sizes)
    expected = centre @ (products + float(scale) * (wishart[0] - wishart[1])) @ centre
    expected[matrix.blocks[:, None] == matrix.blocks[None, :]] = 0

    assert np.abs(matrix.round() * float(matrix.unit) - expected).max() <= float(matrix.unit) * 0.500001


def test_a_normal_number_beyond_the_bound_of_floats_sends_all_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.noise.matrix.LARGEST_FLOAT_NORMAL", 1.0)

    assert np.isnan(noisy((2, 3))._noise_floats()).all()
    assert noisy((2, 3)).round().tolist() != np.zeros((5, 5)).tolist()


# --- the mechanism ----------------------------------------------------------------------------------------------------


def test_what_is_released_is_symmetric_on_the_grid_and_empty_within_attributes() -> None:
    noise = MatrixNoise(sizes=(3, 1, 2, 4), epsilon=Fraction(1, 3))
    released = noise.add(multiply(noise.sizes, 1000), rng=SeededRng(1))
    steps = released / float(noise.unit)

    assert released.tolist() == released.T.tolist()
    assert steps.tolist() == np.rint(steps).tolist()
    assert not released[3].any()
    assert not any(released[start:end, start:end].any() for start, end in ((0, 3), (4, 6), (6, 10)))
    assert np.count_nonzero(released) > 40


def test_attributes_of_one_group_change_nothing() -> None:
    with_ones, without = (3, 1, 2, 1), (3, 2)
    first = MatrixNoise(sizes=with_ones, epsilon=Fraction(2)).add(multiply(with_ones, 0), rng=SeededRng(1))
    second = MatrixNoise(sizes=without, epsilon=Fraction(2)).add(multiply(without, 0), rng=SeededRng(1))
    kept = [0, 1, 2, 4, 5]

    assert first[np.ix_(kept, kept)].tolist() == second.tolist()


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 7), Fraction(1), Fraction(1000)])
@pytest.mark.parametrize("sizes", [(2, 2), (7, 3, 1), (4,) * 20])
def test_the_law_is_that_of_the_proof(sizes: tuple[int, ...], epsilon: Fraction) -> None:
    noise = MatrixNoise(sizes=sizes, epsilon=epsilon)
    noise.check()

    assert noise.degrees == sum(sizes) - len(sizes) + 1
    assert noise.scale == sum(1 - Fraction(1, size) for size in sizes) / (2 * epsilon)
    variance = 2 * noise.degrees * noise.scale**2
    assert noise.variance == pytest.approx(float(variance))
    assert noise.unit**2 <= variance / 64**2 < 4 * noise.unit**2
    assert noise.unit.numerator == 1 or noise.unit.denominator == 1
    assert noise.to_dict()["scale"] == str(noise.scale)


def test_every_record_costs_epsilon() -> None:
    """tr(h h^T)/(2c) for every record: h is a one-hot vector of every attribute without its mean."""
    sizes = (3, 2, 5)
    noise, centre = MatrixNoise(sizes=sizes, epsilon=Fraction(3, 4)), centring((3, 2, 5))
    for seed in range(20):
        change = centre @ multiply(sizes, 1, seed) @ centre
        assert np.trace(change) / (2 * float(noise.scale)) == pytest.approx(0.75)


def test_the_grid_is_found_in_whole_numbers() -> None:
    for scale in (Fraction(64**2, 6), Fraction(10) ** 30, Fraction(1, 10**30), Fraction(3, 7)):
        unit = find_unit((2, 2), scale)
        assert unit**2 * 64**2 <= 6 * scale**2 < 4 * unit**2 * 64**2


def test_large_counts_are_exact_on_the_grid() -> None:
    counts = multiply((2, 2), 40) * 2**33
    noise = MatrixNoise(sizes=(2, 2), epsilon=Fraction(1))
    gap = noise.add(counts, rng=SeededRng(1)) - noise.add(0 * counts, rng=SeededRng(1))
    expected = centring((2, 2)) @ counts @ centring((2, 2))

    assert np.abs(gap[:2, 2:] - expected[:2, 2:]).max() <= float(noise.unit)


@pytest.mark.parametrize(
    ("sizes", "epsilon"),
    [((3,), Fraction(1)), ((1, 3), Fraction(1)), ((0, 2, 2), Fraction(1)), ((), Fraction(1)), ((2, 2), 0.5)],
)
def test_what_is_no_noise_is_refused(sizes: tuple[int, ...], epsilon: Fraction) -> None:
    with pytest.raises(ParameterError):
        MatrixNoise(sizes=sizes, epsilon=epsilon)


@pytest.mark.parametrize(
    ("sizes", "epsilon"), [((302, 302), Fraction(1)), ((2, 2), Fraction(1, 10**15)), ((2, 2), Fraction(10**9))]
)
def test_noise_that_takes_too_long_or_leaves_64_bits_is_refused(sizes: tuple[int, ...], epsilon: Fraction) -> None:
    noise = MatrixNoise(sizes=sizes, epsilon=epsilon)

    assert not noise.can_draw(10.0)
    with pytest.raises(ParameterError):
        noise.check()


def test_noise_for_more_records_than_fit_says_so_beforehand() -> None:
    noise = MatrixNoise(sizes=(2, 2), epsilon=Fraction(1))

    assert [noise.can_draw(records) for records in (0.0, 2.0**39, 2.0**40, math.inf)] == [True, True, False, False]


def test_a_matrix_that_does_not_fit_is_refused_without_its_values() -> None:
    noise = MatrixNoise(sizes=(2, 2), epsilon=Fraction(1))
    wrong: list[Any] = [np.zeros((3, 3), dtype=np.int64), np.full((4, 4), 2**41), np.zeros((4, 4))]
    for products in wrong:
        with pytest.raises(ParameterError) as refusal:
            noise.add(products, rng=SeededRng(1))
        assert str(2**41) not in str(refusal.value)
