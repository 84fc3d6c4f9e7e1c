"""Files of tables: which ones a path, folder or pattern names, and in which encoding a text file is.

Engines read UTF-8. A file in another encoding is rewritten as a stream into a private temporary file; nothing is held
in memory, and a byte that cannot be decoded is an error that names the line and never the bytes.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import glob
import gzip
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

from sudare.errors import SourceError
from sudare.sources.excel import EXCEL_ENDINGS
from sudare.text import describe_refusal, join, text

Kind = Literal["text", "parquet", "json", "arrow", "excel"]

_ENDINGS: Mapping[str, Kind] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "text"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys(EXCEL_ENDINGS, "excel"),
}
_PACKED: frozenset[Kind] = frozenset({"text", "json"})  # kinds that may be packed as .gz
_FOLDER = re.compile(r"([^=]+)=(.*)")  # of a Hive table: year=2024
_PLACE = re.compile(r"(?P<file>.+)#(?P<sheet>[^#!]*)(?:!(?P<first>[1-9][0-9]{0,6})(?:-(?P<last>[1-9][0-9]{0,6}))?)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """The files of one table, in the order of their names.

    `sheet` and `lines` say where in them the table stands: the name of the sheet, the first and last line of names
    (from 0). `partitions` are the columns that the names of folders tell, as in `year=2024/month=1/a.parquet`.
    """

    kind: Kind
    paths: tuple[Path, ...]
    name: str  # as the user wrote it
    sheet: str | None = None
    lines: tuple[int, int] | None = None
    partitions: tuple[str, ...] = ()


def find_files(data: str | Path) -> Files:
    """Find the files of a path, a folder or a pattern; `book.xlsx#Sheet1!3` names a sheet and the line of its names.

    Error: SourceError if there is none, or one cannot be read as a table.
    """
    name = str(data)
    if "://" in name:
        raise SourceError(
            "{data} is not a file; give a path, a pattern or a frame", data=name.split("://")[0] + "://..."
        )
    path, sheet, lines = _find_place(name)
    paths = [path] if path.exists() else sorted(Path(match) for match in glob.glob(str(path), recursive=True))
    if not paths:
        is_pattern = glob.has_magic(str(path))
        raise SourceError(
            "no file matches {data}; check the pattern" if is_pattern else "there is no file {data}; check the path",
            data=name,
        )
    paths = [file for found in paths for file in (_list_folder(found) if found.is_dir() else [found])]
    kinds = {_find_kind(found) for found in paths}
    if len(kinds) > 1:
        raise SourceError("{data} matches files of several kinds; read one kind at a time", data=name)
    kind = kinds.pop()
    if (sheet is not None and kind != "excel") or (lines is not None and kind not in ("excel", "text")):
        raise SourceError("{data} names a sheet or a line, but the file has none; leave out what follows #", data=name)
    partitions = _find_partitions(paths, name)
    return Files(kind=kind, paths=tuple(paths), name=name, sheet=sheet, lines=lines, partitions=partitions)


def _find_place(name: str) -> tuple[Path, str | None, tuple[int, int] | None]:
    """Part a path from the sheet and the lines that may follow it; a file whose name holds a # comes first."""
    path = Path(name).expanduser()
    match = None if path.exists() else _PLACE.fullmatch(name)
    if match is None:
        return path, None, None
    first, last = match["first"], match["last"] or match["first"]
    lines = None if first is None else (int(first) - 1, int(last) - 1)
    return Path(match["file"]).expanduser(), match["sheet"] or None, lines


