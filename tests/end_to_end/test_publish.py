"""The main job from end to end: publish, spend, refuse, verify."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sudare.cli.publish import build_publish
from sudare.methods.registry import find_method, method_entries
from sudare.releases import Release
from tests.end_to_end.conftest import SCHEMA, Ran

PUBLISH = ("publish", "microdata", "members.csv", "--schema", "members.toml", "--epsilon", "1/2")


def test_a_table_is_published_and_the_second_release_is_refused_when_the_budget_is_gone(
    place: Path, sudare: Callable[..., object]
) -> None:
    assert sudare("ledger", "create", "m.ledger", "--epsilon", "0.8").code == 0
    first = sudare(*PUBLISH, "--out", "one", "--ledger", "m.ledger")
    second = sudare(*PUBLISH, "--out", "two", "--ledger", "m.ledger")

    assert first.code == 0
    assert "3000 records published" in first.out
    assert "3/10 of 4/5 is left" in first.out
    assert second.code == 1
    assert "1/2" in second.err
    assert "3/10" in second.err
    assert second.err.count("\n") == 1
    assert not (place / "two").exists()


def test_whoever_publishes_few_records_is_told_how_many_lie_where_nobody_is(
    place: Path, sudare: Callable[..., object]
) -> None:
    lines = (place / "members.csv").read_text().splitlines(keepends=True)
    (place / "few.csv").write_text("".join(lines[:41]))
    few = sudare(*PUBLISH[:2], "few.csv", *PUBLISH[3:], "--out", "few")
    many = sudare(*PUBLISH, "--out", "many")

    assert "with 40 records, about" in few.out
    assert "would lie in cells that truly hold nobody" in few.out
    assert "hold nobody" not in many.out


def test_what_was_published_verifies_against_files_and_ledger(place: Path, sudare: Callable[..., object]) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    sudare(*PUBLISH, "--out", "one", "--ledger", "m.ledger")

    assert sudare("verify", "one", "--ledger", "m.ledger").code == 0
    assert sudare("ledger", "verify", "m.ledger").code == 0
    with (place / "one" / "records.parquet").open("ab") as file:
        file.write(b"x")
    broken = sudare("verify", "one")

    assert broken.code == 1
    assert "hash differs" in broken.err


@pytest.mark.parametrize(
    ("before", "after"),
    [('"1/2"', '"1/1000"'), ('"private": true', '"private": false'), ('"cost": "1/2"', '"cost": "1/9"')],
)
def test_a_certificate_that_was_changed_does_not_verify(
    place: Path, sudare: Callable[..., object], before: str, after: str
) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    sudare(*PUBLISH, "--out", "one", "--ledger", "m.ledger")
    file = place / "one" / "certificate.json"
    text = file.read_text()
    file.write_text(text.replace(before, after))

    assert text != file.read_text()
    assert sudare("verify", "one", "--ledger", "m.ledger").code == 1


def test_a_release_that_is_not_in_the_ledger_does_not_verify_against_it(
    place: Path, sudare: Callable[..., object]
) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    sudare(*PUBLISH, "--out", "one")

    assert sudare("verify", "one").code == 0
    assert sudare("verify", "one", "--ledger", "m.ledger").code == 1
    assert sudare("verify", "--ledger", "m.ledger").code == 2


def test_a_certificate_that_shows_other_spends_than_the_ledger_does_not_verify(
    place: Path, sudare: Callable[..., object]
) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    sudare(*PUBLISH, "--ledger", "m.ledger", "--out", "one")
    certificate = place / "one" / "certificate.json"
    facts = json.loads(certificate.read_text(encoding="utf-8"))
    facts["spends"][0]["time"] = "2020-01-01T00:00:00+00:00"
    certificate.write_text(json.dumps(facts), encoding="utf-8")
    ran = sudare("verify", "one", "--ledger", "m.ledger")

    assert ran.code == 1
    assert "does not hold the spends of this release" in ran.out


def test_a_certificate_without_its_spends_does_not_verify(place: Path, sudare: Callable[..., object]) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    sudare(*PUBLISH, "--ledger", "m.ledger", "--out", "one")
    certificate = place / "one" / "certificate.json"
    facts = json.loads(certificate.read_text(encoding="utf-8"))
    certificate.write_text(json.dumps(facts | {"spends": []}), encoding="utf-8")

    assert sudare("verify", "one", "--ledger", "m.ledger").code == 1


def test_a_failure_after_the_spend_says_that_the_budget_is_gone(
    place: Path, sudare: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    monkeypatch.setattr("sudare.releases.release.digest", full)
    failed = sudare(*PUBLISH, "--out", "one", "--ledger", "m.ledger")

    assert failed.code == 1
    assert "no space is left" in failed.err
    assert "epsilon 1/2 was spent" in failed.err
    assert not (place / "one").exists()


def test_a_seed_and_a_ledger_do_not_go_together(place: Path, sudare: Callable[..., object]) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    refused = sudare(*PUBLISH, "--out", "one", "--ledger", "m.ledger", "--seed-for-tests", "1")

    assert refused.code == 1
    assert "left: 1\n" in sudare("ledger", "show", "m.ledger").out


def test_a_name_too_long_is_refused_before_the_spend(place: Path, sudare: Callable[..., object]) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")

    assert sudare(*PUBLISH, "--out", "長" * 90, "--ledger", "m.ledger").code == 1
    assert "left: 1\n" in sudare("ledger", "show", "m.ledger").out


def test_the_certificate_has_every_entry_the_design_names(place: Path, sudare: Callable[..., object]) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    told = json.loads(sudare(*PUBLISH, "--out", "one", "--ledger", "m.ledger", "--json").out)
    paper = json.loads((place / "one" / "certificate.json").read_text())

    assert set(paper) >= {
        "method", "parameters", "guarantee", "neighbours", "unit", "spends", "schema", "expected_error", "measures",
        "versions", "payload", "ledger_head",
    }  # fmt: skip
    assert paper["parameters"]["epsilon"] == "1/2"
    assert paper["ledger_head"] == told["ledger_head"]
    kept = json.loads(sudare("ledger", "show", "m.ledger", "--json").out)
    assert paper["ledger_head"] == kept["spends"][-1]["head"]  # the hash of the certificate is sealed behind it


def test_spends_are_numbered_without_gaps(place: Path, sudare: Callable[..., object]) -> None:
    """The chain seals the hash of every certificate too; the list counts spends."""
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    for name in ("one", "two"):
        sudare(*PUBLISH, "--out", name, "--ledger", "m.ledger")
    kept = json.loads(sudare("ledger", "show", "m.ledger", "--json").out)["spends"]
    shown = sudare("ledger", "show", "m.ledger").out.splitlines()

    assert [spend["number"] for spend in kept] == list(range(1, len(kept) + 1))
    assert kept[-1]["seq"] > len(kept)
    assert [line.split()[0] for line in shown[-len(kept) :]] == [str(spend["number"]) for spend in kept]


def test_an_add_remove_release_costs_twice_under_a_replace_ledger(place: Path, sudare: Callable[..., object]) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    done = sudare(*PUBLISH, "--out", "one", "--ledger", "m.ledger", "--neighbours", "add-remove")

    assert done.code == 0
    assert "0 of 1 is left" in done.out


def test_a_replace_release_is_refused_under_an_add_remove_ledger(place: Path, sudare: Callable[..., object]) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1", "--neighbours", "add-remove")
    refused = sudare(*PUBLISH, "--out", "one", "--ledger", "m.ledger", "--neighbours", "replace")
    followed = sudare(*PUBLISH, "--out", "one", "--ledger", "m.ledger")

    assert refused.code == 1
    assert followed.code == 0
    assert json.loads((place / "one" / "certificate.json").read_text())["neighbours"] == "add-remove"


def test_csv_comes_out_with_labels(place: Path, sudare: Callable[..., object]) -> None:
    sudare(*PUBLISH, "--out", "one", "--format", "csv")
    lines = (place / "one" / "records.csv").read_text().splitlines()

    assert lines[0] == "item,age"
    assert len(lines) == 3001
    assert {line.split(",", 1)[0] for line in lines[1:]} <= {"h1", "h2", "h3"}


def test_a_seeded_release_is_repeatable_and_says_it_protects_nobody(place: Path, sudare: Callable[..., object]) -> None:
    first = sudare(*PUBLISH, "--out", "one", "--seed-for-tests", "7")
    sudare(*PUBLISH, "--out", "two", "--seed-for-tests", "7")
    verified = sudare("verify", "one")

    assert "NOT PRIVATE" in first.out
    assert (place / "one" / "records.parquet").read_bytes() == (place / "two" / "records.parquet").read_bytes()
    assert verified.code == 1


def test_aggregated_data_is_counted_by_its_column(place: Path, sudare: Callable[..., object]) -> None:
    (place / "sums.csv").write_text("item,age,n\nh1,10,500\nh2,30,0\nh3,99,250\n")
    done = sudare(
        "publish", "microdata", "sums.csv", "--schema", "members.toml", "--epsilon", "1", "--out", "one", "--count", "n"
    )

    assert done.code == 0
    assert "750 records" in done.out


def test_a_shift_jis_table_is_published_as_it_is(place: Path, sudare: Callable[..., object]) -> None:
    (place / "会員.csv").write_bytes(
        "商品,年齢\n和菓子①,20\n髙級茶,35\n".encode("cp932") * 1 + "和菓子①,61\n".encode("cp932") * 40
    )
    (place / "会員.toml").write_text(
        '[sudare]\nschema = 1\nname = "会員"\n[unit]\nkind = "row"\n'
        '[[attribute]]\nname = "商品"\nkind = "category"\nvalues = ["和菓子①", "髙級茶"]\n'
        '[[attribute]]\nname = "年齢"\nkind = "number"\nbins = { start = 0, stop = 100, width = 50 }\n'
    )
    done = sudare("publish", "microdata", "会員.csv", "--schema", "会員.toml", "--epsilon", "5", "--out", "公開")

    assert done.code == 0
    assert set(Release.load(place / "公開").frames["records"].decode()["商品"]) <= {"和菓子①", "髙級茶"}


def test_a_schema_is_proposed_refused_confirmed_and_checked(place: Path, sudare: Callable[..., object]) -> None:
    assert sudare("schema", "init", "members.csv", "-o", "found.toml").code == 0
    assert sudare("schema", "check", "members.csv", "--schema", "found.toml").code == 0
    words = ("publish", "microdata", "members.csv", "--schema", "found.toml", "--epsilon", "1", "--out", "one")
    assert sudare(*words).code == 1
    text = (place / "found.toml").read_text()
    (place / "found.toml").write_text(text.replace("inferred = true", 'inferred = "confirmed"'))
    assert sudare(*words).code == 0

    assert json.loads((place / "one" / "certificate.json").read_text())["schema"]["origin"] == "confirmed"


def test_a_check_that_finds_something_exits_1_and_shows_values_only_when_asked_to(
    place: Path, sudare: Callable[..., object]
) -> None:
    with (place / "members.csv").open("a") as file:
        file.write("RARE,31\n")
    shown = sudare("schema", "check", "members.csv", "--schema", "members.toml")
    hidden = sudare("schema", "check", "members.csv", "--schema", "members.toml", "--no-examples")
    told = json.loads(sudare("schema", "check", "members.csv", "--schema", "members.toml", "--json").out)

    assert (shown.code, hidden.code) == (1, 1)
    assert "RARE" in shown.out
    assert "RARE" not in hidden.out
    assert told["fits"] is False


def test_the_schema_of_schema_files_is_json(sudare: Callable[..., object]) -> None:
    assert json.loads(sudare("schema", "json").out)["type"] == "object"


def test_preview_spends_nothing_and_opens_nothing(place: Path, sudare: Callable[..., object]) -> None:
    (place / "members.csv").unlink()
    told = json.loads(sudare("preview", "microdata", "--schema", "members.toml", "--epsilon", "1", "--json").out)

    assert told["expected_error"]["cells"] == 15


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_every_help_page_opens(lang: str, sudare: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_LANG", lang)
    for words in ([], ["demo"], ["schema"], ["schema", "init"], ["schema", "check"], ["schema", "json"],
                  ["publish"], ["publish", "microdata"], ["preview", "microdata"],
                  ["ledger", "create"], ["ledger", "show"], ["ledger", "verify"], ["verify"]):  # fmt: skip
        page = sudare(*words, "--help", process=not words)

        assert page.code == 0
        assert (("使い方" in page.out) if lang == "ja" else ("Usage:" in page.out)) or words


@pytest.mark.parametrize("name", list(method_entries()))
def test_every_parameter_and_file_of_a_method_has_a_flag(name: str) -> None:
    method = find_method(name)
    flags = {flag for parameter in build_publish(method).params for flag in parameter.opts}

    assert {f"--{known.replace('_', '-')}" for known in (*method.parameters(), *method.files())} - {"--map"} <= flags


def test_an_option_keeps_its_old_name_and_says_the_new_one(place: Path, sudare: Callable[..., Ran]) -> None:
    old = sudare(*PUBLISH, "--out", "old", "--method", "tree")
    new = sudare(*PUBLISH, "--out", "new", "--algorithm", "tree")
    both = sudare(*PUBLISH, "--out", "both", "--method", "tree", "--algorithm", "tree")

    assert (old.code, new.code, both.code) == (0, 0, 1)
    assert "method is now called algorithm" in old.err
    assert new.err == ""
    assert "given twice" in both.err
    assert "--method" not in sudare("publish", "microdata", "--help").out


def test_the_list_of_methods_imports_none_of_them() -> None:
    code = (
        "import sys; from sudare.cli import main; main(['publish', '--help']);"
        "print([name for name in sys.modules if name.startswith('sudare.methods.') or name == 'numpy'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    assert done.stdout.splitlines()[-1] == "['sudare.methods.registry']"


def test_a_table_of_more_cells_than_records_can_fill_is_said_to_be_so(place: Path, sudare: Callable[..., Ran]) -> None:
    fine = SCHEMA.replace("width = 20", "width = 0.001")
    (place / "fine.toml").write_text(fine, encoding="utf-8")
    thin = ("publish", "microdata", "members.csv", "--schema", "fine.toml", "--epsilon", "1", "--out", "thin")

    told, plain = sudare(*thin), sudare(*PUBLISH, "--out", "plain")

    assert "300000 possible cells for 3000 records" in told.out
    assert "possible cells" not in plain.out
