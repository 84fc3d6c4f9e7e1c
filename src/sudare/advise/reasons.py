"""Why a method is recommended and what is lost with it, in sentences that docs/how-to/choose-a-method.md bears out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sudare.methods.figures import write_figure
from sudare.schema import Schema
from sudare.text import Text, text

if TYPE_CHECKING:
    from sudare.advise.choose import Answers


def reasons(
    publish: str, mode: Mapping[str, str], schema: Schema, answers: Answers, *, is_first: bool = True
) -> list[Text]:
    """Say in two to four sentences why; `is_first` unless a better method does not take the schema."""
    match publish:
        case "microdata":
            told = _why_microdata(schema, answers, is_first)
        case "view":
            told = _why_view(schema, answers)
        case _:
            told = _why_table(mode, schema, answers)
    return [*told, _why_neighbours(answers)]


def _why_microdata(schema: Schema, answers: Answers, is_first: bool) -> list[Text]:
    told = [
        text(
            "microdata has the columns of the table and can be counted, crossed and plotted with any tool; no row of it"
            " comes from a row of the table."
        )
    ]
    if answers.rows is not None and is_first:
        told.append(
            text(
                "{cells} cells for about {rows} records are few enough to be measured one by one.",
                cells=write_figure(schema.possible_size),
                rows=write_figure(answers.rows),
            )
        )
    return told


def _why_view(schema: Schema, answers: Answers) -> list[Text]:
    told = []
    if answers.need == "records" and answers.rows is None:
        told.append(
            text(
                "with {cells} cells, noise in every cell would drown the records of a usual table; a view measures"
                " values and pairs of attributes instead, and records are drawn from it.",
                cells=write_figure(schema.possible_size),
            )
        )
    elif answers.need == "records":
        told.append(
            text(
                "with {cells} cells for about {rows} records, noise in every cell would drown the records; a view"
                " measures values and pairs of attributes instead, and records are drawn from it.",
                cells=write_figure(schema.possible_size),
                rows=write_figure(answers.rows or 0),
            )
        )
    elif answers.need in ("counts", "region-sums"):
        told.append(
            text(
                "{attributes} attributes have {cells} cells: most sums cross the levels that a table would measure; a"
                " view measures values and pairs of attributes, and answers every sum with an interval.",
                attributes=len(schema.attributes),
                cells=write_figure(schema.possible_size),
            )
        )
    elif answers.need == "sample":
        told.append(text("a view is paid for once; as many records as wanted are then drawn from it for nothing."))
    else:
        told.append(
            text("a view is paid for once and then answers any count that anybody asks, each with an interval.")
        )
    told.append(
        text(
            "method model: on the data sets of the paper its error is several times below that of blocks"
            " (docs/explanations/view.md)."
        )
    )
    return told


def _why_table(mode: Mapping[str, str], schema: Schema, answers: Answers) -> list[Text]:
    if mode["focus"] == "cells":
        told = [
            text("single counts are asked for: a table publishes them, and focus cells spends epsilon on the cells."),
        ]
    elif answers.need == "counts":
        told = [
            text(
                "with {cells} cells single ones are noise whatever is done; focus regions keeps their sums near the"
                " truth.",
                cells=write_figure(schema.possible_size),
            )
        ]
    elif answers.need == "queries":
        told = [
            text(
                "any count can be added up from a table of counts, and sums over declared groups are measured"
                " themselves."
            ),
        ]
    else:
        told = [
            text("sums are asked for: a table measures them level by level, instead of adding up many noisy cells."),
        ]
    grouped = [one.name for one in schema.attributes if one.hierarchy is not None]
    if grouped:
        told.append(text("the declared groups of {names} become levels of its tree.", names=", ".join(grouped)))
    told.append(
        text(
            "method tree: in the measurements of docs/explanations/table.md its error is below that of the wavelet at"
            " every size of region."
        )
    )
    return told


def _why_neighbours(answers: Answers) -> Text:
    if answers.hide_number:
        return text("neighbours add-remove: the number of records is protected too, and measured with noise.")
    return text("neighbours replace, the default: the number of records may be known.")


def losses(publish: str, mode: Mapping[str, str], answers: Answers) -> list[Text]:
    """Say what is lost."""
    match publish:
        case "microdata":
            return [
                text("rare cells: every count is off by the noise, and small counts come out too large in the mean.")
            ]
        case "view":
            told = [text("what three and more attributes have in common beyond their pairs.")]
            if answers.need in ("records", "sample"):
                told.append(text("records are drawn from the view: they are as right as its answers are."))
            return told
        case _:
            single = text(
                "single records: counts are published, and no count is below 0, so empty cells come out too high."
            )
            return [single] if mode["focus"] == "cells" else [single, text("single cells are noisier than their sums.")]


def otherwise(publish: str, mode: Mapping[str, str], answers: Answers) -> Text:
    """Say when the runner-up is the better choice."""
    match publish, mode.get("focus"):
        case "microdata", _ if answers.need == "records":
            return text("if every cell must be measured by itself, though many records will lie where nobody is")
        case "microdata", _:
            return text("if people want records as a file, with the columns of the table")
        case "view", _:
            return text("if questions are not known yet, or cross many attributes")
        case "table", "both":
            return text("if single cells matter as much as sums")
        case "table", "cells":
            return text("if only single cells matter")
        case _:
            return text("if sums must add up exactly at every level")


def warnings(schema: Schema, answers: Answers) -> tuple[Text, ...]:
    """Warn of a promise that would protect too little."""
    if schema.unit.kind != "row" or not answers.people_may_repeat:
        return ()
    return (
        text(
            "a person may have several rows, but the schema protects a row. Declare the person before you publish:"
            ' [unit] kind = "person", column, max_rows'
        ),
    )


def unit_notes(schema: Schema, answers: Answers, *, is_noisy: bool = True) -> list[Text]:
    """Say what the schema's unit and origin mean for the release; `is_noisy` unless it has no noise to speak of."""
    told = []
    if schema.unit.kind == "row" and answers.people_may_repeat is None:
        told.append(text('this supposes that nobody has more than one row; else declare [unit] kind = "person"'))
    if is_noisy and schema.unit.kind == "person" and schema.unit.max_rows > 1:
        told.append(
            text(
                "noise is about {rows} times that of one row a person, since max_rows is {rows}; a smaller max_rows"
                " cuts more and blurs less",
                rows=schema.unit.max_rows,
            )
        )
    if schema.origin == "inferred":
        told.append(
            text('the schema was inferred from the data: check it and set inferred = "confirmed" before you publish')
        )
    return told
