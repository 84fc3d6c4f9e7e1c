"""What stands behind FROM: how DuckDB reads files and frames, and which columns they have.

Names of columns are read here and handed to the engine by position, because engines rename columns that differ only in
case. Workbooks, and text files with titles or totals, are first written anew into scratch files. Nothing here runs a
query by itself.
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
from sudare.sources.delimited import Layout, has_other_lines, read_layout, rewrite_rows
from sudare.sources.engine import Column, Family
from sudare.sources.excel import write_sheet
from sudare.sources.files import Files, find_encoding, rewrite_as_utf8, rewriting
from sudare.text import Text, Words

FRAME = "sudare_frame"
"""The name under which a frame is registered."""

RunQuery = Callable[[str], list[tuple[Any, ...]]]

_FRAME_PACKAGES = ("pandas", "polars", "pyarrow")
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
_VIEW_TYPES: Mapping[Family, str] = {"text": "VARCHAR", "float": "DOUBLE", "moment": "TIMESTAMP", "wide": "HUGEINT"}


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What stands behind FROM, and the names of its columns in order."""

    clause: str
    names: tuple[str, ...]
    data_name: Words  # for messages
    kind: str
    originals: Mapping[str, Path] = field(default_factory=dict)  # the file that each file of the clause was made of
    has_rows: bool = False  # known here; an engine that finds none has not understood the file
    notes: tuple[Text, ...] = ()  # lines that were not read as rows
    has_chosen_names: bool = False  # the steward said which line holds them

    def select(self, described: Sequence[tuple[Any, ...]]) -> tuple[str, tuple[Column, ...]]:
        """Write the SELECT of the raw rows under Sudare's own names and few types; give its columns too.

        `described` is the engine's own description of the clause: (name, type, ...) by position.
        """
        columns, selected = [], []
        for position, (name, (engine_name, engine_type, *_)) in enumerate(zip(self.names, described, strict=True)):
            column = _make_column(name, f"c{position}", str(engine_type).strip('"'))
            value = exp.to_identifier(engine_name, quoted=True).sql("duckdb")
            if view_type := _VIEW_TYPES.get(column.family):
                value = f"CAST({value} AS {view_type})"
            selected.append(f"{value} AS {column.column_id}")
            columns.append(column)
        return f"SELECT {', '.join(selected)} FROM {self.clause}", tuple(columns)


def _make_column(name: str, column_id: str, engine_type: str) -> Column:
    word = re.match(r"[A-Z_]+", engine_type)
    family = "other" if "[" in engine_type else _FAMILIES.get(word.group() if word else "", "other")
    if re.match(r"TIMESTAMP\w* WITH TIME ZONE", engine_type):
        family = "other"  # on which day a moment falls depends on the zone, so the steward must say
    digits, scale = map(int, re.findall(r"\d+", engine_type)) if family == "decimal" else (0, 0)
    short_type = engine_type.split("(")[0]
    return Column(name=name, column_id=column_id, family=family, type=short_type, digits=digits, scale=scale)


def scan_files(files: Files, encoding: str | None, scratch: Path | None, run_query: RunQuery) -> tuple[Scan, object]:
    """Say how the engine reads files; for Arrow also give the table, which it reads from memory."""
    match files.kind:
        case "parquet":
            return scan_parquet(files, run_query), None
        case "json":
            return scan_json(files, run_query), None
        case "arrow":
            return scan_arrow(files)
        case "excel":
            return scan_books(files, scratch), None
        case _:
            return scan_text(files, encoding, scratch), None


def _add_partitions(files: Files, names: tuple[str, ...]) -> tuple[str, ...]:
    """Add the columns that the names of folders tell, in the order in which the engine gives them.

    Error: SourceError if the files have one of these columns too.
    """
    both = sorted(set(names) & set(files.partitions))
    if both:
        raise SourceError(
            "{data}: column {name} stands in the files and in the names of their folders; take one out",
            data=files.name,
            name=both[0],
        )
    return (*names, *sorted(files.partitions))


def _write_partitions(files: Files) -> str:
    return f"hive_partitioning = {'true' if files.partitions else 'false'}, hive_types_autocast = false"


def _refuse_other_columns(file: Path, files: Files) -> SourceError:
    return SourceError(
        "{file} has other columns than {first}; make them alike, or read the files apart",
        file=file,
        first=files.paths[0],
    )


def _place_in_scratch(path: Path, number: int, scratch: Path, files: Files) -> Path:
    """Choose a scratch file in folders of the same names, which tell columns."""
    folders = [part for part in path.parts[:-1] if "=" in part] if files.partitions else []
    folder = scratch.joinpath(*folders)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / f"rows-{number}.csv"


