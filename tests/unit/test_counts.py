"""The doors of Counts: what they refuse, and what they never show."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import DomainError, ParameterError
from sudare.schema import Attribute, Schema, Unit, Values

SEX = Attribute(name="sex", domain=Values(values=("F", "M")))
SCHEMA = Schema(name="members", unit=Unit(), attributes=(SEX,))


def test_the_repr_shows_no_value_no_total_and_no_number_of_filled_cells() -> None:
    counts = Counts.from_columns(SCHEMA, [[0], [1]], [104729, 1299709])

    assert repr(counts) == "<Counts of 'members' over sex: 2 cells>"


def test_counts_cannot_be_changed() -> None:
    counts = Counts.from_columns(SCHEMA, [[0]], [3])

    with pytest.raises(AttributeError):
        counts.total = 5  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        counts.values[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        counts.codes[0] = 5


def test_the_arrays_handed_in_are_not_frozen_for_their_owner() -> None:
    values = np.array([1, 2])
    Counts.build(SCHEMA, [[0], [1]], values)
    values[0] = 7

    assert values[0] == 7


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ParameterError, match="must not be negative"):
        Counts.build(SCHEMA, [[0]], [-1])


def test_codes_outside_the_domain_are_refused() -> None:
    with pytest.raises(DomainError):
        Counts.build(SCHEMA, [[2]], [1])
    with pytest.raises(DomainError):
        Counts.from_columns(SCHEMA, [[-1]])


def test_a_sum_beyond_int64_is_refused_and_never_wraps() -> None:
    with pytest.raises(ParameterError, match="add up to more than"):
        Counts.build(SCHEMA, [[0], [0]], [2**62, 2**62])


def test_a_dense_table_of_a_huge_domain_is_refused() -> None:
    wide = [Attribute(name=f"a{i}", domain=Values(values=tuple(map(str, range(1000))))) for i in range(10)]
    counts = Counts.from_columns(Schema(name="wide", unit=Unit(), attributes=tuple(wide)), [[999] * 10])

    assert counts.schema.size == 10**30
    assert counts.schema.radix.ranks(counts.codes) == [10**30 - 1]
    with pytest.raises(ParameterError, match="fewer attributes"):
        counts.dense()


def test_zero_cells_are_not_stored() -> None:
    assert Counts.build(SCHEMA, [[0], [1]], [0, 4]).nonzero == 1
