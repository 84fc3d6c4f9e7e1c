"""What was spent stays spent: the file refuses changes, and a change made all the same is found."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from fractions import Fraction

import pytest

from sudare.errors import LedgerError
from sudare.privacy import Guarantee, Ledger
from sudare.privacy.chain import Entry, Genesis, seal
from sudare.schema.unit import Unit

COLUMNS = ", ".join(Entry._fields[1:])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


@pytest.fixture
def ledger(path):
    with Ledger.create(path, epsilon=1) as opened:
        yield opened


def spend(ledger, epsilon="1/2", neighbours="replace", unit=None):
    promise = Guarantee(epsilon=Fraction(epsilon), neighbours=neighbours, unit=unit or Unit())
    return ledger.spend({"noise in every cell": Fraction(epsilon)}, guarantee=promise)


@contextmanager
def raw(path):
    """The file as a stranger with an SQLite shell sees it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET cost = '1/4' WHERE seq = 1",
        "DELETE FROM entries WHERE seq = 2",
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE seq = 2",
        f"INSERT INTO entries SELECT 9, {COLUMNS} FROM entries",
        f"INSERT INTO entries SELECT NULL, {COLUMNS} FROM entries",
        "UPDATE genesis SET budget = '2'",
        "DELETE FROM genesis",
        "INSERT INTO genesis SELECT * FROM genesis",
    ],
)
def test_the_file_itself_refuses_changes(ledger, path, statement):
    spend(ledger, "1/4")
    spend(ledger, "1/4")
    with raw(path) as shell, pytest.raises(sqlite3.IntegrityError):
        shell.execute(statement)

    ledger.verify()


def alter(path, statement, values=()):
    """Change the file as one does who takes the triggers away and puts them back."""
    with raw(path) as shell:
        triggers = shell.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            shell.execute(f"DROP TRIGGER {name}")
        shell.execute(statement, values)
        for _, text in triggers:
            shell.execute(text)


def test_no_spend_is_added_to_an_entry_that_was_changed(ledger, path):
    spend(ledger, "1/4")
    alter(path, "UPDATE entries SET total = '1/8', cost = '1/8'")

    with pytest.raises(LedgerError, match="was altered: entry 1 does not fit the chain of hashes"):
        spend(ledger, "1/4")


def test_a_changed_budget_is_found_when_the_ledger_is_opened(ledger, path):
    ledger.close()
    alter(path, "UPDATE genesis SET budget = '100'")

    with pytest.raises(LedgerError, match="was altered: its budget"):
        Ledger.open(path)


def test_a_truncated_ledger_does_not_hold_the_head_kept_elsewhere(ledger, path):
    spend(ledger, "1/4")
    (kept,) = spend(ledger, "1/4")
    ledger.close()
    alter(path, "DELETE FROM entries WHERE seq = 2")

    with Ledger.open(path) as truncated:
        truncated.verify()
        with pytest.raises(LedgerError, match=f"does not hold the head {kept.head}"):
            truncated.verify(head=kept.head)


@pytest.mark.parametrize("look", [spend, Ledger.verify, lambda ledger: ledger.left], ids=["spend", "verify", "left"])
def test_entries_that_vanish_while_the_ledger_is_open_are_missed(ledger, path, look):
    spend(ledger, "1/4")
    spend(ledger, "1/4")
    alter(path, "DELETE FROM entries WHERE seq = 2")

    with pytest.raises(LedgerError):
        look(ledger)


def test_every_head_there_ever_was_is_in_the_chain(ledger):
    heads = [ledger.head]
    for _ in range(3):
        heads += [entry.head for entry in spend(ledger, "1/10")]
    for head in heads:
        ledger.verify(head=head.upper() + "\n")

    assert len(set(heads)) == 4


def test_the_head_of_another_ledger_is_not_in_the_chain(ledger, tmp_path):
    with Ledger.create(tmp_path / "other.ledger", epsilon=1) as other, pytest.raises(LedgerError):
        ledger.verify(head=other.head)


@pytest.mark.parametrize("reopens", [False, True], ids=["same connection", "after a fork"])
def test_a_ledger_replaced_while_open_is_refused(ledger, path, reopens):
    Ledger.create(path.with_name("fresh.ledger"), epsilon=1).close()
    if reopens:
        ledger._file.disconnect()
    os.replace(path.with_name("fresh.ledger"), path)

    with pytest.raises(LedgerError, match="was replaced by another file while open"):
        spend(ledger)


def forge(path, changes):
    """Change entries by position and make every later hash fit again, as one does who knows how the chain is made."""
    with raw(path) as shell:
        head = Genesis(*shell.execute("SELECT * FROM genesis").fetchone()).head
        entries = [Entry(*row) for row in shell.execute("SELECT * FROM entries ORDER BY seq")]
    forged = []
    for position, entry in enumerate(entries):
        changed = entry._replace(**changes.get(position, {}))
        head = seal(changed, previous=head)
        forged.append(changed._replace(head=head))
    alter(path, "DELETE FROM entries")
    for entry in forged:
        alter(path, f"INSERT INTO entries VALUES ({', '.join('?' * len(entry))})", entry)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({1: {"total": "3/8"}}, "the sums or the unit of entry 2 are wrong"),
        ({1: {"cost": "1/8", "total": "3/8"}, 2: {"total": "1/2"}}, "the sums or the unit of entry 2 are wrong"),
        ({1: {"amount": "1/4"}}, "the sums or the unit of entry 2 are wrong"),
        ({1: {"neighbours": "replace"}}, "the sums or the unit of entry 2 are wrong"),
        ({0: {"total": "2/8"}}, "the sums or the unit of entry 1 are wrong"),
        ({0: {"total": "0.25"}}, "the sums or the unit of entry 1 are wrong"),
        ({0: {"cost": "-1/4"}}, "the sums or the unit of entry 1 are wrong"),
        ({2: {"unit": '{"column":"id","kind":"person","max_rows":2}'}}, "the sums or the unit of entry 3 are wrong"),
        ({2: {"unit": "[" * 100_000}}, "the sums or the unit of entry 3 are wrong"),
        ({2: {"unit": "7"}}, "the sums or the unit of entry 3 are wrong"),
        ({2: {"neighbours": "both"}}, "the sums or the unit of entry 3 are wrong"),
        ({1: {"seq": 7}, 2: {"seq": 8}}, "entry 2 is missing"),
        ({2: {"promised": "1", "amount": "1", "cost": "1", "total": "3/2"}}, "is overspent: 3/2 of 1"),
    ],
    ids=str,
)
def test_what_was_forged_with_its_hashes_is_still_wrong(ledger, path, changes, line):
    spend(ledger, "1/4")
    spend(ledger, "1/8", neighbours="add-remove")
    spend(ledger, "1/8")
    ledger.close()
    forge(path, changes)

    with pytest.raises(LedgerError, match=line):
        check(path)


def check(path):
    with Ledger.open(path) as ledger:
        ledger.verify()


def test_a_forgery_without_a_fault_is_found_by_the_head_alone(ledger, path):
    spend(ledger, "1/4")
    (kept,) = spend(ledger, "1/4")
    ledger.close()
    forge(path, {0: {"about": "something else"}})

    with Ledger.open(path) as forged:
        forged.verify()
        with pytest.raises(LedgerError, match="does not hold the head"):
            forged.verify(head=kept.head)
