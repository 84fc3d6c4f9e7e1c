"""The Fourier baseline: sensitivity of its coefficients, marginals that come back, a table that is never negative."""

from __future__ import annotations

import numpy as np
import pytest

from papers.baselines.barak import BarakFourier, fit_table, fourier_signs, places
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.testing.subject import schema_of


def test_one_record_changes_every_coefficient_by_one_and_a_replaced_one_by_at_most_two() -> None:
    schema = schema_of(3, 4)
    method = BarakFourier(epsilon=1)
    signs = fourier_signs(method.coefficients(schema), places(schema))
    moved = max(int(np.abs(signs[1:, one] - signs[1:, other]).sum()) for one in range(12) for other in range(12))

    assert (np.abs(signs) == 1).all()
    assert moved <= method.scale(schema, "replace")
    assert len(signs) == method.scale(schema, "add-remove")


def test_with_hardly_any_noise_the_marginals_come_back() -> None:
    schema = schema_of(2, 3, 2)
    values = np.random.default_rng(1).integers(0, 50, 12)
    counts = Counts.build(schema, np.arange(12)[:, None], values)
    out = BarakFourier(epsilon=1000).draw(counts, rng=SeededRng(1))
    for names in (["a0", "a1"], ["a1", "a2"]):
        gap = np.abs(out.project(names).dense() - counts.project(names).dense()).max()

        assert gap <= 3  # cells are rounded one by one


def test_the_fitted_table_is_never_negative_and_keeps_the_sum() -> None:
    schema = schema_of(4, 4)
    counts = Counts.build(schema, [[3]], [20])
    method = BarakFourier(epsilon="1/5")
    noisy = method.measure(counts, rng=SeededRng(2))
    fitted = fit_table(fourier_signs(method.coefficients(schema), places(schema)), noisy)

    assert noisy[0] == 20
    assert fitted.min() >= 0
    assert fitted.sum() == pytest.approx(20)


def test_the_sum_is_measured_for_add_remove() -> None:
    counts = Counts.build(schema_of(4, 4), [[3]], [20])
    rng = SeededRng(3)
    sums = {int(BarakFourier(epsilon=1).measure(counts, neighbours="add-remove", rng=rng)[0]) for _ in range(20)}

    assert len(sums) > 5


def test_one_way_tables_need_fewer_coefficients_and_large_tables_are_refused() -> None:
    assert len(BarakFourier(epsilon=1, ways=1).coefficients(schema_of(4, 4))) == 7
    with pytest.raises(ParameterError, match="bits"):
        BarakFourier(epsilon=1).draw(Counts.build(schema_of(64, 64), [], []), rng=SeededRng(1))
