"""Text files as Japanese offices keep them, read with bounds.

UTF-8 with or without its mark, UTF-16 with its mark (Windows' "Unicode"), or CP932 (Shift_JIS). Only ordinary files
are read: a directory, a pipe or a device is refused at once, and a file that grows without end is read up to a bound.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
from pathlib import Path

from sudare.errors import SchemaError, SudareError
from sudare.forms.mistake import make_error
from sudare.text import text

MOST_MEBIBYTES = 1024  # of a list, a hierarchy or a geometry: a billion bytes is more than any public map of Japan
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
    try:
        return _read_bounded(path, most_mebibytes, error)
    except OSError as problem:
        reason = _REASONS.get(problem.errno or 0, problem.strerror or "?")
    except ValueError:  # a name with a character that no file system takes
        reason = text("no file can have such a name")
    raise make_error(error, text("{file}: cannot be read ({reason}); check the path", file=path, reason=reason))


def _read_bounded(path: Path, most_mebibytes: int, error: type[SudareError]) -> bytes:
    # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as opened:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise make_error(error, text("{file}: is a directory; give the name of a file in it", file=path))
        if not stat.S_ISREG(mode):
            problem = text("{file}: is a pipe or a device; save its content in an ordinary file", file=path)
            raise make_error(error, problem)
        most = most_mebibytes << 20
        content = opened.read(most + 1)
    if len(content) > most:
        what = text(
            "{file}: is larger than {most} MiB; check that it is the right file", file=path, most=most_mebibytes
        )
        raise make_error(error, what)
    return content


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


def read_lines(path: Path) -> list[str]:
    """Read a list, one entry a line; empty lines are skipped, blanks inside lines are kept."""
    lines = [line for line in read_text(path).replace("\r\n", "\n").split("\n") if line]
    if not lines:
        raise SchemaError("{file}: the file is empty; write one value a line", file=path)
    return lines
