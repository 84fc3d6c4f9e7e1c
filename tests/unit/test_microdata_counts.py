"""Counts with intervals over published records, from the measurements that stand beside them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import sudare as sd
from sudare.asking.answers import Estimate
from sudare.counts import Counts
from sudare.errors import ParameterError, ReleaseError
from sudare.methods.microdata import Microdata
from sudare.methods.microdata.measured import OpenedRecords, find_quantile, open_records
from sudare.methods.microdata.projection import possible_cells
from sudare.methods.microdata.tree import first_groups
from sudare.methods.view import View
from sudare.methods.view.questions import ask_directory
from sudare.noise import SeededRng
from sudare.releases import Coded, Frame
from sudare.schema import Attribute, Impossible, NumberBins, Schema, Unit, Values
from sudare.testing import Tabled

PERSON = Unit(kind="person", column="person", max_rows=3)
FORMS = [
    (unit, neighbours, amount)
    for unit in (Unit(), PERSON)
    for neighbours in ("replace", "add-remove")
    for amount in ({"epsilon": "1/2"}, {"epsilon": "3"}, {"rho": "1/8"})
]


def towns(unit: Unit | None = None, *, boxed: bool = False) -> Counts:
    """8,000 records in 20 towns by age and sex, towns of very unequal size; no child is in the last town if boxed."""
    attributes = (
        Attribute(name="town", domain=Values(values=tuple(f"t{place}" for place in range(20)))),
        Attribute(name="age", domain=NumberBins.of_width(0, 100, 5)),
        Attribute(name="sex", domain=Values(values=("F", "M"))),
    )
    box = Impossible((("town", frozenset({19})), ("age", frozenset({0, 1, 2}))))
    schema = Schema(name="towns", unit=unit or Unit(), attributes=attributes, impossible=(box,) if boxed else ())
    dice = np.random.default_rng(5)
    weights = 1 / np.arange(1, 21)
    town = dice.choice(20, size=8000, p=weights / weights.sum())
    columns = np.column_stack([town, dice.integers(0, 20, 8000), dice.integers(0, 2, 8000)])
    return Counts.from_columns(schema, columns[~schema.is_impossible(columns)])


def opened(counts: Counts, seed: int, **parameters: Any) -> OpenedRecords:
    return open_records(Microdata(**parameters).publish(Tabled(counts), rng=SeededRng(seed)))


def ask(schema: Schema, dice: np.random.Generator, kind: int) -> np.ndarray:
    """Weights of a cell, a town, an age range of a sex, or any set of cells."""
    columns = schema.radix.decode(np.arange(schema.size)[:, None])
    chosen = (
        np.arange(schema.size) == dice.integers(schema.size),
        columns[:, 0] == dice.integers(20),
        (columns[:, 1] >= dice.integers(19)) & (columns[:, 2] == 0),
        dice.random(schema.size) < dice.random() / 2,
    )
    return chosen[kind].astype(np.float64)


@pytest.mark.parametrize(("unit", "neighbours", "amount"), FORMS)
def test_intervals_of_all_kinds_of_counts_cover_the_truth_as_often_as_they_say(
    unit: Unit, neighbours: str, amount: dict[str, str]
) -> None:
    """Of 800 questions to 8 releases; noise a third larger than told would cover 86 %, a third smaller 99.6 %."""
    counts, dice = towns(unit), np.random.default_rng(1)
    truth, hits = counts.dense().astype(np.float64), []
    for seed in range(8):
        records = opened(counts, seed, neighbours=neighbours, **amount)
        for question in range(100):
            weights = ask(counts.schema, dice, question % 4)
            count = records.weigh(weights)
            hits.append(count.low <= float(weights @ truth) <= count.high)

    assert 0.92 <= np.mean(hits) <= 0.995


@pytest.mark.parametrize("boxed", [False, True])
def test_estimate_and_standard_error_are_those_of_dense_least_squares(boxed: bool) -> None:
    counts = towns(boxed=boxed).project(["sex", "town", "age"])  # two large groups first: their sums are measured
    records = opened(counts, 3, epsilon="1/10", neighbours="add-remove")
    budget, noisy = records.budget, records.noisy
    assert noisy.groups is not None
    assert budget.sums_noise is not None
    assert budget.total_noise is not None
    cells = possible_cells(counts.schema)
    owner = first_groups(counts.schema)[... if cells is None else cells]
    groups = (owner[None, :] == np.arange(noisy.groups.size)[:, None]).astype(float)
    rows = np.concatenate([np.eye(owner.size), groups, np.ones((1, owner.size))])
    measured = np.concatenate([noisy.cells, noisy.groups, [noisy.total]])
    noises = (budget.cells_noise, budget.sums_noise, budget.total_noise)
    precision = np.repeat([1 / noise.variance for noise in noises], [owner.size, noisy.groups.size, 1])
    inverse = np.linalg.inv(rows.T @ (precision[:, None] * rows))
    weights = ask(counts.schema, np.random.default_rng(2), 3)
    own = weights if cells is None else weights[cells]
    count = records.weigh(weights)

    assert count.value == pytest.approx(own @ inverse @ (rows.T @ (precision * measured)), rel=1e-9)
    assert count.standard_error == pytest.approx(np.sqrt(own @ inverse @ own), rel=1e-9)


def test_counts_by_labels_take_unions_of_bins_and_lists_and_tell_the_published_records() -> None:
    counts = towns()
    records = opened(counts, 1, epsilon="1")
    count = records.count(town=["t0", "t1"], age="[20,30)")
    published = records.published.columns()
    chosen = np.isin(published[:, 0], [0, 1]) & np.isin(published[:, 1], [4, 5])

    assert count.published == records.published.values[chosen].sum()
    assert count.low < count.value < count.high
    assert records.count().standard_error == 0  # the number of records is public


def test_what_is_asked_wrongly_is_told_in_one_line() -> None:
    records = opened(towns(), 1, epsilon="1")
    with pytest.raises(ParameterError, match="no attribute colour; the records have town, age, sex"):
        records.count(colour="red")
    with pytest.raises(ParameterError, match="between 0 and 1"):
        records.count(1.5, town="t0")


def test_a_stored_release_is_opened_again_and_has_one_table_beside_its_measurements(tmp_path: Path) -> None:
    formats: tuple[Literal["parquet", "csv"], ...] = ("parquet", "csv")
    for file_format in formats:
        release = Microdata(epsilon=1).publish(Tabled(towns()), rng=SeededRng(1))
        release.save(tmp_path / file_format, file_format=file_format, even_if_not_private=True)
        stored = open_records(tmp_path / file_format).count(town="t3")

        assert stored == open_records(release).count(town="t3")
        assert sd.Release.load(tmp_path / file_format).frame.rows == release.frame.rows


def test_releases_without_measurements_or_with_damaged_ones_are_refused() -> None:
    wide = tuple(Attribute(name=f"a{place}", domain=NumberBins.of_width(0, 1000, 1)) for place in range(3))
    huge = Counts.from_columns(Schema(name="huge", attributes=wide), [[1, 2, 3]] * 50)
    with pytest.raises(ReleaseError, match="records alone"):
        opened(huge, 1, epsilon="1")
    release = Microdata(epsilon=1).publish(Tabled(towns()), rng=SeededRng(1))
    measured = release.frames["measurements"]
    for kept in (["level", "node"], ["level", "node", "noisy"]):  # a column too few, and a row too few
        columns = {name: measured.decode()[name][:-1] for name in kept}
        labels, places = np.unique(columns["level"].astype(str), return_inverse=True)
        fewer = Frame({**columns, "level": Coded(places, labels.astype(object))})
        damaged = dataclasses.replace(release, frames={**release.frames, "measurements": fewer})
        with pytest.raises(ReleaseError, match="damaged"):
            open_records(damaged)


def test_a_single_noisy_cell_reaches_further_than_a_normal_law() -> None:
    assert find_quantile(0.95, 0.0) == pytest.approx(1.96, abs=0.01)
    assert find_quantile(0.95, 3.0) >= np.log(20) / np.sqrt(2)  # the quantile of a Laplace law


# --- in SQL -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boxed", [False, True])
def test_sql_gives_the_estimate_and_the_interval_of_count(boxed: bool) -> None:
    records = opened(towns(boxed=boxed), 3, epsilon="1")
    counted = records.count(town=["t0", "t3"], sex="F")
    answer = records.sql("SELECT COUNT(*) FROM records WHERE town IN ('t0', 't3') AND sex = 'F'").rows[0][0]

    assert isinstance(answer, Estimate)
    assert answer.value == pytest.approx(counted.value)
    assert (answer.low, answer.high) == pytest.approx((counted.low, counted.high))


def test_intervals_of_sql_over_records_cover_the_truth_and_half_the_noise_would_not() -> None:
    """Detects intervals that hold less than 91 or more than 99.9 of 100 truths: 60 releases, 20 towns each."""
    counts = towns()
    table = counts.dense().reshape(20, 20, 2)
    truth, ages = table.sum(axis=(1, 2)), np.append(np.arange(19) * 5 + 2, 97.5)  # the middle of every bin
    mean = table.sum(axis=(0, 2)) @ ages / 8000
    held, narrow, means = [], [], []
    for seed in range(60):
        records = opened(counts, seed, epsilon="1/2")
        cells = [row[1] for row in records.sql("SELECT town, COUNT(*) FROM towns GROUP BY town").rows]
        found = [cell for cell in cells if isinstance(cell, Estimate)]
        held += [cell.low <= true <= cell.high for cell, true in zip(found, truth, strict=True)]
        narrow += [
            abs(cell.value - true) <= (cell.high - cell.low) / 4 for cell, true in zip(found, truth, strict=True)
        ]
        average = records.sql("SELECT AVG(age) FROM records").rows[0][0]
        assert isinstance(average, Estimate)
        means.append(average.low <= mean <= average.high)

    assert 0.91 <= np.mean(held) <= 0.999
    assert np.mean(narrow) < 0.85
    assert np.mean(means) >= 0.9


def test_shares_over_records_are_as_sure_as_their_counts() -> None:
    records = opened(towns(), 3, epsilon="1")
    rows = records.sql(
        "SELECT sex, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM records GROUP BY sex"
    ).rows

    for _, number, share in rows:
        assert isinstance(number, Estimate)
        assert isinstance(share, Estimate)
        assert share.high - share.low == pytest.approx((number.high - number.low) / 8000, rel=0.1)


def test_one_command_asks_every_release_that_was_measured(tmp_path: Path) -> None:
    records = Microdata(epsilon="5").publish(Tabled(towns()))
    records.save(tmp_path / "records")
    View(epsilon="5").publish(Tabled(towns())).save(tmp_path / "view")
    counted = "SELECT sex, COUNT(*) AS n FROM {source} GROUP BY sex"
    joined = (
        f"SELECT a.sex, a.n - b.n AS gap FROM ({counted.format(source='records')}) a"
        f" JOIN ({counted.format(source='other')}) b ON a.sex = b.sex"
    )
    (_, alone), *_ = ask_directory(tmp_path / "records", counted.format(source="records"), level=0.95, many=False)
    others = {"other": tmp_path / "view"}
    (_, both), *_ = ask_directory(tmp_path / "records", joined, level=0.95, many=False, others=others)

    assert [row[0] for row in alone.rows] == ["F", "M"]
    assert all(isinstance(row[1], Estimate) and row[1].low < 0 < row[1].high for row in both.rows)
