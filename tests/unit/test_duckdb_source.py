"""Files and frames counted, checked, recoded and written."""

from __future__ import annotations

import csv
import datetime
import gzip
import itertools
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sudare.sources as sources
from sudare.errors import DomainError, ParameterError, SchemaError, SourceError
from sudare.schema import Attribute, DateBins, Impossible, MeshCells, NumberBins, Schema, TableHierarchy, Unit, Values
from sudare.sources import base
from sudare.sources import duckdb as engine_file
from sudare.sources.table import TableSource

SEX = Attribute(name="sex", domain=Values(("F", "M")), role="quasi")
AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), missing=True)
PEOPLE = Schema(name="people", attributes=(SEX, AGE), identifiers=("name",))
ROWS = [("F", 31, "Ann"), ("M", 7, "Bob"), ("F", 39, "Eve"), ("F", None, "Joy"), ("M", 100, "Tom")]
HEAD = ("sex", "age", "name")
CELLS = {(0, 3): 2, (1, 0): 1, (0, 10): 1, (1, 9): 1}


def cells(source: TableSource, by: Sequence[str] | None = None) -> dict[tuple[int, ...], int]:
    counts = source.count(by)
    return {tuple(codes): int(value) for codes, value in zip(counts.columns().tolist(), counts.values, strict=True)}


def write_csv(
    path: Path, rows: Sequence[Sequence[object]], *, head: Sequence[str] = HEAD, delimiter: str = ","
) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([head, *rows])
    return path


def arrow() -> pa.Table:
    return pa.table({name: [row[at] for row in ROWS] for at, name in enumerate(HEAD)})


def one(name: str, *values: str) -> Schema:
    return Schema(name="t", attributes=(Attribute(name=name, domain=Values(values)),))


# --- what can be read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "delimiter"), [("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t"), ("a.txt", ";")]
)
def test_a_text_file_is_counted_whatever_divides_it(tmp_path: Path, name: str, delimiter: str) -> None:
    with sources.open(write_csv(tmp_path / name, ROWS, delimiter=delimiter), PEOPLE) as source:
        found = cells(source)

    assert found == CELLS


def test_a_packed_file_and_a_path_in_text_are_counted(tmp_path: Path) -> None:
    plain = write_csv(tmp_path / "a.csv", ROWS).read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(plain[:30]) + gzip.compress(plain[30:]))
    with sources.open(str(tmp_path / "a.csv.gz"), PEOPLE) as source:
        found = cells(source)

    assert found == CELLS


def test_parquet_is_counted(tmp_path: Path) -> None:
    pq.write_table(arrow(), tmp_path / "a.parquet")
    with sources.open(tmp_path / "a.parquet", PEOPLE) as source:
        found = cells(source)

    assert found == CELLS


@pytest.mark.parametrize(
    "frame",
    [
        arrow(),
        arrow().to_batches()[0],
        pd.DataFrame(ROWS, columns=list(HEAD)),
        pd.DataFrame(ROWS, columns=list(HEAD)).astype({"sex": "category", "age": "Int64"}),
        pd.DataFrame(ROWS, columns=list(HEAD), dtype=object),
        pl.DataFrame(ROWS, schema=HEAD, orient="row"),
        pl.DataFrame(ROWS, schema=HEAD, orient="row").with_columns(pl.col("sex").cast(pl.Categorical)),
        pl.DataFrame(ROWS, schema=HEAD, orient="row").lazy(),
    ],
    ids=["arrow", "batch", "pandas", "categorical", "objects", "polars", "polars categorical", "lazy"],
)
def test_a_frame_handed_in_is_counted_again_and_again(frame: object) -> None:
    with sources.open(frame, PEOPLE) as source:
        found = [cells(source), cells(source)]

    assert found == [CELLS, CELLS]


def test_an_arrow_reader_is_counted_again_and_again() -> None:
    with sources.open(arrow().to_reader(), PEOPLE) as source:
        found = [cells(source), cells(source)]

    assert found == [CELLS, CELLS]


def test_a_pattern_reads_files_whose_columns_stand_in_another_order(tmp_path: Path) -> None:
    write_csv(tmp_path / "a1.csv", ROWS[:2])
    write_csv(tmp_path / "a2.csv", [row[::-1] for row in ROWS[2:]], head=("name", "age", "sex"), delimiter=";")
    with sources.open(tmp_path / "a*.csv", PEOPLE) as source:
        found = cells(source)

    assert found == CELLS


