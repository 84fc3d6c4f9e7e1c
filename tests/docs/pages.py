"""The pages of README and docs as these tests see them: text and fenced blocks, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PEOPLE = "id,sex,age,prefecture\n" + "".join(
    f"p{k},{'FM'[k % 2]},{(7 * k) % 100},{('東京都', '大阪府', '北海道')[k % 3]}\n" for k in range(2000)
)  # made up; stands as people.csv where a page begins
FENCE = re.compile(r"^```([a-z]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


# Pages that need a cluster: tests/engines/test_spark.py runs them.
ELSEWHERE = {DOCS / "how-to" / name for name in ("spark.md", "spark.ja.md")}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line it begins on."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Find the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in FENCE.finditer(text)]


def pages() -> list[Path]:
    """List the pages of docs/, sorted."""
    return sorted(DOCS.rglob("*.md"))


def all_pages() -> list[Path]:
    """List every page whose code must run: docs, READMEs, proofs, papers."""
    return [
        *pages(),
        *sorted(ROOT.glob("*.md")),
        *sorted(ROOT.glob("proofs/*.md")),
        *sorted(ROOT.glob("papers/*/*.md")),
    ]


def name_of(page: Path) -> str:
    """Name a page in the name of a test."""
    return page.relative_to(ROOT).as_posix()
