"""What the steward answers, and the advice that comes of it: public facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sudare.errors import ParameterError
from sudare.methods.base import Expected
from sudare.privacy import Neighbours, exact_epsilon
from sudare.privacy.promise import exact_epsilon_per_metre
from sudare.text import Text, Words

Purpose = Literal["records", "counts", "region-sums", "queries", "sample", "places"]
NEEDS: tuple[Purpose, ...] = ("records", "counts", "region-sums", "queries", "sample", "places")
MOST_EPSILONS = 5  # to compare in one piece of advice
MOST_ROWS = 10**12  # records of a table; a larger number is a slip of the pen


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
            raise ParameterError("epsilons must be 1 to {most} values, separated by commas: 0.1,1", most=MOST_EPSILONS)
        for epsilon in self.epsilons or ():
            exact_epsilon_per_metre(epsilon) if self.wants_places else exact_epsilon(epsilon)

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
    """What is recommended, why, what is lost, and what error to expect for each epsilon or k.

    `uses` are commands that make use of the release; "{out}" in them stands for its directory.
    """

    choice: Choice
    runner_up: Choice | None
    runner_up_if: Words
    why: tuple[Text, ...]
    lost: tuple[Text, ...]
    notes: tuple[Text, ...]
    warnings: tuple[Text, ...] = ()
    expected: tuple[tuple[str, Expected], ...]
    budget: Fraction | None = None
    name: str = "epsilon"  # the parameter that `expected` goes through
    uses: tuple[tuple[str, ...], ...] = ()

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
                {self.name: value, "words": str(expected.words), "small": expected.is_small, **expected.figures}
                for value, expected in self.expected
            ],
            "budget": None if self.budget is None else str(self.budget),
        }
