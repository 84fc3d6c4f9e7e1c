"""One reader for schema, map, recipe and request: the same mistake gets the same quality of answer in all four."""
# ruff: noqa: E501  (a table of answers)

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sudare.errors import ParameterError, SchemaError, SudareError
from sudare.forms import FileForm, Key, TableForm, find_mistakes, read_form, read_values
from sudare.forms.describe import write_example, write_json_schema
from sudare.forms.kinds import (
    AnyText,
    CalendarDay,
    ChoiceOf,
    Either,
    ExactNumber,
    Flag,
    FolderName,
    Kind,
    ListOf,
    NameList,
    PlainNumber,
    Seconds,
    TextLine,
    TextList,
    Unfit,
    WholeNumber,
)
from sudare.forms.toml import SyntaxStop, parse
from sudare.methods.kanon import request as request_file
from sudare.methods.kanon.request import Request
from sudare.methods.location import map_file
from sudare.methods.location.map_file import read_map
from sudare.recipe.file import read_recipe, recipe_form
from sudare.schema import Attribute, NumberBins, Schema, TableHierarchy, Values
from sudare.schema import file as schema_file
from sudare.schema.hierarchy_rules import intervals
from sudare.text import Text, languages

AGES = NumberBins.of_width(0, 100, 5)
SEXES = TableHierarchy.from_paths([("F", "*"), ("M", "*")])
PEOPLE = Schema(
    name="people",
    attributes=(
        Attribute(name="age", domain=AGES, hierarchy=intervals(AGES, [10, 50])),
        Attribute(name="sex", domain=Values(("F", "M")), hierarchy=SEXES),
    ),
)

VALID = {
    "schema": """\
[sudare]
schema = 1
name = "members"

[unit]
kind = "person"
column = "customer_id"
max_rows = 5

[[attribute]]
name = "age"
kind = "number"
bins = { start = 0, stop = 100, width = 5 }
missing = true

[[attribute]]
name = "item"
kind = "category"
values = [
  "h1",
  "h2",
]
role = "quasi"

[[impossible]]
age = ["[0,15)"]
item = ["h2"]
""",
    "map": """\
[grid]
kind = "plane"
rows = 15
columns = 15
cell_height_metres = 115.6
cell_width_metres = 141.5
inputs = "all"
""",
    "recipe": """\
[recipe]
version = 1
source = "members.csv"
schema = "members.toml"
out = "releases"

[ledger]
file = "members.ledger"
budget = "2"

[[release]]
name = "records"
publish = "microdata"
epsilon = "1/2"
by = [
  "age",
  "sex",
]
report = true
""",
    "request": """\
[request]
name = "commuters"
k = 5

[[option]]
age = 1
sex = [
  ["F"],
  ["M"],
]
""",
}
FORMS: Mapping[str, Callable[[], FileForm]] = {
    "schema": lambda: schema_file.FORM,
    "map": lambda: map_file.FORM,
    "recipe": recipe_form,
    "request": lambda: request_file.FORM,
}
READERS: Mapping[str, Callable[[Path], object]] = {
    "schema": Schema.read,
    "map": read_map,
    "recipe": read_recipe,
    "request": lambda path: Request.read(path, PEOPLE),
}
PYTHON = re.compile(r"\b(dict|str|int|None|tuple|Decimal|Fraction|bool|float|NoneType|object|class|Error|Text)\b")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that tests also stand in, so that lines name files shortly."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refuse(form: str, written: str | bytes) -> SudareError:
    """Write a file, read it, and give the error; it is one clean line in both languages."""
    path = Path(f"{form}.toml")
    path.write_bytes(written.encode() if isinstance(written, str) else written)
    with pytest.raises(SudareError) as caught:
        READERS[form](path)
    check_line(caught.value, form)
    return caught.value


def check_line(error: SudareError, form: str) -> None:
    english, japanese = error.render("en"), error.render("ja")

    assert isinstance(error, SchemaError if form in ("schema", "map") else ParameterError)
    assert english.startswith(f"{form}.toml, line ")
    assert "行目" in japanese
    assert not any("\n" in line or PYTHON.search(line) for line in (english, japanese))
    assert untranslated(error.text) == []


def untranslated(line: Text) -> list[str]:
    """The templates inside a text that have no Japanese; one without words needs none."""
    inside = [value for value in line.values.values() if isinstance(value, Text | SudareError)]
    texts = [value if isinstance(value, Text) else value.text for value in inside]
    has_words = re.search(r"[A-Za-z]{2}", re.sub(r"\{\w*\}", "", line.template)) is not None
    own = [line.template] if has_words and line.template not in languages()["ja"].texts else []
    return own + [template for part in texts for template in untranslated(part)]


@pytest.mark.parametrize("form", VALID)
def test_the_valid_files_of_this_page_are_read(folder: Path, form: str) -> None:
    Path(f"{form}.toml").write_text(VALID[form])

    READERS[form](Path(f"{form}.toml"))

    assert find_mistakes(f"{form}.toml", FORMS[form]()) == ()


# --- mistakes that make a file no TOML: added as a last line, and what is told of it ----------------------------------

