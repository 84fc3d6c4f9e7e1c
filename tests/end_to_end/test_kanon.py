"""k-anonymity through the command line: publish, predict, warn, refuse; on made-up sales and on Adult."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from sudare.demo.data import sales
from tests.end_to_end.conftest import Ran

ADULT = Path(__file__).resolve().parents[3] / "shared" / "data" / "adult-arx"
QUASI = (
    "sex",
    "age",
    "race",
    "marital-status",
    "education",
    "native-country",
    "workclass",
    "occupation",
    "salary-class",
)
Sudare = Callable[..., Ran]

SALES = """\
[sudare]
schema = 1
name = "sales"

[[attribute]]
name = "item"
kind = "category"
role = "sensitive"
values = [{items}]

[[attribute]]
name = "sex"
kind = "category"
role = "quasi"
values = ["M", "F"]
hierarchy = {{ masking = "right" }}

[[attribute]]
name = "age"
kind = "number"
role = "quasi"
bins = {{ start = 20, stop = 70, width = 1 }}
hierarchy = {{ intervals = [5, 10, 20] }}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The built-in sales, 3,000 of them, with ages to the year."""
    rows = sales(items=30, records=3000, seed=7)
    lines = [f"h{item + 1},{'MF'[sex]},{20 + 10 * decade + at % 10}" for at, (item, sex, decade) in enumerate(rows)]
    (tmp_path / "sales.csv").write_text("item,sex,age\n" + "\n".join(lines) + "\n", encoding="utf-8")
    names = ", ".join(f'"h{number + 1}"' for number in range(30))
    (tmp_path / "sales.toml").write_text(SALES.format(items=names), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_LANG", "en")
    return tmp_path


PUBLISH = ("publish", "kanon", "sales.csv", "--schema", "sales.toml", "--k", "40")


def test_sales_are_published_predicted_and_a_second_release_is_warned_of(shop: Path, sudare: Sudare) -> None:
    first = sudare(*PUBLISH, "--out", "one", "--history", "h.jsonl", "--format", "csv")
    second = sudare(*PUBLISH, "--out", "two", "--history", "h.jsonl", "--recoding", "mondrian")
    (shop / "r.toml").write_text("[request]\nk = 40\n[[wish]]\nsex = 0\nage = 1\n[[wish]]\nage = 3\n")
    asked = sudare("predict", "r.toml", "--schema", "sales.toml", "--history", "h.jsonl", "--json")
    granted = sudare(*PUBLISH, "--out", "three", "--history", "h.jsonl", "--request", "r.toml", "--json")
    found = duckdb.sql("SELECT sex, age, COUNT(*) AS n FROM 'one/records.csv' GROUP BY ALL").fetchall()

    assert (first.code, second.code, asked.code, granted.code) == (0, 0, 0, 0)
    assert "3000 records published in one" in first.out
    assert "does not compose" in first.out
    assert "warning" not in first.out
    assert "the history already has releases of this table (1)." in second.out
    assert min(n for _, _, n in found) >= 40
    assert [one["verdict"] for one in json.loads(asked.out)["options"]] == ["holds", "holds"]
    assert json.loads(granted.out)["option"] == 0


def test_a_request_that_cannot_be_granted_is_refused_and_still_learned_from(shop: Path, sudare: Sudare) -> None:
    (shop / "r.toml").write_text("[request]\nk = 1000\n[[wish]]\nsex = 0\nage = 0\n")
    refused = sudare(*PUBLISH, "--out", "one", "--history", "h.jsonl", "--request", "r.toml")
    asked = sudare("predict", "r.toml", "--schema", "sales.toml", "--history", "h.jsonl")

    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert "none of the 1 options" in refused.err
    assert not (shop / "one").exists()
    assert "certain to fail" in asked.out


def test_a_value_grouping_of_ones_own_is_published(shop: Path, sudare: Sudare) -> None:
    (shop / "r.toml").write_text('[request]\nk = 40\n[[wish]]\nage = [["[20,38)"], ["[38,70]"]]\n')
    done = sudare(*PUBLISH, "--out", "one", "--request", "r.toml", "--format", "csv")
    found = Counter(age for (age,) in duckdb.sql("SELECT age FROM 'one/records.csv'").fetchall())

    assert done.code == 0
    assert set(found) == {"[20,38)", "[38,70]"}


def test_the_steward_is_spoken_to_in_japanese(shop: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_LANG", "ja")
    done = sudare(*PUBLISH, "--out", "one", "--max-suppressed", "0.02", "--criteria", "l=3,item")
    seen = sudare("preview", "kanon", "--schema", "sales.toml", "--k", "40", "--rows", "3000")

    assert "k = 40 の k-匿名性" in done.out
    assert "公開を重ねたときの約束はなく" in done.out
    assert "管理者専用" in done.out
    assert "準識別子: sex, age" in seen.out
    assert "最大 75 個" in seen.out


def test_a_ledger_is_not_charged_and_the_steward_is_told(shop: Path, sudare: Sudare) -> None:
    sudare("ledger", "create", "s.ledger", "--epsilon", "1")
    done = sudare(*PUBLISH, "--out", "one", "--ledger", "s.ledger")

    assert done.code == 0
    assert "the ledger was not charged" in done.out

    seen = sudare("verify", "one", "--ledger", "s.ledger")  # it failed, since there is no spend to be found
    asked = sudare("query", "one", "SELECT COUNT(*) FROM records")

    assert seen.code == 0
    assert "spends no epsilon, so s.ledger neither holds nor bounds it" in seen.out
    assert asked.code != 0
    assert "--records asks its records" in asked.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--k", "1"), "k (1) must be a whole number of at least 2"),
        (("--k", "4000"), "k (4000) is larger than the table"),
        (("--k", "5", "--quasi", "item"), "quasi-identifier item has no hierarchy"),
        (("--k", "5", "--criteria", "l=31,item"), "l (31) of item must be at most 30"),
        (("--k", "5", "--criteria", "l=2"), "must be like l=3,COLUMN"),
        (("--k", "5", "--request", "none.toml"), "cannot be read"),
    ],
)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing(
    shop: Path, sudare: Sudare, words: tuple[str, ...], told: str
) -> None:
    done = sudare("publish", "kanon", "sales.csv", "--schema", "sales.toml", "--out", "one", *words)

    assert done.code == 1
    assert told in done.err
    assert done.err.count("\n") == 1
    assert not (shop / "one").exists()


@pytest.mark.skipif(not ADULT.is_dir(), reason="shared/data/adult-arx is not beside the repository")
def test_adult_is_published_at_the_known_optimum(
    tmp_path: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ADULT.glob("*.csv"):
        shutil.copy(file, tmp_path)
    blocks = [
        f'[[attribute]]\nname = "{name}"\nkind = "category"\nrole = "quasi"\nhierarchy = "adult_hierarchy_{name}.csv"\n'
        for name in QUASI
    ]
    (tmp_path / "a.toml").write_text('[sudare]\nschema = 1\nname = "adult"\n' + "".join(blocks), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = ("publish", "kanon", "adult.csv", "--schema", "a.toml", "--k", "5", "--max-suppressed", "0.05", "--json")
    done = json.loads(sudare(*words, "--out", "one").out)
    names = ", ".join(f'"{name}"' for name in QUASI)
    query = f"SELECT MIN(n), SUM(n) FROM (SELECT COUNT(*) AS n FROM 'one/records.parquet' GROUP BY {names})"

    assert done["optimal"]
    assert list(done["measures"]["levels"].values()) == [0, 3, 0, 0, 2, 1, 1, 2, 0]
    assert done["risk"]["left_out"] == 1346
    assert done["risk"]["total_loss"] == pytest.approx(0.241932, abs=1e-6)
    assert duckdb.sql(query).fetchall() == [(5, 28816)]


def test_presence_in_a_register_is_asked_for_with_the_register(shop: Path, sudare: Sudare) -> None:
    lines = (shop / "sales.csv").read_text(encoding="utf-8").splitlines()
    people = [line.partition(",")[2] for line in lines[1:]]
    (shop / "people.csv").write_text("sex,age\n" + "\n".join(people * 4) + "\n", encoding="utf-8")
    presence = (*PUBLISH, "--quasi", "sex,age", "--criteria", "presence=0..0.3")
    done = sudare(*presence, "--register", "people.csv", "--out", "with")
    without = sudare(*presence, "--out", "never")
    too_few = sudare(*presence, "--register", "sales.csv", "--out", "never")
    for_nothing = sudare(*PUBLISH, "--register", "people.csv", "--out", "never")
    by_value = sudare(*presence, "--register", "people.csv", "--recoding", "value", "--out", "never")

    assert done.code == 0
    assert (without.code, too_few.code, for_nothing.code, by_value.code) == (1, 1, 1, 1)
    assert "a register, a table of the population" in without.err
    assert "no generalisation reaches" in too_few.err or "does not satisfy presence" in too_few.err
    assert "give both or neither" in for_nothing.err
    assert "recoding full only" in by_value.err
    assert not (shop / "never").exists()


def test_columns_chosen_without_a_quasi_identifier_are_refused_with_those_there_are(shop: Path, sudare: Sudare) -> None:
    refused = sudare(*PUBLISH, "--by", "item", "--out", "never")
    fewer = sudare(*PUBLISH, "--by", "item,sex", "--out", "fewer")

    assert refused.code == 1
    assert "none of the attributes to publish (item) is a quasi-identifier; publish one of sex, age too" in refused.err
    assert fewer.code == 0
    assert "combination of sex is shared" in fewer.out


def test_the_report_numbers_the_nodes_as_the_search_looked_at_them(shop: Path, sudare: Sudare) -> None:
    sudare(*PUBLISH, "--search", "pak", "--out", "pak")
    done = sudare("report", "pak", "--truth", "sales.csv", "--schema", "sales.toml", "-o", "pak.html")
    page = (shop / "pak.html").read_text(encoding="utf-8")

    assert done.code == 0
    assert "the order in which the search checked the nodes" in page
    assert page.count('class="chosen" stroke-dasharray') == 1  # where it began
    assert ">1</text>" in page


def test_a_report_lists_ranges_from_the_lowest_to_the_highest(shop: Path, sudare: Sudare) -> None:
    rows = [f"h1,{'MF'[row % 2]},{5 * (row % 40)}" for row in range(800)]
    (shop / "old.csv").write_text("item,sex,age\n" + "\n".join(rows) + "\n", encoding="utf-8")
    names = ", ".join(f'"h{number + 1}"' for number in range(30))
    schema = SALES.format(items=names).replace("start = 20, stop = 70, width = 1", "start = 0, stop = 200, width = 20")
    (shop / "old.toml").write_text(schema.replace("[5, 10, 20]", "[40]"), encoding="utf-8")
    published = sudare("publish", "kanon", "old.csv", "--schema", "old.toml", "--k", "5", "--out", "old")
    sudare("report", "old", "-o", "old.html")
    page = (shop / "old.html").read_text(encoding="utf-8")
    listed = page[page.index("numbers of age") :]
    places = [listed.index(f"[{low},{low + 20}") for low in range(0, 200, 20)]

    assert published.code == 0
    assert places == sorted(places)