def test_parquet_files_are_matched_by_the_names_of_their_columns(tmp_path: Path) -> None:
    pq.write_table(arrow().slice(0, 2), tmp_path / "1.parquet")
    pq.write_table(arrow().slice(2).select(["name", "age", "sex"]), tmp_path / "2.parquet")
    with sources.open(str(tmp_path / "*.parquet"), PEOPLE) as source:
        found = cells(source)

    assert found == CELLS


def test_a_file_name_with_the_signs_of_a_pattern_is_a_file_name(tmp_path: Path) -> None:
    write_csv(tmp_path / "a1.csv", [("X", 1, "")])
    with sources.open(write_csv(tmp_path / "a[1]*.csv", ROWS), PEOPLE) as source:
        found = cells(source)

    assert found == CELLS


def test_columns_that_differ_only_in_case_are_kept_apart(tmp_path: Path) -> None:
    table = pa.table({"x": ["1", "1"], "X": ["2", "2"]})
    pq.write_table(table, tmp_path / "a.parquet")
    write_csv(tmp_path / "a.csv", [("1", "2")] * 2, head=("x", "X"))
    for data in (table, tmp_path / "a.parquet", tmp_path / "a.csv"):
        with sources.open(data, one("X", "2")) as source:
            assert source.count().total == 2


def test_a_header_alone_is_an_empty_table(tmp_path: Path) -> None:
    with sources.open(write_csv(tmp_path / "a.csv", []), PEOPLE) as source:
        counts = source.count()

    assert (counts.total, counts.nonzero) == (0, 0)


def test_quotes_line_breaks_and_columns_without_a_name_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'"x ""1""\t",y,,\r\n"a\nb",1,,\r\n"it\'s",2,,\r\n')
    with sources.open(tmp_path / "a.csv", one('x "1"\t', "a\nb", "it's")) as source:
        found = source.count().dense().tolist()

    assert found == [1, 1]


# --- what cannot ----------------------------------------------------------------------------------------------------


def refusal(data: object, schema: Schema = PEOPLE, *, by: Sequence[str] | None = None, **options: object) -> str:
    with pytest.raises(SourceError) as refused, sources.open(data, schema, **options) as source:
        source.count(by)
    assert refused.value.__cause__ is None
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_data_that_are_not_there_are_refused_by_name(tmp_path: Path) -> None:
    assert "there is no file" in refusal(tmp_path / "none.csv")
    assert "no file matches" in refusal(tmp_path / "none*.csv")
    assert "is a directory" in refusal(tmp_path)
    assert "postgresql://..." in refusal("postgresql://me:SECRET@host/db")
    assert "data (list)" in refusal([1, 2])


@pytest.mark.parametrize("name", ["a.xlsx", "a.json", "a", "a.parquet.gz", "a.csv.zip"])
def test_a_kind_of_file_that_is_unknown_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")

    assert str(tmp_path / name) in refusal(tmp_path / name)


def test_files_of_two_kinds_are_refused(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", ROWS)
    pq.write_table(arrow(), tmp_path / "a.parquet")

    assert "one kind at a time" in refusal(tmp_path / "a.*")


@pytest.mark.parametrize("data", [b"", b"\n", b"  \r\n\r\n", b"\xef\xbb\xbf", "\ufeff".encode("utf-16-le")])
def test_an_empty_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(data)

    assert "is empty" in refusal(tmp_path / "a.csv")


def test_an_empty_or_broken_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"")
    empty = refusal(path)
    path.write_bytes(b"PAR1 no parquet at all PAR1")
    wrong = refusal(path)
    pq.write_table(pa.table({"sex": ["F"] * 5000, "age": list(range(5000))}), path, compression="gzip")
    data = bytearray(path.read_bytes())
    data[20:4000] = b"\0" * 3980
    path.write_bytes(data)

    assert "is empty" in empty
    assert "damaged" in wrong
    assert "damaged" in refusal(path)


def test_an_unknown_column_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ROWS, head=("sex", "years", "name"))
    told = refusal(path)

    assert "no column age" in told
    assert "sex, years, name" in told


