"""How DuckDB reads files and frames: the FROM clause, and what the columns are really called.

Names are read here and handed to the engine by position, because engines rename columns that differ only in case.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

import duckdb
from duckdb.func import SPECIAL
from numpy.typing import NDArray
from sqlglot import exp

from sudare.errors import ParameterError, SourceError
from sudare.sources.base import Progress
from sudare.sources.engine import ROWS, Column, Family, Lookup
from sudare.sources.files import Files, Layout, encoding_of, files_of, layout_of, rewrite
from sudare.text import describe_refusal

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


# DuckDB, embedded: the one file that imports it.
#
# Queries run in a thread of their own, so that Ctrl-C stops them at once and progress can be told. What DuckDB says
# when it fails can quote rows; it is read for its kind and the number of a line, and never passed on, kept or logged.


T = TypeVar("T")

_TICK = 0.1  # seconds between looks at the progress
_START = 1.0  # seconds after which a thread that has not begun never will
_FETCH = 10_000  # rows
_MEMORY = re.compile(r"\d+(\.\d+)? ?([KMGT]i?B|%)", re.IGNORECASE)
_KEYS = {
    "text": "CAST(k AS VARCHAR)",
    "integer": "CAST(k AS BIGINT)",
    "day": "CAST('1970-01-01' AS DATE) + CAST(k AS INTEGER)",
}
_TYPES = {"text": "VARCHAR", "integer": "BIGINT", "wide": "HUGEINT", "float": "DOUBLE", "day": "DATE",
          "moment": "TIMESTAMP", "boolean": "BOOLEAN"}  # fmt: skip
_FORMS = {
    "parquet": "FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false",
    "csv": "FORMAT csv, HEADER true, USE_TMP_FILE false",
}
_PROGRESS = ("SET enable_progress_bar = true", "SET enable_progress_bar_print = false", "SET progress_bar_time = 0")
_MOST_THREADS = 1024
_REMEMBERED = 1 << 16  # values whose meaning was asked


class DuckEngine:
    """An embedded database over files or a frame. See `engine.Engine` for its verbs."""

    def __init__(
        self,
        data: object,
        *,
        encoding: str | None = None,
        memory_limit: str | None = None,
        spill_directory: str | Path | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._progress = progress
        self._lock = threading.RLock()
        self._frame: object = None  # the engine only borrows it
        scratch = _scratch(spill_directory)
        try:
            self._connection = _connect(scratch, memory_limit, threads, has_progress=progress is not None)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        self._closed = weakref.finalize(self, _release, self._connection, scratch, os.getpid())
        self._scan = Scan(clause="", names=(), called=_called(data), kind="frame")
        try:
            self._scan = self._scanned(data, encoding, scratch)
            described = self._ask(f"DESCRIBE SELECT * FROM {self._scan.clause}")
            view, self._columns = self._scan.view(described)
            self._ask(f"CREATE TEMP VIEW {ROWS} AS {view}")
            if self._scan.has_rows and not self._ask(f"SELECT 1 FROM {ROWS} LIMIT 1"):
                raise SourceError("the lines of {data} cannot be cut; check its delimiters and quotes", data=self.name)
        except BaseException:
            self.close()
            raise

    def _scanned(self, data: object, encoding: str | None, scratch: Path) -> Scan:
        if not isinstance(data, str | Path):
            self._frame, names = frame_of(data)
            self._run(lambda: self._connection.register(FRAME, self._frame))
            return Scan(clause=FRAME, names=names, called=_called(data), kind="frame")
        files = files_of(data)
        return scan_text(files, encoding, scratch) if files.kind == "text" else scan_parquet(files, self._ask)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data."""
        return self._columns

    @property
    def name(self) -> str:
        """What the data are called in messages."""
        return self._scan.called

    @property
    def has_named_columns(self) -> bool:
        """Tell whether column names are certainly names; the first line of a text file might be a row."""
        return self._scan.kind != "text"

    def arrays(self, query: exp.Query) -> dict[str, NDArray[Any]]:
        """Run a query; columns as arrays, masked where a value is NULL."""
        text = query.sql("duckdb")
        found: dict[str, NDArray[Any]] = self._run(lambda: self._connection.execute(text).fetchnumpy(), is_told=True)
        return found

    def stream(self, query: exp.Query) -> Iterator[tuple[Any, ...]]:
        """Run a query; rows as Python values, a few at a time. Finish one stream before the next query."""
        text = query.sql("duckdb")
        rows = self._run(lambda: self._connection.execute(text).fetchmany(_FETCH), is_told=True)
        while rows:
            yield from rows
            rows = self._run(lambda: self._connection.fetchmany(_FETCH))

    def keep(self, name: str, query: exp.Query) -> None:
        """Store the result of a query as a temporary table."""
        self._ask(f"CREATE OR REPLACE TEMP TABLE {name} AS {query.sql('duckdb')}", is_told=True)

    def add(self, lookup: Lookup) -> None:
        """Store a lookup as a temporary table."""
        keys = lookup.keys.astype("int64") if lookup.key == "day" else lookup.keys
        value = "CAST(v AS VARCHAR)" if lookup.value == "text" else "CAST(v AS BIGINT)"
        with self._lock:
            self._run(lambda: self._connection.register("sudare_loaded", {"k": keys, "v": lookup.values}))
            self._ask(
                f"CREATE OR REPLACE TEMP TABLE {lookup.name} AS "
                f"SELECT {_KEYS[lookup.key]} AS k, {value} AS v FROM sudare_loaded"
            )
            self._run(lambda: self._connection.unregister("sudare_loaded"))

    def define(self, name: str, meaning: Callable[[object], int | None], column: Column) -> None:
        """Make a Python function of the values of a column callable in queries."""
        kind = f"DECIMAL({column.digits},{column.scale})" if column.family == "decimal" else _TYPES[column.family]
        remembered = functools.lru_cache(maxsize=_REMEMBERED)(meaning)
        self._run(
            lambda: self._connection.create_function(
                name, remembered, [kind], "BIGINT", null_handling=SPECIAL, side_effects=False
            )
        )

    def save(self, query: exp.Query, path: Path, *, form: Literal["parquet", "csv"]) -> None:
        """Write the result of a query to a file."""
        place = exp.Literal.string(str(path)).sql("duckdb")
        self._ask(f"COPY ({query.sql('duckdb')}) TO {place} ({_FORMS[form]})", is_told=True)

    def close(self) -> None:
        """Give back memory and temporary files."""
        self._closed()
        self._frame = None

    # --- running ------------------------------------------------------------------------------------------------

    def _ask(self, text: str, *, is_told: bool = False) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._run(lambda: self._connection.execute(text).fetchall(), is_told=is_told)
        return found

    def _run(self, work: Callable[[], T], *, is_told: bool = False) -> T:
        """Do work in a thread; stop it when the caller is interrupted; translate what goes wrong.

        The progress of work over the rows is told; of the rest, which is short, it is not.
        """
        if not self._closed.alive:
            raise SourceError("the source is closed; open it again")
        done: list[T] = []
        failed: list[Exception] = []
        finished = threading.Event()  # not Thread.join: an interrupt inside it can call a running thread finished
        worker = threading.Thread(target=_work, args=(work, done, failed, finished), daemon=True)
        with self._lock:
            try:
                worker.start()
                while not finished.wait(_TICK):
                    if is_told:
                        self._tell_progress(self._connection.query_progress())
            except BaseException:
                self._stop(worker, finished)
                raise
        if failed:
            raise self._translated(failed.pop())
        if is_told:
            self._tell_progress(100)
        return done.pop()

    def _stop(self, worker: threading.Thread, finished: threading.Event) -> None:
        """Interrupt again and again: a query that has not begun yet does not hear the first time."""
        deadline = time.monotonic() + _START
        while not finished.is_set() and (worker.ident is not None or time.monotonic() < deadline):
            self._connection.interrupt()
            finished.wait(_TICK / 2)

    def _tell_progress(self, percent: float) -> None:
        if self._progress is not None and percent >= 0:
            self._progress(min(1.0, percent / 100))

    def _translated(self, error: Exception) -> SourceError:
        """Say what went wrong in one line of our own: DuckDB's may quote rows."""
        text = str(error)
        line = re.search(r"CSV Error on Line: (\d+)", text)
        if re.search(r"no space left|disk (quota|full)|max_temp_directory_size", text, re.IGNORECASE):
            return SourceError(
                "no space is left on the disk for the work on {data}; free some, or name another spill directory",
                data=self.name,
            )
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
            return SourceError(
                "{data} needs more memory than is allowed; raise the memory limit, or name a spill directory "
                "with free space",
                data=self.name,
            )
        if line is not None:
            return SourceError(
                "line {line} of {file} is not cut like the first one; check its delimiters and quotes",
                line=line.group(1),
                file=self._file(text),
            )
        return self._damaged(error, text)

    def _damaged(self, error: Exception, text: str) -> SourceError:
        if self._scan.kind == "text" and "invalid state" in text:
            return SourceError(
                "{file} has lines that end in different ways, or a quote without end; save it again as CSV",
                file=self._file(text),
            )
        if self._scan.kind == "parquet" or "arquet" in text:
            return SourceError("{data} is damaged, or is no Parquet file; make or copy it again", data=self.name)
        return SourceError(
            "{data} could not be read ({kind}); check that it is whole", data=self.name, kind=type(error).__name__
        )

    def _file(self, text: str) -> str:
        found = re.search(r"^\s*file ?= ?(.+)$", text, re.MULTILINE)
        known = self._scan.originals.get(found.group(1).strip()) if found else None
        return str(known) if known is not None else self.name


