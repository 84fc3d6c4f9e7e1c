"""Intervals of views: each test holds one cause of intervals that were too wide or too narrow, lest it comes back."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.methods.view import View, open_view
from sudare.methods.view.leaves import LEAST_HEAP, LeafAxis, LeafWeights
from sudare.methods.view.tables import TableView
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema, Values


class SizeSource:
    """A number that lies anywhere between 0 and 8 and a group, counted as coarse or as fine as is asked."""

    def __init__(self, sizes: np.ndarray, groups: np.ndarray) -> None:
        size = Attribute(name="size", domain=NumberBins.of_width(0, 8, 1), grain=Fraction(0))
        group = Attribute(name="group", domain=Values(("a", "b")))
        self.schema = Schema(name="things", attributes=(size, group))
        self.sizes, self.groups = sizes, groups

    def count(self, by: object = None) -> Counts:
        return self.count_over(self.schema)

    def count_over(self, schema: Schema) -> Counts:
        domain = schema.attribute("size").domain
        assert isinstance(domain, NumberBins)
        edges = np.array([float(edge) for edge in domain.edges])
        codes = np.clip(np.searchsorted(edges, self.sizes, side="right") - 1, 0, domain.size - 1)
        return Counts.from_columns(schema, np.column_stack([codes, self.groups]))


@pytest.fixture(scope="module")
def sizes() -> np.ndarray:
    return np.clip(np.random.default_rng(4).normal(4, 1.2, 20_000), 0, 7.999)


@pytest.fixture(scope="module")
def stored(sizes: np.ndarray) -> TableView:
    groups = np.random.default_rng(5).integers(0, 2, sizes.size)
    opened = open_view(View(epsilon=3).publish(SizeSource(sizes, groups), rng=SeededRng(6))).stored
    assert isinstance(opened, TableView)
    return opened


def take(leaves: np.ndarray) -> LeafWeights:
    return LeafWeights.plain(leaves.astype(np.float64))


def test_what_faint_leaves_hide_cannot_change_the_count_that_they_share_out(stored: TableView) -> None:
    """Counts of whole cells were told three times too wide, by the noise of leaves whose sum is known."""
    axis = stored.axes[0]
    groups = np.arange(axis.size) // 10
    view = dataclasses.replace(stored, faint=tuple(np.full(one.size, 400.0) for one in stored.axes),
                               groups=(groups, np.full(stored.axes[1].size, -1)))  # fmt: skip
    plain = dataclasses.replace(view, faint=())
    whole, half = (take(np.arange(axis.size) < end) for end in (30, 35))

    assert view.moments([{0: whole}]).noise == pytest.approx(plain.moments([{0: whole}]).noise)
    assert view.moments([{0: half}]).noise > plain.moments([{0: half}]).noise + 400


def test_faint_leaves_that_stand_alone_hide_their_noise_on_the_smaller_side(stored: TableView) -> None:
    size = stored.axes[0].size
    view = dataclasses.replace(stored, faint=tuple(np.full(one.size, 400.0) for one in stored.axes), groups=())
    few, rest = take(np.arange(size) < 3), take(np.arange(size) >= 3)
    plain = dataclasses.replace(view, faint=())

    for taken in (few, rest):
        assert view.moments([{0: taken}]).noise == pytest.approx(plain.moments([{0: taken}]).noise + 1200, abs=400)


def test_leaves_below_a_cut_cell_share_out_its_count(stored: TableView) -> None:
    groups = stored.groups[0]
    lengths = np.bincount(groups[groups >= 0])

    assert stored.axes[0].size > 100
    assert (groups >= 0).mean() > 0.9
    assert lengths[lengths > 0].max() <= 100
    assert np.all(np.diff(np.flatnonzero(groups == groups.max())) == 1)  # a group lies together


def test_a_count_of_many_leaves_is_nearly_as_sure_as_that_of_the_cells_they_lie_in(
    stored: TableView, sizes: np.ndarray
) -> None:
    """The interval of [3, 5) was many times as wide before faint leaves were grouped."""
    lows = stored.axes[0].starts
    is_taken = np.zeros(stored.axes[0].size, dtype=bool)
    is_taken[: lows.size] = (lows >= 3) & (lows < 5)
    moments = stored.moments([{0: take(is_taken)}])

    assert abs(moments.value - ((sizes >= 3) & (sizes < 5)).sum()) < moments.reach(0.95)
    assert moments.reach(0.95) < 150


@pytest.mark.parametrize(("end", "heap"), [(0.0, 1.0), (0.5, 0.5), (0.3, LEAST_HEAP), (0.14, LEAST_HEAP)])
def test_rounded_numbers_may_lie_where_a_leaf_is_cut_the_less_the_finer_it_is_cut(end: float, heap: float) -> None:
    axis = LeafAxis(codes=np.arange(3), lows=(Fraction(0), Fraction(1), Fraction(2)),
                    highs=(Fraction(1), Fraction(2), Fraction(3)))  # fmt: skip
    share = end + 1e-6  # the end belongs to it

    class Cut:
        mean = square = np.array([1.0, share, 0.0])
        low, high = np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0])

    heaps = axis.read(Cut()).heaps

    assert heaps is not None
    assert heaps.tolist() == pytest.approx([0.0, heap, 0.0])
