"""Spark: the one file that imports pyspark. How it reaches a cluster, how it reads and writes, and how queries run.

Rows stay in the cluster: counts of cells come to the driver, and the distinct values that SQL cannot read.

A row is known by its place in a file that does not change: the hash of the file's name and the row's index in it. Plain
Parquet is read where it lies. Any other plan (a text file, a join, a sample) may give other rows when it is computed
again, after the loss of a worker or in the next query; so it is written once as Parquet into a scratch directory that
the cluster shares, and read from there. Everything that is kept between queries follows from such files and a fixed
key, so a worker that dies takes nothing with it that cannot be computed again, and is counted once.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow
import pyspark
from numpy.typing import NDArray
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.classic.dataframe import DataFrame
from sqlglot import exp

from sudare.errors import ParameterError, SourceError
from sudare.sources.base import Progress
from sudare.sources.engine import NUMBERED_ROWS, ROW, ROWS, Column, Family, Lookup
from sudare.sources.spark_dialect import SparkDialect
from sudare.sources.spark_jobs import SparkJobs
from sudare.sources.spark_storage import SparkAddress, SparkStorage, escape_pattern, list_hosts, refuse_scratch
from sudare.sources.spark_text import TEXT_ENDINGS, find_text_files
from sudare.text import Words, text

# --- reaching a cluster ---------------------------------------------------------------------------------------------

_OLDEST_JAVA = 17
_SECONDS_TO_CONNECT = 10.0
_SECONDS_FOR_JAVA = 60.0

# Unless Spark's own configuration (spark-defaults.conf) says otherwise: no page that shows queries, no log with rows.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.executor.syncLogLevel.enabled": "true",
}
# For the queries of a source, in a session of their own.
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",  # an overflow is an error, not another number
    "spark.sql.caseSensitive": "true",
    "spark.sql.variable.substitute": "false",  # ${...} in a label is text
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # code=007 in a folder's name is not 7
    "spark.sql.files.ignoreCorruptFiles": "false",  # no row is lost in silence
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.legacy.javaCharsets": "true",  # CP932 and EUC-JP are read too
}


def connect(master: str) -> Any:
    """Give a session on a cluster: the one that this process has, or a new one.

    Error: SourceError if Java is missing or too old, no master answers, or the process is bound to another cluster.
    """
    context: Any = SparkContext._active_spark_context
    if context is not None and context._jsc is not None and not context._jsc.sc().isStopped():
        if context.master != master:
            raise SourceError(
                "this process already works with {other}; stop that session first, or give its DataFrame as the data",
                other=context.master,
            )
        return SparkSession(context)
    check_java()
    _check_master(master)
    try:
        return _start(master)
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise SourceError(
                "Spark's driver did not start; check spark.driver.memory and the options of Java in Spark's"
                " configuration"
            ) from None
        raise SourceError(
            "Spark did not start with the master {master}; check that it is a Spark {version} master, and Spark's"
            " configuration",
            master=master,
            version=pyspark.__version__.rpartition(".")[0],
        ) from None


def _start(master: str) -> Any:
    """Start the driver; nothing that it prints reaches the terminal."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    gateway = SparkContext._gateway or launch_gateway(  # type: ignore[no-untyped-call]
        SparkConf(loadDefaults=False), popen_kwargs=silent
    )
    conf = SparkConf(_jvm=gateway.jvm).setMaster(master).setAppName("sudare")
    conf.set("spark.ui.showConsoleProgress", "false")
    for key, value in _DEFAULTS.items():
        conf.setIfMissing(key, value)
    context = SparkContext(conf=conf, gateway=gateway)
    context.setLogLevel("OFF")
    return SparkSession(context)


def disconnect() -> None:
    """End the session of this process and its driver; sources that are open cannot be used afterwards."""
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if context is not None:
        context.stop()
    if gateway is not None:
        gateway.shutdown()
        driver = gateway.proc
        driver.stdin.close()  # for the driver the sign to end
        driver.wait()
    SparkContext._gateway = SparkContext._jvm = None


