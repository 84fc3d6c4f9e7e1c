"""What the columns of a table hold, as a draft of a schema needs it. Holds values of the table.

Ranges and lists of values come from all rows, in two passes: one query of sums and ends over all columns, and one that
counts the values of the columns that seem to have few. The first rows only decide what is asked, and how amounts are
spread; a column that turns out to have too many values is told as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from itertools import combinations
from operator import ne
from typing import Any, Literal

from sqlglot import exp

from sudare.schema.column_names import is_code_name
from sudare.schema.column_texts import are_given, are_mesh_codes, find_grain, find_missing_codes, find_words
from sudare.schema.guess import find_type
from sudare.schema.mesh import MESH_TEXT
from sudare.schema.office import find_number_format, read_japanese_day, read_number_format
from sudare.schema.propose import MARKS, ColumnFacts, TableFacts
from sudare.schema.raw import NUMBER_TEXT, to_number, to_text
from sudare.sources.encode_bins import read_plain_day
from sudare.sources.engine import Column, Engine, Family
from sudare.sources.office import is_word, refuse_head
from sudare.sources.query import query_rows
from sudare.sources.sql import (
    Expression,
    all_of,
    call,
    cast,
    choose,
    is_in,
    is_multiple,
    is_nan,
    literal,
    matches_pattern,
    raw_column,
    read_text,
)

ValueType = Literal["text", "integer", "number", "date", "boolean"]

_SAMPLE_ROWS = 20_000  # the first rows, by which the questions are chosen
_FEW = 2_000  # different values in the sample: so many are counted one by one over all rows
_MOST_VALUES = 5_000  # that a draft may list; the rest are told as too many
_MOST_READ = 100_000  # different texts that are read one by one as numbers or days
_MOST_ROWS_COMPARED = 2_000_000  # rows of a column that is looked at for repeated values: more take too long
_HEADED = 5  # rows a value on average, of a column that names a group in its first row
_LEAST_EXPECTED = 20  # rows that chance would put into a combination, before an empty one is asked about
_MOST_QUESTIONS = 3  # about combinations that may be impossible
_MOST_SETS = 24  # columns whose values are counted in one query; engines know up to 31
_TYPES: dict[Family, ValueType] = {
    "text": "text",
    "integer": "integer",
    "wide": "integer",
    "decimal": "number",
    "float": "number",
    "boolean": "boolean",
    "day": "date",
    "moment": "date",
    "other": "text",
}
_INTEGER = "-?(0|[1-9][0-9]{0,17})"
_LEADING_ZERO = "[+-]?0[0-9].*"  # of a code, which stays text


@dataclass(kw_only=True, slots=True)
class ColumnSketch:
    """A column on the way to its facts: what the sample holds, what all rows told."""

    column: Column
    sample: list[str]
    figures: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] | None = None  # rows of each value, if there are few
    formats: tuple[str | None, str | None] = (None, None)  # of numbers, of days: as offices write them
    grain: Fraction | None = None  # of the numbers of the sample; all rows are asked whether they have it too
    words: tuple[str, ...] = ()  # among the numbers of the sample, which mark missing ones as well

    @property
    def marks(self) -> tuple[str, ...]:
        """The texts that are read as missing."""
        return (*MARKS, *self.words)

    @property
    def present(self) -> list[str]:
        """The rows of the sample that are not missing."""
        missing = {"", *self.marks}
        return [value for value in self.sample if value not in missing]

    @property
    def sample_values(self) -> set[str]:
        """The different values of the sample that are no marks of missing ones."""
        return set(self.present)

    @property
    def is_few(self) -> bool:
        """Tell whether its values are counted one by one: few of them, or texts that only Python can read."""
        if self.column.family in ("other", "moment"):
            return False
        most = _FEW if self.column.family == "text" else _FEW // 10
        return len(self.sample_values) <= most or self.formats != (None, None)


def describe_table(engine: Engine) -> TableFacts:
    """Describe all columns of the data."""
    columns = [column for column in engine.columns if column.name]
    samples = _take_sample(engine, columns)
    if not engine.has_named_columns:
        _refuse_rows_as_names([column.name for column in columns], samples, engine)
    sketches = [ColumnSketch(column=column, sample=sample) for column, sample in zip(columns, samples, strict=True)]
    for sketch in sketches:
        if sketch.column.family == "text" and not is_code_name(sketch.column.name):
            sketch.words = find_words(sketch.present)
        sketch.words = sketch.words or find_missing_codes(sketch.present)
        sketch.formats = _find_formats(sketch)
        sketch.grain = _find_grain(sketch)
    rows = _measure(engine, sketches)
    few = [sketch for sketch in sketches if sketch.is_few and not _count_sample(sketch, rows)]
    for start in range(0, len(few), _MOST_SETS):
        _count_values(engine, few[start : start + _MOST_SETS])
    facts = [_conclude(engine, sketch, rows) for sketch in sketches]
    return TableFacts(
        columns=tuple(facts),
        rows=rows,
        sample_rows=len(samples[0]) if samples else 0,
        samples={sketch.column.name: tuple(sketch.sample) for sketch in sketches},
        never_together=tuple(_find_empty_pairs(sketches)),
        notes=tuple(getattr(engine, "notes", ())),
    )


def _take_sample(engine: Engine, columns: Sequence[Column]) -> list[list[str]]:
    """Take the first rows as texts; a missing value is ""."""
    readable = [column for column in columns if column.family != "other"]
    samples: dict[str, list[str]] = {column.column_id: [] for column in columns}
    if readable:
        ids = [column.column_id for column in readable]
        query = query_rows([], ids).select(*(raw_column(column_id) for column_id in ids)).limit(_SAMPLE_ROWS)
        for row in engine.stream(query):
            for column_id, value in zip(ids, row, strict=True):
                samples[column_id].append("" if value is None or value != value else to_text(value))
    return [samples[column.column_id] for column in columns]


def _refuse_rows_as_names(names: Sequence[str], samples: Sequence[Sequence[str]], engine: Engine) -> None:
    """Refuse a first line that is a row, which would be lost: nothing but numbers, or values that come again below.

    Only drafts ask: where a schema names the columns, the first line holds these names or is refused.
    """
    again = sum(name in sample for name, sample in zip(names, samples, strict=True))
    if len(names) > 1 and (not any(map(is_word, names)) or again > len(names) / 2):
        raise refuse_head(engine.name)


def _find_formats(sketch: ColumnSketch) -> tuple[str | None, str | None]:
    """See numbers and days as offices write them, where plain reading does not do."""
    texts = sketch.sample_values
    if sketch.column.family != "text" or not texts:
        return None, None
    if all(read_japanese_day(text) is not None for text in texts) and any("年" in t or t[0].isalpha() for t in texts):
        return None, "japanese"
    number_format = find_number_format(texts)
    return number_format, None


def _find_grain(sketch: ColumnSketch) -> Fraction | None:
    """Give what the numbers of the sample are multiples of, where a column is measured and not counted."""
    if sketch.is_few or _TYPES[sketch.column.family] not in ("integer", "number", "text"):
        return None
    numbers = [to_number(text) for text in sketch.sample_values]
    exact = [number for number in numbers if isinstance(number, Fraction)]
    return find_grain(exact) if exact and len(exact) == len(numbers) else None


# --- all rows, pass one: sums and ends --------------------------------------------------------------------------------


def _measure(engine: Engine, sketches: Sequence[ColumnSketch]) -> int:
    """Ask for all figures of all columns in one pass; give the number of rows."""
    asked: dict[str, tuple[ColumnSketch, str]] = {}
    figures: list[Expression] = [exp.Count(this=exp.Star()).as_("rows_")]
    for sketch in sketches:
        for name, figure in _list_figures(sketch).items():
            alias = f"{sketch.column.column_id}_{name}"
            asked[alias] = sketch, name
            figures.append(figure.as_(alias))
    ids = [sketch.column.column_id for sketch in sketches if sketch.column.family != "other"]
    result = next(engine.stream(query_rows([], ids).select(*figures)))
    for (sketch, name), value in zip(asked.values(), result[1:], strict=True):
        sketch.figures[name] = value
    return int(result[0])


def _list_figures(sketch: ColumnSketch) -> dict[str, Expression]:
    column = sketch.column
    if column.family == "other":
        return {}
    value = partial(_null_if_missing, sketch)
    figures: dict[str, Expression] = {"present": exp.Count(this=value())}
    if column.family == "text":
        if sketch.is_few:
            return {}  # all is told by the counts of its values
        figures["marked"] = exp.Count(this=choose([(is_in(raw_column(column.column_id), sketch.marks), literal(1))]))
        for name, reading in _read_texts(sketch).items():
            figures |= {f"{name}s": exp.Count(this=reading)} | _measure_range(name, reading)
            if name == "number" and sketch.grain is not None:
                figures["grained"] = _count_multiples(reading, sketch.grain)
    elif column.family != "boolean":
        figures |= _measure_range("own", value())
        if sketch.words:
            codes = is_in(raw_column(column.column_id), [to_number(word) for word in sketch.words])
            figures["marked"] = exp.Count(this=choose([(codes, literal(1))]))
        if sketch.grain is not None:
            figures["grained"] = _count_multiples(value(), sketch.grain)
        if column.family == "float":
            is_whole = exp.EQ(this=value(), expression=call("FLOOR", value()))
            figures["wholes"] = exp.Count(this=choose([(is_whole, literal(1))]))
    return figures


def _null_if_missing(sketch: ColumnSketch) -> Expression:
    value = raw_column(sketch.column.column_id)
    if sketch.column.family == "text":
        return choose([(exp.not_(is_in(value, ("", *sketch.marks))), value.copy())])
    conditions = [exp.not_(is_nan(value))] if sketch.column.family == "float" else []
    if sketch.words:
        conditions.append(exp.not_(is_in(value, [to_number(word) for word in sketch.words])))
    return choose([(all_of(*conditions), value.copy())]) if conditions else value


def _read_texts(sketch: ColumnSketch) -> dict[str, Expression]:
    """Read a text as each type that the sample allows; NULL where it cannot be."""
    value = partial(_null_if_missing, sketch) if sketch.words else partial(raw_column, sketch.column.column_id)
    texts = sketch.sample_values
    readings: dict[str, Expression] = {}
    if all(to_number(text) is not None for text in texts):
        is_number = all_of(matches_pattern(value(), NUMBER_TEXT), exp.not_(matches_pattern(value(), _LEADING_ZERO)))
        is_number = all_of(is_number, exp.LTE(this=call("LENGTH", value()), expression=literal(300)))
        readings["integer"] = choose([(matches_pattern(value(), _INTEGER), read_text(value(), "BIGINT"))])
        readings["number"] = choose([(is_number, read_text(value(), "DOUBLE"))])
    if any(mark in text for text in list(texts)[:1] for mark in "-/") or all(len(text) == 8 for text in texts):
        readings["date"] = read_plain_day(value)
    return readings


def _count_multiples(value: Expression, grain: Fraction) -> Expression:
    return exp.Count(this=choose([(is_multiple(value.copy(), grain), literal(1))]))


def _measure_range(name: str, value: Expression) -> dict[str, Expression]:
    return {f"{name}_low": exp.Min(this=value.copy()), f"{name}_high": exp.Max(this=value.copy())}


# --- all rows, pass two: the values of columns that have few ----------------------------------------------------------


def _count_sample(sketch: ColumnSketch, rows: int) -> bool:
    """Count the values in the sample where it holds all rows: a table of 10,000 columns is not read 400 times more."""
    if len(sketch.sample) < rows:
        return False
    sketch.counts = dict(Counter(sketch.sample))
    return True


def _count_values(engine: Engine, sketches: Sequence[ColumnSketch]) -> None:
    """Count the rows of every value of these columns, in one pass over all of them."""
    ids = [sketch.column.column_id for sketch in sketches]
    if not ids:
        return
    columns = [raw_column(column_id) for column_id in ids]
    grouping = exp.Anonymous(this="GROUPING", expressions=[column.copy() for column in columns])
    query = query_rows([], ids).select(*columns, grouping.as_("g"), exp.Count(this=exp.Star()).as_("n"))
    sets = exp.GroupingSets(expressions=[exp.Tuple(expressions=[column.copy()]) for column in columns])
    query.set("group", exp.Group(grouping_sets=[sets]))
    counted: list[Counter[str]] = [Counter() for _ in ids]
    full = (1 << len(ids)) - 1
    at_of = {full ^ (1 << (len(ids) - 1 - at)): at for at in range(len(ids))}  # the bit of a column is 0 in its own set
    for *values, bits, rows in engine.stream(query):
        at = at_of[int(bits)]
        if len(counted[at]) <= _MOST_READ:
            value = values[at]
            counted[at]["" if value is None or value != value else to_text(value)] += int(rows)
    for sketch, counts in zip(sketches, counted, strict=True):
        sketch.counts = dict(counts)


# --- what follows -----------------------------------------------------------------------------------------------------


def _conclude(engine: Engine, sketch: ColumnSketch, rows: int) -> ColumnFacts:
    """Give the facts of a column."""
    column = sketch.column
    if column.family == "other":
        return ColumnFacts(name=column.name, type="text", distinct=0, rows=rows, unreadable=column.type)
    facts = _conclude_counted(sketch, rows) if sketch.counts is not None else _conclude_measured(engine, sketch, rows)
    facts = replace(facts, rows=rows, sample=facts.sample or tuple(sorted(sketch.sample_values))[:_FEW])
    if facts.type == "integer":
        facts = replace(facts, is_given=are_given(sketch.present))
    if facts.type == "text":
        facts = replace(facts, is_headed=_is_headed(sketch.sample))
    if facts.type not in ("integer", "number"):
        return facts
    numbers = _sort_numbers(sketch, facts.number_format)
    low_rows = sum(rows for number, rows in numbers if number == to_number(facts.low))
    share_of_low = low_rows / max(1, sum(rows for _, rows in numbers))
    middle, tail = (_find_reached(numbers, share) for share in (1 / 2, 1 / 20))
    return replace(facts, middle=middle, tail=tail, share_of_low=share_of_low)


def _conclude_counted(sketch: ColumnSketch, rows: int) -> ColumnFacts:
    """Conclude from the rows of every value: exact, whatever the texts look like."""
    counts, column = dict(sketch.counts or {}), sketch.column
    missing = counts.pop("", 0)
    marks = {text: counts.pop(text) for text in sketch.marks if text in counts}
    values = tuple(counts)
    present = rows - missing - sum(marks.values())
    number_format, date_format = sketch.formats
    if not values or (number_format and find_number_format(values) != number_format):
        number_format = find_number_format(values) if values else None
    if date_format and not all(read_japanese_day(value) for value in values):
        date_format = None
    low, high = sketch.figures.get("own_low"), sketch.figures.get("own_high")
    facts = ColumnFacts(
        name=column.name,
        type=_TYPES[column.family],
        distinct=len(values),
        values=tuple(sorted(counts)) if len(values) <= _MOST_VALUES or number_format or date_format else None,
        counts=counts if len(values) <= _MOST_VALUES else None,
        low=low.date() if isinstance(low, datetime) else low,
        high=high.date() if isinstance(high, datetime) else high,
        has_missing=missing > 0,
        marks=tuple(marks),
        words=sketch.words,
        is_unique=len(values) == present,
        present=present,
        is_whole=sketch.figures.get("wholes") == present if column.family == "float" else None,
        number_format=number_format,
        date_format=date_format,
    )
    return find_type(facts)


def _conclude_measured(engine: Engine, sketch: ColumnSketch, rows: int) -> ColumnFacts:
    """Conclude from sums and ends: there are too many values to count them one by one."""
    column, figures = sketch.column, sketch.figures
    present, marked = int(figures["present"]), int(figures.get("marked", 0))
    value_type, low, high = _find_type(column, figures)
    facts = ColumnFacts(
        name=column.name,
        type=value_type,
        distinct=len(sketch.sample_values),
        low=low.date() if isinstance(low, datetime) else low,
        high=high.date() if isinstance(high, datetime) else high,
        has_missing=present + marked < rows,
        marks=_find_marks(engine, sketch) if marked else (),
        words=sketch.words,
        present=present,
        is_unique=_find_unique(engine, sketch, present),
        is_whole=figures.get("wholes") == present if column.family == "float" else None,
        grain=sketch.grain if figures.get("grained") == present else None,
    )
    return replace(facts, mesh=_find_mesh(engine, sketch, present))


def _find_type(column: Column, figures: dict[str, Any]) -> tuple[ValueType, Any, Any]:
    """Give the type of a column with its smallest and largest value; of texts, what all of them can be read as."""
    if column.family != "text":
        return _TYPES[column.family], figures.get("own_low"), figures.get("own_high")
    types: tuple[ValueType, ...] = ("integer", "number", "date")
    for value_type in types:
        if figures["present"] and figures.get(f"{value_type}s") == figures["present"]:
            return value_type, figures[f"{value_type}_low"], figures[f"{value_type}_high"]
    return "text", None, None


def _find_marks(engine: Engine, sketch: ColumnSketch) -> tuple[str, ...]:
    if sketch.column.family != "text":
        return sketch.words
    value = raw_column(sketch.column.column_id)
    query = query_rows([], [sketch.column.column_id]).select(value.as_("v"))
    query = query.where(is_in(value.copy(), sketch.marks)).distinct()
    return tuple(sorted(str(mark) for (mark,) in engine.stream(query)))


def _find_unique(engine: Engine, sketch: ColumnSketch, present: int) -> bool | None:
    """Tell whether no value repeats; None if there are too many rows to know."""
    if len(sketch.sample_values) < len(sketch.present):
        return False
    if present > _MOST_ROWS_COMPARED:
        return None
    value = _null_if_missing(sketch)
    query = query_rows([], [sketch.column.column_id]).select(exp.Count(this=exp.Distinct(expressions=[value])).as_("n"))
    return int(next(engine.stream(query))[0]) == present


def _find_mesh(engine: Engine, sketch: ColumnSketch, present: int) -> tuple[int, tuple[str, ...], int] | None:
    """Give the digits, the first-level codes and the number of other rows of a column that looks like mesh codes."""
    texts = sketch.sample_values
    digits = Counter(map(len, texts)).most_common(1)[0][0] if texts else 0
    if sketch.column.family not in ("text", "integer") or digits < 6 or not are_mesh_codes(texts, digits):
        return None  # a look at all rows would cost as much as half a count
    text = cast(raw_column(sketch.column.column_id), "VARCHAR")
    is_code = all_of(
        matches_pattern(text, MESH_TEXT), exp.EQ(this=call("LENGTH", text.copy()), expression=literal(digits))
    )
    head = choose([(is_code, call("LEFT", text.copy(), literal(4)))])
    query = query_rows([], [sketch.column.column_id]).select(head.as_("h"), exp.Count(this=exp.Star()).as_("n"))
    heads = dict(engine.stream(query.group_by("h")))
    codes = tuple(sorted(str(code) for code in heads if code is not None))
    return digits, codes, present - sum(int(number) for code, number in heads.items() if code is not None)


def _is_headed(sample: Sequence[str]) -> bool:
    """Tell a column that names a group in its first row only: the first row has a value, few others, all new ones."""
    present = [value for value in sample if value]
    return (
        len(present) > 1
        and bool(sample[0])
        and _HEADED * len(present) <= len(sample)
        and all(map(ne, present, present[1:]))
    )


def _sort_numbers(sketch: ColumnSketch, number_format: str | None) -> list[tuple[Fraction, int]]:
    """Give numbers with their rows, in order: of all rows where they were counted, else of the sample."""
    read = to_number if number_format is None else read_number_format(number_format).read
    counts = sketch.counts or Counter(sketch.sample)
    read_counts = [(read(text), rows) for text, rows in counts.items() if text not in sketch.words]
    return sorted((number, rows) for number, rows in read_counts if isinstance(number, Fraction))


def _find_reached(numbers: Sequence[tuple[Fraction, int]], share: float) -> Fraction | None:
    """Give the number that a share of the rows reach."""
    left = sum(rows for _, rows in numbers) * share
    for number, rows in reversed(numbers):
        left -= rows
        if left <= 0:
            return number
    return None


def _find_empty_pairs(sketches: Sequence[ColumnSketch]) -> list[tuple[str, str, str, str]]:
    """Find combinations of two values that chance would fill and that no row of the sample has."""
    listed = [sketch for sketch in sketches if sketch.column.family == "text" and 1 < len(sketch.sample_values) <= 12]
    found: list[tuple[float, tuple[str, str, str, str]]] = []
    for left, right in combinations(listed[:12], 2):
        pairs = Counter(zip(left.sample, right.sample, strict=True))
        lefts, rights = Counter(left.sample), Counter(right.sample)
        for a in left.sample_values:
            for b in right.sample_values:
                expected = lefts[a] * rights[b] / max(1, len(left.sample))
                if expected >= _LEAST_EXPECTED and not pairs[a, b]:
                    found.append((expected, (left.column.name, a, right.column.name, b)))
    return [pair for _, pair in sorted(found, reverse=True)[:_MOST_QUESTIONS]]
