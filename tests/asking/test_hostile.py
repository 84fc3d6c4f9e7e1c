"""Statements that must be refused in one line, and rounding that must decide nothing."""

from __future__ import annotations

import pytest

from sudare.asking.statement import ask_statement
from sudare.errors import SudareError
from tests.asking.compare import compare, open_records
from tests.asking.exact import make_records


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
        (  # a part of the condition that holds nobody would bring days of its own
            7311500,
            "SELECT FLOOR(age / 5) * 5 AS k0, COUNT(DISTINCT day) AS m FROM view WHERE EXTRACT(year FROM day) >= 2024"
            " AND sex NOT LIKE 'F%' OR pay < -1 AND sex = 'F' GROUP BY 1",
        ),
    ],
)
def test_what_random_statements_found_is_answered_as_duckdb_does(seed: int, statement: str) -> None:
    table, records = make_records(seed, empty=0.85)

    assert compare(statement, table, open_records(records)) == "same"
