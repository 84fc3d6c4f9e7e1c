"""The wall of the studio: what another site, another user or a hostile file can do to it."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from urllib.parse import quote

import pytest

from sudare.studio.safety import COOKIE, IDLE_SECONDS, MOST_FORM_BYTES, TOKEN_SECONDS, Keys
from tests.studio.pages import BASE, OWN, Browser, read

HOSTILE = '<img src=x onerror="alert(1)">'


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def studio(tmp_path: Path) -> Browser:
    """A studio with an open session."""
    browser = Browser(tmp_path / "project")
    assert browser.open().status_code == 200
    return browser


def test_without_a_session_no_page_is_shown(tmp_path: Path) -> None:
    browser = Browser(tmp_path)

    for path in ("/", "/releases", "/t/x/schema", "/jobs/x", "/r/x/file/zip"):
        assert browser.get(path).status_code == 401, path


def test_a_token_opens_one_session_once(tmp_path: Path) -> None:
    browser = Browser(tmp_path)
    token = browser.keys.issue()

    assert browser.post("/open", {"token": token}).status_code == 200
    assert browser.get("/").status_code == 200
    assert Browser.post(Browser(tmp_path, keys=browser.keys), "/open", {"token": token}).status_code == 403


def test_wrong_and_expired_tokens_and_idle_sessions_are_refused(tmp_path: Path) -> None:
    clock = Clock()
    browser = Browser(tmp_path, keys=Keys(clock=clock))
    token = browser.keys.issue()

    assert browser.post("/open", {"token": token[:-1]}).status_code == 403
    clock.now += TOKEN_SECONDS + 1
    assert browser.post("/open", {"token": token}).status_code == 403
    browser.open()
    clock.now += IDLE_SECONDS - 1
    assert browser.get("/").status_code == 200
    clock.now += IDLE_SECONDS + 1
    assert browser.get("/").status_code == 401


def test_the_cookie_is_kept_from_scripts_and_other_sites(tmp_path: Path) -> None:
    cookie = Browser(tmp_path).open().headers["set-cookie"]

    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost:1", ""])
def test_another_name_of_this_computer_is_refused(studio: Browser, host: str) -> None:
    assert studio.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {},
    ],
)
def test_a_form_of_another_site_changes_nothing(studio: Browser, headers: dict[str, str]) -> None:
    answer = studio.ask("POST", "/table", data={"path": "x.csv"}, headers=headers)

    assert answer.status_code == 403


def test_a_browser_without_fetch_headers_is_known_by_its_origin(studio: Browser) -> None:
    answer = studio.ask("POST", "/language", data={"language": "ja"}, headers={"origin": BASE})

    assert answer.status_code == 200
    assert 'lang="ja"' in answer.text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(studio: Browser, method: str) -> None:
    assert studio.ask(method, "/", headers=OWN).status_code == 405


def test_every_answer_forbids_what_a_page_does_not_need(studio: Browser) -> None:
    for answer in (studio.get("/"), studio.get("/nowhere"), Browser(studio.project.folder).get("/")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_pages_carry_no_style_and_no_script_of_their_own(studio: Browser, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("age,sex\n" + "".join(f"{age},{'FM'[age % 2]}\n" for age in range(20, 80)))
    table = studio.read_table(file)

    for path in ("/", f"{table}/header", f"{table}/schema", "/releases"):
        page = studio.get(path).text
        assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?! src=\"/static/)", page), path


def test_a_form_that_is_too_large_is_refused_before_it_is_read(studio: Browser) -> None:
    large = studio.post("/table", {"path": "x" * (MOST_FORM_BYTES + 1)})

    assert large.status_code == 413


@pytest.mark.parametrize("name", ["../../up.csv", "..%2F..%2Fup.csv", "/etc/up.csv", "C:\\up.csv", "up\0.csv", ".."])
def test_a_dropped_file_stays_in_its_folder(studio: Browser, name: str) -> None:
    headers = {**OWN, "x-file-name": quote(name)}
    answer = studio.ask("POST", "/table/upload", content=b"age,sex\n30,F\n", headers=headers)

    folder = studio.project.upload_folder()
    assert all(folder in path.parents for path in folder.rglob("*"))
    assert not list(studio.project.folder.parent.glob("up*"))
    assert answer.status_code in (200, 400)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_dropped_files_are_gone_when_the_studio_ends(studio: Browser) -> None:
    studio.ask("POST", "/table/upload", content=b"age\n30\n", headers={**OWN, "x-file-name": "a.csv"})
    folder = studio.project.upload_folder()
    assert list(folder.glob("*.csv"))

    studio.project.close()

    assert not folder.exists()


@pytest.mark.parametrize(
    "path", ["/static/../safety.py", "/static/%2e%2e/safety.py", "/r/../../etc/passwd", "/r/x/file/../../../etc/passwd"]
)
def test_no_path_leads_out(studio: Browser, path: str) -> None:
    answer = studio.get(path)

    assert answer.status_code in (400, 404)
    assert "root:" not in answer.text


def test_hostile_names_and_values_are_shown_as_text(studio: Browser, tmp_path: Path) -> None:
    file = tmp_path / "hostile.csv"
    rows = "".join(f'{age},"{HOSTILE.replace(chr(34), chr(34) * 2)}"\n' for age in range(40))
    file.write_text(f'age,"{HOSTILE.replace(chr(34), chr(34) * 2)}"\n{rows}')

    header = studio.post("/table", {"path": str(file)})
    table = studio.read_table(file)

    for page in (header, studio.get(f"{table}/schema")):
        assert "<img" not in page.text
        assert "onerror=" in read(page)


def test_the_language_leads_back_to_our_pages_only(studio: Browser) -> None:
    for back in ("//evil.example", "https://evil.example", "/\\evil.example"):
        answer = studio.post("/language", {"language": "ja", "back": back}, follow=False)
        assert answer.headers["location"] == "/"


def test_the_store_is_for_its_owner_and_holds_no_password(studio: Browser) -> None:
    studio.post("/table", {"path": "postgresql://me:geheim@host/office?table=people"})

    assert stat.S_IMODE(studio.project.file.stat().st_mode) == 0o600
    for file in studio.project.folder.glob(".sudare-studio.db*"):
        assert b"geheim" not in file.read_bytes()
    assert "geheim" not in studio.get("/").text
