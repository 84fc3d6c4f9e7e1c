"""Every block of code in README and docs is run: Python in one namespace a page, shell in the same directory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

PEOPLE = "id,sex,age,prefecture\n" + "\n".join(
    f"p{k},{'FM'[k % 2]},{(7 * k) % 100},{('東京都', '大阪府', '北海道')[k % 3]}" for k in range(2000)
)


def run_shell(example: Example) -> None:
    """Run a block of `sh` as bash would; `make` is left out, since it runs these tests."""
    lines = [line for line in example.parsed.splitlines() if not line.startswith("make ")]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"exit {done.returncode}\n{done.stdout}{done.stderr}")


def enter(namespace: dict[str, object]) -> None:
    """A page starts in an empty directory with a table of made-up people."""
    namespace["_directory"] = place = tempfile.TemporaryDirectory()
    namespace["_before"] = (os.getcwd(), os.environ["PATH"], os.environ.get("SUDARE_LANG"))
    os.chdir(place.name)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["SUDARE_LANG"] = "en"
    Path("people.csv").write_text(PEOPLE + "\n", encoding="utf-8")


def leave(namespace: dict[str, object]) -> None:
    """Back to where the tests were."""
    directory, path, lang = namespace["_before"]  # type: ignore[misc]
    os.chdir(directory)
    os.environ["PATH"] = path
    os.environ.pop("SUDARE_LANG")
    if lang is not None:
        os.environ["SUDARE_LANG"] = lang
    namespace["_directory"].cleanup()  # type: ignore[attr-defined]


pages = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser(language="sh", evaluator=run_shell), SkipParser()],
    patterns=["*.md", "**/*.md"],
    excludes=["demo/**", "site/**", ".venv/**"],
    setup=enter,
    teardown=leave,
)

pytest_collect_file = pages.pytest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Blocks of one page run in one worker and in order, since each stands on the last."""
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
