"""A ledger is made whole or not at all, and is found again under every name it may have."""

from __future__ import annotations

import os
import pickle
from fractions import Fraction
from pathlib import Path

import pytest

from sudare.errors import LedgerError, ParameterError
from sudare.privacy import Guarantee, Ledger
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


def spend(ledger, epsilon="1/2"):
    promise = Guarantee(epsilon=Fraction(epsilon), neighbours="replace", unit=ledger.unit or Unit())
    return ledger.spend({CELLS: Fraction(epsilon)}, guarantee=promise)


def test_what_a_ledger_is_survives_closing(path):
    with Ledger.create(path, epsilon="1/3", neighbours="add-remove", unit=PERSON, name="会員　台帳") as made:
        facts = (made.budget, made.neighbours, made.unit, made.name, made.created, made.head)

    with Ledger.open(str(path)) as opened:
        again = (opened.budget, opened.neighbours, opened.unit, opened.name, opened.created, opened.head)

    assert again == facts == (Fraction(1, 3), "add-remove", PERSON, "会員　台帳", facts[4], facts[5])


def test_a_closed_ledger_leaves_one_file(ledger, path):
    spend(ledger)
    ledger.close()

    assert os.listdir(path.parent) == [path.name]


def test_two_ledgers_with_equal_facts_have_different_heads(tmp_path):
    heads = set()
    for name in ("one", "two"):
        with Ledger.create(tmp_path / name, epsilon=1) as ledger:
            heads.add(ledger.head)

    assert len(heads) == 2


def test_an_existing_file_is_never_overwritten(path):
    path.write_text("mine")
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(path, epsilon=1)

    assert path.read_text() == "mine"


def test_a_file_that_appears_meanwhile_is_not_overwritten_either(path, monkeypatch):
    link = os.link

    def late(source, target):
        Path(target).write_text("mine")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(path, epsilon=1)

    assert [(file.name, file.read_text()) for file in path.parent.iterdir()] == [(path.name, "mine")]


def test_a_file_system_without_links_gets_its_ledger_too(path, monkeypatch):
    def refused(source, target):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refused)
    with Ledger.create(path, epsilon=1) as ledger:
        spend(ledger)

    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_the_side_files_of_another_ledger_are_not_taken_over(path, ending):
    path.with_name(path.name + ending).write_text("old")

    with pytest.raises(LedgerError, match="was left by another ledger"):
        Ledger.create(path, epsilon=1)


def test_the_side_files_of_a_ledger_that_somebody_makes_meanwhile_are_not_called_left_over(path, monkeypatch):
    """To move them away, as that refusal asks, would take the newest spends from a ledger in use."""
    look = os.path.lexists

    def make_it_after_the_first_look(name):
        seen = look(name)
        monkeypatch.setattr(os.path, "lexists", look)
        other = Ledger.create(path, epsilon=1)
        spend(other)
        made.append(other)
        return seen

    made: list[Ledger] = []
    monkeypatch.setattr(os.path, "lexists", make_it_after_the_first_look)
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(path, epsilon=1)

    assert [look(f"{path}-wal"), made[0].close()] == [True, None]


@pytest.mark.parametrize(
    "facts",
    [{"epsilon": 0}, {"epsilon": "abc"}, {"neighbours": "both"}, {"name": "two\nlines"}, {"name": "x" * 201}],
    ids=str,
)
def test_bad_facts_make_no_ledger(path, facts):
    with pytest.raises(ParameterError):
        Ledger.create(path, **{"epsilon": 1, **facts})

    assert os.listdir(path.parent) == []


def test_a_place_without_directory_is_named(tmp_path):
    with pytest.raises(LedgerError, match=r"there is no directory .*nowhere; make it first$"):
        Ledger.create(tmp_path / "nowhere" / "people.ledger", epsilon=1)


@pytest.mark.parametrize("name", ["a?b#c%20d.ledger", "会員 台帳.ledger", "mode=ro&x", "-wal"])
def test_odd_names_are_only_names(tmp_path, name):
    with Ledger.create(tmp_path / name, epsilon=1) as ledger:
        spend(ledger)

    assert os.listdir(tmp_path) == [name]


def test_a_ledger_left_with_its_temporary_name_opens_and_drops_it(ledger, path):
    ledger.close()
    os.link(path, path.with_name(".sudare-new-abc123"))
    with Ledger.open(path) as again:
        spend(again)

    assert os.listdir(path.parent) == [path.name]


def test_a_ledger_with_a_second_name_is_refused(ledger, path):
    ledger.close()
    os.link(path, path.with_name("copy.ledger"))

    with pytest.raises(LedgerError, match="second name"):
        Ledger.open(path)


def test_a_link_to_a_ledger_leads_to_it(ledger, path):
    link = path.with_name("link.ledger")
    link.symlink_to(path)
    with Ledger.open(link) as same:
        spend(same)

    assert ledger.spent == Fraction(1, 2)


def test_a_ledger_travels_between_processes_as_its_path(ledger):
    with pickle.loads(pickle.dumps(ledger)) as copy:
        spend(copy)

    assert ledger.spent == Fraction(1, 2)


def test_a_relative_path_stays_when_the_directory_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Ledger.create("people.ledger", epsilon=1) as ledger:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        spend(ledger)

        assert ledger.spent == Fraction(1, 2)


def test_a_closed_ledger_says_so(ledger):
    ledger.close()

    with pytest.raises(LedgerError, match="is closed"):
        spend(ledger)


def test_a_repr_tells_no_more_than_the_facts(ledger, path):
    assert repr(ledger) == f"<Ledger {path} (epsilon 1, replace)>"
