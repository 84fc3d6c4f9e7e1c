"""Any SELECT of DuckDB over columns in memory: no file, no network, no setting can be reached from a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
from numpy.typing import NDArray

from sudare.errors import ParameterError

MOST_ROWS = 10_000  # of one answer
_LOCKS = (
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def select_from_columns(
    statement: str, columns: Mapping[str, NDArray[Any]], *, table: str = "view"
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run one SELECT over columns, which it sees as a table; give the names and the rows of its answer."""
    with duckdb.connect(config={"threads": 2, "memory_limit": "2GB"}) as connection:
        _fill(connection, columns, table)
        for lock in _LOCKS:
            connection.execute(lock)
        try:
            parts = connection.extract_statements(statement)
            if len(parts) != 1 or parts[0].type != duckdb.StatementType.SELECT:
                raise ParameterError("records can be asked one SELECT at a time")
            answer = connection.execute(parts[0])
            rows = answer.fetchmany(MOST_ROWS + 1)
        except duckdb.Error as error:
            message = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
            raise ParameterError("DuckDB does not answer the statement: {message}", message=message) from None
        names = [column[0] for column in answer.description or []]
    if len(rows) > MOST_ROWS:
        raise ParameterError("the answer would have more than {most} rows; group by fewer attributes", most=MOST_ROWS)
    return names, rows


def _fill(connection: duckdb.DuckDBPyConnection, columns: Mapping[str, NDArray[Any]], table: str) -> None:
    """Copy the columns into a table; days arrive as seconds, and become days again."""
    plain = {f"c{place}": _without_days(column) for place, column in enumerate(columns.values())}
    connection.register("columns_in_memory", plain)
    wanted = ", ".join(
        f"CAST(c{place} AS DATE) AS {_quote(name)}" if column.dtype.kind == "M" else f"c{place} AS {_quote(name)}"
        for place, (name, column) in enumerate(columns.items())
    )
    connection.execute(f"CREATE TABLE {_quote(table)} AS SELECT {wanted} FROM columns_in_memory")
    connection.unregister("columns_in_memory")
    numbers = [name for name, column in columns.items() if column.dtype.kind == "f"]
    for name in numbers:  # what is no number in a column of numbers is missing
        connection.execute(f"UPDATE {_quote(table)} SET {_quote(name)} = NULL WHERE isnan({_quote(name)})")


def _without_days(column: NDArray[Any]) -> NDArray[Any]:
    return column.astype("datetime64[s]") if column.dtype.kind == "M" else column


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
