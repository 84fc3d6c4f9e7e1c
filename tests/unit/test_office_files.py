"""Files as offices have them: workbooks, titles and totals, folders, JSON lines, Arrow; and what is refused."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import xlsxwriter
import xlwt
from sqlglot import exp

import sudare.sources as sources
from sudare.errors import SourceError
from sudare.sources.duckdb import DuckEngine
from sudare.sources.engine import ROWS

Rows = list[tuple[object, ...]]


def read(data: object, **reading: object) -> tuple[list[str], Rows, list[str]]:
    """The names, the rows and the notes of some data."""
    engine = DuckEngine(data, **reading)  # type: ignore[arg-type]
    try:
        names = [column.name for column in engine.columns]
        return names, sorted(engine.stream(exp.select("*").from_(ROWS)), key=str), [str(note) for note in engine.notes]
    finally:
        engine.close()


def refusal(data: object, **reading: object) -> str:
    with pytest.raises(SourceError) as refused:
        read(data, **reading)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_book(rows: Sequence[Sequence[object]], *, merged: Sequence[tuple[int, int, int, int, str]] = ()) -> Path:
    book = xlsxwriter.Workbook("book.xlsx")
    page = book.add_worksheet("名簿")
    day = book.add_format({"num_format": "yyyy/mm/dd"})
    for at, row in enumerate(rows):
        for column, value in enumerate(row):
            if isinstance(value, date):
                page.write_datetime(at, column, value, day)
            elif value is not None:
                page.write(at, column, value)
    for top, left, bottom, right, value in merged:
        page.merge_range(top, left, bottom, right, value)
    book.close()
    return Path("book.xlsx")


# --- workbooks --------------------------------------------------------------------------------------------------------

TITLED = [
    ["令和6年度　会員名簿"],
    ["※ 内部資料"],
    [],
    ["番号", "性別", "年齢", "登録日"],
    [1, "男", 31, date(2024, 1, 5)],
    [2, "女", None, date(2024, 2, 6)],
    [],
    ["合　計", None, 31, None],
    ["(注) 概数"],
]


def test_a_sheet_is_read_without_title_total_and_note_and_tells_their_lines() -> None:
    names, rows, notes = read(write_book(TITLED))

    assert names == ["番号", "性別", "年齢", "登録日"]
    assert rows == [("1", "男", "31", "2024-01-05"), ("2", "女", None, "2024-02-06")]
    assert [note.rpartition(": ")[2] for note in notes] == ["1-2", "lines 8", "9"]


def test_merged_names_are_joined_and_merged_rows_are_filled() -> None:
    merged = [(0, 0, 1, 0, "地域"), (0, 1, 0, 2, "会員"), (2, 0, 3, 0, "北")]
    path = write_book([[None, None, None], [None, "男", "女"], [None, 1, 2], [None, 3, 4], ["南", 5, 6]], merged=merged)
    names, rows, notes = read(path)

    assert names == ["地域", "会員_男", "会員_女"]
    assert rows == [("北", "1", "2"), ("北", "3", "4"), ("南", "5", "6")]
    assert notes == ["book.xlsx: cells merged over several rows were filled with their value: lines 3-4"]


def test_names_of_three_lines_are_read_where_merged_cells_tell_their_depth() -> None:
    """Without the cells merged downwards a line of words below names may be a row, and stays one."""
    merged = [(0, 0, 2, 0, "番号"), (0, 1, 0, 3, "税"), (1, 1, 1, 2, "給与"), (0, 4, 2, 4, "備考")]
    names = [[None] * 5, [None, None, None, "年金"], [None, "収入", "所得", "収入", None]]
    path = write_book([*names, *[[n, 5, 4, 3, "x"] for n in range(9)]], merged=merged)
    titles, rows, _ = read(path)
    words = read(write_book([["a", "b"], ["x", "y"], ["x", "z"], ["y", "z"]]))

    assert titles == ["番号", "税_給与_収入", "税_給与_所得", "税_年金_収入", "備考"]
    assert len(rows) == 9
    assert len(words[1]) == 3


def test_a_line_of_units_is_told_and_names_stay_as_they_are_written() -> None:
    names, rows, notes = read(write_book([["ＩＤ", "金額", "割合"], [None, "(円)", "(%)"], ["a", 5, 1], ["b", 6, 2]]))

    assert names == ["ＩＤ", "金額", "割合"]
    assert rows == [("a", "5", "1"), ("b", "6", "2")]
    assert "line of units" in notes[0]


def test_the_line_of_names_and_the_sheet_can_be_chosen() -> None:
    path = write_book([["2020", "2021"], [1, 2], [3, 4]])
    names, rows, _ = read(f"{path}#名簿!1")

    assert names == ["2020", "2021"]
    assert rows == [("1", "2"), ("3", "4")]
    assert "has no sheet 別; it has 名簿" in refusal(f"{path}#別")
    assert "line 900 of book.xlsx is not there" in refusal(f"{path}#!900")


def test_a_table_far_down_and_to_the_right_is_read() -> None:
    """Names below 260 lines of notes, in the third column and behind: rows are read one by one, so places must fit."""
    notes = [[None, None, f"note {line}"] for line in range(260)]
    table = [["ward", "age", "sex"], ["north", 3, "F"], ["south", 4, "M"], [None, 5, "F"]]
    path = write_book([*notes, *([None, None, *row] for row in table)], merged=[(262, 2, 263, 2, "south")])
    names, rows, told = read(f"{path}#!261")

    assert names == ["ward", "age", "sex"]
    assert rows == [("north", "3", "F"), ("south", "4", "M"), ("south", "5", "F")]
    assert any("filled with their value: lines 263-264" in note for note in told)


def test_a_sheet_without_names_is_refused_with_what_to_do() -> None:
    assert "say which line it is, as in book.xlsx#!3" in refusal(write_book([[1, 2, 3], [4, 5, 6], [7, 8, 9]]))


def test_several_sheets_are_not_lost_without_a_word() -> None:
    book = xlsxwriter.Workbook("two.xlsx")
    for name in ("北", "南"):
        book.add_worksheet(name).write_row(0, 0, ["a", "b"])
    book.close()

    assert "has several sheets (北, 南); name the one to read, as in two.xlsx#北" in refusal("two.xlsx")


def test_the_sheet_that_is_named_as_an_example_is_the_longest_and_no_cover() -> None:
    book = xlsxwriter.Workbook("covered.xlsx")
    book.add_worksheet("表紙").write(3, 3, "加入者調べ")
    book.add_worksheet("一覧").write_column(0, 0, ["a", *range(9)])
    book.close()

    assert "as in covered.xlsx#一覧" in refusal("covered.xlsx")


def test_a_value_in_a_column_without_a_name_is_refused() -> None:
    rows: list[list[object]] = [["a", "b", "c"], *[[1, 2, 3]] * 250, [1, 2, 3, 4]]

    assert "line 252 of book.xlsx has a value in a column without a name" in refusal(write_book(rows))


def test_an_old_workbook_is_read() -> None:
    book = xlwt.Workbook(encoding="utf-8")
    sheet = book.add_sheet("表")
    for at, row in enumerate([["年齢", "氏名"], [31, "山田"], [40.5, "鈴木"]]):
        for column, value in enumerate(row):
            sheet.write(at, column, value)
    book.save("old.xls")

    assert read("old.xls")[:2] == (["年齢", "氏名"], [("31", "山田"), ("40.5", "鈴木")])


def test_errors_of_excel_are_told() -> None:
    book = xlsxwriter.Workbook("errors.xlsx")
    sheet = book.add_worksheet()
    sheet.write_row(0, 0, ["a", "b"])
    sheet.write_row(1, 0, ["x", "y"])
    sheet.write_formula(1, 1, "=1/0", None, "#DIV/0!")
    book.close()

    assert read("errors.xlsx")[2] == ["errors.xlsx: errors of Excel such as #N/A are read as missing: 1 cells"]


# --- workbooks that are none ------------------------------------------------------------------------------------------


def test_broken_and_locked_workbooks_are_refused_in_one_line() -> None:
    Path("junk.xlsx").write_bytes(b"PK\x03\x04junk")
    Path("text.xls").write_bytes(b"hello")
    Path("locked.xlsx").write_bytes(bytes.fromhex("D0CF11E0A1B11AE1") + b"\0" * 600)
    write_book(TITLED)
    Path("cut.xlsx").write_bytes(Path("book.xlsx").read_bytes()[:3000])

    assert all("is damaged, or is not a workbook" in refusal(name) for name in ("junk.xlsx", "text.xls", "cut.xlsx"))
    assert "is protected by a password" in refusal("locked.xlsx")


def pack(name: str, sheet: bytes, *, claims: int | None = None) -> None:
    """A workbook whose sheet is replaced; `claims` is the size that its directory tells."""
    write_book([["a", "b"], [1, 2]])
    with zipfile.ZipFile("book.xlsx") as source, zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as target:
        for part in source.namelist():
            target.writestr(part, sheet if part.endswith("sheet1.xml") else source.read(part))
    if claims is not None:
        data = Path(name).read_bytes()
        size = len(sheet).to_bytes(4, "little")
        assert data.count(size)
        Path(name).write_bytes(data.replace(size, claims.to_bytes(4, "little")))


@pytest.mark.parametrize("claims", [None, 100])
def test_a_workbook_that_unpacks_to_too_much_is_refused_even_if_it_lies(
    monkeypatch: pytest.MonkeyPatch, claims: int | None
) -> None:
    monkeypatch.setattr("sudare.sources.excel._MOST_BYTES", 1 << 22)
    pack("bomb.xlsx", b"<worksheet>" + b" " * (1 << 23), claims=claims)

    assert "unpacks to more than a sheet can hold" in refusal("bomb.xlsx")


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_cell_far_away_does_not_fill_the_memory(quote: str) -> None:
    cell = f"<c r={quote}XFD1048576{quote}><v>1</v></c>"
    pack("far.xlsx", f"<worksheet><sheetData><row r='1048576'>{cell}</row></sheetData></worksheet>".encode())

    assert "unpacks to more than a sheet can hold" in refusal("far.xlsx")


# --- text files -------------------------------------------------------------------------------------------------------


def test_a_text_file_with_title_and_total_in_shift_jis_is_read() -> None:
    text = "会員名簿,,,\n令和6年,,,\n,,,\n氏名,年齢,性別,住所\n髙橋,31,男,東京\n鈴木,40,女,大阪\n合計,71,,\n"
    Path("a.csv").write_bytes(text.encode("cp932"))
    names, rows, notes = read("a.csv")

    assert names == ["氏名", "年齢", "性別", "住所"]
    assert rows == [("鈴木", "40", "女", "大阪"), ("髙橋", "31", "男", "東京")]
    assert [note.rpartition(": ")[2] for note in notes] == ["1-2", "lines 7"]


def test_sums_of_groups_between_the_rows_are_no_rows_and_are_told() -> None:
    rows = [["番号", "地区", "日数"], ["K1", "北", 3], ["K2", "北", 4], ["北地区　小計", None, 7], ["K3", "南", 5],
            ["南地区計", None, 5], ["K4 total", "南", 1], ["時計", None, 2], ["職員数計", None, "9人"]]  # fmt: skip
    book = read(write_book(rows))
    Path("sums.csv").write_text("id,area,days\nK1,N,3\nNorth subtotal,,3\nK2,S,4\nSouth total,,4\n", encoding="utf-8")
    text = read("sums.csv")

    assert [row[0] for row in book[1]] == ["K1", "K2", "K3", "K4 total", "時計"]
    assert any("lines 4, 6, 9" in note for note in book[2])
    assert [row[0] for row in text[1]] == ["K1", "K2"]
    assert any("lines 3, 5" in note for note in text[2])


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_delimiters_are_found_below_a_title(delimiter: str) -> None:
    Path("a.txt").write_text("Members\n\n" + "".join(delimiter.join(row) + "\n" for row in ("abc", "123", "456")))

    assert read("a.txt")[:2] == (["a", "b", "c"], [("1", "2", "3"), ("4", "5", "6")])


def test_a_ragged_line_below_a_title_is_named_by_its_own_number() -> None:
    Path("a.csv").write_text("Members\na,b,c\n1,2,3\n4,5\n6,7,8\n")

    assert "line 4 of a.csv cannot be split" in refusal("a.csv")


def test_a_column_without_a_name_gets_a_number() -> None:
    Path("a.csv").write_text(",age\nx,31\ny,40\n")

    assert read("a.csv")[0] == ["column 1", "age"]


def test_a_line_that_the_engine_would_leave_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.sources.files._LONGEST_LINE", 3 << 20)
    Path("a.csv").write_text("a,b\n1,2\n3," + "x" * (5 << 20) + "\n")

    assert "longer than 3 MB" in refusal("a.csv")


def test_an_encoding_that_does_not_fit_is_refused() -> None:
    Path("a.csv").write_text("a,b\n1,2\n")

    assert "cannot be read as utf-16" in refusal("a.csv", encoding="utf-16")


def test_a_pipe_is_refused_and_does_not_hang() -> None:
    os.mkfifo("a.csv")

    assert "is no regular file" in refusal("a.csv")


# --- folders, JSON lines, Arrow ---------------------------------------------------------------------------------------


def test_folders_of_a_hive_table_are_columns() -> None:
    for year, value in (("2023", "x"), ("2024", "y"), ("__HIVE_DEFAULT_PARTITION__", "z")):
        folder = Path(f"lake/year={year}/month=1")
        folder.mkdir(parents=True)
        pa.parquet.write_table(pa.table({"v": [value]}), folder / "a.parquet")
    Path("lake/_SUCCESS").touch()
    expected = [("x", "1", "2023"), ("y", "1", "2024"), ("z", "1", None)]

    assert read("lake")[:2] == (["v", "month", "year"], expected)
    assert read("lake/*/*/*.parquet")[1] == expected


def test_folders_of_text_files_in_other_encodings_and_orders_are_columns_too() -> None:
    for year, text in (("令和5", "a,b\n髙,1\n"), ("令和6", "b,a\n2,鈴\n")):
        Path(f"lake/年={year}").mkdir(parents=True)
        Path(f"lake/年={year}/a.csv").write_bytes(text.encode("cp932"))

    assert read("lake")[:2] == (["a", "b", "年"], [("鈴", "2", "令和6"), ("髙", "1", "令和5")])


def test_folders_that_do_not_agree_are_refused() -> None:
    for folder in ("lake/year=2023", "lake/month=1"):
        Path(folder).mkdir(parents=True)
        Path(folder, "a.csv").write_text("a\n1\n")
    Path("twice/a=1").mkdir(parents=True)
    Path("twice/a=1/t.csv").write_text("a,b\n1,2\n")

    assert "do not all name the same columns" in refusal("lake")
    assert "column a stands in the files and in the names of their folders" in refusal("twice")


def test_json_lines_lose_no_key() -> None:
    lines = ['{"a":1,"b":"x"}'] * 3000 + ['{"b":"y","late":{"k":[1]}}']
    Path("a.jsonl").write_text("\n".join(lines) + "\n")
    names, rows, _ = read("a.jsonl")

    assert names == ["a", "b", "late"]
    assert (None, "y", '{"k":[1]}') in rows
    assert len(rows) == 3001


@pytest.mark.parametrize("line", ["[1]", '{"a":', "3"])
def test_a_line_that_is_no_json_object_is_refused(line: str) -> None:
    Path("a.jsonl").write_text('{"a":1}\n' + line + "\n")

    assert "JSON object" in refusal("a.jsonl")


def test_arrow_files_are_matched_by_name() -> None:
    pa.feather.write_feather(pa.table({"a": [1], "b": ["x"]}), "1.feather")
    pa.feather.write_feather(pa.table({"b": ["y"], "a": [2]}), "2.feather")
    Path("bad.arrow").write_bytes(b"junk")

    assert read("?.feather")[1] == [(1, "x"), (2, "y")]
    assert "is not an Arrow file" in refusal("bad.arrow")


def test_a_folder_of_several_kinds_is_refused() -> None:
    Path("mixed").mkdir()
    Path("mixed/a.csv").write_text("a\n1\n")
    Path("mixed/readme.md").write_text("x")

    assert "readme.md is of a kind that cannot be read" in refusal("mixed")


# --- first lines that are no names, and other shapes of text ----------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "5.1,3.5\n4.9,3.0\n4.7,3.2\n",  # numbers only
        "x,a b,0\ny,a b,1\nx,c,2\n",  # values that come again below
    ],
)
def test_a_first_line_that_is_a_row_is_not_lost(text: str) -> None:
    Path("rows.csv").write_text(text, encoding="utf-8")

    with pytest.raises(SourceError, match="or write a line of names above the rows"):
        sources.propose_schema("rows.csv")
    assert sources.propose_schema("rows.csv#!1").toml.count("[[attribute]]") == text.split("\n")[0].count(",") + 1


def test_names_that_are_years_stay_names() -> None:
    Path("years.csv").write_text("town,2020,2021\n" + "".join(f"t{row % 4},{row},{row}\n" for row in range(60)))

    assert [column.name for column in sources.describe("years.csv")] == ["town", "2020", "2021"]


def test_columns_behind_single_blanks_are_read_and_behind_several_refused() -> None:
    Path("blanks.csv").write_text("t status sex\n" + "".join(f"{row} {row % 2} F\n" for row in range(60)))
    Path("runs.txt").write_text("t   status sex\n" + "".join(f"{row:<4}{row % 2:<7}F\n" for row in range(60)))
    Path("names.csv").write_text("full name\n" + "".join(f"A{row % 9} B{row % 5}\n" for row in range(60)))

    Path("numbered.txt").write_text(" t sex\n" + "".join(f"{row} {row % 7} F\n" for row in range(60)))

    assert [column.name for column in sources.describe("blanks.csv")] == ["t", "status", "sex"]
    assert [column.name for column in sources.describe("numbered.txt")] == ["column 1", "t", "sex"]
    assert [column.name for column in sources.describe("names.csv")] == ["full name"]
    with pytest.raises(SourceError, match="separated by several blanks"):
        sources.describe("runs.txt")


def test_columns_without_a_value_and_tables_without_a_row_are_told() -> None:
    Path("nothing.csv").write_text("a,b,c\n" + "".join(f"{row % 3},,NA\n" for row in range(60)))
    Path("empty.csv").write_text("a,b,c\n")

    draft = sources.propose_schema("nothing.csv").toml
    assert draft.count("it holds nothing but missing values") == 2
    with pytest.raises(SourceError, match="names of columns but no row"):
        sources.propose_schema("empty.csv")


def test_a_second_table_behind_blank_lines_and_days_that_excel_counted_are_told() -> None:
    days: list[list[object]] = [["受診日", "n"], *([45292 + 9 * row % 50, row % 4] for row in range(60))]

    assert "Looks like days that Excel counts from 1900" in sources.propose_schema(write_book(days)).toml
    two = sources.propose_schema(write_book([*days, [], ["p", "q"], [45300, 1]])).toml
    assert "blank lines stand between rows, before lines 63" in two
