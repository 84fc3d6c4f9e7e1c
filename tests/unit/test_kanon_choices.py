"""The ways to generalise: what each level costs, against all nodes; the pictures; what a table is good for."""

from __future__ import annotations

import dataclasses
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sudare as sd
from sudare.compare.task import measure_accuracy
from sudare.counts import Counts
from sudare.errors import Infeasible, SudareError
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.check import NodeChecker
from sudare.methods.kanon.choices import Choices, measure_choices, measure_tasks
from sudare.methods.kanon.criteria import Closeness, DistinctDiversity
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.recode import Pieces
from sudare.requests.choices import compare_task, render_choices
from sudare.schema import Attribute, Schema, Unit, Values
from sudare.text import use_language
from tests.unit.kanon_tables import halving, problem_of, random_counts

CASES = [
    (seed, share, criteria)
    for seed in range(6)
    for share in (Fraction(0), Fraction(1, 10))
    for criteria in ((), (DistinctDiversity(attribute="s", l=2),), (Closeness(attribute="s", t=0.3),))
]


def best_at(problem: Problem, axis: int, level: int) -> float | None:
    """The least score of all nodes that have a level, each checked by itself."""
    checker = NodeChecker(problem, is_exact=True)
    checks = (checker.check(node) for node in problem.lattice.nodes() if node[axis] == level)
    return min((check.score for check in checks if check.is_feasible), default=None)


@pytest.mark.parametrize(("seed", "share", "criteria"), CASES)
def test_the_cost_of_a_level_is_that_of_the_best_node_that_has_it(seed: int, share: Fraction, criteria: tuple) -> None:  # type: ignore[type-arg]
    problem = problem_of(random_counts(seed, bits=(2, 2, 1), rows=80), *criteria, k=4, max_suppressed=share)
    found = measure_choices(problem)

    assert len(found.levels) == sum(height + 1 for height in problem.lattice.heights)
    for choice in found.levels:
        expected = best_at(problem, choice.axis, choice.level)
        assert choice.is_proven
        assert (None if choice.best is None else choice.best.score) == pytest.approx(expected)


def test_a_way_that_is_listed_can_be_picked_and_published() -> None:
    counts = random_counts(3, rows=200)
    found = measure_choices(problem_of(counts, k=4, max_suppressed=Fraction(1, 20)))
    for way in found.ways():
        levels = tuple(f"{name}={level}" for name, level in zip(found.lattice.names, way.node, strict=True))
        outcome = KAnonymity(k=4, max_suppressed="0.05", levels=levels).outcome(counts, ("a", "b", "c"))

        assert outcome.recoded.suppressed_rows == way.suppressed_rows
        assert int(outcome.recoded.class_sizes.min()) >= 4


def test_a_promise_that_no_way_keeps_is_refused() -> None:
    with pytest.raises(Infeasible):
        measure_choices(problem_of(random_counts(1, rows=60), DistinctDiversity(attribute="s", l=9), k=4))


def test_time_that_is_up_is_told_and_nothing_is_claimed_as_proven() -> None:
    counts = random_counts(2, bits=(3, 3, 3, 2), rows=3000)
    found = measure_choices(problem_of(counts, k=30, max_suppressed=Fraction(1, 20), deadline_seconds=1e-9))

    assert not found.is_proven
    assert not found.nodes
    assert "Time was up" in " ".join(map(str, found.describe_proof()))


def page_of(found: Choices, language: str) -> str:
    with use_language(language):
        return render_choices(found, Schema(name="people", attributes=found.lattice.attributes))


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_page_names_levels_by_their_labels(language: str) -> None:
    found = measure_choices(problem_of(random_counts(3, rows=200), k=4))
    page = page_of(found, language)

    assert "a/0/1" in page  # the label of a group
    assert "0,0,1" not in page
    assert page.count('class="taken"') == 3  # a box for the chosen level of each attribute
    assert page.count("<svg") == 2


def signal() -> tuple[Counts, Problem]:
    """A task that the fine levels of `a` decide and the coarse ones do not."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 8, 4000), rng.integers(0, 4, 4000)
    task = (a % 2) ^ (rng.random(4000) < 0.1)
    schema = Schema(name="t", attributes=(halving("a", 3), halving("b", 2), halving("y", 1, "plain")))
    counts = Counts.from_columns(schema, np.column_stack([a, b, task]))
    return counts, problem_of(counts.project(["a", "b"]), k=200)


def test_a_recoding_that_hides_what_a_task_needs_is_seen_in_its_accuracy() -> None:
    counts, problem = signal()
    found = measure_tasks(measure_choices(problem), Pieces.of(counts, ["a", "b"], ["y"]), problem)
    coarse = [way.node for way in found.ways() if way.node[0] > 0 and way.node in found.tasks]
    fine = [way.node for way in found.ways() if way.node[0] == 0 and way.node in found.tasks]

    assert found.tasks[None].accuracy == pytest.approx(0.9, abs=0.02)
    assert found.tasks[None].commonest == pytest.approx(0.5, abs=0.03)
    assert coarse
    assert fine
    assert all(found.tasks[node].accuracy < 0.56 for node in coarse)
    assert all(found.tasks[node].accuracy > 0.88 for node in fine)


def test_rows_left_out_teach_nothing_and_count_as_unknown() -> None:
    target = np.array([0, 1, 1] * 100)
    half = np.arange(300) < 150

    assert measure_accuracy([target], target).accuracy == 1.0
    assert measure_accuracy([target], target, is_kept=half).accuracy == pytest.approx(0.5 + 0.5 * 2 / 3, abs=0.01)


def test_a_task_without_scikit_learn_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)

    with pytest.raises(SudareError, match=r"sudare\[utility\]"):
        measure_accuracy([np.array([0, 1] * 20)], np.array([0, 1] * 20))


@pytest.mark.parametrize("is_left_out", [False, True])
def test_a_release_of_persons_is_compared_although_other_rows_of_them_are_chosen_now(
    tmp_path: Path, is_left_out: bool
) -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "who": [str(number) for number in rng.integers(0, 60, 400)],
            "a": [f"a{code}" for code in rng.integers(0, 2, 400)],
            "y": [f"y{code}" for code in rng.integers(0, 3, 400)],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    attributes = (
        dataclasses.replace(halving("a", 1), domain=Values(("a0", "a1"))),
        Attribute(name="y", domain=Values(("y0", "y1", "y2"))),
    )
    schema = Schema(name="t", attributes=attributes, unit=Unit(kind="person", column="who", max_rows=2))
    with sd.open(tmp_path / "t.parquet", schema) as source:
        KAnonymity(k=2).publish(source).save(tmp_path / "release")
    if is_left_out:
        pq.write_table(table.slice(0, 20), tmp_path / "t.parquet")
        with pytest.raises(SudareError, match="fewer rows"):
            compare_task(tmp_path / "release", tmp_path / "t.parquet", schema, task="y")
        return
    compared = [compare_task(tmp_path / "release", tmp_path / "t.parquet", schema, task="y") for _ in range(8)]

    assert all(0 < comparison.after.accuracy < 1 for comparison in compared)
