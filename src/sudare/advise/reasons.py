"""Why a method is recommended and what is lost with it, in sentences that docs/how-to/choose-a-method.md bears out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sudare.methods.figures import write_figure
from sudare.schema import Schema
from sudare.text import say

if TYPE_CHECKING:
    from sudare.advise.choose import Answers


def reasons(
    publish: str, mode: Mapping[str, str], schema: Schema, answers: Answers, *, is_first: bool = True
) -> list[str]:
    """Say in two to four sentences why; `is_first` unless a better method does not take the schema."""
    match publish:
        case "microdata":
            told = _why_microdata(schema, answers, is_first)
        case "view":
            told = _why_view(schema, answers)
        case _:
            told = _why_table(mode, schema, answers)
    return [*told, _why_neighbours(answers)]


def _why_microdata(schema: Schema, answers: Answers, is_first: bool) -> list[str]:
    told = [
        say(
            "microdata has the columns of the table and can be counted, crossed and plotted with any tool; no row of it"
            " comes from a row of the table."
        )
    ]
    if answers.rows is not None and is_first:
        told.append(
            say(
                "{cells} cells for about {rows} records are few enough to be measured one by one.",
                cells=write_figure(schema.possible_size),
                rows=write_figure(answers.rows),
            )
        )
    return told


def _why_view(schema: Schema, answers: Answers) -> list[str]:
    told = []
    if answers.need == "records" and answers.rows is None:
        told.append(
            say(
                "with {cells} cells, noise in every cell would drown the records of a usual table; a view measures"
                " values and pairs of attributes instead, and records are drawn from it.",
                cells=write_figure(schema.possible_size),
            )
        )
    elif answers.need == "records":
        told.append(
            say(
                "with {cells} cells for about {rows} records, noise in every cell would drown the records; a view"
                " measures values and pairs of attributes instead, and records are drawn from it.",
                cells=write_figure(schema.possible_size),
                rows=write_figure(answers.rows or 0),
            )
        )
    elif answers.need in ("counts", "region-sums"):
        told.append(
            say(
                "{attributes} attributes have {cells} cells: most sums cross the levels that a table would measure; a"
                " view measures values and pairs of attributes, and answers every sum with an interval.",
                attributes=len(schema.attributes),
                cells=write_figure(schema.possible_size),
            )
        )
    elif answers.need == "sample":
        told.append(say("a view is paid for once; as many records as wanted are then drawn from it for nothing."))
    else:
        told.append(say("a view is paid for once and then answers any count that anybody asks, each with an interval."))
    told.append(
        say(
            "method model: on the data sets of the paper its error is several times below that of blocks"
            " (docs/explanations/view.md)."
        )
    )
    return told


def _why_table(mode: Mapping[str, str], schema: Schema, answers: Answers) -> list[str]:
    if mode["focus"] == "cells":
        told = [
            say("single counts are asked for: a table publishes them, and focus cells spends epsilon on the cells."),
        ]
    elif answers.need == "counts":
        told = [
            say(
                "with {cells} cells single ones are noise whatever is done; focus regions keeps their sums near the"
                " truth.",
                cells=write_figure(schema.possible_size),
            )
        ]
    elif answers.need == "queries":
        told = [
            say(
                "any count can be added up from a table of counts, and sums over declared groups are measured"
                " themselves."
            ),
        ]
    else:
        told = [
            say("sums are asked for: a table measures them level by level, instead of adding up many noisy cells."),
        ]
    grouped = [one.name for one in schema.attributes if one.hierarchy is not None]
    if grouped:
        told.append(say("the declared groups of {names} become levels of its tree.", names=", ".join(grouped)))
    told.append(
        say(
            "method tree: in the measurements of docs/explanations/table.md its error is below that of the wavelet at"
            " every size of region."
        )
    )
    return told


def _why_neighbours(answers: Answers) -> str:
    if answers.hide_number:
        return say("neighbours add-remove: the number of records is protected too, and measured with noise.")
    return say("neighbours replace, the default: the number of records may be known.")


def losses(publish: str, mode: Mapping[str, str], answers: Answers) -> list[str]:
    """Say what is lost."""
    match publish:
        case "microdata":
            return [
                say("rare cells: every count is off by the noise, and small counts come out too large in the mean.")
            ]
        case "view":
            told = [say("what three and more attributes have in common beyond their pairs.")]
            if answers.need in ("records", "sample"):
                told.append(say("records are drawn from the view: they are as right as its answers are."))
            return told
        case _:
            single = say(
                "single records: counts are published, and no count is below 0, so empty cells come out too high."
            )
            return [single] if mode["focus"] == "cells" else [single, say("single cells are noisier than their sums.")]


def otherwise(publish: str, mode: Mapping[str, str], answers: Answers) -> str:
    """Say when the runner-up is the better choice."""
    match publish, mode.get("focus"):
        case "microdata", _ if answers.need == "records":
            return say("if every cell must be measured by itself, though many records will lie where nobody is")
        case "microdata", _:
            return say("if people want records as a file, with the columns of the table")
        case "view", _:
            return say("if questions are not known yet, or cross many attributes")
        case "table", "both":
            return say("if single cells matter as much as sums")
        case "table", "cells":
            return say("if only single cells matter")
        case _:
            return say("if sums must add up exactly at every level")


def warnings(schema: Schema, answers: Answers) -> tuple[str, ...]:
    """Warn of a promise that would protect too little."""
    if schema.unit.kind != "row" or not answers.people_may_repeat:
        return ()
    return (
        say(
            "a person may have several rows, but the schema protects a row. Declare the person before you publish:"
            ' [unit] kind = "person", column, max_rows'
        ),
    )


def unit_notes(schema: Schema, answers: Answers, *, is_noisy: bool = True) -> list[str]:
    """Say what the schema's unit and origin mean for the release; `is_noisy` unless it has no noise to speak of."""
    told = []
    if schema.unit.kind == "row" and answers.people_may_repeat is None:
        told.append(say('this supposes that nobody has more than one row; else declare [unit] kind = "person"'))
    if is_noisy and schema.unit.kind == "person" and schema.unit.max_rows > 1:
        told.append(
            say(
                "noise is about {rows} times that of one row a person, since max_rows is {rows}; a smaller max_rows"
                " cuts more and blurs less",
                rows=schema.unit.max_rows,
            )
        )
    if schema.origin == "inferred":
        told.append(
            say('the schema was inferred from the data: check it and set inferred = "confirmed" before you publish')
        )
    return told
