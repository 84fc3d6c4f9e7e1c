"""The certificate in plain words: chapters of sentences, in either language."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sudare.errors import ReleaseError
from sudare.schema import Unit
from sudare.text import current_language, say, text
from sudare.text.cards import card

Chapter = tuple[str, list[str]]
NOT_TOLD = {"posterior_min", "posterior_median", "report_true_min", "tight_epsilon_is_exact"}  # inside other sentences


def chapters(certificate: Certificate, lang: str) -> list[Chapter]:
    """Give headings and their sentences, in the order they are read: promise, spends, error, making, files."""
    return [
        (say("What is promised", lang=lang), _promise(certificate, lang)),
        (say("What was spent", lang=lang), _spent(certificate, lang)),
        (
            say("What error to expect", lang=lang),
            [*expected(certificate.expected_error, lang), *_coarse(certificate, lang)],
        ),
        (say("How it was made", lang=lang), [*_parameters(certificate), *making(certificate, lang)]),
        (say("Files", lang=lang), [f"{name}: sha256 {digest}" for name, digest in certificate.payload.items()]),
    ]


def _promise(certificate: Certificate, lang: str) -> list[str]:
    statements = certificate.guarantee.get("statement", {})
    return [statements.get(lang, statements.get("en", "")), *_relation(certificate, lang)]


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
        return [*lines, say("No ledger was given: nobody keeps the sum of what was spent on this table.", lang=lang)]
    return [*lines, say("Head of the ledger after this spend: {head}", lang=lang, head=certificate.ledger_head)]


def expected(figures: Mapping[str, Any], lang: str) -> list[str]:
    """Say what error to expect; a figure of a later version, for which there is no sentence, by its name."""
    if not figures:
        return [say("No noise was added: what is published is true, and coarser.", lang=lang)]
    told = {**dict(_of_noise(figures, lang)), **dict(_of_views(figures, lang)), **dict(_of_maps(figures, lang))}
    known = {**told, **dict.fromkeys(NOT_TOLD, "")}
    lines = [known.get(key, f"{key}: {json.dumps(value)}") for key, value in figures.items()]
    return [line for line in lines if line]


def _coarse(certificate: Certificate, lang: str) -> list[str]:
    """Say how coarse the values are, where a release tells it."""
    shares = certificate.measures.get("coarseness")
    if not shares:
        return []
    told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    return [say("On average a published value could be so much of the other values of its column: {told}.", lang=lang,
                told=told)]  # fmt: skip


def _of_noise(figures: Mapping[str, Any], lang: str) -> Iterator[tuple[str, str]]:
    """Sentences for published records and counts."""
    for key, value in figures.items():
        match key:
            case "cells":
                yield key, say("The complete table has {value} cells.", lang=lang, value=value)
            case "scale":
                yield key, say("The noise of a cell has scale {value}.", lang=lang, value=value)
            case "cell_standard_deviation":
                line = say("Before the repair a cell is off by {value} (standard deviation).", lang=lang, value=value)
                yield key, line
            case "l2_before_repair":
                line = say("Before the repair the table is off by {value} in L2 distance.", lang=lang, value=value)
                yield key, line
            case "total_standard_deviation" if value == 0:
                yield key, say("The number of records is exact: it is public.", lang=lang)
            case "total_standard_deviation":
                line = say("The number of records is off by {value} (standard deviation).", lang=lang, value=value)
                yield key, line
            case "region_standard_deviation":
                told = ", ".join(f"{cells}: {error:.1f}" for cells, error in value.items())
                yield key, say("Sums over regions, by their number of cells, are off by {told} (standard deviation).",
                               lang=lang, told=told)  # fmt: skip
            case "levels" if len(value) == 1:
                yield key, say("The noise of a cell has scale {value}.", lang=lang, value=value[0]["scale"])
            case "levels":
                told = ", ".join(f"{one['nodes']}: {one['scale']}" for one in value)
                yield key, say("Sums were measured at several levels; by their number of sums, the noise has scale"
                               " {told}.", lang=lang, told=told)  # fmt: skip
            case "bias":
                yield key, say(str(value), lang=lang)


def _of_views(figures: Mapping[str, Any], lang: str) -> Iterator[tuple[str, str]]:
    """Sentences for views."""
    for key, value in figures.items():
        match key:
            case "value_standard_deviation":
                told = ", ".join(f"{name}: {error:.1f}" for name, error in value.items())
                yield key, say("A single value of an attribute is off by {told} (standard deviation of the noise).",
                               lang=lang, told=told)  # fmt: skip
            case "block_standard_deviation":
                yield key, say("The sum of a block is off by {value} or more (standard deviation of the noise).",
                               lang=lang, value=value)  # fmt: skip


def _of_maps(figures: Mapping[str, Any], lang: str) -> Iterator[tuple[str, str]]:
    """Sentences for what a device reports."""
    for key, value in figures.items():
        match key:
            case "tight_epsilon_per_metre":
                yield key, say("What this map really needs, certified: epsilon {value} per metre.", lang=lang,
                               value=rounded_up(value))  # fmt: skip
            case "posterior_max":
                yield (
                    key,
                    say(
                        "Who sees a report is right to guess the reported cell with a chance of {low} to {high},"
                        " if everybody is equally likely everywhere.",
                        lang=lang,
                        low=_chance(figures.get("posterior_min", value)),
                        high=_chance(value),
                    ),
                )
            case "report_true_max":
                low = figures.get("report_true_min", value)
                yield key, say("The true cell is reported with a chance of {low} to {high}.", lang=lang,
                               low=_chance(low), high=_chance(value))  # fmt: skip
            case "expected_distance_metres":
                yield key, say("A report is {value} m away from the truth on average.", lang=lang,
                               value=f"{value:,.1f}")  # fmt: skip


def _chance(value: float) -> str:
    """A share of a hundred; a small one by its first digit.

    >>> _chance(0.1534), _chance(0.000018)
    ('15.3%', '0.002%')
    """
    return f"{value:.1%}" if value >= 0.001 or value == 0 else f"{100 * float(f'{value:.1g}'):.10f}".rstrip("0") + "%"


def rounded_up(value: float) -> str:
    """Six digits, never less than the value: it is part of what is promised.

    >>> rounded_up(0.0183532156)
    '0.0183533'
    """
    return f"{decimal.Context(prec=6, rounding=decimal.ROUND_UP).create_decimal(repr(value)).normalize():f}"


def _parameters(certificate: Certificate) -> list[str]:
    """As the commands take them."""
    return [f"{key} = {value}" for key, value in certificate.parameters.items()]


def making(certificate: Certificate, lang: str) -> list[str]:
    """Say where the domain came from, when the release was made and with what."""
    versions = ", ".join(f"{name} {version}" for name, version in certificate.versions.items())
    made = say("Made at {created} with {versions}.", lang=lang, created=certificate.created, versions=versions)
    if not certificate.schema:
        return [made]
    origin = say(str(certificate.schema.get("origin", "declared")), lang=lang)
    return [say("The domain was {origin} by the steward.", lang=lang, origin=origin), made]


# The certificate: what was promised, for whom, what was spent, what error to expect. Holds no secret.


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

    def _repr_html_(self) -> str:
        """Show the certificate in words, in a notebook."""
        language = current_language()
        rows = [(heading, line) for heading, lines in chapters(self, language) for line in lines]
        return card(
            text("Certificate of a {method} release", method=self.method),
            rows=[(heading if heading != before else "", line) for (heading, line), (before, _) in
                  zip(rows, [("", ""), *rows], strict=False)],
            warning="" if self.private else text("NOT PRIVATE: made with a seeded generator, for tests only."),
        )  # fmt: skip

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
