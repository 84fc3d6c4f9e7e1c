"""Intervals of views: each test holds one cause of intervals that were too wide or too narrow, lest it comes back."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from sudare.asking.protocol import AxisWeight, Moments, ShiftedSum
from sudare.counts import Counts
from sudare.methods.view import View, open_view
from sudare.methods.view.exam import widen_model
from sudare.methods.view.fit import Pair
from sudare.methods.view.leaves import LEAST_HEAP, LeafAxis, LeafWeights
from sudare.methods.view.prepared_axis import TREND, prepare_rows
from sudare.methods.view.tables import TableView
from sudare.methods.view.uncertainty import ERROR_WITHOUT_PAIRS, SAMPLING_VARIANCE, model_error
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema, Values
from sudare.testing import Tabled


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


@pytest.mark.parametrize(("taken", "heap"), [(1, 1.0), (5, 0.5), (6, 0.5), (9, 1.0), (3, 0.0)])
def test_whole_numbers_may_be_rounded_to_where_all_leaves_begin(taken: int, heap: float) -> None:
    """Of ratings in leaves of ten, most of which are 30, 40, 50, `<= 50` lay 3.4 half widths outside its interval."""
    axis = _make_leaves(0, 10, 20, 30)
    share = taken / 10

    class Cut:
        mean = square = np.array([1.0, share, 0.0])
        low, high = np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0])

    class Weighted(Cut):
        square = np.array([1.0, share + 1e-12, 0.0])

    for cut in (Cut(), Weighted()):
        heaps = axis.read(cut).heaps

        assert heaps is not None
        assert heaps.tolist() == pytest.approx([0.0, heap, 0.0])


@pytest.mark.parametrize("ends", [(0, 2, 4, 6), (3, 13, 23, 33), (0, 8, 16, 24)])
def test_leaves_that_begin_at_other_numbers_show_what_is_rounded(ends: tuple[int, ...]) -> None:
    """There a heap lies in some leaves and not in their neighbours, and stands out."""
    axis = _make_leaves(*ends)
    share = 1 / (ends[1] - ends[0])

    class Cut:
        mean = square = np.array([1.0, share, 0.0])
        low, high = np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0])

    heaps = axis.read(Cut()).heaps

    assert heaps is not None
    assert not heaps.any()


def _make_leaves(*ends: int) -> LeafAxis:
    """Leaves of whole numbers between these ends."""
    return LeafAxis(codes=np.arange(len(ends) - 1), lows=tuple(map(Fraction, ends[:-1])),
                    highs=tuple(map(Fraction, ends[1:])), grain=Fraction(1))  # fmt: skip


def _make_tenths(heaps: list[int]) -> tuple[LeafAxis, np.ndarray]:
    """Leaves of a tenth from 0 to 8 with a record each, some of them with a hundred."""
    ends = [Fraction(place, 10) for place in range(81)]
    axis = LeafAxis(codes=np.arange(80), lows=tuple(ends[:-1]), highs=tuple(ends[1:]))
    shares = np.ones(80)
    shares[heaps] = 100.0
    return axis, shares / shares.sum()


def test_leaves_that_stand_out_at_round_numbers_are_heaps_there() -> None:
    rounded, anywhere = [10, 20, 30, 40, 50, 60, 70, 75], [7, 13, 20, 32, 41, 48, 59, 66]

    heaped = LeafAxis.find_heaped(*_make_tenths(rounded))

    assert np.flatnonzero(heaped).tolist() == rounded
    assert heaped[rounded].min() > 0.85
    assert not LeafAxis.find_heaped(*_make_tenths(anywhere)).any()
    assert not LeafAxis.find_heaped(*_make_tenths([])).any()
    assert not LeafAxis.find_heaped(*_make_tenths([20])).any()  # one may be there by chance


def test_numbers_without_a_grain_that_are_mostly_whole_are_counted_up_to_a_closed_end() -> None:
    """Ages of which a few are no whole years: `<= 3` left out everybody of 3, whom `> 3` counted."""
    generator = np.random.default_rng(8)
    years = generator.integers(0, 8, 8_000).astype(float)
    years[:80] = generator.random(80) * 7.9
    source = SizeSource(years, generator.integers(0, 2, years.size))
    view = open_view(View(epsilon=20, neighbours="add-remove").publish(source, rng=SeededRng(6)))
    asked = {
        "<= 3": (years <= 3).sum(), "> 3": (years > 3).sum(), "< 3": (years < 3).sum(),
        "BETWEEN 2 AND 5": ((years >= 2) & (years <= 5)).sum(),
    }  # fmt: skip
    found = {condition: view.sql(f"SELECT COUNT(*) FROM view WHERE size {condition}").rows[0][0] for condition in asked}

    assert {condition: each.value for condition, each in found.items()} == pytest.approx(asked, abs=200)
    assert all(found[condition].low <= true <= found[condition].high for condition, true in asked.items())
    assert found["<= 3"].value + found["> 3"].value == pytest.approx(
        view.sql("SELECT COUNT(*) FROM view").rows[0][0].value
    )


def test_a_cut_leaf_moves_an_interval_no_farther_than_all_of_its_records(stored: TableView) -> None:
    """Both sides were as long as if a leaf could lie beyond its ends: 2.3 times its records instead of 1."""
    axis, counts = stored.axes[0], stored.count_leaves(0)
    leaf = int(np.argmax(counts[: axis.counted]))
    low = (np.arange(axis.size) < leaf).astype(np.float64)
    high, mean = low.copy(), low.copy()
    high[leaf], mean[leaf] = 1.0, 0.25
    moments = stored.moments([{0: AxisWeight(mean, mean, low, high)}])
    plain = dataclasses.replace(moments, inside=0.0).reach(0.95)

    assert moments.below == pytest.approx(0.25 * counts[leaf])
    assert moments.above == pytest.approx(0.75 * counts[leaf])
    assert moments.reaches(0.95) == (min(moments.reach(0.95), moments.below + plain),
                                     min(moments.reach(0.95), moments.above + plain))  # fmt: skip


def test_two_cut_attributes_can_move_a_count_by_what_both_of_them_leave_open(stored: TableView) -> None:
    axis = stored.axes[0]
    high = (np.arange(axis.size) < axis.size // 2).astype(np.float64)
    both = np.ones(stored.axes[1].size)
    cut = [AxisWeight(0.5 * one, 0.5 * one, 0.0 * one, one) for one in (high, both)]
    moments = stored.moments([dict(enumerate(cut))])

    assert moments.below == pytest.approx(moments.value)  # nobody is left
    assert moments.above == pytest.approx(3 * moments.value)  # all four quarters


def test_a_well_known_count_has_the_noise_of_its_replicates_alone(stored: TableView) -> None:
    """The least variance was added to it: groups were told 1.3 times too wide."""
    whole = take(np.arange(stored.axes[1].size) < 1)
    noise = stored.moments([{1: whole}]).noise

    assert noise == pytest.approx(max(dataclasses.replace(stored, floor=0.0).moments([{1: whole}]).noise, stored.floor))
    assert dataclasses.replace(stored, floor=1e6).moments([{1: whole}]).noise == 1e6


def test_no_count_and_no_sum_is_told_to_be_above_what_all_records_can_make_up() -> None:
    sizes = np.random.default_rng(7).uniform(0, 7.9, 60)
    view = open_view(View(epsilon=0.1).publish(SizeSource(sizes, np.arange(60) % 2), rng=SeededRng(8)))
    ((everybody,),) = view.sql("SELECT COUNT(*) FROM view").rows
    ((few, added),) = view.sql("SELECT COUNT(*), SUM(size) FROM view WHERE size >= 2 AND \"group\" = 'a'").rows

    assert few.high <= everybody.high
    assert added.high <= 8 * everybody.high
    assert few.low >= 0


def test_sums_of_numbers_allow_for_trends_that_boxes_see_in_part(stored: TableView) -> None:
    axis = stored.axes[0]
    middle = np.zeros(axis.size)
    middle[: axis.counted] = (axis.starts + axis.stops) / 2
    graded, box = prepare_rows(0, [take(middle), take(middle > 4)], stored.find_facts(0), stored)

    assert graded.doubted.variance == TREND * graded.spread.variance
    assert box.doubted == box.spread


def _list_numbers(moments: Moments) -> list[float]:
    """All figures of an estimate, without one that has no figure beside it in the files."""
    return [number for number in dataclasses.astuple(moments) if number is not None]


def test_numbers_less_their_mean_have_the_errors_that_they_would_have_by_themselves(stored: TableView) -> None:
    axis, group = stored.axes[0], AxisWeight.exactly(np.array([1.0, 0.0]))
    middle, width = np.zeros(axis.size), np.zeros(axis.size)
    middle[: axis.counted], width[: axis.counted] = (axis.starts + axis.stops) / 2, axis.stops - axis.starts
    numbers = AxisWeight(middle, middle**2 + width**2 / 12, middle - width / 2, middle + width / 2)
    (summed,) = stored.moments_of_all([[{0: numbers, 1: group}]])
    assert stored.moments_of_shifts([ShiftedSum({0: numbers, 1: group}, 0, 1.0, -3.5)]) == [None]  # nobody is counted
    stored.moments_of_all([[{1: group}]])
    for factor, addend in ((1.0, -3.5), (0.001, 0.25)):
        mean = factor * middle + addend
        ends = (factor * (middle - width / 2) + addend, factor * (middle + width / 2) + addend)
        plain = AxisWeight(mean, mean**2 + factor**2 * width**2 / 12, *ends)
        (quick,) = stored.moments_of_shifts([ShiftedSum({0: numbers, 1: group}, 0, factor, addend)])
        (slow,) = stored.moments_of_all([[{0: plain, 1: group}]])
        assert quick is not None

        assert _list_numbers(quick) == pytest.approx(_list_numbers(slow), rel=1e-9, abs=1e-9)
        assert quick.noise + quick.inside < summed.noise + summed.inside


def test_a_count_is_the_same_after_a_sum_over_the_same_records_as_before_it(stored: TableView) -> None:
    middle = np.zeros(stored.axes[0].size)
    middle[: stored.axes[0].counted] = (stored.axes[0].starts + stored.axes[0].stops) / 2
    numbers, group = AxisWeight.exactly(middle), AxisWeight.exactly(np.array([1.0, 0.0]))
    before = stored.moments([{1: group}])
    again = dataclasses.replace(stored)  # knows nothing yet
    again.moments([{0: numbers, 1: group}])
    after = again.moments([{1: group}])

    assert _list_numbers(after) == pytest.approx(_list_numbers(before), rel=1e-9)


def test_a_share_of_few_records_lies_between_nothing_and_all_and_a_shifted_one_need_not() -> None:
    """Shares of groups had no interval where all records may be nobody; a count plus 5 was cut off at its whole."""
    sizes = np.random.default_rng(9).uniform(0, 7.9, 40)
    view = open_view(View(epsilon=0.1).publish(SizeSource(sizes, np.arange(40) % 2), rng=SeededRng(10)))
    shares = view.sql('SELECT "group", 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () FROM view GROUP BY "group"').rows
    ((shifted,),) = view.sql("SELECT (COUNT(*) + 5) / COUNT(*) FROM view").rows

    assert all(0 <= share.low <= share.high <= 100 for _, share in shares)
    assert shifted.value > 1


def test_two_points_that_each_hold_nearly_nothing_of_a_leaf_may_hold_all_of_both(stored: TableView) -> None:
    """COUNT of x = 6.9 AND y = 12 was 0 up to 6 where 151 lay: each part was weighed by the other's next to nothing."""
    narrow = [np.full(axis.size, 1e-6) for axis in stored.axes]
    cut = {axis: AxisWeight(mean, mean, 0.0 * mean, 0.0 * mean + 1.0) for axis, mean in enumerate(narrow)}
    moments = stored.moments([cut])

    assert moments.value < 1
    assert moments.inside > (0.1 * stored.count_leaves(0).max()) ** 2
    assert moments.above == pytest.approx(stored.total, rel=0.01)


