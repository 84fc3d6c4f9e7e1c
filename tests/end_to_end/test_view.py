"""The view from the command line: publish, ask, sample, and refusals in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sudare.cli.app import app

SCHEMA = """
[sudare]
schema = 1
name = "people"

[unit]
kind = "row"

[[attribute]]
name = "age"
kind = "number"
bins = { start = 0, stop = 100, width = 10 }

[[attribute]]
name = "sex"
kind = "category"
values = ["F", "M"]
"""


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_LANG", "en")
    Path("people.toml").write_text(SCHEMA, encoding="utf-8")
    rows = "".join(f"{(7 * k) % 100},{'FM'[k % 2]}\n" for k in range(4000))
    Path("people.csv").write_text("age,sex\n" + rows, encoding="utf-8")
    done = run("publish", "view", "people.csv", "--schema", "people.toml", "--epsilon", "2", "--out", "out")
    assert done.exit_code == 0, done.output
    return tmp_path / "out"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_question_is_answered_with_an_interval(release: Path) -> None:
    done = run("query", "out", "SELECT sex, COUNT(*) FROM view WHERE age BETWEEN 20 AND 39 GROUP BY sex")

    assert done.exit_code == 0
    assert "F" in done.output
    assert "[" in done.output
    assert "level 0.95" in done.output


def test_a_file_of_questions_gives_a_json_list_of_one_shape(release: Path) -> None:
    Path("many.sql").write_text(
        "SELECT COUNT(*) FROM view;\nSELECT sex, AVG(age) AS mean FROM view GROUP BY sex;", encoding="utf-8"
    )
    told = json.loads(run("query", "out", "--file", "many.sql", "--json").output)

    assert [sorted(one) for one in told] == [["columns", "high", "level", "low", "notes", "rows", "sql"]] * 2
    assert told[0]["rows"][0][0] == pytest.approx(4000)
    assert told[1]["columns"] == ["sex", "mean"]
    assert told[1]["low"][0][1] < told[1]["rows"][0][1] < told[1]["high"][0][1]


def test_a_refusal_in_a_file_of_questions_says_which_statement_it_is_about(release: Path) -> None:
    Path("many.sql").write_text("SELECT COUNT(*) FROM view;\nSELECT COUNT(*) FROM veiw;", encoding="utf-8")
    done = run("query", "out", "--file", "many.sql", "--out", "answers.json")

    assert str(done.exception).startswith("statement 2 of 2: there is no table veiw")
    assert not Path("answers.json").exists()


def test_records_are_sampled_to_a_file_and_to_the_terminal(release: Path) -> None:
    assert run("sample", "out", "-n", "500", "--out", "records.csv").exit_code == 0
    lines = Path("records.csv").read_text(encoding="utf-8").splitlines()

    assert lines[0] == "age,sex"
    assert len(lines) == 501
    assert len(run("sample", "out", "-n", "3").output.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["query", "out", "SELECT COUNT(*) FROM view WHERE height = 3"], "no column height"),
        (["query", "out", "SELECT COUNT(*) FROM view", "--out", "answer.parquet"], "must end in .csv, .json, .md"),
        (["query", "out", "SELECT COUNT(*) FROM view TABLESAMPLE 10%"], "is not part of the SQL"),
        (["query", "nowhere", "SELECT COUNT(*) FROM view"], "not a release"),
        (["query", "out", "--file", "nowhere.sql"], "cannot be read"),
        (["query", "out", "SELECT sex, COUNT(*) FROM view GROUP BY sex", "--chart", "bars.png"], "must end in .svg"),
        (["sample", "out", "-n", "-1"], "must be between"),
        (["publish", "view", "people.csv", "--schema", "people.toml", "--epsilon", "0", "--out", "o2"], "epsilon (0)"),
    ],
)
def test_refusals_are_one_line(release: Path, arguments: list[str], line: str) -> None:
    done = run(*arguments)

    assert done.exit_code != 0
    assert line in str(done.exception)
    assert not Path("o2").exists()


def test_a_preview_tells_the_noise_from_the_schema_alone(release: Path) -> None:
    done = run("preview", "view", "--schema", "people.toml", "--epsilon", "1", "--rows", "4000")

    assert "noise of a value of age" in done.output
    assert "bins for each attribute" in done.output
