"""Numbers and days cut into bins with exact edges."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import ClassVar, Literal

from sudare.errors import SchemaError
from sudare.schema.arrays import Codes, Labels
from sudare.schema.raw import MOST_BINS, make_labels, take_labels, to_date, to_number, trim, write_decimal

NumberLike = int | float | str | Decimal | Fraction
_NUMBER_INTERVAL = re.compile(r"\[([^,]+),([^,]+)([)\]])")


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
        object.__setattr__(self, "edges", tuple(_read_number_edge(edge) for edge in self.edges))
        if len(self.edges) < 2:
            raise SchemaError(
                "bins need at least 2 edges ({count} given); list where every bin starts, then the end",
                count=len(self.edges),
            )
        for low, high in pairwise(self.edges):
            if not low < high:
                raise SchemaError(
                    "edges must increase ({low} is followed by {high}); sort them",
                    low=write_decimal(low),
                    high=write_decimal(high),
                )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Worked out once: bins are looked up by many steps, and have thousands of fractions."""
        return hash(self.edges)

    @cached_property
    def is_whole(self) -> bool:
        """Tell whether all edges are whole numbers."""
        return all(edge.denominator == 1 for edge in self.edges)

    @cached_property
    def widest(self) -> Fraction:
        """Measure the widest bin."""
        return max(high - low for low, high in pairwise(self.edges))

    @classmethod
    def of_width(cls, start: NumberLike, stop: NumberLike, width: NumberLike) -> NumberBins:
        """Cut [start, stop] into bins of one width, which must reach stop exactly.

        Error: SchemaError if the width is not positive, or misses stop; it names the stops that would do.
        """
        low, high, step = _read_number_edge(start), _read_number_edge(stop), _read_number_edge(width)
        written = {"start": write_decimal(low), "stop": write_decimal(high), "width": write_decimal(step)}
        if step <= 0 or low >= high:
            raise SchemaError("bins need start ({start}) below stop ({stop}) and a width ({width}) above 0", **written)
        count, rest = divmod(high - low, step)
        if count > MOST_BINS:
            raise SchemaError("bins would be more than {most}; widen them", most=MOST_BINS)
        if rest:
            stops = [high - rest, high - rest + step][count == 0 :]
            raise SchemaError(
                "width ({width}) does not reach stop ({stop}) exactly from start ({start}); "
                "set stop to {choices}, or give edges",
                **written,
                choices=" / ".join(write_decimal(choice) for choice in stops),
            )
        unit = math.lcm(low.denominator, step.denominator)  # a million sums of fractions would take seconds
        first, between = int(low * unit), int(step * unit)
        return cls(tuple(Fraction(first + index * between, unit) for index in range(count + 1)))

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
        texts = [write_decimal(edge) for edge in self.edges]
        labels = [f"[{low},{high})" for low, high in pairwise(texts)]
        labels[-1] = f"[{texts[-2]},{texts[-1]}]"
        return make_labels(labels)

    @cached_property
    def _codes(self) -> dict[str, int]:
        codes = {label: code for code, label in enumerate(self._labels)}
        if self.uniform and self.uniform[1] == 1 and self.edges[0].denominator == 1:
            # one-wide integer bins: the plain integer names its bin, as in files made for other tools
            codes |= {str(edge.numerator): code for code, edge in enumerate(self.edges[:-1])}
        return codes

    def labels(self, codes: Codes) -> Labels:
        """Write bins as intervals."""
        return take_labels(self._labels, codes)

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
        match = _NUMBER_INTERVAL.fullmatch(label)
        ends = [to_number(text) for text in match.groups()[:2]] if match else []
        if match is None or any(end not in self._positions for end in ends):
            raise KeyError(label)
        first, last = (self._positions[end] for end in ends if isinstance(end, Fraction))
        is_closed = match.group(3) == "]"
        if first >= last or is_closed != (last == self.size):
            raise KeyError(label)
        return range(first, last)

    @cached_property
    def _positions(self) -> dict[Fraction | float | None, int]:
        return {edge: position for position, edge in enumerate(self.edges)}

    def text(self, value: object) -> str:
        """Write a raw value as the text that is compared with marks of missing values."""
        return trim(value)

    def encode(self, value: object) -> int | None:
        """Find the bin of a raw number; None if it is outside or no number."""
        number = to_number(value)
        if number is None or not self.edges[0] <= number <= self.edges[-1]:
            return None
        return self._find_bin(number)

    def clamp(self, value: object) -> int | None:
        """Find the bin of a raw number, numbers outside taken to the nearest end; None if it is no number.

        >>> NumberBins.of_width(0, 10, 5).clamp("-3")
        0
        """
        number = to_number(value)
        return None if number is None else self._find_bin(max(self.edges[0], min(number, self.edges[-1])))

    def _find_bin(self, number: Fraction | float) -> int:
        return min(bisect_right(self.edges, number) - 1, self.size - 1)

    def merged(self, starts: Iterable[int]) -> NumberBins:
        """Join neighbouring bins into wider ones that begin at the given codes."""
        return NumberBins((*(self.edges[start] for start in starts), self.edges[-1]))


