"""Cells as numbers: one word where it fits, several where it does not, exact always."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.schema import Radix


def test_the_first_attribute_is_the_most_significant() -> None:
    codes = Radix((2, 3, 5)).encode(np.array([[1, 2, 3]]))

    assert codes.tolist() == [[1 * 15 + 2 * 5 + 3]]


def test_a_domain_below_two_to_the_63_takes_one_word_and_one_more_cell_takes_two() -> None:
    below = Radix((2**31, 2**31, 1))
    at = Radix((2**31, 2**32))

    assert (len(below.words), len(at.words)) == (1, 2)


def test_attributes_are_packed_greedily_from_the_front() -> None:
    radix = Radix((2**40, 2**20, 2**10, 2**62))

    assert radix.words == (range(0, 2), range(2, 3), range(3, 4))


def test_a_radix_without_attributes_has_one_cell_and_one_word() -> None:
    radix = Radix(())
    codes = radix.encode(np.empty((3, 0), dtype=np.int64))

    assert (radix.cells, codes.tolist(), radix.decode(codes).shape) == (1, [[0], [0], [0]], (3, 0))


def test_ranks_are_exact_far_beyond_an_int64() -> None:
    radix = Radix((10**18,) * 4)
    last = np.full((1, 4), 10**18 - 1)

    assert radix.ranks(radix.encode(last)) == [10**72 - 1]


def test_no_row_gives_no_row() -> None:
    radix = Radix((4, 5))

    assert radix.decode(radix.encode(np.empty((0, 2), dtype=np.int64))).shape == (0, 2)


@pytest.mark.parametrize("sizes", [(0,), (-1,), (2**63,)])
def test_a_size_that_no_attribute_can_have_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="between 1 and"):
        Radix(sizes)


@pytest.mark.parametrize("ranks", [[-1], [6]])
def test_a_rank_outside_the_domain_is_refused(ranks: list[int]) -> None:
    with pytest.raises(ParameterError, match="between 0 and 5"):
        Radix((2, 3)).from_ranks(ranks)


def test_arrays_of_another_shape_are_refused() -> None:
    radix = Radix((2, 3))

    with pytest.raises(ParameterError, match="shape"):
        radix.encode(np.zeros((4, 3), dtype=np.int64))
    with pytest.raises(ParameterError, match="shape"):
        radix.decode(np.zeros((4, 2), dtype=np.int64))
