"""Other attributes over a whole map: measured without being asked for, since a map is measured place by place."""

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.methods.table import Table
from sudare.methods.table.estimates import TableFigures
from sudare.methods.table.large_measured import LargeFigures
from sudare.noise import SeededRng
from sudare.schema import Attribute, MeshCells, NumberBins, Schema, Values
from sudare.testing import Tabled


def _city() -> Counts:
    mesh = Attribute(name="mesh", domain=MeshCells(level=3, area=("5339",)))
    age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10))
    sex = Attribute(name="sex", domain=Values(("F", "M")))
    cells = np.array([[place, number % 10, number % 2] for number, place in enumerate(range(0, 6400, 3))])
    return Counts.from_columns(Schema(name="city", attributes=(mesh, age, sex)), cells, np.full(len(cells), 20))


def test_ages_of_a_whole_map_are_measured_with_a_twentieth_though_nobody_asked() -> None:
    counts = _city()
    release = Table(epsilon=1).publish(Tabled(counts), rng=SeededRng(4))
    figures = TableFigures.load(release)
    young = figures.sum(age=["[0,10)", "[10,20)"])
    plain = TableFigures.load(Table(epsilon=1, tables=("age*sex",)).publish(Tabled(counts), rng=SeededRng(4)))

    assert release.certificate.parameters["tables"] == "age*sex=1/20"
    assert set(release.frames["table_1"].columns) == {"age", "sex", "count", "unbiased", "margin"}
    assert young.low <= counts.values[counts.columns()[:, 1] < 2].sum() <= young.high
    assert young.standard_error < plain.sum(age=["[0,10)", "[10,20)"]).standard_error / 10


@pytest.mark.parametrize("side", [32, 4096], ids=["every cell measured", "large"])
def test_no_figure_is_told_to_be_above_a_public_number_of_records(side: int) -> None:
    x, y = (Attribute(name=name, domain=NumberBins.of_width(0, side, 1)) for name in "xy")
    counts = Counts.from_columns(Schema(name="s", attributes=(x, y)), [[1, 2], [20, 21]], [3, 2])
    release = Table(epsilon="1/100").publish(Tabled(counts), rng=SeededRng(4))
    figures = TableFigures.load(release) if side == 32 else LargeFigures.load(release)
    half = figures.sum(x="[0,16)")

    assert figures.sum(x="[0,8)", y="[0,8)").standard_error > 10
    assert 0 <= half.low <= 3 <= half.high == 5


def test_only_the_default_workload_of_a_map_with_other_attributes_has_a_table_over_the_map() -> None:
    x, y = (Attribute(name=name, domain=NumberBins.of_width(0, 32, 1)) for name in "xy")
    sex, one = Attribute(name="sex", domain=Values(("F", "M"))), Attribute(name="one", domain=Values(("a",)))
    age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 1))
    squares, plain = Schema(name="s", attributes=(x, y, sex, one)), Schema(name="s", attributes=(age, sex))

    assert [str(spec) for spec in Table(epsilon=1).specs_of(squares)] == ["sex=1/20"]
    assert not Table(epsilon=1, workload="cells").specs_of(squares)
    assert not Table(epsilon=1, focus="cells").specs_of(squares)
    assert not Table(epsilon=1).specs_of(Schema(name="s", attributes=(x, y, one)))
    assert not Table(epsilon=1).specs_of(plain)
