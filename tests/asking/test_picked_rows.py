"""What an analyst is told of rows picked by their estimates, and days as offices write them."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from sudare.asking.statement import ask_statement
from sudare.errors import SchemaError
from sudare.schema import Attribute, DateBins, Schema, Values
from tests.asking.exact import ExactTable

SCHEMA = Schema(
    name="care",
    attributes=(
        Attribute(name="地区", domain=Values(("中央", "東", "西"))),
        Attribute(name="生年月日", domain=DateBins((date(1939, 1, 1), date(1940, 1, 1), date(1940, 12, 31)))),
    ),
)


@pytest.fixture
def table() -> ExactTable:
    return ExactTable(SCHEMA, np.array([[5.0, 1.0], [3.0, 0.0], [2.0, 4.0]]))


@pytest.mark.parametrize(("limit", "is_told"), [("LIMIT 2", True), ("LIMIT 3", False), ("", False)])
def test_rows_picked_by_their_estimates_say_so(table: ExactTable, limit: str, is_told: bool) -> None:
    answer = ask_statement(f"SELECT 地区, COUNT(*) AS n FROM care GROUP BY 1 ORDER BY n DESC {limit}", {"care": table})

    assert any("2 of 3 rows were picked by their estimates" in str(note) for note in answer.notes) is is_told


def test_rows_cut_in_the_order_of_their_names_were_not_picked(table: ExactTable) -> None:
    answer = ask_statement("SELECT 地区, COUNT(*) AS n FROM care GROUP BY 1 ORDER BY 1 LIMIT 2", {"care": table})

    assert not any("picked" in str(note) for note in answer.notes)


@pytest.mark.parametrize("day", ["昭和15年1月1日", "S15.1.1", "1940年1月1日", "1940-01-01"])
@pytest.mark.parametrize("written", ["'{}'", "DATE '{}'"])
def test_days_are_read_as_offices_write_them(table: ExactTable, day: str, written: str) -> None:
    [[cell]] = ask_statement(f"SELECT COUNT(*) FROM care WHERE 生年月日 < {written.format(day)}", {"care": table}).rows

    assert cell.value == pytest.approx(10)


def test_a_month_of_an_era_is_no_day(table: ExactTable) -> None:
    with pytest.raises(SchemaError, match="has no such value"):
        ask_statement("SELECT COUNT(*) FROM care WHERE 生年月日 < '昭和15年1月'", {"care": table})
