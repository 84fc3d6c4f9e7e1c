"""The site has every page and no other, pages name what exists, and the two READMEs say the same."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sudare.releases import Certificate
from sudare.schema.file import json_schema
from tests.docs.pages import DOCS, ROOT, blocks, name_of, pages

READMES = (ROOT / "README.md", ROOT / "README.ja.md")
NAV = re.compile(r"^\s+(?:- .*?: |- )(\S+\.md|\S+/)$")
LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)")
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


def test_every_picture_is_drawn_and_shown() -> None:
    drawn = {picture.name for picture in (DOCS / "pictures").glob("*.svg")}
    shown = {
        Path(link).name for page in [*pages(), *READMES] for link in LINK.findall(prose(page)) if link.endswith(".svg")
    }

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


def test_the_two_tutorials_have_the_same_steps() -> None:
    english, japanese = (
        HEADING.findall(prose(DOCS / "tutorial" / name)) for name in ("first-release.md", "first-release.ja.md")
    )

    assert english == japanese


def commands(page: Path) -> Iterator[str]:
    """The code of a page without comments."""
    for block in blocks(page):
        yield from (line.partition("  #")[0].strip() for line in block.text.splitlines())


def pictures(page: Path) -> list[str]:
    """The pictures that a page shows."""
    return [link for link in LINK.findall(prose(page)) if link.endswith(".svg")]


def test_the_reference_names_every_key_of_a_schema_file() -> None:
    page = (DOCS / "reference" / "schema-file.md").read_text(encoding="utf-8")
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


def test_the_reference_names_every_field_of_a_certificate() -> None:
    page = (DOCS / "reference" / "release-format.md").read_text(encoding="utf-8")
    absent = [field.name for field in fields(Certificate) if f"| `{field.name}` |" not in page]

    assert absent == []


def test_the_pictures_and_the_site_need_no_extra_that_the_makefile_does_not_install() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    assert {"docs", "pictures"} <= set(extras)
    assert ".[docs,pictures]" in (ROOT / "Makefile").read_text(encoding="utf-8")