def test_noise_with_heavy_tails_tells_less_of_its_variance_the_fewer_cells_are_added_up(stored: TableView) -> None:
    """Ten draws of Laplace noise tell as much of its variance as four of the normal law: groups were too narrow."""
    leaves = np.arange(stored.axes[0].size)
    one, many = (stored.moments([{0: take(leaves < end)}]).replicates for end in (1, 30))
    normal = dataclasses.replace(stored, is_gaussian=True).moments([{0: take(leaves < 1)}]).replicates

    assert (one, many, normal) == (4.0, pytest.approx(10 / 1.05), 10.0)


def test_a_pair_that_only_the_junction_tree_put_into_a_clique_is_no_measured_one() -> None:
    """Titanic at epsilon 10: gender x parch was told as if measured, 1,543 [1,527, 1,558] where 1,584 was true."""
    generator = np.random.default_rng(3)
    columns = np.column_stack([generator.integers(0, 4, 3_000) for _ in range(3)])
    schema = Schema(name="three", attributes=tuple(Attribute(name=n, domain=Values(tuple("wxyz"))) for n in "abc"))
    release = View(epsilon=20).publish(Tabled(Counts.from_columns(schema, columns)), rng=SeededRng(1))
    whole = open_view(release).stored
    assert isinstance(whole, TableView)
    chain = dataclasses.replace(whole, measured=((0, 1), (1, 2)), tau_squared=1e6, scales=(1.0, 0.5, 2.0))
    box = {place: np.array([1.0, 1.0, 0.0, 0.0]) for place in (0, 2)}
    measured = {place: np.array([1.0, 1.0, 0.0, 0.0]) for place in (0, 1)}

    assert whole.known_pairs == whole.held_pairs == {(0, 1), (0, 2), (1, 2)}
    assert chain.known_pairs == {(0, 1), (1, 2)}
    assert chain.moments([box]).model > 9 * chain.moments([measured]).model
    assert dataclasses.replace(chain, measured=()).known_pairs == chain.held_pairs  # earlier releases name no pairs


