"""The smallest table of the paper, at reduced trials; `make papers` runs all of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from papers.terada2017 import reproduce

from sudare.mechanisms import SeededRng

EXPECTED = tomllib.loads(Path(reproduce.__file__).with_name("expected.toml").read_text())
SMALL = EXPECTED["size"][0]


@pytest.mark.parametrize("position", [0, 2, 4, 5])
def test_table_1_and_4_come_out_as_printed(position: int) -> None:
    """20 trials: the mean L2 has a relative error of 1 %; 10 % off would be seen, and half the noise is 40 % off."""
    l2, ks, our_l2, our_ks = reproduce.distances(
        SMALL, EXPECTED["epsilons"][position], trials=20, rng=SeededRng(position)
    )

    assert l2 == pytest.approx(SMALL["l2"][position], rel=0.06, abs=0.05)
    assert ks == pytest.approx(SMALL["ks"][position], abs=0.15 + 0.1 * SMALL["ks"][position])
    assert our_l2 <= 1.03 * l2
    assert our_ks <= 1.15 * ks + 0.02
