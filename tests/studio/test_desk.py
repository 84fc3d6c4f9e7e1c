"""The desk: two data users and a steward from draft to delivery, and everybody who tries what is not theirs."""

from __future__ import annotations

import asyncio
import io
import re
import sqlite3
import stat
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from sudare.errors import ParameterError, RequestError
from sudare.requests import RequestStore, TablePolicy
from sudare.requests.desk import measure_table
from sudare.schema import Schema
from sudare.sources import open as open_source
from sudare.studio.desk import accounts
from sudare.studio.desk.accounts import accept, find_account, invite, is_password, log_in
from sudare.studio.desk.pages import MOST_FORMS
from sudare.studio.desk.server import make_desk
from sudare.studio.desk.store import DeskStore
from sudare.studio.desk.work import StewardTable, work
from tests.studio.pages import OWN, read

HOST = "desk.example.org"
PASSWORD = "correct horse battery"
SCHEMA = """
[sudare]
schema = 1
name = "clinic"

[[attribute]]
name = "age"
kind = "number"
bins = { start = 0, stop = 100, width = 5 }
role = "quasi"
hierarchy = { intervals = [10, 50] }

[[attribute]]
name = "sex"
kind = "category"
values = ["F", "M"]
role = "quasi"
hierarchy = { builtin = "star" }
"""


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Person:
    """Somebody at the desk, with their own cookies."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.cookies = httpx.Cookies()

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Send one request."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            base = f"https://{HOST}"
            async with httpx.AsyncClient(transport=transport, base_url=base, cookies=self.cookies) as client:
                answer = await client.request(method, path, follow_redirects=True, **given)
                self.cookies.update(client.cookies)
                return answer

        return asyncio.run(send())

    def get(self, path: str) -> httpx.Response:
        """Load a page."""
        return self.ask("GET", path)

    def post(self, path: str, form: dict[str, str] | None = None, **given: Any) -> httpx.Response:
        """Send a form."""
        return self.ask("POST", path, data=form or {}, headers={**OWN, **given.pop("headers", {})})


class Office:
    """A desk with one table on offer, and the steward's side of it."""

    def __init__(self, folder: Path, *, address: str | None = None) -> None:
        (folder / "clinic.toml").write_text(SCHEMA, encoding="utf-8")
        rows = "".join(f"{row % 100},{'FM'[row // 3 % 2]}\n" for row in range(4000))
        (folder / "clinic.csv").write_text("age,sex\n" + rows, encoding="utf-8")
        self.clock = Clock()
        self.store = DeskStore.create(folder / "desk", address=address)
        self.store.clock = self.clock
        schema = Schema.read(folder / "clinic.toml")
        self.requests = RequestStore.create(folder / "requests.db", schema, TablePolicy(k=5))
        self.store.add_table("clinic", folder / "requests.db", "made-up patients")
        self.table = StewardTable(
            name="clinic",
            data=str(folder / "clinic.csv"),
            schema_file=folder / "clinic.toml",
            history=folder / "history.jsonl",
        )
        with open_source(self.table.data, schema) as source:
            measure_table(self.requests, source, history=self.table.history)
        self.app = make_desk(self.store, hosts=[HOST], behind_proxy=True)

    def enter(self, name: str, role: str) -> Person:
        """Invite somebody, and let them in."""
        person = Person(self.app)
        code = invite(self.store, name, role, actor="-")
        answer = person.post("/invited", {"code": code, "password": PASSWORD, "again": PASSWORD})
        assert answer.status_code == 200, read(answer)
        return person

    def work(self) -> None:
        """Let the steward's worker do what waits."""
        list(work(self.store, self.table, once=True))


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    """A desk with cheap password hashes; one test has them dear."""
    monkeypatch.setattr(accounts, "COST", 2)
    monkeypatch.setattr(accounts, "_NOBODY", accounts.hash_password("nobody at all"))
    return Office(tmp_path)


COARSE = {"level-0": "2", "level-1": "0", "purpose": "a study of ages", "name": "ages"}


def draft(person: Person, **form: str) -> str:
    """Draft a request; gives its path."""
    answer = person.post("/t/clinic/new", {**COARSE, **form})
    assert "/q/" in answer.url.path, read(answer)
    return answer.url.path


def test_a_request_from_draft_to_delivery(office: Office) -> None:
    asker, other, steward = office.enter("A", "user"), office.enter("B", "user"), office.enter("S", "steward")
    verdict = asker.post("/t/clinic/verdict", COARSE).json()
    request = draft(asker)
    assert other.get(request).status_code == 404
    assert "ages" not in read(steward.get("/queue"))
    asker.post(f"{request}/send")
    assert "ages" in read(steward.get("/queue"))

    steward.post(f"{request}/look")
    office.work()
    steward.post(f"{request}/grant")
    office.work()
    granted = steward.get(request)
    steward.post(f"{request}/deliver")
    office.work()
    packed = asker.get(f"{request}/delivery")

    assert verdict["verdict"] in ("holds", "likely")
    assert "granted" in read(granted)
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        names = [Path(name).name for name in archive.namelist()]
    assert "certificate.json" in names
    assert other.get(f"{request}/delivery").status_code == 404
    assert office.store.verify() >= 10


