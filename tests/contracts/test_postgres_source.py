"""PostgreSQL keeps the contract of a source: for a role with temporary tables, and for one that may only read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import sudare as sd
from sudare.schema import Attribute, DateBins, NumberBins, Schema, Unit, Values
from sudare.sources.postgres_forms import DIALECT
from sudare.testing import SOURCE_CHECKS, check_source
from tests.contracts.postgres_tables import READER, STEWARD, address, make_roles, opener, put_table, scanning
from tests.servers import PostgresServer


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> PostgresServer:
    make_roles(postgres_server)
    return postgres_server


@pytest.mark.parametrize("role", [STEWARD, READER])
def test_postgres_keeps_the_contract_beside_another_scan(role: str, server: PostgresServer) -> None:
    held = check_source(
        opener(server, role),
        beside=lambda source: scanning(server, source.engine._address.table),  # type: ignore[attr-defined]
    )

    assert len(held) >= 16


def test_texts_that_are_too_many_to_look_up_are_read_alike_in_sql(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DIALECT, "lookup_limit", 3)
    reading = ("every_value", "rows_that_do_not_fit", "the_steward", "hostile", "rows_are_written")
    checks = [check for check in SOURCE_CHECKS if check.__name__.startswith(reading)]
    for check in checks:
        check(opener(server, STEWARD))

    assert len(checks) == len(reading)


# --- the snapshot, and rows that are known again ----------------------------------------------------------------------

PEOPLE = Schema(
    name="people",
    attributes=(
        Attribute(name="person", domain=Values(tuple(map(str, range(200))))),
        Attribute(name="age", domain=NumberBins.of_width(0, 100, 10)),
    ),
    unit=Unit(kind="person", column="id", max_rows=3),
)


@pytest.fixture(scope="module")
def large(server: PostgresServer) -> str:
    """A table of more than a quarter of the server's buffers: its scans begin where another one stands."""
    server.execute(
        "CREATE TABLE large AS SELECT i % 200 AS id, (i % 200)::text AS person, i % 100 AS age, repeat('x', 200) AS pad"
        " FROM generate_series(1, 40000) AS i",
        "GRANT SELECT ON large TO PUBLIC",
        "CREATE VIEW seen AS SELECT * FROM large",
        "GRANT SELECT ON seen TO PUBLIC",
        "CREATE TABLE parts (LIKE large) PARTITION BY HASH (age)",
        *(f"CREATE TABLE part{n} PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER {n})" for n in range(3)),
        "INSERT INTO parts SELECT * FROM large",
        "GRANT SELECT ON parts, part0, part1, part2 TO PUBLIC",
    )
    return "large"


@pytest.mark.parametrize("table", ["large", "seen", "parts"])
def test_every_person_keeps_its_rows_beside_another_scan(table: str, server: PostgresServer, large: str) -> None:
    with sd.open(address(server, STEWARD, table), PEOPLE) as source, scanning(server, large):
        counts = [source.count() for _ in range(3)]
        per_person = source.count(["person"]).dense()

    assert counts[0] == counts[1] == counts[2]
    assert per_person.tolist() == [3] * 200


def test_rows_that_others_change_meanwhile_are_not_seen(server: PostgresServer) -> None:
    table = put_table(server, {"id": [1, 2], "person": ["1", "2"], "age": [5, 15]})
    with sd.open(address(server, STEWARD, table), PEOPLE) as source:
        before = source.count()
        server.execute(
            f"INSERT INTO {table} VALUES (3, '3', 25)",
            f"UPDATE {table} SET age = 95",
            f"DELETE FROM {table} WHERE id = 1",
        )
        after = source.count()

    assert before == after
    assert before.total == 2


def test_a_query_is_read_like_a_table(server: PostgresServer, large: str) -> None:
    query = server.address(
        user=STEWARD, password="pass-8675309", query="SELECT id, person, age FROM large WHERE id < 7;"
    )
    with sd.open(query, PEOPLE) as source:
        total = source.count().total

    assert total == 21


def test_nothing_is_left_on_the_server(server: PostgresServer, large: str) -> None:
    import psycopg

    with sd.open(address(server, STEWARD, "seen"), PEOPLE) as source:
        source.count()
    with psycopg.connect(server.address(), autocommit=True) as connection:
        left = connection.execute("SELECT COUNT(*) FROM pg_class WHERE relname LIKE 'sudare%'").fetchone()

    assert left == (0,)


# --- what may go wrong ------------------------------------------------------------------------------------------------

AGES = Schema(name="ages", attributes=(Attribute(name="age", domain=NumberBins.of_width(0, 100, 10)),))


def refusal(data: str, schema: Schema = AGES) -> str:
    """Open and count; give the one line of the refusal, in which no password stands."""
    with pytest.raises(sd.SudareError) as caught, sd.open(data, schema) as source:
        source.count()
    message = str(caught.value)

    assert "\n" not in message
    assert "8675309" not in message + repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


def test_a_server_that_does_not_answer_is_told_in_one_line() -> None:
    pytest.importorskip("psycopg")
    message = refusal("postgresql://me:pass-8675309@127.0.0.1:1/office?table=people")

    assert "postgresql://me@127.0.0.1:1/office?table=people" in message
    assert "does not answer" in message


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ({"user": STEWARD, "password": "wrong-8675309"}, "refused the user name or the password"),
        ({"user": STEWARD, "password": "pass-8675309", "database": "nowhere"}, "no such database"),
        ({"user": "nobody-at-all", "password": "pass-8675309"}, "refused the user name or the password"),
    ],
)
def test_a_refused_login_is_told_without_the_password(
    login: dict[str, str], words: str, server: PostgresServer
) -> None:
    assert words in refusal(server.address(**login, table="people"))


