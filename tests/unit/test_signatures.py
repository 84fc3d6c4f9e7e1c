"""Keys and signatures: what is signed cannot be changed, and a private key stays private."""

from __future__ import annotations

import json
import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import sudare as sd
from sudare.errors import KeyFileError
from sudare.privacy.signatures import HEADING, Signature, find_key

CONTENT = b'{"method": "microdata"}\n'


def test_a_signature_is_that_of_ed25519_over_the_heading_and_every_byte() -> None:
    """Checked with the package itself, not with our own reader."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = sd.SigningKey.generate()
    signature = key.sign(CONTENT)
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.key))

    public.verify(bytes.fromhex(signature.signature), HEADING + CONTENT)
    assert key.public.verify(CONTENT, signature)


def test_no_changed_byte_passes() -> None:
    key = sd.SigningKey.generate()
    signature = key.sign(CONTENT)
    changed = [CONTENT[:place] + bytes([CONTENT[place] ^ 1]) + CONTENT[place + 1 :] for place in range(len(CONTENT))]

    assert not any(key.public.verify(content, signature) for content in (*changed, CONTENT + b" ", CONTENT[:-1], b""))


def test_another_key_and_a_changed_signature_do_not_pass() -> None:
    key, other = sd.SigningKey.generate(), sd.SigningKey.generate()
    signature = key.sign(CONTENT)
    forged = Signature(key=other.public.raw.hex(), signature=signature.signature)

    assert not other.public.verify(CONTENT, signature)
    assert not other.public.verify(CONTENT, forged)
    assert not key.public.verify(CONTENT, Signature(key=signature.key, signature="00" * 64))


def test_a_signature_survives_its_file() -> None:
    signature = sd.SigningKey.generate().sign(CONTENT)

    assert Signature.from_json(signature.to_json().encode()) == signature


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b"{}",
        json.dumps({"format": 2, "algorithm": "ed25519", "key": "00" * 32, "signature": "00" * 64}).encode(),
        json.dumps({"format": 1, "algorithm": "rsa", "key": "00" * 32, "signature": "00" * 64}).encode(),
        json.dumps({"format": 1, "algorithm": "ed25519", "key": "0" * 63, "signature": "00" * 64}).encode(),
        json.dumps({"format": 1, "algorithm": "ed25519", "key": 5, "signature": "00" * 64}).encode(),
        json.dumps(
            {"format": 1, "algorithm": "ed25519", "key": "00" * 32, "signature": "00" * 64, "by": "me"}
        ).encode(),
    ],
)
def test_whatever_is_no_signature_is_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(KeyFileError, match="is not a signature that this version knows"):
        Signature.from_json(content)


# --- key files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pass_phrase", [None, "correct horse 電池"])
def test_keys_survive_their_files_and_only_the_owner_can_read_the_private_one(
    pass_phrase: str | None, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        public = sd.create_keys(tmp_path / "steward.key", pass_phrase=pass_phrase)
    finally:
        os.umask(before)
    key = sd.SigningKey.read(tmp_path / "steward.key", pass_phrase=pass_phrase)

    assert stat.S_IMODE((tmp_path / "steward.key").stat().st_mode) == 0o600
    assert key.public == public == sd.PublicKey.read(tmp_path / "steward.key.pub")
    assert public.verify(CONTENT, key.sign(CONTENT))


def test_a_locked_key_does_not_open_without_its_pass_phrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sd.create_keys(tmp_path / "steward.key", pass_phrase="open")
    monkeypatch.delenv("SUDARE_PASS_PHRASE", raising=False)
    with pytest.raises(KeyFileError, match="is locked with a pass phrase; set SUDARE_PASS_PHRASE"):
        sd.SigningKey.read(tmp_path / "steward.key")
    with pytest.raises(KeyFileError, match="the pass phrase does not open"):
        sd.SigningKey.read(tmp_path / "steward.key", pass_phrase="shut")
    monkeypatch.setenv("SUDARE_PASS_PHRASE", "open")

    assert sd.SigningKey.read(tmp_path / "steward.key").public == sd.PublicKey.read(tmp_path / "steward.key.pub")


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    sd.create_keys(tmp_path / "steward.key")
    (tmp_path / "steward.key").chmod(0o640)

    with pytest.raises(KeyFileError, match=r"can be read by others.*chmod 600"):
        sd.SigningKey.read(tmp_path / "steward.key")


@pytest.mark.parametrize("taken", ["steward.key", "steward.key.pub"])
def test_no_file_is_overwritten_and_none_is_left_behind(taken: str, tmp_path: Path) -> None:
    (tmp_path / taken).write_text("mine")
    with pytest.raises(KeyFileError, match="exists"):
        sd.create_keys(tmp_path / "steward.key")

    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(taken, "mine")]


def test_a_private_key_is_named_where_a_public_one_is_asked_for(tmp_path: Path) -> None:
    sd.create_keys(tmp_path / "steward.key")

    with pytest.raises(KeyFileError, match=r"steward\.key is a private key.*give the public one, .*steward\.key\.pub"):
        sd.PublicKey.read(tmp_path / "steward.key")


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"-----BEGIN PUBLIC KEY-----\nAA\n-----END PUBLIC KEY-----\n"])
@pytest.mark.parametrize("read", [sd.PublicKey.read, sd.SigningKey.read])
def test_whatever_is_no_key_is_refused_in_one_line(
    read: Callable[[Path], object], content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)

    with pytest.raises(KeyFileError, match="is not a p"):
        read(tmp_path / "key")


@pytest.mark.parametrize("read", [sd.PublicKey.read, sd.SigningKey.read])
def test_pipes_endless_files_and_missing_ones_are_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "nowhere"):
        with pytest.raises(KeyFileError, match=r"is not a key file|cannot be read"):
            read(file)


def test_a_private_key_is_not_shown_and_not_pickled() -> None:
    key = sd.SigningKey.generate()

    assert repr(key) == f"<SigningKey {key.public.fingerprint}>"
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_the_environment_names_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public = sd.create_keys(tmp_path / "steward.key")
    monkeypatch.delenv("SUDARE_KEY", raising=False)
    nothing = find_key(None)
    monkeypatch.setenv("SUDARE_KEY", str(tmp_path / "steward.key"))
    found = find_key(None)

    assert nothing is None
    assert found is not None
    assert found.public == public