SYNTAX = {
    "a text without quotes": ("extra = category", 'put the text in quotes: extra = "category"'),
    "a Japanese text without quotes": ("extra = 年齢", 'put the text in quotes: extra = "年齢"'),
    "a text without quotes in a list": ("extra = [abc, d]", 'put the text in quotes: "abc"'),
    "a colon": ('kind: "category"', "write = instead of : after the key: kind = ..."),
    "no equals sign": ('kind "category"', "kind has no = and no value; write it like: kind = ..."),
    "a lone key": ("kind", "kind has no = and no value; write it like: kind = ..."),
    "no value": ("extra =", "the value after extra = is missing"),
    "no key": ("= 5", "the key before = is missing; write key = value"),
    "two equals signs": ("extra == 5", "write one = between a key and its value: extra = ..."),
    "an open quote": ('extra = "cat', 'the text that begins here has no closing "'),
    "an open triple quote": ('extra = """cat', 'the text that begins here has no closing """'),
    "curly quotes": ("extra = “cat”", '“ is a full-width character; write " instead'),
    "corner brackets": ("extra = 「cat」", '「 is a full-width character; write " instead'),
    "a full-width blank": ("extra\u3000= 5", "there is a full-width space here; type an ordinary space"),
    "a full-width equals sign": ("extra ＝ 5", "＝ is a full-width character; write = instead"),
    "full-width digits": ("extra = １２.５", "１２.５ is written in full width; write 12.5"),
    "a full-width header": ("［extra］", "［ is a full-width character; write [ instead"),
    "a full-width comma": ('extra = ["a"、"b"]', "、 is a full-width character; write , instead"),
    "an invisible character": ("\u200bextra = 5", "this line holds an invisible character (U+200B); remove it"),
    "a control character": ('extra = "a\x07b"', "this line holds an invisible character (U+0007); remove it"),
    "a path of Windows": ('extra = "C:\\Users\\me"', "use single quotes: 'C:\\Users\\me'"),
    "a path that ends in a backslash": ('extra = "C:\\data\\"', "use single quotes: 'C:\\data\\'"),
    "a leading zero": ("extra = 05", 'a number does not begin with 0; write 5, or "05" for a code'),
    "no digit before the point": ("extra = .5", ".5 is not a number; did you mean 0.5?"),
    "a percentage": ("extra = 5%", "5% is not a number; write a share between 0 and 1, such as 0.05"),
    "a thousands comma": ("extra = 1,000", "write numbers without commas: 1000"),
    "a bare fraction": ("extra = 1/2", 'put a fraction in quotes: "1/2"'),
    "a number with a unit": ("extra = 10m", '10m is not a number; put a text in quotes: "10m"'),
    "an endless number": (f"extra = {'9' * 5000}", "a number in this line has too many digits; shorten it"),
    "an endless exponent": ("extra = 1e99999999999999999999", "a number in this line has too many digits; shorten it"),
    "a day with slashes": ("extra = 2024/01/31", '2024/01/31 is not a day; write it like: "2024-01-31"'),
    "a day that is none": ("extra = 2024-02-31", '2024-02-31 is not a day; write it like: "2024-01-31"'),
    "True with a capital": ("extra = True", "True is not a value; did you mean true?"),
    "yes": ("extra = yes", "yes is not a value; did you mean true?"),
    "null": ("extra = null", "null is not a value; leave the key out, or put a text in quotes"),
    "an open list": ('extra = ["a", "b"', "the list of extra has no closing ]"),
    "an open list before a key": ('extra = ["a",\n"b",\nmore = 1', "the list of extra has no closing ]"),
    "an open list before a table": ('extra = ["a",\n[more]', "the list of extra has no closing ]"),
    "a list without comma": ('extra = ["a" "b"]', 'a comma is missing before "b"]'),
    "a list with two commas": ("extra = [1,, 2]", "an entry of the list of extra is missing; remove the comma"),
    "open braces": ("extra = { start = 0, stop = 1", "the braces of extra must open and close on one line"),
    "a comma before a brace": ("extra = { start = 0, }", "a comma precedes the closing brace; remove it"),
    "braces without comma": ("extra = { start = 0 stop = 1 }", "a comma is missing before stop = 1 }"),
    "a bracket for a brace": ("extra = { start = 0 ]", "the table of extra has no closing brace"),
    "a key in Japanese": ('年齢 = ["a"]', '0-9, _ and - in quotes: "年齢" = ...'),
    "a key with a blank": ("my item = 5", '0-9, _ and - in quotes: "my item" = ...'),
    "an open header": ("[extra", "a table begins with its name in brackets, on a line of its own: "),
    "a comment with slashes": ("// a remark", "a comment begins with #"),
    "a semicolon": ("extra = 5;", "a semicolon follows the value; remove it"),
    "a value behind a value": ("extra = 5 metres", "metres follows the value; remove it, or move it to a line"),
    "a quote in quotes": ('extra = "it"s"', 's" follows the closing quote; write a quote inside a text as \\"'),
    "keys behind a header": ("[extra] a = 1", "a = 1 follows the name of a table; move it to a line of its own"),
    "a key twice": ("extra = 1\nextra = 2", "extra was written before, in line {line}; keep one of the two"),
    "no sense at all": ("@!?", "@!? cannot be understood here; write key = value"),
    "a very long key": (f"{'a.' * 100}a = 1", "a key has more than 40 parts between dots; write key = value"),
    "deep brackets": (f"extra = {'[' * 100_000}", "too many brackets are open at once; close each one"),
    "deep braces": (f"extra = {'{a=' * 100_000}", "too many brackets are open at once; close each one"),
}


@pytest.mark.parametrize("form", VALID)
@pytest.mark.parametrize("mistake", SYNTAX)
def test_what_is_not_toml_is_told_with_line_and_what_to_write(folder: Path, form: str, mistake: str) -> None:
    written, answer = SYNTAX[mistake]
    line = VALID[form].count("\n") + 1
    error = refuse(form, f"{VALID[form]}{written}\n").render("en")
    told = line if answer.endswith("has no closing ]") else line + written.count("\n")

    assert re.match(rf"{form}\.toml, line {told}(, column \d+)?: ", error), error
    assert answer.format(line=line) in error if "{line}" in answer else answer in error


# --- mistakes against the form: in every file, what is changed, the line that is told, and what it says ---------------

