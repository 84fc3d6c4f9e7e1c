"""Statements cut in a Japanese editor: full-width signs are read as half-width ones, or told what to write."""

from __future__ import annotations

import pytest

from sudare.asking.answers import AnswerTable
from sudare.asking.prepared import take_apart
from sudare.asking.statement import ask_statement
from sudare.asking.syntax import fold_width
from sudare.errors import ParameterError
from tests.asking.exact import make_records

WIDE = str.maketrans("()+-*/%=<>!|,.;", "（）＋－＊／％＝＜＞！｜，．；")


def ask(statement: str) -> AnswerTable:
    return ask_statement(statement, {"view": make_records(77, empty=0.85)[0]})


@pytest.mark.parametrize(
    ("statement", "plain"),
    [
        ("SELECT COUNT（*） FROM view", "SELECT COUNT(*) FROM view"),
        ("SELECT sex、COUNT(*) FROM view GROUP BY sex。", "SELECT sex,COUNT(*) FROM view GROUP BY sex;"),
        ("ＳＥＬＥＣＴ　ＣＯＵＮＴ（＊）　ＦＲＯＭ　view", "SELECT COUNT(*) FROM view"),
        (
            "SELECT COUNT(*) FROM view WHERE age　＞＝　１２ ａｎｄ pay ＜ ２．５；",
            "SELECT COUNT(*) FROM view WHERE age >= 12 AND pay < 2.5;",
        ),
        (
            "SELECT AVG(pay) ＊ 2 ＋ 1 FROM view WHERE sex ！＝ 'F'",
            "SELECT AVG(pay) * 2 + 1 FROM view WHERE sex != 'F'",
        ),
        (
            "SELECT COUNT(*) FROM view WHERE age ＢＥＴＷＥＥＮ 3 AND 9 ＡＮＤ sex＝'F'",
            "SELECT COUNT(*) FROM view WHERE age BETWEEN 3 AND 9 AND sex='F'",
        ),
        (
            "SELECT COUNT(*) FROM view WHERE sex ＩＮ （'F'、'M'） -- 男、女（'",
            "SELECT COUNT(*) FROM view WHERE sex IN ('F','M')",
        ),
    ],
)
def test_full_width_signs_and_words_are_read_as_half_width_ones(statement: str, plain: str) -> None:
    assert [list(map(str, row)) for row in ask(statement).rows] == [list(map(str, row)) for row in ask(plain).rows]


def test_parts_of_full_width_statements_are_those_of_half_width_ones() -> None:
    statement = "SELECT COUNT(*) FROM view WHERE (age + 1) BETWEEN 3 AND 9 AND sex = 'F' AND pay > 2"

    assert take_apart(statement.translate(WIDE)) == take_apart(statement)


def test_what_stands_in_quotes_names_and_comments_stays_as_it_is() -> None:
    statement = """SELECT "金額（円）", 売上１, ＩＤ FROM 表 WHERE a = '（株）、''＝' /* （ */ -- ＝"""

    assert fold_width(statement) == statement


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("SELECT COUNT(*) FROM view WHERE sex = ‘F’", "values stand in '...' and names in double quotes"),
        ("SELECT COUNT(*) FROM view WHERE sex = 「F」", "values stand in '...' and names in double quotes"),
        ("SELECT COUNT(*) FROM view WHERE age ≧ 3", "the sign ≧ is not answered: write >="),
        ("SELECT COUNT(*) FROM view WHERE age ≠ 3", "the sign ≠ is not answered: write <>"),
        ("SELECT AVG(pay) AS 平均（円） FROM view", 'write that in double quotes: "平均（円）"'),
        ("SELECT COUNT(*) FROM view WHERE 金額（円） > 3", 'write that in double quotes: "金額（円）"'),
    ],
)
def test_other_signs_are_told_what_to_write(statement: str, part: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        ask(statement)

    assert part in str(refusal.value)
