"""A ledger of version 2: currencies, releases, certificates; and how one of version 1 becomes one, chain intact."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal
import sqlite3
from contextlib import closing
from fractions import Fraction
from hashlib import sha256

import pytest

from sudare.errors import BudgetExceeded, LedgerError, RelationMismatch
from sudare.privacy import ConcentratedGuarantee, Guarantee, Ledger, Unrecorded, ledger_file
from sudare.privacy.ledger_file import APPLICATION_ID, TABLES_AND_TRIGGERS
from sudare.schema.unit import Unit

CELLS = "noise in every cell"
HASH = "ab" * 32


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


def pure(epsilon="1/2", neighbours="replace"):
    return Guarantee(epsilon=Fraction(epsilon), neighbours=neighbours, unit=Unit())


def concentrated(rho="1/10", neighbours="replace"):
    return ConcentratedGuarantee(rho=Fraction(rho), neighbours=neighbours, unit=Unit())


def spend(ledger, promise, **more):
    return ledger.spend({CELLS: promise.amount}, guarantee=promise, **more)


# --- currencies ------------------------------------------------------------------------------------------------------


def test_a_ledger_in_rho_adds_up_rho(path):
    with Ledger.create(path, rho=1) as ledger:
        spend(ledger, concentrated("1/10"))
        spend(ledger, concentrated("1/10", "add-remove"))

        assert ledger.spent == Fraction(1, 10) + Fraction(4, 10)


def test_a_budget_of_epsilon_at_a_delta_is_the_largest_rho_that_keeps_it(path):
    with Ledger.create(path, epsilon=1, delta="1e-9") as ledger:
        assert (ledger.budget, ledger.delta) == (Fraction(14973057, 10**9), Fraction(1, 10**9))
        assert str(ledger.describe(ledger.budget)) == "rho = 0.014973057 (epsilon = 1 at delta = 1e-9)"


ONE = Fraction("0.46211716")  # epsilon 1 in rho: tanh(1/2), rounded up


def test_pure_epsilon_is_charged_to_a_ledger_in_rho_at_the_least_that_covers_it(path):
    with Ledger.create(path, rho=1) as ledger:
        parts = {"one": Fraction(1, 4), "two": Fraction(3, 4)}
        spends = ledger.spend(parts, guarantee=pure(1))
        ledger.verify()

        assert [(entry.amount, entry.cost) for entry in spends] == [
            (Fraction(1, 4), ONE / 4),
            (Fraction(3, 4), 3 * ONE / 4),
        ]
        assert ledger.spent == ONE


def test_pure_epsilon_between_other_neighbours_is_converted_before_it_is_exchanged(path):
    with Ledger.create(path, rho=3) as ledger:
        spend(ledger, pure(1, "add-remove"))

        assert ledger.spent == Fraction("1.5231884")  # 2 tanh(1), rounded up


def test_rho_is_refused_by_a_ledger_in_pure_epsilon_and_spends_nothing(path):
    with Ledger.create(path, epsilon=100) as ledger:
        with pytest.raises(RelationMismatch, match="counted in rho, which cannot be charged to a ledger in epsilon"):
            spend(ledger, concentrated())

        assert (ledger.spent, ledger.length) == (0, 0)


def test_too_much_rho_is_refused_in_the_words_of_rho(path):
    with Ledger.create(path, rho="0.05") as ledger, pytest.raises(BudgetExceeded) as caught:
        spend(ledger, concentrated())

    assert str(caught.value) == (
        "noise in every cell asks for rho = 1/10 (epsilon = 2.71549 at delta = 1e-9), "
        "but 1/20 of 1/20 is left;"
        " ask for less, since nothing spent comes back"
    )


def test_a_spend_tells_its_amount_by_the_name_of_its_currency(path):
    with Ledger.create(path, rho=1) as ledger:
        (of_rho,), (of_epsilon,) = spend(ledger, concentrated()), spend(ledger, pure())

    assert {key: of_rho.to_dict().get(key) for key in ("rho", "epsilon", "cost", "charged_in")} == {
        "rho": "1/10",
        "epsilon": None,
        "cost": "1/10",
        "charged_in": None,
    }
    assert {key: of_epsilon.to_dict().get(key) for key in ("rho", "epsilon", "cost", "charged_in")} == {
        "rho": None,
        "epsilon": "1/2",
        "cost": "6122967/50000000",
        "charged_in": "rho",
    }


def test_a_run_without_a_ledger_notes_rho_too():
    (entry,) = spend(Unrecorded(), concentrated())

    assert (entry.currency.name, entry.amount, entry.cost) == ("rho", Fraction(1, 10), Fraction(1, 10))


def test_a_ledger_travels_to_another_process_as_its_place(path):
    with Ledger.create(path, rho=1) as ledger, pickle.loads(pickle.dumps(ledger)) as again:
        spend(again, concentrated())

        assert ledger.spent == Fraction(1, 10)


# --- releases and certificates ---------------------------------------------------------------------------------------


def test_spends_of_one_release_share_its_id_and_others_have_another(path):
    with Ledger.create(path, epsilon=2) as ledger:
        ledger.spend({"one": Fraction(1, 4), "two": Fraction(1, 4)}, guarantee=pure())
        spend(ledger, pure(), release="0" * 32)
        ids = [entry.release for entry in ledger.entries()]

    assert ids[0] == ids[1] != ids[2] == "0" * 32


def test_a_certificate_is_bound_to_its_release_once(path):
    with Ledger.create(path, epsilon=1) as ledger:
        (entry,) = spend(ledger, pure())
        before = ledger.certificate_of(entry.release)
        ledger.bind(entry.release, HASH)
        head = ledger.head
        ledger.bind(entry.release, HASH)
        ledger.verify(head=entry.head)
        with pytest.raises(LedgerError, match="holds another certificate of release"):
            ledger.bind(entry.release, "cd" * 32)

        assert (before, ledger.certificate_of(entry.release)) == (None, HASH)
        assert (ledger.head, ledger.length, ledger.spent, len(ledger.entries())) == (head, 2, Fraction(1, 2), 1)


@pytest.mark.parametrize(("release", "certificate"), [("0" * 32, HASH), (None, HASH.upper()), (None, "ab"), ("", HASH)])
def test_a_certificate_that_is_none_or_of_an_unknown_release_is_refused(path, release, certificate):
    with Ledger.create(path, epsilon=1) as ledger:
        (entry,) = spend(ledger, pure())
        with pytest.raises(LedgerError):
            ledger.bind(entry.release if release is None else release, certificate)

        assert ledger.length == 1


def test_a_spend_tells_what_was_spent_up_to_it_and_not_what_others_spent_later(path):
    with Ledger.create(path, epsilon=2) as ledger, Ledger.open(path) as other:
        (own,) = spend(ledger, pure())
        spend(other, pure())

        assert (own.total, ledger.spent) == (Fraction(1, 2), 1)


# --- a chain broken anywhere -----------------------------------------------------------------------------------------


def alter(path, statement):
    """Change the file as one does who takes the triggers away and puts them back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        triggers = shell.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            shell.execute(f"DROP TRIGGER {name}")
        shell.execute(statement)
        for _, trigger in triggers:
            shell.execute(trigger)


