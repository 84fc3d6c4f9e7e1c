"""DuckDB, embedded: the one file that imports it.

Queries run in a thread of their own, so that Ctrl-C stops them at once and progress can be told. What DuckDB says when
it fails can quote rows; it is read for its kind and the number of a line, and never passed on, kept or logged.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import duckdb
from duckdb.func import SPECIAL
from numpy.typing import NDArray
from sqlglot import exp

from sudare.errors import ParameterError, SourceError
from sudare.sources.base import Progress
from sudare.sources.engine import ROWS, Column, Lookup
from sudare.sources.files import files_of
from sudare.sources.scan import FRAME, Scan, frame_of, scan_parquet, scan_text

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
            reason=os.strerror(error.errno or 0),
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
