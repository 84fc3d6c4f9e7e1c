"""Files of tables: which ones a path or pattern names, in which encoding a text file is, and how its lines are cut.

Engines read UTF-8. A file in another encoding is rewritten as a stream into a private temporary file; nothing is held
in memory, and a byte that cannot be decoded is an error that names the line and never the bytes.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import errno
import glob
import gzip
import io
import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, NamedTuple, cast

from sudare.errors import SourceError
from sudare.text import describe_refusal, join, text

TEXT_ENDINGS = frozenset({".csv", ".tsv", ".txt"})
PARQUET_ENDINGS = frozenset({".parquet", ".pq"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """The files of one table, in the order of their names."""

    kind: Literal["text", "parquet"]
    paths: tuple[Path, ...]
    name: str  # as the user wrote it


def find_files(data: str | Path) -> Files:
    """Find the files of a path or pattern.

    Error: SourceError if there is none, or one cannot be read as a table.
    """
    name = str(data)
    if "://" in name:
        raise SourceError(
            "{data} is not a file; give a path, a pattern or a frame", data=name.split("://")[0] + "://..."
        )
    path = Path(data).expanduser()
    paths = [path] if path.exists() else sorted(Path(match) for match in glob.glob(str(path), recursive=True))
    if not paths:
        is_pattern = glob.has_magic(name)
        raise SourceError(
            "no file matches {data}; check the pattern" if is_pattern else "there is no file {data}; check the path",
            data=name,
        )
    kinds = {_find_kind(path) for path in paths}
    if len(kinds) > 1:
        raise SourceError("{data} matches text and Parquet files; read one kind at a time", data=name)
    return Files(kind=kinds.pop(), paths=tuple(paths), name=name)


def _find_kind(path: Path) -> Literal["text", "parquet"]:
    if path.is_dir():
        raise SourceError("{file} is a directory; give the files in it, as {file}/*.csv or {file}/*.parquet", file=path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
        if suffixes[-1:] and suffixes[-1] in PARQUET_ENDINGS:
            raise SourceError("{file} is Parquet packed again as gzip; unpack it", file=path)
        if not suffixes:
            return "text"
    if suffixes[-1:] and suffixes[-1] in TEXT_ENDINGS:
        return "text"
    if suffixes[-1:] and suffixes[-1] in PARQUET_ENDINGS:
        return "parquet"
    raise SourceError(
        "{file} is of a kind that cannot be read; save it as .csv, .tsv, .txt (also .gz) or .parquet", file=path
    )


# --- encodings: text files as offices have them ---------------------------------------------------------------------

CHUNK = 1 << 20  # bytes read at a time
TRIED_ENCODINGS = ("utf-8", "cp932")
"""Encodings of a file without a byte order mark, in this order: the first that fits every byte."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Bytes that Windows does not use; Python's codec lets them pass as these characters.
_NOT_CP932 = re.compile("[\x80\xa0\uf8f1-\uf8f3]")
_CONVINCING = 8  # characters beyond ASCII before the first fault: so many are not UTF-8 by chance
# In an office "Shift_JIS" means what Windows writes: with circled digits, wave dashes and the many forms of names.
_NAMES_OF_CP932 = {
    "shift_jis",
    "shiftjis",
    "sjis",
    "s_jis",
    "ms_kanji",
    "ms932",
    "mskanji",
    "windows_31j",
    "csshiftjis",
}


def find_codec(encoding: str) -> str:
    """Find the codec of an encoding by any of its usual names.

    >>> find_codec("Shift_JIS"), find_codec("UTF8"), find_codec("euc-jp")
    ('cp932', 'utf-8', 'euc_jp')
    """
    name = encoding.strip().lower().replace("-", "_").replace(" ", "_")
    if name in _NAMES_OF_CP932:
        return "cp932"
    try:
        codec = codecs.lookup(encoding.strip())
    except (LookupError, ValueError):
        codec = None
    if codec is None or not getattr(codec, "_is_text_encoding", True):
        raise SourceError("encoding ({encoding}) is unknown; use one such as utf-8, cp932 or euc-jp", encoding=encoding)
    return "utf-8" if codec.name == "utf-8-sig" else codec.name


