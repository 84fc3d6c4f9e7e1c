"""Every block of code on a page runs, and what it shows as output is what is printed; `...` stands for what changes."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ELSEWHERE, PEOPLE, Block, all_pages, blocks, name_of
from tests.servers import PASSWORD
from tests.warm import warm_command


def shown(page: Path) -> list[Block]:
    """The blocks of output on a page: `text` right after `sh`."""
    found = blocks(page)
    return [after for before, after in itertools.pairwise(found) if (before.language, after.language) == ("sh", "text")]


def matches(expected: str, printed: str) -> bool:
    """Compare line by line without trailing blanks; `...` is part of a line, or any number of lines by itself."""
    lines = [line.rstrip() for line in expected.rstrip("\n").split("\n")]
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line == "..." else r"[^\n]*?".join(map(re.escape, line.split("..."))) + r"\n"
        for line in lines
    )
    told = "\n".join(line.rstrip() for line in printed.rstrip("\n").split("\n")) + "\n"
    return re.fullmatch(pattern, told) is not None


SERVER = "office@db.example/census"  # the server and the database of pages; tests run them on one of their own


def printed_by(block: Block) -> str:
    """Run a block of shell and give all that it prints, errors included, in the order of printing."""
    script = "\n".join(line for line in block.text.splitlines() if not line.startswith(("make ", ". .venv/")))
    server = os.environ.get("SUDARE_TEST_SERVER", SERVER)
    command = ["bash", "-euo", "pipefail", "-c", script.replace(SERVER, server)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return done.stdout.replace(server, SERVER)


def differences(page: Path) -> list[str]:
    """Run a page from top to bottom and list the blocks of output that are not what was printed."""
    wrong, namespace, printed = [], {"__name__": "page"}, ""
    wanted = shown(page)
    for block in blocks(page):
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block.text, name_of(page), "exec"), namespace)
        elif block.language == "sh":
            printed = printed_by(block)
        elif block in wanted and not matches(block.text, printed):
            wrong.append(f"{name_of(page)}, line {block.line} shows\n{block.text}\nbut this was printed\n{printed}")
    return wrong


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a `sudare` that starts quickly."""
    with warm_command(tmp_path_factory.mktemp("warm")) as place:
        yield place


@pytest.fixture
def steward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: Path) -> Path:
    """An empty directory with a table of made-up people, and the command line on the path."""
    monkeypatch.chdir(tmp_path)
    for file in (Path("people.csv"), Path("demo", "members.csv")):
        file.parent.mkdir(exist_ok=True)
        file.write_text(PEOPLE, encoding="utf-8")
    monkeypatch.setenv("PATH", os.pathsep.join([str(warm), str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in all_pages()
        if page not in ELSEWHERE and {"sh", "python"} & {block.language for block in blocks(page)}
    ],
    ids=name_of,
)
def test_a_page_runs_and_shows_what_its_commands_print(
    page: Path, steward: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("SUDARE_LANG", "ja" if page.name.endswith(".ja.md") else "en")
    if any(SERVER in block.text for block in blocks(page)):
        server = request.getfixturevalue("postgres_server")
        server.execute("DROP DATABASE IF EXISTS census", "CREATE DATABASE census")
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        monkeypatch.setenv("SUDARE_TEST_SERVER", f"office@127.0.0.1:{server.port}/census")

    assert "\n".join(differences(page)) == ""


def test_a_wrong_number_in_shown_output_is_found(steward: Path) -> None:
    page = steward / "page.md"
    page.write_text("```sh\necho 3 of 4 cells\n```\n\n```text\n3 of 5 cells\n```\n", encoding="utf-8")

    assert not matches("3 of 5 cells\n", printed_by(blocks(page)[0]))


@pytest.mark.parametrize(
    ("expected", "printed"),
    [("a ... c\n", "a b c\n"), ("a\n...\nd\n", "a\nb\nc\nd\n"), ("a\n...\nd\n", "a\nd\n"), ("a\n", "a   \n\n")],
)
def test_dots_stand_for_part_of_a_line_or_for_lines(expected: str, printed: str) -> None:
    assert matches(expected, printed)