# --- text files and workbooks -----------------------------------------------------------------------------------------


def scan_text(files: Files, encoding: str | None, scratch: Path | None) -> Scan:
    """Read text files, all columns as text. Files in other encodings are rewritten into `scratch` first.

    Error: SourceError if a file is empty, cannot be decoded, or has other columns than the first.
    """
    read: list[tuple[Path, Path]] = []
    notes: list[Text] = []
    for number, path in enumerate(files.paths):
        codec = find_encoding(path, encoding)
        utf8 = path if codec == "utf-8" else rewrite_as_utf8(path, codec, scratch)
        if files.lines is not None or has_other_lines(utf8):
            with rewriting(path, scratch) as place:
                target = _place_in_scratch(path, number, place, files)
                notes += rewrite_rows(utf8, target, original=path, lines=files.lines)
            utf8 = target
        elif utf8 != path and files.partitions:
            utf8 = utf8.rename(_place_in_scratch(path, number, utf8.parent, files))
        read.append((path, utf8))
    return _scan_delimited(files, read, notes)


def scan_books(files: Files, scratch: Path | None) -> Scan:
    """Read a sheet of every workbook, through text files in `scratch`.

    Error: SourceError if one cannot be read, or has other columns than the first.
    """
    read: list[tuple[Path, Path]] = []
    notes: list[Text] = []
    for number, path in enumerate(files.paths):
        with rewriting(path, scratch) as place:
            target = _place_in_scratch(path, number, place, files)
            notes += write_sheet(path, target, sheet=files.sheet, lines=files.lines)
        read.append((path, target))
    return _scan_delimited(files, read, notes)


def _scan_delimited(files: Files, read: Sequence[tuple[Path, Path]], notes: Sequence[Text]) -> Scan:
    """Read UTF-8 files; each is given with the file that it was made of. Columns are matched by name."""
    originals: dict[str, Path] = {}
    layouts: dict[Layout, list[str]] = {}
    first: Layout | None = None
    has_rows = False
    for path, utf8 in read:
        originals[str(utf8)] = path
        layout = read_layout(utf8, "utf-8", original=path)
        first, has_rows = first or layout, has_rows or not layout.is_empty
        if sorted(layout.names) != sorted(first.names):
            raise _refuse_other_columns(path, files)
        layouts.setdefault(layout, []).append(str(utf8))
    names = first.names if first else ()
    parts = [_write_read_csv(layout, paths, names, files) for layout, paths in layouts.items()]
    clause = parts[0] if len(parts) == 1 else f"({' UNION ALL '.join(f'SELECT * FROM {part}' for part in parts)})"
    return Scan(
        clause=clause,
        names=_add_partitions(files, names),
        data_name=files.name,
        kind="text",
        originals=originals,
        has_rows=has_rows,
        notes=tuple(notes),
        has_chosen_names=files.lines is not None,
    )


def _write_read_csv(layout: Layout, paths: Sequence[str], names: Sequence[str], files: Files) -> str:
    columns = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(len(layout.names)))
    delimiter = quote_text(layout.delimiter)
    read = (
        f"read_csv({_quote_paths(paths)}, auto_detect = false, header = true, delim = {delimiter}, quote = '\"', "
        f"escape = '\"', nullstr = '', columns = {{{columns}}}, {_write_partitions(files)})"
    )
    if layout.names == tuple(names):
        return read
    order = [layout.names.index(name) for name in names]
    own = [f"c{at} AS c{position}" for position, at in enumerate(order)]
    folders = [exp.to_identifier(key, quoted=True).sql("duckdb") for key in sorted(files.partitions)]
    return f"(SELECT {', '.join([*own, *folders])} FROM {read})"


def _quote_paths(paths: Sequence[str]) -> str:
    return f"[{', '.join(quote_text(glob.escape(path)) for path in paths)}]"


def quote_text(value: str) -> str:
    """Write a text as SQL."""
    return exp.Literal.string(value).sql("duckdb")


# --- Parquet ------------------------------------------------------------------------------------------------------


