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
from sudare.text import language
from sudare.verify import audit

RUNS = 30_000
PROMISE = Fraction(1)


def verify_release(directory: Path, *, ledger_file: Path | None = None) -> list[CheckResult]:
    """Check the files of a release against its certificate, and its spends against a ledger."""
    paper = verify_files(directory)
    told = {lang: (directory / page).read_text(encoding="utf-8") for page, lang in WORDS.items()}
    bare = dataclasses.replace(paper, payload={k: v for k, v in paper.payload.items() if k not in WORDS})
    checks = [
        CheckResult("files", True, "{files} files are those the certificate names", {"files": len(paper.payload)}),
        CheckResult(
            "certificate",
            all(bare.words(lang) == text for lang, text in told.items()),
            "the certificate in words says what certificate.json says",
            {},
        ),
        *_promise(paper),
    ]
    return checks if ledger_file is None else [*checks, _in_ledger(paper, ledger_file)]


def _promise(paper: Certificate) -> list[CheckResult]:
    """Check what was promised and paid; k-anonymity and epsilon per metre take nothing from a budget."""
    if "epsilon" not in paper.guarantee:
        return [
            CheckResult(
                "promise", paper.private, "{statement}", {"statement": paper.guarantee["statement"][language()]}
            )
        ]
    spent = sum((Fraction(spend["epsilon"]) for spend in paper.spends), Fraction())
    return [
        CheckResult(
            "made with secret randomness",
            paper.private,
            "promised epsilon {epsilon}" if paper.private else "seeded for tests: it protects nobody",
            {"epsilon": paper.guarantee["epsilon"]} if paper.private else {},
        ),
        CheckResult(
            "spends",
            str(spent) == paper.guarantee["epsilon"],
            "the spends add up to epsilon {spent}",
            {"spent": str(spent)},
        ),
    ]


def _in_ledger(paper: Certificate, ledger_file: Path) -> CheckResult:
    """Every spend of the certificate must stand in the ledger as it is, and the head in its chain."""
    with Ledger.open(ledger_file) as ledger:
        ledger.verify(head=paper.ledger_head)
        entries = [entry.to_dict() for entry in ledger.entries()]
    known = paper.ledger_head is not None and all(spend in entries for spend in paper.spends)
    if known:
        return CheckResult(
            "ledger", True, "the spends of this release are in the chain of {file}", {"file": str(ledger_file)}
        )
    return CheckResult("ledger", False, "{file} does not hold the spends of this release", {"file": str(ledger_file)})


def verify_installation(*, progress: Callable[[float], None] | None = None) -> list[CheckResult]:
    """Check the noise, then a whole method on neighbouring tables, with the noise right and with half of it."""
    checks = check_noise(progress=(lambda share: progress(share / 2)) if progress else None)
    for step, (name, epsilon, must_hold) in enumerate(
        (
            ("audit of microdata on neighbouring tables", PROMISE, True),
            ("the same audit with half the noise", 2 * PROMISE, False),
        )
    ):
        checks.append(_audit(name, epsilon, must_hold))
        if progress:
            progress((3 + step) / 4)
    return checks


def _audit(name: str, epsilon: Fraction, must_hold: bool) -> CheckResult:
    """The promise must hold for the true method, and be seen to break for the weakened one."""
    method = Microdata(epsilon=epsilon, method="projection")
    first, second = neighbours()
    found = audit(_many(method, first), _many(method, second), runs=RUNS)
    holds = found.epsilon_low <= float(PROMISE)
    told = {"low": f"{found.epsilon_low:.3f}", "promise": str(PROMISE)}
    text = "epsilon is at least {low}; promised {promise}"
    return CheckResult(name, holds == must_hold and math.isfinite(found.epsilon_low), text, told)


def neighbours() -> tuple[Counts, Counts]:
    """Two tables of three cells that differ in one record."""
    cell = Attribute(name="cell", domain=Values(values=("a", "b", "c")))
    schema = Schema(name="audit", unit=Unit(), attributes=(cell,))
    return tuple(Counts.from_columns(schema, [[0], [1], [2]], values) for values in ([20, 1, 9], [19, 2, 9]))  # type: ignore[return-value]


def _many(method: Microdata, counts: Counts) -> Callable[[int], NDArray[np.int64]]:
    return lambda runs: np.array([method.draw(counts, rng=system_rng()).dense()[:2] for _ in range(runs)])