Change = tuple[str, str, int, str]  # what is replaced, by what, the line, a part of the answer
WRONG: dict[str, dict[str, Change]] = {
    "a misspelt key": {
        "schema": ("max_rows", "max_row", 8, "[unit]: unknown key max_row; did you mean max_rows? allowed are kind, column"),
        "map": ("columns", "colums", 4, "[grid]: unknown key colums; did you mean columns? allowed are kind, rows"),
        "recipe": ("epsilon", "epsilom", 14, "[[release]] records: unknown key epsilom; did you mean epsilon?"),
        "request": ("age = 1", "aeg = 1", 6, "[[option]] #1: there is no attribute aeg; did you mean age? the schema has age, sex"),
    },
    "a key with a hyphen": {
        "schema": ("max_rows", "max-rows", 8, "unknown key max-rows; did you mean max_rows?"),
        "map": ("cell_width_metres", "cell-width-metres", 6, "unknown key cell-width-metres; did you mean cell_width_metres?"),
        "recipe": ("report", "Report", 19, "unknown key Report; did you mean report?"),
        "request": ("k = 5", "K = 5", 3, "unknown key K; did you mean k?"),
    },
    "a full-width key in quotes": {
        "schema": ("max_rows", '"ｍａｘ＿ｒｏｗｓ"', 8, "unknown key ｍａｘ＿ｒｏｗｓ; did you mean max_rows?"),
        "map": ("rows", '"ｒｏｗｓ"', 3, "unknown key ｒｏｗｓ; did you mean rows?"),
        "recipe": ("epsilon", '"ｅｐｓｉｌｏｎ"', 14, "unknown key ｅｐｓｉｌｏｎ; did you mean epsilon?"),
        "request": ("k = 5", '"ｋ" = 5', 3, "unknown key ｋ; did you mean k?"),
    },
    "an unknown key": {
        "schema": ("max_rows", "colour", 8, "unknown key colour; allowed are kind, column, max_rows"),
        "map": ("rows = 15", "rows = 15\ncolour = 1", 4, "unknown key colour; allowed are kind, rows, columns"),
        "recipe": ("report = true", "colour = true", 19, "unknown key colour; allowed are name, publish, report"),
        "request": ("age = 1", "colour = 1", 6, "there is no attribute colour; the schema has age, sex"),
    },
    "a missing key": {
        "schema": ("schema = 1\n", "", 1, "[sudare]: schema is missing; write it like: schema = 1"),
        "map": ("rows = 15\n", "", 1, "[grid]: rows is missing; write it like: rows = 15"),
        "recipe": ('out = "releases"\n', "", 1, '[recipe]: out is missing; write it like: out = "releases"'),
    },
    "a missing choice": {
        "schema": ('kind = "number"\n', "", 10, 'kind is missing; it must be one of "category", "ordered", "number"'),
        "map": ('kind = "plane"\n', "", 1, 'kind is missing; it must be one of "plane", "mesh", "h3", "graph", like: kind = "plane"'),
        "recipe": ('publish = "microdata"\n', "", 11, 'publish is missing; it must be one of "microdata", "table"'),
    },
    "a misspelt choice": {
        "schema": ('"number"', '"nummer"', 12, 'kind ("nummer") must be one of "category", "ordered", "number", "date", "mesh"; did you mean "number"?'),
        "map": ('"plane"', '"plain"', 2, 'kind ("plain") must be one of "plane", "mesh", "h3", "graph"; did you mean "plane"?'),
        "recipe": ('"microdata"', '"micro-data"', 13, 'publish ("micro-data") must be one of "microdata", "table", "view", "kanon", "location"; did you mean "microdata"?'),
        "request": ("age = 1", 'age = "[0,11)"', 6, "no level of age has the label [0,11); did you mean [0,"),
    },
    "a number in quotes": {
        "schema": ("max_rows = 5", 'max_rows = "5"', 8, 'max_rows ("5") must be a whole number of at least 1; did you mean 5?'),
        "map": ("rows = 15", 'rows = "15"', 3, 'rows ("15") must be a whole number of at least 1; did you mean 15?'),
        "recipe": ("version = 1", 'version = "1"', 2, 'version ("1") must be 1'),
        "request": ("k = 5", 'k = "5"', 3, 'k ("5") must be a whole number of at least 2; did you mean 5?'),
    },
    "a number without quotes": {
        "schema": ('"members"', "2024", 3, 'name (2024) must be a text in quotes that is not empty; did you mean "2024"?'),
        "map": ('"all"', "5", 7, 'inputs (5) must be one of "reportable", "all"; write it like: inputs = "all"'),
        "recipe": ('"releases"', "5", 5, 'out (5) must be the name of a file in quotes, with / between folders; write it like: out = "releases"'),
        "request": ("age = 1", "age = 2024-01-31", 6, "age (2024-01-31) must be a level (a whole number), a label of that level in quotes"),
    },
    "a truth value in quotes": {
        "schema": ("missing = true", 'missing = "true"', 14, 'missing ("true") must be true or false, without quotes, or a list'),
        "recipe": ("report = true", 'report = "true"', 19, 'report ("true") must be true or false, without quotes; did you mean true?'),
    },
    "a number out of range": {
        "schema": ("max_rows = 5", "max_rows = 0", 8, "max_rows (0) must be a whole number of at least 1; write it like: max_rows = 5"),
        "map": ("115.6", "0", 5, "cell_height_metres (0) must be a number between 1/1000 and 1000000"),
        "recipe": ('"1/2"', '"2000"', 14, 'epsilon ("2000") must be a number between 1/1000000 and 1000, such as 1/2'),
        "request": ("k = 5", "k = 1", 3, "k (1) must be a whole number of at least 2; write it like: k = 5"),
    },
    "a point where a whole number stands": {
        "schema": ("max_rows = 5", "max_rows = 5.0", 8, "max_rows (5.0) must be a whole number of at least 1"),
        "map": ("rows = 15", "rows = 15.5", 3, "rows (15.5) must be a whole number of at least 1"),
        "recipe": ("version = 1", "version = 1.5", 2, "version (1.5) must be 1"),
        "request": ("k = 5", "k = 5.5", 3, "k (5.5) must be a whole number of at least 2"),
    },
    "no number at all": {
        "schema": ("width = 5", "width = inf", 13, "bins.width (inf) must be a number without quotes, such as 5 or 0.5"),
        "map": ("141.5", "nan", 6, "cell_width_metres (nan) must be a number between 1/1000 and 1000000"),
        "recipe": ('"1/2"', '"half"', 14, 'epsilon ("half") must be a number between 1/1000000 and 1000'),
        "request": ("k = 5", "k = inf", 3, "k (inf) must be a whole number of at least 2"),
    },
    "a list where one value stands": {
        "schema": ('column = "customer_id"', 'column = ["customer_id"]', 7, 'column (["customer_id"]) must be a text in quotes'),
        "map": ("rows = 15", "rows = [15]", 3, "rows ([15]) must be a whole number of at least 1"),
        "recipe": ('"1/2"', '["1/2"]', 14, 'epsilon (["1/2"]) must be a number between 1/1000000 and 1000'),
        "request": ("k = 5", "k = [5]", 3, "k ([5]) must be a whole number of at least 2"),
    },
    "one value where a list stands": {
        "schema": ('item = ["h2"]', 'item = "h2"', 27, 'item ("h2") must be a list in [ ], each entry a text in quotes; did you mean ["h2"]?'),
        "recipe": ('"age",\n  "sex",\n]', "5]", 16, 'by, entry 1 (5) must be one line of text in quotes; did you mean "5"?'),
        "request": ('  ["F"],\n', '  "F",\n', 8, 'sex, entry 1 ("F") must be a list in [ ], each entry a text in quotes; did you mean ["F"]?'),
    },
    "a wrong entry of a list over several lines": {
        "schema": ('  "h2",', "  2,", 21, 'values, entry 2 (2) must be a text in quotes; did you mean "2"?'),
        "request": ('  ["M"],', "  [true],", 9, "sex, entry 2.1 (true) must be a text in quotes"),
        "recipe": ('  "sex",', "  5,", 17, 'by, entry 2 (5) must be one line of text in quotes; did you mean "5"?'),
    },
    "a table where a value stands": {
        "schema": ("max_rows = 5", "max_rows = { most = 5 }", 8, "max_rows ({...}) must be a whole number of at least 1"),
        "map": ("rows = 15", "rows = { most = 15 }", 3, "rows ({...}) must be a whole number of at least 1"),
        "recipe": ('epsilon = "1/2"', "epsilon.value = 1", 14, "epsilon ({...}) must be a number between"),
        "request": ("k = 5", "k = { least = 5 }", 3, "k ({...}) must be a whole number of at least 2"),
    },
    "a day where a number stands": {
        "schema": ("max_rows = 5", "max_rows = 2024-01-31", 8, "max_rows (2024-01-31) must be a whole number of at least 1"),
        "map": ("rows = 15", "rows = 2024-01-31", 3, "rows (2024-01-31) must be a whole number of at least 1"),
        "recipe": ('"1/2"', "10:30:00", 14, "epsilon (10:30:00) must be a number between"),
        "request": ("k = 5", "k = 2024-01-31", 3, "k (2024-01-31) must be a whole number of at least 2"),
    },
    "an empty text": {
        "schema": ('column = "customer_id"', 'column = ""', 7, 'column ("") must be a text in quotes that is not empty; write it like: column = "customer_id"'),
        "map": ('inputs = "all"', 'weights = ""', 7, 'weights ("") must be the name of a file in quotes'),
        "recipe": ('"records"', '""', 12, 'name ("") must be the name of a directory'),
        "request": ("age = 1", 'age = ""', 6, "no level of age has the label"),
    },
    "a path with a tab": {
        "schema": ('values = [\n  "h1",\n  "h2",\n]', r'values_file = "C:\temp"', 19, r'values_file ("C:\u0009emp") must be the name of a file in quotes, with / between folders'),
        "map": ('inputs = "all"', r'weights = "C:\temp"', 7, r'weights ("C:\u0009emp") must be the name of a file in quotes, with /'),
        "recipe": ('"members.csv"', r'"C:\temp"', 3, r'source ("C:\u0009emp") must be the name of a file in quotes, with /'),
    },
    "a misspelt table": {
        "schema": ("[unit]", "[units]", 5, "unknown table units; did you mean [unit]? allowed are [sudare], [unit], [[attribute]]"),
        "map": ("[grid]", "[gird]", 1, "unknown table gird; did you mean [grid]? allowed are [grid]"),
        "recipe": ("[ledger]", "[leger]", 7, "unknown table leger; did you mean [ledger]? allowed are [recipe], [ledger], [[release]]"),
        "request": ("[[option]]", "[[options]]", 5, "unknown table options; did you mean [[option]]? allowed are [request], [[option]]"),
    },
    "an unknown table": {
        "schema": ("[unit]", "[colours]", 5, "unknown table colours; allowed are [sudare], [unit], [[attribute]], [[impossible]]"),
        "map": ("[grid]", "[colours]\nx = 1\n[grid]", 1, "unknown table colours; allowed are [grid]"),
        "recipe": ("[ledger]", "[colours]", 7, "unknown table colours; allowed are [recipe], [ledger], [[release]]"),
        "request": ("[[option]]", "[colours]\n[[option]]", 5, "unknown table colours; allowed are [request], [[option]]"),
    },
    "single brackets": {
        "schema": ("[[impossible]]", "[impossible]", 25, "write [[impossible]], in double brackets, before each of them"),
        "recipe": ("[[release]]", "[release]", 11, "write [[release]], in double brackets, before each of them"),
        "request": ("[[option]]", "[option]", 5, "write [[option]], in double brackets, before each of them"),
    },
    "double brackets": {
        "schema": ("[unit]", "[[unit]]", 5, "there is one [unit] only; write it once, in single brackets"),
        "map": ("[grid]", "[[grid]]", 1, "there is one [grid] only; write it once, in single brackets"),
        "recipe": ("[ledger]", "[[ledger]]", 7, "there is one [ledger] only; write it once, in single brackets"),
        "request": ("[request]", "[[request]]", 1, "there is one [request] only; write it once, in single brackets"),
    },
    "single brackets twice": {
        "schema": ("[[attribute]]", "[attribute]", 16, "write [[attribute]], in double brackets, before each of them"),
        "recipe": ("[[release]]", "[release]\n[release]", 12, "write [[release]], in double brackets, before each of them"),
        "request": ("[[option]]", "[option]\n[option]", 6, "write [[option]], in double brackets, before each of them"),
    },
    "a table twice": {
        "schema": ("[unit]", "[sudare]", 5, "[sudare] was written before, in line 1; put all its keys there"),
        "map": ("rows", "[grid]\nrows", 3, "[grid] was written before, in line 1; put all its keys there"),
        "recipe": ("[ledger]", "[recipe]", 7, "[recipe] was written before, in line 1; put all its keys there"),
        "request": ("[[option]]", "[request]", 5, "[request] was written before, in line 1; put all its keys there"),
    },
    "a key twice in a table": {
        "schema": ("max_rows = 5", 'kind = "row"', 8, "kind was written before, in line 6; keep one of the two"),
        "map": ("columns", "rows", 4, "rows was written before, in line 3; keep one of the two"),
        "recipe": ("budget", "file", 9, "file was written before, in line 8; keep one of the two"),
        "request": ("age = 1", "age = 1\nage = 2", 7, "age was written before, in line 6; keep one of the two"),
    },
    "keys before any table": {
        "schema": ("[sudare]\n", "", 1, "schema is written before the first table; move it under [sudare]"),
        "map": ("[grid]\n", "", 1, "kind is written before the first table; move it under [grid]"),
        "recipe": ("[recipe]\n", "", 1, "version is written before the first table; move it under [recipe]"),
        "request": ("[request]\n", "", 1, "name is written before the first table; move it under [request]"),
    },
    "a value for a table": {
        "schema": ('[sudare]\nschema = 1\nname = "members"', "sudare = 1", 1, "sudare (1) must be a table; begin it with the line [sudare]"),
        "map": (VALID["map"], 'grid = "plane"\n', 1, 'grid ("plane") must be a table; begin it with the line [grid]'),
        "recipe": (VALID["recipe"], "recipe = 5\n", 1, "recipe (5) must be a table; begin it with the line [recipe]"),
        "request": ('[request]\nname = "commuters"\nk = 5', "request = 5", 1, "request (5) must be a table; begin it with the line [request]"),
    },
    "a missing table": {
        "schema": ('[sudare]\nschema = 1\nname = "members"\n', "", 1, "[sudare] is missing; add it, with: [sudare], schema = 1"),
        "map": (VALID["map"], "# nothing\n", 1, "[grid] is missing; add it, with: [grid], kind = "),
        "recipe": (VALID["recipe"][VALID["recipe"].index("[[release]]") :], "", 1, '[[release]] is missing; add it, with: [[release]], name = "records", publish = "microdata"'),
        "request": (VALID["request"][VALID["request"].index("[[option]]") :], "", 1, "[[option]] is missing; add it, with: [[option]], age = 1"),
    },
    "a key of another kind": {
        "schema": ("missing = true", "level = 3", 14, 'level goes with kind = "mesh" only; here allowed are name, kind'),
        "map": ("inputs", "resolution", 7, 'resolution goes with kind = "h3" only; here allowed are kind, rows'),
        "recipe": ("report = true", 'focus = "cells"', 19, 'focus goes with publish = "table" only; here allowed are name, publish'),
    },
    "a key of another table": {
        "schema": ("missing = true", "width = 5", 14, "width belongs inside bins, like: bins = { start = 0, stop = 100, width = 5 }"),
        "recipe": ('budget = "2"', 'publish = "table"', 9, "publish belongs in [[release]]; here allowed are file, budget, rho, delta, neighbours, name"),
        "request": ("k = 5", "k = 5\nage = 1", 4, "unknown key age; allowed are name, k"),
    },
    "a misspelt key in braces": {
        "schema": ("width = 5", "widht = 5", 13, "unknown key bins.widht; did you mean width? allowed are start, stop, width"),
    },
    "keys that exclude each other": {
        "schema": ("missing = true", "edges = [0, 10]", 14, "bins and edges exclude each other; give only one of bins, edges"),
        "map": ('inputs = "all"', 'land = "a.geojson"\nweights = "b.csv"', 8, "land and weights exclude each other; give only one of weights, land"),
        "recipe": ("report = true", 'algorithm = "tree"\nmethod = "tree"', 20, "method is an old name of algorithm; write algorithm alone"),
        "request": ("[[option]]", "[[wish]]\nage = 1\n[[option]]", 5, "wish is an old name of option; write option alone"),
    },
    "another version": {
        "schema": ("schema = 1", "schema = 2", 2, "schema (2) must be 1; update sudare, or write the file in the form of this version"),
        "recipe": ("version = 1", "version = 2", 2, "version (2) must be 1; update sudare, or write the file in the form of this version"),
    },
    "a name twice": {
        "schema": ('"item"', '"age"', 17, "[[attribute]] age: attribute age is declared twice; names must differ"),
        "recipe": ("report = true\n", 'report = true\n[[release]]\nname = "Records"\npublish = "table"\nepsilon = 1\n', 21, "[[release]] Records: two releases are called Records; give each its own name"),
    },
    "a file that is not there": {
        "schema": ('values = [\n  "h1",\n  "h2",\n]', 'values_file = "none.txt"', 19, "none.txt: cannot be read (there is no such file)"),
        "map": ('inputs = "all"', 'weights = "none.csv"', 7, "none.csv: cannot be read (there is no such file); check the path"),
    },
    "a file that is a directory": {
        "schema": ('values = [\n  "h1",\n  "h2",\n]', 'values_file = "."', 19, "is a directory; give the name of a file in it"),
        "map": ('inputs = "all"', 'weights = "."', 7, "is a directory; give the name of a file in it"),
    },
    "facts that do not fit": {
        "schema": ("width = 5", "width = 7", 13, "width (7) does not reach stop (100) exactly from start (0)"),
        "map": ("rows = 15", "rows = 150000000", 1, "a map of 2250000000 cells must have at most 67108864"),
        "request": ("age = 1", "age = 9", 6, "level (9)"),
    },
    "a list of values that is empty": {
        "schema": ('[\n  "h1",\n  "h2",\n]', "[]", 19, "values are empty; list at least one"),
        "recipe": ('[\n  "age",\n  "sex",\n]', "[]", 15, 'by ([]) must be a list of names in quotes that is not empty; write it like: by = ["age", "sex"]'),
        "request": ('[\n  ["F"],\n  ["M"],\n]', "[]", 7, "sex ([]) must be a level"),
    },
}  # fmt: skip
CASES = [(mistake, form) for mistake, files in WRONG.items() for form in files]


