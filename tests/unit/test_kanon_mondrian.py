"""Mondrian on sparse counts: the same parts as the textbook, halves that keep the promise, labels that say what."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sudare.methods.kanon.mondrian import ValueLine, partition
from sudare.methods.kanon.recode import Pieces
from sudare.schema import Attribute, NumberBins, TableHierarchy, Values

Codes = NDArray[np.int64]


def pieces_of(table: Codes) -> Pieces:
    codes, weights = np.unique(table, axis=0, return_counts=True)
    domain = Values(tuple(map(str, range(20))), is_ordered=True)
    attributes = tuple(Attribute(name=f"a{axis}", domain=domain) for axis in range(table.shape[1]))
    return Pieces(attributes=attributes, quasi=table.shape[1], codes=codes, weights=weights.astype(np.int64))


def holds_k(k: int):  # type: ignore[no-untyped-def]
    def holds(some: Pieces, part_of: Codes, count: int) -> NDArray[np.bool_]:
        return np.bincount(part_of, weights=some.weights, minlength=count) >= k

    return holds


def textbook(table: Codes, k: int) -> list[Codes]:
    """One part at a time on rows: the widest attribute first, values below the median to the left."""
    scale = np.maximum(1, np.ptp(table, axis=0))
    waiting, done = [np.arange(len(table))], []
    while waiting:
        part = waiting.pop(0)
        spans = np.ptp(table[part], axis=0) / scale
        for axis in np.argsort(-spans, kind="stable"):
            left = table[part, axis] < np.median(table[part, axis])
            if min(left.sum(), (~left).sum()) >= k:
                waiting += [part[left], part[~left]]
                break
        else:
            done.append(part)
    return done


def test_past_a_deadline_nothing_is_cut_and_every_part_keeps_the_promise() -> None:
    table = np.random.default_rng(2).integers(0, 8, size=(80, 3))
    pieces, counts = pieces_of(table), []
    for steps in (1, 3, 100):
        parts = partition(pieces, pieces.codes, holds_k(4), is_late=iter([*[False] * (steps - 1), True]).__next__)
        counts.append(parts.count)
        assert holds_k(4)(parts.pieces, parts.part_of, parts.count).all()
        assert parts.pieces.weights.sum() == 80

    assert counts[:2] == [1, 4]
    assert counts[2] > 4


@given(seed=st.integers(0, 10_000), k=st.integers(2, 6))
@settings(max_examples=30, deadline=None)
def test_strict_parts_are_those_of_the_textbook(seed: int, k: int) -> None:
    table = np.random.default_rng(seed).integers(0, 8, size=(80, 3))
    expected = sorted(sorted(map(tuple, table[part].tolist())) for part in textbook(table, k))
    parts = partition(pieces_of(table), pieces_of(table).codes, holds_k(k), both=False)
    rows = [
        sorted(map(tuple, np.repeat(parts.pieces.codes[mine], parts.pieces.weights[mine], axis=0).tolist()))
        for mine in (parts.part_of == part for part in range(parts.count))
    ]

    assert sorted(rows) == expected


@given(seed=st.integers(0, 10_000), k=st.integers(2, 6))
@settings(max_examples=30, deadline=None)
def test_relaxed_parts_hold_all_rows_once_and_between_k_and_2k_where_rows_differ(seed: int, k: int) -> None:
    pieces = pieces_of(np.random.default_rng(seed).integers(0, 4, size=(90, 2)))
    parts = partition(pieces, pieces.codes, holds_k(k), relaxed=True)
    sizes = np.bincount(parts.part_of, weights=parts.pieces.weights)
    kinds = [len(np.unique(parts.pieces.codes[parts.part_of == part], axis=0)) for part in range(parts.count)]
    again: Counter[tuple[int, ...]] = Counter()
    for codes, weight in zip(parts.pieces.codes.tolist(), parts.pieces.weights.tolist(), strict=True):
        again[tuple(codes)] += weight

    assert sizes.min() >= k
    assert all(size < 2 * k for size, kind in zip(sizes, kinds, strict=True) if kind > 1)
    assert again == dict(zip(map(tuple, pieces.codes.tolist()), pieces.weights.tolist(), strict=True))


def test_cutting_on_either_side_of_the_median_never_gives_fewer_rows_a_part_than_k_and_more_parts() -> None:
    pieces = pieces_of(np.minimum(np.random.default_rng(1).geometric(0.5, size=(400, 3)), 9))
    one, both = (partition(pieces, pieces.codes, holds_k(5), both=either) for either in (False, True))

    assert both.count > one.count
    assert np.bincount(both.part_of, weights=both.pieces.weights).min() >= 5


TREE = TableHierarchy.from_paths([("b", "B", "*"), ("a1", "A", "*"), ("a2", "A", "*"), ("a3", "A", "*")])
LETTERS = Attribute(name="x", domain=Values(("b", "a1", "a2", "a3")), hierarchy=TREE)
SIZES = Attribute(name="x", domain=Values(("S", "M", "L"), is_ordered=True), missing=True, outside="other")


@pytest.mark.parametrize(
    ("attribute", "span", "label"),
    [
        (Attribute(name="x", domain=NumberBins.of_width(0, 50, 10)), (1, 3, ()), "[10,40)"),
        (SIZES, (0, 1, ()), "S..M"),
        (SIZES, (1, 1, (3, 4)), "M|(other)|(missing)"),
        (SIZES, (5, -1, (4,)), None),
        (SIZES, (0, 2, (3, 4)), "*"),
        (LETTERS, (1, 3, ()), "A"),
        (LETTERS, (0, 2, ()), "b|a1|a2"),
    ],
)
def test_a_range_is_named_by_bins_ends_or_the_groups_it_holds(
    attribute: Attribute, span: tuple[int, int, tuple[int, ...]], label: str | None
) -> None:
    assert ValueLine(attribute).label(*span) == label
