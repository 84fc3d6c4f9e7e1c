"""What a source can do, and what it tells the steward. The only room that sees rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sqlglot import exp

from sudare.counts import Counts
from sudare.counts.relabelling import Relabelling
from sudare.errors import SourceError
from sudare.schema import Schema
from sudare.schema.arrays import Labels
from sudare.sources.engine import Column
from sudare.sources.sql import (
    Expression,
    all_of,
    call,
    cast,
    choose,
    literal,
    matches_pattern,
    narrow,
    raw_column,
    read_text,
)
from sudare.text import Text, text
from sudare.text.cards import card

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0 to 1."""

# --- what can be wrong with rows ----------------------------------------------------------------------------------

MISSING = text("missing, but missing is not declared")
UNREADABLE = text("not a value of this kind")
OUTSIDE = text("outside the declared values")
TAKEN_AS_OTHER = text("outside the declared values, taken as (other)")
CLAMPED = text("outside the declared range, taken to the nearest end")
IMPOSSIBLE = text("a combination that is declared impossible")
NO_COLUMN = text("declared, but not a column of the data")
NO_PERSON = text("rows without a person")
NO_COUNT = text("not a whole number, 0 or more")
REPEATS = text("an identifier that repeats, while the unit is a row")
WRONG_TYPE = text("a type of column that cannot be read")

TOLERATED = frozenset({TAKEN_AS_OTHER, CLAMPED})
"""Problems for which the schema declares what to do: they are reported, and the rows are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Misfit:
    """Rows that do not fit: which attribute, in what way, how many, and a few examples. For the steward's eyes only."""

    attribute: str
    problem: Text
    rows: int
    examples: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Tell whether such rows keep the table from being counted."""
        return self.problem not in TOLERATED


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """Everything in the data that does not fit the schema. Holds values of the table: it stays with the steward.

    `notes` tell what is good to know and no problem.

    >>> findings = Findings(problems=(Misfit(attribute="age", problem=OUTSIDE, rows=2, examples=("130", "-1")),))
    >>> findings.fits, findings.without_examples().problems[0].examples
    (False, ())
    """

    problems: tuple[Misfit, ...] = ()
    notes: tuple[Text, ...] = ()

    @property
    def fits(self) -> bool:
        """Tell whether every row can be counted."""
        return not any(problem.is_refused for problem in self.problems)

    def _repr_html_(self) -> str:
        """Show the findings in a notebook: examples are values of the table, so they stay with the steward."""
        rows = [(misfit.attribute, misfit.problem, f"{misfit.rows:,}", ", ".join(misfit.examples))
                for misfit in self.problems]  # fmt: skip
        return card(
            text("The table fits its schema") if self.fits else text("The table does not fit its schema"),
            notes=self.notes,
            columns=[text("attribute"), text("problem"), text("rows"), text("examples")],
            rows=rows,
            warning=text("Holds values of the table: for the steward only.") if rows else "",
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the findings as plain values for a program; texts as English templates with their values."""
        problems = [
            {
                "attribute": misfit.attribute,
                "problem": misfit.problem.template,
                "rows": misfit.rows,
                "examples": misfit.examples,
            }
            for misfit in self.problems
        ]
        notes = [{"text": note.template, "values": dict(note.values)} for note in self.notes]
        return {"problems": problems, "notes": notes, "fits": self.fits}

    def without_examples(self) -> Findings:
        """Give the same findings without a value of the table."""
        return dataclasses.replace(
            self, problems=tuple(dataclasses.replace(problem, examples=()) for problem in self.problems)
        )


class RecodedRows(Protocol):
    """The table with other values in place of its own: ready to be written, never held in memory."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns that will be written, in order."""

    def write(self, path: str | Path, *, shuffle: bool = True) -> Path:
        """Write the rows to a new Parquet or CSV file."""


class Source(Protocol):
    """A handle to rows in an engine. Methods see it as `counts.Countable`; k-anonymity also recodes and writes."""

    @property
    def schema(self) -> Schema:
        """The public facts of the rows."""

    def count(self, by: Sequence[str] | None = None) -> Counts:
        """Count the rows over the chosen attributes (all of them by default), in the order asked for."""

    def check(self) -> Findings:
        """Tell everything that does not fit the schema, with counts and examples: for the steward's eyes only."""

    def recode(self, levels: Mapping[str, int], *, others: bool = False) -> RecodedRows:
        """Replace values by the labels of a level of their hierarchy."""

    def apply(self, labels: Mapping[str, Labels], *, others: bool = False) -> RecodedRows:
        """Replace values by given labels, one for each code of the attribute."""

    def relabel(
        self, relabelling: Relabelling, *, names: Sequence[str] | None = None, others: bool = False
    ) -> RecodedRows:
        """Replace values by labels, and those of some combinations by the labels of their group or by nothing."""

    def write(self, path: str | Path, *, shuffle: bool = True) -> Path:
        """Write the rows with values as the schema labels them: `recode({}).write(path)`."""

    def close(self) -> None:
        """Give back memory and temporary files."""


# --- the column of counts of a table that is already aggregated -----------------------------------------------------

_WHOLE_NUMBER = r"\+?[0-9]{1,18}(\.0{0,20})?"


def read_count(column: Column) -> Expression:
    """Read the value of the column as a whole number, 0 or more; NULL where it is none.

    >>> read_count(Column(name="n", column_id="c1", family="integer", type="BIGINT")).sql("duckdb")
    'CASE WHEN r.c1 >= 0 THEN CAST(r.c1 AS BIGINT) END'
    """
    value = raw_column(column.column_id)
    is_positive = exp.GTE(this=value, expression=literal(0))
    match column.family:
        case "integer":
            return choose([(is_positive, cast(value.copy(), "BIGINT"))])
        case "text":
            return choose([(matches_pattern(value, _WHOLE_NUMBER), read_text(value.copy(), "BIGINT"))])
        case "wide":
            return choose([(is_positive, narrow(value.copy()))])
        case "float" | "decimal":
            is_whole = exp.EQ(this=value.copy(), expression=call("FLOOR", value.copy()))
            is_exact = exp.LT(this=value.copy(), expression=literal(2**53))
            return choose([(all_of(is_positive, is_whole, is_exact), cast(value.copy(), "BIGINT"))])
        case _:
            raise SourceError(
                "column {column} has type {type}; a column of counts holds whole numbers",
                column=column.name,
                type=column.type,
            )
