"""Identity, PrivTree over boxes and DAWA: what each promises, and that its tables are near the truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from papers.baselines import Dawa, Identity, PrivBayes, PrivTreeBoxes, Workload
from papers.baselines.dawa import cheapest, deviations, hilbert_order
from sudare.compare.distances import TrueTable, random_ranges, rmse_of_marginals, rmse_of_prefixes, rmse_of_ranges
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng, SeededRng
from sudare.schema import Unit
from sudare.testing.subject import schema_of
from sudare.verify import Audit, audit

RELATION = {"neighbours": "add-remove"}


def clumps(*sizes: int, records: int = 3000) -> Counts:
    """Most records in one corner, the rest spread."""
    rng = np.random.default_rng(1)
    columns = [(size * rng.beta(1, 4, records)).astype(int) for size in sizes]
    return Counts.from_columns(schema_of(*sizes), np.column_stack(columns))


@pytest.mark.parametrize(("kind", "ways"), [("marginals", 2), ("marginals", 1), ("prefixes", 2), ("ranges", 2)])
def test_the_expected_error_of_identity_is_the_one_that_is_seen(kind: str, ways: int) -> None:
    counts = clumps(9, 4, 5)
    truth, schema = TrueTable(counts), counts.schema
    lows, highs = random_ranges(schema, 2, queries=500, rng=SeededRng(2))
    squares = []
    for seed in range(30):
        view = Identity(epsilon=1).table(counts, neighbours="add-remove", rng=SeededRng(seed))
        if kind == "marginals":
            squares.append(rmse_of_marginals(truth, view, schema, ways).value ** 2)
        elif kind == "prefixes":
            squares.append(rmse_of_prefixes(truth, view, schema).value ** 2)
        else:
            squares.append(rmse_of_ranges(truth.ranges(lows, highs), view, lows, highs).value ** 2)
    workload = Workload.of(schema, kind, ways)  # type: ignore[arg-type]
    expected = Identity(epsilon=1).expected_rmse(workload, neighbours="add-remove")

    assert math.sqrt(np.mean(squares)) == pytest.approx(expected, rel=0.12)
    assert math.sqrt(np.mean(squares)) != pytest.approx(2 * expected, rel=0.12)


def test_identity_tells_its_error_on_domains_that_it_cannot_draw() -> None:
    counts = Counts.from_columns(schema_of(*[100] * 10), [[0] * 10])

    assert Identity(epsilon=1).expected_rmse(Workload.of(counts.schema, "marginals", 2)) > 1e8
    with pytest.raises(ParameterError, match="at most"):
        Identity(epsilon=1).table(counts, rng=SeededRng(1))


def test_a_cell_table_answers_in_the_order_of_the_names() -> None:
    counts = clumps(4, 3, 5)
    view = Identity(epsilon=1000).table(counts, rng=SeededRng(1))
    truth = TrueTable(counts)
    lows, highs = random_ranges(counts.schema, 3, queries=50, rng=SeededRng(3))

    assert np.array_equal(view.marginal(["a2", "a0"]), truth.marginal(["a2", "a0"]))
    assert np.array_equal(view.ranges(lows, highs), truth.ranges(lows, highs))


def test_boxes_tile_the_domain_and_open_where_people_are() -> None:
    counts = clumps(16, 10, 7, 3)
    boxes = PrivTreeBoxes(epsilon=1).boxes(counts, neighbours="add-remove", rng=SeededRng(1))
    covered = np.zeros(counts.schema.sizes, dtype=int)
    for low, high in zip(boxes.lows, boxes.highs, strict=True):
        covered[tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))] += 1
    volumes = np.prod(boxes.highs - boxes.lows + 1, axis=1)

    assert (covered == 1).all()
    assert boxes.counts.sum() == pytest.approx(3000, abs=300)
    assert volumes[np.argsort(boxes.counts)[-20:]].mean() < volumes.mean()


def test_counts_of_boxes_are_those_of_the_table_when_noise_is_negligible() -> None:
    counts = clumps(8, 5, 6)
    boxes = PrivTreeBoxes(epsilon=1000).boxes(counts, rng=SeededRng(1))
    inside = [
        int(((counts.columns() >= low) & (counts.columns() <= high)).all(axis=1) @ counts.values)
        for low, high in zip(boxes.lows, boxes.highs, strict=True)
    ]

    assert boxes.counts.tolist() == inside


def test_attributes_take_turns_and_one_of_a_single_value_is_passed_over() -> None:
    counts = Counts.from_columns(schema_of(8, 1, 2), [[0, 0, 0]] * 40)
    boxes = PrivTreeBoxes(epsilon=1).boxes(counts, neighbours="add-remove", rng=SeededRng(4))

    assert set(map(tuple, (boxes.highs - boxes.lows + 1).tolist())) <= {
        (4, 1, 2),
        (4, 1, 1),
        (2, 1, 1),
        (1, 1, 1),
        (8, 1, 2),
    }
    assert (boxes.highs[:, 1] == 0).all()


def test_many_attributes_are_no_trouble_for_boxes_and_their_spread_is_refused() -> None:
    rows = np.random.default_rng(1).integers(0, 50, (500, 20))
    counts = Counts.from_columns(schema_of(*[50] * 20), rows)
    method = PrivTreeBoxes(epsilon=1)

    assert len(method.boxes(counts, rng=SeededRng(1)).lows) < 500
    with pytest.raises(ParameterError, match="at most"):
        method.draw(counts, rng=SeededRng(1))


def test_an_empty_table_opens_few_boxes() -> None:
    """The chance of opening an empty box is 1/4, of two children each: the tree dies out."""
    empty = Counts.build(schema_of(100, 100, 100), np.empty((0, 1)), [])
    leaves = [len(PrivTreeBoxes(epsilon=1).boxes(empty, rng=SeededRng(seed)).lows) for seed in range(200)]

    assert 1.2 < np.mean(leaves) < 2.4


@pytest.mark.parametrize("length", [1, 2, 4, 16, 64])
def test_deviations_of_intervals_are_those_of_the_definition(length: int) -> None:
    values = np.random.default_rng(length).poisson(np.repeat([0.05, 3, 40, 0.5], 40))
    windows = [values[start : start + length] for start in range(len(values) - length + 1)]

    assert deviations(values, length).tolist() == [int(np.abs(length * x - x.sum()).sum()) for x in windows]


@pytest.mark.parametrize("length", [2, 4, 8])
def test_one_record_moves_a_deviation_by_less_than_two(length: int) -> None:
    rng = np.random.default_rng(length)
    worst = 0.0
    for _ in range(300):
        values = rng.integers(0, 4, length)
        more = values + (np.arange(length) == rng.integers(length))
        worst = max(worst, abs(int(deviations(values, length)[0] - deviations(more, length)[0])) / length)

    assert worst <= 2 * (1 - 1 / length)
    assert worst > 1.2 * (1 - 1 / length)


def test_the_cheapest_partition_is_the_best_of_all() -> None:
    rng = np.random.default_rng(7)
    for places in (1, 5, 8):
        costs = [
            rng.integers(0, 30, places - (1 << k) + 1).tolist() for k in range(places.bit_length()) if 1 << k <= places
        ]
        best = min(_price(costs, one) for one in _partitions(places))
        starts = cheapest(costs, places).tolist()

        assert _price(costs, list(zip(starts, [*starts[1:], places], strict=True))) == best


def _partitions(places: int, start: int = 0) -> list[list[tuple[int, int]]]:
    if start == places:
        return [[]]
    ends = [start + (1 << k) for k in range(4) if start + (1 << k) <= places]
    return [[(start, end), *rest] for end in ends for rest in _partitions(places, end)]


def _price(costs: list[list[int]], parts: list[tuple[int, int]]) -> int:
    return sum(costs[(end - start).bit_length() - 1][start] for start, end in parts)


def test_the_partition_of_the_sound_reading_keeps_its_epsilon_and_that_of_the_published_program_does_not() -> None:
    """Four cells, all tables of at most two records, one record more; the law of the partition by listing or by draws.

    All buckets of one cell: the program needs every longer interval to be dear, and the changed cell lies in three.
    """
    epsilon = Fraction(1, 2)
    before, after = np.zeros(4, dtype=np.int64), np.array([0, 1, 0, 0])
    least = float(Dawa(epsilon=epsilon, reading="code").count_scale("add-remove"))
    program = [_all_single(values, epsilon, least) for values in (before, after)]
    share = float(epsilon) / 4

    assert math.log(program[1] / program[0]) > 2.5 * share
    assert _worst_loss(before, after, epsilon) <= share + 0.1


def _all_single(values: np.ndarray, epsilon: Fraction, least: float) -> float:
    """P[every longer interval costs more than its single cells], the intervals being independent."""
    chance = 1.0
    for length in (2, 4):
        scale = (2 - 1 / length - 1 / 4) / (float(epsilon) / 4)
        for cost in deviations(values, length) / length:
            gap = (length - 1) * least - cost
            chance *= math.exp(-gap / scale) / 2 if gap > 0 else 1 - math.exp(gap / scale) / 2
    return chance


def _worst_loss(before: np.ndarray, after: np.ndarray, epsilon: Fraction, draws: int = 3000) -> float:
    """The largest log ratio of the frequencies of partitions that are seen often."""
    seen: list[dict[tuple[int, ...], int]] = []
    for values in (before, after):
        rng, tally = SeededRng(9), {}
        for _ in range(draws):
            key = tuple(Dawa(epsilon=epsilon).partition(values, neighbours="add-remove", rng=rng).tolist())
            tally[key] = tally.get(key, 0) + 1
        seen.append(tally)
    often = [key for key in seen[0] if seen[0][key] > 300]
    return max(abs(math.log(seen[0][key] / seen[1].get(key, 1))) for key in often)


def test_buckets_of_dawa_follow_steps_and_the_published_program_refuses_to_promise() -> None:
    values = np.repeat([0, 900, 0, 500], 64)
    counts = Counts.build(schema_of(256), np.arange(256)[:, None], values)
    estimate = Dawa(epsilon=1).table(counts, neighbours="add-remove", rng=SeededRng(1)).cells
    fewer = Dawa(epsilon=1, reading="code").partition(values, neighbours="add-remove", rng=SeededRng(1))

    assert np.abs(estimate - values).mean() < 2
    assert len(fewer) < len(Dawa(epsilon=1).partition(values, neighbours="add-remove", rng=SeededRng(1)))
    with pytest.raises(ParameterError, match="does not keep epsilon"):
        Dawa(epsilon=1, reading="code").guarantee()


def test_a_hilbert_curve_steps_from_neighbour_to_neighbour_through_every_cell() -> None:
    order = hilbert_order(16, 16)
    rows, columns = np.divmod(order, 16)

    assert sorted(order.tolist()) == list(range(256))
    assert (np.abs(np.diff(rows)) + np.abs(np.diff(columns)) == 1).all()
    assert sorted(hilbert_order(5, 11).tolist()) == list(range(55))


def test_two_attributes_are_laid_along_a_curve_and_other_tables_are_refused() -> None:
    counts = clumps(12, 9)
    out = Dawa(epsilon=50, order="hilbert").draw(counts, rng=SeededRng(1))

    assert np.abs(out.dense() - counts.dense()).max() < 25
    with pytest.raises(ParameterError, match="two attributes"):
        Dawa(epsilon=1, order="hilbert").draw(clumps(3, 3, 3), rng=SeededRng(1))
    with pytest.raises(ParameterError, match="at most"):
        Dawa(epsilon=1).draw(Counts.from_columns(schema_of(2000, 2000), [[0, 0]]), rng=SeededRng(1))
    with pytest.raises(ParameterError, match="share"):
        Dawa(epsilon=1, share=1)


@pytest.mark.parametrize("method", [Identity(epsilon=1), PrivTreeBoxes(epsilon=1), Dawa(epsilon=1)])
def test_baselines_of_views_promise_for_rows_of_either_relation_and_refuse_persons(method: Identity) -> None:
    persons = Counts.from_columns(schema_of(4, 4, unit=Unit(kind="person", column="id", max_rows=3)), [[0, 0]])

    assert method.guarantee(neighbours="add-remove").epsilon == 1
    assert method.guarantee().neighbours == "replace"
    with pytest.raises(ParameterError, match="max_rows"):
        method.draw(persons, rng=SeededRng(1))


def test_noise_of_replaced_records_is_twice_that_of_added_ones() -> None:
    pairs = [
        (Dawa(epsilon=1).cost_scale, 2),
        (Dawa(epsilon=1).count_scale, 2),
        (PrivTreeBoxes(epsilon=1).tree_scale, 2),
    ]

    assert all(scale("replace") == factor * scale("add-remove") for scale, factor in pairs)
    assert list(itertools.islice((PrivTreeBoxes(epsilon=1).fall(one) for one in ("add-remove", "replace")), 2)) == [
        5,
        9,
    ]


PUBLISHED: dict[str, Callable[[int, Counts, Rng], np.ndarray]] = {
    "identity": lambda epsilon, counts, rng: Identity(epsilon=epsilon).draw(counts, **RELATION, rng=rng).dense(),
    "boxes": lambda epsilon, counts, rng: PrivTreeBoxes(epsilon=epsilon).draw(counts, **RELATION, rng=rng).dense(),
    "dawa": lambda epsilon, counts, rng: Dawa(epsilon=epsilon).draw(counts, **RELATION, rng=rng).dense(),
    # the table of its one node: the records sampled from it hide most of its noise
    "privbayes": lambda epsilon, counts, rng: (
        PrivBayes(epsilon=epsilon).network(counts, **RELATION, rng=rng)[1][0].table[0].astype(np.int64)
    ),
}


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_an_audit_stays_within_epsilon_and_sees_a_quarter_of_the_noise(name: str) -> None:
    """One attribute of two values, one record more: half of epsilon and more is spent on its counts by every method."""
    kept, weak = (_audit(name, epsilon) for epsilon in (1, 4))

    assert not kept.exceeds(1.0)
    assert weak.exceeds(1.0)


def _audit(name: str, epsilon: int) -> Audit:
    def runs_of(values: list[int], seed: int) -> Callable[[int], np.ndarray]:
        counts = Counts.build(schema_of(2), [[0], [1]], values)
        rng = SeededRng(seed)

        def run(runs: int) -> np.ndarray:
            outs = (PUBLISHED[name](epsilon, counts, rng) for _ in range(runs))
            return np.array([[*out.tolist(), int(out.sum())] for out in outs])

        return run

    return audit(runs_of([31, 30], 1), runs_of([30, 30], 2), runs=1500, confidence=0.999)
