"""Checks a user can run: of the noise of this installation, or of a stored release."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from sudare.atomic import write_new_file
from sudare.counts import Counts
from sudare.errors import ReleaseError, SudareError
from sudare.methods.microdata import Microdata
from sudare.methods.registry import method_of
from sudare.noise import system_rng
from sudare.noise.selfcheck import CheckResult, check_noise
from sudare.privacy import Ledger, hide_password
from sudare.privacy.signatures import SIGNATURE, PublicKey, SigningKey
from sudare.releases import Certificate
from sudare.releases.certificate import tell_day
from sudare.releases.claims import CheckedClaim
from sudare.releases.files import (
    CERTIFICATE,
    CERTIFICATE_PAGES,
    DAMAGED,
    digest,
    read_certificate,
    read_plain,
    read_signature,
    verify_files,
)
from sudare.releases.release import find_release, tell_day_only
from sudare.schema import Attribute, Schema, Unit, Values
from sudare.schema.arrays import Integers
from sudare.text import Text, text
from sudare.verify import audit

AUDIT_RUNS = 30_000  # on each of two tables: enough to refute half the noise, in a few seconds
AUDITED_EPSILON = Fraction(1)
WITHOUT_SPENDS = ("kanon", "location")


# --- a stored release -------------------------------------------------------------------------------------------------


def verify_release(
    directory: str | Path, *, ledger_file: str | Path | None = None, key: PublicKey | str | Path | None = None
) -> list[CheckedClaim]:
    """Check a stored release line by line, and say of each line what it rests on: recomputed, signed or only stated.

    `ledger_file` is the ledger that paid for it. `key` is the public key of its steward, or the file of it: with one,
    a release that is not signed with it fails.

    Error: ReleaseError for a directory whose files are not those that the certificate names.
    """
    place = Path(directory)
    certificate = verify_files(place)
    expected = key if key is None or isinstance(key, PublicKey) else PublicKey.read(key)
    signature = _check_signature(place, expected)
    claims = [
        CheckedClaim(
            name=text("files"),
            passed=True,
            detail=text("all {files} files are as the certificate says", files=len(certificate.payload)),
        ),
        _check_words(place, certificate),
        signature,
        _check_randomness(certificate),
        *_recheck(place, certificate),
        _tell_making(certificate),
    ]
    if ledger_file is not None:
        claims.append(_check_ledger(place, certificate, ledger_file))
    is_vouched = signature.passed and signature.basis == "signed"
    return [_vouch(claim) if is_vouched else claim for claim in claims]


def sign_release(directory: str | Path, key: SigningKey) -> None:
    """Sign a release that is there already, after it was checked; its files stay as they are.

    Error: ReleaseError if a check fails, if it was made with a seed, or if it is signed already.
    """
    place = Path(directory)
    failed = [claim for claim in verify_release(place) if not claim.passed]
    if failed:
        raise ReleaseError("{name}: {detail}; it is not signed", name=failed[0].name, detail=failed[0].detail)
    if (place / SIGNATURE).exists():
        raise ReleaseError(
            "{directory} is signed already; remove {file} if another key must sign it", directory=place, file=SIGNATURE
        )
    certificate, content = read_certificate(place)
    write_new_file(place / SIGNATURE, key.sign(content).to_json())
    tell_day_only(place, certificate.created)


def _vouch(claim: CheckedClaim) -> CheckedClaim:
    return dataclasses.replace(claim, basis="signed") if claim.basis == "stated" else claim


def _check_signature(directory: Path, key: PublicKey | None) -> CheckedClaim:
    """Check the signature. Without a key it can only be seen to fit: whose key it is, the reader must know."""
    name = text("signature")
    try:
        signature = read_signature(directory)
    except SudareError as problem:
        return CheckedClaim(name=name, passed=False, detail=problem.text)
    if signature is None and key is None:
        detail = text("the release is not signed: for what is only stated, nobody vouches")
        return CheckedClaim(name=name, passed=True, detail=detail, basis="stated")
    if signature is None:
        detail = text("the release is not signed, but the key {fingerprint} was to sign it", fingerprint=_name(key))
        return CheckedClaim(name=name, passed=False, detail=detail)
    signer = signature.signer
    if not signer.verify(read_plain(directory / CERTIFICATE), signature):
        detail = text("the certificate was changed after it was signed, or the signature is damaged")
        return CheckedClaim(name=name, passed=False, detail=detail)
    if key is None:
        detail = text(
            "signed with the key {fingerprint}; whose key that is, only its public file tells (--key)",
            fingerprint=signer.fingerprint,
        )
        return CheckedClaim(name=name, passed=True, detail=detail, basis="stated")
    if signer != key:
        detail = text(
            "signed with the key {signer}, not with {fingerprint}",
            signer=signer.fingerprint,
            fingerprint=key.fingerprint,
        )
        return CheckedClaim(name=name, passed=False, detail=detail)
    detail = text("certificate and files are signed with the key {fingerprint}", fingerprint=key.fingerprint)
    return CheckedClaim(name=name, passed=True, detail=detail, basis="signed")


def _name(key: PublicKey | None) -> str:
    return "" if key is None else key.fingerprint


def _recheck(directory: Path, certificate: Certificate) -> list[CheckedClaim]:
    """Let the method work out again what it can; whatever it cannot make sense of is a failed check, not a fault."""
    try:
        return method_of(certificate).recheck(certificate, directory)
    except SudareError as problem:
        return [CheckedClaim(name=text("method"), passed=False, detail=problem.text)]
    except DAMAGED:
        detail = text("the certificate says what no release can be; do not use it, get the release again")
        return [CheckedClaim(name=text("method"), passed=False, detail=detail)]


def _check_words(directory: Path, certificate: Certificate) -> CheckedClaim:
    """Write the certificate in words again and compare; sentences of another version may read differently."""
    payload = {name: digest for name, digest in certificate.payload.items() if name not in CERTIFICATE_PAGES}
    bare = dataclasses.replace(certificate, payload=payload)
    try:
        is_same = all(
            bare.words(language).encode("utf-8") == read_plain(directory / page)
            for page, language in CERTIFICATE_PAGES.items()
        )
    except (SudareError, *DAMAGED):
        is_same = False
    version = certificate.versions.get("sudare")
    current = importlib.metadata.version("sudare")
    if not is_same and version != current:
        detail = text(
            "written by Sudare {version}, whose sentences differ from those of {current}; the hashes are right, the"
            " words were not compared",
            version=version,
            current=current,
        )
        return CheckedClaim(name=text("certificate"), passed=True, detail=detail, basis="stated")
    detail = (
        text("the certificate in words says what certificate.json says")
        if is_same
        else text("the certificate in words does not say what certificate.json says")
    )
    return CheckedClaim(name=text("certificate"), passed=is_same, detail=detail)


def _check_randomness(certificate: Certificate) -> CheckedClaim:
    """Tell whether the release says that its noise was secret: files cannot show it."""
    detail = (
        text("the certificate says so; files cannot show it")
        if certificate.private
        else text("seeded for tests: it protects nobody")
    )
    return CheckedClaim(
        name=text("made with secret randomness"), passed=certificate.private, detail=detail, basis="stated"
    )


def _tell_making(certificate: Certificate) -> CheckedClaim:
    """Tell day and version: nobody can work them out again."""
    detail = text(
        "made on {day} by version {version}",
        day=certificate.created[:10],
        version=certificate.versions.get("sudare", "?"),
    )
    return CheckedClaim(name=text("day and version"), passed=True, detail=detail, basis="stated")


def _check_ledger(directory: Path, certificate: Certificate, ledger_file: Path | str) -> CheckedClaim:
    """Check that the ledger holds every spend of the certificate, its head, and the hash of the certificate itself."""
    with Ledger.open(ledger_file) as ledger:
        ledger.verify(head=certificate.ledger_head)
        entries = [tell_day(entry.to_dict()) for entry in ledger.entries()]
        bound = find_bound(ledger, certificate)
    name, values = text("ledger"), {"file": str(hide_password(ledger_file))}
    if certificate.method in WITHOUT_SPENDS and not certificate.spends:
        detail = text("this kind of release spends no epsilon, so {file} neither holds nor bounds it", **values)
        return CheckedClaim(name=name, passed=True, detail=detail, basis="stated")
    if certificate.ledger_head is None or not all(tell_day(spend) in entries for spend in certificate.spends):
        detail = text("{file} does not hold the spends of this release", **values)
        return CheckedClaim(name=name, passed=False, detail=detail)
    if bound is None:
        return CheckedClaim(
            name=name, passed=True, detail=text("the spends of this release are in the chain of {file}", **values)
        )
    passed = bound == digest(directory / CERTIFICATE)
    detail = (
        text("the spends of this release and the hash of its certificate are in the chain of {file}", **values)
        if passed
        else text("{file} holds the hash of another certificate for this release", **values)
    )
    return CheckedClaim(name=name, passed=passed, detail=detail)


def find_bound(ledger: Ledger, certificate: Certificate) -> str | None:
    """Find the hash of the certificate that the ledger keeps for a release; None if it keeps none."""
    release = find_release(ledger, certificate)
    return None if release is None else ledger.certificate_of(release)


# --- the noise of this installation -----------------------------------------------------------------------------------


def verify_installation(*, progress: Callable[[float], None] | None = None) -> list[CheckResult]:
    """Check the noise, then a whole method on neighbouring tables, with the noise right and with half of it."""
    checks = check_noise(progress=(lambda share: progress(share / 2)) if progress else None)
    for step, (name, epsilon, must_hold) in enumerate(
        (
            (text("audit of microdata on neighbouring tables"), AUDITED_EPSILON, True),
            (text("the same audit with half the noise"), 2 * AUDITED_EPSILON, False),
        )
    ):
        checks.append(_audit(name, epsilon, must_hold))
        if progress:
            progress((3 + step) / 4)
    return checks


def _audit(name: Text, epsilon: Fraction, must_hold: bool) -> CheckResult:
    """Check that the promise holds for the true method, and is seen to break for the weakened one."""
    method = Microdata(epsilon=epsilon, algorithm="projection")
    first, second = make_neighbours()
    result = audit(_draw_many(method, first), _draw_many(method, second), runs=AUDIT_RUNS)
    holds = result.epsilon_low <= float(AUDITED_EPSILON)
    low, promise = f"{result.epsilon_low:.3f}", str(AUDITED_EPSILON)
    detail = text("epsilon is at least {low}; promised {promise}", low=low, promise=promise)
    return CheckResult(name, holds == must_hold and math.isfinite(result.epsilon_low), detail)


def make_neighbours() -> tuple[Counts, Counts]:
    """Make two tables of three cells that differ in one record."""
    cell = Attribute(name="cell", domain=Values(values=("a", "b", "c")))
    schema = Schema(name="audit", unit=Unit(), attributes=(cell,))
    cells = [[0], [1], [2]]
    return Counts.from_columns(schema, cells, [20, 1, 9]), Counts.from_columns(schema, cells, [19, 2, 9])


def _draw_many(method: Microdata, counts: Counts) -> Callable[[int], Integers]:
    return lambda runs: np.array([method.draw(counts, rng=system_rng()).dense()[:2] for _ in range(runs)])
