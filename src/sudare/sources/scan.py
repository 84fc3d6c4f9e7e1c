"""How DuckDB reads files and frames: the FROM clause, and what the columns are really called.

Names are read here and handed to the engine by position, because engines rename columns that differ only in case.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlglot import exp

from sudare.errors import SourceError
from sudare.sources.delimited import Layout, layout_of
from sudare.sources.engine import Column, Family
from sudare.sources.files import Files
from sudare.sources.text import encoding_of, rewrite

FRAME = "sudare_frame"
Ask = Callable[[str], list[tuple[Any, ...]]]

_PACKAGES = ("pandas", "polars", "pyarrow")
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(("UBIGINT", "HUGEINT"), "wide"),
    **dict.fromkeys(("VARCHAR", "ENUM", "UUID", "JSON", "NULL"), "text"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "moment"),
    "DECIMAL": "decimal",
    "BOOLEAN": "boolean",
    "DATE": "day",
}
_PLAIN: Mapping[Family, str] = {"text": "VARCHAR", "float": "DOUBLE", "moment": "TIMESTAMP", "wide": "HUGEINT"}


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What stands behind FROM, and the names of its columns in order."""

    clause: str
    names: tuple[str, ...]
    called: str
    kind: str
    originals: Mapping[str, Path] = field(default_factory=dict)
    has_rows: bool = False  # seen here; an engine that finds none has not understood the file

    def view(self, described: Sequence[tuple[Any, ...]]) -> tuple[str, tuple[Column, ...]]:
        """The SELECT of the raw rows under Sudare's own names and few types, and the columns that it gives.

        `described` is the engine's own description of the clause: (name, type, ...) by position.
        """
        columns, selected = [], []
        for position, (name, (engine_name, kind, *_)) in enumerate(zip(self.names, described, strict=True)):
            column = _column(name, f"c{position}", str(kind).strip('"'))
            quoted = exp.to_identifier(engine_name, quoted=True).sql("duckdb")
            plain = _PLAIN.get(column.family)
            selected.append(f"CAST({quoted} AS {plain}) AS {column.place}" if plain else f"{quoted} AS {column.place}")
            columns.append(column)
        return f"SELECT {', '.join(selected)} FROM {self.clause}", tuple(columns)


def _column(name: str, place: str, kind: str) -> Column:
    found = re.match(r"[A-Z_]+", kind)
    family = "other" if "[" in kind else _FAMILIES.get(found.group() if found else "", "other")
    if re.match(r"TIMESTAMP\w* WITH TIME ZONE", kind):
        family = "other"  # on which day a moment falls depends on the zone, so the steward must say
    digits, scale = map(int, re.findall(r"\d+", kind)) if family == "decimal" else (0, 0)
    return Column(name=name, place=place, family=family, type=kind.split("(")[0], digits=digits, scale=scale)


# --- text files ---------------------------------------------------------------------------------------------------


def scan_text(files: Files, encoding: str | None, scratch: Path) -> Scan:
    """Read text files, all columns as text. Files in other encodings are rewritten into `scratch` first.

    Error: SourceError if a file is empty, cannot be decoded, or has other columns than the first.
    """
    readable: dict[str, Path] = {}
    layouts: dict[Layout, list[str]] = {}
    first: Layout | None = None
    has_rows = False
    for path in files.paths:
        found = encoding_of(path, encoding)
        utf8 = path if found == "utf-8" else rewrite(path, found, scratch)
        readable[str(utf8)] = path
        layout = layout_of(utf8, "utf-8", called=path)
        first, has_rows = first or layout, has_rows or not layout.is_bare
        if sorted(layout.names) != sorted(first.names):
            raise SourceError(
                "{file} has other columns than {first}; make them alike, or read the files apart",
                file=path,
                first=files.paths[0],
            )
        layouts.setdefault(layout, []).append(str(utf8))
    names = first.names if first else ()
    parts = [_read_csv(layout, paths, names) for layout, paths in layouts.items()]
    clause = parts[0] if len(parts) == 1 else f"({' UNION ALL '.join(f'SELECT * FROM {part}' for part in parts)})"
    return Scan(clause=clause, names=names, called=files.called, kind="text", originals=readable, has_rows=has_rows)


