"""Checks a user can run: of the noise of this installation, or of a stored release."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.methods.microdata import Microdata
from sudare.methods.registry import method_of
from sudare.noise import system_rng
from sudare.noise.selfcheck import CheckResult, check_noise
from sudare.privacy import Ledger, hide_password
from sudare.releases import Certificate
from sudare.releases.release import CERTIFICATE_PAGES, verify_files
from sudare.schema import Attribute, Schema, Unit, Values
from sudare.schema.arrays import Integers
from sudare.text import Text, text
from sudare.verify import audit

AUDIT_RUNS = 30_000  # on each of two tables: enough to refute half the noise, in a few seconds
AUDITED_EPSILON = Fraction(1)


def verify_release(directory: Path, *, ledger_file: Path | str | None = None) -> list[CheckResult]:
    """Check the files of a release against its certificate, and its spends against a ledger."""
    certificate = verify_files(directory)
    files = text("all {files} files are as the certificate says", files=len(certificate.payload))
    checks = [
        CheckResult(text("files"), True, files),
        *_check_method(certificate),
        _check_words(directory, certificate),
        *_check_promise(certificate),
    ]
    return checks if ledger_file is None else [*checks, _check_ledger(certificate, ledger_file)]


def _check_method(certificate: Certificate) -> list[CheckResult]:
    """Say that nobody here can judge a release whose method is not known; of a known one there is nothing to say."""
    try:
        method_of(certificate)
    except ReleaseError as problem:
        return [CheckResult(text("method"), False, problem.text)]
    return []


def _check_words(directory: Path, certificate: Certificate) -> CheckResult:
    """Write the certificate in words again and compare; sentences of another version may read differently."""
    payload = {name: digest for name, digest in certificate.payload.items() if name not in CERTIFICATE_PAGES}
    bare = dataclasses.replace(certificate, payload=payload)
    is_same = all(
        bare.words(language) == (directory / page).read_text(encoding="utf-8")
        for page, language in CERTIFICATE_PAGES.items()
    )
    version = certificate.versions.get("sudare")
    current = importlib.metadata.version("sudare")
    if not is_same and version != current:
        detail = text(
            "written by Sudare {version}, whose sentences differ from those of {current}; the hashes are right, the"
            " words were not compared",
            version=version,
            current=current,
        )
        return CheckResult(text("certificate"), True, detail)
    return CheckResult(text("certificate"), is_same, text("the certificate in words says what certificate.json says"))


def _check_promise(certificate: Certificate) -> list[CheckResult]:
    """Check what was promised and paid; k-anonymity and epsilon per metre take nothing from a budget."""
    promise = certificate.guarantee
    if "epsilon" not in promise:
        statement = text("{statement}", statement=certificate.statement)
        return [CheckResult(text("promise"), certificate.private, statement)]
    spent = sum((Fraction(spend["epsilon"]) for spend in certificate.spends), Fraction())
    detail = (
        text("promised epsilon {epsilon}", epsilon=promise["epsilon"])
        if certificate.private
        else text("seeded for tests: it protects nobody")
    )
    added = text("the spends add up to epsilon {spent}", spent=str(spent))
    return [
        CheckResult(text("made with secret randomness"), certificate.private, detail),
        CheckResult(text("spends"), str(spent) == promise["epsilon"], added),
    ]


def _check_ledger(certificate: Certificate, ledger_file: Path | str) -> CheckResult:
    """Check that every spend of the certificate stands in the ledger as it is, and the head in its chain."""
    with Ledger.open(ledger_file) as ledger:
        ledger.verify(head=certificate.ledger_head)
        entries = [entry.to_dict() for entry in ledger.entries()]
    if certificate.ledger_head is not None and all(spend in entries for spend in certificate.spends):
        detail = text("the spends of this release are in the chain of {file}", file=str(hide_password(ledger_file)))
        return CheckResult(text("ledger"), True, detail)
    detail = text("{file} does not hold the spends of this release", file=str(hide_password(ledger_file)))
    return CheckResult(text("ledger"), False, detail)


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
