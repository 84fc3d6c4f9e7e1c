"""The site has every page and no other, pages name what exists, and the two READMEs say the same."""

from __future__ import annotations

import pkgutil
import re
import runpy
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sudare
from sudare.cli.app import app
from sudare.releases import Certificate
from sudare.schema.file import json_schema
from tests.docs.pages import DOCS, ROOT, blocks, name_of, pages

READMES = (ROOT / "README.md", ROOT / "README.ja.md")
NAV = re.compile(r"^\s+(?:- .*?: |- )(\S+\.md|\S+/)$")
LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)")
ANCHOR = re.compile(r"\]\((?!https?:)([^)\s#]*)#([^)\s]+)\)")
HEADING = re.compile(r"^(#+) ", flags=re.MULTILINE)


def nav() -> list[str]:
    """What the nav of mkdocs.yml names. Read line by line: PyYAML comes with the extra [docs] alone."""
    lines = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].splitlines()
    return [found[1] for line in lines if (found := NAV.match(line))]


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_the_nav_names_pages_that_exist() -> None:
    missing = [page for page in nav() if not (DOCS / page).exists() and not (ROOT / page).exists()]

    assert missing == []


def test_every_page_is_in_the_nav_once() -> None:
    named = [page for page in nav() if (DOCS / page).is_file()]

    assert sorted(named) == [page.relative_to(DOCS).as_posix() for page in pages()]


@pytest.mark.parametrize("page", [*pages(), *READMES], ids=name_of)
def test_links_and_pictures_of_a_page_exist(page: Path) -> None:
    missing = [link for link in LINK.findall(prose(page)) if not (page.parent / link).exists()]

    assert missing == []


@pytest.mark.parametrize("page", [*pages(), *READMES], ids=name_of)
def test_a_link_into_a_page_names_a_heading_of_it(page: Path) -> None:
    links = [(page.parent / name if name else page, anchor) for name, anchor in ANCHOR.findall(prose(page))]
    missing = [anchor for goal, anchor in links if goal.suffix == ".md" and anchor not in anchors(goal)]

    assert missing == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page, one for each heading, as mkdocs.yml has them made: Japanese stays."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    plain = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", [page for page in pages() if page.name.endswith(".ja.md")], ids=name_of)
def test_the_two_pages_of_a_pair_lead_to_each_other(page: Path) -> None:
    english = page.with_name(page.name.replace(".ja.md", ".md"))

    assert (page.name in LINK.findall(prose(english)), english.name in LINK.findall(prose(page))) == (True, True)


def test_every_page_of_the_tutorial_and_of_how_to_stands_in_japanese_too() -> None:
    folders = [page for page in pages() if page.parent.name in ("tutorial", "how-to")]
    alone = [page for page in folders if not page.with_name(f"{page.name.partition('.')[0]}.ja.md").exists()]

    assert alone == []


def test_every_picture_is_drawn_and_shown() -> None:
    drawn = {picture.name for picture in (DOCS / "pictures").iterdir() if picture.suffix in (".svg", ".png")}
    links = [link for page in [*pages(), *READMES] for link in LINK.findall(prose(page))]
    shown = {Path(link).name for link in links if link.endswith((".svg", ".png"))}

    assert drawn == shown


def test_pictures_have_a_background_of_their_own() -> None:
    bare = [
        picture.name
        for picture in (DOCS / "pictures").glob("*.svg")
        if not re.search(r'<rect width="\d+" height="\d+" fill="#', picture.read_text(encoding="utf-8"))
    ]

    assert bare == []


def test_the_two_readmes_have_the_same_headings() -> None:
    english, japanese = (HEADING.findall(prose(page)) for page in READMES)

    assert english == japanese


def test_the_two_readmes_show_the_same_commands_and_pictures() -> None:
    english, japanese = ([*commands(page), *pictures(page)] for page in READMES)

    assert english == japanese


@pytest.mark.parametrize(
    "name",
    [
        "tutorial/first-release",
        "tutorial/five-ways",
        "index",
        "tutorial/in-the-browser",
        "explanations/promise",
        "explanations/threat-model",
        "explanations/known-limits",
        "explanations/ledger",
        "explanations/glossary",
        "explanations/what-verify-tells",
        "explanations/k-anonymity",
        "how-to/certificate",
        "how-to/verify",
        "how-to/report",
        "how-to/recipe",
        "how-to/choosing-epsilon",
        "how-to/choosing-k",
        "how-to/choose-a-method",
        "how-to/view-queries",
        "reference/schema-file",
        "reference/release-format",
        "explanations/which-method",
        "explanations/currencies",
        "how-to/shared-ledger",
        "how-to/spark",
        "explanations/spark-planning",
        "how-to/excel",
        "how-to/hospital",
        "how-to/desk",
        "how-to/persons",
        "how-to/hierarchies",
        "how-to/impossible",
        "how-to/aggregated",
        "how-to/shift-jis",
        "how-to/microdata",
        "how-to/view",
        "how-to/tables",
        "how-to/mesh",
        "how-to/k-anonymity",
        "how-to/keys",
        "how-to/pipeline",
        "how-to/municipalities",
    ],
)
def test_a_page_has_the_same_parts_in_both_languages(name: str) -> None:
    english, japanese = (HEADING.findall(prose(DOCS / f"{name}{end}")) for end in (".md", ".ja.md"))

    assert english == japanese


