"""Signatures: who vouches for a certificate, and that nobody changed it since. Ed25519, by the package cryptography.

A steward makes a key once: a private file that signs and stays with the steward, and a public one to hand out. What is
signed is the whole of certificate.json, byte by byte, under a heading of our own, so that a signature made for
something else fits no release. The certificate names the hash of every other file; so the signature covers them all.
Proof: proofs/signatures.md

>>> key = SigningKey.generate()
>>> signature = key.sign(b"{}")
>>> key.public.verify(b"{}", signature), key.public.verify(b"{ }", signature)
(True, False)
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sudare.atomic import check_new_file, new_file
from sudare.errors import KeyFileError
from sudare.forms.jsontext import read_json
from sudare.text import describe_refusal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ALGORITHM = "ed25519"
HEADING = b"sudare: signature of certificate.json, version 1\n"
SIGNATURE_FORMAT = 1
SIGNATURE = "signature.json"
PUBLIC_ENDING = ".pub"
KEY_VARIABLE = "SUDARE_KEY"
"""The variable in which a steward names the private key file that signs every release."""
PASS_PHRASE_VARIABLE = "SUDARE_PASS_PHRASE"  # noqa: S105  (the name of a variable)
"""The variable that holds the pass phrase of that file, for runs without a terminal."""

_MOST_BYTES = 2**16  # of a key file or a signature; real ones have a few hundred


# --- signatures -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """What `signature.json` holds: the public key as hex, and its signature as hex."""

    key: str
    signature: str

    def to_json(self) -> str:
        """Write the file."""
        facts = {"format": SIGNATURE_FORMAT, "algorithm": ALGORITHM, "key": self.key, "signature": self.signature}
        return json.dumps(facts, indent=2) + "\n"

    @classmethod
    def from_json(cls, content: bytes) -> Signature:
        """Read the file; anything unknown is refused."""
        try:
            facts = read_json(content)
            is_known = isinstance(facts, dict) and set(facts) == {"format", "algorithm", "key", "signature"}
            if is_known and (facts["format"], facts["algorithm"]) == (SIGNATURE_FORMAT, ALGORITHM):
                _read_hex(facts["key"], 32), _read_hex(facts["signature"], 64)
                return cls(key=facts["key"], signature=facts["signature"])
        except ValueError:
            pass
        raise KeyFileError(
            "{file} is not a signature that this version knows ({algorithm}, format {format}); get the release again,"
            " or use a newer Sudare",
            file=SIGNATURE,
            algorithm=ALGORITHM,
            format=SIGNATURE_FORMAT,
        )

    @property
    def signer(self) -> PublicKey:
        """The key that the signature says it was made with; whose it is, it cannot say."""
        return PublicKey(raw=bytes.fromhex(self.key))


# --- keys -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicKey:
    """The key that a steward hands out; it checks signatures and makes none."""

    raw: bytes

    @property
    def fingerprint(self) -> str:
        """A short name of the key, to compare by telephone or on a web page: 16 hex digits of its SHA-256."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def verify(self, content: bytes, signature: Signature) -> bool:
        """Tell whether this key made the signature, for exactly this content."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if bytes.fromhex(signature.key) != self.raw:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(bytes.fromhex(signature.signature), HEADING + content)
        except (InvalidSignature, ValueError):
            return False
        return True

    def write(self, path: Path) -> None:
        """Write the file to hand out, as PEM."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        encoding, kind = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        content = Ed25519PublicKey.from_public_bytes(self.raw).public_bytes(encoding, kind)
        with new_file(path, error=KeyFileError) as temporary:
            temporary.write_bytes(content)

    @classmethod
    def read(cls, path: str | Path) -> PublicKey:
        """Read the public key file of a steward.

        Error: KeyFileError in one line for whatever is not one; a private key is named as such.
        """
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        content = _read_small(Path(path))
        try:
            found = serialization.load_pem_public_key(content)
        except Exception:  # cryptography raises many kinds; all of them mean the same
            found = None
        if isinstance(found, Ed25519PublicKey):
            return cls(raw=found.public_bytes_raw())
        if b"PRIVATE KEY" in content:
            raise KeyFileError(
                "{file} is a private key, which only signs; give the public one, {public}",
                file=path,
                public=f"{path}{PUBLIC_ENDING}",
            )
        raise KeyFileError(
            "{file} is not a public key of `sudare keys create`; ask the steward for it again", file=path
        )


