"""Files and frames: what can be read, and what is refused in one clear line."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

import sudare.sources as sources
from sudare.errors import ParameterError, SourceError
from sudare.schema import Attribute, DateBins, Schema, Values
from tests.unit.source_tables import CELLS, HEAD, PEOPLE, ROWS, arrow, cells, one, refusal, write_csv

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


def test_data_that_are_not_there_are_refused_by_name(tmp_path: Path) -> None:
    assert "there is no file" in refusal(tmp_path / "none.csv")
    assert "no file matches" in refusal(tmp_path / "none*.csv")
    assert "is an empty folder" in refusal(tmp_path)
    assert "postgresql://me@host/db must be followed by ?table=NAME" in refusal("postgresql://me:SECRET@host/db")
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


def test_bytes_that_are_no_text_are_told_as_such(tmp_path: Path) -> None:
    """A Parquet file with a column of bytes was called damaged, a text with a byte 0 one of another encoding."""
    parquet, text = tmp_path / "a.parquet", tmp_path / "a.csv"
    pq.write_table(pa.table({"sex": ["F"] * 9, "photo": [b"\xff\xd8"] * 9}), parquet)
    text.write_bytes(b"sex,age\nF,3\nM,\0\n")

    with pytest.raises(SourceError, match=r"a column of .* holds bytes that are no text in UTF-8"):
        sources.propose_schema(parquet)
    with pytest.raises(SourceError, match=r"line 3 of .* holds a byte 0"):
        sources.propose_schema(text)


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


def test_a_query_over_many_lookups_is_not_copied_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 columns took 25 CPU seconds for copies alone, four times as many as half of them."""
    names = [f"c{number}" for number in range(40)]
    schema = Schema(
        name="w", attributes=tuple(Attribute(name=name, domain=Values(values=("a", "b"))) for name in names)
    )
    copied_joins: list[int] = []
    copy = exp.Select.copy

    def watch(query: exp.Select) -> exp.Select:
        copied_joins.append(len(query.args.get("joins") or ()))
        return copy(query)

    monkeypatch.setattr(exp.Select, "copy", watch)
    with sources.open(pa.table({name: ["a", "b"] for name in names}), schema) as source:
        counts = source.count()

    assert counts.total == 2
    assert sum(copied_joins) < 5 * 40


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


def test_lines_that_end_in_different_ways_are_all_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"sex,age\r\nF,1\nM,2\r\n")
    with sources.open(tmp_path / "a.csv", one("sex", "F", "M")) as source:
        found = source.count().dense().tolist()

    assert found == [1, 1]


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
        told = [str(source.engine._translate(kind("SECRET"))) for kind in kinds]
        full = str(source.engine._translate(duckdb.IOException("SECRET: No space left on device")))

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
