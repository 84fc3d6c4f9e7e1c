"""The directions that the tables of all pairs share."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.methods.view.spectrum import keep_directions

SIZES = (3,) * 12


def centre_blocks(matrix: np.ndarray) -> np.ndarray:
    projection = np.kron(np.eye(len(SIZES)), np.eye(3) - 1 / 3)
    centred: np.ndarray = projection @ matrix @ projection
    return centred


def make(factors: int, strength: float, deviation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A matrix of few directions without the blocks on its diagonal, and the same with noise."""
    generator = np.random.default_rng(seed)
    own = np.kron(np.eye(len(SIZES)), np.ones((3, 3))) > 0
    loads = generator.normal(size=(36, factors))
    noise = generator.normal(size=(36, 36))
    true = np.where(own, 0.0, centre_blocks(strength * loads @ loads.T))
    noisy = true + np.where(own, 0.0, centre_blocks(deviation * (noise + noise.T) / np.sqrt(2)))
    return true, noisy


@pytest.mark.parametrize("factors", [1, 3])
def test_shared_directions_are_known_better_together_than_table_by_table(factors: int) -> None:
    """The mean square of noise is 1; of three directions of 24 at most a third of it is left."""
    left = []
    for seed in range(10):
        true, noisy = make(factors, 2.0, 1.0, seed)
        found = keep_directions(noisy, 1.0, SIZES)
        left.append(((found - true) ** 2).sum() / ((noisy - true) ** 2).sum())

    assert np.mean(left) < 0.12 + 0.1 * factors


def test_noise_alone_has_no_direction() -> None:
    for seed in range(10):
        _, noisy = make(1, 0.0, 1.0, seed)
        found = keep_directions(noisy, 1.0, SIZES)

        assert (found**2).sum() < 0.03 * (noisy**2).sum()


def test_without_noise_all_is_kept_and_the_diagonal_stays_empty() -> None:
    true, _ = make(2, 1.0, 0.0, 1)
    found = keep_directions(true, 1e-12, SIZES)

    assert found == pytest.approx(true, abs=1e-3)
    assert not found[:3, :3].any()
