"""Statements that must be refused in one line, and rounding that must decide nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sudare.asking.answers import Estimate
from sudare.asking.parser import split_statements
from sudare.asking.statement import ask_statement
from sudare.errors import SudareError
from sudare.schema import Attribute, Schema, Values
from tests.asking.compare import compare, open_records
from tests.asking.exact import ExactTable, make_records

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("SELECT COUNT(*) FROM view WHERE sex = 'F", "(character 39) has no end"),
        ("SELECT ROUND(AVG(pay), 'x') FROM view", "the number of decimals must be written out"),
        ("SELECT SUM(pay) * 1e99 * 1e99 * 1e99 * 1e99 FROM view", "308 digits"),
        ("SELECT SUBSTRING(job, 2, 'x') AS j, COUNT(*) FROM view GROUP BY 1", "a function of texts with text"),
        ("SELECT REPLACE(job, 1, 2) AS j, COUNT(*) FROM view GROUP BY 1", "a function of texts with integer"),
        ("SELECT COUNT(*) FROM view TABLESAMPLE 10%", "TABLESAMPLE"),
        ("SELECT COUNT(*) FROM view WHERE age BETWEEN SYMMETRIC 9 AND 2", "BETWEEN SYMMETRIC"),
        ("SELECT COUNT(*) FROM view; DROP TABLE view", "DROP (character 28)"),
        ("DESCRIBE view", "`sudare report` lists the columns"),
        ("PIVOT view ON sex USING COUNT(*)", "COUNT(*) FILTER (WHERE a = 'x') for each new column"),
        ("SELECT sex, COUNT(*) FROM view GROUP BY sex WITH ROLLUP", "write GROUP BY ROLLUP (a, b)"),
        ("SELECT QUANTILE_CONT(age, [0.1, 0.9]) FROM view", "write one quantile for a column"),
        ("SELECT `sex`, COUNT(*) FROM view GROUP BY 1", "names stand in double quotes, not in backticks"),
        ("SELECT COUNT(*) FROM view WHERE job ~ 'n.*'", "write x LIKE '%a%' OR"),
        ("SELECT COUNT(*) FROM view WHERE job SIMILAR TO 'n.*'", "write x LIKE '%a%' OR"),
        ("SELECT COUNT(*) FROM view WHERE REGEXP_MATCHES(job, 'n')", "write x LIKE '%a%' OR"),
        ("SELECT TO_CHAR(day, 'YYYY'), COUNT(*) FROM view GROUP BY 1", "STRFTIME(day, '%Y-%m')"),
        ("SELECT COUNT(*) FROM view WHERE EXISTS (SELECT 1)", "write x IN (SELECT x FROM"),
        ("SELECT job FROM view INTERSECT SELECT job FROM view", "write both conditions in one WHERE"),
        ("SELECT * EXCLUDE (nobody) FROM view", "there is no column nobody"),
        ("SELECT COUNT(* EXCLUDE (sex)) FROM view", "COUNT(*) of some columns"),
        ("SELECT * EXCEPT (sex) FROM view", "write * EXCLUDE (a, b)"),
        ("SELECT COUNT(*) FROM view WHERE (sex, job) IN (('F', 'none', 1))", "as many values as columns"),
        ("SELECT COUNT(*) FROM view WHERE (sex, job) = ('F', 'none')", "write the conditions one by one with AND"),
        ("SELECT sex, SUM(COUNT(*)) OVER (ORDER BY sex ROWS 1.5 PRECEDING) FROM view GROUP BY 1", "a whole number"),
        ("SELECT sex, SUM(COUNT(*)) OVER (ORDER BY sex RANGE 1 PRECEDING) FROM view GROUP BY 1", "write ROWS BETWEEN"),
        ("SELECT sex, NTILE(0) OVER (ORDER BY sex) FROM view GROUP BY sex", "a whole number above 0"),
        ("SELECT sex, LAG(COUNT(*), 1.5) OVER (ORDER BY sex) FROM view GROUP BY sex", "that is not written out"),
        ("SELECT AVERAGE(age) FROM view", "AVERAGE() is not answered: it is not known here; AVG() is"),
        ("SELECT job, AVERAGE(age) FROM view GROUP BY job", "AVERAGE() is not answered"),
        ("SELECT COUNT(*) FROM view WHERE sex = F", "A value stands in single quotes: 'F'"),
        ('SELECT COUNT(*) FROM view WHERE job = "full"', "A value stands in single quotes: 'full'"),
        ("SELECT COUNT(*) FROM view WHERE job = 新宿店", "A value stands in single quotes: '新宿店'"),
        ("SELECT COUNT(*) FROM view WHERE 購入金額（円） > 100", 'write that in double quotes: "購入金額（円）"'),
        ("SELECT COUNT(*) FROM view\nSELECT COUNT(*) FROM view", "(character 27) is not answered: another statement"),
        ("SELECT COUNT(*)\0 FROM view", "U+0000"),
        ("SELECT COUNT(*) FROM view WHERE " + "(" * 5000 + "age > 1" + ")" * 5000, "30 levels"),
        ("x" * 1_000_000, "200000 characters"),
    ],
)
def test_hostile_statements_are_refused_in_one_line(statement: str, part: str) -> None:
    table, _ = make_records(5, empty=0.85)

    with pytest.raises(SudareError) as refusal:
        ask_statement(statement, {"view": table})

    assert part in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    ("seed", "statement"),
    [
        (  # a sum of shares is 20.000000000000004
            7310000,
            "SELECT date_trunc('year', day) AS k, COUNT(*) AS n FROM view WHERE NOT (CASE WHEN NOT (job NOT IN ('none',"
            " 'full')) THEN age ELSE pay END >= COALESCE(pay, 0)) GROUP BY 1 HAVING COUNT(*) <= 20",
        ),
        (  # all records of a group have one value: its variance is 0, not what rounding leaves
            7318000,
            "SELECT CASE WHEN age < 7 THEN 'a' WHEN age < 13 THEN 'b' ELSE 'c' END AS k0, age % 4 AS k1, CORR(age, pay)"
            " AS m0, REGR_SLOPE(pay, age) AS m1 FROM view GROUP BY ALL",
        ),
        (  # 9.575 is a half, which floats cannot write
            7319000,
            "SELECT job AS k0, EXTRACT(dow FROM day) AS k1, ROUND(AVG(age), 2) AS m0 FROM view WHERE job NOT IN"
            " ('none', 'full') GROUP BY ALL",
        ),
        (  # a part of the condition that holds nobody would bring days of its own
            7311500,
            "SELECT FLOOR(age / 5) * 5 AS k0, COUNT(DISTINCT day) AS m FROM view WHERE EXTRACT(year FROM day) >= 2024"
            " AND sex NOT LIKE 'F%' OR pay < -1 AND sex = 'F' GROUP BY 1",
        ),
        (
            7310500,
            "SELECT sex, AVG(LN(age)) AS m, SUM(12 / age) AS s FROM view WHERE age > 0 AND job <> 'none' GROUP BY 1",
        ),
        # a function of a number by which groups are made takes every value, not the middle of a bin for all of it
        (77, "SELECT age / 8 AS k, COUNT(*) AS n FROM view WHERE age NOT BETWEEN 0 AND 2.5 GROUP BY ALL"),
        (77, "SELECT ABS(age) AS k, CASE WHEN age < 7 THEN age ELSE 0 END AS c, COUNT(*) AS n FROM view GROUP BY 1, 2"),
        (77, "SELECT DISTINCT -pay AS k FROM view"),
        (77, "SELECT sex, COUNT(DISTINCT pay * pay) AS m, COUNT(DISTINCT 2 - age) AS d FROM view GROUP BY sex"),
        (77, "SELECT 7 AS k, sex, COUNT(*) AS n FROM view GROUP BY ROLLUP (k, sex)"),  # a constant is rolled up too
        (7310500, "SELECT AVG(LOG10(pay + 1)) AS m, SUM(age % pay) AS s FROM view WHERE pay BETWEEN 1 AND 3"),
    ],
)
def test_what_random_statements_found_is_answered_as_duckdb_does(seed: int, statement: str) -> None:
    table, records = make_records(seed, empty=0.85)

    assert compare(statement, table, open_records(records)) == "same"


def test_a_name_that_is_near_a_column_is_not_taken_for_a_value() -> None:
    table, _ = make_records(5, empty=0.85)

    with pytest.raises(SudareError) as refusal:
        ask_statement("SELECT COUNT(*) FROM view WHERE jbo = 'full'", {"view": table})

    assert str(refusal.value) == "there is no column jbo; there are age, sex, job, day, pay"


def test_a_column_that_is_written_like_a_call_is_told_to_be_quoted() -> None:
    counts = np.array([3.0, 4.0])
    table = ExactTable(Schema(name="t", attributes=(Attribute(name="pay(yen)", domain=Values(("a", "b"))),)), counts)

    with pytest.raises(SudareError) as refusal:
        ask_statement("SELECT COUNT(*) FROM view WHERE pay(yen) = 'a'", {"view": table})

    assert 'write its name in double quotes: "pay(yen)"' in str(refusal.value)


def test_noisy_sums_without_a_model_are_told_as_such() -> None:
    table, _ = make_records(5, empty=0.85)

    told = ask_statement("SELECT COUNT(*) FROM view", {"view": table}).describe_intervals()

    assert "model" not in str(told)
    assert "where a condition cuts a cell" in str(told)


@pytest.mark.parametrize("statement", split_statements((HERE / "duckdb.sql").read_text(encoding="utf-8")))
def test_what_analysts_write_of_duckdb_is_answered_as_there(statement: str) -> None:
    table, records = make_records(77, empty=0.85)

    assert compare(statement, table, open_records(records)) == "same"


def test_a_quotient_of_numbers_whose_intervals_are_found_otherwise_reaches_over_their_corners() -> None:
    table, _ = make_records(77, empty=0.85)
    table.deviation = 3.0
    answer = ask_statement(
        "SELECT COUNT(DISTINCT day) AS d, COUNT(*) AS n, COUNT(*) / COUNT(DISTINCT day) AS a, MEDIAN(age) AS m,"
        " MEDIAN(age) * 2 / COUNT(*) AS b, COUNT(*) / QUANTILE_CONT(pay, 0.6) AS z FROM view",
        {"view": table},
    )
    days, number, mean, median, ratio, by_zero = answer.rows[0]
    assert all(isinstance(cell, Estimate) for cell in answer.rows[0])

    assert (mean.low, mean.high) == pytest.approx((number.low / days.high, number.high / days.low))
    assert (ratio.low, ratio.high) == pytest.approx((2 * median.low / number.high, 2 * median.high / number.low))
    assert not by_zero.has_interval  # that quantile of pay may be 0


def test_a_divisor_that_is_surely_not_0_decides_nothing() -> None:
    table, _ = make_records(77, empty=0.85)

    assert ask_statement("SELECT SUM(pay) / NULLIF(COUNT(*), 0) AS n FROM view", {"view": table}).notes == ()
