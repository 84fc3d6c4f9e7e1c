"""Ratios whose divisor may be 0, squares, noise next to nothing: what intervals must and must not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sudare as sd
from sudare.asking.answers import answer
from sudare.asking.protocol import Moments
from sudare.noise import SeededRng

SCHEMA = """
[sudare]
schema = 1
name = "t"
[unit]
kind = "row"
[[attribute]]
name = "a"
kind = "number"
bins = { start = -50, stop = 50, width = 10 }
[[attribute]]
name = "b"
kind = "number"
bins = { start = 0, stop = 100, width = 10 }
"""


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> sd.OpenedView:
    place: Path = tmp_path_factory.mktemp("divisors")
    (place / "t.toml").write_text(SCHEMA, encoding="utf-8")
    rng = np.random.default_rng(1)
    half = rng.integers(0, 51, 1_500)
    table = pa.table({"a": np.concatenate([half, -half]), "b": rng.integers(0, 101, 3_000)})
    with sd.open(table, sd.Schema.read(place / "t.toml")) as source:
        return sd.open_view(sd.View(epsilon=10).publish(source, rng=SeededRng(1)))


@pytest.mark.parametrize(
    "number", ["SUM(b) / AVG(a)", "1.0 / SUM(a)", "AVG(b) / AVG(a)", "SUM(b) / SUM(a)", "2 + AVG(b) / AVG(a) / 3"]
)
def test_what_is_divided_by_something_near_0_has_no_interval(view: sd.OpenedView, number: str) -> None:
    estimate = view.sql(f"SELECT {number} FROM view").rows[0][0]

    assert not estimate.has_interval
    assert "divisor may be 0" in str(estimate.reason)


@pytest.mark.parametrize("number", ["SUM(a) / AVG(b)", "1.0 / SUM(b)", "AVG(a) / AVG(b)"])
def test_what_is_divided_by_something_sure_has_an_interval(view: sd.OpenedView, number: str) -> None:
    estimate = view.sql(f"SELECT {number} FROM view").rows[0][0]

    assert estimate.low <= estimate.value <= estimate.high


def test_a_mean_of_squares_is_not_below_0(view: sd.OpenedView) -> None:
    estimate = view.sql("SELECT AVG((a - b) * (a - b)) FROM view WHERE a > 40 AND b > 90").rows[0][0]

    assert 0 <= estimate.low <= estimate.value <= estimate.high


def test_an_interval_is_told_where_noise_is_next_to_nothing_beside_the_model() -> None:
    told = answer(Moments(value=100.0, noise=1e-250, model=4.0, replicates=8), level=0.95)

    assert told.high - told.low == pytest.approx(2 * 1.96 * 2, rel=0.001)
