"""SQL and `Attribute.encode` give every raw value the same code, whatever the kind and the type of the column."""

from __future__ import annotations

import csv
import datetime
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import sudare.sources as sources
from sudare.errors import DomainError
from sudare.schema import Attribute, DateBins, MeshCells, NumberBins, Schema, Values
from sudare.sources.query import ROW
from sudare.sources.sql import raw_column
from sudare.sources.table import TableSource

BLANK = st.sampled_from(["", "", "", " ", "\t", "\n", "\r\n", "\u3000", " \u3000", "\u00a0"])


def meant(attribute: Attribute, values: Sequence[object]) -> list[int | None]:
    """What the schema says the values mean; None where they do not fit."""

    def code(value: object) -> int | None:
        try:
            return attribute.encode(value)
        except DomainError:
            return None

    return [code(value) for value in values]


def coded(source: TableSource) -> dict[str, list[int | None]]:
    """What the queries of a source make of its columns."""
    attributes = source.schema.attributes
    codes = [source.encode_attribute(attribute) for attribute in attributes]
    query = source.query(codes, source.column_ids(attributes), is_numbered=True)
    query = query.select(raw_column(ROW).as_("n")).order_by("n")
    for attribute, sql_code in zip(attributes, codes, strict=True):
        query = query.select(exp.cast(sql_code.expression, "BIGINT").as_(attribute.name))
    found = source.engine.arrays(query)
    return {
        name: [None if code is None else int(code) for code in found[name].tolist()] for name in source.schema.names
    }


def found_in(
    attribute: Attribute, columns: Mapping[str, Sequence[object]], data: object
) -> dict[str, list[int | None]]:
    schema = Schema(name="t", attributes=tuple(replace(attribute, name=name) for name in columns))
    with sources.open(data, schema) as source:
        return coded(source)


def agree(attribute: Attribute, *columns: tuple[Sequence[object], pa.DataType]) -> None:
    """Put columns of several types into one table and compare."""
    longest = max(len(values) for values, _ in columns)
    values = {f"x{index}": [*values, *[None] * (longest - len(values))] for index, (values, _) in enumerate(columns)}
    table = pa.table(
        [pa.array(values[f"x{index}"], kind) for index, (_, kind) in enumerate(columns)], names=list(values)
    )
    found = found_in(attribute, values, table)
    expected = {name: meant(attribute, each) for name, each in values.items()}

    assert _paired(values, found) == _paired(values, expected)


def _paired(values: Mapping[str, Sequence[object]], codes: Mapping[str, Sequence[object]]) -> dict[str, object]:
    return {f"{name} {value!r}": code for name in values for value, code in zip(values[name], codes[name], strict=True)}


# --- attributes ---------------------------------------------------------------------------------------------------

MARKS = ("?", "NA", "-1", "999", "9.0", "2024-01-01", "1900-01-01 00:00:00", "true")


@st.composite
def branches(draw: st.DrawFn, *, bins: bool) -> dict[str, Any]:
    """How an attribute treats missing and outside values."""
    missing = draw(st.booleans())
    marks = tuple(draw(st.lists(st.sampled_from(MARKS), unique=True, max_size=3))) if missing else ()
    outside = draw(st.sampled_from(["refuse", "clamp", "other"] if bins else ["refuse", "other"]))
    return {"missing": missing, "missing_marks": marks, "outside": outside}


def decimals(places: int, most: int = 10**6) -> st.SearchStrategy[Fraction]:
    return st.integers(-most, most).map(lambda number: Fraction(number, 10**places))


@st.composite
def bins_of_numbers(draw: st.DrawFn) -> NumberBins:
    places = draw(st.integers(0, 4))
    if draw(st.booleans()):
        start, width = draw(decimals(places)), abs(draw(decimals(places))) + Fraction(1, 10**places)
        count = draw(st.sampled_from([1, 2, 7, 64, 65, 300]))
        return NumberBins(tuple(start + index * width for index in range(count + 1)))
    edges = draw(st.lists(decimals(places), min_size=2, max_size=12, unique=True))
    return NumberBins(tuple(sorted(edges)))


@st.composite
def number_attributes(draw: st.DrawFn) -> Attribute:
    return Attribute(name="x", domain=draw(bins_of_numbers()), **draw(branches(bins=True)))


