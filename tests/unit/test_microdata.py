"""Microdata by projection: the paper's own example, its promise, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import pytest

from sudare.compare import empty_cell_share, l2_distance
from sudare.counts import Counts
from sudare.errors import DomainError, NotConfirmed, ParameterError, SourceError
from sudare.methods.budget import CELLS, TOTAL, plan
from sudare.methods.microdata import Microdata
from sudare.methods.microdata.expected_error import _smooth, expected_error
from sudare.noise import SeededRng
from sudare.privacy import Guarantee, Unrecorded
from sudare.schema import Attribute, DateBins, Impossible, NumberBins, Schema, Unit, Values
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


@pytest.mark.parametrize("algorithm", ["tree", "projection"])
def test_impossible_combinations_are_never_published(algorithm: Literal["tree", "projection"]) -> None:
    child = Impossible(values={"sex": frozenset({0}), "age": frozenset({1})})
    schema = Schema(name="s", unit=Unit(), attributes=(SEX, AGE), impossible=(child,))
    counts = Counts.from_columns(schema, [[0, 0], [1, 1]], [50, 50])
    method = Microdata(epsilon="0.05", algorithm=algorithm)
    drawn = sum(method.draw(counts, rng=SeededRng(seed)).dense() for seed in range(50))

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


def test_a_source_that_counts_over_other_facts_is_refused_before_the_spend() -> None:
    class Lying(Tabled):
        def count(self, by: object = None) -> Counts:
            return Counts.from_columns(FIGURE_1, RECORDS)

    declared = Schema(name="figure 1", unit=person(5), attributes=(SEX, AGE))
    purse = Unrecorded()
    with pytest.raises(SourceError, match="another schema"):
        Microdata(epsilon=1).publish(Lying(Counts.from_columns(declared, RECORDS)), ledger=purse, rng=SeededRng(1))

    assert purse.entries() == []


@pytest.mark.parametrize("epsilon", [20, 60, 1000])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_large_epsilon_on_a_huge_table_keeps_memory_with_the_records(epsilon: int, neighbours: str) -> None:
    wide = tuple(Attribute(name=f"a{i}", domain=Values(values=tuple(map(str, range(1000))))) for i in range(4))
    counts = Counts.from_columns(Schema(name="wide", unit=Unit(), attributes=wide), [[k, k, k, k] for k in range(900)])
    drawn = Microdata(epsilon=epsilon, neighbours=neighbours).draw(counts, rng=SeededRng(1))  # type: ignore[arg-type]

    assert abs(drawn.total - 900) < 20


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
    with pytest.raises(ParameterError, match="algorithm"):
        Microdata(epsilon=1, algorithm="magic")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="neighbours"):
        Microdata(epsilon=1, neighbours="cousins")  # type: ignore[arg-type]


def test_values_can_be_drawn_inside_their_bins() -> None:
    age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 20), missing=True)
    height = Attribute(name="height", domain=NumberBins.of_width("1.2", "2.0", "0.4"))
    day = Attribute(name="day", domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"))
    schema = Schema(name="s", unit=Unit(), attributes=(age, height, day))
    counts = Counts.from_columns(schema, [[1, 0, 1], [4, 1, 11], [5, 0, 0]], [1000, 1000, 1000])
    release = Microdata(epsilon=100, values="inside").publish(Tabled(counts), rng=SeededRng(1))
    columns = release.frames["records"].decode()
    ages, missing = np.ma.getdata(columns["age"]), np.ma.getmaskarray(columns["age"])

    assert missing.sum() == 1000
    assert set(ages[~missing]) == set(range(20, 40)) | set(range(80, 101))
    assert 1.2 <= columns["height"].min() < columns["height"].max() < 2.0
    assert set(columns["day"].astype("datetime64[M]").astype(str)) == {"2024-01", "2024-02", "2024-12"}
    assert columns["day"].max() == np.datetime64("2024-12-31")


def test_one_value_one_cell_and_no_rows_are_tables_too() -> None:
    one = Schema(name="s", unit=Unit(), attributes=(Attribute(name="a", domain=Values(values=("x",))),))

    assert Microdata(epsilon=1).draw(Counts.from_columns(one, [[0]] * 7), rng=SeededRng(1)).total == 7
    assert Microdata(epsilon=1).draw(Counts.from_columns(one, []), rng=SeededRng(1)).total == 0
    assert Microdata(epsilon=1).draw(Counts.from_columns(FIGURE_1, []), rng=SeededRng(1)).total == 0


def test_the_preview_foresees_what_happens_to_a_long_tailed_table() -> None:
    """L2 within 10 % and the empty share within 5 points of a run, on Zipf tables that the preview knows nothing of."""
    cells, rows = 20_000, 20_000
    attribute = Attribute(name="a", domain=Values(values=tuple(map(str, range(cells)))))
    schema = Schema(name="z", unit=Unit(), attributes=(attribute,))
    weights = 1 / np.arange(1, cells + 1)
    drawn = np.random.default_rng(1).choice(cells, rows, p=weights / weights.sum())
    truth = Counts.from_columns(schema, drawn[:, None])
    for epsilon in (0.1, 1):
        method = Microdata(epsilon=epsilon, algorithm="projection")
        (told,) = method.preview(schema, rows=rows).outlooks
        published = method.draw(truth, rng=SeededRng(1))

        assert told.l2 == pytest.approx(l2_distance(truth, published).value, rel=0.1)
        assert told.empty_share == pytest.approx(empty_cell_share(truth, published).value, abs=0.05)


def test_advice_is_given_when_noise_would_fill_the_table() -> None:
    wide = tuple(Attribute(name=f"a{i}", domain=Values(values=tuple(map(str, range(50 + i))))) for i in range(5))
    schema = Schema(name="wide", unit=Unit(), attributes=wide)
    told = Microdata(epsilon="0.1").preview(schema, rows=(1000, 10_000)).advice()

    assert told is not None
    assert "a4 with 54 values" in told.render("en")
    assert Microdata(epsilon=1, by=("a0",)).preview(schema, rows=100_000).advice() is None


def test_noise_in_a_domain_beyond_all_bounds_is_foreseen_to_drown_the_records() -> None:
    foreseen = [
        expected_error(cells=10**power, scale=2.5, rows=100_000).empty_share for power in (6, 12, 20, 40, 135, 290)
    ]

    assert foreseen == sorted(foreseen)
    assert foreseen[-1] > 0.95


def test_smooth_noise_foresees_what_its_steps_add_up_to() -> None:
    values, scale, level = np.array([0.0, 3.0, 50.0]), 20.0, 11.0
    steps = np.linspace(-40 * scale, 40 * scale, 400_001)
    chances = np.exp(-np.abs(steps) / scale) / np.exp(-np.abs(steps) / scale).sum()
    published = np.maximum(values[:, None] + steps - level, 0.0)
    wanted = (published @ chances, ((published - values[:, None]) ** 2) @ chances)

    found = _smooth(values, level, scale)

    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(("epsilon", "is_warned"), [("1/2", True), ("10", False)])
def test_the_page_of_a_table_of_far_more_cells_than_records_says_that_it_shows_noise(
    epsilon: str, is_warned: bool
) -> None:
    wide = Schema(
        name="wide", unit=Unit(), attributes=(Attribute(name="n", domain=NumberBins.of_width(0, 100, 1)), SEX)
    )
    release = Microdata(epsilon=epsilon).publish(Tabled(Counts.from_columns(wide, [[1, 0]] * 20)), rng=SeededRng(1))
    page = Microdata.page(release)

    assert [str(line)[:44] for line in page.warnings] == ["There are 200 possible cells for 20 records,"] * is_warned
