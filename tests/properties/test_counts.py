"""Sparse counts agree with a dense reference, whatever is done to them."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sudare.counts import Counts
from sudare.schema import Attribute, Schema, TableHierarchy, Unit, Values


def attribute(name: str, size: int) -> Attribute:
    """`size` values under groups of two, under one top."""
    groups = (size + 1) // 2
    values = tuple(f"v{code}" for code in range(size))
    hierarchy = TableHierarchy(
        parents=(np.arange(size) // 2, np.zeros(groups, dtype=np.int64)),
        names=(values, tuple(f"g{group}" for group in range(groups)), ("*",)),
    )
    return Attribute(name=name, domain=Values(values=values), hierarchy=hierarchy)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, np.ndarray]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    schema = Schema(name="t", unit=Unit(), attributes=tuple(attribute(f"a{i}", size) for i, size in enumerate(sizes)))
    rows = draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in sizes)), max_size=40))
    return schema, np.array(rows, dtype=np.int64).reshape(-1, len(sizes))


def dense(schema: Schema, rows: np.ndarray) -> np.ndarray:
    table = np.zeros(schema.sizes, dtype=np.int64)
    np.add.at(table, tuple(rows.T), 1)
    return table


@given(tables())
def test_a_sparse_table_holds_what_the_dense_one_holds(case: tuple[Schema, np.ndarray]) -> None:
    schema, rows = case

    assert np.array_equal(Counts.from_columns(schema, rows).dense(), dense(schema, rows).ravel())


@given(tables(), st.data())
def test_projection_sums_over_the_attributes_left_out(case: tuple[Schema, np.ndarray], data: st.DataObject) -> None:
    schema, rows = case
    order = data.draw(st.permutations(range(len(schema.sizes))))
    kept = order[: data.draw(st.integers(1, len(order)))]
    left_out = tuple(axis for axis in range(len(order)) if axis not in kept)
    summed = dense(schema, rows).sum(axis=left_out)
    expected = np.transpose(summed, _axes(kept))

    found = Counts.from_columns(schema, rows).project([schema.names[axis] for axis in kept])

    assert np.array_equal(found.dense(), expected.ravel())


def _axes(kept: list[int]) -> list[int]:
    """After summing, axes stand in ascending order; put them in the order asked for."""
    ascending = sorted(kept)
    return [ascending.index(axis) for axis in kept]


@given(tables(), st.data())
def test_coarsening_adds_up_the_members_of_each_group(case: tuple[Schema, np.ndarray], data: st.DataObject) -> None:
    schema, rows = case
    levels = {name: data.draw(st.integers(0, 2)) for name in schema.names}
    lifted = rows.copy()
    for axis, name in enumerate(schema.names):
        lifted[:, axis] = rows[:, axis] // 2 if levels[name] == 1 else (0 if levels[name] == 2 else rows[:, axis])

    found = Counts.from_columns(schema, rows).coarsen(levels)

    assert np.array_equal(found.dense(), dense(found.schema, lifted).ravel())


@given(tables(), st.data())
def test_restriction_keeps_the_cells_inside_the_box(case: tuple[Schema, np.ndarray], data: st.DataObject) -> None:
    schema, rows = case
    axis = data.draw(st.integers(0, len(schema.sizes) - 1))
    wanted = data.draw(st.lists(st.integers(0, schema.sizes[axis] - 1), unique=True))

    found = Counts.from_columns(schema, rows).restrict({schema.names[axis]: [f"v{code}" for code in wanted]})

    assert np.array_equal(found.dense(), dense(schema, rows[np.isin(rows[:, axis], wanted)]).ravel())


@given(tables())
def test_records_and_counts_are_the_same_thing(case: tuple[Schema, np.ndarray]) -> None:
    schema, rows = case
    counts = Counts.from_columns(schema, rows)

    assert Counts.from_columns(schema, counts.expand()) == counts
    assert sorted(map(tuple, counts.expand().tolist())) == sorted(map(tuple, rows.tolist()))


@given(st.lists(st.integers(2, 2**40), min_size=2, max_size=6), st.data())
def test_cells_beyond_two_to_the_63_stay_apart(sizes: list[int], data: st.DataObject) -> None:
    radix = Schema(
        name="wide",
        unit=Unit(),
        attributes=tuple(Attribute(name=f"a{i}", domain=Wide(size)) for i, size in enumerate(sizes)),
    ).radix
    rows = data.draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in sizes)), min_size=1, max_size=20))
    exact = [_rank(row, sizes) for row in rows]
    codes = radix.encode(np.array(rows, dtype=np.int64))

    assert radix.cells == math.prod(sizes)
    assert radix.ranks(codes) == exact
    assert np.array_equal(radix.from_ranks(exact), codes)
    assert np.array_equal(radix.decode(codes), np.array(rows))
    assert [row for row, _ in itertools.groupby(sorted(map(tuple, codes.tolist())))] == [
        tuple(code) for code in radix.from_ranks(sorted(set(exact))).tolist()
    ]


def _rank(row: tuple[int, ...], sizes: list[int]) -> int:
    rank = 0
    for digit, size in zip(row, sizes, strict=True):
        rank = rank * size + digit
    return rank


class Wide:
    """A domain of any size that lists nothing."""

    is_ordered = True

    def __init__(self, size: int) -> None:
        self.size = size

    def labels(self, codes: np.ndarray) -> np.ndarray:
        return np.array([str(code) for code in codes], dtype=object)

    def code(self, label: str) -> int:
        return int(label)

    def encode(self, value: object) -> int | None:
        return int(str(value))
