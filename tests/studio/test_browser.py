"""The first hour of a new user in a real browser: from an Excel file to a release, by mouse and by keyboard.

Every page that is passed is looked at by axe (no violation), and must fit its window without a bar below.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sudare.releases import Release

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (the dev extra has it)")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
xlsxwriter = pytest.importorskip("xlsxwriter")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; `make test` installs it when it is root"),
    pytest.mark.timeout(900),
]
PATIENCE = 240_000  # milliseconds for a page on a busy machine
MOST_SHIFT = 0.02  # of a page that nobody touches; web.dev/articles/cls
WIDTHS = (390, 600, 768, 1024, 1280, 1920)
SEES_PLACE = """() => { const place = document.querySelector("nav [aria-current]")?.getBoundingClientRect();
  return !place || (place.left >= 0 && place.right <= window.innerWidth); }"""
FITS = "document.documentElement.scrollWidth <= window.innerWidth"
SHIFTS = """window.shift = 0; window.shifted = [];
new PerformanceObserver(list => { for (const each of list.getEntries()) if (!each.hadRecentInput) {
  window.shift += each.value;
  window.shifted.push([each.value, ...each.sources.map(one => one.node && (one.node.id || one.node.className))]);
} }).observe({type: "layout-shift", buffered: true});"""
HOSTILE = '<img src=x onerror="window.hit=1">'


@pytest.fixture(scope="module")
def workbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sheet as an office has it: a title, a unit line, names, full-width digits, a total, a note, a hostile value."""
    file = tmp_path_factory.mktemp("office") / "会員名簿_R6.xlsx"
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet("会員")
        sheet.write(0, 0, "令和6年度　会員名簿")
        rows = [["会員番号", "性別", "年齢", "都道府県", "プラン", "来館"]]
        plans = ["昼間", "学生", "プレミアム", HOSTILE]
        for row in range(1200):
            visits: Any = row % 21 if row % 7 else "１５"
            town = ["東京都", "大阪府", "島根県"][row % 3]
            rows.append([f"M{row:06d}", "男女"[row % 2], 15 + row % 75, town, plans[row % 4], visits])
        for at, cells in enumerate(rows, start=2):
            for column, cell in enumerate(cells):
                sheet.write(at, column, cell)
        sheet.write(len(rows) + 2, 0, "合計")
        sheet.write(len(rows) + 2, 5, 12_000)
        sheet.write(len(rows) + 3, 0, "※令和7年3月末現在")
    return file


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A studio of its own process: its one-time address, and its folder."""
    command = [sys.executable, "-m", "sudare", "studio", str(tmp_path / "project"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found[0], tmp_path / "project"
        process.terminate()
        process.wait()


def open_browser(driver: Any, *, language: str, width: int, scheme: str) -> Any:
    """Open a window of the system's Chromium; errors of scripts are kept in `page.faults`."""
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    context = browser.new_context(
        locale=language, viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
    )
    context.add_init_script(SHIFTS)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.faults = []
    page.route("**/static/*.js", follow_the_first_paint)
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda said: page.faults.append(said.text) if said.type == "error" else None)
    return page


def follow_the_first_paint(route: Any) -> None:
    """Let a script come when the page stands already, as on a slow line: what it moves then is seen to move."""
    route.request.frame.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
    route.continue_()


def look(page: Any) -> None:
    """See that axe knows no fault of a page, that it shows where one is, stays still, and has no bar below."""
    found = axe.Axe().run(page, options={"iframes": False})
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("window.shift") < MOST_SHIFT, (page.url, page.evaluate("window.shifted"))
    assert page.evaluate(SEES_PLACE), page.url
    size = page.viewport_size
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": size["height"]})
        assert page.evaluate(FITS), (page.url, width)
    page.set_viewport_size(size)
    page.emulate_media(media="print")
    assert page.evaluate(FITS), page.url
    assert not page.locator(".btn:visible, nav:visible").count(), page.url
    page.emulate_media(media="screen")
    page.evaluate("() => { window.shift = 0; window.shifted = []; }")


