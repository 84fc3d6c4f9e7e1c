"""Eight processes, and kill -9 at any moment: never overspent, never refunded, never corrupt.

A nursery is a process that has loaded everything and forks a worker for every line it reads. A worker says what was
acknowledged to it in a file of its own, so that a moment is chosen by what happened, not by the clock.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from fractions import Fraction

import pytest

from sudare.privacy import Ledger
from tests.processes import run, start

# A spender spends until refused. It opens the file anew every few spends and merges often, so that a kill also meets
# those steps. A maker makes ledgers. Both begin when the file `go` is there.
NURSERY = """
import json, os, signal, sys, time
from fractions import Fraction
from pathlib import Path
from sudare.errors import BudgetExceeded, LedgerError
from sudare.privacy import Guarantee, Ledger, ledger
from sudare.schema.unit import Unit

ledger.MERGE_EVERY = 7

def bury(number, frame):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass

signal.signal(signal.SIGCHLD, bury)  # a worker that ended is gone

def spend(say, *, path, epsilon, between):
    epsilon = Fraction(epsilon)
    parts = {"noise in the total": epsilon / 4, "noise in every cell": epsilon * 3 / 4}
    promise = Guarantee(epsilon=epsilon, neighbours="replace", unit=Unit())
    try:
        while True:
            with Ledger.open(path) as book:
                for _ in range(between):
                    say(book.spend(parts, guarantee=promise)[-1].head)
    except BudgetExceeded:
        say("refused")
    except LedgerError:
        if not path.startswith("postgresql://"):
            raise
        say("the server is gone")

def make(say, *, folder, name, last):
    for number in range(last + 1):
        try:
            Ledger.create(Path(folder) / f"{number}.ledger", epsilon=1, name=name).close()
            say(f"made {number}")
        except LedgerError as error:
            assert "exists already" in str(error), error

for line in sys.stdin:
    task = json.loads(line)
    child = os.fork()
    if not child:
        said = os.open(task.pop("says"), os.O_WRONLY | os.O_CREAT)
        go = Path(task.pop("go"))
        while not go.exists():
            time.sleep(0.001)
        {"spend": spend, "make": make}[task.pop("task")](lambda text: os.write(said, (text + chr(10)).encode()), **task)
        os._exit(0)
    print(child, flush=True)
