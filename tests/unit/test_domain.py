"""Declared values: what a raw value means, exactly, and what is refused."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError, SchemaError
from sudare.schema import DateBins, Domain, NumberBins, Values


def labels(domain: Domain) -> list[str]:
    return domain.labels(np.arange(domain.size)).tolist()


# --- listed values ------------------------------------------------------------------------------------------------


def test_a_value_is_found_by_its_exact_text() -> None:
    values = Values(("1", "true", "2024-01-05", " x"))

    assert [values.encode(raw) for raw in (1, True, date(2024, 1, 5), " x", "x", "1 ")] == [0, 1, 2, 3, None, None]


@pytest.mark.parametrize(
    ("values", "reason"),
    [((), "empty"), (("a", "b", "a"), r"\(a repeated\)"), (("a", ""), "missing = true"), ((1, 2), "quotes")],
)
def test_lists_of_values_that_say_nothing_or_two_things_are_refused(values: tuple[str, ...], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        Values(values)


def test_a_code_outside_is_refused_instead_of_counted_from_the_end() -> None:
    with pytest.raises(ParameterError, match="between 0 and 1"):
        Values(("a", "b")).labels(np.array([-1]))


# --- numbers ------------------------------------------------------------------------------------------------------


def test_bins_are_half_open_and_the_last_is_closed() -> None:
    bins = NumberBins.of_width(0, 10, 5)

    assert [bins.encode(raw) for raw in ("-0.001", "0", "4.999", "5", "10", "10.0", "10.001")] == [
        None,
        0,
        0,
        1,
        1,
        1,
        None,
    ]


def test_decimal_text_is_compared_exactly_where_floats_would_slip() -> None:
    bins = NumberBins.of_width("0", "1", "0.1")  # 3 * 0.1 is 0.30000000000000004 in floats

    assert [bins.encode(text) for text in ("0.3", "0.6", "0.7", "0.29999999999999999999999")] == [3, 6, 7, 2]


def test_a_float_means_the_shortest_decimal_that_prints_it() -> None:
    bins = NumberBins((Fraction(0), Fraction(3, 10), Fraction(1)))

    assert [bins.encode(raw) for raw in (0.3, np.float64(0.3), 0.29999999999999993)] == [1, 1, 0]


@pytest.mark.parametrize("raw", [7, "7", " 7 ", "　7", "+7", "7.0", "07", 7.0, Decimal("7"), np.int64(7), Fraction(7)])
def test_every_plain_way_to_write_a_number_is_read(raw: object) -> None:
    assert NumberBins.of_width(0, 10, 1).encode(raw) == 7


@pytest.mark.parametrize(
    "raw", ["７", "1,000", "1e0", "abc", "", "nan", "inf", "0x7", "7 歳", "9" * 500, True, None, b"7"]
)
def test_what_is_no_plain_number_is_not_guessed_at(raw: object) -> None:
    assert NumberBins.of_width(0, 10, 1).encode(raw) is None


def test_numbers_outside_are_clamped_to_the_end_bins_but_texts_are_not() -> None:
    bins = NumberBins.of_width(0, 10, 5)

    assert [bins.clamp(raw) for raw in ("-99", 11, float("inf"), float("-inf"), "x")] == [0, 1, 1, 0, None]


def test_labels_print_decimals_exactly() -> None:
    bins = NumberBins((Fraction("-0.5"), Fraction("0.125"), Fraction(1, 3), Fraction(10**20)))

    assert labels(bins) == ["[-0.5,0.125)", "[0.125,1/3)", "[1/3,100000000000000000000]"]


def test_equally_wide_bins_tell_their_start_and_width_and_others_do_not() -> None:
    assert NumberBins.of_width("0.5", 2, "0.5").uniform == (Fraction(1, 2), Fraction(1, 2))
    assert NumberBins((Fraction(0), Fraction(18), Fraction(65))).uniform is None


def test_one_wide_integer_bins_answer_to_their_integer() -> None:
    ages, halves = NumberBins.of_width(17, 91, 1), NumberBins.of_width(0, 2, "0.5")

    assert (ages.code("17"), ages.code("[17,18)"), ages.code("90")) == (0, 0, 73)
    for bins, label in ((ages, "91"), (halves, "1")):
        with pytest.raises(KeyError):
            bins.code(label)


def test_a_union_of_bins_stands_for_their_codes() -> None:
    bins = NumberBins.of_width(0, 100, 5)

    assert [bins.codes(label) for label in ("[0,15)", "[90,100]", "[5,10)", "[0.0,5.00)")] == [
        range(0, 3),
        range(18, 20),
        range(1, 2),
        range(0, 1),
    ]


@pytest.mark.parametrize("label", ["[0,13)", "[0,15]", "[90,100)", "[15,0)", "[5,5)", "(0,5)", "[-5,5)", "x", ""])
def test_an_interval_that_cuts_a_bin_or_leaves_the_range_stands_for_nothing(label: str) -> None:
    with pytest.raises(KeyError):
        NumberBins.of_width(0, 100, 5).codes(label)


def test_a_width_that_misses_stop_is_refused_with_the_stops_that_would_do() -> None:
    with pytest.raises(SchemaError, match=r"set stop to 98 / 105, or give edges"):
        NumberBins.of_width(0, 100, 7)
    with pytest.raises(SchemaError, match=r"set stop to 7, or give edges"):
        NumberBins.of_width(0, 5, 7)


@pytest.mark.parametrize(
    ("start", "stop", "width"),
    [(0, 100, 0), (0, 100, -5), (100, 0, 5), (5, 5, 1), (0, float("inf"), 1), ("a", 1, 1), (0, 10**9, 1)],
)
def test_bins_that_are_none_are_refused(start: object, stop: object, width: object) -> None:
    with pytest.raises(SchemaError):
        NumberBins.of_width(start, stop, width)  # type: ignore[arg-type]


@pytest.mark.parametrize("edges", [(), (1,), (1, 1), (2, 1), (0, 2, 1)])
def test_edges_that_do_not_increase_are_refused(edges: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="edges"):
        NumberBins(tuple(Fraction(edge) for edge in edges))


# --- dates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "first", "last", "size"),
    [
        ("1 day", "2020-01-01", "2024-12-31", 1827),
        ("7 days", "[2020-01-01,2020-01-08)", "[2024-12-25,2024-12-31]", 261),
        ("1 month", "2020-01", "2024-12", 60),
        ("3 months", "[2020-01-01,2020-04-01)", "[2024-10-01,2024-12-31]", 20),
        ("1 year", "2020", "2024", 5),
    ],
)
def test_every_width_covers_the_days_from_start_to_stop_both_included(
    width: str, first: str, last: str, size: int
) -> None:
    bins = DateBins.of_width("2020-01-01", "2024-12-31", width)

    assert (labels(bins)[0], labels(bins)[-1], bins.size) == (first, last, size)
    assert (bins.encode("2020-01-01"), bins.encode("2024-12-31"), bins.encode("2025-01-01")) == (0, size - 1, None)


def test_a_width_that_does_not_end_on_the_last_day_is_refused_with_the_days_that_would_do() -> None:
    with pytest.raises(SchemaError, match=r"set stop to 2024-12-31 / 2025-12-31"):
        DateBins.of_width("2020-01-01", "2025-01-01", "1 year")


@pytest.mark.parametrize(
    "raw",
    [
        "2024-02-29",
        "2024/2/29",
        "20240229",
        " 2024-02-29 ",
        "2024-02-29 23:59:59",
        "2024-02-29T00:00:00.5+09:00",
        "2024-02-29T00:00Z",
        20240229,
        date(2024, 2, 29),
        datetime(2024, 2, 29, 23, 59),
    ],
)
def test_every_known_way_to_write_a_day_is_read_and_the_time_is_dropped(raw: object) -> None:
    assert DateBins.of_width("2024-01-01", "2024-12-31", "1 day").encode(raw) == 59


@pytest.mark.parametrize(
    "raw",
    ["2023-02-29", "2024-13-01", "2024-2", "29/02/2024", "２０２４-02-29", "2024-02-29x", "2024-02/29", "", None, 1.5],
)
def test_what_is_no_known_day_is_not_guessed_at(raw: object) -> None:
    assert DateBins.of_width("2023-01-01", "2024-12-31", "1 year").encode(raw) is None


def test_days_outside_are_clamped_to_the_end_bins() -> None:
    bins = DateBins.of_width("2023-01-01", "2024-12-31", "1 year")

    assert [bins.clamp(raw) for raw in ("1999-01-01", "2030-01-01", "2024-01-01", "x")] == [0, 1, 1, None]


def test_days_months_years_and_intervals_stand_for_the_bins_inside_them() -> None:
    bins = DateBins.of_width("2023-01-01", "2024-12-31", "1 month")

    assert bins.codes("2024-01") == range(12, 13)
    assert bins.codes("2024") == range(12, 24)
    assert bins.codes("[2023-01-01,2023-04-01)") == range(0, 3)
    assert bins.codes("[2024-12-01,2024-12-31]") == range(23, 24)
    for label in ("2025", "2024-01-01", "[2023-01-15,2023-04-01)", "2024-13", "x"):
        with pytest.raises(KeyError):
            bins.codes(label)


def test_the_last_days_of_the_calendar_can_be_declared() -> None:
    bins = DateBins.of_width("9999-01-01", "9999-12-31", "1 year")
    odd = DateBins((date(9998, 5, 1), date(9999, 6, 1), date(9999, 12, 31)))

    assert (labels(bins), labels(odd)) == (["9999"], ["[9998-05-01,9999-06-01)", "[9999-06-01,9999-12-31]"])


@pytest.mark.parametrize(
    ("start", "stop", "width"),
    [
        ("2024-01-01", "2023-01-01", "1 day"),
        ("2024-01-31", "2024-12-31", "1 month"),
        ("2024-01-01", "2024-12-31", "1"),
        ("2024-01-01", "2024-12-31", "0 days"),
        ("2024-01-01", "2024-12-31", "1 fortnight"),
        ("x", "2024-12-31", "1 day"),
        ("0001-01-01", "9999-12-31", "1 day"),
    ],
)
def test_date_bins_that_are_none_are_refused(start: str, stop: str, width: str) -> None:
    with pytest.raises(SchemaError):
        DateBins.of_width(start, stop, width)


def test_date_edges_must_increase_but_the_last_bin_may_be_one_day() -> None:
    assert labels(DateBins((date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 2)))) == ["2024-01-01", "2024-01-02"]
    for edges in ((date(2024, 1, 1),), (date(2024, 1, 2), date(2024, 1, 1)), (date(2024, 1, 1),) * 3):
        with pytest.raises(SchemaError, match="edges"):
            DateBins(edges)