def _read_csv(layout: Layout, paths: Sequence[str], names: Sequence[str]) -> str:
    columns = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(len(layout.names)))
    delimiter = _text(layout.delimiter)
    read = (
        f"read_csv({_list(paths)}, auto_detect = false, header = true, delim = {delimiter}, quote = '\"', "
        f"escape = '\"', nullstr = '', columns = {{{columns}}})"
    )
    if layout.names == tuple(names):
        return read
    order = [layout.names.index(name) for name in names]
    return f"(SELECT {', '.join(f'c{at} AS c{position}' for position, at in enumerate(order))} FROM {read})"


def _list(paths: Sequence[str]) -> str:
    return f"[{', '.join(_text(glob.escape(path)) for path in paths)}]"


def _text(value: str) -> str:
    return exp.Literal.string(value).sql("duckdb")


# --- Parquet ------------------------------------------------------------------------------------------------------


def scan_parquet(files: Files, ask: Ask) -> Scan:
    """Read Parquet files, columns matched by name.

    Error: SourceError if a file is empty, or has other columns than the first.
    """
    for path in files.paths:
        if path.stat().st_size == 0:
            raise SourceError("{file} is empty; it is no Parquet file", file=path)
    names: tuple[str, ...] | None = None
    for path in files.paths:
        schema = f"SELECT name, num_children FROM parquet_schema({_list([str(path)])})"
        found = _top_names(ask(schema))
        names = names if names is not None else found
        if sorted(found) != sorted(names):
            raise SourceError(
                "{file} has other columns than {first}; make them alike, or read the files apart",
                file=path,
                first=files.paths[0],
            )
    by_name = ", union_by_name = true" if len(files.paths) > 1 else ""
    paths = _list([str(path) for path in files.paths])
    clause = f"read_parquet({paths}, binary_as_string = true, hive_partitioning = false{by_name})"
    originals = {str(path): path for path in files.paths}
    return Scan(clause=clause, names=names or (), called=files.called, kind="parquet", originals=originals)


def _top_names(nodes: Sequence[tuple[str, int | None]]) -> tuple[str, ...]:
    """The children of the root, from the nodes of a schema listed depth first."""
    names, waiting = [], 0
    for name, children in nodes[1:]:
        if waiting == 0:
            names.append(name)
        else:
            waiting -= 1
        waiting += children or 0
    return tuple(names)


# --- frames -------------------------------------------------------------------------------------------------------


def frame_of(data: object) -> tuple[Any, tuple[str, ...]]:
    """Give a frame as the engine takes it, and the names of its columns; its package is never imported here.

    Error: SourceError if it is none, or names a column twice.
    """
    kinds = {kind.__module__.split(".")[0] for kind in type(data).__mro__}
    package = next((name for name in _PACKAGES if name in kinds), None)
    if package is None:
        raise SourceError(
            "data ({kind}) must be a path, a pattern, or a pandas, Polars or Arrow table", kind=type(data).__name__
        )
    if package == "polars" and find_spec("pyarrow") is None:
        raise SourceError("a Polars frame needs pyarrow; install it, or write the frame to Parquet")
    frame: Any = data
    if package == "polars" and hasattr(frame, "collect"):
        frame = frame.collect()
    if package == "pyarrow" and hasattr(frame, "read_all"):
        frame = frame.read_all()  # a reader can be read once only
    names = tuple(map(str, frame.schema.names if package == "pyarrow" else frame.columns))
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SourceError("the frame has two columns named {name}; rename one", name=repeated[0])
    return frame, names
