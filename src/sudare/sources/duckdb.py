"""DuckDB, embedded: the one file of this room that imports it. How it reads files and frames, and how queries run.

Names of columns are read here and handed to the engine by position, because engines rename columns that differ only in
case. Queries run in a thread of their own, so that Ctrl-C stops them at once and progress can be shown. What DuckDB
says when it fails can quote rows; it is read for its kind and the number of a line, and never passed on, kept or
logged.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sudare.errors import ParameterError, SourceError
from sudare.scratch import ScratchDirectory, find_place, make_scratch
from sudare.sources.base import Progress
from sudare.sources.dialect import Dialect
from sudare.sources.engine import NUMBERED_ROWS, ROW, ROWS, Column, Lookup
from sudare.sources.files import find_files
from sudare.sources.scan import FRAME, Scan, quote_text, scan_files, take_frame
from sudare.sources.sql import Expression
from sudare.sources.worker import run_in_thread
from sudare.text import Text, Words, describe_refusal, text

# --- the engine -----------------------------------------------------------------------------------------------------

T = TypeVar("T")

_ROWS_PER_FETCH = 10_000
_MEMORY_LIMIT = re.compile(r"\d+(\.\d+)? ?([KMGT]i?B|%)", re.IGNORECASE)
_KEY_TYPES = {"text": "VARCHAR", "integer": "BIGINT", "wide": "HUGEINT", "float": "DOUBLE", "moment": "TIMESTAMP"}
_COPY_OPTIONS = {
    "parquet": "FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false",
    "csv": "FORMAT csv, HEADER true, USE_TMP_FILE false",
}
_PROGRESS_SETTINGS = (
    "SET enable_progress_bar = true",
    "SET enable_progress_bar_print = false",
    "SET progress_bar_time = 0",
)
_MOST_THREADS = 1024


class DuckDialect(Dialect):
    """DuckDB reads texts without failing, and quickest by its own functions."""

    def is_nan(self, value: Expression) -> Expression:
        """Tell whether a double is NaN."""
        return exp.IsNan(this=value)

    def read_text(self, text: Expression, kind: exp.DataType) -> Expression:
        """Read a text; NULL if it cannot be read."""
        return exp.TryCast(this=text, to=kind)


DIALECT = DuckDialect("duckdb")


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
        scratch = _make_scratch(spill_directory)
        place = None if scratch is None else scratch.path
        try:
            self._connection = _connect(place, memory_limit, threads, has_progress=progress is not None)
        except BaseException:
            if scratch is not None:
                scratch.remove()
            raise
        self._close = weakref.finalize(self, _close_connection, self._connection, scratch, os.getpid())
        self._scan = Scan(clause="", names=(), data_name=_name_data(data), kind="frame")
        try:
            self._scan = self._scan_data(data, encoding, place)
            described = self._execute(f"DESCRIBE SELECT * FROM {self._scan.clause}")
            selection, self._columns = self._scan.select(described)
            self._execute(f"CREATE TEMP VIEW {ROWS} AS {selection}")
            # Numbers are given in the order of the data, whatever the threads do: DuckDB keeps the order of insertion.
            self._execute(f"CREATE TEMP VIEW {NUMBERED_ROWS} AS SELECT *, ROW_NUMBER() OVER () AS {ROW} FROM {ROWS}")
            if self._scan.has_rows and not self._execute(f"SELECT 1 FROM {ROWS} LIMIT 1"):
                raise SourceError(
                    "the lines of {data} cannot be split into columns; check its delimiters and quotes", data=self.name
                )
        except BaseException:
            self.close()
            raise

    def _scan_data(self, data: object, encoding: str | None, scratch: Path | None) -> Scan:
        if not isinstance(data, str | Path):
            self._frame, names = take_frame(data)
            scan = Scan(clause=FRAME, names=names, data_name=_name_data(data), kind="frame")
        else:
            scan, self._frame = scan_files(find_files(data), encoding, scratch, self._execute)
        if self._frame is not None:
            self._run(lambda: self._connection.register(FRAME, self._frame))
        return scan

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data."""
        return self._columns

    @property
    def name(self) -> Words:
        """The name of the data in messages."""
        return self._scan.data_name

    @property
    def has_named_columns(self) -> bool:
        """Tell whether column names are certainly names; the first line of a text file might be a row."""
        return self._scan.kind != "text" or self._scan.has_chosen_names

    @property
    def dialect(self) -> Dialect:
        """How DuckDB spells a query."""
        return DIALECT

    @property
    def notes(self) -> tuple[Text, ...]:
        """What in the files was not read as rows: for the steward."""
        return self._scan.notes

    def arrays(self, query: exp.Query) -> dict[str, NDArray[Any]]:
        """Run a query; columns as arrays, masked where a value is NULL."""
        text = DIALECT.render(query)
        arrays: dict[str, NDArray[Any]] = self._run(
            lambda: self._connection.execute(text).fetchnumpy(), shows_progress=True
        )
        return arrays

    def stream(self, query: exp.Query) -> Iterator[tuple[Any, ...]]:
        """Run a query; rows as Python values, a few at a time. Finish one stream before the next query."""
        text = DIALECT.render(query)
        rows = self._run(lambda: self._connection.execute(text).fetchmany(_ROWS_PER_FETCH), shows_progress=True)
        while rows:
            yield from rows
            rows = self._run(lambda: self._connection.fetchmany(_ROWS_PER_FETCH))

    def keep(self, name: str, query: exp.Query) -> None:
        """Store the result of a query as a temporary table."""
        self._execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {DIALECT.render(query)}", shows_progress=True)

    def add(self, lookup: Lookup) -> None:
        """Store a lookup as a temporary table."""
        keys, key = _load_keys(lookup)
        value = "CAST(v AS VARCHAR)" if lookup.value_type == "text" else "CAST(v AS BIGINT)"
        with self._lock:
            self._run(lambda: self._connection.register("sudare_loaded", {"k": keys, "v": lookup.values}))
            self._execute(
                f"CREATE OR REPLACE TEMP TABLE {lookup.name} AS SELECT {key} AS k, {value} AS v FROM sudare_loaded"
            )
            self._run(lambda: self._connection.unregister("sudare_loaded"))

    def save(self, query: exp.Query, path: Path, *, file_format: Literal["parquet", "csv"]) -> None:
        """Write the result of a query to a file."""
        copy = f"COPY ({DIALECT.render(query)}) TO {quote_text(str(path))} ({_COPY_OPTIONS[file_format]})"
        self._execute(copy, shows_progress=True)

    def close(self) -> None:
        """Give back memory and temporary files."""
        self._close()
        self._frame = None

    # --- running ------------------------------------------------------------------------------------------------

    def _execute(self, text: str, *, shows_progress: bool = False) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._run(
            lambda: self._connection.execute(text).fetchall(), shows_progress=shows_progress
        )
        return rows

    def _run(self, work: Callable[[], T], *, shows_progress: bool = False) -> T:
        """Do work in a thread; stop it when the caller is interrupted; translate what goes wrong.

        Work over the rows shows progress; the rest is short.
        """
        if not self._close.alive:
            raise SourceError("the source is closed; open it again")
        look = (lambda: self._show_progress(self._connection.query_progress())) if shows_progress else None
        with self._lock:
            result = run_in_thread(work, stop=self._connection.interrupt, translate=self._translate, look=look)
        if shows_progress:
            self._show_progress(100)
        return result

    def _show_progress(self, percent: float) -> None:
        if self._progress is not None and percent >= 0:
            self._progress(min(1.0, percent / 100))

    def _translate(self, error: Exception) -> SourceError:
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
                "line {line} of {file} cannot be split into the columns of the first line; check its delimiters and"
                " quotes",
                line=line.group(1),
                file=self._find_file(text),
            )
        return self._name_damage(error, text)

    def _name_damage(self, error: Exception, text: str) -> SourceError:
        if self._scan.kind == "text" and "invalid state" in text:
            return SourceError(
                "{file} has mixed line endings, or a quote that is not closed; save it again as CSV",
                file=self._find_file(text),
            )
        if self._scan.kind == "json" or "JSON" in text:
            line = re.search(r"line (\d+)", text)
            return SourceError(
                "line {line} of {file} is no JSON object; every line must be one object in braces",
                line=line.group(1) if line else "?",
                file=self._find_file(text),
            )
        if "nvalid string encoding" in text:
            return SourceError(
                "a column of {data} holds bytes that are no text in UTF-8; write it as text, or leave it out",
                data=self.name,
            )
        if self._scan.kind == "parquet" or "arquet" in text:
            return SourceError("{data} is damaged, or is not a Parquet file; make or copy it again", data=self.name)
        return SourceError(
            "{data} could not be read ({kind}); check that it is complete", data=self.name, kind=type(error).__name__
        )

    def _find_file(self, message: str) -> Words:
        named = re.search(r"^\s*file ?= ?(.+)$", message, re.MULTILINE)
        original = self._scan.originals.get(named.group(1).strip()) if named else None
        return str(original) if original is not None else self.name


