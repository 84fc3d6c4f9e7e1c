"""Whatever is spent in whatever order, the ledger agrees with plain arithmetic; whatever is altered is found."""

from __future__ import annotations

import functools
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sudare.errors import BudgetExceeded, LedgerError, RelationMismatch
from sudare.privacy import ConcentratedGuarantee, Guarantee, Ledger
from sudare.privacy.chain import Entry, Genesis
from sudare.schema.unit import Unit

UNITS = (Unit(), Unit(kind="person", column="id", max_rows=1), Unit(kind="person", column="id", max_rows=7))

COLUMNS = {"genesis": Genesis._fields, "entries": Entry._fields}
SPENDS = 6  # entries of the ledger that is altered; one that binds a certificate follows
BOUND = ("time", "salt", "kind", "release", "about", "total", "head")  # columns that such an entry fills
fractions = st.builds(Fraction, st.integers(1, 60), st.integers(1, 60))
relations = st.sampled_from(["replace", "add-remove"])
purposes = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=20)
asks = st.tuples(st.dictionaries(purposes, fractions, min_size=1, max_size=3), relations, st.sampled_from(UNITS))


class Model:
    """The law of a ledger in the fewest words."""

    def __init__(self, budget, neighbours, unit):
        self.budget, self.neighbours, self.unit, self.spent = budget, neighbours, unit, []

    def spend(self, parts, neighbours, unit):
        if (neighbours, self.neighbours) == ("replace", "add-remove"):
            return RelationMismatch
        if self.unit is not None and (unit.kind, unit.column) != (self.unit.kind, self.unit.column):
            return RelationMismatch
        factor = 1 if neighbours == self.neighbours else 2
        costs = [(purpose, epsilon, factor * epsilon) for purpose, epsilon in parts.items()]
        if sum(cost for _, _, cost in self.spent + costs) > self.budget:
            return BudgetExceeded
        self.spent += costs
        self.unit = self.unit or unit
        return None


@contextmanager
def a_place():
    with tempfile.TemporaryDirectory() as place:
        yield Path(place) / "people.ledger"


def ask(ledger, parts, neighbours, unit):
    promise = Guarantee(epsilon=sum(parts.values()), neighbours=neighbours, unit=unit)
    try:
        ledger.spend(parts, guarantee=promise)
    except LedgerError as error:
        return type(error)
    return None


@given(
    budget=st.builds(Fraction, st.integers(1, 200), st.integers(1, 40)),
    neighbours=relations,
    unit=st.sampled_from([None, *UNITS]),
    orders=st.lists(asks, max_size=12),
)
def test_any_sequence_of_spends_agrees_with_plain_arithmetic(budget, neighbours, unit, orders):
    model = Model(budget, neighbours, unit)
    with a_place() as path, Ledger.create(path, epsilon=budget, neighbours=neighbours, unit=unit) as ledger:
        answers = [(ask(ledger, *order), model.spend(*order)) for order in orders]
        ledger.verify(head=ledger.head)
        entries = [(entry.purpose, entry.epsilon, entry.cost) for entry in ledger.entries()]

        assert all(told is meant for told, meant in answers)
        assert entries == model.spent
        assert ledger.left == budget - sum(cost for _, _, cost in model.spent)


@functools.cache
def made():
    """The bytes of a ledger with three releases of two spends, all columns in use, and its rows."""
    with a_place() as path:
        with Ledger.create(path, rho=3, unit=UNITS[1], name="members") as ledger:
            for number, kind, neighbours in (
                (2, "epsilon", "replace"),
                (3, "rho", "add-remove"),
                (7, "rho", "replace"),
            ):
                amount = Fraction(1, number)
                promise = (ConcentratedGuarantee if kind == "rho" else Guarantee)(
                    **{kind: amount}, neighbours=neighbours, unit=UNITS[2]
                )
                spends = ledger.spend({"cells": amount * 2 / 3, "総数": amount / 3}, guarantee=promise)
            ledger.bind(spends[0].release, "a" * 64)
        with closing(sqlite3.connect(path)) as shell:
            rows = {table: shell.execute(f"SELECT * FROM {table}").fetchall() for table in COLUMNS}
        return path.read_bytes(), rows


def a_ledger(path):
    stored, rows = made()
    path.write_bytes(stored)
    return rows


