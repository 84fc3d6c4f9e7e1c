"""The certificate in plain words: chapters of sentences, in either language."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sudare.errors import ReleaseError
from sudare.privacy.promise import recognise_criterion
from sudare.schema import Unit
from sudare.text import StoredText, Text, Words, current_language, join, text, use_language
from sudare.text.cards import card

Chapter = tuple[Text, list[Words]]
NOT_TOLD = {"posterior_min", "posterior_median", "report_true_min", "tight_epsilon_is_exact"}  # inside other sentences


def chapters(certificate: Certificate) -> list[Chapter]:
    """Give headings and their sentences, in the order they are read: promise, spends, error, making, files."""
    return [
        (text("What is promised"), _promise(certificate)),
        (text("What was spent"), _spent(certificate)),
        (
            text("What error to expect"),
            [*expected(certificate.expected_error), *_coarse(certificate)],
        ),
        (text("How it was made"), [*_parameters(certificate), *making(certificate)]),
        (text("Files"), [f"{name}: sha256 {digest}" for name, digest in certificate.payload.items()]),
    ]


def _promise(certificate: Certificate) -> list[Words]:
    return [certificate.statement, *_relation(certificate)]


def _relation(certificate: Certificate) -> list[Words]:
    """Whom the promise is for; a promise that compares no tables names no neighbours."""
    lines: list[Words] = []
    if certificate.neighbours:
        lines.append(text("Neighbouring tables: {neighbours}.", neighbours=certificate.neighbours))
    if certificate.unit:
        unit = Unit.from_dict(certificate.unit).describe()
        lines.append(text("Unit of privacy: {unit}.", unit=unit))
    return lines


def _spent(certificate: Certificate) -> list[Words]:
    if not certificate.spends:
        return [text("Nothing: this promise takes no epsilon from the budget of a table.")]
    lines: list[Words] = [
        text(
            "epsilon {epsilon} for {purpose} (charged {cost})",
            epsilon=spend["epsilon"],
            purpose=Text(str(spend["purpose"])),
            cost=spend["cost"],
        )
        for spend in certificate.spends
    ]
    if certificate.ledger_head is None:
        return [*lines, text("No ledger was given: nobody keeps the sum of what was spent on this table.")]
    return [*lines, text("Head of the ledger after this spend: {head}", head=certificate.ledger_head)]


def expected(figures: Mapping[str, Any]) -> list[Words]:
    """Say what error to expect; a figure of a later version, for which there is no sentence, by its name."""
    if not figures:
        return [text("No noise was added: what is published is true, and coarser.")]
    told = {**dict(_of_noise(figures)), **dict(_of_views(figures)), **dict(_of_maps(figures))}
    lines = {key: told.get(key, f"{key}: {json.dumps(value)}") for key, value in figures.items()}
    return [line for key, line in lines.items() if key not in NOT_TOLD]


def _coarse(certificate: Certificate) -> list[Words]:
    """Say how coarse the values are, where a release tells it."""
    shares = certificate.measures.get("coarseness")
    if not shares:
        return []
    told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    return [text("On average a published value could be so much of the other values of its column: {told}.", told=told)]


def _of_noise(figures: Mapping[str, Any]) -> Iterator[tuple[str, Text]]:
    """Sentences for published records and counts."""
    for key, value in figures.items():
        match key:
            case "cells":
                yield key, text("The complete table has {value} cells.", value=value)
            case "scale":
                yield key, text("The noise of a cell has scale {value}.", value=value)
            case "cell_standard_deviation":
                line = text("Before the repair a cell is off by {value} (standard deviation).", value=value)
                yield key, line
            case "l2_before_repair":
                line = text("Before the repair the table is off by {value} in L2 distance.", value=value)
                yield key, line
            case "total_standard_deviation" if value == 0:
                yield key, text("The number of records is exact: it is public.")
            case "total_standard_deviation":
                line = text("The number of records is off by {value} (standard deviation).", value=value)
                yield key, line
            case "region_standard_deviation":
                told = ", ".join(f"{cells}: {error:.1f}" for cells, error in value.items())
                yield (
                    key,
                    text(
                        "Sums over regions, by their number of cells, are off by {told} (standard deviation).",
                        told=told,
                    ),
                )
            case "levels" if len(value) == 1:
                yield key, text("The noise of a cell has scale {value}.", value=value[0]["scale"])
            case "levels":
                told = ", ".join(f"{one['nodes']}: {one['scale']}" for one in value)
                yield (
                    key,
                    text(
                        "Sums were measured at several levels; by their number of sums, the noise has scale {told}.",
                        told=told,
                    ),
                )
            case "bias":
                yield key, Text(str(value))


def _of_views(figures: Mapping[str, Any]) -> Iterator[tuple[str, Text]]:
    """Sentences for views."""
    for key, value in figures.items():
        match key:
            case "value_standard_deviation":
                told = ", ".join(f"{name}: {error:.1f}" for name, error in value.items())
                yield (
                    key,
                    text(
                        "A single value of an attribute is off by {told} (standard deviation of the noise).", told=told
                    ),
                )
            case "block_standard_deviation":
                yield (
                    key,
                    text(
                        "The sum of a block is off by {value} or more (standard deviation of the noise).", value=value
                    ),
                )


def _of_maps(figures: Mapping[str, Any]) -> Iterator[tuple[str, Text]]:
    """Sentences for what a device reports."""
    for key, value in figures.items():
        match key:
            case "tight_epsilon_per_metre":
                yield (
                    key,
                    text("What this map really needs, certified: epsilon {value} per metre.", value=rounded_up(value)),
                )
            case "posterior_max":
                yield (
                    key,
                    text(
                        "Who sees a report is right to guess the reported cell with a chance of {low} to {high},"
                        " if everybody is equally likely everywhere.",
                        low=_chance(figures.get("posterior_min", value)),
                        high=_chance(value),
                    ),
                )
            case "report_true_max":
                low = figures.get("report_true_min", value)
                yield (
                    key,
                    text(
                        "The true cell is reported with a chance of {low} to {high}.",
                        low=_chance(low),
                        high=_chance(value),
                    ),
                )
            case "expected_distance_metres":
                yield key, text("A report is {value} m away from the truth on average.", value=f"{value:,.1f}")


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


def _parameters(certificate: Certificate) -> list[Words]:
    """As the commands take them; criteria in words."""
    lines: dict[str, Words] = {key: f"{key} = {value}" for key, value in certificate.parameters.items()}
    if lines.get("criteria") and (criteria := certificate.guarantee.get("criteria")):
        lines["criteria"] = "criteria = " + join((recognise_criterion(words) for words in criteria), text("; "))
    return [*lines.values()]


def making(certificate: Certificate) -> list[Words]:
    """Say where the domain came from, when the release was made and with what."""
    versions = ", ".join(f"{name} {version}" for name, version in certificate.versions.items())
    made = text("Made at {created} with {versions}.", created=certificate.created, versions=versions)
    if not certificate.schema:
        return [made]
    origin = Text(str(certificate.schema.get("origin", "declared")))
    return [text("The domain was {origin} by the steward.", origin=origin), made]


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
        rows = [(heading, line) for heading, lines in chapters(self) for line in lines]
        return card(
            text("Certificate of a {method} release", method=self.method),
            rows=[(heading if heading != before else "", line) for (heading, line), (before, _) in
                  zip(rows, [(None, ""), *rows], strict=False)],
            warning="" if self.private else text("NOT PRIVATE: made with a seeded generator, for tests only."),
        )  # fmt: skip

    @property
    def statement(self) -> StoredText:
        """The promise in words, as it was stored."""
        return StoredText(self.guarantee.get("statement", {}))

    def words(self, language: str | None = None) -> str:
        """Write the certificate in plain words, for people who decide; in the current language if none is named."""
        with use_language(language or current_language()):
            parts = [f"# {text('Certificate of a {method} release', method=self.method)}", ""]
            if not self.private:
                parts += [f"**{text('NOT PRIVATE: made with a seeded generator, for tests only.')}**", ""]
            for heading, lines in chapters(self):
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
