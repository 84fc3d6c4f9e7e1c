"""Every help page of the command line, in both languages: nothing left in English, nothing wider than a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from sudare.cli import main
from sudare.cli.help import width, wrapped

WALK = """
import click
from sudare.cli.app import app

def walk(command, context):
    print("##### " + context.command_path)
    print(command.get_help(context))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            walk(child, child.context_class(child, info_name=name, parent=context))

walk(app, app.context_class(app, info_name="sudare"))
"""
OF_CLICK = ("Usage:", "Options:", "Commands:", "[OPTIONS]", "[ARGS]", "[required]", "[default", "Show this message",
            " TEXT", " PATH", " INTEGER", " FLOAT", "x>=", "x<=")  # fmt: skip
JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def pages(lang: str) -> dict[str, str]:
    """Every help page by its command, at 80 columns."""
    told = subprocess.run(
        [sys.executable, "-c", WALK],
        env={**os.environ, "SUDARE_LANG": lang, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    parts = told.split("##### ")[1:]
    return {name: page for name, _, page in (part.partition("\n") for part in parts)}


def listed(page: str) -> str:
    """A page without its usage line and first sentences: arguments, options, commands."""
    return re.split(r"^\S+:$", page, maxsplit=1, flags=re.MULTILINE)[1] + "\n"


@pytest.fixture(scope="module")
def japanese() -> dict[str, str]:
    """The Japanese pages."""
    return pages("ja")


@pytest.fixture(scope="module")
def english() -> dict[str, str]:
    """The English pages."""
    return pages("en")


def test_no_word_of_click_stays_english_on_a_japanese_page(japanese: dict[str, str]) -> None:
    left = [f"{name}: {word}" for name, page in japanese.items() for word in OF_CLICK if word in page]

    assert left == []


def test_every_row_of_a_japanese_page_is_in_japanese(japanese: dict[str, str]) -> None:
    rows = re.compile(r"^  (\S.*?)(?:  +|\n {20,})(\S.*)$", flags=re.MULTILINE)
    english = [f"{name}: {row[0]}" for name, page in japanese.items() for row in rows.finditer(page)
               if not JAPANESE.search(row[2])]  # fmt: skip

    assert english == []


def test_every_argument_and_option_says_what_it_is(english: dict[str, str]) -> None:
    alone = re.compile(r"^  \S(?:(?!  ).)*\n(?! {8})", flags=re.MULTILINE)
    bare = [f"{name}: {row}" for name, page in english.items() for row in alone.findall(listed(page))]

    assert bare == []


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_no_line_of_help_is_wider_than_a_terminal(lang: str, request: pytest.FixtureRequest) -> None:
    told: dict[str, str] = request.getfixturevalue({"en": "english", "ja": "japanese"}[lang])
    wide = [line for page in told.values() for line in page.splitlines() if width(line) > 80]

    assert wide == []


def test_both_languages_show_the_same_commands_and_flags(english: dict[str, str], japanese: dict[str, str]) -> None:
    flags = re.compile(r"^  (?:-\w, )?(--?[\w-]+)", flags=re.MULTILINE)

    assert {name: flags.findall(listed(page)) for name, page in english.items()} == {
        name: flags.findall(listed(page)) for name, page in japanese.items()
    }


WRONG_CALLS = [
    (["publish", "microdata", "a.csv", "--method", "magic"], "auto, tree, projection"),
    (["publish", "microdata", "a.csv", "--seed-for-tests", "x"], "整数"),
    (["publish", "microdata"], "DATA"),
    (["publish", "microdata", "a.csv", "--epsilon"], "--epsilon"),
    (["publish", "microdata", "a.csv", "--epsilom", "1"], "--epsilon"),
    (["publish", "magic"], "magic"),
    (["ledger", "show", "a", "b"], "b"),
    (["locate", "draw", "--latitude", "north"], "数"),
]
SAID_BY_CLICK = re.compile(r"No such|Invalid|Missing|is not|requires|unexpected|Did you|Error|Usage")


@pytest.mark.parametrize(("call", "named"), WRONG_CALLS)
def test_a_wrong_call_is_told_in_one_japanese_line(
    call: list[str], named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUDARE_LANG", "ja")

    code, told = main(call), capsys.readouterr().err

    assert code == 2
    assert told.count("\n") == 1
    assert named in told
    assert JAPANESE.search(told)
    assert not SAID_BY_CLICK.search(told)


def test_lines_of_japanese_neither_begin_with_a_full_stop_nor_end_with_an_open_bracket() -> None:
    text = "台帳は保護対象の表一つの予算を管理します（支出はすべて正確に記録され、取り消されません）。" * 3

    lines = [line for columns in range(6, 60) for line in wrapped(text, columns)]

    assert not [line for line in lines if line[0] in "、。）" or line[-1] == "（"]


def test_wrapping_loses_no_word() -> None:
    text = "what should come nearest to the truth: single cells, 部分和（regions）, or both  [default: regions]"

    for columns in range(4, 120):
        assert "".join(wrapped(text, columns)).replace(" ", "") == text.replace(" ", "")
