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
    (
        "[sudare\nschema = 1\n",
        ", line 1, column 1: a table begins with its name in brackets, on a line of its own: [sudare]",
    ),
    (HEAD + 'x = "abc', ', line 4, column 5: the text that begins here has no closing "'),
    (
        '[sudare]\nschema = 2\nnew = "key"\n' + AGE,
        ", line 2: [sudare]: schema (2) must be 1; update sudare, or write the file in the form of this version",
    ),
    ('[sudare]\nname = "x"\n' + AGE, ", line 1: [sudare]: schema is missing; write it like: schema = 1"),
    (AGE, ", line 1: [sudare] is missing; add it, with: [sudare], schema = 1"),
    (HEAD, ', line 1: [[attribute]] is missing; add it, with: [[attribute]], name = "age", kind = "category"'),
    (HEAD + '[attribute]\nname = "x"', ", line 4: write [[attribute]], in double brackets, before each of them"),
    (
        HEAD + AGE + "[units]\n",
        ", line 8: unknown table units; did you mean [unit]? allowed are [sudare], [unit], [[attribute]],",
    ),
    (
        HEAD + '[[attribute]]\nkind = "category"',
        ', line 4: [[attribute]] #1: name is missing; write it like: name = "item"',
    ),
    (
        HEAD + 'inferred = "yes"\n' + AGE,
        ', line 4: [sudare]: inferred ("yes") must be true or false, without quotes, or "confirmed"; did you',
    ),
    (HEAD + AGE + AGE, ", line 9: [[attribute]] age: attribute age is declared twice; names must differ"),
    (
        HEAD + X + 'role = "identifier"',
        ", line 6: [[attribute]] x: every attribute is an identifier; nothing is left to publish. Give one",
    ),
    (
        HEAD + '[unit]\nkind = "house"\n' + AGE,
        ', line 5: [unit]: kind ("house") must be one of "row", "person"; write it like: kind = "row"',
    ),
    (
        HEAD + '[unit]\nkind = "person"\nmax_rows = 0\n' + AGE,
        ", line 6: [unit]: max_rows (0) must be a whole number of at least 1; write it like: max_rows = 5",
    ),
    (
        HEAD + '[unit]\nkind = "person"\n' + AGE,
        ", line 4: [unit]: a person unit needs the column that tells persons apart; set unit column",
    ),
    (
        HEAD + '[unit]\nkind = "person"\ncolumn = "age"\n' + AGE,
        ', line 6: [unit]: the column of persons (age) must not be published; give it role = "identifier" or',
    ),
    (
        HEAD + AGE + '[[impossible]]\nsex = ["F"]',
        ", line 9: [[impossible]] #1: there is no attribute sex; the schema has age",
    ),
    (
        HEAD + AGE + '[[impossible]]\nage = ["[0,13)"]',
        ", line 9: [[impossible]] #1: [0,13) is no value of age, nor made up of some; it has [0,5), [5,10),",
    ),
    (
        HEAD + AGE + '[[impossible]]\nage = "x"',
        ', line 9: [[impossible]] #1: age ("x") must be a list in [ ], each entry a text in quotes; did you',
    ),
    (
        HEAD + AGE + '[[impossible]]\nage = ["[0,100]"]',
        ", line 8: [[impossible]] #1: the impossible combinations leave nothing possible; take one out",
    ),
]

