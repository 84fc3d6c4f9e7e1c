"""What is answered: numbers with intervals, the parts their errors are made of, and tables of them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sudare.asking.protocol import Moments
from sudare.releases import Coded, Frame
from sudare.text import Text, Words, text
from sudare.text.cards import OneLine, card, figure

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

LEVEL = 0.95
ROUNDING = 1e-9  # of a number: nearer ones are the same but for the rounding of floats
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")  # how days are written


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A number with its interval.

    `noise_deviation` is what the privacy noise contributes (its law is known exactly); `model_deviation` is what the
    view cannot tell, estimated from noisy numbers; `inside_deviation` is what bins hide that a question cuts or adds
    up. All are standard deviations. Without an interval `low` and `high` are NaN, and `reason` says why. A day is
    counted in days (date.toordinal). `note` says which attributes were supposed to be independent.
    """

    value: float
    low: float
    high: float
    level: float
    noise_deviation: float
    model_deviation: float
    inside_deviation: float = 0.0
    reason: Text | None = None
    is_day: bool = False
    note: Text | None = None

    @property
    def has_interval(self) -> bool:
        """Tell whether the number comes with an interval."""
        return not math.isnan(self.low)

    def to_dict(self) -> dict[str, float]:
        """Plain numbers for a program."""
        names = ("value", "low", "high", "level", "noise_deviation", "model_deviation", "inside_deviation")
        return {name: getattr(self, name) for name in names}

    def write(self, part: str) -> str:
        """One of value, low and high as people read it."""
        number = getattr(self, part)
        if math.isnan(number):
            return ""
        if self.is_day:
            return write_day(number)
        return f"{round(number):,}" if self._is_whole else format_number(number, self._step)

    @property
    def _step(self) -> float:
        """What the last written digit may stand for: a twentieth of the width of the interval."""
        width = self.high - self.low
        is_wide = self.has_interval and ROUNDING * abs(self.value) < width < math.inf
        return width / 20 if is_wide else 0.0

    @property
    def _is_whole(self) -> bool:
        """Tell whether the number and both of its ends are whole but for rounding, as of counted groups."""
        numbers = self.value, self.low, self.high
        return all(math.isfinite(one) and abs(one - round(one)) <= ROUNDING * max(1.0, abs(one)) for one in numbers)

    def __str__(self) -> str:
        if not self.has_interval:
            return f"{self.write('value')} ({text('no interval')})"
        return f"{self.write('value')} [{self.write('low')}, {self.write('high')}]"

    def _repr_html_(self) -> str:
        """Show the number and its interval in a notebook."""
        if not self.has_interval:
            return card(self, notes=[self.reason] if self.reason else [])
        reach = max(abs(self.low), abs(self.high))
        line = figure(self.low, self.value, self.high, start=min(0.0, self.low), stop=reach)
        notes = [text("interval of level {level}", level=self.level), line]
        return card(self, notes=notes if self.note is None else [*notes, self.note])


def write_day(ordinal: float) -> str:
    """Write a day that is counted in days.

    >>> write_day(738886.0)
    '2024-01-01'
    """
    return date.fromordinal(min(max(1, round(ordinal)), date.max.toordinal())).isoformat()


