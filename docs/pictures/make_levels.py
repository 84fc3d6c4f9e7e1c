"""Draw what each level costs, in both languages: `python docs/pictures/make_levels.py`. Made-up data, Chromium."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from make import PLACE
from playwright.sync_api import sync_playwright

from sudare.methods.kanon import KAnonymity
from sudare.requests.choices import list_choices, render_choices
from sudare.schema import Schema
from sudare.text import use_language

PAGE = Path(__file__).parents[1] / "how-to" / "k-anonymity.md"  # it declares the table
PLACES = ("東京都", "大阪府", "北海道")
PEOPLE = "sex,age,prefecture\n" + "".join(f"{'FM'[n % 2]},{7 * n % 100},{PLACES[n % 3]}\n" for n in range(2000))


def main() -> None:
    """Measure once, and take the picture of the page in each language."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        declared = PAGE.read_text(encoding="utf-8").split('"""')[1]
        Path(place, "people.toml").write_text(declared, encoding="utf-8")
        Path(place, "people.csv").write_text(PEOPLE, encoding="utf-8")
        schema = Schema.read(Path(place, "people.toml"))
        choices = list_choices(Path(place, "people.csv"), schema, KAnonymity(k=50))
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for language, ending in (("en", ""), ("ja", ".ja")):
            with use_language(language):
                Path(place, "levels.html").write_text(render_choices(choices, schema), encoding="utf-8")
            page = browser.new_page(viewport={"width": 1060, "height": 900})
            page.goto(Path(place, "levels.html").as_uri())
            page.locator("figure").first.screenshot(path=PLACE / f"kanon-levels{ending}.png")
        browser.close()


if __name__ == "__main__":
    main()
