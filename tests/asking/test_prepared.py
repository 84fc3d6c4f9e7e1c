"""Statements put together from known parts are answered, and refused, as if they had been read anew."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.asking import prepared
from sudare.asking.parser import parse, parse_statement
from sudare.asking.statement import Session, ask_statement
from sudare.errors import SudareError
from sudare.methods.view import View, open_view
from sudare.noise import SeededRng
from sudare.testing import Tabled
from sudare.testing.subject import even_table
from tests.asking.exact import ExactTable, make_records
from tests.asking.statements import Writer

VALUES = ["-3", "0", "2", "2.5", "1e1", "7", "18", "99", "'F'", "'nobody'", "'2024-01-01'", "'it''s'", "1" * 120]


def ask_both(statement: str, table: ExactTable) -> tuple[object, object]:
    """The answer of the usual way, and that of a reader who keeps nothing."""
    return _ask(statement, table, is_kept=True), _ask(statement, table, is_kept=False)


def _ask(statement: str, table: ExactTable, *, is_kept: bool) -> object:
    try:
        if is_kept:
            return str(ask_statement(statement, {"view": table}))
        session = Session({"view": table}, 0.95)
        query = parse_statement.__wrapped__(statement).query
        answer = session.answer(query)
        return "early" if session.early else str(answer)
    except SudareError as error:
        return str(error)


def change_values(statement: str, rng: random.Random) -> str:
    """Write other values in the place of some that stand there."""
    return re.sub(
        r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])|'[^']*'",
        lambda found: rng.choice([found.group(), rng.choice(VALUES)]),
        statement,
    )


@pytest.mark.cpu_seconds(60)
def test_statements_with_other_values_are_answered_and_refused_as_if_they_were_read_anew() -> None:
    table, _ = make_records(5, empty=0.85)
    writer, rng, put_together, different = Writer(5), random.Random(5), 0, {}
    for _ in range(120):
        statement = writer.statement()
        _ask(statement, table, is_kept=True)
        for _ in range(3):
            other = change_values(statement, rng)
            ours, fresh = ask_both(other, table)
            put_together += prepared.take_apart(other) is not None
            if ours != fresh and fresh != "early":
                different[other] = (ours, fresh)

    assert not different, different
    assert put_together > 100


CONDITIONS = st.sampled_from([
    "age BETWEEN {} AND {}", "age >= {}", "sex = 'F'", "sex IN ('F', 'M')", "job <> 'none'", "age < {} OR pay > {}",
    "NOT (age = {} AND pay < {})", "pay = -{}", "(age > {})", "age + {} > pay", "age IN ({}, {})", "sex LIKE 'F%'",
    "day >= DATE '2024-01-01'", "day < DATE '2023-12-31' + INTERVAL {} DAY", "CASE WHEN age > {} THEN 1 ELSE 0 END = 1",
])  # fmt: skip


@given(
    conditions=st.lists(CONDITIONS, min_size=1, max_size=4),
    numbers=st.lists(st.integers(0, 30), min_size=8, max_size=8),
    others=st.lists(st.integers(0, 30), min_size=8, max_size=8),
    after=st.sampled_from(["", " GROUP BY sex", " GROUP BY sex HAVING COUNT(*) > 2 ORDER BY 1 LIMIT 3", ";"]),
)
def test_conditions_are_put_together_in_any_order(
    conditions: list[str], numbers: list[int], others: list[int], after: str
) -> None:
    table, _ = make_records(5, empty=0.85)
    where = " AND ".join(conditions)
    for values in (numbers, others):
        filled = where.format(*values) if "{}" in where else where
        ours, fresh = ask_both(f"SELECT COUNT(*) AS n FROM view WHERE {filled}{after}", table)

        assert ours == fresh


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(*) FROM view WHERE age > 5 -- AND age < 2",
        "SELECT COUNT(*) FROM view /* WHERE */ WHERE age > 5 AND sex = 'a AND b'",
        'SELECT COUNT(*) AS "WHERE" FROM view WHERE age > 5',
        "SELECT COUNT(*) FROM view WHERE age BETWEEN 1 AND 5 AND pay BETWEEN 2 AND 3",
    ],
)
def test_parts_of_a_statement_are_the_statement(statement: str) -> None:
    parts = prepared.take_apart(statement)

    assert parts is not None
    rest, conditions = parts
    where = parse(statement).selects[0].where  # type: ignore[union-attr]
    terms = where.operands if len(conditions) > 1 else (where,)  # type: ignore[union-attr]
    assert len(terms) == len(conditions)
    assert prepared._WHERE in rest.shape


def test_a_second_view_of_the_same_columns_is_asked_itself() -> None:
    first, second = (open_view(View(epsilon=1).publish(Tabled(even_table()), rng=SeededRng(seed))) for seed in (1, 2))
    statement = "SELECT COUNT(*) FROM view WHERE a0 = 'v0'"

    assert first.sql(statement).rows[0][0] != second.sql(statement).rows[0][0]
    assert first.sql(statement).rows == first.sql(statement).rows


def test_what_a_condition_kept_is_not_used_by_a_statement_that_asks_more_of_its_column() -> None:
    table, _ = make_records(5, empty=0.85)
    statements = [
        f"SELECT {what} FROM view WHERE {where}{after}"
        for what in ("COUNT(*)", "SUM(age), AVG(age)", "COUNT(*), MEDIAN(pay)", "SUM(pay) FILTER (WHERE age > 4)")
        for where in ("age > 3", "age > 3 AND sex = 'F'", "age > 3 AND age < 7", "age > 99", "age > 3 AND age > 99")
        for after in ("", " GROUP BY sex", " GROUP BY age > 5")
    ]
    for statement in (*statements, *statements):
        ours, fresh = ask_both(statement, table)

        assert ours == fresh, statement


def test_a_condition_on_a_name_that_a_statement_gives_is_not_taken_for_that_of_another() -> None:
    view = open_view(View(epsilon=10).publish(Tabled(even_table()), rng=SeededRng(1)))
    first, second = (f"SELECT {column} AS z, COUNT(*) FROM view WHERE z = 'v0' GROUP BY 1" for column in ("a0", "a1"))
    view.sql(first)
    view.sql(first.replace("v0", "v1"))

    assert view.sql(second).rows == view.sql("SELECT a1, COUNT(*) FROM view WHERE a1 = 'v0' GROUP BY 1").rows


def test_conditions_are_known_in_statements_that_ask_for_something_else() -> None:
    view = open_view(View(epsilon=10).publish(Tabled(even_table()), rng=SeededRng(1)))
    view.sql("SELECT COUNT(*) FROM view WHERE a0 = 'v0'")
    view.sql("SELECT a1, COUNT(*) FROM view WHERE a1 = 'v0' GROUP BY a1")
    read = parse_statement.cache_info().misses
    view.sql("SELECT a1, COUNT(*) FROM view WHERE a0 = 'v1' GROUP BY a1")

    assert parse_statement.cache_info().misses == read