def check_java() -> None:
    """Look for Java, which Spark runs on.

    Error: SourceError if there is none, or one too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    try:
        found = subprocess.run(  # noqa: S603  (the Java that Spark itself would start)
            [java or "java", "-version"], capture_output=True, text=True, check=False, timeout=_SECONDS_FOR_JAVA
        )
    except (OSError, subprocess.TimeoutExpired):
        raise SourceError(
            "Spark needs Java {oldest} or newer, and none was found; install it (on Debian:"
            " apt install openjdk-17-jre-headless), or set JAVA_HOME",
            oldest=_OLDEST_JAVA,
        ) from None
    version = re.search(r'version "(?:1\.)?(\d+)', found.stderr + found.stdout)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        raise SourceError(
            "Spark needs Java {oldest} or newer, and {java} is version {version}; install a newer one, or set"
            " JAVA_HOME",
            oldest=_OLDEST_JAVA,
            java=java,
            version=version[1] if version else "?",
        )


def _check_master(master: str) -> None:
    """Try to reach a master; Spark itself would try for a minute."""
    for host, port in list_hosts(master.removeprefix("spark://")):
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT):
            return
    raise SourceError("no Spark master answers at {master}; check host and port, and that it runs", master=master)


# --- the engine -----------------------------------------------------------------------------------------------------

_FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double"), "float"),
    **dict.fromkeys(("string", "char", "varchar", "void"), "text"),
    "decimal": "decimal",
    "date": "day",
    "timestamp_ntz": "moment",
    "boolean": "boolean",
}
_KEY_TYPES = {
    "text": "STRING",
    "integer": "BIGINT",
    "wide": "DECIMAL(38,0)",
    "float": "DOUBLE",
    "day": "DATE",
    "moment": "TIMESTAMP_NTZ",
}
_ARROW_TYPES = {
    "text": pyarrow.string(),
    "integer": pyarrow.int64(),
    "wide": pyarrow.decimal128(38, 0),
    "float": pyarrow.float64(),
    "day": pyarrow.date32(),
    "moment": pyarrow.timestamp("us"),
}
_KINDS = {
    **dict.fromkeys(TEXT_ENDINGS, "text"),
    **dict.fromkeys((".parquet", ".pq", ""), "parquet"),
    ".orc": "orc",
}
_PLAIN_NODES = {"Project", "Filter", "SubqueryAlias"}  # each row of the plan is one row of its file
_INDEX_BITS = 31  # of a row in its file; the other 32 are for the file
_SEEDS = tuple(range(8))  # of the hash of a file's name: one under which all names differ is taken
_REPLACEMENT = "\ufffd"  # what Java reads for bytes that the encoding does not know
_SPREAD_KEYS = 1 << 21  # a lookup of more keys is not sent to every worker


class SparkEngine:
    """A Spark cluster over a path, a table or a DataFrame. See `engine.Engine` for its verbs."""

    has_named_columns = True  # but the first line of a text file might be a row

    def __init__(
        self,
        data: Any,
        *,
        encoding: str | None = None,
        memory_limit: str | None = None,
        spill_directory: str | Path | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if memory_limit is not None or threads is not None:
            raise ParameterError(
                "memory and threads of a cluster are set in Spark's configuration (spark.executor.memory,"
                " spark.executor.cores); leave the options out"
            )
        self.dialect = SparkDialect()
        self.name: Words = data if isinstance(data, str) else text("the Spark DataFrame")
        self._jobs = SparkJobs(self.name, progress)
        self._storage = SparkStorage(self.name, spill_directory)
        self._text_encoding = ""  # of text files
        self._kept: dict[str, Any] = {}
        self._numbers = itertools.count()
        self._is_closed = self._is_numbered = False
        try:
            frame = self._open(data, encoding)
            self._columns = _describe_columns(frame)
            rows, self._located = self._take_rows(frame)
            self._jobs.run(lambda: rows.createOrReplaceTempView(ROWS))
        except BaseException:
            self.close()
            raise

    def _open(self, data: Any, encoding: str | None) -> Any:
        """Give the data as a DataFrame of a session of our own, whose settings are the same everywhere."""
        address = SparkAddress.read(data) if isinstance(data, str) else None
        if address is None and not isinstance(data, DataFrame):
            raise SourceError(
                "data ({kind}) must be a DataFrame of a classic Spark session; of pandas on Spark take .to_spark(), and"
                " for Spark Connect give the address spark://...",
                kind=f"{type(data).__module__}.{type(data).__name__}",
            )
        root = data.sparkSession if address is None else self._jobs.run(lambda: connect(address.master))
        self._jobs.context = root.sparkContext
        self._session = self._jobs.run(lambda: _clone_session(root))
        self._storage.session = self._session
        if address is None:
            return self._jobs.run(lambda: _adopt(data, self._session))
        self._storage.named_scratch = address.scratch
        if address.table:
            return self._jobs.run(lambda: self._session.table(address.table))
        return self._jobs.run(lambda: self._read_path(address.path, encoding))

    def _read_path(self, path: str, encoding: str | None) -> Any:
        """Read files by their ending; a name without one, as writers of lakes give parts, is Parquet.

        Error: SourceError if they are of several kinds, or of one that is not read here.
        """
        files = self._storage.find_files(path)
        kinds = {_KINDS.get(file.ending) for file in files}
        kind = kinds.pop()
        if kinds:
            raise SourceError("{data} matches files of several kinds; read one kind at a time", data=self.name)
        if kind is None:
            raise SourceError(
                "{file} is of a kind that is not read on Spark; save it as .parquet, .orc, .csv, .tsv or .txt, or read"
                " it on this machine",
                file=next(file for file in files if file.ending not in _KINDS).name,
            )
        if kind == "text":
            found = find_text_files(self._storage, files, encoding)
            self._text_encoding, self.has_named_columns = found.codec, False
            return found.read(self._session, self._storage.find_root(path))
        if encoding is not None:
            raise ParameterError("encoding ({encoding}) is for text files; leave it out", encoding=encoding)
        read = self._session.read.option("mergeSchema", len(files) > 1)
        pattern = self._storage.find_pattern(path)
        return read.orc(pattern) if kind == "orc" else read.parquet(pattern)

    def _take_rows(self, frame: Any) -> tuple[Any, Any]:
        """Give the rows under Sudare's own names, without and with their place: plain Parquet, or a copy made once."""
        if frame.isStreaming:
            raise SourceError("{data} is a stream without an end; write it to a table first", data=self.name)
        values = [_select_column(field, column) for field, column in zip(frame.schema, self._columns, strict=True)]
        if not self._jobs.run(lambda: _is_plain(frame._jdf.queryExecution().analyzed())):
            copy = self._jobs.run(lambda: self._copy_rows(frame.select(*values)), shows_progress=True)
            frame = self._jobs.run(lambda: self._session.read.parquet(escape_pattern(copy)))
            values = [fn.col(column.column_id) for column in self._columns]
        place = frame.metadataColumn("_metadata")
        located = frame.select(*values, place["file_path"].alias("file"), place["row_index"].alias("index"))
        return frame.select(*values), located

    def _copy_rows(self, rows: Any) -> str:
        """Write rows once, and see that all of them are there: a directory that workers do not share loses some."""
        copy = f"{self._storage.make_scratch()}/rows"
        written = Observation()
        rows.observe(written, fn.count(fn.lit(1)).alias("rows")).write.parquet(copy)
        names = [column.column_id for column in self._columns if self._text_encoding]
        garbled = [fn.count_if(fn.contains(fn.col(name), fn.lit(_REPLACEMENT))) for name in names]
        rows_found, *garbled_rows = (
            self._session.read.parquet(escape_pattern(copy)).agg(fn.count(fn.lit(1)), *garbled).head()
        )
        if rows_found != written.get["rows"]:
            raise refuse_scratch(copy)
        if any(garbled_rows):
            raise SourceError(
                "{data} cannot be read as {encoding}; name the encoding of the file, such as cp932",
                data=self.name,
                encoding=self._text_encoding,
            )
        return copy

    # --- queries ------------------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the data."""
        return self._columns

    def arrays(self, query: exp.Query) -> dict[str, NDArray[Any]]:
        """Run a query of whole numbers; columns as arrays, masked where a value is NULL."""
        table = self._run(lambda: self._select(query).toArrow(), shows_progress=True)
        return {name: _to_array(table.column(name)) for name in table.column_names}

    def stream(self, query: exp.Query) -> Iterator[tuple[Any, ...]]:
        """Run a query; rows as Python values. Spark refuses a result that does not fit into the driver."""
        table = self._run(lambda: self._select(query).toArrow(), shows_progress=True)
        for batch in table.to_batches():
            try:
                rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            except (ValueError, OverflowError) as error:  # a day before the year 1, or after 9999
                raise self._jobs.translate(error) from None
            yield from rows

    def keep(self, name: str, query: exp.Query) -> None:
        """Keep the result of a query in the memory and on the disks of the workers; what is lost is computed again."""
        kept = self._run(lambda: self._select(query).persist())
        self._forget(name)
        self._kept[name] = kept
        self._run(lambda: kept.createOrReplaceTempView(name))

    def add(self, lookup: Lookup) -> None:
        """Send a lookup to every worker."""
        self._run(lambda: self._make_lookup(lookup).createOrReplaceTempView(lookup.name))

    def _make_lookup(self, lookup: Lookup) -> Any:
        is_decimal = lookup.key_type == "decimal"
        key_type = f"DECIMAL({lookup.digits},{lookup.scale})" if is_decimal else _KEY_TYPES[lookup.key_type]
        key_arrow = pyarrow.decimal128(lookup.digits, lookup.scale) if is_decimal else _ARROW_TYPES[lookup.key_type]
        keys = lookup.keys.astype("datetime64[D]") if lookup.key_type == "day" else lookup.keys
        table = pyarrow.table(
            {
                "k": pyarrow.array(keys.tolist(), key_arrow),
                "v": pyarrow.array(lookup.values.tolist(), _ARROW_TYPES[lookup.value_type]),
            }
        )
        schema = f"k {key_type}, v {_KEY_TYPES[lookup.value_type]}"
        frame = self._session.createDataFrame(table, schema=schema)
        return frame.hint("broadcast") if len(keys) <= _SPREAD_KEYS else frame

    def close(self) -> None:
        """Give back the memory of the workers and delete what was written for this source."""
        if self._is_closed or self._jobs.context is None:
            self._is_closed = True
            return
        self._is_closed = True
        with contextlib.suppress(SourceError):
            for name in list(self._kept):
                self._forget(name)
            self._jobs.run(self._storage.remove_scratch)

    def _forget(self, name: str) -> None:
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._jobs.run(lambda: kept.unpersist())

    def _run(self, work: Any, *, shows_progress: bool = False) -> Any:
        if self._is_closed:
            raise SourceError("the source is closed; open it again")
        return self._jobs.run(work, shows_progress=shows_progress)

    def _select(self, query: exp.Query) -> Any:
        tables = {table.name for table in query.find_all(exp.Table)}
        if NUMBERED_ROWS in tables and not self._is_numbered:
            self._number_rows()
        return self._session.sql(self.dialect.render(query))

    def _number_rows(self) -> None:
        """Give every row its identity: 32 bits of the hash of its file's name, then its index in that file.

        One look at the files finds a hash under which all names differ, and that no index is too large.
        """
        hashes = [fn.xxhash64(fn.col("file"), fn.lit(seed)).bitwiseAND(fn.lit(2**32 - 1)) for seed in _SEEDS]
        files = self._located.groupBy("file").agg(fn.max("index").alias("last"))
        facts = files.agg(fn.count(fn.lit(1)), fn.max("last"), *(fn.count_distinct(each) for each in hashes)).head()
        count, last, *distinct = facts
        if count not in distinct or (last or 0) >= 2**_INDEX_BITS:
            raise SourceError(
                "{data} has {files} files, too many or too long to tell its rows apart; write it as fewer or shorter"
                " Parquet files",
                data=self.name,
                files=count,
            )
        identity = fn.shiftleft(hashes[distinct.index(count)], _INDEX_BITS).bitwiseOR(fn.col("index"))
        numbered = self._located.withColumn(ROW, identity).drop("file", "index")
        numbered.createOrReplaceTempView(NUMBERED_ROWS)
        self._is_numbered = True

    # --- writing ------------------------------------------------------------------------------------------------

    def save(self, query: exp.Query, path: Path, *, file_format: Literal["parquet", "csv"]) -> None:
        """Write the result of a query: the workers write parts, and the driver puts their bytes together."""
        write = self._write_parquet if file_format == "parquet" else self._write_lines
        self._run(lambda: self._write_parts(write, query, path), shows_progress=True)

    def _write_parts(self, write: Any, query: exp.Query, path: Path) -> None:
        parts = f"{self._storage.make_scratch()}/parts-{next(self._numbers)}"
        write(self._select(query), parts, path)
        self._storage.remove(parts)

    def _write_lines(self, rows: Any, parts: str, path: Path) -> None:
        """Write CSV as RFC 4180 has it; NULL is nothing between two commas, an empty text a pair of quotes."""
        names = rows.columns
        fields = rows.toDF(*(f"f{index}" for index in range(len(names))))
        line = fn.concat_ws(",", *(_quote_field(fn.col(name), is_alone=len(names) == 1) for name in fields.columns))
        written = Observation()
        size = fn.coalesce(fn.sum(fn.octet_length(fn.col("line")) + fn.lit(1)), fn.lit(0))
        fields.select(line.alias("line")).observe(written, size.alias("bytes")).write.text(parts)
        if sum(part.getLen() for part in self._storage.list_parts(parts)) != written.get["bytes"]:
            raise refuse_scratch(parts)
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(names)
        self._storage.append_bytes(parts, path)

    def _write_parquet(self, rows: Any, parts: str, path: Path) -> None:
        """Write Parquet; the parts become row groups of one file, their bytes as they are."""
        written = Observation()
        watched = rows.observe(written, fn.count(fn.lit(1)).alias("rows"))
        watched.write.option("compression", "zstd").parquet(parts)
        if self._session.read.parquet(escape_pattern(parts)).count() != written.get["rows"]:
            raise refuse_scratch(parts)
        self._storage.join_parquet(parts, path)


