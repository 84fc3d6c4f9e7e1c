"""A text is a value: rendered when shown, for whoever looks, in any language that is a folder."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import errno
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sudare import text as room
from sudare.cli import main
from sudare.errors import ParameterError, SchemaError
from sudare.text import (
    Text,
    add_language,
    current_language,
    describe_refusal,
    find_language,
    join_items,
    join_sentences,
    language_problems,
    languages,
    missing_texts,
    say,
    text,
    use_language,
)

ROW = text("a row")
PERSON = text("a person (column {column}, at most {rows} rows)", column="id", rows=5)


@pytest.fixture
def klingon(tmp_path: Path) -> Path:
    """A folder with a third language: a name, a mark, three texts."""
    folder = tmp_path / "tlh"
    folder.mkdir()
    (folder / "language.toml").write_text('name = "tlhIngan Hol"\nbetween_items = " je "\n', encoding="utf-8")
    (folder / "words.toml").write_text(
        '"a row" = "tlhegh"\n"a person (column {column}, at most {rows} rows)" = "nuv ({rows}: {column})"\n',
        encoding="utf-8",
    )
    return folder


@pytest.fixture(autouse=True)
def only_our_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins in English, with the built-in languages alone."""
    monkeypatch.setenv("SUDARE_LANG", "en")
    monkeypatch.delenv("SUDARE_TEXTS", raising=False)
    monkeypatch.setattr(room, "_ADDED", {})


# --- the value ----------------------------------------------------------------------------------------------------


def test_a_text_is_rendered_when_it_is_shown_and_not_when_it_is_made() -> None:
    with use_language("ja"):
        made = text("a row")

    assert str(made) == f"{made}" == "a row"
    with use_language("ja"):
        assert str(made) == f"{made}" == "1 行"


def test_a_text_is_rendered_in_a_language_that_is_named() -> None:
    assert PERSON.render("en") == "a person (column id, at most 5 rows)"
    assert PERSON.render("ja") == "1 人（列 id、最大 5 行）"


def test_a_text_inside_a_text_takes_the_language_of_the_outer_one() -> None:
    line = text("Unit of privacy: {unit}.", unit=PERSON)

    assert line.render("en") == "Unit of privacy: a person (column id, at most 5 rows)."
    assert PERSON.render("ja") in line.render("ja")


def test_a_text_without_values_is_shown_as_it_stands() -> None:
    assert str(text("write { start = 0 }")) == "write { start = 0 }"


def test_values_are_formatted_as_the_template_says_and_braces_in_them_are_left_alone() -> None:
    assert str(text("{share:.1%} of {what}", share=0.1234, what="{rows}")) == "12.3% of {rows}"
    assert f"{ROW:>8}" == "   a row"


def test_a_template_that_asks_for_what_it_is_not_given_is_a_fault() -> None:
    with pytest.raises(KeyError):
        str(text("{n} of {rows}", n=1))


def test_texts_are_equal_by_template_and_values() -> None:
    assert text("a row") == ROW
    assert text("{n} rows", n=1) != text("{n} rows", n=2)
    assert len({text("{n} rows", n=1), text("{n} rows", n=1), ROW}) == 2
    assert ROW != "a row"


def test_a_text_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        PERSON._template = "another"
    with pytest.raises(TypeError):
        PERSON.values["rows"] = 6  # type: ignore[index]
    with pytest.raises(AttributeError):
        PERSON.note = "new"  # type: ignore[attr-defined]


def test_a_text_does_not_follow_what_it_was_made_from() -> None:
    values = {"n": 1}
    made = Text("{n} rows", values)

    values["n"] = 2

    assert str(made) == "1 rows"


def test_a_text_survives_pickling_copying_and_the_dict_of_a_dataclass() -> None:
    line = join_sentences([text("Unit of privacy: {unit}.", unit=PERSON), ROW])

    again = pickle.loads(pickle.dumps(line))

    assert again == line == copy.deepcopy(line)
    assert again.render("ja") == line.render("ja")
    assert dataclasses.asdict(_Holder(line)) == {"line": line}


