"""A small table of people, in every form that a source reads."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import sudare.sources as sources
from sudare.errors import SourceError
from sudare.schema import Attribute, NumberBins, Schema, Unit, Values
from sudare.sources.table import TableSource

SEX = Attribute(name="sex", domain=Values(("F", "M")), role="quasi")
AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), missing=True)
PEOPLE = Schema(name="people", attributes=(SEX, AGE), identifiers=("name",))
ROWS = [("F", 31, "Ann"), ("M", 7, "Bob"), ("F", 39, "Eve"), ("F", None, "Joy"), ("M", 100, "Tom")]
HEAD = ("sex", "age", "name")
CELLS = {(0, 3): 2, (1, 0): 1, (0, 10): 1, (1, 9): 1}


def cells(source: TableSource, by: Sequence[str] | None = None) -> dict[tuple[int, ...], int]:
    counts = source.count(by)
    return {tuple(codes): int(value) for codes, value in zip(counts.columns().tolist(), counts.values, strict=True)}


def write_csv(
    path: Path, rows: Sequence[Sequence[object]], *, head: Sequence[str] = HEAD, delimiter: str = ","
) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([head, *rows])
    return path


def arrow() -> pa.Table:
    return pa.table({name: [row[at] for row in ROWS] for at, name in enumerate(HEAD)})


def one(name: str, *values: str) -> Schema:
    return Schema(name="t", attributes=(Attribute(name=name, domain=Values(values)),))


def refusal(data: object, schema: Schema = PEOPLE, *, by: Sequence[str] | None = None, **options: object) -> str:
    with pytest.raises(SourceError) as refused, sources.open(data, schema, **options) as source:
        source.count(by)
    assert refused.value.__cause__ is None
    assert "\n" not in str(refused.value)
    return str(refused.value)


# --- persons ---

PERSONS = [0] * 8 + [1] * 3 + [2] * 2 + [3]


def visits(limit: int) -> Schema:
    unit = Unit(kind="person", column="id", max_rows=limit)
    place = Attribute(name="place", domain=NumberBins.of_width(0, len(PERSONS), 1))
    half = Attribute(name="half", domain=Values(("0", "1")))
    return Schema(name="visits", unit=unit, attributes=(place, half))


def visited() -> pa.Table:
    return pa.table(
        {"id": PERSONS, "place": list(range(len(PERSONS))), "half": [row % 2 for row in range(len(PERSONS))]}
    )
