"""Sensitivities of every score, the junction tree, and exact inference, on tables of any kind."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.asking.axes import Axes
from sudare.asking.functionals import find_boxes
from sudare.asking.syntax import AttributeColumn, Expression, Literal, Membership, Operation
from sudare.methods.view.budget import by_size, split_epsilon
from sudare.methods.view.cuts import AE_SENSITIVITY, SPREAD_SENSITIVITY, aggregation_error, is_flat, places, score_cuts
from sudare.methods.view.fit import Measurements, OneWay, Pair, fit
from sudare.methods.view.junction_tree import CliqueTree, Factors
from sudare.methods.view.model import UNIT, score
from sudare.methods.view.mondrian import THETA, costs
from sudare.methods.view.stops import stop_decay, stop_scale
from sudare.methods.view.uncertainty import share_by_halves
from sudare.noise import geometric_tail
from sudare.schema import Attribute, Schema, Values
from sudare.testing.subject import schema_of
from tests.asking.exact import ExactTable
from tests.statistical.view_forest import row_budget

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...]]:
    """A small dense block and a cell of it that gets one record more."""
    shape = draw(SHAPES.filter(lambda one: math.prod(one) > 1))
    size = math.prod(shape)
    table = draw(st.lists(st.integers(0, 12), min_size=size, max_size=size))
    cell = draw(st.integers(0, size - 1))
    return np.array(table, dtype=np.int64).reshape(shape), np.unravel_index(cell, shape)  # type: ignore[return-value]


def exact_error(table: np.ndarray) -> Fraction:
    mean = Fraction(int(table.sum()), table.size)
    return sum((abs(int(x) - mean) for x in table.ravel()), Fraction())


def sparse(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    columns = np.argwhere(table)
    return columns, table[table > 0]


@given(blocks())
def test_the_aggregation_error_is_exact_and_one_record_changes_it_by_less_than_two(
    block: tuple[np.ndarray, tuple[int, ...]],
) -> None:
    table, cell = block
    more = table.copy()
    more[cell] += 1
    errors = [aggregation_error(one[one > 0], one.size) for one in (table, more)]

    assert errors[0] == math.ceil(exact_error(table))
    assert abs(exact_error(table) - exact_error(more)) <= 2 * (1 - Fraction(1, table.size))
    assert abs(errors[0] - errors[1]) <= AE_SENSITIVITY


@given(blocks())
def test_cuts_are_scored_exactly_and_one_record_changes_a_score_by_at_most_its_sensitivity(
    block: tuple[np.ndarray, tuple[int, ...]],
) -> None:
    table, cell = block
    more = table.copy()
    more[cell] += 1
    lows, highs = np.zeros(table.ndim, dtype=np.int64), np.array(table.shape) - 1
    before, after = (score_cuts(*sparse(one), lows, highs, table.size, "error") for one in (table, more))
    spread = [score_cuts(*sparse(one), lows, highs, table.size, "spread").scores for one in (table, more)]
    wanted = [
        -sum(math.ceil(exact_error(part)) for part in np.split(table, [left], axis=axis))
        for axis, left in zip(before.axis, before.after, strict=True)
    ]

    assert before.scores.tolist() == wanted
    assert not is_flat(table[table > 0], lows, highs, table.size) or len(set(wanted)) == 1
    assert (np.abs(before.scores - after.scores) <= AE_SENSITIVITY).all()
    assert (np.abs(spread[0] - spread[1]) <= SPREAD_SENSITIVITY).all()


@given(blocks())
def test_a_part_of_a_block_never_has_a_larger_error(block: tuple[np.ndarray, tuple[int, ...]]) -> None:
    table, _ = block
    axis, after = places(np.array(table.shape))
    parts = [part for a, left in zip(axis, after, strict=True) for part in np.split(table, [left], axis=a)]

    assert all(
        aggregation_error(part[part > 0], part.size) <= aggregation_error(table[table > 0], table.size)
        for part in parts
    )


@given(blocks(), st.floats(0, 50), st.floats(0, 100))
def test_one_record_changes_the_score_of_a_pair_by_at_most_one(
    block: tuple[np.ndarray, tuple[int, ...]], level: float, noise: float
) -> None:
    table, _ = block
    pair = table.reshape(table.shape[0], -1)
    model = np.full(pair.shape, level) + np.arange(pair.size).reshape(pair.shape) / 7
    more = pair.copy()
    more[0, 0] += 1

    assert abs(score(pair, model, noise) - score(more, model, noise)) <= UNIT


@given(st.fractions(Fraction(1, 10), 5), st.integers(1, 200), st.sampled_from(["mondrian", "hdpview"]))
def test_the_cost_of_every_path_stays_within_epsilon(epsilon: Fraction, bits: int, method: str) -> None:
    schema = schema_of(*[4] * max(1, bits // 2))
    plan = costs(row_budget(epsilon), schema, method)
    for depth in range(1, plan.deepest + 1):
        path = (depth - 1) * (plan.test + plan.cut) + plan.tests

        assert path + plan.leaf(depth, tested=False) <= epsilon
        assert depth == plan.deepest or path + plan.test + plan.leaf(depth, tested=True) <= epsilon
        assert plan.leaf(depth, tested=True) > 0


@settings(max_examples=20)
@given(st.fractions(Fraction(1, 20), 3))
def test_the_tests_of_a_whole_path_cost_no_more_than_their_share_by_the_depth_free_stop(epsilon: Fraction) -> None:
    """The worst case of PrivTree's proof, added up with the integer law: scores fall by the decay at every level."""
    scale = stop_scale(epsilon, tests=60)
    decay = stop_decay(scale)

    def goes_on(level: int) -> float:
        return geometric_tail(THETA - level + 1, scale)

    least = THETA + AE_SENSITIVITY - decay
    for first in range(least, least + 3 * decay):
        levels = [max(first + decay * step, least) for step in range(60)]
        going = sum(math.log(goes_on(one) / goes_on(max(one - AE_SENSITIVITY, least))) for one in levels)
        stopping = math.log((1 - goes_on(max(first - AE_SENSITIVITY, least))) / (1 - goes_on(first)))

        assert going <= epsilon
        assert max(0.0, stopping) <= epsilon