def test_what_a_data_user_reads_holds_no_figure_of_the_steward(office: Office) -> None:
    asker, steward = office.enter("A", "user"), office.enter("S", "steward")
    request = draft(asker)
    asker.post(f"{request}/send")
    steward.post(f"{request}/look")
    office.work()

    told = office.store.tasks("clinic", request.rpartition("/")[2])[0].lines

    assert told
    page = read(asker.get(request))
    assert all(line not in page for line in told if re.search(r"\d", line))
    assert "Predict" not in page


@pytest.mark.parametrize("step", ["look", "measure", "grant", "deliver", "refuse"])
def test_a_data_user_cannot_do_what_stewards_do(office: Office, step: str) -> None:
    asker = office.enter("A", "user")
    request = draft(asker)
    asker.post(f"{request}/send")

    answer = asker.post(f"{request}/{step}", {"reason": "please"})

    assert answer.status_code in (400, 404)
    assert office.store.tasks("clinic", request.rpartition("/")[2]) == []
    assert office.requests.find(request.rpartition("/")[2]).state == "asked"


@pytest.mark.parametrize("path", ["/queue", "/record"])
def test_pages_of_stewards_are_not_there_for_data_users(office: Office, path: str) -> None:
    assert office.enter("A", "user").get(path).status_code == 404


def test_an_auditor_sees_the_record_and_nothing_else(office: Office) -> None:
    asker, auditor = office.enter("A", "user"), office.enter("R", "auditor")
    request = draft(asker)

    assert "holds" in read(auditor.get("/record"))
    assert auditor.get("/queue").status_code == 404
    assert auditor.get(request).status_code == 404
    assert auditor.post(f"{request}/send").status_code == 404


def test_without_a_session_everything_leads_to_the_door(office: Office) -> None:
    stranger = Person(office.app)

    for path in ("/", "/requests", "/queue", "/record", "/t/clinic/new", "/t/clinic/q/x"):
        assert stranger.get(path).url.path == "/login", path
    assert stranger.post("/t/clinic/verdict", COARSE).url.path == "/login"


def test_a_reason_with_a_count_and_an_old_version_are_refused(office: Office) -> None:
    asker, steward = office.enter("A", "user"), office.enter("S", "steward")
    request = draft(asker)
    asker.post(f"{request}/send")

    counted = steward.post(f"{request}/refuse", {"reason": "only 3 people live there"})
    stale = steward.post(f"{request}/refuse", {"reason": "too fine; ask for regions", "version": "1"})

    assert counted.status_code == 400
    assert stale.status_code == 400
    assert office.requests.find(request.rpartition("/")[2]).state == "asked"


def test_the_61st_form_of_a_day_is_not_judged_and_the_same_form_is_counted_once(office: Office) -> None:
    asker = office.enter("A", "user")
    forms = [
        {"level-0": "own", "own-0": f"{labels(low, high)}\n{labels(0, low)}{labels(high, 20, first=not low)}"}
        for low in range(1, 12)
        for high in range(low + 1, 19)
    ][: MOST_FORMS + 1]

    for form in forms[:MOST_FORMS]:
        answer = asker.post("/t/clinic/verdict", form)
        assert answer.status_code == 200, answer.text
    assert asker.post("/t/clinic/verdict", forms[0]).status_code == 200
    assert asker.post("/t/clinic/verdict", forms[MOST_FORMS]).status_code == 429
    office.clock.now += 24 * 3600
    asker.post("/login", {"name": "A", "password": PASSWORD})
    assert asker.post("/t/clinic/verdict", forms[MOST_FORMS]).status_code == 200


def labels(low: int, high: int, *, first: bool = True) -> str:
    """Bins of five years, as a form names them."""
    named = [f"[{5 * at},{5 * at + 5}{']' if at == 19 else ')'}" for at in range(low, high)]
    return ("" if first or not named else ", ") + ", ".join(named)


def test_equal_verdict_files_give_equal_answers_without_the_table(office: Office, tmp_path: Path) -> None:
    asker = office.enter("A", "user")
    before = asker.post("/t/clinic/verdict", COARSE).content
    Path(office.table.data).unlink()
    assert office.table.history is not None
    office.table.history.unlink(missing_ok=True)

    assert asker.post("/t/clinic/verdict", COARSE).content == before


def test_five_wrong_passwords_close_the_door_for_a_quarter_of_an_hour(office: Office) -> None:
    office.enter("A", "user")
    store = office.store
    for _ in range(5):
        with pytest.raises(ParameterError, match="wrong"):
            log_in(store, "A", "wrong password", address="192.0.2.1")

    with pytest.raises(ParameterError, match="quarter"):
        log_in(store, "A", PASSWORD, address="192.0.2.2")
    with pytest.raises(ParameterError, match="quarter"):
        log_in(store, "B", PASSWORD, address="192.0.2.1")
    office.clock.now += 901

    assert find_account(store, log_in(store, "A", PASSWORD, address="192.0.2.1")) is not None


