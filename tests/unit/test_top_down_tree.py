"""The parts of the descent, each against a plain count of everything; and what it promises of every table."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.budget import CountBudget, plan
from sudare.methods.microdata import Microdata
from sudare.methods.microdata.microdata import decide
from sudare.methods.microdata.sparse_tree import (
    SUMS_SHARE,
    grow_sparse_tree,
    plan_sparse_tree,
    sparse_tree_fits,
    sparse_tree_wins,
)
from sudare.methods.tree import Possible, TopDownTree, Tree, attribute_order, group_values, make_tree
from sudare.methods.tree import empty as rows_
from sudare.methods.tree import possible as seen
from sudare.methods.tree.empty import Children, OpenRows
from sudare.methods.tree.grow import sort_cells
from sudare.methods.tree.possible import KeySet, find_first
from sudare.noise import CountNoise, GeometricNoise, SeededRng, geometric_tail
from sudare.noise.zeros import draw_at_most
from sudare.privacy import Guarantee
from sudare.schema import Attribute, Impossible, MeshCells, NumberBins, Schema, TableHierarchy, Unit, Values

DAY = Attribute(name="day", domain=Values(values=tuple(map(str, range(300))), is_ordered=True), missing=True)
TOWN = Attribute(
    name="town",
    domain=Values(values=tuple("abcdef")),
    hierarchy=TableHierarchy.from_paths([(n, g, "*") for n, g in zip("abcdef", "xyxzyx", strict=True)]),
)
SEX = Attribute(name="sex", domain=Values(values=("F", "M")))
ONE = Attribute(name="one", domain=Values(values=("only",)))
MESH = Attribute(name="mesh", domain=MeshCells(level=3, area=("5339", "5340")), missing=True)
LISTED = Attribute(
    name="listed", domain=MeshCells(level=4, cells=np.array([533945261, 533945264, 533946001, 543900112, 543900113]))
)
BANDS = tuple(f"{k:03}" for k in range(120))
LONG = Attribute(
    name="long",
    domain=Values(values=BANDS, is_ordered=True),
    hierarchy=TableHierarchy.from_paths([(name, str(int(name) // 40), "*") for name in BANDS]),
)
NEVER = (
    Impossible(values={"day": frozenset(range(10, 200)), "town": frozenset({0, 2})}),
    Impossible(values={"day": frozenset(range(32, 48))}),
    Impossible(values={"town": frozenset({2, 5}), "sex": frozenset({1})}),
)


def noises_of(*epsilons: Fraction | str | int) -> tuple[CountNoise, ...]:
    """The noise of every step, for a row that is replaced."""
    return tuple(GeometricNoise(scale=2 / Fraction(epsilon)) for epsilon in epsilons)


def whole_tree(schema: Schema, upper: int | None = None) -> Tree:
    value_groups = [group_values(each) for each in schema.attributes]
    levels = attribute_order(value_groups)
    return make_tree(schema, levels if upper is None else [*levels[: upper + 1], levels[-1]], value_groups)


def budget(epsilon: str, neighbours: str = "replace", unit: Unit | None = None) -> CountBudget:
    promise = Guarantee(epsilon=Fraction(epsilon), neighbours=neighbours, unit=unit or Unit())  # type: ignore[arg-type]
    return plan(promise, sums_share=SUMS_SHARE)


@functools.cache
def huge(*sizes: int) -> Schema:
    attributes = [
        Attribute(name=f"a{k}", domain=NumberBins.of_width(0, size, 1) if k % 2 == 0 else Values(_names(size)))
        for k, size in enumerate(sizes)
    ]
    return Schema(name="huge", attributes=tuple(attributes))


def _names(size: int) -> tuple[str, ...]:
    return tuple(map(str, range(size)))


def clustered(schema: Schema, records: int, seed: int = 1) -> Counts:
    generator = np.random.default_rng(seed)
    columns = [np.minimum(generator.geometric(0.2, records) - 1, size - 1) for size in schema.sizes]
    return Counts.from_columns(schema, np.column_stack(columns))


@pytest.mark.parametrize("attribute", [DAY, TOWN, SEX, ONE, MESH, LISTED, LONG], ids=lambda each: each.name)
def test_the_groups_of_every_height_are_ranges_that_leave_out_nobody(attribute: Attribute) -> None:
    steps = group_values(attribute)
    ranks = np.arange(attribute.size)
    for height in range(steps.top + 1):
        nodes = np.arange(steps.nodes(height))
        first, width = steps.span(nodes, height, 0)

        assert first.tolist() == np.concatenate([[0], np.cumsum(width)[:-1]]).tolist()
        assert int(width.sum()) == attribute.size
        assert steps.lift(ranks, height).tolist() == np.repeat(nodes, width).tolist()
    assert steps.nodes(steps.top) == 1
    assert steps.ranks(steps.codes(ranks)).tolist() == ranks.tolist()


@pytest.mark.parametrize("attribute", [TOWN, MESH, LISTED, LONG], ids=lambda each: each.name)
def test_declared_groups_are_among_the_heights(attribute: Attribute) -> None:
    steps, codes = group_values(attribute), np.arange(attribute.size)
    partitions = {_partition(steps.lift(steps.ranks(codes), height)) for height in range(steps.top + 1)}
    assert attribute.hierarchy is not None
    declared = {_partition(attribute.hierarchy.lift(codes, level)) for level in range(attribute.height + 1)}

    assert declared <= partitions


def _partition(groups: np.ndarray) -> tuple[int, ...]:
    """Number groups as they are met."""
    return tuple(np.unique(groups, return_index=True)[1][np.unique(groups, return_inverse=True)[1]].tolist())


def test_long_rows_of_neighbours_are_opened_in_two_steps() -> None:
    assert [group_values(LONG).nodes(height) for height in range(4)] == [120, 9, 3, 1]


def test_levels_that_do_not_lead_down_are_refused() -> None:
    schema = Schema(name="s", attributes=(TOWN, SEX))

    with pytest.raises(ParameterError, match="from one node down"):
        make_tree(schema, [(2, 1), (1, 1), (2, 0), (0, 0)])


def test_children_of_interleaved_levels_have_the_sums_of_their_cells() -> None:
    schema = Schema(name="s", attributes=(TOWN, DAY))
    tree = make_tree(schema, [(2, 3), (1, 3), (1, 2), (0, 1), (0, 0)])
    counts = clustered(schema, 500)
    cells = sort_cells(tree.ranks(counts.columns()), counts.values, tree)
    for number, step in enumerate(tree.steps[:-1]):
        runs = cells.runs(number, step)
        nodes = _lift(tree, cells.ranks[cells.places], tree.levels[number + 1])
        plain = np.unique(nodes, axis=0, return_inverse=True)[1].ravel()

        assert sorted(runs.sums.tolist()) == sorted(np.bincount(plain, weights=cells.values).astype(int).tolist())


def test_keys_with_equal_marks_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "marks", lambda keys: keys[:, 0].astype(np.uint64) % np.uint64(2))
    keys = np.array([[k, k * k] for k in range(20)])
    asked = np.array([[3, 9], [3, 8], [25, 625], [18, 324], [4, 4]])

    assert KeySet(keys).holds(asked).tolist() == [True, False, False, True, False]
    assert find_first(np.concatenate([keys, asked])).tolist() == [True] * 20 + [False, True, True, False, True]


@pytest.mark.parametrize("word", [2**62, 8])
def test_proposals_are_uniform_over_the_children_of_uneven_rows(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small word even the weights do not fit, and ranges are proposed and refused instead."""
    monkeypatch.setattr(rows_, "WORD_LIMIT", word)
    tree = make_tree(Schema(name="s", attributes=(TOWN, SEX)), [(2, 1), (1, 1), (0, 0)])
    rows = OpenRows(step=tree.steps[1], nodes=np.array([[0, 0], [1, 0], [2, 0]]))
    found = rows.proposed(np.array([0, 1, 2]), 12_000, SeededRng(2))
    keys = np.unique(np.column_stack([found.rows, found.codes]), axis=0, return_counts=True)[1]

    assert keys.size == 12
    assert np.abs(keys / keys.mean() - 1).max() < 0.15


