"""The data sets of the paper, from ../shared/data, with the authors' bins written down as a declared schema.

The authors cut every number into at most 100 (phoneme and jm1: 10) equal bins between its least and largest value;
whole numbers of a shorter range keep one bin each. Categories stand in the order of their texts. That order and those
ends are taken as declared; nothing is read off the data when a view is made.
"""

from __future__ import annotations

import csv
import datetime
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.schema import Attribute, NumberBins, Schema, Values

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week", "income")
SMALL = ("age", "workclass", "race", "capital-gain")


@dataclass(frozen=True, kw_only=True)
class Data:
    """Where a set lies, which columns it has, and into how many bins numbers are cut."""

    file: str
    bins: int
    keep: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()


SETS = {
    "adult": Data(file="adult.csv.gz", bins=100),
    "small-adult": Data(file="adult.csv.gz", bins=100, keep=SMALL),
    "numeric-adult": Data(file="adult.csv.gz", bins=100, keep=NUMERIC),
    "traffic": Data(file="metro.csv.gz", bins=100, drop=("weather_description",)),
    "electricity": Data(file="electricity-normalized.csv.gz", bins=100, drop=("day",)),
    "phoneme": Data(file="phoneme.csv.gz", bins=10),
    "jm1": Data(file="jm1.csv.gz", bins=10),
}
CLASSES = {"adult": "income", "numeric-adult": "income", "electricity": "class", "phoneme": "5"}


def is_here() -> bool:
    """Tell whether the data lie beside the project."""
    return (SHARED / "adult.csv.gz").exists()


@cache
def load(name: str) -> Counts:
    """Read a set as counts over its declared bins."""
    data = SETS[name]
    with gzip.open(SHARED / data.file, "rt", encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.reader(stream) if row]
    head, body = rows[0], [row for row in rows[1:] if "?" not in row or name not in ("jm1",)]
    columns = {title: [row[place] for row in body] for place, title in enumerate(head)}
    names = data.keep or tuple(title for title in head if title not in data.drop)
    coded = [_coded(title, columns[title], data.bins) for title in names]
    schema = Schema(name=name, attributes=tuple(attribute for attribute, _ in coded))
    return Counts.from_columns(schema, np.column_stack([codes for _, codes in coded]))


def _coded(title: str, texts: Sequence[str], bins: int) -> tuple[Attribute, np.ndarray]:
    read = _reader(title, texts)
    if read is None:
        values, codes = np.unique(np.array([text.strip() for text in texts]), return_inverse=True)
        return Attribute(name=title, domain=Values(tuple(values.tolist()))), codes
    numbers = np.array([read(text) for text in texts])
    low, high = float(numbers.min()), float(numbers.max())
    if title == "period":  # 48 half hours, numbered
        _, codes = np.unique(numbers, return_inverse=True)
        return Attribute(name=title, domain=NumberBins.of_width(0, 48, 1)), codes
    if bool(np.all(numbers == np.floor(numbers))) and "." not in texts[0] and high - low <= bins:
        domain = NumberBins.of_width(int(low), int(high) + 1, 1)
        return Attribute(name=title, domain=domain), (numbers - low).astype(np.int64)
    step = (high + 0.1 - low) / bins
    edges = [repr(round(low + place * step, 9)) for place in range(bins + 1)]
    return Attribute(name=title, domain=NumberBins(tuple(edges))), ((numbers - low) / step).astype(np.int64)


def _reader(title: str, texts: Sequence[str]) -> Callable[[str], float] | None:
    if title == "date_time":
        return lambda text: datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC).timestamp()
    try:
        [float(text) for text in texts]
    except ValueError:
        return None
    return float
