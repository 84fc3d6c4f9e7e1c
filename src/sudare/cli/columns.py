"""Help pages that fit their columns in both languages: wide letters take two, and Japanese breaks between letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import click

_CLOSING = "、。，．：；？！）」』】〕］｝ー々・"  # never first in a line
_OPENING = "（「『【〔［｛"  # never last in a line
_WIDE = "\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
_PIECE = re.compile(  # blanks, a note in brackets, a wide letter, a word; each with the punctuation around it
    rf"\s+|\[[^\]]*\]$|[{_OPENING}]*(?![{_OPENING}])[{_WIDE}][{_CLOSING}]*|[{_OPENING}]*[^\s{_WIDE}]+[{_CLOSING}]*|."
)


def width(text: str) -> int:
    """How many columns a text takes on a terminal.

    >>> width("表 A")
    4
    """
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def wrapped(text: str, columns: int) -> list[str]:
    """Break a text into lines of so many columns; punctuation stays with its word.

    >>> wrapped("表を、公開します。", 8)
    ['表を、公', '開しま', 'す。']
    """
    lines = [""]
    for piece in _PIECE.findall(text):
        if width(lines[-1] + piece.rstrip()) > columns and lines[-1]:
            lines.append("")
        lines[-1] += " " if piece.isspace() and lines[-1] else piece.lstrip()
    return [line.rstrip() for line in lines]


class Columns(click.HelpFormatter):
    """Click's formatter, with lines broken by what they take on a terminal."""

    def write_text(self, text: str) -> None:
        """Paragraphs, with a blank line between them."""
        indent = " " * self.current_indent
        told = [wrapped(part, self.width - self.current_indent) for part in text.split("\n\n")]
        self.write("\n".join("".join(f"{indent}{line}\n" for line in lines) for lines in told))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Names on the left, what they mean on the right."""
        rows = list(rows)
        left = min(max(width(name) for name, _ in rows), col_max) + col_spacing
        indent = " " * self.current_indent
        for name, meaning in rows:
            lines = wrapped(meaning, max(self.width - left - self.current_indent, 10))
            if width(name) > left - col_spacing:
                self.write(f"{indent}{name}\n")
                name = ""
            for line in lines:
                self.write(f"{indent}{name}{' ' * (left - width(name))}{line}".rstrip() + "\n")
                name = ""