def test_possible_children_are_counted_as_a_plain_list_counts_them() -> None:
    schema = Schema(name="s", attributes=(DAY, TOWN, SEX), impossible=NEVER)
    tree = whole_tree(schema)
    possible = Possible(tree)
    cells = np.array(list(itertools.product(*map(range, schema.sizes))))
    ranks = tree.ranks(cells[~schema.is_impossible(cells)])
    for above, below in [(0, 1), (0, -1), (1, 3), (2, -1), (3, 4), (4, 5), (4, -1)]:
        step = tree.step(above, below)
        nodes, owner = np.unique(_lift(tree, ranks, step.above), axis=0, return_inverse=True)
        children = np.unique(np.column_stack([owner.ravel(), step.lift(ranks)]), axis=0)

        assert possible.children(step, nodes).tolist() == np.bincount(children[:, 0]).tolist()
        listed = OpenRows(step=step, nodes=nodes, possible=possible).listed(np.arange(len(nodes)))
        assert sorted(map(tuple, np.column_stack([listed.rows, listed.codes]).tolist())) == sorted(
            map(tuple, children.tolist())
        )


def _lift(tree: Tree, ranks: np.ndarray, heights: tuple[int, ...]) -> np.ndarray:
    lifted = [each.lift(column, h) for each, column, h in zip(tree.value_groups, ranks.T, heights, strict=True)]
    return np.column_stack(lifted)


