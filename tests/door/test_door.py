"""The test of the door: a method of another package, in one file, is offered and works everywhere without an edit."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sudare as sd
from sudare.methods.registry import find_method, method_entries, method_of, unregister
from sudare.testing import check_method
from tests.end_to_end.conftest import Ran
from tests.end_to_end.conftest import place as place
from tests.end_to_end.conftest import sudare as sudare
from tests.processes import run

METHOD = Path(__file__).with_name("histogram.py")
MOST_LINES = 80
MODULE = "noisy_histogram"
MEMBERS = ("members.csv", "--schema", "members.toml")
RECIPE = """\
[recipe]
version = 1
source = "members.csv"
schema = "members.toml"
out = "releases"

[ledger]
file = "members.ledger"
budget = "2"

[[release]]
name = "histogram"
publish = "histogram"
epsilon = "1/2"
threshold = 3
by = ["age"]
report = true
"""


@pytest.fixture
def package(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that brings the method by an entry point, installed as pip would leave it."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copyfile(METHOD, folder / f"{MODULE}.py")
    about = folder / "noisy_histogram-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy-histogram\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(f"[sudare.methods]\nhistogram = {MODULE}:Histogram\n")
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop(MODULE, None)
    importlib.invalidate_caches()


def test_the_method_has_at_most_80_lines_and_the_source_does_not_name_it() -> None:
    source = Path(sd.__file__).parent
    named = [file.name for file in source.rglob("*.py") if "noisy_histogram" in file.read_text(encoding="utf-8")]

    assert (len(METHOD.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, named) == (True, [])


@pytest.mark.usefixtures("package")
def test_it_keeps_the_contract_with_its_audits() -> None:
    checked = check_method(find_method("histogram")(epsilon=1))

    assert sum(not each.reason for each in checked) == 29


@pytest.mark.usefixtures("package")
def test_it_is_offered_on_the_command_line(sudare: Callable[..., Ran]) -> None:
    commands, options = sudare("publish", "--help"), sudare("publish", "histogram", "--help")

    assert "noisy counts of every cell of a small table" in commands.out
    for flag in ("--epsilon NUMBER", "--neighbours", "--by NAMES", "--threshold INTEGER", "counts below this are left"):
        assert flag in options.out


def test_it_is_offered_to_a_process_of_its_own(package: Path, place: Path) -> None:
    words = ["preview", "histogram", "--schema", "members.toml", "--epsilon", "1/2"]
    done = run([sys.executable, "-m", "sudare", *words], env={"PYTHONPATH": str(package), "SUDARE_LANG": "en"})

    assert done.returncode == 0, done.stderr
    assert "Differential privacy with epsilon = 1/2" in done.stdout


@pytest.mark.usefixtures("package", "place")
def test_it_is_previewed_in_words_and_as_values(sudare: Callable[..., Ran]) -> None:
    words = ("preview", "histogram", "--schema", "members.toml", "--epsilon", "1/2")
    lines, values = sudare(*words), json.loads(sudare(*words, "--json").out)

    assert "a cell is off by 5.642 " in lines.out
    assert values["expected_error"] == {"cells": 15, "cell_standard_deviation": 5.64215}


@pytest.mark.usefixtures("package")
def test_it_is_published_charged_certified_verified_and_reported(place: Path, sudare: Callable[..., Ran]) -> None:
    assert sudare("ledger", "create", "members.ledger", "--epsilon", "1").code == 0
    words = ("--epsilon", "1/4", "--ledger", "members.ledger", "--threshold", "2", "--out", "out")
    published = sudare("publish", "histogram", *MEMBERS, *words)
    verified = sudare("verify", "out", "--ledger", "members.ledger")

    certificate = json.loads((place / "out" / "certificate.json").read_text(encoding="utf-8"))
    assert (published.code, verified.code) == (0, 0), published.err + verified.out
    assert "spent epsilon 1/4; 3/4 of 1 is left" in published.out
    assert certificate["method"] == "histogram"
    assert certificate["parameters"] == {"epsilon": "1/4", "neighbours": "replace", "threshold": "2"}
    assert [spend["purpose"] for spend in certificate["spends"]] == ["noise in every cell"]
    assert certificate["versions"]["noisy-histogram"] == "1.2"


@pytest.mark.usefixtures("package", "place")
@pytest.mark.parametrize(("language", "words"), [("en", "Records by attribute"), ("ja", "属性")])
def test_its_page_is_written_in_two_languages_and_beside_the_truth(
    language: str, words: str, sudare: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sudare("publish", "histogram", *MEMBERS, "--epsilon", "1", "--out", "out").code == 0
    monkeypatch.setenv("SUDARE_LANG", language)
    plain = sudare("report", "out", "--out", "page.html")
    secret = sudare("report", "out", "--out", "secret.html", "--truth", "members.csv")

    assert (plain.code, secret.code) == (0, 0), plain.err + secret.err
    assert words in Path("page.html").read_text(encoding="utf-8")
    assert 'class="secret"' not in Path("page.html").read_text(encoding="utf-8")
    assert 'class="secret"' in Path("secret.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("package")
def test_it_runs_from_a_recipe_and_is_recognised_when_the_recipe_is_run_again(
    place: Path, sudare: Callable[..., Ran]
) -> None:
    (place / "recipe.toml").write_text(RECIPE)
    planned, first, again = (sudare("run", "recipe.toml", *more) for more in (["--dry-run"], [], []))

    assert (planned.code, first.code, again.code) == (0, 0, 0), planned.err + first.err + again.err
    assert "expected error: a cell is off by" in planned.out
    assert "made now: 0, made before: 1" in again.out
    assert (place / "releases" / "histogram.html").exists()
    with sd.Ledger.open(place / "members.ledger") as ledger:
        assert str(ledger.left) == "3/2"


@pytest.mark.usefixtures("package")
def test_a_misspelt_key_of_its_release_is_told_with_line_and_near_miss(place: Path, sudare: Callable[..., Ran]) -> None:
    (place / "recipe.toml").write_text(RECIPE.replace("threshold = 3", "treshold = 3"))
    refused = sudare("run", "recipe.toml")

    assert refused.code == 1
    assert "line 15" in refused.err
    assert "threshold" in refused.err


def test_its_release_is_not_judged_where_the_package_is_missing(
    place: Path, package: Path, sudare: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sudare("publish", "histogram", *MEMBERS, "--epsilon", "1", "--out", "out").code == 0
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(package)])
    verified, reported = sudare("verify", "out"), sudare("report", "out", "--out", "page.html")

    assert (verified.code, reported.code) == (1, 1)
    assert "install the package that made it" in verified.out
    assert "install the package that made it" in reported.err


def test_a_package_cannot_take_the_place_of_a_built_in_method(package: Path) -> None:
    points = next(package.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(f"[sudare.methods]\nmicrodata = {MODULE}:Histogram\nbroken = {MODULE}:Missing\n")

    assert find_method("microdata") is sd.Microdata
    assert "cannot be used" in str(method_entries()["broken"].describe())
    with pytest.raises(sd.ParameterError, match="cannot be loaded"):
        find_method("broken")


def test_a_method_can_be_registered_for_one_process() -> None:
    histogram = importlib.import_module("tests.door.histogram").Histogram
    sd.register(histogram)
    try:
        release = histogram(epsilon=1).publish(sd.testing.Tabled(sd.testing.subject.even_table()))

        assert method_of(release.certificate) is histogram
        with pytest.raises(sd.ParameterError, match="already"):
            sd.register(type("Other", (histogram,), {"name": "table"}))
    finally:
        unregister("histogram")