ONE = [  # the keys of one attribute, the line that is told, and what follows the name of the attribute
    ("", 4, 'kind is missing; it must be one of "category", "ordered", "number"'),
    ('kind = "nummer"', 6, 'kind ("nummer") must be one of "category", "ordered", "number", "date",'),
    ("kind = 3", 6, 'kind (3) must be one of "category", "ordered", "number", "date", "mesh";'),
    (
        'role = "identifier"\nvalues = ["a"]',
        7,
        'values goes with kind = "category" / kind = "ordered" only; here allowed',
    ),
    ('kind = "category"\nvalues = [1, 2]', 7, 'values, entry 1 (1) must be a text in quotes; did you mean "1"?'),
    ('kind = "category"\nvalues = []', 7, "values are empty; list at least one"),
    ('kind = "category"\nvalues = ["a", "a"]', 7, "values must differ (a repeated); list each once"),
    ('kind = "category"', 4, 'give exactly one of values, values_file, like: values = ["a", "b"]'),
    (
        'kind = "category"\nvalues = ["a"]\nvalues_file = "x"',
        8,
        "values and values_file exclude each other; give only one of values,",
    ),
    (
        'kind = "category"\nvalues_file = "none.txt"',
        7,
        "none.txt: cannot be read (there is no such file); check the path",
    ),
    (
        'kind = "category"\nvalues = ["a"]\noutside = "clamp"',
        8,
        'outside = "clamp" needs bins (number or date); use "refuse" or "other"',
    ),
    ('kind = "number"', 4, "give exactly one of bins, edges, like: bins = { start = 0, stop = 100,"),
    ('kind = "number"\nbins = "x"', 7, 'bins ("x") must be a table in braces; write it like: bins = { start = 0,'),
    (
        'kind = "number"\nbins = { start = 0, stop = 9, widht = 1 }',
        7,
        "unknown key bins.widht; did you mean width? allowed are start, stop, width",
    ),
    ('kind = "number"\nbins = { start = 0, stop = 9 }', 7, "bins.width is missing; write it like: width = 5"),
    (
        'kind = "number"\nbins = { start = "0", stop = 9, width = 1 }',
        7,
        'bins.start ("0") must be a number without quotes, such as 5 or 0.5; did',
    ),
    (
        'kind = "number"\nbins = { start = 0, stop = inf, width = 1 }',
        7,
        "bins.stop (inf) must be a number without quotes, such as 5 or 0.5; write",
    ),
    (
        'kind = "number"\nbins = { start = 0, stop = 1e400, width = 1 }',
        7,
        "bins.stop (1E+400) must be a number without quotes, such as 5 or 0.5;",
    ),
    (
        'kind = "number"\nbins = { start = 0, stop = 9, width = 5 }',
        7,
        "width (5) does not reach stop (9) exactly from start (0); set stop to 5",
    ),
    (
        'kind = "number"\nbins = { start = 0, stop = 9, width = 0 }',
        7,
        "bins need start (0) below stop (9) and a width (0) above 0",
    ),
    ('kind = "number"\nedges = [0, 5, 5]', 7, "edges must increase (5 is followed by 5); sort them"),
    (
        'kind = "date"\nedges = ["2024-01-01", "soon"]',
        7,
        'edges, entry 2 ("soon") must be a day such as "2024-01-31"; write it',
    ),
    (
        'kind = "date"\nbins = { start = "2024-01-01", stop = "2024-12-31", width = "1 yr" }',
        7,
        'width (1 yr) must be like "1 day", "7 days", "1 month", "3 months" or "1 year"',
    ),
    (
        'kind = "mesh"\nlevel = 7\narea = ["5339"]',
        7,
        "level (7) must be a whole number from 1 to 6; write it like: level = 3",
    ),
    ('kind = "mesh"\nlevel = 3', 4, 'give exactly one of area, area_file, like: area = ["5339", "5340"]'),
    (
        'kind = "mesh"\nlevel = 3\narea = ["533"]',
        8,
        "area (533) must list first-level mesh codes of 4 digits, such as 5339",
    ),
    (
        'kind = "mesh"\nlevel = 3\narea = ["5339"]\nhierarchy = "x.csv"',
        9,
        'hierarchy goes with kind = "category" / kind = "ordered" / kind =',
    ),
]

