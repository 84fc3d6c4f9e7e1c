"""The part of a certificate that every method fills in alike."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from sudare.privacy import Promise, Spend
from sudare.releases import Certificate
from sudare.schema import Schema


def certificate(
    *,
    method: str,
    parameters: Mapping[str, str],
    guarantee: Promise,
    schema: Schema | None,
    expected_error: Mapping[str, Any],
    private: bool,
    spends: Sequence[Spend] = (),
    ledger_head: str | None = None,
    measures: Mapping[str, Any] | None = None,
) -> Certificate:
    """Fill in the certificate of a release; under differential privacy nothing in it comes from the table."""
    told = {"unit": {}} if schema is None else schema.to_dict()
    return Certificate(
        method=method,
        parameters=dict(parameters),
        guarantee=guarantee.to_dict(),
        neighbours=guarantee.neighbours,
        unit=told["unit"],
        spends=tuple(spend.to_dict() for spend in spends),
        schema={} if schema is None else told,
        expected_error=dict(expected_error),
        measures=dict(measures or {}),
        versions=versions(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        private=private,
        ledger_head=ledger_head,
    )


def named(parameters: Any, **decided: str) -> dict[str, str]:
    """The fields of a method as exact text, with what was decided for those left open.

    >>> from fractions import Fraction
    >>> @dataclasses.dataclass
    ... class One:
    ...     epsilon: Fraction
    ...     neighbours: str | None = None
    >>> named(One(Fraction(1, 2)), neighbours="replace")
    {'epsilon': '1/2', 'neighbours': 'replace'}
    """
    told = {one.name: getattr(parameters, one.name) for one in dataclasses.fields(parameters)} | decided
    return {name: _text(value) for name, value in told.items() if value is not None}


def versions() -> dict[str, str]:
    """Versions of everything that touched the numbers."""
    packages = ("sudare", "numpy", "duckdb", "cryptography")
    return {name: importlib.metadata.version(name) for name in packages} | {"python": platform.python_version()}


def _text(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
