"""Whatever is not a sound ledger in a sound place is refused in one line, and nothing is spent."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from sudare.errors import LedgerError
from sudare.privacy import Guarantee, Ledger, ledger_file
from sudare.schema.unit import Unit

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


def spend_until_refused(ledger):
    """How many spends of a thousandth were acknowledged before the first error."""
    for done in range(1000):
        try:
            spend(ledger, "1/1000")
        except LedgerError:
            return done
    return pytest.fail("nothing was refused")


@contextmanager
def raw(path):
    """The file as a stranger with an SQLite shell sees it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def make_text(path):
    path.write_text("not a database, but long enough to be taken for one " * 100)


def make_empty(path):
    path.write_bytes(b"")


def make_foreign(path):
    with raw(path) as connection:
        connection.execute("CREATE TABLE spends (seq)")


def make_newer(path):
    Ledger.create(path, epsilon=1).close()
    with raw(path) as connection:
        connection.execute("PRAGMA user_version = 3")


def make_torn(path):
    Ledger.create(path, epsilon=1).close()
    os.truncate(path, path.stat().st_size // 2)


def make_untriggered(path):
    Ledger.create(path, epsilon=1).close()
    with raw(path) as connection:
        connection.execute("DROP TRIGGER entries_delete")


def make_bare(path):
    Ledger.create(path, epsilon=1).close()
    with raw(path) as connection:
        ((trigger,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'genesis_delete'")
        connection.execute("DROP TRIGGER genesis_delete")
        connection.execute("DELETE FROM genesis")
        connection.execute(trigger)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (make_text, "is not a ledger; make one with: sudare ledger create"),
        (make_empty, "is not a ledger; make one with: sudare ledger create"),
        (make_foreign, "is not a ledger; make one with: sudare ledger create"),
        (make_newer, "is a ledger of version 3, and this Sudare knows version 2; use a newer one"),
        (make_torn, "is damaged; restore a copy whose head a certificate names"),
        (make_untriggered, "was altered: its tables and triggers are not those of a ledger"),
        (make_bare, "is damaged; restore a copy whose head a certificate names"),
        (Path.mkdir, "is not a file; name the file of a ledger"),
        (os.mkfifo, "is not a file; name the file of a ledger"),
        (lambda path: None, "does not exist; make it with: sudare ledger create"),
    ],
    ids=["text", "empty", "foreign", "newer", "torn", "untriggered", "bare", "directory", "pipe", "missing"],
)
def test_what_is_not_a_ledger_is_refused_in_one_line(path, make, line):
    make(path)
    with pytest.raises(LedgerError) as caught:
        Ledger.open(path)

    assert str(caught.value).startswith(f"{path} {line}")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["nul\0byte", "x" * 300, "people.ledger/below"])
def test_names_the_system_cannot_hold_are_refused(path, name):
    path.write_text("a file")
    for door in (Ledger.open, lambda place: Ledger.create(place, epsilon=1)):
        with pytest.raises(LedgerError):
            door(path.parent / name)


@contextmanager
def as_nobody():
    """Root may write everywhere: become somebody else for a while."""
    if os.geteuid() == 0:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        yield


@pytest.fixture
def open_place():
    """A directory that everybody may enter, unlike pytest's own."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    place.chmod(0o755)
    shutil.rmtree(place)


@pytest.mark.parametrize(("directory", "file"), [(0o555, 0o444), (0o777, 0o000), (0o000, 0o666)])
def test_a_ledger_that_cannot_be_reached_is_refused_in_one_line(open_place, directory, file):
    path = open_place / "people.ledger"
    Ledger.create(path, epsilon=1).close()
    path.chmod(file)
    open_place.chmod(directory)

    with as_nobody(), pytest.raises(LedgerError, match="cannot be"):
        Ledger.open(path)


def test_a_ledger_that_may_only_be_read_refuses_to_spend(open_place):
    path = open_place / "people.ledger"
    Ledger.create(path, epsilon=1).close()
    path.chmod(0o444)
    open_place.chmod(0o777)

    with as_nobody(), Ledger.open(path) as ledger, pytest.raises(LedgerError, match="cannot be opened or written"):
        spend(ledger)


def test_no_ledger_is_made_in_a_place_that_may_only_be_read(open_place):
    open_place.chmod(0o555)
    with as_nobody(), pytest.raises(LedgerError, match=r"cannot be (opened or written|used)"):
        Ledger.create(open_place / "people.ledger", epsilon=1)

    assert os.listdir(open_place) == []


@contextmanager
def files_at_most(size):
    """The system refuses to let any file grow beyond, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_spends_nothing_and_harms_nothing(path):
    with Ledger.create(path, epsilon=1) as ledger:
        with files_at_most(60_000):
            done = spend_until_refused(ledger)
        spend(ledger, "1/1000")
        ledger.verify()

        assert ledger.spent == Fraction(done + 1, 1000)


def test_a_full_database_says_that_the_disk_is_full(ledger):
    with ledger._file._connected() as connection:
        connection.execute("PRAGMA max_page_count = 1")

    with pytest.raises(LedgerError, match="the disk is full, so nothing was written"):
        [spend(ledger, "1/1000") for _ in range(100)]


def test_a_full_disk_leaves_no_half_made_ledger(path):
    with files_at_most(5000), pytest.raises(LedgerError):
        Ledger.create(path, epsilon=1)

    assert os.listdir(path.parent) == []


def test_a_ledger_locked_for_long_is_refused_in_one_line(ledger, path):
    with raw(path) as other, Ledger.open(path, wait_seconds=0.05) as waiting:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match=r"is locked by another process; try again when it is done$"):
            spend(waiting)
        other.execute("ROLLBACK")
        spend(waiting)

    assert ledger.spent == Fraction(1, 2)


def test_a_lock_that_is_let_go_is_waited_for(ledger, path, monkeypatch):
    held, waited = threading.Event(), threading.Event()
    pause = time.sleep
    monkeypatch.setattr(ledger_file.time, "sleep", lambda seconds: (waited.set(), pause(seconds)))
    holder = threading.Thread(target=_hold_until, args=(waited, path, held))
    holder.start()
    held.wait()
    spend(ledger)
    holder.join()

    assert waited.is_set()
    assert ledger.spent == Fraction(1, 2)


def _hold_until(waited, path, held):
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        held.set()
        waited.wait()
        other.execute("ROLLBACK")
