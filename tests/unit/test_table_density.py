"""Noise that follows the density of squares: what it costs, where it is smaller, and that its margins hold."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.table import Table
from sudare.methods.table import levels as levels_module
from sudare.methods.table import table as table_module
from sudare.methods.table.asked import open_table
from sudare.methods.table.frames import list_measurements
from sudare.methods.table.measured import MeasuredTable
from sudare.methods.table.page import describe_page
from sudare.methods.table.squares import SquareLayout, find_level_sides, map_levels
from sudare.methods.table.table import draw_levels
from sudare.noise import GeometricNoise, SeededRng
from sudare.releases.certificate import write_chapters
from sudare.report.shapes import Listing, write_number
from sudare.schema import Attribute, MeshCells, NumberBins, Schema, Unit, Values
from sudare.testing import Tabled
from sudare.text import text
from sudare.verify.neighbours import make_map_schema
from sudare.verify.replay import replay_method


def grid(*sizes: int) -> Schema:
    named = zip("xy", sizes, strict=True)
    lines = [Attribute(name=name, domain=NumberBins.of_width(0, size, 1)) for name, size in named]
    return Schema(name="grid", attributes=tuple(lines))


def three_densities() -> Counts:
    """A map of 96 x 96 cells: empty in the west, thinly settled in the middle, crowded in the east."""
    random = np.random.default_rng(21)
    table = np.zeros((96, 96), dtype=np.int64)
    table[:, 32:64] = random.poisson(6, (96, 32))
    table[:, 64:] = random.poisson(300, (96, 32))
    kept = np.flatnonzero(table.ravel())
    return Counts.build(grid(96, 96), kept[:, None], table.ravel()[kept])


def cost_of(noise: Any) -> Fraction:
    """What a number costs that one row changes by 1: epsilon of geometric noise, rho of Gaussian noise."""
    return 1 / noise.scale if isinstance(noise, GeometricNoise) else 1 / (2 * noise.sigma_squared)


@pytest.mark.parametrize("promise", [{"epsilon": 1}, {"rho": "1/30"}, {"epsilon": "1/10"}, {"rho": "1/200"}], ids=str)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("workload", ["mix", "16,mix"])
def test_thin_middle_and_dense_squares_cost_the_same(workload: str, neighbours: Any, promise: dict[str, Any]) -> None:
    method = Table(**promise, neighbours=neighbours, workload=workload)
    plan = method.plan(grid(96, 96))
    rule = method.rule_of(plan.facts, plan.steps)
    assert rule is not None
    above = method.noises_of(plan.facts, plan.steps)[: rule.level + 1]
    changed = plan.steps.changed_cells
    filled = 0 if rule.crowded_noise is None else cost_of(rule.crowded_noise)
    spent = [
        sum(changed * cost_of(noise) for noise in (*above, *own)) + filled + (plan.steps.total_part or 0)
        for own in rule.noises
    ]

    assert len(spent) == (12 if workload == "mix" else 6)
    assert (rule.crowded_noise is not None) == (workload == "mix" and promise in ({"epsilon": 1}, {"rho": "1/30"}))
    assert all(0.9999 * plan.promise.amount < cost <= plan.promise.amount for cost in spent)


def test_noise_follows_the_density_of_squares() -> None:
    """Cells of crowded squares have less noise than those of empty ones, whose sums of 8 x 8 cells have less."""
    counts = three_densities()
    method = Table(epsilon=1)
    plan = method.plan(counts.schema)
    layout = method.layout_of(counts.schema)
    assert isinstance(layout, SquareLayout)
    noises, rule = method.noises_of(plan.facts, plan.steps), method.rule_of(plan.facts, plan.steps)
    measured = draw_levels(counts, layout, noises, plan.steps, rng=SeededRng(3), rule=rule).measured
    assert measured is not None
    assert measured.classes is not None
    squares, cells = (
        measured.variances(layout.sides.index(side))[layout.nodes_of_places(side)].reshape(96, 96)[0, ::32]
        for side in (8, 1)
    )
    classes = measured.classes[layout.nodes_of_places(32)].reshape(96, 96)

    assert classes[::32, ::32].tolist() == [[0, 4, 5]] * 3
    assert squares[0] < squares[1] < squares[2]
    assert cells[0] > cells[1] > cells[2]


def test_margins_hold_where_squares_are_thin_middle_and_dense() -> None:
    """Of 3 x 3,072 cells 96 % are held within 1.5 %; a margin that ignored the classes would hold 98 or 90 %."""
    counts = three_densities()
    method = Table(epsilon=1)
    plan = method.plan(counts.schema)
    layout = method.layout_of(counts.schema)
    assert isinstance(layout, SquareLayout)
    noises, rule = method.noises_of(plan.facts, plan.steps), method.rule_of(plan.facts, plan.steps)
    measured = draw_levels(counts, layout, noises, plan.steps, rng=SeededRng(5), rule=rule).measured
    assert measured is not None
    truth = np.zeros(layout.sizes[-1])
    truth[layout.leaves(counts.columns())] = counts.values
    squares = measured.squares
    is_held = np.abs(squares.estimates[-1] - truth) <= measured.factor_of(1) * squares.standard_errors[-1]
    held = is_held[layout.leaf_of_place].reshape(96, 3, 32).mean(axis=(0, 2))

    assert ((held > 0.945) & (held < 0.975)).all(), held


def thin_map(side: int) -> Counts:
    """Points: 0.7 records a cell on the whole, nearly all of them in a strip."""
    random = np.random.default_rng(22)
    density = np.full((side, side), 0.1)
    density[:, 40:56] = 4.0
    table = random.poisson(density)
    kept = np.flatnonzero(table.ravel())
    return Counts.build(grid(side, side), kept[:, None], table.ravel()[kept])


def test_margins_hold_on_a_thin_map_whose_cells_are_hardly_measured() -> None:
    """Of 9,216 cells 96 % are held, within a percent and a half; those of a map that is not thin would hold 70."""
    counts, method = thin_map(96), Table(epsilon="1/10")
    plan = method.plan(counts.schema)
    drawn = method._draw(counts, plan.steps, SeededRng(5)).measured
    assert isinstance(drawn, MeasuredTable)
    assert drawn.classes is not None
    truth = np.zeros(drawn.layout.sizes[-1])
    truth[drawn.layout.leaves(counts.columns())] = counts.values
    squares = drawn.squares
    is_held = np.abs(squares.estimates[-1] - truth) <= drawn.factor_of(1) * squares.standard_errors[-1]

    assert drawn.is_thin
    assert not drawn.is_few
    assert drawn.classes.min() >= 6
    assert 0.945 < is_held[drawn.layout.is_possible].mean() < 0.975


FEW = 150


def few_records(side: int) -> Counts:
    """A few records, half of them in one eighth of the map."""
    places = np.random.default_rng(24).integers(0, side, (FEW, 2))
    places[::2] //= (2, 4)
    table = np.bincount(places[:, 0] * side + places[:, 1], minlength=side * side)
    return Counts.build(grid(side, side), np.flatnonzero(table)[:, None], table[table > 0])


def draw_few(method: Table, side: int, seed: int) -> tuple[Counts, MeasuredTable]:
    counts = few_records(side)
    drawn = method._draw(counts, method.plan(counts.schema).steps, SeededRng(seed)).measured
    assert isinstance(drawn, MeasuredTable)
    return counts, drawn


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("promise", [{"epsilon": "1/10"}, {"rho": "1/200"}, {"epsilon": "1/8"}], ids=str)
def test_margins_hold_on_a_map_with_few_records(promise: dict[str, Any], neighbours: Any) -> None:
    """Of 9,216 cells 96 % are held, within a percent and a half."""
    counts, drawn = draw_few(Table(**promise, neighbours=neighbours), 96, 6)
    layout = drawn.layout
    assert isinstance(layout, SquareLayout)
    truth = np.zeros(layout.sizes[-1])
    truth[layout.leaves(counts.columns())] = counts.values
    is_held = np.abs(drawn.squares.estimates[-1] - truth) <= drawn.factor_of(1) * drawn.squares.standard_errors[-1]

    assert drawn.is_few
    assert 0.945 < is_held[layout.is_possible].mean() < 0.975


@pytest.mark.parametrize("promise", [{"epsilon": 1}, {"rho": "1/30"}, {"epsilon": "1/10"}, {"rho": "1/200"}], ids=str)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_map_with_few_records_costs_what_others_cost(neighbours: Any, promise: dict[str, Any]) -> None:
    method = Table(**promise, neighbours=neighbours)
    plan = method.plan(grid(96, 96))
    rule = method.rule_of(plan.facts, plan.steps)
    assert rule is not None
    assert rule.few_crowded_noise is not None
    above = plan.promise.amount - cost_of(rule.few_crowded_noise) - (plan.steps.total_part or 0)
    dense = [(*rule.few_noises[-1][: rule.level + 1], *own) for own in rule.few_classes]
    spent = [
        sum((plan.steps.changed_cells * cost_of(noise) for noise in own), Fraction(0))
        for own in (*rule.few_noises, *dense)
    ]

    assert {len(own) for own in (*rule.few_noises, *dense)} == {len(plan.expected_error["levels"])}
    assert all(0.9999 * above < own <= above for own in spent)


def test_a_map_has_few_records_by_its_total_and_the_number_of_crowded_ones() -> None:
    """In 64 squares of 32 x 32, 1.8 and 4 deviations of plain noise (28.3 at epsilon 1/10) are 3,264 and 7,040."""
    plan = Table(epsilon="1/10").plan(grid(256, 256))
    rule, cells = Table(epsilon="1/10").rule_of(plan.facts, plan.steps), np.full(64, 1024)
    assert rule is not None
    totals = (0, 1000, 3000, 7000, 7100, 10**6)

    assert [rule.find_few(total, cells, 0) for total in totals] == [0, 0, 0, 1, None, None]
    assert [rule.find_few(total, cells, 1800) for total in totals] == [0, 0, 2, 2, None, None]
    assert [rule.is_thin(total, cells, 1800) for total in totals] == [True, True, True, False, True, False]


def test_releases_of_an_earlier_version_have_one_set_of_shares_for_few_records() -> None:
    """Four deviations of plain noise in each of nine squares are 1,000 records; no crowded ones are counted."""
    written = decide(Table(epsilon="1/10"), grid(96, 96))
    shares = tuple(":".join(part.split(":")[:2]) for part in written["shares"])
    method = Table(epsilon="1/10", shares=shares, sides=written["sides"])
    plan, cells = method.plan(grid(96, 96)), np.full(9, 1024)
    rule = method.rule_of(plan.facts, plan.steps)
    assert rule is not None
    spent = sum((plan.steps.changed_cells * cost_of(noise) for noise in rule.few_noises[0]), Fraction(0))

    assert [rule.find_few(total, cells, 900) for total in (0, 900, 1100, 100_000)] == [0, 0, None, None]
    assert rule.choose_crowd(500, cells) is None
    assert 0.9999 * plan.promise.amount < spent <= plan.promise.amount


def crowded_few() -> Counts:
    """2,400 records in 40 cells of 256 x 256."""
    places = np.random.default_rng(25).choice(256 * 256, 40, replace=False)
    return Counts.build(grid(256, 256), np.sort(places)[:, None], np.full(40, 60))


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("promise", [{"epsilon": "1/10"}, {"rho": "1/200"}], ids=str)
def test_margins_hold_on_a_map_whose_few_records_are_in_few_cells(promise: dict[str, Any], neighbours: Any) -> None:
    """Of 65,536 cells 96 % are held, within a percent."""
    counts, method = crowded_few(), Table(**promise, neighbours=neighbours)
    drawn = method._draw(counts, method.plan(counts.schema).steps, SeededRng(11)).measured
    assert isinstance(drawn, MeasuredTable)
    truth = np.zeros(drawn.layout.sizes[-1])
    truth[drawn.layout.leaves(counts.columns())] = counts.values
    is_held = np.abs(drawn.squares.estimates[-1] - truth) <= drawn.factor_of(1) * drawn.squares.standard_errors[-1]

    assert drawn.few is not None
    assert not drawn.is_few
    assert list_measurements(drawn).columns["noisy"][-1] == drawn.crowded
    assert 0.95 < is_held[drawn.layout.is_possible].mean() < 0.97


def test_few_records_in_few_cells_stand_where_they_are() -> None:
    """Of 2,400 records in 40 cells half are published in the squares of 8 x 8 around; by area it would be 4 %."""
    counts = crowded_few()
    drawn, truth = Table(epsilon="1/4").draw(counts, rng=SeededRng(12)).dense(), counts.dense()
    squares = [table.reshape(32, 8, 32, 8).sum(axis=(1, 3)) for table in (drawn, truth)]

    assert squares[0][squares[1] > 0].sum() > 0.5 * counts.total


def test_few_records_are_nearer_than_with_the_shares_of_other_maps() -> None:
    """Squares of 16 x 16 of 150 records, 10 runs: less than 0.8 of the error with the sides of other maps."""

    def error(method: Table) -> float:
        counts = few_records(96)
        truth = counts.dense().reshape(6, 16, 6, 16).sum(axis=(1, 3))
        drawn = [method.draw(counts, rng=SeededRng(seed)).dense().reshape(6, 16, 6, 16) for seed in range(10)]
        return math.sqrt(np.mean([(table.sum(axis=(1, 3)) - truth) ** 2 for table in drawn]))

    assert error(Table(epsilon="1/10")) < 0.8 * error(Table(epsilon="1/10", sides=("32", "8", "1")))


def test_a_map_with_few_records_is_read_back_from_its_release() -> None:
    method = Table(epsilon="1/10", neighbours="add-remove")
    counts, drawn = draw_few(method, 96, 9)
    decided = decide(method, counts.schema)
    again = Table(epsilon="1/10", neighbours="add-remove", shares=decided["shares"], sides=decided["sides"])
    rule = again.rule_of(counts.schema, again.plan(counts.schema).steps)

    assert drawn.is_few
    assert rule == drawn.rule


@pytest.mark.parametrize(
    ("counts", "name"), [(few_records(96), "fewest"), (thin_map(96), "thin_map")], ids=["few", "thin"]
)
def test_a_report_draws_the_expected_errors_of_its_own_map(counts: Counts, name: str) -> None:
    """Those of other maps are several times smaller."""
    release = Table(epsilon="1/10").publish(Tabled(counts), rng=SeededRng(2))
    told = release.certificate.expected_error
    errors = told["region_standard_deviation_by_density"][name]
    sections = describe_page(release, title=text("a table")).sections
    listings = [part for section in sections for part in section.parts if isinstance(part, Listing)]
    rows = next(part.rows for part in listings if "error of the sum" in str(part.title))

    assert [row[1:] for row in rows] == [(write_number(float(size)), write_number(errors[size])) for size in errors]
    assert errors["64"] > 2 * told["region_standard_deviation"]["64"]


def test_the_certificate_tells_the_errors_of_every_kind_of_map() -> None:
    release = Table(epsilon="1/10").publish(Tabled(few_records(128)), rng=SeededRng(2))
    told = release.certificate.expected_error["region_standard_deviation_by_density"]
    lines = [str(line) for _, lines in write_chapters(release.certificate) for line in lines]

    for kind in ("thin", "dense", "thin_map", "few", "fewest", "few_crowded"):
        errors = ", ".join(f"{cells}: {error:.1f}" for cells, error in told[kind].items())
        assert any(errors in line for line in lines), kind


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_halved_noise_of_a_map_with_few_records_is_found_by_the_replay(
    monkeypatch: pytest.MonkeyPatch, neighbours: Any
) -> None:
    """Only its own shares have less noise; many tables of the replay have few records."""

    def run() -> list[bool]:
        method = Table(epsilon="1/10", neighbours=neighbours)
        return [result.holds for result in replay_method(method, schema=make_map_schema(Unit()), pairs=12)]

    held = run()
    whole = table_module.find_density_rule

    def halved(shares: Any, budget: Any) -> Any:
        rule = whole(shares, budget)
        few = tuple(tuple(GeometricNoise(scale=noise.scale / 2) for noise in own) for own in rule.few_noises)
        assert few
        return dataclasses.replace(rule, few_noises=few)

    monkeypatch.setattr(table_module, "find_density_rule", halved)

    assert all(held)
    assert not all(run())


def test_halved_noise_of_few_records_in_few_cells_is_found_by_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of the replay have too few records for that question: here it is asked, and all are crowded."""
    monkeypatch.setattr(levels_module, "LEAST_FEW_TOTAL", -1e9)
    monkeypatch.setattr(levels_module, "LEAST_FEW_CROWDED", 10**6)
    whole, parts = table_module.find_density_rule, [1]

    def changed(shares: Any, budget: Any) -> Any:
        rule = whole(shares, budget)
        few = (rule.few_noises[-1], *rule.few_classes)
        top, *classes = (tuple(GeometricNoise(scale=noise.scale / parts[-1]) for noise in own) for own in few)
        return dataclasses.replace(
            rule, few_crowd=0, few_noises=(*rule.few_noises[:-1], top), few_classes=tuple(classes)
        )

    monkeypatch.setattr(table_module, "find_density_rule", changed)
    method, schema = Table(epsilon="1/10", neighbours="add-remove"), make_map_schema(Unit())
    held = [result.holds for result in replay_method(method, schema=schema, pairs=12)]
    parts.append(2)

    assert all(held)
    assert not all(result.holds for result in replay_method(method, schema=schema, pairs=12))