def test_a_first_line_that_may_be_a_row_is_not_shown(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ROWS[1:], head=("F", "31", "SECRET"))
    told = refusal(path)

    assert "its first line must name the columns" in told
    assert "SECRET" not in told


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])

    assert "two columns named age" in refusal(write_csv(tmp_path / "a.csv", [], head=("age", "sex", "age")))
    assert "two columns named a" in refusal(frame)


def test_files_of_different_columns_are_refused(tmp_path: Path) -> None:
    write_csv(tmp_path / "1.csv", ROWS)
    write_csv(tmp_path / "2.csv", [], head=("sex", "age"))
    pq.write_table(arrow(), tmp_path / "1.parquet")
    pq.write_table(arrow().select(["sex", "age"]), tmp_path / "2.parquet")

    assert "2.csv has other columns" in refusal(tmp_path / "*.csv")
    assert "2.parquet has other columns" in refusal(tmp_path / "*.parquet")


@pytest.mark.parametrize("line", [b"SECRET\n", b"F,1,x,SECRET\n", b'"SECRET,1,x\n', b'"SECRET"x,1,x\n'])
def test_a_malformed_line_is_refused_by_its_number_and_never_shown(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"sex,age,name\nF,1,x\n" + line)
    with pytest.raises(SourceError) as refused, sources.open(path, PEOPLE) as source:
        source.count()

    assert str(refused.value).startswith(f"line 3 of {path} ")
    assert refused.value.__context__ is None


def test_a_malformed_line_of_a_rewritten_file_is_told_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("sex,age,name\nF,1,髙\nM\n".encode("cp932"))

    assert f"line 3 of {path} " in refusal(path)


def test_lines_that_end_in_different_ways_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"sex,age\r\nF,1\nM,2\r\n")

    assert "end in different ways" in refusal(tmp_path / "a.csv")


@pytest.mark.parametrize("head", [b'"sex"x,age', b'"sex,age', b'"sex"\t,age'])
def test_a_first_line_with_a_stray_quote_is_refused_and_not_taken_for_an_empty_table(
    tmp_path: Path, head: bytes
) -> None:
    (tmp_path / "a.csv").write_bytes(head + b"\nF,1\nM,2\n")

    assert "quote in the wrong place" in refusal(tmp_path / "a.csv")


def test_types_that_have_no_meaning_are_refused() -> None:
    moment = pa.array([datetime.datetime(2024, 1, 1)], pa.timestamp("us", tz="Asia/Tokyo"))
    schema = Schema(
        name="t", attributes=(Attribute(name="x", domain=DateBins.of_width("2024-01-01", "2024-01-31", "1 day")),)
    )

    assert "TIMESTAMP WITH TIME ZONE" in refusal(pa.table({"x": moment}), schema)
    assert "column sex has type" in refusal(pa.table({"sex": [[1]], "age": [1]}))


def test_what_the_engine_says_is_never_passed_on() -> None:
    with sources.open(arrow(), PEOPLE) as source:
        kinds = (duckdb.OutOfMemoryException, duckdb.ConversionException, duckdb.IOException, MemoryError)
        told = [str(source.engine._translated(kind("SECRET"))) for kind in kinds]
        full = str(source.engine._translated(duckdb.IOException("SECRET: No space left on device")))

    assert "more memory than is allowed" in told[0]
    assert "no space is left" in full
    assert not any("SECRET" in text for text in [*told, full])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"memory_limit": "lots"}, "memory limit (lots)"),
        ({"memory_limit": "2"}, "memory limit (2)"),
        ({"threads": 0}, "threads (0)"),
        ({"threads": True}, "threads (True)"),
        ({"spill_directory": "nowhere/at/all"}, "nowhere/at/all"),
    ],
)
def test_a_setting_out_of_range_is_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(ParameterError) as refused:
        sources.open(arrow(), PEOPLE, **options)

    assert told in str(refused.value)


# --- counting -------------------------------------------------------------------------------------------------------


def test_attributes_are_counted_in_the_order_asked_for() -> None:
    with sources.open(arrow(), PEOPLE, threads=1, memory_limit="500MB") as source:
        found = cells(source, ["age", "sex"])
        alone = cells(source, ["age"])
        nothing = source.count([]).total

    assert found == {(3, 0): 2, (0, 1): 1, (10, 0): 1, (9, 1): 1}
    assert alone == {(3,): 2, (0,): 1, (10,): 1, (9,): 1}
    assert nothing == 5