@given(
    st.fractions(Fraction(1, 1000), 1000),
    st.floats(0, 1e15),
    st.lists(st.integers(1, 1000), min_size=1, max_size=45),
    st.sampled_from(["model", "product"]),
)
def test_the_shares_add_up_to_epsilon_and_every_step_that_is_taken_has_one(
    epsilon: Fraction, records: float, sizes: list[int], method: str
) -> None:
    shares = split_epsilon(method, epsilon, records=records, sizes=sizes)

    assert shares.ones + shares.choices + shares.forest + shares.extras == epsilon
    assert sum(by_size(epsilon, sizes)) == sum(by_size(epsilon, sizes, steps=1)) == epsilon
    assert (shares.picks > 0) == (shares.choices > 0) == (shares.forest > 0)
    assert (shares.more > 0) == (shares.extras > 0)
    assert shares.picks <= len(sizes) - 1
    assert shares.ones >= epsilon * Fraction(39, 99)


@given(st.lists(st.lists(st.integers(-50, 50), min_size=1, max_size=20), min_size=1, max_size=5), st.data())
def test_halves_share_every_total_out_and_nobody_is_below_0(parts: list[list[int]], data: st.DataObject) -> None:
    values = np.array([value for part in parts for value in part], dtype=np.float64)
    edges = np.cumsum([0, *map(len, parts)])
    totals = np.array(data.draw(st.lists(st.floats(0, 1e6), min_size=len(parts), max_size=len(parts))))
    shared = share_by_halves(values, edges, totals, variance=data.draw(st.floats(0, 1e6)))

    assert (shared >= 0).all()
    assert np.allclose(np.add.reduceat(shared, edges[:-1]), totals)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_halves_leave_what_already_fits(values: list[int]) -> None:
    exact = np.array(values, dtype=np.float64)

    assert np.allclose(share_by_halves(exact, np.array([0, exact.size]), np.array([exact.sum()])), exact)


