"""`sudare choose`: which method, with which parameters, for a schema and a few answers. No data is opened.

The rules are those of docs/how-to/choose-a-method.md, in its order.
"""

from __future__ import annotations

import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

from sudare.advise.answers import Advice, Answers, Choice
from sudare.advise.candidates import (
    CELLS,
    MICRODATA,
    REGIONS,
    VIEW,
    Candidate,
    explain_neighbours,
    note_unit,
    warn_of_unit,
)
from sudare.advise.currency import note_currency
from sudare.errors import ParameterError, SchemaError, SudareError
from sudare.forms.reader import MOST_MEBIBYTES
from sudare.forms.textfile import read_text
from sudare.forms.toml import SyntaxStop, parse
from sudare.methods.base import Expected
from sudare.methods.figures import write_figure
from sudare.methods.kanon import KAnonymity
from sudare.methods.location import Location
from sudare.methods.microdata.microdata import CROWDED
from sudare.privacy import exact_epsilon
from sudare.privacy.promise import exact_epsilon_per_metre
from sudare.schema import MeshCells, Schema
from sudare.text import Text, join_clauses, text

EPSILONS = ("1/10", "1/2", "1")  # compared where none are named
MOST_ADVISED = Fraction(4)  # beyond, the worst case protects little: docs/how-to/choosing-epsilon.md
USEFUL = (
    0.05  # of an answer: readers of official tables take figures within 5 % as sound; docs/how-to/choosing-epsilon.md
)
WITHIN_95 = 1.96  # standard deviations that hold 95 of 100 answers
MOST_TREE_ATTRIBUTES = 4  # with more, most sums cross the levels of a tree
USUAL_CELLS = 10**6  # where no number of records is given, more cells count as too many


def decide(schema: Schema | None, file: Path, answers: Answers) -> Advice:
    """Recommend a method; what does not go together is refused."""
    if schema is None:
        if not answers.wants_places:
            raise ParameterError(
                "{file} is a map, which is used with --need places; for a table, give its schema", file=file
            )
        return advise_places(file, answers)
    if answers.wants_places:
        raise ParameterError(
            "{file} is a schema: devices that report places need a map file; see docs/how-to/location-map.md", file=file
        )
    return advise_kanon(schema, answers) if answers.truthful else advise(schema, answers)


def read_facts(file: Path) -> Schema | None:
    """Read a schema file; None stands for a map file, which has [grid] and is read by its method."""
    try:
        is_map = "grid" in parse(read_text(file, most_mebibytes=MOST_MEBIBYTES))[0]
    except (SyntaxStop, RecursionError):
        is_map = False  # the reader of schemas says what is wrong, and where
    return None if is_map else Schema.read(file)


# --- differential privacy ---------------------------------------------------------------------------------------------


def advise(schema: Schema, answers: Answers) -> Advice:
    """Recommend a method under differential privacy for a schema.

    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> advise(Schema(name="s", attributes=(sex,)), Answers(need="records", rows=10_000)).choice.words()
    'microdata, epsilon 1/10, neighbours replace, algorithm auto'
    """
    epsilons = tuple(exact_epsilon(epsilon) for epsilon in answers.epsilons or EPSILONS)
    candidates = _rank_candidates(schema, answers, epsilons)
    admitted, notes = _admit(candidates, schema, answers, epsilons[0])
    if not admitted:
        raise ParameterError("no method can publish a table of this schema: {reasons}", reasons=join_clauses(notes))
    chosen, *others = admitted
    expected = tuple((epsilon, _expect(chosen, schema, answers, epsilon)) for epsilon in epsilons)
    epsilon, advice = _choose_epsilon(expected)
    other = others[0] if others else None
    return Advice(
        choice=chosen.choose(epsilon, answers),
        runner_up=None if other is None else other.choose(epsilon, answers),
        runner_up_if="" if other is None else other.say_when_better(answers),
        why=(*chosen.explain(schema, answers, chosen is candidates[0]), explain_neighbours(answers)),
        lost=tuple(chosen.list_losses(answers)),
        notes=(*note_unit(schema, answers), *notes, *advice, *note_currency(chosen, schema, answers, epsilon)),
        warnings=warn_of_unit(schema, answers),
        expected=tuple((str(epsilon), error) for epsilon, error in expected),
        budget=2 * epsilon,
        uses=chosen.list_uses(answers),
    )


