"""Leaves, what lies inside them, the exam, and pairs beyond the tree."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from sudare.compare.distances import random_ranges
from sudare.counts import Counts
from sudare.errors import SchemaError
from sudare.methods.view import View, open_view
from sudare.methods.view import residual as residual_module
from sudare.methods.view.budget import by_size
from sudare.methods.view.exam import WEIGHT, ClassSteps, Ladder, class_of, judge
from sudare.methods.view.grow import plan_cells
from sudare.methods.view.leaves import cut_schema, declared_axis
from sudare.methods.view.residual import WeightedRecords, does_pay, rake
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema, Values
from sudare.testing import Tabled
from sudare.testing.subject import schema_of
from sudare.verify.neighbours import TablePair
from sudare.verify.replay import replay_pair

AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), grain=Fraction(1))


def spread_table(rows: int = 20_000, attributes: int = 5, values: int = 4) -> Counts:
    """Every attribute follows one hidden number, so that all pairs depend on each other."""
    generator = np.random.default_rng(3)
    hidden = generator.normal(size=rows)
    columns = [
        np.clip(np.floor(hidden + generator.normal(size=rows) + values / 2), 0, values - 1).astype(np.int64)
        for _ in range(attributes)
    ]
    return Counts.from_columns(schema_of(*[values] * attributes), np.column_stack(columns))


class FineSource:
    """Ages one by one and a group, counted as coarse or as fine as is asked."""

    def __init__(self, ages: np.ndarray, groups: np.ndarray) -> None:
        self.schema = Schema(name="people", attributes=(AGE, Attribute(name="group", domain=Values(("a", "b")))))
        self.ages, self.groups = ages, groups

    def count(self, by: object = None) -> Counts:
        columns = np.column_stack([np.minimum(self.ages // 10, 9), self.groups])
        return Counts.from_columns(self.schema, columns)

    def count_over(self, schema: Schema) -> Counts:
        return Counts.from_columns(schema, np.column_stack([np.minimum(self.ages, 99), self.groups]))


# --- leaves -----------------------------------------------------------------------------------------------------------


def test_a_count_that_cuts_a_leaf_may_have_all_of_it_on_one_side() -> None:
    weights = declared_axis(AGE).weigh([(Fraction(20), Fraction(35), 1.0, 0.0, 0.0)])

    assert weights.mean[2:5].tolist() == [1.0, 0.5, 0.0]
    assert weights.inside[2:5].tolist() == [0.0, pytest.approx(0.34), 0.0]


def test_a_sum_knows_the_numbers_of_a_leaf_up_to_its_width() -> None:
    weights = declared_axis(AGE).weigh([(None, None, 0.0, 1.0, 0.0)])

    assert weights.mean[2] == pytest.approx(24.5)
    assert weights.inside[2] == pytest.approx((10**2 - 1) / 12)


def test_numbers_only_supposed_to_be_whole_may_all_lie_between() -> None:
    supposed = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10))
    weights = declared_axis(supposed).weigh([(None, None, 0.0, 1.0, 0.0)])

    assert declared_axis(AGE).weigh([(None, None, 0.0, 1.0, 0.0)]).drift.max() == 0 < weights.drift.min()


def test_a_schema_is_cut_to_its_grain_and_categories_stay() -> None:
    schema = Schema(name="x", attributes=(AGE, Attribute(name="sex", domain=Values(("f", "m")))))
    finer = cut_schema(schema)

    assert finer is not None
    assert finer.sizes == (100, 2)
    assert cut_schema(schema.select(["sex"])) is None


def test_few_records_are_measured_by_declared_bins_and_many_by_the_grain() -> None:
    schema = Schema(name="x", attributes=(AGE,))
    finer = cut_schema(schema)
    assert finer is not None
    few, many = (plan_cells(schema, finer, signal=signal)[0] for signal in (10.0, 1e5))

    assert (few.size, many.size) == (10, 100)


@pytest.mark.parametrize("grain", ["-0.5", "-1", "x"])
def test_a_grain_must_be_a_number_of_0_or_more(grain: str) -> None:
    with pytest.raises(SchemaError, match="grain"):
        Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), grain=grain)  # type: ignore[arg-type]


def test_ranges_that_end_inside_a_bin_hold_the_truth_and_declared_bins_alone_are_far_off() -> None:
    """Nine of ten ages are 40: half of [40, 50) is not its lower half. A view of declared bins says so by its width."""
    generator = np.random.default_rng(1)
    ages = np.where(generator.random(20_000) < 0.9, 40, generator.integers(0, 100, 20_000))
    source = FineSource(ages, generator.integers(0, 2, 20_000))
    fine = open_view(View(epsilon=1).publish(source, rng=SeededRng(1))).count(age=(40, 44))
    coarse = open_view(View(epsilon=1).publish(Tabled(source.count()), rng=SeededRng(1))).count(age=(40, 44))
    true = int(((ages >= 40) & (ages <= 44)).sum())

    assert fine.low <= true <= fine.high
    assert fine.high - fine.low < 1_000
    assert coarse.low <= true <= coarse.high
    assert abs(coarse.value - true) > 5_000


def test_a_view_with_leaves_is_read_back_from_its_files(tmp_path: object) -> None:
    generator = np.random.default_rng(1)
    source = FineSource(generator.integers(0, 100, 5_000), generator.integers(0, 2, 5_000))
    release = View(epsilon=1).publish(source, rng=SeededRng(1))
    release.save(f"{tmp_path}/view", even_if_not_private=True)
    first, second = open_view(release), open_view(f"{tmp_path}/view")

    assert first.count(age=(13, 57)).to_dict() == pytest.approx(second.count(age=(13, 57)).to_dict())
    assert first.stored.axes[0].size == 100


# --- the exam ---------------------------------------------------------------------------------------------------------


def test_an_error_that_grows_by_1_climbs_between_two_rungs_by_at_most_the_weight() -> None:
    ladder = Ladder.of(np.array([0.0, 0.7, 5.0, 40.0, 1e6]))
    for error in range(400):
        now, more = (ladder.climb(np.full(5, one)) for one in (error, error + 1))
        moved = more - now

        assert np.all(moved >= 0)
        assert np.all(moved.sum(axis=1) <= WEIGHT)


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_the_exam_finds_how_wide_intervals_must_be(scale: float) -> None:
    """Errors of a normal law, `scale` times as wide as supposed: 4 % of them lie beyond 1.05 of 1.96 deviations."""
    errors = np.random.default_rng(1).normal(size=1000) * scale * 500
    ladder = Ladder.of(np.full(1000, 1.96 * 500))
    steps = ladder.climb(np.abs(errors).astype(np.int64)).sum(axis=0).astype(float)

    sure = judge([ClassSteps(steps, ladder.tops.sum(axis=0), 300)], 1.0, blind=False)
    noisy = judge([ClassSteps(steps, ladder.tops.sum(axis=0), 300)], 1e12, blind=False)

    assert sure == pytest.approx(1.05 * scale, rel=0.15)
    assert noisy == pytest.approx(judge([], 1.0, blind=False), rel=0.02)


def test_a_question_about_a_pair_that_was_not_measured_has_the_scale_of_its_class() -> None:
    known = frozenset({(0, 1), (0, 2), (1, 2)})

    assert [class_of(places, known) for places in ([], [3], [0, 2], [2, 1, 0], [0, 3], [0, 1, 3])] == [0, 0, 1, 1, 2, 2]
    assert class_of([0, 3], known, is_sum=True) == 3


# --- pairs beyond the tree --------------------------------------------------------------------------------------------


def test_raking_brings_records_to_the_tables() -> None:
    cells = np.array([0, 0, 1, 1])
    weights = rake(np.full(4, 1.0), [(cells, np.array([3.0, 1.0]))], 4.0, sweeps=30)

    assert np.bincount(cells, weights).tolist() == pytest.approx([3.0, 1.0], abs=1e-3)


def test_changes_of_weights_add_to_any_count() -> None:
    bins = np.array([[0, 0, 1], [1, 0, 1], [1, 1, 0]])
    records = WeightedRecords(bins=bins, weights=np.ones(3), changes=np.array([[1.0, 2.0, 4.0]]), widths=(2, 2, 2))
    evidence = {0: np.array([[0.0, 1.0]]), 2: np.array([[0.5, 1.0]])}

    assert records.answer(evidence).tolist() == [2.0 + 0.5 * 4.0]


def test_a_few_strong_pairs_do_not_make_all_of_them_pay() -> None:
    assert not does_pay(2.6, pairs=21, extras=7)
    assert does_pay(3.6, pairs=21, extras=7)


def test_pairs_beyond_the_tree_make_a_dense_table_better() -> None:
    table = spread_table(rows=60_000, attributes=7)
    lows, highs = random_ranges(table.schema, 3, queries=200, rng=SeededRng(4))
    columns = table.columns()
    held = [((columns >= low) & (columns <= high)).all(axis=1) for low, high in zip(lows, highs, strict=True)]
    true = np.array([table.values[rows].sum() for rows in held])
    errors = {}
    for signal in (residual_module.LEAST_SIGNAL, 10**18):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(residual_module, "LEAST_SIGNAL", signal)
            release = View(epsilon=10, neighbours="add-remove").publish(Tabled(table), rng=SeededRng(2))
        found = open_view(release).ranges(lows, highs)
        errors["records" in release.frames] = float(np.sqrt(np.mean((found - true) ** 2)))

    assert errors[True] < errors[False] / 1.3


@pytest.mark.parametrize("amount", [{"epsilon": 10}, {"rho": 5}])
def test_pairs_beyond_the_tree_cost_what_is_promised_and_publish_nothing_of_the_table(amount: dict[str, int]) -> None:
    """The coupled replay with a row more: the same outcomes, the same release, a loss within the promise."""
    table = spread_table()
    codes = np.repeat(table.columns(), table.values, axis=0)
    other = Counts.from_columns(table.schema, codes[:-1])
    method = View(**amount, neighbours="add-remove")
    plan = method.plan(table.schema)
    pair = TablePair(first=table, second=other)
    loss, problem = replay_pair(method, plan, pair, seed=5)

    assert problem is None
    assert 0 < loss <= 1
    assert "records" in method.make(table, plan, rng=SeededRng(5)).frames


def test_a_long_list_of_values_takes_little_from_the_others() -> None:
    alone, beside = (by_size(Fraction(1), sizes) for sizes in ([10] * 12, [10] * 12 + [100_000] * 2))

    assert float(alone[0] / beside[0]) <= 1.2


def test_the_scale_of_a_weight_is_the_scale_of_its_error() -> None:
    """Detects a part of the error that forgets what the other attributes weigh: a mean under a condition had none."""
    draw = np.random.default_rng(5)
    ages, visits = draw.integers(15, 90, 20_000), draw.integers(0, 20, 20_000)
    schema = Schema(
        name="members",
        attributes=(
            Attribute(name="age", domain=NumberBins.of_width(15, 90, 5), grain=1),
            Attribute(name="visits", domain=NumberBins.of_width(0, 20, 2), grain=1),
        ),
    )
    counts = Counts.from_columns(schema, np.column_stack([(ages - 15) // 5, visits // 2]))
    view = open_view(View(epsilon=1).publish(Tabled(counts), rng=SeededRng(3)))

    sizes = [len(axis.codes) for axis in view.stored.axes]
    stored = dataclasses.replace(view.stored, faint=tuple(np.full(size, 50.0) for size in sizes))
    old = np.arange(sizes[0]) >= sizes[0] // 2
    visited = np.arange(sizes[1], dtype=np.float64)

    whole, scaled = (stored.moments([{0: old.astype(np.float64), 1: visited * scale}]) for scale in (1.0, 1e-3))

    assert scaled.value == pytest.approx(whole.value * 1e-3)
    assert scaled.noise == pytest.approx(whole.noise * 1e-6)
