"""The only room that sees rows.

`open` gives a source: rows in an engine, seen through a schema. It counts, checks, recodes and writes; what it counts
goes on to the methods, and what it tells about rows stays with the steward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from sudare.errors import SourceError
from sudare.sources.base import Findings, Misfit, Progress, RecodedRows, Source

if TYPE_CHECKING:
    from sudare.schema import Schema
    from sudare.schema.propose import ColumnFacts, SchemaDraft, TableFacts
    from sudare.sources.engine import Engine
    from sudare.sources.table import TableSource

__all__ = ["Findings", "Misfit", "RecodedRows", "Source", "describe", "open", "propose_schema"]


def open(
    data: object,
    schema: Schema,
    *,
    encoding: str | None = None,
    count_column: str | None = None,
    memory_limit: str | None = None,
    spill_directory: str | Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    salt: bytes | None = None,
    same_rows: bool = False,
) -> TableSource:
    """Open a table: a path or pattern of CSV, TSV, text (also .gz) or Parquet files, or a pandas, Polars, Arrow frame.

    `encoding` of text files is found out if it is not given: by its byte order mark, else UTF-8, else
    CP932 (Shift_JIS).
    `count_column`: the table is already aggregated, and this column tells how many rows a row stands for.
    `memory_limit` ("2GB") and `spill_directory` bound the engine; `progress` is called with the share done of long
    work. `salt` fixes which rows of a person are dropped, for tests only. With `same_rows` a person above the limit
    keeps the same rows at every opening, so that k-anonymous releases can be compared; no budget is spent on them.

    Error: SourceError if the data cannot be read; columns that the schema declares are looked for when they are needed.

    >>> import tempfile
    >>> from sudare.schema import Attribute, Schema, Values
    >>> schema = Schema(name="pets", attributes=(Attribute(name="pet", domain=Values(("cat", "dog"))),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("pet\\ndog\\ncat\\ndog\\n")
    ...     with open(path, schema) as source:
    ...         source.count().dense()
    array([1, 2])
    """
    from sudare.sources.table import TableSource

    engine = open_engine(
        data,
        encoding=encoding,
        memory_limit=memory_limit,
        spill_directory=spill_directory,
        threads=threads,
        progress=progress,
    )
    try:
        return TableSource(engine, schema, count_column=count_column, salt=salt, same_rows=same_rows)
    except BaseException:
        engine.close()
        raise


_POSTGRES = ("postgresql://", "postgres://")


def open_engine(data: object, **reading: Any) -> Engine:
    """Open the engine that reads the data: a database where it lives there, else DuckDB over files and frames."""
    if isinstance(data, str) and data.startswith(_POSTGRES):
        server: Engine = _import_postgres().PostgresEngine(data, **reading)
        return server
    if _is_on_spark(data):
        return _open_spark(data, **reading)
    from sudare.sources.duckdb import DuckEngine

    return DuckEngine(data, **reading)


def _import_postgres() -> ModuleType:
    try:
        from sudare.sources import postgres
    except ImportError:
        raise SourceError('tables in PostgreSQL need psycopg; install it: pip install "sudare[postgres]"') from None
    return postgres


def _is_on_spark(data: object) -> bool:
    """Tell whether data are on a Spark cluster: its address, or a frame of its package, which is not imported here."""
    if isinstance(data, str):
        return data.startswith("spark://")
    return any(kind.__module__.split(".")[0] == "pyspark" for kind in type(data).__mro__)


def _open_spark(data: object, **reading: Any) -> Engine:
    try:
        from sudare.sources.spark import SparkEngine
    except ImportError as error:
        raise SourceError(
            "data on Spark need the package {package}; install it with: pip install 'sudare[spark]'",
            package=(error.name or "pyspark").split(".")[0],
        ) from None
    return SparkEngine(data, **reading)


def describe(data: object, **reading: Any) -> list[ColumnFacts]:
    """Tell what the columns of a table hold, for `schema init` to propose a schema. Holds values of the table.

    `reading` is what `open` takes to read data: encoding, memory_limit, spill_directory, threads, progress.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "ages.csv")
    ...     _ = path.write_text("age\\n31\\n7\\n\\n")
    ...     [(facts.name, facts.type, facts.low, facts.high, facts.has_missing) for facts in describe(path)]
    [('age', 'integer', 7, 31, True)]
    """
    return list(describe_table(data, **reading).columns)


def describe_table(data: object, **reading: Any) -> TableFacts:
    """Tell what a table holds: its columns, its first rows, what was not read as rows. Holds values of the table."""
    from sudare.sources.facts import describe_table as describe_rows

    engine = open_engine(data, **reading)
    try:
        return describe_rows(engine)
    finally:
        engine.close()


def propose_schema(data: object, *, name: str | None = None, **reading: Any) -> SchemaDraft:
    """Draft a schema for a table, as `sudare schema init` does: read it, correct it, then save it confirmed.

    `reading` is what `describe` takes. The draft holds values of the table, so it stays with the steward until then.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("pet\\ndog\\ncat\\ndog\\n")
    ...     print(propose_schema(path).name)
    pets
    """
    from sudare.schema.propose import draft

    facts = describe_table(data, **reading)
    if not facts.rows:
        raise SourceError(
            "{data} has names of columns but no row; a draft needs rows to look at", data=name_table(data)
        )
    return draft(facts, name or name_table(data))


def is_address(data: object) -> bool:
    """Tell whether data stand on a server, and not in a file or a frame.

    >>> is_address("postgresql://me@host/office?table=people"), is_address("people.csv")
    (True, False)
    """
    return isinstance(data, str) and data.startswith((*_POSTGRES, "spark://"))


def name_table(data: object) -> str:
    """Name a table by its file, or by its name on a server; no other part of an address is taken.

    >>> name_table("2024/people.csv.gz"), name_table("postgresql://me:secret@host/office?table=public.people")
    ('people', 'people')
    """
    if isinstance(data, str) and data.startswith(_POSTGRES):
        settings = dict(parse_qsl(data.partition("?")[2]))
        return settings.get("table", "query").split(".")[-1] or "table"
    return Path(str(data)).name.split(".")[0] if isinstance(data, str | Path) else "table"


def check_new_tables(address: str) -> None:
    """See that a new table can be named so on a server, before any work is done for it.

    Error: SourceError if the server does not answer, or there is such a table.
    """
    _import_postgres().check_new_table(address)


def write_tables(address: str, files: Sequence[Path], *, comment: str = "") -> dict[str, int]:
    """Copy published tables into new tables on a server, in one transaction; give the rows of each.

    One file becomes the table that the address names; of several, each has the name of its file behind it.
    """
    from sqlglot import exp

    from sudare.sources.duckdb import DuckEngine
    from sudare.sources.engine import ROWS

    with contextlib.ExitStack() as stack:
        tables = {}
        for file in files:
            engine = stack.enter_context(contextlib.closing(DuckEngine(file)))
            rows = engine.stream(exp.select(*(column.column_id for column in engine.columns)).from_(ROWS))
            tables["" if len(files) == 1 else f"_{file.stem}"] = (engine.columns, rows)
        written: dict[str, int] = _import_postgres().write_tables(address, tables, comment=comment)
        return written
