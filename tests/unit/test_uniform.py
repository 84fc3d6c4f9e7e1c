"""Uniform draws are uniform, each over what its name says; a word that would favour an outcome is drawn again."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.noise.counting import GeometricNoise
from sudare.noise.public import add_laplace, draw_columns, draw_offsets
from sudare.noise.rng import Rng, SeededRng
from sudare.noise.selfcheck import fit
from sudare.noise.uniform import (
    draw_below,
    draw_below_each,
    draw_by_weight,
    draw_cells,
    draw_coins,
    draw_inside_bins,
    draw_interval,
    draw_key,
    draw_order,
    draw_subset,
    draw_whole_inside_bins,
    draw_words,
)
from sudare.noise.zeros import Stratum, draw_winners

RIGHT = 1e-4  # a right sampler is below this once in ten thousand seeds; the seeds are fixed


def spelled(*words: int) -> Rng:
    """A stream that gives these 64-bit words."""
    octets = iter(b"".join(word.to_bytes(8, "little") for word in words))

    def generate(out: memoryview) -> None:
        out[:] = bytes(next(octets, 255) for _ in range(len(out)))

    return Rng(generate, buffer_bytes=1)


def p_value(outcomes: Counter[object], law: dict[object, float]) -> float:
    assert set(outcomes) <= set(law)
    counts = np.array([outcomes[outcome] for outcome in law])
    return fit(counts, np.array(list(law.values()))).p_value


# --- uniform integers -----------------------------


def test_integers_below_each_bound_are_uniform() -> None:
    bounds = np.tile([1, 2, 3, 7], 10_000)

    drawn = draw_below_each(bounds, rng=SeededRng(1))

    for bound in (1, 2, 3, 7):
        counts = np.bincount(drawn[bounds == bound], minlength=bound)
        assert fit(counts, np.full(bound, 1 / bound)).p_value > RIGHT


def test_words_beyond_the_last_multiple_of_a_bound_are_drawn_again() -> None:
    # 2**64 = 1 mod 3 and 2**64 = 0 mod 4: the largest word is one too many for 3, and counts for 4
    drawn = draw_below_each(np.array([3, 4]), rng=spelled(2**64 - 1, 2**64 - 1, 2**64 - 2))

    assert drawn.tolist() == [(2**64 - 2) % 3, 3]


def test_bounds_near_the_end_of_a_word_are_kept() -> None:
    bounds = np.repeat([2**62, 2**63 - 1], 100)

    drawn = draw_below_each(bounds, rng=SeededRng(2))

    assert bool(((drawn >= 0) & (drawn < bounds)).all())


def test_a_bound_below_one_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least 1"):
        draw_below_each(np.array([3, 0]), rng=SeededRng(1))


def test_integers_below_one_bound_are_the_words_of_the_stream_reduced() -> None:
    drawn = draw_below(10, 3, rng=spelled(3, 2**64 - 1, 27, 14))

    assert drawn.tolist() == [3, 7, 4]


# --- cells, weights, orders, subsets, intervals -----------------------------


def test_cells_are_uniform_over_all_combinations() -> None:
    cells = draw_cells((2, 3), 12_000, rng=SeededRng(3))

    counts = np.bincount(cells[:, 0] * 3 + cells[:, 1], minlength=6)
    assert fit(counts, np.full(6, 1 / 6)).p_value > RIGHT


def test_positions_come_in_proportion_to_their_weights_with_a_uniform_offset() -> None:
    weights = np.array([1, 0, 4, 5])
    positions, offsets = draw_by_weight(np.cumsum(weights), 20_000, rng=SeededRng(4))

    law: dict[object, float] = {(place, offset): 0.1 for place in range(4) for offset in range(int(weights[place]))}
    assert p_value(Counter(zip(positions.tolist(), offsets.tolist(), strict=True)), law) > RIGHT


def test_all_orders_are_equally_likely() -> None:
    rng = SeededRng(5)
    orders: Counter[object] = Counter(tuple(draw_order(3, rng=rng).tolist()) for _ in range(6000))

    law: dict[object, float] = dict.fromkeys(orders, 1 / 6)
    assert len(law) == 6
    assert p_value(orders, law) > RIGHT


def test_all_subsets_are_equally_likely() -> None:
    rng = SeededRng(6)
    subsets: Counter[object] = Counter(tuple(draw_subset(4, 2, rng=rng).tolist()) for _ in range(6000))

    law: dict[object, float] = dict.fromkeys(combinations(range(4), 2), 1 / 6)
    assert p_value(subsets, law) > RIGHT


def test_an_interval_has_a_uniform_length_and_then_a_uniform_start() -> None:
    rng = SeededRng(7)
    intervals: Counter[object] = Counter(draw_interval(3, rng=rng) for _ in range(9000))

    law: dict[object, float] = {
        (start, start + length): 1 / 3 / (4 - length) for length in (1, 2, 3) for start in range(4 - length)
    }
    assert p_value(intervals, law) > RIGHT


# --- bits and keys -----------------------------


def test_coins_are_the_bits_of_the_stream() -> None:
    coins = draw_coins(12, rng=spelled(0b1111_0000_1010_1010))

    assert coins.tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1]


def test_words_keep_all_64_bits() -> None:
    assert draw_words(2, rng=spelled(2**64 - 1, 5)).tolist() == [-1, 5]


def test_keys_differ() -> None:
    assert len({draw_key() for _ in range(100)}) == 100


# --- values inside bins -----------------------------


def test_whole_numbers_are_uniform_inside_their_bin_and_the_last_edge_belongs_to_the_last() -> None:
    edges, codes = np.array([0, 2, 3, 5]), np.repeat([0, 1, 2], 6000)

    drawn = draw_whole_inside_bins(edges, codes, rng=SeededRng(8))

    for code, values in ((0, (0, 1)), (1, (2,)), (2, (3, 4, 5))):
        law: dict[object, float] = dict.fromkeys(values, 1 / len(values))
        assert p_value(Counter(drawn[codes == code].tolist()), law) > RIGHT


def test_no_codes_draw_nothing() -> None:
    assert draw_whole_inside_bins(np.array([0, 2]), np.array([], dtype=np.int64), rng=spelled()).size == 0


def test_real_numbers_are_uniform_inside_their_bin() -> None:
    drawn = draw_inside_bins(np.array([0.0, 0.5, 0.75]), np.full(20_000, 1), rng=SeededRng(9))

    counts = np.bincount(((drawn - 0.5) * 40).astype(np.int64), minlength=10)
    assert fit(counts, np.full(10, 0.1)).p_value > RIGHT


# --- cells that are known and cells that nobody counts -----------------------------


def test_known_cells_and_those_of_a_stratum_win_alike() -> None:
    # one winner of 2 known and 3 unseen cells; an unseen one is in the stratum with probability q
    stratum = Stratum(noise=GeometricNoise(scale=Fraction(2)), above=-1, at_most=0)
    q = stratum.share(64).low / 2**64
    rng = SeededRng(10)
    found: Counter[object] = Counter()
    for _ in range(8000):
        winners, others = draw_winners(2, 3, 1, stratum, rng)
        found["unseen" if others else int(winners[0])] += 1

    # k of 3 unseen cells are in the stratum: a known cell wins with probability 1 / (2 + k)
    chances = [(1 - q) ** 3, 3 * q * (1 - q) ** 2, 3 * q**2 * (1 - q), q**3]
    known = sum(chance / (2 + k) for k, chance in enumerate(chances))
    assert p_value(found, {0: known, 1: known, "unseen": 1 - 2 * known}) > RIGHT
    assert p_value(found, {0: 1 / 5, 1: 1 / 5, "unseen": 3 / 5}) < 1e-9


def test_winners_of_many_groups_have_the_same_law() -> None:
    """200 unseen cells come in three groups; the number of known winners is that of a uniform choice among all."""
    stratum = Stratum(noise=GeometricNoise(scale=Fraction(2)), above=-1, at_most=0)
    q = stratum.share(64).low / 2**64
    rng = SeededRng(12)
    found: Counter[object] = Counter()
    for _ in range(4000):
        winners, others = draw_winners(5, 200, 40, stratum, rng)
        assert winners.size + others == 40
        found[winners.size] += 1
    chances = [math.comb(200, k) * q**k * (1 - q) ** (200 - k) for k in range(201)]

    def law(share: float) -> dict[object, float]:
        """Of 5 known and k others, `w` of 40 winners are known: hypergeometric, mixed over k."""
        mixed = dict.fromkeys(range(6), 0.0)
        for k, chance in enumerate(chances):
            others = round(share * k)
            if others + 5 >= 40:
                for w in mixed:
                    mixed[w] += chance * math.comb(5, w) * math.comb(others, 40 - w) / math.comb(others + 5, 40)
        return {w: value / sum(mixed.values()) for w, value in mixed.items()}

    assert p_value(found, law(1)) > RIGHT
    assert p_value(found, law(0.8)) < 1e-9


def test_fewer_win_where_no_more_cells_are_left() -> None:
    winners, others = draw_winners(
        2, 0, 5, Stratum(noise=GeometricNoise(scale=Fraction(2)), above=0, at_most=1), SeededRng(11)
    )

    assert (winners.tolist(), others) == ([0, 1], 0)


# --- public numbers, in floats -----------------------------


def test_columns_of_a_row_come_in_proportion_rounded_up_or_down() -> None:
    table = np.array([[0.5, 0.3, 0.2], [0.0, 0.0, 0.0]])
    rows = np.concatenate([np.zeros(1003, dtype=np.int64), np.ones(600, dtype=np.int64)])

    columns = draw_columns(rows, table, rng=SeededRng(12))

    assert np.abs(np.bincount(columns[:1003]) - 1003 * table[0]).max() < 1
    assert np.bincount(columns[1003:]).tolist() == [200, 200, 200]


def test_records_of_a_row_get_their_columns_in_random_order() -> None:
    columns = draw_columns(np.zeros(4000, dtype=np.int64), np.array([[1.0, 1.0]]), rng=SeededRng(13))

    assert fit(np.bincount(columns[:2000] * 2 + columns[2000:]), np.full(4, 0.25)).p_value > RIGHT


def test_offsets_are_uniform_below_each_width() -> None:
    offsets = draw_offsets(np.tile([1, 3], (6000, 1)), rng=SeededRng(14))

    assert not offsets[:, 0].any()
    assert fit(np.bincount(offsets[:, 1]), np.full(3, 1 / 3)).p_value > RIGHT


def test_laplace_noise_has_its_variance_and_its_tails() -> None:
    noise = add_laplace(np.zeros(200_000), variance=8.0, rng=SeededRng(15))

    # density exp(-|z|/2)/4: P[|z| > 2k] = exp(-k)
    beyond = np.floor(np.minimum(np.abs(noise) / 2, 5)).astype(np.int64)
    law = [np.exp(-k) - np.exp(-k - 1) for k in range(5)] + [np.exp(-5)]
    assert fit(np.bincount(beyond), np.array(law)).p_value > RIGHT
    assert abs(noise.mean()) < 5 * np.sqrt(8 / 200_000)
