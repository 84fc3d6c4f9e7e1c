"""Tables for the benchmarks of k-anonymity: made-up ones, those of ../shared, and any file of comma-separated values.

`TABLES` names those at hand, and whether a constant of prediction was fitted on them or changed after a look.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.kanon import adult_counts
from sudare.counts import Counts
from sudare.schema import Attribute, Schema, TableHierarchy, Values

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
MOST_VALUES, NUMBER_BINS = 60, 24  # values of a column of texts, and bins of a column of numbers
SENSITIVE_VALUES = range(3, 13)  # how many values the sensitive column of a file has, where one has so many


def make_attribute(name: str, size: int, fan: int, role: str = "quasi") -> Attribute:
    """An ordered attribute of so many values, with levels that join `fan` groups each, up to one."""
    paths = []
    for code in range(size):
        path, group, wide = [f"{name}{code}"], code, size
        while wide > fan:
            group, wide = group // fan, -(-wide // fan)
            path.append(f"{name}/{wide}/{group}")
        paths.append((*path, "*"))
    values = tuple(path[0] for path in paths)
    return Attribute(
        name=name,
        domain=Values(values, is_ordered=True),
        role=role,  # type: ignore[arg-type]
        hierarchy=TableHierarchy.from_paths(paths),
    )


def make_table(codes: np.ndarray, sizes: tuple[int, ...], *, sensitive: int = 1) -> Counts:
    """Counts of codes; the last attributes are sensitive."""
    plain = len(sizes) - sensitive
    attributes = [
        make_attribute(f"q{axis}" if axis < plain else f"s{axis}", size, 4, "quasi" if axis < plain else "sensitive")
        for axis, size in enumerate(sizes)
    ]
    return Counts.from_columns(Schema(name="t", attributes=tuple(attributes)), codes)


def made_up(seed: int, rows: int = 12_000) -> Counts:
    """A mixture of a few kinds of persons, each with skewed columns of its own."""
    rng = np.random.default_rng(seed)
    sizes, kinds = (2, 40, 6, 12, 16, 8), 2 + seed % 5
    kind = rng.choice(kinds, rows, p=rng.dirichlet(np.ones(kinds)))
    columns = []
    for size in sizes:
        shares = rng.dirichlet(np.full(size, 0.8), kinds)
        column = np.empty(rows, dtype=np.int64)
        for each in range(kinds):
            column[kind == each] = rng.choice(size, int((kind == each).sum()), p=shares[each])
        columns.append(column)
    return make_table(np.column_stack(columns), sizes)


def read_columns(file: str, columns: dict[str, int]) -> Counts | None:
    """A table of ../shared: numbers in so many bins of equal counts, other columns by their values."""
    path = DATA / file
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    codes, sizes = [], []
    for name, bins in columns.items():
        values = [row[name] for row in rows]
        if bins:
            numbers = np.array([float(value) for value in values])
            edges = np.unique(np.quantile(numbers, np.linspace(0, 1, bins + 1)[1:-1]))
            column = np.searchsorted(edges, numbers, side="right")
        else:
            column = np.unique(values, return_inverse=True)[1].reshape(-1)
        codes.append(column)
        sizes.append(int(column.max()) + 1)
    return make_table(np.column_stack(codes), tuple(sizes))


def read_adult() -> Counts | None:
    """Adult of ARX, the salary class as sensitive attribute: its constants were fitted on it."""
    counts = adult_counts()
    if counts is None:
        return None
    names = [attribute.name for attribute in counts.schema.attributes]
    order = [*(name for name in names if name != "salary-class"), "salary-class"]
    table = counts.project(order)
    return table


TABLES: dict[str, tuple[bool, Callable[[], Counts | None]]] = {
    "adult": (True, read_adult),
    # those of ../shared were looked at for the law of predictions (methods/kanon/pairs.py), as was Adult at first
    "electricity": (
        True,
        lambda: read_columns(
            "electricity-normalized.csv.gz",
            {"day": 0, "period": 48, "nswprice": 20, "nswdemand": 20, "vicprice": 12, "transfer": 8, "class": 0},
        ),
    ),
    "metro": (
        True,
        lambda: read_columns(
            "metro.csv.gz",
            {"temp": 30, "clouds_all": 12, "traffic_volume": 20, "rain_1h": 6, "holiday": 0, "weather_main": 0},
        ),
    ),
    "phoneme": (
        True,
        lambda: read_columns("phoneme.csv.gz", {"0": 24, "1": 16, "2": 12, "3": 12, "4": 8, "5": 0}),
    ),
    "jm1": (
        True,
        lambda: read_columns("jm1.csv.gz", {"loc": 30, "vg": 12, "evg": 8, "ivg": 12, "n": 24, "defects": 0}),
    ),
    **{f"made up {seed}": (False, lambda seed=seed: made_up(seed)) for seed in (9001, 9002, 9003, 9004)},  # type: ignore[misc]
}


def read_csv_table(path: str | Path, *, columns: int = 7, seed: int = 1) -> Counts:
    """Any file: columns chosen at random, numbers in bins of equal counts, one column of few values as sensitive."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as stream:
        head, *rows = csv.reader(stream)
    values = [[row[at] for row in rows if len(row) == len(head)] for at in range(len(head))]
    is_number_of_row = head[0] in ("", "rownames", "Unnamed: 0")
    encoded = [encode_values(column) for at, column in enumerate(values) if at or not is_number_of_row]
    usable = [codes for codes in encoded if codes is not None and codes.max(initial=0) > 0]
    chosen = sorted(np.random.default_rng(seed).choice(len(usable), min(columns, len(usable)), replace=False).tolist())
    sizes = {at: int(usable[at].max()) + 1 for at in chosen}
    few = [at for at in chosen if sizes[at] in SENSITIVE_VALUES] or [min(chosen, key=lambda at: sizes[at])]
    order = [*(at for at in chosen if at != few[-1]), few[-1]]
    return make_table(np.column_stack([usable[at] for at in order]), tuple(sizes[at] for at in order))


def encode_values(values: list[str]) -> np.ndarray | None:
    """Number the values of a column; None if they are texts of too many kinds."""
    distinct = set(values)
    if len(distinct) <= NUMBER_BINS:
        return np.unique(values, return_inverse=True)[1].reshape(-1)
    try:
        numbers = np.array([float(value) if value not in ("", "NA", "?") else np.nan for value in values])
    except ValueError:
        return np.unique(values, return_inverse=True)[1].reshape(-1) if len(distinct) <= MOST_VALUES else None
    numbers = np.nan_to_num(numbers, nan=np.nanmin(numbers) - 1)  # missing ones stand before all others
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, NUMBER_BINS + 1)[1:-1]))
    return np.unique(np.searchsorted(edges, numbers, side="right"), return_inverse=True)[1].reshape(-1)
