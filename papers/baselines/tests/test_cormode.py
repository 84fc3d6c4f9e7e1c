"""The sparse filter and the sample: the same law as noise in every cell, without visiting the empty ones."""

from __future__ import annotations

import numpy as np
import pytest

from papers.baselines.cormode import SparseFilter
from papers.baselines.plain import PlainNoise
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema
from sudare.testing.subject import schema_of

CELLS = 60_000


def table() -> Counts:
    return Counts.build(schema_of(CELLS), np.arange(5)[:, None], np.array([1, 5, 20, 100, 400]))


def test_the_filter_has_the_law_of_filtering_the_dense_noise() -> None:
    """Number and mean of the cells that pass, 30 runs each: within 5 standard errors; another threshold is seen."""
    method, rng = SparseFilter(epsilon="1/2", threshold=12), SeededRng(1)
    sparse = [method.draw(table(), rng=rng) for _ in range(30)]
    dense = [PlainNoise(epsilon="1/2").estimate(table(), rng=rng) for _ in range(30)]
    for threshold, agrees in ((12, True), (13, False)):
        passed = [noisy[noisy >= threshold] for noisy in dense]
        numbers = np.array([len(one) for one in passed])
        error = 5 * numbers.std() / 30**0.5 * 2**0.5

        assert (abs(np.mean([one.nonzero for one in sparse]) - numbers.mean()) < error) == agrees
    means = [float(one.values.mean()) for one in sparse]

    assert np.mean(means) == pytest.approx(np.mean([noisy[noisy >= 12].mean() for noisy in dense]), rel=0.02)


def test_the_sample_keeps_sums_of_positive_noise_in_the_mean() -> None:
    """E[published] of an empty cell is E[max(Z, 0)]; 40 runs of 60,000 cells."""
    rng = SeededRng(2)
    method = SparseFilter(epsilon="1/2", threshold=30, kind="sample")
    totals = np.array([method.draw(table(), rng=rng).total for _ in range(40)])
    dense = np.array([PlainNoise(epsilon="1/2").draw(table(), rng=rng).total for _ in range(40)])
    error = (totals.var() / 40 + dense.var() / 40) ** 0.5

    assert abs(totals.mean() - dense.mean()) < 5 * error


def test_published_cells_are_at_least_the_threshold_and_the_share_is_the_stated_one() -> None:
    for kind in ("filter", "sample"):
        method = SparseFilter(epsilon="1/2", threshold=12, kind=kind)  # type: ignore[arg-type]
        out = method.draw(table(), neighbours="add-remove", rng=SeededRng(3))
        expected = CELLS * method.pass_share("add-remove")

        assert out.values.min() >= 12
        assert abs(out.nonzero - expected) < 6 * expected**0.5 + 6


def test_a_domain_of_1e15_cells_is_drawn_without_visiting_it() -> None:
    attributes = tuple(Attribute(name=f"a{k}", domain=NumberBins.of_width(0, 1000, 1)) for k in range(5))
    counts = Counts.from_columns(Schema(name="huge", attributes=attributes), [[1, 2, 3, 4, 5]] * 500)
    out = SparseFilter(epsilon=1, threshold=64).draw(counts, rng=SeededRng(4))

    assert 1 < out.nonzero < 200
    assert out.values.max() > 400


def test_thresholds_that_let_everything_pass_are_refused() -> None:
    attributes = tuple(Attribute(name=f"a{k}", domain=NumberBins.of_width(0, 1000, 1)) for k in range(5))
    counts = Counts.build(Schema(name="huge", attributes=attributes), [], [])
    with pytest.raises(ParameterError, match="raise it"):
        SparseFilter(epsilon="1/10", threshold=5).draw(counts, rng=SeededRng(1))
    with pytest.raises(ParameterError, match="at least 1"):
        SparseFilter(epsilon=1, threshold=0)