def format_number(value: float, step: float = 0.0) -> str:
    """Write a count or a mean as people read it; `step` is what a last digit may stand for, where less is needed.

    >>> format_number(1234567.8), format_number(3.14), format_number(0.0312, 0.0004)
    ('1,234,568', '3.1', '0.0312')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 1 if not 0 < step < 0.1 else min(6, math.ceil(-math.log10(step)))
    return f"{value:,.{digits}f}"


def answer(moments: Moments, *, level: float = LEVEL, least: float = 0.0, most: float = math.inf) -> Estimate:
    """An interval around an estimate, cut to what is possible: a count never lies below 0, a mean within its bins.

    >>> answer(Moments(value=100.0, noise=9.0, model=16.0)).high
    109.79981992270027
    """
    down, up = moments.reaches(level)
    return Estimate(
        value=min(most, max(least, moments.value)),
        low=min(most, max(least, moments.value - down)),
        high=min(most, max(least, moments.value + up)),
        level=level,
        noise_deviation=math.sqrt(moments.noise),
        model_deviation=math.sqrt(moments.model),
        inside_deviation=math.sqrt(moments.inside),
    )


# --- tables of answers ------------------------------------------------------------------------------------------------

FAR_BEYOND = 3.0  # times the largest estimate: an interval that ends farther off does not make the scale of a chart

AnswerCell = str | int | float | bool | date | Estimate | None


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """The answer to a statement: names of columns, rows of labels and answers, and what must be known about them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[AnswerCell, ...], ...]
    level: float
    notes: tuple[Text, ...] = ()
    has_model: bool = True  # whether a model stands behind the numbers, or noisy sums alone

    @property
    def reasons(self) -> list[Text]:
        """Why numbers have no interval, each reason once."""
        cells = (cell for row in self.rows for cell in row if isinstance(cell, Estimate))
        return list(dict.fromkeys(cell.reason for cell in cells if cell.reason is not None))

    @property
    def remarks(self) -> list[Text]:
        """What must be known about the answer: its notes, and why numbers have no interval."""
        return [*self.notes, *(text("no interval: {reason}", reason=reason) for reason in self.reasons)]

    def describe_intervals(self) -> Text | None:
        """What the intervals allow for; None if there are none."""
        if not any(isinstance(cell, Estimate) and cell.has_interval for row in self.rows for cell in row):
            return None
        if self.has_model:
            return text(
                "intervals of level {level}: what the noise adds to them is exact, what the model adds is estimated",
                level=self.level,
            )
        return text(
            "intervals of level {level}: what the noise adds to them is exact; where a condition cuts a cell, what lies"
            " inside it is estimated",
            level=self.level,
        )

    def to_dict(self, sql: str) -> dict[str, Any]:
        """The form of `sudare query --json`: rows, low and high have one shape; labels stand in all three."""
        parts = {part: [[_part(cell, part) for cell in row] for row in self.rows] for part in ("value", "low", "high")}
        return {
            "sql": sql,
            "columns": list(self.columns),
            "rows": parts["value"],
            "low": parts["low"],
            "high": parts["high"],
            "level": self.level,
            "notes": [str(note) for note in self.remarks],
        }

    def is_estimated(self, place: int) -> bool:
        """Tell whether a column holds estimates."""
        cells = [row[place] for row in self.rows]
        return any(isinstance(cell, Estimate) for cell in cells) and all(
            isinstance(cell, Estimate) or cell is None for cell in cells
        )

    def to_columns(self) -> dict[str, list[Any]]:
        """Plain columns: an estimate becomes three, itself, its `_low` and its `_high`; names are made different."""
        columns: dict[str, list[Any]] = {}
        for place, name in enumerate(self.columns):
            cells = [row[place] for row in self.rows]
            if not self.is_estimated(place):
                columns[_free_name(name, columns)] = [_part(cell, "value") for cell in cells]
                continue
            for part, ending in (("value", ""), ("low", "_low"), ("high", "_high")):
                columns[_free_name(name + ending, columns)] = [_part(cell, part) for cell in cells]
        return columns

    def to_frame(self) -> Frame:
        """Give the answers as a table: a number becomes three columns, itself, its `_low` and its `_high`.

        Whole numbers, days and truth values keep their kinds; a number that is missing has no value.
        """
        return Frame({name: _make_column(cells) for name, cells in self.to_columns().items()})

    def to_pandas(self) -> pandas.DataFrame:
        """Give the answers as a pandas frame, with the ends of the intervals beside every number."""
        return self.to_frame().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Give the answers as a Polars frame, with the ends of the intervals beside every number."""
        return self.to_frame().to_polars()

    def to_arrow(self) -> pyarrow.Table:
        """Give the answers as Arrow, with the ends of the intervals beside every number."""
        return self.to_frame().to_arrow()

    def __repr__(self) -> str:
        """Show the answers as lines, each number with its interval."""
        rows = [self.columns, *(tuple("" if cell is None else str(cell) for cell in row) for row in self.rows)]
        return "\n".join(" | ".join(row) for row in rows)

    def _repr_html_(self) -> str:
        """Show the answers in a notebook, each number with its interval as a line on the scale of its column."""
        stops = [self._scale(place) for place in range(len(self.columns))]
        rows = [
            tuple(piece for cell, stop in zip(row, stops, strict=True) for piece in _draw_cell(cell, stop))
            for row in self.rows
        ]
        heads = [
            piece for name, stop in zip(self.columns, stops, strict=True) for piece in ((name, "") if stop else (name,))
        ]
        title = text("interval of level {level}", level=self.level)
        return card(title, columns=heads, rows=rows, notes=self.remarks)

    def _scale(self, place: int) -> tuple[float, float] | None:
        """Where the lines of a column start and stop; None without intervals."""
        cells = [row[place] for row in self.rows]
        shown = [cell for cell in cells if isinstance(cell, Estimate) and cell.has_interval]
        return find_span(shown) if shown else None


def find_span(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Where a scale for estimates and their intervals starts and stops; one of numbers holds 0, one of days need not.

    The mean of hardly anybody may lie anywhere. Where no more than half of the intervals go far beyond all estimates,
    the scale ends where the others do: else nothing could be told of these.

    >>> ends = [(3.0, 4.0, 5.0), (8.0, 9.0, 10.0), (0.0, 2.0, 5000.0)]
    >>> find_span([Estimate(value=value, low=low, high=high, level=0.95, noise_deviation=1.0, model_deviation=0.0)
    ...            for low, value, high in ends])
    (0.0, 10.0)
    """
    ends = [(one.low, one.value, one.high) if one.has_interval else (one.value,) for one in estimates]
    is_day = any(one.is_day for one in estimates)
    known = [end for some in ends for end in some if math.isfinite(end)]
    if not known:
        return 0.0, 1.0
    far = math.inf if is_day else FAR_BEYOND * max(abs(one.value) for one in estimates)
    near = [some for some in ends if all(abs(end) <= far for end in some)]
    if 2 * len(near) >= len(ends):
        known = [*(end for some in near for end in some), *(one.value for one in estimates)]
    low, high = min(known), max(known)
    if not is_day:
        low, high = min(low, 0.0), max(high, 0.0)
    return (low, high) if high > low else (low, low + 1.0)


