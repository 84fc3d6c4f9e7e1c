"""Questions for single numbers, and for numbers that lie anywhere: many records may stand at one place."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import sudare as sd
from sudare.asking.axes import AxisDemand, _weigh_rows, make_points
from sudare.asking.protocol import AttributeCells
from sudare.methods.view import OpenedView, View, open_view
from sudare.methods.view.leaves import cut_schema, find_heaps
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema
from sudare.sources import propose_schema

ROWS = 4_000


def publish_numbers(folder: Path, texts: list[str], attribute: Attribute) -> OpenedView:
    """Publish a view of one column of numbers at an epsilon at which every heap is plain to see."""
    table = folder / "numbers.csv"
    table.write_text("\n".join([attribute.name, *texts]) + "\n", encoding="utf-8")
    schema = Schema(name="numbers", attributes=(attribute,))
    with sd.open(table, schema) as source:
        return open_view(View(epsilon=20, neighbours="add-remove").publish(source, rng=SeededRng(5)))


def test_what_is_exactly_0_is_counted_by_itself_among_numbers_without_a_grain(tmp_path: Path) -> None:
    wet = np.random.default_rng(1).random(ROWS // 4) * 40 + 0.001
    texts = ["0"] * (3 * ROWS // 4) + [repr(float(amount)) for amount in wet]
    view = publish_numbers(
        tmp_path, texts, Attribute(name="rain", domain=NumberBins.of_width(0, 50, 5), grain=Fraction(0))
    )

    found = view.count(rain=(0, 0))

    assert found.low <= 3_000 <= found.high
    assert found.high - found.low < 20


def test_a_number_between_tenths_is_found_at_its_tenth(tmp_path: Path) -> None:
    texts = ["3.9"] * 700 + ["0.7"] * 300 + ["6.3"] * 1000
    domain = NumberBins.of_width(0, 10, 1)
    view = publish_numbers(tmp_path, texts, Attribute(name="wind", domain=domain, grain=Fraction(1, 10)))

    counts = [view.count(wind=(value, value)).value for value in ("3.9", "0.7", "6.3")]

    assert counts == pytest.approx([700, 300, 1000], abs=15)


def test_whole_edges_do_not_make_numbers_whole_once_a_question_lies_between(tmp_path: Path) -> None:
    texts = ["11.84"] * 2_000 + [repr(i / 1000) for i in range(2_000)]
    view = publish_numbers(tmp_path, texts, Attribute(name="score", domain=NumberBins.of_width(0, 60, 5)))

    found = view.count(score=("10.3", "11.9"))

    assert found.inside_deviation > 0
    assert found.low <= 2_000 <= found.high


def test_0_has_a_cell_only_where_numbers_lie_anywhere() -> None:
    anywhere = Attribute(name="x", domain=NumberBins.of_width(-5, 5, 1), grain=Fraction(0))
    whole = Attribute(name="y", domain=NumberBins.of_width(0, 500, 100), grain=Fraction(1))
    fine = cut_schema(Schema(name="s", attributes=(anywhere, whole)))

    assert fine is not None
    domain = fine.attribute("x").domain
    assert isinstance(domain, NumberBins)
    edges = domain.edges
    assert find_heaps(edges, None) < set(edges)
    assert fine.attribute("y").size == 501 - 1


def test_bins_that_are_even_but_for_slivers_are_found_as_python_finds_them(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    numbers = [
        0.0,
        1e-9,
        2e-9,
        9.999,
        10.0,
        5.0,
        *(generator.integers(0, 1001, 300) / 100),
        *(generator.random(300) * 10),
    ]
    slivers = {Fraction(1, 10**9), 10 - Fraction(1, 10**9)}
    edges = tuple(sorted({Fraction(place, 50) for place in range(501)} | slivers))
    attribute = Attribute(name="x", domain=NumberBins(edges), grain=Fraction(0))
    table = tmp_path / "x.csv"
    table.write_text("\n".join(["x", *(f"{number:.12f}" for number in numbers)]) + "\n", encoding="utf-8")
    with sd.open(table, Schema(name="s", attributes=(attribute,))) as source:
        counted = source.count(["x"])

    expected = np.bincount([attribute.encode(f"{number:.12f}") for number in numbers], minlength=attribute.size)

    assert np.array_equal(np.bincount(counted.column("x"), counted.values, attribute.size), expected)


def test_a_draft_says_that_decimals_without_a_step_lie_anywhere(tmp_path: Path) -> None:
    table, form = tmp_path / "scores.csv", tmp_path / "scores.toml"
    scores = np.random.default_rng(3).random(900) * 60
    table.write_text("\n".join(["score", *(f"{score:.6f}" for score in scores)]) + "\n", encoding="utf-8")

    propose_schema(table).save(form, confirmed=True)

    assert Schema.read(form).attribute("score").grain == 0


def test_a_heap_at_0_stands_alone_where_cells_are_wider_than_the_grain(tmp_path: Path) -> None:
    texts = ["0"] * 3_000 + [str(5 * i + 1) for i in range(1_000)]
    domain = NumberBins.of_width(0, 1_000_000, 100_000)
    view = publish_numbers(tmp_path, texts, Attribute(name="gain", domain=domain, grain=Fraction(1)))

    found = view.count(gain=(0, 0))

    assert found.low <= 3_000 <= found.high
    assert found.high - found.low < 30


def test_a_heap_at_the_last_edge_is_counted_by_itself(tmp_path: Path) -> None:
    low = np.random.default_rng(1).random(1_000) * 9.9
    texts = ["10"] * 3_000 + [f"{amount:.7f}" for amount in low]
    domain = NumberBins.of_width(0, 10, 1)
    view = publish_numbers(tmp_path, texts, Attribute(name="sight", domain=domain, grain=Fraction(0)))

    found, mean = view.count(sight=(10, 10)), view.sql("SELECT AVG(sight) FROM view").rows[0][0]

    assert found.low <= 3_000 <= found.high
    assert found.high - found.low < 20
    assert isinstance(mean, sd.Estimate)
    assert mean.low <= (30_000 + low.sum()) / 4_000 <= mean.high


CURVED = ("LN(amount + 1)", "SQRT(amount)", "1 / (amount + 10)", "EXP(-amount / 1000)", "ABS(amount - 1)")


@pytest.mark.parametrize("function", CURVED)
def test_means_of_curved_functions_hold_though_most_of_a_wide_bin_is_one_value(tmp_path: Path, function: str) -> None:
    amounts = np.concatenate([np.ones(1_600), np.exp(np.random.default_rng(2).normal(7.3, 0.8, 400))])
    path = tmp_path / "amounts.csv"
    path.write_text("\n".join(["amount", *map(repr, amounts.tolist())]) + "\n", encoding="utf-8")
    domain = NumberBins.of_width(0, 60_000, 5_000)
    schema = Schema(name="amounts", attributes=(Attribute(name="amount", domain=domain, grain=Fraction(0)),))
    with sd.open(path, schema) as source:  # so much noise that the leaf of 1 is thousands wide
        view = open_view(View(epsilon=Fraction(1, 10), neighbours="add-remove").publish(source, rng=SeededRng(5)))
    names = {"LN": np.log, "SQRT": np.sqrt, "EXP": np.exp, "ABS": np.abs, "amount": amounts}
    truth = float(np.mean(eval(function, names)))

    found = view.sql(f'SELECT AVG({function}) FROM "view"').rows[0][0]

    assert found.low <= truth <= found.high


def test_a_straight_line_through_a_wide_bin_is_as_unsure_as_numbers_spread_over_it() -> None:
    cells = AttributeCells(np.arange(2), (Fraction(0), Fraction(5_000), Fraction(10_000)))
    points = make_points(cells, AxisDemand(is_summed=True), "amount")

    line, curve = _weigh_rows(points, [points.values, np.log(points.values + 1)])

    assert line.variance == pytest.approx([5_000**2 / 12] * 2, rel=1e-6)
    assert curve.variance[0] == pytest.approx((curve.mean[0] - 0) ** 2 / 3, rel=1e-3)
    assert curve.variance[1] < 1.5 * (np.log(10_001) - np.log(5_001)) ** 2 / 12
