"""A ledger adds up exactly, refuses before any draw, and fails closed on whatever is not a sound ledger."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from fractions import Fraction

import pytest

from sudare.errors import BudgetExceeded, ParameterError, RelationMismatch
from sudare.privacy import Guarantee, Ledger, Unrecorded, ledger_file
from sudare.privacy import ledger as ledger_module
from sudare.schema.unit import Unit

PERSON = Unit(kind="person", column="customer_id", max_rows=5)
CELLS = "noise in every cell"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


@pytest.fixture
def ledger(path):
    with Ledger.create(path, epsilon=1) as opened:
        yield opened


def promise(epsilon="1/2", neighbours="replace", unit=None):
    return Guarantee(epsilon=Fraction(epsilon), neighbours=neighbours, unit=unit or Unit())


def spend(ledger, epsilon="1/2", purpose=CELLS, **facts):
    return ledger.spend({purpose: Fraction(epsilon)}, guarantee=promise(epsilon, **facts))


def spend_all(ledger, epsilons):
    for epsilon in epsilons:
        spend(ledger, epsilon)


@contextmanager
def raw(path):
    """The file as a stranger with an SQLite shell sees it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


# --- what is spent -----------------------------------------------------------------------------------------------


def test_a_new_ledger_has_its_whole_budget(ledger):
    assert (ledger.budget, ledger.spent, ledger.left, ledger.entries()) == (1, 0, 1, [])


def test_ten_tenths_are_one(ledger):
    for _ in range(10):
        spend(ledger, "0.1")

    assert ledger.left == 0


def test_a_spend_returns_what_the_ledger_holds(ledger):
    spends = spend(ledger)

    assert list(spends) == ledger.entries()
    assert spends[-1].head == ledger.head


def test_an_entry_tells_time_purpose_promise_and_cost(ledger):
    (entry,) = spend(ledger, "1/4", neighbours="add-remove")

    assert (entry.seq, entry.purpose, entry.epsilon, entry.cost) == (1, CELLS, Fraction(1, 4), Fraction(1, 2))
    assert entry.time.endswith("Z")


def test_an_entry_as_json_is_exact_text(ledger):
    (entry,) = spend(ledger, "1/3")

    assert entry.to_dict() == {
        "seq": 1,
        "time": entry.time,
        "purpose": CELLS,
        "epsilon": "1/3",
        "cost": "1/3",
        "head": ledger.head,
    }


def test_the_parts_of_a_promise_are_entries_of_their_own(ledger):
    parts = {"noise in the number of records": Fraction(1, 40), CELLS: Fraction(19, 40)}
    spends = ledger.spend(parts, guarantee=promise())

    assert {spend.purpose: spend.cost for spend in spends} == parts


def test_too_much_is_refused_with_what_is_left(ledger):
    spend(ledger, "4/5")

    with pytest.raises(BudgetExceeded) as caught:
        spend(ledger)

    assert (
        str(caught.value)
        == "noise in every cell asks for epsilon = 1/2, but 1/5 of 1 is left; ask for less, since nothing spent comes"
        " back"
    )


def test_the_least_bit_too_much_is_refused(ledger):
    spend(ledger, "1/2")

    with pytest.raises(BudgetExceeded):
        spend(ledger, Fraction(1, 2) + Fraction(1, 10**30))


def test_parts_are_spent_all_or_none(ledger):
    with pytest.raises(BudgetExceeded, match=r"^one \+ two asks for epsilon = 3/2"):
        ledger.spend({"one": Fraction(1, 2), "two": Fraction(1)}, guarantee=promise("3/2"))

    assert ledger.spent == 0


def test_a_refused_conversion_says_why_it_costs_twice(ledger):
    with pytest.raises(BudgetExceeded) as caught:
        spend(ledger, "3/4", neighbours="add-remove")

    assert str(caught.value) == (
        "noise in every cell asks for epsilon = 3/2, which is what epsilon = 3/4 between neighbours add-remove costs"
        " in this ledger, but 1 of 1 is left; ask for less, since nothing spent comes back"
    )


def test_a_ledger_for_add_remove_charges_add_remove_once(path):
    with Ledger.create(path, epsilon=1, neighbours="add-remove") as ledger:
        spend(ledger, neighbours="add-remove")

        assert ledger.spent == Fraction(1, 2)


def test_replace_one_is_refused_by_a_ledger_for_add_remove(path):
    with Ledger.create(path, epsilon=1, neighbours="add-remove") as ledger:
        with pytest.raises(RelationMismatch):
            spend(ledger)

        assert ledger.spent == 0


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {CELLS: Fraction(1, 4)},
        {CELLS: Fraction(1), "a refund": Fraction(-1, 2)},
        {CELLS: Fraction(1, 2), "nothing": Fraction(0)},
        {CELLS: 0.5},
        {CELLS: "1/2"},
        {"": Fraction(1, 2)},
        {" ": Fraction(1, 2)},
        {"two\nlines": Fraction(1, 2)},
        {"\udcff": Fraction(1, 2)},
        {"x" * 201: Fraction(1, 2)},
        {7: Fraction(1, 2)},
    ],
    ids=lambda parts: repr(parts)[:40],
)
@pytest.mark.parametrize("kept", [True, False], ids=["ledger", "unrecorded"])
def test_parts_that_are_not_the_promise_are_refused(path, parts, kept):
    with Ledger.create(path, epsilon=1) as ledger:
        account = ledger if kept else Unrecorded()
        with pytest.raises(ParameterError):
            account.spend(parts, guarantee=promise())

        assert account.spent == 0


