"""The contract of a source holds for DuckDB through every kind of table, and rejects sources that are wrong."""

from __future__ import annotations

import csv
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sudare as sd
from sudare.counts import Counts
from sudare.errors import DomainError, SourceError
from sudare.schema import Schema, Unit
from sudare.sources.base import Source
from sudare.sources.duckdb import DuckEngine
from sudare.sources.engine import NUMBERED_ROWS, ROW, ROWS
from sudare.sources.query import DROPPED_ROWS
from sudare.sources.table import TableSource
from sudare.testing import SOURCE_CHECKS, check_source
from sudare.testing.source_cases import VISITS
from sudare.testing.sources import IDENTITY_CHECKS, RawColumns, check_sentences

Put = Callable[[RawColumns, Path], Any]


def _csv(columns: RawColumns, file: Path, encoding: str = "utf-8") -> str:
    with file.open("w", encoding=encoding, newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(file)


def _parquet(columns: RawColumns, file: Path) -> str:
    pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), file)
    return str(file)


KINDS: dict[str, tuple[Put, str]] = {
    "csv": (_csv, ".csv"),
    "csv in Shift_JIS": (lambda columns, file: _csv(columns, file, encoding="cp932"), ".csv"),
    "parquet": (_parquet, ".parquet"),
    "arrow": (lambda columns, _: pa.table({name: pa.array(values) for name, values in columns.items()}), ""),
    "polars": (lambda columns, _: pl.DataFrame(dict(columns), strict=False), ""),
    "pandas": (lambda columns, _: pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()}), ""),
}


def opener(kind: str, place: Path) -> Callable[[RawColumns, Schema], Source]:
    """Put columns where the kind of table is read from, and open it."""
    put, suffix = KINDS[kind]
    numbers = itertools.count()
    return lambda columns, schema: sd.open(put(columns, place / f"rows{next(numbers)}{suffix}"), schema)


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_duckdb_keeps_the_contract(kind: str, tmp_path: Path) -> None:
    held = check_source(opener(kind, tmp_path))

    assert len(held) >= 16


READING = ("every_value", "a_table_without_rows", "counting_twice", "rows_that_do_not_fit", "rows_are_written")


@pytest.mark.parametrize("kind", ["csv in Shift_JIS", "polars", "pandas"])
def test_tables_that_come_in_another_way_are_read_alike(kind: str, tmp_path: Path) -> None:
    """Once it is read, a table is a table: the sentences about reading its values are tried."""
    checks = [check for check in SOURCE_CHECKS if check.__name__.startswith(READING)]
    for check in checks:
        check(opener(kind, tmp_path))

    assert len(checks) == len(READING)


class Wrong:
    """A source that hands everything on; the wrong ones change one thing each."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)


class Forgetful(Wrong):
    """Loses a record."""

    def count(self, by: Sequence[str] | None = None) -> Counts:
        counts = self.source.count(by)
        values = counts.values.copy()
        values[:1] -= 1
        return Counts.build(counts.schema, counts.codes, values)


class Disorderly(Wrong):
    """Counts in the order of the schema, whatever was asked for."""

    def count(self, by: Sequence[str] | None = None) -> Counts:
        return self.source.count([name for name in self.source.schema.names if by is None or name in by])


class Talkative(Wrong):
    """Tells the value that does not fit."""

    def count(self, by: Sequence[str] | None = None) -> Counts:
        try:
            return self.source.count(by)
        except DomainError as error:
            shown = [example for one in self.source.check().problems for example in one.examples]
            raise DomainError("{text}: {shown}", text=str(error), shown=shown) from None


class Chatty(Wrong):
    """Keeps the engine's own error, which tells the value, behind its own."""

    def count(self, by: Sequence[str] | None = None) -> Counts:
        try:
            return self.source.count(by)
        except DomainError as error:
            shown = [example for one in self.source.check().problems for example in one.examples]
            raise error from ValueError(f"Could not convert {shown}")


class Indulgent(Wrong):
    """Counts a table that does not fit as an empty one."""

    def count(self, by: Sequence[str] | None = None) -> Counts:
        try:
            return self.source.count(by)
        except DomainError:
            schema = self.source.schema
            return Counts.build(schema, np.empty((0, len(schema.radix.words)), dtype=np.int64), [])


class Blind(Wrong):
    """Finds nothing wrong with any table."""

    def check(self) -> Any:
        from sudare.sources.base import Findings

        return Findings()