@pytest.mark.parametrize(("language", "width", "scheme"), [("ja-JP", 1280, "light"), ("en-US", 390, "dark")])
def test_the_first_hour(
    studio: tuple[str, Path], workbook: Path, tmp_path: Path, language: str, width: int, scheme: str
) -> None:
    address, folder = studio
    with playwright.sync_playwright() as driver:
        page = open_browser(driver, language=language, width=width, scheme=scheme)
        page.goto(address)
        page.wait_for_url(re.compile(r":\d+/$"))
        assert page.evaluate("document.documentElement.lang") == language[:2]
        look(page)
        clicks = walk_to_a_release(page, workbook)
        assert clicks <= 25
        look(page)
        with page.expect_download() as waiting:
            page.click("a[href$='/file/xlsx']")
        waiting.value.save_as(tmp_path / "copy.xlsx")
        assert (tmp_path / "copy.xlsx").read_bytes()[:2] == b"PK"
        ask_the_view(page)
        page.go_back()
        page.reload()
        assert page.evaluate("window.hit === undefined")
        assert page.faults == []
        page.context.browser.close()
    (certificate,) = folder.glob("*/view/certificate.json")
    assert Release.load(certificate.parent).certificate.private


def open_schema(page: Any, address: str, workbook: Path) -> None:
    """Drop a workbook, and go on to the cards of its columns."""
    page.goto(address)
    page.wait_for_url(re.compile(r":\d+/$"))
    page.set_input_files("#file", workbook)
    page.wait_for_url(re.compile("/header"))
    page.click(".foot button")
    page.wait_for_url(re.compile("/schema"))


def walk_to_a_release(page: Any, workbook: Path) -> int:
    """Go from the first page to a release with the fewest clicks; gives their number."""
    page.set_input_files("#file", workbook)
    page.wait_for_url(re.compile("/header"))
    look(page)
    assert page.is_checked("input[name=line][value='2']")
    page.click(".foot button")
    page.wait_for_url(re.compile("/schema"))
    look(page)
    page.click("#unit button[name=confirm]")
    count = page.locator("section.column").count()
    for number in range(count):
        page.click(f"#column-{number} button[name=confirm]")
    page.click("form.foot button")
    page.wait_for_url(re.compile("/choose"))
    look(page)
    page.check("input[name=need][value=queries]")
    page.wait_for_selector(".stops")
    look(page)
    page.click("button[name=go]")
    page.wait_for_url(re.compile("/publish"))
    look(page)
    page.click(".foot button")
    page.wait_for_url(re.compile("/r/"))
    return 1 + 1 + count + 1 + 2 + 1 + 1


def ask_the_view(page: Any) -> None:
    """Ask how many by sex, by point and click, and look at the bars."""
    page.click("a[href$='/ask']")
    page.select_option("select[name=group]", index=1)
    page.click("button[name=build]")
    page.wait_for_selector("td.bars svg")
    assert page.locator("td.bars svg").count() == 2
    look(page)


def test_a_map_is_made_and_a_device_tried_by_keyboard(studio: tuple[str, Path]) -> None:
    address, folder = studio
    with playwright.sync_playwright() as driver:
        page = open_browser(driver, language="ja-JP", width=1280, scheme="light")
        page.goto(address)
        page.wait_for_url(re.compile(r":\d+/$"))
        page.click("nav a[href='/places']")
        page.click("summary >> nth=0")
        page.focus("#paint")
        for key in (" ", "ArrowRight", " "):
            page.keyboard.press(key)
        assert page.input_value("#land").split("\n")[:2] == ["..#############", "#" * 15]
        page.click("button[name=show]")
        page.wait_for_selector(".promise")
        look(page)
        page.click("button[name=publish]")
        page.wait_for_url(re.compile("/r/"))
        page.click("a[href$='/device']")
        page.wait_for_selector("#map .person")
        before = page.inner_text("#said")
        page.focus("#map")
        page.keyboard.press("ArrowRight")
        moved = page.inner_text("#said")
        page.keyboard.press("Enter")
        drawn = page.inner_text("#said")
        assert len({before, moved, drawn}) == 3
        said = [drawn]
        for shown in ("posterior", "weights"):
            page.select_option("#what", shown)
            said.append(page.inner_text("#said"))
        assert len(set(said)) == 3
        assert page.locator("#map .sea").count() == 2
        look(page)
        page.screenshot(path=folder / "device.png", full_page=True)
        assert page.faults == []
        page.context.browser.close()


