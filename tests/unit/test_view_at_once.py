"""All pairs of a view measured at once as one matrix, and when tables are taken instead."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sudare.compare.distances import random_ranges
from sudare.counts import Counts
from sudare.methods.view import View, open_view
from sudare.methods.view import design as design_module
from sudare.methods.view.budget import (
    LEAST_SIGNAL_AT_ONCE,
    SPLIT_WHEN_ALL_PAIRS_AT_ONCE,
    SPLIT_WHEN_ALL_PAIRS_MAY_PAY,
    choose_split_for_all_pairs,
    plan,
    split_epsilon,
)
from sudare.methods.view.design import GroupedMargin, design_matrix, design_pairs, design_tables
from sudare.methods.view.model import Binned, FittedModel, add_products
from sudare.methods.view.residual import PROBE_SHARE_AT_ONCE, centre, does_pay, passes_gate
from sudare.noise import SeededRng
from sudare.testing import Tabled
from sudare.testing.subject import schema_of

NUMBERS = GroupedMargin(mass=np.ones(40), is_ordered=True, is_last_apart=False)
LISTED = GroupedMargin(mass=np.ones(40), is_ordered=False, is_last_apart=False)
PURE = plan(View(epsilon=1, neighbours="add-remove").guarantee())
RHO = plan(View(rho=1, neighbours="add-remove").guarantee())


def dense(attributes: int, rows: int, *, seed: int = 3) -> Counts:
    """Every attribute follows one of two hidden numbers, so that pairs depend on each other."""
    generator = np.random.default_rng(seed)
    hidden = generator.normal(size=(2, rows))
    columns = [
        np.clip(np.floor(hidden[place % 2] + 0.5 * hidden[0] + generator.normal(size=rows) + 3), 0, 5)
        for place in range(attributes)
    ]
    return Counts.from_columns(schema_of(*[6] * attributes), np.column_stack(columns).astype(np.int64))


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "groups"), [(3, 3), (7, 7), (24, 24)])
def test_bins_form_so_many_groups_and_twice_as_many_of_a_list(wanted: int, groups: int) -> None:
    two = GroupedMargin(mass=np.ones(2), is_ordered=True, is_last_apart=False)
    found = [margin.group(wanted) for margin in (NUMBERS, LISTED, two)]

    assert [int(group.max()) + 1 for group in found] == [groups, min(40, 2 * groups), 2]
    assert all(np.all(np.diff(group) >= 0) for group in found)


def test_records_without_a_value_share_no_group() -> None:
    apart = GroupedMargin(mass=np.ones(40), is_ordered=True, is_last_apart=True).group(3)
    others = NUMBERS.group(3)

    assert np.count_nonzero(apart == apart[-1]) == 1 < np.count_nonzero(others == others[-1])
    assert np.unique(apart).tolist() == list(range(4))


# --- which way --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("attributes", "at_once"), [(5, False), (30, True)])
def test_many_attributes_are_measured_as_one_matrix_and_few_table_by_table(attributes: int, at_once: bool) -> None:
    pairs = math.comb(attributes, 2) - (attributes - 1)
    found = design_pairs([NUMBERS] * attributes, Fraction(1, 4), PURE, pairs=pairs, records=20_000.0)

    assert (found.matrix is not None) == at_once


def test_tables_are_taken_where_they_afford_more_groups() -> None:
    margins = [NUMBERS] * 12
    for records in (1e3, 1e4, 1e5, 1e6, 1e7):
        tables = design_tables(margins, Fraction(1, 4), PURE, pairs=55, records=records)
        matrix = design_matrix(margins, Fraction(1, 4), records=records)
        found = design_pairs(margins, Fraction(1, 4), PURE, pairs=55, records=records)

        assert matrix is not None
        assert found.wanted == max(tables.wanted, matrix.wanted)
        assert found.deviation <= min(one.deviation for one in (tables, matrix) if one.wanted == found.wanted)


def test_rho_has_no_matrix() -> None:
    assert design_pairs([NUMBERS] * 30, Fraction(1, 4), RHO, pairs=400, records=1e5).matrix is None


def test_more_groups_than_the_noise_takes_time_for_are_left_to_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_module, "MOST_CONTRASTS", 50)

    assert design_matrix([NUMBERS] * 30, Fraction(1, 4), records=1e9) is None


def test_attributes_that_do_not_differ_have_no_matrix() -> None:
    alike = GroupedMargin(mass=np.ones(1), is_ordered=True, is_last_apart=False)

    assert design_matrix([NUMBERS, *[alike] * 11], Fraction(1, 4), records=1e6) is None


def test_more_records_than_the_noise_counts_are_left_to_tables() -> None:
    """Whether a matrix is measured follows from the released number of records: nothing is refused after the spend."""
    assert design_matrix([NUMBERS] * 12, Fraction(1, 4), records=2.0**45) is None


def test_the_matrix_has_the_deviation_that_the_choice_of_groups_went_by() -> None:
    found = design_matrix([NUMBERS] * 16, Fraction(3, 10), records=40_000.0)

    assert found is not None
    assert found.matrix is not None
    assert found.matrix.epsilon == Fraction(3, 10)
    assert found.deviation == pytest.approx(math.sqrt(found.matrix.variance))
    assert found.matrix.sizes == (found.wanted,) * 16


def test_a_matrix_pays_with_fewer_records_than_tables() -> None:
    assert passes_gate(60.0, pairs=91, extras=14, at_once=True)
    assert not passes_gate(60.0, pairs=91, extras=14)
    assert does_pay(2.0, 60.0, pairs=91, extras=14, at_once=True)
    assert not does_pay(2.0, 60.0, pairs=91, extras=14)


def test_shares_for_all_pairs_are_taken_where_one_matrix_would_do() -> None:
    assert choose_split_for_all_pairs(PURE, Fraction(1), 20_000.0, [20] * 15) == SPLIT_WHEN_ALL_PAIRS_AT_ONCE
    assert choose_split_for_all_pairs(PURE, Fraction(1), 2_000.0, [20] * 15) is None
    assert choose_split_for_all_pairs(PURE, Fraction(1), 20_000.0, [20] * 8) is None
    assert choose_split_for_all_pairs(PURE, Fraction(1), 1e6, [4] * 90) == SPLIT_WHEN_ALL_PAIRS_AT_ONCE
    assert choose_split_for_all_pairs(PURE, Fraction(1), 1e6, [20] * 90) is None  # too many groups for one matrix
    assert choose_split_for_all_pairs(RHO, Fraction(1), 1e9, [20] * 15) == SPLIT_WHEN_ALL_PAIRS_MAY_PAY


@pytest.mark.parametrize("size", [2, 4, 20])
@pytest.mark.parametrize("attributes", [9, 15, 40])
def test_where_shares_are_made_for_a_matrix_the_gate_lets_it_pass(attributes: int, size: int) -> None:
    """Made and then refused, they would leave the forest and its extra pairs with too little."""
    records = 10.0
    while choose_split_for_all_pairs(PURE, Fraction(1), records, [size] * attributes) is None:
        records *= 1.02
    shares = split_epsilon(
        "model", Fraction(1), records=1e9, sizes=[size] * attributes, all_pairs=SPLIT_WHEN_ALL_PAIRS_AT_ONCE
    )
    part = shares.extras + shares.choices * shares.more / (shares.picks + shares.more) - PROBE_SHARE_AT_ONCE
    margin = GroupedMargin(mass=np.ones(size), is_ordered=False, is_last_apart=False)
    design = design_matrix([margin] * attributes, part, records=records)

    assert design is not None
    assert records / design.deviation >= LEAST_SIGNAL_AT_ONCE


# --- what is measured -------------------------------------------------------------------------------------------------


def test_the_matrix_counts_every_pair_of_groups() -> None:
    counts = dense(4, 500)
    binned = Binned(columns=tuple(counts.column(name) for name in counts.schema.names), values=counts.values,
                    widths=(6,) * 4)  # fmt: skip
    margins = [GroupedMargin(mass=np.ones(6), is_ordered=True, is_last_apart=False)] * 4
    design = design_tables(margins, Fraction(1, 4), PURE, pairs=3, records=1.0)
    marks = np.zeros((counts.values.size, sum(design.sizes)), dtype=np.int64)
    for place, (name, group) in enumerate(zip(counts.schema.names, design.groups, strict=True)):
        marks[np.arange(counts.values.size), design.starts[place] + group[counts.column(name)]] = 1

    assert np.array_equal(add_products(binned, design), (marks * counts.values[:, None]).T @ marks)


@pytest.mark.parametrize(("attributes", "has_sums"), [(7, True), (12, False)])
def test_few_attributes_are_measured_table_by_table(attributes: int, has_sums: bool) -> None:
    """Tables tell of single attributes, too; where extra pairs would be nearly all there are, a matrix saves little."""
    drawn = _draw(dense(attributes, 60_000), {"epsilon": 10}, 1)

    assert drawn.raked is not None
    assert bool(drawn.measured.sums) == has_sums


@pytest.mark.parametrize("seed", range(3))
def test_a_dense_table_has_all_pairs_measured_at_once_under_pure_epsilon(seed: int) -> None:
    """Ten attributes, 20,000 records and epsilon 1, where tables of all pairs have too much noise."""
    drawn = _draw(dense(10, 20_000), {"epsilon": 1}, seed)

    assert drawn.raked is not None
    assert drawn.measured_pairs == tuple(itertools.combinations(range(10), 2))
    assert not drawn.measured.sums  # margins of the tables are the model's own, and tell nothing of single attributes


def test_pairs_measured_at_once_are_as_far_off_as_they_say() -> None:
    """Of 36 pairs each of three releases: contrasts of the measured less the true table, in deviations.

    A deviation half or twice as large as stated would be told: the mean square of some 2,000 numbers that hardly depend
    on each other is known to 4 %.
    """
    counts, squares = dense(10, 20_000), []
    for seed in range(3):
        drawn = _draw(counts, {"epsilon": 1}, seed)
        assert drawn.raked is not None
        for pair in drawn.raked.pairs:
            groups = [drawn.raked.groups[end] for end in pair.ends]
            bins = [drawn.measured.bins[end][counts.column(counts.schema.names[end])] for end in pair.ends]
            true = np.zeros(pair.values.shape)
            np.add.at(true, (groups[0][bins[0]], groups[1][bins[1]]), counts.values)
            free = (true.shape[0] - 1) * (true.shape[1] - 1)
            squares.append(float((centre(pair.values - true) ** 2).sum()) / free / pair.variance)

    assert np.mean(squares) == pytest.approx(1.0, abs=0.15)


def test_measured_pairs_bring_a_dense_table_nearer_to_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of two columns, beside a view that may measure tables only."""
    counts = dense(12, 40_000)
    at_once = [_miss(counts, seed) for seed in range(2)]
    monkeypatch.setattr("sudare.methods.view.model.design_pairs", design_tables)
    by_choice = [_miss(counts, seed) for seed in range(2)]

    assert np.mean(at_once) < 0.8 * np.mean(by_choice)


