"""Labels that are all numbers are computed with: a score of 0 to 5 declared as ordered values has a mean."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.asking.answers import Estimate
from sudare.asking.statement import ask_statement
from sudare.errors import ParameterError, SchemaError
from sudare.schema import Attribute, NumberBins, Schema, Values
from tests.asking.exact import ExactTable

SCHEMA = Schema(
    name="reviews",
    attributes=(
        Attribute(name="score", domain=Values(("0", "1", "2.5", "5"), is_ordered=True), missing=True),
        Attribute(name="postcode", domain=Values(("012", "345"))),
        Attribute(name="age", domain=NumberBins.of_width(0, 4, 1)),
        Attribute(name="flag", domain=Values(("0.0", "1.0"))),
    ),
)
SCORES = np.repeat(["0", "1", "2.5", "5", ""], [1, 2, 3, 4, 5])


@pytest.fixture
def table() -> ExactTable:
    counts = np.zeros((5, 2, 4, 2))
    counts[:, 0, 1, 1] = [1, 2, 3, 4, 5]
    return ExactTable(SCHEMA, counts)


NUMBERS = np.array([float(score) for score in SCORES if score])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SUM(score)", NUMBERS.sum()),
        ("AVG(score)", NUMBERS.mean()),
        ("AVG(CAST(score AS DOUBLE))", NUMBERS.mean()),
        ("STDDEV_POP(score)", NUMBERS.std()),
        ("AVG(2 * score + age)", 2 * NUMBERS.mean() + 1),
        ("QUANTILE_DISC(score, 0.5)", np.quantile(NUMBERS, 0.5, method="inverted_cdf")),
        ("MAX(score)", 5),
        ("COUNT(*) FILTER (WHERE score * 2 >= 5)", 7),
        ("COVAR_POP(score, age)", 0.0),
        ("COUNT(*) FILTER (WHERE flag = 1 AND score IS NOT NULL)", 10),
        ("COUNT(*) FILTER (WHERE flag IN (1, 0))", 15),
        ("SUM(CASE WHEN age >= 1 THEN score ELSE 0 END)", NUMBERS.sum()),
        ("SUM(COALESCE(score, 100))", NUMBERS.sum() + 500),
        ("SUM(GREATEST(score, 2))", np.maximum(NUMBERS, 2).sum() + 2 * 5),
    ],
)
def test_labels_that_are_numbers_are_computed_with(table: ExactTable, expression: str, expected: float) -> None:
    [[cell]] = ask_statement(f"SELECT {expression} AS x FROM reviews", {"reviews": table}).rows

    assert isinstance(cell, Estimate)
    assert cell.value == pytest.approx(expected)


@pytest.mark.parametrize("expression", ["AVG(postcode)", "MEDIAN(postcode)", "SUM(postcode + 1)"])
def test_codes_that_begin_with_a_nought_are_no_numbers(table: ExactTable, expression: str) -> None:
    with pytest.raises(ParameterError, match=r"number"):
        ask_statement(f"SELECT {expression} AS x FROM reviews", {"reviews": table})


@pytest.mark.parametrize("condition", ["flag = 2", "postcode = 12", "score = 3"])
def test_a_number_that_no_label_is_written_as_is_refused(table: ExactTable, condition: str) -> None:
    with pytest.raises(SchemaError, match=r"has no such value"):
        ask_statement(f"SELECT COUNT(*) AS x FROM reviews WHERE {condition}", {"reviews": table})


def test_the_covariance_of_one_record_is_0_and_of_a_sample_of_one_it_is_unknown() -> None:
    ends = NumberBins.of_width(0, 4, 1)
    schema = Schema(name="pairs", attributes=(Attribute(name="a", domain=ends), Attribute(name="b", domain=ends)))
    counts = np.zeros((4, 4))
    counts[2, 3] = 1.0
    sums = "COVAR_POP(a, b), COVAR_SAMP(a, b), CORR(a, b), VAR_POP(a)"
    [[covariance, *unknown, variance]] = ask_statement(
        f"SELECT {sums} FROM pairs", {"pairs": ExactTable(schema, counts)}
    ).rows

    assert isinstance(covariance, Estimate)
    assert covariance.value == pytest.approx(0.0)
    assert unknown == [None, None]
    assert isinstance(variance, Estimate)