@pytest.mark.parametrize(("mistake", "form"), CASES)
def test_what_is_against_the_form_is_told_with_line_key_and_what_to_write(
    folder: Path, form: str, mistake: str
) -> None:
    old, new, line, answer = WRONG[mistake][form]
    assert old in VALID[form]
    error = refuse(form, VALID[form].replace(old, new)).render("en")

    assert re.match(rf"{form}\.toml, line {line}(, column \d+)?: ", error), error
    assert answer in error


def test_every_mistake_that_makes_sense_is_tried_in_all_four_forms() -> None:
    in_all = [mistake for mistake, files in WRONG.items() if set(files) == set(VALID)]

    assert len(SYNTAX) + len(in_all) >= 70
    assert len(SYNTAX) + len(WRONG) >= 90


@pytest.mark.parametrize("form", VALID)
def test_all_mistakes_are_listed_in_the_order_of_the_file(folder: Path, form: str) -> None:
    changes = [WRONG[mistake][form] for mistake in ("a misspelt table", "a number out of range", "an unknown key")]
    written = VALID[form]
    for old, new, _, _ in sorted(changes, key=lambda change: change[2]):
        written = written.replace(old, new, 1)
    Path(f"{form}.toml").write_text(written)
    lines = [mistake.line for mistake in find_mistakes(f"{form}.toml", FORMS[form]())]

    assert lines == sorted(lines)
    assert len(lines) >= 1
    assert refuse(form, written).text.values["line"] == lines[0]


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", VALID)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp932", "utf-16", "utf-16-le", "euc-jp"])
def test_the_encodings_of_japanese_offices_are_read_and_others_refused(folder: Path, form: str, encoding: str) -> None:
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    path = Path(f"{form}.toml")
    path.write_bytes(mark + f"# 年齢\n{VALID[form]}".replace("\n", "\r\n").encode(encoding))
    if encoding == "euc-jp":
        with pytest.raises(SudareError, match="neither UTF-8 nor Shift_JIS"):
            READERS[form](path)
        return

    READERS[form](path)