def _clone_session(root: Any) -> Any:
    """Give a session with the settings of another and ours above them, and with views of its own."""
    session = SparkSession(root.sparkContext, root._jsparkSession.cloneSession())
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    return session


def _adopt(frame: Any, session: Any) -> Any:
    """Give the plan of a DataFrame as one of another session."""
    dataset = session.sparkContext._jvm.org.apache.spark.sql.classic.Dataset
    return type(frame)(dataset.ofRows(session._jsparkSession, frame._jdf.queryExecution().analyzed()), session)


def _is_plain(plan: Any) -> bool:
    """Tell whether each row of a plan is one row of a Parquet file, whenever it is computed."""
    kind = plan.getClass().getSimpleName()
    if kind == "LogicalRelation":
        relation = plan.relation()
        is_files = relation.getClass().getSimpleName() == "HadoopFsRelation"
        return is_files and str(relation.fileFormat().getClass().getSimpleName()) == "ParquetFileFormat"
    children = plan.children()
    return kind in _PLAIN_NODES and bool(plan.deterministic()) and _is_plain(children.apply(0))


def _describe_columns(frame: Any) -> tuple[Column, ...]:
    names = [field.name for field in frame.schema]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SourceError("the frame has two columns named {name}; rename one", name=repeated[0])
    return tuple(_make_column(field, f"c{position}") for position, field in enumerate(frame.schema))


