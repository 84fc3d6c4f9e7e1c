"""What is worked out a quicker way is what the plain way gives."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.asking.axes import _find_cell
from sudare.asking.expressions import read_number
from sudare.asking.functionals import split_tensor
from sudare.methods.view.junction_tree import CliqueTree, Factors
from sudare.methods.view.leaves import LEAST_HEAP, MOST_PLACES, _find_heap
from sudare.methods.view.products import multiply_tables, weigh_all
from sudare.methods.view.repeated import REPEATS, RepeatedBoxes

WIDTHS = (3, 4, 2, 5)
FRACTIONS = st.fractions(min_value=-5, max_value=5, max_denominator=10**6)


@given(share=st.one_of(st.floats(0, 1), st.fractions(0, 1, max_denominator=12).map(float)), off=st.floats(-3e-3, 3e-3))
@settings(max_examples=400)
def test_a_heap_is_what_the_nearest_fraction_of_few_places_says(share: float, off: float) -> None:
    at = min(max(share + off, 0.0), 1.0)
    plain = max(LEAST_HEAP, 1 / Fraction(at).limit_denominator(MOST_PLACES).denominator)

    assert _find_heap(at) == plain


@given(marks=st.lists(FRACTIONS, min_size=1, max_size=8, unique=True), mark=FRACTIONS, tiny=st.integers(-2, 2))
def test_the_cell_of_a_number_is_found_exactly_where_floats_are_equal(
    marks: list[Fraction], mark: Fraction, tiny: int
) -> None:
    ordered = sorted({*marks, *(one + Fraction(1, 10**20) for one in marks)})
    floats = np.array([float(one) for one in ordered])

    for asked in (mark, marks[0] + tiny * Fraction(1, 10**20)):
        assert _find_cell(ordered, floats, asked) == bisect_right(ordered, asked) - 1


@given(whole=st.integers(0, 10**30), part=st.text(alphabet="0123456789", max_size=30))
def test_decimals_are_read_exactly(whole: int, part: str) -> None:
    assert read_number(f"{whole}.{part}").value == Fraction(f"{whole}.{part or '0'}")
    assert read_number(f".{part or '5'}").value == Fraction(f"0.{part or '5'}")


def _factors(rng: np.random.Generator) -> Factors:
    whole = rng.gamma(0.5, size=(3, *WIDTHS))
    tree = CliqueTree(((0, 1), (1, 2), (2, 3)), ((0, 1), (1, 2)))
    return Factors(tree, (whole.sum(axis=(3, 4)), whole.sum(axis=(1, 4)), whole.sum(axis=(1, 2))))


@given(seed=st.integers(0, 1000), uneven=st.sets(st.sampled_from([1, 3])))
@settings(max_examples=40)
def test_boxes_that_share_weights_are_answered_as_if_they_were_alone(seed: int, uneven: set[int]) -> None:
    rng = np.random.default_rng(seed)
    factors, boxes = _factors(rng), RepeatedBoxes(_factors(np.random.default_rng(seed)))
    shared = {axis: rng.random((3, WIDTHS[axis])) for axis in (0, 2)}
    found = []
    for number in range(3 * REPEATS):
        evidence = {**shared, 1: rng.random((3, 4)), 3: rng.random((3, 5))}
        table = boxes.find(evidence, uneven)
        if table is not None:
            found.append(number)
            assert uneven <= set(table[1])
            assert weigh_all(*table, evidence) == pytest.approx(Factors(factors.tree, factors.tables).answer(evidence))

    assert found == list(range(REPEATS, 3 * REPEATS))


@given(seed=st.integers(0, 1000), own=st.permutations([0, 1, 2]).map(lambda axes: tuple(axes)), size=st.integers(1, 3),
       needed=st.sets(st.sampled_from([0, 1, 2, 7])))  # fmt: skip
def test_a_table_times_a_smaller_one_is_their_sum_of_products(
    seed: int, own: tuple[int, ...], size: int, needed: set[int]
) -> None:
    rng, letters = np.random.default_rng(seed), "abc"
    first = rng.random((2, 3, 4, 2))
    more = own[:size]
    second = rng.random((2, *(first.shape[1 + axis] for axis in more)))
    table, axes = multiply_tables(first, (0, 1, 2), second, more, needed)
    out = "".join(letters[axis] for axis in axes)
    plain = np.einsum(f"vabc,v{''.join(letters[axis] for axis in more)}->v{out}", first, second)

    assert set(axes) == needed & {0, 1, 2}
    assert table == pytest.approx(plain)


@given(seed=st.integers(0, 1000), kept=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=6))
@settings(max_examples=40)
def test_a_clique_summed_over_attributes_one_by_one_is_its_sum_over_all_of_them(
    seed: int, kept: list[set[int]]
) -> None:
    whole = np.random.default_rng(seed).gamma(0.5, size=(3, *WIDTHS))
    factors = Factors(CliqueTree(((0, 1, 2, 3),), ()), (whole,))

    for some in kept:
        out = tuple(1 + axis for axis in range(4) if axis not in some)
        np.testing.assert_allclose(factors._sum_clique(0, tuple(sorted(some))), whole.sum(axis=out))


@given(
    first=st.lists(st.integers(-3, 3), min_size=2, max_size=5),
    second=st.lists(st.integers(-3, 3), min_size=2, max_size=5),
)
def test_weights_that_are_products_are_one_box_and_others_are_not(first: list[int], second: list[int]) -> None:
    tensor = np.multiply.outer(np.array(first, dtype=float), np.array(second, dtype=float))
    boxes = split_tensor(tensor, (0, 1))

    assert len(boxes) <= 1
    assert np.allclose(sum(np.multiply.outer(box[0], box[1]) for box in boxes), tensor)
    if any(first) and any(second):
        tensor = tensor + np.eye(*tensor.shape)
        assert np.allclose(sum(np.multiply.outer(box[0], box[1]) for box in split_tensor(tensor, (0, 1))), tensor)
