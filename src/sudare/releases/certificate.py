"""The certificate: what was promised, for whom, what was spent, what error to expect. Holds no secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sudare.errors import ReleaseError
from sudare.messages import say
from sudare.releases.certificate_words import chapters

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
        for heading, lines in chapters(self, lang):
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