def alter(path, *statements):
    """Change the file as one does who takes the triggers away and puts them back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("PRAGMA synchronous = OFF")  # a stranger is in a hurry, and so is this test
        triggers = shell.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            shell.execute(f"DROP TRIGGER {name}")
        for statement, values in statements:
            shell.execute(statement, values)
        for _, text in triggers:
            shell.execute(text)


def check(path, head=None):
    with Ledger.open(path) as ledger:
        ledger.verify(head=head)


fields = st.one_of(
    st.tuples(st.just("genesis"), st.just(0), st.integers(1, len(Genesis._fields) - 1)),
    st.tuples(st.just("entries"), st.integers(0, SPENDS - 1), st.integers(2, len(Entry._fields) - 1)),
    st.tuples(st.just("entries"), st.just(SPENDS), st.sampled_from([Entry._fields.index(name) for name in BOUND])),
)


def write(path, table, row, column, value):
    alter(path, (f"UPDATE {table} SET {COLUMNS[table][column]} = ? WHERE rowid = ?", (value, row + 1)))


@settings(max_examples=100)
@given(field=fields, position=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_one_flipped_bit_in_any_field_of_any_row_is_found(field, position, bit):
    table, row, column = field
    with a_place() as path:
        stored = a_ledger(path)[table][row][column].encode()
        place = position % len(stored)
        flipped = stored[:place] + bytes([stored[place] ^ (1 << bit)]) + stored[place + 1 :]
        alter(
            path,
            (f"UPDATE {table} SET {COLUMNS[table][column]} = CAST(? AS TEXT) WHERE rowid = ?", (flipped, row + 1)),
        )

        with pytest.raises(LedgerError):
            check(path)


@given(field=fields, value=st.one_of(st.text(max_size=30), st.integers(-9, 9), st.floats(allow_nan=False), st.binary()))
def test_another_value_in_any_field_of_any_row_is_found(field, value):
    table, row, column = field
    with a_place() as path:
        stored = a_ledger(path)[table][row][column]
        assume(str(value) != stored)
        write(path, table, row, column, value)

        with pytest.raises(LedgerError):
            check(path)


@pytest.mark.parametrize(
    ("table", "row", "column"),
    [("genesis", 0, column) for column in range(1, len(Genesis._fields))]
    + [("entries", row, column) for row in (0, 4, 5) for column in range(2, len(Entry._fields))],
)
def test_text_turned_into_bytes_is_found(table, row, column):
    with a_place() as path:
        stored = a_ledger(path)[table][row][column]
        write(path, table, row, column, stored.encode())

        with pytest.raises(LedgerError):
            check(path)


def test_damage_that_sqlite_reports_in_no_alphabet_is_still_one_line():
    with a_place() as path:
        stored, _ = made()
        path.write_bytes(stored.replace(b"CREATE TRIGGER", b"CREATE \xc5RIGGER"))

        with pytest.raises(LedgerError, match="is damaged"):
            check(path)


@pytest.mark.parametrize(("table", "row"), [("genesis", 0), ("entries", 2), ("entries", SPENDS)])
@pytest.mark.parametrize("value", [1, 3, 2.5, "two", b"2"])
def test_another_version_of_any_row_is_found(table, row, value):
    with a_place() as path:
        a_ledger(path)
        write(path, table, row, COLUMNS[table].index("format"), value)

        with pytest.raises(LedgerError):
            check(path)


@given(seq=st.integers(1, SPENDS + 1), target=st.integers(-3, 20))
def test_a_moved_entry_is_found(seq, target):
    assume(target not in range(1, SPENDS + 2))
    with a_place() as path:
        a_ledger(path)
        alter(path, ("UPDATE entries SET seq = ? WHERE seq = ?", (target, seq)))

        with pytest.raises(LedgerError):
            check(path)


@given(first=st.integers(1, SPENDS + 1), second=st.integers(1, SPENDS + 1))
def test_swapped_entries_are_found(first, second):
    assume(first != second)
    moves = [(0, first), (first, second), (second, 0)]
    with a_place() as path:
        a_ledger(path)
        alter(path, *(("UPDATE entries SET seq = ? WHERE seq = ?", (to, since)) for to, since in moves))

        with pytest.raises(LedgerError):
            check(path)


@pytest.mark.parametrize("seq", range(1, SPENDS + 2))
def test_a_removed_entry_is_found_by_the_last_head(seq):
    with a_place() as path:
        head = a_ledger(path)["entries"][-1][-1]
        alter(path, ("DELETE FROM entries WHERE seq = ?", (seq,)))

        with pytest.raises(LedgerError):
            check(path, head)


def test_a_ledger_written_anew_does_not_hold_the_old_head():
    _, rows = made()
    head = rows["entries"][-1][-1]
    with a_place() as path:
        Ledger.create(path, epsilon=3, unit=UNITS[1], name="members").close()

        with pytest.raises(LedgerError, match="does not hold the head"):
            check(path, head)


@settings(max_examples=150)
@given(position=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_one_flipped_bit_of_the_file_is_found_or_changes_nothing(position, bit):
    with a_place() as path:
        rows = a_ledger(path)
        stored = bytearray(path.read_bytes())
        stored[position % len(stored)] ^= 1 << bit
        path.write_bytes(stored)
        try:
            with Ledger.open(path) as ledger:
                ledger.verify()
                told = [(entry.seq, entry.purpose, str(entry.cost), entry.head) for entry in ledger.entries()]
        except LedgerError:
            return

        rows = [Entry(*row) for row in rows["entries"][:SPENDS]]
        assert told == [(row.seq, row.about, row.cost, row.head) for row in rows]
