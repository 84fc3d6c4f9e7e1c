"""What an engine must offer so that the queries of this room run on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sudare.schema.arrays import Booleans
from sudare.sources.dialect import Dialect
from sudare.text import Words

Family = Literal["text", "integer", "wide", "decimal", "float", "boolean", "day", "moment", "other"]
"""Types as the queries see them. integer: within int64; wide: longer integers; moment: a time of a day, no zone."""

ROWS = "sudare_rows"
"""The table or view that holds the raw rows; its columns are named by `Column.column_id`."""

NUMBERED_ROWS = "sudare_numbered_rows"
"""The same rows with one column more, `ROW`. Apart from ROWS, because an identity can cost an engine time."""

ROW = "sudare_row"
"""The identity of a row: never NULL, different for all rows, and the same in every query of one source.

It is a key that the engine keeps (a place in the files, a tuple id inside one snapshot) or the number of a row in a
copy that was made once. A running number that a query makes anew is none: engines may scan in another order the next
time. Of any type that can be compared, joined and cast to text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of the data: its name there, its name in `ROWS` (`column_id`), and what kind of values it holds.

    `digits` and `scale` are those of a decimal type: digits in all, and behind the point.
    """

    name: str
    column_id: str
    family: Family
    type: str
    digits: int = 0
    scale: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Lookup:
    """A table of unique keys and their values: columns `k` and `v`.

    Keys of type text are str, day datetime64[D] or date, moment datetime, wide int, decimal Decimal with `scale`
    places behind the point and `digits` in all. None is no key.
    """

    name: str
    keys: NDArray[Any]
    values: NDArray[Any]
    key_type: Literal["text", "integer", "wide", "decimal", "float", "day", "moment"]
    value_type: Literal["text", "integer"] = "integer"
    digits: int = 0
    scale: int = 0


class Engine(Protocol):
    """A database that can count. Queries arrive as sqlglot trees and leave as NumPy arrays or files.

    Queries read `ROWS`, or `NUMBERED_ROWS` where they need to know rows again, and the tables that `keep` and `add`
    made. No Python runs inside an engine: what SQL cannot read is brought once as distinct values (`unread.py`).

    Error: whatever goes wrong inside becomes a SourceError of one line that holds no value of the table.
    """

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of `ROWS`, in the order of the data."""

    @property
    def name(self) -> Words:
        """What the data are called in messages: a path, or the kind of frame."""

    @property
    def has_named_columns(self) -> bool:
        """Tell whether column names are certainly names; the first line of a text file might be a row."""

    @property
    def dialect(self) -> Dialect:
        """How this engine spells a query: `dialect.render(query)`."""

    def arrays(self, query: exp.Query) -> dict[str, NDArray[Any]]:
        """Run a query of whole numbers; columns as arrays, masked where a value is NULL."""

    def stream(self, query: exp.Query) -> Iterator[tuple[Any, ...]]:
        """Run a query; rows as Python values, a few at a time. Finish one stream before the next query."""

    def keep(self, name: str, query: exp.Query) -> None:
        """Store the result of a query as a temporary table, in place of one of that name."""

    def add(self, lookup: Lookup) -> None:
        """Store a lookup as a temporary table, in place of one of that name."""

    def save(self, query: exp.Query, path: Path, *, file_format: Literal["parquet", "csv"]) -> None:
        """Write the result of a query to a file."""

    def close(self) -> None:
        """Give back memory and temporary files."""


def find_nulls(array: NDArray[Any]) -> Booleans:
    """Tell where an array of a result is NULL.

    >>> find_nulls(np.ma.masked_array([1, 2], mask=[False, True])).tolist()
    [False, True]
    """
    return np.asarray(np.ma.getmaskarray(array), dtype=np.bool_)