def _draw_cell(cell: AnswerCell, scale: tuple[float, float] | None) -> tuple[object, ...]:
    shown: object = "" if cell is None else OneLine(cell) if isinstance(cell, Estimate) else cell
    if scale is None:
        return (shown,)
    if not isinstance(cell, Estimate) or not cell.has_interval:
        return shown, ""
    start, stop = scale
    low, high = max(cell.low, start), min(cell.high, stop)
    return shown, figure(low, cell.value, high, start=start, stop=max(stop, start + 1e-12))


def _part(cell: AnswerCell, part: str) -> Any:
    if isinstance(cell, date):
        return cell.isoformat()
    if not isinstance(cell, Estimate):
        return cell
    number = getattr(cell, part)
    if not math.isfinite(number):
        return None
    return write_day(number) if cell.is_day else float(f"{number:.12g}")


def _make_column(cells: list[Any]) -> Coded | NDArray[Any]:
    """A column of one kind; numbers that are missing are NaN and masked."""
    known = [cell for cell in cells if cell is not None]
    is_whole = len(known) == len(cells) and all(type(cell) is int and abs(cell) < 2**63 for cell in known)
    if known and len(known) == len(cells) and all(type(cell) is bool for cell in known):
        return np.array(cells, dtype=bool)
    if known and is_whole:
        return np.array(cells, dtype=np.int64)
    if known and all(type(cell) in (int, float) for cell in known):
        numbers = np.array([math.nan if cell is None else float(cell) for cell in cells])
        return np.ma.masked_invalid(numbers) if len(known) < len(cells) else numbers
    if known and all(_DAY.fullmatch(str(cell)) for cell in known):
        with contextlib.suppress(ValueError):  # a label such as 2025-99-99 is no day
            return np.array(["NaT" if cell is None else cell for cell in cells], dtype="datetime64[D]")
    labels = [None if cell is None else str(cell) for cell in cells]
    return Coded(np.arange(len(cells)), np.array(labels, dtype=object))


def _free_name(name: str, taken: dict[str, Any]) -> str:
    folded, tried, count = {other.casefold() for other in taken}, name, 2
    while tried.casefold() in folded:
        tried, count = f"{name}_{count}", count + 1
    return tried


def show_cell(cell: AnswerCell | Words, part: str = "") -> str:
    """Write a cell for people: an estimate with its interval, or one part of it."""
    if cell is None:
        return ""
    if isinstance(cell, Estimate):
        return cell.write(part) if part else str(cell)
    return str(cell)


def show_row(row: Sequence[AnswerCell]) -> tuple[str, ...]:
    """Write the cells of a row for people."""
    return tuple(show_cell(cell) for cell in row)