@given(st.integers(2, 7), st.data())
def test_every_tree_keeps_the_running_intersection(attributes: int, data: st.DataObject) -> None:
    pairs = list(itertools.combinations(range(attributes), 2))
    tree = CliqueTree.alone(attributes)
    for first, second in data.draw(st.lists(st.sampled_from(pairs), max_size=8)):
        tree = tree.joined(first, second)

        assert any({first, second} <= set(clique) for clique in tree.cliques)
    for one in range(attributes):
        holding = {place for place, clique in enumerate(tree.cliques) if one in clique}
        links = [link for link in tree.links if set(link) <= holding]

        assert len(links) == len(holding) - 1  # within a forest: they hang together
    assert len(tree.links) < len(tree.cliques)


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 5), st.integers(0, 10_000), st.data())
def test_answers_and_joint_tables_are_those_of_the_whole_product(
    attributes: int, seed: int, data: st.DataObject
) -> None:
    """Against the dense table that the cliques and separators multiply to."""
    generator = np.random.default_rng(seed)
    sizes = [2 + int(one) for one in generator.integers(0, 2, attributes)]
    truth = generator.integers(0, 30, sizes).astype(float)
    pairs = data.draw(
        st.lists(st.sampled_from(list(itertools.combinations(range(attributes), 2))), unique=True, max_size=5)
    )
    factors = fitted(truth, pairs)
    dense = product(factors, sizes)
    evidence = {one: generator.random(sizes[one]) for one in (0, attributes - 1)}
    weighted = np.einsum(dense, range(attributes), evidence[0], [0], evidence[attributes - 1], [attributes - 1], [])
    ends = (attributes - 1, 0)
    table = dense.sum(axis=tuple(range(1, attributes - 1))).T

    assert np.isclose(factors.answer({one: weights[None] for one, weights in evidence.items()})[0], weighted)
    assert np.allclose(factors.joint(ends)[0], table)
    for first, second in pairs:
        others = tuple(axis for axis in range(attributes) if axis not in (first, second))

        assert np.allclose(factors.of([first, second])[0], truth.sum(axis=others), rtol=0.02, atol=1.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10_000), st.data())
def test_a_model_without_nested_cliques_gives_the_same_answers(attributes: int, seed: int, data: st.DataObject) -> None:
    """Tables of a random product over the cliques: the answers to any evidence, and profiles, version by version."""
    generator = np.random.default_rng(seed)
    sizes = [2 + int(one) for one in generator.integers(0, 3, attributes)]
    tree = CliqueTree.alone(attributes)
    for pair in data.draw(st.lists(st.sampled_from(list(itertools.combinations(range(attributes), 2))), max_size=6)):
        tree = tree.joined(*pair)
    whole = generator.gamma(0.5, size=(3, *sizes))
    gone = [tuple(1 + axis for axis in range(attributes) if axis not in clique) for clique in tree.cliques]
    factors = Factors(tree, tuple(whole.sum(axis=axes) for axes in gone))
    merged = factors.without_nested()
    asked = data.draw(st.lists(st.integers(0, attributes - 1), min_size=1, max_size=4, unique=True))
    evidence = {axis: generator.random((3, sizes[axis])) for axis in asked}
    others = {axis: weights for axis, weights in evidence.items() if axis != asked[0]}

    assert not any(set(merged.tree.cliques[i]) <= set(merged.tree.cliques[j]) for i, j in merged.tree.links)
    assert merged.answer(evidence) == pytest.approx(factors.answer(evidence), rel=1e-11)
    weighed = factors.joint(asked) * _outer(others, asked[1:], sizes)
    assert merged.profile(asked[0], others) == pytest.approx(
        weighed.sum(axis=tuple(range(2, 1 + len(asked)))), rel=1e-11
    )