def make_nothing(path: Path) -> None:
    """A file that is not there."""


def make_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate((32 << 20) + 1)


STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (make_nothing, "cannot be read (there is no such file); check the path"),
    "a directory": (Path.mkdir, "is a directory; give the name of a file in it"),
    "a pipe": (os.mkfifo, "is a pipe or a device; save its content in an ordinary file"),
    "a device": (make_zeros, "is a pipe or a device; save its content in an ordinary file"),
    "too much": (make_huge, "is larger than 32 MiB; give the right file"),
    "zeros": (lambda path: path.write_bytes(bytes(100)), "holds bytes that are no text; save it as UTF-8"),
    "a loop": (lambda path: path.symlink_to(path.name), "cannot be read (its links lead in a circle)"),
}


@pytest.mark.parametrize("form", VALID)
@pytest.mark.parametrize("name", STRANGE)
def test_what_is_no_ordinary_text_file_is_refused_at_once(folder: Path, form: str, name: str) -> None:
    make, answer = STRANGE[name]
    path = Path(f"{form}.toml")
    make(path)
    with pytest.raises(SudareError) as caught:
        READERS[form](path)

    assert caught.value.render("en") == f"{form}.toml: {answer}" or answer in caught.value.render("en")
    assert caught.value.render("en").startswith(f"{form}.toml: ")
    assert untranslated(caught.value.text) == []