@pytest.mark.parametrize(
    "name",
    [
        "tutorial/five-ways",
        "how-to/recipe",
        "how-to/view-queries",
        "reference/schema-file",
        "reference/release-format",
        "explanations/k-anonymity",
        "how-to/spark",
        "how-to/persons",
        "how-to/impossible",
        "how-to/aggregated",
        "how-to/shift-jis",
        "how-to/microdata",
        "how-to/view",
        "how-to/tables",
        "how-to/k-anonymity",
    ],
)
def test_a_page_runs_the_same_code_in_both_languages(name: str) -> None:
    english, japanese = (code(DOCS / f"{name}{end}") for end in (".md", ".ja.md"))

    assert english == japanese


def test_the_glossary_names_the_same_terms_in_both_languages() -> None:
    row = re.compile(r"^\| (.+?) \| (.+?) \| ", flags=re.MULTILINE)
    english, japanese = (
        row.findall((DOCS / "explanations" / name).read_text(encoding="utf-8"))
        for name in ("glossary.md", "glossary.ja.md")
    )

    assert len(english) > 80
    assert english == [(term, translated) for translated, term in japanese]


@pytest.mark.parametrize(
    ("name", "texts"), [("how-to/hierarchies", 1), ("how-to/mesh", 1), ("how-to/keys", 2), ("how-to/pipeline", 1)]
)
def test_a_page_runs_the_same_code_but_for_texts_in_its_language(name: str, texts: int) -> None:
    english, japanese = (code(DOCS / f"{name}{end}") for end in (".md", ".ja.md"))
    differing = [lines for lines in zip(english, japanese, strict=True) if lines[0] != lines[1]]

    assert len(differing) == texts


def test_which_method_tells_the_same_figures_in_both_languages() -> None:
    figures = re.compile(r"\| ([\d.,]+) \| ([\d.,]+) \| ([\d.,]+) \|$", flags=re.MULTILINE)
    english, japanese = (
        figures.findall((DOCS / "explanations" / name).read_text(encoding="utf-8"))
        for name in ("which-method.md", "which-method.ja.md")
    )

    assert len(english) == 9
    assert english == japanese


def commands(page: Path) -> Iterator[str]:
    """The code of a page without comments."""
    for block in blocks(page):
        yield from (line.partition("  #")[0].strip() for line in block.text.splitlines())


def code(page: Path) -> list[str]:
    """What a page runs, without comments and the name of the ledger."""
    lines = (line for block in blocks(page) if block.language in ("sh", "python") for line in block.text.splitlines())
    return [re.sub(r"  #.*|--name .*", "", line).strip() for line in lines]


def pictures(page: Path) -> list[str]:
    """The pictures that a page shows."""
    return [link for link in LINK.findall(prose(page)) if link.endswith(".svg")]


@pytest.mark.parametrize("name", ["schema-file.md", "schema-file.ja.md"])
def test_the_reference_names_every_key_of_a_schema_file(name: str) -> None:
    page = (DOCS / "reference" / name).read_text(encoding="utf-8")
    absent = sorted({key for key in keys(json_schema()) if not re.search(rf"`{key}`|\b{key} =|\[{key}\]", page)})

    assert absent == []


def keys(described: Any) -> Iterator[str]:
    """Every key that a JSON schema knows."""
    if isinstance(described, dict):
        yield from described.get("properties", {})
        for value in described.values():
            yield from keys(value)
    elif isinstance(described, list):
        for value in described:
            yield from keys(value)


@pytest.mark.parametrize("name", ["release-format.md", "release-format.ja.md"])
def test_the_reference_names_every_field_of_a_certificate(name: str) -> None:
    page = (DOCS / "reference" / name).read_text(encoding="utf-8")
    absent = [field.name for field in fields(Certificate) if f"| `{field.name}` |" not in page]

    assert absent == []


def test_the_reference_describes_every_public_name() -> None:
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    names = [name for name in dir(sudare) if not isinstance(getattr(sudare, name), ModuleType)]
    absent = [name for name in names if not re.search(rf"^::: sudare\..*\b{name}$", page, flags=re.MULTILINE)]

    assert [name for name in absent if not hasattr(sudare.errors, name)] == []  # these come with their module


def test_pages_teach_public_names_and_no_deep_path() -> None:
    deep = re.compile(r"^\s*(?:>>> )?(?:from sudare\.\S+ import|import sudare\.)", flags=re.MULTILINE)
    teaching = [page for page in [*pages(), *READMES] if page.parent.name != "reference"]

    assert [name_of(page) for page in teaching if deep.search(page.read_text(encoding="utf-8"))] == []


def test_the_reference_of_the_command_line_is_written_from_every_command() -> None:
    described = runpy.run_path(str(DOCS / "site" / "commands.py"))["described"]()
    page = (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")

    assert "<!-- every command -->" in page
    assert all(f"## `sudare {name}`" in described for name in app.places)
    assert "### `sudare publish microdata`" in described


def test_the_pictures_and_the_site_need_no_extra_that_the_makefile_does_not_install() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    assert {"docs", "pictures"} <= set(extras)
    assert ".[docs,pictures]" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_names_whose_docstrings_a_page_takes_exist(page: Path) -> None:
    assert [name for name in _taken_names(page) if not _can_be_found(name)] == []


def test_no_name_of_the_reference_stands_twice() -> None:
    pages_of_names = sorted((DOCS / "reference").glob("*.md"))
    names = [name for page in pages_of_names for name in _taken_names(page)]

    assert sorted(name for name in set(names) if names.count(name) > 1 or name.rpartition(".")[0] in names) == []


def _taken_names(page: Path) -> list[str]:
    return re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)


def _can_be_found(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