def exact_text(value: Fraction) -> str:
    """Up to 25 decimal places: more digits than any double, and no exponent."""
    whole, rest = divmod(abs(value.numerator) * 10**25 // value.denominator, 10**25)
    digits = f"{whole}.{rest:025d}".rstrip("0").rstrip(".")
    return f"-{digits}" if value < 0 else digits


@st.composite
def near(draw: st.DrawFn, attribute: Attribute) -> Fraction:
    """A number on an edge, a hair beside it, or anywhere."""
    edge = draw(st.sampled_from(attribute.domain.edges))
    beside = draw(
        st.sampled_from([0, 0, Fraction(1, 10**20), -Fraction(1, 10**20), Fraction(1, 10**3), -Fraction(1, 10**9)])
    )
    return draw(st.one_of(st.just(edge + beside), decimals(6, 10**12)))


TEXTS = st.sampled_from(
    [
        "",
        "1e3",
        "1_000",
        "１２",
        "0x10",
        "nan",
        "inf",
        "+5",
        "-.5",
        "5.",
        ".",
        "-",
        "+",
        "1,000",
        " ",
        "1 2",
        "²",
        *MARKS,
    ]
)


@settings(max_examples=25)
@given(st.data())
def test_numbers_in_text_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(number_attributes())
    number = near(attribute).map(exact_text)
    padded = st.tuples(BLANK, number, BLANK).map("".join)
    values = data.draw(st.lists(st.one_of(st.none(), TEXTS, number, padded), min_size=1, max_size=60))

    agree(attribute, (values, pa.string()))


@settings(max_examples=20)
@given(st.data())
def test_doubles_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(number_attributes())
    edges = near(attribute).map(float)
    steps = st.tuples(edges, st.sampled_from([np.inf, -np.inf])).map(lambda pair: float(np.nextafter(*pair)))
    values = data.draw(st.lists(st.one_of(st.none(), st.floats(), edges, steps), min_size=1, max_size=60))

    agree(attribute, (values, pa.float64()))


@settings(max_examples=25)
@given(st.data())
def test_integers_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(number_attributes())
    numbers = st.one_of(near(attribute).map(int), st.integers(-(2**63), 2**63 - 1), st.sampled_from([-1, 999]))
    values = data.draw(st.lists(st.one_of(st.none(), numbers), min_size=1, max_size=60))

    agree(attribute, (values, pa.int64()))


@settings(max_examples=15)
@given(st.data(), st.sampled_from([(9, 4), (15, 6), (20, 8), (38, 10)]))
def test_decimals_mean_the_same(data: st.DataObject, form: tuple[int, int]) -> None:
    digits, scale = form
    attribute = data.draw(number_attributes())
    most = 10**digits - 1
    unscaled = st.one_of(st.integers(-most, most), near(attribute).map(lambda number: int(number * 10**scale)))
    kept = unscaled.filter(lambda number: abs(number) <= most).map(lambda number: exact_decimal(number, scale))
    values = data.draw(st.lists(st.one_of(st.none(), kept), min_size=1, max_size=60))

    agree(attribute, (values, pa.decimal128(digits, scale)))


def exact_decimal(unscaled: int, scale: int) -> Decimal:
    """Every digit, whatever the precision of the context."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def test_tenths_fall_on_the_edges_that_people_wrote() -> None:
    tenths = Attribute(name="x", domain=NumberBins.of_width("0", "1", "0.1"))
    values = [0.1, 0.2, 0.3, 0.1 + 0.2, 0.7, 0.8 - 0.1, 0.9999999999999999, 1.0]

    texts = ["0.3", "0.29999999999999999999", "0.30000000000000004", "0.3000000000000000000001"]
    table = pa.table({"x": values[:4], "y": texts})

    assert found_in(tenths, {"x": values[:4], "y": texts}, table) == {"x": [1, 2, 3, 3], "y": [3, 2, 3, 3]}
    agree(tenths, (values, pa.float64()), (texts, pa.string()))


def test_bins_too_many_or_too_fine_for_arithmetic_are_still_exact() -> None:
    uneven = NumberBins(tuple(Fraction(k * k, 10**20) for k in range(5000)))
    attribute = Attribute(name="x", domain=uneven, missing=True)
    values = ["0.00000000000000000004", "0.000000000000000000039", "0", "1", None]

    agree(
        attribute,
        (values, pa.string()),
        ([0, 1, None], pa.int64()),
        ([4e-20, 3.9e-20, 2.499e-13], pa.float64()),
    )


# --- days -----------------------------------------------------------------------------------------------------------

DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
NEAR = st.dates(datetime.date(2023, 11, 1), datetime.date(2025, 2, 28))
CUTS = [
    DateBins.of_width("2024-01-01", "2024-12-31", "1 month"),
    DateBins.of_width("2024-01-01", "2024-12-30", "1 day"),
    DateBins.of_width("2024-01-01", "2024-02-04", "7 days"),
    DateBins(tuple(datetime.date(2024, 1, day) for day in (1, 8, 15, 17))),
    DateBins((datetime.date(2, 1, 1), datetime.date(2024, 1, 1), datetime.date(9000, 1, 1))),
    DateBins((datetime.date(2024, 1, 1), datetime.date(2024, 1, 1))),
]
FORMATS = [
    None,
    "%Y年%m月%d日",
    "%d.%m.%Y",
    "%Y%m%d",
    "%Y-%m",
    "%y/%m/%d",
    "%Y-%j",
    "%Y-%m-%d %H:%M:%S",
    " %Y",
    "%Y%%%m",
]


@st.composite
def day_attributes(draw: st.DrawFn, *, formats: bool) -> Attribute:
    form = draw(st.sampled_from(FORMATS)) if formats else None
    return Attribute(name="x", domain=draw(st.sampled_from(CUTS)), date_format=form, **draw(branches(bins=True)))


@st.composite
def day_texts(draw: st.DrawFn, form: str | None) -> str:
    day = draw(st.one_of(NEAR, DAYS))
    written = [
        day.isoformat(),
        f"{day.year:04d}/{day.month}/{day.day}",
        f"{day.year:04d}-{day.month}-{day.day}",
        f"{day.year:04d}{day.month:02d}{day.day:02d}",
        f"{day.isoformat()} 10:30",
        f"{day.isoformat()}T23:59:59",
        f"{day.isoformat()} 1:30:00.123+09:00",
        f"{day.year:04d}/{day.month:02d}/{day.day:02d} 25:61",
        f"{day.year:04d}-{day.month:02d}/{day.day:02d}",
    ]
    if form is not None:
        full = datetime.datetime(day.year, day.month, day.day, 9, 8, 7).strftime(form)
        written += [full, full.replace("0", ""), full + "x", full.replace(":08", ":68")]
    return draw(BLANK) + draw(st.sampled_from(written)) + draw(BLANK)


STRANGE = "0000-01-01 00000101 2024-02-30 2024-13-01 2024-1-1 infinity epoch today ２０２４-01-01 -2024-01-01 1-1-2024"
ODD_DAYS = st.sampled_from([*STRANGE.split(), "2024-01-01 (BC)", "12024-01-01", *MARKS])


@settings(max_examples=25)
@given(st.data())
def test_days_in_text_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(day_attributes(formats=True))
    texts = day_texts(attribute.date_format)
    values = data.draw(st.lists(st.one_of(st.none(), st.just(""), ODD_DAYS, texts), min_size=1, max_size=60))

    agree(attribute, (values, pa.string()))


@settings(max_examples=15)
@given(st.data())
def test_dates_and_moments_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(day_attributes(formats=False))
    days = data.draw(st.lists(st.one_of(st.none(), NEAR, DAYS), min_size=1, max_size=60))
    clock = datetime.time(23, 59, 59, 999999)
    moments = [None if day is None else datetime.datetime.combine(day, clock) for day in days]
    midnights = [None if day is None else datetime.datetime.combine(day, datetime.time()) for day in days]

    agree(attribute, (days, pa.date32()), ([*moments, *midnights], pa.timestamp("us")))


@settings(max_examples=15)
@given(st.data())
def test_days_in_integers_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(day_attributes(formats=True))
    days = NEAR.map(lambda day: int(day.strftime("%Y%m%d")))
    numbers = st.one_of(days, st.integers(), st.sampled_from([-1, 999, 20240230, 101, 2024, 202401]))
    kept = numbers.filter(lambda number: -(2**63) <= number < 2**63)
    values = data.draw(st.lists(st.one_of(st.none(), kept), min_size=1, max_size=60))

    agree(attribute, (values, pa.int64()))


# --- mesh -----------------------------------------------------------------------------------------------------------


@st.composite
def mesh_attributes(draw: st.DrawFn) -> Attribute:
    level = draw(st.integers(1, 6))
    cells = MeshCells(level=level, area=("5339", "5340", "3036"))
    if draw(st.booleans()):
        listed = cells.numbers(np.array(draw(st.lists(st.integers(0, cells.size - 1), min_size=1, max_size=5))))
        cells = MeshCells(level=level, cells=listed)
    return Attribute(name="x", domain=cells, **draw(branches(bins=False)))


@st.composite
def mesh_codes(draw: st.DrawFn, attribute: Attribute) -> str:
    fine = MeshCells(level=6, area=("5339", "5340", "3036", "6848"))
    code = fine.labels(np.array([draw(st.integers(0, fine.size - 1))]))[0]
    if draw(st.booleans()):
        own = attribute.domain
        code = own.labels(np.array([draw(st.integers(0, own.size - 1))]))[0]
    cut = code[: draw(st.sampled_from([4, 6, 8, 9, 10, 11, 11, 11]))]
    if draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(0, len(cut) - 1))
        cut = cut[:place] + draw(st.sampled_from("0123456789")) + cut[place + 1 :]
    return cut


@settings(max_examples=20)
@given(st.data())
def test_mesh_codes_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(mesh_attributes())
    code = mesh_codes(attribute)
    padded = st.tuples(BLANK, code, BLANK).map("".join)
    odd = st.sampled_from(["", "+5339", "5339.0", "5e3", "５３３９", "53-39", *MARKS])
    texts = data.draw(st.lists(st.one_of(st.none(), code, padded, odd), min_size=1, max_size=40))
    numbers = data.draw(st.lists(st.one_of(st.none(), code.map(int), st.integers(-1, 10**12)), min_size=1, max_size=40))

    decimals_ = [None if one is None else Decimal(one) for one in numbers]

    agree(attribute, (texts, pa.string()), (numbers, pa.int64()), (decimals_, pa.decimal128(20, 0)))


# --- listed values ----------------------------------------------------------------------------------------------------

WORDS = [
    "F",
    "M",
    "東京都",
    "髙橋",
    "1",
    "2",
    "01",
    "-1",
    "1.0",
    "0.0",
    "1.50",
    "true",
    "2024-01-01",
    " x",
    "it's",
    '"',
    "～",
    "NULL",
    "a,b",
]


@st.composite
def value_attributes(draw: st.DrawFn) -> Attribute:
    rules = draw(branches(bins=False))
    words = [word for word in WORDS if word not in rules["missing_marks"]]
    listed = draw(st.lists(st.sampled_from(words), min_size=1, unique=True))
    return Attribute(name="x", domain=Values(tuple(listed), is_ordered=draw(st.booleans())), **rules)


@settings(max_examples=20)
@given(st.data())
def test_listed_values_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(value_attributes())
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
    words = st.one_of(st.none(), st.sampled_from([*WORDS, *MARKS, "", " ", "f", "F "]), text)
    values = data.draw(st.lists(words, min_size=1, max_size=60))

    agree(attribute, (values, pa.string()), (values, pa.dictionary(pa.int32(), pa.string())))


@settings(max_examples=15)
@given(st.data())
def test_values_of_every_type_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(value_attributes())
    days = [datetime.date(2024, 1, 1), None, datetime.date(2023, 1, 1)]

    moments = [datetime.datetime(1900, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 0, 100000), None]

    agree(
        attribute,
        ([1, 2, None, -1, 999, 2**63 - 1, 0], pa.int64()),
        ([1, 2, None, 2**64 - 1], pa.uint64()),
        ([1.0, -0.0, 0.0, None, float("nan"), 1e16, 1e-5, 9.0, float("inf")], pa.float64()),
        ([Decimal("1.50"), None, Decimal("0.00")], pa.decimal128(6, 2)),
        ([Decimal("0E-9"), None, Decimal("1.000000000")], pa.decimal128(20, 9)),
        ([True, False, None], pa.bool_()),
        (days, pa.date32()),
        (moments, pa.timestamp("us")),
    )


@settings(max_examples=15)
@given(st.data())
def test_types_that_a_kind_does_not_expect_mean_the_same(data: st.DataObject) -> None:
    attribute = data.draw(st.one_of(number_attributes(), day_attributes(formats=True), mesh_attributes()))

    agree(
        attribute,
        ([True, False, None], pa.bool_()),
        ([datetime.date(2024, 1, 1), None], pa.date32()),
        ([datetime.datetime(1900, 1, 1), datetime.datetime(2024, 1, 1), None], pa.timestamp("us")),
        ([5339.0, 9.0, -1.0, None, float("nan"), float("inf"), 20240101.0], pa.float64()),
        ([5339, 20240101, 2**64 - 1, None, 999], pa.uint64()),
        ([Decimal("9.0"), Decimal("1.5"), None], pa.decimal128(5, 1)),
    )


# --- text files -----------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.data())
def test_a_text_file_means_what_its_fields_mean(data: st.DataObject) -> None:
    attribute = data.draw(st.one_of(value_attributes(), number_attributes(), day_attributes(formats=True)))
    text = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), max_size=5)
    fields = st.one_of(st.sampled_from([*WORDS, *MARKS, "", "12.5", "2024/1/5", 'a"b', "line\nbreak"]), text)
    values = data.draw(st.lists(fields, min_size=1, max_size=40))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "data.csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows([("x", "y"), *((value, "1") for value in values)])
        found = found_in(attribute, {"x": values}, path)

    assert found == {"x": meant(attribute, values)}
