"""`sudare keys`, signing when publishing, and what `sudare verify` says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import sudare as sd
from sudare.errors import ReleaseError
from sudare.verify.checks import sign_release
from tests.end_to_end.conftest import Ran

RECIPE = """
[recipe]
version = 1
source = "members.csv"
schema = "members.toml"
out = "releases"
key = "steward.key"

[ledger]
file = "members.ledger"
budget = "1"

[[release]]
name = "records"
publish = "microdata"
epsilon = "1/2"
"""
PUBLISH = ("publish", "microdata", "members.csv", "--schema", "members.toml", "--epsilon", "1/2")


def test_a_release_is_signed_when_it_is_published_or_later(place: Path, sudare: Callable[..., Ran]) -> None:
    made = sudare("keys", "create", "steward.key")
    at_once = sudare(*PUBLISH, "--out", "first", "--key", "steward.key")
    sudare(*PUBLISH, "--out", "second")
    later = sudare("keys", "sign", "second", "--key", "steward.key")
    checked = [sudare("verify", out, "--key", "steward.key.pub") for out in ("first", "second")]
    fingerprint = sudare("keys", "show", "steward.key.pub").out.split()[-1]

    assert f"fingerprint: {fingerprint}" in made.out
    assert f"signed with the key {fingerprint}" in at_once.out
    assert f"signed with the key {fingerprint}" in later.out
    assert [done.code for done in checked] == [0, 0]
    assert all("(only stated)" not in done.out for done in checked)


def test_a_release_that_is_signed_by_nobody_fails_for_a_reader_with_a_key(
    place: Path, sudare: Callable[..., Ran]
) -> None:
    sudare("keys", "create", "steward.key")
    sudare(*PUBLISH, "--out", "release")
    refused, unsigned = sudare("verify", "release", "--key", "steward.key.pub"), sudare("verify", "release")

    assert (refused.code, unsigned.code) == (1, 0)
    assert "FAILED  signature: the release is not signed" in refused.out
    assert "nobody vouches (only stated)" in unsigned.out


def test_a_bad_key_is_refused_before_anything_is_spent(place: Path, sudare: Callable[..., Ran]) -> None:
    sudare("ledger", "create", "members.ledger", "--epsilon", "1")
    refused = sudare(*PUBLISH, "--ledger", "members.ledger", "--out", "release", "--key", "members.csv")

    assert refused.code == 1
    assert not (place / "release").exists()
    with sd.Ledger.open(place / "members.ledger") as ledger:
        assert ledger.spent == 0


def test_what_was_made_with_a_seed_is_never_signed(place: Path, sudare: Callable[..., Ran]) -> None:
    key = sd.SigningKey.generate()
    done = sudare(*PUBLISH, "--seed-for-tests", "1", "--out", "release")
    release = sd.Release.load(place / "release")

    assert done.code == 0
    with pytest.raises(ReleaseError, match="it protects nobody; it is not signed"):
        sign_release(place / "release", key)
    with pytest.raises(ReleaseError, match="protects nobody, so it is not signed"):
        release.save(place / "again", even_if_not_private=True, key=key)


def test_a_signed_release_is_not_signed_twice(place: Path, sudare: Callable[..., Ran]) -> None:
    sudare("keys", "create", "steward.key")
    sudare(*PUBLISH, "--out", "release", "--key", "steward.key")
    again = sudare("keys", "sign", "release", "--key", "steward.key")

    assert again.code == 1
    assert "is signed already" in again.err


def test_a_recipe_signs_all_its_releases(place: Path, sudare: Callable[..., Ran]) -> None:
    sudare("keys", "create", "steward.key")
    (place / "recipe.toml").write_text(RECIPE)
    done, again = sudare("run", "recipe.toml"), sudare("run", "recipe.toml")
    checked = sudare("verify", "releases/records", "--key", "steward.key.pub", "--ledger", "members.ledger")

    assert (done.code, again.code, checked.code) == (0, 0, 0), done.err + again.err + checked.err + checked.out
    assert "done before" in again.out


def test_a_recipe_with_a_key_that_is_not_there_spends_nothing(place: Path, sudare: Callable[..., Ran]) -> None:
    (place / "recipe.toml").write_text(RECIPE)
    refused = sudare("run", "recipe.toml")

    assert refused.code == 1
    assert "steward.key cannot be read" in refused.err
    assert not (place / "members.ledger").exists()


def test_the_ledger_keeps_the_hash_of_the_certificate(place: Path, sudare: Callable[..., Ran]) -> None:
    """Whoever has the ledger finds a changed certificate without any key."""
    sudare("ledger", "create", "members.ledger", "--epsilon", "1")
    sudare(*PUBLISH, "--ledger", "members.ledger", "--out", "release")
    right = sudare("verify", "release", "--ledger", "members.ledger")
    certificate = place / "release" / "certificate.json"
    certificate.write_text(certificate.read_text().replace('"python": "3', '"python": "4'))
    forged = sudare("verify", "release", "--ledger", "members.ledger")

    assert right.code == 0
    assert "the spends of this release and the hash of its certificate are in the chain of members.ledger" in right.out
    assert forged.code == 1
    assert "FAILED  ledger: members.ledger holds the hash of another certificate for this release" in forged.out


def test_in_python_a_release_is_bound_to_its_ledger_when_it_is_saved(place: Path) -> None:
    schema = sd.Schema.read("members.toml")
    with sd.Ledger.create("members.ledger", epsilon=1) as ledger, sd.open("members.csv", schema) as source:
        sd.Microdata(epsilon=1).publish(source, ledger=ledger).save("release", ledger=ledger)
    claims = sd.verify_release("release", ledger_file="members.ledger")

    assert "the hash of its certificate" in str(claims[-1].detail)
    assert all(claim.passed for claim in claims)
