"""The optimum equals brute force; criteria and bounds keep what they declare; roll-up changes nothing."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.counts import Counts
from sudare.errors import Infeasible
from sudare.methods.kanon.check import NodeChecker, score_tolerance
from sudare.methods.kanon.criteria import (
    Closeness,
    Criterion,
    Distance,
    DistinctDiversity,
    EntropyDiversity,
    MinimumSize,
    Presence,
    RecursiveDiversity,
    all_satisfied,
    value_sets,
)
from sudare.methods.kanon.equal_keys import find_leaders, group_keys, number_keys
from sudare.methods.kanon.lattice import Node, is_finer
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.searches import search
from sudare.methods.kanon.tuples import Tuples
from sudare.schema import Attribute, Schema
from sudare.schema.arrays import Booleans
from tests.unit.kanon_tables import attribute, problem_of, random_counts

CRITERIA: list[tuple[Criterion, ...]] = [
    (),
    (DistinctDiversity(attribute="s", l=2),),
    (EntropyDiversity(attribute="s", l=1.7),),
    (RecursiveDiversity(attribute="s", c=1.5, l=2),),
    (Closeness(attribute="s", t=0.3),),
    (Closeness(attribute="s", t=0.2, distance="ordered"),),
    (Closeness(attribute="s", t=0.2, distance="hierarchical"),),
    (EntropyDiversity(attribute="s", l=1.5), Closeness(attribute="s", t=0.4)),
]
SHARES = [Fraction(0), Fraction(1, 20), Fraction(1, 4), Fraction(1)]
BITS = [(2, 2, 1), (1, 1, 1, 1), (3, 2), (2, 1, 2)]
tables = st.builds(
    random_counts, st.integers(0, 10**6), bits=st.sampled_from(BITS), rows=st.integers(20, 120), values=st.just(4)
)

small_tables = st.builds(
    random_counts, st.integers(0, 10**6), bits=st.sampled_from(BITS), rows=st.integers(4, 120), values=st.just(4)
)


def best(problem: Problem, method: str) -> float:
    try:
        return search(problem, method).score  # type: ignore[arg-type]
    except Infeasible:
        return float("inf")


@pytest.mark.parametrize("quality", sorted(QUALITIES))
@settings(max_examples=40, deadline=None)
@given(counts=tables, k=st.integers(2, 9), share=st.sampled_from(SHARES))
def test_the_optimum_equals_brute_force_for_every_quality(counts, k, share, quality) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(counts, k=k, quality=quality, max_suppressed=share)

    assert best(problem, "auto") == pytest.approx(best(problem, "exhaustive"), rel=1e-12)


@pytest.mark.parametrize("quality", sorted(QUALITIES))
@pytest.mark.parametrize("method", ["auto", "pak"])
@settings(max_examples=25, deadline=None)
@given(counts=tables, k=st.integers(2, 9), share=st.sampled_from(SHARES))
def test_of_equal_scores_the_finer_node_is_taken_by_every_search(counts, k, share, quality, method) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(counts, k=k, quality=quality, max_suppressed=share)
    checker = NodeChecker(problem, is_exact=True)
    checks = [one for one in map(checker.check, problem.lattice.nodes()) if one.is_feasible]
    least = min(one.score for one in checks)
    equal = [one.node for one in checks if one.score <= least + score_tolerance(least)]

    assert search(problem, method).node == min(equal, key=lambda node: (sum(node), node))  # type: ignore[arg-type]


def test_a_level_that_changes_nothing_is_not_climbed() -> None:
    twice = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 0]]
    schema = Schema(name="twice", attributes=(attribute("a", twice), attribute("b", twice), attribute("c", twice)))
    codes = np.random.default_rng(1).integers(0, 4, (100, 3))
    problem = problem_of(Counts.from_columns(schema, codes), k=5)
    nodes = {method: search(problem, method).node for method in ("auto", "pak", "ola", "flash", "exhaustive")}

    assert set(nodes.values()) == {nodes["exhaustive"]}
    assert not {1, 2} & set(nodes["exhaustive"])


@settings(max_examples=150, deadline=None)
@given(
    counts=tables,
    criteria=st.sampled_from(CRITERIA),
    k=st.integers(2, 5),
    share=st.sampled_from(SHARES),
    quality=st.sampled_from(["loss", "discernability"]),
)
def test_the_optimum_equals_brute_force_for_every_criterion(counts, criteria, k, share, quality) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(counts, *criteria, k=k, quality=quality, max_suppressed=share)

    assert best(problem, "auto") == pytest.approx(best(problem, "exhaustive"), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    low=st.sampled_from([0, 0.1, 0.3]),
    high=st.sampled_from([0.6, 0.8, 1]),
    share=st.sampled_from(SHARES),
)
def test_the_optimum_equals_brute_force_with_a_register(seed: int, low: float, high: float, share: Fraction) -> None:
    register = random_counts(seed, rows=200)
    drawn = np.random.default_rng(seed).binomial(register.values, 0.5)
    table = Counts.build(register.schema, register.codes, drawn)
    problem = problem_of(table, Presence(low=low, high=high), k=2, max_suppressed=share)
    tuples = Tuples.of(table, problem.lattice.names, population=register)
    problem = dataclasses.replace(problem, tuples=tuples)

    assert best(problem, "auto") == pytest.approx(best(problem, "exhaustive"), rel=1e-12)


@pytest.mark.parametrize("method", ["pak", "ola", "incognito", "flash"])
@settings(max_examples=25, deadline=None)
@given(counts=tables, criteria=st.sampled_from(CRITERIA), k=st.integers(2, 6))
def test_the_searches_of_the_literature_find_the_optimum_without_suppression(counts, criteria, k, method) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(counts, *criteria, k=k)

    assert best(problem, method) == pytest.approx(best(problem, "exhaustive"), rel=1e-12)


@pytest.mark.parametrize("method", ["pak", "ola", "incognito", "flash", "datafly"])
@settings(max_examples=20, deadline=None)
@given(counts=tables, criteria=st.sampled_from(CRITERIA), share=st.sampled_from(SHARES))
def test_no_search_hands_back_a_node_that_breaks_the_promise_or_claims_too_much(
    counts, criteria, share, method
) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(counts, *criteria, k=3, max_suppressed=share)
    optimum = best(problem, "exhaustive")
    try:
        found = search(problem, method)  # type: ignore[arg-type]
    except Infeasible:
        return
    check = NodeChecker(problem).check(found.node)

    assert check.is_feasible
    assert found.lower_bound <= optimum * (1 + 1e-12)
    assert not found.is_optimal or found.score <= optimum * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(counts=tables, criteria=st.sampled_from(CRITERIA), share=st.sampled_from(SHARES))
def test_what_a_check_concludes_for_other_nodes_is_true(counts, criteria, share) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(counts, *criteria, k=3, max_suppressed=share)
    checker = NodeChecker(problem)
    checks = [checker.check(node) for node in problem.lattice.nodes()]
    for one in checks:
        finer = [other for other in checks if is_finer(other.node, one.node)]
        coarser = [other for other in checks if is_finer(one.node, other.node)]

        assert not (one.excludes_finer and any(other.is_feasible for other in finer))
        assert not (one.implies_coarser and not all(other.is_feasible for other in coarser))


@pytest.mark.parametrize("quality", sorted(QUALITIES))
@settings(max_examples=25, deadline=None)
@given(counts=small_tables, criteria=st.sampled_from(CRITERIA[:4]))
def test_bounds_stay_below_the_scores_they_bound(counts, criteria, quality) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(counts, *criteria, k=3, quality=quality, max_suppressed=1)
    checker = NodeChecker(problem, is_exact=True)
    checks = [checker.check(node) for node in problem.lattice.nodes()]
    score_tolerance = 1 + 1e-9
    for low in checks:
        above = [one for one in checks if is_finer(low.node, one.node)]
        least = min(one.score for one in above) * score_tolerance

        assert checker.measure.lower_bound(low.node) <= least
        assert low.coarser_bound <= least
        for high in above:
            inside = min(one.score for one in above if is_finer(one.node, high.node)) * score_tolerance
            judged = checker.judge_classes(high.node)
            fine = checker.judge_classes(low.node).classes
            assert checker.measure.bound_with_loss(low.node, checker.certain_loss(high.node)) <= inside
            assert checker.measure.box_bound(fine, judged.classes, judged.lost) <= inside


@settings(max_examples=40, deadline=None)
@given(
    counts=small_tables, share=st.sampled_from([Fraction(1, 5), Fraction(1)]), order=st.randoms(use_true_random=False)
)
def test_the_tuples_found_among_those_of_finer_nodes_are_those_of_the_lost_classes(counts, share, order) -> None:  # type: ignore[no-untyped-def]
    problem = problem_of(counts, k=3, max_suppressed=share)
    checker = NodeChecker(problem)
    nodes = list(problem.lattice.nodes())
    order.shuffle(nodes)
    for node in nodes:
        checker.check(node)
        judged = checker.judge_classes(node)
        expected = np.flatnonzero(judged.lost[judged.classes.ids])

        assert np.array_equal(np.sort(checker.lost_tuples.find(judged)), expected)


@pytest.mark.parametrize("quality", ["discernability", "average class size"])
@pytest.mark.parametrize("seed", range(40))
def test_the_optimum_equals_brute_force_where_one_class_is_most_of_the_table(quality: str, seed: int) -> None:
    counts = random_counts(seed, bits=(2, 2), rows=3 + seed % 15, values=2)
    problem = problem_of(counts, k=2 + seed % 7, quality=quality, max_suppressed=1)

    assert best(problem, "auto") == pytest.approx(best(problem, "exhaustive"), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(counts=tables, data=st.data())
def test_rolled_up_classes_are_those_of_the_tuples(counts, data) -> None:  # type: ignore[no-untyped-def]
    tuples, lattice = (problem := problem_of(counts)).tuples, problem.lattice
    fine = tuple(data.draw(st.integers(0, height)) for height in lattice.heights)
    coarse = tuple(data.draw(st.integers(low, high)) for low, high in zip(fine, lattice.heights, strict=True))
    direct, rolled = tuples.classes(coarse), tuples.classes(coarse, tuples.classes(fine))

    place = direct.ids[rolled.first]

    assert np.array_equal(np.sort(place), np.arange(direct.count))
    assert np.array_equal(direct.sizes[place], rolled.sizes)
    assert np.array_equal(np.bincount(direct.ids, weights=tuples.weights), direct.sizes)
    assert np.array_equal(direct.ids[direct.first], np.arange(direct.count))


@settings(max_examples=80, deadline=None)
@given(keys=st.lists(st.integers(0, 50), max_size=60), places=st.sampled_from([51, 10**6, 2**62]))
def test_keys_are_grouped_as_unique_does_however_large_they_may_be(keys: list[int], places: int) -> None:
    key = np.array(keys, dtype=np.int64)
    values, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    found = group_keys(key, places)

    assert np.array_equal(key[found.first], values)
    assert np.array_equal(found.ids, inverse)
    assert np.array_equal(found.totals(np.ones_like(key)), counts)


@settings(max_examples=80, deadline=None)
@given(keys=st.lists(st.integers(0, 50), max_size=60), places=st.sampled_from([51, 10**6, 2**62]))
def test_the_leader_of_a_key_is_one_of_its_equals_and_leads_itself(keys: list[int], places: int) -> None:
    key = np.array(keys, dtype=np.int64)
    lead = find_leaders(key, places).copy()
    numbers, first = number_keys(key, places)

    assert np.array_equal(key[lead], key)
    assert np.array_equal(lead[lead], lead)
    assert len(set(lead.tolist())) == len(set(keys))
    assert sorted(key[first].tolist()) == sorted(set(keys))
    assert np.array_equal(numbers[first], np.arange(first.size))
    assert len(set(zip(numbers.tolist(), keys, strict=True))) == len(set(keys))


def _failing(checker: NodeChecker, node: Node) -> Booleans:
    look = checker.judge_classes(node)
    return look.failing[look.classes.ids]


def test_a_growing_criterion_is_one_whose_suppressed_rows_shrink() -> None:
    criteria = {type(one): one for group in CRITERIA for one in group} | {MinimumSize: MinimumSize(k=3)}
    broken: set[str] = set()
    for seed in range(40):
        counts = random_counts(seed)
        for one in criteria.values():
            checker = NodeChecker(problem_of(counts, one, k=None, max_suppressed=1))
            lattice = checker.problem.lattice
            for node in lattice.nodes():
                here = _failing(checker, node)
                for above in lattice.coarser(node):
                    there = _failing(checker, above)
                    if (there & ~here).any():
                        broken.add(type(one).__name__)

    assert broken == {type(one).__name__ for one in criteria.values() if not one.is_monotone}


@given(counts=tables, t=st.sampled_from([0.1, 0.2, 0.35]), distance=st.sampled_from(get_args(Distance)))
@settings(max_examples=60, deadline=None)
def test_no_finer_node_publishes_more_rows_of_a_class_than_its_closeness_allows(
    counts: Counts, t: float, distance: Distance
) -> None:
    closeness = Closeness(attribute="s", t=t, distance=distance)
    problem = problem_of(counts, closeness, k=3)
    criteria, tuples = problem.criteria, problem.tuples
    nodes = list(problem.lattice.nodes())
    kept_by_node = {}
    for node in nodes:
        classes = tuples.classes(node)
        kept_by_node[node] = all_satisfied(criteria, classes)[classes.ids] * tuples.weights
    for node in nodes:
        classes = tuples.classes(node)
        bound = closeness.most_kept(classes, 3, ~all_satisfied(criteria, classes))
        for finer, kept in kept_by_node.items():
            if is_finer(finer, node):
                assert (np.bincount(classes.ids, weights=kept, minlength=classes.count) <= bound).all()


@given(counts=tables, data=st.data())
@settings(max_examples=60, deadline=None)
def test_values_summed_up_from_finer_classes_are_those_counted_from_the_rows(
    counts: Counts, data: st.DataObject
) -> None:
    problem = problem_of(counts, Closeness(attribute="s", t=0.3), k=3)
    tuples, lattice = problem.tuples, problem.lattice
    coarse = data.draw(st.sampled_from(list(lattice.nodes())))
    fine = data.draw(st.sampled_from([node for node in lattice.nodes() if is_finer(node, coarse)]))
    rolled = tuples.classes(coarse, tuples.classes(fine, None, ("s",)), ("s",))
    sensitive, counted = tuples.sensitive["s"], np.zeros((rolled.count, tuples.sensitive["s"].attribute.size))
    np.add.at(counted, (rolled.ids[sensitive.tuple_of], sensitive.value), sensitive.weight)

    assert rolled.value_tables["s"].tolist() == counted.tolist()


@given(seed=st.integers(0, 10**6), distance=st.sampled_from(get_args(Distance)))
@settings(max_examples=40, deadline=None)
def test_every_distance_is_one_sum_over_sets_of_values(seed: int, distance: Distance) -> None:
    problem = problem_of(random_counts(seed, values=6), k=None)
    classes = problem.tuples.classes(problem.lattice.bottom)
    closeness = Closeness(attribute="s", t=0.5, distance=distance)
    sensitive = problem.tuples.sensitive["s"]
    matrix, weight = value_sets(sensitive.attribute, distance)
    table = np.zeros((classes.count, sensitive.attribute.size))
    np.add.at(table, (classes.ids[sensitive.tuple_of], sensitive.value), sensitive.weight)
    short = sensitive.shares @ matrix - table @ matrix / classes.sizes[:, None]

    assert closeness.distances(classes) == pytest.approx(weight * np.maximum(short, 0).sum(axis=1), abs=1e-12)


def move_up_the_hierarchy(surplus: np.ndarray, attribute: Attribute) -> np.ndarray:
    """The cost of moving: in every group, from the leaves up, the surplus of children goes to those that miss some."""
    cost, hierarchy = np.zeros(surplus.shape[0]), attribute.hierarchy
    if hierarchy is None:
        return cost
    lower, lower_group = surplus, np.arange(attribute.size)
    for level in range(1, hierarchy.height + 1):
        upper_group = hierarchy.lift(np.arange(attribute.size), level)
        parent = np.empty(lower.shape[1], dtype=np.int64)
        parent[lower_group] = upper_group
        adds = np.zeros((lower.shape[1], hierarchy.size(level)))  # (groups of the level below, groups of the level)
        adds[np.arange(parent.size), parent] = 1
        spare, short = np.maximum(lower, 0) @ adds, np.maximum(-lower, 0) @ adds
        cost += np.minimum(spare, short).sum(axis=1) * (level / hierarchy.height)
        lower, lower_group = lower @ adds, upper_group
    cost += np.abs(lower).sum(axis=1) / 2  # tops of several groups are 1 apart
    return cost


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_hierarchical_distance_is_the_cost_of_moving(seed: int) -> None:
    problem = problem_of(random_counts(seed, values=6), k=None)
    classes = problem.tuples.classes(problem.lattice.bottom)
    sensitive = problem.tuples.sensitive["s"]
    table = np.zeros((classes.count, sensitive.attribute.size))
    np.add.at(table, (classes.ids[sensitive.tuple_of], sensitive.value), sensitive.weight)
    cost = move_up_the_hierarchy(table / classes.sizes[:, None] - sensitive.shares, sensitive.attribute)

    assert Closeness(attribute="s", t=0.5, distance="hierarchical").distances(classes) == pytest.approx(cost, abs=1e-12)