def test_an_attribute_that_the_schema_does_not_have_is_refused() -> None:
    with sources.open(arrow(), PEOPLE) as source, pytest.raises(SchemaError, match="no attribute wage"):
        source.count(["wage"])


def test_only_the_attributes_asked_for_are_looked_at() -> None:
    with sources.open(pa.table({"sex": ["F", "M"]}), PEOPLE) as source:
        found = cells(source, ["sex"])

    assert found == {(0,): 1, (1,): 1}


def test_domains_beyond_64_bits_are_counted_exactly() -> None:
    domain = NumberBins.of_width(0, 10_000, 1)
    names = [f"x{index}" for index in range(7)]
    schema = Schema(name="t", attributes=tuple(Attribute(name=name, domain=domain) for name in names))
    rows = [tuple((row * 7919 + at * 104729) % 10**4 for at in range(7)) for row in range(200)] * 3
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    with sources.open(table, schema) as source:
        found = cells(source)

    assert len(schema.radix.words) > 1
    assert found == dict(Counter(rows))


def test_large_counts_in_a_large_domain_are_sorted_too() -> None:
    attribute = Attribute(name="x", domain=NumberBins.of_width(0, 10_000, 1))
    schema = Schema(name="t", attributes=(attribute, Attribute(name="y", domain=attribute.domain)))
    table = pa.table({"x": [5, 1, 5], "y": [0, 2, 1], "n": [2**40, 2**41, 7]})
    with sources.open(table, schema, count_column="n") as source:
        found = cells(source)

    assert found == {(1, 2): 2**41, (5, 0): 2**40, (5, 1): 7}


# --- a table that is already aggregated -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers",
    [
        pa.array([3, 0, 4], pa.int32()),
        pa.array([3, 0, 4], pa.uint64()),
        pa.array([3.0, 0.0, 4.0]),
        pa.array(["3", "0", "4.0"]),
        pa.array([Decimal("3.00"), Decimal("0.00"), Decimal("4.00")], pa.decimal128(9, 2)),
    ],
    ids=["integer", "wide", "float", "text", "decimal"],
)
def test_a_column_of_counts_is_added_up(numbers: pa.Array) -> None:
    with sources.open(
        pa.table({"sex": ["F", "M", "F"], "n": numbers}), one("sex", "F", "M"), count_column="n"
    ) as source:
        found = cells(source)

    assert found == {(0,): 7}


@pytest.mark.parametrize("wrong", [-1, 0.5, None, "1.5", "-1", "x", "", "1e3", float("nan"), float("inf"), True])
def test_a_count_that_is_no_whole_number_is_refused(wrong: object) -> None:
    table = pa.table({"sex": ["F", "M"], "n": pa.array([wrong, None if isinstance(wrong, str) else wrong])})

    assert "n" in refusal(table, one("sex", "F", "M"), count_column="n")


def test_counts_beyond_64_bits_are_refused() -> None:
    table = pa.table({"sex": ["F", "F"], "n": [2**62, 2**62]})

    assert "2**63 - 1" in refusal(table, one("sex", "F"), count_column="n")


def test_counts_and_persons_do_not_go_together() -> None:
    schema = Schema(name="t", unit=Unit(kind="person", column="id"), attributes=(SEX,))
    with pytest.raises(ParameterError, match="does not tell persons apart"):
        sources.open(pa.table({"sex": ["F"], "id": [1], "n": [1]}), schema, count_column="n")


# --- rows that do not fit -------------------------------------------------------------------------------------------


def test_values_that_are_not_declared_are_refused_by_attribute_and_never_shown() -> None:
    table = pa.table({"sex": ["F", "SECRET"], "age": [31, 31337], "name": ["Ann", "Bob"]})
    with sources.open(table, PEOPLE) as source:
        with pytest.raises(DomainError) as refused:
            source.count()
        with pytest.raises(DomainError) as alone:
            source.count(["age"])

    assert str(refused.value) == (
        "the data hold values of sex, age that the schema does not declare; run `sudare schema check` to see them"
    )
    assert "values of age that" in str(alone.value)


def test_an_impossible_combination_is_refused_where_it_can_be_seen() -> None:
    box = Impossible((("age", frozenset({0, 1})), ("sex", frozenset({1}))))
    schema = Schema(name="t", attributes=(SEX, AGE), impossible=(box,))
    with sources.open(arrow(), schema) as source:
        with pytest.raises(DomainError, match="combinations of age, sex that are declared impossible"):
            source.count()
        with pytest.raises(DomainError, match="declared impossible"):
            source.refuse_rows_that_do_not_fit()

        assert source.count(["age"]).total == 5