def test_unknown_names_and_wrong_passwords_get_the_same_words(office: Office) -> None:
    office.enter("A", "user")
    said = []
    for name in ("A", "nobody"):
        with pytest.raises(ParameterError) as caught:
            log_in(office.store, name, "wrong password", address=f"for {name}")
        said.append(str(caught.value))

    assert said[0] == said[1]


def test_sessions_end_and_are_kept_as_hashes(office: Office) -> None:
    person = office.enter("A", "user")
    session = person.cookies["sudare_desk"]

    assert session.encode() not in b"".join(file.read_bytes() for file in office.store.folder.glob("desk.db*"))
    office.clock.now += accounts.IDLE_SECONDS - 1
    assert person.get("/").url.path == "/"
    office.clock.now += accounts.IDLE_SECONDS + 1
    assert person.get("/").url.path == "/login"
    person.post("/login", {"name": "A", "password": PASSWORD})
    person.post("/logout")
    assert person.get("/").url.path == "/login"


def test_an_invitation_works_once_and_for_a_week(office: Office) -> None:
    code = invite(office.store, "A", "user", actor="-")
    assert code.encode() not in (office.store.folder / "desk.db").read_bytes()
    accept(office.store, code, PASSWORD)

    with pytest.raises(ParameterError, match="invitation"):
        accept(office.store, code, PASSWORD)
    late = invite(office.store, "B", "user", actor="-")
    office.clock.now += accounts.INVITATION_SECONDS + 1
    with pytest.raises(ParameterError, match="invitation"):
        accept(office.store, late, PASSWORD)
    with pytest.raises(ParameterError, match="characters"):
        accept(office.store, late, "short")


def test_a_password_is_hashed_dearly(tmp_path: Path) -> None:
    hashed = accounts.hash_password(PASSWORD)

    assert accounts.COST >= 1 << 15
    assert is_password(PASSWORD, hashed)
    assert not is_password(PASSWORD + "x", hashed)
    assert PASSWORD not in hashed


def test_a_line_taken_out_of_the_record_is_found(office: Office) -> None:
    for number in range(5):
        office.store.note("A", "did", str(number))
    assert office.store.verify() == 5
    with pytest.raises(sqlite3.Error), office.store.work() as rows:
        rows.run("DELETE FROM audit WHERE seq = 3")

    with office.store.work() as rows:
        rows.run("DROP TRIGGER audit_kept")
        rows.run("DELETE FROM audit WHERE seq = 3")

    with pytest.raises(RequestError, match="line 3"):
        office.store.verify()


def test_the_cookie_is_for_this_site_over_tls_alone(office: Office) -> None:
    code = invite(office.store, "A", "user", actor="-")
    person = Person(office.app)

    async def enter() -> str:
        transport = httpx.ASGITransport(app=office.app)
        async with httpx.AsyncClient(transport=transport, base_url=f"https://{HOST}") as client:
            form = {"code": code, "password": PASSWORD, "again": PASSWORD}
            answer = await client.post("/invited", data=form, headers=OWN)
            return answer.headers["set-cookie"]

    cookie = asyncio.run(enter()).lower()

    assert all(word in cookie for word in ("httponly", "secure", "samesite=strict"))
    assert person.get("/").url.path == "/login"
    assert stat.S_IMODE((office.store.folder / "desk.db").stat().st_mode) == 0o600


def test_forms_of_other_sites_and_other_hosts_are_refused(office: Office) -> None:
    asker = office.enter("A", "user")

    assert asker.post("/t/clinic/new", COARSE, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert asker.ask("GET", "/", headers={"host": "evil.example"}).status_code == 421


def test_hostile_words_are_shown_as_text(office: Office) -> None:
    asker, steward = office.enter("<b>A</b>", "user"), office.enter("S", "steward")
    hostile = '<script>alert(1)</script><img src=x onerror="alert(1)">'
    request = draft(asker, name=hostile, purpose=hostile)
    asker.post(f"{request}/send")
    asker.post(f"{request}/message", {"reason": hostile})

    for page in (steward.get(request), steward.get("/queue"), steward.get("/record"), asker.get("/requests")):
        assert "<script>alert" not in page.text
        assert "<img" not in page.text
        assert "<b>A</b>" not in page.text


def test_a_thousand_requests_are_listed(office: Office) -> None:
    asker = office.enter("A", "user")
    draft(asker)
    first = office.requests.list_requests()[0].request
    for number in range(200):
        office.requests.draft(first, user=f"U{number % 20}", purpose="a study")

    assert len(office.requests.list_requests()) == 201
    assert read(asker.get("/requests")).count("clinic") == 1
