"""Audits of the view on neighbouring tables, and coverage of its intervals by simulation. All seeded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.asking.answers import answer
from sudare.compare.distances import TrueTable, random_ranges
from sudare.counts import Counts
from sudare.methods.view import View, open_view
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.model import FittedModel
from sudare.methods.view.uncertainty import share_by_halves
from sudare.noise import SeededRng
from sudare.postprocess import find_nearest_point
from sudare.testing import Tabled
from sudare.testing.subject import changed, even_table, schema_of
from sudare.verify import audit

RUNS = {"product": 1_500, "model": 2_000, "mondrian": 1_000, "hdpview": 1_000}
SAME, OTHER = 1600, 40  # records with two equal values, or two others: a pair that is always chosen
CONFIDENCE = 0.999


def features(drawn: FittedModel | BlockView) -> list[int]:
    """What tells most about the first cell: on which side of the two tables' numbers each measured number lies."""
    if isinstance(drawn, BlockView):
        first = (drawn.lows == 0).all(axis=1)
        return [round(float((drawn.counts * first).sum())), int((drawn.highs[first][0] + 1).prod())]
    measured = drawn.measured
    numbers = [(measured.total, 4 * (SAME + 3 * OTHER), measured.total_variance)]
    numbers += [(one.values[0], SAME + 3 * OTHER, one.variance) for one in measured.ones]
    numbers += [(pair.values[pair_cell(drawn, pair.ends)], SAME, pair.variance) for pair in measured.pairs]
    return [round(100 * sum((1 if value > true else -1) / np.sqrt(variance / 2) for value, true, variance in numbers))]


def pair_cell(drawn: FittedModel, ends: tuple[int, int]) -> tuple[int, int]:
    return int(drawn.measured.bins[ends[0]][0]), int(drawn.measured.bins[ends[1]][0])


def many(method: View, table: Counts, seed: int) -> Callable[[int], NDArray[np.int64]]:
    rng = SeededRng(seed)
    return lambda runs: np.array(
        [features(method.draw(table, neighbours="add-remove", rng=rng)) for _ in range(runs)], dtype=np.int64
    )


@functools.cache
def found_epsilon(algorithm: str) -> float:
    """The lower bound on epsilon that the view of epsilon = 2 shows on two neighbouring tables."""
    method = View(epsilon=2, algorithm=algorithm)  # type: ignore[arg-type]
    schema = schema_of(4, 4)
    table = Counts.build(schema, np.arange(16), np.where(np.eye(4).ravel() > 0, SAME, OTHER))
    if algorithm in ("mondrian", "hdpview"):  # an even table stays in few blocks, whose count tells most
        table = even_table(schema, per_cell=400)
    runs = RUNS[algorithm]
    found = audit(
        many(method, changed(table, 1), seed=1), many(method, table, seed=2), runs=runs, confidence=CONFIDENCE
    )
    return found.epsilon_low


@pytest.mark.parametrize("algorithm", RUNS)
def test_an_audit_stays_within_the_promise(algorithm: str) -> None:
    assert found_epsilon(algorithm) <= 2


@pytest.mark.parametrize("algorithm", ["product", "model"])
def test_an_audit_sees_it_when_the_noise_is_halved(algorithm: str) -> None:
    """Detects a factor of 2 in the noise of the tables: the run at twice the epsilon is refuted for the first.

    Of the model it detects a factor of 2.2: a part of its budget is for the exam, which this statistic does not see;
    the replay finds half the noise there. Blocks: test_view_blocks.py.
    """
    assert found_epsilon(algorithm) > (2 / 2.2 if algorithm == "model" else 1)


def test_every_measured_number_has_the_noise_that_is_stated_for_it() -> None:
    """Squares of noise over their stated variance, in the mean of 300 views: half the noise would show a quarter."""
    exact = np.where(np.eye(4) > 0, SAME, OTHER)
    table = Counts.build(schema_of(4, 4), np.arange(16), exact.ravel())
    rng, squares = SeededRng(4), {"total": [], "histograms": [], "pairs": []}
    for _ in range(300):
        measured = View(epsilon=2).draw(table, neighbours="add-remove", rng=rng).measured
        squares["total"].append((measured.total - exact.sum()) ** 2 / measured.total_variance)
        for one_way in measured.ones:
            squares["histograms"] += ((one_way.values - exact.sum(axis=0)) ** 2 / one_way.variance).tolist()
        for pair in measured.pairs:
            squares["pairs"] += ((pair.values - exact) ** 2 / pair.variance).ravel().tolist()

    assert {name: len(found) for name, found in squares.items()} == {"total": 300, "histograms": 2400, "pairs": 4800}
    assert all(0.6 < np.mean(found) < 1.4 for found in squares.values())


