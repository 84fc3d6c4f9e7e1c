"""Ask a published view by point and click or in SQL: every answer with its interval, as bars."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from starlette.responses import Response

from sudare.app import query
from sudare.asking.answers import AnswerCell, AnswerTable, Estimate, show_cell
from sudare.errors import ParameterError, SudareError
from sudare.releases.office import guard_formula
from sudare.schema import NumberBins, Schema
from sudare.studio.project import ReleaseFolder

LEVEL = 0.95
MOST_BARS = 200
MOST_VALUES = 300  # of an attribute in a list to choose from


class AskVisit(Protocol):
    """What a page needs to ask a view: a visit of the studio, or one of the desk."""

    path: Mapping[str, str]
    form: Mapping[str, str]

    @property
    def project(self) -> ReleaseFolder:
        """The folder with the releases."""

    def show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Fill a template."""


def show_ask(visit: AskVisit) -> Response:
    """The builder, the statement, the answer."""
    release = visit.project.release(visit.path["release"])
    if release.certificate.method != "view":
        raise ParameterError(
            "only a view can be asked; this release was made by {method}", method=release.certificate.method
        )
    schema = Schema.from_dict(release.certificate.schema)
    form = visit.form
    statement = form.get("sql", "").strip()
    if "build" in form:
        statement = build_statement(schema, form)
    answer, error = None, ""
    if statement:
        try:
            answer = query(release.directory, statement, level=LEVEL, many=False)[0][1]
        except SudareError as refusal:
            error = str(refusal)
    if answer is not None and "download" in form:
        return _download(answer, statement, form["download"])
    rows = () if answer is None else answer.rows[:MOST_BARS]
    return visit.show(
        "ask.html",
        step="releases",
        release=release,
        attributes=[_describe(schema, name) for name in schema.names],
        form=form,
        statement=statement,
        columns=[] if answer is None else answer.columns,
        rows=[_write_row(row) for row in rows],
        most=_find_most(rows),
        notes=[] if answer is None else [str(note) for note in (*answer.notes, *answer.reasons)],
        error=error,
        status=400 if error else 200,
        command=shlex.join(["sudare", "query", release.directory.name, statement or "SELECT COUNT(*) FROM view"]),
    )


def _describe(schema: Schema, name: str) -> dict[str, Any]:
    attribute = schema.attribute(name)
    count = min(attribute.size, MOST_VALUES)
    labels = [str(label) for label in attribute.labels(np.arange(count))]
    return {"name": name, "labels": labels, "is_number": isinstance(attribute.domain, NumberBins)}


def build_statement(schema: Schema, form: Any) -> str:
    """Write the statement that the fields describe; names and values are quoted, never pasted."""
    measure, group = form.get("measure", "count"), form.get("group", "")
    names = set(schema.names)
    columns = [quote_name(group)] if group in names else []
    target = form.get("of", "")
    if measure in ("sum", "avg") and target in names:
        chosen = f"{measure.upper()}({quote_name(target)})"
    else:
        chosen = "COUNT(*)"
    conditions = []
    for number in ("1", "2"):
        column, sign, value = (form.get(f"{part}{number}", "") for part in ("where", "sign", "value"))
        if column in names and value.strip() and sign in ("=", "<", ">=", "<>"):
            conditions.append(f"{quote_name(column)} {sign} {quote_value(value.strip())}")
    statement = f"SELECT {', '.join([*columns, chosen])} FROM view"
    if conditions:
        statement += " WHERE " + " AND ".join(conditions)
    return statement + (f" GROUP BY {columns[0]}" if columns else "")


def quote_name(name: str) -> str:
    """Quote a column.

    >>> quote_name('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_value(value: str) -> str:
    """Quote a value, unless it is a number.

    >>> quote_value("30"), quote_value("O'Neill")
    ('30', "'O''Neill'")
    """
    plain = value.replace(".", "", 1).removeprefix("-")
    return value if plain.isdecimal() and plain.isascii() else "'" + value.replace("'", "''") + "'"


def _write_row(row: Sequence[AnswerCell]) -> list[dict[str, Any]]:
    """Write the cells of a row; only a figure with an interval has one to be drawn."""
    cells: list[dict[str, Any]] = []
    for cell in row:
        if not isinstance(cell, Estimate):
            cells.append({"text": show_cell(cell), "value": None})
        elif not cell.has_interval:
            cells.append({"text": str(cell), "value": cell.value, "low": None})
        else:
            reach = f"{cell.write('low')} – {cell.write('high')}"
            cells.append(
                {"text": cell.write("value"), "value": cell.value, "low": cell.low, "high": cell.high, "range": reach}
            )
    return cells


def _find_most(rows: Sequence[Sequence[AnswerCell]]) -> float:
    """Find the end of the scale that the bars are drawn on."""
    found = [cell for row in rows for cell in row if isinstance(cell, Estimate)]
    ends = [abs(end) for cell in found for end in (cell.value, cell.high) if math.isfinite(end)]
    return max(ends, default=1.0) or 1.0


def _download(answer: AnswerTable, statement: str, kind: str) -> Response:
    """Give the answer as a file, each figure with the ends of its interval."""
    if kind == "json":
        content, name = json.dumps(answer.to_dict(statement), ensure_ascii=False), "answer.json"
    else:
        columns = answer.to_columns()
        file = io.StringIO(newline="")
        writer = csv.writer(file)
        writer.writerow([guard_formula(name) for name in columns])
        for row in zip(*columns.values(), strict=True):
            writer.writerow(["" if cell is None else guard_formula(cell) for cell in row])
        content, name = "\ufeff" + file.getvalue(), "answer.csv"
    return Response(
        content.encode(),
        media_type="application/octet-stream",
        headers={"content-disposition": f"attachment; filename={name}"},
    )


ROUTES = (
    ("/r/{release}/ask", "GET", show_ask),
    ("/r/{release}/ask", "POST", show_ask),
)