@pytest.mark.parametrize("most", [-3, 2])
def test_values_given_at_most_a_level_have_the_conditional_law(most: int) -> None:
    values = draw_at_most(20_000, noise=GeometricNoise(scale=Fraction(3)), most=most, rng=SeededRng(3))
    whole = 1 - geometric_tail(most + 1, Fraction(3))
    expected = [
        (geometric_tail(k, Fraction(3)) - geometric_tail(k + 1, Fraction(3))) / whole for k in range(-8, most + 1)
    ]
    found = [float((values == k).mean()) for k in range(-8, most + 1)]

    assert np.abs(np.array(found) - expected).max() < 0.01
    assert values.max() == most


SCHEMAS = {
    "impossible": Schema(name="s", attributes=(DAY, TOWN, SEX), impossible=NEVER),
    "mesh": Schema(name="s", attributes=(MESH, TOWN, ONE)),
    "one cell": Schema(name="s", attributes=(ONE,)),
    "huge": huge(10**4, 1000, 10**4, 1000, 10**4, 1000, 10**4, 1000, 10**4),
}


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("total", [0, 1, 400, 5000])
def test_tables_are_valid_whatever_the_total(name: str, total: int, thin: bool) -> None:
    schema = SCHEMAS[name]
    counts = clustered(schema, 400)
    counts = Counts.build(schema, counts.codes, np.where(schema.is_impossible(counts.columns()), 0, counts.values))
    tree = whole_tree(schema, min(4, max(0, len(whole_tree(schema).steps) - 1)))
    epsilons = (Fraction(1, 2),) * len(tree.steps)
    out = TopDownTree(tree=tree, noises=noises_of(*epsilons), thin_cells=thin, opening_scales=2).publish(
        counts, total=total, rng=SeededRng(4)
    )

    assert out.total == total
    assert out.nonzero == 0 or out.values.min() > 0
    assert not schema.is_impossible(out.columns()).any()


@pytest.mark.parametrize("thin", [False, True])
def test_without_records_a_total_is_still_spread(thin: bool) -> None:
    schema = SCHEMAS["huge"]
    nobody = Counts.build(schema, np.empty((0, len(schema.radix.words))), [])
    tree = whole_tree(schema, 2)
    way = TopDownTree(tree=tree, noises=noises_of(1, 1, 1), thin_cells=thin)

    assert way.publish(nobody, total=50, rng=SeededRng(1)).total == 50


def test_with_a_huge_epsilon_the_table_comes_back() -> None:
    counts = clustered(SCHEMAS["huge"], 3000)

    assert grow_sparse_tree(counts, budget("1000"), total=3000, rng=SeededRng(1)) == counts


def test_a_node_of_which_all_cells_stand_out_gets_no_other_records() -> None:
    schema = huge(64, 4)
    columns = np.column_stack([np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3)])
    counts = Counts.from_columns(schema, columns, [2000] * 12)
    tree = whole_tree(schema, 2)
    out = TopDownTree(tree=tree, noises=noises_of("1/2", "1/2", "1/2"), thin_cells=True).publish(
        counts, total=24_500, rng=SeededRng(2)
    )

    assert out.total == 24_500
    assert np.abs(out.dense()[:12] - 2000).max() < 60


