"""What a release is held against whenever it is read: itself, its signature, and the memory of this machine.

It takes milliseconds and needs neither ledger nor method. `sudare verify` works out far more again, line by line.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from sudare.errors import ReleaseError, SudareError
from sudare.privacy import read_guarantee
from sudare.privacy.signatures import Signature
from sudare.releases.certificate import Certificate
from sudare.schema import Schema
from sudare.text import Text, text

AMOUNTS = ("epsilon", "rho")  # what spends are counted in
COUNT = "count"
BYTES_OF_NUMBER, BYTES_OF_TEXT = 16, 180  # of a value that is read, as measured on 4 million rows
USABLE_MEMORY = 0.5  # of that of the machine: what is read is looked at, sorted and added up
MEMORY_ELSEWHERE = 16 * 2**30  # where a system does not tell how much it has


def check_certificate(certificate: Certificate) -> None:
    """Refuse a certificate that contradicts itself: promise, its words, neighbours, unit, parameters and spends.

    Error: ReleaseError in one line.
    """
    try:
        odd = _find_contradiction(certificate)
    except (SudareError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        odd = text("the promise is none that can be made")
    if odd is not None:
        raise ReleaseError(
            "certificate.json contradicts itself ({odd}); do not use the release, get it again from who made it",
            odd=odd,
        )


def _find_contradiction(certificate: Certificate) -> Text | None:
    """The first thing in which a certificate of differential privacy disagrees with its own promise."""
    facts = certificate.guarantee
    amount = next((name for name in AMOUNTS[::-1] if name in facts), None)  # rho first: it is told as epsilon too
    if amount is None:
        return text("spends without a promise they are for") if certificate.spends else None
    promise = read_guarantee(facts).to_dict()
    if (certificate.neighbours, certificate.unit) != (promise["neighbours"], promise["unit"]):
        return text("neighbours or unit are not those of the promise")
    told = {key: value for key, value in facts.items() if key != "statement"}
    if told != {key: value for key, value in promise.items() if key != "statement"}:
        return text("the figures of the promise do not belong together")
    if is_of_this_version(certificate) and facts.get("statement") != promise["statement"]:
        return text("the words of the promise are not what it promises")
    spent = sum((read_amount(spend[amount]) for spend in certificate.spends), Fraction())
    if spent != read_amount(facts[amount]):
        return text("the spends do not add up to the promise")
    return _find_other_amount(certificate.parameters, facts, amount)


def _find_other_amount(parameters: Mapping[str, str], facts: Mapping[str, Any], amount: str) -> Text | None:
    """Hold the epsilon or rho that was asked for against the one that is promised."""
    if amount in parameters and read_amount(parameters[amount]) != read_amount(facts[amount]):
        return text("the parameters ask for another {amount} than is promised", amount=amount)
    if amount == "rho" and {"epsilon", "delta"} <= set(parameters):
        asked, kept = read_amount(parameters["epsilon"]), read_amount(facts["epsilon_at_delta"])
        if kept > asked or read_amount(parameters["delta"]) != read_amount(facts["delta"]):
            return text("the parameters ask for another {amount} than is promised", amount="epsilon")
    return None


def read_amount(line: Any) -> Fraction:
    """Read an exact number of a certificate, such as 1/2 or 0.1; what could take for ever to read is damage."""
    if not isinstance(line, str) or len(line) > 4000 or "e" in line.lower():
        raise ValueError
    return Fraction(line)


def is_of_this_version(certificate: Certificate) -> bool:
    """Tell whether the version that is running says it made the release."""
    return certificate.versions.get("sudare") == importlib.metadata.version("sudare")


def check_signature(content: bytes, signature: Signature | None) -> None:
    """Refuse a certificate that is signed, and not with these bytes; whose key it is, `sudare verify --key` tells."""
    if signature is not None and not signature.signer.verify(content, signature):
        raise ReleaseError(
            "certificate.json was changed after it was signed, or the signature is damaged; do not use the release,"
            " get it again from who made it"
        )


def check_sizes(certificate: Certificate, tables: Iterable[tuple[Path, int, int, int]]) -> None:
    """Refuse tables that unpack to more than they can hold, or than this machine can: file, rows, columns, texts.

    Error: ReleaseError in one line, before anything is read.
    """
    most = find_memory() * USABLE_MEMORY
    for file, rows, columns, texts in tables:
        needed = rows * (texts * BYTES_OF_TEXT + (columns - texts) * BYTES_OF_NUMBER)
        if needed > most:
            raise ReleaseError(
                "{file} unpacks to {rows} rows, some {needed} GB, and this machine reads up to {most} GB; get the"
                " release again from who made it, or read it on a larger machine",
                file=file.name, rows=rows, needed=math.ceil(needed / 2**30), most=math.floor(most / 2**30),
            )  # fmt: skip
        if file.stem == "cells" and certificate.method == "table":
            _check_cells(certificate, file, rows)


def _check_cells(certificate: Certificate, file: Path, rows: int) -> None:
    """No table has more cells than its attributes have combinations of values."""
    if rows > (size := Schema.from_dict(certificate.schema).size):
        raise ReleaseError(
            "{file} has {rows} rows, and the schema of the certificate has {size} cells; do not use the release, get it"
            " again from who made it",
            file=file.name,
            rows=rows,
            size=size,
        )


def find_memory() -> int:
    """Tell how many bytes of memory this machine has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return MEMORY_ELSEWHERE
