"""`sudare choose`: which method, with which parameters, for a schema and a few answers. No data is opened.

The rules are those of docs/how-to/choose-a-method.md, in its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sudare.advise.reasons import losses, otherwise, reasons, unit_notes, warnings
from sudare.errors import ParameterError, SudareError
from sudare.methods.base import Expected
from sudare.methods.microdata import Microdata
from sudare.methods.microdata.microdata import CROWDED
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.privacy import Neighbours, exact_epsilon
from sudare.privacy.promise import exact_epsilon_per_metre
from sudare.schema import MeshCells, Schema
from sudare.text import Text, Words, join_clauses, text

Purpose = Literal["records", "counts", "region-sums", "queries", "sample", "places"]
NEEDS: tuple[Purpose, ...] = ("records", "counts", "region-sums", "queries", "sample", "places")
EPSILONS = ("1/10", "1/2", "1")
MOST_ADVISED = Fraction(4)  # beyond, the worst case protects little: docs/how-to/choosing-epsilon.md
MANY = 4  # attributes: with more, most sums cross the levels of a tree
USUAL_CELLS = 10**6  # where no number of records is given, more cells count as too many
MOST_EPSILONS = 5
MOST_ROWS = 10**12


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """What the steward says: public facts alone."""

    need: Purpose
    rows: int | None = None
    people_may_repeat: bool | None = None
    truthful: bool = False
    collector: Literal["trusted", "devices"] = "trusted"
    epsilons: tuple[str, ...] | None = None
    hide_number: bool = False

    def __post_init__(self) -> None:
        if self.rows is not None and not 1 <= self.rows <= MOST_ROWS:
            raise ParameterError("rows ({rows}) must be between 1 and {most}", rows=self.rows, most=MOST_ROWS)
        if self.epsilons is not None and not 1 <= len(self.epsilons) <= MOST_EPSILONS:
            raise ParameterError("give 1 to {most} epsilons, with commas: 0.1,1", most=MOST_EPSILONS)
        for one in self.epsilons or ():
            exact_epsilon_per_metre(one) if self.wants_places else exact_epsilon(one)

    @property
    def neighbours(self) -> Neighbours:
        """Add/remove where the number of records must not be known."""
        return "add-remove" if self.hide_number else "replace"

    @property
    def wants_places(self) -> bool:
        """Tell whether devices report places: then a map is asked for, not a schema."""
        return self.need == "places" or self.collector == "devices"


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A method and its parameters, as `sudare publish` and recipes call them."""

    publish: str
    parameters: Mapping[str, str | tuple[str, ...]]  # several names are a tuple: each may hold a comma

    def words(self) -> str:
        """Name it in a line."""
        given = {name: value if isinstance(value, str) else ",".join(value) for name, value in self.parameters.items()}
        return ", ".join([self.publish, *(f"{name} {value}" for name, value in given.items())])


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """What is recommended, why, what is lost, and what error to expect for each epsilon or k."""

    choice: Choice
    runner_up: Choice | None
    runner_up_if: Words
    why: tuple[Text, ...]
    lost: tuple[Text, ...]
    notes: tuple[Text, ...]
    warnings: tuple[Text, ...] = ()
    expected: tuple[tuple[str, Expected], ...]
    budget: Fraction | None = None
    name: str = "epsilon"  # what `expected` goes through

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program, sentences in the current language."""
        other = self.runner_up
        return {
            "recommended": {"publish": self.choice.publish, **self.choice.parameters},
            "runner_up": None if other is None else {"publish": other.publish, **other.parameters},
            "runner_up_if": str(self.runner_up_if),
            "why": [str(line) for line in self.why],
            "lost": [str(line) for line in self.lost],
            "notes": [str(line) for line in self.notes],
            "warnings": [str(line) for line in self.warnings],
            "expected": [
                {self.name: value, "words": str(one.words), "small": one.is_small, **one.figures}
                for value, one in self.expected
            ],
            "budget": None if self.budget is None else str(self.budget),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A method in a mode, whose epsilon is still open."""

    publish: str
    mode: Mapping[str, str]

    def method(self, epsilon: Fraction | str, neighbours: Neighbours) -> Any:
        """Build the method."""
        make: Any = {"microdata": Microdata, "table": Table, "view": View}[self.publish]
        return make(epsilon=epsilon, neighbours=neighbours, **self.mode)


MICRODATA = Candidate(publish="microdata", mode={"algorithm": "auto"})
VIEW = Candidate(publish="view", mode={"algorithm": "model"})
CELLS, REGIONS, BOTH = (
    Candidate(publish="table", mode={"algorithm": "tree", "focus": focus}) for focus in ("cells", "regions", "both")
)


