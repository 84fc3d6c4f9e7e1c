"""`sudare choose`: what it prints can be run; on a terminal it asks, elsewhere it says which flags are needed."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sudare.demo.data import write_coast

NEEDS = ("records", "counts", "region-sums", "queries", "sample")


def run_all(sudare: Callable[..., object], lines: list[str]) -> list[str]:
    """Run commands as they were printed, and give what the failing ones said."""
    said = []
    for line in lines:
        program, *words = shlex.split(line)
        done = sudare(*words)
        if program != "sudare" or done.code:
            said.append(f"{line}: {done.err}")
    return said


@pytest.mark.parametrize("need", NEEDS)
@pytest.mark.parametrize("more", [(), ("--hide-number", "yes")])
def test_the_commands_work_as_printed(
    place: Path, sudare: Callable[..., object], need: str, more: tuple[str, ...]
) -> None:
    told = sudare("choose", "members.toml", "--need", need, "--rows", "3000", *more)
    lines = [line.strip() for line in told.out.partition("next:\n")[2].splitlines()]

    assert told.code == 0, told.err
    assert len(lines) >= 5
    assert run_all(sudare, lines) == []


def test_the_commands_for_true_rows_work_as_printed(place: Path, sudare: Callable[..., object]) -> None:
    told = json.loads(sudare("choose", "members.toml", "--need", "records", "--truthful", "yes", "--json").out)

    assert told["recommended"] == {"publish": "kanon", "k": "5", "recoding": "mondrian", "quasi": ["item", "age"]}
    assert run_all(sudare, told["commands"]) == []


def test_the_commands_for_places_work_as_printed(place: Path, sudare: Callable[..., object]) -> None:
    write_coast(place, rows=8, columns=8)
    told = json.loads(sudare("choose", "coast.toml", "--json").out)

    assert told["recommended"]["publish"] == "location"
    assert run_all(sudare, told["commands"]) == []


@pytest.mark.parametrize("words", [("--need", "queries"), ("--need", "records", "--truthful", "yes")])
def test_a_starter_recipe_runs_as_written_and_is_never_overwritten(
    place: Path, sudare: Callable[..., object], words: tuple[str, ...]
) -> None:
    told = sudare("choose", "members.toml", *words, "--rows", "3000", "--recipe", "recipe.toml")
    again = sudare("choose", "members.toml", *words, "--recipe", "recipe.toml")
    text = (place / "recipe.toml").read_text()
    planned = sudare("run", "recipe.toml", "--dry-run")
    done = sudare("run", "recipe.toml")
    head, _, commented = text.partition("\n# if ")
    (place / "both.toml").write_text(head + commented.partition(":\n")[2].removeprefix("# ").replace("\n# ", "\n"))

    assert told.code == planned.code == done.code == 0, done.err
    assert "recipe.toml written" in told.out
    assert again.code == 1
    assert "exists" in again.err
    assert sudare("run", "both.toml", "--dry-run").out.count("(to do)") == 1


def test_choosing_opens_no_data(place: Path, sudare: Callable[..., object]) -> None:
    (place / "members.csv").unlink()

    assert sudare("choose", "members.toml", "--need", "counts", "--rows", "3000").code == 0


def test_without_a_terminal_and_without_flags_one_line_says_which_flags(
    place: Path, sudare: Callable[..., object]
) -> None:
    refused = sudare("choose", "members.toml", process=True)

    assert refused.code == 2
    assert "--need" in refused.err
    assert "records, counts, region-sums" in refused.err
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("absent.toml", "--need", "counts"), 1, "absent.toml"),
        (("members.toml", "--need", "everything"), 2, "--need"),
        (("members.toml", "--need", "counts", "--rows", "0"), 1, "rows (0)"),
        (("members.toml", "--need", "counts", "--rows", "many"), 2, "--rows"),
        (("members.toml", "--need", "counts", "--epsilons", "1,x"), 1, "epsilon (x)"),
        (("members.toml", "--need", "records", "--truthful", "yes", "--epsilons", "abc"), 1, "epsilon (abc)"),
        (
            ("members.toml", "--need", "records", "--truthful", "yes", "--epsilons", "0", "--recipe", "r"),
            1,
            "epsilon (0)",
        ),
        (("members.toml", "--need", "places"), 1, "map file"),
        (("members.csv", "--need", "counts"), 1, "members.csv"),
    ],
)
def test_wrong_answers_are_told_in_one_line(
    place: Path, sudare: Callable[..., object], words: tuple[str, ...], code: int, part: str
) -> None:
    refused = sudare("choose", *words)

    assert refused.code == code
    assert part in refused.err
    assert refused.err.count("\n") == 1


def asked(place: Path, answers: str, *words: str, lang: str = "en") -> str:
    """Run the command on a terminal of its own, with answers typed ahead, and give what the screen showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sudare", "choose", *words],
        cwd=place,
        env={**os.environ, "SUDARE_LANG": lang, "TERM": "dumb", "COLUMNS": "200"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, answers.encode())
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)

    assert process.wait() == 0, shown
    return shown.decode()


def test_on_a_terminal_it_asks_what_no_flag_answers(place: Path) -> None:
    shown = asked(place, "perhaps\n1\nno\nabout 3\n0\n1000000000001\n3,000\ny\n\n", "members.toml")

    assert "What do people need?" in shown
    assert "one of records, counts" in shown
    assert shown.count("type a whole number between 1 and 1,000,000,000,000, or press Enter") == 3
    assert "recommended: microdata" in shown
    assert "warning: a person may have several rows" in shown


def test_on_a_terminal_flags_are_not_asked_for_again(place: Path) -> None:
    words = ("members.toml", "--need", "counts", "--rows", "3000", "--people-may-repeat", "no", "--hide-number", "no")
    shown = asked(place, "", *words)

    assert "?" not in shown
    assert "workload cells" in shown


def test_a_japanese_reader_is_asked_and_told_in_japanese(place: Path) -> None:
    shown = asked(place, "2\n3000\nn\nn\n", "members.toml", lang="ja")

    assert "利用者は何を必要としていますか。" in shown
    assert "お勧め: table" in shown
    assert "次に実行するコマンド" in shown
    assert "off by" not in shown


def test_both_languages_say_the_same(
    place: Path, sudare: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {}
    for lang in ("en", "ja"):
        monkeypatch.setenv("SUDARE_LANG", lang)
        told[lang] = json.loads(sudare("choose", "members.toml", "--need", "records", "--rows", "90", "--json").out)
    english, japanese = told["en"], told["ja"]
    spoken = ("why", "lost", "notes", "runner_up_if", "expected")

    assert english.keys() == japanese.keys()
    assert all(len(english[key]) == len(japanese[key]) for key in ("why", "lost", "notes", "expected"))
    assert {k: v for k, v in english.items() if k not in spoken} == {
        k: v for k, v in japanese.items() if k not in spoken
    }
    assert not any(english[key] == japanese[key] for key in spoken)