# --- whatever is written, the answer is a file that is read or one clean line -----------------------------------------

MARKS = st.sampled_from(
    [*"\"'[]{}=,.#\n\\ \t1a:-+_日　“％", '"""', "'''", "[[", "]]", "\n[a]\n", " = 1\n", "true", "1e9", "\r\n"]
)
VALUES = st.sampled_from(
    ["5", "-1", "1.5", '"x"', "true", "[]", '["a"]', "[[1]]", "{}", "{ a = 1 }", "inf", "2024-01-31", '""']
)


@st.composite
def changed(draw: st.DrawFn, written: str) -> str:
    """A valid file after a few slips: characters lost or added, lines doubled or lost, values of another kind."""
    for _ in range(draw(st.integers(1, 3))):
        lines = written.split("\n")
        number = draw(st.integers(0, len(lines) - 1))
        slip = draw(st.sampled_from(["lose", "insert", "double", "drop", "swap", "value", "key"]))
        at = draw(st.integers(0, max(len(written) - 1, 0)))
        if slip == "lose":
            written = written[:at] + written[at + draw(st.integers(1, 4)) :]
        elif slip == "insert":
            written = written[:at] + draw(MARKS) + written[at:]
        elif slip == "double":
            written = "\n".join([*lines[:number], lines[number], *lines[number:]])
        elif slip == "drop":
            written = "\n".join([*lines[:number], *lines[number + 1 :]])
        elif slip == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[number], lines[other] = lines[other], lines[number]
            written = "\n".join(lines)
        elif slip == "value":
            lines[number] = re.sub(r"=.*", f"= {draw(VALUES)}", lines[number])
            written = "\n".join(lines)
        else:
            lines[number] = re.sub(
                r"^\w+", draw(st.sampled_from(["name", "kind", "k", "x", "年", "level"])), lines[number]
            )
            written = "\n".join(lines)
    return written


