"""Distances on sparse tables agree with their dense definitions, at any size, and their results cannot be stored."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.compare import Evaluation, counts_of, empty_cell_share, ks_distance, l2_distance
from sudare.counts import Counts
from sudare.errors import ParameterError, ReleaseError
from sudare.methods.microdata import Microdata
from sudare.noise import SeededRng
from sudare.schema import Attribute, Schema, Values
from sudare.testing import Tabled


def schema_of(*sizes: int) -> Schema:
    domains = [Values(tuple(f"v{code}" for code in range(size))) for size in sizes]
    return Schema(name="t", attributes=tuple(Attribute(name=f"a{i}", domain=d) for i, d in enumerate(domains)))


SMALL = schema_of(3, 2, 2)
tables = st.lists(st.integers(0, 9), min_size=12, max_size=12)


def small(values: list[int]) -> Counts:
    return Counts.build(SMALL, np.arange(12), values)


@given(true=tables, published=tables)
def test_l2_is_the_euclidean_distance_of_the_dense_tables(true: list[int], published: list[int]) -> None:
    found = l2_distance(small(true), small(published)).value

    assert found == pytest.approx(np.linalg.norm(np.subtract(true, published)), abs=1e-12)


@given(true=tables, published=tables)
def test_ks_is_the_largest_difference_of_the_cumulative_shares(true: list[int], published: list[int]) -> None:
    shares = [np.cumsum(table) / max(sum(table), 1) for table in (true, published)]

    found = ks_distance(small(true), small(published)).value

    assert found == pytest.approx(np.abs(shares[0] - shares[1]).max(), abs=1e-12)


@given(table=tables, seed=st.integers(0, 99))
def test_ks_of_tables_of_one_total_is_the_cumulative_difference_over_n(table: list[int], seed: int) -> None:
    moved = np.random.default_rng(seed).permutation(table)

    found = ks_distance(small(table), small(moved.tolist())).value

    assert found == int(np.abs(np.cumsum(np.subtract(table, moved))).max()) / max(sum(table), 1)


@given(true=tables, published=tables)
def test_the_share_in_empty_cells_counts_records_where_nobody_is(true: list[int], published: list[int]) -> None:
    misplaced = sum(new for old, new in zip(true, published, strict=True) if old == 0)

    found = empty_cell_share(small(true), small(published)).value

    assert found == misplaced / max(sum(published), 1)


def test_a_domain_of_ten_to_the_thirty_cells_is_measured_exactly() -> None:
    wide = schema_of(*[1000] * 10)
    corners = np.array([[0] * 10, [0] * 9 + [1], [500] * 10, [999] * 10])
    true = Counts.from_columns(wide, corners, [1, 0, 2, 3])
    published = Counts.from_columns(wide, corners, [0, 1, 5, 0])

    found = (l2_distance(true, published).value, ks_distance(true, published).value)

    assert found == (math.sqrt(1 + 1 + 9 + 9), 3 / 6)


def test_the_flattened_order_has_the_first_attribute_slowest_across_words() -> None:
    wide = schema_of(*[1000] * 10)
    first_moved = Counts.from_columns(wide, [[1] + [0] * 9, [2] + [999] * 9])
    last_moved = Counts.from_columns(wide, [[1] + [0] * 8 + [1], [2] + [999] * 9])

    assert ks_distance(first_moved, last_moved).value == 1 / 2


def test_counts_near_the_end_of_int64_do_not_wrap() -> None:
    huge = 2**62
    true, published = (Counts.build(SMALL, [cell], [huge]) for cell in (0, 11))

    found = (l2_distance(true, published).value, ks_distance(true, published).value)

    assert found == (math.sqrt(2) * huge, 1.0)


def test_two_empty_tables_are_at_distance_zero() -> None:
    empty = Counts.build(SMALL, [], [])

    found = [measure(empty, empty).value for measure in (l2_distance, ks_distance, empty_cell_share)]

    assert found == [0, 0, 0]


def test_tables_over_other_attributes_are_refused() -> None:
    other = Counts.build(schema_of(12), [0], [1])

    with pytest.raises(ParameterError, match="same attributes"):
        l2_distance(small([1] * 12), other)


def test_a_release_is_counted_over_the_schema_of_its_certificate() -> None:
    true = small([5, 0, 3, 0, 0, 7, 0, 0, 1, 0, 0, 4])
    rng = SeededRng(1)

    found = counts_of(Microdata(epsilon=1000).publish(Tabled(true), rng=rng))

    assert found == true


def test_a_table_the_release_does_not_have_is_named() -> None:
    release = Microdata(epsilon=1).publish(Tabled(small([1] * 12)), rng=SeededRng(1))

    with pytest.raises(ReleaseError, match="no table cells; it has records"):
        counts_of(release, frame="cells")


@pytest.mark.parametrize("store", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_evaluation_refuses_to_be_stored(store: object) -> None:
    with pytest.raises(ReleaseError, match="not for publication"):
        store(Evaluation("L2 distance", 1.0))  # type: ignore[operator]


def test_json_does_not_take_an_evaluation() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps({"l2": Evaluation("L2 distance", 1.0)})


def test_an_evaluation_is_stamped_and_cannot_be_changed() -> None:
    found = Evaluation("L2 distance", 1.0)

    with pytest.raises(AttributeError, match="immutable"):
        found.value = 2.0  # type: ignore[misc]

    assert "not for publication" in repr(found)
