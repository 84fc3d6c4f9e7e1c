"""Blocks of a view: levels of many blocks against one block at a time, and what every drawn set of blocks is."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.counts import Counts
from sudare.methods.view import View, open_view
from sudare.methods.view import cuts as mondrian_scores
from sudare.methods.view.budget import ViewBudget
from sudare.methods.view.cuts import (
    AE_SENSITIVITY,
    BEYOND_SCORES,
    SPREAD_SENSITIVITY,
    BlockLevel,
    Codes,
    CutChoice,
    Filled,
    aggregation_error,
    choose_cuts,
    is_flat,
    score_blocks,
    score_cuts,
    whole,
)
from sudare.methods.view.mondrian import THETA, costs, draw_blocks, find_stop
from sudare.methods.view.stops import bound_path_loss, stop_decay, stop_scale
from sudare.noise import SeededRng, geometric_tail, geometric_variance
from sudare.noise.counting import pure_epsilon_within
from sudare.noise.gaussian import gaussian_variance
from sudare.privacy.currency import RHO
from sudare.testing import Tabled
from sudare.testing.subject import schema_of
from tests.statistical.view_forest import rho_budget, row_budget

BLOCKS = ("mondrian", "hdpview")


@st.composite
def levels(draw: st.DrawFn) -> tuple[Filled, Codes, Counts]:
    """A level of a tree: a table of any kind, cut a few times anywhere."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3).filter(lambda found: np.prod(found) > 1))
    values = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, 9, 10**6, 2**40]), min_size=1, max_size=int(np.prod(sizes))))
    if not any(values):
        values[0] = 1
    counts = Counts.build(schema_of(*sizes), np.arange(len(values)), values)
    filled, _, columns = whole(counts)
    rng = SeededRng(draw(st.integers(0, 1000)))
    for _ in range(draw(st.integers(0, 3))):
        wide = filled.of(filled.boxes.cells() > 1)
        if not len(wide):
            break
        filled = wide.split(columns, *wide.boxes.anywhere(rng))[0]
    wide = filled.of(filled.boxes.cells() > 1)
    return (wide if len(wide) else whole(counts)[0]), columns, counts


def one_by_one(filled: Filled, columns: Codes) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]]:
    """Every block for itself: the codes and counts of its cells, its corners, how many cells it has."""
    return [
        (columns[part.rows].astype(np.int64), part.values, part.boxes.lows[0], part.boxes.highs[0], int(size))
        for part, size in (
            (filled.between(place, place + 1), np.prod(filled.boxes.widths()[place])) for place in range(len(filled))
        )
    ]


@settings(deadline=None)
@given(levels(), st.sampled_from(["error", "spread"]), st.booleans())
def test_a_level_is_scored_as_its_blocks_one_by_one(level: tuple[Filled, Codes, Counts], how: str, alone: bool) -> None:
    filled, columns, _ = level
    with pytest.MonkeyPatch.context() as patch:
        if alone:
            patch.setattr(mondrian_scores, "MOST_PAIRS_IN_BATCH", 0)
        found = score_blocks(filled, columns, how)
    wanted = [score_cuts(*block, how) for block in one_by_one(filled, columns)]

    assert found.scores.tolist() == [int(score) for cut in wanted for score in cut.scores]
    assert found.axis.tolist() == [int(axis) for cut in wanted for axis in cut.axis]
    assert found.left.tolist() == [int(left) for cut in wanted for left in cut.after]
    assert found.many.tolist() == [cut.axis.size for cut in wanted]