# --- persons --------------------------------------------------------------------------------------------------------

PERSONS = [0] * 8 + [1] * 3 + [2] * 2 + [3]


def visits(limit: int) -> Schema:
    unit = Unit(kind="person", column="id", max_rows=limit)
    place = Attribute(name="place", domain=NumberBins.of_width(0, len(PERSONS), 1))
    half = Attribute(name="half", domain=Values(("0", "1")))
    return Schema(name="visits", unit=unit, attributes=(place, half))


def visited() -> pa.Table:
    return pa.table(
        {"id": PERSONS, "place": list(range(len(PERSONS))), "half": [row % 2 for row in range(len(PERSONS))]}
    )


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_a_person_keeps_at_most_so_many_rows(limit: int) -> None:
    with sources.open(visited(), visits(limit)) as source:
        kept = [code[0] for code in cells(source, ["place"])]
    owners = Counter(PERSONS[row] for row in kept)

    assert owners == {person: min(limit, rows) for person, rows in Counter(PERSONS).items()}


def test_all_counts_of_a_source_are_of_the_same_rows() -> None:
    with sources.open(visited(), visits(2)) as source:
        whole = source.count()
        parts = [source.count([name]) for name in ("half", "place")]

    assert [whole.project([name]) for name in ("half", "place")] == parts


def test_the_same_salt_keeps_the_same_rows_and_a_fresh_one_others(tmp_path: Path) -> None:
    pq.write_table(visited(), tmp_path / "a.parquet")

    def kept(salt: bytes | None) -> list[tuple[int, ...]]:
        with sources.open(tmp_path / "a.parquet", visits(2), salt=salt) as source:
            return sorted(cells(source, ["place"]))

    assert kept(b"one") == kept(b"one")
    assert len({tuple(kept(None)) for _ in range(5)}) > 1


def test_every_row_of_a_person_is_kept_equally_often() -> None:
    kept: Counter[int] = Counter()
    with sources.open(visited(), visits(2)) as source:
        for round_ in range(150):
            source._has_excess, source._salt = False, round_.to_bytes(2, "big")
            kept.update(code[0] for code in cells(source, ["place"]))
    first = np.array([kept[row] for row in range(8)])

    assert first.sum() == 300
    assert ((first - 37.5) ** 2 / 28.125).sum() * 7 / 8 < 24.3  # chi square of 7 degrees at 0.001


def test_a_row_without_a_person_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("1", "0", "0"), ("", "1", "1")], head=("id", "place", "half"))

    assert "column id must tell the person" in refusal(path, visits(2))


def test_persons_may_be_texts_and_files_of_several_parts(tmp_path: Path) -> None:
    rows = [(f"p{person}", row, row % 2) for row, person in enumerate(PERSONS)]
    for part, some in enumerate((rows[:5], rows[5:])):
        write_csv(tmp_path / f"{part}.csv", some, head=("id", "place", "half"))
    with sources.open(tmp_path / "*.csv", visits(2)) as source:
        kept = [code[0] for code in cells(source, ["place"])]

    assert Counter(PERSONS[row] for row in kept) == {0: 2, 1: 2, 2: 2, 3: 1}


# --- check ----------------------------------------------------------------------------------------------------------


def test_a_table_that_fits_has_no_findings() -> None:
    with sources.open(arrow(), PEOPLE) as source:
        findings = source.check()

    assert findings.fits
    assert findings.problems == ()
    assert findings.notes == ()


