"""Text files as offices have them: which encoding a file is in, and the same text as UTF-8.

Engines read UTF-8. A file in another encoding is rewritten as a stream into a private temporary file; nothing is held
in memory, and a byte that cannot be decoded is an error that names the line and never the bytes.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import gzip
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from sudare.errors import SourceError

CHUNK = 1 << 20
TRIED = ("utf-8", "cp932")
"""What a file without a mark is taken for, in this order: the first that fits every byte."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# In an office "Shift_JIS" means what Windows writes: with circled digits, wave dashes and the many forms of names.
_WINDOWS = {"shift_jis", "shiftjis", "sjis", "s_jis", "ms_kanji", "ms932", "mskanji", "windows_31j", "csshiftjis"}


def codec(encoding: str) -> str:
    """Find the codec of an encoding by any of its usual names.

    >>> codec("Shift_JIS"), codec("UTF8"), codec("euc-jp")
    ('cp932', 'utf-8', 'euc_jp')
    """
    name = encoding.strip().lower().replace("-", "_").replace(" ", "_")
    if name in _WINDOWS:
        return "cp932"
    try:
        found = codecs.lookup(encoding.strip())
    except (LookupError, ValueError):
        found = None
    if found is None or not getattr(found, "_is_text_encoding", True):
        raise SourceError("encoding ({encoding}) is unknown; use one such as utf-8, cp932 or euc-jp", encoding=encoding)
    return "utf-8" if found.name == "utf-8-sig" else found.name


def encoding_of(path: Path, encoding: str | None = None) -> str:
    """Tell in which encoding a text file is: the one given, else by its mark, else UTF-8, else CP932.

    Every byte is read, so that a file whose first kanji comes late is not mistaken.

    Error: SourceError naming the file, the line and what was tried.
    """
    tried = (codec(encoding),) if encoding is not None else _marked(path) or TRIED
    lines = []
    for name in tried:
        line = _first_bad_line(path, name)
        if line is None:
            return name
        lines.append(line)
    # The encoding that went furthest is the likeliest, so its line is the one to look at.
    raise SourceError(
        "line {line} of {file} cannot be read as {tried}; name the encoding of the file, such as euc-jp",
        line=max(lines),
        file=path,
        tried=" or ".join(tried),
    )


def _marked(path: Path) -> tuple[str, ...] | None:
    with open_bytes(path) as file:
        start = file.read(4)
    return next(((name,) for mark, name in _MARKS if start.startswith(mark)), None)


def _first_bad_line(path: Path, name: str) -> int | None:
    """Decode the whole file; give the line of the first byte that does not fit, or None."""
    decoder = codecs.getincrementaldecoder(name)()
    is_wide = name.startswith(("utf-16", "utf-32"))
    is_fresh, before = True, 0
    for chunk in _chunks(path):
        try:
            if not is_wide and b"\0" in chunk:  # text has none: this is UTF-16 without its mark, or no text at all
                return _line(path, before + chunk.index(b"\0"), "latin-1")
            if not (is_fresh and chunk.isascii() and name in TRIED):
                decoder.decode(chunk)
                is_fresh = not decoder.getstate()[0]
        except UnicodeDecodeError as error:
            return _line(path, before + len(chunk) - (len(error.object) - error.start), error.encoding)
        before += len(chunk)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return _line(path, before, error.encoding)
    return None


def _line(path: Path, offset: int, name: str) -> int:
    line, rest, decoder = 1, offset, codecs.getincrementaldecoder(name)(errors="replace")
    for chunk in _chunks(path):
        line += decoder.decode(chunk[:rest]).count("\n")
        rest -= len(chunk)
        if rest <= 0:
            break
    return line


def rewrite(path: Path, name: str, directory: Path) -> Path:
    """Write a text file again as UTF-8, into a new file of `directory` that only this user can read.

    >>> import pathlib
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = pathlib.Path(place, "data.csv")
    ...     _ = file.write_bytes("氏名,①\\n髙橋,～\\n".encode("cp932"))
    ...     rewrite(file, "cp932", pathlib.Path(place)).read_text(encoding="utf-8")
    '氏名,①\\n髙橋,～\\n'
    """
    decoder = codecs.getincrementaldecoder(name)()
    handle, place = tempfile.mkstemp(prefix="text-", suffix=".csv", dir=directory)
    try:
        with os.fdopen(handle, "wb") as out:
            for chunk in _chunks(path):
                out.write(decoder.decode(chunk).encode("utf-8"))
            out.write(decoder.decode(b"", final=True).encode("utf-8"))
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(place)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SourceError(
                "no space is left in {directory} to rewrite {file} as UTF-8; name another spill directory",
                directory=directory,
                file=path,
            ) from None
        raise
    return Path(place)


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacking .gz; what goes wrong becomes a SourceError of one line."""
    try:
        with path.open("rb") as file:
            yield cast(IO[bytes], gzip.GzipFile(fileobj=file)) if path.suffix.lower() == ".gz" else file
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise SourceError("{file} is not a whole gzip file; make or copy it again", file=path) from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "input or output failed"
        raise SourceError("{file} cannot be read ({reason})", file=path, reason=reason) from None


def _chunks(path: Path) -> Iterator[bytes]:
    with open_bytes(path) as file:
        while chunk := file.read(CHUNK):
            yield chunk
