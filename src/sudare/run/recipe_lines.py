"""Where in a TOML file a table or a key stands: what the parser does not tell, and an author needs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sudare.errors import ParameterError, SudareError
from sudare.messages import Inside

_HEADER = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_-]+)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*["']?([^\s"'=.\[#]+)["']?\s*[=.]""")


class Lines:
    """The lines of tables and keys, found by their look; for complaints alone.

    >>> found = Lines('[recipe]\\nversion = 1\\n\\n[[release]]\\nname = "a"\\n')
    >>> found.find("recipe"), found.find("release", 0), found.find("release", 0, "name"), found.find("release", 0, "k")
    (1, 4, 5, 4)
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, int, str | None], int] = {}
        table, number, seen = "", 0, dict[str, int]()
        for line, written in enumerate(text.split("\n"), start=1):
            if header := _HEADER.match(written):
                table = header[1]
                number = seen[table] = seen.get(table, -1) + 1
                self._lines[table, number, None] = line
            elif key := _KEY.match(written):
                self._lines.setdefault((table, number, key[1]), line)
                if not table:  # a key before any table, or a table written inline
                    self._lines.setdefault((key[1], 0, None), line)

    def find(self, table: str, number: int | None = None, key: str | None = None) -> int:
        """Find the line of a key, else that of its table, else the first."""
        place = (table, number or 0)
        return self._lines.get((*place, key)) or self._lines.get((*place, None)) or 1

    def keys(self, table: str, number: int) -> dict[str, int]:
        """List the lines of all keys of a table; under "" that of the table."""
        return {key or "": line for (*place, key), line in self._lines.items() if place == [table, number]}

    def complaint(
        self, file: Path, table: str, number: int | None, key: str | None, text: str, values: Mapping[str, Any]
    ) -> ParameterError:
        """Make the error for something wrong at a place."""
        line = self.find(table, number, key)
        return ParameterError("{file}, line {line}: {problem}", file=file, line=line, problem=Inside(text, values))


@contextlib.contextmanager
def at_line(file: Path, lines: Mapping[str, int], name: str) -> Iterator[None]:
    """Put the place in the recipe before whatever is wrong with a release; the kind of error stays.

    `lines` tell where its keys stand, and under "" where it begins. An error that begins with a key is about it.

    >>> with at_line(Path("a.toml"), {"": 7, "k": 9}, "records"):
    ...     raise ParameterError("k ({k}) must be at least 2", k=1)
    Traceback (most recent call last):
    sudare.errors.ParameterError: a.toml, line 9: records: k (1) must be at least 2
    """
    try:
        yield
    except SudareError as error:
        key = str(error.values.get("name", "")) if error.text.startswith("{name} (") else error.text.partition(" (")[0]
        told = {"file": file, "line": lines.get(key, lines[""]), "name": name}
        problem = Inside(error.text, error.values)
        raise type(error)("{file}, line {line}: {name}: {problem}", **told, problem=problem) from None
