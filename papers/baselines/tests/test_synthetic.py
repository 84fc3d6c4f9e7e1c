"""The baselines keep the epsilon they state, attained on tables small enough to list, and no smaller one."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import sudare
from papers import baselines
from papers.baselines import Baseline, Mwem, Pram, SampledRecoding, SynthLap, SynthMd, WassermanZhou
from papers.baselines.laws import (
    CellTuple,
    TableLaw,
    dirichlet_multinomial_law,
    largest_log_ratio,
    multinomial_law,
    neighbours,
    pram_law,
    tables,
)
from papers.baselines.mwem import GRID, Queries, distances
from sudare.counts import Counts
from sudare.errors import ParameterError, RelationMismatch, SchemaError
from sudare.noise import SeededRng
from sudare.noise.exponential import exponential_law
from sudare.noise.geometric import geometric_probability
from sudare.privacy import Guarantee
from sudare.schema import Impossible, Schema, Unit
from sudare.testing.subject import schema_of

EPSILONS = [Fraction(1, 10), Fraction(7, 10), Fraction(3)]
PAIR = schema_of(2, 2)
THREE = schema_of(3)
RECORDS = 3
NEARLY = 1e-9  # laws are written out in floats

ALL: list[Baseline] = [
    Pram(epsilon=1),
    SynthLap(epsilon=1),
    SynthMd(epsilon=1),
    SynthMd(epsilon=1, reading="redraw-sound"),
    WassermanZhou(epsilon=1),
    Mwem(epsilon=1),
    Mwem(epsilon=1, queries="two-way", sweeps=3, average=False),
]
NAMES = [f"{type(one).__name__} {getattr(one, 'reading', getattr(one, 'queries', ''))}".strip() for one in ALL]


def table_of(schema: Schema, table: CellTuple) -> Counts:
    return Counts.build(schema, np.arange(len(table))[:, None], np.array(table))


def md_law(method: SynthMd, *, alpha_times: float = 1.0) -> Callable[[CellTuple], TableLaw]:
    alpha = method.alpha(RECORDS) * alpha_times
    if method.reading == "once":
        return lambda table: dirichlet_multinomial_law(np.array(table) + alpha, sum(table))
    return lambda table: multinomial_law((np.array(table) + alpha) / (sum(table) + len(table) * alpha), sum(table))


# --- PRAM ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("shares", [None, (Fraction(1, 4), Fraction(3, 4))])
def test_pram_attains_its_epsilon_and_never_exceeds_it(epsilon: Fraction, shares: tuple[Fraction, ...] | None) -> None:
    method = Pram(epsilon=epsilon, shares=shares)

    found = largest_log_ratio(lambda table: pram_law(method, PAIR, table), records=2, cells=4)

    assert found == pytest.approx(float(epsilon), abs=NEARLY)
    assert method.real_epsilon(PAIR) <= float(epsilon) + 1e-14


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pram_with_twice_the_epsilon_breaks_the_single_one(epsilon: Fraction) -> None:
    method = Pram(epsilon=2 * epsilon)

    found = largest_log_ratio(lambda table: pram_law(method, PAIR, table), records=2, cells=4)

    assert found > 1.9 * float(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_printed_pram_has_the_epsilon_it_tells_and_not_the_one_it_is_named_after(epsilon: Fraction) -> None:
    method = Pram(epsilon=epsilon, reading="print")

    found = largest_log_ratio(lambda table: pram_law(method, PAIR, table), records=2, cells=4)

    assert found == pytest.approx(method.real_epsilon(PAIR), abs=NEARLY)
    assert found > 1.01 * float(epsilon)


@pytest.mark.parametrize(("items", "real"), [(100, 16.22), (1000, 11.87), (10_000, 8.81)])
def test_the_papers_pram_figures_at_epsilon_10_have_another_epsilon(items: int, real: float) -> None:
    found = Pram(epsilon=10, reading="print").real_epsilon(schema_of(items, 2, 5))

    assert found == pytest.approx(real, abs=0.01)


def test_pram_shares_must_fit_the_attributes() -> None:
    with pytest.raises(ParameterError, match="one per attribute"):
        Pram(epsilon=1, shares=(Fraction(1),)).retention(PAIR)
    with pytest.raises(ParameterError, match="add up to 1"):
        Pram(epsilon=1, shares=(Fraction(1, 2), Fraction(1, 3)))


def test_pram_needs_no_dense_table() -> None:
    huge = schema_of(*[1000] * 7)
    counts = Counts.from_columns(huge, [[1] * 7, [2] * 7], [5, 6])

    assert Pram(epsilon=700).draw(counts, rng=SeededRng(1)) == counts


# --- Synth-MD and Wasserman-Zhou ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", ["once", "redraw", "redraw-sound"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_synth_md_attains_exactly_the_epsilon_it_tells(reading: str, epsilon: Fraction) -> None:
    method = SynthMd(epsilon=epsilon, reading=reading)  # type: ignore[arg-type]

    found = largest_log_ratio(md_law(method), records=RECORDS, cells=3)

    assert found == pytest.approx(method.real_epsilon(RECORDS), abs=NEARLY)


@pytest.mark.parametrize("reading", ["once", "redraw-sound"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_synth_md_keeps_epsilon_with_its_alpha_and_breaks_it_with_half(reading: str, epsilon: Fraction) -> None:
    method = SynthMd(epsilon=epsilon, reading=reading)  # type: ignore[arg-type]

    kept = largest_log_ratio(md_law(method), records=RECORDS, cells=3)
    broken = largest_log_ratio(md_law(method, alpha_times=0.5), records=RECORDS, cells=3)

    assert kept == pytest.approx(float(epsilon), abs=NEARLY)
    assert broken > 1.1 * float(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_redrawing_for_every_record_breaks_the_stated_epsilon(epsilon: Fraction) -> None:
    method = SynthMd(epsilon=epsilon, reading="redraw")

    found = largest_log_ratio(md_law(method), records=RECORDS, cells=3)

    assert found > 1.03 * float(epsilon)


@pytest.mark.parametrize(("epsilon", "real"), [("0.1", 0.10517), ("10", 11_639.5), ("100", 907_896.6)])
def test_what_the_papers_synth_md_keeps_at_its_three_kinds_of_epsilon(epsilon: str, real: float) -> None:
    found = SynthMd(epsilon=epsilon, reading="redraw").real_epsilon(10_000)

    assert found == pytest.approx(real, rel=1e-4)


def test_a_reading_without_a_promise_refuses_to_tell_one() -> None:
    for method in (SynthMd(epsilon=1, reading="redraw"), Pram(epsilon=1, reading="print")):
        with pytest.raises(ParameterError, match="real_epsilon"):
            method.guarantee()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sample", [None, 2, 5])
def test_wasserman_zhou_attains_its_epsilon_and_breaks_it_with_twice(epsilon: Fraction, sample: int | None) -> None:
    def found(method: WassermanZhou) -> float:
        return largest_log_ratio(
            lambda table: multinomial_law(method.shares(table_of(THREE, table)), sample or RECORDS),
            records=RECORDS,
            cells=3,
        )

    assert found(WassermanZhou(epsilon=epsilon, records=sample)) == pytest.approx(float(epsilon), abs=NEARLY)
    assert found(WassermanZhou(epsilon=2 * epsilon, records=sample)) > 1.9 * float(epsilon)


def test_the_printed_smoothing_does_not_follow_from_equation_13_and_the_mended_one_does() -> None:
    n, p, k, d = 100, 100, 100, WassermanZhou(epsilon="0.1").weight(cells=100, total=100)
    mended = k * math.log(((1 - d) / n + d / p) / (d / p))
    printed = k * math.log(((1 - d) / n + d) / d)

    assert mended == pytest.approx(0.1)
    assert printed == pytest.approx(0.001, rel=0.01)


def test_wasserman_zhou_is_the_sound_redraw() -> None:
    counts = table_of(THREE, (4, 0, 2))

    assert np.allclose(
        WassermanZhou(epsilon=2).shares(counts), SynthMd(epsilon=2, reading="redraw-sound").mean_shares(counts)
    )


# --- Synth-Lap and MWEM -------------------------------------------------------------------------------------------


def test_synth_lap_stays_within_epsilon() -> None:
    """The noise attains epsilon (proofs/geometric.md); cut and sampled, a little less is left."""
    epsilon, reach = 2.0, 25
    noise = [geometric_probability(z, 2 / epsilon) for z in range(-reach, reach + 1)]

    def law(table: CellTuple) -> TableLaw:
        found = dict.fromkeys(tables(2, 2), 0.0)
        for first, p in enumerate(noise):
            for second, q in enumerate(noise):
                weights = [max(table[0] + first - reach, 0), max(table[1] + second - reach, 0)]
                shares = [w / sum(weights) for w in weights] if sum(weights) else [0.5, 0.5]
                for out, share in multinomial_law(shares, 2).items():
                    found[out] += p * q * share
        return found

    assert 0.5 < largest_log_ratio(law, records=2, cells=2) <= epsilon + 1e-6


def mwem_law(method: Mwem, table: CellTuple) -> TableLaw:
    """One round, as choice and measurement: which query, and what was measured within 40 of the truth."""
    truth = np.array(table)
    even = np.full(len(table), sum(table) / len(table))
    scores = distances(even, truth)
    choice = exponential_law(scores, epsilon=method.step_epsilon, sensitivity=GRID)
    return {
        (query, m): float(share) * geometric_probability(m - table[query], 1 / method.step_epsilon)
        for query, share in enumerate(choice)
        for m in range(-40, 41)
    }


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_round_of_mwem_stays_within_epsilon_and_breaks_it_with_twice(epsilon: Fraction) -> None:
    def found(method: Mwem) -> float:
        return largest_log_ratio(lambda table: mwem_law(method, table), records=6, cells=3)

    assert found(Mwem(epsilon=epsilon, rounds=1)) <= float(epsilon) + NEARLY
    assert found(Mwem(epsilon=2 * epsilon, rounds=1)) > float(epsilon)


def test_scores_of_mwem_change_by_at_most_one_record() -> None:
    even = np.full(4, 5 / 4)
    changes = [
        np.abs(distances(even, np.array(one)) - distances(even, np.array(other))).max()
        for one in tables(5, 4)
        for other in neighbours(one)
    ]

    assert max(changes) == GRID


def test_mwem_asks_the_cells_of_the_marginal_tables() -> None:
    counts = table_of(schema_of(2, 3), (1, 2, 3, 4, 5, 6))
    dense = counts.dense().astype(float)
    for kind, size in (("cells", 6), ("one-way", 5), ("two-way", 6)):
        asked = Queries(counts.schema, kind)
        answers = asked.answers(dense)

        assert answers.size == size
        assert [dense[asked.cells(query)].sum() for query in range(size)] == answers.tolist()


def test_mwem_with_a_huge_epsilon_learns_the_marginal_tables() -> None:
    counts = table_of(schema_of(4, 3), tuple(range(12)))
    method = Mwem(epsilon=1000, rounds=30, queries="one-way", sweeps=50, average=False)
    learnt = method.learn(counts, rng=SeededRng(1)).reshape(4, 3)
    truth = counts.dense().reshape(4, 3)

    assert np.abs(learnt.sum(axis=0) - truth.sum(axis=0)).max() < 0.5
    assert np.abs(learnt.sum(axis=1) - truth.sum(axis=1)).max() < 0.5


# --- what all of them keep ----------------------------------------------------------------------------------------


def test_no_baseline_can_publish_and_none_is_a_public_name() -> None:
    classes = [getattr(baselines, name) for name in baselines.__all__]

    assert not [one for one in classes if hasattr(one, "publish")]
    assert not set(baselines.__all__) & set(dir(sudare))


@pytest.mark.parametrize("method", ALL, ids=NAMES)
def test_the_promise_is_for_one_replaced_row_and_no_other(method: Baseline) -> None:
    promise = method.guarantee()

    assert isinstance(promise, Guarantee)
    assert (promise.epsilon, promise.neighbours) == (1, "replace")
    with pytest.raises(RelationMismatch):
        method.guarantee(neighbours="add-remove")
    with pytest.raises(ParameterError, match="max_rows"):
        method.guarantee(unit=Unit(kind="person", column="id", max_rows=2))


@pytest.mark.parametrize("method", ALL, ids=NAMES)
def test_the_same_seed_draws_the_same_table_of_as_many_records(method: Baseline) -> None:
    counts = table_of(schema_of(4, 3), (9, 0, 0, 5, 1, 0, 0, 0, 30, 2, 0, 3))
    first, second = (method.draw(counts, rng=SeededRng(5)) for _ in range(2))

    assert first == second
    assert first.total == counts.total


@pytest.mark.parametrize("method", ALL, ids=NAMES)
@pytest.mark.parametrize("epsilon", ["1/1000000", 1000])
@pytest.mark.parametrize("table", [(0, 0), (7, 0), (3,)])
def test_the_ends_of_every_range_are_drawn_without_a_warning(
    method: Baseline, epsilon: object, table: CellTuple
) -> None:
    extreme = dataclasses.replace(method, epsilon=epsilon)  # type: ignore[type-var]
    counts = table_of(schema_of(len(table)), table)

    assert extreme.draw(counts, rng=SeededRng(1)).total == sum(table)


@pytest.mark.parametrize("method", ALL, ids=NAMES)
def test_what_would_be_ignored_is_refused(method: Baseline) -> None:
    never = dataclasses.replace(PAIR, impossible=(Impossible(values={"a0": frozenset({0}), "a1": frozenset({1})}),))
    people = dataclasses.replace(PAIR, unit=Unit(kind="person", column="id", max_rows=2))

    with pytest.raises(SchemaError):
        method.draw(table_of(never, (1, 0, 2, 3)), rng=SeededRng(1))
    with pytest.raises(ParameterError):
        method.draw(table_of(people, (1, 0, 2, 3)), rng=SeededRng(1))
    with pytest.raises(RelationMismatch):
        method.draw(table_of(PAIR, (1, 0, 2, 3)), neighbours="add-remove", rng=SeededRng(1))


BAD = [
    (Pram, {"epsilon": 0}),
    (Pram, {"epsilon": 1, "reading": "both"}),
    (SynthLap, {"epsilon": 1, "noise": "normal"}),
    (SynthMd, {"epsilon": 1, "reading": "twice"}),
    (WassermanZhou, {"epsilon": 1, "records": 0}),
    (Mwem, {"epsilon": 1, "rounds": 0}),
    (Mwem, {"epsilon": 1, "sweeps": 0}),
    (Mwem, {"epsilon": 1, "queries": "three-way"}),
    (SampledRecoding, {"epsilon": 1, "rate": 1, "k": 5}),
    (SampledRecoding, {"epsilon": 1, "rate": "1/2", "k": 0}),
]


@pytest.mark.parametrize(("kind", "parameters"), BAD)
def test_bad_parameters_are_refused(kind: Callable[..., object], parameters: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        kind(**parameters)


def test_every_docstring_tells_law_guarantee_error_and_source() -> None:
    for kind in {type(method) for method in ALL} | {SampledRecoding}:
        text = inspect.getdoc(kind) or ""

        assert all(word in text for word in ("Guarantee:", "Error:", "Source:"))
