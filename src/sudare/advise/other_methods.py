"""When rows must be true ones: k-anonymity, with what is known of it before the data."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

from sudare.advise.choose import EPSILONS, MICRODATA, Advice, Answers, Choice, advise, most_advised
from sudare.advise.reasons import unit_notes, warnings
from sudare.errors import ParameterError, SchemaError
from sudare.forms.textfile import read_text
from sudare.methods.base import Expected
from sudare.methods.figures import write_figure
from sudare.methods.kanon import KAnonymity
from sudare.methods.location import Location, LocationPreview
from sudare.privacy import exact_epsilon
from sudare.privacy.promise import exact_epsilon_per_metre
from sudare.schema import Schema
from sudare.text import Text, join_clauses, text

K = 5
KS = (5, 10, 20)
SUPPRESSED = "0.05"
Parameters = dict[str, str | tuple[str, ...]]


def advise_kanon(schema: Schema, answers: Answers) -> Advice:
    """Recommend k-anonymity: parameters that the schema can take, and what several k would ask for.

    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")), role="quasi")
    >>> told = advise_kanon(Schema(name="s", attributes=(sex,)), Answers(need="records", truthful=True))
    >>> told.choice.words()
    'kanon, k 5, recoding mondrian'
    """
    parameters = _parameters(schema)
    epsilon = most_advised(tuple(exact_epsilon(one) for one in answers.epsilons or EPSILONS))
    other = {"epsilon": str(epsilon), "neighbours": answers.neighbours, **MICRODATA.mode}
    return Advice(
        choice=Choice(publish="kanon", parameters={"k": str(K), **parameters}),
        runner_up=Choice(publish="microdata", parameters=other),
        runner_up_if=text("if made-up records will do: the promise is then differential privacy, which composes"),
        why=tuple(_why(schema, parameters)),
        lost=(
            text("fine values: how much is lost depends on the data, and is told by the run."),
            text("the stronger promise: k-anonymity is no differential privacy, does not compose, and does not hide"
                 " what the rows of a class have in common."),
        ),
        notes=(*unit_notes(schema, answers, is_noisy=False), *_notes(schema, parameters)),
        warnings=warnings(schema, answers),
        expected=tuple((str(k), _expected(k, schema, parameters, answers.rows)) for k in KS),
        name="k",
    )  # fmt: skip


def _parameters(schema: Schema) -> Parameters:
    has_roles = any(one.role == "quasi" for one in schema.attributes)
    others = tuple(one.name for one in schema.attributes if one.role != "sensitive")
    named: Parameters = {} if has_roles else {"quasi": others}
    if not others:
        raise ParameterError("all attributes are sensitive: none is left that others may know; check the roles")
    try:
        _method(K, {"recoding": "full", **named}).preview(schema)
    except SchemaError:  # a quasi-identifier without a hierarchy
        return {"recoding": "mondrian", **named}
    return {"recoding": "full", "max_suppressed": SUPPRESSED, **named}


def _method(k: int, parameters: Parameters) -> KAnonymity:
    given: dict[str, Any] = dict(parameters)
    return KAnonymity(k=k, **given)


def _why(schema: Schema, parameters: Parameters) -> list[Text]:
    told = _method(K, parameters).preview(schema)
    names = ", ".join(told.quasi)
    lines = [
        text("the published rows must be true ones: k-anonymity draws no noise, it makes values coarser."),
        text("at least k rows then share every combination of {names}, which others may know.", names=names),
    ]
    if parameters["recoding"] == "full":
        return [*lines, text("recoding full: every attribute has a hierarchy, and goes to one level of it as a whole.")]
    return [*lines, text("recoding mondrian: not every attribute has a hierarchy, and ranges need none.")]


def _notes(schema: Schema, parameters: Parameters) -> list[Text]:
    told = [
        text(
            "whether a k can be kept, and at what loss, is not known without the data, or a history of earlier runs"
            " (`sudare predict`)"
        )
    ]
    if "quasi" in parameters:
        told.append(
            text(
                'no attribute has role = "quasi", so all but sensitive ones are taken as what others may know: say in'
                " the schema which they are"
            )
        )
    for one in schema.attributes:
        if one.role == "sensitive":
            told.append(text("{name} is sensitive: ask for l-diversity too, with --criteria l=2,{name}", name=one.name))
    return told


def _expected(k: int, schema: Schema, parameters: Parameters, rows: int | None) -> Expected:
    told = _method(k, parameters).preview(schema, rows=rows)
    finest = write_figure(told.finest)
    if rows is None or told.most_cells is None:
        return Expected(words=text("{finest} combinations are declared", finest=finest), figures=told.to_dict())
    mean = write_figure(rows / told.finest)
    words = text("{finest} combinations are declared, of {mean} rows in the mean", finest=finest, mean=mean)
    if told.most_cells < told.finest:
        most = text("at most {cells} can hold k rows each", cells=write_figure(told.most_cells))
        words = join_clauses([words, most])
    return Expected(words=words, figures=told.to_dict())


# When devices report places to somebody they do not trust: a mechanism for a map.


EPSILONS_PER_METRE = ("0.005", "0.02", "0.05")
NEAR = 0.05  # of the way across the map: a report that is off by no more tells where somebody is, roughly


def advise_places(map_file: Path, answers: Answers) -> Advice:
    """Recommend a mode and an epsilon per metre for a map."""
    epsilons = [exact_epsilon_per_metre(one) for one in answers.epsilons or EPSILONS_PER_METRE]
    told = [(one, _preview(map_file, one)) for one in epsilons]
    epsilon = _epsilon(told)
    first = told[0][1]
    return Advice(
        choice=Choice(publish="location", parameters={"epsilon_per_metre": str(epsilon), "mode": "sharp"}),
        runner_up=Choice(publish="location", parameters={"epsilon_per_metre": str(epsilon), "mode": "fair"}),
        runner_up_if=text("if people at edges, on coasts and islands, must be found out no more often than others"),
        why=(
            text("nobody who is trusted holds the true places, so each device draws the noise itself."),
            text("mode sharp: of all modes it has the least noise for the same promise on this map."),
        ),
        lost=(
            text("single places: a report is a cell near the true one. Counts over many reports can be estimated."),
            text("reports of one person add up: the promise is for one report."),
        ),
        notes=(
            text("the map has {cells} cells, {reportable} of which can be reported", cells=write_figure(first.cells),
                reportable=write_figure(first.reportable)),
            text("if an office may hold the true places, a table by mesh tells far more: choose with a schema instead"),
        ),
        expected=tuple((str(one), _expected_distance(preview)) for one, preview in told),
        name="epsilon_per_metre",
    )  # fmt: skip


def _preview(map_file: Path, epsilon: Fraction) -> LocationPreview:
    return Location.of_map(map_file, epsilon_per_metre=epsilon, mode="sharp").preview()


def _epsilon(told: list[tuple[Fraction, LocationPreview]]) -> Fraction:
    """The smallest epsilon whose reports are near; else the largest that still hides somebody."""
    ordered = sorted(told, key=lambda one: one[0])
    sound = [one for one in ordered if not one[1].warnings] or ordered
    near = [one for one in sound if one[1].figures["expected_distance_metres"] <= NEAR * one[1].across_metres]
    return near[0][0] if near else sound[-1][0]


def _expected_distance(told: LocationPreview) -> Expected:
    words = text(
        "a report is {metres} m from the truth in the mean; a collector can be {share} sure of the reported cell",
        metres=write_figure(told.figures["expected_distance_metres"]),
        share=f"{told.figures['posterior_median']:.0%}",
    )
    return Expected(words=join_clauses([words, *told.warnings]), figures=told.to_dict(), is_small=not told.warnings)


# From a file of public facts and answers to advice.


def read_facts(file: Path) -> Schema | None:
    """Read a schema file; None stands for a map file, which has [grid] and is read by its method."""
    try:
        is_map = "grid" in tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError:
        is_map = False  # the reader of schemas says what is wrong, and where
    return None if is_map else Schema.read(file)


def decide(schema: Schema | None, file: Path, answers: Answers) -> Advice:
    """Recommend a method; what does not go together is refused."""
    if schema is None:
        if not answers.wants_places:
            raise ParameterError("{file} is a map: it goes with --need places; for a table give its schema", file=file)
        return advise_places(file, answers)
    if answers.wants_places:
        raise ParameterError(
            "{file} is a schema: devices that report places need a map file; see docs/how-to/location-map.md", file=file
        )
    return advise_kanon(schema, answers) if answers.truthful else advise(schema, answers)
