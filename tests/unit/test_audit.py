"""The parts of an audit: exact bounds on a share, every form of output, and one clear line for a wrong call."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.verify import audit, audit_outputs
from sudare.verify.audit import lower_share, upper_share


def binomial(runs: int, share: float) -> np.ndarray:
    return np.array([math.comb(runs, k) * share**k * (1 - share) ** (runs - k) for k in range(runs + 1)])


@pytest.mark.parametrize("runs", [1, 7, 40])
@pytest.mark.parametrize("doubt", [0.005, 0.05])
def test_a_bound_on_a_share_is_wrong_at_most_as_often_as_stated_for_every_share(runs: int, doubt: float) -> None:
    lows = np.array([lower_share(hits, runs, doubt=doubt) for hits in range(runs + 1)])
    highs = np.array([upper_share(hits, runs, doubt=doubt) for hits in range(runs + 1)])
    shares = np.linspace(0.001, 0.999, 333)

    wrong = [max(binomial(runs, p)[lows > p].sum(), binomial(runs, p)[highs < p].sum()) for p in shares]

    assert max(wrong) <= doubt * (1 + 1e-9)


def test_a_bound_at_half_the_stated_doubt_would_be_too_loose_to_be_the_best() -> None:
    runs, doubt = 40, 0.05
    lows = np.array([lower_share(hits, runs, doubt=doubt) for hits in range(runs + 1)])

    tightest = max(binomial(runs, p)[lows > p].sum() for p in lows[1:] - 1e-9)

    assert tightest > 0.99 * doubt


def coin(share: float, seed: int):  # type: ignore[no-untyped-def]
    return lambda runs: (np.random.default_rng(seed).random(runs) < share).astype(np.int64)


def test_one_mechanism_on_equal_tables_shows_nothing() -> None:
    found = audit(coin(0.5, 1), coin(0.5, 2), runs=10_000)

    assert found.epsilon_low == 0


@pytest.mark.parametrize("swap", [False, True])
def test_both_directions_of_the_ratio_are_looked_at(swap: bool) -> None:
    rare, common = coin(0.01, 1), coin(0.1, 2)

    found = audit(*((common, rare) if swap else (rare, common)), runs=50_000)

    assert 0.85 * math.log(10) < found.epsilon_low < math.log(10)


def test_a_mechanism_that_gives_the_table_away_is_bounded_only_by_the_number_of_runs() -> None:
    found = audit(lambda runs: np.zeros(runs, int), lambda runs: np.ones(runs, int), runs=20_000)

    assert found.epsilon_low > 7
    assert found.epsilon_seen == math.inf


def test_outputs_of_any_hashable_kind_are_grouped() -> None:
    as_text = [lambda runs, s=s: [("yes",) if hit else None for hit in coin(s, 1)(runs)] for s in (0.2, 0.6)]

    found = audit(*as_text, runs=20_000)

    assert 0.85 * math.log(3) < found.epsilon_low < math.log(3)


def test_columns_that_only_tell_together_are_seen() -> None:
    generator = np.random.default_rng(5)

    def correlated(runs: int) -> np.ndarray:  # both columns alike with probability 0.8, each a fair coin
        first = generator.integers(0, 2, runs)
        return np.column_stack([first, first ^ (generator.random(runs) < 0.2)])

    found = audit(correlated, lambda runs: generator.integers(0, 2, (runs, 2)), runs=40_000)

    assert 0.85 * math.log(2.5) < found.epsilon_low < math.log(2.5)


def test_a_telling_column_among_many_is_found() -> None:
    generator = np.random.default_rng(5)

    def noisy(share: float):  # type: ignore[no-untyped-def]
        def run(runs: int) -> np.ndarray:
            table = generator.integers(-1000, 1000, (runs, 20))
            table[:, 13] = generator.random(runs) < share
            return table

        return run

    found = audit(noisy(0.3), noisy(0.6), runs=20_000)

    assert 0.8 * math.log(2) < found.epsilon_low < math.log(2)
    assert "columns 13" in found.event


def test_an_audit_tells_whether_a_promise_is_refuted() -> None:
    found = audit(coin(0.2, 1), coin(0.6, 2), runs=20_000)

    assert (found.exceeds(0.9), found.exceeds(1.2)) == (True, False)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"runs": 10}, r"runs \(10\) must be at least 100"),
        ({"runs": 1000, "confidence": 1.0}, r"confidence \(1.0\) must be at least 0.5 and below 1"),
        ({"runs": 1000, "confidence": float("nan")}, "confidence"),
    ],
)
def test_a_wrong_parameter_is_named(wrong: dict[str, float], line: str) -> None:
    with pytest.raises(ParameterError, match=line):
        audit(coin(0.5, 1), coin(0.5, 2), **wrong)  # type: ignore[arg-type]


def test_a_run_function_that_loses_runs_is_refused() -> None:
    with pytest.raises(ParameterError, match="gave 99 outputs for 100 runs"):
        audit(lambda runs: np.zeros(runs - 1, int), coin(0.5, 1), runs=100)


def test_outputs_of_two_forms_are_refused() -> None:
    with pytest.raises(ParameterError, match="same form"):
        audit_outputs(np.zeros((100, 2)), np.zeros((100, 3)))