def people_in_few_cells() -> Counts:
    """0.16 records a cell, all of them in 36 cells."""
    table = np.zeros((96, 96), dtype=np.int64)
    table[::16, ::16] = 40
    return Counts.build(grid(96, 96), np.flatnonzero(table)[:, None], table[table > 0])


def points() -> Counts:
    """0.16 records a cell, one in nearly every filled cell."""
    table = np.random.default_rng(23).poisson(0.16, (96, 96))
    return Counts.build(grid(96, 96), np.flatnonzero(table)[:, None], table[table > 0])


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize(("counts", "is_thin"), [(points(), True), (people_in_few_cells(), False)])
def test_points_are_told_from_people_in_few_cells_by_crowded_records(
    counts: Counts, is_thin: bool, neighbours: Any
) -> None:
    method = Table(epsilon=1, neighbours=neighbours)
    drawn = method._draw(counts, method.plan(counts.schema).steps, SeededRng(7)).measured
    assert isinstance(drawn, MeasuredTable)

    crowded = int(np.maximum(counts.values - (8 if neighbours == "replace" else 4), 0).sum())
    assert 0 < abs(drawn.crowded - crowded) < 5 * 142
    assert drawn.is_thin == is_thin


def test_the_number_of_crowded_records_is_published_and_read_back(tmp_path: Path) -> None:
    counts, method = points(), Table(epsilon=1)
    plan = method.plan(counts.schema)
    drawn = method._draw(counts, plan.steps, SeededRng(8)).measured
    assert isinstance(drawn, MeasuredTable)
    listed = list_measurements(drawn).columns

    assert listed["noisy"][-1] == drawn.crowded
    assert listed["level"][-1] == len(drawn.layout.sizes) + 1


