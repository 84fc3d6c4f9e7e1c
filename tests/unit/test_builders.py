"""Hierarchies by rule, and the rules that do not fit."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from sudare.errors import HierarchyError
from sudare.schema import DateBins, NumberBins, TableHierarchy, Values
from sudare.schema.hierarchy_rules import PREFECTURES, dates, intervals, masking, ordered_groups, prefecture_regions

YEAR = DateBins.of_width("2024-01-01", "2024-12-31", "1 day")


def names(tree: TableHierarchy) -> list[tuple[str, ...]]:
    return list(tree.names[1:])


# --- intervals ----------------------------------------------------------------------------------------------------


def test_intervals_begin_at_multiples_of_their_width_and_are_cut_at_both_ends() -> None:
    tree = intervals(NumberBins.of_width(17, 43, 1), [10, 20])

    assert names(tree) == [("[17,20)", "[20,30)", "[30,40)", "[40,43]"), ("[17,20)", "[20,40)", "[40,43]"), ("*",)]


def test_bins_without_edges_at_multiples_are_counted_from_their_start() -> None:
    tree = intervals(NumberBins.of_width(3, 23, 5), [10])

    assert names(tree) == [("[3,13)", "[13,23]"), ("*",)]


def test_decimal_widths_are_exact() -> None:
    tree = intervals(NumberBins.of_width(0, "0.9", "0.1"), ["0.3"])

    assert names(tree)[0] == ("[0,0.3)", "[0.3,0.6)", "[0.6,0.9]")


def test_uneven_bins_can_be_joined_where_they_have_edges() -> None:
    edges = (0, 5, 10, 20, 40)

    assert names(intervals(NumberBins(edges), [20]))[0] == ("[0,20)", "[20,40]")  # type: ignore[arg-type]
    with pytest.raises(HierarchyError, match="would cut a bin"):
        intervals(NumberBins(edges), [10])  # type: ignore[arg-type]


def test_a_last_level_of_one_interval_is_the_top_itself() -> None:
    assert names(intervals(NumberBins.of_width(0, 20, 5), [10, 20])) == [("[0,10)", "[10,20]"), ("*",)]


@pytest.mark.parametrize("widths", [[], [10, 15], [10, 10], [20, 10], [0], [-5], [7], ["x"]])
def test_widths_that_do_not_nest_or_cut_bins_are_refused(widths: list[int]) -> None:
    with pytest.raises(HierarchyError):
        intervals(NumberBins.of_width(0, 100, 5), widths)


# --- groups -------------------------------------------------------------------------------------------------------


def test_groups_are_counted_from_the_first_value_and_named_by_their_ends() -> None:
    tree = ordered_groups(Values(tuple("abcde"), is_ordered=True), [2, 4])

    assert names(tree) == [("a..b", "c..d", "e"), ("a..d", "e"), ("*",)]


def test_groups_of_bins_are_wider_bins() -> None:
    assert names(ordered_groups(NumberBins.of_width(0, 20, 5), [2]))[0] == ("[0,10)", "[10,20]")


@pytest.mark.parametrize("sizes", [[], [1], [2, 3], [0], [4, 2]])
def test_sizes_that_do_not_nest_are_refused(sizes: list[int]) -> None:
    with pytest.raises(HierarchyError):
        ordered_groups(Values(tuple("abcd"), is_ordered=True), sizes)


def test_groups_of_values_without_an_order_are_refused() -> None:
    with pytest.raises(HierarchyError, match="need an order"):
        ordered_groups(Values(("a", "b")), [2])


# --- dates --------------------------------------------------------------------------------------------------------


def test_days_climb_to_months_quarters_years_and_decades() -> None:
    tree = dates(DateBins.of_width("2019-01-01", "2020-12-31", "1 day"), ["month", "quarter", "year", "decade"])
    day = tree.lift(np.array([365]), 1)

    assert [tree.size(level) for level in range(6)] == [731, 24, 8, 2, 2, 1]
    assert tree.labels(day, 1).tolist() == ["2020-01"]
    assert names(tree)[1][0] == "2019-Q1"
    assert names(tree)[3] == ("2010s", "2020s")


def test_days_climb_to_iso_weeks_alone() -> None:
    tree = dates(YEAR, ["week"])

    assert (names(tree)[0][0], names(tree)[0][-1], tree.size(1)) == ("2024-W01", "2025-W01", 53)


@pytest.mark.parametrize("units", [[], ["day"], ["year", "month"], ["month", "month"], ["week", "month"]])
def test_units_that_do_not_nest_are_refused(units: list[str]) -> None:
    with pytest.raises(HierarchyError, match="in this order, or week alone"):
        dates(YEAR, units)  # type: ignore[arg-type]


def test_a_bin_that_lies_in_two_months_is_refused() -> None:
    weeks = DateBins((date(2024, 1, 1), date(2024, 1, 29), date(2024, 2, 4)))

    with pytest.raises(HierarchyError, match="more than one month"):
        dates(weeks, ["month"])


# --- masking ------------------------------------------------------------------------------------------------------


def test_postal_codes_are_masked_from_the_right() -> None:
    tree = masking(["1000001", "1000002", "1500001"], characters=2, steps=2)

    assert names(tree) == [("10000**", "15000**"), ("100****", "150****"), ("*",)]


def test_masking_goes_on_until_nothing_is_left_and_can_start_from_the_left() -> None:
    assert names(masking(Values(("ab", "cb")), side="left")) == [("*b",), ("*",)]


def test_codes_of_different_length_keep_their_length() -> None:
    assert names(masking(["1", "12", "123"]))[:2] == [("*", "1*", "12*"), ("*", "**", "1**")]


@pytest.mark.parametrize("wrong", [{"side": "middle"}, {"characters": 0}, {"steps": 0}])
def test_masks_that_are_none_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(HierarchyError, match="masking"):
        masking(["12", "13"], **wrong)  # type: ignore[arg-type]


# --- prefectures --------------------------------------------------------------------------------------------------


def test_there_are_47_prefectures_in_jis_order() -> None:
    order = [PREFECTURES[code - 1] for code in (1, 8, 13, 23, 27, 33, 40, 47)]

    assert len(set(PREFECTURES)) == 47
    assert order == ["北海道", "茨城県", "東京都", "愛知県", "大阪府", "岡山県", "福岡県", "沖縄県"]


def test_prefectures_climb_to_eight_regions() -> None:
    tree = prefecture_regions()

    assert names(tree) == [("北海道", "東北", "関東", "中部", "近畿", "中国", "四国", "九州・沖縄"), ("*",)]
    assert np.bincount(tree.parents[0]).tolist() == [1, 6, 7, 9, 7, 5, 4, 8]


def test_names_may_be_short_or_jis_codes() -> None:
    tree = prefecture_regions(["東京", "京都", "北海道", "13", "1", "47"])

    assert tree.labels(tree.parents[0], 1).tolist() == ["関東", "近畿", "北海道", "関東", "北海道", "九州・沖縄"]


@pytest.mark.parametrize("value", ["江戸", "48", "00", "東京府", "道"])
def test_what_is_no_prefecture_is_refused(value: str) -> None:
    with pytest.raises(HierarchyError, match="no Japanese prefecture"):
        prefecture_regions(["東京都", value])
