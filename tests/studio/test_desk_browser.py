"""A request in a real browser: two data users and a steward at once, from draft to delivery; axe looks at each page."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sudare.requests import RequestStore
from sudare.studio.desk.accounts import invite
from sudare.studio.desk.store import DeskStore
from tests.studio.test_browser import CHROMIUM, look, open_browser, playwright, pytestmark  # noqa: F401
from tests.studio.test_desk import PASSWORD, Office


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[tuple[str, Office]]:
    """A desk of its own process, and the office behind it."""
    office = Office(tmp_path)
    office.store = DeskStore(tmp_path / "desk")
    command = [sys.executable, "-m", "sudare", "desk", "serve", str(tmp_path / "desk")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[\d.:]+", process.stdout.readline())
        assert found is not None
        yield found[0], office
        process.terminate()
        process.wait()


def enter(page: Any, address: str, office: Office, name: str, role: str) -> None:
    """Take up an invitation."""
    page.goto(f"{address}/invited")
    look(page)
    page.fill("#code", invite(office.store, name, role, actor="-"))
    page.fill("#password", PASSWORD)
    page.fill("#again", PASSWORD)
    page.click("main button")
    page.wait_for_url(re.compile(r":\d+/$"))
    look(page)


def draft(page: Any, name: str) -> str:
    """Build a request, wait for its verdict, and save it."""
    page.click("a[href$='/new']")
    look(page)
    page.select_option("#level-0", "own")
    page.fill("#own-0", "0-50\n50-")
    page.select_option("#level-1", "0")
    page.wait_for_selector("#verdict.holds, #verdict.likely")
    page.fill("#name", name)
    page.fill("#purpose", "研究")
    look(page)
    page.click(".foot button")
    page.wait_for_url(re.compile("/q/"))
    look(page)
    return str(page.url)


def press(page: Any, step: str) -> None:
    """Take a step, and wait until the desk has answered."""
    with page.expect_navigation():
        page.click(f"form[action$='/{step}'] button")


def test_two_users_and_a_steward_at_once(desk: tuple[str, Office], tmp_path: Path) -> None:
    address, office = desk
    with playwright.sync_playwright() as driver:
        first = open_browser(driver, language="ja-JP", width=1280, scheme="light")
        second = open_browser(driver, language="en-US", width=390, scheme="dark")
        steward = open_browser(driver, language="ja-JP", width=1280, scheme="light")
        enter(first, address, office, "研究者 A", "user")
        enter(second, address, office, "B", "user")
        enter(steward, address, office, "統計係", "steward")
        url = draft(first, "年齢")
        other = draft(second, "ages")
        for page in (first, second):
            press(page, "send")
        assert second.goto(url).status == 404
        steward.goto(f"{address}/queue")
        assert steward.locator("tbody tr").count() == 2
        look(steward)
        steward.goto(url)
        for step in ("look", "grant", "deliver"):
            press(steward, step)
            office.work()
            steward.reload()
        look(steward)
        first.reload()
        with first.expect_download() as waiting:
            first.click("a[href$='/delivery']")
        waiting.value.save_as(tmp_path / "delivery.zip")
        steward.goto(other)
        steward.fill("#reason-refuse", "もう少し粗い区分でご依頼ください")
        press(steward, "refuse")
        second.goto(other)
        assert "もう少し粗い" in second.inner_text("main")
        look(second)
        steward.goto(f"{address}/record")
        look(steward)
        for page in (first, second, steward):
            page.screenshot(path=tmp_path / f"{page.viewport_size['width']}.png", full_page=True)
            assert [fault for fault in page.faults if "404" not in fault] == []
            page.context.browser.close()
    states = {
        stored.request.name: stored.state for stored in RequestStore.open(tmp_path / "requests.db").list_requests()
    }
    assert states == {"年齢": "delivered", "ages": "refused"}
    assert (tmp_path / "delivery.zip").read_bytes()[:2] == b"PK"
