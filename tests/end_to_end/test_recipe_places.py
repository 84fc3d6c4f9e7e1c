"""`sudare run`: the files around the releases: formats, registers, ledgers, pages, and what a killed run leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sudare.app import publish
from sudare.demo.data import write_coast
from sudare.errors import ParameterError
from sudare.methods.base import Method
from sudare.methods.kanon import KAnonymity
from sudare.methods.location import Location
from sudare.methods.microdata import Microdata
from sudare.privacy import Ledger
from tests.recipe_texts import HEAD, RECORDS

ROWS = '\n[[release]]\nname = "rows"\npublish = "kanon"\nk = 5\n'
PRESENCE = ROWS + 'criteria = ["presence=0..0.5"]\n'


def spent(file: Path) -> str:
    with Ledger.open(file) as ledger:
        return str(ledger.spent)


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [HEAD + RECORDS + 'format = "xls"\n',
                                  HEAD.replace("\n\n[ledger]", '\nformat = "PARQUET"\n\n[ledger]') + RECORDS,
                                  HEAD + RECORDS + 'format = ["csv"]\n'])  # fmt: skip
def test_a_format_that_is_none_is_refused_before_the_spend(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object], text: str
) -> None:
    Ledger.create(place / "members.ledger", epsilon=2).close()
    refused = sudare("run", recipe(text))

    assert refused.code == 1
    assert "format (" in refused.err
    assert 'must be one of "parquet", "csv"' in refused.err
    assert spent(place / "members.ledger") == "0"


@pytest.mark.parametrize(
    "method",
    [Microdata(epsilon=1), KAnonymity(k=2), Location(epsilon_per_metre="0.02")],
    ids=lambda method: method.name,
)
def test_a_wrong_format_is_refused_before_anything_is_spent_or_read(
    place: Path, recipe: Callable[[str], str], method: Method
) -> None:
    recipe("")
    file = place / "members.ledger"
    Ledger.create(file, epsilon=2).close()
    with pytest.raises(ParameterError, match=r"file_format \(xls\)"):
        publish(
            method,
            place / "absent.csv",
            schema_file=place / "absent.toml",
            ledger_file=file,
            out=place / "never",
            file_format="xls",  # type: ignore[arg-type]
        )

    assert spent(file) == "0"


# --- a register -------------------------------------------------------------------------------------------------------


def test_presence_in_a_register_can_be_asked_for(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    (place / "people.csv").write_text("age\n" + "".join(f"{k % 100}\n" for k in range(12_000)))
    done = sudare("run", recipe(HEAD + PRESENCE + 'register = "people.csv"\n'))
    again = sudare("run", "recipe.toml")

    assert done.code == 0, done.err
    assert (place / "releases" / "rows").is_dir()
    assert "1/1 rows: done before" in again.out


def test_a_request_can_be_held_against_a_register(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    (place / "request.toml").write_text("[request]\nk = 7\n[[option]]\nage = 0\n")
    rows = PRESENCE + 'register = "members.csv"\nrequest = "request.toml"\n'
    planned = sudare("run", recipe(HEAD + RECORDS + rows), "--dry-run")

    assert planned.code == 0, planned.err


@pytest.mark.parametrize(
    ("rows", "line", "reason"),
    [
        (PRESENCE, 20, "need each other"),
        (ROWS + 'register = "members.csv"\n', 16, "need each other"),
        (PRESENCE + 'register = "absent.csv"\n', 16, "absent.csv"),
    ],
)
def test_a_register_that_is_missing_or_idle_is_refused_while_planning(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object], rows: str, line: int, reason: str
) -> None:
    refused = sudare("run", recipe(HEAD + RECORDS + rows), "--dry-run")

    assert refused.code == 1
    assert reason in refused.err
    assert f"recipe.toml, line {line}: rows" in refused.err


def test_a_register_with_values_outside_the_schema_is_refused_before_the_first_spend(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    (place / "people.csv").write_text("age\n20\n777\n")
    refused = sudare("run", recipe(HEAD + RECORDS + PRESENCE + 'register = "people.csv"\n'))

    assert refused.code == 1
    assert "777" not in refused.err
    assert not (place / "members.ledger").exists()


# --- places -----------------------------------------------------------------------------------------------------------


def test_ledger_and_history_may_be_kept_among_the_releases_from_the_first_run_on(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    inside = HEAD.replace('"members.ledger"', '"releases/members.ledger"')
    file = recipe(inside + RECORDS + ROWS + 'history = "./releases/members.history"\n')
    planned = sudare("run", file, "--dry-run")
    was_made = (place / "releases").exists()
    done = sudare("run", file)
    again = sudare("run", file)

    assert planned.code == 0, planned.err
    assert not was_made
    assert done.code == again.code == 0, done.err
    assert (place / "releases" / "members.history").exists()
    assert spent(place / "releases" / "members.ledger") == "1/2"


def test_a_ledger_in_another_directory_that_is_not_there_is_refused(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    refused = sudare("run", recipe(HEAD.replace('"members.ledger"', '"elsewhere/members.ledger"') + RECORDS))

    assert refused.code == 1
    assert "there is no directory elsewhere" in refused.err


def test_a_directory_where_the_page_should_be_is_refused(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    sudare("run", recipe(HEAD + RECORDS))
    (place / "releases" / "records.html").mkdir()
    refused = sudare("run", recipe(HEAD + RECORDS + "report = true\n"), "--dry-run")

    assert refused.code == 1
    assert "releases/records.html exists" in refused.err


def test_what_a_killed_run_left_half_written_is_named_and_kept(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    half = place / "releases" / ".sudare-0123456789abcdef.partial"
    half.mkdir(parents=True)
    (half / "records.csv").write_text("of a version that held no lock: nobody knows whether it is in use")
    done = sudare("run", recipe(HEAD + RECORDS))

    assert done.code == 0, done.err
    assert f"unfinished files in releases: {half.name}" in done.out
    assert half.exists()


# --- what does not add up ---------------------------------------------------------------------------------------------


def test_a_release_beside_a_k_anonymous_one_that_is_done_is_warned_of_too(
    place: Path, recipe: Callable[[str], str], sudare: Callable[..., object]
) -> None:
    write_coast(place, rows=6, columns=6)
    reports = '\n[[release]]\nname = "map"\npublish = "location"\nmap = "coast.toml"\nepsilon_per_metre = 0.02\n'
    sudare("run", recipe(HEAD + ROWS))
    beside = sudare("run", recipe(HEAD + ROWS + RECORDS))
    nothing = sudare("run", "recipe.toml")
    of_no_rows = sudare("run", recipe(HEAD + ROWS + RECORDS + reports))

    assert "note: rows: k-anonymity takes nothing from the ledger and does not compose" in beside.out
    assert "does not compose" not in nothing.out
    assert "does not compose" not in of_no_rows.out