@dataclasses.dataclass
class _Holder:
    line: Text


def test_a_text_is_never_taken_for_words_by_json() -> None:
    with pytest.raises(TypeError):
        json.dumps({"line": ROW})


def test_the_representation_of_a_text_is_how_it_is_written() -> None:
    assert repr(PERSON) == "text('a person (column {column}, at most {rows} rows)', column='id', rows=5)"


def test_sentences_and_items_are_joined_by_the_marks_of_the_language() -> None:
    parts = [ROW, PERSON, "{as it is}"]

    assert join_sentences(parts).render("en") == "a row a person (column id, at most 5 rows) {as it is}"
    assert join_sentences(parts).render("ja") == "1 行1 人（列 id、最大 5 行）{as it is}"
    assert join_items(parts).render("en") == "a row, a person (column id, at most 5 rows), {as it is}"
    assert join_items(parts).render("ja") == "1 行、1 人（列 id、最大 5 行）、{as it is}"


@pytest.mark.parametrize("join", [join_sentences, join_items])
def test_nothing_joined_is_an_empty_text(join: object) -> None:
    nothing = join([])  # type: ignore[operator]

    assert str(nothing) == ""
    assert not nothing
    assert str(join([ROW])) == "a row"  # type: ignore[operator]


def test_texts_are_put_behind_one_another_with_a_plus() -> None:
    line = "- " + ROW + ": " + PERSON

    assert str(line) == "- a row: a person (column id, at most 5 rows)"
    assert line.render("ja").startswith("- 1 行: ")


# --- whoever looks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"SUDARE_LANG": "ja"}, "ja"),
        ({"SUDARE_LANG": "en", "LANG": "ja_JP.UTF-8"}, "en"),
        ({"SUDARE_LANG": "", "LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LC_ALL": "C", "LANG": "ja_JP.UTF-8"}, "en"),
        ({"LC_MESSAGES": "ja_JP.eucJP", "LANG": "C.UTF-8"}, "ja"),
        ({"SUDARE_LANG": "xx"}, "en"),
        ({}, "en"),
    ],
)
def test_the_environment_decides_where_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], code: str
) -> None:
    for name in room.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert current_language() == code


def test_the_environment_is_asked_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    before = str(ROW)
    monkeypatch.setenv("SUDARE_LANG", "ja")

    assert (before, str(ROW)) == ("a row", "1 行")


def test_windows_is_asked_for_its_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in room.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(room.sys, "platform", "win32")
    monkeypatch.setattr(room.locale, "getlocale", lambda: ("Japanese_Japan", "932"))

    assert current_language() == "ja"


def test_a_language_in_use_goes_before_the_environment_and_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    with use_language("ja"), use_language("en"):
        inner = current_language()
    with pytest.raises(RuntimeError), use_language("ja"):
        raise RuntimeError

    assert inner == "en"
    assert current_language() == "en"


