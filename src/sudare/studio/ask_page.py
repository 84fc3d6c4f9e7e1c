"""Ask a published view by point and click or in SQL: every answer with its interval, as bars."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.responses import Response

from sudare.app import query
from sudare.errors import ParameterError, SudareError
from sudare.schema import Schema
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
    rows, columns, error = [], [], ""
    if statement:
        try:
            answer = query(release.directory, statement, level=LEVEL, many=False)[0][1]
            columns, rows = list(answer.columns), [list(row) for row in answer.rows][:MOST_BARS]
        except SudareError as refusal:
            error = str(refusal)
    if rows and "download" in form:
        return _download(columns, rows, form["download"])
    return visit.show(
        "ask.html",
        step="releases",
        release=release,
        attributes=[_describe(schema, name) for name in schema.names],
        form=form,
        statement=statement,
        columns=columns,
        rows=[_write_row(row) for row in rows],
        most=_find_most(rows),
        error=error,
        status=400 if error else 200,
        command=shlex.join(["sudare", "query", release.directory.name, statement or "SELECT COUNT(*) FROM view"]),
    )


def _describe(schema: Schema, name: str) -> dict[str, Any]:
    import numpy as np

    attribute = schema.attribute(name)
    count = min(attribute.size, MOST_VALUES)
    labels = [str(label) for label in attribute.labels(np.arange(count))]
    return {"name": name, "labels": labels, "is_number": type(attribute.domain).__name__ == "NumberBins"}


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


def _write_row(row: Sequence[Any]) -> list[dict[str, Any]]:
    cells = []
    for cell in row:
        if cell is None or isinstance(cell, str):
            cells.append({"text": "" if cell is None else cell, "value": None})
        elif hasattr(cell, "value"):
            low, high = getattr(cell, "low", None), getattr(cell, "high", None)
            reach = "" if low is None or high is None else f"{_number(low)} – {_number(high)}"
            cells.append({"text": _number(cell.value), "value": cell.value, "low": low, "high": high, "range": reach})
        else:
            cells.append({"text": str(cell), "value": None})
    return cells


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"


def _find_most(rows: Sequence[Sequence[Any]]) -> float:
    """Find the end of the scale that the bars are drawn on."""
    highs = [
        abs(value)
        for row in rows
        for cell in row
        if hasattr(cell, "value")
        for value in (cell.value, getattr(cell, "high", None))
        if value is not None and abs(value) < float("inf")
    ]
    return max(highs, default=1.0) or 1.0


def _download(columns: Sequence[str], rows: Sequence[Sequence[Any]], kind: str) -> Response:
    head = [name for column in columns for name in (column, f"{column} low", f"{column} high")]
    flat = [
        [part for cell in row for part in (
            [cell.value, getattr(cell, "low", None), getattr(cell, "high", None)] if hasattr(cell, "value")
            else ["" if cell is None else cell, "", ""])]
        for row in rows
    ]  # fmt: skip
    if kind == "json":
        content = json.dumps([dict(zip(head, row, strict=True)) for row in flat], ensure_ascii=False)
        name = "answer.json"
    else:
        file = io.StringIO(newline="")
        writer = csv.writer(file)
        writer.writerow([_defuse(cell) for cell in head])
        writer.writerows([[_defuse(cell) for cell in row] for row in flat])
        content, name = "\ufeff" + file.getvalue(), "answer.csv"
    return Response(
        content.encode(),
        media_type="application/octet-stream",
        headers={"content-disposition": f"attachment; filename={name}"},
    )


def _defuse(cell: Any) -> Any:
    """Keep a text from being taken for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" and cell[:1] else cell


ROUTES = (
    ("/r/{release}/ask", "GET", show_ask),
    ("/r/{release}/ask", "POST", show_ask),
)