def scan_parquet(files: Files, run_query: RunQuery) -> Scan:
    """Read Parquet files, columns matched by name.

    Error: SourceError if a file is empty, or has other columns than the first.
    """
    for path in files.paths:
        if path.stat().st_size == 0:
            raise SourceError("{file} is empty; it is not a Parquet file", file=path)
    names: tuple[str, ...] | None = None
    for path in files.paths:
        nodes = run_query(f"SELECT name, num_children FROM parquet_schema({_quote_paths([str(path)])})")
        own_names = _list_top_names(nodes)
        names = names if names is not None else own_names
        if sorted(own_names) != sorted(names):
            raise _refuse_other_columns(path, files)
    by_name = ", union_by_name = true" if len(files.paths) > 1 else ""
    paths = _quote_paths([str(path) for path in files.paths])
    clause = f"read_parquet({paths}, binary_as_string = true, {_write_partitions(files)}{by_name})"
    originals = {str(path): path for path in files.paths}
    names = _add_partitions(files, names or ())
    return Scan(clause=clause, names=names, data_name=files.name, kind="parquet", originals=originals)


def _list_top_names(nodes: Sequence[tuple[str, int | None]]) -> tuple[str, ...]:
    """List the children of the root, from the nodes of a schema listed depth first."""
    names, waiting = [], 0
    for name, children in nodes[1:]:
        if waiting == 0:
            names.append(name)
        else:
            waiting -= 1
        waiting += children or 0
    return tuple(names)


# --- JSON lines and Arrow ---------------------------------------------------------------------------------------------

_LONGEST_OBJECT = 1 << 26  # bytes of one line


def scan_json(files: Files, run_query: RunQuery) -> Scan:
    """Read JSON lines: an object a line, all values as text. Every line is asked for its keys, so that none is lost.

    Error: SourceError if a line is no object.
    """
    paths = _quote_paths([str(path) for path in files.paths])
    options = f"format = 'newline_delimited', maximum_object_size = {_LONGEST_OBJECT}"
    lines = f"read_json_objects({paths}, {options}, hive_partitioning = false)"
    kinds = run_query(f"SELECT json_type(json), COUNT(*) FROM {lines} GROUP BY ALL")
    if any(kind != "OBJECT" for kind, _ in kinds):
        raise SourceError("{data} holds lines that are no JSON objects; every line must be one object", data=files.name)
    keys = run_query(f"SELECT DISTINCT UNNEST(json_keys(json)) AS k FROM {lines} ORDER BY k")
    names = tuple(key for (key,) in keys)
    if not names:
        raise SourceError("{file} is empty; a table needs at least one row", file=files.name)
    folded = [name.lower() for name in names]
    if twice := next((name for name in names if folded.count(name.lower()) > 1), None):
        raise SourceError(
            "{data} has keys that differ from {name} only in case; rename them", data=files.name, name=twice
        )
    columns = ", ".join(f"{quote_text(name)}: 'VARCHAR'" for name in names)
    clause = f"read_json({paths}, {options}, columns = {{{columns}}}, {_write_partitions(files)})"
    originals = {str(path): path for path in files.paths}
    names = _add_partitions(files, names)
    return Scan(clause=clause, names=names, data_name=files.name, kind="json", originals=originals)


def scan_arrow(files: Files) -> tuple[Scan, object]:
    """Read Arrow and Feather files into one table, columns matched by name.

    Error: SourceError if pyarrow is not there, or a file is damaged or has other columns than the first.
    """
    if find_spec("pyarrow") is None:
        raise SourceError("{data} is an Arrow file: install pyarrow to read it, or save it as Parquet", data=files.name)
    import pyarrow
    from pyarrow import feather

    if files.partitions:
        raise SourceError("{data}: folders that name columns need Parquet, text or JSON files", data=files.name)
    tables: list[Any] = []
    for path in files.paths:
        try:
            table = feather.read_table(path, memory_map=True)
            table.validate(full=True)  # an offset that points outside would end the process, not the reading
        except (pyarrow.ArrowException, OSError):
            raise SourceError("{file} is damaged, or is not an Arrow file; make or copy it again", file=path) from None
        if tables and sorted(table.column_names) != sorted(tables[0].column_names):
            raise _refuse_other_columns(path, files)
        tables.append(table.select(tables[0].column_names) if tables else table)
    try:
        frame, names = take_frame(pyarrow.concat_tables(tables, promote_options="permissive"))
    except pyarrow.ArrowException:
        raise SourceError(
            "the files of {data} hold other types in one column; read them apart", data=files.name
        ) from None
    return Scan(clause=FRAME, names=names, data_name=files.name, kind="frame"), frame


# --- frames -------------------------------------------------------------------------------------------------------


def take_frame(data: object) -> tuple[Any, tuple[str, ...]]:
    """Give a frame as the engine takes it, and the names of its columns; its package is never imported here.

    Error: SourceError if it is none, or names a column twice.
    """
    packages = {kind.__module__.split(".")[0] for kind in type(data).__mro__}
    package = next((name for name in _FRAME_PACKAGES if name in packages), None)
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