def _read_number_edge(value: NumberLike) -> Fraction:
    number = value if isinstance(value, Fraction) else to_number(value)
    if not isinstance(number, Fraction):
        raise SchemaError("an edge ({edge}) must be a plain number such as 0.5", edge=value)
    return number


# Days cut into bins: days, weeks, months, years, or edges of one's own.


_WIDTH = re.compile(r"([1-9][0-9]{0,4}) (day|week|month|year)s?")
_DATE_INTERVAL = re.compile(r"\[([0-9-]+),([0-9-]+)([)\]])")
_PERIOD = re.compile(r"([0-9]{4})(-([0-9]{2}))?")
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "year": 12}
_DAY_AFTER_LAST = date.max.toordinal() + 1  # the day after the last one that a date can hold


@dataclass(frozen=True)
class DateBins:
    """Bins of days [e0, e1), [e1, e2), ..., [e(n-1), e(n)]: the last edge is the last day, included.

    Whole years, whole months and single days have short labels, other bins their interval.

    >>> bins = DateBins.of_width("2024-01-01", "2024-12-31", "1 month")
    >>> import numpy as np
    >>> bins.size, bins.labels(np.array([0, 11])).tolist()
    (12, ['2024-01', '2024-12'])
    >>> bins.encode("2024/2/29"), bins.encode("2025-01-01")
    (1, None)
    """

    edges: tuple[date, ...]
    kind: ClassVar[Literal["date"]] = "date"
    is_ordered: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(_read_date_edge(edge) for edge in self.edges))
        if len(self.edges) < 2:
            raise SchemaError(
                "bins need at least 2 edges ({count} given); list where every bin starts, then the end",
                count=len(self.edges),
            )
        for low, high in pairwise(self.edges[:-1]):
            if not low < high:
                raise SchemaError("edges must increase ({low} is followed by {high}); sort them", low=low, high=high)
        if self.edges[-2] > self.edges[-1]:
            raise SchemaError(
                "edges must increase ({low} is followed by {high}); sort them", low=self.edges[-2], high=self.edges[-1]
            )

    @classmethod
    def of_width(cls, start: str | date, stop: str | date, width: str) -> DateBins:
        """Cut the days from start to stop, both included, into bins of one width such as "7 days" or "1 month".

        Error: SchemaError if the last bin does not end on stop; it names the stops that would do.
        """
        first, last = _read_date_edge(start), _read_date_edge(stop)
        number, unit = _read_width(width)
        if first > last:
            raise SchemaError("bins need start ({start}) not after stop ({stop})", start=first, stop=last)
        if unit in _MONTHS and first.day > 28:
            raise SchemaError("start ({start}) must be a day that every month has; use the 1st", start=first)
        starts = _list_starts(first, last, number, unit)
        reached = _ordinal_after(first, len(starts) * number, unit)
        if reached != last.toordinal() + 1:
            below = date.fromordinal(starts[-1] - 1) if len(starts) > 1 else None
            above = date.fromordinal(reached - 1) if reached <= _DAY_AFTER_LAST else None
            raise SchemaError(
                "width ({width}) does not reach stop ({stop}), the last day, exactly from start ({start}); "
                "set stop to {choices}, or give edges",
                width=width,
                stop=last,
                start=first,
                choices=" / ".join(str(day) for day in (below, above) if day),
            )
        return cls((*(date.fromordinal(ordinal) for ordinal in starts), last))

    @property
    def size(self) -> int:
        """Count the bins."""
        return len(self.edges) - 1

    @cached_property
    def _bounds(self) -> list[int]:
        """Ordinals where bins start, and the day after the last."""
        return [*(edge.toordinal() for edge in self.edges[:-1]), self.edges[-1].toordinal() + 1]

    @cached_property
    def _labels(self) -> Labels:
        labels = [_write_label(low, high) for low, high in pairwise(self._bounds)]
        if labels[-1].startswith("["):
            labels[-1] = f"[{self.edges[-2]},{self.edges[-1]}]"
        return make_labels(labels)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {label: code for code, label in enumerate(self._labels)}

    def labels(self, codes: Codes) -> Labels:
        """Write bins as days, months, years or intervals."""
        return take_labels(self._labels, codes)

    def code(self, label: str) -> int:
        """Find the bin with this label; KeyError if there is none."""
        return self._codes[label]

    def codes(self, label: str) -> range:
        """Find the bins that a day, month, year or interval is made of; KeyError if it cuts one or leaves the range.

        >>> DateBins.of_width("2023-01-01", "2024-12-31", "1 month").codes("2024")
        range(12, 24)
        """
        if label in self._codes:
            return range(self._codes[label], self._codes[label] + 1)
        low, high = _read_period(label)
        positions = {bound: position for position, bound in enumerate(self._bounds)}
        if low not in positions or high not in positions or low >= high:
            raise KeyError(label)
        return range(positions[low], positions[high])

    def text(self, value: object) -> str:
        """Write a raw value as the text that is compared with marks of missing values."""
        return trim(value)

    def encode(self, value: object) -> int | None:
        """Find the bin of a raw day; None if it is outside or no day."""
        day = to_date(value)
        return self._find_bin(day) if day is not None and self.edges[0] <= day <= self.edges[-1] else None

    def clamp(self, value: object) -> int | None:
        """Find the bin of a raw day, days outside taken to the nearest end; None if it is no day."""
        day = to_date(value)
        return None if day is None else self._find_bin(max(self.edges[0], min(day, self.edges[-1])))

    def _find_bin(self, day: date) -> int:
        return bisect_right(self._bounds, day.toordinal()) - 1

    def merged(self, starts: Iterable[int]) -> DateBins:
        """Join neighbouring bins into wider ones that begin at the given codes."""
        return DateBins((*(self.edges[start] for start in starts), self.edges[-1]))


