"""Figures of large tables, which are measured where people are: least squares, margins that hold, and reading back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare as sd
from sudare.app import query
from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.methods.table import Table
from sudare.methods.table.large import measure_large, plan_large
from sudare.methods.table.large_measured import LargeFigures, LargeMeasured, grow_large, list_large, read_large
from sudare.methods.table.lines import make_line, plan_opening
from sudare.noise import SeededRng
from sudare.releases.columns import read_numbers
from sudare.schema import Attribute, MeshCells, NumberBins, Schema, TableHierarchy, Values


def lines(*sizes: int) -> Schema:
    named = zip("xyz", sizes, strict=False)
    return Schema(
        name="large",
        attributes=tuple(Attribute(name=name, domain=NumberBins.of_width(0, size, 1)) for name, size in named),
    )


def towns(side: int, seed: int, people: int = 300_000) -> Counts:
    """Towns of many sizes on a map that is empty nearly everywhere."""
    random = np.random.default_rng(seed)
    centres, reach = random.uniform(0, side, (80, 2)), random.lognormal(2.5, 1.0, 80)
    town = random.choice(80, people, p=reach / reach.sum())
    places = (centres[town] + random.normal(0, 1, (people, 2)) * reach[town, None]).astype(np.int64) % side
    return Counts.from_columns(lines(side, side), places, np.ones(people, dtype=np.int64))


def draw(counts: Counts, seed: int, **promise: object) -> LargeFigures:
    method = Table(**{"epsilon": "1/2", **promise})  # type: ignore[arg-type]
    budget = plan_large(counts.schema, method.guarantee())
    total = counts.total if budget.total_noise is None else counts.total + 3
    table, measured = grow_large(counts, budget, total=total, rng=SeededRng(seed))
    return LargeFigures(measured=measured, table=table)


def test_figures_are_those_of_dense_least_squares() -> None:
    """On a map small enough to solve: every measurement is a row, also those of closed boxes."""
    schema = lines(16, 24)
    random = np.random.default_rng(2)
    cells = np.column_stack([random.integers(0, 8, 60), random.integers(0, 9, 60)])
    counts = Counts.from_columns(schema, cells, random.integers(20, 400, 60))
    budget = plan_large(schema, Table(epsilon=1).guarantee())
    levels = measure_large(counts, plan_opening(schema), budget, rng=SeededRng(3))
    measured = LargeMeasured(schema=schema, budget=budget, levels=tuple(levels), total=counts.total)
    leaves = measured.leaves(np.column_stack(np.unravel_index(np.arange(384), (16, 24))))
    own = list(zip(measured.squares.parents, measured.squares.variances, strict=True))
    rows, values, weights = [np.ones(len(measured.cells_of_leaf))], [float(counts.total)], [1e9]
    node = np.arange(len(measured.cells_of_leaf))
    for number in range(len(own) - 1, -1, -1):
        parents, variances = own[number]
        for place in np.flatnonzero(np.isfinite(variances)):
            rows.append((node == place).astype(float))
            values.append(measured.squares.noisy[number][place])
            weights.append(1 / variances[place])
        node = parents[node]
    root = np.sqrt(weights)
    triangle = np.linalg.qr(root[:, None] * np.array(rows), mode="r")
    inverse = np.linalg.inv(triangle) @ np.linalg.inv(triangle).T
    best = np.linalg.lstsq(root[:, None] * np.array(rows), root * np.array(values), rcond=None)[0]
    question = np.bincount(leaves[:100], minlength=len(best)) / measured.cells_of_leaf
    answer = measured.squares.answer(np.flatnonzero(question), question[question > 0])

    assert measured.cells_of_leaf.sum() == 384
    assert (measured.cells_of_leaf > 1).any()
    assert (np.bincount(leaves, minlength=len(best)) == measured.cells_of_leaf).all()
    assert np.allclose(measured.squares.estimates[-1], best, atol=1e-3)
    assert answer.estimate == pytest.approx(question @ best, abs=1e-3)
    assert answer.standard_error == pytest.approx(np.sqrt(question @ inverse @ question), abs=1e-3)


@pytest.mark.parametrize("promise", [{}, {"neighbours": "add-remove"}, {"epsilon": None, "rho": "1/50"}], ids=str)
def test_margins_of_boxes_and_cells_hold(promise: dict[str, object]) -> None:
    """120 boxes and 2,000 cells, half of them filled: 95 of 100 or more; with margins halved it would be 70."""
    counts = towns(3000, 4)
    figures = draw(counts, 5, **promise)
    random = np.random.default_rng(6)
    held = []
    dense = counts.columns()
    for _ in range(120):
        low = random.integers(0, 2900, 2)
        high = low + random.integers(1, 1000, 2)
        inside = ((dense >= low) & (dense < high)).all(axis=1)
        box = {place: (np.arange(3000) >= low[place]) & (np.arange(3000) < high[place]) for place in (0, 1)}
        figure = figures.answer(*figures.measured.weigh([{at: line.astype(float) for at, line in box.items()}]))
        held.append(figure.low <= counts.values[inside].sum() <= figure.high)
    cells = np.concatenate([dense[random.choice(len(dense), 1000)], random.integers(0, 3000, (1000, 2))])
    known = dict(zip(map(tuple, dense.tolist()), counts.values.tolist(), strict=True))
    truth = np.array([known.get(tuple(cell), 0) for cell in cells.tolist()])
    margins = figures.measured.cell_margins(cells)
    filled, empty = np.split(np.abs(margins.unbiased - truth) <= margins.margin, 2)

    assert np.mean(held) >= 0.92
    assert filled.mean() >= 0.94
    assert empty.mean() >= 0.94


def test_noisy_sums_are_read_back_and_gaps_are_found() -> None:
    figures = draw(towns(3000, 7, people=20_000), 8)
    measured = figures.measured
    columns = {name: read_numbers(values).astype(np.int64) for name, values in list_large(measured).columns.items()}
    again = read_large(measured.schema, measured.budget, columns)
    cells = figures.table.columns()
    first, second = measured.cell_margins(cells), again.cell_margins(cells)

    assert np.array_equal(first.unbiased, second.unbiased)
    assert np.array_equal(first.margin, second.margin)
    for place in (0, 5, len(columns["level"]) - 1):
        with pytest.raises(ReleaseError, match="missing"):
            read_large(measured.schema, measured.budget, {name: np.delete(own, place) for name, own in columns.items()})


def test_a_large_release_answers_sql_and_is_checked(tmp_path: Path) -> None:
    counts = towns(3000, 9, people=50_000)
    release = Table(epsilon=1).publish(_Given(counts), rng=SeededRng(1))
    release.save(tmp_path / "out", even_if_not_private=True)
    statement = "SELECT SUM(count) FROM cells WHERE x >= 100 AND x < 1700 AND y < 2100"
    ((_, answer),) = query(tmp_path / "out", statement, level=0.95, many=False)
    told = answer.to_dict(statement)
    columns = counts.columns()
    inside = (columns[:, 0] >= 100) & (columns[:, 0] < 1700) & (columns[:, 1] < 2100)
    truth = int(counts.values[inside].sum())
    figure = sd.LargeFigures.load(tmp_path / "out").sum(x="[100,1700)", y="[0,2100)")
    claims = Table.recheck(sd.Release.load(tmp_path / "out").certificate, tmp_path / "out")

    assert told["low"][0][0] <= truth <= told["high"][0][0]
    assert figure.low <= truth <= figure.high
    assert told["rows"][0][0] == pytest.approx(figure.unbiased)
    assert figure.high - figure.low < 0.1 * truth
    assert all(claim.passed for claim in claims), [str(claim.detail) for claim in claims if not claim.passed]
    with pytest.raises(ReleaseError, match="LargeFigures"):
        sd.TableFigures.load(tmp_path / "out")


def mesh_towns(seed: int, *, has_land_list: bool = False) -> Counts:
    """Towns on one first-level square of 25,600 cells, by age and by district, which is more than 2^21 cells."""
    cells = MeshCells(level=4, area=("5339",))
    if has_land_list:  # a coast: only the south-west is land
        rows, columns = cells.grid(np.arange(cells.size))
        is_land = rows - rows.min() + columns - columns.min() < 200
        cells = MeshCells(level=4, cells=cells.numbers(np.flatnonzero(is_land)))
    districts = tuple(f"d{number:02}" for number in range(12))
    groups = TableHierarchy.from_paths([(name, f"g{number // 5}", "*") for number, name in enumerate(districts)])
    attributes = (
        Attribute(name="mesh", domain=cells),
        Attribute(name="age", domain=NumberBins.of_width(0, 100, 5)),
        Attribute(name="district", domain=Values(districts), hierarchy=groups),
    )
    random = np.random.default_rng(seed)
    middle, reach = random.integers(0, cells.size, 40), random.lognormal(1.0, 0.7, 40)
    town = random.choice(40, 200_000, p=reach / reach.sum())
    place = (middle[town] + (random.normal(0, 30, town.size) * reach[town]).astype(np.int64)) % cells.size
    codes = np.column_stack([place, random.integers(0, 20, town.size), random.integers(0, 12, town.size)])
    schema = Schema(name="large mesh", attributes=attributes)
    return Counts.from_columns(schema, codes, np.ones(town.size, dtype=np.int64))


@pytest.mark.parametrize("has_land_list", [False, True])
def test_every_box_of_a_large_mesh_holds_its_cells_once(has_land_list: bool) -> None:
    counts = mesh_towns(3, has_land_list=has_land_list)
    measured = draw(counts, 4).measured
    cells = np.random.default_rng(5).integers(0, counts.schema.sizes, (3000, 3))
    leaves = measured.leaves(cells)
    for position, line in enumerate(measured.opening.lines):
        low, high = measured.spans(position)
        rank = line.rank(line.place(cells[:, position]))

        assert ((low[leaves] <= rank) & (rank < high[leaves])).all()
    assert measured.cells_of_leaf.sum() == counts.schema.size


@pytest.mark.parametrize("promise", [{}, {"neighbours": "add-remove"}, {"epsilon": None, "rho": "1/50"}], ids=str)
def test_margins_of_squares_and_groups_of_a_large_mesh_hold(promise: dict[str, object]) -> None:
    """64 squares of 10 km, 6,400 of 1 km, all cells of the map and 3 groups: 93 of 100 or more at every level."""
    counts = mesh_towns(6)
    measured = draw(counts, 7, **promise).measured
    for position, level in ((0, 2), (0, 1), (0, 0), (2, 1)):
        attribute = counts.schema.attributes[position]
        hierarchy = attribute.hierarchy
        assert hierarchy is not None

        def lift(codes: Any, level: int = level, hierarchy: Any = hierarchy) -> Any:
            return hierarchy.lift(codes, level) if level else codes

        margins = measured.group_margins(position, lift)
        truth = np.bincount(lift(counts.columns()[:, position]), counts.values, minlength=len(margins.unbiased))
        is_held = np.abs(margins.unbiased - truth) <= margins.margin

        assert is_held.mean() >= 0.93 - 0.3 * (len(truth) < 10), (position, level)


def test_values_of_deep_and_uneven_groups_have_places_of_their_own() -> None:
    """Twelve levels with 40 groups in one branch of each would need 40^12 places: more than 64 bits tell apart."""
    paths = []
    for depth in range(12):
        for number in range(40):
            names = [f"v{depth}-{number}", *(f"h{height}" if height > 11 - depth else f"h{height}-{depth}-{number}"
                                             for height in range(1, 12)), "*"]  # fmt: skip
            paths.append(tuple(names))
    attribute = Attribute(
        name="deep", domain=Values(tuple(path[0] for path in paths)), hierarchy=TableHierarchy.from_paths(paths)
    )
    line = make_line(attribute)
    places = line.place(np.arange(attribute.size))
    assert attribute.hierarchy is not None
    top = attribute.hierarchy.lift(line.value(np.arange(line.size)), 11)

    assert len(set(places.tolist())) == attribute.size
    assert 0 <= places.min() <= places.max() < np.prod(line.fans)
    assert (np.diff(top) != 0).sum() == len(set(top.tolist())) - 1  # groups are runs


def test_a_large_mesh_publishes_squares_with_margins_and_answers_by_levels(tmp_path: Path) -> None:
    counts = mesh_towns(8)
    release = Table(epsilon=1).publish(_Given(counts), rng=SeededRng(1))
    release.save(tmp_path / "out", even_if_not_private=True)
    columns = counts.columns()
    second = counts.schema.attributes[0].domain.coarse(2)  # type: ignore[union-attr]
    square = int(np.bincount(counts.schema.attributes[0].domain.lift(columns[:, 0], 2)).argmax())  # type: ignore[union-attr]
    inside = counts.schema.attributes[0].domain.lift(columns[:, 0], 2) == square  # type: ignore[union-attr]
    label = str(second.labels(np.array([square]))[0])
    statement = f"SELECT SUM(count) FROM levels WHERE mesh_2 = '{label}' AND age < 50 AND district_1 = 'g1'"
    ((_, answer),) = query(tmp_path / "out", statement, level=0.95, many=False)
    told = answer.to_dict(statement)
    truth = int(counts.values[inside & (columns[:, 1] < 10) & (columns[:, 2] // 5 == 1)].sum())
    rollups = release.frames["rollups"].decode()
    claims = Table.recheck(sd.Release.load(tmp_path / "out").certificate, tmp_path / "out")

    assert told["low"][0][0] <= truth <= told["high"][0][0]
    assert {"unbiased", "margin"} <= set(rollups)
    assert (tmp_path / "out" / "map.geojson").exists()
    assert all(claim.passed for claim in claims), [str(claim.detail) for claim in claims if not claim.passed]


class _Given:
    """A source that hands out counts."""

    def __init__(self, counts: Counts) -> None:
        self.schema, self._counts = counts.schema, counts

    def count(self, names: Any) -> Counts:
        return self._counts
