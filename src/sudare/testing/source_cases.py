"""Tricky rows to try a source on, and what they mean: every value by `Attribute.encode`, one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.counts import Counts
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
        Attribute(
            name="seconds",
            domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"),
            date_format="unix-seconds",
            outside="clamp",
        ),
        Attribute(
            name="thousandths",
            domain=DateBins.of_width("2024-01-01", "2024-01-10", "1 day"),
            date_format="unix-milliseconds+09:00",
            outside="other",
            missing=True,
        ),
    ),
    columns={
        "seconds": [1704067199, 1704067200, 1706745599, 1706745600, 1735689599, 1735689600],
        "thousandths": ["1704034800000", "1704034799999", "1704121199999.5", "1704898800000", "2024-01-01", ""],
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


HOSTILE_TEXTS = (
    "'); DROP TABLE sudare_rows; --", '"; SELECT 1', "\\N", "\\.", "\\", "%s", "$1", "{0}", "x\n", "x", "x ", " x",
    "\u00e9", "e\u0301", "\U0001f469\u200d\U0001f467", "\u202etxet", "sudare_row", "NULL", "0.0", "-0.0", "\ufb01",
    "fi", "\u0130", "i", "\u00df", "ss", "%", "_", "[x]", "^x$", "x" * 5000,
)  # fmt: skip

HOSTILE = Case(
    name="texts that mean something to an engine are only texts",
    schema=schema_with(
        Attribute(name="listed", domain=Values(HOSTILE_TEXTS)),
        Attribute(name="'; --", domain=Values(HOSTILE_TEXTS[::2]), outside="other"),
        number_attribute("number", outside="other"),
        Attribute(name="day", domain=DateBins((date(2024, 1, 1), date(2024, 12, 31))), outside="other"),
        Attribute(name="mesh", domain=MeshCells(level=1, area=("5339",)), outside="other"),
    ),
    columns={
        "listed": list(HOSTILE_TEXTS),
        "'; --": list(HOSTILE_TEXTS[::-1]),
        "number": ["0.5\n", "0.5\nx", "1" * 301, "0." + "0" * 400 + "1", "NaN", "-Infinity", *HOSTILE_TEXTS[6:]],
        "day": ["2024-02-30", "2024-02-29\n", "2024-01-01\n\n1", "0000-00-00", "infinity", "now", *HOSTILE_TEXTS[6:]],
        "mesh": ["5339\n", "5339\nx", "٥٣٣٩", "５３３９", "5339", " 5339", *HOSTILE_TEXTS[6:]],
    },
)

VISITS = Case(
    name="the rows that a person keeps",
    schema=schema_with(
        Attribute(name="person", domain=Values(tuple(f"p{i}" for i in range(500)))),
        Attribute(name="visit", domain=Values(tuple(f"v{i}" for i in range(8)))),
        unit=Unit(kind="person", column="id", max_rows=3),
    ),
    columns={
        "id": [i % 500 for i in range(4000)],
        "person": [f"p{i % 500}" for i in range(4000)],
        "visit": [f"v{i // 500}" for i in range(4000)],
    },
)