def _make_column(field: Any, column_id: str) -> Column:
    spark_type = field.dataType.simpleString()
    word = re.match(r"\w+", spark_type)
    family = _FAMILIES.get(word[0] if word else "", "other")
    digits, scale = map(int, re.findall(r"\d+", spark_type)) if family == "decimal" else (0, 0)
    short_type = spark_type.split("(")[0].split("<")[0]
    return Column(name=field.name, column_id=column_id, family=family, type=short_type, digits=digits, scale=scale)


def _select_column(field: Any, column: Column) -> Any:
    """Name a column by its id; texts without the rules of a collation, floats as doubles."""
    value = fn.col(f"`{field.name.replace('`', '``')}`")
    if column.family in ("text", "float"):
        value = value.cast("string" if column.family == "text" else "double")
    elif "interval" in column.type or column.type == "variant":
        value = value.cast("string")  # cannot be written to a file otherwise
    return value.alias(column.column_id)


def _quote_field(field: Any, *, is_alone: bool) -> Any:
    value = field.cast("string")
    quoted = fn.concat(fn.lit('"'), fn.replace(value, fn.lit('"'), fn.lit('""')), fn.lit('"'))
    nothing = fn.lit('""' if is_alone else "")  # a line with nothing in it would not be read as a row
    is_special = value.rlike('[",\r\n]') | (value == fn.lit(""))
    return fn.when(value.isNull(), nothing).when(is_special, quoted).otherwise(value)


def _to_array(column: Any) -> NDArray[Any]:
    if not column.null_count:
        return np.asarray(column.to_numpy(), dtype=np.int64)
    values = np.asarray(column.fill_null(0).to_numpy(), dtype=np.int64)
    return np.ma.masked_array(values, mask=column.is_null().to_numpy())