def write_parquet(rows: Path, types: Mapping[str, str], path: Path) -> None:
    """Write a CSV file without names, in which all but NULL is quoted, as Parquet with these names and types."""
    columns = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(len(types)))
    named = (
        f"CAST(c{position} AS {kind}) AS {exp.to_identifier(name, quoted=True).sql('duckdb')}"
        for position, (name, kind) in enumerate(types.items())
    )
    read = (
        f"read_csv({quote_text(glob.escape(str(rows)))}, auto_detect = false, header = false, delim = ',', "
        f"quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, columns = {{{columns}}})"
    )
    query = f"SELECT {', '.join(named)} FROM {read}"
    try:
        with contextlib.closing(duckdb.connect(":memory:", config={"temp_directory": str(path.parent)})) as connection:
            connection.execute(f"COPY ({query}) TO {quote_text(str(path))} ({_COPY_OPTIONS['parquet']})")
    except duckdb.Error:
        failure = SourceError("{file} cannot be written; check that there is space left", file=path.name)
    else:
        return
    raise failure


def _load_keys(lookup: Lookup) -> tuple[NDArray[Any], str]:
    """Give the keys as DuckDB takes them, and the SQL that makes them of their type."""
    if lookup.key_type == "day":
        return lookup.keys.astype("datetime64[D]").astype("int64"), "CAST('1970-01-01' AS DATE) + CAST(k AS INTEGER)"
    if lookup.key_type in ("wide", "decimal", "moment"):
        keys = np.array([str(key) for key in lookup.keys], dtype=np.object_)
        is_decimal = lookup.key_type == "decimal"
        key_type = f"DECIMAL({lookup.digits},{lookup.scale})" if is_decimal else _KEY_TYPES[lookup.key_type]
        return keys, f"CAST(k AS {key_type})"
    return lookup.keys, f"CAST(k AS {_KEY_TYPES[lookup.key_type]})"


