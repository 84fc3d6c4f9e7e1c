"""Microdata by projection: the paper's own example, its promise, and what it refuses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import DomainError, NotConfirmed, ParameterError
from sudare.mechanisms import SeededRng
from sudare.methods.microdata import Microdata
from sudare.methods.microdata.sensitivity import CELLS, TOTAL, plan
from sudare.privacy import Guarantee
from sudare.schema import Attribute, Impossible, Schema, Unit, Values
from sudare.testing import Tabled

SEX = Attribute(name="sex", domain=Values(values=("男性", "女性")))
AGE = Attribute(name="age", domain=Values(values=("大人", "子供")))
FIGURE_1 = Schema(name="figure 1", unit=Unit(), attributes=(SEX, AGE))
RECORDS = [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]


def person(rows: int) -> Unit:
    return Unit(kind="person", column="id", max_rows=rows)


def test_the_papers_figure_1_is_the_complete_table() -> None:
    assert Counts.from_columns(FIGURE_1, RECORDS).dense().tolist() == [3, 0, 1, 1]


def test_with_a_huge_epsilon_the_records_come_back() -> None:
    release = Microdata(epsilon=1000).publish(Tabled(Counts.from_columns(FIGURE_1, RECORDS)), rng=SeededRng(1))
    columns = release.frames["records"].decode()

    assert sorted(zip(columns["sex"], columns["age"], strict=True)) == sorted(
        [("男性", "大人")] * 3 + [("女性", "大人"), ("女性", "子供")]
    )


def test_the_number_of_records_is_kept_under_replace_one() -> None:
    counts = Counts.from_columns(FIGURE_1, RECORDS, [40, 0, 2, 1, 57])

    assert {Microdata(epsilon="0.1").draw(counts, rng=SeededRng(seed)).total for seed in range(20)} == {100}


def test_the_number_of_records_is_noisy_under_add_remove() -> None:
    counts = Counts.from_columns(FIGURE_1, RECORDS)
    method = Microdata(epsilon="0.1", neighbours="add-remove")

    assert len({method.draw(counts, rng=SeededRng(seed)).total for seed in range(20)}) > 5


def test_rows_come_in_random_order() -> None:
    counts = Counts.from_columns(FIGURE_1, RECORDS, [500, 0, 0, 500, 500])
    columns = Microdata(epsilon=100).publish(Tabled(counts), rng=SeededRng(1)).frames["records"].decode()
    changes = int((columns["sex"][1:] != columns["sex"][:-1]).sum())

    assert changes > 400


@pytest.mark.parametrize(
    ("neighbours", "unit", "cells", "total", "parts"),
    [
        ("replace", Unit(), 2, 0, {CELLS: Fraction(1)}),
        ("replace", person(1), 2, 0, {CELLS: Fraction(1)}),
        ("replace", person(5), 10, 4, {TOTAL: Fraction(1, 20), CELLS: Fraction(19, 20)}),
        ("add-remove", Unit(), 1, 1, {TOTAL: Fraction(1, 20), CELLS: Fraction(19, 20)}),
        ("add-remove", person(5), 5, 5, {TOTAL: Fraction(1, 20), CELLS: Fraction(19, 20)}),
    ],
)
def test_sensitivities_follow_neighbours_and_unit(
    neighbours: str, unit: Unit, cells: int, total: int, parts: dict[str, Fraction]
) -> None:
    budget = plan(Guarantee(epsilon=Fraction(1), neighbours=neighbours, unit=unit))  # type: ignore[arg-type]

    assert (budget.cells_sensitivity, budget.total_sensitivity, dict(budget.parts)) == (cells, total, parts)


def test_impossible_combinations_are_never_published() -> None:
    child = Impossible(values={"sex": frozenset({0}), "age": frozenset({1})})
    schema = Schema(name="s", unit=Unit(), attributes=(SEX, AGE), impossible=(child,))
    counts = Counts.from_columns(schema, [[0, 0], [1, 1]], [50, 50])
    drawn = sum(Microdata(epsilon="0.05").draw(counts, rng=SeededRng(seed)).dense() for seed in range(50))

    assert drawn[1] == 0
    assert min(drawn[0], drawn[2], drawn[3]) > 0


def test_rows_in_impossible_combinations_are_refused() -> None:
    schema = Schema(
        name="s", unit=Unit(), attributes=(SEX, AGE), impossible=(Impossible(values={"sex": frozenset({0})}),)
    )

    with pytest.raises(DomainError, match="impossible"):
        Microdata(epsilon=1).draw(Counts.from_columns(schema, [[0, 0]]), rng=SeededRng(1))


def test_a_table_of_1e30_cells_is_published() -> None:
    wide = tuple(Attribute(name=f"a{i}", domain=Values(values=tuple(map(str, range(1000))))) for i in range(10))
    schema = Schema(name="wide", unit=Unit(), attributes=wide)
    counts = Counts.from_columns(schema, [[7] * 10, [999] * 10], [3000, 2000])
    drawn = Microdata(epsilon=1).draw(counts, rng=SeededRng(1))

    assert drawn.total == 5000
    assert drawn.restrict({"a0": ["7"], "a9": ["7"]}).total > 2500


def test_an_inferred_schema_is_refused_until_it_is_confirmed() -> None:
    guessed = Schema(name="guess", unit=Unit(), attributes=(SEX,), origin="inferred")

    with pytest.raises(NotConfirmed, match="confirm"):
        Microdata(epsilon=1).publish(Tabled(Counts.from_columns(guessed, [[0]])), rng=SeededRng(1))


def test_only_the_chosen_attributes_are_published() -> None:
    release = Microdata(epsilon=1, by=("age",)).publish(
        Tabled(Counts.from_columns(FIGURE_1, RECORDS)), rng=SeededRng(1)
    )

    assert list(release.frames["records"].columns) == ["age"]
    assert [one["name"] for one in release.certificate.schema["attributes"]] == ["age"]


def test_the_preview_states_the_noise_exactly() -> None:
    told = Microdata(epsilon=1).preview(FIGURE_1, rows=1000)
    a = np.exp(-1 / 2)

    assert told.cell_standard_deviation == pytest.approx(np.sqrt(2 * a) / (1 - a))
    assert told.l2_before_repair == pytest.approx(2 * told.cell_standard_deviation)


@pytest.mark.parametrize("epsilon", [0, -1, "abc", float("nan"), float("inf"), "1e400", "", True])
def test_an_epsilon_that_is_none_is_refused(epsilon: object) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        Microdata(epsilon=epsilon)  # type: ignore[arg-type]


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(ParameterError, match="method"):
        Microdata(epsilon=1, method="magic")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="neighbours"):
        Microdata(epsilon=1, neighbours="cousins")  # type: ignore[arg-type]
