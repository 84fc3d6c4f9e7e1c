"""Rows written by group: combinations left out, labelled together, or dealt out to several groups."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sudare.sources as sources
from sudare.counts.relabelling import SUPPRESSED, Overrides, Relabelling
from sudare.errors import ParameterError, SourceError
from sudare.schema import Attribute, Schema, Values

LETTERS = Values(tuple("abc"))
SCHEMA = Schema(name="t", attributes=tuple(Attribute(name=name, domain=LETTERS) for name in ("x", "y", "z")))
ROWS = [("a", "a", "c"), ("a", "b", "a"), ("a", "b", "b"), ("b", "b", "c"), ("c", "a", "a")]


def texts(*labels: str) -> np.ndarray:
    return np.array(labels, dtype=object)


def written(
    place: Path, relabelling: Relabelling, rows: list[tuple[str, ...]] = ROWS, **options: object
) -> list[tuple[object, ...]]:
    table = pa.table(dict(zip("xyz", (list(column) for column in zip(*rows, strict=True)), strict=True)))
    with sources.open(table, SCHEMA) as source:
        path = source.relabel(relabelling, **options).write(place / "out.parquet", shuffle=False)  # type: ignore[arg-type]
    return duckdb.sql(f"SELECT * FROM '{path}'").fetchall()


def test_combinations_are_left_out_and_others_keep_the_labels_of_their_values(tmp_path: Path) -> None:
    suppressed = Overrides(names=("x", "y"), codes=np.array([[0, 1]]), groups=np.array([SUPPRESSED]))
    found = written(
        tmp_path, Relabelling(labels={"x": lambda codes: texts("A", "B", "C")[codes]}, overrides=suppressed)
    )

    assert found == [("A", "a", "c"), ("B", "b", "c"), ("C", "a", "a")]


def test_a_group_gives_its_labels_to_the_rows_of_its_combinations(tmp_path: Path) -> None:
    group = Overrides(
        names=("x", "y"),
        codes=np.array([[0, 1], [1, 1]]),
        groups=np.array([0, 0]),
        labels={"x": texts("a|b"), "y": texts("b")},
    )
    found = written(tmp_path, Relabelling(labels={}, overrides=group), names=["x", "z"])

    assert found == [("a", "c"), ("a|b", "a"), ("a|b", "b"), ("a|b", "c"), ("c", "a")]


def test_a_combination_is_dealt_out_to_its_groups_in_the_sizes_asked_for(tmp_path: Path) -> None:
    split = Overrides(
        names=("x",),
        codes=np.array([[0], [1], [0], [0]]),
        groups=np.array([0, 0, 1, SUPPRESSED]),
        sizes=np.array([3, 2, 4, 2]),
        labels={"x": texts("left", "right")},
    )
    rows = [("a", "a", "a")] * 9 + [("b", "b", "b")] * 2 + [("c", "c", "c")]
    found = Counter(row[0] for row in written(tmp_path, Relabelling(labels={}, overrides=split), rows))

    assert found == {"left": 5, "right": 4, "c": 1}


def test_a_domain_of_several_words_is_grouped_alike(tmp_path: Path) -> None:
    names = [f"a{index}" for index in range(45)]  # 3**45 combinations: two words
    schema = Schema(name="t", attributes=tuple(Attribute(name=name, domain=LETTERS) for name in names))
    rows = [["a"] * 45, ["a"] * 44 + ["c"], ["c"] + ["a"] * 44]
    codes = np.array([[0] * 44 + [2]])
    suppressed = Overrides(names=tuple(names), codes=codes, groups=np.array([SUPPRESSED]))
    table = pa.table(dict(zip(names, (list(column) for column in zip(*rows, strict=True)), strict=True)))
    with sources.open(table, schema) as source:
        path = source.relabel(Relabelling(labels={}, overrides=suppressed)).write(
            tmp_path / "out.parquet", shuffle=False
        )
    found = duckdb.sql(f"SELECT a0, a44 FROM '{path}'").fetchall()

    assert found == [("a", "a"), ("c", "a")]


def test_aggregated_rows_are_not_split_and_bad_overrides_are_refused(tmp_path: Path) -> None:
    split = Overrides(
        names=("x",), codes=np.array([[0], [0]]), groups=np.array([0, SUPPRESSED]), sizes=np.array([1, 2]),
        labels={"x": texts("left")},
    )  # fmt: skip
    table = pa.table({"x": ["a"], "y": ["a"], "z": ["a"], "n": [3]})
    with (
        sources.open(table, SCHEMA, count_column="n") as source,
        pytest.raises(SourceError, match="aggregated table cannot be split"),
    ):
        source.relabel(Relabelling(labels={}, overrides=split)).write(tmp_path / "out.parquet")
    with pytest.raises(ParameterError, match="one row of codes"):
        Overrides(names=("x",), codes=np.array([0]), groups=np.array([0]))
    with pytest.raises(ParameterError, match="needs a label"):
        Overrides(names=("x",), codes=np.array([[0]]), groups=np.array([0]), labels={"x": texts()})
