"""Which files a path or pattern stands for, and of what kind they are."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sudare.errors import SourceError

TEXT = frozenset({".csv", ".tsv", ".txt"})
PARQUET = frozenset({".parquet", ".pq"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """The files of one table, in the order of their names."""

    kind: Literal["text", "parquet"]
    paths: tuple[Path, ...]
    called: str


def files_of(data: str | Path) -> Files:
    """Find the files of a path or pattern.

    Error: SourceError if there is none, or one cannot be read as a table.
    """
    called = str(data)
    if "://" in called:
        raise SourceError(
            "{data} is not a file; give a path, a pattern or a frame", data=called.split("://")[0] + "://..."
        )
    literal = Path(data).expanduser()
    paths = [literal] if literal.exists() else sorted(Path(name) for name in glob.glob(str(literal), recursive=True))
    if not paths:
        is_pattern = glob.has_magic(called)
        raise SourceError(
            "no file matches {data}; check the pattern" if is_pattern else "there is no file {data}; check the path",
            data=called,
        )
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise SourceError("{data} matches text and Parquet files; read them one kind at a time", data=called)
    return Files(kind=kinds.pop(), paths=tuple(paths), called=called)


def _kind(path: Path) -> Literal["text", "parquet"]:
    if path.is_dir():
        raise SourceError("{file} is a directory; give the files in it, as {file}/*.csv or {file}/*.parquet", file=path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
        if suffixes[-1:] and suffixes[-1] in PARQUET:
            raise SourceError("{file} is Parquet packed again as gzip; unpack it", file=path)
        if not suffixes:
            return "text"
    if suffixes[-1:] and suffixes[-1] in TEXT:
        return "text"
    if suffixes[-1:] and suffixes[-1] in PARQUET:
        return "parquet"
    raise SourceError(
        "{file} is of a kind that cannot be read; save it as .csv, .tsv, .txt (also .gz) or .parquet", file=path
    )
