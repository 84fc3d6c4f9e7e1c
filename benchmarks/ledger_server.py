"""Spends a second on a PostgreSQL server over the loopback, from 1 and 8 processes, beside a plain loop of inserts.

The peer inserts a row of the same width and commits: no chain, no sum, no check, no lock. Both wait for the disk. The
server is started for the run (tests/servers.py). Rounds alternate, and the median counts.
"""

import multiprocessing
import statistics
import sys
import time
from fractions import Fraction
from pathlib import Path

from sudare.privacy import Guarantee, Ledger
from sudare.schema.unit import Unit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.servers import NoServer, PostgresServer

ROUNDS = 3
COMMITS = 400  # a round, all processes together
TARGET = 200  # spends a second
STEP = Fraction(1, 1000)
PROMISE = Guarantee(epsilon=STEP, neighbours="replace", unit=Unit())
COLUMNS = 14  # of an entry, beside its number


def spend(address: str, times: int, barrier) -> None:
    with Ledger.open(address) as ledger:
        barrier.wait()
        for _ in range(times):
            ledger.spend({"noise in every cell": STEP}, guarantee=PROMISE)


def insert(address: str, times: int, barrier) -> None:
    import psycopg

    row = ["noise in every cell"] * (COLUMNS - 1) + ["0" * 64]
    with psycopg.connect(address, autocommit=True) as connection:
        barrier.wait()
        for _ in range(times):
            connection.execute(f"INSERT INTO plain VALUES (DEFAULT{', %s' * COLUMNS})", row)


def commits_a_second(server: PostgresServer, work, processes: int) -> float:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes + 1)
    address = server.address(ledger="bench") if work is spend else server.address()
    prepare(server, address, work)
    crew = [context.Process(target=work, args=(address, COMMITS // processes, barrier)) for _ in range(processes)]
    for process in crew:
        process.start()
    barrier.wait()
    begun = time.perf_counter()
    for process in crew:
        process.join()
    seconds = time.perf_counter() - begun
    if any(process.exitcode for process in crew):
        raise SystemExit("a process of the benchmark failed")
    if work is spend:
        check(address)
    return COMMITS / seconds


def prepare(server: PostgresServer, address: str, work) -> None:
    if work is spend:
        server.execute("DROP SCHEMA IF EXISTS bench CASCADE")
        Ledger.create(address, epsilon=1000).close()
    else:
        columns = ", ".join(f"c{number} text" for number in range(COLUMNS))
        server.execute("DROP TABLE IF EXISTS plain", f"CREATE TABLE plain (seq bigserial PRIMARY KEY, {columns})")


def check(address: str) -> None:
    """A fast ledger that loses spends would win: so look."""
    with Ledger.open(address) as ledger:
        ledger.verify()
        if ledger.spent != COMMITS * STEP:
            raise SystemExit("the ledger lost spends")


def run() -> list[dict]:
    server = PostgresServer()
    try:
        return [measure(server, processes) for processes in (1, 8)]
    finally:
        server.remove()


def measure(server: PostgresServer, processes: int) -> dict:
    ours, plain = [], []
    for _ in range(ROUNDS):
        ours.append(commits_a_second(server, spend, processes))
        plain.append(commits_a_second(server, insert, processes))
    return {
        "what": f"ledger on a server, {processes} process{'es' if processes > 1 else ''}",
        "spends_per_second": statistics.median(ours),
        "plain_inserts_per_second": statistics.median(plain),
        "ratio": statistics.median(one / other for one, other in zip(ours, plain, strict=True)),
    }


def main(argv: list[str]) -> None:
    try:
        rows = run()
    except NoServer as reason:
        print(f"skipped: {reason}")
        return
    print(f"{'':34} {'spends/s':>10} {'plain inserts':>14} {'ratio':>7}")
    for row in rows:
        figures = f"{row['spends_per_second']:10.0f} {row['plain_inserts_per_second']:14.0f} {row['ratio']:7.2f}"
        print(f"{row['what']:34} {figures}")
    print(f"target: at least {TARGET} spends/s")


if __name__ == "__main__":
    main(sys.argv[1:])
