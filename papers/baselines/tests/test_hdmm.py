"""HDMM: expected errors against matrices written out, gradients, and optima that are never above Identity."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from papers.baselines import Hdmm, Identity, Workload
from papers.baselines.hdmm import (
    _all_sets,
    _small_sets,
    all_ranges_gram,
    inverse,
    kron_error,
    marginals_error,
    p_identity_error,
    prefix_gram,
    range_gram,
    spectrum,
    weighted_error,
)
from sudare.errors import ParameterError
from sudare.testing.subject import schema_of

CASES = [("marginals", 1), ("marginals", 2), ("prefixes", 2), ("all-ranges", 1), ("all-ranges", 2)]


def rows_of(kind: str, size: int) -> np.ndarray:
    if kind == "marginals":
        return np.eye(size)
    if kind == "prefixes":
        return np.tril(np.ones((size, size)))
    pairs = [(a, b) for a in range(size) for b in range(a, size)]
    return np.array([[float(a <= x <= b) for x in range(size)] for a, b in pairs])


def written_out(kind: str, ways: int, sizes: tuple[int, ...]) -> np.ndarray:
    parts = []
    for chosen in itertools.combinations(range(len(sizes)), ways):
        matrix = np.ones((1, 1))
        for place, size in enumerate(sizes):
            matrix = np.kron(matrix, rows_of(kind, size) if place in chosen else np.ones((1, size)))
        parts.append(matrix)
    return np.vstack(parts)


def by_pseudo_inverse(workload: np.ndarray, strategy: np.ndarray) -> float:
    sensitivity = np.abs(strategy).sum(axis=0).max()
    return float(sensitivity**2 * (np.linalg.norm(workload @ np.linalg.pinv(strategy)) ** 2) / len(workload))


@pytest.mark.parametrize(("kind", "ways"), CASES)
def test_the_error_of_identity_equals_that_of_the_pseudo_inverse(kind: str, ways: int) -> None:
    sizes = (3, 4, 2)
    workload = Workload.of(schema_of(*sizes), kind, ways)  # type: ignore[arg-type]
    matrix = written_out(kind, ways, sizes)
    inside = [float(np.trace(gram)) for gram in workload.grams]

    assert workload.size == len(matrix)
    assert workload.mean_square(inside, list(sizes)) == pytest.approx(by_pseudo_inverse(matrix, np.eye(24)))


@pytest.mark.parametrize(("kind", "ways"), CASES)
def test_the_error_of_a_product_of_strategies_equals_that_of_the_pseudo_inverse(kind: str, ways: int) -> None:
    sizes, rng = (3, 4, 2), np.random.default_rng(1)
    workload = Workload.of(schema_of(*sizes), kind, ways)  # type: ignore[arg-type]
    thetas = [rng.uniform(0, 1, (2, size)) for size in sizes]
    whole = np.ones((1, 1))
    for theta in thetas:
        part = np.vstack([np.eye(theta.shape[1]), theta])
        whole = np.kron(whole, part / part.sum(axis=0))
    known = [inverse(theta) for theta in thetas]
    inside = [float((gram * one).sum()) for gram, one in zip(workload.grams, known, strict=True)]
    found = workload.mean_square(inside, [float(one.sum()) for one in known])

    assert found == pytest.approx(by_pseudo_inverse(written_out(kind, ways, sizes), whole))


@pytest.mark.parametrize(("kind", "ways"), CASES)
@pytest.mark.parametrize("make", [_all_sets, _small_sets])
def test_the_error_of_weighted_marginals_equals_that_of_the_pseudo_inverse(kind: str, ways: int, make) -> None:  # type: ignore[no-untyped-def]
    sizes, rng = (3, 4, 2), np.random.default_rng(2)
    workload = Workload.of(schema_of(*sizes), kind, ways)  # type: ignore[arg-type]
    lattice = make(workload)
    logs = rng.normal(size=len(lattice.sets))
    tables = []
    for chosen, log in zip(lattice.sets, logs, strict=True):
        matrix = np.ones((1, 1))
        for place, size in enumerate(sizes):
            matrix = np.kron(matrix, np.eye(size) if place in chosen else np.ones((1, size)))
        tables.append(math.exp(log) * matrix)
    parts = np.array([spectrum(workload).get(chosen, 0.0) for chosen in lattice.sets])
    found = math.exp(weighted_error(logs, parts, lattice)[0]) / workload.size

    assert found == pytest.approx(by_pseudo_inverse(written_out(kind, ways, sizes), np.vstack(tables)))


def test_gradients_are_those_of_small_steps() -> None:
    rng = np.random.default_rng(3)
    gram, theta = prefix_gram(6), rng.uniform(0, 1, (2, 6))
    workload = Workload.of(schema_of(3, 4, 2), "prefixes", 2)
    lattice = _all_sets(workload)
    parts = np.array([spectrum(workload).get(chosen, 0.0) for chosen in lattice.sets])
    for function, start in (
        (lambda flat: p_identity_error(flat.reshape(2, 6), gram), theta.ravel()),
        (lambda logs: weighted_error(logs, parts, lattice), rng.normal(size=8)),
    ):
        slope = np.ravel(function(start)[1])
        step = 1e-6
        for place in range(len(start)):
            moved = start + step * (np.arange(len(start)) == place)

            assert (function(moved)[0] - function(start)[0]) / step == pytest.approx(slope[place], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(("kind", "ways"), [*CASES, ("ranges", 2)])
@pytest.mark.parametrize("sizes", [(5, 4, 3), (20, 7), (2, 2, 2, 2)])
def test_the_optimum_of_either_template_is_not_above_identity(kind: str, ways: int, sizes: tuple[int, ...]) -> None:
    workload = Workload.of(schema_of(*sizes), kind, ways)  # type: ignore[arg-type]
    identity = workload.mean_square([float(np.trace(gram)) for gram in workload.grams], [float(s) for s in sizes])

    assert kron_error(workload) <= identity * (1 + 1e-9)
    assert marginals_error(workload) <= identity * 1.01


def test_sums_over_many_attributes_are_far_cheaper_by_marginals() -> None:
    """One-way tables of eight attributes: measuring just them costs 8 times a table; Identity adds up 6^7 cells."""
    workload = Workload.of(schema_of(*[6] * 8), "marginals", 1)

    assert marginals_error(workload) <= 64 * 1.001
    assert marginals_error(workload) < kron_error(workload) < 6**7


def test_the_expectation_of_random_ranges_is_that_of_their_list() -> None:
    size = 5
    total = np.zeros((size, size))
    for length in range(1, size + 1):
        for start in range(size - length + 1):
            row = ((np.arange(size) >= start) & (np.arange(size) < start + length)).astype(float)
            total += np.outer(row, row) / (size - length + 1) / size

    assert range_gram(size) == pytest.approx(total)
    assert all_ranges_gram(size) == pytest.approx(rows_of("all-ranges", size).T @ rows_of("all-ranges", size))


def test_expected_errors_scale_with_epsilon_and_the_relation() -> None:
    workload = Workload.of(schema_of(4, 4), "prefixes", 2)
    one = Hdmm(epsilon=1).expected_rmse(workload, neighbours="add-remove")

    assert Hdmm(epsilon="1/2").expected_rmse(workload, neighbours="add-remove") == pytest.approx(2 * one)
    assert Hdmm(epsilon=1).expected_rmse(workload) == pytest.approx(2 * one)
    assert one < Identity(epsilon=1).expected_rmse(workload, neighbours="add-remove") * math.sqrt(2 / 1.8)
    assert Hdmm(epsilon=1, template="marginals").guarantee().epsilon == 1


def test_wrong_names_and_ways_are_refused() -> None:
    with pytest.raises(ParameterError, match="template"):
        Hdmm(epsilon=1, template="union")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="between 1 and 2"):
        Workload.of(schema_of(4, 4), "marginals", 3)
