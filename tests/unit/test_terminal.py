"""Tables on a terminal: columns that line up, drawn without the package that breaks lines where none needs breaking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.cli import terminal

CELL = st.text(alphabet="aZ 1,.[]é表示「:", max_size=9)
TABLES = st.integers(1, 4).flatmap(lambda wide: st.lists(st.tuples(*[CELL] * wide), min_size=2, max_size=5))


@given(lines=TABLES)
def test_a_table_looks_as_the_package_for_terminals_draws_it(lines: list[tuple[str, ...]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        drawn = [_draw(lambda: terminal.table(lines[1:], head=lines[0])), _draw(lambda: terminal._print_broken(lines))]

    assert drawn[0].split("\n") == drawn[1].split("\n") or not any(map(any, lines))


def test_a_table_wider_than_the_terminal_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    lines = _draw(lambda: terminal.table([("word " * 10, "1")], head=("text", "n"))).splitlines()

    assert len(lines) > 2
    assert max(map(len, lines)) <= 30


def test_a_label_between_colons_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")

    assert ":cat:" in _draw(lambda: terminal.table([(":cat:", "word " * 10)], head=("label", "text")))


def test_signs_that_a_terminal_obeys_are_written_out() -> None:
    cells = ("a\x1b[2Jb", "two\nlines", "\u202eturned", "表\u3000示")
    drawn = _draw(lambda: terminal.table([cells], head=("k\r",) * 4)) + _draw(lambda: terminal.print_lines(cells[:1]))

    assert [sign for sign in "\x1b\r\u202e" if sign in drawn] == []
    assert r"a\x1b[2Jb" in drawn
    assert r"two\nlines" in drawn
    assert "表\u3000示" in drawn


def _draw(show) -> str:  # type: ignore[no-untyped-def]
    import contextlib
    import io

    found = io.StringIO()
    with contextlib.redirect_stdout(found):
        show()
    return found.getvalue()
