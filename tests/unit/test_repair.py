"""The nearest valid table is the nearest one, by brute force, and ties fall evenly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.postprocess import find_nearest_point, find_nearest_table, round_by_remainder


def all_tables(cells: int, total: int) -> list[tuple[int, ...]]:
    return [table for table in itertools.product(range(total + 1), repeat=cells) if sum(table) == total]


@given(st.lists(st.integers(-8, 8), min_size=1, max_size=4), st.integers(0, 6), st.integers(0, 99))
def test_no_valid_table_is_nearer(noisy: list[int], total: int, seed: int) -> None:
    found = find_nearest_table(np.array(noisy), total=total, rng=SeededRng(seed))
    distance = min(
        sum((a - b) ** 2 for a, b in zip(table, noisy, strict=True)) for table in all_tables(len(noisy), total)
    )

    assert int(found.min()) >= 0
    assert int(found.sum()) == total
    assert sum((int(a) - b) ** 2 for a, b in zip(found, noisy, strict=True)) == distance


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=60), st.integers(0, 10**7), st.integers(0, 99))
def test_whole_and_real_projections_agree_within_one(noisy: list[int], total: int, seed: int) -> None:
    whole = find_nearest_table(np.array(noisy), total=total, rng=SeededRng(seed))
    real = find_nearest_point(np.array(noisy, dtype=float), total=float(total))

    assert np.abs(whole - real).max() < 1 + 1e-6


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=20), st.integers(0, 200), st.integers(0, 99))
def test_the_papers_three_steps_reach_the_same_distance(noisy: list[int], total: int, seed: int) -> None:
    vector = np.array(noisy)
    direct = find_nearest_table(vector, total=total, rng=SeededRng(seed))
    real = find_nearest_point(vector.astype(float), total=float(total))
    stepwise = round_by_remainder(np.round(real, 9), total=total, rng=SeededRng(seed + 1))

    assert int(((direct - vector) ** 2).sum()) == int(((stepwise - vector) ** 2).sum())


def test_spare_units_fall_on_tied_cells_evenly() -> None:
    """10,000 draws of 1 unit among 4 tied cells; a share 10 % off (2,750) lies beyond 5 standard deviations."""
    rng = SeededRng(4)
    won = sum(find_nearest_table(np.zeros(4, dtype=np.int64), total=1, rng=rng) for _ in range(10_000))

    assert np.abs(won - 2500).max() < 5 * np.sqrt(10_000 * 3 / 16)


def test_sums_beyond_int64_do_not_wrap() -> None:
    huge = np.full(6, 2**61, dtype=np.int64)

    assert find_nearest_table(huge, total=600, rng=SeededRng(1)).tolist() == [100] * 6


def test_bad_totals_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least 0"):
        find_nearest_table(np.array([1]), total=-1, rng=SeededRng(1))
    with pytest.raises(ParameterError, match="without cells"):
        find_nearest_table(np.empty(0, dtype=np.int64), total=1, rng=SeededRng(1))
    with pytest.raises(ParameterError, match="project it first"):
        round_by_remainder(np.array([5.0]), total=9, rng=SeededRng(1))
