"""Questions that a view answers together are answered as if each were asked alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.asking.answers import Estimate
from sudare.asking.protocol import AxisWeight, Moments, ShiftedSum
from sudare.counts import Counts
from sudare.methods.view import OpenedView, View, open_view, weighted
from sudare.methods.view.tables import TableView
from sudare.methods.view.weighted import WeightedRecords
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema, Values
from sudare.testing import Tabled

ROWS = 3_000


@pytest.fixture(scope="module")
def opened() -> OpenedView:
    rng = np.random.default_rng(3)
    schema = Schema(
        name="things",
        attributes=(
            Attribute(name="size", domain=NumberBins.of_width(0, 40, 2), grain=Fraction(0)),
            Attribute(name="group", domain=Values(tuple("abcdefg"))),
            Attribute(name="kind", domain=Values(tuple("uvwxyz"))),
            Attribute(name="age", domain=NumberBins.of_width(0, 100, 10)),
            Attribute(name="sort", domain=Values(tuple("klm"))),
        ),
    )
    size = rng.integers(0, 20, ROWS)
    group, age = (size // 4 + rng.integers(0, 3, ROWS)) % 7, (size + rng.integers(0, 4, ROWS)) % 10
    columns = [size, group, rng.integers(0, 6, ROWS), age, rng.integers(0, 3, ROWS)]
    table = Tabled(Counts.from_columns(schema, np.column_stack(columns)))
    return open_view(View(epsilon=2, neighbours="add-remove").publish(table, rng=SeededRng(4)))


@pytest.fixture(scope="module")
def with_records(opened: OpenedView) -> TableView:
    """The same view with made-up weights of records, as if pairs beyond its tree had been measured."""
    stored, rng = opened.stored, np.random.default_rng(5)
    assert isinstance(stored, TableView)
    widths, versions = stored.widths, stored.factors.versions
    records = WeightedRecords(
        bins=np.column_stack([rng.integers(0, width, 200) for width in widths]),
        weights=rng.random(200),
        changes=rng.normal(size=(versions, 200)),
        widths=widths,
        left={ends: draw_left(versions, widths[ends[0]], widths[ends[1]], rng) for ends in ((0, 1), (1, 3), (2, 3))},
    )
    return dataclasses.replace(stored, records=records)


def draw_left(versions: int, first: int, second: int, rng: np.random.Generator) -> np.ndarray:
    """What a pair says beyond records: nothing about one attribute by itself."""
    drawn = rng.normal(size=(versions, first, second))
    return drawn - drawn.mean(1, keepdims=True) - drawn.mean(2, keepdims=True) + drawn.mean((1, 2), keepdims=True)


def draw_weights(stored: TableView, axis: int, rng: np.random.Generator) -> AxisWeight:
    """A condition that takes leaves whole, one that cuts some, or numbers that are added up."""
    size, kind = stored.axes[axis].size, int(rng.integers(0, 3))
    mask = (rng.random(size) < 0.5).astype(float)
    if kind == 0:
        return AxisWeight(mask, mask, mask, mask)
    if kind == 1:
        is_cut = np.arange(size) == rng.integers(0, size)
        mean = np.where(is_cut, 0.3, mask)
        return AxisWeight(mean, mean, np.where(is_cut, 0.0, mask), np.where(is_cut, 1.0, mask))
    mean, half = rng.normal(1, 3, size), rng.random(size)
    return AxisWeight(mean, mean**2 + half**2 / 3, mean - half, mean + half)


def draw_questions(stored: TableView, seed: int) -> list[list[dict[int, AxisWeight]]]:
    """As of a GROUP BY: some attributes are weighed alike, others box by box; some sums are over two boxes."""
    rng = np.random.default_rng(seed)
    axes = rng.choice(5, int(rng.integers(1, 5)), replace=False).tolist()
    shared = {axis: draw_weights(stored, axis, rng) for axis in axes[: int(rng.integers(0, 3))]}
    questions = []
    for number in range(int(rng.integers(1, 9))):
        boxes = [{**{axis: draw_weights(stored, axis, rng) for axis in axes}, **shared}]
        questions.append(
            boxes if number % 4 else [*boxes, {axis: draw_weights(stored, axis, rng) for axis in axes[:2]}]
        )
    return questions


def check_alike(first: Sequence[Moments], second: Sequence[Moments]) -> None:
    for one, other in zip(first, second, strict=True):
        for name in ("value", "noise", "model", "inside", "below", "above", "replicates"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-9)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_sums_that_are_asked_together_are_those_that_are_asked_alone(opened: OpenedView, seed: int) -> None:
    stored = opened.stored
    assert isinstance(stored, TableView)
    questions = draw_questions(stored, seed)
    alone = [dataclasses.replace(stored).moments(boxes) for boxes in questions]

    check_alike(dataclasses.replace(stored).moments_of_all(questions), alone)
    check_alike(stored.moments_of_all(questions), alone)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_what_records_add_is_the_same_together_and_alone(with_records: TableView, seed: int) -> None:
    questions = draw_questions(with_records, seed)
    alone = [dataclasses.replace(with_records).moments(boxes) for boxes in questions]

    check_alike(with_records.moments_of_all(questions), alone)


def draw_shifts(stored: TableView, seed: int) -> tuple[list[ShiftedSum], list[dict[int, AxisWeight]]]:
    """Sums of the same numbers over groups of records, times factors plus numbers; and each as a box by itself."""
    rng = np.random.default_rng(seed)
    summed, *axes = rng.choice(5, int(rng.integers(1, 5)), replace=False).tolist()
    mean, half = rng.normal(1, 3, stored.axes[summed].size), rng.random(stored.axes[summed].size)
    numbers = AxisWeight(mean, mean**2 + half**2 / 3, mean - half, mean + half)
    shifts, boxes = [], []
    for _ in range(int(rng.integers(1, 6))):
        others = {axis: draw_condition(stored, axis, rng) for axis in axes}
        factor, addend = float(rng.uniform(0.1, 2)), float(rng.normal(0, 3))
        centre = factor * mean + addend
        own = AxisWeight(centre, centre**2 + (factor * half) ** 2 / 3, centre - factor * half, centre + factor * half)
        shifts.append(ShiftedSum({**others, summed: numbers}, summed, factor, addend))
        boxes.append({**others, summed: own})
    return shifts, boxes


def draw_condition(stored: TableView, axis: int, rng: np.random.Generator) -> AxisWeight:
    drawn = draw_weights(stored, axis, rng)
    while drawn.square is not drawn.mean:
        drawn = draw_weights(stored, axis, rng)
    return drawn


@pytest.mark.parametrize("has_records", [False, True])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_sums_that_follow_from_others_are_those_that_are_asked_by_themselves(
    opened: OpenedView, with_records: TableView, has_records: bool, seed: int
) -> None:
    stored = with_records if has_records else opened.stored
    assert isinstance(stored, TableView)
    shifts, boxes = draw_shifts(stored, seed)
    asked = [[one.box] for one in shifts]
    asked += [[{axis: own for axis, own in one.box.items() if axis != one.attribute}] for one in shifts]
    view = dataclasses.replace(stored)
    view.moments_of_all(asked)
    told = view.moments_of_shifts(shifts)

    assert None not in told or stored.axes[shifts[0].attribute].size < 9  # few weights are those of a count
    alone = [dataclasses.replace(stored).moments([box]) for box in boxes]
    check_alike([one or other for one, other in zip(told, alone, strict=True)], alone)


def test_what_rounding_leaves_of_numbers_less_their_mean_is_no_count(with_records: TableView) -> None:
    """They add up to 1e-13 or to 0 as it comes; the interval of a mean was all the range of its numbers then."""
    assert with_records.records is not None
    top, rng = with_records.bins[0] == with_records.widths[0] - 1, np.random.default_rng(8)
    is_high = with_records.records.bins[:, 0] == with_records.widths[0] - 1
    changes = np.tile(np.where(is_high, -40.0, 0.0), (with_records.factors.versions, 1))
    records = dataclasses.replace(with_records.records, changes=changes, left={}, _tables={}, _kept=[])
    stored = dataclasses.replace(with_records, records=records)
    mean = np.where(top, 100.0, rng.uniform(0.5, 1.0, top.size))
    numbers = AxisWeight(mean, mean**2 + 0.01, mean - 0.2, mean + 0.2)
    half = np.where(np.arange(stored.axes[3].size) == 1, 0.3, 1.0)
    cut = AxisWeight(half, half, np.floor(half), np.ones(half.size))
    summed, counted = stored.moments_of_all([[{0: numbers, 3: cut}], [{3: cut}]])
    lowest = summed.value / counted.value
    assert summed.value < 0 < counted.value
    for addend in (-lowest, -lowest * (1 + 1e-15), -lowest * (1 - 1e-15)):
        (told,) = stored.moments_of_shifts([ShiftedSum({0: numbers, 3: cut}, 0, 1.0, addend)])

        assert told is not None
        assert told.inside < 4 * (summed.inside + lowest**2 * counted.inside)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_records_add_up_to_their_table_weighed_cell_by_cell(with_records: TableView, seed: int) -> None:
    rng, records = np.random.default_rng(seed), with_records.records
    assert records is not None
    axes = rng.choice(5, int(rng.integers(2, 5)), replace=False).tolist()
    evidence = {axis: rng.random((records.changes.shape[0], records.widths[axis])) for axis in axes}
    plain = records.table(axes)
    for place, axis in reversed(list(enumerate(axes))):
        shape = [plain.shape[0], *(-1 if other == place else 1 for other in range(plain.ndim - 1))]
        plain = (plain * evidence[axis].reshape(shape)).sum(axis=1 + place)

    assert records.answer(evidence) == pytest.approx(plain)


@given(seed=st.integers(0, 10**6), most=st.sampled_from([0, 2**15]), few=st.sampled_from([0, 24]))
@settings(max_examples=40, deadline=None)
def test_tables_of_some_attributes_are_the_same_by_tables_record_by_record_and_by_scipy(
    with_records: TableView, seed: int, most: int, few: int
) -> None:
    rng = np.random.default_rng(seed)
    assert with_records.records is not None
    records = dataclasses.replace(with_records.records, _tables={}, _kept=[])
    axes = rng.choice(5, int(rng.integers(2, 5)), replace=False).tolist()
    free = axes[: int(rng.integers(0, len(axes)))]
    weighed = [axis for axis in axes if axis not in free]
    evidence = {axis: rng.choice([0.0, 0.5, 1.0], (records.changes.shape[0], records.widths[axis])) for axis in weighed}
    weights = records.changes.copy()
    for axis in weighed:
        weights *= evidence[axis][:, records.bins[:, axis]]
    plain = np.zeros((weights.shape[0], *(records.widths[axis] for axis in free)))
    for row, line in enumerate(records.bins[:, free].tolist()):
        plain[(slice(None), *line)] += weights[:, row]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted, "MOST_JOINT_CELLS", most)
        patch.setattr(weighted, "FEW_TABLES", few)

        assert records.weigh_others(free, evidence) == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(size)", "AVG(size)", "AVG(age)", "STDDEV(age)"])
def test_a_group_is_told_just_as_the_same_question_with_where(opened: OpenedView, aggregate: str) -> None:
    rows = opened.sql(
        f"SELECT \"group\", {aggregate} FROM view WHERE age BETWEEN 13 AND 77 AND sort <> 'k' GROUP BY 1"
    ).rows

    assert len(rows) == 7
    for label, told in rows:
        where = f"\"group\" = '{label}' AND age BETWEEN 13 AND 77 AND sort <> 'k'"
        ((alone,),) = opened.sql(f"SELECT {aggregate} FROM view WHERE {where}").rows
        assert isinstance(told, Estimate)
        assert (told.value, told.low, told.high) == pytest.approx((alone.value, alone.low, alone.high), rel=1e-7)
