"""Tricky rows to try a source on, and what they mean: every value by `Attribute.encode`, one at a time."""

from __future__ import annotations

import contextlib
import csv
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.errors import DomainError, SourceError, SudareError
from sudare.schema import (
    Attribute,
    DateBins,
    Domain,
    Impossible,
    MeshCells,
    NumberBins,
    Schema,
    TableHierarchy,
    Unit,
    Values,
)
from sudare.sources.base import RecodedRows, Source
from sudare.testing.subject import require

RawColumns = Mapping[str, list[Any]]

HIDDEN = "秘密-8675309"  # a value outside every domain here: no error may repeat it


@dataclass(frozen=True, kw_only=True)
class Case:
    """A table by columns, and the schema it is read with."""

    name: str
    schema: Schema
    columns: RawColumns


def schema_with(*attributes: Attribute, **facts: Any) -> Schema:
    """Make a schema of these attributes."""
    return Schema(name="rows", attributes=attributes, **facts)


def encoded(case: Case) -> list[tuple[int, ...]]:
    """The codes of every row, by the meaning that the schema gives each value."""
    named = [(one, case.columns[one.name]) for one in case.schema.attributes]
    return list(zip(*([one.encode(value) for value in values] for one, values in named), strict=True))


def expected_counts(case: Case) -> Counts:
    """The table a source must count."""
    return Counts.from_columns(case.schema, np.array(encoded(case), dtype=np.int64))


def expected_rows(case: Case) -> Counter[tuple[str | None, ...]]:
    """The rows a source must write, by label."""
    rows = encoded(case)
    labels = [one.labels(np.arange(one.size)).tolist() for one in case.schema.attributes]
    return Counter(tuple(table[code] for table, code in zip(labels, row, strict=True)) for row in rows)


def number_attribute(name: str, **facts: Any) -> Attribute:
    """Bins of width 0.1 from 0 to 1: edges that no float holds."""
    return Attribute(name=name, domain=NumberBins.of_width(0, 1, "0.1"), **facts)


def _bins(*edges: int) -> NumberBins:
    return NumberBins(tuple(Fraction(edge) for edge in edges))


TEXTS = Case(
    name="categories are compared by their exact text",
    schema=schema_with(
        Attribute(name="語", domain=Values(("東京", "東 京", "Tokyo", "tokyo", " tokyo", "髙", "高"))),
        Attribute(name="code", domain=Values(("007", "7", "7.0", "1e1", "10"))),
        Attribute(
            name='odd "name", 列', domain=Values(("NA", "NULL", "nan", "true", 'a"b', "a,b", "a\nb", "a'b", "{x}"))
        ),
    ),
    columns={
        "語": ["東京", "東 京", "Tokyo", "tokyo", " tokyo", "髙", "高", "高", "東京"],
        "code": ["007", "7", "7.0", "1e1", "10", "007", "7", "10", "10"],
        'odd "name", 列': ["NA", "NULL", "nan", "true", 'a"b', "a,b", "a\nb", "a'b", "{x}"],
    },
)

MISSING = Case(
    name="nothing, an empty text and the marks are missing; what is not declared is other",
    schema=schema_with(
        Attribute(name="a", domain=Values(("x", "y")), missing=True, missing_marks=("?", "不明")),
        Attribute(name="b", domain=Values(("x", "y")), outside="other"),
        Attribute(name="c", domain=Values(("x", "y")), outside="other", missing=True, missing_marks=("?",)),
        number_attribute("d", outside="other", missing=True, missing_marks=("-1", "不明")),
    ),
    columns={
        "a": ["x", None, "", "?", "不明", "y", "x"],
        "b": ["x", None, "", "?", HIDDEN, "X", " x"],
        "c": ["y", None, "", "?", HIDDEN, "X", "y "],
        "d": ["0.05", None, "", "不明", "-1", "-2", " "],
    },
)

