"""Conditions that cut a bin, where the people of the bin lie at one place of it in every cell."""

import numpy as np
import pytest

import sudare as sd
from sudare.asking.answers import Estimate
from sudare.counts import Counts
from sudare.methods.microdata.measured import open_records
from sudare.methods.table.asked import open_table
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema, Values
from sudare.testing import Tabled

TOWNS, PEOPLE = 60, 50
AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))
TOWN = Attribute(name="town", domain=Values(tuple(f"t{number}" for number in range(TOWNS))))
SIZE = Attribute(name="size", domain=NumberBins.of_width(0, 60, 1))


def _ask(method: sd.Table | sd.Microdata, schema: Schema, cells: list[list[int]], statement: str) -> Estimate:
    counts = Counts.from_columns(schema, cells, [PEOPLE] * len(cells))
    release = method.publish(Tabled(counts), rng=SeededRng(3))
    opened = open_table(release) if method.name == "table" else open_records(release)
    found = opened.sql(statement.replace("DATA", "cells" if method.name == "table" else "records")).rows[0][0]
    assert isinstance(found, Estimate)
    return found


# What nobody can see in the release: everybody is exactly 40, at the beginning of [40,45), or 44, at its end.
@pytest.mark.parametrize("method", [sd.Table(epsilon=5), sd.Microdata(epsilon=5)], ids=lambda method: method.name)
@pytest.mark.parametrize(("age", "below"), [(40, TOWNS * PEOPLE), (44, 0)])
def test_people_may_lie_at_one_place_of_a_bin_in_all_towns_at_once(
    method: sd.Table | sd.Microdata, age: int, below: int
) -> None:
    cells = [[age // 5, town] for town in range(TOWNS)]

    found = _ask(method, Schema(name="s", attributes=(AGE, TOWN)), cells, "SELECT COUNT(*) FROM DATA WHERE age < 42")

    assert found.low <= below <= found.high


@pytest.mark.parametrize("method", [sd.Table(epsilon=5), sd.Microdata(epsilon=5)], ids=lambda method: method.name)
def test_the_mean_of_a_crowded_bin_holds_whatever_place_is_crowded(method: sd.Table | sd.Microdata) -> None:
    cells = [[8, town] for town in range(TOWNS)]

    found = _ask(method, Schema(name="s", attributes=(AGE, TOWN)), cells, "SELECT AVG(age) FROM DATA")

    assert found.low <= 40 <= 44 <= found.high


def test_two_columns_of_numbers_are_no_other_than_one_when_bins_are_crowded() -> None:
    cells = [[8, size] for size in range(60)]

    found = _ask(sd.Table(epsilon=5), Schema(name="s", attributes=(AGE, SIZE)), cells,
                 "SELECT COUNT(*) FROM DATA WHERE age < 42")  # fmt: skip

    assert found.low <= 0 <= 3000 <= found.high


def test_bins_of_a_large_table_may_be_crowded_too() -> None:
    wide = Attribute(name="id", domain=NumberBins.of_width(0, 200_000, 1))
    schema = Schema(name="s", attributes=(wide, AGE))
    assert schema.size > 2**21

    found = _ask(sd.Table(epsilon=5), schema, [[place * 3000, 8] for place in range(60)],
                 "SELECT COUNT(*) FROM DATA WHERE age < 42")  # fmt: skip

    assert found.low <= 100 <= 2900 <= found.high


def test_where_neighbours_are_as_dense_a_cut_bin_hides_less() -> None:
    schema = Schema(name="s", attributes=(AGE, TOWN))
    statement = "SELECT COUNT(*) FROM DATA WHERE age < 42"

    smooth = _ask(sd.Table(epsilon=5), schema, [[age, town] for age in range(20) for town in range(TOWNS)], statement)
    alone = _ask(sd.Table(epsilon=5), schema, [[8, town] for town in range(TOWNS)], statement)

    assert 0.15 < smooth.inside_deviation / alone.inside_deviation < 0.4
    assert np.isclose(smooth.value, 42 / 5 * TOWNS * PEOPLE, rtol=0.02)
