"""Numbers are read as they were written, and what is no number gets one clear line."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.privacy import exact, exact_epsilon


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1/2", Fraction(1, 2)),
        (" 1 / 2 ", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("+2", Fraction(2)),
        ("1e-3", Fraction(1, 1000)),
        ("1E2", Fraction(100)),
        ("１／２", Fraction(1, 2)),
        ("０．１", Fraction(1, 10)),
        (1, Fraction(1)),
        (0.1, Fraction(1, 10)),
        (0.1 + 0.2, Fraction("0.30000000000000004")),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Fraction(np.int64(1), np.int64(3)), Fraction(1, 3)),
        ("1/1000000", Fraction(1, 10**6)),
        (1000, Fraction(1000)),
    ],
)
def test_a_number_means_what_was_written(written, meant):
    epsilon = exact_epsilon(written)

    assert epsilon == meant


@pytest.mark.parametrize(
    "written",
    [
        *(
            "abc",
            "",
            " ",
            "nan",
            "inf",
            "-inf",
            "1/0",
            "1/2/3",
            "1_0",
            "0x1",
            "1,5",
            "½",
            "1²",
            "1e",
            "-",
            "1 2",
            "{x}",
        ),
        *("9" * 100_000, "1e999999999", "1e-999999999", "1e99999", "0" * 101),
        *(True, False, None, [1], 1j, b"1", float("nan"), float("inf"), np.True_),
        *(Decimal("1e999999999"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")),
    ],
    ids=lambda value: str(value)[:12],
)
def test_what_is_no_number_is_refused_by_name(written):
    with pytest.raises(ParameterError, match=r"^epsilon \(.*\) must be a number between 1/1000000 and 1000, such"):
        exact_epsilon(written)


@pytest.mark.parametrize(
    "written",
    [0, -1, "-1", "0", "-1/2", "1e400", "1e-400", 1e308, 5e-324, "1001", "0.0000009", 10**100_000, Fraction(1, 10**9)],
    ids=lambda value: type(value).__name__,
)
def test_what_is_out_of_range_is_refused_with_the_range(written):
    with pytest.raises(ParameterError, match=r"^epsilon \(.*\) must be between 1/1000000 and 1000$"):
        exact_epsilon(written)


def test_the_line_shows_what_was_given():
    with pytest.raises(ParameterError) as caught:
        exact_epsilon("abc")

    assert str(caught.value) == "epsilon (abc) must be a number between 1/1000000 and 1000, such as 1/2 or 0.1"


def test_the_line_stays_one_short_line_whatever_is_given():
    lines = []
    for written in ("a\nb\x1b[31m", "9" * 100_000, 10**100_000, -(10**5000), Fraction(10**5000 + 1, 10**5000)):
        with pytest.raises(ParameterError) as caught:
            exact_epsilon(written)
        lines.append(str(caught.value))

    assert all(len(line) < 150 and line.isprintable() for line in lines)


def test_a_foreign_object_is_named_by_its_type_only():
    class Rows(list):
        def __repr__(self):
            return "secret row"

    with pytest.raises(ParameterError) as caught:
        exact_epsilon(Rows())

    assert "secret" not in str(caught.value)


def test_a_fraction_too_long_to_add_up_is_refused():
    with pytest.raises(ParameterError, match="must be a simpler fraction"):
        exact_epsilon(Fraction(10**60 + 1, 10**60))


@pytest.mark.cpu_seconds(30)
def test_absurd_numbers_fill_no_memory():
    absurd = ("1e999999999", "9" * 10**6, Decimal("1e999999999"), Decimal("1e-999999999"), "1/" + "9" * 10**6)
    tracemalloc.start()
    for written in absurd:
        with pytest.raises(ParameterError):
            exact_epsilon(written)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 10**6


def test_both_ends_of_the_range_belong_to_it():
    ends = [exact(end, name="share", low=Fraction(0), high=Fraction(1)) for end in ("0", "1")]

    assert ends == [0, 1]


def test_another_name_is_named():
    with pytest.raises(ParameterError, match=r"^max_suppressed \(2\) must be between 0 and 1$"):
        exact(2, name="max_suppressed", low=Fraction(0), high=Fraction(1))


def test_a_fraction_of_numpy_integers_becomes_one_that_cannot_overflow():
    epsilon = exact_epsilon(Fraction(np.int64(1), np.int64(3)))

    assert type(epsilon.denominator) is int
