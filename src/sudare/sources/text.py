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
import re
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

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
# Bytes that Windows does not use; Python's codec lets them pass as these characters.
_STRAY = re.compile("[\x80\xa0\uf8f1-\uf8f3]")
_CONVINCING = 8  # characters beyond ASCII that were read before the first fault
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

    Every byte is read, so that a file whose first kanji comes late is not mistaken. A file that was read as UTF-8
    through several kanji before a byte did not fit is damaged UTF-8, not CP932.

    Error: SourceError naming the file, the line and what was tried.
    """
    choices = (codec(encoding),) if encoding is not None else _marked(path) or TRIED
    faults: dict[str, Fault] = {}
    for name in choices:
        fault = _first_fault(path, name)
        if fault is None:
            return name
        faults[name] = fault
        if fault.is_convincing:
            break
    # The encoding that went furthest is the likeliest, so its line is the one to look at.
    raise SourceError(
        "line {line} of {file} cannot be read as {tried}; name the encoding of the file, such as euc-jp",
        line=max(fault.line for fault in faults.values()),
        file=path,
        tried=" or ".join(faults),
    )


def _marked(path: Path) -> tuple[str, ...] | None:
    with open_bytes(path) as file:
        start = file.read(4)
    return next(((name,) for mark, name in _MARKS if start.startswith(mark)), None)


class Fault(NamedTuple):
    """The line of the first byte that does not fit, and whether what came before shows that the encoding is right."""

    line: int
    is_convincing: bool


def _first_fault(path: Path, name: str) -> Fault | None:
    """Decode the whole file; tell the first byte that does not fit, or None."""
    decoder = codecs.getincrementaldecoder(name)()
    before, is_plain, foreign = 0, True, 0
    for chunk in _chunks(path):
        if b"\0" in chunk and not name.startswith(("utf-16", "utf-32")):  # UTF-16 without its mark, or no text at all
            return Fault(_line(path, before + chunk.index(b"\0"), "latin-1"), False)
        if not (is_plain and chunk.isascii() and name in TRIED):
            try:
                text = decoder.decode(chunk)
            except UnicodeDecodeError as error:
                foreign += _foreign(error.object[: error.start].decode(name, "replace"))
                offset = before + len(chunk) - len(error.object) + error.start
                return Fault(_line(path, offset, error.encoding), name == "utf-8" and foreign >= _CONVINCING)
            stray = _STRAY.search(text) if name == "cp932" else None
            if stray is not None:
                return Fault(_line(path, before, name) + text.count("\n", 0, stray.start()), False)
            is_plain = not decoder.getstate()[0]
            foreign += _foreign(text) if foreign < _CONVINCING else 0
        before += len(chunk)
    return _last_fault(path, decoder, before)


def _last_fault(path: Path, decoder: codecs.IncrementalDecoder, size: int) -> Fault | None:
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return Fault(_line(path, size, error.encoding), False)
    return None


def _foreign(text: str) -> int:
    """How many characters are beyond ASCII."""
    return 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))


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
        raise SourceError(
            "{file} cannot be read ({reason}); check that you may read it", file=path, reason=reason
        ) from None


def _chunks(path: Path) -> Iterator[bytes]:
    with open_bytes(path) as file:
        while chunk := file.read(CHUNK):
            yield chunk
