"""A first draft of a schema, from facts a source tells about its columns; a steward reads, corrects and confirms it.

The draft holds values of the table, so it is marked `inferred = true` and no private release takes it before it is
confirmed. Ends of ranges are rounded outwards; the comments say what to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sudare.errors import SchemaError
from sudare.messages import say
from sudare.schema.guesses import Guess, guess, quoted, repeats

__all__ = ["ColumnFacts", "propose"]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What a source saw in one column.

    `values` are all distinct texts (NULL and "" left out) if they are few, else None; then `sample` may hold some of
    them. `low` and `high` are the smallest and the largest number or day. `distinct` does not count missing values.
    """

    name: str
    type: Literal["text", "integer", "number", "date", "boolean"]
    distinct: int
    values: tuple[str, ...] | None = None
    low: object = None
    high: object = None
    has_missing: bool = False
    rows: int | None = None
    sample: tuple[str, ...] = ()


def propose(columns: Sequence[ColumnFacts], name: str) -> str:
    """Write a schema file for a steward to correct.

    >>> text = propose([ColumnFacts("sex", "text", 2, values=("F", "M"))], "people")
    >>> print(text[text.index("[[attribute]]") :].strip())
    [[attribute]]
    name = "sex"
    kind = "category"
    values = ["F", "M"]
    """
    if not columns:
        raise SchemaError("the data have no columns; nothing can be proposed. The first line must name them")
    person = next((one.name for one in columns if repeats(one)), "...")
    return "\n".join([*_head(name, person), *(line for column in columns for line in _table(column))]) + "\n"


def _head(name: str, person: str) -> list[str]:
    return [
        f"# {say('Proposed from the data: values below may tell about people.')}",
        f"# {say('Read every line, correct it, add values that could occur, and take out what only one person has.')}",
        "",
        "[sudare]",
        "schema = 1",
        f"name = {quoted(name or 'data')}",
        f'inferred = true  # {say("when all is right, write")}: inferred = "confirmed"',
        "",
        f"[unit]  # {say('who is protected')}",
        f'kind = "row"  # {say("if a person can have several rows, take these three lines instead")}:',
        '# kind = "person"',
        f"# column = {quoted(person)}",
        "# max_rows = 5",
        "",
    ]


def _table(column: ColumnFacts) -> list[str]:
    found: Guess = guess(column)
    lines = [f"# {comment}" for comment in found.comments]
    lines += ["[[attribute]]", f"name = {quoted(column.name)}"]
    lines += [f"{key} = {value}" for key, value in found.keys.items()]
    return [*lines, ""]
