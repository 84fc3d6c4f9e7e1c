"""A published table in memory: columns of codes with their labels, or of plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ReleaseError


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of labels: `labels[codes]`, a label of None being a missing value.

    >>> Coded(np.array([1, 0, 1]), np.array(["F", "M"], dtype=object)).decode().tolist()
    ['M', 'F', 'M']
    """

    codes: NDArray[np.int64]
    labels: NDArray[np.object_]

    def decode(self) -> NDArray[np.object_]:
        """The labels, one per row."""
        return self.labels[self.codes]


def check_names(names: Sequence[str]) -> None:
    """Refuse names that a file would not keep apart.

    >>> check_names(["age", "sex"])
    """
    seen: dict[str, str] = {}
    for name in names:
        if (folded := name.casefold()) in seen:
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