def _outer(weights: dict[int, np.ndarray], axes: list[int], sizes: list[int]) -> np.ndarray:
    """The product of weights, (versions, 1, values, values, ...), axes in this order."""
    product = np.ones((3, 1, *(sizes[axis] for axis in axes)))
    for place, axis in enumerate(axes):
        product *= weights[axis].reshape(3, 1, *(-1 if place == other else 1 for other in range(len(axes))))
    return product


def fitted(truth: np.ndarray, pairs: list[tuple[int, int]]) -> Factors:
    """Fit a model to exact tables, which must then be met."""
    tree = CliqueTree.alone(truth.ndim)
    for pair in pairs:
        tree = tree.joined(*pair)

    def table(*kept: int) -> np.ndarray:
        return truth.sum(axis=tuple(axis for axis in range(truth.ndim) if axis not in kept))

    measured = Measurements(
        total=float(truth.sum()),
        total_variance=0.0,
        ones=tuple(OneWay(values=table(one), variance=1e-6) for one in range(truth.ndim)),
        bins=tuple(np.arange(size) for size in truth.shape),
        pairs=tuple(Pair(first=a, second=b, values=table(a, b), variance=1e-6) for a, b in pairs),
    )
    return fit(measured, tree, sweeps=200)


def product(factors: Factors, sizes: list[int]) -> np.ndarray:
    dense = np.ones(sizes)
    for table, clique in zip(factors.tables, factors.tree.cliques, strict=True):
        dense = dense * table[0].reshape([sizes[one] if one in clique else 1 for one in range(len(sizes))])
    for link in factors.tree.links:
        shared = factors.tree.separator(link)
        table = factors.of(shared)[0]
        dense = dense / np.maximum(table.reshape([sizes[o] if o in shared else 1 for o in range(len(sizes))]), 1e-300)
    parts = len(factors.tree.cliques) - len(factors.tree.links)
    return dense / factors.totals[0] ** (parts - 1)


@given(st.data())
def test_disjoint_boxes_hold_exactly_the_cells_where_a_condition_is_true(data: st.DataObject) -> None:
    attributes = tuple(Attribute(name=name, domain=Values(("0", "1", "2")), missing=True) for name in "abc")
    table = ExactTable(Schema(name="s", attributes=attributes), np.zeros((4, 4, 4)))
    leaf = st.builds(
        lambda place, values: Membership(AttributeColumn(place), tuple(Literal("text", value) for value in values)),
        st.integers(0, 2),
        st.lists(st.sampled_from("012"), min_size=1),
    )
    condition = data.draw(
        st.recursive(
            leaf,
            lambda inner: st.one_of(
                st.builds(lambda terms: Operation("AND", tuple(terms)), st.lists(inner, min_size=1, max_size=3)),
                st.builds(lambda terms: Operation("OR", tuple(terms)), st.lists(inner, min_size=1, max_size=3)),
                st.builds(lambda term: Operation("NOT", (term,)), inner),
            ),
            max_leaves=6,
        )
    )
    held = np.zeros((4, 4, 4))
    for box in find_boxes(condition, Axes(table)):
        held += np.einsum("i,j,k->ijk", *(box.get(place, np.ones(4)).astype(float) for place in range(3)))
    cells = [[[holds(condition, (i, j, k)) for k in range(4)] for j in range(4)] for i in range(4)]

    assert held.tolist() == [[[float(cell is True) for cell in line] for line in plane] for plane in cells]


def holds(condition: Expression, cell: tuple[int, ...]) -> bool | None:
    """What SQL says of a condition for one cell; None is neither true nor false. Code 3 is a missing value."""
    if isinstance(condition, Membership) and isinstance(condition.operand, AttributeColumn):
        code = cell[condition.operand.attribute]
        return None if code == 3 else any(str(code) == value.value for value in condition.values)  # type: ignore[union-attr]
    assert isinstance(condition, Operation)
    truths = [holds(operand, cell) for operand in condition.operands]
    if condition.sign == "NOT":
        return None if truths[0] is None else not truths[0]
    decisive = condition.sign == "OR"
    return decisive if decisive in truths else None if None in truths else not decisive
