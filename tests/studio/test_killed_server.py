"""A studio that is killed in the middle of a publication, and started again: the work goes on, and is paid for once."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

from sudare.releases import Release
from tests.processes import start
from tests.studio.pages import OWN
from tests.studio.test_flow import PEOPLE, count_releases, prepare

SECONDS = 240.0  # on a busy machine; a test that ends well never waits so long


@contextlib.contextmanager
def open_studio(folder: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """Start a studio in a process of its own, and open a session; it is killed at the end, if it still lives."""
    process = start([sys.executable, "-m", "sudare", "studio", str(folder), "--no-browser"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    found = re.search(r"(http://\S+)/open#(\S+)", process.stdout.readline())
    assert found is not None
    with process, httpx.Client(base_url=found[1], timeout=SECONDS, headers=OWN, follow_redirects=True) as client:
        try:
            client.post("/open", data={"token": found[2]})
            yield process, client
        finally:
            process.kill()


def test_a_killed_studio_finds_its_work_again(tmp_path: Path) -> None:
    prepared, table = prepare(tmp_path)
    prepared.post(f"{table}/choose", {"need": "records", "rows": "900", "epsilon": "1/2"})
    place = prepared.project.table(table.removeprefix("/t/"))
    (tmp_path / "people.csv").write_text(PEOPLE * 200)  # long enough to be caught at work
    with open_studio(prepared.project.folder) as (first, client):
        job = client.post(f"{table}/publish", data={"name": "out", "budget": "2"}).url.path
        first.kill()
        first.wait()

    with open_studio(prepared.project.folder) as (_, client):
        page = client.get(job)
        while page.url.path == job and client.get(f"{job}/state").json()["state"] == "running":
            page = client.get(job)
        page = client.get(job)
        again = client.post(f"{table}/publish", data={"name": "out", "budget": "2"})

    assert page.url.path.startswith("/r/"), page.text
    assert "taken" in again.text
    assert count_releases(place.ledger_file) == 1
    assert Release.load(place.folder / "out").certificate.private
