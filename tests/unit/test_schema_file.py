"""Schema files: what they declare, and one clear line for whatever is wrong in them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sudare.errors import HierarchyError, SchemaError
from sudare.schema import DateBins, MeshCells, NumberBins, Schema, Unit, Values
from sudare.schema.file import json_schema
from sudare.text import say

HEAD = '[sudare]\nschema = 1\nname = "members"\n'
AGE = '[[attribute]]\nname = "age"\nkind = "number"\nbins = { start = 0, stop = 100, width = 5 }\n'
Write = Callable[[str], Path]

DESIGN = """
[sudare]
schema = 1
name = "members"

[unit]
kind = "person"
column = "customer_id"
max_rows = 5

[[attribute]]
name = "item"
kind = "category"
values = ["h1", "h2", "h3"]

[[attribute]]
name = "age"
kind = "number"
bins = { start = 0, stop = 100, width = 5 }
missing = true
outside = "refuse"

[[attribute]]
name = "mesh"
kind = "mesh"
level = 4
area = ["5339", "5340"]

[[attribute]]
name = "prefecture"
kind = "category"
role = "quasi"
hierarchy = "prefecture.csv"

[[attribute]]
name = "customer_id"
role = "identifier"

[[impossible]]
age = ["[0,15)"]
item = ["h2", "h3"]
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write people.toml in an empty directory that tests also stand in, so that lines name it shortly."""
    monkeypatch.chdir(tmp_path)

    def written(text: str) -> Path:
        Path("people.toml").write_text(text, encoding="utf-8")
        return Path("people.toml")

    return written


def refusal(path: Path) -> str:
    with pytest.raises(SchemaError) as caught:
        Schema.read(path)
    return str(caught.value)


def attribute(write: Write, keys: str) -> object:
    return Schema.read(write(f'{HEAD}[[attribute]]\nname = "x"\n{keys}')).attribute("x")


# --- what a file declares -----------------------------------------------------------------------------------------


def test_the_file_of_the_design_is_read(write: Write) -> None:
    Path("prefecture.csv").write_bytes("東京都;関東;*\n大阪府;近畿;*\n".encode("cp932"))
    schema = Schema.read(write(DESIGN))

    assert (schema.name, schema.names) == ("members", ("item", "age", "mesh", "prefecture"))
    assert schema.unit == Unit(kind="person", column="customer_id", max_rows=5)
    assert schema.identifiers == ("customer_id",)
    assert schema.attribute("mesh").domain == MeshCells(level=4, area=("5339", "5340"))
    assert (schema.attribute("prefecture").role, schema.attribute("prefecture").height) == ("quasi", 2)
    assert schema.size - schema.possible_size == 3 * 2 * 51200 * 2


def test_the_unit_is_a_row_and_the_name_the_file_where_nothing_is_said(write: Write) -> None:
    schema = Schema.read(write("[sudare]\nschema = 1\n" + AGE))

    assert (schema.unit, schema.name, schema.origin) == (Unit(), "people", "declared")


@pytest.mark.parametrize(
    ("line", "origin"),
    [("inferred = true", "inferred"), ('inferred = "confirmed"', "confirmed"), ("inferred = false", "declared")],
)
def test_the_origin_is_recorded(write: Write, line: str, origin: str) -> None:
    assert Schema.read(write(HEAD + line + "\n" + AGE)).origin == origin


def test_decimals_in_the_file_are_exact(write: Write) -> None:
    found = attribute(write, 'kind = "number"\nbins = { start = 0.1, stop = 0.4, width = 0.1 }')

    assert found.domain == NumberBins((Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(2, 5)))


@pytest.mark.parametrize(
    ("keys", "domain"),
    [
        ('kind = "ordered"\nvalues = ["S", "M"]', Values(("S", "M"), is_ordered=True)),
        ('kind = "number"\nedges = [0, 18, 65.5]', NumberBins((0, 18, "65.5"))),
        (
            'kind = "date"\nedges = ["2024-01-01", "2024-04-01", "2024-12-31"]',
            DateBins(("2024-01-01", "2024-04-01", "2024-12-31")),
        ),
        (
            'kind = "date"\nbins = { start = 2024-01-01, stop = 2024-12-31, width = "3 months" }',
            DateBins.of_width("2024-01-01", "2024-12-31", "3 months"),
        ),
    ],
)
def test_every_kind_is_read(write: Write, keys: str, domain: object) -> None:
    assert attribute(write, keys).domain == domain


@pytest.mark.parametrize(
    ("text", "encoding"), [("東京\n大阪\n", "utf-8"), ("東京\r\n\r\n大阪", "cp932"), ("東京\n大阪", "utf-8-sig")]
)
def test_a_file_of_values_is_read_from_beside_the_schema(write: Write, text: str, encoding: str) -> None:
    Path("values.txt").write_bytes(text.encode(encoding))

    assert attribute(write, 'kind = "category"\nvalues_file = "values.txt"').domain == Values(("東京", "大阪"))


def test_a_file_of_cells_holds_the_only_cells(write: Write) -> None:
    Path("land.txt").write_text("53394612\n53394611\n\n53394611 \n")

    assert attribute(write, 'kind = "mesh"\nlevel = 3\narea_file = "land.txt"').size == 2


@pytest.mark.parametrize(
    ("keys", "sizes"),
    [
        (
            'kind = "number"\nbins = { start = 0, stop = 40, width = 5 }\nhierarchy = { intervals = [10, 20] }',
            [8, 4, 2, 1],
        ),
        ('kind = "ordered"\nvalues = ["a", "b", "c", "d"]\nhierarchy = { groups = [2] }', [4, 2, 1]),
        (
            'kind = "date"\nbins = { start = "2023-01-01", stop = "2024-12-31", width = "1 month" }\n'
            'hierarchy = { dates = ["quarter", "year"] }',
            [24, 8, 2, 1],
        ),
        (
            'kind = "category"\nvalues = ["1000001", "1000002", "1500001"]\n'
            'hierarchy = { masking = "right", characters = 4, steps = 1 }',
            [3, 2, 1],
        ),
        ('kind = "category"\nhierarchy = { builtin = "jp-prefecture" }', [47, 8, 1]),
        ('kind = "category"\nvalues = ["13", "27"]\nhierarchy = { builtin = "jp-prefecture" }', [2, 2, 1]),
    ],
)
def test_every_rule_builds_its_hierarchy(write: Write, keys: str, sizes: list[int]) -> None:
    found = attribute(write, keys)

    assert [found.hierarchy.size(level) for level in range(found.height + 1)] == sizes


def test_values_may_come_from_the_hierarchy_with_missing_and_other_beside_them(write: Write) -> None:
    Path("x.csv").write_text("b;vowelless;*\n?;unknown;*\na;vowel;*\n")
    found = attribute(write, 'kind = "ordered"\nhierarchy = "x.csv"\nmissing = ["?"]\noutside = "other"')

    assert found.domain == Values(("b", "a"), is_ordered=True)
    assert found.hierarchy.labels(found.hierarchy.lift(np.arange(4), 1), 1).tolist() == [
        "vowelless",
        "vowel",
        "(other)",
        "unknown",
    ]
    assert (found.encode("?"), found.encode("z")) == (3, 2)


def test_the_age_file_of_arx_fits_one_wide_bins(write: Write, shared: Path) -> None:
    path = shared / "data" / "adult-arx" / "adult_hierarchy_age.csv"
    if not path.is_file():
        pytest.skip("no adult-arx folder among the public data sets")
    Path("age.csv").write_bytes(path.read_bytes())
    keys = 'kind = "number"\nrole = "quasi"\nbins = { start = 1, stop = 101, width = 1 }\nhierarchy = "age.csv"'
    coarse = attribute(write, keys).coarsen(2)

    assert coarse.labels(np.arange(3)).tolist() == ["0-9", "10-19", "20-29"]


def test_marks_of_missing_values_are_read(write: Write) -> None:
    found = attribute(write, 'kind = "category"\nvalues = ["a"]\nmissing = ["?", "NA"]')

    assert (found.missing, found.missing_marks) == (True, ("?", "NA"))


def test_an_identifier_may_keep_its_kind(write: Write) -> None:
    text = HEAD + AGE + '[[attribute]]\nname = "id"\nrole = "identifier"\nkind = "category"\nvalues = ["a"]\n'

    assert Schema.read(write(text)).identifiers == ("id",)


def test_a_file_with_a_byte_order_mark_and_windows_lines_is_read(write: Write) -> None:
    path = write("")
    path.write_bytes(b"\xef\xbb\xbf" + (HEAD + AGE).replace("\n", "\r\n").encode())

    assert Schema.read(path).names == ("age",)


# --- what is wrong in a file --------------------------------------------------------------------------------------

X = '[[attribute]]\nname = "x"\n'

WHOLE = [  # a file, and what its line holds behind the name of the file
    ("[sudare\nschema = 1\n", ", line 1: not valid TOML"),
    (HEAD + 'x = "abc', ", line 4: not valid TOML (Unterminated string); correct this line"),
    ('[sudare]\nschema = 2\nnew = "key"\n' + AGE, ": [sudare] schema (2) must be 1; update sudare"),
    ('[sudare]\nname = "x"\n' + AGE, ": [sudare]: schema is missing; write it like: schema = 1"),
    (AGE, ": table [sudare] is missing; add it"),
    (HEAD, ": table [[attribute]] is missing; add it"),
    (HEAD + '[attribute]\nname = "x"', ": attribute must be a table; write it like: [[attribute]]"),
    (HEAD + AGE + "[units]\n", ": unknown table units; allowed are [sudare], [unit], [[attribute]]"),
    (HEAD + '[[attribute]]\nkind = "category"', ": [[attribute]] #1: name is missing; write it like: name"),
    (HEAD + 'inferred = "yes"\n' + AGE, ": [sudare]: inferred (yes) cannot be used"),
    (HEAD + AGE + AGE, ": attribute age is declared twice; names must differ"),
    (HEAD + X + 'role = "identifier"', ": every attribute is an identifier"),
    (HEAD + '[unit]\nkind = "house"\n' + AGE, ": [unit]: kind (house) must be one of row, person"),
    (HEAD + '[unit]\nkind = "person"\nmax_rows = 0\n' + AGE, ": [unit]: max_rows (0) cannot be used"),
    (HEAD + '[unit]\nkind = "person"\n' + AGE, ": [unit]: a person unit needs the column"),
    (HEAD + '[unit]\nkind = "person"\ncolumn = "age"\n' + AGE, ": the column of persons (age) must not be published"),
    (HEAD + AGE + '[[impossible]]\nsex = ["F"]', ": [[impossible]] #1: there is no attribute sex; the schema has age"),
    (HEAD + AGE + '[[impossible]]\nage = ["[0,13)"]', ": [[impossible]] #1: [0,13) is no value of age"),
    (
        HEAD + AGE + '[[impossible]]\nage = "x"',
        ': [[impossible]] #1: age (x) cannot be used; write it like: age = ["a"',
    ),
    (HEAD + AGE + '[[impossible]]\nage = ["[0,100]"]', ": the impossible combinations leave nothing possible"),
]

ONE = [  # the keys of one attribute, and what its line holds behind the name of the attribute
    ("", 'kind is missing; write it like: kind = "category"'),
    ('kind = "nummer"', "kind (nummer) must be one of category, ordered, number, date, mesh"),
    ("kind = 3", "kind (3) must be one of category, ordered, number, date, mesh"),
    ('role = "identifier"\nvalues = ["a"]', "unknown key values; allowed are name, role"),
    ('kind = "category"\nvalues = [1, 2]', "values (1) cannot be used; write it like: values ="),
    ('kind = "category"\nvalues = []', "values are empty; list at least one"),
    ('kind = "category"\nvalues = ["a", "a"]', "values must differ (a repeated); list each once"),
    ('kind = "category"', "give exactly one of values, values_file, like: values ="),
    ('kind = "category"\nvalues = ["a"]\nvalues_file = "x"', "give exactly one of values, values_file, like: values ="),
    ('kind = "category"\nvalues_file = "none.txt"', "none.txt: cannot be read"),
    ('kind = "category"\nvalues = ["a"]\noutside = "clamp"', 'outside = "clamp" needs bins'),
    ('kind = "number"', "give exactly one of bins, edges"),
    ('kind = "number"\nbins = "x"', "bins (x) cannot be used; write it like: bins = { start = 0,"),
    (
        'kind = "number"\nbins = { start = 0, stop = 9, widht = 1 }',
        "unknown key bins.widht; allowed are width, start, stop",
    ),
    ('kind = "number"\nbins = { start = 0, stop = 9 }', "bins.width is missing; write it like: width = 5"),
    (
        'kind = "number"\nbins = { start = "0", stop = 9, width = 1 }',
        "bins.start (0) cannot be used; write it like: start",
    ),
    ('kind = "number"\nbins = { start = 0, stop = inf, width = 1 }', "bins.stop (Infinity) cannot be used"),
    ('kind = "number"\nbins = { start = 0, stop = 1e400, width = 1 }', "bins.stop (1E+400) cannot be used"),
    (
        'kind = "number"\nbins = { start = 0, stop = 9, width = 5 }',
        "width (5) does not reach stop (9) exactly from start (0)",
    ),
    (
        'kind = "number"\nbins = { start = 0, stop = 9, width = 0 }',
        "bins need start (0) below stop (9) and a width (0)",
    ),
    ('kind = "number"\nedges = [0, 5, 5]', "edges must increase (5 is followed by 5); sort them"),
    (
        'kind = "date"\nedges = ["2024-01-01", "soon"]',
        'edges (soon) cannot be used; write it like: edges = ["2024-01-01"',
    ),
    (
        'kind = "date"\nbins = { start = "2024-01-01", stop = "2024-12-31", width = "1 yr" }',
        "width (1 yr) must be like",
    ),
    ('kind = "mesh"\nlevel = 7\narea = ["5339"]', "level (7) cannot be used; write it like: level = 3  (1-6)"),
    ('kind = "mesh"\nlevel = 3', "give exactly one of area, area_file"),
    ('kind = "mesh"\nlevel = 3\narea = ["533"]', "area (533) must list first-level mesh codes"),
    ('kind = "mesh"\nlevel = 3\narea = ["5339"]\nhierarchy = "x.csv"', "unknown key hierarchy; allowed are name"),
]

AGED = [  # keys added to the attribute age, and what its line holds behind the name of the attribute
    ("mising = true", "unknown key mising; allowed are missing, name,"),
    ('format = "%Y"', "unknown key format"),
    ('role = "id"', "role (id) must be one of quasi, sensitive, plain, identifier"),
    ('outside = "drop"', "outside (drop) must be one of refuse, clamp, other"),
    ("missing = 3", "missing (3) cannot be used; write it like: missing = true"),
    ("missing = []", "missing = [] says nothing"),
    ("hierarchy = 4", "hierarchy (4) cannot be used"),
    ('hierarchy = "none.csv"', "none.csv: cannot be read"),
    ("hierarchy = { interval = [10] }", "unknown key hierarchy.interval; allowed are intervals, groups,"),
    ('hierarchy = { intervals = "x" }', "hierarchy.intervals (x) cannot be used; write it like: intervals = [10, 20]"),
    (
        'hierarchy = { dates = ["months"] }',
        "hierarchy.dates (months) must be one of week, month, quarter, year, decade",
    ),
    ("hierarchy = { intervals = [7] }", "intervals of width 7 would cut a bin"),
    ('hierarchy = { dates = ["month"] }', "a hierarchy by dates does not fit kind number"),
    (
        "hierarchy = { intervals = [10], groups = [2] }",
        "give exactly one of intervals, groups, dates, masking, builtin",
    ),
    ("hierarchy = { groups = [2], steps = 2 }", "characters and steps go with masking only"),
]

REFUSED = [
    *((text, f"people.toml{line}") for text, line in WHOLE),
    *((HEAD + X + keys, f"people.toml: [[attribute]] x: {line}") for keys, line in ONE),
    *((HEAD + AGE + keys, f"people.toml: [[attribute]] age: {line}") for keys, line in AGED),
]


@pytest.mark.parametrize(("text", "line"), REFUSED)
def test_whatever_is_wrong_is_said_in_one_line_with_file_place_and_what_to_do(
    write: Write, text: str, line: str
) -> None:
    told = refusal(write(text))

    assert line in told
    assert "\n" not in told
    assert "pydantic" not in told.lower()
    assert "Input should" not in told


def test_a_hierarchy_file_with_a_hole_is_named_with_the_schema_and_the_attribute(write: Write) -> None:
    Path("x.csv").write_text("a;x;*\nb;;*\n")
    path = write(HEAD + X + 'kind = "category"\nvalues = ["a", "b"]\nhierarchy = "x.csv"')

    with pytest.raises(
        HierarchyError, match=r"people\.toml: \[\[attribute\]\] x: x\.csv, line 2: column 2 \(level 1\) has a hole"
    ):
        Schema.read(path)


def test_a_file_that_is_not_there_or_not_utf_8_is_named(write: Write, tmp_path: Path) -> None:
    path = write("")
    path.write_bytes((HEAD + AGE).replace("age", "年齢").encode("cp932"))

    assert refusal(path).startswith("people.toml: not UTF-8")
    assert refusal(Path("none.toml")).startswith("none.toml: cannot be read")


def test_the_line_is_said_in_japanese_through_and_through_and_the_error_stays_english(write: Write) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.read(write(HEAD + X + 'kind = "category"\nvalues = []'))

    assert say(caught.value.text, lang="ja", **caught.value.values) == (
        "people.toml: [[attribute]] x：値がありません。1 つ以上並べてください"
    )
    assert str(caught.value) == "people.toml: [[attribute]] x: values are empty; list at least one"


def test_the_line_survives_the_way_between_processes(write: Write) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.read(write(HEAD + X + 'kind = "category"\nvalues = []'))

    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# --- for editors --------------------------------------------------------------------------------------------------


def test_the_json_schema_accepts_the_design_and_refuses_an_unknown_key() -> None:
    checker = pytest.importorskip("jsonschema", reason="jsonschema is not installed").Draft202012Validator(
        json_schema()
    )
    import tomllib

    good = tomllib.loads(DESIGN)
    bad = tomllib.loads(DESIGN.replace("max_rows", "most_rows"))

    assert (checker.is_valid(good), checker.is_valid(bad)) == (True, False)


def test_the_json_schema_names_every_kind() -> None:
    text = str(json_schema())

    assert all(f"'{kind}'" in text for kind in ("category", "ordered", "number", "date", "mesh"))