AGED = [  # keys added to the attribute age, the line that is told, and what follows the name of the attribute
    ("mising = true", 8, "unknown key mising; did you mean missing? allowed are name, kind,"),
    ('format = "%Y"', 8, "format (%Y) must show how the number 1234 or 1234.5 is written, such as 1,234"),
    ('role = "id"', 8, 'role ("id") must be one of "quasi", "sensitive", "plain",'),
    ('outside = "drop"', 8, 'outside ("drop") must be one of "refuse", "clamp", "other"; write it'),
    ("missing = 3", 8, "missing (3) must be true or false, without quotes, or a list in [ ],"),
    ("missing = []", 8, "missing = [] says nothing; write true, false or a list of marks"),
    ("hierarchy = 4", 8, "hierarchy (4) must be the name of a file in quotes, with / between"),
    ('hierarchy = "none.csv"', 8, "none.csv: cannot be read (there is no such file); check the path"),
    ("hierarchy = { interval = [10] }", 8, "unknown key hierarchy.interval; did you mean intervals? allowed are"),
    ('hierarchy = { intervals = "x" }', 8, 'hierarchy.intervals ("x") must be a list in [ ], each entry a number'),
    (
        'hierarchy = { dates = ["months"] }',
        8,
        'hierarchy.dates, entry 1 ("months") must be one of "week", "month",',
    ),
    (
        "hierarchy = { intervals = [7] }",
        8,
        "intervals of width 7 would cut a bin; use a multiple of the bins' own width",
    ),
    ('hierarchy = { dates = ["month"] }', 8, "a hierarchy by dates does not fit kind number; use another rule, or a"),
    (
        "hierarchy = { intervals = [10], groups = [2] }",
        8,
        "intervals and groups exclude each other; give only one of intervals,",
    ),
    ("hierarchy = { groups = [2], steps = 2 }", 8, "characters and steps go with masking only; take them out"),
]

REFUSED = [
    *((text, f"people.toml{line}") for text, line in WHOLE),
    *((HEAD + X + keys, f"people.toml, line {number}: [[attribute]] x: {line}") for keys, number, line in ONE),
    *((HEAD + AGE + keys, f"people.toml, line {number}: [[attribute]] age: {line}") for keys, number, line in AGED),
]


@pytest.mark.parametrize(("text", "line"), REFUSED)
def test_whatever_is_wrong_is_said_in_one_line_with_file_place_and_what_to_do(
    write: Write, text: str, line: str
) -> None:
    told = refusal(write(text))

    assert line in told
    assert "\n" not in told


def test_a_hierarchy_file_with_a_hole_is_named_with_the_schema_and_the_attribute(write: Write) -> None:
    Path("x.csv").write_text("a;x;*\nb;;*\n")
    path = write(HEAD + X + 'kind = "category"\nvalues = ["a", "b"]\nhierarchy = "x.csv"')

    with pytest.raises(
        HierarchyError,
        match=r"people\.toml, line 8: \[\[attribute\]\] x: x\.csv, line 2: column 2 \(level 1\) has a hole",
    ):
        Schema.read(path)


@pytest.mark.parametrize("encoding", ["cp932", "utf-16", "utf-8-sig"])
def test_a_file_in_the_encodings_of_japanese_offices_is_read(write: Write, encoding: str) -> None:
    path = write("")
    path.write_bytes((HEAD + AGE).replace("age", "年齢").encode(encoding))

    assert Schema.read(path).names == ("年齢",)


def test_a_file_that_is_not_there_or_in_another_encoding_is_named(write: Write) -> None:
    path = write("")
    path.write_bytes((HEAD + AGE).replace("age", "年齢").encode("euc-jp"))

    assert refusal(path) == "people.toml: neither UTF-8 nor Shift_JIS (CP932) text; save it as UTF-8"
    assert refusal(Path("none.toml")) == "none.toml: cannot be read (there is no such file); check the path"


def test_the_line_is_said_in_japanese_through_and_through_and_the_error_stays_english(write: Write) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.read(write(HEAD + X + 'kind = "category"\nvalues = []'))

    assert caught.value.render("ja") == (
        "people.toml の 7 行目：[[attribute]] x：値がありません。1 つ以上並べてください"
    )
    assert str(caught.value) == "people.toml, line 7: [[attribute]] x: values are empty; list at least one"


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
