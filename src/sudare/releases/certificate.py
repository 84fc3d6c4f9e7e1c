"""The certificate: what was promised, for whom, what was spent, what error to expect; as JSON and in words."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sudare.errors import ReleaseError
from sudare.forms.jsontext import read_json
from sudare.schema import Unit
from sudare.schema.raw import write_size
from sudare.text import StoredText, Text, Words, current_language, join, text, use_language
from sudare.text.cards import card

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Everything a reader needs to judge a release, as JSON and in words.

    `created` and the times of spends are days: a time would tell how long the private step took, which depends on the
    table. Certificates of the first version tell seconds. Numbers that matter to the promise are exact texts ("1/2").
    `private` is False for a release made with a seeded generator: its noise can be repeated, so it protects nobody.
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
        """Write the certificate as JSON text, keys in a fixed order."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def from_json(cls, json_text: str) -> Certificate:
        """Read a certificate; anything unknown is refused."""
        try:
            entries = read_json(json_text)
        except ValueError:
            raise ReleaseError("certificate.json is not JSON; the release is damaged") from None
        if not isinstance(entries, dict) or entries.get("format") != FORMAT:
            raise ReleaseError(
                "certificate.json is of a format this version does not know (it knows {known}); use a newer Sudare",
                known=FORMAT,
            )
        _check_entries(entries)
        return cls(**{**entries, "spends": tuple(entries["spends"])})

    def _repr_html_(self) -> str:
        """Show the certificate in words, in a notebook."""
        rows = [(heading, line) for heading, lines in write_chapters(self) for line in lines]
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
            for heading, lines in write_chapters(self):
                parts += [f"## {heading}", "", *(f"- {line}" for line in lines), ""]
        return "\n".join(parts)


_TABLES = ("parameters", "guarantee", "unit", "schema", "expected_error", "measures", "versions", "payload")
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(_TABLES, dict),
    **dict.fromkeys(("method", "neighbours", "created"), str),
    "spends": list,
    "private": bool,
    "ledger_head": (str, type(None)),
}


def _check_entries(entries: Mapping[str, Any]) -> None:
    known = {known.name for known in fields(Certificate)}
    if unknown := sorted(map(str, set(entries) - known)):
        raise ReleaseError(
            "certificate.json has entries that this version does not know ({odd}), so nothing of it is believed; use a"
            " newer Sudare, or get the release again",
            odd=", ".join(unknown),
        )
    if missing := sorted(known - set(entries)):
        raise ReleaseError(
            "certificate.json lacks entries ({odd}); the release is damaged, get it again", odd=", ".join(missing)
        )
    wrong = [name for name, kind in _TYPES.items() if not isinstance(entries[name], kind)]
    wrong += [
        name for name in ("parameters", "versions", "payload") if name not in wrong and not _is_texts(entries[name])
    ]
    if wrong or not all(isinstance(spend, dict) for spend in entries["spends"]):
        odd = ", ".join(sorted(wrong)) or "spends"
        raise ReleaseError("certificate.json has entries of the wrong kind ({odd}); the release is damaged", odd=odd)


def _is_texts(table: Mapping[str, Any]) -> bool:
    return all(isinstance(value, str) for value in table.values())