@pytest.mark.parametrize("few", [True, False])
def test_halved_noise_of_the_number_of_crowded_records_is_found_by_the_replay(
    few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of the replay have a few records: all of them count as crowded here, on maps of either kind."""
    whole, parts = table_module.find_density_rule, [1]

    def changed(shares: Any, budget: Any) -> Any:
        rule = whole(shares, budget)
        if not few:
            crowded = GeometricNoise(scale=rule.crowded_noise.scale / parts[-1])
            return dataclasses.replace(rule, crowd=0, crowded_noise=crowded, few_bounds=(), few_classes=())
        crowded = GeometricNoise(scale=rule.few_crowded_noise.scale / parts[-1])
        return dataclasses.replace(rule, few_crowd=0, few_crowded_noise=crowded)

    monkeypatch.setattr(table_module, "find_density_rule", changed)
    method, schema = Table(epsilon=1, neighbours="add-remove"), make_map_schema(Unit())
    held = [result.holds for result in replay_method(method, schema=schema, pairs=4)]
    parts.append(2)

    assert all(held)
    assert not all(result.holds for result in replay_method(method, schema=schema, pairs=4))


def test_squares_of_a_thin_map_are_surer_than_with_the_shares_of_others() -> None:
    """Sums of 16 x 16 cells have 0.6 of the standard error of those that are sums of four measured squares."""
    counts = thin_map(96)

    def error(method: Table) -> float:
        drawn = method._draw(counts, method.plan(counts.schema).steps, SeededRng(1)).measured
        assert isinstance(drawn, MeasuredTable)
        assert isinstance(drawn.layout, SquareLayout)
        leaf = drawn.layout.leaf_of_place.reshape(96, 96)[:16, :16].ravel()
        return drawn.squares.answer(leaf).standard_error

    assert error(Table(epsilon="1/10")) < 0.7 * error(Table(epsilon="1/10", sides=("32", "8", "1")))


def test_a_map_with_sides_in_between_that_is_not_thin_is_made_of_the_usual_ones() -> None:
    """Large cells keep their places and figures, whole numbers add up to the total."""
    counts = three_densities()
    method = Table(epsilon="1/10")
    drawn = method.draw(counts, rng=SeededRng(4)).dense().reshape(96, 96)
    truth = counts.dense().reshape(96, 96)

    assert method.plan(counts.schema).decided["sides"] == ("64", "32", "16", "8", "4", "1")
    assert drawn.sum() == counts.total
    assert abs(drawn[:, 64:].sum() / truth[:, 64:].sum() - 1) < 0.01
    assert np.corrcoef(drawn[:, 64:].ravel(), truth[:, 64:].ravel())[0, 1] > 0.25


def test_halved_noise_of_dense_squares_is_found_by_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> list[bool]:
        return [result.holds for result in replay_method(Table(epsilon=20), schema=make_map_schema(Unit()), pairs=4)]

    held = run()
    whole = table_module.find_density_rule

    def halved(shares: Any, budget: Any) -> Any:
        rule = whole(shares, budget)
        noises = tuple(tuple(GeometricNoise(scale=noise.scale / 2) for noise in own) for own in rule.noises)
        return dataclasses.replace(rule, noises=noises)

    monkeypatch.setattr(table_module, "find_density_rule", halved)

    assert all(held)
    assert not all(run())


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_halved_noise_of_a_thin_map_is_found_by_the_replay(monkeypatch: pytest.MonkeyPatch, neighbours: Any) -> None:
    """Only the classes of thin maps have less noise; some tables of the replay are thin maps."""

    def run() -> list[bool]:
        method = Table(epsilon="1/10", neighbours=neighbours)
        return [result.holds for result in replay_method(method, schema=make_map_schema(Unit()), pairs=24)]

    held = run()
    whole = table_module.find_density_rule

    def halved(shares: Any, budget: Any) -> Any:
        rule = whole(shares, budget)
        halves = tuple(tuple(GeometricNoise(scale=noise.scale / 2) for noise in own) for own in rule.noises[6:])
        return dataclasses.replace(rule, noises=(*rule.noises[:6], *halves))

    monkeypatch.setattr(table_module, "find_density_rule", halved)

    assert all(held)
    assert not all(run())


def test_shares_are_written_and_read_back_with_their_classes() -> None:
    schema = grid(96, 96)
    decided = decide(Table(epsilon=1), schema)
    written = decided["shares"]
    again = Table(epsilon=1, shares=written, sides=decided["sides"])

    assert all(part.count("|") in (0, 11) and part.count(":") == 2 for part in written)
    assert again.plan(schema).expected_error == Table(epsilon=1).plan(schema).expected_error
    assert Table(epsilon=1, shares=("1/4", "1/4", "1/2")).rule_of(schema, Table(epsilon=1).plan(schema).steps) is None


def test_shares_of_three_classes_keep_their_meaning() -> None:
    """Releases of the first form have three classes: 0.3 and 6 deviations of plain noise part them."""
    schema = grid(96, 96)
    method = Table(epsilon=1, shares=("1/4", "3/8|1/4|1/8", "3/8|1/2|5/8"))
    rule = method.rule_of(schema, method.plan(schema).steps)

    assert rule is not None
    assert len(rule.noises) == 3
    assert [bound / math.sqrt(GeometricNoise(scale=Fraction(2)).variance) for bound in rule.bounds] == pytest.approx(
        [0.3, 6.0], rel=0.02
    )


@pytest.mark.parametrize(
    "shares",
    [
        ("1/4", "1/4|1/4", "1/2"),
        ("1/4", "1/4|1/4|1/4", "1/2|1/2|1/2|1/2|1/2|1/2"),
        ("1/4|1/4|1/4", "1/4", "1/2"),
        ("1/4", "1/4|1/4|1/4", "1/2|1/2|1/3"),
        ("1/2", "1/2|1/4|1/8", "0|1/4|3/8"),
        ("1/4:1/2", "1/4:1/4", "1/2:1/4"),
    ],
)
def test_shares_that_do_not_add_up_in_every_class_are_refused(shares: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError, match="from thin to dense"):
        Table(epsilon=1, shares=shares).plan(grid(96, 96))


def test_shares_of_every_map_add_up() -> None:
    for longest in (16, 160, 300, 512, 1024, 1500):
        assert sum(map_levels(longest)[1]) == 1


def test_empty_cells_beside_giants_stay_empty_and_giants_keep_their_figures() -> None:
    """6 % of all empty cells held people when squares with a giant took every noisy cell as it was; now 1 %."""
    table = np.zeros((96, 96), dtype=np.int64)
    table[4::8, 4::8] = 5000
    kept = np.flatnonzero(table.ravel())
    counts = Counts.build(grid(96, 96), kept[:, None], table.ravel()[kept])
    drawn = Table(epsilon=1).draw(counts, rng=SeededRng(5)).dense().reshape(96, 96)

    assert (drawn[table == 0] > 0).mean() < 0.02
    assert np.abs(drawn - table)[table > 0].max() < 80


def test_cells_of_a_thin_map_are_near_an_even_share() -> None:
    """Cells of 1.5 people, noise of 50: tails of the noise, and squares whose people all were in their largest cell,
    put cells off by 8; they are off by 1.2 if everybody is spread evenly.
    """
    table = np.random.default_rng(4).poisson(1.5, (96, 96))
    kept = np.flatnonzero(table.ravel())
    counts = Counts.build(grid(96, 96), kept[:, None], table.ravel()[kept])
    drawn = Table(epsilon=Fraction(1, 10)).draw(counts, rng=SeededRng(6)).dense().reshape(96, 96)

    assert math.sqrt(np.mean((drawn - table) ** 2)) < 3.5


def test_thin_places_of_a_large_map_have_more_for_squares_of_16_cells() -> None:
    shares = [
        [Fraction(part) for part in level.split("|")] for level in decide(Table(epsilon=2), grid(300, 300))["shares"]
    ]
    squares = shares[2]

    assert [len(level) for level in shares] == [1, 1, 6, 6, 6]
    assert sorted(squares, reverse=True) == squares
    assert squares[0] > 3 * squares[-1]


def test_squares_of_a_thin_large_map_are_combined_with_what_is_around_them() -> None:
    """Squares of 4 x 4 cells hold 8 people; each row by itself put them off by 20, an even share by 2.8."""
    table = np.random.default_rng(4).poisson(0.5, (320, 320))
    kept = np.flatnonzero(table.ravel())
    counts = Counts.build(grid(320, 320), kept[:, None], table.ravel()[kept])
    drawn = Table(epsilon=Fraction(1, 10)).draw(counts, rng=SeededRng(6)).dense().reshape(320, 320)
    off = (drawn - table).reshape(80, 4, 80, 4).sum(axis=(1, 3))

    assert math.sqrt(np.mean(off**2)) < 9


# --- sides of squares -----------------------------------------------------------------------------------------------


def decide(method: Table, schema: Schema) -> dict[str, Any]:
    return dict(method.plan(schema).decided)


def test_a_workload_beside_the_mix_keeps_the_classes_of_density_and_the_part_of_other_attributes() -> None:
    mesh = Attribute(name="mesh", domain=MeshCells(level=4, area=("5339",)))
    age = Attribute(name="age", domain=Values(("young", "old")))
    schema = Schema(name="people", attributes=(mesh, age))
    usual, asked = Table(epsilon=2)._shares(schema), Table(epsilon=2, workload="10,mix")._shares(schema)
    assert usual is not None
    assert asked is not None
    again = Table(epsilon=2, sides=("20", "10", "5", "1"), shares=asked.write())._shares(schema)

    assert [len(shares.by_class) for shares in (usual, asked)] == [6, 6]
    assert all(sum(own) == 1 for own in asked.by_class)
    assert all(few[-1] > 0.7 * more[-1] for few, more in zip(asked.by_class, usual.by_class, strict=True))
    assert asked.middle[1] > 0.2
    assert again == asked


def test_squares_that_a_workload_names_are_measured_themselves() -> None:
    schema = grid(300, 300)
    asked, usual = Table(epsilon=2, workload="cells,32"), Table(epsilon=2)

    assert decide(usual, schema)["sides"] == ("256", "64", "16", "4", "1")
    assert decide(asked, schema)["sides"] == ("256", "64", "32", "16", "4", "1")


def test_squares_and_levels_that_a_workload_names_are_measured_themselves_on_a_mesh() -> None:
    schema = Schema(name="mesh", attributes=(Attribute(name="mesh", domain=MeshCells(level=3, area=("5339",))),))
    named = {work: decide(Table(epsilon=2, workload=work), schema) for work in ("mesh:1,cells", "8", "5,cells", "mix")}
    found = Table(epsilon=2, workload="mesh:1,cells")
    again = Table(epsilon=2, sides=named["mesh:1,cells"]["sides"], shares=named["mesh:1,cells"]["shares"])

    assert {work: each.get("sides") for work, each in named.items()} == {
        "mesh:1,cells": ("20", "10", "5", "1"),  # 10 km
        "8": ("8", "1"),
        "5,cells": None,  # those of every mesh of 1 km
        "mix": None,
    }
    assert Fraction(named["mesh:1,cells"]["shares"][1]) > Fraction(2, 5)
    assert again.plan(schema).expected_error == found.plan(schema).expected_error


@pytest.mark.parametrize("level", [2, 3, 4])
def test_levels_of_a_mesh_have_the_sides_of_its_groups(level: int) -> None:
    mesh = Attribute(name="mesh", domain=MeshCells(level=level, area=("5339",)))
    assert mesh.hierarchy is not None
    groups = [mesh.hierarchy.lift(np.arange(mesh.size), above) for above in range(1, level)]
    sides = [math.isqrt(int(np.bincount(group).max())) for group in groups]

    assert list(find_level_sides(Schema(name="m", attributes=(mesh,))).values()) == sides


def test_a_release_of_an_earlier_version_keeps_its_squares() -> None:
    """Such releases have shares and no sides: squares of 128, 32 and 8 cells on a map of 512."""
    layout = Table(epsilon=1, shares=("1/4",) * 4).layout_of(grid(300, 300))

    assert isinstance(layout, SquareLayout)
    assert layout.sides == (128, 32, 8, 1)


def test_sides_and_shares_of_a_plan_make_the_same_plan_again() -> None:
    schema = grid(300, 300)
    first = decide(Table(epsilon=1), schema)
    again = Table(epsilon=1, sides=first["sides"], shares=first["shares"])

    assert again.plan(schema).expected_error == Table(epsilon=1).plan(schema).expected_error
    assert decide(again, schema) == first


def test_own_sides_of_a_mesh_are_served_by_shares_of_their_own() -> None:
    mesh = Schema(name="mesh", attributes=(Attribute(name="mesh", domain=MeshCells(level=4, area=("5339",))),))
    shares = decide(Table(epsilon=1, sides=("16", "4", "1")), mesh)["shares"]

    assert len(set(shares)) == len(shares) == 3


@pytest.mark.parametrize("sides", [("64", "24", "1"), ("16", "4"), ("16", "x", "1"), ("512", "1"), ("4", "4", "1")])
def test_sides_that_do_not_divide_each_other_or_leave_the_map_are_refused(sides: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError, match="each a multiple of the next"):
        Table(epsilon=1, sides=sides).plan(grid(96, 96))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1)], ids=str)
@pytest.mark.parametrize("longest", [32, 64, 128, 256, 512])
def test_no_size_of_squares_has_more_noise_than_the_wavelet_of_the_paper(longest: int, epsilon: Fraction) -> None:
    """Exact standard errors of aligned squares of every class of density; the wavelet halves a map of 512 18 times."""
    decided = decide(Table(epsilon=epsilon), grid(longest, longest))
    levels = [int(side) for side in decided["sides"]]
    by_level = [share.partition(":")[0].split("|") for share in decided["shares"]]
    halves = 2 * int(math.log2(longest))
    of_halves = GeometricNoise(scale=2 * halves / epsilon).variance
    sizes = [side for side in (8, 16, 32, 64, 128, 256) if (8 if longest < 512 else 16) <= side < longest]
    for number in range(min(6, max(map(len, by_level)))):  # those of thin maps have sums of one size only
        shares = [Fraction(own[number % len(own)]) for own in by_level]
        noise = [GeometricNoise(scale=2 / (epsilon * share)).variance for share in shares]
        rates = np.cumsum([side**2 / each for side, each in zip(levels[::-1], noise[::-1], strict=True)])[::-1]
        for side in sizes:
            held = [side**4 / longest**2, *(side**2 * min(1.0, (side / level) ** 2) for level in levels)]
            ours = float((np.diff(held) / rates).sum())
            wavelets = of_halves / 3 * (1 - 4.0 ** -(halves - 2 * math.log2(side)))

            assert ours <= wavelets, (side, number)


# --- the largest squares ----------------------------------------------------------------------------------------------


def test_the_largest_squares_of_a_thin_map_are_picked_by_the_published_counts() -> None:
    """By the unbiased figures, which have the errors of the whole map, they would be anywhere."""
    release = Table(epsilon="1/10").publish(Tabled(few_records(128)), rng=SeededRng(4))
    published = release.frames["cells"].decode()
    by_column = {x: int(published["count"][published["x"] == x].sum()) for x in published["x"]}
    answer = open_table(release).sql("SELECT x, SUM(count) FROM cells GROUP BY x ORDER BY 2 DESC LIMIT 5")
    rising = open_table(release).sql("SELECT x, SUM(count) FROM cells GROUP BY x ORDER BY 2 LIMIT 5")

    assert [by_column[f"[{row[0]},{int(str(row[0])) + 1})"] for row in answer.rows] == sorted(
        by_column.values(), reverse=True
    )[:5]
    assert any("published counts" in str(note) for note in answer.notes)
    assert not any("published counts" in str(note) for note in rising.notes)


def test_the_largest_groups_that_stand_out_are_in_the_order_of_their_figures() -> None:
    release = Table(epsilon=1).publish(Tabled(three_densities()), rng=SeededRng(5))
    answer = open_table(release).sql("SELECT x, SUM(count) FROM cells GROUP BY x ORDER BY 2 DESC LIMIT 5")
    figures = [row[1].value for row in answer.rows]

    assert figures == sorted(figures, reverse=True)
    assert not any("published counts" in str(note) for note in answer.notes)
