"""Sampling with global recoding keeps its (epsilon, delta), found by listing every size of a cell."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from papers.baselines import SampledRecoding
from papers.baselines.recoding import exact_delta, sampling_delta
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.schema import TableHierarchy
from sudare.testing.subject import schema_of


def binomial(n: int, rate: float) -> np.ndarray:
    return np.array([math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1)])


def uncovered(n: int, *, k: int, rate: float, epsilon: float) -> float:
    """The exact delta of a cell of n against n - 1 records: what e^epsilon does not cover, the worse of both ways."""
    one, other = binomial(n, rate), np.append(binomial(n - 1, rate), 0.0)
    laws = [np.array([law[:k].sum(), *law[k:]]) for law in (one, other)]
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in (laws, laws[::-1]))


SAMPLINGS = [(5, 0.05, 1.0), (5, 0.3, 0.5), (10, 0.1, 0.2), (3, 0.5, 2.0), (1, 0.2, 0.5)]


@pytest.mark.parametrize(("k", "rate", "epsilon"), SAMPLINGS)
def test_the_delta_of_sampling_covers_every_size_of_a_cell(k: int, rate: float, epsilon: float) -> None:
    found = max(uncovered(n, k=k, rate=rate, epsilon=epsilon) for n in range(k, 300))

    assert found == pytest.approx(exact_delta(k=k, rate=rate, epsilon=epsilon))
    assert found <= sampling_delta(k=k, rate=rate, epsilon=epsilon)


@pytest.mark.parametrize(("k", "rate", "epsilon"), [s for s in SAMPLINGS if s[0] > 2])
def test_half_the_threshold_breaks_the_delta(k: int, rate: float, epsilon: float) -> None:
    stated = exact_delta(k=k, rate=rate, epsilon=epsilon)

    assert max(uncovered(n, k=k // 2, rate=rate, epsilon=epsilon) for n in range(1, 300)) > 2 * stated


def test_the_formula_of_li_et_al_is_the_largest_tail_from_its_first_size_on() -> None:
    k, rate, epsilon = 10, 0.2, 0.6
    gamma = (math.exp(epsilon) - 1 + rate) / math.exp(epsilon)
    sizes = range(math.ceil(k / gamma - 1), 400)
    tails = [sum(binomial(n, rate)[math.floor(gamma * n) + 1 :]) for n in sizes]

    assert sampling_delta(k=k, rate=rate, epsilon=epsilon) == pytest.approx(max(tails))


def test_sampling_at_a_huge_epsilon_leaves_the_probability_of_a_cell_of_k_records() -> None:
    assert sampling_delta(k=3, rate=0.5, epsilon=1000.0) == pytest.approx(0.125)


def test_below_the_least_epsilon_of_its_rate_sampling_is_refused() -> None:
    with pytest.raises(ParameterError, match="sample fewer records"):
        SampledRecoding(epsilon="0.1", rate="1/2", k=5)


def test_sampling_tells_a_replaced_row_by_two_steps() -> None:
    method = SampledRecoding(epsilon=1, rate="1/10", k=20)
    one, two = method.guarantee(), method.guarantee(neighbours="replace")

    assert (two.epsilon, two.delta) == (2, pytest.approx((1 + math.e) * one.delta))


def test_sampling_recodes_and_drops_small_cells() -> None:
    pairs = TableHierarchy(parents=(np.array([0, 0, 1, 1]),), names=(("v0", "v1", "v2", "v3"), ("low", "high")))
    four = schema_of(4)
    attribute = dataclasses.replace(four.attributes[0], hierarchy=pairs)
    schema = dataclasses.replace(four, attributes=(attribute,))
    counts = Counts.build(schema, np.arange(4)[:, None], np.array([4000, 4000, 30, 30]))
    out = SampledRecoding(epsilon=1, rate="1/2", k=100, levels={"a0": 1}).draw(counts, rng=SeededRng(1))

    assert out.schema.sizes == (2,)
    assert 3800 < out.dense()[0] < 4200
    assert out.dense()[1] == 0


def test_the_words_of_an_approximate_promise_tell_delta() -> None:
    promise = SampledRecoding(epsilon=1, rate="1/10", k=20).guarantee()

    assert "delta = 4.07e-14" in promise.describe().render("en")
