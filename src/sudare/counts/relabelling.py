"""How a table is to be written: labels in place of its values, and overrides for some combinations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from sudare.counts.counts import Countable, Counts
from sudare.errors import ParameterError
from sudare.schema.arrays import Codes, Labels

SUPPRESSED = -1
"""The group of rows that are not written."""

ROWS_OF_PERSON = "(rows of the person)"
"""The name under which `count_with_persons` counts how many rows the person of a row has; no attribute has brackets."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Overrides:
    """Rows that are put into groups by the combination of some attributes, whatever the labels of their values.

    `codes` (m, attributes) holds combinations of the codes of `names`, `groups` (m,) the group of each, SUPPRESSED for
    rows that are not written; `labels` give every group a text for each attribute that it relabels. A combination that
    stands several times is split into pieces of `sizes` rows, drawn at random; else sizes are not used.

    >>> overrides = Overrides(names=("sex",), codes=np.array([[1]]), groups=np.array([SUPPRESSED]))
    >>> overrides.is_split
    False
    """

    names: tuple[str, ...]
    codes: Codes
    groups: Codes
    labels: Mapping[str, Labels] = field(default_factory=dict)
    sizes: Codes | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.codes), len(self.groups), len(self.codes if self.sizes is None else self.sizes)}
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.names) or len(lengths) != 1:
            raise ParameterError("overrides need one row of codes and one group for every combination")
        top = int(self.groups.max(initial=SUPPRESSED))
        if any(len(texts) <= top for texts in self.labels.values()):
            raise ParameterError("every group of overrides needs a label")

    @property
    def is_split(self) -> bool:
        """Tell whether rows of one combination go to different groups."""
        return self.sizes is not None and len(np.unique(self.codes, axis=0)) < len(self.codes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Relabelling:
    """Labels for the codes of attributes, and overrides by combination; attributes without labels keep their own."""

    labels: Mapping[str, Callable[[Codes], Labels]]
    overrides: Overrides | None = None


class WritableRows(Protocol):
    """Rows that are ready to be written, never held in memory."""

    def write(self, path: str | Path, *, shuffle: bool = True) -> Path:
        """Write the rows to a new Parquet or CSV file."""
        ...


class Recodable(Countable, Protocol):
    """What k-anonymity needs of a source: counts, and the table written with other labels."""

    def count_with_persons(self, by: Sequence[str]) -> Counts:
        """Count over attributes, and over one more: how many rows the person of a row has, from 1 to the limit."""
        ...

    def relabel(
        self, relabelling: Relabelling, *, names: Sequence[str] | None = None, others: bool = False
    ) -> WritableRows:
        """Write the chosen attributes (all of them by default) with these labels."""
        ...