def test_everything_that_does_not_fit_is_told_with_counts_and_examples(tmp_path: Path) -> None:
    area = Attribute(name="mesh", domain=MeshCells(level=2, area=("5339",)))
    day = Attribute(name="day", domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"), outside="clamp")
    item = Attribute(name="item", domain=Values(("a",)), outside="other")
    age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10))
    schema = Schema(name="t", attributes=(age, area, day, item, SEX), identifiers=("name", "phone"))
    rows = [
        ("130", "533945", "2024-05-05", "a", "x", "Ann"),
        ("130", "5339", "2030-01-01", "b", "y", "Bob"),
        ("old", "543945", "someday", "b", "z", "Eve"),
        ("", "533945", "2024-05-05", "a", "w", "Joy"),
    ]
    path = write_csv(tmp_path / "a.csv", rows, head=("age", "mesh", "day", "item", "extra", "name"))
    with sources.open(path, schema) as source:
        findings = source.check()
    told = {(one.attribute, one.problem): (one.rows, one.examples) for one in findings.problems}

    assert told == {
        ("sex", base.NO_COLUMN): (0, ()),
        ("age", base.OUTSIDE): (2, ("130",)),
        ("age", base.UNREADABLE): (1, ("old",)),
        ("age", base.MISSING): (1, ()),
        ("mesh", base.UNREADABLE): (1, ("5339",)),
        ("mesh", base.OUTSIDE): (1, ("543945",)),
        ("day", base.CLAMPED): (1, ("2030-01-01",)),
        ("day", base.UNREADABLE): (1, ("someday",)),
        ("item", base.TAKEN_AS_OTHER): (2, ("b",)),
    }
    assert not findings.fits
    assert [note.values for note in findings.notes] == [{"columns": "extra"}, {"columns": "phone"}]
    assert not any(one.examples for one in findings.without_examples().problems)
    assert json.loads(json.dumps(asdict(findings)))["problems"][0]["attribute"] == "sex"


def test_values_with_a_way_out_are_told_and_still_fit() -> None:
    item = Attribute(name="item", domain=Values(("a",)), outside="other")
    with sources.open(pa.table({"item": ["a", "b", None]}), Schema(name="t", attributes=(item,))) as source:
        findings = source.check()

    assert findings.fits
    assert [(one.problem, one.rows, one.examples) for one in findings.problems] == [(base.TAKEN_AS_OTHER, 2, ("b",))]


def test_at_most_five_examples_are_told_the_commonest_first_and_long_ones_cut() -> None:
    values = ["F", *("common",) * 9, *(f"rare{index}" for index in range(9)), *("x" * 99,) * 5]
    with sources.open(pa.table({"sex": values}), one("sex", "F")) as source:
        problem = source.check().problems[0]

    assert problem.rows == 23
    assert problem.examples == ("common", "x" * 59 + "…", "rare0", "rare1", "rare2")


def test_persons_counts_and_combinations_are_checked(tmp_path: Path) -> None:
    box = Impossible((("half", frozenset({1})), ("place", frozenset({0, 1, 2, 9}))))
    schema = Schema(name="t", unit=visits(2).unit, attributes=visits(2).attributes, impossible=(box,))
    table = visited().append_column("n", pa.array([1.5, *[1.0] * 13]))
    nameless = table.set_column(0, "id", pa.array([None, *PERSONS[1:]]))
    with sources.open(nameless, schema) as source:
        persons = source.check()
    with sources.open(table, Schema(name="t", attributes=schema.attributes), count_column="n") as source:
        counts = source.check()

    assert [(one.attribute, one.problem, one.rows) for one in persons.problems] == [
        ("half, place", base.IMPOSSIBLE, 2),
        ("id", base.NO_PERSON, 1),
    ]
    assert persons.notes[0].values == {"persons": 2, "limit": 2, "rows": 6}
    assert [(one.attribute, one.problem, one.rows) for one in counts.problems] == [("n", base.NO_COUNT, 1)]


def test_columns_that_cannot_be_read_are_told() -> None:
    with sources.open(pa.table({"sex": [[1]]}), one("sex", "F")) as source:
        findings = source.check()

    assert [(one.attribute, one.problem) for one in findings.problems] == [("sex", base.WRONG_TYPE)]


# --- describe -------------------------------------------------------------------------------------------------------


def test_columns_are_described_by_what_they_hold(tmp_path: Path) -> None:
    rows = [
        (f"{row}", f"{row % 7}.5", f"2024/1/{1 + row % 9}", f"0{row % 3}", "x" if row else "", row)
        for row in range(1500)
    ]
    path = write_csv(tmp_path / "a.csv", rows, head=("id", "wage", "day", "code", "word", "n"))
    facts = {one.name: one for one in sources.describe(path)}

    assert (facts["id"].type, facts["id"].low, facts["id"].high, facts["id"].distinct) == ("integer", 0, 1499, 1500)
    assert facts["id"].values is None
    assert len(facts["id"].sample) > 200
    assert (facts["wage"].type, facts["wage"].low, facts["wage"].high) == ("number", 0.5, 6.5)
    assert (facts["day"].type, facts["day"].high) == ("date", datetime.date(2024, 1, 9))
    assert (facts["code"].type, facts["code"].values) == ("text", ("00", "01", "02"))
    assert (facts["word"].values, facts["word"].has_missing, facts["word"].rows) == (("x",), True, 1500)


