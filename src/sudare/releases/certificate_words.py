"""The certificate in plain words: chapters of sentences, in either language."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sudare.messages import say
from sudare.schema import Unit

if TYPE_CHECKING:
    from sudare.releases.certificate import Certificate

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
