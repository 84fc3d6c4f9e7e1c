"""Criteria: values worked out by hand, and what they refuse."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import Infeasible, ParameterError, SchemaError
from sudare.methods.kanon.criteria import (
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    MinimumSize,
    Presence,
    RecursiveDiversity,
)
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.searches import search
from sudare.methods.kanon.tuples import Classes, Tuples
from sudare.schema import Attribute, Schema, Values
from tests.unit.kanon_tables import attribute, problem_of

# nine salaries, 3k to 11k, and three classes of three: the example of the paper on t-closeness
SALARY = attribute("salary", [[code // 3 for code in range(9)], [0] * 9], "sensitive", is_ordered=True)
GROUP = attribute("group", [[0, 0, 0]])
LOW, MIXED, SPREAD = (0, 1, 2), (3, 5, 8), (4, 6, 7)


def classes_of(*values: tuple[int, ...]) -> Classes:
    rows = [[place, value] for place, group in enumerate(values) for value in group]
    counts = Counts.from_columns(Schema(name="s", attributes=(GROUP, SALARY)), rows)
    return Tuples.of(counts, ["group"], ["salary"]).classes((0,))


def test_ordered_distances_are_those_of_the_papers_example() -> None:
    far = Closeness(attribute="salary", t=0.2, distance="ordered").distances(classes_of(LOW, MIXED, SPREAD))

    assert far[0] == pytest.approx(0.375)  # {3k, 4k, 5k}; the paper's value
    assert Closeness(attribute="salary", t=0.375, distance="ordered").satisfied(classes_of(LOW, MIXED, SPREAD))[0]


def test_the_papers_other_class_is_167_thousandths_away() -> None:
    far = Closeness(attribute="salary", t=0.2, distance="ordered").distances(classes_of((3, 5, 8), LOW, SPREAD))

    assert far[0] == pytest.approx(0.167, abs=1e-3)  # {6k, 8k, 11k}


def test_equal_distance_is_total_variation() -> None:
    far = Closeness(attribute="salary", t=0.2).distances(classes_of(LOW, MIXED, SPREAD))

    assert far == pytest.approx(np.full(3, 2 / 3))


@pytest.mark.parametrize("seed", range(5))
def test_hierarchical_distance_is_the_cheapest_way_to_move(seed: int) -> None:
    from scipy.optimize import linprog

    rng = np.random.default_rng(seed)
    classes = classes_of(*(tuple(rng.integers(0, 9, 6)) for _ in range(3)))
    joint = classes.tuples.sensitive["salary"]
    mine = np.bincount(joint.value[classes.ids[joint.tuple_of] == 0], minlength=9, weights=None) * 0.0
    np.add.at(mine, joint.value[classes.ids[joint.tuple_of] == 0], joint.weight[classes.ids[joint.tuple_of] == 0])
    cost = [0.0 if a == b else 0.5 if a // 3 == b // 3 else 1.0 for a, b in itertools.product(range(9), repeat=2)]
    sums = [
        [float(pair[side] == one) for pair in itertools.product(range(9), repeat=2)]
        for side in (0, 1)
        for one in range(9)
    ]
    plan = linprog(cost, A_eq=sums, b_eq=np.concatenate([mine / mine.sum(), joint.shares]))
    far = Closeness(attribute="salary", t=0.2, distance="hierarchical").distances(classes)

    assert far[0] == pytest.approx(plan.fun, abs=1e-9)


def test_diversities_hold_at_their_limits_and_not_beyond() -> None:
    classes = classes_of((0, 0, 1, 1), (0, 0, 0, 1), (0, 1, 2))

    assert DistinctDiversity(attribute="salary", l=3).satisfied(classes).tolist() == [False, False, True]
    assert EntropyDiversity(attribute="salary", l=2).satisfied(classes).tolist() == [True, False, True]
    assert RecursiveDiversity(attribute="salary", c=3, l=2).satisfied(classes).tolist() == [True, False, True]
    assert RecursiveDiversity(attribute="salary", c=3.1, l=2).satisfied(classes).tolist() == [True, True, True]
    assert RecursiveDiversity(attribute="salary", c=3, l=3).satisfied(classes).tolist() == [False, False, True]


def register(rows: list[int], people: list[int]) -> tuple[Counts, Counts]:
    schema = Schema(name="s", attributes=(GROUP,))
    table, whole = (Counts.from_columns(schema, [[0], [1], [2]], each) for each in (rows, people))
    return table, whole


def with_register(criterion: Presence, rows: list[int], people: list[int]) -> Problem:
    table, whole = register(rows, people)
    lattice = Lattice.of(table.schema)
    tuples = Tuples.of(table, ["group"], population=whole)
    return Problem(tuples=tuples, lattice=lattice, criteria=(criterion,), quality=QUALITIES["loss"])


def test_presence_looks_at_people_who_are_not_in_the_table() -> None:
    problem = with_register(Presence(low=0.25, high=0.75), [2, 2, 0], [4, 4, 4])
    holds = Presence(low=0.25, high=0.75).satisfied(problem.tuples.classes((0,)))

    assert holds.tolist() == [True, True, False]
    assert search(problem).node == (1,)


def test_people_who_are_not_in_the_table_do_not_count_as_a_class_of_k() -> None:
    classes = with_register(Presence(low=0, high=1), [2, 2, 0], [4, 4, 4]).tuples.classes((0,))

    assert MinimumSize(k=2).satisfied(classes).all()
    assert classes.smallest == 2


def test_presence_without_a_register_or_with_too_small_a_one_is_refused() -> None:
    with pytest.raises(ParameterError, match="register of the population"):
        Presence(low=0, high=0.5).satisfied(classes_of(LOW, MIXED, SPREAD))
    with pytest.raises(ParameterError, match="fewer persons"):
        search(with_register(Presence(low=0, high=0.5), [5, 0, 0], [4, 4, 4]))


def test_rows_left_out_do_not_mend_presence_with_a_lower_limit() -> None:
    problem = with_register(Presence(low=0.5, high=0.6), [4, 0, 0], [4, 4, 4])

    with pytest.raises(Infeasible, match="whole table"):
        search(problem)


def test_several_sensitive_attributes_are_kept_at_once() -> None:
    other = Attribute(name="salary2", domain=SALARY.domain, role="sensitive")
    schema = Schema(name="s", attributes=(GROUP, SALARY, other))
    rows = [[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 0, 2], [2, 3, 4], [2, 4, 5]]
    promises = [DistinctDiversity(attribute=name, l=2) for name in ("salary", "salary2")]
    found = search(problem_of(Counts.from_columns(schema, rows), *promises, k=2))

    assert found.node == (1,)


def test_distances_that_the_attribute_does_not_have_are_refused() -> None:
    plain = Attribute(name="salary", domain=Values(tuple("abc")), role="sensitive")
    schema = Schema(name="s", attributes=(GROUP, plain))
    classes = Tuples.of(Counts.from_columns(schema, [[0, 0], [1, 1]]), ["group"], ["salary"]).classes((0,))
    for distance, text in (("ordered", "to be ordered"), ("hierarchical", "needs a hierarchy")):
        with pytest.raises(SchemaError, match=text):
            Closeness(attribute="salary", t=0.2, distance=distance).satisfied(classes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Presence(low=0.5, high=0.4),
        lambda: DistinctDiversity(attribute="s", l=0),
        lambda: EntropyDiversity(attribute="s", l=0.5),
        lambda: RecursiveDiversity(attribute="s", c=0, l=2),
        lambda: Closeness(attribute="s", t=1.5),
        lambda: Closeness(attribute="s", t=0.5, distance="far"),  # type: ignore[arg-type]
        lambda: DistinctDiversity(attribute="other", l=2).satisfied(classes_of(LOW, MIXED, SPREAD)),
    ],
)
def test_parameters_outside_their_range_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError):
        make()


def test_criteria_say_what_they_are() -> None:
    criteria = [
        Presence(low=0, high=0.5),
        EntropyDiversity(attribute="s", l=2),
        RecursiveDiversity(attribute="s", c=2, l=3),
        Closeness(attribute="s", t=0.2),
    ]

    assert [str(one.describe()) for one in criteria] == [
        "presence in [0, 0.5]",
        "entropy l = 2 of s",
        "recursive c = 2, l = 3 of s",
        "t = 0.2 of s, equal distance",
    ]