def _rank_candidates(schema: Schema, answers: Answers, epsilons: tuple[Fraction, ...]) -> list[Candidate]:
    """List the methods that serve a need, the best first."""
    match answers.need:
        case "records":
            return [VIEW, MICRODATA] if _is_drowned(schema, answers, epsilons) else [MICRODATA, VIEW]
        case "counts" if is_crowded(schema, answers.rows):
            return [REGIONS, VIEW] if _has_regions(schema) else [VIEW, REGIONS]
        case "counts":
            return [CELLS, MICRODATA, REGIONS]
        case "region-sums" if len(schema.attributes) <= 2:
            return [REGIONS, CELLS]
        case "region-sums":
            is_thin = schema.possible_size > (answers.rows or USUAL_CELLS)
            return [VIEW, REGIONS] if is_thin and not _has_regions(schema) else [REGIONS, VIEW, CELLS]
        case "queries":
            return [VIEW, REGIONS]
        case _:
            return [VIEW, MICRODATA]


def _has_regions(schema: Schema) -> bool:
    """Tell whether a table has levels to measure: few attributes, one of them with a mesh or a hierarchy, or two."""
    grouped = any(
        attribute.hierarchy is not None or isinstance(attribute.domain, MeshCells) for attribute in schema.attributes
    )
    return len(schema.attributes) <= 2 or (grouped and len(schema.attributes) <= MOST_TREE_ATTRIBUTES)


def is_crowded(schema: Schema, rows: int | None) -> bool:
    """Tell whether there are far more cells than records: then single cells are noise, whatever the method."""
    most = CROWDED * rows if rows is not None else USUAL_CELLS
    return schema.size > most and schema.possible_size > most


def _is_drowned(schema: Schema, answers: Answers, epsilons: tuple[Fraction, ...]) -> bool:
    """Tell whether noise in every cell drowns the records, at every epsilon that would be advised."""
    if answers.rows is None or is_crowded(schema, answers.rows):
        return is_crowded(schema, answers.rows)
    try:
        return _expect(MICRODATA, schema, answers, most_advised(epsilons)).is_small is False
    except SudareError:
        return True


def _expect(candidate: Candidate, schema: Schema, answers: Answers, epsilon: Fraction) -> Expected:
    error = candidate.make(epsilon, answers.neighbours).expect(schema, rows=answers.rows)
    return error if error is not None else Expected(words=text("not known before the data"))


def _admit(
    candidates: list[Candidate], schema: Schema, answers: Answers, epsilon: Fraction
) -> tuple[list[Candidate], list[Text]]:
    """Keep the methods that take the schema; for the others tell why they do not."""
    admitted, notes = [], []
    for candidate in candidates:
        try:
            candidate.make(epsilon, answers.neighbours).preview(schema)
        except SudareError as error:
            notes.append(text("{method} cannot be used: {problem}", method=candidate.publish, problem=error))
        else:
            admitted.append(candidate)
    return admitted, notes


def most_advised(epsilons: tuple[Fraction, ...]) -> Fraction:
    """Find the largest epsilon that is advised, or the smallest if none is.

    >>> most_advised((Fraction(1, 2), Fraction(1), Fraction(10)))
    Fraction(1, 1)
    """
    return max([epsilon for epsilon in epsilons if epsilon <= MOST_ADVISED] or [min(epsilons)])