def find_encoding(path: Path, encoding: str | None = None) -> str:
    """Tell in which encoding a text file is: the one given, else by its byte order mark, else UTF-8, else CP932.

    Every byte is read, so that a file whose first kanji comes late is not mistaken. A file that was read as UTF-8
    through several kanji before a byte did not fit is damaged UTF-8, not CP932.

    Error: SourceError naming the file, the line and what was tried.
    """
    choices = (find_codec(encoding),) if encoding is not None else _read_mark(path) or TRIED_ENCODINGS
    faults: dict[str, EncodingFault] = {}
    for name in choices:
        fault = _find_fault(path, name)
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
        tried=join(faults, text(" or ")),
    )


def _read_mark(path: Path) -> tuple[str, ...] | None:
    with open_bytes(path) as file:
        start = file.read(4)
    return next(((name,) for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark)), None)


class EncodingFault(NamedTuple):
    """The line of the first byte that does not fit, and whether what came before shows that the encoding is right."""

    line: int
    is_convincing: bool


def _find_fault(path: Path, name: str) -> EncodingFault | None:
    """Decode the whole file; give the first byte that does not fit, or None."""
    decoder = codecs.getincrementaldecoder(name)()
    before, is_plain, foreign = 0, True, 0
    for chunk in _read_chunks(path):
        if b"\0" in chunk and not name.startswith(("utf-16", "utf-32")):  # UTF-16 without its mark, or no text at all
            return EncodingFault(_find_line(path, before + chunk.index(b"\0"), "latin-1"), False)
        if not (is_plain and chunk.isascii() and name in TRIED_ENCODINGS):
            try:
                text = decoder.decode(chunk)
            except UnicodeDecodeError as error:
                foreign += _count_foreign(error.object[: error.start].decode(name, "replace"))
                offset = before + len(chunk) - len(error.object) + error.start
                is_convincing = name == "utf-8" and foreign >= _CONVINCING
                return EncodingFault(_find_line(path, offset, error.encoding), is_convincing)
            stray = _NOT_CP932.search(text) if name == "cp932" else None
            if stray is not None:
                return EncodingFault(_find_line(path, before, name) + text.count("\n", 0, stray.start()), False)
            is_plain = not decoder.getstate()[0]
            foreign += _count_foreign(text) if foreign < _CONVINCING else 0
        before += len(chunk)
    return _find_last_fault(path, decoder, before)


def _find_last_fault(path: Path, decoder: codecs.IncrementalDecoder, size: int) -> EncodingFault | None:
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return EncodingFault(_find_line(path, size, error.encoding), False)
    return None


def _count_foreign(text: str) -> int:
    """Count the characters beyond ASCII."""
    return 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))


def _find_line(path: Path, offset: int, name: str) -> int:
    line, rest, decoder = 1, offset, codecs.getincrementaldecoder(name)(errors="replace")
    for chunk in _read_chunks(path):
        line += decoder.decode(chunk[:rest]).count("\n")
        rest -= len(chunk)
        if rest <= 0:
            break
    return line


