"""Drafts hold for the table they were drawn from; questions are asked and answered; what was read off is marked."""

from __future__ import annotations

import csv
import math
import random
import tomllib
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import sudare.sources as sources
from sudare.cli.schema import edit
from sudare.schema import Schema
from sudare.schema.propose import answer_question, find_questions, mark_confirmed
from sudare.sources import facts

ROWS = 25_000  # more than the sample of the first rows, so that the rest of a column must be read too


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_table(columns: dict[str, Callable[[int], object]], rows: int = ROWS, path: str = "t.csv") -> Path:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([make(row) for make in columns.values()] for row in range(rows))
    return Path(path)


def draft(path: Path) -> dict[str, dict[str, Any]]:
    """Draft a schema and confirm it; it must hold. The keys of its attributes."""
    proposed = sources.propose_schema(path)
    proposed.save("draft.toml", confirmed=True)
    with sources.open(path, Schema.read("draft.toml")) as source:
        findings = source.check()
    assert findings.fits, [(problem.attribute, str(problem.problem), problem.rows) for problem in findings.problems]
    return {table["name"]: table for table in tomllib.loads(proposed.toml)["attribute"]}


def test_amounts_written_as_offices_do_get_the_bins_of_a_long_tail() -> None:
    yen = [1_000 * round(math.exp(random.Random(row).gauss(8, 1))) for row in range(ROWS)]
    found = draft(write_table({"収入": lambda row: f"{yen[row]:,}円"}))

    assert found["収入"]["format"] == "1,234円"
    assert len([edge for edge in found["収入"]["edges"] if edge <= sorted(yen)[ROWS // 2]]) == 3
    assert found["収入"]["grain"] == 1_000


def test_bins_grow_where_even_ones_would_leave_most_rows_in_the_first() -> None:
    fees = [round(math.exp(random.Random(row).gauss(10.4, 0.9)), -1) for row in range(4_500)]
    columns = {
        "fee": lambda row: min(fees[row], 6 * sorted(fees)[-225]),
        "age": lambda row: 20 + row * 7 % 60,
        "children": lambda row: (row % 3 == 0) + 30 * (row % 900 == 0),
        "pidnum": lambda row: 10_000 + row * 7_919 % 65_521,
    }
    found = draft(write_table(columns, rows=4_500))

    assert len([edge for edge in found["fee"]["edges"] if edge <= sorted(fees)[2_250]]) >= 3
    assert found["age"]["bins"]["width"] == 5
    assert found["children"]["values"] == ["0", "1", "31"]
    assert found["pidnum"]["role"] == "identifier"


def test_persons_are_seen_though_missing_numbers_made_their_numbers_decimals() -> None:
    columns = {
        "id": lambda row: "" if row % 300 == 7 else f"{row * 31 % 701}.0",
        "x": lambda row: f"{row * 31 % 701}.5",
    }
    proposed = sources.propose_schema(write_table(columns, rows=3_000)).toml

    assert "# id is left out, and will not be published: its values seem to name persons or things" in proposed
    assert "Does id name persons" in proposed


def test_sentences_are_not_asked_about_as_persons() -> None:
    long = "a sentence that is longer than what a list of values would hold, and is no name of any person at all"
    columns = {"remark": lambda row: f"{long}, {row % 900}", "age": lambda row: row % 90}

    assert "name persons" not in sources.propose_schema(write_table(columns, rows=3_000)).toml


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_grain_is_seen_in_all_rows_of_a_column_with_many_values(suffix: str) -> None:
    columns = {
        "bmi": lambda row: (150 + 7 * row % 301) / 10,
        "once finer": lambda row: (150 + 7 * row % 301) / 10 + 1e-7 * (row == 24_000),
        "wage": lambda row: 100 * (row * 31 % 5_003),
        "once odd": lambda row: 100 * (row * 31 % 5_003) + (row == 24_000),
        "anywhere": lambda row: row * math.pi % 50,
    }
    path = write_table(columns)
    if suffix == "parquet":
        duckdb.sql("COPY (FROM 't.csv') TO 't.parquet'")
        path = Path("t.parquet")
    found = draft(path)

    assert {name: keys["grain"] for name, keys in found.items()} == {
        "bmi": 0.1,
        "once finer": 0,
        "wage": 100,
        "once odd": 1,
        "anywhere": 0,
    }


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_check_tells_of_numbers_between_the_multiples_of_a_declared_grain(suffix: str) -> None:
    columns = {"bmi": lambda row: row % 300 / 10, "yen": lambda row: f"{1_000 * row + (row == 7):,}円"}
    path = write_table(columns, rows=900)
    if suffix == "parquet":
        duckdb.sql("COPY (FROM 't.csv') TO 't.parquet'")
        path = Path("t.parquet")
    bmi = '[[attribute]]\nname = "bmi"\nkind = "number"\nbins = { start = 0, stop = 30, width = 1 }\n'
    yen = '[[attribute]]\nname = "yen"\nkind = "number"\nformat = "1,234円"\nmissing = ["29,000円"]\n'
    yen += "bins = { start = 0, stop = 1000000, width = 100000 }\n"
    head = '[sudare]\nschema = 1\nname = "people"\n[unit]\nkind = "row"\n'

    def check(bmi_grain: str, yen_grain: str) -> list[str]:
        Path("s.toml").write_text(f"{head}{bmi}grain = {bmi_grain}\n{yen}grain = {yen_grain}\n", encoding="utf-8")
        with sources.open(path, Schema.read("s.toml")) as source:
            return [str(note).partition(";")[0] for note in source.check().notes]

    assert check("0.1", "1") == check("0", "0") == []
    assert check("0.5", "1000") == [
        "bmi: 720 rows hold no multiple of its grain, 0.5",
        "yen: 1 rows hold no multiple of its grain, 1000",
    ]


def test_a_float_that_is_no_number_is_missing_and_not_beside_its_grain() -> None:
    duckdb.sql(
        "COPY (SELECT CASE WHEN i = 3 THEN 'NaN'::DOUBLE ELSE i / 2 END AS x FROM range(60) t(i)) TO 'n.parquet'"
    )
    attribute = (
        '[[attribute]]\nname = "x"\nkind = "number"\nbins = { start = 0, stop = 30, width = 5 }\nmissing = true\n'
    )
    head = '[sudare]\nschema = 1\nname = "t"\n[unit]\nkind = "row"\n'
    Path("n.toml").write_text(f"{head}{attribute}grain = 0.5\n", encoding="utf-8")
    with sources.open(Path("n.parquet"), Schema.read("n.toml")) as source:
        findings = source.check()

    assert findings.fits
    assert not findings.notes


def test_ranges_come_from_the_whole_column_and_not_from_its_first_rows() -> None:
    late = {
        "amount": lambda row: row * row % 24_007 if row < 24_000 else 10**7 + row,
        "text number": lambda row: f"{row % 5_000}.5" if row < 24_000 else "-999.5",
        "day": lambda row: date(2020, 1, 1) + timedelta(days=row % 3_000 if row < 24_000 else 9_000),
        "time": lambda row: f"20{10 + row // 2_000}-01-01T00:{row % 60:02d}:{row // 60 % 60:02d}Z",
        "code": lambda row: 1 + row % 2 if row < 24_000 else 9,
        "word": lambda row: "early" if row < 24_000 else "late",
    }
    found = draft(write_table(late))

    assert found["amount"]["edges"][-1] >= 10**7
    assert found["code"]["values"] == ["1", "2", "9"]
    assert found["time"]["kind"] == "date"
    assert found["word"]["values"] == ["early", "late"]


def test_a_column_that_is_read_otherwise_later_is_not_mistaken() -> None:
    late = {
        "x": lambda row: str(row) if row < 24_000 else "n/a?",
        "y": lambda row: f"{row % 4000},000円" if row < 24_000 else "未定",
        "z": lambda row: "令和6年4月1日" if row < 24_000 else "いつか",
        "few": lambda row: row % 3,
    }
    found = draft(write_table(late))

    assert "few" in found
    assert found["z"]["kind"] == "category"


def test_a_list_of_a_city_office_is_understood() -> None:
    """Full-width numbers of rows, names joined of two lines, a dash for nothing, and numbers of people that repeat."""
    rng = random.Random(6)
    wide = str.maketrans("0123456789", "０１２３４５６７８９")
    found = draft(
        write_table(
            {
                "整理番号": lambda row: f"{row:04d}".translate(wide),
                "通し番号": lambda row: str(row + 1).translate(wide),
                "住所_郵便番号": lambda row: f"39{rng.randrange(4)}-000{rng.randrange(1, 9)}",
                "利用額_施設": lambda row: rng.choice(["－", f"{rng.randrange(10, 300) * 1000:,}円"]),
                "customer_no": lambda row: str(rng.randrange(1, 400)),
            },
            rows=1_200,
        )
    )

    assert found["整理番号"]["role"] == found["通し番号"]["role"] == "identifier"
    assert found["住所_郵便番号"]["hierarchy"] == {"masking": "right", "characters": 2}
    assert (found["利用額_施設"]["kind"], found["利用額_施設"]["missing"]) == ("number", ["－"])
    assert "customer_no" not in found


def test_numbers_and_days_as_offices_write_them_are_read() -> None:
    rng = random.Random(1)
    found = draft(
        write_table(
            {
                "金額": lambda row: f"{rng.randrange(100, 99999):,}円",
                "割合": lambda row: f"{rng.randrange(100)}％",
                "増減": lambda row: rng.choice(["△", ""]) + f"{rng.randrange(3000):,}",
                "euro": lambda row: f"{rng.randrange(1000)},{rng.randrange(100):02d}",
                "small": lambda row: rng.choice(["1e-05", "0.5", "2.5E-3"]),
                "登録日": lambda row: f"R{rng.randrange(2, 7)}.{rng.randrange(1, 13)}.{rng.randrange(1, 29)}",
                "生年": lambda row: f"昭和{rng.randrange(1, 64)}年{rng.randrange(1, 13)}月",
                "全角": lambda row: "１２３４５６７８９"[row % 9] + "０",
            },
            rows=3_000,
        )
    )

    assert [found[name].get("format") for name in found] == [
        "1,234円", "1,234%", "1,234", "1.234,5", "1,234", "japanese", "japanese", "1,234",
    ]  # fmt: skip


def test_kinds_follow_the_meaning_of_a_column() -> None:
    rng = random.Random(2)
    found = draft(
        write_table(
            {
                "sex": lambda row: 1 + row % 2,
                "birth_year": lambda row: 1930 + row % 80,
                "zip": lambda row: f"{100 + row % 40:03d}{row % 7:04d}",
                "town": lambda row: f"131{row % 23 + 1:02d}",
                "income": lambda row: int(10 ** rng.uniform(2, 4)) if row % 50 else 10**7 + row,
                "mesh": lambda row: 53390000 + (row % 8) * 1000 + (row % 7) * 100 + row % 100,
                "lat": lambda row: f"{35 + rng.random():.5f}",
                "plan": lambda row: rng.choice(["a", "b", "?"]),
            },
            rows=8_000,
        )
    )

    assert found["sex"]["values"] == ["1", "2"]
    assert found["birth_year"]["bins"]["width"] == 5
    assert found["zip"]["hierarchy"] == {"masking": "right", "characters": 2}
    assert found["town"]["kind"] == "category"
    assert found["income"]["edges"][:4] == [0, 100, 200, 500]
    assert (found["mesh"]["kind"], found["mesh"]["area"]) == ("mesh", ["5339"])
    assert found["lat"]["kind"] == "number"
    assert found["plan"]["missing"] == ["?"]


def test_whole_numbers_that_missing_ones_made_decimals_are_codes_and_halves_keep_their_grain() -> None:
    rng = random.Random(3)
    found = draft(
        write_table(
            {
                "flag": lambda row: rng.choice(["0.0", "1.0", "1.0", ""]),
                "mixed": lambda row: rng.choice(["0", "1", "1.0"]),
                "half": lambda row: rng.choice(["0", "0.5", "1"]),
                "sex": lambda row: rng.choice("FM"),
                "country": lambda row: "JP",
            },
            rows=2_000,
        )
    )

    assert (found["flag"]["kind"], found["flag"]["values"]) == ("category", ["0.0", "1.0"])
    assert found["mixed"]["kind"] == "number"  # as categories 1 and 1.0 would be two
    assert (found["half"]["bins"], found["half"]["grain"]) == ({"start": 0, "stop": 1.5, "width": 0.5}, 0.5)
    assert found["sex"]["role"] == "quasi"
    assert "role" not in found["country"]  # what all have tells nobody apart


def test_many_mesh_codes_are_known_by_all_of_them() -> None:
    def cell(row: int) -> str:
        first = "5339" if row < 24_000 else "6441"
        return f"{first}{row % 8}{row // 8 % 8}{row // 64 % 10}{row // 640 % 10}{row % 4 + 1}"

    assert draft(write_table({"cell": cell, "n": lambda row: row % 4}))["cell"]["area"] == ["5339", "6441"]


def test_texts_that_repeat_are_listed_in_a_file_and_persons_are_asked_about() -> None:
    path = write_table({"shop": lambda row: f"shop {row % 300}", "patient_id": lambda row: row % 9_000})
    questions = find_questions(sources.propose_schema(path).toml)

    assert draft(path)["shop"]["values_file"] == "t.1.values.txt"
    assert len(Path("t.1.values.txt").read_text(encoding="utf-8").splitlines()) == 300
    assert [question.answer[1] for question in questions][:1] == ['column = "patient_id"']


def test_columns_that_single_out_rows_are_quasi_identifiers_with_a_reason() -> None:
    rng = random.Random(3)
    path = write_table(
        {
            "age": lambda row: rng.randrange(18, 90),
            "sex": lambda row: rng.choice("FM"),
            "weight": lambda row: round(rng.gauss(60, 9), 1),
            "ward": lambda row: rng.choice("ABC"),
            "diagnosis": lambda row: rng.choice(["flu", "cold"]),
        },
        rows=600,
    )
    found, text = draft(path), sources.propose_schema(path).toml

    assert {name: table.get("role") for name, table in found.items()} == {
        "age": "quasi", "sex": "quasi", "weight": "quasi", "ward": "quasi", "diagnosis": "sensitive",
    }  # fmt: skip
    assert "with age, sex it singles out" in text
    assert all("hierarchy" in table for table in found.values() if table.get("role") == "quasi")


def test_impossible_combinations_are_only_asked_about() -> None:
    path = write_table({"sex": lambda row: "FM"[row % 2], "pregnant": lambda row: "yes" if row % 6 == 0 else "no"})
    text = sources.propose_schema(path).toml
    (question,) = [question for question in find_questions(text) if question.answer[0] == "[[impossible]]"]
    Path("s.toml").write_text(answer_question(text, question, question.answer), encoding="utf-8")

    assert "impossible" not in tomllib.loads(text)
    assert [set(box.names) for box in Schema.read("s.toml").impossible] == [{"sex", "pregnant"}]


def test_edit_asks_one_by_one_and_writes_the_answers() -> None:
    path = write_table({"patient_id": lambda row: row % 900, "city": lambda row: f"c{row % 20}"}, rows=3_000)
    sources.propose_schema(path).save("s.toml")
    asked = CliRunner().invoke(edit, ["s.toml"], input="y\n3\nn\n")
    schema = Schema.read("s.toml")

    assert asked.exit_code == 0, asked.output
    assert (schema.unit.column, schema.unit.max_rows) == ("patient_id", 3)
    assert schema.attribute("city").outside == "refuse"
    assert not find_questions(Path("s.toml").read_text(encoding="utf-8"))


def test_what_was_read_off_the_data_is_marked_and_told() -> None:
    path = write_table({"age": lambda row: row % 80, "flag": lambda row: row % 2 == 0}, rows=200)
    toml = mark_confirmed(sources.propose_schema(path).toml)
    Path("s.toml").write_text(toml, encoding="utf-8")
    schema = Schema.read("s.toml")

    assert [attribute.from_data for attribute in schema.attributes] == [True, True]
    assert Schema.from_dict(schema.to_dict()) == schema


def test_of_columns_whose_names_differ_in_case_only_the_first_is_drafted() -> None:
    path = write_table({"W": lambda row: row % 3, "w": lambda row: "ab"[row % 2]}, rows=600)
    proposed = sources.propose_schema(path).toml

    assert set(draft(path)) == {"W"}
    assert "# w is left out, and will not be published: its name and W differ in case only" in proposed


def test_numbers_that_were_given_and_not_measured_are_no_attributes() -> None:
    chance = random.Random(5)
    households = [number for number in range(1, 601) for _ in range(chance.randint(1, 4))]
    columns: dict[str, Callable[[int], object]] = {
        "db030": lambda row: households[row],
        "rb030": lambda row: 7 * row + 101,
        "income": lambda row: chance.randint(0, 900),
        "paid": lambda row: chance.randint(0, 10**7),
    }
    path = write_table(columns, rows=len(households))
    proposed = sources.propose_schema(path).toml
    found = draft(path)

    assert "db030" not in found
    assert "# ? Does db030 name persons, each with several rows?" in proposed
    assert found["rb030"]["role"] == "identifier"
    assert found["income"]["kind"] == found["paid"]["kind"] == "number"


def test_names_of_people_are_left_out_and_codes_of_places_are_no_persons() -> None:
    """A small office has few names, each several times; 氏名 was drafted as a category to be published."""
    columns = {
        "氏名": lambda row: f"佐藤 {row % 30}郎",
        "郵便番号": lambda row: f"100-{row * 7 % 997:04d}",
        "住所": lambda row: f"東町{row * 7 % 991}番地",
        "telephone": lambda row: ("yes", "no")[row % 2],
    }
    proposed = sources.propose_schema(write_table(columns, rows=3_000)).toml

    assert "氏名 is left out, and will not be published: by its name it tells who somebody is" in proposed
    assert "name persons" not in proposed
    assert 'values = ["no", "yes"]' in proposed


def test_words_among_numbers_and_days_are_missing_ones_and_told() -> None:
    """One such word made a list of texts of the column, which was left out as having too many."""
    columns = {
        "sales": lambda row: "Ｘ" if row % 40 == 3 else f"{row * 31 % 5_003 / 10:,.1f}",
        "wage": lambda row: "withheld" if row == 24_000 else "none" if row % 9 == 0 else str(100 * (row % 700)),
        "退職日": lambda row: "在職中" if row % 3 else f"令和{row % 5 + 1}年{row % 12 + 1}月1日",
        "district": lambda row: "AL" if row % 50 == 0 else str(row % 12),
        "town code": lambda row: "none" if row % 50 == 0 else str(100 + row % 90),
    }
    path = write_table({name: columns[name] for name in ("sales", "退職日", "district", "town code")})
    found = draft(path)
    late = sources.propose_schema(write_table({"wage": columns["wage"]}, path="late.csv")).toml

    assert [found["sales"].get("missing"), found["退職日"].get("missing")] == [["Ｘ"], ["在職中"]]
    assert found["sales"]["grain"] == 0.1
    assert "AL" in found["district"]["values"]
    assert "none" in found["town code"]["values"]
    assert "# Read as missing among numbers: Ｘ." in sources.propose_schema(path).toml
    assert 'kind = "category"' in late  # a word that no row of the sample has is not guessed at


def test_a_group_that_is_named_in_its_first_row_only_is_no_identifier() -> None:
    columns = {
        "district": lambda row: f"{'NESW'[row // 200 % 4]} district" if row % 200 == 0 else "",
        "age": lambda row: row % 90,
    }
    path = write_table(columns, rows=2_000)

    assert draft(path)["district"]["kind"] == "category"
    assert "# Most rows are blank. Where a blank means the same as above" in sources.propose_schema(path).toml


def test_classes_of_a_number_are_put_in_order() -> None:
    columns = {
        "class": lambda row: ("100+", "under 20", "20-29", "30-99")[row % 4],
        "学年": lambda row: f"{row % 6 + 1}年",
        "plot": lambda row: f"plot {row % 5}",
        "fee": lambda row: f"{100 * (row % 30)}円",
    }
    found = draft(write_table(columns, rows=3_000))

    assert found["class"]["values"] == ["under 20", "20-29", "30-99", "100+"]
    assert [found["class"]["kind"], found["学年"]["kind"], found["plot"]["kind"]] == ["ordered", "ordered", "category"]
    assert found["fee"]["kind"] == "number"


def test_codes_of_surveys_are_missing_answers_and_no_numbers_below_zero() -> None:
    """Ages were cut from -100 on, and an average counted -99 in."""
    columns = {
        "age": lambda row: -99 if row % 40 == 3 else 18 + row % 71,
        "q1": lambda row: (-99, -88, 1, 2, 3, 4, 5)[row % 7],
        "income": lambda row: -999.0 if row % 40 == 3 else 100.5 + row % 4_999,
        "change": lambda row: row % 301 - 99,
        "once": lambda row: -99 if row == 5 else row % 90,
    }
    path = write_table(columns)
    frames = duckdb.sql("SELECT age::BIGINT age, income::DOUBLE income, q1::SMALLINT q1 FROM 't.csv'")
    frames.write_parquet("t.parquet")

    from_text = draft(path)
    Path("draft.toml").unlink()

    for found in (from_text, draft(Path("t.parquet"))):
        assert found["age"]["missing"] == ["-99"]
        assert (found["age"]["bins"]["start"], found["age"]["bins"]["stop"]) == (15, 90)
        assert (found["q1"]["missing"], found["q1"]["values"]) == (["-88", "-99"], ["1", "2", "3", "4", "5"])
        assert found["income"]["missing"] == ["-999.0"]
    assert "missing" not in from_text["change"]
    assert "missing" not in from_text["once"]


def test_few_numbers_with_many_rows_each_are_codes_however_far_apart() -> None:
    columns = {
        "status": lambda row: (200, 301, 404, 500)[row % 4],
        "payment": lambda row: 4_000 if row == 9 else 10 * (row % 9),
        "edition": lambda row: "1.2",
    }
    found = draft(write_table(columns, rows=3_000))

    assert found["status"]["values"] == ["200", "301", "404", "500"]
    assert found["payment"]["kind"] == "number"  # a list would name what one person paid
    assert found["edition"]["values"] == ["1.2"]


def test_nothing_has_a_bin_of_its_own_where_many_rows_have_it() -> None:
    """Who pays nothing was known with the first wide bin only: 9,270 [8,200, 10,300] of 10,000 where 9,754 is true."""
    columns = {
        "school_days": lambda row: row % 53 if row % 40 == 3 else 0,
        "fee": lambda row: 0 if row % 4 else (row * 31 % 2_000) / 10,
        "age": lambda row: 18 if row % 4 else 18 + row % 71,
        "sex": lambda row: "FM"[row % 2],
    }
    found = draft(write_table(columns, rows=3_000))

    assert found["school_days"]["edges"] == [0, 1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]
    assert found["fee"]["edges"][:3] == [0, 0.1, 20]
    assert found["age"]["bins"] == {"start": 15, "stop": 90, "width": 5}
    assert found["school_days"]["hierarchy"] == {"intervals": [10, 20]}


def test_words_of_a_usual_scale_are_put_in_order() -> None:
    columns = {
        "agree": lambda row: ("Agree", "Neutral", "Strongly_disagree")[row % 3],
        "満足": lambda row: ("満足", "不満", "ふつう")[row % 3],
        "sizes": lambda row: ("small", "large", "huge")[row % 3],
    }
    found = draft(write_table(columns, rows=900))

    assert found["agree"]["values"] == ["Strongly_disagree", "Neutral", "Agree"]
    assert found["満足"]["values"] == ["不満", "ふつう", "満足"]
    assert found["sizes"]["kind"] == "category"


def test_numbers_of_persons_in_one_word_are_no_amounts() -> None:
    columns = {
        "pid": lambda row: 1_000 + 7 * (row // 4),
        "account": lambda row: 10**9 + row * 31 % 900,
        "age": lambda row: row % 90,
    }
    proposed = sources.propose_schema(write_table(columns, rows=3_000)).toml

    assert "pid is left out, and will not be published: its values seem to name persons or things" in proposed
    assert "account is left out, and will not be published: its values seem to name persons or things" in proposed


GIVEN = ("Anna", "Ben", "Chidi", "Dewi", "Eva", "Finn", "Guo", "Hiba", "Igor", "Jun")
FAMILY = ("Smith", "Okafor", "Brown", "Lindqvist", "Wilson")
JAPANESE = ("佐藤", "福島", "田中", "井川", "城戸", "大山", "森下", "高橋")


@pytest.mark.parametrize(
    ("column", "make", "is_kept"),
    [
        ("name", lambda row: f"{GIVEN[row % 10]} {FAMILY[row // 10 % 5]}", False),
        ("name", lambda row: GIVEN[row % 10], False),
        ("名前", lambda row: f"{JAPANESE[row % 8]}{'蓮葵翔健'[row // 8 % 4]}", False),
        ("担当者", lambda row: JAPANESE[row % 8], False),
        ("name", lambda row: f"Okafor {row % 300}", False),  # nobody common, but few rows each
        ("name", lambda row: f"Red shirt {row % 40}", True),
        ("名前", lambda row: f"緑茶{'甘苦濃淡'[row % 4]}{row % 10}", True),
        ("商品名", lambda row: f"佐藤の味噌{row % 40}" if row % 40 == 1 else f"味噌{row % 40}", True),
        ("店名", lambda row: f"{JAPANESE[row % 8]}商店", True),
    ],
)
def test_a_column_called_name_is_decided_by_its_values(
    column: str, make: Callable[[int], object], is_kept: bool
) -> None:
    found = draft(write_table({column: make, "sex": lambda row: "FM"[row % 2]}, 2_000))

    assert (column in found) == is_kept


def test_names_in_a_short_table_are_left_out_and_unlikely_ones_are_told() -> None:
    few = draft(write_table({"name": lambda row: f"{GIVEN[row % 10]} {row}", "sex": lambda row: "FM"[row % 2]}, 30))
    table = write_table({"name": lambda row: f"plot {'abcdefghijkl'[row % 12]}", "x": lambda row: row % 4}, 2_000)

    assert "name" not in few
    assert "# Where these are names of people, take this attribute out." in sources.propose_schema(table).toml


SECOND = 1_577_836_800  # 2020-01-01


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_times_counted_from_1970_are_drafted_as_days(suffix: str) -> None:
    columns: dict[str, Callable[[int], object]] = {
        "when": lambda row: SECOND + row * 1_000,
        "login_ms": lambda row: (SECOND + row * 997) * 1_000,
        "created_at": lambda row: SECOND + row * 1_000 + 0.5,
        "total": lambda row: 1_100_000 * row,
        "customer_id": lambda row: SECOND + row // 2,
    }
    path = write_table(columns, 20_000)
    if suffix == "parquet":
        duckdb.sql(f"COPY (FROM '{path}') TO 't.parquet'")
    found = draft(Path(f"t.{suffix}"))

    assert {name: found[name].get("format") for name in ("when", "login_ms", "created_at")} == {
        "when": "unix-seconds",
        "login_ms": "unix-milliseconds",
        "created_at": "unix-seconds",
    }
    assert found["when"]["bins"] == {"start": "2020-01-01", "stop": "2020-08-31", "width": "1 month"}
    assert found["total"]["kind"] == "number"
    assert "customer_id" not in found


def test_a_table_that_the_sample_holds_is_not_read_again_for_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    columns: dict[str, Callable[[int], object]] = {f"c{column}": lambda row: row % 4 for column in range(60)}
    counted: list[int] = []
    monkeypatch.setattr(facts, "_count_values", lambda _, sketches: counted.append(len(sketches)))
    found = draft(write_table(columns, 40))

    assert counted == []
    assert all(keys["values"] == ["0", "1", "2", "3"] for keys in found.values())