def _work(work: Callable[[], T], done: list[T], failed: list[Exception], finished: threading.Event) -> None:
    try:
        done.append(work())
    except Exception as error:
        failed.append(error.with_traceback(None))
    finally:
        finished.set()


def _called(data: object) -> str:
    return str(data) if isinstance(data, str | Path) else f"the {type(data).__name__}"


def _scratch(spill_directory: str | Path | None) -> Path:
    """A directory of our own, readable by this user only."""
    if spill_directory is not None and not Path(spill_directory).is_dir():
        raise ParameterError("spill directory ({directory}) must be a directory that exists", directory=spill_directory)
    try:
        return Path(tempfile.mkdtemp(prefix="sudare-", dir=spill_directory))
    except OSError as error:
        raise ParameterError(
            "spill directory ({directory}) cannot be written to ({reason}); name another",
            directory=spill_directory or tempfile.gettempdir(),
            reason=describe_refusal(error),
        ) from None


def _connect(
    scratch: Path, memory_limit: str | None, threads: int | None, *, has_progress: bool
) -> duckdb.DuckDBPyConnection:
    if memory_limit is not None and not _MEMORY.fullmatch(memory_limit.strip()):
        raise ParameterError('memory limit ({limit}) must be like "2GB" or "500MB"', limit=memory_limit)
    if threads is not None and (isinstance(threads, bool) or threads not in range(1, _MOST_THREADS + 1)):
        raise ParameterError(
            "threads ({threads}) must be a whole number between 1 and {most}", threads=threads, most=_MOST_THREADS
        )
    settings: dict[str, Any] = {
        "temp_directory": str(scratch),
        "autoinstall_known_extensions": False,  # nothing is ever downloaded
        "autoload_known_extensions": False,
        "python_enable_replacements": False,  # a name in a query is never a Python variable
        "pandas_analyze_sample": 0,  # columns of objects are texts, whatever their first rows hold
    }
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit.strip()
    if threads is not None:
        settings["threads"] = threads
    try:
        connection = duckdb.connect(":memory:", config=settings)
        for setting in _PROGRESS if has_progress else ():
            connection.execute(setting)
        return connection
    except duckdb.Error:
        raise ParameterError(
            "the engine does not start with memory limit {limit} and threads {threads}; change them",
            limit=memory_limit,
            threads=threads,
        ) from None


def _release(connection: duckdb.DuckDBPyConnection, scratch: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child has a copy of the handle, not the engine
        connection.close()
        shutil.rmtree(scratch, ignore_errors=True)
