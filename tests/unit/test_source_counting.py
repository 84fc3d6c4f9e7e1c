"""Rows counted: by cell, by number, by person; and those that do not fit."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sudare.sources as sources
from sudare.errors import DomainError, ParameterError, SchemaError
from sudare.schema import Attribute, Impossible, NumberBins, Schema, Unit
from tests.unit.source_tables import AGE, PEOPLE, PERSONS, SEX, arrow, cells, one, refusal, visited, visits, write_csv

# --- counting -------------------------------------------------------------------------------------------------------


def test_attributes_are_counted_in_the_order_asked_for() -> None:
    with sources.open(arrow(), PEOPLE, threads=1, memory_limit="500MB") as source:
        found = cells(source, ["age", "sex"])
        alone = cells(source, ["age"])
        nothing = source.count([]).total

    assert found == {(3, 0): 2, (0, 1): 1, (10, 0): 1, (9, 1): 1}
    assert alone == {(3,): 2, (0,): 1, (10,): 1, (9,): 1}
    assert nothing == 5


def test_an_attribute_that_the_schema_does_not_have_is_refused() -> None:
    with sources.open(arrow(), PEOPLE) as source, pytest.raises(SchemaError, match="no attribute wage"):
        source.count(["wage"])


def test_only_the_attributes_asked_for_are_looked_at() -> None:
    with sources.open(pa.table({"sex": ["F", "M"]}), PEOPLE) as source:
        found = cells(source, ["sex"])

    assert found == {(0,): 1, (1,): 1}


def test_domains_beyond_64_bits_are_counted_exactly() -> None:
    domain = NumberBins.of_width(0, 10_000, 1)
    names = [f"x{index}" for index in range(7)]
    schema = Schema(name="t", attributes=tuple(Attribute(name=name, domain=domain) for name in names))
    rows = [tuple((row * 7919 + at * 104729) % 10**4 for at in range(7)) for row in range(200)] * 3
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    with sources.open(table, schema) as source:
        found = cells(source)

    assert len(schema.radix.words) > 1
    assert found == dict(Counter(rows))


def test_large_counts_in_a_large_domain_are_sorted_too() -> None:
    attribute = Attribute(name="x", domain=NumberBins.of_width(0, 10_000, 1))
    schema = Schema(name="t", attributes=(attribute, Attribute(name="y", domain=attribute.domain)))
    table = pa.table({"x": [5, 1, 5], "y": [0, 2, 1], "n": [2**40, 2**41, 7]})
    with sources.open(table, schema, count_column="n") as source:
        found = cells(source)

    assert found == {(1, 2): 2**41, (5, 0): 2**40, (5, 1): 7}


# --- a table that is already aggregated -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers",
    [
        pa.array([3, 0, 4], pa.int32()),
        pa.array([3, 0, 4], pa.uint64()),
        pa.array([3.0, 0.0, 4.0]),
        pa.array(["3", "0", "4.0"]),
        pa.array([Decimal("3.00"), Decimal("0.00"), Decimal("4.00")], pa.decimal128(9, 2)),
    ],
    ids=["integer", "wide", "float", "text", "decimal"],
)
def test_a_column_of_counts_is_added_up(numbers: pa.Array) -> None:
    with sources.open(
        pa.table({"sex": ["F", "M", "F"], "n": numbers}), one("sex", "F", "M"), count_column="n"
    ) as source:
        found = cells(source)

    assert found == {(0,): 7}


@pytest.mark.parametrize("wrong", [-1, 0.5, None, "1.5", "-1", "x", "", "1e3", float("nan"), float("inf"), True])
def test_a_count_that_is_no_whole_number_is_refused(wrong: object) -> None:
    table = pa.table({"sex": ["F", "M"], "n": pa.array([wrong, None if isinstance(wrong, str) else wrong])})

    assert "n" in refusal(table, one("sex", "F", "M"), count_column="n")


def test_counts_beyond_64_bits_are_refused() -> None:
    table = pa.table({"sex": ["F", "F"], "n": [2**62, 2**62]})

    assert "2**63 - 1" in refusal(table, one("sex", "F"), count_column="n")


def test_counts_and_persons_do_not_go_together() -> None:
    schema = Schema(name="t", unit=Unit(kind="person", column="id"), attributes=(SEX,))
    with pytest.raises(ParameterError, match="does not tell persons apart"):
        sources.open(pa.table({"sex": ["F"], "id": [1], "n": [1]}), schema, count_column="n")


# --- rows that do not fit -------------------------------------------------------------------------------------------


def test_values_that_are_not_declared_are_refused_by_attribute_and_never_shown() -> None:
    table = pa.table({"sex": ["F", "SECRET"], "age": [31, 31337], "name": ["Ann", "Bob"]})
    with sources.open(table, PEOPLE) as source:
        with pytest.raises(DomainError) as refused:
            source.count()
        with pytest.raises(DomainError) as alone:
            source.count(["age"])

    assert str(refused.value) == (
        "the data hold values of sex, age that the schema does not declare; run `sudare schema check` to see them"
    )
    assert "values of age that" in str(alone.value)


def test_an_impossible_combination_is_refused_where_it_can_be_seen() -> None:
    box = Impossible((("age", frozenset({0, 1})), ("sex", frozenset({1}))))
    schema = Schema(name="t", attributes=(SEX, AGE), impossible=(box,))
    with sources.open(arrow(), schema) as source:
        with pytest.raises(DomainError, match="combinations of age, sex that are declared impossible"):
            source.count()
        with pytest.raises(DomainError, match="declared impossible"):
            source.refuse_rows_that_do_not_fit()

        assert source.count(["age"]).total == 5


# --- persons --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_a_person_keeps_at_most_so_many_rows(limit: int) -> None:
    with sources.open(visited(), visits(limit)) as source:
        kept = [code[0] for code in cells(source, ["place"])]
    owners = Counter(PERSONS[row] for row in kept)

    assert owners == {person: min(limit, rows) for person, rows in Counter(PERSONS).items()}


def test_all_counts_of_a_source_are_of_the_same_rows() -> None:
    with sources.open(visited(), visits(2)) as source:
        whole = source.count()
        parts = [source.count([name]) for name in ("half", "place")]

    assert [whole.project([name]) for name in ("half", "place")] == parts


def test_the_same_salt_keeps_the_same_rows_and_a_fresh_one_others(tmp_path: Path) -> None:
    pq.write_table(visited(), tmp_path / "a.parquet")

    def kept(salt: bytes | None) -> list[tuple[int, ...]]:
        with sources.open(tmp_path / "a.parquet", visits(2), salt=salt) as source:
            return sorted(cells(source, ["place"]))

    assert kept(b"one") == kept(b"one")
    assert len({tuple(kept(None)) for _ in range(5)}) > 1


def test_every_row_of_a_person_is_kept_equally_often() -> None:
    kept: Counter[int] = Counter()
    with sources.open(visited(), visits(2)) as source:
        for round_ in range(64):
            source._kept_rows, source._salt = None, round_.to_bytes(2, "big")
            kept.update(code[0] for code in cells(source, ["place"]))
    first = np.array([kept[row] for row in range(8)])

    assert first.sum() == 128
    assert ((first - 16) ** 2 / 12).sum() * 7 / 8 < 24.3  # chi square of 7 degrees at 0.001; one row always kept: 300


def test_a_row_without_a_person_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("1", "0", "0"), ("", "1", "1")], head=("id", "place", "half"))

    assert "column id must name a person" in refusal(path, visits(2))


def test_persons_may_be_texts_and_files_of_several_parts(tmp_path: Path) -> None:
    rows = [(f"p{person}", row, row % 2) for row, person in enumerate(PERSONS)]
    for part, some in enumerate((rows[:5], rows[5:])):
        write_csv(tmp_path / f"{part}.csv", some, head=("id", "place", "half"))
    with sources.open(tmp_path / "*.csv", visits(2)) as source:
        kept = [code[0] for code in cells(source, ["place"])]

    assert Counter(PERSONS[row] for row in kept) == {0: 2, 1: 2, 2: 2, 3: 1}
