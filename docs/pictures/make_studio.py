"""Take the pictures of the studio: `python docs/pictures/make_studio.py`. Made-up people; needs Chromium."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

PLACE = Path(__file__).parent
WORDS = {"en": ("sex", "age", "town", "plan"), "ja": ("性別", "年齢", "市", "プラン")}
TOWNS = {"en": ("Aoi", "Kita", "Minami"), "ja": ("青井市", "北市", "南市")}
PLANS = {"en": ("day", "student", "premium"), "ja": ("昼間", "学生", "プレミアム")}


def main() -> None:
    """Walk through the pages in both languages, and take three pictures of each."""
    for language in WORDS:
        with tempfile.TemporaryDirectory() as folder, running_studio(Path(folder)) as address:
            table = Path(folder, "members.csv")
            write_table(table, language)
            walk(address, table, language)


def write_table(file: Path, language: str) -> None:
    """Write 20,000 made-up members."""
    draw = random.Random(2026)
    lines = [",".join(WORDS[language])]
    for _ in range(20_000):
        age = min(int(draw.gammavariate(9, 5)), 99)
        lines.append(f"{draw.choice('FM')},{age},{draw.choice(TOWNS[language])},{draw.choice(PLANS[language])}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextmanager
def running_studio(folder: Path) -> Iterator[str]:
    """Run the studio, and give its one-time address."""
    command = [sys.executable, "-m", "sudare", "studio", str(folder / "members"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        found = re.search(r"http://\S+", process.stdout.readline() if process.stdout else "")
        if found is None:
            raise SystemExit("the studio did not start")
        yield found[0]
        process.terminate()


def walk(address: str, table: Path, language: str) -> None:
    """Go from the table to an answer, and take the pictures on the way."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(locale={"en": "en-US", "ja": "ja-JP"}[language],
                                      viewport={"width": 1100, "height": 760}, color_scheme="light")  # fmt: skip
        page = context.new_page()
        page.set_default_timeout(300_000)
        page.goto(address)
        page.wait_for_url(re.compile(r":\d+/$"))
        page.set_input_files("#file", table)
        page.wait_for_url(re.compile("/header"))
        page.click(".foot button")
        page.wait_for_url(re.compile("/schema"))
        page.click("#unit button[name=confirm]")
        page.locator("#column-0").scroll_into_view_if_needed()
        take(page, "schema", language)
        for number in range(page.locator("section.column").count()):
            page.click(f"#column-{number} button[name=confirm]")
        page.click("form.foot button")
        page.wait_for_url(re.compile("/choose"))
        page.fill("input[name=rows]", "20000")
        page.check("input[name=need][value=queries]")
        page.wait_for_selector(".stops")
        page.wait_for_load_state("networkidle")
        take(page, "choose", language)
        page.click("button[name=go]")
        page.wait_for_url(re.compile("/publish"))
        page.click(".foot button")
        page.wait_for_url(re.compile("/r/"))
        page.click("a[href$='/ask']")
        page.select_option("select[name=group]", index=3)
        page.click("button[name=build]")
        page.wait_for_selector("td.bars svg")
        page.locator("td.bars").last.scroll_into_view_if_needed()
        take(page, "ask", language)
        browser.close()


def take(page: Any, name: str, language: str) -> None:
    """Take one picture of what the window shows."""
    end = "" if language == "en" else f".{language}"
    page.screenshot(path=PLACE / f"studio-{name}{end}.png")


if __name__ == "__main__":
    main()