@pytest.mark.parametrize("what", ["UPDATE entries SET about = 'x'", "DELETE FROM entries"])
@pytest.mark.parametrize("stays_open", [True, False], ids=["open", "opened anew"])
def test_a_chain_broken_in_its_middle_accepts_no_spend(path, what, stays_open):
    with Ledger.create(path, epsilon=10) as ledger:
        for _ in range(5):
            spend(ledger, pure())
        alter(path, f"{what} WHERE seq = 2")
        with pytest.raises(LedgerError, match="was altered: entry 2"):
            spend(ledger, pure()) if stays_open else Ledger.open(path)
    with closing(sqlite3.connect(path)) as shell:
        assert shell.execute("SELECT max(seq) FROM entries").fetchone() == (5,)


# --- version 1 -------------------------------------------------------------------------------------------------------


def first_hash(facts, previous, row):
    """The hash as the first version computed it."""
    sealed = {**facts, "previous": previous, "format": 1, "row": row}
    return sha256(json.dumps(sealed, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def make_first_version(path, spends=("1/4", "1/3")):
    """Write a ledger as the first version of Sudare did; give its heads."""
    genesis = {
        "id": "5" * 32, "name": "members", "created": "2026-01-05T00:00:00.000000Z", "budget": "2",
        "neighbours": "replace", "unit": None,
    }  # fmt: skip
    heads, total, rows = [first_hash(genesis, "", "Genesis")], Fraction(), []
    for seq, epsilon in enumerate(spends, 1):
        total += 2 * Fraction(epsilon)
        entry = {
            "seq": seq, "time": "2026-01-05T00:00:01.000000Z", "purpose": CELLS, "neighbours": "add-remove",
            "unit": '{"kind":"row"}', "epsilon": epsilon, "cost": str(2 * Fraction(epsilon)), "total": str(total),
        }  # fmt: skip
        heads.append(first_hash(entry, heads[-1], "Entry"))
        rows.append((*entry.values(), heads[-1]))
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("PRAGMA journal_mode = WAL")
        shell.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        shell.execute("PRAGMA user_version = 1")
        for statement in TABLES_AND_TRIGGERS[1].values():
            shell.execute(statement)
        shell.execute("INSERT INTO genesis VALUES (?, ?, ?, ?, ?, ?, ?)", (*genesis.values(), heads[0]))
        shell.executemany("INSERT INTO spends VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return heads


def test_a_ledger_of_version_1_is_read_and_verified(path):
    heads = make_first_version(path)
    with Ledger.open(path) as ledger:
        for head in heads:
            ledger.verify(head=head)

        assert (ledger.version, ledger.budget, ledger.spent, ledger.head) == (1, 2, Fraction(7, 6), heads[-1])
        assert [entry.epsilon for entry in ledger.entries()] == [Fraction(1, 4), Fraction(1, 3)]


def test_a_ledger_of_version_1_is_not_spent_from_and_says_what_to_do(path):
    make_first_version(path)
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match=f"sudare ledger migrate {path}$"):
        spend(ledger, pure())


@pytest.mark.parametrize("spends", [(), ("1/4", "1/3")], ids=["empty", "spent"])
def test_a_migrated_ledger_holds_every_head_it_had_and_goes_on(path, spends):
    heads = make_first_version(path, spends)
    with Ledger.open(path) as ledger:
        before = (ledger.spent, ledger.unit, ledger.entries(), ledger.name, ledger.budget)
        ledger.migrate()
        ledger.migrate()
        after = (ledger.spent, ledger.unit, ledger.entries(), ledger.name, ledger.budget)
        spend(ledger, pure())
    with Ledger.open(path) as again:
        for head in heads:
            again.verify(head=head)

        assert (before, again.version, again.length) == (after, 2, len(spends) + 2)


def test_a_ledger_that_is_migrated_while_open_elsewhere_is_followed(path):
    make_first_version(path)
    with Ledger.open(path) as reader, Ledger.open(path) as writer:
        writer.migrate()
        spend(reader, pure())

        assert writer.spent == Fraction(7, 6) + Fraction(1, 2)


def test_an_interrupted_migration_changes_nothing(path, monkeypatch):
    heads = make_first_version(path)
    with Ledger.open(path) as ledger:
        rewrite = ledger._file.rewrite

        def interrupted(*given):
            rewrite(*given)
            raise KeyboardInterrupt

        monkeypatch.setattr(ledger._file, "rewrite", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.migrate()
    with Ledger.open(path) as again:
        again.verify(head=heads[-1])

        assert (again.version, again.length) == (1, 2)


def kill_migration(path, moment):
    """Migrate in a process of its own that kills itself with signal 9 before its so-manieth statement; tell its end."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left, connect = itertools.count(moment, -1), ledger_file.connect

    def count_down(statement):
        if not next(left):
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(*given, **options):
        connection = connect(*given, **options)
        connection.set_trace_callback(count_down)
        return connection

    ledger_file.connect = watched
    try:
        Ledger.open(path).migrate()
    finally:
        os._exit(0)


def test_a_migration_killed_before_any_of_its_statements_loses_nothing_and_is_done_again(path, tmp_path):
    """kill -9 at every statement that it makes, one run each: version 1 as it was, or version 2 as it must be."""
    versions = []
    for moment in itertools.count():
        place = tmp_path / f"{moment}.ledger"
        heads = make_first_version(place)
        ended = kill_migration(place, moment)
        with Ledger.open(place) as ledger:
            ledger.verify(head=heads[-1])
            versions.append(ledger.version)
            assert (ledger.spent, ledger.length) == (Fraction(7, 6), 2 + (ledger.version == 2))
            ledger.migrate()
            for head in heads:
                ledger.verify(head=head)
            assert spend(ledger, pure())[0].cost == Fraction(1, 2)
        if not ended:
            break
        assert ended == -signal.SIGKILL

    assert len(versions) > 20
    assert versions == sorted(versions)
    assert versions[-1] == 2


@pytest.mark.parametrize(
    "statement", ["UPDATE spends SET purpose = 'x' WHERE seq = 1", "UPDATE genesis SET budget = '9'"]
)
def test_an_altered_ledger_of_version_1_is_neither_opened_nor_migrated(path, statement):
    make_first_version(path)
    alter(path, statement)

    with pytest.raises(LedgerError, match="was altered"):
        Ledger.open(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [("salt", "0"), ("kind", "bind"), ("release", "0" * 32), ("currency", "rho"), ("promised", "1"), ("format", 2)],
)
def test_what_a_migration_filled_in_cannot_be_changed_without_breaking_the_chain(path, column, value):
    make_first_version(path)
    with Ledger.open(path) as ledger:
        ledger.migrate()
    alter(path, f"UPDATE entries SET {column} = '{value}' WHERE seq = 1")

    with pytest.raises(LedgerError, match="entry 1 does not fit the chain of hashes"):
        Ledger.open(path)
