"""When rows must be true ones: k-anonymity, with what is known of it before the data."""

from __future__ import annotations

from typing import Any

from sudare.errors import ParameterError, SchemaError
from sudare.messages import say
from sudare.methods.kanon import KAnonymity
from sudare.privacy import exact_epsilon
from sudare.run.choose import EPSILONS, MICRODATA, Advice, Answers, Choice, most_advised
from sudare.run.choose_error import Expected, joined, number
from sudare.run.choose_words import unit_notes, warnings
from sudare.schema import Schema

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
        runner_up_if=say("if made-up records will do: the promise is then differential privacy, which composes"),
        why=tuple(_why(schema, parameters)),
        lost=(
            say("fine values: how much is lost depends on the data, and is told by the run."),
            say("the stronger promise: k-anonymity is no differential privacy, does not compose, and does not hide what"
                " the rows of a class have in common."),
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


def _why(schema: Schema, parameters: Parameters) -> list[str]:
    told = _method(K, parameters).preview(schema)
    names = ", ".join(told.quasi)
    lines = [
        say("the published rows must be true ones: k-anonymity draws no noise, it makes values coarser."),
        say("at least k rows then share every combination of {names}, which others may know.", names=names),
    ]
    if parameters["recoding"] == "full":
        return [*lines, say("recoding full: every attribute has a hierarchy, and goes to one level of it as a whole.")]
    return [*lines, say("recoding mondrian: not every attribute has a hierarchy, and ranges need none.")]


def _notes(schema: Schema, parameters: Parameters) -> list[str]:
    told = [
        say(
            "whether a k can be kept, and at what loss, is not known without the data, or a history of earlier runs"
            " (`sudare predict`)"
        )
    ]
    if "quasi" in parameters:
        told.append(
            say(
                'no attribute has role = "quasi", so all but sensitive ones are taken as what others may know: say in'
                " the schema which they are"
            )
        )
    for one in schema.attributes:
        if one.role == "sensitive":
            told.append(say("{name} is sensitive: ask for l-diversity too, with --criteria l=2,{name}", name=one.name))
    return told


def _expected(k: int, schema: Schema, parameters: Parameters, rows: int | None) -> Expected:
    told = _method(k, parameters).preview(schema, rows=rows)
    finest = number(told.finest)
    if rows is None or told.most_cells is None:
        return Expected(words=say("{finest} combinations are declared", finest=finest), figures=told.to_dict())
    mean = number(rows / told.finest)
    words = say("{finest} combinations are declared, of {mean} rows in the mean", finest=finest, mean=mean)
    if told.most_cells < told.finest:
        most = say("at most {cells} can hold k rows each", cells=number(told.most_cells))
        words = joined(words, most)
    return Expected(words=words, figures=told.to_dict())