def advise(schema: Schema, answers: Answers) -> Advice:
    """Recommend a method under differential privacy for a schema.

    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> told = advise(Schema(name="s", attributes=(sex,)), Answers(need="records", rows=10_000))
    >>> told.choice.words()
    'microdata, epsilon 1/10, neighbours replace, algorithm auto'
    """
    epsilons = tuple(exact_epsilon(one) for one in answers.epsilons or EPSILONS)
    candidates = _candidates(schema, answers, epsilons)
    admitted, notes = _admitted(candidates, schema, answers, epsilons[0])
    if not admitted:
        raise ParameterError("no method takes this schema: {reasons}", reasons=join_clauses(notes))
    chosen, *others = admitted
    expected = tuple((one, _expected(chosen, schema, answers, one)) for one in epsilons)
    epsilon, advice = _epsilon(expected)
    other = others[0] if others else None
    return Advice(
        choice=_choice(chosen, epsilon, answers),
        runner_up=None if other is None else _choice(other, epsilon, answers),
        runner_up_if="" if other is None else otherwise(other.publish, other.mode, answers),
        why=tuple(reasons(chosen.publish, chosen.mode, schema, answers, is_first=chosen is candidates[0])),
        lost=tuple(losses(chosen.publish, chosen.mode, answers)),
        notes=(*unit_notes(schema, answers), *notes, *advice),
        warnings=warnings(schema, answers),
        expected=tuple((str(one), told) for one, told in expected),
        budget=2 * epsilon,
    )


def _candidates(schema: Schema, answers: Answers, epsilons: tuple[Fraction, ...]) -> list[Candidate]:
    """The methods that serve a need, the best first."""
    match answers.need:
        case "records":
            return [VIEW, MICRODATA] if _drowns(schema, answers, epsilons) else [MICRODATA, VIEW]
        case "counts" if is_crowded(schema, answers.rows):
            return [REGIONS, VIEW] if _has_regions(schema) else [VIEW, REGIONS]
        case "counts":
            return [CELLS, MICRODATA, BOTH]
        case "region-sums" if len(schema.attributes) <= 2:
            return [REGIONS, BOTH]
        case "region-sums":
            is_thin = schema.possible_size > (answers.rows or USUAL_CELLS)
            return [VIEW, REGIONS] if is_thin and not _has_regions(schema) else [REGIONS, VIEW, BOTH]
        case "queries":
            return [VIEW, REGIONS]
        case _:
            return [VIEW, MICRODATA]


def _has_regions(schema: Schema) -> bool:
    """Tell whether a table has levels to measure: few attributes, one of them with a mesh or a hierarchy, or two."""
    grouped = any(one.hierarchy is not None or isinstance(one.domain, MeshCells) for one in schema.attributes)
    return len(schema.attributes) <= 2 or (grouped and len(schema.attributes) <= MANY)


def is_crowded(schema: Schema, rows: int | None) -> bool:
    """Tell whether there are far more cells than records: then single cells are noise, whatever the method."""
    most = CROWDED * rows if rows is not None else USUAL_CELLS
    return schema.size > most and schema.possible_size > most


def _drowns(schema: Schema, answers: Answers, epsilons: tuple[Fraction, ...]) -> bool:
    """Tell whether noise in every cell drowns the records, at every epsilon that would be advised."""
    if answers.rows is None or is_crowded(schema, answers.rows):
        return is_crowded(schema, answers.rows)
    try:
        return _expected(MICRODATA, schema, answers, most_advised(epsilons)).is_small is False
    except SudareError:
        return True


def _expected(candidate: Candidate, schema: Schema, answers: Answers, epsilon: Fraction) -> Expected:
    found: Expected = candidate.method(epsilon, answers.neighbours).expect(schema, rows=answers.rows)
    return found


def _admitted(
    candidates: list[Candidate], schema: Schema, answers: Answers, epsilon: Fraction
) -> tuple[list[Candidate], list[Text]]:
    """Keep the methods that take the schema; for the others tell why they do not."""
    good, notes = [], []
    for one in candidates:
        try:
            one.method(epsilon, answers.neighbours).preview(schema)
        except SudareError as error:
            notes.append(text("{method} was left out: {problem}", method=one.publish, problem=error))
        else:
            good.append(one)
    return good, notes


def most_advised(epsilons: tuple[Fraction, ...]) -> Fraction:
    """The largest epsilon that is advised, or the smallest if none is.

    >>> most_advised((Fraction(1, 2), Fraction(1), Fraction(10)))
    Fraction(1, 1)
    """
    return max([one for one in epsilons if one <= MOST_ADVISED] or [min(epsilons)])


def _epsilon(expected: tuple[tuple[Fraction, Expected], ...]) -> tuple[Fraction, list[Text]]:
    """The smallest epsilon with a small error; nothing above 4 is advised."""
    allowed = [(epsilon, told) for epsilon, told in sorted(expected, key=lambda one: one[0]) if epsilon <= MOST_ADVISED]
    if not allowed:
        lowest = min(epsilon for epsilon, _ in expected)
        return lowest, [text("an epsilon above 4 protects little in the worst case; ask for smaller ones")]
    if allowed[0][1].is_small is None:
        middle = allowed[len(allowed) // 2][0]
        return middle, [text("how many records there are, roughly, would tell which epsilon is enough: give --rows")]
    small = [epsilon for epsilon, told in allowed if told.is_small]
    if small:
        return small[0], []
    return allowed[-1][0], [
        text(
            "none of these epsilons makes the error small: declare coarser bins, or publish fewer attributes with --by"
        )
    ]


def _choice(candidate: Candidate, epsilon: Fraction, answers: Answers) -> Choice:
    given = {"epsilon": str(epsilon), "neighbours": answers.neighbours, **candidate.mode}
    return Choice(publish=candidate.publish, parameters=given)
