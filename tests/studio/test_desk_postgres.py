"""The desk with its rows on a PostgreSQL server: the same promises, for several machines, through a restart."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from sudare.errors import ParameterError, RequestError
from sudare.studio.desk import accounts
from sudare.studio.desk.store import DeskStore
from tests.servers import PASSWORD, PostgresServer
from tests.studio.pages import read
from tests.studio.test_desk import Office, draft

THREADS, LINES = 8, 25


@pytest.fixture
def address(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database of its own; the password comes from the environment, as it must."""
    postgres_server.execute("DROP DATABASE IF EXISTS desk", "CREATE DATABASE desk")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    yield postgres_server.address(password=None, database="desk")
    postgres_server.execute("DROP DATABASE IF EXISTS desk WITH (FORCE)")


@pytest.fixture
def shared(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> Office:
    """A desk on a server, with cheap password hashes."""
    monkeypatch.setattr(accounts, "COST", 2)
    monkeypatch.setattr(accounts, "_NOBODY", accounts.hash_password("nobody at all"))
    return Office(tmp_path, address=address)


def test_a_request_goes_from_draft_to_delivery_on_a_server(shared: Office) -> None:
    user, steward = shared.enter("Aiko", "user"), shared.enter("Office", "steward")
    path = draft(user)
    user.post(f"{path}/send", {"version": "1"})
    user.post(f"{path}/message", {"reason": "Thank you"})
    for step in ("look", "grant", "deliver"):
        version = str(shared.requests.find(path.rpartition("/")[2]).version)
        steward.post(f"{path}/{step}", {"version": version})
        shared.work()

    delivered = user.get(f"{path}/delivery")
    assert any(name.endswith("certificate.json") for name in zipfile.ZipFile(io.BytesIO(delivered.content)).namelist())
    assert "Thank you" in read(steward.get(path))
    assert shared.store.verify() > 5


def test_two_machines_write_one_chain_and_count_a_form_once(shared: Office) -> None:
    folder = shared.store.folder
    stores = [DeskStore(folder) for _ in range(2)]

    def write(number: int) -> int:
        store = stores[number % 2]
        for line in range(LINES):
            store.note(f"machine {number % 2}", "did", f"{number}/{line}")
        try:
            return store.count_form("Aiko", "clinic", {"age": number // 2}, most=3)
        except ParameterError:
            return 0

    with ThreadPoolExecutor(THREADS) as pool:
        counted = list(pool.map(write, range(THREADS)))

    assert shared.store.verify() == THREADS * LINES
    assert shared.store.count_asked("clinic") == {"Aiko": 3}
    assert max(counted) == 3
    assert counted.count(0) == THREADS - 2 * 3


def test_the_record_cannot_be_changed_by_the_desk(shared: Office) -> None:
    for number in range(3):
        shared.store.note("A", "did", str(number))
    for statement in ("DELETE FROM audit", "UPDATE audit SET actor = 'B'", "TRUNCATE audit"):
        with pytest.raises(psycopg.errors.RaiseException), shared.store.work() as rows:
            rows.run(statement)
    with shared.store.work() as rows:
        rows.run("DROP TRIGGER audit_stays ON audit")
        rows.run("DELETE FROM audit WHERE seq = 2")
    with pytest.raises(RequestError, match="line 2"):
        shared.store.verify()


def test_a_server_that_was_killed_is_told_and_found_again(shared: Office, postgres_server: PostgresServer) -> None:
    shared.store.note("A", "did", "before")
    postgres_server.kill()
    try:
        with pytest.raises(RequestError, match="does not answer"):
            shared.store.note("A", "did", "while it is down")
    finally:
        postgres_server.start()
    shared.store.note("A", "did", "after")
    assert [line.object for line in shared.store.record()] == ["after", "before"]
    assert shared.store.verify() == 2


def test_the_folder_names_the_server_for_its_owner_and_holds_no_password(shared: Office, address: str) -> None:
    file = shared.store.folder / "desk.address"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert PASSWORD not in file.read_text(encoding="utf-8")
    with pytest.raises(RequestError, match="already"):
        DeskStore.create(shared.store.folder)
    with pytest.raises(RequestError, match="keeps a desk already"):
        DeskStore.create(shared.store.folder.parent / "second", address=address)
    assert not (shared.store.folder.parent / "second" / "desk.address").exists()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("postgresql://office:secret@127.0.0.1/desk", "no password"),
        ("postgresql://office@127.0.0.1:1/desk?colour=red", "must read"),
        ("postgresql://office@127.0.0.1:1/desk", "does not answer"),
    ],
)
def test_a_bad_address_is_refused_in_one_line_without_the_address(tmp_path: Path, bad: str, words: str) -> None:
    with pytest.raises(RequestError, match=words) as refused:
        DeskStore.create(tmp_path / "desk", address=bad)
    assert "secret" not in str(refused.value)
    assert "127.0.0.1" not in str(refused.value)
    assert not list((tmp_path / "desk").iterdir())
