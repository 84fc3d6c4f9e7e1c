"""The declared values of an attribute: code = position. Reading them off the data would leak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from sudare.errors import SchemaError
from sudare.schema.arrays import Codes, Labels
from sudare.schema.bins import DateBins, NumberBins
from sudare.schema.mesh import MeshCells
from sudare.schema.raw import list_some, make_labels, take_labels, to_text

__all__ = ["Codes", "DateBins", "Domain", "Labels", "MeshCells", "NumberBins", "Values", "find_bins"]


class Domain(Protocol):
    """What an attribute can be: a finite list of values, known without looking at the data."""

    @property
    def kind(self) -> str:
        """Name the kind as in the schema file: category, ordered, number, date, mesh."""

    @property
    def size(self) -> int:
        """Count the values."""

    @property
    def is_ordered(self) -> bool:
        """Tell whether neighbouring codes are neighbouring values."""

    def labels(self, codes: Codes) -> Labels:
        """Write codes as texts."""

    def code(self, label: str) -> int:
        """Find the code of a label; KeyError if there is none."""

    def codes(self, label: str) -> range:
        """Find the codes that a label, or a union of values such as an interval, stands for; else KeyError."""

    def text(self, value: object) -> str:
        """Write a raw value as the text that is compared with marks of missing values."""

    def encode(self, value: object) -> int | None:
        """Find the code of a raw value; None if it is outside."""


@dataclass(frozen=True)
class Values:
    """Values listed one by one; `is_ordered` keeps their order as a meaning.

    >>> sizes = Values(("S", "M", "L"), is_ordered=True)
    >>> sizes.code("M"), sizes.encode("XL")
    (1, None)
    """

    values: tuple[str, ...]
    is_ordered: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise SchemaError("values are empty; list at least one")
        if any(not isinstance(value, str) for value in self.values):
            raise SchemaError("values must be texts; write them in quotes")
        if "" in self.values:
            raise SchemaError("values hold an empty text; take it out and write missing = true")
        if len(self._codes) < len(self.values):
            raise SchemaError(
                "values must differ ({shown} repeated); list each once", shown=list_some(_find_repeated(self.values))
            )

    @property
    def kind(self) -> str:
        """Name the kind as in the schema file."""
        return "ordered" if self.is_ordered else "category"

    @property
    def size(self) -> int:
        """Count the values."""
        return len(self.values)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def _labels(self) -> Labels:
        return make_labels(self.values)

    def labels(self, codes: Codes) -> Labels:
        """Write codes as the declared texts."""
        return take_labels(self._labels, codes)

    def code(self, label: str) -> int:
        """Find the code of a declared text; KeyError if there is none."""
        return self._codes[label]

    def codes(self, label: str) -> range:
        """Find the code of a declared text, as a range of one; KeyError if there is none."""
        return range(self._codes[label], self._codes[label] + 1)

    def text(self, value: object) -> str:
        """Write a raw value as text, blanks kept: in a code list they may matter."""
        return to_text(value)

    def encode(self, value: object) -> int | None:
        """Find the code of a raw value by its exact text; None if it is not declared."""
        return self._codes.get(to_text(value))


def find_bins(domain: Domain) -> NumberBins | DateBins | None:
    """Give the domain back if it has bins (edges, clamp, merged), else None."""
    return domain if isinstance(domain, NumberBins | DateBins) else None


def _find_repeated(values: Iterable[str]) -> Sequence[str]:
    seen: set[str] = set()
    return [value for value in values if value in seen or seen.add(value)]  # type: ignore[func-returns-value]