def test_a_total_too_long_to_print_is_refused_before_it_is_spent(path):
    primes = [p for p in range(1000, 8000) if all(p % q for q in range(2, 90))]
    with Ledger.create(path, epsilon=1000) as ledger:
        with pytest.raises(ParameterError, match="too many digits"):
            spend_all(ledger, [Fraction(1, prime) + Fraction(1, 10) for prime in primes])

        ledger.verify()


# --- who is protected --------------------------------------------------------------------------------------------


def test_the_first_spend_decides_who_is_protected(path):
    with Ledger.create(path, epsilon=1) as ledger:
        before = ledger.unit
        spend(ledger, unit=PERSON)

    with Ledger.open(path) as again:
        assert (before, again.unit) == (None, PERSON)


@pytest.mark.parametrize(
    ("kept", "offered"),
    [(Unit(), PERSON), (PERSON, Unit()), (PERSON, Unit(kind="person", column="household", max_rows=5))],
    ids=["row", "person", "other column"],
)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "pinned"])
def test_another_unit_is_refused(path, kept, offered, declared):
    with Ledger.create(path, epsilon=1, unit=kept if declared else None) as ledger:
        spend(ledger, "1/4", unit=kept)
        with pytest.raises(RelationMismatch, match="the ledger protects"):
            spend(ledger, "1/4", unit=offered)

        assert ledger.spent == Fraction(1, 4)


def test_a_person_stays_the_same_person_with_more_rows(path):
    with Ledger.create(path, epsilon=1, unit=PERSON) as ledger:
        spend(ledger, unit=Unit(kind="person", column="customer_id", max_rows=9))

        assert ledger.spent == Fraction(1, 2)


# --- many at once, and interrupts --------------------------------------------------------------------------------


def test_threads_that_share_a_ledger_spend_it_exactly(ledger):
    def work():
        with pytest.raises(BudgetExceeded):
            spend_all(ledger, ["1/50"] * 51)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.verify()

    assert (ledger.left, len(ledger.entries())) == (0, 50)


def test_an_interrupt_before_the_commit_spends_nothing_and_frees_the_lock(ledger, path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ledger._file, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            spend(ledger)
    with Ledger.open(path, wait_seconds=0) as other:
        spend(other)

    assert ledger.spent == Fraction(1, 2)


def test_the_log_is_merged_before_it_grows_long(ledger, path, monkeypatch):
    monkeypatch.setattr(ledger_module, "MERGE_EVERY", 10)
    for _ in range(100):
        spend(ledger, "1/1000")
    log = path.with_name(path.name + "-wal").stat().st_size

    assert log < 40 * 4200  # 100 entries without merging: over 1 MB


def test_a_spend_is_on_the_disk_before_it_counts(ledger):
    """What SQLite is told of every connection that writes: wait for the disk, and never merge the log by itself."""
    wanted = {"synchronous": 2, "fullfsync": 1, "wal_autocheckpoint": 0, "journal_mode": "wal", "trusted_schema": 0}
    with ledger._file._connected() as connection, closing(ledger_file.connect(ledger.path, mode="rw")) as guard:
        found = [
            {name: used.execute(f"PRAGMA {name}").fetchone()[0] for name in wanted} for used in (connection, guard)
        ]

    assert found == [wanted, wanted]


def test_nobody_can_write_while_the_log_is_merged(ledger, path, monkeypatch):
    """A commit in the middle of a merge could be lost (sqlite.org/wal.html, "The WAL-Reset Bug")."""
    monkeypatch.setattr(ledger_module, "MERGE_EVERY", 1)
    tried = []

    def write_meanwhile(statement):
        if "wal_checkpoint" in statement:
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as stranger:
                try:
                    stranger.execute("BEGIN IMMEDIATE")
                    tried.append("wrote")
                except sqlite3.OperationalError as error:
                    tried.append(str(error))

    with ledger._file._connected() as connection:
        connection.set_trace_callback(write_meanwhile)
    spend(ledger, "1/4")

    assert tried == ["database is locked"]


def test_a_log_that_cannot_be_merged_now_is_no_reason_to_fail(ledger, path, monkeypatch):
    monkeypatch.setattr(ledger_module, "MERGE_EVERY", 1)
    monkeypatch.setattr(ledger._file, "_wait_seconds", 0.0)
    with raw(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM entries").fetchall()
        spend(ledger, "1/4")
        spend(ledger, "1/4")

    assert ledger.spent == Fraction(1, 2)


def test_sqlite_is_not_loaded_before_a_ledger_is_used():
    loaded = "import sys, sudare.privacy; print('sqlite3' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)

    assert told.stdout == "False\n"


# --- without a ledger --------------------------------------------------------------------------------------------


def test_a_run_without_a_ledger_refuses_nothing_and_keeps_no_head():
    purse = Unrecorded()
    for _ in range(3):
        (entry,) = spend(purse, "1000")

    assert (purse.neighbours, purse.head, entry.seq, entry.head, purse.spent) == ("replace", None, 3, None, 3000)


def test_a_run_without_a_ledger_converts_nothing():
    (entry,) = spend(Unrecorded(), neighbours="add-remove")

    assert entry.cost == entry.epsilon