class SigningKey:
    """The private key of a steward: it signs certificates, and never leaves its file by way of Sudare."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def __repr__(self) -> str:
        return f"<SigningKey {self.public.fingerprint}>"

    def __reduce__(self) -> Any:
        """Refuse to be pickled: a private key goes nowhere by accident."""
        raise TypeError("a private key is not pickled; read its file where it is needed")

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a new key with the randomness of the system."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @property
    def public(self) -> PublicKey:
        """The key to hand out."""
        return PublicKey(raw=self._key.public_key().public_bytes_raw())

    def sign(self, content: bytes) -> Signature:
        """Sign the bytes of a certificate."""
        return Signature(key=self.public.raw.hex(), signature=self._key.sign(HEADING + content).hex())

    def write(self, path: Path, *, pass_phrase: str | None = None) -> None:
        """Write the private file, for its owner alone (0600); with a pass phrase it is of no use without it."""
        from cryptography.hazmat.primitives import serialization

        if pass_phrase is not None and not pass_phrase:
            raise KeyFileError("a pass phrase must not be empty; leave it out, or type one")
        how: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if pass_phrase is not None:
            how = serialization.BestAvailableEncryption(pass_phrase.encode("utf-8"))
        content = self._key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
        with new_file(path, error=KeyFileError) as temporary:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)

    @classmethod
    def read(cls, path: str | Path, *, pass_phrase: str | None = None) -> SigningKey:
        """Read a private key file; the pass phrase, where none is given, is that of SUDARE_PASS_PHRASE.

        Error: KeyFileError for a file that others can read, a wrong pass phrase, or whatever is not such a key.
        """
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        file = Path(path)
        content = _read_small(file)
        _check_private(file)
        phrase = pass_phrase if pass_phrase is not None else os.environ.get(PASS_PHRASE_VARIABLE)
        if b"ENCRYPTED PRIVATE KEY" not in content:
            phrase = None  # of another key: this one is not locked
        elif not phrase:
            raise KeyFileError(
                "{file} is locked with a pass phrase; set {variable}, or type it where you are asked",
                file=file,
                variable=PASS_PHRASE_VARIABLE,
            )
        try:
            found = serialization.load_pem_private_key(content, None if phrase is None else phrase.encode("utf-8"))
        except Exception:  # cryptography raises many kinds; the message must not tell more than this
            found = None
        if isinstance(found, Ed25519PrivateKey):
            return cls(found)
        if phrase is not None:
            raise KeyFileError("the pass phrase does not open {file}; try again", file=file)
        raise KeyFileError("{file} is not a private key; make one with: sudare keys create", file=file)


def create_keys(path: str | Path, *, pass_phrase: str | None = None) -> PublicKey:
    """Make a private key file and the public one beside it, which has `.pub` at its end; neither overwrites a file."""
    private = Path(path)
    public = private.with_name(private.name + PUBLIC_ENDING)
    check_new_file(public, error=KeyFileError)
    key = SigningKey.generate()
    key.write(private, pass_phrase=pass_phrase)
    key.public.write(public)
    return key.public


def is_locked(path: Path) -> bool:
    """Tell whether a private key file asks for a pass phrase."""
    return b"ENCRYPTED PRIVATE KEY" in _read_small(path)


def find_key(path: str | Path | None, *, pass_phrase: str | None = None) -> SigningKey | None:
    """Read the key that a release is signed with: the one named, else that of SUDARE_KEY, else none."""
    named = path or os.environ.get(KEY_VARIABLE) or None
    return None if named is None else SigningKey.read(named, pass_phrase=pass_phrase)


def _check_private(file: Path) -> None:
    """Refuse a private key that others on this machine can read: it may be known to them already."""
    if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise KeyFileError(
            "{file} can be read by others, so its signature shows nothing; make it yours alone (chmod 600 {file}), and"
            " make a new key if somebody may have read it",
            file=file,
        )


def _read_small(file: Path) -> bytes:
    try:
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as stream:
            is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            content = stream.read(_MOST_BYTES + 1) if is_file else b""
    except OSError as problem:
        raise KeyFileError(
            "{file} cannot be read ({reason}); check its path", file=file, reason=describe_refusal(problem)
        ) from None
    if not is_file or len(content) > _MOST_BYTES:
        raise KeyFileError("{file} is not a key file; give one that `sudare keys create` made", file=file)
    return content


def _read_hex(digits: object, size: int) -> bytes:
    if not isinstance(digits, str) or digits != digits.lower() or len(digits) != 2 * size:
        raise ValueError
    return bytes.fromhex(digits)
