"""A published table in memory: columns of codes with their labels, or of plain numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError, ReleaseError
from sudare.schema.arrays import Codes, Labels
from sudare.text import text
from sudare.text.cards import card

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of labels: `labels[codes]`, a label of None being a missing value.

    >>> Coded(np.array([1, 0, 1]), np.array(["F", "M"], dtype=object)).decode().tolist()
    ['M', 'F', 'M']
    """

    codes: Codes
    labels: Labels

    def decode(self) -> Labels:
        """Give the labels, one per row."""
        return self.labels[self.codes]


def check_names(names: Sequence[str]) -> None:
    """Refuse names that a file would not keep apart.

    >>> check_names(["age", "sex"])
    """
    seen: dict[str, str] = {}
    for name in names:
        if seen.get(folded := name.casefold()) == name:
            raise ReleaseError(
                "two columns of the release would be called {name}: the method writes one itself; rename the attribute",
                name=name,
            )
        if folded in seen:
            raise ReleaseError(
                "columns {first} and {second} differ in case only, which the file cannot hold; rename one",
                first=seen[folded],
                second=name,
            )
        seen[folded] = name


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Columns of equal length, by name.

    >>> Frame({"age": np.array([3, 4])}).rows
    2
    """

    columns: Mapping[str, Coded | NDArray[np.generic]]
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        lengths = {len(column.codes if isinstance(column, Coded) else column) for column in self.columns.values()}
        if len(lengths) != 1:
            raise ReleaseError("the columns of a published table must be of one length and at least one")
        object.__setattr__(self, "rows", lengths.pop())
        check_names(list(self.columns))

    def decode(self) -> dict[str, NDArray[np.generic]]:
        """Plain columns by name, ready for `pandas.DataFrame(...)` or `polars.DataFrame(...)`.

        >>> frame = Frame({"sex": Coded(np.array([0, 1]), np.array(["F", None], dtype=object))})
        >>> frame.decode()["sex"].tolist()
        ['F', None]
        """
        return {name: column.decode() if isinstance(column, Coded) else column for name, column in self.columns.items()}

    def to_arrow(self) -> pyarrow.Table:
        """Give the table as Arrow; columns of labels are dictionaries, so nothing is copied row by row."""
        with needs_package("pyarrow"):
            import pyarrow
        return pyarrow.table({name: _to_arrow(column, pyarrow) for name, column in self.columns.items()})

    def save_arrow(self, path: Path) -> None:
        """Write the table as an Arrow file (IPC), which pandas, Polars, R and DuckDB read."""
        table = self.to_arrow()
        import pyarrow

        with pyarrow.OSFile(str(path), "wb") as stream, pyarrow.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)

    def to_polars(self) -> polars.DataFrame:
        """Give the table as a Polars frame."""
        with needs_package("polars"):
            import polars
        return polars.DataFrame(
            {name: column.tolist() if column.dtype == object else column for name, column in self.decode().items()}
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Give the table as a pandas frame."""
        with needs_package("pandas"):
            import pandas
        return pandas.DataFrame(self.decode())

    def head(self, rows: int = 10) -> Frame:
        """Give the first rows.

        >>> Frame({"age": np.arange(50)}).head(3).rows
        3
        """
        return Frame({name: _first(column, rows) for name, column in self.columns.items()})

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook."""
        shown = self.head().decode()
        return card(
            text("{rows} rows, {columns} columns", rows=f"{self.rows:,}", columns=len(self.columns)),
            columns=list(shown),
            rows=list(zip(*(_cells(column) for column in shown.values()), strict=True)),
        )


@contextlib.contextmanager
def needs_package(package: str) -> Iterator[None]:
    """Say in one line how to get a package that a conversion imports, where it is not installed.

    >>> with needs_package("json"):
    ...     import json
    """
    try:
        yield
    except ImportError:
        raise ParameterError(
            "{package} is not installed; install it (pip install {package}) to convert to it", package=package
        ) from None


def _first(column: Coded | NDArray[np.generic], rows: int) -> Coded | NDArray[np.generic]:
    return Coded(column.codes[:rows], column.labels) if isinstance(column, Coded) else column[:rows]


def _cells(column: NDArray[np.generic]) -> list[object]:
    return ["" if value is None else value for value in column.tolist()]


def _to_arrow(column: Coded | NDArray[np.generic], pyarrow: Any) -> Any:
    if isinstance(column, Coded):
        return pyarrow.DictionaryArray.from_arrays(
            pyarrow.array(column.codes), pyarrow.array(column.labels, from_pandas=True)
        )
    if isinstance(column, np.ma.MaskedArray):
        return pyarrow.array(column.data, mask=np.ma.getmaskarray(column))
    return pyarrow.array(column)