def _draw(counts: Counts, promise: dict[str, Any], seed: int) -> FittedModel:
    drawn = View(**promise, neighbours="add-remove").draw(counts, rng=SeededRng(seed))
    assert isinstance(drawn, FittedModel)
    return drawn


def _miss(counts: Counts, seed: int) -> float:
    """How far ranges of two attributes are off, as a root mean square of records."""
    lows, highs = random_ranges(counts.schema, 2, queries=200, rng=SeededRng(4))
    columns = counts.columns()
    held = [((columns >= low) & (columns <= high)).all(axis=1) for low, high in zip(lows, highs, strict=True)]
    true = np.array([counts.values[rows].sum() for rows in held])
    release = View(epsilon=1, neighbours="add-remove").publish(Tabled(counts), rng=SeededRng(seed))
    return float(np.sqrt(np.mean((open_view(release).ranges(lows, highs) - true) ** 2)))


@pytest.mark.parametrize(
    ("attributes", "rows", "told"), [(12, 2_000, False), (12, 6_000, False), (12, 20_000, True), (120, 10**7, False)]
)
def test_the_preview_says_where_all_pairs_may_be_measured(attributes: int, rows: int, told: bool) -> None:
    """Not where extra pairs are chosen, but records are too few for all pairs, or attributes too many."""
    preview = View(epsilon=1, neighbours="add-remove").preview(schema_of(*[6] * attributes), rows=rows)

    assert preview.measures_pairs
    assert any("all of them are measured" in str(line) for line in preview.lines()) == told