def _name_data(data: object) -> Words:
    return str(data) if isinstance(data, str | Path) else text("the {kind}", kind=type(data).__name__)


def _make_scratch(spill_directory: str | Path | None) -> ScratchDirectory | None:
    """Make a directory for rows where the steward allows it; None where nothing was named and none can be made."""
    place = find_place(spill_directory)
    if place is None:
        return None
    if not place.is_dir():
        raise ParameterError("spill directory ({directory}) must be a directory that exists", directory=place)
    try:
        return make_scratch(place)
    except OSError as error:
        raise ParameterError(
            "spill directory ({directory}) cannot be written to ({reason}); name another",
            directory=place,
            reason=describe_refusal(error),
        ) from None


def _connect(
    scratch: Path | None, memory_limit: str | None, threads: int | None, *, has_progress: bool
) -> duckdb.DuckDBPyConnection:
    if memory_limit is not None and not _MEMORY_LIMIT.fullmatch(memory_limit.strip()):
        raise ParameterError('memory limit ({limit}) must be like "2GB" or "500MB"', limit=memory_limit)
    if threads is not None and (isinstance(threads, bool) or threads not in range(1, _MOST_THREADS + 1)):
        raise ParameterError(
            "threads ({threads}) must be a whole number between 1 and {most}", threads=threads, most=_MOST_THREADS
        )
    settings: dict[str, Any] = {
        "temp_directory": "" if scratch is None else str(scratch),  # "": nothing is written, memory must do
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
        for setting in _PROGRESS_SETTINGS if has_progress else ():
            connection.execute(setting)
        return connection
    except duckdb.Error:
        raise ParameterError(
            "the engine does not start with memory limit {limit} and threads {threads}; change them",
            limit=memory_limit,
            threads=threads,
        ) from None


def _close_connection(connection: duckdb.DuckDBPyConnection, scratch: ScratchDirectory | None, owner: int) -> None:
    if os.getpid() == owner:  # a forked child has a copy of the handle, not the engine
        connection.close()
        if scratch is not None:
            scratch.remove()