@pytest.mark.parametrize("form", VALID)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_with_slips_is_read_or_refused_in_one_clean_line(folder: Path, form: str, data: st.DataObject) -> None:
    written = data.draw(changed(VALID[form]))
    path = Path(f"{form}.toml")
    path.write_bytes(written.encode())
    try:
        READERS[form](path)
    except SudareError as error:
        check_line(error, form)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_places_are_those_of_everything_that_tomllib_reads(data: st.DataObject) -> None:
    written = data.draw(changed(data.draw(st.sampled_from(sorted(VALID.values())))))
    try:
        expected = tomllib.loads(written.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError:
        with pytest.raises(SyntaxStop):
            parse(written)
        return
    _, places = parse(written)

    assert set(places.offsets) == set(trails(expected))


def trails(value: Any, before: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*before, key)
        yield from trails(inner, (*before, key))


def test_places_know_dotted_quoted_and_nested_keys() -> None:
    written = 'top.a."b c" = 1\n[x."年"]\nlist = [\n  { k = 1 },\n  [2,\n   3],\n]\n'
    written += '[[many]]\n[[many.inner]]\nz = """\n\n"""\nq = 1\n'
    _, places = parse(written)
    lines = {trail: places.line_of(trail) for trail in places.offsets}

    assert lines[("top", "a", "b c")] == 1
    assert lines[("x", "年", "list", 0, "k")] == 4
    assert lines[("x", "年", "list", 1, 1)] == 6
    assert lines[("many", 0, "inner", 0)] == 9
    assert lines[("many", 0, "inner", 0, "q")] == 13


def test_numbers_of_a_file_are_exact() -> None:
    values, _ = parse("a = 0.10\nb = 1e-30\n")

    assert (str(values["a"]), Fraction(values["b"])) == ("0.10", Fraction(1, 10**30))


# --- kinds ------------------------------------------------------------------------------------------------------------

TAKEN: list[tuple[Kind, object, object]] = [
    (WholeNumber(low=1, high=6), 6, 6),
    (WholeNumber(takes_text=True), "８", 8),
    (ExactNumber(), 0.1, Fraction(1, 10)),
    (ExactNumber(), "１／２", Fraction(1, 2)),
    (PlainNumber(), 5, Fraction(5)),
    (Seconds(), 1, 1.0),
    (Flag(), False, False),
    (ChoiceOf(("a", "b")), "b", "b"),
    (AnyText(may_be_empty=True), "", ""),
    (TextLine(), "年　齢", "年　齢"),
    (FolderName(), "2026 年", "2026 年"),
    (CalendarDay(), "2024/1/5 10:30", date(2024, 1, 5)),
    (ListOf(WholeNumber()), [1, 2], (1, 2)),
    (TextList(), "l=3,disease", ("l=3,disease",)),
    (NameList(), "age, sex", ("age", "sex")),
    (Either((Flag(), ListOf(AnyText()))), ["?"], ("?",)),
]
REFUSED: list[tuple[Kind, object]] = [
    (WholeNumber(), True),
    (WholeNumber(low=1, high=6), 7),
    (WholeNumber(), "5"),
    (ExactNumber(), "1/0"),
    (ExactNumber(low=0, high=1), 2),
    (ExactNumber(), float("nan")),
    (PlainNumber(), "5"),
    (Seconds(), "1"),
    (Flag(), 1),
    (ChoiceOf(("a", "b")), "c"),
    (AnyText(), ""),
    (TextLine(), "a\nb"),
    (TextLine(), "  "),
    (FolderName(), "../a"),
    (CalendarDay(), "2024-02-30"),
    (CalendarDay(), "2024-01-311"),
    (ListOf(WholeNumber(), least=2), [1]),
    (ListOf(WholeNumber(), most=1), [1, 2]),
    (TextList(), []),
    (NameList(), [5]),
    (Either((Flag(), WholeNumber())), "x"),
    (WholeNumber(), None),
    (AnyText(), None),
]


@pytest.mark.parametrize(("kind", "value", "expected"), TAKEN)
def test_a_kind_takes_what_is_of_it(kind: Kind, value: object, expected: object) -> None:
    assert kind.read(value) == expected


@pytest.mark.parametrize(("kind", "value"), REFUSED)
def test_a_kind_refuses_what_is_not_of_it_and_names_what_is(kind: Kind, value: object) -> None:
    with pytest.raises(Unfit) as caught:
        kind.read(value)
    with pytest.raises(ParameterError) as told:
        kind.check("parameter", value)

    assert untranslated(caught.value.kind.describe()) == []
    assert told.value.render("en").startswith("parameter (")


@pytest.mark.parametrize("kind", [kind for kind, _, _ in TAKEN])
def test_a_kind_takes_its_own_example(kind: Kind) -> None:
    written, _ = parse(f"x = {kind.example}")

    kind.read(written["x"])


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        (WholeNumber(low=2), "5", 5),
        (ExactNumber(), "1/2", Fraction(1, 2)),
        (PlainNumber(), "0.5", Fraction(1, 2)),
        (Seconds(), "1.5", 1.5),
        (Flag(), "true", True),
        (ListOf(WholeNumber()), "1, 2", (1, 2)),
        (Either((Flag(), WholeNumber())), "3", 3),
        (NameList(), "a,b", ("a", "b")),
    ],
)
def test_a_kind_parses_the_text_of_a_command_line(kind: Kind, written: str, expected: object) -> None:
    assert kind.parse(written) == expected


