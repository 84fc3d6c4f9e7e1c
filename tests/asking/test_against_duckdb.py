"""What SQL means: the same statements asked of an exact table here and of its records in DuckDB.

`make fuzz` is not needed for more: `python -m tests.asking 10000` asks ten thousand.
"""

from __future__ import annotations

import pytest

from tests.asking.compare import compare, open_records
from tests.asking.exact import make_records
from tests.asking.statements import Writer

STATEMENTS = 250


@pytest.mark.cpu_seconds(60)
def test_random_statements_are_answered_as_duckdb_does_or_refused() -> None:
    table, records = make_records(11, empty=0.85)
    connection = open_records(records)
    writer = Writer(11)
    found = {
        statement: compare(statement, table, connection)
        for statement in (writer.statement() for _ in range(STATEMENTS))
    }
    wrong = {statement: verdict for statement, verdict in found.items() if verdict.startswith("wrong")}

    assert not wrong, wrong
    assert sum(verdict == "same" for verdict in found.values()) > 0.8 * len(found)


def test_a_planted_fault_is_found() -> None:
    table, records = make_records(11, empty=0.85)
    connection = open_records(records)
    table.counts[table.counts > 0] += 1

    assert compare("SELECT COUNT(*) AS n FROM view", table, connection).startswith("wrong")
