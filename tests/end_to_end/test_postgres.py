"""A steward whose table stands on a PostgreSQL server: every command reads it there, and no password is ever shown."""

from __future__ import annotations

import csv
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import sudare as sd
from tests.contracts.postgres_tables import READER, SECRET, STEWARD, make_roles
from tests.end_to_end.conftest import Ran
from tests.servers import PostgresServer

SCHEMA = """
[sudare]
schema = 1
name = "people"

[[attribute]]
name = "sex"
kind = "category"
values = ["f", "m"]

[[attribute]]
name = "age"
kind = "number"
bins = { start = 0, stop = 100, width = 10 }
role = "quasi"
hierarchy = { groups = [2, 10] }

[[attribute]]
name = "joined"
kind = "date"
bins = { start = 2024-01-01, stop = 2024-12-31, width = "1 month" }

[[attribute]]
name = "amount"
kind = "number"
bins = { start = 0, stop = 1000, width = 100 }
"""


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> PostgresServer:
    make_roles(postgres_server)
    postgres_server.execute(
        "CREATE TABLE people AS SELECT CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex, (i * 7) % 100 AS age,"
        " to_char(DATE '2024-01-01' + i % 366, 'YYYY/MM/DD') AS joined, (i * 37 % 100000) / 100.0 AS amount"
        " FROM generate_series(1, 2000) AS i",
        "GRANT SELECT ON people TO PUBLIC",
    )
    return postgres_server


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_LANG", "en")
    Path("people.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(sudare: Callable[..., Ran]) -> Callable[..., Ran]:
    """Run a command; the password of the address is nowhere in what it says."""

    def call(*words: str) -> Ran:
        done = sudare(*words)

        assert SECRET not in done.out + done.err
        return done

    return call


def people(server: PostgresServer, role: str = STEWARD, **more: str) -> str:
    return server.address(user=role, password=SECRET, **{"table": "people", **more})


def no_file_holds_the_password(folder: Path) -> bool:
    return not any(SECRET.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_a_steward_walks_from_a_draft_to_a_report_without_moving_the_table(
    server: PostgresServer, office: Path, run: Callable[..., Ran]
) -> None:
    data = people(server)
    steps = [
        ("schema", "init", data, "-o", "draft.toml"),
        ("schema", "check", data, "--schema", "people.toml"),
        ("ledger", "create", "people.ledger", "--epsilon", "10"),
        (
            "publish",
            "microdata",
            data,
            "--schema",
            "people.toml",
            "--epsilon",
            "1",
            "--ledger",
            "people.ledger",
            "-o",
            "m",
        ),
        ("publish", "table", data, "--schema", "people.toml", "--epsilon", "1", "--ledger", "people.ledger", "-o", "t"),
        ("publish", "view", data, "--schema", "people.toml", "--epsilon", "1", "--ledger", "people.ledger", "-o", "v"),
        ("report", "m", "--truth", data, "--schema", "people.toml", "-o", "m.html"),
        ("verify", "m"),
    ]
    results = [run(*step) for step in steps]

    assert [(result.code, result.err) for result in results if result.code] == []
    assert 'name = "draft"' in Path("draft.toml").read_text(encoding="utf-8")
    assert no_file_holds_the_password(office)


@pytest.mark.parametrize("role", [STEWARD, READER])
def test_a_k_anonymous_table_is_written_to_files_and_into_a_new_table(
    role: str, server: PostgresServer, office: Path, run: Callable[..., Ran]
) -> None:
    import psycopg

    into = server.address(user=STEWARD, password=SECRET, table=f"published_{role}")
    words = (
        "publish",
        "kanon",
        people(server, role),
        "--schema",
        "people.toml",
        "--k",
        "5",
        "--format",
        "csv",
        "--into",
        into,
    )
    done, again = run(*words, "-o", "k"), run(*words, "-o", "k2")

    assert done.code == 0, done.err
    with Path("k", "records.csv").open(encoding="utf-8", newline="") as file:
        written = sorted(tuple(value or None for value in row) for row in list(csv.reader(file))[1:])
    with psycopg.connect(server.address(), autocommit=True) as connection:
        copied = connection.execute(f"SELECT * FROM published_{role}").fetchall()
        (comment,) = connection.execute(f"SELECT obj_description('published_{role}'::regclass)").fetchone() or ("",)

    assert done.code == 0, done.err
    assert sorted(tuple(row) for row in copied) == written
    assert "certificate.json" in comment
    assert f"copied into table published_{role}: {len(written)} rows" in done.out
    assert again.code == 1
    assert f"there is a table published_{role}" in again.err
    assert not Path("k2").exists()
    assert no_file_holds_the_password(office)


def test_the_same_rows_give_the_same_release_through_every_door(
    server: PostgresServer, office: Path, run: Callable[..., Ran]
) -> None:
    import psycopg
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    with psycopg.connect(server.address()) as connection:
        rows = connection.execute("SELECT sex, age, joined, amount::float8 FROM people ORDER BY random()").fetchall()
    table = pa.table(dict(zip(("sex", "age", "joined", "amount"), map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, "people.parquet")
    pyarrow.csv.write_csv(table, "people.csv")
    doors = {
        "csv": "people.csv",
        "parquet": "people.parquet",
        "server": people(server),
        "reader": people(server, READER),
        "query": server.address(user=STEWARD, password=SECRET, query="SELECT * FROM people WHERE age IS NOT NULL"),
    }
    schema = sd.Schema.read("people.toml")
    counts, releases = {}, {}
    for name, data in doors.items():
        with sd.open(data, schema) as source:
            counts[name] = source.count()
        result = run("publish", "microdata", data, "--schema", "people.toml", "--epsilon", "1", "--seed-for-tests", "7",
                     "-o", name, "--format", "csv")  # fmt: skip
        assert result.code == 0, result.err
        releases[name] = Path(name, "records.csv").read_bytes()

    assert all(count == counts["csv"] for count in counts.values())
    assert len(set(releases.values())) == 1


def test_a_recipe_reads_from_a_server(server: PostgresServer, office: Path, run: Callable[..., Ran]) -> None:
    source = json.dumps(people(server))
    Path("recipe.toml").write_text(
        f'[recipe]\nversion = 1\nsource = {source}\nschema = "people.toml"\nout = "releases"\n'
        '[ledger]\nfile = "people.ledger"\n'
        '[[release]]\nname = "records"\npublish = "microdata"\nepsilon = 1\n',
        encoding="utf-8",
    )
    run("ledger", "create", "people.ledger", "--epsilon", "10")
    result = run("run", "recipe.toml")

    assert result.code == 0, result.err
    Path("recipe.toml").unlink()  # the steward's own file is the one place with the password
    assert no_file_holds_the_password(office)


def test_a_wrong_password_is_one_line_in_both_languages(
    server: PostgresServer, office: Path, run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = server.address(user=STEWARD, password="wrong-" + SECRET, table="people")
    words = (
        "publish",
        "microdata",
        data,
        "--schema",
        "people.toml",
        "--epsilon",
        "1",
        "-o",
        "m",
        "--seed-for-tests",
        "1",
    )
    english = run(*words)
    monkeypatch.setenv("SUDARE_LANG", "ja")
    japanese = run(*words)

    assert english.code == japanese.code == 1
    assert len(english.err.strip().splitlines()) == len(japanese.err.strip().splitlines()) == 1
    assert "パスワード" in japanese.err


def test_an_interrupt_stops_the_query_on_the_server(
    server: PostgresServer, office: Path, run: Callable[..., Ran]
) -> None:
    import psycopg

    active = (
        "SELECT COUNT(*) FROM pg_stat_activity"
        " WHERE application_name = 'sudare' AND state = 'active' AND query LIKE '%3600%'"
    )
    is_stopped = threading.Event()

    def interrupt_when_it_runs() -> None:
        with psycopg.connect(server.address(), autocommit=True) as connection:
            while connection.execute(active).fetchone() == (0,):
                pass
        os.kill(os.getpid(), signal.SIGINT)
        while not is_stopped.wait(10):  # Python drops an interrupt that strikes while it cleans up: press again
            os.kill(os.getpid(), signal.SIGINT)

    slow = server.address(user=STEWARD, password=SECRET, query="SELECT age FROM people, pg_sleep(3600)")
    schema = sd.Schema(
        name="ages", attributes=(sd.Attribute(name="age", domain=sd.NumberBins.of_width(0, 100, 10)),)
    )  # fmt: skip
    watcher = threading.Thread(target=interrupt_when_it_runs)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        sd.open(slow, schema)
    is_stopped.set()
    watcher.join()
    with psycopg.connect(server.address(), autocommit=True) as connection:
        left = connection.execute(active).fetchone()

    assert left == (0,)


def test_progress_comes_in_parts_that_add_up(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    from sudare.sources import postgres

    monkeypatch.setattr(postgres, "_PAGES_PER_PART", 2)
    schema = sd.Schema(
        name="ages",
        attributes=(
            sd.Attribute(name="age", domain=sd.NumberBins.of_width(0, 100, 10)),
            sd.Attribute(name="sex", domain=sd.Values(("f", "m"))),
        ),
    )
    shares: list[float] = []
    with sd.open(people(server), schema) as source:
        whole = source.count()
    with sd.open(people(server), schema, progress=shares.append) as source:
        parts = source.count()

    assert parts == whole
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert shares[-1] == 1
