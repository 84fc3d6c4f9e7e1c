"""Delimited text files on the storage of a cluster: cut by the rules for files of this machine, or refused in one line.

The driver looks at the beginning and the end of every file, and finds the delimiter, the names of the columns and the
encoding there as `delimited` and `files` do. A file that would have to be written anew (titles above the names, totals
below the rows, lines with different ends) is refused: a file of the cluster is read as it stands.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sudare.errors import SourceError
from sudare.sources.delimited import TAIL_BYTES, Layout, find_other_lines, judge_layout
from sudare.sources.files import BYTE_ORDER_MARKS, NOT_CP932, TRIED_ENCODINGS, find_codec
from sudare.sources.spark_storage import SparkStorage, StoredFile
from sudare.text import join, text

TEXT_ENDINGS = frozenset({".csv", ".tsv", ".txt"})
_JAVA_NAMES: Mapping[str, str] = {"cp932": "windows-31j", "euc_jp": "EUC-JP"}
_HEAD_BYTES = 1 << 18  # of the beginning of a file, by which it is judged


@dataclass(frozen=True, kw_only=True)
class TextFiles:
    """Text files that can be read: those of each layout, the names of the columns, and the encoding."""

    layouts: Mapping[Layout, tuple[str, ...]]
    names: tuple[str, ...]
    codec: str
    java_encoding: str

    def read(self, session: Any, root: str) -> Any:
        """Read all files, columns as texts matched by name; a line that does not fit is an error, not a row with holes.

        `root` is the folder below which the names of folders tell columns.
        """
        frames = [self._read_layout(session, layout, paths, root) for layout, paths in self.layouts.items()]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.unionByName(other)
        return frame

    def _read_layout(self, session: Any, layout: Layout, paths: Sequence[str], root: str) -> Any:
        columns = ", ".join(f"`{name.replace('`', '``')}` STRING" for name in layout.names)
        options = {
            "header": True, "enforceSchema": True, "sep": layout.delimiter, "quote": '"', "escape": '"',
            "multiLine": True, "mode": "FAILFAST", "nullValue": "", "encoding": self.java_encoding, "basePath": root,
        }  # fmt: skip
        return session.read.options(**options).schema(columns).csv(list(paths))


def find_text_files(storage: SparkStorage, files: Sequence[StoredFile], encoding: str | None) -> TextFiles:
    """Look at the beginning and the end of every file.

    Error: SourceError if one is empty, cannot be decoded, has other columns than the first, or lines that are no rows.
    """
    heads = {file: storage.read_head(file, _HEAD_BYTES) for file in files}
    codec = _find_codec(heads, encoding)
    layouts: dict[Layout, list[str]] = {}
    first: Layout | None = None
    for file, head in heads.items():
        sample = _decode(head, codec)
        layout = judge_layout(sample, named=file.name)
        first = first or layout
        if sorted(layout.names) != sorted(first.names):
            raise SourceError(
                "{file} has other columns than {first}; make them alike, or read the files apart",
                file=file.name,
                first=files[0].name,
            )
        if find_other_lines(sample, partial(_read_tail, storage, file, head, codec)):
            raise SourceError(
                "{file} has lines above the names of its columns, totals below its rows, or lines that end in different"
                " ways; a file on a cluster is read as it stands: save it without them, or read it on this machine",
                file=file.name,
            )
        layouts.setdefault(layout, []).append(file.pattern)
    return TextFiles(
        layouts={layout: tuple(paths) for layout, paths in layouts.items()},
        names=first.names if first else (),
        codec=codec,
        java_encoding=storage.find_charset(_JAVA_NAMES.get(codec, codec)),
    )


def _find_codec(heads: Mapping[StoredFile, bytes], encoding: str | None) -> str:
    """Find one encoding for all files: the one given, else by byte order marks, else UTF-8, else CP932.

    Rows behind the beginning are looked at when they are copied.
    """
    if encoding is not None:
        choices: tuple[str, ...] = (find_codec(encoding),)
    else:
        marks = {_find_mark(head)[1] for head in heads.values()}
        choices = TRIED_ENCODINGS if marks <= {"", "utf-8"} else tuple(sorted(marks - {""}))
    for name in choices:
        if all(_fits(head, name) for head in heads.values()):
            return name
    unread = [file for file, head in heads.items() if not any(_fits(head, name) for name in choices)]
    raise SourceError(
        "{file} cannot be read as {tried}; name the encoding of the file, such as latin-1 or euc-jp",
        file=(unread or list(heads))[0].name,
        tried=join(choices, text(" or ")),
    )


def _find_mark(head: bytes) -> tuple[bytes, str]:
    """Give the byte order mark of a file and the encoding that it tells; nothing if it has none."""
    return next(((mark, name) for mark, name in BYTE_ORDER_MARKS if head.startswith(mark)), (b"", ""))


def _fits(head: bytes, codec: str) -> bool:
    try:
        decoded = _decode(head, codec)
    except UnicodeError:
        return False
    if codec == "cp932" and NOT_CP932.search(decoded):
        return False
    return codec.startswith(("utf-16", "utf-32")) or b"\0" not in head


def _decode(head: bytes, codec: str) -> str:
    """Decode the beginning of a file; the last line may be cut, and is left out then."""
    decoded = codecs.getincrementaldecoder("utf-8-sig" if codec == "utf-8" else codec)().decode(head)
    return decoded if len(head) < _HEAD_BYTES else decoded[: decoded.rfind("\n") + 1] or decoded


def _read_tail(storage: SparkStorage, file: StoredFile, head: bytes, codec: str) -> str:
    """Read the end of a file, from the beginning of a line on."""
    mark = _find_mark(head)[0] if codec != "utf-8" else b""  # says which byte comes first, at the beginning only
    return (mark + storage.read_tail(file, TAIL_BYTES)).decode(codec, "replace").partition("\n")[2]
