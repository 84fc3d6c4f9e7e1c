"""The sparse projection has the law of the dense one; a law that is only nearly the same is rejected.

Each comparison is a two-sample Kolmogorov-Smirnov test on six statistics of the published table. With 1,200
dense and 400 sparse runs a shift of 0.4 standard deviations is found (p < 1e-4) nearly always.
Seeds are fixed; the limit is 1e-4.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from sudare.counts import Counts
from sudare.methods.budget import CountBudget, plan
from sudare.methods.microdata import Microdata
from sudare.methods.microdata import projection as sparse
from sudare.methods.microdata.projection import project_dense, project_sparse
from sudare.noise import SeededRng
from sudare.schema import Attribute, Impossible, Schema, Unit, Values

DENSE_RUNS = 1200
SPARSE_RUNS = 400
LIMIT = 1e-4


@functools.cache
def table(cells: int, records: int) -> Counts:
    """A long-tailed table of two attributes with a tenth of its cells declared impossible."""
    rows = cells // 10
    weights = 1 / np.arange(1, rows + 1) ** 1.2
    generator = np.random.default_rng(1)
    first = generator.choice(rows, records, p=weights / weights.sum())
    second = generator.integers(0, 9, records)
    attributes = (
        Attribute(name="a", domain=Values(values=tuple(map(str, range(rows))))),
        Attribute(name="b", domain=Values(values=tuple(map(str, range(10))))),
    )
    never = (Impossible(values={"b": frozenset({9})}),)
    schema = Schema(name="t", unit=Unit(), attributes=attributes, impossible=never)
    return Counts.from_columns(schema, np.column_stack([first, second]))


@functools.cache
def dense_figures(cells: int, records: int, epsilon: float) -> np.ndarray:
    """What every sparse table is compared with, drawn once."""
    counts = table(cells, records)
    return figures(project_dense, counts, budget(counts, epsilon), seed=1, runs=DENSE_RUNS)


def sparse_figures(cells: int, records: int, epsilon: float, *, seed: int, runs: int = SPARSE_RUNS) -> np.ndarray:
    counts = table(cells, records)
    return figures(project_sparse, counts, budget(counts, epsilon), seed=seed, runs=runs)


def figures(way: Callable[..., Counts], counts: Counts, budget: CountBudget, *, seed: int, runs: int) -> np.ndarray:
    rng = SeededRng(seed)
    truth = counts.dense()
    found = []
    for _ in range(runs):
        out = way(counts, budget, total=counts.total, rng=rng).dense()
        off, spurious = out - truth, out[truth == 0]
        found.append(
            (
                np.linalg.norm(off),
                np.abs(np.cumsum(off)).max(),
                (out > 0).sum(),
                out.max(),
                (spurious > 0).sum(),
                spurious.sum(),
            )
        )
    return np.array(found, dtype=float)


def smallest_p(first: np.ndarray, second: np.ndarray) -> float:
    return min(stats.ks_2samp(first[:, k], second[:, k]).pvalue for k in range(first.shape[1]))


def budget(counts: Counts, epsilon: float) -> CountBudget:
    return plan(Microdata(epsilon=epsilon).guarantee(unit=counts.schema.unit))


@pytest.mark.parametrize(
    ("cells", "records", "epsilon"), [(300, 500, 0.1), (300, 20_000, 1), (1000, 2000, 5), (3000, 600, 1)]
)
def test_sparse_and_dense_tables_have_one_law(cells: int, records: int, epsilon: float) -> None:
    found = sparse_figures(cells, records, epsilon, seed=2)

    assert smallest_p(dense_figures(cells, records, epsilon), found) > LIMIT


# Noise above 15 has probability 3e-4 a cell, and every stratum below it takes its time: 200 runs, which find a shift
# of 0.55 standard deviations.
@pytest.mark.parametrize(("guess", "runs"), [(-1, 400), (0, 400), (3, 400), (15, 200)])
def test_a_bad_first_guess_changes_nothing(guess: int, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "first_level", lambda *_: guess)

    assert smallest_p(dense_figures(300, 500, 1), sparse_figures(300, 500, 1, seed=3, runs=runs)) > LIMIT


def test_asking_a_crowd_one_by_one_is_the_same_as_counting_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every level is treated as one that too many empty cells share."""
    monkeypatch.setattr(sparse, "MOST_TIES", 0)

    assert smallest_p(dense_figures(300, 500, 3), sparse_figures(300, 500, 3, seed=5)) > LIMIT


def test_stopping_one_stratum_too_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant begins too high and then finds nobody in the lower strata."""
    right = dense_figures(300, 500, 1)
    monkeypatch.setattr(sparse, "first_level", lambda *_: 12)
    monkeypatch.setattr(sparse, "count_in_stratum", lambda *stratum: 0 if stratum[1].at_most else _count(*stratum))

    assert smallest_p(right, sparse_figures(300, 500, 1, seed=3)) < LIMIT


def test_forgetting_the_noise_of_empty_cells_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = dense_figures(300, 500, 1)
    monkeypatch.setattr(
        sparse, "count_in_stratum", lambda trials, stratum, rng: int(0.9 * _count(trials, stratum, rng))
    )

    assert smallest_p(right, sparse_figures(300, 500, 1, seed=4)) < LIMIT


_count = sparse.count_in_stratum
