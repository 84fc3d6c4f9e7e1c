"""Numbers cut into bins with exact edges."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Literal

from sudare.errors import SchemaError
from sudare.schema.labels import MOST_BINS, Labels, label_array, take
from sudare.schema.radix import Codes
from sudare.schema.raw import decimal_text, number_of, trimmed

Number = int | float | str | Decimal | Fraction
_INTERVAL = re.compile(r"\[([^,]+),([^,]+)([)\]])")


@dataclass(frozen=True)
class NumberBins:
    """Bins [e0, e1), [e1, e2), ..., [e(n-1), e(n)]: the last one is closed. Edges are exact, never floats.

    >>> bins = NumberBins.of_width(0, 100, 5)
    >>> bins.size, bins.encode("5"), bins.encode("4.999"), bins.encode(100), bins.encode(101)
    (20, 1, 0, 19, None)
    >>> import numpy as np
    >>> bins.labels(np.array([0, 19])).tolist()
    ['[0,5)', '[95,100]']
    """

    edges: tuple[Fraction, ...]
    kind: ClassVar[Literal["number"]] = "number"
    is_ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(_edge(edge) for edge in self.edges))
        if len(self.edges) < 2:
            raise SchemaError(
                "bins need at least 2 edges ({count} given); list where every bin starts, then the end",
                count=len(self.edges),
            )
        for low, high in pairwise(self.edges):
            if not low < high:
                raise SchemaError(
                    "edges must increase ({low} is followed by {high}); sort them",
                    low=decimal_text(low),
                    high=decimal_text(high),
                )

    @cached_property
    def is_whole(self) -> bool:
        """Tell whether all edges are whole numbers."""
        return all(edge.denominator == 1 for edge in self.edges)

    @cached_property
    def widest(self) -> Fraction:
        """Measure the widest bin."""
        return max(high - low for low, high in pairwise(self.edges))

    @classmethod
    def of_width(cls, start: Number, stop: Number, width: Number) -> NumberBins:
        """Cut [start, stop] into bins of one width, which must reach stop exactly.

        Error: SchemaError if the width is not positive, or misses stop; it names the stops that would do.
        """
        low, high, step = _edge(start), _edge(stop), _edge(width)
        asked = {"start": decimal_text(low), "stop": decimal_text(high), "width": decimal_text(step)}
        if step <= 0 or low >= high:
            raise SchemaError("bins need start ({start}) below stop ({stop}) and a width ({width}) above 0", **asked)
        count, rest = divmod(high - low, step)
        if count > MOST_BINS:
            raise SchemaError("bins would be more than {most}; widen them", most=MOST_BINS)
        if rest:
            stops = [high - rest, high - rest + step][count == 0 :]
            raise SchemaError(
                "width ({width}) does not reach stop ({stop}) exactly from start ({start}); "
                "set stop to {choices}, or give edges",
                **asked,
                choices=" / ".join(decimal_text(choice) for choice in stops),
            )
        return cls(tuple(low + index * step for index in range(count + 1)))

    @property
    def size(self) -> int:
        """Count the bins."""
        return len(self.edges) - 1

    @cached_property
    def uniform(self) -> tuple[Fraction, Fraction] | None:
        """Give (start, width) if all bins are equally wide, else None."""
        width = self.edges[1] - self.edges[0]
        return (self.edges[0], width) if all(b - a == width for a, b in pairwise(self.edges)) else None

    @cached_property
    def _labels(self) -> Labels:
        texts = [decimal_text(edge) for edge in self.edges]
        labels = [f"[{low},{high})" for low, high in pairwise(texts)]
        labels[-1] = f"[{texts[-2]},{texts[-1]}]"
        return label_array(labels)

    @cached_property
    def _codes(self) -> dict[str, int]:
        codes = {label: code for code, label in enumerate(self._labels)}
        if self.uniform and self.uniform[1] == 1 and self.edges[0].denominator == 1:
            # one-wide integer bins: the plain integer names its bin, as in files made for other tools
            codes |= {str(edge.numerator): code for code, edge in enumerate(self.edges[:-1])}
        return codes

    def labels(self, codes: Codes) -> Labels:
        """Write bins as intervals."""
        return take(self._labels, codes)

    def code(self, label: str) -> int:
        """Find the bin with this label; KeyError if there is none. One-wide bins also answer to their integer."""
        return self._codes[label]

    def codes(self, label: str) -> range:
        """Find the bins that an interval is made of: its own label, or a union of neighbours; else KeyError.

        >>> NumberBins.of_width(0, 100, 5).codes("[0,15)")
        range(0, 3)
        """
        if label in self._codes:
            return range(self._codes[label], self._codes[label] + 1)
        found = _INTERVAL.fullmatch(label)
        ends = [number_of(text) for text in found.groups()[:2]] if found else []
        if found is None or any(end not in self._positions for end in ends):
            raise KeyError(label)
        first, last = (self._positions[end] for end in ends if isinstance(end, Fraction))
        is_closed = found.group(3) == "]"
        if first >= last or is_closed != (last == self.size):
            raise KeyError(label)
        return range(first, last)

    @cached_property
    def _positions(self) -> dict[Fraction | float | None, int]:
        return {edge: position for position, edge in enumerate(self.edges)}

    def text(self, value: object) -> str:
        """Write a raw value as the text that is compared with marks of missing values."""
        return trimmed(value)

    def encode(self, value: object) -> int | None:
        """Find the bin of a raw number; None if it is outside or no number."""
        number = number_of(value)
        if number is None or not self.edges[0] <= number <= self.edges[-1]:
            return None
        return self._bin(number)

    def clamp(self, value: object) -> int | None:
        """Find the bin of a raw number, numbers outside taken to the nearest end; None if it is no number.

        >>> NumberBins.of_width(0, 10, 5).clamp("-3")
        0
        """
        number = number_of(value)
        return None if number is None else self._bin(max(self.edges[0], min(number, self.edges[-1])))

    def _bin(self, number: Fraction | float) -> int:
        return min(bisect_right(self.edges, number) - 1, self.size - 1)

    def merged(self, starts: Iterable[int]) -> NumberBins:
        """Join neighbouring bins into wider ones that begin at the given codes."""
        return NumberBins((*(self.edges[start] for start in starts), self.edges[-1]))


def _edge(value: Number) -> Fraction:
    number = value if isinstance(value, Fraction) else number_of(value)
    if not isinstance(number, Fraction):
        raise SchemaError("an edge ({edge}) must be a plain number such as 0.5", edge=value)
    return number