def dependent(seed: int) -> Counts:
    """A made-up table of six attributes in a chain, each following the one before it by two thirds."""
    generator = np.random.default_rng(seed)
    columns = [generator.integers(0, 10, 20_000)]
    for _ in range(5):
        fresh = generator.integers(0, 10, 20_000)
        columns.append(np.where(generator.random(20_000) < 2 / 3, columns[-1], fresh))
    return Counts.from_columns(schema_of(*[10] * 6), np.column_stack(columns))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_intervals_of_95_percent_cover_at_least_93_percent_of_ranges(epsilon: Fraction) -> None:
    """Detects intervals that are too narrow by a third. At epsilon .1 and 4 they are wider than needed (.997, .998)."""
    inside = []
    for seed in range(4):
        truth = dependent(seed)
        lows, highs = random_ranges(truth.schema, 3, queries=150, rng=SeededRng(seed))
        view = open_view(View(epsilon=epsilon, neighbours="add-remove").publish(Tabled(truth), rng=SeededRng(seed)))
        told = [answer(moments) for moments in view.stored.range_moments(lows, highs)]  # type: ignore[union-attr]
        exact = TrueTable(truth).ranges(lows, highs).tolist()
        inside += [one.low <= number <= one.high for one, number in zip(told, exact, strict=True)]

    assert np.mean(inside) >= 0.93
    assert np.mean(inside) <= (0.995 if epsilon == 1 else 0.9995)


def test_halves_tell_prefixes_of_a_skewed_histogram_better_than_a_projection_at_once() -> None:
    """Detects a sharing out that keeps the noise of empty values: its squared error is a third larger here."""
    exact = np.array([10_000.0, 500, 40, *[0] * 29])
    generator = np.random.default_rng(1)
    noisy = exact + generator.laplace(scale=30, size=(400, exact.size))
    edges, total = np.array([0, exact.size]), exact.sum()
    shared = {
        "halves": [share_by_halves(one, edges, np.array([total]), variance=1800.0) for one in noisy],
        "at once": [find_nearest_point(one, total=float(total)) for one in noisy],
    }
    errors = {
        name: float(((np.cumsum(found, axis=1) - np.cumsum(exact)) ** 2).mean()) for name, found in shared.items()
    }

    assert errors["halves"] < 0.75 * errors["at once"]


def skewed(rows: int) -> Counts:
    """A made-up table of 22 attributes that follow two hidden ones, nearly all mass in the first of ten values."""
    generator = np.random.default_rng(5)
    hidden = generator.normal(size=(rows, 2))
    columns = []
    for _ in range(22):
        weight = generator.normal(size=2)
        size = np.exp(hidden @ weight * 0.6 + 0.4 * generator.normal(size=rows))
        columns.append(np.minimum(10 * size / size.max(), 9).astype(np.int64))
    return Counts.from_columns(schema_of(*[10] * 22), np.column_stack(columns))


def test_few_pairs_do_not_cost_more_than_they_tell_where_records_are_few_for_the_noise() -> None:
    """Detects a rule that measures too many pairs: with d - 1 of them the model is above the product here."""
    truth = skewed(10_000)
    lows, highs = random_ranges(truth.schema, 2, queries=300, rng=SeededRng(3))
    exact = TrueTable(truth).ranges(lows, highs)
    errors = {
        method: np.mean([squared_error(truth, method, seed, lows, highs, exact) for seed in range(4)])
        for method in ("model", "product")
    }

    assert errors["model"] < errors["product"]


def squared_error(
    truth: Counts, method: str, seed: int, lows: NDArray[np.int64], highs: NDArray[np.int64], exact: NDArray[np.float64]
) -> float:
    chosen = View(epsilon=1, neighbours="add-remove", algorithm=method)  # type: ignore[arg-type]
    found = open_view(chosen.publish(Tabled(truth), rng=SeededRng(seed))).ranges(lows, highs)
    return float(((found - exact) ** 2).mean())


def test_the_model_is_nearer_to_dependent_data_than_the_product() -> None:
    truth = dependent(7)
    lows, highs = random_ranges(truth.schema, 3, queries=300, rng=SeededRng(7))
    exact = TrueTable(truth).ranges(lows, highs)
    errors = {
        method: np.sqrt(
            (
                (
                    open_view(
                        View(epsilon=1, algorithm=method).publish(Tabled(truth), rng=SeededRng(1))  # type: ignore[arg-type]
                    ).ranges(lows, highs)
                    - exact
                )
                ** 2
            ).mean()
        )
        for method in ("model", "product", "mondrian")
    }

    assert 3 * errors["model"] < errors["product"]
    assert errors["model"] < errors["mondrian"]
