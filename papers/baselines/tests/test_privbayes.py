"""PrivBayes: the sensitivity of its score, the sets it may choose from, its network and its records."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from papers.baselines import PrivBayes
from papers.baselines.privbayes import Parent, dependence, parent_sets, score_sensitivity
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema, Unit, Values
from sudare.testing.subject import schema_of


def chained(records: int = 8000) -> Counts:
    """a decides b, b mostly decides c, d stands alone."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, records)
    b = (a + 1) % 4
    c = np.where(rng.random(records) < 0.9, b, rng.integers(0, 4, records))
    return Counts.from_columns(schema_of(4, 4, 4, 3), np.column_stack([a, b, c, rng.integers(0, 3, records)]))


def test_one_record_more_moves_the_score_by_at_most_two_and_a_replaced_one_by_three_and_two_over_n() -> None:
    """Every 2 x 2 and 2 x 3 table of up to four records, and large random ones; the bounds are nearly reached."""
    added, replaced = Fraction(0), Fraction(0)
    for table in _tables():
        records = int(table.sum())
        grown = [table + one for one in _units(table.shape)]
        added = max(added, *(abs(_score(more) - _score(table)) for more in grown))
        if records:
            bound = 3 + Fraction(2, records)
            moved = [more - one for more in grown for one in _units(table.shape) if (more - one).min() >= 0]
            replaced = max(replaced, *(abs(_score(other) - _score(table)) / bound for other in moved))

    assert Fraction(1) < added <= 2
    assert Fraction(1, 2) < replaced <= 1


def _tables() -> list[np.ndarray]:
    small = [
        np.array(cells).reshape(2, -1)
        for many in (4, 6)
        for cells in itertools.product(range(3), repeat=many)
        if sum(cells) <= 4
    ]
    rng = np.random.default_rng(4)
    return [*small, *(rng.integers(0, 200, (4, 5)) * (rng.random((4, 5)) < 0.4) for _ in range(30))]


def _units(shape: tuple[int, ...]) -> list[np.ndarray]:
    return [np.eye(np.prod(shape), dtype=np.int64)[place].reshape(shape) for place in range(int(np.prod(shape)))]


def _score(table: np.ndarray) -> Fraction:
    """R in records: 1/2 sum |C(x, p) - C(x) C(p)/n|."""
    return Fraction(dependence(table), 2 * max(int(table.sum()), 1))


def test_the_stated_sensitivity_is_that_of_the_score_in_its_units() -> None:
    assert Fraction(score_sensitivity(50, "add-remove"), 100) == 2
    assert Fraction(score_sensitivity(50, "replace"), 100) == 3 + Fraction(2, 50)


def test_parents_are_all_maximal_sets_within_the_bound() -> None:
    age = Attribute(name="age", domain=NumberBins.of_width(0, 20, 1))
    sex = Attribute(name="sex", domain=Values(("F", "M")))
    schema = Schema(name="s", attributes=(age, sex))

    assert [[(p.attribute, p.cells) for p in one] for one in parent_sets(schema, [0, 1], 8, 2)] == [
        [(0, 8)],
        [(0, 4), (1, 2)],
    ]
    assert parent_sets(schema, [1], 1, 2) == [()]
    assert [[p.cells for p in one] for one in parent_sets(schema, [0, 1], 8, 1)] == [[2], [8]]


def test_the_runs_of_a_coarse_parent_are_even_and_in_order() -> None:
    runs = Parent(0, 4, 10).coarse(np.arange(10))

    assert (np.diff(runs) >= 0).all()
    assert np.bincount(runs).tolist() == [3, 2, 3, 2]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_network_finds_what_depends_on_what(neighbours) -> None:  # type: ignore[no-untyped-def]
    _, nodes = PrivBayes(epsilon=4).network(chained(), neighbours=neighbours, rng=SeededRng(1))
    linked = {frozenset((node.child, parent.attribute)) for node in nodes for parent in node.parents}

    assert frozenset((0, 1)) in linked
    assert sorted(node.child for node in nodes) == [0, 1, 2, 3]


def test_sampled_records_keep_tables_of_dependent_attributes() -> None:
    counts = chained()
    out = PrivBayes(epsilon=4).draw(counts, neighbours="add-remove", rng=SeededRng(2))
    gap = np.abs(out.project(["a0", "a1"]).dense() - counts.project(["a0", "a1"]).dense())

    assert gap.max() < 200
    assert abs(out.total - counts.total) < 300
    assert out.total != counts.total


def test_the_number_of_records_is_kept_where_it_is_public() -> None:
    assert PrivBayes(epsilon=1).draw(chained(), rng=SeededRng(3)).total == 8000
    assert PrivBayes(epsilon=1).records(chained(), rng=SeededRng(3), size=50).shape == (50, 4)


def test_theta_bounds_the_cells_of_every_table() -> None:
    counts = chained(2000)
    method = PrivBayes(epsilon=1, theta=6)
    _, nodes = method.network(counts, rng=SeededRng(4))
    most = 2000 * method.shares()[2] / (4 * 2 * 6)

    assert max(node.table.size for node in nodes if node.parents) <= most


def test_noise_of_the_tables_has_the_stated_scale_and_not_half_of_it() -> None:
    """Cells far from 0 are not cut: the mean distance from the truth is the stated scale d s/epsilon_2."""
    schema = schema_of(2, 2)
    counts = Counts.build(schema, np.arange(4)[:, None], [100_000] * 4)
    method = PrivBayes(epsilon="1/10")
    off = []
    for seed in range(300):
        _, nodes = method.network(counts, rng=SeededRng(seed))
        off += [abs(node.table - 400_000 / node.table.size).mean() for node in nodes]
    scale = float(2 * 2 / method.shares()[2])

    assert np.mean(off) == pytest.approx(scale, rel=0.1)


def test_an_empty_table_and_one_of_one_attribute_are_drawn() -> None:
    empty = Counts.build(schema_of(3, 3), np.empty((0, 1)), [])

    assert PrivBayes(epsilon=1).draw(empty, rng=SeededRng(1)).total == 0
    assert PrivBayes(epsilon=1).draw(Counts.from_columns(schema_of(3), [[1]] * 9), rng=SeededRng(1)).total == 9


def test_persons_and_impossible_parameters_are_refused() -> None:
    persons = Counts.from_columns(schema_of(4, 4, unit=Unit(kind="person", column="id", max_rows=3)), [[0, 0]])

    with pytest.raises(ParameterError, match="max_rows"):
        PrivBayes(epsilon=1).draw(persons, rng=SeededRng(1))
    with pytest.raises(ParameterError, match="theta"):
        PrivBayes(epsilon=1, theta=0)
