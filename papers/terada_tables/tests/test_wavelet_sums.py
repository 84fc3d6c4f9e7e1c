"""Unclamped sums beside the table: the same draws, no bias, nothing for blocks without cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from papers.terada_tables.wavelet_variants import wavelet_with_sums
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.table.morton import CellOrder
from sudare.noise import SeededRng
from sudare.testing.subject import schema_of

EPSILON = Fraction(1, 2)


def table(cells: int = 64) -> Counts:
    return Counts.build(schema_of(cells), [[3], [40]], [500, 100])


@pytest.mark.parametrize("cells", [64, 50])
def test_published_sums_are_those_of_the_table(cells: int) -> None:
    counts = table(cells)
    out, sums = wavelet_with_sums(counts, epsilon=EPSILON, neighbours="replace", total=600, levels=4, rng=SeededRng(1))
    vector = np.zeros(64, dtype=np.int64)
    vector[CellOrder(schema=counts.schema).ranks(out.codes)] = out.values

    assert [one.halvings for one in sums] == [1, 2, 3, 4]
    for one in sums:
        assert np.array_equal(vector.reshape(len(one.published), -1).sum(axis=1), one.published)
        assert one.unclamped.sum() == pytest.approx(600)


def test_unclamped_sums_are_right_in_the_mean_where_the_table_is_not() -> None:
    """2,000 runs; blocks of 8 cells, of which seven hold nobody: the table's mean is off by more than 10 errors."""
    counts, rng = table(), SeededRng(2)
    runs = [
        wavelet_with_sums(counts, epsilon=EPSILON, neighbours="replace", total=600, levels=3, rng=rng)[1][-1]
        for _ in range(2000)
    ]
    truth = counts.dense().reshape(8, 8).sum(axis=1)
    unclamped, published = (np.array([getattr(run, name) for run in runs]) for name in ("unclamped", "published"))
    error = unclamped.std(axis=0) / 2000**0.5

    assert (np.abs(unclamped.mean(axis=0) - truth) < 5 * error).all()
    assert published.mean(axis=0)[truth == 0].min() > 10 * published[:, truth == 0].std() / 2000**0.5
    assert published.mean(axis=0)[0] < 500 - 10 * published[:, 0].std() / 2000**0.5


def test_blocks_without_a_cell_get_nothing() -> None:
    _, sums = wavelet_with_sums(table(50), epsilon=EPSILON, neighbours="replace", total=600, levels=5, rng=SeededRng(3))

    assert (sums[-1].unclamped[25:] == 0).all()  # 50 cells are 25 blocks of 2
    assert (sums[-1].unclamped[:25] != 0).all()


def test_a_total_of_nobody_is_published_with_its_noise() -> None:
    counts = Counts.build(schema_of(64), [], [])
    out, sums = wavelet_with_sums(
        counts, epsilon=EPSILON, neighbours="add-remove", total=-5, levels=2, rng=SeededRng(4)
    )

    assert out.total == 0
    assert sums[-1].unclamped.any()


def test_more_levels_than_there_are_halvings_are_refused() -> None:
    with pytest.raises(ParameterError, match="between 0 and 6"):
        wavelet_with_sums(table(), epsilon=EPSILON, neighbours="replace", total=600, levels=7, rng=SeededRng(1))