def test_a_table_that_is_not_there_is_named(server: PostgresServer) -> None:
    assert "there is no table or view nothing" in refusal(address(server, STEWARD, "nothing"))


def test_permission_denied_is_told(server: PostgresServer) -> None:
    server.execute("CREATE TABLE closed (age int)")

    assert "ask for the right GRANT" in refusal(address(server, STEWARD, "closed"))


@pytest.mark.parametrize("kind", ["timestamp with time zone", "jsonb", "integer[]", "interval", "bytea"])
def test_a_type_that_nobody_knows_is_named(kind: str, server: PostgresServer) -> None:
    table = f"odd_{abs(hash(kind))}"
    server.execute(f"CREATE TABLE {table} (age {kind})", f"GRANT SELECT ON {table} TO PUBLIC")

    assert f"column age has type {kind}, which cannot be read" in refusal(address(server, STEWARD, table))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("DELETE FROM large", "must be one SELECT"),
        ("SELECT 1; DROP TABLE large", "must be one SELECT"),
        ("SELECT age FROM nothing", "a table in it is not there"),
        ("SELECT 1 / (age - age) AS age FROM large", "cannot be computed"),
        ("SELECT age, age FROM large", "two columns named age"),
    ],
)
def test_a_query_that_cannot_be_read_is_told(query: str, words: str, server: PostgresServer, large: str) -> None:
    assert words in refusal(server.address(user=STEWARD, password="pass-8675309", query=query))


@pytest.mark.parametrize("data", ["postgresql://me@h/d", "postgresql://me@h/d?table=", "postgresql://me:8675309@[h/d"])
def test_an_address_that_says_too_little_is_refused(data: str) -> None:
    pytest.importorskip("psycopg")

    assert "table=" in refusal(data)


def test_a_view_needs_temporary_tables_to_limit_persons_but_not_to_count_rows(
    server: PostgresServer, large: str
) -> None:
    with sd.open(address(server, READER, "seen"), AGES) as source:
        total = source.count().total

    assert total == 40000
    assert "GRANT TEMPORARY" in refusal(address(server, READER, "seen"), PEOPLE)


def test_a_connection_that_ends_is_told(server: PostgresServer, large: str) -> None:
    with sd.open(address(server, STEWARD, "large"), AGES) as source:
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sudare'")
        with pytest.raises(sd.SourceError, match=r"the connection to the server was lost|ended the connection"):
            source.count()


# --- numbers and days as PostgreSQL has them --------------------------------------------------------------------------


@pytest.fixture
def odd_values(server: PostgresServer) -> Iterator[str]:
    server.execute(
        "CREATE TABLE odd_values (number numeric, short numeric(6, 2), whole numeric(12, 0), small real, day date,"
        " letter char(3), mood text)",
        "INSERT INTO odd_values VALUES (1.50, 1.50, 7, 0.1, '2024-02-29', 'a', 'x'),"
        " ('NaN', 'NaN', NULL, 'NaN', 'infinity', NULL, NULL),"
        " (99.999999999999999999, 9, 10, 'Infinity', '0044-03-15 BC', 'b', 'y')",
        "GRANT SELECT ON odd_values TO PUBLIC",
    )
    yield "odd_values"
    server.execute("DROP TABLE odd_values")


def test_odd_numbers_are_missing_or_outside(server: PostgresServer, odd_values: str) -> None:
    meant: dict[str, list[object]] = {
        "number": [Decimal("1.50"), None, Decimal("99.999999999999999999")],
        "short": [Decimal("1.50"), None, Decimal(9)],
        "whole": [7, None, 10],
        "small": [0.1, None, float("inf")],
    }
    attributes = tuple(
        Attribute(name=name, domain=NumberBins.of_width(0, 100, 10), missing=True, outside="other") for name in meant
    )
    with sd.open(address(server, STEWARD, odd_values), Schema(name="odd", attributes=attributes)) as source:
        found = {name: source.count([name]).dense() for name in meant}

    for attribute in attributes:
        codes = [attribute.encode(value) for value in meant[attribute.name]]
        assert found[attribute.name].tolist() == np.bincount(codes, minlength=attribute.size).tolist()


def test_days_that_python_has_none_of_do_not_fit(server: PostgresServer, odd_values: str) -> None:
    domain = DateBins((date(2024, 1, 1), date(2024, 12, 31)))
    for outside in ("refuse", "clamp"):
        schema = Schema(name="odd", attributes=(Attribute(name="day", domain=domain, outside=outside),))
        with sd.open(address(server, STEWARD, odd_values), schema) as source:
            problems = source.check().problems

        assert sum(problem.rows for problem in problems if problem.is_refused) == 2


def test_rows_are_written_to_parquet_with_their_types(server: PostgresServer, odd_values: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    schema = Schema(name="odd", attributes=(Attribute(name="mood", domain=Values(("x", "y")), missing=True),))
    with sd.open(address(server, STEWARD, odd_values), schema) as source:
        source.recode({}, others=True).write(tmp_path / "rows.parquet")
    written = pq.read_table(tmp_path / "rows.parquet")

    assert sorted(map(str, written["mood"].to_pylist())) == ["None", "x", "y"]
    assert {str(written.schema.field(name).type) for name in ("whole", "small")} == {"int64", "double"}
