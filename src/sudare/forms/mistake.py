"""One thing that is wrong in a file: what, where, and the one line that tells it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sudare.errors import SudareError
from sudare.text import Text, text


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong in a file, with its place; a line of 0 means that there is no file."""

    problem: Text
    line: int
    column: int | None = None
    table: str = ""

    def describe(self, file: Path) -> Text:
        """Put file, line and table before what is wrong."""
        return locate(self.problem, file, self.line, self.table, column=self.column)


def locate(problem: Text, file: Path, line: int, table: str = "", *, column: int | None = None) -> Text:
    """Put file, line and table before what is wrong."""
    if not line:
        return text("{table}: {problem}", table=table, problem=problem) if table else problem
    if column is not None:
        return text(
            "{file}, line {line}, column {column}: {problem}", file=file, line=line, column=column, problem=problem
        )
    if not table:
        return text("{file}, line {line}: {problem}", file=file, line=line, problem=problem)
    return text("{file}, line {line}: {table}: {problem}", file=file, line=line, table=table, problem=problem)


def make_error(kind: type[SudareError], problem: Text) -> SudareError:
    """Make an error of a kind that is chosen while running."""
    return kind(problem.template, **problem.values)


@contextlib.contextmanager
def at_line(file: Path, lines: Mapping[str, int], title: str) -> Iterator[None]:
    """Put a place of a file before whatever is found wrong with what stands there; the kind of error stays.

    `lines` tell where the keys stand, and under "" where the table begins. An error that begins with a key is led to
    its line.

    >>> from sudare.errors import ParameterError
    >>> with at_line(Path("a.toml"), {"": 7, "k": 9}, "records"):
    ...     raise ParameterError("k ({k}) must be at least 2", k=1)
    Traceback (most recent call last):
    sudare.errors.ParameterError: a.toml, line 9: records: k (1) must be at least 2
    """
    try:
        yield
    except SudareError as error:
        line = lines.get(find_key(error), lines[""])
        raise make_error(type(error), locate(problem_of(error), file, line, title)) from None


def problem_of(error: SudareError) -> Text:
    """Give what an error says as a text, to stand inside another line."""
    return error.text


def find_key(error: SudareError) -> str:
    """Tell which key an error is about: the word it begins with."""
    template = error.text.template
    return str(error.text.values.get("name", "")) if template.startswith("{name} ") else template.partition(" ")[0]