def test_columns_of_every_type_are_described() -> None:
    table = pa.table(
        {
            "b": [True, None],
            "d": [datetime.date(2024, 1, 1), datetime.date(2023, 1, 1)],
            "t": [datetime.datetime(2024, 1, 1, 5), None],
            "f": [float("nan"), 2.5],
            "m": [Decimal("1.5"), Decimal("2.5")],
            "l": [[1], [2]],
            "none": pa.nulls(2),
        }
    )
    found = {one.name: (one.type, one.low, one.high, one.distinct, one.has_missing) for one in sources.describe(table)}

    assert found == {
        "b": ("boolean", None, None, 1, True),
        "d": ("date", datetime.date(2023, 1, 1), datetime.date(2024, 1, 1), 2, False),
        "t": ("date", datetime.date(2024, 1, 1), datetime.date(2024, 1, 1), 1, True),
        "f": ("number", 2.5, 2.5, 1, True),
        "m": ("number", Decimal("1.5"), Decimal("2.5"), 2, False),
        "l": ("text", None, None, 2, False),
        "none": ("text", None, None, 0, True),
    }


# --- recode, apply, write -------------------------------------------------------------------------------------------


def tall() -> Schema:
    tree = TableHierarchy.from_paths([("F", "*"), ("M", "*")])
    sex = Attribute(name="sex", domain=SEX.domain, hierarchy=tree)
    return Schema(name="people", attributes=(sex, AGE), identifiers=("name",))


def read(path: Path) -> list[tuple[object, ...]]:
    return duckdb.sql(f"SELECT * FROM '{path}'").fetchall()


def test_values_are_replaced_by_the_labels_of_a_level(tmp_path: Path) -> None:
    with sources.open(arrow(), tall()) as source:
        rows = source.recode({"sex": 1})
        path = rows.write(tmp_path / "out.parquet", shuffle=False)
        found, names = read(path), pq.read_schema(path).names

    assert rows.columns == ("sex", "age")
    assert names == ["sex", "age"]
    assert found == [("*", "[30,40)"), ("*", "[0,10)"), ("*", "[30,40)"), ("*", None), ("*", "[90,100]")]
    assert [file.name for file in tmp_path.iterdir()] == ["out.parquet"]


def test_given_labels_are_written_as_csv(tmp_path: Path) -> None:
    labels = {"sex": np.array(["female", None], dtype=object)}
    with sources.open(arrow(), PEOPLE) as source:
        path = source.apply(labels).write(tmp_path / "out.csv", shuffle=False)

    assert path.read_text().splitlines()[:3] == ["sex,age", 'female,"[30,40)"', ',"[0,10)"']


def test_other_columns_are_kept_when_asked_for_and_private_ones_never(tmp_path: Path) -> None:
    table = visited().append_column("note", pa.array([f"n{row}" for row in range(len(PERSONS))]))
    with sources.open(table, visits(2)) as source:
        path = source.recode({}, others=True).write(tmp_path / "out.parquet")
        kept = {code[0] for code in cells(source, ["place"])}
    found = pq.read_table(path).to_pydict()

    assert list(found) == ["place", "half", "note"]
    assert {int(note[1:]) for note in found["note"]} == kept


def test_a_column_of_counts_is_written_too(tmp_path: Path) -> None:
    with sources.open(pa.table({"sex": ["F"], "n": ["3"]}), one("sex", "F"), count_column="n") as source:
        path = source.write(tmp_path / "out.parquet")

    assert pq.read_table(path).to_pydict() == {"sex": ["F"], "n": [3]}


def test_rows_are_shuffled_unless_their_order_is_asked_for(tmp_path: Path) -> None:
    schema = Schema(name="t", attributes=(Attribute(name="x", domain=NumberBins.of_width(0, 200, 1)),))
    with sources.open(pa.table({"x": list(range(200))}), schema) as source:
        paths = [source.write(tmp_path / f"{name}.parquet", shuffle=name != "kept") for name in ("kept", "one", "two")]
    kept, first, second = ([label for (label,) in read(path)] for path in paths)

    assert kept[:3] == ["[0,1)", "[1,2)", "[2,3)"]
    assert sorted(first) == sorted(second) == sorted(kept)
    assert len({tuple(kept), tuple(first), tuple(second)}) == 3