@settings(deadline=None)
@st.composite
def blocks_and_units(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A small block without the unit, the rows that leave it, and the rows that come."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda found: np.prod(found) > 1))
    size = int(np.prod(sizes))
    most = (9, 3, 3)
    return tuple(  # type: ignore[return-value]
        np.array(draw(st.lists(st.integers(0, top), min_size=size, max_size=size)), dtype=np.int64).reshape(sizes)
        for top in most
    )


@given(levels())
def test_a_level_has_the_errors_of_its_blocks_and_is_flat_where_they_are(level: tuple[Filled, Codes, Counts]) -> None:
    filled, columns, _ = level
    blocks = one_by_one(filled, columns)
    cells = filled.boxes.cells()

    assert cells.tolist() == [size for *_, size in blocks]
    assert filled.errors(cells).tolist() == [aggregation_error(values, size) for _, values, _, _, size in blocks]
    assert filled.is_flat(cells).tolist() == [is_flat(values, lows, highs, n) for _, values, lows, highs, n in blocks]


@settings(deadline=None)
@given(levels(), st.integers(0, 1000))
def test_a_level_that_is_cut_keeps_every_record_in_its_box(level: tuple[Filled, Codes, Counts], seed: int) -> None:
    filled, columns, counts = level
    parts, empty = filled.split(columns, *filled.boxes.anywhere(SeededRng(seed)))
    codes = columns[parts.rows].astype(np.int64)

    assert np.sort(parts.rows).tolist() == np.sort(filled.rows).tolist()
    assert parts.values.tolist() == counts.values[parts.rows].tolist()
    assert parts.sums.tolist() == np.add.reduceat(parts.values, parts.starts).tolist()
    assert (codes >= parts.boxes.lows[parts.owners]).all()
    assert (codes <= parts.boxes.highs[parts.owners]).all()
    assert parts.boxes.cells().sum() + empty.cells().sum() == filled.boxes.cells().sum()
    assert len(parts) + len(empty) == 2 * len(filled)


def test_choices_are_the_same_in_batches_of_any_size() -> None:
    """Where one cut is far better than all others every batch finds it."""
    rows = np.repeat(np.arange(8), 2)
    codes = np.column_stack([rows, np.tile([0, 3], 8)])
    counts = Counts.from_columns(schema_of(8, 5), codes, np.tile([5000, 1], 8))
    filled, _, columns = whole(counts)
    axis, border = np.array([0]), np.array([3])
    filled = filled.split(columns, axis, border)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mondrian_scores, "BATCH", 1)
        found = choose_cuts(filled, columns, CutChoice("error", Fraction(100), AE_SENSITIVITY), rng=SeededRng(1))

    assert [part.tolist() for part in found] == [[1, 1], [0, 0]]


def test_numbers_of_cells_beyond_64_bits_stand_for_the_largest() -> None:
    tops = np.array([[2**20 - 1] * 4, [7, 0, 2, 0]])
    boxes = BlockLevel(np.zeros_like(tops), tops)

    assert boxes.cells().tolist() == [BEYOND_SCORES, 24]
    assert boxes.slices().tolist() == [[2**60] * 4, [3, 24, 8, 24]]


@pytest.mark.parametrize("method", BLOCKS)
@pytest.mark.parametrize("score", ["error", "spread"])
def test_blocks_tile_the_domain_in_the_order_of_their_first_cells(method: str, score: str) -> None:
    sizes = (12, 7, 5)
    rows = np.random.default_rng(1).integers(0, (12, 3, 5), (300, 3))
    view = draw_blocks(Counts.from_columns(schema_of(*sizes), rows), row_budget(3), method, score, rng=SeededRng(1))
    held = np.zeros(sizes, dtype=np.int64)
    for low, high in zip(view.lows, view.highs, strict=True):
        held[tuple(slice(start, stop + 1) for start, stop in zip(low, high, strict=True))] += 1
    first = np.ravel_multi_index(tuple(view.lows.T), sizes)

    assert len(view.counts) > 10
    assert (held == 1).all()
    assert (np.diff(first) > 0).all()


@pytest.mark.parametrize("epsilon", [Fraction(10), Fraction(100)])
def test_blocks_by_hdpview_stay_few_however_large_epsilon_is(epsilon: Fraction) -> None:
    rows = np.random.default_rng(1).integers(0, 10, (20, 8))
    counts = Counts.from_columns(schema_of(*[1000] * 8), rows)

    assert len(draw_blocks(counts, row_budget(epsilon), "hdpview", "error", rng=SeededRng(1)).counts) < 20_000


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(3), Fraction(6), Fraction(12), Fraction(40)])
def test_the_depth_free_tests_of_a_path_cost_no_more_than_their_share_at_any_epsilon(epsilon: Fraction) -> None:
    """From the floor of b upwards by the decay: every first level, tests that go on against the neighbour's."""
    scale = stop_scale(epsilon, tests=40)
    decay = stop_decay(scale)
    least = THETA + AE_SENSITIVITY - decay

    def goes_on(level: int) -> float:
        return geometric_tail(THETA - level + 1, scale)

    sums = [
        sum(
            math.log(goes_on(level) / goes_on(max(level - AE_SENSITIVITY, least)))
            for level in range(first, first + 40 * decay, decay)
        )
        for first in range(least, least + 2 * decay + 1)
    ]

    assert 0 < max(sums) <= epsilon
    assert goes_on(least) < 1 / 2


