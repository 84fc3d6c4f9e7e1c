"""The demo: five releases that verify, pages that open without a server, and truth only where it is stamped."""

from __future__ import annotations

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare.cli.runs import _print_lines
from sudare.demo.demo import KINDS, render_demo_page
from sudare.methods.kanon.compare import ClassComparison
from sudare.methods.table.compare import RegionComparison
from sudare.releases import Release
from sudare.report.shapes import TruthComparison
from sudare.text import use_language
from tests.end_to_end.conftest import Ran
from tests.unit.test_report import Tags

Sudare = Callable[..., Ran]
INDEXES = ("index.html", "index.ja.html")
STEWARD = ("microdata", "view", "kanon", "table")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The directory in which `sudare demo` ran, and what it said."""
    place = tmp_path_factory.mktemp("first_hour")
    done = subprocess.run([sys.executable, "-m", "sudare", "demo"], cwd=place, capture_output=True, text=True,
                          check=True, env=os.environ | {"SUDARE_LANG": "en"})  # fmt: skip
    return place, done.stdout


@pytest.fixture
def demo(made: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made[0])
    monkeypatch.setenv("SUDARE_LANG", "en")
    return made[0] / "demo"


def pages(demo: Path) -> list[Path]:
    return sorted(demo.rglob("*.html"))


def unstamped(page: str) -> str:
    """A page without its stamped sections."""
    return re.sub(r'<section class="secret".*?</section>', "", page, flags=re.DOTALL)


def without_pixels(page: str) -> str:
    """A page without the pictures that it holds as data."""
    return re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", page)


def words(page: str) -> str:
    return re.sub(r"<style>.*?</style>|<(code|pre)>.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)


def test_the_demo_tells_its_steps_and_where_to_look(made: tuple[Path, str]) -> None:
    lines = made[1].splitlines()
    numbered = [line for line in lines if re.match(r" *\d+\.\d s +\d+/11  ", line)]

    assert len(numbered) == 11
    assert "for the steward" in made[1]
    assert lines[-2:] == ["Next: open demo/index.html", "In the browser: sudare studio demo"]


def test_on_a_terminal_the_lines_stand_above_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with _print_lines() as tell:
        tell("step [1] of two", 0.5)
    out = capsys.readouterr().out

    assert re.search(r"(^|\r|\x1b\[2K)step \[1\] of two *\n", out)
    assert "━" in out


def test_every_release_of_the_demo_verifies(demo: Path, sudare: Sudare) -> None:
    ledgers = {"microdata": "members", "view": "members", "table": "people"}
    for kind in KINDS:
        ledger = ("--ledger", f"demo/{ledgers[kind]}.ledger") if kind in ledgers else ()

        assert sudare("verify", f"demo/{kind}", *ledger).code == 0


def test_the_made_up_tables_fit_their_schemas(demo: Path, sudare: Sudare) -> None:
    checked = [
        sudare("schema", "check", "demo/members.csv", "--schema", "demo/members.toml"),
        sudare("schema", "check", "demo/people.csv", "--schema", "demo/people.toml", "--count", "people"),
    ]

    assert [done.code for done in checked] == [0, 0]


def test_a_second_demo_in_the_same_place_is_refused(demo: Path, sudare: Sudare) -> None:
    again = sudare("demo", "--out", "demo")

    assert again.code == 1
    assert "exists" in again.err


def test_every_page_is_whole_and_reaches_for_nothing(demo: Path) -> None:
    found = pages(demo)
    for path in found:
        page = path.read_text(encoding="utf-8")
        tags = Tags(page)

        assert tags.odd == tags.open == []
        assert not {"script", "link", "iframe", "img"} & set(tags.seen)
        assert not re.search(r"https?:|//[a-z]|@import|url\(| on[a-z]+=", without_pixels(page))
    assert len(found) == 2 * (1 + len(KINDS) + len(STEWARD))


def test_every_link_of_the_first_page_leads_somewhere(demo: Path) -> None:
    for index in INDEXES:
        addresses = re.findall(r'<a href="([^"]+)"', (demo / index).read_text(encoding="utf-8"))

        assert len(addresses) == 1 + 3 * len(KINDS) + len(STEWARD)
        assert all((demo / address).exists() for address in addresses)


def test_every_picture_has_words_for_those_who_cannot_see_it(demo: Path) -> None:
    for path in pages(demo):
        pictures = re.findall(r"<svg [^>]*>", path.read_text(encoding="utf-8"))

        assert pictures
        assert all(re.search(r'role="img" aria-label="[^"]+"', one) for one in pictures)


def test_both_languages_have_the_same_headings_pictures_and_tables(demo: Path) -> None:
    for english in (path for path in pages(demo) if not path.name.endswith(".ja.html")):
        japanese = english.with_name(english.name.replace(".html", ".ja.html"))
        first, second = (Tags(path.read_text(encoding="utf-8")).seen for path in (english, japanese))
        counted = [
            [tags.count(tag) for tag in ("h1", "h2", "h3", "svg", "table", "tr", "a")] for tags in (first, second)
        ]

        assert counted[0] == counted[1]


def test_a_japanese_page_is_japanese_throughout(demo: Path) -> None:
    page = (demo / "index.ja.html").read_text(encoding="utf-8")

    assert '<html lang="ja">' in page
    assert not re.search(r"\b(the|of|and|published|true|records|is)\b(?!\.)", words(page))


def test_a_page_of_the_demo_is_stamped_exactly_when_it_shows_the_truth(demo: Path) -> None:
    for path in pages(demo):
        page = path.read_text(encoding="utf-8")
        is_secret = path.parent.name == "steward" or path.name in INDEXES

        assert ('class="secret"' in page) == is_secret
        assert ('class="printed"' in page) == is_secret
        assert 'class="truth"' not in unstamped(page)


def test_what_is_not_stamped_does_not_depend_on_the_truth(demo: Path, tmp_path: Path) -> None:
    copy = tmp_path / "demo"
    shutil.copytree(demo, copy)
    releases = {kind: Release.load(copy / kind) for kind in KINDS}
    for private in ("members.csv", "people.csv"):
        (copy / private).unlink()  # the page is made of releases and what it is told
    with use_language("en"):
        one, other = (render_demo_page(copy, releases, comparisons(shift)) for shift in (0, 7))

    assert one != other
    assert unstamped(one) == unstamped(other)


def comparisons(shift: int) -> dict[str, TruthComparison]:
    """Made-up comparisons, all numbers of which change with `shift`."""
    place = np.array([100 + shift]), np.array([500 + shift])
    shared: dict[str, Any] = {
        "figures": tuple((f"measure {at}", str(1000 + at + shift)) for at in range(5)),
        "true": {"age": np.full(15, 4321.0 + shift)},
        "places": place,
    }
    risk = {"uniques": 0.01 * (1 + shift)}
    classes = {"before": risk, "after": risk, "left_out": 99 + shift, "total_loss": 0.1 + shift}
    return dict.fromkeys(("microdata", "view"), TruthComparison(**shared)) | {
        "table": RegionComparison(**shared, blocks={256: 55.0 + shift}),
        "kanon": ClassComparison(**shared, classes=classes),
    }


def test_the_commands_that_the_page_proposes_work(demo: Path, sudare: Sudare) -> None:
    page = (demo / "index.html").read_text(encoding="utf-8")
    lines = [html.unescape(one) for one in re.findall(r"<pre><code>(.*?)</code></pre>", page, flags=re.DOTALL)]
    proposed = [line for line in lines if "demo/" in line]
    ran = [sudare(*shlex.split(line)[1:]) for line in proposed]

    assert len(proposed) == 5
    assert [done.code for done in ran] == [0] * 5
    assert lines[-1].splitlines()[0] == "sudare schema init yours.csv -o yours.toml"


def test_no_certificate_of_the_demo_has_a_figure_without_a_sentence(demo: Path) -> None:
    for kind in KINDS:
        chapter = (demo / kind / "certificate.md").read_text(encoding="utf-8").split("\n## ")[3]

        assert chapter.startswith("What error to expect")
        assert re.findall(r"^- [a-z_]+: ", chapter, flags=re.MULTILINE) == []
        assert "- " in chapter
