"""Text files as Japanese offices keep them, read with bounds.

UTF-8 with or without its mark, UTF-16 with its mark (Windows' "Unicode"), or CP932 (Shift_JIS). Only ordinary files
are read: a directory, a pipe or a device is refused at once, and so is a file that is too large, or that grows while
it is read (as those of /proc seem to).
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sudare.errors import SchemaError, SudareError
from sudare.forms.mistake import make_error
from sudare.text import Text, text

MOST_MEBIBYTES = 2048  # of a list, a hierarchy or a geometry; all mesh cells of Japan at the finest level take 400
_REASONS = {  # what the system says in English alone
    errno.ENOENT: text("there is no such file"),
    errno.ENOTDIR: text("there is no such file"),
    errno.EACCES: text("you may not read it"),
    errno.EPERM: text("you may not read it"),
    errno.ENAMETOOLONG: text("its name is too long"),
    errno.ELOOP: text("its links lead in a circle"),
}
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_bytes(path: Path, *, most_mebibytes: int = MOST_MEBIBYTES, error: type[SudareError] = SchemaError) -> bytes:
    """Read an ordinary file of bounded size; `error`, in one line with the reason, if that fails."""
    with _open_ordinary(path, error) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size > most_mebibytes << 20:
            what = text("{file}: is larger than {most} MiB; give the right file", file=path, most=most_mebibytes)
            raise make_error(error, what)
        content = opened.read(size)
        if len(content) < size or opened.read(1):
            what = text("{file}: changes while it is read; copy it, and give the copy", file=path)
            raise make_error(error, what)
    return content


def check_file(path: Path, *, error: type[SudareError] = SchemaError) -> None:
    """Refuse a file that another package is going to read, in the same words, if it cannot be read."""
    with _open_ordinary(path, error):
        pass


@contextlib.contextmanager
def _open_ordinary(path: Path, error: type[SudareError]) -> Iterator[BinaryIO]:
    reason: Text | str
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            _check_ordinary(os.fstat(handle).st_mode, path, error)
            with open(handle, "rb", closefd=False) as opened:
                yield opened
        finally:
            os.close(handle)
        return
    except OSError as problem:
        reason = _REASONS.get(problem.errno or 0, problem.strerror or "?")
    except ValueError:  # a name with a character that no file system takes
        reason = text("no file can have such a name")
    raise make_error(error, text("{file}: cannot be read ({reason}); check the path", file=path, reason=reason))


def _check_ordinary(mode: int, path: Path, error: type[SudareError]) -> None:
    if stat.S_ISDIR(mode):
        raise make_error(error, text("{file}: is a directory; give the name of a file in it", file=path))
    if not stat.S_ISREG(mode):
        what = text("{file}: is a pipe or a device; save its content in an ordinary file", file=path)
        raise make_error(error, what)


def decode(content: bytes) -> str | None:
    """Decode UTF-8, UTF-16 with its mark, or CP932; None if it is none of them.

    >>> decode("年齢".encode("cp932")), decode("年齢".encode("utf-16")), decode("年齢".encode("euc-jp"))
    ('年齢', '年齢', None)
    """
    for encoding in ("utf-16",) if content.startswith(_UTF_16) else ("utf-8-sig", "cp932"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return None


def read_text(path: Path, *, most_mebibytes: int = MOST_MEBIBYTES, error: type[SudareError] = SchemaError) -> str:
    """Read a text file; `error` if it cannot be read or is in another encoding."""
    content = decode(read_bytes(path, most_mebibytes=most_mebibytes, error=error))
    if content is None:
        problem = text("{file}: neither UTF-8 nor Shift_JIS (CP932) text; save it as UTF-8", file=path)
        raise make_error(error, problem)
    return content


def read_rows(path: Path, *, error: type[SudareError] = SchemaError) -> list[list[str]]:
    """Read the rows of a small table in CSV, as texts."""
    return split_rows(read_text(path, error=error).splitlines(), path, error=error)


def split_rows(lines: list[str], path: Path, *, error: type[SudareError] = SchemaError) -> list[list[str]]:
    """Split lines of CSV; `error` names the line that is none: a quotation without an end, a character of no text."""
    reader = csv.reader(lines)
    try:
        return list(reader)
    except csv.Error:
        what = text(
            "{file}, line {line}: is no line of a CSV table; check its quotation marks", file=path, line=reader.line_num
        )
    raise make_error(error, what)


def read_records(path: Path, *, error: type[SudareError] = SchemaError) -> list[dict[str, str]]:
    """Read the rows of a small table in CSV by the names of its first line; what is missing is empty."""
    head, *rows = read_rows(path, error=error) or [[]]
    padding = [""] * len(head)
    return [dict(zip(head, row + padding[len(row) :], strict=False)) for row in rows if row]


def read_lines(path: Path) -> list[str]:
    """Read a list, one entry a line; empty lines are skipped, blanks inside lines are kept."""
    lines = [line for line in read_text(path).replace("\r\n", "\n").split("\n") if line]
    if not lines:
        raise SchemaError("{file}: the file is empty; write one value a line", file=path)
    return lines
