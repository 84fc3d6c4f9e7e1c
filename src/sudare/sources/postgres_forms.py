"""What PostgreSQL is told and what it says: its dialect, its types, its rows as bytes, and its refusals in our words.

What the server says when it fails can quote rows: its SQLSTATE is read, the message never passed on, kept or logged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sudare.errors import SourceError
from sudare.sources.dialect import Dialect
from sudare.sources.engine import Column, Family
from sudare.sources.sql import Expression
from sudare.text import Text, Words, text

# --- what the server says when it fails -----------------------------------------------------------------------------

_STATES: Mapping[str, Text] = {
    "28": text("the server refused the user name or the password; check them, and pg_hba.conf of the server"),
    "3D": text("there is no such database on the server; check its name"),
    "42501": text("the role may not read it, or not do this; ask for the right GRANT"),
    "42P01": text("a table in it is not there; check its name, and the schema it stands in"),
    "42703": text("a column in it is not there; check the names"),
    "42": text("the server does not understand the query; try it in psql"),
    "22": text("a value in it cannot be computed or converted; try it in psql"),
    "25006": text("the server or the role may only read, and this must be written"),
    "53": text("the server has no room left (disk, memory or connections); ask its administrator"),
    "57014": text("the server stopped the query; ask for a longer statement_timeout"),
    "57": text("the server is going down or ended the connection; try again later"),
    "08": text("the connection to the server was lost; try again"),
    "25P02": text("an earlier query failed, so the snapshot is gone; open it again"),
}
_UNREACHABLE = re.compile(
    r"refused|timeout|timed out|translate host|no route|unreachable|does not exist on|No such file"
)
_PASSWORD = re.compile(r"password|authentication|pg_hba|role .* does not exist", re.IGNORECASE)
_DATABASE = re.compile(r"database .* does not exist")


def translate(error: Exception, name: Words, *, writing: bool = False) -> SourceError:
    """Say what went wrong in one line of our own."""
    reason = explain(error)
    if writing:
        return SourceError("{data} could not be written: {reason}", data=name, reason=reason)
    return SourceError("{data} could not be read: {reason}", data=name, reason=reason)


def explain(error: Exception) -> Text:
    """Find the reason by the SQLSTATE."""
    state = getattr(error, "sqlstate", None) or ""
    for length in (5, 2):
        if reason := _STATES.get(state[:length]):
            return reason
    if type(error).__name__ == "OperationalError":  # the connection ended, and nobody could say why
        return _STATES["08"]
    return text("the server answered {state}", state=state or "?")


def explain_refusal(error: Exception) -> Text:
    """Find why there is no connection; without a SQLSTATE the words decide, and they hold no rows yet."""
    message = str(error)
    if getattr(error, "sqlstate", None):
        return explain(error)
    if _DATABASE.search(message):
        return _STATES["3D"]
    if _PASSWORD.search(message):
        return _STATES["28"]
    if _UNREACHABLE.search(message):
        return text("the server does not answer; check host and port, and that it runs")
    return text("the server cannot be reached, or refuses the user; check the address, the user and the password")


# --- the dialect ----------------------------------------------------------------------------------------------------


class PostgresDialect(Dialect):
    """PostgreSQL 14 and newer."""

    def digest(self, text: Expression) -> Expression:
        """SHA-256 as bytes, which sort like their hexadecimal text."""
        utf8 = exp.Anonymous(this="convert_to", expressions=[text, exp.Literal.string("UTF8")])
        return exp.Anonymous(this="sha256", expressions=[utf8])

    def days_between(self, late: Expression, early: Expression) -> Expression:
        """Days are subtracted."""
        return exp.paren(exp.Sub(this=late, expression=early))

    def divide(self, number: Expression, by: Expression) -> Expression:
        """Whole numbers are divided as such; DIV would go through NUMERIC."""
        return exp.Div(this=number, expression=by, typed=True, safe=False)


DIALECT = PostgresDialect("postgres", lookup_limit=200_000)

# --- columns --------------------------------------------------------------------------------------------------------

_FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), "integer"),
    **dict.fromkeys(("float4", "float8"), "float"),
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "name", "uuid", "citext", "inet", "cidr"), "text"),
    "numeric": "decimal",
    "bool": "boolean",
    "date": "day",
    "timestamp": "moment",
}
_VIEW_TYPES: Mapping[Family, str] = {
    "text": 'CAST({} AS text) COLLATE "C"',
    "integer": "CAST({} AS bigint)",
    "float": "CAST({} AS double precision)",
    "decimal": "NULLIF({}, 'NaN')",
    "wide": "NULLIF({}, 'NaN')",
    "moment": "CAST({} AS timestamp)",
}
_MOST_INTEGER_DIGITS = 18
_MOST_PLACES = 1000  # behind the point; a negative number of places arrives as a larger one


def make_column(position: int, description: Any, type_name: str, type_kind: str, shown_type: str) -> tuple[Column, str]:
    """Give a column and the SQL that reads it; a number of any length is read as its text."""
    digits, scale = description.precision or 0, description.scale or 0
    family: Family = "text" if type_kind == "e" else _FAMILIES.get(type_name, "other")
    form = _VIEW_TYPES.get(family, "{}")
    if family == "decimal" and (not digits or scale > _MOST_PLACES):
        family, form = "text", "NULLIF(CAST({} AS text) COLLATE \"C\", 'NaN')"
    elif family == "decimal" and scale == 0:
        family = "integer" if digits <= _MOST_INTEGER_DIGITS else "wide"
        form = "CAST(NULLIF({}, 'NaN') AS bigint)" if family == "integer" else form
    column = Column(
        name=description.name, column_id=f"c{position}", family=family, type=shown_type, digits=digits, scale=scale
    )
    return column, form.format(exp.to_identifier(description.name, quoted=True).sql("postgres"))


# --- rows as bytes --------------------------------------------------------------------------------------------------

PARQUET_TYPES = {16: "BOOLEAN", 20: "BIGINT", 21: "BIGINT", 23: "BIGINT", 26: "BIGINT", 700: "DOUBLE", 701: "DOUBLE",
                  1082: "DATE", 1114: "TIMESTAMP"}  # fmt: skip
"""By the number that PostgreSQL gives a type; all others are written as texts."""

_HEAD_BYTES = 19
_FIELD_BYTES = 12  # 4 of length, 8 of value


def read_binary(data: bytes, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Cut rows of 64-bit numbers out of PostgreSQL's binary format; masked where a value is NULL."""
    width = 2 + _FIELD_BYTES * len(names)
    body = np.frombuffer(data, np.uint8)[_HEAD_BYTES:-2]
    if len(body) % width == 0:
        fields = body.reshape(-1, width)[:, 2:].reshape(-1, len(names), _FIELD_BYTES)
        if (fields[:, :, :4] == [0, 0, 0, 8]).all():  # no field is NULL, which has no bytes and another length
            values = np.ascontiguousarray(fields[:, :, 4:]).view(">i8")[:, :, 0].astype(np.int64)
            return {name: values[:, at] for at, name in enumerate(names)}
    return _read_nulls(data, names)


