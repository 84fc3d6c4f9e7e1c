"""Local recoding from the top: every row once, in a class that keeps the promise, under a label with its value."""

from __future__ import annotations

import itertools
import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.counts import Counts
from sudare.methods.kanon import KAnonymity, top_down
from sudare.methods.kanon.criteria import Closeness, Criterion, DistinctDiversity, MinimumSize
from sudare.methods.kanon.recode import Pieces, make_class_checker, number_classes
from sudare.methods.kanon.top_down import Effort, TopDownParts, specialise
from sudare.methods.kanon.value_tree import ClassRule, ValueTree
from sudare.schema import Attribute, Schema, TableHierarchy, Values
from tests.unit.kanon_tables import attribute, random_counts

QUASI = ("a", "b", "c")


def recode(
    counts: Counts, k: int, criteria: tuple[Criterion, ...], effort: Effort, steps: int | None = None
) -> tuple[Pieces, TopDownParts]:
    """Recode; with `steps`, the deadline passes when it is asked for the last of them."""
    pieces = Pieces.of(counts, QUASI, ["s"])
    checker = make_class_checker((MinimumSize(k=k), *criteria), pieces)
    rule = ClassRule(pieces=pieces, k=k, check_classes=checker if criteria else None)
    asked = itertools.count(1)
    return pieces, specialise(rule, effort=effort, is_late=lambda: steps is not None and next(asked) >= steps)


def class_of_labels(pieces: Pieces, parts: TopDownParts) -> np.ndarray:
    """Number the classes as a reader of the release sees them: by levels and groups."""
    groups = [
        tree.groups[parts.levels[:, axis], np.searchsorted(tree.values, pieces.codes[:, axis])]
        for axis, tree in enumerate(parts.trees)
    ]
    return number_classes(np.column_stack([parts.levels, *groups]))


@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(20, 200),
    k=st.integers(2, 7),
    criteria=st.sampled_from(
        [(), (DistinctDiversity(attribute="s", l=2),), (Closeness(attribute="s", t=0.3, distance="ordered"),)]
    ),
    effort=st.sampled_from(["quick", "best"]),
    steps=st.none() | st.integers(1, 12),
)
@settings(max_examples=40, deadline=None)
def test_every_class_keeps_the_promise_and_every_combination_has_one_label(
    seed: int, rows: int, k: int, criteria: tuple[Criterion, ...], effort: Effort, steps: int | None
) -> None:
    """Whenever a deadline passes; the best effort divides anew as often as the quick one and once more."""
    counts = random_counts(seed, bits=(3, 2, 2), rows=rows)
    powers, redivisions = top_down.EFFORTS["best"]
    with patch.dict(top_down.EFFORTS, best=(powers, redivisions[:4])):
        pieces, parts = recode(counts, k, criteria, effort, steps)
    class_of = class_of_labels(pieces, parts)
    satisfied = make_class_checker((MinimumSize(k=k), *criteria), pieces)(pieces, class_of, int(class_of.max()) + 1)
    combinations = number_classes(pieces.codes[:, :3])
    labels_of_combination = len(np.unique(np.column_stack([combinations, class_of]), axis=0))

    assert satisfied.all()
    assert labels_of_combination == len(np.unique(combinations))


def test_the_later_the_deadline_the_finer_the_classes_and_at_once_all_is_one_class() -> None:
    counts = random_counts(5, bits=(3, 2, 2), rows=400)
    sizes = [len(np.unique(recode(counts, 5, (), "quick", steps)[1].part_of)) for steps in (1, 3, 6, None)]

    assert sizes[0] == 1
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[1] > 1


def test_rare_values_wait_and_meet_instead_of_dragging_others_up() -> None:
    ages = attribute("a", [[code // 5 for code in range(20)], [0] * 20])
    towns = attribute("b", [[0] * 10])
    columns = [(age, town) for age in range(20) for town in range(10) for _ in range(1 if age == 7 else 6)]
    counts = Counts.from_columns(Schema(name="t", attributes=(ages, towns)), np.array(columns))
    recoded = KAnonymity(k=5, recoding="local").outcome(counts, ("a", "b")).recoded
    is_rare = recoded.pieces.codes[:, 0] == 7
    sizes = recoded.label_sizes

    assert (sizes[~is_rare] == 1).all()
    assert (sizes[is_rare, 0] == 1).all()  # the ten rows of that age share a class over all towns


def test_an_attribute_without_hierarchy_has_its_values_and_everything() -> None:
    tree = ValueTree.of(Attribute(name="sex", domain=Values(("F", "M", "X"))), np.array([0, 2]))

    assert tree.labels(np.array([0, 2]), np.array([0, 1])).tolist() == ["F", "*"]
    assert tree.losses.tolist() == [[0, 0], [1, 1]]


def test_a_hierarchy_whose_top_has_several_groups_gets_one_above_them() -> None:
    paths = [("1", "low"), ("2", "low"), ("3", "high")]
    hierarchy = TableHierarchy.from_paths(paths)
    tree = ValueTree.of(Attribute(name="n", domain=Values(("1", "2", "3")), hierarchy=hierarchy), np.array([0, 1, 2]))

    assert tree.labels(np.array([0, 1, 2]), np.array([1, 2, 0])).tolist() == ["low", "*", "3"]
    assert tree.sizes.tolist() == [[1, 1, 1], [2, 2, 1], [3, 3, 3]]


def test_a_column_of_very_many_values_takes_memory_by_the_rows_and_not_by_classes_times_values() -> None:
    count = 20_000
    wide = Attribute(name="id", domain=Values(tuple(map(str, range(count)))), role="quasi")
    rng = np.random.default_rng(3)
    small = attribute("b", [[code // 8 for code in range(64)], [0] * 64])
    table = np.column_stack([rng.integers(0, count, 40_000), rng.integers(0, 64, 40_000)])
    counts = Counts.from_columns(Schema(name="t", attributes=(wide, small)), table)
    pieces = Pieces.of(counts, ("id", "b"))
    tracemalloc.start()
    specialise(ClassRule(pieces=pieces, k=3, check_classes=None))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 500 * 8 * len(pieces.weights)


@pytest.mark.parametrize("effort", ["quick", "best"])
def test_the_same_table_gives_the_same_classes(effort: Effort) -> None:
    counts = random_counts(5, bits=(3, 2, 2), rows=300)
    first, second = (recode(counts, 3, (), effort)[1] for _ in range(2))

    assert first.part_of.tolist() == second.part_of.tolist()


def test_more_effort_never_loses_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few moves: the best of them are kept, however many are tried."""
    monkeypatch.setattr(top_down, "MOVE_WORK", {"quick": 100_000, "best": 300_000})
    monkeypatch.setattr(top_down, "MOVE_TURNS", {"quick": 3, "best": 9})
    losses = []
    for seed in range(6):
        counts = random_counts(seed, bits=(3, 2, 2), rows=100)
        quick, best = (
            KAnonymity(k=4, recoding="local", effort=effort).outcome(counts, QUASI).recoded.coarseness()
            for effort in ("quick", "best")
        )
        losses.append([sum(np.log1p(list(coarse.values()))) for coarse in (quick, best)])

    assert all(best <= quick + 1e-3 for quick, best in losses)  # coarseness is rounded to four digits
    assert any(best < quick - 1e-3 for quick, best in losses)
