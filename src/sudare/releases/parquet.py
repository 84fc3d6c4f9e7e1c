"""Published tables as files. The one file of this room that knows a file engine; no rows of a source come here."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np
from numpy.typing import NDArray

from sudare.errors import ReleaseError
from sudare.releases.frame import Coded, Frame

Format = Literal["parquet", "csv"]

DAYS = np.dtype("datetime64[D]")
MOST_LISTED = 10_000  # labels that the engine is given as a list: it copies the list for every 2,048 rows
_OPTIONS = {"parquet": "FORMAT parquet, COMPRESSION zstd", "csv": "FORMAT csv, HEADER true"}


def write_frame(
    frame: Frame,
    path: Path,
    *,
    file_format: Format,
    metadata: Mapping[str, str] | None = None,
    types: Mapping[str, str] | None = None,
) -> None:
    """Write a published table, rows in the order given; a Parquet file can carry metadata.

    `types` name the types of columns of objects, which a table without rows would not show.
    """
    arrays, columns, labels = _split(frame, types or {})
    options = _OPTIONS[file_format]
    if metadata:
        pairs = ", ".join(f"{_quote_name(key)}: {_quote_text(value)}" for key, value in metadata.items())
        options += f", KV_METADATA {{{pairs}}}"
    with _open_engine(lambda: path) as engine:
        engine.register("published", arrays)
        engine.execute(f"COPY (SELECT {columns} FROM published) TO ({_quote_text(str(path))}) ({options})", labels)


def read_frame(path: Path) -> Frame:
    """Read a published table back; texts become codes and labels."""
    return read_frames([path])[path.stem]


TableSize = tuple[Path, int, int, int]  # of a file its rows, its columns, and how many of these are texts


def read_frames(
    paths: Sequence[Path], *, check: Callable[[Iterable[TableSize]], None] = lambda _: None
) -> dict[str, Frame]:
    """Read published tables by the stems of their names, with one engine: starting one costs more than a small file.

    `check` sees the sizes of the Parquet files before anything else is read of them.
    """
    frames, current = {}, Path()
    with _open_engine(lambda: current) as engine:
        for current in paths:
            if current.suffix == ".parquet":
                check([_read_size(engine, current)])
            columns = engine.execute(f"SELECT * FROM {_scan(current)}").fetchnumpy()
            frames[current.stem] = Frame({name: _read_column(values) for name, values in columns.items()})
    return frames


def _read_size(engine: duckdb.DuckDBPyConnection, path: Path) -> TableSize:
    """How large a Parquet file says it is: a small file may unpack to any number of rows."""
    name = _quote_text(_escape_pattern(path))
    rows = engine.execute(f"SELECT num_rows FROM parquet_file_metadata({name})").fetchall()
    kinds = engine.execute(f"SELECT type FROM parquet_schema({name}) WHERE type IS NOT NULL").fetchall()
    return path, sum(int(count) for (count,) in rows), len(kinds), sum(kind == "BYTE_ARRAY" for (kind,) in kinds)


def read_groups(path: Path, names: Sequence[str]) -> tuple[Frame, NDArray[np.int64]]:
    """Read the distinct combinations of some columns of a published table, and how many rows each has.

    The engine groups them, so that a table larger than memory can be counted.
    """
    chosen = ", ".join(map(_quote_name, names))
    counted = _quote_name("rows of " + " ".join(names))  # no column is called that
    with _open_engine(lambda: path) as engine:
        found = engine.execute(f"SELECT {chosen}, COUNT(*) AS {counted} FROM {_scan(path)} GROUP BY ALL").fetchnumpy()
    *columns, sizes = found.values()
    frame = Frame({name: _read_column(values) for name, values in zip(names, columns, strict=True)})
    return frame, np.asarray(np.ma.getdata(sizes), dtype=np.int64)


def read_columns(path: Path) -> tuple[str, ...]:
    """Name the columns of a published table."""
    with _open_engine(lambda: path) as engine:
        described = engine.execute(f"DESCRIBE SELECT * FROM {_scan(path)}").fetchall()
    return tuple(str(column[0]) for column in described)


def _scan(path: Path) -> str:
    """Write the call that reads a file; of a CSV every column is text."""
    if path.suffix == ".parquet":
        return f"read_parquet({_quote_text(_escape_pattern(path))})"
    return f"read_csv({_quote_text(_escape_pattern(path))}, all_varchar = true, header = true)"


def _split(
    frame: Frame, types: Mapping[str, str]
) -> tuple[dict[str, NDArray[np.generic]], str, list[list[str | None]]]:
    """Give codes to the engine as numbers; they become labels there, in order and in parallel."""
    arrays: dict[str, NDArray[np.generic]] = {}
    columns, labels = [], []
    for position, (name, column) in enumerate(frame.columns.items()):
        column_id = f"c{position}"
        if isinstance(column, Coded) and len(column.labels) > MOST_LISTED:
            arrays[column_id] = column.labels[column.codes]
            columns.append(f"CAST({column_id} AS VARCHAR) AS {_quote_name(name)}")
        elif isinstance(column, Coded):
            arrays[column_id] = column.codes
            labels.append(column.labels.tolist())
            columns.append(f"list_extract(${len(labels)}::VARCHAR[], {column_id} + 1) AS {_quote_name(name)}")
        else:
            is_day = column.dtype == DAYS
            arrays[column_id] = column.astype("datetime64[us]") if is_day else column  # the engine knows no days
            kind = "DATE" if is_day else types.get(name)
            typed = column_id if kind is None else f"CAST({column_id} AS {kind})"
            columns.append(f"{typed} AS {_quote_name(name)}")
    return arrays, ", ".join(columns), labels


def _read_column(values: NDArray[np.generic]) -> Coded | NDArray[np.generic]:
    plain = np.ma.getdata(values)
    if plain.dtype != np.object_ or (plain.size and isinstance(plain[0], bytes | bytearray)):  # geometries stay
        return values if np.ma.getmaskarray(values).any() else plain
    is_missing = np.ma.getmaskarray(values) | np.fromiter((value is None for value in plain), bool, plain.size)
    texts, text_codes = np.unique(plain[~is_missing].astype(str), return_inverse=True)
    codes = np.full(plain.size, texts.size, dtype=np.int64)
    codes[~is_missing] = text_codes
    labels = texts.astype(object)
    return Coded(codes, np.append(labels, [None]) if is_missing.any() else labels)


@contextlib.contextmanager
def _open_engine(which: Callable[[], Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """An engine; its errors name the file that `which` gives."""
    engine = duckdb.connect(config={"preserve_insertion_order": "true", "temp_directory": ""})
    try:
        yield engine
    except duckdb.Error as error:
        if "No space left" in str(error) or "File too large" in str(error):
            raise ReleaseError("no space is left to write {file}; free some and try again", file=which().name) from None
        raise ReleaseError(
            "{file} cannot be written or read as a table; check the disk, and that the file is complete",
            file=which().name,
        ) from None
    finally:
        engine.close()


def _escape_pattern(path: Path) -> str:
    """Write a path so that no character stands for others: the engine reads patterns."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
