"""The methods that `choose` weighs up, each with why it is recommended, what is lost with it, and when it is better.

The sentences are borne out by docs/how-to/choose-a-method.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sudare.advise.answers import Answers, Choice
from sudare.methods.base import Method
from sudare.methods.figures import write_figure
from sudare.methods.registry import find_method
from sudare.privacy import Neighbours
from sudare.schema import Schema
from sudare.text import Text, text

SAMPLE = 1000  # records to draw where no number of records is given

Commands = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A method under differential privacy, its epsilon still open, and what there is to say about it.

    `explain` is given the schema, the answers, and whether no better method was left out.
    """

    publish: str
    mode: Mapping[str, str]
    explain: Callable[[Schema, Answers, bool], list[Text]]
    list_losses: Callable[[Answers], list[Text]]
    say_when_better: Callable[[Answers], Text]
    list_uses: Callable[[Answers], Commands] = lambda answers: ()

    def make(self, epsilon: Fraction | str, neighbours: Neighbours, *, delta: Fraction | None = None) -> Method:
        """Make the method; with a delta it counts in rho."""
        parameters: dict[str, Any] = {"epsilon": epsilon, "neighbours": neighbours, **self.mode}
        if delta is not None:
            parameters["delta"] = delta
        return find_method(self.publish)(**parameters)

    def choose(self, epsilon: Fraction, answers: Answers) -> Choice:
        """Name the method with its parameters."""
        given = {"epsilon": str(epsilon), "neighbours": answers.neighbours, **self.mode}
        return Choice(publish=self.publish, parameters=given)


# --- records ----------------------------------------------------------------------------------------------------------


def _explain_microdata(schema: Schema, answers: Answers, is_first: bool) -> list[Text]:
    reasons = [
        text(
            "microdata has the columns of the table, so any tool can tabulate and plot it; none of its rows is a"
            " row of the table."
        )
    ]
    if answers.rows is not None and is_first:
        reasons.append(
            text(
                "with {cells} cells for about {rows} records, every cell can be measured by itself.",
                cells=write_figure(schema.possible_size),
                rows=write_figure(answers.rows),
            )
        )
    return reasons


def _say_when_microdata(answers: Answers) -> Text:
    if answers.need == "records":
        return text(
            "if every cell must be measured by itself, even though many records will lie in cells that hold nobody"
        )
    return text("if people want a file of records with the columns of the table")


MICRODATA = Candidate(
    publish="microdata",
    mode={"algorithm": "auto"},
    explain=_explain_microdata,
    list_losses=lambda answers: [
        text("rare cells: every count carries noise, and small counts come out too large on average.")
    ],
    say_when_better=_say_when_microdata,
)


# --- a view -----------------------------------------------------------------------------------------------------------


def _explain_view(schema: Schema, answers: Answers, is_first: bool) -> list[Text]:
    model = text(
        "algorithm model: on the data sets of the paper its error is several times below that of blocks"
        " (docs/explanations/view.md)."
    )
    return [_explain_need_of_view(schema, answers), model]


def _explain_need_of_view(schema: Schema, answers: Answers) -> Text:
    cells = write_figure(schema.possible_size)
    match answers.need:
        case "records" if answers.rows is None:
            return text(
                "with {cells} cells, noise in every cell would hide the records of a typical table; a view"
                " measures values and pairs of attributes instead, and records are drawn from it.",
                cells=cells,
            )
        case "records":
            return text(
                "with {cells} cells for about {rows} records, noise in every cell would hide the records; a view"
                " measures values and pairs of attributes instead, and records are drawn from it.",
                cells=cells,
                rows=write_figure(answers.rows or 0),
            )
        case "counts" | "region-sums":
            return text(
                "{attributes} attributes have {cells} cells, and most sums cut across the levels that a table"
                " measures; a view measures values and pairs of attributes, and answers every sum with an interval.",
                attributes=len(schema.attributes),
                cells=cells,
            )
        case "sample":
            return text(
                "a view is paid for once; after that, any number of records can be drawn from it at no further cost."
            )
        case _:
            return text("a view is paid for once; after that, it answers any count, each with an interval.")


def _list_view_losses(answers: Answers) -> list[Text]:
    losses = [text("relations among three or more attributes that their pairs do not show.")]
    if answers.need in ("records", "sample"):
        losses.append(text("records are drawn from the view, so they are as accurate as its answers."))
    return losses


