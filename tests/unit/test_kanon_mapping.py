"""mapping.json alone tells what every published label stands for, and a forged one is found out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sudare as sd
from sudare.errors import ReleaseError
from sudare.methods.kanon.recheck import recheck_classes
from sudare.methods.kanon.request import Request
from sudare.schema import Attribute, NumberBins, Schema, TableHierarchy, Values
from sudare.schema.hierarchy_rules import intervals
from sudare.verify.checks import verify_release

ROWS = 240
AGES = NumberBins.of_width(0, 90, 1)
PAYS = NumberBins.of_width(0, 1000, 50)
TOWNS = {
    "Tokyo": ("Tokyo", "east", "*"),  # a town has the name of its region
    "Hachioji": ("Tokyo", "east", "*"),
    "Chiba": ("Boso", "east", "*"),
    "Osaka": ("Kinki", "west", "*"),
    "Kobe": ("Kinki", "west", "*"),
    "Naha": ("Okinawa", "west", "*"),
}
SCHEMA = Schema(
    name="people",
    attributes=(
        Attribute(
            name="age",
            domain=AGES,
            role="quasi",
            missing=True,
            hierarchy=intervals(AGES, [5, 15], bottom=15, top=75),
        ),
        Attribute(
            name="town",
            domain=Values(tuple(TOWNS)),
            role="quasi",
            hierarchy=TableHierarchy.from_paths([(town, *groups) for town, groups in TOWNS.items()]),
        ),
        Attribute(name="pay", domain=PAYS, role="quasi", hierarchy=intervals(PAYS, [100, 500])),
        Attribute(name="row", domain=Values(tuple(map(str, range(ROWS)))), role="sensitive"),
    ),
)
OPTIONS: dict[str, dict[str, Any]] = {
    "levels": {},
    "levels with rows left out": {"max_suppressed": "0.2"},
    "by value": {"recoding": "value", "max_suppressed": "0.2"},
    "rows generalised further": {"max_suppressed": "0.4", "local": True},
    "local": {"recoding": "local"},
    "local ranges": {"recoding": "local", "labels": "ranges"},
    "cells": {"recoding": "cells"},
    "mondrian": {"recoding": "mondrian"},
    "mondrian relaxed": {"recoding": "mondrian", "mondrian": "relaxed"},
    "mondrian by hierarchy": {"recoding": "mondrian", "mondrian": "hierarchy"},
    "means": {"recoding": "local", "microaggregate": ("pay",)},
    "means beside mondrian": {"recoding": "mondrian", "microaggregate": ("pay",)},
}
OWN_GROUPS = {
    "request": {"name": "own groups"},
    "option": [
        {
            "age": [["[0,15)"], ["[15,65)"], ["[65,90]", "(missing)"]],
            "town": [["Tokyo", "Naha"], ["Hachioji", "Chiba", "Osaka", "Kobe"]],
        }
    ],
}


def make_table(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages = np.minimum(rng.exponential(30, ROWS), 89).astype(int).tolist()
    return pa.table(
        {
            "age": [None if rng.random() < 0.05 else age for age in ages],
            "town": rng.choice(list(TOWNS), ROWS, p=[0.3, 0.2, 0.2, 0.2, 0.05, 0.05]).tolist(),
            "pay": rng.integers(0, 1000, ROWS).tolist(),
            "row": list(map(str, range(ROWS))),
        }
    )


def publish(table: pa.Table, out: Path, **options: Any) -> list[dict[str, Any]]:
    request = Request.from_dict(options.pop("request"), SCHEMA) if "request" in options else None
    with sd.open(table, SCHEMA) as source:
        sd.KAnonymity(k=4, **options).publish(source, request=request).save(out)
    rows: list[dict[str, Any]] = pq.read_table(out / "records.parquet").to_pylist()
    return rows


def covers(told: dict[str, Any], label: str | None, original: Any) -> bool:
    """Tell by the mapping alone whether a label stands for an original value."""
    if "means_within" in told:
        return any(is_of(value, original) for value in told["means_within"])
    entries = [entry for entry in told["labels"] if entry["label"] == label]
    if not entries:
        return is_of("(missing)" if label is None else label, original)
    return any(entry.get("all") or any(is_of(value, original) for value in entry["values"]) for entry in entries)


def is_of(value: str, original: Any) -> bool:
    """Tell whether an original value is the one that is written, or in the interval."""
    if not value.startswith("[") or original is None:
        return value == ("(missing)" if original is None else original)
    low, high = map(float, value[1:-1].split(","))
    return low <= original < high or (value.endswith("]") and original == high)


@pytest.mark.parametrize("name", [*OPTIONS, "own groups"])
def test_every_published_row_stands_for_its_original_by_the_mapping_alone_and_another_mapping_is_refused(
    tmp_path: Path, name: str
) -> None:
    table = make_table(2)
    records = publish(table, tmp_path / "out", **OPTIONS.get(name, {"request": OWN_GROUPS}))
    told = json.loads((tmp_path / "out" / "mapping.json").read_text(encoding="utf-8"))["stands_for"]
    originals = {row["row"]: row for row in table.to_pylist()}
    wrong = [
        (column, record[column])
        for record in records
        for column in told
        if not covers(told[column], record[column], originals[record["row"]][column])
    ]

    assert len(records) > ROWS // 2
    assert set(told) == set(records[0]) - {"row"}
    assert wrong == []
    assert all(claim.passed for claim in verify_release(tmp_path / "out"))

    file = tmp_path / "out" / "mapping.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"declared": 6', '"declared": 7'), encoding="utf-8")

    with pytest.raises(ReleaseError, match="its hash differs"):
        verify_release(tmp_path / "out")


@pytest.mark.parametrize("name", OPTIONS)
def test_the_mapping_names_labels_of_the_table_and_declared_values_alone(tmp_path: Path, name: str) -> None:
    records = publish(make_table(3), tmp_path / "out", **OPTIONS[name])
    told = json.loads((tmp_path / "out" / "mapping.json").read_text(encoding="utf-8"))["stands_for"]
    for column, explained in told.items():
        labels = {entry["label"] for entry in explained.get("labels", [])}
        values = [value for entry in explained.get("labels", []) for value in entry.get("values", [])]

        assert labels <= {record[column] for record in records}
        assert all(len(SCHEMA.attribute(column).codes(value)) for value in values)


# --- forged mappings --------------------------------------------------------------------------------------------------


def find_group(told: dict[str, Any]) -> dict[str, Any]:
    """Find a group of towns that has not the name of one."""
    return next(entry for entry in told["town"]["labels"] if entry["label"] not in TOWNS)


def drop_label(told: dict[str, Any]) -> None:
    told["town"]["labels"].remove(find_group(told))


def add_label(told: dict[str, Any]) -> None:
    told["town"]["labels"].append({"label": "elsewhere", "values": ["Naha"]})


def add_value(told: dict[str, Any]) -> None:
    entry = find_group(told)
    entry.pop("all", None)
    entry["values"] = [*entry.get("values", []), "Sapporo"]


def narrow_label(told: dict[str, Any]) -> None:
    entry = find_group(told)
    entry.pop("all", None)
    entry["values"] = ["Naha"]


def drop_column(told: dict[str, Any]) -> None:
    del told["age"]


def widen_interval(told: dict[str, Any]) -> None:
    entry = next(entry for entry in told["age"]["labels"] if str(entry["label"]).startswith("["))
    entry["values"] = ["[0,90]"]


FORGERIES = [drop_label, add_label, add_value, narrow_label, drop_column, widen_interval]


@pytest.mark.parametrize("name", ["local", "local ranges", "mondrian", "mondrian relaxed", "mondrian by hierarchy"])
def test_a_forged_mapping_fails_even_if_its_digest_were_believed(tmp_path: Path, name: str) -> None:
    publish(make_table(1), tmp_path / "out", **OPTIONS[name])
    certificate, file = sd.Release.load(tmp_path / "out").certificate, tmp_path / "out" / "mapping.json"
    published = file.read_text(encoding="utf-8")
    for forge in FORGERIES:
        mapping = json.loads(published)
        towns = [entry["label"] for entry in mapping["stands_for"]["town"]["labels"]]
        if forge is narrow_label and len(set(towns)) < len(towns):
            continue  # how coarse towns are is known between bounds only, where one name has two groups
        forge(mapping["stands_for"])
        file.write_text(json.dumps(mapping), encoding="utf-8")
        claims = recheck_classes(sd.KAnonymity, certificate, tmp_path / "out")

        assert [str(claim.name) for claim in claims if not claim.passed] == ["mapping"], forge.__name__
