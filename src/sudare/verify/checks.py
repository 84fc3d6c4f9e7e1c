"""Checks a user can run: of the noise of this installation, or of a stored release."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.methods.microdata import Microdata
from sudare.noise import system_rng
from sudare.noise.selfcheck import CheckResult, check_noise
from sudare.privacy import Ledger
from sudare.releases import Certificate
from sudare.releases.release import WORDS, verify_files
from sudare.schema import Attribute, Schema, Unit, Values
from sudare.text import Text, text
from sudare.verify import audit

RUNS = 30_000
PROMISE = Fraction(1)


def verify_release(directory: Path, *, ledger_file: Path | None = None) -> list[CheckResult]:
    """Check the files of a release against its certificate, and its spends against a ledger."""
    certificate = verify_files(directory)
    stored = {language: (directory / page).read_text(encoding="utf-8") for page, language in WORDS.items()}
    bare = dataclasses.replace(certificate, payload={k: v for k, v in certificate.payload.items() if k not in WORDS})
    files = text("{files} files are those the certificate names", files=len(certificate.payload))
    checks = [
        CheckResult(text("files"), True, files),
        CheckResult(
            text("certificate"),
            all(bare.words(language) == words for language, words in stored.items()),
            text("the certificate in words says what certificate.json says"),
        ),
        *_check_promise(certificate),
    ]
    return checks if ledger_file is None else [*checks, _check_ledger(certificate, ledger_file)]


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


def _check_ledger(certificate: Certificate, ledger_file: Path) -> CheckResult:
    """Every spend of the certificate must stand in the ledger as it is, and the head in its chain."""
    with Ledger.open(ledger_file) as ledger:
        ledger.verify(head=certificate.ledger_head)
        entries = [entry.to_dict() for entry in ledger.entries()]
    if certificate.ledger_head is not None and all(spend in entries for spend in certificate.spends):
        detail = text("the spends of this release are in the chain of {file}", file=str(ledger_file))
        return CheckResult(text("ledger"), True, detail)
    detail = text("{file} does not hold the spends of this release", file=str(ledger_file))
    return CheckResult(text("ledger"), False, detail)


def verify_installation(*, progress: Callable[[float], None] | None = None) -> list[CheckResult]:
    """Check the noise, then a whole method on neighbouring tables, with the noise right and with half of it."""
    checks = check_noise(progress=(lambda share: progress(share / 2)) if progress else None)
    for step, (name, epsilon, must_hold) in enumerate(
        (
            (text("audit of microdata on neighbouring tables"), PROMISE, True),
            (text("the same audit with half the noise"), 2 * PROMISE, False),
        )
    ):
        checks.append(_audit(name, epsilon, must_hold))
        if progress:
            progress((3 + step) / 4)
    return checks


def _audit(name: Text, epsilon: Fraction, must_hold: bool) -> CheckResult:
    """The promise must hold for the true method, and be seen to break for the weakened one."""
    method = Microdata(epsilon=epsilon, algorithm="projection")
    first, second = neighbours()
    found = audit(_many(method, first), _many(method, second), runs=RUNS)
    holds = found.epsilon_low <= float(PROMISE)
    low, promise = f"{found.epsilon_low:.3f}", str(PROMISE)
    detail = text("epsilon is at least {low}; promised {promise}", low=low, promise=promise)
    return CheckResult(name, holds == must_hold and math.isfinite(found.epsilon_low), detail)


def neighbours() -> tuple[Counts, Counts]:
    """Two tables of three cells that differ in one record."""
    cell = Attribute(name="cell", domain=Values(values=("a", "b", "c")))
    schema = Schema(name="audit", unit=Unit(), attributes=(cell,))
    return tuple(Counts.from_columns(schema, [[0], [1], [2]], values) for values in ([20, 1, 9], [19, 2, 9]))  # type: ignore[return-value]


def _many(method: Microdata, counts: Counts) -> Callable[[int], NDArray[np.int64]]:
    return lambda runs: np.array([method.draw(counts, rng=system_rng()).dense()[:2] for _ in range(runs)])