def test_as_many_epsilons_as_steps_are_asked_for() -> None:
    with pytest.raises(ParameterError, match="must be one for each of the 6 steps"):
        TopDownTree(tree=whole_tree(SCHEMAS["impossible"]), noises=noises_of(1))


def test_a_table_beyond_exact_floats_is_refused() -> None:
    counts = clustered(SCHEMAS["mesh"], 10)

    with pytest.raises(ParameterError, match="too large"):
        grow_sparse_tree(counts, budget("1"), total=2**52, rng=SeededRng(1))


def test_the_same_seed_gives_the_same_table() -> None:
    counts = clustered(SCHEMAS["huge"], 500)
    tables = [grow_sparse_tree(counts, budget("1"), total=500, rng=SeededRng(8)) for _ in range(2)]

    assert tables[0] == tables[1]


@pytest.mark.parametrize("epsilon", ["1/100", "1/2", "3"])
@pytest.mark.parametrize("total", [0, 10, 10**4, 10**7])
def test_the_levels_use_exactly_the_planned_epsilon(epsilon: str, total: int) -> None:
    plan_ = budget(epsilon, "add-remove", Unit(kind="person", column="id", max_rows=3))
    way = plan_sparse_tree(SCHEMAS["huge"], plan_, total=total)
    nodes = [way.tree.size(level) for level in range(len(way.noises) + 1)]

    assert way.noises[-1] == plan_.cells_noise
    assert sum(3 / noise.scale for noise in way.noises[:-1]) == plan_.sums_part
    assert nodes == sorted(nodes)
    assert nodes[-1] == SCHEMAS["huge"].size


def test_more_signal_opens_more_levels() -> None:
    levels = [len(plan_sparse_tree(SCHEMAS["huge"], budget("1"), total=10**k).noises) for k in range(1, 9)]

    assert levels == sorted(levels)
    assert levels[0] == 2
    assert levels[-1] > 4


def test_the_projection_is_kept_where_noise_hardly_matters() -> None:
    schema = huge(10**5, 1000)

    assert sparse_tree_wins(schema, *noises_of(1))
    assert not sparse_tree_wins(schema, *noises_of(40))


def test_a_domain_that_is_nearly_all_impossible_somewhere_is_projected() -> None:
    hollow = Impossible(values={"a0": frozenset(range(16)), "a1": frozenset(range(9_999))})
    plain = huge(10**4, 10**4)
    schema = Schema(name="hollow", attributes=plain.attributes, impossible=(hollow,))

    assert not sparse_tree_fits(schema)
    assert decide("auto", schema, *noises_of(1)) == "projection"
    assert decide("auto", plain, *noises_of(1)) == "wide"
    with pytest.raises(ParameterError, match="leave too little of some part"):
        Microdata(epsilon=1, algorithm="tree").preview(schema)


def test_chosen_children_are_distinct_and_not_among_those_seen() -> None:
    from sudare.methods.tree.valid_rows import choose

    tree = whole_tree(Schema(name="s", attributes=(DAY, SEX), impossible=NEVER[1:2]), 2)
    rows = OpenRows(step=tree.step(1, -1), nodes=np.array([[0, 0], [1, 0]]), possible=Possible(tree))
    some = Children(rows=np.array([0, 0, 1]), codes=np.array([[3, 0], [3, 1], [280, 0]]))
    found = choose(rows, np.array([200, 30]), rows.seen(some), SeededRng(1))
    keys = set(map(tuple, np.column_stack([found.rows, found.codes]).tolist()))

    assert len(keys) == 230
    assert np.bincount(found.rows).tolist() == [200, 30]
    assert not keys & {(0, 3, 0), (0, 3, 1), (1, 280, 0)}
    assert not ((found.codes[:, 0] >= 32) & (found.codes[:, 0] < 48)).any()


def test_work_does_not_grow_with_the_domain() -> None:
    """1e30 cells: were anything listed, this would not end."""
    schema = SCHEMAS["huge"]
    counts = clustered(schema, 2000)
    out = grow_sparse_tree(counts, budget("1/10"), total=2000, rng=SeededRng(1))

    assert math.log10(schema.size) > 30
    assert out.nonzero <= 2000