def tell_day(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Tell a spend by its day: the time of day stays in the ledger.

    >>> tell_day({"purpose": "noise", "time": "2026-11-17T01:53:09.123456+00:00"})
    {'purpose': 'noise', 'time': '2026-11-17'}
    """
    return {**entry, "time": str(entry["time"])[:10]} if "time" in entry else dict(entry)


# --- in words -------------------------------------------------------------------------------------------------------

Chapter = tuple[Text, list[Words]]
MOST_LISTED_PAIRS = 100  # in the sentences of a certificate; its figures name all
IN_OTHER_SENTENCES = {
    "posterior_min",
    "posterior_median",
    "report_true_min",
    "tight_epsilon_is_exact",
    "home_found_1_days",
    "home_found_30_days",
}


def write_chapters(certificate: Certificate) -> list[Chapter]:
    """Give headings and their sentences, in the order they are read: promise, spends, error, making, files."""
    error = [*describe_error(certificate.expected_error), *_describe_coarseness(certificate)]
    error += [*_describe_pairs(certificate), *describe_cap(certificate), *_describe_totals(certificate)]
    return [
        (text("What is promised"), _describe_promise(certificate)),
        (text("What was spent"), _describe_spends(certificate)),
        (text("What error to expect"), error),
        (text("How it was made"), [*_list_parameters(certificate), *describe_making(certificate)]),
        (text("Files"), [f"{name}: sha256 {digest}" for name, digest in certificate.payload.items()]),
    ]


def _describe_promise(certificate: Certificate) -> list[Words]:
    """State the promise and whom it is for; a promise that compares no tables names no neighbours."""
    lines: list[Words] = [certificate.statement]
    if certificate.neighbours:
        lines.append(text("Neighbouring tables: {neighbours}.", neighbours=certificate.neighbours))
    if certificate.unit:
        unit = Unit.from_dict(certificate.unit).describe()
        lines.append(text("Unit of privacy: {unit}.", unit=unit))
    return lines


def _describe_spends(certificate: Certificate) -> list[Words]:
    if not certificate.spends:
        return [text("Nothing: this promise takes no epsilon from the budget of a table.")]
    is_charged = certificate.ledger_head is not None
    lines: list[Words] = [_describe_spend(spend, is_charged=is_charged) for spend in certificate.spends]
    if not is_charged:
        return [*lines, text("No ledger was given: nobody keeps the sum of what was spent on this table.")]
    return [*lines, text("Head of the ledger after this spend: {head}", head=certificate.ledger_head)]


def _describe_spend(spend: Mapping[str, Any], *, is_charged: bool) -> Text:
    """Tell one spend, in the currency that it was promised in, and what a ledger was charged."""
    purpose, cost = Text(str(spend["purpose"])), spend["cost"]
    if not is_charged:
        currency = next(name for name in ("epsilon", "rho") if name in spend)
        letter = {"epsilon": "ε", "rho": "ρ"}[currency]
        return text("{letter} = {amount} for {purpose}", letter=letter, amount=spend[currency], purpose=purpose)
    if "epsilon" in spend:
        return text(
            "epsilon {epsilon} for {purpose} (charged {cost})", epsilon=spend["epsilon"], purpose=purpose, cost=cost
        )
    return text("rho {rho} for {purpose} (charged {cost})", rho=spend["rho"], purpose=purpose, cost=cost)


def describe_error(figures: Mapping[str, Any]) -> list[Words]:
    """Say what error to expect; a figure of a later version, for which there is no sentence, by its name."""
    if not figures:
        return [text("No noise was added: the published values are true, but coarser.")]
    sentences: dict[str, list[Text]] = {}
    for describe in (_describe_noise, _describe_view, _describe_reports):
        told: dict[str, list[Text]] = {}
        for key, sentence in describe(figures):  # several of one key, such as those of thin maps and of few records
            told.setdefault(key, []).append(sentence)
        sentences |= told
    return [
        line
        for key, value in figures.items()
        for line in sentences.get(key, [f"{key}: {json.dumps(value, ensure_ascii=False)}"])
        if key not in IN_OTHER_SENTENCES
    ]


def _describe_coarseness(certificate: Certificate) -> list[Words]:
    """Say how coarse the values are, where a release tells it."""
    shares = certificate.measures.get("coarseness")
    if not shares:
        return []
    listed = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    return [
        text(
            "How coarse each column is, as the share of its other values that a published value may stand for, on"
            " average: {shares}.",
            shares=listed,
        )
    ]


def _describe_pairs(certificate: Certificate) -> list[Words]:
    """Say which pairs of attributes a view measured, and how many it takes as independent."""
    measured = certificate.measures.get("measured_pairs")
    if measured is None:
        return []
    listed = ", ".join(" × ".join(pair) for pair in measured[:MOST_LISTED_PAIRS])
    rest = len(measured) - MOST_LISTED_PAIRS
    return [
        text(
            "Of {possible} pairs of attributes {count} were measured; {independent} are taken as independent of each"
            " other, since no chain of measured pairs links them.",
            possible=certificate.measures["pairs"],
            count=len(measured),
            independent=certificate.measures["independent_pairs"],
        ),
        *([text("Measured pairs: {pairs}.", pairs=listed)] if measured and rest <= 0 else []),
        *([text("Measured pairs: {pairs}, and {rest} more.", pairs=listed, rest=rest)] if rest > 0 else []),
    ]


def describe_cap(certificate: Certificate) -> list[Text]:
    """Say that rows beyond the cap of a person are in no figure, where the release has counted people."""
    cap = Unit.from_dict(certificate.unit).describe_cap() if certificate.spends and certificate.unit else None
    return [] if cap is None else [cap]


def _describe_totals(certificate: Certificate) -> list[Words]:
    """Say that totals of others are taken as right: an error in them is in no margin."""
    if not certificate.parameters.get("totals"):
        return []
    return [
        text(
            "The totals of {names} were published by others and are taken as right; the errors told here do not allow"
            " for errors in them.",
            names=certificate.parameters.get("exact", ""),
        )
    ]


def _describe_noise(figures: Mapping[str, Any]) -> Iterator[tuple[str, Text]]:
    """Sentences for published records and counts."""
    for key, value in figures.items():
        match key:
            case "cells":
                yield key, text("The complete table has {value} cells.", value=write_size(value))
            case "scale":
                yield key, text("The noise of a cell has scale {value}.", value=value)
            case "sigma_squared":
                yield key, text("The noise of a cell is discrete Gaussian of variance {value}.", value=value)
            case "cell_standard_deviation" | "l2_before_repair" | "total_standard_deviation":
                yield key, _describe_size(key, value)
            case "region_standard_deviation":
                yield key, _describe_regions(value)
            case "region_standard_deviation_by_density":
                yield key, _describe_densities(value)
                if "thin_map" in value:
                    yield key, _describe_thin_map(value)
                for name in ("few", "fewest"):
                    if name in value:
                        yield key, _describe_few(value[f"{name}_below"], value[name])
                if "few_crowded" in value:
                    yield key, _describe_few_crowded(value["few_below"], value["few_crowded"])
            case "levels" if any("sigma_squared" in level for level in value):
                yield key, _describe_gaussian_levels(value)
            case "levels" if len(value) == 1:
                yield key, text("The noise of a cell has scale {value}.", value=value[0]["scale"])
            case "levels":
                yield key, _describe_levels(value)
            case "tables":
                yield key, _describe_tables(value)
            case "bias":
                yield key, text("{sentence}.", sentence=Text(str(value)))


def _describe_size(key: str, value: float) -> Text:
    """Tell the error of a cell, of the table or of the number of records."""
    error = write_error(value)
    if key == "cell_standard_deviation":
        return text("Before post-processing a cell is off by {value} (standard deviation).", value=error)
    if key == "l2_before_repair":
        return text("Before post-processing the table is off by {value} in L2 distance.", value=error)
    if value == 0:
        return text("The number of records is exact: it is public.")
    return text("The number of records is off by {value} (standard deviation).", value=error)


def _describe_regions(errors: Mapping[str, float]) -> Text:
    """Tell the error of a sum over a region, by the number of its cells."""
    listed = ", ".join(f"{cells}: {error:.1f}" for cells, error in errors.items())
    return text("Standard deviation of the sum over a region, by its number of cells: {errors}.", errors=listed)


def _describe_levels(levels: Sequence[Mapping[str, Any]]) -> Text:
    """Tell the noise of every level of sums."""
    scales = ", ".join(f"{level['nodes']}: {level['scale']}" for level in levels)
    return text(
        "Sums were measured at several levels. Scale of the noise, by the number of sums of a level: {scales}.",
        scales=scales,
    )


def _describe_tables(tables: Sequence[Mapping[str, Any]]) -> Text:
    """Tell the error of the figures of every further table; exact ones have none."""
    errors = ", ".join(
        f"{table['table']}: {0 if table['exact'] else table['standard_deviation']:.1f}" for table in tables
    )
    return text("Standard deviation of a figure of a further table, by table: {errors}.", errors=errors)


def _describe_densities(errors: Mapping[str, Any]) -> Text:
    thin, dense = (
        ", ".join(f"{cells}: {error:.1f}" for cells, error in errors[name].items()) for name in ("thin", "dense")
    )
    return text(
        "The noise of cells follows the noisy density of the squares around them. The same where squares hold less than"
        " {low} records a cell: {thin}; and where they hold {high} or more: {dense}.",
        low=f"{errors['thin_below']:g}",
        high=f"{errors['dense_from']:g}",
        thin=thin,
        dense=dense,
    )


def _describe_thin_map(errors: Mapping[str, Any]) -> Text:
    return text(
        "If the whole map holds less than {bound} records a cell, cells are hardly measured; the same where its squares"
        " are thinnest: {errors}.",
        bound=f"{errors['thin_map_below']:g}",
        errors=", ".join(f"{cells}: {error:.1f}" for cells, error in errors["thin_map"].items()),
    )


def _describe_few(bound: int, errors: Mapping[str, float]) -> Text:
    return text(
        "If the whole map holds fewer than {bound} records, nearly all was spent on large squares; then: {errors}.",
        bound=bound,
        errors=", ".join(f"{cells}: {error:.1f}" for cells, error in errors.items()),
    )


def _describe_few_crowded(bound: int, errors: Mapping[str, float]) -> Text:
    return text(
        "If the whole map holds fewer than {bound} records, and many of them stand in few cells: {errors}.",
        bound=bound,
        errors=", ".join(f"{cells}: {error:.1f}" for cells, error in errors.items()),
    )


def _describe_gaussian_levels(levels: Sequence[Mapping[str, Any]]) -> Text:
    if len(levels) == 1:
        return text("The noise of a cell is discrete Gaussian of variance {value}.", value=levels[0]["sigma_squared"])
    noises = (
        f"{level['nodes']}: σ² = {level['sigma_squared']}"
        if "sigma_squared" in level
        else f"{level['nodes']}: s = {level['scale']}"
        for level in levels
    )
    return text(
        "Sums were measured at several levels. Noise by the number of sums of a level (σ²: variance of Gaussian"
        " noise, s: scale of geometric noise): {noises}.",
        noises=", ".join(noises),
    )


def _describe_view(figures: Mapping[str, Any]) -> Iterator[tuple[str, Text]]:
    """Sentences for views."""
    for key, value in figures.items():
        match key:
            case "value_standard_deviation":
                errors = ", ".join(f"{name}: {error:.1f}" for name, error in value.items())
                sentence = text(
                    "Standard deviation of the noise in the count of a single value, by attribute: {errors}.",
                    errors=errors,
                )
                yield key, sentence
            case "block_standard_deviation":
                sentence = text(
                    "The sum of a block is off by {value} or more (standard deviation of the noise).",
                    value=write_error(value),
                )
                yield key, sentence


def _describe_reports(figures: Mapping[str, Any]) -> Iterator[tuple[str, Text]]:
    """Sentences for what a device reports."""
    for key, value in figures.items():
        match key:
            case "tight_epsilon_per_metre":
                sentence = text(
                    "The smallest epsilon for which this map keeps the promise, certified: {value} per metre.",
                    value=round_up(value),
                )
                yield key, sentence
            case "posterior_max":
                low = figures.get("posterior_min", value)
                sentence = text(
                    "Whoever sees a report and guesses the reported cell is right with a chance of {low} to"
                    " {high}, if people are equally likely to be in every cell.",
                    low=write_chance(low),
                    high=write_chance(value),
                )
                yield key, sentence
            case "report_true_max":
                low = figures.get("report_true_min", value)
                sentence = text(
                    "The true cell is reported with a chance of {low} to {high}.",
                    low=write_chance(low),
                    high=write_chance(value),
                )
                yield key, sentence
            case "expected_distance_metres":
                yield key, text("A report is {value} m away from the truth on average.", value=f"{value:,.1f}")
            case "home_found_365_days":
                sentence = text(
                    "Whoever keeps all reports of a device and knows the map finds the home cell with a chance of"
                    " {first} after 1 day, {month} after 30 days and {year} after 365 days (partly simulated, give or"
                    " take 4%).",
                    first=write_chance(figures.get("home_found_1_days", value)),
                    month=write_chance(figures.get("home_found_30_days", value)),
                    year=write_chance(value),
                )
                yield key, sentence


def write_chance(value: float) -> str:
    """Write a probability in percent; a small one by its first digit.

    >>> write_chance(0.1534), write_chance(0.000018)
    ('15.3%', '0.002%')
    """
    return f"{value:.1%}" if value >= 0.001 or value == 0 else f"{100 * float(f'{value:.1g}'):.10f}".rstrip("0") + "%"


def write_error(value: float) -> str:
    """Write an error by four digits: more are not told by an error.

    >>> write_error(113.136348), write_error(2828427.1), write_error(0.51234)
    ('113.1', '2828000', '0.5123')
    """
    return f"{decimal.Context(prec=4).create_decimal(repr(value)).normalize():f}"


def round_up(value: float) -> str:
    """Write six digits, never less than the value: it is part of what is promised.

    >>> round_up(0.0183532156)
    '0.0183533'
    """
    return f"{decimal.Context(prec=6, rounding=decimal.ROUND_UP).create_decimal(repr(value)).normalize():f}"


def _list_parameters(certificate: Certificate) -> list[Words]:
    """List parameters as the commands take them; criteria in words."""
    lines: dict[str, Words] = {key: f"{key} = {value}" for key, value in certificate.parameters.items()}
    from sudare.privacy.promise import recognise_criterion

    if lines.get("criteria") and (criteria := certificate.guarantee.get("criteria")):
        lines["criteria"] = "criteria = " + join((recognise_criterion(words) for words in criteria), text("; "))
    return [*lines.values()]


def describe_making(certificate: Certificate) -> list[Words]:
    """Say where the domain came from, when the release was made and with what."""
    versions = ", ".join(f"{name} {version}" for name, version in certificate.versions.items())
    made = text("Made on {created} with {versions}.", created=certificate.created, versions=versions)
    if not certificate.schema:
        return [made]
    origin = Text(str(certificate.schema.get("origin", "declared")))
    read_off = [
        attribute["name"] for attribute in certificate.schema.get("attributes", ()) if attribute.get("from_data")
    ]
    names = ", ".join(read_off)
    sentence = text("Values or ranges that were read off the data, and confirmed as public: {names}.", names=names)
    marked = [sentence] if read_off else []
    return [text("The domain was {origin} by the steward.", origin=origin), *marked, made]