WRONG = [
    (Forgetful, "every value is counted as the schema encodes it"),
    (Disorderly, "chosen attributes are counted in the order asked for"),
    (Talkative, "rows that do not fit are refused without telling values"),
    (Chatty, "rows that do not fit are refused without telling values"),
    (Indulgent, "rows that do not fit are refused without telling values"),
    (Blind, "the steward is told what does not fit"),
]


@pytest.mark.parametrize(("wrong", "sentence"), WRONG)
def test_a_wrong_source_is_rejected_with_the_sentence_it_breaks(
    wrong: type[Wrong], sentence: str, tmp_path: Path
) -> None:
    right = opener("arrow", tmp_path)

    with pytest.raises(AssertionError, match=f"it does not hold that {sentence}: "):
        check_source(lambda columns, schema: wrong(right(columns, schema)))  # type: ignore[arg-type, return-value]


def test_a_source_that_ignores_persons_is_rejected(tmp_path: Path) -> None:
    right = opener("arrow", tmp_path)

    with pytest.raises(AssertionError, match="a person keeps at most the declared number of rows"):
        check_source(lambda columns, schema: right(columns, dataclasses.replace(schema, unit=Unit())))


def test_a_source_that_keeps_the_first_rows_of_a_person_is_rejected(tmp_path: Path) -> None:
    right = opener("arrow", tmp_path)

    def first_rows(columns: RawColumns, schema: Schema) -> Source:
        if schema.unit.kind == "person":
            seen: Counter[str] = Counter()
            keep = [seen.update([one]) or seen[one] <= schema.unit.max_rows for one in columns["person"]]
            columns = {name: list(itertools.compress(values, keep)) for name, values in columns.items()}
        return right(columns, schema)

    with pytest.raises(AssertionError, match="must be random, not its place in the file"):
        check_source(first_rows)


class PlantedEngine(DuckEngine):
    """DuckDB with another identity of rows; the wrong ones say which."""

    identity = f"{ROW}"

    def __init__(self, data: object) -> None:
        super().__init__(data)
        numbered = f"SELECT *, ROW_NUMBER() OVER () AS {ROW} FROM {ROWS}"
        columns = ", ".join(column.column_id for column in self.columns)
        planted = f"SELECT {columns}, {self.identity} AS {ROW} FROM ({numbered}) ORDER BY {ROW}"
        self._execute(f"CREATE OR REPLACE TEMP VIEW {NUMBERED_ROWS} AS {planted}")


class UnstableIdentity(PlantedEngine):
    """Numbers the rows anew in every query, as ROW_NUMBER() does on a server where others scan too."""

    identity = "ROW_NUMBER() OVER (ORDER BY random())"


class NullIdentity(PlantedEngine):
    """Has no identity, as a plan that names its files otherwise."""

    identity = "CAST(NULL AS BIGINT)"


class SharedIdentity(PlantedEngine):
    """Has one identity for two rows, as a place in a file without the file."""

    identity = f"{ROW} // 2"


class ForgottenCap(DuckEngine):
    """Keeps the rows to be dropped under identities that no row has, so that the cap switches itself off."""

    def keep(self, name: str, query: Any) -> None:
        super().keep(name, query)
        if name == DROPPED_ROWS:
            self._execute(f"UPDATE {name} SET v = -v")


@pytest.mark.parametrize("engine", [UnstableIdentity, NullIdentity, SharedIdentity, ForgottenCap])
def test_a_planted_identity_of_rows_is_found(engine: type[DuckEngine]) -> None:
    def open_rows(columns: RawColumns, schema: Schema) -> Source:
        return TableSource(engine(pa.table({name: pa.array(values) for name, values in columns.items()})), schema)

    with pytest.raises(AssertionError, match="a row is the same row in every query"):
        check_sentences(open_rows, IDENTITY_CHECKS)


@pytest.mark.parametrize("engine", [NullIdentity, SharedIdentity, ForgottenCap])
def test_a_source_refuses_an_engine_that_would_count_too_many_rows_of_a_person(engine: type[DuckEngine]) -> None:
    rows = pa.table({name: pa.array(values) for name, values in VISITS.columns.items()})

    with TableSource(engine(rows), VISITS.schema) as source, pytest.raises(SourceError, match="does not know a row"):
        source.count()


def test_a_split_over_an_unstable_identity_is_found() -> None:
    def open_rows(columns: RawColumns, schema: Schema) -> Source:
        rows = pa.table({name: pa.array(values) for name, values in columns.items()})
        return TableSource(UnstableIdentity(rows), schema)

    with pytest.raises(AssertionError, match="are dealt out exactly"):
        check_sentences(open_rows, IDENTITY_CHECKS[1:])