# --- what a form writes by itself -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", VALID)
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_a_form_writes_an_example_that_it_reads(folder: Path, form: str, lang: str) -> None:
    path = Path(f"{form}.toml")
    path.write_text(write_example(FORMS[form](), lang=lang), encoding="utf-8")

    assert find_mistakes(path, FORMS[form]()) == ()
    READERS[form](path)


@pytest.mark.parametrize("form", VALID)
def test_every_key_that_is_commented_out_in_an_example_can_be_written(form: str) -> None:
    written = write_example(FORMS[form](), lang="en")
    keys = {name for table in FORMS[form]().tables for name in table.all_keys}

    assert all(re.search(rf"^(# )*{name} = ", written, flags=re.MULTILINE) for name in keys)


@pytest.mark.parametrize("form", VALID)
def test_the_examples_explain_every_key_in_japanese(form: str) -> None:
    tables = FORMS[form]().tables
    keys = [key for table in tables for keys in (table.keys, *_variants(table)) for key in keys.values()]

    assert [key.help.template for key in keys if untranslated(key.help)] == []
    assert all(key.help for key in keys)


def _variants(table: TableForm) -> list[Mapping[str, Key]]:
    return list(table.variants.keys.values()) if table.variants else []


@pytest.mark.parametrize("form", VALID)
def test_a_json_schema_names_every_table_and_key(form: str) -> None:
    described = write_json_schema(FORMS[form](), lang="ja")
    text = json.dumps(described, ensure_ascii=False)

    assert described["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert all(f'"{name}"' in text for table in FORMS[form]().tables for name in (table.name, *table.all_keys))


@pytest.mark.parametrize("form", VALID)
def test_a_json_schema_accepts_valid_files_and_refuses_misspelt_keys(form: str) -> None:
    described = write_json_schema(FORMS[form](), lang="en")
    example = tomllib.loads(write_example(FORMS[form](), lang="en"))
    old, new, _, _ = WRONG["a misspelt table"][form]

    assert fits(described, tomllib.loads(VALID[form]))
    assert fits(described, example)
    assert not fits(described, tomllib.loads(VALID[form].replace(old, new)))
    if form != "request":  # whose keys are names of attributes
        old, new, _, _ = WRONG["a misspelt key"][form]
        assert not fits(described, tomllib.loads(VALID[form].replace(old, new)))


def fits(shape: Any, value: Any) -> bool:
    """Check a value by the words of JSON Schema that the forms use; an unknown word fails."""
    checks: dict[str, Callable[[Any], bool]] = {
        "type": lambda types: any(is_of(value, name) for name in ([types] if isinstance(types, str) else types)),
        "enum": lambda words: value in words,
        "const": lambda word: value == word,
        "minimum": lambda low: not isinstance(value, int | float) or value >= low,
        "maximum": lambda high: not isinstance(value, int | float) or value <= high,
        "minLength": lambda least: not isinstance(value, str) or len(value) >= least,
        "minItems": lambda least: not isinstance(value, list) or len(value) >= least,
        "maxItems": lambda most: not isinstance(value, list) or len(value) <= most,
        "items": lambda entry: not isinstance(value, list) or all(fits(entry, part) for part in value),
        "required": lambda names: not isinstance(value, dict) or set(names) <= set(value),
        "properties": lambda keys: all(fits(keys[name], part) for name, part in inside(value) if name in keys),
        "additionalProperties": lambda other: all(
            other is not False and fits(other, part) for name, part in inside(value) if name not in shape["properties"]
        ),
        "oneOf": lambda shapes: sum(fits(part, value) for part in shapes) == 1,
        "anyOf": lambda shapes: any(fits(part, value) for part in shapes),
        "allOf": lambda shapes: all(fits(part, value) for part in shapes),
        "not": lambda part: not fits(part, value),
    }
    words = {word: rule for word, rule in shape.items() if word not in NOTES}
    return all(checks[word](rule) for word, rule in words.items())


NOTES = {"$schema", "title", "description", "default", "deprecated", "format"}


def is_of(value: Any, name: str) -> bool:
    kinds: dict[str, type | tuple[type, ...]] = {"object": dict, "array": list, "string": (str, date), "boolean": bool}
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, kinds[name])


def inside(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def test_values_that_a_program_put_together_are_read_without_a_file() -> None:
    form = FileForm(name="small", tables=(TableForm(name="head", required=True, keys={"k": Key(kind=WholeNumber())}),))

    assert read_values({"head": {"k": 5}}, form).table("head")["k"] == 5
    with pytest.raises(SchemaError, match=r"^\[head\]: k \(\"x\"\) must be a whole number"):
        read_values({"head": {"k": "x"}}, form)


def test_blame_leads_an_error_to_the_line_of_its_key(folder: Path) -> None:
    Path("map.toml").write_text(VALID["map"])
    table = read_form("map.toml", map_file.FORM).table("grid")
    with pytest.raises(ParameterError) as named, table.blame():
        raise ParameterError("columns ({n}) must be even", n=15)
    with pytest.raises(SchemaError) as other, table.blame(error=SchemaError):
        raise ParameterError("nothing fits")

    assert str(named.value) == "map.toml, line 4: [grid]: columns (15) must be even"
    assert str(other.value) == "map.toml, line 1: [grid]: nothing fits"