def test_two_threads_read_the_same_text_in_two_languages_at_once() -> None:
    both_inside = threading.Barrier(2)
    found: dict[str, str] = {}

    def look(code: str) -> None:
        with use_language(code):
            both_inside.wait()
            found[code] = str(PERSON)
            both_inside.wait()

    threads = [threading.Thread(target=look, args=(code,)) for code in ("en", "ja")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {code: PERSON.render(code) for code in ("en", "ja")}
    assert found["en"] != found["ja"]


def test_two_tasks_of_one_loop_read_the_same_text_in_two_languages_at_once() -> None:
    async def look(code: str, mine: asyncio.Event, other: asyncio.Event) -> list[str]:
        with use_language(code):
            mine.set()
            await other.wait()  # both are inside their language now
            return [str(PERSON), await asyncio.to_thread(str, PERSON)]

    async def both() -> list[list[str]]:
        first, second = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(look("en", first, second), look("ja", second, first))

    assert asyncio.run(both()) == [[PERSON.render("en")] * 2, [PERSON.render("ja")] * 2]


# --- a third language is one folder -------------------------------------------------------------------------------


def test_a_third_language_is_added_by_pointing_at_a_folder(klingon: Path) -> None:
    added = add_language("tlh", klingon)

    assert added.name == languages()["tlh"].name == "tlhIngan Hol"
    assert ROW.render("tlh") == "tlhegh"
    assert text("Unit of privacy: {unit}.", unit=PERSON).render("tlh") == "Unit of privacy: nuv (5: id)."
    assert join_items([ROW, ROW]).render("tlh") == "tlhegh je tlhegh"
    with use_language("tlh-QO"):
        assert say("a row") == "tlhegh"
        assert current_language() == "tlh"


def test_a_third_language_is_named_in_the_environment(klingon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_TEXTS", f"{klingon}{os.pathsep}")
    monkeypatch.setenv("SUDARE_LANG", "tlh")

    assert language_problems() == []
    assert str(ROW) == "tlhegh"
    assert languages()["tlh"].name == "tlhIngan Hol"


def test_a_process_takes_a_third_language_from_its_environment(klingon: Path) -> None:
    environment = {**os.environ, "SUDARE_TEXTS": str(klingon), "SUDARE_LANG": "tlh"}
    script = "from sudare.text import say; print(say('a row'))"

    told = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)

    assert told.stdout == "tlhegh\n"


def test_a_text_that_a_language_does_not_have_is_shown_in_english(klingon: Path) -> None:
    add_language("tlh", klingon)

    assert text("nobody ever said this").render("tlh") == "nobody ever said this"
    assert text("{n} rows of nothing", n=2).render("ja") == "2 rows of nothing"
    assert "a row" not in missing_texts("tlh")
    assert len(missing_texts("tlh")) == len(languages()["ja"].texts) - 2


def test_a_folder_of_a_known_language_replaces_single_texts_of_it(tmp_path: Path) -> None:
    (tmp_path / "language.toml").write_text('name = "役所の日本語"\nbetween_sentences = ""\n', encoding="utf-8")
    (tmp_path / "ours.toml").write_text('"a row" = "一件"\n', encoding="utf-8")
    before = PERSON.render("ja")

    add_language("ja", tmp_path)

    assert ROW.render("ja") == "一件"
    assert PERSON.render("ja") == before
    assert missing_texts("ja") == []


WRONG = [
    (None, "language.toml is missing"),
    ({"language.toml": 'title = "x"'}, "must hold name"),
    ({"language.toml": "name = 3"}, "name must be a text"),
    ({"language.toml": 'name = "x"\ncode = "x"'}, "must hold name"),
    ({"language.toml": 'name = "x"', "a.toml": "[table]\nx = 1"}, "table must be a text"),
    ({"language.toml": 'name = "x"', "a.toml": '"a row" = '}, "not whole TOML"),
    ({"language.toml": 'name = "x"', "a.toml": '"a row" = "b"\nx = =\n'}, "line 2: not TOML"),
    ({"language.toml": 'name = "x"', "a.toml": b"\xff\xfe"}, "not whole TOML"),
    ({"language.toml": 'name = "x"', "a.toml": '"{n} rows" = "{m}"'}, "asks for m"),
]


@pytest.mark.parametrize(("files", "reason"), WRONG)
def test_a_folder_that_holds_no_language_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str | bytes] | None, reason: str
) -> None:
    folder = tmp_path / "de"
    for name, words in (files or {}).items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(words if isinstance(words, bytes) else words.encode())

    with pytest.raises(ValueError, match=reason):
        add_language("de", folder)

    monkeypatch.setenv("SUDARE_TEXTS", str(folder))
    problems = language_problems()
    assert [reason in str(problem) for problem in problems] == [True]
    assert "de" not in languages()
    with use_language("ja"):
        assert reason not in str(problems[0])


def test_a_code_that_is_none_is_refused(klingon: Path) -> None:
    with pytest.raises(ValueError, match="no code of a language"):
        add_language("../tlh", klingon)


