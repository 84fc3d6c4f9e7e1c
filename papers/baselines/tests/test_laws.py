"""The baselines draw from the laws their promises are computed from, and not from those of an epsilon a fifth larger.

The exact promises are checked in tests/unit/test_baselines.py on written-out laws; here draws are held against the same
laws by the tests of fit of `sudare.noise.selfcheck` (false alarm 1e-9, seeds fixed). Each test says by its second
assert what it can detect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from papers.baselines import Baseline, Mwem, Pram, SynthLap, SynthMd, WassermanZhou
from papers.baselines.laws import dirichlet_multinomial_law, multinomial_law, pram_moves, tables
from papers.baselines.mwem import GRID, distances
from sudare.counts import Counts
from sudare.noise import SeededRng
from sudare.noise.exponential import exponential_law
from sudare.noise.geometric import geometric_probability
from sudare.noise.selfcheck import fit
from sudare.testing.subject import schema_of

RUNS = 20_000


def table_of(*values: int, sizes: tuple[int, ...] | None = None) -> Counts:
    schema = schema_of(*(sizes or (len(values),)))
    return Counts.build(schema, np.arange(len(values))[:, None], np.array(values))


def fits(counts: Mapping[tuple[int, ...], int], law: Mapping[tuple[int, ...], float]) -> bool:
    """Whether the outputs could come from the law; all outputs must be in it."""
    assert set(counts) <= set(law)

    outputs = list(law)
    return fit(np.array([counts.get(one, 0) for one in outputs]), np.array([law[one] for one in outputs])).is_good


def drawn(method: Baseline, counts: Counts, runs: int = RUNS) -> Counter[tuple[int, ...]]:
    rng = SeededRng(1)
    return Counter(tuple(method.draw(counts, rng=rng).dense().tolist()) for _ in range(runs))


@pytest.mark.parametrize("cell", [0, 5])
@pytest.mark.parametrize("reading", ["text", "print"])
def test_pram_moves_records_with_its_probabilities(cell: int, reading: str) -> None:
    """Two million records of one cell are two million independent draws of its row."""
    counts = table_of(*(2_000_000 * (place == cell) for place in range(6)), sizes=(3, 2))
    out = Pram(epsilon=2, reading=reading).draw(counts, rng=SeededRng(1)).dense()  # type: ignore[arg-type]
    moves, others = (
        np.array(pram_moves(Pram(epsilon=e, reading=reading), counts.schema)[cell], dtype=float)  # type: ignore[arg-type]
        for e in ("2", "2.02")
    )

    assert fit(out, moves).is_good
    assert not fit(out, others).is_good


def test_pram_does_the_same_to_every_record() -> None:
    """Means and variances of a mixed table: the sum of independent moves."""
    counts = table_of(30, 10, 0, 60, sizes=(2, 2))
    moves = np.array(pram_moves(Pram(epsilon=2), counts.schema), dtype=float)
    rng = SeededRng(2)
    outs = np.array([Pram(epsilon=2).draw(counts, rng=rng).dense() for _ in range(4000)])
    mean, variance = counts.dense() @ moves, counts.dense() @ (moves * (1 - moves))

    assert np.abs(outs.mean(axis=0) - mean).max() < 5 * np.sqrt(variance.max() / 4000)
    assert np.abs(outs.var(axis=0) / variance - 1).max() < 0.12


@pytest.mark.parametrize("reading", ["redraw", "redraw-sound"])
def test_smoothed_shares_of_a_large_table_are_sampled_as_told(reading: str) -> None:
    """One draw of two million records is as many draws of one; an epsilon 5 % larger is seen."""
    counts = table_of(1_500_000, 400_000, 100_000, 0)
    near, far = (SynthMd(epsilon=e, reading=reading) for e in ("1", "1.05"))  # type: ignore[arg-type]
    out = near.draw(counts, rng=SeededRng(1)).dense()

    assert fit(out, near.mean_shares(counts)).is_good
    assert not fit(out, far.mean_shares(counts)).is_good


SMALL: list[tuple[str, Callable[[float], Baseline], Callable[[float], Mapping[tuple[int, ...], float]]]] = [
    (
        "once",
        lambda e: SynthMd(epsilon=e),
        lambda e: dirichlet_multinomial_law(np.array([3, 1, 0]) + SynthMd(epsilon=e).alpha(4), 4),
    ),
    (
        "redraw",
        lambda e: SynthMd(epsilon=e, reading="redraw"),
        lambda e: multinomial_law(SynthMd(epsilon=e, reading="redraw").mean_shares(table_of(3, 1, 0)), 4),
    ),
    (
        "wasserman-zhou",
        lambda e: WassermanZhou(epsilon=e, records=4),
        lambda e: multinomial_law(WassermanZhou(epsilon=e, records=4).shares(table_of(3, 1, 0)), 4),
    ),
]


@pytest.mark.parametrize(("name", "method", "law"), SMALL, ids=[row[0] for row in SMALL])
def test_synthetic_tables_have_their_law_and_not_that_of_a_fifth_more_epsilon(
    name: str,
    method: Callable[[float], Baseline],
    law: Callable[[float], Mapping[tuple[int, ...], float]],
) -> None:
    outputs = drawn(method(2.5), table_of(3, 1, 0))

    assert fits(outputs, law(2.5))
    assert not fits(outputs, law(3.0))


def synth_lap_law(epsilon: float) -> dict[tuple[int, ...], float]:
    """Two cells that hold 3 and 0 records: noise within 60 of them, cut, sampled."""
    noise = [geometric_probability(z, 2 / epsilon) for z in range(-60, 61)]
    found = dict.fromkeys(tables(3, 2), 0.0)
    for first, p in enumerate(noise, start=3 - 60):
        for second, q in enumerate(noise, start=-60):
            weights = np.maximum([first, second], 0.0)
            shares = weights / weights.sum() if weights.sum() else np.array([0.5, 0.5])
            for out, share in multinomial_law(shares, 3).items():
                found[out] += p * q * share
    return found


def test_synth_lap_has_its_law_and_not_that_of_a_fifth_more_epsilon() -> None:
    outputs = drawn(SynthLap(epsilon=1), table_of(3, 0))

    assert fits(outputs, synth_lap_law(1.0))
    assert not fits(outputs, synth_lap_law(1.2))


def test_laplace_and_geometric_synth_lap_differ_little_at_small_epsilon() -> None:
    """Mean share of the first cell over 4,000 runs each: equal to within 0.03, four standard errors."""
    counts, means = table_of(30, 0), []
    for noise in ("geometric", "laplace"):
        outputs = drawn(SynthLap(epsilon="0.2", noise=noise), counts, 4000)  # type: ignore[arg-type]
        means.append(sum(out[0] * runs for out, runs in outputs.items()) / 4000 / 30)

    assert abs(means[0] - means[1]) < 0.03


def first_choice(epsilon: float) -> dict[tuple[int, ...], float]:
    """The chosen cell of one round of MWEM on (9, 2, 1), by law; (-1,) if the measurement hit the estimate."""
    method = Mwem(epsilon=epsilon, rounds=1)
    truth = np.array([9, 2, 1])
    choice = exponential_law(distances(np.full(3, 4.0), truth), epsilon=method.step_epsilon, sensitivity=GRID)
    stays = [geometric_probability(4 - int(value), 1 / method.step_epsilon) for value in truth]
    law = {(cell,): float(share) * (1 - stay) for cell, (share, stay) in enumerate(zip(choice, stays, strict=True))}
    return law | {(-1,): 1 - sum(law.values())}


def test_mwem_chooses_by_the_exponential_mechanism() -> None:
    """With three cells the two that were not chosen stay equal to each other."""
    counts, rng = table_of(9, 2, 1), SeededRng(3)
    method = Mwem(epsilon=2, rounds=1)
    learnt = np.round([method.learn(counts, rng=rng) for _ in range(10_000)], 9)
    odd = np.array([[one[(c + 1) % 3] == one[(c + 2) % 3] for c in range(3)] for one in learnt])
    chosen = np.where(odd.all(axis=1), -1, odd.argmax(axis=1))
    outputs = Counter((int(cell),) for cell in chosen)

    assert fits(outputs, first_choice(2.0))
    assert not fits(outputs, first_choice(2.4))
