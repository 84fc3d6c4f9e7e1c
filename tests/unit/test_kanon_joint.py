"""Several releases of one table: joint k is the smallest intersection, and a bound on it is kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sudare as sd
from sudare.counts.relabelling import SUPPRESSED
from sudare.errors import Infeasible, ParameterError, SourceError
from sudare.methods.kanon import top_down
from sudare.methods.kanon.history import History
from sudare.methods.kanon.joint import ReleasedClasses, bound_joint, read_classes
from sudare.methods.kanon.recode import Pieces
from sudare.methods.kanon.request import Request
from sudare.schema import Attribute, Schema, TableHierarchy, Values
from tests.unit.test_kanon import SCHEMA, rows


def ages(counts: dict[int, int]) -> tuple[pa.Table, Schema]:
    table = pa.table({"age": [str(age) for age, count in counts.items() for _ in range(count)]})
    domain = Values(tuple(str(age) for age in sorted(counts)), is_ordered=True)
    return table, Schema(name="t", attributes=(Attribute(name="age", domain=domain, role="quasi"),))


def grant(table: pa.Table, schema: Schema, option: dict[str, Any], history: History, out: Path, **more: Any) -> Any:
    request = Request.from_dict({"request": {"k": 5}, "option": [option]}, schema)
    method = sd.KAnonymity(k=5, **more)
    with sd.open(table, schema) as source:
        made = method.perform(source, method.plan(schema, request=request, history=history))
        made.release.save(out)
        method.remember(made)
    return made.payload.steward.joint


def test_18_and_over_beside_20_and_over_leaves_two_people_and_is_refused(tmp_path: Path) -> None:
    table, schema = ages({10: 40, 18: 1, 19: 1, 30: 40})
    history = History.open(tmp_path / "h.jsonl")
    first = grant(table, schema, {"age": [["10"], ["18", "19", "30"]]}, history, tmp_path / "one")
    over_20 = {"age": [["10", "18", "19"], ["30"]]}

    assert first is None
    with pytest.raises(Infeasible, match="fewer than 5 rows would stay alike"):
        grant(table, schema, over_20, history, tmp_path / "two", joint_k=5)
    assert not (tmp_path / "two").exists()
    assert grant(table, schema, over_20, history, tmp_path / "two").k == 2
    assert len(read_classes(history.classes_path)) == 2


@given(
    seed=st.integers(0, 1000),
    count=st.integers(40, 200),
    options=st.lists(
        st.sampled_from(
            [
                {},
                {"recoding": "local"},
                {"recoding": "mondrian"},
                {"max_suppressed": "0.2"},
                {"by": ("place", "disease")},
            ]
        ),
        min_size=2,
        max_size=3,
    ),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_joint_k_is_what_matching_the_published_rows_gives(
    seed: int, count: int, options: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, table = tmp_path_factory.mktemp("joint"), rows(seed, count)
    numbered = table.append_column("row", pa.array([str(number) for number in range(count)]))
    history, joint = History.open(place / "h.jsonl"), None
    labels: dict[str, dict[int, tuple[Any, ...]]] = {}
    for number, option in enumerate(options):
        method = sd.KAnonymity(k=3, others=True, **option)
        with sd.open(numbered, SCHEMA) as source, patch.dict(top_down.MOVE_WORK, quick=150_000):
            try:
                made = method.perform(source, method.plan(SCHEMA, history=history))
            except Infeasible:
                return
            made.release.save(place / str(number))
            method.remember(made)
        quasi = made.release.certificate.guarantee["quasi"]
        columns = ", ".join(f'"{name}"' for name in quasi)
        records = place / str(number) / "records.parquet"
        found = duckdb.connect().execute(f"SELECT row, {columns} FROM '{records}'").fetchall()
        for row, *values in found:
            labels.setdefault(row, {})[number] = tuple(values)
        joint = made.payload.steward.joint
    together = Counter(tuple(seen.get(number) for number in range(len(options))) for seen in labels.values())

    assert joint is not None
    assert joint.k == min(together.values())


def test_rows_divided_at_random_give_a_bound_and_more_than_it_is_refused(tmp_path: Path) -> None:
    history = History.open(tmp_path / "h.jsonl")
    relaxed, plain, bounded = (
        sd.KAnonymity(k=3, **more)  # type: ignore[arg-type]
        for more in ({"recoding": "mondrian", "mondrian": "relaxed"}, {}, {"joint_k": 3})
    )
    with sd.open(rows(4, 200), SCHEMA) as source:
        relaxed.remember(relaxed.perform(source, relaxed.plan(SCHEMA, history=history)))
        joint = plain.perform(source, plain.plan(SCHEMA, history=history)).payload.steward.joint

        assert not joint.is_exact
        assert joint.k >= 1
        with pytest.raises(Infeasible, match="not certain that 3 rows stay alike"):
            bounded.perform(source, bounded.plan(SCHEMA, history=history))


def release_of(
    snapshot: list[tuple[int, ...]], names: tuple[str, ...], classes: list[int]
) -> tuple[ReleasedClasses, dict[int, int]]:
    """Write a release down as it is kept, and beside it the class of every row, which only the attacker knows."""
    counted = Counter(
        (*(row[("a", "b").index(name)] for name in names), number)
        for row, number in zip(snapshot, classes, strict=True)
    )
    both = np.array(list(counted), dtype=np.int64)
    kept = ReleasedClasses(
        schema="",
        rows=len(snapshot),
        names=names,
        codes=both[:, :-1],
        class_of=both[:, -1],
        rows_of=np.array(list(counted.values())),
    )
    return kept, dict(enumerate(classes))


def random_releases(
    rng: np.random.Generator, *, may_grow: bool, may_divide: bool
) -> tuple[Pieces, list[ReleasedClasses], list[dict[int, int]]]:
    """Two or three releases of a small table, of its first rows or all, some with rows dealt out or left out."""
    table = [tuple(row) for row in rng.integers(0, (3, 4), (int(rng.integers(8, 60)), 2)).tolist()]
    kept, known = [], []
    for number in range(int(rng.integers(2, 4))):
        grown = number and may_grow and rng.random() < 0.7
        snapshot = table[: -int(rng.integers(1, 7))] if grown else table
        names = (("a",), ("b",), ("a", "b"))[int(rng.integers(3))]
        group = rng.integers(SUPPRESSED if rng.random() < 0.3 else 0, 2, (3, 4))
        classes = [int(group[row[0] if "a" in names else 0, row[1] if "b" in names else 0]) for row in snapshot]
        if may_divide and rng.random() < 0.4:
            classes = [
                int(rng.integers(0, 2)) if row == table[0] else number
                for row, number in zip(snapshot, classes, strict=True)
            ]
        release, truth = release_of(snapshot, names, classes)
        kept.append(release)
        known.append(truth)
    attributes = tuple(
        Attribute(name=name, domain=Values(tuple(f"{name}{at}" for at in range(size))), role="quasi")
        for name, size in (("a", 3), ("b", 4))
    )
    counts = sd.Counts.from_columns(Schema(name="t", attributes=attributes), np.array(table))
    return Pieces.of(counts, ("a", "b")), kept, known


@pytest.mark.parametrize(("may_grow", "may_divide"), [(False, False), (True, False), (False, True), (True, True)])
def test_no_attacker_gets_below_the_bound_where_rows_were_added_or_divided(may_grow: bool, may_divide: bool) -> None:
    useful = 0
    for seed in range(300):
        pieces, kept, known = random_releases(np.random.default_rng(seed), may_grow=may_grow, may_divide=may_divide)
        together = Counter(tuple(truth.get(row, SUPPRESSED) for truth in known) for row in range(pieces.rows))
        sizes = [size for seen, size in together.items() if any(number != SUPPRESSED for number in seen)]
        joint = bound_joint(pieces, kept)
        assert joint.k is not None

        assert joint.k <= min(sizes, default=pieces.rows)
        if joint.is_exact:
            assert joint.k == min(sizes, default=pieces.rows)
        useful += not joint.is_exact and joint.k > 1
    assert useful > 5 or not (may_grow or may_divide)


def test_rows_that_went_away_or_values_that_changed_leave_nothing_to_claim(tmp_path: Path) -> None:
    table, schema = ages({10: 40, 18: 10, 30: 40})
    history = History.open(tmp_path / "h.jsonl")
    option = {"age": [["10"], ["18", "30"]]}
    grant(table, schema, option, history, tmp_path / "one")
    fewer = table.slice(1)
    tree = TableHierarchy.from_paths([("10", "*"), ("18", "*"), ("30", "*")])
    attribute = replace(schema.attributes[0], domain=Values(("10", "18", "30", "40"), is_ordered=True))
    other = Schema(name="t", attributes=(attribute,))
    edited = Schema(name="t", attributes=(replace(schema.attributes[0], hierarchy=tree),))

    with pytest.raises(Infeasible, match="changed or taken away"):
        grant(fewer, schema, option, history, tmp_path / "two", joint_k=5)
    with pytest.raises(Infeasible, match="columns or values that the schema has no more"):
        grant(table, other, {"age": [["10"], ["18", "30", "40"]]}, history, tmp_path / "three", joint_k=5)
    assert grant(table, edited, option, history, tmp_path / "four", joint_k=5).k == 40
    method = sd.KAnonymity(k=5, nested=True)
    with sd.open(fewer, edited) as source, pytest.raises(Infeasible, match="rows of the earlier release to nest"):
        method.perform(source, method.plan(edited, history=history))


def test_rows_that_were_added_since_are_a_group_of_their_own(tmp_path: Path) -> None:
    table, schema = ages({10: 40, 30: 40})
    history = History.open(tmp_path / "h.jsonl")
    grant(table, schema, {"age": 0}, history, tmp_path / "one")
    grown = pa.concat_tables([table, table.slice(0, 3)])
    joint = grant(grown, schema, {"age": 0}, history, tmp_path / "two")

    assert (joint.k, joint.is_exact) == (3, False)
    with pytest.raises(Infeasible, match="rows were added since"):
        grant(grown, schema, {"age": 0}, history, tmp_path / "three", joint_k=5)


def test_damaged_classes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "h.classes").write_bytes(b"no")

    with pytest.raises(SourceError, match="restore the file"):
        read_classes(tmp_path / "h.classes")


def test_a_bound_of_joint_k_that_nothing_could_check_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"joint_k \(6\) must be at most k \(5\)"):
        sd.KAnonymity(k=5, joint_k=6)
    schema = sd.Schema(name="t", attributes=(sd.Attribute(name="a", domain=sd.Values(("x", "y")), role="quasi"),))
    with pytest.raises(ParameterError, match="joint_k needs the history"):
        sd.KAnonymity(k=5, joint_k=5, recoding="local").plan(schema)
