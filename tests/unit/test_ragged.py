"""Rows of unequal length, projected together, are what each would be alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.postprocess.simplex import find_nearest_rows, find_threshold, find_thresholds, sum_rows

row = st.tuples(st.lists(st.integers(-30, 60), min_size=1, max_size=8), st.integers(0, 80))


def flat(rows: list[tuple[list[int], int]], seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, their rows and the totals, in shuffled order."""
    owner = np.repeat(np.arange(len(rows)), [len(values) for values, _ in rows])
    values = np.array([value for values, _ in rows for value in values])
    order = np.random.default_rng(seed).permutation(values.size)
    return values[order], owner[order], np.array([total for _, total in rows])


@given(st.lists(row, min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_every_row_has_the_threshold_it_would_have_alone(rows: list[tuple[list[int], int]]) -> None:
    values, owner, totals = flat(rows)

    assert find_thresholds(values, owner, totals=totals).tolist() == [find_threshold(np.array(v), t) for v, t in rows]


@given(st.lists(row, min_size=1, max_size=6), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_every_row_is_a_nearest_valid_row(rows: list[tuple[list[int], int]], seed: int) -> None:
    values, owner, totals = flat(rows, seed)
    table = find_nearest_rows(values, owner, totals=totals, rng=SeededRng(seed))
    levels = find_thresholds(values, owner, totals=totals)[owner]
    above = table - np.maximum(values - levels, 0)

    assert table.min() >= 0
    assert np.bincount(owner, weights=table, minlength=len(rows)).tolist() == totals.tolist()
    assert set(above.tolist()) <= {0, 1}
    assert (values[above == 1] >= levels[above == 1]).all()


def test_spare_units_go_to_every_tied_cell_equally_often() -> None:
    values, owner, totals = np.array([4, 4, 4, 9, 9]), np.array([0, 0, 0, 1, 1]), np.array([2, 3])
    rng = SeededRng(3)
    runs = np.array([find_nearest_rows(values, owner, totals=totals, rng=rng) for _ in range(3000)])

    assert np.abs(runs.mean(axis=0) - [2 / 3, 2 / 3, 2 / 3, 1.5, 1.5]).max() < 0.05


def test_values_near_the_end_of_64_bits_do_not_wrap() -> None:
    values, owner = np.array([2**62, 2**62, 5, 2**62]), np.array([0, 0, 1, 0])
    table = find_nearest_rows(values, owner, totals=np.array([9, 5]), rng=SeededRng(1))

    assert table.tolist() == [3, 3, 5, 3]


def test_sums_that_wrap_over_all_rows_together_are_right_in_each() -> None:
    values, owner = np.full(64, 2**57), np.arange(64)
    table = find_nearest_rows(values, owner, totals=np.full(64, 7), rng=SeededRng(1))

    assert table.tolist() == [7] * 64


def test_rows_without_entries_add_up_to_nothing() -> None:
    assert sum_rows(np.array([1, 2]), np.array([1, 3]), size=5).tolist() == [0, 1, 0, 2, 0]


def test_a_row_that_must_hold_records_but_has_no_cells_is_refused() -> None:
    with pytest.raises(ParameterError, match="without cells"):
        find_nearest_rows(np.array([1]), np.array([0]), totals=np.array([1, 2]), rng=SeededRng(1))


def test_nothing_becomes_nothing() -> None:
    nothing = np.zeros(0, dtype=np.int64)

    assert find_nearest_rows(nothing, nothing, totals=nothing, rng=SeededRng(1)).size == 0
