"""Plain noise: its scale for either relation, and the bias of clipping."""

from __future__ import annotations

import numpy as np
import pytest

from papers.baselines.plain import PlainNoise
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.schema import Schema, Unit
from sudare.testing.subject import schema_of


@pytest.mark.parametrize(("neighbours", "scale"), [("replace", 20), ("add-remove", 10)])
def test_the_noise_of_a_cell_has_the_stated_variance(neighbours: str, scale: int) -> None:
    counts = Counts.build(schema_of(20_000), [], [])
    noisy = PlainNoise(epsilon="1/10").estimate(counts, neighbours=neighbours, rng=SeededRng(1))  # type: ignore[arg-type]

    assert float(noisy.var()) == pytest.approx(2 * scale**2, rel=0.06)
    assert (noisy < 0).mean() == pytest.approx(0.5, abs=0.05)


def test_clipping_lifts_empty_cells_by_half_the_scale() -> None:
    counts = Counts.build(schema_of(20_000), [], [])
    out = PlainNoise(epsilon="1/10").draw(counts, rng=SeededRng(1))

    assert out.total / 20_000 == pytest.approx(10, rel=0.05)


def test_persons_with_several_rows_are_refused() -> None:
    unit = Unit(kind="person", column="who", max_rows=2)
    schema = Schema(name="rows", unit=unit, attributes=schema_of(4).attributes)
    with pytest.raises(ParameterError, match="max_rows"):
        PlainNoise(epsilon=1).draw(Counts.build(schema, [], []), rng=SeededRng(1))


def test_estimates_are_whole_numbers_of_all_cells() -> None:
    noisy = PlainNoise(epsilon=1).estimate(Counts.build(schema_of(3, 4), [], []), rng=SeededRng(1))

    assert noisy.dtype == np.int64
    assert noisy.shape == (12,)
