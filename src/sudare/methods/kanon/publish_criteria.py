"""Criteria as a steward types them: "l=3,disease", "t=0.2,income,ordered"."""

from __future__ import annotations

from collections.abc import Iterable

from sudare.errors import ParameterError
from sudare.methods.kanon.criteria import Criterion, Presence
from sudare.methods.kanon.criteria_sensitive import (
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    RecursiveDiversity,
)


def criterion(text: str) -> Criterion:
    """Read one criterion.

    l=3,disease               at least 3 different values of disease in every class
    entropy-l=2.5,disease     entropy of at least log 2.5
    recursive-l=3,c=2,disease the commonest value rarer than 2 times all but the 2 commonest
    t=0.2,income[,ordered]    distributed as in the whole table up to 0.2; equal, ordered or hierarchical distance
    presence=0.1..0.5         of the persons of a register who look alike, a share between both is in the table

    >>> criterion("l=3,disease").describe(), criterion("t=0.2,income,ordered").describe()
    ('distinct l = 3 of disease', 't = 0.2 of income, ordered distance')
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = dict(part.split("=", 1) for part in parts if "=" in part)
    words = [part for part in parts if "=" not in part]
    try:
        return _made({name.strip(): value.strip() for name, value in numbers.items()}, words)
    except (ValueError, KeyError):
        raise ParameterError(
            "criterion ({text}) must be like l=3,COLUMN or entropy-l=2,COLUMN or recursive-l=3,c=2,COLUMN or"
            " t=0.2,COLUMN or presence=0..0.5",
            text=text,
        ) from None


def _made(numbers: dict[str, str], words: list[str]) -> Criterion:
    match (sorted(numbers), words):
        case ["l"], [column]:
            return DistinctDiversity(attribute=column, l=int(numbers["l"]))
        case ["entropy-l"], [column]:
            return EntropyDiversity(attribute=column, l=float(numbers["entropy-l"]))
        case ["c", "recursive-l"], [column]:
            return RecursiveDiversity(attribute=column, c=float(numbers["c"]), l=int(numbers["recursive-l"]))
        case ["t"], [column]:
            return Closeness(attribute=column, t=float(numbers["t"]))
        case ["t"], [column, ("equal" | "ordered" | "hierarchical") as distance]:
            return Closeness(attribute=column, t=float(numbers["t"]), distance=distance)
        case ["presence"], []:
            low, high = numbers["presence"].split("..")
            return Presence(low=float(low), high=float(high))
    raise ValueError


def read_criteria(given: Iterable[Criterion | str]) -> tuple[Criterion, ...]:
    """Read texts, keep criteria.

    >>> [one.describe() for one in read_criteria(["l=2,disease"])]
    ['distinct l = 2 of disease']
    """
    return tuple(criterion(one) if isinstance(one, str) else one for one in given)
