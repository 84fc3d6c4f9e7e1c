"""Help pages are decided when they are shown: every page in every language, in one process, in two threads at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sudare import text as room
from sudare.cli.app import LazyGroup, app
from sudare.cli.help import Worded
from sudare.text import Text, add_language, languages, use_language

Page = tuple[str, click.Command, click.Context]


def pages(command: click.Command = app, name: str = "sudare", parent: click.Context | None = None) -> Iterator[Page]:
    """Every command of the tree, with the context that its help page takes."""
    context = command.context_class(command, info_name=name, parent=parent)
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from pages(found, child, context)


def shown() -> dict[str, str]:
    """Every help page as the current language has it."""
    return {path: command.get_help(context) for path, command, context in pages()}


def test_one_process_shows_every_help_page_in_english_then_in_japanese_then_in_english() -> None:
    with use_language("en"):
        first = shown()
    with use_language("ja"):
        japanese = shown()
    with use_language("en"):
        again = shown()

    assert len(first) > 25
    assert again == first
    assert all(page.startswith("Usage: ") and "show this help" in page for page in first.values())
    assert all(page.startswith("使い方: ") and "この説明を表示します" in page for page in japanese.values())


def test_two_threads_show_help_in_two_languages_at_once() -> None:
    both_inside = threading.Barrier(2)
    found: dict[str, list[dict[str, str]]] = {"en": [], "ja": []}

    def look(code: str) -> None:
        with use_language(code):
            for _ in range(3):
                both_inside.wait()
                found[code].append(shown())

    threads = [threading.Thread(target=look, args=(code,)) for code in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for code, seen in found.items():
        with use_language(code):
            assert seen == [shown()] * 3


def test_the_words_of_every_command_and_option_are_texts_with_a_japanese() -> None:
    known = languages()["ja"].texts
    bare = []
    for path, command, _ in pages():
        assert isinstance(command, Worded), path
        words = {path: command.words}
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        words |= {f"{path} {one.opts[0]}": getattr(one, "words", one.help) for one in options}
        if isinstance(command, LazyGroup):
            words |= {f"{path} {name}": said for name, said in command.describe_commands().items()}
        bare += [place for place, said in words.items() if not isinstance(said, Text) or said.template not in known]

    assert bare == []


def test_a_third_language_shows_its_help_pages_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_ADDED", {})
    (tmp_path / "language.toml").write_text('name = "Deutsch"', encoding="utf-8")
    (tmp_path / "help.toml").write_text('"Usage: " = "Aufruf: "\n"Options" = "Schalter"\n', encoding="utf-8")
    add_language("de", tmp_path)

    with use_language("de"):
        page = shown()["sudare ledger create"]

    assert page.startswith("Aufruf: sudare ledger create")
    assert "Schalter:" in page
    assert "show this help" in page
