"""The certificate: what was promised, for whom, what was spent, what error to expect. Holds no secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sudare.errors import ReleaseError
from sudare.messages import say
from sudare.schema import Unit

FORMAT = 1
METHODS = ("microdata", "table", "kanon", "location", "view")  # what this version can read; grows with the methods


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Everything a reader needs to judge a release, as JSON and in words.

    Numbers that matter to the promise are exact, as text ("1/2"). `private` is False for a release made with a seeded
    generator: its noise can be repeated, so it protects nobody.
    """

    method: str
    parameters: Mapping[str, str]
    guarantee: Mapping[str, Any]
    neighbours: str
    unit: Mapping[str, Any]
    spends: tuple[Mapping[str, Any], ...]
    schema: Mapping[str, Any]
    expected_error: Mapping[str, Any]
    measures: Mapping[str, Any]
    versions: Mapping[str, str]
    created: str
    private: bool
    ledger_head: str | None
    payload: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def to_json(self) -> str:
        """The certificate as JSON text, keys in a fixed order."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate; anything unknown is refused."""
        try:
            found = json.loads(text)
        except ValueError:
            raise ReleaseError("certificate.json is not JSON; the release is damaged") from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ReleaseError(
                "certificate.json is of a format this version does not know (it knows {known}); use a newer Sudare",
                known=FORMAT,
            )
        _check_keys(found)
        return cls(**{**found, "spends": tuple(found["spends"])})

    def words(self, lang: str = "en") -> str:
        """The certificate in plain words, for people who decide."""
        parts = [f"# {say('Certificate of a {method} release', lang=lang, method=self.method)}", ""]
        if not self.private:
            parts += [
                "**" + say("NOT PRIVATE: made with a seeded generator, for tests only.", lang=lang) + "**",
                "",
            ]
        for heading, lines in _chapters(self, lang):
            parts += [f"## {heading}", "", *(f"- {line}" for line in lines), ""]
        return "\n".join(parts)


def _check_keys(found: Mapping[str, Any]) -> None:
    known = {one.name for one in fields(Certificate)}
    if set(found) != known:
        odd = ", ".join(sorted(set(found) ^ known))
        raise ReleaseError("certificate.json has unknown or missing entries ({odd}); the release is damaged", odd=odd)
    maps = ("parameters", "guarantee", "unit", "schema", "expected_error", "measures", "versions", "payload")
    kinds: dict[str, type] = {**dict.fromkeys(maps, dict), "spends": list, "private": bool}
    wrong = sorted(name for name, kind in kinds.items() if not isinstance(found[name], kind))
    if wrong or not all(isinstance(spend, dict) for spend in found["spends"]):
        raise ReleaseError("certificate.json has entries of the wrong kind ({odd}); the release is damaged", odd=wrong)
    if found["method"] not in METHODS:
        raise ReleaseError(
            "the release is of a method ({method}) this version does not know; use a newer Sudare",
            method=found["method"],
        )


def _chapters(certificate: Certificate, lang: str) -> list[tuple[str, list[str]]]:
    return [
        (say("What is promised", lang=lang), _promise(certificate, lang)),
        (say("What was spent", lang=lang), _spent(certificate, lang)),
        (say("What error to expect", lang=lang), _error(certificate, lang)),
        (say("How it was made", lang=lang), _making(certificate, lang)),
        (
            say("Files", lang=lang),
            [f"{name}: sha256 {digest}" for name, digest in certificate.payload.items()],
        ),
    ]


def _promise(certificate: Certificate, lang: str) -> list[str]:
    statements = certificate.guarantee.get("statement", {})
    return [
        statements.get(lang, statements.get("en", "")),
        *_relation(certificate, lang),
    ]


def _relation(certificate: Certificate, lang: str) -> list[str]:
    """Whom the promise is for; a promise that compares no tables names no neighbours."""
    lines = []
    if certificate.neighbours:
        lines.append(say("Neighbouring tables: {neighbours}.", lang=lang, neighbours=certificate.neighbours))
    if certificate.unit:
        unit = Unit.from_dict(certificate.unit).words(lang=lang)
        lines.append(say("Unit of privacy: {unit}.", lang=lang, unit=unit))
    return lines


def _spent(certificate: Certificate, lang: str) -> list[str]:
    if not certificate.spends:
        return [say("Nothing: this promise takes no epsilon from the budget of a table.", lang=lang)]
    lines = [
        say(
            "epsilon {epsilon} for {purpose} (charged {cost})",
            lang=lang,
            epsilon=spend["epsilon"],
            purpose=say(str(spend["purpose"]), lang=lang),
            cost=spend["cost"],
        )
        for spend in certificate.spends
    ]
    if certificate.ledger_head is None:
        return [
            *lines,
            say("No ledger was given: nobody keeps the sum of what was spent on this table.", lang=lang),
        ]
    return [
        *lines,
        say("Head of the ledger after this spend: {head}", lang=lang, head=certificate.ledger_head),
    ]


def _error(certificate: Certificate, lang: str) -> list[str]:
    """Known figures as sentences; any other by its name."""
    lines = []
    for key, value in certificate.expected_error.items():
        match key:
            case "cells":
                line = say("The complete table has {value} cells.", lang=lang, value=value)
            case "scale":
                line = say("The noise of a cell has scale {value}.", lang=lang, value=value)
            case "cell_standard_deviation":
                line = say("Before the repair a cell is off by {value} (standard deviation).", lang=lang, value=value)
            case "l2_before_repair":
                line = say("Before the repair the table is off by {value} in L2 distance.", lang=lang, value=value)
            case "total_standard_deviation" if value == 0:
                line = say("The number of records is exact: it is public.", lang=lang)
            case "total_standard_deviation":
                line = say("The number of records is off by {value} (standard deviation).", lang=lang, value=value)
            case "region_standard_deviation":
                told = ", ".join(f"{cells}: {error:.1f}" for cells, error in value.items())
                line = say("Sums over regions, by their number of cells, are off by {told} (standard deviation).",
                           lang=lang, told=told)  # fmt: skip
            case "bias":
                line = say(str(value), lang=lang)
            case _:
                line = f"{key}: {json.dumps(value)}"
        lines.append(line)
    return lines


def _making(certificate: Certificate, lang: str) -> list[str]:
    told = [f"{key} = {value}" for key, value in certificate.parameters.items()]
    if certificate.schema:
        origin = say(str(certificate.schema.get("origin", "declared")), lang=lang)
        told.append(say("The domain was {origin} by the steward.", lang=lang, origin=origin))
    return [
        *told,
        say("Made at {created} with {versions}.", lang=lang, created=certificate.created,
            versions=", ".join(f"{name} {version}" for name, version in certificate.versions.items())),
    ]  # fmt: skip
