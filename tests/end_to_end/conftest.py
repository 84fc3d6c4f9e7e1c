"""A small private table, its schema and the command line as a steward calls it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import recipe_texts
from tests.processes import run

SCHEMA = """\
[sudare]
schema = 1
name = "members"

[unit]
kind = "row"

[[attribute]]
name = "item"
kind = "category"
values = ["h1", "h2", "h3"]

[[attribute]]
name = "age"
kind = "number"
bins = { start = 0, stop = 100, width = 20 }
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with members.csv and members.toml."""
    rows = [f"h{1 + k % 3},{k % 100}" for k in range(3000)]
    (tmp_path / "members.csv").write_text("item,age\n" + "\n".join(rows) + "\n")
    (tmp_path / "members.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_LANG", "en")
    return tmp_path


@pytest.fixture
def sudare(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the command line in this process; `process=True` takes a real one."""

    def call(*words: str, process: bool = False) -> Ran:
        if process:
            done = run([sys.executable, "-m", "sudare", *words])
            return Ran(done.returncode, done.stdout, done.stderr)
        from sudare.cli import main

        capfd.readouterr()
        code = main(list(words))
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return call


@pytest.fixture
def recipe(place: Path) -> Callable[[str], str]:
    """Write a recipe beside the table, and give its name."""
    (place / "members.toml").write_text(recipe_texts.SCHEMA)

    def write(text: str) -> str:
        (place / "recipe.toml").write_text(text, encoding="utf-8")
        return "recipe.toml"

    return write