def test_a_translation_that_cannot_be_filled_is_shown_in_english(klingon: Path) -> None:
    (klingon / "bad.toml").write_text('"{n} rows" = "{n:zz} {n.rows}"\n', encoding="utf-8")
    add_language("tlh", klingon)

    assert text("{n} rows", n=3).render("tlh") == "3 rows"


def test_the_built_in_languages_name_themselves() -> None:
    assert {code: one.name for code, one in languages().items()} == {"en": "English", "ja": "日本語"}
    assert find_language("ja").texts is languages()["ja"].texts


# --- errors carry a text ------------------------------------------------------------------------------------------


def test_an_error_is_read_in_the_language_of_whoever_looks() -> None:
    error = ParameterError("k ({k}) must be at least 2", k=1)

    assert str(error) == "k (1) must be at least 2"
    with use_language("ja"):
        assert str(error) == error.render("ja") == text("k ({k}) must be at least 2", k=1).render("ja")
    assert error.render("ja") != str(error)


def test_an_error_inside_the_line_of_another_takes_its_language() -> None:
    inner = ParameterError("k ({k}) must be at least 2", k=1)
    outer = SchemaError("{where}: {problem}", where="a.toml", problem=inner)

    assert outer.render("en") == "a.toml: k (1) must be at least 2"
    assert inner.render("ja") in outer.render("ja")
    assert "must" not in outer.render("ja")


def test_an_error_survives_pickling_with_its_text() -> None:
    inner = ParameterError("k ({k}) must be at least 2", k=1)

    again = pickle.loads(pickle.dumps(SchemaError("{where}: {problem}", where="a.toml", problem=inner)))

    assert isinstance(again, SchemaError)
    assert str(again) == "a.toml: k (1) must be at least 2"
    assert inner.render("ja") in again.render("ja")


def test_two_threads_read_one_error_in_two_languages() -> None:
    error = ParameterError("k ({k}) must be at least 2", k=1)
    found: dict[str, str] = {}

    def look(code: str) -> None:
        with use_language(code):
            found[code] = str(error)

    for code in ("en", "ja"):
        thread = threading.Thread(target=look, args=(code,))
        thread.start()
        thread.join()

    assert found == {code: error.render(code) for code in ("en", "ja")}


# --- what the system says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ENOSPC, errno.EISDIR, errno.EROFS, errno.EIO])
def test_a_refusal_of_the_system_is_told_in_japanese_too(number: int) -> None:
    refusal = describe_refusal(OSError(number, os.strerror(number), "people.csv"))

    assert str(refusal) == os.strerror(number)
    assert refusal.template in room.SYSTEM_REASONS
    assert not any(letter.isascii() and letter.isalpha() for letter in refusal.render("ja"))


def test_a_refusal_that_is_not_known_is_shown_in_the_words_of_the_system() -> None:
    assert describe_refusal(OSError(errno.EXDEV, "cross")).render("ja") == os.strerror(errno.EXDEV)
    assert describe_refusal(OSError("something")).render("ja") == "OSError"


def test_a_folder_of_the_environment_that_holds_no_language_stops_a_command_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUDARE_TEXTS", str(tmp_path / "de"))

    code = main(["--version"])

    assert code == 1
    assert capsys.readouterr().err.startswith(f"sudare: {tmp_path / 'de' / 'language.toml'} is missing")


def test_a_command_speaks_a_third_language(
    klingon: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (klingon / "cli.toml").write_text(
        '"{where} does not exist; make it with: sudare ledger create" = "{where}: Dach"\n'
    )
    monkeypatch.setenv("SUDARE_TEXTS", str(klingon))
    monkeypatch.setenv("SUDARE_LANG", "tlh")

    code = main(["ledger", "show", str(klingon / "none.ledger")])

    assert code == 1
    assert capsys.readouterr().err == f"sudare: {klingon / 'none.ledger'}: Dach\n"
