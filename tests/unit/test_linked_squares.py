"""Least squares over a tree and sums across it, against the normal equations written out."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.noise import SeededRng
from sudare.postprocess import linked_squares
from sudare.postprocess.least_squares import LeastSquares
from sudare.postprocess.linked_squares import LinkedSquares
from sudare.postprocess.raking import Division, rake, round_down_a_chain

CELLS = 60
FREE = np.setdiff1d(np.arange(CELLS), [3, 17])  # the others can hold nobody


def make_problem(seed: int, total_variance: float) -> tuple[LinkedSquares, np.ndarray, np.ndarray]:
    """A tree of 3, 12 and 60 nodes with six sums across it, two of them exact; its dense solution and covariance."""
    dice = np.random.default_rng(seed)
    parents = [np.zeros(3, dtype=int), np.repeat(np.arange(3), 4), np.repeat(np.arange(12), 5)]
    variances = [np.full(3, 3.0), np.full(12, 4.0), np.full(CELLS, 7.0)]
    variances[2][[3, 17]] = 0.0
    noisy = [dice.normal(30, 5, 3), dice.normal(9, 4, 12), dice.normal(2, 3, CELLS)]
    group, own = dice.integers(0, 6, CELLS)[FREE], np.array([0.0, 0.0, 2.0, 2.0, 2.0, 2.0])
    sums = dice.normal(12, 3, 6)
    tree = LeastSquares(parents=parents, noisy=noisy, variances=variances, total=90.0, total_variance=total_variance)
    linked = LinkedSquares(tree=tree, rows=group, leaves=FREE, noisy=sums, variances=own)
    above = [np.arange(CELLS) // 20, np.arange(CELLS) // 5, np.arange(CELLS)]
    rows = [
        ((ancestors == node)[FREE].astype(float), value, variance)
        for ancestors, values, spread in zip(above, noisy, variances, strict=True)
        for node, (value, variance) in enumerate(zip(values, spread, strict=True))
        if variance > 0
    ]
    rows += [((group == at).astype(float), sums[at], own[at]) for at in range(6)]
    rows.append((np.ones(len(FREE)), 90.0, total_variance))
    return linked, *solve_densely(rows)


def solve_densely(rows: list[tuple[np.ndarray, float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Minimise the weighted squares of noisy rows while those without variance hold exactly."""
    soft, hard = [row for row in rows if row[2] > 0], [row for row in rows if row[2] == 0]
    weights = np.array([1 / row[2] for row in soft])
    matrix, values = np.array([row[0] for row in soft]), np.array([row[1] for row in soft])
    fixed = np.array([row[0] for row in hard])
    whole = np.block([[matrix.T @ (matrix * weights[:, None]), fixed.T], [fixed, np.zeros((len(hard), len(hard)))]])
    inverse = np.linalg.inv(whole)
    right = np.concatenate([matrix.T @ (values * weights), [row[1] for row in hard]])
    size = matrix.shape[1]
    return (inverse @ right)[:size], inverse[:size, :size]


def test_an_exact_sum_has_no_error_where_the_noise_of_its_cells_is_very_large() -> None:
    """Rounding leaves much of such noise; a sum that is not exact keeps its error."""
    dice, parents = np.random.default_rng(3), np.repeat(np.arange(32), 200)
    tree = LeastSquares(
        parents=[np.zeros(32, dtype=np.int64), parents],
        noisy=[np.full(32, 2800.0), np.full(6400, 7.0)],
        variances=[np.full(32, 2000.0), dice.uniform(1e9, 9e9, 6400)],
        total=90_000.0,
        total_variance=0.0,
    )
    half = np.flatnonzero(parents < 16)
    rows = np.zeros(len(half), dtype=np.int64)
    linked = LinkedSquares(tree=tree, rows=rows, leaves=half, noisy=np.array([36_089.0]), variances=np.zeros(1))

    assert linked.answer(half).standard_error == 0
    assert linked.answer(half, np.ones(len(half))).standard_error == 0
    assert linked.answer(half[:3000]).standard_error == pytest.approx(np.sqrt(2000 * 15 / 16), rel=0.01)
    assert linked.is_measured(half)
    assert not linked.is_measured(half[1:])


@pytest.mark.parametrize("total_variance", [0.0, 9.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_figures_and_errors_are_those_of_the_normal_equations(seed: int, total_variance: float) -> None:
    linked, solution, covariance = make_problem(seed, total_variance)
    sets = np.random.default_rng(9).integers(0, 5, len(FREE))
    weights = np.random.default_rng(8).uniform(0, 1, len(FREE))
    estimates, errors = linked.answer_groups(FREE, sets, weights)
    asked = np.array([(sets == at) * weights for at in range(5)])

    assert np.allclose(linked.estimates[-1][FREE], solution)
    assert np.allclose(estimates, asked @ solution)
    assert np.allclose(errors**2, np.diag(asked @ covariance @ asked.T))
    assert np.allclose(linked.standard_errors[-1][FREE] ** 2, np.diag(covariance))
    assert linked.root.estimate == pytest.approx(solution.sum())


@pytest.mark.parametrize("total_variance", [0.0, 9.0])
def test_many_sums_are_solved_step_by_step_and_their_errors_are_bounded(
    monkeypatch: pytest.MonkeyPatch, total_variance: float
) -> None:
    linked, solution, covariance = make_problem(3, total_variance)
    monkeypatch.setattr(linked_squares, "MOST_FACTORED", 1)
    sets = np.arange(len(FREE)) % 7
    asked = np.array([sets == at for at in range(7)], dtype=float)
    own = linked.answer_groups(linked.leaves, linked.rows)[1]
    exact = np.array([(linked.rows == at) for at in range(6)], dtype=float)

    assert np.allclose(linked.estimates[-1][FREE], solution, atol=1e-6)
    assert (linked.answer_groups(FREE, sets)[1] ** 2 >= np.diag(asked @ covariance @ asked.T) - 1e-9).all()
    assert (own**2 >= np.diag(exact @ covariance @ exact.T) - 1e-9).all()
    assert (own[2:] ** 2 < 2.0).all()


def test_raked_cells_have_the_sums_of_both_divisions_and_stay_empty_where_they_were() -> None:
    dice = np.random.default_rng(1)
    rows, columns = np.divmod(np.arange(40), 8)
    cells = dice.integers(0, 5, 40).astype(float) + (np.arange(40) % 3 == 0)
    goal = dice.integers(1, 9, 40) * (cells > 0)
    first = Division(groups=rows, targets=np.bincount(rows, weights=goal))
    second = Division(groups=columns, targets=np.bincount(columns, weights=goal))
    found = rake(cells, [first, second], spread=np.zeros(40))

    assert np.allclose(np.bincount(rows, weights=found), first.targets)
    assert np.allclose(np.bincount(columns, weights=found), second.targets, rtol=0.02)
    assert not found[cells == 0].any()


def test_whole_cells_keep_the_totals_of_the_first_division_and_move_no_sum_far() -> None:
    cells = np.random.default_rng(2).uniform(0, 3, 60)
    groups = np.arange(60) // 20
    totals = np.rint(np.bincount(groups, weights=cells)).astype(np.int64)
    chain = [groups, np.arange(60) // 5, np.arange(60)]
    whole = round_down_a_chain(cells, chain, totals, rng=SeededRng(1))

    assert np.bincount(groups, weights=whole).tolist() == totals.tolist()
    assert np.abs(np.bincount(chain[1], weights=whole - cells)).max() < 1.5
    assert (whole >= 0).all()
