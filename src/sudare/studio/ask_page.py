"""Ask a published view or table by point and click or in SQL: every answer with its interval, as bars and on maps."""

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

from sudare.asking.answers import AnswerCell, AnswerTable, Estimate, show_cell
from sudare.errors import ParameterError, SudareError
from sudare.methods.registry import find_method
from sudare.methods.view.questions import open_asked
from sudare.releases import Release
from sudare.releases.office import guard_formula
from sudare.report.frames import show_label
from sudare.schema import NumberBins, Schema
from sudare.studio.ask_map import draw_tiles
from sudare.studio.project import ReleaseFolder
from sudare.text import say

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
    asked_as = find_asked_name(release.certificate.method)
    if not asked_as:
        raise ParameterError(
            "a release made by {method} cannot be asked; its files are on its page", method=release.certificate.method
        )
    opened = open_asked(Release.load(release.directory))
    form = visit.form
    statement = form.get("sql", "").strip()
    if "build" in form:
        statement = build_statement(opened.schema, form, asked_as)
    answer, error = None, ""
    if statement:
        try:
            answer = opened.sql(statement, level=LEVEL)
        except SudareError as refusal:
            error = str(refusal)
    if answer is not None and "download" in form:
        return _download(answer, statement, form["download"])
    return visit.show(
        "ask.html",
        step="releases",
        release=release,
        attributes=[_describe(opened.schema, name) for name in opened.schema.names],
        form=form,
        statement=statement,
        error=error,
        status=400 if error else 200,
        **_show_answer(answer, opened.schema),
        **_write_same(release.directory.name, statement or f"SELECT COUNT(*) FROM {asked_as}", asked_as),
    )


def find_asked_name(method: str) -> str:
    """The name by which SQL asks the releases of a method; empty where they cannot be asked."""
    try:
        return find_method(method).asked_as
    except SudareError:
        return ""  # of a package that is not here


def _show_answer(answer: AnswerTable | None, schema: Schema) -> dict[str, Any]:
    """What the page shows of an answer: rows with bars, a map where it has places, and what must be known."""
    if answer is None:
        return {"columns": [], "rows": [], "most": 1.0, "notes": [], "tiles": None, "more": 0}
    rows = answer.rows[:MOST_BARS]
    return {
        "columns": answer.columns,
        "rows": [_write_row(row) for row in rows],
        "most": _find_most(rows),
        "notes": [str(note) for note in (*answer.remarks, *_warn_wide(answer))],
        "tiles": draw_tiles(answer, schema),
        "more": len(answer.rows) - len(rows),
    }


def _warn_wide(answer: AnswerTable) -> list[str]:
    """Say how many answers have a range that is wider than half of them."""
    found = [cell for row in answer.rows for cell in row if isinstance(cell, Estimate) and cell.has_interval]
    wide = sum(cell.high - cell.low > abs(cell.value) / 2 for cell in found)
    if not wide or len(answer.rows) < 2:
        return []
    return [say("{count} answers have a range over half their value. Group neighbours.", count=wide)]


def _write_same(directory: str, statement: str, asked_as: str) -> dict[str, str]:
    """The command and the Python lines that ask the same."""
    opener = {"view": f'sd.open_view("{directory}")'}.get(asked_as)
    lines = [f"view = {opener}", f"view.sql({statement!r})"] if opener else [
        "import subprocess",
        f"subprocess.run({['sudare', 'query', directory, statement, '--json']!r}, check=True)",
    ]  # fmt: skip
    first = ["import sudare as sd"] if opener else []
    return {
        "command": shlex.join(["sudare", "query", directory, statement]),
        "python": "\n".join([*first, *lines]),
    }


def _describe(schema: Schema, name: str) -> dict[str, Any]:
    attribute = schema.attribute(name)
    count = min(attribute.size, MOST_VALUES)
    labels = [str(show_label(label)) for label in attribute.labels(np.arange(count))]
    return {"name": name, "labels": labels, "is_number": isinstance(attribute.domain, NumberBins)}


def build_statement(schema: Schema, form: Any, asked_as: str) -> str:
    """Write the statement that the fields describe; names and values are quoted, never pasted."""
    measure = form.get("measure", "count")
    names = set(schema.names)
    groups = dict.fromkeys(form.get(field, "") for field in ("group", "group2"))
    columns = [quote_name(group) for group in groups if group in names]
    target = form.get("of", "")
    if measure in ("sum", "avg") and target in names:
        chosen = f"{measure.upper()}({quote_name(target)})"
    else:
        chosen = "COUNT(*)"
    conditions = []
    for number in ("1", "2"):
        column, sign, value = (form.get(f"{part}{number}", "") for part in ("where", "sign", "value"))
        if column in names and value.strip() and sign in ("=", "<", ">=", "<>"):
            conditions.append(_write_condition(column, sign, value.strip()))
    statement = f"SELECT {', '.join([*columns, chosen])} FROM {asked_as}"
    if conditions:
        statement += " WHERE " + " AND ".join(conditions)
    return statement + (f" GROUP BY {', '.join(columns)}" if columns else "")


def _write_condition(column: str, sign: str, value: str) -> str:
    """Write a condition; (missing), as the page lists it, is what SQL calls NULL."""
    if value == str(show_label(None)) and sign in ("=", "<>"):
        return f"{quote_name(column)} IS {'' if sign == '=' else 'NOT '}NULL"
    return f"{quote_name(column)} {sign} {quote_value(value)}"


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