def _read_nulls(data: bytes, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read field by field, which is slow: a NULL has no bytes."""
    values: list[list[int]] = [[] for _ in names]
    at = _HEAD_BYTES
    is_null: list[list[bool]] = [[] for _ in names]
    while int.from_bytes(data[at : at + 2], "big", signed=True) != -1:
        at += 2
        for column in range(len(names)):
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            at += 4
            is_null[column].append(size < 0)
            values[column].append(int.from_bytes(data[at : at + max(size, 0)], "big", signed=True))
            at += max(size, 0)
    return {
        name: np.ma.masked_array(np.array(values[column], np.int64), mask=is_null[column])
        for column, name in enumerate(names)
    }


# --- counts that come in parts ----------------------------------------------------------------------------------------


def is_plain_count(query: exp.Query) -> bool:
    """Tell whether a query counts rows by keys: results over parts of the rows can be added up."""
    group, numbers = query.args.get("group"), [value for value in query.selects if value.alias == "n"]
    is_count = len(numbers) == 1 and isinstance(numbers[0].unalias(), exp.Count)
    return group is not None and is_count and len(group.expressions) == len(query.selects) - 1


def merge_counts(parts: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Add up counts by key, in column n, over parts of the rows; a key may be NULL.

    >>> parts = [{"w0": np.array([1, 2]), "n": np.array([5, 1])}, {"w0": np.array([2]), "n": np.array([3])}]
    >>> merged = merge_counts(parts)
    >>> merged["w0"].tolist(), merged["n"].tolist()
    ([1, 2], [5, 4])
    """
    names = [name for name in parts[0] if name != "n"]
    numbers = np.concatenate([np.asarray(part["n"]) for part in parts])
    table = np.column_stack(
        [np.concatenate([read(part[name]) for part in parts]) for name in names for read in (_fill, np.ma.getmaskarray)]
    )
    keys, places = np.unique(table, axis=0, return_inverse=True)
    totals = np.zeros(len(keys), dtype=np.int64)
    np.add.at(totals, places.ravel(), numbers)
    merged: dict[str, NDArray[Any]] = {"n": totals}
    for at, name in enumerate(names):
        is_null = keys[:, 2 * at + 1].astype(bool)
        merged[name] = np.ma.masked_array(keys[:, 2 * at], mask=is_null) if is_null.any() else keys[:, 2 * at]
    return merged


def _fill(key: NDArray[Any]) -> NDArray[Any]:
    """The numbers of a key, 0 where it is NULL."""
    return np.where(np.ma.getmaskarray(key), 0, np.ma.getdata(key))