def test_no_exam_narrows_what_chance_alone_makes_of_a_pair_that_was_not_measured() -> None:
    assert widen_model(4.0, 100.0, 0.5) == pytest.approx(25.0)
    assert widen_model(4.0, 100.0, 0.5, 60.0) == pytest.approx(60.0)
    assert widen_model(4.0, 100.0, 2.0, 60.0) == widen_model(4.0, 100.0, 2.0)
    assert widen_model(4.0, 100.0, 0.5, 400.0) == pytest.approx(100.0)  # nor are intervals widened by it


def _look_at_pairs(number: int, deviation: float, *, is_blind: bool = False) -> float:
    """`model_error` of so many 4 x 4 tables of 10,000 records each, which are off by noise alone."""
    generator = np.random.default_rng(4)
    expected = np.full((4, 4), 625.0)
    pairs = tuple(
        Pair(first=place, second=place + 1, values=expected + generator.normal(0, 0.9 * deviation, (4, 4)),
             variance=deviation**2, last=True) for place in range(number)
    )  # fmt: skip
    earlier = SimpleNamespace(totals=np.array([10_000.0]), joint=lambda _: expected[None])
    drawn = SimpleNamespace(measured=SimpleNamespace(pairs=pairs), earlier=earlier, knows_all_pairs=False,
                            is_blind=is_blind)  # fmt: skip
    return model_error(drawn, rng=SeededRng(3))  # type: ignore[arg-type]


def test_pairs_whose_noise_hides_how_far_they_are_off_tell_no_independence() -> None:
    """Their mean was below 0, and chance alone was supposed: 80 to 87 of 100 intervals of such a view held."""
    chance, blind = SAMPLING_VARIANCE * 10_000, (ERROR_WITHOUT_PAIRS * 10_000) ** 2

    assert 10 * chance < _look_at_pairs(12, 150.0) < blind
    assert _look_at_pairs(12, 2_000.0) == blind  # more is not supposed where nothing is told
    assert _look_at_pairs(12, 1.0) == chance  # told: independent
    assert _look_at_pairs(1, 150.0) == chance
    assert _look_at_pairs(12, 150.0, is_blind=True) == blind
