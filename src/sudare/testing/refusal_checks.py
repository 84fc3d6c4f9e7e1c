"""Whether a release is made must tell nothing of the table: a refusal is an output too, and it has no noise.

Tables of one universe that could hardly differ more are published: all records in one cell, all apart, a neighbour of
each, and, where their number is private, none and many. All of them are published, or all are refused in the same words
from public facts, before anything is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.errors import SudareError
from sudare.noise import SeededRng
from sudare.privacy import Neighbours, Unrecorded
from sudare.schema import Schema
from sudare.testing.promise_checks import NO_TABLE, only_if, spends, takes_a_table
from sudare.testing.subject import Subject, Tabled, first_cells, require, schema_of, with_fields

RECORDS = 40
HUGE = (100,) * 10  # 1e20 cells: nearly all are empty, whatever the table
LARGE = Fraction(40)  # epsilon, at which noise reaches few of them: the first version refused some such tables


@only_if(spends, "k rows that cannot be found are no secret of one person")
@only_if(takes_a_table, NO_TABLE)
def whether_a_release_is_made_tells_nothing_of_the_table(subject: Subject) -> None:
    """On the facts of the subject, and on a huge domain with a large promise."""
    loud = with_fields(subject.method, **{_amount_of(subject.method): LARGE, **_without_selection(subject.method)})
    for relation in subject.relations:
        for method, schema in ((subject.method, subject.schema), (loud, schema_of(*HUGE))):
            _answers_alike(method, schema, relation)


def _answers_alike(method: Any, schema: Schema, relation: Neighbours) -> None:
    answers = {_answer(method, table, relation) for table in _make_tables(schema, relation)}
    require(len(answers) == 1, f"of two tables one is published and one refused, or in other words ({relation})")
    if answers != {""}:
        try:
            method.plan(schema, neighbours=relation)
        except SudareError:
            return
        raise AssertionError(f"a release is refused after the count, which the plan did not refuse ({relation})")


def _answer(method: Any, table: Counts, relation: Neighbours) -> str:
    """Publish; give what a refusal says, and nothing for a release."""
    try:
        method.publish(Tabled(table), ledger=Unrecorded(neighbours=relation), rng=SeededRng(1))
    except SudareError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _make_tables(schema: Schema, relation: Neighbours) -> Iterator[Counts]:
    """Make tables of one number of records; where that is private, also of others."""
    cells = first_cells(schema, most=RECORDS)
    apart, heavy = np.full(len(cells), RECORDS // len(cells)), np.zeros(len(cells), dtype=np.int64)
    apart[0] += RECORDS - apart.sum()
    heavy[0] = RECORDS
    moved = heavy.copy()
    moved[[0, -1]] += [-1, 1]
    values = [apart, heavy, moved]
    if relation == "add-remove":
        one_less = apart.copy()
        one_less[-1] -= 1
        values += [0 * heavy, one_less, 10 * heavy]
    for counts in values:
        yield Counts.build(schema, cells[counts > 0], counts[counts > 0])


def _amount_of(method: Any) -> str:
    """Name the parameter that the promise is given by."""
    return "epsilon" if getattr(method, "epsilon", None) is not None else "rho"


def _without_selection(method: Any) -> dict[str, Any]:
    """Publish all attributes of another schema."""
    return {"by": None} if "by" in method.parameters() else {}