def test_a_mesh_too_large_to_list_is_labelled_by_the_cells_that_occur(tmp_path: Path) -> None:
    area = tuple(f"{north}{east}" for north, east in itertools.product(range(50, 58), range(30, 40)))
    mesh = Attribute(name="mesh", domain=MeshCells(level=6, area=area))
    with sources.open(pa.table({"mesh": [53394526111, 50300000444]}), Schema(name="t", attributes=(mesh,))) as source:
        path = source.recode({"mesh": 3}).write(tmp_path / "out.parquet", shuffle=False)

    assert mesh.size > 2**20
    assert read(path) == [("53394526",), ("50300000",)]


def test_rows_that_do_not_fit_are_not_written(tmp_path: Path) -> None:
    with (
        sources.open(pa.table({"sex": ["F", "X"]}), one("sex", "F")) as source,
        pytest.raises(DomainError, match="sex"),
    ):
        source.write(tmp_path / "out.parquet")

    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("")
    with sources.open(arrow(), PEOPLE) as source:
        for name, told in (("there.csv", "exists"), ("a.xlsx", "must end in"), ("no/where.csv", "no directory")):
            with pytest.raises(SourceError, match=told):
                source.write(tmp_path / name)
        with pytest.raises(ParameterError, match="labels of sex must be 2"):
            source.apply({"sex": np.array(["x"], dtype=object)})
        with pytest.raises(ParameterError, match="level"):
            source.recode({"sex": 4})


# --- long work ------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file whose every value is asked of Python, ten seconds of it, and an engine that looks often."""
    monkeypatch.setattr(engine_file, "_TICK", 0.002)
    table = pa.table({"x": [f"{number % 97}.{number}" for number in range(600_000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=5_000)
    (tmp_path / "work").mkdir()
    return tmp_path / "a.parquet"


YEARS = Schema(
    name="t",
    attributes=(
        Attribute(
            name="x",
            domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"),
            date_format="%y-%j",
            outside="other",
        ),
    ),
)


def test_progress_is_told_as_a_share_up_to_the_end(slow: Path) -> None:
    told: list[float] = []
    few = Attribute(name="x", domain=Values(("0.0",)), outside="other")
    with sources.open(slow, Schema(name="t", attributes=(few,)), progress=told.append, threads=1) as source:
        source.count()

    assert told[-1] == 1
    assert all(0 <= share <= 1 for share in told)
    assert any(0 < share < 1 for share in told)


def interrupt(share: float) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_count_stops_at_once_and_leaves_nothing(slow: Path, tmp_path: Path) -> None:
    begun = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        with sources.open(slow, YEARS, spill_directory=tmp_path / "work", progress=interrupt) as source:
            source.count()
    lasted = time.perf_counter() - begun

    assert lasted < 3
    assert list((tmp_path / "work").iterdir()) == []


def test_an_interrupted_write_leaves_nothing_half_written(slow: Path, tmp_path: Path) -> None:
    with sources.open(slow, YEARS, progress=interrupt) as source:
        with pytest.raises(KeyboardInterrupt):
            source.recode({}).write(tmp_path / "work" / "out.parquet")
        query = source.recode({})._query(shuffle=True)
        with pytest.raises(KeyboardInterrupt):
            source.engine.save(query, tmp_path / "half", form="parquet")

    assert list((tmp_path / "work").iterdir()) == []


def test_control_c_reaches_the_caller_at_once_and_the_source_stays_usable(slow: Path) -> None:
    with sources.open(slow, YEARS) as source:
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        begun = time.perf_counter()
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            source.count()
        lasted = time.perf_counter() - begun
        still = source.engine._ask("SELECT 1")

    assert lasted < 2
    assert still == [(1,)]


def test_a_closed_source_says_so(tmp_path: Path) -> None:
    source = sources.open(arrow(), PEOPLE)
    source.close()
    source.close()
    with pytest.raises(SourceError, match="closed"):
        source.count()


def test_the_repr_of_a_source_tells_no_value() -> None:
    with sources.open(arrow(), PEOPLE) as source:
        assert repr(source) == "<Source of 'people': the Table>"