def worst_path(scale: Fraction, *, tests: int, most: int, change: int = AE_SENSITIVITY) -> float:
    """The exact programme: the largest loss of all stop tests of a path, over every pair of sequences of AE.

    Along a path ceil(AE) falls or stays, in both tables; they differ by at most `change`. A path goes on, goes on, ...,
    and stops, or ends untested. best[i, j]: the largest loss from a depth on, AE being i in one table and j in the
    other.
    """
    size, decay = float(scale), stop_decay(scale)
    a = math.exp(-1 / size)
    entries = np.arange(most + 1)
    is_near = np.abs(entries[:, None] - entries) <= change
    best = np.where(is_near, 0.0, -np.inf)
    for depth in range(tests, 0, -1):
        level = np.maximum(entries - decay * depth, AE_SENSITIVITY - decay).astype(float)
        with np.errstate(over="ignore", invalid="ignore"):
            goes_on = np.where(level <= 0, (level - 1) / size, np.log1p(a - a ** np.maximum(level, 0)))
            stops = np.where(level >= 1, -level / size, np.log1p(a - a ** np.maximum(1 - level, 0)))
        later = np.maximum.accumulate(np.maximum.accumulate(best, axis=0), axis=1)
        on = goes_on[:, None] - goes_on + np.maximum(later, 0.0)
        best = np.where(is_near, np.maximum(on, stops[:, None] - stops), -np.inf)
    return float(best.max())


@pytest.mark.parametrize("scale", ["1/12", "2/5", "1", "3/2", "2", "29/10", "4", "247/25", "20", "40"])
def test_the_bound_of_the_loss_of_a_path_is_what_the_exact_programme_finds(scale: str) -> None:
    size, tests = Fraction(scale), 12
    found = worst_path(size, tests=tests, most=stop_decay(size) * (tests + 1) + 8)

    assert float(bound_path_loss(size, tests=tests)) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("epsilon", ["1/1000", "1/10", "81/100", "2", "9", "100"])
def test_the_stop_tests_spend_what_they_are_charged(epsilon: str) -> None:
    """Within 2 %, where a decay of whole numbers jumps; with half the noise they would spend a third more at least."""
    charged = Fraction(epsilon)
    scale = stop_scale(charged, tests=30)

    assert Fraction(98, 100) * charged <= bound_path_loss(scale, tests=30) <= charged
    assert bound_path_loss(scale / 2, tests=30) > Fraction(13, 10) * charged


@pytest.mark.parametrize("rows", [2, 5, 16])
@pytest.mark.parametrize("epsilon", ["1/10", "81/100", "3"])
def test_a_person_whose_rows_lie_apart_spends_what_the_stop_tests_charge_for_every_row(epsilon: str, rows: int) -> None:
    """Why there is no joint sensitivity: whatever rows in one cell spend, these spend nearly all that is charged.

    Rows in different halves share the first tests only, those of so many levels as it takes to part them; from there
    on each has a path of its own, whose tests are independent: the losses add up. Found by the exact programme.
    """
    charged, tests = Fraction(epsilon), 14
    scale = stop_scale(charged, tests=tests)
    most = stop_decay(scale) * (tests + 1) + 2 * rows + 8
    shared = math.ceil(math.log2(rows))
    apart = rows * worst_path(scale, tests=tests - shared, most=most)
    together = worst_path(scale, tests=tests, most=most, change=AE_SENSITIVITY * rows)

    assert 0.97 * rows * charged <= apart <= rows * charged
    assert together <= rows * charged


@pytest.mark.parametrize("method", BLOCKS)
@pytest.mark.parametrize("rho", ["0.0001", "0.015", "1", "100"])
@pytest.mark.parametrize("sizes", [(3, 3), (4, 4), (100, 2, 40), (100,) * 7])
def test_under_rho_every_step_of_blocks_has_the_noise_that_is_off_least(
    method: str, rho: str, sizes: tuple[int, ...]
) -> None:
    """By computing both: Gaussian and geometric for tests and counts, and for tests the one that depth does not tire.

    The latter is off by its noise and by what the level falls with the depth: here at half of the deepest.
    """
    for relation, rows in (("add-remove", 0), ("replace", 0), ("replace", 5)):
        budget = rho_budget(rho, neighbours=relation, max_rows=rows)  # type: ignore[arg-type]
        plan = costs(budget, schema_of(*sizes), method)
        stop = find_stop(plan, method).noise
        paid_at_once = stop_scale(
            pure_epsilon_within(plan.test * plan.deepest / budget.changed_cells) / budget.rows, tests=plan.deepest - 1
        )
        fallen = stop_decay(paid_at_once) * plan.deepest / 2

        assert stop.variance <= least_variance(plan.test, budget, change=2)
        assert stop.variance <= geometric_variance(paid_at_once) + fallen**2
        for depth in (1, plan.deepest):
            part = plan.leaf(depth, tested=False)
            assert plan.leaf_noise(depth, tested=False).variance <= least_variance(part, budget, change=1)