def _read_date_edge(value: str | date) -> date:
    day = to_date(value)
    if day is None:
        raise SchemaError('an edge ({edge}) must be a day such as "2024-01-31"', edge=value)
    return day


def _read_width(width: str) -> tuple[int, str]:
    match = _WIDTH.fullmatch(width) if isinstance(width, str) else None
    if match is None:
        raise SchemaError(
            'width ({width}) must be like "1 day", "7 days", "1 month", "3 months" or "1 year"', width=width
        )
    return int(match.group(1)), match.group(2)


def _list_starts(first: date, last: date, number: int, unit: str) -> list[int]:
    starts: list[int] = []
    while (ordinal := _ordinal_after(first, len(starts) * number, unit)) <= last.toordinal():
        starts.append(ordinal)
        if len(starts) > MOST_BINS:
            raise SchemaError("bins would be more than {most}; widen them", most=MOST_BINS)
    return starts


def _ordinal_after(first: date, number: int, unit: str) -> int:
    if unit in _DAYS:
        return first.toordinal() + number * _DAYS[unit]
    months = first.year * 12 + first.month - 1 + number * _MONTHS[unit]
    if months >= 10000 * 12:
        return _DAY_AFTER_LAST + (months - 10000 * 12) * 31 + first.day - 1  # beyond any date; only compared
    return date(months // 12, months % 12 + 1, first.day).toordinal()


def _write_label(low: int, high: int) -> str:
    first = date.fromordinal(low)
    if high == low + 1:
        return first.isoformat()
    if first.day == 1 and first.month == 1 and high == _ordinal_after(first, 1, "year"):
        return f"{first.year:04d}"
    if first.day == 1 and high == _ordinal_after(first, 1, "month"):
        return f"{first.year:04d}-{first.month:02d}"
    return f"[{first},{first + timedelta(days=high - low)})" if high < _DAY_AFTER_LAST else f"[{first},"


def _read_period(label: str) -> tuple[int, int]:
    """Read a label as ordinals [low, high); KeyError if it is none."""
    interval, period = _DATE_INTERVAL.fullmatch(label), _PERIOD.fullmatch(label)
    if interval:
        low, high = to_date(interval.group(1)), to_date(interval.group(2))
        if low and high:
            return low.toordinal(), high.toordinal() + (interval.group(3) == "]")
    elif period and (first := to_date(f"{period.group(1)}-{period.group(3) or '01'}-01")):
        return first.toordinal(), _ordinal_after(first, 1, "month" if period.group(3) else "year")
    elif day := to_date(label):
        return day.toordinal(), day.toordinal() + 1
    raise KeyError(label)


# Moments counted from 1970: the same days as numbers.

_TICKS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_COUNTED = re.compile(rf"unix-({'|'.join(_TICKS)})(?:([+-])([01][0-9]):([0-5][0-9]))?")
_FIRST_DAY = date(1970, 1, 1).toordinal()
_BEFORE_MIDNIGHT = Fraction(1, 10**6)  # of a tick; the last bin of numbers is closed, that of days ends before midnight


@lru_cache(maxsize=64)
def count_from_1970(bins: DateBins, date_format: str) -> NumberBins | None:
    """Give the same bins in seconds, or parts of a second, since 1970; days begin at midnight of the time zone.

    None if the format says that days are written otherwise.

    >>> days = DateBins.of_width("1970-01-01", "1970-01-02", "1 day")
    >>> ticks = count_from_1970(days, "unix-seconds")
    >>> [ticks and ticks.encode(number) for number in (0, 86399, 86400, 172799, 172800)]
    [0, 0, 1, 1, None]
    """
    match = _COUNTED.fullmatch(date_format)
    if match is None:
        return None
    unit, sign, hours, minutes = match.groups()
    ahead = (int(hours or 0) * 60 + int(minutes or 0)) * 60 * (-1 if sign == "-" else 1)
    bounds = [*(edge.toordinal() for edge in bins.edges[:-1]), bins.edges[-1].toordinal() + 1]
    edges = [Fraction(((day - _FIRST_DAY) * 86_400 - ahead) * _TICKS[unit]) for day in bounds]
    return NumberBins((*edges[:-1], edges[-1] - _BEFORE_MIDNIGHT))
