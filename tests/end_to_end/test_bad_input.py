"""Bad input gets one clear line, the right exit code, and nothing half-written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


def publish(**changed: str) -> list[str]:
    flags = {"schema": "members.toml", "epsilon": "1/2", "out": "out", **changed}
    data = flags.pop("data", "members.csv")
    return ["publish", "microdata", data, *(word for name, value in flags.items() for word in (f"--{name}", value))]


def refused(ran: object, place: Path, *, code: int = 1, told: tuple[str, ...] = ()) -> None:
    """One line, the exit code, the named things, no traceback, and no trace in the directory."""
    assert ran.code == code
    assert ran.err.startswith("sudare: ")
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err
    for text in told:
        assert text in ran.err
    assert [file.name for file in place.iterdir() if file.name.startswith((".out", "out"))] == []


@pytest.mark.parametrize("epsilon", ["0", "-1", "abc", "1e400", "NaN", "inf", "1/0", ""])
def test_an_epsilon_that_is_none(place: Path, sudare: Callable[..., object], epsilon: str) -> None:
    refused(sudare(*publish(epsilon=epsilon)), place, told=("epsilon",))


@pytest.mark.parametrize("epsilon", ["0", "-1", "abc", "1e400", "NaN"])
def test_a_budget_that_is_none(place: Path, sudare: Callable[..., object], epsilon: str) -> None:
    refused(sudare("ledger", "create", "out.ledger", "--epsilon", epsilon), place, told=("epsilon",))


def test_an_unknown_column(place: Path, sudare: Callable[..., object]) -> None:
    (place / "members.toml").write_text((place / "members.toml").read_text().replace('"item"', '"goods"'))
    refused(sudare(*publish()), place, told=("goods", "item"))


def test_a_value_outside_the_domain_is_not_shown(place: Path, sudare: Callable[..., object]) -> None:
    with (place / "members.csv").open("a") as file:
        file.write("SECRETITEM,31\n")
    ran = sudare(*publish())

    refused(ran, place, told=("item", "schema check"))
    assert "SECRETITEM" not in ran.err


def test_an_empty_file(place: Path, sudare: Callable[..., object]) -> None:
    (place / "members.csv").write_text("")
    refused(sudare(*publish()), place, told=("members.csv", "empty"))


def test_a_file_that_is_not_there(place: Path, sudare: Callable[..., object]) -> None:
    refused(sudare(*publish(data="nothing.csv")), place, told=("nothing.csv",))


def test_a_wrong_encoding(place: Path, sudare: Callable[..., object]) -> None:
    (place / "members.csv").write_bytes(b"item,age\nh1,20\n\xff\xfe\xfd\x81,3\n")
    refused(sudare(*publish()), place, told=("members.csv",))


def test_an_encoding_nobody_knows(place: Path, sudare: Callable[..., object]) -> None:
    refused(sudare(*publish(encoding="klingon")), place, told=("klingon",))


def test_broken_toml(place: Path, sudare: Callable[..., object]) -> None:
    (place / "members.toml").write_text("[sudare\nschema = 1\n")
    refused(sudare(*publish()), place, told=("members.toml", "line 1"))


def test_an_unknown_key_in_the_schema(place: Path, sudare: Callable[..., object]) -> None:
    (place / "members.toml").write_text(
        (place / "members.toml").read_text().replace('kind = "category"', 'kind = "category"\ncolour = "red"')
    )
    refused(sudare(*publish()), place, told=("members.toml", "colour"))


def test_a_schema_that_is_not_there(place: Path, sudare: Callable[..., object]) -> None:
    refused(sudare(*publish(schema="none.toml")), place, told=("none.toml",))


def test_a_hierarchy_with_a_hole(place: Path, sudare: Callable[..., object]) -> None:
    (place / "item.csv").write_text("h1;sweet;*\nh2;sweet;*\n")
    (place / "members.toml").write_text(
        (place / "members.toml").read_text().replace('kind = "category"', 'kind = "category"\nhierarchy = "item.csv"')
    )
    refused(sudare(*publish()), place, told=("item.csv", "h3"))


def test_an_inferred_schema(place: Path, sudare: Callable[..., object]) -> None:
    (place / "members.toml").write_text(
        (place / "members.toml").read_text().replace("schema = 1", "schema = 1\ninferred = true")
    )
    refused(sudare(*publish()), place, told=("confirmed",))


def test_a_ledger_that_is_not_there_or_is_none(place: Path, sudare: Callable[..., object]) -> None:
    refused(sudare(*publish(ledger="none.ledger")), place, told=("none.ledger",))
    refused(sudare(*publish(ledger="members.csv")), place, told=("members.csv",))


def test_a_ledger_that_exists_is_not_overwritten(place: Path, sudare: Callable[..., object]) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    before = (place / "m.ledger").read_bytes()
    refused(sudare("ledger", "create", "m.ledger", "--epsilon", "9"), place, told=("m.ledger",))

    assert (place / "m.ledger").read_bytes() == before


def test_a_release_directory_that_exists(place: Path, sudare: Callable[..., object]) -> None:
    (place / "there").mkdir()
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    refused(sudare(*publish(out="there", ledger="m.ledger")), place, told=("there", "exists"))

    assert "left: 1\n" in sudare("ledger", "show", "m.ledger").out


def test_persons_with_several_rows_that_nobody_declared(place: Path, sudare: Callable[..., object]) -> None:
    (place / "members.csv").write_text("id,item,age\np1,h1,20\np2,h2,30\np1,h3,40\n,h1,20\n,h1,20\n")
    with (place / "members.toml").open("a") as file:
        file.write('\n[[attribute]]\nname = "id"\nrole = "identifier"\n')
    refused(sudare(*publish()), place, told=("id", "max_rows"))
    found = sudare("schema", "check", "members.csv", "--schema", "members.toml")

    assert found.code == 1
    assert "repeats" in found.out


def test_nothing_is_spent_for_bad_input(place: Path, sudare: Callable[..., object]) -> None:
    sudare("ledger", "create", "m.ledger", "--epsilon", "1")
    with (place / "members.csv").open("a") as file:
        file.write("h9,31\n")
    sudare(*publish(ledger="m.ledger"))

    assert "left: 1\n" in sudare("ledger", "show", "m.ledger").out


@pytest.mark.parametrize(
    "words",
    [["publsh"], ["publish", "magic"], ["publish", "microdata", "members.csv"], ["ledger", "create", "x"], ["--colour"],
     ["publish", "microdata", "members.csv", "--schema", "s", "--out", "o", "--epsilon", "1", "--neighbours", "kin"]],
)  # fmt: skip
def test_a_wrong_call_is_usage(place: Path, sudare: Callable[..., object], words: list[str]) -> None:
    refused(sudare(*words), place, code=2, told=("--help",))


@pytest.mark.parametrize(("option", "meant"), [("-k", "--k"), ("-max-suppressed", "--max-suppressed")])
def test_an_option_with_one_dash_is_answered_by_the_one_with_two(
    place: Path, sudare: Callable[..., object], option: str, meant: str
) -> None:
    refused(sudare("publish", "kanon", "members.csv", option, "5"), place, code=2, told=("did you mean", meant))


def test_messages_are_said_in_japanese_too(
    place: Path, sudare: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDARE_LANG", "ja")
    ran = sudare(*publish(epsilon="abc"))

    assert ran.code == 1
    assert "を指定してください" in ran.err


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can be mounted by root only")
def test_a_full_disk(place: Path, sudare: Callable[..., object]) -> None:
    disk = place / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with (place / "members.csv").open("a") as file:
            file.writelines(f"h{1 + k % 3},{(k * k) % 100}\n" for k in range(400_000))
        ran = sudare(*publish(out="disk/release"))

        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)

    refused(ran, place, told=("no space is left",))