def least_variance(part: Fraction, budget: ViewBudget, *, change: int) -> float:
    """Compute the smaller variance in floats: s^2/(2 rho), or that of the scale at which the shifts cost the part."""
    shift, cells = change * budget.rows, budget.changed_cells
    low, high = 1e-6, 1e12
    for _ in range(200):
        scale = math.sqrt(low * high)
        cost = cells * shift / scale * math.tanh(shift / scale / 2)
        low, high = (scale, high) if cost > part else (low, scale)
    return 1.0001 * min(gaussian_variance(cells * shift**2 / (2 * part)), geometric_variance(high * (1 + 2**-15)))


@given(blocks_and_units())
@settings(max_examples=150, deadline=None)
def test_a_unit_changes_tests_and_scores_of_a_block_by_what_the_proof_says(
    given_block: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """A block loses a rows and gets b: 2 max(a, b) in AE, 2 (a + b) in errors of cuts, 16 max(a, b) in spread."""
    base, gone, come = given_block
    tables = (base + gone, base + come)
    a, b = int(gone.sum()), int(come.sum())
    errors = [aggregation_error(table[table > 0], table.size) for table in tables]
    lows, highs = np.zeros(base.ndim, dtype=np.int64), np.array(base.shape) - 1

    assert abs(errors[0] - errors[1]) <= AE_SENSITIVITY * max(a, b)
    for how, most in (("error", AE_SENSITIVITY * (a + b)), ("spread", SPREAD_SENSITIVITY * max(a, b))):
        scores = [
            score_cuts(np.argwhere(table), table[table > 0], lows, highs, table.size, how).scores for table in tables
        ]
        assert int(np.abs(scores[0] - scores[1]).max(initial=0)) <= most


@pytest.mark.parametrize("method", BLOCKS)
def test_the_choice_of_a_cut_costs_its_part_of_rho_for_the_worst_unit(method: str) -> None:
    """Errors: all rows of both persons in one block. Spread: those of the two in two blocks."""
    for relation, rows in (("add-remove", 0), ("replace", 0), ("add-remove", 4), ("replace", 4)):
        budget = rho_budget("1/3", neighbours=relation, max_rows=rows)  # type: ignore[arg-type]
        plan = costs(budget, schema_of(8, 8), method)
        error, spread = plan.choice("error"), plan.choice("spread")
        moved = AE_SENSITIVITY * budget.changed_cells * budget.rows
        in_one = RHO.charge_exponential(error.epsilon * moved / error.sensitivity)
        in_each = RHO.charge_exponential(spread.epsilon * SPREAD_SENSITIVITY * budget.rows / spread.sensitivity)

        assert plan.cut * Fraction(999, 1000) < in_one <= plan.cut
        assert plan.cut * Fraction(999, 1000) < budget.changed_cells * in_each <= plan.cut


@pytest.mark.parametrize("method", BLOCKS)
def test_tables_of_very_large_counts_are_cut_as_well(method: str) -> None:
    """Sums times cells leave 64 bits here: 2**52 records in 4096 cells."""
    counts = Counts.build(schema_of(64, 64), np.arange(4096), np.where(np.arange(4096) == 77, 2**51, 2**39))
    view = draw_blocks(counts, row_budget(1), method, "error", rng=SeededRng(1))
    row, column = divmod(77, 64)
    holds = (view.lows <= (row, column)).all(axis=1) & (view.highs >= (row, column)).all(axis=1)

    assert view.counts.sum() == pytest.approx(counts.total, rel=1e-9)
    assert view.counts[holds][0] == pytest.approx(2**51, rel=0.2)


@pytest.mark.parametrize("method", BLOCKS)
def test_answers_lie_in_their_intervals_and_never_below_zero(method: str) -> None:
    rows = np.random.default_rng(1).integers(0, (2, 9), (40, 2))
    table = Tabled(Counts.from_columns(schema_of(20, 30), rows))
    chosen = View(epsilon="1/4", algorithm=method, neighbours="add-remove")  # type: ignore[arg-type]
    views = [open_view(chosen.publish(table, rng=SeededRng(seed))) for seed in range(6)]
    found = [view.count(a0=[f"v{k}"], a1=[f"v{3 * k % 30}"]) for view in views for k in range(20)]
    found += [view.count(a0=[f"v{k}"]) for view in views for k in range(20)]

    assert any(bool((view.stored.counts < 0).any()) for view in views)  # type: ignore[union-attr]
    assert all(0 <= one.low <= one.value <= one.high for one in found)
    assert all(one.low < one.high for one in found)