def _list_view_uses(answers: Answers) -> Commands:
    if answers.need in ("records", "sample"):
        return (("sample", "{out}", "-n", str(answers.rows or SAMPLE), "-o", "{out}.csv"),)
    return (("query", "{out}", "SELECT COUNT(*) FROM view"),)


VIEW = Candidate(
    publish="view",
    mode={"algorithm": "model"},
    explain=_explain_view,
    list_losses=_list_view_losses,
    say_when_better=lambda answers: text("if the questions are not known yet, or combine many attributes"),
    list_uses=_list_view_uses,
)


# --- a table of counts ------------------------------------------------------------------------------------------------


def _explain_table(schema: Schema, answers: Answers, is_first: bool) -> list[Text]:
    if answers.need == "counts":
        reasons = [
            text(
                "with {cells} cells, single cells are mostly noise by any method; sums are measured themselves, and"
                " stay near the truth.",
                cells=write_figure(schema.possible_size),
            )
        ]
    elif answers.need == "queries":
        reasons = [
            text(
                "any count can be added up from a table of counts, and sums over declared groups are measured directly."
            ),
        ]
    else:
        reasons = [
            text("sums are needed: a table measures them level by level, instead of adding up many noisy cells."),
        ]
    return [*reasons, *_explain_margins(schema)]


def _explain_cells(schema: Schema, answers: Answers, is_first: bool) -> list[Text]:
    counts = text("single counts are needed: a table publishes them, and workload cells spends epsilon on the cells.")
    return [counts, *_explain_margins(schema)]


def _explain_margins(schema: Schema) -> list[Text]:
    grouped = [attribute.name for attribute in schema.attributes if attribute.hierarchy is not None]
    levels = text("the declared groups of {names} are levels that are measured.", names=", ".join(grouped))
    margins = text("the noisy sums are published beside the table, so every figure has a margin of error.")
    return [levels, margins] if grouped else [margins]


SINGLE_RECORDS = text(
    "single records: only counts are published. No count is below 0, so empty cells come out too high."
)
SINGLE_CELLS = text("single cells: relative to their counts they are noisier than sums.")

CELLS = Candidate(
    publish="table",
    mode={"workload": "cells"},
    explain=_explain_cells,
    list_losses=lambda answers: [SINGLE_RECORDS],
    say_when_better=lambda answers: text("if only single cells matter"),
)
REGIONS = Candidate(
    publish="table",
    mode={"workload": "mix"},
    explain=_explain_table,
    list_losses=lambda answers: [SINGLE_RECORDS, SINGLE_CELLS],
    say_when_better=lambda answers: text("if sums must add up exactly at every level"),
)


# --- what goes with every method --------------------------------------------------------------------------------------


def explain_neighbours(answers: Answers) -> Text:
    """Say why tables are compared so."""
    if answers.hide_number:
        return text("neighbours add-remove: the number of records is protected too, and measured with noise.")
    return text("neighbours replace, the default: the number of records may be known.")


def warn_of_unit(schema: Schema, answers: Answers) -> tuple[Text, ...]:
    """Warn of a promise that would protect too little."""
    if schema.unit.kind != "row" or not answers.people_may_repeat:
        return ()
    return (
        text(
            "a person may have several rows, but the schema protects a row. Declare the person before you publish:"
            ' [unit] kind = "person", column, max_rows'
        ),
    )


def note_unit(schema: Schema, answers: Answers, *, is_noisy: bool = True) -> list[Text]:
    """Say what the schema's unit and origin mean for the release; `is_noisy` unless it has no noise to speak of."""
    notes = []
    if schema.unit.kind == "row" and answers.people_may_repeat is None:
        notes.append(text('this assumes that nobody has more than one row; otherwise declare [unit] kind = "person"'))
    if is_noisy and schema.unit.kind == "person" and schema.unit.max_rows > 1:
        notes.append(
            text(
                "max_rows is {rows}, so the noise is about {rows} times that for one row per person; a smaller"
                " max_rows drops more rows and adds less noise",
                rows=schema.unit.max_rows,
            )
        )
    if schema.origin == "inferred":
        notes.append(
            text('the schema was inferred from the data: check it and set inferred = "confirmed" before you publish')
        )
    return notes
