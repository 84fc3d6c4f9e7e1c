"""Published tables as files. The one file of this room that knows a file engine; no rows of a source come here."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np
from numpy.typing import NDArray

from sudare.errors import ReleaseError
from sudare.releases.frame import Coded, Frame

Format = Literal["parquet", "csv"]

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
    arrays, picks, labels = _split(frame, types or {})
    options = _OPTIONS[file_format]
    if metadata:
        options += f", KV_METADATA {{{', '.join(f'{_name(key)}: {_text(text)}' for key, text in metadata.items())}}}"
    with _engine(path) as engine:
        engine.register("published", arrays)
        engine.execute(f"COPY (SELECT {picks} FROM published) TO ({_text(str(path))}) ({options})", labels)


def read_frame(path: Path) -> Frame:
    """Read a published table back; texts become codes and labels."""
    reader = "read_parquet" if path.suffix == ".parquet" else "read_csv"
    options = "" if path.suffix == ".parquet" else ", all_varchar = true, header = true"
    with _engine(path) as engine:
        found = engine.execute(f"SELECT * FROM {reader}({_text(_literal(path))}{options})").fetchnumpy()
    return Frame({name: _column(values) for name, values in found.items()})


def _split(
    frame: Frame, types: Mapping[str, str]
) -> tuple[dict[str, NDArray[np.generic]], str, list[list[str | None]]]:
    """Codes go to the engine as numbers and become labels there, in order and in parallel."""
    arrays: dict[str, NDArray[np.generic]] = {}
    picks, labels = [], []
    for position, (name, column) in enumerate(frame.columns.items()):
        inside = f"c{position}"
        if isinstance(column, Coded):
            arrays[inside] = column.codes
            labels.append(column.labels.tolist())
            picks.append(f"list_extract(${len(labels)}::VARCHAR[], {inside} + 1) AS {_name(name)}")
        else:
            arrays[inside] = column
            typed = f"CAST({inside} AS {types[name]})" if name in types else inside
            picks.append(f"{typed} AS {_name(name)}")
    return arrays, ", ".join(picks), labels


def _column(values: NDArray[np.generic]) -> Coded | NDArray[np.generic]:
    plain = np.ma.getdata(values)
    if plain.dtype != np.object_ or (plain.size and isinstance(plain[0], bytes | bytearray)):  # geometries stay
        return values if np.ma.getmaskarray(values).any() else plain
    is_missing = np.ma.getmaskarray(values) | np.fromiter((one is None for one in plain), bool, plain.size)
    found, codes = np.unique(plain[~is_missing].astype(str), return_inverse=True)
    whole = np.full(plain.size, found.size, dtype=np.int64)
    whole[~is_missing] = codes
    labels = found.astype(object)
    return Coded(whole, np.append(labels, [None]) if is_missing.any() else labels)


@contextlib.contextmanager
def _engine(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    engine = duckdb.connect(config={"preserve_insertion_order": "true"})
    try:
        yield engine
    except duckdb.Error as error:
        if "No space left" in str(error) or "File too large" in str(error):
            raise ReleaseError("no space is left to write {file}; free some and try again", file=path.name) from None
        raise ReleaseError(
            "{file} cannot be written or read as a table; check the disk, and that the file is whole", file=path.name
        ) from None
    finally:
        engine.close()


def _literal(path: Path) -> str:
    """A path in which no character stands for others: the engine reads patterns."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