def _list_folder(folder: Path) -> list[Path]:
    """List the files of a folder and of those in it, but not what writers of lakes leave beside them (_SUCCESS)."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        found += [Path(place, name) for name in sorted(names) if not name.startswith((".", "_"))]
    if not found:
        raise SourceError("{file} is an empty folder; name the folder that holds the files of the table", file=folder)
    return sorted(found)


def _find_partitions(paths: Sequence[Path], name: str) -> tuple[str, ...]:
    """Read the columns that the names of folders tell; all files must have the same."""
    keys = {tuple(match.group(1) for part in path.parts[:-1] if (match := _FOLDER.fullmatch(part))) for path in paths}
    if len(keys) > 1 or any(len(set(own)) < len(own) for own in keys):
        raise SourceError(
            "the folders of {data} do not all name the same columns (as in year=2024); read them apart", data=name
        )
    return keys.pop()


def _find_kind(path: Path) -> Kind:
    if path.exists() and not path.is_file():
        raise SourceError("{file} is no regular file, so it may never end; copy the data into a file", file=path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_packed = suffixes[-1:] == [".gz"]
    if is_packed:
        suffixes.pop()
    kind = _ENDINGS.get(suffixes[-1] if suffixes else (".txt" if is_packed else ""))
    if kind is not None and is_packed and kind not in _PACKED:
        raise SourceError("{file} is packed again as gzip; unpack it", file=path)
    if kind is None:
        raise SourceError(
            "{file} is of a kind that cannot be read; save it as .csv, .tsv, .txt, .jsonl (also .gz), .parquet,"
            " .arrow, .feather, .xlsx or .xls",
            file=path,
        )
    return kind


# --- encodings: text files as offices have them ---------------------------------------------------------------------

CHUNK = 1 << 20  # bytes read at a time
_LONGEST_LINE = 16 << 20  # bytes; DuckDB leaves out a last line that does not fit its buffer of 32 MB, without an error
TRIED_ENCODINGS = ("utf-8", "cp932")
"""Encodings of a file without a byte order mark, in this order: the first that fits every byte."""

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Bytes that Windows does not use; Python's codec lets them pass as these characters.
NOT_CP932 = re.compile("[\x80\xa0\uf8f1-\uf8f3]")
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
    if all(fault.is_zero for fault in faults.values()):
        raise SourceError(
            "line {line} of {file} holds a byte 0, which no text does; take it out, or name the encoding (utf-16)",
            line=max(fault.line for fault in faults.values()),
            file=path,
        )
    raise SourceError(
        "line {line} of {file} cannot be read as {tried}; name the encoding of the file, such as latin-1 or euc-jp",
        line=max(fault.line for fault in faults.values()),
        file=path,
        tried=join(faults, text(" or ")),
    )


def _read_mark(path: Path) -> tuple[str, ...] | None:
    with open_bytes(path) as file:
        start = file.read(4)
    return next(((name,) for mark, name in BYTE_ORDER_MARKS if start.startswith(mark)), None)


class EncodingFault(NamedTuple):
    """The line of the first byte that does not fit, whether what came before shows that the encoding is right, and
    whether that byte is 0.
    """

    line: int
    is_convincing: bool
    is_zero: bool = False


def _find_fault(path: Path, name: str) -> EncodingFault | None:
    """Decode the whole file; give the first byte that does not fit, or None."""
    decoder = codecs.getincrementaldecoder(name)()
    before, is_plain, foreign = 0, True, 0
    for chunk in _refuse_long_lines(path):
        if b"\0" in chunk and not name.startswith(("utf-16", "utf-32")):  # UTF-16 without its mark, or no text at all
            return EncodingFault(_find_line(path, before + chunk.index(b"\0"), "latin-1"), False, is_zero=True)
        if not (is_plain and chunk.isascii() and name in TRIED_ENCODINGS):
            try:
                text = decoder.decode(chunk)
            except UnicodeDecodeError as error:
                foreign += _count_foreign(error.object[: error.start].decode(name, "replace"))
                offset = before + len(chunk) - len(error.object) + error.start
                is_convincing = name == "utf-8" and foreign >= _CONVINCING
                return EncodingFault(_find_line(path, offset, error.encoding), is_convincing)
            except UnicodeError:  # UTF-16 without its mark
                return EncodingFault(1, False)
            stray = NOT_CP932.search(text) if name == "cp932" else None
            if stray is not None:
                return EncodingFault(_find_line(path, before, name) + text.count("\n", 0, stray.start()), False)
            is_plain = not decoder.getstate()[0]
            foreign += _count_foreign(text) if foreign < _CONVINCING else 0
        before += len(chunk)
    return _find_last_fault(path, decoder, before)


def _refuse_long_lines(path: Path) -> Iterator[bytes]:
    """Read a file in chunks; a line that the engine might pass over without a word is refused."""
    length = 0
    for chunk in _read_chunks(path):
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        length = len(chunk) - end - 1 if end >= 0 else length + len(chunk)
        if length > _LONGEST_LINE:
            raise SourceError(
                "a line of {file} is longer than {most} MB; check where its lines end",
                file=path,
                most=_LONGEST_LINE >> 20,
            )
        yield chunk


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
    with rewriting(path, directory) as place:
        decoder = codecs.getincrementaldecoder(name)()
        handle, rewritten = tempfile.mkstemp(prefix="text-", suffix=".csv", dir=place)
        try:
            with os.fdopen(handle, "wb") as out:
                for chunk in _read_chunks(path):
                    out.write(decoder.decode(chunk).encode("utf-8"))
                out.write(decoder.decode(b"", final=True).encode("utf-8"))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(rewritten)
            raise
    return Path(rewritten)


@contextlib.contextmanager
def rewriting(path: Path, directory: Path | None) -> Iterator[Path]:
    """Give the directory in which the rows of a file may be written anew; a full disk is one line.

    Error: SourceError without a directory: rows are never written where the steward did not allow it.
    """
    if directory is None:
        raise SourceError(
            "{file} must be rewritten as UTF-8, but there is no place for it: the working directory cannot be written"
            " to; name a spill directory",
            file=path,
        )
    try:
        yield directory
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SourceError(
                "no space is left in {directory} to rewrite {file} as UTF-8; name another spill directory",
                directory=directory,
                file=path,
            ) from None
        raise


class FileGrows(Exception):  # noqa: N818  (reads as a fact in `except FileGrows`)
    """A file has more bytes than it had when it was opened."""


class _EndingFile:
    """A file that may be read up to the size it has now: one that somebody goes on writing would never end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._size = file, os.fstat(file.fileno()).st_size

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        found = self._file.read(size)
        if self._file.tell() > self._size:
            raise FileGrows
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacking .gz; what goes wrong becomes a SourceError of one line."""
    try:
        with path.open("rb") as file:
            is_packed = path.suffix.lower() == ".gz"
            yield cast(IO[bytes], gzip.GzipFile(fileobj=cast(IO[bytes], _EndingFile(file)))) if is_packed else file
    except FileGrows:
        raise SourceError("{file}: changes while it is read; copy it, and give the copy", file=path) from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise SourceError("{file} is not a complete gzip file; make or copy it again", file=path) from None
    except OSError as error:
        reason = describe_refusal(error)
        raise SourceError(
            "{file} cannot be read ({reason}); check that you may read it", file=path, reason=reason
        ) from None


def _read_chunks(path: Path) -> Iterator[bytes]:
    with open_bytes(path) as file:
        left = None if path.suffix.lower() == ".gz" else path.stat().st_size  # packed: see open_bytes
        while chunk := file.read(CHUNK):
            if left is not None:
                left -= len(chunk)
                if left < 0:
                    raise SourceError("{file}: changes while it is read; copy it, and give the copy", file=path)
            yield chunk
