"""`sudare run`: several releases under one ledger, from files to files; interrupted, resumed, refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sudare.demo.data import write_coast
from sudare.recipe.ledger import run_alone
from tests.processes import start
from tests.recipe_texts import HEAD, RECORDS, SCHEMA

AGES = '\n[[release]]\nname = "ages"\npublish = "table"\nepsilon = 0.5\nby = ["age"]\n'
VIEW = '\n[[release]]\nname = "view"\npublish = "view"\nepsilon = "1/2"\nformat = "csv"\n'
ROWS = '\n[[release]]\nname = "rows"\npublish = "kanon"\nk = 5\nhistory = "members.history"\n'
REPORTS = '\n[[release]]\nname = "reports"\npublish = "location"\nmap = "coast.toml"\nepsilon_per_metre = 0.02\n'


def left(place: Path) -> str:
    from sudare.privacy import Ledger

    with Ledger.open(place / "members.ledger") as ledger:
        return str(ledger.left)


def test_a_recipe_makes_all_five_releases_and_does_nothing_twice(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    write_coast(place, rows=6, columns=6)
    file = recipe(HEAD + RECORDS + "report = true\n" + AGES + VIEW + ROWS + REPORTS)
    done = sudare("run", file)
    again = sudare("run", file)
    codes = [
        sudare("verify", f"releases/{name}", "--ledger", "members.ledger").code for name in ("records", "ages", "view")
    ]

    assert done.code == 0, done.err
    assert "3/5 view: view" in done.out
    assert "does not cover a k-anonymous release" in done.out
    assert codes == [0, 0, 0]
    assert sudare("verify", "releases/rows").code == sudare("verify", "releases/reports").code == 0
    assert sorted(path.name for path in (place / "releases").iterdir()) == [
        "ages", "records", "records.html", "reports", "rows", "view",
    ]  # fmt: skip
    assert list((place / "releases" / "view").glob("*.csv"))
    assert again.code == 0
    assert again.out.count("done before") == 5
    assert left(place) == "1/2"


def test_a_dry_run_shows_the_plan_opens_no_data_and_makes_nothing(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    (place / "members.csv").write_bytes(b"\x00 no table")
    file = recipe(HEAD + RECORDS + AGES)
    told = sudare("run", file, "--dry-run")
    facts = json.loads(sudare("run", file, "--dry-run", "--json").out)

    assert told.code == 0, told.err
    assert "records: microdata -> releases/records (to do)" in told.out
    assert "expected error: a cell is off by 5.64" in told.out
    assert "1 is needed; the ledger is made with a budget of 2" in told.out
    assert facts["needed"] == "1"
    assert [one["state"] for one in facts["releases"]] == ["to do", "to do"]
    assert not (place / "releases").exists()
    assert not (place / "members.ledger").exists()


def test_a_budget_that_does_not_last_is_refused_before_the_first_spend(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    sudare("ledger", "create", "members.ledger", "--epsilon", "3/4")
    refused = sudare("run", recipe(HEAD.replace('budget = "2"\n', "") + RECORDS + AGES))

    assert refused.code == 1
    assert "need epsilon 1 (records 1/2, ages 1/2), but 3/4 of 3/4 is left" in refused.err
    assert refused.err.count("\n") == 1
    assert left(place) == "3/4"
    assert not (place / "releases").exists()


def test_data_that_only_the_second_release_refuses_stop_the_first(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    with (place / "members.csv").open("a") as file:
        file.write("RARE,31\n")
    by_age = RECORDS.replace('"records"', '"first"') + 'by = ["age"]\n'
    refused = sudare("run", recipe(HEAD + by_age + RECORDS))

    assert refused.code == 1
    assert "line 17: records" in refused.err
    assert "RARE" not in refused.err
    assert not (place / "members.ledger").exists()
    assert not (place / "releases").exists()


def test_a_run_that_fails_in_the_middle_goes_on_from_there(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    failed = sudare("run", recipe(HEAD + RECORDS + ROWS.replace("k = 5", "k = 4000") + AGES))
    first = (place / "releases" / "records" / "certificate.json").read_bytes()
    names = sorted(path.name for path in (place / "releases").iterdir())
    done = sudare("run", recipe(HEAD + RECORDS + ROWS + AGES))

    assert failed.code == 1
    assert "rows: k (4000) is larger than the table allows" in failed.err
    assert "the next run goes on from here" in failed.err
    assert names == ["records"]
    assert done.code == 0, done.err
    assert "1/3 records: done before" in done.out
    assert "made now: 2, made before: 1" in done.out
    assert (place / "releases" / "records" / "certificate.json").read_bytes() == first
    assert left(place) == "1"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('epsilon = "1/2"', 'epsilon = "1/4"'), "epsilon: 1/2 there, 1/4 in the recipe"),
        (('publish = "microdata"', 'publish = "view"'), "publish: microdata there, view in the recipe"),
        (('epsilon = "1/2"\n', 'epsilon = "1/2"\nby = "age"\n'), "by: - there, age in the recipe"),
        (('epsilon = "1/2"\n', 'epsilon = "1/2"\nvalues = "inside"\n'), "values: labels there"),
    ],
)
def test_another_release_of_the_same_name_is_refused_and_kept(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object], change: tuple[str, str], told: str
) -> None:
    sudare("run", recipe(HEAD + RECORDS))
    before = (place / "releases" / "records" / "certificate.json").read_bytes()
    refused = sudare("run", recipe(HEAD + RECORDS.replace(*change)))

    assert refused.code == 1
    assert told in refused.err
    assert (place / "releases" / "records" / "certificate.json").read_bytes() == before
    assert left(place) == "3/2"


def test_a_changed_schema_or_map_or_k_is_noticed(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    write_coast(place, rows=6, columns=6)
    file = recipe(HEAD + ROWS + REPORTS)
    sudare("run", file)
    (place / "coast.toml").write_text((place / "coast.toml").read_text().replace("141.5", "150"))
    moved = sudare("run", file)
    other_k = sudare("run", recipe(HEAD + ROWS.replace("k = 5", "k = 6")))
    fewer = sudare("run", recipe(HEAD + ROWS + 'by = "age"\n'))
    (place / "members.toml").write_text(SCHEMA.replace('"h3"]', '"h3", "h4"]'))
    grown = sudare("run", recipe(HEAD + ROWS))

    assert "the map differs" in moved.err
    assert "k: 5 there, 6 in the recipe" in other_k.err
    assert "the schema differs" in fewer.err
    assert "the schema differs" in grown.err


def test_a_k_anonymous_release_with_fewer_columns_is_another_one(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    sudare("run", recipe(HEAD + ROWS + 'by = "age"\n'))
    refused = sudare("run", recipe(HEAD + ROWS))

    assert "by: age there, item,age in the recipe" in refused.err


def test_a_release_whose_files_were_changed_is_not_taken_as_done(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    file = recipe(HEAD + RECORDS)
    sudare("run", file)
    with (place / "releases" / "records" / "records.parquet").open("ab") as stream:
        stream.write(b"x")
    refused = sudare("run", file)

    assert refused.code == 1
    assert "hash differs" in refused.err


def test_a_release_paid_for_elsewhere_is_refused(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    file = recipe(HEAD + RECORDS)
    sudare("run", file)
    (place / "members.ledger").unlink()
    refused = sudare("run", file)

    assert refused.code == 1
    assert "was not paid for from members.ledger" in refused.err
    assert not (place / "members.ledger").exists()


@pytest.fixture
def lost_release(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> object:
    """A run that spent and could not write."""

    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    file = recipe(HEAD + RECORDS)
    with monkeypatch.context() as patch:
        patch.setattr("sudare.releases.release.digest", full)
        return sudare("run", file)


def test_what_was_spent_and_lost_is_told_and_spent_again_only_while_there_is_room(
    place: Path, lost_release: object, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    planned = sudare("run", "recipe.toml", "--dry-run")
    done = sudare("run", "recipe.toml")
    after = sudare("run", "recipe.toml", "--dry-run")

    assert lost_release.code == 1
    assert "epsilon 1/2 was spent" in lost_release.err
    assert "records: epsilon 1/2 was spent at 20" in planned.out
    assert "perhaps a run was interrupted, or another command ran at the same moment" in planned.out
    assert "costs 1/2 again" in planned.out
    assert done.code == 0, done.err
    assert "was interrupted" in done.out
    assert left(place) == "1"
    assert "was interrupted" not in after.out
    assert [path.name for path in (place / "releases").iterdir()] == ["records"]


def test_what_was_lost_is_named_when_the_budget_no_longer_suffices(
    place: Path, lost_release: object, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    second = VIEW.replace('"view"', '"second"', 1)
    refused = sudare("run", recipe(HEAD + RECORDS + AGES + VIEW + second))

    assert refused.code == 1
    assert "need epsilon 2" in refused.err
    assert "1/2 was spent, perhaps by an interrupted run, and is gone" in refused.err
    assert left(place) == "3/2"


def started(place: Path) -> subprocess.Popen[str]:
    return start([sys.executable, "-m", "sudare", "run", "recipe.toml"], cwd=place)


def test_a_run_that_is_interrupted_leaves_whole_releases_and_can_be_run_again(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    recipe(HEAD.replace('"2"', '"9"') + RECORDS + AGES + VIEW)
    run = started(place)
    while (
        not (place / "releases" / "records" / "certificate.json").exists() and run.poll() is None
    ):  # not the name tried
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate()
    whole = [path.name for path in (place / "releases").iterdir() if path.is_dir()]
    verified = [sudare("verify", f"releases/{name}", "--ledger", "members.ledger").code for name in whole]
    again = sudare("run", "recipe.toml")

    assert run.returncode == 0 or "interrupted" in err
    assert "records" in whole
    assert set(verified) == {0}, (whole, err)
    assert again.code == 0, again.err
    assert "1/3 records: done before" in again.out
    assert {path.name for path in (place / "releases").iterdir()} == {"records", "ages", "view"}


def test_a_history_may_be_kept_beside_the_releases(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    (place / "request.toml").write_text("[request]\nk = 7\n[[wish]]\nage = 0\n[[wish]]\nage = 1\n")
    here = HEAD.replace('out = "releases"', 'out = "."')
    file = recipe(here + ROWS.replace("k = 5", "k = 3") + 'request = "request.toml"\n')
    done = sudare("run", file)
    again = sudare("run", file)
    other = sudare("run", recipe(here + ROWS.replace("k = 5", "k = 8") + 'request = "request.toml"\n'))

    assert done.code == 0, done.err
    assert (place / "members.history").exists()
    assert "done before" in again.out
    assert "the request asks for k = 7, but at least 8 is required" in other.err


def test_a_second_run_waits_for_nobody_and_spends_nothing(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    file = recipe(HEAD + RECORDS)
    (place / "releases").mkdir()
    with run_alone(place / "releases"):
        refused = sudare("run", file)

    assert refused.code == 1
    assert "another run is writing to releases" in refused.err
    assert not (place / "members.ledger").exists()


def test_two_runs_at_once_spend_once(place: Path, recipe: Callable[[str], str]) -> None:
    recipe(HEAD + RECORDS + AGES)
    runs = [started(place), started(place)]
    ended = [(run.communicate()[1], run.returncode) for run in runs]

    assert 0 in [code for _, code in ended]
    assert all(code == 0 or "another run" in err for err, code in ended), ended
    assert left(place) == "1"


def test_progress_and_refusals_are_japanese_for_a_japanese_reader(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDARE_LANG", "ja")
    planned = sudare("run", recipe(HEAD + RECORDS + ROWS), "--dry-run")
    done = sudare("run", "recipe.toml")
    refused = sudare("run", recipe(HEAD + RECORDS.replace("1/2", "1/4")))
    wrong = sudare("run", recipe(HEAD + RECORDS + "k = 5\n"))

    assert "見込まれる誤差" in planned.out
    assert "未作成" in planned.out
    assert "releases のリリース: 2 件（今回 2 件" in done.out
    assert "レシピと異なるリリースがあります" in refused.err
    assert 'recipe.toml の 15 行目：[[release]] records：k を使えるのは publish = "kanon" のときだけです' in wrong.err


def test_json_is_one_document(place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]) -> None:
    facts = json.loads(sudare("run", recipe(HEAD + RECORDS), "--json").out)

    assert facts["published"] == ["records"]
    assert facts["left"] == "3/2"
    assert len(facts["ledger_head"]) == 64


def test_a_missing_page_is_made_without_a_new_spend(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    sudare("run", recipe(HEAD + RECORDS))
    done = sudare("run", recipe(HEAD + RECORDS + "report = true\n"))

    assert done.code == 0
    assert (place / "releases" / "records.html").exists()
    assert left(place) == "3/2"


def test_a_recipe_works_from_another_directory(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe(HEAD + RECORDS)
    other = place / "elsewhere"
    other.mkdir()
    monkeypatch.chdir(other)
    done = sudare("run", "../recipe.toml")

    assert done.code == 0, done.err
    assert (place / "releases" / "records").is_dir()