"""


class Worker:
    """A process of the nursery, and what it has said so far."""

    def __init__(self, process, says):
        self.process, self.says = process, says

    @property
    def said(self):
        """The lines it ended: what a kill cut off was never said."""
        text = self.says.read_text() if self.says.exists() else ""
        return text.split("\n")[:-1]

    @property
    def heads(self):
        return {line for line in self.said if len(line) == 64}

    def is_alive(self):
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        return True

    def wait_until_it_said(self, lines):
        while len(self.said) < lines and self.is_alive():
            time.sleep(0.001)

    def wait(self):
        while self.is_alive():
            time.sleep(0.001)

    def kill(self):
        os.kill(self.process, signal.SIGKILL)
        self.wait()


class Nursery:
    """Starts workers; `go` lets all of them begin at once."""

    def __init__(self, process, place):
        self.process, self.place, self.born = process, place, 0

    def worker(self, task, **facts):
        self.born += 1
        says = self.place / f"worker{self.born}"
        line = json.dumps({"task": task, "says": str(says), "go": str(self.place / "go"), **facts})
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return Worker(int(self.process.stdout.readline()), says)

    def go(self):
        (self.place / "go").touch()

    def hold(self):
        (self.place / "go").unlink()


@pytest.fixture
def nursery(tmp_path):
    place = tmp_path / "nursery"
    place.mkdir()
    process = start([sys.executable, "-c", NURSERY])
    try:
        yield Nursery(process, place)
    finally:
        _, err = process.communicate()

    assert err == ""


@pytest.mark.parametrize("between", [1, 1000], ids=["opening anew", "staying open"])
def test_eight_processes_spend_exactly_the_budget(tmp_path, nursery, between):
    path = tmp_path / "people.ledger"
    Ledger.create(path, epsilon=1).close()
    workers = [nursery.worker("spend", path=str(path), epsilon="1/200", between=between) for _ in range(8)]
    nursery.go()
    for worker in workers:
        worker.wait()
    acknowledged = Counter(head for worker in workers for head in worker.heads)
    with Ledger.open(path) as ledger:
        ledger.verify()
        written = Counter(entry.head for entry in ledger.entries() if entry.seq % 2 == 0)

        assert (ledger.left, all("refused" in worker.said for worker in workers)) == (0, True)
        assert acknowledged == written


def test_kill_minus_nine_never_refunds_never_overspends_never_corrupts(tmp_path, nursery):
    path = tmp_path / "people.ledger"
    Ledger.create(path, epsilon=1000).close()
    moments = random.Random(1)
    acknowledged: set[str] = set()
    for _ in range(8):
        workers = [nursery.worker("spend", path=str(path), epsilon="1/100", between=5) for _ in range(3)]
        nursery.go()
        for worker in workers:  # those not yet killed go on spending while the file is checked
            worker.wait_until_it_said(moments.randint(1, 4))
            time.sleep(moments.uniform(0, 0.003))  # anywhere inside the spends that follow
            worker.kill()
            acknowledged |= worker.heads
            check_sound(path, acknowledged)
        nursery.hold()

    assert len(acknowledged) >= 24


def check_sound(path, acknowledged):
    with Ledger.open(path) as ledger:
        ledger.verify()
        entries = ledger.entries()
    lost = acknowledged - {entry.head for entry in entries}

    assert lost == set()
    assert len(entries) % 2 == 0  # the two parts of a spend came together
    assert sum(entry.cost for entry in entries) == Fraction(len(entries) // 2, 100)


FORKER = """
import os, sys
from fractions import Fraction
from pathlib import Path
from sudare.privacy import Guarantee, Ledger
from sudare.schema.unit import Unit

promise = Guarantee(epsilon=Fraction(1, 400), neighbours="replace", unit=Unit())
book = Ledger.open(Path(sys.argv[1]))
children = []
for _ in range(4):
    book.spend({"parent": Fraction(1, 400)}, guarantee=promise)
    child = os.fork()
    if not child:
        for _ in range(25):
            book.spend({"child": Fraction(1, 400)}, guarantee=promise)
        os._exit(0)
    children.append(child)
book.close()
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def test_a_ledger_that_was_open_at_a_fork_serves_parent_and_children(tmp_path):
    path = tmp_path / "people.ledger"
    Ledger.create(path, epsilon=1).close()
    done = run([sys.executable, "-c", FORKER, str(path)])
    with Ledger.open(path) as ledger:
        ledger.verify()

        assert (done.returncode, done.stderr) == (0, "")
        assert Counter(entry.purpose for entry in ledger.entries()) == {"parent": 4, "child": 100}


def test_of_many_who_make_the_same_ledger_one_succeeds(tmp_path, nursery):
    folder = tmp_path / "made"
    folder.mkdir()
    workers = [nursery.worker("make", folder=str(folder), name=name, last=19) for name in "abcd"]
    nursery.go()
    for worker in workers:
        worker.wait()
    made = Counter(line for worker in workers for line in worker.said)

    assert made == {f"made {number}": 1 for number in range(20)}
    assert sorted(os.listdir(folder)) == sorted(f"{number}.ledger" for number in range(20))


def test_a_maker_killed_at_any_moment_leaves_a_whole_ledger_or_none(tmp_path, nursery):
    moments = random.Random(2)
    nursery.go()
    for attempt in range(12):
        folder = tmp_path / f"made{attempt}"
        folder.mkdir()
        worker = nursery.worker("make", folder=str(folder), name="x", last=999)
        worker.wait_until_it_said(1 + attempt % 3)
        time.sleep(moments.uniform(0, 0.005))  # anywhere inside the makings that follow
        worker.kill()
        for path in folder.glob("[0-9]*.ledger"):
            with Ledger.open(path) as ledger:
                ledger.verify()

        assert (folder / "0.ledger").exists()
