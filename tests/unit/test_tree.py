"""The tree: valid tables, never an impossible cell, and nearer to the truth than the nearest table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.compare import l2_distance
from sudare.counts import Counts
from sudare.demo.data import sales
from sudare.methods.microdata import Microdata
from sudare.methods.microdata.tree import stages
from sudare.noise import SeededRng
from sudare.postprocess import find_nearest_point
from sudare.postprocess.shrinkage import estimate_posterior_means, estimate_spread
from sudare.postprocess.simplex import project_rows
from sudare.schema import Attribute, Impossible, Schema, TableHierarchy, Unit, Values


def plain(name: str, size: int, *, is_ordered: bool = False) -> Attribute:
    return Attribute(name=name, domain=Values(values=tuple(f"v{k}" for k in range(size)), is_ordered=is_ordered))


def grouped(name: str, parents: list[int]) -> Attribute:
    """Groups of any size whose members do not stand together."""
    values = tuple(f"v{k}" for k in range(len(parents)))
    names = (values, tuple(f"g{k}" for k in range(max(parents) + 1)), ("*",))
    hierarchy = TableHierarchy(parents=(np.array(parents), np.zeros(max(parents) + 1, dtype=np.int64)), names=names)
    return Attribute(name=name, domain=Values(values=values), hierarchy=hierarchy)


def schema(*attributes: Attribute, never: tuple[Impossible, ...] = ()) -> Schema:
    return Schema(name="t", unit=Unit(), attributes=attributes, impossible=never)


@given(st.lists(st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=1, max_size=5), st.floats(0.1, 60))
def test_rows_are_projected_one_by_one(rows: list[list[float]], total: float) -> None:
    found = project_rows(np.array(rows), np.full(len(rows), total))

    assert np.allclose(found, [find_nearest_point(np.array(row), total=total) for row in rows], atol=1e-9)


def test_padding_and_empty_parents_get_nothing() -> None:
    found = project_rows(np.array([[1.0, -np.inf, 3.0], [5.0, 2.0, 1.0]]), np.array([2.0, 0.0]))

    assert found.tolist() == [[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]


def test_stages_follow_hierarchies_and_groups_of_neighbours() -> None:
    found = stages(schema(grouped("a", [0, 1, 0, 2, 1]), plain("b", 250, is_ordered=True), plain("c", 3)))

    assert [(one.prefixes, one.groups, one.children) for one in found] == [
        (1, 1, 3), (1, 3, 5), (5, 1, 3), (5, 3, 25), (5, 25, 250), (1250, 1, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("total", [0, 1, 700])
def test_a_tree_of_any_shape_gives_a_valid_table(total: int) -> None:
    table = schema(grouped("a", [0, 1, 0, 2, 1, 1, 1]), plain("b", 23, is_ordered=True), plain("c", 2))
    rows = np.random.default_rng(1).integers(0, table.sizes, size=(total, 3))
    drawn = Microdata(epsilon="0.3", algorithm="tree").draw(Counts.from_columns(table, rows), rng=SeededRng(2))

    assert drawn.total == total


def test_impossible_cells_hold_nobody_and_get_no_share() -> None:
    never = (Impossible(values={"a": frozenset({0, 3}), "c": frozenset({1})}), Impossible(values={"b": frozenset({5})}))
    table = schema(grouped("a", [0, 1, 0, 2, 1]), plain("b", 12, is_ordered=True), plain("c", 2), never=never)
    rows = np.random.default_rng(1).integers(0, table.sizes, size=(3000, 3))
    counts = Counts.from_columns(table, rows[~table.is_impossible(rows)])
    drawn = [Microdata(epsilon="0.1", algorithm="tree").draw(counts, rng=SeededRng(seed)) for seed in range(5)]

    assert not any(table.is_impossible(one.columns()).any() for one in drawn)
    assert {one.total for one in drawn} == {counts.total}


@pytest.mark.parametrize("is_ordered", [True, False])
def test_the_tree_is_nearer_to_the_truth_than_the_nearest_table(is_ordered: bool) -> None:
    """10 trials at epsilon .1: the mean L2 is known to 2 %; the tree must be below half of the nearest table."""
    table = schema(plain("item", 1000, is_ordered=is_ordered), plain("sex", 2), plain("age", 5))
    found = []
    for seed in range(10):
        rows = sales(items=1000, records=100_000, seed=seed)
        if not is_ordered:
            rows[:, 0] = np.random.default_rng(seed).permutation(1000)[rows[:, 0]]
        truth = Counts.from_columns(table, rows)
        methods = [Microdata(epsilon="0.1", algorithm=algorithm) for algorithm in ("tree", "projection")]
        found.append([l2_distance(truth, method.draw(truth, rng=SeededRng(seed))).value for method in methods])
    tree, projection = np.mean(found, axis=0)

    assert tree < (0.4 if is_ordered else 0.5) * projection


def test_values_far_above_the_noise_are_kept_and_small_ones_are_pulled_together() -> None:
    noisy = np.concatenate([np.random.default_rng(1).laplace(scale=10, size=2000), [5000.0]])
    means = estimate_posterior_means(noisy, scale=10.0, terms=1)

    assert means[-1] == 5000.0
    assert means[:-1].std() < 2
    assert means.min() >= 0


def test_the_spread_of_pure_noise_is_about_its_poisson_part() -> None:
    generator = np.random.default_rng(2)
    mean = np.full(20_000, 30.0)
    square = (generator.poisson(30, 20_000) - 30 + generator.normal(0, 20, 20_000)) ** 2

    assert estimate_spread(mean, square, np.full(20_000, 400.0)).mean() == pytest.approx(30, abs=15)
