"""Ask the table of `exact` and DuckDB the same statements; a difference that is no refusal is a wrong answer."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb

from sudare.asking.answers import AnswerTable, Estimate
from sudare.asking.statement import ask_statement
from sudare.errors import SudareError
from tests.asking.exact import SCHEMA, ExactTable

ROUNDED = re.compile(r"ROUND\((AVG\(\w+\)), (\d)\)")


def open_records(records: Iterable[tuple[object, ...]]) -> duckdb.DuckDBPyConnection:
    """The records as the table `view` of DuckDB."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("CREATE TABLE view (age INTEGER, sex VARCHAR, job VARCHAR, day DATE, pay INTEGER)")
    connection.execute("CREATE TABLE parts AS SELECT * FROM view")
    counted = Counter(records)
    connection.executemany("INSERT INTO parts VALUES (?, ?, ?, ?, ?)", list(counted))
    connection.execute("ALTER TABLE parts ADD COLUMN times INTEGER")
    rows = [(times, *row) for row, times in counted.items()]
    names = list(SCHEMA.names)
    where = " AND ".join(f"{name} IS NOT DISTINCT FROM ?" for name in names)
    most = max(counted.values())
    if most > 1:
        connection.executemany(f"UPDATE parts SET times = ? WHERE {where}", rows)
    else:
        connection.execute("UPDATE parts SET times = 1")
    connection.execute(f"INSERT INTO view SELECT {', '.join(names)} FROM parts, range(times)")
    return connection


def compare(statement: str, table: ExactTable, connection: duckdb.DuckDBPyConnection) -> str:
    """Tell "same", "refused", "invalid" (DuckDB refuses it too), or what is different."""
    try:
        answer = ask_statement(statement, {"view": table})
    except SudareError:
        return "refused"
    try:
        theirs = [tuple(map(plain, row)) for row in connection.execute(statement).fetchall()]
    except duckdb.Error as error:
        return f"wrong: answered what DuckDB refuses ({str(error).splitlines()[0][:80]})"
    ours = [tuple(map(plain, row)) for row in answer.rows]
    if not same_rows(ours, theirs) and not same_rows(ours, decide_ties(statement, connection)):
        return f"wrong: {sorted(ours, key=str)[:4]} but {sorted(theirs, key=str)[:4]}"
    return "same" if intervals_hold(answer) else "wrong: an interval does not hold its estimate"


def decide_ties(statement: str, connection: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """The rows of DuckDB with halves rounded away from 0, as SQL has it: of 9.575 its floats make 9.57."""
    pushed = ROUNDED.sub(r"ROUND(\1 + SIGN(\1) * 1e-11, \2)", statement)
    return [tuple(map(plain, row)) for row in connection.execute(pushed).fetchall()]


def plain(cell: Any) -> Any:
    """A cell as both sides are compared: numbers as floats, days as days."""
    if isinstance(cell, Estimate):
        return date.fromordinal(round(cell.value)) if cell.is_day else float(cell.value)
    if isinstance(cell, bool) or cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, datetime):
        return cell.date()
    if isinstance(cell, int | float | Decimal):
        return None if math.isnan(float(cell)) else float(cell)
    return cell


def same_rows(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    """Tell whether rows are equal but for their order and rounding."""
    if len(ours) != len(theirs):
        return False
    left = sorted(theirs, key=sort_key)
    for row in sorted(ours, key=sort_key):
        place = next((place for place, other in enumerate(left) if same_row(row, other)), None)
        if place is None:
            return False
        left.pop(place)
    return True


def sort_key(row: tuple[Any, ...]) -> str:
    """A row that is near to its equal in the order: only the time to find it depends on this."""
    return str([f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row])


def same_row(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    return len(first) == len(second) and all(map(same_cell, first, second))


def same_cell(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=1e-6, abs_tol=1e-6)
    return bool(first == second)


def intervals_hold(answer: AnswerTable) -> bool:
    """Tell whether every number lies in its interval."""
    cells = [cell for row in answer.rows for cell in row if isinstance(cell, Estimate)]
    return all(not cell.has_interval or cell.low - 1e-6 <= cell.value <= cell.high + 1e-6 for cell in cells)