def rewrite_as_utf8(path: Path, name: str, directory: Path | None) -> Path:
    """Write a text file again as UTF-8, into a new file of `directory` that only this user can read.

    Error: SourceError without a directory: rows are never written where the steward did not allow it.

    >>> import pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "data.csv")
    ...     _ = file.write_bytes("氏名,①\\n髙橋,～\\n".encode("cp932"))
    ...     rewrite_as_utf8(file, "cp932", pathlib.Path(folder)).read_text(encoding="utf-8")
    '氏名,①\\n髙橋,～\\n'
    """
    if directory is None:
        raise SourceError(
            "{file} must be rewritten as UTF-8, but there is no place for it: the working directory cannot be written"
            " to; name a spill directory",
            file=path,
        )
    decoder = codecs.getincrementaldecoder(name)()
    handle, rewritten = tempfile.mkstemp(prefix="text-", suffix=".csv", dir=directory)
    try:
        with os.fdopen(handle, "wb") as out:
            for chunk in _read_chunks(path):
                out.write(decoder.decode(chunk).encode("utf-8"))
            out.write(decoder.decode(b"", final=True).encode("utf-8"))
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(rewritten)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SourceError(
                "no space is left in {directory} to rewrite {file} as UTF-8; name another spill directory",
                directory=directory,
                file=path,
            ) from None
        raise
    return Path(rewritten)


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacking .gz; what goes wrong becomes a SourceError of one line."""
    try:
        with path.open("rb") as file:
            yield cast(IO[bytes], gzip.GzipFile(fileobj=file)) if path.suffix.lower() == ".gz" else file
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise SourceError("{file} is not a complete gzip file; make or copy it again", file=path) from None
    except OSError as error:
        reason = describe_refusal(error)
        raise SourceError(
            "{file} cannot be read ({reason}); check that you may read it", file=path, reason=reason
        ) from None


def _read_chunks(path: Path) -> Iterator[bytes]:
    with open_bytes(path) as file:
        while chunk := file.read(CHUNK):
            yield chunk


# --- the first line of a delimited text file: its delimiter and the names of its columns ---------------------------

DELIMITERS = (",", "\t", ";")
_SAMPLE_CHARACTERS = 1 << 18  # of the beginning of a file, by which the delimiter is chosen
_SAMPLE_RECORDS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How a delimited file is cut: the delimiter, the names in its first line, and whether nothing follows them."""

    delimiter: str
    names: tuple[str, ...]
    is_empty: bool = field(default=False, compare=False)


def read_layout(path: Path, encoding: str, *, original: Path | None = None) -> Layout:
    """Read the first line; the delimiter is the one that cuts the first records most evenly, then most often.

    Errors name `original`, the file that `path` was rewritten from.

    Error: SourceError if the file is empty, has no first line of names, or names a column twice.
    """
    named = original or path
    with open_bytes(path) as file:
        codec = "utf-8-sig" if encoding == "utf-8" else encoding
        with io.TextIOWrapper(file, encoding=codec, newline="") as decoded:
            text = decoded.read(_SAMPLE_CHARACTERS)
    if not text.strip():
        raise SourceError(
            "{file} is empty; a table needs at least a first line with the names of its columns", file=named
        )
    layout = find_layout(text)
    if not is_well_quoted(text, layout):
        # An engine that cannot make sense of the first line may take the file for an empty table.
        raise SourceError("the first line of {file} has a quote in the wrong place; correct it", file=named)
    if not any(layout.names):
        raise SourceError("the first line of {file} is blank; it must name the columns", file=named)
    names = [name for name in layout.names if name]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SourceError("{file} has two columns named {name}; rename one", file=named, name=repeated[0])
    return layout


def find_layout(text: str) -> Layout:
    """Try every delimiter on the beginning of a file.

    >>> find_layout("name;price\\ntea;1,5\\n")
    Layout(delimiter=';', names=('name', 'price'), is_empty=False)
    """
    whole_lines = text if len(text) < _SAMPLE_CHARACTERS else text[: text.rfind("\n") + 1] or text
    tables = {delimiter: _read_records(whole_lines, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: _rate_evenness(tables[delimiter]))
    first, *rest = tables[best] or [[]]
    return Layout(delimiter=best, names=tuple(first), is_empty=not any(rest))


def is_well_quoted(text: str, layout: Layout) -> bool:
    """Tell whether the quotes of the first record open and close where a field does.

    >>> [is_well_quoted(text, find_layout(text)) for text in ('"a",b', '"a"x,b', '"a,b')]
    [True, False, False]
    """
    try:
        next(csv.reader(io.StringIO(text, newline=""), delimiter=layout.delimiter, strict=True))
    except csv.Error:
        return False
    return True


def _read_records(text: str, delimiter: str) -> list[list[str]]:
    records = []
    try:
        for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            records.append(record)
            if len(records) == _SAMPLE_RECORDS:
                break
    except csv.Error:  # a field without end: the engine will name the line
        pass
    return records


def _rate_evenness(records: list[list[str]]) -> tuple[bool, float, int]:
    if not records:
        return False, 0.0, 0
    width = len(records[0])
    filled = [record for record in records if record]
    even = sum(len(record) == width for record in filled) / max(1, len(filled))
    return width > 1, even, width