def _choose_epsilon(expected: tuple[tuple[Fraction, Expected], ...]) -> tuple[Fraction, list[Text]]:
    """Choose the smallest epsilon at which the reader's answers are useful; nothing above 4 is advised.

    Useful: the error is small, and a usual answer to the question asked (a cell, a sum over a region, the count of a
    value) lies within `USEFUL` of the truth in 95 of 100 cases.
    """
    ordered = sorted(expected, key=lambda pair: pair[0])
    allowed = [(epsilon, error) for epsilon, error in ordered if epsilon <= MOST_ADVISED]
    if not allowed:
        lowest = min(epsilon for epsilon, _ in expected)
        return lowest, [text("an epsilon above 4 protects little in the worst case; use a smaller one")]
    if allowed[0][1].is_small is None:
        middle = allowed[len(allowed) // 2][0]
        return middle, [text("give a rough number of records (--rows) to see which epsilon is enough")]
    small = [(epsilon, error) for epsilon, error in allowed if error.is_small]
    if not small:
        return allowed[-1][0], [
            text(
                "the error is not small at any of these epsilons: declare coarser bins, or publish fewer attributes"
                " with --by"
            )
        ]
    useful = [(epsilon, error) for epsilon, error in small if _find_margin(error) <= USEFUL]
    epsilon, error = useful[0] if useful else small[-1]
    return epsilon, _explain_epsilon(epsilon, error, allowed, is_useful=bool(useful))


def _find_margin(error: Expected) -> float:
    """Give how far a usual answer may be off in 95 of 100 cases, as a share of it."""
    return 0.0 if error.relative is None else WITHIN_95 * error.relative


def _explain_epsilon(
    epsilon: Fraction, error: Expected, compared: list[tuple[Fraction, Expected]], *, is_useful: bool
) -> list[Text]:
    """Say how far answers are off at this epsilon, and at the next smaller one."""
    if error.relative is None:
        return []
    margin = _write_share(_find_margin(error))
    if not is_useful:
        return [
            text(
                "epsilon {epsilon} is the largest of those compared that is advised: a usual answer is then within"
                " {margin} of the truth in 95 of 100 cases",
                epsilon=epsilon,
                margin=margin,
            )
        ]
    smaller = [(lower, other) for lower, other in compared if lower < epsilon]
    if not smaller:
        return []
    lower, other = smaller[-1]
    return [
        text(
            "epsilon {epsilon}: a usual answer is within {margin} of the truth in 95 of 100 cases; with epsilon {lower}"
            " it would be {other}",
            epsilon=epsilon,
            margin=margin,
            lower=lower,
            other=_write_share(_find_margin(other)),
        )
    ]


def _write_share(share: float) -> str:
    """Write a share with the digits that matter.

    >>> _write_share(0.0375), _write_share(0.25), _write_share(3.1)
    ('3.8%', '25%', '310%')
    """
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


# --- true rows: k-anonymity, with what is known of it before the data -------------------------------------------------


K = 5  # recommended: no class of fewer rows
KS = (5, 10, 20)  # compared
SUPPRESSED = "0.05"  # share of the rows that may be left out
Parameters = dict[str, str | tuple[str, ...]]


def advise_kanon(schema: Schema, answers: Answers) -> Advice:
    """Recommend k-anonymity: parameters that the schema can take, and what several k would ask for.

    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")), role="quasi")
    >>> advise_kanon(Schema(name="s", attributes=(sex,)), Answers(need="records", truthful=True)).choice.words()
    'kanon, k 5, recoding mondrian'
    """
    parameters = _choose_recoding(schema)
    epsilon = most_advised(tuple(exact_epsilon(epsilon) for epsilon in answers.epsilons or EPSILONS))
    return Advice(
        choice=Choice(publish=KAnonymity.name, parameters={"k": str(K), **parameters}),
        runner_up=MICRODATA.choose(epsilon, answers),
        runner_up_if=text("if synthetic records are good enough: the promise is then differential privacy, which"
                          " holds across several releases"),
        why=tuple(_explain_kanon(schema, parameters)),
        lost=(
            text("fine values: how much is lost depends on the data, and is reported when it is published."),
            text("the stronger promise: k-anonymity is not differential privacy. It does not hold across several"
                 " releases, and does not hide what the rows of a class have in common."),
        ),
        notes=(*note_unit(schema, answers, is_noisy=False), *_note_kanon(schema, parameters)),
        warnings=warn_of_unit(schema, answers),
        expected=tuple((str(k), _make_kanon(k, parameters).expect(schema, rows=answers.rows)) for k in KS),
        name="k",
    )  # fmt: skip


def _choose_recoding(schema: Schema) -> Parameters:
    has_roles = any(attribute.role == "quasi" for attribute in schema.attributes)
    others = tuple(attribute.name for attribute in schema.attributes if attribute.role != "sensitive")
    named: Parameters = {} if has_roles else {"quasi": others}
    if not others:
        raise ParameterError(
            "all attributes are sensitive, so none is left as a quasi-identifier; check the roles in the schema"
        )
    try:
        _make_kanon(K, {"recoding": "full", **named}).preview(schema)
    except SchemaError:  # a quasi-identifier without a hierarchy
        return {"recoding": "mondrian", **named}
    return {"recoding": "full", "max_suppressed": SUPPRESSED, **named}


def _make_kanon(k: int, parameters: Parameters) -> KAnonymity:
    given: dict[str, Any] = dict(parameters)
    return KAnonymity(k=k, **given)


def _explain_kanon(schema: Schema, parameters: Parameters) -> list[Text]:
    names = ", ".join(_make_kanon(K, parameters).preview(schema).quasi)
    lines = [
        text("the published rows must be true rows: k-anonymity adds no noise, it makes values coarser."),
        text("others may know {names}: every combination of them is then shared by at least k rows.", names=names),
    ]
    if parameters["recoding"] == "full":
        return [
            *lines,
            text("recoding full: every attribute has a hierarchy, and all its values are generalised to one level."),
        ]
    return [*lines, text("recoding mondrian: some attributes have no hierarchy; ranges of values need none.")]


def _note_kanon(schema: Schema, parameters: Parameters) -> list[Text]:
    notes = [
        text(
            "whether a k can be reached, and at what loss, is known only from the data or from a history of"
            " earlier runs (`sudare predict`)"
        )
    ]
    if "quasi" in parameters:
        notes.append(
            text(
                'no attribute has role = "quasi", so all attributes that are not sensitive are taken as'
                " quasi-identifiers; set the roles in the schema"
            )
        )
    for attribute in schema.attributes:
        if attribute.role == "sensitive":
            sensitive = "{name} is sensitive: add l-diversity with --criteria {criterion}"
            criterion = shlex.quote(f"l=2,{attribute.name}")
            notes.append(text(sensitive, name=attribute.name, criterion=criterion))
    return notes


# --- places that devices report to somebody they do not trust ---------------------------------------------------------


EPSILONS_PER_METRE = ("0.005", "0.02", "0.05")  # compared where none are named
NEAR = 0.05  # of the way across the map: a report that is off by no more tells where somebody is, roughly


def advise_places(map_file: Path, answers: Answers) -> Advice:
    """Recommend a mode and an epsilon per metre for a map."""
    map_facts = Location.read_facts(map_file)
    epsilons = [exact_epsilon_per_metre(epsilon) for epsilon in answers.epsilons or EPSILONS_PER_METRE]
    methods = [(epsilon, Location(epsilon_per_metre=epsilon, mode="sharp")) for epsilon in epsilons]
    expected = [(epsilon, method.expect(map_facts)) for epsilon, method in methods]
    epsilon = _choose_epsilon_per_metre(expected)
    cells = expected[0][1].figures
    return Advice(
        choice=Choice(publish=Location.name, parameters={"epsilon_per_metre": str(epsilon), "mode": "sharp"}),
        runner_up=Choice(publish=Location.name, parameters={"epsilon_per_metre": str(epsilon), "mode": "fair"}),
        runner_up_if=text("if people at the edges of the map, on coasts and islands, must be as hard to find as"
                          " others"),
        why=(
            text("nobody is trusted with the true places, so each device adds the noise itself."),
            text("mode sharp: on this map it has the least noise of all modes for the same promise."),
        ),
        lost=(
            text("single places: a report is a cell near the true one. From many reports, counts can be estimated."),
            text("several reports of one person together tell more: the promise is for one report."),
        ),
        notes=(
            text("the map has {cells} cells, {reportable} of which can be reported", cells=write_figure(cells["cells"]),
                reportable=write_figure(cells["reportable"])),
            text("if an office may hold the true places, a table by mesh tells far more: give a schema instead of"
                 " a map"),
        ),
        expected=tuple((str(epsilon), error) for epsilon, error in expected),
        name="epsilon_per_metre",
    )  # fmt: skip


def _choose_epsilon_per_metre(expected: list[tuple[Fraction, Expected]]) -> Fraction:
    """Choose the smallest epsilon whose reports are near; else the largest that still hides somebody."""
    ordered = sorted(expected, key=lambda pair: pair[0])
    sound = [(epsilon, error.figures) for epsilon, error in ordered if error.is_small] or [
        (epsilon, error.figures) for epsilon, error in ordered
    ]
    near = [
        epsilon for epsilon, figures in sound if figures["expected_distance_metres"] <= NEAR * figures["across_metres"]
    ]
    return near[0] if near else sound[-1][0]
