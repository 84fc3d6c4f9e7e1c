"""A publication that is killed at every one of its steps: what is told, what is paid, and that it can be done again."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from sudare.privacy import Ledger
from sudare.privacy.spend import new_release_id
from sudare.releases import Release
from sudare.studio.jobs import Jobs
from tests.processes import run
from tests.studio.dying_worker import STEPS
from tests.studio.pages import Browser, read
from tests.studio.test_flow import count_releases, prepare, publish


@pytest.fixture(scope="module")
def steward(tmp_path_factory: pytest.TempPathFactory) -> tuple[Browser, str]:
    """A table with a budget for all tests here."""
    studio, table = prepare(tmp_path_factory.mktemp("killed"))
    studio.post(f"{table}/choose", {"need": "records", "rows": "900", "epsilon": "1/2"})
    publish(studio, table, "before")
    return studio, table


def leave_job(studio: Browser, table: str, name: str) -> str:
    """Write down a publication as the studio does before its worker begins."""
    key = f"job-{name}"
    fields = {"name": name, "method": "microdata", "parameters": {"epsilon": "1/2"}, "release_id": new_release_id()}
    with studio.project.connect() as store:
        store.execute(
            "INSERT INTO job (id, kind, source, fields, state, made) VALUES (?, 'publish', ?, ?, 'running', 0)",
            (key, table.removeprefix("/t/"), json.dumps(fields)),
        )
    return key


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(steward: tuple[Browser, str], step: str) -> None:
    studio, table = steward
    place = studio.project.table(table.removeprefix("/t/"))
    before = count_releases(place.ledger_file)
    key = leave_job(studio, table, step)

    ended = run(
        [sys.executable, "-m", "tests.studio.dying_worker", str(studio.project.folder), key, place.address, step]
    )
    page = read(studio.get(f"/jobs/{key}")) if Jobs(studio.project) else ""

    is_paid = STEPS.index(step) >= STEPS.index("noise")
    out = place.folder / step
    assert ended.returncode == -signal.SIGKILL
    assert count_releases(place.ledger_file) == before + is_paid
    assert ("The spend stays in the ledger" in page, "Nothing was spent" in page) == (is_paid, not is_paid)
    assert out.exists() == (step == "end")
    with Ledger.open(place.ledger_file) as ledger:
        ledger.verify()
    if step == "end":
        Release.load(out)
    again = publish(studio, table, f"{step}-again" if step == "end" else step)
    assert again.startswith("/r/")
    assert not [name for name in place.folder.iterdir() if name.name.startswith(".")]


def test_a_number_that_another_process_has_now_does_not_stop_the_studio(steward: tuple[Browser, str]) -> None:
    studio, table = steward
    key = leave_job(studio, table, "another")
    with studio.project.connect() as store:
        store.execute("UPDATE job SET pid = 1 WHERE id = ?", (key,))
    assert Jobs(studio.project).get(key).state == "interrupted"
