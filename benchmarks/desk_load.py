"""How many verdicts a second the desk tells, with 1,000 requests in its store; wall time of one process that serves.

Peer: the same server and the same number of clients on a page that does nothing but check the session (`/t/x/new` of a
table that is not there), so the ratio says what the verdict itself costs. Then questions come at a fixed rate, whether
or not earlier ones are answered; a time is counted from when a question was due. The last line has a publication
beside it.
Run: python -m benchmarks.desk_load [--seconds 10] [--clients 8] [--rate 200]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sudare.methods.kanon.request import Request, read_grouping
from sudare.requests import RequestStore, TablePolicy
from sudare.requests.desk import measure_table
from sudare.schema import Attribute, NumberBins, Schema, Values
from sudare.schema.hierarchy_rules import all_in_one, intervals
from sudare.sources import open as open_source
from sudare.studio.desk.accounts import accept, invite
from sudare.studio.desk.store import DeskStore

REQUESTS = 1_000
USERS = 50
TOML = """
[sudare]
schema = 1
name = "clinic"

[[attribute]]
name = "age"
kind = "number"
bins = { start = 0, stop = 100, width = 5 }

[[attribute]]
name = "sex"
kind = "category"
values = ["F", "M"]
"""


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print rates and times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rate", type=float, default=200.0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        sessions = prepare(Path(folder))
        command = [sys.executable, "-m", "sudare", "desk", "serve", str(Path(folder, "desk"))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            found = re.search(r"http://[\d.:]+", server.stdout.readline() if server.stdout else "")
            if found is None:
                raise SystemExit("the desk did not start")
            known = {"address": found[0], "sessions": sessions, "seconds": given.seconds, "clients": given.clients}
            tell("session only", given.seconds, asyncio.run(measure(path="/t/x/verdict", **known)))
            tell("verdict", given.seconds, asyncio.run(measure(path="/t/clinic/verdict", **known)))
            due = asyncio.run(measure(path="/t/clinic/verdict", rate=given.rate, **known))
            tell(f"verdict at {given.rate:.0f} a second", given.seconds, due)
            with publishing(Path(folder)):
                due = asyncio.run(measure(path="/t/clinic/verdict", rate=given.rate, **known))
            tell("the same beside a publication", given.seconds, due)
            server.terminate()
    return 0


def tell(name: str, seconds: float, times: list[float]) -> None:
    """Print how many were answered a second, and how long they took."""
    times.sort()
    p50, p99 = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
    print(f"{name}: {len(times) / seconds:.0f} a second, p50 {p50:.1f} ms, p99 {p99:.1f} ms")


@contextlib.contextmanager
def publishing(folder: Path) -> Iterator[None]:
    """Publish a view of the table over and over, as the steward's worker may."""
    program = (
        "import sys, sudare as sd\n"
        "schema = sd.Schema.read(sys.argv[1])\n"
        "while True:\n"
        "    with sd.open(sys.argv[2], schema) as source: sd.View(epsilon=1).publish(source)\n"
    )
    command = [sys.executable, "-c", program, str(folder / "clinic.toml"), str(folder / "clinic.csv")]
    with subprocess.Popen(command) as worker:
        yield
        if worker.poll() is not None:
            raise SystemExit("the publication beside it ended")
        worker.kill()


def prepare(folder: Path) -> list[str]:
    """Make a table, its store with requests, and users; gives their sessions."""
    ages = NumberBins.of_width(0, 100, 1)
    sexes = Values(("F", "M"))
    schema = Schema(
        name="clinic",
        attributes=(
            Attribute(name="age", domain=ages, role="quasi", hierarchy=intervals(ages, [5, 10, 50])),
            Attribute(name="sex", domain=sexes, role="quasi", hierarchy=all_in_one(sexes)),
        ),
    )
    file = folder / "clinic.csv"
    (folder / "clinic.toml").write_text(TOML, encoding="utf-8")
    file.write_text("age,sex\n" + "".join(f"{row % 100},{'FM'[row // 7 % 2]}\n" for row in range(20_000)))
    requests = RequestStore.create(folder / "requests.db", schema, TablePolicy(k=5))
    with open_source(str(file), schema) as source:
        measure_table(requests, source)
    request = Request(name="ages", options=({"age": read_grouping(schema.attribute("age"), 1)},))
    for number in range(REQUESTS):
        requests.draft(request, user=f"U{number % USERS}", purpose="a study")
    store = DeskStore.create(folder / "desk")
    store.add_table("clinic", folder / "requests.db", "")
    return [accept(store, invite(store, f"U{number}", "user", actor="-"), "a long password") for number in range(USERS)]


async def measure(
    *, address: str, sessions: list[str], path: str, seconds: float, clients: int, rate: float | None = None
) -> list[float]:
    """Ask again and again from several clients, or at a rate; gives the time of every answer."""
    times: list[float] = []
    start = time.perf_counter()
    end = start + seconds

    host, port = address.removeprefix("http://").split(":")

    async def ask(client: int) -> None:
        number = client
        reader, writer = await asyncio.open_connection(host, int(port))
        began = start
        while began < end:
            session = sessions[number % len(sessions)]
            body = f"level-0={number // len(sessions) % 4}&level-1={number // 7 % 2}"
            head = (
                f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\nsec-fetch-site: same-origin\r\n"
                f"cookie: sudare_desk={session}\r\ncontent-type: application/x-www-form-urlencoded\r\n"
                f"content-length: {len(body)}\r\n\r\n"
            )
            began = time.perf_counter() if rate is None else start + number / rate
            await asyncio.sleep(max(began - time.perf_counter(), 0))
            writer.write((head + body).encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer)
            await reader.readexactly(int(length[1]) if length else 0)
            times.append(time.perf_counter() - began)
            if b" 200 " not in answer[:15] and b" 404 " not in answer[:15]:
                raise SystemExit(answer[:200].decode())
            number += clients
        writer.close()

    await asyncio.gather(*(ask(client) for client in range(clients)))
    return times


if __name__ == "__main__":
    sys.exit(main())
