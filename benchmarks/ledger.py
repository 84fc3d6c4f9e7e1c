"""Spends a second from 1 and 8 processes, beside a plain SQLite loop with the same durability, in one run.

The peer inserts a row of the same width and commits: no chain, no sum, no check, SQLite's own waiting. Both put
every commit on the disk (WAL, synchronous = FULL). Rounds alternate, and the median counts: disks have moods.
"""

import multiprocessing
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from sudare.privacy import Guarantee, Ledger
from sudare.schema.unit import Unit

ROUNDS = 3
COMMITS = 1600  # a round, all processes together
TARGET = 500  # spends a second from 8 processes
STEP = Fraction(1, 1000)
PROMISE = Guarantee(epsilon=STEP, neighbours="replace", unit=Unit())
ROW = ("2026-01-01T00:00:00.000000Z", "noise in every cell", "replace", '{"kind":"row"}', "1/1000", "1/1000", "1/2")


def make_ledger(path: Path) -> None:
    Ledger.create(path, epsilon=1000).close()


def spend(path: Path, times: int, barrier) -> None:
    with Ledger.open(path) as ledger:
        barrier.wait()
        for _ in range(times):
            ledger.spend({"noise in every cell": STEP}, guarantee=PROMISE)


def make_plain(path: Path) -> None:
    columns = "time, purpose, neighbours, unit, epsilon, cost, total, head"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"CREATE TABLE spends (seq INTEGER PRIMARY KEY, {columns})")


def insert(path: Path, times: int, barrier) -> None:
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        barrier.wait()
        for _ in range(times):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO spends VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", (*ROW, "0" * 64))
            connection.execute("COMMIT")


def commits_a_second(make, work, processes: int) -> float:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes + 1)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "bench.ledger"
        make(path)
        crew = [context.Process(target=work, args=(path, COMMITS // processes, barrier)) for _ in range(processes)]
        for one in crew:
            one.start()
        barrier.wait()
        begun = time.perf_counter()
        for one in crew:
            one.join()
        seconds = time.perf_counter() - begun
        if any(one.exitcode for one in crew):
            raise SystemExit("a process of the benchmark failed")
        if work is spend:
            check(path)
    return COMMITS / seconds


def check(path: Path) -> None:
    """A fast ledger that loses spends would win: so look."""
    with Ledger.open(path) as ledger:
        ledger.verify()
        if ledger.spent != COMMITS * STEP:
            raise SystemExit("the ledger lost spends")


def run() -> list[dict]:
    rows = []
    for processes in (1, 8):
        ours, plain = [], []
        for _ in range(ROUNDS):
            ours.append(commits_a_second(make_ledger, spend, processes))
            plain.append(commits_a_second(make_plain, insert, processes))
        ratio = statistics.median(one / other for one, other in zip(ours, plain, strict=True))
        rows.append(
            {
                "what": f"ledger, {processes} process{'es' if processes > 1 else ''}",
                "spends_per_second": statistics.median(ours),
                "plain_sqlite_per_second": statistics.median(plain),
                "ratio": ratio,
            }
        )
    return rows


def main(argv: list[str]) -> None:
    print(f"{'':22} {'spends/s':>10} {'plain SQLite':>13} {'ratio':>7}")
    for row in run():
        figures = f"{row['spends_per_second']:10.0f} {row['plain_sqlite_per_second']:13.0f} {row['ratio']:7.2f}"
        print(f"{row['what']:22} {figures}")
    print(f"target: at least {TARGET} spends/s from 8 processes")


if __name__ == "__main__":
    main(sys.argv[1:])