NUMBERS = Case(
    name="numbers are cut at exact edges, whatever their type",
    schema=schema_with(
        number_attribute("text", outside="other"),
        number_attribute("float", outside="other"),
        number_attribute("decimal", outside="other"),
        Attribute(name="whole", domain=_bins(0, 18, 65, 120), outside="other"),
        Attribute(name="large", domain=_bins(0, 2**53, 2**53 + 1, 2**60), outside="other"),
    ),
    columns={
        "text": ["0.3", "0.29999999999999999999", " 0.7\u3000", "1", "1.0000000000000000001", "1e-1", "０.５", "+.5"],
        "float": [0.3, 0.1 + 0.2, 0.7, 1.0, 1.1, -0.0, 0.8999999999999999, 0.6],
        "decimal": [Decimal(text) for text in ("0.30", "0.29", "0.70", "1.00", "1.01", "-0.01", "0.90", "0.60")],
        "whole": [0, 17, 18, 64, 65, 120, 121, -1],
        "large": [0, 2**53 - 1, 2**53, 2**53 + 1, 2**60, 2**60 + 1, -1, 2**53 + 2],
    },
)

CLAMPED = Case(
    name="numbers and days outside the bins are taken to the nearest end",
    schema=schema_with(
        number_attribute("n", outside="clamp"),
        Attribute(name="d", domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"), outside="clamp"),
    ),
    columns={
        "n": ["-5", "0", "0.95", "1", "99999999999999999999"],
        "d": ["1999-12-31", "2024-01-01", "2024-02-29", "2024-12-31", "2030-06-01"],
    },
)

DAYS = Case(
    name="days are read in every declared form",
    schema=schema_with(
        Attribute(name="text", domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"), outside="other"),
        Attribute(name="typed", domain=DateBins.of_width("2023-01-01", "2024-12-31", "1 year"), missing=True),
        Attribute(
            name="formed",
            domain=DateBins.of_width("2024-01-01", "2024-01-31", "1 day"),
            date_format="%Y年%m月%d日",
            outside="other",
        ),
    ),
    columns={
        "text": ["2024-01-31", "2024/2/29", "20240301", "2024-12-31 23:59:59", "2023-02-29", "2024-13-01"],
        "typed": [date(2023, 1, 1), date(2023, 12, 31), date(2024, 1, 1), date(2024, 2, 29), None, date(2024, 12, 31)],
        "formed": ["2024年1月5日", "2024年01月31日", "2024-01-05", "2024年2月1日", "２０２４年1月5日", "2024年1月1日"],
    },
)

MESH = Case(
    name="mesh codes are found by arithmetic, finer ones in their cell",
    schema=schema_with(
        Attribute(name="third", domain=MeshCells(level=3, area=("5339", "5340")), outside="other", missing=True),
        Attribute(name="listed", domain=MeshCells(level=4, cells=np.array([533945261, 533945264])), outside="other"),
        Attribute(name="whole", domain=MeshCells(level=2, area=("5339",)), outside="other"),
    ),
    columns={
        "third": ["53394526", "5339452611", "53400000", "5339", "99999999", None, "53398900"],
        "listed": ["533945261", "5339452644", "533945262", "53394526", "", "533945264", HIDDEN],
        "whole": [533945, 53394526, 533900, 5339, 534000, 533977, 533978],
    },
)

WIDE = Case(
    name="cells beyond 2**63 are coded exactly",
    schema=schema_with(*(Attribute(name=f"w{i}", domain=NumberBins.of_width(0, 1000, 1)) for i in range(8))),
    columns={f"w{i}": [0, 999, 1000, (i * 37) % 1000, 500, 999] for i in range(8)},
)

ORDER = Case(
    name="columns are found by name, in any order, and others are left alone",
    schema=schema_with(
        Attribute(name="b", domain=Values(("x", "y"))),
        Attribute(name="A", domain=Values(("1", "2", "3"))),
        identifiers=("id",),
    ),
    columns={
        "unused": ["p", "q", "r", "s"],
        "A": ["1", "2", "3", "3"],
        "id": ["n1", "n2", "n3", "n4"],
        "b": ["x", "y", "y", "y"],
    },
)

POSSIBLE = Case(
    name="rows beside the impossible combinations are counted",
    schema=schema_with(
        Attribute(name="age", domain=_bins(0, 15, 120)),
        Attribute(name="marital", domain=Values(("single", "married"))),
        impossible=(Impossible((("age", frozenset({0})), ("marital", frozenset({1})))),),
    ),
    columns={"age": ["3", "15", "40", "14.9"], "marital": ["single", "married", "single", "single"]},
)

LEVELS = Case(
    name="values are replaced by the labels of a level",
    schema=schema_with(
        Attribute(
            name="city",
            domain=Values(("東京", "横浜", "大阪")),
            missing=True,
            hierarchy=TableHierarchy(
                parents=(np.array([0, 0, 1]), np.array([0, 0])),
                names=(("東京", "横浜", "大阪"), ("関東", "近畿"), ("*",)),
            ),
        ),
        Attribute(name="mesh", domain=MeshCells(level=3, area=("5339",))),
        number_attribute("n"),
    ),
    columns={
        "city": ["東京", "横浜", "大阪", None, "東京"],
        "mesh": ["53394526", "53394527", "53390000", "53394526", "53394526"],
        "n": ["0.05", "0.95", "1", "0.5", "0.05"],
    },
)

CASES = (TEXTS, MISSING, NUMBERS, CLAMPED, DAYS, MESH, WIDE, ORDER, POSSIBLE, LEVELS)


def _one_wrong(name: str, domain: Domain, good: str, wrong: str | None, **facts: Any) -> Case:
    """Two rows of one attribute, of which the second does not fit."""
    attribute = Attribute(name="suspect", domain=domain, **facts)
    return Case(name=name, schema=schema_with(attribute), columns={"suspect": [good, wrong]})


_TENTHS = NumberBins.of_width(0, 1, "0.1")

# One table for each way not to fit; the attribute is called "suspect".
REFUSED = (
    _one_wrong("a text that is not declared", Values(("x",)), "x", HIDDEN),
    _one_wrong("a number outside the bins", _TENTHS, "0.5", "8675309"),
    _one_wrong("a text for a number", _TENTHS, "0.5", HIDDEN, outside="clamp"),
    _one_wrong("a missing number", _TENTHS, "0.5", None),
    _one_wrong("a day outside the bins", DateBins((date(2024, 1, 1), date(2024, 12, 31))), "2024-01-01", "8675-03-09"),
    _one_wrong("a mesh code outside the area", MeshCells(level=1, area=("5339",)), "5339", "8675"),
)

IMPOSSIBLE = Case(
    name="an impossible combination",
    schema=POSSIBLE.schema,
    columns={"age": ["3", "40"], "marital": ["married", "single"]},
)

PEOPLE = Case(
    name="a person keeps at most the declared number of rows",
    schema=schema_with(
        Attribute(name="who", domain=Values(tuple(f"p{i}" for i in range(6)))),
        unit=Unit(kind="person", column="person", max_rows=3),
    ),
    columns={
        "person": [f"id-{i}" for i in range(6) for _ in range(i + 1)],
        "who": [f"p{i}" for i in range(6) for _ in range(i + 1)],
    },
)

CROWD = Case(
    name="which rows of a person are kept is random",
    schema=schema_with(
        Attribute(name="row", domain=Values(("first", "second"))),
        unit=Unit(kind="person", column="person", max_rows=1),
    ),
    columns={"person": [str(i // 2) for i in range(800)], "row": ["first", "second"] * 400},
)


# The contract of a source: every engine counts, refuses and writes alike, and lets no value slip out.


OpenRows = Callable[[RawColumns, Schema], Source]

SLIPS = ("秘密", "8675")


def every_value_is_counted_as_the_schema_encodes_it(open_rows: OpenRows) -> None:
    """Texts, missing, other, numbers, days, mesh, many words: cell by cell as `Attribute.encode` has it."""
    for case in CASES:
        with _opened(open_rows, case) as source:
            found = source.count()
        require(found == expected_counts(case), f"a table is counted otherwise than encode reads it: {case.name}")


def chosen_attributes_are_counted_in_the_order_asked_for(open_rows: OpenRows) -> None:
    """`count(by)` is the projection of the whole count, also one attribute at a time."""
    for case in (TEXTS, WIDE, ORDER, MISSING):
        whole, names = expected_counts(case), case.schema.names
        with _opened(open_rows, case) as source:
            for by in (names[::-1], names[:1], names[-1:], names):
                require(source.count(by) == whole.project(by), f"count(by) is not the projection: {case.name}")


def a_table_without_rows_is_counted(open_rows: OpenRows) -> None:
    """Nobody in the table is a table like any other."""
    for case in (TEXTS, NUMBERS, DAYS, MESH, PEOPLE):
        empty = replace(case, columns={name: [] for name in case.columns})
        with _opened(open_rows, empty) as source:
            found = source.count()
        require(found.total == 0 and found.nonzero == 0, f"an empty table must count nobody: {case.name}")


def counting_twice_counts_the_same(open_rows: OpenRows) -> None:
    """A source is not used up."""
    with _opened(open_rows, MISSING) as source:
        require(source.count() == source.count(), "a second count must be the same")


def rows_that_do_not_fit_are_refused_without_telling_values(open_rows: OpenRows) -> None:
    """The error names the attribute; no value is in it, nor in the errors behind it."""
    for case in REFUSED:
        error = _refusal(open_rows, case, DomainError)
        require("suspect" in str(error), f"the error must name the attribute: {case.name}")


def rows_in_impossible_combinations_are_refused(open_rows: OpenRows) -> None:
    """What was declared impossible is not counted in silence."""
    _refusal(open_rows, IMPOSSIBLE, DomainError)


def a_column_that_is_not_there_is_named(open_rows: OpenRows) -> None:
    """One clear line before anything is counted."""
    partial = {name: values for name, values in ORDER.columns.items() if name != "A"}
    error = _refusal(open_rows, replace(ORDER, columns=partial), SourceError)
    require("A" in str(error), "the error must name the column that is not there")


def the_steward_is_told_what_does_not_fit(open_rows: OpenRows) -> None:
    """`check` finds every such row by attribute, and nothing in a table that fits."""
    for case in (*REFUSED, IMPOSSIBLE):
        with _opened(open_rows, case) as source:
            found = source.check()
        refused = [one for one in found.problems if one.is_refused]
        require(not found.fits, f"check must find that the table does not fit: {case.name}")
        require(sum(one.rows for one in refused) == 1, f"check must count the rows that do not fit: {case.name}")
        named = case is IMPOSSIBLE or refused[0].attribute == "suspect"
        require(named, f"check must name the attribute: {case.name}")
    for case in CASES:
        with _opened(open_rows, case) as source:
            require(source.check().fits, f"check must find that the table fits: {case.name}")


def a_person_keeps_at_most_the_declared_number_of_rows(open_rows: OpenRows) -> None:
    """No more, and no fewer than there are; which ones is left to chance."""
    with _opened(open_rows, PEOPLE) as source:
        found = source.count().dense().tolist()
    require(found == [1, 2, 3, 3, 3, 3], "each person must keep min(rows, max_rows) rows")
    with _opened(open_rows, CROWD) as source:
        first, second = source.count().dense().tolist()
    require(first + second == 400, "each of 400 persons must keep one row")
    # 400 fair coins: 6 standard deviations are 60
    require(abs(first - 200) <= 60, "which row of a person is kept must be random, not its place in the file")


def rows_without_a_person_are_refused(open_rows: OpenRows) -> None:
    """Nobody's rows cannot be limited, so they are not counted in silence."""
    nobody = [None, *PEOPLE.columns["person"][1:]]
    _refusal(open_rows, replace(PEOPLE, columns={**PEOPLE.columns, "person": nobody}), SourceError)


def rows_are_written_with_the_labels_of_the_schema(open_rows: OpenRows) -> None:
    """`write` gives every row back, values as the schema labels them, and no other column."""
    for case in (TEXTS, MISSING, NUMBERS, DAYS, MESH, ORDER):
        with _opened(open_rows, case) as source:
            names, written = _written(source)
        require(names == case.schema.names, f"the written columns must be those of the schema: {case.name}")
        require(written == _as_text(expected_rows(case)), f"the written rows are not those read: {case.name}")


def rows_are_recoded_to_levels_of_their_hierarchies(open_rows: OpenRows) -> None:
    """`recode` writes the labels of the chosen level, and the own labels of attributes that are not named."""
    case, levels = LEVELS, {"city": 1, "mesh": 2}
    coarse = case.schema.coarsen(levels)
    lifted = [
        tuple(_lift(one, code, levels.get(one.name, 0)) for one, code in zip(case.schema.attributes, row, strict=True))
        for row in encoded(case)
    ]
    labels = [one.labels(np.arange(one.size)).tolist() for one in coarse.attributes]
    expected = Counter(tuple(table[code] for table, code in zip(labels, row, strict=True)) for row in lifted)
    with _opened(open_rows, case) as source:
        names, written = _written(source.recode(levels))
    require(names == case.schema.names, "the recoded columns must be those of the schema")
    require(written == _as_text(expected), "the recoded rows must have the labels of the level")


def labels_of_ones_own_are_applied(open_rows: OpenRows) -> None:
    """`apply` writes one given label per code."""
    case = LEVELS
    own = np.array(["甲", "乙", "丙", None], dtype=object)
    codes = [row[0] for row in encoded(case)]
    with _opened(open_rows, case) as source:
        names, written = _written(source.apply({"city": own}))
    position = names.index("city")
    found = Counter(row[position] for row in written.elements())
    require(found == Counter(own[code] or "" for code in codes), "every code must be written with its own label")


SOURCE_CHECKS: tuple[Callable[[OpenRows], None], ...] = (
    every_value_is_counted_as_the_schema_encodes_it,
    chosen_attributes_are_counted_in_the_order_asked_for,
    a_table_without_rows_is_counted,
    counting_twice_counts_the_same,
    rows_that_do_not_fit_are_refused_without_telling_values,
    rows_in_impossible_combinations_are_refused,
    a_column_that_is_not_there_is_named,
    the_steward_is_told_what_does_not_fit,
    a_person_keeps_at_most_the_declared_number_of_rows,
    rows_without_a_person_are_refused,
    rows_are_written_with_the_labels_of_the_schema,
    rows_are_recoded_to_levels_of_their_hierarchies,
    labels_of_ones_own_are_applied,
)


def check_source(open_rows: OpenRows) -> list[str]:
    """Try a source against its contract; return the sentences that hold, or fail with the first that does not.

    `open_rows(columns, schema)` puts columns of plain values (texts, whole numbers, floats, decimals, days, None)
    where the source reads from, and opens it. A source of text files writes them as texts, None as nothing.

    Error: AssertionError with the sentence that does not hold and what was found instead.
    """
    return [_checked(check, open_rows) for check in SOURCE_CHECKS]


def _checked(check: Callable[[OpenRows], None], open_rows: OpenRows) -> str:
    sentence = check.__name__.replace("_", " ")
    try:
        check(open_rows)
    except AssertionError as error:
        raise AssertionError(f"it does not hold that {sentence}: {error}") from None
    return sentence


@contextlib.contextmanager
def _opened(open_rows: OpenRows, case: Case) -> Iterator[Source]:
    with contextlib.closing(open_rows(case.columns, case.schema)) as source:
        yield source


def _refusal(open_rows: OpenRows, case: Case, kind: type[SudareError]) -> SudareError:
    try:
        with _opened(open_rows, case) as source:
            source.count()
    except kind as error:
        shown = "".join(traceback.TracebackException.from_exception(error, lookup_lines=False).format_exception_only())
        behind = "" if error.__suppress_context__ and not error.__cause__ else f"{error.__cause__}{error.__context__}"
        require(not any(slip in shown + behind for slip in SLIPS), f"a value of the table is in the error: {case.name}")
        require("\n" not in str(error), f"the error must be one line: {case.name}")
        return error
    raise AssertionError(f"rows that do not fit must be refused with {kind.__name__}: {case.name}")


def _written(source: Source | RecodedRows) -> tuple[tuple[str, ...], Counter[tuple[str, ...]]]:
    """Write the rows to a CSV file and read it back with nothing but Python."""
    with tempfile.TemporaryDirectory() as place:
        source.write(file := Path(place) / "written.csv")
        with file.open(encoding="utf-8", newline="") as stream:
            head, *lines = csv.reader(stream)
    return tuple(head), Counter(tuple(line) for line in lines)


def _as_text(expected: Counter[tuple[str | None, ...]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(value or "" for value in row) for row in expected.elements())


def _lift(attribute: Attribute, code: int, level: int) -> int:
    if level == 0 or attribute.hierarchy is None:
        return code
    return int(attribute.hierarchy.lift(np.array([code]), level)[0])
