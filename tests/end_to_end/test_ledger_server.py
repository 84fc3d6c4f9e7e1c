"""A ledger on a PostgreSQL server keeps what one in a file keeps: exact, never overspent, nothing lost or altered."""

from __future__ import annotations

import os
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from sudare.app import publish
from sudare.errors import BudgetExceeded, LedgerError, RelationMismatch
from sudare.methods.microdata import Microdata
from sudare.privacy import ConcentratedGuarantee, Guarantee, Ledger
from sudare.privacy.currency import RHO
from sudare.schema.unit import Unit
from tests.end_to_end import test_ledger_processes
from tests.end_to_end.test_ledger_processes import FORKER, Nursery
from tests.processes import run
from tests.servers import PASSWORD, PostgresServer

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'sudare[postgres]'")

nursery = test_ledger_processes.nursery  # the fixture
PUBLISHER, PUBLISHER_PASSWORD = "publisher", "another secret"
HASH = "ab" * 32


@pytest.fixture
def server(postgres_server: PostgresServer) -> PostgresServer:
    return postgres_server


@pytest.fixture
def address(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a ledger of this test alone."""
    name = f"l{abs(hash(request.node.nodeid)) % 10**12}"
    yield server.address(ledger=name)
    server.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def schema_of(address: str) -> str:
    return address.rpartition("ledger=")[2]


def pure(epsilon: object = "1/2", neighbours: str = "replace", unit: Unit | None = None) -> Guarantee:
    return Guarantee(epsilon=Fraction(epsilon), neighbours=neighbours, unit=unit or Unit())


def spend(ledger: Ledger, promise: object = None) -> tuple:
    promise = promise or pure()
    return ledger.spend({"noise in every cell": promise.amount}, guarantee=promise)


# --- as in a file ----------------------------------------------------------------------------------------------------


def test_a_ledger_on_a_server_adds_up_refuses_and_verifies(address: str) -> None:
    with Ledger.create(address, epsilon=1, name="people") as ledger:
        first = spend(ledger, pure("1/4", "add-remove"))
        with pytest.raises(BudgetExceeded, match=r"asks for epsilon = 3/4, but 1/2 of 1 is left; ask for less"):
            spend(ledger, pure("3/4"))
        ledger.bind(first[0].release, HASH)
    with Ledger.open(address) as again:
        again.verify(head=first[0].head)

        assert (again.name, again.budget, again.left, again.unit) == ("people", 1, Fraction(1, 2), Unit())
        assert again.entries() == list(first)
        assert again.certificate_of(first[0].release) == HASH


def test_a_ledger_in_rho_on_a_server_takes_both_currencies(address: str) -> None:
    with Ledger.create(address, rho=1) as ledger, pickle.loads(pickle.dumps(ledger)) as other:
        spend(ledger, ConcentratedGuarantee(rho=Fraction(1, 10), neighbours="replace", unit=Unit()))
        spend(other, pure(1))

        assert ledger.spent == Fraction(1, 10) + RHO.charge_pure(Fraction(1))


def test_rho_and_another_unit_are_refused_and_spend_nothing(address: str) -> None:
    with Ledger.create(address, epsilon=1) as ledger:
        spend(ledger, pure("1/4"))
        for promise in (
            ConcentratedGuarantee(rho=Fraction(1, 10), neighbours="replace", unit=Unit()),
            pure("1/4", unit=Unit(kind="person", column="id", max_rows=2)),
        ):
            with pytest.raises(RelationMismatch):
                spend(ledger, promise)

        assert ledger.spent == Fraction(1, 4)


def test_two_ledgers_of_one_database_know_nothing_of_each_other(server: PostgresServer, address: str) -> None:
    other = address + "_2"
    try:
        with Ledger.create(address, epsilon=1) as one, Ledger.create(other, epsilon=1) as two:
            spend(one)

            assert (one.left, two.left, Ledger.exists(address + "_3")) == (Fraction(1, 2), 1, False)
    finally:
        server.execute(f"DROP SCHEMA {schema_of(other)} CASCADE")


def test_a_ledger_is_never_overwritten(address: str) -> None:
    Ledger.create(address, epsilon=1).close()

    with pytest.raises(LedgerError, match="exists already, and a ledger is never overwritten"):
        Ledger.create(address, epsilon=2)


def test_a_table_is_published_and_charged_to_a_server(address: str, place: Path) -> None:
    Ledger.create(address, epsilon=1).close()
    told = publish(Microdata(epsilon="1/2"), place / "members.csv", out=place / "release",
                   schema_file=place / "members.toml", ledger_file=address)  # fmt: skip
    with Ledger.open(address) as ledger:
        assert (told.left, ledger.left) == (Fraction(1, 2), Fraction(1, 2))
        assert ledger.head != told.certificate.ledger_head  # the hash of the certificate was bound behind the spend


# --- tampering -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {schema}.entries SET cost = '1/8'",
        "DELETE FROM {schema}.entries",
        "TRUNCATE {schema}.entries",
        "SET session_replication_role = replica; UPDATE {schema}.entries SET cost = '1/8'",
        "UPDATE {schema}.genesis SET budget = '100'",
        "INSERT INTO {schema}.entries SELECT * FROM {schema}.entries",
        "INSERT INTO {schema}.genesis SELECT * FROM {schema}.genesis",
    ],
)
def test_the_server_itself_refuses_changes(server: PostgresServer, address: str, statement: str) -> None:
    with Ledger.create(address, epsilon=1) as ledger:
        spend(ledger)
        with pytest.raises(psycopg.Error):
            server.execute(statement.format(schema=schema_of(address)))

        ledger.verify()


def alter(server: PostgresServer, address: str, statement: str) -> None:
    """Change what is stored as one does who takes the triggers away and puts them back."""
    schema = schema_of(address)
    tables = [f"{schema}.{table}" for table in ("genesis", "entries")]
    server.execute(*(f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in tables))
    server.execute(statement.format(schema=schema))
    server.execute(
        *(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER refuse_{table.rpartition('.')[2]}" for table in tables)
    )


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("UPDATE {schema}.entries SET about = 'x' WHERE seq = 2", "entry 2 does not fit the chain of hashes"),
        ("DELETE FROM {schema}.entries WHERE seq = 2", "entry 2 is missing"),
        ("DELETE FROM {schema}.entries WHERE seq = 4", "entries that were there are gone"),
        ("UPDATE {schema}.genesis SET budget = '9000'", "its budget, neighbours, unit or name is not what"),
    ],
)
def test_an_open_ledger_sees_what_was_altered_and_spends_nothing(
    server: PostgresServer, address: str, statement: str, line: str
) -> None:
    with Ledger.create(address, epsilon=100) as ledger:
        for _ in range(4):
            spend(ledger)
        alter(server, address, statement)

        with pytest.raises(LedgerError, match=line):
            spend(ledger)


def test_a_chain_broken_in_its_middle_is_not_opened(server: PostgresServer, address: str) -> None:
    with Ledger.create(address, epsilon=100) as ledger:
        for _ in range(4):
            spend(ledger)
    alter(server, address, "UPDATE {schema}.entries SET about = 'x' WHERE seq = 2")

    with pytest.raises(LedgerError, match="entry 2 does not fit the chain of hashes"):
        Ledger.open(address)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER refuse_entries ON {schema}.entries",
        "ALTER TABLE {schema}.entries DISABLE TRIGGER refuse_entries",
        "ALTER TABLE {schema}.entries ENABLE TRIGGER refuse_entries",
        "CREATE OR REPLACE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE RULE nothing AS ON INSERT TO {schema}.entries DO INSTEAD NOTHING",
    ],
)
def test_a_schema_that_is_not_that_of_a_ledger_is_refused(server: PostgresServer, address: str, statement: str) -> None:
    with Ledger.create(address, epsilon=1) as ledger:
        server.execute(statement.format(schema=schema_of(address)))
        for look in (lambda: spend(ledger), lambda: Ledger.open(address)):
            with pytest.raises(LedgerError, match="its tables and triggers are not those of a ledger"):
                look()


def test_a_spend_waits_for_the_disk_whatever_the_server_does_by_default(server: PostgresServer, address: str) -> None:
    hasty = address + "&options=-c%20synchronous_commit%3Doff"
    with Ledger.create(hasty, epsilon=1) as ledger, ledger._file.writing():
        ((setting,),) = ledger._file._query("SHOW synchronous_commit")

    assert setting == "on"


# --- one line for every trouble, and no password in it ---------------------------------------------------------------


def refuse(call: Callable[[], object]) -> str:
    with pytest.raises(LedgerError) as caught:
        call()
    told = str(caught.value)

    assert told.isprintable()
    assert PASSWORD not in told
    assert "s3cret" not in told
    assert "wrong-one" not in told
    return told


def test_troubles_are_told_in_one_line_without_the_password(server: PostgresServer, address: str) -> None:
    there = f"127.0.0.1:{server.port}/postgres"
    cases = {
        server.address(password="wrong-one"): "the server refuses the login",
        server.address(user="stranger"): "the server refuses the login",
        server.address(database="nowhere"): "the server refuses the login",
        server.address().replace(f":{server.port}/", ":1/"): "no server answers there",
        address: "does not exist; make it with: sudare ledger create",
        f"postgresql://office:s3cret@{there}?ledger=Big": "the address of a ledger on a server must be like",
        f"postgresql://office:s3cret@{there}?colour=red": "the address of a ledger on a server must be like",
        f"postgresql://office:s3cret@127.0.0.1:x/{there}": "the address of a ledger on a server must be like",
    }
    told = {place: refuse(lambda place=place: Ledger.open(place)) for place in cases}

    assert [told[place] for place, line in cases.items() if line not in told[place]] == []


def test_no_place_where_a_ledger_shows_itself_holds_the_password(address: str, tmp_path: Path) -> None:
    with Ledger.create(address, epsilon=1) as ledger:
        shown = [repr(ledger), str(ledger.where), str(ledger.path), ledger._repr_html_()]
    environment = {**os.environ, "COLUMNS": "400"}
    for words in (["show"], ["show", "--json"], ["verify"], ["migrate"], ["create", "--epsilon", "1"]):
        done = run([sys.executable, "-m", "sudare", "ledger", words[0], address, *words[1:]], env=environment)
        shown.append(done.stdout + done.stderr)

    assert [line for line in shown if "s3cret" in line or not line] == []


@pytest.fixture
def publisher(server: PostgresServer, address: str) -> Iterator[str]:
    """The address for a role that may read the ledger and add to it, and nothing else."""
    schema = schema_of(address)
    Ledger.create(address, epsilon=1).close()
    server.execute(
        f"CREATE ROLE {PUBLISHER} LOGIN PASSWORD '{PUBLISHER_PASSWORD}'",
        f"GRANT USAGE ON SCHEMA {schema} TO {PUBLISHER}",
        f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO {PUBLISHER}",
    )
    yield server.address(user=PUBLISHER, password=PUBLISHER_PASSWORD, ledger=schema)
    server.execute(f"DROP OWNED BY {PUBLISHER}", f"DROP ROLE {PUBLISHER}")


def test_a_role_that_may_only_read_and_add_can_publish(publisher: str) -> None:
    with Ledger.open(publisher) as ledger:
        spend(ledger)
        ledger.verify()

        assert ledger.left == Fraction(1, 2)


def test_a_role_without_permission_is_told_what_it_needs(server: PostgresServer, publisher: str) -> None:
    server.execute(f"REVOKE INSERT ON ALL TABLES IN SCHEMA {schema_of(publisher)} FROM {PUBLISHER}")
    with Ledger.open(publisher) as ledger:
        told = [refuse(lambda: spend(ledger))]
    server.execute(f"REVOKE USAGE ON SCHEMA {schema_of(publisher)} FROM {PUBLISHER}")
    told += [refuse(lambda: Ledger.open(publisher)), refuse(lambda: Ledger.create(publisher + "_2", epsilon=1))]

    assert all("the server denies permission; grant this role USAGE of the schema" in line for line in told)


def test_a_ledger_locked_for_long_is_refused_in_one_line(server: PostgresServer, address: str) -> None:
    with Ledger.create(address, epsilon=1) as holder, Ledger.open(address, wait_seconds=0.05) as waiting:
        with holder._file.writing():
            told = refuse(lambda: spend(waiting))
        spend(waiting)

        assert told.endswith("is locked by another process; try again when it is done")
        assert holder.spent == Fraction(1, 2)


# --- many processes, and kill -9 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", [2, 1000], ids=["opening anew", "staying open"])
def test_eight_processes_of_two_roles_spend_exactly_the_budget(
    nursery: Nursery,
    address: str,
    publisher: str,
    between: int,
) -> None:
    places = [address, publisher] * 4
    workers = [nursery.worker("spend", path=place, epsilon="1/60", between=between) for place in places]
    nursery.go()
    for worker in workers:
        worker.wait()
    acknowledged = Counter(head for worker in workers for head in worker.heads)
    with Ledger.open(address) as ledger:
        ledger.verify()
        written = Counter(entry.head for entry in ledger.entries() if entry.seq % 2 == 0)

        assert (ledger.left, all("refused" in worker.said for worker in workers)) == (0, True)
        assert acknowledged == written


def check_sound(address: str, acknowledged: set[str]) -> None:
    with Ledger.open(address) as ledger:
        ledger.verify()
        entries = ledger.entries()
    lost = acknowledged - {entry.head for entry in entries}

    assert lost == set()
    assert len(entries) % 2 == 0  # the two parts of a spend came together
    assert sum(entry.cost for entry in entries) == Fraction(len(entries) // 2, 100)


def test_a_killed_client_never_refunds_never_overspends_never_blocks(nursery: Nursery, address: str) -> None:
    Ledger.create(address, epsilon=1000).close()
    moments = random.Random(1)
    acknowledged: set[str] = set()
    for _ in range(3):
        workers = [nursery.worker("spend", path=address, epsilon="1/100", between=50) for _ in range(3)]
        nursery.go()
        for worker in workers:  # those not yet killed go on spending while the ledger is checked
            worker.wait_until_it_said(moments.randint(1, 4))
            time.sleep(moments.uniform(0, 0.005))  # anywhere inside the spends that follow
            worker.kill()
            acknowledged |= worker.heads
            check_sound(address, acknowledged)
        nursery.hold()

    assert len(acknowledged) >= 9


def test_a_killed_server_never_forgets_what_it_acknowledged(
    nursery: Nursery,
    server: PostgresServer,
    address: str,
) -> None:
    Ledger.create(address, epsilon=1000).close()
    moments = random.Random(2)
    acknowledged: set[str] = set()
    with Ledger.open(address) as patient:
        for _ in range(3):
            workers = [nursery.worker("spend", path=address, epsilon="1/100", between=1000) for _ in range(4)]
            nursery.go()
            for worker in workers:
                worker.wait_until_it_said(moments.randint(1, 6))
            time.sleep(moments.uniform(0, 0.005))
            server.kill()
            for worker in workers:
                worker.wait()
            nursery.hold()
            with pytest.raises(LedgerError, match=r"the server ended the connection|no server answers there"):
                _ = patient.left
            server.start()
            acknowledged |= {head for worker in workers for head in worker.heads}
            check_sound(address, acknowledged)

            assert all(worker.said[-1] == "the server is gone" for worker in workers)
            assert patient.spent > 0  # an open ledger finds the server again

    assert len(acknowledged) >= 12


def test_a_ledger_on_a_server_that_was_open_at_a_fork_serves_parent_and_children(address: str) -> None:
    Ledger.create(address, epsilon=1).close()
    done = run([sys.executable, "-c", FORKER.replace("Path(sys.argv[1])", "sys.argv[1]"), address])
    with Ledger.open(address) as ledger:
        ledger.verify()

        assert (done.returncode, done.stderr) == (0, "")
        assert Counter(entry.purpose for entry in ledger.entries()) == {"parent": 4, "child": 100}


RECIPE = """
[recipe]
version = 1
source = "members.csv"
schema = "members.toml"
out = "releases"

[ledger]
file = "{address}"
budget = "1"
delta = "1e-9"

[[release]]
name = "records"
publish = "microdata"
epsilon = "1/10"
"""


def test_a_recipe_makes_its_ledger_on_a_server_in_rho_and_goes_on_from_there(
    server: PostgresServer, address: str, place: Path, sudare: Callable[..., object]
) -> None:
    (place / "recipe.toml").write_text(RECIPE.replace("{address}", address), encoding="utf-8")
    dry, first, second = (sudare("run", "recipe.toml", *more) for more in (["--dry-run"], [], []))
    told = [ran.out + ran.err for ran in (dry, first, second)]
    with Ledger.open(address) as ledger:
        assert [ran.code for ran in (dry, first, second)] == [0, 0, 0], told
        assert ledger.spent == RHO.charge_pure(Fraction(1, 10)) < Fraction(1, 200)
        assert "rho 0.014973057 (epsilon 1 at delta 1e-9)" in first.out
        assert "done before" in second.out
    assert not any("s3cret" in line for line in told)


def test_a_recipe_that_says_another_currency_than_its_ledger_is_refused(
    server: PostgresServer, address: str, place: Path, sudare: Callable[..., object]
) -> None:
    Ledger.create(address, epsilon=1).close()
    (place / "recipe.toml").write_text(RECIPE.replace("{address}", address), encoding="utf-8")
    ran = sudare("run", "recipe.toml")

    assert ran.code == 1
    assert "has a budget of epsilon 1, and the recipe says rho 0.014973057" in ran.err
    assert "s3cret" not in ran.err