def test_every_control_is_reached_by_the_keyboard_with_a_ring(studio: tuple[str, Path], workbook: Path) -> None:
    address, _ = studio
    with playwright.sync_playwright() as driver:
        page = open_browser(driver, language="ja-JP", width=1280, scheme="light")
        open_schema(page, address, workbook)
        page.evaluate("document.body.focus()")
        missed = page.evaluate(TAB_STOPS)
        seen = set()
        for _ in range(missed + 5):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
            ring = page.evaluate(RING)
            assert ring, page.evaluate("document.activeElement.outerHTML.slice(0, 120)")
        assert len(seen) >= missed
        page.context.browser.close()


TAB_STOPS = """() => {
  const radios = new Set();
  return [...document.querySelectorAll('a[href], button, input, select, textarea, summary')].filter(each => {
    if (each.type === 'hidden' || each.disabled || each.closest('[hidden]') || each.tabIndex < 0) return false;
    const details = each.closest('details:not([open])');
    if (details && each.tagName !== 'SUMMARY') return false;
    if (each.type !== 'radio') return true;
    const key = each.form && [...document.forms].indexOf(each.form) + each.name;
    return radios.has(key) ? false : radios.add(key) && true;
  }).length;
}"""
RING = """() => {
  const shown = element => element && getComputedStyle(element).outlineStyle !== 'none';
  const active = document.activeElement;
  return active === document.body || shown(active) || shown(active.closest('.opt, .drop'));
}"""


def test_levels_are_edited_by_keyboard_stay_nested_and_go_through_a_file(
    studio: tuple[str, Path], workbook: Path, tmp_path: Path
) -> None:
    address, _ = studio
    with playwright.sync_playwright() as driver:
        page = open_browser(driver, language="en-US", width=1280, scheme="light")
        open_schema(page, address, workbook)
        card = page.locator("section.column", has=page.get_by_role("heading", name="都道府県"))
        card.locator("details.levels summary").click()
        text = card.locator("textarea.code")
        text.fill("東京都;東;*\n大阪府;西;*\n島根県;西;*")
        card.get_by_role("button", name="one more level").click()  # of 2 groups, each alone
        card.get_by_role("button", name="東", exact=True).press("Space")
        card.get_by_role("button", name="西", exact=True).press("Space")
        card.get_by_role("button", name="Make a group of the chosen").press("Enter")
        whole = text.input_value()
        card.get_by_role("button", name="level 1").click()
        card.get_by_role("button", name="島根県").press("Space")
        card.get_by_role("button", name="Take the chosen out of their group").press("Enter")
        split = text.input_value()
        card.get_by_role("button", name="Undo").click()
        undone = text.input_value()
        with page.expect_download() as waiting:
            card.get_by_role("button", name="Save as a CSV file").click()
        waiting.value.save_as(tmp_path / "levels.csv")
        text.fill("")
        card.locator("input[type=file]").set_input_files(tmp_path / "levels.csv")
        page.wait_for_function("text => text.value !== ''", arg=text.element_handle())
        look(page)
        card.locator("button[name=confirm]").click()
        card.locator(".tag.ok").wait_for()
        kept = card.locator("textarea.code").input_value()
        assert page.faults == []
        page.context.browser.close()
    assert whole == "東京都;東;東・西;*\n大阪府;西;東・西;*\n島根県;西;東・西;*"
    assert split == "東京都;東;東・西;*\n大阪府;西;東・西;*\n島根県;島根県;東・西;*"
    assert undone == whole
    assert [line.split(";")[:3] for line in kept.split("\n")] == [line.split(";")[:3] for line in whole.split("\n")]
