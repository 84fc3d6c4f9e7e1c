"""Eight processes, and kill -9 at any moment: never overspent, never refunded, never corrupt."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from fractions import Fraction

import pytest

from sudare.privacy import Ledger

# Spends until refused and says every head it was given, so that what it says was acknowledged. It opens the file
# anew every few spends and merges often, so that a kill also meets those steps.
WORKER = """
import os, sys
from fractions import Fraction
from pathlib import Path
from sudare.errors import BudgetExceeded
from sudare.privacy import Guarantee, Ledger, ledger
from sudare.schema.unit import Unit

path, epsilon, between = Path(sys.argv[1]), Fraction(sys.argv[2]), int(sys.argv[3])
ledger.MERGE_EVERY = 7
parts = {"noise in the total": epsilon / 4, "noise in every cell": epsilon * 3 / 4}
promise = Guarantee(epsilon=epsilon, neighbours="replace", unit=Unit())
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        with Ledger.open(path) as book:
            for _ in range(between):
                spends = book.spend(parts, guarantee=promise)
                os.write(1, (spends[-1].head + chr(10)).encode())
except BudgetExceeded:
    os.write(1, ("refused" + chr(10)).encode())
"""


def start(path, epsilon, *, between):
    command = [sys.executable, "-c", WORKER, str(path), epsilon, str(between)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def release(workers):
    """Let all begin at once, when the slowest has loaded its modules."""
    for worker in workers:
        worker.stdout.readline()
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()


def told(worker):
    """What a worker said until its end: the heads that were acknowledged to it, and whether it was refused."""
    said = worker.communicate()[0].split("\n")
    whole = said[:-1]  # a line without its end was cut off by the kill: it was never said
    return {line for line in whole if len(line) == 64}, "refused" in whole


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("between", [1, 1000], ids=["opening anew", "staying open"])
def test_eight_processes_spend_exactly_the_budget(tmp_path, between):
    path = tmp_path / "people.ledger"
    Ledger.create(path, epsilon=1).close()
    workers = [start(path, "1/200", between=between) for _ in range(8)]
    release(workers)
    heads, refusals = zip(*(told(worker) for worker in workers), strict=True)
    acknowledged = Counter(head for of_one in heads for head in of_one)
    with Ledger.open(path) as ledger:
        ledger.verify()
        written = Counter(entry.head for entry in ledger.entries() if entry.seq % 2 == 0)

        assert (ledger.left, all(refusals)) == (0, True)
        assert acknowledged == written


@pytest.mark.xdist_group("processes")
def test_kill_minus_nine_never_refunds_never_overspends_never_corrupts(tmp_path):
    path = tmp_path / "people.ledger"
    Ledger.create(path, epsilon=1000).close()
    moments = random.Random(1)
    acknowledged: set[str] = set()
    for _ in range(8):
        workers = [start(path, "1/100", between=5) for _ in range(3)]
        release(workers)
        for worker in workers:  # those not yet killed go on spending while the file is checked
            time.sleep(moments.uniform(0, 0.06))
            worker.send_signal(signal.SIGKILL)
            acknowledged |= told(worker)[0]
            check_sound(path, acknowledged)

    assert len(acknowledged) > 24


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


@pytest.mark.xdist_group("processes")
def test_a_ledger_that_was_open_at_a_fork_serves_parent_and_children(tmp_path):
    path = tmp_path / "people.ledger"
    Ledger.create(path, epsilon=1).close()
    subprocess.run([sys.executable, "-c", FORKER, str(path)], check=True, timeout=60)
    with Ledger.open(path) as ledger:
        ledger.verify()

        assert Counter(entry.purpose for entry in ledger.entries()) == {"parent": 4, "child": 100}


MAKER = """
import sys
from pathlib import Path
from sudare.errors import LedgerError
from sudare.privacy import Ledger

print("ready", flush=True)
sys.stdin.readline()
for number in range(1000):
    try:
        Ledger.create(Path(sys.argv[1]) / f"{number}.ledger", epsilon=1, name=sys.argv[2]).close()
        print(f"made {number}", flush=True)
    except LedgerError as error:
        assert "exists already" in str(error), error
    if number == int(sys.argv[3]):
        break
"""


def test_of_many_who_make_the_same_ledger_one_succeeds(tmp_path):
    command = [sys.executable, "-c", MAKER, str(tmp_path)]
    workers = [
        subprocess.Popen([*command, name, "19"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in "abcd"
    ]
    release(workers)
    made = Counter(line for worker in workers for line in worker.communicate()[0].split("\n") if "made" in line)

    assert made == {f"made {number}": 1 for number in range(20)}
    assert sorted(os.listdir(tmp_path)) == sorted(f"{number}.ledger" for number in range(20))


def test_a_maker_killed_at_any_moment_leaves_a_whole_ledger_or_none(tmp_path):
    moments = random.Random(2)
    for attempt in range(4):
        place = tmp_path / str(attempt)
        place.mkdir()
        command = [sys.executable, "-c", MAKER, str(place), "x", "999"]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        release([worker])
        time.sleep(moments.uniform(0.01, 0.1))
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        for path in place.glob("[0-9]*.ledger"):
            with Ledger.open(path) as ledger:
                ledger.verify()

    assert any(tmp_path.glob("*/0.ledger"))
